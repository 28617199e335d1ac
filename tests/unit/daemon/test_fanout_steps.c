/*
 * What fanout and its subscriptions ask of whom, and in which order, word for word: of workers, the recorder,
 * who makes probes, the spool, what is saved, and whoever sends a stream. All of these only write down here
 * that they were asked; mails and the clock are the test's.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/clock.h"
#include "daemon/base/counters.h"
#include "daemon/base/limits.h"
#include "daemon/base/log.h"
#include "daemon/serve/answers.h"
#include "daemon/stream/durable.h"
#include "daemon/stream/fanout.h"
#include "daemon/stream/making.h"
#include "daemon/stream/saved_subscriptions.h"
#include "daemon/stream/subscriber.h"
#include "daemon/stream/subscriptions.h"
#include "tests/unit/daemon/small_catalog.h"

#define WORKERS		2
#define RINGS		2
#define READS		"syscall:read:call"
#define KILLS		"syscall:kill:call"

static char said[8192];

static void __attribute__((format(printf, 1, 2))) say(const char *format, ...)
{
	size_t used = strlen(said);
	va_list arguments;

	va_start(arguments, format);
	assert_true(vsnprintf(said + used, sizeof(said) - used, format, arguments) < (int)(sizeof(said) - used));
	va_end(arguments);
}

/* All that was said since it was asked before. */
static void expect_said(const char *expected)
{
	assert_string_equal(said, expected);
	said[0] = '\0';
}

static bool timers_fail;

int __real_event_add(struct event *event, const struct timeval *after);
int __wrap_event_add(struct event *event, const struct timeval *after);
int __wrap_event_add(struct event *event, const struct timeval *after)
{
	return timers_fail ? -1 : __real_event_add(event, after);
}

/* ---- Whom it asks ------------------------------------------------------------------------------ */

struct worker {
	unsigned id;
};

struct recorder {
	struct recorder_config config;
	uint64_t newest, in_force;
};

static struct worker worker[WORKERS] = {{0}, {1}};
static struct recorder recorder;
static struct ring_handle rings[RINGS] = {{.cpu = 3}, {.cpu = 5}};
static uint64_t now_ns;
static unsigned orders_failing;		/* so many orders to workers find no memory */
static unsigned marks_failing;		/* so many watermarks do not */

uint64_t __wrap_clock_monotonic(void);
uint64_t __wrap_clock_monotonic(void)
{
	return now_ns;
}

static int order(const char *what, const struct worker *to)
{
	bool fails = orders_failing && orders_failing--;

	say("%s@%u%s ", what, to->id, fails ? "!" : "");
	return fails ? -ENOMEM : 0;
}

int __wrap_worker_empty(struct worker *to);
int __wrap_worker_empty(struct worker *to)
{
	return order("empty", to);
}

int __wrap_worker_leave(struct worker *to);
int __wrap_worker_leave(struct worker *to)
{
	return order("leave", to);
}

int __wrap_worker_add_subscription(struct worker *to, uint32_t index, const struct batcher_spec *spec);
int __wrap_worker_add_subscription(struct worker *to, uint32_t index, const struct batcher_spec *spec)
{
	assert_non_null(spec);
	say("%u:", index);
	return order("add", to);
}

int __wrap_worker_remove_subscription(struct worker *to, uint32_t index);
int __wrap_worker_remove_subscription(struct worker *to, uint32_t index)
{
	say("%u:", index);
	return order("remove", to);
}

int __wrap_worker_adopt_subscription(struct worker *to, uint32_t index, const struct batcher_spec *spec);
int __wrap_worker_adopt_subscription(struct worker *to, uint32_t index, const struct batcher_spec *spec)
{
	assert_non_null(spec);
	say("%u:", index);
	return order("adopt", to);
}

/* Each ring is one worker's, which goes on there. */
int __wrap_worker_baseline(const struct worker *of, uint32_t ring, struct worker_baseline *baseline);
int __wrap_worker_baseline(const struct worker *of, uint32_t ring, struct worker_baseline *baseline)
{
	*baseline = (struct worker_baseline){.seq = of->id == ring ? 100 + ring : 7};
	return of->id == ring ? 0 : -ENOENT;
}

/* Something happens between two looks, unless a test says otherwise. */
static uint64_t beats, beats_each;

uint64_t __wrap_worker_beats(const struct worker *of);
uint64_t __wrap_worker_beats(const struct worker *of)
{
	(void)of;
	return beats += beats_each;
}

void __wrap_worker_mail_free(struct worker *of, struct worker_mail *mail, uint64_t frame_bytes);
void __wrap_worker_mail_free(struct worker *of, struct worker_mail *mail, uint64_t frame_bytes)
{
	say("took@%u:%llu ", of->id, (unsigned long long)frame_bytes);
	free(mail);
}

struct recorder *__wrap_recorder_create(const struct recorder_config *config);
struct recorder *__wrap_recorder_create(const struct recorder_config *config)
{
	recorder = (struct recorder){.config = *config};
	return &recorder;
}

void __wrap_recorder_destroy(struct recorder *old);
void __wrap_recorder_destroy(struct recorder *old)
{
	assert_ptr_equal(old, &recorder);
}

uint64_t __wrap_recorder_change(struct recorder *of);
uint64_t __wrap_recorder_change(struct recorder *of)
{
	say("change ");
	return ++of->newest;
}

uint64_t __wrap_recorder_newest(const struct recorder *of);
uint64_t __wrap_recorder_newest(const struct recorder *of)
{
	return of->newest;
}

uint64_t __wrap_recorder_in_force(const struct recorder *of);
uint64_t __wrap_recorder_in_force(const struct recorder *of)
{
	return of->in_force;
}

#define NOTED(name, word)							\
	void __wrap_recorder_##name(struct recorder *of);			\
	void __wrap_recorder_##name(struct recorder *of)			\
	{									\
		assert_ptr_equal(of, &recorder);				\
		say(word " ");							\
	}

NOTED(hold, "hold")
NOTED(resume, "resume")
NOTED(stop, "stop")
NOTED(leave, "leave")
NOTED(joined, "joined")

NOTED(forget_stuck, "forget-stuck")

void __wrap_recorder_hide_comm(struct recorder *of, bool hide);
void __wrap_recorder_hide_comm(struct recorder *of, bool hide)
{
	assert_ptr_equal(of, &recorder);
	say("hide-comm:%d ", hide);
}

void __wrap_recorder_hide_texts(struct recorder *of, bool hide);
void __wrap_recorder_hide_texts(struct recorder *of, bool hide)
{
	assert_ptr_equal(of, &recorder);
	say("hide-texts:%d ", hide);
}

unsigned __wrap_redaction_rules(const struct redaction *redaction);
unsigned __wrap_redaction_rules(const struct redaction *redaction)
{
	return redaction ? 2 : 0;
}

bool __wrap_redaction_hides_comm(const struct redaction *redaction);
bool __wrap_redaction_hides_comm(const struct redaction *redaction)
{
	return redaction;
}

struct making {
	unsigned none;
};

static struct making making;

struct making *__wrap_making_create(struct loader *loader, struct recorder *of);
struct making *__wrap_making_create(struct loader *loader, struct recorder *of)
{
	(void)loader, (void)of;
	return &making;
}

void __wrap_making_destroy(struct making *old);
void __wrap_making_destroy(struct making *old)
{
	assert_ptr_equal(old, &making);
}

bool __wrap_making_can(const struct making *of, const char *spec);
bool __wrap_making_can(const struct making *of, const char *spec)
{
	assert_ptr_equal(of, &making);
	return spec;
}

void __wrap_making_now(struct making *of, const char *spec);
void __wrap_making_now(struct making *of, const char *spec)
{
	assert_ptr_equal(of, &making);
	say("make:%s ", spec);
}

void __wrap_making_take(struct making *of, const struct loader_report *report);
void __wrap_making_take(struct making *of, const struct loader_report *report)
{
	assert_ptr_equal(of, &making);
	assert_non_null(report);
	say("making-takes ");
}

void __wrap_making_fail(struct making *of, const struct error *error);
void __wrap_making_fail(struct making *of, const struct error *error)
{
	assert_ptr_equal(of, &making);
	say("making-fails:%s ", error->code);
}

const Ringtail__V1__Catalog *__wrap_loader_catalog(const struct loader *loader);
const Ringtail__V1__Catalog *__wrap_loader_catalog(const struct loader *loader)
{
	(void)loader;
	return small_catalog_get();
}

