/* The registry of durable consumers: what it takes, what it refuses, and its file in both directions. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <event2/event.h>
#include <stdio.h>

#include "daemon/base/clock.h"
#include "daemon/base/log.h"
#include "daemon/disk/thread.h"
#include "daemon/stream/consumers.h"
#include "proto/limits.h"
#include "tests/lib/failing_memory.h"
#define FAULTY_REALLOC __real_realloc
#include "tests/lib/faulty_disk.h"

static const char good[] =
	"ringtail consumers 1\n"
	"consumer a.b-c_1\nowner cert:Alice%20%25%7f\nflags 6\nspool 0123456789abcdef\nacked 17\n"
	"account 18446744073709551615 3\nfilter pid%20==%2012%20%25\n"
	"probe syscall:open*:call\nprobe x\n"
	"at 00112233445566778899aabbccddeeff 99 0:4711 5:12\nend\n"
	"consumer second\nflags 0\nacked 0\nfilter \nend\n";

static int parse(const char *text, struct consumer_list *list, unsigned *count)
{
	char *copy = strdup(text);
	struct error error;
	int err;

	TAILQ_INIT(list);
	*count = 0;
	assert_non_null(copy);
	err = consumers_parse(copy, strlen(text), list, count, &error);
	free(copy);
	return err;
}

static void free_list(struct consumer_list *list)
{
	struct consumer *consumer;

	while ((consumer = TAILQ_FIRST(list))) {
		TAILQ_REMOVE(list, consumer, link);
		consumer_free(consumer);
	}
}

static void test_file_both_ways(void **state)
{
	struct consumer_list list;
	struct consumer *first;
	unsigned count;
	size_t bytes;
	char *text;

	(void)state;
	assert_int_equal(parse(good, &list, &count), 0);
	assert_int_equal(count, 2);
	first = TAILQ_FIRST(&list);
	assert_string_equal(first->name, "a.b-c_1");
	assert_string_equal(first->owner, "cert:Alice %\x7f");
	assert_string_equal(TAILQ_NEXT(first, link)->owner, "");
	assert_string_equal(first->filter, "pid == 12 %");
	assert_true(first->account.acked == UINT64_MAX && first->account.lost == 3);
	assert_int_equal(first->account.stored, 2);	/* their sum: it closes before its spool is open */
	assert_int_equal(TAILQ_NEXT(first, link)->account.acked, 0);
	assert_int_equal(first->globs, 2);
	assert_string_equal(first->spool, "0123456789abcdef");
	assert_string_equal(TAILQ_NEXT(first, link)->spool, "");
	assert_int_equal(first->place->run.epoch, 99);
	assert_int_equal(first->place->n, 2);
	assert_int_equal(first->place->position[1].cpu, 5);
	assert_int_equal(first->place->position[1].seq, 12);
	assert_null(TAILQ_NEXT(first, link)->place);
	assert_true(first->earlier && first->record == CONSUMER_SAVED);
	assert_int_equal(TAILQ_NEXT(first, link)->record, CONSUMER_UNSAVED);
	assert_int_equal(consumers_print(&list, &text, &bytes), 0);
	assert_int_equal(bytes, strlen(good));
	assert_string_equal(text, good);
	free(text);
	free_list(&list);
}

/* Every shorter text but those that end with a consumer's block is refused, and none harms. */
static void test_file_cut_anywhere(void **state)
{
	struct consumer_list list;
	unsigned count, accepted = 0;
	char text[sizeof(good)];

	(void)state;
	for (size_t i = 0; i < sizeof(good) - 1; i++) {
		memcpy(text, good, i);
		text[i] = '\0';
		accepted += parse(text, &list, &count) == 0;
		free_list(&list);
	}
	assert_int_equal(accepted, 2);		/* the first line, and the first block */
}

#define BOOT "00112233445566778899aabbccddeeff"
#define PLACED "ringtail consumers 1\nconsumer a\nfilter x\nat " BOOT

