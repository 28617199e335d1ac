/*
 * One process, looked at closer, over a whole engine: exactly its calls, files and peers, each name as JSON can have
 * it; names only for whom the daemon would stream them to; of few processes at once, for each role; and nothing is recorded
 * when nobody looks any more.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include <arpa/inet.h>
#include <event2/event.h>
#include <sys/stat.h>

#include "daemon/base/counters.h"
#include "daemon/base/limits.h"
#include "daemon/http/closeup.h"
#include "tests/lib/failing_memory.h"
#include "tests/unit/daemon/small_engine.h"

#define PID	4711u
#define OTHER	4712u			/* another process */
#define CALLS	7			/* of each thing that is done */
#define IDLE_S	(HTTP_CLOSEUP_IDLE_NS / NS_PER_S)

/* ---- Time ------------------------------------------------------------------------------------------- */

static uint64_t later_ns;		/* than the clock says */

uint64_t __real_clock_monotonic(void);
uint64_t __wrap_clock_monotonic(void);
uint64_t __wrap_clock_monotonic(void)
{
	return __real_clock_monotonic() + later_ns;
}

/* Timers of a closeup's patience run out when a test says so: what was set last, and how often any was. */
static struct event *patience;
static unsigned patiences;

int __real_event_add(struct event *event, const struct timeval *in);
int __wrap_event_add(struct event *event, const struct timeval *in);
int __wrap_event_add(struct event *event, const struct timeval *in)
{
	if (!in || in->tv_sec != (time_t)IDLE_S || in->tv_usec)
		return __real_event_add(event, in);
	patience = event;
	patiences++;
	return __real_event_add(event, &(struct timeval){.tv_sec = 3600});
}

/* ---- What is done, and looked at --------------------------------------------------------------------- */

static struct engine e;
static struct closeups *closeups;
static char shown[256 << 10];		/* the last answer */
static struct error error;

static int open_closeups(void **state)
{
	(void)state;
	small_catalog_get();
	small_filename.c_type = (char *)"const char *";
	small_buf.c_type = (char *)"struct sockaddr *";
	small_flags.c_type = (char *)"int";
	engine_viewers = (struct viewer_bounds){.strings = true, .stacks = true, .subscriptions = SUBSCRIPTIONS_MAX};
	later_ns = 0;
	engine_open(&e, 2, 1, 8);
	closeups = closeups_create(&(struct ask_watches_config){
		.base = e.base, .fanout = e.fanout, .codec = e.codec, .catalog = small_catalog_get()});
	assert_non_null(closeups);
	return 0;
}

static int close_closeups(void **state)
{
	(void)state;
	closeups_destroy(closeups);
	engine_close(&e);
	return 0;
}

static int look(uint32_t pid, enum role role)
{
	FILE *out = fmemopen(shown, sizeof(shown), "w");
	int err;

	assert_non_null(out);
	error = (struct error){0};
	memset(shown, 0, sizeof(shown));
	err = closeups_write(closeups, pid, role, out, &error);
	fclose(out);
	assert_int_equal(*shown != 0, err == 0);
	return err;
}

static bool is_shown(const char *text)
{
	return strstr(shown, text);
}

/* As JSON has them. */
#define assert_shown(text) do { if (!is_shown(text)) fail_msg("no %s in %s", text, shown); } while (0)
#define assert_not_shown(text) do { if (is_shown(text)) fail_msg("%s in %s", text, shown); } while (0)

static bool look_live(uint32_t pid, enum role role)
{
	assert_int_equal(look(pid, role), 0);
	return is_shown("\"live\":true");
}

static void begin(uint32_t pid, enum role role)
{
	PEER_AWAIT(e.base, look_live(pid, role));
}

/* What came so far, and a second later, so that rows are shown. */
static void settle(void)
{
	engine_settle(&e);
	later_ns += NS_PER_S;
}

/* A ring learns who it is before its first event there. */
static void introduce(uint32_t tid, uint32_t pid, const char *comm)
{
	struct rt_thread thread = {.pid = pid, .start_ns = 1};
	struct ring_writer_record record = {.probe = RT_PROBE_THREAD, .tid = tid, .payload = (const uint64_t *)&thread,
					    .words = sizeof(thread) / 8};

	strncpy(thread.comm, comm, sizeof(thread.comm));
	for (unsigned i = 0; i < ENGINE_RINGS; i++)
		assert_int_equal(ring_writer_write(e.writer[i], &record), 0);
}

