/* filter: what passes, what is refused and at which column, and what the kernel is told. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "query/filter.h"
#include "query/filter_text.h"
#include "query/user_names.h"
#include "proto/limits.h"
#include "tests/unit/daemon/small_catalog.h"

#define SMALL_CONNECT	(RT_PROBE_SYSCALL_CALL + 42)

static const struct batch_thread bash = {
	.tid = 101, .pid = 100, .ppid = 1, .uid = 1000, .comm = "bash",
};
static const struct batch_thread kworker = {
	.tid = 7, .pid = 7, .ppid = 2, .uid = 0, .kernel = true, .comm = "kworker/0:1",
};

/* Words as the kernel writes them: a call's first two are its duration and its result. */
static const uint64_t read_ok[] = { 1500, 42, 3, 0x7ffd0000, 4096 };
static const uint64_t read_failed[] = { 2000000, (uint64_t)-EINTR, 3, 0x7ffd0000, 4096 };
static const uint64_t openat_failed[] = {
	900, (uint64_t)-ENOENT, (uint64_t)AT_FDCWD, 0x5555, 0x80000,
	0xabcd01a4,	/* mode is 16 bits: 0644 */
};
static const uint64_t openat_returned[] = { (uint64_t)-ENOENT };
static const uint64_t kill_all[] = { 300, 0, 0xffffffff, 9 };	/* pid -1, not sign-extended */
static const uint64_t exit_never[] = { RT_DURATION_NEVER, 0, 1 };
static const uint64_t exit_returned[] = { 7, (uint64_t)-EPERM, 1 };	/* as no kernel does */
static const uint64_t sched_switch[] = { 120, 1, 101, 98 };

#define EVENT(id, words) \
	((const struct batch_event){ .probe = (id), .fields = sizeof(words) / 8, \
				     .time_ns = 5000000000, .field = (words) })

static bool passes(const char *text, const struct batch_event *event,
		   const struct batch_thread *thread)
{
	struct filter *filter;
	struct error error;
	bool pass;

	if (filter_compile(text, small_catalog_get(), &filter, &error))
		fail_msg("`%s`: %s", text, error.what);
	pass = filter_pass(filter, 1, event, thread, NULL);
	filter_destroy(filter);
	return pass;
}

/* openat() with this as its filename; NULL: nothing was attached. */
static enum filter_verdict says(const char *text, uint16_t probe, uint64_t address, const char *filename)
{
	const uint64_t words[] = { 900, 3, (uint64_t)AT_FDCWD, address, 0, 0 };
	const struct batch_event event = {
		.probe = probe, .fields = probe == SMALL_OPENAT ? 6 : 4,
		.field = probe == SMALL_OPENAT ? words : words + 2,
	};
	const struct batch_attachment attached[] = {
		{ .kind = RT_ATTACH_USTACK },
		{ .kind = RT_ATTACH_STRING, .arg = 0, .text = (const uint8_t *)"/other", .text_bytes = 6 },
		{ .kind = RT_ATTACH_STRING, .arg = probe == SMALL_OPENAT ? 3 : 1,
		  .text = (const uint8_t *)filename, .text_bytes = filename ? strlen(filename) : 0 },
	};
	struct filter_texts texts = { attached, filename ? 3 : 2, false };
	struct filter *filter;
	struct error error;
	bool pass;

	if (filter_compile(text, small_catalog_get(), &filter, &error))
		fail_msg("`%s`: %s", text, error.what);
	pass = filter_pass(filter, 1, &event, &bash, &texts);
	filter_destroy(filter);
	if (pass && texts.undecided)
		return VERDICT_UNDECIDED;
	return pass ? VERDICT_YES : VERDICT_NO;
}

struct expectation {
	const char *text;
	bool pass;
};

static void expect(const struct expectation *want, size_t n, const struct batch_event *event,
		   const struct batch_thread *thread)
{
	for (size_t i = 0; i < n; i++) {
		if (passes(want[i].text, event, thread) != want[i].pass)
			fail_msg("`%s` is not %d", want[i].text, want[i].pass);
	}
}

#define EXPECT(id, words, thread, ...) do { \
	const struct batch_event event_ = EVENT(id, words); \
	const struct expectation want_[] = { __VA_ARGS__ }; \
	expect(want_, sizeof(want_) / sizeof(want_[0]), &event_, thread); \
} while (0)

static void test_nothing(void **state)
{
	const struct batch_event event = EVENT(SMALL_READ, read_ok);
	struct filter *filter = (struct filter *)&event;

	(void)state;
	assert_int_equal(filter_compile("", small_catalog_get(), &filter, NULL), 0);
	assert_null(filter);
	assert_int_equal(filter_compile(" \t\n", small_catalog_get(), &filter, NULL), 0);
	assert_null(filter);
	assert_true(filter_pass(NULL, 0, &event, &bash, NULL));
	assert_int_equal(filter_kernel_clauses(NULL, NULL, 8), 0);
	filter_destroy(NULL);
}

static void test_every_event(void **state)
{
	(void)state;
	EXPECT(SMALL_READ, read_ok, &bash,
	       { "pid == 100", true }, { "pid == 101", false }, { "pid != 101", true },
	       { "tid == 101", true }, { "100 == pid", true }, { "ppid == 1", true },
	       { "uid >= 1000", true }, { "uid > 1000", false }, { "1000 <= uid", true },
	       { "999 < uid", true }, { "1001 > uid", true }, { "cpu == 1", true },
	       { "cpu == 0", false }, { "time > 4s && time <= 5s", true }, { "time > 5s", false },
	       { "kernel", false }, { "!kernel", true }, { "kernel == 0", true },
	       { "pid == 0x64", true }, { "pid != tid", true }, { "pid < tid", true },
	       { "tid <= pid", false }, { "pid == pid", true }, { "pid > -1", true },
	       { "pid < -1", false }, { "pid == -1", false }, { "pid != -1", true },
	       { "pid < 18446744073709551615", true }, { "pid == 4294967396", false });
	EXPECT(SMALL_READ, read_ok, &kworker, { "kernel", true }, { "!kernel", false },
	       { "kernel != 0 && uid == 0", true });
}

#define CUT "/123456789/123456789/123456789/123456789/123456789/123456789/12" \
	    "3456789/123456789/123456789/123456789/123456789/123456789/1234567"

static void test_text_of_field(void **state)
{
	static const struct {
		const char *text, *filename;
		enum filter_verdict verdict;
	} want[] = {
		{ "filename == \"/etc/passwd\"", "/etc/passwd", VERDICT_YES },
		{ "filename == \"/etc/passwd\"", "/etc/passwd2", VERDICT_NO },
		{ "filename == \"/etc/passwd\"", "/etc/passw", VERDICT_NO },
		{ "filename != \"/etc/passwd\"", "/etc/passwd", VERDICT_NO },
		{ "filename != \"/etc/passwd\"", "", VERDICT_YES },
		{ "\"/etc/passwd\" == filename", "/etc/passwd", VERDICT_YES },
		{ "filename == \"\"", "", VERDICT_YES },
		{ "filename =~ \"/etc/*\"", "/etc/passwd", VERDICT_YES },
		{ "filename =~ \"*/log/*\"", "/var/log/x", VERDICT_YES },
		{ "filename =~ \"*/log/*\"", "/var/logs", VERDICT_NO },
		{ "filename in (\"/a\", \"/b\")", "/b", VERDICT_YES },
		{ "filename !in (\"/a\", \"/b\")", "/b", VERDICT_NO },
		{ "filename == 0x5555", "/b", VERDICT_YES },
		{ "buf == 0 || filename == \"/b\"", "/b", VERDICT_YES },
		/* Cut: what the rest could change is not decided, and passes. */
		{ "filename == \"/etc/passwd\"", CUT, VERDICT_NO },
		{ "!(filename == \"/etc/passwd\")", CUT, VERDICT_YES },
		{ "filename == \"" CUT "\"", CUT, VERDICT_UNDECIDED },
		{ "filename != \"" CUT "\"", CUT, VERDICT_UNDECIDED },
		{ "!(filename == \"" CUT "789\")", CUT, VERDICT_UNDECIDED },
		{ "filename == \"" CUT "789\" && pid == 1", CUT, VERDICT_NO },
		{ "filename =~ \"/1*\"", CUT, VERDICT_YES },
		{ "!(filename =~ \"/1*\")", CUT, VERDICT_NO },
		{ "filename =~ \"/2*\"", CUT, VERDICT_NO },
		{ "filename =~ \"*.log\"", CUT, VERDICT_UNDECIDED },
		{ "!(filename =~ \"*.log\")", CUT, VERDICT_UNDECIDED },
		{ "filename =~ \"*/log*\"", CUT, VERDICT_UNDECIDED },
		{ "filename =~ \"/1*[*]\"", CUT, VERDICT_UNDECIDED },
		{ "filename =~ \"/1*\\\\*\"", CUT, VERDICT_UNDECIDED },
		/* Not there: not recorded, or not to be read. */
		{ "filename == \"/etc/passwd\"", NULL, VERDICT_UNDECIDED },
		{ "!(filename =~ \"*\")", NULL, VERDICT_UNDECIDED },
		{ "filename == \"/etc/passwd\" || pid == 100", NULL, VERDICT_UNDECIDED },
		{ "pid == 100 || filename == \"/etc/passwd\"", NULL, VERDICT_YES },
		{ "pid == 1 && filename == \"/etc/passwd\"", NULL, VERDICT_NO },
	};

	(void)state;
	assert_int_equal(strlen(CUT), STRING_BYTES_MAX);
	for (size_t i = 0; i < sizeof(want) / sizeof(want[0]); i++)
		if (says(want[i].text, SMALL_OPENAT, 0x5555, want[i].filename) != want[i].verdict ||
		    says(want[i].text, SMALL_OPENAT_ENTRY, 0x5555, want[i].filename) != want[i].verdict)
			fail_msg("`%s` of \"%s\" is not %d", want[i].text, want[i].filename,
				 want[i].verdict);
	/* NULL points to no text: absent. */
	assert_int_equal(says("filename != \"/\"", SMALL_OPENAT, 0, NULL), VERDICT_NO);
	assert_int_equal(says("!(filename == \"/\")", SMALL_OPENAT, 0, NULL), VERDICT_YES);
	/* And so is the name of a call that has none. */
	EXPECT(SMALL_READ, read_ok, &bash, { "filename != \"/\"", false },
	       { "!(filename == \"/\")", true });
}

