/*
 * spanned MODE: a program with spans. It says whether it is attached, waits for a line, and closes descriptors that are
 * not open: FIRST_FD + N tells in which of its spans it is.
 *
 *	request		request { 1, query { 2 }, 3, job over threads { step { 4 } }, 5 }, 6
 *	killed		killed { 7, and there it stays
 *	thread		a thread ends inside of `left`, with 8
 *	many TURNS	outer { inner } as often as that
 */
#include "ringtail-probe.h"

#include <stdio.h>

#define FIRST_FD	1000000

static void *work(void *context)
{
	struct rt_span *job = context;
	RT_SPAN_AS(step, &job->context, app, step, "step");

	close(FIRST_FD + 4);
	job->status = -5;
	rt_span_end(job);
	return NULL;
}

static void query(const char *text)
{
	RT_SPAN(app, query, "%s", text);

	close(FIRST_FD + 2);
}

static void request(unsigned id)
{
	struct rt_span_context from, current;
	char text[RT_TRACEPARENT_BYTES];
	struct rt_span job;
	pthread_t thread;

	rt_span_parse(getenv("TRACEPARENT"), &from);
	RT_SPAN_AS(span, &from, app, request, "id %u, %s", id, "/index");
	rt_span_current(&current);
	rt_span_text(&current, text);
	printf("hands on %s\n", text);
	close(FIRST_FD + 1);
	query("select");
	close(FIRST_FD + 3);
	RT_SPAN_BEGIN(&job, NULL, app, job, "job");
	pthread_create(&thread, NULL, work, &job);
	pthread_join(thread, NULL);
	close(FIRST_FD + 5);
}

static void stay(void)
{
	RT_SPAN(app, killed, "killed");

	close(FIRST_FD + 7);
	printf("inside\n");
	fflush(stdout);
	pause();
}

static void *leave(void *context)
{
	RT_SPAN(app, left, "left");

	close(FIRST_FD + 8);
	syscall(SYS_exit, 0);	/* of the thread: nothing is cleaned up */
	return context;
}

static void repeat(unsigned long turns)
{
	for (unsigned long i = 0; i < turns; i++) {
		RT_SPAN(app, outer, "%lu", i);
		RT_SPAN(app, inner, "%lu", i);
	}
}

int main(int argc, char **argv)
{
	pthread_t thread;

	printf("%s\n", rt_probe_socket >= 0 ? "attached" : "alone");
	fflush(stdout);
	if (getchar() == EOF)
		return 1;
	if (strcmp(argv[1], "request") == 0) {
		request(7);
		close(FIRST_FD + 6);
	} else if (strcmp(argv[1], "killed") == 0) {
		stay();
	} else if (strcmp(argv[1], "thread") == 0) {
		pthread_create(&thread, NULL, leave, NULL);
		printf("inside\n");
		fflush(stdout);
		pause();
	} else if (argc > 2) {
		repeat(strtoul(argv[2], NULL, 10));
	}
	printf("done\n");
	return 0;
}
