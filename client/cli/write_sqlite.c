/*
 * write_sqlite: items in, one SQLite file out: a table for each probe, with a column of its type for each
 * field; beside them what threads, losses, runs and stacks there were. docs/tracectl.1 lists the columns.
 *
 * The file is made beside the one that -w names and takes its place when it is whole. Text reaches
 * SQLite as a bound parameter; of names that came with the recording only letters, digits and _ become
 * part of a name in SQL, always in quotes. One transaction, without a journal: a file that was not
 * finished is removed.
 */
#include "client/cli/sink.h"

#include <errno.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "client/cli/json_event.h"
#include "client/cli/output.h"
#include "client/cli/shape_set.h"
#include "client/cli/stack_set.h"
#include "client/lib/failure.h"
#include "proto/limits.h"
#include "query/utf8.h"

#define NAME_BYTES	80u		/* of a table or a column, cut there */
#define SQL_BYTES	8192u
#define COLUMNS_MAX	(8 + 2 * PROBE_FIELDS_MAX)
#define OWN_COLUMNS	6		/* before the fields: time, wall, run, cpu, seq, thread */

/* What a shape is to a database. */
struct table {
	int value[PROBE_FIELDS_MAX];		/* parameter of its value; 0: it is part of another's */
	int text[PROBE_FIELDS_MAX];		/* parameter of its text; 0: it has none */
	int stack;				/* parameter of the stack */
	sqlite3_stmt *insert;
};

struct thread {
	uint64_t hash;
	uint32_t id;
	struct ringtail_thread of;		/* its exe and cgroup are its own */
};

struct sink {
	sqlite3 *db;
	char *path, *temporary;
	struct out *out;
	const struct ringtail_host *host;
	const struct ringtail_totals *totals;
	bool shows_maps;
	struct stack_set *stacks;
	uint64_t stacks_left_out;
	struct shape_set *shapes;
	struct thread *thread;			/* [threads_room], by hash, half empty */
	size_t threads, threads_room;
	int64_t run;
	uint8_t boot_id[16];
	uint64_t epoch, run_realtime_ns;
	uint64_t offset_ns;			/* wall - monotonic */
	sqlite3_stmt *add_thread, *add_loss, *add_string;
	char *failed;
	struct out scratch;			/* an array: of at most 128 elements */
};

/* ---- SQL ------------------------------------------------------------------------------------- */

/* What SQLite refuses now, it will refuse again: what comes after is swallowed. */
static void check(struct sink *sink, int result)
{
	int code = result & 0xff;

	if (code == SQLITE_OK || code == SQLITE_DONE || code == SQLITE_ROW || sink->out->error)
		return;
	sink->out->error = code == SQLITE_FULL ? ENOSPC : code == SQLITE_NOMEM ? ENOMEM :
			   code == SQLITE_TOOBIG ? EFBIG : sqlite3_system_errno(sink->db) ?
			   sqlite3_system_errno(sink->db) : EIO;
}

static void run_sql(struct sink *sink, const char *sql)
{
	if (!sink->out->error)
		check(sink, sqlite3_exec(sink->db, sql, NULL, NULL, NULL));
}

static sqlite3_stmt *prepare(struct sink *sink, const char *sql)
{
	sqlite3_stmt *statement = NULL;

	if (!sink->out->error)
		check(sink, sqlite3_prepare_v3(sink->db, sql, -1, SQLITE_PREPARE_PERSISTENT, &statement,
					       NULL));
	return statement;
}

static void step(struct sink *sink, sqlite3_stmt *statement)
{
	check(sink, sqlite3_step(statement));
	check(sink, sqlite3_reset(statement));
}

/* Text that SQLite can hold as text; else the bytes as they are. Borrowed until the next step. */
static void bind_bytes(sqlite3_stmt *statement, int at, const void *bytes, size_t n)
{
	const uint8_t *from = bytes;
	size_t i = 0, some;
	uint32_t code;

	while (i < n && from[i] && (some = from[i] < 0x80 ? 1 : utf8_decode(from + i, n - i, &code)))
		i += some;
	if (i == n)
		sqlite3_bind_text(statement, at, bytes, (int)n, SQLITE_STATIC);
	else
		sqlite3_bind_blob(statement, at, bytes, (int)n, SQLITE_STATIC);
}