/* A tracepoint with a text of 12 bytes in two words, and one of any length, `there` bytes with its NUL. */
static enum filter_verdict tracepoint_says(const char *text, const char *words, uint64_t there,
					   const char *attached_text)
{
	static Ringtail__V1__Field dev, more, path, *fields[3] = { &dev, &more, &path };
	static Ringtail__V1__Probe probe, *probes[] = { &probe };
	Ringtail__V1__Catalog catalog = RINGTAIL__V1__CATALOG__INIT;
	uint64_t field[3] = { 0, 0, there };
	const struct batch_event event = { .probe = 0x200, .fields = 3, .field = field };
	const struct batch_attachment attached = {
		.kind = RT_ATTACH_STRING, .arg = 2, .text = (const uint8_t *)attached_text,
		.text_bytes = !attached_text ? 0 : strlen(attached_text) == STRING_BYTES_MAX ?
			      STRING_BYTES_MAX : strlen(attached_text) + 1,
	};
	struct filter_texts texts = { &attached, attached_text != NULL, false };
	struct filter *filter;
	struct error error;
	bool pass;

	memcpy(field, words, strlen(words));
	small_field(&dev, "dev", RINGTAIL__V1__FIELD_TYPE__FIELD_TEXT, 8);
	dev.bytes = 12;
	small_field(&more, "", RINGTAIL__V1__FIELD_TYPE__FIELD_MORE, 0);
	small_field(&path, "path", RINGTAIL__V1__FIELD_TYPE__FIELD_TEXT, 8);
	ringtail__v1__probe__init(&probe);
	probe.id = 0x200;
	probe.provider = probe.function = probe.name = (char *)"t";
	probe.field = fields;
	probe.n_field = 3;
	catalog.probe = probes;
	catalog.n_probe = 1;
	if (filter_compile(text, &catalog, &filter, &error))
		fail_msg("`%s`: %s", text, error.what);
	pass = filter_pass(filter, 1, &event, &bash, &texts);
	filter_destroy(filter);
	return pass && texts.undecided ? VERDICT_UNDECIDED : pass ? VERDICT_YES : VERDICT_NO;
}

static void test_text_of_tracepoints(void **state)
{
	(void)state;
	assert_int_equal(tracepoint_says("dev == \"sda\"", "sda", 0, NULL), VERDICT_YES);
	assert_int_equal(tracepoint_says("dev == \"sda\"", "sdab", 0, NULL), VERDICT_NO);
	assert_int_equal(tracepoint_says("dev =~ \"nvme*\"", "nvme0n1p1234", 0, NULL), VERDICT_YES);
	assert_int_equal(tracepoint_says("dev == \"nvme0n1p1234\"", "nvme0n1p1234", 0, NULL), VERDICT_YES);
	assert_int_equal(tracepoint_says("path == \"/a/b\"", "", 5, "/a/b"), VERDICT_YES);
	assert_int_equal(tracepoint_says("path != \"/a/b\"", "", 5, "/a/b"), VERDICT_NO);
	assert_int_equal(tracepoint_says("path =~ \"*.log\"", "", 500, "/a/b"), VERDICT_NO);	/* with its NUL */
	assert_int_equal(tracepoint_says("path =~ \"*.log\"", "", 500, CUT), VERDICT_UNDECIDED);
	assert_int_equal(tracepoint_says("path == \"\"", "", 0, NULL), VERDICT_YES);
	assert_int_equal(tracepoint_says("path == \"/a\"", "", 9, NULL), VERDICT_UNDECIDED);
	assert_int_equal(tracepoint_says("!(path == \"/a\")", "", 9, NULL), VERDICT_UNDECIDED);
}

/* ---- Names of the kernel's print formats ------------------------------------------------------- */

enum { NAMED_RAISE = 0x200, NAMED_IRQ, NAMED_ALLOC, NAMED_CHARGE, NAMED_SWITCH, NAMED_OPEN, NAMED_IO, NAMED_NARROW };

/* What some probes have as `flags` has names, of two meanings, and in some it has none. */
static const Ringtail__V1__Catalog *named_catalog(void)
{
	static Ringtail__V1__Field vec, flags, wide, state, ioprio, text, narrow, *fields[8][2] = {
		{ &vec }, { &vec }, { &flags, &wide }, { &flags }, { &state }, { &flags, &text }, { &ioprio, &wide },
		{ &narrow },
	};
	static const char *const formats[8] = {
		"\"%s\", __print_symbolic(REC->vec, { 0, \"HI\" }, { 9, \"RCU\" }, { 10, \"error\" })", "",
		"\"%s %s\", (REC->flags) ? __print_flags(REC->flags, \"|\", { 0x400u, \"GFP_IO\" }, { 0x20u, \"O_CREAT\" }, "
		"{ 1u << 31, \"TOP\" }) : \"none\", __print_symbolic(REC->wide, { -6ULL, \"TREE\" })",
		"\"%s\", __print_flags(REC->flags, \"|\", { 1, \"GFP_IO\" })",
		"\"%s\", __print_flags(REC->state & 0xf, \"|\", { 1, \"S\" }, { 2, \"D\" })", "",
		"\"%s\", __print_symbolic((REC->ioprio >> 13) & 7, { 2, \"be\" }), __print_symbolic(REC->wide, "
		"{ 7, \"TREE\" })",
		"\"%s\", __print_flags((unsigned long)REC->narrow & 0xffffffffffUL, \"|\", { 0xffffffffffUL, \"ALL\" }, "
		"{ 0x80000000UL, \"HIGH\" }, { 1UL << 36, \"BEYOND\" })",
	};
	static Ringtail__V1__Probe probe[8], *probes[8];
	static Ringtail__V1__Catalog catalog;

	small_field(&vec, "vec", RINGTAIL__V1__FIELD_TYPE__FIELD_UNSIGNED, 32);
	small_field(&flags, "flags", RINGTAIL__V1__FIELD_TYPE__FIELD_HEX, 32);
	small_field(&wide, "wide", RINGTAIL__V1__FIELD_TYPE__FIELD_SIGNED, 64);
	small_field(&state, "state", RINGTAIL__V1__FIELD_TYPE__FIELD_SIGNED, 64);
	small_field(&ioprio, "ioprio", RINGTAIL__V1__FIELD_TYPE__FIELD_UNSIGNED, 16);
	small_field(&text, "filename", RINGTAIL__V1__FIELD_TYPE__FIELD_STRING, 64);
	small_field(&narrow, "narrow", RINGTAIL__V1__FIELD_TYPE__FIELD_SIGNED, 32);
	ringtail__v1__catalog__init(&catalog);
	for (unsigned i = 0; i < 8; i++) {
		ringtail__v1__probe__init(&probe[i]);
		probe[i].id = NAMED_RAISE + i;
		probe[i].provider = probe[i].function = (char *)"t";
		probe[i].name = (char *)"t";
		probe[i].field = fields[i];
		probe[i].n_field = fields[i][1] ? 2 : 1;
		probe[i].print = (char *)formats[i];
		probes[i] = &probe[i];
	}
	catalog.probe = probes;
	catalog.n_probe = 8;
	return &catalog;
}

static void test_names_of_the_kernel(void **state)
{
	static const struct {
		const char *text;
		uint16_t probe;
		uint64_t word[2];
		bool pass;
	} want[] = {
		{ "vec == RCU", NAMED_RAISE, { 9 }, true }, { "vec == RCU", NAMED_RAISE, { 8 }, false },
		{ "vec != RCU", NAMED_RAISE, { 8 }, true }, { "RCU == vec", NAMED_RAISE, { 9 }, true },
		{ "vec < RCU", NAMED_RAISE, { 8 }, true }, { "RCU < vec", NAMED_RAISE, { 10 }, true },
		{ "vec == \"RCU\"", NAMED_RAISE, { 9 }, true }, { "vec in (HI, RCU)", NAMED_RAISE, { 9 }, true },
		{ "vec in (HI, \"RCU\", 4)", NAMED_RAISE, { 4 }, true }, { "vec !in (HI, RCU)", NAMED_RAISE, { 4 }, true },
		{ "vec !in (HI, RCU)", NAMED_RAISE, { 0 }, false }, { "arg.vec == RCU", NAMED_RAISE, { 9 }, true },
		/* What is the name of something else, too, is the field's. */
		{ "vec == error", NAMED_RAISE, { 10 }, true }, { "vec == error", NAMED_RAISE, { 0 }, false },
		/* A probe with a field of that name whose numbers have no such name. */
		{ "vec == RCU", NAMED_IRQ, { 9 }, false }, { "vec != RCU", NAMED_IRQ, { 8 }, false },
		{ "!(vec == RCU)", NAMED_IRQ, { 9 }, true },
		/* One name, two numbers. */
		{ "flags & GFP_IO", NAMED_ALLOC, { 0x400 }, true }, { "flags & GFP_IO", NAMED_ALLOC, { 1 }, false },
		{ "flags & GFP_IO", NAMED_CHARGE, { 1 }, true }, { "flags & GFP_IO", NAMED_CHARGE, { 0x400 }, false },
		{ "flags & GFP_IO == GFP_IO", NAMED_CHARGE, { 3 }, true },
		{ "flags & GFP_IO == 0", NAMED_ALLOC, { 1 }, true }, { "flags & GFP_IO == 0", NAMED_OPEN, { 0 }, false },
		{ "flags & \"GFP_IO|O_CREAT\" == \"GFP_IO|O_CREAT\"", NAMED_ALLOC, { 0x421 }, true },
		{ "flags & \"GFP_IO|O_CREAT\" == \"GFP_IO|O_CREAT\"", NAMED_ALLOC, { 0x401 }, false },
		{ "flags == \"GFP_IO|O_CREAT\"", NAMED_ALLOC, { 0x420 }, true },
		{ "flags & 0xff == O_CREAT", NAMED_ALLOC, { 0x120 }, true },
		{ "flags == none", NAMED_ALLOC, { 0 }, true }, { "flags == none", NAMED_CHARGE, { 0 }, false },
		{ "flags == TOP", NAMED_ALLOC, { 0xffffffff80000000 }, true },
		/* The header's constant is another number than the format's, and holds elsewhere. */
		{ "flags & O_CREAT", NAMED_ALLOC, { 0x20 }, true }, { "flags == O_CREAT", NAMED_ALLOC, { 0x20 }, true },
		{ "flags & O_CREAT", NAMED_ALLOC, { O_CREAT }, false }, { "flags & O_CREAT", NAMED_OPEN, { O_CREAT }, true },
		{ "flags == O_CREAT", NAMED_CHARGE, { O_CREAT }, true },
		{ "flags & O_WRONLY", NAMED_ALLOC, { O_WRONLY }, true },
		/* Bits of a field. */
		{ "state == D", NAMED_SWITCH, { 2 }, true }, { "state == D", NAMED_SWITCH, { 0x12 }, true },
		{ "state == D", NAMED_SWITCH, { 3 }, false }, { "state != D", NAMED_SWITCH, { 0x12 }, false },
		{ "state & D", NAMED_SWITCH, { 3 }, true }, { "ioprio == be", NAMED_IO, { 0x4007 }, true },
		{ "ioprio == be", NAMED_IO, { 0x2000 }, false }, { "ioprio in (be, 3)", NAMED_IO, { 0x4001 }, true },
		/* Of each probe, by its own width and sign. */
		{ "wide == TREE", NAMED_ALLOC, { 0, (uint64_t)-6 }, true }, { "wide < TREE", NAMED_ALLOC, { 0, (uint64_t)-7 }, true },
		{ "wide == TREE", NAMED_IO, { 0, 7 }, true },
		/* Numbers of the format have more bits than the field. */
		{ "narrow == ALL", NAMED_NARROW, { 0xffffffff }, true }, { "narrow < ALL", NAMED_NARROW, { 0xfffffffe }, true },
		{ "narrow < ALL", NAMED_NARROW, { 0 }, false }, { "narrow == HIGH", NAMED_NARROW, { 0x80000000 }, true },
		{ "narrow & HIGH == HIGH", NAMED_NARROW, { 0x80000001 }, true },
		{ "narrow & ALL == ALL", NAMED_NARROW, { 0xffffffff }, true },
		{ "narrow & ALL == HIGH", NAMED_NARROW, { 0x80000000 }, true }, { "narrow & ALL", NAMED_NARROW, { 0 }, false },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(want) / sizeof(want[0]); i++) {
		const struct batch_event event = { .probe = want[i].probe, .fields = 2, .field = want[i].word };
		struct filter *filter;
		struct error error;

		if (filter_compile(want[i].text, named_catalog(), &filter, &error))
			fail_msg("`%s`: %s", want[i].text, error.what);
		if (filter_pass(filter, 1, &event, &bash, NULL) != want[i].pass)
			fail_msg("`%s` of probe %d and %#lx is not %d", want[i].text, want[i].probe,
				 (long)want[i].word[0], want[i].pass);
		filter_destroy(filter);
		/* A client that has no catalog yet lets it go to the daemon. */
		if (filter_compile(want[i].text, NULL, &filter, &error) && !strstr(want[i].text, "< "))
			fail_msg("`%s` without a catalog: %s", want[i].text, error.what);
		filter_destroy(filter);
	}
}

