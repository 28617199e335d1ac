/* topic: where its end is, whatever order its partitions end in, and however often; the records are the test's own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "client/lib/conn.h"
#include "courier/topic.h"

#define PARTITIONS	3u

#define BROKEN		1	/* the partition whose broker does not answer */
#define TIME_MS		5000
#define TIME_OFFSET	50	/* of the first record of that time, in partition 0 */

static rd_kafka_message_t message;
static bool silent;			/* nothing comes, */
static uint64_t now_ns, late_ns;	/* and so much later than was asked for */
static unsigned assigned, paused;	/* partitions, as bits */
static int64_t offset[PARTITIONS];
static int64_t low_offset;		/* of each partition: what was before it is deleted */
static bool later;			/* nothing is left of the time that was asked for */
static struct ringtail_error error;

int __wrap_kafka_find_topic(rd_kafka_t *handle, const struct kafka_settings *settings, enum kafka_topic topic,
			    struct kafka_facts *facts, struct ringtail_error *why);
int __wrap_kafka_find_topic(rd_kafka_t *handle, const struct kafka_settings *settings, enum kafka_topic topic,
			    struct kafka_facts *facts, struct ringtail_error *why)
{
	(void)handle, (void)settings, (void)topic, (void)why;
	*facts = (struct kafka_facts){ .partitions = PARTITIONS };
	return 0;
}

rd_kafka_message_t *__wrap_rd_kafka_consumer_poll(rd_kafka_t *handle, int timeout_ms);
rd_kafka_message_t *__wrap_rd_kafka_consumer_poll(rd_kafka_t *handle, int timeout_ms)
{
	(void)handle;
	if (!silent)
		return &message;
	now_ns += (uint64_t)timeout_ms * 1000000u + late_ns;
	return NULL;
}

uint64_t __wrap_conn_now_ns(void);
uint64_t __wrap_conn_now_ns(void)
{
	return now_ns;
}

rd_kafka_resp_err_t __wrap_rd_kafka_pause_partitions(rd_kafka_t *handle, rd_kafka_topic_partition_list_t *list);
rd_kafka_resp_err_t __wrap_rd_kafka_pause_partitions(rd_kafka_t *handle, rd_kafka_topic_partition_list_t *list)
{
	(void)handle;
	assert_int_equal(list->cnt, 1);
	paused |= 1u << list->elems[0].partition;
	return RD_KAFKA_RESP_ERR_NO_ERROR;
}

rd_kafka_resp_err_t __wrap_rd_kafka_assign(rd_kafka_t *handle, const rd_kafka_topic_partition_list_t *list);
rd_kafka_resp_err_t __wrap_rd_kafka_assign(rd_kafka_t *handle, const rd_kafka_topic_partition_list_t *list)
{
	(void)handle;
	assigned = 0;
	for (int i = 0; list && i < list->cnt; i++) {
		assigned |= 1u << list->elems[i].partition;
		offset[list->elems[i].partition] = list->elems[i].offset;
	}
	return RD_KAFKA_RESP_ERR_NO_ERROR;
}

rd_kafka_resp_err_t __wrap_rd_kafka_query_watermark_offsets(rd_kafka_t *handle, const char *topic, int32_t partition,
							    int64_t *low, int64_t *high, int timeout_ms);
rd_kafka_resp_err_t __wrap_rd_kafka_query_watermark_offsets(rd_kafka_t *handle, const char *topic, int32_t partition,
							    int64_t *low, int64_t *high, int timeout_ms)
{
	(void)handle, (void)topic, (void)timeout_ms;
	*low = low_offset;
	*high = 100 + partition;
	return partition == BROKEN ? RD_KAFKA_RESP_ERR__TRANSPORT : RD_KAFKA_RESP_ERR_NO_ERROR;
}

rd_kafka_resp_err_t __wrap_rd_kafka_offsets_for_times(rd_kafka_t *handle, rd_kafka_topic_partition_list_t *list,
						      int timeout_ms);
