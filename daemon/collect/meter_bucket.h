/*
 * meter_bucket: the buckets of every histogram of time: up to 256 ns, 512 ns, ... 2^34 ns (17 s), and
 * beyond. A value that equals a bound is in that bound's bucket. Pure; any thread.
 *
 * Cells are finer: each lies in one bucket, and in one bucket of Prometheus' native histograms of schema 3,
 * whose bounds are 2^(i/8) seconds, 9 % apart. Eight of those bounds fall between two of ours:
 *
 *	2^8 ns        2^9 ns        2^10 ns		buckets
 *	  | . . . . . . . | . . . . . . . |		cells; a dot is a bound of a native bucket
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

/* Up to 2^-22 s (238 ns), up to 256 ns, then nine for each doubling; beyond 2^42 ns (73 min): the last. */
#define METER_CELL_PARTS	9u
#define METER_CELL_OCTAVES	34u
#define METER_CELLS		(2u + METER_CELL_OCTAVES * METER_CELL_PARTS)
#define METER_NATIVE_SCHEMA	3
#define METER_NATIVE_ZERO_SECONDS 0x1p-22
#define METER_NATIVE_ZERO_NS	238u

/* The cell of a duration. */
static inline unsigned meter_cell_of(uint64_t ns)
{
	/* 10^9 * 2^(i/8), i = -175 ... -168, are between 2^8 and 2^9: times 2^55, less one, rounded down. */
	static const uint64_t bound[METER_CELL_PARTS] = {
		0x81ffa7a9549ca6e2, 0x8dc3b8960164a7d8, 0x9a9867054d512390,
		0xa8965f74bf065070, 0xb7d88a12d0dd9e9f, 0xc87c3e7d03cdbec2,
		0xdaa17c2cd19555da, 0xee6b27ffffffffff, UINT64_MAX,
	};
	/* How many of them are not above each sixteenth of the way; at most one more is within it. */
	static const uint8_t below[16] = {0, 1, 2, 2, 3, 3, 4, 5, 5, 5, 6, 6, 7, 7, 8, 8};
	unsigned zeros, octave, part;
	uint64_t fraction;

	if (ns <= 1ull << METER_BUCKET_MIN_SHIFT)
		return ns > METER_NATIVE_ZERO_NS;
	zeros = (unsigned)__builtin_clzll(ns - 1);
	octave = 63u - zeros - METER_BUCKET_MIN_SHIFT;
	if (octave >= METER_CELL_OCTAVES)
		return METER_CELLS - 1;
	fraction = (ns << zeros) - 1;	/* the next power of two is all ones: the last of this octave */
	part = below[fraction >> 59 & 15];
	part += fraction > bound[part];
	return 2 + octave * METER_CELL_PARTS + part;
}

static inline unsigned meter_bucket_of_cell(unsigned cell)
{
	unsigned bucket = cell < 2 ? 0 : 1 + (cell - 2) / METER_CELL_PARTS;

	return bucket < METER_BUCKET_BOUNDS ? bucket : METER_BUCKET_BOUNDS;
}

/* The i of the native bucket up to 2^(i/8) s that a cell is in; of cell 0, which is zero's, that of zero's bound. */
static inline int meter_native_of_cell(unsigned cell)
{
	if (cell < 2)
		return (int)cell - 176;
	return (int)((cell - 2) / METER_CELL_PARTS * 8 + (cell - 2) % METER_CELL_PARTS) - 175;
}

#endif
