#include "daemon/source/bpf_preempted.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/perf_event.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "daemon/base/log.h"
#include "daemon/source/bpf_check.h"
#include "daemon/source/bpf_image.h"
#include "daemon/source/bpf_objects.h"
#include "daemon/source/tracepoints.h"

static const struct by_perf {
	enum source_bpf_program program;
	const char *name;		/* of the program */
	const char *id;			/* below tracefs */
} by_perf[] = {
	{PROGRAM_SYS_ENTER, "sys_enter", "events/raw_syscalls/sys_enter/id"},
	{PROGRAM_SYS_EXIT, "sys_exit", "events/raw_syscalls/sys_exit/id"},
};

#define BY_PERF (sizeof(by_perf) / sizeof(by_perf[0]))

/* The number in a file; -1: it cannot be read. */
static int64_t read_number(int directory, const char *path)
{
	int fd = openat(directory, path, O_RDONLY | O_CLOEXEC);
	FILE *file = fd < 0 ? NULL : fdopen(fd, "r");
	int64_t number;

	if (!file) {
		if (fd >= 0)
			close(fd);
		return -1;
	}
	if (fscanf(file, "%" SCNd64, &number) != 1)
		number = -1;
	fclose(file);
	return number;
}

/* What Debian's kernels have above 2 forbids perf events to whoever has not CAP_SYS_ADMIN, as the loader later. */
static bool is_paranoid(void)
{
	return read_number(AT_FDCWD, "/proc/sys/kernel/perf_event_paranoid") > 2;
}

static bool find_tracepoints(struct source_bpf_objects *objects)
{
	int tracefs = tracepoints_open_tracefs();
	int64_t id[BY_PERF];
	bool found = tracefs >= 0;

	for (unsigned i = 0; i < BY_PERF && found; i++) {
		id[i] = read_number(tracefs, by_perf[i].id);
		found = id[i] > 0 && id[i] <= UINT32_MAX;
	}
	for (unsigned i = 0; i < BY_PERF && found; i++)
		objects->tracepoint[by_perf[i].program] = (uint32_t)id[i];
	if (tracefs >= 0)
		close(tracefs);
	return found;
}

void source_bpf_preempted_choose(struct source_bpf_objects *objects)
{
	if (!source_bpf_check_kernel(7, 0))
		return;
	if (is_paranoid())
		log_warn("syscalls-by-raw-tracepoints", "kernel.perf_event_paranoid is above 2: this kernel may refuse"
			 " to run the programs of system calls when a thread is preempted in one, and the stream says"
			 " how often; sysctl -w kernel.perf_event_paranoid=2 and a restart of ringtaild avoid that");
	else if (!find_tracepoints(objects))
		log_warn("syscalls-by-raw-tracepoints", "tracefs cannot be read: this kernel may refuse to run the"
			 " programs of system calls when a thread is preempted in one, and the stream says how often;"
			 " start ringtaild as root, or by its unit, and that does not happen");
}

void source_bpf_preempted_change(const struct source_bpf_objects *objects, struct source_bpf_images *images)
{
	for (unsigned i = 0; i < BY_PERF; i++)
		if (objects->tracepoint[by_perf[i].program])
			source_bpf_image_by_perf(images, by_perf[i].name);
}

/*
 * The event keeps the program attached on every CPU, whichever one it is opened for. The sandbox looks at the
 * arguments as they are in the registers, whole.
 */
int source_bpf_perf_attach(uint32_t tracepoint, int program)
{
	struct perf_event_attr event = {
		.type = PERF_TYPE_TRACEPOINT, .size = sizeof(event), .config = tracepoint,
	};
	int fd = (int)syscall(SYS_perf_event_open, &event, -1L, 0L, -1L, PERF_FLAG_FD_CLOEXEC);
	int link = fd < 0 ? -1 : bpf_link_create(program, fd, BPF_PERF_EVENT, NULL), err = errno;

	if (fd >= 0)
		close(fd);
	errno = err;
	return link < 0 ? -1 : link;
}
