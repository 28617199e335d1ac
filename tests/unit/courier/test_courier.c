/*
 * courier: a made-up daemon's frames to librdkafka's mock cluster: what Kafka does not have is not acknowledged, neither
 * behind a run that Kafka refuses, nor when there was no memory for a frame. And what a reader makes of the keys and
 * the runs that it finds there.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <librdkafka/rdkafka.h>
#include <librdkafka/rdkafka_mock.h>

#include "client/lib/cursor.h"
#include "client/lib/forward.h"
#include "courier/courier.h"
#include "courier/parcel.h"
#include "courier/runs.h"
#include "courier/window.h"
#include "tests/unit/client/fake.h"
#include "tests/unit/client/maker.h"

static rd_kafka_t *handle;
static rd_kafka_mock_cluster_t *cluster;
static struct maker hello, stream;
static struct fake fake;
static struct courier_settings settings;
static struct ringtail_error error;
static char prefix[16], summary[4096];

/* ---- What goes wrong -------------------------------------------------------------------------- */

static bool runs_are_too_large;		/* for Kafka */
static uint64_t no_memory_at;		/* for the batch that begins there */
static uint64_t pause_ms;		/* behind each batch, */
static uint64_t clock_ahead_ns;		/* which these come to */
static bool acknowledged;
static uint64_t acknowledged_seq;	/* of CPU 0, the furthest */
static uint64_t confirmed_max;		/* records that count as confirmed, at most */

/* ---- What came out of it ------------------------------------------------------------------------ */

static struct parcel_label announced;	/* the newest run */
static unsigned runs_announced, frames_behind;	/* frames that came behind the one that found no memory */

struct parcel *__real_parcel_create(enum kafka_topic topic, const struct parcel_label *label, const void *a,
				    size_t a_bytes, const void *b, size_t b_bytes);
struct parcel *__wrap_parcel_create(enum kafka_topic topic, const struct parcel_label *label, const void *a,
				    size_t a_bytes, const void *b, size_t b_bytes);

struct parcel *__wrap_parcel_create(enum kafka_topic topic, const struct parcel_label *label, const void *a,
				    size_t a_bytes, const void *b, size_t b_bytes)
{
	static const uint8_t large[RECORD_BYTES_MAX];

	if (topic == KAFKA_RUNS) {
		announced = *label;
		runs_announced++;
	}
	/* Nobody could decode a frame whose run Kafka has not had before it. */
	assert_true(run_equal(&label->run, &announced.run));
	assert_int_equal(label->catalog, announced.catalog);
	clock_ahead_ns += label->span.known ? pause_ms * 1000000 : 0;
	frames_behind += label->span.known && label->span.first_seq > no_memory_at;
	if (topic == KAFKA_RUNS && runs_are_too_large)
		return __real_parcel_create(topic, label, large, sizeof(large), b, b_bytes);
	if (label->span.known && label->span.first_seq == no_memory_at)
		return NULL;
	return __real_parcel_create(topic, label, a, a_bytes, b, b_bytes);
}

uint64_t __real_window_confirmed_upto(const struct window *window);
uint64_t __wrap_window_confirmed_upto(const struct window *window);

uint64_t __wrap_window_confirmed_upto(const struct window *window)
{
	uint64_t upto = __real_window_confirmed_upto(window);

	return upto < confirmed_max ? upto : confirmed_max;
}

int __wrap_forward_acknowledge(struct ringtail *ringtail, const char *place, struct ringtail_error *why);

int __wrap_forward_acknowledge(struct ringtail *ringtail, const char *place, struct ringtail_error *why)
{
	struct cursor *cursor;

	(void)ringtail;
	assert_int_equal(cursor_parse(place, &cursor, why), 0);
	acknowledged = true;
	acknowledged_seq = cursor_seq(cursor, 0, 0);
	free(cursor);
	return 0;
}

