#include "courier/stale.h"

#include <errno.h>
#include <inttypes.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>

#include "client/lib/conn.h"
#include "client/lib/failure.h"
#include "courier/parcel.h"
#include "courier/topic.h"

#define LOOK_MS		200	/* between two looks whether we are to end */

/* A key of PREFIX.runs. */
struct row {
	size_t key_bytes;
	const char *key;
	int32_t partition;		/* that has its newest record, */
	int64_t sent_ms;		/* which was sent then */
	bool there;			/* that is no tombstone */
	bool named;			/* by a frame */
	char bytes[];
};

struct stale {
	const struct kafka_settings *settings;
	const struct stale_wanted *wanted;
	const volatile sig_atomic_t *stop;
	void *tree;
	size_t rows;
	rd_kafka_t *producer;
	rd_kafka_resp_err_t why;	/* a tombstone was not taken; 0: all were */
	struct stale_ledger ledger;
};

/* What reads a topic: -errno with *error. */
typedef int take_record(struct stale *stale, const rd_kafka_message_t *record, struct ringtail_error *error);

static int no_memory(struct ringtail_error *error)
{
	return failure_set(error, ENOMEM, "no-memory", "out of memory");
}

/* ---- Keys --------------------------------------------------------------------------------------- */

static int compare(const void *a, const void *b)
{
	const struct row *x = a, *y = b;
	size_t bytes = x->key_bytes < y->key_bytes ? x->key_bytes : y->key_bytes;
	int order = memcmp(x->key, y->key, bytes);

	return order ? order : (x->key_bytes > y->key_bytes) - (x->key_bytes < y->key_bytes);
}

static struct row *find_row(const struct stale *stale, const void *key, size_t key_bytes)
{
	struct row wanted = { .key = key, .key_bytes = key_bytes }, **found = tfind(&wanted, &stale->tree, compare);

	return found ? *found : NULL;
}

static int add_row(struct stale *stale, const void *key, size_t key_bytes, struct row **made, struct ringtail_error *error)
{
	struct row *row;

	if (stale->rows == RUNS_JUDGED_MAX) {
		failure_set(error, E2BIG, "too-many-runs", "PREFIX.runs has more than %u records", RUNS_JUDGED_MAX);
		failure_hint(error, "name some of the hosts with --host, and then the others");
		return -E2BIG;
	}
	row = calloc(1, sizeof(*row) + key_bytes);
	if (!row)
		return no_memory(error);
	memcpy(row->bytes, key, key_bytes);
	row->key = row->bytes;
	row->key_bytes = key_bytes;
	if (!tsearch(row, &stale->tree, compare)) {
		free(row);
		return no_memory(error);
	}
	stale->rows++;
	*made = row;
	return 0;
}

/* What its headers and the host say is the key of a run's record. 0: it is none of ours. */
static size_t key_of(const rd_kafka_message_t *record, const char *host, char key[PARCEL_KEY_BYTES_MAX])
{
	struct parcel parcel = { .topic = KAFKA_RUNS };
	rd_kafka_headers_t *headers;

	if (rd_kafka_message_headers(record, &headers) || !parcel_read_label(headers, &parcel.label))
		return 0;
	return parcel_key(&parcel, host, key);
}

/* A tombstone has no headers: it is about a key that is known. */
static bool is_ours(const struct stale *stale, const rd_kafka_message_t *record)
{
	size_t host_bytes = record->key ? strnlen(record->key, record->key_len) : 0;
	char key[PARCEL_KEY_BYTES_MAX];

	if (!record->key_len || record->key_len > sizeof(key) || host_bytes == record->key_len || !record->payload)
		return false;
	return parcel_host_is_good(record->key) &&
	       parcel_host_matches(record->key, stale->wanted->host, stale->wanted->hosts) &&
	       key_of(record, record->key, key) == record->key_len && memcmp(key, record->key, record->key_len) == 0;
}

