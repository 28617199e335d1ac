/*
 * A past: what a stream is given out of another subscription's record, and where its own log takes over: each
 * attempt once, the other's gaps and times in their place, and turns with a bound. What filters the frames is
 * this test: it takes all of them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "daemon/base/limits.h"
#include "daemon/stream/past.h"
#include "daemon/stream/rebatch.h"
#include "daemon/stream/subscriber.h"
#include "tests/unit/daemon/small_catalog.h"

#define RINGS 2
#define LAG_BYTES 4000

static const uint32_t cpu_of[RINGS] = {3, 5};
static bool no_memory;			/* for a frame that is filtered */

/* ---- What filters -------------------------------------------------------------------------------- */

struct rebatch {
	struct frame_codec *codec;
};

struct rebatch *__wrap_rebatch_create(const struct subscription *wanted, const Ringtail__V1__Catalog *catalog,
				      struct frame_codec *codec, struct batch_encoder *encoder);
struct rebatch *__wrap_rebatch_create(const struct subscription *wanted, const Ringtail__V1__Catalog *catalog,
				      struct frame_codec *codec, struct batch_encoder *encoder)
{
	struct rebatch *rebatch = calloc(1, sizeof(*rebatch));

	(void)wanted, (void)catalog;
	assert_non_null(encoder);
	rebatch->codec = codec;
	return rebatch;
}

void __wrap_rebatch_destroy(struct rebatch *rebatch);
void __wrap_rebatch_destroy(struct rebatch *rebatch)
{
	free(rebatch);
}

static bool learns_blind, hides_programs;

bool __wrap_rebatch_learn(struct rebatch *rebatch, const struct frame_ref *catalog);
bool __wrap_rebatch_learn(struct rebatch *rebatch, const struct frame_ref *catalog)
{
	(void)rebatch;
	assert_int_equal(catalog->type, FRAME_CATALOG);
	return true;
}

bool __wrap_rebatch_is_blind(const struct rebatch *rebatch);
bool __wrap_rebatch_is_blind(const struct rebatch *rebatch)
{
	(void)rebatch;
	return learns_blind;
}

bool __wrap_rebatch_hides_programs(const struct rebatch *rebatch);
bool __wrap_rebatch_hides_programs(const struct rebatch *rebatch)
{
	(void)rebatch;
	return hides_programs;
}

struct frame_ref *__wrap_rebatch_frame(struct rebatch *rebatch, struct frame_ref *frame, uint64_t from, uint64_t end);
struct frame_ref *__wrap_rebatch_frame(struct rebatch *rebatch, struct frame_ref *frame, uint64_t from, uint64_t end)
{
	struct frame_ref *made, part;

	(void)rebatch;
	if (no_memory)
		return NULL;
	rebatch_cut(frame, from, end, &part);
	made = frame_ref_create(part.type, part.bytes);
	made->ring = part.ring;
	made->cpu = part.cpu;
	made->first_seq = part.first_seq;
	made->end_seq = part.end_seq;
	made->events = part.events;
	made->skipped = part.skipped;
	return made;
}

/* ---- Both records, and who reads them ------------------------------------------------------------ */

struct fixture {
	struct event_base *base;
	struct past_turns *turns;
	struct frame_codec *codec;
	struct subscription *donor, *own;
	struct stream *from, *stream;
	struct subscriber subscriber;
	unsigned woken;
	char said[2048];
};

static void wake(void *context)
{
	((struct fixture *)context)->woken++;
}

static void __attribute__((format(printf, 2, 3))) say(struct fixture *f, const char *format, ...)
{
	size_t used = strlen(f->said);
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(f->said + used, sizeof(f->said) - used, format, arguments);
	va_end(arguments);
}

static void expect_said(struct fixture *f, const char *said)
{
	assert_string_equal(f->said, said);
	f->said[0] = '\0';
}

