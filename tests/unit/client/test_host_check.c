/* test_host_check: doctor's checks against hosts of the test's making. */
#include "tests/unit/client/check.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/cli/host_check.h"

static char root[] = "/tmp/ringtail-host-XXXXXX";
static int bpf_result, no_command_result = -EINVAL, tracing_result;

static int try_bpf(void)
{
	return bpf_result;
}

static int try_no_command(void)
{
	return no_command_result;
}

static int try_tracing(void)
{
	return tracing_result;
}

/* Writes a file below the root, making its directories. */
static void put(const char *path, const char *text)
{
	char full[512];
	FILE *file;

	snprintf(full, sizeof(full), "%s%s", root, path);
	for (char *at = full + strlen(root) + 1; *at; at++) {
		if (*at != '/')
			continue;
		*at = '\0';
		mkdir(full, 0755);
		*at = '/';
	}
	file = fopen(full, "w");
	assert_non_null(file);
	fputs(text, file);
	fclose(file);
}

static void put_link(const char *path, const char *to)
{
	char full[512];

	put(path, "");
	snprintf(full, sizeof(full), "%s%s", root, path);
	assert_int_equal(unlink(full), 0);
	assert_int_equal(symlink(to, full), 0);
}

static struct host_check run(const char *name, const char *release)
{
	const struct host host = { .root = root, .release = release, .try_bpf = try_bpf,
				   .try_no_command = try_no_command, .try_tracing = try_tracing };
	struct host_check check;
	const char *found;

	for (size_t i = 0; (found = host_check(&host, i, &check)); i++)
		if (!strcmp(found, name))
			return check;
	fail_msg("no check is called %s", name);
	return check;
}

static int setup(void **state)
{
	(void)state;
	return mkdtemp(root) ? 0 : -1;
}

static int teardown(void **state)
{
	char command[128];

	(void)state;
	snprintf(command, sizeof(command), "rm -r %s", root);
	return system(command);
}

static void expect(const char *name, const char *release, enum check_verdict verdict,
		   const char *says)
{
	struct host_check check = run(name, release);

	if (check.verdict != verdict || (!strstr(check.found, says) && !strstr(check.hint, says)))
		fail_msg("%s: %s, '%s', '%s'", name, host_check_verdict_name(check.verdict),
			 check.found, check.hint);
	if (verdict != CHECK_OK && strcmp(name, "clock"))
		assert_true(check.hint[0]);
}

