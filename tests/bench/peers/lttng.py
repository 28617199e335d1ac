"""LTTng-UST: an application's events through lttng-consumerd to lttng-relayd on loopback.

lttng-modules, which would trace the kernel, is a module: where modules cannot be loaded, the
user-space tracer with the same ring buffers and the same daemons is what can be measured.
"""
import contextlib
import os
import pathlib
import re
import shutil
import signal
import time

from .host import Child, Unavailable, descendants, free_port, run

RUN_DIRECTORY = pathlib.Path("/var/run/lttng")
SESSION = "ringtail_bench"


class Session:
    """`with Session(work)`: daemons, and a session that streams bench:call to the relay."""

    def __init__(self, work, live=False):
        self.home = work / "lttng"
        self.live = live

    def __enter__(self):
        pid_file = RUN_DIRECTORY / "lttng-sessiond.pid"
        if pid_file.exists() and pathlib.Path(f"/proc/{pid_file.read_text().strip()}").exists():
            raise Unavailable("another lttng-sessiond is running")
        shutil.rmtree(self.home, ignore_errors=True)  # an earlier session's trace is not this one's
        self.home.mkdir()
        os.environ["LTTNG_HOME"] = str(self.home)
        control, data, viewer, agent = (free_port() for _ in range(4))
        with contextlib.ExitStack() as started:
            self.relayd = started.enter_context(Child(
                ["lttng-relayd", "-C", f"tcp://127.0.0.1:{control}",
                 "-D", f"tcp://127.0.0.1:{data}", "-L", f"tcp://127.0.0.1:{viewer}",
                 "-o", self.home / "relay"], self.home / "relayd.log", stop=signal.SIGTERM))
            self.sessiond = started.enter_context(Child(
                ["lttng-sessiond", "--no-kernel", "--agent-tcp-port", agent],
                self.home / "sessiond.log", stop=signal.SIGTERM))
            self.sessiond.wait_until(self._answers, "answering")
            started.callback(self._destroy)
            self._create(control, data)
            self.started = started.pop_all()
        return self

    def __exit__(self, *_):
        self.started.close()

    def _answers(self):
        try:
            run(["lttng", "--no-sessiond", "list"], timeout=5)
            return True
        except Unavailable:
            return False

    def _create(self, control, data):
        live = ["--live"] if self.live else []
        lttng("create", SESSION, *live, "-C", f"tcp4://127.0.0.1:{control}",
              "-D", f"tcp4://127.0.0.1:{data}")
        lttng("enable-channel", "-u", "-s", SESSION, "--subbuf-size", "1M", "--num-subbuf", "8",
              "calls")
        lttng("enable-event", "-u", "-s", SESSION, "-c", "calls", "bench:call,bench:text")
        lttng("start", SESSION)

    def _destroy(self):
        with contextlib.suppress(Unavailable):
            lttng("destroy", "--no-wait", SESSION)

    def stop(self):
        """Waits until everything is with the relay."""
        lttng("stop", SESSION)

    def collectors(self):
        """The consumer and the relay: what drains and receives."""
        found = [self.relayd.pid]
        for pid, _ in descendants(self.sessiond.pid):
            if pathlib.Path(f"/proc/{pid}/comm").read_text().startswith("lttng-consumer"):
                found.append(pid)
        return found

    def kept(self, emitted):
        """How many of the emitted events were not discarded: most, or the run says nothing."""
        listed = run(["lttng", "--no-sessiond", "list", SESSION])
        discarded = sum(map(int, re.findall(r"Discarded events: (\d+)", listed)))
        if discarded > emitted / 2:
            raise Unavailable(f"LTTng discarded {discarded} of {emitted} events")
        return emitted - discarded

    def received_bytes(self):
        return sum(file.stat().st_size for file in self.home.glob("relay/**/calls_*")
                   if file.parent.name != "index")


def lttng(*command):
    run(["lttng", "--no-sessiond", *command], timeout=30)
    time.sleep(0.05)
