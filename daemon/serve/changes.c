/* changes: see changes.h. This file: what is in force, and one change on its way. changes_ask.c: how they
 * come. changes_denied.c: what is told of those that are denied. */
#include "daemon/serve/changes_private.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/clock.h"
#include "daemon/base/counters.h"
#include "daemon/disk/file.h"
#include "query/filter.h"
#include "daemon/base/limits.h"
#include "daemon/base/log.h"
#include "query/probe_set.h"

#define STATE_FILE_NEW ALWAYS_ON_FILE ".new"
#define STATE_BYTES_MAX (1u << 20)

static void in_force(void *change, const struct error *error);
static void make_attempt(const struct change *change, struct audit_attempt *attempt);

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
	changes->allowed = (struct audit_file){.name = AUDIT_FILE, .name_old = AUDIT_FILE_OLD};
	changes->consumers = (struct audit_rate){.max = CONSUMER_CHANGES_MAX,
						 .window_ns = CONSUMER_CHANGES_NS};
	TAILQ_INIT(&changes->queue);
	if (changes_denied_init(changes) != 0) {
		changes_destroy(changes);
		return error_set(error, ENOMEM, "out-of-memory", "out of memory");
	}
	*out = changes;
	return 0;
}

static void free_words(char **word, size_t n)
{
	for (size_t i = 0; i < n; i++)
		free(word[i]);
	free(word);
}

static void free_config(struct config_words *words, char *filter)
{
	for (unsigned i = 0; i < words->count; i++)
		free(words->word[i]);
	free(filter);
}

void changes_free(struct change *change)
{
	free_config(&change->words, change->filter);
	free_words(change->enable, change->enables);
	free_words(change->disable, change->disables);
	if (change->subscribe)
		ringtail__v1__subscribe__free_unpacked(change->subscribe, NULL);
	always_on_destroy(change->next);
	free(change->consumer);
	free(change->text);
	free(change->who);
	free(change->peer);
	free(change);
}

void changes_destroy(struct changes *changes)
{
	struct change *change;

	if (!changes)
		return;
	while ((change = TAILQ_FIRST(&changes->queue))) {
		TAILQ_REMOVE(&changes->queue, change, link);
		changes_free(change);
	}
	changes_denied_fini(changes);
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

/* Also of a filter that nothing passes through yet: operators may enable something at any time. */
static int check_filter(const struct changes *changes, const char *text, struct error *error)
{
	struct filter *filter = NULL;
	int err = text ? filter_compile(text, changes->config.catalog, &filter, error) : 0;

	filter_destroy(filter);
	return err;
}

/* Tells fanout: the configuration's words and `on` together. done() follows if this is 0. */
static int put_in_force(struct changes *changes, const struct config_words *words,
			const char *filter, const struct always_on *on, struct change *change,
			struct error *error)
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
	return fanout_set_permanent(changes->config.fanout, request.globs ? &request : NULL,
				    in_force, change, error);
}

int changes_check_config(const struct changes *changes, const struct config *config,
			 struct error *error)
{
	int err = check_filter(changes, config->filter, error);

	for (unsigned i = 0; i < config->probe.count && !err; i++) {
		struct probe_set probes = {0};

		err = probe_set_add_glob(&probes, config->probe.word[i], changes->config.catalog,
					 error);
	}
	return err;
}

static int copy_config(struct change *change, const struct config *config)
{
	struct config_words *words = &change->words;

	for (; words->count < config->probe.count; words->count++) {
		words->word[words->count] = strdup(config->probe.word[words->count]);
		if (!words->word[words->count])
			return -ENOMEM;
	}
	if (config->filter)
		change->filter = strdup(config->filter);
	return config->filter && !change->filter ? -ENOMEM : 0;
}

int changes_set_config(struct changes *changes, const struct config *config, struct error *error)
{
	struct change *change;
	int err = changes_check_config(changes, config, error);

	if (err)
		return err;
	if (changes->waiting >= CHANGES_WAITING_MAX)
		return error_set(error, EBUSY, "too-many-changes",
				 "too many changes wait for those before them");
	change = calloc(1, sizeof(*change));
	if (!change || copy_config(change, config) != 0) {
		if (change)
			changes_free(change);
		return error_set(error, ENOMEM, "out-of-memory", "out of memory");
	}
	change->changes = changes;
	change->action = ACTION_CONFIG;
	change->realtime_ns = clock_read(CLOCK_REALTIME);
	TAILQ_INSERT_TAIL(&changes->queue, change, link);
	if (changes->waiting++ == 0)
		changes_begin(change);
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

	if (!frame && !change->error.code[0] &&
	    (change->action == ACTION_CHANGE || change->action == ACTION_FORGET))
		error_set(&change->error, ENOMEM, "out-of-memory", "the daemon is out of memory");
	TAILQ_REMOVE(&changes->queue, change, link);
	changes->waiting--;
	if (session && change->action != ACTION_REGISTER)
		session_answer(session, frame, &change->error);
	else if (session && change->error.code[0])
		session_refuse(session, &change->error, true);
	else
		frame_ref_put(frame);
	changes_free(change);
	next = TAILQ_FIRST(&changes->queue);
	if (next)
		changes_begin(next);
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

	change->disk_error = change->step == STEP_AUDIT || change->step == STEP_OUTCOME ?
				     audit_append(change->file, disk, change->text) :
				     disk_file_replace(disk, ALWAYS_ON_FILE, STATE_FILE_NEW,
						       change->text, strlen(change->text));
}

