#include "daemon/config/config.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "daemon/config/option.h"
#include "daemon/host/identity.h"
#include "query/filter.h"
#include "query/probe_set.h"

/* ---- Who may connect ------------------------------------------------------------------------- */

__attribute__((format(printf, 4, 5)))
static int refuse(struct error *error, const char *code, const char *hint, const char *what, ...);

static int refuse(struct error *error, const char *code, const char *hint, const char *what, ...)
{
	char text[ERROR_TEXT_BYTES];
	va_list arguments;

	va_start(arguments, what);
	vsnprintf(text, sizeof(text), what, arguments);
	va_end(arguments);
	error_set(error, EINVAL, code, "%s", text);
	error_hint(error, "%s", hint);
	return -EINVAL;
}

static int check_files(const struct config *config, struct error *error)
{
	if (config->tls_key && !config->tls_cert)
		return refuse(error, "tls-no-cert", "give tls-cert too: the certificate of that key",
			      "tls-key is given, and tls-cert is not");
	if (config->tls_cert && !config->tls_key)
		return refuse(error, "tls-no-key", "give tls-key too: the key of that certificate",
			      "tls-cert is given, and tls-key is not");
	if (config->tls_client_ca && !config->tls_cert)
		return refuse(error, "tls-no-cert",
			      "clients show their certificates over TLS: give tls-cert and tls-key",
			      "tls-client-ca is given, and tls-cert is not");
	if (config->tls_crl && !config->tls_client_ca)
		return refuse(error, "tls-no-ca", "give tls-client-ca too: the authority that made the lists",
			      "tls-crl is given, and tls-client-ca is not");
	return 0;
}

struct listened {
	unsigned plain, tls, local;
};

static int check_address(const struct config *config, const struct address *address,
			 struct listened *listened, struct error *error)
{
	if (address_is_unix(address)) {
		listened->local++;
	} else if (address->loopback && config->insecure) {
		listened->plain++;
	} else if (config->tls_cert) {
		listened->tls++;
	} else if (address->loopback) {
		return refuse(error, "listen-needs-insecure",
			      "give tls-cert and tls-key; or --insecure if every local user may"
			      " read the trace; or listen on a unix socket",
			      "listen: `%s`: tcp is for TLS, and plain only on loopback with"
			      " --insecure", address->text);
	} else {
		return refuse(error, "listen-needs-tls",
			      "give tls-cert, tls-key and tls-client-ca or tokens; or listen on a"
			      " unix socket, and forward it, for example with ssh -L",
			      "listen: `%s`: off loopback tcp is for TLS alone, and tls-cert is not"
			      " given", address->text);
	}
	return 0;
}

static int check_addresses(const struct config *config, struct listened *listened,
			   struct error *error)
{
	for (unsigned i = 0; i < config->listen.count; i++) {
		int err = check_address(config, &config->listen.address[i], listened, error);

		if (err)
			return err;
	}
	if (config->http.socket_bytes && !config->http.loopback) {
		if (!config->tls_cert || (!config->tls_client_ca && !config->tokens))
			return refuse(error, "http-needs-tls",
				      "give tls-cert, tls-key and tls-client-ca or tokens; or serve"
				      " 127.0.0.1, and forward it, for example with ssh -L",
				      "http: `%s`: off loopback the status page is for TLS with"
				      " authentication alone", config->http.text);
		listened->tls++;
	}
	if (listened->tls && !config->tls_client_ca && !config->tokens)
		return refuse(error, "tls-no-clients",
			      "give tls-client-ca, for clients with certificates, or tokens, or both",
			      "TLS is on, but nothing tells clients apart: neither tls-client-ca nor"
			      " tokens is given");
	if (listened->plain && !listened->tls && (config->tls_client_ca || config->tokens))
		return refuse(error, "plain-authentication",
			      "take --insecure away, so that the address speaks TLS",
			      "%s is given, but tcp is plain here: whoever connects comes in without",
			      config->tokens ? "tokens" : "tls-client-ca");
	if (config->listen_agents.count || config->relay.count)
		return 0;
	if (config->tls_cert && !listened->tls)
		return refuse(error, "tls-unused",
			      "listen on tcp:HOST:PORT too, without --insecure if that is loopback",
			      "tls-cert is given, but no address speaks TLS");
	return 0;
}

