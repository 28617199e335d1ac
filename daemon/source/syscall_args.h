/*
 * syscall_args: the arguments of one system call, as the kernel's tracefs declares them.
 *
 * In: events/syscalls/sys_enter_NAME/format. Out: a name, a C type and a FieldType for each. Runs on
 * the loader's thread.
 */
#ifndef RINGTAIL_DAEMON_SOURCE_SYSCALL_ARGS_H
#define RINGTAIL_DAEMON_SOURCE_SYSCALL_ARGS_H

#include <stdbool.h>
#include <stdint.h>

#include "kmod/uapi/ringtail.h"
#include "proto/ringtail.pb-c.h"

#define SYSCALL_ARG_TEXT_BYTES 64

struct syscall_arg {
	char name[SYSCALL_ARG_TEXT_BYTES];
	char c_type[SYSCALL_ARG_TEXT_BYTES];
	Ringtail__V1__FieldType type;
	uint32_t bits;
};

/*
 * The root of tracefs: where it is mounted, or else a mount of our own that nobody else sees, which
 * takes CAP_SYS_ADMIN. A descriptor to close, or -errno.
 */
int syscall_args_open_tracefs(void);

/* Whether it is the address of a socket: its text is made of a struct sockaddr. */
bool syscall_arg_is_address(const struct syscall_arg *arg);

/*
 * Fills arg[] for the system call that the headers call `name` and returns how many it has; if
 * tracefs does not know it, or is -1, six of them that say nothing.
 */
unsigned syscall_args_read(int tracefs, const char *name,
			   struct syscall_arg arg[RT_SYSCALL_ARGS_MAX]);

#endif
