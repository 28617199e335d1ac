"""What is always on changes, and changes back: what happened meanwhile is named as not recorded, and not
as a loss by a restart."""
import ringtail

CALLS = 20_000


def reasons(done):
    return {(line["stage"], line["reason"]) for line in done.lines if "lost" in line}


def main(case):
    before, between, after = (case.load(CALLS, 2) for _ in range(3))
    text = f"pid in ({', '.join(map(str, before.pids + between.pids + after.pids))})"
    ours = f"probe = syscall:getppid:call\nfilter = {text}\n"
    daemon = case.daemon("--ring-size=64MiB", "--durability=written", "--user=root",
                         f"--state-dir={case.path('state')}", "--history-size=64KiB",
                         "--queue-size=64KiB", config=ours)

    def is_on(name):
        with daemon.connect() as connection:
            connection.greet()
            connection.send(ringtail.wire.message("Subscribe"))
            probes = connection.await_frame("Catalog").values["probe"]
        return [probe["function"] for probe in probes] == [name]

    def change(config):
        case.write(f"{daemon.name}.conf", config)
        daemon.reload(r"\[reloaded\]")

    def spools():
        return [spool["probe"] for spool in daemon.stat()["spool"] if spool["state"] != "unused"]

    ringtail.wait_until(lambda: is_on("getppid"), "it is recorded")
    before.run()
    ringtail.wait_until(lambda: daemon.recorded() == CALLS, "all are recorded")
    # With the same filter, else the kernel would record these calls of everybody for the other client.
    change(f"probe = syscall:getpgid:call\nfilter = {text}\n")
    ringtail.wait_until(lambda: spools() == [["syscall:getpgid:call"]], "the other is on alone")
    # Somebody else wants the same calls, so that they have numbers.
    other = case.stream(daemon, "-p", "syscall:getppid:*", "-f", text, "-o", "none")
    between.run()
    other.await_all(3 * CALLS)
    other.interrupt()
    ringtail.wait_until(lambda: daemon.recording() and not daemon.client(other.pid), "it has left")
    change(ours)
    ringtail.wait_until(lambda: is_on("getppid") and len(spools()) == 1, "the first is on again")
    case.await_rings_empty(daemon)
    recorded = daemon.recorded()
    after.run()
    ringtail.wait_until(lambda: daemon.recorded() >= recorded + CALLS, "all are recorded")
    done = case.start_stream(daemon, "-o", "json", "--since", "-1h", "-n", str(2 * CALLS)).wait()
    case.check_equal((done.code, done.summary["events"], done.summary["ledger"]),
                     (3, 2 * CALLS, "balanced"), "what was recorded comes, and that there is a hole")
    pids = {line["pid"] for line in done.lines if "lost" not in line}
    case.check_equal(pids, set(before.pids) | set(after.pids), "before and after")
    case.check_equal(reasons(done), {("spool", "not-recorded")}, "the hole says why")
    case.check_balanced(daemon)


ringtail.run(main)
