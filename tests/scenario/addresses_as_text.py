"""The address that a call names comes as text: of connect, also where it fails, bind, sendto and accept, beside
the one that was passed; none without --flags strings, and none of a call that had none to fill in. What is
exported of a connect or a bind that failed says to whom."""
import ipaddress
import json
import os
import re
import socket
import sys

import ringtail
from lib import exporting
from lib.backend import Backend

# A connect that is not permitted without SO_BROADCAST, and a bind in a directory of others.
DENIED = """
import os, socket, sys
if not os.geteuid():
    os.setuid(65534)
for at, call, address in ((socket.AF_INET, "connect", ("127.255.255.255", 7)),
                          (socket.AF_UNIX, "bind", "/no.sock")):
    try:
        getattr(socket.socket(at, socket.SOCK_DGRAM), call)(address)
    except PermissionError:
        pass
    else:
        sys.exit(f"{call} is permitted")
"""


def refused(family, address):
    """The port of a listener that was: nobody else is given it while its socket is bound."""
    held = socket.socket(family, socket.SOCK_STREAM)
    held.bind((address, 0))
    return held, held.getsockname()[1]


def attempt(call, *words):
    try:
        return call(*words)
    except OSError:
        return None


def calls(case):
    """Makes them; returns (call, error, text) of each, as ringtail is to tell them."""
    told, held = [], []
    for family, address, shown in ((socket.AF_INET, "127.0.0.1", "127.0.0.1"),
                                   (socket.AF_INET6, "::1", "[::1]")):
        keep, port = refused(family, address)
        held.append(keep)
        told.append(("bind", None, f"{shown}:0"))
        with socket.socket(family, socket.SOCK_STREAM) as one:
            attempt(one.connect, (address, port))
        told.append(("connect", "ECONNREFUSED", f"{shown}:{port}"))
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as one:
        for path, shown in ((case.path("none.sock"), None), ("\0none-\n\u202e", "@none-\n\u202e"),
                            ("no.such/relative", "./no.such/relative")):
            attempt(one.connect, path)
            told.append(("connect", "ECONNREFUSED" if path[0] == "\0" else "ENOENT", shown or path))
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as one:
        one.bind((0, 0))
        told.append(("bind", None, "netlink"))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        one.sendto(b"a", ("127.0.0.1", held[0].getsockname()[1]))
        told.append(("sendto", None, f"127.0.0.1:{held[0].getsockname()[1]}"))
    return told + accept(held[0])


def accept(listener):
    """One that finds nobody, and one that does."""
    listener.listen(1)
    listener.setblocking(False)
    attempt(listener.accept)
    with socket.create_connection(listener.getsockname()) as client:
        listener.setblocking(True)
        listener.accept()[0].close()
        shown = [f"127.0.0.1:{one.getsockname()[1]}" for one in (listener, client)]
    return [("accept4", "EAGAIN", None), ("connect", None, shown[0]), ("accept4", None, shown[1])]


class Caller:
    """A process that makes the calls, and no other, once it is told to."""
    def __init__(self, case):
        start, self.start = os.pipe()
        self.told, told = os.pipe()
        self.pid = os.fork()
        if not self.pid:
            os.close(self.start)
            if os.read(start, 1):
                os.write(told, json.dumps(calls(case)).encode())
            os._exit(0)
        os.close(start)
        os.close(told)

    def call(self):
        os.write(self.start, b"!")
        with open(self.told, "rb") as file:
            told = json.load(file)
        os.waitpid(self.pid, 0)
        return [tuple(row) for row in told]


def network_of(shown):
    """The address and the port of what is shown, or None."""
    found = re.fullmatch(r"\[?([\d.]+|[0-9a-f:]+)(?:%\d+)?\]?:(\d+)", shown or "")
    return found and (ipaddress.ip_address(found[1]), int(found[2]))


