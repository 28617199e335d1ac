"""A durable consumer is its owner's: another viewer neither reads nor acknowledges nor gives it up, before
and after a restart; an operator may, for as long as it is one."""
import grp
import os

import ringtail

ALICE, BOB, EVE = 41001, 41002, 41003
SOCKET_GROUP = "nogroup"        # the engine's, and so the socket's
RULES = "operator = user:41003\nviewer = user:41001\nviewer = user:41002\n"


def check_demoted(case, daemon, start_as):
    """An operator that is none any more acknowledges nothing of another's."""
    stream = start_as(daemon, EVE, "stream", "-p", "syscall:getpgid:call", "--consumer", "alices",
                      "-o", "none")
    ringtail.wait_until(lambda: daemon.client(stream.pid), "eve has come")
    case.write(f"{daemon.name}.conf", RULES.replace("operator = user:41003", "viewer = user:41003"))
    daemon.reload(r"\[reloaded\]")
    for _ in range(100):
        os.getpgid(0)
    ringtail.wait_until(lambda: not stream.running, "she is told")
    done = stream.wait()
    case.check("[consumer-not-yours]" in done.err, "that it is not hers", done.err)
    case.write(f"{daemon.name}.conf", RULES)
    daemon.reload(r"\[reloaded\]")


def main(case):
    if os.geteuid():
        raise ringtail.Skip("this takes root, to be others")
    group = grp.getgrnam(SOCKET_GROUP).gr_gid
    with open(os.path.join(ringtail.BUILD, "tracectl"), "rb") as file:
        program = case.write("tracectl", file.read())
    os.chmod(program, 0o755)            # where other users may run it

    def start_as(daemon, uid, *words):
        return case.start(program, "--connect", daemon.address, *words, user=uid, group=group,
                          extra_groups=[])

    def ask(daemon, uid, *words):
        return start_as(daemon, uid, *words).wait()

    def read(daemon, uid, name):
        return ask(daemon, uid, "stream", "-p", "syscall:getpgid:call", "--consumer", name,
                   "--duration", "100ms", "-o", "none")

    def start(text):
        return case.daemon("--user=nobody", "--durability=written",
                           f"--state-dir={case.path('state')}", config=text)

    daemon = start(RULES)
    case.check_equal(read(daemon, ALICE, "alices").code, 0, "alice, a viewer, registers one")
    case.check_equal(read(daemon, EVE, "eves").code, 0, "eve, an operator, too")
    for uid, name in ((BOB, "alices"), (ALICE, "eves")):
        done = read(daemon, uid, name)
        case.check(done.code == 1 and "[consumer-not-yours]" in done.err, f"{name} is not {uid}'s",
                   done.err)
        done = ask(daemon, uid, "forget", name)
        case.check(done.code == 1 and "[consumer-not-yours]" in done.err, "nor to be given up by it",
                   done.err)
    done = read(daemon, EVE, "export-loki-0")
    case.check(done.code == 1 and "[consumer-reserved]" in done.err, "exporters' names are theirs",
               done.err)
    case.check_equal(daemon.stop(), 0, "it stops")

    daemon = start(RULES)
    done = read(daemon, BOB, "alices")
    case.check(done.code == 1 and "[consumer-not-yours]" in done.err, "so it is after a restart",
               done.err)
    case.check_equal(read(daemon, ALICE, "alices").code, 3,
                     "alice goes on, and is told that nothing was recorded meanwhile")
    case.check_equal(read(daemon, EVE, "alices").code, 0, "and so may an operator")
    check_demoted(case, daemon, start_as)
    case.check_equal(ask(daemon, ALICE, "forget", "alices").code, 0, "alice gives up her own")
    case.check_equal(ask(daemon, EVE, "forget", "eves").code, 0, "eve hers")
    with open(case.path("state/audit.log")) as file:
        log = file.read()
    case.check(f'"who":"user:{ALICE}"' in log and '"action":"register","consumer":"alices"' in log and
               '"action":"forget","consumer":"alices"' in log and "not-yours" not in log,
               "what was allowed is in the audit log", log)
    with open(case.path("state/audit-denied.log")) as file:
        log = file.read()
    case.check_equal(log.count('"outcome":"consumer-not-yours"'), 5, "what was denied in the other")
    case.check_balanced(daemon)


ringtail.run(main)
