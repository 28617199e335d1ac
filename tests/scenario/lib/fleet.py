"""fleet: a relay and agents, each with a certificate of its own."""
import glob
import os
import socket

import ringtail
from . import tls


def free_port():
    """One that nobody listens on now: a relay that is killed has to come back to the same."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Fleet:
    """The certificates of a fleet, and the words for its daemons. The relay's port stays over its restarts."""

    def __init__(self, case, tag=""):
        self.case, self.server, self.tag = case, tls.Server(case), tag
        self.port = free_port()
        self.state = case.path(f"relay-state{tag}")

    def agent_files(self, name, authority=None, **more):
        cert, key = (authority or self.server.client_ca).issue(name, **more)
        return cert, tls.give(key)

    def agent_options(self, name, *more, files=None, port=None, interval="0s"):
        """interval: relay-interval; without one, frames can be counted; None: the option is not given."""
        cert, key = files or self.agent_files(name)
        more = [*([f"--relay-interval={interval}"] if interval else []), *more]
        return [f"--relay=tls:127.0.0.1:{port or self.port}", f"--tls-cert={cert}", f"--tls-key={key}",
                f"--relay-ca={self.server.server_ca.cert}", "--durability=written",
                f"--state-dir={self.case.path(name + '-state' + self.tag)}", *more]

    def relay_options(self, *more):
        return [f"--listen-agents=tls:127.0.0.1:{self.port}", *self.server.options(),
                f"--state-dir={self.state}", *more]

    def relay(self, *more):
        return self.case.daemon(*self.relay_options(*more), source="none")

    def directory(self, name):
        return os.path.join(self.state, "hosts", name)

    def read(self, name):
        """What the relay has of a host."""
        return self.case.start(os.path.join(ringtail.BUILD, "tracectl"), "--summary", "json", "read",
                               self.directory(name), "-o", "json").wait()

    def events(self, name):
        """How many events the relay has of a host."""
        return self.read(name).summary["events"] if glob.glob(self.directory(name) + "/*") else 0

    def counters(self, daemon):
        return daemon.stat()["counters"]
