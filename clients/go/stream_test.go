// SPDX-License-Identifier: BSD-2-Clause

package reader

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"ringtail/reader/wire"
)

func (t *test) refuses(message proto.Message, why string) {
	t.Helper()
	items, err := t.stream.Take(message)
	var broken *Damaged
	if items != nil || !errors.As(err, &broken) || !strings.Contains(err.Error(), why) {
		t.Errorf("%v and %q, not a damaged message of which is said %q", items, err, why)
	}
}

func helloOf(bootID []byte, epoch uint64) *wire.ServerHello {
	return &wire.ServerHello{Version: 1, Hostname: "self", BootId: bootID, Epoch: epoch}
}

func catalogOf() *wire.Catalog {
	message, _ := OpenFrame(catalog())
	return message.(*wire.Catalog)
}

func at(epoch uint64, bootID []byte, positions ...*wire.Position) *wire.Cursor {
	return &wire.Cursor{BootId: bootID, Epoch: epoch, Position: positions}
}

// ---- Order, and what a frame leaves ----------------------------------------------------------------

func TestNothingComesBeforeTheHello(t *testing.T) {
	to := &test{t, NewStream("")}
	for _, message := range []proto.Message{&wire.Catalog{}, batch(0, 1, 2, 0, 0), &wire.Gap{EndSeq: 1}, &wire.Watermark{},
		&wire.Bye{}, &wire.Subscribed{}, &wire.SegmentEnd{}} {
		to.refuses(message, "before the hello")
	}
	to.expect(to.take(&wire.SegmentHead{}), "")
	to.closes(Ledger{})
}

func TestBatchComesBehindTheCatalogOfItsRun(t *testing.T) {
	to := &test{t, NewStream("")}
	to.take(helloOf(boot, 7))
	to.refuses(batch(0, 10, 12, 0, 0), "before its catalog")
	to.take(catalogOf())
	to.expect(to.take(batch(0, 10, 12, 0, 0)), "10 11 ")
	to.take(helloOf(boot, 8))
	to.refuses(batch(0, 10, 12, 0, 0), "before its catalog")
	to.closes(Ledger{Frames: 1, Taken: 1, Span: 2, Events: 2})
}

func TestDamagedCatalogChangesNothing(t *testing.T) {
	to := begin(t)
	to.refuses(&wire.Catalog{Probe: []*wire.Probe{{Id: 6}, {Id: 6}}}, "twice")
	to.expect(to.take(batch(0, 10, 12, 0, 0)), "10 11 ")
}

func TestErrorEndsAStreamUnlessItIsOfAnAck(t *testing.T) {
	to := begin(t)
	to.expect(to.take(&wire.Error{Code: "ack-beyond"}), "")
	_, err := to.stream.Take(&wire.Error{Code: "slow-client", What: "what", Hint: "hint"})
	var refused *Refused
	if !errors.As(err, &refused) || *refused != (Refused{"slow-client", "what", "hint"}) {
		t.Errorf("%v", err)
	}
	if _, err := NewStream("").Take(&wire.Error{Code: "no"}); !errors.As(err, &refused) {
		t.Errorf("before the hello: %v", err)
	}
}

func TestStreamIsWholeWhereAnEndComesLast(t *testing.T) {
	to := begin(t)
	for _, each := range []struct {
		message proto.Message
		isWhole bool
	}{{&wire.Bye{}, true}, {batch(0, 10, 12, 0, 0), false}, {&wire.SegmentEnd{}, true}, {&wire.SegmentHead{}, false},
		{&wire.SegmentEnd{}, true}, {helloOf(boot, 7), false}} {
		to.take(each.message)
		if to.stream.IsWhole != each.isWhole {
			t.Errorf("after a %T: whole %v", each.message, to.stream.IsWhole)
		}
	}
}