static void checks(void **state)
{
	(void)state;
	expect("kernel", "6.18.1", CHECK_OK, "6.18.1");
	expect("kernel", "6.1.0-56-amd64", CHECK_OK, "6.1");
	expect("kernel", "6.0.19", CHECK_FAIL, "newer kernel");
	expect("kernel", "5.18", CHECK_FAIL, "older than 6.1");
	expect("kernel", "garbage", CHECK_FAIL, "older");

	expect("BTF", "6.1", CHECK_FAIL, "CONFIG_DEBUG_INFO_BTF");
	put("/sys/kernel/btf/vmlinux", "x");
	expect("BTF", "6.1", CHECK_OK, "types");

	expect("bpf(2)", "6.1", CHECK_OK, "map");
	bpf_result = -EPERM;
	put("/proc/sys/kernel/unprivileged_bpf_disabled", "2\n");
	expect("bpf(2)", "6.1", CHECK_FAIL, "unprivileged_bpf_disabled is 2)");
	put("/proc/self/status", "CapEff:\t000001ffffffffff\nNoNewPrivs:\t0\nSeccomp:\t0\n");
	expect("bpf(2)", "6.1", CHECK_FAIL, "security module");
	put("/proc/self/uid_map", "         0          0 4294967295\n");
	expect("bpf(2)", "6.1", CHECK_FAIL, "security module");
	put("/proc/self/status", "CapEff:\t000001ffffffffff\nNoNewPrivs:\t0\nSeccomp:\t2\n");
	expect("bpf(2)", "6.1", CHECK_FAIL, "security module");	/* as in a unit, whose filter has nothing against it */
	no_command_result = -EPERM;
	expect("bpf(2)", "6.1", CHECK_FAIL, "seccomp=unconfined");
	put("/proc/self/uid_map", "         0     100000      65536\n");
	expect("bpf(2)", "6.1", CHECK_FAIL, "--userns=host");
	put("/proc/self/status", "CapEff:\t0000000000000000\nSeccomp:\t2\n");
	expect("bpf(2)", "6.1", CHECK_FAIL, "--cap-add=BPF");
	assert_true(run("bpf(2)", "6.1").of_caller);
	put("/proc/self/status", "");
	bpf_result = -ENOSYS;
	expect("bpf(2)", "6.1", CHECK_FAIL, "CONFIG_BPF_SYSCALL");
	assert_false(run("bpf(2)", "6.1").of_caller);

	expect("capabilities", "6.1", CHECK_FAIL, "CAP_BPF and CAP_PERFMON");
	put("/proc/self/status", "Name:\tx\nCapEff:\t000001ffffffffff\n");
	expect("capabilities", "6.1", CHECK_OK, "CAP_BPF and CAP_PERFMON");
	put("/proc/self/status", "CapEff:\t0000008000000000\n");
	expect("capabilities", "6.1", CHECK_FAIL, "you lack CAP_PERFMON");
	put("/proc/self/status", "CapEff:\t0000004000000000\n");
	expect("capabilities", "6.1", CHECK_FAIL, "you lack CAP_BPF");
	assert_true(run("capabilities", "6.1").of_caller);
	put("/proc/self/status", "CapEff:\t0000000000200000\n");
	expect("capabilities", "6.1", CHECK_OK, "CAP_BPF");

	expect("PID namespace", "6.1", CHECK_OK, "host");
	put_link("/proc/self/ns/pid", "pid:[4026532123]");
	expect("PID namespace", "6.1", CHECK_WARN, "--pid=host");
	put_link("/proc/self/ns/pid", "pid:[4026531836]");
	expect("PID namespace", "6.1", CHECK_OK, "host");

	expect("tracefs", "6.1", CHECK_WARN, "mount -t tracefs");
	expect("tracefs", "6.1", CHECK_WARN, "a daemon started as root mounts its own");
	put("/sys/kernel/debug/tracing/events/enable", "");
	expect("tracefs", "6.1", CHECK_OK, "debug");
	put("/sys/kernel/tracing/events/enable", "");
	expect("tracefs", "6.1", CHECK_OK, "/sys/kernel/tracing");

	expect("lockdown", "6.1", CHECK_WARN, "mount -t securityfs");
	put("/sys/kernel/security/lsm", "capability,bpf");
	expect("lockdown", "6.1", CHECK_OK, "without lockdown");
	put("/sys/kernel/security/lockdown", "[none] integrity confidentiality\n");
	expect("lockdown", "6.1", CHECK_OK, "not locked down");
	put("/sys/kernel/security/lockdown", "none [integrity] confidentiality\n");
	expect("lockdown", "6.1", CHECK_OK, "tracing is allowed");
	put("/sys/kernel/security/lockdown", "none integrity [confidentiality]\n");
	expect("lockdown", "6.1", CHECK_FAIL, "confidentiality");

	expect("perf events", "6.1", CHECK_WARN, "CONFIG_PERF_EVENTS");
	put("/proc/sys/kernel/perf_event_paranoid", "3\n");
	expect("perf events", "6.1", CHECK_WARN, "CAP_SYS_ADMIN");
	put("/proc/sys/kernel/perf_event_paranoid", "2\n");
	expect("perf events", "6.1", CHECK_OK, "is 2;");

	expect("clock", "6.1", CHECK_WARN, "cannot be told");
	put("/sys/devices/system/clocksource/clocksource0/current_clocksource", "tsc\n");
	expect("clock", "6.1", CHECK_OK, "tsc");
	put("/sys/devices/system/clocksource/clocksource0/current_clocksource", "hpet\n");
	expect("clock", "6.1", CHECK_WARN, "slow");

	expect("memlock", "6.1", CHECK_OK, "cgroup");
	assert_true(run("memlock", "5.4").verdict != CHECK_FAIL);

	expect("systemd unit", "6.1", CHECK_WARN, "make install");
	put("/etc/systemd/system/ringtaild.service", "");
	expect("systemd unit", "6.1", CHECK_OK, "/etc/systemd");
}

static void here(void **state)
{
	struct host_check check;
	struct host host;
	size_t n = 0;

	(void)state;
	host_here(&host);
	while (host_check(&host, n, &check)) {
		assert_true(check.found[0]);
		n++;
	}
	assert_int_equal(n, 14);
	assert_true(host.release[0] >= '0' && host.release[0] <= '9');
}

static void probes_of_code_say_why_not(void **state)
{
	(void)state;
	expect("uprobes", "6.12.1", CHECK_WARN, "CONFIG_UPROBE_EVENTS");
	put("/sys/bus/event_source/devices/uprobe/type", "8\n");
	expect("uprobes", "6.12.1", CHECK_OK, "usdt");
	expect("uprobes", "6.1.0-56-amd64", CHECK_OK, "CAP_SYS_ADMIN");
	expect("kprobes", "6.1.0", CHECK_WARN, "CONFIG_KPROBE_EVENTS");
	bpf_result = 0;
	put("/sys/bus/event_source/devices/kprobe/type", "7\n");
	expect("kprobes", "6.1.0", CHECK_OK, "kretprobe");
	put("/sys/kernel/btf/vmlinux", "");
	put("/sys/kernel/tracing/events/enable", "0\n");
	expect("fentry", "6.1.0", CHECK_WARN, "CONFIG_FUNCTION_TRACER");
	put("/sys/kernel/tracing/available_filter_functions", "vfs_read\n");
	tracing_result = -EINVAL;
	expect("fentry", "6.1.0", CHECK_OK, "fexit");
	tracing_result = -EPERM;
	expect("fentry", "6.1.0", CHECK_WARN, "a policy of this machine");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(checks),
		cmocka_unit_test(probes_of_code_say_why_not),
		cmocka_unit_test(here),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
