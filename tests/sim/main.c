/*
 * sim: runs the daemon through made-up histories, one for each seed, each in a process of its own.
 *
 *	sim --seed N [--steps] [--log FILE]	one, with all that is said of it
 *	sim --seeds A..B			many; ends at the first that fails
 *	sim --durable --seeds A..B		with spool, durable consumers and disk faults
 *	sim --expect TEXT --seed N ...		must come to where TEXT is logged, or fails
 *	sim --fault NAME --seeds A..B		with a daemon that is wrong: must fail, or exits 1
 *	sim --allocations LENGTH --seeds A..B	each short, and once for each of the daemon's
 *						allocations: that one fails, and LENGTH - 1 more
 *	sim --allocations LENGTH --places ...	only for the first at each place in the code
 *	sim --allocations LENGTH --sparse ...	for the first, second, fourth, eighth, ... at each place
 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/sim/history.h"
#include "tests/sim/sim.h"
#include "tests/sim/sim_daemon.h"

#define EXIT_USAGE 2
#define SEED_SECONDS_MAX 120

/* Where coverage is counted, _exit() would lose it. */
#ifdef SIM_COVERAGE
void __gcov_dump(void);
#else
static void __gcov_dump(void)
{
}
#endif

struct wish {
	uint64_t first, last;
	const char *log, *fault, *expect;
	bool steps, durable, places, sparse;
	uint64_t fail_at, fail_for;	/* 0: no allocation fails */
};

static struct sim_allocations *allocations;	/* in the history in which none fails */

static int usage(void)
{
	fputs("usage: sim --seed N [--steps] [--log FILE] | --seeds A..B, [--durable] [--fault NAME] [--expect TEXT] "
	      "[--allocations LENGTH [--fail-at N | --places | --sparse]] | --list-faults\n", stderr);
	return EXIT_USAGE;
}

/* In a child: what is left of the daemon goes with it. */
static void run_seed(const struct wish *wish, uint64_t seed)
{
	sim.seed = seed;
	sim.rich = seed % 4 == 1;
	sim.steps = wish->steps;
	sim.brief = wish->fail_for;
	sim.durable = wish->durable;
	sim.expect = wish->expect;
	sim.shortage.at = wish->fail_at;
	sim.shortage.length = wish->fail_for;
	sim.shortage.told = wish->fail_for && !wish->fail_at ? allocations : NULL;
	alarm(SEED_SECONDS_MAX);
	if (wish->log && !(sim.log = fopen(wish->log, "w"))) {
		fprintf(stderr, "sim: cannot write %s: %s\n", wish->log, strerror(errno));
		_exit(EXIT_FAILURE);
	}
	if (wish->fault && !daemon_break(wish->fault)) {
		fprintf(stderr, "sim: there is no fault %s\n", wish->fault);
		_exit(EXIT_USAGE);
	}
	history_run();
	if (sim.expect && !sim.met)
		sim_fail("it is there for `%s`, and has not come to it", sim.expect);
	if (sim.log)
		fclose(sim.log);
	__gcov_dump();
	_exit(EXIT_SUCCESS);
}

/* Whether the history ended well. */
static bool try_seed(const struct wish *wish, uint64_t seed)
{
	pid_t child;
	int status;

	fflush(NULL);
	child = fork();
	if (child == 0)
		run_seed(wish, seed);
	if (child < 0 || waitpid(child, &status, 0) != child) {
		fprintf(stderr, "sim: cannot fork: %s\n", strerror(errno));
		exit(EXIT_FAILURE);
	}
	if (WIFSIGNALED(status))
		fprintf(stderr, "sim: seed %" PRIu64 " failed: killed by signal %d (%s)\n", seed,
			WTERMSIG(status), strsignal(WTERMSIG(status)));
	if (WIFEXITED(status) && WEXITSTATUS(status) == EXIT_USAGE)
		exit(EXIT_USAGE);
	return WIFEXITED(status) && WEXITSTATUS(status) == EXIT_SUCCESS;
}

/* Of the allocations of one place, the n-th. */
static bool is_wished(const struct wish *wish, uint32_t n)
{
	return wish->places ? n == 1 : !wish->sparse || (n & (n - 1)) == 0;
}

