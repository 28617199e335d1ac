/*
 * What an exporter is told was lost before it: as many events as are known to be missing; at most as many as
 * there were attempts, where nothing else is known; and that there was a gap, where not even that is. Told by
 * the stream itself, or as a frame out of the spool, it counts alike. And a durable consumer acknowledges what its
 * back end has, not what is on its way there. What streams and sends is this test.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>

#include "daemon/export/feed.h"
#include "daemon/export/thread.h"
#include "daemon/stream/stream.h"
#include "tests/unit/daemon/small_catalog.h"

#define STAGE	LOSS_STAGE_QUEUE
#define REASON	LOSS_REASON_QUEUE_FULL

static struct frame_codec *codec;
static struct subscriber *subscriber;
static struct stream *stream;		/* of one ring */
static const uint32_t cpu_of[] = {3};
static struct mailbox *reports;
static unsigned acks;
static uint64_t acked_upto;
static struct frame_ref *waiting;	/* a Gap, */
static bool told;			/* that the stream itself tells */

const Ringtail__V1__Catalog *__wrap_loader_catalog(const struct loader *loader);
const Ringtail__V1__Catalog *__wrap_loader_catalog(const struct loader *loader)
{
	(void)loader;
	return small_catalog_get();
}

uint32_t __wrap_loader_rings(const struct loader *loader);
uint32_t __wrap_loader_rings(const struct loader *loader)
{
	(void)loader;
	return 1;
}

int __wrap_fanout_subscribe(struct fanout *fanout, struct subscriber *from, const struct subscribe_request *request,
			    struct error *error);
int __wrap_fanout_subscribe(struct fanout *fanout, struct subscriber *from, const struct subscribe_request *request,
			    struct error *error)
{
	(void)fanout, (void)request, (void)error;
	subscriber = from;
	return from->live(from->context, stream, NULL);
}

void __wrap_fanout_leave(struct fanout *fanout, struct subscriber *from, bool orderly);
void __wrap_fanout_leave(struct fanout *fanout, struct subscriber *from, bool orderly)
{
	(void)fanout, (void)from, (void)orderly;
}

int __wrap_fanout_ack(struct fanout *fanout, struct subscriber *from, const struct cursor *upto, struct error *error);
int __wrap_fanout_ack(struct fanout *fanout, struct subscriber *from, const struct cursor *upto, struct error *error)
{
	(void)fanout, (void)from, (void)error;
	acks++;
	acked_upto = cursor_seq(upto, cpu_of[0], 0);
	return 0;
}

void __wrap_stream_destroy(struct stream *old);
void __wrap_stream_destroy(struct stream *old)
{
	(void)old;
}

unsigned __wrap_stream_peek(struct stream *from, struct frame_ref **frame, unsigned n, stream_tell *tell,
			    void *context);
unsigned __wrap_stream_peek(struct stream *from, struct frame_ref **frame, unsigned n, stream_tell *tell,
			    void *context)
{
	(void)n;
	from->gaps = false;
	if (waiting && !told) {
		*frame = waiting;
		return 1;
	}
	if (waiting)
		tell(context, frame_ref_get(waiting));
	waiting = NULL;
	return 0;
}

void __wrap_stream_sent(struct stream *from);
void __wrap_stream_sent(struct stream *from)
{
	if (waiting->type == FRAME_BATCH)
		from->ring[0].seen = waiting->end_seq;
	waiting = NULL;
}

int __wrap_export_thread_start(const struct export_thread_config *config, struct export_thread **thread,
			       struct error *error);
int __wrap_export_thread_start(const struct export_thread_config *config, struct export_thread **thread,
			       struct error *error)
{
	(void)error;
	reports = config->reports;
	*thread = NULL;
	return 0;
}

int __wrap_export_thread_give(struct export_thread *thread, unsigned target, uint64_t serial, const uint8_t *frame,
			      size_t bytes, uint64_t events);
int __wrap_export_thread_give(struct export_thread *thread, unsigned target, uint64_t serial, const uint8_t *frame,
			      size_t bytes, uint64_t events)
{
	(void)thread, (void)target, (void)serial, (void)frame, (void)bytes, (void)events;
	return 0;
}

static void setup(struct export_feed_config *from, const struct config *config, struct export_targets *targets,
		  struct export_feed **feed)
{
	struct error error = {0};

