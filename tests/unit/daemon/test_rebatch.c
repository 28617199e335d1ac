/*
 * A batch as another subscription would have had it: of random batches, cut anywhere, each event that is
 * wanted is there as it was, nothing else is, each attempt is counted once, and what cannot be read is a gap.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/stream/rebatch.h"
#include "proto/batch_decode.h"
#include "tests/unit/daemon/small_catalog.h"

#define ROUNDS		400
#define ITEMS		60u
#define FIRST_SEQ	1000u
#define ATTEMPTS_MAX	1024u
#define THREADS		5u

/* What stands at an attempt. */
struct attempt {
	enum {SKIP, EVENT, LOSS} kind;
	uint16_t probe;
	uint32_t tid;
	uint64_t time_ns, field[6];
	char text[8];
};

struct made {
	struct attempt at[ATTEMPTS_MAX];
	unsigned attempts;
};

struct fixture {
	struct frame_codec *codec;
	struct batch_encoder *encoder;
	struct subscription *wanted;
	struct rebatch *rebatch;
};

static const char *const openat_glob[] = {"syscall:openat:call", "tracepoint:sched:sched_wakeup"};

static int set_up_with(struct fixture *f, uint32_t flags)
{
	struct subscription_request request = {.glob = openat_glob, .globs = 2,
					       .filter = "tid < 103 && !(ret == 3)",
					       .flags = flags};
	struct error error;

	f->codec = frame_codec_create(1);
	f->encoder = batch_encoder_create(RT_PROBE_MAX);
	assert_int_equal(subscription_create(&request, small_catalog_get(), 1, 1 << 20, &f->wanted,
					     &error), 0);
	f->rebatch = rebatch_create(f->wanted, small_catalog_get(), f->codec, f->encoder);
	assert_non_null(f->rebatch);
	return 0;
}

static void tear_down(struct fixture *f)
{
	rebatch_destroy(f->rebatch);
	subscription_destroy(f->wanted);
	batch_encoder_destroy(f->encoder);
	frame_codec_destroy(f->codec);
}

static void make_event(struct fixture *f, struct attempt *at, uint64_t time_ns, uint64_t *slot)
{
	static const uint16_t probe[] = {SMALL_OPENAT, SMALL_GETPPID, RT_PROBE_SCHED_WAKEUP};
	static const uint8_t fields[] = {6, 2, 2};
	unsigned i = (unsigned)rand() % 3, who = (unsigned)rand() % THREADS;
	struct batch_thread thread = {.tid = 100 + who, .pid = 100 + who};
	struct batch_event event = {.probe = probe[i], .fields = fields[i], .has_duration = i < 2,
				    .time_ns = time_ns, .field = at->field};

	*at = (struct attempt){.kind = EVENT, .probe = probe[i], .tid = thread.tid,
			       .time_ns = time_ns};
	for (unsigned k = 0; k < fields[i]; k++)
		at->field[k] = (unsigned)rand() % 7;
	snprintf(thread.comm, sizeof(thread.comm), "t%u", who);
	event.thread = batch_encode_thread(f->encoder, &thread, &slot[who]);
	assert_true(batch_encode_event(f->encoder, &event));
	if (i)
		return;
	snprintf(at->text, sizeof(at->text), "f%d", rand() % 1000);
	assert_true(batch_encode_string(f->encoder, 3, at->text, strlen(at->text)));
}

static struct frame_ref *make(struct fixture *f, struct made *made)
{
	struct frame_ref *frame, meta = {.ring = 0, .cpu = 5, .first_seq = FIRST_SEQ};
	uint64_t slot[THREADS] = {0}, time_ns = 1000000;
	const uint8_t *raw;
	size_t bytes;

