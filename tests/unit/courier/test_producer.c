/*
 * producer: a window's records on librdkafka's mock cluster, with the errors that a real one has: each is stored, or
 * a gap in its place, and nothing is confirmed that is not.
 */
#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>
#include <librdkafka/rdkafka.h>
#include <librdkafka/rdkafka_mock.h>

#include "courier/notice.h"
#include "courier/producer.h"
#include "courier/topic.h"
#include "proto/frame.h"

#define PRODUCE		0	/* the requests' numbers in Kafka's protocol */
#define INIT_PRODUCER	22
#define PATIENCE_MS	60000
#define BROKERS		3

static rd_kafka_t *handle;
static rd_kafka_mock_cluster_t *cluster;
static struct kafka_settings settings;
static struct windows windows;
static struct window window;
static struct producer *producer;
static struct ringtail_error error;
static struct parcel_label label;
static bool no_gaps;			/* there is no memory for them */

/* One cluster, whose end takes a second; each test has topics of its own. */
static int begin(void **state)
{
	char why[256];

	(void)state;
	handle = rd_kafka_new(RD_KAFKA_PRODUCER, rd_kafka_conf_new(), why, sizeof(why));
	cluster = rd_kafka_mock_cluster_new(handle, BROKERS);
	return cluster ? 0 : -1;
}

static int end(void **state)
{
	(void)state;
	rd_kafka_mock_cluster_destroy(cluster);
	rd_kafka_destroy(handle);
	return 0;
}

static char prefix[16], frames_name[32], runs_name[32];

static int setup(void **state)
{
	static unsigned tests;

	(void)state;
	snprintf(prefix, sizeof(prefix), "test%u", ++tests);
	snprintf(frames_name, sizeof(frames_name), "%s.frames", prefix);
	snprintf(runs_name, sizeof(runs_name), "%s.runs", prefix);
	if (rd_kafka_mock_topic_create(cluster, frames_name, 1, BROKERS) ||
	    rd_kafka_mock_topic_create(cluster, runs_name, 1, BROKERS))
		return -1;
	settings = (struct kafka_settings){ .brokers = rd_kafka_mock_cluster_bootstraps(cluster), .prefix = prefix };
	windows_init(&windows, 1 << 20);
	window_init(&window, &windows, "web-1");
	producer = NULL;
	no_gaps = false;
	label = (struct parcel_label){ .type = FRAME_BATCH, .catalog = 0xabcd, .span = { .known = true } };
	label.run.boot_id[0] = 0x11;
	label.run.epoch = 5;
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	rd_kafka_mock_clear_request_errors(cluster, PRODUCE);
	producer_destroy(producer);
	window_fini(&window);
	return 0;
}


struct parcel *__real_parcel_create_gap(const struct parcel *refused);
struct parcel *__wrap_parcel_create_gap(const struct parcel *refused);

struct parcel *__wrap_parcel_create_gap(const struct parcel *refused)
{
	return no_gaps ? NULL : __real_parcel_create_gap(refused);
}

/* What librdkafka was told, of each name. */
static struct {
	char name[64], value[32];
} told[64];
static unsigned tolds;

int __real_kafka_set(rd_kafka_conf_t *conf, const char *name, const char *value, struct ringtail_error *why);
int __wrap_kafka_set(rd_kafka_conf_t *conf, const char *name, const char *value, struct ringtail_error *why);

int __wrap_kafka_set(rd_kafka_conf_t *conf, const char *name, const char *value, struct ringtail_error *why)
{
	if (tolds < sizeof(told) / sizeof(*told)) {
		snprintf(told[tolds].name, sizeof(told[0].name), "%s", name);
		snprintf(told[tolds++].value, sizeof(told[0].value), "%s", value);
	}
	return __real_kafka_set(conf, name, value, why);
}

/* What people were told of brokers that are too old. */
static unsigned told_old, told_failed;
static char told_text[512];

void __wrap_notice(const char *level, const char *code, const char *format, ...);
void __wrap_notice(const char *level, const char *code, const char *format, ...)
{
	va_list more;

	(void)level;
	told_failed += strcmp(code, "producer-failed") == 0;
	if (strcmp(code, "brokers-too-old") != 0)
		return;
	told_old++;
	va_start(more, format);
	vsnprintf(told_text, sizeof(told_text), format, more);
	va_end(more);
}

static void open_producer(void)
{
	assert_int_equal(producer_create(&settings, &windows, &producer, &error), 0);
}

