"""tracectl in a pipeline: a reader that has enough ends it quietly; Ctrl-C brings a summary."""
import os
import re
import subprocess

import ringtail

CALLS = 200_000


def head(case, daemon, command, *words):
    def has_client():
        return any(client["probe"] for client in daemon.stat()["client"])
    ringtail.wait_until(lambda: not has_client(), "the one before has left")
    load = case.load(CALLS)
    tracectl = " ".join([os.path.join(ringtail.BUILD, "tracectl"), "--connect", daemon.address,
                         *words]).replace("FILTER", f"'{load.filter}'")
    shell = case.start("bash", "-c", f"{tracectl} | {command}; exit ${{PIPESTATUS[0]}}")
    ringtail.wait_until(lambda: has_client() or not shell.running, "it is subscribed")
    load.run()
    done = shell.wait()
    case.check_equal(done.err, "", f"tracectl {words[0]} ... | {command} says nothing on stderr")
    case.check(done.code in (0, 3), "and ends well", done.code)
    return done.out


def main(case):
    daemon = case.daemon("--ring-size=16MiB", "--history-age=0s")
    stream = ["stream", "-p", "syscall:getppid:call", "-f", "FILTER"]
    out = head(case, daemon, "head -n 5", *stream)
    case.check_equal(len(out.splitlines()), 5, "head has its five lines")
    out = head(case, daemon, "head -n 5", *stream, "-o", "json")
    case.check(len(out.splitlines()) == 5 and "\033" not in out, "of JSON too, without colour")
    record = ["record", "-w", "-", *stream[1:]]
    head(case, daemon, "head -c 100 >/dev/null", *record)

    load = case.load(CALLS)
    running = case.stream(daemon, *stream[1:3], "-f", load.filter, "--summary", "text")
    load.run()
    running.await_all(CALLS)
    done = running.interrupt()
    case.check_equal(done.code, 0, "SIGINT: exit 0")
    case.check(re.search(rf"^{CALLS} events in .*, 0 lost; .*ledger balanced$", done.err, re.M) and
               "--since" in done.err, "and a summary, with where to go on", done.err)
    case.check_equal(len(done.out.splitlines()), CALLS, "every event has its line")

    file = case.path("trace.rt")
    load = case.load(1000)
    recording = case.stream(daemon, "-w", file, *stream[1:3], "-f", load.filter, command="record")
    load.run()
    recording.await_all(1000)
    case.check_stream(recording.interrupt(), events=1000)
    shown = subprocess.run(f"cat {file} | {ringtail.BUILD}/tracectl read - -o json | wc -l",
                           shell=True,
                           stdout=subprocess.PIPE, check=True).stdout
    case.check_equal(int(shown), 1000, "a recording can be read from a pipe")
    full = case.start("bash", "-c", f"{ringtail.BUILD}/tracectl read {file} >/dev/full").wait()
    case.check(full.code == 1 and "No space left" in full.err, "a full disk is told", full.err)
    case.check_balanced(daemon)


ringtail.run(main)
