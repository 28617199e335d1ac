"""The daemon is killed ten times under load: the kernel records on meanwhile, and what is missing is
what a gap in its place says: what the daemon had read and not sent."""
import ringtail
from lib.service_manager import Service

KILLS = 10
CALLS = 8000                  # around each


def twice(lines):
    """Events that came more than once: both places, and the line."""
    seen, found = {}, []
    for i, line in enumerate(lines):
        if "lost" in line:
            continue
        key = line["cpu"], line["seq"]
        if key in seen:
            found.append((seen[key], i, line))
        seen[key] = i
    return found


def main(case):
    service = Service(case, "--ring-size=32MiB")
    loads = [case.load(CALLS, comm=case.own_comm) for _ in range(KILLS)]
    stream = case.stream(service.daemon, "-p", "syscall:getppid:call", "-f",
                         f'comm == "{case.own_comm}"', "-o", "json")
    service.restart_under(stream, loads, kill=True)
    done = stream.interrupt()
    events = [line for line in done.lines if "lost" not in line]
    gaps = [line for line in done.lines if "lost" in line]
    lost = sum(gap["attempts"] for gap in gaps)
    again = twice(done.lines)
    missing = CALLS * KILLS - len(events)
    case.say(f"{missing} events are missing; {len(gaps)} gaps say that {lost} attempts may have "
             f"been lost")
    case.check(not again, "no event came twice", again, gaps)
    case.check(0 <= missing <= lost, "no more is missing than they say")
    case.check({gap["reason"] for gap in gaps} <= {"restart"}, "and they say why", gaps)
    case.check_equal(done.summary["ledger"], "balanced", "the client's ledger is balanced")
    comms = {event.get("comm") for event in events}
    case.check_equal(comms, {case.own_comm}, "every event has its thread's name")


ringtail.run(main)
