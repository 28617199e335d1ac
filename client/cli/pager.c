#include "client/cli/pager.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static struct {
	pid_t pid;		/* 0: there is none */
	int stdout_was;
} pager;

static bool is_in_path(const char *name)
{
	const char *path = getenv("PATH");
	char file[PATH_MAX];

	for (; path && *path; path += strcspn(path, ":"), path += *path == ':') {
		int bytes = (int)strcspn(path, ":");

		if (snprintf(file, sizeof(file), "%.*s/%s", bytes, path, name) < (int)sizeof(file) &&
		    access(file, X_OK) == 0)
			return true;
	}
	return false;
}

/* NULL: none. */
static const char *find_pager(void)
{
	const char *named = getenv("PAGER");

	if (named)
		return *named && strcmp(named, "cat") != 0 ? named : NULL;
	return is_in_path("less") ? "less -FRX" : NULL;
}

/* Who may run tracectl through sudo may perhaps run nothing else: less starts programs, unless it is told not to. */
static void become(const char *command, const int ends[2])
{
	if (getenv("SUDO_UID"))
		setenv("LESSSECURE", "1", true);
	dup2(ends[0], STDIN_FILENO);
	close(ends[0]);
	close(ends[1]);
	execl("/bin/sh", "sh", "-c", command, (char *)NULL);
	_exit(127);
}

void pager_begin(bool wanted)
{
	const char *command = wanted && isatty(STDOUT_FILENO) ? find_pager() : NULL;
	int ends[2];

	if (!command || pipe2(ends, O_CLOEXEC))
		return;
	fflush(stdout);
	pager.stdout_was = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	pager.pid = pager.stdout_was < 0 ? -1 : fork();
	if (pager.pid == 0)
		become(command, ends);
	if (pager.pid > 0) {
		/* Whoever leaves early has seen enough; an interrupt is the pager's. */
		signal(SIGPIPE, SIG_IGN);
		signal(SIGINT, SIG_IGN);
		dup2(ends[1], STDOUT_FILENO);
	} else {
		pager.pid = 0;
	}
	close(ends[0]);
	close(ends[1]);
}

void pager_end(void)
{
	if (!pager.pid)
		return;
	fflush(stdout);
	dup2(pager.stdout_was, STDOUT_FILENO);
	close(pager.stdout_was);
	while (waitpid(pager.pid, NULL, 0) < 0 && errno == EINTR)
		;
	pager.pid = 0;
}
