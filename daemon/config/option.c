#include "daemon/config/option.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "daemon/config/value.h"
#include "daemon/base/limits.h"
#include "query/nearest.h"
#include "kmod/uapi/ringtail.h"

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
	      "Streams kernel events to any number of tracectl clients, and says what it lost.\n\n",
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
