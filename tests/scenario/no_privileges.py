"""Without the privileges: what is missing, and how to grant it; with just that, it works."""
import os
import shutil

import ringtail


def main(case):
    if os.geteuid():
        raise ringtail.Skip("only root can give up privileges, and grant single ones")
    if not shutil.which("setpriv"):
        raise ringtail.Skip("setpriv is not installed")
    run = case.path("run")
    os.mkdir(run)
    os.chown(run, 65534, 65534)
    nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]

    def caps(*names):
        words = ",".join(f"+{name}" for name in names)
        return [*nobody, f"--inh-caps=-all{',' + words if words else ''}",
                *([f"--ambient-caps={words}"] if words else []), "--bounding-set=-all," + words
                if words else "--bounding-set=-all"]

    for names, missing in (((), "CAP_BPF and CAP_PERFMON"), (("bpf",), "CAP_PERFMON"),
                           (("perfmon",), "CAP_BPF")):
        done = case.refused("--source=bpf", before=caps(*names))
        case.check(done.code == 1 and "[bpf-no-capability]" in done.err and
                   f"lacks {missing}," in done.err and "setcap" in done.err and
                   "AmbientCapabilities" in done.err,
                   f"with {' and '.join(names) or 'nothing'}: lacks {missing}, and how to grant it",
                   done.code, done.err)
    done = case.refused("--source=auto", before=caps())
    case.check(done.code == 1 and "[bpf-no-capability]" in done.err, "--source=auto says the same",
               done.err)

    daemon = case.daemon(before=caps("bpf", "perfmon"))
    case.say("ok: with CAP_BPF and CAP_PERFMON alone it comes up, as nobody")
    for pid, name, wanted in ((daemon.pid, "engine", 0), (daemon.loader, "loader", 3 << 38)):
        with open(f"/proc/{pid}/status") as status:
            lines = dict(line.split(":\t", 1) for line in status)
        case.check_equal(int(lines["CapEff"], 16), wanted,
                         f"the {name} has capabilities {wanted:#x}")
        case.check_equal(lines["NoNewPrivs"].strip(), "1", f"and the {name} can gain no more")
    load = case.load(1000)
    stream = case.stream(daemon, "-p", "syscall:getppid:call", "-f", load.filter, "-o", "none")
    load.run()
    stream.await_all(1000)
    case.check_balanced(daemon)
    case.check_stream(stream.interrupt(), events=1000)


ringtail.run(main)
