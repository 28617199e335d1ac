/*
 * runs: what a reader knows of each run, from records of any kind: the newest of a key counts, and is all that its key
 * takes; of more than a reader can hold it says so. The topic is the test's own.
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

#include "courier/limits.h"
#include "courier/runs.h"
#include "courier/topic.h"
#include "proto/frame.h"
#include "tests/unit/client/maker.h"

#define HOST "web-1"
/* Records of 1 MiB that come to twice what a reader can hold, and as many small ones as it can. ASan sees the same code
 * in each; what is more than a reader can hold, it sees in full. */
#ifdef __SANITIZE_ADDRESS__
#define LARGE_RECORDS 32u
#define SMALL_RECORDS 4096u
#else
#define LARGE_RECORDS (2 * RUNS_BYTES_MAX / FRAME_RAW_BYTES_MAX)
#define SMALL_RECORDS RUNS_MAX
#endif

/* ---- The topic --------------------------------------------------------------------------------- */

static struct {
	unsigned records, given;	/* in all, and so many were read */
	void (*record)(unsigned i, rd_kafka_message_t *record);
	rd_kafka_message_t message;
} topic;

/* As it is, or so much later each time that it is asked for. */
static uint64_t now_ns, step_ns;

uint64_t __real_conn_now_ns(void);
uint64_t __wrap_conn_now_ns(void);
uint64_t __wrap_conn_now_ns(void)
{
	now_ns += step_ns;
	return step_ns ? now_ns : __real_conn_now_ns();
}

static unsigned waits;		/* how often the topic was waited for */

int __wrap_topic_open(const struct kafka_settings *settings, const struct topic_wanted *wanted,
		      struct topic **made, struct ringtail_error *error);
int __wrap_topic_open(const struct kafka_settings *settings, const struct topic_wanted *wanted,
		      struct topic **made, struct ringtail_error *error)
{
	(void)settings, (void)error;
	assert_int_equal(wanted->which, KAFKA_RUNS);
	assert_int_equal(wanted->begin, TOPIC_ALL);
	assert_false(wanted->to_end);		/* runs may come later */
	*made = (struct topic *)&topic;
	return 0;
}

void __wrap_topic_close(struct topic *closed);
void __wrap_topic_close(struct topic *closed)
{
	assert_ptr_equal(closed, &topic);
}

enum topic_next __wrap_topic_next(struct topic *of, int timeout_ms, const rd_kafka_message_t **record,
				  struct ringtail_error *error);
enum topic_next __wrap_topic_next(struct topic *of, int timeout_ms, const rd_kafka_message_t **record,
				  struct ringtail_error *error)
{
	(void)of, (void)error;
	waits += timeout_ms != 0;
	if (topic.given == topic.records)
		return TOPIC_END;
	memset(&topic.message, 0, sizeof(topic.message));
	topic.record(topic.given++, &topic.message);
	*record = &topic.message;
	return TOPIC_RECORD;
}

/* ---- Records ----------------------------------------------------------------------------------- */

static const uint8_t boot[16] = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16 };
static struct maker beginning;
static char key[PARCEL_KEY_BYTES_MAX];
static struct ringtail_error error;

static struct parcel_label label_of(uint64_t epoch)
{
	struct parcel_label label = { .type = FRAME_SERVER_HELLO, .catalog = 9 };

	memcpy(label.run.boot_id, boot, sizeof(boot));
	label.run.epoch = epoch;
	return label;
}

static void set_key(rd_kafka_message_t *record, const char *host, uint64_t epoch)
{
	const struct parcel parcel = { .topic = KAFKA_RUNS, .label = label_of(epoch) };

	record->key = key;
	record->key_len = parcel_key(&parcel, host, key);
}

/* A run's hello, and a catalog that decodes its frames. */
static void set_value(rd_kafka_message_t *record, uint64_t epoch)
{
	beginning.size = 0;
	maker_hello(&beginning, 1, epoch);
	maker_catalog(&beginning);
	record->payload = beginning.bytes;
	record->len = beginning.size;
}

static int open_runs(unsigned records, void (*record)(unsigned i, rd_kafka_message_t *record), struct runs **runs)
{
	topic.records = records;
	topic.given = 0;
	topic.record = record;
	memset(&error, 0, sizeof(error));
	return runs_open(NULL, NULL, 0, runs, &error);
}

