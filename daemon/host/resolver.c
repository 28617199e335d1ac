#include "daemon/host/resolver.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#define NSSWITCH_LINE_BYTES	512
#define NSSWITCH_LINES_MAX	256

#define DATABASE	"hosts:"

void resolver_load(void)
{
	FILE *file = fopen("/etc/nsswitch.conf", "re");
	char line[NSSWITCH_LINE_BYTES], library[NSSWITCH_LINE_BYTES + 16], *rest, *word;

	for (unsigned i = 0; file && i < NSSWITCH_LINES_MAX && fgets(line, sizeof(line), file); i++) {
		if (strncmp(line, DATABASE, strlen(DATABASE)) != 0)
			continue;
		line[strcspn(line, "#\n")] = '\0';
		for (word = strtok_r(line + strlen(DATABASE), " \t", &rest); word;
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
