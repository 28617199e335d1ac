#include "query/structure_text.h"

#include <dirent.h>
#include <linux/sched.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>

#include "query/constant.h"

#define SIGNALS		64
#define SIGNALS_MANY	42	/* from here on strace names those that are not set */
#define UTSNAME_BYTES	130	/* the system's name and the host's: the first two members */
#define STATX_BYTES	144	/* what is looked at, and more */
#define RUSAGE_BYTES	32	/* both times */
#define SIGINFO_BYTES	32	/* the head, and the first members of a child's */
#define NAME_BYTES	65	/* of struct utsname */

/* As the kernel has it: glibc's is another. */
struct kernel_sigaction {
	uint64_t handler, flags, restorer, mask;
};

/* Of each kind, how many bytes one has, and what writes it: one, or all of them. */
struct shown {
	uint32_t count;
	const uint8_t *at;
	size_t bytes;
};

static const struct kind {
	uint32_t bytes;
	void (*one)(struct structure_text *text, const uint8_t *at);
	void (*all)(struct structure_text *text, const struct shown *shown);
	bool list;		/* in brackets also if there is but one */
} kinds[RT_STRUCTURE_KINDS];

__attribute__((format(printf, 2, 3)))
static void put(struct structure_text *text, const char *format, ...)
{
	size_t room = STRUCTURE_TEXT_BYTES - text->bytes;
	va_list words;
	int n;

	va_start(words, format);
	n = vsnprintf(text->at + text->bytes, room, format, words);
	va_end(words);
	if (n < 0 || (size_t)n >= room) {
		text->cut = true;
		text->bytes = STRUCTURE_TEXT_BYTES - 1;
		return;
	}
	text->bytes += (size_t)n;
}

static bool is_full(const struct structure_text *text)
{
	return text->bytes >= STRUCTURE_TEXT_BYTES - 1;
}

/* What is not ASCII goes as it is: whoever shows it knows what can be shown. */
static void put_string(struct structure_text *text, const char *at, size_t bytes)
{
	static const char escaped[] = "\"\\\n\t\r", letter[] = "\"\\ntr";

	put(text, "\"");
	for (size_t i = 0; i < bytes && !is_full(text); i++) {
		const char *found = at[i] ? strchr(escaped, at[i]) : NULL;

		if (found)
			put(text, "\\%c", letter[found - escaped]);
		else if ((unsigned char)at[i] < ' ' || at[i] == 0x7f)
			put(text, "\\x%02x", (unsigned char)at[i]);
		else
			put(text, "%c", at[i]);
	}
	put(text, "\"");
}

static void put_constant(struct structure_text *text, const char *structure, const char *member, uint64_t value)
{
	const struct constant_rule *rule = constant_rule(structure, member);
	char name[CONSTANT_TEXT_BYTES];

	if (rule && constant_print(rule, value, name))
		put(text, "%s", name);
	else
		put(text, value ? "%#llx" : "%llu", (unsigned long long)value);
}

/* ---- Times ------------------------------------------------------------------------------------- */

static void put_timespec(struct structure_text *text, const uint8_t *at)
{
	struct timespec time;

	memcpy(&time, at, sizeof(time));
	put(text, "{tv_sec=%lld, tv_nsec=%ld}", (long long)time.tv_sec, time.tv_nsec);
}

/* Of a file: either may be one that stands for something else. */
static void put_file_time(struct structure_text *text, const uint8_t *at)
{
	struct timespec time;

	memcpy(&time, at, sizeof(time));
	if (time.tv_nsec == UTIME_NOW || time.tv_nsec == UTIME_OMIT)
		put(text, time.tv_nsec == UTIME_NOW ? "UTIME_NOW" : "UTIME_OMIT");
	else
		put_timespec(text, at);
}

static void put_times(struct structure_text *text, const uint8_t *at)
{
	put(text, "[");
	put_file_time(text, at);
	put(text, ", ");
	put_file_time(text, at + sizeof(struct timespec));
	put(text, "]");
}

static void put_timeval(struct structure_text *text, const uint8_t *at)
{
	struct timeval time;

	memcpy(&time, at, sizeof(time));
	put(text, "{tv_sec=%lld, tv_usec=%ld}", (long long)time.tv_sec, (long)time.tv_usec);
}

