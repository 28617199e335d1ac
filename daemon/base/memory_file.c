#include "daemon/base/memory_file.h"

#include <errno.h>
#include <sys/mman.h>

/* Of Linux 6.3; these headers may be older. */
#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008u
#endif

int memory_file_create(const char *name, bool sealable)
{
	int fd = memfd_create(name, MFD_CLOEXEC | MFD_NOEXEC_SEAL);

	if (fd < 0 && errno == EINVAL)
		fd = memfd_create(name, MFD_CLOEXEC | (sealable ? MFD_ALLOW_SEALING : 0));
	return fd < 0 ? -errno : fd;
}