static struct parcel *push_to(enum kafka_topic topic, uint64_t first_seq, size_t bytes)
{
	uint8_t *value = calloc(1, bytes);
	struct parcel *parcel;

	label.span.first_seq = first_seq;
	label.span.end_seq = first_seq + 10;
	value[0] = (uint8_t)first_seq;
	parcel = parcel_create(topic, &label, value, bytes, NULL, 0);
	assert_non_null(parcel);
	window_push(&window, parcel);
	free(value);
	return parcel;
}

static void push(uint64_t first_seq, size_t bytes)
{
	push_to(KAFKA_FRAMES, first_seq, bytes);
}

static uint64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* Until all but so many are confirmed. */
static void carry_but(unsigned left)
{
	struct pollfd polled = { .fd = producer_fd(producer), .events = POLLIN };
	uint64_t until_ms = now_ms() + PATIENCE_MS;

	producer_run(producer);
	while (windows.count > left && now_ms() < until_ms) {
		int wait_ms = producer_wait_ms(producer);

		poll(&polled, 1, wait_ms < 0 || wait_ms > 100 ? 100 : wait_ms);
		producer_run(producer);
	}
	assert_int_equal(windows.count, left);
	assert_int_equal(windows.ledger.forwarded, windows.ledger.confirmed + windows.ledger.rejected + left);
}

static void carry(void)
{
	carry_but(0);
}

/* What the topic has of each record that was pushed: frames' types; and whether they came in their order. */
#define RECORDS_MAX 64
static unsigned stored[RECORDS_MAX];
static bool in_order;

static void take(const rd_kafka_message_t *record, uint64_t *end)
{
	rd_kafka_headers_t *headers;
	struct parcel_label of;

	assert_int_equal(rd_kafka_message_headers(record, &headers), 0);
	assert_true(parcel_read_label(headers, &of));
	assert_int_equal(record->key_len, strlen("web-1"));
	assert_memory_equal(record->key, "web-1", record->key_len);
	assert_true(of.span.first_seq / 10 < RECORDS_MAX);
	stored[of.span.first_seq / 10] = of.type;
	in_order &= of.span.first_seq <= *end;
	if (of.span.end_seq > *end)
		*end = of.span.end_seq;
}

static void read_topic(void)
{
	const rd_kafka_message_t *record;
	struct topic *topic;
	enum topic_next next;
	uint64_t end = 0;

	memset(stored, 0, sizeof(stored));
	in_order = true;
	assert_int_equal(topic_open(&settings, &(struct topic_wanted){ .which = KAFKA_FRAMES }, &topic, &error), 0);
	while ((next = topic_next(topic, 1000, &record, &error)) != TOPIC_END) {
		assert_int_not_equal(next, TOPIC_FAILED);
		if (next == TOPIC_RECORD)
			take(record, &end);
	}
	topic_close(topic);
}

static void all_are_stored(size_t records)
{
	read_topic();
	for (size_t i = 0; i < RECORDS_MAX; i++)
		assert_true(!stored[i] == (i >= records));
}

static void test_each_record_is_stored_with_its_label(void **state)
{
	struct parcel_label of;
	rd_kafka_headers_t *headers;
	struct parcel *parcel;

	(void)state;
	open_producer();
	for (unsigned i = 0; i < 20; i++)
		push(i * 10, 100 + i * 1000);
	carry();
	all_are_stored(20);
	assert_true(in_order);
	label.span = (struct forward_span){ true, 3, UINT64_MAX - 1, UINT64_MAX };
	parcel = parcel_create(KAFKA_FRAMES, &label, "x", 1, NULL, 0);
	headers = parcel_headers(parcel);
	assert_true(parcel_read_label(headers, &of));
	assert_memory_equal(&of, &label, sizeof(of));
	rd_kafka_headers_destroy(headers);
	free(parcel);
}

static void test_errors_that_mend_themselves_cost_nothing(void **state)
{
	(void)state;
	open_producer();
	rd_kafka_mock_push_request_errors(cluster, PRODUCE, 3, RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION,
					  RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS, RD_KAFKA_RESP_ERR__TRANSPORT);
	for (unsigned i = 0; i < 10; i++)
		push(i * 10, 1000);
	carry();
	all_are_stored(10);
	assert_true(in_order);
}

