#include "daemon/collect/counting.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/collect/batcher.h"
#include "kmod/uapi/ringtail.h"
#include "query/constant.h"
#include "query/filter.h"
#include "query/tally.h"

#define KEY_BYTES_MAX	480u
#define KEYS_BYTES	(128u << 10)
#define SLOTS		(2 * COUNT_ROWS_MAX)
#define BLOCKS_MAX	(COUNT_BUCKETS_MAX / 2)
#define EVENTS_MAX	(1u << 31)	/* of all rows: a bucket counts in 32 bits */
#define RECORD_WORDS_MAX 256u
#define NEVER		UINT64_MAX	/* the duration of a call that does not return */

_Static_assert(TALLY_BUCKETS == COUNT_BUCKET_NUMBERS, "the buckets are those of the tally");
_Static_assert((SLOTS & (SLOTS - 1)) == 0, "a power of two");
_Static_assert(BLOCKS_MAX < UINT16_MAX && COUNT_ROWS_MAX < UINT16_MAX, "numbers from 1 fit");

/* ---- What is asked --------------------------------------------------------------------------- */

/* One thing that a text of `by` depends on. */
enum step_kind {
	STEP_PID, STEP_TID, STEP_PPID, STEP_UID, STEP_COMM, STEP_PROBE, STEP_ERROR, STEP_EXE, STEP_CGROUP,
	STEP_TEXTS,		/* all texts that are attached */
	STEP_FIELD,		/* the field's text, or its value where it has none */
	STEP_FIELDS,		/* the same, and where it has none, all fields: what is told of it depends on others */
	STEP_THREAD,		/* the same of a field that is a tid, and who that is */
};

struct plan {
	struct {
		uint8_t kind, field;
	} step[QUESTION_BY_MAX];
	uint8_t steps;
	bool is_call;			/* its duration may be NEVER */
	bool texts;			/* some step needs them */
	uint32_t fields;		/* a bit for each that some step needs */
	int8_t result, of;		/* fields; below 0: it has none */
	uint8_t of_bits, of_type;
	uint16_t probe;
};

struct question {
	char by[QUESTION_BY_MAX][QUESTION_NAME_BYTES_MAX + 1];
	size_t bys;
	char of[QUESTION_NAME_BYTES_MAX + 1];
	uint64_t interval_ns, origin_ns;
	struct probe_set plain;
	uint16_t at[RT_PROBE_MAX];	/* of the probe's plan, plus 1 */
	struct plan plan[];
};

static int refuse(struct error *error, const char *what)
{
	return error_set(error, EINVAL, "question-invalid", "%s", what);
}

static int check(const struct question_request *request, struct error *error)
{
	if (request->bys > QUESTION_BY_MAX)
		return refuse(error, "the question counts by too many names");
	for (size_t i = 0; i < request->bys; i++)
		if (!*request->by[i] || strlen(request->by[i]) > QUESTION_NAME_BYTES_MAX)
			return refuse(error, "a name in the question is empty or too long");
	if (strlen(request->of) > QUESTION_NAME_BYTES_MAX)
		return refuse(error, "a name in the question is too long");
	if (request->interval_ns && request->interval_ns < QUESTION_INTERVAL_NS_MIN)
		return refuse(error, "the question's interval is too short");
	return 0;
}

/* "duration" and "ret" are what a call's fields are called, whatever the catalog calls them. */
static int field_of(const Ringtail__V1__Probe *probe, const char *name)
{
	name = filter_field_name(name);
	for (size_t i = 0; i < probe->n_field; i++)
		if (strcmp(probe->field[i]->name, name) == 0 ||
		    (probe->field[i]->type == RINGTAIL__V1__FIELD_TYPE__FIELD_DURATION && strcmp(name, "duration") == 0) ||
		    (probe->field[i]->type == RINGTAIL__V1__FIELD_TYPE__FIELD_RESULT && strcmp(name, "ret") == 0))
			return (int)i;
	return -1;
}

/* Whether what a value is called depends on another field. */
static bool depends_on_others(const Ringtail__V1__Probe *probe, const Ringtail__V1__Field *field)
{
	const struct constant_rule *rule = constant_rule(probe->function, field->name);
	uint32_t ignored;

	for (; rule; rule = constant_rule_next(rule))
		if (constant_rule_other(rule, &ignored))
			return true;
	return false;
}