static void bind_number(sqlite3_stmt *statement, int at, uint64_t value)
{
	sqlite3_bind_int64(statement, at, (int64_t)value);
}

/* Of a statement for one row: its parameters are texts, NULL-ended. */
static void add_texts(struct sink *sink, const char *sql, ...)
{
	sqlite3_stmt *statement = prepare(sink, sql);
	const char *text;
	va_list texts;

	va_start(texts, sql);
	for (int i = 1; statement && (text = va_arg(texts, const char *)); i++)
		bind_bytes(statement, i, text, strlen(text));
	va_end(texts);
	if (statement)
		step(sink, statement);
	sqlite3_finalize(statement);
}

/* ---- Names ----------------------------------------------------------------------------------- */

/* Letters, digits and _; the rest of a foreign name is not for SQL. */
static void make_name(char to[NAME_BYTES], const char *from)
{
	size_t n = 0;

	for (; *from && n < NAME_BYTES - 8; from++) {
		bool plain = (*from >= 'a' && *from <= 'z') || (*from >= 'A' && *from <= 'Z') ||
			     (*from >= '0' && *from <= '9');

		to[n++] = plain ? *from : '_';
	}
	to[n] = '\0';
}

/* Whether the file has something of that name, which SQLite compares without case. */
static bool is_there(struct sink *sink, const char *name)
{
	sqlite3_stmt *find = prepare(sink, "SELECT 1 FROM sqlite_schema WHERE name = ? COLLATE NOCASE");
	bool found = false;

	if (find) {
		sqlite3_bind_text(find, 1, name, -1, SQLITE_STATIC);
		found = sqlite3_step(find) == SQLITE_ROW;
	}
	sqlite3_finalize(find);
	return found;
}

/* With a number behind it where another has it already: NAME_2. */
static void make_table_name(struct sink *sink, char name[NAME_BYTES], const char *spec)
{
	size_t n;

	make_name(name, spec);
	if (!strncasecmp(name, "sqlite_", 7))
		memcpy(name, "table__", 7);
	n = strlen(name);
	for (unsigned i = 2; is_there(sink, name) && i < 100000; i++)
		snprintf(name + n, NAME_BYTES - n, "_%u", i);
}

static void make_column_name(char column[][NAME_BYTES], unsigned columns, const char *from,
			     const char *suffix)
{
	char *name = column[columns];
	size_t n;

	make_name(name, from);
	n = strlen(name);
	if (n > NAME_BYTES - 16)
		n = NAME_BYTES - 16;
	n += (size_t)snprintf(name + n, NAME_BYTES - n, "%s", suffix);
	for (unsigned i = 0, k = 2; i < columns; i++)
		if (!strcasecmp(column[i], name)) {
			snprintf(name + n, NAME_BYTES - n, "_%u", k++);
			i = UINT32_MAX;		/* from the first again */
		}
}

/* ---- Tables ---------------------------------------------------------------------------------- */

static const char schema[] =
	"PRAGMA page_size = 32768; PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;"
	"PRAGMA locking_mode = EXCLUSIVE; PRAGMA cache_size = -65536; PRAGMA encoding = 'UTF-8';"
	"BEGIN;"
	"CREATE TABLE recording(events INTEGER, lost INTEGER, gaps_unknown INTEGER, filtered INTEGER,"
	" stacks_left_out INTEGER, ledger TEXT, error TEXT, software TEXT);"
	"CREATE TABLE runs(id INTEGER PRIMARY KEY, hostname TEXT, kernel TEXT, machine TEXT, software TEXT,"
	" source TEXT, boot_id TEXT, epoch INTEGER, cpus INTEGER, monotonic_ns INTEGER, realtime_ns INTEGER);"
	"CREATE TABLE threads(id INTEGER PRIMARY KEY, run INTEGER, tid INTEGER, pid INTEGER, ppid INTEGER,"
	" uid INTEGER, kernel INTEGER, comm TEXT, exe TEXT, cgroup TEXT);"
	"CREATE VIEW processes AS SELECT run, pid, min(ppid) AS ppid, min(uid) AS uid, min(exe) AS exe,"
	" group_concat(DISTINCT comm) AS comms, count(DISTINCT tid) AS threads FROM threads"
	" WHERE pid IS NOT NULL GROUP BY run, pid;"
	"CREATE TABLE losses(run INTEGER, time INTEGER, cpu INTEGER, first_seq INTEGER, attempts INTEGER,"
	" lost INTEGER, stage TEXT, reason TEXT, remedy TEXT);"
	"CREATE TABLE probes(spec TEXT, name TEXT);"
	"CREATE TABLE fields(probe TEXT, field TEXT, column TEXT, type TEXT, c_type TEXT);"
	"CREATE TABLE strings(run INTEGER, cpu INTEGER, seq INTEGER, field TEXT, text TEXT);"
	"CREATE TABLE stacks(id INTEGER PRIMARY KEY, pid INTEGER, comm TEXT, events INTEGER);"
	"CREATE TABLE frames(stack INTEGER, place INTEGER, kernel INTEGER, address INTEGER, function TEXT,"
	" offset INTEGER, file TEXT, file_offset INTEGER, build_id TEXT, PRIMARY KEY(stack, place))"
	" WITHOUT ROWID;";

