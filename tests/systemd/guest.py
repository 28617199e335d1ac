#!/usr/bin/env python3
"""guest: runs inside the virtual machine, as a unit of its own: drives ringtaild through systemctl and
says in the words of tests/kernels/console.sh of each thing that is to hold how that went, then powers off.

A test is a function below, in the order in which they run; the one before leaves the daemon running
as the next one finds it. rt.run on the kernel's command line is a list of globs of their names.
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


class Late(Failure):
    """Not so in time: perhaps the machine is busy."""


def check(condition, text, *facts):
    if not condition:
        raise Failure("; ".join([f"not so: {text}", *(repr(fact)[:1500] for fact in facts)]))


def wait_until(condition, what, seconds=20):
    deadline = time.monotonic() + seconds * SLOW
    while not (value := condition()):
        if time.monotonic() > deadline:
            raise Late(f"not within {seconds * SLOW} s: {what}")
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

def user_id(name):
    with open("/etc/passwd") as users:
        return next((int(line.split(":")[2]) for line in users if line.startswith(f"{name}:")),
                    None)


def users_and_directories():
    # This machine is slow to start the daemon anew: the rings hold what happens meanwhile.
    with open("/etc/ringtail/ringtaild.conf", "a") as config:
        config.write("ring-size = 16MiB\n")
    run("systemd-sysusers")
    run("systemd-tmpfiles", "--create", "/usr/lib/tmpfiles.d/ringtail.conf")
    uid = user_id("ringtail")
    check(user_id("ringtail-loader") not in (None, uid), "the loader has an account of its own")
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
    """Each process its own tree, which the unit has made: the engine's with its places, the loader's
    with its descriptors. Neither has the program or its libraries."""
    check(os.listdir(f"/proc/{loader_pid()}/root") == ["proc"], "the loader sees /proc, and no other file",
          os.listdir(f"/proc/{loader_pid()}/root"))
    root = f"/proc/{main_pid()}/root"
    found = {where[len(root):] or "/": set(os.listdir(where)) for where in
             [root, *(f"{root}/{name}" for name in ("etc", "proc", "run", "var", "var/lib"))]}
    check({"etc", "proc", "run", "var"} <= found["/"] <= {"etc", "proc", "run", "usr", "var"},
          "what the unit does not name is not there", found)
    check(found["/var"] == {"lib"} and found["/var/lib"] == {"ringtail"}, "of /var its own directory",
          found)
    check({"ringtail"} <= found["/etc"] <= {"ringtail", "passwd", "group", "nsswitch.conf", "hosts",
                                            "resolv.conf", "gai.conf", "ssl", "localtime"},
          "of /etc its configuration, and who is who", found)
    check(found["/run"] == {"ringtail", "systemd"} and found["/proc"] == {"self"},
          "of the others, what it works with", found)
    check(not os.path.exists(f"{root}/usr/bin") and not os.path.exists(f"{root}/usr/lib"),
          "no program, no library")
    with open(f"{root}/proc/self/statm") as mine, open(f"/proc/{main_pid()}/statm") as wanted:
        check(mine.read().split()[0] == wanted.read().split()[0], "its size is its own")


def can_little():
    engine, loader = status(main_pid()), status(loader_pid())
    kinds = "CapInh", "CapPrm", "CapEff", "CapAmb"
    check([int(engine[kind], 16) for kind in kinds] == [0] * 4, "the engine has no capabilities", engine)
    check([int(loader[kind], 16) for kind in kinds] == [0, 3 << 38, 3 << 38, 0],
          "the loader has CAP_PERFMON and CAP_BPF", loader)
    for status_of, name in (engine, "ringtail"), (loader, "ringtail-loader"):
        check(status_of["Uid"].split() == [str(user_id(name))] * 4, f"{name} is its user", status_of)
        check("0" not in status_of["Gid"].split() and not status_of["Groups"].strip(),
              f"{name} is in no other group", status_of)
    for pid in main_pid(), loader_pid():
        for thread in os.listdir(f"/proc/{pid}/task"):
            check(status(f"{pid}/task/{thread}")["Seccomp"] == "2", "each thread has a filter")
    check(engine["NoNewPrivs"] == loader["NoNewPrivs"] == "1", "neither can gain privileges")
    sockets = [os.readlink(f"/proc/{loader_pid()}/fd/{fd}")
               for fd in os.listdir(f"/proc/{loader_pid()}/fd") if int(fd) > 2]
    check(sum(link.startswith("socket:") for link in sockets) == 2,
          "the loader has two sockets, to the engine and to the finder", sockets)


def arguments_have_names():
    """Which only root may read, from tracefs: the loader does, at its start."""
    probe = json.loads(run("tracectl", "list", "-o", "json", "syscall:openat:call").splitlines()[0])
    check("filename" in json.dumps(probe), "openat has a filename", probe)


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


def drop_in(unit, name, text):
    os.makedirs(f"/run/systemd/system/{unit}.d", exist_ok=True)
    with open(f"/run/systemd/system/{unit}.d/{name}.conf", "w") as file:
        file.write(text)
    run("systemctl", "daemon-reload")


def tcp_by_socket_unit():
    """The unit has no network; tcp clients come through the socket unit's socket."""
    run("systemctl", "stop", SOCKET, SERVICE)
    with open("/etc/ringtail/ringtaild.conf", "a") as config:
        config.write("listen = unix:/run/ringtail/ringtail.sock\nlisten = tcp:127.0.0.1:7117\n"
                     "insecure = yes\n")
    before = codes().count("no-network")
    run("systemctl", "start", SERVICE, code=1)
    wait_until(lambda: codes().count("no-network") > before, "it cannot listen by itself")
    check(log_has(r"network\.conf"), "and says what opens the network")
    run("systemctl", "stop", SERVICE)
    run("systemctl", "reset-failed", SERVICE, code=None)
    drop_in(SOCKET, "tcp", "[Socket]\nListenStream=127.0.0.1:7117\n")
    run("systemctl", "start", SOCKET, SERVICE)
    found = json.loads(run("tracectl", "--connect", "tcp:127.0.0.1:7117", "--insecure", "stat", "-o",
                           "json"))
    check(found["balanced"], "a tcp client is served")


