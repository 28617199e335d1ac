/* test_print: what people and programs read of events, losses and gaps. */
#include "tests/unit/client/check.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>

#include "client/cli/sink.h"
#include "client/cli/symbols.h"
#include "client/cli/text_value.h"
#include "kmod/uapi/ringtail.h"
#include "tests/unit/client/maker.h"

static struct maker maker;
static struct out out;

static int setup(void **state)
{
	(void)state;
	setenv("TZ", "UTC", 1);
	maker_init(&maker);
	maker_start(&maker);
	check_out(&out);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	close(out.fd);
	maker_fini(&maker);
	return 0;
}

/* Everything the maker holds, through the library, as a sink shows it. */
static const char *show(const struct sink_ops *ops, bool color)
{
	struct ringtail *ringtail;
	struct ringtail_item item;
	enum ringtail_kind kind;
	struct sink *sink;

	assert_int_equal(
		ringtail_open(maker_file(&maker, maker.size), "test", false, &ringtail, NULL), 0);
	sink = ops->create(&out, ringtail_host(ringtail), color);
	while ((kind = ringtail_next(ringtail, &item, 0)) != RINGTAIL_END) {
		assert_int_not_equal(kind, RINGTAIL_ERROR);
		ops->item(sink, &item);
	}
	ops->destroy(sink);
	ringtail_close(ringtail);
	return check_text(&out);
}

#define COLUMNS(tid) "22:13:20.000001 [000] t" #tid "              " #tid "/" #tid "           "

static void call_text(void **state)
{
	(void)state;
	maker_begin(&maker, 0, 0, 1000);
	maker_open(&maker, 12, 1000, 3);
	maker_open(&maker, 12, 1000, (uint64_t)-ENOENT);
	batch_encode_string(maker.encoder, 3, "/tmp/\"a\"\n\033\xff", 11);
	maker_open(&maker, 12, 1000, (uint64_t)-512);
	maker_open(&maker, 12, 1000, (uint64_t)-4000);
	maker_open(&maker, 12, 1000, 0x7f0000000000);
	maker_end(&maker);
	assert_string_equal(
		show(&print_text, false),
		COLUMNS(12) "openat(dfd=AT_FDCWD, filename=0x7f0000001000, flags=O_RDONLY|O_CLOEXEC) = 3 "
			    "<12.3us>\n" COLUMNS(
				    12) "openat(dfd=AT_FDCWD, "
					"filename=\"/tmp/\\\"a\\\"\\n\\x1b\\xff\", flags=O_RDONLY|O_CLOEXEC) "
					"= -1 ENOENT (No such file or directory) "
					"<12.3us>\n" COLUMNS(
						12) "openat(dfd=AT_FDCWD, filename=0x7f0000001000, "
						    "flags=O_RDONLY|O_CLOEXEC) = -1 "
						    "ERESTARTSYS (To be restarted, or EINTR) "
						    "<12.3us>\n" COLUMNS(
							    12) "openat(dfd=AT_FDCWD, "
								"filename=0x7f0000001000, "
								"flags=O_RDONLY|O_CLOEXEC) = "
								"-4000 <12.3us>\n" COLUMNS(
									12) "openat(dfd=AT_FDCWD, "
									    "filename="
									    "0x7f0000001000, "
									    "flags=O_RDONLY|O_CLOEXEC) = "
									    "0x7f0000000000 "
									    "<12.3us>\n");
}

