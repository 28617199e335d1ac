/*
 * What file a thread executes, in which cgroup it is, and who its parent is: as the ring tells it,
 * held against /proc. Started with an argument, this program is what the test executes.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/bpf/harness.h"

#define CHURN		(RT_TEXTS_MAX / 2 + 100)	/* more texts than the programs keep */
#define MOVED_THREADS	3
#define CONTAINER	"3f2a5cbd1e9047d6a8b1c2d3e4f5061728394a5b6c7d8e9f00112233445566aa"

static struct harness harness;
static char directory[] = "/tmp/ringtail-context.XXXXXX";

/* What was told last of the process that is watched. */
static struct {
	uint32_t pid;
	unsigned introductions, bare, exits;
	char exe[RT_TEXT_BYTES_MAX + 1], cgroup[RT_TEXT_BYTES_MAX + 1];
	char exe_at_exit[RT_TEXT_BYTES_MAX + 1];
	struct rt_thread thread;
} watched;

static void watch_thread(struct harness *h, uint32_t tid, const struct rt_thread *thread)
{
	(void)tid;
	if (thread->pid != watched.pid)
		return;
	watched.introductions++;
	watched.bare += !!(thread->flags & RT_THREAD_BARE);
	watched.thread = *thread;
	strcpy(watched.exe, thread->exe ? harness_text(h, thread->exe) : "");
	strcpy(watched.cgroup, thread->cgroup ? harness_text(h, thread->cgroup) : "");
}

static void watch_event(void *context, uint32_t cpu, const struct ring_item *item)
{
	(void)context, (void)cpu;
	if (item->probe == RT_PROBE_SCHED_EXIT && item->tid == watched.pid) {
		watched.exits++;
		strcpy(watched.exe_at_exit, watched.exe);
	}
}

static void watch(uint32_t pid)
{
	memset(&watched, 0, sizeof(watched));
	watched.pid = pid;
	harness.thread = watch_thread;
	harness_drain(&harness, watch_event, NULL);
}

/* Of a cgroup's text: the first of its paths, or the only one. */
static const char *first_path(const char *text)
{
	static char path[RT_TEXT_BYTES_MAX + 1];

	strcpy(path, text);
	path[strcspn(path, "\n")] = '\0';
	return path;
}

static void copy_myself(const char *name, char *path)
{
	int from = open("/proc/self/exe", O_RDONLY | O_CLOEXEC), to;
	struct stat stat;

	sprintf(path, "%s/%s", directory, name);
	to = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0755);
	assert_true(from >= 0 && to >= 0);
	assert_int_equal(fstat(from, &stat), 0);
	for (off_t at = 0; at < stat.st_size;)
		assert_true(sendfile(to, from, &at, stat.st_size - at) > 0);
	close(from);
	close(to);
}

/* Runs it to its end. */
static pid_t run(const char *path, const char *how)
{
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (!pid) {
		execl(path, path, how, NULL);
		_exit(1);
	}
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	return pid;
}

static void want(const uint32_t *probe, unsigned probes)
{
	struct source_request request = { 0 };

	for (unsigned i = 0; i < probes; i++)
		harness_want(&request, probe[i]);
	harness_configure(&harness, &request);
}

#define WANT(...) want((const uint32_t []){ __VA_ARGS__ }, \
		       sizeof((const uint32_t []){ __VA_ARGS__ }) / sizeof(uint32_t))
#define CALL(call) (RT_PROBE_SYSCALL_CALL + SYS_##call)

static void a_short_lived_process_has_its_file_and_its_parent(void **state)
{
	char path[512];

	(void)state;
	copy_myself("a-name-that-is-longer-than-a-comm", path);
	WANT(CALL(getppid), RT_PROBE_SCHED_EXIT);
	watch(run(path, "child"));
	harness_reset(&harness);
	assert_string_equal(watched.exe, path);
	assert_int_equal(watched.thread.ppid, getpid());
	assert_int_equal(watched.thread.uid, getuid());
	assert_int_equal(watched.bare, 0);
	assert_int_equal(watched.exits, 1);
	assert_string_equal(watched.exe_at_exit, path);
}

static void a_file_that_was_renamed_has_its_new_name(void **state)
{
	char path[512], other[512];

	(void)state;
	copy_myself("first", path);
	sprintf(other, "%s/second", directory);
	WANT(CALL(getppid));
	run(path, "child");
	assert_int_equal(rename(path, other), 0);
	watch(run(other, "child"));
	harness_reset(&harness);
	assert_string_equal(watched.exe, other);
}

