"""proxy: stands before a real server, and is as bad a server as it is told to be: for each request a
Rule says what becomes of it. What it let through and what it said is on record, so that what the
server stored can be told from it to the item.
"""
import email.utils
import errno
import http.client
import socket
import time

from lib.backend import Backend, Request
from lib.protobuf import get_varint

# Where exports go, wherever the server wants it: how lib.backend calls them.
PATHS = {"otlp-logs": "/v1/logs", "otlp-traces": "/v1/traces", "otlp-metrics": "/v1/metrics",
         "loki": "/loki/api/v1/push", "remote-write": "/api/v1/write"}
FORWARD_S = 60
RESOURCE, SCOPE, LEAF = 1, 2, 2         # the fields that lead to OTLP's items, in all three


# ---- Leaving items out of an OTLP request --------------------------------------------------------

def put_varint(value):
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes(out + bytes([value]))


def _fields(data):
    """(number, whole field, its body) of each field; a body only of those with a length."""
    at = 0
    while at < len(data):
        begin = at
        key, at = get_varint(data, at)
        body = None
        if key & 7 == 2:
            size, at = get_varint(data, at)
            body = data[at:at + size]
            at += size
        elif key & 7 == 0:
            _, at = get_varint(data, at)
        else:
            at += 8 if key & 7 == 1 else 4
        yield key >> 3, data[begin:at], body


def without_first(data, n, path=(RESOURCE, SCOPE, LEAF)):
    """The message without the first n of its leaves, and how many are still to be left out."""
    out = b""
    for number, whole, body in _fields(data):
        if number == path[0] and len(path) == 1 and n:
            n -= 1
            continue
        if number == path[0] and len(path) > 1:
            body, n = without_first(body, n, path[1:])
            whole = put_varint(number << 3 | 2) + put_varint(len(body)) + body
        out += whole
    return out, n


def partial_success(rejected):
    """An Export*ServiceResponse."""
    message = b"\x08" + put_varint(rejected) + b"\x12\x03few"
    return b"\x0a" + put_varint(len(message)) + message


def items_of(request):
    """As the sender counts them: a histogram is one point."""
    points = sum(len(data["data_points"]) for metric in request.metrics
                 for data in metric.values() if isinstance(data, dict))
    names = [series["labels"][0]["value"] for series in request.series]
    return len(request.records) + len(request.spans) + points + \
        sum(len(stream["entries"]) for stream in request.streams) + \
        sum(not name.endswith(("_bucket", "_sum")) for name in names)


# ---- Rules ---------------------------------------------------------------------------------------

class Rule:
    """status: said instead of asking the server. delay_s: before anything. cut: so many items are
    left out, and refused. lost: "request" or "answer": the connection is closed before the server
    has heard of it, or after it has answered. times: in a row."""

    def __init__(self, name, status=0, retry_after=None, delay_s=0, cut=0, lost=None, times=1):
        self.name, self.status, self.retry_after, self.times = name, status, retry_after, times
        self.delay_s, self.cut, self.lost = delay_s, cut, lost

    def headers(self):
        after = self.retry_after
        if after == "date":
            after = email.utils.formatdate(time.time() + 2, usegmt=True)
        return {"Retry-After": after} if after else {}


PASS = Rule("pass")


class Script:
    """Each rule, with a good answer after it."""

    def __init__(self, rules):
        self.left = [rule for bad in rules for rule in [bad] * bad.times + [PASS]]

    def __call__(self, request):
        if self.left and self.left[0].cut > request.items:
            return PASS
        return self.left.pop(0) if self.left else PASS


class Record:
    """What became of a request: how many items it had, how many the server took and the sender was
    told of."""

    def __init__(self, request, rule):
        self.request, self.rule = request, rule
        self.stored = self.refused = self.unsaid = 0
        self.status = None      # the real server's


class Proxy(Backend):
    """`rules`: called for each request, says the Rule. stop() and start() are a server that goes
    away and comes back."""

    def __init__(self, behind, rules=lambda request: PASS):
        self.behind, self.rules, self.records_of = behind, rules, []
        super().__init__()

    def _take(self, handler):
        body = handler.rfile.read(int(handler.headers["Content-Length"]))
        try:
            request = Request(PATHS[self.behind.kind], handler.headers, body)
            self._take_request(handler, body, request)
        except Exception as error:      # the test looks at it
            self.wrong.append(repr(error))
            handler.close_connection = True

    def _take_request(self, handler, body, request):
        request.items = items_of(request)
        rule = self.rules(request)
        record = Record(request, rule)
        with self.lock:
            self.records_of.append(record)
        time.sleep(rule.delay_s)
        self._act(handler, body, record)

    def _act(self, handler, body, record):
        try:
            self._carry_out(handler, body, record)
        except OSError as error:
            if error.errno not in (errno.EPIPE, errno.ECONNRESET, errno.ENOTCONN):
                raise
            record.unsaid = record.request.items    # the sender did not wait for it

    def _carry_out(self, handler, body, record):
        rule, items = record.rule, record.request.items
        if rule.status:
            record.refused = items
            self._say(handler, rule.status, rule.headers(), b"as it was told")
            return
        if rule.lost != "request":
            status, answer = self._forward(handler, body, record)
            if status // 100 == 2:
                record.stored = items - rule.cut
                record.refused = rule.cut
            else:
                record.refused = items
        if rule.lost:
            record.unsaid = items
            handler.close_connection = True
            handler.connection.shutdown(socket.SHUT_RDWR)
        elif rule.cut:
            self._say(handler, 200, {"Content-Type": "application/x-protobuf"},
                      partial_success(rule.cut))
        else:
            self._say(handler, status, {}, answer)

    def _forward(self, handler, body, record):
        """The real server's status and answer."""
        headers = {name: value for name, value in handler.headers.items()
                   if name not in ("Host", "Content-Length")}
        if record.rule.cut:
            body, left = without_first(record.request.raw, record.rule.cut)
            assert not left
            del headers["Content-Encoding"]
        connection = http.client.HTTPConnection("127.0.0.1", self.behind.port, timeout=FORWARD_S)
        try:
            connection.request("POST", self.behind.target, body, headers)
            answer = connection.getresponse()
            record.status = answer.status
            return answer.status, answer.read()
        finally:
            connection.close()

    def _say(self, handler, status, headers, body):
        handler.send_response(status)
        for name, value in headers.items():
            handler.send_header(name, value)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    def total(self, what):
        """Over all requests: stored, refused, unsaid."""
        with self.lock:
            return sum(getattr(record, what) for record in self.records_of)

    def of_rule(self, name):
        with self.lock:
            return [record for record in self.records_of if record.rule.name == name]
