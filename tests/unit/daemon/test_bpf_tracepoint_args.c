/* Where the fields of a tracepoint are in what it is passed, from types that the test makes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <bpf/btf.h>
#include <cmocka.h>

#include "daemon/source/bpf_tracepoint_args.h"
#include "tests/lib/failing_memory.h"

/* What may be otherwise than the rows have it. */
enum odd { NOTHING, ONE_ARG_MORE, OTHER_STRUCTURE, NO_MEMBER, FAR_AWAY, NARROW_LENGTH, NO_POINTER, A_BIT_FIELD };

struct types {
	struct btf *btf;
	int u32, ulong, name;
};

/* typedef void (*btf_trace_NAME)(void *data, ...); of one argument, or two. */
static void add_tracepoint(struct types *types, const char *name, int arg, bool twice)
{
	char typedef_name[64];
	int function = btf__add_func_proto(types->btf, 0), pointer;

	assert_true(function > 0);
	assert_int_equal(btf__add_func_param(types->btf, "", 0) | btf__add_func_param(types->btf, "", arg), 0);
	if (twice)
		assert_int_equal(btf__add_func_param(types->btf, "", arg), 0);
	pointer = btf__add_ptr(types->btf, function);
	snprintf(typedef_name, sizeof(typedef_name), "btf_trace_%s", name);
	assert_true(btf__add_typedef(types->btf, typedef_name, pointer) > 0);
}

/*
 * struct net_device { char pad[20]; char name[16]; };
 * struct sk_buff { union { struct { void *next; struct net_device *dev; }; unsigned long word; }; unsigned len; };
 */
static int add_skb(struct types *types, enum odd odd)
{
	struct btf *btf = types->btf;
	int chars = btf__add_int(btf, "char", 1, 0), index = btf__add_int(btf, "index", 4, 0);
	int text = btf__add_array(btf, index, chars, 16), device, pointer, inner, either, skb;
	uint32_t far = odd == FAR_AWAY ? 1u << 16 : 20;

	types->name = text;
	device = btf__add_struct(btf, "net_device", far + 16);
	assert_int_equal(btf__add_field(btf, "name", text, far * 8, 0), 0);
	pointer = odd == NO_POINTER ? types->ulong : btf__add_ptr(btf, btf__add_const(btf, device));
	inner = btf__add_struct(btf, NULL, 16);
	assert_int_equal(btf__add_field(btf, "next", types->ulong, 0, 0) |
			 btf__add_field(btf, odd == NO_MEMBER ? "device" : "dev", pointer, 64, 0), 0);
	either = btf__add_union(btf, NULL, 16);
	assert_int_equal(btf__add_field(btf, "", inner, 0, 0) | btf__add_field(btf, "word", types->ulong, 0, 0), 0);
	skb = btf__add_struct(btf, odd == OTHER_STRUCTURE ? "socket_buffer" : "sk_buff", 24);
	assert_int_equal(btf__add_field(btf, "", either, 0, 0), 0);
	if (odd == A_BIT_FIELD)
		assert_int_equal(btf__add_field(btf, "len", types->u32, 128, 7), 0);
	else
		assert_int_equal(btf__add_field(btf, "len", odd == NARROW_LENGTH ? chars : types->u32, 128, 0), 0);
	return btf__add_ptr(btf, skb);
}

static struct tracepoint_args *find(enum odd odd)
{
	struct types types = {.btf = btf__new_empty()};
	struct tracepoint_args *args;

	assert_non_null(types.btf);
	types.u32 = btf__add_int(types.btf, "unsigned int", 4, 0);
	types.ulong = btf__add_int(types.btf, "unsigned long", 8, 0);
	add_tracepoint(&types, "net_dev_queue", add_skb(&types, odd), odd == ONE_ARG_MORE);
	add_tracepoint(&types, "softirq_entry", types.u32, false);
	add_tracepoint(&types, "unheard_of", types.u32, false);
	args = tracepoint_args_find(types.btf);
	btf__free(types.btf);
	assert_non_null(args);
	return args;
}

#define QUEUE_1 \
	"field:void * skbaddr;\toffset:8;\tsize:8;\tsigned:0;\n" \
	"field:unsigned int len;\toffset:16;\tsize:4;\tsigned:0;\n"
#define QUEUE QUEUE_1 "field:__data_loc char[] name;\toffset:20;\tsize:4;\tsigned:0;\n"

/* The plan of a tracepoint with this format; the type's number, or 0. */
static uint32_t plan_of(enum odd odd, const char *system, const char *name, const char *fields,
			struct tracepoint_plan *plan)
{
	struct tracepoint_args *args = find(odd);
	struct tracepoint_format format;
	struct tracepoint_plan record;
	Ringtail__V1__Probe *probe;
	char text[1024];
	uint32_t type;
	int bytes = snprintf(text, sizeof(text), "ID: 7\nformat:\n%s", fields);

	assert_int_equal(tracepoint_format_parse(text, (size_t)bytes, &format), 0);
	assert_int_equal(tracepoint_probe_create(&format, system, name, false, &probe, &record), 0);
	type = tracepoint_args_plan(args, system, name, &format, &record, plan);
	if (!type)
		assert_int_equal(plan->words | plan->texts, 0);
	ringtail__v1__probe__free_unpacked(probe, NULL);
	tracepoint_args_destroy(args);
	return type;
}

