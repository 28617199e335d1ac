/*
 * What the kernel is asked to record: the union of what subscriptions and meters want, one request at a
 * time; and what becomes of the subscriptions when it accepts or refuses. The loader is the test's own.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "daemon/base/clock.h"
#include "daemon/base/counters.h"
#include "daemon/base/log.h"
#include "daemon/stream/recorder.h"
#include "tests/unit/daemon/small_catalog.h"

#define WANTED_MAX	(RT_FILTER_CLAUSES_MAX + 2)
#define CALL		RT_PROBE_SYSCALL_CALL

static struct fixture {
	struct event_base *base;
	struct recorder *recorder;
	struct subscription_list list;
	struct subscription wanted[WANTED_MAX];
	int fd;

	programs_narrow *narrow;		/* what programs are to ask, of the last one */
	void *narrow_context;
	unsigned requests;
	struct source_request request;		/* the last one */
	bool has_report;
	struct loader_report report;

	unsigned accepted, refused, silent, gone, failed, made;
	bool workers_away;			/* they do not join at once */
	unsigned joined;
	unsigned stats_asked, stuck_asked, stuck_told;
	uint64_t in_force;
} f;

int __wrap_loader_configure(struct loader *loader, const struct source_request *request);
int __wrap_loader_configure(struct loader *loader, const struct source_request *request)
{
	(void)loader;
	f.request = *request;
	f.requests++;
	return 0;
}

void __wrap_programs_configure(struct programs *programs, const struct source_request *wanted, programs_narrow *narrow,
			       void *context);
void __wrap_programs_configure(struct programs *programs, const struct source_request *wanted, programs_narrow *narrow,
			       void *context)
{
	(void)programs, (void)wanted;
	f.narrow = narrow;
	f.narrow_context = context;
}

int __wrap_loader_joined(struct loader *loader);
int __wrap_loader_joined(struct loader *loader)
{
	(void)loader;
	f.joined++;
	return 0;
}

int __wrap_loader_fd(const struct loader *loader);
int __wrap_loader_fd(const struct loader *loader)
{
	(void)loader;
	return f.fd;
}

int __wrap_loader_receive(struct loader *loader, struct loader_report *report);
int __wrap_loader_receive(struct loader *loader, struct loader_report *report)
{
	uint64_t n;

	(void)loader;
	if (read(f.fd, &n, sizeof(n)) != sizeof(n) || !f.has_report)
		return -EAGAIN;
	f.has_report = false;
	*report = f.report;
	return 0;
}

int __wrap_loader_ask_stats(struct loader *loader);
int __wrap_loader_ask_stats(struct loader *loader)
{
	(void)loader;
	f.stats_asked++;
	return 0;
}

int __wrap_loader_ask_stuck(struct loader *loader, uint64_t longer_than_ns);
int __wrap_loader_ask_stuck(struct loader *loader, uint64_t longer_than_ns)
{
	(void)loader, (void)longer_than_ns;
	f.stuck_asked++;
	return 0;
}

static void on_accepted(void *context, struct subscription *subscription)
{
	(void)context;
	f.accepted++;
	subscription->state = f.workers_away ? SUBSCRIPTION_STARTING : SUBSCRIPTION_LIVE;
}

static void on_refused(void *context, struct subscription *subscription, const struct error *error)
{
	(void)context, (void)error;
	f.refused++;
	TAILQ_REMOVE(&f.list, subscription, link);
}

static void on_in_force(void *context, uint64_t generation)
{
	(void)context;
	f.in_force = generation;
}

static void on_silent(void *context)
{
	(void)context;
	f.silent++;
}

static void on_gone(void *context, const struct error *error)
{
	(void)context;
	assert_string_equal(error->code, "loader-gone");
	f.gone++;
}

static void on_failed(void *context)
{
	(void)context;
	f.failed++;
}

