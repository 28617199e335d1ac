/*
 * Durable consumers without a disk: who may have which and with which words others are refused, what each is
 * told to have acknowledged, and in which order what follows from an acknowledgement is asked of whom. The
 * registry of consumers and their spools are lists of answers here.
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

#include "daemon/base/counters.h"
#include "daemon/base/limits.h"
#include "daemon/stream/durable.h"
#include "daemon/stream/recorder.h"
#include "daemon/stream/subscriber.h"

#define RINGS	2
#define CLIENTS	CONSUMERS_OF_CLIENTS_MAX
#define OWN	CONSUMERS_PER_VIEWER_MAX

static uint32_t cpu_of[RINGS] = {3, 5};

static struct fixture {
	struct durable durable;
	struct subscriptions subscriptions;
	struct rings rings;
	struct subscription subscription;
	struct consumer_list list;
	struct consumer consumer[2];
	struct subscriber subscriber;
	struct stream *stream;
	struct client_identity viewer, operator;
	char said[512];

	/* Answers. */
	unsigned clients, own;
	bool given, used, held;
} *f;

static void __attribute__((format(printf, 1, 2))) say(const char *format, ...)
{
	size_t used = strlen(f->said);
	va_list arguments;

	va_start(arguments, format);
	assert_true(vsnprintf(f->said + used, sizeof(f->said) - used, format, arguments) <
		    (int)(sizeof(f->said) - used));
	va_end(arguments);
}

static void expect_said(const char *expected)
{
	assert_string_equal(f->said, expected);
	f->said[0] = '\0';
}

/* ---- Whom it asks ------------------------------------------------------------------------------ */

struct consumer_list *__wrap_consumers_list(struct consumers *consumers);
struct consumer_list *__wrap_consumers_list(struct consumers *consumers)
{
	assert_ptr_equal(consumers, f->durable.consumers);
	return &f->list;
}

struct consumer *__wrap_consumers_find(struct consumers *consumers, const char *name);
struct consumer *__wrap_consumers_find(struct consumers *consumers, const char *name)
{
	struct consumer *consumer;

	(void)consumers;
	TAILQ_FOREACH(consumer, &f->list, link)
		if (strcmp(consumer->name, name) == 0)
			return consumer;
	return NULL;
}

unsigned __wrap_consumers_count(const struct consumers *consumers, const char *owner, unsigned *its_own);
unsigned __wrap_consumers_count(const struct consumers *consumers, const char *owner, unsigned *its_own)
{
	(void)consumers;
	assert_true(strcmp(owner, "user:v") == 0 || strcmp(owner, "user:o") == 0);
	*its_own = f->own;
	return f->clients;
}

void __wrap_consumers_remove(struct consumers *consumers, struct consumer *consumer);
void __wrap_consumers_remove(struct consumers *consumers, struct consumer *consumer)
{
	(void)consumers;
	say("remove:%s ", consumer->name);
	TAILQ_REMOVE(&f->list, consumer, link);
	/* As where its memory is another's. */
	memset(consumer->spool, 'x', sizeof(consumer->spool) - 1);
}

void __wrap_consumers_save(struct consumers *consumers);
void __wrap_consumers_save(struct consumers *consumers)
{
	(void)consumers;
	say("save ");
}

bool __wrap_consumers_are_given(const struct consumers *consumers);
bool __wrap_consumers_are_given(const struct consumers *consumers)
{
	(void)consumers;
	return f->given;
}

bool __wrap_spooler_has(const struct spooler *spooler, const char *name);
bool __wrap_spooler_has(const struct spooler *spooler, const char *name)
{
	(void)spooler, (void)name;
	return f->used;
}

void __wrap_spooler_remove(struct spooler *spooler, const char *name);
void __wrap_spooler_remove(struct spooler *spooler, const char *name)
{
	(void)spooler;
	say("spool-gone:%s ", name);
}

void __wrap_spool_release(struct spool *spool, const struct cursor *upto);
void __wrap_spool_release(struct spool *spool, const struct cursor *upto)
{
	assert_ptr_equal(spool, f->subscription.spool.spool);
	say("release:%llu", (unsigned long long)upto->run.epoch);
	for (uint32_t i = 0; i < upto->n; i++)
		say(",%u=%lld", upto->position[i].cpu, (long long)upto->position[i].seq);
	say(" ");
}

