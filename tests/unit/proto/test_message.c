/*
 * test_message: what is refused before a byte of it is unpacked, what passes, and that neither costs more
 * than its length: counted in allocations, and not in time.
 */
#include "proto/message.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "proto/limits.h"
#include "proto/ringtail.pb-c.h"
#include "proto/wire.h"

#define BYTES_MAX (1u << 16)

/* ---- Messages made by hand ------------------------------------------------------------------- */

struct text {
	uint8_t bytes[BYTES_MAX];
	uint8_t *end;
};

static struct text made;

static struct text *begin(void)
{
	made.end = made.bytes;
	return &made;
}

static void put_number(uint32_t field, uint64_t value)
{
	made.end = wire_put(wire_put_tag(made.end, field, WIRE_VARINT), value);
}

static void put_bytes(uint32_t field, const void *bytes, size_t n)
{
	made.end = wire_put(wire_put_tag(made.end, field, WIRE_BYTES), n);
	memcpy(made.end, bytes, n);
	made.end += n;
}

static size_t allocations, allocated;	/* how often, and how many bytes */

static void *count_alloc(void *context, size_t bytes)
{
	(void)context;
	allocations++;
	allocated += bytes;
	return malloc(bytes);
}

static void count_free(void *context, void *memory)
{
	(void)context;
	free(memory);
}

static ProtobufCAllocator counting = {count_alloc, count_free, NULL};

static enum message_fault check(const ProtobufCMessageDescriptor *descriptor,
				struct message_place *place)
{
	return message_check(descriptor, made.bytes, (size_t)(made.end - made.bytes),
			     MESSAGE_ELEMENTS_MAX, place);
}

/* Refused for that, at that field, and nothing is allocated for it. */
static void expect(const ProtobufCMessageDescriptor *descriptor, enum message_fault fault,
		   const char *message, const char *field)
{
	struct message_place place;

	assert_int_equal(check(descriptor, &place), fault);
	assert_string_equal(place.message, message);
	assert_string_equal(place.field ? place.field : "", field);
	assert_true(*message_fault_code(fault) && *message_fault_text(fault));
	allocations = 0;
	assert_null(message_unpack(descriptor, &counting, made.bytes,
				   (size_t)(made.end - made.bytes)));
	assert_int_equal(allocations, 0);
}

static void expect_good(const ProtobufCMessageDescriptor *descriptor)
{
	void *message;

	assert_int_equal(check(descriptor, NULL), MESSAGE_GOOD);
	message = message_unpack(descriptor, NULL, made.bytes, (size_t)(made.end - made.bytes));
	assert_non_null(message);
	protobuf_c_message_free_unpacked(message, NULL);
}

#define SUBSCRIBE (&ringtail__v1__subscribe__descriptor)

/* ---- What is refused ------------------------------------------------------------------------- */

/* A Subscribe whose cursor comes so often, each time with a position. */
static void put_cursors(unsigned times)
{
	static const uint8_t cursor[] = {3 << 3 | WIRE_BYTES, 2, 1 << 3, 5};

	begin();
	for (unsigned i = 0; i < times; i++)
		put_bytes(4, cursor, sizeof(cursor));
}

/* What protobuf-c allocates for it, unasked: at each merge, an array of all the positions so far. */
static size_t unchecked_bytes(unsigned times)
{
	void *message;

	put_cursors(times);
	allocated = 0;
	message = message_unpack_checked(SUBSCRIBE, &counting, made.bytes,
					 (size_t)(made.end - made.bytes));
	assert_non_null(message);
	protobuf_c_message_free_unpacked(message, &counting);
	return allocated;
}