uint64_t __real_conn_now_ns(void);
uint64_t __wrap_conn_now_ns(void);
static uint64_t clock_step_ns;		/* between two looks at the clock */
static unsigned looks;

uint64_t __wrap_conn_now_ns(void)
{
	return __real_conn_now_ns() + clock_ahead_ns + clock_step_ns * ++looks;
}

/* ---- The daemon, and Kafka ---------------------------------------------------------------------- */

static int begin(void **state)
{
	char why[256];

	(void)state;
	handle = rd_kafka_new(RD_KAFKA_PRODUCER, rd_kafka_conf_new(), why, sizeof(why));
	cluster = rd_kafka_mock_cluster_new(handle, 1);
	return cluster ? 0 : -1;
}

static int end(void **state)
{
	(void)state;
	rd_kafka_mock_cluster_destroy(cluster);
	rd_kafka_destroy(handle);
	return 0;
}

/* A run, and three batches of CPU 0. */
static void make_stream(void)
{
	static const uint64_t zero[2];

	maker_init(&hello);
	maker_init(&stream);
	maker_hello(&hello, 1, 7);
	maker_catalog(&stream);
	maker_subscribed(&stream, 2, zero);
	for (unsigned i = 0; i < 3; i++)
		maker_batch(&stream, 0, i * 10, 1000 + i * 100, 10, 10);
}

static void serve(void)
{
	fake_start(&fake, &(struct fake_step){hello.bytes, hello.size, stream.bytes, stream.size, true}, 1);
}

/* With what was added to the stream. */
static void serve_again(void)
{
	fake_stop(&fake);
	serve();
}

static int setup(void **state)
{
	static const char *const kinds[] = { "frames", "runs" };
	static unsigned tests;
	char name[32];

	(void)state;
	snprintf(prefix, sizeof(prefix), "test%u", ++tests);
	for (size_t i = 0; i < 2; i++) {
		snprintf(name, sizeof(name), "%s.%s", prefix, kinds[i]);
		if (rd_kafka_mock_topic_create(cluster, name, 1, 1))
			return -1;
	}
	make_stream();
	serve();
	settings = (struct courier_settings){
		.address = fake.address,
		.consumer = "kafka",
		.window_bytes = WINDOW_BYTES_DEFAULT,
		.json = true,
		.kafka = { .brokers = rd_kafka_mock_cluster_bootstraps(cluster), .prefix = prefix },
	};
	runs_are_too_large = acknowledged = false;
	acknowledged_seq = 0;
	no_memory_at = confirmed_max = UINT64_MAX;
	runs_announced = frames_behind = 0;
	clock_step_ns = clock_ahead_ns = pause_ms = 0;
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	fake_stop(&fake);
	maker_fini(&hello);
	maker_fini(&stream);
	return 0;
}

/* What courier_run() returns. */
static int carry(void)
{
	FILE *ledger = fmemopen(summary, sizeof(summary), "w");
	struct courier *courier;
	int err;

	assert_non_null(ledger);
	assert_int_equal(courier_create(&settings, &courier, &error), 0);
	err = courier_run(courier, ledger, &error);
	courier_destroy(courier);
	fclose(ledger);
	return err;
}

static void test_nothing_is_acknowledged_behind_a_run_that_kafka_refuses(void **state)
{
	(void)state;
	runs_are_too_large = true;
	assert_int_equal(carry(), -EMSGSIZE);
	assert_string_equal(error.code, "run-rejected");
	assert_non_null(strstr(error.hint, prefix));
	assert_false(acknowledged);
	assert_non_null(strstr(summary, "\"confirmed\":0,\"rejected\":0,"));
	assert_non_null(strstr(summary, "\"residual\":0,"));
}

/* The stream's place is behind it; what was marked before it may be acknowledged. */
static void test_a_frame_that_found_no_memory_is_not_acknowledged(void **state)
{
	(void)state;
	no_memory_at = 20;
	assert_int_equal(carry(), -ENOMEM);
	assert_true(acknowledged_seq <= 20);
	assert_non_null(strstr(summary, "\"in_flight\":0,\"residual\":0,"));
}

