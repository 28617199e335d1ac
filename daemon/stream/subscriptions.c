#include "daemon/stream/subscriptions.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/clock.h"
#include "daemon/base/counters.h"
#include "daemon/base/log.h"
#include "daemon/spool/frame.h"
#include "daemon/spool/spool.h"
#include "daemon/stream/making.h"
#include "daemon/stream/saved_subscriptions.h"
#include "daemon/stream/stream.h"
#include "proto/limits.h"
#include "query/glob.h"
#include "query/probe_set.h"

/* ---- What a viewer may ask for ------------------------------------------------------------------ */

enum subscription_claim subscription_claim_of(const struct client_identity *identity)
{
	if (!identity)
		return CLAIM_EXPORT;
	return identity->role >= ROLE_OPERATOR ? CLAIM_CLIENTS : CLAIM_VIEWERS;
}

/* What the kernel says where it cannot say who somebody is: whoever that is shares it with others. */
#define UID_NOBODY 65534u

uint32_t subscription_owner_of(const struct client_identity *identity)
{
	bool is_one = identity && identity->role < ROLE_OPERATOR && identity->proof == IDENTITY_USER &&
		      identity->uid != UID_NOBODY;

	return is_one ? identity->uid : 0;
}

static int refuse_flags(const char *what, const char *option, struct error *error)
{
	error_set(error, EACCES, "viewer-flags", "viewers may not ask for %s here", what);
	error_hint(error, "ask without; or an operator puts `%s = yes` into the daemon's configuration",
		   option);
	return -EACCES;
}

/* All that is allowed, as it was written, as far as there is room. */
static void refuse_probe(const struct subscriptions *all, const Ringtail__V1__Probe *probe,
			 struct error *error)
{
	const struct config_words *allowed = all->config.viewers.probe;
	char list[256] = "";
	size_t used = 0;

	for (unsigned i = 0; allowed && i < allowed->count && used < sizeof(list); i++)
		used += (size_t)snprintf(list + used, sizeof(list) - used, "%s%s",
					 i ? ", " : ", and ", allowed->word[i]);
	error_set(error, EACCES, "viewer-probes", "viewers may not ask for %s:%s:%s here",
		  probe->provider, probe->function, probe->name);
	error_hint(error, "allowed are what is always on%s%s; an operator adds `viewer-probe ="
			  " SPEC` to the daemon's configuration", list,
		   used < sizeof(list) ? "" : "...");
}

/*
 * A probe that is made on request may show what belongs to other users, and addresses of the kernel: viewers
 * may ask for it only where an operator has named its provider, as in `viewer-probe = tracepoint:block:*`.
 */
static bool names_provider(const char *word)
{
	char provider[NAME_BYTES_MAX + 1];

	snprintf(provider, sizeof(provider), "%.*s", (int)strcspn(word, ":"), word);
	return !glob_is_pattern(provider);
}

static bool is_allowed(const struct config_words *words, const Ringtail__V1__Probe *probe)
{
	bool made = probe->id >= RT_PROBE_MADE;

	if (!words || !words->count)
		return !made;
	for (unsigned i = 0; i < words->count; i++)
		if ((!made || names_provider(words->word[i])) &&
		    probe_set_glob_matches(words->word[i], probe))
			return true;
	return false;
}

static int check_probes(const struct subscriptions *all, const struct probe_set *probes,
			struct error *error)
{
	const Ringtail__V1__Catalog *catalog = all->config.catalog;

	for (size_t i = 0; i < catalog->n_probe; i++)
		if (probe_set_test(probes, catalog->probe[i]->id) &&
		    !is_allowed(all->config.viewers.probe, catalog->probe[i])) {
			refuse_probe(all, catalog->probe[i], error);
			return -EACCES;
		}
	return 0;
}

/*
 * Whether all that a spec may mean is among what a word of viewer-probe does. More than that is not even made:
 * there is a bound of how many probes can be, and a file is looked into before, so that to be refused tells
 * what is there. A path that climbs leads elsewhere, and a word without a path means no file.
 */
static bool may_make(const char *word, const char *spec)
{
	const char *path = strchr(spec, ':');

	if (path && path[1] == '/' && (strstr(path, "/../") || !strchr(word, ':')))
		return false;
	return probe_set_glob_covers(word, spec);
}

/* Whether viewers may have such probes made at all; what is made of it is judged as any other probe. */
static int check_may_make(const struct subscriptions *all, enum subscription_claim claim,
			  const char *spec, struct error *error)
{
	const struct config_words *words = all->config.viewers.probe;

	if (claim != CLAIM_VIEWERS)
		return 0;
	for (unsigned i = 0; words && i < words->count; i++)
		if (may_make(words->word[i], spec))
			return 0;
	error_set(error, EACCES, "viewer-probes", "viewers may not ask for %.256s here: the daemon makes it on"
		  " request, and it may show what belongs to others", spec);
	error_hint(error, "ask for what is always on; or an operator adds `viewer-probe = %.256s` to the daemon's"
			  " configuration", spec);
	return -EACCES;
}