	made->attempts = 0;
	batch_encode_begin(f->encoder, 5, FIRST_SEQ, time_ns);
	for (unsigned i = 0; i < ITEMS; i++) {
		unsigned n = 1 + (unsigned)rand() % 9, kind = (unsigned)rand() % 8;

		if (kind > 1) {
			make_event(f, &made->at[made->attempts++], time_ns += 100, slot);
			meta.events++;
			continue;
		}
		for (unsigned k = 0; k < n; k++)
			made->at[made->attempts++] =
				(struct attempt){.kind = kind ? LOSS : SKIP};
		if (kind)
			assert_true(batch_encode_loss(f->encoder, n, 1, 1));
		else
			batch_encode_skip(f->encoder, n);
		meta.skipped += kind ? 0 : n;
		meta.loss[0].count += kind ? n : 0;
	}
	meta.loss[0].stage = meta.loss[0].reason = 1;
	raw = batch_encode_finish(f->encoder, &bytes);
	frame = frame_ref_seal(f->codec, FRAME_BATCH, raw, (uint32_t)bytes);
	assert_non_null(frame);
	frame->cpu = 5;
	frame->first_seq = FIRST_SEQ;
	frame->end_seq = FIRST_SEQ + made->attempts;
	frame->events = meta.events;
	frame->skipped = meta.skipped;
	frame->losses = meta.loss[0].count != 0;
	frame->loss[0] = meta.loss[0];
	return frame;
}

static bool is_wanted(const struct attempt *at)
{
	/* A wakeup has no `ret`, and so it is not 3. */
	return at->kind == EVENT && at->tid < 103 &&
	       ((at->probe == SMALL_OPENAT && at->field[1] != 3) ||
		at->probe == RT_PROBE_SCHED_WAKEUP);
}

static void check_event(const struct attempt *at, const struct batch_item *item, uint32_t flags)
{
	char comm[16];

	assert_true(is_wanted(at));
	assert_int_equal(item->event.probe, at->probe);
	assert_int_equal(item->event.time_ns, at->time_ns);
	assert_int_equal(item->thread->tid, at->tid);
	snprintf(comm, sizeof(comm), "t%u", at->tid - 100);
	assert_string_equal(item->thread->comm, comm);
	assert_memory_equal(item->event.field, at->field, item->event.fields * sizeof(uint64_t));
	assert_int_equal(item->attachments, at->text[0] && flags);
	if (item->attachments)
		assert_memory_equal(item->attachment[0].text, at->text, strlen(at->text));
}

static void check(struct fixture *f, const struct made *made, const struct frame_ref *frame,
		  uint64_t from, uint64_t end, uint32_t flags)
{
	static struct batch_probe probe[RT_PROBE_MAX];
	struct batch_decoder *decoder;
	struct frame_header header;
	struct batch_summary summary;
	struct batch_item item;
	const uint8_t *body;
	uint64_t events = 0, lost = 0, wanted = 0;
	uint8_t *raw;

	for (size_t i = 0; i < small_catalog.n_probe; i++)
		probe[small_probe[i].id] = (struct batch_probe){
			(uint8_t)small_probe[i].n_field,
			small_probe[i].field[0] == &small_duration, true};
	assert_int_equal(frame_parse_header(frame->data, frame->bytes, FRAME_RAW_BYTES_MAX, &header),
			 FRAME_OK);
	raw = malloc(header.raw_bytes + 1);
	assert_int_equal(frame_open(f->codec, frame->data, &header, raw, &body), FRAME_OK);
	decoder = batch_decoder_create(probe, RT_PROBE_MAX);
	assert_int_equal(batch_decode_open(decoder, body, header.raw_bytes, &summary), 0);
	assert_int_equal(summary.cpu, 5);
	assert_int_equal(summary.first_seq, from);
	assert_int_equal(summary.end_seq, end);
	while (batch_decode_next(decoder, &item) == BATCH_EVENT || item.kind == BATCH_LOSS) {
		if (item.kind == BATCH_EVENT) {
			check_event(&made->at[item.seq - FIRST_SEQ], &item, flags);
			events++;
		} else {
			assert_int_equal(made->at[item.loss.first_seq - FIRST_SEQ].kind, LOSS);
			lost += item.loss.count;
		}
	}
	assert_int_equal(item.kind, BATCH_END);
	for (uint64_t i = from - FIRST_SEQ; i < end - FIRST_SEQ; i++) {
		wanted += is_wanted(&made->at[i]);
		lost -= made->at[i].kind == LOSS;
	}
	assert_int_equal(lost, 0);
	assert_int_equal(events, wanted);
	assert_int_equal(frame->events, events);
	assert_int_equal(frame->events + frame->skipped + frame_ref_losses(frame),
			 frame_ref_attempts(frame));
	batch_decoder_destroy(decoder);
	free(raw);
}

