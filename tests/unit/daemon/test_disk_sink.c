/*
 * A relay's own disk: every operation on it fails, once and for ever, and before every one of them the power is
 * cut or the relay killed. Whatever was confirmed is there for the next one.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "daemon/base/clock.h"
#include "daemon/base/limits.h"
#include "daemon/relay/disk_sink.h"
#include "proto/message.h"
#include "proto/segment.h"
#include "tests/lib/faulty_disk.h"

#define HOSTS	2u
#define ITEMS	4u		/* of each host, in two visits of the relay */
#define CPU	3u

static struct faulty_disk faulty;
static struct frame_codec *codec;

struct shipment {
	struct relay_item item;
	struct cursor *upto;
	unsigned confirmed;
	int err;
};

struct run_of {
	struct event_base *base;
	struct disk_thread *thread;
	struct relay_sink *sink;
	struct relay_opening *opening[HOSTS];
	struct shipment shipment[HOSTS][ITEMS];
};

static const char *const host_name[HOSTS] = {"web-1", "web-2"};

static void on_confirmed(struct relay_item *item, int err)
{
	struct shipment *shipment = (struct shipment *)item;

	shipment->confirmed++;
	shipment->err = err;
	relay_opening_put(item->opening);
	item->opening = NULL;
}

static struct frame_ref *pack(enum frame_type type, const ProtobufCMessage *message)
{
	struct frame_ref *frame = frame_ref_pack(codec, type, message);

	assert_non_null(frame);
	return frame;
}

static struct relay_opening *make_opening(uint64_t epoch)
{
	struct relay_opening *opening = calloc(1, sizeof(*opening));
	Ringtail__V1__ServerHello hello = RINGTAIL__V1__SERVER_HELLO__INIT;
	Ringtail__V1__Catalog catalog = RINGTAIL__V1__CATALOG__INIT;
	Ringtail__V1__Subscribed subscribed = RINGTAIL__V1__SUBSCRIBED__INIT;

	assert_non_null(opening);
	opening->refs = 1;
	opening->run = (struct run){.boot_id = {9}, .epoch = epoch};
	hello.boot_id.data = opening->run.boot_id;
	hello.boot_id.len = sizeof(opening->run.boot_id);
	hello.epoch = epoch;
	opening->hello = pack(FRAME_SERVER_HELLO, &hello.base);
	opening->catalog = pack(FRAME_CATALOG, &catalog.base);
	opening->subscribed = pack(FRAME_SUBSCRIBED, &subscribed.base);
	opening->start = cursor_create(1);
	assert_non_null(opening->start);
	cursor_append(opening->start, CPU, 100);
	return opening;
}

/* The i-th frame of a host tells of the attempts 100 + 10 i up to ten more. */
static void forward(struct run_of *run, unsigned host, unsigned i)
{
	struct shipment *shipment = &run->shipment[host][i];
	uint64_t first = 100 + 10 * i + 1000 * host;

	shipment->upto = cursor_create(1);
	assert_non_null(shipment->upto);
	cursor_append(shipment->upto, CPU, first + 10);
	shipment->item = (struct relay_item){
		.host = host_name[host],
		.opening = relay_opening_get(run->opening[host]),
		.frame = frame_ref_gap(codec, CPU, first, first + 10, 0, 1, 0),
		.upto = shipment->upto,
		.confirmed = on_confirmed,
	};
	assert_non_null(shipment->item.frame);
	relay_sink_forward(run->sink, &shipment->item);
}

static uint64_t skipped_ns;

uint64_t __real_clock_monotonic(void);
uint64_t __wrap_clock_monotonic(void);
uint64_t __wrap_clock_monotonic(void)
{
	return __real_clock_monotonic() + skipped_ns;
}

/* The disk, with something that happens while it is at work. */
static struct disk_ops ops;
static const struct disk_ops *real_ops;

static void watch_disk(void)
{
	real_ops = faulty.disk.ops;
	ops = *real_ops;
	faulty.disk.ops = &ops;
}

