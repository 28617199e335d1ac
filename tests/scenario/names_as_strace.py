"""The names of flags, signals, sockets, options and requests in text are those that strace shows of the same
calls of the same program."""
import re
import subprocess

import ringtail
from lib.process import PATIENCE_S

PROGRAM = r"""
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

#define CALL(...) syscall(__VA_ARGS__)

int main(int argc, char **argv)
{
	const char *dir = argv[1];
	int one = 1, word = 0, pair[2], fd, other;
	struct timespec soon = { 0, 1 };
	void *page;
	sigset_t set;

	(void)argc;
	if (chdir(dir))
		return 1;
	fd = CALL(SYS_openat, AT_FDCWD, "a", O_RDWR | O_CREAT | O_TRUNC | O_APPEND | O_NONBLOCK, 0644);
	CALL(SYS_openat, AT_FDCWD, "none", O_WRONLY | O_EXCL | O_SYNC | O_NOFOLLOW | O_NOATIME);
	CALL(SYS_openat, AT_FDCWD, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_PATH);
	CALL(SYS_openat, AT_FDCWD, ".", O_RDWR | O_TMPFILE, 0600);
	CALL(SYS_access, "a", F_OK);
	CALL(SYS_access, "a", R_OK | W_OK);
	CALL(SYS_faccessat2, AT_FDCWD, "a", X_OK, AT_EACCESS | AT_SYMLINK_NOFOLLOW);
	CALL(SYS_newfstatat, AT_FDCWD, "a", &(struct stat){0}, AT_SYMLINK_NOFOLLOW);
	CALL(SYS_linkat, AT_FDCWD, "a", AT_FDCWD, "b", AT_SYMLINK_FOLLOW);
	CALL(SYS_renameat2, AT_FDCWD, "a", AT_FDCWD, "b", RENAME_NOREPLACE);
	CALL(SYS_unlinkat, AT_FDCWD, "b", AT_REMOVEDIR);
	for (int command = F_DUPFD; command <= F_SETFL; command++)
		CALL(SYS_fcntl, fd, command, 0);
	CALL(SYS_fcntl, fd, F_DUPFD_CLOEXEC, 0);
	CALL(SYS_fcntl, fd, F_SETFL, O_APPEND);
	CALL(SYS_fcntl, fd, F_SETFD, FD_CLOEXEC);
	CALL(SYS_flock, fd, LOCK_EX | LOCK_NB);
	CALL(SYS_flock, fd, LOCK_UN);
	CALL(SYS_lseek, fd, 0, SEEK_SET);
	CALL(SYS_lseek, fd, 0, SEEK_END);
	CALL(SYS_lseek, fd, 0, SEEK_HOLE);
	CALL(SYS_fallocate, fd, FALLOC_FL_KEEP_SIZE, 0, 4096);
	CALL(SYS_fadvise64, fd, 0, 0, POSIX_FADV_SEQUENTIAL);
	CALL(SYS_fsetxattr, fd, "user.x", "y", 1, XATTR_CREATE);
	CALL(SYS_ioctl, fd, FIONREAD, &word);
	CALL(SYS_ioctl, fd, TIOCGWINSZ, &word);

	page = (void *)CALL(SYS_mmap, 0, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	CALL(SYS_mprotect, page, 4096, PROT_READ | PROT_WRITE);
	CALL(SYS_madvise, page, 4096, MADV_DONTNEED);
	CALL(SYS_madvise, page, 4096, MADV_WILLNEED);
	CALL(SYS_msync, page, 4096, MS_SYNC | MS_INVALIDATE);
	CALL(SYS_mremap, page, 4096, 8192, MREMAP_MAYMOVE, 0);
	CALL(SYS_mlockall, 0x40);
	CALL(SYS_memfd_create, "m", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	CALL(SYS_socketpair, AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair);
	CALL(SYS_socket, AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, IPPROTO_UDP);
	CALL(SYS_socket, AF_NETLINK, SOCK_RAW, 0);
	other = CALL(SYS_socket, AF_INET6, SOCK_STREAM, IPPROTO_TCP);
	CALL(SYS_setsockopt, other, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	CALL(SYS_setsockopt, other, SOL_TCP, TCP_NODELAY, &one, sizeof(one));
	CALL(SYS_setsockopt, other, SOL_IPV6, IPV6_V6ONLY, &one, sizeof(one));
	CALL(SYS_sendto, pair[0], "x", 1, MSG_NOSIGNAL | MSG_DONTWAIT, 0, 0);
	CALL(SYS_recvfrom, pair[1], &word, 1, MSG_PEEK, 0, 0);
	CALL(SYS_shutdown, pair[0], SHUT_RDWR);

	CALL(SYS_kill, getpid(), 0);
	CALL(SYS_kill, 999999999, SIGUSR1);
	CALL(SYS_tgkill, 999999999, 999999999, SIGSEGV);
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	CALL(SYS_rt_sigprocmask, SIG_BLOCK, &set, 0, 8);
	CALL(SYS_rt_sigaction, SIGCHLD, 0, 0, 8);
	CALL(SYS_signalfd4, -1, &set, 8, SFD_CLOEXEC | SFD_NONBLOCK);
	CALL(SYS_unshare, CLONE_FILES | CLONE_FS);
	CALL(SYS_wait4, -1, 0, WNOHANG | WUNTRACED, 0);
	CALL(SYS_waitid, P_ALL, 0, 0, WEXITED | WNOHANG | WNOWAIT, 0);
	CALL(SYS_epoll_ctl, fd, EPOLL_CTL_DEL, fd, 0);
	CALL(SYS_epoll_create1, EPOLL_CLOEXEC);
	CALL(SYS_eventfd2, 0, EFD_NONBLOCK | EFD_SEMAPHORE);
	CALL(SYS_timerfd_create, CLOCK_MONOTONIC, TFD_CLOEXEC);
	CALL(SYS_inotify_init1, IN_NONBLOCK);
	CALL(SYS_inotify_add_watch, -1, ".", IN_MODIFY | IN_CREATE | IN_ONLYDIR);
	CALL(SYS_futex, &word, FUTEX_WAKE, 1, 0, 0, 0);
	CALL(SYS_futex, &word, FUTEX_WAKE_PRIVATE, 1, 0, 0, 0);
	CALL(SYS_prctl, PR_GET_DUMPABLE, 0, 0, 0, 0);
	CALL(SYS_prctl, PR_SET_NO_NEW_PRIVS, 0, 0, 0, 0);
	CALL(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &word);
	CALL(SYS_membarrier, MEMBARRIER_CMD_QUERY, 0, 0);
	CALL(SYS_clock_gettime, CLOCK_BOOTTIME, &soon);
	CALL(SYS_clock_nanosleep, CLOCK_MONOTONIC, TIMER_ABSTIME, &(struct timespec){ 0, 1 }, 0);
	CALL(SYS_getrusage, RUSAGE_SELF, 0);
	CALL(SYS_prlimit64, 0, RLIMIT_NOFILE, 0, 0);
	CALL(SYS_getpriority, PRIO_PROCESS, 0);
	CALL(SYS_sched_get_priority_max, SCHED_FIFO);
	CALL(SYS_getrandom, &word, 1, GRND_NONBLOCK);
	CALL(SYS_mount, "none", "/nonexistent", "none", MS_RDONLY | MS_NOSUID | MS_NODEV, 0);
	CALL(SYS_umount2, "/nonexistent", MNT_DETACH);
	CALL(SYS_pipe2, pair, O_CLOEXEC);
	CALL(SYS_splice, pair[0], 0, pair[1], 0, 1, SPLICE_F_NONBLOCK);
	return 0;
}
"""
# A name in capitals, as macros have them, outside of texts, structures and comments.
NAME = re.compile(r"\b[A-Z][A-Z0-9]*_[A-Z0-9_]+\b|\bSIG[A-Z0-9]+\b|\bW[A-Z]{4,}\b|\b[FT]IO[A-Z]+\b")
# What strace says otherwise: it shows what a pointer or a second word points to, and we do not.
OTHERWISE = {"rt_sigprocmask": {"SIGUSR1"}, "signalfd4": {"SIGUSR1"}, "seccomp": set()}


