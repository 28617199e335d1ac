/*
 * Durable consumers and the directories of their events: which each has, in every run of the daemon; what
 * a file of consumers brings back; when what they acknowledged goes, and what goes with an exporter that
 * asks for something else.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include <fcntl.h>
#include <limits.h>

#include "daemon/base/counters.h"
#include "daemon/base/limits.h"
#include "daemon/spool/frame.h"
#include "daemon/stream/durable.h"
#include "tests/unit/daemon/durable_engine.h"

#define CALLS	"syscall:getppid:call"
#define OPENS	"syscall:openat:call"
#define NO_ONES "syscall:nosuch:call"

#define PLAIN	 "flags 0\nacked 0\nfilter \nprobe " CALLS "\nend\n"
#define FILTERED "flags 0\nacked 0\nfilter ret%20>%20200\nprobe " CALLS "\nend\n"
#define FLAGGED	 "flags 4\nacked 0\nfilter \nprobe " CALLS "\nend\n"
#define OTHER	 "flags 0\nacked 0\nfilter \nprobe " OPENS "\nend\n"
#define TWO	 "flags 4\nacked 0\nfilter \nprobe *\nprobe openat\nend\n"
#define ONE	 "flags 4\nacked 0\nfilter \nprobe *openat\nend\n"
#define UNKNOWN	 "flags 0\nacked 0\nfilter \nprobe " NO_ONES "\nend\n"

static int (*remove_file)(struct disk *disk, const char *path);

/* While it is set: segments that go while the file of consumers does not say so yet. */
static char acknowledged[64];
static unsigned removed, removed_too_early;

static int watchful_remove(struct disk *of, const char *path)
{
	if (*acknowledged && strncmp(path, "spool/", 6) == 0) {
		removed++;
		removed_too_early += !strstr(text_of("consumers"), acknowledged);
	}
	return remove_file(of, path);
}

static int setup(void **state)
{
	(void)state;
	durable_engine_setup();
	remove_file = disk_ops.remove;
	disk_ops.remove = watchful_remove;
	acknowledged[0] = '\0';
	removed = removed_too_early = 0;
	engine_dials_relay = false;
	return 0;
}

/* ---- Memory ---------------------------------------------------------------------------------- */

static _Thread_local unsigned long fails_in = ULONG_MAX;	/* of this thread: so many allocations succeed yet */

static bool has_memory(void)
{
	return fails_in == ULONG_MAX || fails_in-- > 0 || (fails_in = ULONG_MAX, false);
}

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t n, size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t n, size_t bytes);

void *__wrap_malloc(size_t bytes)
{
	return has_memory() ? __real_malloc(bytes) : NULL;
}

void *__wrap_calloc(size_t n, size_t bytes)
{
	return has_memory() ? __real_calloc(n, bytes) : NULL;
}

char *__real_strdup(const char *text);
char *__wrap_strdup(const char *text);

char *__wrap_strdup(const char *text)
{
	return has_memory() ? __real_strdup(text) : NULL;
}

/* ---- What is in the file ----------------------------------------------------------------------- */

/* Pairs of a name and its block; spool NULL, or the directory that the file says it has. */
struct block {
	const char *name, *what, *spool;
};

static void write_file(const struct block *block, size_t n)
{
	char path[256];
	FILE *file;

	snprintf(path, sizeof(path), "%s/consumers", directory);
	file = fopen(path, "w");
	assert_non_null(file);
	fputs("ringtail consumers 1\n", file);
	for (size_t i = 0; i < n; i++) {
		fprintf(file, "consumer %s\n", block[i].name);
		if (block[i].spool)
			fprintf(file, "spool %s\n", block[i].spool);
		fputs(block[i].what, file);
	}
	assert_int_equal(fclose(file), 0);
}

static const struct block all_blocks[] = {
	{.name = "plain", .what = PLAIN}, {.name = "filtered", .what = FILTERED},
	{.name = "flagged", .what = FLAGGED}, {.name = "other", .what = OTHER},
	{.name = "two", .what = TWO}, {.name = "one", .what = ONE},	/* the same letters */
};
#define BLOCKS (sizeof(all_blocks) / sizeof(all_blocks[0]))

/* A run of a daemon that finds these in the file, and nothing on its disk. */
static void open_fresh(struct engine *e, const struct block *block, size_t n)
{
	teardown(NULL);
	setup(NULL);
	write_file(block, n);
	engine_open(e, 2, 1, 8);
}

/* What is asked for names it, whoever else asks for what, and in whatever order. */
static void directory_of_a_request(void **state)
{
	char alone[BLOCKS][SPOOL_NAME_BYTES], name[SPOOL_NAME_BYTES];
	struct block reversed[BLOCKS];
	struct engine e;

	(void)state;
	for (size_t i = 0; i < BLOCKS; i++) {
		open_fresh(&e, &all_blocks[i], 1);
		copy_name(&e, all_blocks[i].name, alone[i]);
		engine_close(&e);
		reversed[BLOCKS - 1 - i] = all_blocks[i];
	}
	for (unsigned turn = 0; turn < 2; turn++) {
		open_fresh(&e, turn ? reversed : all_blocks, BLOCKS);
		for (size_t i = 0; i < BLOCKS; i++) {
			copy_name(&e, all_blocks[i].name, name);
			assert_string_equal(name, alone[i]);
		}
		engine_close(&e);
	}
}

/* One who asks for something else has it: another is found, and written down before anything is in it. */
static void directory_of_another_not_shared(void **state)
{
	char plain[SPOOL_NAME_BYTES], name[3][SPOOL_NAME_BYTES], line[128];
	struct block block[3] = {{.name = "filtered", .what = FILTERED}, {.name = "plain", .what = PLAIN},
				 {.name = "other", .what = OTHER}};
	struct engine e;

	(void)state;
	open_fresh(&e, &all_blocks[0], 1);
	copy_name(&e, "plain", plain);
	engine_close(&e);
	block[0].spool = block[2].spool = plain;
	open_fresh(&e, block, 3);
	for (unsigned i = 0; i < 3; i++)
		copy_name(&e, block[i].name, name[i]);
	assert_string_equal(name[0], plain);		/* it was there first */
	for (unsigned i = 0; i < 3; i++)
		assert_string_not_equal(name[i], name[(i + 1) % 3]);
	engine_settle(&e);
	for (unsigned i = 0; i < 3; i++) {
		snprintf(line, sizeof(line), "consumer %s\nflags 0\nspool %s\n", block[i].name, name[i]);
		assert_non_null(strstr(text_of("consumers"), line));
	}
	engine_close(&e);
}

