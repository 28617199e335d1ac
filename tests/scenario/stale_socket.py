"""The socket of a daemon that crashed is in nobody's way, be it a client or the next daemon."""
import os

import ringtail


def in_a_directory_of_others(case):
    """Root may make a socket anywhere; the engine, which is nobody by the end, takes none away."""
    path = case.path("left.sock")
    for _ in range(2):
        daemon = case.daemon("--user=nobody", listen=[f"unix:{path}"])
        case.check_balanced(daemon)
        case.check_equal(daemon.stop(), 0, "where it may not remove the socket, it ends well")
        case.check(os.path.exists(path) and "[socket-left]" in daemon.log and path in daemon.log,
                   "it says that it stays behind", daemon.log)


def main(case):
    daemon = case.daemon()
    path = daemon.address.split(":", 1)[1]
    case.check_balanced(daemon)
    daemon.crash()
    case.check(os.path.exists(path), "a daemon that is killed leaves its socket")
    done = case.tracectl(daemon.address, "stat")
    case.check(done.code == 1 and "[refused]" in done.err and path in done.err,
               "tracectl says that nobody listens there", done.err)
    again = case.daemon(listen=[daemon.address])
    case.check_balanced(again)
    case.check_equal(again.stop(), 0, "the next daemon takes it over, and ends well")
    done = case.tracectl(daemon.address, "stat")
    case.check(done.code == 1 and "[no-daemon]" in done.err and "ringtaild" in done.err,
               "now there is no socket, and tracectl says how to start a daemon", done.err)
    if os.geteuid() == 0:
        in_a_directory_of_others(case)


ringtail.run(main)
