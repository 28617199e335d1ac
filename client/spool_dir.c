/* spool_dir: see spool_dir.h. */
#include "client/spool_dir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "client/failure.h"
#include "client/limits.h"
#include "proto/frame.h"
#include "proto/limits.h"
#include "proto/segment.h"

struct spool_dir {
	char *path;
	int dir_fd, socket;
	FILE *messages;
	pthread_t thread;
	size_t segments;
	struct segment {
		uint64_t sequence;
		enum segment_state state;
	} *segment;
	bool damaged;
	uint8_t frame[FRAME_HEADER_BYTES + FRAME_BODY_BYTES_MAX];
};

static void free_dir(struct spool_dir *dir)
{
	if (dir->dir_fd >= 0)
		close(dir->dir_fd);
	if (dir->socket >= 0)
		close(dir->socket);
	free(dir->path);
	free(dir->segment);
	free(dir);
}

/* ---- The list -------------------------------------------------------------------------------- */

static int by_sequence(const void *a, const void *b)
{
	const struct segment *left = a, *right = b;

	return left->sequence < right->sequence ? -1 : left->sequence > right->sequence;
}

static int add_segment(struct spool_dir *dir, const char *name)
{
	struct segment segment, *larger;

	if (!segment_name_parse(name, &segment.sequence, &segment.state))
		return 0;
	if (dir->segments == SEGMENTS_READ_MAX)
		return -E2BIG;
	larger = reallocarray(dir->segment, dir->segments + 1, sizeof(*larger));
	if (!larger)
		return -ENOMEM;
	dir->segment = larger;
	larger[dir->segments++] = segment;
	return 0;
}

static int list(struct spool_dir *dir, struct ringtail_error *error)
{
	int fd = dup(dir->dir_fd), err = 0;
	DIR *stream = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *entry;

	if (!stream) {
		err = -errno;
		if (fd >= 0)
			close(fd);
	}
	while (stream && !err && (entry = readdir(stream)))
		err = add_segment(dir, entry->d_name);
	if (stream)
		closedir(stream);
	if (err)
		return failure_set(error, -err, "cannot-read", "cannot read %s: %s", dir->path,
				   strerror(-err));
	if (!dir->segments) {
		failure_set(error, ENOENT, "no-segments", "%s has no segments of a spool",
			    dir->path);
		failure_hint(error, "a spool is a directory in spool/ of ringtaild's state-dir");
		return -ENOENT;
	}
	qsort(dir->segment, dir->segments, sizeof(*dir->segment), by_sequence);
	return 0;
}

/* ---- Its frames ------------------------------------------------------------------------------ */

static void report(struct spool_dir *dir, const char *name, uint64_t offset, const char *why)
{
	dir->damaged = true;
	fprintf(dir->messages, "tracectl: %s/%s is damaged at byte %" PRIu64 ": %s; the rest of it is "
		"left out\n", dir->path, name, offset, why);
}

static bool read_all(int file, uint8_t *to, size_t bytes, size_t *got)
{
	*got = 0;
	while (*got < bytes) {
		ssize_t n = read(file, to + *got, bytes - *got);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n == 0;
		*got += (size_t)n;
	}
	return true;
}

/* The next frame's bytes; 0: no more of this segment. */
static size_t read_frame(struct spool_dir *dir, int file, const char *name, bool is_open,
			 uint64_t offset)
{
	struct frame_header header;
	enum frame_status status;
	size_t got, body;
	uint32_t crc;

	if (!read_all(file, dir->frame, FRAME_HEADER_BYTES, &got)) {
		report(dir, name, offset, strerror(errno));
		return 0;
	}
	if (!got)
		return 0;
	status = frame_parse_header(dir->frame, got, FRAME_RAW_BYTES_MAX, &header);
	if (status == FRAME_OK) {
		if (!read_all(file, dir->frame + FRAME_HEADER_BYTES, header.body_bytes, &body)) {
			report(dir, name, offset, strerror(errno));
			return 0;
		}
		if (body < header.body_bytes)
			status = FRAME_SHORT;
	}
	if (status == FRAME_OK) {
		crc = frame_crc32c(0, dir->frame, 12);
		crc = frame_crc32c(crc, dir->frame + FRAME_HEADER_BYTES, header.body_bytes);
		if (crc == header.crc32c)
			return FRAME_HEADER_BYTES + header.body_bytes;
		status = FRAME_BAD_CHECKSUM;
	}
	/* What was being written may end anywhere. */
	if (status != FRAME_SHORT || !is_open)
		report(dir, name, offset, status == FRAME_SHORT ? "it is cut short" :
								  frame_status_text(status));
	return 0;
}

static bool send_all(int to, const uint8_t *bytes, size_t n)
{
	while (n) {
		ssize_t sent = send(to, bytes, n, MSG_NOSIGNAL);

		if (sent < 0 && errno == EINTR)
			continue;
		if (sent <= 0)
			return false;		/* the reader has had enough */
		bytes += sent;
		n -= (size_t)sent;
	}
	return true;
}

static bool send_segment(struct spool_dir *dir, const struct segment *segment)
{
	char name[SEGMENT_NAME_BYTES];
	uint64_t offset = 0;
	bool reads = true;
	size_t bytes;
	int file;

	segment_name_format(name, segment->sequence, segment->state);
	if (segment->state == SEGMENT_BAD) {
		dir->damaged = true;
		fprintf(dir->messages, "tracectl: %s/%s was set aside by ringtaild\n", dir->path,
			name);
	}
	file = openat(dir->dir_fd, name, O_RDONLY | O_CLOEXEC);
	if (file < 0) {
		report(dir, name, 0, strerror(errno));
		return true;
	}
	while (reads &&
	       (bytes = read_frame(dir, file, name, segment->state == SEGMENT_OPEN, offset))) {
		reads = send_all(dir->socket, dir->frame, bytes);
		offset += bytes;
	}
	close(file);
	return reads;
}

static void *run(void *context)
{
	struct spool_dir *dir = context;

	for (size_t i = 0; i < dir->segments; i++)
		if (!send_segment(dir, &dir->segment[i]))
			break;
	close(dir->socket);
	dir->socket = -1;
	return NULL;
}

int spool_dir_open(const char *path, FILE *messages, struct spool_dir **out, int *fd,
		   struct ringtail_error *error)
{
	struct spool_dir *dir = calloc(1, sizeof(*dir));
	int pair[2], err;

	if (!dir)
		return failure_set(error, ENOMEM, "no-memory", "out of memory");
	dir->dir_fd = dir->socket = -1;
	dir->messages = messages;
	dir->path = strdup(path);
	dir->dir_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (!dir->path || dir->dir_fd < 0)
		err = failure_set(error, errno, "cannot-read", "cannot read %s: %s", path,
				  strerror(errno));
	else
		err = list(dir, error);
	if (!err && socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
		err = failure_set(error, errno, "cannot-read", "no socket: %s", strerror(errno));
	if (err) {
		free_dir(dir);
		return err;
	}
	dir->socket = pair[0];
	err = pthread_create(&dir->thread, NULL, run, dir);
	if (err) {
		close(pair[1]);
		free_dir(dir);
		return failure_set(error, err, "cannot-read", "no thread: %s", strerror(err));
	}
	*fd = pair[1];
	*out = dir;
	return 0;
}

bool spool_dir_close(struct spool_dir *dir)
{
	bool good;

	pthread_join(dir->thread, NULL);
	good = !dir->damaged;
	free_dir(dir);
	return good;
}