static void begin(struct run_of *run, uint64_t host_bytes, uint64_t hosts_bytes,
		  uint64_t segment_bytes)
{
	struct disk_sink_config config = {.host_bytes = host_bytes, .hosts_bytes = hosts_bytes,
					  .segment_bytes = segment_bytes};
	struct error error;

	run->base = config.base = event_base_new();
	assert_non_null(run->base);
	assert_int_equal(disk_thread_create(run->base, &faulty.disk, false, &run->thread, &error), 0);
	config.thread = run->thread;
	assert_int_equal(disk_sink_create(&config, &run->sink, &error), 0);
}

static void end(struct run_of *run)
{
	relay_sink_destroy(run->sink);
	for (unsigned host = 0; host < HOSTS; host++)
		relay_opening_put(run->opening[host]);
	disk_thread_destroy(run->thread);
	event_base_free(run->base);
}

/* A relay starts, gets items `from` to `to` of each host, over a new connection, and ends. */
static void visit(struct run_of *run, unsigned from, unsigned to)
{
	begin(run, 1 << 20, 1 << 20, 400);
	for (unsigned host = 0; host < HOSTS; host++)
		run->opening[host] = make_opening(5);
	for (unsigned i = from; i < to; i++)
		for (unsigned host = 0; host < HOSTS; host++)
			forward(run, host, i);
	end(run);
}

static void script(struct run_of *run)
{
	memset(run, 0, sizeof(*run));
	visit(run, 0, ITEMS / 2);
	visit(run, ITEMS / 2, ITEMS);
}

static void free_items(struct run_of *run)
{
	for (unsigned host = 0; host < HOSTS; host++)
		for (unsigned i = 0; i < ITEMS; i++) {
			frame_ref_put(run->shipment[host][i].item.frame);
			free(run->shipment[host][i].upto);
		}
}

/* ---- What is there ---------------------------------------------------------------------------- */

struct found {
	const char *host;
	const struct frame_ref *frame;
	bool there;
};

/* Up to the first frame that is none, as a reader reads. */
static void look_into(void *context, const char *name, uint64_t bytes)
{
	struct found *found = context;
	enum segment_state state;
	char path[128], *text;
	uint64_t sequence;
	size_t n, at = 0;

	(void)bytes;
	if (!segment_name_parse(name, &sequence, &state))
		return;
	snprintf(path, sizeof(path), "hosts/%s/%s", found->host, name);
	assert_int_equal(disk_file_read(&faulty.disk, path, 1 << 20, &text, &n), 0);
	while (at < n) {
		uint8_t raw[4096];
		const uint8_t *body;
		struct frame_header header;

		if (frame_parse_header((uint8_t *)text + at, n - at, sizeof(raw), &header) != FRAME_OK ||
		    n - at < FRAME_HEADER_BYTES + header.body_bytes ||
		    frame_open(codec, (uint8_t *)text + at, &header, raw, &body) != FRAME_OK)
			break;
		if (header.type == found->frame->type &&
		    memcmp(text + at, found->frame->data, found->frame->bytes) == 0)
			found->there = true;
		at += FRAME_HEADER_BYTES + header.body_bytes;
	}
	free(text);
}

static bool is_there(const char *host, const struct frame_ref *frame)
{
	struct found found = {.host = host, .frame = frame};
	char path[64];

	snprintf(path, sizeof(path), "hosts/%s", host);
	faulty.disk.ops->list(&faulty.disk, path, look_into, &found);
	return found.there;
}

/* Each was confirmed once; so many as stored, and all of these are there. */
static unsigned check(const struct run_of *run)
{
	unsigned stored = 0;

	for (unsigned host = 0; host < HOSTS; host++)
		for (unsigned i = 0; i < ITEMS; i++) {
			const struct shipment *shipment = &run->shipment[host][i];

			assert_int_equal(shipment->confirmed, 1);
			if (shipment->err)
				continue;
			stored++;
			assert_true(is_there(host_name[host], shipment->item.frame));
		}
	return stored;
}

