/*
 * Random filters on random events: what the filter says is what was worked out without it, from what the
 * event has and what it lacks, and what the kernel is told loses nothing that passes.
 */
#include <fnmatch.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "query/filter.h"
#include "proto/limits.h"
#include "tests/unit/daemon/small_catalog.h"

static uint64_t seed;

static uint32_t pick(uint32_t n)	/* 0 .. n - 1; splitmix64 */
{
	uint64_t z = (seed += 0x9e3779b97f4a7c15);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
	z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
	return (z ^ (z >> 31)) % n;
}

/* ---- The witness: what an event has, as its JSON says, and nothing of the code under test ------- */

enum what {
	PID, TID, UID, PPID, CPU, KERNEL, TIME, DURATION, RET, ERROR, FD, COUNT, DFD, MODE, NEXT_TID,
	PREV_PRIO, ARG_PID, SIG, ERROR_CODE, WHATS,
};

static const char *const names[WHATS] = {
	"pid", "tid", "uid", "ppid", "cpu", "kernel", "time", "duration", "ret", "error", "fd", "count",
	"dfd", "mode", "next_tid", "prev_prio", "arg.pid", "sig", "error_code",
};

static const char *const comms[] = { "a", "b", "bash" };
static const char *const ops[] = { "==", "!=", "<", "<=", ">", ">=" };

/* An event of few different values, so that comparisons are often true. */
struct sample {
	struct batch_thread thread;
	struct batch_event event;
	uint64_t word[6];
	uint32_t cpu;
	const char *function, *name;
	bool has[WHATS], has_comm;
	int64_t value[WHATS];
	enum { NO_TEXT, TEXT, TEXT_CUT, TEXT_MISSING } filename;
	char text[STRING_BYTES_MAX + 1];
	struct batch_attachment attached;
};

static void have(struct sample *sample, enum what what, int64_t value)
{
	sample->has[what] = true;
	sample->value[what] = value;
}

/* The next word of the event, whose upper bits are garbage beyond `bits`, and what it means. */
static void have_field(struct sample *sample, enum what what, int64_t value, unsigned bits)
{
	uint64_t garbage = bits < 64 ? (uint64_t)pick(1000) << bits : 0;
	uint64_t low = bits < 64 ? (uint64_t)value & ((1ull << bits) - 1) : (uint64_t)value;

	sample->word[sample->event.fields++] = low | garbage;
	have(sample, what, value);
}

static void have_word(struct sample *sample)
{
	sample->word[sample->event.fields++] = pick(4);
}

/* The next word is a file name's address, and its text may be attached. */
static void have_filename(struct sample *sample)
{
	static const char *const texts[] = { "", "a", "ab", "/log/a", "/log/b" };
	unsigned kind = pick(9);

	sample->filename = kind < 5 ? TEXT : kind < 7 ? TEXT_CUT : kind == 7 ? TEXT_MISSING : NO_TEXT;
	if (kind < 5)
		strcpy(sample->text, texts[kind]);
	else
		memset(sample->text, kind == 5 ? 'a' : 'b', STRING_BYTES_MAX);
	if (kind == 6)
		memcpy(sample->text, "/log/", 5);
	sample->attached = (struct batch_attachment){
		.kind = RT_ATTACH_STRING, .arg = sample->event.fields,
		.text = (const uint8_t *)sample->text, .text_bytes = strlen(sample->text),
	};
	sample->word[sample->event.fields++] = kind == 8 ? 0 : 1 + pick(3);
}

static void have_ret(struct sample *sample)
{
	int64_t ret = (int64_t)pick(5) - 3;

	have_field(sample, RET, ret, 64);
	have(sample, ERROR, ret < 0 ? -ret : 0);
}

static void make_outcome(struct sample *sample, bool returns)
{
	if (!returns) {
		sample->word[0] = RT_DURATION_NEVER;
		sample->word[1] = pick(2) ? 0 : -(uint64_t)pick(4);
		sample->event.fields = 2;
		return;
	}
	have_field(sample, DURATION, pick(4), 64);
	have_ret(sample);
}

