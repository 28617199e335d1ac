"""strace and ringtail watch the same run of the same program, and tell the same story."""
import re

import ringtail

# A call in strace's output: name, arguments, result, error.
LINE = re.compile(r"^\d+ +(\w+)\((.*)\) += (-?\w+|\?)(?: (\w+))?")


def parse(text):
    """(name, arguments' text, result) of each line; result None for calls that do not return."""
    calls = []
    for line in text.splitlines():
        if line.split(None, 1)[-1][:3] in ("+++", "---"):      # it exited, it had a signal
            continue
        match = LINE.match(line)
        if not match:
            raise ringtail.Failure(f"strace says what this test does not read: {line}")
        name, args, result, error = match.groups()
        if result == "?":
            calls.append((name, args, None, None))
        else:
            calls.append((name, args, int(result, 0), error))
    return calls


def numbers(text):
    """The arguments that strace shows as numbers, by their place."""
    words = enumerate(word.strip() for word in text.split(","))
    return {i: int(word, 0) for i, word in words if re.fullmatch(r"-?(0x[0-9a-f]+|\d+)", word)}


def same(mine, theirs):
    """An argument of ours and strace's, which widens a negative one as it pleases."""
    return not (int(str(mine), 0) - theirs) & 0xFFFFFFFF


def main(case):
    daemon = case.daemon("--ring-size=16MiB")
    report = case.path("strace.txt")
    file = case.write("file.txt", "some text\n" * 1000)
    stream = case.stream(daemon, "-p", "syscall:*:call", "-f", 'comm == "cat" || comm == "strace"',
                         "-o", "json", "--flags", "strings")
    done = case.start("strace", "-f", "-X", "raw", "-e", "raw=!openat,execve", "-o", report,
                      "/bin/cat", file, "/nonexistent").wait()
    case.check_equal(done.code, 1, "cat complains about the missing file")
    with open(report) as text:
        lines = text.read()
    pid = int(lines.split()[0])
    ringtail.wait_until(lambda: re.search(f'exit_group:call","pid":{pid},', stream.read("out")),
                        "the exit of cat")
    case.check_balanced(daemon)
    done = stream.interrupt()
    case.check_stream(done)

    theirs = parse(lines)
    ours = [event for event in done.lines if event["pid"] == pid]
    # strace's child stops itself, and is called strace, until it execs: there the report starts.
    begin = next(i for i, event in enumerate(ours) if event["probe"] == "syscall:execve:call")
    ours = ours[begin:]
    names = [event["probe"].split(":")[1] for event in ours]
    case.check_equal(names, [name for name, *_ in theirs], f"the same {len(theirs)} calls in order")
    case.check_equal(names[-1], "exit_group", "the last is exit_group")

    compared = 0
    for event, (name, args, result, error) in zip(ours, theirs):
        returned = -1 if "error" in event else event.get("ret")
        if returned != result or event.get("error") != error:
            case.check(False, f"{name} returns the same", event, (args, result, error))
        mine = list(event["args"].values())
        for i, number in numbers(args).items():
            if i >= len(mine) or not same(mine[i], number):
                case.check(False, f"argument {i} of {name} is the same", event, args)
            compared += 1
    case.say(f"ok: all results and errors agree, and {compared} arguments")
    opened = [re.search(r'"(.*?)"', args)[1] for name, args, *_ in theirs if name == "openat"]
    mine = [event["strings"]["filename"] for event, name in zip(ours, names) if name == "openat"]
    case.check_equal(mine, opened, f"the same {len(opened)} files are opened")
    case.check("/nonexistent" in mine, "among them the one that is not there")
    written = [event["ret"] for event in ours if "ret" in event and
               event["probe"].split(":")[1] in ("write", "copy_file_range") and
               1 in (event["args"].get("fd"), event["args"].get("fd_out"))]
    case.check_equal(sum(written), 10_000, "cat writes its file's bytes")
    case.check_balanced(daemon)


ringtail.run(main)
