#include "client/cli/host_check.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "query/bpf_host.h"

#define CAP_BIT_PERFMON	38
#define CAP_BIT_BPF	39
#define CAP_BIT_ADMIN	21	/* CAP_SYS_ADMIN stands for both */

#define STATUS_BYTES	4096	/* of /proc/self/status */

__attribute__((format(printf, 3, 4)))
static void found(struct host_check *check, enum check_verdict verdict, const char *format, ...)
{
	va_list args;

	check->verdict = verdict;
	va_start(args, format);
	vsnprintf(check->found, sizeof(check->found), format, args);
	va_end(args);
}

__attribute__((format(printf, 2, 3)))
static void hint(struct host_check *check, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(check->hint, sizeof(check->hint), format, args);
	va_end(args);
}

/* The file's first bytes; -errno. */
static int read_whole(const struct host *host, const char *path, char *text, size_t bytes)
{
	char full[4096];
	ssize_t n;
	int fd;

	snprintf(full, sizeof(full), "%s%s", host->root, path);
	fd = open(full, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	n = read(fd, text, bytes - 1);
	if (n < 0)
		n = -errno;
	close(fd);
	if (n < 0)
		return (int)n;
	text[n] = '\0';
	return 0;
}

/* The same of its first line, without the newline. */
static int read_file(const struct host *host, const char *path, char *text, size_t bytes)
{
	int err = read_whole(host, path, text, bytes);

	if (!err)
		text[strcspn(text, "\n")] = '\0';
	return err;
}

static bool exists(const struct host *host, const char *path)
{
	char full[4096];

	snprintf(full, sizeof(full), "%s%s", host->root, path);
	return access(full, F_OK) == 0;
}

static void check_kernel(const struct host *host, struct host_check *check)
{
	if (!bpf_host_is_old(host->release)) {
		found(check, CHECK_OK, "Linux %s", host->release);
		return;
	}
	found(check, CHECK_FAIL, "Linux %s is older than %d.%d", host->release, BPF_HOST_MAJOR, BPF_HOST_MINOR);
	hint(check, "run a newer kernel, or load the ringtail module");
}

static void check_btf(const struct host *host, struct host_check *check)
{
	if (exists(host, "/sys/kernel/btf/vmlinux")) {
		found(check, CHECK_OK, "the kernel describes its types");
		return;
	}
	found(check, CHECK_FAIL, "there is no /sys/kernel/btf/vmlinux");
	hint(check, "run a kernel built with CONFIG_DEBUG_INFO_BTF=y, or load the ringtail module");
}

/* What the kernel, a container or a module refuses, by its cause. */
static void check_bpf_refused(const struct host *host, struct host_check *check)
{
	char text[32] = "?", status[STATUS_BYTES] = "", uid_map[128] = "";
	struct bpf_host_refusal refusal;

	read_file(host, "/proc/sys/kernel/unprivileged_bpf_disabled", text, sizeof(text));
	read_whole(host, "/proc/self/status", status, sizeof(status));
	read_whole(host, "/proc/self/uid_map", uid_map, sizeof(uid_map));
	refusal = bpf_host_refusal(status, uid_map, -host->try_no_command());
	found(check, CHECK_FAIL, "not permitted (unprivileged_bpf_disabled is %s): %s", text, refusal.cause);
	hint(check, "%s", refusal.remedy);
	check->of_caller = true;
}

static void check_bpf(const struct host *host, struct host_check *check)
{
	int err = host->try_bpf();

	switch (-err) {
	case 0:
		found(check, CHECK_OK, "a map could be made");
		return;
	case ENOSYS:
		found(check, CHECK_FAIL, "this kernel has no bpf(2), or a sandbox hides it");
		hint(check, "run a kernel with CONFIG_BPF_SYSCALL=y, or load the ringtail module");
		return;
	case EPERM:
	case EACCES:
		check_bpf_refused(host, check);
		return;
	default:
		found(check, CHECK_FAIL, "a map could not be made: %s", strerror(-err));
	}
}

static void check_capabilities(const struct host *host, struct host_check *check)
{
	char full[4096], line[256];
	uint64_t caps = 0;
	bool bpf, perfmon;
	FILE *file;

	snprintf(full, sizeof(full), "%s/proc/self/status", host->root);
	file = fopen(full, "re");
	while (file && fgets(line, sizeof(line), file))
		if (!strncmp(line, "CapEff:", 7))
			caps = strtoull(line + 7, NULL, 16);
	if (file)
		fclose(file);
	bpf = caps >> CAP_BIT_BPF & 1 || caps >> CAP_BIT_ADMIN & 1;
	perfmon = caps >> CAP_BIT_PERFMON & 1 || caps >> CAP_BIT_ADMIN & 1;
	if (bpf && perfmon) {
		found(check, CHECK_OK, "CAP_BPF and CAP_PERFMON");
		return;
	}
	found(check, CHECK_FAIL, "you lack %s%s%s", bpf ? "" : "CAP_BPF",
	      bpf || perfmon ? "" : " and ", perfmon ? "" : "CAP_PERFMON");
	hint(check, "be root, or: setcap cap_bpf,cap_perfmon=ep on ringtaild");
	check->of_caller = true;
}

static void check_tracefs(const struct host *host, struct host_check *check)
{
	if (exists(host, "/sys/kernel/tracing/events")) {
		found(check, CHECK_OK, "/sys/kernel/tracing");
		return;
	}
	if (exists(host, "/sys/kernel/debug/tracing/events")) {
		found(check, CHECK_OK, "/sys/kernel/debug/tracing");
		return;
	}
	found(check, CHECK_WARN, "no tracefs is to be seen at /sys/kernel/tracing");
	hint(check,
	     "a daemon started as root mounts its own; one that is not has no names of arguments "
	     "without: mount -t tracefs nodev /sys/kernel/tracing");
}

static void check_lockdown(const struct host *host, struct host_check *check)
{
	char text[128];
	int err = read_file(host, BPF_HOST_LOCKDOWN, text, sizeof(text));

	if (err == -ENOENT && exists(host, BPF_HOST_SECURITYFS)) {
		found(check, CHECK_OK, "this kernel was built without lockdown");
		return;
	}
	if (err) {
		found(check, CHECK_WARN, "cannot be told: " BPF_HOST_LOCKDOWN ": %s", strerror(-err));
		hint(check, "mount -t securityfs nodev /sys/kernel/security; of a container: -v"
			    " /sys/kernel/security:/sys/kernel/security:ro");
		return;
	}
	switch (bpf_host_lockdown(text)) {
	case BPF_HOST_OPEN:
		found(check, CHECK_OK, "the kernel is not locked down");
		return;
	case BPF_HOST_INTEGRITY:
		found(check, CHECK_OK, "locked down, but tracing is allowed: %s", text);
		return;
	case BPF_HOST_CONFIDENTIALITY:
		found(check, CHECK_FAIL, "locked down for confidentiality: BPF may not read the kernel");
		hint(check, BPF_HOST_LOCKDOWN_REMEDY);
	}
}

static void check_paranoid(const struct host *host, struct host_check *check)
{
	char text[32];

	if (read_file(host, "/proc/sys/kernel/perf_event_paranoid", text, sizeof(text))) {
		found(check, CHECK_WARN, "this kernel has no perf events");
		hint(check, "profile probes need CONFIG_PERF_EVENTS=y");
		return;
	}
	if (atoi(text) > 2) {		/* of Debian's and Ubuntu's kernels */
		found(check, CHECK_WARN, "perf_event_paranoid is %s: these kernels then allow perf events only"
		      " to CAP_SYS_ADMIN, which the loader gives up", text);
		hint(check, "tracepoints other than sched's, and profile probes, need: sysctl -w"
			    " kernel.perf_event_paranoid=2 (and a file in /etc/sysctl.d)");
		return;
	}
	found(check, CHECK_OK, "perf_event_paranoid is %s; with CAP_PERFMON it does not matter",
	      text);
}

/* PROC_PID_INIT_INO of the kernel: no other namespace of pids has this name. */
#define HOST_PID_NAMESPACE "pid:[4026531836]"

static void check_pid_namespace(const struct host *host, struct host_check *check)
{
	char full[4096], own[64] = "";

	snprintf(full, sizeof(full), "%s/proc/self/ns/pid", host->root);
	if (readlink(full, own, sizeof(own) - 1) < 0 || !strcmp(own, HOST_PID_NAMESPACE)) {
		found(check, CHECK_OK, "the host's");
		return;
	}
	found(check, CHECK_WARN, "one of its own, as in a container: the kernel knows processes by other pids");
	hint(check, "start the container with --pid=host (Kubernetes: hostPID: true)");
}

static bool is_older(const struct host *host, int major, int minor)
{
	int of_host = 0, minor_of_host = 0;

	return sscanf(host->release, "%d.%d", &of_host, &minor_of_host) == 2 &&
	       (of_host < major || (of_host == major && minor_of_host < minor));
}

static void check_uprobes(const struct host *host, struct host_check *check)
{
	if (!exists(host, "/sys/bus/event_source/devices/uprobe")) {
		found(check, CHECK_WARN, "this kernel has none: it was built without CONFIG_UPROBE_EVENTS");
		hint(check, "uprobe, uretprobe and usdt probes need a kernel that has them");
	} else if (is_older(host, 6, 6)) {
		found(check, CHECK_OK, "by perf events, as before Linux 6.6: the finder process needs CAP_SYS_ADMIN,"
		      " as it has in a daemon that was started as root");
	} else {
		found(check, CHECK_OK, "uprobe, uretprobe and usdt probes can be had");
	}
}

static void check_kprobes(const struct host *host, struct host_check *check)
{
	if (exists(host, "/sys/bus/event_source/devices/kprobe")) {
		found(check, CHECK_OK, "kprobe and kretprobe probes can be had");
		return;
	}
	found(check, CHECK_WARN, "this kernel has none: it was built without CONFIG_KPROBE_EVENTS");
	hint(check, "kprobe and kretprobe probes need a kernel that has them; ask for tracepoints, or for fentry probes");
}

static void check_fentry(const struct host *host, struct host_check *check)
{
	bool has_tracefs = exists(host, "/sys/kernel/tracing/events");

	hint(check, "fentry and fexit probes need it; ask for tracepoints, or for kprobes");
	if (!exists(host, "/sys/kernel/btf/vmlinux")) {
		found(check, CHECK_WARN, "the kernel does not describe its types (CONFIG_DEBUG_INFO_BTF)");
	} else if (has_tracefs && !exists(host, "/sys/kernel/tracing/available_filter_functions")) {
		found(check, CHECK_WARN, "this kernel was built without CONFIG_FUNCTION_TRACER%s",
		      host->try_tracing() == -EPERM ? ", and forbids programs of the type TRACING" : "");
	} else if (host->try_bpf() == 0 && host->try_tracing() == -EPERM) {
		found(check, CHECK_WARN, "you may not load a program of the type TRACING, or nobody may");
		hint(check, "as root: a policy of this machine forbids them, and fentry and fexit with them; ask for"
		     " tracepoints, or for kprobes");
	} else {
		found(check, CHECK_OK, "fentry and fexit probes can be had");
		check->hint[0] = '\0';
	}
}

static void check_clock(const struct host *host, struct host_check *check)
{
	char text[64];

	if (read_file(host, "/sys/devices/system/clocksource/clocksource0/current_clocksource",
		      text, sizeof(text))) {
		found(check, CHECK_WARN, "the clock source cannot be told");
		return;
	}
	if (!strcmp(text, "hpet") || !strcmp(text, "acpi_pm") || !strcmp(text, "jiffies") ||
	    !strcmp(text, "xen")) {
		found(check, CHECK_WARN, "%s: slow to read, and each event reads it", text);
		hint(check,
		     "see available_clocksource beside it; tsc, kvm-clock and arch_sys_counter are "
		     "fast");
		return;
	}
	found(check, CHECK_OK, "%s", text);
}

static void check_memlock(const struct host *host, struct host_check *check)
{
	int major = 0, minor = 0;
	struct rlimit limit;

	sscanf(host->release, "%d.%d", &major, &minor);
	if (major > 5 || (major == 5 && minor >= 11)) {
		found(check, CHECK_OK, "BPF memory is counted by cgroup, not by RLIMIT_MEMLOCK");
		return;
	}
	if (getrlimit(RLIMIT_MEMLOCK, &limit) || limit.rlim_cur == RLIM_INFINITY) {
		found(check, CHECK_OK, "RLIMIT_MEMLOCK is unlimited");
		return;
	}
	found(check, CHECK_WARN, "RLIMIT_MEMLOCK is %llu KiB, and rings count against it",
	      (unsigned long long)limit.rlim_cur / 1024);
	hint(check, "LimitMEMLOCK=infinity in the unit, or ulimit -l unlimited");
}

static void check_unit(const struct host *host, struct host_check *check)
{
	static const char *const path[] = {
		"/etc/systemd/system/ringtaild.service",
		"/usr/lib/systemd/system/ringtaild.service",
		"/lib/systemd/system/ringtaild.service",
	};

	for (size_t i = 0; i < sizeof(path) / sizeof(*path); i++) {
		if (exists(host, path[i])) {
			found(check, CHECK_OK, "%s", path[i]);
			return;
		}
	}
	found(check, CHECK_WARN, "no ringtaild.service is installed");
	hint(check, "`make install`, or start ringtaild by hand");
}

static const struct {
	const char *name;
	void (*run)(const struct host *host, struct host_check *check);
} checks[] = {
	{ "kernel", check_kernel },
	{ "BTF", check_btf },
	{ "bpf(2)", check_bpf },
	{ "capabilities", check_capabilities },
	{ "tracefs", check_tracefs },
	{ "lockdown", check_lockdown },
	{ "perf events", check_paranoid },
	{ "PID namespace", check_pid_namespace },
	{ "uprobes", check_uprobes },
	{ "kprobes", check_kprobes },
	{ "fentry", check_fentry },
	{ "clock", check_clock },
	{ "memlock", check_memlock },
	{ "systemd unit", check_unit },
};

const char *host_check(const struct host *host, size_t i, struct host_check *check)
{
	if (i >= sizeof(checks) / sizeof(*checks))
		return NULL;
	memset(check, 0, sizeof(*check));
	checks[i].run(host, check);
	return checks[i].name;
}

const char *host_check_verdict_name(enum check_verdict verdict)
{
	return verdict == CHECK_OK ? "ok" : verdict == CHECK_WARN ? "warn" : "FAIL";
}

static int try_bpf(void)
{
	union bpf_attr attr = { 0 };
	long fd;

	attr.map_type = BPF_MAP_TYPE_HASH;	/* it needs nothing but bpf(2) itself */
	attr.key_size = 4;
	attr.value_size = 8;
	attr.max_entries = 1;
	fd = syscall(SYS_bpf, BPF_MAP_CREATE, &attr, sizeof(attr));
	if (fd < 0)
		return -errno;
	close((int)fd);
	return 0;
}

static int try_no_command(void)
{
	return syscall(SYS_bpf, BPF_HOST_NO_COMMAND, NULL, 0) < 0 ? -errno : 0;
}

/* Of a type that cannot be traced: whoever may load such a program is told so, and not that it is forbidden. */
static int try_tracing(void)
{
	const struct bpf_insn nothing[] = {
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K },
		{ .code = BPF_JMP | BPF_EXIT },
	};
	union bpf_attr attr = { 0 };
	long fd;

	attr.prog_type = BPF_PROG_TYPE_TRACING;
	attr.expected_attach_type = BPF_TRACE_FENTRY;
	attr.attach_btf_id = 1;
	attr.insns = (uintptr_t)nothing;
	attr.insn_cnt = 2;
	attr.license = (uintptr_t)"GPL";
	fd = syscall(SYS_bpf, BPF_PROG_LOAD, &attr, sizeof(attr));
	if (fd < 0)
		return -errno;
	close((int)fd);
	return 0;
}

void host_here(struct host *host)
{
	static struct utsname names;

	*host = (struct host){ .root = "", .release = "unknown", .try_bpf = try_bpf, .try_no_command = try_no_command,
			       .try_tracing = try_tracing };
	if (uname(&names) == 0)
		host->release = names.release;
}