static const char *type_name(enum ringtail_type type)
{
	static const char *const name[] = { "unsigned", "signed", "hex", "duration", "result", "fd",
					    "thread", "string", "text", "array" };

	return type < sizeof(name) / sizeof(*name) ? name[type] : "unsigned";
}

static bool is_bytes(enum ringtail_type type)
{
	return type == RINGTAIL_TEXT || type == RINGTAIL_BYTES;
}

/* The names of a probe's columns, after our own. Returns how many, and in the table whose they are. */
static unsigned make_columns(const struct ringtail_probe *probe, struct table *table,
			     char column[COLUMNS_MAX][NAME_BYTES])
{
	static const char *const own[OWN_COLUMNS + 1] = { "time", "wall", "run", "cpu", "seq", "thread",
							  "stack" };
	unsigned columns = 0;

	for (; columns < OWN_COLUMNS; columns++)
		make_name(column[columns], own[columns]);
	for (unsigned i = 0; i < probe->fields; i++) {
		const struct ringtail_field *field = &probe->field[i];

		if (field->type == RINGTAIL_MORE)
			continue;
		make_column_name(column, columns, field->type == RINGTAIL_DURATION && !i ? "duration" :
				 field->type == RINGTAIL_RESULT && i < 2 ? "ret" : field->name, "");
		table->value[i] = (int)++columns;
	}
	for (unsigned i = 0; i < probe->fields; i++)
		if (probe->field[i].type == RINGTAIL_STRING) {
			make_column_name(column, columns, probe->field[i].name, "_text");
			table->text[i] = (int)++columns;
		}
	make_column_name(column, columns, own[OWN_COLUMNS], "");
	table->stack = (int)++columns;
	return columns;
}

__attribute__((format(printf, 2, 3)))
static void add_sql(char sql[SQL_BYTES], const char *format, ...)
{
	size_t n = strlen(sql);
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(sql + n, SQL_BYTES - n, format, arguments);
	va_end(arguments);
}

/* The table, the statement that fills it, and a view of it for people, called as the probe. */
static void create_table(struct sink *sink, const struct ringtail_probe *probe, struct table *table)
{
	char column[COLUMNS_MAX][NAME_BYTES], name[NAME_BYTES], sql[SQL_BYTES] = "";
	unsigned columns = make_columns(probe, table, column);

	make_table_name(sink, name, probe->spec);
	add_sql(sql, "CREATE TABLE \"%s\"(", name);
	for (unsigned i = 0; i < columns; i++) {
		bool is_text = false;

		for (unsigned k = 0; k < probe->fields; k++)
			is_text = is_text || table->text[k] == (int)i + 1 ||
				  (table->value[k] == (int)i + 1 && is_bytes(probe->field[k].type));
		add_sql(sql, "%s\"%s\" %s", i ? ", " : "", column[i], is_text ? "TEXT" : "INTEGER");
	}
	add_sql(sql, ")");
	run_sql(sink, sql);
	sql[0] = '\0';
	add_sql(sql, "INSERT INTO \"%s\" VALUES(?", name);
	for (unsigned i = 1; i < columns; i++)
		add_sql(sql, ",?");
	add_sql(sql, ")");
	table->insert = prepare(sink, sql);
	add_texts(sink, "INSERT INTO probes VALUES(?,?)", probe->spec, name, NULL);
	for (unsigned i = 0; i < probe->fields; i++)
		if (table->value[i])
			add_texts(sink, "INSERT INTO fields VALUES(?,?,?,?,?)", name, probe->field[i].name,
				  column[table->value[i] - 1], type_name(probe->field[i].type),
				  probe->field[i].c_type, NULL);
	strncat(name, "_view", NAME_BYTES - 1 - strlen(name));
	if (is_there(sink, name))
		return;
	sql[0] = '\0';
	add_sql(sql, "CREATE VIEW \"%s\" AS SELECT strftime('%%Y-%%m-%%dT%%H:%%M:%%S', t.wall / 1000000000,"
		" 'unixepoch') || printf('.%%09dZ', t.wall %% 1000000000) AS at, h.pid AS of_pid,"
		" h.tid AS of_tid, h.comm AS of_comm, t.* FROM \"%.*s\" t LEFT JOIN threads h ON"
		" h.id = t.thread", name, (int)(strlen(name) - 5), name);
	run_sql(sink, sql);
}