static void on_made(void *context, const struct loader_report *report)
{
	(void)context;
	assert_int_equal(report->event, LOADER_MADE);
	f.made++;
}

static void on_stuck(void *context, const struct loader_report *report, const struct error *error)
{
	(void)error;
	assert_ptr_equal(context, &f);
	f.stuck_told++;
	if (report && report->fd >= 0)
		close(report->fd);
}

static void no_line(enum log_level level, const char *code, const char *text)
{
	(void)level, (void)code, (void)text;
}

static int set_up(void **state)
{
	static const struct log_sink sink = {no_line, clock_monotonic};
	struct recorder_config config = {
		.wanted = &f.list, .accepted = on_accepted, .refused = on_refused,
		.in_force = on_in_force, .silent = on_silent, .gone = on_gone, .failed = on_failed,
		.made = on_made, .programs = (struct programs *)&f,
	};

	(void)state;
	log_set_sink(&sink);
	memset(&f, 0, sizeof(f));
	TAILQ_INIT(&f.list);
	f.fd = eventfd(0, EFD_NONBLOCK);
	f.base = config.base = event_base_new();
	f.recorder = recorder_create(&config);
	return f.recorder ? 0 : -1;
}

static int tear_down(void **state)
{
	(void)state;
	recorder_destroy(f.recorder);
	event_base_free(f.base);
	close(f.fd);
	return 0;
}

static void tell(const struct loader_report *report)
{
	uint64_t one = 1;

	f.report = *report;
	f.has_report = true;
	assert_int_equal(write(f.fd, &one, sizeof(one)), sizeof(one));
	event_base_loop(f.base, EVLOOP_ONCE | EVLOOP_NONBLOCK);
}

/* The kernel's answer to the last request. */
static void answer(int err)
{
	tell(&(struct loader_report){.event = LOADER_CONFIGURED, .generation = f.request.generation,
				     .err = err});
}

/* One more that wants that probe; it is told of in recorder_change(). */
static struct subscription *want(unsigned i, uint32_t probe, uint32_t flags)
{
	struct subscription *subscription = &f.wanted[i];

	probe_set_add(&subscription->spec.probes, probe);
	subscription->spec.flags = flags;
	subscription->state = SUBSCRIPTION_CONFIGURING;
	TAILQ_INSERT_TAIL(&f.list, subscription, link);
	return subscription;
}

static void add_clause(struct subscription *subscription, uint32_t pid)
{
	subscription->clause[subscription->clauses++] =
		(struct rt_filter_clause){.pid_op = RT_FILTER_EQ, .pid = pid};
}

static void change(struct subscription *subscription)
{
	subscription->generation = recorder_change(f.recorder);
}

static bool asks(const uint8_t *bits, uint32_t probe)
{
	return bits[probe / 8] >> probe % 8 & 1;
}

static void flags_of_all_are_asked_for_but_those_of_the_daemon(void **state)
{
	struct subscription *one, *other, *held;

	(void)state;
	one = want(0, CALL, RT_FLAG_STRINGS);
	other = want(1, CALL + 1, RT_FLAG_KSTACK | RT_FLAG_CONTEXT | SPEC_STACK_TABLE);
	held = want(2, CALL + 2, RT_FLAG_USTACK);
	held->state = SUBSCRIPTION_HELD;
	want(3, CALL + 3, RT_FLAG_USTACK)->state = SUBSCRIPTION_REMOVING;
	change(one);
	assert_int_equal(f.request.flags, RT_FLAG_STRINGS | RT_FLAG_KSTACK);
	assert_true(asks(f.request.probes, CALL) && asks(f.request.probes, CALL + 1));
	assert_false(asks(f.request.probes, CALL + 2) || asks(f.request.probes, CALL + 3));
	TAILQ_REMOVE(&f.list, held, link);
	answer(0);
	other->spec.file_strings = true;
	recorder_change(f.recorder);
	assert_int_equal(f.request.flags, RT_FLAG_STRINGS | RT_FLAG_KSTACK | SOURCE_FILE_STRINGS);
}

