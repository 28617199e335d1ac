"""Several --connect: one command asks several daemons. Each host's events are told apart, tables add them up and end when
all hosts have told, -n counts all, and a daemon that is killed holds up nobody and is named."""
import collections

import ringtail

CALLS = 4000


def watch(case, first, second, *words, command="stream"):
    """The same command at both, subscribed at both."""
    stream = case.start_stream(first, "--connect", second.address, *words, command=command)
    stream.await_subscribed()
    ringtail.wait_until(lambda: second.client(stream.pid), "the second daemon has it too")
    return stream


def run(case, streams, *daemons):
    load = case.load(CALLS, comm=case.own_comm)
    load.run()
    for daemon in daemons:
        case.await_rings_empty(daemon)
        for stream in streams:
            ringtail.wait_until(lambda: not daemon.client(stream.pid)["in_flight"], "all is delivered")


def tables(case, first, second):
    mine = ("-p", "syscall:getppid:call", "-f", f'comm == "{case.own_comm}"', "-o", "json")
    count = watch(case, first, second, *mine, "--by", "host,comm", "-i", "100ms", command="count")
    whole = watch(case, first, second, *mine, "--by", "comm", command="summary")
    events = watch(case, first, second, *mine)
    run(case, (count, whole, events), first, second)
    both = {first.address: CALLS, second.address: CALLS}
    done = count.interrupt()
    case.check_equal(done.code, 0, "count ends well", done.err)
    rows = collections.Counter()
    for line in done.lines:
        if "key" in line:
            rows[line["key"]["host"]] += line["count"]
    case.check_equal(rows, both, "the tables count each host's calls once")
    case.check(all(line["seconds"] <= 0.1001 for line in done.lines if "events" in line and "seconds" in line),
               "no table is of more than its interval", done.lines)
    done = whole.interrupt()
    case.check_equal([(line["key"]["comm"], line["count"]) for line in done.lines if "key" in line],
                     [(case.own_comm, 2 * CALLS)], "by a name that is none of hosts, both are added up")
    done = events.interrupt()
    case.check_stream(done, events=2 * CALLS)
    case.check_equal(collections.Counter(line["host"] for line in done.lines), both, "each event names its host")


def enough(case, first, second):
    stream = watch(case, first, second, "-p", "syscall:getppid:call", "-f", f'comm == "{case.own_comm}"', "-n", "10")
    case.load(CALLS, comm=case.own_comm).run()
    done = stream.wait()
    case.check_equal((done.code, len(done.out.splitlines())), (0, 10), "-n 10 is ten of all hosts", done.err)
    case.check(all(line.split()[0] in (first.address, second.address) for line in done.out.splitlines()),
               "text begins with the host", done.out)


def killed(case, first, second):
    stream = watch(case, first, second, "-p", "syscall:getppid:call", "-f", f'comm == "{case.own_comm}"', "-o", "json")
    # A daemon knows its client before the client knows that: then it would be refused, and not lose anybody.
    run(case, (stream,), first, second)
    second.crash()
    ringtail.wait_until(lambda: f"tracectl: {second.address}: " in stream.read("err"), "the lost host is named")
    run(case, (stream,), first)
    again = case.daemon("--ring-size=16MiB", listen=[second.address])
    ringtail.wait_until(lambda: "reconnected to" in stream.read("err") and again.client(stream.pid),
                        "it comes back by itself")
    run(case, (stream,), first, again)
    done = stream.interrupt()
    events = collections.Counter(line["host"] for line in done.lines if "probe" in line)
    case.check_equal(events, {first.address: 3 * CALLS, second.address: 2 * CALLS}, "the other host went on meanwhile")
    case.check_equal(done.code, 3, "what the lost host had is missing, and said to be", done.err)
    case.check_balanced(first, again)


def refused(case, first, second):
    for words, what in ((("record", "-w", case.path("x")), "record asks one daemon"),
                        (("stream", "--tree", "1"), "--tree is for one daemon"),
                        (("stream", "-o", "csv"), "this output format is for one daemon"),
                        (("count", "--by", "stack"), "--by stack is for one daemon"),
                        (("stream", "--consumer", "c"), "--consumer is for one daemon")):
        done = case.tracectl(first, "--connect", second.address, *words)
        case.check(done.code == 2 and what in done.err and "[several-hosts]" in done.err, what, done.err)
    done = case.tracectl(first, "--connect", second.address, "stream", "-f", "none == 1", "-p", "syscall")
    case.check(done.code == 1 and f"{first.address} refuses:" in done.err, "who refuses is named", done.err)


def main(case):
    first, second = case.daemon("--ring-size=16MiB"), case.daemon("--ring-size=16MiB")
    tables(case, first, second)
    enough(case, first, second)
    refused(case, first, second)
    killed(case, first, second)


ringtail.run(main)
