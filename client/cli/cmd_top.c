/*
 * cmd_top: what the kernel does now, on a full screen: tables of processes, calls, files, and so on, each a
 * question as count and summary ask it, every second; a row opens as a stream. --plain prints the same
 * tables one below the other.
 */
#include <curses.h>
#include <errno.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "client/cli/cmd.h"
#include "client/cli/stop.h"
#include "client/cli/top_view.h"
#include "client/cli/units.h"
#include "client/cli/where.h"
#include "client/lib/failure.h"
#include "client/lib/limits.h"

#define HEAD_LINES	2
#define TABLE_HEAD_LINES	2	/* of an answer's table: the time, and what the columns are */
#define ESCAPE		27
#define FILTER_BYTES	512
#define ROW_BYTES	1024

struct top {
	const struct settings *settings;
	const struct top_kind *kind;
	struct top_view *view;
	char filter[FILTER_BYTES];
	char row[ROW_BYTES];		/* that is streamed; "": the table is shown */
	enum answer_sort sort;
	unsigned selected;		/* line of the screen, from the head on */
	bool paused, over;
	char *frozen;			/* what is shown: a copy, for it must not change in a pause */
	size_t frozen_bytes;
	struct ringtail_error error;	/* of the last key; code "": none */
	int interrupt_fd, stop_fd;
};

static const char *const sort_name[] = {
	[ANSWER_SORT_SHAPE] = "most", [ANSWER_SORT_EVENTS] = "count", [ANSWER_SORT_TIME] = "time",
	[ANSWER_SORT_ERRORS] = "errors", [ANSWER_SORT_NAME] = "name",
};

/* ---- Drawing --------------------------------------------------------------------------------- */

/* As much of a line as there are columns, cut between two characters. */
static void put_line(int y, const char *text, size_t bytes, attr_t how)
{
	size_t room = COLS > 0 ? (size_t)COLS : 0, n = bytes < room ? bytes : room;

	while (n < bytes && n && ((unsigned char)text[n] & 0xc0) == 0x80)
		n--;
	move(y, 0);
	clrtoeol();
	attron(how);
	if (MB_CUR_MAX > 1)
		addnstr(text, (int)n);
	for (size_t i = 0; MB_CUR_MAX == 1 && i < n; i++)
		addch((unsigned char)text[i] < 0x80 ? (chtype)text[i] : '?');
	attroff(how);
}

static void put_head(struct top *top)
{
	const struct ringtail_totals *totals = top_view_totals(top->view);
	char line[1024] = "", wire[UNITS_TEXT_BYTES];

	for (unsigned i = 0; i < top_kinds_count; i++)
		snprintf(line + strlen(line), sizeof(line) - strlen(line),
			 &top_kinds[i] == top->kind ? "[%u %s] " : " %u %s  ", i + 1, top_kinds[i].name);
	put_line(0, line, strlen(line), A_BOLD);
	snprintf(line, sizeof(line), "%s%.64s", top->paused ? "PAUSED  " : "", top_view_host(top->view));
	if (!top->row[0] && top->kind->probe[0])
		snprintf(line + strlen(line), sizeof(line) - strlen(line), "  by %s", sort_name[top->sort]);
	if (totals)
		snprintf(line + strlen(line), sizeof(line) - strlen(line), "  %llu lost  %s",
			 (unsigned long long)totals->lost,
			 units_format_bytes((double)totals->wire_bytes, wire));
	if (top->filter[0])
		snprintf(line + strlen(line), sizeof(line) - strlen(line), "  filter %.400s", top->filter);
	put_line(1, line, strlen(line), totals && totals->lost ? A_BOLD : A_NORMAL);
}

static void put_foot(struct top *top)
{
	char line[1200];

	if (top->error.code[0])
		snprintf(line, sizeof(line), "%s  %s", top->error.what, top->error.hint);
	else
		snprintf(line, sizeof(line), top->row[0] ?
			 "Esc table  space pause  q quit" :
			 "1-%u table  arrows row  Enter stream of it  s sort  / filter  space pause  q quit",
			 top_kinds_count);
	put_line(LINES - 1, line, strlen(line), A_REVERSE);
}

