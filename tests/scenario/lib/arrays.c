/*
 * A program with arrays in its probe, one of each kind; some longer than what is recorded, one empty, one that is none.
 * usage: arrays EVENTS; it says whether it is attached, and goes on at the first line of its input.
 */
#include <ringtail-probe.h>

#include <stdbool.h>
#include <stdio.h>

struct sent {
	uint16_t port[3];
	const int64_t *delta;
	unsigned deltas;
};

/* In C++ it is built once more, where an inline function's probes stand in a group of their own. */
#ifdef __cplusplus
inline
#else
static
#endif
void pass(unsigned turn, const struct sent *sent)
{
	uint32_t size[40];
	uint8_t byte[] = {0, 255};
	int8_t small[] = {-128, 127};
	bool flag[] = {true, false};

	for (unsigned i = 0; i < 40; i++)
		size[i] = turn + i;
	RT_PROBE(app, sent, "%u: ports %p deltas %p sizes %p%%", turn, RT_ARRAY(sent->port, 3),
		 RT_ARRAY(sent->delta, sent->deltas), RT_ARRAY(size, turn % 2 ? 40u : 2u));
	RT_PROBE(app, small, "%*u %p %p %p %p %s", 3, turn, RT_ARRAY(byte, sizeof(byte)), RT_ARRAY(small, 2),
		 RT_ARRAY(flag, 2), RT_ARRAY((const int *)0, 7), "text");
}

int main(int argc, char **argv)
{
	const int64_t delta[] = {-1, 1ll << 40};
	const struct sent sent = {{1, 80, 65535}, delta, 2};
	char line[8];

	puts(rt_probe_attach() == 0 ? "attached" : "alone");
	fflush(stdout);
	if (argc < 2 || !fgets(line, sizeof(line), stdin))
		return 1;
	for (unsigned turn = 0; turn < (unsigned)atoi(argv[1]); turn++)
		pass(turn, &sent);
	return 0;
}
