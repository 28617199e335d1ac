/*
 * What a batcher passes on of a record's attachments: those that its subscription asked for, each with
 * its argument, whole; of a record that is longer than it says, what is good, and the rest is counted.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/counters.h"
#include "daemon/collect/batcher.h"
#include "proto/batch_decode.h"
#include "tests/unit/daemon/small_catalog.h"

#undef CALL				/* of the catalog's fields */

#define CALL		(RT_PROBE_SYSCALL_CALL + 257)
#define WORDS_MAX	255u
#define SHOWN_MAX	8u

/* Fields of a call: duration, result, two arguments; of a tracepoint: two. */
static const struct probe_info call_info = {.known = true, .has_duration = true, .fields = 4};
static const struct probe_info other_info = {.known = true, .fields = 2};

static uint64_t payload[WORDS_MAX];
static uint32_t words;

static struct frame_ref *sealed;

static struct shown {
	uint32_t events, attachments;
	uint64_t raw_bytes, wire_bytes;
	struct batch_attachment attachment[SHOWN_MAX];
	char text[SHOWN_MAX][RT_STRING_BYTES_MAX];
	uint64_t frame[SHOWN_MAX][RT_STACK_FRAMES_MAX];
} shown;

static bool take(void *context, uint32_t subscription, struct frame_ref *frame)
{
	(void)context, (void)subscription;
	assert_null(sealed);
	sealed = frame;
	return true;
}

static void show(const struct batch_item *item)
{
	shown.events++;
	for (size_t i = 0; i < item->attachments; i++) {
		const struct batch_attachment *one = &item->attachment[i];
		uint32_t at = shown.attachments++;

		assert_true(at < SHOWN_MAX);
		shown.attachment[at] = *one;
		if (one->text_bytes)
			memcpy(shown.text[at], one->text, one->text_bytes);
		if (one->frames)
			memcpy(shown.frame[at], one->frame, one->frames * sizeof(uint64_t));
	}
}

static void decode(struct frame_codec *codec, uint16_t probe, const struct probe_info *info)
{
	static struct batch_probe table[RT_PROBE_MAX];
	static uint8_t raw[FRAME_RAW_BYTES_MAX];
	struct batch_decoder *decoder = batch_decoder_create(table, RT_PROBE_MAX);
	struct batch_summary summary;
	struct frame_header header;
	struct batch_item item;
	const uint8_t *body;

	table[probe] = (struct batch_probe){.fields = info->fields, .known = true,
					    .has_duration = info->has_duration};
	memset(&shown, 0, sizeof(shown));
	assert_int_equal(frame_parse_header(sealed->data, sealed->bytes, sizeof(raw), &header), FRAME_OK);
	assert_int_equal(frame_open(codec, sealed->data, &header, raw, &body), FRAME_OK);
	assert_int_equal(batch_decode_open(decoder, body, header.raw_bytes, &summary), 0);
	shown.raw_bytes = header.raw_bytes;
	shown.wire_bytes = sealed->bytes;
	while (batch_decode_next(decoder, &item) == BATCH_EVENT)
		show(&item);
	assert_int_equal(item.kind, BATCH_END);
	batch_decoder_destroy(decoder);
}

/* A record begins with its fields. */
static void begin_record(const struct probe_info *info)
{
	memset(payload, 0, sizeof(payload));
	for (words = 0; words < info->fields; words++)
		payload[words] = words;
}

static void attach(uint16_t kind, uint16_t arg, const void *data, uint32_t bytes)
{
	struct rt_attachment *to = (void *)&payload[words];

	*to = (struct rt_attachment){.kind = kind, .arg = arg, .bytes = bytes};
	memcpy(to->data, data, bytes);
	words += 1 + (bytes + 7) / 8;
}

