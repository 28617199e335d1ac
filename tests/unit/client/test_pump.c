/* test_pump: counts, ends, summaries and exit codes; the rate line; the waits between tries. */
#include "tests/unit/client/check.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>

#include "client/lib/backoff.h"
#include "client/lib/failure.h"
#include "client/cli/pump.h"
#include "client/cli/rate_line.h"
#include "client/cli/stop.h"
#include "tests/unit/client/maker.h"

static struct maker maker;
static struct out out;
static FILE *messages;
static char *said;
static size_t said_bytes;

static int setup(void **state)
{
	(void)state;
	maker_init(&maker);
	maker_start(&maker);
	check_out(&out);
	messages = tmpfile();
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	close(out.fd);
	fclose(messages);
	free(said);
	said = NULL;
	maker_fini(&maker);
	return 0;
}

static enum exit_code run_hosts(struct pump pump, struct pump_host *host, size_t hosts)
{
	enum exit_code code;

	pump.host = host;
	pump.hosts = hosts;
	pump.out = &out;
	pump.messages = messages;
	code = pump_run(&pump);
	for (size_t i = 0; i < hosts; i++)
		ringtail_close(host[i].ringtail);
	fflush(messages);
	said_bytes = (size_t)ftell(messages);
	rewind(messages);
	free(said);
	said = calloc(1, said_bytes + 1);
	assert_int_equal(fread(said, 1, said_bytes, messages), said_bytes);
	rewind(messages);
	assert_int_equal(ftruncate(fileno(messages), 0), 0);
	return code;
}

static void open_host(struct pump_host *host, size_t bytes, bool count_only)
{
	assert_int_equal(ringtail_open(maker_file(&maker, bytes), "test.rt", count_only, &host->ringtail, NULL), 0);
}

static enum exit_code run(struct pump pump, bool count_only)
{
	struct pump_host host = { .label = NULL };

	open_host(&host, maker.size, count_only);
	return run_hosts(pump, &host, 1);
}

static unsigned lines(const char *text)
{
	unsigned n = 0;

	for (; *text; text++)
		n += *text == '\n';
	return n;
}

static void good(void **state)
{
	(void)state;
	maker_batch(&maker, 0, 0, 1000, 10, 5);
	maker_watermark(&maker, 2000, 5, 0);
	maker_bye(&maker, "all");
	assert_int_equal(run((struct pump){ .ops = &print_json, .summary = SUMMARY_JSON }, false),
			 EXIT_GOOD);
	assert_int_equal(lines(check_text(&out)), 5);
	assert_non_null(strstr(said, "{\"events\":5,\"lost\":0,\"frames\":6,\"wire_bytes\":"));
	assert_non_null(strstr(said, ",\"ledger\":\"balanced\",\"filtered\":0,\"gaps\":0,\"maps\":0}\n"));
	assert_int_equal(lines(said), 1);
	assert_int_equal(run((struct pump){ .ops = NULL }, true), EXIT_GOOD);
	assert_string_equal(said, "");
}

/* A Bye's reason is the daemon's, and cannot drive a terminal. */
static void a_last_word(void **state)
{
	(void)state;
	maker_bye(&maker, "\033[2Jgone\n");
	assert_int_equal(run((struct pump){ .ops = &print_text, .resumable = true }, false),
			 EXIT_GOOD);
	assert_non_null(strstr(said, "the daemon ended the stream: ?[2Jgone?\n"));
}

static void exactly_count(void **state)
{
	(void)state;
	maker_batch(&maker, 0, 0, 1000, 10, 500);
	maker_watermark(&maker, 100000, 500, 0);
	for (uint64_t n = 1; n <= 500; n += 83) {
		assert_int_equal(run((struct pump){.ops = &print_text,
						   .events_max = n,
						   .summary = SUMMARY_TEXT,
						   .resumable = true},
				     false),
				 EXIT_GOOD);
		assert_int_equal(lines(check_text(&out)), n);
		assert_non_null(strstr(said, "resume with: --since 01020304-"));
	}
}