static const struct table *table_of(struct sink *sink, const struct ringtail_probe *probe)
{
	struct shape *shape = shape_set_find(sink->shapes, probe);

	if (shape && !shape->of) {
		shape->of = calloc(1, sizeof(struct table));
		if (shape->of)
			create_table(sink, probe, shape->of);
	}
	if (!shape || !shape->of)
		sink->out->error = ENOMEM;
	return shape ? shape->of : NULL;
}

/* ---- Runs and threads ------------------------------------------------------------------------ */

/* A file may hold several runs of the daemon, each with its own numbers and clocks. */
static void begin_run(struct sink *sink)
{
	const struct ringtail_host *host = sink->host;
	char boot_id[2 * sizeof(host->boot_id) + 1];
	sqlite3_stmt *add;

	sink->run_realtime_ns = host->realtime_ns;
	sink->offset_ns = host->realtime_ns - host->monotonic_ns;
	if (sink->run && !memcmp(sink->boot_id, host->boot_id, sizeof(sink->boot_id)) &&
	    sink->epoch == host->epoch)
		return;
	memcpy(sink->boot_id, host->boot_id, sizeof(sink->boot_id));
	sink->epoch = host->epoch;
	sink->run++;
	for (size_t i = 0; i < sizeof(host->boot_id); i++)
		sprintf(boot_id + 2 * i, "%02x", host->boot_id[i]);
	add = prepare(sink, "INSERT INTO runs VALUES(?,?,?,?,?,?,?,?,?,?,?)");
	if (!add)
		return;
	sqlite3_bind_int64(add, 1, sink->run);
	bind_bytes(add, 2, host->hostname, strlen(host->hostname));
	bind_bytes(add, 3, host->kernel, strlen(host->kernel));
	bind_bytes(add, 4, host->machine, strlen(host->machine));
	bind_bytes(add, 5, host->software, strlen(host->software));
	bind_bytes(add, 6, host->source, strlen(host->source));
	bind_bytes(add, 7, boot_id, strlen(boot_id));
	bind_number(add, 8, host->epoch);
	bind_number(add, 9, host->cpus);
	bind_number(add, 10, host->monotonic_ns);
	bind_number(add, 11, host->realtime_ns);
	step(sink, add);
	sqlite3_finalize(add);
}

static uint64_t hash_bytes(uint64_t hash, const void *bytes, size_t n)
{
	const uint8_t *at = bytes;
	uint64_t word = 0;

	for (; n >= sizeof(word); n -= sizeof(word), at += sizeof(word)) {
		memcpy(&word, at, sizeof(word));
		hash = (hash ^ word) * 0x9e3779b97f4a7c15ull;
		hash ^= hash >> 32;
	}
	for (word = 0; n; n--)
		word = word << 8 | at[n - 1];
	hash = (hash ^ word) * 0x9e3779b97f4a7c15ull;
	return hash ^ hash >> 32;
}

static uint64_t hash_thread(const struct ringtail_thread *thread, int64_t run)
{
	const uint32_t ids[] = { thread->tid, thread->pid, thread->ppid, thread->uid, thread->kernel,
				 (uint32_t)run };
	uint64_t hash = hash_bytes(1, ids, sizeof(ids));

	hash = hash_bytes(hash, thread->comm, sizeof(thread->comm));
	hash = thread->exe ? hash_bytes(hash, thread->exe, thread->exe_bytes) : hash;
	return thread->cgroup ? hash_bytes(hash, thread->cgroup, thread->cgroup_bytes) : hash;
}

