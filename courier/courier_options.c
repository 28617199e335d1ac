#include "courier/courier_options.h"

#include <errno.h>
#include <string.h>

static const struct option_row rows[] = {
#define OPTION(member, name, argument, KIND, help) \
	{ name, argument, KIND, offsetof(struct courier_options, member), help },
#include "courier/courier_options.def"
#undef OPTION
};

#define ROWS (sizeof(rows) / sizeof(*rows))
_Static_assert(ROWS <= OPTIONS_MAX, "each row has its flag");

static int parse_flags(const char *list, unsigned *flags, struct ringtail_error *error)
{
	static const struct {
		const char *name;
		unsigned flag;
	} known[] = {
		{ "kstack", RINGTAIL_KSTACK | RINGTAIL_MAPS }, { "ustack", RINGTAIL_USTACK | RINGTAIL_MAPS },
		{ "strings", RINGTAIL_STRINGS }, { "context", RINGTAIL_CONTEXT },
		{ "fds", RINGTAIL_FDS }, { "data", RINGTAIL_DATA },
	};

	for (const char *at = list; at && *at; at += strcspn(at, ",") + (at[strcspn(at, ",")] == ',')) {
		size_t bytes = strcspn(at, ","), i = 0;

		while (i < sizeof(known) / sizeof(*known) &&
		       (strlen(known[i].name) != bytes || memcmp(known[i].name, at, bytes) != 0))
			i++;
		if (i == sizeof(known) / sizeof(*known))
			return option_refuse(error, "flags", list, "has other names than kstack, ustack, strings, context, "
				   "fds, data");
		*flags |= known[i].flag;
	}
	return 0;
}

/* What they mean together. */
static int settle(struct courier_options *options, struct ringtail_error *error)
{
	struct courier_settings *settings = &options->settings;

	*settings = (struct courier_settings){
		.address = options->connect,
		.relay = options->relay,
		.consumer = options->consumer ? options->consumer : "kafka",
		.probe = options->probe.text,
		.probes = options->probe.n,
		.filter = options->filter,
		.host = options->host,
		.window_bytes = options->window ? options->window :
				options->relay	? WINDOW_BYTES_RELAY : WINDOW_BYTES_DEFAULT,
		.json = options->summary && !strcmp(options->summary, "json"),
		.kafka = {
			.brokers = options->brokers,
			.prefix = options->prefix ? options->prefix : "ringtail",
			.tls = options->kafka_tls || options->kafka_ca || options->kafka_cert,
			.ca = options->kafka_ca,
			.cert = options->kafka_cert,
			.key = options->kafka_key,
			.sasl = options->sasl,
			.user = options->sasl_user,
			.password_file = options->sasl_password_file,
		},
	};
	if (options->summary && !settings->json && strcmp(options->summary, "text") != 0)
		return option_refuse(error, "summary", options->summary, "may be text or json");
	if (options->host && (!*options->host || strlen(options->host) >= HOST_BYTES_MAX))
		return option_refuse(error, "host", options->host, "is empty or too long");
	if (options->relay && (options->connect || options->consumer || options->probe.n || options->filter ||
			       options->flags || options->host))
		return option_refuse(error, "relay", options->relay, "leaves no choice of a daemon, probes, filter, flags "
				     "or host: its agents and their certificates have made it");
	if (settings->window_bytes < WINDOW_BYTES_MIN || settings->window_bytes > WINDOW_BYTES_MAX)
		return option_refuse(error, "window", "", "is not between 4MiB and 1GiB");
	if (parse_flags(options->flags, &settings->flags, error))
		return -EINVAL;
	return kafka_check(&settings->kafka, error);
}

int courier_options_parse(int argc, char **argv, struct courier_options *options, struct ringtail_error *error)
{
	int err = option_parse(rows, ROWS, argc, argv, options, error);

	return err || options->help || options->version ? err : settle(options, error);
}

void courier_options_help(FILE *to)
{
	fprintf(to, "usage: ringtail-courier --brokers LIST [OPTION]...\n"
		    "Carries the frames of a ringtaild to Kafka, and acknowledges what Kafka has confirmed.\n\n");
	option_help(rows, ROWS, to);
}
