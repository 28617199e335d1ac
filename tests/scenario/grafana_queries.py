#!/usr/bin/env python3
"""Every query of every panel, and what every alert rule looks at, returns data from a real Prometheus
that scrapes a running ringtaild; the dashboards are what grafana/dashboards.py makes."""
import glob
import json
import os
import re
import subprocess
import sys

import ringtail
from lib import backend, exporting, http, tls
from lib.process import wait_until
from lib.prometheus import Prometheus

GRAFANA = os.path.join(ringtail.ROOT, "grafana")
VARIABLES = {"$__rate_interval": "10s", "$__range": "1m", "$instance": ".*", "$syscall": ".*",
             "$job": ".*"}


def panel_queries():
    for path in sorted(glob.glob(f"{GRAFANA}/dashboards/*.json")):
        with open(path) as file:
            dashboard = json.load(file)
        for panel in dashboard["panels"]:
            for target in panel["targets"]:
                if target["datasource"]["type"] != "prometheus":
                    continue
                expr = target["expr"]
                for name, value in VARIABLES.items():
                    expr = expr.replace(name, value)
                yield f"{dashboard['title']} / {panel['title']}", expr


def rule_queries():
    """What a rule looks at: each selector in it. What it makes of that is promtool's to test."""
    with open(f"{GRAFANA}/alerts/ringtail.rules.yaml") as file:
        text = file.read()
    names = re.findall(r"- alert: (\w+)", text)
    exprs = re.findall(r"^ +expr: (.*)$", text, re.M)
    assert len(names) == len(exprs) > 0
    for name, expr in zip(names, exprs):
        selectors = re.findall(r"\b(?:ringtail_\w+|up\b)(?:{[^}]*})?", expr)
        assert selectors, f"{name}: nothing that is measured in {expr}"
        for selector in selectors:
            yield f"alert {name}", selector


def main(case):
    checks = [["python3", f"{GRAFANA}/dashboards.py", "--check"],
              ["promtool", "check", "rules", f"{GRAFANA}/alerts/ringtail.rules.yaml"],
              ["promtool", "test", "rules", f"{GRAFANA}/alerts/ringtail.test.yaml"]]
    for words in checks:
        done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        case.check_equal(done.returncode, 0, " ".join([words[0], *words[1:3]]))

    refusing = backend.Backend(lambda request: backend.Answer(400))
    accepting = backend.Backend()
    try:
        daemon = case.daemon("--http=127.0.0.1:0", "--metrics-comm", "--durability=written",
                             f"--state-dir={case.path('state')}", "--probe=syscall:close:call",
                             refusing.url("loki"), accepting.url("otlp-logs"), *exporting.options(),
                             *tls.Server(case).options(), "--viewer=cert:anybody",
                             "--listen-agents=tls:127.0.0.1:0", "--relay-ack=kafka",
                             f"--relay-courier={case.path('courier.sock')}",
                             listen=[f"unix:{case.path('run')}/c.sock", "tcp:127.0.0.1:0"])
        exporting.await_begun(daemon)
        http.await_metering(daemon)
        host, port = http.address_of(daemon)
        prometheus = Prometheus(case, [f"{host}:{port}"])
        wanted = dict(enumerate([*panel_queries(), *rule_queries()]))
        total = len(wanted)

        def look():
            """What has had data once is done with; the machine stays busy until all have."""
            exporting.fail_often(100)
            subprocess.run(["/bin/sh", "-c", "ls / >/dev/null; cat /nonexistent"],
                           stderr=subprocess.DEVNULL)
            for number, (_, expr) in list(wanted.items()):
                if prometheus.query(expr):
                    del wanted[number]
            return not wanted

        try:
            wait_until(look, "every query has data")
        except ringtail.Late as late:
            raise ringtail.Late(f"{late}; without: {list(wanted.values())}") from None
        case.say(f"ok: all {total} queries of panels and rules return data")
        case.check_balanced(daemon)
    finally:
        refusing.stop()
        accepting.stop()


ringtail.run(main)
