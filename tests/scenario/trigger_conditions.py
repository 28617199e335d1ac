"""Triggers on what the kernel says of itself: a signal that is sent, and the OOM killer; each fires with the event in the log, and
their probes are made for them, also when a reload brings them. A URL is told, by a daemon whose system calls are filtered, and asked
again while it is busy."""
import http.server
import json
import os
import signal
import threading

import ringtail
from lib import rules
from lib.cgroups import LittleMemory

STKFLT = 16                     # nobody else sends it


class Pager(http.server.BaseHTTPRequestHandler):
    """Busy at first."""
    told = []

    def do_POST(self):
        self.told.append((self.path, self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(503 if len(self.told) == 1 else 204)
        self.end_headers()

    def log_message(self, *_):
        pass


def signals(case, url):
    path, comm = rules.nap_of(case)
    daemon = case.daemon(config="probe = syscall:getppid:call\n"
                         f"on = fault: signal SIGSTKFLT dump 100ms, call {url}/hook/secret every 1h\n")
    victim = case.start(path, "60")
    ringtail.wait_until(lambda: os.readlink(f"/proc/{victim.pid}/exe") == path, "it runs")
    os.kill(victim.pid, STKFLT)
    victim.wait()
    dump, = rules.await_dumps(case, daemon)
    case.check_equal((dump["trigger"], dump["state"]), ("fault", "whole"), "a signal fires, and its dump is there")
    case.check(f'sig={STKFLT}' in daemon.log and f'comm="{comm}", pid={victim.pid}' in daemon.log,
               "the log has the signal, and whom it was sent to", daemon.log)
    ringtail.wait_until(lambda: daemon.stat()["counters"]["trigger_calls_answered"] == 1, "its URL is told")
    (place, first), again = Pager.told
    case.check_equal(again, (place, first), "and again, because it was busy")
    told = json.loads(first)
    case.check_equal((place, told["trigger"], told["host"]), ("/hook/secret", "fault", os.uname().nodename), "by whom")
    case.check(f"sig={STKFLT}" in told["event"] and told["text"].endswith(told["event"]), "with the event", told)
    case.check("secret" not in first.decode() + daemon.log + case.tracectl(daemon, "stat").out, "nothing shows the URL's path", told)
    return daemon


def killer(case, daemon, cgroup):
    case.write(f"{daemon.name}.conf", "probe = syscall:getppid:call\non = oom dump 100ms every 1h\n")
    daemon.reload(r"\[reloaded\]")
    case.check_equal(cgroup.exceed(), -signal.SIGKILL, "the kernel kills it")
    ringtail.wait_until(lambda: "trigger trigger-1 fired" in daemon.log, "the OOM killer fires")
    case.check("mark_victim(pid=" in daemon.log and 'comm="python3"' in daemon.log, "the log has the victim", daemon.log)


def main(case):
    pager = http.server.HTTPServer(("127.0.0.1", 0), Pager)
    threading.Thread(target=pager.serve_forever, daemon=True).start()
    daemon = signals(case, "http://{}:{}".format(*pager.server_address))
    other = case.daemon(config="probe = syscall:getppid:call\n")
    case.write(f"{other.name}.conf", "on = oom call http://127.0.0.1/\n")
    other.reload(r"\[reload-refused\]")
    case.check("[trigger-sandbox]" in other.log, "who had nobody to connect to at its start does not begin to", other.log)
    case.check_balanced(other)
    cgroup = LittleMemory()
    try:
        if cgroup.works:
            killer(case, daemon, cgroup)
    finally:
        cgroup.remove()
        pager.shutdown()
    stat = case.tracectl(daemon, "stat", "-o", "json").lines[0]
    case.check(all(trigger["state"] == "fired" and trigger["residual"] == 0 and trigger["matches"] for trigger in stat["triggers"]),
               "stat tells of them, and their ledgers close", stat["triggers"])
    text = case.tracectl(daemon, "stat").out
    case.check("matches + " in text and "suppressed" in text, "in words, too", text)
    case.check_balanced(daemon)


ringtail.run(main)
