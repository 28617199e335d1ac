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
    """Those that this machine has, and that can be compiled."""
    return tuple(header for header in headers
                 if compiled(f"#include <{header}>\n", "-fsyntax-only").returncode == 0)


def preprocessed(headers):
    """The headers that there are, and their text with their macros in it. As few calls of the compiler as can be:
    every build waits for them."""
    done = compiled(includes(headers), "-E", "-P", "-dD")
    if done.returncode == 0:
        return headers, done.stdout
    known = known_headers(headers)
    return known, compiled(includes(known), "-E", "-P", "-dD").stdout


def names_of(text, wanted, excepted, enum):
    found = [] if enum else re.findall(r"^#define (\w+)(?= )", text, re.M)
    bodies = re.findall(r"enum\s+%s\s*{(.*?)}" % (enum or r"(?:\w+)?"), re.sub(r"^#.*", "", text, flags=re.M), re.S)
    for body in bodies:
        found += re.findall(r"(?:^|,)\s*([A-Za-z_]\w*)", body)
    return sorted({name for name in found if re.fullmatch(wanted, name) and
                   not (excepted and re.fullmatch(excepted, name))})


def values_of(headers, expressions):
    """Of each expression that is a constant, in as many turns as it takes to leave out the others; and without such
    headers as cannot be compiled."""
    left = list(dict.fromkeys(expressions))
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
            known = known_headers(headers)
            if len(known) < len(headers):
                headers = known
                continue
            sys.exit(f"constants.py: {' '.join(headers)}: {done.stderr[:2000]}")
        left = kept
    return {}


class Set:
    def __init__(self, number, name, kind, headers, wanted, *options):
        self.number, self.name, self.kind = number, name, kind
        keys = dict(option.split("=", 1) for option in options if "=" in option)
        self.arch = "arch" in options
        self.realtime = "realtime" in options
        self.zero, self.mask_of, self.masked = keys.get("zero"), keys.get("mask"), keys.get("masked")
        self.headers, text = preprocessed(tuple(headers.split(",")))
        self.names = names_of(text, wanted, keys.get("except"), keys.get("enum"))
        self.values, self.mask = {}, 0

    def asked(self):
        return self.names + [more for more in (self.zero, self.mask_of) if more]

    def answer(self, values):
        self.mask = values[self.mask_of] & 0xffffffff if self.mask_of else 0
        for name in self.names:
            if name in values and not (self.kind == "flags" and not values[name] and not self.mask):
                self.values.setdefault(values[name] & 0xffffffff, name)
        if self.zero:
            self.values[0] = self.zero
        if self.realtime:
            self.values.update({KERNEL_SIGRTMIN + i: f"SIGRT_{i}" for i in range(1, 33)})

    def in_order(self):
        """Flags of many bits before those of one; numbers in their order."""
        if self.kind == "flags":
            return sorted(self.values.items(), key=lambda item: (-bin(item[0]).count("1"), item[0]))
        return sorted(self.values.items())

    def is_masked(self, value):
        return self.mask and value & ~self.mask == 0


def main():
    sets, rules, asked = {}, [], {}
    with open(sys.argv[2]) as file:
        for line in file:
            words = line.split()
            if not words or words[0].startswith("#"):
                continue
            if words[0] == "set":
                one = sets[words[1]] = Set(len(sets), *words[1:])
                asked.setdefault(one.headers, []).extend(one.asked())
            elif words[0] == "arg":
                rules += [(place, sets[words[1]], "", None, "0") for place in words[2:]]
            else:
                other, expression = words[3].split("=")
                rules.append((words[2], sets[words[1]], other, (words[4],), expression))
                asked.setdefault((words[4],), []).append(expression)
    values = {headers: values_of(headers, expressions) for headers, expressions in asked.items()}
    for one in sets.values():
        one.answer(values[one.headers])
    arguments = [(*place.split("."), one, other, values[headers][expression] if headers else 0)
                 for place, one, other, headers, expression in rules]
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
