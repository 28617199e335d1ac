/*
 * What becomes of a request by what its back end answers, and for how long: busy, away, refusing
 * whoever sends, refusing one event of many, saying half of an answer. And that what waits is
 * bounded, and no more to look at the more there is.
 *
 * The back end is this test: what is posted is answered here, and time is what the test says.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <time.h>

#include <cmocka.h>

#include "daemon/base/clock.h"
#include "daemon/base/counters.h"
#include "daemon/base/limits.h"
#include "daemon/export/http.h"
#include "daemon/export/sender.h"
#include "proto/batch_encode.h"
#include "tests/unit/daemon/export_make.h"

#define SLOW_NS 1000000u
#define EVENTS_MAX 512u

static uint64_t now_ns = 1000 * NS_PER_S;
static struct export_post post;
static bool posted, post_fails;
static unsigned posts, bytes_posted;

uint64_t __wrap_clock_monotonic(void);
struct export_call *__wrap_export_http_post(struct export_http *http,
					    const struct export_post *from);
void __wrap_export_http_cancel(struct export_call *call);

uint64_t __wrap_clock_monotonic(void)
{
	return now_ns;
}

struct export_call *__wrap_export_http_post(struct export_http *http, const struct export_post *from)
{
	(void)http;
	assert_false(posted);		/* one at a time */
	if (post_fails)
		return NULL;
	post = *from;
	posted = true;
	posts++;
	bytes_posted += (unsigned)from->bytes;
	return (struct export_call *)&post;
}

void __wrap_export_http_cancel(struct export_call *call)
{
	assert_ptr_equal(call, &post);
	posted = false;
}

static bool compress_fails;		/* the next time */
static uint64_t wakes_us;		/* when the timer was set to, at last */

int __real_export_compress(enum export_encoding encoding, const uint8_t *in, size_t in_bytes, uint8_t **out,
			   size_t *out_bytes);
int __wrap_export_compress(enum export_encoding encoding, const uint8_t *in, size_t in_bytes, uint8_t **out,
			   size_t *out_bytes);

int __wrap_export_compress(enum export_encoding encoding, const uint8_t *in, size_t in_bytes, uint8_t **out,
			   size_t *out_bytes)
{
	bool fails = compress_fails;

	compress_fails = false;
	return fails ? -ENOMEM : __real_export_compress(encoding, in, in_bytes, out, out_bytes);
}

int __real_event_add(struct event *event, const struct timeval *after);
int __wrap_event_add(struct event *event, const struct timeval *after);

int __wrap_event_add(struct event *event, const struct timeval *after)
{
	wakes_us = (uint64_t)after->tv_sec * 1000000 + (uint64_t)after->tv_usec;
	return __real_event_add(event, after);
}

struct fixture {
	struct event_base *base;
	struct export_host *host;
	const struct export_kind *kind;
	struct export_sender *sender;
	uint64_t serial;
	unsigned changes;
	uint64_t duration_ns;		/* of the calls that are given */
	uint64_t age_ns;		/* of the metrics */
	bool accepted[EVENTS_MAX];
};

static void count_change(void *context)
{
	((struct fixture *)context)->changes++;
}

static const char *const header[] = {"X-Mine: 1", "Authorization: mine"};

static void open_sender(struct fixture *fixture, const struct export_kind *kind, const char *url,
			bool spooled, uint64_t queue_bytes)
{
	const struct export_sender_config config = {
		.base = fixture->base, .host = fixture->host, .kind = kind, .name = "here",
		.url = url, .queue_bytes_max = queue_bytes, .timeout_ns = 7 * NS_PER_S,
		.headers = header, .headers_count = sizeof(header) / sizeof(header[0]),
		.spooled = spooled, .changed = count_change, .context = fixture,
	};

	export_sender_destroy(fixture->sender);
	posted = false;
	posts = bytes_posted = 0;
	fixture->serial = 0;
	fixture->kind = kind;
	fixture->sender = export_sender_create(&config);
	assert_non_null(fixture->sender);
}

static int make(void **state)
{
	struct fixture *fixture = calloc(1, sizeof(*fixture));

	assert_non_null(fixture);
	fixture->base = event_base_new();
	fixture->host = make_host(SLOW_NS, NULL);
	fixture->duration_ns = SLOW_NS;
	open_sender(fixture, &export_otlp_logs, "http://there/v1/logs", true, 1 << 30);
	*state = fixture;
	return 0;
}

static int unmake(void **state)
{
	struct fixture *fixture = *state;

	export_sender_destroy(fixture->sender);
	export_host_destroy(fixture->host);
	event_base_free(fixture->base);
	free(fixture);
	return 0;
}

/* ---- What is given --------------------------------------------------------------------------- */

/* Beyond all. */
static void give_watermark(struct fixture *fixture)
{
	Ringtail__V1__Watermark watermark = RINGTAIL__V1__WATERMARK__INIT;
	struct frame_codec *codec = frame_codec_create(1);
	uint8_t message[64], frame[256];
	size_t bytes;

	watermark.time_ns = UINT64_MAX / 2;
	bytes = ringtail__v1__watermark__pack(&watermark, message);
	bytes = frame_seal(codec, FRAME_WATERMARK, message, (uint32_t)bytes, frame);
	export_sender_frame(fixture->sender, ++fixture->serial, frame, bytes, 0);
	frame_codec_destroy(codec);
}

/* A batch of slow calls whose third field counts from `first`. */
static void give(struct fixture *fixture, unsigned events, uint64_t first)
{
	struct batch_encoder *encoder = batch_encoder_create(MAKE_PROBES);
	struct frame_codec *codec = frame_codec_create(1);
	const struct batch_thread thread = {.tid = 7, .pid = 7, .ppid = 1, .comm = "worker"};
	const uint8_t *message;
	uint64_t slot = 0;
	uint8_t *frame;
	size_t bytes;

	batch_encode_begin(encoder, 0, 1, 0);
	for (unsigned i = 0; i < events; i++) {
		const uint64_t field[3] = {fixture->duration_ns, i, first + i};
		struct batch_event event = {.probe = MAKE_OPENAT, .fields = 3, .field = field,
					    .has_duration = true, .time_ns = 2 * SLOW_NS + i};

		event.thread = batch_encode_thread(encoder, &thread, &slot);
		assert_true(batch_encode_event(encoder, &event));
	}
	message = batch_encode_finish(encoder, &bytes);
	frame = malloc(frame_bound((uint32_t)bytes));
	bytes = frame_seal(codec, FRAME_BATCH, message, (uint32_t)bytes, frame);
	export_sender_frame(fixture->sender, ++fixture->serial, frame, bytes, events);
	free(frame);
	frame_codec_destroy(codec);
	batch_encoder_destroy(encoder);
}

static void give_and_flush(struct fixture *fixture, unsigned events)
{
	give(fixture, events, 0);
	export_sender_flush(fixture->sender);
}

/* ---- What is answered ------------------------------------------------------------------------ */

static void say(struct fixture *fixture, struct export_answer answer)
{
	(void)fixture;
	assert_true(posted);
	posted = false;
	post.done(post.context, &answer);
}

static void say_status(struct fixture *fixture, long status, const char *text)
{
	say(fixture, (struct export_answer){.status = status, .sent = true,
					    .body = (const uint8_t *)text, .bytes = strlen(text)});
}

/* As its timer would: all has been flushed, so nothing is there to be flushed. */
static void wake(struct fixture *fixture)
{
	export_sender_flush(fixture->sender);
}

/* Later: nothing goes out before that, and something then. */
static void wait_for_post(struct fixture *fixture, uint64_t least_ns, uint64_t most_ns)
{
	assert_false(posted);
	now_ns += least_ns - 1;
	wake(fixture);
	assert_false(posted);
	now_ns += most_ns - least_ns + 1;
	wake(fixture);
	assert_true(posted);
}

/* The body under way, as it was before it was compressed; to be freed. */
static uint8_t *read_body(const struct fixture *fixture, size_t *bytes)
{
	uint8_t *raw;

	assert_int_equal(export_compress_undo(fixture->kind->encoding, post.body, post.bytes, &raw,
					      bytes), 0);
	return raw;
}

/* Of the events in the body under way: the numbers that they have as third field; how many. */
static unsigned read_numbers(const struct fixture *fixture, uint64_t number[EVENTS_MAX])
{
	static const char before[] = "(dfd=";
	unsigned n = 0;
	size_t bytes;
	uint8_t *raw = read_body(fixture, &bytes), *at = raw;

	while ((at = memmem(at, bytes - (size_t)(at - raw), before, strlen(before)))) {
		assert_true(n < EVENTS_MAX);
		at += strlen(before);
		number[n++] = strtoull((char *)at, NULL, 10);
	}
	free(raw);
	return n;
}

static bool holds(const struct fixture *fixture, uint64_t wanted)
{
	uint64_t number[EVENTS_MAX];

	for (unsigned i = read_numbers(fixture, number); i-- > 0;)
		if (number[i] == wanted)
			return true;
	return false;
}

static void note_accepted(struct fixture *fixture)
{
	uint64_t number[EVENTS_MAX];

	for (unsigned i = read_numbers(fixture, number); i-- > 0;) {
		assert_false(fixture->accepted[number[i]]);
		fixture->accepted[number[i]] = true;
	}
}

