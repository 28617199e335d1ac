"""The daemon is restarted in order, ten times under load: the kernel records on meanwhile, the client
comes back by itself with its cursor, and nothing is lost."""
import ringtail
from lib.service_manager import Service

RESTARTS = 10
CALLS = 50_000                  # around each
AWAY_S_MAX = 20                 # a bound for a loaded machine; what it took is printed


def main(case):
    service = Service(case, "--ring-size=32MiB")
    loads = [case.load(CALLS, comm=case.own_comm) for _ in range(RESTARTS)]
    stream = case.stream(service.daemon, "-p", "syscall:getppid:call", "-f",
                         f'comm == "{case.own_comm}"', "-o", "none")
    service.restart_under(stream, loads)
    case.check(max(service.away) < AWAY_S_MAX * ringtail.SLOW, f"never for {AWAY_S_MAX} s")
    case.check_stream(stream.interrupt(), events=CALLS * RESTARTS)


ringtail.run(main)
