#!/usr/bin/env python3
"""dashboards: writes grafana/dashboards/*.json from the tables below; --check tells if they are stale.

A dashboard is rows of panels; a panel is a title, a kind, a unit, and queries with their legends. What
is the same in every panel stands here once. `RATE` is the window that Grafana chooses for the zoom.

They import into any Grafana as they are: which data source to ask is a variable, whose first value is
what the import asks for (`__inputs`), or, where they are provisioned, the default one of its type.
"""
import json
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = {"type": "prometheus", "uid": "${datasource}"}
LOGS = {"type": "loki", "uid": "${logs}"}
# variable: its label, the plugin, and what an import asks for it; of traces it asks for nothing, since who
# has none could not import
SOURCES = {"datasource": ("metrics from", "prometheus", "Prometheus", "DS_PROMETHEUS"),
           "logs": ("events from", "loki", "Loki", "DS_LOKI"),
           "traces": ("traces from", "jaeger", "Jaeger", None)}
RATE = "$__rate_interval"
HOSTS = 'job=~"$job", instance=~"$instance"'
CALLS = 'job=~"$job", instance=~"$instance", syscall=~"$syscall"'
SELF = "ringtail_collector_"


def rate(metric, labels=HOSTS):
    return f"rate({metric}{{{labels}}}[{RATE}])"


def quantile(q, histogram, labels=HOSTS, by=""):
    by = f"le, {by}" if by else "le"
    return f"histogram_quantile({q}, sum by ({by}) ({rate(histogram + '_bucket', labels)}))"


def quantiles(histogram, labels=HOSTS):
    return [(quantile(q, histogram, labels), name)
            for q, name in ((0.5, "half of them"), (0.95, "95 %"), (0.99, "99 %"))]


# ---- Panels: (title, kind, unit, width of 24, height, queries, what it tells) ------------------

DURATION = "ringtail_syscall_duration_seconds"
OVERVIEW = [
    [("System calls", "stat", "ops", 4, 4,
      [(f"sum({rate('ringtail_syscalls_total', CALLS)})", "")],
      "Calls each second, of all processes but the collector."),
     ("Failed", "stat", "percentunit", 4, 4,
      [(f"sum({rate('ringtail_syscall_errors_total', CALLS)}) / "
        f"sum({rate('ringtail_syscalls_total', CALLS)})", "")],
      "The share of calls that returned an error. Many programs probe, so it is never 0."),
     ("99 % are done in", "stat", "s", 4, 4, [(quantile(0.99, DURATION, CALLS), "")],
      "Waiting calls (poll, futex) count too: choose some calls above."),
     ("Lost", "stat", "short", 4, 4,
      [(f"sum(increase({SELF}ring_lost_total{{{HOSTS}}}[$__range]))", "")],
      "Attempts that left no record, in the time shown. Anything but 0 has its place in the stream."),
     ("Ledger's residual", "stat", "short", 4, 4,
      [(f"sum(abs({SELF}ring_residual{{{HOSTS}}}))", "")], "Anything but 0 is a bug."),
     ("Collector", "stat", "percentunit", 4, 4,
      [(f"sum({rate(SELF + 'cpu_seconds_total')})", "")], "CPU that the collector takes; 100 % is one.")],
    [("Calls by name", "timeseries", "ops", 12, 9,
      [(f"topk(10, sum by (syscall) ({rate('ringtail_syscalls_total', CALLS)}))", "{{syscall}}")],
      "The ten most frequent."),
     ("Errors", "timeseries", "ops", 12, 9,
      [(f"topk(10, sum by (syscall, errno) ({rate('ringtail_syscall_errors_total', CALLS)}))",
        "{{syscall}} {{errno}}")], "The ten most frequent pairs of call and errno.")],
    [("Durations", "heatmap", "s", 12, 10,
      [(f"sum by (le) ({rate(DURATION + '_bucket', CALLS)})", "{{le}}")],
      "How many calls took how long. Each bound is twice the one before."),
     ("Duration of all calls", "timeseries", "s", 12, 10, quantiles(DURATION, CALLS),
      "Within how long so many of the calls are done.")],
    [("Slowest calls", "timeseries", "s", 12, 9,
      [(f"topk(10, {quantile(0.99, DURATION, CALLS, 'syscall')})", "{{syscall}}")],
      "99 % of the calls of that name are done within this."),
     ("Time spent in calls", "timeseries", "s", 12, 9,
      [(f"topk(10, sum by (syscall) ({rate(DURATION + '_sum', CALLS)}))", "{{syscall}}")],
      "Seconds in each second, summed over all threads, waiting included.")],
    [("Calls", "table", "short", 24, 9,
      [(f"sum by (syscall) ({rate('ringtail_syscalls_total', CALLS)})", "calls each second", "ops"),
       (f"sum by (syscall) ({rate(DURATION + '_sum', CALLS)}) / "
        f"sum by (syscall) ({rate(DURATION + '_count', CALLS)})", "mean duration", "s"),
       (f"sum by (syscall) ({rate('ringtail_syscall_errors_total', CALLS)})", "errors each second",
        "ops")],
      "One row for each call.")],
]

