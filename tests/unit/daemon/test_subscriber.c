/*
 * Who is sent a stream: each way from asking to live, refused or away, and whom it asks on its way, word for
 * word. Where streams begin, durable consumers and the disk are lists of answers here.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/clock.h"
#include "daemon/base/counters.h"
#include "daemon/stream/stream.h"
#include "daemon/stream/subscriber.h"
#include "daemon/stream/subscriptions.h"
#include "tests/unit/daemon/small_catalog.h"

#define RINGS	2
#define FLOOR	10

static uint32_t cpu_of[RINGS] = {3, 5};
static char said[2048];
static uint64_t now_ns;

static void __attribute__((format(printf, 1, 2))) say(const char *format, ...)
{
	size_t used = strlen(said);
	va_list arguments;

	va_start(arguments, format);
	assert_true(vsnprintf(said + used, sizeof(said) - used, format, arguments) < (int)(sizeof(said) - used));
	va_end(arguments);
}

/* All that was said since it was asked before. */
static void expect_said(const char *expected)
{
	assert_string_equal(said, expected);
	said[0] = '\0';
}

/* ---- Whom it asks ------------------------------------------------------------------------------ */

struct fixture {
	struct subscribers all;
	struct durable durable;
	struct subscriptions subscriptions;
	struct rings rings;
	struct subscription *subscription;
	struct consumer consumer;
	struct subscriber subscriber;
	struct client_identity identity;
	struct stream *live;
	struct cursor *since;

	/* Answers: 0, or what fails. */
	int check, find, take, begin, live_err, check_ack;
	bool no_stream, resumed;
	enum beginning_from from;
};

static struct fixture *f;

uint64_t __wrap_clock_monotonic(void);
uint64_t __wrap_clock_monotonic(void)
{
	return now_ns;
}

static int answer(const char *what, int err, struct error *error)
{
	say("%s%s ", what, err ? "!" : "");
	return err ? error_set(error, -err, what, "no") : 0;
}

int __wrap_durable_check(const struct durable *durable, const char *name, const struct client_identity *identity,
			 struct error *error);
int __wrap_durable_check(const struct durable *durable, const char *name, const struct client_identity *identity,
			 struct error *error)
{
	(void)durable, (void)name;
	assert_ptr_equal(identity, f->subscriber.identity);
	return answer("check", f->check, error);
}

int __wrap_durable_take(struct durable *durable, const char *name, struct subscriber *subscriber,
			const struct subscription_request *request, struct error *error);
int __wrap_durable_take(struct durable *durable, const char *name, struct subscriber *subscriber,
			const struct subscription_request *request, struct error *error)
{
	(void)durable;
	say("%s:%zu:%s:", name, request->globs, request->filter);
	if (!f->take) {
		subscriber->consumer = &f->consumer;
		f->consumer.subscriber = subscriber;
	}
	return answer("take", f->take, error);
}

int __wrap_durable_forget(struct durable *durable, const char *name, struct error *error);
int __wrap_durable_forget(struct durable *durable, const char *name, struct error *error)
{
	(void)durable, (void)error;
	say("forget:%s ", name);
	return 0;
}

void __wrap_durable_release(struct durable *durable);
void __wrap_durable_release(struct durable *durable)
{
	assert_ptr_equal(durable, &f->durable);
	say("release ");
}

int __wrap_durable_check_ack(const struct durable *durable, const struct stream *stream, const struct cursor *upto,
			     struct error *error);
int __wrap_durable_check_ack(const struct durable *durable, const struct stream *stream, const struct cursor *upto,
			     struct error *error)
{
	(void)durable, (void)upto;
	assert_ptr_equal(stream, f->subscriber.stream);
	return answer("check-ack", f->check_ack, error);
}

