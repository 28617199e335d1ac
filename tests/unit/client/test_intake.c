/*
 * test_intake: what a client makes of a daemon's frames: where a stream goes on, what of it was seen, which
 * span of time is wanted, what is missing at a beginning, in a hole, between runs and in a damaged batch; whose
 * an event is. Frame by frame, without a connection or a file.
 */
#include "tests/unit/client/check.h"

#include <errno.h>

#include "client/lib/catalog.h"
#include "client/lib/intake.h"
#include "client/lib/merge.h"
#include "client/lib/selection.h"
#include "tests/lib/failing_memory.h"
#include "tests/unit/client/maker.h"

enum {
	SPOOL = RINGTAIL__V1__LOSS_STAGE__LOSS_SPOOL,
	HISTORY = RINGTAIL__V1__LOSS_STAGE__LOSS_HISTORY,
	SPOOL_FULL = RINGTAIL__V1__LOSS_REASON__REASON_SPOOL_FULL,
	CORRUPT = RINGTAIL__V1__LOSS_REASON__REASON_CORRUPT,
	RESTART = RINGTAIL__V1__LOSS_REASON__REASON_RESTART,
	NOT_RECORDED = RINGTAIL__V1__LOSS_REASON__REASON_NOT_RECORDED,
	OTHER_EPOCH = RINGTAIL__V1__LOSS_REASON__REASON_OTHER_EPOCH,
	UP_NS = 300,			/* how long the host is up when it says hello */
};

static const uint8_t boot[16] = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16 };
static struct maker maker;
static struct intake *intake;
static struct ringtail_error error;
static struct ringtail_item item;
static struct cursor *cursor;
static uint64_t wall_ns;		/* the wall clock at the host's boot, as the next hello has it */
static bool no_decoder;			/* there is no memory for another one */

struct batch_decoder *__wrap_catalog_decoder_create(struct catalog *catalog);
struct batch_decoder *__real_catalog_decoder_create(struct catalog *catalog);
struct batch_decoder *__wrap_catalog_decoder_create(struct catalog *catalog)
{
	return no_decoder ? NULL : __real_catalog_decoder_create(catalog);
}

static bool no_push;			/* nor for anything that waits */

int __wrap_merge_push(struct merge *merge, uint32_t cpu, struct merge_entry *entry);
int __real_merge_push(struct merge *merge, uint32_t cpu, struct merge_entry *entry);
int __wrap_merge_push(struct merge *merge, uint32_t cpu, struct merge_entry *entry)
{
	return no_push ? -ENOMEM : __real_merge_push(merge, cpu, entry);
}

static int setup(void **state)
{
	(void)state;
	wall_ns = MAKER_WALL_NS;
	no_decoder = false;
	maker_init(&maker);
	intake = intake_create(false);
	cursor = cursor_create(CURSOR_POSITIONS_MAX);
	assert_non_null(intake);
	assert_non_null(cursor);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	intake_destroy(intake);
	intake_destroy(NULL);
	free(cursor);
	maker_fini(&maker);
	return 0;
}

/* ---- Frames in, items out ---------------------------------------------------------------------- */

/* Takes the maker's frames up to the first that is refused; what that said. */
static int take(void)
{
	int err = 0;

	for (size_t at = 0; at < maker.size && !err;) {
		struct frame frame = { .bytes = maker.bytes + at, .offset = at };

		assert_int_equal(frame_parse_header(frame.bytes, maker.size - at, FRAME_RAW_BYTES_MAX,
						    &frame.header), FRAME_OK);
		frame.size = FRAME_HEADER_BYTES + frame.header.body_bytes;
		err = intake_frame(intake, &frame, &error);
		at += frame.size;
	}
	maker.size = 0;
	return err;
}

static enum ringtail_kind next(void)
{
	enum ringtail_kind kind;

	do
		kind = intake_next(intake, &item, &error);
	while (kind == RINGTAIL_WATERMARK);
	return kind;
}

static void expect_event(uint32_t cpu, uint64_t seq)
{
	assert_int_equal(next(), RINGTAIL_EVENT);
	assert_int_equal(item.cpu, cpu);
	assert_int_equal(item.seq, seq);
}

static void expect_gap(uint32_t cpu, uint64_t seq, uint64_t count, int stage, int reason)
{
	assert_int_equal(next(), RINGTAIL_GAP);
	assert_int_equal(item.cpu, cpu);
	assert_int_equal(item.seq, seq);
	assert_int_equal(item.count, count);
	assert_int_equal(item.stage, stage);
	assert_int_equal(item.reason, reason);
}

static void expect_nothing(void)
{
	assert_int_equal(next(), RINGTAIL_TIMEOUT);
}

static uint64_t residual(void)
{
	return intake_totals(intake)->residual;
}

static void hello(uint64_t epoch)
{
	Ringtail__V1__ServerHello said = RINGTAIL__V1__SERVER_HELLO__INIT;

	said.version = 1;
	said.software = said.hostname = said.kernel = said.source = "x";
	said.machine = "x86_64";
	said.boot_id = (ProtobufCBinaryData){ sizeof(boot), (uint8_t *)boot };
	said.epoch = epoch;
	said.monotonic_ns = UP_NS;
	said.realtime_ns = wall_ns + UP_NS;
	maker_message(&maker, FRAME_SERVER_HELLO, &said.base);
}

/* Both CPUs begin at 0. */
static void start(uint64_t epoch)
{
	static const uint64_t zero[2];

	hello(epoch);
	maker_catalog(&maker);
	maker_subscribed(&maker, 2, zero);
}

