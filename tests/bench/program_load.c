/*
 * program_load: a known number of events of ringtail-probe.h, as lttng_ust_load makes of LTTng-UST.
 *
 *	program_load words|clock|text|span|disabled|span-disabled|attach EVENTS CPU[,CPU...] [BURST GAP_US]
 *
 * Runs a thread on each CPU, all at once, and prints one JSON line: events of each, and ns per event as the emitters see it. With BURST it pauses
 * GAP_US after that many events, so that the ring is drained and none is lost; the pauses are not in the time. `clock` is
 * words with the time of the vDSO's clock; `attach` leaves the daemon and comes back, EVENTS times, and prints what
 * the slowest took, too.
 */
#include "proto/ringtail-probe.h"

#include <inttypes.h>
#include <sched.h>
#include <stdio.h>

#include "tests/bench/text_64.h"

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static void emit_words(uint64_t first, uint64_t count)
{
	for (uint64_t i = first; i < first + count; i++)
		RT_PROBE(bench, call, "%ld %ld %ld %lu", (long)(i & 7), (long)i, 0l, (unsigned long)(i & 255));
}

static void emit_text(uint64_t first, uint64_t count)
{
	for (uint64_t i = first; i < first + count; i++)
		RT_PROBE(bench, text, "%s", text_64);
}

/* As where the processor's counter cannot be had. */
static void emit_clock(uint64_t first, uint64_t count)
{
	if (rt_probe_segment)
		rt_probe_segment->counter = 0;
	emit_words(first, count);
}

static uint64_t slowest_ns;

/* A program that comes, each time: until its probes can be asked for. */
static void emit_attach(uint64_t first, uint64_t count)
{
	for (uint64_t i = first; i < first + count; i++) {
		uint64_t began_ns, took_ns;
		int err;

		rt_probe_detach();
		began_ns = now_ns();
		err = rt_probe_attach();
		took_ns = now_ns() - began_ns;
		if (err || took_ns > slowest_ns)
			slowest_ns = err ? UINT64_MAX : took_ns;
	}
}

/* Nobody asks for that one. */
static void emit_disabled(uint64_t first, uint64_t count)
{
	for (uint64_t i = first; i < first + count; i++) {
		RT_PROBE(bench, disabled, "%ld %ld %ld %lu", (long)(i & 7), (long)i, 0l, (unsigned long)(i & 255));
		__asm__ volatile("" : : "r"(i));
	}
}

/* Each is two events: its begin, with a number, and its end. */
static void emit_span(uint64_t first, uint64_t count)
{
	for (uint64_t i = first; i < first + count; i++) {
		RT_SPAN(bench, span, "%lu", (unsigned long)i);
	}
}

static void emit_span_disabled(uint64_t first, uint64_t count)
{
	for (uint64_t i = first; i < first + count; i++) {
		RT_SPAN(bench, span_disabled, "%lu", (unsigned long)i);
		__asm__ volatile("" : : "r"(i));
	}
}

/* What the loop around it takes. */
static void emit_nothing(uint64_t first, uint64_t count)
{
	for (uint64_t i = first; i < first + count; i++)
		__asm__ volatile("" : : "r"(i));
}

static const struct {
	const char *name;
	void (*emit)(uint64_t first, uint64_t count);
} kinds[] = {
	{"words", emit_words}, {"clock", emit_clock}, {"attach", emit_attach}, {"text", emit_text}, {"span", emit_span}, {"disabled", emit_disabled},
	{"span-disabled", emit_span_disabled}, {"nothing", emit_nothing},
};

#define THREADS_MAX 64

static struct {
	void (*emit)(uint64_t first, uint64_t count);
	uint64_t events, burst;
	useconds_t gap_us;
	pthread_barrier_t all;
} load;

struct emitter {
	pthread_t thread;
	unsigned cpu;
	uint64_t busy_ns;
	int err;
};

static void *run(void *context)
{
	struct emitter *emitter = context;
	cpu_set_t cpu;

	CPU_ZERO(&cpu);
	CPU_SET(emitter->cpu % CPU_SETSIZE, &cpu);
	emitter->err = sched_setaffinity(0, sizeof(cpu), &cpu);
	for (uint64_t done = 0; done < load.events; done += load.burst) {
		uint64_t count = load.events - done < load.burst ? load.events - done : load.burst, began_ns;

		pthread_barrier_wait(&load.all);
		began_ns = now_ns();
		load.emit(done, count);
		emitter->busy_ns += now_ns() - began_ns;
		if (load.gap_us)
			usleep(load.gap_us);
	}
	return NULL;
}

/* Mean ns of an event; below 0: it could not. */
static double run_all(struct emitter *emitter, unsigned threads)
{
	uint64_t busy_ns = 0;
	int err = pthread_barrier_init(&load.all, NULL, threads);

	for (unsigned i = 0; !err && i < threads; i++)
		err = pthread_create(&emitter[i].thread, NULL, run, &emitter[i]);
	for (unsigned i = 0; !err && i < threads; i++) {
		pthread_join(emitter[i].thread, NULL);
		busy_ns += emitter[i].busy_ns;
		err = emitter[i].err;
	}
	return err ? -1 : load.events ? (double)busy_ns / (double)load.events / threads : 0;
}

int main(int argc, char **argv)
{
	struct emitter emitter[THREADS_MAX] = {0};
	unsigned threads = 0;
	double ns;

	for (size_t i = 0; argc > 1 && i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (strcmp(argv[1], kinds[i].name) == 0)
			load.emit = kinds[i].emit;
	if (!load.emit || (argc != 4 && argc != 6)) {
		fprintf(stderr, "usage: program_load words|clock|text|span|disabled|span-disabled|attach|nothing EVENTS CPU[,CPU...]"
				" [BURST GAP_US]\n");
		return 2;
	}
	load.events = strtoull(argv[2], NULL, 10);
	load.burst = argc == 6 ? strtoull(argv[4], NULL, 10) : load.events;
	load.gap_us = argc == 6 ? (useconds_t)strtoul(argv[5], NULL, 10) : 0;
	for (char *word = strtok(argv[3], ","); word && threads < THREADS_MAX; word = strtok(NULL, ","))
		emitter[threads++].cpu = (unsigned)strtoul(word, NULL, 10);
	ns = threads && load.burst ? run_all(emitter, threads) : -1;
	if (ns < 0) {
		fprintf(stderr, "program_load: cannot run on these CPUs\n");
		return 1;
	}
	printf("{\"events\":%" PRIu64 ",\"ns_per_event\":%.2f,\"slowest_ns\":%" PRIu64 "}\n", load.events, ns, slowest_ns);
	return 0;
}
