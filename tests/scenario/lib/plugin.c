/* A shared object with a probe of its own, which lives.c loads and unloads. */
#include "ringtail-probe.h"

#define EVENTS 10

unsigned long plugin_pass(unsigned long turn);

unsigned long plugin_pass(unsigned long turn)
{
	for (unsigned i = 0; i < EVENTS; i++)
		RT_PROBE(plugin, pass, "turn %lu, %u: %s", turn, i, "text of a plugin");
	return EVENTS;
}
