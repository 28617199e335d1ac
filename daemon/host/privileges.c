#include "daemon/host/privileges.h"

#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <sched.h>
#include <string.h>
#include <sys/capability.h>
#include <sys/fsuid.h>
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

#define READER_NICE (-10)
#define READER_SLICE_NS 100000	/* the kernel's least */

int privileges_find(const char *user, struct account *account, struct error *error)
{
	const struct passwd *entry;

	*account = (struct account){.uid = geteuid(), .gid = getegid()};
	if (geteuid() != 0)
		return 0;
	entry = getpwnam(user);
	if (!entry) {
		error_set(error, ENOENT, "user-unknown", "there is no user '%s' to run as", user);
		error_hint(error, "make it with `systemd-sysusers ringtail.conf`, or with `useradd"
			   " --system --user-group %s`; or name another, which no other program runs"
			   " as, with --user", user);
		return -ENOENT;
	}
	*account = (struct account){.uid = entry->pw_uid, .gid = entry->pw_gid};
	return 0;
}

void privileges_raise_priority(void)
{
	struct sched_attributes attributes = {.size = sizeof(attributes), .policy = SCHED_OTHER};

	if (getpriority(PRIO_PROCESS, 0) > READER_NICE)
		setpriority(PRIO_PROCESS, 0, READER_NICE);
	/* Since Linux 6.12 a normal task may ask for short slices, and so for early deadlines: it is
	 * picked sooner when it wakes, for no more CPU time than others get. Before, it is ignored. */
	attributes.nice = getpriority(PRIO_PROCESS, 0);
	attributes.runtime_ns = READER_SLICE_NS;
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

/* ---- The loader's user ------------------------------------------------------------------------ */

#define LOADER_USER	"ringtail-loader"
/* Of these neither systemd nor a distribution gives any to anybody (systemd's UIDS-GIDS.md). */
#define LOADER_UID_MIN	65520
#define LOADER_UID_MAX	65533

static bool has_capability(cap_value_t capability)
{
	cap_flag_value_t has = CAP_CLEAR;
	cap_t now = cap_get_proc();

	if (now)
		cap_get_flag(now, capability, CAP_EFFECTIVE, &has);
	cap_free(now);
	return has == CAP_SET;
}

static bool may_change_user(void)
{
	return has_capability(CAP_SETUID) && has_capability(CAP_SETGID);
}

static bool find_loader_account(struct account *loader)
{
	const struct passwd *entry = getpwnam(LOADER_USER);

	if (entry)
		*loader = (struct account){.uid = entry->pw_uid, .gid = entry->pw_gid};
	return entry;
}

static bool find_number(const struct account *engine, struct account *loader)
{
	for (uid_t id = LOADER_UID_MIN; id <= LOADER_UID_MAX; id++) {
		if (id == engine->uid || getpwuid(id) || getgrgid(id))
			continue;
		*loader = (struct account){.uid = id, .gid = id};
		return true;
	}
	return false;
}

int privileges_find_loader(const struct account *engine, struct account *loader,
			   struct error *error)
{
	*loader = (struct account){.uid = geteuid(), .gid = getegid()};
	if (!may_change_user() || ((find_loader_account(loader) || find_number(engine, loader)) &&
				   loader->uid != 0 && loader->uid != engine->uid))
		return 0;
	error_set(error, EINVAL, "loader-user", "there is no user for the loader: " LOADER_USER
		  " is missing, root, or the engine's user");
	error_hint(error, "make one: useradd --system --no-create-home --shell /usr/sbin/nologin "
		   LOADER_USER);
	return -EINVAL;
}

void privileges_open_as_root(bool on)
{
	if (geteuid() != 0)
		setfsuid(on ? 0 : geteuid());
}

/* ---- Giving up ------------------------------------------------------------------------------- */

static int become(const struct account *account, struct error *error)
{
	if (may_change_user() &&
	    (prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) != 0 || setgroups(0, NULL) != 0 ||
	     setresgid(account->gid, account->gid, account->gid) != 0 ||
	     setresuid(account->uid, account->uid, account->uid) != 0))
		return error_set(error, errno, "privileges-drop", "cannot become uid %u: %s",
				 account->uid, strerror(errno));
	return 0;
}

/* What can never be had again: of those who may say so. */
static void forget_bounds(void)
{
	for (unsigned long i = 0; has_capability(CAP_SETPCAP) && i <= CAP_LAST_CAP; i++)
		prctl(PR_CAPBSET_DROP, i, 0, 0, 0);
}

/* Those of `keep` that this process has; what is inherited or ambient goes, too. */
static int set_capabilities(const cap_value_t *keep, size_t count)
{
	cap_t now = cap_get_proc(), next = cap_init();
	int err = now && next ? 0 : -ENOMEM;

	for (size_t i = 0; !err && i < count; i++) {
		cap_flag_value_t has = CAP_CLEAR;

		if (cap_get_flag(now, keep[i], CAP_PERMITTED, &has) != 0 ||
		    cap_set_flag(next, CAP_PERMITTED, 1, &keep[i], has) != 0 ||
		    cap_set_flag(next, CAP_EFFECTIVE, 1, &keep[i], has) != 0)
			err = -errno;
	}
	if (!err && cap_set_proc(next) != 0)
		err = -errno;
	cap_free(now);
	cap_free(next);
	return err;
}

int privileges_keep(const struct account *account, const cap_value_t *keep, size_t count,
		    struct error *error)
{
	int err;

	forget_bounds();
	err = become(account, error);
	if (err)
		return err;
	err = set_capabilities(keep, count);
	if (!err && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
		err = -errno;
	return err ? error_set(error, -err, "privileges-drop", "cannot give up capabilities: %s",
			       strerror(-err))
		   : 0;
}

int privileges_give_up(struct error *error)
{
	int err = set_capabilities(NULL, 0);

	return err ? error_set(error, -err, "privileges-drop", "cannot give up capabilities: %s",
			       strerror(-err))
		   : 0;
}

int privileges_drop(const struct account *account, struct error *error)
{
	return privileges_keep(account, NULL, 0, error);
}