static int check_words(const struct config_words *words, enum role role, struct error *error)
{
	for (unsigned i = 0; i < words->count; i++) {
		char what[ERROR_TEXT_BYTES];
		struct rule rule;
		int err = rule_parse(words->word[i], role, &rule, error);

		if (err) {
			snprintf(what, sizeof(what), "%s: %.400s", role_name(role), error->what);
			strcpy(error->what, what);
			return err;
		}
	}
	return 0;
}

static int check_relay(const struct config *config, struct error *error)
{
	for (unsigned i = 0; i < config->relay.count; i++) {
		struct address_dial dial;
		int err = address_parse_dial(config->relay.word[i], &dial, error);

		if (err)
			return err;
	}
	if (!config->relay.count && config->relay_ca)
		return refuse(error, "relay-unused", "give relay = tls:HOST:PORT too, or take relay-ca away",
			      "relay-ca is given, and relay is not");
	if (!config->relay.count)
		return 0;
	if (!config->tls_cert || !config->relay_ca)
		return refuse(error, "relay-needs-tls",
			      "give tls-cert and tls-key, by which the relay knows this host, and relay-ca,"
			      " the authority that signed the relay's certificate",
			      "relay: `%s`: %s is not given", config->relay.word[0],
			      config->tls_cert ? "relay-ca" : "tls-cert");
	return 0;
}

static int check_relay_ack(const struct config *config, struct error *error)
{
	bool kafka = config->relay_ack == CONFIG_RELAY_ACK_KAFKA;

	if (kafka && !config->listen_agents.count)
		return refuse(error, "relay-ack-unused", "give listen-agents = tls:HOST:PORT too, or take relay-ack"
			      " away", "relay-ack is kafka, and this daemon is no relay");
	if (kafka && !config->relay_courier)
		return refuse(error, "relay-ack-no-courier", "give relay-courier = /run/ringtail/courier.sock, and"
			      " start ringtail-courier with --relay of that path",
			      "relay-ack is kafka, and relay-courier is not given");
	return 0;
}

static int check_agents(const struct config *config, struct error *error)
{
	int err = check_relay_ack(config, error);

	if (err || !config->listen_agents.count)
		return err;
	if (!config->tls_cert || !config->tls_client_ca)
		return refuse(error, "listen-agents-needs-tls",
			      "give tls-cert and tls-key, and tls-client-ca, the authority that signed"
			      " the certificates of the hosts", "listen-agents: `%s`: %s is not given",
			      config->listen_agents.address[0].text,
			      config->tls_cert ? "tls-client-ca" : "tls-cert");
	if (config->hosts_bytes < config->host_bytes)
		return refuse(error, "hosts-size-too-small", "raise hosts-size, or lower host-size",
			      "hosts-size is less than host-size");
	return 0;
}

/* A way to come in needs somebody who may, and the other way round. */
static int check_way(const struct config *config, enum identity_proof proof, const char *given,
		     bool serves, const char *option, const char *prefix, struct error *error)
{
	bool any = rule_admits_any(config->viewer.word, config->viewer.count, proof) ||
		   rule_admits_any(config->operator.word, config->operator.count, proof);

	if (given && !any && serves)
		return refuse(error, "nobody-allowed",
			      "allow a client: viewer = cert:NAME or token:NAME; operator likewise",
			      "%s is set, but no rule of viewer or operator is a `%sNAME`: every"
			      " client would be refused", option, prefix);
	if (any && !given)
		return refuse(error, "rule-cannot-hold", "set that option, or remove the rule",
			      "a rule names a `%sNAME`, but %s is not set: no client can prove that name",
			      prefix, option);
	return 0;
}

static int config_check(const struct config *config, struct error *error)
{
	struct listened listened = {0};
	int err = check_files(config, error);

	if (!err)
		err = check_addresses(config, &listened, error);
	if (!err)
		err = check_words(&config->viewer, ROLE_VIEWER, error);
	if (!err)
		err = check_words(&config->operator, ROLE_OPERATOR, error);
	/* A relay's agents have certificates too, and none of them is a client. */
	if (!err)
		err = check_way(config, IDENTITY_CERT, config->tls_client_ca,
				listened.tls || !config->listen_agents.count, "tls-client-ca", "cert:",
				error);
	if (!err)
		err = check_way(config, IDENTITY_TOKEN, config->tokens, true, "tokens", "token:",
				error);
	if (!err)
		err = check_relay(config, error);
	if (!err)
		err = check_agents(config, error);
	return err;
}