static void lost(void **state)
{
	(void)state;
	maker_begin(&maker, 0, 0, 1000);
	batch_encode_loss(maker.encoder, 5, 0, 1);
	maker_end(&maker);
	maker_bye(&maker, "all");
	assert_int_equal(run((struct pump){.ops = NULL, .summary = SUMMARY_JSON}, false),
			 EXIT_LOST);
	assert_non_null(strstr(said, "\"lost\":5"));
	assert_non_null(strstr(said, "balanced"));
	assert_int_equal(run((struct pump){ .ops = NULL }, true), EXIT_LOST);
	maker.size = 0;
	maker_start(&maker);
	maker_gap(&maker, 0, 0, 0, 0, 3, 8);	/* of no known size, but a gap */
	assert_int_equal(run((struct pump){.ops = NULL, .summary = SUMMARY_JSON}, true), EXIT_LOST);
	assert_non_null(strstr(said, "\"lost\":0,"));
	assert_non_null(strstr(said, ",\"gaps\":1,\"maps\":0}\n"));
	assert_int_equal(run((struct pump){.ops = NULL, .summary = SUMMARY_TEXT}, true), EXIT_LOST);
	assert_non_null(strstr(said, ", 0 lost and an unknown number (in 1 gap); "));
	maker_gap(&maker, 1, 0, 0, 0, 3, 8);
	maker_gap(&maker, 1, 0, 4, 0, 3, 7);	/* how many attempts this was is known */
	assert_int_equal(run((struct pump){.ops = NULL, .summary = SUMMARY_TEXT}, true), EXIT_LOST);
	assert_non_null(strstr(said, ", 4 lost and an unknown number (in 2 gaps); "));
	maker.size = 0;
	maker_start(&maker);
	maker_batch(&maker, 0, 7, 1000, 10, 5);
	assert_int_equal(run((struct pump){.ops = NULL, .summary = SUMMARY_JSON}, true), EXIT_LOST);
	assert_non_null(strstr(said, "\"ledger\":\"residual 7\","));
	assert_int_equal(run((struct pump){.ops = NULL, .summary = SUMMARY_TEXT}, true), EXIT_LOST);
	assert_non_null(strstr(said, "ledger residual 7\n"));
}

static void fails(void **state)
{
	int whole;

	(void)state;
	maker_batch(&maker, 0, 0, 1000, 10, 5);
	whole = (int)maker.size;
	maker_batch(&maker, 0, 5, 2000, 10, 5);
	maker.size -= 2;
	assert_int_equal(run((struct pump){ .ops = &print_text, .summary = SUMMARY_JSON }, false),
			 EXIT_FAILED);
	assert_int_equal(lines(check_text(&out)), 5);
	assert_non_null(strstr(said, "test.rt is cut off: of the frame at byte"));
	assert_non_null(strstr(said, "5 events were read before that\n"));
	assert_non_null(strstr(said, "\"events\":5"));
	maker.size += 2;
	maker.bytes[whole + 20] ^= 1;
	assert_int_equal(run((struct pump){ .ops = &print_text }, false), EXIT_FAILED);
	assert_int_equal(lines(check_text(&out)), 5);
	assert_non_null(strstr(said, "byte"));
}

/* A reader that goes away is no failure; a disk that is full is. */
static void output_fails(void **state)
{
	int ends[2], kept = out.fd, full = open("/dev/full", O_WRONLY | O_CLOEXEC);

	(void)state;
	signal(SIGPIPE, SIG_IGN);
	maker_batch(&maker, 0, 0, 1000, 10, 5);
	maker_bye(&maker, "all");
	assert_int_equal(pipe(ends), 0);
	close(ends[0]);
	out_init(&out, ends[1]);
	assert_int_equal(run((struct pump){ .ops = &print_text }, false), EXIT_GOOD);
	assert_string_equal(said, "");
	close(ends[1]);
	assert_true(full >= 0);
	out_init(&out, full);
	assert_int_equal(run((struct pump){ .ops = &print_text }, false), EXIT_FAILED);
	assert_string_equal(said, "tracectl: cannot write: No space left on device [cannot-write]\n");
	close(full);
	out_init(&out, kept);
}

/* What could not be written, be it a recording, has to come again: its place is not kept. */
static void output_fails_and_no_place_is_kept(void **state)
{
	char directory[] = "/tmp/test_pump-XXXXXX", path[sizeof(directory) + 8];
	int kept = out.fd, full = open("/dev/full", O_WRONLY | O_CLOEXEC);
	static struct out also;
	struct pump pump = { .ops = &print_text, .also = &also, .cursor_path = path };

	(void)state;
	assert_non_null(mkdtemp(directory));
	snprintf(path, sizeof(path), "%s/place", directory);
	/* So many that the place is to be kept on the way, where it shows first that a recording is full. */
	maker_batch(&maker, 0, 0, 1000, 10, 5000);
	maker_watermark(&maker, 100000, 5000, 0);
	maker_bye(&maker, "all");
	assert_true(full >= 0);
	for (unsigned recording = 0; recording < 2; recording++) {
		out_init(&out, recording ? kept : full);
		out_init(&also, recording ? full : kept);
		out_char(&also, 'x');
		assert_int_equal(run(pump, false), EXIT_FAILED);
		assert_int_not_equal(access(path, F_OK), 0);
	}
	close(full);
	out_init(&out, kept);
	out_init(&also, kept);
	assert_int_equal(run(pump, false), EXIT_GOOD);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(rmdir(directory), 0);
}

