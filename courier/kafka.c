#include "courier/kafka.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/lib/failure.h"
#include "client/lib/trust.h"
#include "proto/limits.h"

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

void kafka_topic_name(const struct kafka_settings *settings, enum kafka_topic topic,
		      char name[KAFKA_TOPIC_BYTES])
{
	snprintf(name, KAFKA_TOPIC_BYTES, "%.*s.%s", (int)PREFIX_BYTES_MAX, settings->prefix,
		 topic == KAFKA_RUNS ? "runs" : "frames");
}

/* ---- Options -------------------------------------------------------------------------------- */

static bool is_mechanism(const char *name)
{
	static const char *const known[] = { "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512" };

	for (size_t i = 0; i < LENGTH(known); i++)
		if (strcmp(name, known[i]) == 0)
			return true;
	return false;
}

int kafka_check(const struct kafka_settings *settings, struct ringtail_error *error)
{
	if (!settings->brokers || !*settings->brokers) {
		failure_set(error, EINVAL, "no-brokers", "--brokers is missing: where Kafka is");
		failure_hint(error, "--brokers HOST:PORT,HOST:PORT names one or more brokers of the cluster");
		return -EINVAL;
	}
	if (!*settings->prefix || strlen(settings->prefix) > PREFIX_BYTES_MAX ||
	    settings->prefix[strspn(settings->prefix, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
						      "0123456789._-")])
		return failure_set(error, EINVAL, "bad-prefix", "a prefix of topics has letters, digits, '.', "
				   "'_' and '-', at most %u: '%.64s'", PREFIX_BYTES_MAX, settings->prefix);
	if (settings->sasl && !is_mechanism(settings->sasl))
		return failure_set(error, EINVAL, "bad-sasl", "--sasl '%.32s' is none of PLAIN, SCRAM-SHA-256, "
				   "SCRAM-SHA-512", settings->sasl);
	if (settings->sasl && (!settings->user || !settings->password_file))
		return failure_set(error, EINVAL, "no-password", "--sasl takes --sasl-user and "
				   "--sasl-password-file");
	if (!settings->sasl && (settings->user || settings->password_file))
		return failure_set(error, EINVAL, "no-sasl", "--sasl-user and --sasl-password-file take --sasl");
	if (!settings->cert != !settings->key)
		return failure_set(error, EINVAL, "no-key", "--kafka-cert and --kafka-key come together");
	if (settings->sasl && !strcmp(settings->sasl, "PLAIN") && !settings->tls) {
		failure_set(error, EINVAL, "password-in-clear", "--sasl PLAIN sends the password in clear");
		failure_hint(error, "add --kafka-tls or --kafka-ca, or use SCRAM-SHA-512");
		return -EINVAL;
	}
	return 0;
}

/* All of it, with a NUL behind. */
static int read_secret(const char *path, const char *what, char *text, struct ringtail_error *error)
{
	ssize_t got = 0, bytes = 0;
	int fd, err = trust_open_secret(path, what, &fd, error);

	if (err)
		return err;
	while (bytes < (ssize_t)SECRET_BYTES_MAX - 1 &&
	       (got = read(fd, text + bytes, SECRET_BYTES_MAX - 1 - (size_t)bytes)) > 0)
		bytes += got;
	err = got < 0 ? -errno : 0;
	close(fd);
	text[bytes] = '\0';
	if (!err && bytes && (size_t)bytes == strlen(text))
		return 0;
	return failure_set(error, err ? -err : EINVAL, "bad-secret", "the %s file %s %s", what, path,
			   err ? "cannot be read" : "is empty or no text");
}

int kafka_set(rd_kafka_conf_t *conf, const char *name, const char *value, struct ringtail_error *error)
{
	char why[256];

	if (rd_kafka_conf_set(conf, name, value, why, sizeof(why)) == RD_KAFKA_CONF_OK)
		return 0;
	return failure_set(error, EINVAL, "kafka-config", "librdkafka refuses %s: %s", name, why);
}

/* The first line alone is the password; a key is the whole file. */
static int set_secret(rd_kafka_conf_t *conf, const char *name, const char *path, const char *what,
		      bool first_line, struct ringtail_error *error)
{
	char *text = malloc(SECRET_BYTES_MAX);
	int err;

	if (!text)
		return failure_set(error, ENOMEM, "no-memory", "out of memory");
	err = read_secret(path, what, text, error);
	if (!err && first_line)
		text[strcspn(text, "\r\n")] = '\0';
	if (!err && kafka_set(conf, name, text, error))
		err = failure_set(error, EINVAL, "bad-secret", "the %s file %s has no %s that librdkafka "
				  "can read", what, path, what);
	explicit_bzero(text, SECRET_BYTES_MAX);
	free(text);
	return err;
}