def check_chosen(case, daemon, chosen, told):
    """Filters by address and port, against Python's idea of networks."""
    loopback, one = ipaddress.ip_network("127.0.0.0/8"), ipaddress.ip_address("127.0.0.1")
    holds = [lambda host, port: host in loopback and port != 0, lambda host, port: host not in loopback,
             lambda host, port: port == 0, lambda host, port: host.version == 6,
             lambda host, port: host == one]
    for (text, streamed), hold in zip(chosen.items(), holds):
        wanted = [shown for _, _, shown in told if network_of(shown) and hold(*network_of(shown))]
        case.await_rings_empty(daemon)
        streamed.await_all()
        done = streamed.interrupt()
        case.check_stream(done)
        got = [next(iter(event.get("strings", {}).values()), None) for event in done.lines]
        case.check_equal([shown for shown in got if shown], wanted, f"those with {text}")


def stream(case, daemon, caller, count, *words, filter="cpu >= 0"):
    return case.stream(daemon, "-p", "syscall:connect:call", "-p", "syscall:bind:call", "-p",
                       "syscall:sendto:call", "-p", "syscall:accept4:call", "-f",
                       f"pid == {caller.pid} && {filter}", *(["-n", str(count)] if count else []), *words)


def shown_to_readers(case, daemon):
    count = 12
    caller = Caller(case)
    full = stream(case, daemon, caller, count, "--flags", "strings", "-o", "json")
    text = stream(case, daemon, caller, count, "--flags", "strings")
    bare = stream(case, daemon, caller, count, "-o", "json")
    chosen = {text: stream(case, daemon, caller, 0, "-o", "json", filter=text)
              for text in ("addr == 127.0.0.0/8 && port != 0", 'addr != 127.0.0.0/8', "port == 0",
                           'addr == "::/0"', 'uid == "root" && addr in (127.0.0.1)')}
    told = caller.call()
    done = full.wait()
    case.check_stream(done, events=count)
    found = [(event["probe"].split(":")[1], event.get("error"),
              next(iter(event.get("strings", {}).values()), None)) for event in done.lines]
    case.check_equal(found, told, "each call has the address that it was given, or filled in")
    check_chosen(case, daemon, chosen, told)
    case.check(not any("strings" in event for event in bare.wait().lines),
               "without the flag there is none")
    out = text.wait().out
    case.check(all(f'"{shown}"' in out for _, _, shown in told if shown and shown.isprintable()),
               "text shows them", out)
    case.check("\u202e" not in out and '"@none-\\n' in out, "and hides what acts on a terminal", out)


def exported(case):
    logs, loki = Backend(), Backend()
    daemon = case.daemon(logs.url("otlp-logs"), loki.url("loki"), "--export-rate=0", ringtail.ROOM)
    exporting.await_begun(daemon)
    process = case.start(sys.executable, "-c", DENIED)
    case.check_equal(process.wait().code, 0, "both are denied")

    def look():
        found = {record["event_name"].split(".")[-1]: record["attributes"]
                 for record in logs.records()
                 if record["attributes"]["process.pid"] == process.pid}
        return found if {"connect", "bind"} <= set(found) else None
    found = ringtail.wait_until(look, "both are stored")
    case.check_equal([found["connect"].get(f"network.peer.{name}") for name in ("address", "port")],
                     ["127.255.255.255", 7], "the record of a connect says to whom")
    case.check_equal(found["bind"].get("network.local.address"), "/no.sock",
                     "that of a bind says what")

    def lines():
        pairs = [{pair["name"]: pair["value"] for pair in entry["structured_metadata"]} for _, entry in loki.lines()]
        found = {pair["event"]: pair.get("address") for pair in pairs
                 if pair["pid"] == str(process.pid) and pair["event"] in ("connect", "bind")}
        return found if len(found) == 2 else None
    case.check_equal(ringtail.wait_until(lines, "Loki has both"),
                     {"connect": "127.255.255.255:7", "bind": "/no.sock"}, "with both addresses")
    case.check_balanced(daemon)


def main(case):
    daemon = case.daemon()
    shown_to_readers(case, daemon)
    case.check_balanced(daemon)
    daemon.stop()
    exported(case)


ringtail.run(main)
