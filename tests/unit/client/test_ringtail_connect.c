/*
 * test_ringtail_connect: the library against a daemon of the test's making: subscribing, refusals,
 * leaving, and what it does when the connection breaks.
 */
#include "tests/unit/client/handle.h"

#include <errno.h>

#include "proto/backoff.h"
#include "tests/unit/client/fake.h"

static struct fake fake;

/* ---- Time: a wait between two tries is over at once --------------------------------------------- */

#define DELAYS_MAX	32u

static uint64_t skipped_ns;
static bool skips;
static uint32_t delay_ms[DELAYS_MAX];
static unsigned delays;

uint64_t __real_conn_now_ns(void);
uint64_t __wrap_conn_now_ns(void);
uint64_t __wrap_conn_now_ns(void)
{
	return __real_conn_now_ns() + skipped_ns;
}

uint32_t __real_backoff_next_ms(struct backoff *backoff);
uint32_t __wrap_backoff_next_ms(struct backoff *backoff);
uint32_t __wrap_backoff_next_ms(struct backoff *backoff)
{
	uint32_t ms = __real_backoff_next_ms(backoff);

	if (delays < DELAYS_MAX)
		delay_ms[delays++] = ms;
	if (skips)
		skipped_ns += ms * 1000000ull;
	return ms;
}

static struct ringtail *connect_to(const struct fake_step *step, unsigned steps)
{
	struct ringtail *ringtail;

	fake_start(&fake, step, steps);
	assert_int_equal(ringtail_connect(fake.address, &ringtail, &error), 0);
	return ringtail;
}

/* Catalog and Subscribed, without the hello of maker_start(). */
static void answer(const uint64_t seq[2])
{
	maker_catalog(&stream);
	maker_subscribed(&stream, 2, seq);
}

static void follows(void **state)
{
	static const uint64_t zero[2];
	static const char *const probes[] = { "syscall:*:call", "tracepoint:sched:*" };
	struct ringtail_subscription wanted = {
		.probe = probes, .probes = 2, .filter = "pid == 1",
		.flags = RINGTAIL_KSTACK | RINGTAIL_STRINGS,
		.since = "01020304-0506-0708-090a-0b0c0d0e0f10/7/0:0",
	};
	struct ringtail *ringtail;
	int ends[2];

	(void)state;
	answer(zero);
	maker_batch(&stream, 0, 0, 1000, 10, 3);
	maker_watermark(&stream, 1015, 3, 0);
	ringtail = connect_to(
		&(struct fake_step){hello.bytes, hello.size, stream.bytes, stream.size, true}, 1);
	assert_int_equal(ringtail_subscribe(ringtail, &wanted, &error), 0);
	assert_int_equal(ringtail_subscribe(ringtail, &wanted, &error), -EINVAL);
	assert_int_equal(next(ringtail), RINGTAIL_EVENT);
	assert_int_equal(next(ringtail), RINGTAIL_EVENT);
	assert_int_equal(ringtail_next(ringtail, &item, 1000), RINGTAIL_WATERMARK);
	assert_int_equal(ringtail_next(ringtail, &item, 10), RINGTAIL_TIMEOUT);
	assert_int_equal(pipe(ends), 0);
	ringtail_set_interrupt(ringtail, ends[0]);
	assert_int_equal(ringtail_next(ringtail, &item, 0), RINGTAIL_TIMEOUT);
	assert_int_equal(write(ends[1], "", 1), 1);
	assert_int_equal(ringtail_next(ringtail, &item, -1), RINGTAIL_INTERRUPTED);
	ringtail_flush(ringtail);		/* the third event waited for a watermark */
	assert_int_equal(next(ringtail), RINGTAIL_EVENT);
	assert_int_equal(next(ringtail), RINGTAIL_END);
	ringtail_close(ringtail);
	close(ends[0]);
	close(ends[1]);
	fake_stop(&fake);
}

