/*
 * faulty_disk: a disk in memory that fails, tears and forgets, for tests and the simulation. In one
 * header, so that a test just includes it.
 *
 * What is written is there at once, as in a page cache; what a power cut leaves of it is what was
 * synced: a file's bytes by sync(), names by sync_directory() of their directory. After a sync that
 * failed, the bytes it was for are not durable, though later ones succeed, unless all were written again:
 * as Linux does it.
 */
#ifndef RINGTAIL_TESTS_LIB_FAULTY_DISK_H
#define RINGTAIL_TESTS_LIB_FAULTY_DISK_H

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/disk/disk.h"

/* What the disk itself takes never fails: where the daemon's memory does, the includer says what else. */
#ifndef FAULTY_REALLOC
#define FAULTY_REALLOC		realloc
#endif

#define FAULTY_FILES_MAX	1024u	/* ever: each save of a file makes another */
#define FAULTY_HANDLES_MAX	64u
#define FAULTY_CHANGES_MAX	1024u
#define FAULTY_PATH_BYTES	512u

enum faulty_cut {
	FAULTY_KILL,		/* the machine goes on: nothing is forgotten */
	FAULTY_DROP,		/* all that was not synced is gone */
	FAULTY_REORDER,		/* any part of it is there, in any order */
	FAULTY_TEAR,		/* the beginning of it is there, the last of it torn */
};

struct faulty_file {
	uint8_t *bytes, *durable;
	size_t n, capacity, durable_n;
	bool poisoned;		/* a sync failed: no later one reaches the disk, until */
	size_t poisoned_n;	/* so many bytes are written again */
	size_t again_n;		/* so many of them are */
};

struct faulty_name {
	char path[FAULTY_PATH_BYTES];
	int file;		/* index; -1: no name */
};

enum faulty_change_kind {
	FAULTY_CREATE,
	FAULTY_RENAME,
	FAULTY_REMOVE,
};

/* A change of names that is not durable yet. */
struct faulty_change {
	enum faulty_change_kind kind;
	char path[FAULTY_PATH_BYTES], to[FAULTY_PATH_BYTES];
	int file;
};

struct faulty_names {
	struct faulty_name name[FAULTY_FILES_MAX];
	unsigned n;
};

struct faulty_disk {
	struct disk disk;		/* to be copied: its dir_fd finds the rest */
	struct faulty_file file[FAULTY_FILES_MAX];
	unsigned files;
	struct faulty_names names, durable;
	struct faulty_change change[FAULTY_CHANGES_MAX];
	unsigned changes;
	struct {
		int file;
		bool used, append;
		size_t at;		/* of the next write, if not at the end */
	} handle[FAULTY_HANDLES_MAX];

	/* What goes wrong, and when; operations are counted from 0. */
	uint64_t operations;
	uint64_t fail_at;		/* UINT64_MAX: never */
	uint64_t failed_at;		/* for who tells of it */
	int fail_errno;			/* 0: a short write */
	bool fail_for_ever;
	uint64_t cut_at;		/* from here on nothing is done: see faulty_cut() */
	uint64_t room;			/* bytes of all files; beyond it ENOSPC */
	uint64_t seed;
};

/* dir_fd is the index into this: a struct disk is copied, and must find its way back. */
static struct faulty_disk *faulty_disks[64];

static inline uint64_t faulty_random(struct faulty_disk *faulty)
{
	faulty->seed ^= faulty->seed << 13;
	faulty->seed ^= faulty->seed >> 7;
	faulty->seed ^= faulty->seed << 17;
	return faulty->seed;
}

static inline struct faulty_disk *faulty_of(struct disk *disk)
{
	return faulty_disks[disk->dir_fd];
}

/* 0, or the errno that this operation fails with; 1: a short write. */
static inline int faulty_step(struct faulty_disk *faulty)
{
	uint64_t now = faulty->operations++;

	if (now >= faulty->cut_at)
		return -EIO;
	if (now == faulty->fail_at || (now > faulty->fail_at && faulty->fail_for_ever))
		return faulty->fail_errno ? -faulty->fail_errno : 1;
	return 0;
}

static inline void faulty_set_path(char to[FAULTY_PATH_BYTES], const char *path)
{
	size_t n = strlen(path);

	assert(n < FAULTY_PATH_BYTES);
	memmove(to, path, n + 1);
}

static inline struct faulty_name *faulty_find(struct faulty_names *names, const char *path)
{
	for (unsigned i = 0; i < names->n; i++)
		if (strcmp(names->name[i].path, path) == 0)
			return &names->name[i];
	return NULL;
}

static inline void faulty_unlink(struct faulty_names *names, const char *path)
{
	struct faulty_name *name = faulty_find(names, path);

	if (name)
		*name = names->name[--names->n];
}

