/*
 * Lists are of what the C library calls, which is not always what the
 * program does: each row that would surprise says whose it is.
 */
#include "daemon/host/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <linux/netlink.h>
#include <linux/perf_event.h>
#include <sched.h>
#include <seccomp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* libseccomp's comparisons leave their second number out; clang, which fuzzes, says so. */
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

/* Memory, time, signals, threads and what is open: both processes. */
static const int common[] = {
	SCMP_SYS(brk),		SCMP_SYS(munmap),	SCMP_SYS(mremap),	SCMP_SYS(madvise),
	SCMP_SYS(futex),	SCMP_SYS(sched_yield),	SCMP_SYS(getrandom),	SCMP_SYS(restart_syscall),
	SCMP_SYS(clock_gettime), SCMP_SYS(clock_getres), SCMP_SYS(gettimeofday), SCMP_SYS(time),
	SCMP_SYS(clock_nanosleep), SCMP_SYS(nanosleep),
	SCMP_SYS(rt_sigaction),	SCMP_SYS(rt_sigprocmask), SCMP_SYS(rt_sigreturn),
	SCMP_SYS(sigaltstack),	SCMP_SYS(getpid),	SCMP_SYS(gettid),
	SCMP_SYS(exit),		SCMP_SYS(exit_group),	SCMP_SYS(getrusage),
	SCMP_SYS(getuid),	SCMP_SYS(geteuid),	SCMP_SYS(getgid),	SCMP_SYS(getegid),
	SCMP_SYS(uname),	SCMP_SYS(sysinfo),	SCMP_SYS(sched_getaffinity),
	SCMP_SYS(getcpu),
	SCMP_SYS(read),		SCMP_SYS(readv),	SCMP_SYS(pread64),	SCMP_SYS(write),
	SCMP_SYS(writev),	SCMP_SYS(close),	SCMP_SYS(lseek),	SCMP_SYS(dup),
	SCMP_SYS(fstat),
	SCMP_SYS(poll),		SCMP_SYS(ppoll),	SCMP_SYS(recvmsg),	SCMP_SYS(sendmsg),
	SCMP_SYS(shutdown),
	SCMP_SYS(fcntl),	SCMP_SYS(set_robust_list), SCMP_SYS(rseq),	SCMP_SYS(membarrier),
};

static const int engine_calls[] = {
	/* The loop; the loader's end. */
	SCMP_SYS(wait4),
	SCMP_SYS(epoll_ctl),	SCMP_SYS(epoll_wait),	SCMP_SYS(epoll_pwait),	SCMP_SYS(epoll_pwait2),
	SCMP_SYS(epoll_create1), SCMP_SYS(eventfd2),	SCMP_SYS(pipe2),
	SCMP_SYS(timerfd_create), SCMP_SYS(timerfd_settime),
	/* Clients. */
	SCMP_SYS(accept4),	SCMP_SYS(connect),	SCMP_SYS(recvfrom),	SCMP_SYS(sendto),
	SCMP_SYS(getsockname),	SCMP_SYS(getpeername),	SCMP_SYS(getsockopt),	SCMP_SYS(setsockopt),
	SCMP_SYS(memfd_create),	/* what clients want, for the next run; a long line of the journal */
	/* The state directory, and configuration that is read again. */
	SCMP_SYS(newfstatat),	SCMP_SYS(statx),	SCMP_SYS(openat),	SCMP_SYS(getdents64),
	SCMP_SYS(readlink),	SCMP_SYS(readlinkat),
	SCMP_SYS(open),		SCMP_SYS(stat),		SCMP_SYS(lstat),	SCMP_SYS(access),
	SCMP_SYS(faccessat),	SCMP_SYS(faccessat2),	SCMP_SYS(statfs),	SCMP_SYS(fstatfs),
	SCMP_SYS(pwrite64),	SCMP_SYS(pwritev),	SCMP_SYS(pwritev2),	SCMP_SYS(preadv),
	SCMP_SYS(fsync),	SCMP_SYS(fdatasync),	SCMP_SYS(sync_file_range),
	SCMP_SYS(ftruncate),	SCMP_SYS(fallocate),	SCMP_SYS(flock),
	SCMP_SYS(rename),	SCMP_SYS(renameat),	SCMP_SYS(renameat2),
	SCMP_SYS(unlink),	SCMP_SYS(unlinkat),	SCMP_SYS(mkdir),	SCMP_SYS(mkdirat),
	SCMP_SYS(fchmod),	SCMP_SYS(fadvise64),
};

