"""Whatever the daemon's end, with durability = memory: each kind of client has all, or is told."""
import ringtail
from lib import restarts


def main(case):
    restarts.matrix(case, "memory")


ringtail.run(main)
