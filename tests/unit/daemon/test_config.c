/*
 * config: what flags and file come to, each way to write them wrong, and that the manual, the
 * shipped file and --help say what options.def says. Runs from the top of the tree.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "daemon/config/config.h"
#include "daemon/config/option.h"
#include "daemon/base/log.h"

#define ARGS(...) \
	((int)(sizeof((char *[]){ "ringtaild", ##__VA_ARGS__ }) / sizeof(char *))), \
	((char *[]){ "ringtaild", ##__VA_ARGS__, NULL })

static char file_path[] = "/tmp/ringtaild-test-XXXXXX";

static int make_file(void **state)
{
	int fd = mkstemp(file_path);

	(void)state;
	return fd < 0 ? -1 : close(fd);
}

static int remove_file(void **state)
{
	(void)state;
	return unlink(file_path);
}

static void write_file(const char *text)
{
	FILE *file = fopen(file_path, "w");

	assert_non_null(file);
	assert_int_equal(fputs(text, file) >= 0, 1);
	assert_int_equal(fclose(file), 0);
}

static void parse_text(const char *text, struct config *config)
{
	struct error error;

	if (config_parse_text(text, strlen(text), "x.conf", config, &error))
		fail_msg("%s", error.what);
}

/* ---- What is right --------------------------------------------------------------------------- */

static void test_defaults(void **state)
{
	struct config config;

	(void)state;
	parse_text("", &config);
	assert_string_equal(config.source.name, "auto");
	assert_null(config.source.path);
	assert_int_equal(config.listen.count, 0);
	assert_int_equal(config.probe.count, 0);
	assert_false(config.insecure);
	assert_null(config.filter);
	assert_null(config.user);
	assert_string_equal(config.state_dir, "/var/lib/ringtail");
	assert_int_equal(config.ring_bytes, 1 << 20);
	assert_int_equal(config.batch_interval_ns, 40000000);
	assert_int_equal(config.relay_interval_ns, 5000000000);
	assert_int_equal(config.relay_bandwidth, 0);
	assert_int_equal(config.workers, 1);
	assert_int_equal(config.history_bytes, 16 << 20);
	assert_int_equal(config.history_age_ns, 30000000000);
	assert_int_equal(config.queue_bytes, 8 << 20);
	assert_int_equal(config.clients_max, 64);
	assert_int_equal(config.hello_timeout_ns, 5000000000);
	assert_int_equal(config.replay_pace, CONFIG_PACE_RECORDED);
	assert_int_equal(config.log_level, LOG_LEVEL_INFO);
	config_free(&config);
	config_free(&config);
}

static void test_file(void **state)
{
	struct config config;

	(void)state;
	parse_text("# a comment\n"
		   "\n"
		   "  source =  replay:/var/tmp/a file  \n"
		   "listen = unix:/tmp/a\r\n"
		   "listen=tcp:[::1]:0   # the second\n"
		   "insecure = on\n"
		   "probe = syscall:open*\n"
		   "probe = tracepoint:sched\n"
		   "filter = comm == \"a # b\" && pid != 3 # not in the filter\n"
		   "state-dir = /srv/ringtail#1\n"
		   "user = nobody\n"
		   "ring-size = 64KiB\n"
		   "low-latency = yes\n"
		   "replay-pace = fast\n"
		   "log-level = debug\n"
		   "trace-self = 1\n"
		   "history-size = 0", &config);
	assert_string_equal(config.source.name, "replay");
	assert_string_equal(config.source.path, "/var/tmp/a file");
	assert_int_equal(config.listen.count, 2);
	assert_string_equal(config.listen.address[0].text, "unix:/tmp/a");
	assert_true(config.listen.address[1].loopback);
	assert_true(config.insecure);
	assert_int_equal(config.probe.count, 2);
	assert_string_equal(config.probe.word[1], "tracepoint:sched");
	assert_string_equal(config.filter, "comm == \"a # b\" && pid != 3");
	assert_string_equal(config.state_dir, "/srv/ringtail#1");
	assert_int_equal(config.ring_bytes, 65536);
	assert_int_equal(config.batch_interval_ns, 1000000);
	assert_int_equal(config.replay_pace, CONFIG_PACE_FAST);
	assert_int_equal(config.log_level, LOG_LEVEL_DEBUG);
	assert_true(config.trace_self);
	assert_int_equal(config.history_bytes, 0);
	config_free(&config);
}