static void test_a_producer_that_has_failed_is_followed_by_another(void **state)
{
	struct producer_stat stat;

	(void)state;
	open_producer();
	push(0, 1000);
	carry();
	rd_kafka_mock_push_request_errors(cluster, PRODUCE, 1, RD_KAFKA_RESP_ERR_OUT_OF_ORDER_SEQUENCE_NUMBER);
	for (unsigned i = 1; i < 10; i++)
		push(i * 10, 1000);
	carry();
	producer_stat(producer, &stat);
	assert_true(stat.renewed >= 1);
	assert_true(windows.ledger.resent > 0);
	all_are_stored(10);
}

static void test_a_record_that_kafka_refuses_for_its_size_is_a_gap(void **state)
{
	struct producer_stat stat = { 0 };

	(void)state;
	open_producer();
	for (unsigned i = 0; i < 6; i++)
		push(i * 10, i ? 1000 : 100000);
	/* Of a batch of several, none is stored; of those which are sent alone then, one is refused. */
	rd_kafka_mock_push_request_errors(cluster, PRODUCE, 1, RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE);
	for (unsigned i = 0; i < PATIENCE_MS / 10 && !stat.renewed; i++) {
		poll(NULL, 0, 10);
		producer_run(producer);
		producer_stat(producer, &stat);
	}
	assert_int_equal(windows.ledger.rejected, 0);
	rd_kafka_mock_push_request_errors(cluster, PRODUCE, 1, RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE);
	carry();
	assert_int_equal(windows.ledger.rejected, 1);
	assert_int_equal(windows.ledger.rejected_attempts, 10);
	all_are_stored(6);
	assert_int_equal(stored[0], FRAME_GAP);
	assert_int_equal(stored[1], FRAME_BATCH);
}

static void test_a_frame_larger_than_any_batch_is_a_gap_at_once(void **state)
{
	(void)state;
	open_producer();
	push(0, 1000);
	push(10, RECORD_BYTES_MAX);
	push(20, 1000);
	carry();
	assert_int_equal(windows.ledger.rejected, 1);
	all_are_stored(3);
	assert_int_equal(stored[1], FRAME_GAP);
	assert_true(in_order);
}

/* What is missing stays in the window, and is no gap that nobody can read. */
static void test_a_frame_that_has_no_memory_for_its_gap_stays(void **state)
{
	(void)state;
	open_producer();
	push(0, 1000);
	push(10, RECORD_BYTES_MAX);
	push(20, 1000);
	no_gaps = true;
	carry_but(2);
	assert_int_equal(windows.ledger.rejected, 0);
	assert_int_equal(window_confirmed_upto(&window), 1);
	no_gaps = false;
	carry();
	all_are_stored(3);
	assert_int_equal(stored[1], FRAME_GAP);
	assert_true(in_order);
}

/* Nobody could decode them. */
static void test_nothing_is_sent_behind_a_run_that_kafka_refuses(void **state)
{
	struct parcel *behind;

	(void)state;
	open_producer();
	push(0, 1000);
	label.span.known = false;
	push_to(KAFKA_RUNS, 0, RECORD_BYTES_MAX);
	label.span.known = true;
	behind = push_to(KAFKA_FRAMES, 10, 1000);
	producer_run(producer);
	assert_true(window.refused);
	carry_but(2);
	producer_run(producer);
	assert_false(behind->was_sent);
	assert_int_equal(window_confirmed_upto(&window), 1);
	all_are_stored(1);
}

static void test_brokers_that_go_away_and_come_back_lose_nothing(void **state)
{
	(void)state;
	open_producer();
	for (int i = 1; i <= BROKERS; i++)
		rd_kafka_mock_broker_set_down(cluster, i);
	for (unsigned i = 0; i < 10; i++)
		push(i * 10, 1000);
	for (unsigned i = 0; i < 5; i++) {
		poll(NULL, 0, 20);
		producer_run(producer);
	}
	assert_int_equal(windows.ledger.confirmed, 0);
	for (int i = 1; i <= BROKERS; i++)
		rd_kafka_mock_broker_set_up(cluster, i);
	carry();
	all_are_stored(10);
}

/* Once, however often it is tried again; what waits meanwhile is stored when they are upgraded. */
static void test_brokers_that_are_too_old_are_told_and_get_nothing(void **state)
{
	struct producer_stat stat = { 0 };
	uint64_t until_ms = now_ms() + PATIENCE_MS;

	(void)state;
	rd_kafka_mock_set_apiversion(cluster, INIT_PRODUCER, -1, -1);
	told_old = told_failed = 0;
	open_producer();
	for (unsigned i = 0; i < 10; i++)
		push(i * 10, 1000);
	while (stat.renewed < 2 && now_ms() < until_ms) {
		poll(NULL, 0, 10);
		producer_run(producer);
		producer_stat(producer, &stat);
	}
	rd_kafka_mock_set_apiversion(cluster, INIT_PRODUCER, 0, 4);
	assert_true(stat.renewed >= 2);
	assert_int_equal(told_old, 1);
	assert_int_equal(told_failed, 0);
	assert_non_null(strstr(told_text, "Upgrade the brokers"));
	assert_int_equal(windows.ledger.confirmed + windows.ledger.rejected, 0);
	carry();
	all_are_stored(10);
	assert_true(in_order);
}