static uint64_t count_operations(void)
{
	struct run_of run;

	faulty_disk_init(&faulty, 1);
	script(&run);
	assert_int_equal(check(&run), HOSTS * ITEMS);
	free_items(&run);
	faulty_disk_fini(&faulty);
	return faulty.operations;
}

/* ---- Tests ------------------------------------------------------------------------------------ */

static void what_is_confirmed_survives_each_failure(void **state)
{
	static const struct {
		int err;
		bool for_ever;
	} fault[] = {{EIO, false}, {ENOSPC, true}, {0, false}};
	uint64_t operations = count_operations();

	(void)state;
	assert_true(operations > 20);
	print_message("%llu operations\n", (unsigned long long)operations);
	for (uint64_t at = 0; at < operations; at++)
		for (unsigned i = 0; i < sizeof(fault) / sizeof(fault[0]); i++) {
			struct run_of run;

			faulty_disk_init(&faulty, at);
			faulty.fail_at = at;
			faulty.fail_errno = fault[i].err;
			faulty.fail_for_ever = fault[i].for_ever;
			script(&run);
			faulty_disk_cut(&faulty, FAULTY_DROP);
			check(&run);
			free_items(&run);
			faulty_disk_fini(&faulty);
		}
}

static void what_is_confirmed_survives_a_power_cut(void **state)
{
	static const enum faulty_cut how[] = {FAULTY_DROP, FAULTY_TEAR};
	uint64_t operations = count_operations();

	(void)state;
	for (uint64_t at = 0; at < operations; at++)
		for (unsigned i = 0; i < sizeof(how) / sizeof(how[0]); i++) {
			struct run_of run, after = {0};

			faulty_disk_init(&faulty, at);
			faulty.cut_at = at;
			script(&run);
			faulty_disk_cut(&faulty, how[i]);
			check(&run);
			/* The next relay stores what comes again, beside what is there. */
			visit(&after, 0, ITEMS);
			assert_int_equal(check(&after), HOSTS * ITEMS);
			check(&run);
			free_items(&run);
			free_items(&after);
			faulty_disk_fini(&faulty);
		}
}

static void a_host_that_floods_loses_its_own_oldest(void **state)
{
	struct disk_sink_stat stat;
	struct run_of run = {0}, again = {0};

	(void)state;
	faulty_disk_init(&faulty, 1);
	begin(&run, 1 << 20, 800, 100);
	for (unsigned host = 0; host < HOSTS; host++)
		run.opening[host] = make_opening(5);
	forward(&run, 1, 0);
	for (unsigned i = 0; i < ITEMS; i++)
		forward(&run, 0, i);
	end(&run);
	/* The next relay finds what is there. */
	begin(&again, 1 << 20, 800, 100);
	disk_thread_settle(again.thread);
	disk_sink_stat(again.sink, &stat);
	assert_int_equal(stat.hosts, 2);
	assert_in_range(stat.bytes, 1, 800);
	end(&again);
	assert_true(is_there(host_name[1], run.shipment[1][0].item.frame));
	assert_false(is_there(host_name[0], run.shipment[0][0].item.frame));
	assert_true(is_there(host_name[0], run.shipment[0][ITEMS - 1].item.frame));
	free_items(&run);
	faulty_disk_fini(&faulty);
}

/* ---- While a job runs -------------------------------------------------------------------------- */

static struct run_of *at_work;

static int fail_with_more_behind(struct disk *disk, int file)
{
	struct run_of *run = at_work;

	at_work = NULL;
	if (!run)
		return real_ops->sync(disk, file);
	forward(run, 0, 2);
	forward(run, 0, 3);
	return -EIO;
}

