/*
 * Connections of programs: by the header's own code, and by bytes that are none of it. A program that comes and goes
 * takes what the limits say, also while it keeps the memory that it was given; the header takes no descriptor but its
 * own.
 */
#include "proto/ringtail-probe.h"

#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "daemon/base/clock.h"
#include "daemon/base/counters.h"
#include "daemon/base/descriptor.h"
#include "daemon/base/limits.h"
#include "daemon/net/turnstile.h"
#include "daemon/programs/programs.h"

#define PATIENCE_NS	(20 * NS_PER_S)

/* Whose program it is, as the kernel would say; -1: as it does. */
static _Atomic int user = -1;

int __real_getsockopt(int fd, int level, int name, void *value, socklen_t *bytes);
int __wrap_getsockopt(int fd, int level, int name, void *value, socklen_t *bytes);
int __wrap_getsockopt(int fd, int level, int name, void *value, socklen_t *bytes)
{
	int err = __real_getsockopt(fd, level, name, value, bytes);

	if (!err && name == SO_PEERCRED && user >= 0)
		((struct ucred *)value)->uid = (uid_t)user;
	return err;
}

static bool reads_counter;		/* programs are to */
static uint32_t hello_flags;
static uint32_t line;			/* where each probe stands that is introduced */

/* The loop has a thread of its own: the header waits for its answer. */
struct fixture {
	struct programs *programs;
	struct event_base *base;
	struct turnstile *turnstile;
	struct event *accepts, *stops;
	int listener, stop;
	pthread_t thread;
	struct sockaddr_un address;
	_Atomic unsigned joined;
};

static bool join(void *context, Ringtail__V1__Probe *probe)
{
	struct fixture *f = context;

	ringtail__v1__probe__free_unpacked(probe, NULL);
	f->joined++;
	return true;
}

static bool is_taken(void *context, const char *provider)
{
	(void)context;
	return strcmp(provider, "taken") == 0;
}

static void on_connection(evutil_socket_t listener, short what, void *context)
{
	struct fixture *f = context;
	int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	(void)what;
	if (fd >= 0)
		programs_accept(f->programs, fd, NULL, "");
}

static void on_stop(evutil_socket_t fd, short what, void *context)
{
	(void)fd, (void)what;
	event_base_loopbreak(((struct fixture *)context)->base);
}

static void *run(void *context)
{
	event_base_dispatch(((struct fixture *)context)->base);
	return NULL;
}

/* All probes are recorded. */
static void begin(struct fixture *f)
{
	struct programs_config config = {
		.cpu = 2, .ring_bytes = 1 << 14, .counter = reads_counter,
		.join = join, .is_taken = is_taken, .context = f,
	};
	struct source_request all = {0};
	struct error error;

	memset(f, 0, sizeof(*f));
	memset(all.probes, 0xff, sizeof(all.probes));
	f->address.sun_family = AF_UNIX;
	snprintf(f->address.sun_path, sizeof(f->address.sun_path), "/tmp/ringtail-programs-%d.sock", getpid());
	unlink(f->address.sun_path);
	f->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(f->listener, (struct sockaddr *)&f->address, sizeof(f->address)), 0);
	assert_int_equal(listen(f->listener, 64), 0);
	f->stop = eventfd(0, EFD_CLOEXEC);
	f->base = event_base_new();
	assert_int_equal(programs_create(&config, &f->programs, &error), 0);
	programs_configure(f->programs, &all, NULL, NULL);
	f->turnstile = turnstile_create(f->base);
	assert_non_null(f->turnstile);
	programs_start(f->programs, f->base, f->turnstile);
	f->accepts = event_new(f->base, f->listener, EV_READ | EV_PERSIST, on_connection, f);
	f->stops = event_new(f->base, f->stop, EV_READ, on_stop, f);
	assert_int_equal(event_add(f->accepts, NULL) | event_add(f->stops, NULL), 0);
	assert_int_equal(pthread_create(&f->thread, NULL, run, f), 0);
	setenv("RINGTAIL_PROGRAMS", f->address.sun_path, 1);
}

