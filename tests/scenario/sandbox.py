"""Engine and loader see and can do only what they need: the engine's file tree has its own places and
no others, and either is ended by the kernel at the first system call that is not on its list."""
import os
import signal

import ringtail

FORBIDDEN = "getppid"       # harmless, on neither list, and strace can put it in place of another


def make_forbidden_call(case, pid, instead_of):
    """Has the process make that call where it would have made another."""
    return case.start("strace", "-qq", "-f", "-o", "/dev/null", "-e",
                      f"inject={instead_of}:retval=0:syscall={FORBIDDEN}:when=1", "-p", str(pid))


def seccomp(pid, thread):
    """2: it has a filter of system calls."""
    with open(f"/proc/{pid}/task/{thread}/status") as file:
        return dict(line.rstrip("\n").split(":\t", 1) for line in file)["Seccomp"]


def main(case):
    if os.geteuid():
        raise ringtail.Skip("only root can leave the host's file system")
    state = case.path("state")
    daemon = case.daemon(f"--state-dir={state}", cwd=case.dir)
    filtered = "[sandbox-off]" not in daemon.log

    root = f"/proc/{daemon.pid}/root"
    case.check(set(os.listdir(root)) <= {"etc", "proc", "run", "tmp"},
               "of the root, the engine sees what leads to its places", os.listdir(root))
    case.check(set(os.listdir(f"{root}/etc")) <= {"passwd", "group", "nsswitch.conf", "localtime"},
               "of /etc, who is who", os.listdir(f"{root}/etc"))
    case.check_equal(os.listdir(f"{root}/tmp"), [os.path.basename(case.dir)], "of /tmp, its own")
    if filtered:
        case.check_equal(os.listdir(f"{root}/proc"), ["self"], "of /proc, itself")
        case.check_equal(os.listdir(f"{root}/proc/self"), ["statm"], "and of that, its size")
    case.check("state" in os.listdir(f"{root}{case.dir}"), "its state directory is there")
    found = os.stat(state)
    case.check_equal((found.st_mode & 0o777, found.st_uid == os.stat(f"/proc/{daemon.pid}").st_uid),
                     (0o700, True), "which is its own, and for nobody else")

    wanted = "2" if filtered else "0"
    finder, = ringtail.children(daemon.loader)
    # Nobody waits for the finder to have confined itself.
    ringtail.wait_until(lambda: seccomp(finder, finder) == wanted, "the finder has its filter")
    for pid in daemon.pid, daemon.loader, finder:
        for thread in ringtail.threads(pid):
            case.check_equal(seccomp(pid, thread), wanted, f"thread {thread} of {pid}: its filter")

    # It does all its work in there.
    load = case.load(1000)
    stream = case.stream(daemon, "-p", "syscall:getppid:call", "-f", load.filter, "-o", "none")
    load.run()
    stream.await_all(1000)
    case.check_stream(stream.interrupt(), events=1000)
    daemon.reload(r"\[reloaded\]")
    case.check_balanced(daemon)

    other = case.daemon(f"--state-dir={case.path('other')}", "--durability=fsync",
                        "--probe=syscall:getppid:call")
    ringtail.wait_until(lambda: spooled(case), "something is in the spool")
    capture = case.path("capture.rt")
    case.stream(other, "-p", "syscall:getppid:call", "-w", capture, command="record").interrupt()
    modes = {path: found.st_mode & 0o777 for path, found in (*files_below(case.path("other")), (capture, os.stat(capture)))}
    case.check_equal(set(modes.values()), {0o600}, "what is written is for nobody else to read", modes)
    if not filtered:
        return

    strace = make_forbidden_call(case, daemon.pid, "epoll_wait,epoll_pwait,epoll_pwait2")
    daemon.ended = True
    case.check_equal(daemon.wait().code, -signal.SIGSYS,
                     "a forbidden call is the engine's end")
    strace.wait()
    strace = make_forbidden_call(case, other.loader, "poll,ppoll,restart_syscall")
    other.ended = True
    ringtail.wait_until(lambda: ask(other), "the loader does something")
    case.check_equal(other.wait().code, 1, "and the loader's, of which")
    case.check("[stopping] the loader ended" in other.log, "the engine knows", other.log)
    strace.wait()


def files_below(directory):
    """(path, what stat(2) says) of each file; one that got another name meanwhile is none."""
    for where, _, names in os.walk(directory):
        for name in names:
            try:
                yield os.path.join(where, name), os.stat(os.path.join(where, name))
            except FileNotFoundError:
                pass


def spooled(case):
    """Whether the second daemon has written some of what it records always."""
    os.getppid()
    return any(found.st_size for _, found in files_below(case.path("other")))


def ask(daemon):
    """Whether the engine has ended, having asked its loader for something once more."""
    try:
        daemon.stat()
    except (OSError, EOFError, ringtail.Failure):
        pass
    return not daemon.running


ringtail.run(main)
