#include "daemon/collect/meter_top.h"

#include <string.h>

/* A call weighs as much as the time a short one takes. */
#define CALL_WEIGHT_NS 256

static uint32_t home_of(uint32_t pid)
{
	return (uint32_t)(((uint64_t)(pid * 2654435769u) * TOP_SLOTS) >> 32);
}

/* The slot of a pid, or the empty one where it would be: a quarter is full at most. */
static uint16_t *slot_of(struct meter_top *top, uint32_t pid)
{
	uint32_t at = home_of(pid);

	while (top->slot[at] && top->entry[top->slot[at] - 1].pid != pid)
		at = (at + 1) % TOP_SLOTS;
	return &top->slot[at];
}

void meter_top_clear(struct meter_top *top)
{
	memset(top, 0, sizeof(*top));
}

static struct top_entry *find_least(struct meter_top *top)
{
	struct top_entry *least = top->entry;

	for (uint32_t i = 1; i < top->entries; i++)
		if (top->entry[i].weight < least->weight)
			least = &top->entry[i];
	return least;
}

/* Empties a slot; entries that were put past it for want of room move up (backward shift). */
static void empty_slot(struct meter_top *top, uint32_t at)
{
	for (uint32_t next = (at + 1) % TOP_SLOTS; top->slot[next]; next = (next + 1) % TOP_SLOTS) {
		uint32_t home = home_of(top->entry[top->slot[next] - 1].pid);

		if ((next - home) % TOP_SLOTS >= (next - at) % TOP_SLOTS) {
			top->slot[at] = top->slot[next];
			at = next;
		}
	}
	top->slot[at] = 0;
}

static struct top_entry *find_or_add(struct meter_top *top, uint32_t pid)
{
	uint16_t *slot = slot_of(top, pid);
	struct top_entry *entry;
	uint64_t weight;

	if (*slot)
		return &top->entry[*slot - 1];
	if (top->entries < METER_PROCESSES_MAX) {
		entry = &top->entry[top->entries++];
		*entry = (struct top_entry){.pid = pid};
		*slot = (uint16_t)top->entries;
		return entry;
	}
	entry = find_least(top);
	weight = entry->weight;
	empty_slot(top, (uint32_t)(slot_of(top, entry->pid) - top->slot));
	*entry = (struct top_entry){.pid = pid, .weight = weight};
	*slot_of(top, pid) = (uint16_t)(entry - top->entry + 1);
	return entry;
}

void meter_top_add(struct meter_top *top, const struct top_entry *from)
{
	struct top_entry *entry = find_or_add(top, from->pid);

	memcpy(entry->comm, from->comm, sizeof(entry->comm));
	entry->calls += from->calls;
	entry->errors += from->errors;
	entry->cpu_ns += from->cpu_ns;
	entry->weight += from->calls * CALL_WEIGHT_NS + from->cpu_ns;
}
