"""A client that sends no frames at all: an HTTP request, zeros, random bytes."""
import ringtail
from lib import hostile


def main(case):
    healthy = hostile.Healthy(case)
    noise = case.random.randbytes(4096)
    while noise.startswith(b"Rt"):
        noise = noise[1:]
    for name, data in (("HTTP", b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"),
                       ("zeros", bytes(4096)), ("noise", noise)):
        for greet in (False, True):
            case.say(f"{name}, {'after' if greet else 'instead of'} a hello")
            with healthy.daemon.connect() as connection:
                if greet:
                    connection.greet()
                connection.send(data)
                hostile.check_refused(case, connection, "bad-magic", "not a ringtail frame")
    counters = healthy.daemon.stat()["counters"]
    case.check_equal((counters["frames_bad"], counters["sessions_failed"]), (6, 6),
                     "all are counted")
    healthy.check()


ringtail.run(main)
