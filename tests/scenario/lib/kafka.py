"""kafka: librdkafka's mock cluster, and the two programs that know Kafka."""
import json
import os
import signal
import subprocess

from .process import ENGINE_USER, Process, wait_until

BROKERS = (1, 2, 3)


class Mock(Process):
    """Three brokers in one process. `brokers` is where they are."""

    def __init__(self, case, build, topics=("ringtail.frames:6", "ringtail.runs:1")):
        words = [os.path.join(build, "tools", "kafka_mock")]
        for topic in topics:
            words += ["-t", topic]
        super().__init__(case, "kafka_mock", words, stdin=subprocess.PIPE)
        self.build, self.said = build, 0
        self.brokers = self.wait_for(r"^\S+$", "out").group()
        self.source = f"kafka:{self.brokers}"

    def tell(self, *words):
        """A line that it obeys: see kafka_mock.c."""
        self.said += 1
        self.popen.stdin.write((" ".join(str(word) for word in words) + "\n").encode())
        self.popen.stdin.flush()
        wait_until(lambda: self.read("out").count("ok\n") >= self.said, f"the mock cluster obeys {words}")

    def tell_all(self, word, *more):
        for broker in BROKERS:
            self.tell(word, broker, *more)

    def reader(self, case, *words):
        """ringtail-kafka to its end: what it counted; the recording is in case.path('kafka.rt')."""
        with open(case.path("kafka.rt"), "wb") as file:
            done = subprocess.run([os.path.join(self.build, "ringtail-kafka"), "--source", self.source, "--summary",
                                   "json", *words], stdout=file, stderr=subprocess.PIPE, text=True, check=False)
        return done.returncode, done.stderr


def partition_of(key, partitions):
    """Where Kafka's own clients put a key: murmur2 (Austin Appleby), as Apache Kafka writes it."""
    data, mask = key.encode(), 0xffffffff
    value = 0x9747b28c ^ len(data)
    for at in range(0, len(data) & ~3, 4):
        word = int.from_bytes(data[at:at + 4], "little") * 0x5bd1e995 & mask
        word = (word ^ word >> 24) * 0x5bd1e995 & mask
        value = (value * 0x5bd1e995 & mask) ^ word
    rest = data[len(data) & ~3:]
    if rest:
        value = (value ^ int.from_bytes(rest, "little")) * 0x5bd1e995 & mask
    value = (value ^ value >> 13) * 0x5bd1e995 & mask
    return ((value ^ value >> 15) & 0x7fffffff) % partitions


class Courier(Process):
    """Of a daemon; or, with relay=PATH instead, of a relay."""

    def __init__(self, case, build, daemon, brokers, *words, relay=None):
        user = [f"--user={ENGINE_USER}"] if os.geteuid() == 0 else []
        source = f"--relay={relay}" if relay else f"--connect={daemon.address}"
        super().__init__(case, case._name("courier"), [
            os.path.join(build, "ringtail-courier"), source, f"--brokers={brokers}", "--summary=json", *user, *words])

    def await_ready(self):
        self.wait_for(r"\[ready\]")
        return self

    def ledger(self):
        """What it says when it is asked."""
        lines = self.read("out").count("\n")
        self.signal(signal.SIGUSR1)
        wait_until(lambda: self.read("out").count("\n") > lines or not self.running, "the courier prints its ledger")
        return json.loads(self.read("out").splitlines()[-1])

    def stop(self):
        self.signal(signal.SIGTERM)
        done = self.wait()
        return done, json.loads(done.out.splitlines()[-1])
