#include "daemon/net/lock_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define TRIES 16	/* so many daemons may remove theirs between our open(2) and our lock */

/* Whether the path still leads to it: its daemon removes it when it stops. */
static bool is_there(const char *path, int fd)
{
	struct stat held, named;

	return fstat(fd, &held) == 0 && lstat(path, &named) == 0 && held.st_dev == named.st_dev &&
	       held.st_ino == named.st_ino;
}

int lock_file_take(const char *path)
{
	for (unsigned i = 0; i < TRIES; i++) {
		int fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600), err;

		if (fd < 0)
			return -errno;
		err = flock(fd, LOCK_EX | LOCK_NB) == 0 ? 0 : -errno;
		if (!err && is_there(path, fd))
			return fd;
		close(fd);
		if (err)
			return err;
	}
	return -EWOULDBLOCK;
}

void lock_file_leave(const char *path, int fd)
{
	if (fd < 0)
		return;
	/* First the name, then the lock: whoever locks what has no name any more tries again. */
	if (is_there(path, fd))
		unlink(path);
	close(fd);
}