static struct subscription *make_subscription(uint64_t place0, uint64_t place1)
{
	static const char *const glob[] = {"syscall:read:call"};
	struct subscription_request request = {.glob = glob, .globs = 1};
	struct subscription *made;
	struct error error;

	assert_int_equal(subscription_create(&request, small_catalog_get(), RINGS, 1 << 24, &made, &error), 0);
	made->position[0] = made->floor[0] = place0;
	made->position[1] = made->floor[1] = place1;
	return made;
}

static void append(struct subscription *to, unsigned ring, uint64_t attempts, bool events, uint32_t bytes)
{
	struct frame_ref *frame = frame_ref_create(FRAME_BATCH, events ? bytes : 0);

	memset(frame->data, 0, frame->bytes);
	frame->ring = ring;
	frame->cpu = cpu_of[ring];
	frame->first_seq = to->position[ring];
	frame->end_seq = frame->first_seq + attempts;
	frame->events = events ? attempts : 0;
	frame->skipped = events ? 0 : attempts;
	subscription_append(to, frame);
}

static void append_mark(struct subscription *to, uint64_t time_ns)
{
	struct frame_ref *frame = frame_ref_create(FRAME_WATERMARK, 20);

	memset(frame->data, 0, 20);
	frame->time_ns = time_ns;
	subscription_append(to, frame);
}

/* The other's record begins at 0, the own one at these places. */
static void open_all(struct fixture *f, uint64_t place0, uint64_t place1)
{
	*f = (struct fixture){.base = event_base_new(), .codec = frame_codec_create(1)};
	no_memory = false;
	f->turns = past_turns_create(f->base);
	assert_non_null(f->turns);
	f->donor = make_subscription(0, 0);
	f->own = make_subscription(place0, place1);
	f->from = stream_create(f->donor, f->codec, cpu_of, LAG_BYTES, NULL, LOSS_REASON_UNKNOWN);
	f->subscriber = (struct subscriber){.wake = wake, .context = f};
}

static void begin(struct fixture *f, bool whole)
{
	f->stream = stream_create(f->own, f->codec, cpu_of, 1 << 20, NULL, LOSS_REASON_UNKNOWN);
	f->stream->subscriber = &f->subscriber;
	assert_int_equal(past_begin(f->turns, f->stream, f->from, whole, small_catalog_get()), 0);
}

static void close_all(struct fixture *f)
{
	stream_destroy(f->stream);
	subscription_destroy(f->own);
	subscription_destroy(f->donor);
	past_turns_destroy(f->turns);
	past_turns_destroy(NULL);
	frame_codec_destroy(f->codec);
	event_base_free(f->base);
}

static void check_ledger(struct fixture *f)
{
	struct stream_stat stat;

	stream_stat(f->stream, &stat);
	assert_int_equal(stat.residual, 0);
}

static void say_message(struct fixture *f, const struct frame_ref *frame)
{
	struct frame_header header;
	uint8_t raw[1024];
	const uint8_t *body;

	assert_int_equal(frame_parse_header(frame->data, frame->bytes, sizeof(raw), &header), FRAME_OK);
	assert_int_equal(frame_open(f->codec, frame->data, &header, raw, &body), FRAME_OK);
	if (frame->type == FRAME_GAP) {
		Ringtail__V1__Gap *gap = ringtail__v1__gap__unpack(NULL, header.raw_bytes, body);

		say(f, "gap %u:%llu-%llu of %llu, ", gap->cpu, (unsigned long long)gap->first_seq,
		    (unsigned long long)gap->end_seq, (unsigned long long)gap->events);
		ringtail__v1__gap__free_unpacked(gap, NULL);
	} else {
		Ringtail__V1__Watermark *mark = ringtail__v1__watermark__unpack(NULL, header.raw_bytes, body);

		say(f, "places at %llu", (unsigned long long)mark->time_ns);
		for (size_t i = 0; i < mark->n_position; i++)
			say(f, " %u:%llu+%llu", mark->position[i]->cpu, (unsigned long long)mark->position[i]->seq,
			    (unsigned long long)mark->position[i]->skipped);
		say(f, ", ");
		ringtail__v1__watermark__free_unpacked(mark, NULL);
	}
}

