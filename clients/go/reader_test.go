// SPDX-License-Identifier: BSD-2-Clause

package reader

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math/rand"
	"os"
	"reflect"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/types/descriptorpb"

	"ringtail/reader/wire"
)

const (
	recordings = "../../tests/data/"
	mutants    = 3000
	runText    = "00010203-0405-0607-0809-0a0b0c0d0e0f/7"
)

var boot = []byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}

func sealRaw(kind byte, raw []byte) []byte {
	frame := make([]byte, headerBytes, headerBytes+len(raw))
	binary.LittleEndian.PutUint16(frame, magic)
	frame[2], frame[3] = version, kind
	binary.LittleEndian.PutUint32(frame[4:], uint32(len(raw)))
	binary.LittleEndian.PutUint32(frame[8:], uint32(len(raw)))
	crc := crc32.Update(crc32.Checksum(frame[:12], castagnoli), castagnoli, raw)
	binary.LittleEndian.PutUint32(frame[12:], crc)
	return append(frame, raw...)
}

func seal(message proto.Message) []byte {
	raw, err := proto.Marshal(message)
	if err != nil {
		panic(err)
	}
	for kind, create := range messages {
		if create != nil && reflect.TypeOf(create()) == reflect.TypeOf(message) {
			return sealRaw(kind, raw)
		}
	}
	panic("no frame has that message")
}

func hello(epoch uint64) []byte {
	return seal(&wire.ServerHello{Version: 1, Hostname: "self", BootId: boot, Epoch: epoch, RealtimeNs: 1000})
}

func catalog() []byte {
	return seal(&wire.Catalog{Probe: []*wire.Probe{{Id: 5, Provider: "syscall", Function: "close", Name: "call",
		Field: []*wire.Field{{Name: "duration", Type: wire.FieldType_FIELD_DURATION},
			{Name: "ret", Type: wire.FieldType_FIELD_RESULT},
			{Name: "fd", Type: wire.FieldType_FIELD_FD, Bits: 32}}}}})
}

// All of its numbers are events, but for those that are skipped before the first, and lost before the second.
func batch(cpu uint32, first, end, skipped, lost uint64) *wire.Batch {
	m := &wire.Batch{Cpu: cpu, FirstSeq: first, EndSeq: end, TimeNs: 100, Thread: []*wire.Thread{{Tid: 9}},
		Probe: []uint32{5}, Events: uint32(end - first - skipped - lost)}
	if lost != 0 {
		m.Loss = []*wire.Loss{{Before: 1, Count: lost, Reason: wire.LossReason_REASON_RING_FULL}}
	}
	for i := uint32(0); i < m.Events; i++ {
		m.EventProbe, m.EventThread, m.Changed = append(m.EventProbe, 0), append(m.EventThread, 0), append(m.Changed, 1)
		m.Value, m.TimeHigh, m.GapLow = append(m.Value, 1), append(m.TimeHigh, 0), append(m.GapLow, 1)
		m.SpanLow = append(m.SpanLow, 2)
		if skipped != 0 {
			m.EventSkipped = append(m.EventSkipped, 0)
		}
	}
	if skipped != 0 {
		m.EventSkipped[0] = skipped
	}
	return m
}

type test struct {
	*testing.T
	stream *Stream
}

// A stream whose run has begun.
func begin(t *testing.T) *test {
	to := &test{t, NewStream("web-1")}
	to.open(hello(7))
	to.open(catalog())
	return to
}

func (t *test) open(frame []byte) []Item {
	t.Helper()
	message, err := OpenFrame(frame)
	if err != nil {
		t.Fatal(err)
	}
	items, err := t.stream.Take(message)
	if err != nil {
		t.Fatal(err)
	}
	return items
}

func (t *test) take(message proto.Message) []Item {
	t.Helper()
	return t.open(seal(message))
}

// What came, in short: numbers of events, spans of what is missing.
func said(items []Item) string {
	out := ""
	for _, item := range items {
		switch each := item.(type) {
		case *Event:
			out += fmt.Sprintf("%d ", each.Seq)
		case *Loss:
			out += fmt.Sprintf("lost %d+%d %s/%s ", each.Seq, each.Count, each.Stage, each.Reason)
		case *Gap:
			out += fmt.Sprintf("gap %d-%d %s/%s %d hole:%v ", each.FirstSeq, each.EndSeq, each.Stage, each.Reason,
				each.Events, each.IsHole)
		default:
			out += fmt.Sprintf("%T ", item)
		}
	}
	return out
}

func (t *test) expect(items []Item, text string) {
	t.Helper()
	if said(items) != text {
		t.Errorf("%q came, not %q", said(items), text)
	}
}