/* A poll writes over what it was given. */
static void put_timespec_left(struct structure_text *text, const uint8_t *at)
{
	put(text, "left ");
	put_timespec(text, at);
}

static void put_timeval_left(struct structure_text *text, const uint8_t *at)
{
	put(text, "left ");
	put_timeval(text, at);
}

static void put_itimer(struct structure_text *text, const uint8_t *at,
		       void (*time)(struct structure_text *text, const uint8_t *at))
{
	put(text, "{it_interval=");
	time(text, at);
	put(text, ", it_value=");
	time(text, at + sizeof(struct timespec));
	put(text, "}");
}

static void put_itimerspec(struct structure_text *text, const uint8_t *at)
{
	put_itimer(text, at, put_timespec);
}

static void put_itimerval(struct structure_text *text, const uint8_t *at)
{
	put_itimer(text, at, put_timeval);
}

static void put_rusage(struct structure_text *text, const uint8_t *at)
{
	put(text, "{ru_utime=");
	put_timeval(text, at);
	put(text, ", ru_stime=");
	put_timeval(text, at + sizeof(struct timeval));
	put(text, ", ...}");
}

/* ---- Files ------------------------------------------------------------------------------------- */

static void put_mode(struct structure_text *text, mode_t mode)
{
	static const struct {
		mode_t type;
		const char *name;
	} types[] = {
		{S_IFREG, "S_IFREG|"}, {S_IFDIR, "S_IFDIR|"}, {S_IFCHR, "S_IFCHR|"}, {S_IFBLK, "S_IFBLK|"},
		{S_IFIFO, "S_IFIFO|"}, {S_IFLNK, "S_IFLNK|"}, {S_IFSOCK, "S_IFSOCK|"},
	};

	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
		if ((mode & S_IFMT) == types[i].type)
			put(text, "%s", types[i].name);
	put(text, "%s%s%s%#03o", mode & S_ISUID ? "S_ISUID|" : "", mode & S_ISGID ? "S_ISGID|" : "",
	    mode & S_ISVTX ? "S_ISVTX|" : "", mode & 0777);
}

static void put_stat(struct structure_text *text, const uint8_t *at)
{
	struct stat stat;

	memcpy(&stat, at, sizeof(stat));
	put(text, "{st_mode=");
	put_mode(text, stat.st_mode);
	if (S_ISCHR(stat.st_mode) || S_ISBLK(stat.st_mode))
		put(text, ", st_rdev=makedev(%#x, %#x)", major(stat.st_rdev), minor(stat.st_rdev));
	else
		put(text, ", st_size=%lld", (long long)stat.st_size);
	put(text, ", st_uid=%u, st_gid=%u, st_nlink=%lu, st_ino=%llu, ...}", stat.st_uid, stat.st_gid,
	    (unsigned long)stat.st_nlink, (unsigned long long)stat.st_ino);
}

static void put_statx(struct structure_text *text, const uint8_t *at)
{
	struct statx stat = {0};

	memcpy(&stat, at, STATX_BYTES);
	put(text, "{stx_mode=");
	put_mode(text, stat.stx_mode);
	if (S_ISCHR(stat.stx_mode) || S_ISBLK(stat.stx_mode))
		put(text, ", stx_rdev_major=%#x, stx_rdev_minor=%#x", stat.stx_rdev_major,
		    stat.stx_rdev_minor);
	else
		put(text, ", stx_size=%llu", (unsigned long long)stat.stx_size);
	put(text, ", stx_uid=%u, stx_gid=%u, stx_nlink=%u, stx_ino=%llu, ...}", stat.stx_uid, stat.stx_gid,
	    stat.stx_nlink, (unsigned long long)stat.stx_ino);
}

static void put_ints(struct structure_text *text, const uint8_t *at)
{
	int number[2];

	memcpy(number, at, sizeof(number));
	put(text, "[%d, %d]", number[0], number[1]);
}