static uint8_t large[FRAME_RAW_BYTES_MAX - 4096];	/* that no compression makes smaller */

static int setup(void **state)
{
	(void)state;
	maker_init(&beginning);
	srandom(1);
	for (size_t i = 0; i < sizeof(large); i++)
		large[i] = (uint8_t)random();
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	maker_fini(&beginning);
	return 0;
}

/* ---- Tests ------------------------------------------------------------------------------------- */

/* A run whose catalog has 1 MiB, nearly: the n-th such one. Its body is not looked at here. */
static void set_large(rd_kafka_message_t *record, unsigned n)
{
	if (!beginning.size) {
		maker_hello(&beginning, 1, 7);
		maker_raw(&beginning, FRAME_CATALOG, large, sizeof(large));
	}
	memcpy(beginning.bytes + beginning.size - sizeof(n), &n, sizeof(n));
	record->payload = beginning.bytes;
	record->len = beginning.size;
}

static void large_of_one_key(unsigned i, rd_kafka_message_t *record)
{
	set_key(record, HOST, 7);
	set_large(record, i);
}

/* Before Kafka has compacted it, a topic has what was replaced, too. */
static void what_was_replaced_takes_no_room(void **state)
{
	struct runs *runs;

	(void)state;
	assert_int_equal(open_runs(LARGE_RECORDS, large_of_one_key, &runs), 0);
	runs_close(runs);
}

/* So it is with the hello. */
static void large_hello_of_one_key(unsigned i, rd_kafka_message_t *record)
{
	set_key(record, HOST, 7);
	if (!beginning.size) {
		maker_raw(&beginning, FRAME_SERVER_HELLO, large, sizeof(large));
		maker_catalog(&beginning);
	}
	(void)i;
	record->payload = beginning.bytes;
	record->len = beginning.size;
}

static void a_hello_that_was_replaced_takes_no_room(void **state)
{
	struct runs *runs;

	(void)state;
	assert_int_equal(open_runs(LARGE_RECORDS, large_hello_of_one_key, &runs), 0);
	runs_close(runs);
}

static const char *large_host(unsigned i)
{
	static char host[16];

	snprintf(host, sizeof(host), "web-%u", i);
	return host;
}

static void same_of_another_host(unsigned i, rd_kafka_message_t *record)
{
	set_key(record, large_host(i), 7);
	set_large(record, 0);
}

static void other_of_another_host(unsigned i, rd_kafka_message_t *record)
{
	same_of_another_host(i, record);
	set_large(record, i);
}

/* Hosts of the same kernel have the same one. */
static void a_catalog_takes_its_room_once(void **state)
{
	struct parcel_label label = label_of(7);
	struct runs_beginning found;
	struct runs *runs;

	(void)state;
	assert_int_equal(open_runs(LARGE_RECORDS, same_of_another_host, &runs), 0);
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(runs_find(runs, large_host(i ? LARGE_RECORDS - 1 : 0), &label, &found, &error), 0);
		assert_int_equal(found.hello_bytes + found.catalog_bytes, beginning.size);
		assert_memory_equal(found.hello, beginning.bytes, found.hello_bytes);
		assert_memory_equal(found.catalog, beginning.bytes + found.hello_bytes, found.catalog_bytes);
	}
	runs_close(runs);
	assert_int_equal(open_runs(2 * RUNS_BYTES_MAX / FRAME_RAW_BYTES_MAX, other_of_another_host, &runs), -E2BIG);
	assert_string_equal(error.code, "too-many-runs");
}

/* Each is deleted before the next comes. */
static void other_and_its_tombstone(unsigned i, rd_kafka_message_t *record)
{
	other_of_another_host(i / 2, record);
	if (i % 2 == 0)
		return;
	record->payload = NULL;
	record->len = 0;
}

static void what_is_deleted_takes_no_room(void **state)
{
	struct parcel_label label = label_of(7);
	struct runs_beginning found;
	struct runs *runs;

	(void)state;
	assert_int_equal(open_runs(2 * LARGE_RECORDS - 1, other_and_its_tombstone, &runs), 0);
	/* The last, which has none behind it. */
	assert_int_equal(runs_find(runs, large_host(LARGE_RECORDS - 1), &label, &found, &error), 0);
	runs_close(runs);
}

static void small_of_another_key(unsigned i, rd_kafka_message_t *record)
{
	set_key(record, HOST, i);
	if (!beginning.size)
		set_value(record, 7);
	record->payload = beginning.bytes;
	record->len = beginning.size;
}

