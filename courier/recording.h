/*
 * recording: one host's records, as a recording: what comes twice is left out, what is missing is a Gap in its
 * place, and each run begins with its hello and its catalog. In: records of PREFIX.frames. Out: frames, on a
 * stream that tracectl reads. Main thread.
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
	uint64_t other;			/* records of other hosts, or of other programs */
};

struct recording;

/* NULL: out of memory. `to` is the caller's. */
struct recording *recording_create(FILE *to, recording_find *find, void *context);
void recording_destroy(struct recording *recording);

/* One record of this host: one that cannot be decoded is a gap in its place. -errno with *error: it cannot be written. */
int recording_take(struct recording *recording, const struct parcel_label *label, const uint8_t *frame,
		   size_t bytes, struct ringtail_error *error);

/* Another host's, or none of ours: it only counts. */
void recording_pass(struct recording *recording);

/* A Bye: what there was has come. */
int recording_end(struct recording *recording, const char *reason, struct ringtail_error *error);

const struct recording_ledger *recording_ledger(const struct recording *recording);

#endif
