/*
 * structure_text: each kind as strace has it; many, more than were seen, and texts that find no room; strings within;
 * bytes that are too few, of every length, and of kinds that nobody knows.
 */
#include <dirent.h>
#include <linux/sched.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <time.h>

#include <cmocka.h>

#include "query/structure_text.h"

#define BYTES_MAX 512

/* A copy of just that many bytes, so that a sanitizer sees who reads more. */
static void *make(uint32_t kind, uint32_t count, const void *data, size_t bytes)
{
	struct rt_structure head = {.kind = kind, .count = count};
	uint8_t *copy = malloc(sizeof(head) + bytes);

	assert_non_null(copy);
	memcpy(copy, &head, sizeof(head));
	memcpy(copy + sizeof(head), data, bytes);
	return copy;
}

static bool expect(uint32_t kind, uint32_t count, const void *data, size_t bytes, const char *wanted)
{
	void *copy = make(kind, count, data, bytes);
	struct structure_text text;

	structure_text_of(&text, copy, sizeof(struct rt_structure) + bytes);
	free(copy);
	assert_true(text.bytes < sizeof(text.at));
	text.at[text.bytes] = '\0';
	assert_string_equal(text.at, wanted);
	return text.cut;
}

static void times(void **state)
{
	const struct timespec two[2] = {{1, 500}, {2, UTIME_OMIT}};
	const struct timeval val[2] = {{0, 0}, {5, 7}};

	(void)state;
	expect(RT_STRUCTURE_TIMESPEC, 1, two, sizeof(two[0]), "{tv_sec=1, tv_nsec=500}");
	expect(RT_STRUCTURE_TIMESPEC_LEFT, 1, two, sizeof(two[0]), "left {tv_sec=1, tv_nsec=500}");
	expect(RT_STRUCTURE_TIMEVAL_LEFT, 1, val, sizeof(val[0]), "left {tv_sec=0, tv_usec=0}");
	expect(RT_STRUCTURE_TIMES, 1, two, sizeof(two), "[{tv_sec=1, tv_nsec=500}, UTIME_OMIT]");
	expect(RT_STRUCTURE_ITIMERVAL, 1, val, sizeof(val),
	       "{it_interval={tv_sec=0, tv_usec=0}, it_value={tv_sec=5, tv_usec=7}}");
	expect(RT_STRUCTURE_RUSAGE, 1, val, sizeof(val),
	       "{ru_utime={tv_sec=0, tv_usec=0}, ru_stime={tv_sec=5, tv_usec=7}, ...}");
}

static void files(void **state)
{
	struct stat stat = {.st_mode = S_IFREG | S_ISUID | 0755, .st_size = 12, .st_uid = 5, .st_gid = 6,
			    .st_nlink = 1, .st_ino = 7};
	struct statx more = {.stx_mode = S_IFCHR | 0600, .stx_rdev_major = 1, .stx_rdev_minor = 3,
			     .stx_nlink = 1, .stx_ino = 9};
	const int ends[2] = {3, 4};

	(void)state;
	expect(RT_STRUCTURE_STAT, 1, &stat, sizeof(stat), "{st_mode=S_IFREG|S_ISUID|0755, st_size=12, "
	       "st_uid=5, st_gid=6, st_nlink=1, st_ino=7, ...}");
	stat.st_mode = S_IFBLK;
	stat.st_rdev = makedev(8, 17);
	expect(RT_STRUCTURE_STAT, 1, &stat, sizeof(stat), "{st_mode=S_IFBLK|000, st_rdev=makedev(0x8, 0x11), "
	       "st_uid=5, st_gid=6, st_nlink=1, st_ino=7, ...}");
	expect(RT_STRUCTURE_STATX, 1, &more, structure_bytes_of(RT_STRUCTURE_STATX), "{stx_mode=S_IFCHR|0600, "
	       "stx_rdev_major=0x1, stx_rdev_minor=0x3, stx_uid=0, stx_gid=0, stx_nlink=1, stx_ino=9, ...}");
	expect(RT_STRUCTURE_INTS, 1, ends, sizeof(ends), "[3, 4]");
}

