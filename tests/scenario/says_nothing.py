"""A client that connects and says nothing is told so, and let go."""
import ringtail
from lib import hostile


def main(case):
    healthy = hostile.Healthy(case, hello_timeout=hostile.SHORT)
    with healthy.daemon.connect() as connection:
        hostile.check_refused(case, connection, "hello-timeout", "the client sent no hello in time")
    healthy.check()


ringtail.run(main)
