/*
 * Random filters on random events: what the filter says is what was worked out without it, and what
 * the kernel is told loses nothing that passes.
 */
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

/* A read call of a thread, of few different values, so that comparisons are often true. */
struct sample {
	struct batch_thread thread;
	uint64_t word[5];
	uint32_t cpu;
	bool is_read;		/* else a switch, which has no such fields */
};

static const char *const comms[] = { "a", "b", "bash" };
static const char *const ops[] = { "==", "!=", "<", "<=", ">", ">=" };

static bool compare(int64_t a, unsigned op, int64_t b)
{
	const bool result[] = { a == b, a != b, a < b, a <= b, a > b, a >= b };

	return result[op];
}

static void make_sample(struct sample *sample)
{
	*sample = (struct sample){
		.thread = { .pid = pick(4), .tid = pick(4), .uid = pick(3), .kernel = pick(2) },
		.word = { pick(4), (uint64_t)(int64_t)((int)pick(4) - 2), pick(4), 0, pick(4) },
		.cpu = pick(2),
		.is_read = pick(3),
	};
	strcpy(sample->thread.comm, comms[pick(3)]);
}

/*
 * Appends a random filter to *text, and leaves in pass[] what it says of each sample, worked out
 * without the code under test.
 */
#define SAMPLES 12

static void make_compare(char **text, const struct sample *sample, bool *pass)
{
	static const char *const names[] = { "pid", "tid", "uid", "ret", "fd", "duration", "cpu" };
	unsigned name = pick(7), op = pick(6);
	int value = (int)pick(5) - 1;

	*text += sprintf(*text, "%s %s %d", names[name], ops[op], value);
	for (int i = 0; i < SAMPLES; i++) {
		const struct sample *s = &sample[i];
		const int64_t values[] = { s->thread.pid, s->thread.tid, s->thread.uid, s->word[1],
					   s->word[2], s->word[0], s->cpu };
		bool has = s->is_read || name < 3 || name == 6;

		pass[i] = has && compare(values[name], op, value);
	}
}

static void make_other(char **text, const struct sample *sample, bool *pass)
{
	unsigned kind = pick(5), a = pick(4), b = pick(4), c = pick(3);

	switch (kind) {
	case 0:
		*text += sprintf(*text, "comm %s \"%s\"", a & 1 ? "==" : "!=", comms[c]);
		break;
	case 1:
		*text += sprintf(*text, "comm =~ \"b*\"");
		break;
	case 2:
		*text += sprintf(*text, "pid in (%u, %u)", a, b);
		break;
	case 3:
		*text += sprintf(*text, "tid !in (%u, %u)", a, b);
		break;
	default:
		*text += sprintf(*text, "function == \"read\"");
		break;
	}
	for (int i = 0; i < SAMPLES; i++) {
		const struct batch_thread *t = &sample[i].thread;
		const bool result[] = {
			(strcmp(t->comm, comms[c]) == 0) == (a & 1),
			t->comm[0] == 'b',
			t->pid == a || t->pid == b,
			t->tid != a && t->tid != b,
			sample[i].is_read,
		};

		pass[i] = result[kind];
	}
}

static void make_filter(char **text, unsigned depth, const struct sample *sample, bool *pass)
{
	bool right[SAMPLES];
	unsigned kind = depth ? pick(5) : pick(2);

	if (kind == 0) {
		make_compare(text, sample, pass);
		return;
	}
	if (kind == 1) {
		make_other(text, sample, pass);
		return;
	}
	*text += sprintf(*text, kind == 2 ? "!(" : "(");
	make_filter(text, depth - 1, sample, pass);
	if (kind > 2) {
		*text += sprintf(*text, kind == 3 ? " && " : " || ");
		make_filter(text, depth - 1, sample, right);
	}
	*text += sprintf(*text, ")");
	for (int i = 0; i < SAMPLES; i++)
		pass[i] = kind == 2 ? !pass[i] : kind == 3 ? pass[i] && right[i] :
							     pass[i] || right[i];
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
	bool pass[SAMPLES];
	struct rt_filter_clause clause[RT_FILTER_CLAUSES_MAX];
	char text[1 << 14], *end = text;
	struct filter *filter;
	struct error error;
	unsigned clauses;

	for (int i = 0; i < SAMPLES; i++)
		make_sample(&sample[i]);
	make_filter(&end, 1 + pick(5), sample, pass);
	if (strlen(text) > FILTER_BYTES_MAX)
		return;
	if (filter_compile(text, small_catalog_get(), &filter, &error))
		fail_msg("seed %#lx: `%s`: %s", first_seed, text, error.what);
	clauses = filter_kernel_clauses(filter, clause, 1 + pick(RT_FILTER_CLAUSES_MAX));
	for (int i = 0; i < SAMPLES; i++) {
		const struct sample *s = &sample[i];
		struct batch_event event = {
			.probe = s->is_read ? SMALL_READ : RT_PROBE_SCHED_SWITCH,
			.fields = s->is_read ? 5 : 4,
			.field = s->word,
		};
		bool recorded = clauses == 0;

		if (filter_pass(filter, s->cpu, &event, &s->thread) != pass[i])
			fail_msg("seed %#lx: `%s` of sample %d", first_seed, text, i);
		for (unsigned k = 0; k < clauses; k++)
			recorded |= clause_passes(&clause[k], &s->thread);
		if (pass[i] && !recorded)
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