static void test_names_that_the_kernel_has_not(void **state)
{
	static const struct {
		const char *text;
		unsigned column;
		const char *code, *hint;
	} want[] = {
		{ "vec == RCUU", 8, "filter-unknown-name", "did you mean `RCU`" },
		{ "RCUU == vec", 1, "filter-unknown-name", "did you mean `RCU`" },
		{ "vec in (HI, RCUU)", 13, "filter-unknown-name", "did you mean `RCU`" },
		{ "flags & GPF_IO", 9, "filter-unknown-name", "did you mean `GFP_IO`" },
		{ "flags & GFP_IO == GPF_IO", 19, "filter-unknown-name", "did you mean `GFP_IO`" },
		{ "vec == GFP_IO", 8, "filter-unknown-name", "numbers of `vec` have names such as `HI`, `RCU`, `error`" },
		{ "RCU", 1, "filter-unknown-name", NULL },
		{ "RCU & 1", 1, "filter-unknown-name", NULL }, { "RCU in (1)", 1, "filter-unknown-name", NULL },
		{ "vec == -RCU", 9, "filter-unknown-name", NULL }, { "pid == RCU", 8, "filter-unknown-name", NULL },
		{ "RCU == RCU", 1, "filter-unknown-name", NULL }, { "RCU == 9", 1, "filter-unknown-name", NULL },
		{ "vec == \"RCUU\"", 8, "filter-wants-number", NULL }, { "vec =~ \"RCU\"", 8, "filter-wants-number", NULL },
		{ "state < D", 9, "filter-bits", NULL }, { "vec & HI", 1, "filter-bits", NULL },
		{ "narrow & BEYOND", 1, "filter-bits", NULL },
		{ "wide & TREE == RCU", 16, "filter-unknown-name", NULL },
		{ "filename == RCU", 13, "filter-unknown-name", NULL },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(want) / sizeof(want[0]); i++) {
		struct filter *filter;
		struct error error;

		if (filter_compile(want[i].text, named_catalog(), &filter, &error) != -EINVAL)
			fail_msg("`%s` is taken", want[i].text);
		if (error.column != want[i].column || strcmp(error.code, want[i].code) != 0 ||
		    (want[i].hint && strncmp(error.hint, want[i].hint, strlen(want[i].hint)) != 0))
			fail_msg("`%s`: %u %s %s, %s", want[i].text, error.column, error.code, error.what, error.hint);
	}
}

/* What a program brings with a probe of its own has no names of the kernel's. */
static void test_names_of_programs(void **state)
{
	Ringtail__V1__Catalog catalog = *named_catalog();
	Ringtail__V1__Probe probe = *catalog.probe[0], *probes[] = { &probe };
	struct filter *filter;
	struct error error;

	(void)state;
	catalog.probe = probes;
	catalog.n_probe = 1;
	probe.id = RT_PROBE_PROGRAM - 1;
	assert_int_equal(filter_compile("vec == RCU", &catalog, &filter, &error), 0);
	filter_destroy(filter);
	probe.id = RT_PROBE_PROGRAM;
	assert_int_equal(filter_compile("vec == RCU", &catalog, &filter, &error), -EINVAL);
	assert_string_equal(error.code, "filter-unknown-name");
	assert_null(strstr(error.hint, "RCU"));
}

/* Nine numbers of one name are refused; eight are not. */
static void test_many_numbers_of_a_name(void **state)
{
	static char format[9][64];
	Ringtail__V1__Catalog catalog = *named_catalog();
	Ringtail__V1__Probe probe[9], *probes[9];
	struct filter *filter;
	struct error error;

	(void)state;
	for (unsigned i = 0; i < 9; i++) {
		probe[i] = *catalog.probe[0];
		probe[i].id += i;
		snprintf(format[i], sizeof(format[i]), "__print_symbolic(REC->vec, { %u, \"RCU\" })", i);
		probe[i].print = format[i];
		probes[i] = &probe[i];
	}
	catalog.probe = probes;
	catalog.n_probe = 8;
	assert_int_equal(filter_compile("vec == RCU", &catalog, &filter, &error), 0);
	filter_destroy(filter);
	catalog.n_probe = 9;
	assert_int_equal(filter_compile("vec == RCU", &catalog, &filter, &error), -EINVAL);
	assert_string_equal(error.code, "filter-many-numbers");
	assert_int_equal(error.column, 8);
}

/* A probe of which the numbers of a field have these names, and one with a field of that name without any. */
static const Ringtail__V1__Catalog *catalog_with_format(char *format)
{
	static Ringtail__V1__Probe probe[2], *probes[2] = { &probe[0], &probe[1] };
	static Ringtail__V1__Catalog catalog;

	catalog = *named_catalog();
	probe[0] = *catalog.probe[0];
	probe[1] = *catalog.probe[1];
	probe[0].print = format;
	catalog.probe = probes;
	catalog.n_probe = 2;
	return &catalog;
}

/* "vec == RCU || vec == RCU ...", or a list. */
static void repeat(char *text, const char *head, const char *between, unsigned times)
{
	*text = '\0';
	for (unsigned i = 0; i < times; i++)
		strcat(strcat(text, i ? between : ""), head);
}

/* A hundred comparisons share the set of the probes that have the name; a filter may have 64 sets. */
static void test_many_names(void **state)
{
	char format[] = "\"%s\", __print_symbolic(REC->vec, { 0, \"HI\" }, { 9, \"RCU\" })", text[4096];
	const Ringtail__V1__Catalog *catalog = catalog_with_format(format);
	struct filter *filter;
	struct error error;

	(void)state;
	repeat(text, "vec == RCU", " || ", 100);
	assert_int_equal(filter_compile(text, catalog, &filter, &error), 0);
	filter_destroy(filter);
	repeat(text, "vec == RCU", " || ", 256);
	assert_int_equal(filter_compile(text, catalog, &filter, &error), -EINVAL);
	assert_string_equal(error.code, "filter-too-long");
}

static unsigned formats_read;

bool __real_kernel_names_find(const char *format, const char *field, const char *text, size_t bytes, uint64_t *mask,
			      uint64_t *value);
bool __wrap_kernel_names_find(const char *format, const char *field, const char *text, size_t bytes, uint64_t *mask,
			      uint64_t *value);

bool __wrap_kernel_names_find(const char *format, const char *field, const char *text, size_t bytes, uint64_t *mask,
			      uint64_t *value)
{
	formats_read++;
	return __real_kernel_names_find(format, field, text, bytes, mask, value);
}

/* A mebibyte is read twice for a name, up to 16 mebibytes in all. */
static void test_long_formats(void **state)
{
	static const char end[] = "__print_symbolic(REC->vec, { 9, \"RCU\" })";
	size_t bytes = 1 << 20;
	char *format = malloc(bytes), text[512], flags[256];
	struct filter *filter;
	struct error error;

	(void)state;
	memset(format, ' ', bytes);
	strcpy(format + bytes - sizeof(end), end);
	repeat(text, "vec == RCU", " || ", 6);
	assert_int_equal(filter_compile(text, catalog_with_format(format), &filter, &error), 0);
	filter_destroy(filter);
	repeat(text, "vec == RCU", " || ", 20);
	formats_read = 0;
	assert_int_equal(filter_compile(text, catalog_with_format(format), &filter, &error), -EINVAL);
	assert_string_equal(error.code, "filter-too-long");
	assert_string_equal(error.hint, "write numbers for some of the names");
	assert_int_equal(formats_read, 17);
	/* Each of the flags is looked for. */
	repeat(flags, "A", "|", 40);
	snprintf(text, sizeof(text), "vec == \"%s\"", flags);
	assert_int_equal(filter_compile(text, catalog_with_format(format), &filter, &error), -EINVAL);
	assert_string_equal(error.code, "filter-too-long");
	free(format);
}

/* connect() of a catalog that has one, to this address; NULL: it was not to be had. */
static bool connects(const char *text, uint64_t pointer, const char *address)
{
	static Ringtail__V1__Field fd, uservaddr, *fields[2] = { &fd, &uservaddr };
	static Ringtail__V1__Probe connect, *probes[16];
	const Ringtail__V1__Catalog *small = small_catalog_get();
	Ringtail__V1__Catalog catalog = *small;
	const uint64_t words[] = { 3, pointer };
	const struct batch_event event = { .probe = SMALL_CONNECT, .fields = 2, .field = words };
	const struct batch_attachment attached = {
		.kind = RT_ATTACH_STRING, .arg = 1, .text = (const uint8_t *)address,
		.text_bytes = address ? strlen(address) : 0,
	};
	struct filter_texts texts = { &attached, address != NULL, false };
	struct filter *filter;
	struct error error;
	bool pass;

	small_field(&fd, "fd", RINGTAIL__V1__FIELD_TYPE__FIELD_FD, 32);
	small_field(&uservaddr, "uservaddr", RINGTAIL__V1__FIELD_TYPE__FIELD_STRING, 64);
	uservaddr.c_type = (char *)"struct sockaddr *";
	ringtail__v1__probe__init(&connect);
	connect.id = SMALL_CONNECT;
	connect.provider = connect.function = connect.name = (char *)"connect";
	connect.field = fields;
	connect.n_field = 2;
	memcpy(probes, small->probe, small->n_probe * sizeof(probes[0]));
	probes[small->n_probe] = &connect;
	catalog.probe = probes;
	catalog.n_probe++;
	if (filter_compile(text, &catalog, &filter, &error))
		fail_msg("`%s`: %s", text, error.what);
	assert_true(filter_asks_strings(filter));
	pass = filter_pass(filter, 1, &event, &bash, &texts);
	filter_destroy(filter);
	return pass;
}

