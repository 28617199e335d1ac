#include "courier/runs.h"

#include <errno.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>

#include "client/lib/conn.h"
#include "client/lib/failure.h"
#include "courier/topic.h"
#include "proto/frame.h"
#include "proto/limits.h"

/* A Catalog frame: hosts with the same kernel and the same probes have the same one, and so have a host's runs. */
struct shared {
	size_t rows;			/* that have it */
	uint32_t crc;
	size_t bytes;
	uint8_t frame[];
};

/* A row of the tree; its key is the record's: HOST, NUL, RUN, NUL, CATALOG. */
struct row {
	size_t key_bytes, hello_bytes;
	uint8_t *hello;			/* NULL: it was waited for in vain */
	struct shared *catalog;
	char key[];
};

struct runs {
	struct topic *topic;
	const char *const *host;	/* globs; */
	size_t hosts;			/* 0: all */
	void *tree, *catalogs;
	size_t rows, bytes;
};

static int compare_catalogs(const void *a, const void *b)
{
	const struct shared *x = a, *y = b;

	if (x->crc != y->crc || x->bytes != y->bytes)
		return x->crc != y->crc ? (x->crc > y->crc) - (x->crc < y->crc) : (x->bytes > y->bytes) - (x->bytes < y->bytes);
	return memcmp(x->frame, y->frame, x->bytes);
}

static int compare(const void *a, const void *b)
{
	const struct row *x = a, *y = b;
	size_t bytes = x->key_bytes < y->key_bytes ? x->key_bytes : y->key_bytes;
	int order = memcmp(x->key, y->key, bytes);

	return order ? order : (x->key_bytes > y->key_bytes) - (x->key_bytes < y->key_bytes);
}

static struct row *row_create(const void *key, size_t key_bytes)
{
	struct row *row = calloc(1, sizeof(*row) + key_bytes + 1);

	if (row) {
		row->key_bytes = key_bytes;
		memcpy(row->key, key, key_bytes);
	}
	return row;
}

static void row_destroy(void *of)
{
	struct row *row = of;

	free(row->hello);
	free(row);
}

static int no_memory(struct ringtail_error *error)
{
	return failure_set(error, ENOMEM, "no-memory", "out of memory");
}

static int check_bounds(const struct runs *runs, struct ringtail_error *error)
{
	if (runs->rows <= RUNS_MAX && runs->bytes <= RUNS_BYTES_MAX)
		return 0;
	failure_set(error, E2BIG, "too-many-runs", "PREFIX.runs has more than %u runs, or %u MiB of them", RUNS_MAX,
		    RUNS_BYTES_MAX >> 20);
	failure_hint(error, "name some of the hosts with --host");
	return -E2BIG;
}

/* The one of these bytes, which has one row more. NULL: out of memory. */
static struct shared *get_catalog(struct runs *runs, const uint8_t *frame, size_t bytes)
{
	struct shared *made = malloc(sizeof(*made) + bytes), **found;

	if (!made)
		return NULL;
	*made = (struct shared){ .crc = frame_crc32c(0, frame, bytes), .bytes = bytes };
	memcpy(made->frame, frame, bytes);
	found = tsearch(made, &runs->catalogs, compare_catalogs);
	if (found && *found == made)
		runs->bytes += sizeof(*made) + bytes;
	else
		free(made);
	if (!found)
		return NULL;
	(*found)->rows++;
	return *found;
}

static void put_catalog(struct runs *runs, struct shared *catalog)
{
	if (!catalog || --catalog->rows)
		return;
	runs->bytes -= sizeof(*catalog) + catalog->bytes;
	tdelete(catalog, &runs->catalogs, compare_catalogs);
	free(catalog);
}

static int add(struct runs *runs, struct row *row)
{
	if (!tsearch(row, &runs->tree, compare))
		return -ENOMEM;
	runs->rows++;
	runs->bytes += sizeof(*row) + row->key_bytes;
	return 0;
}