static void fields_are_arguments_members_and_texts(void **state)
{
	struct tracepoint_plan plan;
	const struct tracepoint_word *word = plan.word;

	(void)state;
	assert_true(plan_of(NOTHING, "net", "net_dev_queue", QUEUE, &plan) > 0);
	assert_int_equal(plan.words, 3);
	assert_int_equal(word[0].of, WORD_OF_CALL);
	assert_int_equal(word[0].offset, 0);
	assert_int_equal(word[0].bytes, 8);
	assert_int_equal(word[1].of, WORD_OF_MEMBER);
	assert_int_equal(word[1].index, WORD_NO_INDEX);
	assert_int_equal(word[1].number, 16);
	assert_int_equal(word[1].bytes, 4);
	assert_int_equal(word[2].of, WORD_OF_ADDRESS);
	assert_int_equal(word[2].index, 8);		/* dev, inside what has no name */
	assert_int_equal(word[2].number, 20);
	assert_false(word[2].is_location);
	assert_int_equal(plan.texts, 1);
	assert_int_equal(made_text_arg(plan.text[0]), 2);
}

static void a_number_is_as_wide_as_the_format_says(void **state)
{
	struct tracepoint_plan plan;

	(void)state;
	assert_true(plan_of(NOTHING, "irq", "softirq_entry", "field:unsigned int vec;\toffset:8;\tsize:4;\tsigned:0;\n",
			    &plan) > 0);
	assert_int_equal(plan.words, 1);
	assert_int_equal(plan.word[0].of, WORD_OF_CALL);
	assert_int_equal(plan.word[0].bytes, 4);
	/* One that is passed as 32 bits grows by zeros, but not by its sign, and does not shrink. */
	assert_true(plan_of(NOTHING, "irq", "softirq_entry", "field:unsigned long vec;\toffset:8;\tsize:8;\tsigned:0;\n",
			    &plan) > 0);
	assert_int_equal(plan.word[0].bytes, 8);
	assert_int_equal(plan_of(NOTHING, "irq", "softirq_entry", "field:long vec;\toffset:8;\tsize:8;\tsigned:1;\n",
				 &plan), 0);
	assert_int_equal(plan_of(NOTHING, "irq", "softirq_entry", "field:u16 vec;\toffset:8;\tsize:2;\tsigned:0;\n",
				 &plan), 0);
}

static void what_is_otherwise_here_has_no_plan(void **state)
{
	struct tracepoint_plan plan;

	(void)state;
	for (enum odd odd = ONE_ARG_MORE; odd <= A_BIT_FIELD; odd++)
		assert_int_equal(plan_of(odd, "net", "net_dev_queue", QUEUE, &plan), 0);
	/* A field more, less, of another name, or another kind. */
	assert_int_equal(plan_of(NOTHING, "net", "net_dev_queue",
				 QUEUE "field:int more;\toffset:24;\tsize:4;\tsigned:1;\n", &plan), 0);
	assert_int_equal(plan_of(NOTHING, "net", "net_dev_queue", QUEUE_1, &plan), 0);
	assert_int_equal(plan_of(NOTHING, "net", "net_dev_queue",
				 QUEUE_1 "field:__data_loc char[] device;\toffset:20;\tsize:4;\tsigned:0;\n", &plan), 0);
	assert_int_equal(plan_of(NOTHING, "net", "net_dev_queue",
				 QUEUE_1 "field:__data_loc u8[] name;\toffset:20;\tsize:4;\tsigned:0;\n", &plan), 0);
	assert_int_equal(plan_of(NOTHING, "net", "net_dev_queue",
				 QUEUE_1 "field:int name;\toffset:20;\tsize:4;\tsigned:1;\n", &plan), 0);
	/* A tracepoint without a row, one of another system, and one that this kernel has not. */
	assert_int_equal(plan_of(NOTHING, "net", "unheard_of", QUEUE, &plan), 0);
	assert_int_equal(plan_of(NOTHING, "wifi", "net_dev_queue", QUEUE, &plan), 0);
	assert_int_equal(plan_of(NOTHING, "net", "netif_rx", QUEUE, &plan), 0);
}

static void without_types_there_is_no_plan(void **state)
{
	struct tracepoint_args *args = tracepoint_args_find(NULL);
	struct tracepoint_format format = {0};
	struct tracepoint_plan record = {0}, plan;

	(void)state;
	assert_non_null(args);
	assert_int_equal(tracepoint_args_plan(args, "irq", "softirq_entry", &format, &record, &plan), 0);
	tracepoint_args_destroy(args);
	memory_fails_after(0);
	assert_null(tracepoint_args_find(NULL));
	memory_suffices();
	tracepoint_args_destroy(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fields_are_arguments_members_and_texts),
		cmocka_unit_test(a_number_is_as_wide_as_the_format_says),
		cmocka_unit_test(what_is_otherwise_here_has_no_plan),
		cmocka_unit_test(without_types_there_is_no_plan),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
