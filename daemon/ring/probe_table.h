/*
 * probe_table: what decoding a record of each probe id takes, from the catalog. Shared by all threads: a row
 * does not change once it is known, and is added before the kernel can write a record of it.
 */
#ifndef RINGTAIL_DAEMON_RING_PROBE_TABLE_H
#define RINGTAIL_DAEMON_RING_PROBE_TABLE_H

#include <stdbool.h>
#include <stdint.h>

#include "query/error.h"
#include "kmod/uapi/ringtail.h"
#include "proto/limits.h"
#include "proto/ringtail.pb-c.h"

#define PROBE_THREAD_FIELDS_MAX 2

_Static_assert(PROBE_FIELDS_MAX <= 32, "there is a bit for each field");

struct probe_info {
	_Atomic bool known;		/* written last, read first */
	bool has_duration;		/* field 0 */
	uint8_t fields;
	uint8_t thread_fields;
	uint8_t thread_field[PROBE_THREAD_FIELDS_MAX]; /* those that hold a tid */
	uint32_t file_fields;		/* a bit for each that holds a file descriptor, */
	uint32_t data_fields;		/* for each that is the address of a buffer, */
	uint32_t structure_fields;	/* for each that is the address of something else, */
	uint32_t string_fields;		/* and for each that is the address of a string */
	uint32_t dirent_fields;		/* of data_fields, those that hold entries of a directory, */
	uint32_t old_dirent_fields;	/* and of these, as getdents() has them */
};

struct probe_table {
	struct probe_info probe[RT_PROBE_MAX];
};

/* What the text of a field takes to be asked for: RT_FLAG_FDS, DATA or STRINGS. */
static inline uint32_t probe_text_flag(const struct probe_info *info, uint32_t field)
{
	if (field < 32 && info->file_fields >> field & 1)
		return RT_FLAG_FDS;
	return field < 32 && info->data_fields >> field & 1 ? RT_FLAG_DATA : RT_FLAG_STRINGS;
}

/* -EPROTO if the catalog names an id, or fields, out of bounds. */
int probe_table_init(struct probe_table *table, const Ringtail__V1__Catalog *catalog,
		     struct error *error);

/* One probe more, by the main thread, while others read. */
int probe_table_add(struct probe_table *table, const Ringtail__V1__Probe *probe,
		    struct error *error);

#endif
