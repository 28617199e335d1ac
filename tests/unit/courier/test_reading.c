/*
 * reading: the hosts of a topic whose records are the test's own: which are read, what is said of a partition that
 * stands still and of a host that moved, and the ledgers.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "client/lib/lanes.h"
#include "courier/notice.h"
#include "courier/parcel.h"
#include "courier/reading.h"
#include "courier/topic.h"
#include "tests/unit/client/maker.h"

#define PARTITIONS	4u
#define RECORDS_MAX	32u

static const uint8_t boot[16] = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16 };
static struct maker hello, catalog, frames;
static struct ringtail_error error;
static struct topic_wanted asked;
static char said[4096];			/* by notice() */
static FILE *file;
static sig_atomic_t stop;

/* What lies in the topic: the end stands where each record has come. */
static struct record {
	const char *host;
	int32_t partition;
	size_t at, bytes;		/* in `frames` */
	uint64_t first_seq, end_seq;
	bool foreign;			/* another program's: no headers */
} records[RECORDS_MAX];
static unsigned recorded, given;
static unsigned open_partitions, cut_partitions;	/* bits */
static uint64_t waited_ms;
static rd_kafka_message_t message;
static rd_kafka_headers_t *headers;

/* ---- The topic, and what is known of runs -------------------------------------------------------- */

int __wrap_topic_open(const struct kafka_settings *settings, const struct topic_wanted *wanted, struct topic **made,
		      struct ringtail_error *why);
int __wrap_topic_open(const struct kafka_settings *settings, const struct topic_wanted *wanted, struct topic **made,
		      struct ringtail_error *why)
{
	(void)settings, (void)why;
	asked = *wanted;
	*made = (struct topic *)&records;
	return 0;
}

void __wrap_topic_close(struct topic *topic);
void __wrap_topic_close(struct topic *topic)
{
	(void)topic;
}

unsigned __wrap_topic_partitions(const struct topic *topic);
unsigned __wrap_topic_partitions(const struct topic *topic)
{
	(void)topic;
	return PARTITIONS;
}

/* "web-2" is in partition 2. */
int32_t __wrap_topic_partition_of(const struct topic *topic, const char *key);
int32_t __wrap_topic_partition_of(const struct topic *topic, const char *key)
{
	(void)topic;
	return key[strlen(key) - 1] - '0';
}

bool __wrap_topic_is_open(const struct topic *topic, int32_t partition);
bool __wrap_topic_is_open(const struct topic *topic, int32_t partition)
{
	(void)topic;
	return open_partitions >> partition & 1;
}

bool __wrap_topic_is_cut(const struct topic *topic, int32_t partition);
bool __wrap_topic_is_cut(const struct topic *topic, int32_t partition)
{
	(void)topic;
	return cut_partitions >> partition & 1;
}

uint64_t __wrap_topic_waited_ms(const struct topic *topic);
uint64_t __wrap_topic_waited_ms(const struct topic *topic)
{
	(void)topic;
	return waited_ms;
}

enum topic_next __wrap_topic_next(struct topic *topic, int timeout_ms, const rd_kafka_message_t **record,
				  struct ringtail_error *why);
enum topic_next __wrap_topic_next(struct topic *topic, int timeout_ms, const rd_kafka_message_t **record,
				  struct ringtail_error *why)
{
	const struct record *next = &records[given];

	(void)topic, (void)why;
	if (given == recorded) {
		waited_ms += (uint64_t)timeout_ms;
		return open_partitions ? TOPIC_TIMEOUT : TOPIC_END;
	}
	given++;
	message = (rd_kafka_message_t){
		.partition = next->partition, .key = (void *)next->host, .key_len = strlen(next->host),
		.payload = frames.bytes + next->at, .len = next->bytes,
	};
	*record = &message;
	return TOPIC_RECORD;
}

