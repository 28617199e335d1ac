/* sandbox: each process may do its work, and ends at the first system call that is no part of it. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <linux/perf_event.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "daemon/host/sandbox.h"

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

enum who {
	ENGINE,
	ENGINE_RESOLVING,
	LOADER,
	COURIER,
	FINDER,
	FINDER_ATTACHING,
	READER,
};

#define NOBODY 1	/* a process that is never ours */
#define NO_PROCESS 0x7ffffffe

/* How a child ends that goes into its sandbox and then does that: 0 well, or the signal. */
static int ends(enum who who, void (*act)(void))
{
	pid_t child = fork();
	int status = 0;

	if (child == 0) {
		const struct sandbox_engine engine = {
			.loader = NOBODY, .resolves = who == ENGINE_RESOLVING,
		};
		const struct rlimit no_core = {0};
		struct error error;
		int err;

		setrlimit(RLIMIT_CORE, &no_core);
		prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
		err = who == LOADER  ? sandbox_loader(&error) :
		      who == COURIER ? sandbox_courier(&error) :
		      who == READER  ? sandbox_reader(&error) :
		      who >= FINDER  ? sandbox_finder(who == FINDER_ATTACHING, &error) :
				       sandbox_engine(&engine, &error);
		if (err)
			_exit(99);
		act();
		_exit(0);
	}
	assert_true(child > 0);
	assert_int_equal(waitpid(child, &status, 0), child);
	if (WIFSIGNALED(status))
		return WTERMSIG(status);
	assert_int_equal(WEXITSTATUS(status), 0);
	return 0;
}

static void must(int holds)
{
	if (!holds)
		_exit(98);
}

/* ---- What is forbidden ----------------------------------------------------------------------- */

/* A program that runs would be ended when it loads its libraries; so would a file that is one. */
static void run_program(void)
{
	char *const words[] = {NULL};

	syscall(SYS_execve, "/nowhere", words, words);
}

static void run_descriptor(void)
{
	char *const words[] = {NULL};

	syscall(SYS_execveat, STDERR_FILENO, "", words, words, AT_EMPTY_PATH);
}

static void make_process_by_clone(void)
{
	if (syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL) == 0)
		_exit(0);
}

static void make_process(void)
{
	syscall(SYS_fork);
}

static void trace_another(void)
{
	syscall(SYS_ptrace, 0, 0, 0, 0);
}

static void end_another(void)
{
	kill(getppid(), 0);
}

static void end_loader_softly(void)
{
	kill(NOBODY, SIGTERM);
}

static void mount_something(void)
{
	syscall(SYS_mount, "none", "/", "tmpfs", 0, NULL);
}

static void change_owner(void)
{
	syscall(SYS_fchownat, AT_FDCWD, "/", 0, 0, 0);
}

static void become_root(void)
{
	syscall(SYS_setuid, 0);
}

static void load_program(void)
{
	syscall(SYS_bpf, 0, NULL, 0);
}

static void raise_limit(void)
{
	const struct rlimit limit = {0};

	setrlimit(RLIMIT_NOFILE, &limit);
}

static void refused(const void *page)
{
	must(page == MAP_FAILED && errno == EACCES);
}

static void map_code(void)
{
	refused(mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
}

/* As an intruder would who may not map writable code: he writes a file, and maps that. */
static void map_file_of_code(void)
{
	static const unsigned char code[4096] = {0xc3};
	int fd = memfd_create("code", MFD_CLOEXEC);

	must(fd >= 0 && write(fd, code, sizeof(code)) == sizeof(code));
	refused(mmap(NULL, sizeof(code), PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0));
}

static void map_library(void)
{
	int fd = open("/bin/true", O_RDONLY | O_CLOEXEC);

	must(fd >= 0);
	refused(mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0));
}

