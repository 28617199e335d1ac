/* test_subscription: what is kept of a request, what is refused, and what the daemon is asked for. */
#include "tests/unit/client/check.h"

#include <errno.h>
#include <stdlib.h>

#include "client/lib/subscription.h"
#include "proto/limits.h"
#include "proto/ringtail.pb-c.h"
#include "tests/lib/failing_memory.h"

#define PLACE "01020304-0506-0708-090a-0b0c0d0e0f10/7/0:15,3:4"

/* ---- What the daemon was sent ---------------------------------------------------------------------- */

static struct {
	unsigned frames;
	int err;			/* instead of sending */
	enum frame_type type;
	uint8_t bytes[4096];
	size_t size;
} sent;

int __wrap_conn_send(struct conn *conn, enum frame_type type, const ProtobufCMessage *message,
		     struct ringtail_error *error);

int __wrap_conn_send(struct conn *conn, enum frame_type type, const ProtobufCMessage *message,
		     struct ringtail_error *error)
{
	(void)conn;
	(void)error;
	sent.frames++;
	sent.type = type;
	sent.size = protobuf_c_message_get_packed_size(message);
	assert_true(sent.size <= sizeof(sent.bytes));
	protobuf_c_message_pack(message, sent.bytes);
	return sent.err;
}

static struct ringtail_error error;
static struct subscription *subscription;

static int setup(void **state)
{
	(void)state;
	memset(&sent, 0, sizeof(sent));
	memset(&error, 0, sizeof(error));
	subscription = NULL;
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	subscription_destroy(subscription);
	return 0;
}

static void create(const struct ringtail_subscription *wanted)
{
	if (subscription_create(wanted, &subscription, &error))
		fail_msg("%s", error.what);
}

/* Subscribe, as it went out; free it. */
static Ringtail__V1__Subscribe *ask(const struct cursor *since)
{
	Ringtail__V1__Subscribe *message;

	assert_int_equal(subscription_send(subscription, NULL, since, false, &error), 0);
	assert_int_equal(sent.type, FRAME_SUBSCRIBE);
	message = ringtail__v1__subscribe__unpack(NULL, sent.size, sent.bytes);
	assert_non_null(message);
	return message;
}

static void expect_place(const Ringtail__V1__Cursor *place, uint32_t cpu, uint64_t seq)
{
	assert_non_null(place);
	assert_int_equal(place->n_position, 2);
	assert_int_equal(place->position[0]->cpu, cpu);
	assert_int_equal(place->position[0]->seq, seq);
}

/* ---- Tests ----------------------------------------------------------------------------------------- */

static void takes_as_much_as_the_daemon_does_and_no_more(void **state)
{
	static char name[NAME_BYTES_MAX + 1], filter[FILTER_BYTES_MAX + 2];
	static const char *probe[SUBSCRIBE_PROBES_MAX + 1];
	struct ringtail_subscription wanted = {
		.probe = probe, .probes = SUBSCRIBE_PROBES_MAX, .filter = filter,
	};

	(void)state;
	memset(name, 'a', NAME_BYTES_MAX);
	memset(filter, 'b', FILTER_BYTES_MAX);
	for (size_t i = 0; i <= SUBSCRIBE_PROBES_MAX; i++)
		probe[i] = name + 1;
	create(&wanted);
	subscription_destroy(subscription);
	subscription = NULL;
	wanted.probes++;
	assert_int_equal(subscription_create(&wanted, &subscription, &error), -EINVAL);
	assert_string_equal(error.code, "too-many-probes");
	wanted.probes--;
	probe[SUBSCRIBE_PROBES_MAX - 1] = name;
	assert_int_equal(subscription_create(&wanted, &subscription, &error), -EINVAL);
	assert_string_equal(error.code, "too-long");
	assert_non_null(strstr(error.what, "probe's name has at most 255 bytes"));
	probe[SUBSCRIBE_PROBES_MAX - 1] = "";
	filter[FILTER_BYTES_MAX] = 'b';
	assert_int_equal(subscription_create(&wanted, &subscription, &error), -EINVAL);
	assert_string_equal(error.code, "too-long");
	assert_non_null(strstr(error.what, "filter"));
	assert_null(subscription);
}

