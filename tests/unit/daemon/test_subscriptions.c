/*
 * Who is counted where subscriptions are bounded, and who makes room: what nobody needs, the one that was
 * left longest ago. Subscriptions are made by hand here; no worker, and no loader, has heard of them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/stream/making.h"
#include "daemon/stream/stream.h"
#include "daemon/stream/subscriptions.h"
#include "tests/unit/daemon/small_catalog.h"

#define MADE		4
#define LONG_AGO	100
#define NOT_SO_LONG	200

static const uint32_t cpu_of[] = {0};

struct fixture {
	struct subscriptions all;
	struct rings rings;
	struct subscription *made[MADE];
	unsigned soon;			/* how often somebody should look */
};

static unsigned made_now;
static char last_made[64];		/* what was last to be made, now or later */

void __wrap_making_now(struct making *making, const char *spec);
void __wrap_making_now(struct making *making, const char *spec)
{
	(void)making;
	snprintf(last_made, sizeof(last_made), "%s", spec);
	made_now++;
}

/* Probes of SYSTEM `block` can be made; `prepared` counts how many were. One named `late` is not made at once. */
static unsigned prepared;
static bool all_can_be_made;

bool __wrap_making_can(const struct making *making, const char *spec);
bool __wrap_making_can(const struct making *making, const char *spec)
{
	(void)making;
	return all_can_be_made || strstr(spec, ":block") || strstr(spec, ":/") || strstr(spec, "*:read");
}

/* What can be made, and is called something with `rq` or `read`. */
bool __wrap_making_offers(struct making *making, const char *system, const char *name);
bool __wrap_making_offers(struct making *making, const char *system, const char *name)
{
	(void)making;
	assert_true(*system && *name);
	return strstr(name, "rq") || strstr(name, "read");
}

int __wrap_making_prepare(struct making *making, const char *spec, bool again, struct error *error);
int __wrap_making_prepare(struct making *making, const char *spec, bool again, struct error *error)
{
	(void)making, (void)again, (void)error;
	prepared++;
	snprintf(last_made, sizeof(last_made), "%s", spec);
	return strstr(spec, ":none") ? -ENOENT : strstr(spec, ":late") ? 1 : 0;
}

uint64_t __wrap_recorder_change(struct recorder *recorder);
uint64_t __wrap_recorder_change(struct recorder *recorder)
{
	assert_null(recorder);
	return 7;
}

/* Of a spool that is none. */
enum loss_reason __wrap_spool_missing_reason(const struct spool *spool);
enum loss_reason __wrap_spool_missing_reason(const struct spool *spool)
{
	assert_null(spool);
	return LOSS_REASON_RESTART;
}

static size_t saved;		/* how many, the last time */

int __wrap_saved_subscriptions_save(struct saved_subscriptions *to, const struct subscription_request *request, size_t n);
int __wrap_saved_subscriptions_save(struct saved_subscriptions *to, const struct subscription_request *request, size_t n)
{
	(void)to, (void)request;
	saved = n;
	return 0;
}

static void on_going(void *context, struct subscription *subscription)
{
	(void)context, (void)subscription;
}

static void on_soon(void *context)
{
	struct fixture *f = context;

	f->soon++;
}

static struct subscription *make(const char *filter)
{
	static const char *const glob[] = {"syscall:read:call"};
	struct subscription_request request = {.glob = glob, .globs = 1, .filter = filter};
	struct subscription *subscription;
	struct error error;

	assert_int_equal(subscription_create(&request, small_catalog_get(), 1, 1 << 20, &subscription,
					     &error), 0);
	return subscription;
}

/* No index is left; whoever is made was left not so long ago. */
static void open_all(struct fixture *f)
{
	*f = (struct fixture){.rings = {.n = 1}};
	f->all.config.catalog = small_catalog_get();
	f->all.config.rings = &f->rings;
	f->all.config.log_bytes = 1 << 20;
	f->all.config.check_soon = on_soon;
	f->all.config.context = f;
	TAILQ_INIT(&f->all.list);
	for (unsigned i = 0; i < MADE; i++) {
		f->made[i] = make("pid == 1");
		f->made[i]->state = SUBSCRIPTION_LIVE;
		f->made[i]->linger_until_ns = NOT_SO_LONG;
		TAILQ_INSERT_TAIL(&f->all.list, f->made[i], link);
	}
	for (unsigned i = 0; i < SUBSCRIPTIONS_MAX; i++)
		f->all.by_index[i] = f->made[0];
}

static void close_all(struct fixture *f)
{
	for (unsigned i = 0; i < MADE; i++)
		subscription_destroy(f->made[i]);
}

static void expect_refused(struct fixture *f, enum subscription_claim claim, const char *code,
			   const char *hint)
{
	static const char *const glob[] = {"syscall:read:call"};
	struct subscription_request request = {.glob = glob, .globs = 1, .filter = "pid == 2"};
	struct subscription *subscription;
	struct error error = {0};

	assert_true(subscriptions_get(&f->all, &request, claim, &subscription, &error) < 0);
	assert_string_equal(error.code, code);
	assert_non_null(strstr(error.hint, hint));
}

static void who_was_left_longest_ago_makes_room(void **state)
{
	struct fixture f;

	(void)state;
	open_all(&f);
	f.made[2]->linger_until_ns = LONG_AGO;
	expect_refused(&f, CLAIM_CLIENTS, "too-many-subscriptions", "try again in a moment");
	assert_int_equal(f.soon, 1);
	for (unsigned i = 0; i < MADE; i++)
		assert_int_equal(f.made[i]->linger_until_ns, i == 2 ? 0 : NOT_SO_LONG);
	close_all(&f);
}

/* What is always on, what a durable consumer needs, what a client reads, and what is no more or not yet. */
static void who_is_needed_makes_no_room(void **state)
{
	struct stream *stream;
	struct fixture f;

	(void)state;
	open_all(&f);
	f.made[0]->permanent = true;
	f.made[1]->consumers = 1;
	f.made[2]->state = SUBSCRIPTION_REMOVING;
	stream = stream_create(f.made[3], NULL, cpu_of, 1 << 20, NULL, LOSS_REASON_UNKNOWN);
	assert_non_null(stream);
	expect_refused(&f, CLAIM_CLIENTS, "too-many-subscriptions", "end a client");
	assert_int_equal(f.soon, 0);
	for (unsigned i = 0; i < MADE; i++)
		assert_int_equal(f.made[i]->linger_until_ns, NOT_SO_LONG);
	stream_destroy(stream);
	close_all(&f);
}

static int get(struct fixture *f, enum subscription_claim claim, const char *filter,
	       struct subscription **subscription, struct error *error);
static void give_up(struct fixture *f, struct subscription *subscription);

/* Whoever asks for the same meanwhile has one that stays. */
static void what_goes_is_nobodys(void **state)
{
	struct subscription *subscription;
	struct error error;
	struct fixture f;

	(void)state;
	open_all(&f);
	f.all.by_index[1] = NULL;
	for (unsigned i = 1; i < MADE; i++)
		f.all.by_index[i + 1] = NULL;	/* with those that are the daemon's own */
	f.made[0]->state = f.made[1]->state = SUBSCRIPTION_REMOVING;
	assert_int_equal(get(&f, CLAIM_OWN, "pid == 1", &subscription, &error), 0);
	assert_ptr_equal(subscription, f.made[2]);
	f.made[2]->state = f.made[3]->state = SUBSCRIPTION_REMOVING;
	assert_int_equal(get(&f, CLAIM_OWN, "pid == 1", &subscription, &error), 0);
	for (unsigned i = 0; i < MADE; i++)
		assert_ptr_not_equal(subscription, f.made[i]);
	give_up(&f, subscription);
	close_all(&f);
}