static void segment(uint64_t sequence, uint64_t whole_realtime_ns, bool named)
{
	Ringtail__V1__SegmentHead head = RINGTAIL__V1__SEGMENT_HEAD__INIT;

	if (named)
		head.boot_id = (ProtobufCBinaryData){ sizeof(boot), (uint8_t *)boot };
	head.sequence = sequence;
	head.realtime_ns = MAKER_WALL_NS + 900;
	head.whole_realtime_ns = whole_realtime_ns;
	maker_message(&maker, FRAME_SEGMENT_HEAD, &head.base);
}

static struct cursor *at(uint64_t epoch, uint64_t cpu0, uint64_t cpu1)
{
	cursor->n = 0;
	memcpy(cursor->run.boot_id, boot, sizeof(boot));
	cursor->run.epoch = epoch;
	cursor_append(cursor, 0, cpu0);
	if (cpu1)
		cursor_append(cursor, 1, cpu1);
	return cursor;
}

/* What the daemon says that this client has. */
static void subscribed_since(uint64_t cpu0, size_t id_bytes)
{
	Ringtail__V1__Subscribed subscribed = RINGTAIL__V1__SUBSCRIBED__INIT;
	Ringtail__V1__Cursor since = RINGTAIL__V1__CURSOR__INIT;
	Ringtail__V1__Position position = RINGTAIL__V1__POSITION__INIT, *list = &position;

	position.seq = cpu0;
	since.boot_id = (ProtobufCBinaryData){ id_bytes, (uint8_t *)boot };
	since.epoch = 7;
	since.n_position = 1;
	since.position = &list;
	subscribed.since = &since;
	maker_message(&maker, FRAME_SUBSCRIBED, &subscribed.base);
}

/* ---- Where it goes on -------------------------------------------------------------------------- */

/* Of a batch, a loss and gaps that reach back before the cursor, only what is behind it is given out. */
static void goes_on_at_a_cursor(void **state)
{
	(void)state;
	intake_set_since(intake, at(7, 12, 20));
	start(7);
	assert_int_equal(take(), 0);
	intake_set_since(intake, at(7, 12, 20));
	maker_batch(&maker, 0, 10, 1000, 10, 4);
	maker_gap(&maker, 1, 10, 20, 0, SPOOL, CORRUPT);
	maker_gap(&maker, 1, 20, 23, 0, SPOOL, CORRUPT);
	assert_int_equal(take(), 0);
	intake_flush(intake);
	expect_gap(1, 20, 3, SPOOL, CORRUPT);
	expect_event(0, 12);
	expect_event(0, 13);
	expect_nothing();
	assert_int_equal(residual(), 0);
	assert_int_equal(intake_totals(intake)->events, 2);
	assert_int_equal(intake_totals(intake)->lost, 3);
}

static void gap_that_a_cursor_divides(void **state)
{
	(void)state;
	start(7);
	assert_int_equal(take(), 0);
	intake_set_since(intake, at(7, 12, 0));
	maker_gap(&maker, 0, 8, 15, 0, SPOOL, CORRUPT);
	assert_int_equal(take(), 0);
	intake_flush(intake);
	expect_gap(0, 12, 3, SPOOL, CORRUPT);
	assert_int_equal(intake_totals(intake)->lost, 3);
	/* Of what was told before it, no event is told again: at most as many are missing as the rest has numbers. */
	intake_set_since(intake, at(7, 20, 0));
	maker_gap(&maker, 0, 15, 23, 7, SPOOL, CORRUPT);
	assert_int_equal(take(), 0);
	intake_flush(intake);
	assert_int_equal(next(), RINGTAIL_GAP);
	assert_true(item.seq == 20 && item.count == 3 && item.events == 3);
	assert_int_equal(intake_totals(intake)->lost, 6);
	maker_gap(&maker, 0, 23, 33, 7, SPOOL, CORRUPT);
	assert_int_equal(take(), 0);
	intake_flush(intake);
	assert_int_equal(next(), RINGTAIL_GAP);
	assert_true(item.count == 10 && item.events == 7);
	assert_int_equal(intake_totals(intake)->lost, 13);
	/* One that nobody can show is told of nowhere but in the totals. */
	maker_gap(&maker, 0, 33, 33, 0, SPOOL, CORRUPT);
	assert_int_equal(take(), 0);
	no_push = true;
	intake_flush(intake);
	no_push = false;
	expect_nothing();
	assert_int_equal(intake_totals(intake)->gaps, 4);
	assert_int_equal(intake_totals(intake)->unknown, 1);
}

/* What was told of losses before the cursor is not told again; of one that it divides, the rest is. */
static void losses_that_a_cursor_divides(void **state)
{
	(void)state;
	intake_set_since(intake, at(7, 12, 0));
	start(7);
	assert_int_equal(take(), 0);
	maker_begin(&maker, 0, 2, 1000);
	batch_encode_loss(maker.encoder, 4, 0, 1);
	maker_open(&maker, 100, 1000, 0);
	batch_encode_loss(maker.encoder, 8, 0, 1);
	batch_encode_loss(maker.encoder, 2, 0, 2);
	maker_end(&maker);
	assert_int_equal(take(), 0);
	intake_flush(intake);
	assert_int_equal(next(), RINGTAIL_LOSS);
	assert_true(item.seq == 12 && item.count == 3);
	assert_int_equal(next(), RINGTAIL_LOSS);
	assert_true(item.seq == 15 && item.count == 2);
	expect_nothing();
	assert_int_equal(intake_totals(intake)->lost, 5);
	assert_int_equal(residual(), 0);
	/* One that ends at the cursor was told whole. */
	intake_set_since(intake, at(7, 30, 0));
	maker_begin(&maker, 0, 17, 2000);
	batch_encode_loss(maker.encoder, 13, 0, 1);
	maker_open(&maker, 100, 2000, 0);
	maker_end(&maker);
	assert_int_equal(take(), 0);
	intake_flush(intake);
	expect_event(0, 30);
	expect_nothing();
	assert_int_equal(intake_totals(intake)->lost, 5);
}

