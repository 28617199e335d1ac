#!/usr/bin/env python3
"""limits: docs/limits.md, made of the tables: options, limits, loss reasons, counters.

Prints the page. tests/unit/daemon/limits_test.py holds the page, and each row, to it.
"""
import os
import re

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
STRING = r'"(?:[^"\\]|\\.)*"'


def read(path):
    with open(os.path.join(ROOT, path)) as text:
        return text.read()


def without_comments(text):
    return re.sub(r"/\*.*?\*/", "", text, flags=re.S)


def joined(text):
    """C's adjacent string literals as one."""
    return "".join(part[1:-1] for part in re.findall(STRING, text))


def rows(path, macro):
    """The arguments of each MACRO(...) of a table, strings joined, the rest as it is written."""
    text = without_comments(read(path))
    for start in re.finditer(rf"^{macro}\(", text, re.M):
        depth, arguments, i = 1, [""], start.end()
        while depth:
            string = re.match(STRING, text[i:])
            piece = string.group(0) if string else text[i]
            depth += {"(": 1, ")": -1}.get(piece, 0)
            if piece == "," and depth == 1:
                arguments.append("")
            elif depth:
                arguments[-1] += piece
            i += len(piece)
        yield [joined(argument) if '"' in argument else argument.strip()
               for argument in arguments]


def value_of(text, names):
    """A constant expression's value, given those of the names before it."""
    text = re.sub(r"\b(0x[0-9a-fA-F]+|\d+)[uUlL]+\b", r"\1", text)
    return eval(text.replace("/", "//"), {"__builtins__": {}}, names)  # our own table's arithmetic, in integers


def limits():
    """(name, value, unit, beyond, told, help, path) of every bound that is not an option."""
    names, found = {}, []
    for path in ["proto/limits.def", "daemon/base/limits.def"]:
        for name, value, *rest in rows(path, "LIMIT"):
            names[name] = value_of(value, names)
            found.append((name, names[name], *rest, path))
    return found


def options():
    """(name, default, argument, help) of every option that bounds something."""
    for member, name, kind, place, default, low, high, argument, text in \
            rows("daemon/config/options.def", "OPTION"):
        if kind in ("BYTES", "POWER2", "DURATION", "COUNT"):
            yield name, default, text
        elif kind == "CHOICE" and "|" in argument:
            yield name, default, text


def enum(name):
    """(value's name, comment) of an enum of the proto."""
    body = re.search(rf"^enum {name} {{(.*?)^}}", read("proto/ringtail.proto"), re.M | re.S)
    return [(value, comment or "") for value, comment in
            re.findall(r"^\t(\w+) = \d+;[ \t]*(?:// (.*))?$", body.group(1), re.M)]


def reasons():
    """(symbol, name, what happened, what to do) of each reason of a loss."""
    return list(rows("proto/losses.def", "LOSS_REASON"))


def counters():
    return list(rows("daemon/base/counters.def", "COUNTER"))


def readable(value, unit):
    if unit == "ns":
        for size, name in [(10**9, "s"), (10**6, "ms"), (10**3, "µs")]:
            if value >= size and value % size == 0:
                return f"{value // size} {name}"
    if unit == "bytes":
        for size, name in [(1 << 20, "MiB"), (1 << 10, "KiB")]:
            if value >= size and value % size == 0:
                return f"{value // size} {name}"
    return f"{value} {unit}"


def table(head, lines):
    print("| " + " | ".join(head) + " |")
    print("|" + "---|" * len(head))
    for line in lines:
        print("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |")
    print()


def main():
    print("# Limits, deadlines and losses\n")
    print("Made by `make docs` from the tables that the code is made from: `daemon/config/options.def`,")
    print("`proto/limits.def`, `proto/losses.def`, `daemon/base/limits.def`, `daemon/base/counters.def` and")
    print("the enum LossStage of `proto/ringtail.proto`. A test fails where this page is not what they say.\n")
    print("## Options\n")
    print("What the one who runs the daemon decides; `ringtaild.conf`(5) says more.\n")
    table(["option", "default", "what"],
          [(f"`{name}`", f"`{default}`", text) for name, default, text in options()])
    for path, title, text in [
            ("proto/limits.def", "On the wire", "Checked before anything is allocated."),
            ("daemon/base/limits.def", "Inside the daemon", "Fixed when it is built.")]:
        print(f"## {title}\n\n{text}\n")
        table(["limit", "value", "of what", "beyond it", "told by"],
              [(f"`{name}`", readable(value, unit), text, beyond, told)
               for name, value, unit, beyond, told, text, where in limits() if where == path])
    print("## Where and why events are lost\n")
    print("Every loss is counted under one stage and one reason, for each ring, client, spool and")
    print("destination; `tracectl stat` shows them, and they are the labels `stage` and `reason` of")
    print("the metrics.\n")
    table(["stage", "what"], enum("LossStage"))
    table(["reason", "in text", "what happened", "what to do"],
          [(f"REASON_{symbol}", name, what, remedy) for symbol, name, what, remedy in reasons()])
    print("## What the daemon counts about itself\n")
    table(["counter", "what"], [(f"`{name}`", text) for name, text in counters()])


if __name__ == "__main__":
    main()
