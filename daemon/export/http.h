/*
 * export_http: posts bodies, on libcurl's multi interface driven by libevent. Certificates are
 * verified; redirections are not followed, and no proxy is asked. One thread: that of its base.
 */
#ifndef RINGTAIL_DAEMON_EXPORT_HTTP_H
#define RINGTAIL_DAEMON_EXPORT_HTTP_H

#include <event2/event.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct export_http;
struct export_call;

/* What came of a request. Borrowed for the call of `done`. */
struct export_answer {
	long status;		/* 0: there was no answer */
	bool sent;		/* all of it went out, so that a lost answer may have been "yes" */
	uint64_t retry_after_ns;/* asked for; 0: not */
	const uint8_t *body;
	size_t bytes;
	bool mistrusted;	/* TLS failed: the certificate, or the other side speaks no TLS */
	const char *error;	/* where there was no answer, or not all of it came; else NULL */
};

struct export_post {
	const char *url;		/* all borrowed until done */
	const char *const *headers;	/* "Name: value" */
	unsigned headers_count;
	const uint8_t *body;
	size_t bytes;
	uint64_t timeout_ns;
	void (*done)(void *context, const struct export_answer *answer);
	void *context;
};

/* ca_file: of authorities to believe instead of the system's; NULL: those. NULL: out of memory. */
struct export_http *export_http_create(struct event_base *base, const char *ca_file);

/* After every call is done or cancelled. NULL is safe. */
void export_http_destroy(struct export_http *http);

#define EXPORT_URL_HOLDS_USER "the URL holds a user"

/* What is wrong with it, for people; NULL: nothing, or there is no memory to look. */
const char *export_http_refuses_url(const char *url);

/* done() comes later, never from within. NULL: out of memory. */
struct export_call *export_http_post(struct export_http *http, const struct export_post *post);

/* done() does not come. */
void export_http_cancel(struct export_call *call);

#endif
