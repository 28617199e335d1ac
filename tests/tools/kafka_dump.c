/*
 * kafka_dump: what a topic has, for readers that are no ringtail-kafka.
 *	usage: kafka_dump BROKERS TOPIC PARTITIONS
 * Prints each record up to the ends of the partitions, one after the other, as a line of JSON: the last part of the
 * topic's name, headers, which are text, and key and value in hexadecimal; null is a value that is none.
 */
#include <librdkafka/rdkafka.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TIMEOUT_MS	30000
#define HEADERS_MAX	64

static int fail(const char *what, const char *why)
{
	fprintf(stderr, "kafka_dump: %s: %s\n", what, why);
	return 1;
}

static void print_hex(const void *data, size_t bytes)
{
	const uint8_t *at = data;

	putchar('"');
	for (size_t i = 0; i < bytes; i++)
		printf("%02x", at[i]);
	putchar('"');
}

static void print_headers(const rd_kafka_message_t *record)
{
	rd_kafka_headers_t *headers;
	const void *value;
	const char *name;
	size_t bytes;

	if (rd_kafka_message_headers(record, &headers))
		return;
	for (size_t i = 0; i < HEADERS_MAX && !rd_kafka_header_get_all(headers, i, &name, &value, &bytes); i++)
		printf("%s\"%s\":\"%.*s\"", i ? "," : "", name, (int)bytes, (const char *)value);
}

static void print_record(const char *topic, const rd_kafka_message_t *record)
{
	const char *dot = strrchr(topic, '.');

	printf("{\"topic\":\"%s\",\"key\":", dot ? dot + 1 : topic);
	print_hex(record->key, record->key_len);
	printf(",\"value\":");
	if (record->payload)
		print_hex(record->payload, record->len);
	else
		printf("null");
	printf(",\"headers\":{");
	print_headers(record);
	printf("}}\n");
}

static int dump(rd_kafka_t *handle, const char *name, int32_t partition)
{
	rd_kafka_topic_t *topic = rd_kafka_topic_new(handle, name, NULL);
	bool is_end = false;
	int status = 0;

	if (rd_kafka_consume_start(topic, partition, RD_KAFKA_OFFSET_BEGINNING))
		return fail(name, rd_kafka_err2str(rd_kafka_last_error()));
	while (!is_end && !status) {
		rd_kafka_message_t *record = rd_kafka_consume(topic, partition, TIMEOUT_MS);

		if (!record)
			return fail(name, "nothing comes");
		is_end = record->err == RD_KAFKA_RESP_ERR__PARTITION_EOF;
		if (!record->err)
			print_record(name, record);
		else if (!is_end)
			status = fail(name, rd_kafka_err2str(record->err));
		rd_kafka_message_destroy(record);
	}
	rd_kafka_consume_stop(topic, partition);
	rd_kafka_topic_destroy(topic);
	return status;
}

int main(int argc, char **argv)
{
	rd_kafka_conf_t *conf = rd_kafka_conf_new();
	rd_kafka_t *handle;
	char why[256];
	int status = 0;

	if (argc != 4)
		return fail("usage", "kafka_dump BROKERS TOPIC PARTITIONS");
	rd_kafka_conf_set(conf, "bootstrap.servers", argv[1], why, sizeof(why));
	rd_kafka_conf_set(conf, "enable.partition.eof", "true", why, sizeof(why));
	handle = rd_kafka_new(RD_KAFKA_CONSUMER, conf, why, sizeof(why));
	if (!handle)
		return fail("librdkafka", why);
	for (int32_t i = 0; !status && i < atoi(argv[3]); i++)
		status = dump(handle, argv[2], i);
	rd_kafka_destroy(handle);
	return status;
}
