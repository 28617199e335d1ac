"""swarm: tests/tools/swarm, many clients in one process; and networks to put them into."""
import json
import os
import shutil
import subprocess

from .process import PATIENCE_S, Failure, Late, Process, Skip, wait_until


class Swarm(Process):
    """Clients of one kind (see swarm.c). `before`: a command that starts it, as in a namespace."""

    def __init__(self, case, build, address, mode, clients, *words, before=()):
        self.case, self.clients, self.asked = case, clients, 0
        super().__init__(case, case._name(f"swarm-{mode}"),
                         [*before, os.path.join(build, "tools", "swarm"), f"--connect={address}",
                          f"--mode={mode}", f"--clients={clients}", f"--seed={case.seed}", *words],
                         stdin=subprocess.PIPE)

    def report(self):
        """Its counts, now."""
        self.asked += 1
        try:
            self.popen.stdin.write(b"report\n")
            self.popen.stdin.flush()
        except BrokenPipeError:
            raise Failure(f"{self.name} ended with {self.popen.wait()}:\n{self.read('err')}") from None

        def look():
            running = self.running
            lines = self.read("out").split("\n")[:-1]      # whole ones
            if len(lines) < self.asked and not running:
                raise Failure(f"{self.name} ended with {self.popen.returncode}:\n{self.read('err')}")
            return lines[self.asked - 1] if len(lines) >= self.asked else None
        return json.loads(wait_until(look, f"{self.name} answers"))

    def until(self, condition, what, timeout=PATIENCE_S):
        """The first report of which it holds."""
        latest = {}

        def look():
            latest.update(self.report())
            return condition(latest)
        try:
            wait_until(look, what, timeout)
        except Late as late:
            raise Late(f"{late}; {self.name}: {latest}") from None
        return latest

    def await_subscribed(self, timeout=PATIENCE_S):
        return self.until(lambda now: now["subscribed"] == self.clients,
                          f"all {self.clients} are subscribed", timeout)

    def await_connected(self, timeout=PATIENCE_S):
        return self.until(lambda now: now["talking"] + now["subscribed"] == self.clients,
                          f"all {self.clients} are there", timeout)

    def await_events(self, events, timeout=PATIENCE_S):
        """Until each has so many, or was told of their loss."""
        return self.until(lambda now: now["events"] + now["lost"] >= events * self.clients,
                          f"each has {events} events", timeout)

    def leave(self):
        """They all go; the last counts."""
        last = self.report()
        self.popen.stdin.close()
        if self.wait().code:
            raise Failure(f"{self.name} fails:\n{self.read('err')}")
        return last


class Network:
    """
        here (10.M.N.1) ==== veth ==== there (10.M.N.2), in a namespace of its own

    `inside` is the command that runs something there.
    """

    def __init__(self, case):
        if os.geteuid() or not shutil.which("ip"):
            raise Skip("this takes root and ip(8)")
        tag = f"rt{os.getpid() % 100000}"
        self.name, self.here, self.there = f"{tag}ns", f"{tag}a", f"{tag}b"
        net = f"10.{100 + os.getpid() // 250 % 150}.{os.getpid() % 250}"    # nobody else's
        self.address = f"{net}.1"
        if subprocess.run(["ip", "netns", "add", self.name], stderr=subprocess.DEVNULL).returncode:
            raise Skip("no network namespaces here")
        self.inside = ["ip", "netns", "exec", self.name]
        try:
            self._ip("link", "add", self.here, "type", "veth", "peer", "name", self.there, "netns",
                     self.name)
            self._ip("addr", "add", f"{self.address}/24", "dev", self.here)
            self._ip("link", "set", self.here, "up")
            self._ip("-n", self.name, "addr", "add", f"{net}.2/24", "dev", self.there)
            self._ip("-n", self.name, "link", "set", self.there, "up")
            self._ip("-n", self.name, "link", "set", "lo", "up")
        except subprocess.CalledProcessError as error:
            self.close()
            raise Skip(f"no veth here: {error.stderr.decode().strip()}") from None

    @staticmethod
    def _ip(*words):
        subprocess.run(["ip", *words], check=True, stderr=subprocess.PIPE)

    def cut(self):
        """Nothing comes through any more, and nobody is told."""
        self._ip("-n", self.name, "link", "set", self.there, "down")

    def mend(self):
        self._ip("-n", self.name, "link", "set", self.there, "up")

    def close(self):
        subprocess.run(["ip", "link", "del", self.here], stderr=subprocess.DEVNULL)
        subprocess.run(["ip", "netns", "del", self.name], stderr=subprocess.DEVNULL)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