/* A gap is no reason to come back for: the next frame is taken in the same turn. */
static void test_nothing_goes_out_behind_a_frame_that_found_no_memory(void **state)
{
	(void)state;
	maker_gap(&stream, 0, 30, 40, 0, 0, 1);
	maker_batch(&stream, 0, 40, 2000, 10, 10);
	serve_again();
	no_memory_at = 30;
	assert_int_equal(carry(), -ENOMEM);
	assert_int_equal(frames_behind, 0);
	assert_true(acknowledged_seq <= 30);
}

/* The run, its beginning and two batches are confirmed; the third is not. */
static void test_a_record_that_is_not_confirmed_is_not_acknowledged(void **state)
{
	(void)state;
	maker_bye(&stream, "all");
	serve_again();
	clock_step_ns = 1000000000;	/* each turn marks a place */
	confirmed_max = 4;
	assert_int_equal(carry(), 0);
	assert_true(acknowledged);
	assert_int_equal(acknowledged_seq, 20);
	assert_non_null(strstr(summary, "\"in_flight\":0,\"residual\":0,"));
}

static void test_each_run_and_each_catalog_is_announced(void **state)
{
	static const uint64_t zero[2];
	Ringtail__V1__Catalog other = RINGTAIL__V1__CATALOG__INIT;
	uint8_t raw[64];

	(void)state;
	/* Another run with the same catalog; then the run with another one. */
	maker_hello(&stream, 1, 8);
	maker_catalog(&stream);
	maker_subscribed(&stream, 2, zero);
	maker_watermark(&stream, 3000, 0, 0);
	/* The same once more is nothing new. */
	maker_hello(&stream, 1, 8);
	maker_catalog(&stream);
	maker_watermark(&stream, 4000, 0, 0);
	maker_raw(&stream, FRAME_CATALOG, raw, ringtail__v1__catalog__pack(&other, raw));
	maker_watermark(&stream, 5000, 0, 0);
	maker_bye(&stream, "all");
	serve_again();
	assert_int_equal(carry(), 0);
	assert_int_equal(runs_announced, 3);
	assert_non_null(strstr(summary, "\"in_flight\":0,\"residual\":0,"));
}

/* Three batches of one run: were its beginning deleted meanwhile, the later ones could be decoded all the same. */
static void test_a_run_that_goes_on_is_announced_again(void **state)
{
	(void)state;
	maker_bye(&stream, "all");
	serve_again();
	pause_ms = ANNOUNCE_INTERVAL_MS;
	assert_int_equal(carry(), 0);
	assert_int_equal(runs_announced, 1 + 3);
	assert_non_null(strstr(summary, "\"in_flight\":0,\"residual\":0,"));
	runs_announced = 0;
	pause_ms = ANNOUNCE_INTERVAL_MS / 4;
	serve_again();
	assert_int_equal(carry(), 0);
	assert_int_equal(runs_announced, 1);
}

static void test_a_name_that_no_reader_would_show_is_no_host(void **state)
{
	static const char *const bad[] = { "", "a\033[2Jb", "a\"b", "a\\b", "a\nb", "\xff" };
	struct courier *courier;

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		assert_false(parcel_host_is_good(bad[i]));
	assert_true(parcel_host_is_good("web-1.example.org"));
	settings.host = bad[1];
	assert_int_equal(courier_create(&settings, &courier, &error), -EINVAL);
	assert_string_equal(error.code, "no-host");
}

/* ---- What a reader finds ------------------------------------------------------------------------ */