static void what_is_waited_for(void **state)
{
	const struct pollfd polls[2] = {{3, POLLIN | POLLOUT, POLLIN}, {-1, POLLIN, 0}};
	const struct epoll_event event = {.events = EPOLLIN | EPOLLET, .data.u64 = 1ull << 32 | 5};
	const uint64_t sets[2] = {1 << 3 | 1 << 5, 1};
	const struct rlimit limit = {8192 * 1024, RLIM_INFINITY};

	(void)state;
	assert_false(expect(RT_STRUCTURE_POLLFD, 2, polls, sizeof(polls),
			    "[{fd=3, events=POLLIN|POLLOUT, revents=POLLIN}, {fd=-1}]"));
	assert_true(expect(RT_STRUCTURE_POLLFD, 9, polls, sizeof(polls[0]) + 3,
			   "[{fd=3, events=POLLIN|POLLOUT, revents=POLLIN}, ...]"));
	expect(RT_STRUCTURE_EPOLL, 1, &event, sizeof(event),
	       "[{events=EPOLLIN|EPOLLET, data={u32=5, u64=4294967301}}]");
	expect(RT_STRUCTURE_EPOLL_ONE, 1, &event, sizeof(event),
	       "{events=EPOLLIN|EPOLLET, data={u32=5, u64=4294967301}}");
	expect(RT_STRUCTURE_FDSET, 65, sets, sizeof(sets), "[3 5 64]");
	expect(RT_STRUCTURE_FDSET, 5, sets, sizeof(sets[0]), "[3]");
	assert_true(expect(RT_STRUCTURE_FDSET, 65, sets, sizeof(sets[0]), "[3 5...]"));
	expect(RT_STRUCTURE_RLIMIT, 1, &limit, sizeof(limit), "{rlim_cur=8192*1024, rlim_max=RLIM64_INFINITY}");
}

static void signals_and_processes(void **state)
{
	const uint64_t none = 0, one = 1ull << (SIGINT - 1) | 1ull << 34, most = ~(1ull << (SIGKILL - 1));
	const uint64_t action[4] = {1, SA_RESTART, 0, 0}, handler[4] = {0x1234, SA_SIGINFO, 0x99, one};
	const int exited = 3 << 8, killed = SIGSEGV | 0x80, stopped = SIGSTOP << 8 | 0x7f;
	const stack_t stack = {.ss_flags = SS_DISABLE};
	siginfo_t info = {.si_signo = SIGCHLD, .si_code = CLD_EXITED};
	const struct clone_args clone = {.flags = CLONE_VM | CLONE_VFORK, .exit_signal = SIGCHLD};

	(void)state;
	info.si_pid = 5;
	info.si_status = 3;
	expect(RT_STRUCTURE_SIGSET, 1, &none, sizeof(none), "[]");
	expect(RT_STRUCTURE_SIGSET, 1, &one, sizeof(one), "[INT RT_3]");
	expect(RT_STRUCTURE_SIGSET, 1, &most, sizeof(most), "~[KILL]");
	expect(RT_STRUCTURE_SIGACTION, 1, action, sizeof(action),
	       "{sa_handler=SIG_IGN, sa_mask=[], sa_flags=SA_RESTART}");
	expect(RT_STRUCTURE_SIGACTION, 1, handler, sizeof(handler),
	       "{sa_handler=0x1234, sa_mask=[INT RT_3], sa_flags=SA_SIGINFO, sa_restorer=0x99}");
	expect(RT_STRUCTURE_ALTSTACK, 1, &stack, sizeof(stack), "{ss_sp=NULL, ss_flags=SS_DISABLE, ss_size=0}");
	expect(RT_STRUCTURE_STATUS, 1, &exited, sizeof(exited), "[{WIFEXITED(s) && WEXITSTATUS(s) == 3}]");
	expect(RT_STRUCTURE_STATUS, 1, &killed, sizeof(killed),
	       "[{WIFSIGNALED(s) && WTERMSIG(s) == SIGSEGV && WCOREDUMP(s)}]");
	expect(RT_STRUCTURE_STATUS, 1, &stopped, sizeof(stopped), "[{WIFSTOPPED(s) && WSTOPSIG(s) == SIGSTOP}]");
	expect(RT_STRUCTURE_SIGINFO, 1, &info, 32,
	       "{si_signo=SIGCHLD, si_code=CLD_EXITED, si_pid=5, si_uid=0, si_status=3, ...}");
	expect(RT_STRUCTURE_CLONE, 1, &clone, CLONE_ARGS_SIZE_VER0,
	       "{flags=CLONE_VM|CLONE_VFORK, exit_signal=SIGCHLD, stack=0, stack_size=0, ...}");
}

