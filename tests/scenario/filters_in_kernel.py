"""Filters on pid, tid, comm and uid work in the kernel: what does not pass is never recorded."""
import os
import subprocess
import threading

import ringtail

CALLS = 20_000
NOISE = 20_000
PROBE = "syscall:getppid:call"


def run_filter(case, daemon, text, expect, doers):
    """Streams with a filter while all the doers call: how many events came and were recorded."""
    before = daemon.recorded()
    stream = case.stream(daemon, "-p", PROBE, "-f", text, "-o", "none")
    for do in doers:
        do()
    stream.await_all(expect)
    recorded = daemon.recorded() - before
    case.check_stream(stream.interrupt(), events=expect)
    case.check_equal(recorded, expect, f"{text}: {expect} events, and no more were recorded")
    ringtail.wait_until(lambda: not daemon.recording(), "nothing is recorded any more")


def call_as(name, uid, calls):
    """`calls` getppid calls of a process of that name and uid."""
    script = ("import ctypes, os, sys\n"
              "libc = ctypes.CDLL(None)\n"
              f"libc.prctl(15, b'{name}')\n"
              f"os.setuid({uid})\n"
              f"for i in range({calls}): os.getppid()\n")
    subprocess.run(["python3", "-c", script], check=True)


def call_in_thread(calls):
    """`calls` getppid calls of a thread; its tid."""
    tids, go = [], threading.Event()

    def body():
        tids.append(threading.get_native_id())
        go.wait()
        for _ in range(calls):
            os.getppid()

    thread = threading.Thread(target=body)
    thread.start()
    ringtail.wait_until(lambda: tids, "the thread runs")

    def do():
        go.set()
        for _ in range(NOISE):
            os.getppid()
        thread.join()

    return tids[0], do


def main(case):
    daemon = case.daemon("--history-age=0s", "--ring-size=16MiB")
    noise = case.load(NOISE)
    load = case.load(CALLS)
    run_filter(case, daemon, f"pid == {load.pids[0]}", CALLS, [load.run, noise.run])

    tid, do = call_in_thread(CALLS)
    run_filter(case, daemon, f"tid == {tid}", CALLS, [do])

    name = f"rt-{case.seed % 100000}"
    run_filter(case, daemon, f'comm == "{name}"', 500,
               [lambda: call_as(name, 0, 500), lambda: call_as("rt-noise", 0, 500)])

    uid = 20_000 + os.getpid() % 30_000         # of nobody else's, not even of another run of this test
    run_filter(case, daemon, f"uid == {uid}", 600,
               [lambda: call_as(name, uid, 600), lambda: call_as(name, 0, 600)])

    noise, load = case.load(NOISE), case.load(CALLS)
    run_filter(case, daemon, f'pid in ({load.pids[0]}, {noise.pids[0]}) && pid != {noise.pids[0]}',
               CALLS, [load.run, noise.run])
    case.check_balanced(daemon)


ringtail.run(main)
