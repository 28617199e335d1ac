"""protobuf: the messages of proto/ringtail.proto as dictionaries, without any library.

The schema is read from the .proto itself, so a test speaks whatever the contract says today. A
decoded message has every field: zeros, empty texts and empty lists stand for what was absent,
None for an absent message.
"""
import collections
import os
import re

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
VARINTS = {"uint32", "uint64", "sint64", "bool"}
U64 = (1 << 64) - 1


class Field:
    def __init__(self, repeated, kind, name, number):
        self.repeated, self.kind, self.name, self.number = bool(repeated), kind, name, int(number)


def _read_schema(path):
    messages, enums = {}, {}
    with open(path) as file:
        text = re.sub(r"//[^\n]*", "", file.read())
    for kind, name, body in re.findall(r"(message|enum)\s+(\w+)\s*{(.*?)}", text, re.S):
        if kind == "enum":
            enums[name] = {int(n): word for word, n in re.findall(r"(\w+)\s*=\s*(\d+)", body)}
        else:
            rows = re.findall(r"(repeated\s+)?(\w+)\s+(\w+)\s*=\s*(\d+)[^;]*;", body)
            messages[name] = [Field(*row) for row in rows]
    return messages, enums


MESSAGES, ENUMS = _read_schema(os.path.join(ROOT, "proto", "ringtail.proto"))


def enum_value(enum, name):
    return next(number for number, word in ENUMS[enum].items() if word == name)


def put_varint(value):
    value &= U64
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def get_varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & U64, at
        shift += 7


def _is_varint(kind):
    return kind in VARINTS or kind in ENUMS


def _to_varint(kind, value):
    if kind == "sint64":
        return (value << 1 ^ value >> 63) & U64
    if isinstance(value, str):
        return enum_value(kind, value)
    return int(value)


def _from_varint(kind, value):
    if kind == "sint64":
        return value >> 1 ^ -(value & 1)
    return bool(value) if kind == "bool" else value


def _put_one(field, value):
    if _is_varint(field.kind):
        return put_varint(field.number << 3) + put_varint(_to_varint(field.kind, value))
    if field.kind in MESSAGES:
        body = encode(field.kind, value)
    else:
        body = value.encode() if isinstance(value, str) else bytes(value)
    return put_varint(field.number << 3 | 2) + put_varint(len(body)) + body


def encode(message, values):
    """The wire bytes of a message; fields that `values` does not name are left out."""
    out = b""
    fields = {field.name: field for field in MESSAGES[message]}
    for name, value in values.items():
        field = fields[name]
        for one in value if field.repeated else [value]:
            out += _put_one(field, one)
    return out


def _get_packed(kind, data):
    """Of a batch these are hundreds of thousands: no call for each byte, or value."""
    values, value, shift = [], 0, 0
    for byte in data:
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            values.append(value & U64)
            value = shift = 0
    if shift:
        raise ValueError("the last value is cut")
    return [_from_varint(kind, value) for value in values] if kind in ("sint64", "bool") else values


def _get_bytes(kind, data):
    if kind in MESSAGES:
        return decode(kind, data)
    return data.decode("utf-8", "replace") if kind == "string" else data


def _default(field):
    if field.repeated:
        return []
    if _is_varint(field.kind):
        return False if field.kind == "bool" else 0
    return {"string": "", "bytes": b""}.get(field.kind)


def decode(message, data):
    fields = {field.number: field for field in MESSAGES[message]}
    values = {field.name: _default(field) for field in MESSAGES[message]}
    at = 0
    while at < len(data):
        key, at = get_varint(data, at)
        field = fields[key >> 3]
        if key & 7 == 0:
            value, at = get_varint(data, at)
            value = _from_varint(field.kind, value)
        elif key & 7 == 2:
            size, at = get_varint(data, at)
            value = data[at:at + size]
            at += size
            if _is_varint(field.kind):
                values[field.name] += _get_packed(field.kind, value)
                continue
            value = _get_bytes(field.kind, value)
        else:
            raise ValueError(f"wire type {key & 7} in {message}")
        if field.repeated:
            values[field.name].append(value)
        else:
            values[field.name] = value
    return values


# ---- Messages of other people's schemas

def varints(data):
    """The numbers of a packed field."""
    at, values = 0, []
    while at < len(data):
        value, at = get_varint(data, at)
        values.append(value)
    return values


def fields(data):
    """The fields of a message by their numbers, each a list: integers and bytes."""
    at, found = 0, collections.defaultdict(list)
    while at < len(data):
        key, at = get_varint(data, at)
        if key & 7 == 0:
            value, at = get_varint(data, at)
        elif key & 7 in (1, 5):
            size = 8 if key & 7 == 1 else 4
            value, at = int.from_bytes(data[at:at + size], "little"), at + size
        elif key & 7 == 2:
            size, at = get_varint(data, at)
            value, at = data[at:at + size], at + size
            assert len(value) == size, "a field is cut short"
        else:
            raise ValueError(f"wire type {key & 7}")
        found[key >> 3].append(value)
    return found