#define RUN_SOCKET		"unix:/run/ringtail/ringtail.sock"
#define USER_DEFAULT		"ringtail"
#define USER_SOCKET		"ringtail.sock"		/* in $XDG_RUNTIME_DIR */
#define LOW_LATENCY_NS		1000000
#define PLACE_BYTES		256
#define WORD_BYTES		64	/* of what is quoted in an error */
#define GETOPT_LONG_MIN		256	/* above every letter that getopt may return */

/* Where each option was given: a line of the file, or a word of the command line. 0: nowhere. */
struct given {
	unsigned at[OPTIONS];
};

/* Puts where it happened in front of what happened. */
static int at_place(struct error *error, int err, const char *place)
{
	char what[ERROR_TEXT_BYTES];

	if (error) {
		strcpy(what, error->what);
		snprintf(error->what, sizeof(error->what), "%.*s: %.*s", PLACE_BYTES, place,
			 ERROR_TEXT_BYTES - PLACE_BYTES - 3, what);
	}
	return err;
}

/* Whether `option` may be given (again) at `at`; remembers that it was. */
static int note_given(struct given *given, int option, unsigned at, const char *unit,
		      struct error *error)
{
	unsigned before = given->at[option];

	given->at[option] = at;
	if (!before || config_value_repeats(&config_options[option]))
		return 0;
	error_set(error, EINVAL, "config-duplicate", "`%s` was already given",
		  config_options[option].name);
	error_hint(error, "%s %u gives it too; keep one of them", unit, before);
	return -EINVAL;
}

/* ---- Defaults -------------------------------------------------------------------------------- */

static int set_defaults(struct config *config, struct error *error)
{
	memset(config, 0, sizeof(*config));
	for (int i = 0; i < OPTIONS; i++) {
		const struct config_option *option = &config_options[i];
		int err = 0;

		if (option->def)
			err = config_value_set(option, config, option->def, error);
		if (err)
			return at_place(error, err, option->name);
	}
	return 0;
}

/* What depends on the host: where to listen, whom to become. */
static int ask_system(struct config *config, struct error *error)
{
	const char *listen = RUN_SOCKET;
	char text[ADDRESS_TEXT_BYTES];
	int err = 0;

	if (config->listen.count == 0) {
		const char *run = getenv("XDG_RUNTIME_DIR");

		/*
		 * Who started the daemon, not whom it has become since: a reload comes to the same.
		 * systemd sets the directory.
		 */
		if (getauxval(AT_EUID) != 0 && !getenv("RUNTIME_DIRECTORY")) {
			if (!run || !*run) {
				error_set(error, EINVAL, "config-no-listen",
					  "there is no address to listen on: not root, and"
					  " XDG_RUNTIME_DIR is not set");
				error_hint(error, "give one with --listen unix:PATH");
				return -EINVAL;
			}
			snprintf(text, sizeof(text), "unix:%s/" USER_SOCKET, run);
			listen = text;
		}
		err = config_value_set(&config_options[OPTION_listen], config, listen, error);
	}
	if (!err && !config->user)
		err = config_value_set(&config_options[OPTION_user], config, USER_DEFAULT, error);
	return err;
}

/* ---- What concerns more than one option ------------------------------------------------------ */

static int settle_latency(struct config *config, const struct given *flags,
			  const struct given *file, struct error *error)
{
	bool interval_given = flags->at[OPTION_batch_interval_ns];

	if (!config->low_latency)
		return 0;
	if (!flags->at[OPTION_low_latency]) {
		if (interval_given) {		/* the flag wins over the file's low-latency */
			config->low_latency = false;
			return 0;
		}
		interval_given = file->at[OPTION_batch_interval_ns];
	}
	if (interval_given && config->batch_interval_ns != LOW_LATENCY_NS) {
		error_set(error, EINVAL, "config-contradiction",
			  "low-latency and batch-interval contradict each other");
		error_hint(error, "low-latency is batch-interval 1ms; keep one of them");
		return -EINVAL;
	}
	config->batch_interval_ns = LOW_LATENCY_NS;
	return 0;
}