rd_kafka_resp_err_t __wrap_rd_kafka_message_headers(const rd_kafka_message_t *of, rd_kafka_headers_t **made);
rd_kafka_resp_err_t __wrap_rd_kafka_message_headers(const rd_kafka_message_t *of, rd_kafka_headers_t **made)
{
	const struct record *record = &records[given - 1];
	struct parcel parcel = {
		.label = { .type = FRAME_BATCH, .span = { true, 0, record->first_seq, record->end_seq },
			   .run.epoch = 7 },
	};

	(void)of;
	if (record->foreign)
		return RD_KAFKA_RESP_ERR__NOENT;
	memcpy(parcel.label.run.boot_id, boot, sizeof(boot));
	if (headers)
		rd_kafka_headers_destroy(headers);
	*made = headers = parcel_headers(&parcel);
	return RD_KAFKA_RESP_ERR_NO_ERROR;
}

int __wrap_runs_find(struct runs *runs, const char *host, const struct parcel_label *label,
		     struct runs_beginning *beginning, struct ringtail_error *why);
int __wrap_runs_find(struct runs *runs, const char *host, const struct parcel_label *label,
		     struct runs_beginning *beginning, struct ringtail_error *why)
{
	(void)runs, (void)host, (void)why;
	hello.size = 0;
	maker_hello(&hello, 1, label->run.epoch);
	*beginning = (struct runs_beginning){ hello.bytes, catalog.bytes, hello.size, catalog.size };
	return 0;
}

void __wrap_runs_each_host(const struct runs *runs, void (*each)(void *context, const char *host), void *context);
void __wrap_runs_each_host(const struct runs *runs, void (*each)(void *context, const char *host), void *context)
{
	static const char *const host[] = { "db-1", "web-1", "web-2", "web-3" };

	(void)runs;
	for (size_t i = 0; i < sizeof(host) / sizeof(*host); i++)
		each(context, host[i]);
}

void __wrap_notice(const char *level, const char *code, const char *format, ...);
void __wrap_notice(const char *level, const char *code, const char *format, ...)
{
	size_t used = strlen(said);
	va_list args;

	used += (size_t)snprintf(said + used, sizeof(said) - used, "%s [%s] ", level, code);
	va_start(args, format);
	vsnprintf(said + used, sizeof(said) - used, format, args);
	va_end(args);
}

/* ---- The tests ----------------------------------------------------------------------------------- */

static int setup(void **state)
{
	(void)state;
	maker_init(&hello);
	maker_init(&catalog);
	maker_init(&frames);
	maker_catalog(&catalog);
	file = fdopen(memfd_create("reading", MFD_CLOEXEC), "w+");
	memset(said, 0, sizeof(said));
	recorded = given = open_partitions = cut_partitions = 0;
	waited_ms = 0;
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	fclose(file);
	if (headers)
		rd_kafka_headers_destroy(headers);
	headers = NULL;
	maker_fini(&hello);
	maker_fini(&catalog);
	maker_fini(&frames);
	return 0;
}

static struct record *put(const char *host, int32_t partition, uint64_t first_seq, unsigned events)
{
	struct record *record = &records[recorded++];

	*record = (struct record){ .host = host, .partition = partition, .at = frames.size, .first_seq = first_seq };
	record->end_seq = maker_batch(&frames, 0, first_seq, 1000 + first_seq, 10, events);
	record->bytes = frames.size - record->at;
	return record;
}

static struct reading *read_all(const struct reading_wanted *wanted, int expected)
{
	static const struct kafka_settings settings = { .prefix = "test" };
	struct reading *reading = reading_create(&settings, wanted, NULL, file);

	assert_non_null(reading);
	assert_int_equal(reading_run(reading, &stop, &error), expected);
	return reading;
}

/* What the library makes of it; the lanes are closed by the caller. */
static struct lanes *take_apart(void)
{
	static const struct lanes_wanted everything;
	struct ringtail_item item;
	enum lanes_next next;
	struct lanes *lanes;
	size_t lane;

