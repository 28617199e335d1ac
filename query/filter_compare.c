#include "query/filter_compare.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "query/filter_name.h"
#include "query/glob.h"
#include "query/nearest.h"

#define COMM_TEXT_BYTES_MAX	(RT_COMM_BYTES - 1)	/* the kernel cuts names to this */
#define PROBE_NAME_BYTES	(3 * NAME_BYTES_MAX + 3)

/* What `a op b` is as `b op a`. */
static enum filter_op mirrored(enum filter_op op)
{
	switch (op) {
	case FILTER_LT:
		return FILTER_GT;
	case FILTER_LE:
		return FILTER_GE;
	case FILTER_GT:
		return FILTER_LT;
	case FILTER_GE:
		return FILTER_LE;
	default:
		return op;
	}
}

static int negate(struct filter_tree *tree, unsigned column, struct filter_node **node,
		  struct error *error)
{
	struct filter_node *not;
	int err = filter_tree_node(tree, NODE_NOT, column, &not, error);

	if (err)
		return err;
	filter_node_add(not, *node);
	*node = not;
	return 0;
}

/* ---- Probe names ----------------------------------------------------------------------------- */

/* The part of a probe's name that the subject is. */
static const char *probe_text(const Ringtail__V1__Probe *probe, enum filter_subject_kind kind,
			      char *buffer)
{
	switch (kind) {
	case SUBJECT_PROVIDER:
		return probe->provider;
	case SUBJECT_FUNCTION:
		return probe->function;
	case SUBJECT_NAME:
		return probe->name;
	default:
		snprintf(buffer, PROBE_NAME_BYTES, "%s:%s:%s", probe->provider, probe->function,
			 probe->name);
		return buffer;
	}
}

static int refuse_probe(const struct filter_operand *left, const struct filter_operand *right,
			const Ringtail__V1__Catalog *catalog, struct error *error)
{
	char buffer[PROBE_NAME_BYTES], text[NEAREST_TEXT_BYTES];
	struct nearest nearest;

	filter_refuse(error, right->column, "filter-unknown-probe", "no probe has the %s \"%.60s\"",
		      filter_subject_name(&left->subject), right->text);
	nearest_init(&nearest, right->text);
	for (size_t i = 0; i < catalog->n_probe; i++)
		nearest_offer(&nearest, probe_text(catalog->probe[i], left->subject.kind, buffer));
	if (nearest_text(&nearest, text))
		error_hint(error, "did you mean %s?", text);
	else
		error_hint(error, "`tracectl list` shows every probe");
	return -EINVAL;
}

/* A name is looked up now, so that an event's probe id is all there is to test. */
static int compare_probe(struct filter_tree *tree, const Ringtail__V1__Catalog *catalog,
			 const struct filter_operand *left, enum filter_op op,
			 const struct filter_operand *right, struct filter_node **node,
			 struct error *error)
{
	char buffer[PROBE_NAME_BYTES];
	struct probe_set *set;
	int err = filter_tree_set(tree, left->column, &set, error);

	if (!err)
		err = filter_tree_node(tree, NODE_PROBES, left->column, node, error);
	if (err)
		return err;
	(*node)->probes = set;
	for (size_t i = 0; catalog && i < catalog->n_probe; i++) {
		const Ringtail__V1__Probe *probe = catalog->probe[i];
		const char *text = probe_text(probe, left->subject.kind, buffer);

		if (probe->id < RT_PROBE_MAX &&
		    (op == FILTER_MATCH ? glob_match(right->text, text, strlen(text)) :
					  strcmp(right->text, text) == 0))
			probe_set_add(set, probe->id);
	}
	if (catalog && probe_set_count(set) == 0)
		return refuse_probe(left, right, catalog, error);
	return op == FILTER_NE ? negate(tree, left->column, node, error) : 0;
}

/* ---- Text ------------------------------------------------------------------------------------ */

static int compare_comm(struct filter_tree *tree, const struct filter_operand *left,
			enum filter_op op, const struct filter_operand *right,
			struct filter_node **node, struct error *error)
{
	int err;

