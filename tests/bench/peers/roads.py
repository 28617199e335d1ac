"""roads: the ways to ringtaild: its unix socket, plain TCP and TLS 1.3, both over loopback."""
import os
import pwd

from .host import free_port, run

CLIENT = "bench"
ENGINE_USER = "nobody"  # to run as: every machine has it


class Road:
    """Where the daemon listens, with which options, and with which words tracectl finds it."""

    def __init__(self, address, options=(), words=()):
        self.address, self.options, self.words = address, list(options), list(words)


def tcp():
    return Road(f"tcp:127.0.0.1:{free_port()}", ["--insecure", "--viewer-rate=0"], ["--insecure"])


def tls(bench):
    """The daemon and the client each have a certificate."""
    authority = _authority(bench.work)
    cert, key = _issue(bench.work, authority, "server", "subjectAltName=IP:127.0.0.1")
    their_cert, their_key = _issue(bench.work, authority, CLIENT, "basicConstraints=CA:FALSE")
    engine = pwd.getpwnam(ENGINE_USER)
    os.chown(key, engine.pw_uid, engine.pw_gid)
    return Road(f"tcp:127.0.0.1:{free_port()}",
                ["--tls-cert", cert, "--tls-key", key, "--tls-client-ca",
                 authority[0], "--viewer", f"cert:{CLIENT}", "--viewer-rate=0"],
                ["--ca", authority[0], "--cert", their_cert, "--key", their_key])


def _new_key(key):
    return ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", key]


def _authority(work):
    cert, key = work / "authority.pem", work / "authority.key"
    run(["openssl", "req", "-x509", *_new_key(key), "-out", cert, "-days", 2, "-subj",
         "/CN=authority", "-addext", "basicConstraints=critical,CA:TRUE"])
    cert.chmod(0o644)
    return cert, key


def _issue(work, authority, name, extension):
    cert, key, request, more = (work / f"{name}.{end}" for end in ("pem", "key", "csr", "ext"))
    more.write_text(extension + "\n")
    run(["openssl", "req", *_new_key(key), "-out", request, "-subj", f"/CN={name}"])
    run(["openssl", "x509", "-req", "-in", request, "-CA", authority[0], "-CAkey", authority[1],
         "-CAcreateserial", "-out", cert, "-days", 2, "-extfile", more])
    cert.chmod(0o644)
    return cert, key
