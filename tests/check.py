#!/usr/bin/env python3
"""check: builds every variant and runs every test, as many at a time as keep all CPUs busy (tools/pool.py);
see `make check`.

A test is a program: exit 0 passed, 77 skipped (its last line says why), anything else failed. A
cmocka program counts each of its cases; one that it skips is a skip too, and so is one of unittest's. What
failed is shown at once, those lines first that tell (tools/outcome.py), and named once more at the end, a line
each that says why; all output is kept in BUILD/check/. The last line is `N passed, N failed, N skipped`.

Scenarios are real daemons with real deadlines, beside each other and beside what works. One that exits with
LATE found nothing wrong but that something was "not within N s", its ledgers included: it runs once
more, alone; so does a virtual machine, with only those of its cases that were late. What fails alone too
has failed; what does not is called unstable, shown with what it said, named at the end, and noted in a
history outside BUILD (tools/history.py). The last lines say of each test in it how often it was unstable.
Nothing else is excused, and no more than UNSTABLE_MAX tests are.
"""
import argparse
import glob
import os
import re
import resource
import subprocess
import sys
import threading
import time

sys.path.insert(1, os.path.join(os.path.dirname(os.path.abspath(__file__)), "tools"))

import history  # noqa: E402
import outcome  # noqa: E402
from pool import ALONE, CASES, MACHINE, SLEEPS, WAITS, WORKS, Pool  # noqa: E402
from yardstick import Yardstick  # noqa: E402

# As the Makefile's head says to people (tests/unit/check/documented_builds_test.py).
ASAN = "-fsanitize=address,undefined"
TSAN = "-fsanitize=thread"
FUZZ = "-fsanitize=address,undefined,fuzzer-no-link"
# Where each variant is built, below the build directory, and with what.
VARIANTS = {
    "all": ["."],
    "ASan and UBSan": ["asan", f"SANITIZE={ASAN}"],
    "TSan": ["tsan", f"SANITIZE={TSAN}"],
    "fuzzers": ["fuzz", "CC=clang", f"SANITIZE={FUZZ}"],
}
SANITIZER_ENV = {
    "ASAN_OPTIONS": "detect_leaks=1:abort_on_error=0:exitcode=99",
    "UBSAN_OPTIONS": "print_stacktrace=1",
    "TSAN_OPTIONS": "halt_on_error=1:exitcode=98",
}
# What allocates 1 MiB again and again: to clear its shadow takes less than to map it anew, with all its page faults.
SANITIZER_ENV_REPEATS = {**SANITIZER_ENV,
                         "ASAN_OPTIONS": SANITIZER_ENV["ASAN_OPTIONS"] + ":clear_shadow_mmap_threshold=1048576"}
CPUS = os.cpu_count() or 2
OUTPUT_LINES_SHOWN = 120
UNSTABLE_MAX = 3
ALONE_NAME = " (alone)"
LATE = 75               # tests/scenario/ringtail.py: nothing wrong but the time
NO_EXCUSE = re.compile(r"Sanitizer|runtime error:|[Aa]ssert|Segmentation fault")
COST = "tests/cost.txt"
COST_SLACK = 1.25       # what a machine may differ from the one that COST was measured on
BUILD_TIMEOUT_S = 1800
TIMEOUT_S = 300
ASAN_SIM_SEEDS = 100
ASAN_FEWER = {"RINGTAIL_FEWER": "10"}   # calls of a BPF test: in each the sanitizer sees the same code of ours
KMOD_TIMEOUT_S = 1500
COVERAGE_TIMEOUT_S = 900        # a build of its own, and 400 histories
KERNEL_TIMEOUT_S = 3000         # a download, and guest.sh's own time, which is longest for arm64
SERVER_BUILD_TIMEOUT_S = 1500
INTEROP_TIMEOUT_S = 600
SYSTEMD_TIMEOUT_S = 900
PACKAGES_TIMEOUT_S = 600
TIDY_TIMEOUT_S = 2400           # half a second for each file; far more on a machine that has much else to do
CONTAINER_TIMEOUT_S = 900       # five minutes on a machine that has much else to do
FRESH_TIMEOUT_S = 3600          # twenty minutes on a machine that has much else to do
TRACEPOINTS_TIMEOUT_S = 1500    # four minutes on a machine that has much else to do
FLEET_TIMEOUT_S = 600          # five minutes, and Kafka's jars the first time
BINDINGS_TIMEOUT_S = 900        # half a minute; more the first time, when Go builds its library
STRACE_TIMEOUT_S = 120          # a quarter of a minute
OTHERS_TIMEOUT_S = 1500         # a quarter of a minute; the first time Redis is built
FUZZ_RUNS_TIMEOUT_S = 4 * 3600
FUZZ_EXIT = 99    # libFuzzer's own is 77, which is a skip here
# Inputs that are longer say nothing new, and take their time; the others have seeds to go by.
FUZZ_BYTES = {"client": 512, "export_answer": 512, "http_request": 512, "identity": 1024,
              "loader_message": 512, "request": 512, "ring": 512, "segment": 2048, "state_files": 512}