static void call(uint32_t tid, uint16_t probe, int64_t ret, const struct ring_writer_attachment *attachment)
{
	static unsigned turn;
	const uint64_t payload[6] = {100, (uint64_t)ret};
	struct ring_writer_record record = {
		.probe = probe, .tid = tid, .payload = payload, .attachment = attachment, .attachments = attachment != NULL,
		.words = probe == SMALL_GETPPID ? 2 : probe == SMALL_READ ? 5 : 6,
	};

	for (unsigned i = 0; i < CALLS; i++)
		assert_int_equal(ring_writer_write(e.writer[turn++ % ENGINE_RINGS], &record), 0);
}

static void open_file(uint32_t tid, const char *name)
{
	call(tid, SMALL_OPENAT, -2, &(struct ring_writer_attachment){.kind = RT_ATTACH_STRING, .arg = 1,
								      .bytes = (uint32_t)strlen(name), .data = name});
}

/* Of a descriptor: a file by its path, else a socket. */
static void read_file(uint32_t tid, const char *path, uint16_t family, uint16_t type)
{
	union {
		struct rt_file file;
		char bytes[256];
	} what = {.file = {.mode = path ? S_IFREG : S_IFSOCK, .ino = 77}};
	uint32_t bytes = sizeof(what.file);

	if (path) {
		bytes = (uint32_t)(RT_FILE_HEAD_BYTES + strlen(path));
		strcpy(what.bytes + RT_FILE_HEAD_BYTES, path);
	} else {
		what.file.socket = (struct rt_socket){.family = family, .type = type, .local_port = 40000, .peer_port = 5432,
						      .local = {10, 0, 0, 1}, .peer = {10, 0, 0, 2}};
	}
	call(tid, SMALL_READ, 1, &(struct ring_writer_attachment){.kind = RT_ATTACH_FILE, .bytes = bytes, .data = &what});
}

static void connect_to(uint32_t tid, const char *host, uint16_t port)
{
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port)};

	inet_pton(AF_INET, host, &to.sin_addr);
	call(tid, SMALL_READ, -111, &(struct ring_writer_attachment){.kind = RT_ATTACH_SOCKADDR, .arg = 1, .bytes = sizeof(to),
								      .data = &to});
}

static bool records(unsigned probe)
{
	return e.loader.request.probes[probe / 8] >> probe % 8 & 1;
}

/* Of it so many calls, of which so many failed, each of 100 ns. */
static bool has_row(const char *name, unsigned calls, unsigned errors)
{
	char row[256];

	snprintf(row, sizeof(row), "{\"name\":%s,\"calls\":%u,\"errors\":%u,\"sum_ns\":%u,\"buckets\":[%u]}", name, calls,
		 errors, calls * 100, calls);
	return is_shown(row);
}

#define assert_row(name, calls, errors) \
	do { if (!has_row(name, calls, errors)) fail_msg("no %u, %u of %s in %s", calls, errors, name, shown); } while (0)

/* What stands in that list. */
static bool is_in(const char *list, const char *name)
{
	char head[64];
	const char *at, *end;

	snprintf(head, sizeof(head), "\"%s\":[", list);
	at = strstr(shown, head);
	assert_non_null(at);
	end = strstr(at, "\"other_");
	assert_non_null(end);
	at = strstr(at, name);
	return at && at < end;
}

/* ---- What is counted ---------------------------------------------------------------------------------- */