/* What was allowed and not done is in audit.log too; then the client learns why. */
static void tell_outcome(struct change *change)
{
	struct audit_attempt attempt;

	make_attempt(change, &attempt);
	free(change->text);
	change->text = audit_line(&attempt);
	if (!change->text) {
		answer(change, NULL);
		return;
	}
	log_always(LOG_LEVEL_WARNING, "audit", "%.*s", (int)strlen(change->text) - 1, change->text);
	submit(change, STEP_OUTCOME);
}

static void refuse_disk(struct change *change, const char *code, const char *what)
{
	error_set(&change->error, EIO, code, "%s cannot be written: %s", what,
		  strerror(-change->disk_error));
	error_hint(&change->error, "nothing was changed; see to the disk of state-dir");
	log_failure(LOG_LEVEL_ERROR, &change->error);
}

static void forget(struct change *change)
{
	struct changes *changes = change->changes;
	int err = fanout_forget_consumer(changes->config.fanout, change->consumer, &change->error);

	answer(change, err ? NULL : changes->config.stat(changes->config.context));
}

/* What was allowed then may be no more: fanout looks itself, and answers. */
static void subscribe(struct change *change)
{
	if (change->session)
		fanout_subscribe(change->changes->config.fanout, change->session,
				 change->subscribe, &change->error);
	answer(change, NULL);
}

static void keep(struct change *change, const struct always_on *on, enum step step)
{
	free(change->text);
	change->text = always_on_print(on);
	if (change->text)
		submit(change, step);
	else
		answer(change, NULL);
}

static void force(struct change *change, enum step step)
{
	struct changes *changes = change->changes;
	struct error error = {0};
	int err;

	change->step = step;
	err = put_in_force(changes, &changes->words, changes->filter,
			   step == STEP_FORCE ? change->next : changes->on, change, &error);
	if (err)
		in_force(change, &error);
}

static void take_change_in_force(struct change *change, const struct error *error)
{
	struct changes *changes = change->changes;

	if (change->step == STEP_FORCE && !error) {
		keep(change, change->next, STEP_KEEP);
	} else if (change->step == STEP_FORCE) {
		change->error = *error;
		tell_outcome(change);
	} else {
		if (error)
			log_failure(LOG_LEVEL_ERROR, error);
		keep(change, changes->on, STEP_KEEP_OLD);
	}
}

static void take_config(struct change *change)
{
	struct changes *changes = change->changes;

	free_config(&changes->words, changes->filter);
	changes->words = change->words;
	changes->filter = change->filter;
	changes->config_realtime_ns = change->realtime_ns;
	change->words.count = 0;
	change->filter = NULL;
}

/* Where what operators enabled keeps the daemon from starting, nobody could disable it. */
static bool leave_out_operators(struct change *change, const struct error *error)
{
	struct changes *changes = change->changes;

	if (changes->started || strcmp(error->code, "shutting-down") == 0 ||
	    strcmp(error->code, "loader-gone") == 0 || !always_on_drop_enabled(changes->on))
		return false;
	log_failure(LOG_LEVEL_ERROR, error);
	log_error("always-on-left-out", "what operators enabled is left out, for it cannot be recorded:"
		  " `tracectl probes` lists what is always on, `tracectl enable` tries again");
	changes_begin(change);
	return true;
}

static void take_config_in_force(struct change *change, const struct error *error)
{
	struct changes *changes = change->changes;

	if (error && leave_out_operators(change, error))
		return;
	if (!error) {
		take_config(change);
		changes->started = true;
	}
	if (changes->config.applied)
		changes->config.applied(changes->config.context, error);
	answer(change, NULL);
}

static void in_force(void *context, const struct error *error)
{
	struct change *change = context;

	if (change->action == ACTION_CONFIG)
		take_config_in_force(change, error);
	else
		take_change_in_force(change, error);
}