static void test_socket_addresses(void **state)
{
	static const struct {
		const char *text, *address;
		bool pass;
	} want[] = {
		{ "addr == 10.0.0.0/8", "10.1.1.1:443", true }, { "addr == 10.0.0.0/8", "9.1.1.1:443", false },
		{ "addr != 10.0.0.0/8", "9.1.1.1:443", true }, { "addr == \"::1\"", "[::1]:443", true },
		{ "10.1.1.1 == addr", "10.1.1.1:443", true },
		{ "addr in (10.1.1.1,10.1.1.2)", "10.1.1.2:443", true },
		{ "addr !in (10.1.1.1, \"::/0\")", "10.1.1.2:443", true },
		{ "port == 443", "10.1.1.1:443", true }, { "port != 443", "[::1]:443", false },
		{ "port < 1024 && port > 442", "10.1.1.1:443", true }, { "port in (80, 443)", "1.1.1.1:443", true },
		{ "uservaddr =~ \"10.*\"", "10.1.1.1:443", true },
		/* It has none. */
		{ "addr != 10.0.0.0/8", "/run/x.sock", false }, { "port != 443", "@10.1.1.1:443", false },
		{ "!(port == 443)", "/run/x.sock", true },
		/* Nobody knows. */
		{ "addr == 10.0.0.0/8", NULL, true }, { "!(addr == 10.0.0.0/8)", NULL, true },
		{ "port == 443", NULL, true }, { "port != 443", NULL, true },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(want) / sizeof(want[0]); i++)
		if (connects(want[i].text, 0x5000, want[i].address) != want[i].pass)
			fail_msg("`%s` of %s is not %d", want[i].text, want[i].address, want[i].pass);
	assert_false(connects("addr != 10.0.0.0/8", 0, NULL));	/* accept(fd, NULL, NULL) */
	assert_false(connects("port != 0", 0, NULL));
	EXPECT(SMALL_READ, read_ok, &bash, { "port != 443", false }, { "addr != 1.1.1.1", false });
}

static void test_users(void **state)
{
	(void)state;
	user_names_set("bash-user:x:1000:\n");
	EXPECT(SMALL_READ, read_ok, &bash, { "uid == \"bash-user\"", true }, { "uid == \"root\"", false },
	       { "uid != \"root\"", true }, { "uid in (\"root\", \"bash-user\")", true },
	       { "\"root\" == uid", false }, { "duration == 1.5us", true }, { "duration < 0.0015ms", false });
}

/* The path was too long, so that its base name alone came. */
static void test_exe_without_its_path(void **state)
{
	static const struct batch_text base = { .serial = 1, .data = "nginx", .bytes = 5 };
	static const struct batch_thread thread = { .tid = 1, .pid = 1, .comm = "a", .exe = &base };

	(void)state;
	EXPECT(SMALL_READ, read_ok, &thread, { "exe == \"nginx\"", true }, { "exe != \"nginx\"", false },
	       { "exe == \"/usr/sbin/nginx\"", true }, { "!(exe == \"/usr/sbin/nginx\")", true },
	       { "exe =~ \"/opt/*\" && ret < 0", false });
}

static void test_asks_strings(void **state)
{
	static const struct {
		const char *text;
		bool asks;
	} want[] = {
		{ "filename == \"a\"", true }, { "pid == 1 || filename =~ \"a*\"", true },
		{ "filename == 0", false }, { "comm == \"a\" && exe == \"b\"", false },
	};

	(void)state;
	assert_false(filter_asks_strings(NULL));
	for (size_t i = 0; i < sizeof(want) / sizeof(want[0]); i++) {
		struct filter *filter;

		assert_int_equal(filter_compile(want[i].text, small_catalog_get(), &filter, NULL), 0);
		if (filter_asks_strings(filter) != want[i].asks || filter_asks_context(filter) ==
		    (i < 3))
			fail_msg("`%s`", want[i].text);
		filter_destroy(filter);
	}
}

/* One answer for all events of a thread on a CPU, or not. */
static void test_by_thread(void **state)
{
	static const struct {
		const char *text;
		bool by_thread;
	} want[] = {
		{ "pid == 1", true }, { "tid != 1 || uid > 5", true }, { "ppid in (1, 2)", true },
		{ "comm =~ \"a*\" && !kernel", true }, { "cpu == 1 && comm == \"a\"", true },
		{ "pid == tid", true }, { "comm !in (\"a\", \"b\")", true },
		{ "exe == \"a\" || container =~ \"b*\"", true }, { "cgroup == \"/\" && ret < 0", false },
		{ "time > 4s", false }, { "pid == 1 && ret < 0", false }, { "pid == ret", false },
		{ "ret == pid", false }, { "duration > 1ms || pid == 1", false },
		{ "error == ENOENT", false }, { "function == \"read\"", false },
		{ "pid == 1 || probe =~ \"*:open*:*\"", false },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(want) / sizeof(want[0]); i++) {
		struct filter *filter;
		struct error error;

		if (filter_compile(want[i].text, small_catalog_get(), &filter, &error))
			fail_msg("`%s`: %s", want[i].text, error.what);
		if (filter_by_thread(filter) != want[i].by_thread)
			fail_msg("`%s` is not %d", want[i].text, want[i].by_thread);
		filter_destroy(filter);
	}
}

static void test_text(void **state)
{
	static const struct batch_thread full = { .comm = "exactly16bytes!!" };

	(void)state;
	EXPECT(SMALL_OPENAT, openat_failed, &bash,
	       { "comm == \"bash\"", true }, { "\"bash\" == comm", true },
	       { "comm == \"bas\"", false }, { "comm == \"bashx\"", false },
	       { "comm != \"bash\"", false }, { "comm != \"sh\"", true },
	       { "comm =~ \"b*\"", true }, { "comm =~ \"bash\"", true },
	       { "comm =~ \"c*\"", false }, { "comm =~ \"[a-c]?sh\"", true },
	       { "comm in (\"sh\", \"bash\")", true }, { "comm !in (\"sh\", \"bash\")", false },
	       { "comm == \"\"", false },
	       { "provider == \"syscall\"", true }, { "function == \"openat\"", true },
	       { "function != \"openat\"", false }, { "function == \"read\"", false },
	       { "function =~ \"open*\"", true }, { "name == \"call\"", true },
	       { "name == \"entry\"", false }, { "probe == \"syscall:openat:call\"", true },
	       { "probe =~ \"*:openat:*\"", true }, { "function in (\"read\", \"openat\")", true },
	       { "function !in (\"read\", \"kill\")", true });
	EXPECT(RT_PROBE_SCHED_SWITCH, sched_switch, &bash,
	       { "name == \"sched_switch\"", true }, { "provider == \"tracepoint\"", true },
	       { "provider != \"syscall\"", true }, { "function == \"sched\"", true });
	EXPECT(SMALL_READ, read_ok, &full, { "comm =~ \"exactly*!!\"", true },
	       { "comm == \"exactly16bytes!\"", false });
}

#define ID "3f2a5cbd1e9047d6a8b1c2d3e4f5061728394a5b6c7d8e9f00112233445566aa"

/* What a thread executes and where it is; of one that lacks it, no comparison holds. */
static void test_context(void **state)
{
	static const struct batch_text path = { .serial = 1, .data = "/usr/sbin/nginx", .bytes = 15 };
	static const struct batch_text base = { .serial = 2, .data = "nginx", .bytes = 5 };
	static const struct batch_text docker = {
		.serial = 3, .data = "/system.slice/docker-" ID ".scope", .bytes = 91,
	};
	static const struct batch_text root = { .serial = 4, .data = "/", .bytes = 1 };
	struct batch_thread nginx = { .tid = 5, .pid = 5, .comm = "worker", .exe = &path,
				      .cgroup = &docker };

	(void)state;
	EXPECT(SMALL_READ, read_ok, &nginx,
	       { "exe == \"nginx\"", true }, { "exe == \"ngin\"", false },
	       { "exe != \"nginx\"", false }, { "exe =~ \"ng*\"", true },
	       { "exe == \"/usr/sbin/nginx\"", true }, { "exe =~ \"/usr/*\"", true },
	       { "exe == \"/sbin/nginx\"", false }, { "exe in (\"cat\", \"nginx\")", true },
	       { "cgroup =~ \"/system.slice/*\"", true }, { "cgroup == \"/\"", false },
	       { "container == \"" ID "\"", true }, { "container == \"3f2a5cbd1e90\"", true },
	       { "container == \"3f2a5cbd1e9\"", false }, { "container == \"3f2a5cbd1e91\"", false },
	       { "container != \"3f2a5cbd1e90\"", false }, { "container =~ \"3f2a*\"", true },
	       { "container =~ \"3f2a5cbd1e90\"", false }, { "container =~ \"*\"", true });
	nginx.exe = &base;
	nginx.cgroup = &root;
	EXPECT(SMALL_READ, read_ok, &nginx,
	       { "exe == \"nginx\"", true }, { "exe =~ \"n*\"", true },
	       { "cgroup == \"/\"", true }, { "container =~ \"*\"", false },
	       { "container != \"x\"", false }, { "!(container == \"x\")", true });
	EXPECT(SMALL_READ, read_ok, &bash,
	       { "exe == \"bash\"", false }, { "exe != \"bash\"", false },
	       { "cgroup =~ \"*\"", false }, { "container != \"x\"", false });
}

/* Whoever filters by it must have it recorded. */
static void test_asks_context(void **state)
{
	static const struct {
		const char *text;
		bool asks;
	} want[] = {
		{ "pid == 1", false }, { "comm == \"exe\"", false }, { "exe == \"a\"", true },
		{ "pid == 1 || !(ret < 0 && cgroup =~ \"/a*\")", true },
		{ "container != \"a\"", true },
	};

	(void)state;
	assert_false(filter_asks_context(NULL));
	for (size_t i = 0; i < sizeof(want) / sizeof(want[0]); i++) {
		struct filter *filter;
		struct error error;

		assert_int_equal(filter_compile(want[i].text, small_catalog_get(), &filter, &error), 0);
		if (filter_asks_context(filter) != want[i].asks)
			fail_msg("`%s` is not %d", want[i].text, want[i].asks);
		filter_destroy(filter);
	}
}