static void test_file_refused(void **state)
{
	static const char *const bad[] = {
		"ringtail consumers 2\n",
		"ringtail consumers 1\nend\n",
		"ringtail consumers 1\nconsumer \nfilter \nend\n",
		"ringtail consumers 1\nconsumer a\nend\n",
		"ringtail consumers 1\nconsumer a\nfilter %zz\nend\n",
		"ringtail consumers 1\nconsumer a\nfilter %00\nend\n",
		"ringtail consumers 1\nconsumer a\nfilter x\nflags -1\nend\n",
		"ringtail consumers 1\nconsumer a\nowner \nfilter x\nend\n",
		"ringtail consumers 1\nconsumer a\nowner a%0\nfilter x\nend\n",
		"ringtail consumers 1\nconsumer a\nowner a\nowner b\nfilter x\nend\n",
		"ringtail consumers 1\nconsumer a\nowner "
		"01234567890123456789012345678901234567890123456789012345678901234567890123456789"
		"\nfilter x\nend\n",
		"ringtail consumers 1\nconsumer a\nfilter x\nspool 0123456789abcde\nend\n",
		"ringtail consumers 1\nconsumer a\nfilter x\nspool ../../../../../etc\nend\n",
		"ringtail consumers 1\nconsumer a\nfilter x\nspool 0123456789abcdef\n"
		"spool 0123456789abcdef\nend\n",
		"ringtail consumers 1\nconsumer a\nfilter x\nat 0011 9 0:1\nend\n",
		"ringtail consumers 1\nconsumer a\nfilter x\nfilter y\nend\n",
		"ringtail consumers 1\nconsumer a\nfilter x\nflags +1\nend\n",
		"ringtail consumers 1\nconsumer a\nfilter x\nflags 1x\nend\n",
		"ringtail consumers 1\nconsumer a\nfilter x\nflags 4294967296\nend\n",
		"ringtail consumers 1\nconsumer a\nfilter x\nacked 18446744073709551616\nend\n",
		PLACED "x9 0:1\nend\n",
		PLACED " 9 0;1\nend\n",
		PLACED " 9 4294967296:1\nend\n",
		PLACED " 9 0:1\nat " BOOT " 9 0:1\nend\n",
		"ringtail consumers 1\nconsumer a\nfilter x\nat 0011223344556677g899aabbccddeeff 9 0:1\nend\n",
		"ringtail consumers 1\nconsumer a\nfilter x\nprobe %zz\nend\n",
		"ringtail consumers 1\nconsumer a\nfilter x\nnonsense\nend\n",
		"ringtail consumers 1\nnonsense\nconsumer a\nfilter x\nend\n",
	};
	struct consumer_list list;
	unsigned count;

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		assert_int_equal(parse(bad[i], &list, &count), -EBADMSG);
		free_list(&list);
	}
}

/* So many times a line within a block, or a block: whether the file is accepted. */
static bool accepts(const char *before, const char *repeated, unsigned times, const char *after)
{
	size_t bytes = strlen(before) + times * strlen(repeated) + strlen(after) + 1;
	struct consumer_list list;
	char *text = calloc(1, bytes);
	unsigned count;
	int err;

	assert_non_null(text);
	strcpy(text, before);
	for (size_t at = strlen(before); times--; at += strlen(repeated))
		strcpy(text + at, repeated);
	strcat(text, after);
	err = parse(text, &list, &count);
	free_list(&list);
	free(text);
	return err == 0;
}

#define FIRST "ringtail consumers 1\n"

static void test_file_within_bounds(void **state)
{
	static const char nul[] = FIRST "\0consumer a\nfilter x\nend\n";
	struct consumer_list list = TAILQ_HEAD_INITIALIZER(list);
	char copy[sizeof(nul)];
	struct error error;
	unsigned count = 0;

	(void)state;
	assert_true(accepts(FIRST "consumer a\nfilter \n", "probe x\n", SUBSCRIBE_PROBES_MAX, "end\n"));
	assert_false(accepts(FIRST "consumer a\nfilter \n", "probe x\n", SUBSCRIBE_PROBES_MAX + 1, "end\n"));
	assert_true(accepts(FIRST, "consumer a\nfilter \nend\n", CONSUMERS_MAX, ""));
	assert_false(accepts(FIRST, "consumer a\nfilter \nend\n", CONSUMERS_MAX + 1, ""));
	assert_true(accepts(FIRST "consumer ", "n", CONSUMER_NAME_BYTES_MAX, "\nfilter \nend\n"));
	assert_false(accepts(FIRST "consumer ", "n", CONSUMER_NAME_BYTES_MAX + 1, "\nfilter \nend\n"));
	assert_true(accepts(FIRST "consumer a\nfilter ", "%20", FILTER_BYTES_MAX, "\nend\n"));
	assert_false(accepts(FIRST "consumer a\nfilter ", "%20", FILTER_BYTES_MAX + 1, "\nend\n"));
	memcpy(copy, nul, sizeof(nul));
	assert_int_equal(consumers_parse(copy, sizeof(nul) - 1, &list, &count, &error), -EBADMSG);
}

