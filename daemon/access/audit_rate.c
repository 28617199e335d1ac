#include "daemon/access/audit_rate.h"

#include <stdio.h>
#include <string.h>

#define THE_REST "others"	/* no identity is called so: they have a colon, or are `local` */

static bool is_over(const struct audit_rate *rate, const struct audit_talker *talker,
		    uint64_t now_ns)
{
	return now_ns >= talker->since_ns + rate->window_ns;
}

/* Its own count; or a free one, or of somebody who has nothing to tell any more; or everybody's. */
static struct audit_talker *find(struct audit_rate *rate, const char *who, uint64_t now_ns)
{
	struct audit_talker *unused = NULL, *rest = &rate->talker[AUDIT_TALKERS_MAX - 1];

	for (unsigned i = 0; i < AUDIT_TALKERS_MAX - 1; i++) {
		struct audit_talker *talker = &rate->talker[i];

		if (strcmp(talker->who, who) == 0)
			return talker;
		if (!unused &&
		    (!talker->who[0] || (is_over(rate, talker, now_ns) && !talker->more)))
			unused = talker;
	}
	if (unused)
		*unused = (struct audit_talker){.since_ns = now_ns};
	else
		who = THE_REST;
	snprintf((unused ? unused : rest)->who, IDENTITY_TEXT_BYTES, "%s", who);
	return unused ? unused : rest;
}

bool audit_rate_take(struct audit_rate *rate, const char *who, uint64_t now_ns)
{
	struct audit_talker *talker = find(rate, who, now_ns);

	/* What it kept to itself has still to be told: it is asked for with the next window's. */
	if (is_over(rate, talker, now_ns)) {
		talker->since_ns = now_ns;
		talker->said = 0;
	}
	if (talker->said < rate->max) {
		talker->said++;
		return true;
	}
	talker->more++;
	return false;
}

const char *audit_rate_next(struct audit_rate *rate, uint64_t now_ns, uint64_t *more)
{
	for (unsigned i = 0; i < AUDIT_TALKERS_MAX; i++) {
		struct audit_talker *talker = &rate->talker[i];

		if (!talker->more || (now_ns != UINT64_MAX && !is_over(rate, talker, now_ns)))
			continue;
		*more = talker->more;
		talker->more = 0;
		return talker->who;
	}
	return NULL;
}

uint64_t audit_rate_due(const struct audit_rate *rate)
{
	uint64_t due = 0;

	for (unsigned i = 0; i < AUDIT_TALKERS_MAX; i++) {
		const struct audit_talker *talker = &rate->talker[i];
		uint64_t end = talker->since_ns + rate->window_ns;

		if (talker->more && (!due || end < due))
			due = end;
	}
	return due;
}
