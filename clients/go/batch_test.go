// SPDX-License-Identifier: BSD-2-Clause

package reader

import (
	"fmt"
	"reflect"
	"testing"

	"ringtail/reader/wire"
)

func probe(id uint32, fields ...*wire.Field) *wire.Probe {
	return &wire.Probe{Id: id, Provider: "p", Function: "f", Name: fmt.Sprint(id), Field: fields}
}

func field(name string, of wire.FieldType) *wire.Field { return &wire.Field{Name: name, Type: of} }

// A stream with these probes, and syscall:close:call, which is 5.
func beginWith(t *testing.T, probes ...*wire.Probe) *test {
	to := &test{t, NewStream("web-1")}
	to.take(helloOf(boot, 7))
	to.take(&wire.Catalog{Probe: append(catalogOf().Probe, probes...)})
	return to
}

func events(t *testing.T, items []Item, n int) []*Event {
	t.Helper()
	var found []*Event
	for _, item := range items {
		if event, isEvent := item.(*Event); isEvent {
			found = append(found, event)
		}
	}
	if len(found) != n {
		t.Fatalf("%d events came, not %d", len(found), n)
	}
	return found
}

// ---- The catalog -----------------------------------------------------------------------------------

func TestProbeSaysWhereItsArgumentsBegin(t *testing.T) {
	duration, result := field("duration", wire.FieldType_FIELD_DURATION), field("ret", wire.FieldType_FIELD_RESULT)
	arg := field("arg", wire.FieldType_FIELD_UNSIGNED)
	for i, each := range []struct {
		fields           []*wire.Field
		hasDuration      bool
		result, firstArg int
	}{{nil, false, -1, 0}, {[]*wire.Field{arg}, false, -1, 0}, {[]*wire.Field{duration}, true, -1, 1},
		{[]*wire.Field{result, arg}, false, 0, 1}, {[]*wire.Field{duration, result, arg}, true, 1, 2},
		{[]*wire.Field{arg, duration, result}, false, -1, 0}} {
		made, err := probeOf(probe(9, each.fields...))
		if err != nil || made.HasDuration != each.hasDuration || made.Result != each.result ||
			made.FirstArg != each.firstArg || made.Spec != "p:f:9" {
			t.Errorf("%d: %+v, %v", i, made, err)
		}
	}
}

func TestFieldHasAsManyBitsAsItsType(t *testing.T) {
	for _, each := range []struct {
		of         wire.FieldType
		bits, made uint32
	}{{wire.FieldType_FIELD_UNSIGNED, 8, 8}, {wire.FieldType_FIELD_UNSIGNED, 16, 16},
		{wire.FieldType_FIELD_UNSIGNED, 32, 32}, {wire.FieldType_FIELD_UNSIGNED, 0, 64},
		{wire.FieldType_FIELD_SIGNED, 7, 64}, {wire.FieldType_FIELD_RESULT, 32, 64},
		{wire.FieldType_FIELD_DURATION, 32, 64}, {wire.FieldType_FIELD_STRING, 32, 64},
		{wire.FieldType_FIELD_FD, 0, 32}} {
		if made := fieldOf(&wire.Field{Type: each.of, Bits: each.bits}); made.Bits != uint(each.made) {
			t.Errorf("%v of %d bits has %d", each.of, each.bits, made.Bits)
		}
	}
}

func TestCatalogIsWithinItsBounds(t *testing.T) {
	to := begin(t)
	fields := make([]*wire.Field, fieldsMax+1)
	for i := range fields {
		fields[i] = field("x", wire.FieldType_FIELD_UNSIGNED)
	}
	to.take(&wire.Catalog{Probe: []*wire.Probe{probe(1, fields[1:]...)}})
	to.refuses(&wire.Catalog{Probe: []*wire.Probe{probe(1, fields...)}}, "has 25 fields")
	for _, of := range []wire.FieldType{wire.FieldType_FIELD_TEXT, wire.FieldType_FIELD_BYTES} {
		text := &wire.Field{Name: "text", Type: of, Bytes: 16}
		to.take(&wire.Catalog{Probe: []*wire.Probe{probe(1, fields[0], text, fields[0])}})
		to.refuses(&wire.Catalog{Probe: []*wire.Probe{probe(1, fields[0], fields[0], text)}}, "longer than its words")
		text.Bytes = 17
		to.refuses(&wire.Catalog{Probe: []*wire.Probe{probe(1, fields[0], text, fields[0])}}, "longer than its words")
	}
	to.take(&wire.Catalog{Probe: []*wire.Probe{probe(1, &wire.Field{Name: "number", Bytes: 100})}})
	probes := make([]*wire.Probe, probesMax+1)
	for i := range probes {
		probes[i] = &wire.Probe{Id: uint32(i)}
	}
	to.take(&wire.Catalog{Probe: probes[1:]})
	to.refuses(&wire.Catalog{Probe: probes}, "has 8193 probes")
}

