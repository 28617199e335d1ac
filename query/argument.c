#include "query/argument.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>

struct argument_rule {
	const char *function, *by;
	bool (*is_read)(const char *argument, uint64_t value);
};

static bool is(const char *argument, const char *name)
{
	return strcmp(argument, name) == 0;
}

static bool fcntl_reads(const char *argument, uint64_t command)
{
	if (!is(argument, "arg"))
		return true;
	switch ((uint32_t)command) {
	case F_GETFD:
	case F_GETFL:
	case F_GETOWN:
	case F_GETSIG:
	case F_GETLEASE:
	case F_GETPIPE_SZ:
	case F_GET_SEALS:
		return false;
	default:
		return true;
	}
}

static bool futex_reads_time(unsigned operation)
{
	switch (operation) {
	case FUTEX_WAKE:
	case FUTEX_FD:
	case FUTEX_UNLOCK_PI:
	case FUTEX_TRYLOCK_PI:
	case FUTEX_WAKE_BITSET:
		return false;
	default:
		return true;
	}
}

static bool futex_reads_second(unsigned operation)
{
	switch (operation) {
	case FUTEX_REQUEUE:
	case FUTEX_CMP_REQUEUE:
	case FUTEX_WAKE_OP:
	case FUTEX_WAIT_REQUEUE_PI:
	case FUTEX_CMP_REQUEUE_PI:
		return true;
	default:
		return false;
	}
}

static bool futex_reads_third_value(unsigned operation)
{
	switch (operation) {
	case FUTEX_CMP_REQUEUE:
	case FUTEX_CMP_REQUEUE_PI:
	case FUTEX_WAKE_OP:
	case FUTEX_WAIT_BITSET:
	case FUTEX_WAKE_BITSET:
		return true;
	default:
		return false;
	}
}

static bool futex_reads(const char *argument, uint64_t flags)
{
	unsigned operation = (unsigned)flags & FUTEX_CMD_MASK;

	if (operation > FUTEX_CMP_REQUEUE_PI)		/* what newer kernels have, and what is none */
		return true;
	if (is(argument, "utime"))
		return futex_reads_time(operation);
	if (is(argument, "uaddr2"))
		return futex_reads_second(operation);
	return !is(argument, "val3") || futex_reads_third_value(operation);
}

static bool mknod_reads(const char *argument, uint64_t mode)
{
	return !is(argument, "dev") || S_ISCHR(mode) || S_ISBLK(mode);
}

static bool open_reads(const char *argument, uint64_t flags)
{
	return !is(argument, "mode") || flags & (O_CREAT | (O_TMPFILE & ~O_DIRECTORY));
}

/* How many arguments behind the option. Of others, all are shown: the kernel refuses some where they are not 0. */
static unsigned prctl_arguments(uint64_t option)
{
	switch ((uint32_t)option) {
	case PR_GET_DUMPABLE:
	case PR_GET_KEEPCAPS:
	case PR_GET_SECUREBITS:
	case PR_GET_TIMING:
	case PR_GET_TIMERSLACK:
	case PR_GET_SECCOMP:
		return 0;
	case PR_CAPBSET_DROP:
	case PR_CAPBSET_READ:
	case PR_GET_NAME:
	case PR_GET_PDEATHSIG:
	case PR_GET_CHILD_SUBREAPER:
	case PR_SET_CHILD_SUBREAPER:
	case PR_SET_DUMPABLE:
	case PR_SET_KEEPCAPS:
	case PR_SET_NAME:
	case PR_SET_PDEATHSIG:
	case PR_SET_PTRACER:
	case PR_SET_SECUREBITS:
	case PR_SET_TIMERSLACK:
		return 1;
	default:
		return 4;
	}
}

static bool prctl_reads(const char *argument, uint64_t option)
{
	return strncmp(argument, "arg", 3) != 0 || (unsigned)atoi(argument + 3) < prctl_arguments(option) + 2;
}

/* By name of the call. */
static const struct argument_rule rules[] = {
	{"fcntl", "cmd", fcntl_reads},
	{"futex", "op", futex_reads},
	{"mknod", "mode", mknod_reads},
	{"mknodat", "mode", mknod_reads},
	{"open", "flags", open_reads},
	{"openat", "flags", open_reads},
	{"prctl", "option", prctl_reads},
};

static int compare(const void *function, const void *rule)
{
	return strcmp(function, ((const struct argument_rule *)rule)->function);
}

const struct argument_rule *argument_rule(const char *function)
{
	return bsearch(function, rules, sizeof(rules) / sizeof(rules[0]), sizeof(rules[0]), compare);
}

const char *argument_rule_by(const struct argument_rule *rule)
{
	return rule->by;
}

bool argument_is_read(const struct argument_rule *rule, const char *argument, uint64_t value)
{
	return rule->is_read(argument, value);
}