static void other_text(void **state)
{
	static const struct {
		uint16_t probe;
		uint64_t field[5];
		unsigned fields;
		const char *text;
	} cases[] = {
		{MAKER_EXIT, {RINGTAIL_NEVER, 0, 1}, 3, "exit_group(error_code=1) = ?"},
		{MAKER_ENTRY, {(uint32_t)-1, 0}, 2, "openat(dfd=-1, filename=NULL) ..."},
		{MAKER_RETURN, {3}, 1, "... openat = 3"},
		{MAKER_MPROTECT,
		 {5, 0, 0x7f0000001000, 4096, 1},
		 5,
		 "mprotect(start=0x7f0000001000, len=4096, prot=PROT_READ) = 0 <5ns>"},
		{MAKER_MPROTECT, {5, 0}, 5, "mprotect(start=NULL, len=0, prot=PROT_NONE) = 0 <5ns>"},
		{MAKER_RETURN,
		 {(uint64_t)-EPERM},
		 1,
		 "... openat = -1 EPERM (Operation not permitted)"},
		{MAKER_SWITCH, {120, 1, 34, 110}, 4, "sched_switch: t12/12 [120] S ==> 34 [110]"},
		{MAKER_SWITCH,
		 {120, 0, 0, 120},
		 4,
		 "sched_switch: t12/12 [120] R ==> idle/0 [120]"},
		{MAKER_SWITCH,
		 {98, 0x100, 12, 120},
		 4,
		 "sched_switch: t12/12 [98] R+ ==> t12/12 [120]"},
		{MAKER_SWITCH,
		 {98, 0x80, 12, 120},
		 4,
		 "sched_switch: t12/12 [98] I ==> t12/12 [120]"},
		{MAKER_WAKEUP, {34, 120, 1}, 3, "sched_wakeup: 34 [120] on cpu 1"},
		{MAKER_FORK, {34, 34}, 2, "sched_process_fork: new process 34"},
		{MAKER_FORK, {34, 12}, 2, "sched_process_fork: new thread 34"},
		{MAKER_EXEC, {12, 0}, 2, "sched_process_exec: NULL"},
		{MAKER_EXEC, {34, 0}, 2, "sched_process_exec: NULL by thread 34"},
		{MAKER_EXITED,
		 {120, 1},
		 2,
		 "sched_process_exit: t12/12 [120], the last of its process"},
		{MAKER_EXITED, {120, 0}, 2, "sched_process_exit: t12/12 [120]"},
		{MAKER_OTHER, {60, 0xff, 5}, 3, "net_dev_xmit(len=60, rc=-1, took=5ns)"},
	};
	char wanted[256];

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		maker.size = 0;
		maker_start(&maker);
		maker_begin(&maker, 0, 0, 1000);
		maker_event(&maker, cases[i].probe, 12, 1000, cases[i].field, cases[i].fields);
		maker_end(&maker);
		snprintf(wanted, sizeof(wanted), COLUMNS(12) "%s\n", cases[i].text);
		assert_string_equal(show(&print_text, false), wanted);
	}
}

static void named_threads(void **state)
{
	uint64_t field[4] = { 120, 1, 34, 110 };

	(void)state;
	maker_begin(&maker, 0, 0, 1000);
	maker_open(&maker, 34, 1000, 3);
	maker_event(&maker, MAKER_SWITCH, 12, 1000, field, 4);
	maker_end(&maker);
	assert_non_null(strstr(show(&print_text, false), "t12/12 [120] S ==> t34/34 [110]"));
}

static void losses_text(void **state)
{
	(void)state;
	maker_begin(&maker, 0, 0, 1000);
	batch_encode_loss(maker.encoder, 1234, 0, 1);
	batch_encode_loss(maker.encoder, 1, 1, 5);
	maker_end(&maker);
	maker_gap(&maker, 0, 1235, 1240, 2, 2, 6);
	maker_gap(&maker, 0, 1240, 1250, 0, 3, 7);
	maker_gap(&maker, 1, 0, 0, 0, 3, 8);
	maker_gap(&maker, 1, 0, 1, 0, 9, 99);
	assert_string_equal(
		show(&print_text, false),
		"--- an unknown number of events lost on CPU 1: other epoch "
		"(keep events on disk over a restart: durability, and --consumer for the client) ---\n"
		"--- up to 1 event lost on CPU 1: unknown "
		"(run the same version of ringtaild and tracectl) ---\n"
		"--- up to 1,234 events lost on CPU 0: ring full "
		"(raise ring-size, or ask for fewer probes or a narrower filter) ---\n"
		"--- up to 1 event lost on CPU 0: bad record "
		"(restart the daemon, so that it loads its own producer; report it if it comes again) ---\n"
		"--- 2 events lost on CPU 0: queue full "
		"(raise queue-size, or ask for fewer probes or a narrower filter) ---\n"
		"--- up to 10 events lost on CPU 0: history gone "
		"(raise history-size and history-age, or keep events on disk: durability) ---\n");
}