static void end_daemon(struct fixture *f)
{
	assert_int_equal(eventfd_write(f->stop, 1), 0);
	pthread_join(f->thread, NULL);
	programs_destroy(f->programs);
	turnstile_destroy(f->turnstile);
	event_free(f->accepts);
	event_free(f->stops);
	event_base_free(f->base);
	close(f->listener);
	close(f->stop);
	unlink(f->address.sun_path);
}

static void finish(struct fixture *f)
{
	rt_probe_detach();
	end_daemon(f);
}

/* One probe, so that there is something to attach. */
static void pass_probe(unsigned count)
{
	RT_PROBE(app, counted, "%u", count);
}

/* As the drain worker does, until `counter` is `want`. */
static void pull_until(struct fixture *f, enum counter counter, uint64_t want)
{
	uint64_t deadline = clock_monotonic() + PATIENCE_NS;
	struct inlet_pulled pulled;

	while (counter_read(counter) < want && clock_monotonic() < deadline) {
		programs_pull(f->programs, clock_monotonic(), &pulled);
		usleep(500);
	}
	assert_true(counter_read(counter) >= want);
}

/* ---- By bytes ------------------------------------------------------------------------------------ */

static int connect_to(const struct fixture *f)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	assert_int_equal(connect(fd, (const struct sockaddr *)&f->address, sizeof(f->address)), 0);
	return fd;
}

/* A probe of each provider, each `name` of it. */
static int send_table(int fd, const char *const *provider, unsigned probes)
{
	struct rt_program_hello hello = {.magic = RT_PROGRAM_MAGIC, .version = RT_PROGRAM_VERSION, .probes = probes,
					 .flags = hello_flags};
	_Alignas(8) char table[2048] = {0};

	for (unsigned i = 0; i < probes; i++) {
		struct rt_program_probe *entry = (void *)(table + hello.bytes);

		entry->bytes = sizeof(*entry) + 32;
		entry->line = line;
		strcpy((char *)(entry + 1), provider[i]);
		memcpy((char *)(entry + 1) + strlen(provider[i]) + 1, "name\0f\0a.c", 11);
		hello.bytes += entry->bytes;
	}
	return send(fd, &hello, sizeof(hello), MSG_NOSIGNAL) == sizeof(hello) &&
	       send(fd, table, hello.bytes, MSG_NOSIGNAL) == (ssize_t)hello.bytes ? 0 : -1;
}

/* The daemon's answer: 0, or that it is refused. */
static int introduce(int fd, const char *const *provider, unsigned probes)
{
	struct rt_program_welcome welcome;

	if (send_table(fd, provider, probes) != 0 ||
	    recv(fd, &welcome, sizeof(welcome), MSG_WAITALL) != sizeof(welcome))
		return -1;
	return welcome.err;
}

/* What is refused leaves nothing in the catalog, whichever of its probes is the reason. */
static void test_a_refused_program_leaves_no_probes(void **state)
{
	static const char *const provider[] = {"good", "fine", "taken"};
	struct fixture f;
	int fd;

	(void)state;
	begin(&f);
	fd = connect_to(&f);
	assert_true(introduce(fd, provider, 3) < 0);
	close(fd);
	assert_int_equal(f.joined, 0);
	fd = connect_to(&f);
	assert_int_equal(introduce(fd, provider, 2), 0);
	close(fd);
	assert_int_equal(f.joined, 2);
	finish(&f);
}

/* Its memory is there until it is read: so long it counts, though its connection is closed. */
static void test_programs_count_until_they_are_read(void **state)
{
	static const char *const provider[] = {"app"};
	uint64_t ended = counter_read(COUNTER_programs_ended);
	unsigned admitted = 0;
	struct fixture f;
	int fd;

	(void)state;
	begin(&f);
	for (unsigned i = 0; i < PROGRAMS_MAX + 16; i++) {
		fd = connect_to(&f);
		admitted += introduce(fd, provider, 1) == 0;
		close(fd);
	}
	assert_int_equal(admitted, getuid() ? PROGRAMS_MAX / PROGRAMS_SHARE : PROGRAMS_MAX);
	pull_until(&f, COUNTER_programs_ended, ended + admitted);
	fd = connect_to(&f);
	assert_int_equal(introduce(fd, provider, 1), 0);
	close(fd);
	finish(&f);
}

