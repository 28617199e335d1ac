/*
 * test_device: the device's calls, each with everything that is wrong with its argument, and what
 * they say of the probes there are.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/kmod/guest.h"

#define GETPPID		(RT_PROBE_SYSCALL_CALL + SYS_getppid)
#define RING_BYTES	(64u << 10)
#define BAD_ADDRESS	((void *)8)

static int open_device(void)
{
	int fd = open(RT_DEVICE, O_RDWR | O_CLOEXEC);

	check(fd >= 0);
	return fd;
}

static const unsigned long with_argument[] = {
	RT_IOC_INFO, RT_IOC_LIST, RT_IOC_FIELDS, RT_IOC_ENABLE, RT_IOC_DISABLE, RT_IOC_SELECT,
	RT_IOC_STATS, RT_IOC_SET_CONFIG, RT_IOC_GET_CONFIG, RT_IOC_BELL, RT_IOC_READ, RT_IOC_KPROBE,
};

static void bad_addresses(void)
{
	int fd = open_device();

	for (size_t i = 0; i < sizeof(with_argument) / sizeof(with_argument[0]); i++) {
		check_equal(control(fd, with_argument[i], NULL), -EFAULT);
		check_equal(control(fd, with_argument[i], BAD_ADDRESS), -EFAULT);
		check_equal(control(fd, with_argument[i], (void *)~0ul), -EFAULT);
	}
	close(fd);
}

static void unknown_calls(void)
{
	char space[4096] = {0};
	int fd = open_device();

	for (unsigned nr = 0x10; nr < 0x100; nr++)
		check_equal(control(fd, _IO(RT_IOC_MAGIC, nr), space), -ENOTTY);
	/* The size is part of the number. */
	check_equal(control(fd, _IOR(RT_IOC_MAGIC, 0x00, uint64_t), space), -ENOTTY);
	check_equal(control(fd, _IOW(RT_IOC_MAGIC, 0x03, uint64_t), space), -ENOTTY);
	check_equal(control(fd, RT_IOC_START + 0x100, space), -ENOTTY);
	close(fd);
}

static void info(void)
{
	struct rt_info got;
	int fd = open_device();

	check_control(fd, RT_IOC_INFO, &got);
	check_equal(got.abi_version, RT_ABI_VERSION);
	check(got.cpus >= (uint32_t)cpus_online());
	check(got.probes > 3 * 300);
	check_equal(got.ring_bytes_max, 16u << 20);
	close(fd);
}

static const struct rt_probe_info *find_probe(const struct rt_probe_info *info, uint32_t count,
					      uint32_t id)
{
	for (uint32_t i = 0; i < count; i++)
		if (info[i].id == id)
			return &info[i];
	return NULL;
}

static void check_fields(int fd, const struct rt_probe_info *info)
{
	struct rt_field_info field[16];
	struct rt_table table = {.probe = info->id};

	check_control(fd, RT_IOC_FIELDS, &table);
	check_equal(table.count, info->fields);
	if (!table.count)
		return;
	table.to = (uintptr_t)field;
	table.count--;
	check_equal(control(fd, RT_IOC_FIELDS, &table), -ENOSPC);
	check_equal(table.count, info->fields);
	check_control(fd, RT_IOC_FIELDS, &table);
	for (uint32_t i = 0; i < table.count; i++) {
		check(field[i].name[0] && memchr(field[i].name, 0, sizeof(field[i].name)));
		check(memchr(field[i].c_type, 0, sizeof(field[i].c_type)));
		check(field[i].type <= RT_FIELD_STRING && field[i].bits <= 64);
	}
}

