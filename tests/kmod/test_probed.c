/*
 * test_probed: probes of another module (tests/kmod/probed, by kmod/uapi/ringtail_probe.h) are listed as they are
 * written, recorded with the values that it passes, and let go of when it is unloaded.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/kmod/guest.h"

#define RING_BYTES	(8u << 20)
#define PROBES		5
#define PROBES_MAX	4096
#define TURNS		1000
#define TURNS_LEAST	20	/* in a child, each time */
#define PARAMETERS	"/sys/module/probed/parameters/"
#define CHILD_OPENS_MS	1

static void load(void)
{
	int fd = open("/probed.ko", O_RDONLY | O_CLOEXEC);

	check(fd >= 0);
	check_equal(syscall(SYS_finit_module, fd, "", 0), 0);
	close(fd);
}

/* Somebody may be in its parameter right now. */
static void unload(void)
{
	while (syscall(SYS_delete_module, "probed", O_NONBLOCK) != 0)
		check(errno == EAGAIN || errno == EBUSY);
}

/* 0, or -1: the module is not there. */
static int pass(uint32_t turns)
{
	int fd = open(PARAMETERS "turns", O_WRONLY | O_CLOEXEC), err;
	char text[16];

	if (fd < 0)
		return -1;
	snprintf(text, sizeof(text), "%u", turns);
	err = write(fd, text, strlen(text)) == (ssize_t)strlen(text) ? 0 : -1;
	close(fd);
	return err;
}

static uint32_t evaluated(void)
{
	FILE *file = fopen(PARAMETERS "evaluated", "r");
	uint32_t times = 0;

	check(file && fscanf(file, "%u", &times) == 1);
	fclose(file);
	return times;
}

/* ---- What is listed ------------------------------------------------------------------------------ */

static struct rt_probe_info listed[PROBES_MAX];

/* How many probes of the module are listed. */
static uint32_t list(int fd)
{
	struct rt_table table = {.count = PROBES_MAX, .to = (uintptr_t)listed};
	uint32_t found = 0;

	check_control(fd, RT_IOC_LIST, &table);
	for (uint32_t i = 0; i < table.count; i++)
		if (strcmp(listed[i].provider, "probed") == 0)
			listed[found++] = listed[i];
	return found;
}

static const struct rt_probe_info *find(int fd, const char *name)
{
	uint32_t n = list(fd);

	for (uint32_t i = 0; i < n; i++)
		if (strcmp(listed[i].function, name) == 0)
			return &listed[i];
	fail(__FILE__, __LINE__, "probed:%s is not listed", name);
}

static uint32_t id_of(int fd, const char *name)
{
	return find(fd, name)->id;
}

struct described {
	const char *probe, *format, *file;
	uint32_t fields;
	struct rt_field_info field[6];
};

static const struct described described[] = {
	{"integers", "%hhd %hu %lld %llx %d of turn %u", "main.c", 6, {
		{RT_FIELD_SIGNED, 8, "narrow", "s8"}, {RT_FIELD_UNSIGNED, 16, "medium", "u16"},
		{RT_FIELD_SIGNED, 64, "wide", "s64"}, {RT_FIELD_UNSIGNED, 64, "all", "u64"},
		{RT_FIELD_UNSIGNED, 8, "arg4", "u8"}, {RT_FIELD_UNSIGNED, 32, "turn", "u32"}}},
	{"text", "%s of %u bytes\n", "text.c", 2, {
		{RT_FIELD_TEXT, 0, "shown", "char[]"}, {RT_FIELD_UNSIGNED, 32, "bytes", "u32"}}},
	{"everywhere", "%u at %p", "main.c", 2, {
		{RT_FIELD_SIGNED, 32, "arg0", "s32"}, {RT_FIELD_HEX, 64, "data", "pointer"}}},
	{"came", "it is there", "main.c", 0, {}},
	{"went", "it ends", "main.c", 0, {}},
};

