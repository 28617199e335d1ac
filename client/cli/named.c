#include "client/cli/named.h"

#include <string.h>

/* Calls that wait for others for as long as it takes. */
#define WAITS	"\"futex\", \"poll\", \"ppoll\", \"select\", \"pselect6\", \"epoll_wait\", \"epoll_pwait\", " \
		"\"epoll_pwait2\", \"io_getevents\", \"io_pgetevents\", \"io_uring_enter\", \"nanosleep\", " \
		"\"clock_nanosleep\", \"pause\", \"rt_sigsuspend\", \"rt_sigtimedwait\", \"wait4\", \"waitid\", " \
		"\"restart_syscall\""

static const struct named questions[] = {
	{ "execs", "programs that are started, with their arguments",
	  { "stream", "-p", "syscall:execve*:call", "--flags", "strings" } },
	{ "exits", "processes that end with an error or by a signal",
	  { "stream", "-p", "sched_process_exit", "-f", "group_dead == 1 && exit_code != 0" } },
	{ "forks", "who starts processes and threads",
	  { "count", "-p", "sched_process_fork", "--by", "comm" } },
	{ "kills", "who sends signals by a call, which, and to whom",
	  { "stream", "-p", "syscall:*kill:call", "-p", "syscall:*sigqueueinfo:call", "-p", "syscall:pidfd_send_signal:call" } },
	{ "oom", "whom the kernel kills for want of memory",
	  { "stream", "-p", "tracepoint:oom:mark_victim", "--flags", "kstack" } },
	{ "opens", "files that are opened, and by whom",
	  { "stream", "-p", "syscall:open*:call", "--flags", "strings" } },
	{ "missing", "files that are not found",
	  { "count", "-p", "syscall:open*:call", "-f", "error == ENOENT", "--by", "comm,path", "--top", "50" } },
	{ "deletes", "files that are deleted or renamed",
	  { "stream", "-p", "syscall:unlink*:call", "-p", "syscall:rename*:call", "-p", "syscall:rmdir:call",
	    "--flags", "strings" } },
	{ "writers", "who writes how many bytes",
	  { "count", "-p", "syscall:*write*:call", "-f", "ret > 0", "--of", "ret", "--by", "comm", "--top", "20" } },
	{ "readers", "who reads how many bytes",
	  { "count", "-p", "syscall:*read:call", "-p", "syscall:pread*:call", "-p", "syscall:*readv*:call", "-f", "ret > 0",
	    "--of", "ret", "--by", "comm", "--top", "20" } },
	{ "syncs", "how long fsync and its kin take",
	  { "hist", "-p", "syscall:*sync*:call", "--by", "comm,function" } },
	{ "disks", "how long the disks take",
	  { "hist", "--from", "tracepoint:block:block_rq_issue", "--to", "tracepoint:block:block_rq_complete",
	    "--on", "dev,sector" } },
	{ "connects", "who connects where",
	  { "stream", "-p", "syscall:connect:call", "--flags", "strings" } },
	{ "accepts", "connections that are accepted",
	  { "stream", "-p", "syscall:accept*:call", "--flags", "strings" } },
	{ "resends", "segments that TCP sends again",
	  { "stream", "-p", "tracepoint:tcp:tcp_retransmit_skb" } },
	{ "dns", "how long DNS servers take",
	  { "hist", "-f", "port == 53", "--from", "sendto", "--to", "recvfrom", "--on", "tid,fd" } },
	{ "errors", "calls that fail, and how",
	  { "count", "-p", "syscall:*:call", "-f", "error", "--by", "comm,function,error", "--top", "50" } },
	{ "slow", "calls longer than 10 ms, but for those that only wait",
	  { "stream", "-p", "syscall:*:call", "-f", "duration > 10ms && function !in (" WAITS ")", "--flags", "strings" } },
	{ "locks", "waits for a lock longer than 10 ms",
	  { "stream", "-p", "syscall:futex:call", "-f", "duration > 10ms" } },
	{ "faults", "who has page faults",
	  { "count", "-p", "tracepoint:exceptions:page_fault_user", "--by", "comm", "--top", "20" } },
	{ "cpu", "who is on the processors: samples",
	  { "count", "-p", "profile:hz:99", "--by", "container,unit,comm", "--top", "20" } },
	{ "flame", "stacks of what is on the processors, for a flame graph",
	  { "stream", "-p", "profile:hz:99", "-o", "folded" } },
	{ "offcpu", "why threads sleep, and for how long in all",
	  { "count", "--from", "sched_switch", "--to", "sched_switch", "--on", "tid=next_tid", "--by", "comm,stack",
	    "--top", "20" } },
	{ "runq", "how long woken threads wait for a processor",
	  { "hist", "--from", "sched_wakeup", "--to", "sched_switch", "--on", "target_tid=next_tid" } },
};

const struct named *named_at(size_t i)
{
	return i < sizeof(questions) / sizeof(*questions) ? &questions[i] : NULL;
}

const struct named *named_find(const char *name)
{
	const struct named *named;

	for (size_t i = 0; (named = named_at(i)); i++)
		if (!strcmp(named->name, name))
			return named;
	return NULL;
}

void named_print(const struct named *named, FILE *to)
{
	for (size_t i = 0; named->words[i]; i++) {
		const char *word = named->words[i], *quote = word[strcspn(word, " *?&|<>()!\"")] ? "'" : "";

		fprintf(to, "%s%s%s%s", i ? " " : "", quote, word, quote);
	}
}

int named_parse(const struct named *named, enum option_commands command, const char *operand, int argc, char **argv,
		struct settings *settings, struct ringtail_error *error)
{
	char *words[NAMED_WORDS_MAX + 1];
	int n = 0, err;

	for (; n < NAMED_WORDS_MAX && named->words[n]; n++)
		words[n] = (char *)named->words[n];	/* getopt orders them, and does not write into them */
	words[n] = NULL;
	err = options_parse(command == READ ? STREAM : command, NULL, n, words, settings, error);
	if (err < 0)
		return err;
	settings->question = settings->filter;
	settings->filter = NULL;
	return options_parse(command, operand, argc, argv, settings, error);
}
