/*
 * What operators change, from the frame to the disk: in which order it is judged, written, put in force
 * and answered; what becomes of it when a call of the disk fails or the client is gone; and how a
 * server keeps those away who never say who they are, or never take what they asked for.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include <fcntl.h>
#include <sys/socket.h>

#include "daemon/base/counters.h"
#include "daemon/base/limits.h"
#include "tests/unit/daemon/small_engine.h"

#define CALLS "syscall:getppid:call"
#define OPENS "syscall:openat:call"
#define READS "syscall:read:call"
#define FILES 6

/* Files in memory; the fail_at-th call fails. `journal` says what was done to which. */
struct memory_disk {
	struct disk disk;
	unsigned calls, fail_at;
	char journal[4096];
	struct file {
		char name[32];
		char text[4096];
	} file[FILES];
};

/* The disk thread has a copy of struct disk: there is one memory at a time. */
static struct memory_disk *the_memory;

static struct memory_disk *memory_of(struct disk *disk)
{
	(void)disk;
	return the_memory;
}

static int note(struct disk *disk, const char *what, const char *name)
{
	struct memory_disk *memory = memory_of(disk);
	size_t at = strlen(memory->journal);

	snprintf(memory->journal + at, sizeof(memory->journal) - at, "%s %s;", what, name);
	return ++memory->calls == memory->fail_at ? -EIO : 0;
}

static int find(struct memory_disk *memory, const char *name)
{
	for (int i = 0; i < FILES; i++)
		if (strcmp(memory->file[i].name, name) == 0)
			return i;
	return -1;
}

static int memory_open(struct disk *disk, const char *path, int flags)
{
	struct memory_disk *memory = memory_of(disk);
	int err = note(disk, "open", path), at = find(memory, path);

	if (err)
		return err;
	if (at < 0 && !(flags & O_CREAT))
		return -ENOENT;
	if (at < 0) {
		at = find(memory, "");
		assert_true(at >= 0);
		snprintf(memory->file[at].name, sizeof(memory->file[at].name), "%s", path);
	}
	if (flags & O_TRUNC)
		memory->file[at].text[0] = '\0';
	return at;
}

static int memory_close(struct disk *disk, int file)
{
	(void)disk, (void)file;
	return 0;
}

static ssize_t memory_read(struct disk *disk, int file, void *bytes, size_t n, uint64_t offset)
{
	const char *text = memory_of(disk)->file[file].text;
	size_t left = strlen(text) - offset;

	n = n < left ? n : left;
	memcpy(bytes, text + offset, n);
	return (ssize_t)n;
}

static ssize_t memory_write(struct disk *disk, int file, const void *bytes, size_t n)
{
	struct file *to = &memory_of(disk)->file[file];
	int err = note(disk, "write", to->name);

	if (err)
		return err;
	strncat(to->text, bytes, n);
	return (ssize_t)n;
}

static int memory_sync(struct disk *disk, int file)
{
	return note(disk, "sync", memory_of(disk)->file[file].name);
}

static int memory_rename(struct disk *disk, const char *from, const char *to)
{
	struct memory_disk *memory = memory_of(disk);
	int err = note(disk, "rename", to), at = find(memory, from), old = find(memory, to);

	if (err)
		return err;
	if (old >= 0)
		memory->file[old].name[0] = '\0';
	snprintf(memory->file[at].name, sizeof(memory->file[at].name), "%s", to);
	return 0;
}

static int memory_remove(struct disk *disk, const char *path)
{
	return note(disk, "remove", path);
}

static int memory_sync_directory(struct disk *disk, const char *path)
{
	return note(disk, "sync", path);
}

static int memory_list(struct disk *disk, const char *path, disk_entry *entry, void *context)
{
	struct memory_disk *memory = memory_of(disk);

	(void)path;
	for (unsigned i = 0; i < FILES; i++)
		if (memory->file[i].name[0])
			entry(context, memory->file[i].name, strlen(memory->file[i].text));
	return 0;
}

static const struct disk_ops memory_ops = {
	.open = memory_open, .close = memory_close, .read = memory_read, .write = memory_write,
	.sync = memory_sync, .rename = memory_rename, .remove = memory_remove, .sync_directory = memory_sync_directory,
	.list = memory_list,
};

static const char *text_of(struct memory_disk *memory, const char *name)
{
	int at = find(memory, name);

	return at < 0 ? "" : memory->file[at].text;
}

static void open_all(struct engine *e, struct memory_disk *memory, unsigned fail_at)
{
	*memory = (struct memory_disk){.disk = {.ops = &memory_ops}, .fail_at = fail_at};
	the_memory = memory;
	engine_disk = &memory->disk;
	engine_open(e, 1, 1, 8);
}

static void close_all(struct engine *e)
{
	engine_close(e);
	engine_disk = NULL;
}