static void acknowledge(struct consumer *consumer, uint64_t epoch, uint32_t cpu, uint64_t seq)
{
	struct cursor *cursor = cursor_create(1);

	assert_non_null(cursor);
	cursor->run = (struct run){.boot_id = {1}, .epoch = epoch};
	cursor_append(cursor, cpu, seq);
	assert_int_equal(consumer_acknowledge(consumer, cursor, 5), 0);
	free(cursor);
}

static void test_places_never_go_back(void **state)
{
	struct consumer *consumer = calloc(1, sizeof(*consumer));

	(void)state;
	assert_non_null(consumer);
	acknowledge(consumer, 10, 0, 100);
	acknowledge(consumer, 10, 0, 50);
	acknowledge(consumer, 10, 3, 7);
	acknowledge(consumer, 9, 0, 1000);	/* of an earlier run */
	assert_int_equal(consumer->place->n, 2);
	assert_int_equal(consumer->place->position[0].seq, 100);
	acknowledge(consumer, 11, 3, 1);	/* another run counts anew */
	assert_int_equal(consumer->place->n, 1);
	assert_int_equal(consumer->place->position[0].seq, 1);
	assert_int_equal(consumer->acked_realtime_ns, 5);
	/* Where it begins with a CPU is a place, too: what is missing of that CPU's beginning is a gap for it. */
	acknowledge(consumer, 11, 4, 0);
	assert_int_equal(consumer->place->n, 2);
	consumer_free(consumer);
}

static void test_place_of_each_cpu(void **state)
{
	struct consumer *consumer = calloc(1, sizeof(*consumer));
	struct cursor *both = cursor_create(2);

	(void)state;
	assert_non_null(consumer);
	assert_non_null(both);
	both->run = (struct run){.boot_id = {1}, .epoch = 10};
	cursor_append(both, 0, 100);
	cursor_append(both, 3, 7);
	assert_int_equal(consumer_acknowledge(consumer, both, 5), 0);
	assert_int_equal(consumer->place->n, 2);
	assert_int_equal(cursor_seq(consumer->place, 0, 0), 100);
	assert_int_equal(cursor_seq(consumer->place, 3, 0), 7);
	free(both);
	consumer_free(consumer);
}

/* An acknowledgement that names no run of the rings is none. */
static void test_place_of_no_run(void **state)
{
	struct consumer *consumer = calloc(1, sizeof(*consumer));
	struct cursor *cursor = cursor_create(1);

	(void)state;
	assert_true(consumer && cursor);
	cursor_append(cursor, 0, 7);
	assert_int_equal(consumer_acknowledge(consumer, cursor, 5), 0);
	assert_null(consumer->place);
	assert_int_equal(consumer->acked_realtime_ns, 0);
	free(cursor);
	consumer_free(consumer);
}

/* What finds no room is refused, and behind it nothing is taken: the next one says more. */
static void test_acknowledged_without_memory(void **state)
{
	struct consumer *consumer = calloc(1, sizeof(*consumer));
	struct cursor *cursor = cursor_create(2);

	(void)state;
	assert_true(consumer && cursor);
	acknowledge(consumer, 10, 0, 100);
	cursor->run = consumer->place->run;
	cursor_append(cursor, 5, 7);
	cursor_append(cursor, 0, 200);
	memory_fails_after(0);
	assert_int_equal(consumer_acknowledge(consumer, cursor, 6), -ENOMEM);
	memory_suffices();
	assert_int_equal(consumer->place->n, 1);
	assert_int_equal(consumer->place->position[0].seq, 100);
	assert_int_equal(consumer_acknowledge(consumer, cursor, 6), 0);
	assert_int_equal(consumer->place->n, 2);
	assert_int_equal(consumer->place->position[0].seq, 200);
	consumer_free(consumer);
	consumer = calloc(1, sizeof(*consumer));
	memory_fails_after(0);
	assert_int_equal(consumer_acknowledge(consumer, cursor, 6), -ENOMEM);
	memory_suffices();
	assert_null(consumer->place);
	consumer_free(consumer);
	free(cursor);
}

