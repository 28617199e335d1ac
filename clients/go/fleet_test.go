// SPDX-License-Identifier: BSD-2-Clause

package reader

import (
	"errors"
	"fmt"
	"testing"

	"google.golang.org/protobuf/proto"

	"ringtail/reader/wire"
)

func (f *fleetTest) headers(kind string, m *wire.Batch) map[string]string {
	return map[string]string{"schema": schema, "type": kind, "run": runText, "catalog": f.catalog,
		"cpu": fmt.Sprint(m.Cpu), "first": fmt.Sprint(m.FirstSeq), "end": fmt.Sprint(m.EndSeq)}
}

func (f *fleetTest) put(message proto.Message, headers map[string]string) []Item {
	f.Helper()
	items, err := f.Take([]byte("web-1"), seal(message), headers)
	if err != nil {
		f.Fatal(err)
	}
	return items
}

func TestRecordIsOursByItsHeaders(t *testing.T) {
	f := beginFleet(t)
	m := batch(0, 10, 12, 0, 0)
	for i, change := range []func(map[string]string){
		func(h map[string]string) { delete(h, "schema") },
		func(h map[string]string) { h["schema"] = "ringtail.v2" },
		func(h map[string]string) { delete(h, "run") },
		func(h map[string]string) { h["catalog"] = "" },
		func(h map[string]string) { h["type"] = "hello" },
		func(h map[string]string) { delete(h, "type") },
		func(h map[string]string) { h["first"] = "ten" },
		func(h map[string]string) { h["end"] = "-1" },
		func(h map[string]string) { h["cpu"] = "4294967296" },
	} {
		headers := f.headers("batch", m)
		change(headers)
		if items := f.put(m, headers); items != nil || f.Other != uint64(i+1) || len(f.Hosts) != 0 {
			t.Errorf("change %d: %s, %d others, %d hosts", i, said(items), f.Other, len(f.Hosts))
		}
	}
	if items, err := f.Take(nil, seal(m), f.headers("batch", m)); items != nil || err != nil || f.Other != 10 {
		t.Errorf("without a key: %s, %v", said(items), err)
	}
	f.expect(f.put(m, f.headers("batch", m)), "*reader.Run 10 11 ")
}

func TestEachKindOfRecord(t *testing.T) {
	f := beginFleet(t)
	plain := func(kind string) map[string]string {
		headers := f.headers(kind, &wire.Batch{})
		delete(headers, "cpu")
		delete(headers, "first")
		delete(headers, "end")
		return headers
	}
	span := func(cpu uint32, first, end uint64) map[string]string {
		return f.headers("gap", &wire.Batch{Cpu: cpu, FirstSeq: first, EndSeq: end})
	}
	gap := &wire.Gap{Cpu: 1, FirstSeq: 3, EndSeq: 9, Events: 6}
	f.expect(f.put(&wire.Subscribed{}, plain("subscribed")), "*reader.Run ")
	f.expect(f.put(gap, span(1, 3, 9)), "gap 3-9 ring/unknown 6 hole:false ")
	f.expect(f.put(&wire.Watermark{TimeNs: 4}, plain("watermark")), "*reader.Watermark ")
	f.expect(f.put(&wire.Bye{}, plain("bye")), "*reader.End ")
	f.closes(4, 3, 1, 0) // nothing is new in a Subscribed without places
	f.expect(f.put(&wire.Bye{}, plain("watermark")), "")
	f.expect(f.put(&wire.Gap{Cpu: 1, FirstSeq: 9, EndSeq: 12}, span(1, 9, 11)), "gap 9-11 history/corrupt 0 hole:true ")
	f.expect(f.put(&wire.Gap{Cpu: 1, FirstSeq: 10, EndSeq: 13}, span(1, 11, 13)),
		"gap 11-13 history/corrupt 0 hole:true ")
	f.expect(f.put(&wire.Gap{Cpu: 2, FirstSeq: 13, EndSeq: 15}, span(1, 13, 15)),
		"gap 13-15 history/corrupt 0 hole:true ")
	f.closes(8, 3, 1, 4)
}

// It tells of its run by another catalog from here on: the stream enters the run again, with the numbers it has.
func TestRunWithAnotherCatalog(t *testing.T) {
	f := beginFleet(t)
	other := seal(&wire.Catalog{Probe: []*wire.Probe{probe(6), catalogOf().Probe[0]}})
	if err := f.Learn([]byte("web-1\x00"+runText+"\x00other"), append(hello(7), other...)); err != nil {
		t.Fatal(err)
	}
	m := batch(0, 10, 12, 0, 0)
	f.expect(f.put(m, f.headers("batch", m)), "*reader.Run 10 11 ")
	m = batch(0, 12, 13, 0, 0)
	headers := f.headers("batch", m)
	headers["catalog"] = "other"
	f.expect(f.put(m, headers), "*reader.Run 12 ")
	m = batch(0, 13, 14, 0, 0)
	headers = f.headers("batch", m)
	headers["catalog"] = "other"
	f.expect(f.put(m, headers), "13 ")
	m = batch(0, 14, 15, 0, 0)
	headers = f.headers("batch", m)
	f.expect(f.put(m, headers), "*reader.Run 14 ")
	f.closes(4, 4, 0, 0)
}

