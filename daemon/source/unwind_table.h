/*
 * unwind_table: what .eh_frame of an ELF file says of the frames of its code, compiled to rows that a BPF program
 * searches (kmod/bpf/unwind.bpf.h).
 *
 * In: an open ELF file of x86-64, which anybody may have written. Out: rows, in the order of their places in the file.
 * It runs in a process that can do nothing else (finder.h). Pure, but for reading the file.
 */
#ifndef RINGTAIL_DAEMON_SOURCE_UNWIND_TABLE_H
#define RINGTAIL_DAEMON_SOURCE_UNWIND_TABLE_H

#include <stddef.h>
#include <stdint.h>

#include "kmod/bpf/request.h"
#include "query/elf_symbols.h"

struct unwind_table {
	uint8_t build_id[BUILD_ID_BYTES];	/* zeros: the file has none */
	struct unwind_row *row;
	size_t rows;
};

/*
 * Of the file `fd`, which is borrowed. 0: *table, to be given to unwind_table_free(). -ENOEXEC: no ELF file of this
 * machine; -ENODATA: it has no rules, or .eh_frame is larger than UNWIND_SECTION_BYTES_MAX, or cannot be read;
 * -E2BIG: more than UNWIND_FILE_ROWS_MAX rows; -ENOMEM. After an error there is nothing to be freed.
 */
int unwind_table_compile(int fd, struct unwind_table *table);
void unwind_table_free(struct unwind_table *table);

#endif