/* The newest of a key counts, as it does for Kafka's compaction. */
static int put(struct runs *runs, struct row *row, const uint8_t *hello, size_t hello_bytes, const uint8_t *catalog,
	       size_t catalog_bytes)
{
	uint8_t *copy = malloc(hello_bytes);
	struct shared *shared = copy ? get_catalog(runs, catalog, catalog_bytes) : NULL;

	if (!shared) {
		free(copy);
		return -ENOMEM;
	}
	memcpy(copy, hello, hello_bytes);
	runs->bytes += hello_bytes - row->hello_bytes;
	free(row->hello);
	put_catalog(runs, row->catalog);
	row->hello = copy;
	row->hello_bytes = hello_bytes;
	row->catalog = shared;
	return 0;
}

/* Two frames, the hello and the catalog; their checksums are looked at where they are opened. 0: it is something else. */
static size_t hello_bytes_of(const uint8_t *value, size_t n)
{
	struct frame_header hello, catalog;
	size_t bytes;

	if (frame_parse_header(value, n, FRAME_RAW_BYTES_MAX, &hello) != FRAME_OK || hello.type != FRAME_SERVER_HELLO)
		return 0;
	bytes = FRAME_HEADER_BYTES + hello.body_bytes;
	if (bytes >= n || frame_parse_header(value + bytes, n - bytes, FRAME_RAW_BYTES_MAX, &catalog) != FRAME_OK ||
	    catalog.type != FRAME_CATALOG || bytes + FRAME_HEADER_BYTES + catalog.body_bytes != n)
		return 0;
	return bytes;
}

static struct row *look_up(const struct runs *runs, const struct row *wanted)
{
	struct row **found = tfind(wanted, &runs->tree, compare);

	return found ? *found : NULL;
}

static int take_value(struct runs *runs, const rd_kafka_message_t *record, struct ringtail_error *error)
{
	const uint8_t *value = record->payload;
	size_t hello_bytes = hello_bytes_of(value, record->len);
	struct row *row = row_create(record->key, record->key_len), *there = row ? look_up(runs, row) : NULL;
	int err = row ? 0 : -ENOMEM;

	if (!hello_bytes) {
		free(row);
		return 0;
	}
	if (!err && !there)
		err = add(runs, row);
	if (err || there)
		free(row);
	if (!err)
		err = put(runs, there ? there : row, value, hello_bytes, value + hello_bytes, record->len - hello_bytes);
	return err ? no_memory(error) : check_bounds(runs, error);
}

/* A deletion; of one that was waited for in vain, that stays known. */
static void remove_row(struct runs *runs, const rd_kafka_message_t *record)
{
	struct row *wanted = row_create(record->key, record->key_len), *row = wanted ? look_up(runs, wanted) : NULL;

	free(wanted);
	if (!row || !row->hello)
		return;
	tdelete(row, &runs->tree, compare);
	put_catalog(runs, row->catalog);
	runs->rows--;
	runs->bytes -= sizeof(*row) + row->key_bytes + row->hello_bytes;
	row_destroy(row);
}

static int take(struct runs *runs, const rd_kafka_message_t *record, struct ringtail_error *error)
{
	size_t host_bytes = record->key ? strnlen(record->key, record->key_len) : 0;

	/* Another program's. */
	if (!record->key_len || record->key_len > PARCEL_KEY_BYTES_MAX || host_bytes == record->key_len ||
	    record->len > RECORD_BYTES_MAX)
		return 0;
	if (!record->payload) {
		remove_row(runs, record);
		return 0;
	}
	if (!parcel_host_is_good(record->key) || !parcel_host_matches(record->key, runs->host, runs->hosts))
		return 0;
	return take_value(runs, record, error);
}

