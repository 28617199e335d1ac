#!/usr/bin/env python3
"""soak: a daemon for a long time under everything at once; see `make soak`.

    mixed load           bursts and pauses, many short processes, overload now and then
    clients              some stay; others come, go, stall, break off, swarm
    durable consumers    two: one stays, one comes every few minutes
    restarts             in order and by SIGKILL, with the rings kept

After each round every ledger has to close with residual 0. Restarts are in the first and the last
quarter; between them one run of the daemon does it all, whose memory and descriptors are sampled and
may not have grown in its last three quarters. SOAK_MINUTES (60) is how long; the seed is printed,
RINGTAIL_SEED sets it.
"""
import os
import re
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "scenario"))
os.environ["RINGTAIL_LONG"] = "1"

import ringtail                                                 # noqa: E402
from lib.service_manager import ServiceManager                  # noqa: E402

MINUTES = float(os.environ.get("SOAK_MINUTES") or 60)
PROBES = ["-p", "syscall:getppid:call", "-p", "syscall:execve:call", "-p",
          "tracepoint:sched:sched_process_*"]
GROWTH_BYTES_MAX = 24 << 20             # what the allocator keeps varies by so much
DESCRIPTORS_GROWTH_MAX = 4
RESTART_EVERY = 3                       # rounds; each second time by SIGKILL
AWAY_EVERY = 3


