/*
 * triggers: the rules of the configuration (`on`) at work: each has a subscription of its own, so that the
 * kernel records what it asks for, and the workers' filter chooses; what is left is counted here, and nothing
 * of it is kept.
 *
 *	QUIET --a match, or so many in a second--> FIRED --`every` is over--> QUIET
 *
 * When a rule fires, the log gets a line with the event, audit.log gets another, the rule's dumps begin, and its URL is
 * called. While it
 * is FIRED, further matches are counted; the log reports their number when that time is over. Main thread.
 */
#ifndef RINGTAIL_DAEMON_TRIGGER_TRIGGERS_H
#define RINGTAIL_DAEMON_TRIGGER_TRIGGERS_H

#include "daemon/access/audit.h"
#include "daemon/config/config.h"
#include "daemon/metrics/stat.h"
#include "daemon/stream/fanout.h"
#include "daemon/trigger/dump.h"

struct triggers;

struct triggers_config {
	struct event_base *base;
	struct fanout *fanout;
	struct dumps *dumps;		/* NULL: nothing can be written */
	struct disk_thread *disk_thread;	/* the same */
	struct audit_file *audit;	/* audit.log, as the disk thread knows it */
	struct frame_codec *codec;
	const Ringtail__V1__Catalog *catalog;
	struct run run;
	struct frame_ref *(*hello)(void *context);
	void *hello_context;
	bool may_connect;		/* a sandbox will not forbid it */
};

/* NULL: out of memory. What it is given is borrowed for its life. */
struct triggers *triggers_create(const struct triggers_config *config);

/* Before the fanout and the dumps. What is being written ends with what it has. NULL is safe. */
void triggers_destroy(struct triggers *triggers);

/*
 * triggers_check() says whether these rules can be put in force, and has their probes made as far as that is possible.
 * triggers_set() puts them in force; a rule that has not changed keeps its state.
 */
int triggers_check(const struct triggers *triggers, const struct config *config, struct error *error);
int triggers_set(struct triggers *triggers, const struct config *config, struct error *error);

/* ---- How it stands ----------------------------------------------------------------------------- */

/* NULL has none. */
unsigned triggers_count(const struct triggers *triggers);
void triggers_stat(const struct triggers *triggers, unsigned i, struct stat_trigger *stat);

#endif
