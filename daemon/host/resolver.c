#include "daemon/host/resolver.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#define NSSWITCH_LINE_BYTES	512
#define NSSWITCH_LINES_MAX	256

void resolver_load(const char *database)
{
	FILE *file = fopen("/etc/nsswitch.conf", "re");
	char line[NSSWITCH_LINE_BYTES], library[NSSWITCH_LINE_BYTES + 16], *rest, *word;
	size_t bytes = strlen(database);

	for (unsigned i = 0; file && i < NSSWITCH_LINES_MAX && fgets(line, sizeof(line), file); i++) {
		if (strncmp(line, database, bytes) != 0 || line[bytes] != ':')
			continue;
		line[strcspn(line, "#\n")] = '\0';
		for (word = strtok_r(line + bytes + 1, " \t", &rest); word;
		     word = strtok_r(NULL, " \t", &rest)) {
			snprintf(library, sizeof(library), "libnss_%s.so.2", word);
			/* [NOTFOUND=return] is none, and files and dns are in the C library. */
			if (!strpbrk(word, "[]=/"))
				dlopen(library, RTLD_NOW);
		}
	}
	if (file)
		fclose(file);
}
