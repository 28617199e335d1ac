#include "client/cli/top_view.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "client/cli/request.h"
#include "client/cli/screen.h"
#include "client/cli/stat_print.h"
#include "client/cli/where.h"
#include "client/lib/failure.h"
#include "client/lib/limits.h"
#include "client/lib/unpack.h"
#include "query/visible.h"

/* Where the names begin, behind the numbers of the answer's table. */
#define SUMMARY_NAMES	79u
#define COUNT_NAMES	14u

const struct top_kind top_kinds[] = {
	{ .name = "processes", .probe = { "syscall:*:call" }, .shape = ANSWER_SUMMARY, .by = "pid,comm",
	  .row_filter = "pid == %s" },
	{ .name = "calls", .probe = { "syscall:*:call" }, .shape = ANSWER_SUMMARY, .by = "function",
	  .row_probe = "syscall:%s:call" },
	{ .name = "files", .probe = { "syscall:open*:call" }, .shape = ANSWER_SUMMARY, .by = "filename",
	  .flags = RINGTAIL_STRINGS, .row_filter = "filename == \"%s\"", .is_text = true },
	{ .name = "connections",
	  .probe = { "syscall:connect:call", "syscall:accept*:call", "syscall:send*:call", "syscall:recv*:call" },
	  .shape = ANSWER_SUMMARY, .by = "pid,comm,function,addr",
	  .flags = RINGTAIL_STRINGS, .row_filter = "pid == %s" },
	{ .name = "containers", .probe = { "syscall:*:call" }, .shape = ANSWER_SUMMARY, .by = "cgroup",
	  .flags = RINGTAIL_CONTEXT, .row_filter = "cgroup == \"%s\"", .is_text = true },
	{ .name = "scheduler", .probe = { "tracepoint:sched:sched_switch" }, .shape = ANSWER_COUNT,
	  .by = "tid,comm,cpu", .row_filter = "tid == %s" },
	{ .name = "losses" },
};
const unsigned top_kinds_count = sizeof(top_kinds) / sizeof(*top_kinds);

struct top_view {
	struct ringtail *ringtail;	/* NULL: of losses */
	const struct sink_ops *ops;
	struct sink *sink;
	struct screen *screen;
	struct out *out;
	bool is_stream;			/* its lines are added, and the oldest go */
	char *text;
	size_t bytes;
	struct request *request;
	struct arena *before;		/* holds: */
	Ringtail__V1__Stat *stat;
};

const struct top_kind *top_kind_find(const char *name)
{
	for (unsigned i = 0; i < top_kinds_count; i++)
		if (!strcmp(top_kinds[i].name, name))
			return &top_kinds[i];
	return NULL;
}

/* ---- A row ----------------------------------------------------------------------------------- */

static size_t names_begin(const struct top_kind *kind)
{
	return kind->shape == ANSWER_COUNT ? COUNT_NAMES : SUMMARY_NAMES;
}

bool top_view_is_row(const struct top_kind *kind, const char *line, size_t bytes)
{
	size_t begin = names_begin(kind);

	/* A row has a number before its names; a head has a word, and what is told of losses is shorter. */
	return kind->probe[0] && bytes > begin && line[begin - 1] == ' ' && line[begin] != ' ' &&
	       line[begin - 3] >= '0' && line[begin - 3] <= '9';
}

/* The first name of the row as one of the language's. */
static void take_name(const struct top_kind *kind, const char *row, char *name, size_t name_bytes)
{
	const char *from = row + names_begin(kind);
	size_t n = 0;

	for (; *from && *from != '\n' && (kind->is_text || *from != ' ') && n + 2 < name_bytes; from++) {
		if (*from == '"' || *from == '\\')
			name[n++] = '\\';
		name[n++] = *from;
	}
	name[n] = '\0';
}

