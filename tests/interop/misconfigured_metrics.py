#!/usr/bin/env python3
"""A Prometheus that refuses what is pushed to it, then is as it was: another host, whose clock is two hours ahead,
makes it take nothing of now; it takes no remote write at all; it wants credentials. Then it is frozen for longer than
export-timeout. Each time all of it waits, oldest first, nothing is lost, and every sample of every push is stored."""
import shutil
import signal
import time
import urllib.error

import real  # noqa: F401
import ringtail
from lib import exporting
from lib.process import wait_until
from real import exports, pushes
from real.metrics import Prometheus
from real.proxy import Proxy
from real.server import fetch

AHEAD_S = 2 * 3600
WAITING = 3                     # pushes
POINTS = 250                    # of each, about
OTHER = "other_host_is_ahead"
RECEIVER = "--web.enable-remote-write-receiver"
# Of which password matters to nobody.
USERS = "basic_auth_users: {somebody: $2y$10$QOauhQNbBCuQDKes6eFzPeMqBSjb7Mr5DUmpZ/VcEd00UAV/LDeSi}\n"
STATUS = {"a clock ahead": 400, "no receiver": 404, "credentials": 401}


class BadPrometheus(Prometheus):
    mistake = None

    def words(self):
        words = super().words()
        if self.mistake == "no receiver":
            words.remove(RECEIVER)
        if self.mistake == "credentials":
            with open(f"{self.dir}/web.yml", "w") as file:
                file.write(USERS)
            words.append(f"--web.config.file={self.dir}/web.yml")
        return words

    def answers(self):
        """Also where it wants to know who asks."""
        try:
            fetch(f"{self.url}{self.ready_path}", timeout=5)
            return True
        except urllib.error.HTTPError as error:
            return error.code == 401
        except (urllib.error.URLError, OSError):
            return False


def start_again(proxy, mistake, empty=False):
    server = proxy.behind
    server.mistake = mistake
    server.end()
    if empty:
        shutil.rmtree(f"{server.dir}/data")
        with proxy.lock:
            del proxy.records_of[:]
    server.start()


def await_waiting(daemon, proxy, mistake):
    """Its state says so, and so many more pushes wait."""
    before = exporting.stat(daemon, proxy)["events"]

    def look():
        export = exporting.stat(daemon, proxy)
        return export if export["state"] == "held" and export["events"] > before + WAITING * POINTS else None
    return wait_until(look, f"{mistake}: it is held", 60 * ringtail.SLOW)


def await_accepted(case, daemon, proxy, what):
    """All that waited, and nothing of it is lost."""
    events = exporting.stat(daemon, proxy)["events"]
    wait_until(lambda: exporting.stat(daemon, proxy)["accepted"] >= events, f"{what}: what waited is accepted",
               60 * ringtail.SLOW)
    export = exporting.stat(daemon, proxy)
    case.check_equal((export["lost"], export["residual"]), ({}, 0), f"{what}: nothing is lost")


def statuses(proxy, begin):
    """But for 503, which a server that begins says to everybody."""
    with proxy.lock:
        return {record.status for record in proxy.records_of[begin:] if record.status and not record.stored} - {503}


def misconfigure(case, daemon, proxy, mistake):
    begin = len(proxy.records_of)
    if mistake == "a clock ahead":
        proxy.behind.push(OTHER, int((time.time() + AHEAD_S) * 1000))
    else:
        start_again(proxy, mistake)
    export = await_waiting(daemon, proxy, mistake)
    case.check_equal((statuses(proxy, begin), export["lost"]), ({STATUS[mistake]}, {}), f"{mistake}: {export['last_error'][:60]}")
    start_again(proxy, None, empty=mistake == "a clock ahead")
    await_accepted(case, daemon, proxy, mistake)


def freeze(case, daemon, proxy):
    proxy.behind.freeze()
    before = exporting.stat(daemon, proxy)["retries"]
    wait_until(lambda: exporting.stat(daemon, proxy)["retries"] > before, "it is tried again", 60 * ringtail.SLOW)
    proxy.behind.process.signal(signal.SIGCONT)
    await_accepted(case, daemon, proxy, "frozen")


def main(case):
    proxy = Proxy(BadPrometheus(case))
    daemon = case.daemon(exports.option(proxy.behind, proxy.port), "--export-interval=2s", "--export-timeout=5s",
                         "--metrics-series-max=30")
    for mistake in STATUS:
        misconfigure(case, daemon, proxy, mistake)
    freeze(case, daemon, proxy)
    pushes.check_stored(case, proxy, others={OTHER})
    case.check_balanced(daemon)


ringtail.run(main)
