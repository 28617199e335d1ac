/*
 * lives MODE ...: programs with probes of their own that end, change or grow in odd ways. Each says what it has passed,
 * which is the witness: the last line it writes, "passed N", or N in the first word of the file WITNESS.
 *
 *	lives killed WITNESS KILLS SEED	children that write until a SIGKILL, one after another
 *	lives image TURNS IMAGES	writes, then becomes the same program again
 *	lives bare_fork TURNS		a child that no handler of fork(2) knows of, in the memory of its parent
 *	lives threads THREADS TURNS	so many threads
 *	lives loads OBJECT TURNS	a shared object with probes comes and goes
 *	lives waits TURNS		looks for the daemon at each line, says whether it is there, and writes
 *	lives crowd SOCKET PROCESSES	so many, or until one is refused, each with three more threads, until the second line
 */
#define _GNU_SOURCE
#include "ringtail-probe.h"

#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>

#define CROWD_MAX	4096
#define REFUSED		1		/* ns, which nobody takes */
#define SLEEPERS	3
#define LOOKS_MAX	1000
#define TURNS_BEFORE_KILL 400
#define ATTACHES_MAX	25		/* on a busy host a daemon may answer too late */

static void write_turns(unsigned long turns)
{
	for (unsigned long turn = 0; turn < turns; turn++)
		RT_PROBE(lives, turn, "turn %lu of %s", turn, "some text");
}

static void await_line(const char *what)
{
	printf("%s\n", what);
	fflush(stdout);
	if (getchar() == EOF)
		exit(1);
}

static int say(unsigned long passed)
{
	printf("passed %lu\n", passed);
	return 0;
}

/* A place for all to see, which a SIGKILL of one leaves. */
static volatile uint64_t *shared(const char *path, size_t words)
{
	int fd = path ? open(path, O_RDWR | O_CREAT | O_TRUNC, 0600) : -1;
	void *map;

	if (path && (fd < 0 || ftruncate(fd, (off_t)(words * 8)) != 0))
		exit(1);
	map = mmap(NULL, words * 8, PROT_READ | PROT_WRITE, MAP_SHARED | (path ? 0 : MAP_ANONYMOUS), fd, 0);
	return map == MAP_FAILED ? exit(1), NULL : map;
}

/* One in eight dies before anybody has seen it write: while it connects, or at its first event. */
static void kill_one(volatile uint64_t *passed, unsigned *seed)
{
	uint64_t until = *passed + (rand_r(seed) % 8 ? (unsigned)rand_r(seed) % TURNS_BEFORE_KILL : 0);
	pid_t child = fork();

	if (child < 0)
		exit(1);
	/* What it passes before the daemon has answered is nobody's. */
	for (unsigned i = 0; !child && rt_probe_socket < 0 && i < ATTACHES_MAX; i++)
		rt_probe_attach();
	while (!child) {
		RT_PROBE(lives, turn, "turn %lu of %s", (unsigned long)*passed, "some text");
		++*passed;
		if (*passed % 64 == 0)
			usleep(50);
	}
	while (*passed < until)
		;
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
}

static int be_killed(char **words)
{
	volatile uint64_t *passed = shared(words[0], 512);
	unsigned long kills = strtoul(words[1], NULL, 10);
	unsigned seed = (unsigned)strtoul(words[2], NULL, 10);

	await_line(rt_probe_socket >= 0 ? "attached" : "alone");
	for (unsigned long i = 0; i < kills; i++)
		kill_one(passed, &seed);
	return 0;
}

static int become(const char *self, char **words)
{
	unsigned long turns = strtoul(words[0], NULL, 10), images = strtoul(words[1], NULL, 10);
	char left[24];

	if (!getenv("LIVES_AGAIN"))
		await_line(rt_probe_socket >= 0 ? "attached" : "alone");
	setenv("LIVES_AGAIN", "1", 1);
	write_turns(turns);
	if (images <= 1)
		return 0;
	snprintf(left, sizeof(left), "%lu", images - 1);
	execl(self, self, "image", words[0], left, NULL);
	return 1;
}

static int fork_bare(char **words)
{
	unsigned long turns = strtoul(words[0], NULL, 10);
	pid_t child;

	await_line(rt_probe_socket >= 0 ? "attached" : "alone");
	child = _Fork();
	write_turns(turns);
	if (!child)
		_exit(0);
	waitpid(child, NULL, 0);
	return say(2 * turns);
}

static unsigned long turns_of_thread;

static void *be_thread(void *context)
{
	(void)context;
	write_turns(turns_of_thread);
	return NULL;
}

