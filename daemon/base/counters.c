#include "daemon/base/counters.h"

_Atomic uint64_t counter_values[COUNTERS];

static const struct {
	const char *name, *help;
} counter_rows[COUNTERS] = {
#define COUNTER(name, help) {#name, help},
#include "daemon/base/counters.def"
#undef COUNTER
};

const char *counter_name(enum counter counter)
{
	return counter_rows[counter].name;
}

const char *counter_help(enum counter counter)
{
	return counter_rows[counter].help;
}
