"""Whatever the daemon's end, with durability = fsync: each kind of client has all, or is told."""
import ringtail
from lib import restarts


def main(case):
    restarts.matrix(case, "fsync")


ringtail.run(main)