/* What libcurl and the resolver of the C library take besides. */
static const int resolver_calls[] = {
	SCMP_SYS(bind),		SCMP_SYS(sendmmsg),	SCMP_SYS(recvmmsg),	SCMP_SYS(socketpair),
	SCMP_SYS(timerfd_gettime),
};

/* Programs are attached and detached, the module is told. Whatever has a path was opened before. */
static const int loader_calls[] = {
	SCMP_SYS(bpf),		SCMP_SYS(ioctl),
	SCMP_SYS(pipe2),	/* the barrier of source_bpf_objects */
	SCMP_SYS(memfd_create),	/* for the engine: probes that were made, threads that are in a call */
};

/* Files are opened, and a reader is forked for each, which gives up all of this. */
static const int finder_calls[] = {
	SCMP_SYS(open),		SCMP_SYS(openat),	SCMP_SYS(openat2),	SCMP_SYS(newfstatat),
	SCMP_SYS(pipe2),	SCMP_SYS(wait4),	SCMP_SYS(seccomp),	SCMP_SYS(prctl),
	SCMP_SYS(capget),	SCMP_SYS(capset),	SCMP_SYS(memfd_create),
};

/* Of libringtail, librdkafka, and the resolver of the C library. */
static const int courier_calls[] = {
	SCMP_SYS(epoll_ctl),	SCMP_SYS(epoll_wait),	SCMP_SYS(epoll_pwait),	SCMP_SYS(epoll_create1),
	SCMP_SYS(eventfd2),	SCMP_SYS(signalfd4),	SCMP_SYS(pipe2),	SCMP_SYS(pipe),
	SCMP_SYS(connect),	SCMP_SYS(recvfrom),	SCMP_SYS(sendto),	SCMP_SYS(getsockname),
	SCMP_SYS(getpeername),	SCMP_SYS(getsockopt),	SCMP_SYS(setsockopt),
	SCMP_SYS(newfstatat),	SCMP_SYS(stat),		SCMP_SYS(lstat),	SCMP_SYS(access),
	SCMP_SYS(faccessat),	SCMP_SYS(faccessat2),	SCMP_SYS(readlink),	SCMP_SYS(readlinkat),
	SCMP_SYS(getdents64),	SCMP_SYS(statx),
	SCMP_SYS(rt_sigtimedwait), SCMP_SYS(sched_getscheduler), SCMP_SYS(getppid),
};

/* The names of a file's probes go into memory. */
static const int reader_calls[] = {
	SCMP_SYS(memfd_create),
};

static int allow(scmp_filter_ctx filter, const int *call, size_t calls)
{
	int err = 0;

	/* A call that this architecture does not have has a negative number, and is left out. */
	for (size_t i = 0; !err && i < calls; i++)
		if (call[i] >= 0)
			err = seccomp_rule_add(filter, SCMP_ACT_ALLOW, call[i], 0);
	return err;
}

/* Memory that can be executed is what an intruder wants. */
static int allow_data_memory(scmp_filter_ctx filter)
{
	struct scmp_arg_cmp no_code = SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0);
	int err = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(mmap), 1, no_code);

	return err ? err : seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(mprotect), 1, no_code);
}