static void strings_of_an_exec(void **state)
{
	static const char two[] = "ls\0a \"b\"\n";
	struct structure_string string;
	char longest[RT_STRUCTURE_ARGV_BYTES];
	void *copy;

	(void)state;
	assert_false(expect(RT_STRUCTURE_ARGV, 2, two, sizeof(two), "[\"ls\", \"a \\\"b\\\"\\n\"]"));
	assert_true(expect(RT_STRUCTURE_ARGV, 3, two, sizeof(two), "[\"ls\", \"a \\\"b\\\"\\n\", ...]"));
	assert_true(expect(RT_STRUCTURE_ARGV, 2, two, sizeof(two) - 2, "[\"ls\", \"a \\\"b\\\"\"...]"));
	assert_false(expect(RT_STRUCTURE_ARGV, 0, "", 0, "[]"));
	memset(longest, 'x', sizeof(longest));
	longest[sizeof(longest) - 1] = '\0';
	copy = make(RT_STRUCTURE_ARGV, 1, longest, sizeof(longest));
	assert_true(structure_string_of(copy, sizeof(struct rt_structure) + sizeof(longest), 0, &string));
	assert_int_equal(string.bytes, sizeof(longest) - 1);
	assert_true(string.cut);	/* the kernel cuts it there, and ends it */
	assert_false(structure_string_of(copy, sizeof(struct rt_structure) + sizeof(longest), 1, &string));
	free(copy);
}

static void vectors_with_the_first_bytes(void **state)
{
	struct {
		struct iovec vector[RT_STRUCTURE_VECTORS];
		char bytes[4];
	} write = {{{(void *)0x10, 4}, {(void *)0x20, 5}}, "a\"b\n"};
	struct {
		struct msghdr message;
		struct iovec vector[RT_STRUCTURE_VECTORS];
		char bytes[RT_STRUCTURE_VECTOR_BYTES_MAX];
	} message = {{.msg_iovlen = 1}, {{(void *)0x10, 99}}, "abcd"};

	(void)state;
	assert_false(expect(RT_STRUCTURE_IOVEC, 2, &write, sizeof(write.vector) + 4,
			    "[{iov_base=\"a\\\"b\\n\", iov_len=4}, {iov_base=0x20, iov_len=5}]"));
	assert_true(expect(RT_STRUCTURE_IOVEC, 3, &write, sizeof(write.vector),
			   "[{iov_base=0x10, iov_len=4}, {iov_base=0x20, iov_len=5}, ...]"));
	expect(RT_STRUCTURE_MSGHDR, 1, &message, offsetof(__typeof__(message), bytes) + 4,
	       "{msg_namelen=0, msg_iovlen=1, msg_controllen=0, msg_flags=0, "
	       "msg_iov=[{iov_base=\"abcd\", iov_len=99}]}");	/* the call filled in no more */
	memset(message.bytes, 'x', sizeof(message.bytes));
	assert_true(expect(RT_STRUCTURE_IOVEC, 1, message.vector, sizeof(message.vector) + sizeof(message.bytes),
			   "[{iov_base=\"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\"..., "
			   "iov_len=99}]"));
}

/* An entry as the kernel writes it; its bytes. */
static size_t add_dirent(uint8_t *to, const char *name, uint8_t type, bool old)
{
	size_t head = old ? 18 : 19, bytes = (head + strlen(name) + 1 + old + 7) & ~(size_t)7;
	uint16_t length = (uint16_t)bytes;

	memset(to, 0, bytes);
	memset(to, '[', 8);			/* an inode's number: as text, it looks like a list */
	memcpy(to + 16, &length, sizeof(length));
	memcpy(to + head, name, strlen(name));
	to[old ? bytes - 1 : 18] = type;
	return bytes;
}

static void expect_dirents(const uint8_t *from, size_t bytes, size_t whole, bool old, const char *wanted)
{
	struct structure_text text;
	uint8_t *copy = malloc(bytes + 1);

	assert_non_null(copy);
	memcpy(copy + 1, from, bytes);
	structure_dirents_of(&text, copy + 1, bytes, whole, old);
	free(copy);
	assert_true(text.bytes < sizeof(text.at));
	text.at[text.bytes] = '\0';
	assert_string_equal(text.at, wanted);
	assert_int_equal(text.cut, wanted[0] && strstr(wanted, "...]"));
}