static int have_threads(char **words)
{
	unsigned long threads = strtoul(words[0], NULL, 10);
	pthread_t *thread = calloc(threads, sizeof(*thread));
	pthread_attr_t attributes;

	turns_of_thread = strtoul(words[1], NULL, 10);
	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, 64 << 10);
	await_line(rt_probe_socket >= 0 ? "attached" : "alone");
	for (unsigned long i = 0; i < threads; i++)
		if (pthread_create(&thread[i], &attributes, be_thread, NULL) != 0)
			return 1;
	for (unsigned long i = 0; i < threads; i++)
		pthread_join(thread[i], NULL);
	return say(threads * turns_of_thread);
}

static int load_objects(char **words)
{
	unsigned long turns = strtoul(words[1], NULL, 10), passed = 0;

	await_line(rt_probe_socket >= 0 ? "attached" : "alone");
	for (unsigned long turn = 0; turn < turns; turn++) {
		void *object = dlopen(words[0], RTLD_NOW | RTLD_LOCAL);
		unsigned long (*pass)(unsigned long turn) = NULL;

		if (object)
			*(void **)&pass = dlsym(object, "plugin_pass");
		if (!pass)
			return fprintf(stderr, "%s\n", dlerror()), 1;
		passed += pass(turn);
		dlclose(object);
		write_turns(1);
		passed++;
	}
	return say(passed);
}

static int wait_for_daemon(char **words)
{
	unsigned long turns = strtoul(words[0], NULL, 10), passed = 0;

	for (unsigned looks = 0; looks < LOOKS_MAX; looks++) {
		int err = rt_probe_attach();

		write_turns(turns);
		passed += err ? 0 : turns;
		printf("%s ", err ? "alone" : "attached");
		say(passed);
		await_line("next");
	}
	return 1;
}

static void *sleep_on(void *context)
{
	for (;;)
		pause();
	return context;
}

static void be_one_of_crowd(volatile uint64_t *took_ns, int ends)
{
	struct timespec begin, end;
	pthread_t thread;
	int err = -1;
	char byte;

	for (unsigned i = 0; i < SLEEPERS; i++)
		if (pthread_create(&thread, NULL, sleep_on, NULL) != 0)
			_exit(1);
	for (unsigned i = 0; i < ATTACHES_MAX && err; i++) {
		clock_gettime(CLOCK_MONOTONIC, &begin);
		err = rt_probe_attach();
	}
	if (err) {
		*took_ns = REFUSED;
		_exit(0);
	}
	clock_gettime(CLOCK_MONOTONIC, &end);
	*took_ns = (uint64_t)((end.tv_sec - begin.tv_sec) * 1000000000 + end.tv_nsec - begin.tv_nsec);
	while (read(ends, &byte, 1) < 0)
		;
	write_turns(1);
	_exit(0);
}

/* One after another, until one is refused: the time of each is its own. Says the time of each in ns. */
static int be_crowd(char **words)
{
	unsigned long processes = strtoul(words[1], NULL, 10);
	volatile uint64_t *took_ns = shared(NULL, CROWD_MAX);
	int ends[2], status, failed = 0;

	if (processes > CROWD_MAX || pipe(ends) != 0)
		return 1;
	setenv("RINGTAIL_PROGRAMS", words[0], 1);
	await_line("ready");
	for (unsigned long i = 0; i < processes; i++) {
		pid_t child = fork();

		if (!child) {
			close(ends[1]);
			be_one_of_crowd(&took_ns[i], ends[0]);
		}
		while (child > 0 && !took_ns[i] && waitpid(child, NULL, WNOHANG) == 0)
			usleep(50);
		if (!took_ns[i])
			return 1;
		if (took_ns[i] == REFUSED)
			processes = i;
	}
	for (unsigned long i = 0; i < processes; i++)
		printf("%lu ", (unsigned long)took_ns[i]);
	await_line("there");
	close(ends[1]);
	while (wait(&status) > 0)
		failed |= status;
	return failed ? 1 : say(processes);
}

int main(int argc, char **argv)
{
	const char *mode = argc > 2 ? argv[1] : "";

	if (strcmp(mode, "killed") == 0 && argc == 5)
		return be_killed(argv + 2);
	if (strcmp(mode, "image") == 0 && argc == 4)
		return become(argv[0], argv + 2);
	if (strcmp(mode, "bare_fork") == 0)
		return fork_bare(argv + 2);
	if (strcmp(mode, "threads") == 0 && argc == 4)
		return have_threads(argv + 2);
	if (strcmp(mode, "loads") == 0 && argc == 4)
		return load_objects(argv + 2);
	if (strcmp(mode, "waits") == 0)
		return wait_for_daemon(argv + 2);
	if (strcmp(mode, "crowd") == 0 && argc == 4)
		return be_crowd(argv + 2);
	return 2;
}