/* What comes of that record, for a subscription that asked so. Returns how much was dropped. */
static uint64_t pass_on(const struct batcher_spec *spec, uint16_t probe, const struct probe_info *info)
{
	uint64_t dropped = counter_read(COUNTER_attachments_dropped);
	struct frame_codec *codec = frame_codec_create(1);
	struct thread_table *threads = thread_table_create(16);
	struct batcher_config config = {.spec = spec, .threads = threads, .codec = codec, .sink = take};
	struct batcher *batcher = batcher_create(&config);
	struct ring_item item = {.time_ns = 1000, .tid = 9, .probe = probe, .words = words,
				 .payload = payload};

	assert_non_null(batcher);
	batcher_start(batcher, 0, 0);
	batcher_event(batcher, &item, info, THREAD_NONE);
	batcher_flush(batcher);
	assert_non_null(sealed);
	memset(&shown, 0, sizeof(shown));
	if (sealed->bytes)
		decode(codec, probe, info);
	frame_ref_put(sealed);
	sealed = NULL;
	batcher_destroy(batcher);
	thread_table_destroy(threads);
	frame_codec_destroy(codec);
	return counter_read(COUNTER_attachments_dropped) - dropped;
}

static struct batcher_spec spec_of(uint32_t flags, uint16_t probe)
{
	struct batcher_spec spec = {.flags = flags};

	probe_set_add(&spec.probes, probe);
	return spec;
}

static void strings_come_where_they_are_wanted(void **state)
{
	static const struct {
		uint32_t flags;
		bool file_strings;
		uint16_t probe;
		bool wanted;
	} cases[] = {
		{0, false, CALL, false},
		{RT_FLAG_KSTACK, false, CALL, false},
		{RT_FLAG_STRINGS, false, CALL, true},
		{0, true, CALL, true},
		{0, false, RT_PROBE_SCHED_EXEC, true},
		{0, false, RT_PROBE_PROCESS_MAP, true},
		{0, false, RT_PROBE_SCHED_EXIT, false},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		bool call = cases[i].probe == CALL;
		const struct probe_info *info = call ? &call_info : &other_info;
		struct batcher_spec spec = spec_of(cases[i].flags, cases[i].probe);

		spec.file_strings = cases[i].file_strings;
		begin_record(info);
		attach(RT_ATTACH_STRING, 1, "/etc/hosts", 10);
		assert_int_equal(pass_on(&spec, cases[i].probe, info), 0);
		assert_int_equal(shown.events, 1);
		assert_int_equal(shown.attachments, cases[i].wanted);
		if (!cases[i].wanted)
			continue;
		assert_string_equal(shown.text[0], "/etc/hosts");
		/* Behind a call's duration and result. */
		assert_int_equal(shown.attachment[0].arg, call ? 3 : 1);
	}
}

/* A structure comes with strings, but not with those of files alone; one with bytes of a buffer comes with data. */
static void structures_come_by_their_flags(void **state)
{
	static const struct {
		uint32_t flags;
		bool file_strings, has_bytes, wanted;
	} cases[] = {
		{0, false, false, false}, {RT_FLAG_STRINGS, false, false, true}, {0, true, false, false},
		{RT_FLAG_DATA, false, false, false}, {RT_FLAG_DATA, false, true, true},
		{RT_FLAG_STRINGS, true, true, false}, {RT_FLAG_FDS, false, false, false},
	};
	const uint32_t pipe[4] = {RT_STRUCTURE_INTS, 1, 3, 4};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct batcher_spec spec = spec_of(cases[i].flags, CALL);
		struct probe_info info = {.known = true, .has_duration = true, .fields = 4};

		*(cases[i].has_bytes ? &info.data_fields : &info.structure_fields) = 1u << 3;
		spec.file_strings = cases[i].file_strings;
		begin_record(&info);
		attach(RT_ATTACH_STRUCTURE, 1, pipe, sizeof(pipe));
		assert_int_equal(pass_on(&spec, CALL, &info), 0);
		assert_int_equal(shown.attachments, cases[i].wanted);
		if (cases[i].wanted)
			assert_string_equal(shown.text[0], "[3, 4]");
	}
}

/*
 * A made probe's own texts are in its record, and come always. What an argument of the kernel's functions points to
 * was read because somebody asked for strings, and comes to them alone.
 */
static void texts_of_made_probes_come_always_but_for_those_asked_for(void **state)
{
	static const struct {
		uint32_t flags;
		bool file_strings, is_pointed, wanted;
	} cases[] = {
		{0, false, false, true}, {RT_FLAG_STRINGS, false, false, true}, {0, false, true, false},
		{RT_FLAG_STRINGS, false, true, true}, {0, true, true, false}, {RT_FLAG_DATA, false, true, false},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct batcher_spec spec = spec_of(cases[i].flags, RT_PROBE_MADE);
		struct probe_info info = {.known = true, .fields = 2};

		info.string_fields = cases[i].is_pointed ? 1u << 1 : 0;
		spec.file_strings = cases[i].file_strings;
		begin_record(&info);
		attach(RT_ATTACH_STRING, 1, "secret", 7);
		assert_int_equal(pass_on(&spec, RT_PROBE_MADE, &info), 0);
		assert_int_equal(shown.attachments, cases[i].wanted);
	}
}

