"""Authentication that is only half there: no combination of options starts that should not."""
import itertools
import os
import subprocess

import ringtail
from lib import tls
from lib.process import PATIENCE_S

GIVEN = ("tls-cert", "tls-key", "tls-client-ca", "tokens")
ADDRESSES = {"unix": ["unix:/tmp/x"], "plain": ["tcp:127.0.0.1:7117", "insecure"],
             "loopback": ["tcp:127.0.0.1:7117"], "any": ["tcp:0.0.0.0:7117"],
             "both": ["unix:/tmp/x", "tcp:0.0.0.0:7117"],
             "mixed": ["tcp:127.0.0.1:7117", "tcp:0.0.0.0:7117", "insecure"]}
REPLAY = f"--source=replay:{os.path.join(ringtail.ROOT, 'tests', 'data', 'capture.rt')}"
RULES = {"none": [], "cert": ["cert:a"], "token": ["token:a"], "two": ["cert:a", "token:*"]}


def is_whole(given, place, rules):
    """Said once more, in other words than the daemon's."""
    cert, key, ca, tokens = (name in given for name in GIVEN)
    encrypted = {"unix": 0, "plain": 0, "loopback": 1, "any": 1, "both": 1, "mixed": 1}[place]
    if cert != key or (encrypted and not cert) or (cert and not encrypted):
        return False
    if (ca and not cert) or (encrypted and not (ca or tokens)):
        return False
    if place == "plain" and tokens:
        return False
    return ca == ("cert" in rules or rules == "two") and tokens == (rules in ("token", "two"))


def try_all(case):
    accepted = 0
    for bits, place, rules in itertools.product(itertools.product((0, 1), repeat=4), ADDRESSES,
                                                RULES):
        given = [name for name, bit in zip(GIVEN, bits) if bit]
        words = [f"--{name}=/x/{name}" for name in given]
        words += ["--insecure" if word == "insecure" else f"--listen={word}"
                  for word in ADDRESSES[place]]
        words += [f"--viewer={rule}" for rule in RULES[rules]]
        done = subprocess.run([os.path.join(ringtail.BUILD, "ringtaild"), "--config=/dev/null",
                               "--user=root", "--check-config", *words], capture_output=True, text=True,
                              timeout=PATIENCE_S, check=False)
        whole = is_whole(given, place, rules)
        if (done.returncode == 0) != whole or (not whole and (
                done.returncode != 2 or done.stderr.count("[") != 1 or ";" not in done.stderr)):
            case.check(False, f"{words}: {'whole' if whole else 'half'}", done.returncode,
                       done.stderr)
        accepted += whole
    case.say(f"ok: of {16 * len(ADDRESSES) * len(RULES)} combinations {accepted} are whole, and "
             "each of the others is refused with what to do")
    case.check(accepted >= 8, "some are whole", accepted)


def main(case):
    try_all(case)
    for rule, code in (("alice", "rule-unknown"), ("cert:", "rule-unknown"),
                       ("user:no-such-user-here", "rule-nobody"),
                       ("group:no-such-group-here", "rule-nobody"), ("everybody:x", "rule-unknown")):
        done = case.refused(REPLAY, f"--viewer={rule}")
        case.check(done.code and f"[{code}]" in done.err, f"viewer = {rule}: {code}", done.err)
    done = case.refused(REPLAY, "--operator=local", "--insecure")
    case.check(done.code == 2 and "[rule-local-operator]" in done.err, "local is no operator",
               done.err)

    server = tls.Server(case)
    other_cert, other_key = server.server_ca.issue("other")
    secret = case.write("secret.key", "")
    subprocess.run(["openssl", "pkey", "-in", server.key, "-aes256", "-passout", "pass:x", "-out",
                    secret], check=True)
    tokens, _ = tls.tokens(case, "alice")
    garbage = case.write("garbage.pem", "-----BEGIN CERTIFICATE-----\nAAAA\n")

    def copy(name, path, **how):
        with open(path) as file:
            return tls.give(case.write(name, file.read()), **how)

    def refused(code, words="", cert=server.cert, key=server.key, ca=server.client_ca.cert,
                tokens=None):
        done = case.refused(REPLAY, f"--tls-cert={cert}", f"--tls-key={key}",
                            f"--tls-client-ca={ca}", "--viewer=cert:*",
                            *([f"--tokens={tokens}", "--viewer=token:*"] if tokens else []),
                            listen=["tcp:127.0.0.1:0"])
        said = [line for line in done.err.splitlines() if f"[{code}]" in line and words in line]
        case.check(done.code and said, f"{code}: {said}", done.code, done.err)

    refused("tls-cert", "No such file", cert=case.path("none"))
    refused("tls-cert", cert=garbage)
    refused("secret-file", "No such file", key=case.path("none"))
    refused("tls-key", key=tls.give(garbage))
    refused("tls-key", "passphrase", key=tls.give(secret))
    refused("tls-key-mismatch", key=tls.give(other_key))
    refused("tls-client-ca", ca=case.path("none"))
    refused("secret-file-open", "everybody", key=copy("open.key", server.key, mode=0o644))
    refused("secret-file-open", "everybody", tokens=copy("open", tokens, mode=0o604))
    refused("secret-file-open", "open to others", tokens=copy("group", tokens, mode=0o660))
    refused("tokens-none", tokens=tls.give(case.write("empty", "# nobody\n")))
    refused("tokens-line", ":2:", tokens=tls.give(case.write("bad", "# x\nalice:md5:00\n")))
    refused("tokens-line", "64 hex", tokens=tls.give(case.write("short", "alice:sha256:00\n")))
    if os.geteuid() == 0:
        refused("secret-file", "denied", key=copy("roots.key", server.key, user="root"))
        refused("secret-file-open", "somebody else",
                tokens=theirs(case, tokens))

    cert, key = server.server_ca.issue("late", names="IP:127.0.0.1", days=-1)
    daemon = case.daemon(f"--tls-cert={cert}", f"--tls-key={tls.give(key)}",
                         f"--tls-client-ca={server.client_ca.cert}", "--viewer=cert:*",
                         listen=["tcp:127.0.0.1:0", f"unix:{case.path('run')}/late.sock"])
    case.check("[tls-cert-expired]" in daemon.log, "an expired certificate is warned of")
    daemon.trust = server.client("vera")
    done = case.tracectl(daemon, "probes")
    case.check(done.code == 1 and "[server-untrusted]" in done.err and "expired" in done.err,
               "and clients refuse it", done.err)
    daemon.address, daemon.trust = f"unix:{case.path('run')}/late.sock", []
    case.check_balanced(daemon)


def theirs(case, tokens):
    """A file that the daemon's user could read, of somebody who is neither that user nor root."""
    import pwd
    with open(tokens) as file:
        path = case.write("theirs", file.read())
    os.chown(path, pwd.getpwnam("daemon").pw_uid, pwd.getpwnam(ringtail.ENGINE_USER).pw_gid)
    os.chmod(path, 0o640)
    return path


ringtail.run(main)