static void colors(void **state)
{
	const char *text;

	(void)state;
	maker_begin(&maker, 0, 0, 1000);
	maker_open(&maker, 12, 1000, (uint64_t)-ENOENT);
	maker_end(&maker);
	text = show(&print_text, true);
	assert_non_null(strstr(text, "\033[1mopenat\033[0m("));
	assert_non_null(strstr(text, "\033[31m-1 ENOENT"));
	assert_null(strstr(show(&print_text, false), "\033"));
}

static void stacks(void **state)
{
	static const uint64_t frame[] = { 0x10, 0xffffffff81000010 };

	(void)state;
	maker_begin(&maker, 0, 0, 1000);
	maker_open(&maker, 12, 1000, 3);
	batch_encode_stack(maker.encoder, true, frame, 2);
	batch_encode_stack(maker.encoder, false, frame, 1);
	maker_end(&maker);
	assert_non_null(strstr(show(&print_text, false), "<12.3us>\n"
			       "                        0x10\n"
			       "                        0xffffffff81000010\n"
			       "                        0x10 (user)\n"));
	assert_non_null(strstr(show(&print_json, false),
			       "\"kstack\":[\"0x10\",\"0xffffffff81000010\"],"
			       "\"ustack\":[\"0x10\"]}\n"));
}

static void an_empty_string(void **state)
{
	(void)state;
	maker_begin(&maker, 0, 0, 1000);
	maker_open(&maker, 12, 1000, (uint64_t)-ENOENT);
	batch_encode_string(maker.encoder, 3, "", 0);
	maker_end(&maker);
	assert_non_null(strstr(show(&print_text, false), "filename=\"\", "));
	assert_non_null(strstr(show(&print_json, false), "\"filename\":\"\""));
}

/* Both say that a text is not whole. */
static void a_cut_string(void **state)
{
	char text[STRING_BYTES_MAX];

	(void)state;
	memset(text, 'x', sizeof(text));
	maker_begin(&maker, 0, 0, 1000);
	maker_open(&maker, 12, 1000, 3);
	batch_encode_string(maker.encoder, 3, text, sizeof(text) - 1);
	maker_open(&maker, 12, 1001, 3);
	batch_encode_string(maker.encoder, 3, text, sizeof(text));
	maker_end(&maker);
	assert_non_null(strstr(show(&print_text, false), "xxx\"..., "));
	assert_non_null(strstr(show(&print_text, false), "xxx\", "));
	assert_non_null(strstr(show(&print_json, false), "xxx\"}}\n"));
	assert_non_null(strstr(show(&print_json, false),
			       "xxx\"},\"strings_cut\":[\"filename\"]}\n"));
}

