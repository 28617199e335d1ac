#include "courier/reader_options.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "client/lib/failure.h"
#include "courier/parcel.h"

static const struct option_row rows[] = {
#define OPTION(member, name, argument, KIND, help) \
	{ name, argument, KIND, offsetof(struct reader_options, member), help },
#include "courier/reader_options.def"
#undef OPTION
};

#define ROWS (sizeof(rows) / sizeof(*rows))
_Static_assert(ROWS <= OPTIONS_MAX, "each row has its flag");

/* kafka:BROKERS[/PREFIX[/HOST]] */
static int split_source(struct reader_options *options, struct ringtail_error *error)
{
	char *at = options->parts, *rest;
	size_t bytes = strlen(options->source);

	if (strncmp(options->source, "kafka:", strlen("kafka:")) != 0 || bytes >= sizeof(options->parts)) {
		failure_set(error, EINVAL, "bad-source", "'%.100s' names no Kafka", options->source);
		failure_hint(error, "kafka:HOST:PORT,HOST:PORT, or with /PREFIX or /PREFIX/HOST behind it");
		return -EINVAL;
	}
	memcpy(options->parts, options->source + strlen("kafka:"), bytes - strlen("kafka:") + 1);
	rest = strsep(&at, "/");
	options->brokers = rest;
	rest = strsep(&at, "/");
	if (rest && *rest)
		options->prefix = rest;
	if (at && *at && options->host.n)
		return option_refuse(error, "host", options->host.text[0], "stands beside a source that names a host");
	if (at && *at)
		options->host = (struct option_texts){ .n = 1, .text = { at } };
	return 0;
}

static const char *or_environment(const char *value, const char *name)
{
	const char *from = value ? value : getenv(name);

	return from && *from ? from : NULL;
}

static uint64_t patience_of_environment(void)
{
	const char *text = or_environment(NULL, "RINGTAIL_KAFKA_PATIENCE");
	uint64_t ms = text ? strtoull(text, NULL, 10) : 0;

	return ms ? ms : PATIENCE_MS_DEFAULT;
}

static int settle(struct reader_options *options, struct ringtail_error *error)
{
	if (options->source && split_source(options, error))
		return -EINVAL;
	options->ledger = options->summary;
	options->json = options->summary && !strcmp(options->summary, "json");
	if (options->summary && !options->json && strcmp(options->summary, "text") != 0)
		return option_refuse(error, "summary", options->summary, "may be text or json");
	for (size_t i = 0; i < options->host.n; i++)
		if (!parcel_host_is_good(options->host.text[i]))
			return option_refuse(error, "host", options->host.text[i], "is no host name, and no glob of one");
	if (options->apply && !options->delete_runs)
		return option_refuse(error, "apply", "", "stands without --delete-runs");
	if (options->delete_runs && (options->lanes || options->list || options->follow || options->since_ms))
		return option_refuse(error, "delete-runs", "", "stands beside --lanes, --list, --follow or --since-ms");
	if (options->host.n > 1 && !options->lanes && !options->delete_runs)
		return option_refuse(error, "host", options->host.text[1], "is one too many without --lanes");
	if (!options->patience)
		options->patience = patience_of_environment();
	options->kafka = (struct kafka_settings){
		.brokers = options->brokers,
		.prefix = options->prefix ? options->prefix : "ringtail",
		.ca = or_environment(options->kafka_ca, "RINGTAIL_KAFKA_CA"),
		.cert = or_environment(options->kafka_cert, "RINGTAIL_KAFKA_CERT"),
		.key = or_environment(options->kafka_key, "RINGTAIL_KAFKA_KEY"),
		.sasl = or_environment(options->sasl, "RINGTAIL_KAFKA_SASL"),
		.user = or_environment(options->sasl_user, "RINGTAIL_KAFKA_SASL_USER"),
		.password_file = or_environment(options->sasl_password_file, "RINGTAIL_KAFKA_SASL_PASSWORD_FILE"),
	};
	options->kafka.tls = options->kafka_tls || options->kafka.ca || options->kafka.cert;
	return kafka_check(&options->kafka, error);
}

int reader_options_parse(int argc, char **argv, struct reader_options *options, struct ringtail_error *error)
{
	int err = option_parse(rows, ROWS, argc, argv, options, error);

	return err || options->help || options->version ? err : settle(options, error);
}

void reader_options_help(FILE *to)
{
	fprintf(to, "usage: ringtail-kafka --brokers LIST [OPTION]...\n"
		    "Writes what couriers have carried to Kafka as a recording to stdout; or, with --delete-runs,\n"
		    "deletes what nobody needs to read it.\n\n");
	option_help(rows, ROWS, to);
}