/* The spool, and the subscription, are of the filter and the flags that it was registered with. */
static void restored_as_registered(void **state)
{
	struct engine e;

	(void)state;
	open_fresh(&e, all_blocks, BLOCKS);
	assert_string_equal(subscription_of(&e, "filtered")->filter_text, "ret > 200");
	assert_string_equal(spool_of(&e, "filtered").config->filter, "ret > 200");
	assert_string_equal(spool_of(&e, "flagged").config->filter, "");
	assert_int_equal(subscription_of(&e, "flagged")->spec.flags & 4, 4);
	assert_int_equal(spool_of(&e, "flagged").config->flags & 4, 4);
	assert_int_equal(spool_of(&e, "plain").config->flags & 4, 0);
	assert_ptr_not_equal(subscription_of(&e, "filtered"), subscription_of(&e, "plain"));
	assert_int_equal(subscription_of(&e, "plain")->consumers, 1);
	engine_close(&e);
}

/* That this kernel has no such probe is one consumer's trouble, and not that of those behind it. */
static void restored_behind_one_that_cannot_be(void **state)
{
	static const struct block block[] = {{.name = "lost", .what = UNKNOWN},
					     {.name = "plain", .what = PLAIN}};
	struct engine e;

	(void)state;
	open_fresh(&e, block, 2);
	assert_null(subscription_of(&e, "lost"));
	assert_non_null(subscription_of(&e, "plain"));
	engine_close(&e);
}

/* As many of clients as there may be, and the daemon's own before and behind them. */
static void restored_within_the_bound(void **state)
{
	static char name[CONSUMERS_OF_CLIENTS_MAX + 1][16];
	struct block block[CONSUMERS_OF_CLIENTS_MAX + 3] = {{.name = "export-loki-0", .what = OTHER},
							    {.name = CONSUMER_RELAY, .what = FILTERED}};
	struct engine e;

	(void)state;
	for (unsigned i = 0; i <= CONSUMERS_OF_CLIENTS_MAX; i++) {
		snprintf(name[i], sizeof(name[i]), "c%u", i);
		block[i + 2] = (struct block){.name = name[i], .what = PLAIN};
	}
	open_fresh(&e, block, CONSUMERS_OF_CLIENTS_MAX + 3);
	assert_non_null(subscription_of(&e, "export-loki-0"));
	assert_non_null(subscription_of(&e, CONSUMER_RELAY));
	assert_non_null(subscription_of(&e, name[CONSUMERS_OF_CLIENTS_MAX - 1]));
	assert_null(subscription_of(&e, name[CONSUMERS_OF_CLIENTS_MAX]));
	assert_int_equal(subscription_of(&e, name[0])->consumers, CONSUMERS_OF_CLIENTS_MAX);
	engine_close(&e);
}

/* What an exporter is recorded for has the strings that exports are given; a client's has not. */
static void restored_exporter_has_the_strings_of_exports(void **state)
{
	static const struct block block[] = {{.name = "export-loki-0", .what = OTHER},
					     {.name = "plain", .what = PLAIN}};
	struct engine e;

	(void)state;
	engine_file_strings = true;
	open_fresh(&e, block, 2);
	engine_file_strings = false;
	assert_true(subscription_of(&e, "export-loki-0")->spec.file_strings);
	assert_false(subscription_of(&e, "plain")->spec.file_strings);
	engine_close(&e);
}

/* ---- What is held ------------------------------------------------------------------------------ */

static char held_name[SPOOL_NAME_BYTES];

static void note_held(void *names, const char *name)
{
	strcat(names, name);
	strcat(names, " ");
}

/* A run whose kernel had the probe, and then one whose kernel has not: held_name is what the first wrote. */
static void open_held(struct engine *e, const struct block *block, size_t n)
{
	open_fresh(e, &all_blocks[0], 1);
	copy_name(e, "plain", held_name);
	engine_settle(e);
	engine_write(e, 100);
	PEER_AWAIT(e->base, segments(held_name) > 0);
	engine_close(e);
	write_file(block, n);
	engine_open(e, 2, 1, 8);
	engine_settle(e);
	assert_true(segments(held_name) > 0);
}

/* The last who needs it gives it up: then it goes, and not before. */
static void held_until_the_last_gives_it_up(void **state)
{
	static const struct block block[] = {{.name = "lost", .what = UNKNOWN, .spool = held_name},
					     {.name = "other", .what = OTHER},
					     {.name = "second", .what = UNKNOWN, .spool = held_name},
					     {.name = "new", .what = UNKNOWN}};
	char names[256] = "", twice[2 * SPOOL_NAME_BYTES + 2];
	struct durable durable;
	struct error error;
	struct engine e;

	(void)state;
	open_held(&e, block, 4);
	durable = (struct durable){.spooler = e.spooler, .consumers = e.consumers};
	durable_each_held(&durable, note_held, names);
	snprintf(twice, sizeof(twice), "%s %s ", held_name, held_name);
	assert_string_equal(names, twice);
	assert_int_equal(fanout_forget_consumer(e.fanout, "lost", &error), 0);
	assert_int_equal(fanout_forget_consumer(e.fanout, "new", &error), 0);
	engine_settle(&e);
	assert_true(segments(held_name) > 0);
	assert_int_equal(fanout_forget_consumer(e.fanout, "second", &error), 0);
	engine_settle(&e);
	assert_int_equal(segments(held_name), 0);
	engine_close(&e);
}

/* ---- Exporters --------------------------------------------------------------------------------- */

static int tap_all(struct engine *e, struct subscriber *exporter, const char *consumer, const char *probe)
{
	struct error error;

	return tap(e, exporter, consumer, probe, "", &error);
}

/* It asks for what this kernel has: what was held for it is nobody's. */
static void held_for_an_exporter_that_asks_for_another(void **state)
{
	static const struct block block = {.name = "export-loki-0", .what = UNKNOWN, .spool = held_name};
	struct subscriber exporter;
	struct engine e;

	(void)state;
	open_held(&e, &block, 1);
	assert_int_equal(tap_all(&e, &exporter, "export-loki-0", OPENS), 0);
	PEER_AWAIT(e.base, exporter.stream);
	engine_settle(&e);
	assert_int_equal(segments(held_name), 0);
	untap(&e, &exporter);
	engine_close(&e);
}

