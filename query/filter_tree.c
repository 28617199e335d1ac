#include "query/filter_tree.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

struct filter_tree *filter_tree_create(void)
{
	struct filter_tree *tree = calloc(1, sizeof(*tree));

	if (!tree)
		return NULL;
	tree->node = calloc(FILTER_NODES_MAX, sizeof(*tree->node));
	if (!tree->node) {
		free(tree);
		return NULL;
	}
	return tree;
}

void filter_tree_destroy(struct filter_tree *tree)
{
	if (!tree)
		return;
	for (unsigned i = 0; i < tree->fields; i++)
		free(tree->field[i]);
	for (unsigned i = 0; i < tree->sets; i++)
		free(tree->set[i]);
	free(tree->node);
	free(tree);
}

int filter_tree_node(struct filter_tree *tree, enum filter_node_kind kind, unsigned column,
		     struct filter_node **node, struct error *error)
{
	if (tree->nodes == FILTER_NODES_MAX)
		return filter_refuse(error, column, "filter-too-long",
				     "the filter has more than %u parts", FILTER_NODES_MAX);
	*node = &tree->node[tree->nodes++];
	(*node)->kind = kind;
	return 0;
}

int filter_tree_field(struct filter_tree *tree, unsigned column, struct filter_field **field,
		      struct error *error)
{
	if (tree->fields == FILTER_FIELDS_MAX)
		return filter_refuse(error, column, "filter-too-long",
				     "the filter speaks of more than %u fields", FILTER_FIELDS_MAX);
	*field = calloc(1, sizeof(**field));
	if (!*field)
		return error_set(error, ENOMEM, "no-memory", "out of memory");
	tree->field[tree->fields++] = *field;
	return 0;
}

int filter_tree_set(struct filter_tree *tree, unsigned column, struct probe_set **set,
		    struct error *error)
{
	if (tree->sets == FILTER_SETS_MAX)
		return filter_refuse(error, column, "filter-too-long",
				     "the filter compares probes more than %u times",
				     FILTER_SETS_MAX);
	*set = calloc(1, sizeof(**set));
	if (!*set)
		return error_set(error, ENOMEM, "no-memory", "out of memory");
	tree->set[tree->sets++] = *set;
	return 0;
}

void filter_node_add(struct filter_node *parent, struct filter_node *child)
{
	child->before = parent->last;
	parent->last = child;
}

int filter_refuse(struct error *error, unsigned column, const char *code, const char *format, ...)
{
	char what[ERROR_TEXT_BYTES - 32];
	va_list args;

	va_start(args, format);
	vsnprintf(what, sizeof(what), format, args);
	va_end(args);
	error_set(error, EINVAL, code, "filter, column %u: %s", column, what);
	if (error)
		error->column = column;
	return -EINVAL;
}
