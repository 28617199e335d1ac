/*
 * http_bench: an HTTP server whose handler answers with the path, and clients of it over socketpairs.
 */
#ifndef RINGTAIL_TESTS_HTTP_BENCH_H
#define RINGTAIL_TESTS_HTTP_BENCH_H

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/http/http.h"
#include "daemon/net/turnstile.h"

struct bench {
	struct event_base *base;
	struct http *http;
	struct turnstile *turnstile;	/* where handshakes wait; NULL without TLS */
	unsigned handled;
	int status;			/* 0: all are let in */
	size_t extra_bytes;		/* that each answer has more than the path */
};

static inline void handle(void *context, const struct http_request *request, struct bufferevent *peer,
			  struct http_answer *answer)
{
	struct bench *bench = context;

	assert_non_null(peer);
	bench->handled++;
	if (bench->status)
		answer->status = bench->status;
	answer->admitted = !bench->status && strcmp(request->path, "/healthz") != 0;
	answer->type = "text/plain";
	evbuffer_add_printf(answer->body, "<%s>", request->path);
	for (size_t i = 0; i < bench->extra_bytes; i++)
		evbuffer_add(answer->body, "x", 1);
}

/* `tls` may be NULL. */
static inline int bench_open(void **state, struct transport_tls_context *tls)
{
	struct bench *bench = calloc(1, sizeof(*bench));
	struct http_config config;

	bench->base = event_base_new();
	bench->turnstile = tls ? turnstile_create(bench->base) : NULL;
	config = (struct http_config){.base = bench->base, .tls = tls, .turnstile = bench->turnstile,
				      .handle = handle, .context = bench};
	bench->http = http_create(&config);
	assert_non_null(bench->http);
	*state = bench;
	return 0;
}

static inline int bench_setup(void **state)
{
	return bench_open(state, NULL);
}

static inline int bench_teardown(void **state)
{
	struct bench *bench = *state;

	http_destroy(bench->http);
	turnstile_destroy(bench->turnstile);
	event_base_free(bench->base);
	free(bench);
	return 0;
}

/* Both ends do not block; the server has one, the test the other. */
static inline int bench_connect(struct bench *bench)
{
	int fds[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
	http_accept(bench->http, fds[0], "test");
	return fds[1];
}

static inline void bench_run(struct bench *bench)
{
	for (unsigned i = 0; i < 20; i++)
		event_base_loop(bench->base, EVLOOP_NONBLOCK);
}

static inline void say(struct bench *bench, int fd, const char *text)
{
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	bench_run(bench);
}

/* What came so far; *open: whether more could. */
static inline char *hear(int fd, bool *open)
{
	static char text[64 << 10];
	size_t at = 0;
	ssize_t got;

	while ((got = read(fd, text + at, sizeof(text) - 1 - at)) > 0)
		at += (size_t)got;
	*open = got < 0 && errno == EAGAIN;
	text[at] = '\0';
	return text;
}

#endif
