/*
 * Bytes of any local program: a table that the header sends is taken as it is; each byte of it that is broken is
 * refused, or makes another good table; nothing is read behind its end.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "daemon/base/limits.h"
#include "daemon/programs/table.h"
#include "proto/limits.h"

struct table {
	struct rt_program_hello hello;
	uint8_t bytes[4096];
};

static const uint8_t ends_here[RT_PROGRAM_ARGS_MAX];

/* texts: with a zero between, as the header writes them. */
static void add_sort(struct table *table, unsigned sort, uint32_t args, const uint8_t *type, const char *texts, size_t bytes)
{
	struct rt_program_probe entry = {.line = 12, .args = (uint16_t)args, .sort = (uint16_t)sort};

	entry.bytes = (uint32_t)((sizeof(entry) + bytes + 7) / 8 * 8);
	memcpy(entry.type, type, args < RT_PROGRAM_ARGS_MAX ? args : RT_PROGRAM_ARGS_MAX);
	memset(table->bytes + table->hello.bytes, 0, entry.bytes);
	memcpy(table->bytes + table->hello.bytes, &entry, sizeof(entry));
	memcpy(table->bytes + table->hello.bytes + sizeof(entry), texts, bytes);
	table->hello.bytes += entry.bytes;
	table->hello.probes++;
}

static void add(struct table *table, uint32_t args, const uint8_t *type, const char *texts, size_t bytes)
{
	add_sort(table, RT_PROGRAM_EVENT, args, type, texts, bytes);
}

#define ADD(table, args, type, texts) add(table, args, type, texts, sizeof(texts))
#define ADD_SORT(table, sort, args, type, texts) add_sort(table, sort, args, type, texts, sizeof(texts))

static void begin(struct table *table)
{
	memset(table, 0, sizeof(*table));
	table->hello.magic = RT_PROGRAM_MAGIC;
	table->hello.version = RT_PROGRAM_VERSION;
}

/* A copy that ends with the table: a sanitizer sees what is read behind it. */
static int parse(const struct table *table, struct program_probe *probe)
{
	uint8_t *copy = malloc(table->hello.bytes + 1);
	struct error error = {0};
	int err;

	assert_non_null(copy);
	memcpy(copy, table->bytes, table->hello.bytes);
	err = program_hello_check(&table->hello, &error);
	if (!err)
		err = program_table_parse(&table->hello, copy, probe, &error);
	if (err)
		assert_string_equal(error.code, "program-table");
	free(copy);
	return err;
}

static const uint8_t three[] = {
	rt_program_type(RT_PROGRAM_UNSIGNED, 4), rt_program_type(RT_PROGRAM_SIGNED, 8),
	rt_program_type(RT_PROGRAM_STRING, 8),
};

static void test_names_become_fields(void **state)
{
	struct program_probe probe[2];
	struct table table;
	Ringtail__V1__Probe *message;

	(void)state;
	begin(&table);
	ADD(&table, 3, three, "app\0done\0id %u\t\"%ld\" %s\n\0src/a.c\0id\0request->us\0f(url)");
	ADD(&table, 3, three, "app\0twice\0%u %ld %s\0src/a.c\0arg1\0y->x[0]\0 cpu ");
	/* parse() frees its copy: these are in this one. */
	assert_int_equal(program_table_parse(&table.hello, table.bytes, probe, &(struct error){}), 0);
	message = program_probe_message(&probe[0]);
	assert_non_null(message);
	assert_string_equal(message->provider, "app");
	assert_string_equal(message->function, "done");
	assert_string_equal(message->source, "src/a.c:12");
	assert_string_equal(message->print,
			    "\"id %u\\t\\\"%ld\\\" %s\\n\", REC->id, REC->us, __get_str(arg2)");
	assert_int_equal(message->n_field, 4);
	assert_string_equal(message->field[1]->name, "us");
	assert_int_equal(message->field[1]->type, RINGTAIL__V1__FIELD_TYPE__FIELD_SIGNED);
	assert_int_equal(message->field[2]->type, RINGTAIL__V1__FIELD_TYPE__FIELD_TEXT);
	assert_string_equal(message->field[3]->name, "cpu");
	ringtail__v1__probe__free_unpacked(message, NULL);
	assert_string_equal(probe[1].field[0], "arg0");		/* arg1 is that of the next */
	assert_string_equal(probe[1].field[1], "arg1");
	assert_string_equal(probe[1].field[2], "arg2");		/* and so is cpu */
}

