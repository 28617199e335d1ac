/*
 * Ranges that were skipped have no frame: a watermark tells of them, and may be lost on its way to the
 * disk. Whoever reads the files by their own words, as `tracectl read` does, must not find a hole.
 */
#include "tests/unit/daemon/spool_run.h"

#include "proto/frame.h"

static struct faulty_disk faulty;

/* What a reader of the files knows of one ring. */
struct strict_ring {
	bool known, begins;
	uint64_t seq;
};

struct strict {
	struct run *run;
	struct strict_ring ring[RUN_RINGS];
	uint64_t residual, holes, events;
	unsigned watermarks, gaps;
};

static struct strict_ring *ring_of(struct strict *strict, uint32_t cpu)
{
	for (unsigned i = 0; i < RUN_RINGS; i++)
		if (run_cpu_of[i] == cpu)
			return &strict->ring[i];
	fail_msg("CPU %u", cpu);
	return NULL;
}

static void take_range(struct strict *strict, uint32_t cpu, uint64_t first_seq, uint64_t end_seq)
{
	struct strict_ring *ring = ring_of(strict, cpu);

	if (ring->known && first_seq > ring->seq)
		strict->residual += first_seq - ring->seq;
	if (ring->known && first_seq < ring->seq && !ring->begins)
		strict->residual += (ring->seq < end_seq ? ring->seq : end_seq) - first_seq;
	if (!ring->known || end_seq > ring->seq)
		*ring = (struct strict_ring){.known = true, .seq = end_seq};
}

/* What was given up for lost may have come to the disk all the same. */
static void take_gap(struct strict *strict, const Ringtail__V1__Gap *gap)
{
	const struct strict_ring *ring = ring_of(strict, gap->cpu);
	uint64_t first_seq = gap->first_seq;

	if (ring->known && first_seq < ring->seq)
		first_seq = ring->seq < gap->end_seq ? ring->seq : gap->end_seq;
	strict->gaps++;
	if (first_seq < gap->end_seq)
		take_range(strict, gap->cpu, first_seq, gap->end_seq);
}

static void take_watermark(struct strict *strict, const Ringtail__V1__Watermark *watermark)
{
	strict->watermarks++;
	for (size_t i = 0; i < watermark->n_position; i++) {
		const Ringtail__V1__Position *position = watermark->position[i];
		struct strict_ring *ring = ring_of(strict, position->cpu);

		if (ring->known && position->seq > ring->seq &&
		    position->seq - ring->seq > position->skipped)
			strict->residual += position->seq - ring->seq - position->skipped;
		if (!ring->known || position->seq > ring->seq)
			ring->seq = position->seq;
		ring->known = true;
	}
}

/* A segment begins where the one before has told to; where it does not, that is a hole with a name. */
static void take_start(struct strict *strict, const Ringtail__V1__Cursor *start)
{
	for (size_t i = 0; start && i < start->n_position; i++) {
		struct strict_ring *ring = ring_of(strict, start->position[i]->cpu);

		if (ring->known && ring->seq < start->position[i]->seq)
			strict->holes += start->position[i]->seq - ring->seq;
		if (!ring->known || ring->seq < start->position[i]->seq)
			ring->seq = start->position[i]->seq;
		ring->known = ring->begins = true;
	}
}

static void take_message(struct strict *strict, uint8_t type, const uint8_t *body, size_t bytes)
{
	Ringtail__V1__Subscribed *subscribed;
	Ringtail__V1__Watermark *watermark;
	Ringtail__V1__Batch *batch;
	Ringtail__V1__Gap *gap;

	switch (type) {
	case FRAME_BATCH:
		batch = ringtail__v1__batch__unpack(NULL, bytes, body);
		take_range(strict, batch->cpu, batch->first_seq, batch->end_seq);
		strict->events += batch->events;
		ringtail__v1__batch__free_unpacked(batch, NULL);
		break;
	case FRAME_GAP:
		gap = ringtail__v1__gap__unpack(NULL, bytes, body);
		take_gap(strict, gap);
		ringtail__v1__gap__free_unpacked(gap, NULL);
		break;
	case FRAME_WATERMARK:
		watermark = ringtail__v1__watermark__unpack(NULL, bytes, body);
		take_watermark(strict, watermark);
		ringtail__v1__watermark__free_unpacked(watermark, NULL);
		break;
	case FRAME_SUBSCRIBED:
		subscribed = ringtail__v1__subscribed__unpack(NULL, bytes, body);
		take_start(strict, subscribed->start);
		ringtail__v1__subscribed__free_unpacked(subscribed, NULL);
		break;
	default:
		break;
	}
}

static void read_file(struct strict *strict, const struct faulty_file *file)
{
	static uint8_t raw[FRAME_RAW_BYTES_MAX];
	struct frame_header header;
	const uint8_t *body;

	for (size_t at = 0; at < file->n; at += FRAME_HEADER_BYTES + header.body_bytes) {
		if (frame_parse_header(file->bytes + at, file->n - at, sizeof(raw), &header) !=
			    FRAME_OK ||
		    frame_open(strict->run->codec, file->bytes + at, &header, raw, &body) !=
			    FRAME_OK)
			return;		/* torn by the disk that failed */
		take_message(strict, header.type, body, header.raw_bytes);
	}
}

static int by_path(const void *a, const void *b)
{
	return strcmp(((const struct faulty_name *)a)->path, ((const struct faulty_name *)b)->path);
}