static int check_viewer(const struct subscriptions *all, enum subscription_claim claim,
			uint32_t flags, const struct probe_set *probes, struct error *error)
{
	const struct viewer_bounds *viewers = &all->config.viewers;

	if (claim != CLAIM_VIEWERS)
		return 0;
	if (flags & (RT_FLAG_KSTACK | RT_FLAG_USTACK) && !viewers->stacks)
		return refuse_flags("stacks", "viewer-stacks", error);
	if (flags & RT_FLAG_DATA) {
		error_set(error, EACCES, "viewer-flags", "viewers may not ask for data here: what processes"
			  " read and write is for operators");
		error_hint(error, "ask without the flag data; or an operator adds an `operator = RULE` that"
				  " means you");
		return -EACCES;
	}
	if (flags & (RT_FLAG_STRINGS | RT_FLAG_FDS) && !viewers->strings)
		return refuse_flags("strings", "viewer-strings", error);
	return probes ? check_probes(all, probes, error) : 0;
}

static bool has_pointed_text(const Ringtail__V1__Probe *probe)
{
	for (size_t i = 0; i < probe->n_field; i++)
		if (probe->field[i]->type == RINGTAIL__V1__FIELD_TYPE__FIELD_STRING)
			return true;
	return false;
}

/*
 * What an argument of the kernel's functions points to may be what processes write, as for the flag data; and
 * where a program has chosen the address, any memory of the kernel.
 */
static int check_texts(const struct subscriptions *all, enum subscription_claim claim, uint32_t flags,
		       const struct probe_set *probes, struct error *error)
{
	const Ringtail__V1__Catalog *catalog = all->config.catalog;

	if (claim != CLAIM_VIEWERS || !(flags & RT_FLAG_STRINGS))
		return 0;
	for (size_t i = 0; i < catalog->n_probe; i++) {
		const Ringtail__V1__Probe *probe = catalog->probe[i];

		if (probe->id < RT_PROBE_MADE || !probe_set_test(probes, probe->id) || !has_pointed_text(probe))
			continue;
		error_set(error, EACCES, "viewer-flags", "viewers may not ask for strings of %s:%s here: the"
			  " kernel's own memory is for operators", probe->provider, probe->function);
		error_hint(error, "ask without the flag strings; or an operator adds an `operator = RULE` that"
				  " means you");
		return -EACCES;
	}
	return 0;
}

int subscriptions_may_ask(const struct subscriptions *all, enum subscription_claim claim,
			  const char *glob, uint32_t flags, struct error *error)
{
	struct probe_set probes = {0};
	int err = probe_set_add_glob(&probes, glob, all->config.catalog, error);

	return err ? err : check_viewer(all, claim, flags, &probes, error);
}

/* What is always on, if that is not less than what passes this filter; NULL: nothing is. */
static const struct probe_set *always_on_of(const struct subscriptions *all, const char *filter)
{
	const struct subscription *subscription;

	TAILQ_FOREACH(subscription, &all->list, link)
		if (subscription->permanent && subscription->state != SUBSCRIPTION_REMOVING &&
		    (!*subscription->filter_text || strcmp(subscription->filter_text, filter) == 0))
			return &subscription->spec.probes;
	return NULL;
}

int subscriptions_may_see(const struct subscriptions *all, enum subscription_claim claim,
			  const struct subscription_request *what, struct error *error)
{
	const struct probe_set *always = always_on_of(all, what->filter);
	struct probe_set probes = {0};
	int err = 0;

	if (claim != CLAIM_VIEWERS)
		return 0;
	for (size_t i = 0; i < what->globs && !err; i++)
		err = probe_set_add_glob(&probes, what->glob[i], all->config.catalog, error);
	if (!err)
		err = check_texts(all, claim, what->flags, &probes, error);
	for (size_t i = 0; always && i < sizeof(probes.bits); i++)
		probes.bits[i] &= (uint8_t)~always->bits[i];
	return err ? -EACCES : check_viewer(all, claim, what->flags, &probes, error);
}

static int check_viewers_room(const struct subscriptions *all, struct error *error)
{
	const struct subscription *subscription;
	uint64_t made = 0;

	TAILQ_FOREACH(subscription, &all->list, link)
		made += subscription->viewers && subscription->state != SUBSCRIPTION_REMOVING;
	if (made < all->config.viewers.subscriptions)
		return 0;
	error_set(error, EACCES, "viewer-subscriptions",
		  "viewers have made %llu different subscriptions, of at most %llu",
		  (unsigned long long)made,
		  (unsigned long long)all->config.viewers.subscriptions);
	error_hint(error, "ask for what is always on, or for the same as another client; or an operator"
			  " raises viewer-subscriptions in the daemon's configuration");
	return -EACCES;
}

