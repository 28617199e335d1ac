#include "query/filter_clause.h"

#include <stddef.h>
#include <string.h>

/* The tests of a clause, so that a loop can walk them: where each has its op, and its value. */
static const struct field {
	enum filter_subject_kind subject;
	size_t op, value, value_bytes;
} fields[] = {
#define FIELD(subject, name) \
	{ subject, offsetof(struct rt_filter_clause, name##_op), \
	  offsetof(struct rt_filter_clause, name), sizeof(((struct rt_filter_clause *)0)->name) }
	FIELD(SUBJECT_PID, pid),
	FIELD(SUBJECT_TID, tid),
	FIELD(SUBJECT_UID, uid),
	FIELD(SUBJECT_COMM, comm),
#undef FIELD
};

#define FIELDS (sizeof(fields) / sizeof(fields[0]))

static uint8_t op_of(const struct rt_filter_clause *clause, const struct field *field)
{
	return ((const uint8_t *)clause)[field->op];
}

static bool same_value(const struct rt_filter_clause *a, const struct rt_filter_clause *b,
		       const struct field *field)
{
	return memcmp((const char *)a + field->value, (const char *)b + field->value,
		      field->value_bytes) == 0;
}

static void set_test(struct rt_filter_clause *clause, const struct field *field, uint8_t op,
		     const void *value)
{
	((uint8_t *)clause)[field->op] = op;
	memcpy((char *)clause + field->value, value, field->value_bytes);
}

/* In the place of what the kernel does not know, or has no room for. */
static void make_all(struct filter_clauses *clauses)
{
	memset(clauses, 0, sizeof(*clauses));
	clauses->count = 1;
	clauses->wide = true;
}

static bool is_all(const struct rt_filter_clause *clause)
{
	for (size_t i = 0; i < FIELDS; i++) {
		if (op_of(clause, &fields[i]) != RT_FILTER_ANY)
			return false;
	}
	return true;
}

bool filter_clauses_all(const struct filter_clauses *clauses)
{
	return clauses->count == 1 && is_all(&clauses->clause[0]);
}

/* ---- One clause with another ----------------------------------------------------------------- */

/* Whether what passes a test (`op` a value) all passes `wide`; `same`: of the same value. */
static bool test_covers(uint8_t wide, uint8_t op, bool same)
{
	if (wide == RT_FILTER_ANY)
		return true;
	if (wide == op)
		return same;
	return wide == RT_FILTER_NE && op == RT_FILTER_EQ && !same;
}

static bool covers(const struct rt_filter_clause *wide, const struct rt_filter_clause *clause)
{
	for (size_t i = 0; i < FIELDS; i++) {
		if (!test_covers(op_of(wide, &fields[i]), op_of(clause, &fields[i]),
				 same_value(wide, clause, &fields[i])))
			return false;
	}
	return true;
}

enum joint {
	JOINT_FIRST,		/* the first test says it */
	JOINT_SECOND,
	JOINT_NEVER,		/* both cannot hold */
};

/*
 * Two tests of one field, both of which must hold. Of two `not` the first is kept: a clause has
 * room for one, and one is a superset of both.
 */
static enum joint join_tests(uint8_t first, uint8_t second, bool same)
{
	if (first == RT_FILTER_ANY)
		return JOINT_SECOND;
	if (second == RT_FILTER_ANY)
		return JOINT_FIRST;
	if (first == RT_FILTER_EQ)
		return same == (second == RT_FILTER_EQ) ? JOINT_FIRST : JOINT_NEVER;
	if (second == RT_FILTER_EQ)
		return same ? JOINT_NEVER : JOINT_SECOND;
	return JOINT_FIRST;
}

/* Makes *clause hold only where `other` holds too; false if it never does. *wide becomes true if it holds elsewhere. */
static bool join(struct rt_filter_clause *clause, const struct rt_filter_clause *other, bool *wide)
{
	for (size_t i = 0; i < FIELDS; i++) {
		const struct field *field = &fields[i];

		*wide |= op_of(clause, field) == RT_FILTER_NE && op_of(other, field) == RT_FILTER_NE &&
			 !same_value(clause, other, field);
		switch (join_tests(op_of(clause, field), op_of(other, field),
				   same_value(clause, other, field))) {
		case JOINT_SECOND:
			set_test(clause, field, op_of(other, field),
				 (const char *)other + field->value);
			break;
		case JOINT_NEVER:
			return false;
		case JOINT_FIRST:
			break;
		}
	}
	return true;
}

/* ---- Lists ----------------------------------------------------------------------------------- */

/* Adds a clause, and drops what another one covers. False if there is no room. */
static bool add(struct filter_clauses *clauses, const struct rt_filter_clause *clause)
{
	unsigned kept = 0;

	for (unsigned i = 0; i < clauses->count; i++) {
		if (covers(&clauses->clause[i], clause))
			return true;
	}
	for (unsigned i = 0; i < clauses->count; i++) {
		if (!covers(clause, &clauses->clause[i]))
			clauses->clause[kept++] = clauses->clause[i];
	}
	clauses->count = kept;
	if (kept == FILTER_CLAUSES_WORK_MAX)
		return false;
	clauses->clause[clauses->count++] = *clause;
	return true;
}

/* *a or *b, into *a: all, if there is no room. */
static void unite(struct filter_clauses *a, const struct filter_clauses *b)
{
	a->wide |= b->wide;
	for (unsigned i = 0; i < b->count; i++) {
		if (!add(a, &b->clause[i])) {
			make_all(a);
			return;
		}
	}
}

/* *a and *b, into *a: the shorter of the two alone, if there is no room. */
static void intersect(struct filter_clauses *a, const struct filter_clauses *b)
{
	struct filter_clauses both = { .wide = a->wide || b->wide };

	for (unsigned i = 0; i < a->count; i++) {
		for (unsigned k = 0; k < b->count; k++) {
			struct rt_filter_clause clause = a->clause[i];

			if (!join(&clause, &b->clause[k], &both.wide) || add(&both, &clause))
				continue;
			if (b->count < a->count)
				*a = *b;
			a->wide = true;
			return;
		}
	}
	*a = both;
}

/* ---- Trees ----------------------------------------------------------------------------------- */

/*
 * Of one comparison: all, unless it is one that the kernel knows. These are of what every event
 * has, so that the negation of == is !=.
 */
static void make_compare(const struct filter_node *node, bool negated,
			 struct filter_clauses *clauses)
{
	enum filter_subject_kind subject = node->kind == NODE_COMM ? SUBJECT_COMM : node->left.kind;
	bool equal = (node->op == FILTER_EQ) != negated;
	uint32_t number = node->number;
	char comm[RT_COMM_BYTES] = { 0 };

	make_all(clauses);
	if ((node->kind != NODE_COMM && node->kind != NODE_NUMBER) ||
	    (node->op != FILTER_EQ && node->op != FILTER_NE))
		return;
	if (node->kind == NODE_COMM)
		memcpy(comm, node->text, strlen(node->text));	/* known to fit */
	for (size_t i = 0; i < FIELDS; i++) {
		if (subject != fields[i].subject)
			continue;
		clauses->wide = false;
		if (subject == SUBJECT_COMM || node->number == number)
			set_test(&clauses->clause[0], &fields[i],
				 equal ? RT_FILTER_EQ : RT_FILTER_NE,
				 subject == SUBJECT_COMM ? (const void *)comm : &number);
		else if (equal)
			clauses->count = 0;	/* no id is that large, or negative */
	}
}

static void make(const struct filter_node *node, bool negated, struct filter_clauses *clauses);

/* Not (a and b) is (not a) or (not b): `negated` turns the one into the other. */
static void make_chain(const struct filter_node *node, bool negated, struct filter_clauses *clauses)
{
	bool narrows = (node->kind == NODE_AND) != negated;
	const struct filter_node *child;
	struct filter_clauses next;

	make(node->last, negated, clauses);
	for (child = node->last->before; child; child = child->before) {
		make(child, negated, &next);
		if (narrows)
			intersect(clauses, &next);
		else
			unite(clauses, &next);
	}
}

/* Nested FILTER_DEPTH_MAX deep. */
static void make(const struct filter_node *node, bool negated, struct filter_clauses *clauses)
{
	switch (node->kind) {
	case NODE_NOT:
		make(node->last, !negated, clauses);
		break;
	case NODE_AND:
	case NODE_OR:
		make_chain(node, negated, clauses);
		break;
	default:
		make_compare(node, negated, clauses);
		break;
	}
}

void filter_clauses_make(const struct filter_node *root, struct filter_clauses *clauses)
{
	make(root, false, clauses);
}
