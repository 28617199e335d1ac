#!/usr/bin/env python3
"""docs/grafana.md, followed to the letter but for ports: the daemon's configuration, Prometheus' scrape
job and rules, the files it names, and what it says to ask for, answered by real servers."""
import os
import re
import subprocess

import real  # noqa: F401
import ringtail
from lib import exporting, http
from lib.process import wait_until
from real.logs import VictoriaLogs
from real.metrics import Prometheus
from real.server import fetch, fetch_json
from real.traces import Jaeger, tags

PAGE = os.path.join(ringtail.ROOT, "docs", "grafana.md")
PAGE_RULES = "/etc/prometheus/ringtail.rules.yaml"
RULES = os.path.join(ringtail.ROOT, "grafana", "alerts", "ringtail.rules.yaml")


def blocks(kind):
    """The page's blocks of code of that kind."""
    with open(PAGE) as file:
        return re.findall(rf"^```{kind}\n(.*?)^```$", file.read(), re.M | re.S)


def put(case, text, old, new):
    """What is different here from the page."""
    case.check(old in text, f"the page says {old}")
    return text.replace(old, new)


class ScrapingPrometheus(Prometheus):
    """With the page's configuration."""

    def __init__(self, case, config):
        self.config = "global: {scrape_interval: 1s, evaluation_interval: 1s}\n" + config
        super().__init__(case)

    def words(self):
        words = super().words()
        with open(f"{self.dir}/prometheus.yml", "w") as file:
            file.write(self.config)
        return words

    def query(self, expr):
        return fetch_json(f"{self.url}/api/v1/query", query=expr)["data"]["result"]


def check_files(case):
    [text] = blocks("sh")
    sources = re.findall(r"^cp (\S+) ", text, re.M)
    missing = [source for source in sources if not
               [name for name in os.listdir(os.path.join(ringtail.ROOT, os.path.dirname(source)))
                if re.fullmatch(os.path.basename(source).replace("*", r"\w+"), name)]]
    case.check(len(sources) == 4 and not missing, "each file it names is there", missing)


def make_something(case):
    """A tree called make with a slow call, an error that matters, and an exit that failed."""
    script = ("(flock 9; sleep 0.6) 9>lock & sleep 0.2; flock lock true; "
              "sh -c 'echo >/dev/full'; sh -c 'exit 3'; wait")
    process = subprocess.Popen([case.path("make"), "-c", script], cwd=case.dir,
                               stderr=subprocess.DEVNULL)
    process.wait(60)
    return process.pid


def check_logs(case, logs):
    """The page's queries, as VictoriaLogs asks."""
    [text] = blocks("logql")
    for line in text.splitlines():
        selector, _, errno = line.partition(" | errno = ")
        words = selector + (f" errno:{errno.strip('`')}" if errno else "")

        def look():
            return fetch(f"{logs.url}/select/logsql/query", query=words)
        found = wait_until(look, f"{words} finds something", 30 * ringtail.SLOW)
        case.say(f"ok: {words} finds {len(found.splitlines())}")


def check_traces(case, jaeger, root):
    def look():
        return next((trace["spans"] for trace in jaeger.traces(operation="make")
                     if any(tags(span)["process.pid"] == root for span in trace["spans"])), None)
    spans = wait_until(look, "the run of make is a trace", 30 * ringtail.SLOW)
    case.check(len(spans) >= 5, f"the run of make is a trace of {len(spans)} spans")


def main(case):
    logs, jaeger = VictoriaLogs(case, "loki"), Jaeger(case)
    os.symlink("/bin/sh", case.path("make"))
    config = blocks("")[0]
    config = put(case, config, "http = 127.0.0.1:7118", "http = 127.0.0.1:0")
    config = put(case, config, "loki:http://127.0.0.1:3100", f"loki:{logs.url}{logs.target}")
    config = put(case, config, "otlp-traces:http://127.0.0.1:4318", f"otlp-traces:{jaeger.url}")
    daemon = case.daemon(config=config)
    exporting.await_begun(daemon)
    http.await_metering(daemon)
    root = make_something(case)

    host, port = http.address_of(daemon)
    [scrape] = blocks("yaml")
    scrape = put(case, scrape, "127.0.0.1:7118", f"{host}:{port}")
    prometheus = ScrapingPrometheus(case, put(case, scrape, PAGE_RULES, RULES))
    check_files(case)
    rate = 'sum(rate(ringtail_syscalls_total{job="ringtail"}[10s])) > 0'
    wait_until(lambda: prometheus.query(rate), "Prometheus has a rate of system calls", 60)
    case.say("ok: Prometheus has a rate of system calls")
    rules = fetch_json(f"{prometheus.url}/api/v1/rules")["data"]["groups"][0]["rules"]
    case.check(len(rules) > 5 and all(not rule.get("lastError") for rule in rules),
               f"{len(rules)} rules are loaded and evaluated", rules)
    check_logs(case, logs)
    check_traces(case, jaeger, root)
    states = [export["state"] for export in daemon.stat()["export"]]
    case.check_equal(states, ["ok", "ok"], "tracectl stat says that both accept")
    case.check_balanced(daemon)


ringtail.run(main)
