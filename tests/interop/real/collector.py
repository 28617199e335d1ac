"""collector: the OpenTelemetry collector, which writes what it gets to a file, a line for each
request."""
import json
import os

from lib import exporting
from real.server import Server, fetch, free_port

LISTS = {"otlp-logs": ("resourceLogs", "scopeLogs", "logRecords", "logs"),
         "otlp-traces": ("resourceSpans", "scopeSpans", "spans", "traces"),
         "otlp-metrics": ("resourceMetrics", "scopeMetrics", "metrics", "metrics")}


def plain(value):
    """An AnyValue of OTLP's JSON."""
    kind, inner = next(iter(value.items()))
    return int(inner) if kind == "intValue" else inner


def attributes(pairs):
    return {pair["key"]: plain(pair["value"]) for pair in pairs}


class Collector(Server):
    program, ready_path = "otelcol", "/"

    def __init__(self, case, kind):
        self.kind, self.ready_port = kind, 0
        self.target = f"/v1/{LISTS[kind][3]}"
        super().__init__(case)

    def words(self):
        self.file = os.path.join(self.dir, "received.json")
        config = os.path.join(self.dir, "config.yaml")
        with open(config, "w") as file:
            file.write(f"""receivers:
  otlp:
    protocols:
      http:
        endpoint: 127.0.0.1:{self.port}
exporters:
  file:
    path: {self.file}
    append: true
    flush_interval: 100ms
service:
  telemetry:
    metrics:
      level: none
  pipelines:
    {LISTS[self.kind][3]}:
      receivers: [otlp]
      exporters: [file]
""")
        return [f"--config=file:{config}"]

    def answers(self):
        return "Everything is ready" in self.process.read("err")

    def events(self):
        """Log records, spans or metrics, whole lines only: it may be writing."""
        resources, scopes, leaves, _ = LISTS[self.kind]
        found = []
        with open(self.file) as file:
            lines = [line for line in file if line.endswith("\n")]
        for line in lines:
            for resource in json.loads(line)[resources]:
                self.resource = attributes(resource["resource"]["attributes"])
                for scope in resource[scopes]:
                    found += scope[leaves]
        return found

    def numbers(self):
        return sorted(attributes(event["attributes"])["ringtail.syscall.arg.fd"] -
                      exporting.FIRST_FD for event in self.events())

    def count(self):
        return len(self.events())

    def is_on_disk(self):
        return True             # what numbers() reads is what is in the file