static enum step_kind kind_of_field(const Ringtail__V1__Probe *probe, const Ringtail__V1__Field *field)
{
	switch (field->type) {
	case RINGTAIL__V1__FIELD_TYPE__FIELD_THREAD:
		return STEP_THREAD;
	case RINGTAIL__V1__FIELD_TYPE__FIELD_TEXT:
	case RINGTAIL__V1__FIELD_TYPE__FIELD_BYTES:
	case RINGTAIL__V1__FIELD_TYPE__FIELD_MORE:
		return STEP_FIELDS;
	default:
		return depends_on_others(probe, field) ? STEP_FIELDS : STEP_FIELD;
	}
}

static void add_step(struct plan *plan, enum step_kind kind, unsigned field)
{
	plan->texts |= kind == STEP_TEXTS || kind == STEP_FIELD || kind == STEP_FIELDS || kind == STEP_THREAD;
	if (kind == STEP_FIELDS)
		plan->fields = UINT32_MAX;
	else if (kind == STEP_FIELD || kind == STEP_THREAD)
		plan->fields |= 1u << field;
	else if (kind == STEP_ERROR && plan->result >= 0)
		plan->fields |= 1u << plan->result;
	plan->step[plan->steps].kind = (uint8_t)kind;
	plan->step[plan->steps++].field = (uint8_t)field;
}

/* The names that mean the same of every probe. */
static const struct {
	const char *name;
	enum step_kind kind;
} parts[] = {
	{"pid", STEP_PID}, {"tid", STEP_TID}, {"ppid", STEP_PPID}, {"uid", STEP_UID}, {"comm", STEP_COMM},
	{"probe", STEP_PROBE}, {"provider", STEP_PROBE}, {"function", STEP_PROBE}, {"name", STEP_PROBE},
	{"error", STEP_ERROR}, {"exe", STEP_EXE}, {"cgroup", STEP_CGROUP}, {"container", STEP_CGROUP},
	{"unit", STEP_CGROUP}, {"path", STEP_TEXTS},
};

/* `cpu` and `host` are those of the batch. What the probe does not have is the same in all its events. */
static void plan_name(struct plan *plan, const Ringtail__V1__Probe *probe, const char *name)
{
	int field = field_of(probe, name);

	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
		if (strcmp(name, parts[i].name) == 0) {
			add_step(plan, parts[i].kind, 0);
			return;
		}
	if (strcmp(name, "cpu") == 0 || strcmp(name, "host") == 0)
		return;
	if ((strcmp(name, "addr") == 0 || strcmp(name, "port") == 0) && field < 0)
		add_step(plan, STEP_TEXTS, 0);
	else if (field >= 0)
		add_step(plan, kind_of_field(probe, probe->field[field]), (unsigned)field);
}

static void make_plan(const struct question *question, const Ringtail__V1__Probe *probe, struct plan *plan)
{
	plan->probe = (uint16_t)probe->id;
	plan->is_call = strcmp(probe->name, "call") == 0 && probe->n_field >= 2 &&
			probe->field[0]->type == RINGTAIL__V1__FIELD_TYPE__FIELD_DURATION &&
			probe->field[1]->type == RINGTAIL__V1__FIELD_TYPE__FIELD_RESULT;
	plan->result = (int8_t)field_of(probe, "ret");
	plan->of = (int8_t)(question->of[0] ? field_of(probe, question->of) : -1);
	if (plan->of >= 0) {
		plan->of_bits = (uint8_t)probe->field[plan->of]->bits;
		plan->of_type = (uint8_t)probe->field[plan->of]->type;
	}
	for (size_t i = 0; i < question->bys; i++)
		plan_name(plan, probe, question->by[i]);
}

/*
 * A count has no time, so there must be one slice; and of what has a result, only calls are counted with their errors.
 */
static bool is_plain(const struct question *question, const struct plan *plan)
{
	for (unsigned i = 0; i < plan->steps; i++)
		if (plan->step[i].kind != STEP_PROBE)
			return false;
	return !question->of[0] && !question->interval_ns && (plan->is_call || plan->result < 0);
}

