"""Whatever the daemon's end, with durability = written: each kind of client has all, or is told."""
import ringtail
from lib import restarts


def main(case):
    restarts.matrix(case, "written")


ringtail.run(main)