static void put_pollfd(struct structure_text *text, const uint8_t *at)
{
	struct pollfd poll;

	memcpy(&poll, at, sizeof(poll));
	if (poll.fd < 0) {
		put(text, "{fd=%d}", poll.fd);
		return;
	}
	put(text, "{fd=%d, events=", poll.fd);
	put_constant(text, "pollfd", "events", (uint16_t)poll.events);
	if (poll.revents) {
		put(text, ", revents=");
		put_constant(text, "pollfd", "events", (uint16_t)poll.revents);
	}
	put(text, "}");
}

static void put_epoll(struct structure_text *text, const uint8_t *at)
{
	struct epoll_event event;

	memcpy(&event, at, sizeof(event));
	put(text, "{events=");
	put_constant(text, "epoll_event", "events", event.events);
	put(text, ", data={u32=%u, u64=%llu}}", event.data.u32, (unsigned long long)event.data.u64);
}

static void put_fdset(struct structure_text *text, const struct shown *shown)
{
	const char *gap = "";

	put(text, "[");
	for (uint32_t fd = 0; fd < shown->count && fd / 8 < shown->bytes && !is_full(text); fd++) {
		if (!(shown->at[fd / 8] >> fd % 8 & 1))
			continue;
		put(text, "%s%u", gap, fd);
		gap = " ";
	}
	if (shown->count > 8 * shown->bytes) {
		text->cut = true;
		put(text, "...");
	}
	put(text, "]");
}

/* ---- Signals and processes --------------------------------------------------------------------- */

static void put_signal(struct structure_text *text, int number)
{
	/* The C library calls SIGIO by its other name. */
	const char *name = number == SIGIO ? "IO" : number < SIGRTMIN ? sigabbrev_np(number) : NULL;

	if (name)
		put(text, "%s", name);
	else if (number >= 32)
		put(text, number == 32 ? "RTMIN" : "RT_%d", number - 32);
	else
		put(text, "%d", number);
}

static void put_signals(struct structure_text *text, uint64_t set)
{
	const char *gap = "";
	bool inverted = __builtin_popcountll(set) >= SIGNALS_MANY;

	put(text, inverted ? "~[" : "[");
	for (int number = 1; number <= SIGNALS; number++) {
		if ((set >> (number - 1) & 1) == inverted)
			continue;
		put(text, "%s", gap);
		put_signal(text, number);
		gap = " ";
	}
	put(text, "]");
}

static void put_sigset(struct structure_text *text, const uint8_t *at)
{
	uint64_t set;

	memcpy(&set, at, sizeof(set));
	put_signals(text, set);
}

static void put_sigaction(struct structure_text *text, const uint8_t *at)
{
	struct kernel_sigaction action;

	memcpy(&action, at, sizeof(action));
	if (action.handler <= 1)
		put(text, "{sa_handler=%s, sa_mask=", action.handler ? "SIG_IGN" : "SIG_DFL");
	else
		put(text, "{sa_handler=%#llx, sa_mask=", (unsigned long long)action.handler);
	put_signals(text, action.mask);
	put(text, ", sa_flags=");
	put_constant(text, "sigaction", "sa_flags", action.flags);
	if (action.restorer)
		put(text, ", sa_restorer=%#llx", (unsigned long long)action.restorer);
	put(text, "}");
}

static void put_altstack(struct structure_text *text, const uint8_t *at)
{
	stack_t stack;

	memcpy(&stack, at, sizeof(stack));
	if (stack.ss_sp)
		put(text, "{ss_sp=%p, ss_flags=", stack.ss_sp);
	else
		put(text, "{ss_sp=NULL, ss_flags=");
	put_constant(text, "sigaltstack", "ss_flags", (uint32_t)stack.ss_flags);
	put(text, ", ss_size=%zu}", stack.ss_size);
}

static void put_status(struct structure_text *text, const uint8_t *at)
{
	int status;

	memcpy(&status, at, sizeof(status));
	put(text, "{");
	if (WIFEXITED(status)) {
		put(text, "WIFEXITED(s) && WEXITSTATUS(s) == %d", WEXITSTATUS(status));
	} else if (WIFSIGNALED(status)) {
		put(text, "WIFSIGNALED(s) && WTERMSIG(s) == ");
		put_constant(text, "kill", "sig", (unsigned)WTERMSIG(status));
		put(text, WCOREDUMP(status) ? " && WCOREDUMP(s)" : "");
	} else if (WIFSTOPPED(status)) {
		put(text, "WIFSTOPPED(s) && WSTOPSIG(s) == ");
		put_constant(text, "kill", "sig", (unsigned)WSTOPSIG(status));
	} else if (WIFCONTINUED(status)) {
		put(text, "WIFCONTINUED(s)");
	} else {
		put(text, "%#x", status);
	}
	put(text, "}");
}