uint64_t __wrap_spool_behind(const struct spool *spool, const struct cursor *place);
uint64_t __wrap_spool_behind(const struct spool *spool, const struct cursor *place)
{
	assert_ptr_equal(spool, f->subscription.spool.spool);
	return place->n ? 1000 - place->position[0].seq : 1000;
}

void __wrap_spool_stat(const struct spool *spool, struct spool_stat *stat);
void __wrap_spool_stat(const struct spool *spool, struct spool_stat *stat)
{
	static const struct spool_config config = {.name = "0123456789abcdef"};

	(void)spool;
	*stat = (struct spool_stat){.config = &config};
}

int __wrap_subscriptions_get(struct subscriptions *all, const struct subscription_request *request,
			     enum subscription_claim claim, struct subscription **subscription, struct error *error);
int __wrap_subscriptions_get(struct subscriptions *all, const struct subscription_request *request,
			     enum subscription_claim claim, struct subscription **subscription, struct error *error)
{
	(void)all, (void)request, (void)claim, (void)error;
	*subscription = &f->subscription;
	return 0;
}

bool __wrap_recorder_is_held(const struct recorder *recorder);
bool __wrap_recorder_is_held(const struct recorder *recorder)
{
	(void)recorder;
	return f->held;
}

static void check_soon(void *context)
{
	(void)context;
	say("check-soon ");
}

/* ---- Two consumers of one subscription, whose owner is a viewer ---------------------------------- */

static struct run run_of(uint64_t epoch)
{
	return (struct run){.boot_id = "0123456789abcde", .epoch = epoch};
}

static struct cursor *place(uint64_t epoch, uint64_t first, uint64_t second)
{
	struct cursor *made = cursor_create(RINGS);

	assert_non_null(made);
	made->run = run_of(epoch);
	cursor_append(made, cpu_of[0], first);
	cursor_append(made, cpu_of[1], second);
	return made;
}

static int setup(void **state)
{
	(void)state;
	f = calloc(1, sizeof(*f));
	assert_non_null(f);
	f->rings = (struct rings){.run = run_of(9), .n = RINGS, .cpu_of = cpu_of};
	TAILQ_INIT(&f->subscriptions.list);
	TAILQ_INIT(&f->list);
	TAILQ_INSERT_TAIL(&f->subscriptions.list, &f->subscription, link);
	f->subscriptions.config.check_soon = check_soon;
	f->subscription.spool.spool = (struct spool *)f->said;
	f->subscription.consumers = 2;
	for (unsigned i = 0; i < 2; i++) {
		struct consumer *consumer = &f->consumer[i];

		strcpy(consumer->name, i ? "second" : "first");
		strcpy(consumer->owner, "user:v");
		strcpy(consumer->spool, "0123456789abcdef");
		consumer->subscription = &f->subscription;
		TAILQ_INSERT_TAIL(&f->list, consumer, link);
	}
	f->viewer = (struct client_identity){.role = ROLE_VIEWER, .text = "user:v"};
	f->operator = (struct client_identity){.role = ROLE_OPERATOR, .text = "user:o"};
	f->durable = (struct durable){.spooler = (struct spooler *)f->said, .consumers = (struct consumers *)f->said,
				      .subscriptions = &f->subscriptions, .rings = &f->rings};
	f->given = true;
	f->stream = calloc(1, sizeof(*f->stream) + RINGS * sizeof(f->stream->ring[0]));
	assert_non_null(f->stream);
	f->stream->consumer = &f->consumer[0];
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		free(f->consumer[i].place);
		for (unsigned j = 0; j < f->consumer[i].runs; j++)
			free(f->consumer[i].sent[j]);
	}
	free(f->stream);
	free(f);
	return 0;
}

/* ---- Who may have which ------------------------------------------------------------------------- */

/* The code, its text, and whether the name is new; "" and "": it may. */
static void expect_asked(const char *name, const struct client_identity *identity, const char *code, const char *what,
			 bool registers)
{
	struct error error = {0};
	bool new_one = !registers;
	int err = durable_may_consume(&f->durable, name, identity, &new_one, &error);

	assert_string_equal(error.code, code);
	assert_string_equal(error.what, what);
	assert_int_equal(err != 0, *code != '\0');
	assert_int_equal(new_one, registers);
}

