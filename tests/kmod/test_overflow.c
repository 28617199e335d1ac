/*
 * test_overflow: more than a ring holds, in each policy, with every attempt accounted for; and what
 * can be read of a ring that stands still.
 */
#include <errno.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/kmod/guest.h"

#define GETPPID		(RT_PROBE_SYSCALL_CALL + SYS_getppid)
#define RING_BYTES	(16u << 10)
#define CALLS		20000u
#define RECORD_BYTES	(RT_RECORD_HEADER_BYTES + 2 * 8)

static void overflow(struct guest *guest, enum rt_policy policy)
{
	struct load load;

	guest_open(guest, RING_BYTES, policy);
	guest_map(guest);
	load_prepare(&load, CALLS, 0);
	guest_start(guest, load.pid, 0, GETPPID, 0);
	load_release(&load);
	load_wait(&load);
}

/*
 * The newest are refused: what fits is there, the rest is counted, and the ring goes on when read.
 */
static void drop(void)
{
	struct guest_count count = {0};
	struct guest guest;
	struct load load;
	uint64_t fitted;

	overflow(&guest, RT_POLICY_DROP);
	guest_drain(&guest, &count, NULL, NULL);
	check_equal(count.events + count.lost_total, CALLS);
	check_equal(count.lost[RT_LOST_FULL], count.lost_total);
	check(count.events > RING_BYTES / RECORD_BYTES * 9 / 10);
	fitted = count.events;
	load_prepare(&load, 100, 0);
	{
		struct rt_enable enable = {.probe = GETPPID, .clauses = 1};

		enable.clause[0] = (struct rt_filter_clause){.pid_op = RT_FILTER_EQ,
							     .pid = load.pid};
		check_control(guest.fd, RT_IOC_ENABLE, &enable);
	}
	load_release(&load);
	load_wait(&load);
	check_control(guest.fd, RT_IOC_STOP, NULL);
	guest_drain(&guest, &count, NULL, NULL);
	check_equal(count.events, fitted + 100);
	guest_check_ledger(&guest, &count);
	guest_close(&guest);
}

static void last_ones(const struct guest_item *item, void *data)
{
	uint64_t *last_seq = data;

	if (item->cpu == 0)
		*last_seq = item->item.seq;
}

/* The oldest go: the newest are there whole, each with its number, and what went is counted. */
static void overwrite(void)
{
	struct guest_count count = {0};
	uint64_t last_seq = 0;
	struct rt_stats stats;
	struct guest guest;

	overflow(&guest, RT_POLICY_OVERWRITE);
	check_control(guest.fd, RT_IOC_STOP, NULL);
	guest_drain(&guest, &count, last_ones, &last_seq);
	check_control(guest.fd, RT_IOC_STATS, &stats);
	check_equal(stats.lost_total, 0);
	check(count.events > RING_BYTES / RECORD_BYTES / 2);
	check_equal(count.records + count.lost[RT_LOST_FULL], stats.records);
	check_equal(last_seq + 1, stats.records);
	/* Every sub-buffer introduces its threads itself. */
	check(count.threads >= 3);
	guest_check_ledger(&guest, &count);
	guest_close(&guest);
}

/* Overwriting while somebody reads: whole records only, and the count is still exact. */
static void overwrite_while_read(void)
{
	struct guest_count count = {0};
	struct guest guest;
	struct load load[2];

	guest_open(&guest, RING_BYTES, RT_POLICY_OVERWRITE);
	guest_map(&guest);
	load_prepare(&load[0], CALLS, 0);
	load_prepare(&load[1], CALLS, 1 % cpus_online());
	guest_start(&guest, 0, 0, GETPPID, RT_PROBE_SCHED_SWITCH, RT_PROBE_SCHED_WAKEUP,
		    RT_PROBE_PROFILE, 0);
	load_release(&load[0]);
	load_release(&load[1]);
	for (int i = 0; i < 300; i++)
		guest_drain(&guest, &count, NULL, NULL);
	load_wait(&load[0]);
	load_wait(&load[1]);
	check_control(guest.fd, RT_IOC_STOP, NULL);
	guest_drain(&guest, &count, NULL, NULL);
	guest_check_ledger(&guest, &count);
	guest_close(&guest);
}

/* Full means stop: the bell rings, what came first is kept, and start goes on after reading. */
static void stop(void)
{
	struct guest_count count = {0};
	struct rt_stats stats;
	struct guest guest;
	struct pollfd poll_fd;
	uint64_t kept;

	overflow(&guest, RT_POLICY_STOP);
	check_equal(guest.ring[0].producer->state, RT_RING_STOPPED);
	poll_fd = (struct pollfd){.fd = guest.fd, .events = POLLIN};
	check_equal(poll(&poll_fd, 1, 0), 1);
	check_control(guest.fd, RT_IOC_STATS, &stats);
	check_equal(stats.rings_stopped, 1);
	check_equal(stats.bells, 1);
	check_control(guest.fd, RT_IOC_STOP, NULL);
	guest_drain(&guest, &count, NULL, NULL);
	check_equal(count.lost[RT_LOST_STOPPED], count.lost_total);
	check_equal(count.events + count.lost_total, CALLS);
	kept = RING_BYTES - guest.ring[0].producer->subbuf_bytes;
	check(count.events * RECORD_BYTES > kept - 512 && count.events * RECORD_BYTES < kept + 64);
	guest_check_ledger(&guest, &count);
	check_control(guest.fd, RT_IOC_START, NULL);
	check_equal(guest.ring[0].producer->state, RT_RING_RUNNING);
	guest_close(&guest);
}

