/*
 * file_probe: where in a program's or library's file a uprobe or a USDT probe lies, and what it records.
 *
 * In: an open ELF file, which anybody may have written, and a name. Out: sites: places in the file, and where
 * the words of a record come from. Everything of the file is read in pieces and checked. This runs in a process
 * that can do nothing else (finder.h). Pure, but for reading the file.
 */
#ifndef RINGTAIL_DAEMON_SOURCE_FILE_PROBE_H
#define RINGTAIL_DAEMON_SOURCE_FILE_PROBE_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/source/tracepoint_probe.h"
#include "query/error.h"

#define FILE_SITES_MAX	64	/* of one USDT probe: each place in the code where the compiler put it */
#define FILE_ARGS_MAX	12	/* of a USDT probe: what sys/sdt.h has */

/* Kinds of what lies in a file. */
enum file_probe_kind {
	FILE_FUNCTION,		/* a symbol, or a symbol and an offset: "malloc+4" */
	FILE_MARK,		/* a USDT probe: "provider:name" */
	FILE_PROBE_KINDS
};

/* One place in the code. An argument that cannot be recorded (a floating point register) has 0 bytes. */
struct file_site {
	uint64_t offset;		/* in the file */
	uint64_t semaphore;		/* in the file; 0: none */
	uint32_t args;
	uint32_t zero0;
	struct tracepoint_word arg[FILE_ARGS_MAX];
};

struct file_sites {
	uint32_t count;
	uint32_t zero0;
	struct file_site site[FILE_SITES_MAX];
};

/* -ENOENT with *error: the file has none of that name; or whatever else is the reason why not. */
int file_probe_find(int fd, enum file_probe_kind kind, const char *name, struct file_sites *sites,
		    struct error *error);

/*
 * Writes the names of the file that match a glob, "name\0" each, to `out`, and no more than `names_max` of them.
 * Returns how many there are; -errno with *error.
 */
int file_probe_list(int fd, enum file_probe_kind kind, const char *glob, unsigned names_max, int out,
		    struct error *error);

/* Whether sites that another process found may be used: bounds, alignment, sizes. */
bool file_sites_fit(const struct file_sites *sites);

#endif
