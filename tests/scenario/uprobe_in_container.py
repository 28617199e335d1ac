"""A file that only the processes of a container see, by way of one of them: its links mean places in there."""
import json
import os

import ringtail
from lib import probed

TURNS = 100


def main(case):
    if os.geteuid():
        raise ringtail.Skip("only root can make a container")
    daemon = case.daemon()
    outside = probed.build(case, "outside", "-static")
    tree = case.path("tree")
    os.makedirs(f"{tree}/opt/app")
    # In the container, /bin/app leads to /opt/app/app; on the host, that is nothing.
    os.mkdir(f"{tree}/bin")
    os.symlink("/opt/app/app", f"{tree}/bin/app")
    program = probed.Probed("unshare", "--mount", "--propagation=private", "sh", "-c",
                            f"mount -t tmpfs none {tree}/opt/app && cp {outside} {tree}/opt/app/app && "
                            f"exec chroot {tree} /bin/app")
    case.check(not os.path.exists(f"{tree}/opt/app/app"), "the host does not see the file")
    for path in (f"/proc/{program.pid}/root/bin/app", f"/proc/{program.pid}/root/opt/app/app",
                 f"/proc/{program.pid}/exe"):
        stream = case.stream(daemon, "-p", f"uprobe:{path}:work", "-o", "json")
        program.turn(TURNS)
        stream.await_all(TURNS)
        done = stream.interrupt()
        case.check_stream(done, events=TURNS)
        events = [json.loads(line) for line in done.out.splitlines() if '"probe"' in line]
        case.check_equal({event["pid"] for event in events}, {program.pid}, f"{path}: its events")
    for path in ("/opt/app/app", f"{tree}/bin/app", f"/proc/{program.pid}/root/../../etc/no-such",
                 f"/proc/{program.pid}/fd/0", f"/proc/{program.pid}/cwd/opt/app/app"):
        refused = case.tracectl(daemon, "stream", "-p", f"uprobe:{path}:work")
        case.check("[probe-no-file]" in refused.err, f"{path} is no file here", refused.err)
    case.check_equal(program.end(), 0, "the program went on unharmed")
    case.check_balanced(daemon)


ringtail.run(main)