void __wrap_durable_acknowledge(struct durable *durable, struct consumer *consumer, const struct cursor *upto);
void __wrap_durable_acknowledge(struct durable *durable, struct consumer *consumer, const struct cursor *upto)
{
	(void)durable;
	assert_ptr_equal(consumer, &f->consumer);
	say("acknowledge:%u ", upto->n);
}

int __wrap_subscriptions_find(struct subscriptions *all, const struct subscription_request *request,
			      enum subscription_claim claim, struct subscription **subscription, struct error *error);
int __wrap_subscriptions_find(struct subscriptions *all, const struct subscription_request *request,
			      enum subscription_claim claim, struct subscription **subscription, struct error *error)
{
	assert_ptr_equal(all, &f->subscriptions);
	*subscription = f->subscription;
	say("%u:", claim);
	if (request->owner)
		say("of-%u:", request->owner);
	return answer("find", f->find, error);
}

int __wrap_beginning_of_cursor(const struct rings *rings, const struct cursor *cursor, struct beginning *begin,
			       struct error *error);
int __wrap_beginning_of_cursor(const struct rings *rings, const struct cursor *cursor, struct beginning *begin,
			       struct error *error)
{
	assert_ptr_equal(rings, &f->rings);
	begin->from = f->from;
	begin->since = cursor_copy(cursor);
	return answer("at-cursor", f->begin, error);
}

int __wrap_beginning_of_consumer(const struct rings *rings, const struct consumer *consumer,
				 struct beginning *begin, struct error *error);
int __wrap_beginning_of_consumer(const struct rings *rings, const struct consumer *consumer,
				 struct beginning *begin, struct error *error)
{
	assert_ptr_equal(rings, &f->rings);
	assert_ptr_equal(consumer, &f->consumer);
	begin->from = f->from;
	return answer("at-consumer", f->begin, error);
}

struct stream *__wrap_beginning_make_stream(const struct stream_maker *maker, struct subscription *subscription,
					    const struct beginning *begin);
struct stream *__wrap_beginning_make_stream(const struct stream_maker *maker, struct subscription *subscription,
					    const struct beginning *begin)
{
	struct stream *stream;

	assert_ptr_equal(maker, &f->all.maker);
	assert_ptr_equal(subscription, f->subscription);
	say("make:%d:%llu ", begin->from, (unsigned long long)begin->realtime_ns);
	if (f->no_stream)
		return NULL;
	stream = stream_create(subscription, NULL, cpu_of, 1 << 20, NULL, LOSS_REASON_UNKNOWN);
	stream->resumed = f->resumed;
	return stream;
}

void __wrap_stream_doubt(struct stream *stream, enum loss_reason reason);
void __wrap_stream_doubt(struct stream *stream, enum loss_reason reason)
{
	assert_int_equal(reason, LOSS_REASON_NOT_RECORDED);
	stream->resumed = false;
	say("doubt ");
}

void __wrap_stream_set_rate(struct stream *stream, uint64_t events);
void __wrap_stream_set_rate(struct stream *stream, uint64_t events)
{
	assert_non_null(stream);
	say("rate:%llu ", (unsigned long long)events);
}

void __wrap_stream_note_sent(const struct stream *stream, const struct run *run);
void __wrap_stream_note_sent(const struct stream *stream, const struct run *run)
{
	assert_non_null(stream->consumer);
	say("sent:%llu ", (unsigned long long)run->epoch);
}

void __real_stream_destroy(struct stream *stream);
void __wrap_stream_destroy(struct stream *stream);
void __wrap_stream_destroy(struct stream *stream)
{
	say("destroy ");
	__real_stream_destroy(stream);
}

int __wrap_consumer_acknowledge(struct consumer *consumer, const struct cursor *upto, uint64_t realtime_ns);
int __wrap_consumer_acknowledge(struct consumer *consumer, const struct cursor *upto, uint64_t realtime_ns)
{
	assert_ptr_equal(consumer, &f->consumer);
	assert_int_equal(realtime_ns, 0);
	assert_int_equal(upto->run.epoch, 9);
	say("place:%u ", upto->n);
	return 0;
}