/* What had come before it was interrupted is given, although it lay in the socket; a part is not. */
static void leaves_with_what_has_come(void **state)
{
	static const uint64_t zero[2];
	struct ringtail_subscription wanted = { 0 };
	struct fake_step step = { hello.bytes, hello.size, .holds = true };
	struct ringtail *ringtail;
	int cue[2], ends[2];
	size_t answered;
	char byte = 0;

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, cue), 0);
	assert_int_equal(pipe(ends), 0);
	answer(zero);
	maker_batch(&stream, 0, 0, 1000, 10, 3);
	answered = stream.size;
	maker_batch(&stream, 0, 3, 1030, 10, 2);
	maker_batch(&stream, 0, 5, 1050, 10, 4);
	step.answer = stream.bytes;
	step.answer_bytes = answered;
	fake.later = (struct fake_later){stream.bytes + answered, stream.size - answered - 1, cue[1]};
	ringtail = connect_to(&step, 1);
	fake.later.bytes = NULL;
	assert_int_equal(ringtail_subscribe(ringtail, &wanted, &error), 0);
	ringtail_set_interrupt(ringtail, ends[0]);
	assert_int_equal(ringtail_next(ringtail, &item, 10), RINGTAIL_TIMEOUT);
	assert_int_equal(write(ends[1], "", 1), 1);
	assert_int_equal(send(cue[0], &byte, 1, 0), 1);
	assert_int_equal(recv(cue[0], &byte, 1, 0), 1);
	assert_int_equal(ringtail_next(ringtail, &item, -1), RINGTAIL_INTERRUPTED);
	ringtail_flush(ringtail);
	for (unsigned i = 0; i < 5; i++)
		assert_int_equal(next(ringtail), RINGTAIL_EVENT);
	assert_int_equal(next(ringtail), RINGTAIL_END);
	assert_int_equal(ringtail_totals(ringtail)->residual, 0);
	ringtail_close(ringtail);
	fake_stop(&fake);
	close(ends[0]);
	close(ends[1]);
	close(cue[0]);
	close(cue[1]);
}

static void refused(void **state)
{
	struct ringtail *ringtail;

	(void)state;
	maker_error(&stream, "filter-bad-character", "`=` means nothing here", "equality is ==", 5);
	ringtail = connect_to(
		&(struct fake_step){hello.bytes, hello.size, stream.bytes, stream.size, false}, 1);
	assert_int_equal(ringtail_subscribe(ringtail, NULL, &error), -EPROTO);
	assert_string_equal(error.code, "filter-bad-character");
	assert_string_equal(error.hint, "equality is ==");
	assert_int_equal(error.column, 5);
	ringtail_close(ringtail);
	fake_stop(&fake);
}

static void refused_without_a_word(void **state)
{
	struct ringtail *ringtail;

	(void)state;
	maker_error(&stream, "", "", "", 0);
	ringtail = connect_to(
		&(struct fake_step){hello.bytes, hello.size, stream.bytes, stream.size, false}, 1);
	assert_int_equal(ringtail_subscribe(ringtail, NULL, &error), -EPROTO);
	assert_string_equal(error.code, "unnamed");
	assert_non_null(strstr(error.what, "sent no reason"));
	ringtail_close(ringtail);
	fake_stop(&fake);
}

static void bad_subscriptions(void **state)
{
	static const char *probes[SUBSCRIBE_PROBES_MAX + 1];
	char longer[FILTER_BYTES_MAX + 2];
	const char *one = longer;
	struct ringtail_subscription many = { .probe = probes, .probes = SUBSCRIBE_PROBES_MAX + 1 };
	struct ringtail_subscription wordy = { .filter = longer };
	struct ringtail_subscription named = { .probe = &one, .probes = 1 };
	struct ringtail_subscription lost = { .since = "nowhere" };
	struct ringtail *ringtail;

	(void)state;
	memset(longer, 'a', sizeof(longer));
	longer[sizeof(longer) - 1] = '\0';
	ringtail =
		connect_to(&(struct fake_step){hello.bytes, hello.size, stream.bytes, 0, true}, 1);
	assert_int_equal(ringtail_subscribe(ringtail, &many, &error), -EINVAL);
	assert_int_equal(ringtail_subscribe(ringtail, &wordy, &error), -EINVAL);
	assert_int_equal(ringtail_subscribe(ringtail, &named, &error), -EINVAL);
	assert_int_equal(ringtail_subscribe(ringtail, &lost, &error), -EINVAL);
	assert_string_equal(error.code, "bad-cursor");
	ringtail_close(ringtail);
	fake_stop(&fake);
}

