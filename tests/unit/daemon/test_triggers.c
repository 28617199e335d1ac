/*
 * Triggers: when a rule fires and when it only counts; what it does then, and that the audit log has it before; that
 * each writes its dump, as long as no more are being written than may be at once; what becomes of rules when others
 * are put in force. What records, streams and writes is this test.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "daemon/base/clock.h"
#include "daemon/base/counters.h"
#include "daemon/base/log.h"
#include "daemon/stream/stream.h"
#include "daemon/trigger/dump.h"
#include "daemon/export/event.h"
#include "daemon/trigger/call.h"
#include "daemon/trigger/triggers.h"
#include "tests/unit/daemon/small_catalog.h"

#define RULES_MAX 8u

struct dump {
	dump_done *done;		/* NULL: it is */
	void *context;
	struct dump_request request;
};

static struct subscriber *subscriber[RULES_MAX];
static struct stream stream[RULES_MAX];
static unsigned subscribers;
static struct dump dump[RULES_MAX];
static unsigned begun;
static struct frame_ref *ready;		/* what the stream that is asked has */
static uint64_t now_ns;
static uint64_t apart_ns, late_ns;	/* when a frame's events happened: so far from each other, the last so long ago */
static int times_say;			/* of a frame's events: why they are not told */
static bool sandboxed;			/* it may connect to nobody */
static bool waits;			/* who subscribes now is not live yet */
static int audit_says;
static struct event *timer;		/* the last that was armed, */
static uint64_t timer_ns;		/* for so long */
static uint64_t bounds[2];		/* of all dumps */
static char order[512];			/* what was done */
static char said[512];			/* codes of what was logged, and the last number in it */

__attribute__((format(printf, 1, 2)))
static void note(const char *format, ...)
{
	size_t n = strlen(order);
	va_list args;

	va_start(args, format);
	vsnprintf(order + n, sizeof(order) - n, format, args);
	va_end(args);
}

static void expect_order(const char *expected)
{
	assert_string_equal(order, expected);
	order[0] = '\0';
}

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
	(void)fanout, (void)error;
	note("subscribe %s to %s if %s; ", from->identity->text, request->what.glob[0], request->what.filter);
	assert_int_equal(from->identity->role, ROLE_OPERATOR);
	from->state = SUBSCRIBER_WAITING;
	subscriber[subscribers] = from;
	if (waits)
		return 0;
	from->state = SUBSCRIBER_LIVE;
	return from->live(from->context, &stream[subscribers++], NULL);
}

void __wrap_fanout_leave(struct fanout *fanout, struct subscriber *from, bool orderly);
void __wrap_fanout_leave(struct fanout *fanout, struct subscriber *from, bool orderly)
{
	(void)fanout;
	assert_true(orderly);
	note("leave %s; ", from->identity->text);
	from->state = SUBSCRIBER_AWAY;
}

void __wrap_fanout_make_now(struct fanout *fanout, const char *spec);
void __wrap_fanout_make_now(struct fanout *fanout, const char *spec)
{
	(void)fanout;
	note("make %s; ", spec);
}

/* Done at once. */
void __wrap_disk_thread_submit(struct disk_thread *thread, struct disk_job *job);
void __wrap_disk_thread_submit(struct disk_thread *thread, struct disk_job *job)
{
	assert_ptr_equal(thread, &now_ns);
	job->run(job, NULL);
	job->done(job);
}

static void finish(unsigned i)
{
	dump_done *done = dump[i].done;

	dump[i].done = NULL;
	if (done)
		done(dump[i].context, &dump[i], NULL);
}

/* All that was begun is written when it returns. */
void __wrap_disk_thread_settle(struct disk_thread *thread);
void __wrap_disk_thread_settle(struct disk_thread *thread)
{
	assert_ptr_equal(thread, &now_ns);
	for (unsigned i = 0; i < begun; i++)
		finish(i);
}

int __wrap_audit_append(struct audit_file *file, struct disk *disk, const char *line);
int __wrap_audit_append(struct audit_file *file, struct disk *disk, const char *line)
{
	(void)disk;
	assert_ptr_equal(file, &order);
	assert_non_null(strstr(line, "trigger"));
	assert_non_null(strstr(line, "\"role\":\"daemon\""));
	assert_non_null(strstr(line, "syscall:read:call"));
	note("audit; ");
	return audit_says;
}