void subscriptions_set_viewers(struct subscriptions *all, const struct viewer_bounds *viewers)
{
	struct subscription *subscription;
	struct stream *stream;

	all->config.viewers = *viewers;
	TAILQ_FOREACH(subscription, &all->list, link)
		TAILQ_FOREACH(stream, &subscription->streams, link)
			if (stream->rate.bound)
				stream_set_rate(stream, viewers->rate);
}

/* ---- Finding --------------------------------------------------------------------------------- */

/* The one that its last client left longest ago is not kept for it any longer. False: there is none. */
static bool make_room(struct subscriptions *all)
{
	struct subscription *subscription, *longest = NULL;

	TAILQ_FOREACH(subscription, &all->list, link)
		if (subscription->state == SUBSCRIPTION_LIVE && !subscription->permanent &&
		    !subscription->consumers && TAILQ_EMPTY(&subscription->streams) &&
		    (!longest || subscription->linger_until_ns < longest->linger_until_ns))
			longest = subscription;
	if (!longest)
		return false;
	longest->linger_until_ns = 0;
	all->config.check_soon(all->config.context);
	return true;
}

/* A hint that is true: where nobody's time is over soon, waiting is no help. */
static void refuse_full(struct subscriptions *all, unsigned used, struct error *error)
{
	bool soon = make_room(all);

	error_set(error, ENOSPC, "too-many-subscriptions",
		  "this daemon has %u different subscriptions already", used);
	if (soon)
		error_hint(error, "try again in a moment, or use the same probes and filter as another"
				  " client: equal ones share one");
	else
		error_hint(error, "use the same probes and filter as another client, for equal ones"
				  " share one; or end a client, or `tracectl forget` a durable consumer:"
				  " `tracectl stat` lists them");
}

static int take_index(struct subscriptions *all, struct subscription *subscription,
		      enum subscription_claim claim, struct error *error)
{
	unsigned free_slots = 0, first = 0;

	for (uint32_t i = 0; i < SUBSCRIPTIONS_MAX; i++)
		if (!all->by_index[i] && free_slots++ == 0)
			first = i;
	if (free_slots <= (claim >= CLAIM_OWN ? 0 : SUBSCRIPTIONS_OWN)) {
		refuse_full(all, SUBSCRIPTIONS_MAX - free_slots, error);
		return -ENOSPC;
	}
	all->by_index[first] = subscription;
	subscription->index = first;
	return 0;
}

static struct subscription *find_equal(struct subscriptions *all, const struct subscription *wanted)
{
	struct subscription *subscription;

	TAILQ_FOREACH(subscription, &all->list, link)
		if (subscription->state != SUBSCRIPTION_REMOVING &&
		    subscription_equal(subscription, wanted))
			return subscription;
	return NULL;
}

static bool is_there(const struct subscriptions *all, const char *spec)
{
	struct probe_set probes = {0};

	return probe_set_add_glob(&probes, spec, all->config.catalog, NULL) == 0;
}

/*
 * What is to be made for a spec: what it says; or, where nothing here is called so, the tracepoint that is: NAME, of any
 * system, or SYSTEM:NAME, as perf writes it. NULL: nothing.
 */
static const char *to_be_made(const struct subscriptions *all, const char *spec, char tracepoint[NAME_BYTES_MAX + 1])
{
	const char *name = strchr(spec, ':');
	char system[NAME_BYTES_MAX + 1] = "*";

	if (making_can(all->making, spec))
		return spec;
	if (strlen(spec) > NAME_BYTES_MAX || strchr(spec, '/') || (name && strchr(name + 1, ':')) || is_there(all, spec))
		return NULL;
	if (name)
		snprintf(system, sizeof(system), "%.*s", (int)(name - spec), spec);
	name = name ? name + 1 : spec;
	if (snprintf(tracepoint, NAME_BYTES_MAX + 1, "tracepoint:%s:%s", system, name) > (int)NAME_BYTES_MAX)
		return NULL;
	return making_can(all->making, tracepoint) && making_offers(all->making, system, name) ? tracepoint : NULL;
}

int subscriptions_prepare(struct subscriptions *all, enum subscription_claim claim,
			  char *const *spec, size_t specs, bool again, struct error *error)
{
	bool waits = false;

	for (size_t i = 0; i < specs && i < SUBSCRIBE_PROBES_MAX; i++) {
		char tracepoint[NAME_BYTES_MAX + 1];
		const char *made = to_be_made(all, spec[i], tracepoint);
		int err;

		if (!made)
			continue;
		err = check_may_make(all, claim, made, error);
		/* For them it means what is there, if anything is, as it does without its provider. */
		if (err && (made != spec[i] || is_there(all, spec[i])))
			continue;
		if (!err)
			err = making_prepare(all->making, made, again, error);
		if (err < 0)
			return err;
		waits |= err;
	}
	return waits;
}

void subscriptions_make_now(struct subscriptions *all, const char *spec)
{
	char tracepoint[NAME_BYTES_MAX + 1];
	const char *made = to_be_made(all, spec, tracepoint);

	if (made)
		making_now(all->making, made);
}