func (t *test) closes(expected Ledger) {
	t.Helper()
	ledger := t.stream.Ledger
	if ledger.Residual() != 0 || ledger.FramesResidual() != 0 {
		t.Errorf("%+v has a residual", ledger)
	}
	if ledger != expected {
		t.Errorf("the ledger is %+v, not %+v", ledger, expected)
	}
}

func TestEventHasItsValues(t *testing.T) {
	to := begin(t)
	event := to.take(batch(0, 10, 12, 0, 0))[1].(*Event)
	duration, _ := event.DurationNs()
	result, _ := event.Result()
	got := fmt.Sprint(event.Run.Host, event.CPU, event.Seq, event.TimeNs, event.Run.WallNs(event.TimeNs), duration, result,
		event.Words, event.Probe.Spec, event.Thread.TID)
	expected := fmt.Sprint("web-1", 0, 11, 106, 1106, 2, 2, []uint64{2, 2, 0}, "syscall:close:call", 9)
	if got != expected {
		t.Errorf("%s, not %s", got, expected)
	}
}

func TestWhatCameBefore(t *testing.T) {
	to := begin(t)
	to.expect(to.take(batch(0, 10, 13, 0, 0)), "10 11 12 ")
	to.expect(to.take(batch(0, 10, 13, 0, 0)), "")
	to.expect(to.take(batch(0, 11, 12, 0, 0)), "")
	to.closes(Ledger{Frames: 3, Taken: 1, Duplicate: 2, Span: 3, Events: 3})
}

func TestPartOfABatchCameBefore(t *testing.T) {
	to := begin(t)
	to.take(batch(0, 10, 20, 0, 0))
	to.expect(to.take(batch(0, 15, 27, 1, 8)), "lost 17+8 ring/ring-full 25 26 ")
	to.closes(Ledger{Frames: 2, Taken: 2, Span: 17, Events: 12, Lost: 5})
}

func TestBatchBeginsLater(t *testing.T) {
	to := begin(t)
	to.take(batch(0, 10, 20, 0, 0))
	to.expect(to.take(batch(0, 25, 26, 0, 0)), "gap 20-25 history/history-gone 0 hole:true 25 ")
	to.closes(Ledger{Frames: 2, Taken: 2, Span: 16, Events: 11, Holes: 5})
}

func TestWatermarkSaysWhatWasSkipped(t *testing.T) {
	to := begin(t)
	to.take(batch(1, 10, 20, 0, 0))
	mark := &wire.Watermark{TimeNs: 500, Position: []*wire.Position{{Cpu: 1, Seq: 26, Skipped: 4}, {Cpu: 2, Seq: 3}}}
	to.expect(to.take(mark), "gap 20-22 history/history-gone 0 hole:true *reader.Watermark ")
	to.expect(to.take(mark), "")
	to.expect(to.take(batch(1, 26, 27, 0, 0)), "26 ")
	to.closes(Ledger{Frames: 4, Taken: 3, Duplicate: 1, Span: 17, Events: 11, Skipped: 4, Holes: 2})
}

func TestGaps(t *testing.T) {
	to := begin(t)
	to.take(batch(0, 10, 20, 0, 0))
	gap := &wire.Gap{FirstSeq: 15, EndSeq: 40, Stage: wire.LossStage_LOSS_SPOOL, Reason: wire.LossReason_REASON_DISK,
		Events: 25}
	to.expect(to.take(gap), "gap 20-40 spool/disk 20 hole:false ")
	to.expect(to.take(gap), "")
	unknown := &wire.Gap{FirstSeq: 40, EndSeq: 40, Reason: wire.LossReason_REASON_RESTART}
	to.expect(to.take(unknown), "gap 40-40 ring/restart 0 hole:false ")
	to.expect(to.take(unknown), "")
	to.closes(Ledger{Frames: 5, Taken: 3, Duplicate: 2, Span: 30, Events: 10, Gaps: 20, Unknown: 1})
}

func TestWhereAConsumerResumes(t *testing.T) {
	to := begin(t)
	at := func(seq uint64) *wire.Cursor {
		return &wire.Cursor{BootId: boot, Epoch: 7, Position: []*wire.Position{{Seq: seq}}}
	}
	to.take(&wire.Subscribed{Start: at(10), Since: at(14)})
	to.expect(to.take(batch(0, 10, 16, 0, 0)), "14 15 ")
	to.closes(Ledger{Frames: 2, Taken: 2, Span: 2, Events: 2})
}

func TestRunsHaveNumbersOfTheirOwn(t *testing.T) {
	to := begin(t)
	to.take(batch(0, 10, 20, 0, 0))
	for _, each := range []struct {
		epoch    uint64
		expected string
	}{{8, "10 11 "}, {7, ""}, {8, ""}} {
		to.open(hello(each.epoch))
		to.open(catalog())
		to.expect(to.take(batch(0, 10, 12, 0, 0)), each.expected)
	}
	to.closes(Ledger{Frames: 4, Taken: 2, Duplicate: 2, Span: 12, Events: 12})
}

