#include "client/cli/spool_dir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/lib/failure.h"
#include "client/lib/limits.h"
#include "client/lib/unpack.h"
#include "proto/frame.h"
#include "proto/limits.h"
#include "proto/ringtail.pb-c.h"
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
	uint64_t bytes;			/* of them, at the opening */
	bool damaged;
	bool given;			/* frames have been sent */
	bool gone;			/* and nothing since segments were found to be gone */
	struct frame_codec *codec;
	uint8_t frame[FRAME_HEADER_BYTES + FRAME_BODY_BYTES_MAX];
	uint8_t raw[SEGMENT_END_BYTES_MAX];
};

/* The segment that is being sent. */
struct sending {
	int file;
	const char *name;
	enum segment_state state;
	uint64_t sequence, offset;	/* offset: of the next frame */
	uint32_t crc;			/* of what is before it */
	bool ended, damaged;
	struct frame_header header;	/* of the frame at hand */
};

static void free_dir(struct spool_dir *dir)
{
	if (dir->dir_fd >= 0)
		close(dir->dir_fd);
	if (dir->socket >= 0)
		close(dir->socket);
	frame_codec_destroy(dir->codec);
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

/* A segment that is renamed while the directory is read may be met under both its names. */
static void drop_doubles(struct spool_dir *dir)
{
	size_t kept = 0;

	for (size_t i = 0; i < dir->segments; i++)
		if (!kept || dir->segment[kept - 1].sequence != dir->segment[i].sequence)
			dir->segment[kept++] = dir->segment[i];
	dir->segments = kept;
}

static int list(struct spool_dir *dir, struct ringtail_error *error)
{
	int fd = openat(dir->dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), err = 0;
	DIR *stream = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *entry;

	dir->segments = 0;
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
	drop_doubles(dir);
	return 0;
}

/* ---- Its frames ------------------------------------------------------------------------------ */

static void report(struct spool_dir *dir, struct sending *sending, const char *why)
{
	dir->damaged = sending->damaged = true;
	failure_say(dir->messages, "%s/%s is damaged at byte %" PRIu64 ": %s; the rest of it is left out",
		    dir->path, sending->name, sending->offset, why);
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
static size_t read_frame(struct spool_dir *dir, struct sending *sending)
{
	struct frame_header *header = &sending->header;
	enum frame_status status;
	size_t got, body;
	uint32_t crc;

	if (!read_all(sending->file, dir->frame, FRAME_HEADER_BYTES, &got)) {
		report(dir, sending, strerror(errno));
		return 0;
	}
	if (!got)
		return 0;
	status = frame_parse_header(dir->frame, got, FRAME_RAW_BYTES_MAX, header);
	if (status == FRAME_OK) {
		if (!read_all(sending->file, dir->frame + FRAME_HEADER_BYTES, header->body_bytes,
			      &body)) {
			report(dir, sending, strerror(errno));
			return 0;
		}
		if (body < header->body_bytes)
			status = FRAME_SHORT;
	}
	if (status == FRAME_OK) {
		crc = frame_crc32c(0, dir->frame, 12);
		crc = frame_crc32c(crc, dir->frame + FRAME_HEADER_BYTES, header->body_bytes);
		if (crc == header->crc32c)
			return FRAME_HEADER_BYTES + header->body_bytes;
		status = FRAME_BAD_CHECKSUM;
	}
	/* What was being written may end anywhere. */
	if (status != FRAME_SHORT || sending->state != SEGMENT_OPEN)
		report(dir, sending, status == FRAME_SHORT ? "it is cut short" :
							     frame_status_text(status));
	return 0;
}

/* Whether the SegmentEnd at hand says of what is before it what is there. */
static bool check_end(struct spool_dir *dir, struct sending *sending)
{
	Ringtail__V1__SegmentEnd *end = NULL;
	struct arena *arena = NULL;
	const uint8_t *body;
	bool good;

	if (sending->header.raw_bytes <= sizeof(dir->raw) &&
	    frame_open(dir->codec, dir->frame, &sending->header, dir->raw, &body) == FRAME_OK)
		end = unpack(&ringtail__v1__segment_end__descriptor, body,
			     sending->header.raw_bytes, &arena);
	good = end && end->sequence == sending->sequence && end->bytes == sending->offset &&
	       end->crc32c == sending->crc;
	if (!good)
		report(dir, sending, "its end speaks of another segment, or of other bytes");
	if (end)
		arena_destroy(arena);
	return good;
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

/* Of one that is open; false: the reader has had enough. */
static bool send_frames(struct spool_dir *dir, struct sending *sending)
{
	size_t bytes;

	while ((bytes = read_frame(dir, sending))) {
		sending->ended = sending->header.type == FRAME_SEGMENT_END;
		if (sending->ended && !check_end(dir, sending))
			return true;
		if (!send_all(dir->socket, dir->frame, bytes))
			return false;
		dir->given = true;
		dir->gone = false;
		sending->crc = frame_crc32c(sending->crc, dir->frame, bytes);
		sending->offset += bytes;
	}
	return true;
}

/*
 * Opens it by the name it has now: a daemon that goes on writing seals it, or sets it aside.
 * -ENOENT: it has none any more.
 */
static int open_segment(struct spool_dir *dir, struct segment *segment,
			char name[SEGMENT_NAME_BYTES])
{
	static const enum segment_state states[] = {SEGMENT_OPEN, SEGMENT_SEALED, SEGMENT_BAD};
	enum segment_state listed = segment->state;
	int file;

	segment_name_format(name, segment->sequence, listed);
	file = openat(dir->dir_fd, name, O_RDONLY | O_CLOEXEC);
	for (size_t i = 0; file < 0 && errno == ENOENT && i < sizeof(states) / sizeof(*states); i++) {
		segment->state = states[i];
		segment_name_format(name, segment->sequence, segment->state);
		file = openat(dir->dir_fd, name, O_RDONLY | O_CLOEXEC);
	}
	if (file < 0 && errno == ENOENT)
		segment->state = listed;
	return file < 0 ? -errno : file;
}

enum sent { SENT, SENT_GONE, SENT_ENOUGH };

static enum sent send_segment(struct spool_dir *dir, struct segment *segment)
{
	char name[SEGMENT_NAME_BYTES];
	struct sending sending = {.name = name, .sequence = segment->sequence};
	bool reads;

	sending.file = open_segment(dir, segment, name);
	sending.state = segment->state;
	if (sending.file == -ENOENT)
		return SENT_GONE;
	if (sending.file < 0) {
		report(dir, &sending, strerror(-sending.file));
		return SENT;
	}
	if (segment->state == SEGMENT_BAD) {
		dir->damaged = true;
		failure_say(dir->messages, "%s/%s was set aside by ringtaild", dir->path, name);
	}
	reads = send_frames(dir, &sending);
	/* Whole frames, and not all of them. */
	if (reads && !sending.damaged && !sending.ended && segment->state == SEGMENT_SEALED)
		report(dir, &sending, "it has no end");
	close(sending.file);
	return reads ? SENT : SENT_ENOUGH;
}

/* ---- All of them ----------------------------------------------------------------------------- */

/* The head of a segment of no run stands for those that are gone: see intake. */
static bool send_gone(struct spool_dir *dir)
{
	Ringtail__V1__SegmentHead head = RINGTAIL__V1__SEGMENT_HEAD__INIT;
	size_t bytes = ringtail__v1__segment_head__pack(&head, dir->raw);

	/* Nothing came before: then it begins later, as if they had been deleted before. */
	if (!dir->given)
		return true;
	dir->gone = true;
	bytes = frame_seal(dir->codec, FRAME_SEGMENT_HEAD, dir->raw, (uint32_t)bytes, dir->frame);
	return send_all(dir->socket, dir->frame, bytes);
}

/*
 * All that is stored has been read. The newest segment of a daemon that is at work has no end yet, and
 * nothing is wrong with it; of any other, send_segment() has said what was.
 */
static void send_end(struct spool_dir *dir)
{
	Ringtail__V1__Bye bye = RINGTAIL__V1__BYE__INIT;
	size_t bytes;

	bye.reason = "that is all that is stored";
	bye.final = true;
	bytes = ringtail__v1__bye__pack(&bye, dir->raw);
	bytes = frame_seal(dir->codec, FRAME_BYE, dir->raw, (uint32_t)bytes, dir->frame);
	send_all(dir->socket, dir->frame, bytes);
}

/* Where in the list the first segment is that comes after that one. */
static size_t first_after(const struct spool_dir *dir, uint64_t sequence)
{
	size_t i = 0;

	while (i < dir->segments && dir->segment[i].sequence <= sequence)
		i++;
	return i;
}

/*
 * A daemon that goes on writing may delete the oldest while it is read. What is left is listed anew:
 * up to the last segment there was at first, or the next one that there is, whose head tells how much
 * is missing. False: the reader has had enough, or nothing more can be read.
 */
static bool list_anew(struct spool_dir *dir, uint64_t gone, uint64_t *last, unsigned *lists)
{
	struct ringtail_error error;
	size_t next;

	if (++*lists > SPOOL_LISTS_MAX || list(dir, &error)) {
		dir->gone = true;
		return false;
	}
	next = first_after(dir, gone);
	if (next < dir->segments && dir->segment[next].sequence > *last)
		*last = dir->segment[next].sequence;
	return send_gone(dir);
}

/* One that was renamed while the directory was listed may have been met under neither name. */
static bool send_unlisted(struct spool_dir *dir, uint64_t sequence)
{
	struct segment segment = {.sequence = sequence, .state = SEGMENT_SEALED};

	return send_segment(dir, &segment) != SENT_ENOUGH;
}

static void *run(void *context)
{
	struct spool_dir *dir = context;
	uint64_t last = dir->segment[dir->segments - 1].sequence, before = 0;
	unsigned lists = 0;
	size_t i = 0;

	pthread_setname_np(pthread_self(), "tracectl-spool");
	while (i < dir->segments && dir->segment[i].sequence <= last) {
		struct segment *segment = &dir->segment[i];
		enum sent sent;

		if (i && segment->sequence == before + 2 && !send_unlisted(dir, before + 1))
			break;
		before = segment->sequence;
		sent = send_segment(dir, segment);
		if (sent == SENT_ENOUGH ||
		    (sent == SENT_GONE && !list_anew(dir, before, &last, &lists)))
			break;
		i = first_after(dir, before);
	}
	/* No head came that would tell how much is missing. */
	if (dir->gone) {
		dir->damaged = true;
		failure_say(dir->messages, "segments of %s are deleted faster than they can be read; the "
			    "rest is left out", dir->path);
	}
	if (dir->given)
		send_end(dir);
	close(dir->socket);
	dir->socket = -1;
	return NULL;
}

/* Whether there is a first frame. */
static bool comes(int fd)
{
	ssize_t n;
	char byte;

	do
		n = recv(fd, &byte, 1, MSG_PEEK);
	while (n < 0 && errno == EINTR);
	return n > 0;
}

/* One that is deleted meanwhile counts as nothing. */
static uint64_t count_bytes(const struct spool_dir *dir)
{
	char name[SEGMENT_NAME_BYTES];
	struct stat stat_of;
	uint64_t bytes = 0;

	for (size_t i = 0; i < dir->segments; i++) {
		segment_name_format(name, dir->segment[i].sequence, dir->segment[i].state);
		if (fstatat(dir->dir_fd, name, &stat_of, 0) == 0 && stat_of.st_size > 0)
			bytes += (uint64_t)stat_of.st_size;
	}
	return bytes;
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
	dir->codec = frame_codec_create(1);
	dir->dir_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (!dir->path || !dir->codec)
		err = failure_set(error, ENOMEM, "no-memory", "out of memory");
	else if (dir->dir_fd < 0)
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
	dir->bytes = count_bytes(dir);
	err = pthread_create(&dir->thread, NULL, run, dir);
	if (err) {
		close(pair[1]);
		free_dir(dir);
		return failure_set(error, err, "cannot-read", "no thread: %s", strerror(err));
	}
	if (comes(pair[1])) {
		*fd = pair[1];
		*out = dir;
		return 0;
	}
	close(pair[1]);
	if (spool_dir_close(dir))
		return failure_set(error, ENODATA, "nothing-yet", "nothing is stored in %s yet",
				   path);
	return failure_set(error, EBADMSG, "no-frames", "nothing in %s can be read", path);
}

uint64_t spool_dir_bytes(const struct spool_dir *dir)
{
	return dir->bytes;
}

bool spool_dir_close(struct spool_dir *dir)
{
	bool good;

	pthread_join(dir->thread, NULL);
	good = !dir->damaged;
	free_dir(dir);
	return good;
}
