"""A viewer sees the events of programs that run as its own user, and may enable their probes: no others', which have
probes of the same names, run beside them, and have run before; nor of a program with more rights than its user."""
import grp
import os

import ringtail
from lib.probing import THREADS, Program, await_ended, build
from lib.process import wait_until

ALICE, BOB, CAROL = 41001, 41002, 41003
TURNS = 50
WANTED = THREADS * TURNS


class Users:
    def __init__(self, case):
        self.case, self.counted = case, 0
        self.binary = build(case, "traced", "traced")
        self.socket = os.path.join(case.path("run"), "programs.sock")
        self.group = grp.getgrnam("nogroup").gr_gid     # the engine's, and so its socket's
        with open(os.path.join(ringtail.BUILD, "tracectl"), "rb") as file:
            self.tracectl = case.write("tracectl", file.read())
        os.chmod(self.tracectl, 0o755)
        os.mkdir(case.path("counts"))
        os.chmod(case.path("counts"), 0o777)

    def run(self, uid, *rights):
        self.counted += 1
        program = Program(self.case, self.binary, self.socket, "threads",
                          os.path.join(self.case.path("counts"), str(self.counted)), TURNS,
                          before=("setpriv", f"--reuid={uid}", "--clear-groups", *rights))
        self.case.check(program.attached, f"a program of user {uid} is attached", program.process.read("err"))
        return program

    def start(self, daemon, uid, *words):
        return self.case.start(self.tracectl, "--connect", daemon.address, "--summary", "json", *words, user=uid,
                               group=self.group, extra_groups=[])

    def ask(self, daemon, uid, *words):
        return self.start(daemon, uid, *words).wait()

    def stream(self, daemon, uid, *words):
        stream = self.start(daemon, uid, "stream", *words, "-o", "json")
        wait_until(lambda: daemon.client(stream.pid), "it is subscribed")
        return stream


def events_of(done):
    """Those of programs; a gap is told before them."""
    return [line for line in done.lines if line.get("probe", "").startswith("app:")]


def end(case, *programs):
    for program in programs:
        case.check_equal(program.go().process.wait().code, 0, "the program ends well")


def check_live(case, daemon, users):
    """Both have app:request_done. What it means is what the user has."""
    hers, his = users.run(ALICE), users.run(BOB)
    stream = users.stream(daemon, ALICE, "-p", "request_done", "-n", str(WANTED))
    listed = case.tracectl(daemon, "list", "app:request_done").out
    case.check(f"enabled: traced {hers.pid}" in listed and f"disabled: traced {his.pid}" in listed,
               "hers is enabled, and his is not", listed)
    seen = users.ask(daemon, ALICE, "list", "app:request_done").out
    case.check(f"traced {hers.pid}" in seen and f"traced {his.pid}" not in seen, "she sees which process is hers", seen)
    end(case, hers, his)
    done = stream.wait()
    case.check_equal((done.code, len(done.lines)), (0, WANTED), "each event of hers comes", done.err)
    case.check_equal({event["pid"] for event in done.lines}, {hers.pid}, "and no other")
    await_ended(daemon)
    case.check_equal(daemon.stat()["counters"]["program_records"], WANTED, "his program has written nothing")


def check_past(case, daemon, users):
    """An operator has recorded both. Of that she may have her part."""
    hers, his = users.run(ALICE), users.run(BOB)
    operator = case.stream(daemon, "-p", "app:*", "-o", "none")
    end(case, hers, his)
    await_ended(daemon)
    operator.await_all(2 * (WANTED + 1 + THREADS * ((TURNS + 15) // 16)))
    past = ("--since=-1h", "--until=now", "-o", "json")
    done = users.ask(daemon, ALICE, "stream", "-p", "app:request_done", *past)
    own = events_of(done)
    case.check({event["pid"] for event in own} == {hers.pid} and len(own) == WANTED,
               "of what an operator has recorded, her events come", len(done.lines), done.err)
    done = users.ask(daemon, ALICE, "stream", "-p", "a*:request_*", "-f", f"uid >= {ALICE}", *past)
    own = events_of(done)
    case.check_equal({event["pid"] for event in own}, {hers.pid}, "a wider glob means none of his either", done.err)
    operator.interrupt()


def check_vain(case, daemon, users, text):
    done = users.ask(daemon, CAROL, "stream", "-p", "app:*", "-d", "1ms")
    case.check(done.code == 0 and "none of yours has brought `app:*`" in done.err and done.summary["events"] == 0, text, done.err)


def check_waits(case, daemon, users):
    """She waits for a program of hers, whoever else has one."""
    stream = users.start(daemon, CAROL, "stream", "-p", "app:request_done", "-o", "json")
    stream.wait_for("waits for a program")
    his, hers = users.run(BOB), users.run(CAROL)
    wait_until(lambda: daemon.client(stream.pid), "her program has come, and she is subscribed")
    end(case, his, hers)
    await_ended(daemon)
    wait_until(lambda: daemon.client(stream.pid)["delivered"] >= WANTED, "she has all events")
    done = stream.interrupt()
    case.check_equal(({event["pid"] for event in done.lines}, len(done.lines)), ({hers.pid}, WANTED), "of her program, and no other")
    case.check_stream(done, events=WANTED)


def check_refused(case, daemon, users):
    check_vain(case, daemon, users, "who has no program has no probe")
    done = users.ask(daemon, ALICE, "stream", "-p", "app:*", "--consumer", "kept", "-d", "1ms")
    case.check(done.code == 1 and "[viewer-probes]" in done.err, "what is kept on disk is for operators", done.err)
    written = daemon.stat()["counters"]["program_records"]
    mighty = users.run(CAROL, "--inh-caps=+net_raw", "--ambient-caps=+net_raw")
    check_vain(case, daemon, users, "nor has one whose program has rights that the user has not")
    end(case, mighty)
    await_ended(daemon)
    case.check_equal(daemon.stat()["counters"]["program_records"], written, "nothing of it was written")


def main(case):
    if os.geteuid():
        raise ringtail.Skip("this takes root, to be others")
    users = Users(case)
    daemon = case.daemon("--user=nobody", f"--programs={users.socket}", "--durability=written",
                         *(f"--viewer=user:{uid}" for uid in (ALICE, BOB, CAROL)))
    check_live(case, daemon, users)
    check_past(case, daemon, users)
    check_refused(case, daemon, users)
    check_waits(case, daemon, users)
    case.check_balanced(daemon)


ringtail.run(main)
