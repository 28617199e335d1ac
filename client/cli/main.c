/*
 * tracectl: watches a kernel through ringtaild. This file: which command, and its --help.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/lib/conn.h"
#include "client/lib/address.h"
#include "client/cli/cmd.h"
#include "client/cli/debuginfod.h"
#include "client/lib/failure.h"
#include "client/cli/kafka_source.h"
#include "client/cli/named.h"
#include "client/cli/pager.h"
#include "proto/build.h"
#include "query/nearest.h"

static const struct command {
	const char *name;
	enum option_commands bit;
	enum exit_code (*run)(const struct settings *settings);
	const char *operand;		/* what may follow the options */
	const char *usage;
	const char *summary;
	const char *about;		/* and examples */
} commands[] = {
	{"list", LIST, cmd_list, "GLOB", "list [GLOB | hosts]", "probes with their fields; the hosts of a relay",
	 "`hosts`, of a relay: those that it knows, the worst first.\n"
	 "Example:\n"
	 "  tracectl list 'syscall:open*:call'\n"},
	{"stream", STREAM, cmd_stream, NULL, "stream [-p SPEC]... [-f EXPR] [-- COMMAND]",
	 "events, as they happen",
	 "Example:\n"
	 "  tracectl stream -p syscall:openat:call -f 'comm == \"bash\" && error'"
	 " --flags strings\n"},
	{"record", RECORD, cmd_record, NULL, "record -w FILE [as stream]", "the same, to a file",
	 "The file holds the frames as they came; read it with `tracectl read`. With -n it ends\n"
	 "after the batch that brings the last event.\n"
	 "Example:\n"
	 "  tracectl record -w trace.rt -p 'syscall:*:call' --duration 10s\n"},
	{"dump", DUMP, cmd_dump, NULL, "dump [--last TIME] -w FILE", "the last seconds, from the daemon's memory and disk",
	 "The flight recorder: what the daemon records always, it holds for a while; streams go on.\n"
	 "Exit 3: not all of that time is there; it says what to do about it.\n"
	 "Example:\n"
	 "  tracectl dump --last 30s -w before-the-alert.rt\n"},
	{"dumps", DUMPS, cmd_dumps, "WORD...", "dumps [get ID -w FILE | remove ID]",
	 "what the daemon's triggers have dumped",
	 "Lists them, the oldest first; `get` fetches one, for `tracectl read`; `remove` deletes one on\n"
	 "the daemon's disk, and is for operators. The daemon's option `on` makes triggers.\n"
	 "Exit 3: the dump that was fetched is cut short.\n"
	 "Example:\n"
	 "  tracectl dumps get 20261123T031500Z-slow-fsync -w slow.rt\n"},
	{"read", READ, cmd_read, "FILE", "read FILE", "events of a file",
	 "FILE - is stdin.\n"
	 "Example:\n"
	 "  tracectl read trace.rt -o json | jq 'select(.duration > 1000000)'\n"},
	{"count", ASK, cmd_count, "FILE", "count [-p SPEC]... [--by NAME,...] [FILE]",
	 "counts events, in groups",
	 "Of a daemon until Ctrl-C, --duration or -n; or of a file or a spool directory.\n"
	 "Example:\n"
	 "  tracectl count -p syscall -f error --by comm,function,error --top 10 --duration 10s\n"},
	{"hist", ASK, cmd_hist, "FILE", "hist [-p SPEC]... [--of NAME] [FILE]",
	 "distribution of a number: durations, sizes, any field",
	 "Example:\n"
	 "  tracectl hist -p syscall:read --of ret --by comm --duration 10s\n"},
	{"summary", ASK, cmd_summary, "FILE", "summary [-f EXPR] [--by NAME,...] [FILE]",
	 "calls, errors and times, most time first, as strace -c",
	 "Example:\n"
	 "  tracectl summary -f 'comm == \"redis-server\"' --duration 10s\n"},
	{"stuck", STUCK, cmd_stuck, NULL, "stuck [--longer-than TIME] [-f EXPR]",
	 "threads that are in a system call now, and where",
	 "Those that are in their call for longest first, with kernel stacks. Since when is known of\n"
	 "calls that were recorded when they began: those that are always on, or in a stream.\n"
	 "Example:\n"
	 "  tracectl stuck --longer-than 1s -f 'comm == \"postgres\"'\n"},
	{"top", TOP, cmd_top, "TABLE", "top [TABLE] [-f EXPR]", "full screen: processes, calls, files, connections, losses",
	 "TABLE is processes, calls, files, connections, containers, scheduler or losses.\n"
	 "Keys: 1-7 or Tab the table, arrows and Enter the stream of a row, Esc back, s the order,\n"
	 "/ a filter, space a pause, q the end.\n"
	 "Example:\n"
	 "  tracectl top files -f 'comm == \"postgres\"'\n"},
	{"forget", FORGET, cmd_forget, "NAME", "forget NAME",
	 "deletes a durable consumer, and the events kept for it",
	 "For operators. It must not be connected.\n"
	 "Example:\n"
	 "  tracectl forget nightly\n"},
	{"stat", STAT, cmd_stat, NULL, "stat [-w] [--fleet]", "rates, rings, clients, the loss ledger; of a relay its hosts'",
	 "Example:\n"
	 "  tracectl stat -w\n"},
	{"probes", PROBES, cmd_probes, NULL, "probes", "what is always recorded, and who enabled it",
	 "Example:\n"
	 "  tracectl probes -o json\n"},
	{"enable", ENABLE, cmd_enable, "SPEC...", "enable [--flags LIST] SPEC...",
	 "records these always, also after a restart",
	 "For operators. Whoever names no probe gets these too.\n"
	 "Example:\n"
	 "  tracectl enable 'syscall:open*:call'\n"},
	{"disable", DISABLE, cmd_disable, "SPEC...", "disable SPEC...",
	 "records these no longer, also after a restart",
	 "For operators. SPEC is as `tracectl probes` shows it.\n"
	 "Example:\n"
	 "  tracectl disable 'syscall:open*:call'\n"},
	{"token", TOKEN, cmd_token, "NAME", "token NAME", "makes a token for a client",
	 "The token goes to stdout, its line for the daemon's tokens file to stderr. No daemon is\n"
	 "asked.\n"
	 "Example:\n"
	 "  (umask 077; tracectl token alice >alice.token)\n"},
	{"doctor", DOCTOR, cmd_doctor, NULL, "doctor",
	 "checks this host and its daemon, and prints a remedy for each problem",
	 "Example:\n"
	 "  sudo tracectl doctor\n"},
};