static void what_waits_behind_a_failure_is_not_stored(void **state)
{
	struct run_of run = {0};

	(void)state;
	faulty_disk_init(&faulty, 1);
	watch_disk();
	ops.sync = fail_with_more_behind;
	begin(&run, 1 << 20, 1 << 20, 400);
	for (unsigned host = 0; host < HOSTS; host++)
		run.opening[host] = make_opening(5);
	at_work = &run;
	forward(&run, 0, 0);
	forward(&run, 0, 1);
	forward(&run, 1, 0);
	end(&run);
	for (unsigned i = 0; i < ITEMS; i++) {
		assert_int_equal(run.shipment[0][i].confirmed, 1);
		assert_int_equal(run.shipment[0][i].err, -EIO);
		assert_false(i > 1 && is_there(host_name[0], run.shipment[0][i].item.frame));
	}
	/* The other host is none the worse for it. */
	assert_int_equal(run.shipment[1][0].confirmed, 1);
	assert_int_equal(run.shipment[1][0].err, 0);
	free_items(&run);
	faulty_disk_fini(&faulty);
}

static int take_long(struct disk *disk, int file)
{
	skipped_ns += RELAY_END_NS + 1;
	return real_ops->sync(disk, file);
}

static void an_end_waits_for_a_slow_disk_for_so_long(void **state)
{
	struct run_of run = {0};

	(void)state;
	faulty_disk_init(&faulty, 1);
	watch_disk();
	ops.sync = take_long;
	begin(&run, 1 << 20, 1 << 20, 1 << 10);
	for (unsigned host = 0; host < HOSTS; host++)
		run.opening[host] = make_opening(5);
	for (unsigned host = 0; host < HOSTS; host++)
		for (unsigned i = 0; i < ITEMS; i++)
			forward(&run, host, i);
	end(&run);
	for (unsigned i = 0; i < ITEMS; i++) {
		assert_int_equal(run.shipment[0][i].err, 0);
		assert_true(is_there(host_name[0], run.shipment[0][i].item.frame));
		assert_int_equal(run.shipment[1][i].confirmed, 1);
		assert_int_equal(run.shipment[1][i].err, -ECANCELED);
	}
	skipped_ns = 0;
	free_items(&run);
	faulty_disk_fini(&faulty);
}

static uint64_t most_used;

static ssize_t measure_write(struct disk *disk, int file, const void *bytes, size_t n)
{
	ssize_t written = real_ops->write(disk, file, bytes, n);

	if (faulty_used(&faulty) > most_used)
		most_used = faulty_used(&faulty);
	return written;
}

/* Each frame ends a segment, which has less than SEGMENT bytes. */
static void check_bound(uint64_t host_bytes, uint64_t hosts_bytes, uint64_t bound)
{
	enum { SEGMENT = 260 };
	struct run_of run = {0};

	faulty_disk_init(&faulty, 1);
	watch_disk();
	ops.write = measure_write;
	most_used = 0;
	begin(&run, host_bytes, hosts_bytes, 1);
	for (unsigned host = 0; host < HOSTS; host++)
		run.opening[host] = make_opening(5);
	for (unsigned i = 0; i < ITEMS; i++)
		forward(&run, 0, i);
	end(&run);
	for (unsigned i = 0; i < ITEMS; i++)
		assert_int_equal(run.shipment[0][i].err, 0);
	assert_true(is_there(host_name[0], run.shipment[0][ITEMS - 1].item.frame));
	assert_in_range(most_used, 1, bound + SEGMENT);
	free_items(&run);
	faulty_disk_fini(&faulty);
}

static void the_bounds_hold_inside_a_job(void **state)
{
	(void)state;
	check_bound(300, 1 << 20, 300);
	check_bound(1 << 20, 300, 300);
}

/* ---- What a file is when it is done ----------------------------------------------------------- */

/* A visit that is not ended yet: what it forwards is stored when `end` returns, or by settle(). */
static void begin_with_openings(struct run_of *run, uint64_t host_bytes, uint64_t hosts_bytes,
				uint64_t segment_bytes)
{
	memset(run, 0, sizeof(*run));
	begin(run, host_bytes, hosts_bytes, segment_bytes);
	for (unsigned host = 0; host < HOSTS; host++)
		run->opening[host] = make_opening(5 + host);
}