/* What it had not sent is on disk: that goes, and is counted. */
static void exporter_gives_up_what_it_had_not_sent(void **state)
{
	uint64_t bytes = counter_read(COUNTER_export_bytes_given_up);
	struct subscriber exporter;
	char name[SPOOL_NAME_BYTES];
	struct engine e;

	(void)state;
	engine_open(&e, 2, 1, 8);
	assert_int_equal(tap_all(&e, &exporter, "export-loki-0", CALLS), 0);
	PEER_AWAIT(e.base, exporter.stream);
	copy_name(&e, "export-loki-0", name);
	record(&e, name, 500, 3);
	untap(&e, &exporter);
	engine_settle(&e);
	assert_int_equal(tap_all(&e, &exporter, "export-loki-0", OPENS), 0);
	PEER_AWAIT(e.base, exporter.stream);
	assert_true(counter_read(COUNTER_export_bytes_given_up) > bytes);
	assert_ptr_equal(subscription_of(&e, "export-loki-0"), exporter.subscription);
	assert_int_equal(exporter.subscription->consumers, 1);
	PEER_AWAIT(e.base, segments(name) == 0);
	untap(&e, &exporter);
	engine_close(&e);
}

/* A client that asks for something else under its name is refused: what is there stays, of what it was. */
static void client_that_asks_for_another_is_refused(void **state)
{
	const char *probe = OPENS;
	uint64_t changed = counter_read(COUNTER_exports_changed);
	struct client_identity identity = {.role = ROLE_OPERATOR, .text = ""};
	struct subscribe_request request = {
		.what = {.glob = &probe, .globs = 1, .filter = ""}, .consumer = "plain",
	};
	struct subscriber client = {.live = on_live, .refused = on_refused, .wake = on_wake,
				    .identity = &identity};
	struct subscription *before;
	char name[SPOOL_NAME_BYTES];
	struct error error;
	struct engine e;

	(void)state;
	open_fresh(&e, all_blocks, 1);
	before = subscription_of(&e, "plain");
	copy_name(&e, "plain", name);
	engine_settle(&e);
	assert_int_equal(fanout_subscribe(e.fanout, &client, &request, &error), -EINVAL);
	assert_string_equal(error.code, "consumer-differs");
	assert_ptr_equal(subscription_of(&e, "plain"), before);
	assert_string_equal(consumers_find(e.consumers, "plain")->glob[0], CALLS);
	assert_string_equal(consumers_find(e.consumers, "plain")->spool, name);
	assert_null(consumers_find(e.consumers, "plain")->subscriber);
	assert_int_equal(before->consumers, 1);
	assert_int_equal(counter_read(COUNTER_exports_changed), changed);
	engine_close(&e);
}

/* The kernel refuses what one asks for: that one has none then, and the others have theirs. */
static void refused_alone(void **state)
{
	static const struct block block[] = {{.name = "plain", .what = PLAIN},
					     {.name = "export-a", .what = UNKNOWN}};
	struct subscriber exporter;
	struct engine e;

	(void)state;
	open_fresh(&e, block, 2);
	engine_settle(&e);
	e.loader.refuse_probe = SMALL_OPENAT;
	assert_int_equal(tap_all(&e, &exporter, "export-a", OPENS), 0);
	PEER_AWAIT(e.base, exporter.state == SUBSCRIBER_AWAY);
	engine_settle(&e);
	assert_null(subscription_of(&e, "export-a"));
	assert_non_null(subscription_of(&e, "plain"));
	engine_close(&e);
}

/* The last gives it up, and before it is gone another comes: what is recorded is kept for that one. */
static void given_up_and_wanted_again(void **state)
{
	struct subscriber exporter;
	struct error error;
	struct engine e;

	(void)state;
	engine_open(&e, 2, 1, 8);
	assert_int_equal(tap_all(&e, &exporter, "export-a", CALLS), 0);
	PEER_AWAIT(e.base, exporter.stream);
	record(&e, "", 500, 3);
	untap(&e, &exporter);
	assert_int_equal(fanout_forget_consumer(e.fanout, "export-a", &error), 0);
	assert_int_equal(tap_all(&e, &exporter, "export-b", CALLS), 0);
	PEER_AWAIT(e.base, exporter.stream);
	engine_settle(&e);
	untap(&e, &exporter);
	engine_close(&e);
	assert_true(segments("") > 2);
}

/* ---- The relay's ------------------------------------------------------------------------------- */

static const struct client_identity the_relay = {.proof = IDENTITY_RELAY, .role = ROLE_VIEWER, .text = "relay"};

/* It asks for what is always on, as a relay does. */
static int dial(struct engine *e, struct subscriber *relay)
{
	struct subscribe_request request = {.what = {.filter = ""}, .consumer = CONSUMER_RELAY};
	struct error error;

	*relay = (struct subscriber){.live = on_live, .refused = on_refused, .wake = on_wake, .identity = &the_relay};
	return fanout_subscribe(e->fanout, relay, &request, &error);
}

static void expect_place(const struct consumer *consumer, uint64_t first, uint64_t second)
{
	assert_non_null(consumer->place);
	assert_int_equal(consumer->place->run.epoch, engine_epoch);
	assert_int_equal(cursor_seq(consumer->place, engine_cpu[0], UINT64_MAX), first);
	assert_int_equal(cursor_seq(consumer->place, engine_cpu[1], UINT64_MAX), second);
}

/* What is recorded is the relay's before there is one, over a restart, and on disk before any of it is. */
static void relay_has_what_was_before_it(void **state)
{
	struct subscriber relay;
	struct consumer *its;
	uint64_t begin[ENGINE_RINGS];
	struct engine e;

	(void)state;
	engine_dials_relay = true;
	engine_open(&e, 2, 1, 8);
	engine_write(&e, 100);
	always_on(&e, CALLS);
	PEER_AWAIT(e.base, find_relays(&e));
	its = find_relays(&e);
	assert_string_equal(its->owner, the_relay.text);
	assert_string_equal(its->glob[0], CALLS);
	assert_true(its->subscription->permanent);
	assert_int_equal(its->subscription->consumers, 1);
	assert_int_equal(its->acked_realtime_ns, 0);
	memcpy(begin, its->subscription->floor, sizeof(begin));
	expect_place(its, begin[0], begin[1]);
	engine_write(&e, 1000);
	engine_settle(&e);
	assert_int_equal(its->record, CONSUMER_SAVED);
	assert_non_null(strstr(text_of("consumers"), "consumer relay\nowner relay\n"));
	assert_int_equal(dial(&e, &relay), 0);
	PEER_AWAIT(e.base, relay.state == SUBSCRIBER_LIVE);
	for (unsigned i = 0; i < ENGINE_RINGS; i++)
		assert_int_equal(relay.stream->ring[i].start, begin[i]);
	assert_int_equal(its->subscription->consumers, 1);
	untap(&e, &relay);
	engine_close(&e);
	/* Another run: the place is where it was. */
	engine_epoch = 100;
	engine_open(&e, 2, 1, 8);
	always_on(&e, CALLS);
	engine_settle(&e);
	its = find_relays(&e);
	assert_int_equal(its->place->run.epoch, 99);
	assert_true(its->subscription->permanent);
	assert_int_equal(its->subscription->consumers, 1);
	engine_close(&e);
}

