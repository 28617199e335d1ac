"""Tiny rings and a stopped engine: what does not fit is lost, counted, and told in its place."""
import re
import signal

import ringtail

CALLS = 200_000
ROUNDS = 2


def main(case):
    daemon = case.daemon("--ring-size=16KiB")
    loads = [case.load(CALLS, cpus=[0]) for _ in range(ROUNDS)]
    few = case.load(10, cpus=[0])
    pids = [pid for load in [*loads, few] for pid in load.pids]
    words = ["-p", "syscall:getppid:call", "-f", f"pid in ({', '.join(map(str, pids))})"]
    streams = {form: case.stream(daemon, *words, "-o", form) for form in ("json", "text", "none")}
    for load in loads:
        daemon.signal(signal.SIGSTOP)
        load.run()
        daemon.signal(signal.SIGCONT)
        case.await_rings_empty(daemon)      # else the next one's thread finds no room to be introduced
    few.run()                   # their losses are noticed when the next record comes
    calls = ROUNDS * CALLS + 10

    def accounted():
        ring = next((ring for ring in daemon.stat()["ring"] if ring["lost"]), None)
        return (ring and ring["produced"] - ring["meta"] >= calls and not ring["in_flight"]
                and ring)
    ring = ringtail.wait_until(accounted, "all calls are accounted for")
    for stream in streams.values():
        client = stream.await_all(ring["events"])
    lost = sum(one["count"] for one in ring["lost"])
    case.check_equal(ring["produced"], ring["events"] + ring["meta"] + lost,
                     "the ring: produced = events + meta + lost")
    case.check(client["lost"] and client["delivered"] == ring["events"],
               "the client has the events and the losses", client, ring)
    case.check_balanced(daemon)

    done = {form: stream.interrupt() for form, stream in streams.items()}
    for form in done:
        case.say(f"-o {form}")
        case.check_stream(done[form], events=ring["events"], lost=lost)
    # A thread's own record may be among the lost, and comes again with its next event.
    missing = calls - ring["events"]
    case.check(lost - 2 * len(pids) <= missing <= lost, f"events + lost = {calls} calls, but for "
               f"{lost - missing} of the ring's own records")

    lines = done["json"].lines
    losses = [line for line in lines if "lost" in line]
    case.check(len(losses) >= ROUNDS, f"{len(losses)} losses in the stream", losses[:3])
    case.check_equal({(loss["stage"], loss["reason"]) for loss in losses}, {("ring", "ring-full")},
                     "each says where and why")
    case.check(0 < lines.index(losses[0]) < len(lines) - 1, "they stand between events")
    seq = {}
    for line in lines:
        first, end = ((line["first_seq"], line["first_seq"] + line["attempts"]) if "lost" in line
                      else (line["seq"], line["seq"] + 1))
        if not seq.get(line["cpu"], 0) <= first <= seq.get(line["cpu"], first) + len(pids):
            case.check(False, "a line's number follows on the line before", seq, line)
        seq[line["cpu"]] = end
    case.say("ok: the numbers of events and losses follow one another without a hole")
    texts = re.findall(r".*ring-full.*|.*ring full.*", done["text"].out)
    case.check(len(texts) == len(losses), f"the text shows them too: {texts[0] if texts else None}",
               done["text"].out[:3000])
    remedy = "raise ring-size, or ask for fewer probes or a narrower filter"
    case.check(all(remedy in text for text in texts), "and say what to do", texts[:3])
    for command in "stat", "doctor":
        told = case.tracectl(daemon, command)
        case.check(re.search(rf"ring full: .*\n +-> +{remedy} \(ring-size is [0-9.]+ ?[KMG]iB now\)",
                             told.out), f"{command} says what to do", told.out, told.err)


ringtail.run(main)
