/*
 * processes: many short processes, each with a name of its own, one after the other: what fills tables
 * of those that come by.
 *	usage: processes COUNT
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	long count = argc > 1 ? atol(argv[1]) : 0;
	char name[32];	/* the kernel keeps 15 */

	if (count < 1) {
		fprintf(stderr, "usage: processes COUNT\n");
		return 2;
	}
	for (long i = 0; i < count; i++) {
		pid_t pid;

		snprintf(name, sizeof(name), "p%ld", i);
		pid = vfork();
		if (pid < 0) {
			perror("processes: vfork");
			return EXIT_FAILURE;
		}
		if (!pid) {
			prctl(PR_SET_NAME, name);
			_exit(0);
		}
		if (waitpid(pid, NULL, 0) != pid) {
			perror("processes: waitpid");
			return EXIT_FAILURE;
		}
	}
	return EXIT_SUCCESS;
}