/* A restart brings back what clients wanted, but no questions; and it is known up to where those that went had come. */
static void what_is_left_when_some_go(void **state)
{
	struct fixture f;
	uint64_t gone = 0;

	(void)state;
	open_all(&f);
	f.all.gone = &gone;
	f.all.saving = true;
	f.all.config.saved = (struct saved_subscriptions *)&f;
	f.all.config.going = on_going;
	f.made[0]->spec.question = (struct question *)&f;
	for (unsigned i = 3; i > 1; i--) {
		f.made[i]->position[0] = 8 - i;
		subscriptions_forget(&f.all, f.made[i]);
		assert_int_equal(saved, i - 1);
		assert_int_equal(gone, 8 - i + 1);
	}
	f.made[1]->position[0] = 2;		/* which is behind them */
	subscriptions_forget(&f.all, f.made[1]);
	assert_int_equal(saved, 0);
	assert_int_equal(gone, 7);
	f.made[0]->spec.question = NULL;
	subscription_destroy(f.made[0]);
}

/* Those of viewers, that is, until they go. */
static void what_viewers_have_made_is_counted(void **state)
{
	struct fixture f;

	(void)state;
	open_all(&f);
	f.made[0]->viewers = f.made[1]->viewers = f.made[2]->viewers = true;
	f.made[2]->state = SUBSCRIPTION_REMOVING;
	f.all.config.viewers.subscriptions = 2;
	expect_refused(&f, CLAIM_VIEWERS, "viewer-subscriptions", "viewer-subscriptions");
	f.all.config.viewers.subscriptions = 3;
	expect_refused(&f, CLAIM_VIEWERS, "too-many-subscriptions", "");
	close_all(&f);
}

/* A new bound is for streams that have one: an operator's has none. */
static void new_rate_is_for_viewers_streams(void **state)
{
	const struct viewer_bounds viewers = {.rate = 70};
	struct stream *stream[2];
	struct fixture f;

	(void)state;
	open_all(&f);
	for (unsigned i = 0; i < 2; i++) {
		stream[i] = stream_create(f.made[1], NULL, cpu_of, 1 << 20, NULL,
					  LOSS_REASON_UNKNOWN);
		assert_non_null(stream[i]);
	}
	stream_set_rate(stream[1], 50);
	subscriptions_set_viewers(&f.all, &viewers);
	assert_false(stream[0]->rate.bound);
	assert_int_equal(stream[0]->rate.events, 0);
	assert_int_equal(stream[1]->rate.events, 70);
	for (unsigned i = 0; i < 2; i++)
		stream_destroy(stream[i]);
	close_all(&f);
}

/* Their probes; and those made on request only where an operator has named their provider. */
static void probe_made_on_request_needs_its_provider_named(void **state)
{
	struct config_words words = {.count = 0};
	Ringtail__V1__Catalog catalog = *small_catalog_get();
	Ringtail__V1__Probe made = *catalog.probe[0], *probes[] = {&made};
	struct error error = {0};
	struct fixture f;

	(void)state;
	open_all(&f);
	made.id = RT_PROBE_MADE;
	made.provider = (char *)"tracepoint";
	made.function = (char *)"block";
	made.name = (char *)"block_rq_issue";
	catalog.probe = probes;
	catalog.n_probe = 1;
	f.all.config.catalog = &catalog;
	assert_int_equal(subscriptions_may_ask(&f.all, CLAIM_VIEWERS, "tracepoint:*", 0, &error), -EACCES);
	f.all.config.viewers.probe = &words;
	assert_int_equal(subscriptions_may_ask(&f.all, CLAIM_VIEWERS, "tracepoint:*", 0, &error), -EACCES);
	assert_non_null(strstr(error.hint, "what is always on; an operator adds"));
	words = (struct config_words){.word = {(char *)"*"}, .count = 1};
	assert_int_equal(subscriptions_may_ask(&f.all, CLAIM_VIEWERS, "tracepoint:*", 0, &error), -EACCES);
	words.word[0] = (char *)"trace*:block:*";
	assert_int_equal(subscriptions_may_ask(&f.all, CLAIM_VIEWERS, "tracepoint:*", 0, &error), -EACCES);
	words.word[0] = (char *)"tracepoint:block:*";
	assert_int_equal(subscriptions_may_ask(&f.all, CLAIM_VIEWERS, "tracepoint:*", 0, &error), 0);
	assert_int_equal(subscriptions_may_ask(&f.all, CLAIM_CLIENTS, "tracepoint:*", 0, &error), 0);
	close_all(&f);
}

static int get(struct fixture *f, enum subscription_claim claim, const char *filter,
	       struct subscription **subscription, struct error *error)
{
	static const char *const glob[] = {"syscall:read:call"};
	struct subscription_request request = {.glob = glob, .globs = 1, .filter = filter};

	return subscriptions_get(&f->all, &request, claim, subscription, error);
}

static void give_up(struct fixture *f, struct subscription *subscription)
{
	TAILQ_REMOVE(&f->all.list, subscription, link);
	f->all.by_index[subscription->index] = NULL;
	subscription_destroy(subscription);
}

static int prepare(struct fixture *f, enum subscription_claim claim, const char *first, const char *second)
{
	char *const spec[] = {(char *)first, (char *)second};
	struct error error = {0};
	int err = subscriptions_prepare(&f->all, claim, spec, second ? 2 : 1, false, &error);

	if (err == -EACCES) {
		assert_string_equal(error.code, "viewer-probes");
		assert_non_null(strstr(error.hint, "an operator adds `viewer-probe = "));
	}
	return err;
}

/* Nothing is even made for viewers of a provider that no operator has named for them, whole and as it is. */
static void nothing_is_made_for_viewers_unless_its_provider_is_named(void **state)
{
	static const char *const short_of[] = {"*", "trace:block:*", "tracepoints:block:*", "perfevents:block:*"};
	struct config_words words = {.count = 1};
	struct fixture f;

	(void)state;
	open_all(&f);
	prepared = 0;
	assert_int_equal(prepare(&f, CLAIM_VIEWERS, "tracepoint:block:a", NULL), -EACCES);
	f.all.config.viewers.probe = &words;
	for (unsigned i = 0; i < sizeof(short_of) / sizeof(*short_of); i++) {
		words.word[0] = (char *)short_of[i];
		assert_int_equal(prepare(&f, CLAIM_VIEWERS, "tracepoint:block:a", NULL), -EACCES);
		assert_int_equal(prepare(&f, CLAIM_VIEWERS, "syscall:read:call", "tracepoint:block:a"), -EACCES);
	}
	assert_int_equal(prepared, 0);
	assert_int_equal(prepare(&f, CLAIM_CLIENTS, "tracepoint:block:a", NULL), 0);
	assert_int_equal(prepared, 1);
	words = (struct config_words){.word = {(char *)"syscall:*", (char *)"tracepoint:block:*"}, .count = 2};
	assert_int_equal(prepare(&f, CLAIM_VIEWERS, "tracepoint:block:a", NULL), 0);
	assert_int_equal(prepared, 2);
	/* One that is still being made is waited for, whatever comes behind it; one that cannot be is an error. */
	assert_true(prepare(&f, CLAIM_VIEWERS, "tracepoint:block:late", "tracepoint:block:a") > 0);
	assert_int_equal(prepare(&f, CLAIM_VIEWERS, "tracepoint:block:none", "tracepoint:block:a"), -ENOENT);
	close_all(&f);
}