	lseek(fileno(file), 0, SEEK_SET);
	assert_int_equal(lanes_open(dup(fileno(file)), "lanes", &everything, &lanes, &error), 0);
	while ((next = lanes_next(lanes, 1000, &lane, &error)) == LANES_FRAME)
		while (ringtail_next(lanes_handle(lanes, lane), &item, 0) < RINGTAIL_TIMEOUT)
			;
	assert_int_equal(next, LANES_END);
	for (size_t i = 0; i < lanes_count(lanes); i++) {
		while (ringtail_next(lanes_handle(lanes, i), &item, 0) < RINGTAIL_TIMEOUT)
			;
		assert_int_equal(item.kind, RINGTAIL_END);
		assert_int_equal(ringtail_totals(lanes_handle(lanes, i))->residual, 0);
	}
	return lanes;
}

static void check_ledger(const struct reading *reading, const char *wanted)
{
	char *text;
	size_t bytes;
	FILE *to = open_memstream(&text, &bytes);

	reading_print_ledger(reading, to, true);
	fclose(to);
	assert_string_equal(text, wanted);
	free(text);
}

static void test_hosts_that_match_have_a_lane_each(void **state)
{
	static const char *const glob[] = { "web-*" };
	const struct reading_wanted wanted = { .host = glob, .hosts = 1, .patience_ms = 1000 };
	struct reading *reading;
	struct lanes *lanes;

	(void)state;
	put("web-2", 2, 0, 20);
	put("db-1", 1, 0, 5);
	put("web-1", 1, 0, 10);
	put("web-2", 2, 0, 20);
	put("web-2", 2, 30, 20);
	put("other", 0, 0, 1)->foreign = true;
	reading = read_all(&wanted, 0);
	assert_null(asked.key);
	assert_true(asked.to_end);
	assert_false(reading_is_lossy(reading));
	check_ledger(reading,
		     "{\"host\":\"web-2\",\"records\":3,\"taken\":2,\"duplicate\":1,\"damaged\":0,\"residual\":0,"
		     "\"holes\":1,\"missing\":10}\n"
		     "{\"host\":\"web-1\",\"records\":1,\"taken\":1,\"duplicate\":0,\"damaged\":0,\"residual\":0,"
		     "\"holes\":0,\"missing\":0}\n"
		     "{\"hosts\":2,\"records\":4,\"taken\":3,\"duplicate\":1,\"damaged\":0,\"residual\":0,"
		     "\"holes\":1,\"missing\":10,\"other\":2}\n");
	reading_destroy(reading);
	lanes = take_apart();
	assert_int_equal(lanes_count(lanes), 2);
	assert_string_equal(lanes_host(lanes, 0), "web-2");
	assert_int_equal(ringtail_totals(lanes_handle(lanes, 0))->events, 40);
	assert_int_equal(ringtail_totals(lanes_handle(lanes, 0))->lost, 10);
	assert_int_equal(ringtail_totals(lanes_handle(lanes, 1))->events, 10);
	lanes_close(lanes);
	assert_string_equal(said, "");
}

static void test_one_host_is_a_recording(void **state)
{
	const struct reading_wanted wanted = { .only = "web-1", .patience_ms = 1000 };
	struct ringtail *ringtail;
	struct ringtail_item item;
	struct reading *reading;

	(void)state;
	put("web-1", 1, 0, 10);
	put("web-10", 1, 0, 10);
	reading = read_all(&wanted, 0);
	assert_string_equal(asked.key, "web-1");
	check_ledger(reading, "{\"host\":\"web-1\",\"records\":1,\"taken\":1,\"duplicate\":0,\"damaged\":0,\"residual\":0,"
		     "\"holes\":0,\"missing\":0,\"other\":1}\n");
	reading_destroy(reading);
	lseek(fileno(file), 0, SEEK_SET);
	assert_int_equal(ringtail_open(dup(fileno(file)), "one", false, &ringtail, &error), 0);
	while (ringtail_next(ringtail, &item, 0) < RINGTAIL_TIMEOUT)
		;
	assert_int_equal(item.kind, RINGTAIL_END);
	assert_int_equal(ringtail_totals(ringtail)->events, 10);
	ringtail_close(ringtail);
}

