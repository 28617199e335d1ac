#include "client/cli/command.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/lib/conn.h"
#include "client/lib/failure.h"

#define PATH_TEXT_MAX	4096u
#define END_WAIT_MS	5000	/* from SIGTERM to SIGKILL */
#define LOOK_MS		10
#define CODE_NOT_FOUND	127
#define CODE_NO_EXEC	126

struct command {
	pid_t pid;
	int go;			/* a byte: execute; its end: do not */
	int told;		/* the errno of an exec that failed; its end: none did */
	bool over;
	int status;
	uint64_t ended_ns;
};

/* As a shell finds it, so that there is one exec. */
static int find(const char *name, char path[PATH_TEXT_MAX])
{
	const char *from = getenv("PATH");
	int err = -ENOENT;

	if (strchr(name, '/'))
		return snprintf(path, PATH_TEXT_MAX, "%s", name) < (int)PATH_TEXT_MAX ? 0 : -ENAMETOOLONG;
	for (from = from ? from : "/usr/bin:/bin"; *name; from++) {
		size_t bytes = strcspn(from, ":");

		if (snprintf(path, PATH_TEXT_MAX, "%.*s/%s", (int)bytes, bytes ? from : ".", name) <
			    (int)PATH_TEXT_MAX && access(path, F_OK) == 0) {
			if (access(path, X_OK) == 0)
				return 0;
			err = -EACCES;
		}
		from += bytes;
		if (!*from)
			break;
	}
	return err;
}

static int refuse(const char *name, int err, struct ringtail_error *error)
{
	failure_set(error, -err, "cannot-execute", "cannot execute %.200s: %s", name, strerror(-err));
	return err;
}

/* In the child. */
__attribute__((noreturn))
static void run(const char *path, char *const *argv, int go, int told)
{
	char byte;
	ssize_t got;
	int err;

	while ((got = read(go, &byte, 1)) < 0 && errno == EINTR)
		;
	if (got == 1) {
		execv(path, argv);
		err = errno;
		while (write(told, &err, sizeof(err)) < 0 && errno == EINTR)
			;
		_exit(err == ENOENT ? CODE_NOT_FOUND : CODE_NO_EXEC);
	}
	_exit(CODE_NO_EXEC);
}

int command_start(char *const *argv, struct command **command, struct ringtail_error *error)
{
	struct command *made = calloc(1, sizeof(*made));
	int go[2] = { -1, -1 }, told[2] = { -1, -1 }, err;
	char path[PATH_TEXT_MAX];

	if (!made)
		return failure_set(error, ENOMEM, "no-memory", "out of memory");
	err = find(argv[0], path);
	if (!err && (pipe2(go, O_CLOEXEC) || pipe2(told, O_CLOEXEC)))
		err = -errno;
	if (!err) {
		made->pid = fork();
		err = made->pid < 0 ? -errno : 0;
	}
	if (!err && !made->pid) {
		close(go[1]);
		run(path, argv, go[0], told[1]);
	}
	if (go[0] >= 0)
		close(go[0]);
	if (told[1] >= 0)
		close(told[1]);
	made->go = go[1];
	made->told = told[0];
	if (!err) {
		*command = made;
		return 0;
	}
	if (go[1] >= 0)
		close(go[1]);
	if (told[0] >= 0)
		close(told[0]);
	free(made);
	return refuse(argv[0], err, error);
}

pid_t command_pid(const struct command *command)
{
	return command->pid;
}

int command_go(struct command *command, struct ringtail_error *error)
{
	ssize_t got;
	int err = 0;

	while (write(command->go, "!", 1) < 0 && errno == EINTR)
		;
	while ((got = read(command->told, &err, sizeof(err))) < 0 && errno == EINTR)
		;
	return got == sizeof(err) ? refuse("the command", -err, error) : 0;
}

bool command_ended(struct command *command, uint64_t *ended_ns)
{
	if (!command->over && waitpid(command->pid, &command->status, WNOHANG) == command->pid) {
		command->over = true;
		command->ended_ns = conn_now_ns();
	}
	*ended_ns = command->ended_ns;
	return command->over;
}

int command_finish(struct command *command)
{
	uint64_t ended_ns;
	int code;

	if (!command)
		return 0;
	close(command->go);
	close(command->told);
	for (int waited_ms = 0; !command_ended(command, &ended_ns); waited_ms += LOOK_MS) {
		if (!waited_ms)
			kill(command->pid, SIGTERM);
		else if (waited_ms >= END_WAIT_MS)
			kill(command->pid, SIGKILL);
		poll(NULL, 0, LOOK_MS);
	}
	code = WIFSIGNALED(command->status) ? 128 + WTERMSIG(command->status) :
					      WEXITSTATUS(command->status);
	free(command);
	return code;
}