static bool same_text(const char *a, size_t a_bytes, const char *b, size_t b_bytes)
{
	return !a == !b && (!a || (a_bytes == b_bytes && !memcmp(a, b, a_bytes)));
}

static bool same_thread(const struct ringtail_thread *a, const struct ringtail_thread *b)
{
	return a->tid == b->tid && a->pid == b->pid && a->ppid == b->ppid && a->uid == b->uid &&
	       a->kernel == b->kernel && !memcmp(a->comm, b->comm, sizeof(a->comm)) &&
	       same_text(a->exe, a->exe_bytes, b->exe, b->exe_bytes) &&
	       same_text(a->cgroup, a->cgroup_bytes, b->cgroup, b->cgroup_bytes);
}

static bool make_room(struct sink *sink)
{
	size_t room = sink->threads_room ? 2 * sink->threads_room : 1024;
	struct thread *larger;

	if (2 * sink->threads < sink->threads_room)
		return true;
	larger = calloc(room, sizeof(*larger));
	if (!larger)
		return false;
	for (size_t i = 0; i < sink->threads_room; i++) {
		size_t at = sink->thread[i].hash & (room - 1);

		if (!sink->thread[i].id)
			continue;
		while (larger[at].id)
			at = (at + 1) & (room - 1);
		larger[at] = sink->thread[i];
	}
	free(sink->thread);
	sink->thread = larger;
	sink->threads_room = room;
	return true;
}

static void insert_thread(struct sink *sink, const struct ringtail_thread *thread, uint32_t id)
{
	bool is_known = thread->pid || thread->comm[0], has_context = thread->exe || thread->cgroup;
	sqlite3_stmt *add = sink->add_thread;

	sqlite3_clear_bindings(add);
	sqlite3_bind_int64(add, 1, id);
	sqlite3_bind_int64(add, 2, sink->run);
	sqlite3_bind_int64(add, 3, thread->tid);
	if (is_known) {
		sqlite3_bind_int64(add, 4, thread->pid);
		sqlite3_bind_int64(add, 7, thread->kernel);
		bind_bytes(add, 8, thread->comm, out_comm_bytes(thread->comm));
	}
	if (has_context) {
		sqlite3_bind_int64(add, 5, thread->ppid);
		sqlite3_bind_int64(add, 6, thread->uid);
	}
	if (thread->exe)
		bind_bytes(add, 9, thread->exe, thread->exe_bytes);
	if (thread->cgroup)
		bind_bytes(add, 10, thread->cgroup, thread->cgroup_bytes);
	step(sink, add);
}

/* Of borrowed text, which may be NULL. */
static char *copy(struct sink *sink, const char *text, size_t bytes)
{
	char *made = text ? malloc(bytes + 1) : NULL;

	if (made)
		memcpy(made, text, bytes);
	else if (text)
		sink->out->error = ENOMEM;
	return made;
}

/* The row of that thread as it is now: with another name it is another row. */
static uint32_t thread_of(struct sink *sink, const struct ringtail_thread *thread)
{
	uint64_t hash = hash_thread(thread, sink->run);
	struct thread *slot;
	size_t at;

	if (!make_room(sink)) {
		sink->out->error = ENOMEM;
		return 0;
	}
	for (at = hash & (sink->threads_room - 1); (slot = &sink->thread[at])->id;
	     at = (at + 1) & (sink->threads_room - 1))
		if (slot->hash == hash && same_thread(&slot->of, thread))
			return slot->id;
	slot->hash = hash;
	slot->of = *thread;
	slot->of.exe = copy(sink, thread->exe, thread->exe_bytes);
	slot->of.cgroup = copy(sink, thread->cgroup, thread->cgroup_bytes);
	slot->id = (uint32_t)++sink->threads;
	insert_thread(sink, thread, slot->id);
	return slot->id;
}

/* ---- Events and losses ----------------------------------------------------------------------- */

