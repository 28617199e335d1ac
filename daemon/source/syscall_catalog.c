#include "daemon/source/syscall_catalog.h"

#include <asm/unistd.h>
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/source/tracepoint_probe.h"
#include "daemon/source/tracepoints.h"
#include "kmod/bpf/request.h"
#include "proto/limits.h"
#include "query/structure_text.h"

#define UNNAMED_BEYOND	64	/* numbers past the last named one that newer kernels may have */
#define FORMAT_BYTES_MAX 8192	/* of events/syscalls/sys_enter_NAME/format */
#define FIELDS_MAX (2 + RT_SYSCALL_ARGS_MAX)

/* The names of <asm/unistd.h>, by number; daemon/source/syscall_numbers.sh writes the rows. */
static const struct syscall_number {
	uint32_t number;
	const char *name;
} syscall_number[] = {
#include "daemon/source/syscall_numbers.inc"
};

#define SYSCALL_NUMBERS (sizeof(syscall_number) / sizeof(syscall_number[0]))

static const struct syscall_arg field_duration = {
	"duration_ns", "u64", RINGTAIL__V1__FIELD_TYPE__FIELD_DURATION, 64
};
static const struct syscall_arg field_ret = {
	"ret", "long", RINGTAIL__V1__FIELD_TYPE__FIELD_RESULT, 64
};

/* As kmod/uapi/ringtail.h lists them. */
static const struct fixed_probe {
	uint32_t id;
	const char *provider, *function, *name;
	unsigned fields;
	struct syscall_arg field[10];
} fixed_probe[] = {
	{ RT_PROBE_SCHED_SWITCH, "tracepoint", "sched", "sched_switch", 4, {
		{ "prev_prio", "int", RINGTAIL__V1__FIELD_TYPE__FIELD_SIGNED, 32 },
		{ "prev_state", "long", RINGTAIL__V1__FIELD_TYPE__FIELD_HEX, 64 },
		{ "next_tid", "pid_t", RINGTAIL__V1__FIELD_TYPE__FIELD_THREAD, 32 },
		{ "next_prio", "int", RINGTAIL__V1__FIELD_TYPE__FIELD_SIGNED, 32 } } },
	{ RT_PROBE_SCHED_WAKEUP, "tracepoint", "sched", "sched_wakeup", 3, {
		{ "target_tid", "pid_t", RINGTAIL__V1__FIELD_TYPE__FIELD_THREAD, 32 },
		{ "prio", "int", RINGTAIL__V1__FIELD_TYPE__FIELD_SIGNED, 32 },
		{ "target_cpu", "int", RINGTAIL__V1__FIELD_TYPE__FIELD_SIGNED, 32 } } },
	{ RT_PROBE_SCHED_FORK, "tracepoint", "sched", "sched_process_fork", 2, {
		{ "child_tid", "pid_t", RINGTAIL__V1__FIELD_TYPE__FIELD_THREAD, 32 },
		{ "child_pid", "pid_t", RINGTAIL__V1__FIELD_TYPE__FIELD_UNSIGNED, 32 } } },
	{ RT_PROBE_SCHED_EXEC, "tracepoint", "sched", "sched_process_exec", 2, {
		{ "old_tid", "pid_t", RINGTAIL__V1__FIELD_TYPE__FIELD_UNSIGNED, 32 },
		{ "filename", "const char *", RINGTAIL__V1__FIELD_TYPE__FIELD_STRING, 64 } } },
	{ RT_PROBE_SCHED_EXIT, "tracepoint", "sched", "sched_process_exit", 6, {
		{ "prio", "int", RINGTAIL__V1__FIELD_TYPE__FIELD_SIGNED, 32 },
		{ "group_dead", "bool", RINGTAIL__V1__FIELD_TYPE__FIELD_UNSIGNED, 1 },
		{ "exit_code", "int", RINGTAIL__V1__FIELD_TYPE__FIELD_SIGNED, 32 },
		{ "status", "int", RINGTAIL__V1__FIELD_TYPE__FIELD_UNSIGNED, 32 },
		{ "signal", "int", RINGTAIL__V1__FIELD_TYPE__FIELD_UNSIGNED, 32 },
		{ "core", "bool", RINGTAIL__V1__FIELD_TYPE__FIELD_UNSIGNED, 1 } } },
	{ RT_PROBE_PROCESS_MAP, "process", "map", "executable", 10, {
		{ "start", "u64", RINGTAIL__V1__FIELD_TYPE__FIELD_HEX, 64 },
		{ "bytes", "u64", RINGTAIL__V1__FIELD_TYPE__FIELD_UNSIGNED, 64 },
		{ "offset", "u64", RINGTAIL__V1__FIELD_TYPE__FIELD_HEX, 64 },
		{ "build_id0", "u64", RINGTAIL__V1__FIELD_TYPE__FIELD_HEX, 64 },
		{ "build_id1", "u64", RINGTAIL__V1__FIELD_TYPE__FIELD_HEX, 64 },
		{ "build_id2", "u32", RINGTAIL__V1__FIELD_TYPE__FIELD_HEX, 32 },
		{ "device", "dev_t", RINGTAIL__V1__FIELD_TYPE__FIELD_UNSIGNED, 32 },
		{ "inode", "u64", RINGTAIL__V1__FIELD_TYPE__FIELD_UNSIGNED, 64 },
		{ "path", "const char *", RINGTAIL__V1__FIELD_TYPE__FIELD_STRING, 64 },
		{ "path_more", "const char *", RINGTAIL__V1__FIELD_TYPE__FIELD_STRING, 64 } } },
};

