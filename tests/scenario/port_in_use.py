"""A tcp port that somebody has: ringtaild says which, exits with 1, and disturbs nobody."""
import socket

import ringtail


def main(case):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        done = case.refused("--source=bpf", "--insecure", listen=[f"tcp:127.0.0.1:{port}"])
        if "[bpf-no" in done.err:
            raise ringtail.Skip("no tracing here: the port is only bound when there is a source")
        case.check(done.code == 1 and "[listen-in-use]" in done.err and
                   f"127.0.0.1:{port}" in done.err
                   and "ss -ltnp" in done.err, "exit 1, which port, and how to find who has it",
                   done.code, done.err)
    daemon = case.daemon("--insecure", listen=["tcp:127.0.0.1:0"])
    case.check(daemon.address.startswith("tcp:127.0.0.1:") and not daemon.address.endswith(":0"),
               f"port 0 is any free one, and the log says which: {daemon.address}")
    done = case.refused("--source=bpf", "--insecure", listen=[daemon.address])
    case.check(done.code == 1 and "[listen-in-use]" in done.err, "a second daemon there is refused",
               done.err)
    load = case.load(1000)
    stream = case.start_stream(daemon, "-p", "syscall:getppid:call", "-f", load.filter, "-n",
                               "1000",
                               "-o", "none")
    ringtail.wait_until(lambda: any(client["probe"] for client in daemon.stat()["client"]),
                        "the stream is subscribed")
    load.run()
    case.check_stream(stream.wait(), events=1000)
    case.say("ok: the first one serves on, over tcp")
    case.check_balanced(daemon)


ringtail.run(main)
