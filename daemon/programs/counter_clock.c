#include "daemon/programs/counter_clock.h"

#ifdef __x86_64__
#include <cpuid.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>
#endif

#include "daemon/base/clock.h"

#define LOOK_TRIES	8
#define LOOK_APART_NS	1000000ull
#define BEND_PART	100		/* no clock that is adjusted changes its rate by a hundredth */
#define CLOCKSOURCE	"/sys/devices/system/clocksource/clocksource0/current_clocksource"

#ifdef __x86_64__
static bool is_kernels_clock(void)
{
	char name[8] = "";
	int fd = open(CLOCKSOURCE, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, name, sizeof(name) - 1);

	if (fd >= 0)
		close(fd);
	return n > 0 && strcmp(name, "tsc\n") == 0;
}

bool counter_is_clock(void)
{
	unsigned a, b, c, d;

	/* Leaf "advanced power management", bit "invariant TSC". */
	return __get_cpuid(0x80000007, &a, &b, &c, &d) && d & 1 << 8 && is_kernels_clock();
}
#else
bool counter_is_clock(void)
{
	return false;
}
#endif

/* Both at once: of some tries, the one that took the least. */
static struct counter_look look_now(void)
{
	struct counter_look best = {0};
	uint64_t best_took = UINT64_MAX;

	for (unsigned i = 0; i < LOOK_TRIES; i++) {
		uint64_t before = clock_counter(), ns = clock_monotonic(), took = clock_counter() - before;

		if (took >= best_took)
			continue;
		best = (struct counter_look){.count = before + took / 2, .ns = ns};
		best_took = took;
	}
	return best;
}

static struct counter_look *look_at(struct counter_clock *clock, uint32_t i)
{
	return &clock->look[i % COUNTER_CLOCK_LOOKS];
}

/* ns between two looks, of a count between them or beyond. */
static uint64_t on_line(const struct counter_look *from, const struct counter_look *to, uint64_t count)
{
	__int128 ns = (__int128)(int64_t)(count - from->count) * (int64_t)(to->ns - from->ns);

	ns = from->ns + ns / (int64_t)(to->count - from->count);
	return ns < 0 ? 0 : ns > INT64_MAX ? INT64_MAX : (uint64_t)ns;
}

/* Whether the latest two looks and this one are nearly on one line. */
static bool goes_on(struct counter_clock *clock, const struct counter_look *now)
{
	const struct counter_look *last = look_at(clock, clock->looks - 1);
	uint64_t ns, passed = now->ns - last->ns, off;

	if (now->count <= last->count || now->ns <= last->ns)
		return false;
	if (clock->looks < 2)
		return true;
	ns = on_line(look_at(clock, clock->looks - 2), last, now->count);
	off = ns > now->ns ? ns - now->ns : now->ns - ns;
	return off <= LOOK_APART_NS / BEND_PART + passed / BEND_PART;
}

void counter_clock_begin(struct counter_clock *clock)
{
	*clock = (struct counter_clock){.looks = 1, .look = {look_now()}};
}

uint64_t counter_clock_look(struct counter_clock *clock)
{
	struct counter_look now = look_now();
	uint32_t looks = clock->looks;

	if (!goes_on(clock, &now)) {
		*clock = (struct counter_clock){.looks = 1, .look = {now}};
		return now.ns;
	}
	/* The latest one moves with the time, until it is far enough from the one before. */
	if (looks >= 2 && look_at(clock, looks - 1)->ns - look_at(clock, looks - 2)->ns < LOOK_APART_NS)
		looks--;
	*look_at(clock, looks) = now;
	clock->looks = looks + 1;
	if (clock->looks >= 2 * COUNTER_CLOCK_LOOKS)
		clock->looks -= COUNTER_CLOCK_LOOKS;
	return now.ns;
}

uint64_t counter_clock_ns(const struct counter_clock *clock, uint64_t count)
{
	uint32_t kept = clock->looks < COUNTER_CLOCK_LOOKS ? clock->looks : COUNTER_CLOCK_LOOKS;
	uint32_t from = clock->looks - 2;

	if (clock->looks < 2)
		return 0;
	for (uint32_t i = 2; i < kept && clock->look[from % COUNTER_CLOCK_LOOKS].count > count; i++)
		from--;
	return on_line(&clock->look[from % COUNTER_CLOCK_LOOKS], &clock->look[(from + 1) % COUNTER_CLOCK_LOOKS], count);
}