static int set_trust(const struct kafka_settings *settings, rd_kafka_conf_t *conf,
		     struct ringtail_error *error)
{
	const char *protocol = settings->tls ? settings->sasl ? "sasl_ssl" : "ssl" :
			       settings->sasl ? "sasl_plaintext" : "plaintext";
	int err = kafka_set(conf, "security.protocol", protocol, error);

	if (!err && settings->ca)
		err = kafka_set(conf, "ssl.ca.location", settings->ca, error);
	if (!err && settings->cert)
		err = kafka_set(conf, "ssl.certificate.location", settings->cert, error);
	if (!err && settings->key)
		err = set_secret(conf, "ssl.key.pem", settings->key, "key", false, error);
	if (!err && settings->sasl)
		err = kafka_set(conf, "sasl.mechanism", settings->sasl, error);
	if (!err && settings->user)
		err = kafka_set(conf, "sasl.username", settings->user, error);
	if (!err && settings->password_file)
		err = set_secret(conf, "sasl.password", settings->password_file, "password", true, error);
	return err;
}

int kafka_configure(const struct kafka_settings *settings, const char *client, rd_kafka_conf_t **made,
		    struct ringtail_error *error)
{
	static const struct {
		const char *name, *value;
	} rows[] = {
		{ "log.connection.close", "false" },
		{ "socket.timeout.ms", "10000" },
		{ "reconnect.backoff.max.ms", "2000" },
		{ "topic.metadata.refresh.interval.ms", "10000" },
		{ "message.max.bytes", "2097152" },
	};
	rd_kafka_conf_t *conf = rd_kafka_conf_new();
	int err;

	rd_kafka_conf_set_log_cb(conf, NULL);		/* what matters comes as an event */
	err = kafka_set(conf, "bootstrap.servers", settings->brokers, error);

	if (!err)
		err = kafka_set(conf, "client.id", client, error);
	for (size_t i = 0; !err && i < LENGTH(rows); i++)
		err = kafka_set(conf, rows[i].name, rows[i].value, error);
	if (!err)
		err = set_trust(settings, conf, error);
	if (err)
		rd_kafka_conf_destroy(conf);
	else
		*made = conf;
	return err;
}

/* ---- Topics ---------------------------------------------------------------------------------- */

static int unreachable(const struct kafka_settings *settings, rd_kafka_resp_err_t why,
		       struct ringtail_error *error)
{
	failure_set(error, ETIMEDOUT, "brokers-unreachable", "no broker of %.200s answered within %d s: %s",
		    settings->brokers, REACH_TIMEOUT_MS / 1000, rd_kafka_err2str(why));
	failure_hint(error, "check the addresses, and whether the brokers ask for TLS or SASL "
		     "(--kafka-ca, --sasl)");
	return -ETIMEDOUT;
}

static int missing(const struct kafka_settings *settings, enum kafka_topic topic, const char *name,
		   struct ringtail_error *error)
{
	failure_set(error, ENOENT, "no-topic", "the topic %s does not exist", name);
	failure_hint(error, "kafka-topics.sh --bootstrap-server %.100s --create --topic %.100s --partitions %s "
		     "--replication-factor 3 --config min.insync.replicas=2 --config max.message.bytes=%u%s",
		     settings->brokers, name, topic == KAFKA_RUNS ? "1" : "12", RECORD_BYTES_MAX,
		     topic == KAFKA_RUNS ? " --config cleanup.policy=compact" : "");
	return -ENOENT;
}

static int judge_topic(const struct kafka_settings *settings, enum kafka_topic topic, const char *name,
		       const struct rd_kafka_metadata *metadata, struct kafka_facts *facts,
		       struct ringtail_error *error)
{
	rd_kafka_resp_err_t why = metadata->topic_cnt == 1 ? metadata->topics[0].err :
							     RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART;

	if (why == RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED) {
		failure_set(error, EACCES, "topic-not-allowed", "the brokers do not let us use the topic %s", name);
		failure_hint(error, "allow it with kafka-acls.sh: Describe and Write for the courier, Describe and "
			     "Read for a reader");
		return -EACCES;
	}
	if (why == RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART || (!why && !metadata->topics[0].partition_cnt))
		return missing(settings, topic, name, error);
	if (why)
		return failure_set(error, EIO, "topic-failed", "the brokers say of the topic %s: %s", name,
				   rd_kafka_err2str(why));
	if ((unsigned)metadata->topics[0].partition_cnt > PARTITIONS_MAX)
		return failure_set(error, E2BIG, "too-many-partitions", "the topic %s has %d partitions: at most %u",
				   name, metadata->topics[0].partition_cnt, PARTITIONS_MAX);
	*facts = (struct kafka_facts){
		.partitions = (unsigned)metadata->topics[0].partition_cnt,
		.broker = metadata->broker_cnt ? metadata->brokers[0].id : -1,
	};
	return 0;
}