/* A counter's; a profile has the first three of them, and an interval the third. */
static const struct syscall_arg timer_field[] = {
	{ "kernel_ip", "u64", RINGTAIL__V1__FIELD_TYPE__FIELD_HEX, 64 },
	{ "user_ip", "u64", RINGTAIL__V1__FIELD_TYPE__FIELD_HEX, 64 },
	{ "periods", "u64", RINGTAIL__V1__FIELD_TYPE__FIELD_UNSIGNED, 64 },
	{ "address", "u64", RINGTAIL__V1__FIELD_TYPE__FIELD_HEX, 64 },
};

static const struct timer_probe {
	const char *provider, *function, *name;
} timer_probe[] = {
#define TIMER_PROBE(provider, function, name, period) { provider, function, name },
#define COUNTER_PROBE(provider, function, period, type, config) { provider, function, #period },
#include "daemon/source/timer_probes.def"
#undef COUNTER_PROBE
#undef TIMER_PROBE
};

#define TIMER_PROBES (sizeof(timer_probe) / sizeof(timer_probe[0]))
#define FIXED_PROBES (sizeof(fixed_probe) / sizeof(fixed_probe[0]))

_Static_assert(FIELDS_MAX <= PROBE_FIELDS_MAX, "a call has more fields than a probe may have");
_Static_assert(3 * RT_SYSCALLS_MAX + FIXED_PROBES + TIMER_PROBES <= CATALOG_PROBES_MAX, "the catalog is too small");

/* ---- arguments, as tracefs declares them -------------------------------------------------- */

/*
 * Opens the format of a system call. tracefs names it after the kernel's function, which is not
 * always the call: fstat is newfstat, sendfile is sendfile64, umount2 is umount. The first that is
 * there of: the name, new + name, name + 64, the name without its digits.
 */
static int open_format(int tracefs, const char *name)
{
	static const char *const prefix[] = { "", "new", "", "" };
	static const char *const suffix[] = { "", "", "64", "" };
	int bytes = strlen(name), fd = -ENOENT;
	char path[128];

	for (unsigned i = 0; i < sizeof(prefix) / sizeof(prefix[0]) && fd < 0; i++) {
		if (i == 3)
			while (bytes > 0 && isdigit((unsigned char)name[bytes - 1]))
				bytes--;
		snprintf(path, sizeof(path), "events/syscalls/sys_enter_%s%.*s%s/format", prefix[i],
			 bytes, name, suffix[i]);
		fd = openat(tracefs, path, O_RDONLY | O_CLOEXEC);
	}
	return fd;
}


static bool text_ends(const char *text, const char *end)
{
	size_t bytes = strlen(text), end_bytes = strlen(end);

	return bytes >= end_bytes && !strcmp(text + bytes - end_bytes, end);
}

static bool text_in(const char *text, const char *const *list)
{
	for (; *list; list++)
		if (!strcmp(text, *list))
			return true;
	return false;
}

/* The type without what says nothing about its size: const, __, __kernel_. */
static const char *type_core(const char *c_type)
{
	if (!strncmp(c_type, "const ", 6))
		c_type += 6;
	if (!strncmp(c_type, "__kernel_", 9))
		return c_type + 9;
	if (!strncmp(c_type, "__", 2))
		return c_type + 2;
	return c_type;
}

/*
 * A string is a const char * (or a char * that is called a name, or a type as mount's is), unless a
 * length comes next: then it is a buffer.
 */
static bool arg_is_string(const struct syscall_arg *arg, const struct syscall_arg *next)
{
	bool is_called_text = strstr(arg->name, "name") || !strcmp(arg->name, "type");

	if (strcmp(arg->c_type, "const char *") &&
	    (strcmp(arg->c_type, "char *") || !is_called_text))
		return false;
	return !next || (strcmp(next->c_type, "size_t") && !text_ends(next->name, "len"));
}

static bool arg_is_address(const struct syscall_arg *arg)
{
	return !strcmp(arg->c_type, "struct sockaddr *");
}

