/*
 * What the rules of `redact` hide in records: attached texts, addresses, arrays in the words, both pieces
 * of a map's path, names of threads; what was cut and might match; and which rules are refused.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "daemon/base/clock.h"
#include "daemon/base/counters.h"
#include "daemon/base/limits.h"
#include "daemon/base/log.h"
#include "daemon/collect/redaction.h"
#include "query/structure_text.h"
#include "tests/unit/daemon/small_catalog.h"

#define ANON_INODE_FS_MAGIC	0x09041934

#define RULES(...) ((char *[]){ __VA_ARGS__ }), sizeof((char *[]){ __VA_ARGS__ }) / sizeof(char *)

struct record {
	uint64_t word[RT_RECORD_WORDS_MAX];
	struct ring_item item;
	struct redaction_record to;
};

static bool none_is_made(void *context, const char *glob)
{
	(void)context, (void)glob;
	return false;
}

static struct redaction *rules(char *const *rule, unsigned n)
{
	struct redaction *redaction;
	struct error error = {0};

	if (redaction_create(rule, n, small_catalog_get(), none_is_made, NULL, &redaction, &error))
		fail_msg("%s", error.what);
	return redaction;
}

static void begin(struct record *record, uint16_t probe, uint16_t fields)
{
	memset(record, 0, sizeof(*record));
	record->item = (struct ring_item){.probe = probe, .words = fields, .payload = record->word};
}

static void attach(struct record *record, uint16_t kind, uint16_t arg, const void *data, uint32_t bytes)
{
	struct rt_attachment *to = (void *)&record->word[record->item.words];

	*to = (struct rt_attachment){.kind = kind, .arg = arg, .bytes = bytes};
	memcpy(to->data, data, bytes);
	record->item.words = (uint16_t)(record->item.words + 1 + (bytes + 7) / 8);
}

/* The i-th attachment's text, after the rules. */
static const char *text_of(struct record *record, const struct probe_info *info, unsigned i)
{
	static char text[RT_STRING_BYTES_MAX + 1];
	const struct rt_attachment *at = (const void *)(record->item.payload + info->fields);

	while (i--)
		at = (const void *)((const uint8_t *)(at + 1) + ((at->bytes + 7) & ~7u));
	assert_true((const uint64_t *)at < record->item.payload + record->item.words);
	memcpy(text, at->data, at->bytes);
	text[at->bytes] = '\0';
	return text;
}

static const struct probe_info call_info = {.fields = 6, .has_duration = true};
static const struct probe_info entry_info = {.fields = 4};

static const char *opened(const struct redaction *redaction, uint16_t probe, const char *path)
{
	static struct record record;
	const struct probe_info *info = probe == SMALL_OPENAT ? &call_info : &entry_info;
	uint64_t redacted = counter_read(COUNTER_texts_redacted);
	const char *text;

	begin(&record, probe, info->fields);
	record.word[0] = 77;
	attach(&record, RT_ATTACH_STRING, 1, path, (uint32_t)strlen(path));
	attach(&record, RT_ATTACH_KSTACK, 0, "12345678", 8);
	redaction_event(redaction, &record.item, info, &record.to);
	assert_int_equal(record.item.payload[0], 77);
	assert_string_equal(text_of(&record, info, 1), "12345678");
	text = text_of(&record, info, 0);
	assert_int_equal(counter_read(COUNTER_texts_redacted) - redacted, !strcmp(text, REDACTED_TEXT));
	return text;
}

static void test_strings(void **state)
{
	struct redaction *redaction = rules(RULES("openat filename /secret/*", "*:*:* file* *.key"));
	char longest[RT_STRING_BYTES_MAX + 1] = "/home/";

	(void)state;
	assert_int_equal(redaction_rules(redaction), 2);
	assert_string_equal(opened(redaction, SMALL_OPENAT, "/secret/a"), REDACTED_TEXT);
	assert_string_equal(opened(redaction, SMALL_OPENAT_ENTRY, "/secret/a"), REDACTED_TEXT);
	assert_string_equal(opened(redaction, SMALL_OPENAT, "a.key"), REDACTED_TEXT);
	assert_string_equal(opened(redaction, SMALL_OPENAT, "/etc/passwd"), "/etc/passwd");
	assert_string_equal(opened(redaction, SMALL_OPENAT, "a"), "a");
	/* What was cut off may be .key. */
	memset(longest + 6, 'x', sizeof(longest) - 7);
	assert_string_equal(opened(redaction, SMALL_OPENAT, longest), REDACTED_TEXT);
	longest[sizeof(longest) - 2] = '\0';
	assert_string_equal(opened(redaction, SMALL_OPENAT, longest), longest);
	redaction_destroy(redaction);
	/* But how it begins is known. */
	longest[sizeof(longest) - 2] = 'x';
	redaction = rules(RULES("openat filename /secret/*"));
	assert_string_equal(opened(redaction, SMALL_OPENAT, longest), longest);
	redaction_destroy(redaction);
	redaction = rules(RULES("syscall:openat:entry filename *"));
	assert_string_equal(opened(redaction, SMALL_OPENAT, "a"), "a");
	assert_string_equal(opened(redaction, SMALL_OPENAT_ENTRY, "a"), REDACTED_TEXT);
	redaction_destroy(redaction);
	/* The last part alone; and any blanks between the parts. */
	redaction = rules(RULES("entry \t filename\t\t*"));
	assert_string_equal(opened(redaction, SMALL_OPENAT, "a"), "a");
	assert_string_equal(opened(redaction, SMALL_OPENAT_ENTRY, "a"), REDACTED_TEXT);
	redaction_destroy(redaction);
}

