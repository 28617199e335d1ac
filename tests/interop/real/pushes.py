"""pushes: of metrics, through a proxy to a real server: what was accepted, and that it is stored."""
import ringtail
from lib import exporting
from lib.process import wait_until
from real import exports, samples

# VictoriaMetrics keeps numbers in decimal, Prometheus as they are.
RELATIVE = {"victoria-metrics": 1e-12, "prometheus": 0, "prometheus-3": 0, "otelcol": 0}


def taken(proxy):
    """The samples of every request that the server took, and the newest's time."""
    with proxy.lock:
        records = [record for record in proxy.records_of if record.stored]
    whole = samples.merge(samples.of_request(record.request) for record in records)
    return whole, max((max(values) for values in whole.values()), default=0)


def is_near(got, wanted, relative):
    return abs(got - wanted) <= relative * abs(wanted)


def differences(got, wanted, relative):
    """What is missing, too much, or another value."""
    for series in got.keys() | wanted.keys():
        mine, right = got.get(series, {}), wanted.get(series, {})
        if mine.keys() != right.keys() or not all(is_near(mine[at], right[at], relative)
                                                  for at in right):
            yield series, mine, right


def check_stored(case, proxy, others=()):
    """Every sample that the server took, and no other, but for series of these names; what it stores."""
    server, name = proxy.behind, exports.name_of(proxy.behind)
    wanted, last = taken(proxy)
    got = {}

    def look():
        got.clear()
        got.update({series: values for series, values in samples.until(samples.of_server(server), last).items()
                    if series[0] not in others})
        return all(max(wanted[series]) in got.get(series, {}) for series in wanted)
    wait_until(look, f"{name}: it has the last push", 60 * ringtail.SLOW)
    wrong = list(differences(got, wanted, RELATIVE[server.program]))
    total = sum(len(values) for values in wanted.values())
    case.check(not wrong, f"{name}: each of {total} samples of {len(wanted)} series is stored as it"
                          " was pushed, and no other", len(wrong), wrong[:3])
    return got


def await_ledger(daemon, proxy, lost, least=1):
    """Waits until so many points are accepted, and the ledger is what the proxy saw; `lost`: by the proxy's records."""
    def look():
        export = exporting.stat(daemon, proxy)
        with proxy.lock:
            stored = {record.request.raw: record.request.items for record in proxy.records_of if record.stored}
            wanted = lost(proxy.records_of)
        right = (sum(stored.values()), wanted, 0)
        same = (export["accepted"], export["lost"], export["residual"]) == right
        return export if same and export["accepted"] >= least else None
    return wait_until(look, f"{exports.name_of(proxy.behind)}: the ledger says what the proxy saw", 60 * ringtail.SLOW)
