/*
 * sandbox: see sandbox.h. Lists are of what the C library calls, which is not always what the
 * program does: each row that would surprise says whose it is.
 */
#include "daemon/host/sandbox.h"

#include <errno.h>
#include <linux/netlink.h>
#include <linux/perf_event.h>
#include <sched.h>
#include <seccomp.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

/* libseccomp's comparisons leave their second number out; clang, which fuzzes, says so. */
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

/* Memory, time, signals, threads and what is open: both processes. */
static const int common[] = {
	SCMP_SYS(brk),		SCMP_SYS(munmap),	SCMP_SYS(mremap),	SCMP_SYS(madvise),
	SCMP_SYS(futex),	SCMP_SYS(sched_yield),	SCMP_SYS(getrandom),	SCMP_SYS(restart_syscall),
	SCMP_SYS(clock_gettime), SCMP_SYS(clock_getres), SCMP_SYS(gettimeofday), SCMP_SYS(time),
	SCMP_SYS(clock_nanosleep), SCMP_SYS(nanosleep),
	SCMP_SYS(rt_sigaction),	SCMP_SYS(rt_sigprocmask), SCMP_SYS(rt_sigreturn),
	SCMP_SYS(sigaltstack),	SCMP_SYS(getpid),	SCMP_SYS(gettid),
	SCMP_SYS(exit),		SCMP_SYS(exit_group),	SCMP_SYS(getrusage),
	SCMP_SYS(getuid),	SCMP_SYS(geteuid),	SCMP_SYS(getgid),	SCMP_SYS(getegid),
	SCMP_SYS(uname),	SCMP_SYS(sysinfo),	SCMP_SYS(sched_getaffinity),
	SCMP_SYS(getcpu),
	SCMP_SYS(read),		SCMP_SYS(readv),	SCMP_SYS(pread64),	SCMP_SYS(write),
	SCMP_SYS(writev),	SCMP_SYS(close),	SCMP_SYS(lseek),	SCMP_SYS(dup),
	SCMP_SYS(fstat),
	SCMP_SYS(poll),		SCMP_SYS(ppoll),	SCMP_SYS(recvmsg),	SCMP_SYS(sendmsg),
	SCMP_SYS(shutdown),
	SCMP_SYS(fcntl),	SCMP_SYS(set_robust_list), SCMP_SYS(rseq),	SCMP_SYS(membarrier),
};

static const int engine_calls[] = {
	/* The loop; the loader's end. */
	SCMP_SYS(wait4),
	SCMP_SYS(epoll_ctl),	SCMP_SYS(epoll_wait),	SCMP_SYS(epoll_pwait),	SCMP_SYS(epoll_pwait2),
	SCMP_SYS(epoll_create1), SCMP_SYS(eventfd2),	SCMP_SYS(pipe2),
	SCMP_SYS(timerfd_create), SCMP_SYS(timerfd_settime),
	/* Clients. */
	SCMP_SYS(accept4),	SCMP_SYS(connect),	SCMP_SYS(recvfrom),	SCMP_SYS(sendto),
	SCMP_SYS(getsockname),	SCMP_SYS(getpeername),	SCMP_SYS(getsockopt),	SCMP_SYS(setsockopt),
	SCMP_SYS(memfd_create),	/* what clients want, for the next run; a long line of the journal */
	/* The state directory, and configuration that is read again. */
	SCMP_SYS(newfstatat),	SCMP_SYS(statx),	SCMP_SYS(openat),	SCMP_SYS(getdents64),
	SCMP_SYS(readlink),	SCMP_SYS(readlinkat),
	SCMP_SYS(open),		SCMP_SYS(stat),		SCMP_SYS(lstat),	SCMP_SYS(access),
	SCMP_SYS(faccessat),	SCMP_SYS(faccessat2),	SCMP_SYS(statfs),	SCMP_SYS(fstatfs),
	SCMP_SYS(pwrite64),	SCMP_SYS(pwritev),	SCMP_SYS(pwritev2),	SCMP_SYS(preadv),
	SCMP_SYS(fsync),	SCMP_SYS(fdatasync),	SCMP_SYS(sync_file_range),
	SCMP_SYS(ftruncate),	SCMP_SYS(fallocate),	SCMP_SYS(flock),
	SCMP_SYS(rename),	SCMP_SYS(renameat),	SCMP_SYS(renameat2),
	SCMP_SYS(unlink),	SCMP_SYS(unlinkat),	SCMP_SYS(mkdir),	SCMP_SYS(mkdirat),
	SCMP_SYS(fchmod),	SCMP_SYS(fadvise64),
};

/* What libcurl and the resolver of the C library take besides. */
static const int resolver_calls[] = {
	SCMP_SYS(bind),		SCMP_SYS(sendmmsg),	SCMP_SYS(recvmmsg),	SCMP_SYS(socketpair),
	SCMP_SYS(timerfd_gettime),
};

/* Programs are attached and detached, the module is told. Whatever has a path was opened before. */
static const int loader_calls[] = {
	SCMP_SYS(bpf),		SCMP_SYS(ioctl),
	SCMP_SYS(pipe2),	/* the barrier of source_bpf_objects */
	SCMP_SYS(memfd_create),	/* probes that were made, for the engine */
};

static int allow(scmp_filter_ctx filter, const int *call, size_t calls)
{
	int err = 0;

	/* A call that this architecture does not have has a negative number, and is left out. */
	for (size_t i = 0; !err && i < calls; i++)
		if (call[i] >= 0)
			err = seccomp_rule_add(filter, SCMP_ACT_ALLOW, call[i], 0);
	return err;
}

