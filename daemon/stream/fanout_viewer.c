/*
 * fanout_viewer: what a viewer may ask for. Whoever watches makes the kernel record, and so makes every
 * system call of the host dearer: by how much is the operators' to say (viewer-*). What is always on is
 * recorded anyway, and everybody's.
 */
#include <errno.h>
#include <stdio.h>

#include "daemon/stream/fanout_private.h"

enum fanout_claim fanout_claim_of(const struct client_identity *identity)
{
	if (!identity)
		return FANOUT_EXPORT;
	return identity->role >= ROLE_OPERATOR ? FANOUT_CLIENTS : FANOUT_VIEWERS;
}

static int refuse_flags(const char *what, const char *option, struct error *error)
{
	error_set(error, EACCES, "viewer-flags", "viewers may not ask for %s here", what);
	error_hint(error, "ask without; or an operator puts `%s = yes` into the daemon's configuration",
		   option);
	return -EACCES;
}

/* All that is allowed, as it was written, as far as there is room. */
static void refuse_probe(const struct fanout *fanout, const Ringtail__V1__Probe *probe,
			 struct error *error)
{
	const struct config_words *allowed = fanout->config.viewers.probe;
	char list[256] = "";
	size_t used = 0;

	for (unsigned i = 0; i < allowed->count && used < sizeof(list); i++)
		used += (size_t)snprintf(list + used, sizeof(list) - used, "%s%s", i ? ", " : "",
					 allowed->word[i]);
	error_set(error, EACCES, "viewer-probes", "viewers may not ask for %s:%s:%s here",
		  probe->provider, probe->function, probe->name);
	error_hint(error, "allowed are what is always on, and %s%s; an operator adds `viewer-probe ="
			  " SPEC` to the daemon's configuration", list,
		   used < sizeof(list) ? "" : "...");
}

static int check_probes(const struct fanout *fanout, const struct probe_set *probes,
			struct error *error)
{
	const Ringtail__V1__Catalog *catalog = loader_catalog(fanout->config.loader);
	const struct config_words *words = fanout->config.viewers.probe;
	struct probe_set allowed = {0};
	struct error unknown;

	/* What this kernel has not, nobody asks for. */
	for (unsigned i = 0; i < words->count; i++)
		if (probe_set_add_glob(&allowed, words->word[i], catalog, &unknown) != 0)
			continue;
	for (size_t i = 0; i < catalog->n_probe; i++)
		if (probe_set_test(probes, catalog->probe[i]->id) &&
		    !probe_set_test(&allowed, catalog->probe[i]->id)) {
			refuse_probe(fanout, catalog->probe[i], error);
			return -EACCES;
		}
	return 0;
}

int fanout_check_viewer(const struct fanout *fanout, enum fanout_claim claim, uint32_t flags,
			const struct probe_set *probes, struct error *error)
{
	const struct fanout_viewers *viewers = &fanout->config.viewers;

	if (claim != FANOUT_VIEWERS)
		return 0;
	if (flags & (RT_FLAG_KSTACK | RT_FLAG_USTACK) && !viewers->stacks)
		return refuse_flags("stacks", "viewer-stacks", error);
	if (flags & RT_FLAG_STRINGS && !viewers->strings)
		return refuse_flags("strings", "viewer-strings", error);
	return probes && viewers->probe && viewers->probe->count ?
		       check_probes(fanout, probes, error) : 0;
}

int fanout_check_viewers_room(const struct fanout *fanout, struct error *error)
{
	const struct subscription *subscription;
	uint64_t made = 0;

	TAILQ_FOREACH(subscription, &fanout->subscriptions, link)
		made += subscription->viewers && subscription->state != SUBSCRIPTION_REMOVING;
	if (made < fanout->config.viewers.subscriptions)
		return 0;
	error_set(error, EACCES, "viewer-subscriptions",
		  "viewers have made %llu different subscriptions, of at most %llu",
		  (unsigned long long)made,
		  (unsigned long long)fanout->config.viewers.subscriptions);
	error_hint(error, "ask for what is always on, or for the same as another client; or an operator"
			  " raises viewer-subscriptions in the daemon's configuration");
	return -EACCES;
}

void fanout_set_viewers(struct fanout *fanout, const struct fanout_viewers *viewers)
{
	struct subscription *subscription;
	struct stream *stream;

	fanout->config.viewers = *viewers;
	TAILQ_FOREACH(subscription, &fanout->subscriptions, link)
		TAILQ_FOREACH(stream, &subscription->streams, link)
			if (stream->rate.bound)
				stream_set_rate(stream, viewers->rate);
}