/* A question of how many calls there were, as probes are added to it. */
static const struct question *plain_question(const struct probe_set *probes)
{
	const struct question_request request = {.of = ""};
	struct question *question = NULL;
	struct error error;

	assert_int_equal(question_create(&request, probes, small_catalog_get(), &question, &error), 0);
	return question;
}

static void what_is_only_counted_is_told_and_goes_when_somebody_wants_more(void **state)
{
	struct subscription *asks_both, *asks_one, *streams;
	struct probe_set meter = {0};

	(void)state;
	asks_both = want(0, SMALL_READ, 0);
	probe_set_add(&asks_both->spec.probes, SMALL_KILL);
	asks_both->spec.question = plain_question(&asks_both->spec.probes);
	asks_one = want(1, SMALL_READ, 0);
	asks_one->spec.question = plain_question(&asks_one->spec.probes);
	change(asks_one);
	assert_true(asks(f.request.counted, SMALL_READ) && asks(f.request.counted, SMALL_KILL));
	assert_false(asks(f.request.counted, SMALL_OPENAT));
	answer(0);
	streams = want(2, SMALL_KILL, 0);
	change(streams);
	assert_true(asks(f.request.counted, SMALL_READ) && asks(f.request.probes, SMALL_KILL));
	assert_false(asks(f.request.counted, SMALL_KILL));
	answer(0);
	probe_set_add(&meter, SMALL_READ);
	recorder_set_meter(f.recorder, &meter);
	assert_false(asks(f.request.counted, SMALL_READ));
	answer(0);
	recorder_set_meter(f.recorder, &(struct probe_set){0});
	answer(0);
	TAILQ_REMOVE(&f.list, streams, link);
	recorder_change(f.recorder);
	assert_true(asks(f.request.counted, SMALL_READ) && asks(f.request.counted, SMALL_KILL));
	question_destroy((struct question *)asks_both->spec.question);
	question_destroy((struct question *)asks_one->spec.question);
}

/* Nobody filters what the kernel has counted: it must let through what the question's filter does. */
static void what_is_filtered_is_counted_if_the_kernel_has_that_filter_alone(void **state)
{
	const struct filter *some = (const void *)&f;	/* nobody looks into it here */
	struct subscription *one, *same, *other;

	(void)state;
	one = want(0, SMALL_READ, 0);
	one->spec.question = plain_question(&one->spec.probes);
	one->spec.filter = some;
	one->spec.filter_of_kernel = true;
	add_clause(one, 7);
	change(one);
	assert_true(asks(f.request.counted, SMALL_READ));
	answer(0);
	same = want(1, SMALL_READ, 0);
	same->spec = one->spec;
	add_clause(same, 7);
	change(same);
	assert_true(asks(f.request.counted, SMALL_READ));
	answer(0);
	/* Others' clauses let more through, of any probe. */
	other = want(2, SMALL_KILL, 0);
	add_clause(other, 8);
	change(other);
	assert_false(asks(f.request.counted, SMALL_READ));
	answer(0);
	TAILQ_REMOVE(&f.list, other, link);
	recorder_hide_comm(f.recorder, true);
	assert_true(asks(f.request.counted, SMALL_READ));
	answer(0);
	one->clause[0].comm_op = same->clause[0].comm_op = RT_FILTER_EQ;
	recorder_change(f.recorder);
	assert_false(asks(f.request.counted, SMALL_READ));
	answer(0);
	recorder_hide_comm(f.recorder, false);
	assert_true(asks(f.request.counted, SMALL_READ));
	answer(0);
	/* One of them asks for all. */
	same->spec.filter = NULL;
	same->clauses = 0;
	recorder_change(f.recorder);
	assert_false(asks(f.request.counted, SMALL_READ));
	answer(0);
	TAILQ_REMOVE(&f.list, same, link);
	one->spec.filter_of_kernel = false;
	recorder_change(f.recorder);
	assert_false(asks(f.request.counted, SMALL_READ));
	question_destroy((struct question *)one->spec.question);
}

