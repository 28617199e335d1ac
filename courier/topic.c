#include "courier/topic.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "client/lib/conn.h"
#include "client/lib/failure.h"

#define ASK_AGAIN_TIMEOUT_MS 1000	/* of the next broker, when one has not answered */

enum partition_state {
	PARTITION_UNREAD,		/* it is another key's */
	PARTITION_OPEN,
	PARTITION_ENDED,		/* once, at least */
};

struct topic {
	rd_kafka_t *handle;
	char name[KAFKA_TOPIC_BYTES];
	struct topic_wanted wanted;
	unsigned partitions, open;
	enum partition_state *state;	/* of each partition */
	bool *cut;			/* of each partition: topic_is_cut() */
	uint64_t waited_ns;
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

/*
 * The first record of that time or later is the oldest that there is, and not the first that there was. Its age does not
 * tell when the one before it was sent. Asked after the offset: what retention deletes in between counts as well.
 */
static bool is_cut(struct topic *topic, int32_t partition, int64_t offset, int *timeout_ms)
{
	int64_t low, high;

	if (rd_kafka_query_watermark_offsets(topic->handle, topic->name, partition, &low, &high, *timeout_ms)) {
		*timeout_ms = ASK_AGAIN_TIMEOUT_MS;
		return false;
	}
	return low > 0 && (offset < 0 ? low == high : offset <= low);
}

/*
 * Where a partition begins. Of one whose broker does not tell: with its oldest record, as what is older than the time
 * that was asked for is passed over by its readers; or, of what comes from now on, where its end is found.
 */
static int64_t find_begin(struct topic *topic, int32_t partition, int *timeout_ms)
{
	rd_kafka_topic_partition_list_t *list;
	rd_kafka_resp_err_t why;
	int64_t low, offset;

	if (topic->wanted.begin == TOPIC_ALL)
		return RD_KAFKA_OFFSET_BEGINNING;
	if (topic->wanted.begin == TOPIC_NEW) {
		/* The end as it is now, not when librdkafka comes to ask for it. */
		why = rd_kafka_query_watermark_offsets(topic->handle, topic->name, partition, &low, &offset,
						       *timeout_ms);
		if (!why)
			return offset;
		*timeout_ms = ASK_AGAIN_TIMEOUT_MS;
		return RD_KAFKA_OFFSET_END;
	}
	list = rd_kafka_topic_partition_list_new(1);
	rd_kafka_topic_partition_list_add(list, topic->name, partition)->offset = topic->wanted.realtime_ms;
	why = rd_kafka_offsets_for_times(topic->handle, list, *timeout_ms);
	why = why ? why : list->elems[0].err;
	offset = list->elems[0].offset;
	rd_kafka_topic_partition_list_destroy(list);
	if (!why) {
		topic->cut[partition] = is_cut(topic, partition, offset, timeout_ms);
		return offset;
	}
	*timeout_ms = ASK_AGAIN_TIMEOUT_MS;
	return RD_KAFKA_OFFSET_BEGINNING;
}

static int assign(struct topic *topic, struct ringtail_error *error)
{
	rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new((int)topic->partitions);
	int32_t only = topic->wanted.key ? topic_partition_of(topic, topic->wanted.key) : -1;
	int timeout_ms = REACH_TIMEOUT_MS;
	rd_kafka_resp_err_t why;

	for (int32_t i = 0; i < (int32_t)topic->partitions; i++) {
		if (only >= 0 && i != only)
			continue;
		rd_kafka_topic_partition_list_add(list, topic->name, i)->offset = find_begin(topic, i, &timeout_ms);
		topic->state[i] = PARTITION_OPEN;
		topic->open++;
	}
	why = rd_kafka_assign(topic->handle, list);
	rd_kafka_topic_partition_list_destroy(list);
	return why ? kafka_failed(error, topic->name, why) : 0;
}

int topic_open(const struct kafka_settings *settings, const struct topic_wanted *wanted, struct topic **made,
	       struct ringtail_error *error)
{
	struct topic *topic = calloc(1, sizeof(*topic));
	struct kafka_facts facts;
	int err;