static void a_path_that_is_too_long_leaves_its_base_name_and_says_so(void **state)
{
	char path[512], to[64], at[512];
	int here = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	(void)state;
	copy_myself("deep", path);
	assert_int_equal(chdir(directory), 0);
	for (int i = 0; i < 5; i++) {
		memset(at, 'a' + i, 250);
		at[250] = '\0';
		assert_int_equal(mkdir(at, 0755) | chdir(at), 0);
	}
	sprintf(to, "deep");
	assert_int_equal(rename(path, to), 0);
	WANT(CALL(getppid));
	watch(run("./deep", "child"));
	harness_reset(&harness);
	assert_string_equal(watched.exe, ".../deep");
	unlink("deep");
	for (int i = 4; i >= 0; i--) {
		memset(at, 'a' + i, 250);
		at[250] = '\0';
		assert_int_equal(chdir("..") | rmdir(at), 0);
	}
	assert_int_equal(fchdir(here), 0);
	close(here);
}

/* Below the directory, which lies two deep: "/d/d/.../d", and the program at its end. */
static void make_deep(unsigned names, char *path)
{
	char base[512];

	copy_myself("x", base);
	strcpy(path, directory);
	for (unsigned i = 3; i < names; i++) {
		strcat(path, "/d");
		assert_true(!mkdir(path, 0755) || errno == EEXIST);
	}
	strcat(path, "/x");
	assert_int_equal(rename(base, path), 0);
}

static void a_path_that_is_too_deep_says_so(void **state)
{
	char path[512], wanted[512] = RT_TEXT_CUT;

	(void)state;
	WANT(CALL(getppid));
	make_deep(RT_TEXT_NAMES_MAX, path);
	watch(run(path, "child"));
	assert_string_equal(watched.exe, path);
	make_deep(RT_TEXT_NAMES_MAX + 1, path);
	watch(run(path, "child"));
	strcat(wanted, path + strlen("/tmp"));
	assert_string_equal(watched.exe, wanted);
	make_deep(RT_TEXT_NAMES_MAX + 5, path);
	watch(run(path, "child"));
	harness_reset(&harness);
	strcpy(wanted, RT_TEXT_CUT);
	for (unsigned i = 1; i < RT_TEXT_NAMES_MAX; i++)
		strcat(wanted, "/d");
	assert_string_equal(watched.exe, strcat(wanted, "/x"));
}

/* Each on the root of the one before it: no name, but a step on the way up. */
static void a_path_over_too_many_mounts_says_so(void **state)
{
	enum { MOUNTS = 50 };
	char base[512], path[512];
	unsigned mounts = 0;

	(void)state;
	copy_myself("x", base);
	sprintf(path, "%s/mounts", directory);
	assert_int_equal(mkdir(path, 0755), 0);
	for (; mounts < MOUNTS && !mount(directory, path, NULL, MS_BIND, NULL); mounts++)
		strcat(path, mounts + 1 < MOUNTS ? "/mounts" : "");
	assert_int_equal(mounts, MOUNTS);
	WANT(CALL(getppid));
	strcat(path, "/x");
	watch(run(path, "child"));
	harness_reset(&harness);
	sprintf(path, "%s/mounts", directory);
	umount2(path, MNT_DETACH);
	assert_memory_equal(watched.exe, RT_TEXT_CUT "/", RT_TEXT_CUT_BYTES + 1);
}

static void a_file_without_a_directory_has_its_name(void **state)
{
	int from = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	int to = syscall(SYS_memfd_create, "nowhere", 0);
	struct stat stat;
	char path[64];

	(void)state;
	assert_true(from >= 0 && to >= 0);
	assert_int_equal(fstat(from, &stat), 0);
	for (off_t at = 0; at < stat.st_size;)
		assert_true(sendfile(to, from, &at, stat.st_size - at) > 0);
	close(from);
	sprintf(path, "/proc/self/fd/%d", to);
	WANT(CALL(getppid));
	watch(run(path, "child"));
	harness_reset(&harness);
	close(to);
	assert_string_equal(watched.exe, "/memfd:nowhere");
}

static void churned_path(char *path, const char *base, int i)
{
	sprintf(path, "%.400s.%d", base, i);
}

/* Its file goes by another name at each call: as many texts of one thread. */
static int churn(const char *base)
{
	char last[512], next[512];

	strcpy(last, base);
	for (int i = 0; i < CHURN; i++) {
		churned_path(next, base, i);
		if (rename(last, next))
			return 1;
		strcpy(last, next);
		prctl(PR_SET_NAME, "churns");	/* it must be introduced again */
		syscall(SYS_getppid);
	}
	return 0;
}

