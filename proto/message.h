/*
 * message: a protobuf message from bytes of somebody else. This is the one place that unpacks.
 *
 * Proto3 allows a field that is not repeated to come again and again, and protobuf-c merges what it has
 * with what comes, copy by copy: a few bytes cost work that grows with their square. No sender of ours
 * packs such a message. So bytes are looked over first, in one pass and without memory, and refused if a
 * field comes twice that may come once, is of another wire type than its own, is a group, or holds a NUL
 * where text belongs; and beyond MESSAGE_DEPTH_MAX and so many elements in all. Fields that this side does
 * not know pass, and count as elements. Any thread.
 */
#ifndef RINGTAIL_PROTO_MESSAGE_H
#define RINGTAIL_PROTO_MESSAGE_H

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum message_fault {
	MESSAGE_GOOD,
	MESSAGE_BAD,		/* not a message: cut short, a group, a bad tag */
	MESSAGE_REPEATED,	/* a field that may come once comes twice */
	MESSAGE_WRONG_TYPE,
	MESSAGE_NUL,		/* in text */
	MESSAGE_TOO_DEEP,
	MESSAGE_TOO_MANY,	/* elements, and fields that are not known */
};

/* Where it is: names of the proto's; NULL: not in a field that is known. */
struct message_place {
	const char *message, *field;
};

/* At most `elements_max` of repeated and unknown fields in all of it. `place` may be NULL. */
enum message_fault message_check(const ProtobufCMessageDescriptor *descriptor, const uint8_t *bytes,
				 size_t n, uint32_t elements_max, struct message_place *place);

/* For errors: the stable code, and what is wrong: "comes twice". */
const char *message_fault_code(enum message_fault fault);
const char *message_fault_text(enum message_fault fault);

/*
 * NULL: it does not pass message_check() with MESSAGE_ELEMENTS_MAX, is no such message, or there is no
 * memory. allocator NULL: malloc. Free it with protobuf_c_message_free_unpacked().
 */
void *message_unpack(const ProtobufCMessageDescriptor *descriptor, ProtobufCAllocator *allocator,
		     const uint8_t *bytes, size_t n);

/* The same of what was checked already, with less elements. */
void *message_unpack_checked(const ProtobufCMessageDescriptor *descriptor,
			     ProtobufCAllocator *allocator, const uint8_t *bytes, size_t n);

#endif