// ---- Columns ---------------------------------------------------------------------------------------

// Two threads make calls. Between two of them another probe's event, which takes no time, moves the time on.
func TestTimesAndFieldsOfEachThread(t *testing.T) {
	to := beginWith(t, probe(6, field("arg", wire.FieldType_FIELD_UNSIGNED)))
	got := ""
	items := to.take(&wire.Batch{FirstSeq: 10, EndSeq: 15, TimeNs: 100, Events: 5, Probe: []uint32{5, 6},
		Thread:     []*wire.Thread{{Tid: 1}, {Tid: 2}},
		EventProbe: []uint32{0, 0, 0, 1, 0}, EventThread: []uint32{0, 1, 0, 0, 0},
		Changed: []uint32{3, 1, 2, 1, 0}, Value: []int64{10, 20, 1, 5, 7},
		TimeHigh: []uint64{1, 2 << 3, 7, 0, 0}, GapMore: []uint64{2}, GapLow: []uint32{3, 10, 1, 2},
		SpanLow: []uint32{5, 1, 0, 4, 1}})
	for _, event := range events(t, items, 5) {
		got += fmt.Sprintf("%d at %d of %d: %v; ", event.Seq, event.TimeNs, event.Thread.TID, event.Words)
	}
	expected := "10 at 236 of 1: [5 10 20]; 11 at 493 of 2: [383 1 0]; 12 at 1389 of 1: [0 10 25]; " +
		"13 at 1393 of 1: [7]; 14 at 1394 of 1: [3 10 25]; "
	if got != expected {
		t.Errorf("%s\nnot %s", got, expected)
	}
}

func TestTextsAndStacksAreTheirs(t *testing.T) {
	to := begin(t)
	m := batch(0, 10, 13, 0, 0)
	m.Text = [][]byte{[]byte("/bin/a"), []byte("/slice")}
	m.Thread = []*wire.Thread{{Tid: 9, Pid: 8, Comm: []byte("comm"), Uid: 7, Ppid: 6, Kernel: true, Exe: 1, Cgroup: 2,
		CgroupId: 5}, {Tid: 3}}
	m.EventThread[2] = 1
	m.Stack = []*wire.Stack{{Frame: []int64{1}}, {Frame: []int64{100, -10, 5}}}
	m.Attachment = []*wire.Attachment{
		{Event: 1, Kind: wire.AttachmentKind_ATTACH_STRING, Arg: 2, Text: []byte("name")},
		{Event: 1, Kind: wire.AttachmentKind_ATTACH_USTACK, Stack: 2},
		{Event: 2, Kind: wire.AttachmentKind_ATTACH_KSTACK, Frame: []uint64{4, 5}}}
	came := events(t, to.take(m), 3)
	expected := Thread{9, 8, "comm", 7, 6, true, "/bin/a", "/slice", 5}
	if *came[0].Thread != expected || *came[2].Thread != (Thread{TID: 3}) {
		t.Errorf("%+v and %+v", *came[0].Thread, *came[2].Thread)
	}
	user, kernel := wire.AttachmentKind_ATTACH_USTACK, wire.AttachmentKind_ATTACH_KSTACK
	if string(came[1].String(2)) != "name" || came[1].String(1) != nil || came[0].String(2) != nil {
		t.Errorf("%q, %q", came[1].String(2), came[1].String(1))
	}
	if !reflect.DeepEqual(came[1].Stack(user), []uint64{100, 90, 95}) || came[1].Stack(kernel) != nil ||
		!reflect.DeepEqual(came[2].Stack(kernel), []uint64{4, 5}) || came[2].Stack(user) != nil {
		t.Errorf("%v, %v", came[1].Stack(user), came[2].Stack(kernel))
	}
}

func TestEventsThatAreCounted(t *testing.T) {
	to := begin(t)
	m := batch(0, 10, 12, 0, 0)
	m.Counts = &wire.Counts{Events: []uint64{30, 4}}
	came := events(t, to.take(m), 2)
	if came[0].StandsFor != 30 || came[1].StandsFor != 4 {
		t.Errorf("%d and %d", came[0].StandsFor, came[1].StandsFor)
	}
	if one := events(t, to.take(batch(0, 12, 13, 0, 0)), 1)[0]; one.StandsFor != 1 {
		t.Errorf("%d", one.StandsFor)
	}
}

