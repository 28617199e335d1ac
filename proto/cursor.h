/*
 * cursor: a place in every CPU's numbering of attempts, in one run of the rings: what is before a
 * position has been dealt with. Shared by daemon and client; plain data of one thread.
 *
 * In: positions, or a message's. Out: the same by CPU, and the message (Ringtail__V1__Cursor): only what
 * reads or writes frames knows that.
 */
#ifndef RINGTAIL_PROTO_CURSOR_H
#define RINGTAIL_PROTO_CURSOR_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/ringtail.pb-c.h"

/* A run of the rings: numbers of another run mean nothing in this one. Zeros: none. */
struct run {
	uint8_t boot_id[16];
	uint64_t epoch;
};

/* "0a1b2c3d-...", as /proc/sys/kernel/random/boot_id has it. */
#define BOOT_ID_TEXT_BYTES 37
void boot_id_print(const uint8_t id[16], char text[BOOT_ID_TEXT_BYTES]);

bool run_equal(const struct run *a, const struct run *b);

/* A message's: zeros if its boot id has another length. */
struct run run_of_message(ProtobufCBinaryData boot_id, uint64_t epoch);
bool run_is_named(const struct run *run);

struct position {
	uint32_t cpu;
	uint64_t seq;
};

struct cursor {
	struct run run;			/* zeros where it is known from elsewhere */
	uint32_t n, capacity;
	struct position position[];
};

/* Empty; NULL: out of memory. free() it. */
struct cursor *cursor_create(uint32_t capacity);

/* Of just the size it takes. */
struct cursor *cursor_copy(const struct cursor *cursor);

/* Whatever does not fit is left out. */
void cursor_assign(struct cursor *to, const struct cursor *from);

/* NULL: nothing is known of that CPU. */
struct position *cursor_find(const struct cursor *cursor, uint32_t cpu);
uint64_t cursor_seq(const struct cursor *cursor, uint32_t cpu, uint64_t unknown);

/* One of a CPU that it does not have, within its capacity. */
void cursor_append(struct cursor *cursor, uint32_t cpu, uint64_t seq);

/* False: there is no room for another CPU. */
bool cursor_put(struct cursor *cursor, uint32_t cpu, uint64_t seq);

/* The same, and makes room. -ENOMEM. */
int cursor_add(struct cursor **cursor, uint32_t cpu, uint64_t seq);

/* Of the message as much as there is room for. */
void cursor_fill(struct cursor *cursor, const Ringtail__V1__Cursor *message);

/* As it is, but no more than CURSOR_POSITIONS_MAX of it; NULL is empty. NULL: out of memory. */
struct cursor *cursor_of_message(const Ringtail__V1__Cursor *message);

/* Stands by itself: nothing of the cursor is borrowed. */
struct cursor_message {
	Ringtail__V1__Cursor cursor;
	struct run run;
	Ringtail__V1__Position **list;
	Ringtail__V1__Position position[];
};

/* NULL: out of memory. free() it. */
struct cursor_message *cursor_message_create(const struct cursor *cursor);

#endif
