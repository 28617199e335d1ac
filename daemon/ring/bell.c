#include "daemon/ring/bell.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int bell_init(struct bell *bell, enum ring_bell kind, int fd, struct error *error)
{
	long page = sysconf(_SC_PAGESIZE);
	int err;

	*bell = (struct bell){.kind = kind, .fd = fd};
	/* It is answered also when nobody rang: that must not wait. Only this side ever reads it. */
	if (kind == RING_BELL_EVENTFD && fcntl(fd, F_SETFL, O_NONBLOCK) != 0)
		return error_set(error, errno, "bell-flags", "cannot set a ring's bell up: %s",
				 strerror(errno));
	if (kind != RING_BELL_BPF_RINGBUF)
		return 0;
	/* linux/bpf.h: the first page is the consumer's position, the second the producer's. */
	bell->consumer = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (bell->consumer == MAP_FAILED) {
		bell->consumer = NULL;
		return error_set(error, errno, "bell-map", "cannot map a ring's bell: %s",
				 strerror(errno));
	}
	bell->producer = mmap(NULL, page, PROT_READ, MAP_SHARED, fd, page);
	if (bell->producer == MAP_FAILED) {
		bell->producer = NULL;
		err = error_set(error, errno, "bell-map", "cannot map a ring's bell: %s",
				strerror(errno));
		bell_fini(bell);
		return err;
	}
	return 0;
}

void bell_fini(struct bell *bell)
{
	long page = sysconf(_SC_PAGESIZE);

	if (bell->consumer)
		munmap(bell->consumer, page);
	if (bell->producer)
		munmap(bell->producer, page);
	bell->consumer = bell->producer = NULL;
}

void bell_answer(struct bell *bell)
{
	uint64_t count;

	switch (bell->kind) {
	case RING_BELL_EVENTFD:
		while (read(bell->fd, &count, sizeof(count)) < 0 && errno == EINTR)
			;
		break;
	case RING_BELL_BPF_RINGBUF:
		/* What was said does not matter, only that something was. */
		atomic_store_explicit((_Atomic unsigned long *)bell->consumer,
				      atomic_load_explicit((_Atomic unsigned long *)bell->producer,
							   memory_order_acquire),
				      memory_order_release);
		break;
	case RING_BELL_POLL:
		break;
	}
}