# Scenarios whose threads meet in every way that matters: these also run under TSan.
TSAN_SCENARIOS = ["exact_four_processes", "overload", "shutdown_delivers_all",
                  "union_of_subscriptions", "resume_at_cursor", "reload", "durable_consumer",
                  "export_counts", "metrics_exact", "restart_keeps_rings"]
# Scenarios that take in all that the machine does: nothing runs beside them.
SCENARIOS_ALONE = ["idle_is_quiet", "metrics_exact", "metrics_bounds", "export_defaults"]
# Scenarios of which ASan would learn nothing: the work is another program's, the daemon is only
# started, all is a matter of kills, after which nobody looks at its memory, or of time that passes, of how
# fast it is, or of how much memory it takes, which is another amount there. Where the work is a browser's, Python's, or the
# kernel's, whose counts are held against ftrace's, the daemon does what it does in other scenarios.
NOT_UNDER_ASAN = ["grafana_queries", "status_page", "protoc_decodes", "strace_agrees",
                  "shipped_capture", "network_namespaces",
                  "half_configured", "no_bpf", "no_btf", "idle_is_quiet", "port_in_use",
                  "socket_in_use", "stale_socket", "restart_other_source",
                  "killed_at_random", "killed_at_every_call", "restart_after_kill", "killed_daemon",
                  "restart_matrix_fsync", "restart_matrix_memory", "restart_matrix_written",
                  "spool_orphans", "silence", "overload_tenfold", "hostile_daemon_memory", "memory_max",
                  "spool_survives_kill", "process_page", "programs_in_python", "timers_of_any_rate",
                  "programs_by_the_thousand", "programs_of_viewers", "programs_waited_for",
                  "tracepoints_beside_ftrace", "uprobes_beside_ftrace",
                  "functions_beside_ftrace", "preempted_in_programs", "tracepoints_inside_programs",
                  "fleet_flood", "fleet_two_relays", "slowloris", "spool_policies", "storm_of_strangers"]
# Unit tests that let time pass, for seconds, and do next to nothing.
UNITS_THAT_SLEEP = ["daemon/test_fanout_memory", "daemon/test_control", "daemon/test_watchdog", "daemon/test_worker",
                    "daemon/test_worker_bells", "daemon/test_worker_unfinished", "daemon/test_programs",
                    "client/test_ringtail_connect", "client/test_tracectl", "courier/test_courier", "courier/test_producer",
                    "courier/test_stale"]
# Unit tests that make one call many thousand times: ASan has seen it in others.
UNITS_NOT_UNDER_ASAN = ["daemon/test_config_typos"]
# Whose kernels run the BPF source in a virtual machine: this machine's newest in /boot, and those of other
# suites of Debian.
KERNELS = {"this suite": [], "Debian trixie": ["trixie,bookworm-backports"]}
# And those that `make check-kernels` runs besides, for docs/kernels.md.
KERNELS_MORE = {"Debian sid": ["sid"], "this suite on arm64": ["--arch", "arm64"],
                "Debian trixie on arm64": ["trixie,bookworm-backports", "--arch", "arm64"],
                "Debian sid on arm64": ["sid", "--arch", "arm64"]}
# The module under this suite's own is a part of `make check`.
KERNELS_OF_MODULE = {name: suite for name, suite in {**KERNELS, **KERNELS_MORE}.items() if suite}
# tests/interop/servers.py; two take ten minutes each to build, so that is left to `make interop`.
SERVERS = ["victoria-logs", "victoria-metrics", "jaeger", "otelcol", "prometheus-3", "loki"]
SERVERS_IF_KEPT = {"prometheus-3", "loki"}
NO_INTEROP_CASES = {"run", "servers"}
# About how long the long ones take, in seconds: the longest go first, and builds before all.
SECONDS = {r"build .*": 1000, "kernel module in qemu": 200, "units in qemu": 170, "(asan )?sim .*": 100,
           r".*scenario (hostile_daemon_memory|spool_orphans|silence|slowloris)": 40,
           r".*scenario (restart_matrix_.*|since_goes_on_live|read_damaged_spool|killed_at_random)": 15,
           r".*unit daemon/test_(fanout_memory|config_typos|spool_faults|control|ring_note)": 20,
           r".*unit courier/test_(courier|producer)": 16,
           r".*unit (courier/test_runs|daemon/test_(counting|disk_sink|spool_told)|.*/probe_header_test.py)": 8,
           "spin model.*": 16, "fuzz .*": 5}
