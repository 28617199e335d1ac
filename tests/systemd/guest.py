#!/usr/bin/env python3
"""guest: runs inside the virtual machine, as a unit of its own: drives ringtaild through systemctl and
says `@ok NAME` or `@not NAME` of each thing that is to hold, then powers off.

A test is a function below, in the order in which they run; the one before leaves the daemon running
as the next one finds it. rt.run on the kernel's command line is a glob of their names.
"""
import fnmatch
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import traceback

SERVICE, SOCKET = "ringtaild.service", "ringtaild.socket"
CALLS = 20000
SLOW = 4        # this machine is emulated


class Failure(Exception):
    pass


def check(condition, text, *facts):
    if not condition:
        raise Failure("; ".join([f"not so: {text}", *(repr(fact)[:1500] for fact in facts)]))


def wait_until(condition, what, seconds=20):
    deadline = time.monotonic() + seconds * SLOW
    while not (value := condition()):
        check(time.monotonic() < deadline, f"{what} within {seconds * SLOW} s")
        time.sleep(0.05)
    return value


def run(*words, code=0):
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          timeout=60 * SLOW)
    check(code is None or done.returncode == code, " ".join(words), done.returncode, done.stdout,
          done.stderr)
    return done.stdout


def show(name, unit=SERVICE):
    return run("systemctl", "show", "-P", name, unit).strip()


def main_pid():
    return int(show("MainPID"))


def loader_pid():
    with open(f"/proc/{main_pid()}/task/{main_pid()}/children") as file:
        return int(file.read().split()[0])


def status(pid):
    with open(f"/proc/{pid}/status") as file:
        return dict(line.rstrip("\n").split(":\t", 1) for line in file)


def stat():
    return json.loads(run("tracectl", "stat", "-o", "json"))


def balanced():
    now = stat()
    check(now["balanced"], "every ledger closes", now)


def journal(*matches):
    """What the daemon has said since boot: the stable code of each message."""
    lines = run("journalctl", "-b", "-o", "json", "-u", SERVICE, *matches).splitlines()
    return [json.loads(line) for line in lines]


def codes():
    return [entry["CODE"] for entry in journal() if "CODE" in entry]


def log_has(pattern):
    return any(re.search(pattern, str(entry.get("MESSAGE"))) for entry in journal())


def tracing_links():
    """BPF programs of ours that are attached to anything, whoever holds them."""
    links = set()
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            for fd in os.listdir(f"/proc/{pid}/fdinfo"):
                with open(f"/proc/{pid}/fdinfo/{fd}") as file:
                    text = file.read()
                if re.search(r"^link_type:\s*tracing", text, re.M):
                    links.add(re.search(r"^link_id:\s*(\d+)", text, re.M)[1])
        except (FileNotFoundError, ProcessLookupError):
            pass        # ended, or closed, meanwhile
    return links


