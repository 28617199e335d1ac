/* topic: where its end is, whatever order its partitions end in, and however often; the records are the test's own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "courier/topic.h"

#define PARTITIONS	3u

static rd_kafka_message_t message;
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
	(void)handle, (void)timeout_ms;
	return &message;
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

static struct topic *open_topic(void)
{
	static const struct kafka_settings settings = { .brokers = "127.0.0.1:1", .prefix = "test" };
	struct topic *topic;

	assert_int_equal(topic_open(&settings, KAFKA_FRAMES, TOPIC_ALL, 0, &topic, &error), 0);
	return topic;
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_end_is_that_of_all_partitions),
		cmocka_unit_test(what_passes_by_itself_is_waited_for),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