static void test_fields(void **state)
{
	(void)state;
	EXPECT(SMALL_READ, read_ok, &bash,
	       { "ret == 42", true }, { "ret > 0", true }, { "ret < 0", false }, { "error", false },
	       { "!error", true }, { "error == 0", true }, { "error != ENOENT", true },
	       { "duration == 1500", true }, { "duration == 1500ns", true },
	       { "duration > 1us", true }, { "duration >= 2us", false }, { "fd == 3", true },
	       { "arg.fd == 3", true }, { "count == 4KiB", true }, { "count >= 1MiB", false },
	       { "buf == 0x7ffd0000", true }, { "count > fd", true }, { "ret != fd", true },
	       { "duration_ns == 1500", true }, { "fd in (0, 1, 2)", false },
	       { "fd !in (0, 1, 2)", true }, { "fd in (1, 3)", true });
	EXPECT(SMALL_READ, read_failed, &bash,
	       { "error", true }, { "error == EINTR", true }, { "error == 4", true },
	       { "ret == -EINTR", true }, { "ret == -4", true }, { "ret < 0", true },
	       { "ret > 0", false }, { "ret < 18446744073709551615", true },
	       { "error in (EAGAIN, EINTR)", true }, { "error != EINTR", false },
	       { "duration > 1ms", true });
	EXPECT(SMALL_OPENAT, openat_failed, &bash,
	       { "dfd == -100", true }, { "dfd < 0", true }, { "mode == 0x1a4", true },
	       { "flags == 0x80000", true }, { "filename != 0", true }, { "filename == 0", false },
	       { "error == ENOENT && dfd != 3", true }, { "dfd < mode", true },
	       { "mode > dfd", true }, { "mode == dfd", false }, { "mode >= mode", true });
	EXPECT(SMALL_KILL, kill_all, &bash,
	       { "pid == 100", true }, { "arg.pid == -1", true }, { "arg.pid == 100", false },
	       { "sig == 9", true });
	EXPECT(SMALL_OPENAT_RETURN, openat_returned, &bash, { "ret == -ENOENT", true },
	       { "error == ENOENT", true });
}

/* A comparison on what is not there is false, and so is its opposite; only ! turns it. */
static void test_absent(void **state)
{
	static const uint64_t half[] = { 1500, 42 };
	static const uint64_t foreign[] = { 1, 2, 3 };

	(void)state;
	EXPECT(RT_PROBE_SCHED_SWITCH, sched_switch, &bash,
	       { "ret == 0", false }, { "ret != 0", false }, { "!(ret == 0)", true },
	       { "error", false }, { "!error", true }, { "error == 0", false },
	       { "error != ENOENT", false }, { "duration > 0", false }, { "fd in (1)", false },
	       { "fd !in (1)", false }, { "fd != fd", false }, { "fd == pid", false },
	       { "next_tid == 101", true }, { "next_tid == tid", true },
	       { "prev_prio > next_prio", true });
	EXPECT(SMALL_EXIT, exit_never, &bash, { "duration > 1s", false },
	       { "duration <= 1s", false }, { "error_code == 1", true });
	EXPECT(SMALL_EXIT, exit_never, &bash, { "ret == 0", false }, { "ret != 0", false },
	       { "ret < 1", false }, { "ret != -ENOENT", false }, { "!(ret == 0)", true },
	       { "ret in (0)", false }, { "ret !in (0)", false }, { "ret == ret", false },
	       { "error == 0", false }, { "error != 0", false }, { "error", false },
	       { "!error", true }, { "duration == 18446744073709551615", false },
	       { "duration != 5", false }, { "!(duration > 1s)", true },
	       { "duration_ns >= 0", false }, { "ret < error_code", false });
	EXPECT(SMALL_EXIT, exit_returned, &bash, { "ret == -EPERM", true }, { "error", true },
	       { "duration == 7", true }, { "error_code == 1", true });
	EXPECT(SMALL_READ, half, &bash, { "fd == 3", false }, { "ret == 42", true });
	EXPECT(RT_PROBE_MAX, foreign, &bash, { "fd == 3", false }, { "ret == 2", false },
	       { "function == \"read\"", false }, { "pid == 100", true });
}

/* What stands behind an event's last field is not its next one. */
static void test_fields_end_where_the_event_says(void **state)
{
	const struct batch_event cut = { .probe = SMALL_READ, .fields = 2, .field = read_ok };
	static const struct expectation want[] = {
		{ "fd == 3", false }, { "fd != 4", false }, { "count == 4096", false },
		{ "ret == 42", true },
	};

	(void)state;
	expect(want, sizeof(want) / sizeof(want[0]), &cut, &bash);
}

/* Of a thread that nobody has introduced, its tid is all that is known. */
static void test_stranger(void **state)
{
	static const struct batch_thread stranger = { .tid = 55 };

	(void)state;
	EXPECT(SMALL_READ, read_ok, &stranger,
	       { "tid == 55", true }, { "tid != 55", false }, { "cpu == 1", true },
	       { "ret == 42", true }, { "function == \"read\"", true },
	       { "pid == 0", false }, { "pid != 0", false }, { "!(pid == 0)", true },
	       { "uid == 0", false }, { "ppid in (0)", false }, { "ppid !in (1)", false },
	       { "kernel", false }, { "kernel == 0", false }, { "!kernel", true },
	       { "comm == \"\"", false }, { "comm != \"bash\"", false },
	       { "comm =~ \"*\"", false }, { "!(comm =~ \"b*\")", true },
	       { "pid == tid", false }, { "tid > pid", false }, { "fd < uid", false });
}

/* As the kernel has it: -4095 is an error, and what is below it an address. */
static void test_the_last_error(void **state)
{
	static const uint64_t last[] = { 1500, (uint64_t)-4095, 3, 0, 4096 };
	static const uint64_t beyond[] = { 1500, (uint64_t)-4096, 3, 0, 4096 };

	(void)state;
	EXPECT(SMALL_READ, last, &bash, { "error", true }, { "error == 4095", true }, { "error == 0", false });
	EXPECT(SMALL_READ, beyond, &bash, { "error", false }, { "error == 0", true }, { "ret == -4096", true });
}

static void test_bits_and_constants(void **state)
{
	(void)state;
	EXPECT(SMALL_OPENAT, openat_failed, &bash,
	       { "flags & O_CLOEXEC", true }, { "flags & O_CREAT", false },
	       { "!(flags & O_CREAT)", true }, { "flags & 0x80001", true },
	       { "flags & O_ACCMODE == O_RDONLY", true }, { "flags & O_ACCMODE == O_WRONLY", false },
	       { "flags & O_ACCMODE != O_WRONLY", true }, { "O_RDWR == flags & O_ACCMODE", false },
	       { "flags & O_ACCMODE in (O_WRONLY, O_RDONLY)", true },
	       { "flags & O_ACCMODE !in (O_WRONLY, O_RDWR)", true }, { "dfd == AT_FDCWD", true },
	       { "dfd != AT_FDCWD", false }, { "mode & 0777 == 0644", false },
	       { "mode & 0x1ff == 0x1a4", true }, { "pid & 4", true }, { "pid & 3", false },
	       { "flags == O_CLOEXEC", true }, { "pid == 100 && flags & O_CLOEXEC", true });
	EXPECT(SMALL_KILL, kill_all, &bash, { "sig == SIGKILL", true }, { "sig == SIGTERM", false },
	       { "sig in (SIGTERM, SIGKILL)", true }, { "arg.pid & 0x80000000", true });
	/* What is not there has no bits, set or not. */
	EXPECT(SMALL_READ, read_ok, &bash, { "flags & O_CLOEXEC", false },
	       { "flags & O_CLOEXEC == 0", false }, { "flags & O_CLOEXEC != 0", false },
	       { "!(flags & O_CLOEXEC == 0)", true });
}

static void test_logic(void **state)
{
	(void)state;
	EXPECT(SMALL_READ, read_ok, &bash,
	       { "pid == 100 && tid == 101", true }, { "pid == 100 && tid == 1", false },
	       { "pid == 1 || tid == 101", true }, { "pid == 1 || tid == 1", false },
	       { "pid == 1 && tid == 1 || uid == 1000", true },
	       { "uid == 1000 || pid == 1 && tid == 1", true },
	       { "(uid == 1000 || pid == 1) && tid == 1", false },
	       { "!(pid == 1)", true }, { "!!(pid == 1)", false },
	       { "!(pid == 1 || ret == 42)", false },
	       { "!(pid == 1 && ret == 42) && !(kernel)", true },
	       { "((((pid == 100))))", true }, { "pid==100&&tid==101", true },
	       { "pid in (1)||pid in(100)", true }, { "!pid in (1)", true },
	       { "pid == 100 && pid != 5 && uid > 3 && ret > 41 && ret < 43", true });
}

/* ---- Errors ---------------------------------------------------------------------------------- */

