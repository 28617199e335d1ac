/*
 * oracle: holds what a client is given to what happened.
 *
 * For each client and ring, every attempt from where its stream begins is told of exactly once, in
 * order: as its event, as a loss of that place, as skipped because it was not asked for, or in a
 * gap that names it. Anything else ends the simulation.
 */
#ifndef RINGTAIL_TESTS_SIM_ORACLE_H
#define RINGTAIL_TESTS_SIM_ORACLE_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/ringtail.pb-c.h"
#include "tests/sim/sim_source.h"

#define ORACLE_SPECS 6u

/* What may be asked for, as the daemon reads it and as the oracle does. */
struct oracle_spec {
	const char *probe[3];
	unsigned probes;
	const char *filter;
	bool (*passes)(const struct attempt *attempt);
};

extern const struct oracle_spec oracle_specs[ORACLE_SPECS];

/* Where a client has come to in a run of the rings. */
struct oracle_cursor {
	bool known;
	uint64_t epoch;
	bool knows[SOURCE_RINGS_MAX];	/* of that ring: */
	uint64_t seq[SOURCE_RINGS_MAX];
	uint64_t left_ns;		/* it was last connected then */
	unsigned bye_run;		/* the run of the daemon whose Bye it ended with; 0: none's */
};

/* One connection's stream. */
struct oracle_span {
	const char *client;
	const struct oracle_spec *spec;
	bool healthy;			/* it must lose nothing by being slow */
	bool durable;			/* it may go on off the disk, in an earlier epoch */
	bool consumer;			/* what it has not acknowledged is kept for it */
	bool strings, context;		/* it asked for them */
	bool live;			/* from Subscribed until it ends */
	bool exact;			/* it is back where the run before handed over: nothing may miss */
	uint64_t asked_ns;		/* it wants all since then; 0: from where it begins */
	uint64_t live_ns;		/* since then the kernel records what it wants */
	bool late, owes_gap, vague;		/* it has not all of that, and is to be told so; it was */
	const struct loader *loader;
	unsigned daemon;		/* the run of the daemon that serves it */
	struct oracle_cursor cursor, since;
	bool has_run, told;		/* it has something of that run of the rings; what came after it */
	bool told_restart;		/* was not recorded, and it was told so; for that reason */
	uint64_t run;
	uint64_t watermark_ns;
	uint64_t events, lost, gaps;
};

/* Before the first span. */
void oracle_begin(const Ringtail__V1__Catalog *catalog);

/* It comes back from there. */
void oracle_come_from(struct oracle_span *span, const struct oracle_cursor *place);

/* The daemon's answer to a Subscribe, in which `since` was asked for. */
void oracle_subscribed(struct oracle_span *span, const struct loader *loader,
		       const Ringtail__V1__Subscribed *message, const struct oracle_cursor *since);
/* The rest of an epoch will not come: where its daemon ended well, there is none. */
void oracle_passed(const struct oracle_span *span, const struct oracle_cursor *cursor);

void oracle_batch(struct oracle_span *span, const uint8_t *message, uint32_t bytes);
void oracle_gap(struct oracle_span *span, const Ringtail__V1__Gap *message);
void oracle_watermark(struct oracle_span *span, const Ringtail__V1__Watermark *message);
void oracle_bye(struct oracle_span *span, const Ringtail__V1__Bye *message);

/* A span that is live wants all that is its; spans are listed while they may be. */
void oracle_watch(struct oracle_span *span);
void oracle_unwatch(struct oracle_span *span);
void oracle_unrecorded(const struct loader *loader, const struct unrecorded *unrecorded);

/* ---- Runs of the daemon on the same rings ------------------------------------------------------ */

/* What live spans want is kept for the next run; from when it begins, until then. */
void oracle_owe(const struct loader *loader);
void oracle_adopted(const struct loader *loader, uint64_t until_ns);

/* It is kept no longer than until then: a new configuration says so. */
void oracle_keeps_until(const struct loader *loader, uint64_t until_ns);

/* The span says Bye: if nobody else has the same subscription, it is kept for nobody. */
void oracle_says_bye(const struct oracle_span *span);

/* There is no next run for these rings. */
void oracle_gave_up(void);

/* No span is live any more. */
void oracle_run_ended(const struct loader *loader);

/* The span's Subscribed was that run's. */
void oracle_expect(struct oracle_span *span, unsigned run);

/* No ledger has a residual. `quiet`: and nothing is in flight; the rings have it all. */
void oracle_stat(const struct loader *loader, const Ringtail__V1__Stat *message, bool quiet,
		 uint64_t queue_bytes_max);

#endif
