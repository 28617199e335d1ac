#!/usr/bin/env python3
"""dashboards: writes grafana/dashboards/*.json from the tables below; --check tells if they are stale.

A dashboard is rows of panels; a panel is a title, a kind, a unit, and queries with their legends. What
is the same in every panel stands here once. `RATE` is the window that Grafana chooses for the zoom.
"""
import json
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = {"type": "prometheus", "uid": "ringtail-prometheus"}
RATE = "$__rate_interval"
HOSTS = 'instance=~"$instance"'
CALLS = 'instance=~"$instance", syscall=~"$syscall"'
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
      [(f"sum by (syscall) ({rate('ringtail_syscalls_total', CALLS)})", "calls each second"),
       (f"sum by (syscall) ({rate(DURATION + '_sum', CALLS)}) / "
        f"sum by (syscall) ({rate(DURATION + '_count', CALLS)})", "mean duration"),
       (f"sum by (syscall) ({rate('ringtail_syscall_errors_total', CALLS)})", "errors each second")],
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
]

DASHBOARDS = {
    "overview": ("Kernel: overview", OVERVIEW, True),
    "scheduler": ("Kernel: scheduler", SCHEDULER, False),
    "processes": ("Kernel: processes", PROCESSES, False),
    "collector": ("ringtail: the collector", COLLECTOR, False),
}


# ---- JSON ---------------------------------------------------------------------------------------

def target(number, kind, query):
    expr, legend = query
    one = {"refId": chr(ord("A") + number), "datasource": SOURCE, "expr": expr,
           "legendFormat": legend or "__auto"}
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
    return {"legend": {"displayMode": "table", "placement": "right", "calcs": ["lastNotNull"]},
            "tooltip": {"mode": "multi", "sort": "desc"}}


def merge_table(queries):
    names = {f"Value #{chr(ord('A') + i)}": legend for i, (_, legend) in enumerate(queries)}
    return [{"id": "merge", "options": {}},
            {"id": "organize", "options": {"excludeByName": {"Time": True}, "renameByName": names}}]


def panel(number, x, y, row):
    title, kind, unit, width, height, queries, tells = row
    one = {"id": number, "title": title, "type": kind, "description": tells, "datasource": SOURCE,
           "gridPos": {"x": x, "y": y, "w": width, "h": height},
           "fieldConfig": {"defaults": {"unit": unit, "min": 0}, "overrides": []},
           "options": options_of(kind),
           "targets": [target(i, kind, query) for i, query in enumerate(queries)]}
    if kind == "table":
        one["transformations"] = merge_table(queries)
    return one


def variable(name, label, query):
    return {"name": name, "label": label, "type": "query", "datasource": SOURCE, "query": query,
            "refresh": 2, "multi": True, "includeAll": True, "allValue": ".*",
            "current": {"text": ["All"], "value": ["$__all"]}}


def dashboard(name):
    title, rows, by_call = DASHBOARDS[name]
    panels, y = [], 0
    for row in rows:
        x = 0
        for one in row:
            panels.append(panel(len(panels) + 1, x, y, one))
            x += one[3]
        y += max(one[4] for one in row)
    variables = [variable("instance", "host", "label_values(ringtail_collector_build_info, instance)")]
    if by_call:
        variables.append(variable("syscall", "call",
                                  'label_values(ringtail_syscalls_total{instance=~"$instance"}, syscall)'))
    return {"uid": f"ringtail-{name}", "title": title, "tags": ["ringtail", "kernel"],
            "schemaVersion": 39, "editable": True, "graphTooltip": 1, "refresh": "10s",
            "time": {"from": "now-15m", "to": "now"}, "templating": {"list": variables},
            "links": [{"type": "dashboards", "tags": ["ringtail"], "title": "ringtail",
                       "asDropdown": True}],
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
