#include "daemon/source/syscall_args.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>

#define FORMAT_BYTES_MAX 8192

/* ---- tracefs ----------------------------------------------------------------------------- */

int syscall_args_open_tracefs(void)
{
	static const char *const place[] = { "/sys/kernel/tracing", "/sys/kernel/debug/tracing" };
	int fs, mount, fd;

	for (unsigned i = 0; i < sizeof(place) / sizeof(place[0]); i++) {
		fd = open(place[i], O_PATH | O_DIRECTORY | O_CLOEXEC);
		if (fd < 0)
			continue;
		if (!faccessat(fd, "events/syscalls", R_OK, AT_EACCESS))
			return fd;
		close(fd);
	}
	fs = fsopen("tracefs", FSOPEN_CLOEXEC);
	if (fs < 0)
		return -errno;
	if (fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0)) {
		mount = -errno;
	} else {
		mount = fsmount(fs, FSMOUNT_CLOEXEC, MOUNT_ATTR_RDONLY);
		if (mount < 0)
			mount = -errno;
	}
	close(fs);
	return mount;
}

/*
 * Opens the format of a system call. tracefs names it after the kernel's function, which is not
 * always the call: fstat is newfstat, sendfile is sendfile64, umount2 is umount. The first that is
 * there of: the name, new + name, name + 64, the name without its digits.
 */
static int open_format(int tracefs, const char *name)
{
	static const char *const prefix[] = { "", "new", "", "" };
	static const char *const suffix[] = { "", "", "64", "" };
	int bytes = strlen(name), fd = -ENOENT;
	char path[128];

	for (unsigned i = 0; i < sizeof(prefix) / sizeof(prefix[0]) && fd < 0; i++) {
		if (i == 3)
			while (bytes > 0 && isdigit((unsigned char)name[bytes - 1]))
				bytes--;
		snprintf(path, sizeof(path), "events/syscalls/sys_enter_%s%.*s%s/format", prefix[i],
			 bytes, name, suffix[i]);
		fd = openat(tracefs, path, O_RDONLY | O_CLOEXEC);
	}
	return fd;
}

/* ---- types ------------------------------------------------------------------------------- */

static bool text_ends(const char *text, const char *end)
{
	size_t bytes = strlen(text), end_bytes = strlen(end);

	return bytes >= end_bytes && !strcmp(text + bytes - end_bytes, end);
}

static bool text_in(const char *text, const char *const *list)
{
	for (; *list; list++)
		if (!strcmp(text, *list))
			return true;
	return false;
}

/* The type without what says nothing about its size: const, __, __kernel_. */
static const char *type_core(const char *c_type)
{
	if (!strncmp(c_type, "const ", 6))
		c_type += 6;
	if (!strncmp(c_type, "__kernel_", 9))
		return c_type + 9;
	if (!strncmp(c_type, "__", 2))
		return c_type + 2;
	return c_type;
}

/*
 * A string is a const char * (or a char * that is called a name, or a type as mount's is), unless a
 * length comes next: then it is a buffer.
 */
static bool arg_is_string(const struct syscall_arg *arg, const struct syscall_arg *next)
{
	bool is_called_text = strstr(arg->name, "name") || !strcmp(arg->name, "type");

	if (strcmp(arg->c_type, "const char *") &&
	    (strcmp(arg->c_type, "char *") || !is_called_text))
		return false;
	return !next || (strcmp(next->c_type, "size_t") && !text_ends(next->name, "len"));
}

bool syscall_arg_is_address(const struct syscall_arg *arg)
{
	return !strcmp(arg->c_type, "struct sockaddr *");
}

