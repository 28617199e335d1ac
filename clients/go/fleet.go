// SPDX-License-Identifier: BSD-2-Clause

package reader

import (
	"errors"
	"strconv"
	"strings"

	"google.golang.org/protobuf/proto"

	"ringtail/reader/wire"
)

const schema = "ringtail.v1"

// label is what a record's headers say.
type label struct {
	kind, run, catalog string
	cpu                uint32
	first, end         uint64
}

// False: the record is none of ours.
func readLabel(headers map[string]string) (l label, isOurs bool) {
	l.kind, l.run, l.catalog = headers["type"], headers["run"], headers["catalog"]
	isOurs = headers["schema"] == schema && l.run != "" && l.catalog != ""
	switch l.kind {
	case "subscribed", "batch", "gap", "watermark", "bye":
	default:
		isOurs = false
	}
	for name, to := range map[string]*uint64{"first": &l.first, "end": &l.end} {
		if text, isThere := headers[name]; isThere {
			value, err := strconv.ParseUint(text, 10, 64)
			isOurs = isOurs && err == nil
			*to = value
		}
	}
	if text, isThere := headers["cpu"]; isThere {
		value, err := strconv.ParseUint(text, 10, 32)
		isOurs = isOurs && err == nil
		l.cpu = uint32(value)
	}
	return l, isOurs
}

// Host of a Fleet. Records = Taken + Duplicate + Damaged.
type Host struct {
	Name                               string
	Records, Taken, Duplicate, Damaged uint64
	*Stream
	isIn         bool
	run, catalog string // that the stream is in
	lostRun      string // the last one that nothing decodes: it is told once
}

// Residual of the records is 0. That of the attempts is Ledger.Residual.
func (h *Host) Residual() int64 { return int64(h.Records - h.Taken - h.Duplicate - h.Damaged) }

// Fleet takes records of PREFIX.runs and PREFIX.frames. Kafka's client is the caller's.
type Fleet struct {
	Hosts  map[string]*Host
	Other  uint64 // records of somebody else
	runs   map[string][2]string
	values map[string]string // hosts with the same kernel and probes have the same catalog: it is kept once
}

// NewFleet knows of no host.
func NewFleet() *Fleet {
	return &Fleet{Hosts: map[string]*Host{}, runs: map[string][2]string{}, values: map[string]string{}}
}

// Learn takes a record of PREFIX.runs; nil as its value: it is deleted.
func (f *Fleet) Learn(key, value []byte) error {
	if value == nil {
		delete(f.runs, string(key))
		return nil
	}
	parts, err := split(value)
	if err != nil {
		return err
	}
	if len(parts) != 2 {
		return damaged("a run's record has %d frames", len(parts))
	}
	catalog, isThere := f.values[string(parts[1])]
	if !isThere {
		catalog = string(parts[1])
		f.values[catalog] = catalog
	}
	f.runs[string(key)] = [2]string{string(parts[0]), catalog}
	return nil
}

// Take has the items that a record of PREFIX.frames makes. A damaged one is counted, and a Gap comes in its place.
func (f *Fleet) Take(key, value []byte, headers map[string]string) ([]Item, error) {
	l, isOurs := readLabel(headers)
	if !isOurs || len(key) == 0 {
		f.Other++
		return nil, nil
	}
	host := f.Hosts[string(key)]
	if host == nil {
		host = &Host{Name: string(key), Stream: NewStream(string(key))}
		f.Hosts[host.Name] = host
	}
	host.Records++
	duplicates := host.Ledger.Duplicate
	items, err := f.takeRecord(host, value, l)
	var broken *Damaged
	if errors.As(err, &broken) {
		host.Damaged++
		return append(items, host.lose(l)...), nil
	}
	if err != nil {
		return nil, err
	}
	duplicates = host.Ledger.Duplicate - duplicates
	host.Duplicate += duplicates
	host.Taken += 1 - duplicates
	return items, nil
}

func (f *Fleet) takeRecord(host *Host, value []byte, l label) ([]Item, error) {
	out, err := f.enter(host, l)
	if err != nil {
		return nil, err
	}
	message, err := OpenFrame(value)
	if err == nil {
		err = check(message, l)
	}
	if err != nil {
		return out, err
	}
	items, err := host.Stream.Take(message)
	return append(out, items...), err
}

func (f *Fleet) enter(host *Host, l label) (out []Item, err error) {
	if host.isIn && host.run == l.run && host.catalog == l.catalog {
		return nil, nil
	}
	frames, isThere := f.runs[strings.Join([]string{host.Name, l.run, l.catalog}, "\x00")]
	if !isThere {
		return nil, damaged("PREFIX.runs does not have its run")
	}
	var opened [2]proto.Message
	for i, frame := range frames {
		if opened[i], err = OpenFrame([]byte(frame)); err != nil {
			return nil, err
		}
	}
	_, isHello := opened[0].(*wire.ServerHello)
	_, isCatalog := opened[1].(*wire.Catalog)
	if !isHello || !isCatalog {
		return nil, damaged("the run's record is no hello and no catalog")
	}
	for _, message := range opened {
		items, err := host.Stream.Take(message)
		if err != nil {
			return nil, err
		}
		out = append(out, items...)
	}
	host.isIn, host.run, host.catalog = true, l.run, l.catalog
	return out, nil
}

func check(message proto.Message, l label) error {
	kind := ""
	span := struct {
		cpu        uint32
		first, end uint64
	}{l.cpu, l.first, l.end}
	got := span
	switch m := message.(type) {
	case *wire.Subscribed:
		kind = "subscribed"
	case *wire.Batch:
		kind, got.cpu, got.first, got.end = "batch", m.Cpu, m.FirstSeq, m.EndSeq
	case *wire.Gap:
		kind, got.cpu, got.first, got.end = "gap", m.Cpu, m.FirstSeq, m.EndSeq
	case *wire.Watermark:
		kind = "watermark"
	case *wire.Bye:
		kind = "bye"
	}
	if kind != l.kind {
		return damaged("it is called %s, and is a %s", l.kind, kind)
	}
	if got != span {
		return damaged("its headers have other numbers")
	}
	return nil
}

// Its headers tell what is missing, if its run is known. Of a run that is not, nothing is: a gap of no size.
func (h *Host) lose(l label) []Item {
	if !h.isIn || h.run != l.run {
		if h.lostRun == l.run {
			return nil
		}
		h.lostRun = l.run
		h.Ledger.Unknown++
		return []Item{&Gap{h.Stream.run, l.cpu, l.first, l.first, "history", "corrupt", 0, true}}
	}
	begin := h.next(l.cpu, l.first)
	if begin < l.first {
		begin = l.first
	}
	if l.end <= begin || l.cpu >= cpusMax {
		return nil
	}
	out := h.advance(l.cpu, l.first, l.end)
	h.Ledger.Holes += l.end - begin
	return append(out, &Gap{h.Stream.run, l.cpu, begin, l.end, "history", "corrupt", 0, true})
}
