"""server: a server of another project: started on ports of its own, over a directory that outlives
it, killed in either way, started again, asked over HTTP."""
import json
import os
import shutil
import signal
import socket
import urllib.error
import urllib.parse
import urllib.request

import ringtail
from lib.process import wait_until

BUILT = os.path.join(ringtail.ROOT, os.environ.get("RINGTAIL_INTEROP", "build/interop"))
READY_S = 60


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def fetch(url, timeout=20, **parameters):
    """The body of an answer that is good; anything else is an exception."""
    if parameters:
        url += "?" + urllib.parse.urlencode(parameters, doseq=True)
    with urllib.request.urlopen(url, timeout=timeout) as answer:
        return answer.read().decode()


def fetch_json(url, **parameters):
    return json.loads(fetch(url, **parameters))


class Server:
    """`program`, `words()` and `ready_path` are the kind's; `port` is where exports go."""

    program = ready_path = None

    def __init__(self, case):
        self.case, self.port, self.ready_port = case, free_port(), 0
        self.dir = case.path(f"{self.program}-{self.port}")
        os.mkdir(self.dir)
        built = os.path.join(BUILT, self.program)
        self.path = built if os.access(built, os.X_OK) else shutil.which(self.program)
        if not self.path:
            raise ringtail.Skip(f"no {self.program} here: make interop says why")
        self.process = None
        self.start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def words(self):
        raise NotImplementedError

    def start(self):
        """Again on the same port and directory, after an end."""
        self.process = self.case.start(self.path, *self.words(), cwd=self.dir,
                                       env={**os.environ, **self.environment()})
        wait_until(self._ready, f"{self.program} is ready", READY_S * ringtail.SLOW)

    def environment(self):
        return {}

    def _ready(self):
        if not self.process.running:
            raise ringtail.Failure(f"{self.program} ended:\n{self.process.read('err')[-2000:]}")
        return self.answers()

    def answers(self):
        try:
            fetch(f"http://127.0.0.1:{self.ready_port or self.port}{self.ready_path}", timeout=5)
            return True
        except (urllib.error.URLError, OSError):
            return False

    def end(self):
        """Asks it to end, and waits."""
        self.process.signal(signal.SIGTERM)
        self.process.wait(60)

    def kill(self):
        """kill -9, also where it is frozen: not an instruction more."""
        self.process.signal(signal.SIGKILL)
        self.process.wait(60)

    def freeze(self):
        """It keeps its sockets and says nothing more."""
        self.process.signal(signal.SIGSTOP)