/* What answers is not a daemon, or not one for us. */
static void strangers(void **state)
{
	static const char ssh[] = "SSH-2.0-OpenSSH_9.2p1 Debian\r\n";
	struct ringtail *ringtail;
	struct maker other;

	(void)state;
	fake_start(&fake, &(struct fake_step){(const uint8_t *)ssh, sizeof(ssh) - 1, NULL, 0, true},
		   1);
	assert_int_equal(ringtail_connect(fake.address, &ringtail, &error), -EBADMSG);
	assert_string_equal(error.code, "no-ringtaild");
	assert_non_null(strstr(error.what, "SSH"));
	fake_stop(&fake);

	maker_init(&other);
	maker_hello(&other, 9, 7);
	fake_start(&fake, &(struct fake_step){ other.bytes, other.size, NULL, 0, true }, 1);
	assert_int_equal(ringtail_connect(fake.address, &ringtail, &error), -EBADMSG);
	assert_string_equal(error.code, "version-mismatch");
	fake_stop(&fake);

	hello.bytes[2] = 9;		/* the frame's own version */
	fake_start(&fake, &(struct fake_step){ hello.bytes, hello.size, NULL, 0, true }, 1);
	assert_int_equal(ringtail_connect(fake.address, &ringtail, &error), -EBADMSG);
	assert_string_equal(error.code, "bad-version");
	fake_stop(&fake);

	other.size = 0;
	maker_error(&other, "too-many-clients", "64 clients are served already", "", 0);
	fake_start(&fake, &(struct fake_step){ other.bytes, other.size, NULL, 0, false }, 1);
	assert_int_equal(ringtail_connect(fake.address, &ringtail, &error), -EPROTO);
	assert_string_equal(error.code, "too-many-clients");
	fake_stop(&fake);

	fake_start(&fake, &(struct fake_step){ NULL, 0, NULL, 0, false }, 1);
	assert_int_equal(ringtail_connect(fake.address, &ringtail, &error), -ECONNRESET);
	assert_string_equal(error.code, "connection-lost");
	fake_stop(&fake);
	maker_fini(&other);
}

static void nobody(void **state)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX, .sun_path = "/tmp/ringtail-test-nobody" };
	struct ringtail *ringtail;
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);

	(void)state;
	assert_int_equal(ringtail_connect("unix:/nowhere/x.sock", &ringtail, &error), -ENOENT);
	assert_string_equal(error.code, "no-daemon");
	assert_non_null(strstr(error.hint, "systemctl start ringtaild"));
	unlink(at.sun_path);
	assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof(at)), 0);
	assert_int_equal(ringtail_connect("unix:/tmp/ringtail-test-nobody", &ringtail, &error),
			 -ECONNREFUSED);
	assert_string_equal(error.code, "refused");
	close(fd);
	unlink(at.sun_path);
	assert_int_equal(ringtail_connect("tcp:127.0.0.1:1", &ringtail, &error), -ECONNREFUSED);
	assert_int_equal(ringtail_connect("tcp:no.such.host.invalid:1", &ringtail, &error),
			 -EHOSTUNREACH);
	assert_string_equal(error.code, "unknown-host");
	assert_int_equal(ringtail_connect("nonsense", &ringtail, &error), -EINVAL);
	assert_int_equal(ringtail_connect("unix:/etc/passwd", &ringtail, &error), -ECONNREFUSED);
}

static void bye_ends(void **state)
{
	static const uint64_t zero[2];
	struct ringtail_subscription wanted = { .reconnect = true };
	struct ringtail *ringtail;

	(void)state;
	answer(zero);
	maker_batch(&stream, 0, 0, 1000, 10, 3);
	maker_bye(&stream, "shutting down");
	ringtail = connect_to(
		&(struct fake_step){hello.bytes, hello.size, stream.bytes, stream.size, false}, 1);
	assert_int_equal(ringtail_subscribe(ringtail, &wanted, &error), 0);
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(next(ringtail), RINGTAIL_EVENT);
	assert_int_equal(next(ringtail), RINGTAIL_END);
	assert_string_equal(item.text, "shutting down");
	ringtail_close(ringtail);
	fake_stop(&fake);
}

