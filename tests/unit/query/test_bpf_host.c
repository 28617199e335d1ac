/* test_bpf_host: what kernels say when they let no BPF program in, each by its cause. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "query/bpf_host.h"

static void oldest_kernel(void **state)
{
	(void)state;
	assert_false(bpf_host_is_old("6.1"));
	assert_false(bpf_host_is_old("6.1.0-56-amd64"));
	assert_false(bpf_host_is_old("10.0"));
	assert_true(bpf_host_is_old("6.0.19"));
	assert_true(bpf_host_is_old("5.18.0"));
	assert_true(bpf_host_is_old("garbage"));
	assert_true(bpf_host_is_old(""));
}

/* Whoever reads one of these pages reads the number that the programs go by. */
static void pages_name_the_oldest_kernel(void **state)
{
	static const struct {
		const char *path, *says;
	} pages[] = {
		{ "README.md", "BPF programs (Linux %d.%d or later, with BTF)" },
		{ "debian/control", "BPF programs (Linux %d.%d or later, with BTF)" },
		{ "docs/comparison.md", "| kernel needs | Linux %d.%d with BTF, or the module |" },
		{ "docs/troubleshooting.md", "Linux %d.%d" },
	};
	static char page[1 << 20];

	(void)state;
	for (size_t i = 0; i < sizeof(pages) / sizeof(*pages); i++) {
		char says[128];
		FILE *file = fopen(pages[i].path, "re");
		size_t bytes;

		assert_non_null(file);
		bytes = fread(page, 1, sizeof(page) - 1, file);
		page[bytes] = '\0';
		fclose(file);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
		snprintf(says, sizeof(says), pages[i].says, BPF_HOST_MAJOR, BPF_HOST_MINOR);
#pragma GCC diagnostic pop
		if (!strstr(page, says))
			fail_msg("%s does not have '%s'", pages[i].path, says);
	}
}

static void lockdown(void **state)
{
	(void)state;
	assert_int_equal(bpf_host_lockdown("[none] integrity confidentiality\n"), BPF_HOST_OPEN);
	assert_int_equal(bpf_host_lockdown("none [integrity] confidentiality\n"), BPF_HOST_INTEGRITY);
	assert_int_equal(bpf_host_lockdown("none integrity [confidentiality]\n"), BPF_HOST_CONFIDENTIALITY);
	assert_true(bpf_host_verifier_is_locked_down("9: (85) call bpf_probe_read_kernel#113 unknown func "
						     "bpf_probe_read_kernel#113"));
	assert_true(bpf_host_verifier_is_locked_down("program of this type cannot use helper bpf_probe_read#4"));
	assert_false(bpf_host_verifier_is_locked_down("unknown func bpf_loop#181"));
	assert_false(bpf_host_verifier_is_locked_down("9: (85) call bpf_probe_read_kernel#113 R3 invalid mem access"));
}

static void refusals(void **state)
{
	static const struct {
		const char *status, *uid_map, *cause, *remedy;
		int err;
	} cases[] = {
		{ "CapEff:\t000001ffffffffff\n", "", "security module", "journalctl", 0 },
		{ "CapEff:\t0000000000200000\n", "0 0 4294967295\n", "security module", "journalctl", 0 },
		{ "CapEff:\t0000008000000000\nSeccomp:\t1\n", "", "security module", "journalctl", 0 },
		{ "CapEff:\t0000008000000000\nSeccomp:\t2\nSeccomp_filters:\t1\n", "0 0 4294967295\n", "seccomp filter",
		  "seccomp=unconfined", EPERM },
		{ "CapEff:\t0000008000000000\nSeccomp:\t2\n", "", "security module", "journalctl", EINVAL },
		{ "CapEff:\t0000008000000000\nSeccomp:\t0\n", "", "security module", "journalctl", EPERM },
		{ "CapEff:\t0000008000000000\nSeccomp:\t2\n", "0 100000 65536\n", "user namespace", "--userns=host", 0 },
		{ "CapEff:\t0000008000000000\nSeccomp:\t0\n", "0 0 65536\n", "user namespace", "--userns=host", 0 },
		{ "CapEff:\t0000007fffdfffff\nSeccomp:\t2\n", "0 100000 65536\n", "without CAP_BPF", "--cap-add=BPF", 0 },
		{ "", "", "security module", "journalctl", 0 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		char status[256];
		struct bpf_host_refusal refusal;

		snprintf(status, sizeof(status), "Name:\tx\n%s", cases[i].status);
		refusal = bpf_host_refusal(status, cases[i].uid_map, cases[i].err);
		if (!strstr(refusal.cause, cases[i].cause) || !strstr(refusal.remedy, cases[i].remedy))
			fail_msg("%zu: %s, %s", i, refusal.cause, refusal.remedy);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(oldest_kernel),
		cmocka_unit_test(pages_name_the_oldest_kernel),
		cmocka_unit_test(lockdown),
		cmocka_unit_test(refusals),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