LATENCY, OFFCPU = "ringtail_sched_latency_seconds", "ringtail_offcpu_seconds"
SCHEDULER = [
    [("Woken, but not yet running", "heatmap", "s", 12, 10,
      [(f"sum by (le) ({rate(LATENCY + '_bucket')})", "{{le}}")],
      "Scheduler latency: from a thread's wakeup until it runs."),
     ("Scheduler latency", "timeseries", "s", 12, 10, quantiles(LATENCY),
      "Within how long so many of the woken threads run.")],
    [("Off the CPU", "timeseries", "s", 12, 9,
      [(quantile(0.95, OFFCPU, by="reason"), "{{reason}}")],
      "95 % of the threads that left a CPU for that reason are back within this."),
     ("Why threads leave the CPU", "timeseries", "ops", 12, 9,
      [(f"sum by (reason) ({rate(OFFCPU + '_count')})", "{{reason}}")],
      "Preempted: it would have gone on. Blocked: it waits and cannot be interrupted.")],
    [("Preempted", "heatmap", "s", 12, 10,
      [(f"sum by (le) (rate({OFFCPU}_bucket{{{HOSTS}, reason=\"preempted\"}}[{RATE}]))", "{{le}}")],
      "How long threads that could run had to wait for another."),
     ("Switches and wakeups", "timeseries", "ops", 12, 10,
      [(f"sum by (instance) ({rate('ringtail_context_switches_total')})", "switches, {{instance}}"),
       (f"sum by (instance) ({rate('ringtail_wakeups_total')})", "wakeups, {{instance}}")],
      "All CPUs together.")],
]

PROCESSES = [
    [("Programs started", "stat", "ops", 8, 4, [(f"sum({rate('ringtail_execs_total')})", "")],
      "execve, each second."),
     ("Threads and processes begun", "stat", "ops", 8, 4,
      [(f"sum({rate('ringtail_forks_total')})", "")], "fork and clone, each second."),
     ("Ended", "stat", "ops", 8, 4, [(f"sum({rate('ringtail_exits_total')})", "")],
      "Threads count as processes do.")],
    [("Coming and going", "timeseries", "ops", 24, 8,
      [(f"sum by (instance) ({rate('ringtail_forks_total')})", "begun, {{instance}}"),
       (f"sum by (instance) ({rate('ringtail_execs_total')})", "started, {{instance}}"),
       (f"sum by (instance) ({rate('ringtail_exits_total')})", "ended, {{instance}}")],
      "A saw-tooth of short-lived processes is often a shell script in a loop.")],
    [("CPU by name", "timeseries", "percentunit", 12, 9,
      [(f"topk(10, sum by (comm) ({rate('ringtail_comm_cpu_seconds_total')}))", "{{comm}}")],
      "Needs `metrics-comm = yes` in ringtaild.conf; 100 % is one CPU."),
     ("Calls by name", "timeseries", "ops", 12, 9,
      [(f"topk(10, sum by (comm) ({rate('ringtail_comm_syscalls_total')}))", "{{comm}}")],
      "Needs `metrics-comm = yes` in ringtaild.conf.")],
]


def own(name, labels=HOSTS):
    return f"{SELF}{name}{{{labels}}}"