static void lists(void)
{
	const struct rt_probe_info *getppid, *openat;
	struct rt_table table = {0};
	struct rt_field_info field[8];
	struct rt_probe_info *probe;
	int fd = open_device();

	check_control(fd, RT_IOC_LIST, &table);
	probe = calloc(table.count, sizeof(*probe));
	table.to = (uintptr_t)probe;
	table.count--;
	check_equal(control(fd, RT_IOC_LIST, &table), -ENOSPC);
	check_control(fd, RT_IOC_LIST, &table);
	for (uint32_t i = 0; i < table.count; i++) {
		check(i == 0 || probe[i].id > probe[i - 1].id);
		check_fields(fd, &probe[i]);
	}
	getppid = find_probe(probe, table.count, GETPPID);
	check(getppid && strcmp(getppid->function, "getppid") == 0);
	check(strcmp(getppid->provider, "syscall") == 0 && strcmp(getppid->name, "call") == 0);
	check_equal(getppid->fields, 2);
	openat = find_probe(probe, table.count, RT_PROBE_SYSCALL_ENTRY + SYS_openat);
	check(openat && openat->fields == 4);
	check(find_probe(probe, table.count, RT_PROBE_SYSCALL_RETURN + SYS_exit) == NULL);
	/* What lies behind are numbers of probes that a daemon makes: none of them is a system call's. */
	for (uint32_t i = 0; i < table.count; i++)
		check(probe[i].id < RT_PROBE_MADE);
	table = (struct rt_table){.probe = openat->id, .count = 4, .to = (uintptr_t)field};
	check_control(fd, RT_IOC_FIELDS, &table);
	check(strcmp(field[1].name, "filename") == 0);
	check_equal(field[1].type, RT_FIELD_STRING);

	table = (struct rt_table){.probe = 1};
	check_equal(control(fd, RT_IOC_LIST, &table), -EINVAL);
	table = (struct rt_table){.count = 100000, .to = 8};
	check_equal(control(fd, RT_IOC_LIST, &table), -EFAULT);
	table = (struct rt_table){.probe = RT_PROBE_MAX};
	check_equal(control(fd, RT_IOC_FIELDS, &table), -ENOENT);
	table = (struct rt_table){.probe = RT_PROBE_THREAD};
	check_equal(control(fd, RT_IOC_FIELDS, &table), -ENOENT);
	free(probe);
	close(fd);
}

static int try_enable(int fd, struct rt_enable enable)
{
	return control(fd, RT_IOC_ENABLE, &enable);
}

static void enabling(void)
{
	struct rt_enable enable = {.probe = GETPPID};
	struct rt_select select = {0};
	int fd = open_device();
	uint32_t probe = GETPPID;

	check_equal(control(fd, RT_IOC_DISABLE, &probe), -ENOENT);
	check_equal(control(fd, RT_IOC_START, NULL), -ENOENT);
	check_equal(control(fd, RT_IOC_STOP, NULL), -EBUSY);
	check_equal(try_enable(fd, (struct rt_enable){.probe = 0}), -ENOENT);
	check_equal(try_enable(fd, (struct rt_enable){.probe = RT_PROBE_MAX}), -ENOENT);
	check_equal(try_enable(fd, (struct rt_enable){.probe = ~0u}), -ENOENT);
	check_equal(try_enable(fd, (struct rt_enable){.probe = RT_PROBE_KPROBE}), -ENOENT);
	check_equal(try_enable(fd, (struct rt_enable){.probe = RT_PROBE_SYSCALL_CALL + 1023}),
		    -ENOENT);
	check_equal(try_enable(fd, (struct rt_enable){.probe = GETPPID, .flags = 8}), -EINVAL);
	check_equal(try_enable(fd, (struct rt_enable){.probe = GETPPID, .rate_hz = 1}), -EINVAL);
	check_equal(try_enable(fd, (struct rt_enable){.probe = RT_PROBE_PROFILE}), -EINVAL);
	check_equal(try_enable(fd, (struct rt_enable){.probe = RT_PROBE_PROFILE,
						      .rate_hz = RT_RATE_HZ_MAX + 1}), -EINVAL);
	enable.clauses = RT_FILTER_CLAUSES_MAX + 1;
	check_equal(try_enable(fd, enable), -EINVAL);
	enable.clauses = ~0u;
	check_equal(try_enable(fd, enable), -EINVAL);
	enable.clauses = 1;
	enable.clause[0].pid_op = RT_FILTER_NE + 1;
	check_equal(try_enable(fd, enable), -EINVAL);
	enable.clause[0] = (struct rt_filter_clause){.comm_op = 255};
	check_equal(try_enable(fd, enable), -EINVAL);
	select.probes[0] = 1;
	check_equal(control(fd, RT_IOC_SELECT, &select), -ENOENT);
	select.probes[0] = 0;
	select.flags = 1u << 31;
	check_equal(control(fd, RT_IOC_SELECT, &select), -EINVAL);

	check_equal(try_enable(fd, (struct rt_enable){.probe = GETPPID}), 0);
	check_control(fd, RT_IOC_START, NULL);
	check_equal(control(fd, RT_IOC_START, NULL), -EBUSY);
	check_control(fd, RT_IOC_DISABLE, &probe);
	check_control(fd, RT_IOC_STOP, NULL);
	check_equal(control(fd, RT_IOC_START, NULL), -ENOENT);
	close(fd);
}

