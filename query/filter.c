/* filter: see filter.h. Text -> tree (filter_parse) -> program and clauses, which are kept. */
#include "query/filter.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "query/filter_clause.h"
#include "query/filter_parse.h"
#include "query/filter_program.h"
#include "query/filter_tree.h"

struct filter {
	struct filter_tree *tree;	/* without its nodes: what the program borrows */
	struct filter_program *program;
	struct filter_clauses clauses;
};

static bool is_blank(const char *text)
{
	while (isspace((unsigned char)*text))
		text++;
	return !*text;
}

int filter_compile(const char *text, const Ringtail__V1__Catalog *catalog, struct filter **filter,
		   struct error *error)
{
	struct filter_node *root;
	struct filter *made;
	int err;

	*filter = NULL;
	if (strnlen(text, FILTER_BYTES_MAX + 1) > FILTER_BYTES_MAX)
		return filter_refuse(error, FILTER_BYTES_MAX + 1, "filter-too-long",
				     "the filter is longer than %u bytes", FILTER_BYTES_MAX);
	if (is_blank(text))
		return 0;
	made = calloc(1, sizeof(*made));
	if (made)
		made->tree = filter_tree_create();
	if (!made || !made->tree) {
		err = error_set(error, ENOMEM, "no-memory", "out of memory");
		goto destroy_filter;
	}
	err = filter_parse(text, catalog, made->tree, &root, error);
	if (!err)
		err = filter_program_create(root, &made->program, error);
	if (err)
		goto destroy_filter;
	filter_clauses_make(root, &made->clauses);
	free(made->tree->node);
	made->tree->node = NULL;
	*filter = made;
	return 0;
destroy_filter:
	filter_destroy(made);
	return err;
}

void filter_destroy(struct filter *filter)
{
	if (!filter)
		return;
	filter_program_destroy(filter->program);
	filter_tree_destroy(filter->tree);
	free(filter);
}

bool filter_pass(const struct filter *filter, uint32_t cpu, const struct batch_event *event,
		 const struct batch_thread *thread, struct filter_texts *texts)
{
	return !filter || filter_program_run(filter->program, cpu, event, thread, texts);
}

bool filter_asks_strings(const struct filter *filter)
{
	return filter && filter_program_asks_strings(filter->program);
}

bool filter_by_thread(const struct filter *filter)
{
	return filter_program_by_thread(filter->program);
}

bool filter_asks_context(const struct filter *filter)
{
	return filter && filter_program_asks_context(filter->program);
}

void filter_narrow(const struct filter *filter, uint16_t probe, uint32_t words, struct probe_filter *to)
{
	if (filter)
		filter_program_narrow(filter->program, probe, words, to);
	else
		probe_filter_open(to);
}

void filter_refusal_shift(char *what, size_t bytes, uint32_t *column)
{
	static const char head[] = "filter, column ";
	char *rest = strchr(what, ':'), text[ERROR_TEXT_BYTES];

	if (*column <= 1 || strncmp(what, head, strlen(head)) || !rest)
		return;
	--*column;
	snprintf(text, sizeof(text), "%s%u%s", head, (unsigned)*column, rest);
	snprintf(what, bytes, "%s", text);
}

bool filter_is_of_kernel(const struct filter *filter)
{
	return filter && !filter->clauses.wide;
}

unsigned filter_kernel_clauses(const struct filter *filter, struct rt_filter_clause *clause,
			       unsigned max)
{
	if (!filter || max == 0 || filter->clauses.count > max ||
	    filter_clauses_all(&filter->clauses))
		return 0;
	if (filter->clauses.count == 0) {
		/* Nothing can pass, and no clauses at all would mean everything: no pid is this. */
		memset(clause, 0, sizeof(*clause));
		clause->pid_op = RT_FILTER_EQ;
		clause->pid = UINT32_MAX;
		return 1;
	}
	memcpy(clause, filter->clauses.clause, filter->clauses.count * sizeof(*clause));
	return filter->clauses.count;
}
