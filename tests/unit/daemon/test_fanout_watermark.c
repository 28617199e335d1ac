/*
 * What the main loop tells of skips and of time: each skip once, with the first watermark that there is
 * memory for and before the ring's next frame; and time as far as the slowest worker has come. Workers
 * are idle here, and their mails are made by hand.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "tests/unit/daemon/small_engine.h"

#define READS	"syscall:read:call"

static unsigned failures_left;		/* of watermarks, for want of memory */
static unsigned watermarks_made;

struct frame_ref *__real_frame_ref_pack(struct frame_codec *codec, enum frame_type type,
					const ProtobufCMessage *message);
struct frame_ref *__wrap_frame_ref_pack(struct frame_codec *codec, enum frame_type type,
					const ProtobufCMessage *message);
struct frame_ref *__wrap_frame_ref_pack(struct frame_codec *codec, enum frame_type type,
					const ProtobufCMessage *message)
{
	if (type == FRAME_WATERMARK && failures_left) {
		failures_left--;
		return NULL;
	}
	watermarks_made += type == FRAME_WATERMARK;
	return __real_frame_ref_pack(codec, type, message);
}

struct fixture {
	struct engine e;
	struct peer *peer;
	uint64_t made[ENGINE_RINGS];	/* what mails are of, so far */
	uint64_t seq[ENGINE_RINGS];	/* what the client has */
	uint64_t time_ns;		/* of the newest watermark that it has */
};

static void open_all(struct fixture *f)
{
	struct watcher watcher;

	*f = (struct fixture){.peer = NULL};
	failures_left = 0;
	engine_open(&f->e, ENGINE_RINGS, ENGINE_RINGS, 8);
	watcher = watcher_open(&f->e, READS, NULL, NULL);
	f->peer = watcher.peer;
	memcpy(f->seq, watcher.seq, sizeof(f->seq));
	memcpy(f->made, watcher.seq, sizeof(f->made));
}

static void close_all(struct fixture *f)
{
	peer_close(f->peer);
	engine_close(&f->e);
}

/* ---- Mails ----------------------------------------------------------------------------------- */

static void send_mail(struct fixture *f, struct worker_mail mail)
{
	struct worker_mail *mine = malloc(sizeof(*mine));

	assert_non_null(mine);
	*mine = mail;
	mailbox_send(&f->e.mailbox, &mine->mail);
}

static void send_time(struct fixture *f, uint32_t worker, uint64_t time_ns)
{
	send_mail(f, (struct worker_mail){.kind = WORKER_WATERMARK, .worker = worker, .time_ns = time_ns});
}

static void send_frame(struct fixture *f, uint32_t ring, struct frame_ref *frame, uint64_t attempts)
{
	assert_non_null(frame);
	frame->ring = ring;
	frame->cpu = engine_cpu[ring];
	frame->first_seq = f->made[ring];
	frame->end_seq = f->made[ring] += attempts;
	send_mail(f, (struct worker_mail){.kind = WORKER_FRAME, .worker = ring, .frame = frame});
}

/* Nothing but what the client did not ask for. */
static void send_skips(struct fixture *f, uint32_t ring, uint64_t skips)
{
	struct frame_ref *frame = frame_ref_create(FRAME_BATCH, 0);

	assert_non_null(frame);
	frame->skipped = skips;
	send_frame(f, ring, frame, skips);
}

static void send_events(struct fixture *f, uint32_t ring, uint32_t events)
{
	Ringtail__V1__Batch batch = RINGTAIL__V1__BATCH__INIT;
	struct frame_ref *frame;

	batch.cpu = engine_cpu[ring];
	batch.first_seq = f->made[ring];
	batch.end_seq = f->made[ring] + events;
	batch.events = events;
	frame = frame_ref_pack(f->e.codec, FRAME_BATCH, &batch.base);
	assert_non_null(frame);
	frame->events = events;
	worker_mail_free(f->e.worker[ring], NULL, -(uint64_t)frame->bytes);
	send_frame(f, ring, frame, events);
}

/* ---- The client ------------------------------------------------------------------------------ */