/* A program with so many new probes. */
static int bring_program(struct fixture *f, unsigned probes)
{
	static unsigned count;
	const char *provider[16];
	char name[16][16];
	int fd = connect_to(f), err;

	for (unsigned i = 0; i < probes; i++) {
		snprintf(name[i], sizeof(name[i]), "app%u", count++);
		provider[i] = name[i];
	}
	err = introduce(fd, provider, probes);
	close(fd);
	return err;
}

/* How many new probes the user's programs can have; at most `most`. */
static unsigned bring_probes(struct fixture *f, int uid, unsigned most)
{
	uint64_t ended = counter_read(COUNTER_programs_ended);
	unsigned probes = 0, programs = 0, step = 16;

	user = uid;
	while (step && probes < most) {
		step = step < most - probes ? step : most - probes;
		if (bring_program(f, step) == 0) {
			probes += step;
			programs++;
		} else {
			step /= 2;
		}
	}
	/* The next user meets no bound of programs. */
	pull_until(f, COUNTER_programs_ended, ended + programs);
	return probes;
}

/* Each who comes has half of what the others left, so that there is always something left for the next one. */
static void test_shares_of_numbers_shrink(void **state)
{
	unsigned left = PROGRAM_PROBES_MAX;
	struct fixture f;

	(void)state;
	begin(&f);
	for (int uid = 1000; left > 1; uid++) {
		assert_int_equal(bring_probes(&f, uid, PROGRAM_PROBES_MAX), left / PROGRAMS_SHARE);
		left -= left / PROGRAMS_SHARE;
	}
	assert_int_equal(f.joined, PROGRAM_PROBES_MAX - left);
	/* Root has all that is left. */
	assert_int_equal(bring_probes(&f, 0, PROGRAM_PROBES_MAX), left);
	finish(&f);
	user = -1;
}

/* The probe of another user is another one. */
static void test_a_probe_is_its_users_alone(void **state)
{
	struct fixture f;

	(void)state;
	begin(&f);
	for (unsigned i = 0; i < 4; i++) {
		int fd;

		user = 1000 + (int)i % 2;
		fd = connect_to(&f);
		assert_int_equal(introduce(fd, (const char *const[]){"app"}, 1), 0);
		close(fd);
	}
	assert_int_equal(f.joined, 2);
	finish(&f);
	user = -1;
}

/* Nor are those that its user may see the ones that the user may not, though they are called the same. */
static void test_a_users_own_are_those_that_it_may_see(void **state)
{
	struct fixture f;

	(void)state;
	begin(&f);
	user = 1000;
	for (unsigned i = 0; i < 4; i++) {
		int fd = connect_to(&f);

		hello_flags = i % 2 ? RT_PROGRAM_SHOWN : 0;
		assert_int_equal(introduce(fd, (const char *const[]){"app"}, 1), 0);
		close(fd);
	}
	assert_int_equal(f.joined, 2);
	assert_false(programs_is_own(f.programs, 1000, RT_PROBE_PROGRAM));
	assert_true(programs_is_own(f.programs, 1000, RT_PROBE_PROGRAM + 1));
	assert_false(programs_is_own(f.programs, 1001, RT_PROBE_PROGRAM + 1));
	assert_false(programs_is_own(f.programs, 1000, RT_PROBE_PROGRAM + 2));
	assert_false(programs_is_own(f.programs, 0, 7));
	hello_flags = 0;
	user = -1;
	finish(&f);
}

