/*
 * event_part: what an event has of a name that a question may ask for: of the event itself, its thread, the thread's
 * context, what is attached, its fields.
 */
#ifndef RINGTAIL_CLIENT_CLI_EVENT_PART_H
#define RINGTAIL_CLIENT_CLI_EVENT_PART_H

#include "client/cli/out.h"
#include "client/lib/ringtail.h"

/* Its text, without quotes; *number: it is one. False if the event has nothing of that name. */
bool event_part_put(struct out *out, const struct ringtail_item *event, const char *name, bool *number);

/*
 * The value of a field; *of_time: it is a duration. False: the event has no such value, or the value is below 0, as an
 * error or AT_FDCWD is.
 */
bool event_part_value(const struct ringtail_item *event, const char *name, uint64_t *value, bool *of_time);

/* The same of what two events may have in common: "pid", "tid", "cpu", and fields of any sign. */
bool event_part_number(const struct ringtail_item *event, const char *name, uint64_t *number);

/* The errno of a call's result; 0: it has none. */
int event_part_error(const struct ringtail_item *event);

#endif