rd_kafka_resp_err_t __wrap_rd_kafka_offsets_for_times(rd_kafka_t *handle, rd_kafka_topic_partition_list_t *list,
						      int timeout_ms)
{
	(void)handle, (void)timeout_ms;
	assert_int_equal(list->elems[0].offset, TIME_MS);
	if (list->elems[0].partition == BROKEN)
		return RD_KAFKA_RESP_ERR__TIMED_OUT;
	list->elems[0].offset = later ? RD_KAFKA_OFFSET_END : TIME_OFFSET + list->elems[0].partition;
	return RD_KAFKA_RESP_ERR_NO_ERROR;
}

void __wrap_rd_kafka_message_destroy(rd_kafka_message_t *destroyed);
void __wrap_rd_kafka_message_destroy(rd_kafka_message_t *destroyed)
{
	assert_ptr_equal(destroyed, &message);
}

static enum topic_next comes(struct topic *topic, rd_kafka_resp_err_t err, int32_t partition)
{
	const rd_kafka_message_t *record;

	message.err = err;
	message.partition = partition;
	return topic_next(topic, 0, &record, &error);
}

static struct topic *open_wanted(struct topic_wanted wanted)
{
	static const struct kafka_settings settings = { .brokers = "127.0.0.1:1", .prefix = "test" };
	struct topic *topic;

	assert_int_equal(topic_open(&settings, &wanted, &topic, &error), 0);
	return topic;
}

static struct topic *open_topic(void)
{
	return open_wanted((struct topic_wanted){ .which = KAFKA_FRAMES });
}

static void the_end_is_that_of_all_partitions(void **state)
{
	struct topic *topic = open_topic();

	(void)state;
	assert_int_equal(comes(topic, RD_KAFKA_RESP_ERR__PARTITION_EOF, 2), TOPIC_TIMEOUT);
	assert_int_equal(comes(topic, RD_KAFKA_RESP_ERR_NO_ERROR, 2), TOPIC_RECORD);
	/* It had more meanwhile, and ends again: the others have not. */
	assert_int_equal(comes(topic, RD_KAFKA_RESP_ERR__PARTITION_EOF, 2), TOPIC_TIMEOUT);
	assert_int_equal(comes(topic, RD_KAFKA_RESP_ERR__PARTITION_EOF, 2), TOPIC_TIMEOUT);
	assert_int_equal(comes(topic, RD_KAFKA_RESP_ERR__PARTITION_EOF, 0), TOPIC_TIMEOUT);
	assert_int_equal(comes(topic, RD_KAFKA_RESP_ERR_NO_ERROR, 1), TOPIC_RECORD);
	assert_int_equal(comes(topic, RD_KAFKA_RESP_ERR__PARTITION_EOF, 1), TOPIC_END);
	topic_close(topic);
}

static void what_passes_by_itself_is_waited_for(void **state)
{
	struct topic *topic = open_topic();

	(void)state;
	assert_int_equal(comes(topic, RD_KAFKA_RESP_ERR__TRANSPORT, 0), TOPIC_TIMEOUT);
	assert_int_equal(comes(topic, RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION, 0), TOPIC_TIMEOUT);
	assert_int_equal(comes(topic, RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED, 0), TOPIC_FAILED);
	assert_string_equal(error.code, "kafka-failed");
	topic_close(topic);
}

/* A reader of one host waits for its partition alone. */
static void a_key_is_in_one_partition(void **state)
{
	struct topic *topic = open_wanted((struct topic_wanted){ .which = KAFKA_FRAMES, .key = "web-1" });
	int32_t partition = topic_partition_of(topic, "web-1");

	(void)state;
	assert_int_equal(assigned, 1u << partition);
	assert_int_equal(comes(topic, RD_KAFKA_RESP_ERR_NO_ERROR, partition), TOPIC_RECORD);
	assert_true(topic_is_open(topic, partition));
	assert_int_equal(comes(topic, RD_KAFKA_RESP_ERR__PARTITION_EOF, partition), TOPIC_END);
	for (int32_t i = 0; i < (int32_t)PARTITIONS; i++)
		assert_false(topic_is_open(topic, i));
	topic_close(topic);
}