/* Of each run, as far as there is room: the oldest gives way. Of a run and of a CPU, nothing goes back. */
static void test_sent_of_each_run(void **state)
{
	struct consumer *consumer = calloc(1, sizeof(*consumer));
	struct run run = {.boot_id = {1}}, other = {.boot_id = {2}, .epoch = 1};

	(void)state;
	assert_non_null(consumer);
	for (unsigned turn = 0; turn < 2; turn++)
		for (run.epoch = 1; run.epoch <= CONSUMER_RUNS_MAX; run.epoch++)
			consumer_note_sent(consumer, &run, turn, 100 + run.epoch);
	assert_int_equal(consumer->runs, CONSUMER_RUNS_MAX);
	for (run.epoch = 1; run.epoch <= CONSUMER_RUNS_MAX; run.epoch++) {
		consumer_note_sent(consumer, &run, 0, 50);
		for (unsigned cpu = 0; cpu < 3; cpu++)
			assert_int_equal(consumer_sent_upto(consumer, &run, cpu),
					 cpu < 2 ? 100 + run.epoch : 0);
	}
	assert_int_equal(consumer_sent_upto(consumer, &other, 0), 0);
	consumer_note_sent(consumer, &other, 0, 7);
	assert_int_equal(consumer->runs, CONSUMER_RUNS_MAX);
	assert_int_equal(consumer_sent_upto(consumer, &other, 0), 7);
	for (run.epoch = 1; run.epoch <= CONSUMER_RUNS_MAX; run.epoch++)
		assert_int_equal(consumer_sent_upto(consumer, &run, 0), run.epoch > 1 ? 100 + run.epoch : 0);
	/* What it acknowledged before this daemon was there was sent, too. */
	acknowledge(consumer, 1000, 0, 3000);
	run.epoch = 1000;
	assert_int_equal(consumer_sent_upto(consumer, &run, 0), 3000);
	consumer_free(consumer);
}

/* ---- The registry ----------------------------------------------------------------------------- */

static struct faulty_disk faulty;

/* What a text is written to has run out of memory, and says so when asked, or when it is closed. */
static bool print_fails, no_error, no_close;

int __wrap_ferror(FILE *file);
int __real_ferror(FILE *file);
int __wrap_fclose(FILE *file);
int __real_fclose(FILE *file);

int __wrap_ferror(FILE *file)
{
	return (print_fails && !no_error) || __real_ferror(file);
}

int __wrap_fclose(FILE *file)
{
	int err = __real_fclose(file);

	return print_fails && !no_close ? EOF : err;
}

struct registry {
	struct event_base *base;
	struct disk_thread *thread;
	struct consumers *consumers;
	int saved;			/* what the last save came to */
	unsigned saves, kept_with;	/* so many; that consumer was kept with the kept_with-th */
	const struct consumer *consumer;
};

static void on_saved(void *context, int err)
{
	struct registry *r = context;

	r->saved = err;
	r->saves++;
	if (r->consumer && r->consumer->record == CONSUMER_SAVED && !r->kept_with)
		r->kept_with = r->saves;
}

static char logged[256];

static void note_line(enum log_level level, const char *code, const char *text)
{
	(void)level, (void)text;
	strcat(strcat(logged, code), " ");
}

static void open_registry(struct registry *r)
{
	static const struct log_sink sink = {note_line, clock_monotonic};
	struct error error;

	log_set_sink(&sink);
	logged[0] = '\0';
	*r = (struct registry){.base = event_base_new(), .saved = 1};
	faulty_disk_init(&faulty, 1);
	assert_int_equal(disk_thread_create(r->base, &faulty.disk, false, &r->thread, &error), 0);
	assert_int_equal(consumers_create(&faulty.disk, r->thread, &r->consumers, &error), 0);
	consumers_set_saved(r->consumers, on_saved, r);
}

static void close_registry(struct registry *r)
{
	consumers_destroy(r->consumers);
	disk_thread_settle(r->thread);
	disk_thread_destroy(r->thread);
	event_base_free(r->base);
	faulty_disk_fini(&faulty);
}