static void exactly_what_the_process_does_is_counted(void **state)
{
	(void)state;
	begin(PID, ROLE_OPERATOR);
	introduce(PID + 10, PID, "helper");
	introduce(OTHER, OTHER, "other");
	call(PID + 10, SMALL_GETPPID, 5, NULL);
	settle();
	assert_int_equal(look(PID, ROLE_OPERATOR), 0);
	assert_shown("{\"pid\":4711,\"comm\":\"helper\",");
	introduce(PID, PID, "first");
	call(PID, SMALL_GETPPID, -4095, NULL);
	call(PID, SMALL_GETPPID, -4096, NULL);
	call(OTHER, SMALL_GETPPID, 5, NULL);
	open_file(PID, "/etc/passwd");
	open_file(OTHER, "/etc/secret");
	call(PID + 10, SMALL_GETPPID, 5, NULL);
	settle();
	assert_int_equal(look(PID, ROLE_OPERATOR), 0);
	assert_shown("{\"pid\":4711,\"comm\":\"first\",");
	assert_shown("\"texts\":true,\"why_not\":[],\"refused\":[],");
	/* Each ring was told who the three threads are, and had the other process' calls. */
	assert_shown("\"produced\":55,\"delivered\":35,\"filtered\":20,\"in_flight\":0,\"residual\":0,\"lost\":[],");
	assert_row("\"getppid\"", 4 * CALLS, CALLS);
	assert_shown("\"other_calls\":{\"name\":\"\",\"calls\":0,\"errors\":0,\"sum_ns\":0,\"buckets\":[]}");
	assert_row("\"openat\"", CALLS, CALLS);
	assert_row("\"/etc/passwd\"", CALLS, CALLS);
	assert_not_shown("secret");
	assert_not_shown("other\"");
	engine_check_ledger(&e);
}

static void a_row_is_of_its_kind(void **state)
{
	static const char *const peer[] = {
		"\"TCP 10.0.0.1:40000->10.0.0.2:5432\"", "\"UDP 10.0.0.1:40000->10.0.0.2:5432\"",
		"\"RAW 10.0.0.1:40000->10.0.0.2:5432\"", "\"socket:[77]\"", "\"192.0.2.7:443\"",
	};
	static const char *const file[] = {"\"/TCP \"", "\"/var/log/x\"", "\"socket:\"", "\"TCP 1\""};

	(void)state;
	begin(PID, ROLE_OPERATOR);
	introduce(PID, PID, "first");
	read_file(PID, NULL, AF_INET, SOCK_STREAM);
	read_file(PID, NULL, AF_INET, SOCK_DGRAM);
	read_file(PID, NULL, AF_INET, SOCK_RAW);
	read_file(PID, NULL, AF_UNIX, SOCK_STREAM);
	connect_to(PID, "192.0.2.7", 443);
	read_file(PID, "/TCP ", 0, 0);
	read_file(PID, "/var/log/x", 0, 0);
	open_file(PID, "socket:");
	open_file(PID, "TCP 1");
	open_file(PID, "");
	settle();
	assert_int_equal(look(PID, ROLE_OPERATOR), 0);
	for (unsigned i = 0; i < 5; i++)
		if (!is_in("peers", peer[i]) || is_in("files", peer[i]))
			fail_msg("%s is a peer: %s", peer[i], shown);
	for (unsigned i = 0; i < 4; i++)
		if (!is_in("files", file[i]) || is_in("peers", file[i]))
			fail_msg("%s is a file: %s", file[i], shown);
	assert_row("\"TCP 10.0.0.1:40000->10.0.0.2:5432\"", CALLS, 0);
	assert_row("\"192.0.2.7:443\"", CALLS, CALLS);
	assert_false(is_in("files", "\"\""));
	assert_shown("\"delivered\":70,\"filtered\":2,\"in_flight\":0,\"residual\":0,");
}

