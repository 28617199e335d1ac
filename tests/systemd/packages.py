#!/usr/bin/env python3
"""packages: runs inside the virtual machine in guest.py's place: installs the Debian packages in /packages
with dpkg, records with them, installs the next version under load, removes and purges.
"""
import glob
import hashlib
import os
import stat as modes

from guest import (CALLS, SERVICE, SOCKET, Load, Stream, balanced, check, codes, main, main_pid, run, show,
                   tracing_links, user_id, wait_until)

CONFIG = "/etc/ringtail/ringtaild.conf"
NOT_OURS = ("/proc", "/sys", "/dev", "/tmp", "/test", "/packages", "/root", "/var/lib/dpkg", "/var/log",
            "/var/cache/ldconfig", "/run/systemd", "/run/log", "/run/user", "/run/lock",
            # Of deb-systemd-helper, which keeps its own directories.
            "/var/lib/systemd")
# The tools that edit the files of accounts keep the version before, and a lock.
ACCOUNT_FILES = {"/etc/passwd", "/etc/group", "/etc/shadow", "/etc/gshadow"}
ACCOUNT_LEFT = {f"{path}-" for path in ACCOUNT_FILES} | {
    "/etc/.pwd.lock", "/etc/subuid", "/etc/subgid", "/etc/subuid-", "/etc/subgid-"}
before = {}


def what_is(path):
    found = os.lstat(path)
    kind = modes.S_IFMT(found.st_mode)
    text = ""
    if kind == modes.S_IFLNK:
        text = os.readlink(path)
    elif kind == modes.S_IFREG:
        with open(path, "rb") as file:
            text = hashlib.sha256(file.read()).hexdigest()
    return oct(found.st_mode), found.st_uid, found.st_gid, text


def everything():
    """Each path with its mode, owner and content, but for what others write."""
    found = {}
    for directory, names, files in os.walk("/"):
        names[:] = [name for name in names if name != "__pycache__" and
                    os.path.join(directory, name) not in NOT_OURS]
        for path in (os.path.join(directory, name) for name in names + files):
            if path not in ACCOUNT_LEFT and path != "/etc/ld.so.cache":
                found[path] = what_is(path)
    return found


def dpkg(*words):
    return run("dpkg", *words)


def nothing_is_there_before():
    """The files of accounts are as the tools that edit them leave them: once more does not change them."""
    run("useradd", "--system", "passing")
    run("userdel", "passing")
    before.update(everything())
    check(not [path for path in before if "ringtail" in path], "nothing of it is there")
    check(len(before) > 500 and ACCOUNT_FILES <= set(before), "everything is looked at", len(before))


def installs():
    dpkg("-i", *glob.glob("/packages/*.deb"))
    for unit in SERVICE, SOCKET:
        # On a machine as slow as this one a start may run into its time-out, and is tried again.
        wait_until(lambda: show("ActiveState", unit) == "active", f"{unit} is active", 60)
        check(run("systemctl", "is-enabled", unit).strip() == "enabled", f"{unit} is enabled")
    check({user_id("ringtail"), user_id("ringtail-loader")}.isdisjoint({None, 0}), "its accounts are there")
    run("tracectl", "doctor")
    run("dpkg", "--verify")
    balanced()


def streams_exactly():
    load = Load(CALLS)
    stream = Stream(load)
    load.run()
    summary, code, text = stream.end(CALLS)
    check(summary["events"] == CALLS and code == 0, f"exactly {CALLS} events", summary, text)


def upgrades_under_load():
    """The rings hold what happens while dpkg works, on a machine as slow as this one."""
    with open(CONFIG, "a") as config:
        config.write("ring-size = 16MiB\n")
    run("systemctl", "stop", SERVICE)
    run("systemctl", "start", SERVICE)
    with open(CONFIG) as config:
        edited = config.read()
    load = Load(20 * CALLS)
    stream = Stream(load)
    pid, adopted = main_pid(), codes().count("restart-adopted")
    socket_since = show("ActiveEnterTimestampMonotonic", SOCKET)
    load.go()
    dpkg("-i", *glob.glob("/packages/next/*.deb"))
    versions = dict(line.split() for line in run("dpkg-query", "-W", "*ringtail*").splitlines() if len(line.split()) == 2)
    check(len(versions) == len(glob.glob("/packages/next/*.deb")) >= 6 and
          all(version.endswith("+next") for version in versions.values()), "the next version of each package is there", versions)
    check(main_pid() != pid and codes().count("restart-adopted") == adopted + 1,
          "another process goes on with the rings of the one before", codes())
    check(show("ActiveEnterTimestampMonotonic", SOCKET) == socket_since, "the socket was there all the while")
    load.wait()
    stream.await_subscribed()
    summary, code, text = stream.end(load.calls)
    check(summary["lost"] == 0 and code == 0 and summary["events"] == load.calls,
          "nothing is lost over an upgrade", summary, text)
    with open(CONFIG) as config:
        check(config.read() == edited, "what the administrator wrote is kept")
    balanced()


def removes():
    dpkg("-r", "ringtail")
    wait_until(lambda: not tracing_links(), "no program is attached any more")
    check(not os.path.exists("/usr/sbin/ringtaild") and show("LoadState") in ("not-found", "masked"),
          "the daemon is gone", show("LoadState"))
    check(os.path.exists(CONFIG) and os.path.isdir("/var/lib/ringtail"),
          "its configuration and what it has recorded stay until it is purged")


def purges_to_nothing():
    names = run("dpkg-query", "-W", "-f", "${Package}\n", "*ringtail*").split()
    dpkg("-P", *names)
    after = everything()
    check(after == before, "all is as it was",
          {path: (before.get(path), after.get(path)) for path in before.keys() | after.keys()
           if before.get(path) != after.get(path)})
    check(not run("dpkg-query", "-W", "-f", "${Package} ", "*ringtail*", code=None),
          "dpkg knows nothing of it")


TESTS = [nothing_is_there_before, installs, streams_exactly, upgrades_under_load, removes, purges_to_nothing]

if __name__ == "__main__":
    main(TESTS, len(TESTS))