int question_create(const struct question_request *request, const struct probe_set *probes,
		    const Ringtail__V1__Catalog *catalog, struct question **out, struct error *error)
{
	struct question *question;
	unsigned plans = 0;
	int err = check(request, error);

	if (err)
		return err;
	for (size_t i = 0; i < catalog->n_probe; i++)
		plans += probe_set_test(probes, catalog->probe[i]->id);
	question = calloc(1, sizeof(*question) + plans * sizeof(question->plan[0]));
	if (!question)
		return error_set(error, ENOMEM, "out-of-memory", "out of memory");
	for (; question->bys < request->bys; question->bys++)
		strcpy(question->by[question->bys], request->by[question->bys]);
	strcpy(question->of, request->of);
	question->interval_ns = request->interval_ns;
	question->origin_ns = request->interval_ns ? request->origin_ns % request->interval_ns : 0;
	plans = 0;
	for (size_t i = 0; i < catalog->n_probe; i++) {
		if (!probe_set_test(probes, catalog->probe[i]->id))
			continue;
		make_plan(question, catalog->probe[i], &question->plan[plans++]);
		question->at[catalog->probe[i]->id] = (uint16_t)plans;
		if (is_plain(question, &question->plan[plans - 1]))
			probe_set_add(&question->plain, (uint16_t)catalog->probe[i]->id);
	}
	*out = question;
	return 0;
}

const struct probe_set *question_plain_probes(const struct question *question)
{
	return &question->plain;
}

void question_destroy(struct question *question)
{
	free(question);
}

bool question_equal(const struct question *a, const struct question *b)
{
	if (!a || !b)
		return a == b;
	return a->bys == b->bys && memcmp(a->by, b->by, sizeof(a->by)) == 0 && strcmp(a->of, b->of) == 0 &&
	       a->interval_ns == b->interval_ns && a->origin_ns == b->origin_ns;
}

uint64_t question_slice(const struct question *question, uint64_t time_ns)
{
	uint64_t since_ns;

	if (!question->interval_ns || time_ns < question->origin_ns)
		return 0;
	since_ns = (time_ns - question->origin_ns) % question->interval_ns;
	return time_ns - since_ns % QUESTION_SLICE_NS;
}

/* ---- Keys ------------------------------------------------------------------------------------ */

struct key {
	uint32_t bytes;
	bool is_cut;			/* there was no room for all of it: it is like no other */
	uint8_t data[KEY_BYTES_MAX];
};

struct row {
	uint32_t hash, key_at, key_bytes;
	uint64_t events, errors, values, least, greatest;
	unsigned __int128 sum;
	uint16_t block[TALLY_ROWS];	/* of buckets, plus 1; 0: all of them are empty */
};

struct counting {
	const struct batcher_spec *spec;
	struct thread_table *threads;
	uint32_t rows, keys_bytes, blocks, buckets;
	uint64_t events, slice_ns;
	struct key key;			/* of the event at hand, */
	const struct plan *plan;	/* and of its probe */
	uint32_t hash;
	struct ring_item bare;		/* counting_bare() */
	uint64_t payload[RECORD_WORDS_MAX];
	struct counts_writer *writer;
	uint16_t slot[SLOTS];		/* rows, plus 1 */
	struct row row[COUNT_ROWS_MAX];
	uint8_t keys[KEYS_BYTES];
	uint32_t block[BLOCKS_MAX][TALLY_STEPS];
};

static void put(struct key *key, const void *data, size_t bytes)
{
	if (bytes > sizeof(key->data) - key->bytes) {
		key->is_cut = true;
		return;
	}
	memcpy(key->data + key->bytes, data, bytes);
	key->bytes += (uint32_t)bytes;
}

static inline void put_word(struct key *key, uint64_t word)
{
	put(key, &word, sizeof(word));
}

static inline bool never_returns(const struct plan *plan, const struct ring_item *item)
{
	return plan->is_call && item->payload[0] == NEVER;
}

/* The errno of a call's result; 0: it has none. */
static inline uint64_t errno_of(const struct plan *plan, const struct ring_item *item)
{
	uint64_t result;

	if (plan->result < 0 || never_returns(plan, item))
		return 0;
	result = item->payload[plan->result];
	return result >= (uint64_t)-(int64_t)RT_ERRNO_MAX ? -result : 0;
}

