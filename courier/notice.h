/*
 * notice: what a program of this room tells people, on stderr: "PROGRAM: level: [code] what", and what to do.
 */
#ifndef RINGTAIL_COURIER_NOTICE_H
#define RINGTAIL_COURIER_NOTICE_H

#include "client/lib/ringtail.h"
#include "query/error.h"

/* Before any other: how the program is called. The text is borrowed. */
void notice_open(const char *program);

__attribute__((format(printf, 3, 4)))
void notice(const char *level, const char *code, const char *format, ...);

#define notice_info(code, ...)	notice("info", code, __VA_ARGS__)
#define notice_warn(code, ...)	notice("warning", code, __VA_ARGS__)

/* An error as two lines: what happened, and what to do. */
void notice_failure(const struct ringtail_error *error);
void notice_error(const struct error *error);

#endif