/* In a process of its own, which asks for its rights once: as root, and as a user who may look into it, or not. */
static int shown_as(bool is_user, int dumpable)
{
	pid_t child = fork();
	int status = 0;

	if (!child) {
		if (is_user && getuid() == 0 && setresuid(1000, 1000, 1000) != 0)
			_exit(9);
		if (prctl(PR_SET_DUMPABLE, dumpable) != 0)
			_exit(8);
		_exit(rt_probe_is_shown() != 0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static void test_a_program_is_shown_to_whom_may_look_into_it(void **state)
{
	(void)state;
	assert_int_equal(shown_as(true, 1), 1);
	assert_int_equal(shown_as(true, 0), 0);
	if (getuid() == 0)
		assert_int_equal(shown_as(false, 1), 0);
}

/* A program that has more new probes than there are numbers takes none of them. */
static void test_too_many_probes_take_no_number(void **state)
{
	enum { PROBES = 16 };
	unsigned before;
	struct fixture f;

	(void)state;
	begin(&f);
	bring_probes(&f, 1000, PROGRAM_PROBES_MAX / PROGRAMS_SHARE - PROBES + 1);
	before = f.joined;
	assert_true(bring_program(&f, PROBES) < 0);
	assert_int_equal(f.joined, before);
	assert_int_equal(bring_program(&f, PROBES - 1), 0);
	assert_int_equal(f.joined, before + PROBES - 1);
	finish(&f);
	user = -1;
}

/* A program that is built again has its probes in other lines: they are the same, also two that are alike. */
static void test_a_program_built_again_keeps_its_numbers(void **state)
{
	static const char *const provider[] = {"app", "other", "app"};
	struct fixture f;
	int fd;

	(void)state;
	begin(&f);
	for (line = 1; line < 40; line++) {
		fd = connect_to(&f);
		assert_int_equal(introduce(fd, provider, 3), 0);
		close(fd);
	}
	assert_int_equal(f.joined, 3);
	assert_string_equal(programs_source(f.programs, RT_PROBE_PROGRAM + 2), "a.c:39");
	assert_null(programs_source(f.programs, RT_PROBE_PROGRAM + 3));
	line = 0;
	finish(&f);
}

static void test_each_user_has_so_many_programs(void **state)
{
	static const char *const provider[] = {"app"};
	unsigned admitted = 0;
	struct fixture f;

	(void)state;
	begin(&f);
	user = 1000;
	for (unsigned i = 0; i < PROGRAMS_MAX / PROGRAMS_SHARE + 8; i++) {
		int fd = connect_to(&f);

		admitted += introduce(fd, provider, 1) == 0;
		close(fd);
	}
	assert_int_equal(admitted, PROGRAMS_MAX / PROGRAMS_SHARE);
	finish(&f);
	user = -1;
}

/* Who sends a byte now and then has one deadline, not one for each byte. */
static void test_a_slow_hello_has_one_deadline(void **state)
{
	struct rt_program_hello hello = {.magic = RT_PROGRAM_MAGIC, .version = RT_PROGRAM_VERSION, .probes = 1};
	struct pollfd poll_fd = {.events = POLLIN};
	unsigned sent = 0;
	struct fixture f;

	(void)state;
	begin(&f);
	poll_fd.fd = connect_to(&f);
	/* Three times what it may take, and it is not whole then. */
	while (sent < sizeof(hello) - 1) {
		if (send(poll_fd.fd, (const char *)&hello + sent++, 1, MSG_NOSIGNAL) != 1 ||
		    poll(&poll_fd, 1, 3000 * PROGRAM_HELLO_S_MAX / (int)sizeof(hello)) == 1)
			break;
	}
	assert_true(sent < sizeof(hello) - 1);
	close(poll_fd.fd);
	finish(&f);
}

/* ---- By the header ------------------------------------------------------------------------------- */

/* The header waits 200 ms for an answer, which a machine that is busy may take. */
static void attach(void)
{
	uint64_t deadline = clock_monotonic() + PATIENCE_NS;

	while (rt_probe_attach() != 0)
		assert_true(clock_monotonic() < deadline);
}

/* A program that becomes a daemon closes every descriptor, and has others of the same numbers then. */
static void test_a_number_used_again_is_not_the_headers(void **state)
{
	int other[2], number;
	struct fixture f;
	char byte = 0;

	(void)state;
	begin(&f);
	attach();
	number = rt_probe_socket;
	assert_true(number > 2);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, other), 0);
	assert_int_equal(dup2(other[0], number), number);
	attach();			/* it is not mistaken for the daemon's */
	assert_int_not_equal(rt_probe_socket, number);
	assert_int_equal(write(number, "x", 1), 1);		/* nor closed */
	assert_int_equal(read(other[1], &byte, 1), 1);
	number = rt_probe_socket;
	assert_int_equal(dup2(other[0], number), number);
	rt_probe_detach();
	assert_int_equal(write(number, "y", 1), 1);
	assert_int_equal(read(other[1], &byte, 1), 1);
	assert_int_equal(byte, 'y');
	close(number);
	close(other[0]);
	close(other[1]);
	finish(&f);
}

/* Standard input, closed, is the program's to open. */
static void test_standard_descriptors_stay_free(void **state)
{
	int input = dup(0), fd;

	(void)state;
	close(0);
	fd = rt_probe_open_socket();
	assert_int_equal(fcntl(0, F_GETFD), -1);
	if (input >= 0)
		dup2(input, 0);
	close(input);
	assert_true(fd > 2);
	close(fd);
}

static unsigned open_descriptors(void)
{
	unsigned count = 0;

	for (int fd = 0; fd < 256; fd++)
		count += fcntl(fd, F_GETFD) >= 0;
	return count;
}

/* Who answers may be anybody: whatever the answer is, its descriptors do not stay. */
static void test_a_bad_answer_leaves_no_descriptors(void **state)
{
	struct rt_program_welcome bad = {.magic = RT_PROGRAM_MAGIC, .version = RT_PROGRAM_VERSION, .err = -EPERM};
	const size_t bytes[] = {sizeof(bad), sizeof(bad) / 2, 1};
	unsigned before;
	int pair[2];

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	before = open_descriptors();
	for (size_t i = 0; i < sizeof(bytes) / sizeof(bytes[0]); i++) {
		for (unsigned fds = 1; fds <= 2; fds++) {
			uint64_t segment_bytes;

			assert_int_equal(descriptor_send(pair[0], &bad, bytes[i], pair, fds), 0);
			assert_int_equal(rt_probe_take_welcome(pair[1], 0, &segment_bytes), -1);
			assert_int_equal(open_descriptors(), before);
		}
	}
	close(pair[0]);
	close(pair[1]);
}

static int answering;
static volatile sig_atomic_t alarms;

/* The third one brings the answer. */
static void on_alarm(int number)
{
	static const struct rt_program_welcome good = {
		.magic = RT_PROGRAM_MAGIC, .version = RT_PROGRAM_VERSION, .bytes = 4096,
	};

	(void)number;
	if (++alarms == 3)
		descriptor_send(answering, &good, sizeof(good), &answering, 1);
}

/* A signal is no answer, and no reason to do without. */
static void test_an_interrupted_answer_is_awaited(void **state)
{
	struct itimerval every = {.it_interval = {.tv_usec = 2000}, .it_value = {.tv_usec = 2000}}, never = {0};
	struct sigaction action = {.sa_handler = on_alarm}, before;
	uint64_t bytes = 0;
	int pair[2], fd = -1;

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	answering = pair[0];
	assert_int_equal(sigaction(SIGALRM, &action, &before), 0);
	/* Again where the machine took longer than the header waits. */
	for (unsigned tries = 0; tries < 10 && fd < 0; tries++) {
		alarms = 0;
		assert_int_equal(setitimer(ITIMER_REAL, &every, NULL), 0);
		fd = rt_probe_take_welcome(pair[1], rt_span_now() + RT_PROBE_WAIT_US * 1000ull, &bytes);
		setitimer(ITIMER_REAL, &never, NULL);
	}
	sigaction(SIGALRM, &before, NULL);
	assert_true(fd >= 0);
	assert_int_equal(bytes, 4096);
	close(fd);
	close(pair[0]);
	close(pair[1]);
}

/* Without its connection a program is not read: so its probes cost it nothing either, and no event vanishes. */
static void test_who_has_ended_is_not_asked_any_more(void **state)
{
	uint64_t ended = counter_read(COUNTER_programs_ended), deadline = clock_monotonic() + PATIENCE_NS;
	const volatile uint32_t *enabled;
	struct fixture f;

	(void)state;
	begin(&f);
	attach();
	enabled = rt_probe_segment->enabled;
	assert_int_equal(*enabled, 1);
	pass_probe(1);
	shutdown(rt_probe_socket, SHUT_RDWR);
	while (*enabled && clock_monotonic() < deadline)
		usleep(500);
	assert_int_equal(*enabled, 0);
	pull_until(&f, COUNTER_programs_ended, ended + 1);
	finish(&f);
}

/* The list of programs is the loop's: it stands still meanwhile. */
static void stop_loop(struct fixture *f)
{
	assert_int_equal(eventfd_write(f->stop, 1), 0);
	pthread_join(f->thread, NULL);
}

static void resume_loop(struct fixture *f)
{
	assert_int_equal(eventfd_read(f->stop, &(eventfd_t){0}), 0);
	assert_int_equal(event_add(f->stops, NULL), 0);
	assert_int_equal(pthread_create(&f->thread, NULL, run, f), 0);
}

/* What nobody wants any more costs the program nothing, and comes again when somebody does. */
static void test_what_is_not_wanted_is_disabled(void **state)
{
	struct source_request wanted = {0};
	const volatile uint32_t *enabled;
	struct fixture f;

	(void)state;
	begin(&f);
	attach();
	enabled = rt_probe_segment->enabled;
	assert_int_equal(*enabled, 1);
	stop_loop(&f);
	for (int byte = 0; byte <= 0xff; byte += 0xff) {
		memset(wanted.probes, byte, sizeof(wanted.probes));
		programs_configure(f.programs, &wanted, NULL, NULL);
		assert_int_equal(*enabled, byte != 0);
	}
	resume_loop(&f);
	finish(&f);
}

static void look_at_process(void *context, uint16_t id, const struct programs_process *process)
{
	assert_int_equal(id, RT_PROBE_PROGRAM);
	assert_int_equal(process->pid, getpid());
	*(bool *)context = process->enabled;
}

/* A filter by process or user disables the probes of all others; what it cannot say beforehand disables nobody. */
static void test_only_the_wanted_process_is_enabled(void **state)
{
	const uint32_t pid = (uint32_t)getpid(), uid = getuid();
	const struct {
		struct rt_filter_clause clause[2];
		unsigned clauses;
		uint8_t unfiltered;
		bool on;
	} row[] = {
		{{{.pid_op = RT_FILTER_EQ, .pid = pid}}, 1, 0, true},
		{{{.pid_op = RT_FILTER_EQ, .pid = pid + 1}}, 1, 0, false},
		{{{.pid_op = RT_FILTER_EQ, .pid = pid + 1}}, 1, 1, true},
		{{{.pid_op = RT_FILTER_NE, .pid = pid}}, 1, 0, false},
		{{{.pid_op = RT_FILTER_NE, .pid = pid + 1}}, 1, 0, true},
		{{{.uid_op = RT_FILTER_EQ, .uid = uid + 1}}, 1, 0, false},
		{{{.uid_op = RT_FILTER_EQ, .uid = uid, .pid_op = RT_FILTER_NE, .pid = pid}}, 1, 0, false},
		{{{.pid_op = RT_FILTER_NE, .pid = pid}, {.uid_op = RT_FILTER_EQ, .uid = uid}}, 2, 0, true},
		{{{.tid_op = RT_FILTER_EQ, .tid = 1}}, 1, 0, true},
		{{{.comm_op = RT_FILTER_EQ, .comm = "nobody"}}, 1, 0, true},
	};
	const volatile uint32_t *enabled;
	struct fixture f;

	(void)state;
	begin(&f);
	attach();
	enabled = rt_probe_segment->enabled;
	stop_loop(&f);
	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		struct source_request wanted = {.clauses = row[i].clauses};
		bool listed = !row[i].on;

		memset(wanted.probes, 0xff, sizeof(wanted.probes));
		wanted.unfiltered[RT_PROBE_PROGRAM / 8] = row[i].unfiltered;
		memcpy(wanted.clause, row[i].clause, sizeof(row[i].clause));
		programs_configure(f.programs, &wanted, NULL, NULL);
		assert_int_equal(*enabled, row[i].on);
		programs_each(f.programs, look_at_process, &listed);
		assert_int_equal(listed, row[i].on);
	}
	resume_loop(&f);
	finish(&f);
}