static void check_counts(struct fixture *fixture, uint64_t taken, uint64_t accepted,
			 uint64_t rejected, uint64_t queued)
{
	const struct export_counts *counts = export_sender_counts(fixture->sender);

	assert_int_equal(counts->taken, taken);
	assert_int_equal(counts->accepted, accepted);
	assert_int_equal(counts->rejected, rejected);
	assert_int_equal(counts->expired + counts->memory + counts->filtered, 0);
	assert_int_equal(counts->queued, queued);
}

/* ---- Tests ----------------------------------------------------------------------------------- */

/* What is not worth sending is counted, of each frame that brings some. */
static void test_not_worth_sending(void **state)
{
	struct fixture *fixture = *state;
	const struct export_counts *counts;

	give_and_flush(fixture, 5);
	fixture->duration_ns = 1;
	give_and_flush(fixture, 7);
	give_and_flush(fixture, 4);
	fixture->duration_ns = SLOW_NS;
	give_and_flush(fixture, 2);
	counts = export_sender_counts(fixture->sender);
	assert_int_equal(counts->taken, 18);
	assert_int_equal(counts->filtered, 11);
	assert_int_equal(counts->queued, 7);
}

/* However often it is said: not the fourth time, nor the hundredth, is anything given up. */
static void test_busy_or_broken_is_tried_for_ever(void **state)
{
	static const long status[] = {429, 500, 501, 502, 503, 504, 505, 507, 599, 408, 0};
	struct fixture *fixture = *state;

	give_and_flush(fixture, 20);
	for (unsigned i = 0; i < 100; i++) {
		uint64_t most = i < 7 ? (uint64_t)EXPORT_RETRY_NS_MIN << i : EXPORT_RETRY_NS_MAX;

		say_status(fixture, status[i % 11], "empty ring");
		check_counts(fixture, 20, 0, 0, 20);
		assert_int_equal(export_sender_counts(fixture->sender)->state, EXPORT_RETRYING);
		wait_for_post(fixture, most / 2, most);
	}
	assert_int_equal(export_sender_counts(fixture->sender)->retries, 100);
	say_status(fixture, 200, "");
	check_counts(fixture, 20, 20, 0, 0);
	assert_int_equal(export_sender_counts(fixture->sender)->state, EXPORT_OK);
}

static void test_four_429s_drop_nothing(void **state)
{
	struct fixture *fixture = *state;

	give_and_flush(fixture, 20);
	for (unsigned i = 0; i < 4; i++) {
		say(fixture, (struct export_answer){.status = 429, .sent = true,
						    .retry_after_ns = 40 * NS_PER_S});
		check_counts(fixture, 20, 0, 0, 20);
		wait_for_post(fixture, 40 * NS_PER_S, 40 * NS_PER_S);
	}
	say_status(fixture, 204, "");
	check_counts(fixture, 20, 20, 0, 0);
}

/* Credentials, URL, redirections: kept until somebody has mended it, and told. */
static void test_refusing_whoever_sends_is_held(void **state)
{
	static const long status[] = {301, 302, 307, 308, 401, 403, 404, 405, 407, 410, 415, 431};
	struct fixture *fixture = *state;

	give_and_flush(fixture, 20);
	for (unsigned i = 0; i < sizeof(status) / sizeof(status[0]); i++) {
		char error[40];

		say_status(fixture, status[i], "no org id");
		snprintf(error, sizeof(error), "HTTP %ld: no org id", status[i]);
		assert_string_equal(export_sender_counts(fixture->sender)->error, error);
		assert_int_not_equal(export_sender_counts(fixture->sender)->error_realtime_ns, 0);
		assert_int_equal(export_sender_counts(fixture->sender)->state, EXPORT_HELD);
		check_counts(fixture, 20, 0, 0, 20);
		now_ns += EXPORT_RETRY_NS_MAX;
		wake(fixture);
	}
	say_status(fixture, 200, "");
	check_counts(fixture, 20, 20, 0, 0);
}

static void test_tls_that_fails_is_held(void **state)
{
	struct fixture *fixture = *state;

	give_and_flush(fixture, 20);
	say(fixture, (struct export_answer){.mistrusted = true, .error = "certificate expired"});
	assert_int_equal(export_sender_counts(fixture->sender)->state, EXPORT_HELD);
	check_counts(fixture, 20, 0, 0, 20);
	now_ns += EXPORT_RETRY_NS_MAX;
	wake(fixture);
	/* Go's servers, and nginx, of a request without TLS: no event is to blame. */
	say_status(fixture, 400, "Client sent an HTTP request to an HTTPS server.\n");
	assert_int_equal(export_sender_counts(fixture->sender)->state, EXPORT_HELD);
	check_counts(fixture, 20, 0, 0, 20);
}

/* One event of many is refused, or is too much: that one is lost. */
static void check_poison(struct fixture *fixture, long status, uint64_t poison)
{
	uint64_t rejected = 0, number[EVENTS_MAX];

	open_sender(fixture, &export_loki, "https://there", true, 1 << 30);
	memset(fixture->accepted, 0, sizeof(fixture->accepted));
	give_and_flush(fixture, EVENTS_MAX);
	for (unsigned i = 0; i < 2 * EVENTS_MAX && posted; i++) {
		if (holds(fixture, poison)) {
			rejected += read_numbers(fixture, number) == 1;
			say_status(fixture, status, "this is wrong");
			/* What is right waits for no one. */
			assert_true(posted || rejected);
		} else {
			note_accepted(fixture);
			say_status(fixture, 204, "");
		}
	}
	assert_false(posted);
	check_counts(fixture, EVENTS_MAX, EVENTS_MAX - 1, 1, 0);
	assert_in_range(posts, 2, 20);
	for (unsigned i = 0; i < EVENTS_MAX; i++)
		assert_int_equal(fixture->accepted[i], i != poison);
}

static void test_poison_is_found_and_alone_is_lost(void **state)
{
	check_poison(*state, 400, 0);
	check_poison(*state, 413, 300);
	check_poison(*state, 422, EVENTS_MAX - 1);
}

/*
 * A server with a wrong path answers 400 to everything: nothing is to blame for that alone. It is asked
 * about a few alone, then held, and asked about fewer each time; once it is mended all of it goes out.
 */
static void test_all_refused_is_held(void **state)
{
	struct fixture *fixture = *state;
	uint64_t number[EVENTS_MAX];
	unsigned before, alone = 0;

	give_and_flush(fixture, EVENTS_MAX);
	while (posted && posts < 4 * EVENTS_MAX) {
		alone += read_numbers(fixture, number) == 1;
		say_status(fixture, 400, "unsupported path");
	}
	assert_int_equal(alone, EXPORT_ASIDE_MAX);
	assert_in_range(posts, EXPORT_ASIDE_MAX, 3 * EXPORT_ASIDE_MAX);
	for (unsigned i = 0; i < 2 * EVENTS_MAX; i++) {
		check_counts(fixture, EVENTS_MAX, 0, 0, EVENTS_MAX);
		assert_int_equal(export_sender_counts(fixture->sender)->state, EXPORT_HELD);
		before = posts;
		wait_for_post(fixture, EXPORT_RETRY_NS_MIN / 2, EXPORT_RETRY_NS_MAX);
		while (posted)
			say_status(fixture, 400, "unsupported path");
		assert_in_range(posts - before, 1, 3 * EXPORT_ASIDE_AGAIN + 10);
	}
	wait_for_post(fixture, EXPORT_RETRY_NS_MIN / 2, EXPORT_RETRY_NS_MAX);
	while (posted) {
		note_accepted(fixture);
		say_status(fixture, 200, "");
	}
	check_counts(fixture, EVENTS_MAX, EVENTS_MAX, 0, 0);
	assert_int_equal(export_sender_counts(fixture->sender)->state, EXPORT_OK);
}

/* What is refused alone before and after all was held has been asked about twice, and is lost. */
static void test_poison_held_with_all_is_lost_in_the_end(void **state)
{
	struct fixture *fixture = *state;

	give_and_flush(fixture, 20);
	while (posted)
		say_status(fixture, 400, "path");
	wait_for_post(fixture, EXPORT_RETRY_NS_MIN / 2, EXPORT_RETRY_NS_MAX);
	while (posted) {
		bool poison = holds(fixture, 3) || holds(fixture, 17);

		if (!poison)
			note_accepted(fixture);
		say_status(fixture, poison ? 400 : 200, "");
	}
	check_counts(fixture, 20, 18, 2, 0);
}

/* Refused by a server that was wrong, which then went away and came back right: not to blame. */
static void test_refused_before_a_restart_is_asked_again(void **state)
{
	struct fixture *fixture = *state;

	give_and_flush(fixture, 20);
	for (unsigned i = 0; i < 9; i++)	/* 20, 10, 5, 2, 1, 1, 3, 1, 2 */
		say_status(fixture, 400, "no writes");
	say(fixture, (struct export_answer){.error = "hung up"});
	wait_for_post(fixture, EXPORT_RETRY_NS_MIN / 2, EXPORT_RETRY_NS_MAX);
	while (posted) {
		note_accepted(fixture);
		say_status(fixture, 200, "");
	}
	check_counts(fixture, 20, 20, 0, 0);
}