/* What the request names, it names in that catalog. */
static int get_of(struct subscriptions *all, const struct subscription_request *request,
		  enum subscription_claim claim, const Ringtail__V1__Catalog *catalog,
		  struct subscription **out, struct error *error)
{
	struct subscription_request wanted = *request;
	struct subscription *subscription, *equal;
	int err;

	/* Nobody else shares an export's, which has texts that the others did not ask for, or may not have. */
	if (claim == CLAIM_EXPORT)
		wanted.file_strings = all->config.file_strings;
	/*
	 * A client's were made while it waited; those of the daemon's own start are made now. For viewers, nothing
	 * is that subscriptions_prepare() has not judged.
	 */
	for (size_t i = 0; claim != CLAIM_VIEWERS && i < request->globs; i++)
		subscriptions_make_now(all, request->glob[i]);
	err = subscription_create(&wanted, catalog, all->config.rings->n,
				  all->config.log_bytes, &subscription, error);
	if (err)
		return err;
	/* A filter may ask for more than the request says. */
	err = check_viewer(all, claim, subscription->spec.flags, NULL, error);
	if (!err)
		err = check_texts(all, claim, subscription->spec.flags, &subscription->spec.probes, error);
	if (err) {
		subscription_destroy(subscription);
		return err;
	}
	equal = find_equal(all, subscription);
	if (equal) {
		subscription_destroy(subscription);
		*out = equal;
		return 0;
	}
	err = claim == CLAIM_VIEWERS ? check_viewers_room(all, error) : 0;
	if (!err)
		err = take_index(all, subscription, claim, error);
	subscription->viewers = claim == CLAIM_VIEWERS;
	if (err) {
		subscription_destroy(subscription);
		return err;
	}
	TAILQ_INSERT_TAIL(&all->list, subscription, link);
	subscription->generation = recorder_change(all->recorder);
	*out = subscription;
	return 0;
}

int subscriptions_get(struct subscriptions *all, const struct subscription_request *request,
		      enum subscription_claim claim, struct subscription **out, struct error *error)
{
	struct subscription_request everybodys = *request;

	everybodys.owner = 0;
	return get_of(all, &everybodys, claim, all->config.catalog, out, error);
}

static bool is_own(const struct subscriptions *all, uint32_t owner, uint32_t probe)
{
	const struct viewer_bounds *viewers = &all->config.viewers;

	return viewers->is_own(viewers->context, owner, probe);
}

/*
 * The catalog without probes of programs, but for the owner's, and those that every viewer may ask for; owner 0:
 * without any of them. So others, who call their probes as they like, decide nothing of what the owner's globs and
 * filters mean. For free(seen->probe).
 */
static int look_as(const struct subscriptions *all, uint32_t owner, Ringtail__V1__Catalog *seen,
		   struct error *error)
{
	const Ringtail__V1__Catalog *catalog = all->config.catalog;
	const struct config_words *words = all->config.viewers.probe;

	*seen = *catalog;
	seen->n_probe = 0;
	seen->probe = calloc(catalog->n_probe + 1, sizeof(*seen->probe));
	if (!seen->probe)
		return error_set(error, ENOMEM, "out-of-memory", "the daemon is out of memory");
	for (size_t i = 0; i < catalog->n_probe; i++) {
		Ringtail__V1__Probe *probe = catalog->probe[i];

		if (probe->id < RT_PROBE_PROGRAM ||
		    (owner && (is_own(all, owner, probe->id) || is_allowed(words, probe))))
			seen->probe[seen->n_probe++] = probe;
	}
	return 0;
}

/* Whether one of these may mean probes of programs, now or in an earlier run: 1, 0 or -ENOMEM. */
static int may_mean_programs(const struct subscriptions *all, const struct subscription_request *what,
			     struct error *error)
{
	Ringtail__V1__Catalog source;
	struct probe_set ignored = {0};
	struct error unknown;
	int found = look_as(all, 0, &source, error);

	for (size_t i = 0; !found && i < what->globs; i++)
		found = !names_provider(what->glob[i]) ||
			probe_set_add_glob(&ignored, what->glob[i], &source, &unknown) != 0;
	free(source.probe);
	return found;
}

/* Others' programs have it, and may have it before the owner's do: whoever comes back waits for those. */
static int add_seen(const struct subscriptions *all, const char *glob, const Ringtail__V1__Catalog *seen,
		    struct probe_set *probes, struct error *error)
{
	int err = probe_set_add_glob(probes, glob, seen, error);
	struct probe_set others = {0};
	struct error ignored;

	if (err != -ENOENT || probe_set_add_glob(&others, glob, all->config.catalog, &ignored) != 0)
		return err;
	error_set(error, ENOENT, "unknown-probe", "no probe of your own programs matches `%.256s`, and those of others'"
		  " programs are for operators", glob);
	error_hint(error, "a program shows its probes to its user if that user may look into it; or an operator adds"
			  " `viewer-probe = %.256s` to the daemon's configuration", glob);
	return err;
}