static void test_arrays_are_lists(void **state)
{
	static const uint8_t types[] = {
		rt_program_type(RT_PROGRAM_SIGNED, 4), rt_program_type(RT_PROGRAM_UNSIGNEDS, 2),
		rt_program_type(RT_PROGRAM_POINTER, 8), rt_program_type(RT_PROGRAM_SIGNEDS, 8),
	};
	static const uint8_t one[] = {rt_program_type(RT_PROGRAM_UNSIGNEDS, 1)};
	static const struct {
		const char *format, *print;
	} formats[] = {
		{"%", "\"%\""}, {"%%p %p", "\"%%p %s\""}, {"%-8p%p", "\"%-8s%p\""}, {"p%", "\"p%\""}, {"%5", "\"%5\""},
	};
	struct program_probe probe[1];
	Ringtail__V1__Probe *message;
	struct table table;

	(void)state;
	begin(&table);
	ADD(&table, 4, types, "app\0sent\0%*d%p at %p: %p%%\0a.c\0width\0ports\0at\0deltas");
	assert_int_equal(program_table_parse(&table.hello, table.bytes, probe, &(struct error){}), 0);
	/* Each star takes an argument: the first %p is the third one, which is an address. */
	message = program_probe_message(&probe[0]);
	assert_string_equal(message->print, "\"%*d%p at %s: %p%%\", REC->width, __print_list(ports), REC->at,"
					    " __print_list(deltas)");
	assert_int_equal(message->field[1]->type, RINGTAIL__V1__FIELD_TYPE__FIELD_BYTES);
	assert_int_equal(message->field[1]->bits, 16);
	assert_int_equal(message->field[1]->bytes, 0);
	assert_false(message->field[1]->element_signed);
	assert_string_equal(message->field[1]->c_type, "uint16_t[]");
	assert_int_equal(message->field[3]->bits, 64);
	assert_true(message->field[3]->element_signed);
	assert_int_equal(program_probe_attached(&probe[0], 0), 0);
	assert_int_equal(program_probe_attached(&probe[0], 1), 2);
	assert_int_equal(program_probe_attached(&probe[0], 3), 8);
	ringtail__v1__probe__free_unpacked(message, NULL);
	for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++) {
		char texts[64] = "app\0one\0";
		size_t bytes = 8 + strlen(formats[i].format) + 1;

		strcpy(texts + 8, formats[i].format);
		memcpy(texts + bytes, "a.c\0ports", 10);
		begin(&table);
		add(&table, 1, one, texts, bytes + 10);
		assert_int_equal(program_table_parse(&table.hello, table.bytes, probe, &(struct error){}), 0);
		message = program_probe_message(&probe[0]);
		assert_memory_equal(message->print, formats[i].print, strlen(formats[i].print));
		ringtail__v1__probe__free_unpacked(message, NULL);
	}
}

