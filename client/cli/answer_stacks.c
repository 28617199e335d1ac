#include "client/cli/answer_stacks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/limits.h"
#include "query/visible.h"

#define FRAME_BYTES	160u	/* of one frame's name, which is cut to that, with what separates it from the next */
#define TEXT_BYTES	(2 * STACK_FRAMES_MAX * FRAME_BYTES)

static void put_text(struct stack_set *set, const struct stack *stack, char text[TEXT_BYTES])
{
	size_t used = 0;

	text[0] = '\0';
	for (unsigned i = stack->user + stack->kernel; i--;) {
		unsigned at = i < stack->kernel ? stack->user + i : i - stack->kernel;
		struct code_place place;
		const char *name;
		char frame[FRAME_BYTES - 1];

		stack_set_place(set, stack, at, &place);
		name = place.name ? place.name : place.path && *place.path ? place.path : "?";
		visible_copy(frame, sizeof(frame), name, strnlen(name, sizeof(frame) - 8));
		used += (size_t)snprintf(text + used, TEXT_BYTES - used, "%s%s", used ? ";" : "", frame);
	}
}

/* NULL: it is no number of the set. */
static struct stack *stack_of(struct stack_set *set, const char *number)
{
	size_t id = (size_t)strtoull(number, NULL, 10);

	return id && id <= stack_set_count(set) ? stack_set_at(set, id - 1) : NULL;
}

const char *answer_stacks_text(struct stack_set *set, const char *number, int *bytes)
{
	static char text[TEXT_BYTES];
	const struct stack *stack = stack_of(set, number);

	if (!stack)
		return number;
	put_text(set, stack, text);
	*bytes = (int)strlen(text);
	return text;
}

/* ---- One for all that are called the same -------------------------------------------------------- */

struct known {
	uint64_t hash;
	uint32_t id;			/* 0: the place is free */
};

struct names {
	struct stack_set *set;
	uint32_t *first;		/* by id: the first that is called the same; 0: not known yet */
	struct known *known;
	size_t slots;			/* a power of two, more than there are stacks */
};

static bool make_names(struct names *names, struct stack_set *set)
{
	size_t count = stack_set_count(set);

	*names = (struct names){.set = set, .slots = 2};
	while (names->slots <= 2 * count)
		names->slots *= 2;
	names->first = calloc(count + 1, sizeof(*names->first));
	names->known = calloc(names->slots, sizeof(*names->known));
	return names->first && names->known;
}

static void free_names(struct names *names)
{
	free(names->first);
	free(names->known);
}

static uint64_t hash_of(const char *text)
{
	uint64_t hash = 14695981039346656037ull;	/* FNV-1a */

	while (*text)
		hash = (hash ^ (uint8_t)*text++) * 1099511628211ull;
	return hash;
}

static uint32_t find_first(struct names *names, const struct stack *stack)
{
	char text[TEXT_BYTES], other[TEXT_BYTES];
	uint64_t hash;
	size_t at;

	put_text(names->set, stack, text);
	hash = hash_of(text);
	for (at = hash & (names->slots - 1); names->known[at].id; at = (at + 1) & (names->slots - 1)) {
		const struct known *known = &names->known[at];

		if (known->hash != hash)
			continue;
		put_text(names->set, stack_set_at(names->set, known->id - 1), other);
		if (strcmp(other, text) == 0)
			return known->id;
	}
	names->known[at] = (struct known){.hash = hash, .id = stack->id};
	return stack->id;
}

/* The stack that a part of a key is; NULL: none. */
static const struct stack *stack_in(const struct names *names, uint32_t parts, unsigned part, const char *at)
{
	return part < 32 && parts >> part & 1 ? stack_of(names->set, at) : NULL;
}

static const char *next_part(const char *at)
{
	return strchr(at, ANSWER_PART_END) + 1;
}

/* Those that rows have, in the order of their numbers: the first has the least, which takes no more room in a key. */
static void find_names(struct names *names, uint32_t parts, const struct answer_table *table)
{
	for (size_t i = 0; i < table->slots; i++) {
		const char *at = table->slot[i] ? table->slot[i]->key : "";

		for (unsigned part = 0; *at; part++, at = next_part(at)) {
			const struct stack *stack = stack_in(names, parts, part, at);

			if (stack)
				names->first[stack->id] = stack->id;
		}
	}
	for (size_t id = 1; id <= stack_set_count(names->set); id++)
		if (names->first[id])
			names->first[id] = find_first(names, stack_set_at(names->set, id - 1));
}

/* The key of a row, with the first of the same name in the place of each stack. */
static void rename_stacks(const struct names *names, uint32_t parts, const struct answer_row *row,
			  struct answer_key *key)
{
	const char *at = row->key, *next;

	*key = (struct answer_key){.numbers = row->numbers};
	for (unsigned part = 0; *at; part++, at = next) {
		const struct stack *stack = stack_in(names, parts, part, at);

		next = next_part(at);
		if (stack) {
			key->bytes += (size_t)sprintf(key->text + key->bytes, "%u%c", names->first[stack->id],
						      ANSWER_PART_END);
			continue;
		}
		memcpy(key->text + key->bytes, at, (size_t)(next - at));
		key->bytes += (size_t)(next - at);
	}
}

void answer_stacks_join(struct stack_set *set, uint32_t parts, struct answer_table *table)
{
	struct answer_table joined = {
		.lost = table->lost, .gaps_unknown = table->gaps_unknown,
		.events = table->events, .crowded = table->crowded,
	};
	struct names names;
	bool done = make_names(&names, set);

	if (done)
		find_names(&names, parts, table);
	for (size_t i = 0; done && i < table->slots; i++) {
		struct answer_key key;

		if (!table->slot[i])
			continue;
		rename_stacks(&names, parts, table->slot[i], &key);
		done = answer_table_add(&joined, &key, table->slot[i]);
	}
	free_names(&names);
	answer_table_destroy(done ? table : &joined);
	if (done)
		*table = joined;
}
