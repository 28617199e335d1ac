#include "daemon/export/choose.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/clock.h"
#include "daemon/spool/spool.h"
#include "kmod/uapi/ringtail.h"

#define CHOSEN_BYTES 1024
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

const char *const export_choose_globs[] = {
	"syscall:*:call",
	"tracepoint:sched:sched_process_fork",
	"tracepoint:sched:sched_process_exec",
	"tracepoint:sched:sched_process_exit",
};
const unsigned export_choose_globs_count = COUNT(export_choose_globs);

/* What a machine, and not a program's habits, makes fail. */
static const int errors[] = {
	EIO, ENOSPC, EROFS, EMFILE, ENFILE, ENOMEM, EDQUOT, ESTALE, ENOBUFS,
};

/* Where a refusal tells of wrong permissions, or of somebody who tries. */
static const char *const refused[] = {
	"open", "openat", "openat2", "execve", "execveat", "bind", "connect", "mount", "ptrace",
	"bpf", "setuid",
};

static bool error_matters(const char *function, int number)
{
	for (size_t i = 0; i < COUNT(errors); i++)
		if (number == errors[i])
			return true;
	if (number == EPERM || number == EACCES)
		for (size_t i = 0; i < COUNT(refused); i++)
			if (strcmp(function, refused[i]) == 0)
				return true;
	return false;
}

static void make_filter(uint64_t slow_ns, char filter[CHOSEN_BYTES])
{
	int n = snprintf(filter, CHOSEN_BYTES,
			 "duration >= %lluns || provider == \"tracepoint\" || function =~ \"exit*\""
			 " || error in (EPERM, EACCES", (unsigned long long)slow_ns);

	for (size_t i = 0; i < COUNT(errors); i++)
		n += snprintf(filter + n, CHOSEN_BYTES - (size_t)n, ", %s",
			      strerrorname_np(errors[i]));
	snprintf(filter + n, CHOSEN_BYTES - (size_t)n, ")");
}

int export_choose_request(const struct config *config, char filter[FILTER_BYTES_MAX + 1],
			  struct error *error)
{
	const char *more = config->export_filter;
	char chosen[CHOSEN_BYTES];
	int n;

	make_filter(config->slow_call_ns, chosen);
	if (config->export_probe.count)
		n = snprintf(filter, FILTER_BYTES_MAX + 1, "%s", more ? more : "");
	else
		n = snprintf(filter, FILTER_BYTES_MAX + 1, more ? "(%s) && (%s)" : "%s", chosen,
			     more);
	if (n <= (int)FILTER_BYTES_MAX)
		return 0;
	error_set(error, EINVAL, "export-filter", "export-filter: together with the exporter's own conditions it"
		  " is longer than %u bytes", FILTER_BYTES_MAX);
	error_hint(error, "make it shorter, or choose with export-probe");
	return -EINVAL;
}

int export_choose_check_spans(const struct config *config, struct error *error)
{
	const struct config_words *words = &config->export_span;
	int err;

	for (unsigned i = 0; i < words->count; i++) {
		const char *colon = strchr(words->word[i], ':');

		if (!*words->word[i] || colon == words->word[i] || (colon && (!colon[1] || strchr(colon + 1, ':')))) {
			err = error_set(error, EINVAL, "export-span", "export-span: `%.100s` names no spans", words->word[i]);
			error_hint(error, "write PROVIDER, or PROVIDER:NAME, with globs, as in `export-span = app:request*`");
			return err;
		}
	}
	if (words->count && !config->programs) {
		err = error_set(error, EINVAL, "export-span", "export-span: no program can connect");
		error_hint(error, "set `programs`, the socket to which programs connect");
		return err;
	}
	if (words->count && config->durability != SPOOL_MEMORY) {
		err = error_set(error, EINVAL, "export-span", "export-span: spans of programs are not kept on disk");
		error_hint(error, "set `durability = memory`, or leave export-span out");
		return err;
	}
	return 0;
}

int export_choose_spans(const struct config *config, char *spec[EXPORT_SPAN_SPECS_MAX])
{
	static const char *const half[] = {"begin", "end"};
	int n = 0;

	for (unsigned i = 0; i < config->export_span.count; i++) {
		const char *word = config->export_span.word[i];

		for (unsigned k = 0; k < COUNT(half); k++, n++)
			if (asprintf(&spec[n], strchr(word, ':') ? "%s:%s" : "%s:*:%s", word, half[k]) < 0) {
				while (n--)
					free(spec[n]);
				return -ENOMEM;
			}
	}
	return n;
}

/* Calls that wait for somebody else, which is what they are for: long is not slow. */
static const char *const waits[] = {
	"accept", "accept4", "clock_nanosleep", "epoll_pwait", "epoll_pwait2", "epoll_wait",
	"futex", "futex_wait", "futex_waitv", "io_getevents", "io_pgetevents", "io_uring_enter",
	"mq_timedreceive", "msgrcv", "nanosleep", "pause", "poll", "ppoll", "pselect6", "read",
	"readv", "recvfrom", "recvmmsg", "recvmsg", "restart_syscall", "rt_sigsuspend",
	"rt_sigtimedwait", "select", "semop", "semtimedop", "vfork", "wait4", "waitid",
};