unsigned __wrap_loader_rings(const struct loader *loader);
unsigned __wrap_loader_rings(const struct loader *loader)
{
	(void)loader;
	return RINGS;
}

const struct ring_handle *__wrap_loader_ring(const struct loader *loader, unsigned i);
const struct ring_handle *__wrap_loader_ring(const struct loader *loader, unsigned i)
{
	(void)loader;
	assert_true(i < RINGS);
	return &rings[i];
}

int __wrap_loader_ask_stats(struct loader *loader);
int __wrap_loader_ask_stats(struct loader *loader)
{
	(void)loader;
	say("stats ");
	return 0;
}

/* Subscribers that wait; whoever is refused or joins is one of these. */
void __wrap_subscribers_join(struct subscribers *all, const struct subscription *subscription);
void __wrap_subscribers_join(struct subscribers *all, const struct subscription *subscription)
{
	(void)all;
	say("join:%u ", subscription->index);
}

void __wrap_subscribers_refuse(struct subscribers *all, const struct subscription *subscription,
			       const struct error *error);
void __wrap_subscribers_refuse(struct subscribers *all, const struct subscription *subscription,
			       const struct error *error)
{
	say("refuse:%s:%s%s ", subscription ? subscription->filter_text : "all", error->code,
	    all->closed ? ":closed" : "");
}

void __wrap_subscribers_register_again(struct subscribers *all);
void __wrap_subscribers_register_again(struct subscribers *all)
{
	(void)all;
	say("register ");
}

/* It is live at once, as that subscription's. */
static struct subscription *joins;
static uint64_t queue_bytes_of_new;
static int join_refused;

int __wrap_subscribers_add(struct subscribers *all, struct subscriber *subscriber,
			   const struct subscribe_request *request, struct error *error);
int __wrap_subscribers_add(struct subscribers *all, struct subscriber *subscriber,
			   const struct subscribe_request *request, struct error *error)
{
	(void)request, (void)error;
	queue_bytes_of_new = all->maker.queue_bytes;
	subscriber->state = SUBSCRIBER_LIVE;
	subscriber->stream = TAILQ_FIRST(&joins->streams);
	return join_refused;
}

void __wrap_durable_poke(struct subscription *subscription);
void __wrap_durable_poke(struct subscription *subscription)
{
	say("poke:%u ", subscription->index);
}

void __wrap_durable_lose(struct durable *durable, const struct subscription *subscription);
void __wrap_durable_lose(struct durable *durable, const struct subscription *subscription)
{
	(void)durable;
	say("lose:%u ", subscription->index);
}

static int register_fails;

int __wrap_durable_register_relay(struct durable *durable, struct subscription *subscription, const uint64_t *at,
				  struct error *error);
int __wrap_durable_register_relay(struct durable *durable, struct subscription *subscription, const uint64_t *at,
				  struct error *error)
{
	(void)durable;
	say("relay:%u@%llu,%llu ", subscription->index, (unsigned long long)at[0], (unsigned long long)at[1]);
	return register_fails ? error_set(error, -register_fails, "no-room", "there is none") : 0;
}

int __wrap_durable_forget(struct durable *durable, const char *name, struct error *error);
int __wrap_durable_forget(struct durable *durable, const char *name, struct error *error)
{
	(void)durable;
	say("forget:%s ", name);
	return strcmp(name, "nobody") == 0 ? error_set(error, ENOENT, "no-such-consumer", "there is none") : 0;
}

static int keep_fails;
static struct durable *kept_by;

int __wrap_durable_keep(struct durable *durable, struct subscription *subscription, struct consumer *consumer,
			struct error *error);
int __wrap_durable_keep(struct durable *durable, struct subscription *subscription, struct consumer *consumer,
			struct error *error)
{
	(void)error;
	kept_by = durable;
	assert_null(consumer);
	say("keep:%u ", subscription->index);
	return keep_fails;
}

void __wrap_durable_each(const struct durable *durable,
			 void (*each)(void *context, const struct consumer_stat *stat), void *context);
void __wrap_durable_each(const struct durable *durable,
			 void (*each)(void *context, const struct consumer_stat *stat), void *context)
{
	(void)durable;
	each(context, NULL);
}

static struct spooler *const spooler = (struct spooler *)said;
static struct consumers *const consumers = (struct consumers *)said;

void __wrap_spooler_set_holder(struct spooler *of,
			       void (*holder)(void *context, spooler_name *name, void *name_context), void *context);
void __wrap_spooler_set_holder(struct spooler *of,
			       void (*holder)(void *context, spooler_name *name, void *name_context), void *context)
{
	assert_ptr_equal(of, spooler);
	assert_int_equal(holder == NULL, context == NULL);
	say(holder ? "holder " : "no-holder ");
}

void __wrap_consumers_set_saved(struct consumers *of, void (*saved)(void *context, int err), void *context);
void __wrap_consumers_set_saved(struct consumers *of, void (*saved)(void *context, int err), void *context)
{
	assert_ptr_equal(of, consumers);
	assert_int_equal(saved == NULL, context == NULL);
	say(saved ? "saved " : "no-saved ");
}

/* By their filters, which differ. */
static int save_fails;

int __wrap_saved_subscriptions_save(struct saved_subscriptions *saved, const struct subscription_request *request,
				    size_t requests);
int __wrap_saved_subscriptions_save(struct saved_subscriptions *saved, const struct subscription_request *request,
				    size_t requests)
{
	assert_non_null(saved);
	say("save:");
	for (size_t i = 0; i < requests; i++)
		say("[%s %s]", request[i].glob[0], request[i].filter);
	say(" ");
	return save_fails;
}

/* What the run before wanted: two of the small catalog, and one that it does not have. */
static int restore_error;
static bool nothing_made;		/* for want of memory */

int __real_subscription_create(const struct subscription_request *request, const Ringtail__V1__Catalog *catalog,
			       uint32_t n, uint64_t history_bytes, struct subscription **out, struct error *error);
int __wrap_subscription_create(const struct subscription_request *request, const Ringtail__V1__Catalog *catalog,
			       uint32_t n, uint64_t history_bytes, struct subscription **out, struct error *error);
int __wrap_subscription_create(const struct subscription_request *request, const Ringtail__V1__Catalog *catalog,
			       uint32_t n, uint64_t history_bytes, struct subscription **out, struct error *error)
{
	return nothing_made ? error_set(error, ENOMEM, "out-of-memory", "there is none") :
			      __real_subscription_create(request, catalog, n, history_bytes, out, error);
}

int __wrap_saved_subscriptions_restore(struct saved_subscriptions *saved, saved_subscription *each, void *context,
				       struct error *error);
int __wrap_saved_subscriptions_restore(struct saved_subscriptions *saved, saved_subscription *each, void *context,
				       struct error *error)
{
	static const char *const glob[] = {READS, "syscall:none:call", KILLS};

	(void)saved;
	for (unsigned i = 0; i < 3; i++) {
		struct subscription_request request = {.glob = &glob[i], .globs = 1, .filter = ""};

		assert_int_equal(each(context, &request), nothing_made ? -ENOMEM : 0);
	}
	return restore_error ? error_set(error, -restore_error, "saved-damaged", "it is damaged") : 0;
}

static struct spool *const spool = (struct spool *)&said[1];

void __wrap_spool_begin_ring(struct spool *of, uint32_t ring, uint64_t seq);
void __wrap_spool_begin_ring(struct spool *of, uint32_t ring, uint64_t seq)
{
	assert_ptr_equal(of, spool);
	say("spool-begins:%u:%llu ", ring, (unsigned long long)seq);
}

void __wrap_spool_set_recorded(struct spool *of, uint64_t realtime_ns);
void __wrap_spool_set_recorded(struct spool *of, uint64_t realtime_ns)
{
	assert_ptr_equal(of, spool);
	assert_true(realtime_ns > 0);
	say("spool-recorded ");
}

void __wrap_spool_set_always_on(struct spool *of, bool always_on);
void __wrap_spool_set_always_on(struct spool *of, bool always_on)
{
	assert_ptr_equal(of, spool);
	say("spool-always-on:%d ", always_on);
}

/* Of a spool that is none. */
enum loss_reason __wrap_spool_missing_reason(const struct spool *of);
enum loss_reason __wrap_spool_missing_reason(const struct spool *of)
{
	assert_null(of);
	return LOSS_REASON_RESTART;
}

void __wrap_spool_close(struct spool *of);
void __wrap_spool_close(struct spool *of)
{
	if (of)
		say("spool-closes ");
}

