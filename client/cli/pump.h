/*
 * pump: moves items from the library to a sink until there is a reason to stop, and reports the result.
 *
 * What stream, record, read and the questions have in common. Sinks, output and messages are used by one
 * thread at a time.
 */
#ifndef RINGTAIL_CLIENT_CLI_PUMP_H
#define RINGTAIL_CLIENT_CLI_PUMP_H

#include <stdbool.h>
#include <stdio.h>

#include "client/cli/out.h"
#include "client/lib/ringtail.h"
#include "client/cli/sink.h"

enum exit_code {
	EXIT_GOOD	= 0,
	EXIT_FAILED	= 1,
	EXIT_USAGE	= 2,
	EXIT_LOST	= 3,	/* events were lost, or the ledger does not close */
};

enum summary {
	SUMMARY_NONE,
	SUMMARY_TEXT,
	SUMMARY_JSON,
};

struct lanes;
struct who;

/* One of the hosts whose events come. */
struct pump_host {
	struct ringtail *ringtail;
	char *label;			/* its name beside other hosts; NULL: it is the only one */
};

struct pump {
	struct pump_host *host;		/* each is read by a thread of its own, if there are several */
	size_t hosts;
	bool through;			/* they are hosts of a relay, */
	size_t unasked;			/* which has so many more that were asked for, and cannot be asked */
	struct lanes *lanes;		/* instead: all hosts of one stream; NULL: none. Read in one thread */
	struct out *out;		/* flushed whenever nothing is at hand; */
	struct out *also;		/* this too; NULL: there is no other */
	const struct sink_ops *ops;	/* NULL: nothing is shown */
	const char *path;		/* what ops that make files of their own write */
	struct sink *sink;		/* what ops act on, taken; NULL: they create it */
	struct who *who;		/* which events are wanted, and a command to execute; NULL: all */
	bool color;
	unsigned sink_flags;		/* SINK_UTC, RELATIVE or DELTA */
	bool shows_maps;		/* events of process:map:executable are shown, and counted by -n */
	uint64_t events_max;		/* 0: no bound */
	uint64_t duration_ns;		/* 0: no bound; counts from the moment at which: */
	bool from_past;			/* the past, which may come first, has come up to the start */
	uint64_t until_realtime_ns;	/* 0: no bound */
	bool settles;			/* some host tells what it has counted at the end of each slice: it waits for that */
	bool resumable;			/* it makes sense to print a cursor at the end */
	bool acknowledges;		/* a durable consumer: what was written need not be kept */
	const char *cursor_path;	/* where its place is saved; NULL: nowhere */
	bool show_rate;			/* a live line, if `messages` is a terminal; */
	uint64_t bytes_all;		/* of a file, so that the line says how far it is; 0: nobody knows */
	bool events_on_terminal;	/* below the events, if they are shown on one too */
	enum summary summary;
	FILE *messages;			/* stderr, but for tests */
	const char *ended_by;		/* out: why it stopped by itself; NULL: it did not */
};

/*
 * Runs to the end; returns what to exit with. Prints errors, notes and the summary; and on SIGUSR1, when the next
 * frame has come, how far it is.
 */
enum exit_code pump_run(struct pump *pump);

/*
 * {"events":N,...}, one line. maps: how many of the events came for the names of stacks alone: they are
 * not counted as events that were asked for.
 */
void pump_print_summary(FILE *to, enum summary format, const struct ringtail_totals *totals,
			uint64_t maps, double seconds);

#endif