/* The connection breaks, comes back, and the ledger goes on where it was. */
static void reconnects(void **state)
{
	static const uint64_t zero[2], later[2] = { 3, 0 };
	struct ringtail_subscription wanted = { .reconnect = true };
	struct ringtail *ringtail;
	struct maker second;

	(void)state;
	answer(zero);
	maker_batch(&stream, 0, 0, 1000, 10, 3);
	maker_init(&second);
	maker_catalog(&second);
	maker_subscribed(&second, 2, later);
	maker_gap(&second, 0, 3, 10, 2, 3, 7);
	maker_batch(&second, 0, 10, 2000, 10, 2);
	maker_bye(&second, "end");
	ringtail = connect_to(
		(struct fake_step[]){
			{hello.bytes, hello.size, stream.bytes, stream.size, false},
			{hello.bytes, hello.size - 3, NULL, 0, false}, /* a try that fails */
			{hello.bytes, hello.size, second.bytes, second.size, false}},
		3);
	assert_int_equal(ringtail_subscribe(ringtail, &wanted, &error), 0);
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(next(ringtail), RINGTAIL_EVENT);
	assert_int_equal(next(ringtail), RINGTAIL_DISCONNECTED);
	assert_non_null(strstr(item.text, "closed the connection"));
	assert_int_equal(next(ringtail), RINGTAIL_RECONNECTED);
	assert_int_equal(next(ringtail), RINGTAIL_GAP);
	assert_int_equal(item.events, 2);
	assert_int_equal(next(ringtail), RINGTAIL_EVENT);
	assert_int_equal(item.seq, 10);
	assert_int_equal(next(ringtail), RINGTAIL_EVENT);
	assert_int_equal(next(ringtail), RINGTAIL_END);
	assert_int_equal(ringtail_totals(ringtail)->events, 5);
	assert_int_equal(ringtail_totals(ringtail)->residual, 0);
	ringtail_close(ringtail);
	maker_fini(&second);
	fake_stop(&fake);
}

static void restart_is_waited_for(void **state)
{
	static const uint64_t zero[2];
	struct ringtail_subscription wanted = { .reconnect = true };
	struct ringtail *ringtail;
	struct maker second;

	(void)state;
	answer(zero);
	maker_leave(&stream, "shutting down", false);
	maker_init(&second);
	maker_catalog(&second);
	maker_subscribed(&second, 2, zero);
	maker_bye(&second, "end");
	ringtail = connect_to(
		(struct fake_step[]){
			{hello.bytes, hello.size, stream.bytes, stream.size, false},
			{hello.bytes, hello.size, second.bytes, second.size, false}},
		2);
	assert_int_equal(ringtail_subscribe(ringtail, &wanted, &error), 0);
	assert_int_equal(next(ringtail), RINGTAIL_DISCONNECTED);
	assert_string_equal(item.text, "the daemon left: shutting down");
	assert_int_equal(next(ringtail), RINGTAIL_RECONNECTED);
	assert_int_equal(next(ringtail), RINGTAIL_END);
	assert_string_equal(item.text, "end");
	ringtail_close(ringtail);
	maker_fini(&second);
	fake_stop(&fake);
}

static void reconnect_is_refused(void **state)
{
	static const uint64_t zero[2];
	struct ringtail_subscription wanted = { .reconnect = true };
	struct ringtail *ringtail;
	enum ringtail_kind kind;
	struct maker second;

	(void)state;
	answer(zero);
	maker_init(&second);
	maker_error(&second, "not-allowed", "for operators", "", 0);
	ringtail = connect_to((struct fake_step[]){
			      { hello.bytes, hello.size, stream.bytes, stream.size, false },
			      { hello.bytes, hello.size, second.bytes, second.size, false } }, 2);
	assert_int_equal(ringtail_subscribe(ringtail, &wanted, &error), 0);
	assert_int_equal(next(ringtail), RINGTAIL_DISCONNECTED);
	do
		kind = ringtail_next(ringtail, &item, 1);
	while (kind == RINGTAIL_TIMEOUT);
	assert_int_equal(kind, RINGTAIL_ERROR);
	assert_string_equal(ringtail_last_error(ringtail)->code, "not-allowed");
	ringtail_close(ringtail);
	maker_fini(&second);
	fake_stop(&fake);
}

