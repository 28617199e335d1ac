/*
 * filter_name: what the names in a filter stand for.
 *
 * Four kinds: what every event has (pid, comm), fields of the catalog (fd, filename), and names of
 * errors (ENOENT) and of constants (O_WRONLY), which are numbers. Where a field has the name of something that every event has,
 * `arg.pid` is the field. Private to filter*.c; main thread.
 */
#ifndef RINGTAIL_QUERY_FILTER_NAME_H
#define RINGTAIL_QUERY_FILTER_NAME_H

#include "query/filter_token.h"
#include "query/filter_tree.h"
#include "proto/ringtail.pb-c.h"

enum filter_meaning {
	MEANS_SUBJECT,
	MEANS_ERRNO,
	MEANS_CONSTANT,		/* O_WRONLY, SIGKILL: query/constant.h */
};

/*
 * What the token, a TOKEN_NAME, stands for: *subject, or *number. 0 and *meaning, or -EINVAL with
 * the nearest names. Fields go to the tree.
 */
int filter_name_resolve(const struct filter_token *token, const Ringtail__V1__Catalog *catalog,
			struct filter_tree *tree, enum filter_meaning *meaning,
			struct filter_subject *subject, int64_t *number, struct error *error);

/* As it is written: "comm", "arg.fd". */
const char *filter_subject_name(const struct filter_subject *subject);

static inline bool filter_subject_is_text(const struct filter_subject *subject)
{
	return subject->kind >= SUBJECT_COMM;
}

#endif
