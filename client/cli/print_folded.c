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

#include "client/cli/stack_names.h"
#include "proto/limits.h"
#include "query/visible.h"

#define SLOTS		(2 * FOLDED_STACKS_MAX)
#define FRAMES_MAX	(2 * STACK_FRAMES_MAX)
#define LINE_BYTES_MAX	((FRAMES_MAX + 1) * (FUNCTION_BYTES_MAX + 8))

struct stack {
	uint64_t hash, count;
	uint32_t pid;
	uint16_t user, kernel;		/* frames of each, the user's first */
	char comm[16];
	uint64_t frame[];
};

struct line {
	char *text;
	uint64_t count;
};

struct sink {
	struct out *out;
	struct stack_names *names;
	struct stack **slot;		/* [SLOTS], by hash */
	size_t stacks;
	uint64_t others;		/* events whose stack found no room */
};

static struct sink *create(struct out *out, const struct ringtail_host *host, unsigned flags)
{
	struct sink *sink = calloc(1, sizeof(*sink));

	(void)flags;
	if (!sink)
		return NULL;
	sink->out = out;
	sink->names = stack_names_create(host);
	sink->slot = calloc(SLOTS, sizeof(struct stack *));
	if (sink->names && sink->slot)
		return sink;
	print_folded.destroy(sink);
	return NULL;
}

static void destroy(struct sink *sink)
{
	if (!sink)
		return;
	for (size_t i = 0; sink->slot && i < SLOTS; i++)
		free(sink->slot[i]);
	free(sink->slot);
	stack_names_destroy(sink->names);
	free(sink);
}

/* ---- Counting ------------------------------------------------------------------------------- */

static uint64_t hash_of(const struct stack *stack)
{
	uint64_t hash = 0xcbf29ce484222325ull ^ stack->pid;

	for (unsigned i = 0; i < stack->user + stack->kernel; i++) {
		hash = (hash ^ stack->frame[i]) * 0x100000001b3ull;
		hash ^= hash >> 29;
	}
	return hash;
}

static bool is_equal(const struct stack *a, const struct stack *b)
{
	return a->hash == b->hash && a->pid == b->pid && a->user == b->user &&
	       a->kernel == b->kernel && !memcmp(a->comm, b->comm, sizeof(a->comm)) &&
	       !memcmp(a->frame, b->frame, (a->user + a->kernel) * sizeof(*a->frame));
}

static void count_stack(struct sink *sink, const struct stack *stack)
{
	size_t bytes = sizeof(*stack) + (stack->user + stack->kernel) * sizeof(*stack->frame);
	size_t i = stack->hash & (SLOTS - 1);

	while (sink->slot[i] && !is_equal(sink->slot[i], stack))
		i = (i + 1) & (SLOTS - 1);
	if (!sink->slot[i] && sink->stacks < FOLDED_STACKS_MAX) {
		sink->slot[i] = malloc(bytes);
		if (sink->slot[i])
			memcpy(sink->slot[i], stack, bytes);
		sink->stacks += sink->slot[i] != NULL;
	}
	if (sink->slot[i])
		sink->slot[i]->count++;
	else
		sink->others++;
}

static void take_frames(struct sink *sink, const struct ringtail_item *event,
			enum ringtail_attachment_kind kind, struct stack *stack, uint16_t *frames)
{
	for (size_t i = 0; i < event->attachments; i++) {
		const struct ringtail_attachment *from = &event->attachment[i];
		size_t first;

		if (from->kind != kind || *frames)
			continue;
		first = stack_names_own(sink->names, event, from);
		memcpy(stack->frame + stack->user + stack->kernel, from->frame + first,
		       (from->frames - first) * sizeof(*from->frame));
		*frames = (uint16_t)(from->frames - first);
	}
}

static void take(struct sink *sink, const struct ringtail_item *item)
{
	_Alignas(struct stack) char room[sizeof(struct stack) + FRAMES_MAX * sizeof(uint64_t)];
	struct stack *stack = (void *)room;

	if (item->kind != RINGTAIL_EVENT || stack_names_learn(sink->names, item))
		return;
	memset(stack, 0, sizeof(*stack));
	stack->pid = item->thread.pid;
	memcpy(stack->comm, item->thread.comm, out_comm_bytes(item->thread.comm));
	take_frames(sink, item, RINGTAIL_ATTACHED_USTACK, stack, &stack->user);
	take_frames(sink, item, RINGTAIL_ATTACHED_KSTACK, stack, &stack->kernel);
	stack->hash = hash_of(stack);
	count_stack(sink, stack);
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
	const struct {
		enum ringtail_attachment_kind kind;
		const uint64_t *frame;
		unsigned frames;
	} part[] = {
		{ RINGTAIL_ATTACHED_USTACK, stack->frame, stack->user },
		{ RINGTAIL_ATTACHED_KSTACK, stack->frame + stack->user, stack->kernel },
	};
	char comm[sizeof(stack->comm) + 1] = "";
	char *at;

	memcpy(comm, stack->comm, sizeof(stack->comm));
	at = put_part(text, comm, "");
	for (unsigned p = 0; p < 2; p++)
		for (unsigned i = part[p].frames; i-- > 0;) {
			struct code_place place;

			stack_names_find(sink->names, part[p].kind, stack->pid, part[p].frame, i,
					 &place);
			*at++ = ';';
			at = put_place(at, &place, p == 1);
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
	struct line *line = calloc(sink->stacks + 1, sizeof(*line));
	char *text = malloc(LINE_BYTES_MAX);
	size_t lines = 0;

	for (size_t i = 0; line && text && i < SLOTS; i++) {
		if (!sink->slot[i])
			continue;
		line[lines].count = sink->slot[i]->count;
		line[lines].text = make_line(sink, sink->slot[i], text);
		if (line[lines].text)
			lines++;
		else
			sink->others += sink->slot[i]->count;
	}
	if (line && text)
		put_lines(sink, line, lines);
	while (lines)
		free(line[--lines].text);
	free(line);
	free(text);
}

const struct sink_ops print_folded = {
	.create = create,
	.item = take,
	.end = end,
	.destroy = destroy,
};
