/*
 * http_request: the head of an HTTP/1 request, as bytes from outside become it: only what this
 * server needs of it, and no more than it can hold. Pure; any thread.
 */
#ifndef RINGTAIL_DAEMON_HTTP_REQUEST_H
#define RINGTAIL_DAEMON_HTTP_REQUEST_H

#include <stdbool.h>
#include <stddef.h>

#define HTTP_PATH_BYTES		256
#define HTTP_FIELD_BYTES	1024
#define HTTP_WORD_BYTES		32

enum http_method {
	HTTP_GET,
	HTTP_HEAD,
	HTTP_OTHER,
};

struct http_request {
	enum http_method method;
	bool keep_alive;			/* the peer would send another on this connection */
	bool has_body;
	bool has_host, has_length, has_coding, has_origin;	/* those fields have come */
	char path[HTTP_PATH_BYTES];		/* without the query; not decoded */
	char accept[HTTP_FIELD_BYTES];		/* "" if there is none; all of them, joined */
	char accept_encoding[HTTP_FIELD_BYTES];	/* the same */
	char authorization[HTTP_FIELD_BYTES];
	char host[HTTP_PATH_BYTES];		/* of the target, if it names one, else of Host */

	/* Sec-Fetch-*: for which site's page a browser asks, and what for; "" if there is none. */
	char fetch_site[HTTP_WORD_BYTES], fetch_mode[HTTP_WORD_BYTES], fetch_dest[HTTP_WORD_BYTES];
};

enum http_parse {
	HTTP_OK,
	HTTP_MORE,		/* the head is not over */
	HTTP_BAD,		/* not HTTP, or not well-formed: 400 */
	HTTP_TOO_LONG,		/* a path or a field that is: 431 */
	HTTP_VERSION,		/* not 1.x: 505 */
	HTTP_CODING,		/* a transfer coding that is not known: 501 */
};

/* *used: the bytes of the head, if HTTP_OK. */
enum http_parse http_request_parse(const char *bytes, size_t n, struct http_request *request,
				   size_t *used);

/* Whether an Accept-Encoding names gzip, and does not refuse it (q=0). */
bool http_gzip_is_asked_for(const char *accept_encoding);

#endif
