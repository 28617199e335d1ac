/*
 * A dump, from a stream to its file: what is in it, when it ends and what it says of itself; that it has its name
 * when it is whole on disk, whatever the disk refuses and wherever power is cut. The disk is in memory.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/clock.h"
#include "daemon/base/limits.h"
#include "daemon/base/log.h"
#include "daemon/trigger/dump.h"
#include "tests/lib/faulty_disk.h"
#include "tests/unit/daemon/small_catalog.h"

#define FIRED_NS	(1795403700ull * NS_PER_S)	/* 2026-11-23 03:15:00 */
#define ID		"20261123T031500Z-slow"
#define PART		"dumps/" ID ".part"
#define WHOLE		"dumps/" ID ".rt"
#define UNTIL_NS	1000u
#define TURNS_MAX	64u
#define TYPES_BYTES	128

static const uint32_t cpu_of[] = {5};

static struct faulty_disk faulty;
static struct event_base *base;
static struct frame_codec *codec;
static struct subscription *subscription;
static struct disk_thread *thread;
static struct dumps *dumps;
static struct dump_config config;
static struct dump *dump;
static struct subscriber *subscriber;
static uint64_t seq;
static bool waits, no_hello;
static unsigned left, finished;
static struct error why;		/* it was not written; without a code: it was */
static struct event *armed;
static unsigned arms;
static unsigned over_at_once;		/* that one ends before it has begun; 0: none */
static size_t part_max;			/* the most that one job wrote, */
static unsigned parts;			/* of so many */
static const struct cursor *since;

/* ---- What it stands between --------------------------------------------------------------------- */

static void join(void)
{
	struct stream *stream = stream_create(subscription, codec, cpu_of, UINT64_MAX, since,
					      since ? LOSS_REASON_HISTORY_GONE : 0);

	assert_non_null(stream);
	subscriber->state = SUBSCRIBER_LIVE;
	subscriber->stream = stream;
	stream->subscriber = subscriber;
	if (subscriber->live(subscriber->context, stream, NULL) == 0)
		return;
	stream_destroy(stream);
	subscriber->state = SUBSCRIBER_AWAY;
	error_set(&why, ENOMEM, "out-of-memory", "the daemon is out of memory");
	subscriber->refused(subscriber->context, &why);
}

int __wrap_fanout_subscribe(struct fanout *fanout, struct subscriber *from, const struct subscribe_request *request,
			    struct error *error);
int __wrap_fanout_subscribe(struct fanout *fanout, struct subscriber *from, const struct subscribe_request *request,
			    struct error *error)
{
	(void)fanout, (void)request, (void)error;
	subscriber = from;
	subscriber->state = SUBSCRIBER_WAITING;
	if (!waits)
		join();
	return 0;
}

void __wrap_fanout_leave(struct fanout *fanout, struct subscriber *from, bool orderly);
void __wrap_fanout_leave(struct fanout *fanout, struct subscriber *from, bool orderly)
{
	(void)fanout;
	assert_ptr_equal(from, subscriber);
	assert_true(orderly);
	left++;
}

int __real_event_add(struct event *event, const struct timeval *after);
int __wrap_event_add(struct event *event, const struct timeval *after);
int __wrap_event_add(struct event *event, const struct timeval *after)
{
	int err = __real_event_add(event, after);

	if (after && (uint64_t)after->tv_sec * NS_PER_S == DUMP_PATIENCE_NS) {
		armed = event;
		if (++arms == over_at_once)
			event_active(event, EV_TIMEOUT, 0);
	}
	return err;
}

static size_t bytes_of(const char *path)
{
	const struct faulty_name *name = faulty_find(&faulty.names, path);

	return name ? faulty.file[name->file].n : 0;
}

/* The job before is done: what is there now it has written. */
void __real_disk_thread_submit(struct disk_thread *to, struct disk_job *job);
void __wrap_disk_thread_submit(struct disk_thread *to, struct disk_job *job);
void __wrap_disk_thread_submit(struct disk_thread *to, struct disk_job *job)
{
	static size_t before;
	size_t now = bytes_of(PART);

	if (now > before) {
		part_max = now - before > part_max ? now - before : part_max;
		parts++;
	}
	before = now;
	__real_disk_thread_submit(to, job);
}

