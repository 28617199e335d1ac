/*
 * stack_set: the different stacks among events, and what each of them took.
 *
 * Stacks are kept as addresses, for the maps that name them may come a moment later. One thread.
 */
#ifndef RINGTAIL_CLIENT_CLI_STACK_SET_H
#define RINGTAIL_CLIENT_CLI_STACK_SET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/cli/stack_names.h"
#include "client/lib/ringtail.h"

struct stack_set;

struct stack {
	uint64_t hash;
	uint64_t count, time_ns;	/* the caller's: events, and the time in them */
	uint32_t id;			/* in a set: from 1 on, in the order of their first events */
	uint32_t pid;
	uint32_t probe;			/* the caller's: equal stacks of different probes differ */
	uint16_t user, kernel;		/* frames of each, the user's first, innermost first */
	char comm[16];
	uint64_t frame[];
};

/* `host` is borrowed. NULL: no memory. */
struct stack_set *stack_set_create(const struct ringtail_host *host);
void stack_set_destroy(struct stack_set *set);

/* Who names them, and is to learn of every event. */
struct stack_names *stack_set_names(struct stack_set *set);

/* The event's stack, which may have no frames; NULL: there is no room for a new one. */
struct stack *stack_set_take(struct stack_set *set, const struct ringtail_item *event,
			     uint32_t probe);

/* How many there are; and each of them by id - 1. */
size_t stack_set_count(const struct stack_set *set);
struct stack *stack_set_at(const struct stack_set *set, size_t i);

/* Where frame i is, counted over both sides. What is borrowed holds until the next call. */
void stack_set_place(struct stack_set *set, const struct stack *stack, unsigned i,
		     struct code_place *place);

#endif
