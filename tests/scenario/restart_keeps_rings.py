"""The daemon is restarted in order, again and again under load: the kernel records on meanwhile, the
client comes back by itself with its cursor, and nothing is lost. The long form restarts it 20 times and
holds it to a second without a reader."""
import ringtail
from lib.service_manager import Service

RESTARTS = 20 if ringtail.LONG else 10
CALLS = 50_000                  # around each
AWAY_S_MAX = 20                 # a bound for a loaded machine; what it took is printed


def main(case):
    service = Service(case, "--ring-size=32MiB")
    loads = [case.load(CALLS, comm=case.own_comm) for _ in range(RESTARTS)]
    stream = case.stream(service.daemon, "-p", "syscall:getppid:call", "-f",
                         f'comm == "{case.own_comm}"', "-o", "none")
    service.restart_under(stream, loads)
    case.check(max(service.away) < AWAY_S_MAX * ringtail.SLOW, f"never for {AWAY_S_MAX} s")
    case.figure("nobody read the rings, at most", max(service.away), "s")
    case.check_stream(stream.interrupt(), events=CALLS * RESTARTS)


ringtail.run(main)
