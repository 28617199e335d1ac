#include "query/filter_program.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "query/container.h"
#include "query/glob.h"

#define ERRNO_MAX	4095	/* a result from -4095 to -1 is an error */

/* Places that are not tests. */
#define PLACE_PASS	0xffff
#define PLACE_FAIL	0xfffe
_Static_assert(FILTER_NODES_MAX < PLACE_FAIL, "a place fits in 16 bits");

enum test_kind {
	TEST_THREAD,		/* a number of the thread, and */
	TEST_FIELD,		/* one of the event: what is asked for most, so the shortest way */
	TEST_NUMBER,		/* any other */
	TEST_PAIR,
	TEST_BITS,
	TEST_COMM,
	TEST_COMM_GLOB,
	TEST_TEXT,
	TEST_STRING,
	TEST_ADDRESS,
	TEST_PORT,
	TEST_PROBES,
};

/*
 * The numbers of one sign that a comparison with a constant takes: value - low <= span, wrapping.
 * One form for ==, <, <=, > and >=; != is == negated.
 */
struct range {
	uint64_t low, span;
	bool any;		/* false: the constant is beyond all numbers of this sign */
};

struct test {
	uint16_t yes, no;	/* where to go on */
	uint8_t kind;		/* enum test_kind */
	uint8_t op;		/* of a pair, and of text */
	bool negated : 1;	/* of what is present: absent is always no */
	bool undecided : 1;	/* what undecided counts as, so that the event passes for it */
	uint8_t offset;		/* in struct batch_thread */
	struct filter_subject left;
	union {
		struct range range[2];	/* of unsigned, and of signed values */
		struct filter_subject right;
		struct bits {
			uint64_t mask, value;
		} bits;
		char comm[RT_COMM_BYTES];
		const char *glob;	/* or text to be equal to */
		const struct probe_set *probes;
		struct socket_network network;
	};
};

struct filter_program {
	uint16_t start;
	uint16_t tests;
	struct test test[];
};

/* ---- Making ---------------------------------------------------------------------------------- */

/* The part of [least, most] that is in [low, high], in the wrapping form. */
static struct range range_within(filter_number low, filter_number high, filter_number least,
				 filter_number most)
{
	if (low < least)
		low = least;
	if (high > most)
		high = most;
	if (low > high)
		return (struct range){ .any = false };
	return (struct range){ .low = low, .span = high - low, .any = true };
}

static void make_number_kind(struct test *test)
{
	static const uint8_t offsets[] = {
		[SUBJECT_PID] = offsetof(struct batch_thread, pid),
		[SUBJECT_TID] = offsetof(struct batch_thread, tid),
		[SUBJECT_UID] = offsetof(struct batch_thread, uid),
		[SUBJECT_PPID] = offsetof(struct batch_thread, ppid),
	};

	test->kind = TEST_NUMBER;
	if (test->left.kind == SUBJECT_FIELD) {
		test->kind = TEST_FIELD;
	} else if (test->left.kind == SUBJECT_PORT) {
		test->kind = TEST_PORT;
	} else if (test->left.kind < sizeof(offsets)) {
		test->kind = TEST_THREAD;
		test->offset = offsets[test->left.kind];
	}
}

static void make_number(struct test *test, const struct filter_node *node)
{
	filter_number low = INT64_MIN, high = UINT64_MAX;

	switch (node->op) {
	case FILTER_LT:
		high = node->number - 1;
		break;
	case FILTER_LE:
		high = node->number;
		break;
	case FILTER_GT:
		low = node->number + 1;
		break;
	case FILTER_GE:
		low = node->number;
		break;
	default:
		low = high = node->number;
		break;
	}
	make_number_kind(test);
	test->negated = node->op == FILTER_NE;
	test->range[false] = range_within(low, high, 0, UINT64_MAX);
	test->range[true] = range_within(low, high, INT64_MIN, INT64_MAX);
}

