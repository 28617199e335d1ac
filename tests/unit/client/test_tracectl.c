/*
 * test_tracectl: the program itself: exit codes, streams, and what goes where.
 *
 * The binary is $TRACECTL, or build/tracectl; without one the test is skipped.
 */
#include "tests/unit/client/check.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "tests/unit/client/fake.h"
#include "tests/unit/client/maker.h"

static char *program;
static char dir[] = "/tmp/ringtail-tracectl-XXXXXX";
static char to_stdout[1 << 16], to_stderr[1 << 16];
static struct maker hello, stream;

static void slurp(const char *name, char *text)
{
	char path[128];
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	fd = open(path, O_RDONLY);
	assert_true(fd >= 0);
	n = read(fd, text, (1 << 16) - 1);
	assert_true(n >= 0);
	text[n] = '\0';
	close(fd);
}

/* Runs "tracectl ARGUMENTS" by the shell; $D is the test's directory. Returns the exit code. */
static int run(const char *arguments)
{
	char command[2048];
	int status;

	snprintf(command, sizeof(command), "D=%s; { timeout 120 %s %s ; } >$D/out 2>$D/err", dir,
		 program, arguments);
	status = system(command);
	slurp("out", to_stdout);
	slurp("err", to_stderr);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static void save(const char *name, const uint8_t *bytes, size_t n)
{
	char path[128];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	assert_int_equal(write(fd, bytes, n), n);
	close(fd);
}

static unsigned count(const char *text, const char *what)
{
	unsigned n = 0;

	for (; (text = strstr(text, what)); text++)
		n++;
	return n;
}

static int setup(void **state)
{
	(void)state;
	maker_init(&hello);
	maker_init(&stream);
	maker_hello(&hello, 1, 7);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	maker_fini(&hello);
	maker_fini(&stream);
	return 0;
}

static void usage(void **state)
{
	static const struct {
		const char *arguments, *says;
	} cases[] = {
		{"", "which command?"},
		{"steam", "did you mean `stream`"},
		{"frobnicate", "--help lists them"},
		{"--sumary json stream", "did you mean `--summary`"},
		{"stream --fliter y", "did you mean `--filter`"},
		{"read", "FILE is missing"},
		{"record", "-w FILE is missing"},
		{"stream -n none", "number"},
		{"stream --since nonsense", "neither a cursor nor a time"},
		{"record -w - -o text", "stdout cannot take both"},
		{"stream -n 1.5", "is a whole number"},
		{"stream --since 2099-01-01", "is in the future"},
		{"stream --since 0123/x", "\n    0123/x\n    ^\n"},
		{"--connect foo list", "'foo' is no address"},
		{"--connect tcp:127.0.0.1:99999 list", "from 1 to 65535"},
		{"list --connect unix: x", "the path is missing"},
		{"list -o none", "text or json"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		assert_int_equal(run(cases[i].arguments), 2);
		assert_string_equal(to_stdout, "");
		if (!strstr(to_stderr, cases[i].says))
			fail_msg("'%s' says: %s", cases[i].arguments, to_stderr);
		if (count(to_stderr, "--help") != 1)		/* where to look, but once */
			fail_msg("'%s' says: %s", cases[i].arguments, to_stderr);
	}
	assert_int_equal(run("--help"), 0);
	assert_non_null(strstr(to_stdout, "doctor"));
	assert_int_equal(run("--version"), 0);
	assert_non_null(strstr(to_stdout, "tracectl " RINGTAIL_VERSION "\nrevision "));
	assert_non_null(strstr(to_stdout, "\nwire 1\ncompiler "));
	assert_int_equal(run("list --help"), 0);
	assert_non_null(strstr(to_stdout, "Example:"));
	assert_null(strstr(to_stdout, "none"));
	assert_int_equal(run("record -h"), 0);
	assert_non_null(strstr(to_stdout, "--write FILE"));
	assert_non_null(strstr(to_stdout, "or none\n"));
}

static void reading(void **state)
{
	size_t end_bytes;

	(void)state;
	maker_start(&stream);
	maker_batch(&stream, 0, 0, 1000, 10, 20);
	maker_batch(&stream, 1, 0, 1005, 10, 20);
	maker_watermark(&stream, 2000, 20, 20);
	end_bytes = stream.size;
	maker_bye(&stream, "all");
	save("good", stream.bytes, stream.size);
	save("short", stream.bytes, end_bytes);
	save("cut", stream.bytes, stream.size - 1);
	stream.bytes[end_bytes - 1] ^= 1;
	save("bad", stream.bytes, stream.size);
	assert_int_equal(run("--summary json read $D/good"), 0);
	assert_int_equal(count(to_stdout, "\n"), 40);
	assert_null(strchr(to_stdout, '\033'));		/* no color for a file */
	assert_int_equal(count(to_stderr, "\n"), 1);
	assert_non_null(strstr(to_stderr, "\"events\":40"));
	assert_int_equal(run("--color always read -n 7 $D/good"), 0);
	assert_non_null(strchr(to_stdout, '\033'));		/* but where it was asked for */
	assert_int_equal(run("read -o json -n 7 - <$D/good"), 0);
	assert_int_equal(count(to_stdout, "\n"), 7);
	assert_string_equal(to_stderr, "");
	assert_int_equal(run("read -o none $D/good"), 0);
	assert_string_equal(to_stdout, "");
	assert_int_equal(run("read $D/cut"), 1);
	assert_non_null(strstr(to_stderr, "cut off"));
	assert_non_null(strstr(to_stderr, "40 events were read before that"));
	assert_int_equal(count(to_stdout, "\n"), 40);
	assert_int_equal(run("--summary json read $D/short"), 3);	/* all frames are whole */
	assert_int_equal(count(to_stdout, "\n"), 40);
	assert_non_null(strstr(to_stderr, "/short has no end: it was cut short after byte "));
	assert_non_null(strstr(to_stderr, "\"ledger\":\"cut short\""));
	assert_int_equal(run("read - <$D/short"), 3);
	assert_non_null(strstr(to_stderr, "stdin has no end"));
	assert_int_equal(run("read -n 7 $D/short"), 0);			/* it did not look so far */
	assert_int_equal(run("read $D/bad"), 1);
	assert_non_null(strstr(to_stderr, "/bad: watermark frame at byte "));
	assert_int_equal(run("read /bin/sh"), 1);
	assert_non_null(strstr(to_stderr, "ELF"));
	assert_int_equal(run("read /dev/null"), 1);
	assert_non_null(strstr(to_stderr, "empty"));
	assert_int_equal(run("read $D/missing"), 1);
	assert_non_null(strstr(to_stderr, "No such file"));
	assert_int_equal(run("read $D"), 1);
	assert_non_null(strstr(to_stderr, "directory"));
	assert_int_equal(run("read $D/good >/dev/full"), 1);
	assert_non_null(strstr(to_stderr, "No space left"));
}

static void pipe_ends_quietly(void **state)
{
	(void)state;
	maker_start(&stream);
	for (unsigned i = 0; i < 20; i++)
		maker_batch(&stream, 0, i * 500, 1000 + i * 5000, 10, 500);
	maker_bye(&stream, "all");
	save("long", stream.bytes, stream.size);
	assert_int_equal(run("read $D/long | head -n 1"), 0);
	assert_int_equal(count(to_stdout, "\n"), 1);
	assert_string_equal(to_stderr, "");
}

static struct fake fake;

static int run_against(const struct maker *answer, bool holds, const char *arguments)
{
	char line[1024];
	int code;

	fake_start(&fake, &(struct fake_step){ hello.bytes, hello.size, answer->bytes, answer->size,
		   holds }, 1);
	snprintf(line, sizeof(line), "--connect %s --summary json %s", fake.address, arguments);
	code = run(line);
	fake_stop(&fake);
	return code;
}

static void streaming(void **state)
{
	static const uint64_t zero[2];

	(void)state;
	maker_catalog(&stream);
	maker_subscribed(&stream, 2, zero);
	maker_batch(&stream, 0, 0, 1000, 10, 20);
	maker_watermark(&stream, 2000, 20, 0);
	assert_int_equal(run_against(&stream, true, "stream -n 20"), 0);
	assert_int_equal(count(to_stdout, "openat("), 20);
	assert_int_equal(run_against(&stream, true, "stream -n 3 -o json"), 0);
	assert_int_equal(count(to_stdout, "\n"), 3);
	assert_int_equal(run_against(&stream, true, "stream -n 13 -o none"), 0);
	assert_non_null(strstr(to_stderr, "\"events\":13,"));
	assert_int_equal(run_against(&stream, true, "stream --duration 100ms -o none"), 0);
	assert_non_null(strstr(to_stderr, "\"events\":20,"));
	maker_gap(&stream, 0, 20, 30, 5, 2, 6);
	maker_bye(&stream, "end");
	assert_int_equal(run_against(&stream, false, "stream"), 3);
	assert_non_null(strstr(to_stdout, "--- 5 events lost on CPU 0: queue full (raise queue-size"));
	assert_non_null(strstr(to_stderr, "\"lost\":5,"));
	maker_error(&stream, "x", "y", "z", 0);		/* after Bye nobody listens */
	assert_int_equal(run_against(&stream, false, "stream"), 3);
}

static void refusals(void **state)
{
	(void)state;
	maker_error(&stream, "filter-bad-character", "filter, column 5: `=` means nothing here",
		    "equality is ==", 5);
	assert_int_equal(run_against(&stream, false, "stream -f 'pid = 3'"), 1);
	assert_non_null(strstr(to_stderr, "\n    pid = 3\n        ^\n    equality is ==\n"));
	stream.size = 0;
	maker_error(&stream, "unknown-probe", "no probe matches", "did you mean", 2);
	assert_int_equal(run_against(&stream, false, "stream -p xyz"), 1);
	assert_non_null(strstr(to_stderr, "\n    xyz\n     ^\n"));
	assert_int_equal(run_against(&stream, false, "list xyz"), 1);
	assert_int_equal(run_against(&stream, false, "stat"), 1);
	assert_int_equal(run("--connect unix:/nowhere stream"), 1);
	assert_non_null(strstr(to_stderr, "no-daemon"));
}

static void recording(void **state)
{
	static const uint64_t zero[2];
	struct maker no;

	(void)state;
	maker_init(&no);
	maker_error(&no, "bad-filter", "no", "", 0);
	maker_catalog(&stream);
	maker_subscribed(&stream, 2, zero);
	maker_batch(&stream, 0, 0, 1000, 10, 20);
	maker_bye(&stream, "end");
	save("rec", (const uint8_t *)"precious", 8);
	assert_int_equal(run_against(&no, false, "record -w $D/rec"), 1);
	assert_int_equal(run("--version; cat $D/rec"), 0);
	assert_non_null(strstr(to_stdout, "precious"));		/* refused: it is still there */
	assert_int_equal(run_against(&no, false, "record -w $D/new"), 1);
	assert_int_equal(run("--version; ls $D/new"), 2);	/* and nothing was left behind */
	assert_int_equal(run_against(&stream, false, "record -w $D/rec"), 0);
	assert_non_null(strstr(to_stderr, "\"events\":20,"));
	assert_string_equal(to_stdout, "");
	assert_int_equal(run("--summary json read $D/rec -o none"), 0);
	assert_non_null(strstr(to_stderr, "\"events\":20,"));
	assert_int_equal(run_against(&stream, false, "record -w $D/rec -o json"), 0);
	assert_int_equal(count(to_stdout, "\n"), 20);
	assert_int_equal(run_against(&stream, false, "record -w - >$D/piped"), 0);
	assert_int_equal(run("read $D/piped"), 0);
	assert_int_equal(count(to_stdout, "\n"), 20);
	assert_int_equal(run_against(&stream, false, "record -w /dev/full"), 1);
	assert_non_null(strstr(to_stderr, "No space left"));
	assert_int_equal(run("record -w /nowhere/at/all"), 1);
	assert_int_equal(run("record -w /dev/ptmx"), 1);
	assert_non_null(strstr(to_stderr, "terminal"));
	maker_fini(&no);
}

static void listing(void **state)
{
	(void)state;
	maker_catalog(&stream);
	assert_int_equal(run_against(&stream, true, "list 'syscall:*'"), 0);
	assert_non_null(strstr(to_stdout, "syscall:openat:call(dfd, filename, flags, mode)\n"));
	assert_non_null(strstr(to_stdout, "tracepoint:sched:sched_switch(prev_prio, "));
	assert_int_equal(run_against(&stream, true, "list -o json"), 0);
	assert_non_null(strstr(to_stdout, "{\"probe\":\"syscall:openat:call\""));
	assert_non_null(strstr(to_stdout, "{\"name\":\"dfd\",\"type\":\"fd\",\"c_type\":\"long\","
			       "\"bits\":32}"));
	stream.size = 0;
	maker_raw(&stream, FRAME_CATALOG, (const uint8_t *)"", 0);
	assert_int_equal(run_against(&stream, true, "list nothing"), 1);
	assert_non_null(strstr(to_stderr, "no probe matches 'nothing'"));
}

static void stats(void **state)
{
	Ringtail__V1__Stat stat = RINGTAIL__V1__STAT__INIT;
	Ringtail__V1__RingStat ring = RINGTAIL__V1__RING_STAT__INIT, *rings[] = { &ring };

	(void)state;
	stat.n_ring = 1;
	stat.ring = rings;
	stat.source = "bpf";
	maker_message(&stream, FRAME_STAT, &stat.base);
	maker_message(&stream, FRAME_STAT, &stat.base);
	assert_int_equal(run_against(&stream, true, "stat"), 0);
	assert_non_null(strstr(to_stdout, "residual 0"));
	assert_int_equal(run_against(&stream, true, "stat -o json"), 0);
	assert_int_equal(count(to_stdout, "\n"), 1);
	assert_int_equal(run_against(&stream, false, "stat -w -i 10ms -o json"), 1); /* it ends */
	assert_int_equal(count(to_stdout, "\n"), 2);
	ring.residual = 4;
	stream.size = 0;
	maker_message(&stream, FRAME_STAT, &stat.base);
	assert_int_equal(run_against(&stream, true, "stat -o json"), 3);
}

static void doctoring(void **state)
{
	(void)state;
	maker_bye(&stream, "");
	assert_int_equal(run_against(&stream, true, "doctor"), 0); /* a daemon answers: it works */
	assert_non_null(strstr(to_stdout, "source replay, 2 CPUs"));
	assert_non_null(strstr(to_stdout, "tracing works"));
	run("--connect unix:/nowhere doctor");
	assert_non_null(strstr(to_stdout, "no daemon at unix:/nowhere"));
}

/* An ordinary user, whom the daemon's socket is closed to: what he lacks himself says nothing of the daemon. */
static void doctoring_from_outside(void **state)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	char command[512], *whole = program;
	bool is_root = geteuid() == 0;
	int code;

	(void)state;
	snprintf(address.sun_path, sizeof(address.sun_path), "%s/closed", dir);
	assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(listen(fd, 1), 0);
	assert_int_equal(chmod(address.sun_path, 0), 0);
	if (is_root) {
		/* Where another user can reach it. */
		assert_int_equal(chmod(dir, 0711), 0);
		snprintf(command, sizeof(command), "cp %s %s/tracectl", program, dir);
		assert_int_equal(system(command), 0);
		snprintf(command, sizeof(command), "setpriv --reuid=65534 --regid=65534 --clear-groups --bounding-set=-all "
			 "%s/tracectl", dir);
		program = command;
	}
	code = run("--connect unix:$D/closed doctor");
	program = whole;
	assert_int_equal(code, 1);
	assert_non_null(strstr(to_stdout, "\nFAIL  daemon "));
	assert_non_null(strstr(to_stdout, "you may not connect to"));
	assert_non_null(strstr(to_stdout, "warn  capabilities "));
	assert_non_null(strstr(to_stdout, "\nno way in to the daemon until what fails is mended\n"));
	assert_null(strstr(to_stdout, "tracing cannot work"));
	close(fd);
}

/* Whatever could not write what it was asked for says so, and fails. */
static void nothing_written(void **state)
{
	static const char *const alone[] = {
		"--help", "--version", "stream --help", "token alice", "--connect unix:/nowhere doctor",
	};
	static const char *const asking[] = { "list", "list -o json", "stat", "stat -o json", "probes",
					      "probes -o json", "doctor", "stream -n 3" };
	static const struct {
		const char *to, *says;
	} outputs[] = {
		{">/dev/full", "tracectl: cannot write: No space left on device [cannot-write]\n"},
		{">&-", "tracectl: cannot write: Bad file descriptor [cannot-write]\n"},
	};
	static const uint64_t zero[2];
	Ringtail__V1__Stat stat = RINGTAIL__V1__STAT__INIT;
	Ringtail__V1__Probes probes = RINGTAIL__V1__PROBES__INIT;
	char line[128];

	(void)state;
	maker_catalog(&stream);
	maker_subscribed(&stream, 2, zero);
	maker_batch(&stream, 0, 0, 1000, 10, 20);
	maker_message(&stream, FRAME_STAT, &stat.base);
	maker_message(&stream, FRAME_STAT, &stat.base);
	maker_message(&stream, FRAME_PROBES, &probes.base);
	for (size_t to = 0; to < sizeof(outputs) / sizeof(*outputs); to++) {
		for (size_t i = 0; i < sizeof(alone) / sizeof(*alone); i++) {
			snprintf(line, sizeof(line), "%s %s", alone[i], outputs[to].to);
			assert_int_equal(run(line), 1);
			if (!strstr(to_stderr, outputs[to].says))
				fail_msg("%s: %s", line, to_stderr);
		}
		for (size_t i = 0; i < sizeof(asking) / sizeof(*asking); i++) {
			snprintf(line, sizeof(line), "%s %s", asking[i], outputs[to].to);
			if (run_against(&stream, true, line) != 1 ||
			    !strstr(to_stderr, outputs[to].says))
				fail_msg("%s: %s", line, to_stderr);
		}
	}
	assert_null(strstr(to_stderr, "ringtail-token"));
}

/* As `--consumer "$UNSET"` comes to: no consumer at all is not what was meant. */
static void consumer_of_no_name(void **state)
{
	(void)state;
	assert_int_equal(run("--connect unix:$D/none stream --consumer ''"), 2);
	assert_non_null(strstr(to_stderr, "--consumer is empty"));
	assert_int_equal(run("--connect unix:$D/none record -w $D/file --consumer="), 2);
	assert_non_null(strstr(to_stderr, "--consumer is empty"));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(usage),     TEST(reading),  TEST(pipe_ends_quietly),
		TEST(streaming), TEST(refusals), TEST(recording),
		TEST(listing),   TEST(stats),    TEST(doctoring), TEST(doctoring_from_outside), TEST(nothing_written),
		TEST(consumer_of_no_name),
	};
	char command[128];
	int failed;

	program = getenv("TRACECTL") ? getenv("TRACECTL") : "build/tracectl";
	if (access(program, X_OK)) {
		printf("skipped: there is no %s; TRACECTL names another\n", program);
		return 77;
	}
	if (!mkdtemp(dir))
		return 1;
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	snprintf(command, sizeof(command), "rm -r %s", dir);
	return system(command) ? 1 : failed;
}