static void settle(struct run_of *run, unsigned host, unsigned i)
{
	while (!run->shipment[host][i].confirmed)
		event_base_loop(run->base, EVLOOP_ONCE);
}

static void finish(struct run_of *run)
{
	free_items(run);
	faulty_disk_fini(&faulty);
}

static void what_is_sealed_amid_a_job_is_synced(void **state)
{
	struct run_of run;

	(void)state;
	faulty_disk_init(&faulty, 1);
	begin_with_openings(&run, 1 << 20, 1 << 20, 1);
	for (unsigned host = 0; host < HOSTS; host++)
		for (unsigned i = 0; i < ITEMS; i++)
			forward(&run, host, i);
	end(&run);
	faulty_disk_cut(&faulty, FAULTY_DROP);
	assert_int_equal(check(&run), HOSTS * ITEMS);
	finish(&run);
}

/* The host's first file, by its name there: its last frame. */
struct ended {
	const char *host;
	enum segment_state state;
	Ringtail__V1__SegmentEnd *end;
	uint64_t at;			/* bytes before that frame */
	uint32_t crc;			/* of these */
};

static void look_for_end(void *context, const char *name, uint64_t bytes)
{
	struct ended *ended = context;
	char path[128], *text;
	uint64_t sequence;
	size_t n, at = 0;

	(void)bytes;
	assert_true(segment_name_parse(name, &sequence, &ended->state));
	assert_int_equal(sequence, 1);
	snprintf(path, sizeof(path), "hosts/%s/%s", ended->host, name);
	assert_int_equal(disk_file_read(&faulty.disk, path, 1 << 20, &text, &n), 0);
	while (at < n) {
		const uint8_t *frame = (uint8_t *)text + at, *body;
		struct frame_header header;
		uint8_t raw[4096];

		assert_int_equal(frame_parse_header(frame, n - at, sizeof(raw), &header), FRAME_OK);
		assert_int_equal(frame_open(codec, frame, &header, raw, &body), FRAME_OK);
		if (header.type == FRAME_SEGMENT_END) {
			ended->at = at;
			ended->crc = frame_crc32c(0, text, at);
			ended->end = (void *)message_unpack(&ringtail__v1__segment_end__descriptor, NULL, body,
							    header.raw_bytes);
		}
		at += FRAME_HEADER_BYTES + header.body_bytes;
	}
	free(text);
}

static struct ended read_end(const char *host)
{
	struct ended ended = {.host = host};
	char path[64];

	snprintf(path, sizeof(path), "hosts/%s", host);
	assert_int_equal(faulty.disk.ops->list(&faulty.disk, path, look_for_end, &ended), 0);
	assert_int_equal(ended.state, SEGMENT_SEALED);
	assert_non_null(ended.end);
	assert_int_equal(ended.end->bytes, ended.at);
	assert_int_equal(ended.end->crc32c, ended.crc);
	return ended;
}

static void forward_frame(struct run_of *run, unsigned host, unsigned i, struct relay_opening *opening,
			  struct frame_ref *frame)
{
	struct shipment *shipment = &run->shipment[host][i];

	shipment->upto = cursor_create(1);
	cursor_append(shipment->upto, CPU, 110);
	shipment->item = (struct relay_item){
		.host = host_name[host],
		.opening = relay_opening_get(opening),
		.frame = frame,
		.upto = shipment->upto,
		.confirmed = on_confirmed,
	};
	relay_sink_forward(run->sink, &shipment->item);
}

static void forward_bye(struct run_of *run, unsigned host, unsigned i, struct relay_opening *opening)
{
	Ringtail__V1__Bye bye = RINGTAIL__V1__BYE__INIT;

	forward_frame(run, host, i, opening, pack(FRAME_BYE, &bye.base));
}

