/* test_pump: counts, ends, summaries and exit codes; the rate line; the waits between tries. */
#include "tests/unit/client/check.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "proto/backoff.h"
#include "client/lib/failure.h"
#include "client/lib/lanes.h"
#include "client/lib/limits.h"
#include "client/cli/cursor_file.h"
#include "client/cli/pump.h"
#include "client/cli/progress.h"
#include "client/cli/rate_line.h"
#include "client/cli/stop.h"
#include "client/cli/who.h"
#include "tests/unit/client/maker.h"

static struct maker maker;
static struct out out;

/* How often a place was kept, and acknowledged: each leg of a pump, a thread, counts here. */
static atomic_uint saves, acks;

int __real_cursor_file_save(const char *path, const char *cursor, uint64_t output_bytes,
			    struct ringtail_error *error);
int __wrap_cursor_file_save(const char *path, const char *cursor, uint64_t output_bytes,
			    struct ringtail_error *error);
int __wrap_ringtail_ack(struct ringtail *ringtail, struct ringtail_error *error);

int __wrap_cursor_file_save(const char *path, const char *cursor, uint64_t output_bytes,
			    struct ringtail_error *error)
{
	saves++;
	return __real_cursor_file_save(path, cursor, output_bytes, error);
}

int __wrap_ringtail_ack(struct ringtail *ringtail, struct ringtail_error *error)
{
	(void)ringtail, (void)error;
	acks++;
	return 0;
}

/* Each look at the clock, of any thread, is so much later than the one before. */
static _Atomic uint64_t skipped_ns, step_ns;

uint64_t __real_conn_now_ns(void);
uint64_t __wrap_conn_now_ns(void);
uint64_t __wrap_conn_now_ns(void)
{
	skipped_ns += step_ns;
	return __real_conn_now_ns() + skipped_ns;
}

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

