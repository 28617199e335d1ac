/*
 * fuzz_message: arbitrary bytes as each message of the proto. What passes the look before it is unpacked
 * costs no more allocations than it has bytes, and passes again when it is packed anew.
 *
 * The first byte chooses the message.
 */
#include <stdlib.h>

#include "proto/limits.h"
#include "proto/message.h"
#include "proto/ringtail.pb-c.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static size_t allocations;

static void *count_alloc(void *context, size_t bytes)
{
	(void)context;
	allocations++;
	return malloc(bytes);
}

static void count_free(void *context, void *memory)
{
	(void)context;
	free(memory);
}

static void check_packed(const ProtobufCMessage *message)
{
	size_t bytes = protobuf_c_message_get_packed_size(message);
	uint8_t *packed = malloc(bytes + 1);

	if (!packed)
		abort();
	protobuf_c_message_pack(message, packed);
	if (message_check(message->descriptor, packed, bytes, REQUEST_ELEMENTS_MAX, NULL) !=
	    MESSAGE_GOOD)
		abort();
	free(packed);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const ProtobufCMessageDescriptor *const kinds[] = {
		&ringtail__v1__client_hello__descriptor, &ringtail__v1__server_hello__descriptor,
		&ringtail__v1__error__descriptor, &ringtail__v1__catalog__descriptor,
		&ringtail__v1__list_request__descriptor, &ringtail__v1__subscribe__descriptor,
		&ringtail__v1__subscribed__descriptor, &ringtail__v1__ack__descriptor,
		&ringtail__v1__forget__descriptor, &ringtail__v1__probes__descriptor,
		&ringtail__v1__change__descriptor, &ringtail__v1__watermark__descriptor,
		&ringtail__v1__gap__descriptor, &ringtail__v1__bye__descriptor,
		&ringtail__v1__segment_head__descriptor, &ringtail__v1__segment_end__descriptor,
		&ringtail__v1__stat_request__descriptor, &ringtail__v1__stat__descriptor,
		&ringtail__v1__batch__descriptor,
	};
	ProtobufCAllocator allocator = {count_alloc, count_free, NULL};
	ProtobufCMessage *message;

	if (!size)
		return 0;
	allocations = 0;
	if (message_check(kinds[*data % (sizeof(kinds) / sizeof(*kinds))], data + 1, size - 1,
			  REQUEST_ELEMENTS_MAX, NULL) != MESSAGE_GOOD)
		return 0;
	message = message_unpack_checked(kinds[*data % (sizeof(kinds) / sizeof(*kinds))],
					 &allocator, data + 1, size - 1);
	if (allocations > size + 16)
		abort();
	if (!message)
		return 0;
	check_packed(message);
	protobuf_c_message_free_unpacked(message, &allocator);
	return 0;
}
