"""ringtail: the harness of the scenario tests: a real ringtaild, real clients, real events.

A test is a file named for its condition:

    import ringtail

    def main(case):
        daemon = case.daemon("--ring-size=16KiB")
        stream = case.stream(daemon, "-p", "syscall:getppid:call", "-o", "none")
        ...
        case.check(stream.wait().code == 0, "the stream ends well")

    ringtail.run(main)

It has a directory of its own, ends only what it started, and exits 0, 1, 77 with the reason when
this host cannot run it, or LATE when nothing is wrong but that something was not so in time. RINGTAIL_BUILD names the directory of the programs (default: build),
RINGTAIL_SLOW by how much to stretch its waits (3 with ASAN_OPTIONS), RINGTAIL_FEWER by how much to lessen its events,
RINGTAIL_SEED its seed,
RINGTAIL_LONG asks for its long form.
"""
import contextlib
import errno
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import traceback

from lib import protobuf, wire
from lib.process import (ENGINE_USER, FEWER, SLOW, Done, Failure, Late, Load, Process, Skip, children, running,  # noqa: F401
                         state_of, threads, wait_until)
from lib.swarm import Network, Swarm                              # noqa: F401

ROOT = protobuf.ROOT
BUILD = os.path.join(ROOT, os.environ.get("RINGTAIL_BUILD", "build"))
LONG = bool(os.environ.get("RINGTAIL_LONG"))    # as `make torture` runs it
SECONDS_MAX = 3600 if LONG else 270     # for a whole test, under whatever it runs
FACT_BYTES_MAX = 4000           # shown of each
LEAVE_S = 15 * SLOW             # for programs which nobody waits for
LATE = 75                       # EX_TEMPFAIL of sysexits.h: check.py tries it once more, alone
# Of a daemon that is to lose nothing though it records of every process: another test's load takes 80 MB in a second.
ROOM = "--ring-size=64MiB"
CANNOT_TRACE = {"bpf-no-capability", "bpf-not-permitted", "bpf-not-in-kernel", "bpf-no-btf"}


class Daemon(Process):
    """A running ringtaild; `address` is where it listens first."""

    def __init__(self, case, name, words, **options):
        super().__init__(case, name, words, **options)
        self.case, self.ended = case, False

    @property
    def log(self):
        return self.read("err")

    def await_ready(self):
        """Waits until it serves; skips the test where the kernel does not let it trace."""
        def look():
            log = self.log
            if not self.running:
                self.ended = True
                code = re.search(r"error: \[([\w-]+)\] (.*)", self.log)
                if code and code[1] in CANNOT_TRACE:
                    raise Skip(f"no tracing here: {code[2]}")
                if code and code[1] == "loader-timeout":
                    raise Late(f"ringtaild does not start: {code[2]}")
                raise Failure(f"ringtaild does not start:\n{self.log}")
            return "[ready]" in log
        wait_until(look, "ringtaild is ready")
        self.address = re.search(r"\[listening\] listening on (\S+)", self.log).group(1)
        self.loader = children(self.pid)[0]

    def connect(self, **options):
        return wire.Connection(self.address, **options)

    def stat(self):
        """A Stat message, as a dictionary."""
        with self.connect() as connection:
            connection.greet()
            stat = connection.stat()
        stat["counters"] = {counter["name"]: counter["value"] for counter in stat["counter"]}
        return stat

    def client(self, pid):
        """What the daemon says of the subscribed client with that pid; None: there is none."""
        for client in self.stat()["client"]:
            if client["peer"].startswith(f"unix pid {pid} ") and client["probe"]:
                return client
        return None

    def recorded(self):
        """Records that the kernel put into the rings as events."""
        return sum(ring["events"] for ring in self.stat()["ring"])

    def recording(self):
        """How many BPF programs are attached: 0 when nobody wants anything."""
        links = 0
        for fd in os.listdir(f"/proc/{self.loader}/fd"):
            try:
                links += "bpf_link" in os.readlink(f"/proc/{self.loader}/fd/{fd}")
            except FileNotFoundError:
                pass            # closed meanwhile
        return links

    def workers(self):
        """The threads that drain rings."""
        return [tid for tid, name in threads(self.pid).items() if name == "ringtail-drain"]

    def worker(self):
        """One of them: each names itself as it begins."""
        return wait_until(self.workers, "a worker has its name")[0]

    def workers_sleep(self):
        """Whether none of them is on a CPU or waits for one."""
        return all(state_of(self.pid, tid) == "S" for tid in self.workers())

    def reload(self, expect):
        """SIGHUP; waits for the log to say `expect` once more."""
        before = len(re.findall(expect, self.log))
        self.signal(signal.SIGHUP)
        wait_until(lambda: len(re.findall(expect, self.log)) > before, f"the log says {expect}")

    def stop(self, number=signal.SIGTERM):
        """Ends it; returns its exit code."""
        self.ended = True
        self.signal(number)
        return self.wait().code

    def crash(self):
        self.ended = True
        self.kill()


