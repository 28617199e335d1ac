#include "query/user_names.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

static const char *lines = "";

void user_names_set(const char *passwd)
{
	lines = passwd;
}

/* "NAME:PASSWORD:UID:..." */
static bool is_line_of(const char *line, const char *name, uint32_t *uid)
{
	size_t bytes = strlen(name), end = strcspn(line, "\n");
	const char *field = line + bytes;
	unsigned long number;
	char *after;

	if (!bytes || end <= bytes || memcmp(line, name, bytes) || *field++ != ':')
		return false;
	field += strcspn(field, ":\n");
	if (*field != ':' || !isdigit((unsigned char)field[1]))
		return false;
	number = strtoul(field + 1, &after, 10);
	*uid = (uint32_t)number;
	return *after == ':' && number < UINT32_MAX;
}

bool user_names_find(const char *name, uint32_t *uid)
{
	for (const char *line = lines; *line; line += strcspn(line, "\n"), line += *line == '\n')
		if (is_line_of(line, name, uid))
			return true;
	*uid = 0;
	return strcmp(name, "root") == 0;
}