static void make_test(struct test *test, const struct filter_node *node)
{
	test->left = node->left;
	switch (node->kind) {
	case NODE_NUMBER:
		make_number(test, node);
		break;
	case NODE_PAIR:
		test->kind = TEST_PAIR;
		test->op = node->op;
		test->right = node->right;
		break;
	case NODE_BITS:
		test->kind = TEST_BITS;
		test->negated = node->op == FILTER_NE;
		test->bits = (struct bits){ node->mask, (uint64_t)node->number };
		break;
	case NODE_COMM:
		test->kind = node->op == FILTER_MATCH ? TEST_COMM_GLOB : TEST_COMM;
		test->negated = node->op == FILTER_NE;
		if (node->op == FILTER_MATCH)
			test->glob = node->text;
		else
			memcpy(test->comm, node->text, strlen(node->text)); /* known to fit */
		break;
	case NODE_ADDRESS:
		test->kind = TEST_ADDRESS;
		test->negated = node->op == FILTER_NE;
		test->network = node->network;
		break;
	case NODE_TEXT:
	case NODE_STRING:
		test->kind = node->kind == NODE_TEXT ? TEST_TEXT : TEST_STRING;
		test->op = node->op;
		test->glob = node->text;
		break;
	default:
		test->kind = TEST_PROBES;
		test->probes = node->probes;
		break;
	}
}

/*
 * Adds the tests of `node`, which go on at `yes` or `no`, and returns the place of the first one.
 * Made from last to first, so that the places to go on at are known. Nested FILTER_DEPTH_MAX deep.
 * `negated`: an odd number of nodes around it negate it.
 */
static uint16_t make_tests(struct filter_program *program, const struct filter_node *node,
			   uint16_t yes, uint16_t no, bool negated)
{
	const struct filter_node *child;
	struct test *test;

	switch (node->kind) {
	case NODE_NOT:
		return make_tests(program, node->last, no, yes, !negated);
	case NODE_AND:
		for (child = node->last; child; child = child->before)
			yes = make_tests(program, child, yes, no, negated);
		return yes;
	case NODE_OR:
		for (child = node->last; child; child = child->before)
			no = make_tests(program, child, yes, no, negated);
		return no;
	default:
		test = &program->test[program->tests];
		test->yes = yes;
		test->no = no;
		test->undecided = !negated;
		make_test(test, node);
		return program->tests++;
	}
}

int filter_program_create(const struct filter_node *root, struct filter_program **program,
			  struct error *error)
{
	/* As large as a filter may get, then cut to what this one takes. */
	struct filter_program *made = calloc(1, sizeof(*made) +
						FILTER_NODES_MAX * sizeof(made->test[0]));
	struct filter_program *cut;

	if (!made)
		return error_set(error, ENOMEM, "no-memory", "out of memory");
	made->start = make_tests(made, root, PLACE_PASS, PLACE_FAIL, false);
	cut = realloc(made, sizeof(*made) + made->tests * sizeof(made->test[0]));
	*program = cut ? cut : made;
	return 0;
}

void filter_program_destroy(struct filter_program *program)
{
	free(program);
}

static bool is_of_thread(const struct filter_subject *subject)
{
	switch (subject->kind) {
	case SUBJECT_PID:
	case SUBJECT_TID:
	case SUBJECT_UID:
	case SUBJECT_PPID:
	case SUBJECT_KERNEL:
	case SUBJECT_CPU:
	case SUBJECT_COMM:
	case SUBJECT_EXE:
	case SUBJECT_CGROUP:
	case SUBJECT_CONTAINER:
		return true;
	default:
		return false;
	}
}

bool filter_program_by_thread(const struct filter_program *program)
{
	for (uint16_t i = 0; i < program->tests; i++) {
		const struct test *test = &program->test[i];

		if (test->kind == TEST_PROBES || !is_of_thread(&test->left) ||
		    (test->kind == TEST_PAIR && !is_of_thread(&test->right)))
			return false;
	}
	return true;
}

static bool has_test(const struct filter_program *program, enum test_kind kind)
{
	for (uint16_t i = 0; i < program->tests; i++)
		if (program->test[i].kind == kind)
			return true;
	return false;
}

bool filter_program_asks_context(const struct filter_program *program)
{
	return has_test(program, TEST_TEXT);
}

