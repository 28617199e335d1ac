"""Each row of docs/ancestors.md: its command runs beside one program whose doings are known, and shows what the row
says; a row about the device names a test of the module that there is. A row without an answer here fails."""
import glob
import os
import re
import shlex
import socket

import ringtail
from lib import known

SECTIONS = ("dt(4) of OpenBSD", "The trace queue of Akaros' system calls", "Google's ktrace", "LTTng of 2009",
            "Branch traces through ptrace (BTS)")


def all_rows():
    """(section, what was there, what is here, command) of each row."""
    return [(title, *cells[:2], cells[2].strip("`"))
            for title in SECTIONS for cells in known.rows(known.section("ancestors.md", title))]


def answers(app, pid, port):
    """What the output of each command has: expressions, all of them."""
    call = rf"^X \[.*Syscall 257 \( +openat\):\(0xf+9c, .*proc: {pid} .*comm: '{app}' data: "
    mine = rf" {app} +{pid}/\d+ +"
    return {
        "tracectl list": [r"^syscall:openat:call\(", r"^tracepoint:block:", r"^profile:hz:99", r"^interval:s:1",
                          r"^software:page-faults:1", r"^hardware:cycles:"],
        "tracectl list syscall:openat:call -o json": [r'"filename"', r'"c_type":"const char \*"', r'"bits":64'],
        "tracectl enable syscall:fsync": [],
        "tracectl probes": [r"syscall:fsync"],
        "tracectl disable syscall:fsync": [],
        """tracectl stream -p fsync -f 'comm == "app"' --duration 10s""": [mine + r"fsync\(fd=\d+\) = 0"],
        """tracectl stream -p openat -f 'pid == 1234 && comm == "app"' --explain""": [r"kernel"],
        """tracectl count -p openat -f 'comm == "app"' --by comm --duration 10s""": [rf"^ +\d+  {app}$"],
        """tracectl stream -p openat -f 'comm == "app" && flags & O_CREAT' --duration 10s""":
            [mine + r"openat\(dfd=AT_FDCWD, .*flags=O_WRONLY\|O_CREAT, mode=0600\)"],
        """tracectl stream -p sched_switch -f 'comm == "app"' --flags kstack --duration 10s""":
            [r" 0xffff\w+ \w*nanosleep\w*\+0x"],
        """tracectl stream -p profile:hz:99 -f 'comm == "app"' --flags ustack -o folded --duration 10s""":
            [rf"^{app};.*burn \d+$"],
        """tracectl stream -p process:map:executable -p fsync -f 'comm == "app"' --flags ustack --duration 10s""":
            [mine + rf"process:map:executable\(.*path=\".*/{app}\""],
        """tracectl stream -p profile:hz:250 -f 'comm == "app"' --duration 10s""": [mine + r"profile:hz:250\("],
        "tracectl stream -p interval:hz:20 -n 2": [r"interval:hz:20\(.*\n.*interval:hz:20\("],
        """tracectl stream -p fsync -p syscall:fsync:entry -p syscall:fsync:return -f 'comm == "app"' --duration 10s""":
            [r"fsync\(fd=\d+\) \.\.\.$", r"\.\.\. fsync = 0$", r"fsync\(fd=\d+\) = 0 <"],
        "tracectl stat": [r"lost", r"residual 0"],
        """tracectl hist -p clock_nanosleep -f 'comm == "app"' --duration 10s""": [r"^  \d values, p50 ([5-9]\d|\d{3,}|\d\.\d)"],
        """tracectl stream -o kptrace -p openat -f 'comm == "app"' --flags strings --duration 10s""":
            [call + r"'missing errstr: No such file or directory'$", call + "'written'$"],
        """tracectl stream -o kptrace -p openat -p syscall:openat:entry -f 'comm == "app"' --flags strings """
        "--duration 10s": [r"^E .*ret: --- .*data: 'missing'$", r"^X .*data: 'missing errstr: .*'$"],
        """tracectl stream -o kptrace -p connect -f 'comm == "app"' --flags strings --duration 10s""":
            [rf"data: '127.0.0.1:{port}'$"],
        "tracectl stream -o kptrace -p syscall --pid 1234 --duration 10s": [r" \( +futex\):", r" \( +fsync\):"],
        "tracectl stream -o kptrace -p syscall --tree 1234 --duration 10s": [r" \( +getppid\):", r" \( +execve\):"],
        "tracectl stream -o kptrace -p openat --duration 10s": [call],
        "tracectl stream --since -1m --until now -p openat -o kptrace": [call],
        "tracectl list 'tracepoint:block:*'": [r"^tracepoint:block:block_rq_issue\(.*nr_sector"],
        "tracectl list tracepoint:signal:signal_generate -o json": [r'"sig"', r'"c_type":"pid_t"'],
        """tracectl stream -p tracepoint:signal:signal_generate -f 'comm == "app"' --duration 10s""":
            [mine + r"signal_generate: sig=9 "],
        """tracectl stream -p openat -f 'filename == "/etc/passwd"' --duration 10s""":
            [mine + r".*filename=\"/etc/passwd\""],
        "tracectl stat -o json": [r'"lost":', r'"balanced":true'],
        "tracectl dump --last 30s -w before.rt": [],
        "tracectl read before.rt -o ctf -w before.ctf": [],
        """tracectl stream -p sched_switch -f 'comm == "app"' --duration 10s""": [mine + r"sched_switch: .* ==> "],
        """tracectl stream -p tracepoint:task:task_newtask -f 'comm == "app"' --duration 10s""":
            [mine + r"task_newtask: pid=\d+ comm="],
        "tracectl count -p sched_switch -p 'tracepoint:irq:softirq_*' -p 'tracepoint:timer:hrtimer_*' --by function "
        "--duration 1s": [r"^ *\d\S*  sched$", r"^ *\d\S*  irq$", r"^ *\d\S*  timer$"],
        """tracectl --connect tcp:127.0.0.1:7117 --insecure stream -p fsync -f 'comm == "app"' --duration 10s""":
            [mine + r"fsync\("],
        "tracectl stream --since -1m --until now -p 'tracepoint:sched:sched_process_e*'":
            [r"sched_process_exec.*\"/bin/true\""],
        "tracectl count --from sched_switch --to sched_switch --on tid=next_tid --by comm --top 1000 --duration 10s": [rf"^ +\d.*  {app}$"],
        """tracectl stream -p uprobe:/usr/bin/app:burn -f 'comm == "app"' --duration 10s""": [mine + r"uprobe:.*:burn\("],
        "tracectl stream -p hardware:branch-misses:1000 -n 1": [r"hardware:branch-misses:1000|\[no-counter\]"],
    }


