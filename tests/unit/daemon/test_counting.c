/*
 * A question's events, made up at random, through a batcher that counts and through one that does not: added up by
 * what the question asks, both are the same; also where rows, buckets or keys are more than a batch takes, where slices
 * of time end, where events are lost, where some were counted before they came here, and where nobody can take a frame.
 * The ledger of every frame closes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "daemon/collect/batcher.h"
#include "daemon/collect/counting.h"
#include "proto/batch_decode.h"
#include "query/tally.h"
#include "tests/unit/daemon/small_catalog.h"

#define EVENTS		20000u
/* Of each of the many questions that differ in their words alone. To ASan the first events say what all say. */
#ifdef __SANITIZE_ADDRESS__
#define EVENTS_OF_EACH	(EVENTS / 8)
#else
#define EVENTS_OF_EACH	EVENTS
#endif
#define FRAMES_MAX	4096u
#define GROUPS_MAX	8192u
#define SECOND		1000000000ull
#define THREADS		6u

/* What the events of one text have in common, and their sums: made of decoded events alone. */
struct group {
	char text[256];
	uint64_t events, errors, values;
	struct tally tally;
};

struct groups {
	struct group group[GROUPS_MAX];
	unsigned n;
	uint64_t lost;
};

struct fixture {
	struct batcher *batcher;
	struct batcher_spec spec;
	struct frame_codec *codec;
	struct frame_ref *frame[FRAMES_MAX];
	unsigned frames;
	bool full;
};

static struct probe_table probes;
static struct thread_table *threads;
static uint64_t seed;

static uint64_t any(uint64_t below)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed % below;
}

/* ---- Batchers -------------------------------------------------------------------------------- */

static bool take(void *context, uint32_t subscription, struct frame_ref *frame)
{
	struct fixture *f = context;

	(void)subscription;
	if (f->full)
		return false;
	assert_true(f->frames < FRAMES_MAX);
	assert_int_equal(frame_ref_attempts(frame), frame->events + frame->skipped + frame_ref_losses(frame));
	f->frame[f->frames++] = frame;
	return true;
}

static void begin(struct fixture *f, const struct question_request *request)
{
	struct batcher_config config = {.spec = &f->spec, .threads = threads, .sink = take, .context = f, .cpu = 2};
	struct question *question = NULL;
	struct error error;

	memset(f, 0, sizeof(*f));
	f->codec = config.codec = frame_codec_create(1);
	f->spec.flags = RT_FLAG_STRINGS;
	assert_int_equal(probe_set_add_glob(&f->spec.probes, "*:*:*", small_catalog_get(), &error), 0);
	if (request)
		assert_int_equal(question_create(request, &f->spec.probes, small_catalog_get(), &question, &error), 0);
	f->spec.question = question;
	f->batcher = batcher_create(&config);
	assert_non_null(f->batcher);
	batcher_start(f->batcher, 100, 0);
}

static void end(struct fixture *f)
{
	batcher_destroy(f->batcher);
	for (unsigned i = 0; i < f->frames; i++)
		frame_ref_put(f->frame[i]);
	question_destroy((struct question *)f->spec.question);
	frame_codec_destroy(f->codec);
}

/* ---- Events ---------------------------------------------------------------------------------- */

struct made {
	uint64_t payload[64];
	struct ring_item item;
};

static void attach(struct made *made, unsigned arg, const char *text)
{
	struct rt_attachment *attachment = (void *)&made->payload[made->item.words];

	attachment->kind = RT_ATTACH_STRING;
	attachment->arg = (uint16_t)arg;
	attachment->bytes = (uint32_t)strlen(text);
	memcpy(attachment + 1, text, attachment->bytes);
	made->item.words += (uint16_t)(1 + (attachment->bytes + 7) / 8);
}

/* Spread over all magnitudes. */
static uint64_t any_size(void)
{
	return any(1ull << (1 + any(40)));
}

