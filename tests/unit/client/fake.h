/*
 * fake: a daemon that says what a test wants, in a process of its own.
 *
 * For each step it accepts one connection, sends `greeting` after the first frame that comes and
 * `answer` after the second, then closes, or waits for the client to close. What is set as `later` it
 * sends after the first answer, when a byte comes over the socket `cue`, where it says when it has.
 */
#ifndef RINGTAIL_TESTS_CLIENT_FAKE_H
#define RINGTAIL_TESTS_CLIENT_FAKE_H

#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proto/frame.h"

struct fake_step {
	const uint8_t *greeting;
	size_t greeting_bytes;
	const uint8_t *answer;
	size_t answer_bytes;
	bool holds;			/* the connection open until the client closes it */
};

struct fake {
	pid_t pid;
	struct fake_later {
		const uint8_t *bytes;		/* NULL: nothing */
		size_t size;
		int cue;
	} later;
	char dir[64], path[80], address[96];
};

/* Reads one frame and drops it; false at the end of the connection. */
__attribute__((unused))
static bool fake_drop_frame(int fd)
{
	struct frame_header header;
	uint8_t bytes[1 << 16];

	if (recv(fd, bytes, FRAME_HEADER_BYTES, MSG_WAITALL) != FRAME_HEADER_BYTES ||
	    frame_parse_header(bytes, FRAME_HEADER_BYTES, sizeof(bytes), &header) != FRAME_OK)
		return false;
	return !header.body_bytes || recv(fd, bytes, header.body_bytes, MSG_WAITALL) > 0;
}

__attribute__((unused))
static void fake_say_later(int fd, const struct fake_later *later)
{
	char byte;

	if (!later->bytes || recv(later->cue, &byte, 1, 0) != 1)
		return;
	send(fd, later->bytes, later->size, MSG_NOSIGNAL);
	send(later->cue, &byte, 1, MSG_NOSIGNAL);
}

__attribute__((unused))
static void fake_serve(int listener, const struct fake_step *step, unsigned steps,
		       const struct fake_later *later)
{
	char byte;

	alarm(300);			/* a test that hangs must not leave us behind */
	for (unsigned i = 0; i < steps; i++) {
		int fd = accept(listener, NULL, NULL);

		if (fake_drop_frame(fd) &&
		    send(fd, step[i].greeting, step[i].greeting_bytes, MSG_NOSIGNAL) >= 0 &&
		    step[i].answer && fake_drop_frame(fd))
			send(fd, step[i].answer, step[i].answer_bytes, MSG_NOSIGNAL);
		if (i == 0)
			fake_say_later(fd, later);
		if (step[i].holds)
			while (recv(fd, &byte, 1, 0) > 0)
				;
		close(fd);
	}
	_exit(0);
}

__attribute__((unused))
static void fake_start(struct fake *fake, const struct fake_step *step, unsigned steps)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	strcpy(fake->dir, "/tmp/ringtail-fake-XXXXXX");
	if (!mkdtemp(fake->dir))
		abort();
	snprintf(fake->path, sizeof(fake->path), "%s/s", fake->dir);
	snprintf(fake->address, sizeof(fake->address), "unix:%s", fake->path);
	memcpy(at.sun_path, fake->path, strlen(fake->path) + 1);
	if (bind(listener, (struct sockaddr *)&at, sizeof(at)) || listen(listener, 4))
		abort();
	fflush(NULL);
	fake->pid = fork();
	if (fake->pid == 0)
		fake_serve(listener, step, steps, &fake->later);
	close(listener);
}

__attribute__((unused))
static void fake_stop(struct fake *fake)
{
	kill(fake->pid, SIGKILL);
	waitpid(fake->pid, NULL, 0);
	unlink(fake->path);
	rmdir(fake->dir);
}

#endif
