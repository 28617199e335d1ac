/* sim_clock: time, chance and names of the made-up world, in the place of the daemon's. */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "daemon/base/clock.h"
#include "daemon/base/random.h"
#include "tests/sim/sim.h"

struct sim sim;

/* splitmix64: every seed is a good one. */
uint64_t sim_random(void)
{
	static uint64_t state;
	static bool begun;
	uint64_t z;

	if (!begun)
		state = sim.seed * 0x9e3779b97f4a7c15ull;
	begun = true;
	z = state += 0x9e3779b97f4a7c15ull;
	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	return z ^ z >> 31;
}

uint64_t sim_below(uint64_t n)
{
	return sim_random() % n;
}

uint64_t sim_between(uint64_t low, uint64_t high)
{
	return low + sim_below(high - low + 1);
}

bool sim_chance(unsigned percent)
{
	return sim_below(100) < percent;
}

static void say(FILE *to, const char *what, const char *format, va_list arguments)
{
	fprintf(to, "%6llu.%09llu %s", (unsigned long long)(sim.now_ns / SIM_S),
		(unsigned long long)(sim.now_ns % SIM_S), what);
	vfprintf(to, format, arguments);
	fputc('\n', to);
}

void sim_log(const char *format, ...)
{
	va_list arguments;

	if (sim.expect && !sim.met) {
		char text[1024];

		va_start(arguments, format);
		vsnprintf(text, sizeof(text), format, arguments);
		va_end(arguments);
		sim.met = strstr(text, sim.expect);
	}
	if (!sim.log)
		return;
	va_start(arguments, format);
	say(sim.log, "", format, arguments);
	va_end(arguments);
}

void sim_fail(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	fprintf(stderr, "sim: seed %llu failed:", (unsigned long long)sim.seed);
	say(stderr, "", format, arguments);
	va_end(arguments);
	if (sim.log) {
		va_start(arguments, format);
		say(sim.log, "FAILED ", format, arguments);
		va_end(arguments);
		fflush(sim.log);
	}
	_exit(EXIT_FAILURE);
}

/* ---- In the place of daemon/base/clock.c, daemon/base/random.c ----------------------------------------- */

uint64_t clock_read(clockid_t id)
{
	return id == CLOCK_REALTIME ? sim.now_ns + (uint64_t)sim.wall_ns : sim.now_ns;
}

uint64_t clock_monotonic(void)
{
	return clock_read(CLOCK_MONOTONIC);
}

int random_bytes(void *bytes, size_t n)
{
	for (size_t i = 0; i < n; i++)
		((unsigned char *)bytes)[i] = (unsigned char)sim_random();
	return 0;
}

int __wrap_uname(struct utsname *host);
int __wrap_uname(struct utsname *host)
{
	memset(host, 0, sizeof(*host));
	strcpy(host->nodename, "sim");
	strcpy(host->release, "6.0");
	strcpy(host->machine, "none");
	return 0;
}
