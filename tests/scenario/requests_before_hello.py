"""Whatever comes before a hello is refused."""
import ringtail
from lib import hostile, wire


def main(case):
    healthy = hostile.Healthy(case)
    for name in ("ListRequest", "Subscribe", "StatRequest", "Bye"):
        with healthy.daemon.connect() as connection:
            connection.send(wire.message(name))
            case.say(f"a {name} comes first")
            hostile.check_refused(case, connection, "unexpected-frame", "not a ClientHello")
    healthy.check()


ringtail.run(main)