static void equal_clauses_take_one_place_and_what_has_none_is_unfiltered(void **state)
{
	(void)state;
	add_clause(want(0, CALL, 0), 7);
	add_clause(want(1, CALL + 1, 0), 7);
	recorder_change(f.recorder);
	assert_int_equal(f.request.clauses, 1);
	assert_int_equal(f.request.clause[0].pid, 7);
	assert_false(asks(f.request.unfiltered, CALL) || asks(f.request.unfiltered, CALL + 1));
	answer(0);
	want(2, CALL + 2, 0);
	recorder_change(f.recorder);
	assert_int_equal(f.request.clauses, 1);
	assert_false(asks(f.request.unfiltered, CALL));
	assert_true(asks(f.request.unfiltered, CALL + 2));
}

static void a_clause_beyond_the_last_place_leaves_its_probes_unfiltered(void **state)
{
	(void)state;
	for (unsigned i = 0; i <= RT_FILTER_CLAUSES_MAX; i++)
		add_clause(want(i, CALL + i, 0), 100 + i);
	recorder_change(f.recorder);
	assert_int_equal(f.request.clauses, RT_FILTER_CLAUSES_MAX);
	for (unsigned i = 0; i <= RT_FILTER_CLAUSES_MAX; i++)
		assert_int_equal(asks(f.request.unfiltered, CALL + i), i == RT_FILTER_CLAUSES_MAX);
}

/* Meters want every process; where all is unfiltered, no clause is asked for. */
static void what_is_metered_is_recorded_of_every_process(void **state)
{
	struct probe_set metered = {0};

	(void)state;
	add_clause(want(0, CALL, 0), 7);
	recorder_change(f.recorder);
	answer(0);
	probe_set_add(&metered, CALL + 5);
	recorder_set_meter(f.recorder, &metered);
	assert_true(asks(f.request.probes, CALL + 5) && asks(f.request.unfiltered, CALL + 5));
	assert_false(asks(f.request.unfiltered, CALL));
	assert_int_equal(f.request.clauses, 1);
	answer(0);
	probe_set_add(&metered, CALL);
	recorder_set_meter(f.recorder, &metered);
	assert_true(asks(f.request.unfiltered, CALL));
	assert_int_equal(f.request.clauses, 0);
	answer(0);
	/* The same again is no change. */
	assert_int_equal(f.requests, 3);
	recorder_set_meter(f.recorder, &metered);
	assert_int_equal(f.requests, 3);
}

static struct filter *compile(const char *text)
{
	Ringtail__V1__Field us = RINGTAIL__V1__FIELD__INIT, url = RINGTAIL__V1__FIELD__INIT, *fields[] = {&us, &url};
	Ringtail__V1__Probe probe = RINGTAIL__V1__PROBE__INIT, *probes[] = {&probe};
	Ringtail__V1__Catalog catalog = RINGTAIL__V1__CATALOG__INIT;
	struct filter *filter;
	struct error error;

	us.name = (char *)"us";
	us.type = RINGTAIL__V1__FIELD_TYPE__FIELD_UNSIGNED;
	url.name = (char *)"url";
	url.type = RINGTAIL__V1__FIELD_TYPE__FIELD_TEXT;
	probe.id = RT_PROBE_PROGRAM;
	probe.field = fields;
	probe.n_field = 2;
	catalog.probe = probes;
	catalog.n_probe = 1;
	assert_int_equal(filter_compile(text, &catalog, &filter, &error), 0);
	return filter;
}

