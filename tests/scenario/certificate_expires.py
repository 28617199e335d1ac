"""Certificates that expire: the daemon's log and metrics say it of its own, doctor of both ends', before
it happens and after; and of tokens and keys that are open to others or hold nothing."""
import os
import re
import shutil
import time

import ringtail
from lib import http, tls

DAY_S = 86400


def main(case):
    server = tls.Server(case)           # for two days
    path, (alice,) = tls.tokens(case, "alice")
    daemon = case.daemon(*server.options(), f"--tokens={path}", "--viewer=cert:vera",
                         "--viewer=token:alice", "--viewer=user:root", "--http=127.0.0.1:0",
                         listen=["tcp:127.0.0.1:0", f"unix:{case.path('run')}/c.sock"])
    ca = ["--ca", server.server_ca.cert]
    vera = server.client("vera", days=90)
    case.check(re.search(r"\[tls-cert-expires\] tls-cert \S+ expires in (1 day|2 days)", daemon.log),
               "the daemon warns at its start", daemon.log)

    def doctor(code, *words, address=daemon.address, expect=()):
        done = case.start(os.path.join(ringtail.BUILD, "tracectl"), "--connect", address, *words,
                          "doctor").wait()
        case.check(done.code == code, f"doctor exits with {code}", done.out, done.err)
        for text in expect:
            case.check(re.search(text, done.out, re.M), f"it says: {text}", done.out)
        return done.out

    def put_cert(stem, days):
        cert, key = server.server_ca.issue(stem, names="IP:127.0.0.1", days=days)
        shutil.copyfile(cert, server.cert)
        shutil.copyfile(key, server.key)
        daemon.reload(r"\[reloaded\]")

    def expiry():
        text = http.get(daemon, "/metrics")[2]
        return float(re.search(r"^ringtail_collector_tls_cert_expiry_timestamp_seconds (\S+)", text,
                               re.M)[1])

    def await_days_left(days, what):    # for a moment, an answer from before is given again
        ringtail.wait_until(lambda: days - 0.1 < (expiry() - time.time()) / DAY_S <= days, what)

    await_days_left(2, "the gauge has its end")
    doctor(0, *vera, expect=[r"^warn  daemon's cert .* expires in (1 day|2 days), on 20..-",
                             r"-> give the daemon a new tls-cert, and systemctl reload",
                             r"^ok    certificate .* is valid until", r"^ok    key file",
                             r"^ok    daemon .*you may come as viewer"])
    put_cert("renewed", 90)
    case.check_equal(daemon.log.count("[tls-cert-"), 1, "a new one needs no warning")
    await_days_left(90, "the gauge has the new one's end")
    out = doctor(0, *vera, expect=[r"^ok    daemon's cert .* is valid until 20..-"])
    case.check("token file" not in out, "what was not given is not spoken of", out)

    soon, late = (server.client(name, subject="/CN=vera", days=days)
                  for name, days in (("soon", 20), ("late", -1)))
    doctor(0, *soon, expect=[r"^warn  certificate .* expires in (19|20) days",
                             r"-> get a new one from the authority of the daemon's tls-client-ca"])
    doctor(1, *late, expect=[r"^FAIL  certificate .*late.pem has expired on 20..-", r"^warn  daemon",
                             r"^no way in to the daemon until what fails is mended"])
    os.chmod(soon[5], 0o640)
    doctor(1, *soon, expect=[r"^FAIL  key file .* its group or others may read it",
                             r"-> chmod 0600"])
    os.chmod(soon[5], 0o644)
    doctor(1, *soon, expect=[r"^FAIL  key file .* others may read it"])

    doctor(0, *ca, "--token-file", alice, expect=[r"^ok    token file .* is ours alone"])
    os.chmod(alice, 0o660)
    doctor(1, *ca, "--token-file", alice, expect=[r"^FAIL  token file .* its group or others"])
    os.chmod(alice, 0o604)
    doctor(1, *ca, "--token-file", alice, expect=[r"^FAIL  token file .* others may read it",
                                                  r"-> chmod 0600; if somebody may have"])
    unix = f"unix:{case.path('run')}/c.sock"
    empty = tls.give(case.write("empty", ""), "root")
    doctor(1, "--token-file", empty, address=unix, expect=[r"^FAIL  token file .* holds no token",
                                                          r"-> `tracectl token NAME` makes one"])
    doctor(1, "--token-file", case.path("none"), address=unix,
           expect=[r"^FAIL  token file .*No such file", r"-> it is to be ours and of mode 0600"])
    out = doctor(0, *late, address=unix, expect=[r"^warn  certificate .* has expired", r"^ok    daemon"])
    case.check("daemon's cert" not in out, "at a unix socket the daemon shows no certificate", out)

    put_cert("expired", -1)
    case.check("[tls-cert-expired]" in daemon.log, "the daemon says it itself")
    await_days_left(-1, "in its metrics too")
    doctor(1, *vera, expect=[r"^FAIL  daemon's cert .* has expired on 20..-", r"check both clocks"])
    daemon.address = unix
    case.check_balanced(daemon)


ringtail.run(main)