/* One name that nothing here has, or two: such tracepoints are made, where there are any and the client may. */
static void a_tracepoint_by_its_name_alone(void **state)
{
	const char *glob = "block_rq_issue";
	struct subscription_request request = {.glob = &glob, .globs = 1};
	char too_long[NAME_BYTES_MAX + 1] = "block_rq";
	struct subscription *subscription;
	struct error error;
	struct fixture f;

	(void)state;
	open_all(&f);
	prepared = made_now = 0;
	assert_int_equal(prepare(&f, CLAIM_CLIENTS, "block_rq_issue", NULL), 0);
	assert_int_equal(prepared, 1);
	assert_string_equal(last_made, "tracepoint:*:block_rq_issue");
	assert_int_equal(prepare(&f, CLAIM_CLIENTS, "block_none", "block_rq_*"), 0);
	assert_int_equal(prepared, 2);
	assert_string_equal(last_made, "tracepoint:*:block_rq_*");
	assert_int_equal(prepare(&f, CLAIM_CLIENTS, "blocks:rq_issue", "blocks:none"), 0);
	assert_int_equal(prepared, 3);
	assert_string_equal(last_made, "tracepoint:blocks:rq_issue");
	/* What is there is meant; what has parts says itself what it is; viewers are told what they were. */
	assert_int_equal(prepare(&f, CLAIM_CLIENTS, "read", "sched_switch"), 0);
	assert_int_equal(prepare(&f, CLAIM_CLIENTS, "read:call", "/blocks:a"), 0);
	assert_int_equal(prepare(&f, CLAIM_CLIENTS, "blocks:rq:a", NULL), 0);
	assert_int_equal(prepare(&f, CLAIM_VIEWERS, "block_rq_issue", NULL), 0);
	memset(too_long + 8, 'x', NAME_BYTES_MAX - 8);
	assert_int_equal(prepare(&f, CLAIM_CLIENTS, too_long, NULL), 0);
	assert_int_equal(prepared, 3);
	assert_int_equal(subscriptions_get(&f.all, &request, CLAIM_OWN, &subscription, &error), -ENOENT);
	assert_int_equal(made_now, 1);
	assert_string_equal(last_made, "tracepoint:*:block_rq_issue");
	close_all(&f);
}

/*
 * How many probes can be made is bounded: viewers have no more made than they may ask for, so that none of them
 * takes what operators need.
 */
static void no_more_is_made_for_viewers_than_they_may_ask_for(void **state)
{
	static const struct {
		const char *word, *spec;
		int err;
	} cases[] = {
		{"tracepoint:block:*", "tracepoint:block:*", 0},
		{"tracepoint:block:*", "tracepoint:block:block_rq_*", 0},
		{"tracepoint:block:*", "tracepoint:block:[ab]", 0},
		{"tracepoint:block", "tracepoint:block:a", 0},
		{"tracepoint:block", "tracepoint:block", 0},
		{"tracepoint:block:*", "tracepoint:block", 0},
		{"tracepoint", "tracepoint:block:a", 0},
		{"tracepoint:bl*:a*", "tracepoint:block:ab", 0},
		{"tracepoint:bl?ck:a", "tracepoint:block:a", 0},
		{"tracepoint:*:[ab]", "tracepoint:block:[ab]", 0},
		{"tracepoint:net:*", "tracepoint:block:a", -EACCES},
		{"tracepoint:net:*", "tracepoint:block:*", -EACCES},
		{"tracepoint:block:a", "tracepoint:block:*", -EACCES},
		{"tracepoint:block:a", "tracepoint:block:b", -EACCES},
		{"tracepoint:block:a", "tracepoint:block", -EACCES},
		{"tracepoint:block:?", "tracepoint:block:*", -EACCES},
		{"tracepoint:block:[*]", "tracepoint:block:*", -EACCES},
		{"fentry:vfs_*", "fentry:*:block", -EACCES},
	};
	struct config_words words = {.count = 1};
	struct fixture f;

	(void)state;
	open_all(&f);
	f.all.config.viewers.probe = &words;
	for (unsigned i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		words.word[0] = (char *)cases[i].word;
		prepared = 0;
		if (prepare(&f, CLAIM_VIEWERS, cases[i].spec, NULL) != cases[i].err || prepared != !cases[i].err)
			fail_msg("%s under viewer-probe = %s", cases[i].spec, cases[i].word);
		assert_int_equal(prepare(&f, CLAIM_CLIENTS, cases[i].spec, NULL), 0);
	}
	close_all(&f);
}

/* What is there needs nothing to be made, however it is called; what of it they may have, is judged as ever. */
static void viewers_ask_for_what_is_there_by_its_provider_too(void **state)
{
	char *const spec[] = {(char *)"syscall:read:call"};
	struct subscription *subscription;
	struct error error = {0};
	struct fixture f;

	(void)state;
	open_all(&f);
	memset(f.all.by_index, 0, sizeof(f.all.by_index));
	f.all.config.viewers.subscriptions = 1;
	prepared = made_now = 0;
	all_can_be_made = true;
	assert_int_equal(subscriptions_prepare(&f.all, CLAIM_VIEWERS, spec, 1, false, &error), 0);
	assert_int_equal(get(&f, CLAIM_VIEWERS, "pid == 2", &subscription, &error), 0);
	assert_int_equal(prepared + made_now, 0);
	give_up(&f, subscription);
	assert_int_equal(get(&f, CLAIM_OWN, "pid == 2", &subscription, &error), 0);
	assert_int_equal(made_now, 1);
	give_up(&f, subscription);
	assert_int_equal(prepare(&f, CLAIM_VIEWERS, "tracepoint:block:a", NULL), -EACCES);
	all_can_be_made = false;
	close_all(&f);
}

/* A function's argument may point to what processes write, or to where a program says. */
static void texts_of_the_kernels_functions_are_for_operators(void **state)
{
	static const char *const glob[] = {"fentry:getname:call"};
	struct subscription_request request = {.glob = glob, .globs = 1, .filter = "", .flags = RT_FLAG_STRINGS};
	Ringtail__V1__Catalog catalog = *small_catalog_get();
	Ringtail__V1__Field text = RINGTAIL__V1__FIELD__INIT, *fields[] = {&text};
	Ringtail__V1__Probe made = *catalog.probe[0], other = made, *probes[] = {&made, &other};
	struct config_words words = {.word = {(char *)"fentry:get*"}, .count = 1};
	struct subscription *subscription;
	struct fixture f;

	(void)state;
	open_all(&f);
	memset(f.all.by_index, 0, sizeof(f.all.by_index));
	made.id = RT_PROBE_MADE;
	made.provider = (char *)"fentry";
	made.function = (char *)"getname";
	made.name = (char *)"call";
	text.name = (char *)"filename";
	text.c_type = (char *)"const char *";
	text.bits = 64;
	made.field = fields;
	made.n_field = 1;
	other.id = RT_PROBE_MADE + 1;
	other.provider = made.provider;
	other.function = (char *)"gettime";
	other.name = made.name;
	other.n_field = 0;
	catalog.probe = probes;
	catalog.n_probe = 2;
	f.all.config.catalog = &catalog;
	f.all.config.viewers = (struct viewer_bounds){.probe = &words, .strings = true, .subscriptions = 1};
	for (unsigned is_text = 0; is_text < 2; is_text++)
		for (unsigned asks = 0; asks < 3; asks++) {
			bool refused = is_text && asks;
			struct error error = {0};

			text.type = is_text ? RINGTAIL__V1__FIELD_TYPE__FIELD_STRING :
					      RINGTAIL__V1__FIELD_TYPE__FIELD_HEX;
			request.flags = asks == 1 ? RT_FLAG_STRINGS : 0;
			request.filter = asks == 2 && is_text ? "filename =~ \"/root/*\"" : "";
			assert_int_equal(subscriptions_find(&f.all, &request, CLAIM_VIEWERS, &subscription, &error),
					 refused ? -EACCES : 0);
			assert_string_equal(error.code, refused ? "viewer-flags" : "");
			if (!refused)
				give_up(&f, subscription);
			request.filter = "";
			assert_int_equal(subscriptions_may_see(&f.all, CLAIM_VIEWERS, &request, &error),
					 is_text && asks == 1 ? -EACCES : 0);
			assert_int_equal(subscriptions_find(&f.all, &request, CLAIM_CLIENTS, &subscription, &error), 0);
			give_up(&f, subscription);
		}
	/* Of another one that has none, beside it. */
	request = (struct subscription_request){.glob = &(const char *){"fentry:gettime:call"}, .globs = 1, .filter = "",
						.flags = RT_FLAG_STRINGS};
	assert_int_equal(subscriptions_find(&f.all, &request, CLAIM_VIEWERS, &subscription, &(struct error){0}), 0);
	give_up(&f, subscription);
	close_all(&f);
}

