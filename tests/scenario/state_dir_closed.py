"""The engine's user cannot write to the state directory. Where something is to be kept the daemon does
not start, and names the user and the whole path; where nothing is, it says so and serves."""
import os
import pwd

import ringtail
from lib.process import Skip

USER = "nobody"


def check_refused(case, state, why):
    done = case.refused(f"--state-dir={state}", f"--user={USER}", "--durability=written")
    uid = pwd.getpwnam(USER).pw_uid
    case.check(f"[state-dir] the user {USER} (uid {uid}) cannot write to the state directory "
               f"{os.path.realpath(state)}: " in done.err, why, done.err)
    case.check_equal(done.code, 1, "and does not start")


def main(case):
    if os.geteuid():
        raise Skip("only root's daemon becomes somebody else")
    state = case.path("state")
    os.chmod(case.dir, 0o755)
    os.mkdir(state, 0o755)
    check_refused(case, state, "a directory of root's is refused")
    os.chown(state, pwd.getpwnam(USER).pw_uid, -1)
    os.mkdir(f"{state}/spool", 0o755)
    check_refused(case, state, "so is one whose spools were root's")
    daemon = case.daemon(f"--state-dir={state}", f"--user={USER}")
    ringtail.wait_until(lambda: "[state-dir]" in daemon.log, "without durability it says so, and serves")
    case.check_equal(daemon.stop(), 0, "it ends well")
    os.rmdir(f"{state}/spool")
    daemon = case.daemon(f"--state-dir={state}", f"--user={USER}", "--durability=written")
    case.check("[state-dir]" not in daemon.log, "what is that user's is taken", daemon.log)
    case.check_equal(daemon.stop(), 0, "and that ends well, too")


ringtail.run(main)
