// SPDX-License-Identifier: BSD-2-Clause

package reader

import "ringtail/reader/wire"

const (
	cpusMax   = 1024
	fieldsMax = 24
	probesMax = 8192
	eventsMax = 8192
)

func fieldOf(message *wire.Field) Field {
	bits := uint(message.Bits)
	if bits != 8 && bits != 16 && bits != 32 {
		bits = 64
	}
	switch message.Type {
	case wire.FieldType_FIELD_RESULT, wire.FieldType_FIELD_DURATION, wire.FieldType_FIELD_STRING:
		bits = 64
	case wire.FieldType_FIELD_FD:
		bits = 32
	}
	return Field{message.Name, message.Type, message.CType, bits, int(message.Bytes), message.ElementSigned}
}

func probeOf(message *wire.Probe) (*Probe, error) {
	probe := &Probe{ID: message.Id, Spec: message.Provider + ":" + message.Function + ":" + message.Name,
		Print: message.Print, Result: -1}
	if len(message.Field) > fieldsMax {
		return nil, damaged("%s has %d fields", probe.Spec, len(message.Field))
	}
	for i, each := range message.Field {
		field := fieldOf(each)
		isBytes := field.Type == wire.FieldType_FIELD_TEXT || field.Type == wire.FieldType_FIELD_BYTES
		if isBytes && (field.Bytes < 0 || field.Bytes > 8*(len(message.Field)-i)) {
			return nil, damaged("the field %s of %s is longer than its words", field.Name, probe.Spec)
		}
		probe.Fields = append(probe.Fields, field)
	}
	if len(probe.Fields) > 0 && probe.Fields[0].Type == wire.FieldType_FIELD_DURATION {
		probe.HasDuration, probe.FirstArg = true, 1
	}
	if at := probe.FirstArg; at < len(probe.Fields) && probe.Fields[at].Type == wire.FieldType_FIELD_RESULT {
		probe.Result, probe.FirstArg = at, at+1
	}
	return probe, nil
}

func readCatalog(message *wire.Catalog) (map[uint32]*Probe, error) {
	if len(message.Probe) > probesMax {
		return nil, damaged("the catalog has %d probes", len(message.Probe))
	}
	probes := make(map[uint32]*Probe, len(message.Probe))
	for _, each := range message.Probe {
		probe, err := probeOf(each)
		if err != nil {
			return nil, err
		}
		if probes[probe.ID] != nil {
			return nil, damaged("probe %d is twice in the catalog", probe.ID)
		}
		probes[probe.ID] = probe
	}
	return probes, nil
}

// span of numbers, from first to end - 1.
type span struct{ first, end uint64 }

// How much of it is not before seq.
func (s span) from(seq uint64) uint64 {
	if s.first > seq {
		seq = s.first
	}
	if s.end <= seq {
		return 0
	}
	return s.end - seq
}

// column whose entries are taken one by one; `short`: more were taken than there are.
type column[T any] struct {
	left  []T
	short bool
}

func (c *column[T]) next() (value T) {
	if len(c.left) == 0 {
		c.short = true
		return value
	}
	value, c.left = c.left[0], c.left[1:]
	return value
}

type walk struct {
	run      *Run
	message  *wire.Batch
	threads  []Thread
	probes   []*Probe
	attached map[uint32][]Attachment
	seq      uint64
	items    []Item
	skipped  []span // numbers that are neither events nor losses
	isBeyond bool   // more than the batch has
}

func (w *walk) openThreads() error {
	text := func(index uint32) string {
		if index == 0 || int(index) > len(w.message.Text) {
			return ""
		}
		return string(w.message.Text[index-1])
	}
	for _, each := range w.message.Thread {
		if int(each.Exe) > len(w.message.Text) || int(each.Cgroup) > len(w.message.Text) {
			return damaged("a thread names a text that the batch does not have")
		}
		w.threads = append(w.threads, Thread{each.Tid, each.Pid, string(each.Comm), each.Uid, each.Ppid, each.Kernel,
			text(each.Exe), text(each.Cgroup), each.CgroupId})
	}
	return nil
}

func (w *walk) openAttachments() error {
	stacks := make([][]uint64, len(w.message.Stack))
	for i, stack := range w.message.Stack {
		address := uint64(0)
		for _, difference := range stack.Frame {
			address += uint64(difference)
			stacks[i] = append(stacks[i], address)
		}
	}
	w.attached = map[uint32][]Attachment{}
	last := uint32(0)
	for _, each := range w.message.Attachment {
		if each.Event < last || each.Event >= w.message.Events || int(each.Stack) > len(stacks) {
			return damaged("an attachment is out of order, or of an event or a stack that the batch does not have")
		}
		last = each.Event
		attachment := Attachment{Kind: each.Kind, Field: int(each.Arg), Text: each.Text, Frames: each.Frame}
		if each.Stack != 0 {
			attachment.Frames = stacks[each.Stack-1]
		}
		w.attached[each.Event] = append(w.attached[each.Event], attachment)
	}
	return nil
}