func TestByeIsTold(t *testing.T) {
	to := begin(t)
	end := to.take(&wire.Bye{Reason: "done", End: at(7, boot, &wire.Position{Cpu: 2, Seq: 9})})[0].(*End)
	if end.Reason != "done" || end.IsFinal || end.Positions[2] != 9 || end.Run.Epoch != 7 {
		t.Errorf("%+v", end)
	}
	if end := to.take(&wire.Bye{Final: true})[0].(*End); !end.IsFinal {
		t.Errorf("%+v", end)
	}
	to.closes(Ledger{Frames: 2, Taken: 2})
}

// ---- Runs ------------------------------------------------------------------------------------------

func TestHelloNamesItsRun(t *testing.T) {
	for host, expected := range map[string]string{"": "self", "web-1": "web-1"} {
		to := &test{t, NewStream(host)}
		run := to.take(helloOf(boot, 7))[0].(*Run)
		if run.Host != expected || run.Epoch != 7 || string(run.BootID[:]) != string(boot) {
			t.Errorf("%+v", run)
		}
		for _, each := range [][]byte{nil, boot[:15], append(append([]byte(nil), boot...), 16)} {
			to.refuses(helloOf(each, 7), "no boot id")
		}
	}
}

// Sixteen runs are remembered. The one that is forgotten is the one that was entered longest ago.
func TestRunThatWasEnteredLongestAgoIsForgotten(t *testing.T) {
	to := begin(t)
	enter := func(epoch uint64) string {
		to.take(helloOf(boot, epoch))
		to.take(catalogOf())
		return said(to.take(batch(0, 10, 12, 0, 0)))
	}
	for epoch := uint64(7); epoch < 7+runsMax; epoch++ {
		if came := enter(epoch); came != "10 11 " {
			t.Errorf("run %d: %q", epoch, came)
		}
	}
	for _, each := range []struct {
		epoch    uint64
		expected string
	}{{7, ""}, {100, "10 11 "}, {7, ""}, {8, "10 11 "}, {100, ""}, {10, ""}, {9, "10 11 "}} {
		if came := enter(each.epoch); came != each.expected {
			t.Errorf("run %d: %q, not %q", each.epoch, came, each.expected)
		}
	}
	if len(to.stream.runs) != runsMax {
		t.Errorf("%d runs are remembered", len(to.stream.runs))
	}
}

func TestCursorOfAnotherRunIsNoPlaceInThisOne(t *testing.T) {
	other := append([]byte{1}, boot[1:]...)
	place := &wire.Position{Seq: 14}
	for _, since := range []*wire.Cursor{at(8, boot, place), at(7, other, place), nil} {
		to := begin(t)
		to.take(&wire.Subscribed{Start: at(7, boot, &wire.Position{Seq: 10}), Since: since})
		to.expect(to.take(batch(0, 10, 16, 0, 0)), "10 11 12 13 14 15 ")
	}
}

func TestSubscribedAgainMovesNothing(t *testing.T) {
	to := begin(t)
	first := &wire.Subscribed{Start: at(7, boot, &wire.Position{Seq: 10})}
	to.take(first)
	to.take(batch(0, 10, 12, 0, 0))
	to.take(first)
	to.expect(to.take(batch(0, 10, 12, 0, 0)), "")
	to.take(&wire.Subscribed{Start: at(7, boot, &wire.Position{Seq: 40}, &wire.Position{Cpu: 1, Seq: 5})})
	to.expect(to.take(batch(1, 6, 7, 0, 0)), "gap 5-6 history/history-gone 0 hole:true 6 ")
	to.closes(Ledger{Frames: 6, Taken: 4, Duplicate: 2, Span: 4, Events: 3, Holes: 1})
}

// ---- Bounds ----------------------------------------------------------------------------------------

