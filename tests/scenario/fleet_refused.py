"""What an agent is told to do: of a certificate that the relay does not trust or that has expired, of a name that
cannot be a host's, of an address that is no relay's or nobody's; and a client at the relay's address."""
import os

import ringtail
from lib import fleet, tls


def main(case):
    parts = fleet.Fleet(case)
    relay = parts.relay()
    plain = case.daemon(*parts.server.options(), "--viewer=cert:vera", source="none",
                        listen=["tcp:127.0.0.1:0"])
    stranger = tls.Authority(case, "stranger-ca")

    def refused(name, expect, more=(), **files):
        options = [word for word in parts.agent_options(name, **files)
                   if word.split("=")[0] not in [other.split("=")[0] for other in more]]
        agent = case.daemon(*options, *more, source="none")
        agent.wait_for(r"\[relay-failed\].*" + expect)
        case.check("relay-connected" not in agent.log, f"{name} is told: {expect}", agent.log)
        case.check_balanced(agent)
        agent.stop()

    refused("no-one", r"\[tls-refused\].*tls-client-ca", files=parts.agent_files("no-one", stranger))
    refused("old", r"\[tls-refused\].*expired", files=parts.agent_files("old", days=-1))
    refused("bad", r"\[agent-name\].*common name", files=parts.agent_files("bad", subject="/CN=..bad"))
    refused("lost", r"listen-agents", port=int(plain.address.rsplit(":", 1)[1]))
    refused("wary", r"\[tls-handshake\].*relay-ca", more=[f"--relay-ca={stranger.cert}"])
    refused("alone", r"\[relay-unreachable\].*refused", port=fleet.free_port())
    relay.wait_for(r"\[agent-tls\].*certificate")
    client = [os.path.join(ringtail.BUILD, "tracectl"), "--connect", f"tcp:127.0.0.1:{parts.port}",
              *parts.server.client("vera"), "stat"]
    done = case.start(*client).wait()
    case.check(done.code == 1 and "this address is for agents" in done.err, "a client is told", done.err)
    for options, code in (([word for word in parts.agent_options("forgetful") if "durability" not in word],
                           "relay-needs-durability"),
                          (["--relay=tls:r.example:1", "--durability=fsync"], "relay-needs-tls"),
                          (["--relay=r.example:1"], "address-bad-family"),
                          (["--listen-agents=tls:127.0.0.1:0"], "listen-agents-needs-tls"),
                          (["--listen-agents=tcp:127.0.0.1:0"], "address-bad-family"),
                          (["--relay-ca=x"], "relay-unused")):
        done = case.refused(*options)
        case.check(done.code and f"[{code}]" in done.err, f"{options[-1]}: {code}", done.err)
    case.check_balanced(relay)


ringtail.run(main)
