"""brokers: three real Kafka brokers (KRaft, each broker and controller) on loopback, JVMs bounded in memory.

The jars come from Maven Central at a fixed version, once, into the cache (tests/tools/cache.py). What cannot be had is
Unavailable, with the reason.
"""
import base64
import os
import shutil
import signal
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(1, os.path.join(HERE, "..", "tools"))

import cache  # noqa: E402

VERSION = "4.4.0"
LOG4J = "2.25.5"        # Kafka's artifact has slf4j and log4j, and nothing between them
POM = f"""<project>
  <modelVersion>4.0.0</modelVersion>
  <groupId>ringtail.tests</groupId><artifactId>brokers</artifactId><version>1</version><packaging>pom</packaging>
  <dependencies>
    <dependency>
      <groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>{VERSION}</version>
    </dependency>
    <dependency>
      <groupId>org.apache.logging.log4j</groupId><artifactId>log4j-slf4j-impl</artifactId><version>{LOG4J}</version>
    </dependency>
  </dependencies>
</project>
"""
LOGGING = """status=error
appender.console.type=Console
appender.console.name=console
appender.console.layout.type=PatternLayout
appender.console.layout.pattern=%d{HH:mm:ss.SSS} %p %m (%c{1})%n
rootLogger.level=info
rootLogger.appenderRef.console.ref=console
"""
# The second compiler and a parallel collector cost more than they save in the minutes that these run.
JAVA = ["java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto", "-Djava.net.preferIPv4Stack=true"]
NODES = (1, 2, 3)
FETCH_S, START_S, STOP_S = 600, 180, 60


class Unavailable(Exception):
    """Kafka cannot be had here."""


def directory():
    return os.path.join(cache.directory("kafka"), VERSION)


def is_here():
    return os.path.exists(os.path.join(directory(), "complete"))


def fetch():
    """The directory of the jars."""
    libs = directory()
    if is_here():
        return libs
    for program in "java", "mvn":
        if not shutil.which(program):
            raise Unavailable(f"there is no {program}")
    os.makedirs(libs, exist_ok=True)
    with open(os.path.join(libs, "pom.xml"), "w") as file:
        file.write(POM)
    done = subprocess.run(["mvn", "-q", "-B", "-f", os.path.join(libs, "pom.xml"), "dependency:copy-dependencies",
                           "-DincludeScope=runtime", f"-DoutputDirectory={libs}"], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=FETCH_S, check=False)
    if done.returncode:
        raise Unavailable(f"Maven has not got Kafka {VERSION}: {done.stdout.strip()[:300]}")
    with open(os.path.join(libs, "complete"), "w"):
        pass
    return libs


class Cluster:
    """`ports`: six that are free: of the brokers, and of the controllers."""

    def __init__(self, directory, ports):
        self.directory, self.libs, self.running = directory, fetch(), {}
        self.port = dict(zip(NODES, ports[:3]))
        self.controller = dict(zip(NODES, ports[3:]))
        self.addresses = ",".join(f"127.0.0.1:{self.port[node]}" for node in NODES)
        with open(os.path.join(directory, "log4j2.properties"), "w") as file:
            file.write(LOGGING)

    def path(self, node, name):
        return os.path.join(self.directory, f"broker-{node}", name)

    def java(self, heap, *words):
        return [*JAVA, f"-Xmx{heap}m", "-XX:MaxDirectMemorySize=128m",
                f"-Dlog4j2.configurationFile={self.directory}/log4j2.properties", "-cp", f"{self.libs}/*", *words]

    def configure(self, node):
        os.makedirs(self.path(node, ""))
        voters = ",".join(f"{other}@127.0.0.1:{self.controller[other]}" for other in NODES)
        with open(self.path(node, "server.properties"), "w") as file:
            file.write(f"""process.roles=broker,controller
node.id={node}
controller.quorum.voters={voters}
listeners=PLAINTEXT://127.0.0.1:{self.port[node]},CONTROLLER://127.0.0.1:{self.controller[node]}
advertised.listeners=PLAINTEXT://127.0.0.1:{self.port[node]}
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
log.dirs={self.path(node, "data")}
num.network.threads=2
num.io.threads=3
log.cleaner.dedupe.buffer.size=8388608
log.cleaner.threads=1
offsets.topic.replication.factor=3
offsets.topic.num.partitions=3
transaction.state.log.replication.factor=3
transaction.state.log.min.isr=2
transaction.state.log.num.partitions=3
min.insync.replicas=2
auto.create.topics.enable=false
replica.fetch.max.bytes=2097152
""")

    def start(self):
        cluster_id = base64.urlsafe_b64encode(os.urandom(16)).decode().rstrip("=")
        formats = []
        for node in NODES:
            self.configure(node)
            formats.append(subprocess.Popen(
                self.java(128, "kafka.tools.StorageTool", "format", "-t", cluster_id, "-c",
                          self.path(node, "server.properties")), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
        for process in formats:
            if process.wait(START_S):
                raise Unavailable("a broker's storage cannot be formatted")
        self.up(*NODES)
        self.ready(*NODES)

    def up(self, *nodes):
        for node in nodes:
            with open(self.path(node, "log"), "w") as log:
                self.running[node] = subprocess.Popen(
                    self.java(256, "kafka.Kafka", "server.properties"), cwd=self.path(node, ""), stdout=log,
                    stderr=log, stdin=subprocess.DEVNULL)

    def ready(self, *nodes):
        deadline = time.monotonic() + START_S
        for node in nodes:
            while True:
                with open(self.path(node, "log")) as log:
                    text = log.read()
                if "Kafka Server started" in text:
                    break
                if self.running[node].poll() is not None or time.monotonic() > deadline:
                    raise Unavailable(f"broker {node} does not start: {text[-500:]}")
                time.sleep(0.2)

    def signal(self, number, *nodes):
        for node in nodes:
            self.running[node].send_signal(number)

    def kill(self, *nodes):
        self.signal(signal.SIGKILL, *nodes)
        for node in nodes:
            self.running.pop(node).wait(STOP_S)

    def stop(self):
        for node in list(self.running):
            self.signal(signal.SIGCONT, node)
            self.kill(node)

    def memory_mib(self):
        """Resident, of each."""
        sizes = []
        for process in self.running.values():
            with open(f"/proc/{process.pid}/status") as file:
                sizes += [int(line.split()[1]) // 1024 for line in file if line.startswith("VmRSS")]
        return sizes