static void check_described(int fd, const struct described *want)
{
	const struct rt_probe_info *info = find(fd, want->probe);
	struct rt_field_info field[6];
	struct rt_table table = {.count = 6, .probe = info->id, .to = (uintptr_t)field};
	struct rt_probe_source source = {.probe = info->id};
	size_t file;

	check(strcmp(info->name, "event") == 0);
	check_equal(info->fields, want->fields);
	check_control(fd, RT_IOC_FIELDS, &table);
	check_equal(table.count, want->fields);
	for (uint32_t i = 0; i < want->fields; i++)
		if (memcmp(&field[i], &want->field[i], sizeof(field[i])) != 0)
			fail(__FILE__, __LINE__, "field %u of %s is %s %s, type %u, %u bits", i, want->probe,
			     field[i].c_type, field[i].name, field[i].type, field[i].bits);
	check_control(fd, RT_IOC_SOURCE, &source);
	check(strcmp(source.format, want->format) == 0);
	check(strcmp(source.module, "probed") == 0);
	file = strlen(source.file);
	check(file >= strlen(want->file) && strcmp(source.file + file - strlen(want->file), want->file) == 0);
	check(source.line > 0);
	check_equal(source.loaded, 1);
}

/* As they are written; they keep their numbers. */
static void are_listed(void)
{
	uint32_t ids[PROBES];
	struct guest guest;

	guest_open(&guest, RING_BYTES, RT_POLICY_DROP);
	check_equal(list(guest.fd), 0);
	load();
	check_equal(list(guest.fd), PROBES);
	for (uint32_t i = 0; i < PROBES; i++) {
		check_described(guest.fd, &described[i]);
		ids[i] = id_of(guest.fd, described[i].probe);
		check(ids[i] >= RT_PROBE_MADE && ids[i] < RT_PROBE_MADE + RT_MODULE_PROBES_MAX);
	}
	unload();
	check_equal(list(guest.fd), PROBES);
	for (uint32_t i = 0; i < PROBES; i++) {
		struct rt_probe_source source = {.probe = ids[i]};

		check_equal(id_of(guest.fd, described[i].probe), ids[i]);
		check_control(guest.fd, RT_IOC_SOURCE, &source);
		check_equal(source.loaded, 0);
	}
	load();
	check_equal(list(guest.fd), PROBES);
	for (uint32_t i = 0; i < PROBES; i++) {
		check_described(guest.fd, &described[i]);
		check_equal(id_of(guest.fd, described[i].probe), ids[i]);
	}
	unload();
	guest_close(&guest);
}

static void source_is_of_modules_only(void)
{
	struct rt_probe_source source = {.probe = RT_PROBE_SCHED_SWITCH};
	struct guest guest;

	guest_open(&guest, RING_BYTES, RT_POLICY_DROP);
	check_equal(control(guest.fd, RT_IOC_SOURCE, &source), -ENODATA);
	source.probe = RT_PROBE_MADE + RT_MODULE_PROBES_MAX;
	check_equal(control(guest.fd, RT_IOC_SOURCE, &source), -ENOENT);
	source.probe = ~0u;
	check_equal(control(guest.fd, RT_IOC_SOURCE, &source), -ENOENT);
	check_equal(control(guest.fd, RT_IOC_SOURCE, NULL), -EFAULT);
	guest_close(&guest);
}

/* Each coming and going is told, until nobody wants to be. */
static void is_told(void)
{
	int watch = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), none = -1, file, wrong = -2;
	struct guest guest;
	uint64_t times;

	guest_open(&guest, RING_BYTES, RT_POLICY_DROP);
	check_control(guest.fd, RT_IOC_WATCH, &watch);
	check_equal(read(watch, &times, sizeof(times)), -1);
	load();
	check_equal(read(watch, &times, sizeof(times)), sizeof(times));
	check_equal(times, 1);
	unload();
	check_equal(read(watch, &times, sizeof(times)), sizeof(times));
	check_equal(times, 1);
	file = open("/probed.ko", O_RDONLY);
	check_equal(control(guest.fd, RT_IOC_WATCH, &file), -EINVAL);
	check_equal(control(guest.fd, RT_IOC_WATCH, &wrong), -EBADF);
	load();
	check_equal(read(watch, &times, sizeof(times)), sizeof(times));
	check_control(guest.fd, RT_IOC_WATCH, &none);
	unload();
	check_equal(read(watch, &times, sizeof(times)), -1);
	close(file);
	guest_close(&guest);
	close(watch);
}