/* The n-th line of what is shown; of a stream, those that fit at its end. NULL: there are not so many. */
static const char *find_line(const struct top *top, unsigned n, size_t *bytes)
{
	unsigned rows = LINES > HEAD_LINES + 1 ? (unsigned)LINES - HEAD_LINES - 1 : 0, lines = 0, skip;
	const char *at = top->frozen, *end = at + top->frozen_bytes;

	for (const char *line = at; top->row[0] && line < end; line++)
		lines += *line == '\n';
	skip = n + (lines > rows ? lines - rows : 0);
	for (; at < end && skip; skip--)
		at = (const char *)memchr(at, '\n', (size_t)(end - at)) + 1;
	if (at >= end)
		return NULL;
	*bytes = (size_t)((const char *)memchr(at, '\n', (size_t)(end - at)) - at);
	return at;
}

static void draw(struct top *top)
{
	size_t bytes;

	if (!top->paused) {
		const char *text = top_view_text(top->view, &bytes);

		/* Whole lines: of a table that is too large, and of a stream's oldest. */
		while (bytes && text[bytes - 1] != '\n')
			bytes--;
		memcpy(top->frozen, text, bytes);
		top->frozen_bytes = bytes;
	}
	erase();
	put_head(top);
	for (unsigned i = 0; (int)i < LINES - HEAD_LINES - 1; i++) {
		const char *line = find_line(top, i, &bytes);

		if (!line)
			break;
		put_line((int)i + HEAD_LINES, line, bytes,
			 !top->row[0] && i == top->selected ? A_REVERSE : A_NORMAL);
	}
	put_foot(top);
	refresh();
}

/* ---- Keys ------------------------------------------------------------------------------------ */

/* Another table, filter or row: where it is refused, what was there stays. */
static void turn_to(struct top *top, const struct top_kind *kind, const char *filter, const char *row)
{
	struct top_view *view;

	if (top_view_open(top->settings, kind, filter, row, top->sort, &view, &top->error))
		return;
	top_view_close(top->view);
	top->view = view;
	top->kind = kind;
	top->paused = false;
	top->selected = TABLE_HEAD_LINES;
	top->frozen_bytes = 0;
	if (filter != top->filter)
		snprintf(top->filter, sizeof(top->filter), "%s", filter);
	snprintf(top->row, sizeof(top->row), "%s", row ? row : "");
}

static void open_row(struct top *top)
{
	char row[ROW_BYTES];
	size_t bytes;
	const char *line = find_line(top, top->selected, &bytes);

	if (top->row[0])
		return;
	if (!line || !top_view_is_row(top->kind, line, bytes)) {
		failure_set(&top->error, EINVAL, "no-row", "choose a row with the arrow keys first");
		return;
	}
	snprintf(row, sizeof(row), "%.*s", (int)bytes, line);
	turn_to(top, top->kind, top->filter, row);
}

static void ask_filter(struct top *top)
{
	char filter[FILTER_BYTES] = "";

	put_line(LINES - 1, "filter: ", 8, A_BOLD);
	echo();
	nodelay(stdscr, FALSE);
	curs_set(1);
	if (mvgetnstr(LINES - 1, 8, filter, sizeof(filter) - 1) == OK)
		turn_to(top, top->kind->probe[0] ? top->kind : &top_kinds[0], filter, NULL);
	curs_set(0);
	nodelay(stdscr, TRUE);
	noecho();
}

static void take_key(struct top *top, int key)
{
	top->error.code[0] = '\0';
	if (key == 'q') {
		top->over = true;
	} else if (key >= '1' && key < '1' + (int)top_kinds_count) {
		turn_to(top, &top_kinds[key - '1'], top->filter, NULL);
	} else if (key == '\t') {
		turn_to(top, &top_kinds[(unsigned)(top->kind - top_kinds + 1) % top_kinds_count], top->filter,
			NULL);
	} else if (key == ' ' || key == 'p') {
		top->paused = !top->paused;
	} else if (key == 's') {
		top->sort = (top->sort + 1) % (sizeof(sort_name) / sizeof(*sort_name));
		top_view_sort(top->view, top->sort);
	} else if (key == KEY_UP || key == 'k') {
		top->selected -= top->selected > 0;
	} else if (key == KEY_DOWN || key == 'j') {
		top->selected += (int)top->selected + HEAD_LINES + 2 < LINES;
	} else if (key == '\n' || key == KEY_ENTER) {
		open_row(top);
	} else if (key == ESCAPE && top->row[0]) {
		turn_to(top, top->kind, top->filter, NULL);
	} else if (key == '/' || key == 'f') {
		ask_filter(top);
	}
}

/* ---- The loop -------------------------------------------------------------------------------- */

static bool is_readable(int fd)
{
	struct epoll_event event;
	int epoll = epoll_create1(EPOLL_CLOEXEC), n = 0;

	if (epoll >= 0 && fd >= 0 && !epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &(struct epoll_event){ .events = EPOLLIN }))
		n = epoll_wait(epoll, &event, 1, 0);
	if (epoll >= 0)
		close(epoll);
	return n > 0;
}

