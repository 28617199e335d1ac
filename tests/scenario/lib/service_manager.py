"""service_manager: plays systemd for a daemon: its notify socket, its descriptor store, sockets.

    manager = ServiceManager(case)
    manager.listen("ringtail.socket", path)           # socket activation, where it is wanted
    daemon = manager.daemon("--ring-size=1MiB")       # a ringtail.Daemon that serves
    daemon.stop(); daemon = manager.daemon(...)       # the next run gets what the first has stored
    manager.forget()                                  # what a full stop does

As systemd does, it lets go of a stored descriptor that hangs up, unless that came with FDPOLL=0; it
closes a barrier's descriptor once everything before it is done; it keeps only what has room in the
store, `max` descriptors.
"""
import fcntl
import os
import select
import socket
import threading
import time

from lib.process import Failure, wait_until

MESSAGE_BYTES = 4096
MESSAGE_FDS = 64
FD_FIRST = 500          # stored ones are kept out of the way of what is handed over
HANDED_FIRST = 3
MIDDLE_S = 0.1          # of a load: what comes of a restart is right wherever it was


class ServiceManager:
    def __init__(self, case, max=4096):
        self.case, self.max = case, max
        self.path = os.path.join(case.dir, f"notify-{len(case.processes)}")
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(self.path)
        os.chmod(self.path, 0o777)
        self.lock = threading.Lock()
        self.said = []          # what was assigned, as (time, name, value), oldest first
        self.store = []         # (name, descriptor, is it polled)
        self.sockets = []       # (name, socket)
        threading.Thread(target=self._serve, daemon=True).start()

    # ---- What it is told

    def _serve(self):
        while select.select([self.socket], [], [])[0]:
            with self.lock:
                self._take_all()

    def _take_all(self):
        """Whatever was said so far, before anything is done that depends on it."""
        while select.select([self.socket], [], [], 0)[0]:
            data, fds, _, _ = socket.recv_fds(self.socket, MESSAGE_BYTES, MESSAGE_FDS)
            self._take(data.decode(errors="replace"), fds)
        self._drop_hung_up()

    def _take(self, text, fds):
        words = dict(line.split("=", 1) for line in text.splitlines() if "=" in line)
        self.said += [(time.monotonic(), name, value) for name, value in words.items()]
        name = words.get("FDNAME", "stored")
        if words.get("FDSTOREREMOVE") == "1":
            self._drop(lambda entry: entry[0] == name)
        self._drop_hung_up()
        for fd in fds:
            if words.get("FDSTORE") == "1" and len(self.store) < self.max:
                kept = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, FD_FIRST)
                self.store.append((name, kept, words.get("FDPOLL") != "0"))
            os.close(fd)        # a barrier's, too: what came before it is done

    def _drop(self, unwanted):
        for entry in self.store:
            if unwanted(entry):
                os.close(entry[1])
        self.store = [entry for entry in self.store if not unwanted(entry)]

    def _drop_hung_up(self):
        poll = select.poll()
        for _, fd, polled in self.store:
            if polled:
                poll.register(fd, 0)
        gone = {fd for fd, _ in poll.poll(0)}
        # Closed once each: the test looks at numbers, and a number may come again.
        self._drop(lambda entry: entry[1] in gone)

    # ---- What it has

    def names(self):
        with self.lock:
            self._take_all()
            return [entry[0] for entry in self.store]

    def heard(self, name, since=0):
        """The values that were assigned to a name from a time on."""
        with self.lock:
            self._take_all()
            return [value for when, what, value in self.said if what == name and when >= since]

    def times(self, name, since=0):
        """When that name was assigned, from a time on."""
        with self.lock:
            self._take_all()
            return [when for when, what, _ in self.said if what == name and when >= since]

    def await_heard(self, name, value, since=0):
        wait_until(lambda: value in self.heard(name, since), f"{name}={value} is heard")

    def replace(self, name, fd):
        """Puts another descriptor in the place of a stored one."""
        with self.lock:
            self._take_all()
            polled = next(entry[2] for entry in self.store if entry[0] == name)
            self._drop(lambda entry: entry[0] == name)
            kept = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, FD_FIRST)
            self.store.append((name, kept, polled))

    def forget(self, prefix=""):
        """Lets go of what is stored, as after a stop."""
        with self.lock:
            self._take_all()
            self._drop(lambda entry: entry[0].startswith(prefix))

    def listen(self, name, address):
        """A socket that it listens on for the daemon: a path, or a (host, port)."""
        family = socket.AF_UNIX if isinstance(address, str) else socket.AF_INET
        listener = socket.socket(family, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(64)
        self.sockets.append((name, listener))
        return listener

    # ---- Running a daemon

    def _environment(self, names, more):
        environment = {**os.environ, "NOTIFY_SOCKET": self.path, **more}
        if names:
            environment["LISTEN_FDS"] = str(len(names))
            environment["LISTEN_FDNAMES"] = ":".join(names)
        return environment

    def start_daemon(self, *options, env=(), under=(), **more):
        """ringtaild with what is stored and listened on; it may or may not come up. `under`: a command
        that becomes it, as `strace -D` does."""
        with self.lock:
            self._take_all()
            handed = [(name, listener.fileno()) for name, listener in self.sockets]
            handed += [(name, fd) for name, fd, _ in self.store]
            copies = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, FD_FIRST) for _, fd in handed]
        # LISTEN_PID is the pid of whoever reads it: only the process itself knows it in time.
        moves = " ".join(f"{HANDED_FIRST + i}<&{fd}-" for i, fd in enumerate(copies))
        script = f"exec {moves}; export LISTEN_PID=$$; exec \"$@\""
        try:
            return self.case.start_daemon(
                *options, before=["bash", "-c", script, "bash", *under], pass_fds=copies,
                env=self._environment([name for name, _ in handed], dict(env)), **more)
        finally:
            for fd in copies:
                os.close(fd)

    def daemon(self, *options, source="bpf", **more):
        daemon = self.start_daemon(f"--source={source}", *options, **more)
        daemon.await_ready()
        return daemon