void __wrap_consumers_save(struct consumers *consumers);
void __wrap_consumers_save(struct consumers *consumers)
{
	(void)consumers;
	say("save ");
}

/* ---- The fixture ------------------------------------------------------------------------------- */

static int on_live(void *context, struct stream *stream, const struct beginning *from)
{
	assert_ptr_equal(context, f);
	assert_ptr_equal(stream->subscriber, &f->subscriber);
	assert_int_equal(f->subscriber.state, SUBSCRIBER_LIVE);
	assert_int_equal(from->since != NULL, f->since != NULL);
	say("live%s ", f->live_err ? "!" : "");
	f->live = f->live_err ? NULL : stream;
	return f->live_err;
}

static void on_refused(void *context, const struct error *error)
{
	assert_ptr_equal(context, f);
	assert_int_equal(f->subscriber.state, SUBSCRIBER_AWAY);
	assert_null(f->subscriber.stream);
	assert_null(f->subscriber.consumer);
	assert_null(f->subscriber.subscription);
	assert_null(f->consumer.subscriber);
	say("refused:%s ", error->code);
}

static void on_check_soon(void *context)
{
	assert_ptr_equal(context, f);
	say("check-soon ");
}

static void open_all(struct fixture *fixture)
{
	static const char *const glob[] = {"syscall:read:call"};
	struct subscription_request request = {.glob = glob, .globs = 1, .filter = "pid == 7"};
	struct error error;

	f = fixture;
	*f = (struct fixture){.rings = {.n = RINGS, .cpu_of = cpu_of, .run = {.epoch = 9}}};
	said[0] = '\0';
	now_ns = NS_PER_S;
	assert_int_equal(subscription_create(&request, small_catalog_get(), RINGS, 1 << 20, &f->subscription,
					     &error), 0);
	f->subscription->state = SUBSCRIPTION_LIVE;
	for (unsigned i = 0; i < RINGS; i++)
		f->subscription->position[i] = f->subscription->floor[i] = FLOOR;
	f->subscriptions.config.viewers.rate = 70;
	f->subscriptions.config.history_age_ns = 30;
	f->subscriptions.config.check_soon = on_check_soon;
	f->subscriptions.config.context = f;
	f->durable.subscriptions = &f->subscriptions;
	f->all.durable = &f->durable;
	f->all.maker = (struct stream_maker){.rings = &f->rings, .subscriptions = &f->subscriptions};
	TAILQ_INIT(&f->all.waiting);
	f->identity.role = ROLE_OPERATOR;
	strcpy(f->identity.text, "user:1");
	strcpy(f->consumer.owner, "user:1");
	strcpy(f->consumer.name, "mine");
	f->consumer.record = CONSUMER_SAVED;
	f->subscriber = (struct subscriber){.identity = &f->identity, .live = on_live, .refused = on_refused,
					    .context = f};
	f->from = BEGIN_AT_CURSOR;
}

static void close_all(void)
{
	assert_true(TAILQ_EMPTY(&f->all.waiting));
	if (f->live)
		__real_stream_destroy(f->live);
	assert_true(TAILQ_EMPTY(&f->subscription->streams));
	subscription_destroy(f->subscription);
	free(f->since);
	free(f->consumer.place);
}

static int add(const char *consumer)
{
	struct subscribe_request request = {.consumer = consumer, .since = f->since};
	struct error error = {0};
	int err;

	request.what.filter = "";
	err = subscribers_add(&f->all, &f->subscriber, &request, &error);
	if (err) {
		say("=%s ", error.code);
		assert_int_equal(f->subscriber.state, SUBSCRIBER_AWAY);
		assert_null(f->subscriber.subscription);
		assert_null(f->subscriber.consumer);
		assert_null(f->consumer.subscriber);
	}
	return err;
}