/* Each is padded to whole words; the last one ends where its record does. */
static void every_attachment_of_a_record_comes(void **state)
{
	struct batcher_spec spec = spec_of(RT_FLAG_STRINGS, CALL);
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(80),
				      .sin_addr.s_addr = htonl(0x7f000001)};

	(void)state;
	begin_record(&call_info);
	attach(RT_ATTACH_STRING, 0, "abcde", 5);
	attach(RT_ATTACH_SOCKADDR, 1, &address, sizeof(address));
	attach(RT_ATTACH_STRING, 1, "12345678", 8);
	assert_int_equal(pass_on(&spec, CALL, &call_info), 0);
	assert_int_equal(shown.attachments, 3);
	assert_string_equal(shown.text[0], "abcde");
	assert_string_equal(shown.text[1], "127.0.0.1:80");
	assert_string_equal(shown.text[2], "12345678");
	assert_int_equal(shown.attachment[2].arg, 3);
}

static void what_is_longer_than_its_record_is_dropped_and_counted(void **state)
{
	struct batcher_spec spec = spec_of(RT_FLAG_STRINGS, CALL);
	struct rt_attachment *last;

	(void)state;
	begin_record(&call_info);
	attach(RT_ATTACH_STRING, 0, "good", 4);
	last = (void *)&payload[words];
	attach(RT_ATTACH_STRING, 1, "12345678", 8);
	last->bytes = 9;
	assert_int_equal(pass_on(&spec, CALL, &call_info), 1);
	assert_int_equal(shown.events, 1);
	assert_int_equal(shown.attachments, 1);
	assert_string_equal(shown.text[0], "good");
	/* Of no kind that anybody knows. */
	begin_record(&call_info);
	attach(99, 1, "12345678", 8);
	assert_int_equal(pass_on(&spec, CALL, &call_info), 1);
	assert_int_equal(shown.events, 1);
	assert_int_equal(shown.attachments, 0);
}

/* A stack is copied at full depth: what the walk did not fill is no frame; and one flag is not the other. */
static void stacks_come_by_their_flags_without_what_was_not_filled(void **state)
{
	const uint64_t kernel[RT_STACK_FRAMES_MAX] = {0xfff1, 0xfff2, 0xfff3}, user[4] = {0x41, 0, 0x43};

	(void)state;
	for (uint32_t flags = 0; flags <= (RT_FLAG_KSTACK | RT_FLAG_USTACK); flags++) {
		struct batcher_spec spec = spec_of(flags, CALL);
		bool both = flags == (RT_FLAG_KSTACK | RT_FLAG_USTACK);

		begin_record(&call_info);
		attach(RT_ATTACH_KSTACK, 0, kernel, sizeof(kernel));
		attach(RT_ATTACH_USTACK, 0, user, sizeof(user));
		assert_int_equal(pass_on(&spec, CALL, &call_info), 0);
		assert_int_equal(shown.attachments, (flags & RT_FLAG_KSTACK ? 1 : 0) + (flags & RT_FLAG_USTACK ? 1 : 0));
		if (flags & RT_FLAG_KSTACK) {
			assert_int_equal(shown.attachment[0].kind, RINGTAIL__V1__ATTACHMENT_KIND__ATTACH_KSTACK);
			assert_int_equal(shown.attachment[0].frames, 3);
			assert_memory_equal(shown.frame[0], kernel, 3 * sizeof(uint64_t));
		}
		if (flags & RT_FLAG_USTACK) {
			assert_int_equal(shown.attachment[both].kind, RINGTAIL__V1__ATTACHMENT_KIND__ATTACH_USTACK);
			assert_int_equal(shown.attachment[both].frames, 3);
			assert_memory_equal(shown.frame[both], user, 3 * sizeof(uint64_t));
		}
	}
}