static void take_messages(void)
{
	fflush(messages);
	said_bytes = (size_t)ftell(messages);
	rewind(messages);
	free(said);
	said = calloc(1, said_bytes + 1);
	assert_int_equal(fread(said, 1, said_bytes, messages), said_bytes);
	rewind(messages);
	assert_int_equal(ftruncate(fileno(messages), 0), 0);
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
	take_messages();
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

static unsigned occurrences(const char *text, const char *word)
{
	unsigned n = 0;

	for (; (text = strstr(text, word)); text += strlen(word))
		n++;
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
	assert_non_null(strstr(said, ",\"ledger\":\"balanced\",\"filtered\":0,\"gaps\":0,\"maps\":0,\"duplicate\":0}\n"));
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
	assert_non_null(strstr(said, ",\"gaps\":1,\"maps\":0,\"duplicate\":0}\n"));
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

/* What has come is kept and acknowledged; as long as nothing more comes, that is all. */
static void a_place_is_kept_once_for_what_came(void **state)
{
	char directory[] = "/tmp/test_pump-XXXXXX", path[sizeof(directory) + 8];
	struct pump pump = { .ops = NULL, .cursor_path = path, .acknowledges = true };

	(void)state;
	assert_non_null(mkdtemp(directory));
	snprintf(path, sizeof(path), "%s/place", directory);
	maker_batch(&maker, 0, 0, 1000, 10, 5);
	maker_bye(&maker, "all");
	saves = acks = 0;
	/* Whoever counts is asked after each batch. */
	assert_int_equal(run(pump, true), EXIT_GOOD);
	assert_int_equal(acks, 1);
	assert_int_equal(saves, 1);
	assert_int_equal(run(pump, true), EXIT_GOOD);
	assert_int_equal(acks, 2);
	assert_int_equal(saves, 2);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(rmdir(directory), 0);
}

/* While it goes on, too: a daemon keeps on its disk what is not acknowledged. */
static void what_came_is_acknowledged_in_time(void **state)
{
	enum { BATCHES = 20 };
	struct pump pump = { .acknowledges = true };

	(void)state;
	for (unsigned i = 0; i < BATCHES; i++) {
		maker_batch(&maker, 0, i, 1000 + 100 * i, 10, 1);
		maker_watermark(&maker, 1050 + 100 * i, i + 1, 0);
	}
	maker_bye(&maker, "all");
	acks = 0;
	step_ns = ACK_INTERVAL_MS * 1000000ull;
	assert_int_equal(run(pump, true), EXIT_GOOD);
	step_ns = 0;
	assert_in_range(acks, BATCHES / 2, 2 * BATCHES);
}

/* Whoever comes back finds an older place, from which the daemon has to have everything. */
static void what_cannot_be_kept_is_not_acknowledged(void **state)
{
	char directory[] = "/tmp/test_pump-XXXXXX", path[sizeof(directory) + 8], new[sizeof(path) + 8];
	struct pump pump = { .ops = NULL, .cursor_path = path, .acknowledges = true };
	int fd;

	(void)state;
	assert_non_null(mkdtemp(directory));
	snprintf(path, sizeof(path), "%s/place", directory);
	snprintf(new, sizeof(new), "%s.new", path);
	fd = open(path, O_WRONLY | O_CREAT, 0600);
	assert_true(fd >= 0);
	close(fd);
	assert_int_equal(mkdir(new, 0700), 0);	/* where the new file would be */
	maker_batch(&maker, 0, 0, 1000, 10, 5);
	maker_bye(&maker, "all");
	saves = acks = 0;
	assert_int_equal(run(pump, true), EXIT_FAILED);
	assert_int_equal(saves, 1);
	assert_int_equal(acks, 0);
	assert_non_null(strstr(said, "[cursor-file]"));
	assert_int_equal(rmdir(new), 0);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(rmdir(directory), 0);
}

static void a_gap_of_no_known_size_is_a_loss(void **state)
{
	(void)state;
	maker_batch(&maker, 0, 0, 1000, 10, 5);
	maker_gap(&maker, 0, 5, 5, 0, RINGTAIL__V1__LOSS_STAGE__LOSS_SPOOL,
		  RINGTAIL__V1__LOSS_REASON__REASON_RESTART);
	maker_bye(&maker, "all");
	assert_int_equal(run((struct pump){ .ops = NULL, .summary = SUMMARY_TEXT }, false), EXIT_LOST);
	assert_non_null(strstr(said, " 0 lost and an unknown number (in 1 gap)"));
}

static void the_longest_duration_is_for_ever(void **state)
{
	(void)state;
	maker_batch(&maker, 0, 0, 1000, 10, 5000);
	maker_bye(&maker, "all");
	assert_int_equal(run((struct pump){ .ops = NULL, .resumable = true, .duration_ns = UINT64_MAX }, false),
			 EXIT_GOOD);
	assert_non_null(strstr(said, "the daemon ended the stream: all"));
}

/* A catalog of what tells of maps, and of another. */
static void send_map_catalog(void)
{
	static const uint32_t id[2] = { 0x0105, MAKER_OTHER };
	static const unsigned fields[2] = { 10, 1 };
	Ringtail__V1__Catalog catalog = RINGTAIL__V1__CATALOG__INIT;
	Ringtail__V1__Probe probe[2], *probes[2] = { &probe[0], &probe[1] };
	Ringtail__V1__Field field, *list[10];

	ringtail__v1__field__init(&field);
	field.name = "field";
	field.bits = 64;
	for (unsigned i = 0; i < 10; i++)
		list[i] = &field;
	for (unsigned i = 0; i < 2; i++) {
		ringtail__v1__probe__init(&probe[i]);
		probe[i].id = id[i];
		probe[i].provider = i ? "tracepoint" : "process";
		probe[i].function = i ? "net" : "map";
		probe[i].name = i ? "net_dev_xmit" : "executable";
		probe[i].field = list;
		probe[i].n_field = fields[i];
	}
	catalog.probe = probes;
	catalog.n_probe = 2;
	maker_message(&maker, FRAME_CATALOG, &catalog.base);
}

/* Maps that came for the names of stacks alone are not among the events that -n asks for. */
static void maps_for_names_do_not_count(void **state)
{
	static const uint64_t nothing[10];

	(void)state;
	send_map_catalog();
	maker_begin(&maker, 0, 0, 1000);
	for (unsigned i = 0; i < 20; i++)
		maker_event(&maker, i % 2 ? MAKER_OTHER : 0x0105, 100, 1000 + i, nothing, i % 2 ? 1 : 10);
	maker_end(&maker);
	maker_watermark(&maker, 100000, 20, 0);
	assert_int_equal(run((struct pump){ .ops = &print_json, .events_max = 4, .summary = SUMMARY_JSON }, false),
			 EXIT_GOOD);
	assert_int_equal(occurrences(check_text(&out), "net_dev_xmit"), 4);
	assert_non_null(strstr(said, "{\"events\":4,"));
	assert_non_null(strstr(said, ",\"maps\":4,\"duplicate\":0}"));
	assert_int_equal(run((struct pump){ .ops = &print_json, .events_max = 4, .shows_maps = true }, false),
			 EXIT_GOOD);
	assert_int_equal(occurrences(check_text(&out), "net_dev_xmit"), 2);
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

/* ---- Lanes: all hosts of one stream ---------------------------------------------------------- */

static void consign(uint32_t lane, const char *host)
{
	Ringtail__V1__Consign message = RINGTAIL__V1__CONSIGN__INIT;

	message.lane = lane;
	message.host = (char *)host;
	maker_message(&maker, FRAME_CONSIGN, &message.base);
}

/* A host with so many events; `lost` attempts are missing behind them. */
static void put_lane(uint32_t lane, const char *host, unsigned events, unsigned lost)
{
	consign(lane, host);
	maker_hello(&maker, 1, 7);
	maker_catalog(&maker);
	maker_subscribed(&maker, 1, (const uint64_t[]){ 0 });
	maker_batch(&maker, 0, 0, 1000, 10, events);
	if (lost)
		maker_gap(&maker, 0, events, events + lost, 0, 3, RINGTAIL__V1__LOSS_REASON__REASON_HISTORY_GONE);
	maker_bye(&maker, "all");
}

static enum exit_code run_lanes(struct pump pump, const struct lanes_wanted *wanted)
{
	struct ringtail_error error;
	enum exit_code code;

	assert_int_equal(lanes_open(maker_file(&maker, maker.size), "lanes", wanted, &pump.lanes, &error), 0);
	pump.out = &out;
	pump.messages = messages;
	code = pump_run(&pump);
	lanes_close(pump.lanes);
	take_messages();
	return code;
}

/* The totals are of all; those that lost something are named, the worst first. */
static void hosts_that_lost_something_are_named(void **state)
{
	static const struct lanes_wanted everything;
	const char *text;
	char host[16];

	(void)state;
	maker.size = 0;
	put_lane(0, "whole", 100, 0);
	put_lane(1, "lossy", 10, 5);
	put_lane(2, "worst", 20, 50);
	assert_int_equal(run_lanes((struct pump){ .ops = &print_json, .summary = SUMMARY_JSON }, &everything), EXIT_LOST);
	text = check_text(&out);
	assert_int_equal(occurrences(text, "{\"host\":\"whole\","), 100);
	assert_int_equal(occurrences(text, "{\"host\":\"worst\","), 20 + 1);	/* and the gap */
	assert_non_null(strstr(said, "tracectl: worst: 50 lost, 1 gaps\ntracectl: lossy: 5 lost, 1 gaps\n"));
	assert_null(strstr(said, "tracectl: whole"));
	assert_non_null(strstr(said, "{\"events\":130,\"lost\":55,"));
	assert_non_null(strstr(said, "\"hosts\":3,\"lossy\":[{\"host\":\"worst\",\"lost\":50,\"gaps\":1,\"unknown\":0,"
				     "\"residual\":0,\"cut_short\":false},{\"host\":\"lossy\","));
	maker.size = 0;
	for (unsigned i = 0; i < FLEET_ROWS + 2; i++) {
		snprintf(host, sizeof(host), "host-%u", i);
		put_lane(i, host, 1, 1 + i);
	}
	assert_int_equal(run_lanes((struct pump){ .ops = &print_text, .summary = SUMMARY_TEXT }, &everything), EXIT_LOST);
	assert_int_equal(occurrences(said, " lost, 1 gaps\n"), FLEET_ROWS);
	assert_null(strstr(said, "host-1:"));
	assert_non_null(strstr(said, "so have 2 hosts more"));
	check_text(&out);
}

/* A host without that probe or field is no failure, if others have it. */
static void hosts_that_record_nothing_of_it_are_named(void **state)
{
	static const char *const probe = "syscall:openat:call";
	const struct lanes_wanted wanted = { .probe = &probe, .probes = 1 };
	static const Ringtail__V1__Catalog nothing = RINGTAIL__V1__CATALOG__INIT;

	(void)state;
	maker.size = 0;
	put_lane(0, "with", 100, 0);
	consign(1, "without");
	maker_hello(&maker, 1, 7);
	maker_message(&maker, FRAME_CATALOG, &nothing.base);
	maker_bye(&maker, "all");
	assert_int_equal(run_lanes((struct pump){ .ops = &print_json }, &wanted), EXIT_GOOD);
	assert_non_null(strstr(said, "tracectl: 1 of 2 hosts record nothing of that: without\n"));
	check_text(&out);
	maker.size = 0;
	consign(0, "without");
	maker_hello(&maker, 1, 7);
	maker_message(&maker, FRAME_CATALOG, &nothing.base);
	maker_bye(&maker, "all");
	assert_int_equal(run_lanes((struct pump){ .ops = &print_json }, &wanted), EXIT_FAILED);
	assert_non_null(strstr(said, "without failed"));
	assert_string_equal(check_text(&out), "");
}

/* -n is of all hosts together; one that is damaged ends nobody else. */
static void lanes_end_together(void **state)
{
	static const struct lanes_wanted everything;

	(void)state;
	maker.size = 0;
	put_lane(0, "red", 100, 0);
	put_lane(1, "blue", 100, 0);
	assert_int_equal(run_lanes((struct pump){ .ops = &print_text, .events_max = 150 }, &everything), EXIT_GOOD);
	assert_int_equal(lines(check_text(&out)), 150);
	assert_int_equal(run_lanes((struct pump){ .ops = &print_text, .events_max = 50 }, &everything), EXIT_GOOD);
	assert_int_equal(lines(check_text(&out)), 50);
	consign(0, "red");
	maker_raw(&maker, FRAME_BATCH, (const uint8_t[]){ 0xff, 0xff }, 2);
	put_lane(2, "green", 10, 0);
	assert_int_equal(run_lanes((struct pump){ .ops = &print_text }, &everything), EXIT_FAILED);
	assert_non_null(strstr(said, "tracectl: red failed:\n"));
	assert_int_equal(occurrences(check_text(&out), "green "), 10);
	consign(7, "nobody");
	assert_int_equal(run_lanes((struct pump){ .ops = &print_text }, &everything), EXIT_FAILED);
	assert_non_null(strstr(said, "its lane has no host"));
	check_text(&out);
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

static char *said_progress(uint64_t all, uint64_t done, bool is_past, double seconds)
{
	static char text[PROGRESS_TEXT_BYTES];
	const struct progress progress = {.all = all, .done = done, .is_past = is_past, .seconds = seconds};

	return progress_format(&progress, text);
}

/* A share of what is there, and as much time again for as much again. */
static void says_how_far_it_is(void **state)
{
	(void)state;
	assert_string_equal(said_progress(0, 5000, false, 1), "");
	assert_string_equal(said_progress(4096, 0, false, 1), "0 % of 4.00 KiB");
	assert_string_equal(said_progress(4096, 1024, false, 2), "25 % of 4.00 KiB, 6.00s left");
	assert_string_equal(said_progress(4096, 4096, false, 2), "100 % of 4.00 KiB, 0ns left");
	/* It grows meanwhile. */
	assert_string_equal(said_progress(4096, 9000, false, 2), "100 % of 4.00 KiB, 0ns left");
	assert_string_equal(said_progress(8000000000, 2000000000, true, 1), "25 % of the past, 3.00s left");
}

/* Whoever sends SIGUSR1 gets a line, once, and the process goes on. */
static void a_signal_asks_how_far_it_is(void **state)
{
	(void)state;
	maker_batch(&maker, 0, 0, 1000, 10, 5);
	maker_batch(&maker, 0, 5, 2000, 10, 5);
	maker_bye(&maker, "all");
	progress_listen();
	assert_int_equal(raise(SIGUSR1), 0);
	assert_int_equal(run((struct pump){ .ops = &print_text, .bytes_all = maker.size }, false), EXIT_GOOD);
	assert_int_equal(lines(check_text(&out)), 10);
	assert_int_equal(lines(said), 1);
	assert_memory_equal(said, "tracectl: ", 10);
	assert_non_null(strstr(said, " % of "));
	assert_non_null(strstr(said, " left; "));
	assert_non_null(strstr(said, " events, 0 lost\n"));

	assert_int_equal(run((struct pump){ .ops = &print_text, .bytes_all = maker.size }, false), EXIT_GOOD);
	check_text(&out);
	assert_int_equal(said_bytes, 0);
}

/* What others did is not chosen: the summary tells so, and it is acknowledged with the rest. */
static void events_of_others_are_acknowledged(void **state)
{
	struct who who = { .tree = tree_create() };
	struct pump pump = { .ops = &print_text, .who = &who, .acknowledges = true, .summary = SUMMARY_JSON };

	(void)state;
	assert_non_null(who.tree);
	maker_batch(&maker, 0, 0, 1000, 10, 5);
	maker_bye(&maker, "all");
	acks = 0;
	assert_int_equal(run(pump, false), EXIT_GOOD);
	assert_int_equal(acks, 1);
	assert_int_equal(lines(check_text(&out)), 0);
	assert_non_null(strstr(said, "{\"events\":0,\"lost\":0,"));
	assert_non_null(strstr(said, "\"filtered\":5,"));
	tree_destroy(who.tree);
}

static void waits(void **state)
{
	struct backoff one, other;
	unsigned same = 0;

	(void)state;
	backoff_init(&one, 1, RECONNECT_DELAY_MS_MIN, RECONNECT_DELAY_MS_MAX);
	backoff_init(&other, 99, RECONNECT_DELAY_MS_MIN, RECONNECT_DELAY_MS_MAX);
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
		TEST(good), TEST(exactly_count), TEST(lost), TEST(fails), TEST(output_fails_and_no_place_is_kept),
		TEST(several_hosts), TEST(one_host_of_two_fails),
		TEST(hosts_that_lost_something_are_named), TEST(hosts_that_record_nothing_of_it_are_named),
		TEST(lanes_end_together), TEST(stopped), TEST(rates), TEST(says_how_far_it_is),
		TEST(a_signal_asks_how_far_it_is), TEST(waits),
		TEST(failures), TEST(a_last_word), TEST(a_place_is_kept_once_for_what_came),
		TEST(what_cannot_be_kept_is_not_acknowledged), TEST(what_came_is_acknowledged_in_time),
		TEST(a_gap_of_no_known_size_is_a_loss),
		TEST(events_of_others_are_acknowledged), TEST(the_longest_duration_is_for_ever), TEST(maps_for_names_do_not_count), TEST(output_fails),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