int kafka_find_topic(rd_kafka_t *handle, const struct kafka_settings *settings, enum kafka_topic topic,
		     struct kafka_facts *facts, struct ringtail_error *error)
{
	const struct rd_kafka_metadata *metadata;
	char name[KAFKA_TOPIC_BYTES];
	rd_kafka_resp_err_t why;
	rd_kafka_topic_t *local;
	int err;

	kafka_topic_name(settings, topic, name);
	local = rd_kafka_topic_new(handle, name, NULL);
	if (!local)
		return failure_set(error, ENOMEM, "no-memory", "out of memory");
	why = rd_kafka_metadata(handle, 0, local, &metadata, REACH_TIMEOUT_MS);
	rd_kafka_topic_destroy(local);
	if (why)
		return unreachable(settings, why, error);
	err = judge_topic(settings, topic, name, metadata, facts, error);
	rd_kafka_metadata_destroy(metadata);
	return err;
}

static size_t size_of(const rd_kafka_event_t *event)
{
	const rd_kafka_ConfigResource_t **resource;
	const rd_kafka_ConfigEntry_t **entry;
	size_t resources, entries;

	resource = rd_kafka_DescribeConfigs_result_resources(rd_kafka_event_DescribeConfigs_result(
		(rd_kafka_event_t *)event), &resources);
	if (rd_kafka_event_error((rd_kafka_event_t *)event) || resources != 1 ||
	    rd_kafka_ConfigResource_error(resource[0]))
		return 0;
	entry = rd_kafka_ConfigResource_configs(resource[0], &entries);
	for (size_t i = 0; i < entries; i++)
		if (!strcmp(rd_kafka_ConfigEntry_name(entry[i]), "max.message.bytes") &&
		    rd_kafka_ConfigEntry_value(entry[i]))
			return strtoull(rd_kafka_ConfigEntry_value(entry[i]), NULL, 10);
	return 0;
}

/* 0: nobody says. */
static size_t ask_size(rd_kafka_t *handle, const char *name, int32_t broker)
{
	rd_kafka_AdminOptions_t *options = rd_kafka_AdminOptions_new(handle, RD_KAFKA_ADMIN_OP_DESCRIBECONFIGS);
	rd_kafka_ConfigResource_t *topic = rd_kafka_ConfigResource_new(RD_KAFKA_RESOURCE_TOPIC, name);
	rd_kafka_queue_t *queue = rd_kafka_queue_new(handle);
	rd_kafka_event_t *event;
	char why[128];
	size_t bytes;

	rd_kafka_AdminOptions_set_request_timeout(options, REACH_TIMEOUT_MS / 2, why, sizeof(why));
	/* Any broker knows. The one that librdkafka would wait for may be none that answers this. */
	rd_kafka_AdminOptions_set_broker(options, broker, why, sizeof(why));
	rd_kafka_DescribeConfigs(handle, &topic, 1, options, queue);
	event = rd_kafka_queue_poll(queue, REACH_TIMEOUT_MS);
	bytes = event ? size_of(event) : 0;
	if (event)
		rd_kafka_event_destroy(event);
	rd_kafka_queue_destroy(queue);
	rd_kafka_ConfigResource_destroy(topic);
	rd_kafka_AdminOptions_destroy(options);
	return bytes;
}

int kafka_find_size(rd_kafka_t *handle, const struct kafka_settings *settings, enum kafka_topic topic,
		    const struct kafka_facts *facts, size_t *bytes_max, struct ringtail_error *error)
{
	const size_t wanted = FRAME_RAW_BYTES_MAX + RECORD_OVERHEAD_BYTES;
	char name[KAFKA_TOPIC_BYTES];

	kafka_topic_name(settings, topic, name);
	*bytes_max = ask_size(handle, name, facts->broker);
	if (!*bytes_max || *bytes_max >= wanted)
		return 0;
	failure_set(error, EMSGSIZE, "topic-too-small", "the topic %s takes records of at most %zu bytes, and a "
		    "frame may have %zu", name, *bytes_max, wanted);
	failure_hint(error, "kafka-configs.sh --bootstrap-server %.100s --alter --topic %.100s --add-config "
		     "max.message.bytes=%u", settings->brokers, name, RECORD_BYTES_MAX);
	return -EMSGSIZE;
}