static void forward_watermark(struct run_of *run, unsigned host, unsigned i, uint64_t time_ns)
{
	Ringtail__V1__Watermark watermark = RINGTAIL__V1__WATERMARK__INIT;
	struct frame_ref *frame = pack(FRAME_WATERMARK, &watermark.base);

	frame->time_ns = time_ns;
	forward_frame(run, host, i, run->opening[host], frame);
}

/* With what it says at its end: a reader trusts a file whose name says that it is whole. */
static void a_run_that_ended_is_sealed_over_a_power_cut(void **state)
{
	struct ended ended;
	struct run_of run;

	(void)state;
	faulty_disk_init(&faulty, 1);
	begin_with_openings(&run, 1 << 20, 1 << 20, 1 << 20);
	forward_watermark(&run, 0, 0, 1000);
	forward(&run, 0, 1);
	run.shipment[0][1].item.frame->events = 7;
	forward_watermark(&run, 0, 2, 2000);
	forward_bye(&run, 0, 3, run.opening[0]);
	end(&run);
	faulty_disk_cut(&faulty, FAULTY_DROP);
	ended = read_end(host_name[0]);
	assert_true(ended.end->final);
	assert_int_equal(ended.end->frames, 3);
	assert_int_equal(ended.end->events, 7);
	assert_int_equal(ended.end->first_time_ns, 1000);
	assert_int_equal(ended.end->last_time_ns, 2000);
	assert_int_equal(ended.end->end->n_position, 1);
	assert_int_equal(ended.end->end->position[0]->seq, 120);
	protobuf_c_message_free_unpacked(&ended.end->base, NULL);
	finish(&run);
}

static void the_end_of_another_stream_makes_no_file_final(void **state)
{
	struct ended ended;
	struct run_of run;

	(void)state;
	faulty_disk_init(&faulty, 1);
	begin_with_openings(&run, 1 << 20, 1 << 20, 1 << 20);
	forward(&run, 0, 0);
	forward_bye(&run, 0, 1, run.opening[1]);
	end(&run);
	ended = read_end(host_name[0]);
	assert_false(ended.end->final);
	protobuf_c_message_free_unpacked(&ended.end->base, NULL);
	finish(&run);
}

/* ---- Who pays, and what counts ----------------------------------------------------------------- */

/* Each frame ends a segment. */
static void the_host_that_has_most_pays_for_all(void **state)
{
	struct run_of run;
	uint64_t all;

	(void)state;
	faulty_disk_init(&faulty, 1);
	begin_with_openings(&run, 1 << 20, 1 << 20, 1);
	for (unsigned host = 0; host < HOSTS; host++)
		for (unsigned i = 0; i < ITEMS / (host + 1); i++)
			forward(&run, host, i);
	end(&run);
	all = faulty_used(&faulty);
	finish(&run);

	faulty_disk_init(&faulty, 1);
	begin_with_openings(&run, 1 << 20, all - 1, 1);
	for (unsigned host = HOSTS; host-- > 0;)
		for (unsigned i = 0; i < ITEMS / (host + 1); i++)
			forward(&run, host, i);
	end(&run);
	assert_false(is_there(host_name[0], run.shipment[0][0].item.frame));
	for (unsigned i = 1; i < ITEMS; i++)
		assert_true(is_there(host_name[0], run.shipment[0][i].item.frame));
	for (unsigned i = 0; i < ITEMS / 2; i++)
		assert_true(is_there(host_name[1], run.shipment[1][i].item.frame));
	finish(&run);
}

static void a_bound_leaves_the_file_that_is_written(void **state)
{
	static const uint64_t bound[][2] = {{1, 1 << 20}, {1 << 20, 1}};

	(void)state;
	for (unsigned b = 0; b < 2; b++) {
		struct run_of run;

		faulty_disk_init(&faulty, 1);
		begin_with_openings(&run, bound[b][0], bound[b][1], 1 << 20);
		for (unsigned i = 0; i < ITEMS; i++) {
			forward(&run, 0, i);
			settle(&run, 0, i);
		}
		end(&run);
		for (unsigned i = 0; i < ITEMS; i++)
			assert_true(is_there(host_name[0], run.shipment[0][i].item.frame));
		finish(&run);
	}
}