/* The descriptor of a signal ends it, and what is here is still shown. */
static void stopped(void **state)
{
	struct pump_host host = { .label = NULL };
	struct pump pump = { .host = &host, .hosts = 1, .ops = &print_text, .out = &out, .messages = messages };
	int ends[2], stop;

	(void)state;
	maker_batch(&maker, 0, 0, 1000, 10, 5);
	maker_bye(&maker, "all");
	assert_int_equal(pipe(ends), 0);
	assert_int_equal(write(ends[1], maker.bytes, maker.size), maker.size);
	assert_int_equal(ringtail_open(ends[0], "pipe", false, &host.ringtail, NULL), 0);
	stop = stop_init();
	assert_true(stop >= 0);
	ringtail_set_interrupt(host.ringtail, stop);
	pump.duration_ns = 20000000;		/* nothing more comes: it ends by time */
	assert_int_equal(pump_run(&pump), EXIT_GOOD);
	assert_int_equal(lines(check_text(&out)), 5);
	ringtail_close(host.ringtail);
	close(ends[1]);

	assert_int_equal(pipe(ends), 0);
	assert_int_equal(write(ends[1], maker.bytes, maker.size), maker.size);
	assert_int_equal(ringtail_open(ends[0], "pipe", false, &host.ringtail, NULL), 0);
	ringtail_set_interrupt(host.ringtail, stop);
	pump.duration_ns = 0;
	raise(SIGTERM);
	assert_int_equal(pump_run(&pump), EXIT_GOOD);
	ringtail_close(host.ringtail);
	close(ends[1]);
}

static unsigned occurrences(const char *text, const char *word)
{
	unsigned n = 0;

	for (; (text = strstr(text, word)); text += strlen(word))
		n++;
	return n;
}

/* Each event says whose it is, and the totals are of all. */
static void several_hosts(void **state)
{
	struct pump_host host[3] = { { .label = (char *)"red" }, { .label = (char *)"gr\033een" },
				     { .label = (char *)"blue" } };

	const char *text;

	(void)state;
	maker_batch(&maker, 0, 0, 1000, 10, 200);
	maker_watermark(&maker, 100000, 200, 0);
	maker_bye(&maker, "all");
	for (size_t i = 0; i < 3; i++)
		open_host(&host[i], maker.size, false);
	assert_int_equal(run_hosts((struct pump){ .ops = &print_json, .summary = SUMMARY_JSON }, host, 3), EXIT_GOOD);
	text = check_text(&out);
	assert_int_equal(occurrences(text, "{\"host\":\"red\","), 200);
	assert_int_equal(occurrences(text, "{\"host\":\"gr\\u001been\","), 200);
	assert_int_equal(occurrences(text, "{\"host\":\"blue\","), 200);
	assert_non_null(strstr(said, "{\"events\":600,\"lost\":0,\"frames\":18,"));
	for (size_t i = 0; i < 3; i++)
		open_host(&host[i], maker.size, false);
	assert_int_equal(run_hosts((struct pump){ .ops = &print_text, .events_max = 300, .resumable = true,
						  .summary = SUMMARY_TEXT }, host, 3), EXIT_GOOD);
	text = check_text(&out);
	assert_int_equal(lines(text), 300);
	assert_null(strchr(text, '\033'));
	assert_null(strstr(said, "resume with"));
}

/* Who fails is named, and ends nobody else's stream. */
static void one_host_of_two_fails(void **state)
{
	struct pump_host host[2] = { { .label = (char *)"whole" }, { .label = (char *)"broken" } };

	(void)state;
	maker_batch(&maker, 0, 0, 1000, 10, 5);
	maker_watermark(&maker, 2000, 5, 0);
	maker_bye(&maker, "all");
	for (size_t failing = 0; failing < 2; failing++) {
		open_host(&host[!failing], maker.size, false);
		maker.bytes[maker.size - 1] ^= 1;
		open_host(&host[failing], maker.size, false);
		maker.bytes[maker.size - 1] ^= 1;
		host[failing].label = (char *)"broken";
		host[!failing].label = (char *)"whole";
		assert_int_equal(run_hosts((struct pump){ .ops = &print_text }, host, 2), EXIT_FAILED);
		assert_non_null(strstr(said, "tracectl: broken failed:\ntracectl: test.rt: "));
		assert_null(strstr(said, "whole"));
		assert_int_equal(occurrences(check_text(&out), "whole "), 5);
	}
}

