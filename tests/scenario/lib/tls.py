"""tls: authorities and certificates made with openssl(1), and a client made by hand inside TLS."""
import os
import socket
import ssl
import subprocess

from . import wire
from .process import ENGINE_USER

EXPIRED = ["-days", "-1"]


def _openssl(*words):
    subprocess.run(["openssl", *words], check=True, stdout=subprocess.DEVNULL,
                   stderr=subprocess.PIPE)


class Authority:
    """One that signs; `cert` is the path of its own certificate."""

    def __init__(self, case, name):
        self.case, self.name = case, name
        self.cert, self.key = case.path(f"{name}.pem"), case.path(f"{name}.key")
        _openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                 "-keyout", self.key, "-out", self.cert, "-days", "2", "-subj", f"/CN={name}",
                 "-addext", "basicConstraints=critical,CA:TRUE")
        os.chmod(self.cert, 0o644)

    def issue(self, stem, subject=None, names="", days=2, rsa=None):
        """A certificate and key, as paths; `names`: of a server, as "IP:127.0.0.1,DNS:host". `rsa`: the
        bits of a key that is dear to sign with."""
        cert, key, request = (self.case.path(f"{stem}.{end}") for end in ("pem", "key", "csr"))
        extensions = self.case.write(f"{stem}.ext", f"subjectAltName={names}\n" if names else
                                     "basicConstraints=CA:FALSE\n")
        kind = [f"rsa:{rsa}"] if rsa else ["ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
        _openssl("req", "-newkey", *kind, "-nodes", "-keyout", key, "-out", request, "-subj",
                 subject or f"/CN={stem}")
        _openssl("x509", "-req", "-in", request, "-CA", self.cert, "-CAkey", self.key, "-out", cert,
                 "-CAcreateserial", "-days", str(days), "-extfile", extensions)
        os.chmod(cert, 0o644)
        return cert, key


    def revoke(self, *certs):
        """Takes them back; the path of the list, which has all that were taken back before."""
        index, config, crl = (self.case.path(f"{self.name}.{end}") for end in ("index", "cnf", "crl"))
        if not os.path.exists(config):
            self.case.write(f"{self.name}.index", "")
            self.case.write(f"{self.name}.cnf", "[ca]\ndefault_ca = this\n[this]\n"
                            f"database = {index}\ncertificate = {self.cert}\nprivate_key = {self.key}\n"
                            "default_md = sha256\ndefault_crl_days = 2\n")
        for cert in certs:
            _openssl("ca", "-config", config, "-revoke", cert)
        _openssl("ca", "-config", config, "-gencrl", "-out", crl)
        os.chmod(crl, 0o644)
        return crl


def give(path, user=ENGINE_USER, mode=0o600):
    """The file belongs to whom the daemon becomes."""
    if os.geteuid() == 0:
        import pwd
        entry = pwd.getpwnam(user)
        os.chown(path, entry.pw_uid, entry.pw_gid)
    os.chmod(path, mode)
    return path


class Server:
    """What a daemon with TLS is started with; each client is known by a certificate."""

    def __init__(self, case, names="IP:127.0.0.1,DNS:localhost", rsa=None):
        self.case = case
        self.server_ca, self.client_ca = Authority(case, "server-ca"), Authority(case, "client-ca")
        self.cert, self.key = self.server_ca.issue("server", names=names, rsa=rsa)
        give(self.key)

    def options(self, clients=True):
        return [f"--tls-cert={self.cert}", f"--tls-key={self.key}",
                *([f"--tls-client-ca={self.client_ca.cert}"] if clients else [])]

    def client(self, name, **more):
        """The words for tracectl."""
        cert, key = self.client_ca.issue(name, **more)
        return ["--ca", self.server_ca.cert, "--cert", cert, "--key", key]


class Connection(wire.Connection):
    """As wire.Connection, inside TLS. `trust`: as Server.client() gives it."""

    def __init__(self, address, trust, receive_bytes=None):
        super().__init__(address, receive_bytes)
        words = dict(zip(trust[::2], trust[1::2]))
        context = ssl.create_default_context(cafile=words["--ca"])
        if "--cert" in words:
            context.load_cert_chain(words["--cert"], words["--key"])
        self.plain = self.socket
        self.socket = context.wrap_socket(self.socket, server_hostname="127.0.0.1")


def tokens(case, *names):
    """A tokens file, and the token files of those clients."""
    lines, files = [], []
    for name in names:
        done = case.tracectl(None, "token", name)
        lines.append(done.err.strip())
        files.append(case.write(f"{name}.token", done.out))
        os.chmod(files[-1], 0o600)
    path = case.write("tokens", "\n".join(lines) + "\n")
    return give(path), files