int __real_event_add(struct event *event, const struct timeval *after);
int __wrap_event_add(struct event *event, const struct timeval *after);
int __wrap_event_add(struct event *event, const struct timeval *after)
{
	timer = event;
	timer_ns = after ? (uint64_t)after->tv_sec * NS_PER_S + (uint64_t)after->tv_usec * 1000 : 0;
	return __real_event_add(event, after);
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
	*stat = (struct stream_stat){.residual = of->foreign != 0};
}

void __wrap_export_event_first_text(const struct frame_ref *frame, struct frame_codec *codec,
				    const Ringtail__V1__Catalog *catalog, char *text, size_t bytes);
void __wrap_export_event_first_text(const struct frame_ref *frame, struct frame_codec *codec,
				    const Ringtail__V1__Catalog *catalog, char *text, size_t bytes)
{
	(void)frame, (void)codec, (void)catalog;
	snprintf(text, bytes, "it");
}

/* All of them now, or one each `apart_ns` up to now. */
int __wrap_export_event_times(const struct frame_ref *frame, struct frame_codec *codec,
			      const Ringtail__V1__Catalog *catalog, export_event_time *tell, void *context);
int __wrap_export_event_times(const struct frame_ref *frame, struct frame_codec *codec,
			      const Ringtail__V1__Catalog *catalog, export_event_time *tell, void *context)
{
	(void)codec, (void)catalog;
	if (times_say)
		return times_say;
	for (uint64_t i = frame->events; i--;)
		tell(context, now_ns - late_ns - i * apart_ns);
	return 0;
}

void __wrap_trigger_call(struct trigger_calls *calls, const struct trigger_call *what);
void __wrap_trigger_call(struct trigger_calls *calls, const struct trigger_call *what)
{
	assert_non_null(calls);
	assert_true(what->fired_realtime_ns > 0);
	note("call %s of %s: %s; ", what->url, what->trigger, what->event);
}

int __wrap_dump_begin(const struct dump_config *config, const struct dump_request *request, dump_done *done,
		      void *context, struct dump **out, struct error *error);
int __wrap_dump_begin(const struct dump_config *config, const struct dump_request *request, dump_done *done,
		      void *context, struct dump **out, struct error *error)
{
	(void)config, (void)error;
	note("dump %s; ", request->probe ? request->probe : "all");
	dump[begun] = (struct dump){done, context, *request};
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
	note("end %u: %s; ", (unsigned)(of - dump), why);
}

void __wrap_dumps_set_bounds(struct dumps *dumps, uint64_t bytes, uint64_t count);
void __wrap_dumps_set_bounds(struct dumps *dumps, uint64_t bytes, uint64_t count)
{
	(void)dumps;
	bounds[0] = bytes;
	bounds[1] = count;
}

static void note_log(enum log_level level, const char *code, const char *text)
{
	const char *number = strstr(text, ": ");

	(void)level;
	snprintf(said + strlen(said), sizeof(said) - strlen(said), "%s", code);
	if (strcmp(code, "trigger-suppressed") == 0)
		snprintf(said + strlen(said), sizeof(said) - strlen(said), " %.*s", (int)strcspn(number + 2, " "),
			 number + 2);
	strcat(said, "; ");
}

static void expect_said(const char *expected)
{
	assert_string_equal(said, expected);
	said[0] = '\0';
}

static struct event_base *base;
static struct triggers *triggers;

static void set_rules(char *const *rule, unsigned n)
{
	struct config words = {.on = {.count = n}, .dump_bytes = 123, .dump_count = 45};
	struct error error = {0};

	for (unsigned i = 0; i < n; i++)
		words.on.word[i] = rule[i];
	if (triggers_set(triggers, &words, &error))
		fail_msg("%s", error.what);
	assert_int_equal(triggers_count(triggers), n);
}