static void put_strings(struct sink *sink, const struct table *table, const struct ringtail_item *event)
{
	for (size_t i = 0; i < event->attachments; i++) {
		const struct ringtail_attachment *string = &event->attachment[i];

		if (string->kind != RINGTAIL_ATTACHED_STRING || string->field >= event->probe->fields)
			continue;
		if (table->text[string->field]) {
			bind_bytes(table->insert, table->text[string->field], string->text,
				   string->text_bytes);
			continue;
		}
		sqlite3_bind_int64(sink->add_string, 1, sink->run);
		sqlite3_bind_int64(sink->add_string, 2, event->cpu);
		bind_number(sink->add_string, 3, event->seq);
		bind_bytes(sink->add_string, 4, event->probe->field[string->field].name,
			   strlen(event->probe->field[string->field].name));
		bind_bytes(sink->add_string, 5, string->text, string->text_bytes);
		step(sink, sink->add_string);
	}
}

static bool has_stack(const struct ringtail_item *event)
{
	for (size_t i = 0; i < event->attachments; i++)
		if (event->attachment[i].kind != RINGTAIL_ATTACHED_STRING)
			return true;
	return false;
}

static void put_attachments(struct sink *sink, const struct table *table,
			    const struct ringtail_item *event)
{
	struct stack *stack;

	put_strings(sink, table, event);
	if (!has_stack(event))
		return;
	stack = stack_set_take(sink->stacks, event, 0);
	if (stack) {
		stack->count++;
		sqlite3_bind_int64(table->insert, table->stack, stack->id);
	} else {
		sink->stacks_left_out++;
	}
}

/* What a call that does not return has none of. */
static bool is_absent(const struct ringtail_item *event, unsigned field)
{
	return event->probe->kind == RINGTAIL_CALL && field < 2 && event->value[0] == RINGTAIL_NEVER;
}

/* A text, or an array as JSON; NULL: its bytes could not be read. */
static void put_bytes(struct sink *sink, sqlite3_stmt *insert, int at, const struct ringtail_item *event,
		      unsigned field)
{
	size_t bytes;
	const uint8_t *text = ringtail_bytes(event, field, &bytes, NULL);

	if (!text) {
		sqlite3_bind_null(insert, at);
	} else if (event->probe->field[field].type == RINGTAIL_TEXT) {
		bind_bytes(insert, at, text, bytes);
	} else {
		sink->scratch.used = 0;
		json_put_value(&sink->scratch, event, field);
		sqlite3_bind_text(insert, at, sink->scratch.buffer, (int)sink->scratch.used,
				  SQLITE_TRANSIENT);
	}
}

static void put_value(struct sink *sink, const struct table *table, const struct ringtail_item *event,
		      unsigned field)
{
	int at = table->value[field];

	if (table->text[field])
		sqlite3_bind_null(table->insert, table->text[field]);
	if (!at)
		return;
	if (is_bytes(event->probe->field[field].type))
		put_bytes(sink, table->insert, at, event, field);
	else if (is_absent(event, field))
		sqlite3_bind_null(table->insert, at);
	else
		bind_number(table->insert, at,
			    ringtail_value(&event->probe->field[field], event->value[field]));
}

static void put_event(struct sink *sink, const struct ringtail_item *event)
{
	const struct table *table = table_of(sink, event->probe);
	uint32_t thread = thread_of(sink, &event->thread);
	sqlite3_stmt *insert = table ? table->insert : NULL;

	if (!insert || !thread)
		return;
	bind_number(insert, 1, event->time_ns);
	bind_number(insert, 2, event->time_ns + sink->offset_ns);
	sqlite3_bind_int64(insert, 3, sink->run);
	sqlite3_bind_int64(insert, 4, event->cpu);
	bind_number(insert, 5, event->seq);
	sqlite3_bind_int64(insert, 6, thread);
	for (unsigned i = 0; i < event->probe->fields; i++)
		put_value(sink, table, event, i);
	sqlite3_bind_null(insert, table->stack);
	if (event->attachments)
		put_attachments(sink, table, event);
	step(sink, insert);
}