def network_by_drop_in():
    """What README says to install opens the network."""
    run("systemctl", "stop", SOCKET, SERVICE)
    os.unlink(f"/run/systemd/system/{SOCKET}.d/tcp.conf")
    with open("/usr/share/ringtail/network.conf") as file:
        drop_in(SERVICE, "network", file.read())
    run("systemctl", "start", SOCKET, SERVICE)
    run("tracectl", "--connect", "tcp:127.0.0.1:7117", "--insecure", "stat")
    run("systemctl", "stop", SERVICE)
    os.unlink(f"/run/systemd/system/{SERVICE}.d/network.conf")
    path = "/etc/ringtail/ringtaild.conf"
    with open(path) as config:
        lines = [line for line in config if not line.startswith(("listen =", "insecure ="))]
    with open(path, "w") as config:
        config.writelines(lines)
    run("systemctl", "daemon-reload")
    run("systemctl", "start", SOCKET, SERVICE)
    balanced()


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


TESTS = [users_and_directories, starts, streams_exactly, sees_little, can_little, arguments_have_names,
         limits_in_force, socket_activated, tcp_by_socket_unit, network_by_drop_in, reloads,
         clock_jumps, restarts_under_load, killed_under_load, watchdog_fires, stops]


def main(tests, needed=2):
    """The first `needed` tests are what the others stand on."""
    with open("/proc/cmdline") as file:
        only = re.search(r"\brt\.run=(\S+)", file.read())
    only = only[1].split(",") if only else ["*"]
    for test in tests:
        name = test.__name__
        if not any(fnmatch.fnmatch(name, glob) for glob in only) and test not in tests[:needed]:
            continue
        print(f"@run {name}", flush=True)
        try:
            test()
            print(f"@ok {name}", flush=True)
        except Exception as failure:
            traceback.print_exc(file=sys.stdout)
            sys.stdout.flush()
            subprocess.run(["journalctl", "-b", "--no-pager", "-n", "30", "-u", SERVICE])
            late = isinstance(failure, (Late, subprocess.TimeoutExpired))
            said = " ".join(str(failure).split()) or repr(failure)
            print(f"@{'late' if late else 'not'} {name}: {said}", flush=True)
            if test in tests[:needed]:
                break
    print("@end", flush=True)
    run("dmesg", "--level=emerg,alert,crit,err,warn")
    subprocess.run(["systemctl", "poweroff", "--force", "--force"])


if __name__ == "__main__":
    main(TESTS)