static void repeated_singular_field(void **state)
{
	(void)state;
	/* The condition itself: twice as many cost nearly four times as much. */
	assert_true(unchecked_bytes(2000) > 3 * unchecked_bytes(1000));
	put_cursors(1);
	expect_good(SUBSCRIBE);
	for (unsigned times = 2; times < 4000; times *= 2) {
		put_cursors(times);
		expect(SUBSCRIBE, MESSAGE_REPEATED, "Subscribe", "since");
	}
	/* Also inside, of text, of bytes and of numbers. */
	begin();
	put_bytes(1, "\x10\x01\x10\x02", 4);
	expect(&ringtail__v1__ack__descriptor, MESSAGE_REPEATED, "Cursor", "epoch");
	begin();
	put_bytes(1, "\x0a\x00\x0a\x00", 4);
	expect(&ringtail__v1__ack__descriptor, MESSAGE_REPEATED, "Cursor", "boot_id");
	begin();
	put_bytes(2, "a", 1), put_bytes(2, "b", 1);
	expect(SUBSCRIBE, MESSAGE_REPEATED, "Subscribe", "filter");
	begin();
	put_number(6, 1), put_number(6, 1);
	expect(SUBSCRIBE, MESSAGE_REPEATED, "Subscribe", "since_realtime_ns");
	/* What may come again, may. */
	begin();
	put_bytes(1, "a", 1), put_bytes(1, "b", 1), put_number(3, 1), put_bytes(3, "\1\2", 2);
	expect_good(SUBSCRIBE);
}

static void wrong_wire_types(void **state)
{
	(void)state;
	begin();
	put_number(4, 1);
	expect(SUBSCRIBE, MESSAGE_WRONG_TYPE, "Subscribe", "since");
	begin();
	put_number(1, 1);
	expect(SUBSCRIBE, MESSAGE_WRONG_TYPE, "Subscribe", "probe");
	begin();
	put_bytes(6, "\1", 1);
	expect(SUBSCRIBE, MESSAGE_WRONG_TYPE, "Subscribe", "since_realtime_ns");
	begin();
	*made.end++ = 3 << 3 | WIRE_FIXED32;
	memset(made.end, 0, 4), made.end += 4;
	expect(SUBSCRIBE, MESSAGE_WRONG_TYPE, "Subscribe", "flag");
	begin();
	put_bytes(2, "a\0b", 3);
	expect(SUBSCRIBE, MESSAGE_NUL, "Subscribe", "filter");
}

/* Groups, known and not; tags of nothing; ends in the middle. */
static void not_messages(void **state)
{
	static const uint8_t bad[][4] = {
		{4 << 3 | 3, 4 << 3 | 4}, {15 << 3 | 3}, {0}, {4 << 3 | 2, 9},
		{4 << 3}, {4 << 3 | 7}, {4 << 3 | 6},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		begin();
		memcpy(made.end, bad[i], 2), made.end += bad[i][1] ? 2 : 1;
		expect(SUBSCRIBE, MESSAGE_BAD, "Subscribe", "");
	}
}

static void too_many_elements(void **state)
{
	struct message_place place;
	uint8_t ones[300];

	(void)state;
	begin();
	for (unsigned i = 0; i < REQUEST_ELEMENTS_MAX; i++)
		put_bytes(1, "", 0);
	assert_int_equal(message_check(SUBSCRIBE, made.bytes, (size_t)(made.end - made.bytes),
				       REQUEST_ELEMENTS_MAX, &place), MESSAGE_GOOD);
	put_number(99, 1);		/* one that nobody knows counts, too */
	assert_int_equal(message_check(SUBSCRIBE, made.bytes, (size_t)(made.end - made.bytes),
				       REQUEST_ELEMENTS_MAX, &place), MESSAGE_TOO_MANY);
	assert_string_equal(place.message, "Subscribe");
	/* Packed, each number. */
	begin();
	memset(ones, 1, sizeof(ones));
	put_bytes(3, ones, sizeof(ones));
	assert_int_equal(message_check(SUBSCRIBE, made.bytes, (size_t)(made.end - made.bytes), 300,
				       NULL), MESSAGE_GOOD);
	assert_int_equal(message_check(SUBSCRIBE, made.bytes, (size_t)(made.end - made.bytes), 299,
				       &place), MESSAGE_TOO_MANY);
	assert_string_equal(place.field, "flag");
}

