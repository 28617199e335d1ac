/*
 * harness: the BPF source, its rings mapped as the engine maps them, and every record checked on its
 * way to a test: whole, in order, numbered without holes, and of a thread that was introduced.
 */
#ifndef RINGTAIL_TESTS_BPF_HARNESS_H
#define RINGTAIL_TESTS_BPF_HARNESS_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "daemon/ring/reader.h"
#include "daemon/source/source.h"

#define HARNESS_CPUS_MAX	64
#define HARNESS_TIDS_MAX	(1u << 22)	/* pid_max can be no more */

#define HARNESS_TEXTS_MAX	4096

struct harness_text {
	uint64_t id;
	char text[RT_TEXT_BYTES_MAX + 1];
};

struct harness_ring {
	const struct rt_ring_producer *producer;
	struct rt_ring_consumer *consumer;
	size_t map_bytes;
	struct ring_reader *reader;
	struct ring_handle source;
	uint8_t *known;			/* bit per tid: introduced on this ring and not gone */
	uint64_t seq;			/* of the next item */
	uint64_t time_ns;		/* of the last record */
};

struct harness {
	struct source *source;
	unsigned rings;
	struct harness_ring ring[HARNESS_CPUS_MAX];
	uint64_t records;		/* drained so far, meta included */
	uint64_t lost;			/* drained so far */
	struct rt_thread last_thread;	/* as introduced last */
	uint32_t last_thread_tid;
	uint64_t texts;			/* told so far */
	struct harness_text text[HARNESS_TEXTS_MAX];
	/* Sees every introduction; NULL: nobody asks. */
	void (*thread)(struct harness *harness, uint32_t tid, const struct rt_thread *thread);
	void *context;			/* its */
	/* Sees every loss of a known probe, which is none of `lost`; NULL: nobody asks. */
	void (*loss)(struct harness *harness, const struct rt_loss *loss);
};

typedef void (*harness_event)(void *context, uint32_t cpu, const struct ring_item *item);

/* Exits with 77 and the reason where BPF may not; the harness is one for the whole program. */
void harness_open(struct harness *harness, uint64_t ring_bytes);
void harness_open_excluding(struct harness *harness, uint64_t ring_bytes, uint32_t pid);
/* With what opens files, which is borrowed. */
void harness_open_finding(struct harness *harness, uint64_t ring_bytes, struct finder *finder);
void harness_close(struct harness *harness);

/* Add a probe, and clauses of which one must hold. */
void harness_want(struct source_request *request, uint32_t probe);
void harness_want_pid(struct source_request *request, uint32_t pid);
void harness_want_comm(struct source_request *request, const char *comm);
void harness_configure(struct harness *harness, const struct source_request *request);

/* Takes everything out of every ring. */
void harness_drain(struct harness *harness, harness_event event, void *context);

/* What an id stands for, as told last on any ring; NULL: nothing. */
const char *harness_text(const struct harness *harness, uint64_t id);

/* Drains and drops what is there, asking for nothing: a test's clean start. */
void harness_reset(struct harness *harness);

/* Of all rings: the counter at `offset` of struct rt_ring_producer. */
uint64_t harness_counter(const struct harness *harness, size_t offset);

/* The attachment of that kind (and argument) behind `fixed` payload words; NULL: none. */
const struct rt_attachment *harness_attachment(const struct ring_item *item, unsigned fixed,
					       enum rt_attachment_kind kind, unsigned arg);

void harness_pin(unsigned cpu);

/* How often to do something that costs time: that often, or RINGTAIL_FEWER times less: on an emulated processor, and
 * under ASan. */
unsigned harness_fewer(unsigned times);

#endif