bool filter_program_asks_strings(const struct filter_program *program)
{
	return has_test(program, TEST_STRING) || has_test(program, TEST_ADDRESS) ||
	       has_test(program, TEST_PORT);
}

/* ---- In programs ----------------------------------------------------------------------------- */

/* What a program can say of a test: that it always or never passes, nothing, or what it is asked. */
enum narrowed {
	NARROWED_NO,
	NARROWED_YES,
	NARROWED_UNKNOWN,
	NARROWED_ASKED,
};

/* Which probe, of which a program writes so many fields itself. */
struct asker {
	uint16_t probe;
	uint32_t words;
	bool asks_texts;
};

static enum narrowed narrow_range(const struct test *test, bool is_signed, struct rt_program_test *made)
{
	const struct range *range = &test->range[is_signed];

	if (!range->any)
		return test->negated ? NARROWED_YES : NARROWED_NO;
	made->low = range->low;
	made->span = range->span;
	return NARROWED_ASKED;
}

static enum narrowed narrow_thread(const struct test *test, struct rt_program_test *made)
{
	if (test->left.kind != SUBJECT_PID && test->left.kind != SUBJECT_UID)
		return NARROWED_UNKNOWN;
	made->kind = test->left.kind == SUBJECT_PID ? PROBE_FILTER_PID : PROBE_FILTER_UID;
	return narrow_range(test, false, made);
}

/* Of a field that this probe has. A text's word in a record is not what the program has for it. */
static enum narrowed narrow_number(const struct test *test, struct filter_place place, bool is_text,
				   struct rt_program_test *made)
{
	if (is_text)
		return NARROWED_UNKNOWN;
	made->shift = place.shift;
	made->is_signed = place.is_signed;
	made->kind = test->kind == TEST_BITS ? RT_PROGRAM_BITS : RT_PROGRAM_RANGE;
	if (test->kind != TEST_BITS)
		return narrow_range(test, place.is_signed, made);
	made->low = test->bits.value;
	made->span = test->bits.mask;
	return NARROWED_ASKED;
}

/*
 * Texts are compared up to RT_PROGRAM_TEST_BYTES, and patterns up to their first special character. More is left to
 * who asks again, where what is let pass so is no less.
 */
static enum narrowed narrow_text(const struct test *test, struct filter_place place, bool *whole,
				 struct rt_program_test *made)
{
	size_t bytes = test->op == FILTER_MATCH ? strcspn(test->glob, "*?[\\") : strlen(test->glob);
	bool is_prefix = test->op == FILTER_MATCH && test->glob[bytes];
	char text[RT_PROGRAM_TEST_BYTES] = {0};

	if (place.text_bytes != TEXT_ATTACHED)
		return NARROWED_UNKNOWN;
	*whole = bytes <= sizeof(text) && (!is_prefix || strcmp(test->glob + bytes, "*") == 0);
	if (!*whole && (!test->undecided || test->op == FILTER_NE))
		return NARROWED_UNKNOWN;
	made->kind = is_prefix || bytes > sizeof(text) ? RT_PROGRAM_PREFIX : RT_PROGRAM_TEXT;
	made->bytes = (uint8_t)(bytes < sizeof(text) ? bytes : sizeof(text));
	made->negated = test->op == FILTER_NE;
	memcpy(text, test->glob, made->bytes);
	memcpy(&made->low, text, sizeof(made->low));
	memcpy(&made->span, text + sizeof(made->low), sizeof(made->span));
	return NARROWED_ASKED;
}

static enum narrowed narrow_field(const struct test *test, const struct asker *asker, bool *whole,
				  struct rt_program_test *made)
{
	const struct filter_field *field = test->left.field;
	struct filter_place place = field->place[asker->probe];
	bool is_text = probe_set_test(&field->strings, asker->probe);

	if (place.index == FIELD_ABSENT || (test->kind == TEST_STRING && !is_text))
		return NARROWED_NO;
	if (place.index >= asker->words || (test->kind == TEST_STRING && !asker->asks_texts))
		return NARROWED_UNKNOWN;
	made->word = place.index;
	return test->kind == TEST_STRING ? narrow_text(test, place, whole, made) :
					   narrow_number(test, place, is_text, made);
}

