"""backend: a back end of this test's own: it takes what exporters post over HTTP, undoes it, and
answers as it is told to. Everything it stores is what the real one would have stored: what it
refuses, it forgets.

The bodies are read by the same schema reader as the wire's, from proto/export/*.proto.
"""
import functools
import gzip
import http.server
import os
import re
import socket
import struct
import threading
import time

from lib.protobuf import ROOT, get_varint

FIXED = {"fixed64": "<Q", "sfixed64": "<q", "double": "<d", "fixed32": "<I"}


def read_schema(name):
    """Message -> number -> (repeated, kind, name); a oneof's fields are the message's."""
    with open(os.path.join(ROOT, "proto", "export", name)) as file:
        text = re.sub(r"//[^\n]*", "", file.read())
    text = re.sub(r"oneof\s+\w+\s*{([^}]*)}", r"\1", text)
    messages = {}
    for kind, message, body in re.findall(r"(message|enum)\s+(\w+)\s*{(.*?)}", text, re.S):
        if kind == "message":
            rows = re.findall(r"(repeated\s+)?(\w+)\s+(\w+)\s*=\s*(\d+)[^;]*;", body)
            messages[message] = {int(row[3]): (bool(row[0]), row[1], row[2]) for row in rows}
    return messages


OTLP, LOKI, PROMETHEUS = (read_schema(f"{name}.proto") for name in ("otlp", "loki", "remote_write"))


def _scalars(kind, wire, data, at):
    """The values at a place, and where they end: one, or a packed list."""
    if wire == 2:
        size, at = get_varint(data, at)
        if kind in FIXED:
            width = struct.calcsize(FIXED[kind])
            return [value for value, in struct.iter_unpack(FIXED[kind], data[at:at + size])], \
                at + size if size % width == 0 else None
        values, end = [], at + size
        while at < end:
            value, at = get_varint(data, at)
            values.append(value)
        return values, end
    if wire == 0:
        value, at = get_varint(data, at)
        return [value - (1 << 64) if kind == "int64" and value >> 63 else value], at
    width = 8 if wire == 1 else 4
    return [struct.unpack(FIXED[kind], data[at:at + width])[0]], at + width


def decode(schema, message, data):
    """A message as a dictionary of what is there; lists are always there."""
    fields = schema[message]
    values = {name: [] for repeated, _, name in fields.values() if repeated}
    at = 0
    while at < len(data):
        key, at = get_varint(data, at)
        repeated, kind, name = fields[key >> 3]
        if kind in schema or kind in ("string", "bytes"):
            size, at = get_varint(data, at)
            body = data[at:at + size]
            if len(body) != size:
                raise ValueError(f"{message}.{name} is cut short")
            at += size
            found = [decode(schema, kind, body) if kind in schema else
                     body.decode() if kind == "string" else body]
        else:
            found, at = _scalars(kind, key & 7, data, at)
        if repeated:
            values[name] += found
        else:
            values[name] = found[-1]
    return values


def unsnappy(data):
    """Snappy's block format."""
    size, at = get_varint(data, 0)
    out = bytearray()
    while at < len(data):
        tag = data[at]
        at += 1
        if tag & 3 == 0:
            length = tag >> 2
            if length >= 60:
                extra = length - 59
                length = int.from_bytes(data[at:at + extra], "little")
                at += extra
            out += data[at:at + length + 1]
            at += length + 1
            continue
        if tag & 3 == 1:
            length, offset = (tag >> 2 & 7) + 4, tag >> 5 << 8 | data[at]
            at += 1
        else:
            width = 2 if tag & 3 == 2 else 4
            length, offset = (tag >> 2) + 1, int.from_bytes(data[at:at + width], "little")
            at += width
        while length > 0:       # it may reach into what it makes
            piece = out[len(out) - offset:len(out) - offset + length]
            out += piece
            length -= len(piece)
    if len(out) != size:
        raise ValueError("snappy: not as long as it says")
    return bytes(out)


def attributes(pairs):
    """A list of KeyValue as a dictionary."""
    return {pair["key"]: next(iter(value for name, value in pair["value"].items()))
            for pair in pairs}


class Content:
    """What a body holds."""

    def __init__(self, path, raw):
        self.records, self.spans, self.metrics, self.streams, self.series = [], [], [], [], []
        self.resource, self.raw = {}, raw
        getattr(self, {"/v1/logs": "_logs", "/v1/traces": "_traces", "/v1/metrics": "_metrics",
                       "/loki/api/v1/push": "_loki", "/api/v1/write": "_write"}[path])()

    def _resources(self, message, outer, inner, leaf):
        for resource in decode(OTLP, message, self.raw)[outer]:
            self.resource = attributes(resource["resource"]["attributes"])
            self.schemas = {resource["schema_url"], *(scope["schema_url"]
                                                      for scope in resource[inner])}
            for scope in resource[inner]:
                yield from scope[leaf]

    def _logs(self):
        self.records = list(self._resources("LogsRequest", "resource_logs", "scope_logs",
                                            "log_records"))
        for record in self.records:
            record["attributes"] = attributes(record["attributes"])

    def _traces(self):
        self.spans = list(self._resources("TracesRequest", "resource_spans", "scope_spans",
                                          "spans"))
        for span in self.spans:
            span["attributes"] = attributes(span["attributes"])

    def _metrics(self):
        self.metrics = list(self._resources("MetricsRequest", "resource_metrics",
                                            "scope_metrics", "metrics"))

    def _loki(self):
        self.streams = decode(LOKI, "PushRequest", self.raw)["streams"]

    def _write(self):
        self.series = decode(PROMETHEUS, "WriteRequest", self.raw)["timeseries"]


