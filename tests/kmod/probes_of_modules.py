"""A kernel module that has probes (tests/kmod/probed, by kmod/uapi/ringtail_probe.h) is loaded while the daemon runs:
its probes are listed as they are written, and recorded value by value; when it is unloaded, that is told, and when it
comes back, the same streams go on. Runs in the virtual machine of tests/kmod/run.sh."""
import os
import subprocess

import ringtail

MODULE = "/probed.ko"
TURNS = 500
PLACES = {
    "probed:integers": ("narrow, medium, wide, all, arg4, turn", "main.c", '"%hhd %hu %lld %llx %d of turn %u", '
                        "REC->narrow, REC->medium, REC->wide, REC->all, REC->arg4, REC->turn"),
    "probed:text": ("shown, bytes", "text.c", r'"%s of %u bytes\n", __get_str(shown), REC->bytes'),
    "probed:everywhere": ("arg0, data", "main.c", '"%u at %p", REC->arg0, REC->data'),
}


def load():
    subprocess.run(["insmod", MODULE], check=True)


def unload():
    subprocess.run(["rmmod", "probed"], check=True)


def pass_turns(turns):
    with open("/sys/module/probed/parameters/turns", "w") as file:
        file.write(str(turns))


def signed(value, bits):
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> bits - 1 else value


def integers(turn):
    return {"narrow": signed(turn * 37, 8), "medium": turn * 40503 & 0xffff, "wide": -turn * (1 << 33),
            "all": (1 << 64) - 1 - turn, "arg4": turn & 1, "turn": turn}


def text(turn):
    letters = turn % 201
    return {"shown": "(null)" if letters == 200 else chr(ord("a") + letters % 26) * min(letters, 128), "bytes": letters}


def lines_of(case, daemon):
    return case.tracectl(daemon, "list", "probed:*").out.splitlines()


def is_listed(case, daemon):
    """Each with its fields, place and format."""
    ringtail.wait_until(lambda: len(lines_of(case, daemon)) == 5, "the daemon lists the module's probes")
    lines = lines_of(case, daemon)
    for name, (fields, place, printed) in PLACES.items():
        found = [line for line in lines if line.startswith(f"{name}:event({fields}) at ")]
        case.check(len(found) == 1 and f"{place}:" in found[0] and found[0].endswith(printed),
                   f"{name} is listed", lines)


def values(case, events, expected):
    for turn, event in enumerate(events):
        if event["args"] != expected(turn % TURNS):
            case.check(False, "each event has the values that the module passed", turn, event, expected(turn % TURNS))
    case.say(f"ok: the values of {len(events)} events")


def main(case):
    # What interrupts the daemon on another CPU counts as its own.
    daemon = case.daemon("--ring-size=8MiB", "--trace-self")
    case.check_equal(lines_of(case, daemon), [], "nobody has brought such probes yet")
    load()
    is_listed(case, daemon)
    numbers = case.stream(daemon, "-p", "probed:integers", "-o", "json")
    texts = case.stream(daemon, "-p", "probed:text", "-o", "json", "-f", 'bytes > 100 && shown =~ "c*"')
    pass_turns(TURNS)
    numbers.await_all(TURNS)
    unload()
    ringtail.wait_until(lambda: "[module-gone]" in daemon.log, "the daemon says that the module is gone")
    case.check_equal(len(lines_of(case, daemon)), 5, "its probes stay known")
    load()
    ringtail.wait_until(lambda: "[module-back]" in daemon.log, "and that it is back")
    pass_turns(TURNS)
    numbers.await_all(2 * TURNS)
    case.check_balanced(daemon)
    done = numbers.interrupt()
    case.check_stream(done, events=2 * TURNS)
    values(case, done.lines, integers)
    wanted = [text(turn) for turn in range(TURNS) if text(turn)["bytes"] > 100 and text(turn)["shown"][0] == "c"]
    texts.await_all(2 * len(wanted))
    done = texts.interrupt()
    case.check_stream(done, events=2 * len(wanted))
    case.check_equal([event["args"] for event in done.lines], 2 * wanted,
                     "texts are whole, up to 128 bytes, and filtered")
    everywhere = case.stream(daemon, "-p", "probed:everywhere", "-p", "probed:went", "-o", "json")
    pass_turns(TURNS)
    unload()
    cpus = os.sysconf("SC_NPROCESSORS_ONLN")
    everywhere.await_all(TURNS * cpus + 1)
    done = everywhere.interrupt()
    case.check_stream(done, events=TURNS * cpus + 1)
    case.check_equal({event["args"]["arg0"] for event in done.lines if "arg0" in event["args"]}, set(range(cpus)),
                     "from interrupts of each CPU")
    case.check_equal([event["probe"] for event in done.lines][-1], "probed:went:event", "the last thing is its end")
    case.check_balanced(daemon)


ringtail.run(main)
