/* changes: see changes.h. */
#include "daemon/changes.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "daemon/always_on.h"
#include "daemon/audit.h"
#include "daemon/clock.h"
#include "daemon/counters.h"
#include "daemon/disk_file.h"
#include "daemon/limits.h"
#include "daemon/log.h"
#include "daemon/probe_set.h"

#define STATE_FILE_NEW ALWAYS_ON_FILE ".new"
#define STATE_BYTES_MAX (1u << 20)

/* Each step is one job of the disk thread. */
enum step {
	STEP_AUDIT,
	STEP_KEEP,		/* the new state */
	STEP_KEEP_OLD,		/* again: the new one could not be put in force */
};

struct change {
	struct disk_job job;
	TAILQ_ENTRY(change) link;
	struct changes *changes;
	struct session *session;	/* NULL: it has left */
	enum step step;
	char *who;			/* for people; also when the session has left */
	char *peer;
	enum role role;
	char **enable, **disable;
	size_t enables, disables;
	char *consumer;			/* to be given up; NULL: it is about probes */
	struct error error;		/* why not; without a code: allowed so far */
	struct always_on *next;		/* what it comes to */
	char *text;			/* for the disk: a line, or a file */
	int disk_error;
};

struct changes {
	struct changes_config config;
	struct config_words words;	/* the configuration's probes, as of the last reload */
	char *filter;
	uint64_t config_realtime_ns;
	struct always_on *on;
	struct audit_file audit;	/* the disk thread's */
	unsigned waiting;
	TAILQ_HEAD(, change) queue;	/* the first is on its way */
};

static void begin(struct change *change);

/* ---- Life ----------------------------------------------------------------------------------------- */

int changes_create(const struct changes_config *config, struct changes **out, struct error *error)
{
	struct changes *changes = calloc(1, sizeof(*changes));

	if (changes)
		changes->on = always_on_create();
	if (!changes || !changes->on) {
		free(changes);
		return error_set(error, ENOMEM, "out-of-memory", "out of memory");
	}
	changes->config = *config;
	TAILQ_INIT(&changes->queue);
	*out = changes;
	return 0;
}

static void free_words(char **word, size_t n)
{
	for (size_t i = 0; i < n; i++)
		free(word[i]);
	free(word);
}

static void free_change(struct change *change)
{
	free_words(change->enable, change->enables);
	free_words(change->disable, change->disables);
	always_on_destroy(change->next);
	free(change->consumer);
	free(change->text);
	free(change->who);
	free(change->peer);
	free(change);
}

static void free_config(struct config_words *words, char *filter)
{
	for (unsigned i = 0; i < words->count; i++)
		free(words->word[i]);
	free(filter);
}

void changes_destroy(struct changes *changes)
{
	struct change *change;

	if (!changes)
		return;
	while ((change = TAILQ_FIRST(&changes->queue))) {
		TAILQ_REMOVE(&changes->queue, change, link);
		free_change(change);
	}
	always_on_destroy(changes->on);
	free_config(&changes->words, changes->filter);
	free(changes);
}

int changes_load(struct changes *changes, struct disk *disk, struct error *error)
{
	size_t bytes;
	char *text;
	int err = disk_file_read(disk, ALWAYS_ON_FILE, STATE_BYTES_MAX, &text, &bytes), bad;

	if (err == -ENOENT)
		return 0;
	if (err)
		return error_set(error, -err, "state-probes", "cannot read %s in state-dir: %s",
				 ALWAYS_ON_FILE, strerror(-err));
	bad = always_on_parse(changes->on, text, bytes);
	free(text);
	if (bad < 0)
		return error_set(error, ENOMEM, "out-of-memory", "out of memory");
	if (bad)
		log_error("state-probes", "%d lines of %s in state-dir are damaged, and left out:"
			  " see `tracectl probes`", bad, ALWAYS_ON_FILE);
	return 0;
}

/* ---- In force --------------------------------------------------------------------------------------- */

/* Tells fanout: the configuration's words and `on` together. */
static int put_in_force(struct changes *changes, const struct config_words *words,
			const char *filter, const struct always_on *on, struct error *error)
{
	struct always_on_probe list[2 * SUBSCRIBE_PROBES_MAX];
	const char *glob[2 * SUBSCRIBE_PROBES_MAX];
	struct subscription_request request = {.glob = glob, .filter = filter};
	size_t n = always_on_list(on, words, 0, list);

	for (size_t i = 0; i < n; i++) {
		struct probe_set probes = {0};
		struct error unknown = {0};

		if (strcmp(list[i].by, "config") == 0 ||
		    probe_set_add_glob(&probes, list[i].spec, changes->config.catalog, &unknown) == 0)
			glob[request.globs++] = list[i].spec;
		else
			log_warn("always-on-unknown", "%s, which %s enabled, is left out: %s",
				 list[i].spec, list[i].by, unknown.what);
	}
	return fanout_set_permanent(changes->config.fanout, request.globs ? &request : NULL, error);
}