/* So that giving up a segment never gives up most of what there is. */
static int settle_spool(struct config *config, const struct given *flags, const struct given *file,
			struct error *error)
{
	uint64_t most = config->spool_bytes / 4;

	if (config->spool_segment_bytes <= most)
		return 0;
	if (!flags->at[OPTION_spool_segment_bytes] && !file->at[OPTION_spool_segment_bytes]) {
		config->spool_segment_bytes = most;
		return 0;
	}
	error_set(error, EINVAL, "config-contradiction",
		  "spool-segment-size is more than a quarter of spool-size");
	error_hint(error, "a full spool deletes whole segments: make spool-segment-size at most %llu bytes,"
		   " or spool-size larger", (unsigned long long)most);
	return -EINVAL;
}

static int check_memory(const struct config *config, struct error *error)
{
	if (config->queue_bytes <= config->memory_bytes)
		return 0;
	error_set(error, EINVAL, "config-contradiction",
		  "queue-size, of one client, is more than memory-max, of all together");
	error_hint(error, "make queue-size smaller, or memory-max larger");
	return -EINVAL;
}

static int settle(struct config *config, const struct given *flags, const struct given *file,
		  struct error *error)
{
	int err = settle_latency(config, flags, file, error);

	if (!err)
		err = settle_spool(config, flags, file, error);
	if (!err)
		err = check_memory(config, error);
	return err ? err : config_check(config, error);
}

/* ---- The file -------------------------------------------------------------------------------- */

static char *trim(char *text)
{
	size_t bytes;

	while (isspace((unsigned char)*text))
		text++;
	bytes = strlen(text);
	while (bytes && isspace((unsigned char)text[bytes - 1]))
		text[--bytes] = '\0';
	return text;
}

/* Whether a # begins a comment after `before`: so no value begins with one. */
static bool comment_follows(char before)
{
	return isspace((unsigned char)before) || before == '=';
}

/* A # begins a comment at the start of a line, after a blank or =, but not in a filter's "text". */
static void cut_comment(char *line)
{
	bool quoted = false;

	for (char *c = line; *c; c++) {
		if (*c == '\\' && quoted && c[1])
			c++;
		else if (*c == '"')
			quoted = !quoted;
		else if (*c == '#' && !quoted && (c == line || comment_follows(c[-1]))) {
			*c = '\0';
			return;
		}
	}
}

static int parse_line(char *line, unsigned number, struct config *config, struct given *given,
		      struct error *error)
{
	char *equals, *name, *value;
	int option, err;

	cut_comment(line);
	line = trim(line);
	if (!*line)
		return 0;
	equals = strchr(line, '=');
	if (!equals) {
		error_set(error, EINVAL, "config-no-value", "`%.60s` has no value", line);
		error_hint(error, "write name = value");
		return -EINVAL;
	}
	*equals = '\0';
	name = trim(line);
	value = trim(equals + 1);
	option = config_option_find(name);
	if (option < 0)
		return config_option_refuse(name, false, error);
	if (config_options[option].place == CONFIG_FLAG_ONLY) {
		error_set(error, EINVAL, "config-flag-only", "`%s` cannot stand in a file", name);
		error_hint(error, "give it as --%s", name);
		return -EINVAL;
	}
	err = note_given(given, option, number, "line", error);
	if (err)
		return err;
	err = config_value_set(&config_options[option], config, value, error);
	return err ? at_place(error, err, name) : 0;
}

static int parse_lines(const char *text, size_t bytes, const char *file, struct config *config,
		       struct given *given, struct error *error)
{
	char line[CONFIG_LINE_BYTES_MAX + 1];
	char place[PLACE_BYTES];
	unsigned number = 0;