/* A cursor says where a CPU stands of which nothing comes; of another run it says nothing. */
static void cursor_of_which_run(void **state)
{
	(void)state;
	start(7);
	assert_int_equal(take(), 0);
	intake_set_since(intake, at(8, 2, 90));
	maker_batch(&maker, 0, 0, 1000, 10, 3);
	maker_bye(&maker, "x");
	assert_int_equal(take(), 0);
	for (unsigned i = 0; i < 3; i++)
		expect_event(0, i);
	expect_nothing();
	/* The next run is the cursor's. */
	hello(8);
	maker_catalog(&maker);
	maker_batch(&maker, 0, 1, 1000, 10, 3);
	assert_int_equal(take(), 0);
	intake_flush(intake);
	expect_event(0, 2);
	intake_cursor_given(intake, cursor);
	assert_int_equal(cursor->run.epoch, 8);
	assert_int_equal(cursor_seq(cursor, 1, 0), 90);
	assert_int_equal(cursor_seq(cursor, 0, 0), 3);
	intake_cursor_come(intake, cursor);
	assert_int_equal(cursor_seq(cursor, 0, 0), 4);
	expect_event(0, 3);
	assert_int_equal(residual(), 0);
}

static void no_cursor_any_more(void **state)
{
	(void)state;
	start(7);
	assert_int_equal(take(), 0);
	intake_set_since(intake, at(7, 2, 0));
	intake_set_since(intake, NULL);
	maker_batch(&maker, 0, 0, 1000, 10, 2);
	assert_int_equal(take(), 0);
	intake_flush(intake);
	expect_event(0, 0);
	expect_event(0, 1);
}

/* A batch that has begun before the cursor is not a place to go on at, however much of it was seen. */
static void place_is_never_before_the_cursor(void **state)
{
	(void)state;
	start(7);
	assert_int_equal(take(), 0);
	intake_set_since(intake, at(7, 12, 0));
	maker_batch(&maker, 0, 10, 1000, 10, 4);
	assert_int_equal(take(), 0);
	intake_cursor_given(intake, cursor);
	assert_int_equal(cursor_seq(cursor, 0, 0), 12);
}

/* A daemon's own knowledge of what a client has is as good; without a run's name it is none. */
static void daemon_says_where_it_goes_on(void **state)
{
	(void)state;
	hello(7);
	maker_catalog(&maker);
	assert_int_equal(take(), 0);
	intake_set_since(intake, at(7, 1, 5));
	subscribed_since(2, sizeof(boot));
	maker_batch(&maker, 0, 0, 1000, 10, 3);
	maker_batch(&maker, 1, 4, 1000, 10, 1);
	assert_int_equal(take(), 0);
	intake_flush(intake);
	assert_true(intake_reached(intake, INTAKE_SUBSCRIBED));
	expect_event(1, 4);			/* it has nothing of CPU 1 */
	expect_event(0, 2);
	subscribed_since(9, sizeof(boot) - 1);
	maker_batch(&maker, 0, 1, 2000, 10, 3);
	assert_int_equal(take(), 0);
	intake_flush(intake);
	expect_event(0, 2);
	expect_event(0, 3);
	expect_nothing();
}

/* ---- Errors ------------------------------------------------------------------------------------ */

static int refused(const char *code, bool fatal)
{
	Ringtail__V1__Error said = RINGTAIL__V1__ERROR__INIT;

	said.code = (char *)code;
	said.what = said.hint = "x";
	said.fatal = fatal;
	maker_message(&maker, FRAME_ERROR, &said.base);
	return take();
}

/* The one that a stream survives. */
static void acknowledgement_of_too_much(void **state)
{
	(void)state;
	start(7);
	assert_int_equal(take(), 0);
	assert_int_equal(refused("ack-beyond", false), 0);
	assert_int_equal(refused("ack-beyond", true), -EPROTO);
	assert_int_equal(refused("not-allowed", false), -EPROTO);
	assert_string_equal(error.code, "not-allowed");
}

static int positions(enum frame_type type, size_t n, uint32_t cpu)
{
	static Ringtail__V1__Position position[CURSOR_POSITIONS_MAX + 1], *list[CURSOR_POSITIONS_MAX + 1];
	Ringtail__V1__Watermark watermark = RINGTAIL__V1__WATERMARK__INIT;
	Ringtail__V1__Subscribed subscribed = RINGTAIL__V1__SUBSCRIBED__INIT;
	Ringtail__V1__Cursor places = RINGTAIL__V1__CURSOR__INIT;

	for (size_t i = 0; i < n; i++) {
		ringtail__v1__position__init(&position[i]);
		position[i].cpu = n > 1 ? (uint32_t)i % CURSOR_POSITIONS_MAX : cpu;
		list[i] = &position[i];
	}
	places.n_position = watermark.n_position = n;
	places.position = watermark.position = list;
	subscribed.start = cpu ? NULL : &places;
	subscribed.since = cpu ? &places : NULL;
	if (n == 1)
		subscribed.start = &places;
	maker_message(&maker, type, type == FRAME_WATERMARK ? &watermark.base : &subscribed.base);
	return take();
}

