"""Started as root, the engine is nobody and can nothing; the loader keeps two capabilities."""
import os
import pwd

import ringtail


def main(case):
    if os.geteuid():
        raise ringtail.Skip("only root has something to give up")
    daemon = case.daemon("--user=nobody")

    def status(pid):
        with open(f"/proc/{pid}/status") as file:
            return dict(line.rstrip("\n").split(":\t", 1) for line in file)

    engine, loader = status(daemon.pid), status(daemon.loader)
    nobody = str(pwd.getpwnam("nobody").pw_uid)
    case.check_equal(engine["Uid"].split(), [nobody] * 4, "the engine is nobody")
    case.check_equal(engine["Groups"].strip(), "", "in no group")
    case.check_equal([int(engine[kind], 16) for kind in ("CapInh", "CapPrm", "CapEff", "CapAmb")],
                     [0] * 4, "without capabilities")
    case.check_equal(int(loader["CapEff"], 16), 3 << 38,
                     "the loader has CAP_PERFMON and CAP_BPF alone")
    networks = {os.readlink(f"/proc/{pid}/ns/net") for pid in ("self", daemon.loader)}
    case.check_equal(len(networks), 2, "and a network namespace of its own")
    links = [os.readlink(f"/proc/{daemon.loader}/fd/{fd}")
             for fd in os.listdir(f"/proc/{daemon.loader}/fd") if int(fd) > 2]
    case.check_equal(sum(link.startswith("socket:") for link in links), 1,
                     "and one socket, to the engine: none that clients could meet")
    case.check_equal({engine["NoNewPrivs"], loader["NoNewPrivs"]}, {"1"}, "neither can gain any")
    path = daemon.address.split(":", 1)[1]
    case.check_equal(os.stat(path).st_mode & 0o777, 0o660, "the socket is for its owner and group")
    case.check_balanced(daemon)


ringtail.run(main)