static void registers_within_the_bounds(void **state)
{
	char what[128];

	(void)state;
	f->clients = CLIENTS - 1;
	f->own = OWN - 1;
	expect_asked("new", &f->viewer, "", "", true);
	f->own = OWN;
	snprintf(what, sizeof(what), "user:v has %u durable consumers already", OWN);
	expect_asked("new", &f->viewer, "too-many-consumers", what, true);
	expect_asked("new", &f->operator, "", "", true);
	expect_asked("first", &f->viewer, "", "", false);	/* it has that one */
	f->clients = CLIENTS;
	f->own = 1;
	snprintf(what, sizeof(what), "clients have %u durable consumers already", CLIENTS);
	expect_asked("new", &f->viewer, "too-many-consumers", what, true);
	expect_asked("new", &f->operator, "too-many-consumers", what, true);
	expect_asked("new", NULL, "", "", true);		/* an exporter is none of clients' */
}

static void refused_by_name_owner_and_use(void **state)
{
	static const char reserved[] =
		"'export-x': names that begin with export- are this daemon's exporters'";
	static const char others[] = "the durable consumer 'second' is another client's";

	(void)state;
	expect_asked("export-x", &f->operator, "consumer-reserved", reserved, false);
	expect_asked("export-x", NULL, "", "", false);		/* no client registers it */
	strcpy(f->consumer[1].owner, "user:w");
	expect_asked("second", &f->viewer, "consumer-not-yours", others, false);
	expect_asked("second", &f->operator, "", "", false);
	/* Whether another's is connected is not told to who may not have it. */
	f->consumer[0].subscriber = f->consumer[1].subscriber = &f->subscriber;
	expect_asked("second", &f->viewer, "consumer-not-yours", others, false);
	expect_asked("second", &f->operator, "consumer-in-use",
		     "the durable consumer 'second' is connected already", false);
	expect_asked("first", &f->viewer, "consumer-in-use", "the durable consumer 'first' is connected already", false);
	f->durable.spooler = NULL;
	expect_asked("new", &f->operator, "not-durable",
		     "this daemon keeps nothing on disk, and so has no durable consumers", false);
}

/* A relay that was dialled has one consumer, which is no other client's. */
static void the_relay_has_its_own_alone(void **state)
{
	static const char reserved[] =
		"'%s': the name relay is for the relay that this daemon dials, and no other for it";
	struct client_identity relay = f->operator;
	char what[160];

	(void)state;
	relay.proof = IDENTITY_RELAY;
	expect_asked(CONSUMER_RELAY, &relay, "", "", false);	/* the daemon itself registers it */
	snprintf(what, sizeof(what), reserved, CONSUMER_RELAY);
	expect_asked(CONSUMER_RELAY, &f->operator, "consumer-reserved", what, false);
	snprintf(what, sizeof(what), reserved, "new");
	expect_asked("new", &relay, "consumer-reserved", what, true);
	snprintf(what, sizeof(what), reserved, "second");
	expect_asked("second", &relay, "consumer-reserved", what, false);
}

static void expect_forget(const char *name, const struct client_identity *identity, const char *code)
{
	struct error error = {0};
	int err = durable_may_forget(&f->durable, name, identity, &error);

	assert_string_equal(error.code, code);
	assert_int_equal(err != 0, *code != '\0');
}

static void given_up_by_whom(void **state)
{
	(void)state;
	strcpy(f->consumer[1].owner, "user:w");
	expect_forget("first", &f->viewer, "");
	expect_forget("second", &f->viewer, "consumer-not-yours");
	expect_forget("second", &f->operator, "");
	expect_forget("third", &f->operator, "no-such-consumer");
	f->durable.consumers = NULL;
	expect_forget("first", &f->operator, "no-such-consumer");
}

/* ---- Giving up ----------------------------------------------------------------------------------- */

static void expect_given_up(const char *name, const char *code)
{
	struct error error = {0};
	int err = durable_forget(&f->durable, name, &error);

	assert_string_equal(error.code, code);
	assert_int_equal(err != 0, *code != '\0');
}

/* The last one's subscription goes soon, but what the daemon itself wants does not. */
static void given_up_one_by_one(void **state)
{
	(void)state;
	f->consumer[0].subscriber = &f->subscriber;
	expect_given_up("first", "consumer-in-use");
	expect_given_up("third", "no-such-consumer");
	expect_said("");
	f->consumer[0].subscriber = NULL;
	f->consumer[1].place = place(9, 20, 30);
	expect_given_up("first", "");
	expect_said("remove:first ");
	assert_true(f->subscription.owes_release);
	assert_false(f->subscription.spool.unwanted);
	durable_release(&f->durable);
	expect_said("release:9,3=20,5=30 ");
	assert_false(f->subscription.owes_release);
	expect_given_up("second", "");
	expect_said("remove:second check-soon ");
	assert_true(f->subscription.spool.unwanted);
}