/* It is there before what it asks for is recorded: its stream begins where that does. */
static void relay_waits_for_what_is_always_on(void **state)
{
	struct subscriber relay;
	struct engine e;

	(void)state;
	engine_dials_relay = true;
	engine_open(&e, 2, 1, 8);
	always_on(&e, CALLS);
	assert_int_equal(dial(&e, &relay), 0);
	assert_int_equal(relay.state, SUBSCRIBER_WAITING);
	assert_null(find_relays(&e)->place);
	PEER_AWAIT(e.base, relay.state == SUBSCRIBER_LIVE);
	expect_place(find_relays(&e), relay.subscription->floor[0], relay.subscription->floor[1]);
	assert_int_equal(relay.begin.from, BEGIN_NOW);
	for (unsigned i = 0; i < ENGINE_RINGS; i++)
		assert_int_equal(relay.stream->ring[i].start, relay.subscription->floor[i]);
	untap(&e, &relay);
	engine_close(&e);
}

/* Without a relay to dial, and where nothing outlives the daemon, nobody is registered. */
static void relay_that_is_not_dialled(void **state)
{
	struct engine e;

	(void)state;
	engine_open(&e, 2, 1, 8);
	always_on(&e, CALLS);
	engine_settle(&e);
	assert_null(find_relays(&e));
	engine_close(&e);
	engine_dials_relay = true;
	engine_durable = false;
	engine_open(&e, 2, 1, 8);
	always_on(&e, CALLS);
	engine_settle(&e);
	engine_close(&e);
	assert_string_equal(text_of("consumers"), "");
}

/* What is always on changes: at once where no relay is connected, and else when it leaves. Its place stays. */
static void relay_follows_what_is_always_on(void **state)
{
	uint64_t changed = counter_read(COUNTER_exports_changed), place[ENGINE_RINGS];
	struct subscription *calls;
	struct subscriber relay;
	struct consumer *its;
	struct engine e;

	(void)state;
	engine_dials_relay = true;
	engine_open(&e, 2, 1, 8);
	always_on(&e, CALLS);
	PEER_AWAIT(e.base, find_relays(&e));
	its = find_relays(&e);
	calls = its->subscription;
	memcpy(place, calls->floor, sizeof(place));
	engine_write(&e, 100);
	engine_settle(&e);
	assert_int_equal(dial(&e, &relay), 0);
	PEER_AWAIT(e.base, relay.state == SUBSCRIBER_LIVE);
	always_on(&e, OPENS);
	engine_settle(&e);
	assert_ptr_equal(its->subscription, calls);
	assert_string_equal(its->glob[0], CALLS);
	assert_int_equal(calls->consumers, 1);
	untap(&e, &relay);
	assert_int_equal(dial(&e, &relay), 0);
	PEER_AWAIT(e.base, relay.state == SUBSCRIBER_LIVE);
	assert_string_equal(its->glob[0], OPENS);
	assert_true(its->subscription->permanent);
	assert_ptr_equal(its->subscription, relay.subscription);
	expect_place(its, place[0], place[1]);
	untap(&e, &relay);
	always_on(&e, CALLS);
	PEER_AWAIT(e.base, strcmp(its->glob[0], CALLS) == 0);
	assert_true(its->subscription->permanent);
	assert_int_equal(its->subscription->consumers, 1);
	expect_place(its, place[0], place[1]);
	assert_int_equal(counter_read(COUNTER_exports_changed), changed);
	engine_close(&e);
}

/* An operator gives up what it has missed: it begins anew where recording is by then. */
static void relay_begins_anew(void **state)
{
	struct error error;
	struct engine e;

	(void)state;
	engine_dials_relay = true;
	engine_open(&e, 2, 1, 8);
	always_on(&e, CALLS);
	PEER_AWAIT(e.base, find_relays(&e));
	engine_write(&e, 100);
	engine_settle(&e);
	assert_int_equal(fanout_forget_consumer(e.fanout, CONSUMER_RELAY, &error), 0);
	assert_non_null(find_relays(&e));
	assert_int_equal(find_relays(&e)->subscription->consumers, 1);
	assert_true(find_relays(&e)->subscription->position[0] > find_relays(&e)->subscription->floor[0]);
	expect_place(find_relays(&e), find_relays(&e)->subscription->position[0],
		     find_relays(&e)->subscription->position[1]);
	engine_settle(&e);
	assert_int_equal(find_relays(&e)->record, CONSUMER_SAVED);
	engine_close(&e);
}

/* ---- What is acknowledged ---------------------------------------------------------------------- */

/* Exporters are sent nothing here: what they may acknowledge is noted by hand. */
static int acknowledge_of(struct engine *e, struct subscriber *exporter, uint64_t epoch, uint64_t seq,
			  unsigned rings)
{
	struct cursor *upto = cursor_create(ENGINE_RINGS);
	struct error error;
	int err;

	assert_non_null(upto);
	upto->run = (struct run){.boot_id = "0123456789abcde", .epoch = epoch};
	for (unsigned i = 0; i < rings; i++) {
		consumer_note_sent(exporter->consumer, &upto->run, engine_cpu[i], seq);
		cursor_append(upto, engine_cpu[i], seq);
	}
	err = fanout_ack(e->fanout, exporter, upto, &error);
	free(upto);
	return err;
}

static int acknowledge(struct engine *e, struct subscriber *exporter, uint64_t epoch, uint64_t seq)
{
	return acknowledge_of(e, exporter, epoch, seq, ENGINE_RINGS);
}

