/*
 * programs: programs that include ringtail-probe.h.
 *
 * In: their connections, by a unix socket; what is recorded, from the recorder. Out: their probes, for the catalog;
 * memory, for each program; and one more ring, which has the events of all of them and is drained as the rings of
 * the kernel are. Main thread, but for programs_pull(): that is the drain worker's that owns the ring.
 *
 *	program ── hello, probes ──► programs (table) ──► join: the catalog
 *	   ▲ └──── records ──► segment ──► inlet (reader) ──► ring ──► drain
 *	   └────────── segment, enabled words ────┘
 */
#ifndef RINGTAIL_DAEMON_PROGRAMS_PROGRAMS_H
#define RINGTAIL_DAEMON_PROGRAMS_PROGRAMS_H

#include <event2/event.h>
#include <stdbool.h>
#include <stdint.h>

#include "daemon/programs/inlet.h"
#include "daemon/ring/handle.h"
#include "daemon/source/source.h"
#include "kmod/uapi/ringtail.h"
#include "proto/ringtail.pb-c.h"
#include "query/error.h"
#include "query/probe_filter.h"

struct programs;

struct programs_config {
	uint32_t cpu;			/* the number of the ring: how many CPUs there are */
	uint64_t ring_bytes;		/* of each program, for each CPU: taken as it is written */
	bool counter;			/* counter_is_clock(): programs stamp events with the processor's counter */

	/* A new probe, with its id, which joins the catalog: takes it over. False: it cannot. */
	bool (*join)(void *context, Ringtail__V1__Probe *probe);

	/* Whether somebody waited for that one, which has joined. NULL: nobody waits. */
	bool (*is_awaited)(void *context, const Ringtail__V1__Probe *probe);

	/* Whether others than programs have that name: a program cannot pretend to be the kernel. */
	bool (*is_taken)(void *context, const char *provider);
	void *context;
};

/* Before files are out of reach. */
int programs_create(const struct programs_config *config, struct programs **programs, struct error *error);

/* After the workers ended. NULL is safe. */
void programs_destroy(struct programs *programs);

/* The loop's, before the first program. Their tables take turns; without a turnstile each goes at once. */
struct turnstile;
void programs_start(struct programs *programs, struct event_base *base, struct turnstile *turnstile);

/* A program has connected: a listener_accepted. */
struct address;
void programs_accept(void *programs, int fd, const struct address *address, const char *peer);

/*
 * What is recorded from now on. A process of which no clause lets an event pass has its probes disabled. `narrow`, which
 * is called before this returns, adds what the filters say of a probe, of which a program writes so many fields itself, to
 * `filter`; NULL: nothing.
 */
typedef void programs_narrow(void *context, uint16_t id, uint32_t words, struct probe_filter *filter);
void programs_configure(struct programs *programs, const struct source_request *wanted, programs_narrow *narrow,
			void *context);

/* Each probe of each program that is connected now, by its id. */
struct programs_process {
	uint32_t pid, uid;
	char comm[RT_PROGRAM_COMM_BYTES];
	bool enabled;
};
typedef void programs_each_probe(void *context, uint16_t id, const struct programs_process *process);
void programs_each(const struct programs *programs, programs_each_probe *each, void *context);

/* Whether that is a probe of programs which that user runs, and may look into. */
bool programs_is_own(const struct programs *programs, uint32_t uid, uint32_t id);

/* Where the last program that brought that probe has it, "file.c:12"; borrowed. NULL: it is no program's. */
const char *programs_source(const struct programs *programs, uint32_t id);

void programs_describe(const struct programs *programs, struct ring_handle *ring);

/* program_inlet_pull(). */
void programs_pull(void *programs, uint64_t until_ns, struct inlet_pulled *pulled);

#endif