static void rates(void **state)
{
	struct ringtail_totals totals = { .events = 1234567, .lost = 0 };
	struct rate_line line;
	char text[320];

	(void)state;
	rate_line_format(text, sizeof(text), 51200, 2048, &totals);
	assert_string_equal(text,
			    "51.2k events/s  2.00 KiB/s  1.23M events  0 lost  ledger balanced");
	totals.residual = 1;
	rate_line_format(text, sizeof(text), 0, 0, &totals);
	assert_non_null(strstr(text, "ledger does not close"));
	rate_line_init(&line, messages);		/* not a terminal: never */
	assert_int_equal(rate_line_update(&line, &totals, 1), -1);
	rate_line_clear(&line);
	line.to = messages;				/* as if it were one */
	assert_int_equal(rate_line_update(&line, &totals, 1000000000), RATE_LINE_INTERVAL_MS);
	assert_int_equal(rate_line_update(&line, &totals, 1200000000), 50);
	totals.events += 500;
	assert_false(rate_line_due(&line, 1249999999));
	assert_true(rate_line_due(&line, 1250000000));
	assert_int_equal(rate_line_update(&line, &totals, 1500000000), RATE_LINE_INTERVAL_MS);
	rate_line_clear(&line);
	assert_int_equal(rate_line_update(&line, &totals, 1600000000), 150);	/* as it was */
	totals.unknown = 1;
	rate_line_format(text, sizeof(text), 0, 0, &totals);
	assert_non_null(strstr(text, "  0 and an unknown number lost  "));
	rate_line_clear(&line);
	rewind(messages);
	assert_true(fgets(text, sizeof(text), messages) != NULL);
	assert_string_equal(text,
			    "\r1.00k events/s  0 B/s  1.24M events  0 lost  ledger does not close"
			    "\033[K\r\033[K"
			    "\r1.00k events/s  0 B/s  1.24M events  0 lost  ledger does not close"
			    "\033[K\r\033[K");
}

static void waits(void **state)
{
	struct backoff one, other;
	unsigned same = 0;

	(void)state;
	backoff_init(&one, 1);
	backoff_init(&other, 99);
	for (unsigned i = 0; i < 40; i++) {
		uint32_t ceiling = i < 5 ? RECONNECT_DELAY_MS_MIN << i : RECONNECT_DELAY_MS_MAX;
		uint32_t ms = backoff_next_ms(&one);

		assert_true(ms >= ceiling / 2 && ms <= ceiling);
		same += ms == backoff_next_ms(&other);
	}
	assert_true(same < 10);
	backoff_reset(&one);
	assert_true(backoff_next_ms(&one) <= RECONNECT_DELAY_MS_MIN);
}

/* What the other side says cannot drive a terminal, and the caret is where it should be. */
static void failures(void **state)
{
	struct ringtail_error error;
	char *text;
	size_t bytes;
	FILE *to = open_memstream(&text, &bytes);

	(void)state;
	failure_set(&error, EINVAL, "bad-filter", "no \033[31m%s", "color");
	failure_hint(&error, "do\nthis");
	error.column = 5;
	failure_print(to, &error, "pid = 3");
	error.column = 500;
	failure_print(to, &error, "pid = 3");
	fclose(to);
	assert_string_equal(text, "tracectl: no ?[31mcolor [bad-filter]\n    pid = 3\n        ^\n"
			    "    do?this\ntracectl: no ?[31mcolor [bad-filter]\n    do?this\n");
	free(text);
	assert_int_equal(failure_set(NULL, EINVAL, "x", "y"), -EINVAL);
	failure_hint(NULL, "z");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(good), TEST(exactly_count), TEST(lost), TEST(fails), TEST(output_fails),
		TEST(good), TEST(exactly_count), TEST(lost), TEST(fails), TEST(output_fails_and_no_place_is_kept),
		TEST(several_hosts), TEST(one_host_of_two_fails), TEST(stopped), TEST(rates), TEST(waits),
		TEST(failures), TEST(a_last_word),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