static void texts_beyond_what_is_kept_are_told_again(void **state)
{
	char stays[512], churns[512], last[512];

	(void)state;
	copy_myself("stays", stays);
	copy_myself("churns", churns);
	churned_path(last, churns, CHURN - 1);
	WANT(CALL(getppid));
	run(stays, "child");
	watch(run(churns, "churn"));
	assert_string_equal(watched.exe, last);
	assert_true(watched.introductions >= CHURN);
	assert_int_equal(watched.bare, 0);
	watch(run(stays, "child"));
	harness_reset(&harness);
	assert_string_equal(watched.exe, stays);
	assert_int_equal(harness.lost, 0);
}

/* ---- cgroups -------------------------------------------------------------------------------- */

static char cgroup_root[64];

/* A mount of its own: of the unified hierarchy, or (v1) of one that has the controller `pids`. */
static void mount_cgroups(bool v1)
{
	sprintf(cgroup_root, "%s/cgroups", directory);
	assert_int_equal(mkdir(cgroup_root, 0755), 0);
	if (mount("none", cgroup_root, v1 ? "cgroup" : "cgroup2", 0, v1 ? "pids" : NULL)) {
		rmdir(cgroup_root);
		cgroup_root[0] = '\0';
		printf("no cgroups of %s here: %s\n", v1 ? "version 1" : "version 2", strerror(errno));
		skip();
	}
}

static void unmount_cgroups(void)
{
	assert_int_equal(umount2(cgroup_root, MNT_DETACH) | rmdir(cgroup_root), 0);
}

static void make_cgroup(const char *path, bool make)
{
	char full[512], part[256];

	for (size_t n = make ? 1 : strlen(path); n && n <= strlen(path);) {
		n = make ? n + strcspn(path + n, "/") : n;
		sprintf(part, "%.*s", (int)n, path);
		sprintf(full, "%s%s", cgroup_root, part);
		if (make)
			assert_true(!mkdir(full, 0755) || errno == EEXIST);
		else if (rmdir(full))
			fail_msg("rmdir %s: %s", full, strerror(errno));
		if (make)
			n++;
		else
			n = strrchr(part, '/') - part;
	}
}