bool subscriptions_knows(const struct subscriptions *all, uint32_t owner, const char *spec)
{
	Ringtail__V1__Catalog seen;
	struct probe_set probes = {0};
	struct error ignored;
	bool knows;

	if (!owner || !all->config.viewers.is_own)
		return is_there(all, spec);
	if (look_as(all, owner, &seen, &ignored) != 0)
		return true;		/* that there is no memory is told where it is looked up */
	knows = probe_set_add_glob(&probes, spec, &seen, NULL) == 0;
	free(seen.probe);
	return knows;
}

static int find_seen(struct subscriptions *all, const struct subscription_request *what,
		     enum subscription_claim claim, const Ringtail__V1__Catalog *seen,
		     struct subscription **subscription, struct error *error)
{
	struct probe_set probes = {0};
	int err = 0;

	for (size_t i = 0; !err && i < what->globs; i++)
		err = add_seen(all, what->glob[i], seen, &probes, error);
	if (err)
		return err;
	/* The rest is judged as ever. */
	for (size_t i = 0; i < seen->n_probe; i++) {
		uint32_t id = seen->probe[i]->id;

		if (id >= RT_PROBE_PROGRAM && is_own(all, what->owner, id))
			probes.bits[id / 8] &= (uint8_t)~(1u << (id % 8));
	}
	err = check_viewer(all, claim, what->flags, &probes, error);
	return err ? err : get_of(all, what, claim, seen, subscription, error);
}

/* As subscriptions_find() does, of what->owner. */
static int find_own(struct subscriptions *all, const struct subscription_request *what,
		    enum subscription_claim claim, struct subscription **subscription, struct error *error)
{
	Ringtail__V1__Catalog seen;
	int err = look_as(all, what->owner, &seen, error);

	if (!err)
		err = find_seen(all, what, claim, &seen, subscription, error);
	free(seen.probe);
	return err;
}

bool subscriptions_take_late(struct subscriptions *all, const Ringtail__V1__Probe *probe)
{
	struct subscription *subscription;
	bool wanted = false;

	TAILQ_FOREACH(subscription, &all->list, link)
		if (subscription->state != SUBSCRIPTION_REMOVING)
			wanted |= subscription_take_late(subscription, probe);
	return wanted;
}

static int find_permanent(struct subscriptions *all, struct subscription **subscription,
			  struct error *error)
{
	*subscription = all->permanent.next;
	if (*subscription)
		return 0;
	TAILQ_FOREACH(*subscription, &all->list, link)
		if ((*subscription)->permanent &&
		    (*subscription)->state != SUBSCRIPTION_REMOVING)
			return 0;
	error_set(error, EINVAL, "no-default-probes",
		  "no probe was asked for, and this daemon has none that is always on");
	error_hint(error, "name some, as in -p 'syscall:*:call'; or record some always, from now on: `tracectl"
			  " enable 'syscall:*:call'`, or `probe` in ringtaild.conf");
	return -EINVAL;
}

/* The texts that its own filter reads cannot be left out; everything else that it comes with can. */
static uint32_t flags_to_leave_out(const struct subscription *subscription)
{
	uint32_t read = filter_asks_strings(subscription->spec.filter) ? RT_FLAG_STRINGS : 0;

	return subscription->spec.flags & ~read;
}

/*
 * What is always recorded, with what it comes with, which may be more than was asked for, unless a viewer may not see
 * that. Or of it only what passes this filter too, with these flags.
 */
static int narrow_permanent(struct subscriptions *all, const struct subscription_request *what,
			    enum subscription_claim claim, struct subscription **subscription,
			    struct error *error)
{
	struct subscription_request request = *what;
	struct subscription *permanent;
	struct error hidden;
	uint32_t extra;
	bool both;
	char *filter;
	int err = find_permanent(all, &permanent, error);

	if (!err)
		err = check_viewer(all, claim, request.flags, NULL, error);
	if (err)
		return err;
	extra = flags_to_leave_out(permanent);
	if (!*what->filter && !(request.flags & ~permanent->spec.flags) && !request.question &&
	    !check_texts(all, claim, extra, &permanent->spec.probes, &hidden) &&
	    !check_viewer(all, claim, extra, NULL, &hidden)) {
		*subscription = permanent;
		return 0;
	}
	both = *what->filter && *permanent->filter_text;
	if (asprintf(&filter, both ? "(%s) && (%s)" : "%s%s", what->filter,
		     permanent->filter_text) < 0)
		return error_set(error, ENOMEM, "out-of-memory", "out of memory");
	request.glob = (const char *const *)permanent->glob;
	request.globs = permanent->globs;
	request.filter = filter;
	err = subscriptions_get(all, &request, claim, subscription, error);
	/* The client's own text has no parenthesis before it. */
	if (err && both)
		filter_refusal_shift(error->what, sizeof(error->what), &error->column);
	free(filter);
	return err;
}