static void bounds_of_frames(void **state)
{
	(void)state;
	start(7);
	assert_int_equal(take(), 0);
	for (unsigned i = 0; i < 3; i++) {
		enum frame_type type = i ? FRAME_SUBSCRIBED : FRAME_WATERMARK;

		assert_int_equal(positions(type, CURSOR_POSITIONS_MAX, i == 2), 0);
		assert_int_equal(positions(type, CURSOR_POSITIONS_MAX + 1, i == 2), -EBADMSG);
		assert_non_null(strstr(error.what, "too many positions"));
	}
	assert_int_equal(positions(FRAME_WATERMARK, 1, CURSOR_POSITIONS_MAX), -EBADMSG);
	assert_int_equal(positions(FRAME_SUBSCRIBED, 1, CURSOR_POSITIONS_MAX), -EBADMSG);
	assert_non_null(strstr(error.what, "out of range"));
	maker_gap(&maker, CURSOR_POSITIONS_MAX - 1, 0, 1, 0, SPOOL, CORRUPT);
	assert_int_equal(take(), 0);
	maker_gap(&maker, CURSOR_POSITIONS_MAX, 0, 1, 0, SPOOL, CORRUPT);
	assert_int_equal(take(), -EBADMSG);
	maker_batch(&maker, CURSOR_POSITIONS_MAX, 0, 1000, 10, 1);
	assert_int_equal(take(), -EBADMSG);
}

/* ---- Which time is wanted ---------------------------------------------------------------------- */

/* From 1010 on, and before 1030, of the host's time since its boot. */
static void span_of_time(void **state)
{
	(void)state;
	start(7);
	intake_set_since_time(intake, MAKER_WALL_NS + 1010);
	intake_set_until_time(intake, MAKER_WALL_NS + 1030);
	maker_batch(&maker, 0, 0, 1000, 10, 5);		/* the third is at 1020 */
	maker_begin(&maker, 1, 0, 1029);
	batch_encode_loss(maker.encoder, 2, 0, 1);
	maker_open(&maker, 101, 1030, 0);
	batch_encode_loss(maker.encoder, 5, 0, 1);
	maker_end(&maker);
	maker_gap(&maker, 1, 8, 9, 0, SPOOL, CORRUPT);
	assert_int_equal(take(), 0);
	intake_flush(intake);
	expect_event(0, 1);
	expect_event(0, 2);
	assert_int_equal(next(), RINGTAIL_LOSS);
	assert_int_equal(item.count, 2);
	expect_nothing();
	assert_int_equal(intake_totals(intake)->filtered, 4);
	assert_int_equal(intake_totals(intake)->events, 2);
	assert_int_equal(intake_totals(intake)->lost, 2);
	assert_int_equal(residual(), 0);
}

/* A spool is read from before it: what was lost there is not missing of the span, and does not count. */
static void lost_before_the_span(void **state)
{
	(void)state;
	start(7);
	intake_set_since_time(intake, MAKER_WALL_NS + 1010);
	maker_gap(&maker, 1, 0, 5, 0, SPOOL, CORRUPT);
	maker_batch(&maker, 1, 5, 1000, 10, 2);		/* the second is at 1010 */
	maker_gap(&maker, 1, 7, 9, 0, SPOOL, CORRUPT);
	maker_batch(&maker, 1, 9, 1020, 10, 1);
	assert_int_equal(take(), 0);
	intake_flush(intake);
	expect_event(1, 6);
	expect_gap(1, 7, 2, SPOOL, CORRUPT);
	expect_event(1, 9);
	expect_nothing();
	assert_int_equal(intake_totals(intake)->lost, 2);
	assert_int_equal(intake_totals(intake)->gaps, 1);
	assert_int_equal(residual(), 0);
}

static void no_span_of_time(void **state)
{
	(void)state;
	start(7);
	maker_batch(&maker, 0, 0, 1000, 10, 1);
	assert_int_equal(take(), 0);
	intake_flush(intake);
	expect_event(0, 0);
}

static struct selection *select_dfd(void)
{
	struct selection *selection;

	assert_int_equal(selection_create(NULL, 0, "dfd == 5 || filename == \"/x\"", &selection, &error), 0);
	intake_set_selection(intake, selection);
	return selection;
}

static void open_of(int dfd, uint64_t time_ns)
{
	uint64_t field[6] = { 12345, 3, (uint32_t)dfd, 0x7f0000001000, 0, 0 };

	maker_event(&maker, MAKER_OPENAT, 100, time_ns, field, 6);
}

static void selected(void **state)
{
	struct selection *selection = select_dfd();

	(void)state;
	start(7);
	maker_begin(&maker, 0, 0, 1000);
	open_of(5, 1000);
	open_of(6, 1001);			/* no text came with it */
	open_of(6, 1002);
	batch_encode_string(maker.encoder, 3, "/y", 2);
	open_of(6, 1003);
	maker_end(&maker);
	assert_int_equal(take(), 0);
	intake_flush(intake);
	expect_event(0, 0);
	expect_event(0, 1);
	expect_event(0, 3);
	expect_nothing();
	assert_int_equal(intake_totals(intake)->filtered, 1);
	assert_int_equal(intake_totals(intake)->undecided, 2);
	intake_destroy(intake);
	intake = NULL;
	selection_destroy(selection);
}

/* ---- What is missing --------------------------------------------------------------------------- */

static void begin(uint64_t since_ns)
{
	intake_set_since_time(intake, MAKER_WALL_NS + since_ns);
	intake_check_begin(intake);
}

/* A file's first batch is of 200, in a run of which the host was up for 300 before: it began with that. */
static void file_that_begins_too_late(void **state)
{
	(void)state;
	start(7);
	begin(199);
	maker_batch(&maker, 1, 4, 200, 10, 1);
	assert_int_equal(take(), 0);
	intake_flush(intake);
	expect_gap(1, 4, 0, HISTORY, NOT_RECORDED);
	expect_event(1, 4);
	expect_nothing();
	assert_int_equal(intake_totals(intake)->unknown, 1);
	maker_batch(&maker, 0, 0, 250, 10, 1);	/* it is told once */
	assert_int_equal(take(), 0);
	intake_flush(intake);
	expect_event(0, 0);
}