/* A rule about one probe hides nothing of threads, which are told with all of them, whatever its field may be. */
static void test_one_probe_s_rule_is_about_no_thread(void **state)
{
	struct redaction *redaction = rules(RULES("openat *e* worker"));
	char comm[RT_COMM_BYTES] = "worker";

	(void)state;
	assert_false(redaction_hides_comm(redaction));
	redaction_comm(redaction, comm);
	assert_string_equal(comm, "worker");
	assert_false(redaction_hides_text(redaction, THREAD_EXE, "worker", 6));
	assert_string_equal(opened(redaction, SMALL_OPENAT, "worker"), REDACTED_TEXT);
	redaction_destroy(redaction);
}

/* The shortest texts grow, and a record that is full of them still has all of them. */
static void test_as_many_as_there_are_fields(void **state)
{
	struct redaction *redaction = rules(RULES("* * *"));
	struct record record;

	(void)state;
	begin(&record, SMALL_OPENAT, 6);
	for (unsigned i = 0; i < 24; i++)
		attach(&record, RT_ATTACH_STRING, 1, "x", 1);
	redaction_event(redaction, &record.item, &call_info, &record.to);
	for (unsigned i = 0; i < 24; i++)
		assert_string_equal(text_of(&record, &call_info, i), REDACTED_TEXT);
	redaction_destroy(redaction);
}

/* A record that no producer makes: what grows beyond the room there is stays away, and nothing is written behind it. */
static void test_more_than_there_is_room_for(void **state)
{
	static struct {
		struct record record;
		uint64_t behind[2 * RT_RECORD_WORDS_MAX];
	} one;
	static const uint64_t zeros[2 * RT_RECORD_WORDS_MAX];
	struct redaction *redaction = rules(RULES("* * *"));
	struct ring_item *item = &one.record.item;
	unsigned there = 0;

	(void)state;
	begin(&one.record, SMALL_OPENAT, 6);
	while (item->words + 2u <= RT_RECORD_WORDS_MAX)
		attach(&one.record, RT_ATTACH_STRING, 1, "x", 1);
	redaction_event(redaction, item, &call_info, &one.record.to);
	assert_ptr_equal(item->payload, one.record.to.word);
	assert_true(item->words <= sizeof(one.record.to.word) / sizeof(one.record.to.word[0]));
	assert_memory_equal(one.behind, zeros, sizeof(zeros));
	for (unsigned at = 6; at < item->words; at += 3, there++)
		assert_string_equal(text_of(&one.record, &call_info, there), REDACTED_TEXT);
	assert_true(there >= RT_RECORD_WORDS_MAX / 3);
	redaction_destroy(redaction);
}

/* One that says it is longer than what is left of the record is none. */
static void test_attachment_that_is_cut_off(void **state)
{
	struct redaction *redaction = rules(RULES("* filename secret"));
	struct record record;
	char text[64];

	(void)state;
	memset(text, 'x', sizeof(text));
	for (unsigned cut = 0; cut < 2; cut++) {
		begin(&record, SMALL_OPENAT, 6);
		attach(&record, RT_ATTACH_STRING, 1, "secret", 6);
		attach(&record, RT_ATTACH_KSTACK, 0, text, sizeof(text));
		record.item.words = (uint16_t)(record.item.words - cut);
		redaction_event(redaction, &record.item, &call_info, &record.to);
		assert_int_equal(record.item.words, 6 + 3 + (cut ? 0 : 9));
		assert_string_equal(text_of(&record, &call_info, 0), REDACTED_TEXT);
	}
	redaction_destroy(redaction);
}

static void test_address(void **state)
{
	struct redaction *redaction = rules(RULES("* filename 10.*"));
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(5432),
				      .sin_addr.s_addr = htonl(0x0a000001)};
	struct record record;

	(void)state;
	begin(&record, SMALL_OPENAT, 6);
	attach(&record, RT_ATTACH_SOCKADDR, 1, &address, sizeof(address));
	redaction_event(redaction, &record.item, &call_info, &record.to);
	assert_string_equal(text_of(&record, &call_info, 0), REDACTED_TEXT);
	address.sin_addr.s_addr = htonl(0x0b000001);
	begin(&record, SMALL_OPENAT, 6);
	attach(&record, RT_ATTACH_SOCKADDR, 1, &address, sizeof(address));
	redaction_event(redaction, &record.item, &call_info, &record.to);
	assert_ptr_equal(record.item.payload, record.word);
	redaction_destroy(redaction);
}

/* Strings of an exec, one after the other, as the kernel's programs keep them. */
static bool hides_strings(const struct redaction *redaction, uint32_t count, const char *strings, uint32_t bytes)
{
	struct rt_structure head = {.kind = RT_STRUCTURE_ARGV, .count = count};
	char data[sizeof(head) + RT_STRUCTURE_ARGV_BYTES];
	struct record record;

	memcpy(data, &head, sizeof(head));
	memcpy(data + sizeof(head), strings, bytes);
	begin(&record, SMALL_OPENAT, 6);
	attach(&record, RT_ATTACH_STRUCTURE, 1, data, (uint32_t)sizeof(head) + bytes);
	redaction_event(redaction, &record.item, &call_info, &record.to);
	if (record.item.payload == record.word)
		return false;
	assert_string_equal(text_of(&record, &call_info, 0), REDACTED_TEXT);
	return true;
}

static void test_structures(void **state)
{
	struct redaction *one = rules(RULES("* filename --password=*"));
	struct redaction *all = rules(RULES("* filename [[]\"curl\"*"));
	struct redaction *last = rules(RULES("* filename *--last*"));
	char many[STRUCTURE_TEXT_BYTES];

	(void)state;
	/* Each is whole, but of all of them together the end is not shown. */
	for (unsigned i = 0; i < sizeof(many); i++)
		many[i] = i % 4 == 3 ? '\0' : 'x';
	assert_true(hides_strings(last, sizeof(many) / 4, many, sizeof(many)));
	assert_false(hides_strings(last, 4, many, 16));
	redaction_destroy(last);
	assert_true(hides_strings(one, 2, "curl\0--password=x", 18));
	assert_false(hides_strings(one, 2, "curl\0--passwort=x", 18));
	assert_false(hides_strings(one, 2, "curl\0x--password=", 18));
	assert_true(hides_strings(one, 2, "curl\0--passw", 12));	/* it was cut, and may go on like that */
	assert_false(hides_strings(one, 2, "curl\0--passw", 13));
	assert_true(hides_strings(all, 2, "curl\0--passw", 13));
	assert_false(hides_strings(all, 2, "wget\0--passw", 13));
	redaction_destroy(one);
	redaction_destroy(all);
}