/* The texts of that field, or of all (below 0), as they lie in the record. False: there is none. */
static bool put_texts(const struct counting *counting, struct key *key, const struct ring_item *item,
		      const struct probe_info *info, int field)
{
	const uint8_t *at = (const uint8_t *)(item->payload + info->fields);
	size_t left = (item->words - info->fields) * sizeof(uint64_t);
	bool any = false;

	while (left >= sizeof(struct rt_attachment)) {
		const struct rt_attachment *attachment = (const void *)at;
		size_t bytes = sizeof(*attachment) + ((attachment->bytes + 7ull) & ~7ull);
		uint32_t of = batcher_field_of_arg(info, attachment->arg);

		if (bytes > left)
			break;
		if (attachment->kind != RT_ATTACH_KSTACK && attachment->kind != RT_ATTACH_USTACK &&
		    (field < 0 || of == (uint32_t)field) && batcher_wants_text(counting->spec, item->probe, info, of)) {
			put(key, attachment, sizeof(*attachment) + attachment->bytes);
			/* What is shown of a buffer may end where the call's result says. */
			if (attachment->kind == RT_ATTACH_DATA && info->has_duration)
				put_word(key, item->payload[1]);
			any = true;
		}
		at += bytes;
		left -= bytes;
	}
	return any;
}

static void put_who(const struct counting *counting, struct key *key, uint32_t tid)
{
	uint32_t index = thread_table_find(counting->threads, tid);

	if (index != THREAD_NONE)
		put(key, thread_table_get(counting->threads, index)->comm, RT_COMM_BYTES);
}

static void put_field(const struct counting *counting, struct key *key, const struct ring_item *item,
		      const struct probe_info *info, enum step_kind kind, unsigned field)
{
	uint32_t mark = key->bytes;

	put(key, "", 1);
	if (item->words > info->fields && put_texts(counting, key, item, info, (int)field)) {
		key->data[mark] = !key->is_cut;
		return;
	}
	if (kind == STEP_FIELDS)
		put(key, item->payload + info->has_duration, (info->fields - info->has_duration) * sizeof(uint64_t));
	else
		put_word(key, item->payload[field]);
	if (kind == STEP_THREAD)
		put_who(counting, key, (uint32_t)item->payload[field]);
}

static void put_step(const struct counting *counting, struct key *key, const struct plan *plan, unsigned i,
		     const struct ring_item *item, const struct probe_info *info, const struct batch_thread *thread)
{
	switch ((enum step_kind)plan->step[i].kind) {
	case STEP_PID:
		put_word(key, thread->pid);
		break;
	case STEP_TID:
		put_word(key, thread->tid);
		break;
	case STEP_PPID:
		put_word(key, thread->ppid);
		break;
	case STEP_UID:
		put_word(key, thread->uid);
		break;
	case STEP_COMM:
		put(key, thread->comm, sizeof(thread->comm));
		break;
	case STEP_PROBE:
		put_word(key, plan->probe);
		break;
	case STEP_ERROR:
		put_word(key, errno_of(plan, item));
		break;
	case STEP_EXE:
		put_word(key, thread->exe ? thread->exe->serial : 0);
		break;
	case STEP_CGROUP:
		put_word(key, thread->cgroup ? thread->cgroup->serial : 0);
		break;
	case STEP_TEXTS:
		if (item->words > info->fields)
			put_texts(counting, key, item, info, -1);
		put_word(key, plan->probe);
		break;
	case STEP_FIELD:
	case STEP_FIELDS:
	case STEP_THREAD:
		put_word(key, plan->probe);
		put_field(counting, key, item, info, plan->step[i].kind, plan->step[i].field);
		break;
	}
}

/* The first byte says what a client asks of an event beside the texts. */
static void make_key(const struct counting *counting, struct key *key, const struct plan *plan,
		     const struct ring_item *item, const struct probe_info *info, const struct batch_thread *thread)
{
	bool of_time = plan->of >= 0 && plan->of_type == RINGTAIL__V1__FIELD_TYPE__FIELD_DURATION;

	key->bytes = 1;
	key->is_cut = false;
	key->data[0] = (uint8_t)(never_returns(plan, item) | of_time << 1);
	for (unsigned i = 0; i < plan->steps; i++)
		put_step(counting, key, plan, i, item, info, thread);
}

/* FNV-1a over words, and over the bytes that are left. */
static uint32_t hash_of(const struct key *key)
{
	uint64_t hash = 0xcbf29ce484222325ull, word;
	uint32_t at = 0;

	for (; at + sizeof(word) <= key->bytes; at += sizeof(word)) {
		memcpy(&word, key->data + at, sizeof(word));
		hash = (hash ^ word) * 0x100000001b3ull;
		hash ^= hash >> 29;
	}
	for (; at < key->bytes; at++)
		hash = (hash ^ key->data[at]) * 0x100000001b3ull;
	return (uint32_t)(hash ^ hash >> 32);
}

/* ---- Rows ------------------------------------------------------------------------------------ */