	stream = calloc(1, sizeof(*stream) + sizeof(stream->ring[0]));
	stream->cpu_of = cpu_of;
	stream->ring[0].seen = 10;
	from->base = event_base_new();
	from->codec = codec;
	from->config = config;
	from->targets = targets;
	from->run = (struct run){.boot_id = "b", .epoch = 1};
	if (export_feed_create(from, feed, &error))
		fail_msg("%s", error.what);
}

static void teardown(struct export_feed_config *from, struct export_feed *feed)
{
	export_feed_destroy(feed);
	event_base_free(from->base);
	free(stream);
}

static void lose(uint64_t first_seq, uint64_t end_seq, uint64_t events)
{
	struct frame_ref *frame = frame_ref_gap(codec, 0, first_seq, end_seq, STAGE, REASON, events);

	assert_non_null(frame);
	waiting = frame;
	stream->gaps = told;
	subscriber->wake(subscriber->context);
	assert_null(waiting);
	frame_ref_put(frame);
}

static void expect(const struct export_feed *feed, uint64_t lost, uint64_t gaps)
{
	struct stat_export stat;

	export_feed_stat(feed, 0, &stat);
	assert_int_equal(stat.lost_by[STAGE][REASON], lost);
	assert_int_equal(stat.events, lost);
	assert_int_equal(stat.gaps, gaps);
	assert_int_equal(stat.in_flight, 0);
	assert_int_equal(stat.residual, 0);
}

static void what_was_lost_before_is_counted_in_events(void **state)
{
	struct config config = {.export_queue_bytes = 1 << 20, .export_probe = {.word = {(char *)"*"}, .count = 1}};
	struct export_targets targets = {.target = {{.kind = export_kind_find("loki"), .name = "loki"}}, .count = 1};

	(void)state;
	codec = frame_codec_create(1);
	for (unsigned i = 0; i < 2; i++) {
		struct export_feed_config from = {0};
		struct export_feed *feed;

		told = i;
		setup(&from, &config, &targets, &feed);
		lose(10, 30, 5);		/* the others were skipped */
		expect(feed, 5, 0);
		lose(30, 40, 0);
		expect(feed, 15, 0);
		lose(40, 40, 0);
		expect(feed, 15, 1);
		teardown(&from, feed);
	}
	frame_codec_destroy(codec);
}

/* As the export thread says it: so many frames are taken apart, and so many dealt with. */
static void report(const struct export_feed_config *from, uint64_t decoded, uint64_t settled)
{
	struct export_report *report = calloc(1, sizeof(*report));

	report->counts.decoded_frame = decoded;
	report->counts.settled_frame = settled;
	mailbox_send(reports, &report->mail);
	event_base_loop(from->base, EVLOOP_NONBLOCK);
}

static void acknowledged_when_dealt_with(void **state)
{
	struct config config = {.export_queue_bytes = 1 << 20, .export_probe = {.word = {(char *)"*"}, .count = 1}};
	struct export_targets targets = {.target = {{.kind = export_kind_find("loki"), .name = "loki"}}, .count = 1};

	(void)state;
	codec = frame_codec_create(1);
	for (unsigned spooled = 0; spooled < 2; spooled++) {
		struct export_feed_config from = {.spooled = spooled};
		struct export_feed *feed;

		acks = 0;
		told = false;
		setup(&from, &config, &targets, &feed);
		for (unsigned i = 0; i < 2; i++) {
			struct frame_ref *frame = frame_ref_create(FRAME_BATCH, 8);

			frame->cpu = cpu_of[0];
			frame->end_seq = 20 + 10 * i;
			waiting = frame;
			subscriber->wake(subscriber->context);
			assert_null(waiting);
			frame_ref_put(frame);
		}
		report(&from, 2, 0);
		assert_int_equal(acks, 0);
		report(&from, 2, 1);
		assert_int_equal(acks, spooled);
		assert_true(!spooled || acked_upto == 20);
		report(&from, 2, 2);
		assert_int_equal(acks, 2 * spooled);
		assert_true(!spooled || acked_upto == 30);
		report(&from, 2, 2);
		assert_int_equal(acks, 2 * spooled);		/* nothing is new */
		teardown(&from, feed);
	}
	frame_codec_destroy(codec);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_was_lost_before_is_counted_in_events),
		cmocka_unit_test(acknowledged_when_dealt_with),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