/* One event, nothing else to compare it with: kept, until something is accepted. */
static void test_refused_alone_waits_for_another(void **state)
{
	struct fixture *fixture = *state;

	give_and_flush(fixture, 1);
	for (unsigned i = 0; i < 10; i++) {
		say_status(fixture, 400, "no");
		assert_int_equal(export_sender_counts(fixture->sender)->state, EXPORT_HELD);
		check_counts(fixture, 1, 0, 0, 1);
		wait_for_post(fixture, EXPORT_RETRY_NS_MIN / 2, EXPORT_RETRY_NS_MAX);
	}
	say_status(fixture, 400, "no");
	give(fixture, 1, 1);
	export_sender_flush(fixture->sender);
	wait_for_post(fixture, EXPORT_RETRY_NS_MIN / 2, EXPORT_RETRY_NS_MAX);
	assert_true(holds(fixture, 0));
	say_status(fixture, 400, "no");
	assert_true(holds(fixture, 1));
	say_status(fixture, 200, "");
	check_counts(fixture, 2, 1, 0, 1);
	assert_true(holds(fixture, 0));
	say_status(fixture, 400, "no");
	check_counts(fixture, 2, 1, 1, 0);
	assert_false(posted);
}

/* A back end that is mended between two questions of a round accepts the second: the first is asked once more. */
static void test_mended_within_a_round(void **state)
{
	static const uint64_t order[] = {2, 0, 1, 3};	/* of one request, each in turn */
	struct fixture *fixture = *state;
	uint64_t number[EVENTS_MAX];

	give_and_flush(fixture, 4);
	for (unsigned i = 0; i < 4; i++)	/* 0 to 3, 0 and 1, 0, 1 */
		say_status(fixture, 400, "no writes");
	say_status(fixture, 413, "too much");	/* 2 and 3 */
	for (unsigned i = 0; i < 4; i++) {
		check_counts(fixture, 4, i, 0, 4 - i);
		assert_int_equal(read_numbers(fixture, number), 1);
		assert_int_equal(number[0], order[i]);
		say_status(fixture, 200, "");
	}
	assert_false(posted);
	check_counts(fixture, 4, 4, 0, 0);
	assert_int_equal(export_sender_counts(fixture->sender)->state, EXPORT_OK);
}

/* Of four, two are refused alone, and two still wait. */
static void refuse_two(struct fixture *fixture)
{
	give_and_flush(fixture, 4);
	for (unsigned i = 0; i < 4; i++)	/* 0 to 3, 0 and 1, 0, 1 */
		say_status(fixture, 400, "no writes");
}

/* All of them, the oldest first. */
static void accept_in_order(struct fixture *fixture, uint64_t events)
{
	uint64_t number[EVENTS_MAX], next = 0;

	while (posted) {
		unsigned n = read_numbers(fixture, number);

		for (unsigned i = 0; i < n; i++)
			assert_int_equal(number[i], next++);
		say_status(fixture, 200, "");
	}
	check_counts(fixture, events, events, 0, 0);
}

/* What is asked about once more is older than what still waits, and goes before it. */
static void test_asked_again_goes_before_what_is_newer(void **state)
{
	struct fixture *fixture = *state;

	refuse_two(fixture);
	say(fixture, (struct export_answer){.error = "hung up"});
	wait_for_post(fixture, EXPORT_RETRY_NS_MIN / 2, EXPORT_RETRY_NS_MAX);
	accept_in_order(fixture, 4);
}

/* Whatever was asked in between, the oldest is the first to be asked again. */
static void test_the_oldest_is_asked_again_first(void **state)
{
	struct fixture *fixture = *state;

	for (unsigned i = 0; i < 3; i++) {
		give(fixture, 1, i);
		export_sender_flush(fixture->sender);
		if (i)
			wait_for_post(fixture, EXPORT_RETRY_NS_MIN / 2, EXPORT_RETRY_NS_MAX);
		assert_true(holds(fixture, 0));
		say_status(fixture, 400, "no writes");
		if (!i)
			continue;
		assert_true(holds(fixture, i));
		if (i == 1)
			say_status(fixture, 400, "no writes");
		else
			say(fixture, (struct export_answer){.error = "hung up"});
	}
	wait_for_post(fixture, EXPORT_RETRY_NS_MIN / 2, EXPORT_RETRY_NS_MAX);
	for (unsigned i = 0; i < 3; i++) {
		assert_true(holds(fixture, i));
		say_status(fixture, 200, "");
	}
	check_counts(fixture, 3, 3, 0, 0);
}

/* And so it is if the wait has to be repeated: what is next of those is not asked about before it. */
static void test_the_oldest_is_the_first_of_each_wait(void **state)
{
	struct fixture *fixture = *state;
	uint64_t number[EVENTS_MAX];

	refuse_two(fixture);
	for (unsigned i = 0; i < 3; i++) {
		say(fixture, (struct export_answer){.error = "hung up"});
		wait_for_post(fixture, EXPORT_RETRY_NS_MIN / 2, EXPORT_RETRY_NS_MAX);
		assert_int_equal(read_numbers(fixture, number), 1);
		assert_int_equal(number[0], 0);
	}
	accept_in_order(fixture, 4);
}

/* Where all are aside they are asked about in their order, and so from the oldest on after a wait in between. */
static void test_the_oldest_is_first_where_all_are_aside(void **state)
{
	struct fixture *fixture = *state;

	give_and_flush(fixture, 3);
	for (unsigned i = 0; i < 5; i++)	/* 0 to 2, 0, 1 and 2, 1, 2 */
		say_status(fixture, 400, "no writes");
	wait_for_post(fixture, EXPORT_RETRY_NS_MIN / 2, EXPORT_RETRY_NS_MAX);
	assert_true(holds(fixture, 0));
	say_status(fixture, 400, "no writes");
	assert_true(holds(fixture, 1));
	say(fixture, (struct export_answer){.error = "hung up"});
	wait_for_post(fixture, EXPORT_RETRY_NS_MIN / 2, EXPORT_RETRY_NS_MAX);
	for (unsigned i = 0; i < 3; i++) {
		assert_true(holds(fixture, i));
		say_status(fixture, 200, "");
	}
	check_counts(fixture, 3, 3, 0, 0);
}

/* Refused once more it is one of them again: in their next round the others are before it. */
static void test_asked_first_once_and_then_in_its_turn(void **state)
{
	static const uint64_t order[] = {1, 0, 2, 3};
	struct fixture *fixture = *state;

	refuse_two(fixture);
	say(fixture, (struct export_answer){.error = "hung up"});
	wait_for_post(fixture, EXPORT_RETRY_NS_MIN / 2, EXPORT_RETRY_NS_MAX);
	for (unsigned i = 0; i < 4; i++)	/* 0, 2 and 3, 2, 3 */
		say_status(fixture, 400, "no writes");
	wait_for_post(fixture, EXPORT_RETRY_NS_MIN / 2, EXPORT_RETRY_NS_MAX);
	assert_true(holds(fixture, 1));
	say_status(fixture, 400, "no writes");
	assert_true(holds(fixture, 0));
	say(fixture, (struct export_answer){.error = "hung up"});
	wait_for_post(fixture, EXPORT_RETRY_NS_MIN / 2, EXPORT_RETRY_NS_MAX);
	for (unsigned i = 0; i < 4; i++) {
		assert_true(holds(fixture, order[i]));
		say_status(fixture, 200, "");
	}
	check_counts(fixture, 4, 4, 0, 0);
}

/* What was never refused alone is in its order behind them, also where it has to wait once more. */
static void test_order_is_kept_behind_what_was_aside(void **state)
{
	struct fixture *fixture = *state;

	give_and_flush(fixture, 8);
	for (unsigned i = 0; i < 4; i++)	/* 0 to 7, 0 to 3, 0 and 1, 0 */
		say_status(fixture, 400, "no writes");
	assert_true(holds(fixture, 1));
	say_status(fixture, 200, "");
	assert_true(holds(fixture, 0));
	say_status(fixture, 200, "");
	assert_true(holds(fixture, 2));
	say(fixture, (struct export_answer){.error = "hung up"});
	wait_for_post(fixture, EXPORT_RETRY_NS_MIN / 2, EXPORT_RETRY_NS_MAX);
	assert_true(holds(fixture, 2));
	say_status(fixture, 200, "");
	assert_true(holds(fixture, 4));
	say_status(fixture, 200, "");
	check_counts(fixture, 8, 8, 0, 0);
}

/* Where the oldest is refused still, the others have their turn, and stay in their order for the next time. */
static void test_refused_again_gives_the_others_their_turn(void **state)
{
	static const uint64_t order[] = {1, 2, 0, 1, 3};	/* of one request, each in turn */
	struct fixture *fixture = *state;
	uint64_t number[EVENTS_MAX];

	refuse_two(fixture);
	say(fixture, (struct export_answer){.error = "hung up"});
	wait_for_post(fixture, EXPORT_RETRY_NS_MIN / 2, EXPORT_RETRY_NS_MAX);
	assert_true(holds(fixture, 0));
	say_status(fixture, 400, "no writes");
	say(fixture, (struct export_answer){.error = "hung up"});	/* 2 and 3 */
	wait_for_post(fixture, EXPORT_RETRY_NS_MIN / 2, EXPORT_RETRY_NS_MAX);
	for (unsigned i = 0; i < 5; i++) {
		if (i == 1)
			say_status(fixture, 413, "too much");	/* 2 and 3 */
		assert_int_equal(read_numbers(fixture, number), 1);
		assert_int_equal(number[0], order[i]);
		say_status(fixture, order[i] == 1 ? 400 : 200, "no writes");
	}
	check_counts(fixture, 4, 3, 1, 0);
}

