/*
 * program_load: a known number of events of ringtail-probe.h, as lttng_ust_load makes of LTTng-UST.
 *
 *	program_load words|text|disabled EVENTS CPU [BURST GAP_US]
 *
 * Runs on one CPU and prints one JSON line: events, and ns per event as the emitter sees it. With BURST it pauses
 * GAP_US after that many events, so that the ring is drained and none is lost; the pauses are not in the time.
 */
#include "proto/ringtail-probe.h"

#include <inttypes.h>
#include <sched.h>
#include <stdio.h>

static const char text[] = "sixty-four bytes of text, as many as a path or a request may have";

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
		RT_PROBE(bench, text, "%s", text);
}

/* Nobody asks for that one. */
static void emit_disabled(uint64_t first, uint64_t count)
{
	for (uint64_t i = first; i < first + count; i++) {
		RT_PROBE(bench, disabled, "%ld %ld %ld %lu", (long)(i & 7), (long)i, 0l, (unsigned long)(i & 255));
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
	{"words", emit_words}, {"text", emit_text}, {"disabled", emit_disabled}, {"nothing", emit_nothing},
};

int main(int argc, char **argv)
{
	void (*emit)(uint64_t first, uint64_t count) = NULL;
	uint64_t events, burst, busy_ns = 0;
	useconds_t gap_us;
	cpu_set_t cpu;

	for (size_t i = 0; argc > 1 && i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (strcmp(argv[1], kinds[i].name) == 0)
			emit = kinds[i].emit;
	if (!emit || (argc != 4 && argc != 6)) {
		fprintf(stderr, "usage: program_load words|text|disabled|nothing EVENTS CPU [BURST GAP_US]\n");
		return 2;
	}
	events = strtoull(argv[2], NULL, 10);
	burst = argc == 6 ? strtoull(argv[4], NULL, 10) : events;
	gap_us = argc == 6 ? (useconds_t)strtoul(argv[5], NULL, 10) : 0;
	CPU_ZERO(&cpu);
	CPU_SET(strtoul(argv[3], NULL, 10) % CPU_SETSIZE, &cpu);
	if (sched_setaffinity(0, sizeof(cpu), &cpu) || !burst) {
		fprintf(stderr, "program_load: cannot run on CPU %s\n", argv[3]);
		return 1;
	}
	for (uint64_t done = 0; done < events; done += burst) {
		uint64_t count = events - done < burst ? events - done : burst, began_ns = now_ns();

		emit(done, count);
		busy_ns += now_ns() - began_ns;
		if (gap_us)
			usleep(gap_us);
	}
	printf("{\"events\":%" PRIu64 ",\"ns_per_event\":%.2f}\n", events,
	       events ? (double)busy_ns / (double)events : 0);
	return 0;
}