/* prctl: threads have names. tgkill: abort(). */
static int allow_own(scmp_filter_ctx filter)
{
	int err = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(prctl), 1,
				   SCMP_A0(SCMP_CMP_EQ, PR_SET_NAME));

	return err ? err
		   : seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(tgkill), 1,
				      SCMP_A0(SCMP_CMP_EQ, (scmp_datum_t)getpid()));
}

/* A thread, never a process. A filter cannot see clone3's flags: the C library does without. */
static int allow_threads(scmp_filter_ctx filter)
{
	int err = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(clone), 1,
				   SCMP_A0(SCMP_CMP_MASKED_EQ, CLONE_THREAD, CLONE_THREAD));

	return err ? err : seccomp_rule_add(filter, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), 0);
}

static int begin(scmp_filter_ctx *filter)
{
	int err;

	*filter = seccomp_init(SCMP_ACT_KILL_PROCESS);
	if (!*filter)
		return -ENOMEM;
	err = seccomp_attr_set(*filter, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS);
	if (!err)
		err = seccomp_attr_set(*filter, SCMP_FLTATR_CTL_TSYNC, 1);
	if (!err)
		err = allow(*filter, common, LENGTH(common));
	if (!err)
		err = allow_data_memory(*filter);
	if (!err)
		err = allow_own(*filter);
	return err ? err : allow_threads(*filter);
}

/* unix: the service manager, the journal. Who connects to nobody has no other. */
static int allow_sockets(scmp_filter_ctx filter, bool resolves)
{
	static const int family[] = {AF_INET, AF_INET6};
	int err = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(socket), 1,
				   SCMP_A0(SCMP_CMP_EQ, AF_UNIX));

	for (size_t i = 0; resolves && !err && i < LENGTH(family); i++)
		err = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(socket), 1,
				       SCMP_A0(SCMP_CMP_EQ, (scmp_datum_t)family[i]));
	/* The resolver asks which addresses this host has, and copes without. */
	if (resolves && !err)
		err = seccomp_rule_add(filter, SCMP_ACT_ERRNO(EAFNOSUPPORT), SCMP_SYS(socket), 1,
				       SCMP_A0(SCMP_CMP_EQ, AF_NETLINK));
	return err;
}

/*
 * The resolver has its libraries (sandbox_engine_view). Should nsswitch.conf name another one later,
 * the resolver cannot map its code, and does without: that is no reason to end.
 */
static int allow_resolver(scmp_filter_ctx filter)
{
	int err = allow(filter, resolver_calls, LENGTH(resolver_calls));

	return err ? err
		   : seccomp_rule_add(filter, SCMP_ACT_ERRNO(EACCES), SCMP_SYS(mmap), 1,
				      SCMP_A2(SCMP_CMP_EQ, PROT_READ | PROT_EXEC));
}

/* How much is there to read, is that a terminal, what are the limits: asked, never changed. */
static int allow_asking(scmp_filter_ctx filter)
{
	int err = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(ioctl), 1,
				   SCMP_A1(SCMP_CMP_EQ, FIONREAD));

	if (!err)
		err = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(ioctl), 1,
				       SCMP_A1(SCMP_CMP_EQ, TCGETS));
	return err ? err
		   : seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(prlimit64), 1,
				      SCMP_A2(SCMP_CMP_EQ, 0));
}

static int load(scmp_filter_ctx filter, int err, struct error *error)
{
	/* Filters of more than a few rows are searched by halves. */
	if (!err)
		err = seccomp_attr_set(filter, SCMP_FLTATR_CTL_OPTIMIZE, 2);
	if (!err && SANDBOX_FILTERS)
		err = seccomp_load(filter);
	if (filter)
		seccomp_release(filter);
	if (!err)
		return 0;
	error_set(error, -err, "sandbox", "cannot limit the system calls: %s", strerror(-err));
	error_hint(error, "the kernel needs CONFIG_SECCOMP_FILTER, and what started the daemon has to"
			  " let it call seccomp()");
	return err;
}

