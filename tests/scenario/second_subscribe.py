"""A second subscription on one connection is refused, whether or not the first has begun."""
import ringtail
from lib import hostile, wire


def main(case):
    healthy = hostile.Healthy(case)
    subscribe = wire.message("Subscribe", probe=["syscall:getpgid:call"])
    with healthy.daemon.connect() as connection:
        connection.greet()
        connection.subscribe(["syscall:getpgid:call"])
        connection.send(subscribe)
        hostile.check_refused(case, connection, "already-subscribed", "has a subscription")
    with healthy.daemon.connect() as connection:
        connection.greet()
        connection.send(subscribe + subscribe)
        hostile.check_refused(case, connection, "already-subscribed", "has a subscription")
    healthy.check()


ringtail.run(main)