/* How many tests a program is to make; -1: it writes each event. */
static int asked_of_programs(void)
{
	struct probe_filter made;

	probe_filter_init(&made);
	f.narrow(f.narrow_context, RT_PROBE_PROGRAM, 2, &made);
	return made.first == RT_PROGRAM_PASS ? -1 : made.tests;
}

/* They ask what the subscriptions ask together, unless one of them wants all. */
static void programs_ask_what_all_want(void **state)
{
	struct filter *slow = compile("us > 100"), *api = compile("us == 7 || url =~ \"/api/*\"");
	struct subscription *one = want(0, RT_PROBE_PROGRAM, 0), *two = want(1, RT_PROBE_PROGRAM, 0);
	struct subscription *other = want(2, CALL, 0);
	struct probe_set metered = {0};

	(void)state;
	one->spec.filter = slow;
	two->spec.filter = api;
	recorder_change(f.recorder);
	assert_int_equal(asked_of_programs(), 3);
	two->state = SUBSCRIPTION_REMOVING;
	assert_int_equal(asked_of_programs(), 1);
	two->state = SUBSCRIPTION_HELD;
	assert_int_equal(asked_of_programs(), 1);
	two->state = SUBSCRIPTION_LIVE;
	recorder_hide_texts(f.recorder, true);
	assert_int_equal(asked_of_programs(), -1);
	recorder_hide_texts(f.recorder, false);
	probe_set_add(&two->spec.late, RT_PROBE_PROGRAM);
	assert_int_equal(asked_of_programs(), -1);
	memset(&two->spec.late, 0, sizeof(two->spec.late));
	probe_set_add(&metered, RT_PROBE_PROGRAM);
	recorder_set_meter(f.recorder, &metered);
	assert_int_equal(asked_of_programs(), -1);
	recorder_set_meter(f.recorder, &(struct probe_set){0});
	assert_int_equal(asked_of_programs(), 3);
	probe_set_add(&other->spec.probes, RT_PROBE_PROGRAM);
	assert_int_equal(asked_of_programs(), -1);
	filter_destroy(slow);
	filter_destroy(api);
}

/* The kernel sees names that the daemon hides: it is not to look for them. */
static void clauses_on_hidden_names_are_asked_for_without_them(void **state)
{
	struct rt_filter_clause clause = {.pid_op = RT_FILTER_EQ, .pid = 7, .comm_op = RT_FILTER_EQ, .comm = "a"};
	struct subscription *one = want(0, CALL, 0), *two = want(1, CALL + 1, 0);

	(void)state;
	one->clause[one->clauses++] = clause;
	clause.comm[0] = 'b';
	two->clause[two->clauses++] = clause;
	recorder_change(f.recorder);
	answer(0);
	assert_int_equal(f.request.clauses, 2);
	assert_string_equal(f.request.clause[1].comm, "b");
	assert_int_equal(f.request.clause[1].comm_op, RT_FILTER_EQ);
	recorder_hide_comm(f.recorder, true);
	assert_int_equal(f.requests, 2);
	answer(0);
	assert_int_equal(f.request.clauses, 1);
	assert_int_equal(f.request.clause[0].comm_op, RT_FILTER_ANY);
	assert_string_equal(f.request.clause[0].comm, "");
	assert_int_equal(f.request.clause[0].pid, 7);
	recorder_hide_comm(f.recorder, true);
	assert_int_equal(f.requests, 2);
	recorder_hide_comm(f.recorder, false);
	assert_int_equal(f.requests, 3);
	assert_int_equal(f.request.clauses, 2);
}

