#include "daemon/host/as_user.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/capability.h>
#include <sys/fsuid.h>
#include <sys/stat.h>
#include <unistd.h>

#define LINKS_MAX 8	/* followed on one path */

/* ---- Whose a path is ------------------------------------------------------------------------- */

/* A path on its way: the directory that was reached, and what is left to go. */
struct walk {
	int at;
	unsigned links;
	char rest[PATH_MAX];
};

/* Whether that directory's entry, or the lack of one (NULL), is root's to change alone. */
static bool is_roots(int directory, const struct stat *entry)
{
	struct stat about;

	if (fstat(directory, &about) != 0 || !S_ISDIR(about.st_mode) || about.st_uid != 0)
		return false;
	if (!(about.st_mode & (S_IWGRP | S_IWOTH)))
		return true;
	/* As in /tmp: who owns an entry may change it. */
	return about.st_mode & S_ISVTX && entry && entry->st_uid == 0;
}

static bool go_to(struct walk *walk, int fd)
{
	if (fd < 0)
		return false;
	if (walk->at >= 0)
		close(walk->at);
	walk->at = fd;
	return true;
}

static bool go_to_root(struct walk *walk)
{
	return go_to(walk, open("/", O_PATH | O_DIRECTORY | O_CLOEXEC));
}

/* A link that root made leads on from where it lies. Closes it. */
static bool follow(struct walk *walk, int link)
{
	char target[PATH_MAX], rest[PATH_MAX];
	ssize_t bytes = readlinkat(link, "", target, sizeof(target) - 1);
	int whole;

	close(link);
	if (bytes <= 0 || ++walk->links > LINKS_MAX)
		return false;
	target[bytes] = '\0';
	whole = snprintf(rest, sizeof(rest), "%s/%s", target, walk->rest);
	if (whole < 0 || (size_t)whole >= sizeof(rest))
		return false;
	memcpy(walk->rest, rest, (size_t)whole + 1);
	return *target != '/' || go_to_root(walk);
}

/* Takes the next name off the rest. */
static bool next_name(struct walk *walk, char name[NAME_MAX + 1])
{
	size_t skip = strspn(walk->rest, "/"), bytes = strcspn(walk->rest + skip, "/");

	if (!bytes || bytes > NAME_MAX)
		return false;
	memcpy(name, walk->rest + skip, bytes);
	name[bytes] = '\0';
	memmove(walk->rest, walk->rest + skip + bytes, strlen(walk->rest + skip + bytes) + 1);
	return true;
}

/* To the last directory that is there. False: on the way is one that others may change. */
static bool walk_on(struct walk *walk)
{
	char name[NAME_MAX + 1];
	struct stat about;
	int fd;

	while (next_name(walk, name)) {
		fd = openat(walk->at, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
		if (fd < 0)
			return errno == ENOENT && is_roots(walk->at, NULL);
		if (fstat(fd, &about) != 0 || !is_roots(walk->at, &about)) {
			close(fd);
			return false;
		}
		if (S_ISLNK(about.st_mode) ? !follow(walk, fd) : !go_to(walk, fd))
			return false;
	}
	return strspn(walk->rest, "/") == strlen(walk->rest);
}

/*
 * Whether nobody but root can change which directory the path's last name is in. That one may be anybody's:
 * to make a name follows none that is there.
 */
static bool only_root_changes(const char *path)
{
	struct walk walk = {.at = -1};
	char *here = *path == '/' ? NULL : getcwd(NULL, 0);
	int whole = snprintf(walk.rest, sizeof(walk.rest), "%s/%s", here ? here : "", path);
	char *last = strrchr(walk.rest, '/');
	bool good = false;

	free(here);
	if (whole > 0 && (size_t)whole < sizeof(walk.rest) && last) {
		*last = '\0';		/* the last name itself */
		good = go_to_root(&walk) && walk_on(&walk);
	}
	if (walk.at >= 0)
		close(walk.at);
	return good;
}

/* ---- Whose rights ---------------------------------------------------------------------------- */

/* What the user has not, for as long as it works in root's directories. */
static int raise_override(void)
{
	static const cap_value_t override[] = {CAP_DAC_OVERRIDE};
	cap_t have = cap_get_proc();
	int err = 0;

	if (!have || cap_set_flag(have, CAP_EFFECTIVE, 1, override, CAP_SET) != 0 ||
	    cap_set_proc(have) != 0)
		err = -errno;
	cap_free(have);
	return err;
}

/* The kernel takes root's rights over files away with the file system's user id, and gives them back. */
static int work_as(const struct account *user, bool overrides, as_user_work *work, void *context)
{
	int groups = getgroups(0, NULL), err = 0;
	gid_t *group = calloc((size_t)(groups > 0 ? groups : 0) + 1, sizeof(*group));

	if (!group)
		return -ENOMEM;
	if (groups < 0 || getgroups(groups, group) < 0 || setgroups(0, NULL) != 0) {
		err = -errno;
		free(group);
		return err;
	}
	setfsgid(user->gid);
	setfsuid(user->uid);
	if ((uid_t)setfsuid((uid_t)-1) != user->uid || (gid_t)setfsgid((gid_t)-1) != user->gid)
		err = -EPERM;
	if (!err && overrides)
		err = raise_override();
	if (!err)
		err = work(context);
	setfsuid(geteuid());
	setfsgid(getegid());
	if (setgroups((size_t)groups, group) != 0 && !err)
		err = -errno;
	free(group);
	return err;
}

int as_user(const struct account *user, const char *path, as_user_work *work, void *context)
{
	int err;

	if (geteuid() != 0 || user->uid == 0)
		return work(context);
	err = work_as(user, false, work, context);
	if ((err == -EACCES || err == -EPERM) && only_root_changes(path))
		err = work_as(user, true, work, context);
	return err;
}

struct directory {
	const char *path;
	mode_t mode;
};

static int make_directory(void *context)
{
	const struct directory *directory = context;
	mode_t before = umask(0);
	int err = mkdir(directory->path, directory->mode) == 0 || errno == EEXIST ? 0 : -errno;

	umask(before);
	return err;
}

int as_user_make_directory(const struct account *user, const char *path, mode_t mode)
{
	struct directory directory = {.path = path, .mode = mode};

	return as_user(user, path, make_directory, &directory);
}
