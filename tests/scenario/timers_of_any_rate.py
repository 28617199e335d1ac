"""profile:hz:N, interval:hz|ms|s:N and counters take any N within bounds: as often as asked, with their own name, also
beside others and live; what is out of bounds, unknown, or one too many is refused with the remedy."""
import re

import ringtail

RATES = (7, 250, 1000)
CHANCE = 4                      # standard deviations of a number of ticks that nothing keeps in step
PERIODS = 10
TIMERS_MAX = 32                 # RT_TIMERS_MAX of kmod/uapi/ringtail.h


def samples(case, daemon):
    """A busy thread is sampled N times a second of the CPU time that it had."""
    streams = [case.stream(daemon, "-o", "json", "-p", f"profile:hz:{rate}", "-f", f'comm == "{case.own_comm}"')
               for rate in RATES]
    burn = case.write("burn.py", "import time\nopen('/proc/self/comm', 'w').write('" + case.own_comm + "')\n"
                      "while time.process_time() < 1.5: pass\nprint(time.process_time())\n")
    done = case.start("python3", burn).wait()
    cpu_s = float(done.out)
    case.await_rings_empty(daemon)
    for rate, stream in zip(RATES, streams):
        stream.await_all()
        lines = [line for line in stream.interrupt().lines if "probe" in line]
        case.check_equal({line["probe"] for line in lines}, {f"profile:hz:{rate}"}, f"{rate} Hz has its own name")
        periods = sum(line["args"]["periods"] for line in lines)
        # A thread that waited for its CPU missed ticks, whose number the next of the CPU says. One that has a CPU
        # now and then only is met by chance: the fewer ticks there are, the more it may come to.
        ticks = rate * cpu_s
        case.check(len(lines) <= ticks * 1.5 + CHANCE * ticks**0.5 and
                   periods >= max(ticks * 0.5 - CHANCE * ticks**0.5, 1),
                   f"{len(lines)} samples, {periods} periods at {rate} Hz in {cpu_s:.2f} s")


def ticks(case, daemon):
    for name, seconds in (("hz:20", 0.05), ("ms:70", 0.07)):
        done = case.tracectl(daemon, "stream", "-p", f"interval:{name}", "-n", str(PERIODS), "-o", "json")
        times = [line["time"] for line in done.lines]
        periods = sum(line["args"]["periods"] for line in done.lines[1:])
        # The first or the last may be late, by less than would make it one more.
        case.check(periods >= PERIODS - 1 and abs((times[-1] - times[0]) / 1e9 - periods * seconds) < seconds * 1.1,
                   f"interval:{name} comes every {seconds} s", done.lines)


def refused(case, daemon):
    for spec, code in (("profile:hz:0", "timer-out-of-range"), ("profile:hz:10001", "timer-out-of-range"),
                       ("profile:hz:099", "timer-out-of-range"), ("profile:hz:1x", "timer-out-of-range"),
                       ("profile:hz:99999999999999999999", "timer-out-of-range"), ("profile:khz:1", "unknown-probe"),
                       ("interval:hz:1001", "timer-out-of-range"), ("interval:us:5", "unknown-probe"),
                       ("hardware:cycles:999", "timer-out-of-range"), ("software:page-fault:3", "unknown-probe"),
                       ("profile:*:98", "unknown-probe")):
        done = case.tracectl(daemon, "stream", "-p", spec, "-n", "1")
        if done.code != 1 and done.code != 2 or f"[{code}]" not in done.err:
            case.check(False, f"{spec} is refused", done.code, done.err)
    case.check(True, "what is out of bounds or unknown is refused")
    done = case.tracectl(daemon, "stream", "-p", "software:page-fault:3", "-n", "1")
    case.check("page-faults" in done.err, "and the nearest name is offered", done.err)


def crowded(case, daemon):
    """No more than there are slots at once; but one after the other, any number."""
    specs = [f"interval:ms:{40 + i}" for i in range(TIMERS_MAX)]
    done = case.tracectl(daemon, "stream", *(word for spec in specs for word in ("-p", spec)), "-n", "1")
    case.check(done.code == 1 and "[too-many-timers]" in done.err, "one too many is refused", done.err)
    for i in range(0, TIMERS_MAX, 8):
        done = case.tracectl(daemon, "stream", *(word for spec in specs[i:i + 8] for word in ("-p", spec)), "-n", "8",
                             "-o", "json")
        case.check_equal(done.code, 0, f"{i + 8} one after the other are not", done.err)


def main(case):
    daemon = case.daemon()
    listed = case.tracectl(daemon, "list", "profile:*").out
    case.check(re.search(r"^profile:hz:99\(", listed, re.M), "one of the rates is listed", listed)
    samples(case, daemon)
    ticks(case, daemon)
    faults = case.stream(daemon, "-p", "software:page-faults:10", "-o", "json")
    case.start("python3", "-c", "x = bytearray(1 << 20)").wait()
    faults.await_all(5)
    lines = faults.interrupt().lines
    case.check(all(line["probe"] == "software:page-faults:10" for line in lines if "probe" in line) and len(lines) >= 5,
               "so do counters")
    refused(case, daemon)
    crowded(case, daemon)
    ringtail.wait_until(lambda: not daemon.recording(), "when nobody wants any, none is left")
    case.check_balanced(daemon)


ringtail.run(main)
