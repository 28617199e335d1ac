#include "courier/reading.h"

#include <errno.h>
#include <inttypes.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>

#include "client/lib/failure.h"
#include "courier/notice.h"
#include "courier/recording.h"
#include "courier/topic.h"

#define STREAM_WAIT_MS	200	/* between two looks whether we are to end */

/* One host. */
struct lane {
	struct reading *reading;
	struct recording *recording;
	int32_t partition;		/* where its records come from */
	char host[HOST_BYTES_MAX];
};

struct reading {
	const struct kafka_settings *settings;
	const struct reading_wanted *wanted;
	struct runs *runs;
	FILE *to;
	struct recording_output *output;
	struct topic *topic;
	void *tree;			/* lanes, by host */
	struct lane **lane;		/* the same, as they came */
	uint32_t lanes;
	uint64_t other;			/* records of other hosts, or of other programs */
	bool lossy, moved_told;
};

static int no_memory(struct ringtail_error *error)
{
	return failure_set(error, ENOMEM, "no-memory", "out of memory");
}

struct reading *reading_create(const struct kafka_settings *settings, const struct reading_wanted *wanted,
			       struct runs *runs, FILE *to)
{
	struct reading *reading = calloc(1, sizeof(*reading));

	if (!reading)
		return NULL;
	reading->settings = settings;
	reading->wanted = wanted;
	reading->runs = runs;
	reading->to = to;
	reading->output = recording_output_create(to);
	if (reading->output)
		return reading;
	free(reading);
	return NULL;
}

static void keep(void *lane)
{
	(void)lane;
}

void reading_destroy(struct reading *reading)
{
	if (!reading)
		return;
	tdestroy(reading->tree, keep);
	for (uint32_t i = 0; i < reading->lanes; i++) {
		recording_destroy(reading->lane[i]->recording);
		free(reading->lane[i]);
	}
	free(reading->lane);
	recording_output_destroy(reading->output);
	topic_close(reading->topic);
	free(reading);
}

/* ---- Hosts --------------------------------------------------------------------------------------- */

static int compare(const void *a, const void *b)
{
	return strcmp(((const struct lane *)a)->host, ((const struct lane *)b)->host);
}

static int find_beginning(void *context, const struct parcel_label *label, struct runs_beginning *beginning,
			  struct ringtail_error *error)
{
	struct lane *lane = context;

	return runs_find(lane->reading->runs, lane->host, label, beginning, error);
}

static struct lane *lane_create(struct reading *reading, const char *host, int32_t partition)
{
	struct lane *lane = calloc(1, sizeof(*lane));

	if (!lane)
		return NULL;
	lane->reading = reading;
	lane->partition = partition;
	snprintf(lane->host, sizeof(lane->host), "%s", host);
	lane->recording = recording_create(reading->output, find_beginning, lane);
	if (!lane->recording) {
		free(lane);
		return NULL;
	}
	if (!reading->wanted->only)
		recording_set_lane(lane->recording, reading->lanes, lane->host);
	if (topic_is_cut(reading->topic, partition))
		recording_begin_cut(lane->recording);
	return lane;
}

static int add_lane(struct reading *reading, const char *host, int32_t partition, struct lane **made,
		    struct ringtail_error *error)
{
	struct lane **larger = reallocarray(reading->lane, reading->lanes + 1, sizeof(struct lane *)), *lane;

	if (!larger)
		return no_memory(error);
	reading->lane = larger;
	if (reading->lanes == HOSTS_READ_MAX) {
		failure_set(error, E2BIG, "too-many-hosts", "there are more than %u hosts", HOSTS_READ_MAX);
		failure_hint(error, "name some of them: --host 'web-*'");
		return -E2BIG;
	}
	lane = lane_create(reading, host, partition);
	if (!lane || !tsearch(lane, &reading->tree, compare)) {
		if (lane)
			recording_destroy(lane->recording);
		free(lane);
		return no_memory(error);
	}
	*made = reading->lane[reading->lanes++] = lane;
	return 0;
}

static bool is_wanted(const struct reading *reading, const char *host)
{
	const struct reading_wanted *wanted = reading->wanted;

	if (wanted->only)
		return strcmp(host, wanted->only) == 0;
	return parcel_host_is_good(host) && parcel_host_matches(host, wanted->host, wanted->hosts);
}

/* Kafka keeps the order within a partition alone. */
static void note_partition(struct reading *reading, const struct lane *lane, int32_t partition)
{
	if (partition == lane->partition || reading->moved_told)
		return;
	reading->moved_told = true;
	notice_warn("host-moved", "records of %.64s are in the partitions %d and %d of %s.frames: partitions were added. "
		    "What is in one of them may be told as missing, or be left out as what came twice", lane->host,
		    lane->partition, partition, reading->settings->prefix);
}