static void put_loss(struct sink *sink, const struct ringtail_item *item)
{
	uint64_t lost = item->kind == RINGTAIL_GAP && item->events ? item->events : item->count;
	const char *const text[] = { ringtail_stage_name(item->stage), ringtail_reason_name(item->reason),
				     ringtail_reason_remedy(item->reason) };
	sqlite3_stmt *add = sink->add_loss;

	sqlite3_bind_int64(add, 1, sink->run);
	bind_number(add, 2, item->time_ns);
	sqlite3_bind_int64(add, 3, item->cpu);
	bind_number(add, 4, item->seq);
	bind_number(add, 5, item->count);
	if (lost)
		bind_number(add, 6, lost);
	else
		sqlite3_bind_null(add, 6);	/* nobody knows how many */
	for (int i = 0; i < 3; i++)
		bind_bytes(add, 7 + i, text[i], strlen(text[i]));
	step(sink, add);
}

static void put_item(struct sink *sink, const struct ringtail_item *item)
{
	if (sink->out->error || (item->kind != RINGTAIL_EVENT && item->kind != RINGTAIL_LOSS &&
				 item->kind != RINGTAIL_GAP))
		return;
	if (sink->run_realtime_ns != sink->host->realtime_ns)
		begin_run(sink);
	if (item->kind != RINGTAIL_EVENT)
		put_loss(sink, item);
	else if (!stack_names_learn(stack_set_names(sink->stacks), item) || sink->shows_maps)
		put_event(sink, item);
}

/* ---- Beginning and end ----------------------------------------------------------------------- */

static void destroy(struct sink *sink)
{
	if (!sink)
		return;
	for (struct shape *shape = sink->shapes ? shape_set_first(sink->shapes) : NULL; shape;
	     shape = shape->next) {
		if (shape->of)
			sqlite3_finalize(((struct table *)shape->of)->insert);
		free(shape->of);
	}
	shape_set_destroy(sink->shapes);
	for (size_t i = 0; i < sink->threads_room; i++) {
		free((char *)sink->thread[i].of.exe);
		free((char *)sink->thread[i].of.cgroup);
	}
	sqlite3_finalize(sink->add_thread);
	sqlite3_finalize(sink->add_loss);
	sqlite3_finalize(sink->add_string);
	sqlite3_close(sink->db);
	if (sink->temporary)
		unlink(sink->temporary);
	free(sink->temporary);
	free(sink->path);
	free(sink->thread);
	free(sink->failed);
	stack_set_destroy(sink->stacks);
	free(sink);
}

/* What SQLite would take for the rest of a file that crashed, and roll the new one back with. */
static int refuse_leftovers(const char *path, struct ringtail_error *error)
{
	static const char *const suffix[] = { "-journal", "-wal" };

	for (size_t i = 0; i < 2; i++) {
		char *name;
		int err = 0;

		if (asprintf(&name, "%s%s", path, suffix[i]) < 0)
			return failure_set(error, ENOMEM, "no-memory", "out of memory");
		if (access(name, F_OK) == 0) {
			err = failure_set(error, EEXIST, "database-in-use",
					  "%s is there: another program uses the database, or died at it", name);
			failure_hint(error, "name another file, or remove it with what belongs to it");
		}
		free(name);
		if (err)
			return err;
	}
	return 0;
}

static int open_database(struct sink *sink, const char *path, struct ringtail_error *error)
{
	int err = refuse_leftovers(path, error);

	if (err)
		return err;
	sink->temporary = output_temporary(path, error);
	if (!sink->temporary)
		return -EIO;
	if (sqlite3_open_v2(sink->temporary, &sink->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX,
			    NULL) == SQLITE_OK) {
		run_sql(sink, schema);
		sink->add_thread = prepare(sink, "INSERT INTO threads VALUES(?,?,?,?,?,?,?,?,?,?)");
		sink->add_loss = prepare(sink, "INSERT INTO losses VALUES(?,?,?,?,?,?,?,?,?)");
		sink->add_string = prepare(sink, "INSERT INTO strings VALUES(?,?,?,?,?)");
		if (!sink->out->error)
			return 0;
	}
	return failure_set(error, EIO, "cannot-write", "cannot write %s: %s", sink->temporary,
			   sink->db ? sqlite3_errmsg(sink->db) : "out of memory");
}

static struct sink *open_sink(const struct sink_place *place, struct ringtail_error *error)
{
	struct sink *sink = calloc(1, sizeof(*sink));