static bool hides_entries(const struct redaction *redaction, uint32_t bytes)
{
	uint8_t entries[56] = {[16] = 24, [18] = 4, [19] = '.', [40] = 32, [42] = 8, [43] = 's', 'e', 'c', 'r', 'e', 't'};
	struct probe_info info = call_info;
	struct record record;

	info.dirent_fields = 1u << 3;
	begin(&record, SMALL_OPENAT, 6);
	attach(&record, RT_ATTACH_DATA, 1, entries, bytes);
	redaction_event(redaction, &record.item, &info, &record.to);
	return record.item.payload != record.word;
}

/* As getdents() has them: the name begins where others have the type, which is the last byte. */
static bool hides_old_entries(const struct redaction *redaction)
{
	uint8_t entries[56] = {[16] = 24, [18] = '.', [23] = 4, [40] = 32, [42] = 's', 'e', 'c', 'r', 'e', 't', [55] = 8};
	struct probe_info info = call_info;
	struct record record;

	info.dirent_fields = info.old_dirent_fields = 1u << 3;
	begin(&record, SMALL_OPENAT, 6);
	attach(&record, RT_ATTACH_DATA, 1, entries, sizeof(entries));
	redaction_event(redaction, &record.item, &info, &record.to);
	return record.item.payload != record.word;
}

/* A name in a directory, which begins with what a rule says: also where it was cut; and the list, as it is shown. */
static void test_entries_of_a_directory(void **state)
{
	struct redaction *name = rules(RULES("* filename secret"));
	struct redaction *list = rules(RULES("* filename [[]{d_type=DT_DIR, d_name=\".\"}, {d_type=DT_REG,*"));
	struct redaction *other = rules(RULES("* filename ecret"));

	(void)state;
	assert_true(hides_entries(name, 56));
	assert_true(hides_entries(name, 48));
	assert_false(hides_entries(name, 24));
	assert_true(hides_entries(list, 56));
	assert_false(hides_entries(other, 56));
	assert_true(hides_old_entries(name));
	assert_true(hides_old_entries(list));
	assert_false(hides_old_entries(other));
	redaction_destroy(name);
	redaction_destroy(list);
	redaction_destroy(other);
}

/* What a descriptor stands for, by that path; with a name alone, where the whole was too long. Mode 0: no file. */
static bool hides_file(const struct redaction *redaction, uint32_t mode, const char *path)
{
	struct rt_file file = {.mode = mode, .magic = mode ? 0 : ANON_INODE_FS_MAGIC, .ino = 5};
	char data[RT_FILE_HEAD_BYTES + RT_FILE_PATH_BYTES_MAX];
	size_t bytes = strlen(path) < RT_FILE_PATH_BYTES_MAX ? strlen(path) : RT_FILE_PATH_BYTES_MAX;
	struct record record;

	memcpy(data, &file, RT_FILE_HEAD_BYTES);
	memcpy(data + RT_FILE_HEAD_BYTES, path, bytes);
	begin(&record, SMALL_OPENAT, 6);
	attach(&record, RT_ATTACH_FILE, 1, data, (uint32_t)(RT_FILE_HEAD_BYTES + bytes));
	redaction_event(redaction, &record.item, &call_info, &record.to);
	return record.item.payload != record.word;
}

/* As deep as that, with that name at its end. */
static const char *deep(unsigned names, const char *last)
{
	static char path[512];

	path[0] = '\0';
	while (--names)
		strcat(path, "/d");
	strcat(path, "/");
	return strcat(path, last);
}

static void test_path_without_its_beginning(void **state)
{
	struct redaction *redaction = rules(RULES("* * /secret/*"));
	char longest[256] = "";

	(void)state;
	assert_true(hides_file(redaction, S_IFREG, "/secret/a"));
	assert_false(hides_file(redaction, S_IFREG, "/b/secret/a"));
	assert_true(hides_file(redaction, S_IFREG, "ab"));		/* /secret/.../ab, perhaps */
	assert_true(hides_file(redaction, S_IFREG, ".../a/b"));
	assert_true(hides_file(redaction, S_IFREG, ".../a/ab"));
	assert_false(hides_file(redaction, S_IFREG, deep(RT_TEXT_NAMES_MAX - 1, "ab")));
	assert_true(hides_file(redaction, S_IFREG, deep(RT_TEXT_NAMES_MAX, "ab")));
	memset(longest, 'x', sizeof(longest) - 1);
	assert_true(hides_file(redaction, S_IFREG, longest));
	assert_false(hides_file(redaction, 0, "a[eventpoll]"));	/* that is no path */
	redaction_destroy(redaction);
	redaction = rules(RULES("* * *.key", "* * /a/[xy]b"));
	assert_true(hides_file(redaction, S_IFREG, "a.key"));
	assert_true(hides_file(redaction, S_IFREG, ".../a/yb"));
	assert_true(hides_file(redaction, S_IFREG, ".../yb"));
	assert_false(hides_file(redaction, S_IFREG, ".../b/yb"));
	assert_false(hides_file(redaction, S_IFREG, ".../ab"));
	assert_true(hides_file(redaction, S_IFREG, "xb"));
	assert_false(hides_file(redaction, S_IFREG, "ab"));
	assert_false(hides_file(redaction, S_IFREG, deep(RT_TEXT_NAMES_MAX, "ab")));
	assert_true(hides_file(redaction, S_IFREG, longest));		/* nor its end */
	redaction_destroy(redaction);
	redaction = rules(RULES("* exe /opt/*", "* cgroup /secret/*"));
	assert_false(redaction_hides_text(redaction, THREAD_EXE, "/bin/x", 6));
	assert_true(redaction_hides_text(redaction, THREAD_EXE, "x", 1));
	assert_true(redaction_hides_text(redaction, THREAD_EXE, ".../x", 5));
	assert_false(redaction_hides_text(redaction, THREAD_EXE, "/.../x", 6));
	assert_true(redaction_hides_text(redaction, THREAD_CGROUP, "/a\n.../b\n", 9));
	assert_true(redaction_hides_text(redaction, THREAD_CGROUP, "/a\nb\n", 5));
	assert_false(redaction_hides_text(redaction, THREAD_CGROUP, "/a\n\n", 4));
	redaction_destroy(redaction);
	redaction = rules(RULES("* exe /opt/a/x"));
	assert_true(redaction_hides_text(redaction, THREAD_EXE, ".../a/x", 7));
	assert_false(redaction_hides_text(redaction, THREAD_EXE, ".../b/x", 7));
	redaction_destroy(redaction);
	redaction = rules(RULES("* comm /x"));
	assert_false(redaction_hides_text(redaction, THREAD_COMM, "x", 1));	/* a name is no path */
	redaction_destroy(redaction);
}