static int read_one(int fd, uint64_t index, uint32_t flags, struct rt_record *record)
{
	struct rt_read request = {.cpu = 0, .index = index, .flags = flags,
				  .to = (uintptr_t)record, .bytes = RT_RECORD_BYTES_MAX};

	return control(fd, RT_IOC_READ, &request);
}

/* The i-th newest is the (n - 1 - i)-th oldest, and times rise. */
static void both_ways(int fd, uint64_t *records)
{
	static uint64_t a[RT_RECORD_WORDS_MAX], b[RT_RECORD_WORDS_MAX];
	uint64_t last_ns = 0, n = 0;

	while (read_one(fd, n, RT_READ_OLDEST, (void *)a) == 0) {
		const struct rt_record *record = (void *)a;

		check(record->time_ns >= last_ns);
		last_ns = record->time_ns;
		n++;
	}
	for (uint64_t i = 0; i < n; i += 17) {
		check_equal(read_one(fd, i, 0, (void *)a), 0);
		check_equal(read_one(fd, n - 1 - i, RT_READ_OLDEST, (void *)b), 0);
		check_equal(a[0], b[0]);
	}
	check_equal(read_one(fd, n, 0, (void *)a), -ENOENT);
	*records = n;
}

static void read_stopped(void)
{
	/* The newest of all tells that the thread is gone. */
	struct rt_read request = {.cpu = 0, .index = 1, .bytes = 8};
	struct rt_stats stats;
	struct guest guest;
	uint64_t records;

	overflow(&guest, RT_POLICY_OVERWRITE);
	check_equal(control(guest.fd, RT_IOC_READ, &request), -EBUSY);
	check_control(guest.fd, RT_IOC_STOP, NULL);
	check_equal(control(guest.fd, RT_IOC_READ, &request), -ENOSPC);
	check_equal(request.bytes, RECORD_BYTES);
	request.bytes = RECORD_BYTES;
	request.to = 8;
	check_equal(control(guest.fd, RT_IOC_READ, &request), -EFAULT);
	both_ways(guest.fd, &records);
	check(records > RING_BYTES / RECORD_BYTES / 2);
	check_equal(control(guest.fd, RT_IOC_CLEAR, NULL), -EBUSY);
	check_control(guest.fd, RT_IOC_STATS, &stats);
	check(stats.records > records);
	guest_close(&guest);
}

/* A snapshot does not change while recording goes on, and clearing forgets both. */
static void snapshot(void)
{
	static uint64_t before[RT_RECORD_WORDS_MAX], after[RT_RECORD_WORDS_MAX];
	struct rt_config config;
	struct rt_enable enable = {.probe = GETPPID};
	struct guest guest;
	struct load load[2];
	uint64_t records, again;

	guest_open(&guest, RING_BYTES, RT_POLICY_OVERWRITE);
	check_control(guest.fd, RT_IOC_ENABLE, &enable);
	check_control(guest.fd, RT_IOC_START, NULL);
	load_prepare(&load[0], CALLS, 0);
	load_prepare(&load[1], CALLS, 0);
	load_release(&load[0]);
	load_wait(&load[0]);
	check_control(guest.fd, RT_IOC_SNAPSHOT, NULL);
	both_ways(guest.fd, &records);
	check(records > 10);
	check_equal(read_one(guest.fd, 0, 0, (void *)before), 0);
	load_release(&load[1]);
	load_wait(&load[1]);
	check_equal(read_one(guest.fd, 0, 0, (void *)after), 0);
	check_equal(before[0], after[0]);
	both_ways(guest.fd, &again);
	check_equal(again, records);
	check_control(guest.fd, RT_IOC_SNAPSHOT, NULL);
	check_equal(read_one(guest.fd, 0, 0, (void *)after), 0);
	check(before[0] != after[0]);
	check_control(guest.fd, RT_IOC_STOP, NULL);
	check_control(guest.fd, RT_IOC_CLEAR, NULL);
	check_equal(read_one(guest.fd, 0, 0, (void *)after), -ENOENT);
	check_control(guest.fd, RT_IOC_GET_CONFIG, &config);
	check_equal(config.policy, RT_POLICY_OVERWRITE);
	guest_close(&guest);
}

/* Snapshots taken all the time while records come from threads and timers. */
static void snapshots_under_load(void)
{
	struct rt_enable enable[] = {
		{.probe = GETPPID}, {.probe = RT_PROBE_PROFILE, .rate_hz = 2000},
		{.probe = RT_PROBE_SCHED_SWITCH},
	};
	struct guest guest;
	struct load load;
	uint64_t records;

	guest_open(&guest, RING_BYTES, RT_POLICY_OVERWRITE);
	for (int i = 0; i < 3; i++)
		check_control(guest.fd, RT_IOC_ENABLE, &enable[i]);
	check_control(guest.fd, RT_IOC_START, NULL);
	load_prepare(&load, 10 * CALLS, 0);
	load_release(&load);
	for (int i = 0; i < 20; i++) {
		check_control(guest.fd, RT_IOC_SNAPSHOT, NULL);
		both_ways(guest.fd, &records);
	}
	load_wait(&load);
	guest_close(&guest);
}

const struct test overflow_tests[] = {
	{"overflow_drop", drop},
	{"overflow_overwrite", overwrite},
	{"overflow_overwrite_while_read", overwrite_while_read},
	{"overflow_stop", stop},
	{"overflow_read_stopped", read_stopped},
	{"overflow_snapshot", snapshot},
	{"overflow_snapshots_under_load", snapshots_under_load},
	{NULL, NULL},
};