static void on_tell(void *context, struct frame_ref *frame)
{
	say_message(context, frame);
	frame_ref_put(frame);
}

/* As its client does, until nothing has come for a few times; its turns come meanwhile. */
static void take_all(struct fixture *f)
{
	for (unsigned idle = 0, i = 0; idle < 3 && i < 10000; i++) {
		struct frame_ref *frame[4];
		unsigned n = stream_peek(f->stream, frame, 4, on_tell, f);

		idle = n ? 0 : idle + 1;
		if (!n)
			event_base_loop(f->base, EVLOOP_ONCE);
		check_ledger(f);
		for (unsigned k = 0; k < n; k++) {
			if (frame_ref_is_range(frame[k]))
				say(f, "%u:%llu-%llu, ", frame[k]->cpu, (unsigned long long)frame[k]->first_seq,
				    (unsigned long long)frame[k]->end_seq);
			else
				say(f, "mark%llu, ", (unsigned long long)frame[k]->time_ns);
			stream_sent(f->stream);
			check_ledger(f);
		}
	}
}

/* ---- What comes ---------------------------------------------------------------------------------- */

/* A record that has not all that is wanted is good up to where the own one begins, be that amid a frame. */
static void the_log_takes_over_where_it_begins(void **state)
{
	struct fixture f;

	(void)state;
	open_all(&f, 15, 20);
	append(f.donor, 0, 10, true, 100);
	append(f.donor, 0, 10, true, 100);
	append(f.donor, 1, 20, true, 100);
	append(f.own, 0, 5, true, 100);
	append(f.own, 1, 5, true, 100);
	begin(&f, false);
	take_all(&f);
	expect_said(&f, "3:0-10, 3:10-15, 5:0-20, places at 0 3:15+0 5:20+0, 3:15-20, 5:20-25, ");
	assert_null(f.stream->past);
	close_all(&f);
}

/* Of a record that has all, what both have comes once, out of that. */
static void what_both_have_comes_once(void **state)
{
	struct fixture f;

	(void)state;
	open_all(&f, 10, 0);
	append(f.donor, 0, 10, true, 100);
	append(f.donor, 0, 10, true, 100);
	append(f.donor, 1, 4, false, 0);
	append_mark(f.donor, 70);
	append(f.own, 0, 5, true, 100);
	append(f.own, 0, 20, true, 100);
	append(f.own, 1, 4, false, 0);
	append_mark(f.own, 60);
	append(f.own, 1, 3, true, 100);
	begin(&f, true);
	take_all(&f);
	expect_said(&f, "3:0-10, 3:10-20, mark70, 3:20-35, places at 70 3:35+0 5:4+0, 5:4-7, ");
	close_all(&f);
}

/* What the other gave up is a gap in its place, with the time that the other had come to. */
static void the_others_gap_is_told_in_its_place(void **state)
{
	struct fixture f;

	(void)state;
	open_all(&f, 100, 0);
	append(f.donor, 0, 10, true, 100);
	append_mark(f.donor, 70);
	begin(&f, true);
	take_all(&f);
	expect_said(&f, "3:0-10, mark70, ");
	for (unsigned i = 0; i < 9; i++) {
		append(f.donor, 0, 10, true, 1000);
		if (i == 3)
			append_mark(f.donor, 75);
	}
	append_mark(f.donor, 80);
	take_all(&f);
	expect_said(&f, "gap 3:10-90 of 80, places at 75 3:90+0 5:0+0, 3:90-100, mark80, "
			"places at 80 3:100+0 5:0+0, ");
	assert_int_equal(f.stream->frames_dropped, 8);
	close_all(&f);
}