static void leave(bool orderly)
{
	subscribers_leave(&f->all, &f->subscriber, orderly);
	assert_int_equal(f->subscriber.state, SUBSCRIBER_AWAY);
	assert_null(f->subscriber.stream);
	assert_null(f->subscriber.subscription);
	assert_null(f->consumer.subscriber);
	if (f->live)
		assert_null(f->live->subscriber);
}

static void ends(int err)
{
	subscribers_saved(&f->all, err);
}

/* ---- Asking ------------------------------------------------------------------------------------ */

/* In this order, and what fails ends it. */
static void each_question_may_be_the_last(void **state)
{
	struct fixture fixture;

	(void)state;
	open_all(&fixture);
	f->since = cursor_create(RINGS);
	f->check = -EPERM;
	add("mine");
	expect_said("check! =check ");
	f->check = 0;
	f->find = -EINVAL;
	f->all.closed = true;
	add("mine");
	expect_said("check 1:find! =find ");
	f->find = 0;
	add("mine");
	expect_said("check 1:find =shutting-down ");
	f->all.closed = false;
	f->take = -EBUSY;
	add("mine");
	expect_said("check 1:find mine:1:pid == 7:take! =take ");
	f->take = 0;
	f->begin = -EINVAL;
	add("mine");
	expect_said("check 1:find mine:1:pid == 7:take at-cursor! =at-cursor ");
	add(NULL);
	expect_said("1:find at-cursor! =at-cursor ");
	f->begin = 0;
	/* A viewer is asked for by its user, unless it is to be kept on disk. */
	f->find = -EINVAL;
	f->identity.role = ROLE_VIEWER;
	f->identity.proof = IDENTITY_USER;
	f->identity.uid = 1000;
	add(NULL);
	expect_said("0:of-1000:find! =find ");
	add("mine");
	expect_said("check 0:find! =find ");
	f->identity.role = ROLE_OPERATOR;
	f->find = 0;
	assert_int_equal(add(NULL), 0);
	expect_said("1:find at-cursor make:1:0 live ");
	leave(false);
	close_all();
}

/* What was asked for is what it registers as, where it asked for something. */
static void registers_as_what_was_asked_for(void **state)
{
	static const char *const glob[] = {"a", "b"};
	struct subscribe_request request = {.what = {.glob = glob, .globs = 2, .filter = "x"}, .consumer = "mine"};
	struct fixture fixture;
	struct error error;

	(void)state;
	open_all(&fixture);
	f->begin = -EINVAL;
	subscribers_add(&f->all, &f->subscriber, &request, &error);
	expect_said("check 1:find mine:2:x:take at-consumer! ");
	close_all();
}

/* At its cursor, at a time, where its consumer was, or now. */
static void where_it_begins(void **state)
{
	struct subscribe_request request = {.since_realtime_ns = 55};
	struct fixture fixture;
	struct error error;

	(void)state;
	open_all(&fixture);
	assert_int_equal(subscribers_add(&f->all, &f->subscriber, &request, &error), 0);
	expect_said("1:find make:3:55 live ");
	leave(false);
	__real_stream_destroy(f->live);
	assert_int_equal(add(NULL), 0);
	expect_said("1:find make:0:0 live ");
	leave(false);
	__real_stream_destroy(f->live);
	f->from = BEGIN_IN_OTHER_RUN;
	f->consumer.place = cursor_create(RINGS);
	assert_int_equal(add("mine"), 0);
	expect_said("check 1:find mine:1:pid == 7:take at-consumer make:2:0 live ");
	leave(false);
	expect_said("sent:9 ");
	close_all();
}

/* ---- What it may have missed --------------------------------------------------------------------- */

struct past_of {
	enum beginning_from from;
	unsigned consumer;		/* 0: none, 1: recorded, 2: not recorded before */
	enum subscription_origin origin;
	bool given_up, late;
	unsigned cursor;		/* 0: where it began; 1, 2: before it on a ring; 3: names no CPU */
};