/* Of many entries, those that are there in whole: a cut within one is told, and does not undo those before it. */
static void entries_of_a_directory_up_to_the_cut(void **state)
{
	static const char two[] = "[{d_type=DT_DIR, d_name=\".\"}, {d_type=DT_REG, d_name=\"a\\\"b\"}";
	char more[160], all[160], name[256] = "";
	struct structure_string shown;
	uint8_t data[1024];

	(void)state;
	snprintf(more, sizeof(more), "%s, ...]", two);
	snprintf(all, sizeof(all), "%s]", two);
	for (unsigned old = 0; old < 2; old++) {
		size_t first = add_dirent(data, ".", DT_DIR, old);
		size_t second = first + add_dirent(data + first, "a\"b", DT_REG, old);
		size_t third = second + add_dirent(data + second, "third", DT_LNK, old);

		expect_dirents(data, 0, 0, old, "[]");
		expect_dirents(data, second, second, old, all);
		for (size_t cut = second; cut < third; cut++)
			expect_dirents(data, cut, third, old, more);
		for (size_t cut = 0; cut < 24; cut++)
			expect_dirents(data, cut, third, old, "");
	}
	memset(name, 'n', 255);
	expect_dirents(data, add_dirent(data, name, DT_SOCK, false) - 200, 280, false,
		       "[{d_type=DT_SOCK, d_name=\"nnnnnnnnnnnnnnnn\"...}, ...]");
	expect_dirents(data, add_dirent(data, name, DT_SOCK, true) - 200, 280, true,
		       "[{d_type=..., d_name=\"nnnnnnnnnnnnnnnn\"...}, ...]");
	assert_true(structure_dirent_name(data, 80, 0, true, &shown) && shown.cut && shown.bytes == 62);
	assert_false(structure_dirent_name(data, 80, 1, true, &shown));
	assert_false(structure_dirent_name(data, 280, 1, true, &shown));
	memset(data, 0xff, sizeof(data));
	expect_dirents(data, 128, 128, false, "");
	expect_dirents((const uint8_t *)"[redacted]", 10, 280, false, "");
}

/* As many as there is room for, of whatever lengths: never a text that ends within an entry. */
static void entries_without_room(void **state)
{
	char name[128] = "";
	uint8_t data[1024];

	(void)state;
	for (unsigned length = 1; length < 100; length++) {
		struct structure_text text;
		size_t bytes = 0;

		memset(name, length % 2 ? 'x' : '\001', length);
		for (unsigned i = 0; i < 4; i++)
			bytes += add_dirent(data + bytes, name, DT_WHT, false);
		structure_dirents_of(&text, data, bytes, bytes, false);
		assert_true(text.bytes && text.bytes < sizeof(text.at));
		text.at[text.bytes] = '\0';
		assert_string_equal(text.at + text.bytes - 2, text.cut ? ".]" : "}]");
		assert_non_null(strstr(text.at, "d_type=DT_WHT, d_name=\""));
	}
}

static void a_text_without_room_says_so(void **state)
{
	struct pollfd polls[16];
	struct structure_text text;
	void *copy;

	(void)state;
	for (int i = 0; i < 16; i++)
		polls[i] = (struct pollfd){i, POLLIN, POLLIN};
	copy = make(RT_STRUCTURE_POLLFD, 16, polls, sizeof(polls));
	structure_text_of(&text, copy, sizeof(struct rt_structure) + sizeof(polls));
	assert_true(text.cut);
	assert_int_equal(text.bytes, STRUCTURE_TEXT_BYTES - 1);
	assert_memory_equal(text.at + text.bytes - 3, "...", 3);
	free(copy);
}

/* Of every kind, every number of bytes, full of anything. */
static void bytes_may_be_anything(void **state)
{
	uint8_t data[BYTES_MAX];

	(void)state;
	srand(1);
	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = (uint8_t)rand();
	for (uint32_t kind = 0; kind < RT_STRUCTURE_KINDS + 2; kind++)
		for (size_t bytes = 0; bytes < 300; bytes++) {
			void *copy = make(kind, kind % 2 ? UINT32_MAX : (uint32_t)bytes, data, bytes);
			struct structure_string string;
			struct structure_text text;

			structure_text_of(&text, copy, sizeof(struct rt_structure) + bytes);
			assert_true(text.bytes < STRUCTURE_TEXT_BYTES);
			for (unsigned i = 0; structure_string_of(copy, sizeof(struct rt_structure) + bytes, i,
								 &string); i++)
				assert_true(string.bytes <= bytes);
			if (kind >= RT_STRUCTURE_KINDS || !kind)
				assert_int_equal(text.bytes, 0);
			free(copy);
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(times),
		cmocka_unit_test(files),
		cmocka_unit_test(what_is_waited_for),
		cmocka_unit_test(signals_and_processes),
		cmocka_unit_test(strings_of_an_exec),
		cmocka_unit_test(vectors_with_the_first_bytes),
		cmocka_unit_test(entries_of_a_directory_up_to_the_cut),
		cmocka_unit_test(entries_without_room),
		cmocka_unit_test(a_text_without_room_says_so),
		cmocka_unit_test(bytes_may_be_anything),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
