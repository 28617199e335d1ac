#!/usr/bin/env python3
"""demo-fleet: two hosts, a relay, a courier and three Kafka brokers on this machine; one question over both hosts, a
broker killed meanwhile, and every ledger closed at the end.

    demo_fleet.py [BUILD]

    web-1, a network namespace ── TLS ──┐
                                        ├──► relay ──► courier ──► Kafka: brokers 1, 2, 3 ──► tracectl
    web-2, a network namespace ── TLS ──┘

Everything is in network namespaces of its own and in one temporary directory; all that was started is ended, by its
pid. Where it cannot run it says why, and exits with 77.
"""
import json
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(1, os.path.join(HERE, "fleet"))

import brokers  # noqa: E402

BUILD = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else "build")
INSIDE = "RINGTAIL_DEMO_FLEET"          # set where it runs in a network namespace of its own
HOSTS = {"web-1": "10.77.1", "web-2": "10.77.2"}
RELAY_PORT = 7119
PORTS = range(9092, 9098)
FILES = ("prices.conf", "stock.conf", "coupons.conf")
MISSING = ("web-2", "coupons.conf")     # what the question is to find
ROUNDS = (300, 900)                     # of opening each file: before the broker dies, and while it does
ROUND_S = 0.01
PATIENCE_S = 100
CANNOT = 77

# The program on each host: it opens each file again and again, and says when it has done so as often as it is told.
SHOP = """
import sys, time
with open("/proc/self/comm", "w") as name:
    name.write(sys.argv[1])
for line in sys.stdin:
    for _ in range(int(line)):
        for path in sys.argv[3:]:
            try:
                open(path).close()
            except FileNotFoundError:
                pass
        time.sleep(float(sys.argv[2]))
    print("done", flush=True)
"""


class Cannot(Exception):
    """It cannot run here, and why."""


class Broken(Exception):
    """Something is not as it should be."""


def title(text):
    print(f"\n== {text}", flush=True)


def say(text):
    print(textwrap.fill(text, 100, initial_indent="   ", subsequent_indent="   "), flush=True)


def show(text, lines=12):
    for line in text.strip().splitlines()[:lines]:
        print(f"      {line}", flush=True)


def run(*words, **more):
    return subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False, **more)


