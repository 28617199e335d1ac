/*
 * kernel_names: what a tracepoint's print format calls the numbers in a field: RCU is 9 in
 * `__print_symbolic(REC->vec, { 9, "RCU" })`, and __print_flags() names bits.
 *
 * In: the format, which is C and may come from a stranger's recording, and a field's name. Out: names, and which
 * bits of the field have which value for each. What cannot be read has no names. Pure; any thread.
 */
#ifndef RINGTAIL_QUERY_KERNEL_NAMES_H
#define RINGTAIL_QUERY_KERNEL_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/ringtail.pb-c.h"

#define KERNEL_FLAGS_MAX	64u	/* that are one number together */

struct kernel_names {
	const char *field;		/* borrowed */
	const char *begin, *at;		/* the format; borrowed */
	const char *zero;		/* of the table at hand, what it calls 0; NULL: nothing */
	uint64_t mask;			/* of the table at hand: which bits it is about */
	unsigned shift;			/* and by how many the lowest is above the field's */
	unsigned tables;		/* so far */
	bool is_flags, in_table;
};

struct kernel_name {
	const char *text;		/* in the format, not terminated */
	size_t bytes;
	const char *number;		/* its C expression, up to a comma; NULL: 0 */
};

/* The format of the probe; of one that ringtail prints in a way of its own, the names that it then uses. */
const char *kernel_names_format(const Ringtail__V1__Probe *probe);

/* Before the first name of the field. */
void kernel_names_begin(struct kernel_names *names, const char *format, const char *field);

/* The next name; false: there is none. */
bool kernel_names_next(struct kernel_names *names, struct kernel_name *name);

/*
 * Which number of the field the text is: its value in the bits of *mask. "GFP_KERNEL|__GFP_ZERO" is all the flags
 * together, for each of which the format is read once more. False: the format has no such name, or no number for it.
 */
bool kernel_names_find(const char *format, const char *field, const char *text, size_t bytes, uint64_t *mask,
		       uint64_t *value);

/*
 * A format of the probe's tables alone, for what needs no more than names; "": it has none. The caller frees it;
 * NULL: out of memory.
 */
char *kernel_names_tables(const Ringtail__V1__Probe *probe);

/* The value of a name that print formats keep as it is in the kernel's source, of events that people ask for. */
bool kernel_names_enumerator(const char *name, size_t bytes, uint64_t *value);

#endif