static void map_code_alone(void)
{
	mmap(NULL, 4096, PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

static void make_code_with_key(void)
{
	void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	must(page != MAP_FAILED);
	syscall(SYS_pkey_mprotect, page, 4096, PROT_READ | PROT_EXEC, -1);
}

static void attach_code(void)
{
	syscall(SYS_shmat, 0, NULL, 0100000 /* SHM_EXEC */);
}

/* With this, what is readable would be code. */
static void make_all_reading_code(void)
{
	syscall(SYS_personality, 0x0400000 /* READ_IMPLIES_EXEC */);
}

static void open_path(void)
{
	syscall(SYS_openat, AT_FDCWD, "/dev/null", O_RDONLY);
}

static void open_path_strictly(void)
{
	const uint64_t how[3] = {O_RDONLY};

	syscall(SYS_openat2, AT_FDCWD, "/dev/null", how, sizeof(how));
}

static void make_file(void)
{
	syscall(SYS_memfd_create, "file", 0);
}

static void look_up_path(void)
{
	char status[256];

	syscall(SYS_newfstatat, AT_FDCWD, "/", status, 0);
}

static void read_link(void)
{
	char text[16];

	syscall(SYS_readlinkat, AT_FDCWD, "/proc/self", text, sizeof(text));
}

static void leave_view(void)
{
	syscall(SYS_chroot, ".");
}

static void open_as_root(void)
{
	syscall(SYS_setfsuid, 0);
}

static void take_capabilities(void)
{
	syscall(SYS_capset, NULL, NULL);
}

static void map_writable_code(void)
{
	mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

static void make_code(void)
{
	void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	must(page != MAP_FAILED);
	mprotect(page, 4096, PROT_READ | PROT_EXEC);
}

static void open_internet_socket(void)
{
	socket(AF_INET, SOCK_STREAM, 0);
}

static void open_raw_socket(void)
{
	socket(AF_PACKET, SOCK_RAW, 0);
}

static void open_unix_socket(void)
{
	socket(AF_UNIX, SOCK_DGRAM, 0);
}

static void listen_somewhere(void)
{
	listen(0, 1);
}

static void trace_performance(void)
{
	syscall(SYS_perf_event_open, NULL, 0, -1, -1, 0);
}

static void sample_cpu(void)
{
	syscall(SYS_perf_event_open, NULL, -1l, 0l, -1l, PERF_FLAG_FD_CLOEXEC);
}

/* As that, but of one process, into a group of events, or without what sample_cpu() says. */
static void sample_process(void)
{
	syscall(SYS_perf_event_open, NULL, 0l, 0l, -1l, PERF_FLAG_FD_CLOEXEC);
}

static void sample_into_group(void)
{
	syscall(SYS_perf_event_open, NULL, -1l, 0l, 0l, PERF_FLAG_FD_CLOEXEC);
}

static void sample_cgroup(void)
{
	syscall(SYS_perf_event_open, NULL, -1l, 0l, -1l, PERF_FLAG_FD_CLOEXEC | PERF_FLAG_PID_CGROUP);
}

static void kill_another(void)
{
	kill(NO_PROCESS, SIGKILL);
}

static void end_another_softly(void)
{
	kill(NO_PROCESS, SIGTERM);
}

static void signal_thread_of_another(void)
{
	syscall(SYS_tgkill, NO_PROCESS, NO_PROCESS, SIGTERM);
}

static void set_dumpable(void)
{
	prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
}

static void make_process_in_this_memory(void)
{
	if (syscall(SYS_clone, CLONE_VM | CLONE_VFORK | SIGCHLD, NULL, NULL, NULL, NULL) == 0)
		syscall(SYS_exit, 0);
}

static void make_process_that_is_root(void)
{
	if (syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, NULL, NULL, NULL, NULL) == 0)
		syscall(SYS_exit, 0);
}

static void make_reader(void)
{
	if (fork() == 0)
		_exit(0);
}

static void ask_for_limits(void)
{
	syscall(SYS_prlimit64, 0, RLIMIT_NOFILE, NULL, NULL);
}

static void write_file(void)
{
	syscall(SYS_openat, AT_FDCWD, "/dev/null", O_WRONLY);
}

static void remove_file(void)
{
	syscall(SYS_unlinkat, AT_FDCWD, "/nowhere/nothing", 0);
}

struct row {
	const char *name;
	void (*act)(void);
	int engine, resolving, loader, courier;
};

static const struct row rows[] = {
	{"run a program", run_program, SIGSYS, SIGSYS, SIGSYS, SIGSYS},
	{"run a descriptor", run_descriptor, SIGSYS, SIGSYS, SIGSYS, SIGSYS},
	{"make a process by clone", make_process_by_clone, SIGSYS, SIGSYS, SIGSYS, SIGSYS},
	{"make a process", make_process, SIGSYS, SIGSYS, SIGSYS, SIGSYS},
	{"trace another", trace_another, SIGSYS, SIGSYS, SIGSYS, SIGSYS},
	{"signal another", end_another, SIGSYS, SIGSYS, SIGSYS, SIGSYS},
	{"end the loader softly", end_loader_softly, SIGSYS, SIGSYS, SIGSYS, SIGSYS},
	{"mount", mount_something, SIGSYS, SIGSYS, SIGSYS, SIGSYS},
	{"change an owner", change_owner, SIGSYS, SIGSYS, SIGSYS, SIGSYS},
	{"become root", become_root, SIGSYS, SIGSYS, SIGSYS, SIGSYS},
	{"raise a limit", raise_limit, SIGSYS, SIGSYS, SIGSYS, SIGSYS},
	{"write code", map_writable_code, SIGSYS, SIGSYS, SIGSYS, SIGSYS},
	{"turn data into code", make_code, SIGSYS, SIGSYS, SIGSYS, SIGSYS},
	{"map code", map_code, SIGSYS, 0, SIGSYS, 0},
	{"map a file of code", map_file_of_code, SIGSYS, 0, SIGSYS, SIGSYS},
	{"map a library", map_library, SIGSYS, 0, SIGSYS, 0},
	{"map code that cannot be read", map_code_alone, SIGSYS, SIGSYS, SIGSYS, SIGSYS},
	{"turn data into code, with a key", make_code_with_key, SIGSYS, SIGSYS, SIGSYS, SIGSYS},
	{"attach code", attach_code, SIGSYS, SIGSYS, SIGSYS, SIGSYS},
	{"make all that is read code", make_all_reading_code, SIGSYS, SIGSYS, SIGSYS, SIGSYS},
	{"open a path", open_path, 0, 0, SIGSYS, 0},
	{"open a path strictly", open_path_strictly, SIGSYS, SIGSYS, SIGSYS, SIGSYS},
	{"write a file", write_file, 0, 0, SIGSYS, SIGSYS},
	{"remove a file", remove_file, 0, 0, SIGSYS, SIGSYS},
	{"make a file in memory", make_file, 0, 0, 0, SIGSYS},
	{"look up a path", look_up_path, 0, 0, SIGSYS, 0},
	{"read a link", read_link, 0, 0, SIGSYS, 0},
	{"leave the view", leave_view, SIGSYS, SIGSYS, SIGSYS, SIGSYS},
	{"open as root", open_as_root, SIGSYS, SIGSYS, SIGSYS, SIGSYS},
	{"take capabilities", take_capabilities, SIGSYS, SIGSYS, SIGSYS, SIGSYS},
	{"open a raw socket", open_raw_socket, SIGSYS, SIGSYS, SIGSYS, SIGSYS},
	{"open an internet socket", open_internet_socket, SIGSYS, 0, SIGSYS, 0},
	{"open a unix socket", open_unix_socket, 0, 0, SIGSYS, 0},
	{"listen", listen_somewhere, SIGSYS, SIGSYS, SIGSYS, SIGSYS},
	{"call bpf", load_program, SIGSYS, SIGSYS, 0, SIGSYS},
	{"kill another", kill_another, SIGSYS, SIGSYS, SIGSYS, SIGSYS},
	{"end another softly", end_another_softly, SIGSYS, SIGSYS, SIGSYS, SIGSYS},
	{"signal a thread of another", signal_thread_of_another, SIGSYS, SIGSYS, SIGSYS, SIGSYS},
	{"become dumpable", set_dumpable, SIGSYS, SIGSYS, SIGSYS, SIGSYS},
	{"make a process in this memory", make_process_in_this_memory, SIGSYS, SIGSYS, SIGSYS, SIGSYS},
	{"ask for a limit", ask_for_limits, 0, 0, SIGSYS, 0},
	{"sample a process", sample_process, SIGSYS, SIGSYS, SIGSYS, SIGSYS},
	{"sample into a group", sample_into_group, SIGSYS, SIGSYS, SIGSYS, SIGSYS},
	{"sample a cgroup", sample_cgroup, SIGSYS, SIGSYS, SIGSYS, SIGSYS},
	{"open a performance event of a process", trace_performance, SIGSYS, SIGSYS, SIGSYS, SIGSYS},
	{"open a performance event of a CPU", sample_cpu, SIGSYS, SIGSYS, 0, SIGSYS},
};

static void each_forbidden_call_is_the_end(void **state)
{
	(void)state;
	for (size_t i = 0; i < LENGTH(rows); i++) {
		const int wanted[] = {rows[i].engine, rows[i].resolving, rows[i].loader,
				      rows[i].courier};

		for (enum who who = ENGINE; who <= COURIER; who++) {
			int got = ends(who, rows[i].act);

			if (got != wanted[who])
				print_message("%s, as %d\n", rows[i].name, who);
			assert_int_equal(got, wanted[who]);
		}
	}
}

/* Who opens files of anybody for the loader, and who reads them. */
static void finders_and_readers_do_no_more(void **state)
{
	static const struct {
		const char *name;
		void (*act)(void);
		int finder, attaching, reader;
	} row[] = {
		{"run a program", run_program, SIGSYS, SIGSYS, SIGSYS},
		{"make a process", make_process, SIGSYS, SIGSYS, SIGSYS},
		{"make a process as the C library does", make_reader, 0, 0, SIGSYS},
		{"make a process in this memory", make_process_in_this_memory, SIGSYS, SIGSYS, SIGSYS},
		{"make a process that is root", make_process_that_is_root, SIGSYS, SIGSYS, SIGSYS},
		{"trace another", trace_another, SIGSYS, SIGSYS, SIGSYS},
		{"kill another", kill_another, 0, 0, SIGSYS},
		{"end another softly", end_another_softly, SIGSYS, SIGSYS, SIGSYS},
		{"signal another", end_another, SIGSYS, SIGSYS, SIGSYS},
		{"signal a thread of another", signal_thread_of_another, SIGSYS, SIGSYS, SIGSYS},
		{"mount", mount_something, SIGSYS, SIGSYS, SIGSYS},
		{"change an owner", change_owner, SIGSYS, SIGSYS, SIGSYS},
		{"become root", become_root, SIGSYS, SIGSYS, SIGSYS},
		{"raise a limit", raise_limit, SIGSYS, SIGSYS, SIGSYS},
		{"become dumpable", set_dumpable, 0, 0, SIGSYS},
		{"write code", map_writable_code, SIGSYS, SIGSYS, SIGSYS},
		{"turn data into code", make_code, SIGSYS, SIGSYS, SIGSYS},
		{"map code", map_code, SIGSYS, SIGSYS, SIGSYS},
		{"open a path", open_path, 0, 0, SIGSYS},
		{"open a path strictly", open_path_strictly, 0, 0, SIGSYS},
		{"make a file in memory", make_file, 0, 0, 0},
		{"read a link", read_link, SIGSYS, SIGSYS, SIGSYS},
		{"take capabilities", take_capabilities, 0, 0, SIGSYS},
		{"open an internet socket", open_internet_socket, SIGSYS, SIGSYS, SIGSYS},
		{"open a unix socket", open_unix_socket, SIGSYS, SIGSYS, SIGSYS},
		{"listen", listen_somewhere, SIGSYS, SIGSYS, SIGSYS},
		{"call bpf", load_program, SIGSYS, SIGSYS, SIGSYS},
		{"open a performance event of a CPU", sample_cpu, SIGSYS, 0, SIGSYS},
		{"sample a process", sample_process, SIGSYS, SIGSYS, SIGSYS},
	};

	(void)state;
	for (size_t i = 0; i < LENGTH(row); i++) {
		const int wanted[] = {row[i].finder, row[i].attaching, row[i].reader};

		for (enum who who = FINDER; who <= READER; who++) {
			int got = ends(who, row[i].act);

			if (got != wanted[who - FINDER])
				print_message("%s, as %d\n", row[i].name, who);
			assert_int_equal(got, wanted[who - FINDER]);
		}
	}
}

/* ---- What is not ----------------------------------------------------------------------------- */

static void *hold_memory(void *context)
{
	char *memory = malloc(1 << 22);

	must(memory != NULL);
	memset(memory, 1, 1 << 22);
	free(memory);
	return context;
}

static void work_in_threads(void)
{
	pthread_t thread[4];

	for (size_t i = 0; i < LENGTH(thread); i++)
		must(pthread_create(&thread[i], NULL, hold_memory, NULL) == 0);
	for (size_t i = 0; i < LENGTH(thread); i++)
		must(pthread_join(thread[i], NULL) == 0);
}

static void write_a_file(void)
{
	char name[] = "/tmp/ringtail-sandbox-XXXXXX";
	int fd = mkstemp(name);

	must(fd >= 0 && write(fd, name, sizeof(name)) == sizeof(name) && fsync(fd) == 0);
	must(ftruncate(fd, 1) == 0 && close(fd) == 0 && unlink(name) == 0);
}

static void read_a_file(void)
{
	FILE *file = fopen("/dev/null", "r");

	must(file != NULL && fgetc(file) == EOF && fclose(file) == 0);
}

static void have_no_netlink(void)
{
	must(socket(AF_NETLINK, SOCK_RAW, 0) < 0 && errno == EAFNOSUPPORT);
}

static void work_goes_on(void **state)
{
	(void)state;
	for (enum who who = ENGINE; who <= COURIER; who++)
		assert_int_equal(ends(who, work_in_threads), 0);
	for (enum who who = ENGINE; who <= ENGINE_RESOLVING; who++) {
		assert_int_equal(ends(who, write_a_file), 0);
		assert_int_equal(ends(who, read_a_file), 0);
	}
	assert_int_equal(ends(ENGINE_RESOLVING, have_no_netlink), 0);
	assert_int_equal(ends(ENGINE, abort), SIGABRT);
	assert_int_equal(ends(LOADER, abort), SIGABRT);
}

/* The filter is for threads that were there before it, too. */
static void *wait_and_call(void *context)
{
	int *go = context;
	char byte;

	must(read(go[0], &byte, 1) == 1);
	run_program();
	return NULL;
}

static int early[2];
static pthread_t early_thread;

static void let_early_thread_call(void)
{
	must(write(early[1], "x", 1) == 1);
	pthread_join(early_thread, NULL);
}

static void threads_made_before_are_filtered(void **state)
{
	pid_t child;
	int status = 0;

	(void)state;
	child = fork();
	if (child == 0) {
		const struct sandbox_engine engine = {.loader = NOBODY};
		struct error error;

		must(pipe(early) == 0);
		must(pthread_create(&early_thread, NULL, wait_and_call, early) == 0);
		must(sandbox_engine(&engine, &error) == 0);
		let_early_thread_call();
		_exit(0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS);
}

/* A sanitizer makes calls of its own, so what is built with one goes without, and says so. */
static void sanitizers_go_without(void **state)
{
	(void)state;
	assert_int_equal(ends(ENGINE, raise_limit), 0);
	assert_int_equal(ends(LOADER, raise_limit), 0);
}

int main(void)
{
	const struct CMUnitTest filtered[] = {
		cmocka_unit_test(each_forbidden_call_is_the_end),
		cmocka_unit_test(finders_and_readers_do_no_more),
		cmocka_unit_test(work_goes_on),
		cmocka_unit_test(threads_made_before_are_filtered),
	};
	const struct CMUnitTest unfiltered[] = {
		cmocka_unit_test(sanitizers_go_without),
	};

	return SANDBOX_FILTERS ? cmocka_run_group_tests(filtered, NULL, NULL)
			       : cmocka_run_group_tests(unfiltered, NULL, NULL);
}