	for (size_t begin = 0; begin < bytes;) {
		const char *newline = memchr(text + begin, '\n', bytes - begin);
		size_t end = newline ? (size_t)(newline - text) : bytes;
		int err;

		number++;
		if (end - begin > CONFIG_LINE_BYTES_MAX)
			err = error_set(error, EINVAL, "config-line-too-long",
					"the line is longer than %u bytes", CONFIG_LINE_BYTES_MAX);
		else if (memchr(text + begin, '\0', end - begin))
			err = error_set(error, EINVAL, "config-not-text",
					"the line holds a zero byte: this is not a text file");
		else {
			memcpy(line, text + begin, end - begin);
			line[end - begin] = '\0';
			err = parse_line(line, number, config, given, error);
		}
		if (err) {
			snprintf(place, sizeof(place), "%.200s:%u", file, number);
			return at_place(error, err, place);
		}
		begin = end + 1;
	}
	return 0;
}

/* The file's text, for free(); *bytes of it. */
static int load_file(const char *path, char **text, size_t *bytes, struct error *error)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = 1;
	int err = 0;

	*text = NULL;
	*bytes = 0;
	if (fd < 0) {
		err = errno;
		return error_set(error, err, "config-no-file", "cannot open %.200s: %s", path,
				 strerror(err));
	}
	*text = malloc(CONFIG_FILE_BYTES_MAX + 1);
	if (!*text) {
		err = error_set(error, ENOMEM, "no-memory", "out of memory");
		goto close_fd;
	}
	while (n != 0 && *bytes <= CONFIG_FILE_BYTES_MAX) {
		n = read(fd, *text + *bytes, CONFIG_FILE_BYTES_MAX + 1 - *bytes);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0) {
			err = errno;
			err = error_set(error, err, "config-no-file", "cannot read %.200s: %s",
					path, strerror(err));
			goto free_text;
		}
		*bytes += n;
	}
	if (*bytes <= CONFIG_FILE_BYTES_MAX)
		goto close_fd;
	err = error_set(error, EINVAL, "config-too-large", "%.200s is larger than %u bytes", path,
			CONFIG_FILE_BYTES_MAX);
free_text:
	free(*text);
close_fd:
	close(fd);
	return err;
}

static int parse_file(const char *path, bool may_be_missing, struct config *config,
		      struct given *given, struct error *error)
{
	char *text;
	size_t bytes;
	int err = load_file(path, &text, &bytes, error);

	if (err == -ENOENT && may_be_missing)
		return 0;
	if (err)
		return err;
	err = parse_lines(text, bytes, path, config, given, error);
	free(text);
	return err;
}

int config_parse_text(const char *text, size_t bytes, const char *name, struct config *config,
		      struct error *error)
{
	struct given flags = { 0 }, file = { 0 };
	int err = set_defaults(config, error);

	if (!err)
		err = parse_lines(text, bytes, name, config, &file, error);
	if (!err)
		err = settle(config, &flags, &file, error);
	if (err)
		config_free(config);
	return err;
}

/* ---- The command line ------------------------------------------------------------------------ */

/* The flags in the order they came, so that they can be applied after the file that they name. */
struct flags {
	unsigned count;
	struct flag {
		int option;
		const char *value;
	} flag[CONFIG_FLAGS_MAX];
	struct given given;
};

/* `word`: with its dashes, and perhaps with a value. */
static int refuse_flag(const char *word, struct error *error)
{
	char name[WORD_BYTES];

	snprintf(name, sizeof(name), "%.*s", (int)strcspn(word, "="), word);
	return config_option_refuse(name + strlen("--"), true, error);
}

static int refuse_word(const char *word, int result, struct error *error)
{
	int option = optopt - GETOPT_LONG_MIN;

	if (option >= 0 && option < OPTIONS && result == ':') {
		error_set(error, EINVAL, "config-no-value", "--%s has no value",
			  config_options[option].name);
		error_hint(error, "write --%s=%s", config_options[option].name,
			   config_options[option].argument);
		return -EINVAL;
	}
	if (option >= 0 && option < OPTIONS)
		return error_set(error, EINVAL, "config-unwanted-value", "--%s takes no value",
				 config_options[option].name);
	if (strncmp(word, "--", 2) == 0)
		return refuse_flag(word, error);
	error_set(error, EINVAL, "config-unknown-flag", "no option is called `-%c`", optopt);
	error_hint(error, "options are words, as in --help");
	return -EINVAL;
}