/* Nothing of a name ends its string, nor is it markup of JSON; who shows it shows it as text. */
static void names_are_text_whatever_is_in_them(void **state)
{
	static const struct {
		const char *name, *json;
	} cases[] = {
		{"/<img src=x onerror=alert(1)>", "\"/<img src=x onerror=alert(1)>\""},
		{"/\"}],\"pid\":1", "\"/\\\"}],\\\"pid\\\":1\""},
		{"/back\\slash\\", "\"/back\\\\slash\\\\\""},
		{"/</script>&amp;'", "\"/</script>&amp;'\""},
		{"/line\nfeed\ttab\033[31m\177", "\"/line?feed?tab?[31m?\""},
		{"/\xff\xfe\xc3", "\"/???\""},
		{"/\xe2\x80\xae" "turned", "\"/\\u202eturned\""},
		{"/\xe2\x80\xa8" "separated", "\"/\\u2028separated\""},
		{"/gr\xc3\xbc\xc3\x9f", "\"/gr\xc3\xbc\xc3\x9f\""},
	};

	(void)state;
	begin(PID, ROLE_OPERATOR);
	introduce(PID, PID, "<b>\"\\\n\xff");
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		open_file(PID, cases[i].name);
	settle();
	assert_int_equal(look(PID, ROLE_OPERATOR), 0);
	assert_shown("\"comm\":\"<b>\\\"\\\\\\u000a\xef\xbf\xbd\",");
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		if (!has_row(cases[i].json, CALLS, CALLS))
			fail_msg("%s in %s", cases[i].json, shown);
	for (const char *at = shown; *at && at[1]; at++)
		assert_true((unsigned char)*at >= ' ');
}

/* A name without an end takes all of its room. */
static void a_name_of_full_length_ends(void **state)
{
	(void)state;
	begin(PID, ROLE_OPERATOR);
	introduce(PID, PID, "0123456789abcdef");
	call(PID, SMALL_GETPPID, 1, NULL);
	settle();
	assert_int_equal(look(PID, ROLE_OPERATOR), 0);
	assert_shown("\"comm\":\"0123456789abcdef\",");
}

/* So many rows of each kind; the others together. However often somebody asks, they are ranked once in a second. */
static void the_busiest_rows_are_shown(void **state)
{
	char name[32], quoted[40];
	unsigned rows = 0;

	(void)state;
	begin(PID, ROLE_OPERATOR);
	introduce(PID, PID, "first");
	for (unsigned i = 0; i < HTTP_CLOSEUP_ROWS + 10; i++) {
		snprintf(name, sizeof(name), "/file-%u", i);
		open_file(PID, name);
	}
	engine_settle(&e);
	for (unsigned i = 0; i < 10; i++)
		open_file(PID, name);
	engine_settle(&e);
	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(look(PID, ROLE_OPERATOR), 0);
		assert_false(is_in("files", name));
		assert_shown("\"other_files\":{\"name\":\"\",\"calls\":140,\"errors\":140,\"sum_ns\":14000,\"buckets\":[140]}");
	}
	later_ns += NS_PER_S;
	assert_int_equal(look(PID, ROLE_OPERATOR), 0);
	assert_true(is_in("files", name));
	assert_shown("\"other_files\":{\"name\":\"\",\"calls\":147,");
	for (const char *at = shown; (at = strstr(at, "\"/file-")); at++)
		rows++;
	assert_int_equal(rows, HTTP_CLOSEUP_ROWS);
	open_file(PID, name);
	engine_settle(&e);
	assert_int_equal(look(PID, ROLE_OPERATOR), 0);
	snprintf(quoted, sizeof(quoted), "\"%s\"", name);
	assert_row(quoted, CALLS, CALLS);
	/* The second has begun anew with the turn. */
	for (unsigned i = 0; i < 20; i++)
		open_file(PID, "/another");
	engine_settle(&e);
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(look(PID, ROLE_OPERATOR), 0);
		assert_false(is_in("files", "\"/another\""));
	}
	later_ns += NS_PER_S;
	assert_int_equal(look(PID, ROLE_OPERATOR), 0);
	assert_true(is_in("files", "\"/another\""));
}

static void what_was_lost_is_told_with_its_remedy(void **state)
{
	(void)state;
	begin(PID, ROLE_OPERATOR);
	introduce(PID, PID, "first");
	call(PID, SMALL_GETPPID, 1, NULL);
	ring_writer_lose(e.writer[0], RT_LOST_FULL, 3);
	call(PID, SMALL_GETPPID, 1, NULL);
	settle();
	assert_int_equal(look(PID, ROLE_OPERATOR), 0);
	assert_shown("\"produced\":19,\"delivered\":14,\"filtered\":2,\"in_flight\":0,\"residual\":0,\"lost\":[{\"stage\":"
		     "\"ring\",\"reason\":\"ring_full\",\"remedy\":\"raise ring-size, or ask for fewer probes or a narrower "
		     "filter\",\"count\":3}]");
}

