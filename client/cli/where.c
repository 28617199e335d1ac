#include "client/cli/where.h"

#include <string.h>

#include "client/cli/kafka_source.h"

static const char *take_names(const char *by, struct where *where)
{
	size_t n = 0;

	while (by && *by) {
		size_t bytes = strcspn(by, ",");

		if (n == ANSWER_BY_MAX || !bytes || bytes > QUESTION_NAME_BYTES_MAX)
			return "a name of --by is too long for it";
		memcpy(where->name[n], by, bytes);
		where->name[n][bytes] = '\0';
		if (!strcmp(where->name[n], "stack"))
			return "stacks are named where their symbols are";
		where->by[n] = where->name[n];
		n++;
		by += bytes + (by[bytes] == ',');
	}
	where->asked.by = where->by;
	where->asked.bys = n;
	return NULL;
}

const char *where_choose(const struct settings *settings, const struct answer_question *question,
			 struct where *where)
{
	where->asked = (struct ringtail_question){ .of = question->of, .interval_ns = question->interval_ns };
	if (settings->operand)
		return "a file has every event";
	for (size_t i = 0; i < settings->connect.n; i++)
		if (kafka_source_is(settings->connect.text[i]))
			return "Kafka has every event";
	if (question->from || question->to)
		return "pairs are two events";
	if (settings->tree.n || settings->command)
		return "the tree of processes is followed here";
	if (settings->since || settings->consumer || settings->cursor)
		return "the past has every event";
	if (settings->until || settings->count)
		return "it ends at an event";
	if (settings->flags & (RINGTAIL_KSTACK | RINGTAIL_USTACK))
		return "stacks are asked for";
	if (question->interval_ns && question->interval_ns < QUESTION_INTERVAL_NS_MIN)
		return "the interval is too short for it";
	return take_names(question->by, where);
}

void where_set_origin(struct ringtail_question *asked, const struct ringtail_host *first,
		      const struct ringtail_host *host)
{
	asked->origin_ns = first->realtime_ns - host->realtime_ns + host->monotonic_ns;
}