/* Its hosts are named: those that were read in part, and those of which nothing came. */
static void test_a_partition_that_stands_still_is_given_up(void **state)
{
	static const char *const glob[] = { "web-*" };
	struct reading_wanted wanted = { .host = glob, .hosts = 1, .patience_ms = 60000 };
	struct reading *reading;
	struct lanes *lanes;

	(void)state;
	put("web-1", 1, 0, 10);
	put("web-2", 2, 0, 20);
	open_partitions = 1u << 1 | 1u << 3;
	reading = read_all(&wanted, 0);
	assert_in_range(waited_ms, 60000, 61000);
	assert_true(reading_is_lossy(reading));
	reading_destroy(reading);
	assert_non_null(strstr(said, "warning [partition-still] nothing came of partition 1 of test.frames for 60 s"));
	assert_non_null(strstr(said, "what it has of web-1 is missing"));
	assert_non_null(strstr(said, "what it has of web-3 is missing"));
	assert_null(strstr(said, "web-2"));
	assert_null(strstr(said, "db-1"));		/* nobody asked for it */
	lanes = take_apart();
	assert_int_equal(lanes_count(lanes), 2);
	assert_int_equal(ringtail_totals(lanes_handle(lanes, 0))->unknown, 1);
	assert_int_equal(ringtail_totals(lanes_handle(lanes, 0))->cut_short, 0);
	assert_int_equal(ringtail_totals(lanes_handle(lanes, 1))->unknown, 0);
	lanes_close(lanes);
}

/* Of each of its hosts nobody knows how much is gone; of one of which nothing is left, no lane tells. */
static void test_what_retention_has_deleted_is_a_hole(void **state)
{
	static const char *const glob[] = { "web-*" };
	const struct reading_wanted wanted = { .host = glob, .hosts = 1, .patience_ms = 1000, .since_ms = 1000 };
	struct reading *reading;
	struct lanes *lanes;

	(void)state;
	put("web-1", 1, 100, 10);
	put("web-1", 1, 110, 10);
	put("web-2", 2, 0, 20);
	cut_partitions = 1u << 1 | 1u << 3;
	reading = read_all(&wanted, 0);
	assert_int_equal(asked.begin, TOPIC_TIME);
	assert_true(reading_is_lossy(reading));
	reading_destroy(reading);
	assert_non_null(strstr(said, "warning [history-gone]"));
	assert_non_null(strstr(said, "nothing is left of web-3:"));
	assert_null(strstr(said, "web-1"));
	assert_null(strstr(said, "db-1"));
	lanes = take_apart();
	assert_int_equal(lanes_count(lanes), 2);
	assert_int_equal(ringtail_totals(lanes_handle(lanes, 0))->unknown, 1);
	assert_int_equal(ringtail_totals(lanes_handle(lanes, 0))->events, 20);
	assert_int_equal(ringtail_totals(lanes_handle(lanes, 0))->lost, 0);
	assert_int_equal(ringtail_totals(lanes_handle(lanes, 1))->unknown, 0);
	lanes_close(lanes);
}

/* Gaps of no size in what is there of web-1, by who asks for what happened from that time on; its run began at 0. */
static uint64_t gaps_since(uint64_t monotonic_ns)
{
	struct ringtail_item item;
	struct ringtail *ringtail;
	uint64_t gaps;

	lseek(fileno(file), 0, SEEK_SET);
	assert_int_equal(ringtail_open(dup(fileno(file)), "one", false, &ringtail, &error), 0);
	ringtail_set_span(ringtail, MAKER_WALL_NS + monotonic_ns, 0);
	while (ringtail_next(ringtail, &item, 0) < RINGTAIL_TIMEOUT)
		;
	assert_int_equal(item.kind, RINGTAIL_END);
	assert_int_equal(ringtail_totals(ringtail)->residual, 0);
	gaps = ringtail_totals(ringtail)->unknown;
	ringtail_close(ringtail);
	return gaps;
}