def _of_content(name):
    return property(lambda request: getattr(request.content, name))


class Request:
    """One body, undone when somebody first looks into it: whoever sent it is answered no later for
    that, however slow this is."""
    records, spans, metrics = (_of_content(name) for name in ("records", "spans", "metrics"))
    streams, series, resource = (_of_content(name) for name in ("streams", "series", "resource"))

    def __init__(self, path, headers, body):
        self.path, self.headers, self.body, self.at = path, headers, body, time.monotonic()

    @functools.cached_property
    def raw(self):
        return gzip.decompress(self.body) if self.headers["Content-Encoding"] == "gzip" else \
            unsnappy(self.body)

    @functools.cached_property
    def content(self):
        return Content(self.path, self.raw)


class Answer:
    """What to say to one request. keep: whether it is stored; hang_s: before a word is said;
    drop: the connection is closed instead; cut: before the end of the body."""

    def __init__(self, status=200, body=b"", headers=(), keep=None, hang_s=0, drop=False,
                 cut=False):
        self.status, self.body, self.headers = status, body, dict(headers)
        self.keep = status // 100 == 2 if keep is None else keep
        self.hang_s, self.drop, self.cut = hang_s, drop, cut


def reserve_port():
    """A socket that keeps a port of 127.0.0.1 for whoever listens there with SO_REUSEADDR, as servers
    do: nobody else is given it, not even while nobody listens."""
    kept = socket.socket()
    kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    kept.bind(("127.0.0.1", 0))
    return kept


class Backend:
    """Listens on a port of its own. `answer`: from a Request to an Answer; `tls`: an SSLContext."""

    def __init__(self, answer=lambda request: Answer(), tls=None):
        self.answer, self.stored, self.seen, self.tls = answer, [], [], tls
        self.wrong = []         # what else went wrong
        self.lock, self.server = threading.Lock(), None
        self.reserved = reserve_port()
        self.port = self.reserved.getsockname()[1]
        self.start()

    def start(self):
        """Again at the same port, after stop()."""
        backend = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                backend._take(self)

            def log_message(self, *_):
                pass

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True
            allow_reuse_address = True
            connections = []

            def get_request(self):
                connection, address = super().get_request()
                if backend.tls:         # the handshake is its thread's, not the listener's
                    connection = backend.tls.wrap_socket(connection, server_side=True,
                                                         do_handshake_on_connect=False)
                self.connections.append(connection)
                return connection, address

            def handle_error(self, *_):
                pass            # the other side went, or we did

        Server.connections = []
        self.server = Server(("127.0.0.1", self.port), Handler)
        self.port = self.server.server_address[1]
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True)
        self.thread.start()

    def stop(self):
        """As if it was killed: its connections go at once."""
        self.server.shutdown()
        self.server.server_close()
        for connection in self.server.connections:
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
        self.thread.join()

    def _take(self, handler):
        body = handler.rfile.read(int(handler.headers["Content-Length"]))
        if len(body) < int(handler.headers["Content-Length"]):
            return              # it went, or stop() came, before the end: nobody has been asked anything
        request = Request(handler.path, handler.headers, body)
        with self.lock:
            answer = self.answer(request)
            self.seen.append(request)
            if answer.keep:
                self.stored.append(request)
        time.sleep(answer.hang_s)
        if answer.drop:
            handler.close_connection = True
            handler.connection.shutdown(socket.SHUT_RDWR)
            return
        handler.send_response(answer.status)
        for name, value in answer.headers.items():
            handler.send_header(name, value)
        handler.send_header("Content-Length", str(len(answer.body) + (100 if answer.cut else 0)))
        handler.end_headers()
        handler.wfile.write(answer.body)
        if answer.cut:
            handler.close_connection = True
            handler.connection.shutdown(socket.SHUT_RDWR)

    def url(self, kind):
        return f"--export={kind}:http{'s' if self.tls else ''}://127.0.0.1:{self.port}"

    @property
    def errors(self):
        """What is wrong with the bodies that came, and whatever else is."""
        with self.lock:
            errors, seen = list(self.wrong), list(self.seen)
        for request in seen:
            try:
                request.content
            except Exception as error:      # the test looks at it
                errors.append(repr(error))
        return errors

    # ---- What is stored

    def records(self):
        with self.lock:
            return [record for request in self.stored for record in request.records]

    def spans(self):
        with self.lock:
            return [span for request in self.stored for span in request.spans]

    def lines(self):
        """(labels, entry) of every line."""
        with self.lock:
            return [(stream["labels"], entry) for request in self.stored
                    for stream in request.streams for entry in stream["entries"]]