static void file_that_begins_in_time(void **state)
{
	(void)state;
	start(7);
	begin(UP_NS);
	maker_batch(&maker, 1, 0, 400, 10, 1);	/* the host said hello before: nothing is missing */
	assert_int_equal(take(), 0);
	intake_flush(intake);
	expect_event(1, 0);
	begin(200);
	maker_batch(&maker, 0, 0, 200, 10, 1);
	assert_int_equal(take(), 0);
	intake_flush(intake);
	expect_event(0, 0);
	expect_nothing();
}

/* Times that count from 0 tell nothing; the watermark behind them does. */
static void file_whose_first_batch_has_no_time(void **state)
{
	(void)state;
	start(7);
	begin(100);
	maker_begin(&maker, 0, 0, 0);
	batch_encode_skip(maker.encoder, 3);
	maker_end(&maker);
	assert_int_equal(take(), 0);
	intake_flush(intake);
	expect_nothing();
	maker_watermark(&maker, 150, 3, 0);
	maker_bye(&maker, "x");
	assert_int_equal(take(), 0);
	expect_gap(0, 0, 0, HISTORY, NOT_RECORDED);
}

static void spool_that_begins(uint64_t sequence, uint64_t whole_ns, uint64_t asked_ns, int reason)
{
	segment(sequence, whole_ns ? MAKER_WALL_NS + whole_ns : 0, true);
	segment(9, MAKER_WALL_NS + 5000, true);		/* the first one counts */
	start(7);
	begin(asked_ns);
	maker_batch(&maker, 0, 0, 1000, 10, 1);
	assert_int_equal(take(), 0);
	intake_flush(intake);
	if (reason)
		expect_gap(0, 0, 0, SPOOL, reason);
	else
		intake_set_since_time(intake, 0);
	assert_int_equal(next(), asked_ns > 1000 && reason ? RINGTAIL_TIMEOUT : RINGTAIL_EVENT);
	intake_destroy(intake);
	intake = intake_create(false);
}

/* Its head says since when it is whole, or when it was begun; the first one ever was before nothing. */
static void spool_that_begins_too_late(void **state)
{
	(void)state;
	spool_that_begins(1, 700, 699, NOT_RECORDED);
	spool_that_begins(2, 700, 699, SPOOL_FULL);
	spool_that_begins(2, 700, 700, 0);
	spool_that_begins(2, 0, 899, SPOOL_FULL);
	spool_that_begins(2, 0, 900, 0);
}

/* A stream that was asked for from a time on is whole since then. */
static void recording_of_a_stream_with_a_time(void **state)
{
	Ringtail__V1__Subscribed subscribed = RINGTAIL__V1__SUBSCRIBED__INIT;

	(void)state;
	hello(7);
	maker_catalog(&maker);
	subscribed.from_realtime_ns = MAKER_WALL_NS + 50;
	maker_message(&maker, FRAME_SUBSCRIBED, &subscribed.base);
	subscribed.from_realtime_ns = MAKER_WALL_NS + 90;	/* after a reconnect */
	maker_message(&maker, FRAME_SUBSCRIBED, &subscribed.base);
	begin(50);
	maker_batch(&maker, 0, 0, 200, 10, 1);
	assert_int_equal(take(), 0);
	intake_flush(intake);
	expect_event(0, 0);
}

static void gap_that_promises_too_much(void **state)
{
	(void)state;
	start(7);
	maker_gap(&maker, 0, 0, 10, 11, SPOOL, CORRUPT);
	maker_gap(&maker, 0, 10, 20, 7, SPOOL, CORRUPT);
	assert_int_equal(take(), 0);
	intake_flush(intake);
	expect_gap(0, 0, 10, SPOOL, CORRUPT);
	assert_int_equal(item.events, 10);
	expect_gap(0, 10, 10, SPOOL, CORRUPT);
	assert_int_equal(item.events, 7);
	assert_int_equal(intake_totals(intake)->lost, 17);
	assert_int_equal(intake_totals(intake)->gaps, 2);
	assert_int_equal(intake_totals(intake)->unknown, 0);
}

/* Its numbers are another run's: they fill no hole of this one, and make none. */
static void gap_of_another_epoch(void **state)
{
	(void)state;
	start(7);
	maker_gap(&maker, 0, 500, 510, 0, SPOOL, OTHER_EPOCH);
	maker_batch(&maker, 0, 0, 1000, 10, 2);
	assert_int_equal(take(), 0);
	assert_int_equal(residual(), 0);
}

/* What a failing disk was given up for may be there all the same; then it is not lost. */
static void gap_of_what_came_to_the_disk(void **state)
{
	(void)state;
	segment(1, 0, true);
	start(7);
	maker_batch(&maker, 0, 0, 1000, 10, 8);
	maker_gap(&maker, 0, 0, 8, 0, SPOOL, CORRUPT);
	maker_gap(&maker, 0, 5, 12, 7, SPOOL, CORRUPT);
	maker_gap(&maker, 1, 0, 2, 0, SPOOL, CORRUPT);
	assert_int_equal(take(), 0);
	intake_flush(intake);
	expect_gap(1, 0, 2, SPOOL, CORRUPT);
	for (unsigned i = 0; i < 8; i++)
		expect_event(0, i);
	expect_gap(0, 8, 4, SPOOL, CORRUPT);
	assert_int_equal(item.events, 4);
	expect_nothing();
	assert_int_equal(residual(), 0);
	/* One that begins behind all that came leaves a hole; as does any other gap. */
	maker_gap(&maker, 0, 14, 16, 0, SPOOL, CORRUPT);
	assert_int_equal(take(), 0);
	assert_int_equal(residual(), 2);
	maker_gap(&maker, 0, 14, 18, 0, HISTORY, CORRUPT);
	assert_int_equal(take(), 0);
	assert_int_equal(residual(), 4);
}

