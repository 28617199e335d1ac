"""read_as_json: what clients/python reads of a recording, as `tracectl read -o json` has it, so that the two can be compared
event by event. So can what a program in another language prints in the same form."""
import errno
import importlib.util
import json
import os
import subprocess
import sys

# Another Python may be first in PATH: Debian's has the packages.
if not importlib.util.find_spec("zstandard") and os.path.realpath(sys.executable) != os.path.realpath("/usr/bin/python3"):
    sys.stdout.flush()
    os.execv("/usr/bin/python3", ["/usr/bin/python3", *sys.argv])
sys.dont_write_bytecode = True
sys.path.insert(1, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../clients/python"))

import ringtail_reader  # noqa: E402
from ringtail_reader import ringtail_pb2 as pb  # noqa: E402

SAME_ERRNO = {"ENOTSUP": "EOPNOTSUPP", "EWOULDBLOCK": "EAGAIN", "EDEADLOCK": "EDEADLK"}
KERNEL_ONLY = {512: "ERESTARTSYS", 513: "ERESTARTNOINTR", 514: "ERESTARTNOHAND", 515: "ENOIOCTLCMD",
               516: "ERESTART_RESTARTBLOCK", 517: "EPROBE_DEFER", 524: "ENOTSUPP", 529: "EIOCBQUEUED"}
MAPS = "process:map:executable"         # tracectl makes names of them
# What tracectl knows of its own machine, and what it only says in other words.
OF_TRACECTL = {"wall", "uid_name", "kstack_names", "ustack_names", "exe_path", "container", "container_runtime", "pod",
               "unit", "strings_cut", "devices"}


def text(data):
    """Bytes that are no UTF-8 are the characters of their numbers."""
    out = ""
    while data:
        try:
            return out + data.decode("utf-8")
        except UnicodeDecodeError as error:
            out += data[:error.start].decode("utf-8") + chr(data[error.start])
            data = data[error.start + 1:]
    return out


def arg_of(field, value):
    if value is None or isinstance(value, tuple):
        return value if value is None else list(value)
    if isinstance(value, bytes):
        return text(value)
    if field.type in (pb.FIELD_HEX, pb.FIELD_STRING):
        return f"{value:#x}"
    if field.c_type == "bool" and field.bits == 8:
        return bool(value)
    if field.c_type == "dev_t":
        return f"{value >> 20}:{value & 0xfffff}"
    return value


def error_of(result):
    """None: it has no name."""
    if result is None or not -4095 <= result < 0:
        return None
    name = errno.errorcode.get(-result, KERNEL_ONLY.get(-result))
    return SAME_ERRNO.get(name, name)


def json_of(event):
    thread, probe = event.thread, event.probe
    said = {"time": event.time_ns, "cpu": event.cpu, "seq": event.seq, "probe": probe.spec, "tid": thread.tid}
    if thread.pid or thread.comm:
        said.update(pid=thread.pid, comm=text(thread.comm))
    if thread.exe or thread.cgroup or thread.cgroup_id:
        said.update(ppid=thread.ppid, uid=thread.uid)
    for name, value in (("exe", text(thread.exe.rpartition(b"/")[2])), ("cgroup", text(thread.cgroup)),
                        ("cgroup_id", thread.cgroup_id), ("duration", event.duration_ns), ("ret", event.result),
                        ("error", error_of(event.result)), ("kstack", [f"{at:#x}" for at in event.kernel_stack]),
                        ("ustack", [f"{at:#x}" for at in event.user_stack])):
        if value or value == 0 and name in ("duration", "ret"):
            said[name] = value
    said["args"] = {field.name: arg_of(field, event.args[field.name])
                    for field in (probe.fields[at] for at in probe.args) if field.name in event.args}
    if event.strings:
        said["strings"] = {name: text(data) for name, data in event.strings.items()}
    return said


def json_of_missing(item):
    first, end = (item.seq, item.seq + item.count) if isinstance(item, ringtail_reader.Loss) else \
        (item.first_seq, item.end_seq)
    return {"lost": getattr(item, "events", 0) or end - first, "cpu": item.cpu, "first_seq": first, "attempts": end - first,
            "stage": item.stage, "reason": item.reason}


def listed(items):
    """Of each run, those of each CPU in their order."""
    runs = []
    for item in items:
        if isinstance(item, ringtail_reader.Run):
            runs.append(item)
        elif isinstance(item, ringtail_reader.Event):
            if item.probe.spec != MAPS:
                yield json_of(item)
        elif isinstance(item, (ringtail_reader.Loss, ringtail_reader.Gap)):
            yield json_of_missing(item)


def comparable(lines):
    """Of tracectl's lines, what a reader elsewhere can know; by CPU and number."""
    out = []
    for line in lines:
        said = {name: value for name, value in line.items() if name not in OF_TRACECTL}
        if "lost" in said:
            said.pop("time", None)      # of what came beside it
        out.append(said)
    return sorted(out, key=lambda said: (said.get("host", ""), said["cpu"], said.get("seq", said.get("first_seq")),
                                         said.get("time", 0)))


def of_tracectl(build, *words):
    done = subprocess.run([os.path.join(build, "tracectl"), "read", "-o", "json", *words], stdout=subprocess.PIPE,
                          check=False)
    return comparable(json.loads(line) for line in done.stdout.decode("utf-8").splitlines())


def without_trampoline(mine, theirs):
    """Of a probe at a function's entry, tracectl leaves the innermost addresses out: they are the probe's own."""
    for kind in ("kstack", "ustack"):
        if kind in mine and kind in theirs and mine[kind][-len(theirs[kind]):] == theirs[kind]:
            mine = {**mine, kind: theirs[kind]}
    return mine


def first_difference(mine, theirs):
    """Empty: there is none."""
    for a, b in zip(mine, theirs):
        if without_trampoline(a, b) != b:
            return f"{a} is not tracectl's {b}"
    return "" if len(mine) == len(theirs) else f"{len(mine)} lines, and tracectl has {len(theirs)}"


def differ(build, path):
    """What differs first, and how many events there are."""
    with open(path, "rb") as file:
        mine = comparable(listed(ringtail_reader.read(file)))
    return first_difference(mine, of_tracectl(build, path)), len(mine)