class Stream(Process):
    """A running `tracectl stream` or `record`."""

    def __init__(self, case, daemon, name, words):
        super().__init__(case, name, words)
        self.daemon = daemon

    def await_subscribed(self):
        def look():
            if not self.running:
                raise Failure(f"{self.name} ended:\n{self.read('err')}")
            return self.daemon.client(self.pid)
        wait_until(look, f"{self.name} is subscribed")
        return self

    def await_all(self, events=0):
        """Waits until the daemon has given it that many events, and all that it had for it then: on a busy machine,
        something more may always be on its way to a stream of every process."""
        upto = []

        def look():
            client = self.daemon.client(self.pid)
            if not client or client["delivered"] < events:
                return None
            upto.append(client["produced"])
            return client if not client["in_flight"] or client["produced"] - client["in_flight"] >= upto[0] else None
        return wait_until(look, f"{self.name} has {events} events")


class Case:
    def __init__(self, name):
        self.name = name
        self.dir = tempfile.mkdtemp(prefix=f"ringtail-{name}-")
        os.chmod(self.dir, 0o755)       # the engine reads its configuration as nobody
        self.processes = []
        self.seed = int(os.environ.get("RINGTAIL_SEED") or random.randrange(1 << 32))
        self.random = random.Random(self.seed)

    # ---- Saying and checking

    def say(self, text):
        print(f"{self.name}: {text}", flush=True)

    def figure(self, name, value, unit):
        """A measurement, which `make torture` collects."""
        self.say(f"figure: {name}: {value:.3f} {unit}")

    def check(self, condition, text, *facts):
        """States what holds; where it does not, shows the facts."""
        if not condition:
            shown = [repr(fact)[:FACT_BYTES_MAX] for fact in facts]
            raise Failure("\n    ".join([f"not so: {text}", *shown]))
        self.say(f"ok: {text}")

    def check_equal(self, got, wanted, text, *facts):
        self.check(got == wanted, text, got, wanted, *facts)

    def check_balanced(self, *daemons):
        """`tracectl stat -o json` says that every ledger closes."""
        for daemon in daemons:
            done = self.tracectl(daemon, "stat", "-o", "json")
            self.check(done.out, "stat answers", done.code, done.err)
            stat = done.lines[0]
            parts = stat["rings"] + stat["clients"]
            self.check(stat["balanced"] and not any(part["residual"] for part in parts),
                       f"residual 0 of {len(stat['rings'])} rings, {len(stat['clients'])} clients",
                       parts)
            self.check_equal(done.code, 0, "stat exits with 0")

    def check_stream(self, done, events=None, lost=0):
        """How a stream is to end that has so many events (None: any number) and lost so many."""
        summary = done.summary
        self.check_equal(summary["ledger"], "balanced", "the client's ledger is balanced")
        self.check_equal(summary["lost"], lost, f"{lost or 'nothing'} is lost")
        if events is not None:
            self.check_equal(summary["events"], events, f"exactly {events} events")
        self.check_equal(done.code, 3 if lost else 0, f"the client exits with {3 if lost else 0}")

    def await_rings_empty(self, daemon):
        """Waits until all that the kernel recorded has been read; only where nothing more comes.

        Stat says how it was at a worker's last pass. A worker that sleeps has heard of whatever was recorded before,
        and its next pass comes within a batch-interval, of 40 ms: when it sleeps again, it has made that pass.
        """
        def look():
            return daemon.workers_sleep() and not any(ring["in_flight"] for ring in daemon.stat()["ring"])
        wait_until(look, "the rings are empty")
        time.sleep(0.1)
        wait_until(look, "the rings are empty")

    def await_rings_read(self, daemon):
        """Waits until all that the kernel has recorded so far has been read, whatever comes meanwhile."""
        ticks = daemon.stat()["counters"]["ticks"]
        wait_until(lambda: daemon.stat()["counters"]["ticks"] >= ticks + 2, "a tick has begun, and is over")
        upto = [ring["produced"] for ring in daemon.stat()["ring"]]
        wait_until(lambda: all(ring["produced"] - ring["in_flight"] >= now
                               for ring, now in zip(daemon.stat()["ring"], upto)), "the rings are read")

    def await_alone(self):
        """Waits until no other run of this test is here, for one that counts what all of the kernel does."""
        self.alone = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)       # it has the name until its end

        def have_name():
            try:
                self.alone.bind(f"\0ringtail-test-{self.name}")
            except OSError as error:
                if error.errno != errno.EADDRINUSE:
                    raise
                return False
            return True
        wait_until(have_name, f"no other {self.name} runs", SECONDS_MAX)

    # ---- Programs

    def path(self, name):
        return os.path.join(self.dir, name)

    def write(self, name, content):
        with open(self.path(name), "wb" if isinstance(content, bytes) else "w") as file:
            file.write(content)
        return self.path(name)

    def _name(self, stem):
        return f"{stem}-{sum(process.name.startswith(stem) for process in self.processes) + 1}"

    def start(self, *words, **options):
        """Any program, in the background."""
        return Process(self, self._name(os.path.basename(words[0])), list(words), **options)

    def start_daemon(self, *options, config="", listen=None, before=(), **popen):
        """ringtaild, which may or may not come up. `before`: a command that starts it."""
        name = self._name("ringtaild")
        config = self.write(f"{name}.conf", config)
        listen = listen or [f"unix:{self.path('run')}/{name}.sock"]
        if not any("state-dir" in words for words in options):
            options = (f"--state-dir={self.path(name)}.state", *options)
        if os.geteuid() == 0 and not any(words.startswith("--user=") for words in options):
            options = (f"--user={ENGINE_USER}", *options)
        # All that a test connects is of one user, or two.
        for words in options:
            if words.startswith("--clients-max="):
                options = (words.replace("max", "per-identity"), *options)
        words = [*before, os.path.join(BUILD, "ringtaild"), f"--config={config}",
                 *(f"--listen={address}" for address in listen), *options]
        return Daemon(self, name, words, **popen)

    def daemon(self, *options, source="bpf", **more):
        """A ringtaild that serves."""
        daemon = self.start_daemon(f"--source={source}", *options, **more)
        daemon.await_ready()
        return daemon

    def refused(self, *options, **more):
        """A ringtaild that is not to come up: how it ended."""
        daemon = self.start_daemon(*options, **more)
        daemon.ended = True
        return daemon.wait()

    def _tracectl(self, daemon, words):
        address = getattr(daemon, "address", daemon)
        connect = ["--connect", address, *getattr(daemon, "trust", ["--insecure"] if
                                                  address.startswith("tcp:") else [])] if daemon else []
        return [os.path.join(BUILD, "tracectl"), *connect, *words]

    def tracectl(self, daemon, *words, **options):
        """tracectl to its end. daemon: one, an address, or None."""
        process = Process(self, self._name("tracectl"), self._tracectl(daemon, words), **options)
        return process.wait()

    def start_stream(self, daemon, *words, command="stream"):
        words = self._tracectl(daemon, ["--summary", "json", command, *words])
        return Stream(self, daemon, self._name("stream"), words)

    def stream(self, daemon, *words, command="stream"):
        """tracectl stream (or record), with a summary, subscribed."""
        return self.start_stream(daemon, *words, command=command).await_subscribed()

    def load(self, calls, processes=1, cpus=None, rate=0, comm=None):
        """`comm`: what its processes are to be called; nobody else is."""
        tool = os.path.join(BUILD, "tools", "load")
        if comm:
            own = self.path(comm)
            if not os.path.exists(own):
                shutil.copy(tool, own)
            tool = own
        return Load(self, self._name("load"), tool, calls, processes, cpus, rate)

    @property
    def own_comm(self):
        """A name for processes of this test, which no other test's have."""
        return f"load-{os.getpid()}"

    def swarm(self, daemon, mode, clients, *words, **options):
        """Many clients at once; `daemon`: one, or an address."""
        return Swarm(self, BUILD, getattr(daemon, "address", daemon), mode, clients, *words,
                     **options)

    # ---- The end

    def _stop_all(self):
        """Whatever still runs ends; a daemon has to end well."""
        wrong = []
        for process in reversed(self.processes):
            try:
                if isinstance(process, Daemon) and not process.ended:
                    if process.running or process.popen.returncode:
                        code = process.stop()
                        if code:
                            wrong.append(f"{process.name} exits with {code}")
                elif process.running:
                    process.kill()
            except Failure as failure:
                wrong.append(str(failure))
                process.kill()
        for process in self.processes:
            if re.search(r"(Address|Leak|Thread|Undefined\w*)Sanitizer|runtime error:",
                         process.read("err")):
                wrong.append(f"{process.name} has a sanitizer's report")
        return wrong

    def _show_logs(self):
        for process in self.processes:
            text = process.read("err")
            if text:
                print(f"--- {process.name} (pid {process.pid}), stderr, its end:\n{text[-4000:]}")

    def _residuals(self):
        """What the ledgers of the daemons that still serve do not account for."""
        wrong = []
        for daemon in [process for process in self.processes if isinstance(process, Daemon)]:
            if not daemon.running or not hasattr(daemon, "address"):
                continue
            daemon.signal(signal.SIGCONT)
            try:
                self.check_balanced(daemon)
            except (Failure, OSError, ValueError) as failure:
                wrong.append(str(failure))
        return wrong

    def _end_what_is_left(self):
        """What names this test's directory and goes on after its end: a loader has a moment to see that its engine is gone."""
        left = {}

        def look():
            left.clear()
            left.update(running(self.dir))
            return not left
        try:
            wait_until(look, "all programs of this test end", timeout=LEAVE_S)
            return []
        except Late:
            for pid in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            return [f"left running: {', '.join(left.values())}"]

    def close(self, failed):
        wrong = (self._residuals() if failed else []) + self._stop_all() + self._end_what_is_left()
        for text in wrong:
            self.say(f"FAILED: {text}")
        if failed or wrong:
            self._show_logs()
        shutil.rmtree(self.dir, ignore_errors=True)
        return bool(wrong)


