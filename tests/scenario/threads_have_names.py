"""Every thread of both processes says in /proc what it is for, so that `top -H` and a stack dump tell them
apart."""
import os

import ringtail
from lib import exporting
from lib.backend import Backend


def names(pid):
    """Of each thread but the first."""
    threads = f"/proc/{pid}/task"
    found = []
    for tid in os.listdir(threads):
        if int(tid) != pid:
            with open(f"{threads}/{tid}/comm") as file:
                found.append(file.read().strip())
    return sorted(found)


def main(case):
    backend = Backend()
    daemon = case.daemon(backend.url("otlp-logs"), *exporting.options(), "--durability=written",
                         f"--state-dir={case.path('state')}", "--workers=2")
    exporting.await_begun(daemon)
    wanted = ["ringtail-disk", "ringtail-drain", "ringtail-drain", "ringtail-export"]
    # Each names itself as it begins, which a busy machine lets it do a while after.
    ringtail.wait_until(lambda: names(daemon.pid) == wanted or len(names(daemon.pid)) > len(wanted),
                        "the engine's threads have names")
    case.check_equal(names(daemon.pid), wanted, "the engine's threads have names")
    children = open(f"/proc/{daemon.pid}/task/{daemon.pid}/children").read().split()
    for child in map(int, children):
        with open(f"/proc/{child}/comm") as file:
            case.check_equal((file.read().strip(), names(child)), ("ringtail-loader", []),
                             "the loader has a name, and one thread")
    case.check_balanced(daemon)


ringtail.run(main)
