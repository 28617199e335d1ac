/*
 * relayed: a relay's frames to a made-up producer: the relay is told of a frame when Kafka has it, and of none for
 * which there was no memory. The relay is the test itself: it says all that it has to say before the courier runs.
 */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "courier/courier.h"
#include "courier/limits.h"
#include "courier/producer.h"
#include "courier/relayed.h"
#include "proto/message.h"
#include "tests/lib/failing_memory.h"
#include "tests/unit/client/maker.h"

#define LANES	2u

static struct maker relay;		/* what the relay says */
static char dir[32], path[64], summary[4096];
static int listener, connection;
static struct courier_settings settings;
static struct ringtail_error error;

/* ---- The producer: what it gets, Kafka has at once ----------------------------------------------- */

static struct windows *windows;
static int reports;
static uint64_t no_memory_at;		/* for the frame that begins there; UINT64_MAX: for each there is */
static bool runs_are_refused;		/* the first time */
static uint64_t enough;			/* records that are confirmed: then it ends */
static uint64_t frames_confirmed, runs_confirmed, gaps_confirmed;
static uint64_t run_bytes;		/* of the last run's record */
static uint64_t held_at;		/* the frame that begins there is confirmed a turn later */
static struct parcel *held;
static uint64_t pause_ms;		/* behind each batch */
static uint64_t clock_ahead_ns;
static uint64_t part_at;		/* records that are confirmed: then the relay says the rest, */
static size_t part;			/* from there on; 0: it has said all at once */

uint64_t __real_conn_now_ns(void);
uint64_t __wrap_conn_now_ns(void);
uint64_t __wrap_conn_now_ns(void)
{
	return __real_conn_now_ns() + clock_ahead_ns;
}

static void end_it(void)
{
	kill(getpid(), SIGTERM);	/* which waits, blocked, until it is read */
}

int __wrap_producer_create(const struct kafka_settings *kafka, struct windows *of, struct producer **made,
			   struct ringtail_error *why);
int __wrap_producer_create(const struct kafka_settings *kafka, struct windows *of, struct producer **made,
			   struct ringtail_error *why)
{
	(void)kafka, (void)why;
	windows = of;
	reports = eventfd(0, EFD_CLOEXEC);
	*made = (struct producer *)&windows;
	return 0;
}

void __wrap_producer_destroy(struct producer *producer);
void __wrap_producer_destroy(struct producer *producer)
{
	if (producer)
		close(reports);
}

int __wrap_producer_fd(const struct producer *producer);
int __wrap_producer_fd(const struct producer *producer)
{
	(void)producer;
	return reports;
}

int __wrap_producer_wait_ms(const struct producer *producer);
int __wrap_producer_wait_ms(const struct producer *producer)
{
	(void)producer;
	return held ? 0 : -1;
}

void __wrap_producer_stat(const struct producer *producer, struct producer_stat *stat);
void __wrap_producer_stat(const struct producer *producer, struct producer_stat *stat)
{
	(void)producer;
	*stat = (struct producer_stat){ 0 };
}

/* The connection is over; the next one would have to be served. */
void __wrap_producer_call_back(struct producer *producer);
void __wrap_producer_call_back(struct producer *producer)
{
	(void)producer;
	end_it();
}

void __wrap_producer_run(struct producer *producer);
void __wrap_producer_run(struct producer *producer)
{
	struct parcel *parcel;

	(void)producer;
	if (held)
		window_confirm(held);
	held = NULL;
	while ((parcel = windows_next(windows))) {
		window_sent(parcel);
		if (parcel->topic == KAFKA_RUNS && runs_are_refused) {
			window_refuse(parcel->window);
			parcel->state = PARCEL_WAITING;
			runs_are_refused = false;
			continue;
		}
		frames_confirmed += parcel->label.span.known;
		gaps_confirmed += parcel->label.span.known && parcel->label.type == FRAME_GAP;
		runs_confirmed += parcel->topic == KAFKA_RUNS;
		if (parcel->topic == KAFKA_RUNS)
			run_bytes = parcel->bytes;
		if (parcel->label.span.known && parcel->label.span.first_seq == held_at)
			held = parcel;
		else
			window_confirm(parcel);
	}
	if (part && windows->ledger.confirmed >= part_at) {
		assert_int_equal(send(connection, relay.bytes + part, relay.size - part, MSG_NOSIGNAL), relay.size - part);
		part = 0;
	}
	if (windows->ledger.confirmed >= enough)
		end_it();
}

struct parcel *__real_parcel_create(enum kafka_topic topic, const struct parcel_label *label, const void *a,
				    size_t a_bytes, const void *b, size_t b_bytes);