static inline void faulty_link(struct faulty_names *names, const char *path, int file)
{
	struct faulty_name *name = faulty_find(names, path);

	if (!name) {
		assert(names->n < FAULTY_FILES_MAX);
		name = &names->name[names->n++];
		faulty_set_path(name->path, path);
	}
	name->file = file;
}

static inline void faulty_apply(struct faulty_names *names, const struct faulty_change *change)
{
	struct faulty_name *from = faulty_find(names, change->path);

	switch (change->kind) {
	case FAULTY_CREATE:
		faulty_link(names, change->path, change->file);
		break;
	case FAULTY_RENAME:
		if (!from)
			break;
		faulty_unlink(names, change->path);
		faulty_link(names, change->to, change->file);
		break;
	case FAULTY_REMOVE:
		faulty_unlink(names, change->path);
		break;
	}
}

static inline void faulty_note(struct faulty_disk *faulty, enum faulty_change_kind kind,
			       const char *path, const char *to, int file)
{
	struct faulty_change *change = &faulty->change[faulty->changes++];

	assert(faulty->changes < FAULTY_CHANGES_MAX);
	change->kind = kind;
	change->file = file;
	faulty_set_path(change->path, path);
	faulty_set_path(change->to, to ? to : "");
	faulty_apply(&faulty->names, change);
}

static inline int faulty_open(struct disk *disk, const char *path, int flags)
{
	struct faulty_disk *faulty = faulty_of(disk);
	int err = faulty_step(faulty), handle = 0;
	struct faulty_name *name;

	if (err < 0)
		return err;
	name = faulty_find(&faulty->names, path);
	if (name && (flags & O_CREAT) && (flags & O_EXCL))
		return -EEXIST;
	if (!name && !(flags & O_CREAT))
		return -ENOENT;
	if (!name) {
		assert(faulty->files < FAULTY_FILES_MAX);
		faulty_note(faulty, FAULTY_CREATE, path, NULL, (int)faulty->files++);
		name = faulty_find(&faulty->names, path);
	}
	if (flags & O_TRUNC)
		faulty->file[name->file].n = 0;
	while (faulty->handle[handle].used)
		handle++;
	faulty->handle[handle].used = true;
	faulty->handle[handle].file = name->file;
	faulty->handle[handle].append = flags & O_APPEND;
	faulty->handle[handle].at = 0;
	return handle;
}

static inline int faulty_close(struct disk *disk, int handle)
{
	struct faulty_disk *faulty = faulty_of(disk);
	int err = faulty_step(faulty);

	faulty->handle[handle].used = false;	/* also if it fails, as close(2) */
	return err < 0 ? err : 0;
}

static inline struct faulty_file *faulty_at(struct faulty_disk *faulty, int handle)
{
	assert(faulty->handle[handle].used);
	return &faulty->file[faulty->handle[handle].file];
}

static inline ssize_t faulty_read(struct disk *disk, int handle, void *bytes, size_t n,
				  uint64_t offset)
{
	struct faulty_disk *faulty = faulty_of(disk);
	struct faulty_file *file = faulty_at(faulty, handle);
	int err = faulty_step(faulty);

	if (err < 0)
		return err;
	if (offset >= file->n)
		return 0;
	if (n > file->n - offset)
		n = file->n - (size_t)offset;
	memcpy(bytes, file->bytes + offset, n);
	return (ssize_t)n;
}

static inline uint64_t faulty_used(const struct faulty_disk *faulty)
{
	uint64_t bytes = 0;

	for (unsigned i = 0; i < faulty->names.n; i++)
		bytes += faulty->file[faulty->names.name[i].file].n;
	return bytes;
}

static inline ssize_t faulty_write(struct disk *disk, int handle, const void *bytes, size_t n)
{
	struct faulty_disk *faulty = faulty_of(disk);
	struct faulty_file *file = faulty_at(faulty, handle);
	int err = faulty_step(faulty);
	size_t at, more;

	if (err < 0)
		return err;
	if (err > 0 && n > 1)
		n /= 2;
	at = faulty->handle[handle].append ? file->n : faulty->handle[handle].at;
	assert(at <= file->n);
	more = at + n > file->n ? at + n - file->n : 0;
	/* As much as there is room for, then nothing. */
	if (more && faulty->room != UINT64_MAX && faulty_used(faulty) + more > faulty->room) {
		if (faulty_used(faulty) >= faulty->room && n == more)
			return -ENOSPC;
		n -= more;
		more = faulty_used(faulty) < faulty->room ?
		       (size_t)(faulty->room - faulty_used(faulty)) : 0;
		n += more;
	}
	if (at + n > file->capacity) {
		file->capacity = 2 * (at + n);
		file->bytes = FAULTY_REALLOC(file->bytes, file->capacity);
		assert(file->bytes);
	}
	if (n)
		memcpy(file->bytes + at, bytes, n);
	file->n += more;
	if (at <= file->again_n && at + n > file->again_n)
		file->again_n = at + n;
	faulty->handle[handle].at = at + n;
	return (ssize_t)n;
}