/* What Loki calls too old, and is: no settings mend that, and what is new is behind it. */
static void test_too_old_is_lost_at_once(void **state)
{
	struct fixture *fixture = *state;

	open_sender(fixture, &export_loki, "https://there", true, 1 << 30);
	now_ns = 2 * EXPORT_OLD_NS;
	give_and_flush(fixture, EVENTS_MAX);
	while (posted)
		say_status(fixture, 400, "entry for stream '{...}' has timestamp too old: 2026");
	check_counts(fixture, EVENTS_MAX, 0, EVENTS_MAX, 0);
	assert_int_equal(posts, 2 * EVENTS_MAX - 1);
}

/* What is lost for what it is says nothing of the back end: the next waits as the first did. */
static void test_lost_for_its_age_ends_a_wait(void **state)
{
	struct fixture *fixture = *state;

	open_sender(fixture, &export_loki, "https://there", true, 1 << 30);
	now_ns = 2 * EXPORT_OLD_NS;
	give_and_flush(fixture, 1);
	for (unsigned i = 0; i < 8; i++) {
		say_status(fixture, 503, "");
		wait_for_post(fixture, EXPORT_RETRY_NS_MIN / 2, EXPORT_RETRY_NS_MAX);
	}
	say_status(fixture, 400, "entry for stream '{...}' has timestamp too old: 2026");
	check_counts(fixture, 1, 0, 1, 0);
	give_and_flush(fixture, 1);
	say_status(fixture, 503, "");
	wait_for_post(fixture, EXPORT_RETRY_NS_MIN / 2, EXPORT_RETRY_NS_MIN);
}

/* What was refused alone before something was accepted is not counted with what is so afterwards. */
static void test_asked_about_as_many_after_one_is_accepted(void **state)
{
	struct fixture *fixture = *state;
	uint64_t number[EVENTS_MAX];
	unsigned alone = 0;

	give_and_flush(fixture, 4);
	for (unsigned i = 0; i < 4; i++)	/* 0 to 3, 0 and 1, 0, 1 */
		say_status(fixture, 400, "no");
	say_status(fixture, 200, "");		/* 2 and 3 */
	say_status(fixture, 400, "no");
	say_status(fixture, 400, "no");
	check_counts(fixture, 4, 2, 2, 0);
	give_and_flush(fixture, EVENTS_MAX);
	while (posted && posts < 4 * EVENTS_MAX) {
		alone += read_numbers(fixture, number) == 1;
		say_status(fixture, 400, "no");
	}
	assert_int_equal(alone, EXPORT_ASIDE_MAX);
	assert_int_equal(export_sender_counts(fixture->sender)->state, EXPORT_HELD);
}

/* A clock or a limit is wrong where what has just been recorded is too old. */
static void test_too_old_of_now_is_held(void **state)
{
	struct fixture *fixture = *state;

	open_sender(fixture, &export_loki, "https://there", true, 1 << 30);
	now_ns = NS_PER_S;
	give_and_flush(fixture, EVENTS_MAX);
	while (posted)
		say_status(fixture, 400, "entry for stream '{...}' has timestamp too old: 2026");
	check_counts(fixture, EVENTS_MAX, 0, 0, EVENTS_MAX);
	assert_int_equal(export_sender_counts(fixture->sender)->state, EXPORT_HELD);
}

/* More than fits what a back end takes at once is answered 429 for ever: parts of it are not. */
static void test_busy_with_much_is_sent_less(void **state)
{
	struct fixture *fixture = *state;
	unsigned accepted = 0;

	give_and_flush(fixture, EVENTS_MAX);
	for (unsigned i = 0; i < 1000 && accepted < EVENTS_MAX; i++) {
		uint64_t number[EVENTS_MAX];
		unsigned events = read_numbers(fixture, number);

		if (events <= 100) {
			accepted += events;
			note_accepted(fixture);
		}
		say_status(fixture, events > 100 ? 429 : 200, "");
		if (!posted && accepted < EVENTS_MAX)
			wait_for_post(fixture, EXPORT_RETRY_NS_MIN / 2, EXPORT_RETRY_NS_MAX);
	}
	check_counts(fixture, EVENTS_MAX, EVENTS_MAX, 0, 0);
}

/* A part is as good as new: what the whole of it met with makes it wait no longer. */
static void test_a_part_waits_as_the_first_did(void **state)
{
	struct fixture *fixture = *state;
	uint64_t number[EVENTS_MAX];

	give_and_flush(fixture, EVENTS_MAX);
	for (unsigned i = 0; i < EXPORT_BUSY_TRIES; i++) {
		say_status(fixture, 429, "");
		wait_for_post(fixture, EXPORT_RETRY_NS_MIN / 2, (uint64_t)EXPORT_RETRY_NS_MIN << i);
	}
	say_status(fixture, 429, "");
	wait_for_post(fixture, EXPORT_RETRY_NS_MIN / 2, EXPORT_RETRY_NS_MIN);
	assert_int_equal(read_numbers(fixture, number), EVENTS_MAX / 2);	/* nor is it cut at once */
	while (posted)
		say_status(fixture, 200, "");
	check_counts(fixture, EVENTS_MAX, EVENTS_MAX, 0, 0);
}

/* What comes after a split is not to come before it. */
static void test_order_is_kept_over_a_split(void **state)
{
	struct fixture *fixture = *state;
	uint64_t next = 0, number[EVENTS_MAX];

	give_and_flush(fixture, 8);
	give(fixture, 4, 8);
	export_sender_flush(fixture->sender);
	say_status(fixture, 413, "too much");
	while (posted) {
		unsigned n = read_numbers(fixture, number);

		for (unsigned i = 0; i < n; i++)
			assert_int_equal(number[i], next++);
		say_status(fixture, 200, "");
	}
	assert_int_equal(next, 12);
}

/* Until all of a frame is accepted a kill makes it come again: its rest follows without a wait. */
static void test_rest_of_a_frame_goes_at_once(void **state)
{
	struct fixture *fixture = *state;

	give(fixture, 700, 0);
	give_watermark(fixture);
	assert_true(posted);		/* 512 of them */
	say_status(fixture, 200, "");
	check_counts(fixture, 700, EXPORT_BATCH_EVENTS, 0, 700 - EXPORT_BATCH_EVENTS);
	assert_true(posted);
	say_status(fixture, 200, "");
	check_counts(fixture, 700, 700, 0, 0);
}

static void test_partial_success_is_not_sent_again(void **state)
{
	static const uint8_t partial[] = {0x0a, 4, 0x08, 5, 0x12, 0};
	struct fixture *fixture = *state;

	give_and_flush(fixture, 20);
	say(fixture, (struct export_answer){.status = 200, .sent = true, .body = partial,
					    .bytes = sizeof(partial)});
	assert_false(posted);
	check_counts(fixture, 20, 15, 5, 0);
	assert_int_equal(export_sender_counts(fixture->sender)->state, EXPORT_REJECTING);
	/* It counts what it made of events: no more of them are lost than there were. */
	give_and_flush(fixture, 3);
	say(fixture, (struct export_answer){.status = 200, .sent = true, .body = partial,
					    .bytes = sizeof(partial)});
	check_counts(fixture, 23, 15, 8, 0);
}

/* The status was said, and then it hung up. */
static void test_answer_cut_short(void **state)
{
	static const uint8_t partial[] = {0x0a, 40, 0x08, 5};
	struct fixture *fixture = *state;
	const struct export_answer yes = {.status = 200, .sent = true, .body = partial,
					  .bytes = sizeof(partial), .error = "cut"};
	const struct export_answer no = {.status = 500, .sent = true, .error = "cut"};

	give_and_flush(fixture, 20);
	say(fixture, no);
	check_counts(fixture, 20, 0, 0, 20);
	now_ns += EXPORT_RETRY_NS_MAX;
	wake(fixture);
	say(fixture, yes);
	check_counts(fixture, 20, 20, 0, 0);
	assert_non_null(strstr(export_sender_counts(fixture->sender)->error, "cut short"));
}

/* Without a word: it may have had it, so what is sent again is counted. */
static void test_hang_up_is_tried_again(void **state)
{
	struct fixture *fixture = *state;
	uint64_t before = counter_read(COUNTER_export_items_resent);

	give_and_flush(fixture, 20);
	say(fixture, (struct export_answer){.error = "refused"});
	now_ns += EXPORT_RETRY_NS_MAX;
	wake(fixture);
	assert_int_equal(counter_read(COUNTER_export_items_resent), before);
	say(fixture, (struct export_answer){.sent = true, .error = "hung up"});
	assert_int_equal(counter_read(COUNTER_export_items_resent), before + 20);
	check_counts(fixture, 20, 0, 0, 20);
}