SECONDS_ELSE = 4
# Programs small and central enough to be worth valgrind's patience.
VALGRIND_UNITS = ["proto/test_batch", "proto/test_frame", "daemon/test_ring_reader",
                  "daemon/test_ring_room", "daemon/test_ring_damage", "daemon/test_stream",
                  "client/test_merge"]


class Job:
    """One program to run. `weight`, `after`: see tools/pool.py. `again`: if it is late beside others, it runs
    alone; `only`: the variable that tells it which of its cases to run, so that only those that were late
    run again. `when`: asked before it starts; when it says no, it is not there."""

    part = None

    def __init__(self, name, command, env=None, timeout=TIMEOUT_S, weight=WORKS, again=False, only=None,
                 after=None, when=None):
        self.name, self.command, self.env = name, command, env or {}
        self.timeout, self.weight, self.again, self.only = timeout, weight, again, only
        self.after, self.when = after, when
        self.seconds = next((seconds for pattern, seconds in SECONDS.items()
                             if re.fullmatch(pattern, name)), SECONDS_ELSE)

    def repeated(self, output):
        """The job that runs again what was late."""
        late = outcome.late(output) if self.only else []
        env = {self.only: ",".join(late)} if late and "guest" not in late else {}
        job = Job(self.name + ALONE_NAME, self.command, {**self.env, **env}, self.timeout, ALONE)
        job.part = self.part
        return job


class Results:
    def __init__(self, directory):
        self.directory = directory
        self.lock = threading.Lock()
        self.passed, self.failed, self.skipped, self.unstable = 0, [], [], []
        self.to_repeat = []
        self.reasons = {}       # of each that failed: a line each
        self.begun, self.parts = time.monotonic(), {}

    def path(self, name):
        """Where a job's output goes."""
        return os.path.join(self.directory, re.sub(r"[^\w.-]+", "_", name) + ".log")

    def add(self, name, passed, failed, skip_reason, time_taken, output):
        with self.lock:
            self.passed += passed
            word = "ok"
            if failed:
                self.failed += [name] * failed
                word = "FAIL"
            elif skip_reason is not None:
                self.skipped.append((name, skip_reason))
                word = "skip"
            count = f" ({passed} cases)" if passed > 1 else ""
            print(f"  {word:4} {name}{count} {time_taken}", flush=True)
            if skip_reason is not None:
                print(f"       {skip_reason}", flush=True)
            if failed:
                self.reasons[name] = outcome.reasons(output)
                self.show(name, output)

    def add_skipped_cases(self, name, output):
        with self.lock:
            for case, reason in outcome.skipped_cases(output).items():
                self.skipped.append((f"{name}: {case}", reason))
                print(f"  skip {name}: {case}: {reason}", flush=True)

    def show(self, name, output):
        lines = outcome.excerpt(output, OUTPUT_LINES_SHOWN)
        print("\n".join("       | " + line for line in lines), flush=True)
        print(f"       whole output: {self.path(name)}", flush=True)

    def failed_lines(self):
        """Each failure in a line: the job, the case and why."""
        return [f"{name}: {reason}" for name in dict.fromkeys(self.failed)
                for reason in self.reasons.get(name, ["skipped, which is not allowed here"])]

    def count_time(self, part, began, cpu):
        """A part's first beginning, last end, and CPU."""
        with self.lock:
            first, _, spent = self.parts.get(part, (began, 0, 0))
            self.parts[part] = min(first, began), time.monotonic(), spent + cpu

    def part_lines(self):
        return [f"  {part}: CPU {cpu:.0f} s, from {first - self.begun:.0f} s to {last - self.begun:.0f} s"
                for part, (first, last, cpu) in self.parts.items()]

    def unstable_lines(self, parts):
        """Notes this run in the history; what the history says of each test that was unstable."""
        names = [job.name.removesuffix(ALONE_NAME) for job in self.unstable]
        runs = history.add(parts, dict(zip(names, (job.part for job in self.unstable))))
        return history.unstable_lines(runs)

    def excuse(self, job, status, output, time_taken):
        """Whether its failure is left open until it has run alone."""
        with self.lock:
            if (not job.again or status != LATE or NO_EXCUSE.search(output) or
                    len(self.unstable) + len(self.to_repeat) >= UNSTABLE_MAX):
                return False
            self.to_repeat.append(job.repeated(output))
            self.passed += outcome.passed(output) if job.only else 0
            print(f"  ???? {job.name} {time_taken}: it will run again, alone", flush=True)
            self.show(job.name, output)
            return True