static void make(struct made *made, uint64_t time_ns, uint64_t spread)
{
	static const uint16_t probe[] = {SMALL_READ, SMALL_KILL, SMALL_EXIT, SMALL_OPENAT, SMALL_OPENAT_RETURN,
					 RT_PROBE_SCHED_SWITCH};
	char text[64];

	memset(made, 0, sizeof(*made));
	made->item = (struct ring_item){
		.time_ns = time_ns, .tid = 10 + (uint32_t)any(THREADS + 2), .probe = probe[any(6)],
		.payload = made->payload,
	};
	made->item.words = probes.probe[made->item.probe].fields;
	for (unsigned i = 0; i < made->item.words; i++)
		made->payload[i] = any(3) ? any(spread) : any_size();
	if (made->item.probe == SMALL_EXIT)
		made->payload[0] = any(2) ? UINT64_MAX : 5;
	else if (probes.probe[made->item.probe].has_duration)
		made->payload[1] = any(2) ? (uint64_t)-(int64_t)(1 + any(5)) : any(spread);
	/* The kernel looks at the lower half of a descriptor, which is AT_FDCWD as often as not. */
	if ((made->item.probe == SMALL_READ || made->item.probe == SMALL_OPENAT) && any(2))
		made->payload[2] = any(2) ? (uint64_t)AT_FDCWD : (uint32_t)AT_FDCWD;
	if (made->item.probe == RT_PROBE_SCHED_SWITCH)
		made->payload[2] = 10 + any(THREADS + 2);
	if (made->item.probe == SMALL_OPENAT && any(4)) {
		snprintf(text, sizeof(text), "/file/%llu", (unsigned long long)any(spread));
		attach(made, 1, text);
	}
}

static void learn_threads(void)
{
	threads = thread_table_create(64);
	assert_non_null(threads);
	for (uint32_t i = 0; i < THREADS; i++) {
		struct rt_thread thread = {.pid = 10 + i / 2, .uid = i % 3};

		snprintf(thread.comm, sizeof(thread.comm), "comm-%u", i % 4);
		thread_table_learn(threads, 10 + i, &thread);
	}
}

/* ---- Adding up --------------------------------------------------------------------------------- */

static const Ringtail__V1__Probe *probe_of(uint16_t id)
{
	const Ringtail__V1__Catalog *catalog = small_catalog_get();

	for (size_t i = 0; i < catalog->n_probe; i++)
		if (catalog->probe[i]->id == id)
			return catalog->probe[i];
	return NULL;
}

static int field_of(const Ringtail__V1__Probe *probe, const char *name)
{
	if (strncmp(name, "arg.", 4) == 0)
		name += 4;
	for (size_t i = 0; i < probe->n_field; i++)
		if (strcmp(probe->field[i]->name, name) == 0 ||
		    (strcmp(name, "duration") == 0 && strcmp(probe->field[i]->name, "duration_ns") == 0))
			return (int)i;
	return -1;
}

static bool never(const struct batch_item *item, const Ringtail__V1__Probe *probe)
{
	return strcmp(probe->name, "call") == 0 && item->event.field[0] == UINT64_MAX;
}

static int errno_of(const struct batch_item *item, const Ringtail__V1__Probe *probe)
{
	int ret = field_of(probe, "ret");

	return ret < 0 || never(item, probe) || item->event.field[ret] < (uint64_t)-4095 ?
		       0 : (int)-item->event.field[ret];
}

static size_t put_field(char *to, size_t room, const struct batch_item *item, const Ringtail__V1__Probe *probe,
			const char *name)
{
	int at = field_of(probe, name);

	for (size_t i = 0; i < item->attachments; i++)
		if ((int)item->attachment[i].arg == at)
			return (size_t)snprintf(to, room, "%.*s/", (int)item->attachment[i].text_bytes,
						(const char *)item->attachment[i].text);
	if (at < 0 || (at < 2 && never(item, probe)))
		return (size_t)snprintf(to, room, "-/");
	return (size_t)snprintf(to, room, "%llu/", (unsigned long long)item->event.field[at]);
}

