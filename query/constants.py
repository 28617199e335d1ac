#!/usr/bin/env python3
"""constants: query/constants.def as tables of C, with the values that the compiler knows.

	usage: constants.py CC constants.def >constants.inc

The compiler is asked for values, and nothing it has made is run: so CC may be another processor's.
"""
import functools
import re
import subprocess
import sys

CC = sys.argv[1].split()
KERNEL_SIGRTMIN = 32    # what the C library calls so is another


@functools.cache
def compiled(text, *options):
    return subprocess.run([*CC, "-D_GNU_SOURCE", "-w", "-x", "c", *options, "-"], input=text, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def includes(headers):
    return "".join(f"#include <{header}>\n" for header in headers)


def known_headers(headers):
    """Those that this machine has."""
    return [header for header in headers
            if compiled(f"#include <{header}>\n", "-fsyntax-only").returncode == 0]


def names_of(headers, wanted, excepted, enum):
    text = includes(headers)
    found = [] if enum else re.findall(r"^#define (\w+)(?= )", compiled(text, "-E", "-dM").stdout, re.M)
    bodies = re.findall(r"enum\s+%s\s*{(.*?)}" % (enum or r"(?:\w+)?"),
                        compiled(text, "-E", "-P").stdout, re.S)
    for body in bodies:
        found += re.findall(r"(?:^|,)\s*([A-Za-z_]\w*)", body)
    return sorted({name for name in found if re.fullmatch(wanted, name) and
                   not (excepted and re.fullmatch(excepted, name))})


def values_of(headers, expressions):
    """Of each expression that is a constant, in as many turns as it takes to leave out the others."""
    left = list(expressions)
    while left:
        head = includes(headers)
        first = head.count("\n") + 2
        text = head + "void values(void)\n{\n" + "".join(
            f'__asm__ volatile(".ascii \\"=value {i} %c0\\"" : : "i"((int)({expression})));\n'
            for i, expression in enumerate(left)) + "}\n"
        first = head.count("\n") + 3
        done = compiled(text, "-O1", "-S", "-o", "-")
        if done.returncode == 0:
            return {left[int(i)]: int(value) & (2 ** 64 - 1) for i, value in
                    re.findall(r"=value (\d+) \$?(-?\d+)", done.stdout)}
        wrong = {int(line) - first for line in re.findall(r"<stdin>:(\d+):\d+: error", done.stderr)}
        kept = [expression for i, expression in enumerate(left) if i not in wrong]
        if len(kept) == len(left):
            sys.exit(f"constants.py: {' '.join(headers)}: {done.stderr[:2000]}")
        left = kept
    return {}


class Set:
    def __init__(self, number, name, kind, headers, wanted, *options):
        self.number, self.name, self.kind = number, name, kind
        keys = dict(option.split("=", 1) for option in options if "=" in option)
        self.arch = "arch" in options
        self.headers = known_headers(headers.split(","))
        zero, mask = keys.get("zero"), keys.get("mask")
        names = names_of(self.headers, wanted, keys.get("except"), keys.get("enum"))
        asked = names + [more for more in (zero, mask) if more]
        values = values_of(self.headers, asked)
        self.mask = values[mask] & 0xffffffff if mask else 0
        self.masked = keys.get("masked")
        self.values = {}
        for name in names:
            if name in values and not (kind == "flags" and not values[name] and not self.mask):
                self.values.setdefault(values[name] & 0xffffffff, name)
        if zero:
            self.values[0] = zero
        if "realtime" in options:
            self.values.update({KERNEL_SIGRTMIN + i: f"SIGRT_{i}" for i in range(1, 33)})

    def in_order(self):
        """Flags of many bits before those of one; numbers in their order."""
        if self.kind == "flags":
            return sorted(self.values.items(), key=lambda item: (-bin(item[0]).count("1"), item[0]))
        return sorted(self.values.items())

    def is_masked(self, value):
        return self.mask and value & ~self.mask == 0


def main():
    sets, arguments = {}, []
    with open(sys.argv[2]) as file:
        for line in file:
            words = line.split()
            if not words or words[0].startswith("#"):
                continue
            if words[0] == "set":
                sets[words[1]] = Set(len(sets), *words[1:])
            elif words[0] == "arg":
                arguments += [(*place.split("."), sets[words[1]], "", 0) for place in words[2:]]
            else:
                other, expression = words[3].split("=")
                value = values_of([words[4]], [expression])[expression]
                arguments.append((*words[2].split("."), sets[words[1]], other, value))
    print(f"/* Made by query/constants.py from {sys.argv[2]}: not to be edited. */")
    for one in sets.values():
        print(f"static const struct constant {one.name}_constant[] = {{")
        parts = sets[one.masked].in_order() if one.masked else []
        for value, name in parts + one.in_order():
            print(f'\t{{ "{name}", {value:#x}u }},')
        print("\t{ NULL, 0 },\n};")
    print("static const struct constant_set set_table[] = {")
    for one in sets.values():
        print(f"\t{{ {one.name}_constant, {one.mask:#x}u, {str(one.kind == 'flags').lower()}, "
              f"{str(one.arch).lower()} }},")
    print("};\nstatic const struct constant_rule rule_table[] = {")
    for function, name, one, other, value in sorted(arguments, key=lambda row: (*row[:2], row[3] == "")):
        print(f'\t{{ "{function}", "{name}", &set_table[{one.number}], "{other}", {value & 0xffffffff:#x}u }},')
    print("};")


main()