static int take_run(struct stale *stale, const rd_kafka_message_t *record, struct ringtail_error *error)
{
	struct row *row = record->key ? find_row(stale, record->key, record->key_len) : NULL;
	rd_kafka_timestamp_type_t type;
	int err;

	if (!row && !is_ours(stale, record))
		return 0;
	err = row ? 0 : add_row(stale, record->key, record->key_len, &row, error);
	if (err)
		return err;
	row->partition = record->partition;
	row->there = record->payload;
	row->sent_ms = rd_kafka_message_timestamp(record, &type);
	return 0;
}

static int take_frame(struct stale *stale, const rd_kafka_message_t *record, struct ringtail_error *error)
{
	char host[HOST_BYTES_MAX], key[PARCEL_KEY_BYTES_MAX];
	struct row *row;

	(void)error;
	if (!record->key_len || record->key_len >= sizeof(host) || memchr(record->key, '\0', record->key_len))
		return 0;
	memcpy(host, record->key, record->key_len);
	host[record->key_len] = '\0';
	row = find_row(stale, key, key_of(record, host, key));
	if (row)
		row->named = true;
	return 0;
}

/* ---- Topics -------------------------------------------------------------------------------------- */

static int refuse_part(enum kafka_topic which, struct ringtail_error *error)
{
	failure_set(error, ETIMEDOUT, "partition-still", "nothing came of a partition of PREFIX.%s, and its end did not: "
		    "nothing is deleted", which == KAFKA_RUNS ? "runs" : "frames");
	failure_hint(error, "look at the brokers, or raise --patience");
	return -ETIMEDOUT;
}

/* 1: that is all. */
static int take_next(struct stale *stale, struct topic *topic, enum kafka_topic which, take_record *take,
		     struct ringtail_error *error)
{
	const rd_kafka_message_t *record;

	if (*stale->stop)
		return failure_set(error, EINTR, "stopped", "a signal has stopped it: nothing is deleted");
	switch (topic_next(topic, LOOK_MS, &record, error)) {
	case TOPIC_RECORD:
		return take(stale, record, error);
	case TOPIC_TIMEOUT:
		return topic_waited_ms(topic) >= stale->wanted->patience_ms ? refuse_part(which, error) : 0;
	case TOPIC_END:
		return 1;
	case TOPIC_FAILED:
		break;
	}
	return -EIO;
}

static int read_topic(struct stale *stale, enum kafka_topic which, take_record *take, struct ringtail_error *error)
{
	const struct topic_wanted wanted = { .which = which, .begin = TOPIC_ALL, .to_end = true };
	struct topic *topic;
	int err = topic_open(stale->settings, &wanted, &topic, error);

	if (err)
		return err;
	while (!err)
		err = take_next(stale, topic, which, take, error);
	topic_close(topic);
	return err < 0 ? err : 0;
}

/* ---- What is stale ------------------------------------------------------------------------------- */

static bool is_recent(const struct stale *stale, const struct row *row)
{
	return row->sent_ms < 0 || row->sent_ms + (int64_t)RUN_AGE_MS_MIN > stale->wanted->now_ms;
}

static bool is_stale(const struct stale *stale, const struct row *row)
{
	return row->there && !row->named && !is_recent(stale, row);
}

static const struct row *row_at(const void *node, VISIT when)
{
	return when == postorder || when == leaf ? *(const struct row *const *)node : NULL;
}

static void count_row(const void *node, VISIT when, void *closure)
{
	const struct row *row = row_at(node, when);
	struct stale *stale = closure;

	if (!row || !row->there)
		return;
	stale->ledger.records++;
	stale->ledger.named += row->named;
	stale->ledger.recent += !row->named && is_recent(stale, row);
	stale->ledger.stale += is_stale(stale, row);
}

static void count_rows(struct stale *stale)
{
	stale->ledger = (struct stale_ledger){ 0 };
	twalk_r(stale->tree, count_row, stale);
}

/* ---- Tombstones ---------------------------------------------------------------------------------- */

static void on_report(rd_kafka_t *handle, const rd_kafka_message_t *message, void *opaque)
{
	struct stale *stale = opaque;

	(void)handle;
	stale->ledger.deleted += !message->err;
	stale->why = message->err ? message->err : stale->why;
}

