#include "daemon/source/tracepoints.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>

#include "daemon/base/limits.h"
#include "daemon/base/descriptor.h"
#include "proto/limits.h"

struct tracepoint {
	char *system, *name;		/* one piece of memory */
	uint64_t place;			/* in the file */
	uint32_t bytes;
	bool is_too_long;		/* its format is not in the file */
};

struct tracepoints {
	int formats;			/* -1: there are none */
	uint64_t bytes;			/* of them */
	unsigned count, beyond;
	struct tracepoint one[TRACEPOINTS_MAX];
};

int tracepoints_open_tracefs(void)
{
	static const char *const place[] = { "/sys/kernel/tracing", "/sys/kernel/debug/tracing" };
	int fs, mount, fd;

	for (unsigned i = 0; i < sizeof(place) / sizeof(place[0]); i++) {
		fd = open(place[i], O_PATH | O_DIRECTORY | O_CLOEXEC);
		if (fd < 0)
			continue;
		if (!faccessat(fd, "events/syscalls", R_OK, AT_EACCESS))
			return fd;
		close(fd);
	}
	fs = fsopen("tracefs", FSOPEN_CLOEXEC);
	if (fs < 0)
		return -errno;
	if (fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0)) {
		mount = -errno;
	} else {
		mount = fsmount(fs, FSMOUNT_CLOEXEC, MOUNT_ATTR_RDONLY);
		if (mount < 0)
			mount = -errno;
	}
	close(fs);
	return mount;
}

static int compare(const void *a, const void *b)
{
	const struct tracepoint *one = a, *other = b;
	int system = strcmp(one->system, other->system);

	return system ? system : strcmp(one->name, other->name);
}

static int add(struct tracepoints *tracepoints, const char *system, const char *name,
	       const char *text, size_t bytes)
{
	struct tracepoint *one = &tracepoints->one[tracepoints->count];
	size_t system_bytes = strlen(system) + 1;

	one->system = malloc(system_bytes + strlen(name) + 1);
	if (!one->system)
		return -ENOMEM;
	one->name = one->system + system_bytes;
	strcpy(one->system, system);
	strcpy(one->name, name);
	one->place = tracepoints->bytes;
	one->bytes = (uint32_t)bytes;
	one->is_too_long = !bytes;
	tracepoints->count++;
	tracepoints->bytes += bytes;
	return write(tracepoints->formats, text, bytes) == (ssize_t)bytes ? 0 : -ENOMEM;
}

/* The whole file; 0 where it is longer than there is room for, -1 where it cannot be read, or is empty. */
static ssize_t read_format(int system, const char *name, char *text)
{
	char path[NAME_MAX + sizeof("/format")];
	size_t bytes = 0;
	ssize_t got = 0;
	int fd;

	snprintf(path, sizeof(path), "%s/format", name);
	fd = openat(system, path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	while (bytes < TRACEPOINT_FORMAT_BYTES_MAX &&
	       (got = read(fd, text + bytes, TRACEPOINT_FORMAT_BYTES_MAX - bytes)) > 0)
		bytes += (size_t)got;
	close(fd);
	if (got > 0)
		return 0;
	return got == 0 && bytes ? (ssize_t)bytes : -1;
}

static DIR *open_directory(int at, const char *name)
{
	int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *directory = fd < 0 ? NULL : fdopendir(fd);

	if (fd >= 0 && !directory)
		close(fd);
	return directory;
}

static int read_system(struct tracepoints *tracepoints, int events, const char *system, char *text)
{
	DIR *directory = open_directory(events, system);
	struct dirent *entry;
	int err = 0;

	if (!directory)
		return 0;
	while (!err && (entry = readdir(directory))) {
		ssize_t bytes;

		if (entry->d_type != DT_DIR || entry->d_name[0] == '.')
			continue;
		bytes = read_format(dirfd(directory), entry->d_name, text);
		if (bytes < 0)
			continue;
		if (tracepoints->count == TRACEPOINTS_MAX)
			tracepoints->beyond++;
		else
			err = add(tracepoints, system, entry->d_name, text, (size_t)bytes);
	}
	closedir(directory);
	return err;
}

/* The system `ftrace` has the records of its own tracers, which no program can be attached to. */
static int read_all(struct tracepoints *tracepoints, int tracefs)
{
	DIR *events = open_directory(tracefs, "events");
	char *text = malloc(TRACEPOINT_FORMAT_BYTES_MAX);
	struct dirent *entry;
	int err = text ? 0 : -ENOMEM;

	while (!err && events && (entry = readdir(events)))
		if (entry->d_type == DT_DIR && entry->d_name[0] != '.' &&
		    strcmp(entry->d_name, "ftrace") != 0)
			err = read_system(tracepoints, dirfd(events), entry->d_name, text);
	free(text);
	if (events)
		closedir(events);
	return err;
}

int tracepoints_read(struct tracepoints **out)
{
	struct tracepoints *tracepoints = calloc(1, sizeof(*tracepoints));
	int tracefs, err = 0;

	if (!tracepoints)
		return -ENOMEM;
	tracepoints->formats = descriptor_memory_file("ringtail-formats", false);
	tracefs = tracepoints_open_tracefs();
	if (tracefs >= 0 && tracepoints->formats >= 0)
		err = read_all(tracepoints, tracefs);
	if (tracefs >= 0)
		close(tracefs);
	if (err) {
		tracepoints_destroy(tracepoints);
		return err;
	}
	qsort(tracepoints->one, tracepoints->count, sizeof(tracepoints->one[0]), compare);
	*out = tracepoints;
	return 0;
}

void tracepoints_destroy(struct tracepoints *tracepoints)
{
	if (!tracepoints)
		return;
	for (unsigned i = 0; i < tracepoints->count; i++)
		free(tracepoints->one[i].system);
	if (tracepoints->formats >= 0)
		close(tracepoints->formats);
	free(tracepoints);
}

unsigned tracepoints_count(const struct tracepoints *tracepoints)
{
	return tracepoints->count;
}

unsigned tracepoints_beyond(const struct tracepoints *tracepoints)
{
	return tracepoints->beyond;
}

const char *tracepoints_system(const struct tracepoints *tracepoints, unsigned i)
{
	return tracepoints->one[i].system;
}

const char *tracepoints_name(const struct tracepoints *tracepoints, unsigned i)
{
	return tracepoints->one[i].name;
}

int tracepoints_format(const struct tracepoints *tracepoints, unsigned i, char *text)
{
	const struct tracepoint *one = &tracepoints->one[i];
	ssize_t got;

	if (one->is_too_long)
		return -EFBIG;
	got = pread(tracepoints->formats, text, one->bytes, (off_t)one->place);
	return got < 0 ? -errno : got == (ssize_t)one->bytes ? (int)got : -EIO;
}