/* A plan has room for so many different selections; one more is refused, and the old ones stay. */
static void selections_are_bounded(void)
{
	int fd = open_device(), err = 0;
	unsigned i;

	for (i = 0; i < 200 && !err; i++) {
		struct rt_enable enable = {.probe = RT_PROBE_SYSCALL_CALL + i, .clauses = 1};

		enable.clause[0] = (struct rt_filter_clause){.pid_op = RT_FILTER_EQ, .pid = i + 1};
		err = control(fd, RT_IOC_ENABLE, &enable);
	}
	check_equal(err, -ENOSPC);
	check_equal(i, 65);
	check_control(fd, RT_IOC_START, NULL);
	check_control(fd, RT_IOC_STOP, NULL);
	close(fd);
}

static int try_config(int fd, struct rt_config config)
{
	return control(fd, RT_IOC_SET_CONFIG, &config);
}

static void configuring(void)
{
	struct rt_config good = {.ring_bytes = RING_BYTES, .watermark_bytes = 1};
	struct rt_config config;
	struct rt_enable enable = {.probe = GETPPID};
	int fd = open_device();
	void *map;

#define BAD(assignment)						\
	do {							\
		config = good;					\
		config.assignment;				\
		check_equal(try_config(fd, config), -EINVAL);	\
	} while (0)
	BAD(ring_bytes = 0);
	BAD(ring_bytes = RT_RING_BYTES_MIN / 2);
	BAD(ring_bytes = RING_BYTES + 8);
	BAD(ring_bytes = 32u << 20);
	BAD(ring_bytes = 1ull << 63);
	BAD(watermark_bytes = 0);
	BAD(watermark_bytes = RING_BYTES + 1);
	BAD(policy = RT_POLICY_STOP + 1);
	BAD(policy = ~0u);
	BAD(wake_ms = RT_WAKE_MS_MAX + 1);
	BAD(flags = 4);
	BAD(zero = 1);
	/* Cut to what is allowed; but what has no meaning is refused all the same. */
	config = (struct rt_config){.ring_bytes = 1ull << 62, .wake_ms = ~0u,
				    .flags = RT_CONFIG_CUT};
	check_control(fd, RT_IOC_SET_CONFIG, &config);
	check_equal(config.ring_bytes, 16u << 20);
	check_equal(config.watermark_bytes, 1);
	check_equal(config.wake_ms, RT_WAKE_MS_MAX);
	config.ring_bytes = 100000;
	check_control(fd, RT_IOC_SET_CONFIG, &config);
	check_equal(config.ring_bytes, 65536);
	good.flags = RT_CONFIG_CUT;
	BAD(policy = 77);
	BAD(zero = 1);
	good.flags = 0;

	check_equal(try_config(fd, good), 0);
	map = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
	check(map != MAP_FAILED);
	config = good;
	config.ring_bytes *= 2;
	check_equal(try_config(fd, config), -EBUSY);
	config = good;
	config.wake_ms = 10;
	check_equal(try_config(fd, config), 0);
	munmap(map, 4096);
	check_control(fd, RT_IOC_ENABLE, &enable);
	check_control(fd, RT_IOC_START, NULL);
	check_equal(try_config(fd, good), -EBUSY);
	check_equal(control(fd, RT_IOC_CLEAR, NULL), -EBUSY);
	check_control(fd, RT_IOC_STOP, NULL);
	check_equal(try_config(fd, good), 0);
	close(fd);
}