static void take_watermark(struct fixture *f, const Ringtail__V1__Watermark *watermark)
{
	assert_true(watermark->time_ns >= f->time_ns);
	f->time_ns = watermark->time_ns;
	assert_int_equal(watermark->n_position, ENGINE_RINGS);
	for (unsigned i = 0; i < ENGINE_RINGS; i++) {
		unsigned ring = watcher_ring(watermark->position[i]->cpu);

		assert_true(watermark->position[i]->seq >= f->seq[ring]);
		assert_int_equal(watermark->position[i]->skipped, watermark->position[i]->seq - f->seq[ring]);
		f->seq[ring] = watermark->position[i]->seq;
	}
}

/* Takes what comes until it has all that mails were of, each once and in order. */
static void take_all(struct fixture *f)
{
	for (unsigned i = 0; memcmp(f->seq, f->made, sizeof(f->seq)) != 0; i++) {
		enum frame_type type;
		void *message = peer_next(f->peer, &type);

		assert_non_null(message);
		assert_true(i < 1000 && (type == FRAME_WATERMARK || type == FRAME_BATCH));
		if (type == FRAME_WATERMARK) {
			take_watermark(f, message);
		} else {
			const Ringtail__V1__Batch *batch = message;

			assert_int_equal(batch->first_seq, f->seq[watcher_ring(batch->cpu)]);
			f->seq[watcher_ring(batch->cpu)] = batch->end_seq;
		}
		peer_free(message);
	}
}

/* The next watermark of all that is told. */
static void take_one_watermark(struct fixture *f)
{
	Ringtail__V1__Watermark *watermark = peer_expect(f->peer, FRAME_WATERMARK);

	take_watermark(f, watermark);
	peer_free(watermark);
}

/* ---- Cases ----------------------------------------------------------------------------------- */

static void skips_after_two_failed_watermarks(void **state)
{
	struct fixture f;

	(void)state;
	open_all(&f);
	for (unsigned failures = 0; failures < 3; failures++) {
		send_skips(&f, 0, 10);
		peer_run(f.e.base);
		failures_left = failures;
		for (unsigned i = 0; i <= failures; i++) {
			send_skips(&f, i % 2, 3 + i);
			send_time(&f, 0, 1);
			peer_run(f.e.base);
		}
		PEER_AWAIT(f.e.base, failures_left == 0);
		send_time(&f, 0, 1);
		take_all(&f);
	}
	/* Nothing is told twice. */
	send_time(&f, 0, 1);
	take_one_watermark(&f);
	close_all(&f);
}

static void skips_before_the_frame_behind_them(void **state)
{
	struct fixture f;

	(void)state;
	open_all(&f);
	for (unsigned failures = 0; failures < 3; failures++) {
		send_skips(&f, 0, 7);
		send_skips(&f, 0, 2);
		failures_left = failures;
		send_events(&f, 0, 5);
		peer_run(f.e.base);
		/* What has no memory waits for the next mail. */
		for (unsigned i = 0; i < failures; i++) {
			send_skips(&f, 1, 1);
			peer_run(f.e.base);
		}
		assert_int_equal(failures_left, 0);
		send_time(&f, 0, 1);
		take_all(&f);
	}
	close_all(&f);
}

static void time_of_the_slowest_worker(void **state)
{
	uint64_t late_ns = clock_monotonic() + 3600 * NS_PER_S;
	struct fixture f;

	(void)state;
	open_all(&f);
	for (unsigned first = 0; first < 2; first++) {
		send_time(&f, first, late_ns);
		send_skips(&f, 0, 1);
		send_time(&f, first, late_ns);
		take_all(&f);
		assert_true(f.time_ns < late_ns);
		/* Real ones take it back, and it is theirs again. */
		send_time(&f, first, 1);
	}
	send_time(&f, 0, late_ns + 2);
	send_time(&f, 1, late_ns + 1);
	send_skips(&f, 0, 1);
	send_time(&f, 1, late_ns + 1);
	take_all(&f);
	assert_int_equal(f.time_ns, late_ns + 1);
	/* An unfinished writer holds one back: what was said stays true. */
	send_skips(&f, 1, 4);
	send_time(&f, 0, 5);
	take_all(&f);
	assert_int_equal(f.time_ns, late_ns + 1);
	close_all(&f);
}

