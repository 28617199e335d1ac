#!/usr/bin/env python3
"""torture: the long forms of the fault tests, one after another; see `make torture`.

Each scenario of LONG runs with RINGTAIL_LONG=1, as often as it says; then the simulation, with as many
seeds as there is time for, and two histories once for each allocation in them. The figures that the scenarios print are held to what docs/reliability.md
promises. The last lines are a table for that page.
"""
import argparse
import datetime
import os
import random
import re
import subprocess
import sys
import time

# Scenario, how often: killed_at_random kills 25 times each.
LONG = [("killed_at_random", 40), ("killed_at_every_call", 1), ("restart_keeps_rings", 1),
        ("disk_dies", 1), ("disk_full", 1), ("descriptors_exhausted", 1),
        ("crowd_of_nuisances", 1), ("half_open_peer", 3), ("slowloris", 1),
        ("reconnect_storm", 1), ("storm_of_strangers", 1), ("thousands_connected", 1),
        ("overload_tenfold", 1), ("programs_killed", 1), ("programs_by_the_thousand", 1)]
STORMED = ("stream", "status page", "unix socket")
# A figure's name, and what it may be.
BOUNDS = {
    "rate of the healthy client": lambda value: value >= 0.9,
    "memory of a client": lambda value: value <= 64,
    "drained after a tenfold overload": lambda value: value <= 2,
    "back after a kill, median": lambda value: value <= 1,
    "nobody read the rings, at most": lambda value: value < 1,
    "rings stuck": lambda value: value == 0,
    "memory of a program until it traces": lambda value: value <= 64,
    "discovery of a program, median": lambda value: value <= 10,
    **{f"stat answered {way} in a storm on the {door}, p99": lambda value: value <= 100
       for way in ("over TLS", "by unix socket") for door in STORMED},
    **{f"rate of the stream in a storm on the {door}": lambda value: value >= 0.9
       for door in STORMED},
}
TIMEOUT_S = 3600
ALLOCATION_SEEDS = "3..4"       # short histories, each run once for each of some thousand allocations


def run_one(build, name, seed):
    environment = {**os.environ, "RINGTAIL_BUILD": build, "RINGTAIL_LONG": "1",
                   "RINGTAIL_SEED": str(seed)}
    try:
        done = subprocess.run([sys.executable, f"tests/scenario/{name}.py"], env=environment,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              errors="replace", timeout=TIMEOUT_S)
        code, output = done.returncode, done.stdout
    except subprocess.TimeoutExpired as expired:
        code, output = 124, (expired.stdout or b"").decode(errors="replace")
    figures = re.findall(r"figure: (.*?): ([\d.]+) ?(.*)", output)
    return code, output, [(what, float(value), unit) for what, value, unit in figures]


def run_scenarios(options, rows):
    failed = False
    for name, times in LONG:
        if options.only and name not in options.only:
            continue
        times = max(int(times * options.part), 1)
        began, seen, wrong = time.monotonic(), {}, []
        seeds = [random.randrange(1 << 32) for _ in range(times)]
        if options.seed is not None:
            seeds = [options.seed + i for i in range(times)]
        for seed in seeds:
            code, output, figures = run_one(options.build, name, seed)
            for what, value, unit in figures:
                seen.setdefault((what, unit), []).append(value)
            bad = [f"{what} {value} {unit}" for what, value, unit in figures
                   if what in BOUNDS and not BOUNDS[what](value)]
            if code:
                print(output, flush=True)
                wrong.append(f"seed {seed}: " + ("skipped" if code == 77 else f"exit {code}"))
            if bad:
                wrong.append(f"seed {seed}: beyond its bound: {', '.join(bad)}")
        failed = failed or bool(wrong)
        text = "; ".join(f"{what} {say(values)} {unit}".strip()
                         for (what, unit), values in seen.items())
        rows.append((f"{name} x {times}" if times > 1 else name, f"seeds {seeds[0]}.." if times > 1
                     else f"seed {seeds[0]}", "; ".join(wrong) or "passed", text,
                     time.monotonic() - began))
        show(rows[-1])
    return failed


def say(values):
    low, high = min(values), max(values)
    if all(value.is_integer() for value in values):
        return f"{sum(values):.0f}"
    return f"{low:.3g}" if low == high else f"{low:.3g} to {high:.3g}"


def run_simulation(options, rows):
    failed = False
    per_kind = options.sim_seeds
    first = options.seed if options.seed is not None else random.randrange(1, 1 << 30)
    for words, seeds in (([], f"{first}..{first + per_kind - 1}"), (["--durable"], f"{first}..{first + per_kind - 1}"),
                         (["--allocations", "1"], ALLOCATION_SEEDS)):
        began = time.monotonic()
        done = subprocess.run([f"{options.build}/sim/sim", *words, "--seeds", seeds],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              errors="replace")
        if done.returncode:
            print(done.stdout[-4000:], flush=True)
            failed = True
        rows.append((" ".join(["simulation", *words]), f"seeds {seeds}",
                     "failed" if done.returncode else "passed",
                     f"histories {per_kind}" if words[:1] != ["--allocations"] else "each allocation fails once",
                     time.monotonic() - began))
        show(rows[-1])
    return failed


def show(row):
    print("| {} | {} | {} | {} | {:.0f} s |".format(*row), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default="build")
    parser.add_argument("--only", action="append", metavar="SCENARIO")
    parser.add_argument("--part", type=float, default=1, help="of how often each is run")
    parser.add_argument("--seed", type=int, help="instead of any")
    parser.add_argument("--sim-seeds", type=int, default=20000, metavar="N",
                        help="made-up histories to run, of each kind")
    options = parser.parse_args()
    rows = []
    print(f"torture, {datetime.date.today()}, {os.cpu_count()} CPUs, Linux {os.uname().release}\n\n"
          "| what | seed | result | figures | time |\n|---|---|---|---|---|", flush=True)
    failed = run_scenarios(options, rows)
    if not options.only:
        failed = run_simulation(options, rows) or failed
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
