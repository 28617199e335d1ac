/*
 * ringtail-kafka: what couriers have carried to Kafka, as a recording on stdout: tracectl runs it for
 * `read kafka:BROKERS` and `--connect kafka:BROKERS`, and reads what it writes. With --delete-runs it reads the same, and
 * writes how many runs nothing is left of.
 */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "client/lib/failure.h"
#include "courier/notice.h"
#include "courier/reader_options.h"
#include "courier/reading.h"
#include "courier/runs.h"
#include "courier/stale.h"
#include "proto/build.h"
#include "query/glob.h"

#define EXIT_USAGE	2
#define EXIT_LOST	3	/* as tracectl's */

static volatile sig_atomic_t stop;

static void on_signal(int signal)
{
	(void)signal;
	stop = 1;
}

struct reader {
	const struct reader_options *options;
	struct runs *runs;
	size_t hosts;				/* that there are, */
	char names[HOSTS_NAMED_BYTES];		/* and the first of them */
	char only[HOST_BYTES_MAX];		/* the one */
	bool lossy;
};

/* ---- Which hosts --------------------------------------------------------------------------------- */

static void note_host(void *context, const char *host)
{
	struct reader *reader = context;
	size_t used = strlen(reader->names);

	snprintf(reader->names + used, sizeof(reader->names) - used, "%s%s", used ? ", " : "", host);
	snprintf(reader->only, sizeof(reader->only), "%s", host);
	reader->hosts++;
}

static void list_host(void *context, const char *host)
{
	(void)context;
	printf("%s\n", host);
}

static int refuse_none(const struct reader *reader, struct ringtail_error *error)
{
	const struct reader_options *options = reader->options;

	if (options->host.n) {
		failure_set(error, ENOENT, "no-such-host", "%s.runs has no host '%.100s'%s", options->kafka.prefix,
			    options->host.text[0], options->host.n > 1 ? ", nor any of the others" : "");
		failure_hint(error, "ringtail-kafka --brokers %.200s --prefix %.64s --list lists them",
			     options->kafka.brokers, options->kafka.prefix);
		return -ENOENT;
	}
	failure_set(error, ENODATA, "no-hosts", "no courier has carried anything to %s.runs yet", options->kafka.prefix);
	failure_hint(error, "start ringtail-courier on a host, or name another prefix: kafka:BROKERS/PREFIX");
	return -ENODATA;
}

/* One that is named may come yet, and so may all that come from now on. */
static int choose_hosts(struct reader *reader, struct ringtail_error *error)
{
	const struct reader_options *options = reader->options;

	if (!options->lanes && options->host.n && !glob_is_pattern(options->host.text[0])) {
		snprintf(reader->only, sizeof(reader->only), "%s", options->host.text[0]);
		return 0;
	}
	runs_each_host(reader->runs, note_host, reader);
	if (!reader->hosts && !(options->lanes && options->follow))
		return refuse_none(reader, error);
	if (options->lanes || reader->hosts == 1)
		return 0;
	failure_set(error, EINVAL, "several-hosts", "there are %zu hosts: %s", reader->hosts, reader->names);
	failure_hint(error, "name one: kafka:BROKERS/PREFIX/HOST, or --host HOST");
	return -EINVAL;
}

/* ---- Their frames -------------------------------------------------------------------------------- */

static int read_hosts(struct reader *reader, struct ringtail_error *error)
{
	const struct reader_options *options = reader->options;
	const struct reading_wanted wanted = {
		.only = options->lanes ? NULL : reader->only,
		.host = options->host.text,
		.hosts = options->host.n,
		.follow = options->follow,
		.since_ms = options->since_ms,
		.patience_ms = options->patience,
	};
	struct reading *reading = reading_create(&options->kafka, &wanted, reader->runs, stdout);
	int err;

	if (!reading)
		return failure_set(error, ENOMEM, "no-memory", "out of memory");
	err = reading_run(reading, &stop, error);
	reader->lossy = reading_is_lossy(reading);
	if (!err && options->ledger)
		reading_print_ledger(reading, stderr, options->json);
	reading_destroy(reading);
	return err;
}

/* ---- Runs of which nothing is left ------------------------------------------------------------------ */

static void print_stale(const struct reader_options *options, const struct stale_ledger *ledger)
{
	if (options->json) {
		printf("{\"records\":%" PRIu64 ",\"named\":%" PRIu64 ",\"recent\":%" PRIu64 ",\"stale\":%" PRIu64
		       ",\"deleted\":%" PRIu64 "}\n", ledger->records, ledger->named, ledger->recent, ledger->stale,
		       ledger->deleted);
		return;
	}
	printf("%s.runs: %" PRIu64 " records = %" PRIu64 " that frames name + %" PRIu64 " of the last day + %" PRIu64
	       " that nothing names; ", options->kafka.prefix, ledger->records, ledger->named, ledger->recent, ledger->stale);
	if (options->apply)
		printf("%" PRIu64 " deleted\n", ledger->deleted);
	else
		printf("--apply would delete %" PRIu64 "\n", ledger->stale);
}

static int delete_runs(const struct reader_options *options, struct ringtail_error *error)
{
	const struct stale_wanted wanted = {
		.host = options->host.text,
		.hosts = options->host.n,
		.now_ms = (int64_t)time(NULL) * 1000,
		.patience_ms = options->patience,
		.deletes = options->apply,
	};
	struct stale_ledger ledger = { 0 };
	int err = stale_run(&options->kafka, &wanted, &stop, &ledger, error);

	if (!err || ledger.deleted)
		print_stale(options, &ledger);
	return fflush(stdout) && !err ? -EPIPE : err;
}

static int run(struct reader *reader, struct ringtail_error *error)
{
	const struct reader_options *options = reader->options;
	int err;

	if (options->delete_runs)
		return delete_runs(options, error);
	err = runs_open(&options->kafka, options->host.text, options->host.n, &reader->runs, error);
	if (!err && options->list) {
		runs_each_host(reader->runs, list_host, NULL);
		return fflush(stdout) ? -EIO : 0;
	}
	if (!err)
		err = choose_hosts(reader, error);
	return err ? err : read_hosts(reader, error);
}

int main(int argc, char **argv)
{
	static struct reader_options options;
	struct reader reader = { .options = &options };
	struct ringtail_error error = { 0 };
	int err;

	notice_open("ringtail-kafka");
	if (reader_options_parse(argc, argv, &options, &error)) {
		notice_failure(&error);
		return EXIT_USAGE;
	}
	if (options.help || options.version) {
		if (options.help)
			reader_options_help(stdout);
		else
			build_print(stdout, "ringtail-kafka");
		return fflush(stdout) ? EXIT_FAILURE : EXIT_SUCCESS;
	}
	signal(SIGTERM, on_signal);
	signal(SIGINT, on_signal);
	signal(SIGPIPE, SIG_IGN);
	err = run(&reader, &error);
	runs_close(reader.runs);
	if (err && err != -EPIPE)
		notice_failure(&error);
	/* Who reads has enough: that is no failure. */
	return err && err != -EPIPE ? EXIT_FAILURE : reader.lossy ? EXIT_LOST : EXIT_SUCCESS;
}