static void open_none(struct dumps *dumps)
{
	static const struct log_sink sink = {.write = note_log, .now_ns = clock_monotonic};
	struct triggers_config config = {.dumps = dumps, .catalog = small_catalog_get(),
					 .disk_thread = (struct disk_thread *)&now_ns,
					 .audit = (struct audit_file *)&order,
					 .may_connect = !sandboxed};

	log_set_sink(&sink);
	now_ns = 1000 * NS_PER_S;
	subscribers = begun = 0;
	audit_says = 0;
	waits = false;
	memset(stream, 0, sizeof(stream));
	base = config.base = event_base_new();
	triggers = triggers_create(&config);
	assert_non_null(triggers);
}

/* The same rule so many times. */
static void open_rules(const char *rule, unsigned n)
{
	char *rules[RULES_MAX];

	open_none((struct dumps *)&begun);
	for (unsigned i = 0; i < n; i++)
		rules[i] = (char *)rule;
	set_rules(rules, n);
	assert_int_equal(subscribers, n);
	order[0] = said[0] = '\0';
}

static void close_rules(void)
{
	for (unsigned i = 0; i < begun; i++)
		finish(i);
	triggers_destroy(triggers);
	event_base_free(base);
	order[0] = said[0] = '\0';
}

/* `every` is over, or what else was armed. */
static void ring(void)
{
	event_active(timer, EV_TIMEOUT, 0);
	event_base_loop(base, EVLOOP_NONBLOCK);
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
	for (unsigned i = 0; i < 3; i++) {	/* those were of another second; at last all that is kept is older */
		now_ns += (i < 2 ? 32 : 64) * NS_PER_S / 10;
		match(0, 4);
		assert_int_equal(stat_of(0).fired, 0);
	}
	now_ns += NS_PER_S / 2;
	match(0, 1);
	assert_int_equal(stat_of(0).fired, 1);
	match(0, 7);
	assert_int_equal(stat_of(0).fired, 1);
	assert_int_equal(stat_of(0).suppressed, 7);
	assert_int_equal(stat_of(0).matches, 24);
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

/* Where the daemon stood still, a frame has events of many seconds, and frames of other CPUs come behind younger ones. */
static void its_rate_is_of_the_events_times(void **state)
{
	(void)state;
	open_rules("'syscall:read:call' at 5/s log every 1s", 1);
	now_ns += 20 * NS_PER_S;
	apart_ns = NS_PER_S / 2;
	match(0, 30);
	assert_int_equal(stat_of(0).fired, 0);
	apart_ns = 0;
	late_ns = 3 * NS_PER_S + NS_PER_S / 4;	/* two are in that second already */
	match(0, 2);
	assert_int_equal(stat_of(0).fired, 0);
	late_ns = 7 * NS_PER_S;			/* too old for any second that is kept */
	match(0, 9);
	assert_int_equal(stat_of(0).fired, 0);
	late_ns = 6 * NS_PER_S;			/* so is a second that began with it, */
	match(0, 3);
	late_ns = NS_PER_S / 4;			/* and nothing of it is in one of now */
	match(0, 1);
	assert_int_equal(stat_of(0).fired, 0);
	late_ns = 3 * NS_PER_S + NS_PER_S / 4;
	match(0, 1);
	assert_int_equal(stat_of(0).fired, 1);
	now_ns += 20 * NS_PER_S;
	ring();
	late_ns = 0;
	match(0, 4);
	late_ns = NS_PER_S / 2;			/* in one second with what came before it */
	match(0, 1);
	assert_int_equal(stat_of(0).fired, 2);
	late_ns = 0;
	close_rules();
}

/* A dump reaches back from the event, however late that is looked at. */
static void a_dump_reaches_back_from_the_event(void **state)
{
	(void)state;
	open_rules("'syscall:read:call' dump 1s", 4);
	match(0, 1);
	late_ns = 5 * NS_PER_S;
	match(1, 1);
	late_ns = 0 - 5 * NS_PER_S;		/* another CPU's clock is ahead */
	match(2, 1);
	late_ns = 0;
	finish(0);
	apart_ns = 3 * NS_PER_S;
	match(3, 2);				/* from the first of them */
	apart_ns = 0;
	assert_int_equal(begun, 4);
	assert_int_equal(dump[2].request.fired_realtime_ns - dump[2].request.since_realtime_ns, NS_PER_S);
	assert_int_equal(dump[3].request.fired_realtime_ns - dump[3].request.since_realtime_ns, 4 * NS_PER_S);
	assert_int_equal(dump[0].request.fired_realtime_ns - dump[0].request.since_realtime_ns, NS_PER_S);
	assert_int_equal(dump[1].request.fired_realtime_ns - dump[1].request.since_realtime_ns, 6 * NS_PER_S);
	assert_int_equal(dump[1].request.until_ns, now_ns);
	close_rules();
}

/* Matches of the last second, to a tenth of it: neither what is older, nor less. */
static void its_rate_is_of_the_last_second(void **state)
{
	(void)state;
	open_rules("'syscall:read:call' at 5/s log every 1s", 1);
	match(0, 3);
	now_ns += 950 * 1000000ull;
	match(0, 1);
	now_ns += 50 * 1000000ull;		/* the first three are a second old */
	match(0, 3);
	assert_int_equal(stat_of(0).fired, 0);
	match(0, 1);
	assert_int_equal(stat_of(0).fired, 1);
	/* While it is quiet about them it counts on: it may fire again as soon as it may. */
	now_ns += NS_PER_S;
	match(0, 4);
	ring();
	match(0, 1);
	assert_int_equal(stat_of(0).fired, 2);
	close_rules();
}

/* There is no memory to look at a frame: its events count as of now. */
static void without_memory_its_rate_is_of_when_frames_come(void **state)
{
	(void)state;
	open_rules("'syscall:read:call' at 5/s log", 1);
	times_say = -ENOMEM;
	match(0, 4);
	assert_int_equal(stat_of(0).fired, 0);
	match(0, 1);
	assert_int_equal(stat_of(0).fired, 1);
	times_say = 0;
	close_rules();
}

static void says_how_many_more_there_were_when_its_time_is_over(void **state)
{
	uint64_t matches = counter_read(COUNTER_trigger_matches), fired = counter_read(COUNTER_triggers_fired),
		 suppressed = counter_read(COUNTER_trigger_suppressed);

	(void)state;
	open_rules("'syscall:read:call' log every 1500ms", 1);
	match(0, 1);
	assert_int_equal(timer_ns, 1500 * 1000000ull);
	close_rules();
	matches++, fired++;
	open_rules("'syscall:read:call' log every 7s", 1);
	assert_string_equal(stat_of(0).state, "quiet");
	match(0, 0);				/* a watermark, and the like */
	assert_int_equal(stat_of(0).fired, 0);
	match(0, 2);
	expect_said("trigger-fired; audit; ");
	assert_int_equal(timer_ns, 7 * NS_PER_S);
	assert_string_equal(stat_of(0).state, "fired");
	match(0, 3);
	match(0, 4);
	ring();
	expect_said("trigger-suppressed 7; ");
	assert_string_equal(stat_of(0).state, "quiet");
	match(0, 1);
	expect_said("trigger-fired; audit; ");
	ring();
	match(0, 1);
	match(0, 5);
	expect_said("trigger-fired; audit; ");
	ring();
	expect_said("trigger-suppressed 5; ");
	assert_int_equal(counter_read(COUNTER_trigger_matches) - matches, 16);
	assert_int_equal(counter_read(COUNTER_triggers_fired) - fired, 3);
	assert_int_equal(counter_read(COUNTER_trigger_suppressed) - suppressed, 12);
	close_rules();
}

static void what_it_does_is_in_the_audit_log_before(void **state)
{
	static const char rule[] = "slow: 'syscall:read:call duration > 5ms' dump 2s, enable getppid 5s";
	uint64_t fired_ns;

	(void)state;
	open_rules(rule, 1);
	match(0, 1);
	expect_order("audit; dump all; dump getppid; ");
	fired_ns = stat_of(0).fired_realtime_ns;
	assert_true(fired_ns > 0);
	for (unsigned i = 0; i < 2; i++) {
		assert_string_equal(dump[i].request.trigger, "slow");
		assert_string_equal(dump[i].request.rule, rule);
		assert_int_equal(dump[i].request.fired_realtime_ns, fired_ns);
	}
	assert_int_equal(dump[0].request.since_realtime_ns, fired_ns - 2 * NS_PER_S);
	assert_int_equal(dump[0].request.until_ns, now_ns);
	assert_int_equal(dump[1].request.since_realtime_ns, 0);
	assert_int_equal(dump[1].request.until_ns, now_ns + 5 * NS_PER_S);
	close_rules();
	/* Without the audit log it is done all the same, and said. */
	open_rules(rule, 1);
	audit_says = -EIO;
	match(0, 1);
	expect_order("audit; dump all; dump getppid; ");
	expect_said("trigger-fired; audit; audit-failed; ");
	close_rules();
}

/* One of each at a time; how each ended is counted, and said. */
static void its_url_is_called_when_it_fires_and_not_while_it_rests(void **state)
{
	(void)state;
	open_rules("slow: 'syscall:read:call duration > 5ms' call http://pager/a, log", 1);
	match(0, 1);
	match(0, 1);
	expect_order("audit; call http://pager/a of slow: it; ");
	close_rules();
}

static void fires_again_while_its_dump_is_written(void **state)
{
	uint64_t failed = counter_read(COUNTER_dumps_failed), written = counter_read(COUNTER_dumps_written);
	const struct error error = {.code = "dump-disk"};

	(void)state;
	open_rules("'syscall:read:call' dump 2s, enable getppid 5s", 1);
	match(0, 1);
	finish(1);
	ring();
	match(0, 1);				/* of all that is on one is written still */
	expect_order("audit; dump all; dump getppid; audit; dump getppid; ");
	assert_int_equal(counter_read(COUNTER_dumps_failed) - failed, 1);
	finish(0);
	ring();
	match(0, 1);				/* and now the other one */
	expect_order("audit; dump all; ");
	assert_int_equal(counter_read(COUNTER_dumps_failed) - failed, 2);
	assert_int_equal(counter_read(COUNTER_dumps_written) - written, 2);
	said[0] = '\0';
	dump[2].done(dump[2].context, &dump[2], &error);
	dump[2].done = NULL;
	expect_said("dump-disk; ");
	assert_int_equal(counter_read(COUNTER_dumps_failed) - failed, 3);
	close_rules();
}

static void is_told_how_it_stands(void **state)
{
	char *rule = (char *)"a: 'syscall:read:call pid == 7' log";
	const struct error refusal = {.code = "refused", .what = "the kernel has no such probe"};
	struct stat_trigger stat;

	(void)state;
	open_none(NULL);
	waits = true;
	set_rules(&rule, 1);
	expect_order("subscribe trigger:a to syscall:read:call if pid == 7; ");
	stat = stat_of(0);
	assert_string_equal(stat.state, "starting");
	subscriber[0]->state = SUBSCRIBER_AWAY;
	subscriber[0]->refused(subscriber[0]->context, &refusal);
	expect_said("trigger-refused; ");
	stat = stat_of(0);
	assert_string_equal(stat.state, "refused");
	assert_string_equal(stat.why, "the kernel has no such probe");
	subscriber[0]->live(subscriber[0]->context, &stream[0], NULL);
	stream[0].filtered = 11;
	stream[0].delivered = 3;
	stream[0].foreign = 1;
	stream[0].lost[LOSS_STAGE_QUEUE][LOSS_REASON_QUEUE_FULL] = 4;
	match(0, 2);
	stat = stat_of(0);
	assert_string_equal(stat.name, "a");
	assert_string_equal(stat.rule, rule);
	assert_string_equal(stat.state, "fired");
	assert_string_equal(stat.why, "");
	assert_int_equal(stat.filtered, 11);
	assert_int_equal(stat.matches, 2);
	assert_ptr_equal(stat.lost.count, stream[0].lost);
	assert_int_equal(stat.residual, 1 + 3 - 2);	/* one that was delivered was not looked at */
	close_rules();
	expect_order("");
}

static void a_rule_that_stays_goes_on_as_it_was(void **state)
{
	char *const before[] = {(char *)"a: 'syscall:read:call' log", (char *)"'syscall:kill:call' log",
				(char *)"b: 'syscall:read:call' log"};
	char *const after[] = {(char *)"b: 'syscall:read:call' log", (char *)"a: 'syscall:read:call' log every 5s",
			       (char *)"'syscall:kill:call' log"};

	(void)state;
	open_none((struct dumps *)&begun);
	set_rules(before, 3);
	assert_int_equal(bounds[0], 123);
	assert_int_equal(bounds[1], 45);
	match(2, 9);
	order[0] = '\0';
	set_rules(after, 3);
	expect_order("subscribe trigger:a to syscall:read:call if ; "
		     "subscribe trigger:trigger-3 to syscall:kill:call if ; "
		     "leave trigger:a; leave trigger:trigger-2; ");
	assert_int_equal(stat_of(0).matches, 9);
	assert_int_equal(stat_of(1).matches, 0);
	set_rules(after, 3);
	expect_order("");
	set_rules(after, 1);
	expect_order("leave trigger:a; leave trigger:trigger-3; ");
	close_rules();
}

/* It stays in memory until both are written, and not longer. */
static void a_rule_that_is_gone_ends_what_it_writes(void **state)
{
	(void)state;
	open_rules("'syscall:read:call' dump 2s, enable getppid 5s", 1);
	match(0, 1);
	order[0] = '\0';
	set_rules(NULL, 0);
	expect_order("leave trigger:trigger-1; end 0: its rule was taken out of the configuration; "
		     "end 1: its rule was taken out of the configuration; ");
	finish(1);
	finish(0);
	expect_order("");
	close_rules();
	open_rules("'syscall:read:call' dump 2s", 1);
	match(0, 1);
	order[0] = '\0';
	triggers_destroy(triggers);
	expect_order("leave trigger:trigger-1; end 0: the daemon stopped; ");
	assert_null(dump[0].done);
	event_base_free(base);
}

static void without_a_state_dir_no_rule_may_write(void **state)
{
	static const struct {
		const char *rule, *code, *made;
	} row[] = {
		{"'syscall:read:call,kill' log", "", "make syscall:read:call; make kill; "},
		{"'syscall:read:call' dump 1s", "dump-nowhere", "make syscall:read:call; "},
		{"'syscall:read:call' enable getppid 1s", "dump-nowhere", "make syscall:read:call; make getppid; "},
		{"'syscall:read:call' call http://pager:80/a", "", "make syscall:read:call; "},
		{"'syscall:read:call' call http://me:secret@pager/", "trigger-url", "make syscall:read:call; "},
		{"'syscall:read:call' call https://pager:0/", "trigger-url", "make syscall:read:call; "},
		{"'syscall:read:call' call http://", "trigger-url", "make syscall:read:call; "},
		{"'syscall:read:call' call http://sandboxed/", "trigger-sandbox", "make syscall:read:call; "},
		{"'syscall:none:call' log", "unknown-probe", "make syscall:none:call; "},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		struct config words = {.on = {.count = 1, .word = {(char *)row[i].rule}}};
		struct error error = {0};

		sandboxed = strstr(row[i].rule, "sandboxed");
		open_none(NULL);
		assert_int_equal(triggers_check(triggers, &words, &error) != 0, *row[i].code != '\0');
		assert_string_equal(error.code, row[i].code);
		assert_null(strstr(error.what, "secret"));
		expect_order(row[i].made);
		assert_int_equal(triggers_count(triggers), 0);
		triggers_destroy(triggers);
		event_base_free(base);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fires_at_its_rate_and_no_earlier),
		cmocka_unit_test(a_dump_that_is_done_makes_room),
		cmocka_unit_test(its_rate_is_of_the_last_second),
		cmocka_unit_test(its_rate_is_of_the_events_times),
		cmocka_unit_test(a_dump_reaches_back_from_the_event),
		cmocka_unit_test(without_memory_its_rate_is_of_when_frames_come),
		cmocka_unit_test(says_how_many_more_there_were_when_its_time_is_over),
		cmocka_unit_test(what_it_does_is_in_the_audit_log_before),
		cmocka_unit_test(its_url_is_called_when_it_fires_and_not_while_it_rests),
		cmocka_unit_test(fires_again_while_its_dump_is_written),
		cmocka_unit_test(is_told_how_it_stands),
		cmocka_unit_test(a_rule_that_stays_goes_on_as_it_was),
		cmocka_unit_test(a_rule_that_is_gone_ends_what_it_writes),
		cmocka_unit_test(without_a_state_dir_no_rule_may_write),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