def run_program(command, env, timeout, path):
    """Its exit status (124: it had to be killed), its output, and the CPU seconds that it took."""
    late = threading.Event()
    with open(path, "wb") as log:
        process = subprocess.Popen(command, env={**os.environ, **env}, stdin=subprocess.DEVNULL,
                                   stdout=log, stderr=subprocess.STDOUT)

    def end():
        late.set()
        process.kill()

    timer = threading.Timer(timeout, end)
    timer.start()
    _, status, used = os.wait4(process.pid, 0)
    timer.cancel()
    process.returncode = os.waitstatus_to_exitcode(status)
    with open(path, errors="replace") as log:
        output = log.read()
    cpu = used.ru_utime + used.ru_stime
    if late.is_set():
        return 124, output + f"\nno end after {timeout} s\n", cpu
    return process.returncode, output, cpu


def run_job(job, results):
    began = time.monotonic()
    if job.when and not job.when():
        return True
    status, output, cpu = run_program(job.command, job.env, job.timeout, results.path(job.name))
    results.count_time(job.part, began, cpu)
    time_taken = f"{time.monotonic() - began:.1f} s (CPU {cpu:.1f} s)"
    cases, broken = outcome.passed(output), outcome.failed(output)
    reason = None
    if status == 77:
        cases, reason = 0, (output.strip().splitlines() or ["no reason given"])[-1]
    elif status != 0:
        broken = max(broken, 1)
    else:
        cases = max(cases, 1)
    if broken and results.excuse(job, status, output, time_taken):
        return False
    results.add(job.name, cases, broken, reason, time_taken, output)
    results.add_skipped_cases(job.name, output)
    return not broken


def run_jobs(jobs, results, yardstick=None):
    def execute(job):
        if yardstick and job.weight == WORKS:
            yardstick.measure_if_due()
        return run_job(job, results)

    Pool(jobs, execute, CPUS).run()
    to_repeat, results.to_repeat = results.to_repeat, []
    for job in to_repeat:
        if run_job(job, results):
            results.unstable.append(job)


class Builds:
    """What has to be built for the parts that were asked for: each variant once, with all that any part wants
    of it."""

    def __init__(self, build):
        self.build, self.jobs, self.targets = build, {}, {}

    def directory(self, variant):
        return os.path.join(self.build, VARIANTS[variant][0])

    def job(self, variant, *targets):
        if variant not in self.jobs:
            self.jobs[variant] = Job(f"build {variant}", [], timeout=BUILD_TIMEOUT_S)
        wanted = self.targets.setdefault(variant, [])
        wanted += [target for target in targets if target not in wanted]
        self.jobs[variant].command = ["make", "--no-print-directory", f"-j{CPUS}", *wanted,
                                      f"BUILD={os.path.normpath(self.directory(variant))}",
                                      *VARIANTS[variant][1:]]
        return self.jobs[variant]

    def in_order(self):
        """One after the other: each keeps all CPUs busy, or what the tests leave of them."""
        before = None
        for job in self.jobs.values():
            job.part, job.after, before = "builds", before, job
        return list(self.jobs.values())


def programs(build, kind, prefix, after, env=None, weight=WORKS):
    """A job for each program of tests/KIND."""
    env = {"TRACECTL": f"{build}/tracectl", **(env or {})}
    jobs = []
    for source in sorted(glob.glob(f"tests/{kind}/**/*.c", recursive=True)):
        name = os.path.relpath(source, f"tests/{kind}")[:-len(".c")]
        if kind == "stress" or os.path.basename(name).startswith("test_"):
            jobs.append(Job(f"{prefix} {name}", [f"{build}/{kind}/{name}"], env, after=after,
                            weight=SLEEPS if kind == "unit" and name in UNITS_THAT_SLEEP else weight))
    return jobs


def scenario_names():
    return sorted(os.path.basename(path)[:-3] for path in glob.glob("tests/scenario/*.py")
                  if os.path.basename(path) != "ringtail.py")


def scenarios(build, prefix, names, after, env=None):
    absent = set(names) - set(scenario_names())
    assert not absent, f"no such scenario: {absent}"
    return [Job(f"{prefix} {name}", [sys.executable, f"tests/scenario/{name}.py"],
                {"RINGTAIL_BUILD": build, **(env or {})}, after=after,
                weight=ALONE if name in SCENARIOS_ALONE else WAITS, again=name not in SCENARIOS_ALONE)
            for name in names]


# ---- The parts: each returns its jobs, and tells `builds` what they need ------------------------

