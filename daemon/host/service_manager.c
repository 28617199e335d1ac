/*
 * Each call is one datagram, descriptors as SCM_RIGHTS.
 *
 * The witness: the write end of a pipe, stored as everything else. A manager that does not store
 * closes it, which the read end shows; and when this process ends, the manager sees that nobody can
 * read and lets go of it. Everything else is stored with FDPOLL=0: a BPF map looks broken to poll(2).
 */
#include "daemon/host/service_manager.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "daemon/base/descriptor.h"
#include "daemon/base/limits.h"

#define FIRST_FD	3	/* sd_listen_fds(3) */
#define WITNESS		"ringtail.witness"
#define TEXT_BYTES	512

/* ---- What it hands over ----------------------------------------------------------------------- */

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

/* ---- What it is told --------------------------------------------------------------------------- */

struct service_manager {
	int socket;
	int witness;			/* read end; -1: none */
	bool failed;			/* something could not be stored */
};

static int connect_to(const char *path)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	struct timeval patience = {.tv_sec = NOTIFY_WAIT_MS / 1000,
				   .tv_usec = NOTIFY_WAIT_MS % 1000 * 1000};
	size_t bytes = strlen(path);
	int fd;

	if ((path[0] != '/' && path[0] != '@') || bytes < 2 || bytes >= sizeof(address.sun_path))
		return -1;
	memcpy(address.sun_path, path, bytes);
	if (path[0] == '@')
		address.sun_path[0] = '\0';
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -1;
	if (connect(fd, (struct sockaddr *)&address,
		    (socklen_t)(offsetof(struct sockaddr_un, sun_path) + bytes)) != 0 ||
	    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience)) != 0) {
		close(fd);
		return -1;
	}
	return fd;
}

struct service_manager *service_manager_connect(void)
{
	const char *path = getenv("NOTIFY_SOCKET");
	struct service_manager *manager = path ? calloc(1, sizeof(*manager)) : NULL;

	if (!manager)
		return NULL;
	manager->witness = -1;
	manager->socket = connect_to(path);
	if (manager->socket >= 0)
		return manager;
	free(manager);
	return NULL;
}

void service_manager_close(struct service_manager *manager)
{
	if (!manager)
		return;
	close(manager->socket);
	if (manager->witness >= 0)
		close(manager->witness);
	free(manager);
}

static int say(struct service_manager *manager, const char *text, int fd)
{
	return descriptor_send(manager->socket, text, strlen(text), &fd, fd >= 0);
}

int service_manager_notify(struct service_manager *manager, const char *text)
{
	return manager ? say(manager, text, -1) : 0;
}

int service_manager_store(struct service_manager *manager, const char *name, int fd)
{
	char text[TEXT_BYTES];
	int err;

	if (!manager)
		return 0;
	snprintf(text, sizeof(text), "FDSTORE=1\nFDPOLL=0\nFDNAME=%s", name);
	err = say(manager, text, fd);
	if (err)
		manager->failed = true;
	return err;
}

int service_manager_drop(struct service_manager *manager, const char *name, int barrier)
{
	char text[TEXT_BYTES];
	int err;

	if (!manager)
		return 0;
	snprintf(text, sizeof(text), "FDSTOREREMOVE=1\nFDNAME=%s", name);
	err = say(manager, text, -1);
	if (!err && barrier >= 0)
		err = say(manager, "BARRIER=1", barrier);
	return err;
}

int service_manager_begin_store(struct service_manager *manager)
{
	int end[2], err;

	if (!manager)
		return 0;
	/* One that an earlier run has left, if it is still there. */
	err = service_manager_drop(manager, WITNESS, -1);
	if (err)
		return err;
	if (pipe2(end, O_CLOEXEC) != 0)
		return -errno;
	err = say(manager, "FDSTORE=1\nFDNAME=" WITNESS, end[1]);
	close(end[1]);
	if (err) {
		close(end[0]);
		return err;
	}
	manager->witness = end[0];
	return 0;
}

bool service_manager_stores(const struct service_manager *manager)
{
	struct pollfd witness;

	if (!manager || manager->failed || manager->witness < 0)
		return false;
	witness = (struct pollfd){.fd = manager->witness};
	return poll(&witness, 1, 0) == 0;
}