struct frame_ref *__real_frame_ref_pack(struct frame_codec *codec, enum frame_type type,
					const ProtobufCMessage *message);
struct frame_ref *__wrap_frame_ref_pack(struct frame_codec *codec, enum frame_type type,
					const ProtobufCMessage *message);
struct frame_ref *__wrap_frame_ref_pack(struct frame_codec *codec, enum frame_type type,
					const ProtobufCMessage *message)
{
	return marks_failing && marks_failing-- ? NULL : __real_frame_ref_pack(codec, type, message);
}

/* ---- The fixture ------------------------------------------------------------------------------- */

struct fixture {
	struct fanout *fanout;
	struct fanout_config config;
	struct subscriptions *all;
	struct event_base *base;
	struct mailbox mailbox;
	struct worker *workers[WORKERS];
	struct frame_codec *codec;
	uint64_t seq[RINGS];
};

static void on_failed(void *context)
{
	(void)context;
	say("failed ");
}

static void on_made(void *context)
{
	(void)context;
	say("made ");
}

static void on_stopped(void *context)
{
	say("stopped:%s ", (const char *)context);
}

static void on_wake(void *context)
{
	say("wake:%s ", (const char *)context);
}

static void on_log(enum log_level level, const char *code, const char *text)
{
	(void)level, (void)text;
	say("log:%s ", code);
}

static void open_all(struct fixture *f, uint64_t queue_bytes, bool durable)
{
	static const struct log_sink sink = {on_log, clock_monotonic};
	struct error error;

	log_set_sink(&sink);
	said[0] = '\0';
	now_ns = NS_PER_S;
	orders_failing = marks_failing = 0;
	keep_fails = join_refused = save_fails = restore_error = register_fails = 0;
	nothing_made = false;
	beats = 0;
	beats_each = 3;
	*f = (struct fixture){.base = event_base_new(), .codec = frame_codec_create(1)};
	assert_int_equal(mailbox_init(&f->mailbox), 0);
	for (unsigned i = 0; i < WORKERS; i++)
		f->workers[i] = &worker[i];
	f->config = (struct fanout_config){
		.base = f->base, .worker = f->workers, .workers = WORKERS, .mailbox = &f->mailbox,
		.codec = f->codec, .run = {.boot_id = "0123456789abcde", .epoch = 9},
		.history_bytes = 1 << 20, .history_age_ns = 10 * NS_PER_S, .queue_bytes = queue_bytes,
		.spooler = durable ? spooler : NULL, .consumers = durable ? consumers : NULL,
		.saved = (struct saved_subscriptions *)f, .made = on_made, .failed = on_failed,
	};
	assert_int_equal(fanout_create(&f->config, &f->fanout, &error), 0);
	f->all = (struct subscriptions *)((char *)recorder.config.wanted - offsetof(struct subscriptions, list));
}

static void close_all(struct fixture *f)
{
	struct subscription *subscription;

	TAILQ_FOREACH(subscription, &f->all->list, link)
		subscription->spool.spool = NULL;
	fanout_destroy(f->fanout);
	frame_codec_destroy(f->codec);
	mailbox_fini(&f->mailbox);
	event_base_free(f->base);
	log_set_sink(NULL);
}

static struct subscription *want(struct fixture *f, const char *glob, const char *filter)
{
	struct subscription_request request = {.glob = &glob, .globs = 1, .filter = filter};
	struct subscription *subscription;
	struct error error;

	assert_int_equal(subscriptions_get(f->all, &request, CLAIM_OWN, &subscription, &error), 0);
	return subscription;
}

static void run(struct fixture *f)
{
	event_base_loop(f->base, EVLOOP_NONBLOCK);
}

static void send_mail(struct fixture *f, const struct worker_mail *mail, const struct worker_position *position)
{
	struct worker_mail *mine = calloc(1, sizeof(*mine) + sizeof(*position));

	*mine = *mail;
	if (position) {
		mine->positions = 1;
		mine->position[0] = *position;
	}
	mailbox_send(&f->mailbox, &mine->mail);
}

static void send_kind(struct fixture *f, enum worker_mail_kind kind, unsigned from, uint32_t index)
{
	send_mail(f, &(struct worker_mail){.kind = kind, .worker = from, .subscription = index}, NULL);
}

/* Each worker begins its ring at 10 and 20. */
static void send_started(struct fixture *f, unsigned from, uint32_t index)
{
	send_mail(f, &(struct worker_mail){.kind = WORKER_STARTED, .worker = from, .subscription = index},
		  &(struct worker_position){.ring = from, .seq = 10 * (from + 1)});
}

static void send_time(struct fixture *f, unsigned from, uint64_t time_ns)
{
	send_mail(f, &(struct worker_mail){.kind = WORKER_WATERMARK, .worker = from, .time_ns = time_ns}, NULL);
}

static void send_frame(struct fixture *f, unsigned ring, uint32_t index, size_t bytes)
{
	struct frame_ref *frame = frame_ref_create(FRAME_BATCH, bytes);

	memset(frame->data, 0, bytes);
	frame->ring = ring;
	frame->cpu = rings[ring].cpu;
	frame->first_seq = f->seq[ring];
	frame->end_seq = f->seq[ring] += 5;
	frame->events = bytes ? 5 : 0;
	frame->skipped = bytes ? 0 : 5;
	send_mail(f, &(struct worker_mail){.kind = WORKER_FRAME, .worker = ring, .subscription = index,
					   .frame = frame}, NULL);
}

/* It is recorded, and each worker has begun with it. What that took is said elsewhere. */
static struct subscription *make_live(struct fixture *f, const char *glob, const char *filter)
{
	struct subscription *subscription = want(f, glob, filter);

	recorder.config.accepted(recorder.config.context, subscription);
	for (unsigned i = 0; i < WORKERS; i++) {
		send_started(f, i, subscription->index);
		f->seq[i] = 10 * (i + 1);
	}
	run(f);
	assert_int_equal(subscription->state, SUBSCRIPTION_LIVE);
	said[0] = '\0';
	return subscription;
}

static struct stream *join(struct fixture *f, struct subscription *subscription, struct subscriber *subscriber,
			   const char *name)
{
	static const uint32_t cpu_of[RINGS] = {3, 5};
	struct stream *stream = stream_create(subscription, f->codec, cpu_of, 1 << 20, NULL,
					      LOSS_REASON_UNKNOWN);

	assert_non_null(stream);
	*subscriber = (struct subscriber){.wake = on_wake, .context = (void *)name};
	stream->subscriber = subscriber;
	return stream;
}

/* As somebody should who is told so. */
static void look(struct fixture *f)
{
	f->all->config.check_soon(f->all->config.context);
	run(f);
}

/* ---- What is in a log -------------------------------------------------------------------------- */

static void say_watermark(const struct frame_ref *frame, const uint8_t *body, uint32_t bytes)
{
	Ringtail__V1__Watermark *message = ringtail__v1__watermark__unpack(NULL, bytes, body);

	assert_non_null(message);
	assert_int_equal(frame->time_ns, message->time_ns);
	assert_int_equal(frame->made_ns, now_ns);
	say("mark:%llu", (unsigned long long)message->time_ns);
	for (size_t i = 0; i < message->n_position; i++)
		say(",%u:%llu+%llu", message->position[i]->cpu, (unsigned long long)message->position[i]->seq,
		    (unsigned long long)message->position[i]->skipped);
	say(" ");
	ringtail__v1__watermark__free_unpacked(message, NULL);
}

static void say_bye(const uint8_t *body, uint32_t bytes)
{
	Ringtail__V1__Bye *message = ringtail__v1__bye__unpack(NULL, bytes, body);

	assert_non_null(message);
	assert_int_equal(message->end->epoch, 9);
	say("bye:%s%s", message->reason, message->final ? ":final" : "");
	for (size_t i = 0; i < message->end->n_position; i++)
		say(",%u:%llu", message->end->position[i]->cpu, (unsigned long long)message->end->position[i]->seq);
	say(" ");
	ringtail__v1__bye__free_unpacked(message, NULL);
}

