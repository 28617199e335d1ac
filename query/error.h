/*
 * error: one failure as a person reads it: a stable code, what happened, what to do.
 */
#ifndef RINGTAIL_QUERY_ERROR_H
#define RINGTAIL_QUERY_ERROR_H

#include <stdint.h>

#define ERROR_TEXT_BYTES 512

struct error {
	char code[48];			/* stable and greppable: "bpf-no-capability" */
	uint32_t column;		/* 1-based place in the user's text; 0: none */
	char what[ERROR_TEXT_BYTES];	/* what happened, and where */
	char hint[ERROR_TEXT_BYTES];	/* what to do about it; may be empty */
};

/* Sets *error (unless NULL) and returns -err, so that `return error_set(...)` ends a function. */
__attribute__((format(printf, 4, 5)))
int error_set(struct error *error, int err, const char *code, const char *format, ...);

__attribute__((format(printf, 2, 3)))
void error_hint(struct error *error, const char *format, ...);

#endif