def check_arrows(options, builds):
    pages = sorted(glob.glob("docs/*.[1-8]"))
    return [Job("arrows between rooms", [sys.executable, ".ci/arrows.py"]),
            *(Job(f"man page {page}", ["mandoc", "-T", "lint", "-W", "warning", page])
              for page in pages)]


def words_for(path):
    """unittest names the cases that it skips only where it is told to name all."""
    with open(path) as file:
        return ["-v"] if "unittest.main(" in file.read() else []


def check_unit(options, builds):
    built = builds.job("all", "all", "tests")
    return [*programs(options.build, "unit", "unit", built, weight=CASES),
            *(Job(f"unit {path}", [sys.executable, path, *words_for(path)], {"RINGTAIL_BUILD": options.build}, after=built)
              for path in sorted(glob.glob("tests/unit/*/*_test.py"))),
            Job("arrows between objects", [sys.executable, ".ci/arrows.py", "--objects", options.build],
                after=built)]


def check_bpf(options, builds):
    return programs(options.build, "bpf", "bpf", builds.job("all", "all", "tests"), weight=ALONE)


def check_scenario(options, builds):
    return scenarios(options.build, "scenario", scenario_names(), builds.job("all", "all"))


def check_asan(options, builds):
    build, built = builds.directory("ASan and UBSan"), builds.job("ASan and UBSan", "all", "tests")
    names = [name for name in scenario_names() if name not in NOT_UNDER_ASAN]
    units = programs(build, "unit", "asan unit", built, SANITIZER_ENV_REPEATS, CASES)
    skipped = [f"asan unit {name}" for name in UNITS_NOT_UNDER_ASAN]
    return [*(job for job in units if job.name not in skipped),
            *programs(build, "bpf", "asan bpf", built, {**SANITIZER_ENV, **ASAN_FEWER}, ALONE),
            *simulations(build, "asan sim", ASAN_SIM_SEEDS, built, SANITIZER_ENV_REPEATS, brief=True),
            *scenarios(build, "asan scenario", names, built, SANITIZER_ENV)]


def check_stress(options, builds):
    build = builds.directory("TSan")
    pump = f"{build}/unit/client/test_pump"       # a thread for each host
    made = [os.path.join(build, name) for name in ("ringtaild", "tracectl", "tools/load")]
    built = builds.job("TSan", *made, "stress", pump)
    return [Job("tsan unit client/test_pump", [pump], SANITIZER_ENV, after=built),
            *programs(build, "stress", "tsan stress", built, SANITIZER_ENV, ALONE),
            *scenarios(build, "tsan scenario", TSAN_SCENARIOS, built, SANITIZER_ENV)]