static const struct {
	const char *text;
	unsigned column;
	const char *code, *what, *hint;		/* what, after its column */
} bad[] = {
	/* words */
	{ "pid = 3", 5, "filter-bad-character", "`=` means nothing here", "equality is ==" },
	{ "pid == 3 | tid == 3", 10, "filter-bad-character", "`|` means nothing here",
	  "or is ||" },
	{ "comm ~ \"x\"", 6, "filter-bad-character", "`~` means nothing here",
	  "a glob is compared with =~" },
	{ "comm == 'x'", 9, "filter-bad-character", "`'` means nothing here",
	  "text stands in double quotes" },
	{ "pid == \001", 8, "filter-bad-character", "byte 0x01 means nothing here", "" },
	{ "pid == \303\251", 8, "filter-bad-character", "byte 0xc3 means nothing here", "" },
	{ "comm == \"x", 9, "filter-open-string", "the text that begins here has no closing \"",
	  "" },
	{ "comm == \"x\\\"", 9, "filter-open-string",
	  "the text that begins here has no closing \"", "" },
	{ "comm == \"ab\\n\"", 12, "filter-bad-escape", "a \\ may stand only before \" and \\",
	  "in a glob, write \\\\* for a plain *" },
	{ "pid == 99999999999999999999", 8, "number-too-large",
	  "`99999999999999999999` is too large", "" },
	{ "duration > 3mss", 12, "unit-unknown", "no unit is called `mss`", "did you mean `ms`?" },
	/* grammar */
	{ "pid ==", 7, "filter-incomplete",
	  "the filter ends where a name, a number or \"text\" is expected", "" },
	{ "pid == 1 &&", 12, "filter-incomplete",
	  "the filter ends where a name, a number or \"text\" is expected", "" },
	{ "pid == )", 8, "filter-unexpected",
	  "`)` stands where a name, a number or \"text\" is expected", "" },
	{ "(pid == 1", 10, "filter-incomplete", "the filter ends where &&, || or ) is expected",
	  "" },
	{ "pid == 1)", 9, "filter-unexpected", "`)` stands where && or || is expected", "" },
	{ "pid == 1 and tid == 2", 10, "filter-unexpected",
	  "`and` stands where && or || is expected", "and is written &&" },
	{ "pid == 1 or tid == 2", 10, "filter-unexpected",
	  "`or` stands where && or || is expected", "or is written ||" },
	{ "not kernel", 1, "filter-unknown-name", "no name is called `not`", "not is written !" },
	{ "pid == 1 tid", 10, "filter-unexpected", "`tid` stands where && or || is expected", "" },
	{ "pid !", 6, "filter-incomplete", "the filter ends where in is expected", "" },
	{ "pid in 3", 8, "filter-unexpected", "`3` stands where ( after in is expected", "" },
	{ "pid in ()", 9, "filter-unexpected",
	  "`)` stands where a name, a number or \"text\" is expected", "" },
	{ "pid in (3", 10, "filter-incomplete", "the filter ends where , or ) is expected", "" },
	{ "pid in (3 4)", 11, "filter-unexpected", "`4` stands where , or ) is expected", "" },
	{ "pid in (3, tid)", 12, "filter-list-name", "a list holds numbers or text, not names",
	  "" },
	{ "3 in (3)", 1, "filter-constant", "a name stands before in", "" },
	{ "- pid == 3", 1, "filter-minus",
	  "a minus may stand only before a number or an error's name", "" },
	{ "comm == -\"x\"", 9, "filter-minus",
	  "a minus may stand only before a number or an error's name", "" },
	/* names */
	{ "pidd == 3", 1, "filter-unknown-name", "no name is called `pidd`",
	  "did you mean `pid`, `ppid` or `tid`?" },
	{ "uid == 0 && filenam == 0", 13, "filter-unknown-name", "no name is called `filenam`",
	  "did you mean `filename`?" },
	{ "error == ENOEN", 10, "filter-unknown-name", "no name is called `ENOEN`",
	  "did you mean `ENOENT`, `ENOSR` or `ENOMEM`?" },
	{ "comm == bash", 9, "filter-unknown-name", "no name is called `bash`",
	  "text stands in quotes; `tracectl list` shows the arguments" },
	{ "arg.zebra == 1", 1, "filter-unknown-name", "no name is called `zebra`",
	  "text stands in quotes; `tracectl list` shows the arguments" },
	{ "function == \"opnat\"", 13, "filter-unknown-probe",
	  "no probe has the function \"opnat\"", "did you mean `openat`?" },
	{ "probe in (\"syscall:read:call\", \"zebra\")", 32, "filter-unknown-probe",
	  "no probe has the probe \"zebra\"", "`tracectl list` shows every probe" },
	/* types */
	{ "comm == 3", 9, "filter-wants-text", "comm is text, and this is not",
	  "write text in double quotes, as in comm == \"...\"" },
	{ "3 == comm", 1, "filter-wants-text", "comm is text, and this is not",
	  "write text in double quotes, as in comm == \"...\"" },
	{ "comm == pid", 9, "filter-wants-text", "comm is text, and this is not",
	  "write text in double quotes, as in comm == \"...\"" },
	{ "name == ENOENT", 9, "filter-wants-text", "name is text, and this is not",
	  "write text in double quotes, as in name == \"...\"" },
	{ "comm < \"x\"", 8, "filter-no-order", "comm is text, which has no order here",
	  "text is compared with ==, !=, =~ and in" },
	{ "comm == \"a-very-long-name\"", 9, "filter-comm-too-long",
	  "no comm has more than 15 bytes", "the kernel cuts it: write \"a-very-long-nam\"" },
	{ "pid == \"3\"", 8, "filter-wants-number", "pid is a number, and this is text", "" },
	{ "pid == comm", 8, "filter-wants-number", "pid is a number, and comm is text", "" },
	{ "pid in (1, \"3\")", 12, "filter-wants-number", "pid is a number, and this is text",
	  "" },
	{ "error == \"ENOENT\"", 10, "filter-wants-number",
	  "error is a number, and this is text", "an error's name stands without quotes" },
	{ "filename < \"/etc\"", 12, "filter-no-order",
	  "filename is text, which has no order here", "text is compared with ==, !=, =~ and in" },
	{ "filename =~ 3", 13, "filter-wants-text",
	  "=~ compares text, and filename is a number", "" },
	{ "buf == \"/etc\"", 8, "filter-wants-number", "buf is a number, and this is text", "" },
	{ "addr == \"/run/x\"", 9, "filter-address",
	  "addr is compared with an address or a network, by ==, != or in",
	  "as in addr == 10.0.0.0/8, or addr == \"fe80::/10\"; a path or a glob is compared with the argument, as in uservaddr =~ \"/run/*\"" },
	{ "addr == 10.0.0.1/8", 9, "filter-address",
	  "addr is compared with an address or a network, by ==, != or in",
	  "as in addr == 10.0.0.0/8, or addr == \"fe80::/10\"; a path or a glob is compared with the argument, as in uservaddr =~ \"/run/*\"" },
	{ "addr =~ \"10.*\"", 9, "filter-address",
	  "addr is compared with an address or a network, by ==, != or in",
	  "as in addr == 10.0.0.0/8, or addr == \"fe80::/10\"; a path or a glob is compared with the argument, as in uservaddr =~ \"/run/*\"" },
	{ "port == \"443\"", 9, "filter-wants-number", "port is a number, and this is text", "" },
	{ "port == fd", 9, "filter-wants-number", "port is compared with numbers alone", "" },
	{ "port & 1", 1, "filter-bits", "before & stands the name of a number of the event",
	  "as in flags & O_WRONLY; and is written &&" },
	{ "uid == \"nobody-here\"", 8, "filter-unknown-user",
	  "no user is known here as \"nobody-here\"",
	  "names are those of the daemon's host when the daemon started, and of a recording none but root: write the number that `id -u` prints" },
	{ "duration > 1.5", 12, "number-fraction", "`1.5` is not a whole number",
	  "a fraction needs a unit that makes it whole, as in 1.5ms; at most 9 digits" },
	{ "duration > 1.5ns", 12, "number-fraction", "`1.5ns` is not a whole number",
	  "a fraction needs a unit that makes it whole, as in 1.5ms; at most 9 digits" },
	{ "duration > 1.0000000001s", 12, "number-fraction",
	  "`1.0000000001s` is not a whole number",
	  "a fraction needs a unit that makes it whole, as in 1.5ms; at most 9 digits" },
	{ "duration > 10.0.0.0", 12, "filter-wants-number",
	  "duration is a number, and this is text", "" },
	{ "duration > 1.s", 13, "filter-bad-character", "`.` means nothing here", "" },
	{ "pid =~ 3", 8, "filter-wants-text", "=~ compares text, and pid is a number", "" },
	{ "\"b*\" =~ comm", 1, "filter-glob-left", "the glob stands on the right of =~", "" },
	{ "3 == 3", 1, "filter-constant", "neither side of this comparison is of the event", "" },
	{ "3", 1, "filter-constant", "this is not compared with anything", "" },
	{ "pid", 1, "filter-no-comparison", "pid is not compared with anything",
	  "write pid == ..., or another comparison" },
	{ "!fd", 2, "filter-no-comparison", "fd is not compared with anything",
	  "write fd == ..., or another comparison" },
	{ "ret == ENOENT", 8, "filter-errno-misplaced", "ret is never an error's name",
	  "write error == ENOENT or ret == -ENOENT" },
	{ "error == -ENOENT", 10, "filter-errno-misplaced",
	  "error is never minus an error's name", "write error == ENOENT or ret == -ENOENT" },
	{ "error == O_CRAET", 10, "filter-unknown-name", "no name is called `O_CRAET`",
	  "did you mean `O_CREAT`?" },
	{ "comm & 1", 1, "filter-bits", "before & stands the name of a number of the event",
	  "as in flags & O_WRONLY; and is written &&" },
	{ "3 & 1 == 1", 1, "filter-bits", "before & stands the name of a number of the event",
	  "as in flags & O_WRONLY; and is written &&" },
	{ "pid == 3 & tid == 3", 8, "filter-bits",
	  "before & stands the name of a number of the event",
	  "as in flags & O_WRONLY; and is written &&" },
	{ "pid & tid", 7, "filter-bits", "behind & stands a number with a bit that may be set",
	  "as in flags & O_WRONLY, or flags & O_ACCMODE == O_RDONLY; and is written &&" },
	{ "flags & O_RDONLY", 9, "filter-bits", "no bit is set in this, so it never holds",
	  "as in flags & O_WRONLY, or flags & O_ACCMODE == O_RDONLY; and is written &&" },
	{ "flags & 1 < 3", 13, "filter-bits",
	  "bits are compared with a number, by ==, != or in",
	  "as in flags & O_ACCMODE == O_RDONLY" },
	{ "flags & 1 == pid", 14, "filter-bits",
	  "bits are compared with a number, by ==, != or in",
	  "as in flags & O_ACCMODE == O_RDONLY" },
	{ "pid == EPERM", 8, "filter-errno-misplaced", "pid is never an error's name",
	  "write error == ENOENT or ret == -ENOENT" },
	/* and what none of them came to */
	{ "fd == port", 7, "filter-wants-number", "port is compared with numbers alone", "" },
	{ "3 !in (3)", 1, "filter-constant", "a name stands before in", "" },
	{ "pid !in 3", 9, "filter-unexpected", "`3` stands where ( after in is expected", "" },
	{ "flags & EPERM", 9, "filter-bits",
	  "behind & stands a number with a bit that may be set",
	  "as in flags & O_WRONLY, or flags & O_ACCMODE == O_RDONLY; and is written &&" },
	{ "flags & -1", 9, "filter-bits", "behind & stands a number with a bit that may be set",
	  "as in flags & O_WRONLY, or flags & O_ACCMODE == O_RDONLY; and is written &&" },
	{ "flags & \"x\"", 9, "filter-bits",
	  "behind & stands a number with a bit that may be set",
	  "as in flags & O_WRONLY, or flags & O_ACCMODE == O_RDONLY; and is written &&" },
	{ "\"x\" & 1", 1, "filter-bits", "before & stands the name of a number of the event",
	  "as in flags & O_WRONLY; and is written &&" },
	{ "flags & 0x10000000000000000", 9, "number-too-large",
	  "`0x10000000000000000` is too large", "" },
	{ "ret == -ENOEN", 9, "filter-unknown-name", "no name is called `ENOEN`",
	  "did you mean `ENOENT`, `ENOSR` or `ENOMEM`?" },
	{ "fd == -ENOENT", 7, "filter-errno-misplaced", "fd is never minus an error's name",
	  "write error == ENOENT or ret == -ENOENT" },
	{ "comm =~ \"a-very-long-name\"", 9, "filter-comm-too-long",
	  "no comm has more than 15 bytes", "the kernel cuts it: write \"a-very-long-nam\"" },
	{ "uid =~ \"root\"", 8, "filter-wants-number", "uid is a number, and this is text", "" },
	{ "provider < \"sys\"", 12, "filter-no-order",
	  "provider is text, which has no order here", "text is compared with ==, !=, =~ and in" },
	{ "exe == 3", 8, "filter-wants-text", "exe is text, and this is not",
	  "write text in double quotes, as in exe == \"...\"" },
	{ "exe < \"x\"", 7, "filter-no-order", "exe is text, which has no order here",
	  "text is compared with ==, !=, =~ and in" },
	{ "pid < comm", 7, "filter-wants-number", "pid is a number, and comm is text", "" },
	{ "and == 1", 1, "filter-unknown-name", "no name is called `and`", "and is written &&" },
	{ "or == 1", 1, "filter-unknown-name", "no name is called `or`", "or is written ||" },
	{ "pid == 1 &", 11, "filter-incomplete",
	  "the filter ends where a name, a number or \"text\" is expected", "" },
	{ "duraton > 1", 1, "filter-unknown-name", "no name is called `duraton`",
	  "did you mean `duration`?" },
	{ "rett == 1", 1, "filter-unknown-name", "no name is called `rett`",
	  "did you mean `ret`?" },
	{ "adr == 1.2.3.4", 1, "filter-unknown-name", "no name is called `adr`",
	  "did you mean `addr`, `EBADR` or `EBADRQC`?" },
	{ "error == ERESTARTSY", 10, "filter-unknown-name", "no name is called `ERESTARTSY`",
	  "did you mean `ERESTARTSYS` or `ERESTART`?" },
	{ "probe == \"syscall:red:call\"", 10, "filter-unknown-probe",
	  "no probe has the probe \"syscall:red:call\"",
	  "did you mean `syscall:read:call`, `syscall:kill:call` or `syscall:openat:call`?" },
	{ "name == \"cal\"", 9, "filter-unknown-probe", "no probe has the name \"cal\"",
	  "did you mean `call`?" },
	{ "provider == \"syscal\"", 13, "filter-unknown-probe",
	  "no probe has the provider \"syscal\"", "did you mean `syscall`?" },
	{ "function == \"read*\"", 13, "filter-unknown-probe",
	  "no probe has the function \"read*\"", "did you mean `read`?" },
	{ "pid == 1 aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", 10,
	  "filter-unexpected",
	  "`aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa` stands where && or || is expected",
	  "" },
	{ "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa == 1", 1,
	  "filter-unknown-name",
	  "no name is called `aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa`",
	  "text stands in quotes; `tracectl list` shows the arguments" },
	{ "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa == 1", 1,
	  "filter-unknown-name",
	  "no name is called `aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa`",
	  "text stands in quotes; `tracectl list` shows the arguments" },
	{ "pid == -pid", 8, "filter-minus",
	  "a minus may stand only before a number or an error's name", "" },
	{ "pid == --1", 9, "filter-unexpected",
	  "`-` stands where a name, a number or \"text\" is expected", "" },
	{ "error == -1 && pid in (EPERM)", 24, "filter-errno-misplaced",
	  "pid is never an error's name", "write error == ENOENT or ret == -ENOENT" },
	{ "addr < 10.0.0.1", 8, "filter-address",
	  "addr is compared with an address or a network, by ==, != or in",
	  "as in addr == 10.0.0.0/8, or addr == \"fe80::/10\"; a path or a glob is compared with the argument, as in uservaddr =~ \"/run/*\"" },
	{ "addr == 10.0.0.256", 9, "filter-address",
	  "addr is compared with an address or a network, by ==, != or in",
	  "as in addr == 10.0.0.0/8, or addr == \"fe80::/10\"; a path or a glob is compared with the argument, as in uservaddr =~ \"/run/*\"" },
	{ "cpu == \\x01", 8, "filter-bad-character", "`\\` means nothing here", "" },
	{ "kernel == \"x\"", 11, "filter-wants-number", "kernel is a number, and this is text",
	  "" },
	{ "time > \"x\"", 8, "filter-wants-number", "time is a number, and this is text", "" },
	{ "tid in (\"x\")", 9, "filter-wants-number", "tid is a number, and this is text", "" },
	{ "flags & 3 in (1, pid)", 18, "filter-list-name",
	  "a list holds numbers or text, not names", "" },
	{ "flags in (1, flags & 1)", 14, "filter-list-name",
	  "a list holds numbers or text, not names", "" },
	{ "(pid", 2, "filter-no-comparison", "pid is not compared with anything",
	  "write pid == ..., or another comparison" },
	{ "!", 2, "filter-incomplete",
	  "the filter ends where a name, a number or \"text\" is expected", "" },
	{ "pid in", 7, "filter-incomplete", "the filter ends where ( after in is expected", "" },
	{ "pid !in", 8, "filter-incomplete", "the filter ends where ( after in is expected", "" },
	{ "pid !in (", 10, "filter-incomplete",
	  "the filter ends where a name, a number or \"text\" is expected", "" },
	{ "pid == (1)", 8, "filter-unexpected",
	  "`(` stands where a name, a number or \"text\" is expected", "" },
	{ "flags & 1 & 2", 11, "filter-unexpected", "`&` stands where && or || is expected", "" },
};

