/*
 * trigger_rule: one `on = ...` of the configuration: when what happens, what is to be done.
 *
 *	rule:		[ NAME ":" ] condition [ "at" COUNT "/s" ] action { "," action } [ "every" TIME ]
 *	condition:	"'" SPEC { "," SPEC } [ FILTER ] "'" | "signal" SIGNAL | "oom"
 *	action:		"log" | "dump" TIME | "enable" SPEC TIME | "call" URL
 *
 *	slow: 'syscall:fsync:call duration > 50ms' dump 30s, log every 5min
 *
 * In: the text, and the catalog. Out: a struct whose probes and filter a subscription takes as they are, or
 * what is wrong with the text, with the column. Pure; any thread.
 */
#ifndef RINGTAIL_DAEMON_TRIGGER_RULE_H
#define RINGTAIL_DAEMON_TRIGGER_RULE_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/base/limits.h"
#include "daemon/config/config.h"
#include "proto/ringtail.pb-c.h"
#include "query/error.h"

#define TRIGGER_NAME_BYTES	(TRIGGER_NAME_BYTES_MAX + 1)

struct trigger_rule {
	char name[TRIGGER_NAME_BYTES];	/* as it is written, or "trigger-1" by its place */
	char *text;			/* the whole of it, */
	char *shown;			/* and as others may see it: of a URL, what is behind its host may be a secret */
	char *glob[TRIGGER_PROBES_MAX];
	unsigned globs;
	char *filter;			/* "": whatever the probes record */
	uint64_t matches_per_s;		/* so many make it fire; 0: each one does */
	uint64_t every_ns;		/* it fires once in so long */

	/* What is done, beside a line in the log and one in the audit log. 0, NULL: not that. */
	uint64_t dump_ns;		/* what was recorded always, so far back */
	char *enable;			/* this is recorded into a dump of its own, */
	uint64_t enable_ns;		/* so long */
	char *url;			/* this is told */
};

/*
 * number: of the rules, from 1. With a catalog, each name of the rule must be in it; NULL: none is looked
 * up. -EINVAL, -ENOENT, -ENOMEM with *error: *rule is empty then.
 */
int trigger_rule_parse(const char *text, unsigned number, const Ringtail__V1__Catalog *catalog,
		       struct trigger_rule *rule, struct error *error);
void trigger_rule_fini(struct trigger_rule *rule);

/* Whether any of them calls a URL. */
bool trigger_rules_call(const struct config_words *rules);

/* All rules of a configuration, and that no two have one name. */
int trigger_rules_check(const struct config_words *rules, const Ringtail__V1__Catalog *catalog,
			struct error *error);

#endif
