/*
 * stack_names: the names of what stacks point to: kernel functions by kallsyms, those of programs by
 * the symbols of the files that process:map:executable told of.
 *
 * Names are found here, at the client, and not at the traced host's daemon: the files are anybody's,
 * and the daemon reads none of them. What cannot be named keeps its file, its place there and the
 * file's build-id. A file is only believed if its build-id is what the process had in its memory.
 */
#ifndef RINGTAIL_CLIENT_CLI_STACK_NAMES_H
#define RINGTAIL_CLIENT_CLI_STACK_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/lib/ringtail.h"

/* What tells of maps, with the fields that kmod/uapi/ringtail.h lists. */
#define MAP_SPEC	"process:map:executable"
#define MAP_FIELDS	10

#define BUILD_ID_TEXT_BYTES (2 * 20 + 1)

struct stack_names;

struct code_place {
	const char *name;		/* of the function, or why the stack ends; NULL: not known. Not for a terminal as it is */
	uint64_t offset;		/* from its beginning */
	const char *path;		/* of the file; NULL: not known, "": it is in no file */
	uint64_t file_offset;
	char build_id[BUILD_ID_TEXT_BYTES];	/* "": none */
};

/* `host` is borrowed. NULL: no memory. */
struct stack_names *stack_names_create(const struct ringtail_host *host);
void stack_names_destroy(struct stack_names *names);

/* Whether the event is of process:map:executable; if so, it is remembered. */
bool stack_names_learn(struct stack_names *names, const struct ringtail_item *event);

/* How many of the innermost frames are those of the tracing itself. */
size_t stack_names_own(struct stack_names *names, const struct ringtail_item *event,
		       const struct ringtail_attachment *stack);

/* Where frame i of a stack of `pid` is. What is borrowed holds until the next call. */
void stack_names_find(struct stack_names *names, enum ringtail_attachment_kind kind, uint32_t pid,
		      const uint64_t *frame, size_t i, struct code_place *place);

#endif
