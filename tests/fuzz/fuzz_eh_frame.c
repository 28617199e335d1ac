/* fuzz_eh_frame: bytes from outside as .eh_frame of a program's file: its rows can be searched. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "daemon/base/limits.h"
#include "daemon/source/unwind_table.h"
#include "tests/lib/eh_frame_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static int file = -1;
	struct unwind_table table;

	if (file < 0)
		file = memfd_create("file", MFD_CLOEXEC);
	eh_frame_file_write(file, data, size);
	if (unwind_table_compile(file, &table))
		return 0;
	if (!table.rows || table.rows > UNWIND_FILE_ROWS_MAX)
		abort();
	for (size_t i = 0; i < table.rows; i++)
		if ((table.row[i].rule & UNWIND_RULE) > UNWIND_UNKNOWN ||
		    (i && table.row[i].at <= table.row[i - 1].at))
			abort();
	unwind_table_free(&table);
	return 0;
}