static void make_event(struct sample *sample)
{
	static const struct {
		uint16_t probe;
		const char *function, *name;
	} kinds[] = {
		{ SMALL_READ, "read", "call" }, { SMALL_EXIT, "exit_group", "call" },
		{ RT_PROBE_SCHED_SWITCH, "sched", "sched_switch" },
		{ SMALL_OPENAT_ENTRY, "openat", "entry" },
		{ SMALL_OPENAT_RETURN, "openat", "return" }, { SMALL_KILL, "kill", "call" },
		{ SMALL_GETPPID, "getppid", "call" }, { SMALL_OPENAT, "openat", "call" },
		{ SMALL_OPENAT, "openat", "call" },
	};
	unsigned kind = pick(9);

	sample->event.probe = kinds[kind].probe;
	sample->function = kinds[kind].function;
	sample->name = kinds[kind].name;
	if (strcmp(sample->name, "call") == 0)
		make_outcome(sample, sample->event.probe != SMALL_EXIT);
	switch (sample->event.probe) {
	case SMALL_READ:
		have_field(sample, FD, (int64_t)pick(4) - 1, 32);
		have_word(sample);
		have_field(sample, COUNT, pick(4), 64);
		break;
	case SMALL_EXIT:
		have_field(sample, ERROR_CODE, pick(3), 32);
		break;
	case RT_PROBE_SCHED_SWITCH:
		have_field(sample, PREV_PRIO, pick(4), 32);
		have_word(sample);
		have_field(sample, NEXT_TID, pick(4), 32);
		have_word(sample);
		break;
	case SMALL_OPENAT:
	case SMALL_OPENAT_ENTRY:
		have_field(sample, DFD, (int64_t)pick(4) - 1, 32);
		have_filename(sample);
		have_word(sample);
		have_field(sample, MODE, pick(4), 16);
		break;
	case SMALL_OPENAT_RETURN:
		have_ret(sample);
		break;
	case SMALL_KILL:
		have_field(sample, ARG_PID, (int64_t)pick(4) - 1, 32);
		have_field(sample, SIG, pick(4), 32);
		break;
	}
}

/* One in eight was never introduced: it has a tid and no other name. */
static void make_thread(struct sample *sample)
{
	struct batch_thread *thread = &sample->thread;

	thread->tid = pick(4);
	have(sample, TID, thread->tid);
	if (!pick(8))
		return;
	thread->pid = pick(4);
	thread->ppid = pick(4);
	thread->uid = pick(3);
	thread->kernel = pick(2);
	strcpy(thread->comm, comms[pick(3)]);
	have(sample, PID, thread->pid);
	have(sample, PPID, thread->ppid);
	have(sample, UID, thread->uid);
	have(sample, KERNEL, thread->kernel);
	sample->has_comm = true;
}

static void make_sample(struct sample *sample)
{
	*sample = (struct sample){ .cpu = pick(2), .event.time_ns = pick(4) };
	sample->event.field = sample->word;
	have(sample, CPU, sample->cpu);
	have(sample, TIME, sample->event.time_ns);
	make_thread(sample);
	make_event(sample);
}

/* ---- Random filters, and what they say of each sample -------------------------------------------- */

#define SAMPLES 16

/* Kleene's: and is the least of them, or the greatest. */
enum say { NO, UNDECIDED, YES };

static enum say said(bool yes)
{
	return yes ? YES : NO;
}

static bool compare(int64_t a, unsigned op, int64_t b)
{
	const bool result[] = { a == b, a != b, a < b, a <= b, a > b, a >= b };

	return result[op];
}

static void make_compare(char **text, const struct sample *sample, enum say *pass)
{
	unsigned what = pick(WHATS), other = pick(WHATS), op = pick(6);
	int value = (int)pick(5) - 1;
	bool pair = pick(4) == 0, mirrored = pick(4) == 0;

	if (pair)
		*text += sprintf(*text, "%s %s %s", names[what], ops[op], names[other]);
	else if (mirrored)
		*text += sprintf(*text, "%d %s %s", value, ops[op], names[what]);
	else
		*text += sprintf(*text, "%s %s %d", names[what], ops[op], value);
	for (int i = 0; i < SAMPLES; i++) {
		const struct sample *s = &sample[i];

		if (pair)
			pass[i] = said(s->has[what] && s->has[other] &&
				       compare(s->value[what], op, s->value[other]));
		else
			pass[i] = said(s->has[what] &&
				       (mirrored ? compare(value, op, s->value[what]) :
						   compare(s->value[what], op, value)));
	}
}