int subscriptions_find(struct subscriptions *all, const struct subscription_request *what,
		       enum subscription_claim claim, struct subscription **subscription,
		       struct error *error)
{
	struct probe_set probes;
	int err;

	if (!what->globs)
		return narrow_permanent(all, what, claim, subscription, error);
	if (what->globs > SUBSCRIBE_PROBES_MAX)
		return error_set(error, EINVAL, "too-many-probes",
				 "%zu probe specs, and at most %u may be asked for",
				 what->globs, SUBSCRIBE_PROBES_MAX);
	if (what->owner && all->config.viewers.is_own) {
		err = may_mean_programs(all, what, error);
		if (err)
			return err < 0 ? err : find_own(all, what, claim, subscription, error);
	}
	err = probe_set_from_globs(&probes, (char *const *)what->glob, (unsigned)what->globs,
				   all->config.catalog, error);
	if (!err)
		err = check_viewer(all, claim, what->flags, &probes, error);
	return err ? err : subscriptions_get(all, what, claim, subscription, error);
}

/* ---- Life ------------------------------------------------------------------------------------ */

/*
 * Not to know what clients wanted costs them what happens before they are back, and no more. That is all that whoever
 * counts would miss: questions are not kept.
 */
static void save(const struct subscriptions *all)
{
	struct subscription_request request[SUBSCRIPTIONS_MAX];
	struct subscription *subscription;
	unsigned n = 0;
	int err;

	if (!all->config.saved || !all->saving)
		return;
	/* Nor is what a user's own programs are asked for: they are not there when the next run begins. */
	TAILQ_FOREACH(subscription, &all->list, link)
		if (subscription->state == SUBSCRIPTION_LIVE && !subscription->spec.question &&
		    !subscription->owner)
			request[n++] = subscription_request_of(subscription);
	err = saved_subscriptions_save(all->config.saved, request, n);
	if (err)
		log_warn("subscriptions-not-saved",
			 "what clients want cannot be kept for a restart: %s", strerror(-err));
}

void subscriptions_begin_ring(struct subscriptions *all, struct subscription *subscription,
			      uint32_t ring, uint64_t seq)
{
	/* What no run of the daemon has stored is a Gap, for the log and the disk. */
	uint64_t stored = subscription->spool.end ? subscription->spool.end[ring] : 0;
	struct frame_ref *gap = NULL;

	subscription->position[ring] = seq;
	subscription->floor[ring] = seq;
	if (stored && stored < seq)
		gap = spool_frame_gap(all->config.codec, all->config.rings->cpu_of[ring], stored,
				      seq, 0, spool_missing_reason(subscription->spool.spool));
	if (gap) {
		gap->ring = ring;
		subscription->position[ring] = subscription->floor[ring] = stored;
		subscription->begins_late = true;
		subscription_append(subscription, gap);
	} else if (subscription->spool.spool) {
		spool_begin_ring(subscription->spool.spool, ring, seq);
	}
}

/* Where there is no memory for an order, it is given later: see subscriptions_order_again(). */
static bool has_order(int err)
{
	if (err)
		counter_add(COUNTER_orders_delayed, 1);
	return !err;
}

/* Workers that do not know yet that the subscription starts, or goes, are told. */
static void tell_workers(struct subscriptions *all, struct subscription *subscription)
{
	bool adds = subscription->state == SUBSCRIPTION_STARTING;

	while (subscription->workers_told < all->config.workers) {
		struct worker *worker = all->config.worker[subscription->workers_told];
		int err = adds ? worker_add_subscription(worker, subscription->index,
							 &subscription->spec) :
				 worker_remove_subscription(worker, subscription->index);

		if (!has_order(err))
			return;
		subscription->workers_told++;
	}
}

static void change_state(struct subscriptions *all, struct subscription *subscription,
			 enum subscription_state state)
{
	subscription->state = state;
	subscription->workers_pending = all->config.workers;
	subscription->workers_told = 0;
	tell_workers(all, subscription);
}

static bool is_reborn(const struct subscriptions *all, const struct subscription *subscription)
{
	for (uint32_t i = 0; i < all->config.rings->n; i++)
		if (subscription->floor[i] + 1 != all->gone[i])
			return false;
	return subscription->origin == SUBSCRIPTION_NEW;
}

static void change_permanent(struct subscriptions *all);

static void live(struct subscriptions *all, struct subscription *subscription)
{
	subscription->state = SUBSCRIPTION_LIVE;
	reach_begin(subscription->reach, clock_monotonic(), subscription->floor);
	if (subscription->spool.spool)
		spool_set_recorded(subscription->spool.spool, clock_read(CLOCK_REALTIME));
	if (is_reborn(all, subscription))
		subscription->origin = SUBSCRIPTION_REBORN;
	if (!subscription->permanent)
		subscription->linger_until_ns = clock_monotonic() + all->config.history_age_ns;
	if (subscription == all->permanent.next)
		change_permanent(all);
	recorder_joined(all->recorder);
	save(all);
	all->config.live(all->config.context, subscription);
}

