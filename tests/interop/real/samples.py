"""samples: what was pushed and what is stored, in one form: {(name, labels): {time in ms: value}}."""
import re

from lib.backend import attributes

NUMBERS = ("as_double", "sum", "count", "time_unix_nano")


def _series(name, labels):
    """Bounds are numbers, however they are written."""
    labels = {key: f"{float(value):.9g}" if key == "le" else value for key, value in labels.items()}
    return name, frozenset(labels.items())


def of_remote_write(request):
    found = {}
    for series in request.series:
        labels = {label["name"]: label["value"] for label in series["labels"]}
        sample = series["samples"][0]
        found[_series(labels.pop("__name__"), labels)] = \
            {sample["timestamp"]: sample.get("value", 0.0)}
    return found


def of_otlp(metrics):
    """As Prometheus would have them."""
    found = {}

    def add(name, labels, point, value):
        at = int(point["time_unix_nano"]) // 1_000_000
        found.setdefault(_series(name, labels), {})[at] = float(value)

    for metric in metrics:
        name = metric["name"]
        data = next(value for key, value in metric.items() if isinstance(value, dict))
        for point in data["data_points"]:
            labels = attributes(point.get("attributes", []))
            if "bucket_counts" not in point:
                add(name, labels, point, point.get("as_double", 0))
                continue
            total = 0
            for bound, count in zip([*point["explicit_bounds"], "+Inf"], point["bucket_counts"]):
                total += int(count)
                add(f"{name}_bucket", {**labels, "le": bound}, point, total)
            add(f"{name}_count", labels, point, point["count"] if "count" in point else 0)
            add(f"{name}_sum", labels, point, point.get("sum", 0))
    return found


def of_request(request):
    return of_otlp(request.metrics) if request.metrics else of_remote_write(request)


def snake(value):
    """OTLP's JSON with the names of its protobuf."""
    if isinstance(value, dict):
        return {re.sub(r"[A-Z]", lambda letter: "_" + letter[0].lower(), key): snake(inner)
                for key, inner in value.items()}
    return [snake(inner) for inner in value] if isinstance(value, list) else value


def of_server(server):
    """What is stored; the labels that the server makes of the resource left out."""
    if server.program == "otelcol":
        return of_otlp(snake(server.events()))
    found = {}
    for labels, values in server.samples().items():
        labels = {key: value for key, value in labels if "." not in key}
        found.setdefault(_series(labels.pop("__name__"), labels), {}).update(values)
    return found


def merge(parts):
    whole = {}
    for part in parts:
        for series, values in part.items():
            whole.setdefault(series, {}).update(values)
    return whole


def until(whole, last):
    """Of these samples, those up to a time."""
    cut = {series: {at: value for at, value in values.items() if at <= last}
           for series, values in whole.items()}
    return {series: values for series, values in cut.items() if values}