static void test_each_wanted_event_once(uint32_t flags)
{
	struct fixture f;
	struct made made;

	set_up_with(&f, flags);
	for (unsigned i = 0; i < ROUNDS; i++) {
		struct frame_ref *frame = make(&f, &made), *out;
		uint64_t from = FIRST_SEQ + (i % 2 ? (unsigned)rand() % made.attempts : 0);
		uint64_t end = UINT64_MAX;

		if (i % 3)
			end = from + (unsigned)rand() % (unsigned)(frame->end_seq - from + 1);
		out = rebatch_frame(f.rebatch, frame, from, end);
		if (end > frame->end_seq)
			end = frame->end_seq;
		assert_non_null(out);
		assert_int_equal(out->first_seq, from);
		assert_int_equal(out->end_seq, end);
		check(&f, &made, out, from, end, flags);
		frame_ref_put(out);
		frame_ref_put(frame);
	}
	tear_down(&f);
}

static void test_without_strings(void **state)
{
	(void)state;
	test_each_wanted_event_once(0);
}

static void test_with_strings(void **state)
{
	(void)state;
	test_each_wanted_event_once(RT_FLAG_STRINGS);
}

/* Of a batch that was cut in three, the parts are what they were. */
static void test_joined_as_it_was(void **state)
{
	struct fixture f;
	struct made made;

	(void)state;
	set_up_with(&f, RT_FLAG_STRINGS);
	for (unsigned i = 0; i < ROUNDS; i++) {
		struct frame_ref *frame = make(&f, &made), *part[3], *out;
		uint64_t a = FIRST_SEQ + (unsigned)rand() % made.attempts;
		uint64_t b = a + (unsigned)rand() % (unsigned)(frame->end_seq - a + 1);

		part[0] = rebatch_frame(f.rebatch, frame, 0, a);
		part[1] = rebatch_frame(f.rebatch, frame, a, b);
		part[2] = rebatch_frame(f.rebatch, frame, b, UINT64_MAX);
		out = rebatch_join(f.rebatch, part, 3);
		assert_non_null(out);
		assert_int_equal(out->first_seq, FIRST_SEQ);
		assert_int_equal(out->end_seq, frame->end_seq);
		assert_int_equal(out->events, part[0]->events + part[1]->events + part[2]->events);
		assert_int_equal(out->skipped, part[0]->skipped + part[1]->skipped + part[2]->skipped);
		check(&f, &made, out, FIRST_SEQ, frame->end_seq, RT_FLAG_STRINGS);
		frame_ref_put(out);
		for (unsigned k = 0; k < 3; k++)
			frame_ref_put(part[k]);
		frame_ref_put(frame);
	}
	tear_down(&f);
}

static void check_names(struct fixture *f, const struct frame_ref *frame)
{
	static struct batch_probe probe[RT_PROBE_MAX];
	struct batch_decoder *decoder;
	struct frame_header header;
	struct batch_summary summary;
	struct batch_item item;
	const uint8_t *body;
	uint8_t *raw;

	probe[SMALL_OPENAT] = (struct batch_probe){6, true, true};
	assert_int_equal(frame_parse_header(frame->data, frame->bytes, FRAME_RAW_BYTES_MAX, &header), FRAME_OK);
	raw = malloc(header.raw_bytes + 1);
	assert_int_equal(frame_open(f->codec, frame->data, &header, raw, &body), FRAME_OK);
	decoder = batch_decoder_create(probe, RT_PROBE_MAX);
	assert_int_equal(batch_decode_open(decoder, body, header.raw_bytes, &summary), 0);
	while (batch_decode_next(decoder, &item) == BATCH_EVENT)
		assert_string_equal(item.thread->comm, item.seq < BATCH_THREADS_MAX / 2 ? "one" : "other");
	assert_int_equal(item.kind, BATCH_END);
	batch_decoder_destroy(decoder);
	free(raw);
}