/* Memory that can be executed is what an intruder wants. */
static int allow_data_memory(scmp_filter_ctx filter)
{
	struct scmp_arg_cmp no_code = SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0);
	int err = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(mmap), 1, no_code);

	return err ? err : seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(mprotect), 1, no_code);
}

/* prctl: threads have names. tgkill: abort(). */
static int allow_own(scmp_filter_ctx filter)
{
	int err = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(prctl), 1,
				   SCMP_A0(SCMP_CMP_EQ, PR_SET_NAME));

	return err ? err
		   : seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(tgkill), 1,
				      SCMP_A0(SCMP_CMP_EQ, (scmp_datum_t)getpid()));
}

/* A thread, never a process. A filter cannot see clone3's flags: the C library does without. */
static int allow_threads(scmp_filter_ctx filter)
{
	int err = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(clone), 1,
				   SCMP_A0(SCMP_CMP_MASKED_EQ, CLONE_THREAD, CLONE_THREAD));

	return err ? err : seccomp_rule_add(filter, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), 0);
}

static int begin(scmp_filter_ctx *filter)
{
	int err;

	*filter = seccomp_init(SCMP_ACT_KILL_PROCESS);
	if (!*filter)
		return -ENOMEM;
	err = seccomp_attr_set(*filter, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS);
	if (!err)
		err = seccomp_attr_set(*filter, SCMP_FLTATR_CTL_TSYNC, 1);
	if (!err)
		err = allow(*filter, common, LENGTH(common));
	if (!err)
		err = allow_data_memory(*filter);
	if (!err)
		err = allow_own(*filter);
	return err ? err : allow_threads(*filter);
}

/* unix: the service manager, the journal. Who connects to nobody has no other. */
static int allow_sockets(scmp_filter_ctx filter, bool resolves)
{
	static const int family[] = {AF_INET, AF_INET6};
	int err = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(socket), 1,
				   SCMP_A0(SCMP_CMP_EQ, AF_UNIX));

	for (size_t i = 0; resolves && !err && i < LENGTH(family); i++)
		err = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(socket), 1,
				       SCMP_A0(SCMP_CMP_EQ, (scmp_datum_t)family[i]));
	/* The resolver asks which addresses this host has, and copes without. */
	if (resolves && !err)
		err = seccomp_rule_add(filter, SCMP_ACT_ERRNO(EAFNOSUPPORT), SCMP_SYS(socket), 1,
				       SCMP_A0(SCMP_CMP_EQ, AF_NETLINK));
	return err;
}

/*
 * The resolver has its libraries (sandbox_engine_view). Should nsswitch.conf name another one later,
 * the resolver cannot map its code, and does without: that is no reason to end.
 */
static int allow_resolver(scmp_filter_ctx filter)
{
	int err = allow(filter, resolver_calls, LENGTH(resolver_calls));

	return err ? err
		   : seccomp_rule_add(filter, SCMP_ACT_ERRNO(EACCES), SCMP_SYS(mmap), 1,
				      SCMP_A2(SCMP_CMP_EQ, PROT_READ | PROT_EXEC));
}

/* How much is there to read, is that a terminal, what are the limits: asked, never changed. */
static int allow_asking(scmp_filter_ctx filter)
{
	int err = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(ioctl), 1,
				   SCMP_A1(SCMP_CMP_EQ, FIONREAD));

	if (!err)
		err = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(ioctl), 1,
				       SCMP_A1(SCMP_CMP_EQ, TCGETS));
	return err ? err
		   : seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(prlimit64), 1,
				      SCMP_A2(SCMP_CMP_EQ, 0));
}

static int load(scmp_filter_ctx filter, int err, struct error *error)
{
	/* Filters of more than a few rows are searched by halves. */
	if (!err)
		err = seccomp_attr_set(filter, SCMP_FLTATR_CTL_OPTIMIZE, 2);
	if (!err && SANDBOX_FILTERS)
		err = seccomp_load(filter);
	if (filter)
		seccomp_release(filter);
	if (!err)
		return 0;
	error_set(error, -err, "sandbox", "cannot limit the system calls: %s", strerror(-err));
	error_hint(error, "the kernel needs CONFIG_SECCOMP_FILTER, and what started the daemon has to"
			  " let it call seccomp()");
	return err;
}

int sandbox_engine(const struct sandbox_engine *engine, struct error *error)
{
	scmp_filter_ctx filter;
	int err = begin(&filter);

	if (!err)
		err = allow(filter, engine_calls, LENGTH(engine_calls));
	if (!err)
		err = allow_sockets(filter, engine->resolves);
	if (!err && engine->resolves)
		err = allow_resolver(filter);
	if (!err)
		err = allow_asking(filter);
	if (!err)
		err = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(kill), 2,
				       SCMP_A0(SCMP_CMP_EQ, (scmp_datum_t)engine->loader),
				       SCMP_A1(SCMP_CMP_EQ, SIGKILL));
	return load(filter, err, error);
}

/* The clocks of profile:hz:*: events of a CPU, never of one process. */
static int allow_cpu_events(scmp_filter_ctx filter)
{
	return seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(perf_event_open), 3,
				SCMP_A1(SCMP_CMP_EQ, (scmp_datum_t)-1),
				SCMP_A3(SCMP_CMP_EQ, (scmp_datum_t)-1),
				SCMP_A4(SCMP_CMP_EQ, PERF_FLAG_FD_CLOEXEC));
}

int sandbox_loader(struct error *error)
{
	scmp_filter_ctx filter;
	int err = begin(&filter);

	if (!err)
		err = allow(filter, loader_calls, LENGTH(loader_calls));
	if (!err)
		err = allow_cpu_events(filter);
	return load(filter, err, error);
}
