"""A start that fails at one of its parts takes back all before it: no socket and no process is left."""
import glob
import os
import socket

import ringtail

# Which part fails, and how; what it says. In the order in which parts are started.
FAILING = [
    ("targets", ["--export=otlp-logs:http://127.0.0.1:9", "--export-ca=/nonexistent"], "export-ca"),
    ("metering", ["--http=127.0.0.1:{taken}"], "listen-in-use"),
    ("loader", ["--source=replay:/nonexistent"], "recording-unreadable"),
    ("rights", ["--state-dir=/proc/none"], "state-dir"),
    ("gate", ["--viewer=user:no-such-user-here"], "rule-nobody"),
    ("workers", ["--http=127.0.0.1:0", "--metrics-probe=none:*"], "unknown-probe"),
    ("control", ["--probe=none:*"], "unknown-probe"),
    ("exports", ["--export=otlp-logs:http://127.0.0.1:9", "--export-filter=zzz == 1"],
     "filter-unknown-name"),
]


def left_of(config):
    """Processes that were started with that configuration: engine or loader."""
    left = []
    for path in glob.glob("/proc/[0-9]*/cmdline"):
        try:
            with open(path, "rb") as words:
                if config.encode() in words.read():
                    left.append(path)
        except OSError:
            pass            # it has ended meanwhile
    return left


def main(case):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        taken = other.getsockname()[1]
        for part, options, code in FAILING:
            options = [words.format(taken=taken) for words in options]
            if not any(words.startswith("--source") for words in options):
                options.append("--source=bpf")
            daemon = case.start_daemon(*options)
            daemon.ended = True
            done = daemon.wait()
            if "[bpf-no" in done.err:
                raise ringtail.Skip("no tracing here: what is started later is not reached")
            case.check(done.code == 1 and f"[{code}]" in done.err, f"{part}: exit 1, and why",
                       done.code, done.err)
            case.check("[ready]" not in done.err, f"{part}: it never was ready", done.err)
            case.check_equal(glob.glob(f"{case.path('run')}/*.sock"), [], f"{part}: no socket is left")
            # The finder is the loader's child: it ends when the loader has, and nobody waits for that.
            ringtail.wait_until(lambda: not left_of(case.path(f"{daemon.name}.conf")), f"{part}: no process is left")
    case.check_balanced(case.daemon())


ringtail.run(main)
