#include "daemon/host/privileges.h"

#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <sched.h>
#include <string.h>
#include <sys/capability.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

/* sched_setattr(2); this glibc has no wrapper, and <linux/sched/types.h> disagrees with <sched.h>. */
struct sched_attributes {
	uint32_t size, policy;
	uint64_t flags;
	int32_t nice;
	uint32_t priority;
	uint64_t runtime_ns, deadline_ns, period_ns;
};

#define DRAIN_NICE (-10)
#define DRAIN_SLICE_NS 100000	/* the kernel's least */

int privileges_find(const char *user, struct identity *identity, struct error *error)
{
	const struct passwd *entry;

	*identity = (struct identity){.uid = geteuid(), .gid = getegid()};
	if (geteuid() != 0)
		return 0;
	entry = getpwnam(user);
	if (!entry) {
		error_set(error, ENOENT, "user-unknown", "there is no user '%s' to run as", user);
		error_hint(error, "create it, or name another with --user");
		return -ENOENT;
	}
	*identity = (struct identity){.uid = entry->pw_uid, .gid = entry->pw_gid};
	return 0;
}

void privileges_raise_priority(void)
{
	struct sched_attributes attributes = {.size = sizeof(attributes), .policy = SCHED_OTHER};

	if (getpriority(PRIO_PROCESS, 0) > DRAIN_NICE)
		setpriority(PRIO_PROCESS, 0, DRAIN_NICE);
	/* Since Linux 6.12 a normal task may ask for short slices, and so for early deadlines: it is
	 * picked sooner when it wakes, for no more CPU time than others get. Before, it is ignored. */
	attributes.nice = getpriority(PRIO_PROCESS, 0);
	attributes.runtime_ns = DRAIN_SLICE_NS;
	syscall(SYS_sched_setattr, 0, &attributes, 0);
}

void privileges_raise_descriptors(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
		return;
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
}

int privileges_drop(const struct identity *identity, struct error *error)
{
	cap_t none = cap_init();
	int err = 0;

	if (geteuid() == 0 && (setgroups(0, NULL) != 0 ||
			       setresgid(identity->gid, identity->gid, identity->gid) != 0 ||
			       setresuid(identity->uid, identity->uid, identity->uid) != 0))
		err = error_set(error, errno, "privileges-drop", "cannot become uid %u: %s",
				identity->uid, strerror(errno));
	if (!err && (!none || cap_set_proc(none) != 0 ||
		     prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0))
		err = error_set(error, errno, "privileges-drop",
				"cannot give up capabilities: %s", strerror(errno));
	cap_free(none);
	return err;
}
