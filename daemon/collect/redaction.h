/*
 * redaction: what the rules of the option `redact` hide of the texts in a ring's records.
 *
 * In: rules, `PROBE FIELD PATTERN`, the probes of the catalog, and records. Out: the same record with
 * REDACTED_TEXT in place of each text that a rule matches. A drain does this before anything else
 * looks at the record, so filters, batches, meters, disks and clients all get what is left.
 *
 * PROBE is a glob of probes; the parts that it leaves out may be anything, so `openat` means the entry,
 * too. FIELD is a glob of field names. PATTERN is a glob, and the rest of the line. With the probe `*`, the
 * fields are also those of every thread: comm, exe and cgroup. A text that was cut is hidden if what
 * was cut off could make it match: what is not known to be harmless is not shown.
 *
 * The main thread makes one and adds probes to it; drain workers read it meanwhile.
 */
#ifndef RINGTAIL_DAEMON_COLLECT_REDACTION_H
#define RINGTAIL_DAEMON_COLLECT_REDACTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/ring/probe_table.h"
#include "daemon/ring/reader.h"
#include "daemon/ring/thread_table.h"
#include "kmod/uapi/ringtail.h"
#include "proto/ringtail.pb-c.h"
#include "query/error.h"

struct redaction;

/* A record after it: a text of one byte takes two words when it is hidden. */
struct redaction_record {
	uint64_t word[RT_RECORD_WORDS_MAX + 2 * PROBE_FIELDS_MAX];
};

/* Whether each is written as a rule. -EINVAL. */
int redaction_check(char *const *rule, unsigned rules, struct error *error);

/*
 * Takes no rule that could hide nothing: its probe or its field is not in the catalog, or the field has
 * no text. is_made: whether probes of such a glob are made when they are asked for, so that nobody knows
 * them yet. *out is NULL where there are no rules.
 */
int redaction_create(char *const *rule, unsigned rules, const Ringtail__V1__Catalog *catalog,
		     bool (*is_made)(void *context, const char *glob), void *context,
		     struct redaction **out, struct error *error);
void redaction_destroy(struct redaction *redaction);	/* NULL is safe */

/* One probe more, before the kernel can write a record of it. -ENOMEM: its records must not be read. */
int redaction_add(struct redaction *redaction, const Ringtail__V1__Probe *probe);

unsigned redaction_rules(const struct redaction *redaction);	/* NULL: none */

/* Whether a rule may hide the name of a thread. */
bool redaction_hides_comm(const struct redaction *redaction);

/* Makes *item, an event, a record in *to if a rule hides something of it. */
void redaction_event(const struct redaction *redaction, struct ring_item *item,
		     const struct probe_info *info, struct redaction_record *to);

/* Hides the name of a thread. */
void redaction_comm(const struct redaction *redaction, char comm[RT_COMM_BYTES]);

/* Whether a thread's text is to be hidden; of several, one a line, any. A thread_text_judge. */
bool redaction_hides_text(const void *redaction, enum thread_text kind, const char *text,
			  size_t bytes);

#endif
