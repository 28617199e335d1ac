/*
 * filter_compare: one comparison, from its two operands to a typed node of the tree.
 *
 * Here is decided what may be compared with what, and every refusal says what would have done.
 * Private to filter*.c; main thread.
 */
#ifndef RINGTAIL_QUERY_FILTER_COMPARE_H
#define RINGTAIL_QUERY_FILTER_COMPARE_H

#include "query/filter_tree.h"
#include "proto/ringtail.pb-c.h"

/* One side of a comparison. */
struct filter_operand {
	enum {
		OPERAND_SUBJECT,
		OPERAND_NUMBER,
		OPERAND_BITS,		/* of a number: subject & mask */
		OPERAND_ERRNO,		/* ENOENT or -ENOENT: a number for few subjects */
		OPERAND_TEXT,
	} kind;
	unsigned column;
	struct filter_subject subject;
	filter_number number;
	uint64_t mask;
	const char *text;
};

/* left op right. 0 and *node, or -EINVAL (-ENOMEM) with *error. */
int filter_compare(struct filter_tree *tree, const Ringtail__V1__Catalog *catalog,
		   const struct filter_operand *left, enum filter_op op,
		   const struct filter_operand *right, struct filter_node **node,
		   struct error *error);

/* subject & mask, into *operand. -EINVAL with *error if it is text, or no bit could be set. */
int filter_compare_bits(struct filter_operand *operand, const struct filter_operand *mask,
			struct error *error);

/* The operand alone, where it is something that is or is not: error, kernel, flags & O_WRONLY. */
int filter_compare_nothing(struct filter_tree *tree, const struct filter_operand *operand,
			   struct filter_node **node, struct error *error);

#endif