static void send_change(struct peer *peer, const char *enable, const char *disable)
{
	Ringtail__V1__Change change = RINGTAIL__V1__CHANGE__INIT;
	char *enables[] = {(char *)enable}, *disables[] = {(char *)disable};

	change.enable = enables;
	change.n_enable = enable != NULL;
	change.disable = disables;
	change.n_disable = disable != NULL;
	peer_send(peer, FRAME_CHANGE, &change);
}

/* "spec(by) ..." of the answer. */
static void expect_probes(struct peer *peer, const char *wanted)
{
	Ringtail__V1__Probes *probes = peer_expect(peer, FRAME_PROBES);
	char text[1024] = "";

	for (size_t i = 0; i < probes->n_probe; i++)
		snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%s", i ? " " : "",
			 probes->probe[i]->spec);
	assert_string_equal(text, wanted);
	peer_free(probes);
}

static void ask_probes(struct peer *peer)
{
	Ringtail__V1__ProbesRequest request = RINGTAIL__V1__PROBES_REQUEST__INIT;

	peer_send(peer, FRAME_PROBES_REQUEST, &request);
}

static void test_order(void **state)
{
	struct memory_disk memory;
	struct peer *peer;
	struct engine e;

	(void)state;
	open_all(&e, &memory, 0);
	peer_greet(peer = engine_connect(&e));
	send_change(peer, CALLS, NULL);
	/* What is asked behind it waits for it. */
	ask_probes(peer);
	peer_send_list(peer, CALLS);
	expect_probes(peer, CALLS);
	expect_probes(peer, CALLS);
	peer_free(peer_expect(peer, FRAME_CATALOG));
	assert_string_equal(memory.journal,
			    "open audit.log;write audit.log;sync audit.log;sync .;"
			    "open probes.new;write probes.new;sync probes.new;rename probes;sync .;");
	assert_non_null(strstr(text_of(&memory, "audit.log"), "\"outcome\":\"allowed\""));
	assert_non_null(strstr(text_of(&memory, "probes"), "\t" CALLS "\n"));
	send_change(peer, OPENS, CALLS);
	expect_probes(peer, OPENS);
	send_change(peer, NULL, OPENS);
	expect_probes(peer, "");
	peer_close(peer);
	close_all(&e);
}

static void test_refused(void **state)
{
	struct memory_disk memory;
	struct peer *peer;
	struct engine e;

	(void)state;
	open_all(&e, &memory, 0);
	peer_greet(peer = engine_connect(&e));
	send_change(peer, "syscall:getppit:call", NULL);
	peer_expect_error(peer, "unknown-probe", false);
	send_change(peer, CALLS, OPENS);
	peer_expect_error(peer, "not-enabled", false);
	send_change(peer, NULL, NULL);
	peer_expect_error(peer, "too-many-probes", false);
	ask_probes(peer);
	expect_probes(peer, "");
	assert_non_null(strstr(text_of(&memory, "audit-denied.log"),
			       "\"outcome\":\"unknown-probe\""));
	assert_non_null(strstr(text_of(&memory, "audit-denied.log"),
			       "\"outcome\":\"not-enabled\""));
	assert_string_equal(text_of(&memory, "audit.log"), "");
	assert_string_equal(text_of(&memory, "probes"), "");
	peer_close(peer);
	close_all(&e);
}

static struct peer *connect_viewer(struct engine *e)
{
	struct peer *peer;
	int fd;

	peer = peer_pair(e->base, &fd);
	server_serve(e->server, SERVER_PLAIN, transport_plain_create(fd), "127.0.0.1:9");
	peer_greet(peer);
	return peer;
}

/* A viewer: its attempt is written down, and nothing else happens. */
static void test_viewer(void **state)
{
	uint64_t denied = counter_read(COUNTER_changes_denied);
	Ringtail__V1__Forget forget = RINGTAIL__V1__FORGET__INIT;
	struct memory_disk memory;
	struct peer *peer;
	struct engine e;

	(void)state;
	open_all(&e, &memory, 0);
	peer = connect_viewer(&e);
	send_change(peer, CALLS, NULL);
	peer_expect_error(peer, "not-allowed", false);
	forget.consumer = (char *)"nightly";
	peer_send(peer, FRAME_FORGET, &forget);
	peer_expect_error(peer, "no-such-consumer", false);
	assert_non_null(strstr(text_of(&memory, "audit-denied.log"),
			       "\"who\":\"local\",\"role\":\"viewer\",\"peer\":\"127.0.0.1:9\","
			       "\"action\":\"change\",\"enable\":[\"" CALLS "\"],\"disable\":[],"
			       "\"outcome\":\"not-allowed\"}\n"));
	assert_non_null(strstr(text_of(&memory, "audit-denied.log"), "\"consumer\":\"nightly\""));
	assert_int_equal(counter_read(COUNTER_changes_denied), denied + 2);
	ask_probes(peer);
	expect_probes(peer, "");
	peer_close(peer);
	close_all(&e);
}