static void settle(struct registry *r)
{
	for (unsigned i = 0; i < 4; i++) {
		disk_thread_settle(r->thread);
		event_base_loop(r->base, EVLOOP_NONBLOCK);
	}
}

static int add(struct registry *r, const char *name, const char *owner, struct consumer **consumer,
	       struct error *error)
{
	static const char *const glob[] = {"syscall:read:call"};

	return consumers_add(r->consumers, name, owner,
			     &(struct subscription_request){.glob = glob, .globs = 1, .filter = "", .flags = 2},
			     consumer, error);
}

static void test_registered_as_it_asks(void **state)
{
	static const char *const one[] = {"syscall:read:call"}, *const other[] = {"x"},
			  *const two[] = {"syscall:read:call", "x"};
	const struct {
		struct subscription_request request;
		const char *what;	/* NULL: the same */
	} cases[] = {
		{{.glob = one, .globs = 1, .filter = "", .flags = 2}, NULL},
		{{.glob = one, .globs = 1, .flags = 2}, NULL},
		{{.glob = other, .globs = 1, .filter = "", .flags = 2}, "probes"},
		{{.glob = two, .globs = 2, .filter = "", .flags = 2}, "probes"},
		{{.globs = 0, .filter = "", .flags = 2}, "probes"},
		{{.glob = one, .globs = 1, .filter = "pid == 1", .flags = 2}, "filter"},
		{{.glob = one, .globs = 1, .filter = "", .flags = 6}, "flags"},
	};
	struct consumer *consumer;
	struct error error;
	struct registry r;

	(void)state;
	open_registry(&r);
	assert_int_equal(add(&r, "mine", "user:a", &consumer, &error), 0);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		int err = consumers_compare(consumer, &cases[i].request, &error);

		assert_int_equal(err, cases[i].what ? -EINVAL : 0);
		if (err)
			assert_non_null(strstr(error.what, cases[i].what));
	}
	close_registry(&r);
}