static bool may_have_missed(const struct past_of *past)
{
	bool where_it_began = past->cursor == 0 || past->cursor == 3;

	if (past->from != BEGIN_AT_CURSOR)
		return false;
	if (past->consumer)
		return past->consumer == 2 && !past->late;
	return past->origin == SUBSCRIPTION_REBORN && !past->given_up && where_it_began;
}

static void join_with(const struct past_of *past)
{
	struct fixture fixture;
	uint64_t resumes, gaps;
	bool missed = may_have_missed(past);

	open_all(&fixture);
	f->from = past->from;
	f->resumed = true;
	f->since = cursor_create(RINGS);
	for (unsigned i = 0; past->cursor != 3 && i < RINGS; i++)
		cursor_append(f->since, cpu_of[i], FLOOR - (past->cursor == i + 1));
	f->consumer.unrecorded = past->consumer == 2;
	f->consumer.place = cursor_create(RINGS);
	f->subscription->origin = past->origin;
	f->subscription->begins_late = past->late;
	for (unsigned i = 0; past->given_up && i < 2; i++)
		subscription_append(f->subscription, frame_ref_create(FRAME_WATERMARK, 10));
	if (past->given_up)
		frame_log_evict_oldest(f->subscription->log, LOSS_REASON_MEMORY);
	resumes = counter_read(COUNTER_resumes);
	gaps = counter_read(COUNTER_resumes_with_gap);
	assert_int_equal(add(past->consumer ? "mine" : NULL), 0);
	assert_int_equal(strstr(said, "doubt ") != NULL, missed);
	assert_int_equal(counter_read(COUNTER_resumes), resumes + !missed);
	assert_int_equal(counter_read(COUNTER_resumes_with_gap), gaps + missed);
	leave(false);
	close_all();
}

/* Each combination of where it was, what its subscription is, and what its consumer's was. */
static void what_nobody_recorded_is_doubted(void **state)
{
	struct past_of past;

	(void)state;
	for (past.from = BEGIN_NOW; past.from <= BEGIN_AT_TIME; past.from++)
		for (past.consumer = 0; past.consumer < 3; past.consumer++)
			for (unsigned i = 0; i < 4; i++)
				for (past.cursor = 0; past.cursor < 4; past.cursor++)
					for (past.origin = SUBSCRIPTION_NEW; past.origin <= SUBSCRIPTION_RESTORED;
					     past.origin++) {
						past.given_up = i & 1;
						past.late = i & 2;
						join_with(&past);
					}
}

/* Who did not come back for anything is no resume. */
static void new_stream_is_no_resume(void **state)
{
	uint64_t resumes = counter_read(COUNTER_resumes) + counter_read(COUNTER_resumes_with_gap);
	struct fixture fixture;

	(void)state;
	open_all(&fixture);
	assert_int_equal(add(NULL), 0);
	assert_int_equal(counter_read(COUNTER_resumes) + counter_read(COUNTER_resumes_with_gap), resumes);
	leave(false);
	close_all();
}

/* ---- Waiting, and registering -------------------------------------------------------------------- */

/* A viewer's stream has a rate; an operator's and an exporter's has none. */
static void rate_of_each_role(void **state)
{
	static const char *const expected[] = {
		"0:find make:0:0 rate:70 live ", "1:find make:0:0 live ", "3:find make:0:0 live ",
	};
	struct fixture fixture;

	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		open_all(&fixture);
		f->identity.role = i ? ROLE_OPERATOR : ROLE_VIEWER;
		if (i == 2)
			f->subscriber.identity = NULL;
		f->subscription->linger_until_ns = 99;
		assert_int_equal(add(NULL), 0);
		expect_said(expected[i]);
		assert_int_equal(f->subscription->linger_until_ns, 0);
		leave(false);
		close_all();
	}
}