/* As a client does: the text of each name. */
static void key_of(char *to, size_t room, const struct batch_decoder *decoder, const struct batch_item *item,
		   const Ringtail__V1__Probe *probe, const struct question_request *request)
{
	size_t used = 0;

	*to = '\0';
	if (request->interval_ns)
		used = (size_t)snprintf(to, room, "%llu/", (unsigned long long)((item->event.time_ns - request->origin_ns) /
										request->interval_ns));
	for (size_t i = 0; i < request->bys; i++) {
		const char *name = request->by[i];

		if (strcmp(name, "comm") == 0)
			used += (size_t)snprintf(to + used, room - used, "%.16s/", item->thread->comm);
		else if (strcmp(name, "pid") == 0)
			used += (size_t)snprintf(to + used, room - used, "%u/", item->thread->pid);
		else if (strcmp(name, "function") == 0)
			used += (size_t)snprintf(to + used, room - used, "%s/", probe->function);
		else if (strcmp(name, "error") == 0)
			used += (size_t)snprintf(to + used, room - used, "%d/", errno_of(item, probe));
		else
			used += put_field(to + used, room - used, item, probe, name);
		/* A thread that a field names has a name itself. */
		if (strcmp(name, "next_tid") == 0 && field_of(probe, name) >= 0) {
			const struct batch_thread *next =
				batch_decode_thread(decoder, (uint32_t)item->event.field[field_of(probe, name)]);

			used += (size_t)snprintf(to + used, room - used, "%.16s/", next ? next->comm : "");
		}
		assert_true(used < room);
	}
}

static bool value_of(const struct batch_item *item, const Ringtail__V1__Probe *probe, const char *of, uint64_t *value)
{
	int at = *of ? field_of(probe, of) : -1;
	unsigned bits = at < 0 ? 0 : probe->field[at]->bits;

	if (at < 0 || (at < 2 && never(item, probe)))
		return false;
	*value = item->event.field[at];
	if (probe->field[at]->type == RINGTAIL__V1__FIELD_TYPE__FIELD_RESULT)
		return (int64_t)*value >= 0;
	if (probe->field[at]->type == RINGTAIL__V1__FIELD_TYPE__FIELD_SIGNED ||
	    probe->field[at]->type == RINGTAIL__V1__FIELD_TYPE__FIELD_FD) {
		assert_int_equal(bits, 32);
		*value = (uint64_t)(int64_t)(int32_t)*value;
		return (int64_t)*value >= 0;
	}
	return true;
}

static struct group *group_of(struct groups *groups, const char *text)
{
	for (unsigned i = 0; i < groups->n; i++)
		if (strcmp(groups->group[i].text, text) == 0)
			return &groups->group[i];
	assert_true(groups->n < GROUPS_MAX);
	strcpy(groups->group[groups->n].text, text);
	return &groups->group[groups->n++];
}

static void add(struct group *group, const struct batch_item *item, const Ringtail__V1__Probe *probe, const char *of)
{
	const struct batch_counts *counts = item->counts;
	uint64_t value;

	if (counts) {
		group->events += counts->events;
		group->errors += counts->errors;
		group->values += counts->values;
		if (counts->values)
			tally_add_counted(&group->tally, counts->values, counts->least, counts->greatest,
					  (long double)counts->sum_high * 0x1p64L + (long double)counts->sum);
		for (uint32_t i = 0; i < counts->buckets; i++)
			tally_add_bucket(&group->tally, counts->bucket[i].number, counts->bucket[i].values);
		return;
	}
	group->events++;
	group->errors += errno_of(item, probe) != 0;
	if (value_of(item, probe, of, &value)) {
		group->values++;
		tally_add(&group->tally, value);
	}
}

/* All frames of a batcher; a gap is what was lost. */
static struct groups *add_up(struct fixture *f, const struct question_request *request)
{
	static struct batch_probe shape[RT_PROBE_MAX];
	struct groups *groups = calloc(1, sizeof(*groups));
	uint8_t *raw = malloc(FRAME_RAW_BYTES_MAX);
	struct batch_decoder *decoder;
	uint64_t seq = 100;