static void put_siginfo(struct structure_text *text, const uint8_t *at)
{
	siginfo_t info = {0};

	memcpy(&info, at, SIGINFO_BYTES);
	if (!info.si_signo) {		/* as waitid() leaves it, of no child */
		put(text, "{}");
		return;
	}
	put(text, "{si_signo=");
	put_constant(text, "kill", "sig", (unsigned)info.si_signo);
	put(text, ", si_code=");
	if (info.si_signo == SIGCHLD && info.si_code > 0)
		put_constant(text, "siginfo", "si_code", (unsigned)info.si_code);
	else
		put_constant(text, "signal_deliver", "code", (unsigned)info.si_code);
	put(text, ", si_pid=%d, si_uid=%u", info.si_pid, info.si_uid);
	if (info.si_signo == SIGCHLD)
		put(text, ", si_status=%d", info.si_status);
	put(text, ", ...}");
}

/* As many KiB, if there are several. */
static void put_limit(struct structure_text *text, uint64_t limit)
{
	if (limit == RLIM_INFINITY)
		put(text, "RLIM64_INFINITY");
	else if (limit > 1024 && limit % 1024 == 0)
		put(text, "%llu*1024", (unsigned long long)limit / 1024);
	else
		put(text, "%llu", (unsigned long long)limit);
}

static void put_rlimit(struct structure_text *text, const uint8_t *at)
{
	uint64_t limit[2];

	memcpy(limit, at, sizeof(limit));
	put(text, "{rlim_cur=");
	put_limit(text, limit[0]);
	put(text, ", rlim_max=");
	put_limit(text, limit[1]);
	put(text, "}");
}

static void put_utsname(struct structure_text *text, const uint8_t *at)
{
	const char *name = (const char *)at;

	put(text, "{sysname=");
	put_string(text, name, strnlen(name, NAME_BYTES));
	put(text, ", nodename=");
	put_string(text, name + NAME_BYTES, strnlen(name + NAME_BYTES, NAME_BYTES));
	put(text, ", ...}");
}

static void put_clone(struct structure_text *text, const uint8_t *at)
{
	struct clone_args clone = {0};

	memcpy(&clone, at, CLONE_ARGS_SIZE_VER0);
	put(text, "{flags=");
	put_constant(text, "clone3", "flags", clone.flags);
	put(text, ", exit_signal=");
	put_constant(text, "kill", "sig", clone.exit_signal);
	put(text, ", stack=%#llx, stack_size=%#llx, ...}", (unsigned long long)clone.stack,
	    (unsigned long long)clone.stack_size);
}

/* ---- Strings and buffers ------------------------------------------------------------------------ */

/* The number of the string that ends at or behind the last byte; how many there are. */
static bool argv_string(const struct shown *shown, unsigned number, struct structure_string *string)
{
	const char *at = (const char *)shown->at, *end = at + shown->bytes;

	for (; at < end; at += string->bytes + 1) {
		string->at = at;
		string->bytes = strnlen(at, (size_t)(end - at));
		string->cut = at + string->bytes == end ||
			      (end - at == RT_STRUCTURE_ARGV_BYTES && string->bytes + 1 == RT_STRUCTURE_ARGV_BYTES);
		if (!number--)
			return true;
	}
	return false;
}

static void put_argv(struct structure_text *text, const struct shown *shown)
{
	struct structure_string string = {0};
	unsigned number = 0;

	put(text, "[");
	for (; !is_full(text) && argv_string(shown, number, &string); number++) {
		put(text, "%s", number ? ", " : "");
		put_string(text, string.at, string.bytes);
		if (string.cut)
			put(text, "...");
		text->cut |= string.cut;
	}
	if (number < shown->count) {
		text->cut = true;
		put(text, "%s...", number ? ", " : "");
	}
	put(text, "]");
}