/* Consumers of something else have places of their own: of other numbers, and of an earlier run. */
static void freed_whatever_others_acknowledged(void **state)
{
	struct subscriber one, other;
	char name[SPOOL_NAME_BYTES];
	unsigned long last;
	struct engine e;

	(void)state;
	for (engine_epoch = 99; engine_epoch < 101; engine_epoch++) {
		engine_open(&e, 2, 1, 8);
		if (engine_epoch == 99)
			assert_int_equal(tap_all(&e, &other, "export-b", OPENS), 0);
		assert_int_equal(tap_all(&e, &one, "export-a", CALLS), 0);
		PEER_AWAIT(e.base, one.stream && (engine_epoch > 99 || other.stream));
		assert_int_equal(one.subscription->consumers, 1);
		copy_name(&e, "export-a", name);
		record(&e, name, 1000, 4);
		/* In the second run its place has that CPU alone: of the other it had nothing yet. */
		assert_int_equal(acknowledge_of(&e, &one, engine_epoch, 1000, 1), 0);
		engine_settle(&e);
		assert_true(segments(name) > 4);
		last = newest_segment(name);
		assert_int_equal(acknowledge(&e, &one, engine_epoch, 1000), 0);
		engine_settle(&e);
		PEER_AWAIT(e.base, oldest_segment(name) >= last);
		assert_false(one.subscription->owes_release);
		untap(&e, &one);
		if (engine_epoch == 99)
			untap(&e, &other);
		engine_close(&e);
	}
}

/* One is in an earlier run of the rings than the other: the numbers of that one are of no account there. */
static void freed_in_the_oldest_run(void **state)
{
	struct subscriber slow, fast;
	char name[SPOOL_NAME_BYTES];
	unsigned long first;
	struct engine e;

	(void)state;
	for (unsigned slow_first = 0; slow_first < 2; slow_first++) {
		const char *slow_name = slow_first ? "export-a" : "export-b";
		const char *fast_name = slow_first ? "export-b" : "export-a";

		teardown(NULL);
		setup(NULL);
		engine_open(&e, 2, 1, 8);
		assert_int_equal(tap_all(&e, &slow, "export-a", CALLS), 0);
		assert_int_equal(tap_all(&e, &fast, "export-b", CALLS), 0);
		PEER_AWAIT(e.base, slow.stream && fast.stream);
		copy_name(&e, "export-a", name);
		record(&e, name, 1000, 4);
		untap(&e, &slow);
		untap(&e, &fast);
		engine_close(&e);

		engine_epoch = 100;
		engine_open(&e, 2, 1, 8);
		assert_int_equal(tap_all(&e, &slow, slow_name, CALLS), 0);
		assert_int_equal(tap_all(&e, &fast, fast_name, CALLS), 0);
		PEER_AWAIT(e.base, slow.stream && fast.stream);
		record(&e, name, 100, 0);
		first = oldest_segment(name);
		assert_int_equal(acknowledge(&e, &fast, 100, 100), 0);
		engine_settle(&e);
		assert_int_equal(oldest_segment(name), first);
		assert_int_equal(acknowledge(&e, &slow, 99, 1000), 0);
		engine_settle(&e);
		PEER_AWAIT(e.base, oldest_segment(name) > first + 2);
		untap(&e, &slow);
		untap(&e, &fast);
		engine_close(&e);
	}
}

/* The slower of two asks for something else: what it alone had needed of this goes. */
static void freed_when_the_slowest_turns_away(void **state)
{
	struct subscriber fast, slow;
	char name[SPOOL_NAME_BYTES];
	unsigned long last;
	struct engine e;

	(void)state;
	engine_open(&e, 2, 1, 8);
	assert_int_equal(tap_all(&e, &fast, "export-a", CALLS), 0);
	assert_int_equal(tap_all(&e, &slow, "export-b", CALLS), 0);
	PEER_AWAIT(e.base, fast.stream && slow.stream);
	copy_name(&e, "export-a", name);
	record(&e, name, 1000, 4);
	assert_int_equal(acknowledge(&e, &fast, 99, 1000), 0);
	engine_settle(&e);
	assert_true(segments(name) > 4);
	last = newest_segment(name);
	untap(&e, &slow);
	assert_int_equal(tap_all(&e, &slow, "export-b", OPENS), 0);
	PEER_AWAIT(e.base, slow.stream);
	engine_settle(&e);
	PEER_AWAIT(e.base, oldest_segment(name) >= last);
	untap(&e, &slow);
	untap(&e, &fast);
	engine_close(&e);
}

/* Behind a save that is under way, too, what says so is on the disk before what was acknowledged goes. */
static void nothing_goes_before_its_acknowledgement_is_written(void **state)
{
	struct subscriber exporter;
	char name[SPOOL_NAME_BYTES];
	struct engine e;

	(void)state;
	engine_open(&e, 2, 1, 8);
	assert_int_equal(tap_all(&e, &exporter, "export-a", CALLS), 0);
	PEER_AWAIT(e.base, exporter.stream);
	copy_name(&e, "export-a", name);
	record(&e, name, 1000, 4);
	snprintf(acknowledged, sizeof(acknowledged), " %u:999 %u:999\n", engine_cpu[0], engine_cpu[1]);
	assert_int_equal(acknowledge(&e, &exporter, 99, 1), 0);
	assert_int_equal(acknowledge(&e, &exporter, 99, 999), 0);
	assert_true(exporter.subscription->owes_release);
	engine_settle(&e);
	assert_false(exporter.subscription->owes_release);
	assert_true(removed > 2);
	assert_int_equal(removed_too_early, 0);
	untap(&e, &exporter);
	engine_close(&e);
}

/* ---- Where a spool begins ---------------------------------------------------------------------- */

/* A subscription that no fanout knows, in whatever state. */
struct hand {
	struct engine engine;
	struct subscriptions all;
	struct rings rings;
	struct durable durable;
	struct subscription *subscription;
	unsigned hellos;
};

static unsigned pokes;

void __real_catch_up_poke(struct stream *stream);
void __wrap_catch_up_poke(struct stream *stream);

void __wrap_catch_up_poke(struct stream *stream)
{
	pokes++;
	__real_catch_up_poke(stream);
}

static struct frame_ref *count_hello(void *context)
{
	struct hand *hand = context;
	struct frame_ref *hello = engine_hello(&hand->engine);

	hand->hellos += hello != NULL;
	return hello;
}

static int get_err;		/* what each subscriptions_get() says; 0: what it finds */

