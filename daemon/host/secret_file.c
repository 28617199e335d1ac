#include "daemon/host/secret_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int refuse(struct error *error, const char *option, const char *path, const char *what)
{
	error_set(error, EACCES, "secret-file-open", "%s: %.200s %s", option, path, what);
	error_hint(error, "chmod 0600, and let it belong to the daemon's user; or 0640 with the"
			  " daemon's group");
	return -EACCES;
}

int secret_file_open(const char *path, const char *option, int *fd, struct error *error)
{
	return secret_file_open_for(geteuid(), path, option, fd, error);
}

int secret_file_open_for(uid_t user, const char *path, const char *option, int *fd,
			 struct error *error)
{
	struct stat stat;
	int err;

	*fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (*fd < 0) {
		err = errno;
		error_set(error, err, "secret-file", "%s: cannot open %.200s: %s", option, path,
			  strerror(err));
		error_hint(error, "the daemon's user (uid %u) must be able to read it", geteuid());
		return -err;
	}
	if (fstat(*fd, &stat) != 0 || !S_ISREG(stat.st_mode))
		err = refuse(error, option, path, "is not a file");
	else if (stat.st_uid != 0 && stat.st_uid != geteuid() && stat.st_uid != user)
		err = refuse(error, option, path, "belongs to somebody else");
	else if (stat.st_mode & (S_IRWXO | S_IWGRP | S_IXGRP))
		err = refuse(error, option, path, stat.st_mode & S_IROTH ?
							  "can be read by everybody" :
							  "is open to others than the daemon");
	else
		return 0;
	close(*fd);
	return err;
}
