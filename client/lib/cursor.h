/* cursor: a struct cursor (proto/cursor.h) as text: `BOOTID/EPOCH/CPU:SEQ,CPU:SEQ,...` */
#ifndef RINGTAIL_CLIENT_LIB_CURSOR_H
#define RINGTAIL_CLIENT_LIB_CURSOR_H

#include <stddef.h>

#include "client/lib/ringtail.h"
#include "proto/cursor.h"
#include "proto/limits.h"

/* free() *cursor. -ENOMEM; -EINVAL with *error, whose column points into the text. */
int cursor_parse(const char *text, struct cursor **cursor, struct ringtail_error *error);

/* -ENOSPC if it does not fit. */
int cursor_print(const struct cursor *cursor, char *text, size_t text_bytes);

#endif
