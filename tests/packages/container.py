#!/usr/bin/env python3
"""The image of docs/containers.md, by its own commands, under podman with its own options: the daemon in there records
exactly what a program outside does, and doctor finds nothing in the way.

	usage: container.py PACKAGES_DIR	exit 77: not root, no podman, or Debian's mirror does not answer

Of the documented options two are changed: the host's directories are the test's, and the image is the one that was made
here. Added are those for a machine that forbids more than a host does: no network, limits no higher than this process's,
and a store of its own.
"""
import glob
import os
import re
import resource
import shlex
import shutil
import subprocess
import sys

TOP = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../.."))
sys.path.insert(0, f"{TOP}/tests/scenario")

import ringtail  # noqa: E402

MIRROR = "http://deb.debian.org/debian"
CALLS = 5000
SECONDS_MAX = 400
IMAGE = "ringtail-test"
LIMIT = 4096
# What a machine has that does not let even root's containers run: nothing of ours.
CANNOT_RUN = re.compile(r"cgroup|setrlimit|mount|Operation not permitted|OCI permission denied")


class Container(ringtail.Daemon):
    """The daemon in there, by its socket."""

    def __init__(self, address):        # pylint: disable=super-init-not-called
        self.address = address


class Podman:
    def __init__(self, directory):
        # crun takes no host that has cgroups of both versions; vfs leaves no mounts behind.
        self.words = ["podman", "--root", f"{directory}/store", "--runroot", f"{directory}/run", "--storage-driver", "vfs",
                      "--runtime", "runc", "--cgroup-manager", "cgroupfs"]

    def __call__(self, *words):
        return run(*self.words, *words)


def run(*words):
    return subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          timeout=SECONDS_MAX)


def page():
    """The words of its `podman run`; what its image runs, and what the image begins with."""
    with open(f"{TOP}/docs/containers.md") as file:
        text = file.read()
    command = re.search(r"^podman run.*?(?=\n```)", text, re.M | re.S)[0]
    install = re.search(r"^RUN (.*?)\n(ENTRYPOINT .*?)\n", text, re.M | re.S)
    return shlex.split(command.replace("\\\n", " ")), install[1].replace("\\\n", " "), install[2]


def import_image(case, podman, packages, install, entry):
    """What `podman build` would make of the page, whose base is a registry's: here it is mmdebstrap's."""
    debs = [path for name in ("ringtail", "ringtail-client") for path in glob.glob(f"{packages}/{name}_*.deb")]
    case.check(len(debs) == 2, "the packages are there", packages)
    tree = case.path("image.tar")
    done = run("mmdebstrap", "--quiet", "--variant=apt", f"--customize-hook=copy-in {' '.join(debs)} /tmp",
               f"--customize-hook=chroot \"$1\" sh -ec {shlex.quote(install)}", "bookworm", tree, MIRROR)
    if done.returncode and re.search(r"Could not resolve|Failed to fetch|Unable to connect|timed out", done.stdout):
        raise ringtail.Skip(f"Debian's mirror does not answer: {' '.join(done.stdout.split())[-300:]}")
    case.check(done.returncode == 0, "the image's commands work", done.stdout[-3000:])
    done = podman("import", "--change", entry, tree, IMAGE)
    os.remove(tree)
    case.check(done.returncode == 0, "podman takes the image", done.stdout)


def with_own_directories(case, words, user):
    """The page's options between `podman run` and the image; the directories belong to that user, as the page has it."""
    changed = []
    for before, word in zip(words[1:], words[2:-1]):
        if before == "-v" and not word.startswith("/sys/"):
            host, _, inside = word.partition(":")
            os.makedirs(case.path("host") + host, exist_ok=True)
            os.chown(case.path("host") + host, user, user)
            word = f"{case.path('host')}{host}:{inside}"
        changed.append(word)
    return changed


def limits():
    """As low as the daemon takes them: the runtime's own are higher than some machines let root have."""
    most = {"nofile": resource.RLIMIT_NOFILE, "nproc": resource.RLIMIT_NPROC}
    lowest = {name: min(LIMIT, limit) if limit != resource.RLIM_INFINITY else LIMIT
              for name, limit in ((name, resource.getrlimit(of)[1]) for name, of in most.items())}
    return [word for name, limit in lowest.items() for word in ("--ulimit", f"{name}={limit}:{limit}")]


def records_exactly(case, daemon):
    load = case.load(CALLS)
    stream = case.stream(daemon, "-p", "syscall:getppid:call", "-f", load.filter, "-o", "none")
    load.run()
    stream.await_all(CALLS)
    case.check_balanced(daemon)
    case.check_stream(stream.interrupt(), events=CALLS)


def main(case):
    if os.geteuid():
        raise ringtail.Skip("podman with CAP_BPF takes root")
    for tool in ("podman", "runc", "mmdebstrap"):
        if not shutil.which(tool):
            raise ringtail.Skip(f"no {tool}: .ci/deps.sh more installs it")
    words, install, entry = page()
    podman = Podman(case.path("podman"))
    import_image(case, podman, os.path.abspath(sys.argv[1]), install, entry)
    done = podman("run", "--rm", "--network=none", *limits(), "--entrypoint=/bin/true", IMAGE)
    if done.returncode and CANNOT_RUN.search(done.stdout):
        raise ringtail.Skip(f"podman cannot run any container here: {' '.join(done.stdout.split())[-300:]}")
    done = podman("run", "--rm", "--network=none", *limits(), "--entrypoint=id", IMAGE, "-u", "ringtail")
    case.check(done.returncode == 0 and done.stdout.strip().isdigit(), "the image says the number of its user", done.stdout)
    user = int(done.stdout)
    try:
        done = podman("run", "-d", "--network=none", *limits(), *with_own_directories(case, words, user), IMAGE)
        case.check(done.returncode == 0, "it starts with the page's options", done.stdout)
        ringtail.wait_until(lambda: "[ready]" in podman("logs", "ringtail").stdout, "the daemon in there is ready")
        records_exactly(case, Container(f"unix:{case.path('host')}/run/ringtail/ringtail.sock"))
        done = podman("exec", "ringtail", "tracectl", "doctor")
        case.check(done.returncode == 0 and "tracing works" in done.stdout and "ok    PID namespace" in done.stdout,
                   "doctor in there finds nothing in the way", done.stdout)
        case.check("warn  lockdown" in done.stdout, "and says that it cannot tell the kernel's lockdown", done.stdout)
        done = podman("stop", "-t", "30", "ringtail")
        log = podman("logs", "ringtail").stdout
        state = podman("inspect", "--format", "{{.State.ExitCode}}", "ringtail").stdout.strip()
        case.check(done.returncode == 0 and "[stopping]" in log and state == "0", "it ends when it is asked to", state, log)
        case.check("[state-dir]" not in log and "error:" not in log, "and had nothing to complain of", log)
    finally:
        podman("rm", "-f", "-t", "0", "ringtail")


ringtail.run(main)