/* One descriptor for keys and for signals. */
static int watch(struct top *top)
{
	int fds[] = { STDIN_FILENO, top->stop_fd = stop_init() };

	top->interrupt_fd = epoll_create1(EPOLL_CLOEXEC);
	for (size_t i = 0; i < 2 && top->interrupt_fd >= 0; i++)
		if (fds[i] >= 0 && epoll_ctl(top->interrupt_fd, EPOLL_CTL_ADD, fds[i],
					     &(struct epoll_event){ .events = EPOLLIN }))
			return -errno;
	return top->interrupt_fd < 0 ? -errno : 0;
}

static int run(struct top *top, struct ringtail_error *error)
{
	while (!top->over) {
		int key, err = top_view_wait(top->view, top->interrupt_fd, TOP_REDRAW_MS, error);

		if (err < 0)
			return err;
		/* A terminal that is gone reads as an end of file: ERR with something to read. */
		while ((key = getch()) != ERR)
			take_key(top, key);
		if (is_readable(top->stop_fd) || is_readable(STDIN_FILENO))
			top->over = true;
		else
			draw(top);
	}
	return 0;
}

static enum exit_code full_screen(const struct settings *settings, const struct top_kind *kind)
{
	struct top top = { .settings = settings, .kind = kind, .selected = TABLE_HEAD_LINES };
	struct ringtail_error error = { 0 };
	int err;

	top.frozen = malloc(TOP_STREAM_BYTES);
	if (!top.frozen || watch(&top)) {
		failure_set(&error, ENOMEM, "no-memory", "out of memory, or of descriptors");
		free(top.frozen);
		return cmd_fail(&error, NULL);
	}
	snprintf(top.filter, sizeof(top.filter), "%s", settings->filter ? settings->filter : "");
	err = top_view_open(settings, kind, top.filter, NULL, top.sort, &top.view, &error);
	if (!err) {
		setlocale(LC_CTYPE, "");
		set_escdelay(50);
		initscr();
		cbreak();
		noecho();
		keypad(stdscr, TRUE);
		nodelay(stdscr, TRUE);
		curs_set(0);
		err = run(&top, &error);
		endwin();
		top_view_close(top.view);
	}
	close(top.interrupt_fd);
	free(top.frozen);
	return err ? cmd_fail(&error, cmd_text_of(settings, &error)) : EXIT_GOOD;
}

/* Table after table: for a screen reader, a log, a pipe. */
static enum exit_code plain(const struct settings *settings, const struct top_kind *kind)
{
	struct settings asked = *settings;
	struct cmd_view view = { .ops = &answer_ops };
	struct answer_question question = top_question(kind, settings, ANSWER_SORT_SHAPE);
	struct ringtail_error error;
	struct where where;

	asked.operand = NULL;
	if (!asked.interval)
		asked.interval = STAT_INTERVAL_MS * 1000000ull;
	if (!kind->probe[0]) {
		asked.watch = true;
		return cmd_stat(&asked);
	}
	while (asked.probe.n < TOP_PROBES_MAX && kind->probe[asked.probe.n]) {
		asked.probe.text[asked.probe.n] = kind->probe[asked.probe.n];
		asked.probe.n++;
	}
	asked.flags |= kind->flags;
	if (!where_choose(&asked, &question, &where)) {
		view.question = &where.asked;
		question.from_hello = true;
	}
	view.sink = answer_create(&question, cmd_out(), &error);
	if (!view.sink)
		return cmd_fail(&error, NULL);
	return cmd_follow(&asked, &view, NULL, "top");
}

enum exit_code cmd_top(const struct settings *settings)
{
	const struct top_kind *kind = top_kind_find(settings->operand ? settings->operand : "processes");
	struct ringtail_error error;

	if (!kind) {
		failure_set(&error, EINVAL, "unknown-table", "there is no table '%.64s'", settings->operand);
		failure_hint(&error, "processes, calls, files, connections, containers, scheduler or losses");
		return cmd_usage(&error, "top");
	}
	if (settings->plain)
		return plain(settings, kind);
	if (isatty(STDIN_FILENO) && isatty(STDOUT_FILENO))
		return full_screen(settings, kind);
	failure_set(&error, EINVAL, "no-terminal", "a full screen needs a terminal on stdin and stdout");
	failure_hint(&error, "tracectl top --plain prints the tables one below the other");
	return cmd_usage(&error, "top");
}