/* To be refused a file tells whether it is there: only of those that the operator has named. */
static void no_file_is_looked_into_for_viewers_but_those_named(void **state)
{
	static const struct {
		const char *word, *spec;
		int err;
	} cases[] = {
		{"uprobe:/usr/*", "uprobe:/usr/bin/a:main", 0},
		{"uprobe:/usr/bin/a:*", "uprobe:/usr/bin/a:main", 0},
		{"uprobe:/usr/*", "uprobe:/etc/shadow:main", -EACCES},
		{"uprobe:/usr/*", "uprobe:/usr/../etc/shadow:main", -EACCES},
		{"uprobe:/usr/bin/a:*", "uprobe:/usr/bin/ab:main", -EACCES},
		{"uprobe", "uprobe:/usr/bin/a:main", -EACCES},
		{"uprobe:*", "uprobe:/usr/bin/a:main", 0},
		{"usdt:/usr/*", "uprobe:/usr/bin/a:main", -EACCES},
	};
	struct config_words words = {.count = 1};
	struct fixture f;

	(void)state;
	open_all(&f);
	f.all.config.viewers.probe = &words;
	for (unsigned i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		words.word[0] = (char *)cases[i].word;
		if (prepare(&f, CLAIM_VIEWERS, cases[i].spec, NULL) != cases[i].err)
			fail_msg("%s under viewer-probe = %s", cases[i].spec, cases[i].word);
	}
	close_all(&f);
}

static int may_see(struct fixture *f, enum subscription_claim claim, const char *probe, const char *filter,
		   uint32_t flags)
{
	const struct subscription_request what = {.glob = &probe, .globs = 1, .filter = filter, .flags = flags};
	struct error error = {0};

	return subscriptions_may_see(&f->all, claim, &what, &error);
}

/* Of a dump: what is always on is everybody's; under a filter, what passed that filter alone. */
static void always_on_under_a_filter_is_not_everybodys(void **state)
{
	struct config_words words = {.word = {(char *)"syscall:getppid"}, .count = 1};
	struct fixture f;

	(void)state;
	open_all(&f);
	f.all.config.viewers.probe = &words;
	assert_int_equal(may_see(&f, CLAIM_VIEWERS, "syscall:getppid:call", "", 0), 0);
	assert_int_equal(may_see(&f, CLAIM_VIEWERS, "syscall:read:call", "pid == 1", 0), -EACCES);
	assert_int_equal(may_see(&f, CLAIM_CLIENTS, "syscall:read:call", "", 0), 0);
	f.made[0]->permanent = true;
	assert_int_equal(may_see(&f, CLAIM_VIEWERS, "syscall:read:call", "pid == 1", 0), 0);
	assert_int_equal(may_see(&f, CLAIM_VIEWERS, "syscall:read:call", "pid == 1", RT_FLAG_KSTACK), -EACCES);
	assert_int_equal(may_see(&f, CLAIM_VIEWERS, "syscall:read:call", "", 0), -EACCES);
	assert_int_equal(may_see(&f, CLAIM_VIEWERS, "syscall:read:call", "pid == 2", 0), -EACCES);
	assert_int_equal(may_see(&f, CLAIM_VIEWERS, "syscall:*:call", "pid == 1", 0), -EACCES);
	f.made[0]->filter_text[0] = '\0';
	assert_int_equal(may_see(&f, CLAIM_VIEWERS, "syscall:read:call", "pid == 2", 0), 0);
	f.made[0]->state = SUBSCRIPTION_REMOVING;
	assert_int_equal(may_see(&f, CLAIM_VIEWERS, "syscall:read:call", "pid == 2", 0), -EACCES);
	close_all(&f);
}

/* One that names what is not there is no operator's trouble, and for a viewer the rest does not make up for it. */
static void dump_of_what_is_not_there(void **state)
{
	static const char *const glob[] = {"nothing:of:that", "syscall:read:call"};
	const struct subscription_request what = {.glob = glob, .globs = 2, .filter = ""};
	struct error error = {0};
	struct fixture f;

	(void)state;
	open_all(&f);
	assert_int_equal(subscriptions_may_see(&f.all, CLAIM_CLIENTS, &what, &error), 0);
	assert_int_equal(subscriptions_may_see(&f.all, CLAIM_VIEWERS, &what, &error), -EACCES);
	close_all(&f);
}

/* Where a ring begins behind what the disk has, even by one attempt, that is a gap. */
static void what_no_run_stored_is_told_to_the_last_attempt(void **state)
{
	struct frame_codec *codec = frame_codec_create(1);
	const struct frame_ref *gap;
	struct fixture f;

	(void)state;
	open_all(&f);
	f.all.config.codec = codec;
	f.rings.cpu_of = (uint32_t *)cpu_of;
	for (unsigned i = 0; i < MADE; i++) {
		uint64_t stored = 4 + i;

		f.made[i]->spool.end = calloc(1, sizeof(*f.made[i]->spool.end));
		f.made[i]->spool.end[0] = stored;
		subscriptions_begin_ring(&f.all, f.made[i], 0, 6);
		assert_int_equal(f.made[i]->begins_late, stored < 6);
		assert_int_equal(f.made[i]->position[0], 6);
		assert_int_equal(f.made[i]->floor[0], stored < 6 ? stored : 6);
		assert_int_equal(frame_log_end(f.made[i]->log), stored < 6);
		if (stored >= 6)
			continue;
		gap = frame_log_get(f.made[i]->log, 0);
		assert_int_equal(gap->type, FRAME_GAP);
		assert_true(gap->first_seq == stored && gap->end_seq == 6);
	}
	close_all(&f);
	frame_codec_destroy(codec);
}

/* ---- Who may ask for what, each combination ------------------------------------------------------ */

#define STACKS	(RT_FLAG_KSTACK | RT_FLAG_USTACK)
#define STRINGS	(RT_FLAG_STRINGS | RT_FLAG_FDS)

