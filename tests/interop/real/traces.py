"""traces: Jaeger, over storage that outlives it."""
import urllib.error

from lib import exporting
from real.server import Server, fetch_json, free_port

TRACES_MAX = 20_000


def tags(span):
    return {tag["key"]: tag["value"] for tag in span["tags"]}


class Jaeger(Server):
    program, ready_path, kind, target = "jaeger", "/", "otlp-traces", "/v1/traces"

    def __init__(self, case):
        self.query_port, self.admin_port = free_port(), free_port()
        self.other_ports = [free_port() for _ in range(4)]
        super().__init__(case)

    def words(self):
        self.ready_port = self.admin_port
        here = "127.0.0.1"
        return [f"--collector.otlp.http.host-port={here}:{self.port}",
                f"--collector.otlp.grpc.host-port={here}:{self.other_ports[0]}",
                f"--collector.grpc-server.host-port={here}:{self.other_ports[1]}",
                f"--collector.http-server.host-port={here}:{self.other_ports[2]}",
                f"--query.http-server.host-port={here}:{self.query_port}",
                f"--query.grpc-server.host-port={here}:{self.other_ports[3]}",
                f"--admin.http.host-port={here}:{self.admin_port}",
                "--collector.queue-size=100000", "--badger.ephemeral=false",
                "--badger.consistency=true", f"--badger.directory-key={self.dir}/key",
                f"--badger.directory-value={self.dir}/value"]

    def environment(self):
        return {"SPAN_STORAGE_TYPE": "badger", "OTEL_TRACES_SAMPLER": "always_off"}

    def _get(self, path, **parameters):
        return fetch_json(f"http://127.0.0.1:{self.query_port}{path}", timeout=60,
                          **parameters)["data"]

    def services(self):
        return self._get("/api/services") or []

    def traces(self, **parameters):
        return self._get("/api/traces", service="ringtail", limit=TRACES_MAX, lookback="1h",
                         **parameters)

    def trace(self, trace_id):
        """The spans of one, by its id in hexadecimal; none: there is no such trace."""
        try:
            return self._get(f"/api/traces/{trace_id}")[0]["spans"]
        except urllib.error.HTTPError as error:
            if error.code != 404:
                raise
            return []

    def events(self):
        return [span for trace in self.traces() for span in trace["spans"]]

    def numbers(self):
        return sorted(tags(span)["ringtail.syscall.arg.fd"] - exporting.FIRST_FD
                      for span in self.events())

    def count(self):
        return len(self.events())

    def is_on_disk(self):
        return True             # each write is synced, and numbers() reads what was written
