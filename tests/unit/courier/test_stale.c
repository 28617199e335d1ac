/*
 * stale: runs that no frame names, in librdkafka's mock cluster: they are counted, and deleted if that is wanted; none that
 * a frame names, none that is recent, and nothing at all where a part could not be read.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <librdkafka/rdkafka.h>
#include <librdkafka/rdkafka_mock.h>

#include "courier/parcel.h"
#include "courier/runs.h"
#include "courier/stale.h"
#include "courier/topic.h"
#include "tests/unit/client/maker.h"

#define NOW_MS		INT64_C(1800000000000)
#define OLD_MS		(NOW_MS - (int64_t)RUN_AGE_MS_MIN)
#define RECENT_MS	(OLD_MS + 1)
#define FRAMES_PARTITIONS 2

static rd_kafka_t *handle;		/* the cluster's, and */
static rd_kafka_t *producer;		/* the one that fills it */
static rd_kafka_mock_cluster_t *cluster;
static struct maker beginning;
static struct kafka_settings settings;
static struct ringtail_error error;
static struct stale_ledger ledger;
static volatile sig_atomic_t stop;
static char prefix[16];

/* ---- What is in Kafka ---------------------------------------------------------------------------- */

static void produce(enum kafka_topic topic, const char *host, uint64_t epoch, uint32_t catalog, const void *value,
		    size_t bytes, int64_t sent_ms)
{
	struct parcel parcel = { .topic = topic, .label = { .catalog = catalog } };
	char name[KAFKA_TOPIC_BYTES], key[PARCEL_KEY_BYTES_MAX];
	size_t key_bytes;

	parcel.label.type = topic == KAFKA_RUNS ? FRAME_SERVER_HELLO : FRAME_WATERMARK;
	parcel.label.run.epoch = epoch;
	key_bytes = parcel_key(&parcel, host, key);
	kafka_topic_name(&settings, topic, name);
	assert_int_equal(rd_kafka_producev(producer, RD_KAFKA_V_TOPIC(name), RD_KAFKA_V_KEY(key, key_bytes),
					   RD_KAFKA_V_VALUE((void *)value, bytes), RD_KAFKA_V_TIMESTAMP(sent_ms),
					   RD_KAFKA_V_HEADERS(parcel_headers(&parcel)),
					   RD_KAFKA_V_MSGFLAGS(RD_KAFKA_MSG_F_COPY), RD_KAFKA_V_END), 0);
}

static void flush(void)
{
	assert_int_equal(rd_kafka_flush(producer, 30000), 0);
}

static void announce(const char *host, uint64_t epoch, uint32_t catalog, int64_t sent_ms)
{
	produce(KAFKA_RUNS, host, epoch, catalog, beginning.bytes, beginning.size, sent_ms);
}

static void send_frame(const char *host, uint64_t epoch, uint32_t catalog)
{
	produce(KAFKA_FRAMES, host, epoch, catalog, "frame", 5, NOW_MS);
}

/* Six records, of which four are there; nothing is left of two of these. */
static void fill(void)
{
	announce("web-1", 1, 9, OLD_MS);	/* stale */
	announce("web-1", 2, 9, OLD_MS);
	announce("web-1", 2, 8, OLD_MS);	/* stale: another catalog of that run */
	announce("web-1", 3, 9, OLD_MS - 5);	/* has come back since */
	announce("web-1", 3, 9, RECENT_MS);
	announce("db-1", 1, 9, OLD_MS);
	produce(KAFKA_RUNS, "db-1", 1, 9, NULL, 0, OLD_MS);
	send_frame("web-1", 2, 9);
	send_frame("db-1", 2, 9);		/* no run is known of that */
	flush();
}

/* ---- What goes wrong ----------------------------------------------------------------------------- */

static bool frames_stand_still;
static bool comes_back;			/* while frames are read */
static enum kafka_topic topic_read;
static unsigned topics_read;