static void test_a_topic_that_is_missing_is_told_with_the_command_that_makes_it(void **state)
{
	(void)state;
	rd_kafka_mock_topic_set_error(cluster, runs_name, RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART);
	assert_int_equal(producer_create(&settings, &windows, &producer, &error), -ENOENT);
	assert_string_equal(error.code, "no-topic");
	assert_non_null(strstr(error.hint, "--create --topic"));
	assert_non_null(strstr(error.hint, runs_name));
	assert_non_null(strstr(error.hint, "cleanup.policy=compact"));
}

static void test_brokers_that_cannot_be_reached_are_told(void **state)
{
	(void)state;
	settings.brokers = "127.0.0.1:1";
	assert_int_equal(producer_create(&settings, &windows, &producer, &error), -ETIMEDOUT);
	assert_string_equal(error.code, "brokers-unreachable");
	assert_non_null(strstr(error.hint, "--kafka-ca"));
}

static void test_a_password_that_others_may_read_is_refused(void **state)
{
	char path[] = "/tmp/ringtail-test-XXXXXX";
	int fd = mkstemp(path);

	(void)state;
	assert_int_equal(write(fd, "secret\n", 7), 7);
	settings.sasl = "SCRAM-SHA-256";
	settings.user = "courier";
	settings.password_file = path;
	assert_int_equal(fchmod(fd, 0640), 0);
	assert_int_equal(producer_create(&settings, &windows, &producer, &error), -EACCES);
	assert_string_equal(error.code, "open-secret");
	unlink(path);
	close(fd);
}

static void test_options_that_would_send_a_password_in_clear_are_refused(void **state)
{
	(void)state;
	settings.sasl = "PLAIN";
	settings.user = "courier";
	settings.password_file = "/dev/null";
	assert_int_equal(kafka_check(&settings, &error), -EINVAL);
	assert_string_equal(error.code, "password-in-clear");
	settings.tls = true;
	assert_int_equal(kafka_check(&settings, &error), 0);
	settings.prefix = "a b";
	assert_int_equal(kafka_check(&settings, &error), -EINVAL);
}

/* What is confirmed, each replica has; what failed has nothing behind it; and no record is given up for its age. */
static void test_librdkafka_is_told_what_is_promised(void **state)
{
	static const char *const wanted[][2] = {
		{ "acks", "all" }, { "enable.idempotence", "true" }, { "enable.gapless.guarantee", "true" },
		{ "message.timeout.ms", "0" },
	};

	(void)state;
	tolds = 0;
	open_producer();
	for (size_t i = 0; i < sizeof(wanted) / sizeof(*wanted); i++) {
		unsigned at = 0;

		while (at < tolds && strcmp(told[at].name, wanted[i][0]) != 0)
			at++;
		assert_true(at < tolds);
		assert_string_equal(told[at].value, wanted[i][1]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		TEST(test_each_record_is_stored_with_its_label),
		TEST(test_errors_that_mend_themselves_cost_nothing),
		TEST(test_a_producer_that_has_failed_is_followed_by_another),
		TEST(test_a_record_that_kafka_refuses_for_its_size_is_a_gap),
		TEST(test_a_frame_larger_than_any_batch_is_a_gap_at_once),
		TEST(test_a_frame_that_has_no_memory_for_its_gap_stays),
		TEST(test_nothing_is_sent_behind_a_run_that_kafka_refuses),
		TEST(test_brokers_that_go_away_and_come_back_lose_nothing),
		TEST(test_brokers_that_are_too_old_are_told_and_get_nothing),
		TEST(test_a_topic_that_is_missing_is_told_with_the_command_that_makes_it),
		TEST(test_brokers_that_cannot_be_reached_are_told),
		TEST(test_librdkafka_is_told_what_is_promised),
		TEST(test_a_password_that_others_may_read_is_refused),
		TEST(test_options_that_would_send_a_password_in_clear_are_refused),
	};

	return cmocka_run_group_tests(tests, begin, end);
}
