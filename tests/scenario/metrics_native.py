"""Native histograms: whoever asks for protobuf by Accept gets them beside the classic ones, compressed or not;
a real Prometheus keeps them, and its quantiles of a known load are right to the 9 % that their schema
promises, where the classic ones of another are right to a factor of two."""
import concurrent.futures
import ctypes
import gzip
import os
import struct
import time

import ringtail
from lib import http
from lib.backend import decode, get_varint, read_schema
from lib.prometheus import Prometheus

SCHEMA = read_schema("exposition.proto")
PROTOBUF = ("application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;"
            "encoding=delimited")
NAME = "ringtail_syscall_duration_seconds"
CALL = "io_getevents"           # which nobody else here makes
NUMBER, SETUP = {"x86_64": (208, 206), "aarch64": (4, 0)}[os.uname().machine]
CALLS, THREADS = 200, 4
GROWTH = 2 ** (1 / 8)           # of one bucket to the next, in schema 3
QUANTILES = (0.1, 0.5, 0.9)

libc = ctypes.CDLL(None, use_errno=True)


def await_nothing(queue, seconds):
    """Makes a call that waits so long; how long that took with all that is around it: the call took something between."""
    event = (ctypes.c_uint64 * 4)()
    limit = struct.pack("ll", int(seconds), int(seconds % 1 * 1e9))
    began = time.perf_counter()
    assert libc.syscall(NUMBER, queue, 1, 1, event, limit) == 0
    return time.perf_counter() - began


def make_load(case):
    """How long the calls took at least, and at most; each sorted."""
    queue = ctypes.c_ulong()
    assert libc.syscall(SETUP, 1, ctypes.byref(queue)) == 0, os.strerror(ctypes.get_errno())
    lengths = [0.002 * 30 ** case.random.random() for _ in range(CALLS)]      # 2 to 60 ms
    with concurrent.futures.ThreadPoolExecutor(THREADS) as pool:
        return sorted(lengths), sorted(pool.map(lambda length: await_nothing(queue, length), lengths))


def quantile(at_least, at_most, q):
    """(least, most): of the values beside that place."""
    place = q * CALLS
    return at_least[max(int(place) - 2, 0)], at_most[min(int(place) + 2, CALLS - 1)]


def get(daemon, accept, encoding):
    connection = http.connect(daemon)
    try:
        connection.request("GET", "/metrics", headers={"Accept": accept,
                                                       "Accept-Encoding": encoding})
        answer = connection.getresponse()
        return answer.status, dict(answer.getheaders()), answer.read()
    finally:
        connection.close()


def families(data):
    """{name: family}, of messages that each follow their length."""
    found, at = {}, 0
    while at < len(data):
        size, at = get_varint(data, at)
        family = decode(SCHEMA, "MetricFamily", data[at:at + size])
        at += size
        found[family["name"]] = family
    return found


def zigzag(value):
    return value >> 1 ^ -(value & 1)


def native_buckets(histogram):
    """{number: count}."""
    found, number, count, deltas = {}, 0, 0, iter(histogram["positive_delta"])
    for span in histogram["positive_span"]:
        number += zigzag(span.get("offset", 0))
        for _ in range(span["length"]):
            count += zigzag(next(deltas))
            found[number] = count
            number += 1
    return found


def check_page(case, daemon):
    """Both kinds are of the same observations, and the rest is as in the text."""
    text = http.metrics(daemon)
    status, headers, body = get(daemon, PROTOBUF, "identity")
    case.check_equal((status, headers["Content-Type"].replace(" ", "")), (200, PROTOBUF), "it is protobuf")
    _, headers, small = get(daemon, PROTOBUF + ";q=0.9,text/plain;q=0.5", "gzip")
    case.check_equal(headers.get("Content-Encoding"), "gzip", "compressed for who asks for that")
    found, again = families(body), families(gzip.decompress(small))
    case.check(found.keys() == again.keys() and len(small) < len(body), "the same families, less bytes")
    missing = [name for name in text.samples if name not in found and
               name.rpartition("_")[0] not in found]
    case.check(not missing and len(found) > 50, f"{len(found)} families, all that the text has", missing)
    compared = 0
    for family in found.values():
        for metric in family["metric"]:
            histogram = metric.get("histogram")
            if not histogram:
                continue
            native = native_buckets(histogram)
            count = histogram.get("sample_count", 0)
            assert sum(native.values()) + histogram.get("zero_count", 0) == count, metric
            assert histogram["bucket"][-1].get("cumulative_count", 0) == count, metric
            compared += bool(count)
    case.check(compared > 10, f"{compared} histograms have all their observations in both kinds")


def check_quantiles(case, known, native, classic):
    for q in QUANTILES:
        least, most = quantile(*known, q)
        fine, coarse = (kept.value(f"histogram_quantile({q}, {expr})")
                        for kept, expr in ((native, series()), (classic, series("_bucket"))))
        case.check(least / GROWTH <= fine <= most * GROWTH,
                   f"quantile {q}: the native one is right to 9 %", least, fine, most)
        case.check(least / 2 <= coarse <= most * 2 and coarse / 2 <= fine <= coarse * 2,
                   f"quantile {q}: the classic one to a factor of two, and they agree", fine, coarse)


def series(suffix=""):
    return f'{NAME}{suffix}{{syscall="{CALL}"}}'


def main(case):
    case.await_alone()
    daemon = case.daemon("--http=127.0.0.1:0", "--ring-size=64MiB")
    http.await_metering(daemon)
    known = make_load(case)
    target = ["{}:{}".format(*http.address_of(daemon))]
    native = Prometheus(case, target, name="native",
                        options=["--enable-feature=native-histograms"])
    classic = Prometheus(case, target, name="classic")
    ringtail.wait_until(lambda: native.value(f"histogram_count({series()})") == CALLS,
                        f"one has {CALLS} calls in a native histogram")
    ringtail.wait_until(lambda: classic.value(series("_count")) == CALLS, "the other in a classic one")
    total = http.metrics(daemon).get(NAME + "_sum", syscall=CALL)
    case.check_equal((native.value(f"histogram_sum({series()})"), classic.value(series("_sum"))),
                     (total, total), "both have their sum")
    case.check(native.value("ringtail_collector_build_info") == 1 and
               native.value("ringtail_wakeups_total") > 0, "what is no histogram is there too")
    check_quantiles(case, known, native, classic)
    check_page(case, daemon)
    case.check_balanced(daemon)


ringtail.run(main)