static bool in(const struct sample *s, enum what what, int64_t a, int64_t b, bool wanted)
{
	return s->has[what] && (s->value[what] == a || s->value[what] == b) == wanted;
}

/* With an event's text, and what else is not one operator between two numbers. */
static void make_other(char **text, const struct sample *sample, enum say *pass)
{
	unsigned kind = pick(8), what = pick(WHATS), a = pick(4), b = pick(4), c = pick(3);
	bool equal = pick(2);

	switch (kind) {
	case 0:
		*text += sprintf(*text, "comm %s \"%s\"", equal ? "==" : "!=", comms[c]);
		break;
	case 1:
		*text += sprintf(*text, "comm =~ \"b*\"");
		break;
	case 2:
		*text += sprintf(*text, "%s %sin (%u, %u)", names[what], equal ? "" : "!", a, b);
		break;
	case 3:
		*text += sprintf(*text, "comm %sin (\"a\", \"%s\")", equal ? "" : "!", comms[c]);
		break;
	case 4:
		*text += sprintf(*text, "error");
		break;
	case 5:
		*text += sprintf(*text, "error %s ENOENT", equal ? "==" : "!=");
		break;
	case 6:
		*text += sprintf(*text, "function %s \"read\"", equal ? "==" : "!=");
		break;
	default:
		*text += sprintf(*text, "probe =~ \"*:*:call\"");
		break;
	}
	for (int i = 0; i < SAMPLES; i++) {
		const struct sample *s = &sample[i];
		const char *comm = s->thread.comm;
		const bool result[] = {
			s->has_comm && (strcmp(comm, comms[c]) == 0) == equal,
			s->has_comm && comm[0] == 'b',
			in(s, what, a, b, equal),
			s->has_comm && (!strcmp(comm, "a") || !strcmp(comm, comms[c])) == equal,
			s->has[ERROR] && s->value[ERROR] != 0,
			s->has[ERROR] && (s->value[ERROR] == 2) == equal,
			(strcmp(s->function, "read") == 0) == equal,
			strcmp(s->name, "call") == 0,
		};

		pass[i] = said(result[kind]);
	}
}

#define AAAA "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

/* What is compared with texts: the first with ==, the last with =~. */
static const char *const wanted[] = {
	"a", "ab", "/log/a", "", AAAA AAAA AAAA AAAA, AAAA AAAA AAAA AAAA "b", AAAA AAAA AAAA,
	"a*", "*b", "/log/*", "*/log/*", "?b", "*a*b*", "*", "[ab]*[!b]", "",
};
#define EQUALS 7

static bool text_holds(const char *text, unsigned k, bool equal)
{
	return k < EQUALS ? (strcmp(text, wanted[k]) == 0) == equal :
			    fnmatch(wanted[k], text, 0) == 0;
}

/* A cut text goes on somehow: where that matters, nobody knows. */
static enum say say_of_text(const struct sample *s, unsigned k, bool equal)
{
	static const char *const rest[] = { "", "a", "b", "x", "/log/", "ab", "ba", "/log/x" };
	char longer[sizeof(s->text) + 8];
	size_t yes = 0, tries = s->filename == TEXT_CUT ? sizeof(rest) / sizeof(rest[0]) : 1;

	if (s->event.probe != SMALL_OPENAT && s->event.probe != SMALL_OPENAT_ENTRY)
		return NO;
	if (s->filename == TEXT_MISSING || s->filename == NO_TEXT)
		return s->filename == TEXT_MISSING ? UNDECIDED : NO;
	for (size_t i = 0; i < tries; i++) {
		snprintf(longer, sizeof(longer), "%s%s", s->text, rest[i]);
		yes += text_holds(longer, k, equal);
	}
	return yes == tries ? YES : yes ? UNDECIDED : NO;
}

static void make_string(char **text, const struct sample *sample, enum say *pass)
{
	unsigned k = pick(sizeof(wanted) / sizeof(wanted[0]));
	bool equal = pick(2);

	*text += sprintf(*text, "filename %s \"%s\"", k >= EQUALS ? "=~" : equal ? "==" : "!=",
			 wanted[k]);
	for (int i = 0; i < SAMPLES; i++)
		pass[i] = say_of_text(&sample[i], k, equal);
}

