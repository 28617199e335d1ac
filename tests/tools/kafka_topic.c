/*
 * kafka_topic: a topic of real brokers, without a JVM.
 *	usage: kafka_topic BROKERS create NAME PARTITIONS [KEY=VALUE]...	and waits until each partition has a leader
 *	       kafka_topic BROKERS leader NAME					prints partition 0's
 */
#include <librdkafka/rdkafka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define REPLICAS	3
#define TIMEOUT_MS	30000
#define LOOKS_MAX	300
#define LOOK_US		100000

static int fail(const char *what, const char *why)
{
	fprintf(stderr, "kafka_topic: %s: %s\n", what, why);
	return 1;
}

static int create(rd_kafka_t *handle, const char *name, int partitions, char **pair, int pairs)
{
	rd_kafka_NewTopic_t *topic = rd_kafka_NewTopic_new(name, partitions, REPLICAS, NULL, 0);
	rd_kafka_queue_t *queue = rd_kafka_queue_new(handle);
	const rd_kafka_topic_result_t **result;
	rd_kafka_event_t *event;
	size_t results;
	int status;

	for (int i = 0; i < pairs; i++) {
		char *value = strchr(pair[i], '=');

		if (!value)
			return fail(pair[i], "no KEY=VALUE");
		*value++ = '\0';
		rd_kafka_NewTopic_set_config(topic, pair[i], value);
	}
	rd_kafka_CreateTopics(handle, &topic, 1, NULL, queue);
	event = rd_kafka_queue_poll(queue, TIMEOUT_MS);
	if (!event || rd_kafka_event_error(event))
		return fail("create", event ? rd_kafka_event_error_string(event) : "no answer");
	result = rd_kafka_CreateTopics_result_topics(rd_kafka_event_CreateTopics_result(event), &results);
	status = results == 1 && rd_kafka_topic_result_error(result[0]) ?
			 fail(name, rd_kafka_topic_result_error_string(result[0])) : 0;
	rd_kafka_event_destroy(event);
	rd_kafka_queue_destroy(queue);
	rd_kafka_NewTopic_destroy(topic);
	return status;
}

/* The leader of the first partition, once all partitions have one and all replicas; -1: not yet. */
static int leader(rd_kafka_t *handle, const char *name, int replicas)
{
	rd_kafka_topic_t *topic = rd_kafka_topic_new(handle, name, NULL);
	const struct rd_kafka_metadata *metadata;
	int found = -1;

	if (!rd_kafka_metadata(handle, 0, topic, &metadata, TIMEOUT_MS)) {
		const struct rd_kafka_metadata_topic *of = &metadata->topics[0];

		for (int i = 0; metadata->topic_cnt == 1 && i < of->partition_cnt; i++)
			if (of->partitions[i].leader < 0 || of->partitions[i].isr_cnt < replicas) {
				found = -1;
				break;
			} else if (!i) {
				found = of->partitions[i].leader;
			}
		rd_kafka_metadata_destroy(metadata);
	}
	rd_kafka_topic_destroy(topic);
	return found;
}

int main(int argc, char **argv)
{
	rd_kafka_conf_t *conf = rd_kafka_conf_new();
	rd_kafka_t *handle;
	char why[256];
	int found = -1, status = 0, creates = argc > 4 && !strcmp(argv[2], "create");

	if (argc < 4)
		return fail("usage", "kafka_topic BROKERS create|leader NAME ...");
	rd_kafka_conf_set(conf, "bootstrap.servers", argv[1], why, sizeof(why));
	handle = rd_kafka_new(RD_KAFKA_PRODUCER, conf, why, sizeof(why));
	if (!handle)
		return fail("librdkafka", why);
	if (creates)
		status = create(handle, argv[3], atoi(argv[4]), argv + 5, argc - 5);
	for (int i = 0; !status && i < LOOKS_MAX && found < 0; i++) {
		found = leader(handle, argv[3], creates ? REPLICAS : 1);
		if (found < 0)
			usleep(LOOK_US);
	}
	rd_kafka_destroy(handle);
	if (status || found < 0)
		return status ? status : fail(argv[3], "no leader");
	printf("%d\n", found);
	return 0;
}