static unsigned lines_of(struct memory_disk *memory, const char *name)
{
	unsigned lines = 0;

	for (const char *at = text_of(memory, name); (at = strchr(at, '\n')) != NULL; at++)
		lines++;
	return lines;
}

static void ask_delete_dump(struct peer *peer, const char *id)
{
	Ringtail__V1__DumpsRequest request = RINGTAIL__V1__DUMPS_REQUEST__INIT;

	request.remove = (char *)id;
	peer_send(peer, FRAME_DUMPS_REQUEST, &request);
}

/* Two dumps: one that is being written, and one of an earlier run. */
static void open_with_dumps(struct engine *e, struct memory_disk *memory, unsigned fail_at)
{
	engine_keeps_dumps = true;
	open_all(e, memory, fail_at);
	engine_keeps_dumps = false;
	dumps_begin(e->dumps, "open", 0);
	dumps_begin(e->dumps, "cut", 0)->state = DUMP_CUT;
}

#define DUMP(name) "19700101T000000Z-" name

/* Only an operator deletes a dump, one that is there and whole or cut; and each attempt is written down first. */
static void test_delete_dump(void **state)
{
	Ringtail__V1__Dumps *left;
	struct peer *viewer, *operator;
	struct memory_disk memory;
	struct engine e;

	(void)state;
	open_with_dumps(&e, &memory, 0);
	viewer = connect_viewer(&e);
	ask_delete_dump(viewer, DUMP("cut"));
	peer_expect_error(viewer, "not-allowed", false);
	peer_greet(operator = engine_connect(&e));
	ask_delete_dump(operator, DUMP("none"));
	peer_expect_error(operator, "dump-unknown", false);
	ask_delete_dump(operator, DUMP("open"));
	peer_expect_error(operator, "dump-writing", false);
	assert_int_equal(lines_of(&memory, "audit-denied.log"), 3);
	assert_int_equal(dumps_count(e.dumps, &(uint64_t){0}), 2);
	assert_null(strstr(memory.journal, "remove"));
	ask_delete_dump(operator, DUMP("cut"));
	left = peer_expect(operator, FRAME_DUMPS);
	assert_int_equal(left->n_dump, 1);
	assert_string_equal(left->dump[0]->id, DUMP("open"));
	peer_free(left);
	engine_settle(&e);
	assert_non_null(strstr(memory.journal, "sync audit.log;sync .;remove dumps/" DUMP("cut") ".part;"));
	assert_non_null(strstr(text_of(&memory, "audit.log"), "\"action\":\"delete-dump\",\"dump\":\""
			       DUMP("cut") "\",\"outcome\":\"allowed\"}\n"));
	assert_int_equal(lines_of(&memory, "audit.log"), 1);
	peer_close(viewer);
	peer_close(operator);
	close_all(&e);
}

/* What cannot be written down is not deleted. */
static void test_delete_dump_unaudited(void **state)
{
	struct memory_disk memory;
	struct peer *peer;
	struct engine e;

	(void)state;
	open_with_dumps(&e, &memory, 1);
	peer_greet(peer = engine_connect(&e));
	ask_delete_dump(peer, DUMP("cut"));
	peer_expect_error(peer, "audit-failed", false);
	assert_int_equal(dumps_count(e.dumps, &(uint64_t){0}), 2);
	assert_null(strstr(memory.journal, "remove"));
	peer_close(peer);
	close_all(&e);
}

/* Whoever may change nothing and never tires: a few lines, then a count, and no line of others goes. */
static void test_denied_without_end(void **state)
{
	uint64_t denied = counter_read(COUNTER_changes_denied);
	struct memory_disk memory;
	struct peer *operator, *viewer;
	struct engine e;
	char more[64];

	(void)state;
	open_all(&e, &memory, 0);
	peer_greet(operator = engine_connect(&e));
	viewer = connect_viewer(&e);
	for (unsigned i = 0; i < 100; i++) {
		send_change(viewer, CALLS, NULL);
		peer_expect_error(viewer, "not-allowed", false);
		if (i == 50) {
			send_change(operator, OPENS, NULL);
			expect_probes(operator, OPENS);
		}
	}
	assert_int_equal(counter_read(COUNTER_changes_denied), denied + 100);
	assert_int_equal(lines_of(&memory, "audit-denied.log"), AUDIT_DENIED_MAX);
	assert_int_equal(lines_of(&memory, "audit.log"), 1);
	assert_non_null(strstr(text_of(&memory, "audit.log"), OPENS));
	peer_close(operator);
	peer_close(viewer);
	close_all(&e);
	/* What is still to be told is told at the end. */
	snprintf(more, sizeof(more), "\"who\":\"local\",\"denied_more\":%u}\n", 100 - AUDIT_DENIED_MAX);
	assert_non_null(strstr(text_of(&memory, "audit-denied.log"), more));
	assert_int_equal(lines_of(&memory, "audit-denied.log"), AUDIT_DENIED_MAX + 1);
}