// What stands before an event, and at the end of the batch, is in its place; all numbers are told of.
func TestWhatStandsBetweenEvents(t *testing.T) {
	to := begin(t)
	m := batch(0, 10, 12, 0, 0)
	m.EndSeq = 40
	m.EventSkipped = []uint64{2, 3}
	m.Loss = []*wire.Loss{{Before: 0, Skipped: 1, Count: 2, Stage: wire.LossStage_LOSS_DECODE,
		Reason: wire.LossReason_REASON_BAD_RECORD}, {Before: 2, Count: 4}}
	to.expect(to.take(m), "lost 11+2 decode/bad-record 15 19 lost 20+4 ring/unknown ")
	to.closes(Ledger{Frames: 1, Taken: 1, Span: 30, Events: 2, Lost: 6, Skipped: 22})
}

func TestBatchThatCannotBe(t *testing.T) {
	text := wire.AttachmentKind_ATTACH_STRING
	for i, each := range []struct {
		change func(*wire.Batch)
		why    string
	}{
		{func(m *wire.Batch) { m.FirstSeq = 21 }, "out of range"},
		{func(m *wire.Batch) { m.Probe[0] = 4 }, "names probe 4"},
		{func(m *wire.Batch) { m.EventProbe = m.EventProbe[1:] }, "another length"},
		{func(m *wire.Batch) { m.EventThread = m.EventThread[1:] }, "another length"},
		{func(m *wire.Batch) { m.Changed = append(m.Changed, 1) }, "another length"},
		{func(m *wire.Batch) { m.TimeHigh = append(m.TimeHigh, 1) }, "another length"},
		{func(m *wire.Batch) { m.SpanLow = append(m.SpanLow, 1) }, "another length"},
		{func(m *wire.Batch) { m.EventSkipped = make([]uint64, 11) }, "another length"},
		{func(m *wire.Batch) { m.Counts = &wire.Counts{Events: make([]uint64, 11)} }, "another length"},
		{func(m *wire.Batch) { m.Thread[0].Exe = 1 }, "names a text"},
		{func(m *wire.Batch) { m.Thread[0].Cgroup = 1 }, "names a text"},
		{func(m *wire.Batch) { m.EventThread[9] = 1 }, "a thread or a probe"},
		{func(m *wire.Batch) { m.EventProbe[9] = 1 }, "a thread or a probe"},
		{func(m *wire.Batch) { m.Attachment = []*wire.Attachment{{Event: 10}} }, "an attachment"},
		{func(m *wire.Batch) { m.Attachment = []*wire.Attachment{{Event: 1, Stack: 1}} }, "an attachment"},
		{func(m *wire.Batch) { m.Attachment = []*wire.Attachment{{Event: 2}, {Event: 1}} }, "an attachment"},
		{func(m *wire.Batch) { m.Attachment = []*wire.Attachment{{Event: 1, Arg: 3, Kind: text}} },
			"a string belongs to field 3"},
		{func(m *wire.Batch) { m.TimeHigh[3] = 7 }, "too short"},
		{func(m *wire.Batch) { m.GapLow = m.GapLow[1:] }, "too short"},
		{func(m *wire.Batch) { m.Value = m.Value[1:] }, "too short"},
		{func(m *wire.Batch) { m.GapLow = append(m.GapLow, 1) }, "too long"},
		{func(m *wire.Batch) { m.GapMore = append(m.GapMore, 1) }, "too long"},
		{func(m *wire.Batch) { m.Value = append(m.Value, 1) }, "too long"},
		{func(m *wire.Batch) { m.Loss = []*wire.Loss{{Before: 11}} }, "too long"},
		{func(m *wire.Batch) { m.Loss = []*wire.Loss{{Before: 1}, {Before: 0}} }, "too long"},
		{func(m *wire.Batch) { m.Loss = []*wire.Loss{{Before: 0, Count: 11}} }, "do not add up"},
		{func(m *wire.Batch) { m.Loss = []*wire.Loss{{Before: 5, Skipped: 1}} }, "do not add up"},
		{func(m *wire.Batch) { m.EndSeq = 19 }, "do not add up"},
		{func(m *wire.Batch) { m.Changed[9] = 4 }, "changes a field"},
	} {
		to := begin(t)
		m := batch(0, 10, 20, 0, 0)
		each.change(m)
		to.refuses(m, each.why)
		to.closes(Ledger{})
		if t.Failed() {
			t.Fatalf("at change %d", i)
		}
	}
}

