/*
 * meter_bucket: the buckets of every histogram of time: up to 256 ns, 512 ns, ... 2^34 ns (17 s), and
 * beyond. A value that equals a bound is in that bound's bucket. Pure; any thread.
 */
#ifndef RINGTAIL_DAEMON_COLLECT_METER_BUCKET_H
#define RINGTAIL_DAEMON_COLLECT_METER_BUCKET_H

#include <stdint.h>

#define METER_BUCKET_MIN_SHIFT	8u
#define METER_BUCKET_BOUNDS	27u
#define METER_BUCKETS		(METER_BUCKET_BOUNDS + 1u)

/* The bound of bucket i in seconds, i below METER_BUCKET_BOUNDS. */
static inline double meter_bucket_seconds(unsigned i)
{
	return (double)(1ull << (METER_BUCKET_MIN_SHIFT + i)) / 1e9;
}

/* The bucket of a duration. */
static inline unsigned meter_bucket_of(uint64_t ns)
{
	unsigned shift;

	if (ns <= 1ull << METER_BUCKET_MIN_SHIFT)
		return 0;
	shift = 64u - (unsigned)__builtin_clzll(ns - 1) - METER_BUCKET_MIN_SHIFT;
	return shift < METER_BUCKET_BOUNDS ? shift : METER_BUCKET_BOUNDS;
}

#endif