static void say_log(struct fixture *f, const struct subscription *subscription)
{
	for (uint64_t i = frame_log_first(subscription->log); i < frame_log_end(subscription->log); i++) {
		const struct frame_ref *frame = frame_log_get(subscription->log, i);
		struct frame_header header;
		uint8_t raw[1024];
		const uint8_t *body;

		if (frame_ref_is_range(frame)) {
			say("%llu-%llu@%u ", (unsigned long long)frame->first_seq,
			    (unsigned long long)frame->end_seq, frame->ring);
			continue;
		}
		assert_int_equal(frame_parse_header(frame->data, frame->bytes, sizeof(raw), &header), FRAME_OK);
		assert_int_equal(frame_open(f->codec, frame->data, &header, raw, &body), FRAME_OK);
		if (frame->type == FRAME_WATERMARK)
			say_watermark(frame, body, header.raw_bytes);
		else
			say_bye(body, header.raw_bytes);
	}
}

/* ---- From a wish to a log ---------------------------------------------------------------------- */

static void test_each_step_to_a_log(void **state)
{
	struct subscription *subscription;
	struct fixture f;

	(void)state;
	open_all(&f, 1 << 20, true);
	expect_said("holder saved ");
	subscription = want(&f, READS, "pid == 1");
	assert_ptr_equal(want(&f, READS, "pid == 1"), subscription);
	expect_said("make:" READS " change make:" READS " ");
	assert_int_equal(subscription->index, 0);
	assert_int_equal(subscription->generation, 1);
	subscription->spool.spool = spool;
	/* The second order finds no memory, and then not again. */
	orders_failing = 0;
	recorder.config.accepted(recorder.config.context, subscription);
	expect_said("0:add@0 0:add@1 ");
	send_started(&f, 0, 0);
	run(&f);
	assert_int_equal(subscription->state, SUBSCRIPTION_STARTING);
	expect_said("spool-begins:0:10 took@0:0 ");
	now_ns += 7;
	send_started(&f, 1, 0);
	run(&f);
	expect_said("spool-begins:1:20 spool-recorded joined save:[" READS " pid == 1] join:0 took@1:0 ");
	assert_int_equal(subscription->state, SUBSCRIPTION_LIVE);
	assert_int_equal(reach_recorded_ns(subscription->reach), now_ns);
	assert_int_equal(reach_seq(subscription->reach, now_ns, 1), 20);
	assert_int_equal(subscription->linger_until_ns, now_ns + 10 * NS_PER_S);
	assert_int_equal(subscription->origin, SUBSCRIPTION_NEW);
	/* Nobody wants it: it is given up when its time is over, and not before. */
	now_ns += 10 * NS_PER_S - 1;
	look(&f);
	expect_said("poke:0 register stats ");
	now_ns++;
	look(&f);
	expect_said("poke:0 register stats 0:remove@0 0:remove@1 change ");
	look(&f);
	expect_said("poke:0 register stats ");
	send_kind(&f, WORKER_REMOVED, 1, 0);
	send_kind(&f, WORKER_REMOVED, 0, 0);
	run(&f);
	subscription = NULL;
	expect_said("took@1:0 lose:0 spool-closes save: took@0:0 ");
	assert_null(subscriptions_at(f.all, 0));
	assert_null(subscriptions_at(f.all, SUBSCRIPTIONS_MAX));
	/* What comes now of the same numbers is one of which it was said already where it stood still. */
	subscription = make_live(&f, READS, "pid == 1");
	assert_int_equal(subscription->origin, SUBSCRIPTION_REBORN);
	subscription = make_live(&f, KILLS, "");
	assert_int_equal(subscription->index, 1);
	close_all(&f);
	expect_said("no-holder no-saved ");
}

/* An attempt further on either ring, and numbers did not stand still. */
static void test_reborn_where_every_ring_stood_still(void **state)
{
	struct subscription *subscription;
	struct fixture f;

	(void)state;
	for (unsigned moved = 0; moved < 3; moved++) {
		open_all(&f, 1 << 20, false);
		for (unsigned i = 0; i < 2; i++) {
			subscription = make_live(&f, READS, i ? "pid == 1" : "pid == 2");
			/* Those that go are known by the furthest of each ring. */
			subscription->position[0] = i ? 15 : 30;
			subscription->position[1] = 40;
			subscription->linger_until_ns = 0;
			look(&f);
			send_kind(&f, WORKER_REMOVED, 0, subscription->index);
			send_kind(&f, WORKER_REMOVED, 1, subscription->index);
			run(&f);
		}
		subscription = want(&f, KILLS, "");
		recorder.config.accepted(recorder.config.context, subscription);
		for (unsigned i = 0; i < WORKERS; i++)
			send_mail(&f, &(struct worker_mail){.kind = WORKER_STARTED, .worker = i},
				  &(struct worker_position){.ring = i,
							    .seq = (i ? 40 : 30) + (moved == i + 1)});
		run(&f);
		assert_int_equal(subscription->state, SUBSCRIPTION_LIVE);
		assert_int_equal(subscription->origin, moved ? SUBSCRIPTION_NEW : SUBSCRIPTION_REBORN);
		close_all(&f);
	}
}

/* Others may have gone in the run before, where its rings stand: it was not recorded, and no number says so. */
static void test_reborn_where_the_run_before_ended(void **state)
{
	struct subscription *subscription;
	struct error error;
	struct fixture f;

	(void)state;
	for (unsigned moved = 0; moved < 3; moved++) {
		open_all(&f, 1 << 20, false);
		assert_int_equal(fanout_adopt(f.fanout, &error), 0);
		subscription = want(&f, READS, "");
		recorder.config.accepted(recorder.config.context, subscription);
		for (unsigned i = 0; i < WORKERS; i++)
			send_mail(&f, &(struct worker_mail){.kind = WORKER_STARTED, .worker = i},
				  &(struct worker_position){.ring = i, .seq = 100 + i + (moved == i + 1)});
		run(&f);
		assert_int_equal(subscription->origin, moved ? SUBSCRIPTION_NEW : SUBSCRIPTION_REBORN);
		close_all(&f);
	}
}

/* Orders that find no memory are given again, each once, and counted. */
static void test_orders_without_memory(void **state)
{
	uint64_t delayed = counter_read(COUNTER_orders_delayed);
	struct subscription *subscription;
	struct fixture f;

	(void)state;
	open_all(&f, 1 << 20, false);
	expect_said("");
	subscription = want(&f, READS, "");
	orders_failing = 2;
	recorder.config.accepted(recorder.config.context, subscription);
	look(&f);
	look(&f);
	expect_said("make:" READS " change 0:add@0! poke:0 0:add@0! register stats poke:0 0:add@0 0:add@1 register stats ");
	assert_int_equal(counter_read(COUNTER_orders_delayed), delayed + 2);
	send_started(&f, 0, 0);
	send_started(&f, 1, 0);
	run(&f);
	expect_said("took@0:0 joined save:[" READS " ] join:0 took@1:0 ");
	subscription->linger_until_ns = 0;
	orders_failing = 1;
	look(&f);
	look(&f);
	expect_said("poke:0 register stats 0:remove@0! change poke:0 0:remove@0 0:remove@1 register stats ");
	assert_int_equal(counter_read(COUNTER_orders_delayed), delayed + 3);
	close_all(&f);
	expect_said("");
}

/* Whom the kernel refuses is told so first, and is forgotten; what is kept for the next run says so. */
static void test_refused(void **state)
{
	struct subscription *subscription;
	struct error error;
	struct fixture f;

	(void)state;
	open_all(&f, 1 << 20, false);
	make_live(&f, KILLS, "");
	subscription = want(&f, READS, "pid == 1");
	said[0] = '\0';
	error_set(&error, EPERM, "refused", "it cannot");
	recorder.config.refused(recorder.config.context, subscription, &error);
	expect_said("refuse:pid == 1:refused lose:1 save:[" KILLS " ] ");
	/* One that cannot be saved is said, and goes on. */
	save_fails = -EIO;
	subscription = want(&f, READS, "pid == 1");
	recorder.config.refused(recorder.config.context, subscription, &error);
	expect_said("make:" READS " change refuse:pid == 1:refused lose:1 save:[" KILLS " ] log:subscriptions-not-saved ");
	close_all(&f);
}

/* ---- Mails ------------------------------------------------------------------------------------- */