static void test_flags(void **state)
{
	struct config config;

	(void)state;
	write_file("");
	assert_int_equal(config_parse_args(ARGS("--config", file_path, "--listen=unix:/tmp/a",
						"--listen", "unix:/tmp/b", "--low-latency",
						"--insecure=no", "--workers=4", "--check-config"),
					   &config, NULL), 0);
	assert_int_equal(config.listen.count, 2);
	assert_true(config.low_latency);
	assert_int_equal(config.batch_interval_ns, 1000000);
	assert_false(config.insecure);
	assert_int_equal(config.workers, 4);
	assert_true(config.check_config);
	assert_string_equal(config.config, file_path);
	assert_non_null(config.user);
	config_free(&config);
}

static void test_flags_win_over_file(void **state)
{
	struct config config;

	(void)state;
	write_file("workers = 2\nprobe = a\nprobe = b\nlisten = unix:/tmp/a\nlow-latency = yes\n"
		   "insecure = yes\nsource = replay:x\n");
	assert_int_equal(config_parse_args(ARGS("--config", file_path, "--workers=4", "--probe=c",
						"--batch-interval=20ms", "--insecure=no",
						"--source=bpf"), &config, NULL), 0);
	assert_int_equal(config.workers, 4);
	assert_int_equal(config.probe.count, 1);
	assert_string_equal(config.probe.word[0], "c");
	assert_string_equal(config.listen.address[0].text, "unix:/tmp/a");
	assert_int_equal(config.batch_interval_ns, 20000000);
	assert_false(config.low_latency);
	assert_false(config.insecure);
	assert_string_equal(config.source.name, "bpf");
	assert_null(config.source.path);
	config_free(&config);

	write_file("batch-interval = 20ms\n");
	assert_int_equal(config_parse_args(ARGS("--config", file_path, "--low-latency"), &config,
					   NULL), 0);
	assert_int_equal(config.batch_interval_ns, 1000000);
	config_free(&config);
}

/*
 * Where it listens depends on who started the program, so another one is started, by nobody. 0 if
 * that one finds everything right.
 */
static int default_listen_of_a_user(void)
{
	struct config config;
	struct error error;

	setenv("XDG_RUNTIME_DIR", "/run/user/1", 1);
	if (config_parse_args(ARGS("--config=/dev/null"), &config, NULL) ||
	    strcmp(config.listen.address[0].text, "unix:/run/user/1/ringtail.sock"))
		return 1;
	config_free(&config);
	unsetenv("XDG_RUNTIME_DIR");
	if (config_parse_args(ARGS("--config=/dev/null"), &config, &error) != -EINVAL ||
	    strcmp(error.code, "config-no-listen") ||
	    strcmp(error.hint, "give one with --listen unix:PATH"))
		return 2;
	setenv("RUNTIME_DIRECTORY", "/run/ringtail", 1);
	if (config_parse_args(ARGS("--config=/dev/null"), &config, NULL) ||
	    strcmp(config.listen.address[0].text, "unix:/run/ringtail/ringtail.sock"))
		return 3;
	config_free(&config);
	return 0;
}

