/*
 * sink: where items go to be shown: as text for people, as JSON lines for programs, as
 * folded stacks for flame graphs, as the files of other tools.
 *
 * A loss is part of every format but the folded stacks, whose readers know nothing but stacks.
 */
#ifndef RINGTAIL_CLIENT_CLI_SINK_H
#define RINGTAIL_CLIENT_CLI_SINK_H

#include <stdbool.h>

#include "client/cli/out.h"
#include "client/lib/ringtail.h"

struct sink;

#define SINK_COLOR	(1u << 0)
#define SINK_UTC	(1u << 2)	/* of text, the column of times */
#define SINK_RELATIVE	(1u << 3)
#define SINK_DELTA	(1u << 4)
#define SINK_MAPS	(1u << 1)	/* events of process:map:executable were asked for by name */

/* What a sink that writes files of its own is made of; all borrowed. The host may change. */
struct sink_place {
	const char *path;
	struct out *out;		/* its `error` is where the sink tells of a failed write */
	const struct ringtail_host *host;
	const char *label;		/* its name beside other hosts; NULL: it is the only one */
	const struct ringtail_totals *totals;
	unsigned flags;
};

struct sink_ops {
	bool wants_stacks;	/* without any there is nothing to show */
	bool is_binary;		/* not for a terminal */

	/* Instead of create(), for one that makes files: NULL with *error. */
	struct sink *(*open)(const struct sink_place *place, struct ringtail_error *error);

	/* `out` and `host` are borrowed; the host may be empty still, and change. NULL: no memory */
	struct sink *(*create)(struct out *out, const struct ringtail_host *host, unsigned flags);

	/*
	 * The caller has made it, and the events of one host, or of one host more, come now. Returns what takes
	 * them, the sink itself or a part of it, which is ended and destroyed as a sink is; NULL: no memory.
	 */
	struct sink *(*join)(struct sink *sink, const struct sink_place *place);

	/* Each event is shown with this, borrowed. NULL: it cannot tell several hosts apart. */
	void (*set_label)(struct sink *sink, const char *label);

	/* Events, losses, gaps, watermarks, and that a connection was lost; other kinds are passed over. */
	void (*item)(struct sink *sink, const struct ringtail_item *item);
	/* Before end(): what ended it that should not have. NULL: that is nothing to it. */
	void (*fail)(struct sink *sink, const char *what);
	void (*end)(struct sink *sink);	/* nothing more comes; NULL: that is nothing to it */
	void (*destroy)(struct sink *sink);
};

extern const struct sink_ops print_text, print_json, print_folded, print_csv, print_pprof,
	print_perfetto, print_kptrace, write_sqlite, write_ctf;

#endif