/* Without its maps, a stack that did pass says nothing. */
static void maps_pass_whatever_the_filter_says(void **state)
{
	struct batcher_spec spec = spec_of(0, RT_PROBE_PROCESS_MAP);
	Ringtail__V1__Catalog none = RINGTAIL__V1__CATALOG__INIT;
	struct filter *filter;
	struct error error;

	(void)state;
	probe_set_add(&spec.probes, RT_PROBE_SCHED_EXEC);
	assert_int_equal(filter_compile("tid == 8", &none, &filter, &error), 0);
	spec.filter = filter;
	begin_record(&other_info);
	pass_on(&spec, RT_PROBE_SCHED_EXEC, &other_info);
	assert_int_equal(shown.events, 0);
	pass_on(&spec, RT_PROBE_PROCESS_MAP, &other_info);
	assert_int_equal(shown.events, 1);
	filter_destroy(filter);
}

/* What a call returned is its second field, whatever arguments it has. */
static void what_was_returned_has_its_own_place(void **state)
{
	struct batcher_spec spec = spec_of(RT_FLAG_STRINGS, CALL);

	(void)state;
	begin_record(&call_info);
	attach(RT_ATTACH_STRING, RT_ATTACH_RESULT, "/etc/hosts", 10);
	assert_int_equal(pass_on(&spec, CALL, &call_info), 0);
	assert_int_equal(shown.attachment[0].arg, 1);
}

/* A buffer of getdents64(): as a list, of what came as a list; what was hidden, and what is no directory's, as it is. */
static void entries_of_a_directory_are_a_list(void **state)
{
	const struct probe_info info = {.known = true, .has_duration = true, .fields = 4, .data_fields = 1u << 3,
					.dirent_fields = 1u << 3};
	struct batcher_spec spec = spec_of(RT_FLAG_DATA, CALL);
	static const char list[] = "[{d_type=DT_DIR, d_name=\".\"}, ...]";
	uint8_t entry[48] = {[0] = '[', [16] = 24, [18] = 4, [19] = '.', [40] = 24};

	(void)state;
	begin_record(&info);
	payload[1] = 800;
	attach(RT_ATTACH_DATA, 1, entry, sizeof(entry) - 24 + 2);
	attach(RT_ATTACH_DATA, 0, entry, 24);
	assert_int_equal(pass_on(&spec, CALL, &info), 0);
	assert_int_equal(shown.attachments, 1);
	assert_int_equal(shown.attachment[0].arg, 3);
	assert_int_equal(shown.attachment[0].text_bytes, strlen(list));
	assert_memory_equal(shown.text[0], list, strlen(list));
	begin_record(&info);
	payload[1] = 800;
	attach(RT_ATTACH_DATA, 1, "[redacted]", 10);
	assert_int_equal(pass_on(&spec, CALL, &info), 0);
	assert_memory_equal(shown.text[0], "[redacted]", 10);
}

/* Deeper than a stack may be: its first frames come. */
static void stack_that_is_too_deep_is_cut(void **state)
{
	struct batcher_spec spec = spec_of(RT_FLAG_KSTACK, CALL);
	uint64_t deep[RT_STACK_FRAMES_MAX + 8];

	(void)state;
	for (unsigned i = 0; i < RT_STACK_FRAMES_MAX + 8; i++)
		deep[i] = 0xf000 + i;
	begin_record(&call_info);
	attach(RT_ATTACH_KSTACK, 0, deep, sizeof(deep));
	assert_int_equal(pass_on(&spec, CALL, &call_info), 0);
	assert_int_equal(shown.attachment[0].frames, RT_STACK_FRAMES_MAX);
	assert_memory_equal(shown.frame[0], deep, RT_STACK_FRAMES_MAX * sizeof(uint64_t));
}

/* What it makes of a batch is counted: one, and its bytes before and behind compression. */
static void batches_are_counted_with_their_bytes(void **state)
{
	uint64_t batches = counter_read(COUNTER_batches), raw = counter_read(COUNTER_batch_raw_bytes),
		 wire = counter_read(COUNTER_batch_wire_bytes);
	struct batcher_spec spec = spec_of(RT_FLAG_STRINGS, CALL);

	(void)state;
	begin_record(&call_info);
	attach(RT_ATTACH_STRING, 0, "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", 78);
	pass_on(&spec, CALL, &call_info);
	assert_int_equal(counter_read(COUNTER_batches), batches + 1);
	assert_int_equal(counter_read(COUNTER_batch_raw_bytes) - raw, shown.raw_bytes);
	assert_int_equal(counter_read(COUNTER_batch_wire_bytes) - wire, shown.wire_bytes);
	assert_true(shown.raw_bytes > 0 && shown.wire_bytes <= shown.raw_bytes + FRAME_HEADER_BYTES);
}

