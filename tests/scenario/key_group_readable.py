"""tracectl shows neither a key nor a token that its group may read, as it does not one that others may; and
a token that has a NUL in it is not cut there."""
import os

import ringtail
from lib import tls


def main(case):
    server = tls.Server(case)
    path, (alice,) = tls.tokens(case, "alice")
    daemon = case.daemon(*server.options(), f"--tokens={path}", "--viewer=cert:vera",
                         "--viewer=token:alice", listen=["tcp:127.0.0.1:0"])
    vera = server.client("vera")
    by_token = ["--ca", server.server_ca.cert, "--token-file", alice]

    def stat(words):
        return case.start(os.path.join(ringtail.BUILD, "tracectl"), "--connect", daemon.address, *words,
                          "stat", "-o", "json").wait()

    for words, secret in (vera, vera[5]), (by_token, alice):
        for mode in (0o640, 0o620, 0o610, 0o660, 0o604, 0o644):
            os.chmod(secret, mode)
            done = stat(words)
            case.check(done.code == 1 and "[open-secret]" in done.err and "chmod 0600" in done.err and
                       not done.out, f"{os.path.basename(secret)}, {mode:04o}: it is refused", done.err)
        for mode in (0o600, 0o400):
            os.chmod(secret, mode)
            case.check_equal(stat(words).code, 0, f"{os.path.basename(secret)}, {mode:04o}: it is shown")
    with open(alice, "rb") as file:
        token = file.read()
    os.chmod(alice, 0o600)
    with open(alice, "wb") as file:
        file.write(token.rstrip(b"\n") + b"\0more\n")
    done = stat(by_token)
    case.check(done.code == 1 and "[bad-token-file]" in done.err, "nor is a token that is cut", done.err)


ringtail.run(main)