/* A stream is no disk: what comes twice there is an error, and is counted as one. */
static void gap_of_what_came_in_a_stream(void **state)
{
	(void)state;
	start(7);
	maker_batch(&maker, 0, 0, 1000, 10, 8);
	maker_gap(&maker, 0, 5, 12, 7, SPOOL, CORRUPT);
	assert_int_equal(take(), 0);
	assert_int_equal(residual(), 3);
}

/* Nothing of it was in a segment before: those numbers were others. */
static void gap_of_another_epoch_behind_a_segment(void **state)
{
	(void)state;
	segment(1, 0, true);
	start(7);
	maker_batch(&maker, 0, 0, 1000, 10, 8);
	segment(2, 0, true);
	start(7);
	maker_gap(&maker, 0, 2, 6, 4, HISTORY, OTHER_EPOCH);
	assert_int_equal(take(), 0);
	intake_flush(intake);
	for (unsigned i = 0; i < 8; i++)
		expect_event(0, i);
	expect_gap(0, 2, 4, HISTORY, OTHER_EPOCH);
	expect_nothing();
}

static void hole_between_segments(void **state)
{
	static const uint64_t later[2] = { 2, 10 };

	(void)state;
	for (unsigned gone = 0; gone < 2; gone++) {
		segment(1, 0, true);
		start(7);
		maker_batch(&maker, 0, 0, 1000, 10, 2);
		maker_batch(&maker, 1, 0, 1000, 10, 3);
		if (gone)
			segment(2, 0, false);
		segment(3, 0, true);
		hello(7);
		maker_catalog(&maker);
		maker_subscribed(&maker, 2, later);
		maker_batch(&maker, 1, 10, 2000, 10, 1);
		maker_subscribed(&maker, 2, (uint64_t[]){ 2, 20 });
		assert_int_equal(take(), 0);
		intake_flush(intake);
		for (unsigned i = 0; i < 5; i++)
			assert_int_equal(next(), RINGTAIL_EVENT);
		expect_gap(1, 3, 7, SPOOL, gone ? SPOOL_FULL : CORRUPT);
		expect_event(1, 10);
		expect_gap(1, 11, 9, SPOOL, CORRUPT);	/* what is gone is told of once */
		assert_int_equal(intake_totals(intake)->unknown, 0);
		assert_int_equal(residual(), 0);
		intake_destroy(intake);
		intake = intake_create(false);
	}
}

/* It stands on a CPU of the run that is over, at the place where that ended. */
static void run_that_ended(void **state)
{
	Ringtail__V1__SegmentEnd end = RINGTAIL__V1__SEGMENT_END__INIT;

	(void)state;
	for (unsigned final = 0; final < 2; final++) {
		segment(1, 0, true);
		hello(7);
		maker_catalog(&maker);
		maker_batch(&maker, 1, 5, 1000, 10, 1);
		end.final = final;
		maker_message(&maker, FRAME_SEGMENT_END, &end.base);
		assert_int_equal(take(), 0);
		assert_true(intake_is_whole(intake));
		segment(2, 0, true);
		hello(8);
		assert_int_equal(take(), 0);
		assert_false(intake_is_whole(intake));
		expect_event(1, 5);
		expect_gap(1, 6, 0, SPOOL, final ? NOT_RECORDED : RESTART);
		expect_nothing();
		assert_int_equal(intake_host(intake)->epoch, 8);
		intake_destroy(intake);
		intake = intake_create(false);
	}
}

/* A batch that breaks off: what it had said that it holds is missing, to the attempt. */
static void batch_that_breaks_off(void **state)
{
	uint8_t raw[4096];
	const uint8_t *made;
	size_t bytes;
	unsigned broken = 0, exact = 0;

	(void)state;
	start(7);
	assert_int_equal(take(), 0);
	maker_begin(&maker, 0, 10, 1000);
	for (unsigned i = 0; i < 8; i++)
		maker_open(&maker, 100, 1000 + 1000 * i * i, i);
	made = batch_encode_finish(maker.encoder, &bytes);
	assert_true(bytes < sizeof(raw));
	memcpy(raw, made, bytes);
	for (size_t i = 0; i < bytes; i++) {
		enum ringtail_kind kind;
		uint64_t had = residual(), events = 0;

		/* The ring's next run begins, at 10 again. */
		hello(8 + i);
		raw[i] ^= 0x80;
		maker_raw(&maker, FRAME_BATCH, raw, bytes);
		raw[i] ^= 0x80;
		error = (struct ringtail_error){ 0 };
		if (take() == 0) {
			intake_flush(intake);
			while ((kind = next()) == RINGTAIL_EVENT)
				events++;
			if (kind == RINGTAIL_ERROR && item.seq < 18 && events < 8) {
				uint64_t missing = residual() - had;

				assert_true(missing > 0);
				assert_string_equal(error.code, "bad-message");
				assert_null(strstr(error.what, "at byte 0:"));
				exact += missing + events == 8;
				broken++;
			}
		}
		while (next() != RINGTAIL_TIMEOUT)
			;
	}
	assert_true(broken > 3);
	assert_true(exact > broken / 2);	/* others say that they end elsewhere */
}

/* It was told as come, and cannot be looked into. */
static void batch_without_memory(void **state)
{
	(void)state;
	start(7);
	assert_int_equal(take(), 0);
	no_decoder = true;
	maker_batch(&maker, 0, 0, 1000, 10, 4);
	assert_int_equal(take(), 0);
	intake_flush(intake);
	assert_int_equal(next(), RINGTAIL_ERROR);
	assert_non_null(strstr(error.what, "out of memory"));
	assert_int_equal(residual(), 4);
	no_decoder = false;
	maker_batch(&maker, 0, 4, 2000, 10, 1);
	assert_int_equal(take(), 0);
	intake_flush(intake);
	expect_event(0, 4);
	assert_int_equal(residual(), 4);
}

/* ---- Whose it is ------------------------------------------------------------------------------- */