def must(*words, **more):
    done = run(*words, **more)
    if done.returncode:
        raise Broken(f"{' '.join(words)}: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout


def await_(condition, what):
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        if time.monotonic() > deadline:
            raise Broken(f"{what}: not after {PATIENCE_S} s")
        time.sleep(0.2)


# ---- Whether it can run -------------------------------------------------------------------------------------------

def enter():
    """Once more, in a network namespace of its own; after all that takes the network."""
    if os.geteuid():
        raise Cannot("it traces the kernel and makes network namespaces, which takes root: sudo make demo-fleet")
    for program, package in (("ip", "iproute2"), ("unshare", "util-linux"), ("nsenter", "util-linux"),
                             ("openssl", "openssl")):
        if not shutil.which(program):
            raise Cannot(f"there is no {program}: apt-get install {package}")
    for name in "ringtaild", "tracectl", "ringtail-courier", "ringtail-kafka", "tools/kafka_topic":
        if not os.path.exists(os.path.join(BUILD, name)):
            raise Cannot(f"there is no {BUILD}/{name}: make")
    tried = run("unshare", "--net", "ip", "link", "add", "here", "type", "veth", "peer", "name", "there")
    if tried.returncode:
        raise Cannot(f"no network namespaces with veth(4) can be made here: {tried.stderr.strip()}")
    try:
        if not brokers.is_here():
            say("Maven fetches Kafka's jars from Maven Central, once.")
        brokers.fetch()
    except brokers.Unavailable as why:
        raise Cannot(f"{why}; `sh .ci/deps.sh more` installs Java and Maven, and Maven needs the network once") \
            from None
    sys.stdout.flush()
    os.execvpe("unshare", ["unshare", "--net", sys.executable, os.path.abspath(__file__), BUILD],
               {**os.environ, INSIDE: "1"})


def user():
    """Whom the daemons become: ringtail, where it is installed, else nobody."""
    names = {entry.pw_name: entry for entry in pwd.getpwall()}
    return names.get("ringtail") or names["nobody"]


# ---- The parts ----------------------------------------------------------------------------------------------------

class Part:
    """A program that runs; what it says is in a file."""

    def __init__(self, demo, name, *words, **more):
        self.name, self.log = name, demo.path(f"{name}.log")
        with open(self.log, "w") as log:
            self.process = subprocess.Popen(words, stdout=more.pop("stdout", log), stderr=log,
                                            stdin=more.pop("stdin", subprocess.DEVNULL), **more)
        demo.parts.append(self)

    def text(self):
        with open(self.log) as log:
            return log.read()

    def await_said(self, what):
        await_(lambda: what in self.text() or self.process.poll() is not None, f"{self.name} says {what}")
        if what not in self.text():
            raise Broken(f"{self.name} has ended: {self.text().strip()}")
        return self

    def end(self, number=signal.SIGTERM):
        """How it ended."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        try:
            return self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait()


class Demo:
    def __init__(self, directory):
        self.directory, self.parts, self.user = directory, [], user()
        self.cluster = self.relay = self.courier = None
        self.agents, self.shops, self.opened = {}, {}, 0

    def path(self, *names):
        return os.path.join(self.directory, *names)

    def close(self):
        for part in reversed(self.parts):
            part.end(signal.SIGKILL)
        if self.cluster:
            self.cluster.stop()

    # -- Certificates

    def authority(self, name):
        must("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout",
             self.path(f"{name}.key"), "-out", self.path(f"{name}.pem"), "-days", "2", "-subj", f"/CN={name}")

    def certificate(self, name, authority, extension="basicConstraints=CA:FALSE"):
        with open(self.path(f"{name}.ext"), "w") as file:
            file.write(extension + "\n")
        must("openssl", "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout",
             self.path(f"{name}.key"), "-out", self.path(f"{name}.csr"), "-subj", f"/CN={name}")
        must("openssl", "x509", "-req", "-in", self.path(f"{name}.csr"), "-CA", self.path(f"{authority}.pem"), "-CAkey",
             self.path(f"{authority}.key"), "-out", self.path(f"{name}.pem"), "-CAcreateserial", "-days", "2",
             "-extfile", self.path(f"{name}.ext"))
        os.chown(self.path(f"{name}.key"), self.user.pw_uid, self.user.pw_gid)
        os.chmod(self.path(f"{name}.key"), 0o600)
        return [f"--tls-cert={self.path(name)}.pem", f"--tls-key={self.path(name)}.key"]

    # -- Programs

    def daemon(self, name, *words, inside=()):
        sock = self.path(f"{name}.sock")
        return Part(self, name, *inside, os.path.join(BUILD, "ringtaild"), "--config=/dev/null", f"--listen=unix:{sock}",
                    f"--user={self.user.pw_name}", f"--state-dir={self.path(name + '-state')}", *words)

    def tracectl(self, *words):
        return run(os.path.join(BUILD, "tracectl"), *words)

    def topic(self, *words):
        return must(os.path.join(BUILD, "tools", "kafka_topic"), self.cluster.addresses, *words)

    def start_kafka(self):
        os.makedirs(self.path("kafka"))
        self.cluster = brokers.Cluster(self.path("kafka"), list(PORTS))
        self.cluster.start()
        self.topic("create", "ringtail.frames", "6", "max.message.bytes=2097152", "min.insync.replicas=2")
        self.topic("create", "ringtail.runs", "1", "max.message.bytes=2097152", "cleanup.policy=compact")

    def start_relay(self):
        self.authority("relay-ca")
        self.authority("hosts-ca")
        names = ",".join(f"IP:{net}.1" for net in HOSTS.values())
        sock = self.path("courier.sock")
        files = self.certificate("relay", "relay-ca", f"subjectAltName={names}")
        self.relay = self.daemon("relay", "--source=none", f"--listen-agents=tls:0.0.0.0:{RELAY_PORT}", *files,
                                 f"--tls-client-ca={self.path('hosts-ca.pem')}", "--relay-ack=kafka",
                                 f"--relay-courier={sock}", f"--operator=user:{self.user.pw_name}").await_said("[ready]")
        self.courier = Part(self, "courier", os.path.join(BUILD, "ringtail-courier"), f"--relay={sock}",
                            f"--brokers={self.cluster.addresses}", f"--user={self.user.pw_name}",
                            "--summary=json").await_said("[ready]")

    def start_host(self, name):
        """A network namespace, which a program holds, with a daemon and a shop in it."""
        net, holder = HOSTS[name], Part(self, f"{name}-network", "unshare", "--net", "sleep", "infinity")
        own = os.readlink("/proc/self/ns/net")
        await_(lambda: os.readlink(f"/proc/{holder.process.pid}/ns/net") != own, f"{name} has a network")
        inside = ["nsenter", f"--net=/proc/{holder.process.pid}/ns/net"]
        must("ip", "link", "add", "name", name, "type", "veth", "peer", "name", "eth0", "netns", str(holder.process.pid))
        must("ip", "addr", "add", f"{net}.1/24", "dev", name)
        must("ip", "link", "set", name, "up")
        must(*inside, "ip", "addr", "add", f"{net}.2/24", "dev", "eth0")
        must(*inside, "ip", "link", "set", "eth0", "up")
        must(*inside, "ip", "link", "set", "lo", "up")
        files = self.path(name)
        os.makedirs(files)
        for file in FILES:
            if (name, file) != MISSING:
                with open(os.path.join(files, file), "w"):
                    pass
        self.agents[name] = self.daemon(
            name, "--probe=syscall:openat:call", f'--filter=comm == "{name}" && filename =~ "{files}/*"',
            "--durability=written", f"--relay=tls:{net}.1:{RELAY_PORT}", f"--relay-ca={self.path('relay-ca.pem')}",
            "--relay-interval=1s", *self.certificate(name, "hosts-ca"), inside=inside)
        self.shops[name] = Part(self, f"{name}-shop", *inside, sys.executable, "-c", SHOP, name, str(ROUND_S),
                                *(os.path.join(files, file) for file in FILES), stdin=subprocess.PIPE,
                                stdout=subprocess.PIPE, text=True)

    def check_agents(self):
        for name, agent in self.agents.items():
            await_(lambda one=agent: "[ready]" in one.text() or one.process.poll() is not None, f"{name} is ready")
            if "[ready]" not in agent.text():
                raise Cannot(f"this kernel cannot be traced from here: {agent.text().strip().splitlines()[-1]}"
                             f" (`{BUILD}/tracectl doctor` has more)")
            agent.await_said("[relay-connected]")

    # -- What happens

    def open_files(self, rounds):
        for shop in self.shops.values():
            shop.process.stdin.write(f"{rounds}\n")
            shop.process.stdin.flush()
        self.opened += rounds * len(FILES)

    def await_opened(self):
        for shop in self.shops.values():
            if shop.process.stdout.readline() != "done\n":
                raise Broken(f"{shop.name} has ended: {shop.text()}")

    def source(self, name):
        return f"kafka:{self.cluster.addresses}/ringtail/{name}"

    def events(self, name):
        """How many Kafka has of a host, each counted once."""
        done = self.tracectl("--summary", "json", "read", self.source(name), "-o", "none")
        try:
            return json.loads(done.stderr.strip().splitlines()[-1])["events"]
        except (IndexError, ValueError, KeyError):
            return 0            # nothing has come yet

    def await_all(self):
        for name in HOSTS:
            await_(lambda one=name: self.events(one) >= self.opened, f"Kafka has {self.opened} events of {name}")

    def ask(self):
        """Both hosts at once; whether the answer is the true one: one row, of the host that has not the file."""
        words = ["count", "--by", "host,path", "-f", "error", "--until", "now"]
        done = self.tracectl("--connect", f"kafka:{self.cluster.addresses}", *words)
        say(f"tracectl --connect kafka:... {' '.join(words)}")
        show(done.stdout + done.stderr)
        rows = [line for line in done.stdout.splitlines() if self.directory in line]
        expected = (MISSING[0], self.path(*MISSING), str(self.opened // len(FILES)))
        return done.returncode == 0 and len(rows) == 1 and all(word in rows[0] for word in expected)


# ---- The story ----------------------------------------------------------------------------------------------------

def begin(demo):
    title("three Kafka brokers, a relay, and the courier between them")
    demo.start_kafka()
    say(f"The brokers are {demo.cluster.addresses}; every record is on all three, and confirmed by two.")
    demo.start_relay()
    say("The relay is ringtaild without a source. It acknowledges an event when Kafka has confirmed it.")
    title("two hosts: each has a network of its own, a daemon that dials the relay, and a shop")
    for name in HOSTS:
        demo.start_host(name)
    demo.check_agents()
    say(f"The daemons record which files the shops open, of {', '.join(FILES)}.")


def middle(demo):
    title("both shops open files")
    demo.open_files(ROUNDS[0])
    demo.await_opened()
    demo.await_all()
    say(f"Kafka has {demo.opened} opened files of each host.")
    leader = int(demo.topic("leader", "ringtail.frames"))
    title(f"SIGKILL to broker {leader}, while the shops go on")
    demo.open_files(ROUNDS[1])
    began = time.monotonic()
    demo.cluster.kill(leader)
    demo.await_opened()
    demo.await_all()
    say(f"Kafka has {demo.opened} of each host, {time.monotonic() - began:.0f} s after the kill: what waited meanwhile"
        f" was in the spools of the hosts.")
    title("the question: which files do the shops not find, on which host?")
    if not demo.ask():
        raise Broken(f"the answer is wrong: only {MISSING[1]} is missing, and only on {MISSING[0]}")


def check(what, right, text):
    if not right:
        raise Broken(f"{what}: {text}")
    say(f"ok: {what}")


def fleet(demo):
    title("how the hosts stand: tracectl stat --fleet, of the relay")
    words = ["--connect", f"unix:{demo.path('relay.sock')}", "stat", "--fleet"]
    await_(lambda: demo.tracectl(*words).returncode == 0, "the relay and the courier have nothing on their way")
    show(demo.tracectl(*words).stdout, 20)


def ledgers(demo):
    title("the ledgers, from the kernel to the reader")
    for name, agent in demo.agents.items():
        stat = demo.tracectl("--connect", f"unix:{demo.path(name)}.sock", "stat").stdout
        lines = [line.strip() for line in stat.splitlines() if "residual" in line]
        show("\n".join(f"{name}, {line}" for line in lines))
        check(f"{name}: produced = events + meta + lost + in flight",
              lines and all("residual 0" in line for line in lines), stat)
        check(f"{name} ends well", agent.end() == 0, agent.text())
    check("the relay ends well", demo.relay.end() == 0, demo.relay.text())
    said = [line for line in demo.relay.text().splitlines() if "[relay-ledger]" in line]
    show("\n".join(said))
    check("relay: received = forwarded + duplicate + refused + held", said and "residual 0" in said[-1],
          demo.relay.text())
    check("the courier ends well", demo.courier.end() == 0, demo.courier.text())
    ledger = json.loads([line for line in demo.courier.text().splitlines() if line.startswith("{")][-1])
    show(", ".join(f"{key} {value}" for key, value in ledger.items()))
    check("courier: forwarded = confirmed + rejected + returned + in flight",
          (ledger["residual"], ledger["in_flight"], ledger["rejected"]) == (0, 0, 0), ledger)
    for name in HOSTS:
        done = demo.tracectl("--summary", "text", "read", demo.source(name), "-o", "none")
        show(f"{name}: {done.stderr.strip().splitlines()[-1]}")
        check(f"{name}: each of {demo.opened} events once, none lost, no gap", done.returncode == 0 and
              "ledger balanced" in done.stderr and f"{demo.opened} events" in done.stderr, done.stderr)


def main():
    began = time.monotonic()
    if INSIDE not in os.environ:
        title("demo-fleet")
        enter()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with tempfile.TemporaryDirectory(prefix="ringtail-demo-") as directory:
        os.chmod(directory, 0o755)
        demo = Demo(directory)
        try:
            must("ip", "link", "set", "lo", "up")
            begin(demo)
            middle(demo)
            fleet(demo)
            ledgers(demo)
        finally:
            demo.close()
    title(f"that was it, in {time.monotonic() - began:.0f} s; docs/fleet.md says how to set it up")


if __name__ == "__main__":
    try:
        main()
    except Cannot as why:
        print(f"demo-fleet cannot run here: {why}", file=sys.stderr)
        sys.exit(CANNOT)
    except (Broken, brokers.Unavailable) as why:
        print(f"demo-fleet failed: {why}", file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)
