/*
 * The wall clock of one program, moved: loaded before libc, it adds to CLOCK_REALTIME the seconds that the
 * file CLOCK_SHIFT begins with, an int64_t, now and whenever somebody changes them.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

static int (*real)(clockid_t id, struct timespec *now);
static const volatile int64_t *shift_s;

__attribute__((constructor)) static void begin(void)
{
	const char *path = getenv("CLOCK_SHIFT");
	int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	void *file = fd >= 0 ? mmap(NULL, sizeof(*shift_s), PROT_READ, MAP_SHARED, fd, 0) : MAP_FAILED;

	real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
	if (file != MAP_FAILED)
		shift_s = file;
	if (fd >= 0)
		close(fd);
}

int clock_gettime(clockid_t id, struct timespec *now)
{
	int err = real(id, now);

	if (!err && shift_s && id == CLOCK_REALTIME)
		now->tv_sec += *shift_s;
	return err;
}
