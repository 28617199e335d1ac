/*
 * trace_id: the ids under which a record is known to tracing back ends, as pure functions of where
 * the record is: {boot_id, epoch, cpu, seq} determines its trace, so that an exemplar and an exported span
 * have the same id without any message between them.
 *
 * SipHash-2-4 with 128 bits of output (Aumasson and Bernstein, 2012), keyed by boot_id. No state;
 * any thread.
 */
#ifndef RINGTAIL_DAEMON_BASE_TRACE_ID_H
#define RINGTAIL_DAEMON_BASE_TRACE_ID_H

#include <stdint.h>

#define TRACE_ID_BYTES		16
#define TRACE_ID_TEXT_BYTES	33	/* in hex, with its end */
#define SPAN_ID_BYTES		8

/* A record's place in one run of the rings; cpu as the wire says it. */
struct trace_place {
	const uint8_t *boot_id;		/* 16 bytes */
	uint64_t epoch;
	uint32_t cpu;
	uint64_t seq;
};

/* The trace that begins at this record. Never all zeros, which would mean that there is none. */
void trace_id_make(const struct trace_place *place, uint8_t id[TRACE_ID_BYTES]);

/* The span of this record, in whatever trace. Never all zeros. */
void trace_id_make_span(const struct trace_place *place, uint8_t id[SPAN_ID_BYTES]);

/* Lower-case hex, as exemplars and logs carry it. */
void trace_id_text(const uint8_t id[TRACE_ID_BYTES], char text[TRACE_ID_TEXT_BYTES]);

#endif
