/*
 * kmod_test: the tests of the module, by name: `kmod_test NAME` runs one and exits 0, 1 or 77;
 * `kmod_test` lists them. Runs as root inside the virtual machine.
 */
#include <stdio.h>
#include <string.h>

#include "tests/kmod/guest.h"

extern const struct test device_tests[], syscall_tests[], overflow_tests[], hostile_tests[],
	provider_tests[], probed_tests[];

static const struct test *const suites[] = {
	device_tests, syscall_tests, overflow_tests, hostile_tests, provider_tests,
	probed_tests,
};

int main(int argc, char **argv)
{
	for (size_t i = 0; i < sizeof(suites) / sizeof(suites[0]); i++) {
		for (const struct test *test = suites[i]; test->name; test++) {
			if (argc < 2) {
				printf("%s\n", test->name);
			} else if (strcmp(test->name, argv[1]) == 0) {
				test->run();
				return 0;
			}
		}
	}
	if (argc < 2)
		return 0;
	printf("# no test is called %s\n", argv[1]);
	return 1;
}