/* What is of the moment is tried again. */
static void reconnect_is_put_off(void **state)
{
	static const char *const code[] = { "shutting-down", "too-many-clients",
					    "too-many-pending", "descriptors-exhausted",
					    "no-room", "consumer-in-use",
					    "unknown-probe", "filter-unknown-name" };
	static const uint64_t zero[2];
	struct ringtail_subscription wanted = { .reconnect = true };
	struct ringtail *ringtail;
	struct maker not_yet, third;

	(void)state;
	for (size_t i = 0; i < sizeof(code) / sizeof(*code); i++) {
		stream.size = 0;
		answer(zero);
		maker_init(&not_yet);
		maker_error(&not_yet, code[i], "not now", "", 0);
		maker_init(&third);
		maker_catalog(&third);
		maker_subscribed(&third, 2, zero);
		maker_bye(&third, "end");
		ringtail = connect_to((struct fake_step[]){
				      { hello.bytes, hello.size, stream.bytes, stream.size, false },
				      { hello.bytes, hello.size, not_yet.bytes, not_yet.size, false },
				      { hello.bytes, hello.size, third.bytes, third.size, false } }, 3);
		assert_int_equal(ringtail_subscribe(ringtail, &wanted, &error), 0);
		assert_int_equal(next(ringtail), RINGTAIL_DISCONNECTED);
		assert_int_equal(next(ringtail), RINGTAIL_RECONNECTED);
		assert_int_equal(next(ringtail), RINGTAIL_END);
		ringtail_close(ringtail);
		maker_fini(&not_yet);
		maker_fini(&third);
		fake_stop(&fake);
	}
}

/* A program's probe, of which the next daemon never hears: the program had its time to come back. */
static void a_probe_that_stays_away_is_unknown(void **state)
{
	enum { TRIES = 64 };
	static const uint64_t zero[2];
	struct ringtail_subscription wanted = { .reconnect = true };
	struct fake_step step[1 + TRIES];
	struct maker unknown;
	struct ringtail *ringtail;
	uint64_t began_ns = skipped_ns;

	(void)state;
	answer(zero);
	maker_init(&unknown);
	maker_error(&unknown, "unknown-probe", "no probe matches", "", 0);
	step[0] = (struct fake_step){ hello.bytes, hello.size, stream.bytes, stream.size, false };
	for (unsigned i = 1; i <= TRIES; i++)
		step[i] = (struct fake_step){ hello.bytes, hello.size, unknown.bytes, unknown.size, false };
	skips = true;
	ringtail = connect_to(step, 1 + TRIES);
	assert_int_equal(ringtail_subscribe(ringtail, &wanted, &error), 0);
	assert_int_equal(next(ringtail), RINGTAIL_DISCONNECTED);
	assert_int_equal(next(ringtail), RINGTAIL_ERROR);
	assert_string_equal(ringtail_last_error(ringtail)->code, "unknown-probe");
	assert_in_range((skipped_ns - began_ns) / 1000000000u, RECONNECT_PROBE_SECONDS / 2,
			RECONNECT_PROBE_SECONDS + RECONNECT_DELAY_MS_MAX / 1000 + 1);
	skips = false;
	ringtail_close(ringtail);
	maker_fini(&unknown);
	fake_stop(&fake);
}