	for (size_t i = 0; i < small_catalog_get()->n_probe; i++) {
		uint32_t id = small_catalog_get()->probe[i]->id;

		shape[id] = (struct batch_probe){.fields = probes.probe[id].fields, .known = true,
						 .has_duration = probes.probe[id].has_duration};
	}
	decoder = batch_decoder_create(shape, RT_PROBE_MAX);
	assert_true(groups && raw && decoder);
	for (unsigned i = 0; i < f->frames; i++) {
		const struct frame_ref *frame = f->frame[i];
		struct batch_summary summary;
		struct frame_header header;
		struct batch_item item;
		const uint8_t *message;

		assert_int_equal(frame->first_seq, seq);
		seq = frame->end_seq;
		groups->lost += frame_ref_losses(frame);
		if (!frame->bytes || frame->type == FRAME_GAP)
			continue;
		assert_int_equal(frame_parse_header(frame->data, frame->bytes, FRAME_RAW_BYTES_MAX, &header), FRAME_OK);
		assert_int_equal(frame_open(f->codec, frame->data, &header, raw, &message), FRAME_OK);
		assert_int_equal(batch_decode_open(decoder, message, header.raw_bytes, &summary), 0);
		assert_int_equal(summary.counted, frame->events);
		while (batch_decode_next(decoder, &item) < BATCH_END) {
			char text[256];

			if (item.kind != BATCH_EVENT)
				continue;
			assert_int_equal(!!item.counts, !!f->spec.question);
			key_of(text, sizeof(text), decoder, &item, probe_of(item.event.probe), request);
			add(group_of(groups, text), &item, probe_of(item.event.probe), request->of);
		}
		assert_int_equal(item.kind, BATCH_END);
	}
	batch_decoder_destroy(decoder);
	free(raw);
	return groups;
}

static void destroy_groups(struct groups *groups)
{
	for (unsigned i = 0; i < groups->n; i++)
		tally_clear(&groups->group[i].tally);
	free(groups);
}

static void compare(struct groups *counted, struct groups *streamed)
{
	assert_int_equal(counted->n, streamed->n);
	assert_int_equal(counted->lost, streamed->lost);
	for (unsigned i = 0; i < streamed->n; i++) {
		const struct group *b = &streamed->group[i], *a = group_of(counted, b->text);

		assert_int_equal(counted->n, streamed->n);
		assert_int_equal(a->events, b->events);
		assert_int_equal(a->errors, b->errors);
		assert_int_equal(a->values, b->values);
		assert_int_equal(a->tally.count, b->tally.count);
		assert_int_equal(a->tally.min, b->tally.min);
		assert_int_equal(a->tally.max, b->tally.max);
		assert_true(a->tally.sum == b->tally.sum);
		for (unsigned row = 0; row < TALLY_ROWS; row++)
			for (unsigned step = 0; step < TALLY_STEPS; step++)
				assert_int_equal(a->tally.row[row] ? a->tally.row[row][step] : 0,
						 b->tally.row[row] ? b->tally.row[row][step] : 0);
	}
}

/* ---- Tests ----------------------------------------------------------------------------------- */

/* One thing on the ring, told to both. */
static void tell(struct fixture *counts, struct fixture *streams, const struct made *made, uint32_t what)
{
	const struct probe_info *info = &probes.probe[made->item.probe];
	uint32_t thread = thread_table_find(threads, made->item.tid);
	struct fixture *both[] = {counts, streams};

	for (unsigned i = 0; i < 2; i++) {
		if (what == 0)
			batcher_skip(both[i]->batcher);
		else if (what == 1)
			batcher_loss(both[i]->batcher, 3, LOSS_STAGE_RING, LOSS_REASON_RING_FULL);
		else
			batcher_event(both[i]->batcher, &made->item, info, thread);
	}
}