COLLECTOR = [
    [("Produced", "timeseries", "ops", 8, 8,
      [(f"sum by (instance, cpu) ({rate(SELF + 'ring_attempts_total')})", "{{instance}} cpu {{cpu}}")],
      "Attempts to write a record. attempts = events + meta + lost + in flight."),
     ("Lost", "timeseries", "ops", 8, 8,
      [(f"sum by (stage, reason) ({rate(SELF + 'ring_lost_total')})", "{{stage}} {{reason}}")],
      "By where and why. Each has its place in the stream."),
     ("Residuals", "timeseries", "short", 8, 8,
      [(f"sum by (instance) (abs({own('ring_residual')}))", "rings, {{instance}}"),
       (f"sum by (instance) (abs({own('clients_residual')}))", "clients, {{instance}}")],
      "What is left of the ledgers. Anything but 0 is a bug.")],
    [("How full the rings are", "timeseries", "percentunit", 8, 8,
      [(f"max by (instance) ({own('ring_used_bytes')} / {own('ring_size_bytes')})", "{{instance}}")],
      "The fullest ring of each host. Near 100 % events are lost: give it more `ring-size`."),
     ("Cost", "timeseries", "percentunit", 8, 8,
      [(f"sum by (instance) ({rate(SELF + 'cpu_seconds_total')})", "{{instance}}")],
      "CPU of the collector; 100 % is one."),
     ("Cost of a record", "timeseries", "s", 8, 8,
      [(own("cpu_per_record_seconds"), "{{instance}}")], "CPU time for each record drained.")],
    [("Clients", "timeseries", "short", 8, 8, [(own("clients"), "{{instance}}")], "Connected now."),
     ("Waiting for slow clients", "timeseries", "bytes", 8, 8,
      [(own("clients_queue_bytes"), "{{instance}}")], "What is sent to them costs nobody else."),
     ("To clients", "timeseries", "Bps", 8, 8,
      [(f"sum by (instance) ({rate(SELF + 'bytes_sent_total')})", "{{instance}}")],
      "Bytes on the wire.")],
    [("Memory", "timeseries", "bytes", 8, 8,
      [(own("resident_memory_bytes"), "{{instance}}")], "Resident, rings not counted."),
     ("Wakeups", "timeseries", "ops", 8, 8,
      [(f"sum by (instance) ({rate(SELF + 'bells_total')})", "by a ring, {{instance}}"),
       (f"sum by (instance) ({rate(SELF + 'ticks_total')})", "by the timer, {{instance}}")],
      "A ring asks when it is half full; the timer comes each batch interval."),
     ("Worst-case loss", "timeseries", "s", 8, 8,
      [(own("loss_window_seconds"), "{{instance}}")], "What a crash would cost at most.")],
    [("On disk", "timeseries", "bytes", 8, 8,
      [(f"sum by (instance, spool) ({own('spool_size_bytes')})", "{{instance}} {{spool}}")],
      "The spools. Needs `durability` other than memory."),
     ("Kept for consumers", "timeseries", "bytes", 8, 8,
      [(f"sum by (instance, consumer) ({own('consumer_behind_bytes')})",
        "{{instance}} {{consumer}}")],
      "What durable consumers, and back ends with a spool behind them, have not acknowledged. At"
      " `spool-size` it is lost, or what comes is."),
     ("Not taken by back ends", "timeseries", "ops", 8, 8,
      [(f"sum by (destination, reason) ({rate(SELF + 'export_lost_total')})",
        "{{destination}} {{reason}}"),
       (f"sum by (destination) ({rate(SELF + 'export_accepted_total')})",
        "{{destination}} accepted")], "Needs an `export`.")],
    [("State of back ends", "timeseries", "bool", 8, 8,
      [(f"{own('export_state')} == 1", "{{instance}} {{destination}} {{state}}")],
      "held: it refuses whoever sends; `tracectl stat` has its answer. Needs an `export`."),
     ("Since a back end accepted", "timeseries", "s", 8, 8,
      [(f"time() - ({own('export_last_accepted_timestamp_seconds')} > 0)",
        "{{instance}} {{destination}}")],
      "It means little where nothing waits."),
     ("Waiting for back ends", "timeseries", "short", 8, 8,
      [(own("export_in_flight"), "{{instance}} {{destination}}")],
      "Events, and points of metrics, in memory. What is on disk is under \"Kept for consumers\".")],
]

