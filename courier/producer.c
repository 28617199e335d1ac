#include "courier/producer.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "client/lib/failure.h"
#include "courier/notice.h"
#include "proto/frame.h"
#include "proto/limits.h"

struct producer {
	const struct kafka_settings *settings;
	struct windows *windows;
	rd_kafka_t *handle;		/* NULL: it is to be made again, at retry_ns */
	rd_kafka_queue_t *queue;
	int fd;
	char topic[KAFKA_TOPICS][KAFKA_TOPIC_BYTES];
	size_t record_bytes_max[KAFKA_TOPICS];
	bool failed;			/* it can do no more */
	bool alone;			/* each record is a batch of its own: one of a batch was too large; */
	bool asks_alone;		/* so are those of the next handle */
	bool down_told;			/* all brokers are, and nothing was confirmed since */
	bool old_told;			/* the same of brokers that are too old */
	unsigned delay_ms;		/* before the next try */
	uint64_t retry_ns;
	uint64_t report_ns;		/* the last; 0: nothing is on its way */
	struct producer_stat stat;
};

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* ---- A handle of librdkafka's ----------------------------------------------------------------- */

/*
 * With more than one request in flight, or a short linger, librdkafka's broker threads poll without waiting
 * while anything waits: ten times the CPU for each frame. That one record fails never, but for what
 * it is, is what message.timeout.ms 0 says: the daemon's spool decides how old a record may become.
 */
static int configure(struct producer *producer, rd_kafka_conf_t *conf, struct ringtail_error *error)
{
	char linger[16], queue[32], batch[32];
	size_t batch_bytes = FRAME_RAW_BYTES_MAX;
	const struct {
		const char *name, *value;
	} rows[] = {
		{ "enable.idempotence", "true" },	{ "acks", "all" },
		{ "max.in.flight", "1" },		{ "compression.codec", "none" },
		{ "message.timeout.ms", "0" },		{ "request.timeout.ms", "5000" },
		{ "partitioner", "murmur2_random" },	{ "sticky.partitioning.linger.ms", "0" },
		{ "queue.buffering.max.messages", "1000000" },
		{ "linger.ms", linger },		{ "queue.buffering.max.kbytes", queue },
		{ "batch.size", batch },
		{ "batch.num.messages", producer->asks_alone ? "1" : "10000" },
		/* A record that failed has none behind it that is stored: readers see numbers in order. */
		{ "enable.gapless.guarantee", "true" },
	};
	int err = 0;

	if (producer->record_bytes_max[KAFKA_FRAMES] && producer->record_bytes_max[KAFKA_FRAMES] < batch_bytes)
		batch_bytes = producer->record_bytes_max[KAFKA_FRAMES];
	snprintf(linger, sizeof(linger), "%u", LINGER_MS);
	snprintf(queue, sizeof(queue), "%zu", producer->windows->bytes_max / 1024 * 2 + 8192);
	snprintf(batch, sizeof(batch), "%zu", batch_bytes);
	for (size_t i = 0; !err && i < sizeof(rows) / sizeof(*rows); i++)
		err = kafka_set(conf, rows[i].name, rows[i].value, error);
	rd_kafka_conf_set_events(conf, RD_KAFKA_EVENT_DR | RD_KAFKA_EVENT_ERROR);
	return err;
}

static int open_handle(struct producer *producer, struct ringtail_error *error)
{
	static const uint64_t one = 1;
	rd_kafka_conf_t *conf;
	char why[256];
	int err = kafka_configure(producer->settings, "ringtail-courier", &conf, error);

	if (err)
		return err;
	err = configure(producer, conf, error);
	if (!err) {
		producer->handle = rd_kafka_new(RD_KAFKA_PRODUCER, conf, why, sizeof(why));
		if (!producer->handle)
			err = failure_set(error, EINVAL, "kafka-config", "librdkafka makes no producer: %s", why);
	}
	if (err) {
		rd_kafka_conf_destroy(conf);
		return err;
	}
	producer->queue = rd_kafka_queue_get_main(producer->handle);
	rd_kafka_queue_io_event_enable(producer->queue, producer->fd, &one, sizeof(one));
	producer->failed = false;
	producer->alone = producer->asks_alone;
	return 0;
}