/* ---- Who may see what ---------------------------------------------------------------------------------- */

/* A viewer without viewer-strings has the calls, and is told how that is changed; an operator has it all. */
static void names_are_for_whom_they_would_be_streamed_to(void **state)
{
	const struct viewer_bounds no_strings = {.subscriptions = SUBSCRIPTIONS_MAX}, strings = {
		.subscriptions = SUBSCRIPTIONS_MAX, .strings = true};

	(void)state;
	fanout_set_viewers(e.fanout, &no_strings);
	begin(PID, ROLE_VIEWER);
	begin(PID, ROLE_OPERATOR);
	fanout_set_viewers(e.fanout, &strings);
	begin(OTHER, ROLE_VIEWER);
	introduce(PID, PID, "first");
	introduce(OTHER, OTHER, "other");
	open_file(PID, "/etc/shadow");
	open_file(OTHER, "/etc/group");
	settle();
	assert_int_equal(look(PID, ROLE_VIEWER), 0);
	assert_shown("\"texts\":false,\"why_not\":[\"viewers may not ask for strings here\",\"");
	assert_shown("viewer-strings = yes");
	assert_shown("\"calls\":[{\"name\":\"openat\",");
	assert_shown("\"files\":[],\"other_files\":{\"name\":\"\",\"calls\":0,");
	assert_not_shown("shadow");
	assert_int_equal(look(PID, ROLE_OPERATOR), 0);
	assert_shown("\"texts\":true,\"why_not\":[],");
	assert_true(is_in("files", "\"/etc/shadow\""));
	assert_int_equal(look(OTHER, ROLE_VIEWER), 0);
	assert_shown("\"texts\":true,\"why_not\":[],");
	assert_true(is_in("files", "\"/etc/group\""));
}

/* Nothing of it stays: the next look begins as the first did. */
static void who_may_ask_for_nothing_sees_nothing(void **state)
{
	const struct config_words probes = {.word = {(char *)"tracepoint:sched:*"}, .count = 1};
	const struct viewer_bounds others = {.subscriptions = SUBSCRIPTIONS_MAX, .probe = &probes}, none = {0},
		all = {.subscriptions = SUBSCRIPTIONS_MAX};

	(void)state;
	fanout_set_viewers(e.fanout, &others);
	for (uint32_t pid = 1; pid < 2 * HTTP_CLOSEUPS_MAX; pid++) {
		assert_int_equal(look(pid, ROLE_VIEWER), -EACCES);
		assert_string_equal(error.code, "viewer-probes");
	}
	fanout_set_viewers(e.fanout, &none);
	assert_int_equal(look(PID, ROLE_VIEWER), -EACCES);
	assert_string_equal(error.code, "viewer-subscriptions");
	fanout_set_viewers(e.fanout, &all);
	begin(PID, ROLE_VIEWER);
	assert_shown("\"texts\":false,");
}

static void a_refusal_of_the_kernel_is_shown(void **state)
{
	(void)state;
	e.loader.refuse_probe = SMALL_GETPPID;
	assert_int_equal(look(PID, ROLE_OPERATOR), 0);
	assert_shown("\"live\":false,");
	engine_settle(&e);
	assert_int_equal(look(PID, ROLE_OPERATOR), 0);
	assert_shown("\"live\":false,\"texts\":true,\"why_not\":[],\"refused\":[\"the source cannot do that\",\"\"],"
		     "\"produced\":0,");
}

/* ---- How many, and how long ----------------------------------------------------------------------------- */

/* Of each role so many; who is looked at already can be looked at by more. */
static void few_are_looked_at_at_once(void **state)
{
	(void)state;
	for (unsigned role = 0; role < 2; role++) {
		for (uint32_t pid = 1; pid <= HTTP_CLOSEUPS_MAX; pid++)
			assert_int_equal(look(pid, role ? ROLE_OPERATOR : ROLE_VIEWER), 0);
		for (unsigned again = 0; again < 2; again++) {
			assert_int_equal(look(HTTP_CLOSEUPS_MAX + 1, role ? ROLE_OPERATOR : ROLE_VIEWER), -EBUSY);
			assert_string_equal(error.code, "closeups-max");
			assert_string_equal(error.what, "4 other processes are looked at");
			assert_string_equal(error.hint, "close one of these pages, and wait for 5 s");
		}
		for (uint32_t pid = HTTP_CLOSEUPS_MAX; pid; pid--)
			assert_int_equal(look(pid, role ? ROLE_OPERATOR : ROLE_VIEWER), 0);
	}
}