static int collect_flags(int argc, char *const *argv, struct flags *flags, struct error *error)
{
	struct option words[OPTIONS + 1] = { 0 };
	int result, at = 1;

	for (int i = 0; i < OPTIONS; i++) {
		words[i].name = config_options[i].name;
		words[i].val = GETOPT_LONG_MIN + i;
		words[i].has_arg = config_options[i].kind != CONFIG_FLAG ? required_argument :
				   config_options[i].place == CONFIG_FLAG_ONLY ? no_argument :
									  optional_argument;
	}
	optind = 0;	/* glibc: start afresh; tests and reload parse more than once */
	opterr = 0;
	while ((result = getopt_long(argc, argv, "+:", words, NULL)) != -1) {
		int option = result - GETOPT_LONG_MIN;
		int err;

		if (option < 0)
			return refuse_word(argv[optind - 1], result, error);
		/* getopt also takes the beginning of a name: a typo, or another option's tomorrow. */
		if (strcspn(argv[at], "=") != strlen("--") + strlen(config_options[option].name))
			return refuse_flag(argv[at], error);
		at = optind;
		if (flags->count == CONFIG_FLAGS_MAX)
			return error_set(error, EINVAL, "config-too-many",
					 "there are more than %u options", CONFIG_FLAGS_MAX);
		flags->flag[flags->count++] = (struct flag){ option, optarg ? optarg : "yes" };
		err = note_given(&flags->given, option, flags->count, "option", error);
		if (err)
			return err;
	}
	if (optind == argc)
		return 0;
	error_set(error, EINVAL, "config-operand", "`%.60s` belongs to no option", argv[optind]);
	error_hint(error, "a flag's value is joined to it, as in --insecure=no");
	return -EINVAL;
}

static int apply_flags(const struct flags *flags, struct config *config, struct error *error)
{
	char place[PLACE_BYTES];

	for (int i = 0; i < OPTIONS; i++) {
		if (flags->given.at[i] && config_value_repeats(&config_options[i]))
			config_value_clear(&config_options[i], config);
	}
	for (unsigned i = 0; i < flags->count; i++) {
		const struct config_option *option = &config_options[flags->flag[i].option];
		int err = config_value_set(option, config, flags->flag[i].value, error);

		if (err) {
			snprintf(place, sizeof(place), "--%s", option->name);
			return at_place(error, err, place);
		}
	}
	return 0;
}

static const char *flag_value(const struct flags *flags, int option)
{
	unsigned at = flags->given.at[option];

	return at ? flags->flag[at - 1].value : NULL;
}

int config_parse_args(int argc, char *const *argv, struct config *config, struct error *error)
{
	struct flags flags = { 0 };
	struct given file = { 0 };
	const char *path;
	int err = set_defaults(config, error);

	if (!err)
		err = collect_flags(argc, argv, &flags, error);
	if (err)
		goto fail;
	if (flags.given.at[OPTION_help] || flags.given.at[OPTION_version]) {
		config->help = flags.given.at[OPTION_help];
		config->version = flags.given.at[OPTION_version];
		return 0;
	}
	path = flag_value(&flags, OPTION_config);
	err = parse_file(path ? path : CONFIG_FILE_DEFAULT, !path, config, &file, error);
	if (!err)
		err = apply_flags(&flags, config, error);
	if (!err)
		err = settle(config, &flags.given, &file, error);
	if (!err)
		err = ask_system(config, error);
	if (!err)
		return 0;
fail:
	config_free(config);
	return err;
}

void config_free(struct config *config)
{
	for (int i = 0; i < OPTIONS; i++)
		config_value_clear(&config_options[i], config);
	memset(config, 0, sizeof(*config));
}

/* ---- Reload ---------------------------------------------------------------------------------- */

