"""A unix socket on which a daemon answers is not taken from it."""
import os

import ringtail


def main(case):
    daemon = case.daemon()
    done = case.refused("--source=bpf", listen=[daemon.address])
    case.check(done.code == 1 and "[listen-in-use]" in done.err and daemon.address in done.err,
               "a second daemon there is refused, and says where", done.code, done.err)
    case.check_balanced(daemon)
    path = daemon.address.split(":", 1)[1]
    case.check_equal(daemon.stop(), 0, "the first one ends")
    case.check(not os.path.exists(path), "and takes its socket with it")
    file = case.write("a-file", "not a socket")
    done = case.refused("--source=bpf", listen=[f"unix:{file}"])
    case.check(done.code == 1 and "[listen-bind]" in done.err, "a file in the way is refused",
               done.err)
    with open(file) as kept:
        case.check_equal(kept.read(), "not a socket", "and left alone")
    done = case.refused("--source=bpf", listen=[f"unix:{case.dir}/no/such/dir/s.sock"])
    case.check(done.code == 1 and "[listen-directory]" in done.err,
               "a directory that is not there is said to be missing", done.err)


ringtail.run(main)
