#include "daemon/host/sandbox_view.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define UNIT_VIEWS "/ringtail"	/* TemporaryFileSystem= of systemd/ringtaild.service */
#define ROOT_BYTES_MAX "256k"	/* of the empty tree: directories and files to mount on */

/* ---- Which places ---------------------------------------------------------------------------- */

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

/* ---- The tree -------------------------------------------------------------------------------- */

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
