/*
 * top_view: one table of `tracectl top`: a subscription, and the answer that its events make each interval;
 * or the stream of one row of it; or the daemon's losses.
 *
 * Out: the newest block of lines, with nothing in it that acts on a terminal. One thread.
 */
#ifndef RINGTAIL_CLIENT_CLI_TOP_VIEW_H
#define RINGTAIL_CLIENT_CLI_TOP_VIEW_H

#include "client/cli/answer.h"
#include "client/cli/options.h"
#include "client/lib/ringtail.h"

struct top_kind {
	const char *name;
	const char *probe[TOP_PROBES_MAX];	/* NULL: the losses, which are no events */
	enum answer_shape shape;
	const char *by;
	unsigned flags;
	const char *row_filter;			/* of the row's first name: a format with one %s, or NULL; */
	const char *row_probe;			/* or of the probe */
	bool is_text;				/* the name goes in quotes, to the end of the line */
};

extern const struct top_kind top_kinds[];
extern const unsigned top_kinds_count;

/* The one of that name; NULL: there is none. */
const struct top_kind *top_kind_find(const char *name);

/* What its table asks. */
struct answer_question top_question(const struct top_kind *kind, const struct settings *settings,
				    enum answer_sort sort);

struct top_view;

/* `filter` may be NULL. `row`: a line of this kind's table, whose events are to be streamed; NULL: none. */
int top_view_open(const struct settings *settings, const struct top_kind *kind, const char *filter,
		  const char *row, enum answer_sort sort, struct top_view **made, struct ringtail_error *error);
void top_view_close(struct top_view *view);

/*
 * Waits for so long at most, or until `interrupt_fd` is readable; takes what comes. 1: there are new lines,
 * 0: there are none, or -errno with *error: it is over.
 */
int top_view_wait(struct top_view *view, int interrupt_fd, int timeout_ms, struct ringtail_error *error);

/* Borrowed until the next wait. */
const char *top_view_text(const struct top_view *view, size_t *bytes);

void top_view_sort(struct top_view *view, enum answer_sort sort);

/* NULL where the view is of losses. */
const struct ringtail_totals *top_view_totals(const struct top_view *view);
const char *top_view_host(const struct top_view *view);

/* Whether that line of the table is a row, that can be streamed. */
bool top_view_is_row(const struct top_kind *kind, const char *line, size_t bytes);

#endif