#define COMMANDS (sizeof(commands) / sizeof(*commands))

enum exit_code cmd_fail(const struct ringtail_error *error, const char *text)
{
	failure_print(stderr, error, text);
	return EXIT_FAILED;
}

enum exit_code cmd_usage_at(const struct ringtail_error *error, const char *command,
			    const char *text)
{
	failure_print(stderr, error, text);
	if (!strstr(error->hint, "--help"))
		fprintf(stderr, "    tracectl %s%s--help tells more\n", command ? command : "",
			command ? " " : "");
	return EXIT_USAGE;
}

enum exit_code cmd_usage(const struct ringtail_error *error, const char *command)
{
	return cmd_usage_at(error, command, NULL);
}

enum exit_code cmd_written(int err, enum exit_code code)
{
	struct ringtail_error error;

	if (!err || err == EPIPE)
		return code;
	failure_set(&error, err, "cannot-write", "cannot write: %s", strerror(err));
	return cmd_fail(&error, NULL);
}

enum exit_code cmd_printed(enum exit_code code)
{
	errno = 0;
	if (fflush(stdout) == 0 && !ferror(stdout))
		return code;
	return cmd_written(errno ? errno : EIO, code);
}

bool cmd_color(const struct settings *settings, FILE *to)
{
	const char *no = getenv("NO_COLOR"), *term = getenv("TERM");

	if (settings->color != COLOR_AUTO)
		return settings->color == COLOR_ALWAYS;
	return isatty(fileno(to)) && !(no && *no) && !(term && !strcmp(term, "dumb"));
}

static void print_help(void)
{
	printf("usage: tracectl [--connect ADDR] [--summary text|json] COMMAND\n\n");
	for (size_t i = 0; i < COMMANDS; i++)
		printf("  %-30s %s\n", commands[i].usage, commands[i].summary);
	printf("\nQuestions that are commands, too; `tracectl NAME --help` shows what one stands for:\n");
	for (size_t i = 0; named_at(i); i++)
		printf("  %-30s %s\n", named_at(i)->name, named_at(i)->summary);
	printf("\nOptions:\n");
	options_print_help(stdout, NONE);
	printf("\nExit: 0 good, 1 failed, 2 usage, 3 events were lost, the ledger does not close,\n"
	       "      or a file was cut short.\n"
	       "Example:\n  tracectl stream -p 'syscall:open*:call' -n 10\n");
}

static void print_command_help(const struct command *command)
{
	printf("usage: tracectl %s\n%s\n\nOptions:\n", command->usage, command->summary);
	options_print_help(stdout, command->bit);
	printf("\n%s", command->about);
}

/* Of a question that has a name; `command` is what it stands for. */
static void print_named_help(const struct named *named, const struct command *command)
{
	printf("usage: tracectl %s [OPTIONS]%s [FILE]\n%s\n\nIt stands for\n  tracectl ", named->name,
	       command->bit == STREAM ? " [-- COMMAND] |" : "", named->summary);
	named_print(named, stdout);
	printf("\nand takes more options of %s: what is said here once more holds instead, probes come in addition, and\n"
	       "both filters must hold. FILE is a recording or a spool directory.\n\nOptions:\n", command->name);
	options_print_help(stdout, command->bit);
	printf("\nExample:\n  tracectl %s -c nginx -d 10s\n", named->name);
}