// ---- A fleet's records ----------------------------------------------------------------------------

type fleetTest struct {
	*testing.T
	*Fleet
	key     []byte
	catalog string
}

func beginFleet(t *testing.T) *fleetTest {
	f := &fleetTest{t, NewFleet(), nil, fmt.Sprintf("%08x", crc32.Checksum(catalog(), castagnoli))}
	f.key = []byte("web-1\x00" + runText + "\x00" + f.catalog)
	if err := f.Learn(f.key, append(hello(7), catalog()...)); err != nil {
		t.Fatal(err)
	}
	return f
}

func (f *fleetTest) take(m *wire.Batch, run string, value []byte) []Item {
	f.Helper()
	items, err := f.Take([]byte("web-1"), value, map[string]string{"schema": schema, "type": "batch", "run": run,
		"catalog": f.catalog, "cpu": fmt.Sprint(m.Cpu), "first": fmt.Sprint(m.FirstSeq), "end": fmt.Sprint(m.EndSeq)})
	if err != nil {
		f.Fatal(err)
	}
	return items
}

func (f *fleetTest) expect(items []Item, text string) {
	f.Helper()
	(&test{f.T, nil}).expect(items, text)
}

func (f *fleetTest) closes(records, taken, duplicate, isDamaged uint64) {
	f.Helper()
	h := f.Hosts["web-1"]
	if h.Residual() != 0 || h.Ledger.Residual() != 0 || h.Ledger.FramesResidual() != 0 ||
		[4]uint64{h.Records, h.Taken, h.Duplicate, h.Damaged} != [4]uint64{records, taken, duplicate, isDamaged} {
		f.Errorf("%d records = %d taken + %d duplicate + %d damaged; %+v", h.Records, h.Taken, h.Duplicate, h.Damaged,
			h.Ledger)
	}
}

func TestRecordsOnce(t *testing.T) {
	f := beginFleet(t)
	for _, each := range []struct {
		first, end uint64
		expected   string
	}{{10, 12, "*reader.Run 10 11 "}, {10, 12, ""}, {11, 14, "12 13 "}} {
		m := batch(0, each.first, each.end, 0, 0)
		f.expect(f.take(m, runText, seal(m)), each.expected)
	}
	f.closes(3, 2, 1, 0)
}

func TestDamagedRecordIsAGap(t *testing.T) {
	f := beginFleet(t)
	m := batch(0, 10, 20, 0, 0)
	f.expect(f.take(m, runText, seal(m)[:40]), "*reader.Run gap 10-20 history/corrupt 0 hole:true ")
	next := batch(0, 20, 22, 0, 0)
	f.expect(f.take(next, runText, seal(m)), "gap 20-22 history/corrupt 0 hole:true ") // another one than it is called
	f.closes(2, 0, 0, 2)
}

func TestRunIsNotThere(t *testing.T) {
	f := beginFleet(t)
	m := batch(0, 10, 12, 0, 0)
	f.expect(f.take(m, runText+"1", seal(m)), "gap 10-10 history/corrupt 0 hole:true ")
	f.expect(f.take(m, runText+"1", seal(m)), "")
	f.expect(f.take(m, runText, seal(m)), "*reader.Run 10 11 ")
	f.closes(3, 1, 0, 2)
	if err := f.Learn(f.key, nil); err != nil || len(f.runs) != 0 {
		t.Errorf("a deleted run is kept: %v", err)
	}
}

func TestOtherRecords(t *testing.T) {
	f := beginFleet(t)
	items, err := f.Take([]byte("web-1"), nil, map[string]string{"type": "batch"})
	if items != nil || err != nil || f.Other != 1 {
		t.Errorf("%v, %v, %d others", items, err, f.Other)
	}
}

// ---- What is damaged --------------------------------------------------------------------------------