static void arg_set_integer_type(struct syscall_arg *arg)
{
	static const char *const signed32[] = { "int", "s32", "pid_t", "clockid_t", "timer_t",
						"mqd_t", "key_t", "key_serial_t", "rwf_t", NULL };
	static const char *const signed64[] = { "long", "loff_t", "off_t", "ssize_t", "s64",
						"time_t", NULL };
	static const char *const unsigned32[] = { "unsigned int", "unsigned", "u32", "uid_t",
						  "gid_t", "qid_t", NULL };
	static const char *const bitset[] = { "flag", "prot", "mode", "mask", "addr", NULL };
	const char *core = type_core(arg->c_type);

	if (text_in(core, signed32)) {
		arg->type = RINGTAIL__V1__FIELD_TYPE__FIELD_SIGNED;
		arg->bits = 32;
	} else if (text_in(core, signed64)) {
		arg->type = RINGTAIL__V1__FIELD_TYPE__FIELD_SIGNED;
		arg->bits = 64;
	} else {
		arg->type = RINGTAIL__V1__FIELD_TYPE__FIELD_UNSIGNED;
		arg->bits = text_in(core, unsigned32) || !strncmp(core, "enum ", 5) ? 32 :
			    !strcmp(core, "umode_t") ? 16 : 64;
	}
	/* Also mmap()'s, an unsigned long: the kernel looks at its lower half, and there -1 is -1. */
	if (text_ends(arg->name, "fd") || text_ends(arg->name, "fildes") ||
	    !strcmp(arg->name, "fd_in") || !strcmp(arg->name, "fd_out") ||
	    !strcmp(arg->name, "fdin") || !strcmp(arg->name, "fdout")) {
		arg->type = RINGTAIL__V1__FIELD_TYPE__FIELD_FD;
		arg->bits = 32;
		return;
	}
	/* A length is none, of whatever it is. */
	if (text_ends(arg->name, "len") || !strncmp(arg->name, "size", 4))
		return;
	for (const char *const *word = bitset; *word; word++)
		if (strstr(arg->name, *word))
			arg->type = RINGTAIL__V1__FIELD_TYPE__FIELD_HEX;
}

static void arg_set_type(struct syscall_arg *arg, const struct syscall_arg *next)
{
	static const char *const pointers[] = { "cap_user_header_t", "cap_user_data_t", NULL };

	if (!strchr(arg->c_type, '*') && !text_in(type_core(arg->c_type), pointers)) {
		arg_set_integer_type(arg);
		return;
	}
	arg->bits = 64;
	arg->type = arg_is_string(arg, next) || arg_is_address(arg) ?
			    RINGTAIL__V1__FIELD_TYPE__FIELD_STRING :
			    RINGTAIL__V1__FIELD_TYPE__FIELD_HEX;
}

static unsigned unnamed_args(struct syscall_arg arg[RT_SYSCALL_ARGS_MAX])
{
	for (unsigned i = 0; i < RT_SYSCALL_ARGS_MAX; i++) {
		snprintf(arg[i].name, sizeof(arg[i].name), "arg%u", i);
		snprintf(arg[i].c_type, sizeof(arg[i].c_type), "unsigned long");
		arg[i].type = RINGTAIL__V1__FIELD_TYPE__FIELD_HEX;
		arg[i].bits = 64;
	}
	return RT_SYSCALL_ARGS_MAX;
}

static void copy_span(char to[SYSCALL_ARG_TEXT_BYTES], const struct tracepoint_span *span)
{
	snprintf(to, SYSCALL_ARG_TEXT_BYTES, "%.*s", (int)span->bytes, span->at);
}

/* Without the number of the call, and without the texts that newer kernels add behind the arguments. */
static unsigned args_of_format(const struct tracepoint_format *format,
			       struct syscall_arg arg[RT_SYSCALL_ARGS_MAX])
{
	unsigned args = 0;

	for (unsigned i = 0; i < format->fields && args < RT_SYSCALL_ARGS_MAX; i++) {
		const struct tracepoint_field *field = &format->field[i];

		copy_span(arg[args].name, &field->name);
		copy_span(arg[args].c_type, &field->c_type);
		if (field->kind != TRACEPOINT_LOCATED && strcmp(arg[args].name, "__syscall_nr") != 0)
			args++;
	}
	for (unsigned i = 0; i < args; i++)
		arg_set_type(&arg[i], i + 1 < args ? &arg[i + 1] : NULL);
	return args;
}

unsigned syscall_args_read(int tracefs, const char *name,
			   struct syscall_arg arg[RT_SYSCALL_ARGS_MAX])
{
	int fd = tracefs < 0 ? -1 : open_format(tracefs, name);
	struct tracepoint_format format;
	char text[FORMAT_BYTES_MAX];
	ssize_t bytes;

	if (fd < 0)
		return unnamed_args(arg);
	bytes = read(fd, text, sizeof(text));
	close(fd);
	if (bytes <= 0 || tracepoint_format_parse(text, (size_t)bytes, &format) != 0)
		return unnamed_args(arg);
	return args_of_format(&format, arg);
}

/* ---- messages, made of the pieces that free_unpacked() frees ------------------------------- */

