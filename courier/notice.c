#include "courier/notice.h"

#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include "query/visible.h"

#define NOTICE_BYTES_MAX 2048

static const char *name = "ringtail-courier";

void notice_open(const char *program)
{
	name = program;
}

/* One write(2), so that lines of two programs do not mix. What a peer said has no control characters. */
static void say(const char *level, const char *code, char *text)
{
	char line[NOTICE_BYTES_MAX];
	int bytes;

	visible_replace(text);
	bytes = snprintf(line, sizeof(line), "%s: %s: [%s] %s\n", name, level, code, text);
	if (bytes >= (int)sizeof(line)) {
		bytes = sizeof(line) - 1;
		line[bytes - 1] = '\n';
	}
	if (write(STDERR_FILENO, line, (size_t)bytes) < 0)
		return;			/* nobody can be told */
}

void notice(const char *level, const char *code, const char *format, ...)
{
	char text[NOTICE_BYTES_MAX - 128];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	say(level, code, text);
}

void notice_failure(const struct ringtail_error *error)
{
	notice("error", error->code, "%s%s%s", error->what, error->hint[0] ? "; " : "", error->hint);
}

void notice_error(const struct error *error)
{
	notice("error", error->code, "%s%s%s", error->what, error->hint[0] ? "; " : "", error->hint);
}