/* What nobody knows the size of is told as well, once. */
static void what_the_other_misses_is_told(void **state)
{
	struct fixture f;

	(void)state;
	open_all(&f, 10, 0);
	append(f.donor, 0, 10, true, 100);
	begin(&f, true);
	stream_miss(f.from, LOSS_REASON_NOT_RECORDED);
	take_all(&f);
	expect_said(&f, "gap 3:0-0 of 0, places at 0 3:0+0 5:0+0, 3:0-10, places at 0 3:10+0 5:0+0, ");
	close_all(&f);
}

/* Nothing is passed over, and it asks for no turn in vain: it is taken up when there is memory. */
static void without_memory_it_waits(void **state)
{
	struct fixture f;

	(void)state;
	open_all(&f, 10, 0);
	append(f.donor, 0, 10, true, 100);
	append(f.own, 0, 5, true, 100);
	begin(&f, false);
	no_memory = true;
	take_all(&f);
	expect_said(&f, "");
	assert_false(stream_has_work(f.stream));
	no_memory = false;
	take_all(&f);
	expect_said(&f, "3:0-10, places at 0 3:10+0 5:0+0, 3:10-15, ");
	close_all(&f);
}

/* Each turn has so many bytes; behind that it waits for its next one, and is woken then. */
static void turns_have_a_bound(void **state)
{
	struct frame_ref *frame[4];
	struct fixture f;

	(void)state;
	open_all(&f, 40, 0);
	f.from->lag_bytes_max = 4 * PAST_TURN_BYTES;
	for (unsigned i = 0; i < 4; i++)
		append(f.donor, 0, 10, true, PAST_TURN_BYTES / 4 * 3);
	begin(&f, false);
	for (unsigned turn = 0; turn < 2; turn++) {
		assert_int_equal(stream_peek(f.stream, frame, 4, on_tell, &f), 0);
		assert_false(stream_has_work(f.stream));
		assert_int_equal(f.woken, turn);
		event_base_loop(f.base, EVLOOP_ONCE);
		assert_int_equal(f.woken, turn + 1);
		assert_true(stream_has_work(f.stream));
		assert_int_equal(stream_peek(f.stream, frame, 4, on_tell, &f), 2);
		assert_int_equal(frame[0]->first_seq, 20 * turn);
		for (unsigned i = 0; i < 2; i++)
			stream_sent(f.stream);
		check_ledger(&f);
	}
	close_all(&f);
}

static void append_bare(struct subscription *to, enum frame_type type)
{
	subscription_append(to, frame_ref_create(type, 20));
}

/* What of an earlier run is not shown, or cannot be understood, is missed: so the stream says. */
static void what_is_not_shown_is_missed(void **state)
{
	static const struct {
		bool earlier, blind, hides, missed;
	} cases[] = {
		{true, false, false, false}, {true, true, false, true}, {true, false, true, true},
		{false, false, true, false}, {false, true, false, true},
	};

	(void)state;
	for (unsigned i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct fixture f;

		open_all(&f, 10, 10);
		learns_blind = cases[i].blind;
		hides_programs = cases[i].hides;
		if (cases[i].earlier)
			append_bare(f.donor, FRAME_SERVER_HELLO);
		append_bare(f.donor, FRAME_CATALOG);
		append(f.donor, 0, 10, true, 100);
		append(f.donor, 1, 10, true, 100);
		begin(&f, false);
		take_all(&f);
		assert_int_equal(strstr(f.said, "gap 3:10-10 of 0, ") != NULL, cases[i].missed);
		close_all(&f);
	}
	learns_blind = hides_programs = false;
}

/*
 * At the seam the log gives up what comes next, and what was read of it waits. A place behind both, told before what
 * waits, would make a client take that for skipped, and then for what it had.
 */