def device_tests():
    """Names of the tests of the module's device."""
    names = set()
    for path in glob.glob(os.path.join(ringtail.ROOT, "tests/kmod/test_*.c")):
        with open(path) as file:
            names |= set(re.findall(r'^\t\{"(\w+)", \w+\},$', file.read(), re.M))
    return names


class OverTcp:
    """The daemon, for the client that comes by its other address."""

    def __init__(self, daemon):
        self.daemon = daemon
        self.address = re.search(r"listening on (tcp:\S+)", daemon.log)[1]

    def client(self, _):
        return next((client for client in self.daemon.stat()["client"] if not client["peer"].startswith("unix")), None)


class Page:
    def __init__(self, case, daemon, process, app, port):
        self.case, self.daemon = case, daemon
        self.app, self.pid = app, process.popen.pid
        self.answers, self.used = answers(app, self.pid, port), set()

    def words(self, command):
        """The words behind tracectl, and the daemon that they are for."""
        command = command.replace(" before.", f" {self.case.path('before.')}")
        command = command.replace("/usr/bin/app", self.case.path(self.app))
        words = known.words_of(command, self.app, self.pid, [])
        if "--duration 1s" in command:          # of the host, and by itself
            words += ["--duration", "1s"]
        if words[0] == "--connect":
            return words[3:], OverTcp(self.daemon)
        return words, None if words[0] == "read" else self.daemon

    def check(self, there, command, done):
        """Both streams: a refusal is an answer, too, where the row says so."""
        self.used.add(command)
        refusal = any("no-counter" in expression for expression in self.answers[command])
        self.case.check(done.code in (0, 3) or refusal, f"{command} ends well", done.code, done.err)
        for expression in self.answers[command]:
            known.late_if_lost(done, expression, command)
            self.case.check(re.search(expression, done.out + done.err, re.M), f"{there}: {expression}", command,
                            done.out[-3000:], done.err)

    def run(self, there, command):
        words, daemon = self.words(command)
        self.check(there, command, self.case.tracectl(daemon, *words))

    def start(self, command):
        words, daemon = self.words(command)
        return self.case.start_stream(daemon, *words[1:], command=words[0])


