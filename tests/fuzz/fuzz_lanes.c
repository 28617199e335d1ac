/*
 * fuzz_lanes: a stream of several hosts, whatever it is: frames of any lane, Consigns that make no sense, and an end
 * anywhere. Each handle ends, and its host's name can be shown as it is, on a terminal and in JSON.
 *
 * The input is frames: a byte for the type, one for the body's length, and the body; they get right headers. A type of 0
 * is the beginning of a host: its hello and a catalog.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "client/lib/lanes.h"
#include "query/visible.h"
#include "tests/unit/client/maker.h"

#define FRAMES_MAX	64u
#define ITEMS_MAX	1000000u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct maker stream;

static void put_input(const uint8_t *data, size_t size)
{
	for (unsigned frames = 0; size >= 2 && frames < FRAMES_MAX; frames++) {
		size_t bytes = data[1] < size - 2 ? data[1] : size - 2;

		if (!data[0]) {
			maker_hello(&stream, 1, 7);
			maker_catalog(&stream);
		} else {
			maker_raw(&stream, (enum frame_type)data[0], data + 2, bytes);
		}
		data += 2 + bytes;
		size -= 2 + bytes;
	}
}

static void drain(struct ringtail *ringtail, enum ringtail_kind last)
{
	struct ringtail_item item;
	enum ringtail_kind kind;
	unsigned items = 0;

	while ((kind = ringtail_next(ringtail, &item, 0)) < RINGTAIL_TIMEOUT)
		if (++items == ITEMS_MAX)
			abort();
	if (last != RINGTAIL_TIMEOUT && kind != RINGTAIL_END && kind != RINGTAIL_ERROR)
		abort();
}

static void check_host(const char *host)
{
	if (!*host || !visible_is_all(host) || strpbrk(host, "\"\\"))
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct lanes_wanted everything;
	struct ringtail_error error;
	struct lanes *lanes;
	enum lanes_next next;
	size_t lane = 0;
	int fd;

	if (!stream.codec)
		maker_init(&stream);
	stream.size = 0;
	put_input(data, size);
	fd = memfd_create("stream", MFD_CLOEXEC);
	if (write(fd, stream.bytes, stream.size) != (ssize_t)stream.size || lseek(fd, 0, SEEK_SET) != 0 ||
	    lanes_open(fd, "fuzz", &everything, &lanes, &error))
		abort();
	while ((next = lanes_next(lanes, 0, &lane, &error)) == LANES_FRAME) {
		if (lane >= lanes_count(lanes))
			abort();
		drain(lanes_handle(lanes, lane), RINGTAIL_TIMEOUT);
	}
	if (next != LANES_END && next != LANES_FAILED)
		abort();
	for (size_t i = 0; i < lanes_count(lanes); i++) {
		check_host(lanes_host(lanes, i));
		drain(lanes_handle(lanes, i), RINGTAIL_END);
	}
	lanes_close(lanes);
	return 0;
}
