#include "client/lib/failure.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "query/visible.h"

int failure_set(struct ringtail_error *error, int err, const char *code, const char *format, ...)
{
	va_list args;

	if (!error)
		return -err;
	memset(error, 0, sizeof(*error));
	visible_copy(error->code, sizeof(error->code), code, strlen(code));
	va_start(args, format);
	vsnprintf(error->what, sizeof(error->what), format, args);
	va_end(args);
	visible_replace(error->what);
	return -err;
}

int failure_of(struct ringtail_error *error, int err, const struct error *from)
{
	failure_set(error, -err, from->code, "%s", from->what);
	if (*from->hint)
		failure_hint(error, "%s", from->hint);
	if (error)
		error->column = from->column;
	return err;
}

void failure_hint(struct ringtail_error *error, const char *format, ...)
{
	va_list args;

	if (!error)
		return;
	va_start(args, format);
	vsnprintf(error->hint, sizeof(error->hint), format, args);
	va_end(args);
	visible_replace(error->hint);
}

void failure_say(FILE *to, const char *format, ...)
{
	char *line = NULL;
	va_list args;

	va_start(args, format);
	if (vasprintf(&line, format, args) < 0)
		line = NULL;
	va_end(args);
	fputs("tracectl: ", to);
	visible_put(to, line ? line : "out of memory for a message");
	fputc('\n', to);
	free(line);
}

void failure_print(FILE *to, const struct ringtail_error *error, const char *text)
{
	fputs("tracectl: ", to);
	visible_put(to, error->what);
	if (error->code[0]) {
		fputs(" [", to);
		visible_put(to, error->code);
		fputc(']', to);
	}
	fputc('\n', to);
	if (error->column && text && error->column <= strlen(text) + 1) {
		fputs("    ", to);
		visible_put(to, text);
		fprintf(to, "\n    %*s^\n", (int)error->column - 1, "");
	}
	if (error->hint[0]) {
		fputs("    ", to);
		visible_put(to, error->hint);
		fputc('\n', to);
	}
}
