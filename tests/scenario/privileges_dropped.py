"""Started as root and in groups, the engine is another user who can nothing; the loader is a third
one, who has two capabilities and nothing else: no group, no network, no file. The finder, of the same user, may
read files, and nothing else."""
import os
import pwd
import shutil

import ringtail


def wanted_loader():
    """The number of the loader's account; None: there is none."""
    try:
        return str(pwd.getpwnam("ringtail-loader").pw_uid)
    except KeyError:
        return None


def files_seen(daemon):
    """All that the loader sees, but the table of its own descriptors. A sanitizer looks into /proc at the end."""
    root = f"/proc/{daemon.loader}/root"
    if "[sandbox-off]" in daemon.log:
        return [name for name in os.listdir(root) if name != "proc"]
    return [os.path.join(where, name) for where, inner, names in os.walk(root, topdown=True)
            for name in inner + names
            if not f"{root}/proc/self/fd/".startswith(os.path.join(where, name) + "/")
            and not where.startswith(f"{root}/proc/self/fd")]


def main(case):
    if os.geteuid():
        raise ringtail.Skip("only root has something to give up")
    if not shutil.which("setpriv"):
        raise ringtail.Skip("setpriv is not installed")
    # Who starts it is in groups, and can hand capabilities on: none of it must stay.
    daemon = case.daemon("--user=nobody",
                         before=["setpriv", "--groups=0,1,4,27", "--inh-caps=+setuid,+chown"])

    def status(pid):
        with open(f"/proc/{pid}/status") as file:
            return dict(line.rstrip("\n").split(":\t", 1) for line in file)

    engine, loader = status(daemon.pid), status(daemon.loader)
    nobody = str(pwd.getpwnam("nobody").pw_uid)
    case.check_equal(engine["Uid"].split(), [nobody] * 4, "the engine is nobody")
    kinds = "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"
    case.check_equal([int(engine[kind], 16) for kind in kinds], [0] * 5, "without capabilities")
    user = wanted_loader()
    if user is None:
        case.check(65520 <= int(loader["Uid"].split()[0]) <= 65533,
                   "the loader has a number that nobody has", loader["Uid"])
        user = loader["Uid"].split()[0]
    case.check_equal(loader["Uid"].split(), [user] * 4, "the loader is a user of its own")
    case.check(user not in ("0", nobody), "who is neither root nor the engine", user)
    for name, status_of in ("engine", engine), ("loader", loader):
        gid = status_of["Gid"].split()
        case.check(len(set(gid)) == 1 and gid[0] != "0", f"the {name}'s group is not root's", gid)
        case.check_equal(status_of["Groups"].strip(), "", f"the {name} is in no other")
    case.check_equal([int(loader[kind], 16) for kind in kinds],
                     [0, 3 << 38, 3 << 38, 0, 0], "the loader has CAP_PERFMON and CAP_BPF alone")
    case.check_equal(files_seen(daemon), [], "it sees no file")
    networks = {os.readlink(f"/proc/{pid}/ns/net") for pid in ("self", daemon.loader)}
    case.check_equal(len(networks), 2, "and a network namespace of its own")
    links = [os.readlink(f"/proc/{daemon.loader}/fd/{fd}")
             for fd in os.listdir(f"/proc/{daemon.loader}/fd") if int(fd) > 2]
    case.check_equal(sum(link.startswith("socket:") for link in links), 2,
                     "and two sockets, to the engine and to the finder: none that clients could meet")
    finder_pid = ringtail.children(daemon.loader)[0]
    # Nobody waits for it to have given up what it has, of which this is the last.
    ringtail.wait_until(lambda: status(finder_pid)["NoNewPrivs"] == "1", "the finder is confined")
    finder = status(finder_pid)
    case.check_equal(finder["Name"], "ringtail-finder", "it has forked the finder, and nobody else")
    case.check_equal((finder["Uid"], finder["Gid"], finder["Groups"]),
                     (loader["Uid"], loader["Gid"], loader["Groups"]), "which is the same user")
    case.check_equal([int(finder[kind], 16) for kind in kinds], [0, 1 << 2 | 1 << 19, 1 << 2 | 1 << 19, 0, 0],
                     "and has CAP_DAC_READ_SEARCH and CAP_SYS_PTRACE alone")
    links = [os.readlink(f"/proc/{finder['Pid']}/fd/{fd}")
             for fd in os.listdir(f"/proc/{finder['Pid']}/fd") if int(fd) > 2]
    case.check_equal([link.split(":")[0] for link in links], ["socket"], "it has one socket, and nothing of theirs")
    case.check_equal({engine["NoNewPrivs"], loader["NoNewPrivs"]}, {"1"}, "neither can gain any")
    path = daemon.address.split(":", 1)[1]
    case.check_equal(os.stat(path).st_mode & 0o777, 0o660, "the socket is for its owner and group")
    case.check_balanced(daemon)


ringtail.run(main)