def _on_alarm(_, frame):
    raise Late(f"not over after {SECONDS_MAX} s, but here:\n"
                  f"{''.join(traceback.format_stack(frame))}")


def run(main):
    """Runs a test's main(case) and exits."""
    name = os.path.splitext(os.path.basename(sys.argv[0]))[0]
    for program in ("ringtaild", "tracectl", "tools/load"):
        if not os.access(os.path.join(BUILD, program), os.X_OK):
            sys.exit(f"{name}: {BUILD}/{program} is not there: run make")
    case = Case(name)
    skipped, failed, late = None, False, False
    began = time.monotonic()
    signal.signal(signal.SIGALRM, _on_alarm)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    signal.alarm(SECONDS_MAX)
    try:
        case.say(f"seed {case.seed}")
        main(case)
    except Skip as reason:
        skipped = f"skipped: {reason}"
    except (Late, TimeoutError, subprocess.TimeoutExpired) as failure:
        case.say(f"FAILED: {failure}")
        if not isinstance(failure, Late):
            traceback.print_exc(file=sys.stdout)
        late = True
    except Failure as failure:
        case.say(f"FAILED: {failure}")
        failed = True
    except BaseException:       # what ends the test must not leave its processes behind
        traceback.print_exc(file=sys.stdout)
        failed = True
    finally:
        signal.alarm(0)
        failed |= case.close(failed or late)
    word = "failed" if failed else "late" if late else skipped or "passed"
    case.say(f"{word}, in {time.monotonic() - began:.1f} s")
    sys.exit(1 if failed else LATE if late else 77 if skipped else 0)