/* Once for each request, and not while another is on its way. */
static void the_loader_is_told_when_the_workers_read_all_that_was_asked_for(void **state)
{
	struct probe_set metered = {0};
	struct subscription *one = want(0, CALL, 0), *two;

	(void)state;
	f.workers_away = true;
	change(one);
	recorder_joined(f.recorder);
	answer(0);
	assert_int_equal(f.joined, 0);
	one->state = SUBSCRIPTION_LIVE;
	recorder_joined(f.recorder);
	recorder_joined(f.recorder);
	assert_int_equal(f.joined, 1);
	two = want(1, CALL + 1, 0);
	change(two);
	recorder_joined(f.recorder);
	answer(0);
	recorder_joined(f.recorder);
	assert_int_equal(f.joined, 1);
	two->state = SUBSCRIPTION_LIVE;
	recorder_joined(f.recorder);
	assert_int_equal(f.joined, 2);
	probe_set_add(&metered, CALL + 5);
	recorder_set_meter(f.recorder, &metered);
	assert_int_equal(f.joined, 2);
	answer(0);
	assert_int_equal(f.joined, 3);
}

static void one_request_is_on_its_way_at_a_time(void **state)
{
	uint64_t configures = counter_read(COUNTER_configures);
	struct subscription *one, *other, *third;

	(void)state;
	one = want(0, CALL, 0);
	change(one);
	other = want(1, CALL + 1, 0);
	change(other);
	third = want(2, CALL + 2, 0);
	change(third);
	assert_int_equal(f.requests, 1);
	assert_false(asks(f.request.probes, CALL + 1));
	assert_int_equal(recorder_newest(f.recorder), 2);
	assert_int_equal(other->generation, 2);
	assert_int_equal(third->generation, 2);
	answer(0);
	/* The first is recorded, and the others are asked for, together. */
	assert_int_equal(f.in_force, 1);
	assert_int_equal(one->state, SUBSCRIPTION_LIVE);
	assert_int_equal(other->state, SUBSCRIPTION_CONFIGURING);
	assert_int_equal(f.requests, 2);
	assert_true(asks(f.request.probes, CALL + 1) && asks(f.request.probes, CALL + 2));
	answer(0);
	assert_int_equal(f.accepted, 3);
	assert_int_equal(f.in_force, 2);
	assert_int_equal(recorder_in_force(f.recorder), 2);
	assert_int_equal(recorder_newest(f.recorder), 2);
	assert_int_equal(f.requests, 2);
	assert_int_equal(counter_read(COUNTER_configures), configures + 2);
}

/* Of the run before: nothing is asked for until all of it is back, and nothing of the next run's. */
static void nothing_is_asked_for_while_held_or_left(void **state)
{
	struct subscription *one;

	(void)state;
	recorder_hold(f.recorder);
	assert_true(recorder_is_held(f.recorder));
	one = want(0, CALL, 0);
	change(one);
	assert_int_equal(f.requests, 0);
	recorder_resume(f.recorder);
	assert_false(recorder_is_held(f.recorder));
	assert_int_equal(f.requests, 1);
	assert_int_equal(one->generation, f.request.generation);
	answer(0);
	recorder_leave(f.recorder);
	want(1, CALL + 1, 0);
	recorder_change(f.recorder);
	assert_int_equal(f.requests, 1);
}

/* Where several were new, each is asked for alone: the one at fault is refused, and nobody else. */
static void the_one_at_fault_is_refused(void **state)
{
	struct subscription *wanted[3];

	(void)state;
	for (unsigned i = 0; i < 3; i++)
		wanted[i] = want(i, CALL + i, 0);
	for (unsigned i = 0; i < 3; i++)
		wanted[i]->generation = 1;
	assert_int_equal(recorder_change(f.recorder), 1);
	answer(-EPERM);
	assert_int_equal(f.refused, 0);
	assert_int_equal(wanted[0]->state, SUBSCRIPTION_CONFIGURING);
	assert_int_equal(wanted[1]->state, SUBSCRIPTION_HELD);
	assert_int_equal(wanted[2]->state, SUBSCRIPTION_HELD);
	assert_false(asks(f.request.probes, CALL + 1) || asks(f.request.probes, CALL + 2));
	answer(0);
	assert_int_equal(f.accepted, 1);
	/* The next, and that alone. */
	assert_int_equal(wanted[1]->state, SUBSCRIPTION_CONFIGURING);
	assert_int_equal(wanted[2]->state, SUBSCRIPTION_HELD);
	assert_true(asks(f.request.probes, CALL + 1));
	assert_false(asks(f.request.probes, CALL + 2));
	answer(-EPERM);
	assert_int_equal(f.refused, 1);
	for (unsigned i = 0; i < 4 && wanted[2]->state != SUBSCRIPTION_LIVE; i++)
		answer(0);
	assert_int_equal(f.accepted, 2);
	assert_true(asks(f.request.probes, CALL) && asks(f.request.probes, CALL + 2));
	assert_false(asks(f.request.probes, CALL + 1));
}