int sandbox_engine(const struct sandbox_engine *engine, struct error *error)
{
	scmp_filter_ctx filter;
	int err = begin(&filter);

	if (!err)
		err = allow(filter, engine_calls, LENGTH(engine_calls));
	if (!err)
		err = allow_sockets(filter, engine->resolves);
	if (!err && engine->resolves)
		err = allow_resolver(filter);
	if (!err)
		err = allow_asking(filter);
	if (!err)
		err = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(kill), 2,
				       SCMP_A0(SCMP_CMP_EQ, (scmp_datum_t)engine->loader),
				       SCMP_A1(SCMP_CMP_EQ, SIGKILL));
	return load(filter, err, error);
}

/* The clocks of profile:hz:*: events of a CPU, never of one process. */
static int allow_cpu_events(scmp_filter_ctx filter)
{
	return seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(perf_event_open), 3,
				SCMP_A1(SCMP_CMP_EQ, (scmp_datum_t)-1),
				SCMP_A3(SCMP_CMP_EQ, (scmp_datum_t)-1),
				SCMP_A4(SCMP_CMP_EQ, PERF_FLAG_FD_CLOEXEC));
}

/* Configuration, certificates, keys: nothing is written. */
static int allow_reading(scmp_filter_ctx filter)
{
	int err = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(openat), 1,
				   SCMP_A2(SCMP_CMP_MASKED_EQ, O_ACCMODE | O_CREAT | O_TRUNC, O_RDONLY));

	return err ? err
		   : seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(open), 1,
				      SCMP_A1(SCMP_CMP_MASKED_EQ, O_ACCMODE | O_CREAT | O_TRUNC, O_RDONLY));
}

int sandbox_courier(struct error *error)
{
	scmp_filter_ctx filter;
	int err = begin(&filter);

	if (!err)
		err = allow(filter, courier_calls, LENGTH(courier_calls));
	if (!err)
		err = allow_reading(filter);
	if (!err)
		err = allow_sockets(filter, true);
	if (!err)
		err = allow_resolver(filter);
	if (!err)
		err = allow_asking(filter);
	return load(filter, err, error);
}

int sandbox_loader(struct error *error)
{
	scmp_filter_ctx filter;
	int err = begin(&filter);

	if (!err)
		err = allow(filter, loader_calls, LENGTH(loader_calls));
	if (!err)
		err = allow_cpu_events(filter);
	return load(filter, err, error);
}

/* A process, as fork(2) makes it; and its end, should it take too long. */
static int allow_readers(scmp_filter_ctx filter)
{
	int err = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(clone), 1,
				   SCMP_A0(SCMP_CMP_MASKED_EQ, CLONE_VM | CLONE_NEWUSER | 0xff, SIGCHLD));

	return err ? err : seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(kill), 1,
					    SCMP_A1(SCMP_CMP_EQ, SIGKILL));
}

int sandbox_finder(bool attaches, struct error *error)
{
	scmp_filter_ctx filter;
	int err = begin(&filter);

	if (!err)
		err = allow(filter, finder_calls, LENGTH(finder_calls));
	if (!err && attaches)
		err = allow_cpu_events(filter);
	if (!err)
		err = allow_readers(filter);
	return load(filter, err, error);
}

int sandbox_reader(struct error *error)
{
	scmp_filter_ctx filter;
	int err = begin(&filter);

	if (!err)
		err = allow(filter, reader_calls, LENGTH(reader_calls));
	return load(filter, err, error);
}

/* ---- The view: which places ------------------------------------------------------------------ */

#define UNIT_VIEWS "/ringtail"	/* TemporaryFileSystem= of systemd/ringtaild.service */
#define ROOT_BYTES_MAX "256k"	/* of the empty tree: directories and files to mount on */

