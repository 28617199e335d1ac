"""The daemon is killed at random instants, under load, with a spool: nothing that was stored is lost,
nothing comes twice, and what is missing is where a gap says so."""
import ringtail
from lib.killing import Killing

KILLS = 25 if ringtail.LONG else 20 if ringtail.SLOW == 1 else 6


def main(case):
    killing = Killing(case, KILLS)
    for _ in range(KILLS):
        killing.kill_at_random()
    killing.finish()


ringtail.run(main)