static bool records(const struct engine *e, unsigned probe)
{
	return e->loader.request.probes[probe / 8] >> probe % 8 & 1;
}

/* Whichever call of the disk fails, the change is refused, nothing is in force, and the next works. */
static void test_disk_fails(void **state)
{
	(void)state;
	for (unsigned fail_at = 1; fail_at <= 9; fail_at++) {
		struct memory_disk memory;
		struct peer *peer;
		struct engine e;

		open_all(&e, &memory, fail_at);
		peer_greet(peer = engine_connect(&e));
		send_change(peer, CALLS, NULL);
		peer_expect_error(peer, fail_at <= 4 ? "audit-failed" : "state-failed", false);
		assert_true(memory.calls >= fail_at);
		assert_false(records(&e, SMALL_GETPPID));
		ask_probes(peer);
		expect_probes(peer, "");
		send_change(peer, OPENS, NULL);
		expect_probes(peer, OPENS);
		assert_non_null(strstr(text_of(&memory, "probes"), OPENS));
		assert_null(strstr(text_of(&memory, "probes"), CALLS));
		peer_close(peer);
		close_all(&e);
	}
}

static void test_no_disk(void **state)
{
	struct peer *peer;
	struct engine e;

	(void)state;
	engine_open(&e, 1, 1, 8);
	peer_greet(peer = engine_connect(&e));
	send_change(peer, CALLS, NULL);
	peer_expect_error(peer, "audit-failed", false);
	ask_probes(peer);
	expect_probes(peer, "");
	peer_close(peer);
	engine_close(&e);
}

/* Several at once, one of which leaves before its turn: all are done, in order. */
static void test_gone(void **state)
{
	struct memory_disk memory;
	struct peer *peer[3];
	struct engine e;

	(void)state;
	open_all(&e, &memory, 0);
	for (unsigned i = 0; i < 3; i++)
		peer_greet(peer[i] = engine_connect(&e));
	send_change(peer[0], CALLS, NULL);
	send_change(peer[1], OPENS, NULL);
	send_change(peer[2], NULL, CALLS);
	event_base_loop(e.base, EVLOOP_NONBLOCK);
	peer_hang_up(peer[1]);
	expect_probes(peer[0], CALLS);
	expect_probes(peer[2], OPENS);
	for (unsigned i = 0; i < 3; i++)
		peer_close(peer[i]);
	/* One that the end of the daemon meets half done was not answered, and is not kept. */
	peer_greet(peer[0] = engine_connect(&e));
	e.loader.hold = true;
	send_change(peer[0], CALLS, NULL);
	event_base_loop(e.base, EVLOOP_NONBLOCK);
	peer_close(peer[0]);
	close_all(&e);
	assert_null(strstr(text_of(&memory, "probes"), CALLS));
}

/* Nothing is answered, and nothing kept, before the loader has reported. */
static void test_answered_when_in_force(void **state)
{
	struct memory_disk memory;
	struct peer *peer;
	struct engine e;
	char byte;

	(void)state;
	open_all(&e, &memory, 0);
	peer_greet(peer = engine_connect(&e));
	for (unsigned round = 0; round < 4; round++) {
		bool enables = round % 2 == 0;

		e.loader.hold = true;
		send_change(peer, enables ? CALLS : NULL, enables ? NULL : CALLS);
		peer_run_for(e.base, 20 * 1000000);
		assert_int_equal(recv(peer->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT), -1);
		assert_true((strstr(text_of(&memory, "probes"), CALLS) == NULL) == enables);
		engine_let(&e.loader);
		expect_probes(peer, enables ? CALLS : "");
		assert_true(records(&e, SMALL_GETPPID) == enables);
		assert_true((strstr(text_of(&memory, "probes"), CALLS) != NULL) == enables);
	}
	peer_close(peer);
	close_all(&e);
}

/* The loader refuses: what was always on stays, on disk and in force, and the audit log says what became
 * of what it had allowed. Two more that wait behind it are done. */