static void check_bytes(const struct run_of *run)
{
	struct disk_sink_stat stat;

	disk_sink_stat(run->sink, &stat);
	assert_int_equal(stat.bytes, faulty_used(&faulty));
	assert_int_equal(stat.segments, faulty.names.n);
}

/* Deleted files, and those that a relay finds while their host comes. */
static void bytes_are_those_of_the_files_that_are_there(void **state)
{
	struct run_of run, again;

	(void)state;
	faulty_disk_init(&faulty, 1);
	begin_with_openings(&run, 500, 1 << 20, 1);
	for (unsigned i = 0; i < ITEMS; i++)
		forward(&run, 0, i);
	settle(&run, 0, ITEMS - 1);
	check_bytes(&run);
	assert_in_range(faulty.names.n, 1, ITEMS - 1);
	end(&run);
	begin_with_openings(&again, 1 << 20, 1 << 20, 1);
	forward(&again, 0, 0);
	settle(&again, 0, 0);
	check_bytes(&again);
	end(&again);
	free_items(&again);
	finish(&run);
}

static int show_nothing(struct disk *disk, const char *path, disk_entry *entry, void *context)
{
	(void)disk, (void)path, (void)entry, (void)context;
	return 0;
}

/* What a directory did not show, as another relay's: nothing is written behind it. */
static void a_file_that_was_not_seen_is_left_as_it_is(void **state)
{
	struct run_of run, again;
	uint64_t bytes;

	(void)state;
	faulty_disk_init(&faulty, 1);
	begin_with_openings(&run, 1 << 20, 1 << 20, 1 << 20);
	forward(&run, 0, 0);
	end(&run);
	bytes = faulty_used(&faulty);
	watch_disk();
	ops.list = show_nothing;
	begin_with_openings(&again, 1 << 20, 1 << 20, 1 << 20);
	forward(&again, 0, 1);
	end(&again);
	assert_int_equal(again.shipment[0][1].err, -EEXIST);
	assert_int_equal(faulty_used(&faulty), bytes);
	ops.list = real_ops->list;
	assert_true(is_there(host_name[0], run.shipment[0][0].item.frame));
	free_items(&again);
	finish(&run);
}

/* With a thread: what both touch, a sanitizer sees. */
static void hosts_may_come_while_others_are_stored(void **state)
{
	enum { COMERS = 64 };
	static struct shipment shipment[COMERS];
	static char name[COMERS][16];
	struct disk_sink_config config = {.host_bytes = 1 << 20, .hosts_bytes = 1, .segment_bytes = 1};
	struct relay_opening *opening = make_opening(5);
	struct relay_sink *sink;
	struct error error;

	(void)state;
	faulty_disk_init(&faulty, 1);
	config.base = event_base_new();
	assert_int_equal(disk_thread_create(config.base, &faulty.disk, true, &config.thread, &error), 0);
	assert_int_equal(disk_sink_create(&config, &sink, &error), 0);
	memset(shipment, 0, sizeof(shipment));
	for (unsigned i = 0; i < COMERS; i++) {
		snprintf(name[i], sizeof(name[i]), "web-%u", i % (COMERS / 2));
		shipment[i].upto = cursor_create(1);
		cursor_append(shipment[i].upto, CPU, 110 + i);
		shipment[i].item = (struct relay_item){
			.host = name[i],
			.opening = relay_opening_get(opening),
			.frame = frame_ref_gap(codec, CPU, 100 + i, 110 + i, 0, 1, 0),
			.upto = shipment[i].upto,
			.confirmed = on_confirmed,
		};
		relay_sink_forward(sink, &shipment[i].item);
		event_base_loop(config.base, i % 8 ? EVLOOP_NONBLOCK : EVLOOP_ONCE);
	}
	relay_sink_destroy(sink);
	disk_thread_destroy(config.thread);
	event_base_free(config.base);
	relay_opening_put(opening);
	for (unsigned i = 0; i < COMERS; i++) {
		assert_int_equal(shipment[i].confirmed, 1);
		assert_int_equal(shipment[i].err, 0);
		frame_ref_put(shipment[i].item.frame);
		free(shipment[i].upto);
	}
	faulty_disk_fini(&faulty);
}