int __real_topic_open(const struct kafka_settings *of, const struct topic_wanted *wanted, struct topic **topic,
		      struct ringtail_error *why);
int __wrap_topic_open(const struct kafka_settings *of, const struct topic_wanted *wanted, struct topic **topic,
		      struct ringtail_error *why);
int __wrap_topic_open(const struct kafka_settings *of, const struct topic_wanted *wanted, struct topic **topic,
		      struct ringtail_error *why)
{
	topic_read = wanted->which;
	topics_read++;
	if (comes_back && topic_read == KAFKA_FRAMES)
		announce("web-1", 1, 9, NOW_MS);
	flush();
	return __real_topic_open(of, wanted, topic, why);
}

enum topic_next __real_topic_next(struct topic *topic, int timeout_ms, const rd_kafka_message_t **record,
				  struct ringtail_error *why);
enum topic_next __wrap_topic_next(struct topic *topic, int timeout_ms, const rd_kafka_message_t **record,
				  struct ringtail_error *why);
enum topic_next __wrap_topic_next(struct topic *topic, int timeout_ms, const rd_kafka_message_t **record,
				  struct ringtail_error *why)
{
	return frames_stand_still && topic_read == KAFKA_FRAMES ? TOPIC_TIMEOUT :
								  __real_topic_next(topic, timeout_ms, record, why);
}

uint64_t __real_topic_waited_ms(const struct topic *topic);
uint64_t __wrap_topic_waited_ms(const struct topic *topic);
uint64_t __wrap_topic_waited_ms(const struct topic *topic)
{
	return frames_stand_still ? 60000 : __real_topic_waited_ms(topic);
}

/* ---- The cluster ---------------------------------------------------------------------------------- */

static rd_kafka_t *make_producer(const char *brokers)
{
	rd_kafka_conf_t *conf = rd_kafka_conf_new();
	char why[256];

	if (brokers && rd_kafka_conf_set(conf, "bootstrap.servers", brokers, why, sizeof(why)))
		fail_msg("%s", why);
	return rd_kafka_new(RD_KAFKA_PRODUCER, conf, why, sizeof(why));
}

static int begin(void **state)
{
	(void)state;
	handle = make_producer(NULL);
	cluster = rd_kafka_mock_cluster_new(handle, 1);
	if (!cluster)
		return -1;
	producer = make_producer(rd_kafka_mock_cluster_bootstraps(cluster));
	maker_init(&beginning);
	maker_hello(&beginning, 1, 7);
	maker_catalog(&beginning);
	return producer ? 0 : -1;
}

static int end(void **state)
{
	(void)state;
	rd_kafka_destroy(producer);
	rd_kafka_mock_cluster_destroy(cluster);
	rd_kafka_destroy(handle);
	maker_fini(&beginning);
	return 0;
}

static int setup(void **state)
{
	static unsigned tests;
	char name[KAFKA_TOPIC_BYTES];

	(void)state;
	snprintf(prefix, sizeof(prefix), "stale%u", ++tests);
	settings = (struct kafka_settings){ .brokers = rd_kafka_mock_cluster_bootstraps(cluster), .prefix = prefix };
	for (enum kafka_topic topic = 0; topic < KAFKA_TOPICS; topic++) {
		kafka_topic_name(&settings, topic, name);
		if (rd_kafka_mock_topic_create(cluster, name, topic == KAFKA_RUNS ? 1 : FRAMES_PARTITIONS, 1))
			return -1;
	}
	frames_stand_still = comes_back = false;
	stop = 0;
	topics_read = 0;
	fill();
	return 0;
}

/* What stale_run() returns. */
static int judge(bool deletes, const char *host)
{
	const struct stale_wanted wanted = {
		.host = &host,
		.hosts = host != NULL,
		.now_ms = NOW_MS,
		.patience_ms = 30000,
		.deletes = deletes,
	};
	int err;

	memset(&error, 0, sizeof(error));
	err = stale_run(&settings, &wanted, &stop, &ledger, &error);
	assert_int_equal(ledger.records, ledger.named + ledger.recent + ledger.stale);
	return err;
}

