// SPDX-License-Identifier: BSD-2-Clause

package reader

import (
	"errors"
	"fmt"
	"io"

	"google.golang.org/protobuf/proto"

	"ringtail/reader/wire"
)

const runsMax = 16 // of one host: whose numbers are remembered

// Ledger of a stream.
//
//	Span = Events + Lost + Skipped + Gaps + Holes		in attempts
//	Frames = Taken + Duplicate				of Subscribed, Batch, Gap, Watermark and Bye
type Ledger struct {
	Frames, Taken, Duplicate                 uint64
	Span, Events, Lost, Skipped, Gaps, Holes uint64 // holes: missing, and no frame tells of them
	Unknown                                  uint64 // places of which nobody knows how many are missing there
}

// Residual is 0.
func (l *Ledger) Residual() int64 {
	return int64(l.Span - l.Events - l.Lost - l.Skipped - l.Gaps - l.Holes)
}

// FramesResidual is 0.
func (l *Ledger) FramesResidual() int64 { return int64(l.Frames - l.Taken - l.Duplicate) }

type runKey struct {
	boot  [16]byte
	epoch uint64
}

type place struct {
	first, end uint64
	reason     string
}

// numbers of one run: for each CPU the number that is expected next.
type numbers struct {
	next        map[uint32]uint64
	unknown     map[uint32]place // by CPU: where the last gap of no size is
	watermarkNs uint64
	used        uint64
}

// Stream has the frames of one host, in their order, as items: each once.
type Stream struct {
	Ledger  Ledger
	IsWhole bool   // the last frame was an end
	host    string // empty: what it calls itself
	run     *Run
	catalog map[uint32]*Probe
	numbers *numbers
	runs    map[runKey]*numbers
	clock   uint64
}

// NewStream: `host` is its name, where that is known from elsewhere; empty: what the host calls itself.
func NewStream(host string) *Stream { return &Stream{host: host, runs: map[runKey]*numbers{}} }

// Take has the items that a message of OpenFrame makes. An error changes nothing.
func (s *Stream) Take(message proto.Message) ([]Item, error) {
	switch message.(type) {
	case nil:
		return nil, nil
	case *wire.ServerHello, *wire.SegmentHead, *wire.Error:
	default:
		if s.run == nil {
			return nil, damaged("a %s comes before the hello", message.ProtoReflect().Descriptor().Name())
		}
	}
	s.IsWhole = false
	switch m := message.(type) {
	case *wire.ServerHello:
		return s.takeHello(m)
	case *wire.Error:
		if m.Code != "ack-beyond" { // nothing was changed, and the stream goes on
			return nil, &Refused{m.Code, m.What, m.Hint}
		}
	case *wire.Catalog:
		catalog, err := readCatalog(m)
		if err == nil {
			s.catalog = catalog
		}
		return nil, err
	case *wire.Subscribed:
		return nil, s.takeSubscribed(m)
	case *wire.Batch:
		return s.takeBatch(m)
	case *wire.Gap:
		return s.takeGap(m)
	case *wire.Watermark:
		return s.takeWatermark(m)
	case *wire.Bye:
		return s.takeBye(m)
	case *wire.SegmentEnd:
		s.IsWhole = true
	}
	return nil, nil
}

func (s *Stream) takeHello(hello *wire.ServerHello) ([]Item, error) {
	key := runKey{epoch: hello.Epoch}
	if copy(key.boot[:], hello.BootId) != 16 || len(hello.BootId) != 16 {
		return nil, damaged("the hello has no boot id")
	}
	host := s.host
	if host == "" {
		host = hello.Hostname
	}
	s.run, s.catalog = &Run{host, key.boot, key.epoch, hello}, nil
	s.enter(key)
	return []Item{s.run}, nil
}

func (s *Stream) enter(key runKey) {
	s.numbers = s.runs[key]
	if s.numbers == nil {
		s.numbers = &numbers{next: map[uint32]uint64{}, unknown: map[uint32]place{}}
		s.runs[key] = s.numbers
	}
	s.clock++
	s.numbers.used = s.clock
	if len(s.runs) <= runsMax {
		return
	}
	var oldest runKey
	used := s.clock
	for key, each := range s.runs {
		if each.used < used {
			oldest, used = key, each.used
		}
	}
	delete(s.runs, oldest)
}

func positions(list []*wire.Position) (map[uint32]uint64, error) {
	found := make(map[uint32]uint64, len(list))
	for _, each := range list {
		if each.Cpu >= cpusMax {
			return nil, damaged("CPU %d is out of range", each.Cpu)
		}
		found[each.Cpu] = each.Seq
	}
	return found, nil
}

func (s *Stream) count(isTaken bool) {
	s.Ledger.Frames++
	if isTaken {
		s.Ledger.Taken++
	} else {
		s.Ledger.Duplicate++
	}
}

func (s *Stream) takeSubscribed(m *wire.Subscribed) error {
	starts, err := positions(m.GetStart().GetPosition())
	if err != nil {
		return err
	}
	since, err := positions(m.GetSince().GetPosition())
	if err != nil {
		return err
	}
	if string(m.GetSince().GetBootId()) == string(s.run.BootID[:]) && m.GetSince().GetEpoch() == s.run.Epoch {
		for cpu, seq := range since {
			starts[cpu] = seq
		}
	}
	moved := false
	for cpu, seq := range starts {
		if _, isKnown := s.numbers.next[cpu]; !isKnown {
			s.numbers.next[cpu] = seq
			moved = true
		}
	}
	s.count(moved)
	return nil
}

// The number that is expected; `or`, if none is.
func (s *Stream) next(cpu uint32, or uint64) uint64 {
	if next, isKnown := s.numbers.next[cpu]; isKnown {
		return next
	}
	return or
}

