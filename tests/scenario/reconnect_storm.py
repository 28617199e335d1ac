"""A storm of clients that subscribe, go without a word and come back at once: those who stay notice
nothing, and when it is over nothing of it is left."""
import ringtail
from lib import steady

CLIENTS = 2000 if ringtail.LONG else 200
ROUNDS = 5                      # that each comes back, about


def main(case):
    # One that is back may be seen before it is seen to have gone.
    healthy = steady.Steady(case, f"--clients-max={2 * CLIENTS + 64}", f"--pending-max={2 * CLIENTS}",
                            long=ringtail.LONG)
    healthy.run()
    descriptors = healthy.descriptors()
    storm = case.swarm(healthy.tcp, "storm", CLIENTS, "--hold=500")
    storm.until(lambda now: now["subscriptions"] >= CLIENTS, "as many have subscribed as there are")
    healthy.run()
    now = storm.until(lambda now: now["subscriptions"] >= ROUNDS * CLIENTS,
                      f"{ROUNDS * CLIENTS} have subscribed")
    case.check_equal((now["refused"], now["holes"], now["bad_frames"]), (0, 0, 0),
                     "none is refused, and none gets what is wrong", now)
    case.say(f"{now['came']} connections, {now['subscriptions']} subscriptions")
    storm.leave()
    healthy.await_alone()
    ringtail.wait_until(lambda: healthy.descriptors() <= descriptors,
                        "no descriptor of theirs is left")
    stat = healthy.daemon.stat()
    case.check(stat["counters"]["sessions_accepted"] >= now["subscriptions"], "all are counted",
               stat["counters"])
    healthy.finish()


ringtail.run(main)