/* A thread of many batches is in the joined one once, unless its name changed. */
static void test_joined_has_each_thread_once(void **state)
{
	struct frame_ref *frame[BATCH_THREADS_MAX], *out;
	struct fixture f;

	(void)state;
	set_up_with(&f, 0);
	for (unsigned i = 0; i < BATCH_THREADS_MAX; i++) {
		uint64_t slot = 0, field[6] = {0}, size = 0;
		struct batch_thread thread = {.tid = 7, .pid = 7, .comm = "one"};
		struct batch_event event = {.probe = SMALL_OPENAT, .fields = 6, .has_duration = true,
					    .time_ns = 1000 + i, .field = field};
		const uint8_t *raw;

		if (i >= BATCH_THREADS_MAX / 2)
			strcpy(thread.comm, "other");
		batch_encode_begin(f.encoder, 5, i, 1000);
		event.thread = batch_encode_thread(f.encoder, &thread, &slot);
		assert_true(batch_encode_event(f.encoder, &event));
		raw = batch_encode_finish(f.encoder, &size);
		frame[i] = frame_ref_seal(f.codec, FRAME_BATCH, raw, (uint32_t)size);
		frame[i]->cpu = 5;
		frame[i]->first_seq = i;
		frame[i]->end_seq = i + 1;
		frame[i]->events = 1;
	}
	out = rebatch_join(f.rebatch, frame, BATCH_THREADS_MAX);
	assert_non_null(out);
	assert_int_equal(out->events, BATCH_THREADS_MAX);
	/* Were each in it again, a thread alone would take ten bytes and more. */
	assert_true(out->raw_bytes < 10 * BATCH_THREADS_MAX);
	check_names(&f, out);
	frame_ref_put(out);
	for (unsigned i = 0; i < BATCH_THREADS_MAX; i++)
		frame_ref_put(frame[i]);
	tear_down(&f);
}

static void test_unreadable_is_a_gap(void **state)
{
	struct frame_ref *frame, *out;
	struct fixture f;
	struct made made;

	(void)state;
	set_up_with(&f, 0);
	frame = make(&f, &made);
	frame->data[frame->bytes / 2] ^= 0x55;
	out = rebatch_frame(f.rebatch, frame, 0, UINT64_MAX);
	assert_int_equal(out->type, FRAME_GAP);
	assert_int_equal(out->losses, 1);
	assert_int_equal(out->loss[0].reason, LOSS_REASON_CORRUPT);
	assert_int_equal(out->loss[0].count, frame->events + frame_ref_losses(frame));
	assert_int_equal(out->loss[0].count + out->skipped, made.attempts);
	frame_ref_put(out);
	frame_ref_put(frame);
	tear_down(&f);
}

/* A frame of skips alone, or a gap, where only its end is still to come. */
static void test_cut_counts_each_attempt(void **state)
{
	struct frame_ref gap = {.type = FRAME_GAP, .first_seq = 100, .end_seq = 200, .skipped = 30,
				.losses = 1, .loss = {{1, 1, 70}}}, part;

	(void)state;
	for (uint64_t from = 0; from < 220; from++) {
		rebatch_cut(&gap, from, UINT64_MAX, &part);
		assert_int_equal(part.events + part.skipped + frame_ref_losses(&part),
				 frame_ref_attempts(&part));
		assert_int_equal(part.end_seq, 200);
		rebatch_cut(&gap, 120, from, &part);
		assert_int_equal(part.events + part.skipped + frame_ref_losses(&part),
				 frame_ref_attempts(&part));
		assert_int_equal(part.end_seq, from < 120 ? 120 : from < 200 ? from : 200);
	}
}

/* ---- Programs of a viewer's user ------------------------------------------------------------------ */

#define HERS	RT_PROBE_PROGRAM
#define HIS	(RT_PROBE_PROGRAM + 1)

/* Two probes of one name: hers and his. In an earlier run nobody knows which was whose. */
static void add_programs(Ringtail__V1__Catalog *catalog, Ringtail__V1__Probe more[2])
{
	static Ringtail__V1__Probe *probes[16];

	*catalog = *small_catalog_get();
	memcpy(probes, catalog->probe, catalog->n_probe * sizeof(*probes));
	for (unsigned i = 0; i < 2; i++) {
		ringtail__v1__probe__init(&more[i]);
		more[i].id = HERS + i;
		more[i].provider = (char *)"app";
		more[i].function = (char *)"done";
		more[i].name = (char *)"event";
		probes[catalog->n_probe++] = &more[i];
	}
	catalog->probe = probes;
}