/* The oldest go, but who is away is not asked more often for that. */
static void test_full_queue_keeps_the_pace(void **state)
{
	struct fixture *fixture = *state;
	const struct export_counts *counts;

	open_sender(fixture, &export_otlp_logs, "http://there", false,
		    1000 * sizeof(struct export_event));
	for (unsigned i = 0; i < 40; i++) {
		give_and_flush(fixture, 100);
		if (posted)
			say(fixture, (struct export_answer){.error = "refused"});
	}
	counts = export_sender_counts(fixture->sender);
	assert_int_equal(posts, 1);
	assert_int_equal(counts->taken, 4000);
	assert_int_equal(counts->expired + counts->queued, 4000);
	assert_in_range(counts->queued, 400, 1000);
}

/* What is on disk is asked for no faster; so nothing of what was asked for has to go, however little room there is. */
static void test_nothing_expires_with_a_spool(void **state)
{
	struct fixture *fixture = *state;

	open_sender(fixture, &export_otlp_logs, "http://there", true, 1000 * sizeof(struct export_event));
	for (unsigned i = 0; i < 40; i++) {
		give_and_flush(fixture, 100);
		if (posted)
			say(fixture, (struct export_answer){.error = "refused"});
	}
	check_counts(fixture, 4000, 0, 0, 4000);
}

/* No spool has metrics: what waits of them is bounded in memory, also where one keeps events. */
static void test_metrics_are_bounded_with_a_spool(void **state)
{
	struct fixture *fixture = *state;
	const struct export_counts *counts;

	open_sender(fixture, &export_remote_write, "http://there", true, 2000);
	for (unsigned i = 0; i < 100; i++) {
		struct metric_builder *builder = metric_builder_create(1 << 20);
		const struct metric_snapshot *snapshot;

		metric_begin(builder, METRIC_GAUGE, "level", "", "A level");
		metric_add(builder, i, NULL, 0);
		snapshot = metric_builder_end(builder, now_ns, now_ns);
		export_sender_metrics(fixture->sender, snapshot);
		metric_snapshot_destroy(snapshot);
		if (posted)
			say(fixture, (struct export_answer){.error = "refused"});
	}
	counts = export_sender_counts(fixture->sender);
	assert_int_equal(counts->taken, 100);
	assert_int_equal(counts->expired + counts->queued, 100);
	assert_in_range(counts->queued_bytes, 1, 2000);
}

/* ---- Metrics --------------------------------------------------------------------------------- */

#define GAUGES 40u
#define HISTOGRAMS 3u

static void give_metrics(struct fixture *fixture)
{
	struct metric_builder *builder = metric_builder_create(1 << 20);
	struct metric_histogram histogram = {.count = 3, .sum_seconds = 1, .bucket = {1, 2}};
	const struct metric_snapshot *snapshot;
	char text[2][16];

	metric_begin(builder, METRIC_HISTOGRAM, "durations_seconds", "seconds", "How long");
	for (unsigned i = 0; i < HISTOGRAMS; i++) {
		snprintf(text[0], sizeof(text[0]), "h%u", i);
		metric_add_histogram(builder, &histogram,
				     &(struct metric_label){.name = "n", .value = text[0]}, 1);
	}
	metric_begin(builder, METRIC_GAUGE, "level", "", "A level");
	for (unsigned i = 0; i < GAUGES; i++) {
		snprintf(text[1], sizeof(text[1]), "g%02u", i);
		metric_add(builder, i, &(struct metric_label){.name = "n", .value = text[1]}, 1);
	}
	snapshot = metric_builder_end(builder, clock_read(CLOCK_REALTIME) - fixture->age_ns, now_ns);
	export_sender_metrics(fixture->sender, snapshot);
	metric_snapshot_destroy(snapshot);
}

/* Whether the body under way has that text. */
static bool body_has(const struct fixture *fixture, const char *text)
{
	size_t bytes;
	uint8_t *raw = read_body(fixture, &bytes);
	bool has = memmem(raw, bytes, text, strlen(text));

	free(raw);
	return has;
}

/* Each point is accepted once, or is the one that is refused. */
static void check_metric_poison(struct fixture *fixture, const struct export_kind *kind,
				const char *poison)
{
	unsigned seen[GAUGES] = {0}, requests = 0;

	open_sender(fixture, kind, "https://there", true, 1 << 30);
	give_metrics(fixture);
	for (; posted && requests < 100; requests++) {
		if (body_has(fixture, poison)) {
			say_status(fixture, 400, "out of order sample");
			continue;
		}
		for (unsigned i = 0; i < GAUGES; i++) {
			char text[16];

			snprintf(text, sizeof(text), "g%02u", i);
			seen[i] += body_has(fixture, text);
		}
		say_status(fixture, 200, "");
	}
	assert_in_range(requests, 3, 20);
	check_counts(fixture, GAUGES + HISTOGRAMS, GAUGES + HISTOGRAMS - 1, 1, 0);
	for (unsigned i = 0; i < GAUGES; i++) {
		char text[16];

		snprintf(text, sizeof(text), "g%02u", i);
		assert_int_equal(seen[i], strcmp(text, poison) != 0);
	}
}

static void test_poison_among_metrics_alone_is_lost(void **state)
{
	static const struct export_kind *const kind[] = {&export_remote_write,
							 &export_otlp_metrics};

	for (unsigned i = 0; i < 2; i++) {
		check_metric_poison(*state, kind[i], "g00");
		check_metric_poison(*state, kind[i], "g39");
		check_metric_poison(*state, kind[i], "g17");
		check_metric_poison(*state, kind[i], "h1");
	}
}

/* As of events: held after so many, sent once it is mended. */
static void test_metrics_all_refused_are_held(void **state)
{
	struct fixture *fixture = *state;
	uint64_t points = 3 * (GAUGES + HISTOGRAMS);

	open_sender(fixture, &export_remote_write, "https://there", true, 1 << 30);
	for (unsigned i = 0; i < 3; i++) {
		give_metrics(fixture);
		while (posted && posts < 1000)
			say_status(fixture, 400, "unsupported path");
	}
	assert_in_range(posts, 3, 3 * (2 * EXPORT_METRIC_SPLITS_MAX + 1));
	check_counts(fixture, points, 0, 0, points);
	wait_for_post(fixture, EXPORT_RETRY_NS_MIN / 2, EXPORT_RETRY_NS_MAX);
	while (posted)
		say_status(fixture, 200, "");
	check_counts(fixture, points, points, 0, 0);
}

static const char *const of_old[] = {"out of bounds", "too old sample"};

/*
 * A back end that was away for hours takes nothing so old any more: all points of a push have one time, so
 * each push is asked about once, and what is new goes out at once.
 */
static void test_metrics_too_old_are_lost_at_once(void **state)
{
	struct fixture *fixture = *state;
	uint64_t points = GAUGES + HISTOGRAMS;

	for (unsigned i = 0; i < 2; i++) {
		open_sender(fixture, i ? &export_otlp_metrics : &export_remote_write, "https://there", true, 1 << 30);
		fixture->age_ns = 3 * EXPORT_OLD_NS;
		for (unsigned k = 0; k < 2 * EXPORT_ASIDE_MAX; k++)
			give_metrics(fixture);
		fixture->age_ns = 0;
		give_metrics(fixture);
		for (unsigned k = 0; k < 2 * EXPORT_ASIDE_MAX; k++)
			say_status(fixture, i ? 500 : 400, of_old[i]);
		check_counts(fixture, (2 * EXPORT_ASIDE_MAX + 1) * points, 0, 2 * EXPORT_ASIDE_MAX * points, points);
		say_status(fixture, 200, "");
		check_counts(fixture, (2 * EXPORT_ASIDE_MAX + 1) * points, points, 2 * EXPORT_ASIDE_MAX * points, 0);
		assert_int_equal(export_sender_counts(fixture->sender)->state, EXPORT_OK);
		assert_false(posted);
	}
}

/* Behind newer ones of its series, and old enough that this is no wonder: as what is too old. */
static void test_metrics_behind_and_old_are_lost_at_once(void **state)
{
	struct fixture *fixture = *state;
	uint64_t points = GAUGES + HISTOGRAMS;

	open_sender(fixture, &export_remote_write, "https://there", true, 1 << 30);
	fixture->age_ns = EXPORT_OLD_NS + 10 * NS_PER_S;
	give_metrics(fixture);
	say_status(fixture, 400, "out of order sample");
	assert_int_equal(posts, 1);
	assert_false(posted);
	check_counts(fixture, points, 0, points, 0);
	/* Of half that age they are split, to find the one that is. */
	fixture->age_ns = EXPORT_OLD_NS / 2;
	give_metrics(fixture);
	while (posted && posts < 100)
		say_status(fixture, body_has(fixture, "g17") ? 400 : 200, "out of order sample");
	check_counts(fixture, 2 * points, points - 1, points + 1, 0);
}

