// SPDX-License-Identifier: BSD-2-Clause

// Example prints a recording, or a fleet's records, as lines of JSON, in the form of `tracectl read -o json`; the
// ledgers go to stderr.
//
//	example FILE
//	example -records FILE	lines of JSON: topic ("runs" or "frames"), headers; key and value, in hexadecimal
package main

import (
	"bufio"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"unicode/utf8"

	"ringtail/reader"
	"ringtail/reader/wire"
)

type object map[string]any

// Bytes that are no UTF-8 are the characters of their numbers.
func text(data string) string {
	out := make([]rune, 0, len(data))
	for len(data) > 0 {
		r, size := utf8.DecodeRuneInString(data)
		if r == utf8.RuneError && size == 1 {
			r = rune(data[0])
		}
		out = append(out, r)
		data = data[size:]
	}
	return string(out)
}

func array(field *reader.Field, data []byte) []any {
	out := []any{}
	for step := int(field.Bits / 8); len(data) >= step; data = data[step:] {
		value := uint64(0)
		for i := 0; i < step; i++ {
			value |= uint64(data[i]) << (8 * i)
		}
		if shift := 64 - field.Bits; field.ElementSigned {
			out = append(out, int64(value<<shift)>>shift)
		} else {
			out = append(out, value)
		}
	}
	return out
}

func argument(event *reader.Event, at int) any {
	field := &event.Probe.Fields[at]
	value := field.Value(event.Words[at])
	switch {
	case field.Type == wire.FieldType_FIELD_TEXT || field.Type == wire.FieldType_FIELD_BYTES:
		data := event.Bytes(at)
		if data == nil {
			return nil
		}
		if field.Type == wire.FieldType_FIELD_TEXT {
			return text(string(data))
		}
		return array(field, data)
	case field.Type == wire.FieldType_FIELD_HEX || field.Type == wire.FieldType_FIELD_STRING:
		return fmt.Sprintf("%#x", value)
	case field.CType == "bool" && field.Bits == 8:
		return value != 0
	case field.CType == "dev_t":
		return fmt.Sprintf("%d:%d", value>>20, value&0xfffff)
	case field.IsSigned():
		return int64(value)
	}
	return value
}

func addresses(stack []uint64) []string {
	out := []string{}
	for _, each := range stack {
		out = append(out, fmt.Sprintf("%#x", each))
	}
	return out
}

func strings(event *reader.Event) object {
	out := object{}
	for _, each := range event.Attachments {
		if each.Kind != wire.AttachmentKind_ATTACH_STRING {
			continue
		}
		switch field := &event.Probe.Fields[each.Field]; field.Type {
		case wire.FieldType_FIELD_STRING, wire.FieldType_FIELD_FD, wire.FieldType_FIELD_RESULT, wire.FieldType_FIELD_HEX:
			out[field.Name] = text(string(each.Text))
		}
	}
	return out
}

func putThread(said object, thread *reader.Thread) {
	said["tid"] = thread.TID
	if thread.PID != 0 || thread.Comm != "" {
		said["pid"], said["comm"] = thread.PID, text(thread.Comm)
	}
	if thread.Exe != "" || thread.Cgroup != "" || thread.CgroupID != 0 {
		said["ppid"], said["uid"] = thread.PPID, thread.UID
	}
	if thread.Exe != "" {
		base := len(thread.Exe)
		for base > 0 && thread.Exe[base-1] != '/' {
			base--
		}
		said["exe"] = text(thread.Exe[base:])
	}
	if thread.Cgroup != "" {
		said["cgroup"] = text(thread.Cgroup)
	}
	if thread.CgroupID != 0 {
		said["cgroup_id"] = thread.CgroupID
	}
}

func ofEvent(event *reader.Event) object {
	said := object{"time": event.TimeNs, "cpu": event.CPU, "seq": event.Seq, "probe": event.Probe.Spec}
	putThread(said, event.Thread)
	if duration, isThere := event.DurationNs(); isThere {
		said["duration"] = duration
	}
	if result, isThere := event.Result(); isThere {
		said["ret"] = result
		if result < 0 && result >= -4095 {
			said["errno"] = syscall.Errno(-result)
		}
	}
	arguments := object{}
	for at := event.Probe.FirstArg; at < len(event.Probe.Fields); at++ {
		if event.Probe.Fields[at].Type != wire.FieldType_FIELD_MORE {
			arguments[event.Probe.Fields[at].Name] = argument(event, at)
		}
	}
	said["args"] = arguments
	if found := strings(event); len(found) > 0 {
		said["strings"] = found
	}
	for kind, name := range map[wire.AttachmentKind]string{wire.AttachmentKind_ATTACH_KSTACK: "kstack",
		wire.AttachmentKind_ATTACH_USTACK: "ustack"} {
		if stack := event.Stack(kind); len(stack) > 0 {
			said[name] = addresses(stack)
		}
	}
	return said
}