static unsigned hosts_found;

static void on_found(void *context, const char *host)
{
	assert_ptr_equal(context, &hosts_found);
	assert_true(strcmp(host, host_name[0]) == 0 || strcmp(host, host_name[1]) == 0);
	hosts_found++;
}

static void add_bytes(void *sum, const char *name, uint64_t bytes)
{
	(void)name;
	*(uint64_t *)sum += bytes;
}

static void what_an_earlier_relay_left_is_found(void **state)
{
	struct stat_sink stat, all;
	static struct run_of run;
	uint64_t sum = 0;

	(void)state;
	faulty_disk_init(&faulty, 1);
	memset(&run, 0, sizeof(run));
	visit(&run, 0, ITEMS);
	begin(&run, 1 << 20, 1 << 20, 400);
	for (unsigned host = 0; host < HOSTS; host++)
		run.opening[host] = NULL;
	run.sink->found = on_found;
	run.sink->context = &hosts_found;
	while (hosts_found < HOSTS)
		event_base_loop(run.base, EVLOOP_ONCE);
	for (unsigned host = 0; host < HOSTS; host++) {
		uint64_t bytes = 0;
		char path[64];

		snprintf(path, sizeof(path), "hosts/%s", host_name[host]);
		assert_int_equal(faulty.disk.ops->list(&faulty.disk, path, add_bytes, &bytes), 0);
		relay_sink_stat(run.sink, host_name[host], &stat);
		assert_int_equal(stat.kept_bytes, bytes);
		assert_true(stat.kept_segments > 0);
		sum += bytes;
	}
	relay_sink_stat(run.sink, NULL, &all);
	assert_int_equal(all.kept_bytes, sum);
	relay_sink_stat(run.sink, "web-3", &stat);
	assert_int_equal(stat.kept_bytes + stat.kept_segments, 0);
	end(&run);
	free_items(&run);
	faulty_disk_fini(&faulty);
}

static int make_codec(void **state)
{
	(void)state;
	codec = frame_codec_create(1);
	/* The same, hundreds of times. */
	setvbuf(stderr, NULL, _IOFBF, 1 << 16);
	return codec ? 0 : -1;
}

static int free_codec(void **state)
{
	(void)state;
	frame_codec_destroy(codec);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_confirmed_survives_each_failure),
		cmocka_unit_test(what_is_confirmed_survives_a_power_cut),
		cmocka_unit_test(a_host_that_floods_loses_its_own_oldest),
		cmocka_unit_test(what_waits_behind_a_failure_is_not_stored),
		cmocka_unit_test(an_end_waits_for_a_slow_disk_for_so_long),
		cmocka_unit_test(the_bounds_hold_inside_a_job),
		cmocka_unit_test(what_is_sealed_amid_a_job_is_synced),
		cmocka_unit_test(a_run_that_ended_is_sealed_over_a_power_cut),
		cmocka_unit_test(the_end_of_another_stream_makes_no_file_final),
		cmocka_unit_test(the_host_that_has_most_pays_for_all),
		cmocka_unit_test(a_bound_leaves_the_file_that_is_written),
		cmocka_unit_test(bytes_are_those_of_the_files_that_are_there),
		cmocka_unit_test(a_file_that_was_not_seen_is_left_as_it_is),
		cmocka_unit_test(hosts_may_come_while_others_are_stored),
		cmocka_unit_test(what_an_earlier_relay_left_is_found),
	};

	return cmocka_run_group_tests(tests, make_codec, free_codec);
}