static void what_waits_is_told_before_what_the_log_gave_up(void **state)
{
	struct frame_ref *frame[4];
	struct fixture f;

	(void)state;
	open_all(&f, 10, 10);
	append(f.donor, 1, 10, true, 100);
	append(f.donor, 0, 30, true, 100);
	append(f.own, 1, 4, true, 100);
	append(f.own, 0, 10, true, 100);
	begin(&f, true);
	while (stream_peek(f.stream, frame, 4, on_tell, &f) < 2)
		event_base_loop(f.base, EVLOOP_ONCE);
	stream_sent(f.stream);
	stream_sent(f.stream);
	assert_int_equal(stream_peek(f.stream, frame, 4, on_tell, &f), 1);
	assert_int_equal(frame[0]->first_seq, 10);
	frame_log_set_bytes_max(f.own->log, 1);
	append(f.own, 1, 4, false, 0);
	append(f.own, 0, 5, true, 100);
	frame_log_set_bytes_max(f.own->log, 1 << 20);
	check_ledger(&f);
	take_all(&f);
	append(f.own, 1, 3, true, 100);
	append(f.own, 0, 10, true, 100);
	take_all(&f);
	expect_said(&f, "5:10-14, places at 0 3:30+0 5:18+4, 5:18-21, 3:30-35, places at 0 3:35+0 5:21+0, ");
	close_all(&f);
}

/* ---- Anything, in any order ------------------------------------------------------------------------ */

#define ATTEMPTS 300u
#define HISTORIES 200u

/* Of each attempt of a ring: whether it is an event, and how it was told. */
static struct line {
	bool event[ATTEMPTS], told[ATTEMPTS];
	uint64_t at;			/* what comes next begins here, or behind it */
} line[RINGS];
static uint64_t gap_attempts;

static unsigned dice(unsigned *seed, unsigned sides)
{
	return (unsigned)rand_r(seed) % sides;
}

static void draw_lines(unsigned *seed)
{
	memset(line, 0, sizeof(line));
	gap_attempts = 0;
	for (unsigned ring = 0; ring < RINGS; ring++)
		for (unsigned i = 0, n; i < ATTEMPTS; i += n) {
			bool event = dice(seed, 3);

			n = 1 + dice(seed, 20);
			for (unsigned k = i; event && k < i + n && k < ATTEMPTS; k++)
				line[ring].event[k] = true;
		}
}

/* The next of these attempts, as a frame of that record; another one divides them in another way. */
static void append_some(struct subscription *to, unsigned *seed, unsigned ring)
{
	uint64_t first = to->position[ring];
	unsigned n = 1, most = 1 + dice(seed, 25);

	if (first == ATTEMPTS)
		return;
	while (n < most && first + n < ATTEMPTS && line[ring].event[first + n] == line[ring].event[first])
		n++;
	append(to, ring, n, line[ring].event[first], 40 + dice(seed, 600));
}

static void note_told(unsigned cpu, uint64_t first, uint64_t end)
{
	struct line *of = &line[cpu == cpu_of[1]];

	assert_true(first >= of->at && end <= ATTEMPTS);
	for (uint64_t i = of->at; i < first; i++)
		assert_false(of->event[i]);
	for (uint64_t i = first; i < end; i++) {
		assert_false(of->told[i]);
		of->told[i] = true;
	}
	of->at = end;
}

static void on_tell_line(void *context, struct frame_ref *frame)
{
	struct fixture *f = context;
	unsigned cpu = 0;
	unsigned long long first = 0, end = 0, events = 0;

	f->said[0] = '\0';
	say_message(f, frame);
	if (frame->type == FRAME_GAP) {
		assert_int_equal(sscanf(f->said, "gap %u:%llu-%llu of %llu", &cpu, &first, &end, &events), 4);
		note_told(cpu, first, end);
		gap_attempts += end - first;
	}
	frame_ref_put(frame);
}

