/*
 * text_table: what the ids of a ring's RT_PROBE_TEXT records stand for.
 *
 * In: records. Out: counted references to texts, which threads keep longer than the table does: of
 * texts it holds the last RT_TEXTS_MAX that the ring was told. One drain worker owns it, and all
 * references.
 */
#ifndef RINGTAIL_DAEMON_RING_TEXT_TABLE_H
#define RINGTAIL_DAEMON_RING_TEXT_TABLE_H

#include <stdint.h>

#include "kmod/uapi/ringtail.h"
#include "proto/batch_encode.h"

struct text_table;

#define TEXT_ROOM_BYTES 16u	/* each text has at least so much */

struct text_table *text_table_create(void);
void text_table_destroy(struct text_table *table);

/*
 * Learns a text of at most RT_TEXT_BYTES_MAX. Of a list of cgroups it keeps a container's, or else
 * the first. Returns its place, below RT_TEXTS_MAX, whose earlier text goes; UINT32_MAX: there is
 * no text, or no memory.
 */
uint32_t text_table_learn(struct text_table *table, uint64_t id, const void *data, uint32_t bytes);

/* Borrowed until the next learn; NULL: not known. */
const struct batch_text *text_table_find(const struct text_table *table, uint64_t id);

/* The text in a place, and its id; NULL: there is none. */
const struct batch_text *text_table_at(const struct text_table *table, uint32_t place, uint64_t *id);

/* Another text, of at most TEXT_ROOM_BYTES, in place of one, for all who have a reference. */
void text_table_replace(struct text_table *table, const struct batch_text *text, const char *with);

/* Takes and gives back a reference; both take NULL. */
const struct batch_text *text_get(const struct batch_text *text);
void text_put(const struct batch_text *text);

#endif
