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

int disk_write_all(struct disk *disk, int file, const uint8_t *bytes, size_t n, uint64_t *written)
{
	while (n) {
		ssize_t put = disk->ops->write(disk, file, bytes, n);

		if (put <= 0)
			return put ? (int)put : -EIO;
		*written += (uint64_t)put;
		bytes += put;
		n -= (size_t)put;
	}
	return 0;
}

int disk_file_replace(struct disk *disk, const char *path, const char *path_new, const char *text,
		      size_t bytes)
{
	int file = disk->ops->open(disk, path_new, O_WRONLY | O_CREAT | O_TRUNC), err, closed;
	uint64_t written = 0;

	if (file < 0)
		return file;
	err = disk_write_all(disk, file, (const uint8_t *)text, bytes, &written);
	if (!err)
		err = disk->ops->sync(disk, file);
	closed = disk->ops->close(disk, file);
	if (!err)
		err = closed;
	if (!err)
		err = disk->ops->rename(disk, path_new, path);
	return err ? err : disk->ops->sync_directory(disk, ".");
}
