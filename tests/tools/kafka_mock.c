/*
 * kafka_mock: librdkafka's mock cluster as a program of its own: Kafka without Java.
 *	usage: kafka_mock [-t TOPIC[:PARTITIONS]]...
 * Prints the bootstrap addresses, and obeys lines on stdin until it ends: "down N" and "up N" of a broker,
 * "missing TOPIC", "produce-error CODE COUNT", "answer-later N MS", "leader TOPIC PARTITION N". Each is answered with
 * "ok".
 */
#include <librdkafka/rdkafka.h>
#include <librdkafka/rdkafka_mock.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BROKERS		3
#define ERRORS_MAX	64
#define PRODUCE		0	/* the request's number in Kafka's protocol */

static void obey(rd_kafka_mock_cluster_t *cluster, char *line)
{
	static const char *const words[] = { "down", "up", "missing", "produce-error", "answer-later",
					     "leader" };
	char text[256];
	int a = 0, b = 0, c = 0;

	if (sscanf(line, "%*s %255s %d %d", text, &b, &c) >= 1)
		a = atoi(text);
	if (!strncmp(line, words[0], strlen(words[0])))
		rd_kafka_mock_broker_set_down(cluster, a);
	else if (!strncmp(line, words[1], strlen(words[1])))
		rd_kafka_mock_broker_set_up(cluster, a);
	else if (!strncmp(line, words[2], strlen(words[2])))
		rd_kafka_mock_topic_set_error(cluster, text, RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART);
	else if (!strncmp(line, words[3], strlen(words[3])))
		for (int i = 0; i < b && i < ERRORS_MAX; i++)
			rd_kafka_mock_push_request_errors(cluster, PRODUCE, 1, (rd_kafka_resp_err_t)a);
	else if (!strncmp(line, words[4], strlen(words[4])))
		rd_kafka_mock_broker_set_rtt(cluster, a, b);
	else if (!strncmp(line, words[5], strlen(words[5])))
		rd_kafka_mock_partition_set_leader(cluster, text, b, c);
	printf("ok\n");
	fflush(stdout);
}

static void create(rd_kafka_mock_cluster_t *cluster, char *topic)
{
	char *partitions = strchr(topic, ':');

	if (partitions)
		*partitions++ = '\0';
	rd_kafka_mock_topic_create(cluster, topic, partitions ? atoi(partitions) : 1, BROKERS);
}

int main(int argc, char **argv)
{
	rd_kafka_conf_t *conf = rd_kafka_conf_new();
	char why[256], line[512];
	rd_kafka_t *handle = rd_kafka_new(RD_KAFKA_PRODUCER, conf, why, sizeof(why));
	rd_kafka_mock_cluster_t *cluster = handle ? rd_kafka_mock_cluster_new(handle, BROKERS) : NULL;

	if (!cluster) {
		fprintf(stderr, "kafka_mock: no cluster: %s\n", handle ? "it cannot be made" : why);
		return 1;
	}
	for (int i = 1; i + 1 < argc; i += 2)
		create(cluster, argv[i + 1]);
	printf("%s\n", rd_kafka_mock_cluster_bootstraps(cluster));
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin))
		obey(cluster, line);
	rd_kafka_mock_cluster_destroy(cluster);
	rd_kafka_destroy(handle);
	return 0;
}
