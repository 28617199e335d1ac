#!/usr/bin/env python3
"""bench: every budget of the design, measured beside its peers in the same run.

    run.py [--build DIR] [--rounds N] [--row NAME]... [--list]

Rows are grouped in files under rows/; each goes through its rounds, ringtail and peers in turns, so
that a noisy neighbour meets both. Prints a table and writes DIR/bench.jsonl, one object per row. A
peer that cannot run here leaves a row that says why. Exit: 0 measured, 1 a row could not be
measured on ringtail's side, 2 usage, 77 nothing can be measured (not root).
"""
import argparse
import contextlib
import importlib
import os
import pathlib
import shutil
import signal
import sys
import tempfile
import time

sys.dont_write_bytecode = True  # the tree stays as it was

import report  # noqa: E402
from peers import ftrace, host  # noqa: E402

GROUPS = ("producer", "encode", "collector", "tbench", "answer", "count", "wire", "memory", "size", "latency", "start", "idle",
          "decode", "top", "metrics", "export", "profile", "tracepoint", "uprobe", "program", "kmod")
QUIET_PERCENT = 5


class Bench:
    """What every row needs: where the programs are, a directory, the number of rounds; and the rows
    of the groups before it, which may be its peers."""

    def __init__(self, build, work, rounds):
        self.build, self.work, self.asked_rounds = build, work, rounds
        self.rows = {}
        self.cpus = host.CPUS

    def rounds(self, usual):
        return self.asked_rounds or usual

    def program(self, name):
        path = self.build / name
        if not path.exists():
            raise host.Unavailable(f"{path} is not built")
        return path

    def attempt(self, row, measure, tries=1):
        """The figure, or None with the reason in the row."""
        for left in reversed(range(tries)):
            try:
                return measure()
            except (host.Unavailable, AssertionError, OSError) as error:
                reason = str(error)
            if not left and reason not in (row.why or ""):
                row.why = f"{row.why}; {reason}" if row.why else reason
        return None

    def beside(self, row, name, peer=None):
        """Lets the row of that name, of this run, be the peer of another one; or its peer, which is called `peer`."""
        row.peer = peer or name
        other = self.rows.get(name)
        row.peer_samples = (other.peer_samples if peer else other.samples) if other else []
        if not row.peer_samples:
            group = name.partition(".")[0]
            row.why = f"no {row.peer} in this run" + ("" if other else f": add --row {group}")
        return row

    @contextlib.contextmanager
    def optional(self, row, context):
        """The context, or None with the reason in the row where it cannot be entered."""
        with contextlib.ExitStack() as stack:
            yield self.attempt(row, lambda: stack.enter_context(context))


def measure_group(bench, name):
    """The group's rows, or one that says why there are none."""
    group = importlib.import_module(f"rows.{name}")
    start = time.monotonic()
    print(f"bench: {name} ...", end="", file=sys.stderr, flush=True)
    try:
        rows = list(group.measure(bench))
    except (host.Unavailable, OSError) as error:
        rows = [report.Row(name, "", why=str(error))]
    print(f" {time.monotonic() - start:.0f} s", file=sys.stderr)
    bench.rows.update({row.name: row for row in rows})
    return [row.as_object() for row in rows]


def chosen_groups(parser, names):
    """In the order of GROUPS: a group's peer may be a row of one before it."""
    groups = set()
    for name in names or GROUPS:
        group = name.split(".")[0]
        if group not in GROUPS:
            parser.error(f"no row {name}; there are {', '.join(GROUPS)}")
        groups.add(group)
    return [group for group in GROUPS if group in groups]


def end_on_signal(number, _frame):
    """Contexts unwind: what was started is ended, what was changed is put back."""
    raise SystemExit(128 + number)


def main():
    parser = argparse.ArgumentParser(description="measure ringtail beside its peers")
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build"))
    parser.add_argument("--rounds", type=int, default=0, help="of every row; 0: what it is used to")
    parser.add_argument("--row", action="append", help="only this group of rows (repeatable)")
    parser.add_argument("--list", action="store_true", help="name the groups and stop")
    arguments = parser.parse_args()
    if arguments.list:
        print("\n".join(GROUPS))
        return 0
    groups = chosen_groups(parser, arguments.row)
    if os.geteuid():
        print("bench: needs root, for tracefs, perf and BPF", file=sys.stderr)
        return 77
    signal.signal(signal.SIGTERM, end_on_signal)
    work = pathlib.Path(tempfile.mkdtemp(prefix="ringtail-bench-"))
    work.chmod(0o711)  # the engine gives up root and must still reach its files
    others = host.busy_percent()
    if others > QUIET_PERCENT:
        print(f"bench: other work takes {others:.0f} % of the CPUs: do not trust these figures",
              file=sys.stderr)
    rows = []
    with contextlib.suppress(host.Unavailable):  # each row says what it misses
        ftrace.mount()
    try:
        bench = Bench(arguments.build.resolve(), work, arguments.rounds)
        for name in groups:
            rows += measure_group(bench, name)
    finally:
        shutil.rmtree(work, ignore_errors=True)
        if rows:
            report.write_jsonl(rows, arguments.build / "bench.jsonl")
            report.print_table(rows)
    return 1 if any(row["value"] is None for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