static void close_handle(struct producer *producer)
{
	if (producer->queue)
		rd_kafka_queue_destroy(producer->queue);
	if (producer->handle)
		rd_kafka_destroy(producer->handle);
	producer->queue = NULL;
	producer->handle = NULL;
}

static int look_at_topics(struct producer *producer, struct ringtail_error *error)
{
	struct kafka_facts facts;
	int err = 0;

	for (enum kafka_topic topic = 0; !err && topic < KAFKA_TOPICS; topic++) {
		err = kafka_find_topic(producer->handle, producer->settings, topic, &facts, error);
		if (!err)
			err = kafka_find_size(producer->handle, producer->settings, topic, &facts,
					      &producer->record_bytes_max[topic], error);
	}
	if (!err && !producer->record_bytes_max[KAFKA_FRAMES])
		notice_warn("topic-size-unknown", "the brokers do not tell how large a record of %s may be: a frame "
			    "that does not fit is recorded as a gap when they refuse it",
			    producer->topic[KAFKA_FRAMES]);
	return err;
}

int producer_create(const struct kafka_settings *settings, struct windows *windows, struct producer **made,
		    struct ringtail_error *error)
{
	struct producer *producer = calloc(1, sizeof(*producer));
	int err;

	if (!producer)
		return failure_set(error, ENOMEM, "no-memory", "out of memory");
	producer->settings = settings;
	producer->windows = windows;
	producer->delay_ms = RENEW_DELAY_MS_MIN;
	producer->fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	for (enum kafka_topic topic = 0; topic < KAFKA_TOPICS; topic++)
		kafka_topic_name(settings, topic, producer->topic[topic]);
	err = producer->fd < 0 ? failure_set(error, errno, "no-descriptor", "cannot make an eventfd: %s",
					     strerror(errno)) : 0;
	if (!err)
		err = open_handle(producer, error);
	if (!err)
		err = look_at_topics(producer, error);
	if (err)
		producer_destroy(producer);
	else
		*made = producer;
	return err;
}

void producer_destroy(struct producer *producer)
{
	if (!producer)
		return;
	if (producer->handle)
		rd_kafka_purge(producer->handle, RD_KAFKA_PURGE_F_QUEUE | RD_KAFKA_PURGE_F_INFLIGHT);
	close_handle(producer);
	if (producer->fd >= 0)
		close(producer->fd);
	free(producer);
}

int producer_fd(const struct producer *producer)
{
	return producer->fd;
}

/* ---- Reports ---------------------------------------------------------------------------------- */

/* By itself. A gap never is: it is what stands in the place of what is. */
static bool is_too_large(const struct producer *producer, const struct parcel *parcel)
{
	size_t bytes_max = producer->record_bytes_max[parcel->topic];

	return parcel->label.type != FRAME_GAP && parcel->bytes + RECORD_OVERHEAD_BYTES > (bytes_max ? bytes_max : RECORD_BYTES_MAX);
}

/* False: it stays in the window, so that nothing behind it counts as confirmed; no more can be sent now. */
static bool reject(struct producer *producer, struct parcel *parcel)
{
	struct parcel *gap;

	if (parcel->topic == KAFKA_RUNS)
		window_refuse(parcel->window);
	if (parcel->window->refused)
		return false;
	gap = parcel_create_gap(parcel);
	if (!gap && parcel->label.span.known)
		return false;		/* out of memory: the next time, then */
	notice_warn("record-rejected", "Kafka does not take a %s of %zu bytes%s: raise max.message.bytes of %s",
		    frame_type_name(parcel->label.type), parcel->bytes,
		    gap ? "; a gap stands in its place" : "", producer->topic[parcel->topic]);
	window_reject(parcel, gap);
	return true;
}