	if (!topic)
		return failure_set(error, ENOMEM, "no-memory", "out of memory");
	topic->wanted = *wanted;
	kafka_topic_name(settings, wanted->which, topic->name);
	err = open_handle(topic, settings, error);
	if (!err)
		err = kafka_find_topic(topic->handle, settings, wanted->which, &facts, error);
	if (!err) {
		topic->partitions = facts.partitions;
		topic->state = calloc(topic->partitions, sizeof(*topic->state));
		topic->cut = calloc(topic->partitions, sizeof(*topic->cut));
		err = topic->state && topic->cut ? assign(topic, error) :
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
	free(topic->state);
	free(topic->cut);
	free(topic);
}

/* Brokers come back by themselves; what does not pass by itself ends the reading. */
static bool is_passing(rd_kafka_resp_err_t why)
{
	return why == RD_KAFKA_RESP_ERR__TRANSPORT || why == RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN ||
	       why == RD_KAFKA_RESP_ERR__TIMED_OUT || why == RD_KAFKA_RESP_ERR__RESOLVE ||
	       why == RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION || why == RD_KAFKA_RESP_ERR_LEADER_NOT_AVAILABLE;
}

unsigned topic_partitions(const struct topic *topic)
{
	return topic->partitions;
}

int32_t topic_partition_of(const struct topic *topic, const char *key)
{
	return rd_kafka_msg_partitioner_murmur2(NULL, key, strlen(key), (int32_t)topic->partitions, NULL, NULL);
}

bool topic_is_open(const struct topic *topic, int32_t partition)
{
	return topic->state[partition] == PARTITION_OPEN;
}

bool topic_is_cut(const struct topic *topic, int32_t partition)
{
	return topic->cut[partition];
}

uint64_t topic_waited_ms(const struct topic *topic)
{
	return topic->waited_ns / 1000000;
}

/* What comes into it from now on is not asked for. */
static void stop_reading(struct topic *topic, int32_t partition)
{
	rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(1);

	rd_kafka_topic_partition_list_add(list, topic->name, partition);
	rd_kafka_pause_partitions(topic->handle, list);
	rd_kafka_topic_partition_list_destroy(list);
}

static enum topic_next end_partition(struct topic *topic, int32_t partition)
{
	if (topic->state[partition] == PARTITION_OPEN) {
		topic->state[partition] = PARTITION_ENDED;
		topic->open--;
		topic->waited_ns = 0;
	}
	if (topic->wanted.to_end)
		stop_reading(topic, partition);
	return topic->open ? TOPIC_TIMEOUT : TOPIC_END;
}

/* A record that was on its way when its partition was stopped is one more: it is read, and holds nothing up. */
static void note_record(struct topic *topic, int32_t partition)
{
	if ((unsigned)partition < topic->partitions && topic->state[partition] == PARTITION_OPEN)
		topic->waited_ns = 0;
}

/* A reader that stood still itself has not waited for others. */
static void note_silence(struct topic *topic, int timeout_ms, uint64_t began_ns)
{
	uint64_t waited_ns = timeout_ms ? conn_now_ns() - began_ns : 0, most_ns = (uint64_t)timeout_ms * 1000000u;

	topic->waited_ns += waited_ns < most_ns ? waited_ns : most_ns;
}

enum topic_next topic_next(struct topic *topic, int timeout_ms, const rd_kafka_message_t **record,
			   struct ringtail_error *error)
{
	uint64_t began_ns = timeout_ms ? conn_now_ns() : 0;

	if (topic->record)
		rd_kafka_message_destroy(topic->record);
	topic->record = rd_kafka_consumer_poll(topic->handle, timeout_ms);
	if (!topic->record) {
		note_silence(topic, timeout_ms, began_ns);
		return TOPIC_TIMEOUT;
	}
	*record = topic->record;
	if (!topic->record->err) {
		note_record(topic, topic->record->partition);
		return TOPIC_RECORD;
	}
	if (topic->record->err == RD_KAFKA_RESP_ERR__PARTITION_EOF &&
	    (unsigned)topic->record->partition < topic->partitions)
		return end_partition(topic, topic->record->partition);
	if (is_passing(topic->record->err))
		return TOPIC_TIMEOUT;
	kafka_failed(error, topic->name, topic->record->err);
	return TOPIC_FAILED;
}