EVENTS = '{service="ringtail", class=~"$class", host=~"$host"}'
LOG = [
    [("Events", "timeseries", "ops", 24, 7,
      [(f"sum by (class) (rate({EVENTS}[$__auto]))", "{{class}}")],
      "What the daemon exports: slow calls, errors that matter, execs, exits that failed.")],
    [("Log", "logs", "none", 24, 18, [(EVENTS, "")],
      "A slow call has a trace: the link is in the details of its line.")],
]

# Where a panel turns red: what is beyond it has an alert, or should not be.
RED = {"Lost": 1, "Ledger's residual": 1, "Residuals": 1, "How full the rings are": 0.8,
       "Worst-case loss": 60, "Since a back end accepted": 600, "Collector": 0.5, "Cost": 0.5,
       "Failed": 0.5}

DASHBOARDS = {
    "overview": ("Kernel: overview", OVERVIEW, True),
    "scheduler": ("Kernel: scheduler", SCHEDULER, False),
    "processes": ("Kernel: processes", PROCESSES, False),
    "collector": ("ringtail: the collector", COLLECTOR, False),
    "events": ("Kernel: events", LOG, False),
}


# ---- JSON ---------------------------------------------------------------------------------------

def target(number, kind, source, query):
    expr, legend = query[:2]
    one = {"refId": chr(ord("A") + number), "datasource": source, "expr": expr,
           "legendFormat": legend or "__auto"}
    if source is LOGS:
        one.update(queryType="range", editorMode="code")
        return one
    if kind == "heatmap":
        one["format"] = "heatmap"
    if kind == "table":
        one.update(format="table", instant=True)
    one["exemplar"] = kind == "timeseries" and "histogram_quantile" in expr
    return one


def options_of(kind):
    if kind == "stat":
        return {"colorMode": "value", "graphMode": "area", "textMode": "value",
                "reduceOptions": {"calcs": ["lastNotNull"]}}
    if kind == "heatmap":
        return {"calculate": False, "yAxis": {"unit": "s"}, "cellGap": 1,
                "color": {"mode": "scheme", "scheme": "Turbo", "steps": 64},
                "tooltip": {"mode": "single"}}
    if kind == "table":
        return {"showHeader": True}
    if kind == "logs":
        return {"showTime": True, "wrapLogMessage": False, "enableLogDetails": True,
                "sortOrder": "Descending", "dedupStrategy": "none", "prettifyLogMessage": False}
    return {"legend": {"displayMode": "table", "placement": "right", "calcs": ["lastNotNull"]},
            "tooltip": {"mode": "multi", "sort": "desc"}}


def merge_table(queries):
    names = {f"Value #{chr(ord('A') + i)}": query[1] for i, query in enumerate(queries)}
    return [{"id": "merge", "options": {}},
            {"id": "organize", "options": {"excludeByName": {"Time": True}, "renameByName": names}}]


def defaults_of(title, kind, unit):
    steps = [{"color": "green", "value": None}]
    if title in RED:
        steps.append({"color": "red", "value": RED[title]})
    defaults = {"unit": unit, "thresholds": {"mode": "absolute", "steps": steps}}
    if kind != "logs":
        defaults["min"] = 0
    if kind == "timeseries":
        defaults["custom"] = {"thresholdsStyle": {"mode": "line" if title in RED else "off"}}
    return defaults


def override(column, *properties):
    return {"matcher": {"id": "byName", "options": column},
            "properties": [{"id": name, "value": value} for name, value in properties]}


TRACE_LINK = {"title": "its trace", "url": "", "internal": {
    "datasourceUid": "${traces}", "datasourceName": "", "query": {"query": "${__value.raw}"}}}


def overrides_of(kind, queries):
    if kind == "logs":
        return [override("trace_id", ("links", [TRACE_LINK]))]
    return [override(legend, ("unit", unit)) for _, legend, unit in
            (query for query in queries if len(query) == 3)]