func missing(cpu uint32, first, count, events uint64, stage, reason string) object {
	if events == 0 {
		events = count
	}
	return object{"lost": events, "cpu": cpu, "first_seq": first, "attempts": count, "stage": stage, "reason": reason}
}

// Nil: tracectl has no line for it.
func of(item reader.Item) (said object, host string) {
	switch each := item.(type) {
	case *reader.Event:
		if each.Probe.Spec == "process:map:executable" {
			return nil, ""
		}
		return ofEvent(each), each.Run.Host
	case *reader.Loss:
		return missing(each.CPU, each.Seq, each.Count, 0, each.Stage, each.Reason), each.Run.Host
	case *reader.Gap:
		if each.Run != nil {
			host = each.Run.Host
		}
		return missing(each.CPU, each.FirstSeq, each.EndSeq-each.FirstSeq, each.Events, each.Stage, each.Reason), host
	}
	return nil, ""
}

type printer struct {
	out    *json.Encoder
	ofMany bool
}

func (p *printer) put(items []reader.Item) error {
	for _, item := range items {
		said, host := of(item)
		if said == nil {
			continue
		}
		if p.ofMany {
			said["host"] = host
		}
		if err := p.out.Encode(said); err != nil {
			return err
		}
	}
	return nil
}

func putLedger(name string, ledger *reader.Ledger) {
	fmt.Fprintf(os.Stderr, "%s: %d = %d events + %d lost + %d skipped + %d gaps + %d holes; residual %d\n", name,
		ledger.Span, ledger.Events, ledger.Lost, ledger.Skipped, ledger.Gaps, ledger.Holes, ledger.Residual())
}

func readFile(file io.Reader, to *printer) error {
	recording := reader.NewRecording(bufio.NewReader(file))
	defer putLedger("recording", &recording.Ledger)
	for {
		items, err := recording.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := to.put(items); err != nil {
			return err
		}
	}
}

type record struct {
	Topic, Key string
	Value      *string
	Headers    map[string]string
}

func (r *record) bytes() (key, value []byte, err error) {
	if key, err = hex.DecodeString(r.Key); err == nil && r.Value != nil {
		value, err = hex.DecodeString(*r.Value)
	}
	return key, value, err
}

func readRecords(file io.Reader, to *printer) error {
	fleet := reader.NewFleet()
	to.ofMany = true
	for lines := json.NewDecoder(bufio.NewReader(file)); ; {
		var each record
		err := lines.Decode(&each)
		if errors.Is(err, io.EOF) {
			break
		}
		key, value, wrong := each.bytes()
		if err == nil {
			err = wrong
		}
		if err == nil && each.Topic == "runs" {
			err = fleet.Learn(key, value)
		} else if err == nil {
			var items []reader.Item
			items, err = fleet.Take(key, value, each.Headers)
			if err == nil {
				err = to.put(items)
			}
		}
		if err != nil {
			return err
		}
	}
	for name, host := range fleet.Hosts {
		putLedger(name, &host.Ledger)
		fmt.Fprintf(os.Stderr, "%s: %d records = %d taken + %d duplicate + %d damaged; residual %d\n", name, host.Records,
			host.Taken, host.Duplicate, host.Damaged, host.Residual())
	}
	return nil
}

func run() error {
	read, path := readFile, os.Args[len(os.Args)-1]
	if len(os.Args) == 3 && os.Args[1] == "-records" {
		read = readRecords
	} else if len(os.Args) != 2 {
		return errors.New("usage: example [-records] FILE")
	}
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	buffer := bufio.NewWriter(os.Stdout)
	to := &printer{out: json.NewEncoder(buffer)}
	to.out.SetEscapeHTML(false)
	err = read(file, to)
	if flushed := buffer.Flush(); err == nil {
		err = flushed
	}
	return err
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "example:", err)
		os.Exit(1)
	}
}