static void call_json(void **state)
{
	uint64_t never[3] = { RINGTAIL_NEVER, 0, (uint32_t)-1 }, other[3] = { 60, 0xff, 5 };

	(void)state;
	maker_begin(&maker, 0, 0, 1000);
	maker_open(&maker, 12, 1000, (uint64_t)-ENOENT);
	batch_encode_string(maker.encoder, 3, "a\xff\"", 3);
	maker_event(&maker, MAKER_EXIT, 12, 1001, never, 3);
	maker_event(&maker, MAKER_OTHER, 12, 1002, other, 3);
	batch_encode_loss(maker.encoder, 3, 0, 1);
	maker_end(&maker);
	maker_gap(&maker, 0, 6, 16, 4, 2, 6);
	assert_string_equal(
		show(&print_json, false),
		"{\"time\":1000,\"wall\":\"2023-11-14T22:13:20.000001000Z\",\"cpu\":0,\"seq\":0,"
		"\"probe\":\"syscall:openat:call\",\"pid\":12,\"tid\":12,\"comm\":\"t12\","
		"\"duration\":12345,\"ret\":-2,\"error\":\"ENOENT\",\"args\":{\"dfd\":-100,"
		"\"filename\":\"0x7f0000001000\",\"flags\":\"0x80000\",\"mode\":420},"
		"\"strings\":{\"filename\":\"a\\u00ff\\\"\"}}\n"
		"{\"time\":1001,\"wall\":\"2023-11-14T22:13:20.000001001Z\",\"cpu\":0,\"seq\":1,"
		"\"probe\":\"syscall:exit_group:call\",\"pid\":12,\"tid\":12,\"comm\":\"t12\","
		"\"args\":{\"error_code\":-1}}\n"
		"{\"time\":1002,\"wall\":\"2023-11-14T22:13:20.000001002Z\",\"cpu\":0,\"seq\":2,"
		"\"probe\":\"tracepoint:net:net_dev_xmit\",\"pid\":12,\"tid\":12,\"comm\":\"t12\","
		"\"args\":{\"len\":60,\"rc\":-1,\"took\":5}}\n"
		"{\"lost\":3,\"time\":1002,\"cpu\":0,\"first_seq\":3,\"attempts\":3,\"stage\":"
		"\"ring\","
		"\"reason\":\"ring-full\"}\n"
		"{\"lost\":4,\"time\":1002,\"cpu\":0,\"first_seq\":6,\"attempts\":10,"
		"\"stage\":\"queue\",\"reason\":\"queue-full\"}\n");
}

/* Each line is an object that another JSON reader takes, whatever the names are. */
static void json_reads(void **state)
{
	char *line, *rest;
	unsigned lines = 0;

	(void)state;
	maker_begin(&maker, 0, 0, 1000);
	for (unsigned i = 0; i < 50; i++) {
		char noise[STRING_BYTES_MAX];

		for (size_t j = 0; j < sizeof(noise); j++)
			noise[j] = (char)(random() >> 5);
		maker_open(&maker, 12, 1000, i);
		batch_encode_string(maker.encoder, 3, noise, i);
	}
	maker_end(&maker);
	rest = strdup(show(&print_json, false));
	for (line = strtok(rest, "\n"); line; line = strtok(NULL, "\n")) {
		json_t *object = json_loads(line, JSON_ALLOW_NUL, NULL);

		assert_non_null(object);
		assert_int_equal(json_integer_value(json_object_get(object, "ret")), lines);
		json_decref(object);
		lines++;
	}
	free(rest);
	assert_int_equal(lines, 50);
}

/*
 * Akaros' lines: what has ended, what has not, what failed, what is no call, what was lost; and a call's number is
 * the one that the kernel gave it.
 */
