"""One host is called the same in every back end, over restarts and boots: its name, and the id of its
machine where there is room for one. Nothing that changes with a boot is in what a back end makes series
of. A level goes with each line of Loki."""
import os
import re

import ringtail
from lib import exporting, http
from lib.backend import Backend

CALLS = 20
KINDS = ["otlp-logs", "otlp-traces", "otlp-metrics", "loki", "remote-write"]
BOOT = "ringtail.boot.id"


def machine_id():
    try:
        with open("/etc/machine-id") as file:
            return file.read().strip()
    except FileNotFoundError:
        return None


def boot_id():
    with open("/proc/sys/kernel/random/boot_id") as file:
        return file.read().strip()


def check_resource(case, kind, backend, host):
    request = backend.stored[-1]
    resource = request.resource
    wanted = {"service.name": "ringtail", "service.instance.id": host, "host.name": host,
              "host.id": machine_id()}
    case.check_equal({key: resource.get(key) for key in wanted}, wanted, f"{kind}: its identity")
    case.check_equal(resource.get(BOOT), None if kind == "otlp-metrics" else boot_id(),
                     f"{kind}: the boot is told where it makes no series")
    case.check(all(boot_id() not in str(value) for key, value in resource.items() if key != BOOT),
               f"{kind}: nothing else of it changes with a boot", resource)
    case.check(len(request.content.schemas) == 1 and re.fullmatch(
        r"https://opentelemetry.io/schemas/1\.\d+\.0", *request.content.schemas),
        f"{kind}: it says by which conventions", request.content.schemas)


def main(case):
    host = os.uname().nodename
    backends = {kind: Backend() for kind in KINDS}
    daemon = case.daemon(*(backend.url(kind) for kind, backend in backends.items()),
                         *exporting.options(), "--export-interval=200ms", "--http=127.0.0.1:0")
    exporting.await_begun(daemon)
    exporting.fail_often(CALLS)
    for kind in KINDS:
        ringtail.wait_until(lambda: backends[kind].stored, f"{kind}: something came")
        if kind.startswith("otlp"):
            check_resource(case, kind, backends[kind], host)
    series = [{label["name"]: label["value"] for label in one["labels"]}
              for one in backends["remote-write"].stored[-1].series]
    case.check_equal({(labels["job"], labels["instance"]) for labels in series},
                     {("ringtail", host)}, "remote write: job and instance")
    told = [labels for labels in series if labels["__name__"] == "ringtail_collector_host_info"]
    case.check_equal([(labels["host_name"], labels.get("host_id")) for labels in told],
                     [(host, machine_id())], "remote write: both names are in host_info")
    page = http.metrics(daemon).all("ringtail_collector_host_info")
    case.check_equal([(labels["host_name"], labels["host_id"] or None) for labels, _ in page],
                     [(host, machine_id())], "a scrape: the same")
    labels, entry = backends["loki"].lines()[0]
    fields = {pair["name"]: pair["value"] for pair in entry["structured_metadata"]}
    case.check(f'host="{host}"' in labels and boot_id() not in labels, "Loki: host", labels)
    case.check_equal(fields["level"], "info", "Loki: a level")
    case.check_balanced(daemon)


ringtail.run(main)