static void test_errors(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct filter *filter;
		struct error error;
		char what[ERROR_TEXT_BYTES];

		if (filter_compile(bad[i].text, small_catalog_get(), &filter, &error) != -EINVAL)
			fail_msg("`%s` is not refused", bad[i].text);
		assert_null(filter);
		snprintf(what, sizeof(what), "filter, column %u: %s", bad[i].column, bad[i].what);
		assert_string_equal(error.what, what);
		assert_string_equal(error.code, bad[i].code);
		assert_string_equal(error.hint, bad[i].hint);
		assert_int_equal(error.column, bad[i].column);
		assert_int_equal(filter_compile(bad[i].text, small_catalog_get(), &filter, NULL),
				 -EINVAL);
	}
}

/* Each error that has a name is known by it, in both directions. */
static void test_names_of_errors(void **state)
{
	static const struct {
		const char *name;
		int number;
	} others[] = {
		{ "EWOULDBLOCK", EAGAIN }, { "ENOTSUP", EOPNOTSUPP }, { "EDEADLOCK", EDEADLK },
		{ "ERESTARTSYS", 512 }, { "ERESTARTNOINTR", 513 }, { "ERESTARTNOHAND", 514 },
		{ "ENOIOCTLCMD", 515 }, { "ERESTART_RESTARTBLOCK", 516 },
	};
	unsigned names = 0;

	(void)state;
	for (int i = 1; i < 300; i++) {
		const char *name = i < 256 ? strerrorname_np(i) : NULL;
		const size_t other = (size_t)i - 256;
		int number = i;
		char text[80];

		if (i >= 256 && other < sizeof(others) / sizeof(others[0]))
			name = others[other].name, number = others[other].number;
		if (!name)
			continue;
		names++;
		for (int off = -1; off <= 1; off++) {
			const uint64_t words[] = { 1, (uint64_t)-(number + off), 3, 0, 0 };
			const struct batch_event event = EVENT(SMALL_READ, words);

			snprintf(text, sizeof(text), "error == %s", name);
			assert_int_equal(passes(text, &event, &bash), off == 0);
			snprintf(text, sizeof(text), "ret == -%s", name);
			assert_int_equal(passes(text, &event, &bash), off == 0);
		}
	}
	assert_true(names > 100);
}

static struct error refusal;

/* Whether the small catalog takes this filter, with one probe more that has a field `name`. */
static bool takes_field_beside(uint32_t id, const char *name, Ringtail__V1__FieldType type, const char *text)
{
	Ringtail__V1__Field field, *fields[] = { &field };
	Ringtail__V1__Catalog catalog = *small_catalog_get();
	Ringtail__V1__Probe own, *probes[16];
	struct filter *filter;
	int err;

	assert_true(catalog.n_probe < 16);
	memcpy(probes, catalog.probe, catalog.n_probe * sizeof(probes[0]));
	small_field(&field, name, type, 32);
	ringtail__v1__probe__init(&own);
	own.id = id;
	own.provider = own.function = own.name = (char *)"own";
	own.field = fields;
	own.n_field = 1;
	probes[catalog.n_probe++] = &own;
	catalog.probe = probes;
	err = filter_compile(text, &catalog, &filter, &refusal);
	filter_destroy(filter);
	return err == 0;
}

static bool takes_beside(uint32_t id, const char *name, const char *text)
{
	return takes_field_beside(id, name, RINGTAIL__V1__FIELD_TYPE__FIELD_SIGNED, text);
}

/* What an array's word is, no filter compares; one of a program hides no number of the kernel's. */
static void test_arrays_are_not_compared(void **state)
{
	const Ringtail__V1__FieldType array = RINGTAIL__V1__FIELD_TYPE__FIELD_BYTES;
	static const char *const refused[] = {"sizes == 4", "sizes =~ \"a*\"", "sizes & 1"};

	(void)state;
	for (size_t i = 0; i < 3; i++) {
		assert_false(takes_field_beside(RT_PROBE_PROGRAM, "sizes", array, refused[i]));
		assert_string_equal(refusal.code, "filter-array");
		assert_string_equal(refusal.what, "filter, column 1: `sizes` is an array, and a filter compares numbers and texts");
		assert_true(*refusal.hint);
	}
	assert_true(takes_field_beside(RT_PROBE_PROGRAM, "count", array, "count > 4"));
}

/* A program that calls a number `ret` takes no filter away from those who look at system calls. */
static void test_a_program_breaks_no_filter_by_a_name(void **state)
{
	(void)state;
	assert_true(takes_beside(RT_PROBE_PROGRAM, "ret", "ret == -ENOENT"));
	assert_true(takes_beside(RT_PROBE_PROGRAM, "ret", "ret == 5 || ret < 0"));
	assert_false(takes_beside(RT_PROBE_PROGRAM, "us", "us == -ENOENT"));
	assert_false(takes_beside(RT_PROBE_MADE, "ret", "ret == -ENOENT"));
}

/* `unit`, `times` times, between `head` and `tail`; the code of the error that it makes, or "". */
static const char *code_of(const char *head, const char *unit, unsigned times, const char *tail)
{
	char *text = malloc(strlen(head) + strlen(unit) * times + strlen(tail) + 1);
	struct filter *filter;
	char *to;
	int err;

	assert_non_null(text);
	to = stpcpy(text, head);
	for (unsigned i = 0; i < times; i++)
		to = stpcpy(to, unit);
	strcpy(to, tail);
	err = filter_compile(text, small_catalog_get(), &filter, &refusal);
	filter_destroy(filter);
	free(text);
	return err ? refusal.code : "";
}

/* Behind a parenthesis of the program's own, a slip stands where the person made it, in the words too. */
static void test_column_of_a_filter_in_a_filter(void **state)
{
	struct filter *filter;
	struct error error;
	char other[ERROR_TEXT_BYTES] = "column 3";
	uint32_t column = 1;

	(void)state;
	assert_int_equal(filter_compile("(pid == 1 && zebra) && uid == 0", small_catalog_get(), &filter, &error),
			 -EINVAL);
	filter_refusal_shift(error.what, sizeof(error.what), &error.column);
	assert_int_equal(error.column, 13);
	assert_string_equal(error.what, "filter, column 13: no name is called `zebra`");
	filter_refusal_shift(other, sizeof(other), &column);
	assert_int_equal(column, 1);
	assert_string_equal(other, "column 3");
}