/* Only whose subscription it is, and who waits for it, joins or is refused. */
static void waits_for_its_subscription(void **state)
{
	struct subscription other = {.index = 1};
	struct error error = {0};
	struct fixture fixture;

	(void)state;
	open_all(&fixture);
	error_set(&error, EPERM, "no", "no");
	for (unsigned refused = 0; refused < 3; refused++) {
		f->subscription->state = SUBSCRIPTION_STARTING;
		f->subscription->linger_until_ns = 99;
		assert_int_equal(add(NULL), 0);
		expect_said("1:find ");
		subscribers_join(&f->all, &other);
		subscribers_refuse(&f->all, &other, &error);
		ends(0);
		subscribers_register_again(&f->all);
		expect_said("release ");
		if (refused) {
			subscribers_refuse(&f->all, refused == 1 ? f->subscription : NULL, &error);
			expect_said("refused:no ");
			continue;
		}
		f->subscription->state = SUBSCRIPTION_LIVE;
		subscribers_join(&f->all, f->subscription);
		expect_said("make:0:0 live ");
		subscribers_join(&f->all, f->subscription);
		expect_said("");
		leave(false);
		__real_stream_destroy(f->live);
		f->live = NULL;
	}
	/* And who goes before waits no more. */
	f->subscription->state = SUBSCRIPTION_STARTING;
	assert_int_equal(add(NULL), 0);
	leave(true);
	expect_said("1:find ");
	assert_int_equal(f->subscription->linger_until_ns, 99);
	close_all();
}

/* Its consumer gets a place while it waits: it begins there, if there is memory to say so. */
static void begins_where_its_consumer_was_put_meanwhile(void **state)
{
	struct fixture fixture;

	(void)state;
	for (unsigned fails = 0; fails < 2; fails++) {
		open_all(&fixture);
		f->from = BEGIN_NOW;
		f->subscription->state = SUBSCRIPTION_STARTING;
		assert_int_equal(add("mine"), 0);
		said[0] = '\0';
		f->from = BEGIN_AT_CURSOR;
		f->begin = fails ? -ENOMEM : 0;
		f->consumer.place = cursor_create(RINGS);
		f->subscription->state = SUBSCRIPTION_LIVE;
		subscribers_join(&f->all, f->subscription);
		expect_said(fails ? "at-consumer! refused:out-of-memory " : "at-consumer make:1:0 live ");
		if (!fails)
			leave(false);
		close_all();
	}
}

/* It is live once its place is on the disk, and not before; where it waited before, it still waits once. */
static void is_live_once_it_is_kept(void **state)
{
	struct error error = {0};
	struct fixture fixture;

	(void)state;
	error_set(&error, EPERM, "no", "no");
	for (unsigned waited = 0; waited < 2; waited++) {
		open_all(&fixture);
		f->consumer.record = CONSUMER_UNSAVED;
		f->subscription->state = waited ? SUBSCRIPTION_STARTING : SUBSCRIPTION_LIVE;
		assert_int_equal(add("mine"), 0);
		if (waited)
			subscribers_join(&f->all, f->subscription);
		expect_said("check 1:find mine:1:pid == 7:take at-consumer make:1:0 place:2 save ");
		assert_int_equal(f->subscriber.state, SUBSCRIBER_REGISTERING);
		subscribers_join(&f->all, f->subscription);
		ends(0);
		expect_said("release ");
		/* What is on its way is waited for; else it is tried again. */
		f->consumer.record = CONSUMER_SAVING;
		subscribers_register_again(&f->all);
		expect_said("");
		f->consumer.record = CONSUMER_UNSAVED;
		f->consumer.place = waited ? NULL : cursor_create(RINGS);
		subscribers_register_again(&f->all);
		expect_said(waited ? "place:2 save save " : "save ");
		f->consumer.record = CONSUMER_SAVED;
		ends(0);
		expect_said("live release ");
		leave(false);
		expect_said("sent:9 ");
		close_all();
	}
	/* Refused, or gone, with its stream, which was never its own. */
	for (unsigned gone = 0; gone < 2; gone++) {
		open_all(&fixture);
		f->consumer.record = CONSUMER_UNSAVED;
		assert_int_equal(add("mine"), 0);
		said[0] = '\0';
		if (gone)
			leave(true);
		else
			subscribers_refuse(&f->all, f->subscription, &error);
		expect_said(gone ? "destroy " : "destroy refused:no forget:mine ");
		close_all();
	}
}