void subscriptions_start(struct subscriptions *all, struct subscription *subscription)
{
	change_state(all, subscription, SUBSCRIPTION_STARTING);
}

void subscriptions_answered(struct subscriptions *all, struct subscription *subscription)
{
	if (--subscription->workers_pending)
		return;
	if (subscription->state == SUBSCRIPTION_STARTING)
		live(all, subscription);
	else
		subscriptions_forget(all, subscription);
}

struct subscription *subscriptions_at(const struct subscriptions *all, uint32_t index)
{
	return index < SUBSCRIPTIONS_MAX ? all->by_index[index] : NULL;
}

void subscriptions_forget(struct subscriptions *all, struct subscription *subscription)
{
	for (uint32_t i = 0; i < all->config.rings->n; i++)
		if (all->gone[i] <= subscription->position[i])
			all->gone[i] = subscription->position[i] + 1;
	all->config.going(all->config.context, subscription);
	if (all->permanent.next == subscription)
		all->permanent.next = NULL;
	TAILQ_REMOVE(&all->list, subscription, link);
	all->by_index[subscription->index] = NULL;
	subscription_destroy(subscription);
	save(all);
}

void subscriptions_order_again(struct subscriptions *all)
{
	struct subscription *subscription;

	TAILQ_FOREACH(subscription, &all->list, link)
		if (subscription->state == SUBSCRIPTION_STARTING ||
		    subscription->state == SUBSCRIPTION_REMOVING)
			tell_workers(all, subscription);
}

void subscriptions_expire(struct subscriptions *all)
{
	uint64_t now = clock_monotonic();
	struct subscription *subscription;

	TAILQ_FOREACH(subscription, &all->list, link)
		if (subscription->state == SUBSCRIPTION_LIVE && !subscription->permanent &&
		    !subscription->consumers && TAILQ_EMPTY(&subscription->streams) &&
		    now >= subscription->linger_until_ns) {
			change_state(all, subscription, SUBSCRIPTION_REMOVING);
			recorder_change(all->recorder);
		}
}

/* ---- What is always on ------------------------------------------------------------------------ */

void subscriptions_end_permanent(struct subscriptions *all, const struct error *error)
{
	permanent_done *done = all->permanent.done;

	all->permanent.done = NULL;
	all->permanent.generation = 0;
	if (done)
		done(all->permanent.context, error);
}

/* What is to be always on is recorded: what was, goes. */
static void change_permanent(struct subscriptions *all)
{
	struct subscription *other;

	TAILQ_FOREACH(other, &all->list, link) {
		if (other->permanent && other != all->permanent.next) {
			other->linger_until_ns = 0;
			if (other->spool.spool)
				spool_set_always_on(other->spool.spool, false);
		}
		other->permanent = other == all->permanent.next;
	}
	all->permanent.next = NULL;
	subscriptions_expire(all);
	all->permanent.generation = recorder_newest(all->recorder);
	if (all->permanent.generation <= recorder_in_force(all->recorder))
		subscriptions_end_permanent(all, NULL);
}

struct subscription *subscriptions_permanent(const struct subscriptions *all)
{
	struct subscription *subscription;

	TAILQ_FOREACH(subscription, &all->list, link)
		if (subscription->permanent && subscription->state == SUBSCRIPTION_LIVE)
			return subscription;
	return NULL;
}

void subscriptions_in_force(struct subscriptions *all, uint64_t generation)
{
	if (all->permanent.generation && all->permanent.generation <= generation)
		subscriptions_end_permanent(all, NULL);
}

int subscriptions_check_permanent(const struct subscriptions *all, struct error *error)
{
	return all->permanent.done ? error_set(error, EBUSY, "too-many-changes",
					       "another change of what is always on is on its way") : 0;
}

void subscriptions_set_permanent(struct subscriptions *all, struct subscription *subscription,
				 permanent_done *done, void *context)
{
	if (subscription)
		subscription->permanent = true;
	/* What was always on stays on until what is to be is recorded. */
	all->permanent.next = subscription;
	all->permanent.done = done;
	all->permanent.context = context;
	all->permanent.generation = 0;
	if (!subscription || subscription->state == SUBSCRIPTION_LIVE)
		change_permanent(all);
}

/* ---- Memory: what nobody needs goes first, of the log that has most of it ------------------------- */

/* The first entry that a client has not been sent yet. */
static uint64_t needed_from(const struct subscription *subscription)
{
	uint64_t from = frame_log_end(subscription->log);
	const struct stream *stream;

	TAILQ_FOREACH(stream, &subscription->streams, link)
		if (stream_in_log(stream) && stream->next < from)
			from = stream->next;
	return from;
}

static uint64_t log_bytes(const struct subscription *subscription)
{
	return frame_log_bytes_from(subscription->log, frame_log_first(subscription->log));
}

static uint64_t idle_bytes(const struct subscription *subscription)
{
	return log_bytes(subscription) -
	       frame_log_bytes_from(subscription->log, needed_from(subscription));
}