static Ringtail__V1__Field *field_create(const struct syscall_arg *from)
{
	Ringtail__V1__Field *field = malloc(sizeof(*field));

	if (!field)
		return NULL;
	ringtail__v1__field__init(field);
	field->type = from->type;
	field->bits = from->bits;
	field->name = strdup(from->name);
	field->c_type = strdup(from->c_type);
	if (field->name && field->c_type)
		return field;
	ringtail__v1__field__free_unpacked(field, NULL);
	return NULL;
}

static int probe_fill(Ringtail__V1__Probe *probe, const char *provider, const char *function,
		      const char *name, const struct syscall_arg *field, unsigned fields)
{
	probe->provider = strdup(provider);
	probe->function = strdup(function);
	probe->name = strdup(name);
	probe->field = calloc(fields ? fields : 1, sizeof(*probe->field));
	if (!probe->provider || !probe->function || !probe->name || !probe->field)
		return -ENOMEM;
	for (unsigned i = 0; i < fields; i++) {
		probe->field[i] = field_create(&field[i]);
		if (!probe->field[i])
			return -ENOMEM;
		probe->n_field++;
	}
	return 0;
}

/* Appends a probe; the catalog has room for it. */
static int catalog_add(Ringtail__V1__Catalog *catalog, uint32_t id, const char *provider,
		       const char *function, const char *name, const struct syscall_arg *field,
		       unsigned fields)
{
	Ringtail__V1__Probe *probe = malloc(sizeof(*probe));

	if (!probe)
		return -ENOMEM;
	ringtail__v1__probe__init(probe);
	catalog->probe[catalog->n_probe++] = probe;
	probe->id = id;
	return probe_fill(probe, provider, function, name, field, fields);
}

/* ---- the probes --------------------------------------------------------------------------- */

bool syscall_names_file(const char *name)
{
	static const char *const file[] = {"open", "openat", "openat2", "creat", "execve", "execveat",
					   "mount", "umount2", "unlink", "unlinkat",
					   "connect", "bind"};

	for (size_t i = 0; i < sizeof(file) / sizeof(file[0]); i++)
		if (strcmp(name, file[i]) == 0)
			return true;
	return false;
}

/* The programs look in two places: connect(fd, address, length), sendto(..., address, length). */
static uint32_t address_bits(const struct syscall_arg *arg, unsigned i, unsigned args)
{
	uint32_t bits = SYSCALL_ADDRESS | 1u << (SYSCALL_STRINGS_SHIFT + i);

	if ((i != 1 && i != 4) || i + 1 >= args)
		return 0;
	return strchr(arg[i + 1].c_type, '*') ? bits | SYSCALL_ADDRESS_RESULT : bits;
}

static uint32_t syscall_word(const char *name, const struct syscall_arg *arg, unsigned args)
{
	uint32_t word = SYSCALL_IS_KNOWN | args << SYSCALL_ARGS_SHIFT;

	if (!strcmp(name, "execve") || !strcmp(name, "execveat"))
		word |= SYSCALL_SAVES_ARGS;
	if (!strcmp(name, "exit") || !strcmp(name, "exit_group"))
		word |= SYSCALL_NEVER_RETURNS;
	if (!strcmp(name, "setuid") || !strcmp(name, "setreuid") || !strcmp(name, "setresuid"))
		word |= SYSCALL_SETS_UID;
	if (syscall_names_file(name))
		word |= SYSCALL_NAMES_FILE;
	for (unsigned i = 0; i < args; i++) {
		if (arg_is_address(&arg[i]))
			word |= address_bits(arg, i, args);
		else if (arg[i].type == RINGTAIL__V1__FIELD_TYPE__FIELD_STRING)
			word |= 1u << (SYSCALL_STRINGS_SHIFT + i);
		if (arg[i].bits == 32 && (arg[i].type == RINGTAIL__V1__FIELD_TYPE__FIELD_SIGNED ||
					  arg[i].type == RINGTAIL__V1__FIELD_TYPE__FIELD_FD))
			word |= 1u << (SYSCALL_SIGNED_SHIFT + i);
	}
	return word;
}

/* Whose buffer is worth a look: which argument it is, and what says how many bytes it has. */
static const struct look {
	const char *name;
	uint32_t arg, length;		/* LOOK_FILLED: what the call returns */
} buffers[] = {
	{"read", 1, LOOK_FILLED}, {"pread64", 1, LOOK_FILLED}, {"recvfrom", 1, LOOK_FILLED},
	{"write", 1, 2}, {"pwrite64", 1, 2}, {"sendto", 1, 2},
	{"readlink", 1, LOOK_FILLED}, {"readlinkat", 2, LOOK_FILLED},
	{"getdents64", 1, LOOK_FILLED}, {"getcwd", 0, LOOK_FILLED},
};