static void always_on_is_not_given_up(void **state)
{
	(void)state;
	f->subscription.permanent = true;
	f->subscription.consumers = 1;
	expect_given_up("first", "");
	expect_said("remove:first ");
	f->subscription.permanent = false;
	f->subscription.consumers = 1;
	f->subscriptions.permanent.next = &f->subscription;	/* it will be */
	expect_given_up("second", "");
	expect_said("remove:second ");
	assert_false(f->subscription.spool.unwanted);
}

/* No subscription has it: its spool goes, unless another consumer is named in it, or a subscription uses it. */
static void held_spool_goes_with_the_last(void **state)
{
	(void)state;
	f->consumer[0].subscription = f->consumer[1].subscription = NULL;
	expect_given_up("first", "");
	expect_said("remove:first ");
	expect_given_up("second", "");
	expect_said("remove:second spool-gone:0123456789abcdef ");
	teardown(NULL);
	setup(NULL);
	f->consumer[0].subscription = NULL;
	f->consumer[1].spool[0] = '\0';
	f->used = true;
	expect_given_up("first", "");
	expect_said("remove:first ");
	f->used = false;
	f->consumer[1].subscription = NULL;
	expect_given_up("second", "");
	expect_said("remove:second ");
}

/* ---- Acknowledging ------------------------------------------------------------------------------- */

static void expect_ack(uint64_t epoch, uint64_t first, uint64_t second, const char *code)
{
	uint64_t refused = counter_read(COUNTER_acks_refused);
	struct cursor *upto = place(epoch, first, second);
	struct error error = {0};
	int err = durable_check_ack(&f->durable, f->stream, upto, &error);

	assert_string_equal(error.code, code);
	assert_int_equal(err, *code ? -EINVAL : 0);
	assert_int_equal(counter_read(COUNTER_acks_refused) - refused, *code != '\0');
	free(upto);
}

/* Up to what its stream was seen to have, of this run, or what an earlier connection was sent. */
static void acknowledged_what_was_sent(void **state)
{
	struct run ours = run_of(9);

	(void)state;
	f->stream->ring[0] = (struct stream_ring){.seen = 50, .told = 40};
	f->stream->ring[1] = (struct stream_ring){.seen = 60, .told = 60};
	expect_ack(9, 50, 60, "");
	expect_ack(9, 51, 60, "ack-beyond");
	expect_ack(9, 50, 61, "ack-beyond");
	expect_ack(8, 1, 0, "ack-beyond");		/* of another run it was sent nothing */
	f->stream->ring[1].unknown = true;		/* what was seen is not of this ring's numbers */
	expect_ack(9, 50, 1, "ack-beyond");
	consumer_note_sent(&f->consumer[0], &ours, cpu_of[1], 70);
	expect_ack(9, 50, 70, "");
	f->stream->ring[1].unknown = false;
	expect_ack(9, 50, 70, "");
	expect_ack(9, 50, 71, "ack-beyond");
}

static void acknowledged_a_cpu_twice_or_no_boot(void **state)
{
	struct cursor *upto = place(9, 0, 0);
	struct error error = {0};

	(void)state;
	upto->position[1].cpu = cpu_of[0];
	assert_int_equal(durable_check_ack(&f->durable, f->stream, upto, &error), -EINVAL);
	assert_string_equal(error.code, "cursor-invalid");
	memset(&upto->run, 0, sizeof(upto->run));
	assert_int_equal(durable_check_ack(&f->durable, f->stream, upto, &error), -EINVAL);
	assert_non_null(strstr(error.what, "names no boot"));
	free(upto);
}

/* The file of consumers is written before anything goes; and nothing does before all consumers have a place. */
static void acknowledged_is_saved_before_it_is_released(void **state)
{
	struct cursor *upto = place(9, 50, 60);

	(void)state;
	f->consumer[0].unrecorded = true;
	durable_acknowledge(&f->durable, &f->consumer[0], upto);
	expect_said("save ");				/* the second has no place yet */
	assert_false(f->consumer[0].unrecorded);
	assert_true(f->consumer[0].acked_realtime_ns > 0);
	f->consumer[1].place = place(9, 55, 40);
	f->given = false;
	durable_acknowledge(&f->durable, &f->consumer[0], upto);
	expect_said("save ");				/* the disk thread has another save still */
	f->given = true;
	durable_release(&f->durable);
	expect_said("release:9,3=50,5=40 ");
	durable_release(&f->durable);
	expect_said("");
	durable_acknowledge(&f->durable, &f->consumer[0], upto);
	expect_said("save release:9,3=50,5=40 ");
	/* Of an earlier run, all numbers are behind: that one decides alone. */
	f->consumer[1].place->run.epoch = 8;
	durable_acknowledge(&f->durable, &f->consumer[0], upto);
	expect_said("save release:8,3=55,5=40 ");
	free(upto);
}

