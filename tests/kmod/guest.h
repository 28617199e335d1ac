/*
 * guest: what the tests inside the virtual machine share: a consumer of /dev/ringtail as a person
 * would write one, checks that say what they expected, and known loads.
 */
#ifndef RINGTAIL_TESTS_KMOD_GUEST_H
#define RINGTAIL_TESTS_KMOD_GUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "daemon/ring/reader.h"
#include "kmod/uapi/ringtail_ioctl.h"

#define GUEST_CPUS_MAX 16

/* Ends the test as failed. */
__attribute__((format(printf, 3, 4), noreturn))
void fail(const char *file, int line, const char *format, ...);

#define check(condition)						\
	do {								\
		if (!(condition))					\
			fail(__FILE__, __LINE__, "%s", #condition);	\
	} while (0)

#define check_equal(actual, expected)						\
	do {									\
		long long actual_ = (long long)(actual), expected_ = (long long)(expected);	\
		if (actual_ != expected_)					\
			fail(__FILE__, __LINE__, "%s is %lld, not %lld (%s)", #actual,	\
			     actual_, expected_, #expected);			\
	} while (0)

/* Ends the test as skipped. */
__attribute__((noreturn))
void skip(const char *why);

/* ioctl(2) that returns 0 or -errno. */
int control(int fd, unsigned long command, void *argument);
#define check_control(fd, command, argument) check_equal(control(fd, command, argument), 0)

struct guest_ring {
	const struct rt_ring_producer *producer;
	struct rt_ring_consumer *consumer;
	size_t map_bytes;
	struct ring_reader *reader;
};

struct guest {
	int fd;
	struct rt_config config;
	struct guest_ring ring[GUEST_CPUS_MAX];	/* producer NULL: no such CPU */
};

/* Opens the device and sets its rings; guest_map() maps them all. */
void guest_open(struct guest *guest, uint64_t ring_bytes, enum rt_policy policy);
void guest_map(struct guest *guest);
void guest_close(struct guest *guest);

/* Sets one clause, `pid ==`, and these probes, and starts; a list ends with 0. pid 0: everybody. */
void guest_start(struct guest *guest, uint32_t pid, uint32_t flags, ...);

struct guest_item {
	uint32_t cpu;
	struct ring_item item;
};

/* What came of a drain. Events are those at or over RT_PROBE_EVENT_MIN. */
struct guest_count {
	uint64_t records, events, threads;
	uint64_t lost[RT_LOST_REASONS], lost_total;
};

/* Reads all rings until they are empty, giving everything back. `each` may be NULL. */
void guest_drain(struct guest *guest, struct guest_count *count,
		 void (*each)(const struct guest_item *item, void *data), void *data);

/* The ledger: what was read and reported as lost is what the module says it attempted. */
void guest_check_ledger(struct guest *guest, const struct guest_count *count);

/* A child that waits, makes n getppid calls as it is allowed to, and exits. */
struct load {
	pid_t pid;
	int go;
	uint64_t calls;		/* not allowed yet */
};
void load_prepare(struct load *load, uint64_t calls, int cpu);
void load_allow(struct load *load, uint64_t calls);
void load_release(struct load *load);		/* allows all that are left */
void load_wait(struct load *load);

void pin(int cpu);
int cpus_online(void);
void sleep_ms(unsigned ms);

/* A test: it returns, or fails, or skips. */
struct test {
	const char *name;
	void (*run)(void);
};

#endif
