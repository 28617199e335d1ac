/*
 * consumers: the durable consumers that are registered: what each wants, and how far it has
 * acknowledged. Kept in state-dir/consumers, which is replaced as a whole by the disk thread.
 *
 *	ringtail consumers 1
 *	consumer NAME
 *	owner user:1000
 *	flags 0
 *	spool 0123456789abcdef
 *	acked 1760000000000000000
 *	account 4711 0
 *	filter pid%20==%2012
 *	probe syscall:openat:call
 *	at 00112233445566778899aabbccddeeff 1760000000000000000 0:4711 1:99
 *	end
 *
 * Blanks, control bytes and '%' in texts are written as %XX. The spool is where its events are kept: of
 * the same probes there is one, whatever they were called by who asked for them first. The owner is the
 * identity that registered it; a file that names none is an operator's. Main thread.
 */
#ifndef RINGTAIL_DAEMON_STREAM_CONSUMERS_H
#define RINGTAIL_DAEMON_STREAM_CONSUMERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "daemon/disk/thread.h"
#include "query/error.h"
#include "daemon/host/identity.h"
#include "daemon/base/limits.h"
#include "daemon/stream/subscription.h"
#include "proto/cursor.h"
#include "proto/segment.h"

/* Names of exporters' consumers begin so, and no client's does. */
#define CONSUMER_EXPORT_PREFIX "export-"

/*
 * The relay's that this daemon dials, whichever of them it is: no other client's. This daemon registers it itself,
 * before any relay is there.
 */
#define CONSUMER_RELAY "relay"

struct subscriber;

/* Whether it is on disk, with the place that it began at. */
enum consumer_record {
	CONSUMER_UNSAVED,
	CONSUMER_SAVING,		/* so it will be, once the save that is under way has ended */
	CONSUMER_SAVED,			/* and stays so */
};

/*
 * Of the relay's consumer, in attempts, since it was registered: stored = acked + lost + what is on disk behind its
 * place. acked and lost are kept over restarts; what is stored is known from these and from the disk then.
 */
struct consumer_account {
	uint64_t stored;		/* on disk, and not before its place when it was registered */
	uint64_t acked;			/* of these, acknowledged */
	uint64_t lost;			/* of these, gone from the disk before they were */
};

struct consumer {
	TAILQ_ENTRY(consumer) link;
	char name[CONSUMER_NAME_BYTES_MAX + 1];
	char owner[IDENTITY_TEXT_BYTES];	/* "": operators alone */
	char **glob;
	size_t globs;
	char *filter;
	uint32_t flags;
	char spool[SPOOL_NAME_BYTES];	/* "": none yet */
	uint64_t acked_realtime_ns;	/* 0: never */
	struct cursor *place;		/* what is before has been acknowledged; NULL: not known yet */
	struct consumer_account account;
	struct cursor *began;		/* its place when this daemon registered it; NULL: an earlier one did */

	bool earlier;			/* an earlier run of the daemon has registered it */
	enum consumer_record record;

	/* durable's */
	struct subscription *subscription;	/* NULL: not made yet */
	struct subscriber *subscriber;	/* who uses it; NULL: nobody */
	bool unrecorded;		/* an earlier run of the daemon recorded nothing for it */
	/* How far it was sent what, of each run of the rings, since this daemon started. */
	struct cursor *sent[CONSUMER_RUNS_MAX];
	unsigned runs;
};

TAILQ_HEAD(consumer_list, consumer);

struct consumers;

/* Reads what there is; blocks for that. -EBADMSG: the file is not what was written. */
int consumers_create(struct disk *disk, struct disk_thread *thread, struct consumers **consumers,
		     struct error *error);

/* What was to be saved has been given to the disk thread. NULL is safe. */
void consumers_destroy(struct consumers *consumers);

struct consumer_list *consumers_list(struct consumers *consumers);
struct consumer *consumers_find(struct consumers *consumers, const char *name);

bool consumer_name_is_export(const char *name);

/* One that this daemon registers itself: an exporter's, or the relay's. */
bool consumer_name_is_own(const char *name);

/*
 * How many clients have registered, and how many of them that one. `owner` is of client_identity.text.
 */
unsigned consumers_count(const struct consumers *consumers, const char *owner, unsigned *its_own);

/* Whether that client may subscribe, acknowledge and give up as this consumer: its owner, or operators. */
bool consumer_is_open_to(const struct consumer *consumer, const struct client_identity *identity);

/* -EPERM with *error: that is another's. */
int consumer_refuse(const char *name, struct error *error);

/* Copies. -EINVAL: not a name; -ENOSPC: too many; -ENOMEM. */
int consumers_add(struct consumers *consumers, const char *name, const char *owner,
		  const struct subscription_request *request, struct consumer **consumer,
		  struct error *error);

/* It asks for this from now on, and its events are nowhere yet; its place stays. -ENOMEM. */
int consumers_change(struct consumers *consumers, struct consumer *consumer,
		     const struct subscription_request *request, struct error *error);
void consumers_remove(struct consumers *consumers, struct consumer *consumer);

/* Whether it asks for the same; else *error names what differs. */
int consumers_compare(const struct consumer *consumer, const struct subscription_request *request,
		      struct error *error);

/* Saves, soon: writes that come while one is on its way become one. */
void consumers_save(struct consumers *consumers);

/*
 * Whether all that is known has been given to the disk thread. What depends on that, and is given to it
 * afterwards, is done afterwards.
 */
bool consumers_are_given(const struct consumers *consumers);

/* saved() is called after each of them, with 0 or -errno. */
void consumers_set_saved(struct consumers *consumers, void (*saved)(void *context, int err),
			 void *context);

/*
 * It was sent all of that CPU, in that run, up to there. Of more than CONSUMER_RUNS_MAX runs, and where
 * there is no memory, it is forgotten: then it is sent again before it can be acknowledged.
 */
void consumer_note_sent(struct consumer *consumer, const struct run *run, uint32_t cpu,
			uint64_t seq);

/* How far it was sent what, in some run of the daemon: what it acknowledged was. 0: nothing. */
uint64_t consumer_sent_upto(const struct consumer *consumer, const struct run *run, uint32_t cpu);

/*
 * It has acknowledged what is before these places. Places of an earlier run than its own say nothing,
 * and none goes back. -ENOMEM.
 */
int consumer_acknowledge(struct consumer *consumer, const struct cursor *upto,
			 uint64_t realtime_ns);

/* ---- The text: for the above, tests and a fuzzer ------------------------------------------------ */

/* *text is malloc'ed. -ENOMEM. */
int consumers_print(const struct consumer_list *list, char **text, size_t *bytes);

/* Adds what the text says; it ends with a NUL that `bytes` does not count. -EBADMSG with the line. */
int consumers_parse(char *text, size_t bytes, struct consumer_list *list, unsigned *count,
		    struct error *error);

void consumer_free(struct consumer *consumer);

#endif