	if (op == FILTER_MATCH && !glob_is_pattern(right->text))
		op = FILTER_EQ;		/* the kernel can test that */
	if (op != FILTER_MATCH && strlen(right->text) > COMM_TEXT_BYTES_MAX) {
		filter_refuse(error, right->column, "filter-comm-too-long",
			      "no comm has more than %u bytes", COMM_TEXT_BYTES_MAX);
		error_hint(error, "the kernel cuts it: write \"%.*s\"", COMM_TEXT_BYTES_MAX,
			   right->text);
		return -EINVAL;
	}
	err = filter_tree_node(tree, NODE_COMM, left->column, node, error);
	if (err)
		return err;
	(*node)->op = op;
	(*node)->left = left->subject;
	(*node)->text = right->text;
	return 0;
}

static int compare_text(struct filter_tree *tree, const Ringtail__V1__Catalog *catalog,
			const struct filter_operand *left, enum filter_op op,
			const struct filter_operand *right, struct filter_node **node,
			struct error *error)
{
	const char *name = filter_subject_name(&left->subject);

	if (right->kind != OPERAND_TEXT) {
		filter_refuse(error, right->column, "filter-wants-text",
			      "%s is text, and this is not", name);
		error_hint(error, "write text in double quotes, as in %s == \"...\"", name);
		return -EINVAL;
	}
	if (op != FILTER_EQ && op != FILTER_NE && op != FILTER_MATCH) {
		filter_refuse(error, right->column, "filter-no-order",
			      "%s is text, which has no order here", name);
		error_hint(error, "text is compared with ==, !=, =~ and in");
		return -EINVAL;
	}
	if (left->subject.kind == SUBJECT_COMM)
		return compare_comm(tree, left, op, right, node, error);
	return compare_probe(tree, catalog, left, op, right, node, error);
}

/* ---- Numbers --------------------------------------------------------------------------------- */

static int refuse_text(const struct filter_operand *left, const struct filter_operand *right,
		       struct error *error)
{
	const char *name = filter_subject_name(&left->subject);
	bool text_subject = right->kind == OPERAND_SUBJECT;

	if (left->subject.kind == SUBJECT_FIELD && left->subject.field->is_string) {
		filter_refuse(error, right->column, "filter-only-address",
			      "%s is an address here: filters do not see the text it points to",
			      name);
		error_hint(error, "compare it with a number, or filter what the client prints");
	} else {
		filter_refuse(error, right->column, "filter-wants-number",
			      "%s is a number, and %s is text", name,
			      text_subject ? filter_subject_name(&right->subject) : "this");
		if (left->subject.kind == SUBJECT_ERROR)
			error_hint(error, "an error's name stands without quotes");
	}
	return -EINVAL;
}

/* ENOENT goes with `error`, and -ENOENT with what a system call returns; nothing else. */
static int check_errno(const struct filter_operand *left, const struct filter_operand *right,
		       struct error *error)
{
	const struct filter_subject *subject = &left->subject;
	bool negative = right->number < 0;

	if (subject->kind == SUBJECT_ERROR && !negative)
		return 0;
	if (subject->kind == SUBJECT_FIELD && subject->field->is_result && negative)
		return 0;
	filter_refuse(error, right->column, "filter-errno-misplaced",
		      "%s is never %san error's name", filter_subject_name(subject),
		      negative ? "minus " : "");
	error_hint(error, "write error == ENOENT or ret == -ENOENT");
	return -EINVAL;
}

static int compare_number(struct filter_tree *tree, const struct filter_operand *left,
			  enum filter_op op, const struct filter_operand *right,
			  struct filter_node **node, struct error *error)
{
	enum filter_node_kind kind = right->kind == OPERAND_SUBJECT ? NODE_PAIR : NODE_NUMBER;
	int err = 0;

	if (right->kind == OPERAND_TEXT ||
	    (right->kind == OPERAND_SUBJECT && filter_subject_is_text(&right->subject)))
		return refuse_text(left, right, error);
	if (op == FILTER_MATCH) {
		filter_refuse(error, right->column, "filter-wants-text",
			      "=~ compares text, and %s is a number",
			      filter_subject_name(&left->subject));
		return -EINVAL;
	}
	if (right->kind == OPERAND_ERRNO)
		err = check_errno(left, right, error);
	if (!err)
		err = filter_tree_node(tree, kind, left->column, node, error);
	if (err)
		return err;
	(*node)->op = op;
	(*node)->left = left->subject;
	(*node)->right = right->subject;
	(*node)->number = right->number;
	return 0;
}