/* Of the first one; false: there are none. */
static bool vector_string(const uint8_t *at, size_t bytes, struct structure_string *string)
{
	struct iovec vector[RT_STRUCTURE_VECTORS];

	if (bytes <= sizeof(vector))
		return false;
	memcpy(vector, at, sizeof(vector));
	string->at = (const char *)at + sizeof(vector);
	string->bytes = bytes - sizeof(vector);
	string->cut = string->bytes >= RT_STRUCTURE_VECTOR_BYTES_MAX && vector[0].iov_len > string->bytes;
	return true;
}

static void put_vectors(struct structure_text *text, const uint8_t *at, size_t bytes, uint64_t count)
{
	struct iovec vector[RT_STRUCTURE_VECTORS] = {0};
	struct structure_string string = {0};
	bool has_bytes = vector_string(at, bytes, &string);

	memcpy(vector, at, bytes < sizeof(vector) ? bytes : sizeof(vector));
	put(text, "[");
	for (unsigned i = 0; i < count && i < RT_STRUCTURE_VECTORS; i++) {
		put(text, "%s{iov_base=", i ? ", " : "");
		if (!vector[i].iov_base)
			put(text, "NULL");
		else if (i || !has_bytes)
			put(text, "%#llx", (unsigned long long)(uintptr_t)vector[i].iov_base);
		else
			put_string(text, string.at, string.bytes);
		put(text, "%s, iov_len=%zu}", !i && has_bytes && string.cut ? "..." : "", vector[i].iov_len);
		text->cut |= has_bytes && string.cut;
	}
	if (count > RT_STRUCTURE_VECTORS) {
		text->cut = true;
		put(text, ", ...");
	}
	put(text, "]");
}

static void put_iovecs(struct structure_text *text, const struct shown *shown)
{
	put_vectors(text, shown->at, shown->bytes, shown->count);
}

static void put_message(struct structure_text *text, const struct shown *shown)
{
	struct msghdr message;

	if (shown->bytes < sizeof(message))
		return;
	memcpy(&message, shown->at, sizeof(message));
	put(text, "{msg_namelen=%u, msg_iovlen=%zu, msg_controllen=%zu, msg_flags=%#x, msg_iov=",
	    message.msg_namelen, message.msg_iovlen, message.msg_controllen, (unsigned)message.msg_flags);
	put_vectors(text, shown->at + sizeof(message), shown->bytes - sizeof(message), shown->count);
	put(text, "}");
}

/* ---- Directories -------------------------------------------------------------------------------- */

#define DIRENTS_END		", ...]"
#define DIRENT_BYTES_MAX	280u	/* with a name of NAME_MAX */
#define DIRENT_NAME_SHOWN	16u	/* of a name that finds no room: also if each byte takes four */

/* As the kernel writes it: glibc's has its own. The old call's has its type in its last byte. */
struct kernel_dirent {
	uint64_t ino, off;
	uint16_t bytes;
	char rest[];
};

static const char *dirent_type(uint8_t type)
{
	static const char *const name[] = {
		[DT_UNKNOWN] = "DT_UNKNOWN", [DT_FIFO] = "DT_FIFO", [DT_CHR] = "DT_CHR", [DT_DIR] = "DT_DIR",
		[DT_BLK] = "DT_BLK", [DT_REG] = "DT_REG", [DT_LNK] = "DT_LNK", [DT_SOCK] = "DT_SOCK",
		[DT_WHT] = "DT_WHT",
	};

	return type < sizeof(name) / sizeof(name[0]) && name[type] ? name[type] : "DT_???";
}

/* False: they are none that the kernel writes. */
static bool read_dirent(struct kernel_dirent *entry, const uint8_t *at, size_t bytes)
{
	if (bytes < sizeof(*entry))
		return false;
	memcpy(entry, at, sizeof(*entry));
	return entry->bytes >= sizeof(*entry) && entry->bytes % 8 == 0 && entry->bytes <= DIRENT_BYTES_MAX;
}

static void name_of(const uint8_t *at, const struct kernel_dirent *entry, size_t bytes, bool old,
		    struct structure_string *name)
{
	size_t head = offsetof(struct kernel_dirent, rest) + !old;
	size_t room = (entry->bytes < bytes ? entry->bytes : bytes) - head;