static void test_loader_refuses(void **state)
{
	struct peer *peer, *other;
	struct memory_disk memory;
	struct engine e;

	(void)state;
	open_all(&e, &memory, 0);
	peer_greet(peer = engine_connect(&e));
	peer_greet(other = engine_connect(&e));
	send_change(peer, OPENS, NULL);
	expect_probes(peer, OPENS);
	e.loader.refuse_probe = SMALL_GETPPID;
	e.loader.hold = true;
	send_change(peer, CALLS, OPENS);
	send_change(other, READS, NULL);
	peer_run(e.base);
	engine_let(&e.loader);
	peer_expect_error(peer, "refused", false);
	expect_probes(other, OPENS " syscall:read:call");
	assert_true(records(&e, SMALL_OPENAT) && records(&e, SMALL_READ));
	assert_null(strstr(text_of(&memory, "probes"), CALLS));
	assert_int_equal(lines_of(&memory, "audit.log"), 4);
	assert_non_null(strstr(text_of(&memory, "audit.log"), "\"outcome\":\"refused\""));
	/* A disable whose rest is refused does not happen either. */
	e.loader.refuse_probe = SMALL_READ;
	send_change(peer, NULL, OPENS);
	peer_expect_error(peer, "refused", false);
	ask_probes(peer);
	expect_probes(peer, OPENS " syscall:read:call");
	e.loader.refuse_probe = 0;
	send_change(peer, CALLS, NULL);
	expect_probes(peer, OPENS " syscall:read:call " CALLS);
	peer_close(peer);
	peer_close(other);
	close_all(&e);
}

/* The loader ends between question and answer. */
static void test_loader_gone(void **state)
{
	struct memory_disk memory;
	struct peer *peer;
	struct engine e;

	(void)state;
	open_all(&e, &memory, 0);
	peer_greet(peer = engine_connect(&e));
	e.loader.hold = true;
	send_change(peer, CALLS, NULL);
	PEER_AWAIT(e.base, e.loader.configures);
	engine_lose_loader(&e.loader);
	peer_expect_error(peer, "loader-gone", false);
	assert_int_equal(e.failures, 1);
	assert_string_equal(text_of(&memory, "probes"), "");
	assert_non_null(strstr(text_of(&memory, "audit.log"), "\"outcome\":\"loader-gone\""));
	peer_close(peer);
	close_all(&e);
}

static void set_config(struct engine *e, const char *probe)
{
	struct config config = {.probe = {.word = {(char *)probe}, .count = 1}};
	struct error error;

	assert_int_equal(control_set_config(e->control, &config, &error), 0);
}

/* A reload waits its turn behind a change, and the next change behind it; one that is refused leaves what
 * was. */
static void test_reload_among_changes(void **state)
{
	struct memory_disk memory;
	struct peer *peer;
	struct engine e;

	(void)state;
	open_all(&e, &memory, 0);
	set_config(&e, OPENS);
	PEER_AWAIT(e.base, e.applied == 1);
	assert_string_equal(e.not_applied.code, "");
	peer_greet(peer = engine_connect(&e));
	e.loader.hold = true;
	send_change(peer, CALLS, NULL);
	peer_run(e.base);
	set_config(&e, READS);
	assert_int_equal(e.applied, 1);
	engine_let(&e.loader);
	expect_probes(peer, OPENS " " CALLS);
	PEER_AWAIT(e.base, e.applied == 2);
	assert_string_equal(e.not_applied.code, "");
	assert_true(records(&e, SMALL_READ) && records(&e, SMALL_GETPPID) &&
		    !records(&e, SMALL_OPENAT));
	e.loader.refuse_probe = SMALL_OPENAT;
	set_config(&e, OPENS);
	PEER_AWAIT(e.base, e.applied == 3);
	assert_string_equal(e.not_applied.code, "refused");
	ask_probes(peer);
	expect_probes(peer, "syscall:read:call " CALLS);
	assert_true(records(&e, SMALL_READ) && records(&e, SMALL_GETPPID));
	peer_close(peer);
	close_all(&e);
}

/* A start does not fail of what an operator enabled; it does of the configuration's own. */
static void test_start_is_refused(void **state)
{
	static const char text[] = "enable\t5\tuser:root\t" CALLS "\ndisable\t6\tuser:root\t" READS "\n";
	struct config config = {.probe = {.word = {(char *)OPENS, (char *)READS}, .count = 2}};
	struct memory_disk memory;
	struct error error;
	struct peer *peer;
	struct engine e;

	(void)state;
	open_all(&e, &memory, 0);
	strcpy(memory.file[0].name, "probes");
	strcpy(memory.file[0].text, text);
	assert_int_equal(control_load(e.control, engine_disk, &error), 0);
	e.loader.refuse_probe = SMALL_GETPPID;
	assert_int_equal(control_set_config(e.control, &config, &error), 0);
	PEER_AWAIT(e.base, e.applied);
	assert_string_equal(e.not_applied.code, "");
	assert_true(records(&e, SMALL_OPENAT) && !records(&e, SMALL_GETPPID) &&
		    !records(&e, SMALL_READ));
	peer_greet(peer = engine_connect(&e));
	ask_probes(peer);
	expect_probes(peer, OPENS);
	peer_close(peer);
	close_all(&e);

	open_all(&e, &memory, 0);
	e.loader.refuse_probe = SMALL_OPENAT;
	set_config(&e, OPENS);
	PEER_AWAIT(e.base, e.applied);
	assert_string_equal(e.not_applied.code, "refused");
	close_all(&e);
}

