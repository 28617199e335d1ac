/*
 * runs: what PREFIX.runs says: of each run of each host, the hello and the catalogs that decode its frames.
 * In: that topic. Out: the beginning that a frame belongs to; hosts. Main thread.
 */
#ifndef RINGTAIL_COURIER_RUNS_H
#define RINGTAIL_COURIER_RUNS_H

#include "courier/parcel.h"

struct runs;

struct runs_beginning {
	const uint8_t *hello, *catalog;	/* frames */
	size_t hello_bytes, catalog_bytes;
};

/* Reads the topic to its end: of hosts whose names match one of these globs, or (0) of all. -errno with *error. */
int runs_open(const struct kafka_settings *settings, const char *const *host, size_t hosts, struct runs **runs,
	      struct ringtail_error *error);
void runs_close(struct runs *runs);

/* Each host once, by name. */
void runs_each_host(const struct runs *runs, void (*each)(void *context, const char *host), void *context);

/*
 * What decodes frames of that label; it waits for it once, RUN_WAIT_MS at most, in case it is on its way.
 * Borrowed until the next call. -ENOENT with *error: Kafka does not have it.
 */
int runs_find(struct runs *runs, const char *host, const struct parcel_label *label,
	      struct runs_beginning *beginning, struct ringtail_error *error);

#endif