static int compare_names(const void *a, const void *b)
{
	return strcmp(a, *(const char *const *)b);
}

static bool waits_by_nature(const char *function)
{
	return bsearch(function, waits, COUNT(waits), sizeof(waits[0]),
		       compare_names);
}

/* ---- Processes that are ending --------------------------------------------------------------- */

/*
 * A process that ends without exit_group, or exit of its first thread, was killed. Who has said
 * that it ends is kept until it has: by pid, where a newcomer takes the place of whoever is there.
 */
#define ENDING_SLOTS 4096u

struct export_chooser {
	const struct export_host *host;
	struct export_run *run;		/* of the newest event; a reference */
	uint64_t rate;			/* events in a second; 0: no bound */
	uint64_t refilled_ns, tokens_ns;/* an event costs NS_PER_S / rate of them */
	uint32_t ending[ENDING_SLOTS];
};

struct export_chooser *export_chooser_create(const struct export_host *host, uint64_t events_per_s)
{
	struct export_chooser *chooser = calloc(1, sizeof(*chooser));

	if (chooser) {
		chooser->host = host;
		chooser->run = export_run_get(host->run);
		chooser->rate = events_per_s;
		chooser->tokens_ns = NS_PER_S;
	}
	return chooser;
}

void export_chooser_destroy(struct export_chooser *chooser)
{
	if (!chooser)
		return;
	export_run_put(chooser->run);
	free(chooser);
}

/* Another run: its clock may be another, and its pids others' than those that were about to end. */
static void enter_run(struct export_chooser *chooser, struct export_run *run)
{
	export_run_put(chooser->run);
	chooser->run = export_run_get(run);
	chooser->refilled_ns = 0;
	memset(chooser->ending, 0, sizeof(chooser->ending));
}

static bool take_ending(struct export_chooser *chooser, uint32_t pid)
{
	uint32_t *slot = &chooser->ending[pid % ENDING_SLOTS];
	bool found = *slot == pid;

	if (found)
		*slot = 0;
	return found;
}

/* ---- Choosing -------------------------------------------------------------------------------- */

static enum export_class choose_call(struct export_chooser *chooser,
				     const struct export_event *event)
{
	const char *function = event->probe->function;
	bool group = strcmp(function, "exit_group") == 0;

	if (group || strcmp(function, "exit") == 0) {
		if (group || event->thread.tid == event->thread.pid)
			chooser->ending[event->thread.pid % ENDING_SLOTS] = event->thread.pid;
		return group && event->fields > 2 && event->field[2] & 0xff ? EXPORT_EXIT :
									     EXPORT_NOTHING;
	}
	if (error_matters(function, export_event_errno(event)))
		return EXPORT_ERROR;
	if (event->field[0] == RT_DURATION_NEVER || event->field[0] < chooser->host->slow_ns)
		return EXPORT_NOTHING;
	return waits_by_nature(function) ? EXPORT_NOTHING : EXPORT_SLOW;
}

/* A process ends. A status other than 0 was told by its exit_group. */
static enum export_class choose_exit(struct export_chooser *chooser,
				     const struct export_event *event)
{
	bool said = take_ending(chooser, event->thread.pid);
	int signal = export_event_signal(event);

	return signal > 0 || (signal < 0 && !said) ? EXPORT_EXIT : EXPORT_NOTHING;
}

static enum export_class choose(struct export_chooser *chooser, const struct export_event *event)
{
	const char *name = event->probe->name;

	/* Traces make something of them; nobody else was asked to send them. */
	if (export_event_half(event) != EXPORT_NO_HALF)
		return EXPORT_NOTHING;
	if (chooser->host->everything)
		return EXPORT_EVENT;
	if (export_event_is_call(event))
		return choose_call(chooser, event);
	if (strcmp(name, "sched_process_exec") == 0)
		return EXPORT_EXEC;
	if (strcmp(name, "sched_process_exit") == 0 && event->fields > 1 && event->field[1] &&
	    !event->thread.kernel)
		return choose_exit(chooser, event);
	return EXPORT_NOTHING;
}

/* A bucket that a second fills, by the time of events: what comes late is treated no worse. */
bool export_choose_within_rate(struct export_chooser *chooser, uint64_t time_ns)
{
	uint64_t cost;

	if (!chooser->rate)
		return true;
	cost = NS_PER_S / chooser->rate;
	if (time_ns > chooser->refilled_ns) {
		chooser->tokens_ns += time_ns - chooser->refilled_ns;
		if (chooser->tokens_ns > NS_PER_S)
			chooser->tokens_ns = NS_PER_S;
		chooser->refilled_ns = time_ns;
	}
	if (chooser->tokens_ns < cost)
		return false;
	chooser->tokens_ns -= cost;
	return true;
}

void export_choose(struct export_chooser *chooser, struct export_event *event)
{
	if (event->run != chooser->run)
		enter_run(chooser, event->run);
	event->class = choose(chooser, event);
}