static void test_default_listen(void **state)
{
	struct config config;
	pid_t child;
	int status;

	(void)state;
	if (geteuid() != 0) {
		assert_int_equal(default_listen_of_a_user(), 0);
		return;
	}
	unsetenv("RUNTIME_DIRECTORY");
	assert_int_equal(config_parse_args(ARGS("--config=/dev/null"), &config, NULL), 0);
	assert_string_equal(config.listen.address[0].text, "unix:/run/ringtail/ringtail.sock");
	config_free(&config);
	child = fork();
	if (child == 0) {
		if (setgid(65534) == 0 && setuid(65534) == 0)
			execl("/proc/self/exe", "test_config", "as-a-user", NULL);
		_exit(100);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

/* With --help or --version, nothing else may be in the way. */
static void test_help(void **state)
{
	struct config config;

	(void)state;
	assert_int_equal(config_parse_args(ARGS("--help", "--config=/none"), &config, NULL), 0);
	assert_true(config.help);
	config_free(&config);
	assert_int_equal(config_parse_args(ARGS("--version", "--workers=many"), &config, NULL), 0);
	assert_true(config.version && !config.help);
	config_free(&config);
}

static void test_print_reads_back(void **state)
{
	static const char text[] =
		"source = replay:x\nlisten = unix:/tmp/a\nlisten = tcp:[::1]:0\ninsecure = yes\n"
		"probe = a:b\nprobe = c\nfilter = pid == 3\nlow-latency = yes\nring-size = 16384\n"
		"history-age = 90s\nreplay-pace = fast\nlog-level = error\nrelay-bandwidth = 2048KiB/s\n";
	char *first, *second;
	size_t bytes;
	struct config config;
	FILE *out;

	(void)state;
	parse_text(text, &config);
	out = open_memstream(&first, &bytes);
	config_print(&config, out);
	fclose(out);
	config_free(&config);
	parse_text(first, &config);
	out = open_memstream(&second, &bytes);
	config_print(&config, out);
	fclose(out);
	config_free(&config);
	assert_string_equal(first, second);
	assert_non_null(strstr(first, "ring-size = 16KiB\n"));
	assert_non_null(strstr(first, "source = replay:x\n"));
	assert_non_null(strstr(first, "relay-bandwidth = 2MiB/s\n"));
	free(first);
	free(second);
}

/* ---- What is wrong --------------------------------------------------------------------------- */

static const struct {
	const char *text, *code, *what, *hint;	/* hint: how it begins */
} bad_files[] = {
	{ "\n\nlisten unix:/x\n", "config-no-value", "x.conf:3: `listen unix:/x` has no value",
	  "write name = value" },
	{ "lisen = unix:/x", "config-unknown-key", "x.conf:1: no key is called `lisen`",
	  "did you mean `listen`?" },
	{ "zebra = 1", "config-unknown-key", "x.conf:1: no key is called `zebra`",
	  "ringtaild --help lists them" },
	{ "= 1", "config-unknown-key", "x.conf:1: no key is called ``", NULL },
	{ "help = yes", "config-flag-only", "x.conf:1: `help` cannot stand in a file",
	  "give it as --help" },
	{ "config = /x", "config-flag-only", "x.conf:1: `config` cannot stand in a file",
	  "give it as --config" },
	{ "workers = 2\n# x\nworkers = 2", "config-duplicate",
	  "x.conf:3: `workers` was already given", "line 1 gives it too; keep one of them" },
	{ "listen = unix:/x\nlisten = unix:/x", "config-duplicate",
	  "x.conf:2: listen: `unix:/x` was already given", "" },
	{ "workers =", "number-missing", "x.conf:1: workers: `` is not a number", "" },
	{ "workers = many", "number-missing", "x.conf:1: workers: `many` is not a number", "" },
	{ "workers = 65", "config-out-of-range", "x.conf:1: workers: `65` is not between 1 and 64",
	  "" },
	{ "queue-size = 1KiB", "config-out-of-range",
	  "x.conf:1: queue-size: `1KiB` is not between 64KiB and 4GiB", "" },
	{ "batch-interval = 2s", "config-out-of-range",
	  "x.conf:1: batch-interval: `2s` is not between 1ms and 1s", "" },
	{ "relay-bandwidth = 2MiB", "config-bad-rate",
	  "x.conf:1: relay-bandwidth: `2MiB` is not a number of bytes a second", "as in 2MiB/s; 64KiB/s is the least, and 0" },
	{ "relay-bandwidth = 2MiB/min", "config-bad-rate",
	  "x.conf:1: relay-bandwidth: `2MiB/min` is not a number of bytes a second", NULL },
	{ "relay-bandwidth = /s", "config-bad-rate",
	  "x.conf:1: relay-bandwidth: `/s` is not a number of bytes a second", NULL },
	{ "relay-bandwidth = 10000000000000000000000000000000000000000B/s", "config-bad-rate",
	  "x.conf:1: relay-bandwidth: `10000000000000000000000000000000000000000B/s` is not a number of bytes a second",
	  NULL },
	{ "relay-bandwidth = 2Mbit/s", "unit-unknown", "x.conf:1: relay-bandwidth: no unit is called `Mbit`", NULL },
	{ "relay-bandwidth = 1KiB/s", "config-out-of-range",
	  "x.conf:1: relay-bandwidth: `1KiB` is not between 64KiB and 1024GiB", "" },
	{ "relay-bandwidth = 0B/s", "config-out-of-range",
	  "x.conf:1: relay-bandwidth: `0B` is not between 64KiB and 1024GiB", "" },
	{ "batch-interval = 40", "unit-missing", "x.conf:1: batch-interval: `40` has no unit",
	  "write 40ms or 40s" },
	{ "batch-interval = 40mss", "unit-unknown",
	  "x.conf:1: batch-interval: no unit is called `mss`", "did you mean `ms`?" },
	{ "ring-size = 1MB", "unit-unknown", "x.conf:1: ring-size: no unit is called `MB`",
	  "did you mean `B` or `MiB`?" },
	{ "ring-size = 3MiB", "config-not-power-of-two",
	  "x.conf:1: ring-size: `3MiB` is not a power of two", "the nearest are 2MiB and 4MiB" },
	{ "insecure = maybe", "config-bad-flag",
	  "x.conf:1: insecure: `maybe` is neither yes nor no", "" },
	{ "log-level = warn", "config-bad-choice",
	  "x.conf:1: log-level: `warn` is not one of error|warning|info|debug",
	  "did you mean `warning`?" },
	{ "source = ebpf", "config-bad-choice",
	  "x.conf:1: source: `ebpf` is not one of auto|bpf|kmod|none|replay:FILE",
	  "did you mean `bpf`?" },
	{ "source = replay", "config-no-replay-file", "x.conf:1: source: replay names no file",
	  "use replay:FILE" },
	{ "source = replay:", "config-no-replay-file", "x.conf:1: source: replay names no file",
	  NULL },
	{ "source = bpf:x", "config-bad-choice",
	  "x.conf:1: source: `bpf:x`: bpf takes no file", "" },
	{ "state-dir =", "config-empty", "x.conf:1: state-dir: the value is empty", "" },
	{ "user = a-name-that-is-longer-than-any-user-has", "config-too-long",
	  "x.conf:1: user: `a-name-that-is-longer-than-any-user-has...` is longer than 32 bytes",
	  "" },
	{ "probe =", "config-empty", "x.conf:1: probe: the value is empty", "" },
	{ "probe =# all", "config-empty", "x.conf:1: probe: the value is empty", "" },
	{ "listen = /x", "address-bad-family", "x.conf:1: listen: `/x` is not an address",
	  "write unix:PATH or tcp:HOST:PORT" },
	{ "listen = tcp:0.0.0.0:7117", "listen-needs-tls",
	  "listen: `tcp:0.0.0.0:7117`: off loopback tcp is for TLS alone, and tls-cert is not given",
	  "give tls-cert, tls-key and tls-client-ca or tokens" },
	{ "insecure = yes\nlisten = tcp:0.0.0.0:7117", "listen-needs-tls",
	  "listen: `tcp:0.0.0.0:7117`: off loopback tcp is for TLS alone, and tls-cert is not given",
	  "give tls-cert, tls-key and tls-client-ca or tokens" },
	{ "insecure = yes\nlisten = tcp:[::]:7117", "listen-needs-tls",
	  "listen: `tcp:[::]:7117`: off loopback tcp is for TLS alone, and tls-cert is not given",
	  "give tls-cert, tls-key and tls-client-ca or tokens" },
	{ "listen = tcp:localhost:7117", "listen-needs-insecure",
	  "listen: `tcp:localhost:7117`: tcp is for TLS, and plain only on loopback with --insecure",
	  "give tls-cert and tls-key; or --insecure if every local user may read the trace" },
	{ "listen = tcp:0.0.0.0:1\ntls-cert = /c\ntls-key = /k", "tls-no-clients",
	  "TLS is on, but nothing tells clients apart: neither tls-client-ca nor tokens is given",
	  "give tls-client-ca, for clients with certificates, or tokens, or both" },
	{ "http = tcp:127.0.0.1:1", "address-bad-family",
	  "x.conf:1: http: `tcp:127.0.0.1:1` begins with `tcp:`, and is to be HOST:PORT alone", "as in 127.0.0.1:7118" },
	{ "http = unix:/s", "address-bad-family", "x.conf:1: http: `unix:/s` begins with `unix:`, and is to be HOST:PORT alone",
	  "as in 127.0.0.1:7118" },
	{ "http = 0.0.0.0:1", "http-needs-tls",
	  "http: `0.0.0.0:1`: off loopback the status page is for TLS with authentication alone",
	  "give tls-cert, tls-key and tls-client-ca or tokens" },
	{ "http = 0.0.0.0:1\ntls-cert = /c\ntls-key = /k", "http-needs-tls",
	  "http: `0.0.0.0:1`: off loopback the status page is for TLS with authentication alone",
	  "give tls-cert, tls-key and tls-client-ca or tokens" },
	{ "listen = tcp:127.0.0.1:1\ninsecure = yes\ntokens = /t", "plain-authentication",
	  "tokens is given, but tcp is plain here: whoever connects comes in without",
	  "take --insecure away, so that the address speaks TLS" },
	{ "listen = unix:/s\ntls-cert = /c\ntls-key = /k\ntokens = /t", "tls-unused",
	  "tls-cert is given, but no address speaks TLS",
	  "listen on tcp:HOST:PORT too, without --insecure if that is loopback" },
	{ "listen = unix:/s\ntls-key = /k", "tls-no-cert", "tls-key is given, and tls-cert is not",
	  "give tls-cert too" },
	{ "listen = unix:/s\ntls-cert = /c", "tls-no-key", "tls-cert is given, and tls-key is not",
	  "give tls-key too" },
	{ "listen = unix:/s\ntls-crl = /a", "tls-no-ca", "tls-crl is given, and tls-client-ca is not",
	  "give tls-client-ca too: the authority that made the lists" },
	{ "listen = unix:/s\ntls-client-ca = /a", "tls-no-cert",
	  "tls-client-ca is given, and tls-cert is not", "clients show their certificates over TLS" },
	{ "low-latency = yes\nbatch-interval = 2ms", "config-contradiction",
	  "low-latency and batch-interval contradict each other",
	  "low-latency is batch-interval 1ms; keep one of them" },
	{ "spool-size = 1MiB\nspool-segment-size = 1GiB", "config-contradiction",
	  "spool-segment-size is more than a quarter of spool-size",
	  "a full spool deletes whole segments: make spool-segment-size at most 262144 bytes, or spool-size larger" },
	{ "queue-size = 1GiB", "config-contradiction",
	  "queue-size, of one client, is more than memory-max, of all together",
	  "make queue-size smaller, or memory-max larger" },
};

static void test_bad_files(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(bad_files) / sizeof(bad_files[0]); i++) {
		const char *text = bad_files[i].text;
		struct config config;
		struct error error;

		if (config_parse_text(text, strlen(text), "x.conf", &config, &error) != -EINVAL)
			fail_msg("`%s` is not refused", text);
		assert_string_equal(error.what, bad_files[i].what);
		assert_string_equal(error.code, bad_files[i].code);
		if (bad_files[i].hint && strncmp(error.hint, bad_files[i].hint,
						 strlen(bad_files[i].hint)))
			fail_msg("`%s`: hint is `%s`", text, error.hint);
		if (bad_files[i].hint && !bad_files[i].hint[0])
			assert_string_equal(error.hint, "");
		assert_int_equal(config_parse_text(text, strlen(text), "x.conf", &config, NULL),
				 -EINVAL);
	}
}

/* The one address that speaks TLS may be the status page's. */
static void test_certificate_for_the_status_page_alone(void **state)
{
	static const char text[] = "listen = unix:/s\nhttp = 0.0.0.0:1\ntls-cert = /c\ntls-key = /k\n"
				   "tokens = /t\nviewer = token:a\n";
	struct config config;
	struct error error;

	(void)state;
	if (config_parse_text(text, strlen(text), "x.conf", &config, &error) != 0)
		fail_msg("%s", error.what);
	config_free(&config);
}

static void assert_bad_text(const char *text, size_t bytes, const char *code, const char *what)
{
	struct config config;
	struct error error;

	assert_int_equal(config_parse_text(text, bytes, "x.conf", &config, &error), -EINVAL);
	assert_string_equal(error.code, code);
	assert_string_equal(error.what, what);
}

static void test_bounds(void **state)
{
	char text[CONFIG_LINE_BYTES_MAX + 64];
	struct config config;
	size_t bytes = 0;

	(void)state;
	assert_bad_text("workers\0 = 1", 12, "config-not-text",
			"x.conf:1: the line holds a zero byte: this is not a text file");
	memset(text, ' ', sizeof(text));
	assert_bad_text(text, CONFIG_LINE_BYTES_MAX + 1, "config-line-too-long",
			"x.conf:1: the line is longer than 4352 bytes");
	assert_int_equal(config_parse_text(text, CONFIG_LINE_BYTES_MAX, "x", &config, NULL), 0);
	config_free(&config);

	memcpy(text, "filter = ", 9);
	memset(text + 9, 'x', FILTER_BYTES_MAX + 1);
	assert_bad_text(text, 9 + FILTER_BYTES_MAX + 1, "config-too-long",
			"x.conf:1: filter: `xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx...` is longer"
			" than 4096 bytes");
	assert_int_equal(config_parse_text(text, 9 + FILTER_BYTES_MAX, "x", &config, NULL), 0);
	config_free(&config);

	for (unsigned i = 0; i <= CONFIG_LISTEN_MAX; i++)
		bytes += sprintf(text + bytes, "listen = unix:/%u\n", i);
	assert_bad_text(text, bytes, "config-too-many",
			"x.conf:17: listen: given more than 16 times");
	bytes = 0;
	for (unsigned i = 0; i <= SUBSCRIBE_PROBES_MAX; i++)
		bytes += sprintf(text + bytes, "probe = p%u\n", i);
	assert_bad_text(text, bytes, "config-too-many",
			"x.conf:65: probe: given more than 64 times");
}

static void assert_bad_args(int argc, char **argv, int err, const char *code, const char *what,
			    const char *hint)
{
	struct config config;
	struct error error;

	assert_int_equal(config_parse_args(argc, argv, &config, &error), err);
	assert_string_equal(error.what, what);
	assert_string_equal(error.code, code);
	assert_string_equal(error.hint, hint);
	assert_null(config.source.name);
}

static void test_bad_flags(void **state)
{
	(void)state;
	assert_bad_args(ARGS("--lisen", "x"), -EINVAL, "config-unknown-flag",
			"no option is called `--lisen`", "did you mean `--listen`?");
	assert_bad_args(ARGS("--htp=127.0.0.1:7118"), -EINVAL, "config-unknown-flag",
			"no option is called `--htp`", "did you mean `--http` or `--help`?");
	assert_bad_args(ARGS("--l"), -EINVAL, "config-unknown-flag", "no option is called `--l`",
			"did you mean `--listen`, `--log-level` or `--low-latency`?");
	assert_bad_args(ARGS("-x"), -EINVAL, "config-unknown-flag", "no option is called `-x`",
			"options are words, as in --help");
	assert_bad_args(ARGS("x"), -EINVAL, "config-operand", "`x` belongs to no option",
			"a flag's value is joined to it, as in --insecure=no");
	assert_bad_args(ARGS("--workers"), -EINVAL, "config-no-value", "--workers has no value",
			"write --workers=COUNT");
	assert_bad_args(ARGS("--help=1"), -EINVAL, "config-unwanted-value", "--help takes no value",
			"");
	assert_bad_args(ARGS("--workers=1", "--insecure", "--workers=1"), -EINVAL,
			"config-duplicate", "`workers` was already given",
			"option 1 gives it too; keep one of them");
	write_file("");
	assert_bad_args(ARGS("--config", file_path, "--ring-size=5"), -EINVAL,
			"config-out-of-range",
			"--ring-size: `5` is not between 16KiB and 256MiB", "");
	assert_bad_args(ARGS("--config", file_path, "--low-latency", "--batch-interval=2ms"),
			-EINVAL, "config-contradiction",
			"low-latency and batch-interval contradict each other",
			"low-latency is batch-interval 1ms; keep one of them");
}

static void test_too_many_flags(void **state)
{
	char *argv[CONFIG_FLAGS_MAX + 3] = { "ringtaild" };
	struct config config;
	struct error error;

	(void)state;
	for (unsigned i = 1; i <= CONFIG_FLAGS_MAX + 1; i++)
		argv[i] = "--probe=x";
	assert_int_equal(config_parse_args(CONFIG_FLAGS_MAX + 2, argv, &config, &error), -EINVAL);
	assert_string_equal(error.code, "config-too-many");
}

static void test_unreadable_files(void **state)
{
	char what[200];
	FILE *file;

	(void)state;
	assert_bad_args(ARGS("--config", "/nonexistent/x"), -ENOENT, "config-no-file",
			"cannot open /nonexistent/x: No such file or directory", "");
	assert_bad_args(ARGS("--config", "/tmp"), -EISDIR, "config-no-file",
			"cannot read /tmp: Is a directory", "");
	file = fopen(file_path, "w");
	assert_non_null(file);
	for (unsigned i = 0; i <= CONFIG_FILE_BYTES_MAX; i++)
		fputc('\n', file);
	fclose(file);
	snprintf(what, sizeof(what), "%s is larger than 262144 bytes", file_path);
	assert_bad_args(ARGS("--config", file_path), -EINVAL, "config-too-large", what, "");
	write_file("workers = 0\n");
	snprintf(what, sizeof(what), "%s:1: workers: `0` is not between 1 and 64", file_path);
	assert_bad_args(ARGS("--config", file_path), -EINVAL, "config-out-of-range", what, "");
}

/* ---- What is written about the options ------------------------------------------------------- */

static char *read_all(const char *path)
{
	FILE *file = fopen(path, "r");
	char *text = calloc(1, 1 << 18);

	if (!file) {
		free(text);
		fail_msg("cannot open %s: run this from the top of the tree", path);
	}
	assert_non_null(text);
	assert_true(fread(text, 1, (1 << 18) - 1, file) > 0);
	fclose(file);
	return text;
}

/* Each option has its entry, and the entry says its default. */
static void check_manual(const char *path, const char *entry, bool flags)
{
	char *manual = read_all(path);
	char want[128];

	for (int i = 0; i < OPTIONS; i++) {
		const struct config_option *option = &config_options[i];
		const char *found, *end;

		snprintf(want, sizeof(want), "\n.It %s%s%s", entry, option->name,
			 option->argument || !flags ? " " : "\n");
		found = strstr(manual, want);
		if (!flags && option->place == CONFIG_FLAG_ONLY) {
			assert_null(found);
			continue;
		}
		if (!found)
			fail_msg("%s has no `%s`", path, want);
		if (option->kind == CONFIG_FLAG || !option->def)
			continue;
		end = strstr(found + 1, "\n.It ");
		snprintf(want, sizeof(want), "%s%s", strchr(option->def, '/') ? "Pa " : "Cm ",
			 option->def);
		found = strstr(found, want);
		if (!found || (end && found > end))
			fail_msg("%s: %s does not say its default, `%s`", path, option->name, want);
	}
	free(manual);
}

static void test_manuals(void **state)
{
	(void)state;
	check_manual("docs/ringtaild.8", "Fl -", true);
	check_manual("docs/ringtaild.conf.5", "Cm ", false);
}

/*
 * The shipped file has every key, commented out, at its default: what begins with # and a letter.
 * Without these # it is read without an error.
 */
static void test_shipped_file(void **state)
{
	char *text = read_all("systemd/ringtaild.conf");
	char want[128];
	struct config config;

	(void)state;
	parse_text(text, &config);
	assert_int_equal(config.probe.count, 0);
	config_free(&config);
	for (int i = 0; i < OPTIONS; i++) {
		const struct config_option *option = &config_options[i];

		snprintf(want, sizeof(want), "\n#%s = %s%s", option->name,
			 option->def ? option->def : "", option->def ? "\n" : "");
		if (!strstr(text, want) != (option->place == CONFIG_FLAG_ONLY))
			fail_msg("systemd/ringtaild.conf: `%s`", want);
	}
	for (char *c = text; (c = strstr(c, "\n#")); c++) {
		if (isalpha((unsigned char)c[2]))
			c[1] = ' ';
	}
	parse_text(text, &config);
	assert_int_equal(config.listen.count, 2);
	assert_non_null(config.filter);
	config_free(&config);
	free(text);
}

static void test_help_text(void **state)
{
	char want[64], *text, *line;
	size_t bytes;
	FILE *out = open_memstream(&text, &bytes);

	(void)state;
	config_help(out);
	fclose(out);
	for (int i = 0; i < OPTIONS; i++) {
		snprintf(want, sizeof(want), "\n  --%s ", config_options[i].name);
		assert_non_null(strstr(text, want));
	}
	for (line = strtok(text, "\n"); line; line = strtok(NULL, "\n"))
		assert_true(strlen(line) <= 100);
	free(text);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_defaults),
		cmocka_unit_test(test_file),
		cmocka_unit_test(test_flags),
		cmocka_unit_test(test_flags_win_over_file),
		cmocka_unit_test(test_default_listen),
		cmocka_unit_test(test_help),
		cmocka_unit_test(test_print_reads_back),
		cmocka_unit_test(test_bad_files),
		cmocka_unit_test(test_certificate_for_the_status_page_alone),
		cmocka_unit_test(test_bounds),
		cmocka_unit_test(test_bad_flags),
		cmocka_unit_test(test_too_many_flags),
		cmocka_unit_test(test_unreadable_files),
		cmocka_unit_test(test_manuals),
		cmocka_unit_test(test_shipped_file),
		cmocka_unit_test(test_help_text),
	};

	if (argc == 2 && strcmp(argv[1], "as-a-user") == 0)
		return default_listen_of_a_user();
	return cmocka_run_group_tests(tests, make_file, remove_file);
}
