#include "daemon/source/bpf_kernel_types.h"

#include <bpf/btf.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define KERNEL_TYPES		"/sys/kernel/btf/vmlinux"
#define KERNEL_TYPES_BYTES_MAX	(64 << 20)

void kernel_types_open(struct kernel_types *types)
{
	struct stat status;

	*types = (struct kernel_types){.fd = open(KERNEL_TYPES, O_RDONLY | O_CLOEXEC)};
	if (types->fd >= 0 && fstat(types->fd, &status) == 0 && status.st_size > 0 &&
	    status.st_size <= KERNEL_TYPES_BYTES_MAX)
		types->bytes = (size_t)status.st_size;
}

void kernel_types_close(struct kernel_types *types)
{
	if (types->fd >= 0)
		close(types->fd);
	types->fd = -1;
}

struct btf *kernel_types_read(const struct kernel_types *types)
{
	size_t bytes = 0;
	uint8_t *content = types->bytes ? malloc(types->bytes) : NULL;
	struct btf *btf = NULL;
	ssize_t got = 1;

	while (content && bytes < types->bytes && got > 0) {
		got = pread(types->fd, content + bytes, types->bytes - bytes, (off_t)bytes);
		if (got > 0)
			bytes += (size_t)got;
	}
	if (content && bytes == types->bytes)
		btf = btf__new(content, (uint32_t)bytes);
	free(content);
	return btf;
}