/* ---- What is told -------------------------------------------------------------------------------- */

static void note_row(void *context, const struct consumer_stat *row)
{
	(void)context;
	say("%s of '%s' in %.4s:%s%s behind %llu, acked %llu; ", row->name, row->owner, row->spool,
	    row->connected ? " connected" : "", row->exporter ? " exporter" : "",
	    (unsigned long long)row->behind_bytes, (unsigned long long)row->acked_realtime_ns);
}

static void each_is_told(void **state)
{
	(void)state;
	f->consumer[0].place = place(9, 300, 0);
	f->consumer[0].acked_realtime_ns = 77;
	f->consumer[0].subscriber = &f->subscriber;
	f->subscriber.state = SUBSCRIBER_REGISTERING;	/* it has no stream yet */
	strcpy(f->consumer[1].name, "export-loki-0");
	f->consumer[1].owner[0] = '\0';
	durable_each(&f->durable, note_row, NULL);
	expect_said("first of 'user:v' in 0123: behind 700, acked 77; "
		    "export-loki-0 of '' in 0123: exporter behind 1000, acked 0; ");
	f->subscriber.state = SUBSCRIBER_LIVE;
	f->consumer[1].subscription = NULL;
	durable_each(&f->durable, note_row, NULL);
	expect_said("first of 'user:v' in 0123: connected behind 700, acked 77; "
		    "export-loki-0 of '' in 0123: exporter behind 0, acked 0; ");
}

static void note_name(void *context, const char *name)
{
	(void)context;
	say("%.4s ", name);
}

/* Spools of consumers without a subscription are held for them; of others, the subscription has it. */
static void held_is_told(void **state)
{
	(void)state;
	f->consumer[0].subscription = NULL;
	strcpy(f->consumer[0].spool, "fedcba9876543210");
	durable_each_held(&f->durable, note_name, NULL);
	expect_said("fedc ");
	f->consumer[0].spool[0] = '\0';
	durable_each_held(&f->durable, note_name, NULL);
	expect_said("");
}

/* Nothing was recorded for it where the recorder is held, and the subscription is not of the run before. */
static void restored_as_unrecorded(void **state)
{
	static const struct {
		bool held;
		enum subscription_origin origin;
		bool unrecorded;
	} cases[] = {{true, SUBSCRIPTION_NEW, true}, {true, SUBSCRIPTION_RESTORED, false},
		     {false, SUBSCRIPTION_NEW, false}};
	struct error error;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		f->held = cases[i].held;
		f->subscription.origin = cases[i].origin;
		f->subscription.consumers = 0;
		assert_int_equal(durable_restore(&f->durable, &error), 0);
		assert_int_equal(f->consumer[0].unrecorded, cases[i].unrecorded);
		assert_int_equal(f->subscription.consumers, 2);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(registers_within_the_bounds, setup, teardown),
		cmocka_unit_test_setup_teardown(refused_by_name_owner_and_use, setup, teardown),
		cmocka_unit_test_setup_teardown(the_relay_has_its_own_alone, setup, teardown),
		cmocka_unit_test_setup_teardown(given_up_by_whom, setup, teardown),
		cmocka_unit_test_setup_teardown(given_up_one_by_one, setup, teardown),
		cmocka_unit_test_setup_teardown(always_on_is_not_given_up, setup, teardown),
		cmocka_unit_test_setup_teardown(held_spool_goes_with_the_last, setup, teardown),
		cmocka_unit_test_setup_teardown(acknowledged_what_was_sent, setup, teardown),
		cmocka_unit_test_setup_teardown(acknowledged_a_cpu_twice_or_no_boot, setup, teardown),
		cmocka_unit_test_setup_teardown(acknowledged_is_saved_before_it_is_released, setup, teardown),
		cmocka_unit_test_setup_teardown(each_is_told, setup, teardown),
		cmocka_unit_test_setup_teardown(held_is_told, setup, teardown),
		cmocka_unit_test_setup_teardown(restored_as_unrecorded, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
