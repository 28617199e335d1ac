/*
 * stat_print: a Stat of the daemon, for people and for programs.
 */
#ifndef RINGTAIL_CLIENT_CLI_STAT_PRINT_H
#define RINGTAIL_CLIENT_CLI_STAT_PRINT_H

#include <stdbool.h>

#include "client/cli/out.h"
#include "client/lib/ringtail.h"
#include "proto/ringtail.pb-c.h"

/* A block of lines; rates are over the time since `before`, or absent where that is NULL. */
void stat_print_text(struct out *out, const struct ringtail_host *host,
		     const Ringtail__V1__Stat *stat, const Ringtail__V1__Stat *before);

/* The same for a terminal that shows its beginning only: what matters most first, no zeros. */
void stat_print_brief(struct out *out, const struct ringtail_host *host,
		      const Ringtail__V1__Stat *stat, const Ringtail__V1__Stat *before);

/* One object, one line. -ENOMEM or -EBADMSG (a name is not UTF-8): nothing was written. */
int stat_print_json(struct out *out, const Ringtail__V1__Stat *stat);

/* Whether every equation of it closes. */
bool stat_balanced(const Ringtail__V1__Stat *stat);

/* What was lost, and what to do so that it is not lost again. */
#define LOSS_ADVICE_BYTES 256

struct loss_advice {
	char name[32];			/* "ring full" */
	const char *what;		/* happened */
	char remedy[LOSS_ADVICE_BYTES];
};

/*
 * The advice for the next reason from *reason on for which a ring, a client, a spool or an export has
 * lost something; *reason is the one after it then. False: there is no other.
 */
bool loss_advice_next(const Ringtail__V1__Stat *stat, unsigned *reason,
		      struct loss_advice *advice);

#endif