int changes_set_config(struct changes *changes, const struct config *config, struct error *error)
{
	struct config_words words = {0};
	char *filter = NULL;
	int err = 0;

	for (; words.count < config->probe.count && !err; words.count += !err) {
		words.word[words.count] = strdup(config->probe.word[words.count]);
		err = words.word[words.count] ? 0 : -ENOMEM;
	}
	if (!err && config->filter && !(filter = strdup(config->filter)))
		err = -ENOMEM;
	if (err)
		error_set(error, ENOMEM, "out-of-memory", "out of memory");
	else
		err = put_in_force(changes, &words, filter, changes->on, error);
	if (err) {
		free_config(&words, filter);
		return err;
	}
	free_config(&changes->words, changes->filter);
	changes->words = words;
	changes->filter = filter;
	changes->config_realtime_ns = clock_read(CLOCK_REALTIME);
	return 0;
}

struct frame_ref *changes_list(const struct changes *changes)
{
	struct always_on_probe list[2 * SUBSCRIBE_PROBES_MAX];
	Ringtail__V1__AlwaysOn probe[2 * SUBSCRIBE_PROBES_MAX], *probes[2 * SUBSCRIBE_PROBES_MAX];
	Ringtail__V1__Probes message = RINGTAIL__V1__PROBES__INIT;

	message.n_probe = always_on_list(changes->on, &changes->words, changes->config_realtime_ns,
					 list);
	for (size_t i = 0; i < message.n_probe; i++) {
		ringtail__v1__always_on__init(&probe[i]);
		probe[i].spec = (char *)list[i].spec;
		probe[i].by = (char *)list[i].by;
		probe[i].since_realtime_ns = list[i].since_realtime_ns;
		probes[i] = &probe[i];
	}
	message.probe = probes;
	if (changes->filter)
		message.filter = changes->filter;
	return frame_ref_pack(changes->config.codec, FRAME_PROBES, &message.base);
}

/* ---- One change ------------------------------------------------------------------------------------- */

static void answer(struct change *change, struct frame_ref *frame)
{
	struct changes *changes = change->changes;
	struct session *session = change->session;
	struct change *next;

	if (!frame && !change->error.code[0])
		error_set(&change->error, ENOMEM, "out-of-memory", "the daemon is out of memory");
	TAILQ_REMOVE(&changes->queue, change, link);
	changes->waiting--;
	if (session)
		session_answer(session, frame, &change->error);
	else
		frame_ref_put(frame);
	free_change(change);
	next = TAILQ_FIRST(&changes->queue);
	if (next)
		begin(next);
}

static void submit(struct change *change, enum step step)
{
	change->step = step;
	disk_thread_submit(change->changes->config.disk_thread, &change->job);
}

/* On the disk thread. */
static void run(struct disk_job *job, struct disk *disk)
{
	struct change *change = (struct change *)job;

	change->disk_error = change->step == STEP_AUDIT ?
				     audit_append(&change->changes->audit, disk, change->text) :
				     disk_file_replace(disk, ALWAYS_ON_FILE, STATE_FILE_NEW,
						       change->text, strlen(change->text));
}

static void refuse_disk(struct change *change, const char *code, const char *what)
{
	error_set(&change->error, EIO, code, "%s cannot be written: %s", what,
		  strerror(-change->disk_error));
	error_hint(&change->error, "nothing was changed; see to the disk of state-dir");
	log_failure(LOG_LEVEL_ERROR, &change->error);
	answer(change, NULL);
}

static void forget(struct change *change)
{
	struct changes *changes = change->changes;
	int err = fanout_forget_consumer(changes->config.fanout, change->consumer, &change->error);

	answer(change, err ? NULL : changes->config.stat(changes->config.context));
}

/* What it comes to is kept first: what is in force is to be there after a restart too. */
static void keep(struct change *change, const struct always_on *on, enum step step)
{
	free(change->text);
	change->text = always_on_print(on);
	if (change->text)
		submit(change, step);
	else
		answer(change, NULL);
}

static void put_change_in_force(struct change *change)
{
	struct changes *changes = change->changes;
	struct always_on *old = changes->on;

	if (put_in_force(changes, &changes->words, changes->filter, change->next,
			 &change->error) != 0) {
		keep(change, old, STEP_KEEP_OLD);
		return;
	}
	changes->on = change->next;
	change->next = old;
	answer(change, changes_list(changes));
}

static void done(struct disk_job *job)
{
	struct change *change = (struct change *)job;

	if (change->step == STEP_KEEP_OLD)
		answer(change, NULL);
	else if (change->disk_error)
		refuse_disk(change, change->step == STEP_AUDIT ? "audit-failed" : "state-failed",
			    change->step == STEP_AUDIT ? "the audit log" : "the state of the probes");
	else if (change->error.code[0])
		answer(change, NULL);
	else if (change->step == STEP_KEEP)
		put_change_in_force(change);
	else if (change->consumer)
		forget(change);
	else
		keep(change, change->next, STEP_KEEP);
}