/* What meters want and the kernel refuses is given up; what they had, they keep. */
static void a_refused_meter_is_what_it_was(void **state)
{
	struct probe_set first = {0}, second = {0};

	(void)state;
	probe_set_add(&first, CALL);
	recorder_set_meter(f.recorder, &first);
	answer(0);
	probe_set_add(&second, CALL + 1);
	recorder_set_meter(f.recorder, &second);
	assert_false(asks(f.request.probes, CALL));
	answer(-EPERM);
	/* What was refused may have taken something away: it is asked for again. */
	assert_int_equal(f.requests, 3);
	assert_true(asks(f.request.probes, CALL));
	assert_false(asks(f.request.probes, CALL + 1));
	answer(0);
	assert_int_equal(f.requests, 3);
}

/* What meters want by then is not what was refused. */
static void a_meter_that_changed_before_the_refusal_stays(void **state)
{
	struct probe_set first = {0}, second = {0};

	(void)state;
	probe_set_add(&first, CALL);
	recorder_set_meter(f.recorder, &first);
	probe_set_add(&second, CALL + 1);
	recorder_set_meter(f.recorder, &second);
	answer(-EPERM);
	assert_false(asks(f.request.probes, CALL));
	assert_true(asks(f.request.probes, CALL + 1));
	answer(-EPERM);
	assert_false(asks(f.request.probes, CALL + 1));
	answer(0);
	assert_int_equal(f.requests, 3);
}

/* The meter is asked for alone, as it may be at fault; then the subscription, which is not. */
static void a_meter_and_a_subscription_at_once(void **state)
{
	struct probe_set metered = {0};
	struct subscription *wanted = want(0, CALL, 0);

	(void)state;
	wanted->generation = 1;
	probe_set_add(&metered, CALL + 1);
	recorder_set_meter(f.recorder, &metered);
	assert_true(asks(f.request.probes, CALL) && asks(f.request.probes, CALL + 1));
	answer(-EPERM);
	assert_false(asks(f.request.probes, CALL));
	assert_true(asks(f.request.probes, CALL + 1));
	answer(-EPERM);
	for (unsigned i = 0; i < 4 && wanted->state != SUBSCRIPTION_LIVE; i++)
		answer(0);
	assert_int_equal(f.accepted, 1);
	assert_int_equal(f.refused, 0);
	assert_true(asks(f.request.probes, CALL));
	assert_false(asks(f.request.probes, CALL + 1));
}

/* One question at a time; of one that nobody waits for any more, the answer is closed. */
static void threads_that_are_stuck_are_told_once(void **state)
{
	struct loader_report report = {.event = LOADER_STUCK};

	(void)state;
	assert_int_equal(recorder_ask_stuck(f.recorder, 1, on_stuck, &f), 0);
	assert_int_equal(recorder_ask_stuck(f.recorder, 1, on_stuck, &f), -EBUSY);
	assert_int_equal(f.stuck_asked, 1);
	report.fd = -1;
	tell(&report);
	assert_int_equal(f.stuck_told, 1);
	assert_int_equal(recorder_ask_stuck(f.recorder, 1, on_stuck, &f), 0);
	recorder_forget_stuck(f.recorder);
	report.fd = eventfd(0, 0);
	tell(&report);
	assert_int_equal(f.stuck_told, 1);
	assert_int_equal(fcntl(report.fd, F_GETFD), -1);
	assert_int_equal(f.silent + f.gone, 0);
}

