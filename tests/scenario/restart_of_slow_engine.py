"""The daemon is restarted in order while its worker is held up for longer than clients get for their
last frames: they get them once it moves on, and miss nothing."""
import os
import signal
import time

import ringtail
from lib.held import Held
from lib.service_manager import Service

CALLS = 20_000
HELD_S = 4          # HANDOVER_NS is 2 s; STOP_DRAIN_NS_MAX, how long the worker may take, 8 s


def main(case):
    service = Service(case, "--ring-size=32MiB")
    before, meanwhile = (case.load(CALLS, comm=case.own_comm) for _ in range(2))
    stream = case.stream(service.daemon, "-p", "syscall:getppid:call", "-f",
                         f'comm == "{case.own_comm}"', "-o", "none")
    before.run()
    daemon = service.daemon
    held = Held(daemon.worker())
    try:
        meanwhile.run()
        os.kill(daemon.pid, signal.SIGTERM)
        ringtail.wait_until(lambda: "[stopping]" in daemon.log, "it is told to stop")
        time.sleep(HELD_S)
        subscribed = bool(daemon.client(stream.pid))
    finally:
        held.let_go()
    case.check(subscribed, "the client is still served while the worker is waited for")
    service.restart(stream)
    case.await_rings_empty(service.daemon)
    case.check_balanced(service.daemon)
    case.check_stream(stream.interrupt(), events=2 * CALLS)


ringtail.run(main)
