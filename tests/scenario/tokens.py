"""TLS with tokens: who shows a token of the file comes in by its name; others are told so."""
import os

import ringtail
from lib import tls, wire


def main(case):
    server = tls.Server(case)
    path, (alice, bob) = tls.tokens(case, "alice", "bob")
    with open(path) as file:
        lines = file.read()
    with open(alice) as file:
        secret = file.read().strip()
    case.check(lines.startswith("alice:sha256:") and secret not in lines and len(secret) == 46,
               "the file holds the token's digest, not the token", lines)
    daemon = case.daemon(*server.options(clients=False), f"--tokens={path}",
                         "--operator=token:alice", "--viewer=token:b*", "--viewer=user:root",
                         listen=["tcp:127.0.0.1:0", f"unix:{case.path('run')}/t.sock"])
    ca = ["--ca", server.server_ca.cert]

    def ask(*words, address=daemon.address, **options):
        return case.start(os.path.join(ringtail.BUILD, "tracectl"), "--connect", address, *words,
                          **options).wait()

    def refused(code, *words, **options):
        done = ask(*words, "probes", **options)
        case.check(done.code == 1 and f"[{code}]" in done.err, f"{code}: {done.err.strip()}",
                   done.err)

    done = ask(*ca, "--token-file", alice, "enable", "syscall:getppid:call")
    case.check(done.code == 0 and "token:alice" in done.out, "an operator's token", done.err)
    done = ask(*ca, "--token-file", bob, "probes")
    case.check(done.code == 0 and "syscall:getppid:call" in done.out, "a viewer's token", done.err)
    done = ask(*ca, "--token-file", bob, "disable", "syscall:getppid:call")
    case.check(done.code == 1 and "[not-allowed]" in done.err and "token:bob" in done.err,
               "it is no operator's", done.err)
    done = ask(*ca, "probes", env={**os.environ, "RINGTAIL_TOKEN_FILE": bob})
    case.check_equal(done.code, 0, "the environment may name the file too")
    done = ask("--token-file", bob, "probes", address=f"unix:{case.path('run')}/t.sock")
    case.check_equal(done.code, 0, "a token works over a unix socket")

    refused("not-authenticated", *ca)
    wrong = case.write("wrong.token", "rt_" + "A" * 43 + "\n")
    os.chmod(wrong, 0o600)
    refused("bad-token", *ca, "--token-file", wrong)
    refused("bad-token", "--token-file", wrong, address=f"unix:{case.path('run')}/t.sock")
    os.chmod(wrong, 0o644)
    refused("open-secret", *ca, "--token-file", wrong)
    refused("no-secret", *ca, "--token-file", case.path("none"))
    refused("bad-token-file", *ca, "--token-file", tls.give(case.write("empty", "\n"), "root"))
    refused("token-in-clear", "--insecure", "--token-file", alice)
    done = case.tracectl(None, "token", "a:b")
    case.check(done.code == 2 and "[bad-name]" in done.err and not done.out,
               "a token's name has no colon", done.err)

    # A reload with bob's line taken out sends him away, and nobody else.
    trusts = []
    for token in (alice, bob):
        with open(token) as file:
            connection = tls.Connection(daemon.address, ca)
            connection.send(wire.hello(token=file.read().strip()))
            connection.await_frame("ServerHello")
            connection.stat()
            trusts.append(connection)
    with open(path, "w") as file:
        file.write(lines.splitlines()[0] + "\n")
    daemon.reload(r"\[reloaded\]")
    error = trusts[1].await_frame("Error").values
    case.check(error["code"] == "not-allowed" and error["fatal"] and "token:bob" in error["what"],
               f"he is told: {error['what']}", error)
    case.check(trusts[0].stat()["ring"], "the other one stays connected")
    refused("bad-token", *ca, "--token-file", bob)
    tls.give(path, mode=0o644)
    daemon.reload(r"\[reload-refused\]")
    case.check("[secret-file-open]" in daemon.log, "a file that others can read is not taken")
    case.check(trusts[0].stat()["ring"], "and all stays as it was")
    for connection in trusts:
        connection.close()
    daemon.address, daemon.trust = f"unix:{case.path('run')}/t.sock", []
    counters = daemon.stat()["counters"]
    case.check(counters["sessions_denied"] >= 5, "each is counted", counters)
    case.check_balanced(daemon)


ringtail.run(main)