/*
 * Appends a random filter to *text, and leaves in pass[] what it says of each sample, worked out
 * without the code under test.
 */
static void make_filter(char **text, unsigned depth, const struct sample *sample, enum say *pass)
{
	enum say right[SAMPLES];
	unsigned kind = depth ? pick(5) : pick(2);	/* 0, 1: a comparison */


	if (kind == 0) {
		make_compare(text, sample, pass);
		return;
	}
	if (kind == 1 && pick(2)) {
		make_other(text, sample, pass);
		return;
	}
	if (kind == 1) {
		make_string(text, sample, pass);
		return;
	}
	*text += sprintf(*text, kind == 2 ? "!(" : "(");
	make_filter(text, depth - 1, sample, pass);
	if (kind > 2) {
		*text += sprintf(*text, kind == 3 ? " && " : " || ");
		make_filter(text, depth - 1, sample, right);
	}
	*text += sprintf(*text, ")");
	for (int i = 0; i < SAMPLES; i++) {
		bool less = right[i] < pass[i];

		pass[i] = kind == 2 ? YES - pass[i] : less == (kind == 3) ? right[i] : pass[i];
	}
}

static bool clause_passes(const struct rt_filter_clause *c, const struct batch_thread *thread)
{
	const struct {
		uint8_t op;
		bool equal;
	} tests[] = {
		{ c->pid_op, c->pid == thread->pid },
		{ c->tid_op, c->tid == thread->tid },
		{ c->uid_op, c->uid == thread->uid },
		{ c->comm_op, strncmp(c->comm, thread->comm, RT_COMM_BYTES) == 0 },
	};

	for (int i = 0; i < 4; i++) {
		if (tests[i].op != RT_FILTER_ANY && tests[i].equal != (tests[i].op == RT_FILTER_EQ))
			return false;
	}
	return true;
}

static void check_random_filter(uint64_t first_seed)
{
	struct sample sample[SAMPLES];
	enum say pass[SAMPLES];
	struct rt_filter_clause clause[RT_FILTER_CLAUSES_MAX];
	char text[1 << 14], *end = text;
	struct filter *filter;
	struct error error;
	unsigned clauses;
	int err;

	for (int i = 0; i < SAMPLES; i++)
		make_sample(&sample[i]);
	make_filter(&end, 1 + pick(5), sample, pass);
	if (strlen(text) > FILTER_BYTES_MAX)
		return;
	err = filter_compile(text, small_catalog_get(), &filter, &error);
	if (err && !strcmp(error.code, "filter-globs-too-long"))
		return;
	if (err)
		fail_msg("seed %#lx: `%s`: %s", first_seed, text, error.what);
	clauses = filter_kernel_clauses(filter, clause, 1 + pick(RT_FILTER_CLAUSES_MAX));
	for (int i = 0; i < SAMPLES; i++) {
		const struct sample *s = &sample[i];
		bool recorded = clauses == 0;

		struct filter_texts texts = {
			&s->attached, s->filename == TEXT || s->filename == TEXT_CUT, false,
		};

		if (filter_pass(filter, s->cpu, &s->event, &s->thread, &texts) != (pass[i] != NO))
			fail_msg("seed %#lx: `%s` of sample %d (%s:%s)", first_seed, text, i,
				 s->function, s->name);
		for (unsigned k = 0; k < clauses; k++)
			recorded |= clause_passes(&clause[k], &s->thread);
		/* The kernel knows the thread that the daemon has not heard of: it is asked of others. */
		if (pass[i] && !recorded && s->has_comm)
			fail_msg("seed %#lx: the clauses of `%s` lose sample %d", first_seed, text,
				 i);
	}
	filter_destroy(filter);
}

#define RANDOM_FILTERS 20000

static void test_random(void **state)
{
	const char *given = getenv("SEED");

	(void)state;
	seed = given ? strtoull(given, NULL, 0) : (uint64_t)time(NULL);
	print_message("SEED=%#lx\n", seed);
	for (int i = 0; i < RANDOM_FILTERS; i++)
		check_random_filter(seed);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_random),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