/* Their age is no reason where the back end does not say that it is: what is wrong with one of them is found. */
static void test_old_metrics_are_split_for_something_else(void **state)
{
	struct fixture *fixture = *state;
	uint64_t points = GAUGES + HISTOGRAMS;

	open_sender(fixture, &export_remote_write, "https://there", true, 1 << 30);
	fixture->age_ns = 3 * EXPORT_OLD_NS;
	give_metrics(fixture);
	while (posted && posts < 100)
		say_status(fixture, body_has(fixture, "g17") ? 400 : 200, "no");
	check_counts(fixture, points, points - 1, 1, 0);
}

/* Each push has splits of its own. */
static void test_one_push_after_another_is_split(void **state)
{
	struct fixture *fixture = *state;
	uint64_t points = GAUGES + HISTOGRAMS, pushes = EXPORT_METRIC_SPLITS_MAX / 2;

	open_sender(fixture, &export_remote_write, "https://there", true, 1 << 30);
	for (unsigned i = 0; i < pushes; i++) {
		give_metrics(fixture);
		while (posted && posts < 100 * pushes)
			say_status(fixture, body_has(fixture, "g17") ? 400 : 200, "no");
	}
	check_counts(fixture, pushes * points, pushes * (points - 1), pushes, 0);
}

static void give_levels(struct fixture *fixture, const char *first, const char *second)
{
	struct metric_builder *builder = metric_builder_create(1 << 20);
	const struct metric_snapshot *snapshot;

	metric_begin(builder, METRIC_GAUGE, "level", "", "A level");
	metric_add(builder, 1, &(struct metric_label){.name = "n", .value = first}, 1);
	if (second)
		metric_add(builder, 1, &(struct metric_label){.name = "n", .value = second}, 1);
	snapshot = metric_builder_end(builder, clock_read(CLOCK_REALTIME), now_ns);
	export_sender_metrics(fixture->sender, snapshot);
	metric_snapshot_destroy(snapshot);
}

/* Parts of a push are as old as it was, and so behind one that is older. */
static void test_parts_of_metrics_keep_their_place(void **state)
{
	static const char *const name[] = {"first", "second", "third"};
	struct fixture *fixture = *state;

	open_sender(fixture, &export_remote_write, "https://there", true, 1 << 30);
	give_levels(fixture, name[0], NULL);
	give_levels(fixture, name[1], name[2]);
	for (unsigned i = 0; i < 4; i++)	/* the first, the others, the second, the third */
		say_status(fixture, 400, "unsupported path");
	wait_for_post(fixture, EXPORT_RETRY_NS_MIN / 2, EXPORT_RETRY_NS_MAX);
	for (unsigned i = 0; i < 3; i++) {
		assert_true(body_has(fixture, name[i]));
		say_status(fixture, 200, "");
	}
	assert_false(posted);
	check_counts(fixture, 3, 3, 0, 0);
}

/* Of an hour ago at most, a back end's clock or a limit may be wrong: that is believed once it takes something newer. */
static void test_metrics_too_old_of_now_wait_for_newer_ones(void **state)
{
	struct fixture *fixture = *state;
	uint64_t points = GAUGES + HISTOGRAMS;

	open_sender(fixture, &export_remote_write, "https://there", true, 1 << 30);
	for (unsigned i = 0; i < 3; i++)
		give_metrics(fixture);
	for (unsigned i = 0; i < 3; i++)
		say_status(fixture, 400, of_old[0]);
	assert_false(posted);
	check_counts(fixture, 3 * points, 0, 0, 3 * points);
	assert_int_equal(export_sender_counts(fixture->sender)->state, EXPORT_HELD);
	give_metrics(fixture);
	wait_for_post(fixture, EXPORT_RETRY_NS_MIN / 2, EXPORT_RETRY_NS_MAX);
	say_status(fixture, 400, of_old[0]);	/* the oldest once more */
	say_status(fixture, 200, "");
	for (unsigned i = 0; i < 3; i++)	/* and all of them, now that it takes something */
		say_status(fixture, 400, of_old[0]);
	assert_false(posted);
	check_counts(fixture, 4 * points, points, 3 * points, 0);
}

/* What is asked about once more, and is refused for something else by then, is split as any other. */
static void test_metrics_too_old_are_split_for_something_else(void **state)
{
	struct fixture *fixture = *state;
	uint64_t points = GAUGES + HISTOGRAMS;

	open_sender(fixture, &export_remote_write, "https://there", true, 1 << 30);
	give_metrics(fixture);
	say_status(fixture, 400, of_old[0]);
	wait_for_post(fixture, EXPORT_RETRY_NS_MIN / 2, EXPORT_RETRY_NS_MAX);
	while (posted && posts < 100)
		say_status(fixture, body_has(fixture, "g17") ? 400 : 200, "no");
	check_counts(fixture, points, points - 1, 1, 0);
}

/* What waits of metrics is their bodies: as many as fit, not as many points as events would. */
static void test_metrics_wait_as_what_they_are(void **state)
{
	struct fixture *fixture = *state;
	uint64_t points = GAUGES + HISTOGRAMS, room = 4 * points * sizeof(struct export_event);
	uint64_t waited, bodies;

	open_sender(fixture, &export_remote_write, "https://there", false, room);
	for (unsigned i = 0; i < 20; i++)
		give_metrics(fixture);
	say_status(fixture, 503, "");
	check_counts(fixture, 20 * points, 0, 0, 20 * points);
	waited = export_sender_counts(fixture->sender)->queued_bytes;
	bodies = -(uint64_t)bytes_posted;
	now_ns += EXPORT_RETRY_NS_MAX;
	wake(fixture);
	while (posted)
		say_status(fixture, 200, "");
	bodies += bytes_posted;	/* of all of them: each compresses a little differently, by its times */
	assert_in_range(waited, bodies, bodies + 20 * 200);
	assert_true(waited < room);
	check_counts(fixture, 20 * points, 20 * points, 0, 0);
	assert_int_equal(export_sender_counts(fixture->sender)->queued_bytes, 0);
}

/* One push of more points than splits make single. */
static void push_many_points(struct fixture *fixture)
{
	struct metric_builder *builder = metric_builder_create(1 << 20);
	const struct metric_snapshot *snapshot;
	char name[16];

	open_sender(fixture, &export_remote_write, "https://there", true, 1 << 30);
	for (unsigned i = 0; i < 4 * EXPORT_METRIC_SPLITS_MAX; i++) {
		snprintf(name, sizeof(name), "g%03u", i);
		metric_begin(builder, METRIC_GAUGE, name, "", "A level");
		metric_add(builder, i, NULL, 0);
	}
	snapshot = metric_builder_end(builder, clock_read(CLOCK_REALTIME), now_ns);
	export_sender_metrics(fixture->sender, snapshot);
	metric_snapshot_destroy(snapshot);
}

/* It is split so often and no more, and then waits. */
static void test_large_push_is_split_so_often(void **state)
{
	struct fixture *fixture = *state;

	push_many_points(fixture);
	while (posted && posts < 1000)
		say_status(fixture, 400, "unsupported path");
	assert_in_range(posts, EXPORT_METRIC_SPLITS_MAX, 2 * EXPORT_METRIC_SPLITS_MAX + 1);
	check_counts(fixture, 4 * EXPORT_METRIC_SPLITS_MAX, 0, 0, 4 * EXPORT_METRIC_SPLITS_MAX);
}

/* One point of it is taken, and so it is the points that are wrong: what is not single by then is lost whole. */
static void test_large_push_of_poison_is_split_so_often(void **state)
{
	struct fixture *fixture = *state;
	unsigned single = 1;

	push_many_points(fixture);
	for (unsigned points = 4 * EXPORT_METRIC_SPLITS_MAX; points > 1; points /= 2)
		single++;
	while (posted && posts < 1000)
		say_status(fixture, posts == single ? 200 : 400, "out of order sample");
	assert_in_range(posts, EXPORT_METRIC_SPLITS_MAX, 2 * EXPORT_METRIC_SPLITS_MAX + 1);
	check_counts(fixture, 4 * EXPORT_METRIC_SPLITS_MAX, 1, 4 * EXPORT_METRIC_SPLITS_MAX - 1, 0);
}

/* ---- What goes out --------------------------------------------------------------------------- */

static void check_headers(const char *const *wanted, unsigned n)
{
	assert_int_equal(post.headers_count, n);
	for (unsigned i = 0; i < n; i++)
		assert_string_equal(post.headers[i], wanted[i]);
}

static void test_headers_of_each_kind(void **state)
{
	static const char *const of_logs[] = {"Content-Type: application/x-protobuf", "Content-Encoding: gzip", "X-Mine: 1",
					      "Authorization: mine"};
	static const char *const of_metrics[] = {"Content-Type: application/x-protobuf", "Content-Encoding: snappy",
						 "X-Prometheus-Remote-Write-Version: 0.1.0", "X-Mine: 1",
						 "Authorization: mine"};
	struct fixture *fixture = *state;
	const struct export_counts *counts;

	give_and_flush(fixture, 1);
	check_headers(of_logs, 4);
	assert_string_equal(post.url, "http://there/v1/logs");
	assert_int_equal(post.timeout_ns, 7 * NS_PER_S);
	counts = export_sender_counts(fixture->sender);
	assert_int_equal(counts->requests, 1);
	assert_int_equal(counts->retries, 0);
	assert_int_equal(counts->bytes, bytes_posted);
	open_sender(fixture, &export_remote_write, "https://there", true, 1 << 30);
	give_metrics(fixture);
	check_headers(of_metrics, 5);
}