func TestBatchHasNoMoreEventsThanItMay(t *testing.T) {
	to := begin(t)
	events(t, to.take(batch(0, 1, 1+eventsMax, 0, 0)), eventsMax)
	to.refuses(batch(1, 1, 2+eventsMax, 0, 0), "out of range")
}

// ---- Values ----------------------------------------------------------------------------------------

func TestWordIsANumberOfItsField(t *testing.T) {
	for _, each := range []struct {
		of         wire.FieldType
		bits       uint
		word, made uint64
	}{{wire.FieldType_FIELD_UNSIGNED, 8, 0x1ff, 0xff}, {wire.FieldType_FIELD_SIGNED, 8, 0x1ff, ^uint64(0)},
		{wire.FieldType_FIELD_SIGNED, 16, 0x17fff, 0x7fff}, {wire.FieldType_FIELD_FD, 32, 0xffffff9c, ^uint64(99)},
		{wire.FieldType_FIELD_RESULT, 64, ^uint64(1), ^uint64(1)}, {wire.FieldType_FIELD_UNSIGNED, 64, 5, 5}} {
		of := Field{Type: each.of, Bits: each.bits}
		if of.Value(each.word) != each.made || of.IsSigned() != (each.of != wire.FieldType_FIELD_UNSIGNED) {
			t.Errorf("%v: %#x of %d bits is %#x", each.of, each.word, each.bits, of.Value(each.word))
		}
	}
}

func TestCallThatNeverReturns(t *testing.T) {
	call := &Probe{HasDuration: true, Result: 1}
	for _, each := range []struct {
		event                          Event
		returned, hasDuration, hasCode bool
	}{{Event{Probe: call, Words: []uint64{3, 4}}, true, true, true},
		{Event{Probe: call, Words: []uint64{Never, 4}}, false, false, false},
		{Event{Probe: &Probe{Result: 0}, Words: []uint64{Never}}, true, false, true},
		{Event{Probe: &Probe{Result: -1}, Words: []uint64{Never}}, true, false, false},
		{Event{Probe: &Probe{HasDuration: true, Result: -1}, Words: []uint64{3}}, true, true, false}} {
		duration, hasDuration := each.event.DurationNs()
		code, hasCode := each.event.Result()
		if each.event.Returned() != each.returned || hasDuration != each.hasDuration || hasCode != each.hasCode ||
			hasDuration != (duration == 3) || hasCode != (code != 0) {
			t.Errorf("%+v: %v, %d %v, %d %v", each.event, each.event.Returned(), duration, hasDuration, code, hasCode)
		}
	}
}

func TestTextsAndArraysOfFields(t *testing.T) {
	of := &Probe{Fields: []Field{{Name: "n"}, {Type: wire.FieldType_FIELD_TEXT, Bytes: 12}, {},
		{Type: wire.FieldType_FIELD_BYTES, Bytes: 3}, {Type: wire.FieldType_FIELD_TEXT},
		{Type: wire.FieldType_FIELD_BYTES}}}
	event := Event{Probe: of, Words: []uint64{0, 0x6867666564636261, 0x6a0069, 0x630061, 0, 0}, Attachments: []Attachment{
		{Kind: wire.AttachmentKind_ATTACH_USTACK, Field: 4, Text: []byte("no")},
		{Kind: wire.AttachmentKind_ATTACH_STRING, Field: 5, Text: []byte("x\x00y")},
		{Kind: wire.AttachmentKind_ATTACH_STRING, Field: 4, Text: []byte("u\x00v")}}}
	for i, expected := range []string{1: "abcdefghi", 3: "a\x00c", 4: "u", 5: "x\x00y"} {
		if i != 0 && i != 2 && string(event.Bytes(i)) != expected {
			t.Errorf("field %d: %q, not %q", i, event.Bytes(i), expected)
		}
	}
}

func TestWallClockOfAnEvent(t *testing.T) {
	run := Run{Hello: &wire.ServerHello{RealtimeNs: 5000, MonotonicNs: 300}}
	if run.WallNs(310) != 5010 || run.WallNs(290) != 4990 {
		t.Errorf("%d and %d", run.WallNs(310), run.WallNs(290))
	}
}

func TestNamesOfLosses(t *testing.T) {
	if stageName(1000) != "unknown" || reasonName(1000) != "unknown" ||
		reasonName(wire.LossReason_REASON_HISTORY_GONE) != "history-gone" {
		t.Errorf("%s, %s, %s", stageName(1000), reasonName(1000), reasonName(wire.LossReason_REASON_HISTORY_GONE))
	}
}
