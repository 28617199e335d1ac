"""A unix socket: the kernel says who connects, and the rules what that user may do."""
import grp
import os
import pwd

import ringtail

ALICE, BOB = 41001, 41002
SOCKET_GROUP = "nogroup"        # the engine's, and so the socket's


def main(case):
    if os.geteuid():
        raise ringtail.Skip("this takes root, to be others")
    group = grp.getgrnam(SOCKET_GROUP).gr_gid
    watchers = grp.getgrnam("games").gr_gid
    programs = {}
    for name in ("tracectl",):          # where other users may run it
        with open(os.path.join(ringtail.BUILD, name), "rb") as file:
            programs[name] = case.write(name, file.read())
        os.chmod(programs[name], 0o755)

    def ask(daemon, uid, *words, groups=()):
        return case.start(programs["tracectl"], "--connect", daemon.address, *words, user=uid,
                          group=group, extra_groups=list(groups)).wait()

    daemon = case.daemon("--user=nobody")
    done = case.tracectl(daemon, "enable", "syscall:getppid:call")
    case.check(done.code == 0 and "user:root" in done.out, "root is an operator", done.err)
    done = ask(daemon, ALICE, "probes")
    case.check(done.code == 1 and "[not-allowed]" in done.err and f"user:{ALICE}" in done.err and
               "viewer" in done.err, "without rules, nobody else is anything", done.err)
    case.check_equal(daemon.stop(), 0, "it stops")

    daemon = case.daemon("--user=nobody", f"--operator=user:{ALICE}", "--viewer=group:games")
    done = ask(daemon, ALICE, "enable", "syscall:getppid:call")
    case.check(done.code == 0 and f"user:{ALICE}" in done.out, "alice is an operator", done.err)
    done = ask(daemon, BOB, "probes")
    case.check(done.code == 1 and "[not-allowed]" in done.err, "bob is nobody", done.err)
    done = ask(daemon, BOB, "probes", groups=[watchers])
    case.check(done.code == 0 and f"user:{ALICE}" in done.out, "in the group he is a viewer",
               done.err)
    done = ask(daemon, BOB, "disable", "syscall:getppid:call", groups=[watchers])
    case.check(done.code == 1 and "[not-allowed]" in done.err and f"user:{BOB}" in done.err and
               "operator" in done.err, "and no operator", done.err)
    nobody = pwd.getpwnam("nobody").pw_uid
    done = ask(daemon, nobody, "probes")
    case.check(done.code == 1 and "[not-allowed]" in done.err,
               "the user that the engine becomes is nobody either", done.err)
    done = case.tracectl(daemon, "disable", "syscall:getppid:call")
    case.check_equal(done.code, 0, "root stays an operator")
    counters = daemon.stat()["counters"]
    case.check((counters["changes_allowed"], counters["changes_denied"],
                counters["sessions_denied"]) == (2, 1, 2), "each is counted", counters)
    case.check_balanced(daemon)


ringtail.run(main)