/* Who sends is woken once for a round; and before what waits is half of what may wait. */
static void test_woken_before_half_of_a_queue(void **state)
{
	struct subscriber subscriber[2];
	struct subscription *subscription;
	struct stream *stream[2];
	struct fixture f;

	(void)state;
	open_all(&f, 1000, false);
	subscription = make_live(&f, READS, "");
	for (unsigned i = 0; i < 2; i++)
		stream[i] = join(&f, subscription, &subscriber[i], i ? "b" : "a");
	stream[1]->subscriber = NULL;
	send_frame(&f, 0, 0, 200);
	send_frame(&f, 1, 0, 300);
	run(&f);
	expect_said("took@0:200 took@1:300 wake:a ");
	send_frame(&f, 0, 0, 300);
	send_frame(&f, 0, 0, 201);
	send_frame(&f, 0, 0, 299);
	send_frame(&f, 1, 0, 1);
	run(&f);
	expect_said("took@0:300 wake:a took@0:201 took@0:299 wake:a took@1:1 wake:a ");
	/* One that is larger than that by itself wakes nobody before it if there is nothing to take. */
	send_frame(&f, 0, 0, 600);
	send_frame(&f, 0, 0, 600);
	run(&f);
	expect_said("took@0:600 wake:a took@0:600 wake:a ");
	/* And those that ended or are not known any more are nobody's. */
	send_frame(&f, 0, 7, 100);
	subscription->state = SUBSCRIPTION_REMOVING;
	send_frame(&f, 0, 0, 100);
	run(&f);
	expect_said("took@0:100 took@0:100 ");
	/* Half of a large queue is more than a turn sends: that is the bound then. */
	subscription->state = SUBSCRIPTION_LIVE;
	fanout_set_bounds(f.fanout, 1 << 20, 1, 64ull << 20, 0);
	send_frame(&f, 0, 0, SEND_TURN_BYTES - 1);
	send_frame(&f, 0, 0, 1);
	send_frame(&f, 0, 0, 1);
	run(&f);
	say("%u ", SEND_TURN_BYTES - 1);
	assert_non_null(strstr(said, " took@0:1 wake:a took@0:1 wake:a "));
	for (unsigned i = 0; i < 2; i++)
		stream_destroy(stream[i]);
	close_all(&f);
}

/* What finds no memory waits, with all behind it, for the next mail or look, and is taken once, in order. */
static void test_mails_without_memory(void **state)
{
	struct subscriber subscriber;
	struct subscription *subscription;
	struct stream *stream;
	struct fixture f;

	(void)state;
	open_all(&f, 1 << 20, false);
	subscription = make_live(&f, READS, "");
	stream = join(&f, subscription, &subscriber, "a");
	send_frame(&f, 0, 0, 0);
	send_frame(&f, 1, 0, 0);
	send_frame(&f, 0, 0, 0);
	send_frame(&f, 1, 0, 100);
	send_frame(&f, 0, 0, 100);
	send_time(&f, 0, 77);
	marks_failing = 3;
	run(&f);
	expect_said("took@0:0 took@1:0 took@0:0 wake:a ");
	look(&f);
	expect_said("poke:0 register stats ");
	send_frame(&f, 1, 0, 50);
	run(&f);
	expect_said("");
	send_time(&f, 1, 99);
	run(&f);
	expect_said("took@1:100 took@0:100 took@0:0 took@1:50 took@1:0 wake:a ");
	say_log(&f, subscription);
	expect_said("10-15@0 20-25@1 15-20@0 mark:0,3:20+10,5:25+5 25-30@1 20-25@0 "
		    "mark:0,3:25+0,5:30+0 30-35@1 mark:77,3:25+0,5:35+0 ");
	stream_destroy(stream);
	close_all(&f);
}

/* Where a ring begins behind what the disk has, that is a gap of this ring, and on its way to the disk. */
static void test_gap_before_the_run(void **state)
{
	struct subscription *subscription;
	struct fixture f;

	(void)state;
	open_all(&f, 1 << 20, false);
	subscription = want(&f, READS, "");
	subscription->spool.end = calloc(RINGS, sizeof(*subscription->spool.end));
	subscription->spool.end[1] = 15;
	recorder.config.accepted(recorder.config.context, subscription);
	send_started(&f, 0, 0);
	send_started(&f, 1, 0);
	run(&f);
	said[0] = '\0';
	say_log(&f, subscription);
	expect_said("15-20@1 ");
	assert_true(subscription->begins_late);
	for (unsigned i = 0; i < RINGS; i++) {
		assert_int_equal(subscription->floor[i], i ? 15 : 10);
		assert_int_equal(subscription->position[i], i ? 20 : 10);
	}
	close_all(&f);
}

static void on_wake_leave(void *context)
{
	struct stream **stream = context;

	say("leaves ");
	stream_destroy(*stream);
	*stream = NULL;
}

/* Whoever is woken may go, and its stream with it: the others are woken all the same. */
static void test_who_is_woken_may_go(void **state)
{
	struct subscription *subscription;
	struct subscriber subscriber[3];
	struct stream *stream[3];
	struct fixture f;

	(void)state;
	open_all(&f, 1 << 20, false);
	subscription = make_live(&f, READS, "");
	for (unsigned i = 0; i < 3; i++) {
		stream[i] = join(&f, subscription, &subscriber[i], "c");
		if (i < 2)
			subscriber[i] = (struct subscriber){.wake = on_wake_leave, .context = &stream[i]};
	}
	send_frame(&f, 0, 0, 10);
	run(&f);
	expect_said("took@0:10 leaves leaves wake:c ");
	stream_destroy(stream[2]);
	close_all(&f);
}

static void test_corrupt_ring_is_told_by_its_cpu(void **state)
{
	struct fixture f;

	(void)state;
	open_all(&f, 1 << 20, false);
	send_mail(&f, &(struct worker_mail){.kind = WORKER_CORRUPT, .worker = 1, .ring = 1}, NULL);
	run(&f);
	expect_said("log:ring-corrupt took@1:0 ");
	/* What is never taken is freed with the rest: for a checker of memory. */
	make_live(&f, READS, "");
	send_frame(&f, 0, 0, 0);
	send_frame(&f, 0, 0, 10);
	send_frame(&f, 0, 0, 10);
	marks_failing = 1;
	run(&f);
	expect_said("took@0:0 ");
	close_all(&f);
}

/* ---- The end ----------------------------------------------------------------------------------- */

/* All that the rings hold is out: each live log ends with the last word, once, and whoever waits is told. */
static void test_source_ends_then_stops(void **state)
{
	uint64_t delayed = counter_read(COUNTER_orders_delayed);
	struct subscription *live, *starting;
	struct subscriber subscriber;
	struct stream *stream;
	struct fixture f;

	(void)state;
	open_all(&f, 1 << 20, false);
	live = make_live(&f, READS, "");
	probe_set_add(&live->spec.probes, RT_PROBE_PROCESS_MAP);
	stream = join(&f, live, &subscriber, "a");
	starting = want(&f, KILLS, "");
	recorder.config.accepted(recorder.config.context, starting);
	said[0] = '\0';
	orders_failing = 1;
	recorder.config.silent(recorder.config.context);
	recorder.config.silent(recorder.config.context);
	look(&f);
	assert_int_equal(counter_read(COUNTER_orders_delayed), delayed + 1);
	expect_said("empty@1! poke:0 poke:1 empty@1 empty@0 register stats ");
	send_frame(&f, 0, 0, 10);
	send_kind(&f, WORKER_EMPTIED, 0, 0);
	run(&f);
	expect_said("took@0:10 took@0:0 wake:a ");
	send_kind(&f, WORKER_EMPTIED, 1, 0);
	run(&f);
	expect_said("took@1:0 wake:a ");
	say_log(&f, live);
	expect_said("10-15@0 bye:the source has ended:final,3:15,5:20 ");
	/* Nothing comes behind it: no place, and no late frame. */
	send_time(&f, 0, 99);
	send_frame(&f, 0, 0, 10);
	run(&f);
	expect_said("took@0:0 took@0:10 ");
	assert_int_equal(frame_log_end(live->log), 2);
	/* Who is live only now has the last word, too; and maps are asked of nobody any more. */
	probe_set_add(&starting->spec.probes, RT_PROBE_PROCESS_MAP);
	send_started(&f, 0, 1);
	send_started(&f, 1, 1);
	run(&f);
	expect_said("took@0:0 joined save:[" READS " ][" KILLS " ] join:1 took@1:0 wake:a ");
	say_log(&f, starting);
	expect_said("bye:the source has ended:final,3:10,5:20 ");
	fanout_stop(f.fanout, "enough", on_stopped, (void *)"now");
	expect_said("refuse:all:shutting-down stop ");
	recorder.config.silent(recorder.config.context);
	send_kind(&f, WORKER_EMPTIED, 0, 0);
	send_kind(&f, WORKER_EMPTIED, 1, 0);
	run(&f);
	expect_said("empty@1 empty@0 took@0:0 stopped:now took@1:0 ");
	/* As after a second one, which nobody waits for. */
	recorder.config.silent(recorder.config.context);
	send_kind(&f, WORKER_EMPTIED, 0, 0);
	send_kind(&f, WORKER_EMPTIED, 1, 0);
	run(&f);
	expect_said("empty@1 empty@0 took@0:0 took@1:0 ");
	assert_int_equal(frame_log_end(live->log), 2);
	stream_destroy(stream);
	close_all(&f);
}