/* Up to the topic's end; or, with a row that is waited for, until it is there or it is late. */
static int read_on(struct runs *runs, const struct row *wanted, unsigned wait_ms, struct ringtail_error *error)
{
	uint64_t until_ns = conn_now_ns() + wait_ms * 1000000ull;
	const rd_kafka_message_t *record;
	const struct row *there;
	int err;

	do {
		switch (topic_next(runs->topic, wait_ms ? 100 : 0, &record, error)) {
		case TOPIC_RECORD:
			err = take(runs, record, error);
			if (err)
				return err;
			there = wanted ? look_up(runs, wanted) : NULL;
			if (there && there->hello)
				return 0;
			break;
		case TOPIC_END:
			if (!wanted)
				return 0;
			break;
		case TOPIC_FAILED:
			return -EIO;
		case TOPIC_TIMEOUT:
			break;
		}
	} while (conn_now_ns() < until_ns);
	return wanted ? 0 : failure_set(error, ETIMEDOUT, "kafka-slow", "the topic of runs was not read in time");
}

int runs_open(const struct kafka_settings *settings, const char *const *host, size_t hosts, struct runs **made,
	      struct ringtail_error *error)
{
	const struct topic_wanted wanted = { .which = KAFKA_RUNS, .begin = TOPIC_ALL };
	struct runs *runs = calloc(1, sizeof(*runs));
	int err;

	if (!runs)
		return no_memory(error);
	runs->host = host;
	runs->hosts = hosts;
	err = topic_open(settings, &wanted, &runs->topic, error);
	if (!err)
		err = read_on(runs, NULL, REACH_TIMEOUT_MS * 12, error);
	if (err)
		runs_close(runs);
	else
		*made = runs;
	return err;
}

void runs_close(struct runs *runs)
{
	if (!runs)
		return;
	topic_close(runs->topic);
	tdestroy(runs->tree, row_destroy);
	tdestroy(runs->catalogs, free);
	free(runs);
}

/* ---- Hosts -------------------------------------------------------------------------------------- */

struct walk {
	const char *last;
	void (*each)(void *context, const char *host);
	void *context;
};

static void visit(const void *node, VISIT when, void *closure)
{
	const struct row *row = *(const struct row *const *)node;
	struct walk *walk = closure;

	if ((when != postorder && when != leaf) || (walk->last && strcmp(walk->last, row->key) == 0))
		return;
	walk->last = row->key;
	walk->each(walk->context, row->key);
}

void runs_each_host(const struct runs *runs, void (*each)(void *context, const char *host), void *context)
{
	struct walk walk = { .each = each, .context = context };

	twalk_r(runs->tree, visit, &walk);
}

/* ---- Beginnings ---------------------------------------------------------------------------------- */

/* It is not waited for again: each of its records would wait. */
static int note_missing(struct runs *runs, const struct row *wanted, struct ringtail_error *error)
{
	struct row *row = row_create(wanted->key, wanted->key_bytes);

	if (row && add(runs, row) == 0)
		return check_bounds(runs, error);
	free(row);
	return no_memory(error);
}

int runs_find(struct runs *runs, const char *host, const struct parcel_label *label,
	      struct runs_beginning *beginning, struct ringtail_error *error)
{
	const struct parcel key_of = { .topic = KAFKA_RUNS, .label = *label };
	char key[PARCEL_KEY_BYTES_MAX];
	struct row *wanted = row_create(key, parcel_key(&key_of, host, key)), *found;
	int err = 0;

	if (!wanted)
		return no_memory(error);
	found = look_up(runs, wanted);
	if (!found || !found->hello) {
		err = read_on(runs, wanted, found ? 0 : RUN_WAIT_MS, error);
		found = look_up(runs, wanted);
	}
	if (!err && !found)
		err = note_missing(runs, wanted, error);
	if (!err && found && found->hello)
		*beginning = (struct runs_beginning){
			.hello = found->hello, .hello_bytes = found->hello_bytes,
			.catalog = found->catalog->frame, .catalog_bytes = found->catalog->bytes,
		};
	else if (!err)
		err = failure_set(error, ENOENT, "run-unknown", "PREFIX.runs does not have the run that frames of "
				  "%.64s belong to", host);
	free(wanted);
	return err;
}
