/*
 * filter_parse: the text of a filter to its tree, by the grammar in filter.h.
 *
 * Private to filter.c; main thread.
 */
#ifndef RINGTAIL_QUERY_FILTER_PARSE_H
#define RINGTAIL_QUERY_FILTER_PARSE_H

#include "query/filter_tree.h"
#include "proto/ringtail.pb-c.h"

/* Up to FILTER_BYTES_MAX of text, not blank. 0 and *root, the tree's; -EINVAL or -ENOMEM. */
int filter_parse(const char *text, const Ringtail__V1__Catalog *catalog, struct filter_tree *tree,
		 struct filter_node **root, struct error *error);

#endif