	name->at = (const char *)at + head;
	name->bytes = strnlen(name->at, room);
	name->cut = name->bytes == room;
}

bool structure_dirent_name(const void *entries, size_t bytes, unsigned number, bool old, struct structure_string *name)
{
	struct kernel_dirent entry;
	const uint8_t *at = entries;
	size_t done = 0;

	while (done < bytes && read_dirent(&entry, at + done, bytes - done)) {
		if (!number--) {
			name_of(at + done, &entry, bytes - done, old, name);
			return true;
		}
		done += entry.bytes;
	}
	return false;
}

/* `name_max`: of the name, so many bytes at most. What is cut says so. */
static void put_dirent(struct structure_text *text, const uint8_t *at, const struct kernel_dirent *entry,
		       size_t bytes, size_t name_max, bool old)
{
	size_t type = old ? entry->bytes - 1u : offsetof(struct kernel_dirent, rest);
	struct structure_string name;

	name_of(at, entry, bytes, old, &name);
	put(text, "{d_type=%s, d_name=", type < bytes ? dirent_type(at[type]) : "...");
	put_string(text, name.at, name.bytes < name_max ? name.bytes : name_max);
	put(text, name.cut || name.bytes > name_max ? "...}" : "}");
}

void structure_dirents_of(struct structure_text *text, const void *entries, size_t bytes, size_t whole, bool old)
{
	const uint8_t *at = entries;
	struct kernel_dirent entry;
	size_t done = 0;

	*text = (struct structure_text){0};
	if (whole && !read_dirent(&entry, at, bytes))
		return;
	put(text, "[");
	while (read_dirent(&entry, at + done, bytes - done) && entry.bytes <= bytes - done) {
		size_t before = text->bytes;

		put(text, "%s", done ? ", " : "");
		put_dirent(text, at + done, &entry, bytes - done, SIZE_MAX, old);
		if (text->bytes > STRUCTURE_TEXT_BYTES - sizeof(DIRENTS_END)) {
			text->bytes = before;
			break;
		}
		done += entry.bytes;
	}
	if (!done && whole)
		put_dirent(text, at, &entry, bytes, DIRENT_NAME_SHOWN, old);
	text->cut = done < whole;
	put(text, "%s", text->cut ? DIRENTS_END : "]");
}

/* ---- All of them -------------------------------------------------------------------------------- */

static const struct kind kinds[RT_STRUCTURE_KINDS] = {
	[RT_STRUCTURE_TIMESPEC] = {sizeof(struct timespec), put_timespec, NULL, false},
	[RT_STRUCTURE_TIMESPEC_LEFT] = {sizeof(struct timespec), put_timespec_left, NULL, false},
	[RT_STRUCTURE_TIMEVAL_LEFT] = {sizeof(struct timeval), put_timeval_left, NULL, false},
	[RT_STRUCTURE_TIMES] = {2 * sizeof(struct timespec), put_times, NULL, false},
	[RT_STRUCTURE_TIMEVAL] = {sizeof(struct timeval), put_timeval, NULL, false},
	[RT_STRUCTURE_ITIMERSPEC] = {sizeof(struct itimerspec), put_itimerspec, NULL, false},
	[RT_STRUCTURE_ITIMERVAL] = {sizeof(struct itimerval), put_itimerval, NULL, false},
	[RT_STRUCTURE_STAT] = {sizeof(struct stat), put_stat, NULL, false},
	[RT_STRUCTURE_STATX] = {STATX_BYTES, put_statx, NULL, false},
	[RT_STRUCTURE_INTS] = {2 * sizeof(int), put_ints, NULL, false},
	[RT_STRUCTURE_SIGSET] = {sizeof(uint64_t), put_sigset, NULL, false},
	[RT_STRUCTURE_SIGACTION] = {sizeof(struct kernel_sigaction), put_sigaction, NULL, false},
	[RT_STRUCTURE_ALTSTACK] = {sizeof(stack_t), put_altstack, NULL, false},
	[RT_STRUCTURE_POLLFD] = {sizeof(struct pollfd), put_pollfd, NULL, true},
	[RT_STRUCTURE_EPOLL] = {sizeof(struct epoll_event), put_epoll, NULL, true},
	[RT_STRUCTURE_EPOLL_ONE] = {sizeof(struct epoll_event), put_epoll, NULL, false},
	[RT_STRUCTURE_FDSET] = {0, NULL, put_fdset, false},
	[RT_STRUCTURE_RLIMIT] = {sizeof(struct rlimit), put_rlimit, NULL, false},
	[RT_STRUCTURE_RUSAGE] = {RUSAGE_BYTES, put_rusage, NULL, false},
	[RT_STRUCTURE_STATUS] = {sizeof(int), put_status, NULL, true},
	[RT_STRUCTURE_SIGINFO] = {SIGINFO_BYTES, put_siginfo, NULL, false},
	[RT_STRUCTURE_UTSNAME] = {UTSNAME_BYTES, put_utsname, NULL, false},
	[RT_STRUCTURE_CLONE] = {CLONE_ARGS_SIZE_VER0, put_clone, NULL, false},
	[RT_STRUCTURE_IOVEC] = {0, NULL, put_iovecs, false},
	[RT_STRUCTURE_MSGHDR] = {0, NULL, put_message, false},
	[RT_STRUCTURE_ARGV] = {0, NULL, put_argv, false},
};