/* A field for each word of a record, as the header writes it; an argument that is called as one of them has its number. */
static void test_spans_have_ids(void **state)
{
	static const struct {
		const char *name;
		unsigned words, bytes;
	} begins[] = {{"trace_id", 4, 32}, {"span_id", 2, 16}, {"parent_id", 2, 16}, {"scope", 1, 0}, {"arg0", 1, 0},
		      {"us", 1, 0}, {"url", 1, 0}, {"cpu", 1, 0}},
	  ends[] = {{"duration_ns", 1, 0}, {"trace_id", 4, 32}, {"span_id", 2, 16}, {"parent_id", 2, 16}, {"status", 1, 0},
		    {"cpu", 1, 0}}, *wanted;
	struct program_probe probe[2];
	struct table table;

	(void)state;
	begin(&table);
	ADD_SORT(&table, RT_PROGRAM_SPAN_BEGIN, 3, three, "app\0request\0id %u %ld %s\0a.c\0trace_id\0us\0url");
	ADD_SORT(&table, RT_PROGRAM_SPAN_END, 0, ends_here, "app\0request\0\0a.c");
	assert_int_equal(program_table_parse(&table.hello, table.bytes, probe, &(struct error){}), 0);
	for (unsigned i = 0; i < 2; i++) {
		Ringtail__V1__Probe *message = program_probe_message(&probe[i]);
		size_t at = 0, fields = i ? sizeof(ends) / sizeof(*ends) : sizeof(begins) / sizeof(*begins);

		assert_non_null(message);
		assert_string_equal(message->name, i ? "end" : "begin");
		assert_string_equal(message->function, "request");
		assert_string_equal(message->print, i ? "" : "\"id %u %ld %s [trace_id=%s span_id=%s parent_id=%s]\", "
				    "REC->arg0, REC->us, __get_str(url), REC->trace_id, REC->span_id, REC->parent_id");
		wanted = i ? ends : begins;
		for (size_t k = 0; k < fields; k++) {
			assert_string_equal(message->field[at]->name, wanted[k].name);
			assert_int_equal(message->field[at++]->bytes, wanted[k].bytes);
			for (unsigned more = 1; more < wanted[k].words; more++)
				assert_int_equal(message->field[at++]->type, RINGTAIL__V1__FIELD_TYPE__FIELD_MORE);
		}
		assert_int_equal(at, message->n_field);
		assert_int_equal(at, program_probe_words(&probe[i]) + 1);
		ringtail__v1__probe__free_unpacked(message, NULL);
	}
	begin(&table);
	ADD_SORT(&table, RT_PROGRAM_SPAN_END, 3, three, "app\0request\0\0a.c\0id\0us\0url");
	assert_int_equal(parse(&table, probe), -EPROTO);
	begin(&table);
	ADD_SORT(&table, RT_PROGRAM_SPAN_END + 1, 0, ends_here, "app\0request\0\0a.c");
	assert_int_equal(parse(&table, probe), -EPROTO);
}

/* A program's messages may be in any language; what is no UTF-8, or acts on a terminal, is refused. */
static void test_texts_of_other_languages(void **state)
{
	struct program_probe probe[1];
	struct table table;

	(void)state;
	begin(&table);
	ADD(&table, 0, ends_here, "app\0name\0Gr\xc3\xb6\xc3\x9f" "e \xe2\x82\xac\0src/\xc3\xa4.c");
	assert_int_equal(parse(&table, probe), 0);
	begin(&table);
	ADD(&table, 0, ends_here, "app\0name\0Gr\xf6\xdf" "e\0a.c");
	assert_int_equal(parse(&table, probe), -EPROTO);
	begin(&table);
	ADD(&table, 0, ends_here, "app\0name\0\xc2\x9b" "2J\0a.c");
	assert_int_equal(parse(&table, probe), -EPROTO);
}

