#include "daemon/stream/reach.h"

#include <stdlib.h>
#include <string.h>

#include "daemon/base/limits.h"

struct reach {
	uint32_t rings;
	bool torn;			/* more went after the watermark that went last */
	uint64_t given_up_ns;		/* that watermark's time; 0: none went */
	unsigned marks;			/* the first is the beginning of recording */
	uint64_t stride, waiting;	/* watermarks that go between two marks */
	uint64_t time_ns[REACH_MARKS_MAX];
	uint64_t seq[];			/* by mark, then by ring */
};

struct reach *reach_create(uint32_t rings)
{
	struct reach *reach = calloc(1, sizeof(*reach) + (size_t)REACH_MARKS_MAX * rings *
							 sizeof(reach->seq[0]));

	if (!reach)
		return NULL;
	reach->rings = rings;
	reach->stride = 1;
	return reach;
}

void reach_destroy(struct reach *reach)
{
	free(reach);
}

static uint64_t *seq_of(struct reach *reach, unsigned mark)
{
	return &reach->seq[(size_t)mark * reach->rings];
}

static void set_mark(struct reach *reach, unsigned mark, uint64_t time_ns, const uint64_t *seq)
{
	reach->time_ns[mark] = time_ns;
	memcpy(seq_of(reach, mark), seq, reach->rings * sizeof(*seq));
}

/* Every other one goes, and from now on they stand twice as far apart. */
static void thin_out(struct reach *reach)
{
	for (unsigned i = 2; i < reach->marks; i += 2)
		set_mark(reach, i / 2, reach->time_ns[i], seq_of(reach, i));
	reach->marks = (reach->marks + 1) / 2;
	reach->stride *= 2;
}

void reach_begin(struct reach *reach, uint64_t time_ns, const uint64_t *seq)
{
	set_mark(reach, 0, time_ns, seq);
	reach->marks = 1;
}

void reach_give_up(struct reach *reach, uint64_t time_ns, const uint64_t *seq)
{
	reach->torn = false;
	reach->given_up_ns = time_ns;
	if (!reach->marks || ++reach->waiting < reach->stride)
		return;
	reach->waiting = 0;
	if (reach->marks == REACH_MARKS_MAX)
		thin_out(reach);
	set_mark(reach, reach->marks++, time_ns, seq);
}

void reach_tear(struct reach *reach)
{
	reach->torn = true;
}

uint64_t reach_recorded_ns(const struct reach *reach)
{
	return reach->marks ? reach->time_ns[0] : UINT64_MAX;
}

bool reach_holds(const struct reach *reach, uint64_t time_ns)
{
	return !reach->torn && time_ns >= reach_recorded_ns(reach) &&
	       time_ns >= reach->given_up_ns;
}

uint64_t reach_seq(const struct reach *reach, uint64_t time_ns, uint32_t ring)
{
	unsigned mark = reach->marks;

	while (mark > 1 && reach->time_ns[mark - 1] > time_ns)
		mark--;
	return mark ? reach->seq[(size_t)(mark - 1) * reach->rings + ring] : 0;
}