static struct frame_ref *hello(void *context)
{
	Ringtail__V1__ServerHello message = RINGTAIL__V1__SERVER_HELLO__INIT;

	(void)context;
	return no_hello ? NULL : frame_ref_pack(codec, FRAME_SERVER_HELLO, &message.base);
}

static void on_done(void *context, struct dump *which, const struct error *error)
{
	assert_ptr_equal(context, &dumps);
	assert_ptr_equal(which, dump);
	why = error ? *error : (struct error){0};
	dump = NULL;
	finished++;
}

static void no_log(enum log_level level, const char *code, const char *text)
{
	(void)level, (void)code, (void)text;
}

static int setup(void **state)
{
	static const struct log_sink sink = {.write = no_log, .now_ns = clock_monotonic};
	static const char *const glob[] = {"syscall:read:call"};
	const struct subscription_request request = {.glob = glob, .globs = 1, .filter = "pid == 7",
						     .flags = RT_FLAG_STRINGS};

	(void)state;
	log_set_sink(&sink);
	faulty_disk_init(&faulty, 1);
	base = event_base_new();
	codec = frame_codec_create(1);
	assert_int_equal(disk_thread_create(base, &faulty.disk, false, &thread, &why), 0);
	assert_int_equal(dumps_create(thread, 64 << 20, 8, &dumps, &why), 0);
	assert_int_equal(subscription_create(&request, small_catalog_get(), 1, 64 << 20, &subscription, &why), 0);
	config = (struct dump_config){.base = base, .dumps = dumps, .disk_thread = thread, .codec = codec,
				      .catalog = small_catalog_get(), .hello = hello,
				      .run = {.boot_id = "0123456789abcde", .epoch = 9}};
	seq = left = finished = arms = over_at_once = parts = part_max = 0;
	waits = no_hello = false;
	since = NULL;
	why = (struct error){0};
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	dumps_destroy(dumps);
	disk_thread_destroy(thread);
	subscription_destroy(subscription);
	frame_codec_destroy(codec);
	event_base_free(base);
	for (unsigned i = 0; i < FAULTY_HANDLES_MAX; i++)
		assert_false(faulty.handle[i].used);
	faulty_disk_fini(&faulty);
	return 0;
}

static int begin(const char *probe)
{
	const struct dump_request request = {
		.trigger = "slow", .rule = "slow: 'read' dump 2s", .probe = probe, .until_ns = UNTIL_NS,
		.since_realtime_ns = probe ? 0 : FIRED_NS - 2 * NS_PER_S, .fired_realtime_ns = FIRED_NS,
	};

	return dump_begin(&config, &request, on_done, &dumps, &dump, &why);
}

static void turn(void)
{
	event_base_loop(base, EVLOOP_ONCE | EVLOOP_NONBLOCK);
}

/* Until the disk has nothing to do. */
static void run(void)
{
	for (unsigned i = 0; i < TURNS_MAX; i++)
		turn();
}

/* A batch that cannot be compressed. */
static void append(uint64_t events, uint64_t lost, size_t bytes)
{
	uint8_t *raw = malloc(bytes);
	struct frame_ref *frame;

	for (size_t i = 0; i < bytes; i++)
		raw[i] = (uint8_t)faulty_random(&faulty);
	frame = frame_ref_seal(codec, FRAME_BATCH, raw, (uint32_t)bytes);
	free(raw);
	frame->cpu = cpu_of[0];
	frame->first_seq = seq;
	frame->end_seq = seq += events + lost;
	frame->events = events;
	frame->losses = lost != 0;
	frame->loss[0] = (struct loss_count){LOSS_STAGE_RING, LOSS_REASON_RING_FULL, lost};
	subscription_append(subscription, frame);
}