static Ringtail__V1__Probe *probe_of(uint32_t id, Ringtail__V1__Field **field, size_t n)
{
	static Ringtail__V1__Probe probe;

	ringtail__v1__probe__init(&probe);
	probe.id = id;
	probe.provider = probe.function = probe.name = (char *)"x";
	probe.field = field;
	probe.n_field = n;
	return &probe;
}

static unsigned warned;

static void note_warning(enum log_level level, const char *code, const char *text)
{
	(void)text;
	warned += level == LOG_LEVEL_WARNING && strcmp(code, "redact-nothing") == 0;
}

/* Of a probe that is made later it is said, once and of the rule that names it, that nothing of it is hidden. */
static void test_what_hides_nothing_of_a_probe_is_said(void **state)
{
	static const struct log_sink sink = {note_warning, clock_monotonic};
	struct redaction *redaction = rules(RULES("* * secret", "openat filename secret"));
	Ringtail__V1__Field text, *field[] = {&text};
	Ringtail__V1__Probe *made;

	(void)state;
	small_field(&text, "filename", RINGTAIL__V1__FIELD_TYPE__FIELD_STRING, 64);
	made = probe_of(RT_PROBE_MADE, field, 1);
	made->function = (char *)"openat";
	log_set_sink(&sink);
	warned = 0;
	assert_int_equal(redaction_add(redaction, made), 0);
	assert_int_equal(warned, 0);
	made->id++;
	text.name = (char *)"path";
	assert_int_equal(redaction_add(redaction, made), 0);
	assert_int_equal(warned, 1);
	log_set_sink(NULL);
	redaction_destroy(redaction);
}

static void test_array_in_the_words(void **state)
{
	static const struct probe_info info = {.fields = 3};
	struct redaction *redaction = rules(RULES("* * secret"));
	Ringtail__V1__Field text, more, other, *field[] = {&text, &more, &other};
	struct record record;

	(void)state;
	small_field(&text, "name", RINGTAIL__V1__FIELD_TYPE__FIELD_TEXT, 8);
	small_field(&more, "", RINGTAIL__V1__FIELD_TYPE__FIELD_MORE, 0);
	small_field(&other, "n", RINGTAIL__V1__FIELD_TYPE__FIELD_SIGNED, 32);
	text.bytes = 12;
	assert_int_equal(redaction_add(redaction, probe_of(RT_PROBE_MADE, field, 3)), 0);
	begin(&record, RT_PROBE_MADE, 3);
	memcpy(record.word, "secret\0junk", 12);
	record.word[2] = 5;
	redaction_event(redaction, &record.item, &info, &record.to);
	assert_memory_equal(record.item.payload, "[redacted]\0\0\0\0\0\0", 16);
	assert_int_equal(record.item.payload[2], 5);
	begin(&record, RT_PROBE_MADE, 3);
	memcpy(record.word, "public", 7);
	redaction_event(redaction, &record.item, &info, &record.to);
	assert_ptr_equal(record.item.payload, record.word);
	redaction_destroy(redaction);
}

/* Of an array that is attached, the text ends at the first zero; without one, it may have been cut. */
static void test_array_that_is_attached(void **state)
{
	static const struct probe_info info = {.fields = 1};
	char name[RT_STRING_BYTES_MAX + 1], ended[RT_STRING_BYTES_MAX];
	struct {
		const char *text;
		size_t bytes;
		bool hidden;
	} row[] = {
		{"a.key", 5, true}, {"a.key\0junk", 10, true}, {"public\0.key", 11, false},
		{name, RT_STRING_BYTES_MAX - 1, false}, {name, RT_STRING_BYTES_MAX, true},
		{ended, RT_STRING_BYTES_MAX, false},	/* its room is full, but not of the text */
	};
	struct redaction *redaction = rules(RULES("* * *.key"));
	Ringtail__V1__Field text, *field[] = {&text};
	struct record record;

	(void)state;
	memset(name, 'x', sizeof(name));
	memset(ended, 'x', sizeof(ended));
	ended[6] = '\0';
	small_field(&text, "name", RINGTAIL__V1__FIELD_TYPE__FIELD_TEXT, 8);
	assert_int_equal(redaction_add(redaction, probe_of(RT_PROBE_MADE, field, 1)), 0);
	for (unsigned i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		begin(&record, RT_PROBE_MADE, 1);
		attach(&record, RT_ATTACH_STRING, 0, row[i].text, (uint32_t)row[i].bytes);
		redaction_event(redaction, &record.item, &info, &record.to);
		assert_int_equal(!strcmp(text_of(&record, &info, 0), REDACTED_TEXT), row[i].hidden);
	}
	redaction_destroy(redaction);
}

