#include "daemon/config/option.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/limits.h"
#include "kmod/uapi/ringtail.h"
#include "query/nearest.h"
#include "query/quantity.h"

#define CHOICE_BYTES_MAX 32
#define HELP_COLUMN	30
#define HELP_WIDTH	100

const struct config_option config_options[OPTIONS] = {
#define OPTION(member, name, kind, place, def, min, max, argument, help) \
	{ name, CONFIG_##kind, CONFIG_##place, def, min, max, argument, help, \
	  offsetof(struct config, member) },
#include "daemon/config/options.def"
#undef OPTION
};

int config_option_find(const char *name)
{
	for (int i = 0; i < OPTIONS; i++) {
		if (strcmp(config_options[i].name, name) == 0)
			return i;
	}
	return -1;
}

int config_option_refuse(const char *name, bool flag, struct error *error)
{
	const char *dashes = flag ? "--" : "";
	char text[NEAREST_TEXT_BYTES];
	struct nearest nearest;

	snprintf(text, sizeof(text), "%s%.60s", dashes, name);
	error_set(error, EINVAL, flag ? "config-unknown-flag" : "config-unknown-key",
		  "no %s is called `%s`", flag ? "option" : "key", text);
	nearest_init(&nearest, text);
	for (int i = 0; i < OPTIONS; i++) {
		snprintf(text, sizeof(text), "%s%s", dashes, config_options[i].name);
		if (flag || config_options[i].place == CONFIG_ANYWHERE)
			nearest_offer(&nearest, text);
	}
	if (nearest_text(&nearest, text))
		error_hint(error, "did you mean %s?", text);
	else
		error_hint(error, "ringtaild --help lists them");
	return -EINVAL;
}

/* ---- Values ---------------------------------------------------------------------------------- */

/* The member as bytes; each kind knows what stands there. */
static void *member(const struct config_option *option, const struct config *config)
{
	return (char *)config + option->offset;
}

static enum quantity quantity_of(const struct config_option *option)
{
	switch (option->kind) {
	case CONFIG_BYTES:
	case CONFIG_POWER2:
	case CONFIG_RATE:
		return QUANTITY_BYTES;
	case CONFIG_DURATION:
		return QUANTITY_DURATION;
	default:
		return QUANTITY_COUNT;
	}
}

static int set_flag(bool *flag, const char *text, struct error *error)
{
	static const char *const words[][2] = {
		{ "no", "yes" }, { "false", "true" }, { "off", "on" }, { "0", "1" },
	};

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		for (int value = 0; value < 2; value++) {
			if (strcmp(text, words[i][value]) == 0) {
				*flag = value;
				return 0;
			}
		}
	}
	error_set(error, EINVAL, "config-bad-flag", "`%.60s` is neither yes nor no", text);
	return -EINVAL;
}

static int set_number(const struct config_option *option, uint64_t *number, const char *text,
		      struct error *error)
{
	char low[QUANTITY_TEXT_BYTES], high[QUANTITY_TEXT_BYTES];
	enum quantity kind = quantity_of(option);
	uint64_t value;
	int err = quantity_parse(text, kind, &value, error);

	if (err)
		return err;
	if (value < option->min || value > option->max)
		return error_set(error, EINVAL, "config-out-of-range",
				 "`%.60s` is not between %s and %s", text,
				 quantity_text(option->min, kind, low),
				 quantity_text(option->max, kind, high));
	if (option->kind == CONFIG_POWER2 && (value & (value - 1))) {
		uint64_t below = 1ull << (63 - __builtin_clzll(value));

		error_set(error, EINVAL, "config-not-power-of-two", "`%.60s` is not a power of two",
			  text);
		error_hint(error, "the nearest are %s and %s", quantity_text(below, kind, low),
			   quantity_text(2 * below, kind, high));
		return -EINVAL;
	}
	*number = value;
	return 0;
}

#define PER_SECOND	"/s"

