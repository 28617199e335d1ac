/*
 * cmd_dump: the flight recorder: what the daemon's memory and spool hold of the last seconds, to a file.
 *
 * It is a recording from then until now, by the same subscription as any other; streams go on beside it.
 */
#include <errno.h>
#include <stdio.h>

#include "client/cli/cmd.h"
#include "client/lib/failure.h"

#define LAST_NS		30000000000ull

enum exit_code cmd_dump(const struct settings *settings)
{
	struct settings asked = *settings;
	struct ringtail_error error;
	char since[32];

	if (!settings->write) {
		failure_set(&error, EINVAL, "no-file", "dump where? -w FILE is missing");
		return cmd_usage(&error, "dump");
	}
	snprintf(since, sizeof(since), "-%lluns",
		 (unsigned long long)(settings->last ? settings->last : LAST_NS));
	asked.since = since;
	asked.until = "now";
	return cmd_record_as(&asked, "dump");
}