/* From 10 to 19 alone, or what the filters before let pass. */
static void narrow_to_ten(void *context, uint16_t id, uint32_t words, struct probe_filter *filter)
{
	const struct rt_program_test test = {
		.kind = RT_PROGRAM_RANGE, .shift = 32, .low = 10, .span = 9, .yes = RT_PROGRAM_PASS, .no = filter->first,
	};

	(void)context;
	assert_int_equal(id, RT_PROBE_PROGRAM);
	assert_int_equal(words, 1);
	assert_true(probe_filter_add(filter, &test, &filter->first));
}

/* None of its events passes. */
static void narrow_to_nothing(void *context, uint16_t id, uint32_t words, struct probe_filter *filter)
{
	(void)context, (void)id, (void)words, (void)filter;
}

static uint64_t filtered(const struct rt_program_segment *segment)
{
	uint64_t events = 0;

	for (uint32_t i = 0; i < segment->rings; i++)
		events += rt_probe_ring((struct rt_program_segment *)segment, i)->filtered;
	return events;
}

/* What no filter lets pass is not written, and is counted; whoever wants all of it gets all. */
static void test_a_program_asks_before_it_writes(void **state)
{
	uint64_t records, before;
	struct source_request wanted = {0};
	struct fixture f;
	bool listed = true;

	(void)state;
	begin(&f);
	attach();
	stop_loop(&f);
	records = counter_read(COUNTER_program_records);
	before = counter_read(COUNTER_program_events_filtered);
	memset(wanted.probes, 0xff, sizeof(wanted.probes));
	programs_configure(f.programs, &wanted, narrow_to_ten, NULL);
	assert_int_equal(rt_probe_segment->enabled[0], RT_PROGRAM_NARROWED);
	for (unsigned i = 0; i < 100; i++)
		pass_probe(i);
	pull_until(&f, COUNTER_program_events_filtered, before + 90);
	pull_until(&f, COUNTER_program_records, records + 10);
	programs_configure(f.programs, &wanted, narrow_to_nothing, NULL);
	assert_int_equal(rt_probe_segment->enabled[0], 0);
	programs_each(f.programs, look_at_process, &listed);
	assert_false(listed);
	programs_configure(f.programs, &wanted, NULL, NULL);
	assert_int_equal(rt_probe_segment->enabled[0], 1);
	for (unsigned i = 0; i < 100; i++)
		pass_probe(i);
	pull_until(&f, COUNTER_program_records, records + 110);
	assert_int_equal(counter_read(COUNTER_program_records), records + 110);
	assert_int_equal(counter_read(COUNTER_program_events_filtered), before + 90);
	assert_int_equal(filtered(rt_probe_segment), 90);
	/* A program cannot say that more passed by than it had time for, nor less than before. */
	rt_probe_ring(rt_probe_segment, 0)->filtered = UINT64_MAX / 2;
	pull_until(&f, COUNTER_program_events_filtered, before + 91);
	rt_probe_ring(rt_probe_segment, 0)->filtered = 0;
	programs_pull(f.programs, clock_monotonic(), &(struct inlet_pulled){0});
	assert_in_range(counter_read(COUNTER_program_events_filtered), before + 91, before + 1000 * NS_PER_S);
	resume_loop(&f);
	finish(&f);
}