static unsigned same(const struct question_request *request, unsigned events, uint64_t spread)
{
	struct fixture counts, streams;
	struct groups *counted, *streamed;
	uint64_t time_ns = 5 * SECOND;
	unsigned frames;
	struct made made;

	begin(&counts, request);
	begin(&streams, NULL);
	for (unsigned i = 0; i < events; i++) {
		time_ns += any(SECOND / 1000);
		make(&made, time_ns - any(2000), spread);	/* not all in the order of time */
		tell(&counts, &streams, &made, (uint32_t)any(50));
		if (!any(200)) {
			batcher_tick(counts.batcher, time_ns - SECOND / 100);
			batcher_tick(streams.batcher, time_ns - SECOND / 100);
		}
	}
	batcher_tick(counts.batcher, UINT64_MAX);
	batcher_tick(streams.batcher, UINT64_MAX);
	counted = add_up(&counts, request);
	streamed = add_up(&streams, request);
	compare(counted, streamed);
	destroy_groups(counted);
	destroy_groups(streamed);
	frames = counts.frames;
	end(&counts);
	end(&streams);
	return frames;
}

static void test_same_answer(void **state)
{
	static const char *const by[][3] = {
		{"comm", "function", "error"}, {"pid", "fd", "count"}, {"filename", "comm"}, {"next_tid", "flags"},
		{"ret", "duration"}, {"arg.fd", "arg.filename", "arg.pid"}, {NULL},
	};
	static const char *const of[] = {"duration", "", "ret", "arg.count", "sig", "fd", "dfd"};

	(void)state;
	for (unsigned i = 0; i < sizeof(by) / sizeof(by[0]); i++)
		for (unsigned k = 0; k < sizeof(of) / sizeof(of[0]); k++) {
			struct question_request request = {.by = by[i], .of = of[k]};

			while (request.bys < 3 && by[i][request.bys])
				request.bys++;
			same(&request, EVENTS_OF_EACH, 1 + any(6));
		}
}

/* As the kernel does: an event that does not return is recorded, whatever is asked. */
static bool is_counted(const struct fixture *f, const struct made *made)
{
	return probe_set_test(batcher_plain_probes(&f->spec), made->item.probe) &&
	       !(made->item.probe == SMALL_EXIT && made->payload[0] == UINT64_MAX) && any(3);
}

static void count_one(struct ring_counted *counted, const struct made *made)
{
	bool failed = probes.probe[made->item.probe].has_duration && made->payload[1] >= (uint64_t)-4095;

	counted->probe = made->item.probe;
	counted->good += !failed;
	counted->bad += failed;
}

static void pass_counted(struct fixture *f, struct ring_counted *counted, uint64_t time_ns)
{
	for (unsigned i = 0; i < RT_PROBE_MAX; i++)
		if (counted[i].good || counted[i].bad) {
			batcher_counted(f->batcher, &counted[i], &probes.probe[i], time_ns);
			counted[i] = (struct ring_counted){0};
		}
}

static void test_some_are_counted_before_they_come(void **state)
{
	static const char *const by[][3] = {{"probe"}, {"function", "cpu"}, {NULL}, {"provider", "host", "name"}};
	static struct ring_counted counted[RT_PROBE_MAX];

	(void)state;
	for (unsigned i = 0; i < sizeof(by) / sizeof(by[0]); i++) {
		struct question_request request = {.by = by[i], .of = ""};
		struct fixture counts, streams;
		struct groups *a, *b;
		struct made made;

		while (request.bys < 3 && by[i][request.bys])
			request.bys++;
		begin(&counts, &request);
		begin(&streams, NULL);
		for (unsigned k = 0; k < EVENTS; k++) {
			make(&made, 5 * SECOND + k, 4);
			if (is_counted(&counts, &made)) {
				count_one(&counted[made.item.probe], &made);
				batcher_event(streams.batcher, &made.item, &probes.probe[made.item.probe],
					      thread_table_find(threads, made.item.tid));
			} else {
				tell(&counts, &streams, &made, (uint32_t)any(50));
			}
			if (!any(100))
				pass_counted(&counts, counted, 5 * SECOND + k);
			if (!any(300))
				batcher_tick(counts.batcher, 5 * SECOND + k);
		}
		pass_counted(&counts, counted, 6 * SECOND);
		batcher_tick(counts.batcher, UINT64_MAX);
		batcher_tick(streams.batcher, UINT64_MAX);
		a = add_up(&counts, &request);
		b = add_up(&streams, &request);
		compare(a, b);
		destroy_groups(a);
		destroy_groups(b);
		end(&counts);
		end(&streams);
	}
}