static void what_the_loader_counted_and_made_is_passed_on(void **state)
{
	struct loader_report report = {.event = LOADER_STATS, .fd = -1};

	(void)state;
	memset(&report.stats, 7, sizeof(report.stats));
	tell(&report);
	struct source_stats stats = recorder_stats(f.recorder);

	assert_memory_equal(&stats, &report.stats, sizeof(stats));
	assert_int_equal(f.stats_asked, 1);
	/* Figures of which some are missing would make a sum go down. */
	report.err = -EIO;
	report.stats = (struct source_stats){.program_runs = 1};
	tell(&report);
	struct source_stats kept = recorder_stats(f.recorder);

	assert_memory_equal(&kept, &stats, sizeof(stats));
	report.err = 0;
	tell(&report);
	assert_int_equal(recorder_stats(f.recorder).program_runs, 1);
	assert_int_equal(f.made, 0);
	tell(&(struct loader_report){.event = LOADER_MADE, .fd = -1});
	assert_int_equal(f.made, 1);
	assert_int_equal(f.silent + f.gone + f.stuck_told, 0);
}

static void stopped_it_asks_for_nothing_and_says_when_that_is_so(void **state)
{
	(void)state;
	want(0, CALL, RT_FLAG_STRINGS);
	recorder_change(f.recorder);
	recorder_stop(f.recorder);
	assert_int_equal(f.requests, 1);
	answer(0);
	assert_int_equal(f.silent, 0);
	assert_int_equal(f.requests, 2);
	assert_false(asks(f.request.probes, CALL));
	assert_int_equal(f.request.flags, 0);
	answer(0);
	assert_int_equal(f.silent, 1);
}

static void a_loader_that_is_gone_is_told_of_once(void **state)
{
	(void)state;
	for (unsigned stopping = 0; stopping < 2; stopping++) {
		if (stopping) {
			tear_down(state);
			assert_int_equal(set_up(state), 0);
			recorder_stop(f.recorder);
		}
		tell(&(struct loader_report){.event = LOADER_GONE});
		assert_int_equal(f.gone, 1);
		assert_int_equal(f.failed, 1);
		assert_int_equal(f.silent, stopping);
		tell(&(struct loader_report){.event = LOADER_GONE});
		assert_int_equal(f.gone, 1);
	}
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		TEST(flags_of_all_are_asked_for_but_those_of_the_daemon),
		TEST(what_is_only_counted_is_told_and_goes_when_somebody_wants_more),
		TEST(what_is_filtered_is_counted_if_the_kernel_has_that_filter_alone),
		TEST(equal_clauses_take_one_place_and_what_has_none_is_unfiltered),
		TEST(a_clause_beyond_the_last_place_leaves_its_probes_unfiltered),
		TEST(what_is_metered_is_recorded_of_every_process),
		TEST(programs_ask_what_all_want),
		TEST(clauses_on_hidden_names_are_asked_for_without_them),
		TEST(the_loader_is_told_when_the_workers_read_all_that_was_asked_for),
		TEST(one_request_is_on_its_way_at_a_time),
		TEST(nothing_is_asked_for_while_held_or_left),
		TEST(the_one_at_fault_is_refused),
		TEST(a_refused_meter_is_what_it_was),
		TEST(a_meter_that_changed_before_the_refusal_stays),
		TEST(a_meter_and_a_subscription_at_once),
		TEST(threads_that_are_stuck_are_told_once),
		TEST(what_the_loader_counted_and_made_is_passed_on),
		TEST(stopped_it_asks_for_nothing_and_says_when_that_is_so),
		TEST(a_loader_that_is_gone_is_told_of_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