static uint64_t published(const struct rt_program_segment *segment)
{
	uint64_t bytes = 0;

	for (uint32_t i = 0; i < segment->rings; i++)
		bytes += rt_probe_ring((struct rt_program_segment *)segment, i)->producer_pos;
	return bytes;
}

/* Passes its probe until it has other memory than `before`: another daemon's. */
static void await_other_daemon(const struct rt_program_segment *before)
{
	uint64_t deadline = clock_monotonic() + PATIENCE_NS;

	while (rt_probe_segment == before && clock_monotonic() < deadline) {
		pass_probe(1);
		usleep(1000);
	}
	assert_ptr_not_equal(rt_probe_segment, before);
}

/* After a stop in order a program writes nothing, and finds the next daemon by itself; so does its child. */
static void test_a_program_finds_the_next_daemon(void **state)
{
	struct rt_program_segment *first;
	struct fixture f;
	uint64_t records;
	int status, born;
	pid_t child;

	(void)state;
	begin(&f);
	attach();
	first = rt_probe_segment;
	assert_int_equal(first->leaving, 0);
	end_daemon(&f);
	assert_int_equal(first->leaving, 1);
	for (unsigned i = 0; i < 5 * RT_PROBE_LOOK_EVERY; i++)
		pass_probe(i);
	assert_int_equal(published(first), 0);
	born = eventfd(0, EFD_CLOEXEC);
	child = fork();
	if (!child) {
		eventfd_write(born, 1);
		while (rt_probe_segment == first)
			pass_probe(2);
		_exit(0);
	}
	/* There is no daemon as it is born. */
	assert_int_equal(eventfd_read(born, &(eventfd_t){0}), 0);
	close(born);
	begin(&f);
	records = counter_read(COUNTER_program_records);
	await_other_daemon(first);
	pass_probe(3);
	pull_until(&f, COUNTER_program_records, records + 1);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	finish(&f);
}