/* *found NULL: the record is none of theirs. */
static int find_lane(struct reading *reading, const rd_kafka_message_t *record, struct lane **found,
		     struct ringtail_error *error)
{
	struct lane key, **node;

	*found = NULL;
	if (!record->key_len || record->key_len >= sizeof(key.host))
		return 0;
	memcpy(key.host, record->key, record->key_len);
	key.host[record->key_len] = '\0';
	if (strlen(key.host) != record->key_len)
		return 0;
	node = tfind(&key, &reading->tree, compare);
	if (node) {
		*found = *node;
		note_partition(reading, *found, record->partition);
		return 0;
	}
	return is_wanted(reading, key.host) ? add_lane(reading, key.host, record->partition, found, error) : 0;
}

/* ---- Records ------------------------------------------------------------------------------------- */

static int take(struct reading *reading, const rd_kafka_message_t *record, struct ringtail_error *error)
{
	rd_kafka_headers_t *headers;
	struct parcel_label label;
	struct lane *lane;
	int err;

	if (rd_kafka_message_headers(record, &headers) || !parcel_read_label(headers, &label)) {
		reading->other++;
		return 0;
	}
	err = find_lane(reading, record, &lane, error);
	reading->other += !err && !lane;
	return err || !lane ? err : recording_take(lane->recording, &label, record->payload, record->len, error);
}

/* What is here is seen before it waits. */
static int flush(struct reading *reading, struct ringtail_error *error)
{
	int err;

	errno = 0;
	if (!fflush(reading->to) && !ferror(reading->to))
		return 0;
	err = errno ? errno : EIO;
	return failure_set(error, err, "cannot-write", "cannot write the recording: %s", strerror(err));
}

/* 1: that is all. */
static int take_next(struct reading *reading, struct ringtail_error *error)
{
	const rd_kafka_message_t *record;
	enum topic_next next = topic_next(reading->topic, 0, &record, error);
	int err;

	if (next == TOPIC_TIMEOUT) {
		err = flush(reading, error);
		if (err)
			return err;
		next = topic_next(reading->topic, STREAM_WAIT_MS, &record, error);
	}
	switch (next) {
	case TOPIC_RECORD:
		return take(reading, record, error);
	case TOPIC_TIMEOUT:
		return !reading->wanted->follow && topic_waited_ms(reading->topic) >= reading->wanted->patience_ms;
	case TOPIC_END:
		return !reading->wanted->follow;
	case TOPIC_FAILED:
		break;
	}
	return -EIO;
}

/* ---- Its end ------------------------------------------------------------------------------------- */

/* The hosts of a partition of which something is missing. */
struct behind {
	const struct reading *reading;
	int32_t partition;
	bool absent;			/* only those of which nothing has come */
	size_t hosts;
	char names[HOSTS_NAMED_BYTES];
};

static bool has_come(const struct reading *reading, const char *host)
{
	struct lane key;

	snprintf(key.host, sizeof(key.host), "%s", host);
	return tfind(&key, &reading->tree, compare);
}

static void note_behind(void *context, const char *host)
{
	struct behind *behind = context;
	size_t used = strlen(behind->names);

	if (!is_wanted(behind->reading, host) ||
	    topic_partition_of(behind->reading->topic, host) != behind->partition ||
	    (behind->absent && has_come(behind->reading, host)))
		return;
	behind->hosts++;
	if (used + strlen(host) + sizeof(", ...") < sizeof(behind->names))
		snprintf(behind->names + used, sizeof(behind->names) - used, "%s%s", used ? ", " : "", host);
	else if (strcmp(behind->names + used - strlen("..."), "...") != 0)
		snprintf(behind->names + used, sizeof(behind->names) - used, ", ...");
}

/* A partition none of whose hosts is asked for costs nothing. */
static void tell_partition(struct reading *reading, int32_t partition)
{
	struct behind behind = { .reading = reading, .partition = partition };

	runs_each_host(reading->runs, note_behind, &behind);
	if (!behind.hosts)
		return;
	reading->lossy = true;
	notice_warn("partition-still", "nothing came of partition %d of %s.frames for %" PRIu64 " s, and its end did not: "
		    "what it has of %s is missing here", partition, reading->settings->prefix,
		    reading->wanted->patience_ms / 1000, behind.names);
}

static int give_up_partitions(struct reading *reading, struct ringtail_error *error)
{
	int err = 0;

	for (int32_t i = 0; i < (int32_t)topic_partitions(reading->topic); i++)
		if (topic_is_open(reading->topic, i))
			tell_partition(reading, i);
	for (uint32_t i = 0; !err && i < reading->lanes; i++)
		if (topic_is_open(reading->topic, reading->lane[i]->partition))
			err = recording_break(reading->lane[i]->recording, error);
	return err;
}

