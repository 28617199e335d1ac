/*
 * where: where a question is counted: by the daemon, which then sends tables, or here, of every event. The answer is
 * the same. Pure.
 */
#ifndef RINGTAIL_CLIENT_CLI_WHERE_H
#define RINGTAIL_CLIENT_CLI_WHERE_H

#include "client/cli/answer.h"
#include "client/cli/options.h"

/* What a daemon is asked; `asked` borrows from the others, and those from the question. */
struct where {
	struct ringtail_question asked;
	const char *by[ANSWER_BY_MAX];
	char name[ANSWER_BY_MAX][QUESTION_NAME_BYTES_MAX + 1];
};

/* Why this question, with these settings, is counted here; NULL: a daemon can count it, and *where says how. */
const char *where_choose(const struct settings *settings, const struct answer_question *question,
			 struct where *where);

/* For one of the hosts: intervals begin everywhere when the first one said hello. */
void where_set_origin(struct ringtail_question *asked, const struct ringtail_host *first,
		      const struct ringtail_host *host);

#endif