struct parcel *__wrap_parcel_create(enum kafka_topic topic, const struct parcel_label *label, const void *a,
				    size_t a_bytes, const void *b, size_t b_bytes);
struct parcel *__wrap_parcel_create(enum kafka_topic topic, const struct parcel_label *label, const void *a,
				    size_t a_bytes, const void *b, size_t b_bytes)
{
	clock_ahead_ns += label->span.known ? pause_ms * 1000000 : 0;
	if (label->span.known && label->span.first_seq == no_memory_at)
		return NULL;
	return __real_parcel_create(topic, label, a, a_bytes, b, b_bytes);
}

/* ---- The relay ----------------------------------------------------------------------------------- */

static const uint8_t boot[16] = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16 };

static void say_consign_of(uint32_t lane, const char *host, uint64_t epoch, uint32_t cpu, uint64_t first_seq,
			   uint64_t end_seq)
{
	Ringtail__V1__Consign consign = RINGTAIL__V1__CONSIGN__INIT;

	consign.lane = lane;
	consign.cpu = cpu;
	consign.host = (char *)host;
	consign.first_seq = first_seq;
	consign.end_seq = end_seq;
	if (*host) {
		consign.boot_id = (ProtobufCBinaryData){ .len = sizeof(boot), .data = (uint8_t *)boot };
		consign.epoch = epoch;
	}
	maker_message(&relay, FRAME_CONSIGN, &consign.base);
}

static void say_consign(uint32_t lane, const char *host, uint64_t epoch, uint64_t first_seq, uint64_t end_seq)
{
	say_consign_of(lane, host, epoch, 0, first_seq, end_seq);
}

/* A stream of that host begins. */
static void say_begin(uint32_t lane, const char *host, uint64_t epoch)
{
	static const uint64_t zero[2];

	say_consign(lane, host, epoch, 0, 0);
	maker_hello(&relay, 1, epoch);
	maker_catalog(&relay);
	maker_subscribed(&relay, 2, zero);
}

/* Ten events of it. */
static void say_batch(uint32_t lane, uint64_t first_seq)
{
	say_consign(lane, "", 0, first_seq, first_seq + 10);
	maker_batch(&relay, 0, first_seq, 1000 + first_seq * 10, 1, 10);
}

static int setup(void **state)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX };

	(void)state;
	strcpy(dir, "/tmp/ringtail-relayed-XXXXXX");
	if (!mkdtemp(dir))
		return -1;
	snprintf(path, sizeof(path), "%s/s", dir);
	memcpy(at.sun_path, path, strlen(path) + 1);
	listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);	/* perhaps nobody connects */
	if (bind(listener, (struct sockaddr *)&at, sizeof(at)) || listen(listener, 4))
		return -1;
	maker_init(&relay);
	settings = (struct courier_settings){ .relay = path, .window_bytes = WINDOW_BYTES_DEFAULT, .json = true };
	no_memory_at = enough = held_at = UINT64_MAX;
	part = 0;
	pause_ms = clock_ahead_ns = 0;
	runs_are_refused = false;
	frames_confirmed = runs_confirmed = gaps_confirmed = 0;
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	close(listener);
	unlink(path);
	rmdir(dir);
	maker_fini(&relay);
	return 0;
}

/* A signal that nobody has read is none of the next courier's. */
static void drop_signals(void)
{
	static const struct timespec now;
	sigset_t signals;

	sigemptyset(&signals);
	sigaddset(&signals, SIGTERM);
	while (sigtimedwait(&signals, NULL, &now) == SIGTERM)
		;
}

/* What relayed_run() returns, or relayed_create(). */
static int carry(void)
{
	FILE *ledger = fmemopen(summary, sizeof(summary), "w");
	struct relayed *relayed;
	int err;

	assert_non_null(ledger);
	err = relayed_create(&settings, &relayed, &error);
	connection = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (!err) {
		assert_int_equal(send(connection, relay.bytes, part ? part : relay.size, MSG_NOSIGNAL),
				 part ? part : relay.size);
		err = relayed_run(relayed, ledger, &error);
		relayed_destroy(relayed);
	}
	fclose(ledger);
	drop_signals();
	return err;
}

struct told {
	uint64_t first[LANES], frames[LANES];	/* the first and the last time */
	uint64_t frames_refused[LANES];		/* of these */
	bool refused[LANES];
};

