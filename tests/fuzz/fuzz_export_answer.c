/*
 * fuzz_export_answer: any bytes as a back end's answer, to any kind, under any status. Whatever they
 * are, the verdict is one of four, and its text can be shown.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/export/kind.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
	struct export_verdict verdict;
	long status;

	if (n < 2)
		return 0;
	status = 200 + (bytes[0] | bytes[1] << 8) % 400;
	for (unsigned i = 0; export_kinds[i]; i++) {
		export_kinds[i]->judge(status, bytes + 2, n - 2, &verdict);
		if (verdict.outcome > EXPORT_HOLD ||
		    (verdict.rejected && verdict.outcome != EXPORT_ACCEPTED) ||
		    (status / 100 == 2) != (verdict.outcome == EXPORT_ACCEPTED))
			abort();
		if (strnlen(verdict.message, sizeof(verdict.message)) == sizeof(verdict.message))
			abort();
		for (const char *at = verdict.message; *at; at++)
			if (*at < 0x20 || *at > 0x7e)
				abort();
	}
	return 0;
}
