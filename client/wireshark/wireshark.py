#!/usr/bin/env python3
"""wireshark: prints client/wireshark/ringtail.lua.in with what ringtail.proto, frame_types.def and limits.def say in it.

	usage: wireshark.py TEMPLATE PROTO FRAME_TYPES LIMITS
"""
import re
import sys


def read_proto(path):
    """{message: [(name, type, number, repeated)]}, {enum: {number: name}}"""
    with open(path) as file:
        text = re.sub(r"//[^\n]*", "", file.read())
    messages, enums = {}, {}
    for kind, name, body in re.findall(r"(message|enum)\s+(\w+)\s*{((?:[^{}]|{[^{}]*})*)}", text):
        if kind == "enum":
            enums[name] = {int(number): word for word, number in re.findall(r"(\w+)\s*=\s*(\d+)", body)}
        else:
            messages[name] = [(field, kind, int(number), bool(repeated)) for repeated, kind, field, number in
                              re.findall(r"(repeated\s+)?(\w+)\s+(\w+)\s*=\s*(\d+)[^;]*;", body)]
    return messages, enums


def read_frames(path):
    """[(number, message, sender)]"""
    with open(path) as file:
        return [(int(number), message, sender) for number, message, sender in
                re.findall(r"^FRAME\(\w+,\s*(\d+),\s*(\w+),\s*(\w+)\)", file.read(), re.M)]


def lua_limits(path, *names):
    with open(path) as file:
        limits = dict(re.findall(r"^LIMIT\((\w+),\s*([\d\s<]+),", file.read(), re.M))
    for name in names:
        number, _, shift = limits[name].partition("<<")
        yield f"local {name} = {int(number) << int(shift or 0)}"


def lua_enums(enums):
    for name, words in enums.items():
        values = ", ".join(f'[{number}] = "{word}"' for number, word in words.items())
        yield f"\t{name} = {{ {values} }},"


def lua_messages(messages):
    for name, fields in messages.items():
        yield f"\t{name} = {{"
        for field, kind, number, repeated in fields:
            yield f'\t\t[{number}] = {{ "{field}", "{kind}"{", true" if repeated else ""} }},'
        yield "\t},"


def lua_frames(frames, messages):
    for number, message, sender in frames:
        if message not in messages:
            sys.exit(f"frame_types.def names {message}, which ringtail.proto has not")
        yield f'\t[{number}] = {{ "{message}", "{sender.lower()}" }},'


def main():
    template, proto, types, limits = sys.argv[1:]
    messages, enums = read_proto(proto)
    parts = {"LIMITS": lua_limits(limits, "FRAME_BODY_BYTES_MAX"), "ENUMS": lua_enums(enums), "MESSAGES": lua_messages(messages),
             "FRAMES": lua_frames(read_frames(types), messages)}
    with open(template) as file:
        for line in file:
            part = re.fullmatch(r"\s*@(\w+)@\s*", line)
            print("\n".join(parts[part[1]]) if part else line, end="\n" if part else "")


main()