static const struct command *find_command(const char *word)
{
	for (size_t i = 0; i < COMMANDS; i++)
		if (!strcmp(commands[i].name, word))
			return &commands[i];
	return NULL;
}

static enum exit_code unknown_command(const char *word)
{
	char near[NEAREST_TEXT_BYTES];
	struct ringtail_error error;
	struct nearest nearest;

	nearest_init(&nearest, word);
	for (size_t i = 0; i < COMMANDS; i++)
		nearest_offer(&nearest, commands[i].name);
	for (size_t i = 0; named_at(i); i++)
		nearest_offer(&nearest, named_at(i)->name);
	failure_set(&error, 0, "unknown-command", "there is no command '%s'", word);
	if (nearest_text(&nearest, near))
		failure_hint(&error, "did you mean %s?", near);
	else
		failure_hint(&error, "tracectl --help lists them");
	return cmd_usage(&error, NULL);
}

/*
 * The three standard descriptors, where the caller closed one: else the next file or socket would
 * take its number, and be written to in its place. What stands in refuses to be used.
 */
static void fill_standard_fds(void)
{
	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
		if (fcntl(fd, F_GETFD) < 0)
			(void)!open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
}

static void say_waiting(const char *text)
{
	fprintf(stderr, "tracectl: %s\n", text);
}

/*
 * The options behind the command's name. Of a question that has a name, events of a FILE are what `read` reads.
 * -EINVAL with *error.
 */
static int parse_rest(const struct command **command, const struct named *named, int argc, char **argv,
		      struct settings *settings, struct ringtail_error *error)
{
	struct settings before = *settings;
	int at;

	if (!named)
		return options_parse((*command)->bit, (*command)->operand, argc, argv, settings, error);
	at = named_parse(named, (*command)->bit, (*command)->operand, argc, argv, settings, error);
	if (at >= 0 || (*command)->bit != STREAM || strcmp(error->code, "too-many-words"))
		return at;
	*settings = before;
	*command = find_command("read");
	return named_parse(named, (*command)->bit, (*command)->operand, argc, argv, settings, error);
}

/* Whether the command may ask who --connect names. -EINVAL with *error. */
static int check_connect(const struct command *command, const struct settings *settings, struct ringtail_error *error)
{
	struct address address;

	for (size_t i = 0; i < settings->connect.n; i++)
		if (!(command->bit & (STREAM | READ | ASK) && kafka_source_is(settings->connect.text[i])) &&
		    address_parse(settings->connect.text[i], &address, error))
			return -EINVAL;
	if (settings->explain && settings->host.n) {
		failure_set(error, EINVAL, "one-host", "--explain asks one daemon what its own kernel evaluates, and --host"
			    " names hosts behind it");
		failure_hint(error, "leave --host out, and --connect to one of the hosts itself");
		return -EINVAL;
	}
	if (settings->connect.n < 2 || command->bit & (STREAM | ASK))
		return 0;
	failure_set(error, EINVAL, "several-hosts", "%s asks one daemon, and --connect stands here %zu times",
		    command->name, settings->connect.n);
	failure_hint(error, "stream, count, hist and summary take several");
	return -EINVAL;
}

int main(int argc, char **argv)
{
	static struct settings settings;
	const struct command *command;
	const struct named *named = NULL;
	struct ringtail_error error;
	const char *name;
	int at;

	fill_standard_fds();
	conn_set_notice(say_waiting);
	at = options_parse(NONE, NULL, argc, argv, &settings, &error);
	if (at < 0)
		return cmd_usage(&error, NULL);
	if (settings.version) {
		build_print(stdout, "tracectl");
		return cmd_printed(EXIT_GOOD);
	}
	if (settings.help) {
		pager_begin(!settings.no_pager);
		print_help();
		pager_end();
		return cmd_printed(EXIT_GOOD);
	}
	if (at == argc) {
		failure_set(&error, 0, "no-command", "which command?");
		failure_hint(&error, "tracectl --help lists them");
		return cmd_usage(&error, NULL);
	}
	name = argv[at];
	command = find_command(name);
	if (!command) {
		named = named_find(name);
		if (!named)
			return unknown_command(name);
		command = find_command(named->words[0]);
	}
	at = parse_rest(&command, named, argc - at, argv + at, &settings, &error);
	if (at < 0)
		return cmd_usage(&error, name);
	if (settings.help) {
		pager_begin(!settings.no_pager);
		if (named)
			print_named_help(named, command);
		else
			print_command_help(command);
		pager_end();
		return cmd_printed(EXIT_GOOD);
	}
	ringtail_set_trust(&(struct ringtail_trust){
		.ca = settings.ca,
		.cert = settings.cert,
		.key = settings.key,
		.token_file = settings.token_file,
		.server_name = settings.server_name,
		.insecure = settings.insecure,
	});
	if (check_connect(command, &settings, &error))
		return cmd_usage(&error, command->name);
	if (settings.debuginfod && debuginfod_enable(&error))
		return cmd_fail(&error, NULL);
	if (settings.explain)
		return cmd_explain(&settings, command->name);
	return command->run(&settings);
}
