"""http: what a scenario asks the daemon's HTTP server, and how it reads the metrics in the answer."""
import http.client
import re
import socket

from lib.process import PATIENCE_S, wait_until

SAMPLE = re.compile(r'^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)(?: # \{(.*)\} (\S+)(?: (\S+))?)?$')
LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


def address_of(daemon):
    """(host, port) that a running ringtaild serves HTTP on."""
    found = re.search(r"\[serving\] .* at https?://(\S+):(\d+)/", daemon.log)
    return found.group(1), int(found.group(2))


def connect(daemon, timeout=PATIENCE_S):
    """A connection for more than one request."""
    return http.client.HTTPConnection(*address_of(daemon), timeout=timeout)


def get(daemon, path, method="GET", headers=None, timeout=PATIENCE_S):
    """(status, headers, body)."""
    connection = connect(daemon, timeout)
    try:
        connection.request(method, path, headers=headers or {})
        answer = connection.getresponse()
        return answer.status, dict(answer.getheaders()), answer.read().decode()
    finally:
        connection.close()


def send(daemon, data, timeout=PATIENCE_S):
    """Everything that comes back for these bytes until the server closes."""
    with socket.create_connection(address_of(daemon), timeout=timeout) as peer:
        answer = b""
        try:
            peer.sendall(data)
            while more := peer.recv(1 << 16):
                answer += more
        except (ConnectionResetError, BrokenPipeError):
            pass
        return answer


class Metrics:
    """The samples of an answer in either format: {name: {labels as a frozenset: value}}."""

    def __init__(self, text):
        self.text, self.samples, self.exemplars = text, {}, []
        for line in text.splitlines():
            if line.startswith("#") or not line:
                continue
            found = SAMPLE.match(line)
            if not found:
                raise ValueError(f"not a sample: {line}")
            name, labels, value, exemplar, exemplar_value, _ = found.groups()
            labels = frozenset(LABEL.findall(labels or ""))
            of_name = self.samples.setdefault(name, {})
            if labels in of_name:
                raise ValueError(f"twice: {line}")
            of_name[labels] = float(value)
            if exemplar:
                self.exemplars.append((name, dict(labels), dict(LABEL.findall(exemplar)),
                                       float(exemplar_value)))

    def get(self, name, **labels):
        """One sample, 0 where there is none."""
        return self.samples.get(name, {}).get(frozenset(labels.items()), 0)

    def all(self, name):
        return [(dict(labels), value) for labels, value in self.samples.get(name, {}).items()]


def metrics(daemon, openmetrics=False):
    accept = "application/openmetrics-text" if openmetrics else "text/plain"
    status, _, body = get(daemon, "/metrics", headers={"Accept": accept})
    assert status == 200, (status, body)
    return Metrics(body)


def await_metering(daemon):
    """Waits until the kernel records what is metered: system calls last."""
    wait_until(lambda: metrics(daemon).all("ringtail_syscalls_total"), "system calls are metered")