/* ---- What is recorded ---------------------------------------------------------------------------- */

struct seen {
	uint32_t integers, text, everywhere, came, went;	/* numbers of probes */
	uint64_t count[5];
	uint64_t on_cpu[GUEST_CPUS_MAX];
};

static void see_integers(const struct ring_item *item, struct seen *seen)
{
	uint32_t turn = (uint32_t)(seen->count[0]++ % TURNS);

	check_equal(item->words, 6);
	check_equal(item->payload[0], (int8_t)(turn * 37));
	check_equal(item->payload[1], (uint16_t)(turn * 40503));
	check_equal(item->payload[2], -(int64_t)turn * (1ll << 33));
	check_equal(item->payload[3], ~0ull - turn);
	check_equal(item->payload[4], turn & 1);
	check_equal(item->payload[5], turn);
}

static void see_text(const struct ring_item *item, struct seen *seen)
{
	uint32_t turn = (uint32_t)(seen->count[1]++ % TURNS), bytes = turn % 201;
	const struct rt_attachment *text = (const void *)(item->payload + 2);
	uint32_t recorded = bytes > RT_STRING_BYTES_MAX ? RT_STRING_BYTES_MAX : bytes;
	char want[RT_STRING_BYTES_MAX];

	memset(want, 'a' + bytes % 26, sizeof(want));
	if (bytes == 200) {
		recorded = 6;
		memcpy(want, "(null)", 6);
	}
	check_equal(item->payload[0], recorded);
	check_equal(item->payload[1], bytes);
	check_equal(text->kind, RT_ATTACH_STRING);
	check_equal(text->arg, 0);
	check_equal(text->bytes, recorded);
	check_equal(item->words, 2 + 1 + (recorded + 7) / 8);
	check(memcmp(text->data, want, recorded) == 0);
	for (uint32_t i = recorded; i % 8; i++)
		check_equal(text->data[i], 0);
}

static void see(const struct guest_item *at, void *data)
{
	const struct ring_item *item = &at->item;
	struct seen *seen = data;

	if (item->probe == seen->integers) {
		see_integers(item, seen);
	} else if (item->probe == seen->text) {
		see_text(item, seen);
	} else if (item->probe == seen->everywhere) {
		check_equal(item->words, 2);
		check_equal(item->payload[0], at->cpu);
		check_equal(item->payload[1], seen->on_cpu[at->cpu]++ % TURNS);
		seen->count[2]++;
	} else if (item->probe == seen->came) {
		seen->count[3]++;
	} else if (item->probe == seen->went) {
		seen->count[4]++;
	}
}

static void open_probed(struct guest *guest, struct seen *seen)
{
	guest_open(guest, RING_BYTES, RT_POLICY_DROP);
	guest->config.flags |= RT_CONFIG_SELF;
	check_control(guest->fd, RT_IOC_SET_CONFIG, &guest->config);
	guest_map(guest);
	*seen = (struct seen){
		.integers = id_of(guest->fd, "integers"), .text = id_of(guest->fd, "text"),
		.everywhere = id_of(guest->fd, "everywhere"), .came = id_of(guest->fd, "came"),
		.went = id_of(guest->fd, "went"),
	};
}