/* Whether it may be, and what it comes to; error says why not. */
static void judge(struct change *change)
{
	struct changes *changes = change->changes;
	uint64_t now_ns = clock_read(CLOCK_REALTIME);
	int err = 0;

	if (change->error.code[0] || change->consumer)
		return;
	change->next = always_on_copy(changes->on);
	if (!change->next) {
		error_set(&change->error, ENOMEM, "out-of-memory", "the daemon is out of memory");
		return;
	}
	for (size_t i = 0; i < change->disables && !err; i++)
		err = always_on_disable(change->next, &changes->words, change->disable[i],
					change->who, now_ns, &change->error);
	for (size_t i = 0; i < change->enables && !err; i++) {
		struct probe_set probes = {0};

		err = probe_set_add_glob(&probes, change->enable[i], changes->config.catalog,
					 &change->error);
		if (!err)
			err = always_on_enable(change->next, &changes->words, change->enable[i],
					       change->who, now_ns, &change->error);
	}
}

/* Its turn has come. */
static void begin(struct change *change)
{
	struct audit_attempt attempt = {
		.realtime_ns = clock_read(CLOCK_REALTIME),
		.who = change->who,
		.role = role_name(change->role),
		.peer = change->peer,
		.action = change->consumer ? "forget" : "change",
		.enable = change->enable,
		.disable = change->disable,
		.enables = change->enables,
		.disables = change->disables,
		.consumer = change->consumer,
	};

	judge(change);
	attempt.outcome = change->error.code[0] ? change->error.code : "allowed";
	counter_add(change->error.code[0] ? COUNTER_changes_denied : COUNTER_changes_allowed, 1);
	change->text = audit_line(&attempt);
	if (!change->text) {
		answer(change, NULL);
		return;
	}
	log_info("audit", "%.*s", (int)strlen(change->text) - 1, change->text);
	if (change->changes->config.disk_thread) {
		submit(change, STEP_AUDIT);
		return;
	}
	change->disk_error = -ENOENT;
	refuse_disk(change, "audit-failed", "there is no state directory: the audit log");
}

/* ---- Asking ------------------------------------------------------------------------------------------ */

static char **copy_words(char *const *word, size_t n)
{
	char **copy = calloc(n + 1, sizeof(*copy));

	for (size_t i = 0; copy && i < n; i++) {
		copy[i] = strdup(word[i]);
		if (!copy[i]) {
			free_words(copy, i);
			return NULL;
		}
	}
	return copy;
}

static void refuse_ask(struct session *session, struct change *change, int err, const char *code,
		       const char *what)
{
	struct error error;

	error_set(&error, err, code, "%s", what);
	error_hint(&error, "try again, with less");
	if (change)
		free_change(change);
	session_answer(session, NULL, &error);
}

static struct change *make(struct changes *changes, struct session *session, const char *what)
{
	struct change *change = calloc(1, sizeof(*change));
	const struct client_identity *identity = session_identity(session);

	if (!change)
		return NULL;
	change->job.run = run;
	change->job.done = done;
	change->changes = changes;
	change->session = session;
	change->role = identity->role;
	change->who = strdup(gate_name(changes->config.gate, identity));
	change->peer = strdup(session_peer(session));
	if (!change->who || !change->peer) {
		free_change(change);
		return NULL;
	}
	gate_allow(changes->config.gate, identity, ROLE_OPERATOR, what, &change->error);
	return change;
}

static void queue(struct changes *changes, struct change *change)
{
	if (changes->waiting >= CHANGES_WAITING_MAX) {
		refuse_ask(change->session, change, EBUSY, "too-many-changes",
			   "too many changes wait for those before them");
		return;
	}
	TAILQ_INSERT_TAIL(&changes->queue, change, link);
	if (changes->waiting++ == 0)
		begin(change);
}

void changes_ask(struct changes *changes, struct session *session,
		 const Ringtail__V1__Change *message)
{
	struct change *change;

	if (message->n_enable > SUBSCRIBE_PROBES_MAX || message->n_disable > SUBSCRIBE_PROBES_MAX ||
	    !(message->n_enable + message->n_disable)) {
		refuse_ask(session, NULL, EINVAL, "too-many-probes",
			   "a change names 1 to 64 probes to enable, and as many to disable");
		return;
	}
	change = make(changes, session, "change what is always on");
	if (change) {
		change->enable = copy_words(message->enable, message->n_enable);
		change->enables = change->enable ? message->n_enable : 0;
		change->disable = copy_words(message->disable, message->n_disable);
		change->disables = change->disable ? message->n_disable : 0;
	}
	if (!change || !change->enable || !change->disable)
		refuse_ask(session, change, ENOMEM, "out-of-memory", "the daemon is out of memory");
	else
		queue(changes, change);
}

void changes_ask_forget(struct changes *changes, struct session *session, const char *consumer)
{
	struct change *change = make(changes, session, "give up a consumer");

	if (change)
		change->consumer = strdup(consumer);
	if (!change || !change->consumer)
		refuse_ask(session, change, ENOMEM, "out-of-memory", "the daemon is out of memory");
	else
		queue(changes, change);
}

void changes_leave(struct changes *changes, const struct session *session)
{
	struct change *change;

	TAILQ_FOREACH(change, &changes->queue, link)
		if (change->session == session)
			change->session = NULL;
}