static void a_broker_that_does_not_answer_stops_no_other(void **state)
{
	struct topic *topic = open_wanted((struct topic_wanted){ .begin = TOPIC_NEW });

	(void)state;
	assert_int_equal(assigned, 7);
	assert_int_equal(offset[0], 100);
	assert_int_equal(offset[BROKEN], RD_KAFKA_OFFSET_END);
	assert_int_equal(offset[2], 102);
	topic_close(topic);
	topic = open_wanted((struct topic_wanted){ .begin = TOPIC_TIME, .realtime_ms = TIME_MS });
	assert_int_equal(offset[0], 50);
	assert_int_equal(offset[BROKEN], RD_KAFKA_OFFSET_BEGINNING);
	assert_int_equal(offset[2], 52);
	topic_close(topic);
}

/* The oldest record that there is comes first: perhaps there was one before it. */
static void what_retention_has_deleted_is_known(void **state)
{
	const struct topic_wanted of_time = { .begin = TOPIC_TIME, .realtime_ms = TIME_MS };
	static const struct {
		int64_t low;
		bool later, cut0, cut2;
	} rows[] = {
		{ 0, false, false, false },
		{ TIME_OFFSET - 1, false, false, false },
		{ TIME_OFFSET, false, true, false },
		{ TIME_OFFSET + 1, false, true, false },	/* deleted meanwhile */
		{ TIME_OFFSET + 2, false, true, true },
		{ 99, true, false, false },			/* nothing is newer, and something is older */
		{ 100, true, true, false },			/* of partition 0 nothing at all is left */
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct topic *topic;

		low_offset = rows[i].low;
		later = rows[i].later;
		topic = open_wanted(of_time);
		assert_int_equal(topic_is_cut(topic, 0), rows[i].cut0);
		assert_false(topic_is_cut(topic, BROKEN));
		assert_int_equal(topic_is_cut(topic, 2), rows[i].cut2);
		topic_close(topic);
	}
	later = false;
	low_offset = TIME_OFFSET;
	/* Who asks for no time gets what there is. */
	for (enum topic_begin begin = TOPIC_ALL; begin <= TOPIC_NEW; begin++) {
		struct topic *topic = open_wanted((struct topic_wanted){ .begin = begin });

		assert_false(topic_is_cut(topic, 0));
		topic_close(topic);
	}
	low_offset = 0;
}

/* What others still bring once they have ended makes no difference to one of which nothing comes. */
static void a_partition_that_stands_still_is_noticed(void **state)
{
	struct topic *topic = open_wanted((struct topic_wanted){ .to_end = true });
	const rd_kafka_message_t *record;

	(void)state;
	silent = true;
	assert_int_equal(topic_next(topic, 200, &record, &error), TOPIC_TIMEOUT);
	assert_int_equal(topic_waited_ms(topic), 200);
	/* A reader that was stopped itself has not waited for so long. */
	late_ns = 3600000000000u;
	assert_int_equal(topic_next(topic, 200, &record, &error), TOPIC_TIMEOUT);
	assert_int_equal(topic_waited_ms(topic), 400);
	late_ns = 0;
	silent = false;
	assert_int_equal(comes(topic, RD_KAFKA_RESP_ERR__PARTITION_EOF, 0), TOPIC_TIMEOUT);
	assert_int_equal(topic_waited_ms(topic), 0);
	assert_int_equal(paused, 1);
	silent = true;
	assert_int_equal(topic_next(topic, 200, &record, &error), TOPIC_TIMEOUT);
	silent = false;
	assert_int_equal(comes(topic, RD_KAFKA_RESP_ERR_NO_ERROR, 0), TOPIC_RECORD);
	assert_int_equal(topic_waited_ms(topic), 200);
	assert_int_equal(comes(topic, RD_KAFKA_RESP_ERR_NO_ERROR, 1), TOPIC_RECORD);
	assert_int_equal(topic_waited_ms(topic), 0);
	assert_false(topic_is_open(topic, 0));
	assert_true(topic_is_open(topic, 1));
	assert_true(topic_is_open(topic, 2));
	topic_close(topic);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_end_is_that_of_all_partitions),
		cmocka_unit_test(what_passes_by_itself_is_waited_for),
		cmocka_unit_test(a_key_is_in_one_partition),
		cmocka_unit_test(a_broker_that_does_not_answer_stops_no_other),
		cmocka_unit_test(what_retention_has_deleted_is_known),
		cmocka_unit_test(a_partition_that_stands_still_is_noticed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
