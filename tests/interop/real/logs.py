"""logs: VictoriaLogs, fed by OTLP and by Loki's push."""
import json
import re

from lib import exporting
from real.server import Server, fetch


class VictoriaLogs(Server):
    program, ready_path = "victoria-logs", "/health"
    paths = {"otlp-logs": "/insert/opentelemetry/v1/logs", "loki": "/insert/loki/api/v1/push"}

    def __init__(self, case, kind):
        self.kind = kind
        super().__init__(case)

    def words(self):
        return [f"-httpListenAddr=127.0.0.1:{self.port}", f"-storageDataPath={self.dir}",
                "-inmemoryDataFlushInterval=1s"]

    @property
    def target(self):
        return self.paths[self.kind]

    def events(self):
        """Every record that is stored, as a dictionary of texts."""
        fetch(f"{self.url}/internal/force_flush")
        text = fetch(f"{self.url}/select/logsql/query", query="*", timeout=60)
        return [json.loads(line) for line in text.splitlines()]

    def numbers(self):
        """Which of exporting.fail_often()'s calls are stored, each as often as it is."""
        return sorted(int(re.search(r"\bfd=(\d+)", event["_msg"])[1]) - exporting.FIRST_FD
                      for event in self.events())

    def count(self):
        """By its own statistics."""
        fetch(f"{self.url}/internal/force_flush")
        text = fetch(f"{self.url}/select/logsql/query", query="* | stats count() as n")
        return int(json.loads(text)["n"])

    def is_on_disk(self):
        """Whether a kill -9 now would take nothing."""
        fetch(f"{self.url}/internal/force_flush")
        metrics = fetch(f"{self.url}/metrics")
        return re.search(r'^vl_storage_rows\{type="storage/inmemory"\} 0$', metrics, re.M)