int __real_subscriptions_get(struct subscriptions *subscriptions, const struct subscription_request *request,
			     enum subscription_claim claim, struct subscription **subscription,
			     struct error *error);
int __wrap_subscriptions_get(struct subscriptions *subscriptions, const struct subscription_request *request,
			     enum subscription_claim claim, struct subscription **subscription,
			     struct error *error);

int __wrap_subscriptions_get(struct subscriptions *subscriptions, const struct subscription_request *request,
			     enum subscription_claim claim, struct subscription **subscription,
			     struct error *error)
{
	if (get_err)
		return error_set(error, -get_err, "none", "there is none");
	return __real_subscriptions_get(subscriptions, request, claim, subscription, error);
}

static struct frame_ref *no_hello(void *context)
{
	(void)context;
	return NULL;
}

static void open_hand(struct hand *hand, enum subscription_state state, enum subscription_origin origin)
{
	static const char *const glob[] = {CALLS};
	struct subscription_request request = {.glob = glob, .globs = 1, .filter = ""};
	struct error error;

	*hand = (struct hand){0};
	engine_open(&hand->engine, 2, 1, 8);
	hand->rings = (struct rings){.run = {.boot_id = "0123456789abcde", .epoch = engine_epoch},
				     .n = ENGINE_RINGS, .cpu_of = (uint32_t *)engine_cpu};
	hand->all.config.catalog = small_catalog_get();
	hand->all.config.codec = hand->engine.codec;
	hand->durable = (struct durable){.spooler = hand->engine.spooler,
					 .consumers = hand->engine.consumers,
					 .subscriptions = &hand->all, .rings = &hand->rings,
					 .hello = count_hello, .hello_context = hand};
	assert_int_equal(subscription_create(&request, small_catalog_get(), ENGINE_RINGS, 1 << 20,
					     &hand->subscription, &error), 0);
	hand->subscription->state = state;
	hand->subscription->origin = origin;
	for (unsigned i = 0; i < ENGINE_RINGS; i++)
		hand->subscription->position[i] = 50 + i;
}

static void close_hand(struct hand *hand)
{
	subscription_destroy(hand->subscription);
	engine_settle(&hand->engine);
	engine_close(&hand->engine);
}

/* How much of no known size is missing, a reader is told; -1: no answer yet. */
static int answered;

static void on_frames(void *context, struct frame_ref *const *frame, unsigned n, bool end)
{
	(void)context, (void)end;
	answered = 0;
	for (unsigned i = 0; i < n; i++) {
		answered += frame[i]->type == FRAME_GAP && frame[i]->first_seq == frame[i]->end_seq;
		frame_ref_put(frame[i]);
	}
}

/* Stores something, and asks for what was recorded since that time, which is before. */
static int missing_since(struct hand *hand, uint64_t realtime_ns)
{
	struct spool_place since = {.realtime_ns = realtime_ns};
	struct spool *spool = hand->subscription->spool.spool;
	struct spool_reader *reader;

	for (unsigned i = 0; i < ENGINE_RINGS; i++)
		spool_begin_ring(spool, i, 50 + i);
	spool_append(spool, spool_frame_gap(hand->engine.codec, engine_cpu[0], 50, 60, 0,
					    LOSS_REASON_RESTART));
	PEER_AWAIT(hand->engine.base, segments("") == 1);
	engine_settle(&hand->engine);
	answered = -1;
	assert_int_equal(spool_reader_create(spool, &since, on_frames, NULL, &reader), 0);
	spool_reader_next(reader, 1 << 16);
	PEER_AWAIT(hand->engine.base, answered >= 0);
	spool_reader_destroy(reader);
	return answered;
}

/* One that is live has recorded all along: what is before its place is not there, and from now on all is. */
static void spool_of_a_live_subscription(void **state)
{
	const enum loss_reason full = LOSS_REASON_SPOOL_FULL;
	struct error error;
	struct hand hand;
	uint64_t kept_ns;

	(void)state;
	for (unsigned live = 0; live < 2; live++) {
		teardown(NULL);
		setup(NULL);
		open_hand(&hand, live ? SUBSCRIPTION_LIVE : SUBSCRIPTION_STARTING, SUBSCRIPTION_NEW);
		assert_int_equal(durable_keep(&hand.durable, hand.subscription, NULL, &error), 0);
		for (unsigned i = 0; i < ENGINE_RINGS; i++) {
			struct spool *spool = hand.subscription->spool.spool;

			assert_int_equal(spool_gap_reason(spool, i, 50 + i) != full, live);
			assert_int_equal(spool_gap_reason(spool, i, 51 + i), full);
		}
		kept_ns = clock_read(CLOCK_REALTIME);
		engine_settle(&hand.engine);
		assert_int_equal(missing_since(&hand, kept_ns), live ? 0 : 1);
		close_hand(&hand);
	}
}

/* How far the disk has it is known as it gets it, and who reads there looks again. */
static void stored_is_noted_and_told(void **state)
{
	struct stream *stream = calloc(1, sizeof(*stream));
	struct error error;
	struct hand hand;

	(void)state;
	assert_non_null(stream);
	open_hand(&hand, SUBSCRIPTION_LIVE, SUBSCRIPTION_NEW);
	assert_int_equal(durable_keep(&hand.durable, hand.subscription, NULL, &error), 0);
	/* Behind an earlier run's, its hello says which run begins: the clock may be another boot's. */
	assert_true(run_equal(&hand.subscription->spool.hello->run, &hand.rings.run));
	stream->subscription = hand.subscription;
	TAILQ_INSERT_TAIL(&hand.subscription->streams, stream, link);
	pokes = 0;
	spool_append(hand.subscription->spool.spool,
		     spool_frame_gap(hand.engine.codec, engine_cpu[0], 50, 60, 0,
				     LOSS_REASON_RESTART));
	PEER_AWAIT(hand.engine.base, segments("") == 1);
	engine_settle(&hand.engine);
	assert_int_equal(hand.subscription->spool.end[0], 60);
	assert_true(pokes > 0);
	TAILQ_REMOVE(&hand.subscription->streams, stream, link);
	free(stream);
	close_hand(&hand);
}

/*
 * Only what the run before recorded goes on: what is missing between the two is that run's loss. Its spool is opened
 * before the kernel is asked for anything. One that is opened later in this run misses what this run had in memory
 * alone.
 */