static bool all_are_made(void *context, const char *glob)
{
	(void)context, (void)glob;
	return true;
}

static void test_map_in_two_pieces(void **state)
{
	struct error error = {0};
	static const struct probe_info info = {.fields = 2};
	struct redaction *redaction = rules(RULES("* * */lib.so"));
	Ringtail__V1__Field path, more, *field[] = {&path, &more};
	char long_path[RT_STRING_BYTES_MAX];
	struct record record;

	(void)state;
	small_field(&path, "path", RINGTAIL__V1__FIELD_TYPE__FIELD_STRING, 64);
	small_field(&more, "path_more", RINGTAIL__V1__FIELD_TYPE__FIELD_STRING, 64);
	assert_int_equal(redaction_add(redaction, probe_of(RT_PROBE_PROCESS_MAP, field, 2)), 0);
	memset(long_path, 'd', sizeof(long_path));
	begin(&record, RT_PROBE_PROCESS_MAP, 2);
	attach(&record, RT_ATTACH_STRING, 0, long_path, sizeof(long_path));
	attach(&record, RT_ATTACH_STRING, 1, "/lib.so", 7);
	redaction_event(redaction, &record.item, &info, &record.to);
	assert_string_equal(text_of(&record, &info, 0), REDACTED_TEXT);
	assert_string_equal(text_of(&record, &info, 1), REDACTED_TEXT);
	begin(&record, RT_PROBE_PROCESS_MAP, 2);
	attach(&record, RT_ATTACH_STRING, 0, "/lib.so.1", 9);
	redaction_event(redaction, &record.item, &info, &record.to);
	assert_ptr_equal(record.item.payload, record.word);
	redaction_destroy(redaction);
	/* A rule of the first piece alone is one of the path. */
	assert_int_equal(redaction_create(RULES("* path */lib.so"), small_catalog_get(), all_are_made, NULL, &redaction,
					  &error), 0);
	assert_int_equal(redaction_add(redaction, probe_of(RT_PROBE_PROCESS_MAP, field, 2)), 0);
	begin(&record, RT_PROBE_PROCESS_MAP, 2);
	attach(&record, RT_ATTACH_STRING, 0, long_path, sizeof(long_path));
	attach(&record, RT_ATTACH_STRING, 1, "/lib.so", 7);
	redaction_event(redaction, &record.item, &info, &record.to);
	assert_string_equal(text_of(&record, &info, 0), REDACTED_TEXT);
	assert_string_equal(text_of(&record, &info, 1), REDACTED_TEXT);
	redaction_destroy(redaction);
}

/* Both pieces are full: what was cut off may be /lib.so. One byte less, and it is known how the path ends. */
static void test_map_that_may_be_cut(void **state)
{
	static const struct probe_info info = {.fields = 2};
	struct redaction *redaction = rules(RULES("* * */lib.so"));
	Ringtail__V1__Field path, more, *field[] = {&path, &more};
	char piece[RT_STRING_BYTES_MAX];
	struct record record;

	(void)state;
	small_field(&path, "path", RINGTAIL__V1__FIELD_TYPE__FIELD_STRING, 64);
	small_field(&more, "path_more", RINGTAIL__V1__FIELD_TYPE__FIELD_STRING, 64);
	assert_int_equal(redaction_add(redaction, probe_of(RT_PROBE_PROCESS_MAP, field, 2)), 0);
	memset(piece, 'd', sizeof(piece));
	begin(&record, RT_PROBE_PROCESS_MAP, 2);
	attach(&record, RT_ATTACH_STRING, 0, piece, sizeof(piece));
	attach(&record, RT_ATTACH_STRING, 1, piece, sizeof(piece));
	redaction_event(redaction, &record.item, &info, &record.to);
	assert_string_equal(text_of(&record, &info, 0), REDACTED_TEXT);
	assert_string_equal(text_of(&record, &info, 1), REDACTED_TEXT);
	begin(&record, RT_PROBE_PROCESS_MAP, 2);
	attach(&record, RT_ATTACH_STRING, 0, piece, sizeof(piece));
	attach(&record, RT_ATTACH_STRING, 1, piece, sizeof(piece) - 1);
	redaction_event(redaction, &record.item, &info, &record.to);
	assert_ptr_equal(record.item.payload, record.word);
	redaction_destroy(redaction);
}

static void test_threads(void **state)
{
	struct redaction *redaction = rules(RULES("* comm hidden*", "* exe /opt/*", "* cgroup */secret"));
	char comm[RT_COMM_BYTES] = "hidden-1", other[RT_COMM_BYTES] = "shown";

	(void)state;
	assert_true(redaction_hides_comm(redaction));
	redaction_comm(redaction, comm);
	assert_string_equal(comm, REDACTED_TEXT);
	redaction_comm(redaction, other);
	assert_string_equal(other, "shown");
	assert_true(redaction_hides_text(redaction, THREAD_EXE, "/opt/x", 6));
	assert_false(redaction_hides_text(redaction, THREAD_CGROUP, "/opt/x", 6));
	assert_true(redaction_hides_text(redaction, THREAD_CGROUP, "/a\n/b/secret\n/c\n", 16));
	assert_false(redaction_hides_text(redaction, THREAD_CGROUP, "/a\n/b\n", 6));
	redaction_destroy(redaction);
	assert_false(redaction_hides_comm(NULL));
	assert_false(redaction_hides_text(NULL, THREAD_EXE, "/opt/x", 6));
}

