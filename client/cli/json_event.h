/*
 * json_event: the parts of an event as JSON, which -o json and the cells of -o csv share.
 */
#ifndef RINGTAIL_CLIENT_CLI_JSON_EVENT_H
#define RINGTAIL_CLIENT_CLI_JSON_EVENT_H

#include "client/cli/out.h"
#include "client/lib/ringtail.h"

/* -100, "0x80000", [1,2]: one field. */
void json_put_value(struct out *out, const struct ringtail_item *event, unsigned number);

/* {"dfd":-100,"flags":"0x80000"}: the fields from `first` on. */
void json_put_arguments(struct out *out, const struct ringtail_item *event, unsigned first);

/* How an event ended: what stands apart from its arguments. */
struct json_outcome {
	const uint64_t *duration, *result;	/* NULL: it has none, or its call never returns */
	const char *error;			/* the result's name; NULL: it is no error */
	unsigned fields;			/* that these are: the first */
};

struct json_outcome json_outcome(const struct ringtail_item *event);

/* Whether that is the text that a field is the address of; and whether there is any. */
bool json_is_string(const struct ringtail_item *event, const struct ringtail_attachment *string);
bool json_has_strings(const struct ringtail_item *event);

/* {"filename":"/etc/passwd"} */
void json_put_strings(struct out *out, const struct ringtail_item *event);

#endif
