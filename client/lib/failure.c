/*
 * failure: fills a ringtail_error, and says it to a person.
 */
#include "client/lib/failure.h"

#include <stdarg.h>
#include <string.h>

int failure_set(struct ringtail_error *error, int err, const char *code, const char *format, ...)
{
	va_list args;

	if (!error)
		return -err;
	memset(error, 0, sizeof(*error));
	snprintf(error->code, sizeof(error->code), "%s", code);
	va_start(args, format);
	vsnprintf(error->what, sizeof(error->what), format, args);
	va_end(args);
	return -err;
}

void failure_hint(struct ringtail_error *error, const char *format, ...)
{
	va_list args;

	if (!error)
		return;
	va_start(args, format);
	vsnprintf(error->hint, sizeof(error->hint), format, args);
	va_end(args);
}

/* Text from the other side goes to a terminal: control bytes are shown, not obeyed. */
static void print_visible(FILE *to, const char *text)
{
	for (; *text; text++)
		fputc((unsigned char)*text < 0x20 || *text == 0x7f ? '?' : *text, to);
}

void failure_print(FILE *to, const struct ringtail_error *error, const char *text)
{
	fputs("tracectl: ", to);
	print_visible(to, error->what);
	if (error->code[0])
		fprintf(to, " [%s]", error->code);
	fputc('\n', to);
	if (error->column && text && error->column <= strlen(text) + 1) {
		fputs("    ", to);
		print_visible(to, text);
		fprintf(to, "\n    %*s^\n", (int)error->column - 1, "");
	}
	if (error->hint[0]) {
		fputs("    ", to);
		print_visible(to, error->hint);
		fputc('\n', to);
	}
}
