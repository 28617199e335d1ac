// SPDX-License-Identifier: BSD-2-Clause

package reader

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"google.golang.org/protobuf/proto"

	"ringtail/reader/wire"
)

// The frame with another header, and the checksum that is right for it.
func resealed(frame []byte, change func(header []byte)) []byte {
	out := append([]byte(nil), frame...)
	change(out)
	crc := crc32.Update(crc32.Checksum(out[:12], castagnoli), castagnoli, out[headerBytes:])
	binary.LittleEndian.PutUint32(out[12:], crc)
	return out
}

func isRefused(t *testing.T, frame []byte, why string) {
	t.Helper()
	message, err := OpenFrame(frame)
	var broken *Damaged
	if message != nil || !errors.As(err, &broken) || !strings.Contains(err.Error(), why) {
		t.Errorf("%v and %v, not a damaged frame of which is said %q", message, err, why)
	}
}

func TestHeaderIsOfThisProtocol(t *testing.T) {
	frame := seal(&wire.Bye{Reason: "done"})
	isRefused(t, resealed(frame, func(header []byte) { header[0]++ }), "no frame of this protocol")
	isRefused(t, resealed(frame, func(header []byte) { header[1]++ }), "no frame of this protocol")
	isRefused(t, resealed(frame, func(header []byte) { header[2]++ }), "no frame of this protocol")
	isRefused(t, frame[:headerBytes-1], "are no frame")
	isRefused(t, nil, "are no frame")
	isRefused(t, append(append([]byte(nil), frame...), 0), "are announced")
	isRefused(t, frame[:len(frame)-1], "are announced")
	for at := range frame {
		wrong := append([]byte(nil), frame...)
		wrong[at] ^= 1
		isRefused(t, wrong, "")
	}
}

func TestMessageIsNoLargerThanItMayBe(t *testing.T) {
	message := &wire.Bye{Reason: strings.Repeat("x", bytesMax-4)}
	if size := proto.Size(message); size != bytesMax {
		t.Fatalf("it has %d bytes", size)
	}
	if _, err := OpenFrame(seal(message)); err != nil {
		t.Error(err)
	}
	message.Reason += "x"
	isRefused(t, seal(message), "at most")
	frame := seal(&wire.Bye{Reason: "done"})
	isRefused(t, resealed(frame, func(header []byte) { header[8]-- }), "at most")
}

// A type that nobody knows may be of a newer daemon. One that is known has its place, which is not in a stream.
func TestTypesOfFrames(t *testing.T) {
	message, err := OpenFrame(sealRaw(200, []byte{1, 2, 3}))
	if message != nil || err != nil {
		t.Errorf("%v, %v", message, err)
	}
	if items, err := NewStream("").Take(nil); items != nil || err != nil {
		t.Errorf("%v, %v", items, err)
	}
	isRefused(t, sealRaw(1, nil), "no place in a stream")
	isRefused(t, sealRaw(30, nil), "no place in a stream")
	isRefused(t, sealRaw(11, []byte{0xff}), "the body is no Bye")
}

func compressed(t *testing.T, raw []byte, announces bool) []byte {
	t.Helper()
	var out bytes.Buffer
	writer, err := zstd.NewWriter(&out, zstd.WithSingleSegment(announces))
	if err != nil {
		t.Fatal(err)
	}
	if announces {
		return writer.EncodeAll(raw, nil)
	}
	for _, part := range [][]byte{raw[:100], raw[100:]} { // so that it cannot know the size when it writes the header
		_, _ = writer.Write(part)
		_ = writer.Flush()
	}
	_ = writer.Close()
	return out.Bytes()
}

func sealCompressed(body []byte, rawBytes int) []byte {
	return resealed(sealRaw(11, body), func(header []byte) { binary.LittleEndian.PutUint32(header[8:], uint32(rawBytes)) })
}

func TestCompressedMessage(t *testing.T) {
	raw, _ := proto.Marshal(&wire.Bye{Reason: strings.Repeat("done ", 1000)})
	body := compressed(t, raw, true)
	message, err := OpenFrame(sealCompressed(body, len(raw)))
	if bye, isBye := message.(*wire.Bye); err != nil || !isBye || len(bye.Reason) != 5000 {
		t.Errorf("%v, %v", message, err)
	}
	isRefused(t, sealCompressed(body, len(raw)+1), "another size")
	isRefused(t, sealCompressed(body, len(raw)-1), "another size")
	isRefused(t, sealCompressed(compressed(t, raw, false), len(raw)), "another size")
	isRefused(t, sealCompressed(body[:len(body)-8], len(raw)), "cannot be decompressed")
	isRefused(t, sealCompressed([]byte("no zstd"), len(raw)), "cannot be decompressed")
}

func TestRecordOfSeveralFrames(t *testing.T) {
	one, two := hello(7), catalog()
	parts, err := split(append(append([]byte(nil), one...), two...))
	if err != nil || len(parts) != 2 || !bytes.Equal(parts[0], one) || !bytes.Equal(parts[1], two) {
		t.Errorf("%d parts, %v", len(parts), err)
	}
	for _, n := range []int{1, len(one) - 1, len(one) + 1, len(one) + headerBytes} {
		_, err := split(append(append([]byte(nil), one...), two...)[:n])
		var broken *Damaged
		if !errors.As(err, &broken) {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
}
