"""Spools that nobody asks for any more are told of, get old and go; one is held for consumers whose
probes this kernel lacks, until the last of them is forgotten. A spool that has nothing yet reads as
nothing."""
import os

import ringtail

CALLS = 20_000
LOOKS_S = 10            # SPOOL_TIDY_NS
NEVER_USED = "00000000000000aa"


def bytes_of(directory):
    return sum(entry.stat().st_size for entry in os.scandir(directory))


def unlike_this_kernel(path):
    """As if the daemon had been started on a kernel with other system calls."""
    with open(path) as file:
        text = file.read()
    assert text.count("probe syscall:getppid:call\n") == 2
    with open(path, "w") as file:
        file.write(text.replace("probe syscall:getppid:call\n", "probe syscall:nosuchcall:call\n"))


def main(case):
    state = case.path("state")
    spools = os.path.join(state, "spool")
    options = ["--ring-size=16MiB", "--durability=written", "--user=root", f"--state-dir={state}",
               "--spool-segment-size=64KiB"]

    def told(state_word):
        return [spool for spool in daemon.stat()["spool"] if spool["state"] == state_word]

    def is_on():
        with daemon.connect() as connection:
            connection.greet()
            connection.send(ringtail.wire.message("Subscribe"))
            return bool(connection.await_frame("Catalog").values["probe"])

    def all_stored():
        spool, = told("ok")
        return daemon.recorded() == CALLS and spool["produced"] >= CALLS and not spool["in_flight"]

    def change(config):
        case.write(f"{daemon.name}.conf", config)
        daemon.reload(r"\[reloaded\]")

    # What was always on, and is not any more.
    os.makedirs(os.path.join(spools, NEVER_USED), 0o700)
    load = case.load(CALLS)
    daemon = case.daemon(*options, config=f"probe = syscall:getppid:call\nfilter = {load.filter}\n")
    ringtail.wait_until(is_on, "it is recorded")
    load.run()
    ringtail.wait_until(all_stored, "all are stored")
    case.check_balanced(daemon)
    name = daemon.stat()["spool"][0]["name"]
    directory = os.path.join(spools, name)
    change("probe = syscall:getpgid:call\n")
    unused, = ringtail.wait_until(lambda: told("unused"), "it is told of", LOOKS_S + 10)
    case.check_equal((unused["name"], unused["probe"], unused["filter"], unused["bytes"]),
                     (name, ["syscall:getppid:call"], load.filter, bytes_of(directory)),
                     "what it was for, and what there is of it")
    case.check_balanced(daemon)
    shown = case.tracectl(daemon, "stat")
    case.check(f"{name:24} unused" in shown.out, "people see it, too", shown.out)
    read = case.tracectl(None, "--summary", "json", "read", directory, "-o", "none")
    case.check_stream(read, events=CALLS)
    case.check(os.path.exists(directory), "it is not too old, and stays")
    daemon.stop()

    daemon = case.daemon(*options, "--spool-age=1s", config="probe = syscall:getpgid:call\n")
    ringtail.wait_until(lambda: not os.path.exists(directory), "it is too old, and gone")
    ringtail.wait_until(lambda: not os.path.exists(os.path.join(spools, NEVER_USED)), "so is the empty one")
    ringtail.wait_until(lambda: not told("unused"), "it is told of no more")
    ringtail.wait_until(lambda: f"deleted the spool spool/{name}," in daemon.log, "the log says so")
    daemon.stop()

    # Two consumers of the same.
    load = case.load(CALLS)
    words = ["-p", "syscall:getppid:call", "-f", load.filter, "-o", "none", "--consumer"]
    daemon = case.daemon(*options)
    for consumer in ("first", "second"):
        case.check_stream(case.stream(daemon, *words, consumer).interrupt(), events=0)
    load.run()
    ringtail.wait_until(all_stored, "all are stored")
    case.check_balanced(daemon)
    name = daemon.stat()["spool"][0]["name"]
    directory = os.path.join(spools, name)
    daemon.stop()
    unlike_this_kernel(os.path.join(state, "consumers"))
    daemon = case.daemon(*options)
    held, = ringtail.wait_until(lambda: told("held"), "it is held for them", LOOKS_S + 10)
    case.check_equal((held["name"], held["bytes"]), (name, bytes_of(directory)), "with all of it")
    case.check_equal({consumer["spool"] for consumer in daemon.stat()["consumer"]}, {name},
                     "they are told where theirs is")
    case.check("[unknown-probe]" in daemon.log, "the log says what is wrong", daemon.log)
    case.check_equal(case.tracectl(daemon, "forget", "first").code, 0, "one is forgotten")
    read = case.tracectl(None, "--summary", "json", "read", directory, "-o", "none")
    case.check_stream(read, events=CALLS)
    case.check_equal(case.tracectl(daemon, "forget", "second").code, 0, "and the other")
    ringtail.wait_until(lambda: not os.path.exists(directory), "with it goes what was held for it")
    ringtail.wait_until(lambda: not told("held"), "it is told of no more")
    case.check_balanced(daemon)
    daemon.stop()

    # As a daemon leaves it that has just been started.
    directory = os.path.join(spools, NEVER_USED)
    os.mkdir(directory)
    with open(os.path.join(directory, "0000000000000001.open"), "wb"):
        pass
    read = case.tracectl(None, "--summary", "json", "read", directory, "-o", "json")
    case.check_equal((read.code, read.out, read.summary["events"], read.summary["ledger"]),
                     (0, "", 0, "balanced"), "nothing is stored there yet")
    case.check("nothing is stored" in read.err, "which it says", read.err)


ringtail.run(main)
