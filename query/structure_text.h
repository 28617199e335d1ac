/*
 * structure_text: a structure that a system call is given or fills in, as text, as strace has it. The bytes are user
 * space's, and may be anything. Pure; any thread.
 *
 *	{tv_sec=1, tv_nsec=500}  [{...}, {...}]			times
 *	left {tv_sec=0, tv_nsec=12}				what a poll has left of the time it was given
 *	{st_mode=S_IFREG|0644, st_size=12, st_uid=0, ...}	what stat and statx find; `...`: as strace without -v
 *	[{fd=3, events=POLLIN, revents=POLLIN}]			poll; epoll: [{events=EPOLLIN, data={u32=3, u64=3}}]
 *	[3 5]							descriptors of select
 *	[INT CHLD]  ~[KILL STOP]  []				signals: ~ where most of them are set
 *	[{d_type=DT_DIR, d_name="."}, ...]			entries of a directory
 *	["ls", "-l"]  ["ls", "-l"...]				strings of an exec, and: there are more
 *	[{iov_base="abc", iov_len=3}, {iov_base=0x7f.., iov_len=4096}]	vectors, with the first one's first bytes
 *
 * A text that finds no room ends with `...`.
 */
#ifndef RINGTAIL_QUERY_STRUCTURE_TEXT_H
#define RINGTAIL_QUERY_STRUCTURE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kmod/uapi/ringtail.h"

#define STRUCTURE_TEXT_BYTES	128u	/* with a zero: readers take a text of that length for one that was cut */

struct structure_text {
	char at[STRUCTURE_TEXT_BYTES];
	size_t bytes;
	bool cut;		/* there is more than there was room for, in the record or here */
};

/* bytes: with the head. Empty if they are no structure that is known. */
void structure_text_of(struct structure_text *text, const void *structure, size_t bytes);

/*
 * Entries of a directory, as getdents64() fills them into its buffer (`old`: getdents()), of which only these first bytes
 * are there: `[{d_type=DT_DIR, d_name="."}, ...]`, those that are whole and find room; of the first, if need be, a part.
 * Empty if they are no entries.
 */
void structure_dirents_of(struct structure_text *text, const void *entries, size_t bytes, size_t whole, bool old);

/* What somebody else wrote inside of it: strings and buffers. */
struct structure_string {
	const char *at;
	size_t bytes;
	bool cut;
};

/* The one with that number, from 0; false: there is none. */
bool structure_string_of(const void *structure, size_t bytes, unsigned number, struct structure_string *string);

/* The name of the entry with that number, or what is there of it; false: there is none. */
bool structure_dirent_name(const void *entries, size_t bytes, unsigned number, bool old, struct structure_string *name);

/* How many bytes one has; 0: of a kind that has no length of its own. */
uint32_t structure_bytes_of(uint32_t kind);

#endif
