// SPDX-License-Identifier: BSD-2-Clause

// Package reader reads what ringtaild records: a file of `tracectl record`, and a fleet's records in Kafka.
//
//	recording := reader.NewRecording(file)
//	for {
//		items, err := recording.Next()    // io.EOF: that was all
//		for _, item := range items {
//			if event, ok := item.(*reader.Event); ok { ... }
//		}
//	}
//
// In: frames, of a file (Recording) or of records (Fleet). Out: *Run, *Event, *Loss, *Gap, *Watermark and *End, each
// once, and a Ledger that closes over them. What is damaged is an error. A Recording, a Stream or a Fleet is one
// goroutine's.
package reader

import (
	"strings"

	"ringtail/reader/wire"
)

// Never is the duration of a call that never returns.
const Never = ^uint64(0)

// Field of a probe.
type Field struct {
	Name          string
	Type          wire.FieldType
	CType         string
	Bits          uint // 8, 16, 32 or 64
	Bytes         int  // TEXT, BYTES: in its own word and those behind it; 0: they are attached
	ElementSigned bool // of BYTES
}

// Value is the word as the number that it means; as an int64 where IsSigned.
func (f *Field) Value(word uint64) uint64 {
	shift := 64 - f.Bits
	if f.IsSigned() {
		return uint64(int64(word<<shift) >> shift)
	}
	return word << shift >> shift
}

// IsSigned tells how Value is to be read.
func (f *Field) IsSigned() bool {
	switch f.Type {
	case wire.FieldType_FIELD_SIGNED, wire.FieldType_FIELD_FD, wire.FieldType_FIELD_RESULT:
		return true
	}
	return false
}

// Probe of the catalog.
type Probe struct {
	ID          uint32
	Spec        string // "syscall:openat:call"
	Fields      []Field
	Print       string // how the kernel would print it
	HasDuration bool   // field 0 is the duration
	Result      int    // index of the result's field; -1: there is none
	FirstArg    int    // index of the first field behind both
}

// Thread that an event is of.
type Thread struct {
	TID, PID  uint32
	Comm      string // bytes in no known encoding, as Exe and Cgroup
	UID, PPID uint32
	IsKernel  bool
	Exe       string // empty: it is not known
	Cgroup    string
	CgroupID  uint64
}

// Item is one of *Run, *Event, *Loss, *Gap, *Watermark, *End.
type Item interface{ isItem() }

// Run of the rings, of which is what follows: numbers of events belong to it.
type Run struct {
	Host   string
	BootID [16]byte
	Epoch  uint64
	Hello  *wire.ServerHello
}

// WallNs is the wall clock of the time of an event, in ns since 1970.
func (r *Run) WallNs(timeNs uint64) uint64 { return r.Hello.RealtimeNs + timeNs - r.Hello.MonotonicNs }

// Attachment of an event.
type Attachment struct {
	Kind   wire.AttachmentKind
	Field  int      // of a string: index of the field that it belongs to
	Text   []byte   // of a string: cut if it has 128 bytes
	Frames []uint64 // of a stack: return addresses, innermost first
}

// Event is one event.
type Event struct {
	Run         *Run
	CPU         uint32
	Seq         uint64
	TimeNs      uint64 // when it ended
	Probe       *Probe
	Thread      *Thread
	Words       []uint64 // one for each of the probe's fields
	Attachments []Attachment
	StandsFor   uint64 // where events are counted: so many; else 1
}

// Returned is false of a call that never returns: it has no duration and no result.
func (e *Event) Returned() bool { return !e.Probe.HasDuration || e.Words[0] != Never }

// DurationNs is how long the call took.
func (e *Event) DurationNs() (uint64, bool) {
	if !e.Probe.HasDuration || !e.Returned() {
		return 0, false
	}
	return e.Words[0], true
}

// Result is what the call returned; from -4095 to -1 it is minus an errno.
func (e *Event) Result() (int64, bool) {
	if e.Probe.Result < 0 || !e.Returned() {
		return 0, false
	}
	return int64(e.Words[e.Probe.Result]), true
}

// Bytes of a field that is a text or an array; nil: they could not be read.
func (e *Event) Bytes(field int) []byte {
	of, data := &e.Probe.Fields[field], []byte(nil)
	if of.Bytes == 0 {
		data = e.String(field)
	} else {
		data = make([]byte, of.Bytes)
		for i := range data {
			data[i] = byte(e.Words[field+i/8] >> (i % 8 * 8))
		}
	}
	if of.Type == wire.FieldType_FIELD_TEXT {
		for i, each := range data {
			if each == 0 {
				return data[:i]
			}
		}
	}
	return data
}

// String that is attached to a field: what it points to, or stands for; nil: there is none.
func (e *Event) String(field int) []byte {
	for i := range e.Attachments {
		if each := &e.Attachments[i]; each.Kind == wire.AttachmentKind_ATTACH_STRING && each.Field == field {
			return each.Text
		}
	}
	return nil
}

// Stack of the kernel's or of the program's side.
func (e *Event) Stack(kind wire.AttachmentKind) []uint64 {
	for i := range e.Attachments {
		if e.Attachments[i].Kind == kind {
			return e.Attachments[i].Frames
		}
	}
	return nil
}

// Loss: attempts Seq .. Seq + Count - 1 became no event; in their place within a batch.
type Loss struct {
	Run           *Run
	CPU           uint32
	Seq, Count    uint64
	Stage, Reason string
}

// Gap: attempts FirstSeq .. EndSeq - 1 are missing; if these are equal, nobody knows how many are.
type Gap struct {
	Run              *Run // of a run that nothing decodes: the one before; nil: there was none
	CPU              uint32
	FirstSeq, EndSeq uint64
	Stage, Reason    string
	Events           uint64 // of these, how many were or may have been events; 0: nobody knows
	IsHole           bool   // no frame told of it: this reader found it missing
}

// Watermark: no event that is older than TimeNs will come from any CPU.
type Watermark struct {
	Run       *Run
	TimeNs    uint64
	Positions map[uint32]uint64 // by CPU: every attempt before it has been dealt with
}

// End of a source, in order.
type End struct {
	Run       *Run
	Reason    string
	IsFinal   bool
	Positions map[uint32]uint64
	Dump      *wire.Dump // of a dump's file: what it is; else nil
}

func (*Run) isItem()       {}
func (*Event) isItem()     {}
func (*Loss) isItem()      {}
func (*Gap) isItem()       {}
func (*Watermark) isItem() {}
func (*End) isItem()       {}

// As tracectl has it: "ring-full" of REASON_RING_FULL.
func name(of, prefix string, isKnown bool) string {
	if !isKnown {
		return "unknown"
	}
	return strings.ReplaceAll(strings.ToLower(strings.TrimPrefix(of, prefix)), "_", "-")
}

func stageName(stage wire.LossStage) string {
	of, isKnown := wire.LossStage_name[int32(stage)]
	return name(of, "LOSS_", isKnown)
}

func reasonName(reason wire.LossReason) string {
	of, isKnown := wire.LossReason_name[int32(reason)]
	return name(of, "REASON_", isKnown)
}
