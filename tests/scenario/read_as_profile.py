"""What `-o pprof` writes is a profile: each stack that -o json has is there with as many events and as much time, and
what was lost stands in it. In its long form (`make check-bindings`) it opens in `go tool pprof`, which newer ones build
first."""
import collections
import gzip
import os
import re
import shutil
import subprocess

import ringtail
from lib import fake_daemon, lossy, protobuf
from lib.fake_daemon import FakeDaemon
from lib.process import PATIENCE_S

GO = [os.path.join(os.environ.get("RINGTAIL_CACHE", "/nowhere"), "go", "bin"), *os.get_exec_path(), "/usr/local/go/bin"]


class Profile:
    """profile.proto, as https://github.com/google/pprof has it."""

    def __init__(self, data):
        top = protobuf.fields(gzip.decompress(data))
        self.strings = [text.decode() for text in top[6]]
        self.functions = {each[1][0]: self.strings[each[2][0]] for each in map(protobuf.fields, top[5])}
        self.locations = {}
        for each in map(protobuf.fields, top[4]):
            line = protobuf.fields(each[4][0])
            self.locations[each[1][0]] = self.functions[line[1][0]]
        types = [protobuf.fields(each) for each in top[1]]
        self.types = [(self.strings[each[1][0]], self.strings[each[2][0]]) for each in types]
        self.comments = [self.strings[at] for at in top[13]]
        self.samples = [self._sample(protobuf.fields(each)) for each in top[2]]

    def _sample(self, sample):
        labels = {}
        for label in map(protobuf.fields, sample[3]):
            labels[self.strings[label[1][0]]] = self.strings[label[2][0]] if label[2] else sum(label[3])
        return ([self.locations[at] for at in protobuf.varints(sample[1][0])],
                protobuf.varints(sample[2][0]), labels)

    def sum(self, i):
        return sum(values[i] for _, values, _ in self.samples)


def go_tool(case, file, *words):
    """What go says of it; None where there is none, and in the short form."""
    if not ringtail.LONG:
        return None
    go = shutil.which("go", path=os.pathsep.join(GO))
    if not go:
        case.say("there is no go here to open it with")
        return None
    environment = {**os.environ, "PPROF_TMPDIR": case.path("")}
    try:    # newer ones build their tools first
        subprocess.run([go, "tool", "-n", "pprof"], capture_output=True, check=True, timeout=PATIENCE_S)
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired):
        case.say("this go has no pprof")
        return None
    done = subprocess.run([go, "tool", "pprof", *words, file], capture_output=True, text=True, check=False,
                          timeout=PATIENCE_S, env=environment)
    case.check_equal(done.returncode, 0, "go tool pprof opens it")
    return done.stdout


def read(case, path, file, code=0):
    done = case.tracectl(None, "read", path, "-o", "pprof", "-w", file)
    case.check_equal(done.code, code, "the recording becomes a profile")
    return Profile(open(file, "rb").read()), case.tracectl(None, "read", path, "-o", "json").lines


def check_times(case, profile, lines):
    events = [line for line in lines if "probe" in line]
    counts = collections.Counter(event["probe"] for event in events if event["probe"] != "profile:hz:99")
    ours = collections.Counter()
    for frames, (number, _, _), _ in profile.samples:
        if frames and ":" in frames[0] and not frames[0].startswith("["):
            ours[frames[0]] += number
    case.check_equal(ours, counts, "each probe has its events, innermost in its stacks")
    case.check_equal(profile.sum(0), len(events), "all events are in it")
    time = sum(event.get("duration", 0) if event["probe"] != "profile:hz:99" else
               event["args"]["periods"] * 10**9 // 99 for event in events)
    case.check_equal(profile.sum(1), time, "and all their time")


def main(case):
    daemon = case.daemon("--ring-size=16KiB")
    busy = case.path(f"busy-{os.getpid()}")
    shutil.copy(os.path.join(ringtail.BUILD, "tools", "busy"), busy)
    comm, path, file = os.path.basename(busy)[:15], case.path("busy.rt"), case.path("busy.pb.gz")
    record = case.stream(daemon, "-p", "profile:hz:99", "-p", "syscall:*:call", "--flags", "kstack,ustack", "-f",
                         f'comm == "{comm}"', "-w", path, command="record")
    case.start(busy, "600").wait()
    case.await_rings_empty(daemon)
    record.await_all()
    record.interrupt()
    done = case.tracectl(None, "read", path, "-o", "none")
    profile, lines = read(case, path, file, done.code)
    case.check_equal(profile.types, [("events", "count"), ("time", "nanoseconds"), ("lost", "count")],
                     "it says what its values are")
    check_times(case, profile, lines)
    case.check(any(re.search("busy_twice;busy_middle;busy_outer", ";".join(frames)) and
                   labels == {"comm": comm, "pid": labels["pid"]} for frames, _, labels in profile.samples),
               "functions have their names", profile.samples[:20])
    top = go_tool(case, file, "-top")
    case.check(top is None or ("busy_twice" in top and "Type: time" in top), "which shows where the time is", top)

    lossy_path = case.path("lossy.rt")
    lossy.record(case, daemon, lossy_path)
    profile, lines = read(case, lossy_path, file, 3)
    lost = sum(line["lost"] for line in lines if "lost" in line)
    case.check_equal(profile.sum(2), lost, f"{lost} lost events are in the profile")
    case.check(any(str(lost) in comment and "ring-full" in comment for comment in profile.comments),
               "and a comment says why", profile.comments)
    shown = go_tool(case, file, "-top", "-sample_index=lost")
    case.check(shown is None or "[lost: ring-full]" in shown, "which go shows", shown)
    case.check_balanced(daemon)

    names = (b"a;b\nc", b"\xff\xfe", b"\x1b[2J", b'"', b"")
    batch = fake_daemon.compressed("Batch", fake_daemon.batch(0, 0, 1000, [(name, name) for name in names]))
    fake = FakeDaemon(case, {"Subscribe": fake_daemon.stream(batch)})
    case.tracectl(fake, "record", "-w", path)
    fake.stop()
    profile, _ = read(case, path, file)
    case.check_equal(sorted(labels["comm"] for _, _, labels in profile.samples),
                     sorted(["a;b?c", "??", "?[2J", '"', ""]), "hostile names are text")
    go_tool(case, file, "-top")


ringtail.run(main)