/* Each look begins the patience anew; when it is over, nothing is recorded, and there is room for another. */
static void it_ends_when_nobody_looks(void **state)
{
	char began[64];

	(void)state;
	for (uint32_t pid = 1; pid < HTTP_CLOSEUPS_MAX; pid++)
		begin(pid, ROLE_VIEWER);
	patiences = 0;
	begin(PID, ROLE_VIEWER);
	assert_true(patiences > 0);
	patiences = 0;
	assert_int_equal(look(PID, ROLE_VIEWER), 0);
	assert_int_equal(patiences, 1);
	snprintf(began, sizeof(began), "%.40s", strstr(shown, "\"began_ns\":"));
	assert_int_equal(look(OTHER, ROLE_VIEWER), -EBUSY);
	assert_int_equal(patiences, 1);
	assert_int_equal(look(PID, ROLE_VIEWER), 0);
	assert_shown(began);
	event_active(patience, EV_TIMEOUT, 0);
	peer_run(e.base);
	begin(OTHER, ROLE_VIEWER);
	assert_int_equal(look(PID, ROLE_VIEWER), -EBUSY);
	event_active(patience, EV_TIMEOUT, 0);
	peer_run(e.base);
	later_ns += NS_PER_S;
	begin(PID, ROLE_VIEWER);
	assert_not_shown(began);
	for (uint32_t pid = 1; pid < HTTP_CLOSEUPS_MAX; pid++) {
		assert_int_equal(look(pid, ROLE_VIEWER), 0);
		event_active(patience, EV_TIMEOUT, 0);
		peer_run(e.base);
		assert_true(records(SMALL_GETPPID));
	}
	assert_int_equal(look(PID, ROLE_VIEWER), 0);
	event_active(patience, EV_TIMEOUT, 0);
	PEER_AWAIT(e.base, !records(SMALL_GETPPID));
}

/* Whichever allocation fails, it is told, its place stays free, and nothing stays recorded. */
static void without_memory_nothing_is_looked_at(void **state)
{
	struct closeups *one = NULL;

	(void)state;
	for (unsigned n = 0; !one; n++) {
		memory_fails_after(n);
		one = closeups_create(&(struct ask_watches_config){
			.base = e.base, .fanout = e.fanout, .codec = e.codec, .catalog = small_catalog_get()});
		memory_suffices();
	}
	closeups_destroy(one);
	closeups_destroy(NULL);
	for (int err = -1, n = 0; err; n++) {
		FILE *out = fmemopen(shown, sizeof(shown), "w");

		error = (struct error){0};
		memory_fails_after((unsigned)n);
		err = closeups_write(closeups, PID, ROLE_OPERATOR, out, &error);
		memory_suffices();
		fclose(out);
		assert_true(!err || err == -ENOMEM);
		assert_int_equal(*error.code != 0, err != 0);
	}
	begin(PID, ROLE_OPERATOR);
	for (uint32_t pid = 1; pid < HTTP_CLOSEUPS_MAX; pid++)
		begin(pid, ROLE_OPERATOR);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, open_closeups, close_closeups)
	const struct CMUnitTest tests[] = {
		TEST(exactly_what_the_process_does_is_counted),
		TEST(a_row_is_of_its_kind),
		TEST(names_are_text_whatever_is_in_them),
		TEST(a_name_of_full_length_ends),
		TEST(the_busiest_rows_are_shown),
		TEST(what_was_lost_is_told_with_its_remedy),
		TEST(names_are_for_whom_they_would_be_streamed_to),
		TEST(who_may_ask_for_nothing_sees_nothing),
		TEST(a_refusal_of_the_kernel_is_shown),
		TEST(few_are_looked_at_at_once),
		TEST(it_ends_when_nobody_looks),
		TEST(without_memory_nothing_is_looked_at),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