/* One event of each of the two, and one of a kernel's probe. */
static struct frame_ref *make_of_programs(struct fixture *f, uint32_t ring)
{
	const uint16_t probe[] = {HERS, HIS, SMALL_GETPPID};
	struct batch_thread thread = {.tid = 100, .pid = 100};
	const uint64_t field[2] = {1, 2};
	struct frame_ref *frame;
	uint64_t slot = 0;
	const uint8_t *raw;
	size_t bytes;

	batch_encode_begin(f->encoder, 5, FIRST_SEQ, 1000);
	for (unsigned i = 0; i < 3; i++) {
		struct batch_event event = {.probe = probe[i], .fields = i == 2 ? 2 : 0, .has_duration = i == 2,
					    .time_ns = 1000 + i, .field = field};

		event.thread = batch_encode_thread(f->encoder, &thread, &slot);
		assert_true(batch_encode_event(f->encoder, &event));
	}
	raw = batch_encode_finish(f->encoder, &bytes);
	frame = frame_ref_seal(f->codec, FRAME_BATCH, raw, (uint32_t)bytes);
	assert_non_null(frame);
	frame->ring = ring;
	frame->cpu = 5;
	frame->first_seq = FIRST_SEQ;
	frame->end_seq = FIRST_SEQ + 3;
	frame->events = 3;
	return frame;
}

/* How many events of it are there, which is all that tells them apart. */
static uint64_t events_of(struct fixture *f, uint32_t ring)
{
	struct frame_ref *frame = make_of_programs(f, ring);
	struct frame_ref *made = rebatch_frame(f->rebatch, frame, 0, UINT64_MAX);
	uint64_t events;

	assert_non_null(made);
	assert_int_equal(made->events + made->skipped, 3);
	events = made->events;
	frame_ref_put(frame);
	frame_ref_put(made);
	return events;
}

static void open_programs(struct fixture *f, const Ringtail__V1__Catalog *catalog, const char *glob, uint32_t owner)
{
	struct subscription_request request = {.glob = &glob, .globs = 1, .filter = "", .owner = owner};
	struct error error;

	f->codec = frame_codec_create(1);
	f->encoder = batch_encoder_create(RT_PROBE_MAX);
	assert_int_equal(subscription_create(&request, catalog, 1, 1 << 20, &f->wanted, &error), 0);
	/* As it was made from what she sees. */
	if (owner && probe_set_test(&f->wanted->spec.probes, HIS))
		f->wanted->spec.probes.bits[HIS / 8] &= (uint8_t)~(1u << HIS % 8);
	f->rebatch = rebatch_create(f->wanted, catalog, f->codec, f->encoder);
	assert_non_null(f->rebatch);
}

static void test_a_users_past_has_nothing_of_others_programs(void **state)
{
	static const struct {
		const char *glob;
		uint32_t owner;
		uint64_t now, before;
		bool hides;
	} cases[] = {
		{"app:done", 0, 2, 2, false},
		{"app:done", 1000, 1, 0, true},
		{"*", 0, 3, 3, false},
		{"*", 1000, 2, 1, true},
		{"syscall:*:call", 1000, 1, 1, false},
	};
	Ringtail__V1__Catalog catalog;
	Ringtail__V1__Probe more[2];

	(void)state;
	add_programs(&catalog, more);
	for (unsigned i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct frame_ref *learned;
		struct fixture f;

		open_programs(&f, &catalog, cases[i].glob, cases[i].owner);
		assert_int_equal(events_of(&f, 0), cases[i].now);
		assert_int_equal(events_of(&f, RING_EARLIER), cases[i].before);
		learned = frame_ref_pack(f.codec, FRAME_CATALOG, &catalog.base);
		assert_true(rebatch_learn(f.rebatch, learned));
		assert_int_equal(events_of(&f, 0), cases[i].now);
		assert_int_equal(events_of(&f, RING_EARLIER), cases[i].before);
		assert_int_equal(rebatch_hides_programs(f.rebatch), cases[i].hides);
		frame_ref_put(learned);
		tear_down(&f);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_without_strings),
		cmocka_unit_test(test_with_strings),
		cmocka_unit_test(test_joined_as_it_was),
		cmocka_unit_test(test_joined_has_each_thread_once),
		cmocka_unit_test(test_unreadable_is_a_gap),
		cmocka_unit_test(test_cut_counts_each_attempt),
		cmocka_unit_test(test_a_users_past_has_nothing_of_others_programs),
	};

	srand(1);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