struct counting *counting_create(const struct batcher_spec *spec, struct thread_table *threads)
{
	struct counting *counting = malloc(sizeof(*counting));

	if (!counting)
		return NULL;
	memset(counting, 0, offsetof(struct counting, row));
	counting->spec = spec;
	counting->threads = threads;
	counting->writer = counts_writer_create();
	if (counting->writer)
		return counting;
	free(counting);
	return NULL;
}

void counting_destroy(struct counting *counting)
{
	if (!counting)
		return;
	counts_writer_destroy(counting->writer);
	free(counting);
}

void counting_clear(struct counting *counting)
{
	if (counting->rows)
		memset(counting->slot, 0, sizeof(counting->slot));
	counting->rows = counting->keys_bytes = counting->blocks = counting->buckets = 0;
	counting->events = 0;
}

bool counting_has_room(const struct counting *counting)
{
	return counting->rows < COUNT_ROWS_MAX && counting->keys_bytes + KEY_BYTES_MAX <= KEYS_BYTES &&
	       counting->blocks < BLOCKS_MAX && counting->buckets < COUNT_BUCKETS_MAX &&
	       counting->events < EVENTS_MAX;
}

uint32_t counting_rows(const struct counting *counting)
{
	return counting->rows;
}

uint64_t counting_events(const struct counting *counting)
{
	return counting->events;
}

uint64_t counting_slice(const struct counting *counting)
{
	return counting->slice_ns;
}

/* The value with the field's own width and sign. False: it is below 0, or there is none. */
static bool value_of(const struct plan *plan, const struct ring_item *item, uint64_t *value)
{
	unsigned unused = plan->of_bits && plan->of_bits < 64 ? 64u - plan->of_bits : 0;

	if (plan->of < 0 || (plan->of < 2 && never_returns(plan, item)))
		return false;
	*value = item->payload[plan->of];
	switch (plan->of_type) {
	case RINGTAIL__V1__FIELD_TYPE__FIELD_FD:
		*value = (uint64_t)(int64_t)(int32_t)*value;
		return (int64_t)*value >= 0;		/* AT_FDCWD is no descriptor */
	case RINGTAIL__V1__FIELD_TYPE__FIELD_SIGNED:
		*value = (uint64_t)((int64_t)(*value << unused) >> unused);
		return (int64_t)*value >= 0;
	case RINGTAIL__V1__FIELD_TYPE__FIELD_RESULT:
		return (int64_t)*value >= 0;
	case RINGTAIL__V1__FIELD_TYPE__FIELD_UNSIGNED:
	case RINGTAIL__V1__FIELD_TYPE__FIELD_HEX:
	case RINGTAIL__V1__FIELD_TYPE__FIELD_THREAD:
		*value = *value << unused >> unused;
		return true;
	default:
		return true;
	}
}

static void add_value(struct counting *counting, struct row *row, uint64_t value)
{
	unsigned bucket = tally_bucket(value);
	uint16_t *block = &row->block[bucket / TALLY_STEPS];
	uint32_t *values;

	if (!row->values || value < row->least)
		row->least = value;
	if (!row->values || value > row->greatest)
		row->greatest = value;
	row->values++;
	row->sum += value;
	if (!*block) {
		memset(counting->block[counting->blocks], 0, sizeof(counting->block[0]));
		*block = (uint16_t)++counting->blocks;
	}
	values = &counting->block[*block - 1][bucket % TALLY_STEPS];
	counting->buckets += !*values;
	++*values;
}

static void count(struct counting *counting, struct row *row, const struct ring_item *item)
{
	uint64_t value;

	counting->events++;
	row->events++;
	row->errors += errno_of(counting->plan, item) != 0;
	if (value_of(counting->plan, item, &value))
		add_value(counting, row, value);
}

static struct row *find(struct counting *counting)
{
	uint32_t at = counting->hash & (SLOTS - 1);

	for (; counting->slot[at]; at = (at + 1) & (SLOTS - 1)) {
		struct row *row = &counting->row[counting->slot[at] - 1];

		if (row->hash == counting->hash && row->key_bytes == counting->key.bytes &&
		    memcmp(counting->keys + row->key_at, counting->key.data, row->key_bytes) == 0)
			return row;
	}
	return NULL;
}