/* Of every set of flags: data are for operators, stacks and strings for those whom the configuration allows. */
static void viewers_flags_one_and_all(void **state)
{
	static const uint32_t flag[] = {RT_FLAG_KSTACK, RT_FLAG_USTACK, RT_FLAG_STRINGS,
					RT_FLAG_FDS, RT_FLAG_DATA, RT_FLAG_CONTEXT};
	const unsigned n = sizeof(flag) / sizeof(*flag);
	struct fixture f;

	(void)state;
	open_all(&f);
	for (unsigned i = 0; i < 1u << (n + 2); i++) {
		bool stacks = i >> n & 1, strings = i >> n & 2, refused;
		struct error error = {0};
		uint32_t flags = 0;

		for (unsigned j = 0; j < n; j++)
			flags |= i >> j & 1 ? flag[j] : 0;
		f.all.config.viewers.stacks = stacks;
		f.all.config.viewers.strings = strings;
		refused = flags & RT_FLAG_DATA || (flags & STACKS && !stacks) || (flags & STRINGS && !strings);
		assert_int_equal(subscriptions_may_ask(&f.all, CLAIM_VIEWERS, "syscall:*", flags, &error),
				 refused ? -EACCES : 0);
		assert_string_equal(error.code, refused ? "viewer-flags" : "");
		for (unsigned claim = CLAIM_CLIENTS; claim <= CLAIM_EXPORT; claim++)
			assert_int_equal(subscriptions_may_ask(&f.all, claim, "syscall:*", flags, &error), 0);
	}
	close_all(&f);
}

/* An exporter is the daemon itself; who may do less than an operator is a viewer. */
static void claim_of_each_role(void **state)
{
	struct client_identity identity = {.role = ROLE_NONE};

	(void)state;
	assert_int_equal(subscription_claim_of(NULL), CLAIM_EXPORT);
	for (unsigned role = ROLE_NONE; role <= ROLE_OPERATOR; role++) {
		identity.role = role;
		assert_int_equal(subscription_claim_of(&identity),
				 role == ROLE_OPERATOR ? CLAIM_CLIENTS : CLAIM_VIEWERS);
	}
}

/* An empty list allows what is there always, and a glob of any provider does; not what is made. */
static void probes_that_are_there_need_no_provider_named(void **state)
{
	struct config_words words = {.count = 0};
	Ringtail__V1__Catalog catalog = *small_catalog_get();
	Ringtail__V1__Probe made = *catalog.probe[0], *probes[] = {&made};
	struct error error = {0};
	struct fixture f;

	(void)state;
	open_all(&f);
	f.all.config.viewers.probe = &words;
	assert_int_equal(subscriptions_may_ask(&f.all, CLAIM_VIEWERS, "syscall:read:call", 0, &error), 0);
	words = (struct config_words){.word = {(char *)"kill", (char *)"sys*:read:*"}, .count = 2};
	assert_int_equal(subscriptions_may_ask(&f.all, CLAIM_VIEWERS, "syscall:read:call", 0, &error), 0);
	assert_int_equal(subscriptions_may_ask(&f.all, CLAIM_VIEWERS, "syscall:getppid:call", 0, &error), -EACCES);
	assert_non_null(strstr(error.hint, "what is always on, and kill, sys*:read:*; an operator"));
	words.count = 0;
	catalog.probe = probes;
	catalog.n_probe = 1;
	f.all.config.catalog = &catalog;
	for (unsigned i = 0; i < 2; i++) {
		made.id = RT_PROBE_MADE + i;
		assert_int_equal(subscriptions_may_ask(&f.all, CLAIM_VIEWERS, "syscall:*", 0, &error), -EACCES);
	}
	close_all(&f);
}

/* However many words there are: those that fit are named, and that there are more. */
static void long_list_of_what_is_allowed_is_cut(void **state)
{
	struct config_words words = {.count = 60};
	struct error error = {0};
	struct fixture f;

	(void)state;
	open_all(&f);
	f.all.config.viewers.probe = &words;
	for (unsigned i = 0; i < words.count; i++)
		words.word[i] = (char *)"syscall:openat:call";
	assert_int_equal(subscriptions_may_ask(&f.all, CLAIM_VIEWERS, "syscall:read:call", 0, &error), -EACCES);
	assert_non_null(strstr(error.hint, ", and syscall:openat:call, syscall:openat:call, syscall:openat:call, "));
	assert_non_null(strstr(error.hint, "...; an operator adds"));
	close_all(&f);
}

/* ---- Places, and what is found -------------------------------------------------------------------- */

/* Clients leave the last places to the daemon; whoever has one has the first that is free. */
static void last_places_are_the_daemons(void **state)
{
	struct subscription *subscription;
	struct error error = {0};
	char what[80];
	struct fixture f;

	(void)state;
	open_all(&f);
	for (unsigned kept = 0; kept <= SUBSCRIPTIONS_OWN + 1; kept++) {
		for (unsigned i = 0; i < kept; i++)
			f.all.by_index[3 * i] = NULL;
		for (unsigned claim = CLAIM_VIEWERS; claim <= CLAIM_EXPORT; claim++) {
			bool fits = kept > (claim >= CLAIM_OWN ? 0 : SUBSCRIPTIONS_OWN);

			f.all.config.viewers.subscriptions = 1;
			f.all.config.file_strings = kept % 2;
			error = (struct error){0};
			assert_int_equal(get(&f, claim, "pid == 2", &subscription, &error), fits ? 0 : -ENOSPC);
			if (fits) {
				assert_int_equal(subscription->index, 0);
				assert_ptr_equal(f.all.by_index[0], subscription);
				assert_int_equal(subscription->generation, 7);
				assert_int_equal(subscription->viewers, claim == CLAIM_VIEWERS);
				assert_int_equal(subscription->spec.file_strings, claim == CLAIM_EXPORT && kept % 2);
				give_up(&f, subscription);
				continue;
			}
			snprintf(what, sizeof(what), "this daemon has %u different subscriptions already",
				 SUBSCRIPTIONS_MAX - kept);
			assert_string_equal(error.what, what);
		}
	}
	/* What is before the first free place is another's. */
	f.all.by_index[0] = f.made[0];
	assert_int_equal(get(&f, CLAIM_OWN, "pid == 2", &subscription, &error), 0);
	assert_int_equal(subscription->index, 3);
	give_up(&f, subscription);
	close_all(&f);
}

/* As the run before left it. */
static struct subscription *restored(struct fixture *f, const char *filter)
{
	static const char *const glob[] = {"syscall:read:call"};
	struct subscription_request request = {.glob = glob, .globs = 1, .filter = filter, .file_strings = true};
	struct subscription *subscription;
	struct error error;

	assert_int_equal(subscriptions_get(&f->all, &request, CLAIM_OWN, &subscription, &error), 0);
	return subscription;
}

