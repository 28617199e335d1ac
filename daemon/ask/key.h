/*
 * key: what events of a question have in common, as labels: of each name of `by`, the text of the event's part with
 * that name. In: a decoded event. Out: UTF-8 without control characters, each text cut at ASK_LABEL_BYTES_MAX. Pure;
 * any thread.
 */
#ifndef RINGTAIL_DAEMON_ASK_KEY_H
#define RINGTAIL_DAEMON_ASK_KEY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/base/limits.h"
#include "proto/batch_decode.h"
#include "proto/ringtail.pb-c.h"
#include "query/nearest.h"
#include "query/probe_set.h"

#define ASK_KEY_BYTES	(ASK_BY_MAX * (ASK_LABEL_BYTES_MAX + 1))

struct ask_key {
	size_t bytes;			/* of the texts, each with a NUL behind it */
	char text[ASK_KEY_BYTES];
};

struct ask_field {
	bool numeric;			/* of an event that has it: a number that can be added up */
	uint32_t flags;			/* RT_FLAG_* that it takes */
};

/* Whether it can be a label, and means nothing else. */
bool ask_field_name_fits(const char *name);

/* False: neither does every event have it, nor one of these probes. */
bool ask_field_find(const char *name, const Ringtail__V1__Catalog *catalog, const struct probe_set *probes,
		    struct ask_field *field);

/* All that could have been meant. */
void ask_key_offer(struct nearest *nearest, const Ringtail__V1__Catalog *catalog, const struct probe_set *probes);

/* Appends the text of that name. An event that has no such part has "". */
void ask_key_add(struct ask_key *key, const char *name, const Ringtail__V1__Probe *probe, uint32_t cpu,
		 const struct batch_item *item);

/* The number of that name; false: the event has none, or it is below 0. */
bool ask_key_number(const char *name, const Ringtail__V1__Probe *probe, const struct batch_item *item,
		    uint64_t *number);

/* Whether it is a call that failed; its errno. 0: it is none. */
int ask_key_errno(const Ringtail__V1__Probe *probe, const struct batch_item *item);

#endif