_Static_assert(sizeof(struct stat) <= RT_STRUCTURE_BYTES_MAX && STATX_BYTES <= RT_STRUCTURE_BYTES_MAX,
	       "a record has room for each structure");

uint32_t structure_bytes_of(uint32_t kind)
{
	return kind < RT_STRUCTURE_KINDS ? kinds[kind].bytes : 0;
}

static void put_each(struct structure_text *text, const struct kind *kind, const struct shown *shown)
{
	bool list = kind->list || shown->count > 1;
	uint32_t i = 0;

	if (list)
		put(text, "[");
	for (; i < shown->count && (i + 1) * (size_t)kind->bytes <= shown->bytes && !is_full(text); i++) {
		if (i)
			put(text, ", ");
		kind->one(text, shown->at + i * (size_t)kind->bytes);
	}
	if (i < shown->count) {
		text->cut = true;
		put(text, "%s...", i ? ", " : "");
	}
	if (list)
		put(text, "]");
}

/* False: there is no head, or nobody knows the kind. */
static bool open_structure(const void *structure, size_t bytes, uint32_t *kind, struct shown *shown)
{
	struct rt_structure head;

	if (bytes < sizeof(head))
		return false;
	memcpy(&head, structure, sizeof(head));
	*kind = head.kind;
	*shown = (struct shown){.count = head.count, .at = (const uint8_t *)structure + sizeof(head),
				.bytes = bytes - sizeof(head)};
	return head.kind < RT_STRUCTURE_KINDS && (kinds[head.kind].one || kinds[head.kind].all);
}

void structure_text_of(struct structure_text *text, const void *structure, size_t bytes)
{
	struct shown shown;
	uint32_t kind;

	text->bytes = 0;
	text->cut = false;
	if (!open_structure(structure, bytes, &kind, &shown))
		return;
	if (kinds[kind].one && shown.bytes < kinds[kind].bytes)
		return;
	if (kinds[kind].one)
		put_each(text, &kinds[kind], &shown);
	else
		kinds[kind].all(text, &shown);
	if (is_full(text))
		memcpy(text->at + STRUCTURE_TEXT_BYTES - 4, "...", 3);
}

bool structure_string_of(const void *structure, size_t bytes, unsigned number, struct structure_string *string)
{
	struct shown shown;
	uint32_t kind;
	size_t head;

	if (!open_structure(structure, bytes, &kind, &shown))
		return false;
	if (kind == RT_STRUCTURE_ARGV)
		return argv_string(&shown, number, string);
	head = kind == RT_STRUCTURE_MSGHDR ? sizeof(struct msghdr) : 0;
	return (kind == RT_STRUCTURE_IOVEC || kind == RT_STRUCTURE_MSGHDR) && !number && shown.bytes > head &&
	       vector_string(shown.at + head, shown.bytes - head, string);
}
