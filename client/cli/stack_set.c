#include "client/cli/stack_set.h"

#include <stdlib.h>
#include <string.h>

#include "client/cli/out.h"
#include "proto/limits.h"

#define SLOTS		(2 * FOLDED_STACKS_MAX)
#define FRAMES_MAX	(2 * STACK_FRAMES_MAX)

struct stack_set {
	struct stack_names *names;
	struct stack **slot;		/* [SLOTS], by hash */
	struct stack **by_id;		/* [FOLDED_STACKS_MAX] */
	size_t stacks;
};

struct stack_set *stack_set_create(const struct ringtail_host *host)
{
	struct stack_set *set = calloc(1, sizeof(*set));

	if (!set)
		return NULL;
	set->names = stack_names_create(host);
	set->slot = calloc(SLOTS, sizeof(struct stack *));
	set->by_id = calloc(FOLDED_STACKS_MAX, sizeof(struct stack *));
	if (set->names && set->slot && set->by_id)
		return set;
	stack_set_destroy(set);
	return NULL;
}

void stack_set_destroy(struct stack_set *set)
{
	if (!set)
		return;
	for (size_t i = 0; i < set->stacks; i++)
		free(set->by_id[i]);
	free(set->by_id);
	free(set->slot);
	stack_names_destroy(set->names);
	free(set);
}

struct stack_names *stack_set_names(struct stack_set *set)
{
	return set->names;
}

static uint64_t hash_of(const struct stack *stack)
{
	uint64_t hash = 0xcbf29ce484222325ull ^ stack->pid ^ (uint64_t)stack->probe << 32;

	for (unsigned i = 0; i < stack->user + stack->kernel; i++) {
		hash = (hash ^ stack->frame[i]) * 0x100000001b3ull;
		hash ^= hash >> 29;
	}
	return hash;
}

static bool is_equal(const struct stack *a, const struct stack *b)
{
	return a->hash == b->hash && a->pid == b->pid && a->probe == b->probe && a->user == b->user &&
	       a->kernel == b->kernel && !memcmp(a->comm, b->comm, sizeof(a->comm)) &&
	       !memcmp(a->frame, b->frame, (a->user + a->kernel) * sizeof(*a->frame));
}

static struct stack *find_or_add(struct stack_set *set, const struct stack *stack)
{
	size_t bytes = sizeof(*stack) + (stack->user + stack->kernel) * sizeof(*stack->frame);
	size_t i = stack->hash & (SLOTS - 1);

	while (set->slot[i] && !is_equal(set->slot[i], stack))
		i = (i + 1) & (SLOTS - 1);
	if (!set->slot[i] && set->stacks < FOLDED_STACKS_MAX) {
		set->slot[i] = malloc(bytes);
		if (set->slot[i]) {
			memcpy(set->slot[i], stack, bytes);
			set->by_id[set->stacks++] = set->slot[i];
			set->slot[i]->id = (uint32_t)set->stacks;
		}
	}
	return set->slot[i];
}

static void take_frames(struct stack_set *set, const struct ringtail_item *event,
			enum ringtail_attachment_kind kind, struct stack *stack, uint16_t *frames)
{
	for (size_t i = 0; i < event->attachments; i++) {
		const struct ringtail_attachment *from = &event->attachment[i];
		size_t first;

		if (from->kind != kind || *frames)
			continue;
		first = stack_names_own(set->names, event, from);
		memcpy(stack->frame + stack->user + stack->kernel, from->frame + first,
		       (from->frames - first) * sizeof(*from->frame));
		*frames = (uint16_t)(from->frames - first);
	}
}

struct stack *stack_set_take(struct stack_set *set, const struct ringtail_item *event,
			     uint32_t probe)
{
	_Alignas(struct stack) char room[sizeof(struct stack) + FRAMES_MAX * sizeof(uint64_t)];
	struct stack *stack = (void *)room;

	memset(stack, 0, sizeof(*stack));
	stack->pid = event->thread.pid;
	stack->probe = probe;
	memcpy(stack->comm, event->thread.comm, out_comm_bytes(event->thread.comm));
	take_frames(set, event, RINGTAIL_ATTACHED_USTACK, stack, &stack->user);
	take_frames(set, event, RINGTAIL_ATTACHED_KSTACK, stack, &stack->kernel);
	stack->hash = hash_of(stack);
	return find_or_add(set, stack);
}

size_t stack_set_count(const struct stack_set *set)
{
	return set->stacks;
}

struct stack *stack_set_at(const struct stack_set *set, size_t i)
{
	return set->by_id[i];
}

void stack_set_place(struct stack_set *set, const struct stack *stack, unsigned i,
		     struct code_place *place)
{
	if (i < stack->user)
		stack_names_find(set->names, RINGTAIL_ATTACHED_USTACK, stack->pid, stack->frame, i, place);
	else
		stack_names_find(set->names, RINGTAIL_ATTACHED_KSTACK, stack->pid,
				 stack->frame + stack->user, i - stack->user, place);
}
