"""place: where a mutant's text stands.

A place is FILE, or WHERE:FUNCTION, where WHERE is a file or a folder: the text then has to stand once in
that function, wherever below WHERE it is defined. So a list outlives a move of the function.
"""
import functools
import glob
import os
import re

ROOT = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../.."))
SOURCES = ("*.c", "*.h", "*.def")


class Misfit(Exception):
    """A mutant that does not fit the code."""


@functools.lru_cache(maxsize=None)
def text_of(path):
    with open(os.path.join(ROOT, path)) as file:
        return file.read()


def files_below(where):
    if os.path.isfile(os.path.join(ROOT, where)):
        return [where]
    found = [path for pattern in SOURCES
             for path in glob.glob(os.path.join(ROOT, where, "**", pattern), recursive=True)]
    return sorted(os.path.relpath(path, ROOT) for path in found)


@functools.lru_cache(maxsize=None)
def spans(path):
    """{function: [(begin, end), ...]} of the file's text. Each is defined from the first column on, and
    ends with a brace there."""
    found = {}
    for match in re.finditer(r"^[a-zA-Z_][^;{}#]*?\b(\w+)\([^;{}]*\)[^;{}()]*\n\{\n", text_of(path), re.M):
        end = text_of(path).find("\n}", match.end() - 1)
        found.setdefault(match.group(1), []).append((match.start(), end + 3))
    return found


def place_of(place):
    """The file, and the begin and end of what a mutant's text has to stand in."""
    where, _, function = place.partition(":")
    if not function:
        if not os.path.isfile(os.path.join(ROOT, where)):
            raise Misfit(f"there is no {where}")
        return where, 0, len(text_of(where))
    found = [(path, *span) for path in files_below(where) for span in spans(path).get(function, [])]
    if len(found) != 1:
        raise Misfit(f"{function}() is defined {len(found)} times below {where}")
    return found[0]


def mutated(mutant):
    """The mutant's file, and its text with the mutant in it."""
    path, begin, end = place_of(mutant.place)
    text = text_of(path)
    count = text[begin:end].count(mutant.old)
    if count != 1:
        raise Misfit(f"its text stands {count} times in {mutant.place}, and has to stand there once: "
                     + repr(mutant.old))
    if mutant.old == mutant.new:
        raise Misfit("it changes nothing")
    return path, text[:begin] + text[begin:end].replace(mutant.old, mutant.new) + text[end:]