static void test_unfit_tables_are_refused(void **state)
{
	static const uint8_t unknown[] = {0x47}, odd[] = {0x35};
	struct program_probe probe[RT_PROGRAM_PROBES_MAX];
	struct table table;

	(void)state;
#define REFUSED(args, type, texts) \
	do { \
		begin(&table); \
		ADD(&table, args, type, texts); \
		assert_int_equal(parse(&table, probe), -EPROTO); \
	} while (0)
	REFUSED(0, ends_here, "app\0na:me\0f\0a.c");
	REFUSED(0, ends_here, "\0name\0f\0a.c");
	REFUSED(0, ends_here, "a*\0name\0f\0a.c");
	REFUSED(0, ends_here, "1app\0name\0f\0a.c");
	REFUSED(0, ends_here, "app\0name\0f\x1b[2J\0a.c");
	REFUSED(0, ends_here, "app\0name\0f\0a\n.c");
	REFUSED(1, unknown, "app\0name\0f\0a.c\0x");
	REFUSED(1, odd, "app\0name\0f\0a.c\0x");
	REFUSED(3, three, "app\0name\0f\0a.c");			/* no texts of its arguments */
	REFUSED(RT_PROGRAM_ARGS_MAX + 1, ends_here, "app\0name\0f\0a.c");
	begin(&table);
	add(&table, 0, ends_here, "app\0name\0ff\0aaa.cccc", 19);	/* eights, and no zero at the end */
	table.bytes[table.hello.bytes - 1] = table.bytes[table.hello.bytes - 2] = 'c';
	memset(table.bytes + sizeof(struct rt_program_probe) + 12, 'c',
	       table.hello.bytes - sizeof(struct rt_program_probe) - 12);
	assert_int_equal(parse(&table, probe), -EPROTO);
}

static void test_unfit_hellos_are_refused(void **state)
{
	static const struct {
		size_t at;
		uint32_t value;
	} broken[] = {
		{offsetof(struct rt_program_hello, magic), 1},
		{offsetof(struct rt_program_hello, version), RT_PROGRAM_VERSION + 1},
		{offsetof(struct rt_program_hello, probes), 0},
		{offsetof(struct rt_program_hello, probes), RT_PROGRAM_PROBES_MAX + 1},
		{offsetof(struct rt_program_hello, probes), 2},
		{offsetof(struct rt_program_hello, bytes), PROGRAM_TABLE_BYTES_MAX + 8},
		{offsetof(struct rt_program_hello, bytes), 12},
		{offsetof(struct rt_program_hello, bytes), 0},
	};
	struct program_probe probe[2];
	struct table table;

	(void)state;
	for (size_t i = 0; i < sizeof(broken) / sizeof(broken[0]); i++) {
		begin(&table);
		ADD(&table, 0, ends_here, "app\0name\0f\0a.c");
		assert_int_equal(parse(&table, probe), 0);
		memcpy((char *)&table.hello + broken[i].at, &broken[i].value, 4);
		if (table.hello.bytes > sizeof(table.bytes))
			assert_int_equal(program_hello_check(&table.hello, &(struct error){}), -EPROTO);
		else
			assert_int_equal(parse(&table, probe), -EPROTO);
	}
}

/* Each byte, set to each value: refused, or a table whose probes a catalog can have. */
static void test_any_byte_broken(void **state)
{
	struct program_probe probe[2];
	struct table whole, table;
	unsigned good = 0;

	(void)state;
	begin(&whole);
	ADD(&whole, 3, three, "app\0done\0id %u %ld %s\0a.c\0id\0us\0url");
	ADD_SORT(&whole, RT_PROGRAM_SPAN_BEGIN, 0, ends_here, "app\0none\0none\0a.c");
	for (uint32_t at = 0; at < whole.hello.bytes; at++) {
		for (unsigned value = 0; value < 256; value += 5) {
			table = whole;
			table.bytes[at] = (uint8_t)value;
			if (parse(&table, probe) != 0)
				continue;
			good++;
			assert_int_equal(program_table_parse(&table.hello, table.bytes, probe, &(struct error){}), 0);
			for (unsigned i = 0; i < 2; i++) {
				Ringtail__V1__Probe *message = program_probe_message(&probe[i]);

				assert_non_null(message);
				assert_true(message->n_field <= PROBE_FIELDS_MAX);
				ringtail__v1__probe__free_unpacked(message, NULL);
			}
		}
	}
	assert_true(good > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names_become_fields),
		cmocka_unit_test(test_arrays_are_lists),
		cmocka_unit_test(test_spans_have_ids),
		cmocka_unit_test(test_texts_of_other_languages),
		cmocka_unit_test(test_unfit_tables_are_refused),
		cmocka_unit_test(test_unfit_hellos_are_refused),
		cmocka_unit_test(test_any_byte_broken),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