static void on_permanent(void *context, const struct error *error)
{
	say("%s:%s ", (const char *)context, error ? error->code : "in-force");
}

static int set_permanent(struct fixture *f, const char *glob, const char *name)
{
	struct subscription_request request = {.glob = &glob, .globs = 1, .filter = ""};
	struct error error;
	int err = fanout_set_permanent(f->fanout, glob ? &request : NULL, on_permanent, (void *)name, &error);

	if (err)
		say("%s:%s ", name, err == -ENOSPC ? "not-kept" : error.code);
	return err;
}

/* While it stops nobody is taken in, nothing is saved, no change comes through, and the end has its reason. */
static void test_stops(void **state)
{
	struct subscription *live, *starting, *late;
	struct fixture f;

	(void)state;
	for (unsigned hands_over = 0; hands_over < 2; hands_over++) {
		open_all(&f, 1 << 20, false);
		late = want(&f, READS, "pid == 9");
		recorder.config.accepted(recorder.config.context, late);
		live = make_live(&f, READS, "");
		probe_set_add(&live->spec.probes, RT_PROBE_PROCESS_MAP);
		set_permanent(&f, KILLS, "kills");
		expect_said("make:" KILLS " change keep:2 ");
		starting = f.all->permanent.next;
		recorder.config.accepted(recorder.config.context, starting);
		said[0] = '\0';
		if (hands_over) {
			orders_failing = 1;
			fanout_hand_over(f.fanout, "a new one", on_stopped, (void *)"over");
			expect_said("leave refuse:all:shutting-down kills:shutting-down leave@0! leave@1 ");
			send_frame(&f, 0, 1, 10);
		} else {
			fanout_stop(f.fanout, "enough", on_stopped, (void *)"over");
			expect_said("refuse:all:shutting-down kills:shutting-down stop ");
			send_frame(&f, 0, 1, 10);
			run(&f);
			expect_said("took@0:10 ");
			recorder.config.silent(recorder.config.context);
			expect_said("empty@1 empty@0 ");
			send_kind(&f, WORKER_EMPTIED, 0, 0);
		}
		assert_int_equal(set_permanent(&f, NULL, "none"), -ESHUTDOWN);
		send_started(&f, 0, 2);
		send_started(&f, 1, 2);
		send_kind(&f, WORKER_EMPTIED, 1, 0);
		run(&f);
		assert_non_null(strstr(said, "none:shutting-down "));
		assert_null(strstr(said, "save:"));
		assert_non_null(strstr(said, "stopped:over "));
		said[0] = '\0';
		say_log(&f, live);
		say_log(&f, starting);
		assert_string_equal(strchr(said, ' ') + 1, hands_over ?
				    "bye:a new one,3:15,5:20 bye:a new one,3:10,5:20 " :
				    "bye:enough,3:15,5:20 bye:enough,3:10,5:20 ");
		said[0] = '\0';
		assert_int_equal(set_permanent(&f, NULL, "none"), -ESHUTDOWN);
		/* Who is live only when all is over. */
		send_started(&f, 0, 0);
		send_started(&f, 1, 0);
		run(&f);
		said[0] = '\0';
		say_log(&f, late);
		expect_said(hands_over ? "bye:a new one,3:10,5:20 " : "bye:enough,3:10,5:20 ");
		close_all(&f);
	}
}

/* A worker that cannot be told to leave its rings is not waited for. */
static void test_hands_over_without_memory(void **state)
{
	struct fixture f;

	(void)state;
	for (unsigned failing = 0; failing <= WORKERS; failing++) {
		open_all(&f, 1 << 20, false);
		orders_failing = failing;
		fanout_hand_over(f.fanout, "a new one", on_stopped, (void *)"over");
		for (unsigned i = failing; i < WORKERS; i++) {
			assert_null(strstr(said, "stopped:"));
			send_kind(&f, WORKER_EMPTIED, i, 0);
			run(&f);
		}
		assert_non_null(strstr(said, "stopped:over "));
		close_all(&f);
	}
}

/* The loader is gone: who waits for what is made, for a subscription, for a change, in this order. */
static void test_loader_is_gone(void **state)
{
	struct error error;
	struct fixture f;

	(void)state;
	open_all(&f, 1 << 20, false);
	set_permanent(&f, KILLS, "kills");
	said[0] = '\0';
	error_set(&error, EPIPE, "loader-gone", "it is gone");
	recorder.config.gone(recorder.config.context, &error);
	expect_said("making-fails:loader-gone made refuse:all:loader-gone kills:loader-gone ");
	recorder.config.failed(recorder.config.context);
	recorder.config.made(recorder.config.context, &(struct loader_report){.event = LOADER_MADE});
	expect_said("failed making-takes made ");
	close_all(&f);
}

/* ---- What is always on -------------------------------------------------------------------------- */

/* The old goes once the new is live; who asked is told once the kernel has done both; one change at a time. */
static void test_what_is_always_on_changes(void **state)
{
	struct subscription *reads, *kills;
	struct error error;
	struct fixture f;

	(void)state;
	open_all(&f, 1 << 20, false);
	set_permanent(&f, READS, "reads");
	assert_int_equal(set_permanent(&f, KILLS, "kills"), -EBUSY);
	expect_said("make:" READS " change keep:0 kills:too-many-changes ");
	reads = f.all->permanent.next;
	recorder.config.in_force(recorder.config.context, 1);
	expect_said("");			/* it is not live */
	recorder.config.accepted(recorder.config.context, reads);
	recorder.in_force = 1;
	send_started(&f, 0, 0);
	send_started(&f, 1, 0);
	run(&f);
	expect_said("0:add@0 0:add@1 took@0:0 reads:in-force joined save:[" READS " ] join:0 took@1:0 ");
	assert_true(reads->permanent);
	assert_int_equal(reads->linger_until_ns, 0);
	now_ns += 100 * NS_PER_S;
	look(&f);
	expect_said("poke:0 register stats ");
	/* The next. */
	reads->spool.spool = spool;
	set_permanent(&f, KILLS, "kills");
	kills = f.all->permanent.next;
	recorder.config.accepted(recorder.config.context, kills);
	expect_said("make:" KILLS " change keep:1 1:add@0 1:add@1 ");
	assert_true(reads->permanent && kills->permanent);
	recorder.in_force = 2;
	send_started(&f, 0, 1);
	send_started(&f, 1, 1);
	run(&f);
	expect_said("took@0:0 spool-always-on:0 0:remove@0 0:remove@1 change joined save:[" KILLS " ] join:1 took@1:0 ");
	assert_false(reads->permanent);
	recorder.config.in_force(recorder.config.context, 2);
	expect_said("");
	recorder.config.in_force(recorder.config.context, 3);
	expect_said("kills:in-force ");
	recorder.config.in_force(recorder.config.context, 3);
	expect_said("");
	reads->spool.spool = NULL;
	send_kind(&f, WORKER_REMOVED, 0, 0);
	send_kind(&f, WORKER_REMOVED, 1, 0);
	run(&f);
	said[0] = '\0';
	/* Refused: what was stays. */
	set_permanent(&f, READS, "reads");
	error_set(&error, EPERM, "refused", "it cannot");
	recorder.config.refused(recorder.config.context, f.all->permanent.next, &error);
	expect_said("make:" READS " change keep:0 refuse::refused lose:0 save:[" KILLS " ] reads:refused ");
	assert_true(kills->permanent && !f.all->permanent.next);
	/* Another's refusal is not the change's. */
	set_permanent(&f, READS, "reads");
	recorder.config.refused(recorder.config.context, want(&f, READS, "pid == 1"), &error);
	expect_said("make:" READS " change keep:0 make:" READS " change refuse:pid == 1:refused lose:2 save:[" KILLS " ] ");
	recorder.config.refused(recorder.config.context, f.all->permanent.next, &error);
	said[0] = '\0';
	/* One that cannot be kept on disk is none. */
	keep_fails = -ENOSPC;
	assert_int_equal(set_permanent(&f, KILLS, "kills"), -ENOSPC);
	expect_said("make:" KILLS " keep:1 kills:not-kept ");
	/* And none. */
	assert_int_equal(set_permanent(&f, NULL, "none"), 0);
	expect_said("1:remove@0 1:remove@1 change ");
	recorder.config.in_force(recorder.config.context, recorder.newest);
	expect_said("none:in-force ");
	close_all(&f);
}

