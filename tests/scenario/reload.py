"""SIGHUP: a changed file takes effect without disturbing anyone; a broken one changes nothing."""
import ringtail

CALLS = 5000


def stream_default(case, daemon):
    """The probes of the subscription that is always on, by what its Catalog says."""
    with daemon.connect() as connection:
        connection.greet()
        connection.send(ringtail.wire.message("Subscribe"))
        probes = connection.await_frame("Catalog").values["probe"]
        connection.await_frame("Subscribed")
        return sorted(f"{p['provider']}:{p['function']}:{p['name']}" for p in probes)


def rewrite(case, daemon, text):
    case.write(f"{daemon.name}.conf", text)


def main(case):
    load = case.load(CALLS)
    # Else the kernel would record these calls of everybody, the stream's too.
    mine = f"filter = {load.filter}\n"
    daemon = case.daemon(config=f"probe = syscall:getpgid:call\n{mine}clients-max = 10\n")
    stream = case.stream(daemon, "-p", "syscall:getppid:call", "-f", load.filter, "-o", "none")
    case.check_equal(stream_default(case, daemon), ["syscall:getpgid:call"], "what the file says")

    rewrite(case, daemon, "probe = syscall:getsid:*\nprobe = tracepoint:sched:sched_process_exit\n"
            f"{mine}clients-max = 3\nclients-per-identity = 3\nhistory-size = 1MiB\n"
            "queue-size = 1MiB\nlog-level = debug\n")
    daemon.reload(r"\[reloaded\]")
    case.check_equal(stream_default(case, daemon),
                     ["syscall:getsid:call", "syscall:getsid:entry", "syscall:getsid:return",
                      "tracepoint:sched:sched_process_exit"], "the new probes are in force")
    guests = [daemon.connect() for _ in range(2)]
    for guest in guests:
        guest.greet()
        guest.stat()
    with daemon.connect() as connection:
        error = connection.await_frame("Error").values
        case.check_equal(error["code"], "too-many-clients", "the new clients-max is in force")
    for guest in guests:
        guest.close()

    for text, code in (("probes = syscall:getsid:call\n", "config-unknown-key"),
                       ("probe = syscall:nosuchcall:call\n", "unknown-probe"),
                       ("probe = syscall:getsid:call\nfilter = pid =\n", "filter"),
                       ("filter = pid ==\n", "filter"), ("export-filter = pid ==\n", "filter"),
                       ("export-probe = syscall:nosuch:call\n", "unknown-probe"),
                       ("ring-size = 1Mib\n", "unit-unknown"), ("\0binary", "config-not-text")):
        rewrite(case, daemon, text)
        daemon.reload(r"\[reload-refused\]")
        said = daemon.log.split("[reload-refused]")[-2]     # since the one before
        case.check(f"[{code}" in said, f"{text!r} is refused, and the log says why", said)
    case.check_equal(len(stream_default(case, daemon)), 4, "the old probes are still in force")

    rewrite(case, daemon, "ring-size = 2MiB\nmemory-max = 32MiB\ndurability = written\n"
            "export = loki:http://127.0.0.1:9\n")
    daemon.reload(r"\[reloaded\]")
    said = [line for line in daemon.log.splitlines() if "[reload-restart]" in line]
    case.check(len(said) == 1 and said[0].endswith(": ring-size, durability, export"),
               "what takes a restart, and only that, is said to take one", said)
    with daemon.connect() as connection:
        connection.greet()
        connection.send(ringtail.wire.message("Subscribe"))
        case.check_equal(connection.await_frame("Error").values["code"], "no-default-probes",
                         "and the probes are gone with their lines")

    load.run()
    stream.await_all(CALLS)
    case.check_balanced(daemon)
    case.check_stream(stream.interrupt(), events=CALLS)


ringtail.run(main)
