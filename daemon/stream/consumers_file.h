/* consumers_file: the text of state-dir/consumers; pure. Shared by consumers*.c alone. */
#ifndef RINGTAIL_DAEMON_STREAM_CONSUMERS_FILE_H
#define RINGTAIL_DAEMON_STREAM_CONSUMERS_FILE_H

#include "daemon/stream/consumers.h"

/* *text is malloc'ed. -ENOMEM. */
int consumers_file_print(const struct consumer_list *list, char **text, size_t *bytes);

/* Adds what the text says; it ends with a NUL that `bytes` does not count. -EBADMSG with the line. */
int consumers_file_parse(char *text, size_t bytes, struct consumer_list *list, unsigned *count,
			 struct error *error);

void consumer_free(struct consumer *consumer);

#endif