/* As a number of bytes, with what they are in behind it: others may think of bits, or of minutes. */
static int set_rate(const struct config_option *option, uint64_t *rate, const char *text, struct error *error)
{
	char bytes[QUANTITY_TEXT_BYTES], low[QUANTITY_TEXT_BYTES];
	size_t digits = strlen(text);

	if (strcmp(text, "0") == 0) {
		*rate = 0;
		return 0;
	}
	if (digits > strlen(PER_SECOND))
		digits -= strlen(PER_SECOND);
	if (strcmp(text + digits, PER_SECOND) != 0 || digits >= sizeof(bytes)) {
		error_set(error, EINVAL, "config-bad-rate", "`%.60s` is not a number of bytes a second", text);
		error_hint(error, "as in 2MiB/s; %s/s is the least, and 0 is no limit",
			   quantity_text(option->min, QUANTITY_BYTES, low));
		return -EINVAL;
	}
	memcpy(bytes, text, digits);
	bytes[digits] = '\0';
	return set_number(option, rate, bytes, error);
}

/* The i-th word of "a|b|c:FILE", cut at the colon; false past the last. */
static bool choice_name(const char *choices, unsigned i, char *name)
{
	for (; i; i--) {
		choices = strchr(choices, '|');
		if (!choices)
			return false;
		choices++;
	}
	snprintf(name, CHOICE_BYTES_MAX, "%.*s", (int)strcspn(choices, "|:"), choices);
	return true;
}

static int choose(const struct config_option *option, unsigned *choice, const char *text,
		  struct error *error)
{
	char name[CHOICE_BYTES_MAX], near[NEAREST_TEXT_BYTES];
	struct nearest nearest;

	nearest_init(&nearest, text);
	for (unsigned i = 0; choice_name(option->argument, i, name); i++) {
		if (strcmp(name, text) == 0) {
			*choice = i;
			return 0;
		}
		nearest_offer(&nearest, name);
	}
	error_set(error, EINVAL, "config-bad-choice", "`%.60s` is not one of %s", text,
		  option->argument);
	if (nearest_text(&nearest, near))
		error_hint(error, "did you mean %s?", near);
	return -EINVAL;
}

static int copy_text(const struct config_option *option, char **to, const char *text,
		     struct error *error)
{
	size_t bytes = strlen(text);
	char *copy;

	if (bytes == 0)
		return error_set(error, EINVAL, "config-empty", "the value is empty");
	if (bytes > option->max)
		return error_set(error, EINVAL, "config-too-long",
				 "`%.40s...` is longer than %ju bytes", text,
				 (uintmax_t)option->max);
	copy = strdup(text);
	if (!copy)
		return error_set(error, ENOMEM, "no-memory", "out of memory");
	free(*to);
	*to = copy;
	return 0;
}

static int set_source(const struct config_option *option, struct config_source *source,
		      const char *text, struct error *error)
{
	const char *colon = strchr(text, ':');
	char name[CHOICE_BYTES_MAX];
	bool replay;
	unsigned choice;
	int err;

	snprintf(name, sizeof(name), "%.*s", colon ? (int)(colon - text) : (int)sizeof(name), text);
	err = choose(option, &choice, name, error);
	if (err)
		return err;
	replay = strcmp(name, "replay") == 0;
	if (replay && (!colon || !colon[1])) {
		error_set(error, EINVAL, "config-no-replay-file", "replay names no file");
		error_hint(error, "use replay:FILE, where FILE is a recording made by `tracectl record -w FILE`");
		return -EINVAL;
	}
	if (!replay && colon)
		return error_set(error, EINVAL, "config-bad-choice", "`%.60s`: %s takes no file",
				 text, name);
	free(source->path);
	source->path = NULL;
	err = copy_text(option, &source->name, name, error);
	if (!err && replay)
		err = copy_text(option, &source->path, colon + 1, error);
	return err;
}

static int refuse_more(const struct config_option *option, struct error *error)
{
	return error_set(error, EINVAL, "config-too-many", "given more than %ju times",
			 (uintmax_t)option->max);
}

static int refuse_duplicate(const struct config_listen *listen, const char *text,
			    struct error *error)
{
	for (unsigned i = 0; i < listen->count; i++)
		if (strcmp(listen->address[i].text, text) == 0)
			return error_set(error, EINVAL, "config-duplicate",
					 "`%s` was already given", text);
	return 0;
}

static int add_listen(const struct config_option *option, struct config_listen *listen,
		      const char *text, struct error *error)
{
	struct address *address;
	int err;

	if (listen->count == CONFIG_LISTEN_MAX)
		return refuse_more(option, error);
	address = &listen->address[listen->count];
	err = address_parse(text, address, error);
	if (!err)
		err = refuse_duplicate(listen, text, error);
	listen->count += !err;
	return err;
}