static enum narrowed narrow_test(const struct test *test, const struct asker *asker, bool *whole,
				 struct rt_program_test *made)
{
	*whole = true;
	*made = (struct rt_program_test){.negated = test->negated};
	switch ((enum test_kind)test->kind) {
	case TEST_PROBES:
		return probe_set_test(test->probes, asker->probe) ? NARROWED_YES : NARROWED_NO;
	case TEST_THREAD:
		return narrow_thread(test, made);
	case TEST_FIELD:
	case TEST_STRING:
		return narrow_field(test, asker, whole, made);
	case TEST_BITS:
		return test->left.kind == SUBJECT_FIELD ? narrow_field(test, asker, whole, made) :
							  NARROWED_UNKNOWN;
	default:
		return NARROWED_UNKNOWN;
	}
}

/* What fails here goes on with the filters before. */
static uint8_t narrowed_place(const uint8_t place[RT_PROGRAM_TESTS_MAX], uint16_t from, uint8_t before)
{
	if (from >= PLACE_FAIL)
		return from == PLACE_PASS ? RT_PROGRAM_PASS : before;
	return place[from];
}

void filter_program_narrow(const struct filter_program *program, uint16_t probe, uint32_t words,
			   struct probe_filter *to)
{
	uint8_t place[RT_PROGRAM_TESTS_MAX] = {0}, before = to->first;
	const struct asker asker = {probe, words, to->asks_texts};
	bool fits = program->tests <= RT_PROGRAM_TESTS_MAX && probe < RT_PROBE_MAX;

	for (uint16_t i = 0; fits && i < program->tests; i++) {
		const struct test *test = &program->test[i];
		struct rt_program_test made;
		bool whole;
		enum narrowed narrowed = narrow_test(test, &asker, &whole, &made);

		made.yes = narrowed_place(place, test->yes, before);
		made.no = narrowed_place(place, test->no, before);
		if (narrowed == NARROWED_UNKNOWN)
			whole = made.yes == made.no;
		to->whole &= whole;
		if (narrowed == NARROWED_ASKED)
			fits = probe_filter_add(to, &made, &place[i]);
		else if (narrowed == NARROWED_UNKNOWN)
			place[i] = test->undecided ? made.yes : made.no;
		else
			place[i] = narrowed == NARROWED_YES ? made.yes : made.no;
	}
	to->whole &= fits;
	to->first = fits ? narrowed_place(place, program->start, before) : RT_PROGRAM_PASS;
	if (to->first == RT_PROGRAM_PASS)
		probe_filter_open(to);
}

/* ---- Running --------------------------------------------------------------------------------- */

struct value {
	uint64_t bits;
	bool is_signed;
};

/* One event, as the tests see it. */
struct view {
	uint32_t cpu;
	const struct batch_event *event;
	const struct batch_thread *thread;
	struct filter_texts *texts;	/* NULL: nothing is attached */
};

/* False if the event has no such field. */
static bool load_field(const struct filter_field *field, const struct batch_event *event,
		       struct value *value)
{
	struct filter_place place;
	uint64_t word;

	if (event->probe >= RT_PROBE_MAX)
		return false;
	place = field->place[event->probe];
	if (place.index >= event->fields)	/* FIELD_ABSENT too */
		return false;
	word = event->field[place.index] << place.shift;
	value->is_signed = place.is_signed;
	value->bits = place.is_signed ? (uint64_t)((int64_t)word >> place.shift) :
					word >> place.shift;
	return !place.is_outcome || event->field[0] != RT_DURATION_NEVER;
}

