#include "daemon/host/users.h"

#include <stdio.h>

#include "query/user_names.h"

void users_read(const char *path)
{
	static char text[USERS_BYTES_MAX + 1];
	FILE *file = fopen(path ? path : "/etc/passwd", "re");

	if (!file)
		return;
	text[fread(text, 1, USERS_BYTES_MAX, file)] = '\0';
	fclose(file);
	user_names_set(text);
}