static void take_failure(struct producer *producer, struct parcel *parcel, rd_kafka_resp_err_t why)
{
	if (why == RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE && producer->alone && parcel->label.type != FRAME_GAP) {
		producer->record_bytes_max[parcel->topic] = parcel->bytes + RECORD_OVERHEAD_BYTES - 1;
		reject(producer, parcel);
	} else if (why == RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE) {
		producer->asks_alone = true;	/* of a batch, none is stored: which one is it? */
	} else if (why != RD_KAFKA_RESP_ERR__PURGE_QUEUE && why != RD_KAFKA_RESP_ERR__PURGE_INFLIGHT &&
		   why != RD_KAFKA_RESP_ERR__FATAL && !producer->failed) {
		notice_warn("record-failed", "Kafka has not stored a record (%s): it and what is behind it is sent again",
			    rd_kafka_err2str(why));
	}
	producer->failed = true;
}

static void take_report(struct producer *producer, const rd_kafka_message_t *message)
{
	struct parcel *parcel = message->_private;
	uint64_t now = now_ns();

	if (message->err) {
		take_failure(producer, parcel, message->err);
		return;
	}
	if (now - parcel->sent_ns > producer->stat.slowest_ns)
		producer->stat.slowest_ns = now - parcel->sent_ns;
	if (producer->report_ns && now - producer->report_ns > producer->stat.stalled_ns)
		producer->stat.stalled_ns = now - producer->report_ns;
	producer->report_ns = now;
	producer->delay_ms = RENEW_DELAY_MS_MIN;
	producer->down_told = producer->old_told = false;
	window_confirm(parcel);
}

/*
 * Brokers before Kafka 0.11 know neither idempotent producers nor headers. librdkafka sends them nothing, and raises
 * this error as soon as one is connected. The next producer looks again: brokers may be upgraded meanwhile.
 */
static void take_fatal(struct producer *producer, rd_kafka_event_t *event)
{
	bool old = rd_kafka_fatal_error(producer->handle, NULL, 0) == RD_KAFKA_RESP_ERR__UNSUPPORTED_FEATURE;

	producer->failed = true;
	if (!old)
		notice_warn("producer-failed", "librdkafka's producer has failed: %s; a new one begins behind the last "
			    "confirmed record", rd_kafka_event_error_string(event));
	else if (!producer->old_told)
		notice_warn("brokers-too-old", "the brokers know no idempotent producers and no headers of records: "
			    "nothing is sent, and what is recorded stays with the daemon. Upgrade the brokers to Kafka "
			    "0.11 or later");
	producer->old_told |= old;
}

static void take_error(struct producer *producer, rd_kafka_event_t *event)
{
	rd_kafka_resp_err_t why = rd_kafka_event_error(event);

	producer->stat.errors++;
	if (rd_kafka_event_error_is_fatal(event)) {
		take_fatal(producer, event);
	} else if (why == RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN) {
		if (!producer->down_told)
			notice_warn("brokers-down", "no broker answers: what is recorded stays with the daemon until "
				    "one does");
		producer->down_told = true;
	} else if (why == RD_KAFKA_RESP_ERR__AUTHENTICATION || why == RD_KAFKA_RESP_ERR__SSL) {
		notice_warn("broker-refuses", "a broker refuses the connection: %s",
			    rd_kafka_event_error_string(event));
	}
}

static void take_events(struct producer *producer)
{
	const rd_kafka_message_t *message;
	rd_kafka_event_t *event;
	uint64_t rung;

	while (read(producer->fd, &rung, sizeof(rung)) < 0 && errno == EINTR)
		;
	while (producer->handle && (event = rd_kafka_queue_poll(producer->queue, 0))) {
		if (rd_kafka_event_type(event) == RD_KAFKA_EVENT_DR)
			while ((message = rd_kafka_event_message_next(event)))
				take_report(producer, message);
		else if (rd_kafka_event_type(event) == RD_KAFKA_EVENT_ERROR)
			take_error(producer, event);
		rd_kafka_event_destroy(event);
	}
}

/* ---- Sending ---------------------------------------------------------------------------------- */