/* One that waits for its subscription keeps nobody else waiting for the disk. */
static void waits_before_one_that_registers(void **state)
{
	struct subscriber first = {.state = SUBSCRIBER_WAITING};
	struct fixture fixture;

	(void)state;
	open_all(&fixture);
	TAILQ_INSERT_TAIL(&f->all.waiting, &first, link);
	f->consumer.record = CONSUMER_UNSAVED;
	assert_int_equal(add("mine"), 0);
	said[0] = '\0';
	subscribers_register_again(&f->all);
	expect_said("place:2 save save ");
	f->consumer.record = CONSUMER_SAVED;
	ends(0);
	expect_said("live release ");
	TAILQ_REMOVE(&f->all.waiting, &first, link);
	leave(false);
	close_all();
}

/* A client's is none then; an exporter's is tried again with each save. */
static void what_cannot_be_kept(void **state)
{
	struct fixture fixture;

	(void)state;
	for (unsigned exporter = 0; exporter < 2; exporter++) {
		open_all(&fixture);
		f->consumer.record = CONSUMER_UNSAVED;
		if (exporter)
			f->subscriber.identity = NULL;
		assert_int_equal(add("mine"), 0);
		said[0] = '\0';
		ends(-EIO);
		expect_said(exporter ? "live release " : "destroy refused:state-failed forget:mine release ");
		if (exporter)
			leave(false);
		close_all();
	}
}

/* A registration is given up with who asked for it, if it is a client's own, is not on the disk, and is new. */
static void what_is_forgotten_with_a_refusal(void **state)
{
	struct fixture fixture;

	(void)state;
	for (unsigned i = 0; i < 32; i++) {
		bool client = i & 1, durable = i & 2, kept = i & 4, earlier = i & 8, relay = i & 16;
		bool goes = client && durable && !kept && !earlier && !relay;
		char expected[80];

		open_all(&fixture);
		f->subscriber.identity = client ? &f->identity : NULL;
		f->consumer.record = kept ? CONSUMER_SAVED : CONSUMER_UNSAVED;
		f->consumer.earlier = earlier;
		memset(f->consumer.name, 'n', sizeof(f->consumer.name) - 1);
		if (relay)
			strcpy(f->consumer.name, CONSUMER_RELAY);
		f->no_stream = true;
		assert_int_equal(add(durable ? "mine" : NULL), 0);
		snprintf(expected, sizeof(expected), "forget:%s ", f->consumer.name);
		assert_non_null(strstr(said, "refused:out-of-memory "));
		assert_int_equal(strstr(said, expected) != NULL, goes);
		assert_int_equal(strstr(said, "forget") != NULL, goes);
		close_all();
	}
}

/* Its owner finds no memory for it: it is refused, and the stream is gone. */
static void owner_without_memory(void **state)
{
	struct fixture fixture;

	(void)state;
	open_all(&fixture);
	f->since = cursor_create(RINGS);
	f->live_err = -ENOMEM;
	assert_int_equal(add(NULL), 0);
	expect_said("1:find at-cursor make:1:0 live! destroy refused:out-of-memory ");
	close_all();
}

/* ---- Acknowledging, and leaving ------------------------------------------------------------------- */

static int acknowledge(unsigned positions)
{
	struct cursor *upto = cursor_create(RINGS);
	struct error error = {0};
	int err;

	for (unsigned i = 0; i < positions; i++)
		cursor_append(upto, cpu_of[i], 5);
	err = subscribers_ack(&f->all, &f->subscriber, upto, &error);
	if (err)
		say("=%s ", error.code);
	free(upto);
	return err;
}