static void test_names_and_bounds(void **state)
{
	static const char *const bad[] = {"", ".a", "-a", "/a", " a", "a b", "a/b", "a\n"};
	char name[CONSUMER_NAME_BYTES_MAX + 2];
	struct consumer *consumer;
	struct error error;
	struct registry r;
	unsigned own;

	(void)state;
	open_registry(&r);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(add(&r, bad[i], "user:a", &consumer, &error), -EINVAL);
	memset(name, 'n', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	assert_int_equal(add(&r, name, "user:a", &consumer, &error), -EINVAL);
	assert_int_equal(add(&r, name + 1, "user:a", &consumer, &error), 0);
	assert_int_equal(add(&r, "export-x", "", &consumer, &error), 0);
	assert_int_equal(add(&r, "b", "user:b", &consumer, &error), 0);
	own = 99;
	assert_int_equal(consumers_count(r.consumers, "user:b", &own), 2);
	assert_int_equal(own, 1);
	for (unsigned i = 3; i < CONSUMERS_MAX; i++) {
		snprintf(name, sizeof(name), "n%u", i);
		assert_int_equal(add(&r, name, "user:a", &consumer, &error), 0);
	}
	assert_int_equal(add(&r, "late", "user:a", &consumer, &error), -ENOSPC);
	consumers_remove(r.consumers, consumers_find(r.consumers, "b"));
	assert_int_equal(add(&r, "late", "user:a", &consumer, &error), 0);
	settle(&r);
	close_registry(&r);
}

/* A registration is kept when the disk has it, with its place, and not before. */
static void test_kept_when_saved(void **state)
{
	struct consumer *consumer;
	struct error error;
	struct registry r;

	(void)state;
	open_registry(&r);
	assert_int_equal(add(&r, "mine", "user:a", &consumer, &error), 0);
	settle(&r);
	assert_int_equal(r.saved, 0);
	assert_int_equal(consumer->record, CONSUMER_UNSAVED);		/* it has no place yet */
	acknowledge(consumer, 10, 0, 100);
	faulty.fail_at = faulty.operations;
	faulty.fail_errno = EIO;
	faulty.fail_for_ever = true;
	consumers_save(r.consumers);
	assert_true(consumers_are_given(r.consumers));
	settle(&r);
	assert_int_equal(r.saved, -EIO);
	assert_int_equal(consumer->record, CONSUMER_UNSAVED);	/* it is to be saved again */
	assert_string_equal(logged, "consumers-save ");
	faulty.fail_at = UINT64_MAX;
	consumers_save(r.consumers);
	settle(&r);
	assert_int_equal(r.saved, 0);
	assert_int_equal(consumer->record, CONSUMER_SAVED);
	/* And stays so, whatever comes of the next save. */
	faulty.fail_at = faulty.operations;
	consumers_save(r.consumers);
	settle(&r);
	assert_int_equal(r.saved, -EIO);
	assert_int_equal(consumer->record, CONSUMER_SAVED);
	close_registry(&r);
}

/* A save that began before it had a place does not keep it. */
static void test_kept_by_a_save_that_has_its_place(void **state)
{
	struct consumer *consumer;
	struct error error;
	struct registry r;

	(void)state;
	open_registry(&r);
	assert_int_equal(add(&r, "mine", "user:a", &consumer, &error), 0);
	acknowledge(consumer, 10, 0, 100);
	r.consumer = consumer;
	consumers_save(r.consumers);		/* behind the one that is under way */
	settle(&r);
	assert_int_equal(r.saves, 2);
	assert_int_equal(r.kept_with, 2);
	assert_int_equal(consumer->record, CONSUMER_SAVED);
	close_registry(&r);
}

/* Whichever call is the last that the disk heard of: the file says what it said before, or all. */
static void file_after(enum faulty_cut cut)
{
	bool saved = false;

	for (unsigned step = 0; !saved; step++) {
		struct consumer *consumer;
		struct error error;
		struct registry r;

		open_registry(&r);
		assert_int_equal(add(&r, "mine", "user:a", &consumer, &error), 0);
		settle(&r);
		assert_int_equal(add(&r, "more", "user:a", &consumer, &error), 0);
		faulty.cut_at = faulty.operations + step;
		settle(&r);
		saved = r.saved == 0;
		consumers_destroy(r.consumers);
		faulty_disk_cut(&faulty, cut);
		assert_int_equal(consumers_create(&faulty.disk, r.thread, &r.consumers, &error), 0);
		assert_non_null(consumers_find(r.consumers, "mine"));
		assert_true(!saved || consumers_find(r.consumers, "more"));
		close_registry(&r);
		assert_true(step < 32);
	}
}

static void test_file_is_the_old_or_the_new(void **state)
{
	(void)state;
	file_after(FAULTY_KILL);
	file_after(FAULTY_DROP);
	file_after(FAULTY_TEAR);
}

/* It asks for something else from now on: all of that, with a directory of its own, and on disk. */
static void test_changed_wholly(void **state)
{
	static const char *const glob[] = {"x", "y"};
	const struct subscription_request request = {.glob = glob, .globs = 2, .filter = "pid == 1",
						     .flags = 6};
	struct consumer *consumer;
	struct error error;
	struct registry r;

	(void)state;
	open_registry(&r);
	assert_int_equal(add(&r, "mine", "user:a", &consumer, &error), 0);
	strcpy(consumer->spool, "0123456789abcdef");
	settle(&r);
	r.saved = 1;
	assert_int_equal(consumers_change(r.consumers, consumer, &request, &error), 0);
	assert_int_equal(consumers_compare(consumer, &request, &error), 0);
	assert_string_equal(consumer->spool, "");
	settle(&r);
	assert_int_equal(r.saved, 0);
	r.saved = 1;
	consumers_remove(r.consumers, consumer);
	settle(&r);
	assert_int_equal(r.saved, 0);
	close_registry(&r);
}

/* With one consumer, whose place is on its way to the disk. */
static struct consumer *open_saving(struct registry *r)
{
	struct consumer *consumer;
	struct error error;

	open_registry(r);
	assert_int_equal(add(r, "mine", "user:a", &consumer, &error), 0);
	settle(r);
	acknowledge(consumer, 10, 0, 100);
	consumers_save(r->consumers);
	return consumer;
}

/* The daemon ends while a save is under way: what came after it is saved, too. */
static void test_saved_at_the_end(void **state)
{
	struct consumer *consumer;
	struct error error;
	struct registry r;

	(void)state;
	consumer = open_saving(&r);
	acknowledge(consumer, 10, 0, 200);
	consumers_save(r.consumers);
	consumers_destroy(r.consumers);
	settle(&r);
	assert_int_equal(consumers_create(&faulty.disk, r.thread, &r.consumers, &error), 0);
	consumer = consumers_find(r.consumers, "mine");
	assert_non_null(consumer);
	assert_int_equal(consumer->place->position[0].seq, 200);
	close_registry(&r);
}

/* And so is what was under way; whoever waited for that is gone. */
static void test_ended_during_a_save(void **state)
{
	struct consumer *consumer;
	struct error error;
	struct registry r;
	unsigned saves;

	(void)state;
	open_saving(&r);
	saves = r.saves;
	consumers_destroy(r.consumers);
	settle(&r);
	assert_int_equal(r.saves, saves);
	assert_int_equal(consumers_create(&faulty.disk, r.thread, &r.consumers, &error), 0);
	consumer = consumers_find(r.consumers, "mine");
	assert_non_null(consumer);
	assert_int_equal(consumer->place->position[0].seq, 100);
	close_registry(&r);
}

/* A text that is not whole is not saved: the next save has it. */
static void test_text_that_is_not_whole(void **state)
{
	struct consumer *consumer;
	struct error error;
	struct registry r;

	(void)state;
	open_registry(&r);
	assert_int_equal(add(&r, "mine", "user:a", &consumer, &error), 0);
	settle(&r);
	acknowledge(consumer, 10, 0, 100);
	for (unsigned i = 0; i < 3; i++) {
		unsigned saves = r.saves;

		no_error = i != 0;
		no_close = i != 1;
		print_fails = i < 2;
		consumers_save(r.consumers);
		print_fails = false;
		assert_int_equal(consumers_are_given(r.consumers), i == 2);
		settle(&r);
		assert_int_equal(r.saves, saves + (i == 2));
	}
	assert_int_equal(consumer->record, CONSUMER_SAVED);
	close_registry(&r);
}

/* A file that cannot be read is not one that is not there: nobody's place is begun anew. */
static void test_unreadable_file(void **state)
{
	struct consumers *consumers = NULL;
	struct error error;
	struct registry r;

	(void)state;
	open_registry(&r);
	faulty.fail_at = faulty.operations;
	faulty.fail_errno = EIO;
	faulty.fail_for_ever = true;
	assert_int_equal(consumers_create(&faulty.disk, r.thread, &consumers, &error), -EIO);
	assert_string_equal(error.code, "consumers-unreadable");
	assert_null(consumers);
	faulty.fail_at = UINT64_MAX;
	close_registry(&r);
}

/* While one save is under way, what the next is to save is not with the disk thread yet. */
static void test_not_given_behind_another_save(void **state)
{
	struct consumer *consumer;
	struct registry r;

	(void)state;
	consumer = open_saving(&r);
	assert_true(consumers_are_given(r.consumers));
	acknowledge(consumer, 10, 0, 200);
	consumers_save(r.consumers);
	assert_false(consumers_are_given(r.consumers));
	settle(&r);
	assert_true(consumers_are_given(r.consumers));
	close_registry(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_file_both_ways),
		cmocka_unit_test(test_file_cut_anywhere),
		cmocka_unit_test(test_file_refused),
		cmocka_unit_test(test_file_within_bounds),
		cmocka_unit_test(test_places_never_go_back),
		cmocka_unit_test(test_place_of_each_cpu),
		cmocka_unit_test(test_place_of_no_run),
		cmocka_unit_test(test_acknowledged_without_memory),
		cmocka_unit_test(test_sent_of_each_run),
		cmocka_unit_test(test_registered_as_it_asks),
		cmocka_unit_test(test_names_and_bounds),
		cmocka_unit_test(test_kept_when_saved),
		cmocka_unit_test(test_not_given_behind_another_save),
		cmocka_unit_test(test_kept_by_a_save_that_has_its_place),
		cmocka_unit_test(test_file_is_the_old_or_the_new),
		cmocka_unit_test(test_changed_wholly),
		cmocka_unit_test(test_saved_at_the_end),
		cmocka_unit_test(test_ended_during_a_save),
		cmocka_unit_test(test_text_that_is_not_whole),
		cmocka_unit_test(test_unreadable_file),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