static void note_told(struct told *told, const Ringtail__V1__Delivered *delivered)
{
	for (size_t i = 0; i < delivered->n_lane; i++) {
		const Ringtail__V1__DeliveredLane *lane = delivered->lane[i];

		assert_in_range(lane->lane, 0, LANES - 1);
		assert_true(lane->frames >= told->frames[lane->lane]);
		if (!told->first[lane->lane])
			told->first[lane->lane] = lane->frames;
		told->frames_refused[lane->lane] += lane->refused ? lane->frames - told->frames[lane->lane] : 0;
		told->frames[lane->lane] = lane->frames;
		told->refused[lane->lane] |= lane->refused;
	}
}

/* All that the relay was told, until the courier had left. */
static struct told hear(void)
{
	static uint8_t bytes[1 << 16], raw[1 << 16];
	ssize_t n = recv(connection, bytes, sizeof(bytes), MSG_WAITALL);
	struct told told = { 0 };
	struct frame_header header;
	const uint8_t *body;

	for (uint8_t *at = bytes; n > 0; at += FRAME_HEADER_BYTES + header.body_bytes) {
		Ringtail__V1__Delivered *delivered;

		assert_int_equal(frame_parse_header(at, (size_t)(bytes + n - at), sizeof(raw), &header), FRAME_OK);
		assert_int_equal(frame_open(relay.codec, at, &header, raw, &body), FRAME_OK);
		if (header.type == FRAME_DELIVERED) {
			delivered = message_unpack(&ringtail__v1__delivered__descriptor, NULL, body, header.raw_bytes);
			assert_non_null(delivered);
			note_told(&told, delivered);
			protobuf_c_message_free_unpacked(&delivered->base, NULL);
		}
		if (at + FRAME_HEADER_BYTES + header.body_bytes == bytes + n)
			break;
	}
	close(connection);
	return told;
}

/* ---- Tests --------------------------------------------------------------------------------------- */

static void test_each_host_is_told_by_itself(void **state)
{
	struct told told;

	(void)state;
	say_begin(0, "web-1", 7);
	say_begin(1, "web-2", 8);
	say_batch(0, 0);
	say_batch(1, 0);
	say_batch(1, 10);
	enough = 2 + 2 + 3;
	assert_int_equal(carry(), 0);
	told = hear();
	assert_int_equal(told.frames[0], 1);
	assert_int_equal(told.frames[1], 2);
	assert_int_equal(runs_confirmed, 2);
	assert_non_null(strstr(summary, "\"in_flight\":0,\"residual\":0,"));
}

/* In the turn in which there is no memory, what came before is confirmed, and the window is empty. */
static void test_a_frame_that_found_no_memory_is_not_told(void **state)
{
	(void)state;
	say_begin(0, "web-1", 7);
	say_batch(0, 0);
	say_batch(0, 10);
	say_batch(0, 20);
	no_memory_at = 10;
	assert_int_equal(carry(), -ENOMEM);
	assert_string_equal(error.code, "no-memory");
	assert_int_equal(frames_confirmed, 1);
	assert_int_equal(hear().frames[0], 1);
	assert_non_null(strstr(summary, "\"in_flight\":0,\"residual\":0,"));
}

/* The frames of a run that Kafka refuses are told, as refused, and none of them is sent. */
static void test_what_is_behind_a_run_that_is_refused_is_told_as_refused(void **state)
{
	struct told told;

	(void)state;
	say_begin(0, "web-1", 7);
	say_begin(1, "web-2", 8);
	say_batch(0, 0);
	say_batch(1, 0);
	runs_are_refused = true;
	enough = 3;
	assert_int_equal(carry(), 0);
	told = hear();
	assert_int_equal(told.refused[0] + told.refused[1], 1);
	assert_int_equal(frames_confirmed, 1);
	assert_int_equal(told.frames[0], 1);
	assert_int_equal(told.frames[1], 1);
	assert_non_null(strstr(summary, "\"in_flight\":0,\"residual\":0,"));
}

/* What comes behind it before the host begins again is told as refused, too; what it begins then is carried. */
static void test_a_host_that_was_refused_begins_again(void **state)
{
	struct told told;

	(void)state;
	say_begin(0, "web-1", 7);
	say_batch(0, 0);
	say_begin(1, "web-2", 8);
	part = relay.size;
	part_at = 2;
	say_batch(0, 10);
	say_batch(1, 0);
	runs_are_refused = true;
	enough = 3;
	assert_int_equal(carry(), 0);
	told = hear();
	assert_int_equal(told.frames[0] + told.frames[1], 3);
	assert_int_equal(told.refused[0] + told.refused[1], 1);
	assert_int_equal(frames_confirmed, 1);

	relay.size = 0;
	frames_confirmed = 0;
	say_begin(0, "web-1", 7);
	say_begin(1, "web-2", 8);
	part = relay.size;
	part_at = 2;
	say_begin(0, "web-1", 7);
	say_begin(1, "web-2", 8);
	say_batch(0, 0);
	say_batch(1, 0);
	runs_are_refused = true;
	enough = 4 + 1 + 2;		/* the refused run is announced again; the other is once */
	assert_int_equal(carry(), 0);
	told = hear();
	assert_int_equal(told.frames[0], 1);
	assert_int_equal(told.frames[1], 1);
	assert_int_equal(told.refused[0] + told.refused[1], 0);
	assert_int_equal(frames_confirmed, 2);
}