static void event_has_its_thread_and_texts(void **state)
{
	struct batch_text exe = { .serial = 1, .data = "/bin/a", .bytes = 6 },
			  cgroup = { .serial = 2, .data = "/c", .bytes = 2 };
	struct batch_thread thread = { .tid = 11, .pid = 12, .ppid = 13, .uid = 14, .kernel = true,
				       .comm = "name", .cgroup_id = 15, .exe = &exe, .cgroup = &cgroup };
	uint64_t field[6] = { 1, 2, 3, 4, 5, 6 }, frame[3] = { 7, 8, 9 }, slot = 0;
	struct batch_event event = { .probe = MAKER_OPENAT, .fields = 6, .has_duration = true,
				     .time_ns = 1000, .field = field };

	(void)state;
	start(7);
	batch_encoder_set_context(maker.encoder, true);
	maker_begin(&maker, 1, 0, 1000);
	event.thread = batch_encode_thread(maker.encoder, &thread, &slot);
	assert_true(batch_encode_event(maker.encoder, &event));
	assert_true(batch_encode_string(maker.encoder, 3, "/etc/x", 6));
	assert_true(batch_encode_stack(maker.encoder, true, frame, 3));
	maker_open(&maker, 100, 1001, 0);
	maker_end(&maker);
	assert_int_equal(take(), 0);
	intake_flush(intake);
	expect_event(1, 0);
	assert_int_equal(item.thread.tid, 11);
	assert_int_equal(item.thread.pid, 12);
	assert_int_equal(item.thread.ppid, 13);
	assert_int_equal(item.thread.uid, 14);
	assert_true(item.thread.kernel);
	assert_string_equal(item.thread.comm, "name");
	assert_int_equal(item.thread.cgroup_id, 15);
	assert_int_equal(item.thread.exe_bytes, 6);
	assert_memory_equal(item.thread.exe, "/bin/a", 6);
	assert_int_equal(item.thread.cgroup_bytes, 2);
	assert_memory_equal(item.thread.cgroup, "/c", 2);
	assert_int_equal(item.attachments, 2);
	assert_int_equal(item.attachment[0].kind, RINGTAIL_ATTACHED_STRING);
	assert_int_equal(item.attachment[0].field, 3);
	assert_int_equal(item.attachment[0].text_bytes, 6);
	assert_memory_equal(item.attachment[0].text, "/etc/x", 6);
	assert_int_equal(item.attachment[1].kind, RINGTAIL_ATTACHED_KSTACK);
	assert_int_equal(item.attachment[1].frames, 3);
	assert_memory_equal(item.attachment[1].frame, frame, sizeof(frame));
	assert_non_null(item.source);
	expect_event(1, 1);
	assert_false(item.thread.kernel);
	assert_int_equal(item.thread.cgroup_id, 0);
	assert_null(item.thread.exe);
	assert_int_equal(item.thread.exe_bytes, 0);
	assert_null(item.thread.cgroup);
	assert_int_equal(item.thread.cgroup_bytes, 0);
	assert_int_equal(item.attachments, 0);
	assert_null(item.attachment);
}

/* ---- The rest ---------------------------------------------------------------------------------- */

static void another_catalog_lets_out_what_waits(void **state)
{
	Ringtail__V1__Catalog small = RINGTAIL__V1__CATALOG__INIT;

	(void)state;
	start(7);
	maker_batch(&maker, 0, 0, 1000, 10, 1);
	maker_catalog(&maker);			/* the same once more changes nothing */
	assert_int_equal(take(), 0);
	expect_nothing();
	maker_message(&maker, FRAME_CATALOG, &small.base);
	assert_int_equal(take(), 0);
	expect_event(0, 0);
	assert_string_equal(item.probe->spec, "syscall:openat:call");
	maker_batch(&maker, 0, 1, 1000, 10, 1);	/* of a probe that is gone */
	assert_int_equal(take(), -EBADMSG);
}

static void totals_add_up(void **state)
{
	uint64_t raw;

	(void)state;
	intake_set_count_only(intake, true);
	start(7);
	assert_int_equal(take(), 0);
	raw = intake_totals(intake)->raw_bytes;
	assert_true(raw > 500);			/* the catalog alone */
	for (unsigned i = 0; i < 2; i++) {
		maker_begin(&maker, 0, 5 * i, 1000);
		batch_encode_loss(maker.encoder, 4, 0, 1);
		maker_open(&maker, 100, 1000, 0);
		maker_end(&maker);
		assert_int_equal(take(), 0);
		assert_int_equal(next(), RINGTAIL_BATCH);
		assert_int_equal(item.count, 1);
	}
	assert_true(intake_totals(intake)->raw_bytes > raw);
	assert_int_equal(intake_totals(intake)->lost, 8);
	assert_int_equal(intake_totals(intake)->events, 2);
	assert_int_equal(intake_totals(intake)->frames, 5);
	assert_int_equal(intake_totals(intake)->cut_short, 0);
	intake_set_cut_short(intake);
	assert_int_equal(intake_totals(intake)->cut_short, 1);
	intake_set_count_only(intake, false);
	maker_batch(&maker, 0, 10, 2000, 10, 1);
	for (unsigned i = 0; i < 2; i++) {
		maker_begin(&maker, 1, i, 1000);
		batch_encode_loss(maker.encoder, 1, 0, 1);
		maker_end(&maker);
	}
	assert_int_equal(take(), 0);
	intake_flush(intake);
	assert_int_equal(next(), RINGTAIL_LOSS);
	assert_int_equal(next(), RINGTAIL_LOSS);
	expect_event(0, 10);
	assert_int_equal(intake_totals(intake)->lost, 10);
	maker_batch(&maker, 1, 2, 1000, 10, 1);
	maker_bye(&maker, "x");
	assert_int_equal(take(), 0);
	expect_event(1, 2);			/* a Bye lets it out, late as it is */
	assert_int_equal(intake_totals(intake)->late, 1);
	assert_true(intake_is_whole(intake));
	assert_true(intake_reached(intake, INTAKE_ENDED));
	assert_true(intake_bye_is_final(intake));
	assert_string_equal(intake_bye(intake), "x");
	intake_restart(intake);
	assert_false(intake_reached(intake, INTAKE_ENDED));
	maker_leave(&maker, "y", false);
	assert_int_equal(take(), -EBADMSG);	/* each connection begins with a hello */
}

