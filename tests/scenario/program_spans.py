"""Spans of a program (RT_SPAN of ringtail-probe.h) in text and JSON: begin and end with the ids of trace, span and parent,
on one thread and over two, under the W3C traceparent that another program handed it; filtered by trace and by duration."""
import os
import re

import ringtail
from lib.probing import Program, build

TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
TURNS = 2000                    # that fits into one ring


def args_of(events, name, half):
    return next(event["args"] for event in events if event["probe"] == f"app:{name}:{half}")


def check_request(case, daemon, binary, socket):
    program = Program(case, binary, socket, "request", TRACEPARENT=f"00-{TRACE}-{PARENT}-01")
    case.check(program.attached, "the program is attached")
    text = case.stream(daemon, "-p", "app")
    every = case.stream(daemon, "-p", "app", "-f", f'trace_id == "{TRACE}"', "-o", "json")
    failed = case.stream(daemon, "-p", "app:*:end", "-f", "status < 0 && duration > 0", "-o", "json")
    case.check_equal(program.go().process.wait().code, 0, "and ends well")
    every.await_all(8)
    text.await_all(8)
    failed.await_all(1)
    case.check_balanced(daemon)
    events = every.interrupt().lines
    spans = {name: args_of(events, name, "begin") for name in ("request", "query", "job", "step")}
    under = {name: next((other for other, args in spans.items() if args["span_id"] == span["parent_id"]), span["parent_id"])
             for name, span in spans.items()}
    case.check_equal(under, {"request": PARENT, "query": "request", "job": "request", "step": "job"},
                     "each span is under the one that it was begun in")
    case.check_equal({name: span["scope"] for name, span in spans.items()},
                     {"request": True, "query": True, "job": False, "step": True}, "scopes are told")
    case.check_equal((spans["request"]["id"], spans["request"]["arg1"], spans["query"]["text"]), (7, "/index", "select"),
                     "arguments come with the begin")
    ends = {name: args_of(events, name, "end") for name in spans}
    ids = ("trace_id", "span_id", "parent_id")
    case.check(all(ends[name][key] == spans[name][key] for name in spans for key in ids), "each end has the ids of its begin",
               ends)
    case.check_equal({name: end["status"] for name, end in ends.items()}, {"request": 0, "query": 0, "job": -5, "step": 0},
                     "and what the program calls its failure")
    took = {event["probe"]: event["duration"] for event in events if "duration" in event}
    case.check(len(took) == 4 and took["app:request:end"] > took["app:query:end"] > 0, "and how long it took", took)
    case.check_equal([event["probe"] for event in failed.interrupt().lines], ["app:job:end"],
                     "what failed is found by its status and duration")
    lines = text.interrupt().out.splitlines()
    case.check(any(f"app:request:begin: id 7, /index [trace_id={TRACE} span_id={spans['request']['span_id']}"
                   f" parent_id={PARENT}]" in line for line in lines), "a begin reads well", lines)
    case.check(any(line.split(" app:request:end(duration_ns=")[-1] != line and f'trace_id="{TRACE}"' in line
                   for line in lines), "and so does an end", lines)
    case.check(f"hands on 00-{TRACE}-{spans['request']['span_id']}-01" in program.out,
               "the program hands its own span on", program.out)


def check_many(case, daemon, binary, socket):
    """Each begin has its end, and each inner one its outer one."""
    program = Program(case, binary, socket, "many", TURNS)
    stream = case.stream(daemon, "-p", "app", "-f", f"pid == {program.pid}", "-o", "json")
    program.go().process.wait()
    stream.await_all(4 * TURNS)
    case.check_balanced(daemon)
    done = stream.interrupt()
    case.check_stream(done, events=4 * TURNS)
    begun, ended, wrong = {}, set(), 0
    for event in done.lines:
        args, name = event["args"], event["probe"].split(":")[1]
        if event["probe"].endswith(":begin"):
            parent = begun.get(args["parent_id"])
            wrong += args["span_id"] in begun or (parent != "outer" if name == "inner" else args["parent_id"] != "")
            begun[args["span_id"]] = name
        else:
            wrong += begun.get(args["span_id"]) != name or args["span_id"] in ended
            ended.add(args["span_id"])
    case.check_equal((len(begun), len(ended), wrong), (2 * TURNS, 2 * TURNS, 0), "every span ends once, under its parent")


def main(case):
    socket = os.path.join(case.path("run"), "programs.sock")
    binary = build(case, "spanned", "spanned")
    daemon = case.daemon(f"--programs={socket}")
    check_request(case, daemon, binary, socket)
    check_many(case, daemon, binary, socket)
    listed = case.tracectl(daemon, "list", "app:request:*").out.splitlines()
    case.check(any(re.fullmatch(r'app:request:end\([^"]*spanned\.c:42 \[[^"]*\]', line) for line in listed),
               "the end, which prints its fields, has a place and no format", listed)
    case.check_equal(sorted(line.split("(")[0] for line in listed), ["app:request:begin", "app:request:end"],
                     "both halves are listed")
    counters = daemon.stat()["counters"]
    case.check_equal((counters["program_records_bad"], counters["programs_corrupt"]), (0, 0), "no record was bad")
    case.check_balanced(daemon)


ringtail.run(main)