/* What was learnt before the rules were there, of threads and of texts that no thread names yet. */
static void test_threads_that_are_known(void **state)
{
	struct redaction *redaction = rules(RULES("* comm hidden*", "* exe /opt/*"));
	struct thread_table *table = thread_table_create(16);
	struct rt_thread thread = {.pid = 3, .comm = "hidden", .exe = RT_TEXT_EXE | 1, .cgroup = 2};
	const struct batch_thread *known;
	uint32_t index;

	(void)state;
	thread_table_learn_text(table, RT_TEXT_EXE | 1, "/opt/secretd", 12);
	thread_table_learn_text(table, 2, "/opt/c", 6);
	thread_table_learn_text(table, RT_TEXT_EXE | 3, "/opt/b", 6);
	index = thread_table_learn(table, 3, &thread);
	thread_table_redact(table, redaction_hides_text, redaction);
	known = thread_table_get(table, index);
	assert_string_equal(known->comm, REDACTED_TEXT);
	assert_int_equal(known->exe->bytes, strlen(REDACTED_TEXT));
	assert_memory_equal(known->exe->data, REDACTED_TEXT, known->exe->bytes);
	assert_memory_equal(known->cgroup->data, "/opt/c", 6);
	assert_memory_equal(thread_table_text(table, RT_TEXT_EXE | 3)->data, REDACTED_TEXT,
			    strlen(REDACTED_TEXT));
	thread_table_destroy(table);
	redaction_destroy(redaction);
}

static void test_refused(void **state)
{
	static const struct {
		const char *rule, *code;
	} bad[] = {
		{"openat filename", "redact-rule"}, {"openat", "redact-rule"}, {" ", "redact-rule"},
		{"openat comm x", "redact-thread"}, {"nosuchcall filename *", "redact-nothing"},
		{"openat flags *", "redact-nothing"}, {"openat nosuch *", "redact-nothing"},
		{"* nosuch *", "redact-nothing"}, {"a:b:c:d filename *", "probe-bad-spec"},
	};

	(void)state;
	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct redaction *redaction = (void *)1;
		struct error error = {0};
		char *rule[] = {(char *)"* comm x", (char *)bad[i].rule};

		assert_int_not_equal(redaction_create(rule, 2, small_catalog_get(), none_is_made, NULL,
						      &redaction, &error), 0);
		assert_null(redaction);
		if (strcmp(error.code, bad[i].code))
			fail_msg("`%s`: %s: %s", bad[i].rule, error.code, error.what);
	}
	assert_int_equal(redaction_check((char *[]){(char *)"* * x"}, 1, NULL), 0);
}

/* ---- Any record ------------------------------------------------------------------------------- */

#define SECRET	"secret"

static uint64_t seed;

static uint32_t pick(uint32_t n)
{
	seed = seed * 6364136223846793005ull + 1442695040888963407ull;
	return (uint32_t)(seed >> 33) % n;
}

/* A probe of any fields, with a rule for some of them; and what is known of it without the code under test. */
struct made {
	Ringtail__V1__Field field[PROBE_FIELDS_MAX], *list[PROBE_FIELDS_MAX];
	char name[PROBE_FIELDS_MAX][8], rule[PROBE_FIELDS_MAX][24];
	char *rules[PROBE_FIELDS_MAX];
	unsigned fields, n;
	bool is_ruled[PROBE_FIELDS_MAX], ends[PROBE_FIELDS_MAX];
	size_t in_words[PROBE_FIELDS_MAX];	/* bytes of an array */
	struct probe_info info;
};

static void make_fields(struct made *made)
{
	static const struct {
		Ringtail__V1__FieldType type;
		const char *c_type;
		bool has_text, in_words, ends;
	} kind[] = {
		{RINGTAIL__V1__FIELD_TYPE__FIELD_STRING, "char *", true, false, false},
		{RINGTAIL__V1__FIELD_TYPE__FIELD_FD, "int", true, false, false},
		{RINGTAIL__V1__FIELD_TYPE__FIELD_RESULT, "long", true, false, false},
		{RINGTAIL__V1__FIELD_TYPE__FIELD_HEX, "void *", true, false, false},
		{RINGTAIL__V1__FIELD_TYPE__FIELD_HEX, "unsigned int", false, false, false},
		{RINGTAIL__V1__FIELD_TYPE__FIELD_SIGNED, "char *", false, false, false},
		{RINGTAIL__V1__FIELD_TYPE__FIELD_TEXT, "char []", true, false, true},
		{RINGTAIL__V1__FIELD_TYPE__FIELD_TEXT, "char []", true, true, true},
		{RINGTAIL__V1__FIELD_TYPE__FIELD_BYTES, "u8 []", true, true, false},
	};
	unsigned array = 0;	/* words of one that are still to come */

	memset(made, 0, sizeof(*made));
	made->fields = 1 + pick(PROBE_FIELDS_MAX);
	made->info = (struct probe_info){.fields = (uint8_t)made->fields, .has_duration = pick(2)};
	for (unsigned i = 0; i < made->fields; i++) {
		unsigned k = array ? 5 : pick(sizeof(kind) / sizeof(kind[0]));

		snprintf(made->name[i], sizeof(made->name[i]), "f%u.", i);
		small_field(&made->field[i], made->name[i], kind[k].type, 64);
		made->field[i].c_type = (char *)kind[k].c_type;
		made->list[i] = &made->field[i];
		made->ends[i] = kind[k].ends;
		if (array)
			array--;
		else if (kind[k].in_words)
			made->field[i].bytes = 1 + pick(30);
		made->in_words[i] = made->field[i].bytes;
		if (made->in_words[i] > 8 * (made->fields - i))
			made->in_words[i] = 8 * (made->fields - i);
		array = made->in_words[i] ? (unsigned)(made->in_words[i] - 1) / 8 : array;
		made->is_ruled[i] = kind[k].has_text && pick(2);
		if (!made->is_ruled[i])
			continue;
		snprintf(made->rule[made->n], sizeof(made->rule[0]), "x:x:x %s *" SECRET "*", made->name[i]);
		made->rules[made->n] = made->rule[made->n];
		made->n++;
	}
}