/* That a host's run began long before says nothing of what is left of it; the reader's gap comes once. */
static void test_a_run_that_began_early_hides_no_hole(void **state)
{
	const struct reading_wanted wanted = { .only = "web-1", .patience_ms = 1000, .since_ms = 1000 };

	(void)state;
	put("web-1", 1, 100, 10);
	for (unsigned cut = 0; cut < 2; cut++) {
		assert_int_equal(ftruncate(fileno(file), 0), 0);
		rewind(file);
		given = 0;
		cut_partitions = cut << 1;
		reading_destroy(read_all(&wanted, 0));
		assert_int_equal(gaps_since(500), cut);
	}
	/* Before its run began: the library would say so itself. */
	assert_int_equal(gaps_since(-500ull), 1);
}

/* Where none of the hosts is that are asked for, nothing is missing. */
static void test_a_partition_of_others_costs_nothing(void **state)
{
	static const char *const glob[] = { "web-2" };
	const struct reading_wanted wanted = { .host = glob, .hosts = 1, .patience_ms = 60000 };
	struct reading *reading;

	(void)state;
	put("web-2", 2, 0, 20);
	open_partitions = 1u << 0 | 1u << 1;
	reading = read_all(&wanted, 0);
	assert_false(reading_is_lossy(reading));
	assert_string_equal(said, "");
	reading_destroy(reading);
}

static void test_a_host_that_moved_is_said_once(void **state)
{
	const struct reading_wanted wanted = { .patience_ms = 1000 };
	struct reading *reading;

	(void)state;
	put("web-1", 1, 0, 10);
	put("web-1", 3, 10, 10);
	put("web-1", 3, 20, 10);
	reading = read_all(&wanted, 0);
	assert_non_null(strstr(said, "[host-moved] records of web-1 are in the partitions 1 and 3 of test.frames"));
	assert_null(strstr(strstr(said, "[host-moved]") + 1, "[host-moved]"));
	reading_destroy(reading);
}

/* Who is told so reads no more; a full disk is told. */
static void test_an_output_that_fails_ends_it(void **state)
{
	const struct reading_wanted wanted = { .patience_ms = 1000 };
	struct reading *reading;

	(void)state;
	fclose(file);
	file = fopen("/dev/full", "we");
	assert_non_null(file);
	put("web-1", 1, 0, 10);
	reading = read_all(&wanted, -ENOSPC);
	assert_string_equal(error.code, "cannot-write");
	reading_destroy(reading);
}

static void test_a_stop_ends_what_is_followed(void **state)
{
	const struct reading_wanted wanted = { .follow = true, .patience_ms = 1000 };
	struct reading *reading;

	(void)state;
	open_partitions = 1u << 1;
	stop = 1;
	reading = read_all(&wanted, 0);
	assert_false(reading_is_lossy(reading));
	reading_destroy(reading);
	assert_string_equal(said, "");
	assert_int_equal(asked.begin, TOPIC_NEW);
	assert_false(asked.to_end);
	stop = 0;
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_hosts_that_match_have_a_lane_each),
		TEST(test_one_host_is_a_recording),
		TEST(test_a_partition_that_stands_still_is_given_up),
		TEST(test_what_retention_has_deleted_is_a_hole),
		TEST(test_a_run_that_began_early_hides_no_hole),
		TEST(test_a_partition_of_others_costs_nothing),
		TEST(test_a_host_that_moved_is_said_once),
		TEST(test_an_output_that_fails_ends_it),
		TEST(test_a_stop_ends_what_is_followed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