static void assert_ledger(uint64_t named, uint64_t recent, uint64_t stale, uint64_t deleted)
{
	assert_int_equal(ledger.named, named);
	assert_int_equal(ledger.recent, recent);
	assert_int_equal(ledger.stale, stale);
	assert_int_equal(ledger.deleted, deleted);
}

/* ---- Tests ---------------------------------------------------------------------------------------- */

static void nothing_is_deleted_unless_that_is_wanted(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(judge(false, NULL), 0);
		assert_ledger(1, 1, 2, 0);
	}
}

static void note_host(void *context, const char *host)
{
	strcat(context, host);
	strcat(context, ";");
}

static void what_no_frame_names_is_deleted(void **state)
{
	char hosts[64] = "";
	struct runs *runs;

	(void)state;
	announce("db-2", 1, 9, OLD_MS);
	flush();
	assert_int_equal(judge(true, "db-*"), 0);
	assert_ledger(0, 0, 1, 1);
	assert_int_equal(judge(true, NULL), 0);
	assert_ledger(1, 1, 2, 2);
	assert_int_equal(judge(true, NULL), 0);
	assert_ledger(1, 1, 0, 0);
	/* A host of which nothing is left is none that a reader lists. */
	assert_int_equal(runs_open(&settings, NULL, 0, &runs, &error), 0);
	runs_each_host(runs, note_host, hosts);
	assert_string_equal(hosts, "web-1;");
	runs_close(runs);
}

/* Its frames come behind the record that is new. */
static void a_run_that_comes_back_meanwhile_is_not_deleted(void **state)
{
	(void)state;
	comes_back = true;
	assert_int_equal(judge(true, NULL), 0);
	assert_ledger(1, 2, 1, 1);
	comes_back = false;
	assert_int_equal(judge(false, NULL), 0);
	assert_ledger(1, 2, 0, 0);
}

static void nothing_is_deleted_where_not_all_was_read(void **state)
{
	(void)state;
	frames_stand_still = true;
	assert_int_equal(judge(true, NULL), -ETIMEDOUT);
	assert_string_equal(error.code, "partition-still");
	assert_int_equal(ledger.deleted, 0);
	frames_stand_still = false;
	stop = 1;
	assert_int_equal(judge(true, NULL), -EINTR);
	assert_int_equal(ledger.deleted, 0);
	stop = 0;
	assert_int_equal(judge(false, NULL), 0);
	assert_ledger(1, 1, 2, 0);
}

/* Frames are read only where there is something to judge. */
static void of_no_hosts_no_frame_is_read(void **state)
{
	(void)state;
	assert_int_equal(judge(true, "mail-*"), 0);
	assert_ledger(0, 0, 0, 0);
	assert_int_equal(topics_read, 1);
}

static void what_kafka_does_not_delete_is_told(void **state)
{
	enum { PRODUCE = 0 };		/* Kafka's number of that request */

	(void)state;
	rd_kafka_mock_push_request_errors(cluster, PRODUCE, 1, RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED);
	assert_int_equal(judge(true, NULL), -EIO);
	assert_string_equal(error.code, "not-deleted");
	assert_int_equal(ledger.deleted, 0);
	assert_int_equal(judge(false, NULL), 0);
	assert_ledger(1, 1, 2, 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup(name, setup)
	const struct CMUnitTest tests[] = {
		TEST(nothing_is_deleted_unless_that_is_wanted),
		TEST(what_no_frame_names_is_deleted),
		TEST(a_run_that_comes_back_meanwhile_is_not_deleted),
		TEST(nothing_is_deleted_where_not_all_was_read),
		TEST(of_no_hosts_no_frame_is_read),
		TEST(what_kafka_does_not_delete_is_told),
	};

	alarm(300);			/* a test that hangs must end */
	return cmocka_run_group_tests(tests, begin, end);
}