func TestCpuIsInRange(t *testing.T) {
	to := begin(t)
	last, beyond := &wire.Position{Cpu: cpusMax - 1, Seq: 1}, &wire.Position{Cpu: cpusMax, Seq: 1}
	to.refuses(&wire.Watermark{TimeNs: 1, Position: []*wire.Position{last, beyond}}, "out of range")
	to.refuses(&wire.Subscribed{Start: at(7, boot, beyond)}, "out of range")
	to.refuses(&wire.Subscribed{Since: at(7, boot, beyond)}, "out of range")
	to.refuses(&wire.Bye{End: at(7, boot, beyond)}, "out of range")
	to.refuses(&wire.Gap{Cpu: cpusMax, EndSeq: 1}, "out of range")
	to.refuses(&wire.Gap{FirstSeq: 2, EndSeq: 1}, "ends before it begins")
	to.refuses(batch(cpusMax, 10, 12, 0, 0), "out of range")
	to.closes(Ledger{})
	to.take(&wire.Subscribed{Start: at(7, boot, last)})
	to.expect(to.take(batch(cpusMax-1, 1, 2, 0, 0)), "1 ")
	to.expect(to.take(&wire.Gap{Cpu: cpusMax - 1, FirstSeq: 2, EndSeq: 3}), "gap 2-3 ring/unknown 0 hole:false ")
}

// ---- Numbers ---------------------------------------------------------------------------------------

func TestResidualIsWhatNoCountTellsOf(t *testing.T) {
	ledger := Ledger{Span: 100, Events: 1, Lost: 2, Skipped: 4, Gaps: 8, Holes: 16, Frames: 100, Taken: 1, Duplicate: 2}
	if ledger.Residual() != 69 || ledger.FramesResidual() != 97 {
		t.Errorf("%d and %d", ledger.Residual(), ledger.FramesResidual())
	}
	host := Host{Records: 100, Taken: 1, Duplicate: 2, Damaged: 4}
	if host.Residual() != 93 {
		t.Errorf("%d", host.Residual())
	}
}

// It begins in what came before, and ends there: what it skips and loses is new as far as it is behind that.
func TestSkipsAndLossesAreNewBehindWhatCame(t *testing.T) {
	to := begin(t)
	to.take(batch(0, 10, 20, 0, 0))
	m := batch(0, 15, 30, 0, 0)
	m.Events = 2
	m.EventProbe, m.EventThread, m.Changed, m.Value = m.EventProbe[:2], m.EventThread[:2], m.Changed[:2], m.Value[:2]
	m.TimeHigh, m.GapLow, m.SpanLow = m.TimeHigh[:2], m.GapLow[:2], m.SpanLow[:2]
	m.Loss = []*wire.Loss{{Before: 0, Count: 3}, {Before: 1, Skipped: 4, Count: 1}, {Before: 2, Skipped: 1, Count: 2}}
	to.expect(to.take(m), "lost 23+1 ring/unknown 24 lost 26+2 ring/unknown ")
	to.closes(Ledger{Frames: 2, Taken: 2, Span: 20, Events: 11, Lost: 3, Skipped: 6})
}

func TestEmptyBatchMovesNothing(t *testing.T) {
	to := begin(t)
	to.take(batch(0, 10, 20, 0, 0))
	to.expect(to.take(batch(0, 15, 15, 0, 0)), "")
	to.expect(to.take(batch(0, 20, 21, 0, 0)), "20 ")
	to.closes(Ledger{Frames: 3, Taken: 3, Span: 11, Events: 11})
}

func TestGapThatTouchesWhatCameIsNoNews(t *testing.T) {
	to := begin(t)
	to.take(batch(0, 10, 20, 0, 0))
	to.expect(to.take(&wire.Gap{FirstSeq: 12, EndSeq: 20}), "")
	to.expect(to.take(&wire.Gap{FirstSeq: 25, EndSeq: 30, Events: 2}),
		"gap 20-25 history/history-gone 0 hole:true gap 25-30 ring/unknown 2 hole:false ")
	to.closes(Ledger{Frames: 3, Taken: 2, Duplicate: 1, Span: 20, Events: 10, Gaps: 5, Holes: 5})
}

