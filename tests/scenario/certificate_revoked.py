"""Certificates that are revoked while the relay runs: a reload with the list (CRL) disconnects that client and that agent,
and lets neither of them in again; the others stay. A list that is damaged changes nothing."""
import os
import ssl

import ringtail
from lib import fleet, tls


def main(case):
    parts = fleet.Fleet(case)
    authority = parts.server.client_ca
    crl = authority.revoke()
    relay = case.daemon(*parts.relay_options(f"--tls-crl={crl}", "--viewer=cert:v*", "--viewer=user:root"), source="none",
                        listen=["tcp:127.0.0.1:0", f"unix:{case.path('run')}/c.sock"])
    address, relay.address = relay.address, f"unix:{case.path('run')}/c.sock"
    files = {name: parts.agent_files(name) for name in ("web-1", "web-2")}
    words = ["--probe=syscall:getppid:call", f'--filter=comm == "{case.own_comm}"']
    agents = {name: case.daemon(*parts.agent_options(name, *words, files=files[name])) for name in files}
    vera, victor = parts.server.client("vera"), parts.server.client("victor")

    def connected():
        done = case.tracectl(relay, "list", "hosts", "-o", "json")
        return sorted(host["host"] for host in done.lines if host["connected"])

    for name in files:
        relay.wait_for(rf"\[agent-came\] the host {name} is connected")
    with tls.Connection(address, vera) as first, tls.Connection(address, victor) as second:
        first.greet()
        second.greet()
        authority.revoke(files["web-1"][0], vera[3])
        relay.reload(r"\[reloaded\]")
        case.check_equal(first.await_frame("Error").values["code"], "certificate-revoked", "that client is told why")
        case.check(first.frame() is None, "it is disconnected")
        case.check(second.stat(), "the other one is served")
        relay.wait_for(r"\[agent-refused\] agent web-1 \S+ \[certificate-revoked\]")
        agents["web-1"].wait_for(r"\[relay-failed\].*revoked")
        case.check_equal(connected(), ["web-2"], "the other agent stays")
        case.check("agent web-2" not in relay.log and "relay-left" not in agents["web-2"].log, "it was not disconnected",
                   relay.log)
    done = case.start(os.path.join(ringtail.BUILD, "tracectl"), "--connect", address, *vera, "probes").wait()
    case.check(done.code == 1 and "revoked" in done.err, "who is revoked does not come back", done.err)
    case.write(os.path.basename(crl), "-----BEGIN X509 CRL-----\nAAAA\n-----END X509 CRL-----\n")
    relay.reload(r"\[reload-refused\]")
    case.check("[tls-crl]" in relay.log, "a damaged list is refused", relay.log)
    try:
        with tls.Connection(address, vera) as connection:
            case.check(connection.frame() is None, "the one before counts")
    except ssl.SSLError as error:
        case.check("REVOKED" in str(error).upper(), "the one before counts", error)
    case.check_equal(connected(), ["web-2"], "nothing else has changed")
    for agent in agents.values():
        case.check_balanced(agent)
    case.check_balanced(relay)


ringtail.run(main)