def panel(number, x, y, row, source):
    title, kind, unit, width, height, queries, tells = row
    one = {"id": number, "title": title, "type": kind, "description": tells, "datasource": source,
           "gridPos": {"x": x, "y": y, "w": width, "h": height},
           "fieldConfig": {"defaults": defaults_of(title, kind, unit),
                           "overrides": overrides_of(kind, queries)},
           "options": options_of(kind),
           "targets": [target(i, kind, source, query) for i, query in enumerate(queries)]}
    if kind == "table":
        one["transformations"] = merge_table(queries)
    if kind == "logs":      # so that a link can be put to a name in them
        one["transformations"] = [{"id": "extractFields",
                                   "options": {"source": "labels", "format": "json"}}]
    return one


def source_variable(name):
    label, plugin, _, asked = SOURCES[name]
    current = {"current": {"text": f"${{{asked}}}", "value": f"${{{asked}}}"}} if asked else {}
    return {"name": name, "label": label, "type": "datasource", "query": plugin, "refresh": 1,
            "regex": "", "multi": False, "includeAll": False,
            "options": [], **current}


def variable(name, label, query, source):
    return {"name": name, "label": label, "type": "query", "datasource": source, "query": query,
            "refresh": 2, "multi": True, "includeAll": True, "allValue": ".*",
            "current": {"text": ["All"], "value": ["$__all"]}}


def label_of_logs(label):
    return {"label": label, "stream": '{service="ringtail"}', "type": 1, "refId": label}


def variables_of(source, by_call):
    if source is LOGS:
        return [source_variable("logs"), source_variable("traces"),
                variable("host", "host", label_of_logs("host"), source),
                variable("class", "class", label_of_logs("class"), source)]
    variables = [source_variable("datasource"),
                 variable("job", "job", "label_values(ringtail_collector_build_info, job)", source),
                 variable("instance", "host",
                          'label_values(ringtail_collector_build_info{job=~"$job"}, instance)',
                          source)]
    if by_call:
        variables.append(variable("syscall", "call", "label_values(ringtail_syscalls_total{"
                                  'job=~"$job", instance=~"$instance"}, syscall)', source))
    return variables


def inputs_of(variables):
    return [{"name": asked, "label": title, "description": f"the {title} that ringtail's data is in",
             "type": "datasource", "pluginId": plugin, "pluginName": title}
            for _, plugin, title, asked in (SOURCES[one["name"]] for one in variables
                                            if one["type"] == "datasource") if asked]


def requires_of(panels, inputs):
    return [{"type": "grafana", "id": "grafana", "name": "Grafana", "version": "10.0.0"}] + \
        [{"type": "datasource", "id": one["pluginId"], "name": one["pluginName"],
          "version": "1.0.0"} for one in inputs] + \
        [{"type": "panel", "id": kind, "name": kind, "version": ""}
         for kind in sorted({one["type"] for one in panels})]


def dashboard(name):
    title, rows, by_call = DASHBOARDS[name]
    source = LOGS if rows is LOG else SOURCE
    panels, y = [], 0
    for row in rows:
        x = 0
        for one in row:
            panels.append(panel(len(panels) + 1, x, y, one, source))
            x += one[3]
        y += max(one[4] for one in row)
    variables = variables_of(source, by_call)
    inputs = inputs_of(variables)
    return {"__inputs": inputs, "__requires": requires_of(panels, inputs), "id": None,
            "uid": f"ringtail-{name}", "title": title, "tags": ["ringtail", "kernel"],
            "schemaVersion": 39, "editable": True, "graphTooltip": 1, "refresh": "10s",
            "time": {"from": "now-15m", "to": "now"}, "templating": {"list": variables},
            "links": [{"type": "dashboards", "tags": ["ringtail"], "title": "ringtail",
                       "icon": "external link", "tooltip": "", "asDropdown": True, "keepTime": True, "includeVars": True,
                       "targetBlank": False}],
            "panels": panels}


def main():
    stale = 0
    for name in DASHBOARDS:
        path = os.path.join(HERE, "dashboards", f"{name}.json")
        text = json.dumps(dashboard(name), indent=1) + "\n"
        if "--check" in sys.argv:
            with open(path) as file:
                if file.read() != text:
                    print(f"{path} is not what grafana/dashboards.py makes: run it")
                    stale = 1
        else:
            with open(path, "w") as file:
                file.write(text)
    sys.exit(stale)


if __name__ == "__main__":
    main()
