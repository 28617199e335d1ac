#include "daemon/host/secret_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LINKS_MAX 40		/* as the kernel's own: further is ELOOP */

static int refuse(struct error *error, const char *option, const char *path, const char *what)
{
	error_set(error, EACCES, "secret-file-open", "%s: %.200s %s", option, path, what);
	error_hint(error, "chmod 0600, and let it belong to the daemon's user; or 0640 with the"
			  " daemon's group");
	return -EACCES;
}

/* ---- The way to it --------------------------------------------------------------------------- */

/* Root's way through directories, which others may have laid. */
struct walk {
	uid_t user;
	char left[2 * PATH_MAX];	/* of the path */
	int dir;			/* where that begins */
	unsigned links;
	bool users;			/* the user could have put something else there */
};

/*
 * Who can change what a name in this directory stands for: root alone, or the user, who can then name only
 * what is his; -EPERM: others. In a directory like /tmp each can change only his own.
 */
static int judge_dir(struct walk *walk, const struct stat *dir, const struct stat *entry)
{
	uid_t owner = dir->st_uid;

	if ((dir->st_mode & S_IWOTH) || (dir->st_mode & S_IWGRP && dir->st_gid != 0)) {
		if (!(dir->st_mode & S_ISVTX) || owner != 0)
			return -EPERM;
		owner = entry->st_uid;
	}
	if (owner == 0)
		return 0;
	walk->users = true;
	/* Of the file itself, the caller sees whose it is. */
	return owner == walk->user || (dir->st_uid == 0 && S_ISREG(entry->st_mode)) ? 0 : -EPERM;
}

/* The link's text comes before what is left. */
static int follow(struct walk *walk, int link)
{
	char rest[sizeof(walk->left)], to[PATH_MAX];
	ssize_t bytes = readlinkat(link, "", to, sizeof(to) - 1);

	if (bytes < 0)
		return -errno;
	if (walk->links++ == LINKS_MAX)
		return -ELOOP;
	to[bytes] = '\0';
	memcpy(rest, walk->left, sizeof(rest));
	if ((size_t)snprintf(walk->left, sizeof(walk->left), "%s/%s", to, rest) >= sizeof(walk->left))
		return -ENAMETOOLONG;
	if (*to == '/' && (close(walk->dir), walk->dir = open("/", O_PATH | O_CLOEXEC)) < 0)
		return -errno;
	return 0;
}

/* The next name of the path: 0, or it is the last, and the file is open to be read: its descriptor. */
static int step(struct walk *walk)
{
	char *name = walk->left + strspn(walk->left, "/"), part[NAME_MAX + 1];
	size_t bytes = strcspn(name, "/");
	struct stat dir, entry;
	bool last;
	int fd, err = 0;

	if (!bytes)
		return -EISDIR;
	if (bytes > NAME_MAX)
		return -ENAMETOOLONG;
	memcpy(part, name, bytes);
	part[bytes] = '\0';
	last = !name[bytes + strspn(name + bytes, "/")];
	memmove(walk->left, name + bytes, strlen(name + bytes) + 1);
	fd = openat(walk->dir, part, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (fstat(walk->dir, &dir) != 0 || fstat(fd, &entry) != 0)
		err = -errno;
	else if (strcmp(part, "..") != 0 && strcmp(part, ".") != 0)
		err = judge_dir(walk, &dir, &entry);
	if (!err && S_ISLNK(entry.st_mode)) {
		err = follow(walk, fd);
	} else if (!err && last) {
		/* Whatever it is by now: the caller looks at what was opened. */
		err = openat(walk->dir, part, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
		err = err < 0 ? -errno : err;
	} else if (!err) {
		close(walk->dir);
		walk->dir = fd;
		return 0;
	}
	close(fd);
	return err;
}

/*
 * Opens the file as root without being sent elsewhere: every name on the way is of root's making, or of
 * the user's; *users says the latter.
 */
static int open_as_root(const char *path, uid_t user, bool *users)
{
	struct walk walk = {.user = user, .dir = open("/", O_PATH | O_CLOEXEC)};
	char here[PATH_MAX] = "";
	int result = walk.dir < 0 ? -errno : 0;

	if (*path != '/' && !getcwd(here, sizeof(here)))
		result = -errno;
	if (!result && (size_t)snprintf(walk.left, sizeof(walk.left), "%s/%s", here, path) >=
			       sizeof(walk.left))
		result = -ENAMETOOLONG;
	while (!result)
		result = step(&walk);
	if (walk.dir >= 0)
		close(walk.dir);
	*users = walk.users;
	return result;
}

/* ---- The file -------------------------------------------------------------------------------- */

int secret_file_open(const char *path, const char *option, int *fd, struct error *error)
{
	return secret_file_open_for(geteuid(), path, option, fd, error);
}

int secret_file_open_for(uid_t user, const char *path, const char *option, int *fd,
			 struct error *error)
{
	struct stat stat;
	bool users = false;
	int err;

	if (geteuid() == 0)
		*fd = open_as_root(path, user, &users);
	else if ((*fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)) < 0)
		*fd = -errno;
	if (*fd == -EPERM)
		return refuse(error, option, path, "lies where others can put another file");
	if (*fd < 0) {
		err = -*fd;
		*fd = -1;
		error_set(error, err, "secret-file", "%s: cannot open %.200s: %s", option, path,
			  strerror(err));
		error_hint(error, "the daemon's user (uid %u) must be able to read it", geteuid());
		return -err;
	}
	if (fstat(*fd, &stat) != 0 || !S_ISREG(stat.st_mode))
		err = refuse(error, option, path, "is not a file");
	else if (stat.st_uid != 0 && stat.st_uid != geteuid() && stat.st_uid != user)
		err = refuse(error, option, path, "belongs to somebody else");
	else if (users && stat.st_uid != user)
		err = refuse(error, option, path, "lies where the daemon's user can put another"
			     " file, and does not belong to that user");
	else if (stat.st_mode & (S_IRWXO | S_IWGRP | S_IXGRP))
		err = refuse(error, option, path, stat.st_mode & S_IROTH ?
							  "can be read by everybody" :
							  "is open to others than the daemon");
	else
		return 0;
	close(*fd);
	return err;
}