static bool is_made(void *context, const char *glob)
{
	(void)context;
	return strcmp(glob, "x:x:x") == 0;
}

/* Of that many bytes at most, with a secret in it or a part of one. */
static size_t any_text(char *text, size_t most)
{
	static const char *const some[] = {SECRET, "a " SECRET " b", "secre", "nothing", "", ("x\0" SECRET)};
	static const size_t lengths[] = {6, 10, 5, 7, 0, 8};
	unsigned k = pick(6);
	size_t bytes = lengths[k] < most ? lengths[k] : most;

	memcpy(text, some[k], bytes);
	return bytes;
}

static bool has_secret(const char *text, size_t bytes, bool ends)
{
	if (ends)
		bytes = strnlen(text, bytes);
	return memmem(text, bytes, SECRET, strlen(SECRET));
}

static uint32_t fill_words(const struct made *made, struct record *record)
{
	uint32_t hidden = 0;

	begin(record, RT_PROBE_MADE, (uint16_t)made->fields);
	for (unsigned i = 0; i < made->fields; i++)
		record->word[i] = pick(1u << 30);
	for (unsigned i = 0; i < made->fields; i++) {
		char *text = (char *)&record->word[i];

		if (!made->in_words[i])
			continue;
		memset(text, 0, made->in_words[i]);
		any_text(text, made->in_words[i]);
		if (made->is_ruled[i] && has_secret(text, made->in_words[i], made->ends[i]))
			hidden |= 1u << i;
	}
	return hidden;
}

/* Of each kind, of fields that there are and that there are not; what is a text and has a secret is to go. */
static uint32_t attach_any(const struct made *made, struct record *record)
{
	static const uint16_t kinds[] = {RT_ATTACH_STRING, RT_ATTACH_DATA, RT_ATTACH_KSTACK, RT_ATTACH_USTACK};
	uint32_t hidden = 0;

	for (unsigned n = pick(6); n; n--) {
		uint16_t kind = kinds[pick(4)], arg = pick(8) ? (uint16_t)pick(made->fields + 3) : RT_ATTACH_RESULT;
		unsigned field = arg == RT_ATTACH_RESULT ? 1 : made->info.has_duration ? arg + 2u : arg;
		char text[32];
		size_t bytes = any_text(text, sizeof(text));

		attach(record, kind, arg, text, (uint32_t)bytes);
		if ((kind == RT_ATTACH_STRING || kind == RT_ATTACH_DATA) && field < made->fields &&
		    made->is_ruled[field] && has_secret(text, bytes, made->ends[field]))
			hidden |= 1u << field;
	}
	return hidden;
}

/* What is to come out of it, written down anew. */
static void hide(const struct made *made, const struct record *from, uint32_t hidden, struct record *to)
{
	const uint64_t *at = from->word + made->fields, *end = from->word + from->item.words;

	begin(to, RT_PROBE_MADE, (uint16_t)made->fields);
	memcpy(to->word, from->word, made->fields * sizeof(to->word[0]));
	for (unsigned i = 0; i < made->fields; i++) {
		char text[64] = REDACTED_TEXT;

		if (hidden >> i & 1 && made->in_words[i])
			memcpy(&to->word[i], text, (made->in_words[i] + 7) / 8 * 8);
		if (hidden >> i & 1 && made->in_words[i] && made->in_words[i] < strlen(REDACTED_TEXT))
			memset((char *)&to->word[i] + made->in_words[i], 0, -made->in_words[i] % 8);
	}
	while (at < end) {
		const struct rt_attachment *attachment = (const void *)at;
		unsigned field = attachment->arg == RT_ATTACH_RESULT ? 1 :
				 made->info.has_duration ? attachment->arg + 2u : attachment->arg;
		bool text = attachment->kind == RT_ATTACH_STRING || attachment->kind == RT_ATTACH_DATA;

		if (text && field < made->fields && hidden >> field & 1)
			attach(to, RT_ATTACH_STRING, attachment->arg, REDACTED_TEXT, strlen(REDACTED_TEXT));
		else
			attach(to, attachment->kind, attachment->arg, attachment->data, attachment->bytes);
		at += 1 + (attachment->bytes + 7) / 8;
	}
}

static void check_record(const struct made *made, const struct redaction *redaction)
{
	static struct record record, before, expected;
	uint64_t redacted = counter_read(COUNTER_texts_redacted);
	uint32_t hidden = fill_words(made, &record);

	hidden |= attach_any(made, &record);
	before = record;
	hide(made, &record, hidden, &expected);
	memset(&record.to, 0xff, sizeof(record.to));
	redaction_event(redaction, &record.item, &made->info, &record.to);
	assert_int_equal(counter_read(COUNTER_texts_redacted) - redacted, __builtin_popcount(hidden));
	assert_memory_equal(record.word, before.word, sizeof(record.word));
	assert_ptr_equal(record.item.payload, hidden ? record.to.word : record.word);
	assert_int_equal(record.item.words, expected.item.words);
	assert_memory_equal(record.item.payload, expected.word, expected.item.words * sizeof(expected.word[0]));
}

static void test_any_record(void **state)
{
	(void)state;
	seed = 1;
	for (unsigned round = 0; round < 1500; round++) {
		static struct made made;
		struct redaction *redaction;
		struct error error;

		make_fields(&made);
		if (!made.n)
			continue;
		assert_int_equal(redaction_create(made.rules, made.n, small_catalog_get(), is_made, NULL,
						  &redaction, &error), 0);
		assert_int_equal(redaction_rules(redaction), made.n);
		assert_int_equal(redaction_add(redaction, probe_of(RT_PROBE_MADE, made.list, made.fields)), 0);
		for (unsigned i = 0; i < 20; i++)
			check_record(&made, redaction);
		redaction_destroy(redaction);
	}
}