static void bells(void)
{
	int fd = open_device(), bell = eventfd(0, EFD_NONBLOCK);
	struct rt_config config;
	struct rt_bell request = {.cpu = RT_CPU_ALL, .eventfd = bell};

	check_equal(control(fd, RT_IOC_BELL, &request), -ENXIO);
	check_control(fd, RT_IOC_GET_CONFIG, &config);
	check_control(fd, RT_IOC_SET_CONFIG, &config);
	request.eventfd = -2;
	check_equal(control(fd, RT_IOC_BELL, &request), -EBADF);
	request.eventfd = 1000;
	check_equal(control(fd, RT_IOC_BELL, &request), -EBADF);
	request.eventfd = fd;
	check_equal(control(fd, RT_IOC_BELL, &request), -EINVAL);
	request = (struct rt_bell){.cpu = 4096, .eventfd = bell};
	check_equal(control(fd, RT_IOC_BELL, &request), -ENXIO);
	for (int i = 0; i < 10; i++) {
		request = (struct rt_bell){.cpu = RT_CPU_ALL, .eventfd = bell};
		check_control(fd, RT_IOC_BELL, &request);
	}
	request.eventfd = -1;
	check_control(fd, RT_IOC_BELL, &request);
	close(bell);
	close(fd);
}

static void reading_records(void)
{
	struct rt_read read_one = {.cpu = 0, .zero = 1};
	struct rt_config config;
	int fd = open_device();

	check_equal(control(fd, RT_IOC_SNAPSHOT, NULL), -ENXIO);
	check_equal(control(fd, RT_IOC_READ, &read_one), -EINVAL);
	read_one = (struct rt_read){.cpu = 0};
	check_equal(control(fd, RT_IOC_READ, &read_one), -ENXIO);
	check_control(fd, RT_IOC_GET_CONFIG, &config);
	check_control(fd, RT_IOC_SET_CONFIG, &config);
	check_equal(control(fd, RT_IOC_READ, &read_one), -ENOENT);
	read_one.cpu = 4096;
	check_equal(control(fd, RT_IOC_READ, &read_one), -ENXIO);
	read_one = (struct rt_read){.flags = 2};
	check_equal(control(fd, RT_IOC_READ, &read_one), -EINVAL);
	check_control(fd, RT_IOC_SNAPSHOT, NULL);
	read_one = (struct rt_read){.index = ~0ull, .flags = RT_READ_OLDEST};
	check_equal(control(fd, RT_IOC_READ, &read_one), -ENOENT);
	check_control(fd, RT_IOC_CLEAR, NULL);
	close(fd);
}

static void kprobes(void)
{
	struct rt_kprobe kprobe = {.function = "", .on_return = 0};
	struct rt_table table = {0};
	struct rt_enable enable = {0};
	uint32_t first;
	int fd = open_device();

	check_equal(control(fd, RT_IOC_KPROBE, &kprobe), -EINVAL);
	memset(kprobe.function, 'a', sizeof(kprobe.function));
	check_equal(control(fd, RT_IOC_KPROBE, &kprobe), -EINVAL);
	strcpy(kprobe.function, "no_such_function_at_all");
	kprobe.on_return = 2;
	check_equal(control(fd, RT_IOC_KPROBE, &kprobe), -EINVAL);
	kprobe.on_return = 0;
	check_control(fd, RT_IOC_KPROBE, &kprobe);
	first = kprobe.probe;
	check_control(fd, RT_IOC_KPROBE, &kprobe);
	check_equal(kprobe.probe, first);
	table.probe = first;
	check_control(fd, RT_IOC_FIELDS, &table);
	check_equal(table.count, 6);
	/* Whether there is such a function shows when it is to be attached. */
	enable.probe = first;
	check_control(fd, RT_IOC_ENABLE, &enable);
	check(control(fd, RT_IOC_START, NULL) < 0);
	for (unsigned i = 1; i < RT_KPROBES_MAX; i++) {
		snprintf(kprobe.function, sizeof(kprobe.function), "function_%u", i);
		check_control(fd, RT_IOC_KPROBE, &kprobe);
	}
	strcpy(kprobe.function, "one_too_many");
	check_equal(control(fd, RT_IOC_KPROBE, &kprobe), -ENOSPC);
	close(fd);
}