class Soak:
    def __init__(self, case):
        self.case, self.manager, self.rounds, self.restarts, self.kills = \
            case, ServiceManager(case), 0, 0, 0
        self.address = f"unix:{case.path('run')}/soak.sock"
        self.options = ["--ring-size=4MiB", "--durability=written", "--spool-size=64MiB",
                        "--spool-segment-size=1MiB", "--memory-max=128MiB", "--history-size=16MiB",
                        "--clients-max=400", "--pending-max=400", "--history-age=5s", "--user=root",
                        "--silence-timeout=10s", f"--state-dir={case.path('state')}",
                        "--http=127.0.0.1:0"]
        self.samples = []               # of each run of the daemon: (when, resident, descriptors)
        self.run_began = 0
        self.start()
        self.stay = [case.stream(self.daemon, *PROBES, "-o", "none"),
                     case.stream(self.daemon, "-p", "syscall:getppid:call", "-o", "none",
                                 "--consumer", "stay")]
        self.events = 0

    def start(self):
        self.daemon = self.manager.daemon(*self.options, listen=[self.address])
        self.run_began = time.monotonic()
        self.samples.append([])
        for stream in getattr(self, "stay", []):
            stream.daemon = self.daemon

    def sample(self):
        with open(f"/proc/{self.daemon.pid}/status") as file:
            resident = int(re.search(r"VmRSS:\s+(\d+) kB", file.read())[1]) << 10
        self.samples[-1].append((time.monotonic() - self.run_began, resident,
                                 len(os.listdir(f"/proc/{self.daemon.pid}/fd"))))

    def load(self):
        """Some of everything."""
        random = self.case.random
        loads = [self.case.load(random.randrange(1000, 5 * (rate or 400_000)),
                                random.randrange(1, 8), rate=rate)
                 for rate in random.sample([0, 20_000, 200_000], random.randrange(1, 4))]
        for load in loads:
            load.go()
        for _ in range(random.randrange(0, 60)):
            subprocess.run(["true"], check=True)
        if random.random() < 0.2:       # more than there is time for
            self.daemon.signal(signal.SIGSTOP)
            time.sleep(random.uniform(0.1, 2))
            self.daemon.signal(signal.SIGCONT)
        return loads

    def nuisances(self):
        random = self.case.random
        return [self.case.swarm(self.address, mode, random.randrange(1, 60), "--hold=200")
                for mode in random.sample(["connected", "stream", "storm", "slowloris", "stall",
                                           "reset", "trickle"], 2)]

    def come_and_go(self):
        done = self.case.tracectl(self.address, "--summary", "json", "stream", *PROBES, "-o", "none",
                                  "--duration", "1s", timeout=30)
        if done.code not in (0, 3) or done.summary["ledger"] != "balanced":
            raise ringtail.Failure(f"a client's ledger: {done.err}")

    def consume(self):
        """The consumer that is away most of the time."""
        done = self.case.tracectl(self.address, "--summary", "json", "stream", "-p",
                                  "syscall:getppid:call", "-f", "duration > 1ms", "-o", "none",
                                  "--consumer", "away", "--duration", "2s", timeout=60)
        if done.code not in (0, 3) or done.summary["ledger"] != "balanced":
            raise ringtail.Failure(f"the durable consumer's ledger: {done.err}")

    def restart(self):
        self.restarts += 1
        if self.restarts % 2:
            if self.daemon.stop():
                raise ringtail.Failure("the daemon does not end well")
        else:
            self.daemon.crash()
            self.kills += 1
        self.start()

    def balanced(self):
        stat = self.daemon.stat()
        parts = stat["ring"] + stat["client"] + stat["spool"] + stat["export"]
        wrong = [part for part in parts if part["residual"]]
        if wrong:
            raise ringtail.Failure(f"a residual: {wrong}")

    def forget_ended(self):
        """Files and processes of what has ended: this goes on for long."""
        for process in [one for one in self.case.processes if not one.running]:
            if re.search(r"Sanitizer|runtime error:", process.read("err")):
                raise ringtail.Failure(f"{process.name}: {process.read('err')}")
            if process not in self.stay and not isinstance(process, ringtail.Daemon):
                for path in process.path.values():
                    os.unlink(path)
                self.case.processes.remove(process)

    def one_round(self, restarting):
        self.rounds += 1
        loads, swarms = self.load(), self.nuisances()
        self.come_and_go()
        if self.rounds % AWAY_EVERY == 0:
            self.consume()
        if restarting and self.rounds % RESTART_EVERY == 0:
            self.restart()
        self.balanced()
        for load in loads:
            self.events += load.result(120)["calls"]
        for swarm in swarms:
            swarm.leave()
        for stream in self.stay:
            if not stream.running:
                raise ringtail.Failure(f"{stream.name} ended:\n{stream.read('err')}")
        ringtail.wait_until(lambda: len(self.daemon.stat()["client"]) <= 1 + len(self.stay),
                            "all others have left", 60)
        self.balanced()
        self.sample()
        self.forget_ended()

    def check_growth(self):
        """Of the longest run of the daemon, from the end of its first quarter on."""
        samples = max(self.samples, key=len)
        rest = samples[len(samples) // 4:]
        quarter = max(len(rest) // 4, 1)
        early = max(resident for _, resident, _ in rest[:quarter])
        late = max(resident for _, resident, _ in rest[-quarter:])
        fds = [descriptors for _, _, descriptors in rest]
        self.case.figure("the longest run", samples[-1][0] / 60, "min")
        self.case.figure("its memory after the first quarter", early / (1 << 20), "MiB")
        self.case.figure("and at the end", late / (1 << 20), "MiB")
        self.case.check(late - early < GROWTH_BYTES_MAX, "memory does not grow", samples)
        self.case.check(fds[-1] - min(fds) <= DESCRIPTORS_GROWTH_MAX, "nor do descriptors", fds)


def main(case):
    case.say(f"for {MINUTES} minutes")
    soak = Soak(case)
    began = said = time.monotonic()
    while (part := (time.monotonic() - began) / (60 * MINUTES)) < 1:
        soak.one_round(restarting=not 0.25 < part < 0.75)
        if time.monotonic() - said > 60:
            said = time.monotonic()
            case.say(f"round {soak.rounds}: {soak.events} calls, {soak.restarts} restarts "
                     f"({soak.kills} by SIGKILL), {soak.samples[-1][-1][1] >> 20} MiB, "
                     f"{soak.samples[-1][-1][2]} descriptors, residual 0")
    soak.balanced()
    case.check(True, "residual 0 throughout")
    for stream in soak.stay:
        done = stream.interrupt(60)
        case.check(done.code in (0, 3) and done.summary["ledger"] == "balanced",
                   "a client that was there all the time has a balanced ledger", done.err[-2000:])
    soak.check_growth()
    case.say(f"{soak.rounds} rounds, {soak.events} calls, {soak.restarts} restarts "
             f"({soak.kills} by SIGKILL)")
    case.check_balanced(soak.daemon)


ringtail.SECONDS_MAX = int(60 * MINUTES + 600)
ringtail.run(main)