static bool can_give(const struct subscription *subscription)
{
	return frame_log_end(subscription->log) - frame_log_first(subscription->log) > 1;
}

/* The one with the most bytes of that kind, or NULL. */
static struct subscription *largest(struct subscriptions *all,
				    uint64_t (*bytes)(const struct subscription *subscription))
{
	struct subscription *subscription, *found = NULL;
	uint64_t most = 0;

	TAILQ_FOREACH(subscription, &all->list, link) {
		uint64_t its = can_give(subscription) ? bytes(subscription) : 0;

		if (its > most) {
			most = its;
			found = subscription;
		}
	}
	return found;
}

static uint64_t all_bytes(const struct subscriptions *all)
{
	const struct subscription *subscription;
	uint64_t bytes = 0;

	TAILQ_FOREACH(subscription, &all->list, link)
		bytes += log_bytes(subscription);
	return bytes;
}

void subscriptions_keep_within(struct subscriptions *all)
{
	all->memory_used = all_bytes(all);
	while (all->config.memory_bytes &&
	       all->memory_used > all->config.memory_bytes) {
		struct subscription *from = largest(all, idle_bytes);
		uint64_t before;

		if (!from)
			from = largest(all, log_bytes);
		if (!from)
			return;
		before = log_bytes(from);
		frame_log_evict_oldest(from->log, LOSS_REASON_MEMORY);
		all->memory_used -= before - log_bytes(from);
	}
}

void subscriptions_set_log_bytes(struct subscriptions *all, uint64_t log_bytes)
{
	struct subscription *subscription;

	all->config.log_bytes = log_bytes;
	TAILQ_FOREACH(subscription, &all->list, link)
		frame_log_set_bytes_max(subscription->log, log_bytes);
}

/* ---- From the run before ---------------------------------------------------------------------- */

static int restore_one(void *context, const struct subscription_request *request)
{
	struct subscriptions *all = context;
	struct subscription *subscription;
	struct error error;
	int err = subscriptions_get(all, request, CLAIM_OWN, &subscription, &error);

	if (err == -ENOMEM)
		return err;
	if (err)
		log_failure(LOG_LEVEL_WARNING, &error);
	else
		subscription->origin = SUBSCRIPTION_RESTORED;
	return 0;
}

int subscriptions_restore(struct subscriptions *all, struct error *error)
{
	int err;

	recorder_hold(all->recorder);
	err = saved_subscriptions_restore(all->config.saved, restore_one, all, error);
	if (err == -ENOMEM)
		return error_set(error, ENOMEM, "out-of-memory", "out of memory");
	if (err)
		log_failure(LOG_LEVEL_WARNING, error);
	return 0;
}

static int adopt(struct subscriptions *all, struct subscription *subscription)
{
	int err = 0;

	for (unsigned i = 0; i < all->config.workers && !err; i++)
		err = worker_adopt_subscription(all->config.worker[i], subscription->index,
						&subscription->spec);
	if (err)
		return err;
	for (uint32_t ring = 0; ring < all->config.rings->n; ring++)
		for (unsigned i = 0; i < all->config.workers; i++) {
			struct worker_baseline baseline;

			if (worker_baseline(all->config.worker[i], ring, &baseline) == 0)
				subscriptions_begin_ring(all, subscription, ring, baseline.seq);
		}
	live(all, subscription);
	return 0;
}

/* The run before may have had others, which went where its rings stand. */
static void begin_gone(struct subscriptions *all)
{
	for (uint32_t ring = 0; ring < all->config.rings->n; ring++)
		for (unsigned i = 0; i < all->config.workers; i++) {
			struct worker_baseline baseline;

			if (worker_baseline(all->config.worker[i], ring, &baseline) == 0)
				all->gone[ring] = baseline.seq + 1;
		}
}

int subscriptions_adopt(struct subscriptions *all, struct error *error)
{
	struct subscription *subscription;

	begin_gone(all);
	TAILQ_FOREACH(subscription, &all->list, link)
		if (subscription->origin == SUBSCRIPTION_RESTORED && adopt(all, subscription) != 0)
			return error_set(error, ENOMEM, "out-of-memory", "out of memory");
	/* The kernel still records what the run before wanted: now it learns what this one wants. */
	recorder_resume(all->recorder);
	return 0;
}


int subscriptions_init(struct subscriptions *all, const struct subscriptions_config *config)
{
	TAILQ_INIT(&all->list);
	all->config = *config;
	all->saving = true;
	all->gone = calloc(config->rings->n + 1, sizeof(*all->gone));
	return all->gone ? 0 : -ENOMEM;
}

void subscriptions_fini(struct subscriptions *all)
{
	struct subscription *subscription;

	while ((subscription = TAILQ_FIRST(&all->list))) {
		TAILQ_REMOVE(&all->list, subscription, link);
		subscription_destroy(subscription);
	}
	free(all->gone);
}
