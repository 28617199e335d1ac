#include "daemon/host/privileges.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <pwd.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/capability.h>
#include <sys/fsuid.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
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
	/* Who has no others need not ask: a unit's filter may refuse the call. */
	if (!err && cap_compare(now, next) != 0 && cap_set_proc(next) != 0)
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

/* ---- Working as the engine's user: whose a path is ------------------------------------------- */

#define LINKS_MAX 8	/* followed on one path */

/* A path on its way: the directory that was reached, and what is left to go. */
struct walk {
	int at;
	unsigned links;
	char rest[PATH_MAX];
};

/* Whether that directory's entry, or the lack of one (NULL), is root's to change alone. */
static bool is_roots(int directory, const struct stat *entry)
{
	struct stat about;

	if (fstat(directory, &about) != 0 || !S_ISDIR(about.st_mode) || about.st_uid != 0)
		return false;
	if (!(about.st_mode & (S_IWGRP | S_IWOTH)))
		return true;
	/* As in /tmp: who owns an entry may change it. */
	return about.st_mode & S_ISVTX && entry && entry->st_uid == 0;
}

static bool go_to(struct walk *walk, int fd)
{
	if (fd < 0)
		return false;
	if (walk->at >= 0)
		close(walk->at);
	walk->at = fd;
	return true;
}

static bool go_to_root(struct walk *walk)
{
	return go_to(walk, open("/", O_PATH | O_DIRECTORY | O_CLOEXEC));
}

/* A link that root made leads on from where it lies. Closes it. */
static bool follow(struct walk *walk, int link)
{
	char target[PATH_MAX], rest[PATH_MAX];
	ssize_t bytes = readlinkat(link, "", target, sizeof(target) - 1);
	int whole;

	close(link);
	if (bytes <= 0 || ++walk->links > LINKS_MAX)
		return false;
	target[bytes] = '\0';
	whole = snprintf(rest, sizeof(rest), "%s/%s", target, walk->rest);
	if (whole < 0 || (size_t)whole >= sizeof(rest))
		return false;
	memcpy(walk->rest, rest, (size_t)whole + 1);
	return *target != '/' || go_to_root(walk);
}

/* Takes the next name off the rest. */
static bool next_name(struct walk *walk, char name[NAME_MAX + 1])
{
	size_t skip = strspn(walk->rest, "/"), bytes = strcspn(walk->rest + skip, "/");

	if (!bytes || bytes > NAME_MAX)
		return false;
	memcpy(name, walk->rest + skip, bytes);
	name[bytes] = '\0';
	memmove(walk->rest, walk->rest + skip + bytes, strlen(walk->rest + skip + bytes) + 1);
	return true;
}

/* To the last directory that is there. False: on the way is one that others may change. */
static bool walk_on(struct walk *walk)
{
	char name[NAME_MAX + 1];
	struct stat about;
	int fd;

	while (next_name(walk, name)) {
		fd = openat(walk->at, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
		if (fd < 0)
			return errno == ENOENT && is_roots(walk->at, NULL);
		if (fstat(fd, &about) != 0 || !is_roots(walk->at, &about)) {
			close(fd);
			return false;
		}
		if (S_ISLNK(about.st_mode) ? !follow(walk, fd) : !go_to(walk, fd))
			return false;
	}
	return strspn(walk->rest, "/") == strlen(walk->rest);
}

/*
 * Whether nobody but root can change which directory the path's last name is in. That one may be anybody's:
 * to make a name follows none that is there.
 */
static bool only_root_changes(const char *path)
{
	struct walk walk = {.at = -1};
	char *here = *path == '/' ? NULL : getcwd(NULL, 0);
	int whole = snprintf(walk.rest, sizeof(walk.rest), "%s/%s", here ? here : "", path);
	char *last = strrchr(walk.rest, '/');
	bool good = false;

	free(here);
	if (whole > 0 && (size_t)whole < sizeof(walk.rest) && last) {
		*last = '\0';		/* the last name itself */
		good = go_to_root(&walk) && walk_on(&walk);
	}
	if (walk.at >= 0)
		close(walk.at);
	return good;
}

/* ---- Working as the engine's user: whose rights ---------------------------------------------- */

/* What the user has not, for as long as it works in root's directories. */
static int raise_override(void)
{
	static const cap_value_t override[] = {CAP_DAC_OVERRIDE};
	cap_t have = cap_get_proc();
	int err = 0;

	if (!have || cap_set_flag(have, CAP_EFFECTIVE, 1, override, CAP_SET) != 0 ||
	    cap_set_proc(have) != 0)
		err = -errno;
	cap_free(have);
	return err;
}

/* The kernel takes root's rights over files away with the file system's user id, and gives them back. */
static int work_as(const struct account *user, bool overrides, privileges_work *work, void *context)
{
	int groups = getgroups(0, NULL), err = 0;
	gid_t *group = calloc((size_t)(groups > 0 ? groups : 0) + 1, sizeof(*group));

	if (!group)
		return -ENOMEM;
	if (groups < 0 || getgroups(groups, group) < 0 || setgroups(0, NULL) != 0) {
		err = -errno;
		free(group);
		return err;
	}
	setfsgid(user->gid);
	setfsuid(user->uid);
	if ((uid_t)setfsuid((uid_t)-1) != user->uid || (gid_t)setfsgid((gid_t)-1) != user->gid)
		err = -EPERM;
	if (!err && overrides)
		err = raise_override();
	if (!err)
		err = work(context);
	setfsuid(geteuid());
	setfsgid(getegid());
	if (setgroups((size_t)groups, group) != 0 && !err)
		err = -errno;
	free(group);
	return err;
}

int privileges_work_as(const struct account *user, const char *path, privileges_work *work,
		       void *context)
{
	int err;

	if (geteuid() != 0 || user->uid == 0)
		return work(context);
	err = work_as(user, false, work, context);
	if ((err == -EACCES || err == -EPERM) && only_root_changes(path))
		err = work_as(user, true, work, context);
	return err;
}

struct directory {
	const char *path;
	mode_t mode;
};

static int make_directory(void *context)
{
	const struct directory *directory = context;
	mode_t before = umask(0);
	int err = mkdir(directory->path, directory->mode) == 0 || errno == EEXIST ? 0 : -errno;

	umask(before);
	return err;
}

int privileges_make_directory(const struct account *user, const char *path, mode_t mode)
{
	struct directory directory = {.path = path, .mode = mode};

	return privileges_work_as(user, path, make_directory, &directory);
}
