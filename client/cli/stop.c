#include "client/cli/stop.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

static int pipe_end = -1;

static void handle(int signal)
{
	int saved = errno;
	ssize_t n = write(pipe_end, "", 1);

	(void)signal;
	(void)n;		/* a full pipe is readable too */
	errno = saved;
}

void stop_now(void)
{
	handle(0);
}

int stop_init(void)
{
	/* No SA_RESTART: a write to a stuck pager is to end. */
	struct sigaction action = { .sa_handler = handle, .sa_flags = SA_RESETHAND };
	int ends[2];

	signal(SIGPIPE, SIG_IGN);
	if (pipe2(ends, O_CLOEXEC | O_NONBLOCK))
		return -1;
	pipe_end = ends[1];
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	return ends[0];
}