	if (sink) {
		sink->out = place->out;
		sink->host = place->host;
		sink->totals = place->totals;
		sink->shows_maps = place->flags & SINK_MAPS;
		out_init(&sink->scratch, -1);
		sink->path = strdup(place->path);
		sink->shapes = shape_set_create();
		sink->stacks = stack_set_create(place->host);
	}
	if (!sink || !sink->path || !sink->shapes || !sink->stacks)
		failure_set(error, ENOMEM, "no-memory", "out of memory");
	else if (!open_database(sink, place->path, error))
		return sink;
	destroy(sink);
	return NULL;
}

static void fail(struct sink *sink, const char *what)
{
	free(sink->failed);
	sink->failed = strdup(what);
}

static void put_frame(struct sink *sink, sqlite3_stmt *add, const struct stack *stack, unsigned i)
{
	struct code_place place;

	stack_set_place(sink->stacks, stack, i, &place);
	sqlite3_clear_bindings(add);
	sqlite3_bind_int64(add, 1, stack->id);
	/* Innermost first over both sides: the kernel's come before the program's. */
	sqlite3_bind_int64(add, 2, i < stack->user ? stack->kernel + i : i - stack->user);
	sqlite3_bind_int64(add, 3, i >= stack->user);
	bind_number(add, 4, stack->frame[i]);
	if (place.name) {
		bind_bytes(add, 5, place.name, strlen(place.name));
		bind_number(add, 6, place.offset);
	}
	if (place.path && place.path[0]) {
		bind_bytes(add, 7, place.path, strlen(place.path));
		bind_number(add, 8, place.file_offset);
		if (place.build_id[0])
			bind_bytes(add, 9, place.build_id, strlen(place.build_id));
	}
	step(sink, add);
}

static void put_stacks(struct sink *sink)
{
	sqlite3_stmt *add = prepare(sink, "INSERT INTO stacks VALUES(?,?,?,?)");
	sqlite3_stmt *add_frame = prepare(sink, "INSERT INTO frames VALUES(?,?,?,?,?,?,?,?,?)");

	for (size_t i = 0; add && add_frame && !sink->out->error && i < stack_set_count(sink->stacks); i++) {
		const struct stack *stack = stack_set_at(sink->stacks, i);

		sqlite3_bind_int64(add, 1, stack->id);
		sqlite3_bind_int64(add, 2, stack->pid);
		bind_bytes(add, 3, stack->comm, out_comm_bytes(stack->comm));
		bind_number(add, 4, stack->count);
		step(sink, add);
		for (unsigned k = 0; k < stack->user + stack->kernel; k++)
			put_frame(sink, add_frame, stack, k);
	}
	sqlite3_finalize(add);
	sqlite3_finalize(add_frame);
}

/* The one row that says whether all of it is there. */
static void put_totals(struct sink *sink)
{
	const struct ringtail_totals *totals = sink->totals;
	const char *ledger = sink->failed ? "damaged" : totals->residual ? "residual" :
			     totals->cut_short ? "cut short" : "balanced";
	sqlite3_stmt *add = prepare(sink, "INSERT INTO recording VALUES(?,?,?,?,?,?,?,?)");

	if (!add)
		return;
	bind_number(add, 1, totals->events);
	bind_number(add, 2, totals->lost);
	bind_number(add, 3, totals->unknown);
	bind_number(add, 4, totals->filtered);
	bind_number(add, 5, sink->stacks_left_out);
	bind_bytes(add, 6, ledger, strlen(ledger));
	if (sink->failed)
		bind_bytes(add, 7, sink->failed, strlen(sink->failed));
	bind_bytes(add, 8, "tracectl " RINGTAIL_VERSION, strlen("tracectl " RINGTAIL_VERSION));
	step(sink, add);
	sqlite3_finalize(add);
}

/* Of what is no recording at all there is no database; of a damaged one, what was before the damage. */
static void end(struct sink *sink)
{
	if (sink->failed && !sink->totals->frames)
		return;
	put_stacks(sink);
	put_totals(sink);
	run_sql(sink, "COMMIT");
	if (sink->out->error)
		return;
	if (rename(sink->temporary, sink->path)) {
		sink->out->error = errno;
		return;
	}
	free(sink->temporary);
	sink->temporary = NULL;
}

const struct sink_ops write_sqlite = {
	.open = open_sink,
	.item = put_item,
	.fail = fail,
	.end = end,
	.destroy = destroy,
};
