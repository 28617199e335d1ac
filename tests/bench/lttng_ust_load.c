/*
 * lttng_ust_load: a known number of LTTng-UST events, for measuring LTTng's collector.
 *
 *	lttng_ust_load EVENTS CPU [BURST GAP_US [text]]
 *
 * Runs on one CPU and prints one JSON line: events, and ns per event as the emitter sees it. With
 * BURST it pauses GAP_US after that many events, so that the buffers are drained as fast as they
 * fill and none is discarded; the pauses are not in the time. With `text`, an event has one of 64 bytes. Needs -llttng-ust -ldl.
 */
#include <inttypes.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#define LTTNG_UST_TRACEPOINT_DEFINE
#include "tests/bench/lttng_ust_call.h"
#include "tests/bench/text_64.h"

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static uint64_t emit(uint64_t first, uint64_t count)
{
	uint64_t start_ns = now_ns();

	for (uint64_t i = first; i < first + count; i++)
		lttng_ust_tracepoint(bench, call, (long)(i & 7), (long)i, 0, i & 255);
	return now_ns() - start_ns;
}

static uint64_t emit_text(uint64_t first, uint64_t count)
{
	uint64_t start_ns = now_ns();

	for (uint64_t i = first; i < first + count; i++)
		lttng_ust_tracepoint(bench, text, text_64);
	return now_ns() - start_ns;
}

int main(int argc, char **argv)
{
	uint64_t events, burst, busy_ns = 0;
	useconds_t gap_us;
	cpu_set_t cpu;

	if (argc != 3 && argc != 5 && argc != 6) {
		fprintf(stderr, "usage: lttng_ust_load EVENTS CPU [BURST GAP_US [text]]\n");
		return 2;
	}
	events = strtoull(argv[1], NULL, 10);
	burst = argc >= 5 ? strtoull(argv[3], NULL, 10) : events;
	gap_us = argc >= 5 ? (useconds_t)strtoul(argv[4], NULL, 10) : 0;
	CPU_ZERO(&cpu);
	CPU_SET(strtoul(argv[2], NULL, 10) % CPU_SETSIZE, &cpu);
	if (sched_setaffinity(0, sizeof(cpu), &cpu) || !burst) {
		fprintf(stderr, "lttng_ust_load: cannot run on CPU %s\n", argv[2]);
		return 1;
	}
	for (uint64_t done = 0; done < events; done += burst) {
		uint64_t count = events - done < burst ? events - done : burst;

		busy_ns += argc == 6 ? emit_text(done, count) : emit(done, count);
		if (gap_us)
			usleep(gap_us);
	}
	printf("{\"events\":%" PRIu64 ",\"ns_per_event\":%.1f}\n", events,
	       events ? (double)busy_ns / (double)events : 0);
	return 0;
}
