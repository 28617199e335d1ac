"""An error that is exported says of which file, an exit by a signal says which signal, to every kind; and
with export-strings = no, no file's name leaves the kernel."""
import os
import signal
import sys

import ringtail
from lib import exporting
from lib.backend import Backend

# Each fails with EMFILE: no descriptor is left. What is not about a file has a name, too, and keeps it.
PROGRAM = """
import os, resource, sys
path = sys.argv[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))
for call in (lambda: os.open(path + "-open", os.O_RDONLY), lambda: os.memfd_create("secret-of-mine")):
    try:
        call()
    except OSError:
        pass
os.kill(os.getpid(), int(sys.argv[2]))
"""
# A mount that is not permitted, of three names.
MOUNT = """
import ctypes, os
if not os.geteuid():
    os.setuid(65534)
ctypes.CDLL(None).mount(b"the-source", b"/tmp", b"the-type", 0, None)
"""
SIGNALS = [signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM, signal.SIGRTMIN + 3]


def name_of(number):
    try:
        return f"SIG{signal.Signals(number).name[3:]}"
    except ValueError:
        return f"signal {int(number)}"


def run(case, number):
    process = case.start(sys.executable, "-c", PROGRAM, case.path("wanted"), str(int(number)))
    process.wait()
    return process.pid


def opens_of(logs, pid):
    """Those that are stored. Its CPU may have been another than that of its exit: neither is stored first."""
    return [record for record in logs.records() if record["attributes"]["process.pid"] == pid and
            record["event_name"] == "ringtail.syscall.openat" and
            record["attributes"].get("error.type") == "EMFILE"]


def start(case, *options):
    logs, loki = Backend(), Backend()
    daemon = case.daemon(logs.url("otlp-logs"), loki.url("loki"), "--export-rate=0",
                         ringtail.ROOM, *options)
    exporting.await_begun(daemon)
    return daemon, logs, loki


def await_exit(logs, pid):
    def look():
        return next((record for record in logs.records()
                     if record["attributes"]["process.pid"] == pid and
                     record["event_name"] == "ringtail.sched_process_exit"), None)
    return ringtail.wait_until(look, f"the exit of {pid} is stored")


def pairs_of(loki, pid, **wanted):
    def look():
        for _, entry in loki.lines():
            pairs = {pair["name"]: pair["value"] for pair in entry["structured_metadata"]}
            if pairs["pid"] == str(pid) and wanted.items() <= pairs.items():
                return pairs
        return None
    return ringtail.wait_until(look, f"Loki has {wanted} of {pid}")


def check_file(case, logs, loki, pid):
    path = case.path("wanted") + "-open"
    found = ringtail.wait_until(lambda: opens_of(logs, pid), "the open is stored")
    case.check_equal([record["attributes"]["ringtail.syscall.arg.filename"].strip('"')
                      for record in found], [path], "the open that failed says which file")
    case.check(path in found[0]["body"]["string_value"], "its line does, too")
    case.check_equal(pairs_of(loki, pid, errno="EMFILE", event="openat")["path"], path,
                     "Loki's line has a path")
    secret = [record for record in logs.records() if "secret-of-mine" in str(record)]
    case.check_equal(secret, [], "the strings of other calls are not read")


def check_mount(case, logs, loki):
    process = case.start(sys.executable, "-c", MOUNT)
    process.wait()
    pairs = pairs_of(loki, process.pid, event="mount")
    case.check_equal([pairs.get(name) for name in ("path", "dir_name", "type")],
                     ["the-source", "/tmp", "the-type"], "Loki has all names of a mount")

    def look():
        return next((record for record in logs.records()
                     if record["attributes"]["process.pid"] == process.pid and
                     record["event_name"] == "ringtail.syscall.mount"), None)
    record = ringtail.wait_until(look, "the mount is stored")
    case.check_equal([record["attributes"][f"ringtail.syscall.arg.{name}"].strip('"')
                      for name in ("dev_name", "dir_name", "type")],
                     ["the-source", "/tmp", "the-type"], "and so has its record")
    exe = os.path.realpath(sys.executable)
    case.check_equal([record["attributes"].get(name) for name in
                      ("process.executable.name", "process.executable.path", "process.parent_pid")],
                     [os.path.basename(exe), exe, os.getpid()], "it says which program that was")
    case.check_equal([pairs["exe"], pairs["exe_path"], pairs["ppid"]],
                     [os.path.basename(exe), exe, str(os.getpid())], "Loki does, too")


def check_without(case):
    daemon, logs, _ = start(case, "--export-strings=no")
    pid = run(case, signal.SIGKILL)
    await_exit(logs, pid)
    case.check_equal(len(ringtail.wait_until(lambda: opens_of(logs, pid), "the open is stored")), 1,
                     "without: the open is there")
    case.check_equal([record for record in logs.records() if
                      record["event_name"].startswith("ringtail.syscall.") and
                      case.path("wanted") in str(record)], [], "without: its file is not")
    case.check_balanced(daemon)


def main(case):
    daemon, logs, loki = start(case)
    for number in SIGNALS:
        pid = run(case, number)
        record = await_exit(logs, pid)
        name = name_of(number)
        case.check_equal((record["attributes"]["ringtail.signal"], record["attributes"]["ringtail.class"]),
                         (name, "exit"), f"{name}: the record names it")
        case.check(f"killed by {name}" in record["body"]["string_value"], f"{name}: its line does",
                   record["body"])
        case.check_equal(pairs_of(loki, pid, event="sched_process_exit")["signal"], name,
                         f"{name}: Loki's does")
    check_file(case, logs, loki, pid)
    check_mount(case, logs, loki)
    # One that ends by itself, though another thread had begun to end it, was not killed.
    process = case.start(sys.executable, "-c", "import os, threading; threading.Thread("
                         "target=lambda: os._exit(0)).start(); os._exit(0)")
    process.wait()
    after = run(case, signal.SIGKILL)
    await_exit(logs, after)
    case.check_equal([record for record in logs.records()
                      if record["attributes"]["process.pid"] == process.pid and
                      record["attributes"]["ringtail.class"] == "exit"], [], "no exit that went well")
    case.check_balanced(daemon)
    daemon.stop()
    check_without(case)


ringtail.run(main)