static void spool_goes_on_with_the_run_before(void **state)
{
	static const enum subscription_origin origin[] = {SUBSCRIPTION_NEW, SUBSCRIPTION_REBORN,
							  SUBSCRIPTION_RESTORED};
	struct spool_stat stat;
	struct error error;
	struct hand hand;

	(void)state;
	for (unsigned i = 0; i < 6; i++) {
		bool live = i >= 3;

		open_hand(&hand, live ? SUBSCRIPTION_LIVE : SUBSCRIPTION_CONFIGURING, origin[i % 3]);
		assert_int_equal(durable_keep(&hand.durable, hand.subscription, NULL, &error), 0);
		spool_stat(hand.subscription->spool.spool, &stat);
		assert_int_equal(stat.config->goes_on, !live && origin[i] == SUBSCRIPTION_RESTORED);
		assert_true(stat.config->always_on);
		close_hand(&hand);
	}
}

/* Whatever finds no memory: nothing is open then, and what is made is made once. */
static void spool_without_memory(void **state)
{
	static const char *const glob[] = {CALLS};
	struct subscription_request request = {.glob = glob, .globs = 1, .filter = ""};
	const void *catalog = NULL, *end = NULL;
	struct consumer *consumer;
	struct error error;
	struct hand hand;
	unsigned failures = 0;

	(void)state;
	open_hand(&hand, SUBSCRIPTION_LIVE, SUBSCRIPTION_NEW);
	assert_int_equal(consumers_add(hand.engine.consumers, "mine", "", &request, &consumer, &error), 0);
	for (unsigned long at = 0;; failures++) {
		const struct subscription_spool *spool = &hand.subscription->spool;
		const void *hello = spool->hello;
		int err;

		fails_in = at;
		err = durable_keep(&hand.durable, hand.subscription, consumer, &error);
		fails_in = ULONG_MAX;
		assert_true(!catalog || spool->catalog == catalog);
		assert_true(!end || spool->end == end);
		/* What is made is there the next time, and asks for no memory. */
		at = hello == spool->hello && catalog == spool->catalog && end == spool->end ? at + 1 : 0;
		catalog = spool->catalog;
		end = spool->end;
		if (!err)
			break;
		assert_int_equal(err, -ENOMEM);
		assert_null(spool->spool);
		assert_string_equal(consumer->spool, "");
	}
	assert_true(failures > 3 && catalog && end);
	assert_int_equal(hand.hellos, 1);
	assert_string_not_equal(consumer->spool, "");
	close_hand(&hand);
}

/* Who has taken it is connected, in the records of both, and counted once. */
static void taken_by_one_at_a_time(void **state)
{
	static const char *const calls[] = {CALLS};
	struct subscription_request request = {.glob = calls, .globs = 1, .filter = ""};
	struct client_identity operator = {.role = ROLE_OPERATOR};
	struct subscriber client = {0};
	struct error error;
	struct hand hand;

	(void)state;
	open_hand(&hand, SUBSCRIPTION_LIVE, SUBSCRIPTION_NEW);
	client.subscription = hand.subscription;
	client.identity = &operator;
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(durable_check(&hand.durable, "mine", &operator, &error), 0);
		assert_int_equal(durable_take(&hand.durable, "mine", &client, &request, &error), 0);
		assert_ptr_equal(client.consumer->subscriber, &client);
		assert_int_equal(hand.subscription->consumers, 1);
		assert_int_equal(durable_check(&hand.durable, "mine", &operator, &error), -EBUSY);
		assert_int_equal(durable_forget(&hand.durable, "mine", &error), -EBUSY);
		client.consumer->subscriber = NULL;
	}
	close_hand(&hand);
}

/* What it asked for before is given up; what it asks for now cannot be kept. It has no subscription then. */
static void exporter_changed_to_what_cannot_be_kept(void **state)
{
	static const char *const calls[] = {CALLS}, *const opens[] = {OPENS};
	struct subscription_request request = {.glob = calls, .globs = 1, .filter = ""};
	struct subscriber exporter = {0};
	struct subscription *other;
	struct consumer *consumer;
	struct error error;
	struct hand hand;

	(void)state;
	open_hand(&hand, SUBSCRIPTION_LIVE, SUBSCRIPTION_NEW);
	exporter.subscription = hand.subscription;
	assert_int_equal(durable_take(&hand.durable, "export-a", &exporter, &request, &error), 0);
	consumer = exporter.consumer;
	hand.subscription->consumers++;		/* another's, so that it is not given up */
	request.glob = opens;
	assert_int_equal(subscription_create(&request, small_catalog_get(), ENGINE_RINGS, 1 << 20, &other,
					     &error), 0);
	other->state = SUBSCRIPTION_LIVE;
	exporter.subscription = other;
	hand.durable.hello = no_hello;
	assert_int_equal(durable_take(&hand.durable, "export-a", &exporter, &request, &error), -ENOMEM);
	assert_null(consumer->subscription);
	assert_int_equal(hand.subscription->consumers, 1);
	assert_int_equal(other->consumers, 0);
	subscription_destroy(other);
	close_hand(&hand);
}

/* A daemon that has no memory for them does not start without them. */
static void not_restored_without_memory(void **state)
{
	static const char *const calls[] = {CALLS};
	struct subscription_request request = {.glob = calls, .globs = 1, .filter = ""};
	struct consumer *consumer;
	struct error error;
	struct hand hand;

	(void)state;
	open_hand(&hand, SUBSCRIPTION_LIVE, SUBSCRIPTION_NEW);
	assert_int_equal(consumers_add(hand.engine.consumers, "mine", "", &request, &consumer, &error), 0);
	get_err = -ENOMEM;
	assert_int_equal(durable_restore(&hand.durable, &error), -ENOMEM);
	get_err = -ENOENT;		/* this kernel's lack of a probe is no reason */
	assert_int_equal(durable_restore(&hand.durable, &error), 0);
	get_err = 0;
	assert_null(consumer->subscription);
	close_hand(&hand);
}

