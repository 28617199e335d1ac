/*
 * crowd: many threads that are all alive, and share system calls evenly: what fills tables of threads.
 *	usage: crowd THREADS CALLS
 * Prints its pid and a newline once all of them are there, and begins when a byte comes on stdin. Then prints how many
 * calls were made, and all threads stay until stdin ends.
 */
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define STACK_BYTES	(32u << 10)

static sem_t go, done;
static long calls_each;

static void *one(void *unused)
{
	(void)unused;
	sem_wait(&go);
	for (long i = 0; i < calls_each; i++)
		syscall(SYS_getppid);
	sem_post(&done);
	pause();
	return NULL;
}

static void start(long threads)
{
	pthread_attr_t attributes;

	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, STACK_BYTES);
	for (long i = 0; i < threads; i++) {
		pthread_t thread;
		int error = pthread_create(&thread, &attributes, one, NULL);

		if (error) {
			fprintf(stderr, "crowd: thread %ld of %ld: %s\n", i + 1, threads, strerror(error));
			exit(EXIT_FAILURE);
		}
	}
	pthread_attr_destroy(&attributes);
}

int main(int argc, char **argv)
{
	long threads = argc > 1 ? atol(argv[1]) : 0;
	long calls = argc > 2 ? atol(argv[2]) : 0;

	if (threads < 1 || calls < threads) {
		fprintf(stderr, "usage: crowd THREADS CALLS, at least a call each\n");
		return 2;
	}
	calls_each = calls / threads;
	sem_init(&go, 0, 0);
	sem_init(&done, 0, 0);
	start(threads);
	printf("%d\n", getpid());
	fflush(stdout);
	if (getchar() == EOF)
		return 0;
	/* One after the other: that many at once would time the scheduler. */
	for (long i = 0; i < threads; i++) {
		sem_post(&go);
		sem_wait(&done);
	}
	printf("%ld\n", calls_each * threads);
	fflush(stdout);
	while (getchar() != EOF)
		;
	return 0;
}