static void append_gap(uint64_t attempts, uint64_t events)
{
	struct frame_ref *frame = frame_ref_gap(codec, cpu_of[0], seq, seq + attempts, LOSS_STAGE_QUEUE,
						LOSS_REASON_QUEUE_FULL, events);

	seq += attempts;
	subscription_append(subscription, frame);
}

static void append_watermark(uint64_t time_ns)
{
	Ringtail__V1__Watermark watermark = RINGTAIL__V1__WATERMARK__INIT;
	struct frame_ref *frame;

	watermark.time_ns = time_ns;
	frame = frame_ref_pack(codec, FRAME_WATERMARK, &watermark.base);
	frame->time_ns = time_ns;
	subscription_append(subscription, frame);
}

static void wake(void)
{
	if (dump)
		subscriber->wake(subscriber->context);
}

/* ---- What is on the disk ------------------------------------------------------------------------- */

struct found {
	char types[TYPES_BYTES];	/* of the frames, a letter each */
	uint64_t bye_at;
	Ringtail__V1__Bye *bye;		/* NULL: it has no end */
	Ringtail__V1__Subscribed *subscribed;
	Ringtail__V1__Gap *gap;		/* the last */
};

static void *open_frame(const uint8_t *frame, const struct frame_header *header,
			const ProtobufCMessageDescriptor *descriptor)
{
	uint8_t *raw = malloc(header->raw_bytes + 1);
	const uint8_t *body;
	void *message;

	assert_int_equal(frame_open(codec, frame, header, raw, &body), FRAME_OK);
	message = protobuf_c_message_unpack(descriptor, NULL, header->raw_bytes, body);
	free(raw);
	assert_non_null(message);
	return message;
}

static void take(struct found *found, const uint8_t *frame, const struct frame_header *header)
{
	static const char letter[] = {
		[FRAME_SERVER_HELLO] = 'H', [FRAME_CATALOG] = 'C', [FRAME_SUBSCRIBED] = 'S', [FRAME_BATCH] = 'B',
		[FRAME_GAP] = 'G', [FRAME_WATERMARK] = 'W', [FRAME_BYE] = 'E',
	};
	size_t n = strlen(found->types);

	assert_true(n + 1 < TYPES_BYTES && header->type < sizeof(letter) && letter[header->type]);
	found->types[n] = letter[header->type];
	if (header->type == FRAME_BYE)
		found->bye = open_frame(frame, header, &ringtail__v1__bye__descriptor);
	else if (header->type == FRAME_SUBSCRIBED)
		found->subscribed = open_frame(frame, header, &ringtail__v1__subscribed__descriptor);
	else if (header->type == FRAME_GAP && found->gap)
		ringtail__v1__gap__free_unpacked(found->gap, NULL);
	if (header->type == FRAME_GAP)
		found->gap = open_frame(frame, header, &ringtail__v1__gap__descriptor);
}

static struct found read_back(const char *path)
{
	const struct faulty_name *name = faulty_find(&faulty.names, path);
	struct found found = {0};
	struct frame_header header;

	assert_non_null(name);
	for (size_t at = 0; at < faulty.file[name->file].n; at += FRAME_HEADER_BYTES + header.body_bytes) {
		const uint8_t *frame = faulty.file[name->file].bytes + at;

		assert_null(found.bye);		/* nothing is behind the end */
		assert_int_equal(frame_parse_header(frame, faulty.file[name->file].n - at, FRAME_RAW_BYTES_MAX,
						    &header), FRAME_OK);
		assert_true(at + FRAME_HEADER_BYTES + header.body_bytes <= faulty.file[name->file].n);
		found.bye_at = at;
		take(&found, frame, &header);
	}
	return found;
}

static void put(struct found *found)
{
	if (found->bye)
		ringtail__v1__bye__free_unpacked(found->bye, NULL);
	if (found->subscribed)
		ringtail__v1__subscribed__free_unpacked(found->subscribed, NULL);
	if (found->gap)
		ringtail__v1__gap__free_unpacked(found->gap, NULL);
}

static bool there(const char *path)
{
	return faulty_find(&faulty.names, path) != NULL;
}

