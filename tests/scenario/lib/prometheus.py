"""prometheus: Debian's Prometheus, scraping a ringtaild, asked through its own query interface."""
import json
import os
import shutil
import urllib.error
import urllib.parse
import urllib.request

import ringtail
from lib.backend import reserve_port
from lib.process import PATIENCE_S, wait_until


class Prometheus:
    def __init__(self, case, targets=(), interval="1s", rules=None, options=(),
                 name="prometheus"):
        program = shutil.which("prometheus")
        if not program:
            raise ringtail.Skip("no prometheus here: make deps installs it")
        self.reserved = reserve_port()
        self.url = f"http://127.0.0.1:{self.reserved.getsockname()[1]}"
        rule_files = f"rule_files: [{json.dumps(rules)}]\n" if rules else ""
        config = case.write(f"{name}.yml", f"""global:
  scrape_interval: {interval}
  evaluation_interval: {interval}
{rule_files}scrape_configs:
  - job_name: ringtail
    static_configs:
      - targets: {json.dumps(list(targets))}
""")
        self.process = case.start(
            program, f"--config.file={config}", f"--storage.tsdb.path={case.path(name)}",
            f"--web.listen-address={self.url[len('http://'):]}", "--log.level=warn",
            "--enable-feature=exemplar-storage", *options)
        wait_until(self._ready, "Prometheus is ready")

    def _get(self, path, **parameters):
        query = urllib.parse.urlencode(parameters)
        with urllib.request.urlopen(f"{self.url}{path}?{query}", timeout=PATIENCE_S) as answer:
            return json.load(answer)

    def _ready(self):
        try:
            with urllib.request.urlopen(f"{self.url}/-/ready", timeout=5) as answer:
                return answer.status == 200
        except (urllib.error.URLError, OSError):
            return False

    def query(self, expr):
        """The series of an instant query: [{metric, value}]; a bad query is an exception."""
        try:
            return self._get("/api/v1/query", query=expr)["data"]["result"]
        except urllib.error.HTTPError as error:
            raise ringtail.Failure(f"{expr}: {error.read().decode()}") from None

    def value(self, expr):
        """The one value of a query; None: it has none."""
        result = self.query(expr)
        return float(result[0]["value"][1]) if result else None

    def exemplars(self, expr):
        return self._get("/api/v1/query_exemplars", query=expr, start=0, end=1 << 32)["data"]