class Service:
    """A daemon that is restarted: each run gets what the one before has left."""

    def __init__(self, case, *options):
        self.case, self.manager, self.options, self.away = case, ServiceManager(case), options, []
        self.address = f"unix:{case.path('run')}/ringtaild.sock"
        self.daemon = self.manager.daemon(*options, listen=[self.address])
        self.epoch = self._epoch()

    def _epoch(self):
        with self.daemon.connect() as connection:
            return connection.greet()["epoch"]

    def restart(self, stream, kill=False):
        """The next run goes on with the rings. How long nobody read them, as seen from outside."""
        began = time.monotonic()
        if kill:
            self.daemon.crash()
        elif self.daemon.stop():
            raise Failure("the daemon does not end well")
        self.daemon = stream.daemon = self.manager.daemon(*self.options, listen=[self.address])
        self.away.append(time.monotonic() - began)
        if "[restart-adopted]" not in self.daemon.log or self._epoch() != self.epoch:
            raise Failure(f"it begins anew:\n{self.daemon.log}")
        stream.await_subscribed()

    def restart_under(self, stream, loads, kill=False):
        """Once for each load, somewhere in the middle of it; then the client has all there is."""
        for load in loads:
            load.go()
            time.sleep(self.case.random.uniform(0, MIDDLE_S))
            self.restart(stream, kill)
            load.result()
            self.case.await_rings_empty(self.daemon)
            wait_until(lambda: (self.daemon.client(stream.pid) or {"in_flight": 1})["in_flight"] == 0,
                       "the client has all")
        self.case.check_balanced(self.daemon)
        away = sorted(self.away)
        self.case.say(f"nobody read the rings for {away[0]:.3f} to {away[-1]:.3f} s, "
                      f"in the middle {away[len(away) // 2]:.3f} s")
