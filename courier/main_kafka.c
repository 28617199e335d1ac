/*
 * ringtail-kafka: what couriers have carried to Kafka, as a recording on stdout: tracectl runs it for
 * `read kafka:BROKERS` and `--connect kafka:BROKERS`, and reads what it writes.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/lib/failure.h"
#include "courier/notice.h"
#include "courier/reader_options.h"
#include "courier/recording.h"
#include "courier/runs.h"
#include "courier/topic.h"
#include "proto/build.h"

#define EXIT_USAGE	2
#define EXIT_LOST	3	/* as tracectl's */
#define STREAM_WAIT_MS	200	/* between two looks whether we are to end */

static volatile sig_atomic_t stop;

static void on_signal(int signal)
{
	(void)signal;
	stop = 1;
}

struct reader {
	const struct reader_options *options;
	struct runs *runs;
	const char *host;
	size_t hosts;			/* that there are, */
	char names[256];		/* and the first of them */
	char only[HOST_BYTES_MAX];	/* the one */
	bool lost;			/* records could not be decoded */
};

static int find_beginning(void *context, const struct parcel_label *label, struct runs_beginning *beginning,
			  struct ringtail_error *error)
{
	struct reader *reader = context;

	return runs_find(reader->runs, reader->host, label, beginning, error);
}

/* ---- Which host ---------------------------------------------------------------------------------- */

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

static int choose_host(struct reader *reader, struct ringtail_error *error)
{
	if (reader->options->host) {
		reader->host = reader->options->host;
		return 0;
	}
	runs_each_host(reader->runs, note_host, reader);
	reader->host = reader->only;
	if (reader->hosts == 1)
		return 0;
	if (!reader->hosts) {
		failure_set(error, ENODATA, "no-hosts", "no courier has carried anything to %s.runs yet",
			    reader->options->kafka.prefix);
		failure_hint(error, "start ringtail-courier on a host, or name another prefix: kafka:BROKERS/PREFIX");
		return -ENODATA;
	}
	failure_set(error, EINVAL, "several-hosts", "there are %zu hosts: %s", reader->hosts, reader->names);
	failure_hint(error, "name one: kafka:BROKERS/PREFIX/HOST, or --host HOST");
	return -EINVAL;
}

/* ---- Its frames ----------------------------------------------------------------------------------- */

static int take(struct reader *reader, struct recording *recording, const rd_kafka_message_t *record,
		struct ringtail_error *error)
{
	size_t bytes = strlen(reader->host);
	rd_kafka_headers_t *headers;
	struct parcel_label label;

	if (record->key_len != bytes || memcmp(record->key, reader->host, bytes) != 0 ||
	    rd_kafka_message_headers(record, &headers) || !parcel_read_label(headers, &label)) {
		recording_pass(recording);
		return 0;
	}
	return recording_take(recording, &label, record->payload, record->len, error);
}

static int read_frames(struct reader *reader, struct recording *recording, struct topic *topic,
		       struct ringtail_error *error)
{
	const rd_kafka_message_t *record;
	int err = 0;

	while (!stop && !err) {
		enum topic_next next = topic_next(topic, 0, &record, error);

		if (next == TOPIC_TIMEOUT) {
			fflush(stdout);			/* what is here is seen before it waits */
			next = topic_next(topic, STREAM_WAIT_MS, &record, error);
		}
		if (next == TOPIC_FAILED)
			return -EIO;
		if (next == TOPIC_END && !reader->options->follow)
			return 0;
		if (next == TOPIC_RECORD)
			err = take(reader, recording, record, error);
		if (!err && ferror(stdout))
			err = failure_set(error, EPIPE, "cannot-write", "cannot write the recording");
	}
	return err;
}

static void print_ledger(const struct reader *reader, const struct recording *recording)
{
	const struct recording_ledger *ledger = recording_ledger(recording);

	fprintf(stderr, reader->options->json ?
		"{\"host\":\"%s\",\"records\":%" PRIu64 ",\"taken\":%" PRIu64 ",\"duplicate\":%" PRIu64 ",\"damaged\":%"
		PRIu64 ",\"residual\":%" PRId64 ",\"holes\":%" PRIu64 ",\"missing\":%" PRIu64 ",\"other\":%" PRIu64 "}\n" :
		"%s: %" PRIu64 " records = %" PRIu64 " taken + %" PRIu64 " duplicate + %" PRIu64 " damaged; residual %" PRId64
		"; %" PRIu64 " holes, %" PRIu64 " attempts missing in them; %" PRIu64 " records of others\n",
		reader->host, ledger->records, ledger->taken, ledger->duplicate, ledger->damaged,
		(int64_t)(ledger->records - ledger->taken - ledger->duplicate - ledger->damaged), ledger->holes,
		ledger->missing, ledger->other);
}

static void tell_damaged(struct reader *reader, const struct recording_ledger *ledger)
{
	reader->lost = ledger->damaged;
	if (reader->lost)
		notice_warn("records-damaged", "%" PRIu64 " records of %.64s in %s.frames are damaged, or %s.runs does not "
			    "have their run: what they had is missing", ledger->damaged, reader->host,
			    reader->options->kafka.prefix, reader->options->kafka.prefix);
}

static int read_host(struct reader *reader, struct ringtail_error *error)
{
	const struct reader_options *options = reader->options;
	struct recording *recording = recording_create(stdout, find_beginning, reader);
	struct topic *topic = NULL;
	int err;

	if (!recording)
		return failure_set(error, ENOMEM, "no-memory", "out of memory");
	err = topic_open(&options->kafka, KAFKA_FRAMES, options->since_ms ? TOPIC_TIME : options->follow ? TOPIC_NEW :
			 TOPIC_ALL, (int64_t)options->since_ms, &topic, error);
	if (!err)
		err = read_frames(reader, recording, topic, error);
	if (!err)
		err = recording_end(recording, stop ? "the reader was stopped" : "that is what Kafka has", error);
	fflush(stdout);
	topic_close(topic);
	tell_damaged(reader, recording_ledger(recording));
	if (!err && options->ledger)
		print_ledger(reader, recording);
	recording_destroy(recording);
	return err;
}

static int run(struct reader *reader, struct ringtail_error *error)
{
	int err = runs_open(&reader->options->kafka, reader->options->host, &reader->runs, error);

	if (!err && reader->options->list) {
		runs_each_host(reader->runs, list_host, NULL);
		return fflush(stdout) ? -EIO : 0;
	}
	if (!err)
		err = choose_host(reader, error);
	return err ? err : read_host(reader, error);
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
	return err ? EXIT_FAILURE : reader.lost ? EXIT_LOST : EXIT_SUCCESS;
}