static void take_kept(struct change *change)
{
	struct changes *changes = change->changes;
	struct always_on *old = changes->on;

	if (change->disk_error) {
		refuse_disk(change, "state-failed", "the state of the probes");
		force(change, STEP_FORCE_OLD);
		return;
	}
	changes->on = change->next;
	change->next = old;
	answer(change, changes_list(changes));
}

static void take_audited(struct change *change)
{
	if (change->disk_error) {
		refuse_disk(change, "audit-failed", "the audit log");
		answer(change, NULL);
	} else if (change->error.code[0]) {
		answer(change, NULL);
	} else if (change->action == ACTION_FORGET) {
		forget(change);
	} else if (change->action == ACTION_REGISTER) {
		subscribe(change);
	} else {
		force(change, STEP_FORCE);
	}
}

static void done(struct disk_job *job)
{
	struct change *change = (struct change *)job;

	switch (change->step) {
	case STEP_AUDIT:
		take_audited(change);
		break;
	case STEP_KEEP:
		take_kept(change);
		break;
	case STEP_KEEP_OLD:
		tell_outcome(change);
		break;
	case STEP_OUTCOME:
	case STEP_FORCE:
	case STEP_FORCE_OLD:
		answer(change, NULL);
		break;
	}
}

/* What who is no operator may do for itself, it may not do without end: each takes a line for ever. */
static void judge_consumer(struct change *change)
{
	struct changes *changes = change->changes;
	const struct client_identity *identity = &change->identity;
	bool registers;
	int err = change->action == ACTION_FORGET ?
			  fanout_may_forget(changes->config.fanout, change->consumer, identity,
					    &change->error) :
			  fanout_may_consume(changes->config.fanout, change->consumer, identity,
					     &registers, &change->error);

	if (err || identity->role >= ROLE_OPERATOR ||
	    audit_rate_take(&changes->consumers, change->who, clock_monotonic()))
		return;
	error_set(&change->error, EBUSY, "too-many-changes",
		  "%s has registered or given up %u durable consumers in a short time", change->who,
		  CONSUMER_CHANGES_MAX);
	error_hint(&change->error, "wait for an hour, or ask an operator");
}

/* Whether it may be, and what it comes to; error says why not. */
static void judge(struct change *change)
{
	struct changes *changes = change->changes;
	uint64_t now_ns = clock_read(CLOCK_REALTIME);
	int err = 0;

	if (change->error.code[0])
		return;
	if (change->consumer) {
		judge_consumer(change);
		return;
	}
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

/* As the audit log has it. */
static void make_attempt(const struct change *change, struct audit_attempt *attempt)
{
	static const char *const action[] = {
		[ACTION_CHANGE] = "change", [ACTION_REGISTER] = "register",
		[ACTION_FORGET] = "forget", [ACTION_CONFIG] = "",
	};

	*attempt = (struct audit_attempt){
		.realtime_ns = clock_read(CLOCK_REALTIME),
		.who = change->who,
		.role = role_name(change->identity.role),
		.peer = change->peer,
		.action = action[change->action],
		.enable = change->enable,
		.disable = change->disable,
		.enables = change->enables,
		.disables = change->disables,
		.consumer = change->consumer,
		.outcome = change->error.code[0] ? change->error.code : "allowed",
	};
}

static void begin_config(struct change *change)
{
	struct changes *changes = change->changes;
	struct error error = {0};

	if (put_in_force(changes, &change->words, change->filter, changes->on, change, &error) != 0)
		in_force(change, &error);
}

void changes_begin(struct change *change)
{
	struct changes *changes = change->changes;
	struct audit_attempt attempt;
	bool allowed;

	if (change->action == ACTION_CONFIG) {
		begin_config(change);
		return;
	}
	change->job.run = run;
	change->job.done = done;
	judge(change);
	make_attempt(change, &attempt);
	allowed = audit_allows(&attempt);
	counter_add(allowed ? COUNTER_changes_allowed : COUNTER_changes_denied, 1);
	if (allowed || changes_denied_tell(changes, change->who))
		change->text = audit_line(&attempt);
	if (!change->text) {
		answer(change, NULL);
		return;
	}
	change->file = allowed ? &changes->allowed : &changes->denied;
	if (allowed)
		log_always(LOG_LEVEL_INFO, "audit", "%.*s", (int)strlen(change->text) - 1,
			   change->text);
	else
		log_info("audit-denied", "%.*s", (int)strlen(change->text) - 1, change->text);
	if (changes->config.disk_thread) {
		submit(change, STEP_AUDIT);
		return;
	}
	change->disk_error = -ENOENT;
	refuse_disk(change, "audit-failed", "there is no state directory: the audit log");
	answer(change, NULL);
}
