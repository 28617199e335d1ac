/*
 * print_folded: events with stacks in, folded stacks with their counts out, when the last event has
 * come: the input of flamegraph.pl.
 *
 *	busy;main;outer;middle;leaf 42
 *	busy;main;read;entry_SYSCALL_64_[k];vfs_read_[k] 7
 *
 * Stacks are kept as addresses until then: the maps that name them may come a moment later.
 */
#include "client/cli/sink.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/cli/stack_set.h"
#include "proto/limits.h"
#include "query/visible.h"

#define FRAMES_MAX	(2 * STACK_FRAMES_MAX)
#define LINE_BYTES_MAX	((FRAMES_MAX + 1) * (FUNCTION_BYTES_MAX + 8))

struct line {
	char *text;
	uint64_t count;
};

struct sink {
	struct out *out;
	struct stack_set *set;
	uint64_t others;		/* events whose stack found no room */
};

static struct sink *create(struct out *out, const struct ringtail_host *host, unsigned flags)
{
	struct sink *sink = calloc(1, sizeof(*sink));

	(void)flags;
	if (!sink)
		return NULL;
	sink->out = out;
	sink->set = stack_set_create(host);
	if (sink->set)
		return sink;
	free(sink);
	return NULL;
}

static void destroy(struct sink *sink)
{
	if (!sink)
		return;
	stack_set_destroy(sink->set);
	free(sink);
}

static void take(struct sink *sink, const struct ringtail_item *item)
{
	struct stack *stack;

	if (item->kind != RINGTAIL_EVENT || stack_names_learn(stack_set_names(sink->set), item))
		return;
	stack = stack_set_take(sink->set, item, 0);
	if (stack)
		stack->count++;
	else
		sink->others++;
}

/* ---- Lines ---------------------------------------------------------------------------------- */

/* A name as one part of a line: what separates parts, or acts on a terminal, is not in it. */
static char *put_part(char *at, const char *name, const char *suffix)
{
	size_t bytes = strnlen(name, FUNCTION_BYTES_MAX);
	char *part = at;

	memcpy(at, name, bytes);
	at[bytes] = '\0';
	visible_replace(at);
	for (; *at; at++)
		if (*at == ';')
			*at = ':';
	at = stpcpy(at, suffix);
	return at == part ? stpcpy(at, "?") : at;
}

static char *put_place(char *at, const struct code_place *place, bool kernel)
{
	char module[FUNCTION_BYTES_MAX];
	const char *slash;

	if (place->name)
		return put_part(at, place->name, kernel ? "_[k]" : "");
	if (!place->path)
		return put_part(at, "[unknown]", kernel ? "_[k]" : "");
	slash = strrchr(place->path, '/');
	snprintf(module, sizeof(module), "[%.200s]",
		 !place->path[0] ? "no file" : slash ? slash + 1 : place->path);
	return put_part(at, module, "");
}

/* From the outermost frame to the innermost, which the kernel's are. */
static char *make_line(struct sink *sink, const struct stack *stack, char *text)
{
	char comm[sizeof(stack->comm) + 1] = "";
	char *at;

	memcpy(comm, stack->comm, sizeof(stack->comm));
	at = put_part(text, comm, "");
	for (unsigned side = 0; side < 2; side++) {
		unsigned first = side ? stack->user : 0, end = side ? first + stack->kernel : stack->user;

		for (unsigned i = end; i-- > first;) {
			struct code_place place;

			stack_set_place(sink->set, stack, i, &place);
			*at++ = ';';
			at = put_place(at, &place, side == 1);
		}
	}
	return strdup(text);
}

static int compare(const void *a, const void *b)
{
	return strcmp(((const struct line *)a)->text, ((const struct line *)b)->text);
}

static void put_line(struct out *out, const char *text, uint64_t count)
{
	out_bytes_long(out, text, strlen(text));
	out_char(out, ' ');
	out_u64(out, count);
	out_char(out, '\n');
}

/* Different addresses may have one name: equal lines become one. */
static void put_lines(struct sink *sink, struct line *line, size_t lines)
{
	qsort(line, lines, sizeof(*line), compare);
	for (size_t i = 0; i < lines; i++) {
		uint64_t count = line[i].count;

		while (i + 1 < lines && !strcmp(line[i].text, line[i + 1].text))
			count += line[++i].count;
		put_line(sink->out, line[i].text, count);
	}
	if (sink->others)
		put_line(sink->out, "[stacks for which there was no room]", sink->others);
}

static void end(struct sink *sink)
{
	size_t stacks = stack_set_count(sink->set), lines = 0;
	struct line *line = calloc(stacks + 1, sizeof(*line));
	char *text = malloc(LINE_BYTES_MAX);

	for (size_t i = 0; line && text && i < stacks; i++) {
		const struct stack *stack = stack_set_at(sink->set, i);

		line[lines].count = stack->count;
		line[lines].text = make_line(sink, stack, text);
		if (line[lines].text)
			lines++;
		else
			sink->others += stack->count;
	}
	if (line && text)
		put_lines(sink, line, lines);
	while (lines)
		free(line[--lines].text);
	free(line);
	free(text);
}

const struct sink_ops print_folded = {
	.wants_stacks = true,
	.create = create,
	.item = take,
	.end = end,
	.destroy = destroy,
};