/* For each later connection, when the caller's texts are long gone. */
static void asks_for_the_texts_as_they_were(void **state)
{
	char first[] = "syscall:*:call", filter[] = "pid == 1", consumer[] = "me", place[] = PLACE;
	const char *probe[] = {first, "tracepoint:sched:*"};
	struct ringtail_subscription wanted = {
		.probe = probe, .probes = 2, .filter = filter, .consumer = consumer, .since = place,
		.since_realtime_ns = 5, .flags = RINGTAIL_STRINGS, .count_only = true, .reconnect = true,
	};
	const struct ringtail_subscription *kept;
	Ringtail__V1__Subscribe *message;

	(void)state;
	create(&wanted);
	probe[1] = NULL;
	first[0] = filter[0] = consumer[0] = place[0] = '\0';
	message = ask(NULL);
	assert_int_equal(message->n_probe, 2);
	assert_string_equal(message->probe[0], "syscall:*:call");
	assert_string_equal(message->probe[1], "tracepoint:sched:*");
	assert_string_equal(message->filter, "pid == 1");
	assert_string_equal(message->consumer, "me");
	expect_place(message->since, 0, 15);
	assert_int_equal(message->since->epoch, 7);
	assert_int_equal(message->since_realtime_ns, 0);	/* the place says more */
	ringtail__v1__subscribe__free_unpacked(message, NULL);
	kept = subscription_wanted(subscription);
	assert_string_equal(kept->probe[1], "tracepoint:sched:*");
	assert_string_equal(kept->filter, "pid == 1");
	assert_string_equal(kept->consumer, "me");
	assert_null(kept->since);
	assert_true(kept->count_only);
	assert_true(kept->reconnect);
	assert_int_equal(kept->flags, RINGTAIL_STRINGS);
	assert_int_equal(subscription_since(subscription)->run.epoch, 7);
}

/* What is always recorded, from now on. */
static void nothing_asked_for_is_what_is_always_on(void **state)
{
	Ringtail__V1__Subscribe *message;

	(void)state;
	create(NULL);
	message = ask(NULL);
	assert_int_equal(message->n_probe, 0);
	assert_int_equal(message->n_flag, 0);
	assert_string_equal(message->filter, "");
	assert_string_equal(message->consumer, "");
	assert_null(message->since);
	assert_int_equal(message->since_realtime_ns, 0);
	ringtail__v1__subscribe__free_unpacked(message, NULL);
	assert_null(subscription_since(subscription));
	assert_string_equal(subscription_wanted(subscription)->filter, "");
}

static void each_flag_is_its_own_on_the_wire(void **state)
{
	static const struct {
		unsigned flag;
		Ringtail__V1__Flag wire;
	} flags[] = {
		{RINGTAIL_KSTACK, RINGTAIL__V1__FLAG__FLAG_KSTACK},
		{RINGTAIL_USTACK, RINGTAIL__V1__FLAG__FLAG_USTACK},
		{RINGTAIL_STRINGS, RINGTAIL__V1__FLAG__FLAG_STRINGS},
		{RINGTAIL_CONTEXT, RINGTAIL__V1__FLAG__FLAG_CONTEXT},
		{RINGTAIL_MAPS, RINGTAIL__V1__FLAG__FLAG_STACK_TABLE},
		{RINGTAIL_FDS, RINGTAIL__V1__FLAG__FLAG_FDS},
		{RINGTAIL_DATA, RINGTAIL__V1__FLAG__FLAG_DATA},
	};
	struct ringtail_subscription wanted = {0};
	Ringtail__V1__Subscribe *message;

	(void)state;
	for (size_t i = 0; i < sizeof(flags) / sizeof(*flags); i++) {
		wanted.flags |= flags[i].flag;
		create(&(struct ringtail_subscription){.flags = flags[i].flag});
		message = ask(NULL);
		assert_int_equal(message->n_flag, 1);
		assert_int_equal(message->flag[0], flags[i].wire);
		ringtail__v1__subscribe__free_unpacked(message, NULL);
		subscription_destroy(subscription);
	}
	create(&wanted);
	message = ask(NULL);
	assert_int_equal(message->n_flag, sizeof(flags) / sizeof(*flags));
	ringtail__v1__subscribe__free_unpacked(message, NULL);
}

