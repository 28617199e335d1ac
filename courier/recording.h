/*
 * recording: one host's records, as a recording: what comes twice is left out, what is missing is a Gap in its
 * place, and each run begins with its hello and its catalog. In: records of PREFIX.frames. Out: frames, on a
 * stream that tracectl reads; of several hosts in one stream, each behind a Consign (client/lib/lanes.h). Main thread.
 *
 *	records = taken + duplicate + damaged
 */
#ifndef RINGTAIL_COURIER_RECORDING_H
#define RINGTAIL_COURIER_RECORDING_H

#include <stdio.h>

#include "courier/numbers.h"
#include "courier/parcel.h"

/* What decodes frames of that label: -errno with *error; -ENOENT: nothing does. */
struct runs_beginning;
typedef int recording_find(void *context, const struct parcel_label *label, struct runs_beginning *beginning,
			   struct ringtail_error *error);

struct recording_ledger {
	uint64_t records, taken, duplicate;
	uint64_t damaged;		/* they cannot be decoded: what they had is missing */
	uint64_t holes, missing;	/* places, and attempts that are missing there */
};

struct recording;

/* Where recordings go, and what they share. `to` is the caller's. NULL: out of memory. */
struct recording_output;
struct recording_output *recording_output_create(FILE *to);
void recording_output_destroy(struct recording_output *output);

/* One that is alone on its output. NULL: out of memory. */
struct recording *recording_create(struct recording_output *output, recording_find *find, void *context);
void recording_destroy(struct recording *recording);

/* Before its first record: it is one of several. The host's name is borrowed. */
void recording_set_lane(struct recording *recording, uint32_t lane, const char *host);

/* Before its first record: what Kafka had before that is deleted, and was asked for. A Gap of no size stands there. */
void recording_begin_cut(struct recording *recording);

/* One record of this host: one that cannot be decoded is a gap in its place. -errno with *error: it cannot be written. */
int recording_take(struct recording *recording, const struct parcel_label *label, const uint8_t *frame,
		   size_t bytes, struct ringtail_error *error);

/* Nobody knows how much is missing from here on: a Gap of no size, if anything has come. -errno with *error. */
int recording_break(struct recording *recording, struct ringtail_error *error);

/* A Bye: what there was has come. */
int recording_end(struct recording *recording, const char *reason, struct ringtail_error *error);

const struct recording_ledger *recording_ledger(const struct recording *recording);

#endif
