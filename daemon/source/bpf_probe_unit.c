#include "daemon/source/bpf_probe_unit.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#define UNITS		"/sys/bus/event_source/devices/"
#define IS_RETURN	1ull	/* format/retprobe has said so since the units were made, */
#define SEMAPHORE_SHIFT	32	/* and format/ref_ctr_offset this */

void probe_unit_read(const char *name, struct probe_unit *unit)
{
	char path[128];
	FILE *file;

	snprintf(path, sizeof(path), UNITS "%s/type", name);
	file = fopen(path, "re");
	if (!file || fscanf(file, "%u", &unit->type) != 1)
		unit->type = 0;
	if (file)
		fclose(file);
}

/*
 * The event keeps the program attached on every CPU, whichever one it is opened for. The sandbox looks at the
 * arguments as they are in the registers, whole.
 */
int probe_unit_open(const struct probe_unit *unit, const struct probe_place *place)
{
	struct perf_event_attr event = {
		.type = unit->type, .size = sizeof(event),
		.config = (place->is_return ? IS_RETURN : 0) | (uint64_t)place->semaphore << SEMAPHORE_SHIFT,
		.config1 = (uintptr_t)place->of, .config2 = place->offset,
	};
	int fd = (int)syscall(SYS_perf_event_open, &event, -1L, 0L, -1L, PERF_FLAG_FD_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

int probe_unit_link(int event, int program)
{
	int link, err;

	if (event < 0)
		return event;
	link = bpf_link_create(program, event, BPF_PERF_EVENT, NULL);
	err = errno;
	close(event);
	return link < 0 ? -err : link;
}