/* Those of which something came have a gap; of the others nothing else would tell. */
static void tell_cut(struct reading *reading, int32_t partition)
{
	struct behind behind = { .reading = reading, .partition = partition, .absent = true };

	runs_each_host(reading->runs, note_behind, &behind);
	if (!behind.hosts)
		return;
	reading->lossy = true;
	notice_warn("history-gone", "retention has deleted records of partition %d of %s.frames that were asked for, and "
		    "nothing is left of %s: ask for a later time, or raise retention.ms and retention.bytes", partition,
		    reading->settings->prefix, behind.names);
}

static int end_lanes(struct reading *reading, bool stopped, struct ringtail_error *error)
{
	int err = stopped || reading->wanted->follow ? 0 : give_up_partitions(reading, error);

	for (int32_t i = 0; !stopped && i < (int32_t)topic_partitions(reading->topic); i++)
		if (topic_is_cut(reading->topic, i))
			tell_cut(reading, i);
	for (uint32_t i = 0; !err && i < reading->lanes; i++)
		err = recording_end(reading->lane[i]->recording, stopped ? "the reader was stopped" :
				    "that is what Kafka has", error);
	return err ? err : flush(reading, error);
}

static void tell_damaged(struct reading *reading)
{
	for (uint32_t i = 0; i < reading->lanes; i++) {
		const struct recording_ledger *ledger = recording_ledger(reading->lane[i]->recording);

		if (!ledger->damaged)
			continue;
		reading->lossy = true;
		notice_warn("records-damaged", "%" PRIu64 " records of %.64s in %s.frames are damaged, or %s.runs does not "
			    "have their run: what they had is missing", ledger->damaged, reading->lane[i]->host,
			    reading->settings->prefix, reading->settings->prefix);
	}
}

int reading_run(struct reading *reading, const volatile sig_atomic_t *stop, struct ringtail_error *error)
{
	const struct reading_wanted *wanted = reading->wanted;
	const struct topic_wanted of_topic = {
		.which = KAFKA_FRAMES,
		.begin = wanted->since_ms ? TOPIC_TIME : wanted->follow ? TOPIC_NEW : TOPIC_ALL,
		.realtime_ms = (int64_t)wanted->since_ms,
		.key = wanted->only,
		.to_end = !wanted->follow,
	};
	int err = topic_open(reading->settings, &of_topic, &reading->topic, error);

	while (!err && !*stop)
		err = take_next(reading, error);
	if (err >= 0)
		err = end_lanes(reading, *stop, error);
	tell_damaged(reading);
	return err;
}

bool reading_is_lossy(const struct reading *reading)
{
	return reading->lossy;
}

/* ---- Its ledger ---------------------------------------------------------------------------------- */

static void add(struct recording_ledger *sum, const struct recording_ledger *ledger)
{
	sum->records += ledger->records;
	sum->taken += ledger->taken;
	sum->duplicate += ledger->duplicate;
	sum->damaged += ledger->damaged;
	sum->holes += ledger->holes;
	sum->missing += ledger->missing;
}

static void print(FILE *to, bool json, const char *host, const struct recording_ledger *ledger)
{
	fprintf(to, json ?
		"{%s,\"records\":%" PRIu64 ",\"taken\":%" PRIu64 ",\"duplicate\":%" PRIu64 ",\"damaged\":%"
		PRIu64 ",\"residual\":%" PRId64 ",\"holes\":%" PRIu64 ",\"missing\":%" PRIu64 :
		"%s: %" PRIu64 " records = %" PRIu64 " taken + %" PRIu64 " duplicate + %" PRIu64 " damaged; residual %" PRId64
		"; %" PRIu64 " holes, %" PRIu64 " attempts missing in them",
		host, ledger->records, ledger->taken, ledger->duplicate, ledger->damaged,
		(int64_t)(ledger->records - ledger->taken - ledger->duplicate - ledger->damaged), ledger->holes,
		ledger->missing);
}

void reading_print_ledger(const struct reading *reading, FILE *to, bool json)
{
	struct recording_ledger sum = { 0 };
	char host[HOST_BYTES_MAX + 16];

	for (uint32_t i = 0; i < reading->lanes; i++) {
		const struct recording_ledger *ledger = recording_ledger(reading->lane[i]->recording);

		add(&sum, ledger);
		if (reading->wanted->only)
			continue;
		snprintf(host, sizeof(host), json ? "\"host\":\"%s\"" : "%s", reading->lane[i]->host);
		print(to, json, host, ledger);
		fprintf(to, json ? "}\n" : "\n");
	}
	if (reading->wanted->only)
		snprintf(host, sizeof(host), json ? "\"host\":\"%s\"" : "%s", reading->wanted->only);
	else
		snprintf(host, sizeof(host), json ? "\"hosts\":%u" : "%u hosts", reading->lanes);
	print(to, json, host, &sum);
	fprintf(to, json ? ",\"other\":%" PRIu64 "}\n" : "; %" PRIu64 " records of others\n", reading->other);
}
