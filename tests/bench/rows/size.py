"""How large the programs and the library are that a package installs: without debug symbols, and without the shared
libraries of others."""
from peers import host
from report import Row

NAME = "size"
FILES = {"ringtaild": "ringtaild", "tracectl": "tracectl", "courier": "ringtail-courier", "kafka": "ringtail-kafka",
         "libringtail": "libringtail.so.1"}


def measure(bench):
    rows = []
    for name, path in FILES.items():
        row = Row(f"size.{name}", "KiB")
        size = bench.attempt(row, lambda path=path: stripped_bytes(bench, path))
        if size:
            row.samples.append(size / 1024)
        rows.append(row)
    return rows


def stripped_bytes(bench, name):
    copy = bench.work / "stripped"
    host.run(["strip", "--remove-section=.comment", "--remove-section=.note", "-o", copy, bench.program(name)])
    size = copy.stat().st_size
    copy.unlink()
    return size