static char *make_absolute(const char *path)
{
	char *here, *absolute = NULL;

	if (*path == '/')
		return strdup(path);
	here = getcwd(NULL, 0);
	if (here && asprintf(&absolute, "%s/%s", here, path) < 0)
		absolute = NULL;
	free(here);
	return absolute;
}

static struct sandbox_place *find(struct sandbox_view *view, const char *path)
{
	for (unsigned i = 0; i < view->count; i++)
		if (strcmp(view->place[i].path, path) == 0)
			return &view->place[i];
	return NULL;
}

int sandbox_view_add(struct sandbox_view *view, const char *path, enum sandbox_access access)
{
	struct sandbox_place *place;
	char *absolute;

	if (faccessat(AT_FDCWD, path, F_OK, AT_EACCESS) != 0)
		return 0;
	absolute = make_absolute(path);
	if (!absolute)
		return -ENOMEM;
	place = find(view, absolute);
	if (place) {
		free(absolute);
		if (place->access == SANDBOX_READ)
			place->access = access;
		return 0;
	}
	if (view->count == SANDBOX_PLACES_MAX) {
		free(absolute);
		return -E2BIG;
	}
	view->place[view->count++] = (struct sandbox_place){.path = absolute, .access = access};
	return 0;
}

static int add_directory_of(struct sandbox_view *view, const char *path, enum sandbox_access access)
{
	char *copy = strdup(path);
	const char *directory;
	int err;

	if (!copy)
		return -ENOMEM;
	directory = dirname(copy);
	err = sandbox_view_add(view, strcmp(directory, "/") == 0 ? path : directory, access);
	free(copy);
	return err;
}

int sandbox_view_add_file(struct sandbox_view *view, const char *path, enum sandbox_access access)
{
	int err = add_directory_of(view, path, access);
	char *real = realpath(path, NULL);

	if (!err && real)
		err = add_directory_of(view, real, access);
	free(real);
	return err;
}

void sandbox_view_fini(struct sandbox_view *view)
{
	for (unsigned i = 0; i < view->count; i++)
		free(view->place[i].path);
	view->count = 0;
}

/* A place comes before what lies in it, which would be covered otherwise. */
static int compare(const void *a, const void *b)
{
	return strcmp(((const struct sandbox_place *)a)->path,
		      ((const struct sandbox_place *)b)->path);
}

/* ---- The view's tree ------------------------------------------------------------------------- */

/* An empty file system, on top of the old root but not yet the root. */
static int mount_empty(void)
{
	int filesystem = fsopen("tmpfs", FSOPEN_CLOEXEC), root = -1, err = 0;

	if (filesystem < 0)
		return -errno;
	if (fsconfig(filesystem, FSCONFIG_SET_STRING, "mode", "0755", 0) != 0 ||
	    fsconfig(filesystem, FSCONFIG_SET_STRING, "size", ROOT_BYTES_MAX, 0) != 0 ||
	    fsconfig(filesystem, FSCONFIG_CMD_CREATE, NULL, NULL, 0) != 0)
		err = -errno;
	if (!err) {
		root = fsmount(filesystem, FSMOUNT_CLOEXEC,
			       MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC);
		if (root < 0)
			err = -errno;
	}
	close(filesystem);
	if (!err && move_mount(root, "", AT_FDCWD, "/", MOVE_MOUNT_F_EMPTY_PATH) != 0) {
		err = -errno;
		close(root);
	}
	return err ? err : root;
}

/* What the path leads through, as directories; `path` is changed while this runs. */
static int make_parents(int root, char *path)
{
	for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		int err = 0;

		*slash = '\0';
		if (mkdirat(root, path + 1, 0755) != 0 && errno != EEXIST)
			err = -errno;
		*slash = '/';
		if (err)
			return err;
	}
	return 0;
}