/* The family is not written here, so it is not to be read in an error. */
static void leave_out_family(char *text)
{
	char *at;

	while ((at = strstr(text, "tcp:")))
		memmove(at, at + 4, strlen(at + 4) + 1);
}

static int set_http(struct address *address, const char *text, struct error *error)
{
	static const char *const family[] = {"tcp:", "unix:", "tls:"};
	char tcp[ADDRESS_TEXT_BYTES + 8];
	int err;

	for (unsigned i = 0; i < sizeof(family) / sizeof(family[0]); i++) {
		if (strncmp(text, family[i], strlen(family[i])) != 0)
			continue;
		error_set(error, EINVAL, "address-bad-family", "`%.80s` begins with `%s`, and is to be HOST:PORT alone", text,
			  family[i]);
		error_hint(error, "as in 127.0.0.1:7118");
		return -EINVAL;
	}
	snprintf(tcp, sizeof(tcp), "tcp:%s", text);
	err = address_parse(tcp, address, error);
	if (!err)
		snprintf(address->text, sizeof(address->text), "%s", text);
	if (err && error) {
		leave_out_family(error->what);
		leave_out_family(error->hint);
	}
	return err;
}

/* Agents come over TLS alone, and so that is what is written. */
static int add_listen_tls(const struct config_option *option, struct config_listen *listen,
			  const char *text, struct error *error)
{
	char tcp[ADDRESS_TEXT_BYTES + 8];
	int err;

	if (strncmp(text, "tls:", 4) != 0) {
		error_set(error, EINVAL, "address-bad-family", "`%.80s` is not tls:HOST:PORT", text);
		error_hint(error, "as in tls:0.0.0.0:7119");
		return -EINVAL;
	}
	snprintf(tcp, sizeof(tcp), "tcp:%s", text + 4);
	err = refuse_duplicate(listen, text, error);
	if (!err)
		err = add_listen(option, listen, tcp, error);
	if (!err)
		memcpy(listen->address[listen->count - 1].text, "tls", 3);
	return err;
}

static int add_word(const struct config_option *option, struct config_words *words,
		     const char *text, struct error *error)
{
	struct config_option spec = *option;
	int err;

	if (words->count == option->max)
		return refuse_more(option, error);
	spec.max = CONFIG_WORD_BYTES_MAX;
	err = copy_text(&spec, &words->word[words->count], text, error);
	if (!err)
		words->count++;
	return err;
}

int config_value_set(const struct config_option *option, struct config *config, const char *text,
		     struct error *error)
{
	void *to = member(option, config);

	switch (option->kind) {
	case CONFIG_FLAG:
		return set_flag(to, text, error);
	case CONFIG_COUNT:
	case CONFIG_BYTES:
	case CONFIG_POWER2:
	case CONFIG_DURATION:
		return set_number(option, to, text, error);
	case CONFIG_RATE:
		return set_rate(option, to, text, error);
	case CONFIG_CHOICE:
		return choose(option, to, text, error);
	case CONFIG_TEXT:
		return copy_text(option, to, text, error);
	case CONFIG_SOURCE:
		return set_source(option, to, text, error);
	case CONFIG_LISTEN:
		return add_listen(option, to, text, error);
	case CONFIG_LISTEN_TLS:
		return add_listen_tls(option, to, text, error);
	case CONFIG_HTTP:
		return set_http(to, text, error);
	case CONFIG_WORDS:
		return add_word(option, to, text, error);
	}
	__builtin_unreachable();
}

void config_value_clear(const struct config_option *option, struct config *config)
{
	void *from = member(option, config);
	struct config_source *source = from;
	struct config_listen *listen = from;
	struct config_words *words = from;
	char **text = from;

	switch (option->kind) {
	case CONFIG_TEXT:
		free(*text);
		*text = NULL;
		break;
	case CONFIG_SOURCE:
		free(source->name);
		free(source->path);
		*source = (struct config_source){ 0 };
		break;
	case CONFIG_LISTEN:
	case CONFIG_LISTEN_TLS:
		listen->count = 0;
		break;
	case CONFIG_HTTP:
		memset(from, 0, sizeof(struct address));
		break;
	case CONFIG_WORDS:
		for (unsigned i = 0; i < words->count; i++)
			free(words->word[i]);
		*words = (struct config_words){ 0 };
		break;
	default:
		break;
	}
}