class Load:
    """/usr/bin/load, which makes a known number of calls when told to."""

    def __init__(self, calls, *words):
        self.calls = calls
        self.popen = subprocess.Popen(["load", "-n", str(calls), "-P", "2", "--pin", "--pause", *words],
                                      stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.pids = json.loads(self.popen.stdout.readline())["pids"]
        self.filter = f"pid in ({', '.join(str(pid) for pid in self.pids)})"

    def go(self):
        self.popen.stdin.write("\n")
        self.popen.stdin.close()

    def wait(self):
        check(self.popen.wait(120 * SLOW) == 0, "load ends well")

    def run(self):
        self.go()
        self.wait()


class Stream:
    """A tracectl that streams one Load's calls until it is stopped."""

    def __init__(self, load, *words):
        self.err = tempfile.TemporaryFile("w+")
        self.popen = subprocess.Popen(["tracectl", "--summary", "json", "stream", "-o", "none", "-p",
                                       "syscall:getppid:call", "-f", load.filter, *words],
                                      stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                      stderr=self.err)
        self.await_subscribed()

    def client(self):
        try:
            clients = stat()["clients"]
        except Failure:
            return None         # the daemon is away
        return next((client for client in clients
                     if f"pid {self.popen.pid} " in client["peer"] and client["probes"]), None)

    def await_subscribed(self):
        wait_until(self.client, "the client is subscribed")

    def end(self, events):
        """How it ended, once it has been given (or told the loss of) so many events."""
        def look():
            client = self.client()
            return client and not client["in_flight"] and all(
                not ring["in_flight"] for ring in stat()["rings"])
        wait_until(look, "nothing is in flight")
        time.sleep(0.2)
        self.popen.send_signal(signal.SIGINT)
        code = self.popen.wait(20 * SLOW)
        self.err.seek(0)
        text = self.err.read()
        summary = json.loads(text.splitlines()[-1])
        check(summary["ledger"] == "balanced", "the client's ledger is balanced", summary, text)
        # A gap counts whatever was recorded there, also what this client did not ask for.
        check(summary["events"] <= events <= summary["events"] + summary["lost"],
              f"{events} events are accounted for", summary, text)
        return summary, code, text


# ---- The tests ----------------------------------------------------------------------------------

def users_and_directories():
    # This machine is slow to start the daemon anew: the rings hold what happens meanwhile.
    with open("/etc/ringtail/ringtaild.conf", "a") as config:
        config.write("ring-size = 16MiB\n")
    run("systemd-sysusers")
    run("systemd-tmpfiles", "--create", "/usr/lib/tmpfiles.d/ringtail.conf")
    uid = int(run("id", "-u", "ringtail") if shutil.which("id") else
              next(line.split(":")[2] for line in open("/etc/passwd")
                   if line.startswith("ringtail:")))
    for path, mode in ("/var/lib/ringtail", 0o700), ("/run/ringtail", 0o755):
        found = os.stat(path)
        check((found.st_uid, found.st_mode & 0o777) == (uid, mode), f"{path} is its own", found)


def starts():
    run("systemctl", "start", SERVICE)
    check(show("ActiveState") == "active" and show("Type") == "notify", "it is active")
    check({"listening", "ready"} <= set(codes()), "the journal has stable codes", codes())
    check(all(entry.get("SYSLOG_IDENTIFIER") in ("ringtaild", "systemd") for entry in journal()),
          "each under its name")
    balanced()


def streams_exactly():
    load = Load(CALLS)
    stream = Stream(load)
    load.run()
    summary, code, text = stream.end(CALLS)
    check(summary["events"] == CALLS and code == 0, f"exactly {CALLS} events", summary, text)
    balanced()


def sees_little():
    root = f"/proc/{main_pid()}/root"
    check(set(os.listdir(root)) <= {"bin", "dev", "etc", "lib", "lib32", "lib64", "libx32", "proc",
                                    "root", "home", "run", "sbin", "sys", "tmp", "usr", "var"},
          "what the unit does not name is not there", os.listdir(root))
    check(set(os.listdir(f"{root}/var")) <= {"lib", "tmp"} and
          os.listdir(f"{root}/var/lib") == ["ringtail"], "of /var its own directory",
          os.listdir(f"{root}/var"), os.listdir(f"{root}/var/lib"))
    check({"ringtail"} <= set(os.listdir(f"{root}/etc")) <= {
        "ringtail", "ld.so.cache", "passwd", "group", "nsswitch.conf", "hosts", "resolv.conf",
        "gai.conf", "ssl", "localtime"}, "of /etc its configuration, and who is who",
          os.listdir(f"{root}/etc"))
    check(all(name not in os.listdir(f"{root}/dev") for name in ("mem", "kmem", "ttyS0")),
          "of /dev the harmless", os.listdir(f"{root}/dev"))


def can_little():
    engine, loader = status(main_pid()), status(loader_pid())
    check([int(engine[kind], 16) for kind in ("CapInh", "CapPrm", "CapEff", "CapAmb")] == [0] * 4,
          "the engine has no capabilities", engine)
    check(int(loader["CapEff"], 16) == 3 << 38, "the loader has CAP_PERFMON and CAP_BPF", loader)
    for pid in main_pid(), loader_pid():
        for thread in os.listdir(f"/proc/{pid}/task"):
            check(status(f"{pid}/task/{thread}")["Seccomp"] == "2", "each thread has a filter")
    check(engine["NoNewPrivs"] == loader["NoNewPrivs"] == "1", "neither can gain privileges")
    sockets = [os.readlink(f"/proc/{loader_pid()}/fd/{fd}")
               for fd in os.listdir(f"/proc/{loader_pid()}/fd") if int(fd) > 2]
    check(sum(link.startswith("socket:") for link in sockets) == 1,
          "the loader has one socket, to the engine", sockets)


def limits_in_force():
    group = "/sys/fs/cgroup" + show("ControlGroup")
    with open(f"{group}/memory.max") as memory, open(f"{group}/pids.max") as tasks:
        check((int(memory.read()), int(tasks.read())) == (1 << 30, 128),
              "memory and tasks are limited")
    check(os.getpriority(os.PRIO_PROCESS, main_pid()) == -10, "its priority is raised")
    check(os.stat("/var/lib/ringtail").st_mode & 0o777 == 0o700, "its state is its own")
    for directory, _, files in os.walk("/var/lib/ringtail"):
        for name in files:
            mode = os.stat(os.path.join(directory, name)).st_mode & 0o777
            check(mode == 0o600, f"{name} is for nobody else", oct(mode))


def socket_activated():
    run("systemctl", "stop", SERVICE)
    run("systemctl", "start", SOCKET)
    check(show("ActiveState") == "inactive", "it is stopped")
    # Whoever comes first waits, here for longer than tracectl would.
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        client.connect("/run/ringtail/ringtail.sock")
        wait_until(lambda: show("ActiveState") == "active", "a connection has started it")
        balanced()
    check(os.path.exists("/run/ringtail/ringtail.sock"), "the socket is there")


def reloads():
    with open("/etc/ringtail/ringtaild.conf", "a") as config:
        config.write("queue-size = 4MiB\n")
    before = codes().count("reloaded")
    run("systemctl", "reload", SERVICE)
    wait_until(lambda: codes().count("reloaded") > before, "it has reloaded")


def clock_jumps():
    """The wall clock jumps under load, by an hour and by decades: order, ages and ledgers are not its."""
    with open("/etc/ringtail/ringtaild.conf", "a") as config:
        config.write("durability = fsync\nspool-sync-interval = 100ms\nspool-age = 1800s\n")
    run("systemctl", "restart", SERVICE)
    load = Load(CALLS, "--rate=4000")
    away = Stream(load, "--consumer", "away")
    away.end(0)
    stream = Stream(load)
    load.go()
    real, began = time.time(), time.monotonic()
    try:
        for at in real + 3600, real - 3600, 3600, 1 << 31, (1 << 31) + 3600:
            time.clock_settime(time.CLOCK_REALTIME, at)
            time.sleep(1)
            balanced()
    finally:
        time.clock_settime(time.CLOCK_REALTIME, real + time.monotonic() - began)
    load.wait()
    summary, code, text = stream.end(CALLS)
    check(summary["events"] == CALLS and code == 0, f"exactly {CALLS} events", summary, text)
    wait_until(lambda: not any(spool["in_flight"] for spool in stat()["spools"]), "all is stored")
    balanced()
    check(not any(lost["count"] for spool in stat()["spools"] for lost in spool["lost"]),
          "and none of it is deleted for its age", stat()["spools"])
    done = subprocess.run(["tracectl", "--summary", "json", "stream", "-o", "json", "-p",
                           "syscall:getppid:call", "-f", load.filter, "--consumer", "away", "-n",
                           str(CALLS)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          timeout=60 * SLOW)
    events = [json.loads(line) for line in done.stdout.splitlines()]
    check(done.returncode == 0 and len(events) == CALLS, f"who was away gets all {CALLS}",
          len(events), done.stderr)
    times = {}
    for event in events:
        check(times.get(event["cpu"], (0, 0)) < (event["seq"], event["time"]), "in order",
              event)
        times[event["cpu"]] = event["seq"], event["time"]
    check(abs(time.time() - real - (time.monotonic() - began)) < 60, "the clock is right again")
    run("tracectl", "forget", "away")


def restarts_under_load():
    """An upgrade: another binary, and systemctl restart."""
    load = Load(20 * CALLS)
    stream = Stream(load)
    pid, adopted = main_pid(), codes().count("restart-adopted")
    load.go()
    shutil.copy2("/usr/sbin/ringtaild", "/usr/sbin/ringtaild.new")
    os.rename("/usr/sbin/ringtaild.new", "/usr/sbin/ringtaild")
    run("systemctl", "restart", SERVICE)
    check(main_pid() != pid and codes().count("restart-adopted") == adopted + 1,
          "another process goes on with the rings of the one before", codes())
    load.wait()
    stream.await_subscribed()
    summary, code, text = stream.end(load.calls)
    check(summary["lost"] == 0 and code == 0, "nothing is lost over an upgrade", summary, text)
    balanced()


def killed_under_load():
    load = Load(20 * CALLS)
    stream = Stream(load)
    pid, restarts = main_pid(), int(show("NRestarts"))
    adopted = codes().count("restart-adopted")
    load.go()
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: int(show("NRestarts")) == restarts + 1 and
               show("ActiveState") == "active" and main_pid() != pid, "systemd restarts it")
    wait_until(lambda: codes().count("restart-adopted") == adopted + 1, "with the same rings")
    load.wait()
    stream.await_subscribed()
    summary, _, _ = stream.end(load.calls)
    print(f"@note killed: {summary['events']} events, {summary['lost']} lost, and named", flush=True)
    balanced()


def watchdog_fires():
    os.makedirs("/run/systemd/system/ringtaild.service.d", exist_ok=True)
    with open("/run/systemd/system/ringtaild.service.d/watchdog.conf", "w") as file:
        file.write("[Service]\nWatchdogSec=4s\n")
    run("systemctl", "daemon-reload")
    run("systemctl", "restart", SERVICE)
    pid, restarts = main_pid(), int(show("NRestarts"))
    time.sleep(6)
    check(main_pid() == pid, "who is alive is left alone")
    os.kill(pid, signal.SIGSTOP)
    wait_until(lambda: int(show("NRestarts")) == restarts + 1 and
               show("ActiveState") == "active" and main_pid() != pid, "systemd replaces it")
    check(any("Watchdog timeout" in str(entry.get("MESSAGE")) for entry in journal()),
          "because of the watchdog")
    balanced()


def stops():
    run("systemctl", "stop", SOCKET, SERVICE)
    check(show("ActiveState") == "inactive" and show("Result") == "success", "it ends well",
          show("Result"))
    wait_until(lambda: show("NFileDescriptorStore") == "0", "the manager keeps nothing")
    wait_until(lambda: not tracing_links(), "no program is attached any more")
    check(not os.path.exists("/run/ringtail/ringtail.sock"), "its socket is gone")


TESTS = [users_and_directories, starts, streams_exactly, sees_little, can_little, limits_in_force,
         socket_activated, reloads, clock_jumps, restarts_under_load, killed_under_load, watchdog_fires, stops]


def main():
    with open("/proc/cmdline") as file:
        only = re.search(r"\brt\.run=(\S+)", file.read())
    for test in TESTS:
        if only and not fnmatch.fnmatch(test.__name__, only[1]) and test not in TESTS[:2]:
            continue
        try:
            test()
            print(f"@ok {test.__name__}", flush=True)
        except Exception as failure:
            if not isinstance(failure, Failure):
                traceback.print_exc(file=sys.stdout)
            print(f"@not {test.__name__} {failure}", flush=True)
            subprocess.run(["journalctl", "-b", "--no-pager", "-n", "30", "-u", SERVICE])
            if test in TESTS[:2]:
                break
    print("@end", flush=True)
    run("dmesg", "--level=emerg,alert,crit,err,warn")
    subprocess.run(["systemctl", "poweroff", "--force", "--force"])


main()