/* Nothing came of the run before Kafka refused it; what then comes of it comes together with the host's next run. */
static void test_what_was_refused_is_not_told_with_what_comes_then(void **state)
{
	struct told told;

	(void)state;
	say_begin(0, "web-1", 7);
	say_begin(1, "web-2", 8);
	part = relay.size;
	part_at = 2;
	say_batch(0, 0);
	say_batch(0, 10);
	say_begin(0, "web-1", 9);
	say_batch(0, 0);
	runs_are_refused = true;
	enough = 2 + 3;
	assert_int_equal(carry(), 0);
	told = hear();
	assert_int_equal(told.frames[0], 3);
	assert_int_equal(told.frames_refused[0], 2);
	assert_int_equal(frames_confirmed, 1);
	assert_non_null(strstr(summary, "\"in_flight\":0,\"residual\":0,"));
}

/* Kafka has the third frame and not the second: the relay is told of the first. */
static void test_what_is_not_confirmed_is_not_told(void **state)
{
	struct told told;

	(void)state;
	say_begin(0, "web-1", 7);
	say_batch(0, 0);
	say_batch(0, 10);
	say_batch(0, 20);
	held_at = 10;
	enough = 2 + 3;
	assert_int_equal(carry(), 0);
	told = hear();
	assert_int_equal(told.first[0], 1);
	assert_int_equal(told.frames[0], 3);
}

/* A lane serves another host: its run is announced under that host's name, whatever its number is. */
static void test_a_lane_that_serves_another_host(void **state)
{
	(void)state;
	say_begin(0, "web-1", 7);
	say_batch(0, 0);
	part = relay.size;
	part_at = 3;
	say_begin(0, "web-2", 7);
	say_batch(0, 0);
	enough = 3 + 3;
	assert_int_equal(carry(), 0);
	assert_int_equal(runs_confirmed, 2);
	assert_int_equal(hear().frames[0], 2);
}

/* A program brought a probe meanwhile: what is recorded from now on is decoded by the new catalog. */
static void test_another_catalog_of_the_run_is_announced(void **state)
{
	Ringtail__V1__Catalog catalog = RINGTAIL__V1__CATALOG__INIT;
	static const uint64_t zero[2];
	size_t before, hello_bytes;

	(void)state;
	say_begin(0, "web-1", 7);
	say_batch(0, 0);
	say_consign(0, "web-1", 7, 0, 0);
	before = relay.size;
	maker_hello(&relay, 1, 7);
	maker_message(&relay, FRAME_CATALOG, &catalog.base);
	hello_bytes = relay.size - before;
	maker_subscribed(&relay, 2, zero);
	say_batch(0, 10);
	enough = 3 + 3;
	assert_int_equal(carry(), 0);
	assert_int_equal(runs_confirmed, 2);
	assert_int_equal(run_bytes, hello_bytes);	/* the hello, and the catalog, whole */
	assert_int_equal(hear().frames[0], 2);
}

/* Each kind of frame that a run has; of a gap, too, the record says which attempts it is about. */
static void test_every_frame_of_a_run_is_carried(void **state)
{
	Ringtail__V1__Bye bye = RINGTAIL__V1__BYE__INIT;
	Ringtail__V1__Gap gap = RINGTAIL__V1__GAP__INIT;
	Ringtail__V1__Watermark watermark = RINGTAIL__V1__WATERMARK__INIT;

	(void)state;
	say_begin(0, "web-1", 7);
	say_batch(0, 0);
	gap.first_seq = 10;
	gap.end_seq = 20;
	say_consign(0, "", 0, 10, 20);
	maker_message(&relay, FRAME_GAP, &gap.base);
	say_consign(0, "", 0, 0, 0);
	maker_message(&relay, FRAME_WATERMARK, &watermark.base);
	say_consign(0, "", 0, 0, 0);
	maker_message(&relay, FRAME_BYE, &bye.base);
	enough = 2 + 4;
	assert_int_equal(carry(), 0);
	assert_int_equal(frames_confirmed, 2);
	assert_int_equal(gaps_confirmed, 1);
	assert_int_equal(hear().frames[0], 4);
}