static inline void faulty_set_durable(struct faulty_file *file, const uint8_t *bytes, size_t n)
{
	uint8_t *copy = FAULTY_REALLOC(NULL, n + 1);

	assert(copy);
	if (n)
		memcpy(copy, bytes, n);
	free(file->durable);
	file->durable = copy;
	file->durable_n = n;
}

static inline int faulty_sync(struct disk *disk, int handle)
{
	struct faulty_disk *faulty = faulty_of(disk);
	struct faulty_file *file = faulty_at(faulty, handle);
	int err = faulty_step(faulty);

	if (err < 0) {
		file->poisoned = true;
		file->poisoned_n = file->n;
		file->again_n = 0;
		return err;
	}
	if (file->poisoned && file->again_n >= (file->poisoned_n < file->n ? file->poisoned_n : file->n))
		file->poisoned = false;
	if (!file->poisoned)
		faulty_set_durable(file, file->bytes, file->n);
	return 0;
}

static inline int faulty_truncate(struct disk *disk, int handle, uint64_t bytes)
{
	struct faulty_disk *faulty = faulty_of(disk);
	struct faulty_file *file = faulty_at(faulty, handle);
	int err = faulty_step(faulty);

	if (err < 0)
		return err;
	if (bytes < file->n)
		file->n = (size_t)bytes;
	return 0;
}

static inline int faulty_rename(struct disk *disk, const char *from, const char *to)
{
	struct faulty_disk *faulty = faulty_of(disk);
	struct faulty_name *name = faulty_find(&faulty->names, from);
	int err = faulty_step(faulty);

	if (err < 0)
		return err;
	if (!name)
		return -ENOENT;
	faulty_note(faulty, FAULTY_RENAME, from, to, name->file);
	return 0;
}

/* A name in the directory `directory` of the files' paths, if it is a directory with a file in it. */
static inline const char *faulty_directory(const char *path, const char *directory, size_t *bytes)
{
	size_t n = strlen(directory);
	const char *name = path + n + 1, *slash;

	if (strncmp(path, directory, n) != 0 || path[n] != '/')
		return NULL;
	slash = strchr(name, '/');
	*bytes = slash ? (size_t)(slash - name) : 0;
	return slash ? name : NULL;
}

static inline bool faulty_has_files(const struct faulty_disk *faulty, const char *directory)
{
	size_t n = strlen(directory);

	for (unsigned i = 0; i < faulty->names.n; i++)
		if (strncmp(faulty->names.name[i].path, directory, n) == 0 &&
		    faulty->names.name[i].path[n] == '/')
			return true;
	return false;
}

static inline int faulty_remove(struct disk *disk, const char *path)
{
	struct faulty_disk *faulty = faulty_of(disk);
	struct faulty_name *name = faulty_find(&faulty->names, path);
	int err = faulty_step(faulty);

	if (err < 0)
		return err;
	if (!name)
		return faulty_has_files(faulty, path) ? -ENOTEMPTY : -ENOENT;
	faulty_note(faulty, FAULTY_REMOVE, path, NULL, name->file);
	return 0;
}

/* Directories are just there: what a path needs is its file; one without files is not found. */
static inline int faulty_make_directory(struct disk *disk, const char *path)
{
	int err = faulty_step(faulty_of(disk));

	(void)path;
	return err < 0 ? err : 0;
}

static inline bool faulty_is_in(const char *path, const char *directory)
{
	const char *slash = strrchr(path, '/');
	size_t n = slash ? (size_t)(slash - path) : 0;

	if (!slash)
		return strcmp(directory, ".") == 0;
	return strlen(directory) == n && memcmp(path, directory, n) == 0;
}

static inline int faulty_sync_directory(struct disk *disk, const char *path)
{
	struct faulty_disk *faulty = faulty_of(disk);
	int err = faulty_step(faulty);
	unsigned kept = 0;

	if (err < 0)
		return err;
	for (unsigned i = 0; i < faulty->changes; i++) {
		if (faulty_is_in(faulty->change[i].path, path))
			faulty_apply(&faulty->durable, &faulty->change[i]);
		else
			faulty->change[kept++] = faulty->change[i];
	}
	faulty->changes = kept;
	return 0;
}