/* ---- Bits ------------------------------------------------------------------------------------ */

int filter_compare_bits(struct filter_operand *operand, const struct filter_operand *mask,
			struct error *error)
{
	if (operand->kind != OPERAND_SUBJECT || filter_subject_is_text(&operand->subject)) {
		filter_refuse(error, operand->column, "filter-bits",
			      "before & stands the name of a number of the event");
		error_hint(error, "as in flags & O_WRONLY; and is written &&");
		return -EINVAL;
	}
	if (mask->kind != OPERAND_NUMBER || mask->number <= 0 || mask->number > UINT64_MAX) {
		filter_refuse(error, mask->column, "filter-bits",
			      mask->kind == OPERAND_NUMBER && !mask->number ?
			      "no bit is set in this, so it never holds" :
			      "behind & stands a number with a bit that may be set");
		error_hint(error, "as in flags & O_WRONLY, or flags & O_ACCMODE == O_RDONLY; and is written &&");
		return -EINVAL;
	}
	operand->kind = OPERAND_BITS;
	operand->mask = (uint64_t)mask->number;
	return 0;
}

static int compare_bits(struct filter_tree *tree, const struct filter_operand *left, enum filter_op op,
			filter_number number, struct filter_node **node, struct error *error)
{
	int err = filter_tree_node(tree, NODE_BITS, left->column, node, error);

	if (err)
		return err;
	(*node)->op = op;
	(*node)->left = left->subject;
	(*node)->mask = left->mask;
	(*node)->number = number;
	return 0;
}

static int compare_bits_with(struct filter_tree *tree, const struct filter_operand *left,
			     enum filter_op op, const struct filter_operand *right,
			     struct filter_node **node, struct error *error)
{
	if (right->kind != OPERAND_NUMBER || (op != FILTER_EQ && op != FILTER_NE)) {
		filter_refuse(error, right->column, "filter-bits",
			      "bits are compared with a number, by ==, != or in");
		error_hint(error, "as in flags & O_ACCMODE == O_RDONLY");
		return -EINVAL;
	}
	return compare_bits(tree, left, op, right->number, node, error);
}

/* ---- All ------------------------------------------------------------------------------------- */

int filter_compare(struct filter_tree *tree, const Ringtail__V1__Catalog *catalog,
		   const struct filter_operand *left, enum filter_op op,
		   const struct filter_operand *right, struct filter_node **node,
		   struct error *error)
{
	if (left->kind == OPERAND_BITS)
		return compare_bits_with(tree, left, op, right, node, error);
	if (right->kind == OPERAND_BITS)
		return compare_bits_with(tree, right, op, left, node, error);
	if (left->kind != OPERAND_SUBJECT && right->kind != OPERAND_SUBJECT)
		return filter_refuse(error, left->column, "filter-constant",
				     "neither side of this comparison is of the event");
	if (left->kind != OPERAND_SUBJECT) {
		const struct filter_operand *swap = left;

		if (op == FILTER_MATCH)
			return filter_refuse(error, left->column, "filter-glob-left",
					     "the glob stands on the right of =~");
		left = right;
		right = swap;
		op = mirrored(op);
	}
	if (filter_subject_is_text(&left->subject))
		return compare_text(tree, catalog, left, op, right, node, error);
	return compare_number(tree, left, op, right, node, error);
}

int filter_compare_nothing(struct filter_tree *tree, const struct filter_operand *operand,
			   struct filter_node **node, struct error *error)
{
	const char *name;
	int err;

	if (operand->kind == OPERAND_BITS)
		return compare_bits(tree, operand, FILTER_NE, 0, node, error);
	if (operand->kind != OPERAND_SUBJECT)
		return filter_refuse(error, operand->column, "filter-constant",
				     "this is not compared with anything");
	if (operand->subject.kind != SUBJECT_ERROR && operand->subject.kind != SUBJECT_KERNEL) {
		name = filter_subject_name(&operand->subject);
		filter_refuse(error, operand->column, "filter-no-comparison",
			      "%s is not compared with anything", name);
		error_hint(error, "write %s == ..., or another comparison", name);
		return -EINVAL;
	}
	err = filter_tree_node(tree, NODE_NUMBER, operand->column, node, error);
	if (err)
		return err;
	(*node)->op = FILTER_NE;
	(*node)->left = operand->subject;
	return 0;
}