void config_value_print(const struct config_option *option, const struct config *config, FILE *out)
{
	const void *from = member(option, config);
	const struct config_source *source = from;
	const struct config_listen *listen = from;
	const struct config_words *words = from;
	const struct address *address = from;
	char *const *text = from;
	char name[QUANTITY_TEXT_BYTES > CHOICE_BYTES_MAX ? QUANTITY_TEXT_BYTES : CHOICE_BYTES_MAX];

	switch (option->kind) {
	case CONFIG_FLAG:
		fprintf(out, "%s = %s\n", option->name, *(const bool *)from ? "yes" : "no");
		break;
	case CONFIG_COUNT:
	case CONFIG_BYTES:
	case CONFIG_POWER2:
	case CONFIG_DURATION:
		fprintf(out, "%s = %s\n", option->name,
			quantity_text(*(const uint64_t *)from, quantity_of(option), name));
		break;
	case CONFIG_RATE:
		fprintf(out, "%s = %s%s\n", option->name, quantity_text(*(const uint64_t *)from, QUANTITY_BYTES, name),
			*(const uint64_t *)from ? PER_SECOND : "");
		break;
	case CONFIG_CHOICE:
		choice_name(option->argument, *(const unsigned *)from, name);
		fprintf(out, "%s = %s\n", option->name, name);
		break;
	case CONFIG_TEXT:
		if (*text)
			fprintf(out, "%s = %s\n", option->name, *text);
		break;
	case CONFIG_SOURCE:
		fprintf(out, "%s = %s%s%s\n", option->name, source->name, source->path ? ":" : "",
			source->path ? source->path : "");
		break;
	case CONFIG_HTTP:
		if (address->socket_bytes)
			fprintf(out, "%s = %s\n", option->name, address->text);
		break;
	case CONFIG_LISTEN:
	case CONFIG_LISTEN_TLS:
		for (unsigned i = 0; i < listen->count; i++)
			fprintf(out, "%s = %s\n", option->name, listen->address[i].text);
		break;
	case CONFIG_WORDS:
		for (unsigned i = 0; i < words->count; i++)
			fprintf(out, "%s = %s\n", option->name, words->word[i]);
		break;
	}
}

bool config_value_repeats(const struct config_option *option)
{
	return option->kind == CONFIG_LISTEN || option->kind == CONFIG_LISTEN_TLS ||
	       option->kind == CONFIG_WORDS;
}

/* ---- What is printed ------------------------------------------------------------------------- */

void config_print(const struct config *config, FILE *out)
{
	for (int i = 0; i < OPTIONS; i++) {
		if (config_options[i].place == CONFIG_ANYWHERE)
			config_value_print(&config_options[i], config, out);
	}
}

/* Words of `text` from HELP_COLUMN on, broken before HELP_WIDTH. */
static void print_wrapped(const char *text, FILE *out)
{
	int column = HELP_COLUMN;

	while (*text) {
		int bytes = strcspn(text, " ");

		if (column > HELP_COLUMN && column + 1 + bytes > HELP_WIDTH) {
			fprintf(out, "\n%*s", HELP_COLUMN, "");
			column = HELP_COLUMN;
		}
		column += fprintf(out, "%s%.*s", column > HELP_COLUMN ? " " : "", bytes, text);
		text += bytes;
		text += strspn(text, " ");
	}
	fputc('\n', out);
}

void config_help(FILE *out)
{
	char text[HELP_WIDTH * 8];

	fputs("Usage: ringtaild [OPTION]...\n"
	      "Streams kernel events to tracectl clients, and reports every loss.\n\n",
	      out);
	for (int i = 0; i < OPTIONS; i++) {
		const struct config_option *option = &config_options[i];
		bool plain = option->kind == CONFIG_FLAG || !option->def;
		int column = fprintf(out, "  --%s%s%s", option->name, option->argument ? " " : "",
				     option->argument ? option->argument : "");

		fprintf(out, column < HELP_COLUMN - 1 ? "%*s" : "\n%*s",
			column < HELP_COLUMN - 1 ? HELP_COLUMN - column : HELP_COLUMN, "");
		snprintf(text, sizeof(text), "%s%s%s%s", option->help, plain ? "" : " (default ",
			 plain ? "" : option->def, plain ? "" : ")");
		print_wrapped(text, out);
	}
	fputs("\nAll but config, check-config, version and help may also stand in the file,"
	      " as `name = value`.\n", out);
}