/* At its time, until anything has come: then there, wherever it was to begin. */
static void goes_on_where_it_was(void **state)
{
	struct ringtail_subscription wanted = {.since_realtime_ns = 1234};
	struct cursor *place = cursor_create(2);
	Ringtail__V1__Subscribe *message;

	(void)state;
	assert_non_null(place);
	for (unsigned by_place = 0; by_place < 2; by_place++) {
		wanted.since = by_place ? PLACE : NULL;
		create(&wanted);
		place->n = 0;
		message = ask(place);		/* nothing has come */
		assert_int_equal(message->since_realtime_ns, by_place ? 0 : 1234);
		if (by_place)
			expect_place(message->since, 0, 15);
		else
			assert_null(message->since);
		ringtail__v1__subscribe__free_unpacked(message, NULL);
		cursor_append(place, 1, 99);
		cursor_append(place, 2, 98);
		message = ask(place);
		expect_place(message->since, 1, 99);
		assert_int_equal(message->since_realtime_ns, 0);
		ringtail__v1__subscribe__free_unpacked(message, NULL);
		subscription_destroy(subscription);
	}
	subscription = NULL;
	free(place);
}

static void only_a_durable_consumer_acknowledges(void **state)
{
	struct cursor *place = cursor_create(2);
	Ringtail__V1__Ack *message;

	(void)state;
	assert_non_null(place);
	cursor_append(place, 3, 33);
	cursor_append(place, 4, 44);
	create(NULL);
	assert_int_equal(subscription_ack(subscription, NULL, place, &error), 0);
	assert_int_equal(sent.frames, 0);
	subscription_destroy(subscription);
	create(&(struct ringtail_subscription){.consumer = "me"});
	assert_int_equal(subscription_ack(subscription, NULL, place, &error), 0);
	assert_int_equal(sent.frames, 1);
	assert_int_equal(sent.type, FRAME_ACK);
	message = ringtail__v1__ack__unpack(NULL, sent.size, sent.bytes);
	assert_non_null(message);
	expect_place(message->upto, 3, 33);
	ringtail__v1__ack__free_unpacked(message, NULL);
	sent.err = -EPIPE;
	assert_int_equal(subscription_ack(subscription, NULL, place, &error), -EPIPE);
	assert_int_equal(subscription_send(subscription, NULL, place, false, &error), -EPIPE);
	free(place);
}

static void place_that_is_none(void **state)
{
	struct ringtail_subscription wanted = {.since = "nowhere", .consumer = "me"};

	(void)state;
	assert_int_equal(subscription_create(&wanted, &subscription, &error), -EINVAL);
	assert_string_equal(error.code, "bad-cursor");
	assert_null(subscription);
}

/* Whichever allocation fails, it is refused, and nothing is half made or half said. */
static void out_of_memory(void **state)
{
	static const char *const probe[] = {"syscall:*:call", "tracepoint:sched:*"};
	struct ringtail_subscription wanted = {
		.probe = probe, .probes = 2, .filter = "pid == 1", .consumer = "me", .since = PLACE,
	};
	unsigned allocations = 0;
	int err;

	(void)state;
	do {
		memset(&error, 0, sizeof(error));
		memory_fails_after(allocations);
		err = subscription_create(&wanted, &subscription, &error);
		memory_suffices();
		if (err) {
			assert_int_equal(err, -ENOMEM);
			assert_string_equal(error.code, "no-memory");
			assert_null(subscription);
		}
	} while (err && ++allocations < 20);
	assert_int_equal(allocations, 6);
	subscription_destroy(subscription);
	for (unsigned i = 0; i < allocations; i++) {		/* that one alone */
		subscription = NULL;
		memory_fails_after(i);
		failures_left = 1;
		assert_int_equal(subscription_create(&wanted, &subscription, &error), -ENOMEM);
		memory_suffices();
		assert_null(subscription);
	}
	create(&wanted);
	memory_fails_after(0);
	assert_int_equal(subscription_send(subscription, NULL, NULL, true, &error), -ENOMEM);
	assert_int_equal(subscription_ack(subscription, NULL, subscription_since(subscription), &error),
			 -ENOMEM);
	memory_suffices();
	assert_string_equal(error.code, "no-memory");
	assert_int_equal(sent.frames, 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(takes_as_much_as_the_daemon_does_and_no_more),
		TEST(asks_for_the_texts_as_they_were),
		TEST(nothing_asked_for_is_what_is_always_on),
		TEST(each_flag_is_its_own_on_the_wire),
		TEST(goes_on_where_it_was),
		TEST(only_a_durable_consumer_acknowledges),
		TEST(place_that_is_none),
		TEST(out_of_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
