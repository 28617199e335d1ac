#include "client/cli/chosen.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "client/cli/tree.h"
#include "client/lib/failure.h"
#include "query/glob.h"

#define NAME_BYTES_MAX	(sizeof(((struct ringtail_thread *)0)->comm) - 1)

int chosen_parse_pid(const char *option, const char *text, uint64_t *pid, struct ringtail_error *error)
{
	char *end;

	*pid = strtoull(text, &end, 10);
	if (isdigit((unsigned char)*text) && !*end && *pid && *pid < TREE_PIDS)
		return 0;
	return failure_set(error, EINVAL, "bad-value", "--%s %.60s: is not the number of a process", option, text);
}

int chosen_init(struct chosen *chosen, const struct texts *pid, const struct texts *comm, struct ringtail_error *error)
{
	int err = 0;

	*chosen = (struct chosen){ .comm = comm };
	for (; !err && chosen->pids < pid->n; chosen->pids++)
		err = chosen_parse_pid("pid", pid->text[chosen->pids], &chosen->pid[chosen->pids], error);
	for (size_t i = 0; !err && i < comm->n; i++)
		if (!*comm->text[i])
			err = failure_set(error, EINVAL, "bad-value", "--comm: the name of a thread is missing");
	return err;
}

bool chosen_all(const struct chosen *chosen)
{
	return !chosen->pids && !chosen->comm->n;
}

static void write_comm(const char *name, FILE *to)
{
	bool glob = glob_is_pattern(name);

	fputs(glob ? "comm =~ \"" : "comm == \"", to);
	for (unsigned bytes = 0; *name && (glob || bytes < NAME_BYTES_MAX); name++, bytes++)
		fprintf(to, *name == '"' || *name == '\\' ? "\\%c" : "%c", *name);
	fputc('"', to);
}

void chosen_write(const struct chosen *chosen, FILE *to)
{
	for (size_t i = 0; i < chosen->pids; i++)
		fprintf(to, "%s%llu", i ? ", " : "pid in (", (unsigned long long)chosen->pid[i]);
	if (chosen->pids)
		fputs(chosen->comm->n ? ") && " : ")", to);
	for (size_t i = 0; i < chosen->comm->n; i++) {
		fputs(i ? " || " : "(", to);
		write_comm(chosen->comm->text[i], to);
	}
	if (chosen->comm->n)
		fputc(')', to);
}

static bool has_pid(const struct chosen *chosen, uint32_t pid)
{
	for (size_t i = 0; i < chosen->pids; i++)
		if (chosen->pid[i] == pid)
			return true;
	return !chosen->pids;
}

static bool has_comm(const struct chosen *chosen, const char *comm)
{
	size_t bytes = strnlen(comm, NAME_BYTES_MAX);

	for (size_t i = 0; i < chosen->comm->n; i++) {
		const char *name = chosen->comm->text[i];

		if (glob_is_pattern(name) ? glob_match(name, comm, bytes) :
		    bytes == strnlen(name, NAME_BYTES_MAX) && !memcmp(name, comm, bytes))
			return true;
	}
	return !chosen->comm->n;
}

enum chosen_answer chosen_thread(const struct chosen *chosen, const struct ringtail_item *event, uint32_t tid)
{
	const char *comm = ringtail_thread_comm(event, tid);
	uint32_t pid = ringtail_thread_pid(event, tid);

	if (chosen_all(chosen))
		return CHOSEN_YES;
	if (!tid)
		return CHOSEN_NO;
	if (!comm || !*comm || !pid)
		return CHOSEN_UNKNOWN;
	return has_pid(chosen, pid) && has_comm(chosen, comm) ? CHOSEN_YES : CHOSEN_NO;
}
