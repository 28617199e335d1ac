#include "daemon/serve/control.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "daemon/access/audit.h"
#include "daemon/base/clock.h"
#include "daemon/base/counters.h"
#include "daemon/base/limits.h"
#include "daemon/base/log.h"
#include "daemon/disk/disk.h"
#include "daemon/serve/always_on.h"
#include "daemon/serve/answers.h"
#include "kmod/uapi/ringtail.h"
#include "proto/limits.h"
#include "query/filter.h"
#include "query/glob.h"
#include "query/probe_set.h"

#define STATE_FILE_NEW ALWAYS_ON_FILE ".new"
#define STATE_BYTES_MAX (1u << 20)
#define PROVIDERS_TEXT_BYTES 256	/* more of them than fit are left out */

enum action {
	ACTION_CHANGE,		/* what is always on */
	ACTION_REGISTER,	/* a durable consumer: then it is subscribed to */
	ACTION_FORGET,		/* one that is given up */
	ACTION_DELETE_DUMP,
	ACTION_REACH,		/* a host of this relay */
	ACTION_DIAL,		/* the relay, for a client of it */
	ACTION_CONFIG,		/* a new configuration: nobody waits for the answer */
	ACTION_AGAIN,		/* what is in force, with probes that programs brought since: nor here */
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
	struct control *control;
	struct session *session;	/* NULL: it has left */
	enum action action;
	enum step step;
	struct client_identity identity;
	char *who;			/* for people; also when the session has left */
	char *peer;
	char **enable, **disable;
	size_t enables, disables;
	char *consumer;			/* NULL: it is about probes, or a dump */
	char *dump;			/* of ACTION_DELETE_DUMP */
	struct control_note note;	/* of ACTION_REACH and ACTION_DIAL */
	struct subscribe_request *subscribe;	/* of ACTION_REGISTER */
	struct error error;		/* why not; without a code: allowed so far */
	struct always_on *next;		/* what it comes to */
	uint32_t flags;			/* with what is enabled; of ACTION_CONFIG, probe-flags */
	char flags_text[ALWAYS_ON_FLAGS_BYTES];
	struct config_words words;	/* of ACTION_CONFIG */
	char *filter;
	uint64_t realtime_ns;
	char *text;			/* for the disk: a line, or a file */
	struct audit_file *file;	/* where the line goes */
	int disk_error;
};

struct control {
	struct control_config config;
	struct config_words words;	/* the configuration's probes, as of the last reload, */
	uint32_t flags;			/* what they come with, */
	char *filter;			/* and what of them passes */
	uint64_t config_realtime_ns;
	bool started;			/* some configuration is in force */
	struct always_on *on;
	struct audit_file allowed;	/* the disk thread's */
	struct audit_denials *denials;
	struct audit_rate consumers;	/* of who is no operator: registered or given up */
	struct event *again;		/* programs brought what is always on: */
	bool brought;			/* nothing has been done about that yet */
	unsigned waiting;
	TAILQ_HEAD(, change) queue;	/* the first is on its way */
};

static void begin(struct change *change);
static void on_brought(evutil_socket_t fd, short what, void *control);
static void in_force(void *change, const struct error *error);
static void make_attempt(const struct change *change, struct audit_attempt *attempt);

/* ---- Life ------------------------------------------------------------------------------------ */