/* An exporter asks for something else, and there is no memory to note that: it is what it was. */
static void exporter_not_changed_without_memory(void **state)
{
	static const char *const calls[] = {CALLS}, *const opens[] = {OPENS};
	struct subscription_request request = {.glob = calls, .globs = 1, .filter = ""};
	uint64_t changed = counter_read(COUNTER_exports_changed);
	struct subscriber exporter = {0};
	struct consumer *consumer;
	unsigned long failures = 0;
	struct error error;
	struct hand hand;
	int err;

	(void)state;
	open_hand(&hand, SUBSCRIPTION_LIVE, SUBSCRIPTION_NEW);
	exporter.subscription = hand.subscription;
	assert_int_equal(durable_take(&hand.durable, "export-a", &exporter, &request, &error), 0);
	consumer = exporter.consumer;
	assert_int_equal(hand.subscription->consumers, 1);
	hand.subscription->consumers++;		/* another's, so that it is not given up */
	consumer->subscriber = NULL;
	request.glob = opens;
	do {
		assert_string_equal(consumer->glob[0], CALLS);
		assert_ptr_equal(consumer->subscription, hand.subscription);
		assert_int_equal(hand.subscription->consumers, 2);
		assert_int_equal(counter_read(COUNTER_exports_changed), changed);
		fails_in = failures++;
		err = durable_take(&hand.durable, "export-a", &exporter, &request, &error);
		fails_in = ULONG_MAX;
	} while (err == -ENOMEM && failures < 20 && strcmp(consumer->glob[0], CALLS) == 0);
	assert_true(failures > 3);
	assert_string_equal(consumer->glob[0], OPENS);
	assert_int_equal(counter_read(COUNTER_exports_changed), changed + 1);
	close_hand(&hand);
}

/* It is registered as far as there is memory, and the next attempt does the rest: once, with one place. */
static void relay_not_registered_without_memory(void **state)
{
	const uint64_t at[ENGINE_RINGS] = {50, 51};
	struct subscriber waiting = {0};
	unsigned long failures = 0;
	struct consumer *relay;
	struct error error;
	struct hand hand;
	int err;

	(void)state;
	open_hand(&hand, SUBSCRIPTION_LIVE, SUBSCRIPTION_NEW);
	do {
		fails_in = failures++;
		err = durable_register_relay(&hand.durable, hand.subscription, at, &error);
		fails_in = ULONG_MAX;
		relay = consumers_find(hand.engine.consumers, CONSUMER_RELAY);
		assert_true(err == -ENOMEM || (relay && relay->place));
		assert_true(hand.subscription->consumers <= 1);
		if (err)
			assert_string_equal(error.code, "out-of-memory");
	} while (err && failures < 40);
	assert_int_equal(err, 0);
	assert_true(failures > 4);
	expect_place(relay, 50, 51);
	assert_ptr_equal(relay->subscription, hand.subscription);
	assert_int_equal(hand.subscription->consumers, 1);
	assert_null(TAILQ_NEXT(relay, link));
	/* What it has is not taken from it. */
	hand.subscription->position[0] = 60;
	assert_int_equal(durable_register_relay(&hand.durable, hand.subscription, hand.subscription->position, &error),
			 0);
	expect_place(relay, 50, 51);
	/* Its place alone was not there: that is tried again, and saved, also where a relay waits for it. */
	engine_settle(&hand.engine);
	free(relay->place);
	relay->place = NULL;
	relay->record = CONSUMER_UNSAVED;
	relay->subscriber = &waiting;
	fails_in = 0;
	assert_int_equal(durable_register_relay(&hand.durable, hand.subscription, at, &error), -ENOMEM);
	assert_int_equal(durable_register_relay(&hand.durable, hand.subscription, at, &error), 0);
	expect_place(relay, 50, 51);
	engine_settle(&hand.engine);
	assert_int_equal(relay->record, CONSUMER_SAVED);
	assert_int_equal(hand.subscription->consumers, 1);
	relay->subscriber = NULL;
	close_hand(&hand);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(directory_of_a_request, setup, teardown),
		cmocka_unit_test_setup_teardown(directory_of_another_not_shared, setup, teardown),
		cmocka_unit_test_setup_teardown(restored_as_registered, setup, teardown),
		cmocka_unit_test_setup_teardown(restored_behind_one_that_cannot_be, setup, teardown),
		cmocka_unit_test_setup_teardown(restored_within_the_bound, setup, teardown),
		cmocka_unit_test_setup_teardown(restored_exporter_has_the_strings_of_exports, setup, teardown),
		cmocka_unit_test_setup_teardown(held_until_the_last_gives_it_up, setup, teardown),
		cmocka_unit_test_setup_teardown(held_for_an_exporter_that_asks_for_another, setup, teardown),
		cmocka_unit_test_setup_teardown(exporter_gives_up_what_it_had_not_sent, setup, teardown),
		cmocka_unit_test_setup_teardown(client_that_asks_for_another_is_refused, setup, teardown),
		cmocka_unit_test_setup_teardown(refused_alone, setup, teardown),
		cmocka_unit_test_setup_teardown(given_up_and_wanted_again, setup, teardown),
		cmocka_unit_test_setup_teardown(relay_has_what_was_before_it, setup, teardown),
		cmocka_unit_test_setup_teardown(relay_waits_for_what_is_always_on, setup, teardown),
		cmocka_unit_test_setup_teardown(relay_that_is_not_dialled, setup, teardown),
		cmocka_unit_test_setup_teardown(relay_follows_what_is_always_on, setup, teardown),
		cmocka_unit_test_setup_teardown(relay_begins_anew, setup, teardown),
		cmocka_unit_test_setup_teardown(relay_not_registered_without_memory, setup, teardown),
		cmocka_unit_test_setup_teardown(freed_whatever_others_acknowledged, setup, teardown),
		cmocka_unit_test_setup_teardown(freed_in_the_oldest_run, setup, teardown),
		cmocka_unit_test_setup_teardown(freed_when_the_slowest_turns_away, setup, teardown),
		cmocka_unit_test_setup_teardown(nothing_goes_before_its_acknowledgement_is_written, setup, teardown),
		cmocka_unit_test_setup_teardown(spool_of_a_live_subscription, setup, teardown),
		cmocka_unit_test_setup_teardown(stored_is_noted_and_told, setup, teardown),
		cmocka_unit_test_setup_teardown(taken_by_one_at_a_time, setup, teardown),
		cmocka_unit_test_setup_teardown(exporter_changed_to_what_cannot_be_kept, setup, teardown),
		cmocka_unit_test_setup_teardown(not_restored_without_memory, setup, teardown),
		cmocka_unit_test_setup_teardown(spool_goes_on_with_the_run_before, setup, teardown),
		cmocka_unit_test_setup_teardown(spool_without_memory, setup, teardown),
		cmocka_unit_test_setup_teardown(exporter_not_changed_without_memory, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