static void small_and_its_tombstone(unsigned i, rd_kafka_message_t *record)
{
	small_of_another_key(i / 2, record);
	if (i % 2)
		record->payload = NULL;
}

static void what_is_deleted_is_no_run(void **state)
{
	struct runs *runs;

	(void)state;
	assert_int_equal(open_runs(2 * (SMALL_RECORDS + 1), small_and_its_tombstone, &runs), 0);
	runs_close(runs);
}

static void so_many_runs_and_no_more(void **state)
{
	struct runs *runs;

	(void)state;
	assert_int_equal(open_runs(SMALL_RECORDS, small_of_another_key, &runs), 0);
	runs_close(runs);
	assert_int_equal(open_runs(RUNS_MAX + 1, small_of_another_key, &runs), -E2BIG);
	assert_string_equal(error.code, "too-many-runs");
}

/* Of run 7 another program's, a deletion, one of a host that cannot be shown, and a whole one; then an older epoch,
 * one that is cut short, and one that begins with something else than a hello. */
static void of_every_kind(unsigned i, rd_kafka_message_t *record)
{
	set_key(record, i == 2 ? "web\n1" : HOST, i == 4 ? 6 : 7);
	set_value(record, i == 4 ? 6 : 7);
	if (i == 0)
		record->key_len = strlen(HOST);
	if (i == 1)
		record->payload = NULL;
	if (i == 5)
		record->len--;
	if (i != 6)
		return;
	beginning.size = 0;
	maker_catalog(&beginning);
	maker_catalog(&beginning);
	record->payload = beginning.bytes;
	record->len = beginning.size;
}

static unsigned hosts;

static void count_host(void *context, const char *host)
{
	(void)context;
	assert_string_equal(host, HOST);
	hosts++;
}

static void what_is_none_of_ours_is_passed_over(void **state)
{
	struct parcel_label label = label_of(7);
	struct runs_beginning found;
	struct runs *runs;

	(void)state;
	assert_int_equal(open_runs(7, of_every_kind, &runs), 0);
	hosts = 0;
	runs_each_host(runs, count_host, NULL);
	assert_int_equal(hosts, 1);
	assert_int_equal(runs_find(runs, HOST, &label, &found, &error), 0);
	beginning.size = 0;
	maker_hello(&beginning, 1, 7);
	assert_int_equal(found.hello_bytes, beginning.size);
	assert_memory_equal(found.hello, beginning.bytes, beginning.size);
	maker_catalog(&beginning);
	assert_int_equal(found.hello_bytes + found.catalog_bytes, beginning.size);
	runs_close(runs);
	/* The first three alone tell of nothing. */
	assert_int_equal(open_runs(3, of_every_kind, &runs), 0);
	hosts = 0;
	runs_each_host(runs, count_host, NULL);
	assert_int_equal(hosts, 0);
	runs_close(runs);
}

/* Each record of a run whose beginning never came would wait for it. */
static void what_was_waited_for_in_vain_is_not_waited_for_again(void **state)
{
	struct parcel_label label = label_of(7);
	struct runs_beginning found;
	struct runs *runs;

	(void)state;
	assert_int_equal(open_runs(0, NULL, &runs), 0);
	step_ns = RUN_WAIT_MS * 1000000ull / 4;
	waits = 0;
	assert_int_not_equal(runs_find(runs, HOST, &label, &found, &error), 0);
	assert_in_range(waits, 2, 4);
	waits = 0;
	assert_int_not_equal(runs_find(runs, HOST, &label, &found, &error), 0);
	assert_int_equal(waits, 0);
	/* It may come later all the same. */
	topic.records = 8;
	topic.given = 7;
	topic.record = large_of_one_key;
	assert_int_equal(runs_find(runs, HOST, &label, &found, &error), 0);
	step_ns = 0;
	runs_close(runs);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(what_was_replaced_takes_no_room),
		TEST(a_hello_that_was_replaced_takes_no_room),
		TEST(a_catalog_takes_its_room_once),
		TEST(what_is_deleted_takes_no_room),
		TEST(what_is_deleted_is_no_run),
		TEST(so_many_runs_and_no_more),
		TEST(what_is_none_of_ours_is_passed_over),
		TEST(what_was_waited_for_in_vain_is_not_waited_for_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
