"""The client beyond clients-max is told so; when one leaves, the next one is served."""
import ringtail
from lib import hostile

CLIENTS_MAX = 4


def main(case):
    healthy = hostile.Healthy(case, f"--clients-max={CLIENTS_MAX}")
    guests = [healthy.daemon.connect() for _ in range(CLIENTS_MAX - 1)]
    for guest in guests:
        guest.greet()
        guest.stat()
    for _ in range(3):
        with healthy.daemon.connect() as connection:
            hostile.check_refused(case, connection, "too-many-clients",
                                  f"serves {CLIENTS_MAX} clients")
    done = case.tracectl(healthy.daemon, "list")
    case.check(done.code == 1 and "[too-many-clients]" in done.err and "clients-max" in done.err,
               "tracectl says so too, and what to do", done.err)
    case.check_equal(guests[0].stat()["client"][0]["residual"], 0, "those inside are served on")
    for guest in guests:
        guest.close()

    def served():
        try:
            return len(healthy.daemon.stat()["client"]) == 2
        except (EOFError, ConnectionError):
            return False
    ringtail.wait_until(served, "a client is served again when others have left")
    counters = healthy.daemon.stat()["counters"]
    case.check(counters["sessions_refused"] >= 4, "the refused ones are counted", counters)
    healthy.check()


ringtail.run(main)