/* Each outage begins with the shortest wait, however long those of the one before had become. */
static void the_next_outage_begins_anew(void **state)
{
	enum { TRIES = 5 };
	static const uint64_t zero[2];
	struct ringtail_subscription wanted = { .reconnect = true };
	struct fake_step step[TRIES + 3];
	struct ringtail *ringtail;
	struct maker last;

	(void)state;
	answer(zero);
	maker_init(&last);
	maker_catalog(&last);
	maker_subscribed(&last, 2, zero);
	maker_bye(&last, "end");
	for (unsigned i = 0; i < TRIES + 3; i++)
		step[i] = (struct fake_step){ hello.bytes, hello.size, stream.bytes, stream.size, false };
	for (unsigned i = 1; i <= TRIES; i++)
		step[i] = (struct fake_step){ hello.bytes, hello.size - 3, NULL, 0, false };
	step[TRIES + 2].answer = last.bytes;
	step[TRIES + 2].answer_bytes = last.size;
	delays = 0;
	skips = true;
	ringtail = connect_to(step, TRIES + 3);
	assert_int_equal(ringtail_subscribe(ringtail, &wanted, &error), 0);
	assert_int_equal(next(ringtail), RINGTAIL_DISCONNECTED);
	assert_int_equal(next(ringtail), RINGTAIL_RECONNECTED);
	assert_int_equal(delays, 1 + TRIES);
	assert_true(delay_ms[TRIES] > RECONNECT_DELAY_MS_MIN);
	assert_int_equal(next(ringtail), RINGTAIL_DISCONNECTED);
	assert_int_equal(delays, TRIES + 2);
	assert_in_range(delay_ms[TRIES + 1], 1, RECONNECT_DELAY_MS_MIN);
	assert_int_equal(next(ringtail), RINGTAIL_RECONNECTED);
	assert_int_equal(next(ringtail), RINGTAIL_END);
	skips = false;
	ringtail_close(ringtail);
	maker_fini(&last);
	fake_stop(&fake);
}

/* Nobody is there any more: it tries for so long, and no longer. */
static void gives_up_in_time(void **state)
{
	static const uint64_t zero[2];
	struct ringtail_subscription wanted = { .reconnect = true };
	enum ringtail_kind kind = RINGTAIL_TIMEOUT;
	uint64_t minutes = 0;
	struct ringtail *ringtail;

	(void)state;
	answer(zero);
	ringtail = connect_to(
		&(struct fake_step){hello.bytes, hello.size, stream.bytes, stream.size, false}, 1);
	assert_int_equal(ringtail_subscribe(ringtail, &wanted, &error), 0);
	assert_int_equal(next(ringtail), RINGTAIL_DISCONNECTED);
	fake_stop(&fake);
	for (; kind == RINGTAIL_TIMEOUT && minutes * 60 <= RECONNECT_SECONDS_MAX + 60; minutes++) {
		kind = ringtail_next(ringtail, &item, 0);
		skipped_ns += 60 * 1000000000ull;
	}
	assert_int_equal(kind, RINGTAIL_ERROR);
	assert_string_equal(ringtail_last_error(ringtail)->code, "no-daemon");
	assert_true(minutes * 60 > RECONNECT_SECONDS_MAX);
	ringtail_close(ringtail);
}

/* Without `reconnect`, and with frames that are damaged, it is over. */
static void lost_for_good(void **state)
{
	static const uint64_t zero[2];
	struct ringtail_subscription wanted = { .reconnect = true };
	struct ringtail *ringtail;

	(void)state;
	answer(zero);
	ringtail = connect_to(
		&(struct fake_step){hello.bytes, hello.size, stream.bytes, stream.size, false}, 1);
	assert_int_equal(ringtail_subscribe(ringtail, NULL, &error), 0);
	assert_int_equal(next(ringtail), RINGTAIL_ERROR);
	assert_string_equal(ringtail_last_error(ringtail)->code, "connection-lost");
	ringtail_close(ringtail);
	fake_stop(&fake);

	maker_batch(&stream, 0, 0, 1000, 10, 3);
	stream.bytes[stream.size - 1] ^= 1;
	ringtail = connect_to(
		&(struct fake_step){hello.bytes, hello.size, stream.bytes, stream.size, true}, 1);
	assert_int_equal(ringtail_subscribe(ringtail, &wanted, &error), 0);
	assert_int_equal(next(ringtail), RINGTAIL_ERROR);
	ringtail_close(ringtail);
	fake_stop(&fake);
}

