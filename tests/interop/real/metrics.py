"""metrics: VictoriaMetrics and Prometheus, with what they keep of each push, sample by sample."""
import json
import re
import struct
import urllib.error
import urllib.request

from real.server import Server, fetch, fetch_json

RANGE = "1h"


def varint(value):
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes(out + bytes([value]))


def field(number, body):
    return varint(number << 3 | 2) + varint(len(body)) + body


def write_request(name, at_ms, value):
    """Of remote write: one sample, in snappy that compresses nothing."""
    label = field(1, b"__name__") + field(2, name.encode())
    sample = b"\x09" + struct.pack("<d", value) + b"\x10" + varint(at_ms)
    raw = field(1, field(1, label) + field(2, sample))
    return varint(len(raw)) + bytes([60 << 2, len(raw) - 1]) + raw


class VictoriaMetrics(Server):
    program, ready_path = "victoria-metrics", "/health"
    paths = {"otlp-metrics": "/opentelemetry/v1/metrics", "remote-write": "/api/v1/write"}

    def __init__(self, case, kind):
        self.kind = kind
        super().__init__(case)

    @property
    def target(self):
        return self.paths[self.kind]

    def words(self):
        return [f"-httpListenAddr=127.0.0.1:{self.port}", f"-storageDataPath={self.dir}",
                "-inmemoryDataFlushInterval=1s"]

    def samples(self):
        """{labels: {time in ms: value}} of all it has."""
        fetch(f"{self.url}/internal/force_flush")
        text = fetch(f"{self.url}/api/v1/export", **{"match[]": '{__name__=~"ringtail_.*"}'})
        found = {}
        for line in text.splitlines():
            series = json.loads(line)
            found.setdefault(frozenset(series["metric"].items()), {}).update(
                zip(series["timestamps"], series["values"]))
        return found

    def is_on_disk(self):
        fetch(f"{self.url}/internal/force_flush")
        rows = re.findall(r'^vm_rows\{type="(?:storage|indexdb)/inmemory"\} (\d+)$',
                          fetch(f"{self.url}/metrics"), re.M)
        return rows == ["0", "0"]


class Prometheus(Server):
    """As a receiver of remote write."""

    program, ready_path = "prometheus", "/-/ready"
    kind, target = "remote-write", "/api/v1/write"
    config = "global: {}\n"

    def words(self):
        config = f"{self.dir}/prometheus.yml"
        with open(config, "w") as file:
            file.write(self.config)
        return [f"--config.file={config}", f"--storage.tsdb.path={self.dir}/data",
                f"--web.listen-address=127.0.0.1:{self.port}", "--log.level=warn",
                "--web.enable-remote-write-receiver", "--enable-feature=exemplar-storage"]

    def samples(self):
        answer = fetch_json(f"{self.url}/api/v1/query",
                            query=f'{{__name__=~"ringtail_.*"}}[{RANGE}]')
        return {frozenset(series["metric"].items()):
                {round(at * 1000): float(value) for at, value in series["values"]}
                for series in answer["data"]["result"]}

    def push(self, name, at_ms, value=1.0):
        """One sample, as another host would."""
        request = urllib.request.Request(f"{self.url}{self.target}", write_request(name, at_ms, value),
                                         {"Content-Encoding": "snappy", "Content-Type": "application/x-protobuf",
                                          "X-Prometheus-Remote-Write-Version": "0.1.0"})
        urllib.request.urlopen(request, timeout=20).close()

    def is_on_disk(self):
        return True             # its log is written before it answers


class Prometheus3(Prometheus):
    """Of today; Debian's is 2.42."""
    program = "prometheus-3"