/* Of a daemon that dials a relay. */
static void open_agent(struct fixture *f)
{
	struct error error;

	open_all(f, 1 << 20, false);
	fanout_destroy(f->fanout);
	f->config.dials_relay = true;
	assert_int_equal(fanout_create(&f->config, &f->fanout, &error), 0);
	f->all = (struct subscriptions *)((char *)recorder.config.wanted - offsetof(struct subscriptions, list));
}

/*
 * What is always on is the relay's from where it begins, of which another worker may have sent some already; else
 * from where it is; and again and again, for it may not have been possible before. That is in the log once.
 */
static void test_always_on_is_the_relays(void **state)
{
	const struct client_identity identity[] = {{.proof = IDENTITY_USER}, {.proof = IDENTITY_RELAY}};
	struct subscribe_request request = {.consumer = CONSUMER_RELAY};
	struct subscriber subscriber = {0};
	struct subscription *reads;
	struct stream *stream;
	struct error error;
	struct fixture f;

	(void)state;
	open_agent(&f);
	make_live(&f, KILLS, "");
	set_permanent(&f, READS, "reads");
	reads = f.all->permanent.next;
	look(&f);
	recorder.config.accepted(recorder.config.context, reads);
	send_started(&f, 0, reads->index);
	run(&f);
	assert_null(strstr(said, "relay:"));		/* it is not recorded yet */
	said[0] = '\0';
	reads->position[0] += 5;
	send_started(&f, 1, reads->index);
	run(&f);
	assert_non_null(strstr(said, "relay:1@10,20 join:1 "));
	said[0] = '\0';
	look(&f);
	expect_said("poke:0 poke:1 register relay:1@15,20 stats ");
	recorder.in_force = recorder.newest + 9;
	recorder.config.in_force(recorder.config.context, recorder.newest);
	said[0] = '\0';
	set_permanent(&f, READS, "again");
	expect_said("make:" READS " keep:1 again:in-force relay:1@15,20 ");
	assert_int_equal(fanout_forget_consumer(f.fanout, "nobody", &error), -ENOENT);
	assert_int_equal(fanout_forget_consumer(f.fanout, CONSUMER_RELAY, &error), 0);
	expect_said("forget:nobody forget:relay relay:1@15,20 ");
	joins = reads;
	for (unsigned i = 0; i < 2; i++) {
		stream = join(&f, reads, &subscriber, "a");
		said[0] = '\0';
		subscriber.identity = &identity[i];
		assert_int_equal(fanout_subscribe(f.fanout, &subscriber, &request, &error), 0);
		expect_said(i ? "relay:1@15,20 " : "");
		stream_destroy(stream);
	}
	register_fails = -ENOSPC;
	look(&f);
	assert_non_null(strstr(said, "log:relay-unregistered "));
	said[0] = '\0';
	look(&f);
	assert_non_null(strstr(said, "relay:1@15,20 "));
	assert_null(strstr(said, "log:"));
	register_fails = 0;
	look(&f);
	register_fails = -ENOSPC;
	look(&f);
	assert_non_null(strstr(said, "log:relay-unregistered "));
	said[0] = '\0';
	set_permanent(&f, NULL, "none");
	said[0] = '\0';
	look(&f);
	assert_null(strstr(said, "relay:"));
	close_all(&f);
}

/* What a client has asked for becomes what is always on, is so again, and is not any more. */
static void test_what_is_there_is_always_on(void **state)
{
	struct subscription *reads;
	struct fixture f;

	(void)state;
	open_all(&f, 1 << 20, false);
	reads = make_live(&f, READS, "");
	reads->spool.spool = spool;
	recorder.in_force = recorder.newest + 3;
	for (unsigned i = 0; i < 2; i++) {
		set_permanent(&f, READS, "reads");
		expect_said("make:" READS " keep:0 reads:in-force ");
		assert_true(reads->permanent && !f.all->permanent.next);
	}
	recorder.in_force = recorder.newest;
	set_permanent(&f, NULL, "none");
	expect_said("spool-always-on:0 0:remove@0 0:remove@1 change ");
	recorder.config.in_force(recorder.config.context, recorder.newest + 1);
	expect_said("none:in-force ");
	close_all(&f);
}

/* Who may come back for it is waited for, whenever that is. */
static void test_what_consumers_need_stays(void **state)
{
	struct subscription *reads;
	struct fixture f;

	(void)state;
	open_all(&f, 1 << 20, false);
	reads = make_live(&f, READS, "");
	reads->consumers = 1;
	now_ns += 1000 * NS_PER_S;
	look(&f);
	expect_said("poke:0 register stats ");
	reads->consumers = 0;
	look(&f);
	expect_said("poke:0 register stats 0:remove@0 0:remove@1 change ");
	close_all(&f);
}

/* ---- When it looks ------------------------------------------------------------------------------ */

/* With a mail, if one comes in time; a mail that comes soon after a look is no reason for another. */
static void test_looks_with_a_mail(void **state)
{
	struct fixture f;

	(void)state;
	open_all(&f, 1 << 20, false);
	make_live(&f, READS, "");
	now_ns += NS_PER_S / 2;
	send_time(&f, 0, now_ns);
	run(&f);
	expect_said("took@0:0 ");
	now_ns += NS_PER_S / 2;
	send_time(&f, 0, now_ns);
	run(&f);
	expect_said("took@0:0 poke:0 register stats ");
	send_time(&f, 0, now_ns);
	run(&f);
	expect_said("took@0:0 ");
	close_all(&f);
}

/* The timer of the checks is set for ever: where it cannot be put off, it still comes. */
static void test_looks_without_memory_for_a_timer(void **state)
{
	struct fixture f;
	int timers;

	(void)state;
	open_all(&f, 1 << 20, false);
	make_live(&f, READS, "");
	timers = event_base_get_num_events(f.base, EVENT_BASE_COUNT_ADDED);
	timers_fail = true;
	for (unsigned i = 0; i < 3; i++) {
		look(&f);
		expect_said("poke:0 register stats ");
		assert_int_equal(event_base_get_num_events(f.base, EVENT_BASE_COUNT_ADDED), timers);
	}
	timers_fail = false;
	close_all(&f);
}

/* The loader is not asked each time where the workers only came to say that nothing happened. */
static void test_idle_asks_seldom(void **state)
{
	struct fixture f;

	(void)state;
	open_all(&f, 1 << 20, false);
	make_live(&f, READS, "");
	look(&f);
	expect_said("poke:0 register stats ");
	beats_each = 0;
	look(&f);
	expect_said("poke:0 register stats ");
	for (unsigned s = 0; s < 4; s++) {
		now_ns += NS_PER_S;
		look(&f);
		expect_said("poke:0 register ");
	}
	now_ns += NS_PER_S;
	look(&f);
	expect_said("poke:0 register stats ");
	now_ns += NS_PER_S;
	beats_each = 3;
	look(&f);
	expect_said("poke:0 register stats ");
	close_all(&f);
}

/* ---- What is only passed on ---------------------------------------------------------------------- */

static void on_consumer(void *context, const struct consumer_stat *stat)
{
	assert_null(stat);
	say("consumer:%s ", (const char *)context);
}

static void test_passed_on(void **state)
{
	const struct redaction *redaction = (const struct redaction *)said;
	struct subscriber subscriber;
	struct stream *stream;
	struct fixture f;

	(void)state;
	open_all(&f, 1 << 20, false);
	fanout_make_now(f.fanout, READS);
	fanout_forget_stuck(f.fanout);
	assert_null(fanout_redaction(f.fanout));
	fanout_set_redaction(f.fanout, redaction);
	assert_ptr_equal(fanout_redaction(f.fanout), redaction);
	fanout_set_redaction(f.fanout, NULL);
	fanout_each_consumer(f.fanout, on_consumer, (void *)"x");
	expect_said("make:" READS " forget-stuck hide-comm:1 hide-texts:1 hide-comm:0 hide-texts:0 consumer:x ");
	/* Frames off the disk: who sends the stream is woken, but not from inside the reader. */
	stream = join(&f, make_live(&f, READS, ""), &subscriber, "a");
	set_permanent(&f, READS, "reads");
	said[0] = '\0';
	kept_by->read(kept_by->context);
	expect_said("");
	run(&f);
	expect_said("wake:a ");
	stream_destroy(stream);
	close_all(&f);
}