bool counting_add(struct counting *counting, const struct ring_item *item, const struct probe_info *info,
		  const struct batch_thread *thread)
{
	const struct question *question = counting->spec->question;
	struct row *row = NULL;

	counting->plan = &question->plan[question->at[item->probe] - 1];
	make_key(counting, &counting->key, counting->plan, item, info, thread);
	counting->hash = hash_of(&counting->key);
	if (!counting->key.is_cut)
		row = find(counting);
	if (row)
		count(counting, row, item);
	return row;
}

/* A row of the key at hand. */
static struct row *add_row(struct counting *counting, uint64_t slice_ns)
{
	struct row *row = &counting->row[counting->rows];
	uint32_t at = counting->hash & (SLOTS - 1);

	if (!counting->rows++)
		counting->slice_ns = slice_ns;
	*row = (struct row){.hash = counting->hash, .key_at = counting->keys_bytes,
			    .key_bytes = counting->key.is_cut ? 0 : counting->key.bytes};
	memcpy(counting->keys + row->key_at, counting->key.data, row->key_bytes);
	counting->keys_bytes += row->key_bytes;
	while (counting->slot[at])
		at = (at + 1) & (SLOTS - 1);
	counting->slot[at] = (uint16_t)counting->rows;
	return row;
}

void counting_add_row(struct counting *counting, const struct ring_item *item, uint64_t slice_ns)
{
	count(counting, add_row(counting, slice_ns), item);
}

static void count_plain(struct counting *counting, struct row *row, uint64_t good, uint64_t bad)
{
	counting->events += good + bad;
	row->events += good + bad;
	row->errors += bad;
}

bool counting_add_plain(struct counting *counting, const struct ring_item *item, uint64_t good, uint64_t bad)
{
	const struct question *question = counting->spec->question;
	const struct batch_thread nobody = {0};
	struct row *row;

	counting->plan = &question->plan[question->at[item->probe] - 1];
	make_key(counting, &counting->key, counting->plan, item, NULL, &nobody);
	counting->hash = hash_of(&counting->key);
	row = find(counting);
	if (row)
		count_plain(counting, row, good, bad);
	return row;
}

void counting_add_plain_row(struct counting *counting, uint64_t slice_ns, uint64_t good, uint64_t bad)
{
	count_plain(counting, add_row(counting, slice_ns), good, bad);
}

/* What is shown of a buffer may end where the call's result says: its texts take that, too. */
const struct ring_item *counting_bare(struct counting *counting, const struct ring_item *item,
				      const struct probe_info *info)
{
	const struct plan *plan = counting->plan;
	uint32_t fields = plan->fields | (plan->texts && info->data_fields && info->has_duration ? 2u : 0);

	if (item->words > RECORD_WORDS_MAX)
		return item;
	counting->bare = *item;
	counting->bare.payload = counting->payload;
	if (!plan->texts)
		counting->bare.words = info->fields;
	memcpy(counting->payload, item->payload, counting->bare.words * sizeof(counting->payload[0]));
	for (unsigned i = 0; i < info->fields; i++)
		if (!(fields >> i & 1) && !(i == 0 && never_returns(plan, item)))
			counting->payload[i] = 0;
	return &counting->bare;
}

/* ---- What is sent ---------------------------------------------------------------------------- */

static uint32_t gather_buckets(const struct counting *counting, const struct row *row,
			       struct count_bucket bucket[COUNT_BUCKET_NUMBERS])
{
	uint32_t n = 0;

	for (unsigned i = 0; i < TALLY_ROWS; i++)
		for (unsigned step = 0; row->block[i] && step < TALLY_STEPS; step++)
			if (counting->block[row->block[i] - 1][step])
				bucket[n++] = (struct count_bucket){
					.number = i * TALLY_STEPS + step,
					.values = counting->block[row->block[i] - 1][step],
				};
	return n;
}

const uint8_t *counting_pack(struct counting *counting, size_t *bytes)
{
	struct count_bucket bucket[COUNT_BUCKET_NUMBERS];

	counts_writer_begin(counting->writer);
	for (uint32_t i = 0; i < counting->rows; i++) {
		const struct row *row = &counting->row[i];
		struct batch_counts counts = {
			.events = row->events, .errors = row->errors, .values = row->values,
			.least = row->least, .greatest = row->greatest,
			.sum = (uint64_t)row->sum, .sum_high = (uint64_t)(row->sum >> 64),
			.buckets = row->values ? gather_buckets(counting, row, bucket) : 0, .bucket = bucket,
		};

		counts_writer_add(counting->writer, &counts);
	}
	return counts_writer_finish(counting->writer, bytes);
}