/* Whose structures are worth a look, in the order of a record: ONE, RESULT, or the argument that counts them. */
#define ONE	STRUCTURE_COUNT_ONE
#define RESULT	STRUCTURE_COUNT_RESULT
#define FILLED	STRUCTURE_FILLED

static const struct structure {
	const char *name;
	uint32_t arg, kind, count, how;
} structures[] = {
	{"nanosleep", 0, RT_STRUCTURE_TIMESPEC, ONE, 0},
	{"clock_nanosleep", 2, RT_STRUCTURE_TIMESPEC, ONE, 0},
	{"clock_gettime", 1, RT_STRUCTURE_TIMESPEC, ONE, FILLED},
	{"clock_getres", 1, RT_STRUCTURE_TIMESPEC, ONE, FILLED},
	{"clock_settime", 1, RT_STRUCTURE_TIMESPEC, ONE, 0},
	{"futex", 3, RT_STRUCTURE_TIMESPEC, ONE, STRUCTURE_OF_FUTEX},
	{"utimensat", 2, RT_STRUCTURE_TIMES, ONE, 0},
	{"semtimedop", 3, RT_STRUCTURE_TIMESPEC, ONE, 0},
	{"mq_timedsend", 4, RT_STRUCTURE_TIMESPEC, ONE, 0},
	{"mq_timedreceive", 4, RT_STRUCTURE_TIMESPEC, ONE, 0},
	{"recvmmsg", 4, RT_STRUCTURE_TIMESPEC_LEFT, ONE, 0},
	{"gettimeofday", 0, RT_STRUCTURE_TIMEVAL, ONE, FILLED},
	{"settimeofday", 0, RT_STRUCTURE_TIMEVAL, ONE, 0},
	{"setitimer", 1, RT_STRUCTURE_ITIMERVAL, ONE, 0},
	{"setitimer", 2, RT_STRUCTURE_ITIMERVAL, ONE, FILLED},
	{"getitimer", 1, RT_STRUCTURE_ITIMERVAL, ONE, FILLED},
	{"timerfd_settime", 2, RT_STRUCTURE_ITIMERSPEC, ONE, 0},
	{"timerfd_settime", 3, RT_STRUCTURE_ITIMERSPEC, ONE, FILLED},
	{"timerfd_gettime", 1, RT_STRUCTURE_ITIMERSPEC, ONE, FILLED},
	{"timer_settime", 2, RT_STRUCTURE_ITIMERSPEC, ONE, 0},
	{"timer_settime", 3, RT_STRUCTURE_ITIMERSPEC, ONE, FILLED},
	{"timer_gettime", 1, RT_STRUCTURE_ITIMERSPEC, ONE, FILLED},
	{"stat", 1, RT_STRUCTURE_STAT, ONE, FILLED},
	{"lstat", 1, RT_STRUCTURE_STAT, ONE, FILLED},
	{"fstat", 1, RT_STRUCTURE_STAT, ONE, FILLED},
	{"newfstatat", 2, RT_STRUCTURE_STAT, ONE, FILLED},
	{"statx", 4, RT_STRUCTURE_STATX, ONE, FILLED},
	{"pipe", 0, RT_STRUCTURE_INTS, ONE, FILLED},
	{"pipe2", 0, RT_STRUCTURE_INTS, ONE, FILLED},
	{"socketpair", 3, RT_STRUCTURE_INTS, ONE, FILLED},
	{"rt_sigprocmask", 1, RT_STRUCTURE_SIGSET, ONE, 0},
	{"rt_sigprocmask", 2, RT_STRUCTURE_SIGSET, ONE, FILLED},
	{"rt_sigsuspend", 0, RT_STRUCTURE_SIGSET, ONE, 0},
	{"rt_sigpending", 0, RT_STRUCTURE_SIGSET, ONE, FILLED},
	{"rt_sigtimedwait", 0, RT_STRUCTURE_SIGSET, ONE, 0},
	{"rt_sigtimedwait", 1, RT_STRUCTURE_SIGINFO, ONE, FILLED},
	{"rt_sigtimedwait", 2, RT_STRUCTURE_TIMESPEC, ONE, 0},
	{"signalfd", 1, RT_STRUCTURE_SIGSET, ONE, 0},
	{"signalfd4", 1, RT_STRUCTURE_SIGSET, ONE, 0},
	{"rt_sigaction", 1, RT_STRUCTURE_SIGACTION, ONE, 0},
	{"rt_sigaction", 2, RT_STRUCTURE_SIGACTION, ONE, FILLED},
	{"sigaltstack", 0, RT_STRUCTURE_ALTSTACK, ONE, 0},
	{"sigaltstack", 1, RT_STRUCTURE_ALTSTACK, ONE, FILLED},
	{"poll", 0, RT_STRUCTURE_POLLFD, 1, 0},
	{"ppoll", 0, RT_STRUCTURE_POLLFD, 1, 0},
	{"ppoll", 2, RT_STRUCTURE_TIMESPEC_LEFT, ONE, 0},
	{"ppoll", 3, RT_STRUCTURE_SIGSET, ONE, 0},
	{"select", 1, RT_STRUCTURE_FDSET, 0, 0},
	{"select", 2, RT_STRUCTURE_FDSET, 0, 0},
	{"select", 3, RT_STRUCTURE_FDSET, 0, 0},
	{"select", 4, RT_STRUCTURE_TIMEVAL_LEFT, ONE, 0},
	{"pselect6", 1, RT_STRUCTURE_FDSET, 0, 0},
	{"pselect6", 2, RT_STRUCTURE_FDSET, 0, 0},
	{"pselect6", 3, RT_STRUCTURE_FDSET, 0, 0},
	{"pselect6", 4, RT_STRUCTURE_TIMESPEC_LEFT, ONE, 0},
	{"epoll_ctl", 3, RT_STRUCTURE_EPOLL_ONE, ONE, 0},
	{"epoll_wait", 1, RT_STRUCTURE_EPOLL, RESULT, FILLED},
	{"epoll_pwait", 1, RT_STRUCTURE_EPOLL, RESULT, FILLED},
	{"epoll_pwait", 4, RT_STRUCTURE_SIGSET, ONE, 0},
	{"epoll_pwait2", 1, RT_STRUCTURE_EPOLL, RESULT, FILLED},
	{"epoll_pwait2", 3, RT_STRUCTURE_TIMESPEC, ONE, 0},
	{"epoll_pwait2", 4, RT_STRUCTURE_SIGSET, ONE, 0},
	{"getrlimit", 1, RT_STRUCTURE_RLIMIT, ONE, FILLED},
	{"setrlimit", 1, RT_STRUCTURE_RLIMIT, ONE, 0},
	{"prlimit64", 2, RT_STRUCTURE_RLIMIT, ONE, 0},
	{"prlimit64", 3, RT_STRUCTURE_RLIMIT, ONE, FILLED},
	{"getrusage", 1, RT_STRUCTURE_RUSAGE, ONE, FILLED},
	{"wait4", 1, RT_STRUCTURE_STATUS, ONE, FILLED | STRUCTURE_OF_CHILD},
	{"wait4", 3, RT_STRUCTURE_RUSAGE, ONE, FILLED | STRUCTURE_OF_CHILD},
	{"waitid", 2, RT_STRUCTURE_SIGINFO, ONE, FILLED},
	{"waitid", 4, RT_STRUCTURE_RUSAGE, ONE, FILLED},
	{"uname", 0, RT_STRUCTURE_UTSNAME, ONE, FILLED},
	{"clone3", 0, RT_STRUCTURE_CLONE, ONE, 0},
	{"readv", 1, RT_STRUCTURE_IOVEC, 2, FILLED},
	{"preadv", 1, RT_STRUCTURE_IOVEC, 2, FILLED},
	{"preadv2", 1, RT_STRUCTURE_IOVEC, 2, FILLED},
	{"writev", 1, RT_STRUCTURE_IOVEC, 2, 0},
	{"pwritev", 1, RT_STRUCTURE_IOVEC, 2, 0},
	{"pwritev2", 1, RT_STRUCTURE_IOVEC, 2, 0},
	{"vmsplice", 1, RT_STRUCTURE_IOVEC, 2, 0},
	{"sendmsg", 1, RT_STRUCTURE_MSGHDR, ONE, 0},
	{"recvmsg", 1, RT_STRUCTURE_MSGHDR, ONE, FILLED},
};

