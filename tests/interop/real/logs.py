"""logs: VictoriaLogs, fed by OTLP and by Loki's push; and Loki itself."""
import json
import os
import re
import time

from lib import exporting
from real.server import Server, fetch, fetch_json, free_port


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


LOKI_CONFIG = """
auth_enabled: false
server: {{http_listen_address: 127.0.0.1, http_listen_port: {port},
         grpc_listen_address: 127.0.0.1, grpc_listen_port: {grpc}, log_level: warn}}
memberlist: {{bind_addr: [127.0.0.1], bind_port: {gossip}}}
common:
  path_prefix: {dir}/data
  replication_factor: 1
  instance_addr: 127.0.0.1
  ring: {{kvstore: {{store: inmemory}}, instance_addr: 127.0.0.1}}
  storage: {{filesystem: {{chunks_directory: {dir}/data/chunks, rules_directory: {dir}/data/rules}}}}
schema_config:
  configs:
    - {{from: 2020-01-01, store: tsdb, object_store: filesystem, schema: v13,
        index: {{prefix: index_, period: 24h}}}}
ingester: {{wal: {{enabled: true, dir: {dir}/data/wal, flush_on_shutdown: true}}}}
limits_config: {{ingestion_rate_mb: 100, ingestion_burst_size_mb: 200, allow_structured_metadata: true,
                 per_stream_rate_limit: 100MB, per_stream_rate_limit_burst: 200MB,
                 max_entries_limit_per_query: 500000}}
analytics: {{reporting_enabled: false}}
"""


class Loki(Server):
    """One process that is all of Loki. For seconds after its start it listens and answers every push
    with 500, "empty ring"."""
    program, ready_path, kind = "loki", "/ready", "loki"
    target = "/loki/api/v1/push"
    SELECTOR = '{service="ringtail"}'

    def __init__(self, case):
        self.grpc, self.gossip, self.began = free_port(), free_port(), time.time_ns()
        super().__init__(case)

    def words(self):
        path = os.path.join(self.dir, "loki.yaml")
        with open(path, "w") as file:
            file.write(LOKI_CONFIG.format(port=self.port, grpc=self.grpc, gossip=self.gossip,
                                          dir=self.dir))
        return [f"-config.file={path}"]

    def _ready(self):
        """It listens: whoever pushes is not to wait until it says that it is ready."""
        if not self.process.running:
            return super()._ready()
        try:
            fetch(f"{self.url}/metrics", timeout=5)
            return True
        except OSError:
            return False

    def _query(self, **parameters):
        return fetch_json(f"{self.url}/loki/api/v1/query_range", query=self.SELECTOR,
                          start=self.began, end=time.time_ns() + 10**9, direction="forward",
                          limit=500000, **parameters)["data"]["result"]

    def events(self):
        """(labels and structured metadata, line) of every line that is stored."""
        return [(stream["stream"], line) for stream in self._query()
                for _, line in stream["values"]]

    def numbers(self):
        return sorted(int(re.search(r"\bfd=(\d+)", line)[1]) - exporting.FIRST_FD
                      for _, line in self.events())

    def count(self):
        try:
            return len(self.events())
        except OSError:         # it is not ready
            return 0

    def is_on_disk(self):
        """What it has said yes to is in its log, written before the answer."""
        return True
