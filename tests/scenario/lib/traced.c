/*
 * traced MODE COUNTS [TURNS]: a program with probes of its own. It says whether it is attached, waits for a line, and
 * writes what it has done into the file COUNTS as it goes: that is the witness. Its threads make TURNS turns each, or
 * go on for ever.
 */
#include "ringtail-probe.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/wait.h>

#define THREADS 4

static volatile uint64_t *done;
static unsigned long turns;

static void *work(void *context)
{
	unsigned thread = (unsigned)(uintptr_t)context;
	char text[32];

	for (unsigned long turn = 0; !turns || turn < turns; turn++) {
		snprintf(text, sizeof(text), "turn %lu", turn);
		RT_PROBE(app, request_done, "thread %u turn %lu: %s", thread, turn, text);
		done[thread]++;
		if (turn % 16 == 0)
			RT_PROBE(app, sixteenth, "thread %u, %d", thread, -(int)turn);
		if (!turns && turn % 32 == 0)
			usleep(100);
	}
	return NULL;
}

static void work_all(void)
{
	pthread_t thread[THREADS];

	for (uintptr_t i = 0; i < THREADS; i++)
		pthread_create(&thread[i], NULL, work, (void *)i);
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
}

static void work_in_child(void)
{
	pid_t child = fork();

	if (!child) {
		work((void *)1);
		exit(0);
	}
	waitpid(child, NULL, 0);
	work((void *)0);
}

#ifdef SQUATS
static void squat(void)
{
	RT_PROBE(openat, call, "this is no system call");
}
#endif

int main(int argc, char **argv)
{
	int fd = open(argv[2], O_RDWR | O_CREAT | O_TRUNC, 0600);

	turns = argc > 3 ? strtoul(argv[3], NULL, 10) : 0;
	if (fd < 0 || ftruncate(fd, 4096) != 0)
		return 1;
	done = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	printf("%s\n", rt_probe_socket >= 0 ? "attached" : "alone");
	fflush(stdout);
	if (getchar() == EOF)
		return 1;
	RT_PROBE(app, begins, "begins");
#ifdef SQUATS
	squat();
#endif
	if (strcmp(argv[1], "fork") == 0)
		work_in_child();
	else
		work_all();
	printf("done\n");
	return 0;
}