/* Each once: at the first of its files. */
static inline void faulty_list_directories(struct faulty_disk *faulty, const char *path,
					   disk_entry *entry, void *context)
{
	for (unsigned i = 0; i < faulty->names.n; i++) {
		size_t bytes, other_bytes;
		const char *name = faulty_directory(faulty->names.name[i].path, path, &bytes), *other;
		char text[FAULTY_PATH_BYTES];
		unsigned j = 0;

		if (!name)
			continue;
		for (; j < i; j++) {
			other = faulty_directory(faulty->names.name[j].path, path, &other_bytes);
			if (other && other_bytes == bytes && memcmp(other, name, bytes) == 0)
				break;
		}
		if (j < i)
			continue;
		memcpy(text, name, bytes);
		text[bytes] = '\0';
		entry(context, text, 0);
	}
}

static inline int faulty_list(struct disk *disk, const char *path, disk_entry *entry,
			      void *context)
{
	struct faulty_disk *faulty = faulty_of(disk);
	int err = faulty_step(faulty);

	if (err < 0)
		return err;
	for (unsigned i = 0; i < faulty->names.n; i++) {
		const struct faulty_name *name = &faulty->names.name[i];

		if (faulty_is_in(name->path, path))
			entry(context, strrchr(name->path, '/') ? strrchr(name->path, '/') + 1 :
			      name->path, faulty->file[name->file].n);
	}
	faulty_list_directories(faulty, path, entry, context);
	return 0;
}

static inline void faulty_disk_init(struct faulty_disk *faulty, uint64_t seed)
{
	static const struct disk_ops ops = {
		.open = faulty_open,
		.close = faulty_close,
		.read = faulty_read,
		.write = faulty_write,
		.sync = faulty_sync,
		.truncate = faulty_truncate,
		.rename = faulty_rename,
		.remove = faulty_remove,
		.make_directory = faulty_make_directory,
		.sync_directory = faulty_sync_directory,
		.list = faulty_list,
	};

	memset(faulty, 0, sizeof(*faulty));
	faulty->disk.ops = &ops;
	faulty->fail_at = faulty->cut_at = faulty->room = UINT64_MAX;
	faulty->seed = seed * 2654435761u + 1;
	for (int i = 0; i < 64; i++) {
		if (!faulty_disks[i]) {
			faulty_disks[i] = faulty;
			faulty->disk.dir_fd = i;
			return;
		}
	}
	assert(!"over 64 disks at once");
}

static inline void faulty_disk_fini(struct faulty_disk *faulty)
{
	for (unsigned i = 0; i < faulty->files; i++) {
		free(faulty->file[i].bytes);
		free(faulty->file[i].durable);
	}
	faulty_disks[faulty->disk.dir_fd] = NULL;
}

/* What of a file's bytes is there after it. */
static inline void faulty_cut_file(struct faulty_disk *faulty, struct faulty_file *file,
				   enum faulty_cut how)
{
	bool grown = file->n > file->durable_n;
	size_t n = file->durable_n;

	if (how == FAULTY_REORDER && faulty_random(faulty) % 2)
		return;
	if (how == FAULTY_TEAR && grown) {
		n += (size_t)(faulty_random(faulty) % (file->n - file->durable_n + 1));
		/* The last of it is of a length that was written, and not what was written. */
		for (size_t i = n > file->durable_n + 16 ? n - 16 : file->durable_n; i < n; i++)
			if (faulty_random(faulty) % 2)
				file->bytes[i] = (uint8_t)faulty_random(faulty);
		file->n = n;
		return;
	}
	if (file->durable_n)
		memcpy(file->bytes, file->durable, file->durable_n);
	file->n = file->durable_n;
}

/* The power is cut, and is there again: nothing fails any more. */
static inline void faulty_disk_cut(struct faulty_disk *faulty, enum faulty_cut how)
{
	unsigned changes = faulty->changes;

	faulty->fail_at = faulty->cut_at = UINT64_MAX;
	memset(faulty->handle, 0, sizeof(faulty->handle));
	if (how == FAULTY_KILL)
		return;
	for (unsigned i = 0; i < faulty->files; i++)
		faulty_cut_file(faulty, &faulty->file[i], how);
	if (how == FAULTY_TEAR)
		changes = changes ? (unsigned)(faulty_random(faulty) % (changes + 1)) : 0;
	for (unsigned i = 0; how != FAULTY_DROP && i < changes; i++)
		if (how == FAULTY_TEAR || faulty_random(faulty) % 2)
			faulty_apply(&faulty->durable, &faulty->change[i]);
	faulty->changes = 0;
	faulty->names = faulty->durable;
	for (unsigned i = 0; i < faulty->files; i++) {
		faulty->file[i].poisoned = false;
		faulty_set_durable(&faulty->file[i], faulty->file[i].bytes, faulty->file[i].n);
	}
}

#endif