/* It is over; its file is one of those frames, and says of itself how it stands and how much is in it. */
static void expect_file(const char *types, const char *state, const char *why_not, uint64_t events, uint64_t lost,
			uint64_t gaps)
{
	const Ringtail__V1__Dump *told;
	const struct dump_entry *entry = dumps_find(dumps, ID);
	struct found found;

	assert_int_equal(finished, 1);
	assert_string_equal(why.code, "");
	assert_false(there(PART));
	for (uint64_t i = frame_log_first(subscription->log); i < frame_log_end(subscription->log); i++)
		assert_int_equal(frame_log_get(subscription->log, i)->refs, 1);		/* the log's alone */
	found = read_back(WHOLE);
	assert_string_equal(found.types, types);
	assert_true(found.bye->final);
	told = found.bye->dump;
	assert_string_equal(told->id, ID);
	assert_string_equal(told->trigger, "slow");
	assert_string_equal(told->rule, "slow: 'read' dump 2s");
	assert_string_equal(told->state, state);
	assert_string_equal(told->why, why_not);
	assert_string_equal(found.bye->reason, *why_not ? why_not : "the dump ends here");
	assert_int_equal(told->realtime_ns, FIRED_NS);
	assert_int_equal(told->events, events);
	assert_int_equal(told->lost, lost);
	assert_int_equal(told->gaps, gaps);
	assert_int_equal(told->bytes, found.bye_at);
	assert_string_equal(told->filter, "pid == 7");
	assert_int_equal(told->n_probe, 1);
	assert_int_equal(told->n_flag, 1);
	assert_int_equal(entry->state, DUMP_WHOLE);
	assert_int_equal(entry->bytes, bytes_of(WHOLE));
	put(&found);
}

/* ---- Tests --------------------------------------------------------------------------------------- */

static void has_what_came_up_to_its_time_and_counts_it(void **state)
{
	struct found found;

	(void)state;
	assert_int_equal(begin(NULL), 0);
	assert_string_equal(dump_id(dump), ID);
	assert_true(subscriber->stream->patient);
	append(10, 3, 100);
	append_watermark(UNTIL_NS - 1);
	append_gap(5, 2);			/* of so many events, */
	append_gap(7, 0);			/* of so many attempts at most, */
	append_gap(0, 0);			/* and of nobody knows how many */
	append_watermark(UNTIL_NS);
	append(100, 0, 100);			/* that is too late */
	wake();
	run();
	expect_file("HCSBWGGGWE", "whole", "", 10, 3 + 2 + 7, 1);
	found = read_back(WHOLE);
	assert_int_equal(found.subscribed->from_realtime_ns, FIRED_NS - 2 * NS_PER_S);
	assert_false(found.subscribed->resumed);
	assert_int_equal(found.subscribed->probes, 1);
	assert_int_equal(found.subscribed->start->epoch, 9);
	assert_int_equal(found.bye->dump->from_realtime_ns, FIRED_NS - 2 * NS_PER_S);
	put(&found);
	assert_int_equal(left, 1);
}

/* What it begins at is there: the stream says that it goes on from it. */
static void says_that_its_past_was_there(void **state)
{
	struct cursor *cursor = cursor_create(1);
	struct found found;

	(void)state;
	cursor_append(cursor, cpu_of[0], 0);
	since = cursor;
	append(4, 0, 50);
	assert_int_equal(begin(NULL), 0);
	append_watermark(UNTIL_NS);
	wake();
	run();
	expect_file("HCSBWE", "whole", "", 4, 0, 0);
	found = read_back(WHOLE);
	assert_true(found.subscribed->resumed);
	put(&found);
	free(cursor);
}

/* One of a probe that is recorded from now on begins when its rule fired. */
static void of_a_probe_begins_when_it_fired(void **state)
{
	struct found found;

	(void)state;
	assert_int_equal(begin("syscall:read:call"), 0);
	append_watermark(UNTIL_NS);
	wake();
	run();
	expect_file("HCSWE", "whole", "", 0, 0, 0);
	found = read_back(WHOLE);
	assert_int_equal(found.subscribed->from_realtime_ns, FIRED_NS);
	put(&found);
}

