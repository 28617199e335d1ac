/* A bell is answered whatever it is made of, and answering one that nobody rang does not wait. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdbool.h>
#include <stdint.h>
#include <cmocka.h>

#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include "daemon/ring/bell.h"

static bool is_rung(int fd)
{
	struct pollfd wait = {.fd = fd, .events = POLLIN};

	return poll(&wait, 1, 0) == 1;
}

static void test_eventfd(void **state)
{
	int fd = eventfd(0, EFD_CLOEXEC);	/* whose maker did not think of it */
	struct error error;
	struct bell bell;

	(void)state;
	assert_int_equal(bell_init(&bell, RING_BELL_EVENTFD, fd, &error), 0);
	bell_answer(&bell);
	assert_int_equal(eventfd_write(fd, 3), 0);
	assert_true(is_rung(fd));
	bell_answer(&bell);
	assert_false(is_rung(fd));
	bell_fini(&bell);
	assert_int_equal(close(fd), 0);		/* it was only borrowed */
}

static void test_bpf_ringbuf(void **state)
{
	long page = sysconf(_SC_PAGESIZE);
	int fd = memfd_create("bell", MFD_CLOEXEC);
	struct error error;
	unsigned long *pages;
	struct bell bell;

	(void)state;
	assert_int_equal(ftruncate(fd, 2 * page), 0);
	pages = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_ptr_not_equal(pages, MAP_FAILED);
	assert_int_equal(bell_init(&bell, RING_BELL_BPF_RINGBUF, fd, &error), 0);
	pages[page / sizeof(*pages)] = 4096;
	bell_answer(&bell);
	assert_int_equal(pages[0], 4096);
	bell_fini(&bell);
	bell_fini(&bell);
	munmap(pages, 2 * page);
	close(fd);
}

static void test_poll(void **state)
{
	struct error error;
	struct bell bell;

	(void)state;
	assert_int_equal(bell_init(&bell, RING_BELL_POLL, -1, &error), 0);
	bell_answer(&bell);
	bell_fini(&bell);
}

static void test_no_descriptor(void **state)
{
	struct error error;
	struct bell bell;

	(void)state;
	assert_true(bell_init(&bell, RING_BELL_EVENTFD, -1, &error) < 0);
	assert_string_equal(error.code, "bell-flags");
	assert_true(bell_init(&bell, RING_BELL_BPF_RINGBUF, -1, &error) < 0);
	assert_string_equal(error.code, "bell-map");
	bell_fini(&bell);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_eventfd),
		cmocka_unit_test(test_bpf_ringbuf),
		cmocka_unit_test(test_poll),
		cmocka_unit_test(test_no_descriptor),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