/* Where a subscription's record begins is not known before it is live: nothing is told of it. */
static void no_watermark_before_it_is_live(void **state)
{
	struct watcher watcher = {0};
	struct fixture f = {.peer = NULL};
	unsigned before;

	(void)state;
	engine_open(&f.e, ENGINE_RINGS, ENGINE_RINGS, 8);
	f.e.loader.hold = true;
	watcher.peer = engine_connect(&f.e);
	peer_greet(watcher.peer);
	peer_send_subscribe(watcher.peer, READS, NULL, NULL);
	PEER_AWAIT(f.e.base, f.e.loader.configures);
	before = watermarks_made;
	send_time(&f, 0, 1);
	peer_run(f.e.base);
	assert_int_equal(watermarks_made, before);
	engine_let(&f.e.loader);
	watcher_start(&watcher);
	send_time(&f, 0, 1);
	PEER_AWAIT(f.e.base, watermarks_made > before);
	peer_close(watcher.peer);
	engine_close(&f.e);
}

/* What the workers have counted of a slice comes at its end: time is told as far as that, once. */
static void time_of_what_is_counted(void **state)
{
	const uint64_t second = NS_PER_S, late_ns = (clock_monotonic() / second + 3600) * second + 7;
	Ringtail__V1__Question question = RINGTAIL__V1__QUESTION__INIT;
	char *by[] = {"comm"};
	struct watcher watcher;
	struct fixture f;

	(void)state;
	f = (struct fixture){.peer = NULL};
	engine_open(&f.e, ENGINE_RINGS, ENGINE_RINGS, 8);
	watcher = (struct watcher){.peer = engine_connect(&f.e)};
	peer_greet(watcher.peer);
	question.by = by;
	question.n_by = 1;
	question.interval_ns = 5 * second;
	question.origin_ns = late_ns;
	peer_send_question(watcher.peer, READS, &question);
	watcher_start(&watcher);
	f.peer = watcher.peer;
	memcpy(f.seq, watcher.seq, sizeof(f.seq));
	memcpy(f.made, watcher.seq, sizeof(f.made));
	for (uint64_t slice_ns = late_ns; slice_ns < late_ns + 7 * second; slice_ns += second) {
		uint64_t before_ns = f.time_ns;

		for (unsigned step = 1; step < 4; step++)
			for (uint32_t worker = 0; worker < ENGINE_RINGS; worker++)
				send_time(&f, worker, slice_ns + step * second / 4 + worker);
		send_skips(&f, 0, 1);
		send_events(&f, 0, 2);		/* before a frame, what was skipped is told at once */
		while (f.time_ns < slice_ns) {
			take_one_watermark(&f);
			assert_true(f.time_ns == slice_ns || f.time_ns <= late_ns);
			assert_true(f.time_ns > before_ns || !f.time_ns);	/* not told twice */
			before_ns = f.time_ns;
		}
		take_all(&f);
		assert_int_equal(f.time_ns, slice_ns);
	}
	close_all(&f);
}

/* What a writer that was not waited for any longer finishes: who comes later is told the end, still. */
static void nothing_behind_the_bye(void **state)
{
	struct watcher watcher;
	struct fixture f;
	enum frame_type type;
	void *message;

	(void)state;
	open_all(&f);
	engine_report(&f.e.loader, (struct loader_report){.event = LOADER_FINISHED});
	peer_free(peer_await(f.peer, FRAME_BYE));
	send_events(&f, 0, 5);
	peer_run(f.e.base);
	watcher = watcher_open(&f.e, READS, NULL, NULL);
	message = peer_next(watcher.peer, &type);
	assert_non_null(message);
	assert_int_equal(type, FRAME_BYE);
	peer_free(message);
	peer_close(watcher.peer);
	close_all(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(skips_after_two_failed_watermarks),
		cmocka_unit_test(skips_before_the_frame_behind_them),
		cmocka_unit_test(time_of_the_slowest_worker),
		cmocka_unit_test(time_of_what_is_counted),
		cmocka_unit_test(no_watermark_before_it_is_live),
		cmocka_unit_test(nothing_behind_the_bye),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