/* The next part is taken off the stream when the disk has this one: no more is held than that. */
static void takes_a_part_at_a_time(void **state)
{
	(void)state;
	assert_int_equal(begin(NULL), 0);
	for (unsigned i = 0; i < 12; i++)
		append(1, 0, DUMP_TURN_BYTES / 4);
	for (unsigned i = 0; i < 3 * DUMP_FRAMES_MAX; i++)
		append(1, 0, 1);
	append_watermark(UNTIL_NS);
	wake();
	run();
	assert_int_equal(finished, 1);
	assert_in_range(part_max, DUMP_TURN_BYTES, DUMP_TURN_BYTES + 1000);
	assert_in_range(parts, 6, 8);
}

/* So that no sync has much to do: what was not synced is never more, and it is not done at each part. */
static void is_synced_now_and_then(void **state)
{
	const struct faulty_name *name;
	size_t synced = 0;
	unsigned syncs = 0;

	(void)state;
	assert_int_equal(begin(NULL), 0);
	for (unsigned i = 0; i < 18; i++) {
		append(1, 0, DUMP_TURN_BYTES);
		wake();
		run();
		name = faulty_find(&faulty.names, PART);
		syncs += faulty.file[name->file].durable_n != synced;
		synced = faulty.file[name->file].durable_n;
		assert_true(faulty.file[name->file].n - synced < DUMP_SYNC_BYTES);
	}
	assert_int_equal(syncs, 2);
	dump_end(dump, "enough");
	run();
	assert_int_equal(finished, 1);
}

static void ends_at_its_share_of_the_bound_and_says_what_is_missing(void **state)
{
	struct found found;

	(void)state;
	dumps_set_bounds(dumps, 100000, 8);
	assert_int_equal(begin(NULL), 0);
	append(1, 0, 30000);
	wake();
	run();
	assert_int_equal(finished, 0);
	append(1, 0, 30000);
	append(1, 0, 30000);
	wake();
	run();
	expect_file("HCSBBGE", "ended", "the dump has reached its share of dump-size", 2, 0, 1);
	found = read_back(WHOLE);
	assert_int_equal(found.gap->cpu, cpu_of[0]);
	assert_int_equal(found.gap->first_seq, 2);
	assert_int_equal(found.gap->end_seq, 2);
	assert_int_equal(found.gap->stage, LOSS_STAGE_SPOOL);
	assert_int_equal(found.gap->reason, LOSS_REASON_DUMP_SIZE);
	put(&found);
}

static void ends_with_what_it_has(void **state)
{
	static const char *const reason[] = {"the daemon stopped", "its rule is gone", "nothing came for too long"};
	Ringtail__V1__Bye bye = RINGTAIL__V1__BYE__INIT;

	(void)state;
	bye.reason = (char *)"";
	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(begin(NULL), 0);
		assert_int_equal(arms, 2);	/* once for its stream, once for what comes */
		append(6, 0, 100);
		wake();
		run();
		assert_int_equal(arms, 3);	/* and again */
		append(1, 0, 100);
		if (i == 0) {
			subscription_append(subscription, frame_ref_pack(codec, FRAME_BYE, &bye.base));
			wake();
		} else if (i == 1) {
			dump_end(dump, reason[i]);
		} else {
			event_active(armed, EV_TIMEOUT, 0);
		}
		run();
		expect_file(i ? "HCSBE" : "HCSBBE", "ended", reason[i], i ? 6 : 7, 0, 0);
		teardown(state);
		setup(state);
	}
}

/* What is with the disk now comes: it is waited for. */
static void a_slow_disk_is_no_silence(void **state)
{
	(void)state;
	over_at_once = 2;	/* while the disk writes the head */
	assert_int_equal(begin(NULL), 0);
	run();
	assert_int_equal(finished, 0);
	assert_int_equal(arms, 3);
	append_watermark(UNTIL_NS);
	wake();
	run();
	expect_file("HCSWE", "whole", "", 0, 0, 0);
}

