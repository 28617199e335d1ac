/*
 * cmd_ask: count, hist and summary: questions about events, of a daemon as they happen or of a file.
 */
#include <string.h>
#include <unistd.h>

#include "client/cli/answer.h"
#include "client/cli/cmd.h"
#include "client/cli/kafka_source.h"
#include "client/cli/where.h"

/* What Kafka has, and not what comes to it: its hosts come one before the other. */
static bool is_past(const struct settings *settings)
{
	if (settings->operand)
		return kafka_source_is(settings->operand);
	return settings->until && settings->connect.n == 1 && kafka_source_is(settings->connect.text[0]);
}

void cmd_ask_pairs(struct settings *asked)
{
	if (!asked->from || !asked->to)
		return;
	if (!asked->probe.n)
		asked->probe = (struct texts){ .n = 2, .text = { asked->from, asked->to } };
	asked->pid.n = asked->comm.n = 0;
}

static enum exit_code ask(const struct settings *settings, struct answer_question question,
			  const char *command)
{
	struct settings asked = *settings;
	struct cmd_view view = { .ops = &answer_ops };
	struct ringtail_error error;
	struct where where;
	enum exit_code code;

	question.by = settings->by ? settings->by : question.by;
	question.of = settings->of ? settings->of : question.of;
	question.top = settings->top;
	question.interval_ns = settings->interval;
	question.past = is_past(settings);
	question.json = settings->output == FORMAT_JSON;
	question.from = settings->from;
	question.to = settings->to;
	question.on = settings->on;
	if (question.from && question.to) {
		question.of = question.of ? question.of : "duration";
		question.by = settings->by ? settings->by : "";
		question.pid = &settings->pid;
		question.comm = &settings->comm;
	}
	cmd_ask_pairs(&asked);
	asked.flags |= answer_flags(question.by);
	if (!asked.probe.n && question.shape != ANSWER_COUNT)
		asked.probe = (struct texts){ .n = 1, .text = { "syscall:*:call" } };
	if (!where_choose(&asked, &question, &where)) {
		view.question = &where.asked;
		question.from_hello = question.interval_ns;
	}
	view.sink = answer_create(&question, cmd_out(), &error);
	if (!view.sink)
		return cmd_usage(&error, command);
	code = settings->operand ? cmd_follow_file(&asked, &view, command) :
				   cmd_follow(&asked, &view, NULL, command);
	return code;
}

enum exit_code cmd_count(const struct settings *settings)
{
	return ask(settings, (struct answer_question){ .shape = ANSWER_COUNT, .by = "probe" }, "count");
}

enum exit_code cmd_hist(const struct settings *settings)
{
	return ask(settings, (struct answer_question){ .shape = ANSWER_HIST, .of = "duration" }, "hist");
}

enum exit_code cmd_summary(const struct settings *settings)
{
	return ask(settings, (struct answer_question){ .shape = ANSWER_SUMMARY, .by = "function",
						       .of = "duration" }, "summary");
}