/* One that was built with a header of before knows nothing of that word: its probes are disabled. */
static void test_who_does_not_look_is_disabled(void **state)
{
	static const char *const provider[] = {"app"};
	const struct rt_program_segment *segment;
	uint64_t bytes = 0;
	struct fixture f;
	int fd, memory;

	(void)state;
	begin(&f);
	fd = connect_to(&f);
	assert_int_equal(send_table(fd, provider, 1), 0);
	memory = rt_probe_take_welcome(fd, rt_span_now() + PATIENCE_NS, &bytes);
	assert_true(memory >= 0);
	segment = mmap(NULL, bytes, PROT_READ, MAP_SHARED, memory, 0);
	assert_true(segment != MAP_FAILED);
	assert_int_equal(segment->enabled[0], 1);
	end_daemon(&f);
	assert_int_equal(segment->enabled[0], 0);
	munmap((void *)segment, bytes);
	close(memory);
	close(fd);
}

static void test_a_program_is_told_which_clock_to_read(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		struct fixture f;

		reads_counter = i;
		begin(&f);
		attach();
		assert_int_equal(rt_probe_segment->counter, i);
		finish(&f);
	}
	reads_counter = false;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_program_is_shown_to_whom_may_look_into_it),
		cmocka_unit_test(test_a_users_own_are_those_that_it_may_see),
		cmocka_unit_test(test_a_refused_program_leaves_no_probes),
		cmocka_unit_test(test_programs_count_until_they_are_read),
		cmocka_unit_test(test_shares_of_numbers_shrink),
		cmocka_unit_test(test_a_probe_is_its_users_alone),
		cmocka_unit_test(test_too_many_probes_take_no_number),
		cmocka_unit_test(test_a_program_built_again_keeps_its_numbers),
		cmocka_unit_test(test_each_user_has_so_many_programs),
		cmocka_unit_test(test_a_slow_hello_has_one_deadline),
		cmocka_unit_test(test_a_number_used_again_is_not_the_headers),
		cmocka_unit_test(test_standard_descriptors_stay_free),
		cmocka_unit_test(test_a_bad_answer_leaves_no_descriptors),
		cmocka_unit_test(test_an_interrupted_answer_is_awaited),
		cmocka_unit_test(test_who_has_ended_is_not_asked_any_more),
		cmocka_unit_test(test_what_is_not_wanted_is_disabled),
		cmocka_unit_test(test_only_the_wanted_process_is_enabled),
		cmocka_unit_test(test_a_program_asks_before_it_writes),
		cmocka_unit_test(test_a_program_finds_the_next_daemon),
		cmocka_unit_test(test_who_does_not_look_is_disabled),
		cmocka_unit_test(test_a_program_is_told_which_clock_to_read),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
