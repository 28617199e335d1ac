/*
 * cmd_dump: the flight recorder: what the daemon's memory and spool hold of the last seconds, to a file.
 *
 * It is a recording from then until now, by the same subscription as any other; streams go on beside it.
 */
#include <stdio.h>

#include "client/cli/cmd.h"

#define LAST_NS		30000000000ull

enum exit_code cmd_dump(const struct settings *settings)
{
	struct settings asked = *settings;
	char since[32];

	snprintf(since, sizeof(since), "-%lluns",
		 (unsigned long long)(settings->last ? settings->last : LAST_NS));
	asked.since = since;
	asked.until = "now";
	return cmd_record_as(&asked, "dump");
}
