/*
 * question: one `ask = ...` of the configuration: what is always counted, and by what.
 *
 *	question:	[ NAME ":" ] shape SPEC { "," SPEC } { part } [ "where" FILTER ]
 *	shape:		"count" | "hist" | "summary"
 *	part:		"by" FIELD { "," FIELD } | "of" FIELD | "top" COUNT
 *
 *	failed-opens: count syscall:openat:call by comm,error top 20 where error
 *
 * In: the text, and the catalog. Out: a struct whose probes and filter a subscription takes as they are, or what is
 * wrong with the text, with the column. Pure; any thread.
 */
#ifndef RINGTAIL_DAEMON_ASK_QUESTION_H
#define RINGTAIL_DAEMON_ASK_QUESTION_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/base/limits.h"
#include "daemon/config/config.h"
#include "proto/limits.h"
#include "proto/ringtail.pb-c.h"
#include "query/error.h"

enum ask_shape {
	ASK_COUNT,		/* how many; with `of`, their sum too */
	ASK_HIST,		/* how durations are spread */
	ASK_SUMMARY,		/* how many, how many failed, how durations are spread */
};

struct ask_question {
	char name[ASK_NAME_BYTES_MAX + 1];	/* as it is written, or "ask-1" by its place */
	char *text;				/* the whole of it */
	enum ask_shape shape;
	char *glob[ASK_PROBES_MAX];
	unsigned globs;
	char by[ASK_BY_MAX][NAME_BYTES_MAX + 1];
	unsigned bys;
	char of[NAME_BYTES_MAX + 1];		/* "": of nothing; else of the field, as "duration" */
	uint64_t top;				/* keys that are shown by themselves */
	char *filter;				/* "": whatever the probes record */
	uint32_t flags;				/* RT_FLAG_* that its fields take */
};

/*
 * number: of the questions, from 1. With a catalog, each name must be in it; NULL: none is looked up, and flags are
 * not known. -EINVAL, -ENOENT, -ENOMEM with *error: *question is empty then.
 */
int ask_question_parse(const char *text, unsigned number, const Ringtail__V1__Catalog *catalog,
		       struct ask_question *question, struct error *error);
void ask_question_fini(struct ask_question *question);

/* All questions of a configuration, and that no two have one name. */
int ask_questions_check(const struct config_words *questions, const Ringtail__V1__Catalog *catalog,
			struct error *error);

#endif