static bool has_plain(const struct question_request *request, const struct filter *filter, bool of_kernel,
		      uint16_t probe)
{
	const struct probe_set *plain;
	struct fixture f;
	bool has;

	begin(&f, request);
	f.spec.filter = filter;
	f.spec.filter_of_kernel = of_kernel;
	plain = batcher_plain_probes(&f.spec);
	has = plain && probe_set_test(plain, probe);
	f.spec.filter = NULL;
	end(&f);
	return has;
}

/* Only where nobody need know who did it, when, or with what. */
static void test_what_is_plain(void **state)
{
	const char *by[] = {"function"}, *who[] = {"function", "comm"}, *error[] = {"error"}, *absent[] = {"sig"};
	const struct question_request request = {.by = by, .bys = 1, .of = ""};
	struct question_request other = request;
	struct filter *filter;
	struct error why;

	(void)state;
	assert_true(has_plain(&request, NULL, false, SMALL_READ));
	assert_true(has_plain(&request, NULL, false, RT_PROBE_SCHED_SWITCH));
	assert_false(has_plain(&request, NULL, false, SMALL_OPENAT_RETURN));	/* it fails, and no call's count says so */
	assert_false(has_plain(NULL, NULL, false, SMALL_READ));
	assert_int_equal(filter_compile("pid == 7", small_catalog_get(), &filter, &why), 0);
	assert_false(has_plain(&request, filter, false, SMALL_READ));
	assert_true(has_plain(&request, filter, true, SMALL_READ));
	filter_destroy(filter);
	other.by = who;
	other.bys = 2;
	assert_false(has_plain(&other, NULL, false, SMALL_READ));
	other.by = error;
	other.bys = 1;
	assert_false(has_plain(&other, NULL, false, SMALL_READ));
	other.by = absent;
	assert_true(has_plain(&other, NULL, false, SMALL_READ));
	assert_false(has_plain(&other, NULL, false, SMALL_KILL));
	other = request;
	other.of = "duration";
	assert_false(has_plain(&other, NULL, false, SMALL_READ));
	other = request;
	other.interval_ns = SECOND;
	assert_false(has_plain(&other, NULL, false, SMALL_READ));
}

/* They began before it was asked for more. */
static void test_counted_are_skipped_by_whoever_wants_events(void **state)
{
	const struct ring_counted counted = {.probe = SMALL_READ, .good = 4, .bad = 3};
	struct fixture f;

	(void)state;
	begin(&f, NULL);
	batcher_counted(f.batcher, &counted, &probes.probe[SMALL_READ], SECOND);
	batcher_flush(f.batcher);
	assert_int_equal(f.frames, 1);
	assert_int_equal(f.frame[0]->skipped, 7);
	assert_int_equal(f.frame[0]->events, 0);
	end(&f);
}

/* A row for nearly each event: more than a batch takes. */
static void test_more_rows_than_a_batch_takes(void **state)
{
	const char *by[] = {"count", "comm"};
	const struct question_request request = {.by = by, .bys = 2, .of = "duration"};

	(void)state;
	same(&request, EVENTS, 1200);
}

static void test_slices_of_time(void **state)
{
	const char *by[] = {"comm"};
	struct question_request request = {.by = by, .bys = 1, .of = "duration", .interval_ns = 300000000,
					   .origin_ns = 123456789};
	unsigned frames;

	(void)state;
	frames = same(&request, EVENTS, 4);
	/* EVENTS last for some 10 s: 34 intervals. At the seams a few more, where events are not in order. */
	assert_true(frames >= 30 && frames < 200);
	request.interval_ns = 2 * SECOND + SECOND / 3;
	same(&request, EVENTS, 4);
	request.interval_ns = 0;
	same(&request, EVENTS, 4);
}

