#include "client/cli/kafka_source.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/lib/failure.h"
#include "proto/limits.h"

#define READER		"ringtail-kafka"
#define NOT_FOUND	127
#define SINCE_EARLIER_MS 60000u		/* so that what was before that time shows that nothing is missing */

struct kafka_source {
	pid_t pid;
	bool lanes;
};

bool kafka_source_is(const char *address)
{
	return address && strncmp(address, "kafka:", strlen("kafka:")) == 0;
}

bool kafka_source_names_host(const char *address)
{
	const char *prefix = strchr(address, '/'), *host = prefix ? strchr(prefix + 1, '/') : NULL;

	return host && host[1];
}

/* Beside this program, as in a build tree; else in PATH. Returns only if there is none. */
static void execute(char *const *argv)
{
	char path[4096];
	ssize_t bytes = readlink("/proc/self/exe", path, sizeof(path) - sizeof(READER) - 1);
	char *slash;

	if (bytes > 0) {
		path[bytes] = '\0';
		slash = strrchr(path, '/');
		if (slash) {
			memcpy(slash + 1, READER, sizeof(READER));
			execv(path, argv);
		}
	}
	execvp(READER, argv);
}

__attribute__((noreturn))
static void run(const struct kafka_question *question, int to)
{
	uint64_t since_ms = question->since_ns / 1000000;
	char since[32], *argv[8 + 2 * SUBSCRIBE_PROBES_MAX];
	int n = 0;

	snprintf(since, sizeof(since), "%llu", since_ms > SINCE_EARLIER_MS ?
		 (unsigned long long)(since_ms - SINCE_EARLIER_MS) : 1ull);
	argv[n++] = READER;
	argv[n++] = "--source";
	argv[n++] = (char *)question->address;
	if (question->follow)
		argv[n++] = "--follow";
	if (question->lanes)
		argv[n++] = "--lanes";
	for (size_t i = 0; i < question->hosts && i < SUBSCRIBE_PROBES_MAX; i++) {
		argv[n++] = "--host";
		argv[n++] = (char *)question->host[i];
	}
	if (question->since_ns) {
		argv[n++] = "--since-ms";
		argv[n++] = since;
	}
	argv[n] = NULL;
	if (dup2(to, STDOUT_FILENO) >= 0)
		execute(argv);
	_exit(NOT_FOUND);
}

/* It is over without a word: it has failed, or there is nothing. */
static int judge_end(struct kafka_source *source, struct ringtail_error *error)
{
	const char *whom = source->lanes ? "these hosts" : "that host";
	int status = 0, err;

	while (waitpid(source->pid, &status, 0) < 0 && errno == EINTR)
		;
	free(source);
	if (WIFEXITED(status) && WEXITSTATUS(status) == NOT_FOUND) {
		err = failure_set(error, ENOENT, "no-reader", "cannot run " READER ", which reads Kafka");
		failure_hint(error, "install the package ringtail-kafka");
		return err;
	}
	if (WIFEXITED(status) && !WEXITSTATUS(status))
		return failure_set(error, ENODATA, "no-records", "Kafka has no records of %s", whom);
	*error = (struct ringtail_error){ 0 };
	return -EIO;
}

static int await_first(struct kafka_source *source, uint64_t wait_ns, int fd, struct ringtail_error *error)
{
	struct pollfd polled = { .fd = fd, .events = POLLIN };
	uint64_t wait_ms = wait_ns / 1000000;
	int bytes = 0, ready;

	while ((ready = poll(&polled, 1, !wait_ns ? -1 : wait_ms < INT_MAX ? (int)wait_ms : INT_MAX)) < 0 &&
	       errno == EINTR)
		;
	return !ready || (ioctl(fd, FIONREAD, &bytes) == 0 && bytes) ? 0 : judge_end(source, error);
}

int kafka_source_open(const struct kafka_question *question, struct kafka_source **made, int *fd,
		      struct ringtail_error *error)
{
	struct kafka_source *source = calloc(1, sizeof(*source));
	int ends[2], err;

	if (!source)
		return failure_set(error, ENOMEM, "no-memory", "out of memory");
	if (pipe2(ends, O_CLOEXEC)) {
		err = errno;
		free(source);
		return failure_set(error, err, "no-pipe", "cannot make a pipe: %s", strerror(err));
	}
	source->lanes = question->lanes;
	source->pid = fork();
	if (!source->pid)
		run(question, ends[1]);
	err = source->pid < 0 ? errno : 0;
	close(ends[1]);
	if (err) {
		close(ends[0]);
		free(source);
		return failure_set(error, err, "no-process", "cannot start " READER ": %s", strerror(err));
	}
	err = await_first(source, question->wait_ns, ends[0], error);
	if (err) {
		close(ends[0]);
		return err;
	}
	*made = source;
	*fd = ends[0];
	return 0;
}

bool kafka_source_close(struct kafka_source *source)
{
	int status = 0;

	if (!source)
		return true;
	kill(source->pid, SIGTERM);
	while (waitpid(source->pid, &status, 0) < 0 && errno == EINTR)
		;
	free(source);
	return !WIFEXITED(status) || !WEXITSTATUS(status);
}
