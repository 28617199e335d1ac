"""In the namespaces, with the capabilities and the file tree of a container as docs/containers.md has it: it starts, and
counts every call of the host; each thing that is missing is named with its remedy."""
import os
import re
import shutil

import ringtail

CALLS = 1000


def page():
    """The capabilities that the documented command adds to nothing; and of each the code that says it is missing."""
    with open(os.path.join(ringtail.ROOT, "docs", "containers.md")) as file:
        text = file.read()
    return (re.findall(r"--cap-add=(\w+)", re.search(r"^podman run.*?^```", text, re.M | re.S)[0]),
            dict(re.findall(r"^\| `--cap-add=(\w+)` \| `([\w-]+)`", text, re.M)))


def container(tree, names):
    """Its command: own mounts, network, IPC, host name and cgroup namespace; the host's pids."""
    words = ",".join(f"+{name.lower()}" for name in names)
    return ["unshare", "--mount", "--uts", "--ipc", "--net", "--cgroup", "--propagation=private", "sh", "-c",
            "mount --bind /sys /sys && mount -o remount,bind,ro /sys && mount -t tmpfs none /var/tmp && "
            f'exec setpriv --inh-caps=-all --bounding-set=-all{"," + words if words else ""} "$@"', "sh"]


def main(case):
    if os.geteuid() or not shutil.which("setpriv") or not shutil.which("unshare"):
        raise ringtail.Skip("a container takes root, unshare and setpriv")
    names, says = page()
    case.check({"BPF", "PERFMON"} <= set(names) and set(names) == set(says), "the page names the capabilities, each with "
               "what is said without it", names, says)
    probe = case.start(*container(case.dir, names), "true").wait()
    if probe.code:
        raise ringtail.Skip(f"namespaces are not allowed here: {probe.err.strip()}")
    daemon = case.daemon(before=container(case.dir, names))
    load = case.load(CALLS)
    stream = case.stream(daemon, "-p", "syscall:getppid:call", "-f", load.filter, "-o", "none")
    load.run()
    stream.await_all(CALLS)
    case.check_balanced(daemon)
    case.check_stream(stream.interrupt(), events=CALLS)
    case.say(f"ok: with {' '.join(names)} it counts every call of the host")
    for left_out in names:
        asked = case.start_daemon("--source=bpf", before=container(case.dir, [name for name in names if name != left_out]))
        asked.ended = True
        ringtail.wait_until(lambda: not asked.running or "[ready]" in asked.log, f"without {left_out} it comes up or not")
        case.check(f"[{says[left_out]}]" in asked.log, f"without {left_out}: {says[left_out]}", asked.log)
        if asked.running:
            case.check_equal(asked.stop(), 0, "and goes on")


ringtail.run(main)