static void enter_cgroup(const char *path, pid_t pid)
{
	char file[512], number[16];
	int fd;

	sprintf(file, "%s%s/cgroup.procs", cgroup_root, path);
	fd = open(file, O_WRONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	sprintf(number, "%d", pid);
	assert_int_equal(write(fd, number, strlen(number)), strlen(number));
	close(fd);
}

/* Whether there were version 1 hierarchies with controllers when the source was opened. */
static bool hierarchies;

static bool has_hierarchies(void)
{
	FILE *file = fopen("/proc/cgroups", "re");
	char line[256];
	bool has = false;
	unsigned number;

	while (file && fgets(line, sizeof(line), file))
		has |= sscanf(line, "%*s %u", &number) == 1 && number;
	if (file)
		fclose(file);
	return has;
}

static void run_in_cgroup(const char *cgroup)
{
	char path[512];
	pid_t pid;

	copy_myself("contained", path);
	make_cgroup(cgroup, true);
	WANT(CALL(getppid), RT_PROBE_SCHED_EXIT);
	enter_cgroup(cgroup, getpid());
	pid = run(path, "child");
	enter_cgroup("/", getpid());
	make_cgroup(cgroup, false);		/* it is gone before anybody reads of it */
	watch(pid);
	harness_reset(&harness);
}

static void a_short_lived_process_has_its_cgroup(void **state)
{
	static const char *const cgroup = "/kubepods.slice/kubepods-burstable.slice/"
		"kubepods-burstable-pod0f4ee4f9_c1d1_4d5c_8f3b_6a1f0c2b7a11.slice/cri-containerd-"
		CONTAINER ".scope";

	(void)state;
	mount_cgroups(false);
	run_in_cgroup(cgroup);
	unmount_cgroups();
	assert_string_equal(first_path(watched.cgroup), cgroup);
	assert_int_equal(watched.exits, 1);
}

static void a_cgroup_that_is_too_deep_says_so(void **state)
{
	char cgroup[512] = "", wanted[512] = RT_TEXT_CUT;

	(void)state;
	for (unsigned i = 0; i < RT_TEXT_NAMES_MAX; i++)
		strcat(cgroup, "/d");
	mount_cgroups(false);
	run_in_cgroup(cgroup);
	assert_string_equal(first_path(watched.cgroup), cgroup);
	strcat(wanted, cgroup);
	run_in_cgroup(strcat(cgroup, "/d"));
	unmount_cgroups();
	assert_string_equal(first_path(watched.cgroup), wanted);
}

/* Where version 1 hierarchies are beside the unified one, a container is in those. */
static void a_short_lived_process_has_its_cgroup_of_version_1(void **state)
{
	(void)state;
	if (!hierarchies) {	/* the source has looked, and looks for none */
		printf("no cgroups of version 1 here\n");
		skip();
	}
	mount_cgroups(true);
	run_in_cgroup("/docker/" CONTAINER);
	unmount_cgroups();
	assert_non_null(strstr(watched.cgroup, "/docker/" CONTAINER "\n"));
}

static int step[2], done[2];

static void *call_at_each_step(void *arg)
{
	char byte;

	while (read(step[0], &byte, 1) == 1 && byte) {
		syscall(SYS_getppid);
		if (write(done[1], &byte, 1) != 1)
			break;
	}
	return arg;
}

/* One call of each thread: each takes one byte, and waits until all have. */
static void take_step(char byte)
{
	char ended;

	for (int i = 0; i <= MOVED_THREADS; i++) {
		assert_int_equal(write(step[1], &byte, 1), 1);
		if (byte)
			assert_int_equal(read(done[0], &ended, 1), 1);
	}
}

static void work_in_steps(void)
{
	pthread_t thread;

	for (int i = 0; i < MOVED_THREADS; i++)
		pthread_create(&thread, NULL, call_at_each_step, NULL);
	call_at_each_step(NULL);
	_exit(0);
}

static void threads_that_move_are_introduced_again(void **state)
{
	unsigned introductions;
	pid_t pid;

	(void)state;
	mount_cgroups(false);
	make_cgroup("/before", true);
	make_cgroup("/after", true);
	assert_int_equal(pipe2(step, O_CLOEXEC) | pipe2(done, O_CLOEXEC), 0);
	WANT(CALL(getppid));
	pid = fork();
	if (!pid)
		work_in_steps();
	enter_cgroup("/before", pid);
	for (int i = 0; i < 10; i++)
		take_step(1);
	watch(pid);
	assert_string_equal(first_path(watched.cgroup), "/before");
	enter_cgroup("/after", pid);
	for (int i = 0; i < 10; i++)
		take_step(1);
	introductions = watched.introductions;
	harness_drain(&harness, NULL, NULL);
	introductions = watched.introductions - introductions;
	take_step(0);
	waitpid(pid, NULL, 0);
	harness_reset(&harness);
	make_cgroup("/before", false);
	make_cgroup("/after", false);
	unmount_cgroups();
	assert_string_equal(first_path(watched.cgroup), "/after");
	assert_true(introductions >= 1);
}

/* ---- the rest ------------------------------------------------------------------------------- */

/* What the test executes: a few calls, and its end. */
static int child(void)
{
	for (int i = 0; i < 5; i++)
		syscall(SYS_getppid);
	return 0;
}

static int set_up(void **state)
{
	(void)state;
	assert_non_null(mkdtemp(directory));
	harness_pin(0);
	hierarchies = has_hierarchies();
	harness_open(&harness, 1 << 20);
	return 0;
}

static int tear_down(void **state)
{
	char command[600];

	(void)state;
	harness_close(&harness);
	sprintf(command, "rm -rf %s", directory);
	return system(command);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_short_lived_process_has_its_file_and_its_parent),
		cmocka_unit_test(a_file_that_was_renamed_has_its_new_name),
		cmocka_unit_test(a_path_that_is_too_long_leaves_its_base_name_and_says_so),
		cmocka_unit_test(a_path_that_is_too_deep_says_so),
		cmocka_unit_test(a_path_over_too_many_mounts_says_so),
		cmocka_unit_test(a_file_without_a_directory_has_its_name),
		cmocka_unit_test(texts_beyond_what_is_kept_are_told_again),
		cmocka_unit_test(a_short_lived_process_has_its_cgroup),
		cmocka_unit_test(a_cgroup_that_is_too_deep_says_so),
		cmocka_unit_test(a_short_lived_process_has_its_cgroup_of_version_1),
		cmocka_unit_test(threads_that_move_are_introduced_again),
	};

	if (argc > 1)
		return strcmp(argv[1], "churn") ? child() : churn(argv[0]);
	return cmocka_run_group_tests(tests, set_up, tear_down);
}