/* Some frames, of which some are sent. */
static bool take_some(struct fixture *f, unsigned peeked, unsigned sent)
{
	struct frame_ref *frame[4];
	unsigned n = stream_peek(f->stream, frame, peeked, on_tell_line, f);

	check_ledger(f);
	for (unsigned i = 0; i < n && i < sent; i++) {
		if (frame_ref_is_range(frame[i]) && frame[i]->bytes)
			note_told(frame[i]->cpu, frame[i]->first_seq, frame[i]->end_seq);
		stream_sent(f->stream);
		check_ledger(f);
	}
	return n;
}

static void something_happens(struct fixture *f, unsigned *seed, uint64_t *time_ns)
{
	unsigned what = dice(seed, 10);

	if (what < 4)
		append_some(f->donor, seed, dice(seed, RINGS));
	else if (what < 7)
		append_some(f->own, seed, dice(seed, RINGS));
	else if (what == 7)
		append_mark(dice(seed, 2) ? f->donor : f->own, ++*time_ns);
	else
		take_some(f, 1 + dice(seed, 4), dice(seed, 5));
	check_ledger(f);
}

static void append_rest(struct fixture *f, unsigned *seed)
{
	for (unsigned ring = 0; ring < RINGS; ring++) {
		while (f->donor->position[ring] < ATTEMPTS)
			append_some(f->donor, seed, ring);
		while (f->own->position[ring] < ATTEMPTS)
			append_some(f->own, seed, ring);
	}
}

/*
 * Whatever the other's record has, and the log, and however little of either is kept: each attempt is told once, in
 * its place, and the ledger closes after each step.
 */
static void history(unsigned seed)
{
	uint64_t time_ns = 0;
	struct fixture f;
	unsigned first = seed;
	bool whole = dice(&seed, 2);

	draw_lines(&seed);
	open_all(&f, dice(&seed, 120), dice(&seed, 120));
	if (first % 2 != 0)
		f.from->lag_bytes_max = 1 << 20;
	for (unsigned ring = 0; ring < RINGS; ring++)
		while (f.donor->position[ring] < f.own->position[ring] + dice(&seed, 30))
			append_some(f.donor, &seed, ring);
	if (first % 3 == 0)
		frame_log_set_bytes_max(f.own->log, 2500);
	begin(&f, whole);
	take_some(&f, 4, 0);
	event_base_loop(f.base, EVLOOP_ONCE);	/* its turn, which is longer than all of this */
	for (unsigned i = 0; i < 150; i++)
		something_happens(&f, &seed, &time_ns);
	append_rest(&f, &seed);
	if (first % 4 == 0)
		append_bare(f.own, FRAME_BYE);
	for (unsigned idle = 0; idle < 20;)
		idle = take_some(&f, 4, 4) ? 0 : idle + 1;
	assert_null(f.stream->past);
	for (unsigned ring = 0; ring < RINGS; ring++)
		for (unsigned i = 0; i < ATTEMPTS; i++)
			assert_true(line[ring].told[i] || !line[ring].event[i]);
	if (first % 3 && first % 2)
		assert_int_equal(gap_attempts, 0);
	close_all(&f);
}

static void anything_in_any_order(void **state)
{
	(void)state;
	for (unsigned seed = 1; seed <= HISTORIES; seed++) {
		if (getenv("RINGTAIL_SEED") && seed != strtoul(getenv("RINGTAIL_SEED"), NULL, 0))
			continue;
		history(seed);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_log_takes_over_where_it_begins),
		cmocka_unit_test(what_both_have_comes_once),
		cmocka_unit_test(the_others_gap_is_told_in_its_place),
		cmocka_unit_test(what_the_other_misses_is_told),
		cmocka_unit_test(without_memory_it_waits),
		cmocka_unit_test(turns_have_a_bound),
		cmocka_unit_test(what_is_not_shown_is_missed),
		cmocka_unit_test(what_waits_is_told_before_what_the_log_gave_up),
		cmocka_unit_test(anything_in_any_order),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
