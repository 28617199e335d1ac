"""With --flags context each event says what file its thread executes, whose child it is and in which
cgroup and container it is: of processes that are over before anybody could look, as /proc shows it of
one that stays, after a move to another cgroup, in a file read back, and after a replay of that file."""
import os
import pwd
import shutil
import subprocess
import sys

import ringtail
from lib.cgroups import Cgroups

CONTAINER = "9c1b2d3e4f50617283940a1b2c3d4e5f60718293a4b5c6d7e8f9000112233445"
POD = "0f4ee4f9-c1d1-4d5c-8f3b-6a1f0c2b7a11"
# Nobody else's: this test may run beside itself.
IN_POD = (f"/kubepods-{os.getpid()}.slice/kubepods-burstable.slice/kubepods-burstable-pod{POD.replace('-', '_')}"
          f".slice/cri-containerd-{CONTAINER}.scope")
KEYS = ("ppid", "uid", "uid_name", "exe", "exe_path", "cgroup", "container", "container_runtime", "pod")


ONE_CALL_A_BYTE = """
import os
while os.read(0, 1):
    os.getppid()
    os.write(1, b"!")
"""


def short_lived(case, cgroups, daemon, name):
    """Runs a process in the pod's container, and removes that before anybody reads of it."""
    program = shutil.copy("/bin/true", case.path(name))
    cgroups.make(IN_POD)
    subprocess.run([program], preexec_fn=lambda: cgroups.enter(IN_POD), check=True)
    for path in reversed(cgroups.made):
        os.rmdir(path)
    cgroups.made = []
    return {"ppid": os.getpid(), "uid": os.geteuid(), "uid_name": pwd.getpwuid(os.geteuid()).pw_name,
            "exe": name, "exe_path": os.path.realpath(program), "cgroup": IN_POD,
            "container": CONTAINER, "container_runtime": "containerd", "pod": POD}


def context_of(event):
    return {key: event.get(key) for key in KEYS}


def moved(case, cgroups, daemon):
    """A process that stays says what /proc says of it, and after a move where it is then."""
    child = subprocess.Popen([sys.executable, "-c", ONE_CALL_A_BYTE], stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE, bufsize=0)
    stream = case.stream(daemon, "-p", "syscall:getppid:call", "-f", f"pid == {child.pid}", "-o",
                         "json", "--flags", "context", "-n", "10")
    places = [cgroups.make(f"/before-{os.getpid()}"), cgroups.make(f"/after-{os.getpid()}.service")]
    for place in places:
        cgroups.enter(place, child.pid)
        for _ in range(5):
            child.stdin.write(b"!")
            child.stdout.read(1)
    exe = os.readlink(f"/proc/{child.pid}/exe")
    child.stdin.close()
    child.wait()
    done = stream.wait()
    case.check_stream(done, events=10)
    case.check(all(event["exe_path"] == exe and event["exe"] == os.path.basename(exe)
                   for event in done.lines), f"its file is {exe}", done.lines[:1])
    case.check_equal([event["cgroup"] for event in done.lines], [places[0]] * 5 + [places[1]] * 5,
                     "its cgroup is where it was then")
    case.check_equal(done.lines[-1].get("unit"), places[1][1:], "which is a unit")


def main(case):
    cgroups = Cgroups(case)
    daemon = case.daemon()
    try:
        name = f"{case.own_comm}-has-a-longer-name"
        probes = ["-p", "syscall:close:call", "-p", "tracepoint:sched:sched_process_exit"]
        words = [*probes, "-f", f'comm == "{name[:15]}"', "-o", "json"]
        plain = case.stream(daemon, *words)
        stream = case.stream(daemon, *words, "--flags", "context")
        chosen = case.stream(daemon, *probes, "-o", "json", "-f", f'container == "{CONTAINER[:12]}" && '
                             f'exe == "{name}" && ppid == {os.getpid()} && cgroup =~ "/kubepods*"')
        recording = case.path("recording")
        record = case.stream(daemon, *words[:-2], "--flags", "context", "-w", recording,
                             command="record")
        expected = short_lived(case, cgroups, daemon, name)
        moved(case, cgroups, daemon)
        lines = []
        for one in (stream, plain, record, chosen):
            one.await_all(events=1)
            lines.append(one.interrupt().lines)
        events = lines[0]
        case.check({event["probe"] for event in events} == {probes[1], probes[3]},
                   "both probes fired", events)
        for event in events:
            case.check_equal(context_of(event), expected, f"{event['probe']} says whose it is")
        case.check(lines[1] and not any(set(KEYS) & set(event) for event in lines[1]),
                   "without the flag none of it is there", lines[1][:1])
        case.check_equal([event["seq"] for event in lines[3]], [event["seq"] for event in events],
                         "a filter by it chooses the same")
        read = case.tracectl(None, "read", recording, "-o", "json").lines
        case.check_equal([context_of(event) for event in read], [expected] * len(events),
                         "a recording has it")
        text = case.tracectl(None, "read", recording).out
        case.check(f"exe={expected['exe_path']} ppid={os.getpid()} user=" in text and
                   f" pod={POD} container={CONTAINER[:12]}]" in text, "and as text", text[:500])
        replay = case.daemon(source=f"replay:{recording}")
        again = case.start_stream(replay, *probes, "-o", "json", "--flags", "context").wait()
        case.check_equal([context_of(event) for event in again.lines], [expected] * len(events),
                         "and its replay")
        case.check_balanced(daemon)
        case.check_equal(daemon.stat()["counters"]["contexts_unknown"], 0, "nobody lacks what it has")
    finally:
        cgroups.close()


ringtail.run(main)