/* What a program brings later is of who waited for it by that name, and of nobody else who asks for the same. */
static void what_comes_late_is_of_who_waited_for_it(void **state)
{
	static const char *const glob[] = {"syscall:read:call"}, *const late[] = {"app:*:begin", "app:*:end"};
	struct subscription_request request = {.glob = glob, .globs = 1, .filter = "pid == 3"};
	Ringtail__V1__Probe probe = RINGTAIL__V1__PROBE__INIT;
	struct subscription *plain, *waits, *again, *last;
	struct error error = {0};
	struct fixture f;

	(void)state;
	open_all(&f);
	memset(f.all.by_index, 0, sizeof(f.all.by_index));
	assert_int_equal(subscriptions_get(&f.all, &request, CLAIM_OWN, &plain, &error), 0);
	request.late = late;
	request.lates = 2;
	assert_int_equal(subscriptions_get(&f.all, &request, CLAIM_OWN, &waits, &error), 0);
	assert_int_equal(subscriptions_get(&f.all, &request, CLAIM_OWN, &again, &error), 0);
	assert_ptr_not_equal(waits, plain);
	assert_ptr_equal(waits, again);
	request.lates = 0;
	request.filter = "pid == 4";
	assert_int_equal(subscriptions_get(&f.all, &request, CLAIM_OWN, &last, &error), 0);
	probe.id = RT_PROBE_PROGRAM + 9;
	probe.provider = (char *)"app";
	probe.function = (char *)"request";
	probe.name = (char *)"event";
	assert_false(subscriptions_take_late(&f.all, &probe));
	assert_false(probe_set_test(&waits->spec.probes, probe.id));
	probe.name = (char *)"end";
	assert_true(subscriptions_take_late(&f.all, &probe));
	assert_true(probe_set_test(&waits->spec.probes, probe.id) && probe_set_test(&waits->spec.late, probe.id));
	assert_false(probe_set_test(&plain->spec.probes, probe.id));
	probe.name = (char *)"begin";
	probe.id++;
	assert_true(subscriptions_take_late(&f.all, &probe));
	assert_true(probe_set_test(&waits->spec.probes, probe.id));
	waits->state = SUBSCRIPTION_REMOVING;
	probe.id++;
	assert_false(subscriptions_take_late(&f.all, &probe));
	assert_int_equal(subscription_request_of(waits).lates, 2);
	give_up(&f, waits);
	give_up(&f, plain);
	give_up(&f, last);
	close_all(&f);
}

/* ---- Viewers' own programs ------------------------------------------------------------------------- */

#define ALICE	1000
#define BOB	1001
#define HERS	(RT_PROBE_PROGRAM + 0)
#define HIS	(RT_PROBE_PROGRAM + 1)
#define MIXED	(RT_PROBE_PROGRAM + 2)		/* his, and called as she might call hers by its middle */

static bool has_program(const void *context, uint32_t uid, uint32_t probe)
{
	(void)context;
	return uid == (probe == HERS ? ALICE : BOB);
}

/* The small catalog, and app:done of two users, and done:other of one. */
static void add_programs(struct fixture *f, Ringtail__V1__Catalog *catalog, Ringtail__V1__Probe more[3])
{
	static Ringtail__V1__Probe *probes[16];
	static Ringtail__V1__Field his_field = RINGTAIL__V1__FIELD__INIT, *his_fields[] = {&his_field};

	*catalog = *small_catalog_get();
	for (unsigned i = 0; i < catalog->n_probe; i++)
		probes[i] = catalog->probe[i];
	for (unsigned i = 0; i < 3; i++) {
		ringtail__v1__probe__init(&more[i]);
		more[i].id = HERS + i;
		more[i].provider = (char *)(i == 2 ? "done" : "app");
		more[i].function = (char *)(i == 2 ? "other" : "done");
		more[i].name = (char *)"event";
		probes[catalog->n_probe++] = &more[i];
	}
	his_field.name = (char *)"secret";
	his_field.type = RINGTAIL__V1__FIELD_TYPE__FIELD_UNSIGNED;
	more[1].field = his_fields;
	more[1].n_field = 1;
	catalog->probe = probes;
	f->all.config.catalog = catalog;
	f->all.config.viewers = (struct viewer_bounds){.subscriptions = 8, .is_own = has_program};
	memset(f->all.by_index, 0, sizeof(f->all.by_index));
}

static int find_of(struct fixture *f, uint32_t owner, const char *glob, const char *filter,
		   struct subscription **subscription, struct error *error)
{
	struct subscription_request request = {.glob = &glob, .globs = 1, .filter = filter, .owner = owner};

	*error = (struct error){0};
	return subscriptions_find(&f->all, &request, CLAIM_VIEWERS, subscription, error);
}

static void a_viewer_has_the_probes_of_its_own_programs(void **state)
{
	static const char *const glob[] = {"app:done", "app:*", "app", "a*:done:event", "done", "*:done"};
	struct subscription *found;
	Ringtail__V1__Catalog catalog;
	Ringtail__V1__Probe more[3];
	struct error error;
	struct fixture f;

	(void)state;
	open_all(&f);
	add_programs(&f, &catalog, more);
	for (unsigned i = 0; i < sizeof(glob) / sizeof(*glob); i++) {
		assert_int_equal(find_of(&f, ALICE, glob[i], "", &found, &error), 0);
		assert_int_equal(probe_set_count(&found->spec.probes), 1);
		assert_true(probe_set_test(&found->spec.probes, HERS));
		assert_int_equal(found->owner, ALICE);
		give_up(&f, found);
	}
	/* What nobody names a user for is as ever: an operator, and a viewer by another proof. */
	assert_int_equal(find_of(&f, 0, "app:done", "", &found, &error), -EACCES);
	assert_string_equal(error.code, "viewer-probes");
	f.all.config.viewers.is_own = NULL;
	assert_int_equal(find_of(&f, ALICE, "app:done", "", &found, &error), -EACCES);
	close_all(&f);
}

/* Too many clauses for the kernel are none, and then it lets through what the filter does not. */
static void the_kernel_has_a_filter_whole_or_not_at_all(void **state)
{
	const char *glob = "syscall:read:call";
	char filter[16 * (RT_FILTER_CLAUSES_MAX + 1)] = "pid == 1";
	struct subscription_request request = {.glob = &glob, .globs = 1, .filter = filter};
	struct subscription *made;
	struct error error;

	(void)state;
	for (unsigned n = 1; n <= RT_FILTER_CLAUSES_MAX + 1; n++) {
		assert_int_equal(subscription_create(&request, small_catalog_get(), 1, 1 << 20, &made, &error), 0);
		assert_int_equal(made->clauses, n <= RT_FILTER_CLAUSES_MAX ? n : 0);
		assert_true(made->spec.filter_of_kernel == (n <= RT_FILTER_CLAUSES_MAX));
		subscription_destroy(made);
		snprintf(filter + strlen(filter), sizeof(filter) - strlen(filter), " || pid == %u", n + 1);
	}
}