static void test_a_run_is_announced_once_for_each_catalog(void **state)
{
	(void)state;
	say_begin(0, "web-1", 7);
	say_batch(0, 0);
	say_begin(0, "web-1", 7);
	say_batch(0, 10);
	say_begin(0, "web-1", 8);
	say_batch(0, 0);
	enough = 2 + 3 + 3;
	assert_int_equal(carry(), 0);
	assert_int_equal(runs_confirmed, 2);
	assert_int_equal(hear().frames[0], 3);
}

/* Whenever a stream begins: its relay begins one again that goes on for so long. */
static void test_a_run_that_goes_on_is_announced_again(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 4; i++) {
		say_begin(0, "web-1", 7);
		say_batch(0, i * 10);
	}
	pause_ms = ANNOUNCE_INTERVAL_MS / 2;
	enough = 2 + 4 + 4;
	assert_int_equal(carry(), 0);
	assert_int_equal(runs_confirmed, 2);
	assert_int_equal(hear().frames[0], 4);
}

static void refuses(void)
{
	enough = 1;
	assert_int_equal(carry(), 0);		/* it ended because the connection did */
	assert_int_equal(hear().frames[0], 0);
	assert_int_equal(frames_confirmed, 0);
	relay.size = 0;
}

static void test_a_relay_that_speaks_otherwise_is_left(void **state)
{
	(void)state;
	say_consign(1, "web-1", 7, 0, 0);	/* no lane 0 before */
	refuses();
	say_consign(0, "", 0, 0, 10);		/* of no host */
	refuses();
	say_consign(0, "web\n1", 7, 0, 0);
	refuses();
	say_consign(0, "web-1", 7, 0, 0);
	maker_catalog(&relay);			/* without a hello before */
	refuses();
	maker_catalog(&relay);			/* of nobody */
	refuses();
	say_begin(0, "web-1", 7);
	say_consign(0, "", 0, 10, 0);		/* backwards */
	maker_batch(&relay, 0, 0, 1000, 1, 10);
	refuses();
	say_begin(0, "web-1", 7);
	say_consign_of(0, "", 0, CURSOR_POSITIONS_MAX, 0, 10);	/* of no CPU */
	maker_batch(&relay, 0, 0, 1000, 1, 10);
	refuses();
	say_begin(0, "web-1", 7);
	say_batch(0, 0);
	say_begin(0, "web-2", 7);		/* while something of the other is on its way */
	refuses();
	maker_error(&relay, "courier-busy", "another courier", "end it", 0);
	refuses();
}

/* Wherever memory fails: the relay frees nothing that Kafka has not got. */
static void test_of_no_allocation_that_fails_comes_a_loss(void **state)
{
	bool failed = true;

	(void)state;
	say_begin(0, "web-1", 7);
	for (unsigned i = 0; i < 5; i++)
		say_batch(0, i * 10);
	enough = 1 + 1 + 5;
	for (unsigned n = 0; failed && n < 1000; n++) {
		int err;

		frames_confirmed = 0;
		connection = -1;
		allocations_left = n;
		failures_left = 1;
		err = carry();
		failed = failures_left == 0;
		memory_suffices();
		assert_true(err == 0 || err == -ENOMEM);
		if (connection >= 0)
			assert_true(hear().frames[0] <= frames_confirmed);
	}
	assert_false(failed);
	assert_int_equal(frames_confirmed, 5);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		TEST(test_each_host_is_told_by_itself),
		TEST(test_a_frame_that_found_no_memory_is_not_told),
		TEST(test_what_is_behind_a_run_that_is_refused_is_told_as_refused),
		TEST(test_a_host_that_was_refused_begins_again),
		TEST(test_what_was_refused_is_not_told_with_what_comes_then),
		TEST(test_what_is_not_confirmed_is_not_told),
		TEST(test_a_lane_that_serves_another_host),
		TEST(test_another_catalog_of_the_run_is_announced),
		TEST(test_every_frame_of_a_run_is_carried),
		TEST(test_a_run_is_announced_once_for_each_catalog),
		TEST(test_a_run_that_goes_on_is_announced_again),
		TEST(test_a_relay_that_speaks_otherwise_is_left),
		TEST(test_of_no_allocation_that_fails_comes_a_loss),
	};
	sigset_t signals;

	sigemptyset(&signals);
	sigaddset(&signals, SIGTERM);
	sigprocmask(SIG_BLOCK, &signals, NULL);
	alarm(300);			/* a test that hangs must end */
	return cmocka_run_group_tests(tests, NULL, NULL);
}
