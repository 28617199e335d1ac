#include "daemon/host/activation.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/base/limits.h"

#define FIRST_FD 3	/* sd_listen_fds(3) */

static bool parse_number(const char *text, long max, long *number)
{
	char *end;

	errno = 0;
	*number = text ? strtol(text, &end, 10) : -1;
	return text && !errno && end != text && !*end && *number >= 0 && *number <= max;
}

/* The i-th name of the list; a descriptor that has none is called "unknown", as systemd would. */
static void copy_name(char *name, const char *list, unsigned i)
{
	size_t bytes;

	for (; list && i; i--) {
		list = strchr(list, ':');
		if (list)
			list++;
	}
	bytes = list ? strcspn(list, ":") : 0;
	if (!list || bytes >= ACTIVATION_NAME_BYTES)
		snprintf(name, ACTIVATION_NAME_BYTES, "unknown");
	else
		snprintf(name, ACTIVATION_NAME_BYTES, "%.*s", (int)bytes, list);
}

static int take_all(struct activation *activation, long count, const char *names)
{
	activation->entry = calloc((size_t)count + 1, sizeof(*activation->entry));
	if (!activation->entry)
		return -ENOMEM;
	for (long i = 0; i < count; i++) {
		struct activation_fd *entry = &activation->entry[activation->count];

		/* One that is not there would be somebody else's descriptor later. */
		if (fcntl((int)i + FIRST_FD, F_SETFD, FD_CLOEXEC) != 0)
			continue;
		entry->fd = (int)i + FIRST_FD;
		copy_name(entry->name, names, (unsigned)i);
		activation->count++;
	}
	return 0;
}

int activation_take(struct activation *activation)
{
	const char *pid_text = getenv("LISTEN_PID"), *count_text = getenv("LISTEN_FDS");
	long pid, count;
	int err = 0;

	*activation = (struct activation){0};
	if (!pid_text || !count_text)
		return 0;
	if (!parse_number(pid_text, INT32_MAX, &pid) ||
	    !parse_number(count_text, ACTIVATION_FDS_MAX, &count))
		err = -EINVAL;
	else if (pid == getpid())
		err = take_all(activation, count, getenv("LISTEN_FDNAMES"));
	unsetenv("LISTEN_PID");
	unsetenv("LISTEN_FDS");
	unsetenv("LISTEN_FDNAMES");
	return err;
}

void activation_close(struct activation *activation)
{
	for (unsigned i = 0; i < activation->count; i++)
		if (activation->entry[i].fd >= 0)
			close(activation->entry[i].fd);
	free(activation->entry);
	*activation = (struct activation){0};
}

static bool matches(const char *name, const char *pattern)
{
	size_t bytes = strlen(pattern);

	if (bytes && pattern[bytes - 1] == '*')
		return strncmp(name, pattern, bytes - 1) == 0;
	return strcmp(name, pattern) == 0;
}

int activation_next(struct activation *activation, const char *pattern, const char **name)
{
	for (unsigned i = 0; i < activation->count; i++) {
		struct activation_fd *entry = &activation->entry[i];
		int fd = entry->fd;

		if (fd < 0 || !matches(entry->name, pattern))
			continue;
		entry->fd = -1;
		if (name)
			*name = entry->name;
		return fd;
	}
	return -1;
}
