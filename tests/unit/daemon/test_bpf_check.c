/* test_bpf_check: what a start that failed says, by what the kernel's verifier has written. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/host/sandbox.h"
#include "daemon/source/bpf_check.h"

static struct error failure_of(const char *log, int err)
{
	struct error error = {0};
	char text[512];

	snprintf(text, sizeof(text), "%s", log);
	source_bpf_check_verifier(text);
	assert_int_equal(source_bpf_check_failure(&error, err, "load the BPF program enter"), -err);
	return error;
}

/* The words of Linux 6.1, and those of 6.13; securityfs need not be there. */
static void lockdown_is_named(void **state)
{
	static const char *const logs[] = {
		"5: (85) call bpf_probe_read_kernel#113\nunknown func bpf_probe_read_kernel#113\nprocessed 6 insns",
		"5: (85) call bpf_probe_read_kernel#113\nprogram of this type cannot use helper bpf_probe_read_kernel#113\n",
		"5: (85) call bpf_probe_read#4\nunknown func bpf_probe_read#4\nprocessed 6 insns",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(logs) / sizeof(*logs); i++) {
		struct error error = failure_of(logs[i], EINVAL);

		assert_string_equal(error.code, "bpf-locked-down");
		assert_non_null(strstr(error.what, "locked down for confidentiality"));
		assert_non_null(strstr(error.hint, "lockdown=integrity"));
		assert_non_null(strstr(error.hint, "no way around it"));
	}
}

static void other_refusals_are_not_lockdown(void **state)
{
	struct error error;

	(void)state;
	error = failure_of("7: (85) call bpf_loop#181\nunknown func bpf_loop#181\nprocessed 8 insns", EINVAL);
	assert_string_equal(error.code, "bpf-refused");
	error = failure_of("", EINVAL);
	assert_string_equal(error.code, "bpf-failed");
	assert_non_null(strstr(error.hint, "Linux 6.1 or newer"));
	error = failure_of("unknown func bpf_probe_read#4", ENOMEM);
	assert_string_equal(error.code, "bpf-no-memory");
	/* libbpf has tried some times. */
	error = failure_of("", EAGAIN);
	assert_string_equal(error.code, "bpf-interrupted");
	assert_string_equal(error.what, "cannot load the BPF program enter: a signal came each time that the kernel checked it");
}

/* Programs of probes are loaded when they are wanted: the loader is in its sandbox then, and may open no file. */
static void a_refusal_is_named_in_the_sandbox(void **state)
{
	static const char *const logs[] = {"R1 invalid mem access\nprocessed 8 insns", "unknown func bpf_probe_read#4", ""};
	static const int errs[] = {EINVAL, EPERM, E2BIG};
	const struct rlimit no_core = {0};
	pid_t child = fork();
	int status = 0;

	(void)state;
	if (child == 0) {
		struct error error = {0};

		setrlimit(RLIMIT_CORE, &no_core);
		prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
		source_bpf_check_host(&error);		/* whatever it finds here */
		if (sandbox_loader(&error))
			_exit(1);
		for (size_t i = 0; i < sizeof(errs) / sizeof(errs[0]); i++)
			if (!failure_of(logs[i], errs[i]).code[0])
				_exit(2);
		_exit(0);
	}
	assert_true(child > 0);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lockdown_is_named),
		cmocka_unit_test(other_refusals_are_not_lockdown),
		cmocka_unit_test(a_refusal_is_named_in_the_sandbox),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