/* The work that one event may cost is bounded, however the patterns are spread over a filter. */
static void test_patterns_have_a_bound_together(void **state)
{
	char text[2 * FILTER_GLOB_BYTES_MAX + 100], stars[FILTER_GLOB_BYTES_MAX + 1];
	struct filter *filter;
	struct error error;

	(void)state;
	memset(stars, '*', sizeof(stars));
	snprintf(text, sizeof(text), "filename =~ \"%.*s\" && exe =~ \"%.12s\"",
		 (int)FILTER_GLOB_BYTES_MAX - 12, stars, stars);
	assert_int_equal(filter_compile(text, small_catalog_get(), &filter, &error), 0);
	filter_destroy(filter);
	snprintf(text, sizeof(text), "filename =~ \"%.*s\" && exe =~ \"%.13s\"",
		 (int)FILTER_GLOB_BYTES_MAX - 12, stars, stars);
	assert_int_equal(filter_compile(text, small_catalog_get(), &filter, &error), -EINVAL);
	assert_string_equal(error.code, "filter-globs-too-long");
	assert_int_equal(error.column, strlen(text) - 14);
}

static void test_bounds(void **state)
{
	(void)state;
	assert_string_equal(code_of("kernel", " ", FILTER_BYTES_MAX - 6, ""), "");
	assert_string_equal(code_of("kernel", " ", FILTER_BYTES_MAX - 5, ""), "filter-too-long");
	assert_string_equal(code_of("", "!", 64, "kernel"), "");
	assert_string_equal(code_of("", "!", 65, "kernel"), "filter-too-deep");
	assert_string_equal(code_of("", "(", 65, "kernel"), "filter-too-deep");
	assert_string_equal(code_of("", "(", 4000, ""), "filter-too-deep");
	assert_string_equal(code_of("uid in (0", ",1", 1022, ")"), "");
	assert_string_equal(code_of("uid in (0", ",1", 1023, ")"), "filter-too-long");
	assert_string_equal(code_of("kernel", "||name!=\"call\"", 64, ""), "");
	assert_string_equal(code_of("kernel", "||name!=\"call\"", 65, ""), "filter-too-long");
	assert_string_equal(code_of("fd==1||ret==1||sig==1||mode==1||dfd==1||prio==1||flags==1||"
				    "count==1||error_code==1||next_tid==1||next_prio==1||buf==1||"
				    "prev_prio==1||prev_state==1||target_tid==1||filename==1",
				    "||arg.pid==1", 1, ""), "filter-too-long");
	assert_string_equal(code_of("", "a", NAME_BYTES_MAX + 1, "==1"), "filter-unknown-name");
	assert_non_null(strstr(refusal.what, "no name has more than"));
	assert_string_equal(code_of("", "a", NAME_BYTES_MAX, "==1"), "filter-unknown-name");
	assert_non_null(strstr(refusal.what, "no name is called"));
}

/* ---- What the kernel is told ----------------------------------------------------------------- */

static unsigned clauses_of(const char *text, struct rt_filter_clause *clause, unsigned max)
{
	struct filter *filter;
	unsigned n;

	if (filter_compile(text, small_catalog_get(), &filter, NULL))
		fail_msg("`%s` is refused", text);
	n = filter_kernel_clauses(filter, clause, max);
	filter_destroy(filter);
	return n;
}

/* Where the kernel lets through what the filter does, and nothing else. */
static void test_of_kernel(void **state)
{
	static const struct {
		const char *text;
		bool alone;
	} want[] = {
		{ "pid == 5", true }, { "pid != 5", true }, { "comm == \"sh\"", true }, { "!(uid == 0)", true },
		{ "pid in (1, 2, 3) && uid == 0", true }, { "comm == \"a\" || tid == 7", true },
		{ "!(comm == \"a\" && (tid == 7 || uid != 3))", true },
		{ "pid != 5 && comm != \"sh\"", true }, { "pid == 5000000000", true },
		{ "pid != 5 && pid != 6", false },		/* a clause has room for one of them */
		{ "pid > 5", false }, { "ret < 0", false }, { "ppid == 1", false }, { "cpu == 1", false },
		{ "comm =~ \"s*\"", false }, { "pid == 5 && ret < 0", false }, { "ret < 0 && pid == 5", false },
		{ "pid == 5 || ret < 0", false }, { "!(pid == 5 || error == 2)", false },
		{ "probe == \"syscall:read:call\" && pid == 5", false },
		{ "pid in (1, 2, 3, 4, 5) && tid in (1, 2, 3, 4, 5)", false },
		{ "pid == 5 || (pid == 6 && ret < 0)", false }, { "(pid == 6 && ret < 0) || pid == 5", false },
		{ "uid == 0 && (pid == 5 || (pid == 6 && ret < 0))", false },
	};

	(void)state;
	assert_false(filter_is_of_kernel(NULL));
	for (size_t i = 0; i < sizeof(want) / sizeof(want[0]); i++) {
		struct filter *filter;

		if (filter_compile(want[i].text, small_catalog_get(), &filter, NULL))
			fail_msg("`%s` is refused", want[i].text);
		if (filter_is_of_kernel(filter) != want[i].alone)
			fail_msg("`%s`: %d", want[i].text, !want[i].alone);
		filter_destroy(filter);
	}
}

static void test_clauses(void **state)
{
	struct rt_filter_clause c[RT_FILTER_CLAUSES_MAX];

	(void)state;
	assert_int_equal(clauses_of("pid == 5", c, 8), 1);
	assert_true(c[0].pid_op == RT_FILTER_EQ && c[0].pid == 5);
	assert_true(!c[0].tid_op && !c[0].uid_op && !c[0].comm_op);

	assert_int_equal(clauses_of("!(tid == 5) && comm != \"sh\" && uid == 0 && ret > 3", c, 8),
			 1);
	assert_true(c[0].tid_op == RT_FILTER_NE && c[0].tid == 5);
	assert_true(c[0].uid_op == RT_FILTER_EQ && c[0].uid == 0);
	assert_true(c[0].comm_op == RT_FILTER_NE);
	assert_memory_equal(c[0].comm, "sh\0\0\0\0\0\0\0\0\0\0\0\0\0", RT_COMM_BYTES);

	assert_int_equal(clauses_of("pid in (1, 2, 3) && uid == 0", c, 8), 3);
	for (int i = 0; i < 3; i++)
		assert_true(c[i].pid_op == RT_FILTER_EQ && c[i].uid_op == RT_FILTER_EQ);
	assert_int_equal(c[0].pid + c[1].pid + c[2].pid, 6);
	assert_int_equal(clauses_of("pid in (1, 2, 3)", c, 2), 0);
	assert_int_equal(clauses_of("pid in (1,2,3,4,5,6,7,8,9)", c, 8), 0);
	assert_int_equal(clauses_of("pid in (1,2,3,4,5,6,7,8,8,8)", c, 8), 8);
	assert_int_equal(clauses_of("pid in (1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18)"
				    " && comm == \"x\"", c, 8), 1);
	assert_int_equal(clauses_of("pid in (1,2,3,4,5) && tid in (1,2,3,4,5)", c, 8), 5);
	assert_int_equal(clauses_of("pid !in (1, 2)", c, 8), 1);
	assert_int_equal(c[0].pid_op, RT_FILTER_NE);

	/* What the kernel cannot check lets everything through, in an `or`. */
	assert_int_equal(clauses_of("pid == 5 || ret < 0", c, 8), 0);
	assert_int_equal(clauses_of("pid < 5", c, 8), 0);
	assert_int_equal(clauses_of("pid != 4294967296", c, 8), 0);
	assert_int_equal(clauses_of("pid == 1 || pid != 1", c, 8), 2);
	assert_int_equal(clauses_of("comm =~ \"b*\"", c, 8), 0);
	assert_int_equal(clauses_of("comm =~ \"bash\"", c, 8), 1);

	/* What cannot be at all is asked of nobody. */
	assert_int_equal(clauses_of("pid == 1 && pid == 2", c, 8), 1);
	assert_true(c[0].pid_op == RT_FILTER_EQ && c[0].pid == UINT32_MAX);
	assert_int_equal(clauses_of("pid == 1 && pid != 1", c, 8), 1);
	assert_int_equal(c[0].pid, UINT32_MAX);
	assert_int_equal(clauses_of("pid == -1", c, 8), 1);
	assert_int_equal(c[0].pid, UINT32_MAX);
	assert_int_equal(clauses_of("pid == -1 || pid == 7", c, 8), 1);
	assert_int_equal(c[0].pid, 7);
	assert_int_equal(clauses_of("pid == 1", c, 0), 0);
	/* One clause that another covers goes. */
	assert_int_equal(clauses_of("pid == 1 && uid == 0 || pid == 1", c, 8), 1);
	assert_int_equal(c[0].uid_op, RT_FILTER_ANY);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_nothing),
		cmocka_unit_test(test_every_event),
		cmocka_unit_test(test_text_of_field),
		cmocka_unit_test(test_exe_without_its_path),
		cmocka_unit_test(test_asks_strings),
		cmocka_unit_test(test_socket_addresses),
		cmocka_unit_test(test_users),
		cmocka_unit_test(test_names_of_the_kernel),
		cmocka_unit_test(test_names_that_the_kernel_has_not),
		cmocka_unit_test(test_names_of_programs),
		cmocka_unit_test(test_many_numbers_of_a_name),
		cmocka_unit_test(test_many_names),
		cmocka_unit_test(test_long_formats),
		cmocka_unit_test(test_text_of_tracepoints),
		cmocka_unit_test(test_by_thread),
		cmocka_unit_test(test_text),
		cmocka_unit_test(test_context),
		cmocka_unit_test(test_asks_context),
		cmocka_unit_test(test_fields),
		cmocka_unit_test(test_absent),
		cmocka_unit_test(test_fields_end_where_the_event_says),
		cmocka_unit_test(test_stranger),
		cmocka_unit_test(test_the_last_error),
		cmocka_unit_test(test_bits_and_constants),
		cmocka_unit_test(test_logic),
		cmocka_unit_test(test_errors),
		cmocka_unit_test(test_names_of_errors),
		cmocka_unit_test(test_arrays_are_not_compared),
		cmocka_unit_test(test_a_program_breaks_no_filter_by_a_name),
		cmocka_unit_test(test_patterns_have_a_bound_together),
		cmocka_unit_test(test_column_of_a_filter_in_a_filter),
		cmocka_unit_test(test_bounds),
		cmocka_unit_test(test_of_kernel),
		cmocka_unit_test(test_clauses),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
