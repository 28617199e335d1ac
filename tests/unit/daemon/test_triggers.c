/*
 * Triggers: when a rule fires and when it only counts; that each writes its dump, as long as no more are being
 * written than may be at once. What records, streams and writes is this test.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>

#include "daemon/base/clock.h"
#include "daemon/base/counters.h"
#include "daemon/base/log.h"
#include "daemon/stream/stream.h"
#include "daemon/trigger/dump.h"
#include "daemon/export/event.h"
#include "daemon/trigger/triggers.h"
#include "tests/unit/daemon/small_catalog.h"

#define RULES_MAX 8u

struct dump {
	dump_done *done;		/* NULL: it is */
	void *context;
};

static struct subscriber *subscriber[RULES_MAX];
static struct stream stream[RULES_MAX];
static unsigned subscribers;
static struct dump dump[RULES_MAX];
static unsigned begun;
static struct frame_ref *ready;		/* what the stream that is asked has */
static uint64_t now_ns;

uint64_t __wrap_clock_monotonic(void);
uint64_t __wrap_clock_monotonic(void)
{
	return now_ns;
}

int __wrap_fanout_subscribe(struct fanout *fanout, struct subscriber *from, const struct subscribe_request *request,
			    struct error *error);
int __wrap_fanout_subscribe(struct fanout *fanout, struct subscriber *from, const struct subscribe_request *request,
			    struct error *error)
{
	(void)fanout, (void)request, (void)error;
	subscriber[subscribers] = from;
	return from->live(from->context, &stream[subscribers++], NULL);
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
	(void)from, (void)n, (void)tell, (void)context;
	*frame = ready;
	return ready != NULL;
}

void __wrap_stream_sent(struct stream *from);
void __wrap_stream_sent(struct stream *from)
{
	(void)from;
	ready = NULL;
}

void __wrap_stream_stat(const struct stream *of, struct stream_stat *stat);
void __wrap_stream_stat(const struct stream *of, struct stream_stat *stat)
{
	(void)of;
	*stat = (struct stream_stat){0};
}

void __wrap_export_event_first_text(const struct frame_ref *frame, struct frame_codec *codec,
				    const Ringtail__V1__Catalog *catalog, char *text, size_t bytes);
void __wrap_export_event_first_text(const struct frame_ref *frame, struct frame_codec *codec,
				    const Ringtail__V1__Catalog *catalog, char *text, size_t bytes)
{
	(void)frame, (void)codec, (void)catalog;
	snprintf(text, bytes, "it");
}

int __wrap_dump_begin(const struct dump_config *config, const struct dump_request *request, dump_done *done,
		      void *context, struct dump **out, struct error *error);
int __wrap_dump_begin(const struct dump_config *config, const struct dump_request *request, dump_done *done,
		      void *context, struct dump **out, struct error *error)
{
	(void)config, (void)request, (void)error;
	dump[begun] = (struct dump){done, context};
	*out = &dump[begun++];
	return 0;
}

const char *__wrap_dump_id(const struct dump *of);
const char *__wrap_dump_id(const struct dump *of)
{
	(void)of;
	return "id";
}

void __wrap_dump_end(struct dump *of, const char *why);
void __wrap_dump_end(struct dump *of, const char *why)
{
	(void)of;
	fail_msg("%s", why);
}

void __wrap_dumps_set_bounds(struct dumps *dumps, uint64_t bytes, uint64_t count);
void __wrap_dumps_set_bounds(struct dumps *dumps, uint64_t bytes, uint64_t count)
{
	(void)dumps, (void)bytes, (void)count;
}

static void no_log(enum log_level level, const char *code, const char *text)
{
	(void)level, (void)code, (void)text;
}

static struct event_base *base;
static struct triggers *triggers;

/* The same rule so many times. */
static void open_rules(const char *rule, unsigned n)
{
	static const struct log_sink sink = {.write = no_log, .now_ns = clock_monotonic};
	struct triggers_config config = {.dumps = (struct dumps *)&begun, .catalog = small_catalog_get()};
	struct config words = {.on = {.count = n}};
	struct error error = {0};

	log_set_sink(&sink);
	now_ns = 1000 * NS_PER_S;
	subscribers = begun = 0;
	base = config.base = event_base_new();
	triggers = triggers_create(&config);
	assert_non_null(triggers);
	for (unsigned i = 0; i < n; i++)
		words.on.word[i] = (char *)rule;
	if (triggers_set(triggers, &words, &error))
		fail_msg("%s", error.what);
	assert_int_equal(subscribers, n);
}

static void finish(unsigned i)
{
	dump_done *done = dump[i].done;

	dump[i].done = NULL;
	if (done)
		done(dump[i].context, &dump[i], NULL);
}

static void close_rules(void)
{
	for (unsigned i = 0; i < begun; i++)
		finish(i);
	triggers_destroy(triggers);
	event_base_free(base);
}

static void match(unsigned rule, uint64_t events)
{
	struct frame_ref *frame = frame_ref_create(FRAME_BATCH, 8);

	frame->events = events;
	ready = frame;
	subscriber[rule]->wake(subscriber[rule]->context);
	assert_null(ready);
	frame_ref_put(frame);
}

static struct stat_trigger stat_of(unsigned rule)
{
	struct stat_trigger stat;

	triggers_stat(triggers, rule, &stat);
	return stat;
}

static void fires_at_its_rate_and_no_earlier(void **state)
{
	(void)state;
	open_rules("'syscall:read:call' at 5/s log", 1);
	match(0, 4);
	assert_int_equal(stat_of(0).fired, 0);
	now_ns += 2 * NS_PER_S;			/* those were of another second */
	match(0, 4);
	assert_int_equal(stat_of(0).fired, 0);
	now_ns += NS_PER_S / 2;
	match(0, 1);
	assert_int_equal(stat_of(0).fired, 1);
	match(0, 7);
	assert_int_equal(stat_of(0).fired, 1);
	assert_int_equal(stat_of(0).suppressed, 7);
	assert_int_equal(stat_of(0).matches, 16);
	assert_int_equal(begun, 0);
	close_rules();
}

/* As many at once as may be; each that is done makes room for another. */
static void a_dump_that_is_done_makes_room(void **state)
{
	uint64_t failed = counter_read(COUNTER_dumps_failed);

	(void)state;
	open_rules("'syscall:read:call' dump 1s", RULES_MAX);
	for (unsigned i = 0; i <= DUMPS_AT_ONCE_MAX; i++)
		match(i, 1);
	assert_int_equal(begun, DUMPS_AT_ONCE_MAX);
	assert_int_equal(counter_read(COUNTER_dumps_failed), failed + 1);
	for (unsigned i = 0; i < DUMPS_AT_ONCE_MAX; i++)
		finish(i);
	for (unsigned i = DUMPS_AT_ONCE_MAX + 1; i < RULES_MAX; i++)
		match(i, 1);
	assert_int_equal(begun, RULES_MAX - 1);
	assert_int_equal(counter_read(COUNTER_dumps_failed), failed + 1);
	close_rules();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fires_at_its_rate_and_no_earlier),
		cmocka_unit_test(a_dump_that_is_done_makes_room),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