def names(text):
    text = re.sub(r'"(\\.|[^"\\])*"|/\*.*?\*/|\{[^{}]*\}|\[[^\[\]]*\]', "", text)
    return set(NAME.findall(text))


def calls(text, pattern):
    found = []
    for line in text.splitlines():
        match = re.search(pattern, line)
        if match:
            found.append((match[1], names(match[2])))
    begin = next(i for i, (name, _) in enumerate(found) if name == "chdir")
    end = next(i for i, (name, _) in enumerate(found) if name == "exit_group")
    return found[begin:end]


def main(case):
    name = case.own_comm
    program = case.path(name)
    subprocess.run(["gcc", "-O1", "-w", "-o", program, case.write("calls.c", PROGRAM)], check=True,
                   timeout=PATIENCE_S)
    daemon = case.daemon("--ring-size=8MiB")
    stream = case.stream(daemon, "-p", "syscall:*:call", "-f", f'comm == "{name}"')
    report = case.path("strace.txt")
    done = case.start("strace", "-s", "0", "-o", report, program, case.path(".")).wait()
    case.check_equal(done.code, 0, "the calls are made", done.err)
    ringtail.wait_until(lambda: "exit_group(" in stream.read("out"), "its exit is told")
    done = stream.interrupt()
    case.check_equal(done.code, 0, "the text ends well", done.err)
    with open(report) as text:
        theirs = calls(text.read(), r"^(\w+)\((.*)\) += ")
    ours = calls(done.out, r" (\w+)\((.*?)\)(?: = | <| never|$)")
    case.check_equal([name for name, _ in ours], [name for name, _ in theirs],
                     f"the same {len(theirs)} calls")
    for (name, mine), (_, other) in zip(ours, theirs):
        case.check_equal(mine, other - OTHERWISE.get(name, set()), f"{name}: the same names")
    named = sum(bool(mine) for _, mine in ours)
    case.check(named > 70, f"{named} calls have names", named)
    case.check_balanced(daemon)


ringtail.run(main)