/* Not by a glob, by a field of a filter, or by what the daemon was asked before. */
static void a_viewer_has_nothing_of_others_programs(void **state)
{
	struct config_words words = {.word = {(char *)"done:other", (char *)"syscall"}, .count = 2};
	const char *all = "app:done";
	struct subscription_request request = {.glob = &all, .globs = 1, .filter = ""};
	struct subscription *operators, *hers, *his, *again;
	Ringtail__V1__Catalog catalog;
	Ringtail__V1__Probe more[3];
	struct error error;
	struct fixture f;

	(void)state;
	open_all(&f);
	add_programs(&f, &catalog, more);
	assert_int_equal(find_of(&f, 1002, "app:*", "", &hers, &error), -ENOENT);
	assert_string_equal(error.code, "unknown-probe");
	assert_non_null(strstr(error.what, "of your own programs"));
	assert_int_equal(find_of(&f, 1002, "nothing:*", "", &hers, &error), -ENOENT);
	assert_null(strstr(error.what, "own"));
	assert_int_equal(find_of(&f, ALICE, "app:done", "secret == 1", &hers, &error), -EINVAL);
	/* An operator's with the same text, and one with the same probes, are not hers, whoever comes first. */
	assert_int_equal(subscriptions_get(&f.all, &request, CLAIM_CLIENTS, &operators, &error), 0);
	assert_int_equal(probe_set_count(&operators->spec.probes), 2);
	assert_int_equal(find_of(&f, ALICE, "app:done", "", &hers, &error), 0);
	assert_int_equal(find_of(&f, BOB, "app:done", "", &his, &error), 0);
	assert_true(hers != operators && his != operators && hers != his);
	assert_int_equal(find_of(&f, ALICE, "app:done", "", &again, &error), 0);
	assert_ptr_equal(again, hers);
	catalog.n_probe -= 2;
	assert_int_equal(subscriptions_get(&f.all, &request, CLAIM_CLIENTS, &again, &error), 0);
	assert_true(probe_set_equal(&again->spec.probes, &hers->spec.probes) && again != hers);
	catalog.n_probe += 2;
	give_up(&f, again);
	give_up(&f, operators);
	give_up(&f, hers);
	give_up(&f, his);
	/* What every viewer may ask for, she may too; what else there is, she may not for having a program. */
	f.all.config.viewers.probe = &words;
	assert_int_equal(find_of(&f, ALICE, "*:*:event", "", &hers, &error), 0);
	assert_true(probe_set_test(&hers->spec.probes, HERS) && probe_set_test(&hers->spec.probes, MIXED));
	assert_int_equal(probe_set_count(&hers->spec.probes), 2);
	give_up(&f, hers);
	assert_int_equal(find_of(&f, ALICE, "[at]*", "", &hers, &error), -EACCES);
	assert_string_equal(error.code, "viewer-probes");
	/* What no program can be called is shared as ever. */
	assert_int_equal(find_of(&f, ALICE, "syscall:read:call", "", &hers, &error), 0);
	assert_int_equal(hers->owner, 0);
	give_up(&f, hers);
	close_all(&f);
}

static void a_viewer_is_its_user_only_if_the_kernel_says_so(void **state)
{
	struct client_identity identity = {.proof = IDENTITY_USER, .role = ROLE_VIEWER, .uid = ALICE};

	(void)state;
	assert_int_equal(subscription_owner_of(&identity), ALICE);
	assert_int_equal(subscription_owner_of(NULL), 0);
	identity.role = ROLE_OPERATOR;
	assert_int_equal(subscription_owner_of(&identity), 0);
	identity.role = ROLE_VIEWER;
	for (unsigned proof = IDENTITY_UNPROVED; proof <= IDENTITY_RELAY; proof++) {
		identity.proof = proof;
		assert_int_equal(subscription_owner_of(&identity), proof == IDENTITY_USER ? ALICE : 0);
	}
	/* Users whom the daemon's namespace does not know have one number, all of them. */
	identity.proof = IDENTITY_USER;
	identity.uid = 65534;
	assert_int_equal(subscription_owner_of(&identity), 0);
}

/* An export has the strings of files. Whoever asks for the same probes and filter did not ask for these. */
static void nobody_shares_an_exports_strings(void **state)
{
	struct subscription *export, *other, *again;
	struct error error = {0};
	struct fixture f;

	(void)state;
	open_all(&f);
	memset(f.all.by_index, 0, sizeof(f.all.by_index));
	f.all.config.viewers.subscriptions = 1;
	f.all.config.file_strings = true;
	assert_int_equal(get(&f, CLAIM_EXPORT, "pid == 2", &export, &error), 0);
	assert_true(export->spec.file_strings);
	for (unsigned claim = CLAIM_VIEWERS; claim <= CLAIM_OWN; claim++) {
		assert_int_equal(get(&f, claim, "pid == 2", &other, &error), 0);
		assert_ptr_not_equal(other, export);
		assert_false(other->spec.file_strings);
		/* Nor does an export find one that lacks them. */
		assert_int_equal(get(&f, CLAIM_EXPORT, "pid == 2", &again, &error), 0);
		assert_ptr_equal(again, export);
		give_up(&f, other);
	}
	give_up(&f, export);
	/* It goes on with that of the run before. */
	again = restored(&f, "pid == 2");
	assert_int_equal(get(&f, CLAIM_EXPORT, "pid == 2", &export, &error), 0);
	assert_ptr_equal(again, export);
	give_up(&f, export);
	/* Without these it is like any other. */
	f.all.config.file_strings = false;
	assert_int_equal(get(&f, CLAIM_EXPORT, "pid == 2", &export, &error), 0);
	assert_int_equal(get(&f, CLAIM_VIEWERS, "pid == 2", &other, &error), 0);
	assert_ptr_equal(other, export);
	give_up(&f, export);
	close_all(&f);
}

static int find(struct fixture *f, enum subscription_claim claim, const char *filter, uint32_t flags,
		struct subscription **subscription, struct error *error)
{
	struct subscription_request request = {.filter = filter, .flags = flags};

	*error = (struct error){0};
	return subscriptions_find(&f->all, &request, claim, subscription, error);
}

static bool filter_reads_texts;

bool __real_filter_asks_strings(const struct filter *filter);
bool __wrap_filter_asks_strings(const struct filter *filter);

bool __wrap_filter_asks_strings(const struct filter *filter)
{
	return filter_reads_texts || __real_filter_asks_strings(filter);
}

/* What is always on with strings is for who asks for none too, but for viewers who may not see them. */
static void what_is_always_on_comes_with_strings(void **state)
{
	struct subscription *subscription, *permanent;
	struct error error;
	struct fixture f;

	(void)state;
	open_all(&f);
	memset(f.all.by_index, 0, sizeof(f.all.by_index));
	permanent = f.made[1];
	free(permanent->filter_text);
	permanent->filter_text = strdup("");
	permanent->spec.flags = RT_FLAG_STRINGS;
	permanent->permanent = true;
	permanent->state = SUBSCRIPTION_LIVE;
	assert_int_equal(find(&f, CLAIM_CLIENTS, "", RT_FLAG_STRINGS, &subscription, &error), 0);
	assert_ptr_equal(subscription, permanent);
	assert_int_equal(find(&f, CLAIM_CLIENTS, "", 0, &subscription, &error), 0);
	assert_ptr_equal(subscription, permanent);
	f.all.config.viewers.strings = true;
	assert_int_equal(find(&f, CLAIM_VIEWERS, "", 0, &subscription, &error), 0);
	assert_ptr_equal(subscription, permanent);
	f.all.config.viewers.strings = false;
	f.all.config.viewers.subscriptions = 9;
	assert_int_equal(find(&f, CLAIM_VIEWERS, "", RT_FLAG_STRINGS, &subscription, &error), -EACCES);
	assert_int_equal(find(&f, CLAIM_VIEWERS, "", 0, &subscription, &error), 0);
	assert_ptr_not_equal(subscription, permanent);
	assert_int_equal(subscription->spec.flags, 0);
	give_up(&f, subscription);
	/* Without the texts that its own filter reads there would be nothing at all: a relay is a viewer. */
	filter_reads_texts = true;
	assert_int_equal(find(&f, CLAIM_VIEWERS, "", 0, &subscription, &error), 0);
	filter_reads_texts = false;
	assert_ptr_equal(subscription, permanent);
	close_all(&f);
}

