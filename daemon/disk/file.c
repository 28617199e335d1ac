#include "daemon/disk/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>

int disk_file_read(struct disk *disk, const char *path, size_t bytes_max, char **text,
		   size_t *bytes)
{
	int file = disk->ops->open(disk, path, O_RDONLY);
	ssize_t got;

	*text = NULL;
	*bytes = 0;
	if (file < 0)
		return file;
	*text = malloc(bytes_max + 1);
	got = *text ? 1 : -ENOMEM;
	while (got > 0 && *bytes < bytes_max) {
		got = disk->ops->read(disk, file, *text + *bytes, bytes_max - *bytes, *bytes);
		*bytes += got > 0 ? (size_t)got : 0;
	}
	disk->ops->close(disk, file);
	if (got < 0) {
		free(*text);
		*text = NULL;
		return (int)got;
	}
	(*text)[*bytes] = '\0';
	return 0;
}

static int write_all(struct disk *disk, int file, const char *text, size_t bytes)
{
	while (bytes) {
		ssize_t put = disk->ops->write(disk, file, text, bytes);

		if (put <= 0)
			return put ? (int)put : -EIO;
		text += put;
		bytes -= (size_t)put;
	}
	return 0;
}

int disk_file_replace(struct disk *disk, const char *path, const char *path_new, const char *text,
		      size_t bytes)
{
	int file = disk->ops->open(disk, path_new, O_WRONLY | O_CREAT | O_TRUNC), err, closed;

	if (file < 0)
		return file;
	err = write_all(disk, file, text, bytes);
	if (!err)
		err = disk->ops->sync(disk, file);
	closed = disk->ops->close(disk, file);
	if (!err)
		err = closed;
	if (!err)
		err = disk->ops->rename(disk, path_new, path);
	return err ? err : disk->ops->sync_directory(disk, ".");
}