/* A request is of as many events as there are at most, at once; of fewer once the first has waited so long. */
static void test_waits_for_more_to_go_with_it(void **state)
{
	struct fixture *fixture = *state;
	uint64_t number[EVENTS_MAX];

	open_sender(fixture, &export_otlp_logs, "http://there", false, 1 << 30);
	give(fixture, 5, 0);
	give_watermark(fixture);
	assert_false(posted);
	assert_int_equal(wakes_us, EXPORT_BATCH_NS / 1000 + 1);
	now_ns += EXPORT_BATCH_NS - 1;
	give(fixture, 5, 5);
	give_watermark(fixture);
	assert_false(posted);
	assert_int_equal(wakes_us, 1);
	now_ns++;
	give(fixture, 0, 0);
	assert_true(posted);
	assert_int_equal(read_numbers(fixture, number), 10);
	/* Meanwhile more comes than goes into one: the rest waits as if it came now. */
	give(fixture, 300, 0);
	give(fixture, 300, 300);
	give_watermark(fixture);
	now_ns += EXPORT_BATCH_NS / 2;
	say_status(fixture, 200, "");
	assert_int_equal(read_numbers(fixture, number), EXPORT_BATCH_EVENTS);
	say_status(fixture, 200, "");
	assert_false(posted);
	assert_int_equal(wakes_us, EXPORT_BATCH_NS / 1000 + 1);
	now_ns += EXPORT_BATCH_NS;
	give(fixture, 0, 0);
	assert_int_equal(read_numbers(fixture, number), 600 - EXPORT_BATCH_EVENTS);
	assert_int_equal(export_sender_counts(fixture->sender)->accepted, 10 + EXPORT_BATCH_EVENTS);
}

/* What there is no memory to send is lost, counted, and nothing else is. */
static void test_no_memory_for_a_request(void **state)
{
	struct fixture *fixture = *state;
	const struct export_counts *counts;

	compress_fails = true;
	give_and_flush(fixture, 20);
	assert_false(posted);
	counts = export_sender_counts(fixture->sender);
	assert_int_equal(counts->memory, 20);
	assert_int_equal(counts->queued, 0);
	assert_int_equal(counts->queued_bytes, 0);
	assert_int_equal(counts->settled_frame, 1);
	give_and_flush(fixture, 8);
	compress_fails = true;
	say_status(fixture, 400, "one is wrong");	/* there is none for the first half */
	say_status(fixture, 200, "");
	counts = export_sender_counts(fixture->sender);
	assert_int_equal(counts->memory, 24);
	assert_int_equal(counts->accepted, 4);
	assert_int_equal(counts->queued, 0);
	open_sender(fixture, &export_remote_write, "https://there", true, 1 << 30);
	compress_fails = true;
	give_metrics(fixture);
	assert_int_equal(export_sender_counts(fixture->sender)->memory, GAUGES + HISTOGRAMS);
	give_metrics(fixture);
	compress_fails = true;
	say_status(fixture, 400, "one is wrong");
	say_status(fixture, 200, "");
	counts = export_sender_counts(fixture->sender);
	assert_int_equal(counts->memory + counts->accepted, 2 * (GAUGES + HISTOGRAMS));
	assert_int_equal(counts->queued, 0);
}

/* Nor is there any to post what is made: it is tried again, later each time. */
static void test_no_memory_to_post(void **state)
{
	struct fixture *fixture = *state;

	post_fails = true;
	give_and_flush(fixture, 20);
	post_fails = false;
	check_counts(fixture, 20, 0, 0, 20);
	assert_int_equal(export_sender_counts(fixture->sender)->state, EXPORT_RETRYING);
	assert_string_equal(export_sender_counts(fixture->sender)->error, "out of memory");
	wait_for_post(fixture, EXPORT_RETRY_NS_MIN / 2, EXPORT_RETRY_NS_MIN);
	say_status(fixture, 200, "");
	check_counts(fixture, 20, 20, 0, 0);
}

/* A body says once of which boot it is: events of two runs do not share one, though it is not full. */
static void test_each_run_has_its_own_requests(void **state)
{
	Ringtail__V1__ServerHello hello = RINGTAIL__V1__SERVER_HELLO__INIT;
	Ringtail__V1__Catalog catalog = RINGTAIL__V1__CATALOG__INIT;
	struct frame_codec *codec = frame_codec_create(1);
	uint8_t boot_id[16] = "another";
	struct fixture *fixture = *state;
	uint64_t number[EVENTS_MAX];
	struct frame_ref *frame;

	hello.boot_id.data = boot_id;
	hello.boot_id.len = sizeof(boot_id);
	hello.hostname = (char *)"before";
	catalog.probe = make_probes;
	catalog.n_probe = MAKE_PROBES;
	give(fixture, 3, 0);
	frame = frame_ref_pack(codec, FRAME_SERVER_HELLO, &hello.base);
	export_sender_frame(fixture->sender, ++fixture->serial, frame->data, frame->bytes, 0);
	frame_ref_put(frame);
	frame = frame_ref_pack(codec, FRAME_CATALOG, &catalog.base);
	export_sender_frame(fixture->sender, ++fixture->serial, frame->data, frame->bytes, 0);
	frame_ref_put(frame);
	frame_codec_destroy(codec);
	give(fixture, 4, 0);
	export_sender_flush(fixture->sender);
	assert_int_equal(read_numbers(fixture, number), 3);
	say_status(fixture, 200, "");
	assert_int_equal(read_numbers(fixture, number), 4);
	say_status(fixture, 200, "");
	check_counts(fixture, 7, 7, 0, 0);
}

/* An error is of when it was, and so is what was accepted. */
static void test_times_of_the_last_of_each(void **state)
{
	struct fixture *fixture = *state;
	const struct export_counts *counts = export_sender_counts(fixture->sender);

	give_and_flush(fixture, 1);
	assert_true(!counts->accepted_realtime_ns && !counts->error_realtime_ns);
	say_status(fixture, 500, "");
	assert_true(!counts->accepted_realtime_ns && counts->error_realtime_ns);
	assert_string_equal(counts->error, "HTTP 500");
	now_ns += EXPORT_RETRY_NS_MAX;
	wake(fixture);
	say(fixture, (struct export_answer){.sent = true});
	assert_string_equal(counts->error, "no answer");
	now_ns += EXPORT_RETRY_NS_MAX;
	wake(fixture);
	say_status(fixture, 200, "");
	assert_true(counts->accepted_realtime_ns >= counts->error_realtime_ns);
	assert_string_equal(counts->error, "no answer");
}

/* What is asked for in vain, one after the other, is not half the wait of the first time. */
static void test_failures_end_with_an_answer(void **state)
{
	struct fixture *fixture = *state;

	for (unsigned round = 0; round < 3; round++) {
		give_and_flush(fixture, 1);
		for (unsigned i = 0; i < 3; i++) {
			say_status(fixture, 503, "");
			wait_for_post(fixture, (uint64_t)EXPORT_RETRY_NS_MIN << i >> 1, (uint64_t)EXPORT_RETRY_NS_MIN << i);
		}
		say_status(fixture, 200, "");
	}
	check_counts(fixture, 3, 3, 0, 0);
}

/* The queue's oldest go where nothing waits to be sent again; what is on its way stays. */
static void test_what_is_on_its_way_does_not_expire(void **state)
{
	struct fixture *fixture = *state;
	const struct export_counts *counts;
	uint64_t room;

	give_and_flush(fixture, 10);
	room = export_sender_counts(fixture->sender)->queued_bytes;
	assert_int_equal(room, 10 * sizeof(struct export_event) + post.bytes);
	open_sender(fixture, &export_otlp_logs, "http://there", false, room);
	give_and_flush(fixture, 10);
	assert_true(posted);			/* as much as there is room for */
	assert_int_equal(export_sender_counts(fixture->sender)->expired, 0);
	give(fixture, 5, 0);
	give_watermark(fixture);
	counts = export_sender_counts(fixture->sender);
	assert_int_equal(counts->expired, 5);
	assert_int_equal(counts->queued, 10);
	say(fixture, (struct export_answer){.error = "refused"});
	give(fixture, 1, 0);
	give_watermark(fixture);		/* now it is the oldest that goes */
	counts = export_sender_counts(fixture->sender);
	assert_int_equal(counts->expired, 15);
	assert_int_equal(counts->queued, 1);
}

/* Of what a back end says to a request without TLS, and to one with it. */
static void test_https_in_an_answer_over_tls_says_nothing(void **state)
{
	struct fixture *fixture = *state;

	open_sender(fixture, &export_otlp_logs, "https://there", true, 1 << 30);
	give_and_flush(fixture, 2);
	say_status(fixture, 400, "see https://docs");
	assert_true(posted);		/* its half */
	open_sender(fixture, &export_otlp_logs, "http://there", true, 1 << 30);
	give_and_flush(fixture, 2);
	say_status(fixture, 413, "see https://docs");
	assert_true(posted);
	open_sender(fixture, &export_otlp_logs, "http://there", true, 1 << 30);
	give_and_flush(fixture, 2);
	say_status(fixture, 400, "this is an HTTPS port");
	assert_false(posted);
	assert_int_equal(export_sender_counts(fixture->sender)->state, EXPORT_HELD);
}