func TestRecordOfARunIsAHelloAndItsCatalog(t *testing.T) {
	f := beginFleet(t)
	var broken *Damaged
	for i, value := range [][]byte{hello(7), append(append(hello(7), catalog()...), seal(&wire.Bye{})...), {},
		append(hello(7), catalog()[:20]...)} {
		if err := f.Learn([]byte("key"), value); !errors.As(err, &broken) {
			t.Errorf("value %d: %v", i, err)
		}
	}
	if len(f.runs) != 1 {
		t.Errorf("%d runs are known", len(f.runs))
	}
	m := batch(0, 10, 12, 0, 0)
	for i, value := range [][]byte{append(hello(7), hello(7)...), append(catalog(), catalog()...)} {
		if err := f.Learn(f.key, value); err != nil {
			t.Fatal(err)
		}
		items := f.put(m, f.headers("batch", m))
		if expected := []string{"gap 10-10 history/corrupt 0 hole:true ", ""}[i]; said(items) != expected {
			t.Errorf("value %d: %q, not %q", i, said(items), expected)
		}
	}
	f.closes(2, 0, 0, 2)
	if f.Hosts["web-1"].Ledger.Unknown != 1 {
		t.Errorf("%+v", f.Hosts["web-1"].Ledger)
	}
}

func TestHostsHaveOneCatalogTogether(t *testing.T) {
	f := beginFleet(t)
	for _, host := range []string{"web-2", "web-3"} {
		if err := f.Learn([]byte(host+"\x00"+runText+"\x00"+f.catalog), append(hello(7), catalog()...)); err != nil {
			t.Fatal(err)
		}
	}
	if len(f.runs) != 3 || len(f.values) != 1 {
		t.Errorf("%d runs, %d catalogs", len(f.runs), len(f.values))
	}
	m := batch(0, 10, 12, 0, 0)
	items, err := f.Take([]byte("web-2"), seal(m), f.headers("batch", m))
	if err != nil || said(items) != "*reader.Run 10 11 " || items[0].(*Run).Host != "web-2" ||
		f.Hosts["web-2"].Taken != 1 {
		t.Errorf("%s, %v", said(items), err)
	}
}

// Of a record that is damaged, what came already is not missing.
func TestDamagedRecordOfWhatCameInPart(t *testing.T) {
	f := beginFleet(t)
	broken := &wire.Batch{} // other numbers than its headers have
	lose := func(cpu uint32, first, end uint64) []Item {
		return f.put(broken, f.headers("batch", &wire.Batch{Cpu: cpu, FirstSeq: first, EndSeq: end}))
	}
	m := batch(0, 10, 20, 0, 0)
	f.put(m, f.headers("batch", m))
	f.expect(lose(0, 12, 18), "")
	f.expect(lose(0, 12, 20), "")
	f.expect(lose(0, 15, 25), "gap 20-25 history/corrupt 0 hole:true ")
	f.expect(lose(0, 30, 32), "gap 25-30 history/history-gone 0 hole:true gap 30-32 history/corrupt 0 hole:true ")
	f.expect(lose(cpusMax, 10, 12), "")
	f.expect(lose(1, 10, 12), "gap 10-12 history/corrupt 0 hole:true ")
	f.closes(7, 1, 0, 6)
	ledger := f.Hosts["web-1"].Ledger
	if ledger.Span != 24 || ledger.Holes != 14 || ledger.Events != 10 {
		t.Errorf("%+v", ledger)
	}
}

// Each run that nothing decodes is told of once, where the stream is in another one.
func TestRunsThatAreNotThere(t *testing.T) {
	f := beginFleet(t)
	m := batch(0, 10, 12, 0, 0)
	f.put(m, f.headers("batch", m))
	for _, each := range []struct{ run, expected string }{{"a", "gap 20-20 history/corrupt 0 hole:true "}, {"a", ""},
		{"b", "gap 20-20 history/corrupt 0 hole:true "}, {"b", ""}} {
		later := batch(0, 20, 22, 0, 0)
		headers := f.headers("batch", later)
		headers["run"] = each.run
		f.expect(f.put(later, headers), each.expected)
	}
	if unknown := f.Hosts["web-1"].Ledger.Unknown; unknown != 2 {
		t.Errorf("%d", unknown)
	}
	f.closes(5, 1, 0, 4)
}