static void mappings(void)
{
	struct rt_config config;
	int fd = open_device();
	void *map;

#define NO_MAP(bytes, protection, flags, offset, error)					\
	do {										\
		map = mmap(NULL, bytes, protection, flags, fd, (off_t)(offset));	\
		check(map == MAP_FAILED);						\
		check_equal(errno, error);						\
	} while (0)
	NO_MAP(4096, PROT_READ, MAP_SHARED, 0, ENXIO);
	check_control(fd, RT_IOC_GET_CONFIG, &config);
	config.ring_bytes = RING_BYTES;
	config.watermark_bytes = RING_BYTES;
	check_control(fd, RT_IOC_SET_CONFIG, &config);
	NO_MAP(4096, PROT_READ | PROT_WRITE, MAP_SHARED, 0, EPERM);
	NO_MAP(4096, PROT_READ | PROT_WRITE, MAP_PRIVATE, 0, EPERM);
	NO_MAP(4096, PROT_READ | PROT_EXEC, MAP_SHARED, 0, EPERM);
	NO_MAP(4096, PROT_READ, MAP_SHARED, 4096, EINVAL);
	NO_MAP(RT_RING_MAP_BYTES(RING_BYTES) + 4096, PROT_READ, MAP_SHARED, 0, EINVAL);
	NO_MAP(4096, PROT_READ, MAP_SHARED, RT_MAP_RING(4096), ENXIO);
	NO_MAP(4096, PROT_READ, MAP_SHARED, 0x7ffffffffffff000ull / RT_MAP_STRIDE * RT_MAP_STRIDE,
	       ENXIO);
	NO_MAP(8192, PROT_READ | PROT_WRITE, MAP_SHARED, RT_MAP_CONSUMER(0), EINVAL);
	NO_MAP(4096, PROT_READ | PROT_WRITE, MAP_PRIVATE, RT_MAP_CONSUMER(0), EINVAL);
	NO_MAP(4096, PROT_READ | PROT_EXEC, MAP_SHARED, RT_MAP_CONSUMER(0), EPERM);
	map = mmap(NULL, 8192, PROT_READ, MAP_SHARED, fd, 0);
	check(map != MAP_FAILED);
	check(mprotect(map, 8192, PROT_READ | PROT_WRITE) < 0 && errno == EACCES);
	check(mprotect(map, 8192, PROT_READ | PROT_EXEC) < 0 && errno == EACCES);
	check(mremap(map, 8192, 1 << 20, MREMAP_MAYMOVE) == MAP_FAILED);
	munmap(map, 8192);
	close(fd);
}

/* Without the capability the device does not open; with its descriptor alone nothing is decided. */
static void capabilities(void)
{
	struct rt_enable enable = {.probe = GETPPID};
	struct rt_config config;
	struct rt_stats stats;
	int fd = open_device(), status;
	pid_t child;

	check_control(fd, RT_IOC_GET_CONFIG, &config);
	check_control(fd, RT_IOC_SET_CONFIG, &config);
	child = fork();
	if (child == 0) {
		void *map;

		check_equal(setuid(65534), 0);
		check(open(RT_DEVICE, O_RDWR) < 0 && errno == EACCES);
		check_equal(control(fd, RT_IOC_ENABLE, &enable), -EPERM);
		check_equal(control(fd, RT_IOC_START, NULL), -EPERM);
		check_equal(control(fd, RT_IOC_SET_CONFIG, &config), -EPERM);
		check_equal(control(fd, RT_IOC_STATS, &stats), 0);
		map = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
		check(map != MAP_FAILED);
		_exit(0);
	}
	check_equal(waitpid(child, &status, 0), child);
	check_equal(status, 0);
	close(fd);
}