static void test_comes_back(void **state)
{
	static const char text[] = "# x\nenable\t5\tuser:root\t" CALLS "\nenable\t6\tuser:root\tno:such\n"
				   "nonsense\n";
	struct config config = {.probe = {.word = {(char *)OPENS}, .count = 1}};
	struct memory_disk memory;
	struct peer *peer;
	struct error error = {0};
	struct engine e;

	(void)state;
	open_all(&e, &memory, 0);
	assert_int_equal(control_load(e.control, engine_disk, &error), 0);
	strcpy(memory.file[0].name, "probes");
	strcpy(memory.file[0].text, text);
	assert_int_equal(control_load(e.control, engine_disk, &error), 0);
	/* What this host does not have is kept, and left out. */
	assert_int_equal(control_set_config(e.control, &config, &error), 0);
	PEER_AWAIT(e.base, e.applied);
	peer_greet(peer = engine_connect(&e));
	ask_probes(peer);
	expect_probes(peer, OPENS " " CALLS " no:such");
	config.probe.word[0] = (char *)"no:such:either";
	assert_true(control_set_config(e.control, &config, &error) < 0);
	assert_string_equal(error.code, "unknown-probe");
	ask_probes(peer);
	expect_probes(peer, OPENS " " CALLS " no:such");
	/* A filter is looked at also where nothing passes through it yet. */
	config.probe.count = 0;
	config.filter = (char *)"no such field == 1";
	assert_true(control_set_config(e.control, &config, &error) < 0);
	ask_probes(peer);
	expect_probes(peer, OPENS " " CALLS " no:such");
	peer_close(peer);
	close_all(&e);
}

/* Beside the source's probes, as the catalog has it when a program brings it. */
static void bring(struct engine *e, const char *provider, const char *function, uint32_t id)
{
	static Ringtail__V1__Probe brought[4], *all[16];
	Ringtail__V1__Probe *probe = &brought[id - RT_PROBE_PROGRAM];

	ringtail__v1__probe__init(probe);
	probe->provider = (char *)provider;
	probe->function = (char *)function;
	probe->name = (char *)"event";
	probe->id = id;
	if (small_catalog.probe != all)
		memcpy(all, small_catalog.probe, small_catalog.n_probe * sizeof(all[0]));
	small_catalog.probe = all;
	all[small_catalog.n_probe++] = probe;
	control_take_probe(e->control, probe);
}

/* How many probes one gets who names none. */
static size_t always_on_probes(struct engine *e)
{
	struct peer *peer = engine_connect(e);
	Ringtail__V1__Catalog *catalog;
	size_t probes;

	peer_greet(peer);
	peer_send_subscribe(peer, NULL, NULL, NULL);
	catalog = peer_expect(peer, FRAME_CATALOG);
	probes = catalog->n_probe;
	peer_free(catalog);
	peer_close(peer);
	return probes;
}

/* What an operator enabled waits for the program that brings it, also amid other changes. */
static void test_programs_bring_what_is_on(void **state)
{
	size_t before = small_catalog_get()->n_probe;
	struct memory_disk memory;
	struct error error = {0};
	struct peer *peer;
	struct engine e;
	unsigned configures;

	(void)state;
	open_all(&e, &memory, 0);
	strcpy(memory.file[0].name, "probes");
	strcpy(memory.file[0].text, "enable\t5\tuser:root\tapp:*\n");
	assert_int_equal(control_load(e.control, engine_disk, &error), 0);
	set_config(&e, OPENS);
	PEER_AWAIT(e.base, e.applied);
	assert_int_equal(always_on_probes(&e), 1);
	configures = e.loader.configures;
	bring(&e, "other", "done", RT_PROBE_PROGRAM);
	peer_run(e.base);
	assert_int_equal(e.loader.configures, configures);
	bring(&e, "app", "begun", RT_PROBE_PROGRAM + 1);
	bring(&e, "app", "done", RT_PROBE_PROGRAM + 2);
	PEER_AWAIT(e.base, e.loader.configures > configures);
	PEER_AWAIT(e.base, always_on_probes(&e) == 3);
	e.loader.hold = true;
	peer_greet(peer = engine_connect(&e));
	send_change(peer, CALLS, NULL);
	peer_run(e.base);
	bring(&e, "app", "late", RT_PROBE_PROGRAM + 3);
	peer_run(e.base);
	engine_let(&e.loader);
	expect_probes(peer, OPENS " app:* " CALLS);
	PEER_AWAIT(e.base, always_on_probes(&e) == 5);
	peer_close(peer);
	close_all(&e);
	small_catalog.n_probe = before;
}