/* Of the kind's filter for the row and the user's, both. Returns false where it does not fit. */
static bool make_filter(const struct top_kind *kind, const char *row, const char *filter, char *to,
			size_t to_bytes)
{
	char name[512], of_row[640] = "";
	int n;

	if (row && kind->row_filter) {
		take_name(kind, row, name, sizeof(name));
		/* The formats are the table's own, each with one %s. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
		n = snprintf(of_row, sizeof(of_row), kind->row_filter, name);
#pragma GCC diagnostic pop
		if (n < 0 || (size_t)n >= sizeof(of_row))
			return false;
	}
	if (filter && *filter && of_row[0])
		n = snprintf(to, to_bytes, "(%s) && %s", filter, of_row);
	else
		n = snprintf(to, to_bytes, "%s", filter && *filter ? filter : of_row);
	return n >= 0 && (size_t)n < to_bytes;
}

/* ---- Events ---------------------------------------------------------------------------------- */

struct answer_question top_question(const struct top_kind *kind, const struct settings *settings,
				    enum answer_sort sort)
{
	return (struct answer_question){
		.shape = kind->shape,
		.by = kind->by,
		.of = kind->shape == ANSWER_SUMMARY ? "duration" : NULL,
		.interval_ns = settings->interval ? settings->interval : STAT_INTERVAL_MS * 1000000ull,
		.top = TOP_ROWS_MAX,
		.sort = sort,
	};
}

static int make_sink(struct top_view *view, const struct answer_question *question, struct ringtail_error *error)
{
	const struct sink_place place = { .out = view->out, .host = ringtail_host(view->ringtail) };

	view->ops = view->is_stream ? &print_text : &answer_ops;
	view->sink = view->is_stream ? print_text.create(view->out, place.host, 0) :
				       answer_create(question, view->out, error);
	if (view->sink && !view->is_stream && !answer_ops.join(view->sink, &place)) {
		answer_ops.destroy(view->sink);
		view->sink = NULL;
	}
	if (!view->sink && (view->is_stream || !*error->code))
		failure_set(error, ENOMEM, "no-memory", "out of memory");
	return view->sink ? 0 : -ENOMEM;
}

/* A daemon that is too old to count sends each event. */
static void ask(struct top_view *view, const struct settings *settings, struct answer_question *question,
		struct where *where)
{
	const struct ringtail_host *host = ringtail_host(view->ringtail);
	struct settings asked = *settings;
	struct ringtail_error ignored;

	asked.operand = NULL;
	if (where_choose(&asked, question, where))
		return;
	where_set_origin(&where->asked, host, host);
	question->from_hello = !ringtail_ask(view->ringtail, &where->asked, &ignored);
}

static int subscribe(struct top_view *view, const struct settings *settings, const struct top_kind *kind,
		     const char *filter, const char *row, enum answer_sort sort,
		     struct ringtail_error *error)
{
	struct ringtail_subscription wanted = { .probe = kind->probe, .flags = kind->flags, .reconnect = true };
	struct answer_question question = top_question(kind, settings, sort);
	struct where where;
	const char *probe;
	char text[1024], spec[640], name[512];
	int err;

	if (!make_filter(kind, row, filter, text, sizeof(text)))
		return failure_set(error, EINVAL, "too-long", "the row's name is too long for a filter");
	wanted.filter = text;
	while (wanted.probes < TOP_PROBES_MAX && kind->probe[wanted.probes])
		wanted.probes++;
	if (row && kind->row_probe) {
		take_name(kind, row, name, sizeof(name));
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
		snprintf(spec, sizeof(spec), kind->row_probe, name);
#pragma GCC diagnostic pop
		probe = spec;
		wanted.probe = &probe;
		wanted.probes = 1;
	}
	if (row)
		wanted.flags |= RINGTAIL_STRINGS;
	err = ringtail_connect(settings->connect.text[0], &view->ringtail, error);
	if (!err && !row)
		ask(view, settings, &question, &where);
	if (!err)
		err = ringtail_subscribe(view->ringtail, &wanted, error);
	return err ? err : make_sink(view, &question, error);
}

/* ---- Losses ---------------------------------------------------------------------------------- */

static int ask_stat(struct top_view *view, const struct settings *settings, struct ringtail_error *error)
{
	Ringtail__V1__StatRequest message = RINGTAIL__V1__STAT_REQUEST__INIT;
	uint64_t interval_ms = settings->interval ? settings->interval / 1000000 : STAT_INTERVAL_MS;
	int err = request_open(settings->connect.text[0], -1, &view->request, error);

	message.interval_ms = (uint32_t)(interval_ms < 1 ? 1 : interval_ms > 3600000 ? 3600000 : interval_ms);
	return err ? err : request_send(view->request, FRAME_STAT_REQUEST, &message.base, error);
}

static int take_stat(struct top_view *view, int timeout_ms, struct ringtail_error *error)
{
	Ringtail__V1__Stat *stat;
	struct arena *arena;
	const uint8_t *body;
	size_t bytes;
	int err = request_wait(view->request, FRAME_STAT, timeout_ms, &body, &bytes, error);

	if (err == -ETIMEDOUT || err == -EINTR)
		return 0;
	if (err)
		return err;
	stat = unpack(&ringtail__v1__stat__descriptor, body, bytes, &arena);
	if (!stat)
		return failure_set(error, EBADMSG, "bad-message", "the daemon's answer does not unpack");
	visible_replace_message(&stat->base);
	stat_print_brief(view->out, request_host(view->request), stat, view->stat);
	arena_destroy(view->before);
	view->before = arena;
	view->stat = stat;
	return 0;
}

/* ---- Lines ----------------------------------------------------------------------------------- */

/* What was written since: of a table all of it, of a stream behind what there is. */
static int take_lines(struct top_view *view, struct ringtail_error *error)
{
	size_t old = view->is_stream ? view->bytes : 0, bytes = 0, cut = 0;
	char *text = NULL;
	int err;

	if (!view->out->used && !view->out->flushed)
		return 0;
	err = screen_take(view->screen, &text, &bytes);
	if (err)
		return failure_set(error, -err, "no-memory", "no memory for what is to be shown: %s",
				   strerror(-err));
	if (bytes >= TOP_STREAM_BYTES)
		cut = bytes - TOP_STREAM_BYTES;
	if (old > TOP_STREAM_BYTES - (bytes - cut)) {
		memmove(view->text, view->text + old - (TOP_STREAM_BYTES - (bytes - cut)),
			TOP_STREAM_BYTES - (bytes - cut));
		old = TOP_STREAM_BYTES - (bytes - cut);
	}
	/* Of a stream the last count, of a table the first. */
	memcpy(view->text + old, text + (view->is_stream ? cut : 0), bytes - cut);
	view->bytes = old + bytes - cut;
	free(text);
	view->out = screen_begin(view->screen);
	return 1;
}

int top_view_wait(struct top_view *view, int interrupt_fd, int timeout_ms, struct ringtail_error *error)
{
	struct ringtail_item item;
	int err;

	if (view->request) {
		err = take_stat(view, timeout_ms, error);
		return err ? err : take_lines(view, error);
	}
	ringtail_set_interrupt(view->ringtail, interrupt_fd);
	for (unsigned i = 0; i < TOP_ITEMS_MAX; i++) {
		switch (ringtail_next(view->ringtail, &item, i ? 0 : timeout_ms)) {
		case RINGTAIL_TIMEOUT:
		case RINGTAIL_INTERRUPTED:
			return take_lines(view, error);
		case RINGTAIL_ERROR:
			*error = *ringtail_last_error(view->ringtail);
			return -EIO;
		case RINGTAIL_END:
			return failure_set(error, EPIPE, "ended", "the daemon ended the stream: %s", item.text);
		case RINGTAIL_DISCONNECTED:
		case RINGTAIL_RECONNECTED:
			break;
		default:
			view->ops->item(view->sink, &item);
		}
	}
	return take_lines(view, error);
}

const char *top_view_text(const struct top_view *view, size_t *bytes)
{
	*bytes = view->bytes;
	return view->text;
}

void top_view_sort(struct top_view *view, enum answer_sort sort)
{
	if (view->sink && !view->is_stream)
		answer_set_sort(view->sink, sort);
}

const struct ringtail_totals *top_view_totals(const struct top_view *view)
{
	return view->ringtail ? ringtail_totals(view->ringtail) : NULL;
}

const char *top_view_host(const struct top_view *view)
{
	return view->ringtail ? ringtail_host(view->ringtail)->hostname : request_host(view->request)->hostname;
}

/* ---- Beginning and end ----------------------------------------------------------------------- */

int top_view_open(const struct settings *settings, const struct top_kind *kind, const char *filter,
		  const char *row, enum answer_sort sort, struct top_view **made, struct ringtail_error *error)
{
	struct top_view *view = calloc(1, sizeof(*view));
	int err = view && (view->text = malloc(TOP_STREAM_BYTES)) ? screen_create(&view->screen) : -ENOMEM;

	if (err) {
		failure_set(error, -err, "no-memory", "out of memory");
	} else {
		view->is_stream = row;
		view->out = screen_begin(view->screen);
		err = kind->probe[0] ? subscribe(view, settings, kind, filter, row, sort, error) :
				       ask_stat(view, settings, error);
	}
	if (err) {
		top_view_close(view);
		return err;
	}
	*made = view;
	return 0;
}

void top_view_close(struct top_view *view)
{
	if (!view)
		return;
	if (view->ops)
		view->ops->destroy(view->sink);
	if (view->ringtail)
		ringtail_close(view->ringtail);
	request_close(view->request);
	arena_destroy(view->before);
	screen_destroy(view->screen);
	free(view->text);
	free(view);
}