/* What is always on, as it is or narrowed: what both pass, in the words of both, with the flags asked for. */
static void what_is_always_on_is_narrowed(void **state)
{
	static const struct {
		const char *always, *asked;
		uint32_t flags;
		const char *text;	/* NULL: it is the one that is always on */
	} cases[] = {
		{"pid == 1", "", 0, NULL},
		{"", "", 0, NULL},
		{"pid == 1", "", RT_FLAG_CONTEXT, "pid == 1"},
		{"", "pid == 2", 0, "pid == 2"},
		{"pid == 1", "pid == 2", 0, "(pid == 2) && (pid == 1)"},
		{"pid == 1", "pid == 2", RT_FLAG_KSTACK, "(pid == 2) && (pid == 1)"},
	};
	struct subscription *subscription, *permanent;
	struct error error;
	struct fixture f;

	(void)state;
	for (unsigned i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		open_all(&f);
		memset(f.all.by_index, 0, sizeof(f.all.by_index));
		assert_int_equal(find(&f, CLAIM_CLIENTS, "", 0, &subscription, &error), -EINVAL);
		assert_string_equal(error.code, "no-default-probes");
		permanent = f.made[1];
		free(permanent->filter_text);
		permanent->filter_text = strdup(cases[i].always);
		permanent->permanent = true;
		permanent->state = SUBSCRIPTION_REMOVING;
		assert_int_equal(find(&f, CLAIM_CLIENTS, "", 0, &subscription, &error), -EINVAL);
		permanent->state = SUBSCRIPTION_LIVE;
		assert_int_equal(find(&f, CLAIM_CLIENTS, cases[i].asked, cases[i].flags, &subscription, &error), 0);
		if (cases[i].text) {
			assert_string_equal(subscription->filter_text, cases[i].text);
			assert_int_equal(subscription->spec.flags, cases[i].flags);
			assert_true(probe_set_equal(&subscription->spec.probes, &permanent->spec.probes));
			assert_int_equal(subscription->globs, 1);
			give_up(&f, subscription);
		} else {
			assert_ptr_equal(subscription, permanent);
		}
		/* Who asks how many there are is not sent what there is. */
		assert_int_equal(subscriptions_find(&f.all, &(struct subscription_request){
			.filter = "", .question = &(struct question_request){.of = ""}}, CLAIM_CLIENTS, &subscription, &error), 0);
		assert_ptr_not_equal(subscription, permanent);
		assert_non_null(subscription->spec.question);
		give_up(&f, subscription);
		/* What is to be always on is what is meant already. */
		f.all.permanent.next = f.made[2];
		assert_int_equal(find(&f, CLAIM_CLIENTS, "", 0, &subscription, &error), 0);
		assert_ptr_equal(subscription, f.made[2]);
		close_all(&f);
	}
}

/* A refusal is of the client's own text: where it says something, and what it may not have. */
static void refusal_of_what_is_narrowed(void **state)
{
	struct subscription *subscription;
	struct error error;
	struct fixture f;

	(void)state;
	open_all(&f);
	memset(f.all.by_index, 0, sizeof(f.all.by_index));
	f.made[1]->permanent = true;
	for (unsigned both = 0; both < 2; both++) {
		if (!both)
			f.made[1]->filter_text[0] = '\0';
		else
			strcpy(f.made[1]->filter_text, "pid == 1");
		assert_true(find(&f, CLAIM_CLIENTS, "ret >", 0, &subscription, &error) < 0);
		assert_int_equal(error.column, 6);
		assert_int_equal(find(&f, CLAIM_VIEWERS, "", RT_FLAG_DATA, &subscription, &error), -EACCES);
		assert_int_equal(find(&f, CLAIM_VIEWERS, "", RT_FLAG_KSTACK, &subscription, &error), -EACCES);
	}
	close_all(&f);
}

/* As many specs as may be, and one more; of those beyond the bound none is made. */
static void probes_up_to_their_bound(void **state)
{
	static const char *glob[SUBSCRIBE_PROBES_MAX + 1];
	struct subscription_request request = {.glob = glob, .filter = "pid == 3"};
	struct subscription *subscription;
	struct error error = {0};
	struct fixture f;

	(void)state;
	open_all(&f);
	memset(f.all.by_index, 0, sizeof(f.all.by_index));
	for (unsigned i = 0; i <= SUBSCRIBE_PROBES_MAX; i++)
		glob[i] = "syscall:read:call";
	request.globs = SUBSCRIBE_PROBES_MAX;
	assert_int_equal(subscriptions_find(&f.all, &request, CLAIM_CLIENTS, &subscription, &error), 0);
	give_up(&f, subscription);
	request.globs = SUBSCRIBE_PROBES_MAX + 1;
	assert_int_equal(subscriptions_find(&f.all, &request, CLAIM_CLIENTS, &subscription, &error), -EINVAL);
	assert_string_equal(error.code, "too-many-probes");
	glob[0] = "nothing:of:that";
	request.globs = 1;
	assert_true(subscriptions_find(&f.all, &request, CLAIM_CLIENTS, &subscription, &error) < 0);
	for (unsigned i = 0; i <= SUBSCRIBE_PROBES_MAX; i++)
		glob[i] = "tracepoint:block:a";
	prepared = 0;
	assert_int_equal(subscriptions_prepare(&f.all, CLAIM_CLIENTS, (char *const *)glob, SUBSCRIBE_PROBES_MAX + 1,
					       false, &error), 0);
	assert_int_equal(prepared, SUBSCRIBE_PROBES_MAX);
	close_all(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(who_was_left_longest_ago_makes_room),
		cmocka_unit_test(who_is_needed_makes_no_room),
		cmocka_unit_test(what_goes_is_nobodys),
		cmocka_unit_test(what_is_left_when_some_go),
		cmocka_unit_test(the_kernel_has_a_filter_whole_or_not_at_all),
		cmocka_unit_test(what_viewers_have_made_is_counted),
		cmocka_unit_test(new_rate_is_for_viewers_streams),
		cmocka_unit_test(probe_made_on_request_needs_its_provider_named),
		cmocka_unit_test(nothing_is_made_for_viewers_unless_its_provider_is_named),
		cmocka_unit_test(a_tracepoint_by_its_name_alone),
		cmocka_unit_test(no_more_is_made_for_viewers_than_they_may_ask_for),
		cmocka_unit_test(viewers_ask_for_what_is_there_by_its_provider_too),
		cmocka_unit_test(texts_of_the_kernels_functions_are_for_operators),
		cmocka_unit_test(no_file_is_looked_into_for_viewers_but_those_named),
		cmocka_unit_test(always_on_under_a_filter_is_not_everybodys),
		cmocka_unit_test(dump_of_what_is_not_there),
		cmocka_unit_test(what_no_run_stored_is_told_to_the_last_attempt),
		cmocka_unit_test(viewers_flags_one_and_all),
		cmocka_unit_test(claim_of_each_role),
		cmocka_unit_test(probes_that_are_there_need_no_provider_named),
		cmocka_unit_test(long_list_of_what_is_allowed_is_cut),
		cmocka_unit_test(last_places_are_the_daemons),
		cmocka_unit_test(what_comes_late_is_of_who_waited_for_it),
		cmocka_unit_test(a_viewer_has_the_probes_of_its_own_programs),
		cmocka_unit_test(a_viewer_has_nothing_of_others_programs),
		cmocka_unit_test(a_viewer_is_its_user_only_if_the_kernel_says_so),
		cmocka_unit_test(nobody_shares_an_exports_strings),
		cmocka_unit_test(what_is_always_on_is_narrowed),
		cmocka_unit_test(what_is_always_on_comes_with_strings),
		cmocka_unit_test(refusal_of_what_is_narrowed),
		cmocka_unit_test(probes_up_to_their_bound),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