/* Stops, reads all, and closes the ledger. */
static void end_probed(struct guest *guest, struct seen *seen)
{
	struct guest_count count = {0};

	check_control(guest->fd, RT_IOC_STOP, NULL);
	guest_drain(guest, &count, see, seen);
	check_equal(count.lost_total, 0);
	guest_check_ledger(guest, &count);
	guest_close(guest);
}

static void check_seen(const struct seen *seen, uint64_t integers, uint64_t text, uint64_t everywhere)
{
	check_equal(seen->count[0], integers);
	check_equal(seen->count[1], text);
	check_equal(seen->count[2], everywhere);
}

/* Each alone, and none by another's wish; of the one that nobody asks for no argument is evaluated. */
static void values(void)
{
	uint32_t before = evaluated();
	struct guest guest;
	struct seen seen;

	check_equal(pass(TURNS), 0);
	check_equal(evaluated(), before);
	open_probed(&guest, &seen);
	guest_start(&guest, 0, 0, seen.text, seen.everywhere, 0);
	check_equal(pass(TURNS), 0);
	check_equal(evaluated(), before);
	end_probed(&guest, &seen);
	check_seen(&seen, 0, TURNS, (uint64_t)TURNS * (uint64_t)cpus_online());
	open_probed(&guest, &seen);
	guest_start(&guest, 0, 0, seen.integers, 0);
	check_equal(pass(TURNS), 0);
	check_equal(evaluated(), before + TURNS);
	end_probed(&guest, &seen);
	check_seen(&seen, TURNS, 0, 0);
	check_equal(pass(TURNS), 0);
	check_equal(evaluated(), before + TURNS);
}

/* Also of a module that was there before this one (init.sh). */
static void are_exact(void)
{
	bool was_there = access(PARAMETERS, F_OK) == 0;

	if (!was_there)
		load();
	values();
	if (!was_there)
		unload();
}

/* One more probe is asked for, and one less, while the module works; a filter holds as for others. */
static void changes(void)
{
	struct rt_enable enable = {0};
	struct guest guest;
	struct seen seen;

	load();
	open_probed(&guest, &seen);
	guest_start(&guest, 0, 0, seen.integers, 0);
	check_equal(pass(TURNS), 0);
	enable.probe = seen.text;
	check_control(guest.fd, RT_IOC_ENABLE, &enable);
	check_control(guest.fd, RT_IOC_DISABLE, &seen.integers);
	check_equal(pass(TURNS), 0);
	/* Another one is asked for, but not this one any more. */
	check_equal(evaluated(), TURNS);
	enable.clauses = 1;
	enable.clause[0].pid_op = RT_FILTER_NE;
	enable.clause[0].pid = (uint32_t)getpid();
	check_control(guest.fd, RT_IOC_ENABLE, &enable);
	check_equal(pass(TURNS), 0);
	end_probed(&guest, &seen);
	check_seen(&seen, TURNS, TURNS, 0);
	unload();
}

/* Each gets what it asked for, also when the other one has gone. */
static void two_ask(void)
{
	struct guest one, other;
	struct seen by_one, by_other;

	load();
	open_probed(&one, &by_one);
	open_probed(&other, &by_other);
	guest_start(&one, 0, 0, by_one.integers, 0);
	guest_start(&other, 0, 0, by_other.text, 0);
	check_equal(pass(TURNS), 0);
	end_probed(&other, &by_other);
	check_equal(pass(TURNS), 0);
	end_probed(&one, &by_one);
	check_seen(&by_one, 2 * TURNS, 0, 0);
	check_seen(&by_other, 0, TURNS, 0);
	unload();
}

/* With the stack of whoever passed it, which begins in its own module. */
static void see_stack(const struct guest_item *at, void *data)
{
	const struct rt_attachment *stack;
	const struct seen *seen = data;

	if (at->item.probe != seen->integers)
		return;
	stack = (const void *)(at->item.payload + 6);
	check_equal(at->item.words, 6 + 1 + stack->bytes / 8);
	check_equal(stack->kind, RT_ATTACH_KSTACK);
	check(stack->bytes / 8 > 3);
}