def simulations(build, prefix, seeds, after, env=None, brief=False):
    """The same number of seeds for each CPU; and a short history once for the first, second, fourth, ... allocation
    of each place in the code (`make torture` lets each fail); `brief`: for the first, which is what a sanitizer can
    tell apart."""
    share = max(seeds // CPUS, 1)
    jobs = [Job(f"{prefix} seeds {first}..{first + share - 1}",
                [sys.executable, "tests/sim/sim_test.py", f"{build}/sim/sim", str(first),
                 str(first + share - 1), *["--no-faults"] * brief], env, timeout=600, after=after)
            for first in range(1, seeds, share)]
    return jobs + [Job(f"{prefix} allocations",
                       [f"{build}/sim/sim", "--allocations", "1", "--seed", "3", "--places" if brief else "--sparse"], env,
                       timeout=600, after=after),
                   # The disk lost a watermark that should have told of skips. A seed that no longer
                   # comes to that fails: look for another.
                   Job(f"{prefix} durable, a watermark that tells of skips is owed",
                       [f"{build}/sim/sim", "--durable", "--seed", "20", "--expect",
                        "an owed watermark that tells of skips is made up for"], env, after=after)]


def check_sim(options, builds):
    return simulations(options.build, "sim", options.sim_seeds,
                       builds.job("all", os.path.join(options.build, "sim/sim")))


def check_coverage(options, builds):
    """What the simulation never enters is what its list says, each with its reason."""
    return [Job("what the simulation never enters", ["make", "--no-print-directory", "sim-coverage"],
                timeout=COVERAGE_TIMEOUT_S)]


def check_model(options, builds):
    return [Job("spin model of the ring", ["sh", "tests/model/run.sh"]),
            Job("memory order on Arm", [sys.executable, "tests/model/arm.py"])]


def check_valgrind(options, builds):
    built = builds.job("all", "all", "tests", os.path.join(options.build, "bench/drain"))
    return [Job("instructions an event", [sys.executable, "tests/instructions.py", options.build],
                after=built),
            *(Job(f"valgrind {name}",
                  ["valgrind", "-q", "--error-exitcode=97", "--leak-check=full",
                   f"{options.build}/unit/{name}"], after=built)
              for name in VALGRIND_UNITS)]


def check_fuzz(options, builds):
    build, built = builds.directory("fuzzers"), builds.job("fuzzers", "fuzzers")
    if options.fuzz_runs:
        bound, limit = f"-runs={options.fuzz_runs}", FUZZ_RUNS_TIMEOUT_S
        said = f"{options.fuzz_runs} runs"
    else:
        # It counts whole seconds, and ends when there are more of them than that.
        bound, limit = f"-max_total_time={max(options.fuzz_seconds - 1, 1)}", options.fuzz_seconds + 120
        said = f"{options.fuzz_seconds} s"
    jobs = []
    for source in sorted(glob.glob("tests/fuzz/fuzz_*.c")):
        name = os.path.basename(source)[len("fuzz_"):-len(".c")]
        found = f"{build}/corpus/{name}"
        os.makedirs(found, exist_ok=True)
        seeds = f"tests/fuzz/corpus/{name}"
        jobs.append(Job(f"fuzz {name} {said}",
                        [f"{build}/bin/fuzz_{name}", bound, "-timeout=10", "-rss_limit_mb=2048",
                         f"-error_exitcode={FUZZ_EXIT}",
                         f"-artifact_prefix={build}/{name}-"]
                        + ([f"-max_len={FUZZ_BYTES[name]}"] if name in FUZZ_BYTES else [])
                        + [found] + ([seeds] if os.path.isdir(seeds) else []),
                        timeout=limit, after=built))
    return jobs


def check_kmod(options, builds):
    return [Job("kernel module in qemu", ["sh", "tests/kmod/run.sh", options.build],
                timeout=KMOD_TIMEOUT_S, weight=MACHINE, again=True, only="RT_RUN", after=builds.job("all", "all"))]


def check_systemd(options, builds):
    return [Job("units in qemu", ["sh", "tests/systemd/run.sh", options.build],
                timeout=SYSTEMD_TIMEOUT_S, weight=MACHINE, again=True, only="RT_RUN", after=builds.job("all", "all"))]


def check_guests(options, builds):
    return check_kmod(options, builds) + check_systemd(options, builds)


def check_packages(options, builds):
    """Without ccache, which would hide what differs from build to build."""
    built, scratch = f"{options.build}/packages", f"{options.build}/packages-test"
    packages = Job("packages build", ["sh", ".ci/deb.sh", built], {"CCACHE_DISABLE": "1"},
                   timeout=PACKAGES_TIMEOUT_S, after=builds.job("all", "all"))
    return [packages,
            Job("packages in qemu", ["sh", "tests/systemd/run.sh", options.build, built],
                timeout=SYSTEMD_TIMEOUT_S, again=True, after=packages),
            Job("packages are the same elsewhere",
                ["sh", "tests/packages/same_elsewhere.sh", built, f"{scratch}/elsewhere"],
                timeout=PACKAGES_TIMEOUT_S, after=packages),
            Job("a release", [sys.executable, "tests/packages/dist_test.py", f"{scratch}/dist"],
                after=packages),
            *(Job(f"kubernetes {name}", [sys.executable, "tests/packages/kubernetes.py", name], timeout=PACKAGES_TIMEOUT_S)
              for name in ("validate", "kustomize")),
            Job("packages in a container", [sys.executable, "tests/packages/container.py", built],
                {"RINGTAIL_BUILD": options.build, "RINGTAIL_LONG": "1"}, timeout=CONTAINER_TIMEOUT_S, again=True,
                after=packages),
            Job("packages hold what they are to",
                [sys.executable, "tests/packages/contents.py", built, f"{scratch}/contents"],
                timeout=PACKAGES_TIMEOUT_S, after=packages)]


def check_tidy(options, builds):
    """clang-tidy over all files: what it finds is mended, or its check left out of .clang-tidy with the reason."""
    return [Job("clang-tidy", ["make", "--no-print-directory", "tidy"], timeout=TIDY_TIMEOUT_S,
                after=builds.job("all", "all"))]


def check_fresh(options, builds):
    """A machine with Debian's base alone, on which nothing is built yet: that takes its time."""
    return [Job("a fresh machine", ["sh", "tests/packages/fresh.sh", f"{options.build}/fresh"], timeout=FRESH_TIMEOUT_S)]


def check_wireshark(options, builds):
    return [Job("tshark reads the wire", [sys.executable, "tests/wireshark/wireshark_test.py", options.build],
                after=builds.job("all", "all"))]


def kernel_jobs(options, builds, what, kernels, *words):
    """One after the other: limits of time hold in a guest, too."""
    return [Job(f"{what} of {name} in qemu",
                [sys.executable, "tests/kernels/run.py", options.build, *suite, *words], timeout=KERNEL_TIMEOUT_S,
                weight=ALONE, again=True, only="RT_RUN", after=builds.job("all", "all", "tests"))
            for name, suite in kernels.items()]


def check_kernels(options, builds):
    """The BPF source under other kernels, and what another processor's compiler says."""
    compiles = Job("compile for arm64", [sys.executable, "tests/kernels/arm64_compiles.py"],
                   after=builds.job("all", "all", "compile_commands.json"))
    return [compiles, *kernel_jobs(options, builds, "kernel", KERNELS)]


def check_every_kernel(options, builds):
    return (kernel_jobs(options, builds, "kernel", {**KERNELS, **KERNELS_MORE}) +
            kernel_jobs(options, builds, "kernel module", KERNELS_OF_MODULE, "--module"))


def check_backends(options, builds):
    """What real servers have stored. Those that cannot be had are skips of their own, and the cases do
    without them; with none of them there are no cases."""
    built = builds.job("all", "all")
    directory = os.path.join(options.build, "interop")
    cases = sorted(os.path.basename(path)[:-3] for path in glob.glob("tests/interop/*.py"))

    def any_server():
        return any(os.access(os.path.join(directory, name), os.X_OK) for name in SERVERS)

    # What is alone runs in this order: all servers are there, or cannot be had, when the first case begins.
    return [*(Job(f"server {name}", [sys.executable, "tests/interop/servers.py", name, directory]
                  + (["--kept"] if name in SERVERS_IF_KEPT else []),
                  timeout=SERVER_BUILD_TIMEOUT_S, weight=ALONE, after=built) for name in SERVERS),
            *(Job(f"interop {name}", [sys.executable, f"tests/interop/{name}.py"],
                  {"RINGTAIL_BUILD": options.build, "RINGTAIL_INTEROP": directory},
                  timeout=INTEROP_TIMEOUT_S, weight=ALONE, again=True, after=built, when=any_server)
              for name in cases if name not in NO_INTEROP_CASES)]


def check_tracepoints(options, builds):
    """All tracepoints of this kernel, each beside ftrace: alone, because their counts are of a whole machine."""
    return [Job("every tracepoint", [sys.executable, "tests/tracepoints/every.py"],
                {"RINGTAIL_BUILD": options.build}, timeout=TRACEPOINTS_TIMEOUT_S, weight=ALONE, again=True,
                after=builds.job("all", "all"))]


def check_fleet(options, builds):
    """Real brokers that fail, which Maven Central has; and the demo."""
    built = builds.job("all", "all")
    return [Job(f"fleet {name}", [sys.executable, f"tests/fleet/{name}.py"],
                {"RINGTAIL_BUILD": options.build, "RINGTAIL_LONG": "1"}, timeout=FLEET_TIMEOUT_S, weight=ALONE,
                again=True, after=built) for name in ("kafka_faults", "demo")]


def check_bindings(options, builds):
    """Programs in other languages, whose compilers are large; readers in two of them; and Go's reader of profiles."""
    return [Job(f"bindings {name}", [sys.executable, f"tests/bindings/programs_in_{name}.py"],
                {"RINGTAIL_BUILD": options.build}, timeout=BINDINGS_TIMEOUT_S, weight=WAITS, again=True,
                after=builds.job("all", "all"))
            for name in ("go", "rust")] + [
                Job("bindings readers", [sys.executable, "tests/bindings/readers.py"], {"RINGTAIL_BUILD": options.build},
                    timeout=BINDINGS_TIMEOUT_S, weight=WAITS, again=True, after=builds.job("all", "all")),
                Job("bindings go tool pprof reads a profile", [sys.executable, "tests/scenario/read_as_profile.py"],
                    {"RINGTAIL_BUILD": options.build, "RINGTAIL_LONG": "1"}, timeout=BINDINGS_TIMEOUT_S,
                    weight=WAITS, again=True, after=builds.job("all", "all"))]


def check_others(options, builds):
    """Programs by somebody else: with marks that they have, and with probes that a patch puts into them."""
    return [Job(f"others {name}", [sys.executable, f"tests/others/{name}.py"], {"RINGTAIL_BUILD": options.build},
                timeout=OTHERS_TIMEOUT_S, weight=WAITS, again=True, after=builds.job("all", "all"))
            for name in ("jvm", "postgres", "redis")]


def check_strace(options, builds):
    """What takes its time: strace and ringtail beside each other on forty programs."""
    return [Job(f"strace {name}", [sys.executable, f"tests/scenario/{name}_as_strace.py"],
                {"RINGTAIL_BUILD": options.build, "RINGTAIL_LONG": "1"}, timeout=STRACE_TIMEOUT_S, weight=WAITS,
                again=True, after=builds.job("all", "all"))
            for name in ("arguments", "structures", "descriptors")]


def cpu_seconds():
    """Of all programs that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def check_cost(results, spent, yardstick):
    """The whole check costs no more CPU than COST allows, counted in yardsticks, for hosts differ.

    The yardstick does not even that out: the same tree cost 2,631 on one quiet machine and 2,904 on another.
    """
    with open(COST) as file:
        allowed = float(file.read().split()[-1])
    cost = spent / yardstick.seconds()
    said = f"the check cost {cost:.0f} yardsticks of CPU; {COST} says {allowed:.0f}"
    results.add("cost of the check", int(cost <= COST_SLACK * allowed), int(cost > COST_SLACK * allowed), None, said,
                f"{said}. Find what grew, or change {COST} and say why.")


PARTS = {
    "arrows": check_arrows,
    "unit": check_unit,
    "bpf": check_bpf,
    "sim": check_sim,
    "scenario": check_scenario,
    "asan": check_asan,
    "stress": check_stress,
    "model": check_model,
    "valgrind": check_valgrind,
    "fuzz": check_fuzz,
    "guests": check_guests,
}
# What takes the network, to download what it runs, or a build of its own: --more.
PARTS_MORE = {"coverage": check_coverage, "tidy": check_tidy, "packages": check_packages, "wireshark": check_wireshark,
              "kernels": check_kernels, "backends": check_backends, "fleet": check_fleet,
              "bindings": check_bindings, "others": check_others, "strace": check_strace}
# What can also be asked for alone.
PARTS_OF_PARTS = {"every_kernel": check_every_kernel, "kmod": check_kmod, "systemd": check_systemd,
                  "tracepoints": check_tracepoints, "fresh": check_fresh}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default="build")
    parts = {**PARTS, **PARTS_MORE, **PARTS_OF_PARTS}
    parser.add_argument("--only", choices=parts, action="append")
    parser.add_argument("--more", action="store_true", help="the parts that take the network")
    parser.add_argument("--fuzz-seconds", type=int, default=5, help="for each fuzzer")
    parser.add_argument("--fuzz-runs", type=int, metavar="N", help="instead: of each fuzzer")
    parser.add_argument("--sim-seeds", type=int, default=800, metavar="N",
                        help="made-up histories to run, of each kind")
    parser.add_argument("--cost", action="store_true",
                        help=f"fail if it costs a tenth more CPU than {COST} says")
    parser.add_argument("--allow-skip", action="append", default=None, metavar="NAME",
                        help="a test that may be skipped; given once, any other skip is a failure")
    parser.add_argument("--allow-skips-of", metavar="FILE",
                        help="a file of such names, a line each, with the reason after #")
    options = parser.parse_args()
    if options.allow_skips_of:
        with open(options.allow_skips_of) as file:
            names = [line.partition("#")[0].strip() for line in file]
        options.allow_skip = (options.allow_skip or []) + [name for name in names if name]
    directory = os.path.join(options.build, "check")
    os.makedirs(directory, exist_ok=True)
    results = Results(directory)
    begin = time.monotonic()
    builds, jobs = Builds(options.build), []
    for part in options.only or (PARTS_MORE if options.more else PARTS):
        for job in parts[part](options, builds):
            job.part = part
            jobs.append(job)
    yardstick = Yardstick() if options.cost else None
    run_jobs([*builds.in_order(), *jobs], results, yardstick)
    if options.allow_skip is not None:
        for name, reason in list(results.skipped):
            if name not in options.allow_skip:
                print(f"  FAIL {name}: skipped, which is not allowed here: {reason}")
                results.failed.append(name)
                results.skipped.remove((name, reason))
    if options.cost:
        check_cost(results, cpu_seconds(), yardstick)
    print("\n".join(results.part_lines()))
    print(f"in {time.monotonic() - begin:.0f} s (CPU {cpu_seconds():.0f} s)" +
          f", {len(results.unstable)} unstable" +
          "".join(f"\nunstable: {job.name}" for job in results.unstable) +
          "".join(f"\nunstable over time: {line}" for line in results.unstable_lines(results.parts)) +
          "".join(f"\nfailed: {line}" for line in results.failed_lines()))
    print(f"{results.passed} passed, {len(results.failed)} failed, {len(results.skipped)} skipped")
    sys.exit(1 if results.failed or not results.passed else 0)


if __name__ == "__main__":
    main()