// Its numbers are of another run: they are no place here, and it comes once at each place of each CPU.
func TestGapsOfNoSize(t *testing.T) {
	to := begin(t)
	other := func(cpu uint32, first, end uint64) *wire.Gap {
		return &wire.Gap{Cpu: cpu, FirstSeq: first, EndSeq: end, Reason: wire.LossReason_REASON_OTHER_EPOCH}
	}
	to.expect(to.take(other(0, 5, 9)), "gap 5-9 ring/other-epoch 0 hole:false ")
	to.expect(to.take(other(1, 5, 9)), "gap 5-9 ring/other-epoch 0 hole:false ")
	to.expect(to.take(other(0, 5, 9)), "")
	to.expect(to.take(other(0, 5, 8)), "gap 5-8 ring/other-epoch 0 hole:false ")
	to.expect(to.take(&wire.Gap{FirstSeq: 5, EndSeq: 5, Reason: wire.LossReason_REASON_RESTART}),
		"gap 5-5 ring/restart 0 hole:false ")
	to.expect(to.take(batch(0, 3, 4, 0, 0)), "3 ")
	to.closes(Ledger{Frames: 6, Taken: 5, Duplicate: 1, Span: 1, Events: 1, Unknown: 4})
}

func TestWatermarkIsNewsByItsTimeOrItsPlaces(t *testing.T) {
	to := begin(t)
	mark := func(timeNs, seq uint64) *wire.Watermark {
		return &wire.Watermark{TimeNs: timeNs, Position: []*wire.Position{{Seq: seq, Skipped: 2}}}
	}
	to.expect(to.take(mark(500, 10)), "*reader.Watermark ")
	to.expect(to.take(mark(500, 10)), "")
	to.expect(to.take(mark(400, 12)), "*reader.Watermark ")
	to.expect(to.take(mark(450, 12)), "")
	to.expect(to.take(mark(500, 11)), "")
	to.expect(to.take(mark(501, 11)), "*reader.Watermark ")
	to.expect(to.take(mark(501, 13)), "*reader.Watermark ")
	items := to.take(mark(502, 20))
	to.expect(items, "gap 13-18 history/history-gone 0 hole:true *reader.Watermark ")
	if last := items[1].(*Watermark); last.TimeNs != 502 || last.Positions[0] != 20 {
		t.Errorf("%+v", last)
	}
	to.closes(Ledger{Frames: 8, Taken: 5, Duplicate: 3, Span: 10, Skipped: 5, Holes: 5})
}

// ---- A file ----------------------------------------------------------------------------------------

func TestErrorOfAFileComesAgainAndSaysWhere(t *testing.T) {
	first, second := hello(7), catalog()
	broken := append(append(append([]byte(nil), first...), second...), seal(&wire.Gap{FirstSeq: 2, EndSeq: 1})...)
	recording := NewRecording(bytes.NewReader(append(broken, seal(&wire.Bye{})...)))
	for i := 0; i < 2; i++ {
		if _, err := recording.Next(); err != nil {
			t.Fatal(err)
		}
	}
	expected := fmt.Sprintf("frame at byte %d: ", len(first)+len(second))
	for i := 0; i < 2; i++ {
		items, err := recording.Next()
		if items != nil || err == nil || !strings.HasPrefix(err.Error(), expected) {
			t.Errorf("%v, %v, not %q", items, err, expected)
		}
	}
}

func TestFileEndsWithTheFrameThatEndsIt(t *testing.T) {
	whole := append(append(hello(7), catalog()...), seal(&wire.Bye{})...)
	for n, expected := range map[int]error{len(whole): io.EOF, len(whole) - 1: ErrCutShort, len(hello(7)): ErrCutShort,
		len(hello(7)) + headerBytes: ErrCutShort, len(hello(7)) + 3: ErrCutShort} {
		recording := NewRecording(bytes.NewReader(whole[:n]))
		var err error
		for err == nil {
			_, err = recording.Next()
		}
		if !errors.Is(err, expected) {
			t.Errorf("%d bytes: %v, not %v", n, err, expected)
		}
	}
}