/* read(2): whole records, wake-up by watermark and by the interval, end after stop. */
static void simple_reader(void)
{
	static char bytes[65536];
	struct rt_enable enable = {.probe = GETPPID, .clauses = 1};
	struct rt_config config;
	uint64_t events = 0, runs = 0;
	int fd = open_device();
	struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
	struct load load;
	ssize_t n;

	check_control(fd, RT_IOC_GET_CONFIG, &config);
	config.ring_bytes = 4 * RING_BYTES;	/* all of the load fits */
	config.watermark_bytes = 2 * RING_BYTES;
	config.wake_ms = 50;
	check_control(fd, RT_IOC_SET_CONFIG, &config);
	check(read(fd, bytes, 100) < 0 && errno == EINVAL);
	check_equal(read(fd, bytes, sizeof(bytes)), 0);
	load_prepare(&load, 3000, -1);
	enable.clause[0] = (struct rt_filter_clause){.pid_op = RT_FILTER_EQ, .pid = load.pid};
	check_control(fd, RT_IOC_ENABLE, &enable);
	check_control(fd, RT_IOC_START, NULL);
	check_equal(poll(&poll_fd, 1, 0), 0);
	check_equal(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
	check(read(fd, bytes, sizeof(bytes)) < 0 && errno == EAGAIN);
	check_equal(fcntl(fd, F_SETFL, 0), 0);
	load_release(&load);
	while (events < 3000) {
		/* What is under the watermark comes with the wake interval. */
		check_equal(poll(&poll_fd, 1, 5000), 1);
		n = read(fd, bytes, sizeof(bytes));
		check(n > 0);
		for (ssize_t at = 0; at < n;) {
			const struct rt_run *run = (void *)(bytes + at);
			ssize_t end;

			check((int)run->cpu < cpus_online() && run->bytes);
			at += sizeof(*run);
			for (end = at + run->bytes; at < end; runs++) {
				const struct rt_record *record = (void *)(bytes + at);

				events += rt_commit_probe(record->commit) == GETPPID;
				at += rt_commit_words(record->commit) * 8;
			}
			check_equal(at, end);
		}
		check_equal(n % 8, 0);
	}
	load_wait(&load);
	check_control(fd, RT_IOC_STOP, NULL);
	check_equal(read(fd, bytes, sizeof(bytes)), 0);
	check_equal(events, 3000);
	close(fd);
}

/* The bell that a mapped reader asks for, by eventfd and by poll. */
static void bell_rings(void)
{
	struct guest guest;
	struct guest_count count = {0};
	struct rt_bell bell = {.cpu = RT_CPU_ALL};
	struct pollfd poll_fd[2];
	struct load load;

	guest_open(&guest, RING_BYTES, RT_POLICY_DROP);
	guest.config.wake_ms = 0;
	guest.config.watermark_bytes = RING_BYTES;
	check_control(guest.fd, RT_IOC_SET_CONFIG, &guest.config);
	guest_map(&guest);
	bell.eventfd = eventfd(0, EFD_NONBLOCK);
	check_control(guest.fd, RT_IOC_BELL, &bell);
	load_prepare(&load, 50, 0);
	guest_start(&guest, load.pid, 0, GETPPID, 0);
	poll_fd[0] = (struct pollfd){.fd = bell.eventfd, .events = POLLIN};
	poll_fd[1] = (struct pollfd){.fd = guest.fd, .events = POLLIN};
	check(ring_reader_arm(guest.ring[0].reader, 500));
	check_equal(poll(poll_fd, 2, 100), 0);
	load_release(&load);
	check_equal(poll(&poll_fd[0], 1, 5000), 1);
	check_equal(poll(&poll_fd[1], 1, 0), 1);
	load_wait(&load);
	check_equal(guest.ring[0].producer->bells, 1);
	guest_drain(&guest, &count, NULL, NULL);
	ring_reader_disarm(guest.ring[0].reader);
	check_equal(poll(&poll_fd[1], 1, 0), 0);
	guest_close(&guest);
}

/* Two consumers with different probes each get their own and nothing else. */
static void two_consumers(void)
{
	struct guest first, second;
	struct guest_count count_first = {0}, count_second = {0};
	struct load load;

	guest_open(&first, 1u << 20, RT_POLICY_DROP);
	guest_open(&second, 1u << 20, RT_POLICY_DROP);
	guest_map(&first);
	guest_map(&second);
	load_prepare(&load, 5000, -1);
	guest_start(&first, load.pid, 0, GETPPID, 0);
	guest_start(&second, load.pid, 0, RT_PROBE_SYSCALL_RETURN + SYS_getppid,
		    RT_PROBE_SCHED_EXIT, 0);
	load_release(&load);
	load_wait(&load);
	check_control(first.fd, RT_IOC_STOP, NULL);
	check_control(second.fd, RT_IOC_STOP, NULL);
	guest_drain(&first, &count_first, NULL, NULL);
	guest_drain(&second, &count_second, NULL, NULL);
	check_equal(count_first.events, 5000);
	check_equal(count_second.events, 5001);
	guest_check_ledger(&first, &count_first);
	guest_check_ledger(&second, &count_second);
	guest_close(&first);
	guest_close(&second);
}

/* Clauses are asked of some probes and not of others. */
static void selects_unfiltered(void)
{
	const uint32_t unfiltered = RT_PROBE_SYSCALL_CALL + SYS_getuid;
	struct guest_count count = {0};
	struct rt_select select = {.clauses = 1};
	struct guest guest;

	guest_open(&guest, 1u << 20, RT_POLICY_DROP);
	select.probes[GETPPID >> 3] |= 1u << (GETPPID & 7);
	select.probes[unfiltered >> 3] |= 1u << (unfiltered & 7);
	select.unfiltered[unfiltered >> 3] |= 1u << (unfiltered & 7);
	select.clause[0].pid_op = RT_FILTER_EQ;
	select.clause[0].pid = UINT32_MAX;
	guest.config.flags |= RT_CONFIG_SELF;
	check_control(guest.fd, RT_IOC_SET_CONFIG, &guest.config);
	guest_map(&guest);
	check_control(guest.fd, RT_IOC_SELECT, &select);
	check_control(guest.fd, RT_IOC_START, NULL);
	for (unsigned i = 0; i < 100; i++) {
		syscall(SYS_getppid);
		syscall(SYS_getuid);
	}
	check_control(guest.fd, RT_IOC_STOP, NULL);
	guest_drain(&guest, &count, NULL, NULL);
	check(count.events >= 100 && count.events < 200);
	guest_check_ledger(&guest, &count);
	guest_close(&guest);
}

const struct test device_tests[] = {
	{"device_bad_addresses", bad_addresses},
	{"device_unknown_calls", unknown_calls},
	{"device_info", info},
	{"device_lists", lists},
	{"device_enabling", enabling},
	{"device_selections_are_bounded", selections_are_bounded},
	{"device_configuring", configuring},
	{"device_bells", bells},
	{"device_reading_records", reading_records},
	{"device_kprobes", kprobes},
	{"device_mappings", mappings},
	{"device_capabilities", capabilities},
	{"device_simple_reader", simple_reader},
	{"device_bell_rings", bell_rings},
	{"device_two_consumers", two_consumers},
	{"device_selects_unfiltered", selects_unfiltered},
	{NULL, NULL},
};