/* A type that holds itself, as none of ours does. */
static const ProtobufCFieldDescriptor self_fields[] = {
	{.name = "self", .id = 1, .label = PROTOBUF_C_LABEL_NONE, .type = PROTOBUF_C_TYPE_MESSAGE,
	 .offset = sizeof(ProtobufCMessage)},
};
static const ProtobufCIntRange self_ranges[] = {{1, 0}, {0, 1}};
static ProtobufCMessageDescriptor self = {
	.magic = PROTOBUF_C__MESSAGE_DESCRIPTOR_MAGIC, .name = "Self", .short_name = "Self",
	.sizeof_message = sizeof(ProtobufCMessage) + sizeof(void *), .n_fields = 1,
	.n_field_ranges = 1, .field_ranges = self_ranges,
};

static void too_deep(void **state)
{
	ProtobufCFieldDescriptor field = self_fields[0];
	struct message_place place;
	uint8_t nested[2 * MESSAGE_DEPTH_MAX];

	(void)state;
	field.descriptor = &self;
	self.fields = &field;
	for (unsigned i = 0; i < MESSAGE_DEPTH_MAX; i++) {
		nested[2 * i] = 1 << 3 | WIRE_BYTES;
		nested[2 * i + 1] = (uint8_t)(sizeof(nested) - 2 * i - 2);
	}
	/* That one, and so many inside. */
	assert_int_equal(message_check(&self, nested, sizeof(nested), 9, &place), MESSAGE_TOO_DEEP);
	nested[2 * MESSAGE_DEPTH_MAX - 4 + 1] = 0;
	assert_int_equal(message_check(&self, nested + 2, sizeof(nested) - 4, 9, NULL), MESSAGE_BAD);
	for (unsigned i = 1; i < MESSAGE_DEPTH_MAX; i++)
		nested[2 * i + 1] = (uint8_t)(sizeof(nested) - 2 * i - 2);
	assert_int_equal(message_check(&self, nested + 2, sizeof(nested) - 2, 9, NULL), MESSAGE_GOOD);
}

/* ---- What passes ----------------------------------------------------------------------------- */

/* A request without a field: nothing of it is in the frame, so its bytes may be nowhere (clang's UBSan knows). */
static void no_bytes_at_all_are_a_message(void **state)
{
	struct message_place place;

	(void)state;
	assert_int_equal(message_check(SUBSCRIBE, NULL, 0, 0, &place), MESSAGE_GOOD);
}

/* What protobuf-c packs. */
static void all_that_is_packed_passes(void **state)
{
	Ringtail__V1__Stat stat = RINGTAIL__V1__STAT__INIT;
	Ringtail__V1__LossCount loss = RINGTAIL__V1__LOSS_COUNT__INIT, *losses[40];
	Ringtail__V1__RingStat ring = RINGTAIL__V1__RING_STAT__INIT, *rings[40];

	(void)state;
	loss.count = UINT64_MAX;
	loss.reason = RINGTAIL__V1__LOSS_REASON__REASON_DISK;
	ring.residual = -1;
	ring.lost = losses;
	ring.n_lost = 40;
	for (unsigned i = 0; i < 40; i++)
		losses[i] = &loss, rings[i] = &ring;
	stat.ring = rings;
	stat.n_ring = 40;
	stat.source = (char *)"\xc3\xa4";
	begin();
	assert_true(protobuf_c_message_get_packed_size(&stat.base) < BYTES_MAX);
	made.end += protobuf_c_message_pack(&stat.base, made.bytes);
	expect_good(&ringtail__v1__stat__descriptor);
	begin();
	expect_good(&ringtail__v1__stat__descriptor);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(repeated_singular_field),
		cmocka_unit_test(wrong_wire_types),
		cmocka_unit_test(not_messages),
		cmocka_unit_test(too_many_elements),
		cmocka_unit_test(too_deep),
		cmocka_unit_test(no_bytes_at_all_are_a_message),
		cmocka_unit_test(all_that_is_packed_passes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