static void expect_none(const char *code)
{
	uint64_t bytes;

	run();
	assert_int_equal(finished, 1);
	assert_string_equal(why.code, code);
	assert_int_equal(dumps_count(dumps, &bytes), 0);
	assert_int_equal(faulty.names.n, 0);
}

static void without_its_stream_there_is_no_file(void **state)
{
	const struct error refusal = {.code = "unknown-probe"};

	(void)state;
	waits = true;
	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(begin("syscall:read:call"), 0);
		assert_int_equal(arms, 1);
		if (i == 0)
			event_active(armed, EV_TIMEOUT, 0);
		else if (i == 1)
			dump_end(dump, "the daemon stopped");
		else
			subscriber->refused(subscriber->context, &refusal);
		expect_none(i < 2 ? "dump-not-begun" : "unknown-probe");
		teardown(state);
		setup(state);
		waits = true;
	}
	waits = false;
	no_hello = true;
	assert_int_equal(begin(NULL), 0);
	expect_none("out-of-memory");
}

/* What lies there under that name is somebody's. */
static void does_not_write_into_a_file_that_is_there(void **state)
{
	int file;

	(void)state;
	file = faulty.disk.ops->open(&faulty.disk, PART, O_WRONLY | O_CREAT);
	assert_int_equal(faulty.disk.ops->write(&faulty.disk, file, "mine", 4), 4);
	faulty.disk.ops->close(&faulty.disk, file);
	assert_int_equal(begin(NULL), 0);
	run();
	assert_int_equal(finished, 1);
	assert_string_equal(why.code, "dump-disk");
	assert_int_equal(bytes_of(PART), 4);
	assert_false(there(WHOLE));
}

static void write_one(void)
{
	assert_int_equal(begin(NULL), 0);
	append(10, 0, 5000);
	wake();
	run();
	append_watermark(UNTIL_NS);
	wake();
	run();
}

/* Of each operation in turn: then there is no file, and whoever waits is told so. */
static void whatever_the_disk_refuses_leaves_nothing(void **state)
{
	uint64_t operations, before = faulty.operations;

	(void)state;
	write_one();
	assert_int_equal(finished, 1);
	operations = faulty.operations - before;
	assert_in_range(operations, 9, 12);
	for (uint64_t i = 0; i < operations; i++) {
		teardown(state);
		setup(state);
		faulty.fail_at = faulty.operations + i;
		faulty.fail_errno = EIO;
		write_one();
		expect_none("dump-disk");
	}
}

/* Power is cut behind each operation in turn: what has its name is whole, to its last byte. */
static void what_has_its_name_is_whole_wherever_power_is_cut(void **state)
{
	uint64_t operations, before = faulty.operations;
	size_t whole;

	(void)state;
	write_one();
	operations = faulty.operations - before;
	whole = bytes_of(WHOLE);
	faulty_disk_cut(&faulty, FAULTY_DROP);
	assert_int_equal(bytes_of(WHOLE), whole);
	for (uint64_t i = 0; i < 4 * operations; i++) {
		teardown(state);
		setup(state);
		faulty.seed += i;
		faulty.cut_at = faulty.operations + i / 4;
		write_one();
		faulty_disk_cut(&faulty, i % 4 ? FAULTY_REORDER : FAULTY_DROP);
		assert_true(!there(WHOLE) || bytes_of(WHOLE) == whole);
		assert_false(there(WHOLE) && there(PART));
	}
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(has_what_came_up_to_its_time_and_counts_it),
		TEST(says_that_its_past_was_there),
		TEST(of_a_probe_begins_when_it_fired),
		TEST(takes_a_part_at_a_time),
		TEST(is_synced_now_and_then),
		TEST(ends_at_its_share_of_the_bound_and_says_what_is_missing),
		TEST(ends_with_what_it_has),
		TEST(a_slow_disk_is_no_silence),
		TEST(without_its_stream_there_is_no_file),
		TEST(does_not_write_into_a_file_that_is_there),
		TEST(whatever_the_disk_refuses_leaves_nothing),
		TEST(what_has_its_name_is_whole_wherever_power_is_cut),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