static void test_where_slices_begin(void **state)
{
	const struct question_request request = {.of = "", .interval_ns = 2 * SECOND + SECOND / 2,
						 .origin_ns = 10 * SECOND + 7};
	struct question *question;
	struct error error;

	(void)state;
	assert_int_equal(question_create(&request, &(struct probe_set){0}, small_catalog_get(), &question, &error), 0);
	for (uint64_t interval = 10; interval < 30; interval++) {
		uint64_t from = interval * request.interval_ns + 7;

		assert_int_equal(question_slice(question, from), from);
		assert_int_equal(question_slice(question, from + SECOND - 1), from);
		assert_int_equal(question_slice(question, from + SECOND), from + SECOND);
		assert_int_equal(question_slice(question, from + request.interval_ns - 1), from + 2 * SECOND);
	}
	question_destroy(question);
}

/* Where nobody takes the frame, what it counted is lost, in its place and number. */
static void test_nobody_takes_it(void **state)
{
	const struct question_request request = {.of = ""};
	struct groups *groups;
	struct fixture f;
	struct made made;

	(void)state;
	begin(&f, &request);
	f.full = true;
	for (unsigned i = 0; i < 50; i++) {
		make(&made, 1000 + i, 3);
		batcher_event(f.batcher, &made.item, &probes.probe[made.item.probe], THREAD_NONE);
	}
	batcher_flush(f.batcher);
	f.full = false;
	for (unsigned i = 0; i < 20; i++)
		batcher_event(f.batcher, &made.item, &probes.probe[made.item.probe], THREAD_NONE);
	batcher_flush(f.batcher);
	groups = add_up(&f, &request);
	assert_int_equal(groups->lost, 50);
	assert_int_equal(groups->n, 1);
	assert_int_equal(groups->group[0].events, 20);
	destroy_groups(groups);
	end(&f);
}

static void test_refused(void **state)
{
	char longer[QUESTION_NAME_BYTES_MAX + 2];
	const char *name[QUESTION_BY_MAX + 1];
	struct question_request request = {.by = name, .of = ""};
	struct question *question;
	struct error error;

	(void)state;
	memset(longer, 'x', sizeof(longer));
	longer[sizeof(longer) - 1] = '\0';
	for (unsigned i = 0; i <= QUESTION_BY_MAX; i++)
		name[i] = "comm";
#define REFUSED() do { assert_int_equal(question_create(&request, &(struct probe_set){0}, small_catalog_get(), \
							&question, &error), -EINVAL); \
		       assert_string_equal(error.code, "question-invalid"); } while (0)
	request.bys = QUESTION_BY_MAX + 1;
	REFUSED();
	request.bys = 1;
	name[0] = "";
	REFUSED();
	name[0] = longer;
	REFUSED();
	request.bys = 0;
	request.of = longer;
	REFUSED();
	request.of = longer + 1;
	request.interval_ns = QUESTION_INTERVAL_NS_MIN - 1;
	REFUSED();
	request.interval_ns = QUESTION_INTERVAL_NS_MIN;
	assert_int_equal(question_create(&request, &(struct probe_set){0}, small_catalog_get(), &question, &error), 0);
	question_destroy(question);
#undef REFUSED
}

static int set_up(void **state)
{
	const char *given = getenv("RINGTAIL_SEED");
	struct error error;

	(void)state;
	seed = given ? strtoull(given, NULL, 0) : (uint64_t)time(NULL) | 1;
	print_message("seed %llu\n", (unsigned long long)seed);
	learn_threads();
	return probe_table_init(&probes, small_catalog_get(), &error);
}

static int tear_down(void **state)
{
	(void)state;
	thread_table_destroy(threads);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_same_answer),
		cmocka_unit_test(test_some_are_counted_before_they_come),
		cmocka_unit_test(test_what_is_plain),
		cmocka_unit_test(test_counted_are_skipped_by_whoever_wants_events),
		cmocka_unit_test(test_more_rows_than_a_batch_takes),
		cmocka_unit_test(test_slices_of_time),
		cmocka_unit_test(test_where_slices_begin),
		cmocka_unit_test(test_nobody_takes_it),
		cmocka_unit_test(test_refused),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