/* Whoever looks is called when anything may have changed. */
static void test_changes_are_told(void **state)
{
	struct fixture *fixture = *state;
	unsigned before = fixture->changes;

	give(fixture, 1, 0);
	assert_true(fixture->changes > before);
	before = fixture->changes;
	export_sender_flush(fixture->sender);
	assert_true(fixture->changes > before);
	before = fixture->changes;
	say_status(fixture, 200, "");
	assert_true(fixture->changes > before);
}

/* What was refused alone is the oldest there is: where room ends, it goes first. */
static void test_refused_alone_expires_first(void **state)
{
	struct fixture *fixture = *state;
	const struct export_counts *counts;

	open_sender(fixture, &export_otlp_logs, "https://there", false, 20 * sizeof(struct export_event));
	give_and_flush(fixture, 2);
	while (posted)
		say_status(fixture, 400, "no");
	counts = export_sender_counts(fixture->sender);
	assert_int_equal(counts->state, EXPORT_HELD);
	assert_int_equal(counts->queued, 2);
	give(fixture, 19, 0);
	give_watermark(fixture);
	counts = export_sender_counts(fixture->sender);
	assert_int_equal(counts->expired, 2);
	assert_int_equal(counts->queued, 19);
	assert_true(counts->queued_bytes <= 20 * sizeof(struct export_event));
}

/* Once others of it are accepted, the one that is not is asked about for the last time, also after a wait. */
static void test_poison_after_a_wait_is_lost_soon(void **state)
{
	struct fixture *fixture = *state;

	give_and_flush(fixture, 1);
	say_status(fixture, 503, "");
	now_ns += EXPORT_RETRY_NS_MAX;
	wake(fixture);
	say_status(fixture, 200, "");
	give_and_flush(fixture, 4);
	for (unsigned i = 0; i < 3; i++)	/* 4, 2, 1 */
		say_status(fixture, 400, "the first is wrong");
	check_counts(fixture, 5, 1, 0, 4);
	say_status(fixture, 200, "");
	check_counts(fixture, 5, 2, 0, 3);
	say_status(fixture, 400, "the first is wrong");
	check_counts(fixture, 5, 2, 1, 2);
	assert_int_equal(export_sender_counts(fixture->sender)->state, EXPORT_REJECTING);
	say_status(fixture, 200, "");
	assert_false(posted);
	check_counts(fixture, 5, 4, 1, 0);
	assert_int_equal(export_sender_counts(fixture->sender)->state, EXPORT_OK);
}

/* Beyond what can be put in order all goes out as it is, counted; and none is lost. */
static void test_more_than_can_be_ordered(void **state)
{
	struct fixture *fixture = *state;
	uint64_t before = counter_read(COUNTER_export_events_unordered);

	for (unsigned i = 0; i < EXPORT_ORDER_EVENTS_MAX; i += 8192)
		give(fixture, 8192, 0);
	assert_false(posted);
	assert_int_equal(counter_read(COUNTER_export_events_unordered), before);
	give(fixture, 1, 0);
	assert_true(posted);
	assert_int_equal(counter_read(COUNTER_export_events_unordered) - before, EXPORT_ORDER_EVENTS_MAX);
	check_counts(fixture, EXPORT_ORDER_EVENTS_MAX + 1, 0, 0, EXPORT_ORDER_EVENTS_MAX + 1);
}

/* ---- How far all is dealt with --------------------------------------------------------------- */

static void check_settled(struct fixture *fixture, uint64_t wanted)
{
	assert_int_equal(export_sender_counts(fixture->sender)->settled_frame, wanted);
}

static void test_settled_is_what_nothing_waits_of(void **state)
{
	struct fixture *fixture = *state;

	check_settled(fixture, 0);
	give(fixture, 3, 0);
	check_settled(fixture, 0);
	export_sender_flush(fixture->sender);		/* the first goes out */
	give(fixture, 0, 0);
	give(fixture, 5, 0);
	check_settled(fixture, 0);
	say_status(fixture, 200, "");
	check_settled(fixture, 2);
	export_sender_flush(fixture->sender);
	say_status(fixture, 500, "");
	check_settled(fixture, 2);
	now_ns += EXPORT_RETRY_NS_MAX;
	wake(fixture);
	say_status(fixture, 400, "");			/* split in two */
	say_status(fixture, 200, "");
	check_settled(fixture, 2);
	say_status(fixture, 200, "");
	check_settled(fixture, 3);
}

/* As many frames as may be, over and over: the place in the table comes round. */
static void test_settled_over_many_frames(void **state)
{
	struct fixture *fixture = *state;

	for (unsigned round = 0; round < 3; round++) {
		uint64_t before = fixture->serial;

		give_and_flush(fixture, 1);
		for (unsigned i = 0; i < EXPORT_FRAMES_UNSETTLED_MAX - 2; i++)
			export_sender_frame(fixture->sender, ++fixture->serial,
					    (const uint8_t *)"", 0, 0);
		check_settled(fixture, before);
		say_status(fixture, 200, "");
		check_settled(fixture, fixture->serial);
	}
}

static uint64_t cpu_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

/* To walk over what waits takes a thousand times as long as is allowed here. */
static void test_report_costs_no_more_the_more_waits(void **state)
{
	struct fixture *fixture = *state;
	uint64_t began;

	for (unsigned i = 0; i < 100; i++)
		give_and_flush(fixture, EVENTS_MAX);
	began = cpu_ns();
	for (unsigned i = 0; i < 5000; i++)
		assert_int_equal(export_sender_counts(fixture->sender)->settled_frame, 0);
	assert_in_range(cpu_ns() - began, 0, NS_PER_S / 4);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, make, unmake)
		TEST(test_not_worth_sending),
		TEST(test_busy_or_broken_is_tried_for_ever),
		TEST(test_four_429s_drop_nothing),
		TEST(test_refusing_whoever_sends_is_held),
		TEST(test_tls_that_fails_is_held),
		TEST(test_poison_is_found_and_alone_is_lost),
		TEST(test_all_refused_is_held),
		TEST(test_poison_held_with_all_is_lost_in_the_end),
		TEST(test_refused_before_a_restart_is_asked_again),
		TEST(test_refused_alone_waits_for_another),
		TEST(test_mended_within_a_round),
		TEST(test_asked_again_goes_before_what_is_newer),
		TEST(test_the_oldest_is_asked_again_first),
		TEST(test_the_oldest_is_the_first_of_each_wait),
		TEST(test_the_oldest_is_first_where_all_are_aside),
		TEST(test_asked_first_once_and_then_in_its_turn),
		TEST(test_order_is_kept_behind_what_was_aside),
		TEST(test_refused_again_gives_the_others_their_turn),
		TEST(test_too_old_is_lost_at_once),
		TEST(test_lost_for_its_age_ends_a_wait),
		TEST(test_asked_about_as_many_after_one_is_accepted),
		TEST(test_too_old_of_now_is_held),
		TEST(test_metrics_too_old_are_lost_at_once),
		TEST(test_metrics_behind_and_old_are_lost_at_once),
		TEST(test_old_metrics_are_split_for_something_else),
		TEST(test_one_push_after_another_is_split),
		TEST(test_parts_of_metrics_keep_their_place),
		TEST(test_metrics_too_old_of_now_wait_for_newer_ones),
		TEST(test_metrics_too_old_are_split_for_something_else),
		TEST(test_metrics_wait_as_what_they_are),
		TEST(test_busy_with_much_is_sent_less),
		TEST(test_a_part_waits_as_the_first_did),
		TEST(test_order_is_kept_over_a_split),
		TEST(test_rest_of_a_frame_goes_at_once),
		TEST(test_partial_success_is_not_sent_again),
		TEST(test_answer_cut_short),
		TEST(test_hang_up_is_tried_again),
		TEST(test_full_queue_keeps_the_pace),
		TEST(test_nothing_expires_with_a_spool),
		TEST(test_metrics_are_bounded_with_a_spool),
		TEST(test_poison_among_metrics_alone_is_lost),
		TEST(test_metrics_all_refused_are_held),
		TEST(test_large_push_is_split_so_often),
		TEST(test_large_push_of_poison_is_split_so_often),
		TEST(test_headers_of_each_kind),
		TEST(test_waits_for_more_to_go_with_it),
		TEST(test_no_memory_for_a_request),
		TEST(test_no_memory_to_post),
		TEST(test_each_run_has_its_own_requests),
		TEST(test_times_of_the_last_of_each),
		TEST(test_failures_end_with_an_answer),
		TEST(test_what_is_on_its_way_does_not_expire),
		TEST(test_https_in_an_answer_over_tls_says_nothing),
		TEST(test_changes_are_told),
		TEST(test_refused_alone_expires_first),
		TEST(test_poison_after_a_wait_is_lost_soon),
		TEST(test_more_than_can_be_ordered),
		TEST(test_settled_is_what_nothing_waits_of),
		TEST(test_settled_over_many_frames),
		TEST(test_report_costs_no_more_the_more_waits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