static void arg_set_integer_type(struct syscall_arg *arg)
{
	static const char *const signed32[] = { "int", "s32", "pid_t", "clockid_t", "timer_t",
						"mqd_t", "key_t", "key_serial_t", "rwf_t", NULL };
	static const char *const signed64[] = { "long", "loff_t", "off_t", "ssize_t", "s64",
						"time_t", NULL };
	static const char *const unsigned32[] = { "unsigned int", "unsigned", "u32", "uid_t",
						  "gid_t", "qid_t", NULL };
	static const char *const bitset[] = { "flag", "prot", "mode", "mask", "addr", NULL };
	const char *core = type_core(arg->c_type);

	if (text_in(core, signed32)) {
		arg->type = RINGTAIL__V1__FIELD_TYPE__FIELD_SIGNED;
		arg->bits = 32;
	} else if (text_in(core, signed64)) {
		arg->type = RINGTAIL__V1__FIELD_TYPE__FIELD_SIGNED;
		arg->bits = 64;
	} else {
		arg->type = RINGTAIL__V1__FIELD_TYPE__FIELD_UNSIGNED;
		arg->bits = text_in(core, unsigned32) || !strncmp(core, "enum ", 5) ? 32 :
			    !strcmp(core, "umode_t") ? 16 : 64;
	}
	/* Also mmap()'s, an unsigned long: the kernel looks at its lower half, and there -1 is -1. */
	if (text_ends(arg->name, "fd") || text_ends(arg->name, "fildes")) {
		arg->type = RINGTAIL__V1__FIELD_TYPE__FIELD_FD;
		arg->bits = 32;
		return;
	}
	for (const char *const *word = bitset; *word; word++)
		if (strstr(arg->name, *word))
			arg->type = RINGTAIL__V1__FIELD_TYPE__FIELD_HEX;
}

static void arg_set_type(struct syscall_arg *arg, const struct syscall_arg *next)
{
	if (!strchr(arg->c_type, '*')) {
		arg_set_integer_type(arg);
		return;
	}
	arg->bits = 64;
	arg->type = arg_is_string(arg, next) || syscall_arg_is_address(arg) ?
			    RINGTAIL__V1__FIELD_TYPE__FIELD_STRING :
			    RINGTAIL__V1__FIELD_TYPE__FIELD_HEX;
}

/* ---- the format --------------------------------------------------------------------------- */

/* "field:const char * filename;" -> type and name. */
static bool parse_field(const char *line, struct syscall_arg *arg)
{
	const char *start = strstr(line, "field:"), *end, *name;

	if (!start)
		return false;
	start += strlen("field:");
	end = strchr(start, ';');
	if (!end || !strncmp(start, "__data_loc", 10))
		return false;
	for (name = end; name > start && name[-1] != ' '; name--)
		;
	if (name == start || !strncmp(name, "common_", 7) || !strncmp(name, "__syscall_nr", 12))
		return false;
	snprintf(arg->name, sizeof(arg->name), "%.*s", (int)(end - name), name);
	snprintf(arg->c_type, sizeof(arg->c_type), "%.*s", (int)(name - 1 - start), start);
	return true;
}

static unsigned unnamed_args(struct syscall_arg arg[RT_SYSCALL_ARGS_MAX])
{
	for (unsigned i = 0; i < RT_SYSCALL_ARGS_MAX; i++) {
		snprintf(arg[i].name, sizeof(arg[i].name), "arg%u", i);
		snprintf(arg[i].c_type, sizeof(arg[i].c_type), "unsigned long");
		arg[i].type = RINGTAIL__V1__FIELD_TYPE__FIELD_HEX;
		arg[i].bits = 64;
	}
	return RT_SYSCALL_ARGS_MAX;
}

unsigned syscall_args_read(int tracefs, const char *name,
			   struct syscall_arg arg[RT_SYSCALL_ARGS_MAX])
{
	int fd = tracefs < 0 ? -1 : open_format(tracefs, name);
	char format[FORMAT_BYTES_MAX], *line, *rest;
	unsigned args = 0;
	ssize_t bytes;

	if (fd < 0)
		return unnamed_args(arg);
	bytes = read(fd, format, sizeof(format) - 1);
	close(fd);
	if (bytes <= 0)
		return unnamed_args(arg);
	format[bytes] = '\0';
	for (line = strtok_r(format, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
		if (args < RT_SYSCALL_ARGS_MAX && parse_field(line, &arg[args]))
			args++;
	for (unsigned i = 0; i < args; i++)
		arg_set_type(&arg[i], i + 1 < args ? &arg[i + 1] : NULL);
	return args;
}