static void lines_of_akaros(void **state)
{
	uint64_t never[3] = { RINGTAIL_NEVER, 0, 1 }, entry[2] = { 3, 0x1000 }, back[1] = { 3 };
	uint64_t other[3] = { 60, 0xff, 5 };
	const char *shown, *loss;

	_Static_assert(MAKER_OPENAT == RT_PROBE_SYSCALL_CALL + 1, "the ids of calls");
	_Static_assert(MAKER_ENTRY == RT_PROBE_SYSCALL_ENTRY + 1, "those of entries");
	_Static_assert(MAKER_RETURN == RT_PROBE_SYSCALL_RETURN + 1, "those of returns");
	(void)state;
	maker_begin(&maker, 1, 0, 5000012345);
	maker_open(&maker, 12, 5000012345, 3);
	batch_encode_string(maker.encoder, 3, "a'b\\\n\xff", 6);
	maker_open(&maker, 12, 5000012345, (uint64_t)-ENOENT);
	batch_encode_string(maker.encoder, 3, "x", 1);
	batch_encode_string(maker.encoder, 4, "y", 1);
	maker_event(&maker, MAKER_EXIT, 12, 5000012346, never, 3);
	maker_event(&maker, MAKER_ENTRY, 12, 5000012347, entry, 2);
	maker_event(&maker, MAKER_RETURN, 12, 5000012348, back, 1);
	maker_event(&maker, MAKER_OTHER, 12, 5000012349, other, 3);
	batch_encode_loss(maker.encoder, 3, 0, 1);
	maker_end(&maker);
	shown = show(&print_kptrace, false);
	loss = strstr(shown, "[5.000012349]:cpu1: up to 3 events lost: ring-full (");
	assert_non_null(loss);
	assert_ptr_equal(strchr(loss, '\n'), shown + strlen(shown) - 1);
	*(char *)loss = '\0';
	assert_string_equal(
		shown,
		"X [      5.000000000]-[      5.000012345] Syscall   1 (      openat):(0xffffff9c, "
		"0x7f0000001000, 0x80000, 0x1a4) ret: 0x3 proc: 12 core:  1 vcore: -- errno:   0 "
		"thread: 12 comm: 't12' data: 'a\\047b\\134\\012\\377'\n"
		"X [      5.000000000]-[      5.000012345] Syscall   1 (      openat):(0xffffff9c, "
		"0x7f0000001000, 0x80000, 0x1a4) ret: 0xffffffffffffffff proc: 12 core:  1 vcore: -- "
		"errno:   2 thread: 12 comm: 't12' data: 'x -> y errstr: No such file or directory'\n"
		"E [      5.000012346]-[      0.000000000] Syscall   2 (  exit_group):(0x1) ret: --- "
		"proc: 12 core:  1 vcore: -- errno: --- thread: 12 comm: 't12' data: ''\n"
		"E [      5.000012347]-[      0.000000000] Syscall   1 (      openat):(0x3, 0x1000) ret: --- "
		"proc: 12 core:  1 vcore: -- errno: --- thread: 12 comm: 't12' data: ''\n"
		"X [      0.000000000]-[      5.000012348] Syscall   1 (      openat):() ret: 0x3 "
		"proc: 12 core:  1 vcore: -- errno:   0 thread: 12 comm: 't12' data: ''\n"
		"[5.000012349]:cpu1: tracepoint:net:net_dev_xmit(len=60, rc=-1, took=5ns) proc: 12 thread: 12 "
		"comm: 't12'\n");
}