/* A record of PREFIX.runs. */
static void produce(const char *key, size_t key_bytes, const void *value, size_t bytes)
{
	rd_kafka_conf_t *conf = rd_kafka_conf_new();
	char why[256], name[32];
	rd_kafka_t *producer;

	snprintf(name, sizeof(name), "%s.runs", prefix);
	assert_int_equal(rd_kafka_conf_set(conf, "bootstrap.servers", settings.kafka.brokers, why, sizeof(why)), 0);
	producer = rd_kafka_new(RD_KAFKA_PRODUCER, conf, why, sizeof(why));
	assert_non_null(producer);
	assert_int_equal(rd_kafka_producev(producer, RD_KAFKA_V_TOPIC(name), RD_KAFKA_V_KEY(key, key_bytes),
					   RD_KAFKA_V_VALUE((void *)value, bytes),
					   RD_KAFKA_V_MSGFLAGS(RD_KAFKA_MSG_F_COPY), RD_KAFKA_V_END), 0);
	assert_int_equal(rd_kafka_flush(producer, 30000), 0);
	rd_kafka_destroy(producer);
}

static void note_host(void *context, const char *host)
{
	strcat(context, host);
	strcat(context, ";");
}

static void test_hosts_that_cannot_be_shown_are_not_listed(void **state)
{
	static const char escape[] = "a\033[2Jb\0run\0cat", quote[] = "a\"b\0run\0cat", good[] = "web-1\0run\0cat";
	char hosts[256] = "";
	struct runs *runs;

	(void)state;
	maker_catalog(&hello);
	produce(escape, sizeof(escape) - 1, hello.bytes, hello.size);
	produce(quote, sizeof(quote) - 1, hello.bytes, hello.size);
	produce(good, sizeof(good) - 1, hello.bytes, hello.size);
	assert_int_equal(runs_open(&settings.kafka, NULL, 0, &runs, &error), 0);
	runs_each_host(runs, note_host, hosts);
	assert_string_equal(hosts, "web-1;");
	runs_close(runs);
}

/* Each of its records would wait for it; and it may come all the same. */
static void test_a_run_that_is_not_there_is_waited_for_once(void **state)
{
	struct parcel of = { .topic = KAFKA_RUNS, .label.run.epoch = 7 };
	struct runs_beginning beginning;
	char key[PARCEL_KEY_BYTES_MAX];
	size_t hello_bytes = hello.size;
	struct runs *runs;
	int err = -ENOENT;

	(void)state;
	assert_int_equal(runs_open(&settings.kafka, NULL, 0, &runs, &error), 0);
	clock_step_ns = 1000000000;
	assert_int_equal(runs_find(runs, "web-1", &of.label, &beginning, &error), -ENOENT);
	looks = 0;
	assert_int_equal(runs_find(runs, "web-1", &of.label, &beginning, &error), -ENOENT);
	assert_true(looks <= 2);
	maker_catalog(&hello);
	produce(key, parcel_key(&of, "web-1", key), hello.bytes, hello.size);
	for (unsigned i = 0; i < 3000 && err; i++) {
		usleep(10000);
		err = runs_find(runs, "web-1", &of.label, &beginning, &error);
	}
	assert_int_equal(err, 0);
	assert_int_equal(beginning.hello_bytes, hello_bytes);
	assert_int_equal(beginning.hello_bytes + beginning.catalog_bytes, hello.size);
	runs_close(runs);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		TEST(test_nothing_is_acknowledged_behind_a_run_that_kafka_refuses),
		TEST(test_a_frame_that_found_no_memory_is_not_acknowledged),
		TEST(test_nothing_goes_out_behind_a_frame_that_found_no_memory),
		TEST(test_a_record_that_is_not_confirmed_is_not_acknowledged),
		TEST(test_each_run_and_each_catalog_is_announced),
		TEST(test_a_run_that_goes_on_is_announced_again),
		TEST(test_hosts_that_cannot_be_shown_are_not_listed),
		TEST(test_a_run_that_is_not_there_is_waited_for_once),
		TEST(test_a_name_that_no_reader_would_show_is_no_host),
	};

	return cmocka_run_group_tests(tests, begin, end);
}