static int make_point(int root, char *path, bool is_directory)
{
	int err = make_parents(root, path), fd;

	/* The root itself is there. */
	if (err || !path[1])
		return err;
	if (is_directory)
		return mkdirat(root, path + 1, 0755) != 0 && errno != EEXIST ? -errno : 0;
	if (faccessat(root, path + 1, F_OK, 0) == 0)
		return 0;
	fd = openat(root, path + 1, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	close(fd);
	return 0;
}

static int place_mount(int root, const struct sandbox_place *place, int tree)
{
	struct mount_attr attributes = {
		.attr_set = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC,
	};
	struct stat stat;
	int err;

	if (place->access != SANDBOX_WRITE)
		attributes.attr_set |= MOUNT_ATTR_RDONLY;
	if (fstat(tree, &stat) != 0 || mount_setattr(tree, "", AT_EMPTY_PATH | AT_RECURSIVE,
						     &attributes, sizeof(attributes)) != 0)
		return -errno;
	err = make_point(root, place->path, S_ISDIR(stat.st_mode));
	if (!err && move_mount(tree, "", root, place->path + 1, MOVE_MOUNT_F_EMPTY_PATH) != 0)
		err = -errno;
	return err;
}

/* The old root goes away altogether. Where it is the kernel's first one, it can only be left. */
static int become_root(int root)
{
	struct mount_attr attributes = {.attr_set = MOUNT_ATTR_RDONLY};

	if (mount_setattr(root, "", AT_EMPTY_PATH, &attributes, sizeof(attributes)) != 0 ||
	    fchdir(root) != 0)
		return -errno;
	if (syscall(SYS_pivot_root, ".", ".") == 0)
		return umount2(".", MNT_DETACH) != 0 ? -errno : 0;
	return errno != EINVAL || chroot(".") != 0 ? -errno : 0;
}

static int move_in(const struct sandbox_view *view, const int *tree, char *here)
{
	int root = mount_empty(), err = 0;

	if (root < 0)
		return root;
	for (unsigned i = 0; !err && i < view->count; i++)
		if (tree[i] >= 0)
			err = place_mount(root, &view->place[i], tree[i]);
	if (!err && here)
		err = make_point(root, here, true);
	if (!err)
		err = become_root(root);
	close(root);
	if (!err && chdir(here ? here : "/") != 0 && chdir("/") != 0)
		err = -errno;
	return err;
}

/* Whether the kernel knows the call that makes a mount read-only with all below it. */
static bool can_set_attributes(void)
{
	return mount_setattr(-1, "", 0, NULL, 0) == 0 || errno != ENOSYS;
}

int sandbox_view_enter(struct sandbox_view *view, struct error *error)
{
	char *here = getcwd(NULL, 0);
	int tree[SANDBOX_PLACES_MAX], err = can_set_attributes() ? 0 : -ENOSYS;

	if (!err && unshare(CLONE_NEWNS) != 0)
		err = -errno;
	if (!err && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0)
		err = -errno;
	qsort(view->place, view->count, sizeof(view->place[0]), compare);
	for (unsigned i = 0; i < view->count; i++)
		tree[i] = err ? -1
			      : open_tree(AT_FDCWD, view->place[i].path,
					  OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE);
	if (!err)
		err = move_in(view, tree, here);
	for (unsigned i = 0; i < view->count; i++)
		if (tree[i] >= 0)
			close(tree[i]);
	free(here);
	return err ? error_set(error, -err, "sandbox-view",
			       "cannot leave the host's file system: %s", strerror(-err))
		   : 0;
}

int sandbox_view_of_unit(const char *name, struct error *error)
{
	char path[64];

	snprintf(path, sizeof(path), UNIT_VIEWS "/%s", name);
	if (chroot(path) != 0)
		return errno == EPERM || errno == ENOENT || errno == ENOTDIR
			       ? 0
			       : error_set(error, errno, "sandbox-view", "cannot move into %s: %s",
					   path, strerror(errno));
	if (chdir("/") != 0)
		return error_set(error, errno, "sandbox-view", "cannot move into %s: %s", path,
				 strerror(errno));
	return 1;
}