/* A filter that asks for texts: which of them each record has, and what is made of those that have none. */
static void filters_ask_for_what_is_attached(void **state)
{
	static const struct {
		const char *filter;
		uint16_t kind;			/* what stands before the text of `filename`; 0: nothing */
		const char *text;		/* NULL: it has none */
		bool passes, undecided;
	} cases[] = {
		{"filename =~ \"/etc/*\"", 0, "/etc/hosts", true, false},
		{"filename =~ \"/etc/*\"", 0, "/usr/hosts", false, false},
		{"filename =~ \"/etc/*\"", 0, NULL, true, true},
		{"filename =~ \"/etc/*\" && ret > 9", 0, NULL, false, false},
		{"filename =~ \"/etc/*\"", RT_ATTACH_SOCKADDR, "/etc/hosts", true, false},
		{"filename =~ \"/etc/*\"", RT_ATTACH_SOCKADDR, "/usr/hosts", false, false},
		{"filename =~ \"/etc/*\"", RT_ATTACH_KSTACK, "/usr/hosts", false, false},
		{"filename =~ \"/etc/*\"", RT_ATTACH_KSTACK, "/etc/hosts", true, false},
		{"filename =~ \"/etc/*\"", RT_ATTACH_STRING, "/usr/hosts", false, false},
	};
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(80)};
	const struct probe_info info = {.known = true, .has_duration = true, .fields = 6};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint64_t undecided = counter_read(COUNTER_filter_undecided);
		struct batcher_spec spec = spec_of(RT_FLAG_STRINGS, CALL);
		struct filter *filter;
		struct error error;

		assert_int_equal(filter_compile(cases[i].filter, small_catalog_get(), &filter, &error), 0);
		spec.filter = filter;
		begin_record(&info);
		if (cases[i].kind)
			attach(cases[i].kind, cases[i].kind == RT_ATTACH_KSTACK, &address, sizeof(address));
		if (cases[i].text)
			attach(RT_ATTACH_STRING, 1, cases[i].text, (uint32_t)strlen(cases[i].text));
		pass_on(&spec, CALL, &info);
		assert_int_equal(shown.events, cases[i].passes);
		assert_int_equal(counter_read(COUNTER_filter_undecided) - undecided, cases[i].undecided);
		filter_destroy(filter);
	}
}

/* An argument that no probe has is no field of it, whatever its number would come round to. */
static void fields_that_are_not_there(void **state)
{
	const struct batcher_spec spec = {.flags = 0};
	const struct probe_info info = {.fields = 3, .string_fields = 1, .structure_fields = 1};

	(void)state;
	assert_false(batcher_wants_text(&spec, RT_PROBE_MADE, &info, 0));
	assert_true(batcher_wants_text(&spec, RT_PROBE_MADE, &info, 31));
	assert_true(batcher_wants_text(&spec, RT_PROBE_MADE, &info, 32));
	assert_true(batcher_wants_text(&spec, RT_PROBE_MADE, &info, 64));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(strings_come_where_they_are_wanted),
		cmocka_unit_test(structures_come_by_their_flags),
		cmocka_unit_test(texts_of_made_probes_come_always_but_for_those_asked_for),
		cmocka_unit_test(every_attachment_of_a_record_comes),
		cmocka_unit_test(what_is_longer_than_its_record_is_dropped_and_counted),
		cmocka_unit_test(stacks_come_by_their_flags_without_what_was_not_filled),
		cmocka_unit_test(maps_pass_whatever_the_filter_says),
		cmocka_unit_test(what_was_returned_has_its_own_place),
		cmocka_unit_test(entries_of_a_directory_are_a_list),
		cmocka_unit_test(stack_that_is_too_deep_is_cut),
		cmocka_unit_test(batches_are_counted_with_their_bytes),
		cmocka_unit_test(filters_ask_for_what_is_attached),
		cmocka_unit_test(fields_that_are_not_there),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