/* False: no more can be sent now. */
static bool send_one(struct producer *producer, struct parcel *parcel)
{
	rd_kafka_headers_t *headers = parcel_headers(parcel);
	char key[PARCEL_KEY_BYTES_MAX];
	size_t key_bytes = parcel_key(parcel, parcel->window->host, key);
	rd_kafka_resp_err_t why;

	if (!headers)
		return false;
	parcel->sent_ns = now_ns();
	why = rd_kafka_producev(producer->handle, RD_KAFKA_V_TOPIC(producer->topic[parcel->topic]),
				RD_KAFKA_V_MSGFLAGS(0),		/* the window has it until it is reported */
				RD_KAFKA_V_VALUE(parcel->value, parcel->bytes),
				RD_KAFKA_V_KEY(key, key_bytes), RD_KAFKA_V_HEADERS(headers),
				RD_KAFKA_V_OPAQUE(parcel), RD_KAFKA_V_END);
	if (why) {
		rd_kafka_headers_destroy(headers);
		if (why == RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE)
			return reject(producer, parcel);
		producer->failed |= why != RD_KAFKA_RESP_ERR__QUEUE_FULL;
		return false;
	}
	if (!producer->report_ns)
		producer->report_ns = parcel->sent_ns;
	window_sent(parcel);
	return true;
}

static void send_waiting(struct producer *producer)
{
	struct parcel *parcel;

	while (!producer->failed && (parcel = windows_next(producer->windows))) {
		bool good = is_too_large(producer, parcel) ? reject(producer, parcel) : send_one(producer, parcel);

		/* One host whose run is refused stands in nobody else's way. */
		if (!good && !parcel->window->refused)
			break;
	}
	if (!producer->windows->count)
		producer->report_ns = 0;
}

/* ---- Another one in its place ------------------------------------------------------------------ */

static void give_up_handle(struct producer *producer)
{
	uint64_t until_ns = now_ns() + PURGE_TIMEOUT_MS * 1000000ull;

	/* What it confirms at its end is confirmed; what is left fails, and waits again. */
	rd_kafka_purge(producer->handle, RD_KAFKA_PURGE_F_QUEUE | RD_KAFKA_PURGE_F_INFLIGHT);
	while (rd_kafka_outq_len(producer->handle) > 0 && now_ns() < until_ns) {
		rd_kafka_flush(producer->handle, 100);
		take_events(producer);
	}
	close_handle(producer);
	windows_rewind(producer->windows);
	producer->retry_ns = now_ns() + producer->delay_ms * 1000000ull;
	producer->delay_ms = producer->delay_ms * 2 < RENEW_DELAY_MS_MAX ? producer->delay_ms * 2 :
									   RENEW_DELAY_MS_MAX;
}

static void renew(struct producer *producer)
{
	struct ringtail_error error;

	if (!open_handle(producer, &error))
		return;
	notice_failure(&error);
	producer->retry_ns = now_ns() + RENEW_DELAY_MS_MAX * 1000000ull;
}

void producer_call_back(struct producer *producer)
{
	if (!producer->handle)
		return;
	give_up_handle(producer);
	producer->report_ns = 0;
	producer->retry_ns = 0;
	producer->delay_ms = RENEW_DELAY_MS_MIN;
}

void producer_run(struct producer *producer)
{
	take_events(producer);
	if (producer->alone && !producer->windows->count) {
		producer->asks_alone = false;	/* what was too large has been found */
		producer->failed = true;
	}
	if (producer->handle && producer->failed) {
		give_up_handle(producer);
		producer->stat.renewed++;
	}
	if (!producer->handle && now_ns() >= producer->retry_ns)
		renew(producer);
	if (producer->handle)
		send_waiting(producer);
}

int producer_wait_ms(const struct producer *producer)
{
	uint64_t now = now_ns();

	if (producer->handle)
		return producer->failed ? 0 : -1;
	return producer->retry_ns > now ? (int)((producer->retry_ns - now + 999999) / 1000000) : 0;
}

void producer_stat(const struct producer *producer, struct producer_stat *stat)
{
	*stat = producer->stat;
	if (producer->report_ns && now_ns() - producer->report_ns > stat->stalled_ns)
		stat->stalled_ns = now_ns() - producer->report_ns;
}
