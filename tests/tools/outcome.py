"""outcome: what a test's output says, whatever kind of test it is: how many of its cases passed, how many
failed or were only late, and of each of those its name and, in a line, why.

A case is a line `ok NAME`, `not ok NAME` or `late NAME`, followed by lines that begin with # and say
more; or one of cmocka's. A scenario says `NAME: FAILED: ...` in the midst of its output.
"""
import re

REASON_CHARACTERS_MAX = 240
# What a person would look for first, in any output.
TELLS = re.compile(r"FAILED: |^[\w./-]+\.[ch]:\d+: |^SUMMARY: |runtime error: |^\w*(Error|Exception)\b|"
                   r"^no end after |^make.*\*\*\*|: error: |[Aa]ssertion ")
OK = re.compile(r"^(ok \S|\[       OK \])")
NOT_WELL = re.compile(r"^(not ok|late) (\S.*)")
CMOCKA_ERROR = re.compile(r"^\[  ERROR   \] (?:--- )?(.*)")
CMOCKA_LINE = re.compile(r"^\[   LINE   \] --- (.*?): error: Failure!")
CMOCKA_FAILED = re.compile(r"^\[  FAILED  \] (?!\d+ test)(\S+)")
BEFORE, AFTER = 8, 30       # shown of the lines around the one that tells
END_LINES = 10              # and of the last ones


def passed(output):
    """How many cases."""
    return (sum(int(count) for count in re.findall(r"^\[  PASSED  \] (\d+) test", output, re.M)) +
            len(re.findall(r"^ok \S", output, re.M)))


def failed(output):
    return (sum(int(count) for count in re.findall(r"^\[  FAILED  \] (\d+) test", output, re.M)) +
            len(re.findall(r"^not ok \S", output, re.M)))


def late(output):
    """The cases that only ran out of time: the last word of each name, which is what it can be asked for by."""
    return [line.split()[-1].rstrip(":") for line in re.findall(r"^late ([^:\n]+)", output, re.M)]


def skipped_cases(output):
    """{case: why}. cmocka names them after a count of them; unittest names them where it names all (-v), and
    counts them in any case, so those that something else printed away are there without a name."""
    cases = dict.fromkeys(re.findall(r"^\[  SKIPPED \] (?!\d+ test)(\S+)", output, re.M), "cmocka skipped this case")
    named = re.findall(r"^(\w+) \(\S*\)(?:\n.*)? \.\.\. skipped (['\"])(.*)\2$", output, re.M)
    cases.update({case: reason for case, _, reason in named})
    counted = sum(int(count) for count in re.findall(r"^(?:OK|FAILED) \(.*\bskipped=(\d+)", output, re.M))
    cases.update({f"case {number} without a name": "unittest skipped this case"
                  for number in range(len(named) + 1, counted + 1)})
    return cases


def _said_below(lines, index):
    """What the lines with # below a case say of it."""
    said = []
    for line in lines[index + 1:]:
        if not line.startswith("#"):
            break
        said.append(line.lstrip("#| ").rstrip())
    return said


def _tell(lines):
    """The line that says why; without any, the last one."""
    telling = [line for line in lines if TELLS.search(line)]
    return (telling or [line for line in lines if line.strip()] or ["it says nothing"])[0 if telling else -1]


def _cmocka_reasons(lines):
    """cmocka's errors are on stderr, so they come before or between the names: the first belongs to the
    first."""
    errors, places = ([match[1] for match in map(pattern.match, lines) if match]
                      for pattern in (CMOCKA_ERROR, CMOCKA_LINE))
    names = list(dict.fromkeys(match[1] for match in map(CMOCKA_FAILED.match, lines) if match))
    for at, name in enumerate(names):
        reason = errors[at] if len(errors) == len(names) else ""
        place = f" ({places[at]})" if len(places) == len(names) else ""
        yield f"{name}: {reason}{place}" if reason or place else name


def reasons(output):
    """A line for each case that failed or was late; when no case says so, one for all."""
    lines = output.splitlines()
    found = []
    for index, line in enumerate(lines):
        if match := NOT_WELL.match(line):
            below = _said_below(lines, index)
            found.append(match[2] + (f": {_tell(below)}" if below else ""))
    found += _cmocka_reasons(lines)
    return [text.strip()[:REASON_CHARACTERS_MAX] for text in found or [_tell(lines)]]


def _around(lines, index):
    """The lines around the one that tells, as far as they are not another case's."""
    first, end = index, index + 1
    while first > max(0, index - BEFORE) and not OK.match(lines[first - 1]):
        first -= 1
    while end < min(len(lines), index + AFTER) and not OK.match(lines[end]):
        end += 1
    return set(range(first, end))


def excerpt(output, lines_max):
    """The lines to show of a failure: those around each that tells, then the last ones; `...` stands for what
    lies between."""
    lines = output.splitlines()
    telling = [index for index, line in enumerate(lines) if NOT_WELL.match(line) or
               CMOCKA_ERROR.match(line) or CMOCKA_FAILED.match(line)]
    telling = telling or [index for index, line in enumerate(lines) if TELLS.search(line)]
    wanted = set(range(max(0, len(lines) - (END_LINES if telling else lines_max)), len(lines)))
    for index in telling:
        around = _around(lines, index)
        if len(wanted | around) > lines_max:
            around = {index}
        wanted |= around
    shown, last = [], -1
    for index in sorted(wanted):
        if index > last + 1:
            shown.append("...")
        shown.append(lines[index])
        last = index
    return shown