static void delete_row(const void *node, VISIT when, void *closure)
{
	const struct row *row = row_at(node, when);
	struct stale *stale = closure;
	char name[KAFKA_TOPIC_BYTES];
	rd_kafka_resp_err_t why;
	uint64_t until_ns = conn_now_ns() + DELETE_TIMEOUT_MS * UINT64_C(1000000);

	if (!row || !is_stale(stale, row) || stale->why || *stale->stop)
		return;
	kafka_topic_name(stale->settings, KAFKA_RUNS, name);
	do {
		why = rd_kafka_producev(stale->producer, RD_KAFKA_V_TOPIC(name), RD_KAFKA_V_PARTITION(row->partition),
					RD_KAFKA_V_KEY(row->key, row->key_bytes), RD_KAFKA_V_VALUE(NULL, 0),
					RD_KAFKA_V_MSGFLAGS(RD_KAFKA_MSG_F_COPY), RD_KAFKA_V_END);
		rd_kafka_poll(stale->producer, why ? LOOK_MS : 0);
	} while (why == RD_KAFKA_RESP_ERR__QUEUE_FULL && conn_now_ns() < until_ns);
	stale->why = why ? why : stale->why;
}

static int open_producer(struct stale *stale, struct ringtail_error *error)
{
	rd_kafka_conf_t *conf;
	char why[256], timeout[16];
	int err = kafka_configure(stale->settings, "ringtail-kafka", &conf, error);

	if (err)
		return err;
	snprintf(timeout, sizeof(timeout), "%u", DELETE_TIMEOUT_MS);
	err = kafka_set(conf, "enable.idempotence", "true", error);
	if (!err)
		err = kafka_set(conf, "message.timeout.ms", timeout, error);
	rd_kafka_conf_set_dr_msg_cb(conf, on_report);
	rd_kafka_conf_set_opaque(conf, stale);
	if (!err) {
		stale->producer = rd_kafka_new(RD_KAFKA_PRODUCER, conf, why, sizeof(why));
		if (!stale->producer)
			err = failure_set(error, EINVAL, "kafka-config", "librdkafka makes no producer: %s", why);
	}
	if (err)
		rd_kafka_conf_destroy(conf);
	return err;
}

static int delete_rows(struct stale *stale, struct ringtail_error *error)
{
	int err = open_producer(stale, error);

	if (err)
		return err;
	twalk_r(stale->tree, delete_row, stale);
	rd_kafka_flush(stale->producer, DELETE_TIMEOUT_MS);
	rd_kafka_destroy(stale->producer);
	if (stale->ledger.deleted == stale->ledger.stale)
		return 0;
	failure_set(error, EIO, "not-deleted", "%" PRIu64 " of %" PRIu64 " records are not deleted: %s",
		    stale->ledger.stale - stale->ledger.deleted, stale->ledger.stale,
		    stale->why ? rd_kafka_err2str(stale->why) : "a signal has stopped it");
	failure_hint(error, "run it again; it takes the right to write to PREFIX.runs");
	return -EIO;
}

/* A run that has come back while frames were read has another record now: the topic is read again. */
int stale_run(const struct kafka_settings *settings, const struct stale_wanted *wanted, const volatile sig_atomic_t *stop,
	      struct stale_ledger *ledger, struct ringtail_error *error)
{
	struct stale stale = { .settings = settings, .wanted = wanted, .stop = stop };
	int err = read_topic(&stale, KAFKA_RUNS, take_run, error);

	count_rows(&stale);
	if (!err && stale.ledger.records)
		err = read_topic(&stale, KAFKA_FRAMES, take_frame, error);
	if (!err && stale.ledger.stale)
		err = read_topic(&stale, KAFKA_RUNS, take_run, error);
	count_rows(&stale);
	if (!err && wanted->deletes && stale.ledger.stale)
		err = delete_rows(&stale, error);
	tdestroy(stale.tree, free);
	*ledger = stale.ledger;
	return err;
}
