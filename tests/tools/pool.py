"""pool: runs jobs beside each other, so that no CPU idles and none is fought over.

A job WORKS: it keeps a CPU busy. A MACHINE, which is a virtual one, works too, and has nothing to do for a third of
its time; a program of short CASES has for nearly half, in which it is read from the disk and its threads wake each
other. Or a job WAITS, for other programs and for time to pass, and has use for a third of a CPU; or it SLEEPS, and
has use for next to none. Those that wait take one CPU as long as there are any, the others are for those that work;
what one kind has no use for, the other takes. Of each kind the longest goes first, so that none is left over in the
end. A job that is ALONE measures what the machine does, or takes in all of it: it runs when nothing else
does, and when nothing else can.

A job has `weight` (one of these six), `seconds` (about how long it takes), and `after`: a job that has to
have ended well before it starts, or None.
"""
import threading

TENTHS = 10             # of a CPU
WORKS, MACHINE, CASES, WAITS, SLEEPS, ALONE = TENTHS, 7, 6, 3, 1, 0


def longest(jobs, *weights):
    return max((job for job in jobs if job.weight in weights), key=lambda job: job.seconds, default=None)


def choose(ready, running, cpus):
    """The job to start next; None: nothing has room."""
    used = sum(job.weight for job in running)
    if any(job.weight == ALONE for job in running):
        return None
    waits, works = longest(ready, WAITS, SLEEPS), longest(ready, WORKS, MACHINE, CASES)
    waiting = sum(job.weight for job in running if job.weight in (WAITS, SLEEPS))
    for job in (waits, works) if waiting + WAITS <= TENTHS else (works, waits):
        if job and used + job.weight <= cpus * TENTHS:
            return job
    if waits or works or running:
        return None
    return next((job for job in ready if job.weight == ALONE), None)


class Pool:
    """`execute`: runs a job and returns whether it ended well."""

    def __init__(self, jobs, execute, cpus):
        self.waiting, self.running, self.well = list(jobs), [], {}
        self.execute, self.cpus = execute, cpus
        self.changed = threading.Condition()
        self.broken = None

    def run(self):
        """Runs them all, but those that come after one that did not end well."""
        with self.changed:
            while self.waiting or self.running:
                if self.broken:
                    raise self.broken
                if not self._start_next():
                    assert self.running, f"these wait for each other: {[job.name for job in self.waiting]}"
                    self.changed.wait()

    def _start_next(self):
        hopeless = [job for job in self.waiting if self.well.get(job.after) is False]
        for job in hopeless:
            self.waiting.remove(job)
            self.well[job] = False
        ready = [job for job in self.waiting if job.after is None or self.well.get(job.after)]
        job = choose(ready, self.running, self.cpus)
        if job:
            self.waiting.remove(job)
            self.running.append(job)
            threading.Thread(target=self._work, args=(job,), daemon=True).start()
        return job or hopeless

    def _work(self, job):
        well = False
        try:
            well = self.execute(job)
        except BaseException as broken:     # of ours, not the test's
            self.broken = broken
        with self.changed:
            self.running.remove(job)
            self.well[job] = well
            self.changed.notify()