/* What waits is of the run, the host and the clock that it came from, until it has been given. */
static void next_run_waits_for_what_came_before(void **state)
{
	(void)state;
	start(7);
	maker_batch(&maker, 0, 0, 1000, 10, 2);
	wall_ns += 500;
	hello(8);
	assert_int_equal(take(), 0);
	assert_int_equal(intake_host(intake)->epoch, 7);
	expect_event(0, 0);
	assert_int_equal(intake_host(intake)->epoch, 7);
	expect_event(0, 1);
	expect_nothing();
	assert_int_equal(intake_host(intake)->epoch, 8);
	assert_int_equal(intake_host(intake)->realtime_ns, wall_ns + UP_NS);
	assert_int_equal(residual(), 0);
}

/* A gap of no size waits for what comes behind it; where nothing does, it is given all the same. */
static void gap_of_no_size_at_the_very_end(void **state)
{
	(void)state;
	start(7);
	maker_batch(&maker, 0, 0, 1000, 10, 1);
	maker_gap(&maker, 1, 0, 0, 0, SPOOL, RESTART);
	assert_int_equal(take(), 0);
	intake_flush(intake);
	assert_int_equal(next(), RINGTAIL_GAP);
	assert_int_equal(item.cpu, 1);
	assert_int_equal(item.reason, RESTART);
	expect_event(0, 0);
	expect_nothing();
	assert_int_equal(intake_totals(intake)->unknown, 1);
}

/* The end of the run would wait in its place: no gap is lost without a word for want of memory. */
static void gap_of_no_size_that_cannot_be_let_go(void **state)
{
	(void)state;
	segment(1, 0, true);
	start(7);
	maker_batch(&maker, 0, 0, 1000, 10, 1);
	maker_gap(&maker, 1, 0, 0, 0, SPOOL, RESTART);
	assert_int_equal(take(), 0);
	segment(2, 0, true);
	hello(8);
	no_push = true;
	error = (struct ringtail_error){ 0 };
	assert_int_equal(take(), -ENOMEM);
	no_push = false;
	assert_string_equal(error.code, "no-memory");
	/* Nor is it given twice. */
	intake_flush(intake);
	expect_event(0, 0);
	expect_nothing();
}

static void watermark_has_a_wall_clock(void **state)
{
	(void)state;
	start(7);
	maker_watermark(&maker, 1500, 0, 0);
	assert_int_equal(take(), 0);
	assert_int_equal(intake_next(intake, &item, &error), RINGTAIL_WATERMARK);
	assert_int_equal(item.time_ns, 1500);
	assert_int_equal(item.realtime_ns, MAKER_WALL_NS + 1500);
	expect_nothing();
	/* Which may have been set meanwhile, as the next hello says. */
	wall_ns += 50;
	hello(7);
	maker_batch(&maker, 0, 0, 1590, 10, 1);
	maker_watermark(&maker, 1600, 1, 0);
	assert_int_equal(take(), 0);
	expect_event(0, 0);			/* and lets out what is older */
	assert_int_equal(intake_next(intake, &item, &error), RINGTAIL_WATERMARK);
	assert_int_equal(item.realtime_ns, MAKER_WALL_NS + 1650);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

/* Wherever memory ends, there is no intake, and nothing of one. */
static void no_memory_for_an_intake(void **state)
{
	struct intake *made = NULL;
	unsigned n = 0;

	(void)state;
	for (; !made; n++) {
		assert_true(n < 50);
		allocations_left = n;
		failures_left = 1;
		made = intake_create(false);
		failures_left = allocations_left = 0;
	}
	assert_true(n > 4);
	intake_destroy(made);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(no_memory_for_an_intake),
		TEST(goes_on_at_a_cursor),
		TEST(gap_that_a_cursor_divides),
		TEST(losses_that_a_cursor_divides),
		TEST(cursor_of_which_run),
		TEST(no_cursor_any_more),
		TEST(place_is_never_before_the_cursor),
		TEST(daemon_says_where_it_goes_on),
		TEST(acknowledgement_of_too_much),
		TEST(bounds_of_frames),
		TEST(span_of_time),
		TEST(lost_before_the_span),
		TEST(no_span_of_time),
		TEST(selected),
		TEST(file_that_begins_too_late),
		TEST(file_that_begins_in_time),
		TEST(file_whose_first_batch_has_no_time),
		TEST(spool_that_begins_too_late),
		TEST(recording_of_a_stream_with_a_time),
		TEST(gap_that_promises_too_much),
		TEST(gap_of_another_epoch),
		TEST(gap_of_what_came_to_the_disk),
		TEST(gap_of_what_came_in_a_stream),
		TEST(gap_of_another_epoch_behind_a_segment),
		TEST(hole_between_segments),
		TEST(run_that_ended),
		TEST(batch_that_breaks_off),
		TEST(batch_without_memory),
		TEST(event_has_its_thread_and_texts),
		TEST(another_catalog_lets_out_what_waits),
		TEST(totals_add_up),
		TEST(next_run_waits_for_what_came_before),
		TEST(gap_of_no_size_at_the_very_end),
		TEST(gap_of_no_size_that_cannot_be_let_go),
		TEST(watermark_has_a_wall_clock),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