static void who_may_acknowledge(void **state)
{
	struct fixture fixture;

	(void)state;
	open_all(&fixture);
	assert_int_equal(acknowledge(2), -EINVAL);
	expect_said("=no-consumer ");
	assert_int_equal(add(NULL), 0);
	said[0] = '\0';
	assert_int_equal(acknowledge(2), -EINVAL);
	expect_said("=no-consumer ");
	leave(false);
	__real_stream_destroy(f->live);
	f->live = NULL;
	/* Not before it is live. */
	f->subscription->state = SUBSCRIPTION_STARTING;
	assert_int_equal(add("mine"), 0);
	said[0] = '\0';
	assert_int_equal(acknowledge(2), -EINVAL);
	expect_said("=no-consumer ");
	f->subscription->state = SUBSCRIPTION_LIVE;
	subscribers_join(&f->all, f->subscription);
	said[0] = '\0';
	assert_int_equal(acknowledge(2), 0);
	assert_int_equal(acknowledge(0), 0);
	expect_said("check-ack acknowledge:2 check-ack ");
	f->check_ack = -EINVAL;
	assert_int_equal(acknowledge(2), -EINVAL);
	expect_said("check-ack! =check-ack ");
	/* Less than it was, and another's; but still the owner. */
	f->check_ack = 0;
	f->identity.role = ROLE_VIEWER;
	assert_int_equal(acknowledge(1), 0);
	expect_said("check-ack acknowledge:1 ");
	strcpy(f->consumer.owner, "user:2");
	assert_int_equal(acknowledge(1), -EPERM);
	assert_null(strstr(said, "acknowledge"));
	said[0] = '\0';
	/* An exporter is the daemon itself. */
	f->subscriber.identity = NULL;
	assert_int_equal(acknowledge(1), 0);
	expect_said("acknowledge:1 ");
	leave(false);
	close_all();
}

/* The last to leave decides how long its subscription is kept; if it is not always on. */
static void last_to_leave(void **state)
{
	struct stream *other;
	struct fixture fixture;

	(void)state;
	for (unsigned i = 0; i < 16; i++) {
		bool orderly = i & 1, permanent = i & 2, before = i & 4, after = i & 8;
		bool last = !permanent && !before && !after;

		open_all(&fixture);
		other = before ? stream_create(f->subscription, NULL, cpu_of, 1, NULL, 0) : NULL;
		f->subscription->permanent = permanent;
		assert_int_equal(add(NULL), 0);
		if (after && !before)
			other = stream_create(f->subscription, NULL, cpu_of, 1, NULL, 0);
		said[0] = '\0';
		leave(orderly);
		expect_said(last && orderly ? "check-soon " : "");
		assert_int_equal(f->subscription->linger_until_ns, last ? now_ns + (orderly ? 0 : 30) : 0);
		__real_stream_destroy(other);
		close_all();
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_question_may_be_the_last),
		cmocka_unit_test(registers_as_what_was_asked_for),
		cmocka_unit_test(where_it_begins),
		cmocka_unit_test(what_nobody_recorded_is_doubted),
		cmocka_unit_test(new_stream_is_no_resume),
		cmocka_unit_test(rate_of_each_role),
		cmocka_unit_test(waits_for_its_subscription),
		cmocka_unit_test(begins_where_its_consumer_was_put_meanwhile),
		cmocka_unit_test(is_live_once_it_is_kept),
		cmocka_unit_test(waits_before_one_that_registers),
		cmocka_unit_test(what_cannot_be_kept),
		cmocka_unit_test(what_is_forgotten_with_a_refusal),
		cmocka_unit_test(owner_without_memory),
		cmocka_unit_test(who_may_acknowledge),
		cmocka_unit_test(last_to_leave),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
