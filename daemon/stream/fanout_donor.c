/*
 * fanout_donor: whose record of the past answers who asks for it with another request: a subscription that
 * recorded what this one wants, with more perhaps, before this one was there.
 */
#include <stdlib.h>
#include <string.h>

#include "daemon/stream/fanout_private.h"

enum reach_rank {
	REACHES_NOT,		/* no further than who asks */
	REACHES_FURTHER,
	REACHES_ALL,		/* or will say itself what it does not have */
};

/* Behind the parenthesis that closes the one it begins with; NULL: it begins with none. */
static const char *skip_group(const char *text)
{
	unsigned depth = 0;
	bool quoted = false;

	if (*text != '(')
		return NULL;
	for (; *text; text++) {
		if (quoted && *text == '\\' && text[1])
			text++;
		else if (*text == '"')
			quoted = !quoted;
		else if (!quoted && *text == '(')
			depth++;
		else if (!quoted && *text == ')' && --depth == 0)
			return text + 1;
	}
	return NULL;
}

/* Whatever passes `text` passes `other`: the same, or "(...) && (other)", as what is always on is narrowed. */
static bool implies(const char *text, const char *other)
{
	size_t bytes = strlen(other);
	const char *rest;

	if (!*other || strcmp(text, other) == 0)
		return true;
	rest = skip_group(text);
	return rest && strncmp(rest, " && (", 5) == 0 && strncmp(rest + 5, other, bytes) == 0 &&
	       strcmp(rest + 5 + bytes, ")") == 0;
}

static bool shares_probe(const struct probe_set *a, const struct probe_set *b)
{
	for (size_t i = 0; i < sizeof(a->bits); i++)
		if (a->bits[i] & b->bits[i])
			return true;
	return false;
}

static bool covers_probes(const struct probe_set *set, const struct probe_set *subset)
{
	for (size_t i = 0; i < sizeof(set->bits); i++)
		if (subset->bits[i] & ~set->bits[i])
			return false;
	return true;
}

static bool covers(const struct subscription *donor, const struct subscription *wanted)
{
	return covers_probes(&donor->spec.probes, &wanted->spec.probes) &&
	       !(wanted->spec.flags & ~donor->spec.flags) &&
	       implies(wanted->filter_text, donor->filter_text);
}

static enum reach_rank rank(const struct fanout *fanout, const struct subscription *donor,
			    const struct subscription *wanted, uint64_t realtime_ns,
			    struct cursor *since)
{
	enum place_found found = beginning_find_time(fanout, donor, realtime_ns, since);

	if (found == PLACE_FOUND || donor->spool.spool)
		return REACHES_ALL;
	return reach_recorded_ns(donor->reach) < reach_recorded_ns(wanted->reach) ?
		       REACHES_FURTHER : REACHES_NOT;
}

struct subscription *fanout_find_donor(const struct fanout *fanout,
				       const struct subscription *wanted, uint64_t realtime_ns,
				       bool *whole)
{
	struct cursor *since = fanout_cursor(fanout, NULL);
	struct subscription *donor, *best = NULL;
	unsigned best_rank = 0;

	if (!since || wanted->spool.spool ||
	    beginning_find_time(fanout, wanted, realtime_ns, since) == PLACE_FOUND) {
		free(since);
		return NULL;
	}
	TAILQ_FOREACH(donor, &fanout->subscriptions, link) {
		unsigned ranked;

		/* Of a record without context, a filter that asks for it could only say no. */
		if (donor == wanted || donor->state != SUBSCRIPTION_LIVE ||
		    (wanted->spec.context && !donor->spec.context) ||
		    !shares_probe(&donor->spec.probes, &wanted->spec.probes))
			continue;
		ranked = rank(fanout, donor, wanted, realtime_ns, since);
		if (ranked != REACHES_NOT && covers(donor, wanted))
			ranked += REACHES_ALL;
		if (ranked > best_rank) {
			best = donor;
			best_rank = ranked;
		}
	}
	*whole = best_rank > REACHES_ALL;
	free(since);
	return best;
}
