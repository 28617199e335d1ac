/* changes_private: one change on its way, for changes*.c alone. */
#ifndef RINGTAIL_DAEMON_SERVE_CHANGES_PRIVATE_H
#define RINGTAIL_DAEMON_SERVE_CHANGES_PRIVATE_H

#include <sys/queue.h>

#include "daemon/serve/always_on.h"
#include "daemon/access/audit.h"
#include "daemon/access/audit_rate.h"
#include "daemon/serve/changes.h"

enum action {
	ACTION_CHANGE,		/* what is always on */
	ACTION_REGISTER,	/* a durable consumer: then it is subscribed to */
	ACTION_FORGET,		/* one that is given up */
	ACTION_CONFIG,		/* a new configuration: nobody waits for the answer */
};

/* Each step but those in force is one job of the disk thread. */
enum step {
	STEP_AUDIT,
	STEP_FORCE,
	STEP_KEEP,		/* the new state */
	STEP_FORCE_OLD,		/* back: the new state could not be kept */
	STEP_KEEP_OLD,		/* and perhaps it is there all the same */
	STEP_OUTCOME,		/* audit.log: what was allowed was not done */
};

struct change {
	struct disk_job job;
	TAILQ_ENTRY(change) link;
	struct changes *changes;
	struct session *session;	/* NULL: it has left */
	enum action action;
	enum step step;
	struct client_identity identity;
	char *who;			/* for people; also when the session has left */
	char *peer;
	char **enable, **disable;
	size_t enables, disables;
	char *consumer;			/* NULL: it is about probes */
	Ringtail__V1__Subscribe *subscribe;	/* of ACTION_REGISTER */
	struct error error;		/* why not; without a code: allowed so far */
	struct always_on *next;		/* what it comes to */
	struct config_words words;	/* of ACTION_CONFIG */
	char *filter;
	uint64_t realtime_ns;
	char *text;			/* for the disk: a line, or a file */
	struct audit_file *file;	/* where the line goes */
	int disk_error;
};

struct changes {
	struct changes_config config;
	struct config_words words;	/* the configuration's probes, as of the last reload */
	char *filter;
	uint64_t config_realtime_ns;
	bool started;			/* some configuration is in force */
	struct always_on *on;
	struct audit_file allowed, denied;	/* the disk thread's */
	struct audit_rate denials;	/* which of them are written */
	struct audit_rate consumers;	/* of who is no operator: registered or given up */
	struct event *tell;		/* how many of them were not, once that time is over */
	unsigned waiting;
	TAILQ_HEAD(, change) queue;	/* the first is on its way */
};

/* Its turn has come. */
void changes_begin(struct change *change);
void changes_free(struct change *change);

/* ---- What is denied (changes_denied.c) ---------------------------------------------------------- */

int changes_denied_init(struct changes *changes);
void changes_denied_fini(struct changes *changes);

/* Whether this one, which is denied, is written; else it is counted, and told of later. */
bool changes_denied_tell(struct changes *changes, const char *who);

#endif
