"""What an earlier run has left in the kernel does not fit, or is not what it is called: the daemon
says so and begins with fresh rings, nothing of the old stays attached, and clients are told."""
import os

import ringtail
from lib.service_manager import ServiceManager

CALLS = 1000


class Service:
    def __init__(self, case):
        self.case, self.manager = case, ServiceManager(case)
        self.address = f"unix:{case.path('run')}/ringtaild.sock"
        self.daemon = self.stream = None

    def start(self, *options):
        self.daemon = self.manager.daemon(*options, listen=[self.address])
        if self.stream:
            self.stream.daemon = self.daemon
            self.stream.await_subscribed()

    def begins_anew(self, code, text):
        """The log has the reason; the client gets what is recorded from now on, exactly once."""
        case, daemon = self.case, self.daemon
        case.check(f"[{code}]" in daemon.log and "beginning with fresh rings" in daemon.log,
                   text, daemon.log)
        load = case.load(CALLS, comm=case.own_comm)
        one = case.stream(daemon, "-p", "syscall:getppid:call", "-f", load.filter, "-o", "none")
        load.run()
        one.await_all(CALLS)
        case.check_stream(one.interrupt(), events=CALLS)
        names = self.manager.names()
        case.check_equal(len(names), len(set(names)), "nothing is stored twice")
        case.check_balanced(daemon)


def put_foreign(service, suffix, path):
    """Something else in the place of a stored object."""
    name = next(name for name in service.manager.names() if name.endswith(suffix))
    fd = os.open(path, os.O_RDONLY)
    service.manager.replace(name, fd)
    os.close(fd)


def main(case):
    service = Service(case)
    service.start("--ring-size=1MiB")
    service.stream = case.stream(service.daemon, "-p", "syscall:getppid:call", "-f",
                                 f'comm == "{case.own_comm}"', "-o", "json")
    case.check_equal(service.daemon.stop(), 0, "the first run ends well")

    service.start("--ring-size=2MiB")
    service.begins_anew("restart-ring-size", "rings of another size are not gone on with")
    service.stream.wait_for('"reason":"other-epoch"', "out")
    case.say("ok: the client is told that nobody knows how much is missing")
    service.daemon.stop()

    put_foreign(service, ".map.rings", "/dev/null")
    service.start("--ring-size=2MiB")
    service.begins_anew("restart-foreign", "a device is not taken for the rings")
    service.daemon.stop()

    put_foreign(service, ".program.sys_exit", "/proc/self/stat")
    service.start("--ring-size=2MiB")
    service.begins_anew("restart-foreign", "a file is not taken for a program")
    service.daemon.crash()

    service.manager.forget("source.bpf.")
    service.start("--ring-size=2MiB")
    case.check("fresh rings" not in service.daemon.log, "where nothing is left nothing is said",
               service.daemon.log)
    service.daemon.stop()

    with service.manager.lock:
        service.manager.store = [(name.replace("source.bpf.", "source.bpf.0"), fd, polled)
                                 for name, fd, polled in service.manager.store]
    service.start("--ring-size=2MiB")
    service.begins_anew("restart-other-version", "programs of another version are not gone on with")
    done = service.stream.interrupt()
    gaps = {line["reason"] for line in done.lines if "lost" in line}
    case.check_equal(gaps, {"other-epoch"}, "of every beginning the client was told")
    case.check_equal(done.summary["ledger"], "balanced", "its ledger is balanced")

    service.daemon.stop()
    other = ServiceManager(case, max=0)
    daemon = other.daemon("--ring-size=1MiB", listen=[service.address])
    stream = case.stream(daemon, "-p", "syscall:getppid:call", "-o", "none")
    ringtail.wait_until(lambda: daemon.recording(), "programs are attached")
    stream.interrupt()
    ringtail.wait_until(lambda: not daemon.recording(), "they are detached again")
    stream = case.stream(daemon, "-p", "syscall:getppid:call", "-o", "none")
    case.check_equal(daemon.stop(), 0, "a run whose manager stores nothing ends well")
    case.check("draining the rings" in daemon.log, "and stops recording before", daemon.log)
    stream.interrupt()


ringtail.run(main)
