/*
 * fuzz_segment: arbitrary bytes as the files of a spool, through recovery and reading back.
 * Whatever they say, each CPU's numbers come without a hole and none twice, and the files that
 * recovery left are recovered to the same once more.
 *
 * The first byte: bit 0, the file is a sealed one; bit 1, frames get right checksums, or the fuzzer
 * would never pass them; bit 2, the file is cut in two segments;
 * bit 3, it is all done once more.
 */
#include <endian.h>
#include <isa-l/crc.h>

#include "daemon/base/log.h"
#include "daemon/spool/read.h"
#include "proto/limits.h"
#include "tests/lib/faulty_disk.h"

#define RINGS		2
#define READS_MAX	100000
#define FRAMES		4096

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct faulty_disk faulty;

static void no_log(enum log_level level, const char *code, const char *text)
{
	(void)level, (void)code, (void)text;
}

static uint64_t no_time(void)
{
	return 0;
}

static void repair(uint8_t *bytes, size_t n)
{
	struct frame_header header;
	size_t at = 0;

	while (frame_parse_header(bytes + at, n - at, FRAME_RAW_BYTES_MAX, &header) == FRAME_OK &&
	       header.body_bytes <= n - at - FRAME_HEADER_BYTES) {
		uint32_t crc = crc32_iscsi(bytes + at, 12, ~0u);

		crc = ~crc32_iscsi(bytes + at + FRAME_HEADER_BYTES, (int)header.body_bytes, crc);
		crc = htole32(crc);
		memcpy(bytes + at + 12, &crc, sizeof(crc));
		at += FRAME_HEADER_BYTES + header.body_bytes;
	}
}

static void put_file(const char *path, const uint8_t *bytes, size_t n)
{
	int file = faulty_open(&faulty.disk, path, O_WRONLY | O_CREAT | O_EXCL);

	if (faulty_write(&faulty.disk, file, bytes, n) != (ssize_t)n)
		abort();
	faulty_close(&faulty.disk, file);
}

static void put_files(uint8_t flags, uint8_t *bytes, size_t n)
{
	const char *first = flags & 1 ? "spool/x/0000000000000001.seg" :
					"spool/x/0000000000000001.open";
	size_t cut = flags & 4 ? n / 2 : n;

	if (flags & 2)
		repair(bytes, n);
	put_file(first, bytes, cut);
	if (cut < n)
		put_file("spool/x/0000000000000002.open", bytes + cut, n - cut);
}

/* One store is made: its buffers take longer than all else. It is put back to how it was then. */
static struct spool_store *store;
static struct spool_store as_made;

static void make_store(void)
{
	static const uint32_t cpu_of[RINGS] = {0, 1};
	struct spool_store_config config = {
		.name = "x",
		.durability = SPOOL_WRITTEN,
		.size_bytes = 1 << 30,
		.age_ns = UINT64_MAX / 4,
		.segment_bytes = 1 << 20,
		.rings = RINGS,
		.cpu_of = cpu_of,
	};

	if (spool_store_create(&config, &faulty.disk, &store) != 0)
		abort();
	as_made = *store;
}

static void open_store(void)
{
	struct spool_turn turn = {.now_ns = 1, .realtime_ns = 1};

	*store = as_made;
	store->told->n = store->quiet->n = store->told_durable->n = store->quiet_durable->n = 0;
	spool_store_turn(store, &turn);
	spool_extents_destroy(turn.extents);
	if (turn.status != SPOOL_TURN_OK || !turn.recovered)
		abort();
}

static void close_store(void)
{
	if (store->current)
		spool_segment_close(store);
	while (store->segments)
		spool_store_drop(store, store->segment[store->segments - 1]);
	free(store->segment);
	free(store->held);
}

static void check_frame(const struct frame_ref *frame, struct cursor *at)
{
	struct position *mark;

	/* Before the frames of an epoch come its places. */
	if (frame->type == FRAME_SUBSCRIBED)
		at->n = 0;
	if (frame->type != FRAME_BATCH && frame->type != FRAME_GAP)
		return;
	mark = cursor_find(at, frame->cpu);
	if (frame->end_seq < frame->first_seq)
		abort();
	/* A loss of unknown size stands behind all that was given, or skipped. */
	if (frame->type == FRAME_GAP && frame->end_seq == frame->first_seq) {
		if (mark && frame->end_seq < mark->seq)
			abort();
		return;
	}
	/* Of another epoch, ranges without a frame are not given; an epoch of ours has all. */
	if (mark && (!frame_ref_is_earlier(frame) ? frame->end_seq <= mark->seq && frame->bytes :
						 frame->end_seq <= mark->seq))
		abort();
	cursor_put(at, frame->cpu, frame->end_seq);
}

static uint64_t read_all(void)
{
	struct spool_read *read = spool_read_create(NULL, 0);
	struct cursor *at = cursor_create(CURSOR_POSITIONS_MAX);
	static struct frame_ref *frame[FRAMES];
	uint64_t frames = 0, reads = 0;
	bool end = false;
	unsigned n;

	while (!end) {
		if (++reads > READS_MAX)
			abort();
		end = spool_read_next(read, store, 4096, frame, FRAMES, &n);
		for (unsigned i = 0; i < n; i++) {
			check_frame(frame[i], at);
			frame_ref_put(frame[i]);
		}
		frames += n;
	}
	free(at);
	spool_read_destroy(read);
	return frames;
}

static void forget_files(void)
{
	for (unsigned i = 0; i < faulty.files; i++) {
		free(faulty.file[i].bytes);
		free(faulty.file[i].durable);
		faulty.file[i] = (struct faulty_file){0};
	}
	faulty.files = faulty.changes = faulty.names.n = faulty.durable.n = 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct log_sink sink = {.write = no_log, .now_ns = no_time};
	uint64_t frames;
	uint8_t *bytes;
	bool again;

	if (!faulty.disk.ops) {
		log_set_sink(&sink);
		faulty_disk_init(&faulty, 1);
		make_store();
	}
	if (!size)
		return 0;
	again = data[0] & 8;
	bytes = malloc(size);
	if (!bytes)
		abort();
	memcpy(bytes, data + 1, size - 1);
	put_files(data[0], bytes, size - 1);
	free(bytes);
	open_store();
	read_all();
	close_store();
	/* What damage was found is set aside now: from here on all is well. */
	if (again) {
		open_store();
		frames = read_all();
		close_store();
		open_store();
		if (read_all() != frames)
			abort();
		close_store();
	}
	forget_files();
	return 0;
}