static bool is_no_kernels(void *context, const char *provider)
{
	(void)context;
	return strcmp(provider, "syscall") != 0;
}

/* The list, with a ? behind what waits. */
static void expect_waiting(struct peer *peer, const char *wanted)
{
	Ringtail__V1__Probes *probes;
	char text[256] = "";

	ask_probes(peer);
	probes = peer_expect(peer, FRAME_PROBES);
	for (size_t i = 0; i < probes->n_probe; i++)
		snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%s%s", i ? " " : "",
			 probes->probe[i]->spec, probes->probe[i]->waits ? "?" : "");
	assert_string_equal(text, wanted);
	peer_free(probes);
}

/* Nobody has brought it yet: it is kept, by whomever it is wanted, and recorded from when it is there. */
static void test_what_programs_may_bring_is_waited_for(void **state)
{
	static const char *const never[] = {"syscall:nosuch:call", "nosuch", "no*:such", "app:", ":such", "a:b:c:d"};
	struct config config = {.probe = {.word = {(char *)"app:*", (char *)OPENS}, .count = 2}};
	size_t before = small_catalog_get()->n_probe;
	struct memory_disk memory;
	struct error error = {0};
	struct peer *peer;
	struct engine e;

	(void)state;
	engine_may_come = is_no_kernels;
	open_all(&e, &memory, 0);
	assert_int_equal(control_set_config(e.control, &config, &error), 0);
	PEER_AWAIT(e.base, e.applied);
	assert_string_equal(e.not_applied.code, "");
	peer_greet(peer = engine_connect(&e));
	expect_waiting(peer, "app:*? " OPENS);
	send_change(peer, "other:done", NULL);
	expect_probes(peer, "app:* " OPENS " other:done");
	expect_waiting(peer, "app:*? " OPENS " other:done?");
	assert_non_null(strstr(text_of(&memory, "probes"), "other:done"));
	assert_int_equal(always_on_probes(&e), 1);
	/* What no program may bring is refused as ever, and changes nothing. */
	for (unsigned i = 0; i < sizeof(never) / sizeof(*never); i++) {
		send_change(peer, never[i], NULL);
		peer_free(peer_expect(peer, FRAME_ERROR));
		config.probe.word[0] = (char *)never[i];
		assert_true(control_check_config(e.control, &config, &error) < 0);
	}
	bring(&e, "other", "done", RT_PROBE_PROGRAM);
	PEER_AWAIT(e.base, always_on_probes(&e) == 2);
	expect_waiting(peer, "app:*? " OPENS " other:done");
	bring(&e, "app", "begun", RT_PROBE_PROGRAM + 1);
	PEER_AWAIT(e.base, always_on_probes(&e) == 3);
	expect_waiting(peer, "app:* " OPENS " other:done");
	send_change(peer, "third:*", NULL);
	expect_probes(peer, "app:* " OPENS " other:done third:*");
	send_change(peer, NULL, "third:*");
	expect_probes(peer, "app:* " OPENS " other:done");
	peer_close(peer);
	close_all(&e);
	engine_may_come = NULL;
	small_catalog.n_probe = before;
}

/* ---- Who waits for programs -------------------------------------------------------------------- */

static int awaits(struct engine *e, const char *spec, const char *filter, struct error *error)
{
	char *specs[] = {(char *)spec, (char *)"syscall:read:call"};

	return control_awaits(e->control, NULL, specs, 2, filter, error);
}

static void test_what_a_client_waits_for(void **state)
{
	struct memory_disk memory;
	static const char *const never[] = {
		"syscall:nothing", "*:done", ":done", "app", "app:", "app:a:b:c", "syscall:read:call",
	};
	size_t before = small_catalog_get()->n_probe;
	struct error error = {0};
	struct engine e;

	(void)state;
	engine_may_come = is_no_kernels;
	open_all(&e, &memory, 0);
	assert_int_equal(awaits(&e, "app:done", "", &error), 1);
	assert_string_equal(error.code, "waits-for-program");
	assert_string_equal(error.what, "waits for a program: none has brought `app:done` yet");
	assert_string_equal(error.hint, "no program has brought probes so far");
	/* Fields are the program's to bring; a mistake is one without them. */
	assert_int_equal(awaits(&e, "app:*", "us > 1000", &error), 1);
	assert_int_equal(awaits(&e, "app:*", "us >", &error), -EINVAL);
	assert_string_equal(error.code, "filter-incomplete");
	for (unsigned i = 0; i < sizeof(never) / sizeof(*never); i++)
		assert_int_equal(awaits(&e, never[i], "", &error), 0);
	bring(&e, "app", "done", RT_PROBE_PROGRAM);
	bring(&e, "web", "begun", RT_PROBE_PROGRAM + 1);
	bring(&e, "app", "begun", RT_PROBE_PROGRAM + 2);
	assert_int_equal(awaits(&e, "app:done", "", &error), 0);
	assert_int_equal(awaits(&e, "ap:done", "", &error), 1);
	assert_non_null(strstr(error.hint, "did you mean `app:done"));
	assert_non_null(strstr(error.hint, "Programs have brought: app, web"));
	assert_int_equal(awaits(&e, "something:else", "", &error), 1);
	assert_string_equal(error.hint, "programs have brought: app, web");
	close_all(&e);
	engine_may_come = NULL;
	small_catalog.n_probe = before;
}