/* What is beyond what there is room for is refused, and hides nothing. */
static void test_bounds(void **state)
{
	static Ringtail__V1__Field field[PROBE_FIELDS_MAX + 1], *list[PROBE_FIELDS_MAX + 1];
	struct redaction *redaction = rules(RULES("* * *"));
	char *many[REDACT_RULES_MAX + 1];
	struct error error = {0};

	(void)state;
	for (unsigned i = 0; i <= PROBE_FIELDS_MAX; i++) {
		small_field(&field[i], "name", RINGTAIL__V1__FIELD_TYPE__FIELD_STRING, 64);
		list[i] = &field[i];
	}
	assert_int_equal(redaction_add(NULL, probe_of(RT_PROBE_MADE, list, 1)), 0);
	assert_int_equal(redaction_add(redaction, probe_of(RT_PROBE_MADE, list, PROBE_FIELDS_MAX + 1)), -EPROTO);
	assert_int_equal(redaction_add(redaction, probe_of(RT_PROBE_MADE, list, PROBE_FIELDS_MAX)), 0);
	assert_int_equal(redaction_add(redaction, probe_of(RT_PROBE_MADE, list, PROBE_FIELDS_MAX)), 0);
	assert_int_equal(redaction_add(redaction, probe_of(RT_PROBE_MAX - 1, list, 1)), 0);
	assert_int_equal(redaction_add(redaction, probe_of(RT_PROBE_MAX, list, 1)), -EPROTO);
	redaction_destroy(redaction);
	for (unsigned i = 0; i <= REDACT_RULES_MAX; i++)
		many[i] = (char *)"* * x";
	assert_int_equal(redaction_create(many, REDACT_RULES_MAX + 1, small_catalog_get(), none_is_made, NULL,
					  &redaction, &error), -ENOMEM);
	assert_null(redaction);
	redaction = rules(many, REDACT_RULES_MAX);
	assert_int_equal(redaction_rules(redaction), REDACT_RULES_MAX);
	redaction_destroy(redaction);
	assert_int_equal(redaction_create(NULL, 0, small_catalog_get(), none_is_made, NULL, &redaction, &error), 0);
	assert_null(redaction);
	assert_int_equal(redaction_rules(NULL), 0);
	for (unsigned i = 0; i < 3; i++) {
		char *rule[] = {(char *)"* * x", (char *)"* * y", (char *)"* * z"};

		assert_int_equal(redaction_check(rule, 3, &error), 0);
		rule[i] = (char *)"openat filename";
		assert_int_equal(redaction_check(rule, 3, &error), -EINVAL);
		assert_string_equal(error.code, "redact-rule");
		assert_string_equal(error.what, "redact: `openat filename`: a rule has three parts");
	}
}

/* A name that fills its room may have been cut; what is hidden already is not hidden again. */
static void test_names_that_may_be_cut(void **state)
{
	struct redaction *redaction = rules(RULES("* exe x", "* comm 123456789abcdef-secret", "* comm *z"));
	uint64_t redacted = counter_read(COUNTER_texts_redacted);
	char comm[RT_COMM_BYTES] = "123456789abcdef", kept[RT_COMM_BYTES] = "123456789abcde";

	(void)state;
	redaction_comm(redaction, kept);
	assert_string_equal(kept, "123456789abcde");
	assert_int_equal(counter_read(COUNTER_texts_redacted), redacted);
	redaction_comm(redaction, comm);
	assert_memory_equal(comm, REDACTED_TEXT "\0\0\0\0\0", RT_COMM_BYTES);
	assert_int_equal(counter_read(COUNTER_texts_redacted), redacted + 1);
	redaction_comm(NULL, comm);
	assert_true(redaction_hides_text(redaction, THREAD_COMM, "123456789z", 10));
	redaction_destroy(redaction);
	redaction = rules(RULES("* exe *"));
	assert_false(redaction_hides_comm(redaction));
	assert_false(redaction_hides_text(redaction, THREAD_EXE, REDACTED_TEXT, strlen(REDACTED_TEXT)));
	assert_true(redaction_hides_text(redaction, THREAD_EXE, "/redacted]", 10));
	assert_true(redaction_hides_text(redaction, THREAD_EXE, "[redacted]x", 11));
	assert_false(redaction_hides_text(redaction, THREAD_EXE, "", 0));
	redaction_destroy(redaction);
	redaction = rules(RULES("openat filename *"));
	assert_false(redaction_hides_comm(redaction));
	assert_false(redaction_hides_text(redaction, THREAD_EXE, "/opt/x", 6));
	redaction_destroy(redaction);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_strings),
		cmocka_unit_test(test_as_many_as_there_are_fields),
		cmocka_unit_test(test_more_than_there_is_room_for),
		cmocka_unit_test(test_attachment_that_is_cut_off),
		cmocka_unit_test(test_address),
		cmocka_unit_test(test_structures),
		cmocka_unit_test(test_entries_of_a_directory),
		cmocka_unit_test(test_path_without_its_beginning),
		cmocka_unit_test(test_one_probe_s_rule_is_about_no_thread),
		cmocka_unit_test(test_what_hides_nothing_of_a_probe_is_said),
		cmocka_unit_test(test_array_in_the_words),
		cmocka_unit_test(test_array_that_is_attached),
		cmocka_unit_test(test_map_in_two_pieces),
		cmocka_unit_test(test_map_that_may_be_cut),
		cmocka_unit_test(test_threads),
		cmocka_unit_test(test_threads_that_are_known),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_any_record),
		cmocka_unit_test(test_bounds),
		cmocka_unit_test(test_names_that_may_be_cut),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
