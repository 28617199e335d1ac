#include "courier/topic.h"

#include <errno.h>
#include <stdlib.h>

#include "client/lib/failure.h"

struct topic {
	rd_kafka_t *handle;
	char name[KAFKA_TOPIC_BYTES];
	unsigned partitions, at_end;
	bool *ended;			/* of each partition */
	rd_kafka_message_t *record;	/* that was given out */
};

static int kafka_failed(struct ringtail_error *error, const char *name, rd_kafka_resp_err_t why)
{
	return failure_set(error, EIO, "kafka-failed", "cannot read %s: %s", name, rd_kafka_err2str(why));
}

static int open_handle(struct topic *topic, const struct kafka_settings *settings, struct ringtail_error *error)
{
	static const struct {
		const char *name, *value;
	} rows[] = {
		{ "group.id", "ringtail-kafka" },	/* nothing is committed: the reader keeps its own place */
		{ "enable.auto.commit", "false" },
		{ "enable.partition.eof", "true" },
		{ "auto.offset.reset", "earliest" },	/* retention has passed us: the rest, behind a hole */
		{ "allow.auto.create.topics", "false" },
		{ "check.crcs", "true" },
		{ "fetch.wait.max.ms", "100" },
		{ "queued.max.messages.kbytes", "16384" },
		{ "fetch.message.max.bytes", "2097152" },
	};
	rd_kafka_conf_t *conf;
	char why[256];
	int err = kafka_configure(settings, "ringtail-kafka", &conf, error);

	if (err)
		return err;
	for (size_t i = 0; !err && i < sizeof(rows) / sizeof(*rows); i++)
		err = kafka_set(conf, rows[i].name, rows[i].value, error);
	if (!err) {
		topic->handle = rd_kafka_new(RD_KAFKA_CONSUMER, conf, why, sizeof(why));
		if (!topic->handle)
			err = failure_set(error, EINVAL, "kafka-config", "librdkafka makes no consumer: %s", why);
	}
	if (err)
		rd_kafka_conf_destroy(conf);
	else
		rd_kafka_poll_set_consumer(topic->handle);
	return err;
}

static int assign(struct topic *topic, enum topic_begin begin, int64_t realtime_ms, struct ringtail_error *error)
{
	rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new((int)topic->partitions);
	rd_kafka_resp_err_t why = RD_KAFKA_RESP_ERR_NO_ERROR;
	int64_t low;

	for (unsigned i = 0; i < topic->partitions; i++) {
		rd_kafka_topic_partition_t *at = rd_kafka_topic_partition_list_add(list, topic->name, (int32_t)i);

		at->offset = begin == TOPIC_TIME ? realtime_ms : RD_KAFKA_OFFSET_BEGINNING;
		/* The end as it is now, not when librdkafka comes to ask for it. */
		if (begin == TOPIC_NEW && !why)
			why = rd_kafka_query_watermark_offsets(topic->handle, topic->name, (int32_t)i, &low,
							       &at->offset, REACH_TIMEOUT_MS);
	}
	if (begin == TOPIC_TIME)
		why = rd_kafka_offsets_for_times(topic->handle, list, REACH_TIMEOUT_MS);
	if (!why)
		why = rd_kafka_assign(topic->handle, list);
	rd_kafka_topic_partition_list_destroy(list);
	return why ? kafka_failed(error, topic->name, why) : 0;
}

int topic_open(const struct kafka_settings *settings, enum kafka_topic which, enum topic_begin begin,
	       int64_t realtime_ms, struct topic **made, struct ringtail_error *error)
{
	struct topic *topic = calloc(1, sizeof(*topic));
	struct kafka_facts facts;
	int err;

	if (!topic)
		return failure_set(error, ENOMEM, "no-memory", "out of memory");
	kafka_topic_name(settings, which, topic->name);
	err = open_handle(topic, settings, error);
	if (!err)
		err = kafka_find_topic(topic->handle, settings, which, &facts, error);
	if (!err) {
		topic->partitions = facts.partitions;
		topic->ended = calloc(topic->partitions, sizeof(*topic->ended));
		err = topic->ended ? assign(topic, begin, realtime_ms, error) :
				     failure_set(error, ENOMEM, "no-memory", "out of memory");
	}
	if (err)
		topic_close(topic);
	else
		*made = topic;
	return err;
}

void topic_close(struct topic *topic)
{
	if (!topic)
		return;
	if (topic->record)
		rd_kafka_message_destroy(topic->record);
	if (topic->handle) {
		rd_kafka_consumer_close(topic->handle);
		rd_kafka_destroy(topic->handle);
	}
	free(topic->ended);
	free(topic);
}

/* Brokers come back by themselves; what does not pass by itself ends the reading. */
static bool is_passing(rd_kafka_resp_err_t why)
{
	return why == RD_KAFKA_RESP_ERR__TRANSPORT || why == RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN ||
	       why == RD_KAFKA_RESP_ERR__TIMED_OUT || why == RD_KAFKA_RESP_ERR__RESOLVE ||
	       why == RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION || why == RD_KAFKA_RESP_ERR_LEADER_NOT_AVAILABLE;
}

enum topic_next topic_next(struct topic *topic, int timeout_ms, const rd_kafka_message_t **record,
			   struct ringtail_error *error)
{
	if (topic->record)
		rd_kafka_message_destroy(topic->record);
	topic->record = rd_kafka_consumer_poll(topic->handle, timeout_ms);
	if (!topic->record)
		return TOPIC_TIMEOUT;
	*record = topic->record;
	if (!topic->record->err)
		return TOPIC_RECORD;
	if (topic->record->err == RD_KAFKA_RESP_ERR__PARTITION_EOF &&
	    (unsigned)topic->record->partition < topic->partitions) {
		topic->at_end += !topic->ended[topic->record->partition];
		topic->ended[topic->record->partition] = true;
		return topic->at_end == topic->partitions ? TOPIC_END : TOPIC_TIMEOUT;
	}
	if (is_passing(topic->record->err))
		return TOPIC_TIMEOUT;
	kafka_failed(error, topic->name, topic->record->err);
	return TOPIC_FAILED;
}
