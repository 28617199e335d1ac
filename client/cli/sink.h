/*
 * sink: where items go to be shown: as text for people, as JSON lines for programs, as
 * folded stacks for flame graphs.
 */
#ifndef RINGTAIL_CLIENT_CLI_SINK_H
#define RINGTAIL_CLIENT_CLI_SINK_H

#include "client/cli/out.h"
#include "client/lib/ringtail.h"

struct sink;

#define SINK_COLOUR	(1u << 0)
#define SINK_MAPS	(1u << 1)	/* events of process:map:executable were asked for by name */

struct sink_ops {
	/* `out` and `host` are borrowed; the host may be empty still, and change. NULL: no memory */
	struct sink *(*create)(struct out *out, const struct ringtail_host *host, unsigned flags);

	/* Events, losses, gaps and watermarks; other kinds are passed over. */
	void (*item)(struct sink *sink, const struct ringtail_item *item);
	void (*end)(struct sink *sink);	/* nothing more comes; NULL: that is nothing to it */
	void (*destroy)(struct sink *sink);
};

extern const struct sink_ops print_text, print_json, print_folded;

#endif
