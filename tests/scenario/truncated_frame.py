"""A client that breaks off in the middle of a frame, by leaving or by falling silent."""
import ringtail
from lib import hostile, wire


def main(case):
    healthy = hostile.Healthy(case, hello_timeout=hostile.SHORT)
    hello = wire.hello()
    for size in (1, wire.HEADER_BYTES - 1, wire.HEADER_BYTES, len(hello) - 1):
        with healthy.daemon.connect() as connection:
            connection.send(hello[:size])       # and leaves
    case.say("four clients left in the middle of their hello")
    with healthy.daemon.connect() as connection:
        connection.send(hello[:-1])
        hostile.check_refused(case, connection, "hello-timeout", "the client sent no hello in time")
    with healthy.daemon.connect() as connection:
        connection.greet()
        connection.send(wire.message("Subscribe", probe=["syscall:getppid:call"])[:-1])
        hostile.check_refused(case, connection, "request-timeout", "no request in time")
    healthy.check()


ringtail.run(main)