/* The whole history once for each allocation in it, or for some of each place that makes any. */
static bool try_allocations(struct wish wish, uint64_t seed)
{
	uint64_t all, tried = 0;

	if (wish.fail_at)
		return try_seed(&wish, seed);
	if (!try_seed(&wish, seed))
		return false;
	all = allocations->count;
	for (wish.fail_at = 1; wish.fail_at <= all; wish.fail_at++) {
		if (!is_wished(&wish, allocations->there[wish.fail_at]))
			continue;
		tried++;
		if (try_seed(&wish, seed))
			continue;
		fprintf(stderr, "sim: seed %" PRIu64 " failed; again: sim --seed %" PRIu64
			" --allocations %" PRIu64 " --fail-at %" PRIu64 " --log /dev/stdout\n", seed,
			seed, wish.fail_for, wish.fail_at);
		return false;
	}
	if (!tried) {
		fprintf(stderr, "sim: seed %" PRIu64 " makes no allocation\n", seed);
		return false;
	}
	printf("sim: seed %" PRIu64 ": each of %" PRIu64 " of %" PRIu64 " allocations may fail\n", seed,
	       tried, all);
	return true;
}

static int run(const struct wish *wish)
{
	for (uint64_t seed = wish->first; seed <= wish->last; seed++) {
		if (wish->fail_for ? try_allocations(*wish, seed) : try_seed(wish, seed))
			continue;
		if (wish->fault) {
			printf("sim: %s is found out by seed %" PRIu64 "\n", wish->fault, seed);
			return EXIT_SUCCESS;
		}
		fprintf(stderr, "sim: seed %" PRIu64 " failed; again: sim --seed %" PRIu64
			" --steps --log /dev/stdout\n", seed, seed);
		return EXIT_FAILURE;
	}
	if (wish->fault) {
		fprintf(stderr, "sim: %s is not found out\n", wish->fault);
		return EXIT_FAILURE;
	}
	printf("sim: seeds %" PRIu64 "..%" PRIu64 " passed\n", wish->first, wish->last);
	return EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{"seed", required_argument, NULL, 's'}, {"seeds", required_argument, NULL, 'S'},
		{"steps", no_argument, NULL, 't'}, {"log", required_argument, NULL, 'l'},
		{"durable", no_argument, NULL, 'd'},
		{"allocations", required_argument, NULL, 'a'},
		{"fail-at", required_argument, NULL, 'A'}, {"places", no_argument, NULL, 'p'},
		{"sparse", no_argument, NULL, 'P'},
		{"expect", required_argument, NULL, 'e'},
		{"fault", required_argument, NULL, 'f'}, {"list-faults", no_argument, NULL, 'F'},
		{NULL, 0, NULL, 0},
	};
	struct wish wish = {.last = 0, .first = 1};
	int option;

	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (option) {
		case 's':
			wish.first = wish.last = strtoull(optarg, NULL, 10);
			break;
		case 'S':
			if (sscanf(optarg, "%" SCNu64 "..%" SCNu64, &wish.first, &wish.last) != 2)
				return usage();
			break;
		case 't':
			wish.steps = true;
			break;
		case 'l':
			wish.log = optarg;
			break;
		case 'f':
			wish.fault = optarg;
			break;
		case 'e':
			wish.expect = optarg;
			break;
		case 'd':
			wish.durable = true;
			break;
		case 'a':
			wish.fail_for = strtoull(optarg, NULL, 10);
			break;
		case 'A':
			wish.fail_at = strtoull(optarg, NULL, 10);
			break;
		case 'p':
			wish.places = true;
			break;
		case 'P':
			wish.sparse = true;
			break;
		case 'F':
			daemon_list_faults();
			return EXIT_SUCCESS;
		default:
			return usage();
		}
	}
	/* Written by each child. */
	allocations = mmap(NULL, sizeof(*allocations), PROT_READ | PROT_WRITE,
			   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (allocations == MAP_FAILED) {
		perror("sim: mmap");
		return EXIT_FAILURE;
	}
	return wish.first > wish.last || optind < argc ? usage() : run(&wish);
}