#undef ONE
#undef RESULT
#undef FILLED

/* Calls whose success is a descriptor of the caller's. */
static const char *const opens[] = {
	"open", "openat", "openat2", "creat", "open_by_handle_at", "socket", "accept", "accept4", "dup", "dup2",
	"dup3", "epoll_create", "epoll_create1", "eventfd", "eventfd2", "signalfd", "signalfd4",
	"timerfd_create", "inotify_init", "inotify_init1", "fanotify_init", "memfd_create", "memfd_secret",
	"pidfd_open", "pidfd_getfd", "userfaultfd", "perf_event_open", "mq_open", "fsopen", "fsmount",
	"open_tree", "io_uring_setup",
};

/*
 * Of a call whose arguments nobody describes (no tracefs), nothing is read: by its field's type alone it is known
 * whether a text is bytes that processes read or write, which is for operators.
 */
static bool is_described(const Ringtail__V1__Probe *probe, uint32_t arg)
{
	return arg + 2 < probe->n_field && strchr(probe->field[arg + 2]->c_type, '*');
}

static uint32_t look_at(const Ringtail__V1__Probe *probe)
{
	uint32_t look = strcmp(probe->function, "close") ? 0 : LOOK_ENDS;

	for (size_t i = 2; i < probe->n_field && i < FIELDS_MAX; i++)
		if (probe->field[i]->type == RINGTAIL__V1__FIELD_TYPE__FIELD_FD)
			look |= 1u << (i - 2);
	for (size_t i = 0; i < sizeof(opens) / sizeof(opens[0]); i++)
		if (strcmp(probe->function, opens[i]) == 0)
			look |= LOOK_RESULT;
	for (size_t i = 0; i < sizeof(buffers) / sizeof(buffers[0]); i++)
		if (strcmp(probe->function, buffers[i].name) == 0 && is_described(probe, buffers[i].arg))
			look |= LOOK_DATA | buffers[i].arg << LOOK_ARG_SHIFT |
				(buffers[i].length == LOOK_FILLED ? LOOK_FILLED :
				 buffers[i].length << LOOK_LENGTH_SHIFT);
	return look;
}

