#include "query/error.h"

#include <stdarg.h>
#include <stdio.h>

int error_set(struct error *error, int err, const char *code, const char *format, ...)
{
	va_list args;

	if (!error)
		return -err;
	snprintf(error->code, sizeof(error->code), "%s", code);
	error->column = 0;
	error->hint[0] = '\0';
	va_start(args, format);
	vsnprintf(error->what, sizeof(error->what), format, args);
	va_end(args);
	return -err;
}

void error_hint(struct error *error, const char *format, ...)
{
	va_list args;

	if (!error)
		return;
	va_start(args, format);
	vsnprintf(error->hint, sizeof(error->hint), format, args);
	va_end(args);
}