static void durations(void **state)
{
	static const struct {
		uint64_t ns;
		const char *text;
	} cases[] = {
		{ 0, "0ns" }, { 999, "999ns" }, { 1000, "1.00us" }, { 12345, "12.3us" },
		{ 999999, "999us" }, { 1050000, "1.05ms" }, { 59999999999, "59.9s" },
		{ 123456789012, "123s" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		text_duration(&out, cases[i].ns);
		assert_string_equal(check_text(&out), cases[i].text);
	}
	assert_string_equal(errno_name(1), "EPERM");
	assert_null(errno_name(4000));
	assert_null(errno_text(4000));
	assert_true(errno_failed((uint64_t)-4095));
	assert_false(errno_failed((uint64_t)-4096));
}

/* A stack's innermost frames, up to the tracepoint. */
static void own_frames(void **state)
{
	enum { PROGRAM = 0x10, RUN = 0x20, BPF_TRACE = 0x30, ITERATE = 0x40, KERNEL = 0x50, TRAMPOLINE = 0x60,
	       LINK = 0x70 };
	static const struct {
		uint64_t frame[16];
		size_t frames, own;
	} cases[] = {
		{ { PROGRAM, PROGRAM, RUN, BPF_TRACE, ITERATE, KERNEL }, 6, 5 },
		{ { 0xabcdef0000, RUN, ITERATE, KERNEL }, 4, 3 },	/* loaded since */
		{ { KERNEL, ITERATE, KERNEL, RUN, KERNEL }, 5, 2 },
		{ { KERNEL, KERNEL }, 2, 0 },
		{ { PROGRAM, RUN }, 2, 2 },
		{ { KERNEL, KERNEL, KERNEL, KERNEL, KERNEL, KERNEL, KERNEL, KERNEL, KERNEL, KERNEL,
		    KERNEL, KERNEL, RUN }, 13, 0 },
		{ { PROGRAM, PROGRAM, TRAMPOLINE, KERNEL }, 4, 3 },
		{ { 0xabcdef0000, TRAMPOLINE, KERNEL }, 3, 2 },
		{ { KERNEL, KERNEL, TRAMPOLINE, KERNEL }, 4, 0 },	/* of a function that has not returned */
		{ { PROGRAM, RUN, ITERATE, KERNEL, TRAMPOLINE, KERNEL }, 6, 3 },
		{ { TRAMPOLINE, KERNEL }, 2, 0 },
		{ { PROGRAM, LINK, KERNEL }, 3, 0 },
		{ { PROGRAM, TRAMPOLINE }, 2, 2 },
		{ { 0 }, 0, 0 },
	};
	char path[] = "/tmp/ringtail-test-XXXXXX";
	int fd = mkstemp(path);
	struct symbols *symbols;
	uint64_t frame[16];

	(void)state;
	dprintf(fd, "ffffffff81000010 t bpf_prog_0123_main\nffffffff81000020 T bpf_trace_run2\n"
		"ffffffff81000030 t __bpf_trace_sys_exit\nffffffff81000040 T __traceiter_sys_exit\n"
		"ffffffff81000050 T syscall_exit_work\nffffffff81000060 t bpf_trampoline_6442536467_1\t[bpf]\n"
		"ffffffff81000070 T bpf_trampoline_link_prog\n");
	close(fd);
	symbols = symbols_load(path);
	unlink(path);
	assert_non_null(symbols);
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		for (size_t k = 0; k < cases[i].frames; k++)
			frame[k] = 0xffffffff81000000 + cases[i].frame[k];
		assert_int_equal(symbols_own_frames(symbols, frame, cases[i].frames), cases[i].own);
		assert_int_equal(symbols_own_frames(NULL, frame, cases[i].frames), 0);
	}
	symbols_destroy(symbols);
}

static void symbol_names(void **state)
{
	static const uint8_t nowhere[16];
	char path[] = "/tmp/ringtail-test-XXXXXX";
	int fd = mkstemp(path);
	struct symbols *symbols;
	uint64_t offset;

	(void)state;
	dprintf(fd, "ffffffff81000100 T second\nffffffff81000000 t first\n"
		"0000000000000000 T hidden\nffffffff81000200 d data\nnonsense\n"
		"ffffffff81000300 T third\t[module]\n");
	close(fd);
	symbols = symbols_load(path);
	assert_non_null(symbols);
	assert_string_equal(symbols_find(symbols, 0xffffffff81000000, &offset), "first");
	assert_int_equal(offset, 0);
	assert_string_equal(symbols_find(symbols, 0xffffffff81000210, &offset), "second");
	assert_int_equal(offset, 0x110);
	assert_string_equal(symbols_find(symbols, 0xffffffff81000301, &offset), "third");
	assert_null(symbols_find(symbols, 0xffffffff91000301, &offset));
	assert_null(symbols_find(symbols, 0x1000, &offset));
	assert_null(symbols_find(NULL, 0x1000, &offset));
	symbols_destroy(symbols);
	symbols_destroy(NULL);
	assert_int_equal(truncate(path, 0), 0);
	assert_null(symbols_load(path));
	unlink(path);
	assert_null(symbols_load(path));
	assert_false(symbols_same_boot(nowhere));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(call_text), TEST(other_text),   TEST(named_threads), TEST(losses_text),
		TEST(colors),   TEST(stacks),       TEST(call_json),     TEST(json_reads),
		TEST(lines_of_akaros), TEST(an_empty_string), TEST(a_cut_string), TEST(own_frames),
		TEST(durations), TEST(symbol_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