func (w *walk) open(catalog map[uint32]*Probe) error {
	m := w.message
	if m.Cpu >= cpusMax || m.EndSeq < m.FirstSeq || m.Events > eventsMax {
		return damaged("the batch's CPU, span or number of events is out of range")
	}
	n := int(m.Events)
	if len(m.EventProbe) != n || len(m.EventThread) != n || len(m.Changed) != n || len(m.TimeHigh) != n ||
		len(m.SpanLow) != n || (len(m.EventSkipped) != 0 && len(m.EventSkipped) != n) ||
		(m.Counts != nil && len(m.Counts.Events) != n) {
		return damaged("a column of the batch has another length than its events")
	}
	for _, id := range m.Probe {
		probe := catalog[id]
		if probe == nil {
			return damaged("the batch names probe %d, which the catalog does not have", id)
		}
		w.probes = append(w.probes, probe)
	}
	if err := w.openThreads(); err != nil {
		return err
	}
	return w.openAttachments()
}

// These numbers are within the batch, or it is not sound.
func (w *walk) pass(count uint64) {
	w.isBeyond = w.isBeyond || count > w.message.EndSeq-w.seq
	w.seq += count
}

func (w *walk) skip(count uint64) {
	if count != 0 {
		w.skipped = append(w.skipped, span{w.seq, w.seq + count})
		w.pass(count)
	}
}

// Losses that stand before event i; what is left of them.
func (w *walk) lose(losses []*wire.Loss, i uint32) []*wire.Loss {
	for ; len(losses) > 0 && losses[0].Before == i; losses = losses[1:] {
		loss := losses[0]
		w.skip(loss.Skipped)
		w.items = append(w.items, &Loss{w.run, w.message.Cpu, w.seq, loss.Count, stageName(loss.Stage),
			reasonName(loss.Reason)})
		w.pass(loss.Count)
	}
	return losses
}

// Walks the columns side by side: all events are sound, or there is an error.
func walkBatch(run *Run, catalog map[uint32]*Probe, m *wire.Batch) (*walk, error) {
	w := &walk{run: run, message: m, seq: m.FirstSeq}
	if err := w.open(catalog); err != nil {
		return nil, err
	}
	type key struct{ probe, thread uint32 }
	values := column[int64]{left: m.Value}
	more, low := column[uint64]{left: m.GapMore}, column[uint32]{left: m.GapLow}
	ends, lasts, losses, timeNs := map[uint32]uint64{}, map[key][]uint64{}, m.Loss, m.TimeNs
	for i := range m.EventProbe {
		losses = w.lose(losses, uint32(i))
		if len(m.EventSkipped) != 0 {
			w.skip(m.EventSkipped[i])
		}
		of := key{m.EventProbe[i], m.EventThread[i]}
		if int(of.probe) >= len(w.probes) || int(of.thread) >= len(w.threads) {
			return nil, damaged("an event names a thread or a probe that the batch does not have")
		}
		probe, start, origin := w.probes[of.probe], uint64(0), timeNs
		if probe.HasDuration {
			gap := m.TimeHigh[i] & 7
			if gap == 7 {
				gap += more.next()
			}
			end, isLater := ends[of.thread]
			if !isLater {
				end = m.TimeNs
			}
			start = end + gap*128 + uint64(low.next())
			if start > origin {
				origin = start
			}
		}
		timeNs = origin + m.TimeHigh[i]>>3*128 + uint64(m.SpanLow[i])
		words := make([]uint64, len(probe.Fields))
		rest := words
		if probe.HasDuration {
			ends[of.thread] = timeNs
			words[0], rest = timeNs-start, words[1:]
		}
		copy(rest, lasts[of])
		lasts[of] = rest
		if uint64(m.Changed[i])>>len(rest) != 0 {
			return nil, damaged("an event changes a field that %s does not have", probe.Spec)
		}
		for bit := range rest {
			if m.Changed[i]>>bit&1 != 0 {
				rest[bit] += uint64(values.next())
			}
		}
		for _, each := range w.attached[uint32(i)] {
			if each.Kind == wire.AttachmentKind_ATTACH_STRING && each.Field >= len(probe.Fields) {
				return nil, damaged("a string belongs to field %d of %s", each.Field, probe.Spec)
			}
		}
		event := &Event{w.run, m.Cpu, w.seq, timeNs, probe, &w.threads[of.thread], words, w.attached[uint32(i)], 1}
		if m.Counts != nil {
			event.StandsFor = m.Counts.Events[i]
		}
		w.items = append(w.items, event)
		w.pass(1)
	}
	losses = w.lose(losses, m.Events)
	if values.short || more.short || low.short {
		return nil, damaged("a column of the batch is too short")
	}
	if len(losses)+len(values.left)+len(more.left)+len(low.left) != 0 {
		return nil, damaged("a column of the batch is too long, or a loss is out of order")
	}
	if w.isBeyond {
		return nil, damaged("the numbers of the batch do not add up")
	}
	w.skip(m.EndSeq - w.seq)
	return w, nil
}