// The error with which it ends; nil: it is whole.
func readAll(t *testing.T, data []byte) error {
	t.Helper()
	recording := NewRecording(bytes.NewReader(data))
	for {
		_, err := recording.Next()
		if err == nil {
			continue
		}
		if recording.Ledger.Residual() != 0 || recording.Ledger.FramesResidual() != 0 {
			t.Fatalf("%+v has a residual", recording.Ledger)
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		var broken *Damaged
		var refused *Refused
		if !errors.As(err, &broken) && !errors.As(err, &refused) && !errors.Is(err, ErrCutShort) {
			t.Fatalf("%v is no error of a damaged recording", err)
		}
		return err
	}
}

func TestBytesOfAFile(t *testing.T) {
	whole, err := os.ReadFile(recordings + "0.1.0/recording.rt")
	if err != nil {
		t.Fatal(err)
	}
	if err := readAll(t, whole); err != nil {
		t.Fatal(err)
	}
	chance := rand.New(rand.NewSource(1))
	for i := 0; i < mutants; i++ {
		data := append([]byte(nil), whole...)
		data[chance.Intn(len(data))] ^= 1 << chance.Intn(8)
		if readAll(t, data) == nil {
			t.Fatal("a damaged file is read as if it were whole")
		}
		if err := readAll(t, whole[:1+chance.Intn(len(whole)-1)]); !errors.Is(err, ErrCutShort) {
			t.Fatalf("of a file that was cut: %v", err)
		}
	}
}

func TestMessagesInSoundFrames(t *testing.T) {
	whole := [][]byte{hello(7), catalog(), seal(batch(0, 10, 20, 1, 1)),
		seal(&wire.Watermark{TimeNs: 5, Position: []*wire.Position{{Seq: 30, Skipped: 3}}}),
		seal(&wire.Gap{FirstSeq: 30, EndSeq: 40}), seal(&wire.Bye{})}
	if err := readAll(t, bytes.Join(whole, nil)); err != nil {
		t.Fatal(err)
	}
	chance := rand.New(rand.NewSource(2))
	reasons := map[string]bool{}
	for i := 0; i < mutants; i++ {
		frames := append([][]byte(nil), whole...)
		at := chance.Intn(len(frames) - 1)
		raw := append([]byte(nil), frames[at][headerBytes:]...)
		for n := 1 + chance.Intn(3); n > 0; n-- {
			raw[chance.Intn(len(raw))] = []byte{0, 1, 0x7f, 0x80, 0xff, byte(chance.Intn(256))}[chance.Intn(6)]
		}
		frames[at] = sealRaw(frames[at][3], raw)
		var broken *Damaged
		if errors.As(readAll(t, bytes.Join(frames, nil)), &broken) {
			reasons[broken.Why] = true
		}
	}
	if len(reasons) < 10 {
		t.Errorf("only so many reasons were given: %v", reasons)
	}
}

func TestColumnsOfAnotherLength(t *testing.T) {
	for i, change := range []func(*wire.Batch){
		func(m *wire.Batch) { m.Value = m.Value[1:] },
		func(m *wire.Batch) { m.Value = append(m.Value, 1) },
		func(m *wire.Batch) { m.GapLow = m.GapLow[1:] },
		func(m *wire.Batch) { m.GapMore = append(m.GapMore, 1) },
		func(m *wire.Batch) { m.Changed = m.Changed[1:] },
		func(m *wire.Batch) { m.EventThread[9] = 1 },
		func(m *wire.Batch) { m.EventProbe[9] = 1 },
		func(m *wire.Batch) { m.Changed[9] = 4 },
	} {
		m := batch(0, 10, 20, 0, 0)
		change(m)
		var broken *Damaged
		if err := readAll(t, bytes.Join([][]byte{hello(7), catalog(), seal(m)}, nil)); !errors.As(err, &broken) {
			t.Errorf("change %d: %v", i, err)
		}
	}
}

// Compressed: its announcement is looked at before there is memory for it.
func TestSizesAreLookedAtFirst(t *testing.T) {
	bomb := []byte{0x28, 0xb5, 0x2f, 0xfd, 0xe0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0}
	frame := sealRaw(11, bomb)
	binary.LittleEndian.PutUint32(frame[8:], 1<<20)
	binary.LittleEndian.PutUint32(frame[12:], crc32.Update(crc32.Checksum(frame[:12], castagnoli), castagnoli, bomb))
	if err := readAll(t, append(hello(7), frame...)); err == nil {
		t.Error("it was read")
	}
	binary.LittleEndian.PutUint32(frame[8:], 1<<21)
	if err := readAll(t, append(hello(7), frame...)); err == nil {
		t.Error("it was read")
	}
}

// RINGTAIL_DESCRIPTORS is what protoc makes of ringtail.proto now.
func TestMessagesAreThoseOfTheProto(t *testing.T) {
	path := os.Getenv("RINGTAIL_DESCRIPTORS")
	if path == "" {
		t.Skip("RINGTAIL_DESCRIPTORS is not set")
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var set descriptorpb.FileDescriptorSet
	if err := proto.Unmarshal(data, &set); err != nil {
		t.Fatal(err)
	}
	mine := protodesc.ToFileDescriptorProto(wire.File_ringtail_proto)
	if !proto.Equal(mine, set.File[0]) {
		t.Error("wire/ringtail.pb.go is not made of ringtail.proto as it is: see README.md")
	}
}