int control_create(const struct control_config *config, struct control **out, struct error *error)
{
	struct control *control = calloc(1, sizeof(*control));

	if (control)
		control->on = always_on_create();
	if (!control || !control->on) {
		free(control);
		return error_set(error, ENOMEM, "out-of-memory", "out of memory");
	}
	control->config = *config;
	control->allowed = (struct audit_file){.name = AUDIT_FILE, .name_old = AUDIT_FILE_OLD};
	control->consumers = (struct audit_rate){.max = CONSUMER_CHANGES_MAX,
						 .window_ns = CONSUMER_CHANGES_NS};
	TAILQ_INIT(&control->queue);
	control->denials = audit_denials_create(config->base, config->disk_thread);
	control->again = event_new(config->base, -1, 0, on_brought, control);
	if (!control->denials || !control->again) {
		control_destroy(control);
		return error_set(error, ENOMEM, "out-of-memory", "out of memory");
	}
	*out = control;
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

static void free_change(struct change *change)
{
	free_config(&change->words, change->filter);
	free_words(change->enable, change->enables);
	free_words(change->disable, change->disables);
	free(change->subscribe);
	always_on_destroy(change->next);
	free(change->consumer);
	free(change->dump);
	free(change->text);
	free(change->who);
	free(change->peer);
	free(change);
}

void control_destroy(struct control *control)
{
	struct change *change;

	if (!control)
		return;
	while ((change = TAILQ_FIRST(&control->queue))) {
		TAILQ_REMOVE(&control->queue, change, link);
		free_change(change);
	}
	if (control->again)
		event_free(control->again);
	audit_denials_destroy(control->denials);
	always_on_destroy(control->on);
	free_config(&control->words, control->filter);
	free(control);
}

int control_load(struct control *control, struct disk *disk, struct error *error)
{
	size_t bytes;
	char *text;
	int err = disk_file_read(disk, ALWAYS_ON_FILE, STATE_BYTES_MAX, &text, &bytes), bad;

	if (err == -ENOENT)
		return 0;
	if (err)
		return error_set(error, -err, "state-probes", "cannot read %s in state-dir: %s",
				 ALWAYS_ON_FILE, strerror(-err));
	bad = always_on_parse(control->on, text, bytes);
	free(text);
	if (bad < 0)
		return error_set(error, ENOMEM, "out-of-memory", "out of memory");
	if (bad)
		log_error("state-probes", "%d lines of %s in state-dir are damaged, and left out:"
			  " see `tracectl probes`", bad, ALWAYS_ON_FILE);
	return 0;
}

/* ---- In force -------------------------------------------------------------------------------- */

/* Also of a filter that nothing passes through yet: operators may enable something at any time. */
static int check_filter(const struct control *control, const char *text, struct error *error)
{
	struct filter *filter = NULL;
	int err = text ? filter_compile(text, control->config.catalog, &filter, error) : 0;

	filter_destroy(filter);
	return err;
}

/* Whether a program may bring what it means, as in `app:*`: of a provider that is named, and is nobody else's. */
static bool may_come(const struct control *control, const char *spec)
{
	size_t bytes = strcspn(spec, ":");
	char provider[NAME_BYTES_MAX + 1];

	if (!control->config.may_come || !bytes || bytes >= sizeof(provider) || !spec[bytes] ||
	    probe_set_check_glob(spec, NULL) != 0)
		return false;
	memcpy(provider, spec, bytes);
	provider[bytes] = '\0';
	return !glob_is_pattern(provider) && control->config.may_come(control->config.context, provider);
}

/* 0: there is such a probe, or has been made. 1: a program may bring it yet. -ENOENT, -EINVAL with *error. */
static int look_up(const struct control *control, const char *spec, struct error *error)
{
	struct probe_set probes = {0};
	bool may = may_come(control, spec);
	int err;

	fanout_make_now(control->config.fanout, spec);
	err = probe_set_add_glob(&probes, spec, control->config.catalog, may ? NULL : error);
	return err && may ? 1 : err;
}

/* Of programs, each once; empty where none has brought a probe. */
static void list_providers(const struct control *control, char *text, size_t bytes)
{
	const Ringtail__V1__Catalog *catalog = control->config.catalog;
	size_t used = 0;

	text[0] = '\0';
	for (size_t i = 0; i < catalog->n_probe && used < bytes; i++) {
		const Ringtail__V1__Probe *probe = catalog->probe[i];
		const char *provider = probe->provider;
		bool seen = probe->id < RT_PROBE_PROGRAM;

		for (size_t j = 0; j < i && !seen; j++)
			seen = catalog->probe[j]->id >= RT_PROBE_PROGRAM && strcmp(catalog->probe[j]->provider, provider) == 0;
		if (seen)
			continue;
		used += (size_t)snprintf(text + used, bytes - used, "%s%s", used ? ", " : "", provider);
	}
}

static void say_what_waits(const struct control *control, const char *spec, struct error *error)
{
	struct probe_set ignored = {0};
	struct error unknown = {0};
	char providers[PROVIDERS_TEXT_BYTES];

	if (probe_set_add_glob(&ignored, spec, control->config.catalog, &unknown) == 0) {
		error_set(error, EAGAIN, "waits-for-program", "waits for a program: none of yours has brought `%.256s`", spec);
		error_hint(error, "those of others' programs are for operators, and for viewers if `viewer-probe` names them");
		return;
	}
	list_providers(control, providers, sizeof(providers));
	error_set(error, EAGAIN, "waits-for-program", "waits for a program: none has brought `%.256s` yet", spec);
	if (!*providers)
		error_hint(error, "no program has brought probes so far");
	else if (strstr(unknown.hint, "did you mean"))
		error_hint(error, "%.200s Programs have brought: %s", unknown.hint, providers);
	else
		error_hint(error, "programs have brought: %s", providers);
}

int control_awaits(const struct control *control, const struct client_identity *identity, char *const *spec,
		   size_t specs, const char *filter, struct error *error)
{
	struct filter *compiled = NULL;
	size_t first = specs;
	int err;

	for (size_t i = 0; i < specs; i++) {
		if (fanout_knows(control->config.fanout, identity, spec[i]))
			continue;
		if (!may_come(control, spec[i]))
			return 0;
		first = first == specs ? i : first;
	}
	if (first == specs)
		return 0;
	err = filter ? filter_compile(filter, NULL, &compiled, error) : 0;
	filter_destroy(compiled);
	if (err)
		return err;
	if (error)
		say_what_waits(control, spec[first], error);
	return 1;
}

/* Tells fanout: the configuration's words and `on` together. done() follows if this is 0. */
static int put_in_force(struct control *control, const struct config_words *words, uint32_t flags,
			const char *filter, const struct always_on *on, struct change *change,
			struct error *error)
{
	struct always_on_probe list[2 * SUBSCRIBE_PROBES_MAX];
	const char *glob[2 * SUBSCRIBE_PROBES_MAX];
	struct subscription_request request = {
		.glob = glob, .filter = filter, .flags = flags | always_on_flags(on),
	};
	size_t n = always_on_list(on, words, 0, list);

	for (size_t i = 0; i < n; i++) {
		struct error unknown = {0};
		int found = look_up(control, list[i].spec, &unknown);

		if (!found || (found < 0 && strcmp(list[i].by, "config") == 0))
			glob[request.globs++] = list[i].spec;
		else
			log_warn("always-on-unknown", "%s, which %s enabled, is left out until a program brings it%s%s",
				 list[i].spec, list[i].by, found < 0 ? ": " : "", unknown.what);
	}
	return fanout_set_permanent(control->config.fanout, request.globs ? &request : NULL,
				    in_force, change, error);
}

int control_check_config(const struct control *control, const struct config *config,
			 struct error *error)
{
	int err = check_filter(control, config->filter, error);
	uint32_t flags;

	if (!err && config->probe_flags && always_on_flags_parse(config->probe_flags, &flags) != 0)
		err = error_set(error, EINVAL, "config-value",
				"probe-flags = %s: may be strings and fds, with a comma between",
				config->probe_flags);
	for (unsigned i = 0; i < config->probe.count && err >= 0; i++)
		err = look_up(control, config->probe.word[i], error);
	return err < 0 ? err : 0;
}

static int copy_config(struct change *change, const struct config *config)
{
	struct config_words *words = &change->words;

	for (; words->count < config->probe.count; words->count++) {
		words->word[words->count] = strdup(config->probe.word[words->count]);
		if (!words->word[words->count])
			return -ENOMEM;
	}
	if (config->probe_flags)
		(void)always_on_flags_parse(config->probe_flags, &change->flags);
	if (config->filter)
		change->filter = strdup(config->filter);
	return config->filter && !change->filter ? -ENOMEM : 0;
}

int control_set_config(struct control *control, const struct config *config, struct error *error)
{
	struct change *change;
	int err = control_check_config(control, config, error);

	if (err)
		return err;
	if (control->waiting >= CHANGES_WAITING_MAX)
		return error_set(error, EBUSY, "too-many-changes",
				 "too many changes are pending");
	change = calloc(1, sizeof(*change));
	if (!change || copy_config(change, config) != 0) {
		if (change)
			free_change(change);
		return error_set(error, ENOMEM, "out-of-memory", "out of memory");
	}
	change->control = control;
	change->action = ACTION_CONFIG;
	change->realtime_ns = clock_read(CLOCK_REALTIME);
	TAILQ_INSERT_TAIL(&control->queue, change, link);
	if (control->waiting++ == 0)
		begin(change);
	return 0;
}

struct audit_file *control_audit(struct control *control)
{
	return &control->allowed;
}

struct frame_ref *control_probes(const struct control *control)
{
	struct always_on_probe list[2 * SUBSCRIBE_PROBES_MAX];
	size_t n = always_on_list(control->on, &control->words, control->config_realtime_ns, list);
	struct error ignored;

	for (size_t i = 0; i < n; i++)
		list[i].waits = look_up(control, list[i].spec, &ignored) != 0;
	return answers_probes(control->config.codec, list, n, control->filter,
			      n ? control->flags | always_on_flags(control->on) : 0);
}

/* ---- One change ------------------------------------------------------------------------------ */

static bool is_note(enum action action)
{
	return action == ACTION_REACH || action == ACTION_DIAL;
}

static void answer(struct change *change, struct frame_ref *frame)
{
	struct control *control = change->control;
	struct session *session = change->session;
	struct change *next;

	if (!frame && !change->error.code[0] &&
	    (change->action == ACTION_CHANGE || change->action == ACTION_FORGET ||
	     change->action == ACTION_DELETE_DUMP))
		error_set(&change->error, ENOMEM, "out-of-memory", "the daemon is out of memory");
	TAILQ_REMOVE(&control->queue, change, link);
	control->waiting--;
	if (session && is_note(change->action))
		change->note.noted(change->note.context, session, &change->note, &change->error);
	else if (session && change->action != ACTION_REGISTER)
		session_answer(session, frame, &change->error);
	else if (session && change->error.code[0])
		session_refuse(session, &change->error, true);
	else
		frame_ref_put(frame);
	free_change(change);
	next = TAILQ_FIRST(&control->queue);
	if (next)
		begin(next);
	else if (control->brought)
		event_active(control->again, EV_TIMEOUT, 0);
}

static void submit(struct change *change, enum step step)
{
	change->step = step;
	disk_thread_submit(change->control->config.disk_thread, &change->job);
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
	struct control *control = change->control;
	int err = fanout_forget_consumer(control->config.fanout, change->consumer, &change->error);

	/* Whoever asked may have gone since, and the server, too: at the stop, the disk answers last. */
	answer(change, err || !change->session ? NULL : control->config.stat(control->config.context));
}

static void delete_dump(struct change *change)
{
	struct control *control = change->control;
	struct dump_entry *entry = dumps_find(control->config.dumps, change->dump);

	/* It may have gone since it was asked for: that comes to the same. */
	if (entry)
		dumps_remove(control->config.dumps, entry);
	answer(change, dumps_pack(control->config.dumps, control->config.codec, NULL, NULL, 0));
}

/* What was allowed then may be no more: fanout looks itself, and answers. */
static void subscribe(struct change *change)
{
	if (change->session)
		fanout_subscribe(change->control->config.fanout,
				 session_subscriber(change->session), change->subscribe,
				 &change->error);
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
	struct control *control = change->control;
	struct error error = {0};
	int err;

	change->step = step;
	err = put_in_force(control, &control->words, control->flags, control->filter,
			   step == STEP_FORCE ? change->next : control->on, change, &error);
	if (err)
		in_force(change, &error);
}

static void take_change_in_force(struct change *change, const struct error *error)
{
	struct control *control = change->control;

	if (change->step == STEP_FORCE && !error) {
		keep(change, change->next, STEP_KEEP);
	} else if (change->step == STEP_FORCE) {
		change->error = *error;
		tell_outcome(change);
	} else {
		if (error)
			log_failure(LOG_LEVEL_ERROR, error);
		keep(change, control->on, STEP_KEEP_OLD);
	}
}

static void take_config(struct change *change)
{
	struct control *control = change->control;

	free_config(&control->words, control->filter);
	control->words = change->words;
	control->flags = change->flags;
	control->filter = change->filter;
	control->config_realtime_ns = change->realtime_ns;
	change->words.count = 0;
	change->filter = NULL;
}

/* Where what operators enabled keeps the daemon from starting, nobody could disable it. */
static bool leave_out_operators(struct change *change, const struct error *error)
{
	struct control *control = change->control;

	if (control->started || strcmp(error->code, "shutting-down") == 0 ||
	    strcmp(error->code, "loader-gone") == 0 || !always_on_drop_enabled(control->on))
		return false;
	log_failure(LOG_LEVEL_ERROR, error);
	log_error("always-on-left-out", "probes that operators enabled cannot be recorded, and are left out:"
		  " `tracectl probes` lists what is always recorded, `tracectl enable` tries again");
	begin(change);
	return true;
}

static void take_config_in_force(struct change *change, const struct error *error)
{
	struct control *control = change->control;

	if (error && leave_out_operators(change, error))
		return;
	if (!error) {
		take_config(change);
		control->started = true;
	}
	if (control->config.applied)
		control->config.applied(control->config.context, error);
	answer(change, NULL);
}

/* Where that is refused, what was in force still is. */
static void take_again_in_force(struct change *change, const struct error *error)
{
	if (error)
		log_failure(LOG_LEVEL_ERROR, error);
	answer(change, NULL);
}

static void in_force(void *context, const struct error *error)
{
	struct change *change = context;

	if (change->action == ACTION_CONFIG)
		take_config_in_force(change, error);
	else if (change->action == ACTION_AGAIN)
		take_again_in_force(change, error);
	else
		take_change_in_force(change, error);
}

static void take_kept(struct change *change)
{
	struct control *control = change->control;
	struct always_on *old = control->on;

	if (change->disk_error) {
		refuse_disk(change, "state-failed", "the state of the probes");
		force(change, STEP_FORCE_OLD);
		return;
	}
	control->on = change->next;
	change->next = old;
	answer(change, control_probes(control));
}

static void take_audited(struct change *change)
{
	if (change->disk_error) {
		refuse_disk(change, "audit-failed", "the audit log");
		answer(change, NULL);
	} else if (change->error.code[0] || is_note(change->action)) {
		answer(change, NULL);
	} else if (change->action == ACTION_FORGET) {
		forget(change);
	} else if (change->action == ACTION_REGISTER) {
		subscribe(change);
	} else if (change->action == ACTION_DELETE_DUMP) {
		delete_dump(change);
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
	struct control *control = change->control;
	const struct client_identity *identity = &change->identity;
	bool registers;
	int err = change->action == ACTION_FORGET ?
			  fanout_may_forget(control->config.fanout, change->consumer, identity,
					    &change->error) :
			  fanout_may_consume(control->config.fanout, change->consumer, identity,
					     &registers, &change->error);

	if (err || identity->role >= ROLE_OPERATOR ||
	    audit_rate_take(&control->consumers, change->who, clock_monotonic()))
		return;
	error_set(&change->error, EBUSY, "too-many-changes",
		  "%s has registered or forgotten %u durable consumers in a short time", change->who,
		  CONSUMER_CHANGES_MAX);
	error_hint(&change->error, "wait for an hour, or ask an operator");
}

static void judge_dump(struct change *change)
{
	const struct dumps *dumps = change->control->config.dumps;
	const struct dump_entry *entry = dumps ? dumps_find(dumps, change->dump) : NULL;

	if (!entry)
		error_set(&change->error, ENOENT, "dump-unknown", "there is no dump %.80s",
			  change->dump);
	else if (entry->state == DUMP_WRITING)
		error_set(&change->error, EBUSY, "dump-writing", "the dump %s is still being written",
			  entry->id);
}

/* Whether it may be, and what it comes to; error says why not. */
static void judge(struct change *change)
{
	struct control *control = change->control;
	uint64_t now_ns = clock_read(CLOCK_REALTIME);
	int err = 0;

	if (change->error.code[0] || is_note(change->action))
		return;
	if (change->consumer) {
		judge_consumer(change);
		return;
	}
	if (change->dump) {
		judge_dump(change);
		return;
	}
	change->next = always_on_copy(control->on);
	if (!change->next) {
		error_set(&change->error, ENOMEM, "out-of-memory", "the daemon is out of memory");
		return;
	}
	for (size_t i = 0; i < change->disables && !err; i++)
		err = always_on_disable(change->next, &control->words, change->disable[i],
					change->who, now_ns, &change->error);
	for (size_t i = 0; i < change->enables && !err; i++) {
		err = look_up(control, change->enable[i], &change->error);
		if (err >= 0)
			err = always_on_enable(change->next, &control->words, change->enable[i], change->flags,
					       change->who, now_ns, &change->error);
	}
}

/* As the audit log has it. */
static void make_attempt(const struct change *change, struct audit_attempt *attempt)
{
	static const char *const action[] = {
		[ACTION_CHANGE] = "change", [ACTION_REGISTER] = "register",
		[ACTION_FORGET] = "forget", [ACTION_DELETE_DUMP] = "delete-dump",
		[ACTION_REACH] = "reach", [ACTION_DIAL] = "dial",
		[ACTION_CONFIG] = "", [ACTION_AGAIN] = "",
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
		.flags = change->flags_text,
		.consumer = change->consumer,
		.dump = change->dump,
		.host = change->action == ACTION_REACH ? change->note.name : change->action == ACTION_DIAL ? "" : NULL,
		.outcome = change->error.code[0] ? change->error.code : "allowed",
	};
}

static void begin_config(struct change *change)
{
	struct control *control = change->control;
	struct error error = {0};

	if (put_in_force(control, &change->words, change->flags, change->filter, control->on, change, &error) != 0)
		in_force(change, &error);
}

/* What programs have brought by now is no news any more. */
static void begin_again(struct change *change)
{
	struct control *control = change->control;
	struct error error = {0};

	control->brought = false;
	if (put_in_force(control, &control->words, control->flags, control->filter, control->on, change, &error) != 0)
		in_force(change, &error);
}

/* Its turn has come. */
static void begin(struct change *change)
{
	struct control *control = change->control;
	struct audit_attempt attempt;
	bool allowed;

	if (change->action == ACTION_CONFIG) {
		begin_config(change);
		return;
	}
	if (change->action == ACTION_AGAIN) {
		begin_again(change);
		return;
	}
	change->job.run = run;
	change->job.done = done;
	judge(change);
	make_attempt(change, &attempt);
	allowed = audit_allows(&attempt);
	counter_add(allowed ? COUNTER_changes_allowed : COUNTER_changes_denied, 1);
	if (allowed || audit_denials_take(control->denials, change->who))
		change->text = audit_line(&attempt);
	if (!change->text) {
		answer(change, NULL);
		return;
	}
	change->file = allowed ? &control->allowed : audit_denials_file(control->denials);
	if (allowed)
		log_always(LOG_LEVEL_INFO, "audit", "%.*s", (int)strlen(change->text) - 1,
			   change->text);
	else
		log_info("audit-denied", "%.*s", (int)strlen(change->text) - 1, change->text);
	if (control->config.disk_thread) {
		submit(change, STEP_AUDIT);
		return;
	}
	change->disk_error = -ENOENT;
	refuse_disk(change, "audit-failed", "there is no state directory: the audit log");
	answer(change, NULL);
}

/* ---- What programs bring --------------------------------------------------------------------- */

/* Once for all probes of a program. What is being changed sees them, but for what it has looked up already. */
static void on_brought(evutil_socket_t fd, short what, void *context)
{
	struct control *control = context;
	struct change *change;

	(void)fd, (void)what;
	if (control->waiting || !control->brought)
		return;
	change = calloc(1, sizeof(*change));
	if (!change) {
		log_error("out-of-memory", "no memory to record what a program brought, which is always on");
		return;
	}
	change->control = control;
	change->action = ACTION_AGAIN;
	TAILQ_INSERT_TAIL(&control->queue, change, link);
	control->waiting++;
	begin(change);
}

static bool is_always_on(const struct control *control, const Ringtail__V1__Probe *probe)
{
	struct always_on_probe list[2 * SUBSCRIBE_PROBES_MAX];
	size_t n = always_on_list(control->on, &control->words, 0, list);
	bool is = false;

	for (size_t i = 0; i < n && !is; i++) {
		struct probe_set probes = {0};

		is = probe_set_glob_matches(list[i].spec, probe) &&
		     probe_set_add_glob(&probes, list[i].spec, control->config.catalog, NULL) == 0 &&
		     probe_set_test(&probes, probe->id);
	}
	return is;
}

void control_take_probe(struct control *control, const Ringtail__V1__Probe *probe)
{
	if (control->brought || !is_always_on(control, probe))
		return;
	control->brought = true;
	event_active(control->again, EV_TIMEOUT, 0);
}

/* ---- What sessions ask ----------------------------------------------------------------------- */

static char **copy_words(char *const *word, size_t n)
{
	char **copy = calloc(n + 1, sizeof(*copy));

	for (size_t i = 0; copy && i < n; i++) {
		copy[i] = strdup(word[i]);
		if (!copy[i]) {
			while (i--)
				free(copy[i]);
			free(copy);
			return NULL;
		}
	}
	return copy;
}

/* A subscription that is refused ends its connection. */
static void refuse_ask(struct session *session, enum action action, struct change *change, int err,
		       const char *code, const char *what)
{
	struct error error;

	error_set(&error, err, code, "%s", what);
	error_hint(&error, "try again, with fewer SPECs in one command");
	if (change)
		free_change(change);
	if (action == ACTION_REGISTER)
		session_refuse(session, &error, true);
	else
		session_answer(session, NULL, &error);
}

static struct change *make(struct control *control, struct session *session, enum action action)
{
	struct change *change = calloc(1, sizeof(*change));
	const struct client_identity *identity = session_identity(session);

	if (!change)
		return NULL;
	change->control = control;
	change->session = session;
	change->action = action;
	change->identity = *identity;
	change->who = strdup(gate_name(control->config.gate, identity));
	change->peer = strdup(session_peer(session));
	if (!change->who || !change->peer) {
		free_change(change);
		return NULL;
	}
	/* Consumers have owners: who may is told when its turn has come. */
	if (action == ACTION_CHANGE)
		gate_allow(control->config.gate, identity, ROLE_OPERATOR, "change what is always on",
			   &change->error);
	if (action == ACTION_DELETE_DUMP)
		gate_allow(control->config.gate, identity, ROLE_OPERATOR, "delete dumps",
			   &change->error);
	if (action == ACTION_REACH)
		gate_allow(control->config.gate, identity, ROLE_OPERATOR, "ask hosts through this relay",
			   &change->error);
	return change;
}

static void queue(struct control *control, struct change *change)
{
	if (control->waiting >= CHANGES_WAITING_MAX) {
		refuse_ask(change->session, change->action, change, EBUSY, "too-many-changes",
			   "too many changes are pending");
		return;
	}
	TAILQ_INSERT_TAIL(&control->queue, change, link);
	if (control->waiting++ == 0)
		begin(change);
}

/* Stacks and data are not for a memory that is always on. */
static void take_flags(struct change *change, const struct change_request *request)
{
	for (size_t i = 0; i < request->flags; i++) {
		if (request->flag[i] == RINGTAIL__V1__FLAG__FLAG_STRINGS)
			change->flags |= RT_FLAG_STRINGS;
		else if (request->flag[i] == RINGTAIL__V1__FLAG__FLAG_FDS)
			change->flags |= RT_FLAG_FDS;
		else if (!change->error.code[0])
			error_set(&change->error, EINVAL, "bad-flags",
				  "what is always on may come with strings and fds, and with nothing else");
	}
	always_on_flags_text(change->flags, change->flags_text);
}

void control_ask(struct control *control, struct session *session,
		 const struct change_request *request)
{
	struct change *change;

	if (request->enables > SUBSCRIBE_PROBES_MAX || request->disables > SUBSCRIBE_PROBES_MAX ||
	    !(request->enables + request->disables)) {
		refuse_ask(session, ACTION_CHANGE, NULL, EINVAL, "too-many-probes",
			   "a change names 1 to 64 probes to enable, and as many to disable");
		return;
	}
	change = make(control, session, ACTION_CHANGE);
	if (change) {
		change->enable = copy_words(request->enable, request->enables);
		change->enables = change->enable ? request->enables : 0;
		change->disable = copy_words(request->disable, request->disables);
		change->disables = change->disable ? request->disables : 0;
		take_flags(change, request);
	}
	if (!change || !change->enable || !change->disable)
		refuse_ask(session, ACTION_CHANGE, change, ENOMEM, "out-of-memory",
			   "the daemon is out of memory");
	else
		queue(control, change);
}

void control_ask_forget(struct control *control, struct session *session, const char *consumer)
{
	struct change *change = make(control, session, ACTION_FORGET);

	if (change)
		change->consumer = strdup(consumer);
	if (!change || !change->consumer)
		refuse_ask(session, ACTION_FORGET, change, ENOMEM, "out-of-memory",
			   "the daemon is out of memory");
	else
		queue(control, change);
}

void control_ask_delete_dump(struct control *control, struct session *session, const char *id)
{
	struct change *change = make(control, session, ACTION_DELETE_DUMP);

	if (change)
		change->dump = strdup(id);
	if (!change || !change->dump)
		refuse_ask(session, ACTION_DELETE_DUMP, change, ENOMEM, "out-of-memory",
			   "the daemon is out of memory");
	else
		queue(control, change);
}

void control_ask_register(struct control *control, struct session *session,
			  struct subscribe_request *request)
{
	struct change *change = make(control, session, ACTION_REGISTER);

	if (change) {
		change->consumer = strdup(request->consumer);
		change->subscribe = request;
	} else {
		free(request);
	}
	if (!change || !change->consumer)
		refuse_ask(session, ACTION_REGISTER, change, ENOMEM, "out-of-memory",
			   "the daemon is out of memory");
	else
		queue(control, change);
}

void control_ask_note(struct control *control, struct session *session, const struct control_note *note)
{
	enum action action = note->kind == CONTROL_NOTE_REACH ? ACTION_REACH : ACTION_DIAL;
	struct change *change = make(control, session, action);
	struct error error = {0};

	if (change && action == ACTION_DIAL)
		identity_set_through(&change->identity, note->name);
	if (change && action == ACTION_DIAL) {
		free(change->who);
		change->who = strdup(change->identity.text);
	}
	if (!change || !change->who)
		error_set(&error, ENOMEM, "out-of-memory", "the daemon is out of memory");
	else if (control->waiting >= CHANGES_WAITING_MAX)
		error_set(&error, EBUSY, "too-many-changes", "too many changes are pending");
	if (error.code[0]) {
		error_hint(&error, "try again in a moment");
		if (change)
			free_change(change);
		note->noted(note->context, session, note, &error);
		return;
	}
	change->note = *note;
	if (!change->error.code[0])
		change->error = note->refused;
	queue(control, change);
}

void control_leave(struct control *control, const struct session *session)
{
	struct change *change;

	TAILQ_FOREACH(change, &control->queue, link)
		if (change->session == session)
			change->session = NULL;
}

void control_settle(struct control *control)
{
	if (control)
		audit_denials_settle(control->denials);
}