static void has_stacks(void)
{
	struct guest_count count = {0};
	struct guest guest;
	struct seen seen;

	load();
	open_probed(&guest, &seen);
	guest_start(&guest, 0, RT_FLAG_KSTACK, seen.integers, 0);
	check_equal(pass(10), 0);
	check_control(guest.fd, RT_IOC_STOP, NULL);
	guest_drain(&guest, &count, see_stack, &seen);
	check_equal(count.events, 10);
	guest_check_ledger(&guest, &count);
	guest_close(&guest);
	unload();
}

/* ---- What comes and goes ------------------------------------------------------------------------- */

/* Passes all it can, and says how often it could. */
static pid_t pass_on(volatile uint64_t *times)
{
	pid_t child;

	fflush(stdout);
	child = fork();
	check(child >= 0);
	if (child)
		return child;
	for (;;) {
		if (pass(1) == 0)
			++*times;
		else
			sleep_ms(CHILD_OPENS_MS);
	}
}

static void count_only(const struct guest_item *at, void *data)
{
	struct seen *seen = data;

	seen->count[0] += at->item.probe == seen->integers;
	seen->count[3] += at->item.probe == seen->came;
	seen->count[4] += at->item.probe == seen->went;
}

/* Not one event is missing: those of its beginning and end are there as well, and it can always be unloaded. */
static void unloaded_while_recorded(void)
{
	volatile uint64_t *times = mmap(NULL, sizeof(*times), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct guest_count count = {0};
	struct guest guest;
	struct seen seen;
	uint64_t rounds = 10;
	pid_t child;

	check(times != MAP_FAILED);
	load();
	open_probed(&guest, &seen);
	unload();
	guest_start(&guest, 0, 0, seen.integers, seen.came, seen.went, 0);
	child = pass_on(times);
	for (uint64_t i = 0; i < rounds; i++) {
		uint64_t before = *times;

		load();
		while (*times < before + TURNS_LEAST)
			sleep_ms(1);
		unload();
		guest_drain(&guest, &count, count_only, &seen);
	}
	check_equal(kill(child, SIGKILL), 0);
	check_equal(waitpid(child, NULL, 0), child);
	check_control(guest.fd, RT_IOC_STOP, NULL);
	guest_drain(&guest, &count, count_only, &seen);
	check_equal(count.lost_total, 0);
	guest_check_ledger(&guest, &count);
	/* Killed between its last turn and saying so. */
	check(seen.count[0] == *times || seen.count[0] == *times + 1);
	check_equal(seen.count[3], rounds);
	check_equal(seen.count[4], rounds);
	guest_close(&guest);
}

/* A program that is recording it ends, by a signal, before the module does. */
static void recorder_killed(void)
{
	struct guest guest;
	struct seen seen;
	pid_t child;
	int status;

	load();
	fflush(stdout);
	child = fork();
	check(child >= 0);
	if (child == 0) {
		open_probed(&guest, &seen);
		guest_start(&guest, 0, 0, seen.integers, 0);
		check_equal(pass(TURNS), 0);
		kill(getpid(), SIGKILL);
	}
	check_equal(waitpid(child, &status, 0), child);
	check(WIFSIGNALED(status));
	check_equal(evaluated(), TURNS);
	check_equal(pass(TURNS), 0);
	check_equal(evaluated(), TURNS);
	unload();
}

const struct test probed_tests[] = {
	{"probed_are_listed", are_listed},
	{"probed_source_is_of_modules_only", source_is_of_modules_only},
	{"probed_is_told", is_told},
	{"probed_are_exact", are_exact},
	{"probed_changes", changes},
	{"probed_two_ask", two_ask},
	{"probed_has_stacks", has_stacks},
	{"probed_unloaded_while_recorded", unloaded_while_recorded},
	{"probed_recorder_killed", recorder_killed},
	{NULL, NULL},
};
