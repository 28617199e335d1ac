/*
 * syscall_catalog: every probe that a kernel source offers: the system calls of this architecture
 * and the scheduler's tracepoints, with their fields.
 *
 * Numbers that the headers do not name, up to some way past the last that they do, are nr_NUMBER
 * with arguments arg0 to arg5: a kernel may be newer than the headers.
 *
 * In: the system's headers (names and numbers, at build time) and the kernel's tracefs (arguments,
 * at run time). Out: a catalog, and what a producer must know of each number. Runs once, on the
 * loader's thread.
 */
#ifndef RINGTAIL_DAEMON_SOURCE_SYSCALL_CATALOG_H
#define RINGTAIL_DAEMON_SOURCE_SYSCALL_CATALOG_H

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
 * Sets *catalog, to be freed with ringtail__v1__catalog__free_unpacked(catalog, NULL), and
 * words[number] for each known system call to its SYSCALL_* bits of kmod/bpf/request.h that do not
 * depend on a request; others to 0. Where tracefs can not be read, arguments are arg0 to arg5.
 * -ENOMEM is the only failure.
 */
int syscall_catalog_create(Ringtail__V1__Catalog **catalog, uint32_t words[RT_SYSCALLS_MAX]);

/* A probe of a clock or a counter, with the fields of its provider and no number. NULL: no memory. */
Ringtail__V1__Probe *syscall_catalog_timer(const char *provider, const char *function, const char *name);

/* looks[number]: LOOK_* of kmod/bpf/request.h, of each system call of the catalog. */
void syscall_catalog_looks(const Ringtail__V1__Catalog *catalog, uint32_t looks[RT_SYSCALLS_MAX]);

/* structures[number]: STRUCTURE_* of kmod/bpf/request.h, of each system call; bytes[kind]: of one of that kind. */
void syscall_catalog_structures(const Ringtail__V1__Catalog *catalog, uint64_t structures[RT_SYSCALLS_MAX],
				uint32_t bytes[RT_STRUCTURE_KINDS]);

/*
 * Fills arg[] for the system call that the headers call `name` and returns how many it has; if
 * tracefs does not know it, or is -1, six of them that say nothing.
 */
unsigned syscall_args_read(int tracefs, const char *name,
			   struct syscall_arg arg[RT_SYSCALL_ARGS_MAX]);

/* Whether a call's error says little without the file or address it names: SOURCE_FILE_STRINGS. */
bool syscall_names_file(const char *name);

#endif
