#include "daemon/export/kind.h"

#include <string.h>

const struct export_kind *const export_kinds[] = {
	&export_otlp_logs, &export_otlp_traces, &export_otlp_metrics, &export_loki,
	&export_remote_write, NULL,
};

const struct export_kind *export_kind_find(const char *name)
{
	for (unsigned i = 0; export_kinds[i]; i++)
		if (strcmp(export_kinds[i]->name, name) == 0)
			return export_kinds[i];
	return NULL;
}

void export_judge_status(long status, struct export_verdict *verdict)
{
	*verdict = (struct export_verdict){.outcome = EXPORT_HOLD};
	if (status / 100 == 2)
		verdict->outcome = EXPORT_ACCEPTED;
	else if (status == 408 || status == 429 || status / 100 == 5)
		verdict->outcome = EXPORT_RETRY;
	else if (status == 400 || status == 413 || status == 422)
		verdict->outcome = EXPORT_REJECTED;
}

void export_judge_text(const uint8_t *answer, size_t bytes, struct export_verdict *verdict)
{
	size_t n = bytes < sizeof(verdict->message) - 1 ? bytes : sizeof(verdict->message) - 1;

	for (size_t i = 0; i < n; i++)
		verdict->message[i] = answer[i] >= 0x20 && answer[i] < 0x7f ? (char)answer[i] : ' ';
	while (n && verdict->message[n - 1] == ' ')
		n--;
	verdict->message[n] = '\0';
}

void export_judge(long status, const uint8_t *answer, size_t bytes, struct export_verdict *verdict)
{
	export_judge_status(status, verdict);
	if (verdict->outcome != EXPORT_ACCEPTED)
		export_judge_text(answer, bytes, verdict);
}
