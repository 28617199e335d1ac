"""Plain tcp is for loopback alone: other addresses are refused, other namespaces out of reach."""
import os
import shutil

import ringtail


def main(case):
    for address in ("tcp:0.0.0.0:0", "tcp:10.1.2.3:7117", "tcp:[::]:0", "tcp:[fe80::1]:7117"):
        for flags in ([], ["--insecure"]):
            done = case.refused(*flags, listen=[address])
            case.check(done.code == 2 and "[listen-needs-tls]" in done.err and
                       "loopback" in done.err and
                       "ssh" in done.err,
                       f"{address} {' '.join(flags)}: refused, and what to do instead",
                       done.code, done.err)
    done = case.refused(listen=["tcp:127.0.0.1:0"])
    case.check(done.code == 2 and "[listen-needs-insecure]" in done.err and
               "--insecure" in done.err,
               "loopback without --insecure: refused, and how to allow it", done.err)
    done = case.refused("--insecure", listen=["tcp:example.org:7117"])
    case.check(done.code == 2 and "[address-bad-host]" in done.err, "names are not looked up",
               done.err)

    if os.geteuid() or not shutil.which("unshare"):
        raise ringtail.Skip("the rest takes root and unshare")
    inside = ["unshare", "-n", "sh", "-c", 'ip link set lo up; exec "$@"', "sh"]
    probe = case.start(*inside, "true").wait()
    if probe.code:
        raise ringtail.Skip(f"no network namespaces here: {probe.err.strip()}")
    daemon = case.daemon("--insecure", listen=["tcp:127.0.0.1:0"])
    tracectl = [os.path.join(ringtail.BUILD, "tracectl"), "--connect", daemon.address,
                "--insecure", "stat"]
    case.check_balanced(daemon)
    done = case.start(*inside, *tracectl).wait()
    case.check(done.code == 1 and "[refused]" in done.err and daemon.address in done.err and
               "--listen" in done.err, "from another namespace: nobody listens there", done.err)
    path = f"unix:{case.path('run')}/over.sock"
    other = case.daemon(listen=[path], before=inside)
    case.check_balanced(other)
    case.say("ok: a unix socket works across namespaces")
    load = case.load(500)
    stream = case.stream(other, "-p", "syscall:getppid:call", "-f", load.filter, "-o", "none")
    load.run()
    stream.await_all(500)
    case.check_stream(stream.interrupt(), events=500)
    case.say("ok: and the daemon there traces the whole machine")


ringtail.run(main)