/* ---- Who takes the place of others ------------------------------------------------------------- */

static void test_pending(void **state)
{
	struct server_bounds bounds = engine_bounds(8);
	struct peer *peer[6], *served;
	struct engine e;

	(void)state;
	engine_open(&e, 1, 1, 8);
	bounds.pending_max = 3;
	server_set_bounds(e.server, &bounds);
	peer_greet(served = engine_connect(&e));
	for (unsigned i = 0; i < 6; i++)
		peer[i] = engine_connect(&e);
	for (unsigned i = 0; i < 3; i++) {
		peer_expect_error(peer[i], "too-many-pending", true);
		peer_expect_end(peer[i]);
	}
	peer_greet(peer[3]);
	peer_greet(peer[5]);
	/* Those that were let in no longer count. */
	for (unsigned i = 0; i < 2; i++) {
		peer_close(peer[i]);
		peer[i] = engine_connect(&e);
	}
	peer_greet(peer[4]);
	ask_probes(served);
	expect_probes(served, "");
	for (unsigned i = 0; i < 6; i++)
		peer_close(peer[i]);
	peer_close(served);
	engine_close(&e);
}

static void test_silence(void **state)
{
	struct server_bounds bounds = engine_bounds(8);
	struct watcher watcher;
	struct peer *idle;
	struct engine e;

	(void)state;
	engine_open(&e, 1, 1, 8);
	bounds.session.silence_timeout_ns = 2 * NS_PER_S;
	server_set_bounds(e.server, &bounds);
	watcher = watcher_open(&e, CALLS, NULL, NULL);
	peer_greet(idle = engine_connect(&e));
	ask_probes(idle);
	expect_probes(idle, "");
	peer_expect_error(idle, "silence-timeout", true);
	peer_close(idle);
	/* The one that has a stream, and has taken all of it, stays. */
	peer_run_for(e.base, 3 * NS_PER_S);
	engine_write(&e, 100);
	watcher_await(&watcher, 100);
	peer_close(watcher.peer);
	engine_close(&e);
}

/* For three seconds nobody is heard, as when the machine is paused: that makes nobody silent. */
static void test_held_up(void **state)
{
	const struct timespec pause = {.tv_sec = 3};
	struct server_bounds bounds = engine_bounds(8);
	struct peer *idle, *late, *mute;
	struct engine e;

	(void)state;
	engine_open(&e, 1, 1, 8);
	bounds.session.silence_timeout_ns = bounds.session.hello_timeout_ns = NS_PER_S;
	server_set_bounds(e.server, &bounds);
	peer_greet(idle = engine_connect(&e));
	ask_probes(idle);
	expect_probes(idle, "");
	late = engine_connect(&e);
	mute = engine_connect(&e);
	peer_run_for(e.base, NS_PER_S / 10);
	nanosleep(&pause, NULL);
	peer_run_for(e.base, NS_PER_S / 10);
	peer_greet(late);
	ask_probes(idle);
	expect_probes(idle, "");
	/* Later they are, as ever. */
	peer_expect_error(mute, "hello-timeout", true);
	peer_expect_error(idle, "silence-timeout", true);
	peer_close(mute);
	peer_close(late);
	peer_close(idle);
	engine_close(&e);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_order),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_viewer),
		cmocka_unit_test(test_delete_dump),
		cmocka_unit_test(test_delete_dump_unaudited),
		cmocka_unit_test(test_denied_without_end),
		cmocka_unit_test(test_disk_fails),
		cmocka_unit_test(test_no_disk),
		cmocka_unit_test(test_gone),
		cmocka_unit_test(test_answered_when_in_force),
		cmocka_unit_test(test_loader_refuses),
		cmocka_unit_test(test_loader_gone),
		cmocka_unit_test(test_reload_among_changes),
		cmocka_unit_test(test_start_is_refused),
		cmocka_unit_test(test_comes_back),
		cmocka_unit_test(test_programs_bring_what_is_on),
		cmocka_unit_test(test_what_programs_may_bring_is_waited_for),
		cmocka_unit_test(test_what_a_client_waits_for),
		cmocka_unit_test(test_pending),
		cmocka_unit_test(test_silence),
		cmocka_unit_test(test_held_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
