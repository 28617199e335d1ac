// SPDX-License-Identifier: BSD-2-Clause

package reader

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"sync"

	"github.com/klauspost/compress/zstd"
	"google.golang.org/protobuf/proto"

	"ringtail/reader/wire"
)

const (
	headerBytes = 16
	magic       = 0x7452
	version     = 1
	bytesMax    = 1 << 20 // of a message, compressed or not
)

// Damaged is what cannot be read: no frame, or one that tells what cannot be.
type Damaged struct{ Why string }

func (d *Damaged) Error() string { return d.Why }

// ErrCutShort: the file ends amid a frame, or without the frame that ends it.
var ErrCutShort = errors.New("the file ends without the frame that ends it")

// Refused is an Error that the daemon sent.
type Refused struct{ Code, What, Hint string }

func (r *Refused) Error() string { return fmt.Sprintf("[%s] %s: %s", r.Code, r.What, r.Hint) }

func damaged(format string, arguments ...any) error {
	return &Damaged{fmt.Sprintf(format, arguments...)}
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Those that belong into a stream. nil: of another type, which a reader knows and which has no place there.
var messages = map[byte]func() proto.Message{
	2:  func() proto.Message { return new(wire.ServerHello) },
	3:  func() proto.Message { return new(wire.Error) },
	4:  func() proto.Message { return new(wire.Catalog) },
	7:  func() proto.Message { return new(wire.Subscribed) },
	8:  func() proto.Message { return new(wire.Batch) },
	9:  func() proto.Message { return new(wire.Watermark) },
	10: func() proto.Message { return new(wire.Gap) },
	11: func() proto.Message { return new(wire.Bye) },
	19: func() proto.Message { return new(wire.SegmentHead) },
	20: func() proto.Message { return new(wire.SegmentEnd) },
	1:  nil, 5: nil, 6: nil, 12: nil, 13: nil, 14: nil, 15: nil, 16: nil, 17: nil, 18: nil, 21: nil, 22: nil, 23: nil,
	24: nil, 25: nil, 26: nil, 27: nil, 28: nil, 29: nil, 30: nil,
}

var (
	decoder     *zstd.Decoder
	decoderOnce sync.Once
)

// The size is looked at before anything is allocated.
func expand(body []byte, rawBytes int) ([]byte, error) {
	var header zstd.Header
	if err := header.Decode(body); err != nil {
		return nil, damaged("the message cannot be decompressed: %v", err)
	}
	if !header.HasFCS || header.FrameContentSize != uint64(rawBytes) {
		return nil, damaged("the compressed message announces another size than its frame")
	}
	decoderOnce.Do(func() { // it fails for wrong options alone
		decoder, _ = zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecoderMaxMemory(bytesMax))
	})
	raw, err := decoder.DecodeAll(body, make([]byte, 0, rawBytes))
	if err != nil {
		return nil, damaged("the message cannot be decompressed: %v", err)
	}
	if len(raw) != rawBytes {
		return nil, damaged("the compressed message has %d bytes, and announces %d", len(raw), rawBytes)
	}
	return raw, nil
}

func parseHeader(data []byte) (kind byte, bodyBytes, rawBytes int, err error) {
	if binary.LittleEndian.Uint16(data) != magic || data[2] != version {
		return 0, 0, 0, damaged("no frame of this protocol begins here")
	}
	body, raw := binary.LittleEndian.Uint32(data[4:]), binary.LittleEndian.Uint32(data[8:])
	if body > raw || raw > bytesMax {
		return 0, 0, 0, damaged("it announces %d bytes for a message of %d: at most %d are allowed", body, raw, bytesMax)
	}
	return data[3], int(body), int(raw), nil
}

// OpenFrame opens all of these bytes, which are one frame. The message is nil if its type is not known, and it is to be
// passed over.
func OpenFrame(data []byte) (proto.Message, error) {
	if len(data) < headerBytes {
		return nil, damaged("%d bytes are no frame", len(data))
	}
	kind, bodyBytes, rawBytes, err := parseHeader(data)
	if err != nil {
		return nil, err
	}
	body := data[headerBytes:]
	if len(body) != bodyBytes {
		return nil, damaged("its message has %d bytes, and %d are announced", len(body), bodyBytes)
	}
	crc := crc32.Update(crc32.Checksum(data[:12], castagnoli), castagnoli, body)
	if crc != binary.LittleEndian.Uint32(data[12:]) {
		return nil, damaged("its checksum is wrong")
	}
	create, isKnown := messages[kind]
	if !isKnown {
		return nil, nil
	}
	if create == nil {
		return nil, damaged("a frame of type %d has no place in a stream", kind)
	}
	if bodyBytes != rawBytes {
		if body, err = expand(body, rawBytes); err != nil {
			return nil, err
		}
	}
	message := create()
	if err := proto.Unmarshal(body, message); err != nil {
		return nil, damaged("the body is no %s: %v", message.ProtoReflect().Descriptor().Name(), err)
	}
	return message, nil
}

// The next frame's bytes, in memory of their own; io.EOF: there is none.
func readFrame(from io.Reader) ([]byte, error) {
	data := make([]byte, headerBytes)
	if _, err := io.ReadFull(from, data); err != nil {
		if errors.Is(err, io.ErrUnexpectedEOF) {
			err = ErrCutShort
		}
		return nil, err
	}
	_, bodyBytes, _, err := parseHeader(data)
	if err != nil {
		return nil, err
	}
	data = append(data, make([]byte, bodyBytes)...)
	if _, err := io.ReadFull(from, data[headerBytes:]); err != nil {
		if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
			err = ErrCutShort
		}
		return nil, err
	}
	return data, nil
}

// The frames of a record that has several.
func split(value []byte) ([][]byte, error) {
	var parts [][]byte
	for from := bytes.NewReader(value); ; {
		data, err := readFrame(from)
		if errors.Is(err, io.EOF) {
			return parts, nil
		}
		if errors.Is(err, ErrCutShort) {
			return nil, damaged("a frame of the record is cut short")
		}
		if err != nil {
			return nil, err
		}
		parts = append(parts, data)
	}
}