static bool load(const struct filter_subject *subject, const struct view *view, struct value *value)
{
	value->is_signed = false;
	switch (subject->kind) {
	case SUBJECT_PID:
		value->bits = view->thread->pid;
		return true;
	case SUBJECT_TID:
		value->bits = view->thread->tid;
		return true;
	case SUBJECT_UID:
		value->bits = view->thread->uid;
		return true;
	case SUBJECT_PPID:
		value->bits = view->thread->ppid;
		return true;
	case SUBJECT_CPU:
		value->bits = view->cpu;
		return true;
	case SUBJECT_TIME:
		value->bits = view->event->time_ns;
		return true;
	case SUBJECT_KERNEL:
		value->bits = view->thread->kernel;
		return true;
	case SUBJECT_FIELD:
		return load_field(subject->field, view->event, value);
	case SUBJECT_ERROR:
		if (!load_field(subject->field, view->event, value))
			return false;
		value->bits = -value->bits;
		value->is_signed = false;
		if (value->bits > ERRNO_MAX)
			value->bits = 0;
		return true;
	default:
		return false;
	}
}

static bool in_range(const struct test *test, struct value value)
{
	const struct range *range = &test->range[value.is_signed];

	return (range->any && value.bits - range->low <= range->span) != test->negated;
}

static filter_number number_of(struct value value)
{
	return value.is_signed ? (filter_number)(int64_t)value.bits : (filter_number)value.bits;
}

static bool test_pair(const struct test *test, const struct view *view)
{
	struct value left, right;
	filter_number a, b;

	if (!load(&test->left, view, &left) || !load(&test->right, view, &right))
		return false;
	a = number_of(left);
	b = number_of(right);
	switch ((enum filter_op)test->op) {
	case FILTER_EQ:
		return a == b;
	case FILTER_NE:
		return a != b;
	case FILTER_LT:
		return a < b;
	case FILTER_LE:
		return a <= b;
	case FILTER_GT:
		return a > b;
	case FILTER_GE:
		return a >= b;
	default:
		return false;
	}
}

/* The path's last component, unless the test itself has a slash: then it asks for the path. */
static void take_base(const struct test *test, const char **text, size_t *bytes)
{
	const char *slash = strchr(test->glob, '/') ? NULL : memrchr(*text, '/', *bytes);

	if (!slash)
		return;
	*bytes -= (size_t)(slash + 1 - *text);
	*text = slash + 1;
}

/* Ids are mostly written by their beginning: that does for equality. */
static bool is_short_id(const char *text)
{
	size_t bytes = strlen(text);

	return bytes >= CONTAINER_SHORT_BYTES && bytes < CONTAINER_ID_BYTES;
}

/* False: the thread has none, or nobody knows it. */
static bool load_text(const struct test *test, const struct batch_thread *thread,
		      const char **text, size_t *bytes)
{
	const struct batch_text *from = test->left.kind == SUBJECT_EXE ? thread->exe :
									 thread->cgroup;
	struct container container;

	if (!from)
		return false;
	*text = from->data;
	*bytes = from->bytes;
	if (test->left.kind == SUBJECT_EXE)
		take_base(test, text, bytes);
	if (test->left.kind != SUBJECT_CONTAINER)
		return true;
	container_parse(from->data, from->bytes, &container);
	*text = container.id;
	*bytes = test->op != FILTER_MATCH && is_short_id(test->glob) ? strlen(test->glob) :
								       CONTAINER_ID_BYTES;
	return container.id;
}

static bool decide(const struct test *test, enum filter_verdict verdict, const struct view *view)
{
	if (verdict != VERDICT_UNDECIDED)
		return verdict == VERDICT_YES;
	if (view->texts)
		view->texts->undecided = true;
	return test->undecided;
}

static bool test_string(const struct test *test, const struct view *view)
{
	const struct filter_field *field = test->left.field;
	uint16_t probe = view->event->probe;
	struct value value;

	if (!probe_set_test(&field->strings, probe) || !load_field(field, view->event, &value))
		return false;
	return decide(test, filter_text_of_field(test->op, test->glob, view->texts, view->event,
						 field->place[probe], value.bits), view);
}

/* What is not of IPv4 or IPv6 has no address here, and no port. */
static enum filter_verdict socket_verdict(const struct test *test, const struct view *view)
{
	const struct filter_field *field = test->left.field;
	uint16_t probe = view->event->probe, port;
	const struct batch_attachment *at;
	struct socket_host host;
	struct value value;
	bool passes;

