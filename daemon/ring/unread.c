/*
 * ring_unread: see ring_unread.h.
 *
 * Where no record is committed, one is on its way, as long as it may be: each word behind it is tried,
 * until one carries the tag of its own place.
 *
 *	load acquire commit of a later record	store release commit, fillers and heads before it
 *
 * A place that was found unfinished is looked at again when something behind it is committed: it may
 * have been the filler or the head in front of just that, and is no attempt of its own.
 */
#include "daemon/ring/unread.h"

#include <stdbool.h>

#include "kmod/uapi/ringtail.h"

#define BODY_BITS	24	/* of `commit` below its tag */
#define NOWHERE		UINT64_MAX

/* Words and probe of what is committed at a place; false: nothing is. */
static bool committed(const struct ring_span *span, uint64_t pos, uint64_t *body)
{
	const uint8_t *at = span->data + (pos & (span->size_bytes - 1));

	*body = __atomic_load_n((const __u64 *)at, __ATOMIC_ACQUIRE) ^
		rt_record_tag(pos, span->key);
	return !(*body >> BODY_BITS) && rt_commit_words(*body);
}

uint64_t ring_unread_count(const struct ring_span *span, uint64_t looks_max)
{
	uint64_t count = 0, unfinished = NOWHERE, pos = span->pos;

	for (uint64_t i = 0; i < looks_max && pos < span->end; i++) {
		uint64_t body, first;

		if (!committed(span, pos, &body)) {
			count += unfinished == NOWHERE;
			if (unfinished == NOWHERE)
				unfinished = pos;
			pos += 8;
			continue;
		}
		if (unfinished != NOWHERE) {
			if (committed(span, unfinished, &first)) {
				pos = unfinished;
				body = first;
				count--;
			}
			unfinished = NOWHERE;
		}
		count += rt_commit_probe(body) >= RT_PROBE_THREAD;
		pos += rt_commit_words(body) * 8;
	}
	return count;
}