// From first to end - 1 they are dealt with, as far as they are new; the hole before them, if there is one.
func (s *Stream) advance(cpu uint32, first, end uint64) []Item {
	before := s.next(cpu, first)
	s.numbers.next[cpu] = end
	s.Ledger.Span += end - before
	if first <= before {
		return nil
	}
	s.Ledger.Holes += first - before
	return []Item{&Gap{s.run, cpu, before, first, "history", "history-gone", 0, true}}
}

func (s *Stream) takeBatch(m *wire.Batch) ([]Item, error) {
	if s.catalog == nil {
		return nil, damaged("a batch comes before its catalog")
	}
	w, err := walkBatch(s.run, s.catalog, m)
	if err != nil {
		return nil, err
	}
	begin := s.next(m.Cpu, m.FirstSeq)
	if m.EndSeq <= begin && m.EndSeq > m.FirstSeq {
		s.count(false)
		return nil, nil
	}
	s.count(true)
	end := m.EndSeq
	if end < begin {
		end = begin
	}
	out := s.advance(m.Cpu, m.FirstSeq, end)
	for _, item := range w.items {
		switch each := item.(type) {
		case *Event:
			if each.Seq >= begin {
				s.Ledger.Events++
				out = append(out, each)
			}
		case *Loss:
			if lost := (span{each.Seq, each.Seq + each.Count}).from(begin); lost != 0 {
				s.Ledger.Lost += lost
				out = append(out, each)
			}
		}
	}
	for _, each := range w.skipped {
		s.Ledger.Skipped += each.from(begin)
	}
	return out, nil
}

func (s *Stream) takeGap(m *wire.Gap) ([]Item, error) {
	if m.Cpu >= cpusMax || m.EndSeq < m.FirstSeq {
		return nil, damaged("a gap ends before it begins, or its CPU is out of range")
	}
	gap := &Gap{s.run, m.Cpu, m.FirstSeq, m.EndSeq, stageName(m.Stage), reasonName(m.Reason), m.Events, false}
	if m.FirstSeq == m.EndSeq || m.Reason == wire.LossReason_REASON_OTHER_EPOCH {
		return s.takeUnknown(gap), nil
	}
	begin := s.next(m.Cpu, m.FirstSeq)
	s.count(m.EndSeq > begin)
	if m.EndSeq <= begin {
		return nil, nil
	}
	out := s.advance(m.Cpu, m.FirstSeq, m.EndSeq)
	if gap.FirstSeq < begin {
		gap.FirstSeq = begin
	}
	size := gap.EndSeq - gap.FirstSeq
	s.Ledger.Gaps += size
	if gap.Events > size {
		gap.Events = size
	}
	return append(out, gap), nil
}

// It has no numbers of this run; it comes once at its place.
func (s *Stream) takeUnknown(gap *Gap) []Item {
	at := place{gap.FirstSeq, gap.EndSeq, gap.Reason}
	before, isKnown := s.numbers.unknown[gap.CPU]
	isNew := !isKnown || before != at
	s.numbers.unknown[gap.CPU] = at
	s.count(isNew)
	if !isNew {
		return nil
	}
	s.Ledger.Unknown++
	return []Item{gap}
}

func (s *Stream) takeWatermark(m *wire.Watermark) ([]Item, error) {
	at, err := positions(m.Position)
	if err != nil {
		return nil, err
	}
	var out []Item
	moved := m.TimeNs > s.numbers.watermarkNs
	if moved {
		s.numbers.watermarkNs = m.TimeNs
	}
	for _, each := range m.Position {
		begin, isKnown := s.numbers.next[each.Cpu]
		if isKnown && each.Seq <= begin {
			continue
		}
		moved = true
		skipped := uint64(0)
		if isKnown {
			skipped = span{begin, each.Seq}.from(0)
			if each.Skipped < skipped {
				skipped = each.Skipped
			}
		}
		s.Ledger.Skipped += skipped
		out = append(out, s.advance(each.Cpu, each.Seq-skipped, each.Seq)...)
	}
	s.count(moved)
	if moved {
		out = append(out, &Watermark{s.run, m.TimeNs, at})
	}
	return out, nil
}

func (s *Stream) takeBye(m *wire.Bye) ([]Item, error) {
	at, err := positions(m.GetEnd().GetPosition())
	if err != nil {
		return nil, err
	}
	s.count(true)
	s.IsWhole = true
	return []Item{&End{s.run, m.Reason, m.Final, at, m.Dump}}, nil
}

// Recording is a file of `tracectl record`, a dump, or a segment of a spool.
type Recording struct {
	*Stream
	from io.Reader
	at   int64
	err  error
}

// NewRecording reads from a file; buffer it.
func NewRecording(from io.Reader) *Recording {
	return &Recording{Stream: NewStream(""), from: from}
}

// Next has the items of the next frame, perhaps none. io.EOF: that was all; ErrCutShort: more should have followed. An
// error comes again.
func (r *Recording) Next() ([]Item, error) {
	if r.err != nil {
		return nil, r.err
	}
	items, err := r.take()
	if errors.Is(err, io.EOF) {
		if !r.IsWhole {
			err = ErrCutShort
		}
	} else if err != nil {
		err = fmt.Errorf("frame at byte %d: %w", r.at, err)
	}
	r.err = err
	return items, err
}

func (r *Recording) take() ([]Item, error) {
	data, err := readFrame(r.from)
	if err != nil {
		return nil, err
	}
	message, err := OpenFrame(data)
	if err != nil {
		return nil, err
	}
	items, err := r.Stream.Take(message)
	if err == nil {
		r.at += int64(len(data))
	}
	return items, err
}