/* A reload applies these. All others need a restart, a new option too. */
static const unsigned char takes_effect[OPTIONS] = {
	[OPTION_tls_cert] = 1, [OPTION_tls_key] = 1, [OPTION_tls_client_ca] = 1, [OPTION_tls_crl] = 1,
	[OPTION_tokens] = 1, [OPTION_viewer] = 1, [OPTION_operator] = 1,
	[OPTION_viewer_probe] = 1, [OPTION_viewer_strings] = 1, [OPTION_viewer_stacks] = 1,
	[OPTION_viewer_rate] = 1, [OPTION_viewer_subscriptions] = 1,
	[OPTION_probe] = 1, [OPTION_probe_flags] = 1, [OPTION_filter] = 1, [OPTION_redact] = 1,
	[OPTION_batch_interval_ns] = 1, [OPTION_low_latency] = 1,
	[OPTION_history_bytes] = 1, [OPTION_history_age_ns] = 1,
	[OPTION_queue_bytes] = 1, [OPTION_memory_bytes] = 1, [OPTION_overflow] = 1,
	[OPTION_clients_max] = 1, [OPTION_identity_max] = 1, [OPTION_pending_max] = 1,
	[OPTION_tls_timeout_ns] = 1, [OPTION_hello_timeout_ns] = 1,
	[OPTION_silence_timeout_ns] = 1, [OPTION_relay_interval_ns] = 1,
	[OPTION_relay_bandwidth] = 1, [OPTION_relay_clients] = 1,
	[OPTION_metrics_probe] = 1, [OPTION_slow_call_ns] = 1, [OPTION_log_level] = 1,
	[OPTION_on] = 1, [OPTION_dump_bytes] = 1, [OPTION_dump_count] = 1,
};

/* As it would stand in a file; NULL: out of memory. */
static char *print(const struct config_option *option, const struct config *config)
{
	char *text = NULL;
	size_t bytes;
	FILE *out = open_memstream(&text, &bytes);

	if (!out)
		return NULL;
	config_value_print(option, config, out);
	fclose(out);
	return text;
}

static bool differs(const struct config_option *option, const struct config *old,
		    const struct config *new)
{
	char *before = print(option, old), *after = print(option, new);
	bool differs = !before || !after || strcmp(before, after) != 0;

	free(before);
	free(after);
	return differs;
}

/* What depends on others, too. */
static bool is_in_force(int option, const struct config *old, const struct config *new)
{
	if (option == OPTION_tls_cert)		/* a listener has TLS, or it has not */
		return !old->tls_cert == !new->tls_cert;
	if (option == OPTION_slow_call_ns)	/* exporters keep what they began with */
		return !old->export.count;
	return takes_effect[option];
}

void config_reload_ignored(const struct config *old, const struct config *new, char *names,
			   size_t bytes)
{
	size_t used = 0;

	names[0] = '\0';
	for (int i = 0; i < OPTIONS; i++) {
		const struct config_option *option = &config_options[i];

		if (option->place != CONFIG_ANYWHERE || !differs(option, old, new) ||
		    is_in_force(i, old, new))
			continue;
		used += (size_t)snprintf(names + used, bytes - used, "%s%s", used ? ", " : "",
					 option->name);
		if (used >= bytes)
			return;
	}
}

/* ---- Probes and filters that an option names ------------------------------------------------- */

/* Puts the option in front of what is wrong with its text. */
static int of_option(const char *option, int err, struct error *error)
{
	char what[ERROR_TEXT_BYTES];

	snprintf(what, sizeof(what), "%s: %.400s", option, error->what);
	snprintf(error->what, sizeof(error->what), "%s", what);
	return err;
}

static int check_globs(const struct config_words *globs, const Ringtail__V1__Catalog *catalog,
		       struct error *error)
{
	int err = 0;

	for (unsigned i = 0; !err && i < globs->count; i++) {
		struct probe_set set = {0};

		err = catalog ? probe_set_add_glob(&set, globs->word[i], catalog, error) :
				probe_set_check_glob(globs->word[i], error);
	}
	return err;
}

int config_check_choice(const struct config_words *globs, const char *globs_option,
		       const char *filter, const char *filter_option,
		       const Ringtail__V1__Catalog *catalog, struct error *error)
{
	int err = check_globs(globs, catalog, error);
	struct filter *compiled;

	if (err)
		return of_option(globs_option, err, error);
	err = filter ? filter_compile(filter, catalog, &compiled, error) : 0;
	if (err)
		return of_option(filter_option, err, error);
	if (filter)
		filter_destroy(compiled);
	return 0;
}