	if (!probe_set_test(&field->strings, probe) || !load_field(field, view->event, &value))
		return VERDICT_NO;
	at = filter_text_find(view->texts, field->place[probe].index);
	if (!at)
		return filter_text_missing(probe, value.bits);
	if (!socket_text_parse((const char *)at->text, at->text_bytes, &host, &port))
		return VERDICT_NO;
	passes = test->kind == TEST_PORT ? in_range(test, (struct value){ .bits = port }) :
					   socket_network_has(&test->network, &host) != test->negated;
	return passes ? VERDICT_YES : VERDICT_NO;
}

/* Of a path that was too long the base name is left, which does not say whether the path is this. */
static bool has_base_alone(const struct test *test, const struct batch_thread *thread)
{
	return test->left.kind == SUBJECT_EXE && thread->exe && thread->exe->bytes &&
	       thread->exe->data[0] != '/' && strchr(test->glob, '/');
}

static bool test_text(const struct test *test, const struct view *view)
{
	const char *text;
	size_t bytes;
	bool equal;

	if (has_base_alone(test, view->thread))
		return decide(test, VERDICT_UNDECIDED, view);
	if (!load_text(test, view->thread, &text, &bytes))
		return false;
	if (test->op == FILTER_MATCH)
		return glob_match(test->glob, text, bytes);
	equal = bytes == strlen(test->glob) && !memcmp(text, test->glob, bytes);
	return equal == (test->op == FILTER_EQ);
}

static bool test_passes(const struct test *test, const struct view *view)
{
	const char *comm = view->thread->comm;
	struct value value = { 0 };

	switch ((enum test_kind)test->kind) {
	case TEST_THREAD:
		value.bits = *(const uint32_t *)((const char *)view->thread + test->offset);
		return in_range(test, value);
	case TEST_FIELD:
		return load_field(test->left.field, view->event, &value) && in_range(test, value);
	case TEST_NUMBER:
		return load(&test->left, view, &value) && in_range(test, value);
	case TEST_PAIR:
		return test_pair(test, view);
	case TEST_BITS:
		return load(&test->left, view, &value) &&
		       ((value.bits & test->bits.mask) == test->bits.value) != test->negated;
	case TEST_COMM:
		return (strncmp(comm, test->comm, RT_COMM_BYTES) == 0) != test->negated;
	case TEST_COMM_GLOB:
		return glob_match(test->glob, comm, strnlen(comm, RT_COMM_BYTES));
	case TEST_TEXT:
		return test_text(test, view);
	case TEST_STRING:
		return test_string(test, view);
	case TEST_ADDRESS:
	case TEST_PORT:
		return decide(test, socket_verdict(test, view), view);
	case TEST_PROBES:
		return probe_set_test(test->probes, view->event->probe);
	}
	return false;
}

/* What is asked of a thread that nobody has introduced: it has a tid, and was seen on a CPU. */
static bool is_of_known_thread(const struct filter_subject *subject)
{
	return is_of_thread(subject) && subject->kind != SUBJECT_TID &&
	       subject->kind != SUBJECT_CPU;
}

static bool stranger_passes(const struct test *test, const struct view *view)
{
	if (test->kind != TEST_PROBES && is_of_known_thread(&test->left))
		return false;
	if (test->kind == TEST_PAIR && is_of_known_thread(&test->right))
		return false;
	return test_passes(test, view);
}

static bool run_stranger(const struct filter_program *program, const struct view *view)
{
	uint16_t at = program->start;

	while (at < PLACE_FAIL) {
		const struct test *test = &program->test[at];

		at = stranger_passes(test, view) ? test->yes : test->no;
	}
	return at == PLACE_PASS;
}

bool filter_program_run(const struct filter_program *program, uint32_t cpu,
			const struct batch_event *event, const struct batch_thread *thread,
			struct filter_texts *texts)
{
	struct view view = { cpu, event, thread, texts };
	uint16_t at = program->start;

	if (!thread->pid && !thread->comm[0])
		return run_stranger(program, &view);
	while (at < PLACE_FAIL) {
		const struct test *test = &program->test[at];

		at = test_passes(test, &view) ? test->yes : test->no;
	}
	return at == PLACE_PASS;
}