/* ---- The run before ----------------------------------------------------------------------------- */

/* What it wanted begins with the first attempt that was not read; what cannot be made is said. */
static void test_from_the_run_before(void **state)
{
	struct subscription *subscription;
	struct error error;
	struct fixture f;

	(void)state;
	for (unsigned damaged = 0; damaged < 2; damaged++) {
		open_all(&f, 1 << 20, false);
		restore_error = damaged ? -EBADMSG : 0;
		assert_int_equal(fanout_restore(f.fanout, &error), 0);
		expect_said(damaged ? "hold make:" READS " change make:syscall:none:call log:unknown-probe make:" KILLS
				      " change log:saved-damaged " :
				      "hold make:" READS " change make:syscall:none:call log:unknown-probe make:" KILLS
				      " change ");
		TAILQ_FOREACH(subscription, &f.all->list, link)
			assert_int_equal(subscription->origin, SUBSCRIPTION_RESTORED);
		want(&f, READS, "pid == 1");
		said[0] = '\0';
		assert_int_equal(fanout_adopt(f.fanout, &error), 0);
		expect_said("0:adopt@0 0:adopt@1 joined save:[" READS " ] join:0 "
			    "1:adopt@0 1:adopt@1 joined save:[" READS " ][" KILLS " ] join:1 resume ");
		TAILQ_FOREACH(subscription, &f.all->list, link) {
			bool restored = subscription->origin == SUBSCRIPTION_RESTORED;

			assert_int_equal(restored, subscription->index < 2);
			assert_int_equal(subscription->state == SUBSCRIPTION_LIVE, restored);
			for (unsigned i = 0; i < RINGS; i++)
				assert_int_equal(subscription->position[i], restored ? 100 + i : 0);
		}
		close_all(&f);
	}
	/* Without memory it is not gone on with. */
	open_all(&f, 1 << 20, false);
	restore_error = -ENOMEM;
	nothing_made = true;
	assert_int_equal(fanout_restore(f.fanout, &error), -ENOMEM);
	assert_string_equal(error.code, "out-of-memory");
	nothing_made = false;
	assert_int_equal(fanout_restore(f.fanout, &error), -ENOMEM);
	said[0] = '\0';
	orders_failing = 2;
	assert_int_equal(fanout_adopt(f.fanout, &error), -ENOMEM);
	expect_said("0:adopt@0! ");
	close_all(&f);
}

/* ---- Maps, and bounds --------------------------------------------------------------------------- */

/* Whoever joins was not told the maps of processes, if they are in what it asked for. */
static void test_maps_are_told_again(void **state)
{
	struct subscriber subscriber, joining = {.identity = NULL};
	struct subscribe_request request = {.consumer = NULL};
	struct stream *stream;
	struct error error;
	struct fixture f;

	(void)state;
	open_all(&f, 1 << 20, false);
	joins = make_live(&f, READS, "");
	stream = join(&f, joins, &subscriber, "a");
	assert_int_equal(fanout_subscribe(f.fanout, &joining, &request, &error), 0);
	expect_said("");
	probe_set_add(&joins->spec.probes, RT_PROBE_PROCESS_MAP);
	assert_int_equal(fanout_subscribe(f.fanout, &joining, &request, &error), 0);
	expect_said("change ");
	join_refused = -EPERM;
	assert_int_equal(fanout_subscribe(f.fanout, &joining, &request, &error), -EPERM);
	expect_said("");
	/* And where a subscription is live, whose maps others have been told. */
	join_refused = 0;
	{
		struct subscription *later = want(&f, KILLS, "");

		probe_set_add(&later->spec.probes, RT_PROBE_PROCESS_MAP);
		recorder.config.accepted(recorder.config.context, later);
		send_started(&f, 0, 1);
		send_started(&f, 1, 1);
		run(&f);
		expect_said("make:" KILLS " change 1:add@0 1:add@1 took@0:0 joined save:[" READS " ][" KILLS " ] join:1 change took@1:0 ");
	}
	fanout_stop(f.fanout, "enough", on_stopped, (void *)"over");
	said[0] = '\0';
	assert_int_equal(fanout_subscribe(f.fanout, &joining, &request, &error), 0);
	expect_said("change ");			/* until the rings are empty */
	recorder.config.silent(recorder.config.context);
	send_kind(&f, WORKER_EMPTIED, 0, 0);
	send_kind(&f, WORKER_EMPTIED, 1, 0);
	run(&f);
	said[0] = '\0';
	assert_int_equal(fanout_subscribe(f.fanout, &joining, &request, &error), 0);
	expect_said("");
	stream_destroy(stream);
	close_all(&f);
}

/* For what is there and what comes: the larger of both is a log's, the queue's is a client's lag. */
static void test_new_bounds(void **state)
{
	struct subscription *subscription;
	struct subscriber subscriber;
	struct stream *stream;
	struct fixture f;

	(void)state;
	open_all(&f, 1 << 20, false);
	subscription = make_live(&f, READS, "");
	stream = join(&f, subscription, &subscriber, "a");
	for (unsigned i = 0; i < 8; i++)
		send_frame(&f, 0, 0, 1000);
	run(&f);
	assert_int_equal(frame_log_end(subscription->log), 8);
	fanout_set_bounds(f.fanout, 1 << 20, 3 * NS_PER_S, 5000, 0);
	assert_int_equal(stream->lag_bytes_max, 5000);
	joins = subscription;
	assert_int_equal(fanout_subscribe(f.fanout, &(struct subscriber){.identity = NULL},
					  &(struct subscribe_request){.consumer = NULL}, NULL), 0);
	assert_int_equal(queue_bytes_of_new, 5000);
	assert_int_equal(f.all->config.log_bytes, 1 << 20);
	assert_int_equal(frame_log_first(subscription->log), 0);
	assert_int_equal(f.all->config.history_age_ns, 3 * NS_PER_S);
	fanout_set_bounds(f.fanout, 3000, 3 * NS_PER_S, 5000, 0);
	assert_int_equal(f.all->config.log_bytes, 5000);
	/* A log keeps within it from the next frame on. */
	send_frame(&f, 0, 0, 10);
	run(&f);
	assert_true(frame_log_bytes_from(subscription->log, frame_log_first(subscription->log)) <= 5000);
	assert_true(frame_log_end(subscription->log) - frame_log_first(subscription->log) > 2);
	fanout_set_bounds(f.fanout, 6000, 3 * NS_PER_S, 5000, 2500);
	assert_int_equal(f.all->config.log_bytes, 6000);
	assert_int_equal(f.all->config.memory_bytes, 2500);
	assert_true(f.all->memory_used <= 2500);
	/* Each frame that comes is kept within it at once. */
	for (unsigned i = 0; i < 8; i++) {
		send_frame(&f, 0, 0, 1000);
		run(&f);
		assert_true(frame_log_bytes_from(subscription->log, frame_log_first(subscription->log)) <= 2500);
	}
	stream_destroy(stream);
	close_all(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_looks_with_a_mail),
		cmocka_unit_test(test_looks_without_memory_for_a_timer),
		cmocka_unit_test(test_idle_asks_seldom),
		cmocka_unit_test(test_each_step_to_a_log),
		cmocka_unit_test(test_reborn_where_every_ring_stood_still),
		cmocka_unit_test(test_reborn_where_the_run_before_ended),
		cmocka_unit_test(test_orders_without_memory),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_woken_before_half_of_a_queue),
		cmocka_unit_test(test_mails_without_memory),
		cmocka_unit_test(test_gap_before_the_run),
		cmocka_unit_test(test_who_is_woken_may_go),
		cmocka_unit_test(test_corrupt_ring_is_told_by_its_cpu),
		cmocka_unit_test(test_source_ends_then_stops),
		cmocka_unit_test(test_stops),
		cmocka_unit_test(test_hands_over_without_memory),
		cmocka_unit_test(test_loader_is_gone),
		cmocka_unit_test(test_what_is_always_on_changes),
		cmocka_unit_test(test_always_on_is_the_relays),
		cmocka_unit_test(test_what_is_there_is_always_on),
		cmocka_unit_test(test_what_consumers_need_stays),
		cmocka_unit_test(test_passed_on),
		cmocka_unit_test(test_from_the_run_before),
		cmocka_unit_test(test_maps_are_told_again),
		cmocka_unit_test(test_new_bounds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