void syscall_catalog_looks(const Ringtail__V1__Catalog *catalog, uint32_t looks[RT_SYSCALLS_MAX])
{
	memset(looks, 0, RT_SYSCALLS_MAX * sizeof(looks[0]));
	for (size_t i = 0; i < catalog->n_probe; i++) {
		const Ringtail__V1__Probe *probe = catalog->probe[i];

		if (probe->id >= RT_PROBE_SYSCALL_CALL && probe->id < RT_PROBE_SYSCALL_CALL + RT_SYSCALLS_MAX)
			looks[probe->id - RT_PROBE_SYSCALL_CALL] = look_at(probe);
	}
}

static uint64_t structures_of(const Ringtail__V1__Probe *probe)
{
	uint64_t words = 0;
	unsigned n = 0;

	for (size_t i = 0; i < sizeof(structures) / sizeof(structures[0]); i++) {
		const struct structure *at = &structures[i];

		if (strcmp(probe->function, at->name) == 0 && n < STRUCTURES_PER_CALL && is_described(probe, at->arg))
			words |= (uint64_t)(at->arg | at->how | at->count << STRUCTURE_COUNT_SHIFT |
					    at->kind << STRUCTURE_KIND_SHIFT) << 16 * n++;
	}
	return words;
}

void syscall_catalog_structures(const Ringtail__V1__Catalog *catalog, uint64_t words[RT_SYSCALLS_MAX],
				uint32_t bytes[RT_STRUCTURE_KINDS])
{
	memset(words, 0, RT_SYSCALLS_MAX * sizeof(words[0]));
	for (size_t i = 0; i < catalog->n_probe; i++) {
		const Ringtail__V1__Probe *probe = catalog->probe[i];

		if (probe->id >= RT_PROBE_SYSCALL_CALL && probe->id < RT_PROBE_SYSCALL_CALL + RT_SYSCALLS_MAX)
			words[probe->id - RT_PROBE_SYSCALL_CALL] = structures_of(probe);
	}
	for (uint32_t kind = 0; kind < RT_STRUCTURE_KINDS; kind++)
		bytes[kind] = structure_bytes_of(kind);
}

static int catalog_add_syscall(Ringtail__V1__Catalog *catalog, const struct syscall_number *call,
			       int tracefs, uint32_t words[RT_SYSCALLS_MAX])
{
	struct syscall_arg field[FIELDS_MAX] = { field_duration, field_ret };
	unsigned args = syscall_args_read(tracefs, call->name, field + 2);
	uint32_t number = call->number;
	int err;

	words[number] = syscall_word(call->name, field + 2, args);
	err = catalog_add(catalog, RT_PROBE_SYSCALL_CALL + number, "syscall", call->name, "call",
			  field, 2 + args);
	if (!err)
		err = catalog_add(catalog, RT_PROBE_SYSCALL_ENTRY + number, "syscall", call->name,
				  "entry", field + 2, args);
	if (!err && !(words[number] & SYSCALL_NEVER_RETURNS))
		err = catalog_add(catalog, RT_PROBE_SYSCALL_RETURN + number, "syscall", call->name,
				  "return", field + 1, 1);
	return err;
}

/* A kernel newer than the headers has calls that they do not name: those go by their numbers. */
static int catalog_add_unnamed(Ringtail__V1__Catalog *catalog, uint32_t words[RT_SYSCALLS_MAX])
{
	uint32_t end = 0;
	int err = 0;

	for (uint32_t number = 0; number < RT_SYSCALLS_MAX; number++)
		if (words[number])
			end = number + 1 + UNNAMED_BEYOND;
	for (uint32_t number = 0; number < end && number < RT_SYSCALL_UNKNOWN && !err; number++) {
		char name[sizeof("nr_4294967295")];
		const struct syscall_number call = { number, name };

		if (words[number])
			continue;
		snprintf(name, sizeof(name), "nr_%u", number);
		err = catalog_add_syscall(catalog, &call, -1, words);
	}
	return err;
}

