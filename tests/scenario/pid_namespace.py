"""A PID namespace of its own, as in a container without --pid=host: the daemon would record itself, so it says so."""
import contextlib
import os
import shutil
import signal

import ringtail


def main(case):
    if os.geteuid() or not shutil.which("unshare"):
        raise ringtail.Skip("a PID namespace takes root and unshare")
    inside = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]
    probe = case.start(*inside, "true").wait()
    if probe.code:
        raise ringtail.Skip(f"namespaces are not allowed here: {probe.err.strip()}")
    done = case.refused("--source=auto", before=inside)
    case.check(done.code == 1 and "[pid-namespace]" in done.err and "--pid=host" in done.err and
               "hostPID" in done.err, "exit 1: why, and how a container is started instead", done.code, done.err)
    done = case.start(*inside, os.path.join(ringtail.BUILD, "tracectl"), "doctor").wait()
    case.check("PID namespace" in done.out and "--pid=host" in done.out, "tracectl doctor says it too", done.out)
    asked = case.start_daemon("--source=bpf", "--trace-self", before=inside)
    asked.ended = True

    def ready():
        if not asked.running and any(code in asked.log for code in ringtail.CANNOT_TRACE):
            raise ringtail.Skip("no tracing here")
        return "[ready]" in asked.log
    ringtail.wait_until(ready, "with trace-self it starts all the same")
    for pid in ringtail.running(asked.path["out"].removesuffix(".out") + ".conf"):
        with contextlib.suppress(ProcessLookupError):       # the end of one ends those that are left in its namespace
            os.kill(pid, signal.SIGKILL)    # unshare's --kill-child ends none that has changed its user
    asked.wait()


ringtail.run(main)