static size_t tapped;

static void tap(void *context, const uint8_t *frame, size_t bytes)
{
	struct maker *copy = context;

	(void)frame;
	tapped += bytes;
	assert_true(tapped <= copy->size + hello.size);
}

static void tap_sees_all(void **state)
{
	static const uint64_t zero[2];
	struct ringtail *ringtail;

	(void)state;
	answer(zero);
	maker_batch(&stream, 0, 0, 1000, 10, 3);
	maker_bye(&stream, "");
	ringtail = connect_to(
		&(struct fake_step){hello.bytes, hello.size, stream.bytes, stream.size, false}, 1);
	ringtail_set_tap(ringtail, tap, &stream);
	assert_int_equal(ringtail_subscribe(ringtail, NULL, &error), 0);
	while (next(ringtail) == RINGTAIL_EVENT)
		;
	assert_int_equal(tapped, stream.size + hello.size);
	ringtail_close(ringtail);
	fake_stop(&fake);
}

/* The last frame that was tapped. */
struct kept {
	uint8_t bytes[4096];
	size_t size;
};

static void keep_last(void *context, const uint8_t *frame, size_t bytes)
{
	struct kept *kept = context;

	assert_true(bytes <= sizeof(kept->bytes));
	memcpy(kept->bytes, frame, bytes);
	kept->size = bytes;
}

/* A recording ends for good, and says where: a reader of it waits for nothing more. */
static void a_recording_ends_for_good(void **state)
{
	static const uint64_t zero[2];
	struct frame_codec *codec = frame_codec_create(1);
	Ringtail__V1__Bye *bye;
	struct ringtail *ringtail;
	struct frame_header header;
	struct kept kept;
	const uint8_t *body;
	uint8_t raw[4096];

	(void)state;
	answer(zero);
	maker_batch(&stream, 0, 0, 1000, 10, 3);
	maker_watermark(&stream, 2000, 3, 0);
	ringtail = connect_to(&(struct fake_step){hello.bytes, hello.size, stream.bytes, stream.size, true}, 1);
	assert_int_equal(ringtail_subscribe(ringtail, NULL, &error), 0);
	while (ringtail_next(ringtail, &item, 3000) == RINGTAIL_EVENT)
		;
	assert_int_equal(item.kind, RINGTAIL_WATERMARK);
	ringtail_set_tap(ringtail, keep_last, &kept);
	assert_int_equal(ringtail_end_tap(ringtail, "enough", &error), 0);
	assert_int_equal(frame_parse_header(kept.bytes, kept.size, sizeof(raw), &header), FRAME_OK);
	assert_int_equal(header.type, FRAME_BYE);
	assert_int_equal(frame_open(codec, kept.bytes, &header, raw, &body), FRAME_OK);
	bye = ringtail__v1__bye__unpack(NULL, header.raw_bytes, body);
	assert_non_null(bye);
	assert_true(bye->final);
	assert_string_equal(bye->reason, "enough");
	assert_int_equal(bye->end->epoch, 7);
	assert_int_equal(bye->end->position[0]->seq, 3);
	ringtail__v1__bye__free_unpacked(bye, NULL);
	/* Once. */
	kept.size = 0;
	assert_int_equal(ringtail_end_tap(ringtail, "again", &error), 0);
	assert_int_equal(kept.size, 0);
	frame_codec_destroy(codec);
	ringtail_close(ringtail);
	fake_stop(&fake);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(follows), TEST(leaves_with_what_has_come), TEST(refused),
		TEST(bad_subscriptions), TEST(strangers), TEST(nobody), TEST(bye_ends),
		TEST(reconnects), TEST(reconnect_is_refused), TEST(reconnect_is_put_off),
		TEST(a_probe_that_stays_away_is_unknown), TEST(the_next_outage_begins_anew), TEST(gives_up_in_time),
		TEST(restart_is_waited_for), TEST(refused_without_a_word), TEST(lost_for_good),
		TEST(tap_sees_all), TEST(a_recording_ends_for_good),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