/* Every segment, in order. */
static void read_strictly(struct run *run, struct strict *strict)
{
	static struct faulty_name name[FAULTY_FILES_MAX];
	unsigned n = faulty.names.n;

	*strict = (struct strict){.run = run};
	memcpy(name, faulty.names.name, n * sizeof(name[0]));
	qsort(name, n, sizeof(name[0]), by_path);
	for (unsigned i = 0; i < n; i++)
		if (name[i].file >= 0 && (strstr(name[i].path, ".seg") || strstr(name[i].path, ".open")))
			read_file(strict, &faulty.file[name[i].file]);
}

static void append(struct run *run, struct frame_ref *frame)
{
	run_now_ns += 300000000;
	spool_append(run->spool, frame);
	disk_thread_settle(run->thread);
}

/* A watermark as the stream makes it: of what was skipped since the one before. */
static struct frame_ref *watermark(struct run *run, uint64_t skipped)
{
	Ringtail__V1__Watermark message = RINGTAIL__V1__WATERMARK__INIT;
	Ringtail__V1__Position position[RUN_RINGS], *list[RUN_RINGS];
	struct frame_ref *frame;

	for (unsigned i = 0; i < RUN_RINGS; i++) {
		ringtail__v1__position__init(&position[i]);
		position[i].cpu = run_cpu_of[i];
		position[i].seq = run->seq[i];
		position[i].skipped = i ? skipped : 0;
		list[i] = &position[i];
	}
	message.time_ns = run_now_ns;
	message.position = list;
	message.n_position = RUN_RINGS;
	frame = run_pack(run, FRAME_WATERMARK, &message.base);
	frame->time_ns = run_now_ns;
	return frame;
}

/* Ring 0 has events, ring 1 nothing but what others asked for. */
static void steps(struct run *run, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		append(run, run_batch(run, 0, 5, 1));
		append(run, run_quiet_range(run, 1, 3));
		append(run, watermark(run, 3));
	}
}

static void begin(struct run *run, enum spool_durability durability, uint64_t segment_bytes)
{
	faulty_disk_init(&faulty, 1);
	run_init(run, &faulty, durability);
	run->config.segment_bytes = segment_bytes;
	run_open(run);
}

static void end(struct run *run)
{
	struct spool_stat stat;
	struct strict strict;
	uint64_t lost;

	run_check_ledger(run, &stat, &lost);
	assert_int_equal(stat.in_flight, 0);
	read_strictly(run, &strict);
	if (strict.residual || strict.holes)
		print_message("operation %llu, errno %d%s: %llu events, %u watermarks, %u gaps\n",
			      (unsigned long long)faulty.failed_at, faulty.fail_errno,
			      faulty.fail_for_ever ? " until later" : "",
			      (unsigned long long)strict.events, strict.watermarks, strict.gaps);
	assert_int_equal(strict.residual, 0);
	assert_int_equal(strict.holes, 0);
	assert_int_equal(strict.ring[0].seq, run->seq[0]);
	assert_int_equal(strict.ring[1].seq, run->seq[1]);
	run_fini(run);
	faulty_disk_fini(&faulty);
}

static void all_is_well(void **state)
{
	struct run run;

	(void)state;
	begin(&run, SPOOL_WRITTEN, 1 << 20);
	steps(&run, 10);
	end(&run);
}

/* From the operation `at` on, once or until some time later. */
static void fail_for_a_time(enum spool_durability durability, uint64_t segment_bytes, uint64_t at,
			    int err, bool until_later)
{
	struct run run;

	begin(&run, durability, segment_bytes);
	faulty.fail_at = faulty.failed_at = faulty.operations + at;
	faulty.fail_errno = err;
	faulty.fail_for_ever = until_later;
	steps(&run, 8);
	faulty.fail_at = UINT64_MAX;
	run_now_ns += 600 * NS_PER_S;
	steps(&run, 4);
	end(&run);
}

static void the_disk_fails_for_a_time(void **state)
{
	static const uint64_t segment_bytes[] = {1500, 1 << 20};
	static const int errors[] = {EIO, ENOSPC, 0};

	(void)state;
	for (uint64_t at = 0; at < 60; at++)
		for (unsigned i = 0; i < 2; i++)
			for (unsigned j = 0; j < 3; j++)
				for (unsigned later = 0; later < 2; later++) {
					fail_for_a_time(SPOOL_WRITTEN, segment_bytes[i], at,
							errors[j], later);
					fail_for_a_time(SPOOL_FSYNC, segment_bytes[i], at,
							errors[j], later);
				}
}

/* It takes nothing new until what is old may go. */
static void the_spool_is_full_for_a_time(void **state)
{
	struct spool_stat stat;
	struct run run;

	(void)state;
	faulty_disk_init(&faulty, 1);
	run_init(&run, &faulty, SPOOL_WRITTEN);
	run.config.policy = SPOOL_DROP_NEW;
	run.config.size_bytes = 12000;
	run_open(&run);
	steps(&run, 40);
	spool_stat(run.spool, &stat);
	assert_int_not_equal(stat.lost[RINGTAIL__V1__LOSS_REASON__REASON_SPOOL_FULL], 0);
	run_now_ns += run.config.age_ns;
	for (unsigned i = 0; i < 20; i++) {
		run_now_ns += 300000000;
		append(&run, watermark(&run, 0));
	}
	steps(&run, 4);
	end(&run);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_is_well),
		cmocka_unit_test(the_disk_fails_for_a_time),
		cmocka_unit_test(the_spool_is_full_for_a_time),
	};

	run_quiet();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