def check_devices(case, rows):
    registered = device_tests()
    for _, there, _, command in rows:
        test = re.match(r"RT_RUN=(\w+) tests/kmod/run\.sh$", command)
        if test and test[1] not in registered:
            case.check(False, f"{there}: a test of the module has that name", command)
    case.check(len(registered) > 40, f"the device's rows name tests of the module, of which there are {len(registered)}")


def options_of(rows):
    """What the rows about the daemon start it with."""
    return [word for *_, command in rows if command.startswith("ringtaild ") for word in shlex.split(command)[1:]]


def kind_of(command):
    if not command.startswith("tracectl "):
        return None
    if "--from sched_switch --to sched_switch" in command:
        return "of all"
    if "--duration 10s" in command:
        return "live"
    return "late" if re.search(r"--since| dump | read ", command) else "once"


def main(case):
    app, rows = case.own_comm, all_rows()
    program, where = case.path(app), case.path("directory")
    os.mkdir(where)
    known.build(case, program)
    for title, there, here, command in rows:
        if not command and "**no**" not in here:
            case.check(False, "a row has a command, or says that there is none", title, there)
    check_devices(case, rows)
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    options = options_of(rows)
    daemon = case.daemon(*options)
    case.check("rings of 4096 KiB" in daemon.log, "the daemon runs with the options of the page", daemon.log)
    daemon.stop()
    # With room for what other processes do meanwhile.
    daemon = case.daemon("--insecure", "--queue-size=64MiB", "--probe=tracepoint:sched:sched_process_*",
                         "--probe=syscall:openat:call", ringtail.ROOM,
                         *(word for word in options if not word.startswith("--ring-size")),
                         listen=[f"unix:{case.path('run')}/daemon.sock", "tcp:127.0.0.1:0"])
    process = case.start(program, where, str(port), stdin=-1)
    page, live = Page(case, daemon, process, app, port), []

    def do(process, is_known=lambda: None):
        process.popen.stdin.write(b"!")
        process.popen.stdin.flush()
        is_known()
        process.popen.stdin.close()
        case.check_equal(process.wait().code, 0, "the program does what it does")
        case.await_rings_read(daemon)       # machines are never silent

    for _, there, _, command in rows:
        if kind_of(command) == "once":
            page.run(there, command)
        elif kind_of(command) == "live":
            live.append((there, command, page.start(command)))
    for _, _, stream in live:
        stream.await_subscribed()
    with_maps = next(stream for _, command, stream in live if "-p process:map:executable" in command)
    do(process, lambda: with_maps.wait_for(rf"process:map:executable\(.*/{app}\"", "out"))
    for there, command, stream in live:
        stream.await_all()
        page.check(there, command, stream.interrupt())
    # Each of those questions makes its own switches: this one of all switches is asked without them, and has a
    # process of the program to itself.
    for _, there, _, command in rows:
        if kind_of(command) == "of all":
            stream = page.start(command).await_subscribed()
            do(case.start(program, where, str(port), stdin=-1))
            stream.await_all()
            page.check(there, command, stream.interrupt())
    for _, there, _, command in rows:
        if kind_of(command) == "late":
            page.run(there, command)
    case.check(os.path.exists(case.path("before.ctf/run-1/metadata")), "the past is a trace in CTF")
    case.check_equal(page.used, set(page.answers), "each row has its answer here, and each answer its row")
    case.check_balanced(daemon)


ringtail.run(main)
