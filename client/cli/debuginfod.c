#include "client/cli/debuginfod.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "client/lib/failure.h"
#include "client/lib/limits.h"

#define LIBRARY		"libdebuginfod.so.1"
#define STRING(x)	STRING_OF(x)
#define STRING_OF(x)	#x

/* As elfutils/debuginfod.h has them. */
typedef void *begin_function(void);
typedef int find_function(void *client, const unsigned char *build_id, int bytes, char **path);

static struct {
	void *client;			/* NULL: not to be used */
	find_function *find;
	unsigned asked;
} servers;

int debuginfod_enable(struct ringtail_error *error)
{
	const char *urls = getenv("DEBUGINFOD_URLS");
	begin_function *begin = NULL;
	void *library;

	if (!urls || !*urls) {
		failure_set(error, EINVAL, "no-debuginfod", "--debuginfod: DEBUGINFOD_URLS names no server");
		failure_hint(error, "export DEBUGINFOD_URLS=https://debuginfod.debian.net");
		return -EINVAL;
	}
	/* Its own default is 90 s for each file. */
	setenv("DEBUGINFOD_TIMEOUT", STRING(DEBUGINFOD_TIMEOUT_S), false);
	library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
	if (library) {
		*(void **)&begin = dlsym(library, "debuginfod_begin");
		*(void **)&servers.find = dlsym(library, "debuginfod_find_debuginfo");
	}
	if (begin && servers.find)
		servers.client = begin();
	if (servers.client)
		return 0;
	failure_set(error, ENOENT, "no-debuginfod", "--debuginfod: cannot use %s", LIBRARY);
	failure_hint(error, "apt install libdebuginfod1");
	return -ENOENT;
}

int debuginfod_find(const uint8_t *build_id, unsigned bytes)
{
	char *path = NULL;
	int fd;

	if (!servers.client || servers.asked == DEBUGINFOD_FILES_MAX)
		return -1;
	servers.asked++;
	fd = servers.find(servers.client, build_id, (int)bytes, &path);
	free(path);
	return fd < 0 ? -1 : fd;
}
