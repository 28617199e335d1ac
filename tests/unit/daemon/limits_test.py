#!/usr/bin/env python3
"""The tables of limits and losses say what is so: each row is used, what tells of it exists, and
docs/limits.md is made of them as they are now."""
import contextlib
import glob
import io
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../tools"))
import limits  # noqa: E402

os.chdir(limits.ROOT)
SOURCES = {path: limits.read(path) for pattern in ("daemon/**/*.[ch]", "proto/*.[ch]", "query/*.[ch]",
                                                   "client/**/*.[ch]", "daemon/**/*.def")
           for path in glob.glob(pattern, recursive=True)}
CODE = "\n".join(text for path, text in SOURCES.items() if not path.endswith("limits.def"))
WORDS = set(re.findall(r"\w+", CODE))
failed = 0


def check(name, wrong):
    global failed
    print(f"{'not ok' if wrong else 'ok'} {name}")
    for line in wrong:
        print(f"    {line}")
    failed += bool(wrong)


def spoken_of(kind, what):
    """Whether such a counter, metric, loss reason, error or warning is there."""
    if kind == "counter":
        return what in [row[0] for row in limits.counters()]
    if kind == "loss":
        return what in [name for name, _ in limits.enum("LossReason")]
    if kind == "metric":  # a counter's, or named in full
        name = what.removeprefix("ringtail_collector_").removesuffix("_total")
        return name in [row[0] for row in limits.counters()] or what in CODE
    return kind in ("error", "warning") and f'"{what}"' in CODE


OPTIONS = {name for _, name, *_ in limits.rows("daemon/config/options.def", "OPTION")}


def told_wrongly():
    for name, value, unit, beyond, told, text, path in limits.limits():
        for item in told.split(", ") if told else []:
            kind, _, what = item.partition(" ")
            if not spoken_of(kind, what):
                yield f"{path}: {name}: there is no {item}"
        if not unit or not text:
            yield f"{path}: {name}: of what, in which unit?"


def unused():
    for name, *_ in limits.limits():
        if name not in WORDS:
            yield f"{name} bounds nothing"


def outside():
    for path in ("proto/limits.h", "daemon/base/limits.h"):
        for name in re.findall(r"^#define\s+(\w+)[^\S\n]+\S", limits.read(path), re.M):
            if name != "LIMIT(name":
                yield f"{path}: {name} is not in the table"


def reasons():
    stages = [name.replace("LOSS_", "LOSS_STAGE_") for name, _ in limits.enum("LossStage")]
    names = [name for name, _ in limits.enum("LossReason")]
    if re.findall(r"^\t(LOSS_STAGE\w+),", limits.read("proto/losses.h"), re.M) != stages + ["LOSS_STAGES"]:
        yield "proto/losses.h: enum loss_stage is not LossStage"
    for name, comment in limits.enum("LossStage") + limits.enum("LossReason"):
        if not comment:
            yield f"proto/ringtail.proto: {name} says nothing"
    rows = [f"REASON_{symbol}" for symbol, *_ in limits.reasons()]
    if rows != names:
        yield f"proto/losses.def: not the reasons of LossReason: {set(rows) ^ set(names)}"
    for symbol, name, what, remedy in limits.reasons():
        if name != symbol.lower().replace("_", "-") or not what or not remedy:
            yield f"proto/losses.def: {symbol}: its name, what happened, and what to do?"
        for option in re.findall(r"\b[a-z]+-(?:size|age|max|rate)\b", remedy):
            if option not in OPTIONS:
                yield f"proto/losses.def: {symbol}: there is no option {option}"


def stale():
    page = io.StringIO()
    with contextlib.redirect_stdout(page):
        limits.main()
    if page.getvalue() != limits.read("docs/limits.md"):
        yield "docs/limits.md is not what the tables say: make docs"


check("what is told of a limit exists", list(told_wrongly()))
check("every limit bounds something", list(unused()))
check("every limit is in a table", list(outside()))
check("losses have a place and a meaning", list(reasons()))
check("docs/limits.md is up to date", list(stale()))
sys.exit(bool(failed))