/* What no table has is recorded as one call, which says its number. */
static int catalog_add_unknown(Ringtail__V1__Catalog *catalog, uint32_t words[RT_SYSCALLS_MAX])
{
	static const struct syscall_arg field[] = {
		{ "duration_ns", "u64", RINGTAIL__V1__FIELD_TYPE__FIELD_DURATION, 64 },
		{ "ret", "long", RINGTAIL__V1__FIELD_TYPE__FIELD_RESULT, 64 },
		{ "nr", "int", RINGTAIL__V1__FIELD_TYPE__FIELD_SIGNED, 32 },
		{ "arg0", "unsigned long", RINGTAIL__V1__FIELD_TYPE__FIELD_HEX, 64 },
		{ "arg1", "unsigned long", RINGTAIL__V1__FIELD_TYPE__FIELD_HEX, 64 },
		{ "arg2", "unsigned long", RINGTAIL__V1__FIELD_TYPE__FIELD_HEX, 64 },
		{ "arg3", "unsigned long", RINGTAIL__V1__FIELD_TYPE__FIELD_HEX, 64 },
		{ "arg4", "unsigned long", RINGTAIL__V1__FIELD_TYPE__FIELD_HEX, 64 },
		{ "arg5", "unsigned long", RINGTAIL__V1__FIELD_TYPE__FIELD_HEX, 64 },
	};
	const unsigned args = sizeof(field) / sizeof(field[0]) - 2;
	int err;

	words[RT_SYSCALL_UNKNOWN] = SYSCALL_IS_KNOWN | SYSCALL_IS_UNKNOWN |
				    args << SYSCALL_ARGS_SHIFT;
	err = catalog_add(catalog, RT_PROBE_SYSCALL_CALL + RT_SYSCALL_UNKNOWN, "syscall", "unknown",
			  "call", field, 2 + args);
	if (!err)
		err = catalog_add(catalog, RT_PROBE_SYSCALL_ENTRY + RT_SYSCALL_UNKNOWN, "syscall",
				  "unknown", "entry", field + 2, args);
	/* A return alone does not tell its number from a signal handler's return. */
	return err;
}

static const struct syscall_arg *timer_fields(const char *provider, unsigned *fields)
{
	bool interval = strcmp(provider, "interval") == 0;

	*fields = interval ? 1 : strcmp(provider, "profile") == 0 ? 3 : 4;
	return interval ? &timer_field[2] : timer_field;
}

Ringtail__V1__Probe *syscall_catalog_timer(const char *provider, const char *function, const char *name)
{
	Ringtail__V1__Probe *probe = malloc(sizeof(*probe));
	const struct syscall_arg *field;
	unsigned fields;

	if (!probe)
		return NULL;
	ringtail__v1__probe__init(probe);
	field = timer_fields(provider, &fields);
	if (probe_fill(probe, provider, function, name, field, fields) == 0)
		return probe;
	ringtail__v1__probe__free_unpacked(probe, NULL);
	return NULL;
}

static int catalog_add_timer(Ringtail__V1__Catalog *catalog, unsigned slot)
{
	const struct timer_probe *timer = &timer_probe[slot];
	const struct syscall_arg *field;
	unsigned fields;

	field = timer_fields(timer->provider, &fields);
	return catalog_add(catalog, RT_PROBE_TIMER + slot, timer->provider, timer->function, timer->name, field,
			   fields);
}

int syscall_catalog_create(Ringtail__V1__Catalog **out, uint32_t words[RT_SYSCALLS_MAX])
{
	Ringtail__V1__Catalog *catalog = malloc(sizeof(*catalog));
	int tracefs, err = -ENOMEM;

	if (!catalog)
		return -ENOMEM;
	ringtail__v1__catalog__init(catalog);
	memset(words, 0, RT_SYSCALLS_MAX * sizeof(*words));
	tracefs = tracepoints_open_tracefs();
	catalog->probe = calloc(3 * RT_SYSCALLS_MAX + FIXED_PROBES + TIMER_PROBES, sizeof(*catalog->probe));
	if (!catalog->probe)
		goto close_tracefs;
	err = 0;
	for (unsigned i = 0; i < SYSCALL_NUMBERS && !err; i++)
		if (syscall_number[i].number < RT_SYSCALL_UNKNOWN)
			err = catalog_add_syscall(catalog, &syscall_number[i], tracefs, words);
	if (!err)
		err = catalog_add_unnamed(catalog, words);
	if (!err)
		err = catalog_add_unknown(catalog, words);
	for (unsigned i = 0; i < FIXED_PROBES && !err; i++)
		err = catalog_add(catalog, fixed_probe[i].id, fixed_probe[i].provider,
				  fixed_probe[i].function, fixed_probe[i].name,
				  fixed_probe[i].field, fixed_probe[i].fields);
	for (unsigned i = 0; i < TIMER_PROBES && !err; i++)
		err = catalog_add_timer(catalog, i);
close_tracefs:
	if (tracefs >= 0)
		close(tracefs);
	if (err)
		ringtail__v1__catalog__free_unpacked(catalog, NULL);
	else
		*out = catalog;
	return err;
}
