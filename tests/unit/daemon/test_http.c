/*
 * http: heads, whole, in parts and wrong; connections that keep on, end, linger, and are too many; and
 * the JSON of what is not text.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "daemon/base/counters.h"
#include "daemon/http/http.h"
#include "daemon/http/live.h"
#include "daemon/base/limits.h"
#include "tests/unit/daemon/http_bench.h"

/* ---- Heads ----------------------------------------------------------------------------------- */

static enum http_parse parse(const char *text, struct http_request *request)
{
	size_t used = 0;
	enum http_parse got = http_request_parse(text, strlen(text), request, &used);

	if (got == HTTP_OK)
		assert_int_equal(used, strlen(text));
	return got;
}

static void test_heads(void **state)
{
	static const struct {
		const char *text;
		enum http_parse got;
	} cases[] = {
		{"", HTTP_MORE},
		{"GET", HTTP_MORE},
		{"GET / HTTP/1.1\r\nHost: a\r\n", HTTP_MORE},
		{"GET / HTTP/1.1\r\nHost: a\r\n\r", HTTP_MORE},
		{"GET / HTTP/1.1\r\nHost: a\r\n\r\n", HTTP_OK},
		{"DELETE * HTTP/1.1\r\nHost: a\r\n\r\n", HTTP_OK},
		{"GET * HTTP/1.1\r\nHost: a\r\n\r\n", HTTP_BAD},
		{"GET ftp://a/ HTTP/1.1\r\nHost: a\r\n\r\n", HTTP_BAD},
		{"GET / HTTP/1.1\n\r\n\r\n", HTTP_BAD},
		{"GET / HTTP/1.2\r\nHost: a\r\n\r\n", HTTP_OK},
		{"GET / HTTP/1.x\r\nHost: a\r\n\r\n", HTTP_BAD},
		{"GET / HTTP/2.0\r\n\r\n", HTTP_VERSION},
		{"GET / http/1.1\r\n\r\n", HTTP_BAD},
		{"GET / HTTP/1.10\r\n\r\n", HTTP_BAD},
		{"GET  HTTP/1.1\r\nHost: a\r\n\r\n", HTTP_BAD},
		{" GET / HTTP/1.1\r\nHost: a\r\n\r\n", HTTP_BAD},
		{"G(T / HTTP/1.1\r\nHost: a\r\n\r\n", HTTP_BAD},
		{"G\x7fT / HTTP/1.1\r\nHost: a\r\n\r\n", HTTP_BAD},
		{"GET / HTTP/1.1\r\nHost: []\r\n\r\n", HTTP_BAD},
		{"GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\nAccept: x\r\n\r\n", HTTP_CODING},
		{"GET /\x01 HTTP/1.1\r\nHost: a\r\n\r\n", HTTP_BAD},
		{"\r\n\r\n", HTTP_BAD},
		{"GET / HTTP/1.1\r\nHost: a\r\nA\r\n\r\n", HTTP_BAD},
		{"GET / HTTP/1.1\r\nHost: a\r\n: b\r\n\r\n", HTTP_BAD},
		{"GET / HTTP/1.1\r\nHost: a\r\nA : b\r\n\r\n", HTTP_BAD},
		{"GET / HTTP/1.1\r\nHost: a\r\nA: b\r\n c\r\n\r\n", HTTP_BAD},
		{"GET / HTTP/1.1\r\nHost: a\r\nA: \x7f\r\n\r\n", HTTP_BAD},
		{"GET / HTTP/1.1\r\nHost: a\r\nAuthorization: a\r\nAuthorization: b\r\n\r\n", HTTP_BAD},
	};
	struct http_request request;
	char text[4000];
	size_t used;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		if (parse(cases[i].text, &request) != cases[i].got)
			fail_msg("%s", cases[i].text);
	assert_int_equal(http_request_parse("GET /\0", 6, &request, &used), HTTP_BAD);
	snprintf(text, sizeof(text), "GET /%0*d HTTP/1.1\r\nHost: a\r\n\r\n", HTTP_PATH_BYTES, 0);
	assert_int_equal(parse(text, &request), HTTP_TOO_LONG);
	snprintf(text, sizeof(text), "GET / HTTP/1.1\r\nHost: a\r\nAccept: a\r\nAccept: %0*d\r\n\r\n",
		 HTTP_FIELD_BYTES - 3, 0);
	assert_int_equal(parse(text, &request), HTTP_TOO_LONG);
}

/* Several fields of one name are joined as long as they fit, with what is between them. */
static void test_fields_that_just_fit(void **state)
{
	static const struct {
		unsigned first, second;
		enum http_parse got;
	} cases[] = {
		{HTTP_FIELD_BYTES - 1, 0, HTTP_TOO_LONG}, {HTTP_FIELD_BYTES - 2, 0, HTTP_TOO_LONG},
		{HTTP_FIELD_BYTES - 3, 0, HTTP_OK},	  {HTTP_FIELD_BYTES - 3, 1, HTTP_TOO_LONG},
		{HTTP_FIELD_BYTES - 4, 1, HTTP_OK},	  {HTTP_FIELD_BYTES - 4, 2, HTTP_TOO_LONG},
		{HTTP_FIELD_BYTES, 0, HTTP_TOO_LONG},	  {1, HTTP_FIELD_BYTES - 4, HTTP_OK},
	};
	char line[HTTP_FIELD_BYTES + 1], text[4000];
	struct http_request request;

	(void)state;
	memset(line, 'a', sizeof(line));
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		snprintf(text, sizeof(text), "GET / HTTP/1.1\r\nHost: a\r\nAccept: %.*s\r\nAccept: %.*s\r\n\r\n",
			 (int)cases[i].first, line, (int)cases[i].second, line);
		if (parse(text, &request) != cases[i].got)
			fail_msg("case %zu", i);
		assert_string_equal(request.accept_encoding, "");
		if (cases[i].got == HTTP_OK)
			assert_int_equal(strlen(request.accept), cases[i].first + 2 + cases[i].second);
	}
	/* One alone; and a path, a host and a token. */
	snprintf(text, sizeof(text), "GET /%.*s HTTP/1.1\r\nHost: %.*s\r\nAuthorization: %.*s\r\n\r\n", HTTP_PATH_BYTES - 2,
		 line, HTTP_PATH_BYTES - 1, line, HTTP_FIELD_BYTES - 1, line);
	assert_int_equal(parse(text, &request), HTTP_OK);
	assert_int_equal(strlen(request.path), HTTP_PATH_BYTES - 1);
	assert_int_equal(strlen(request.host), HTTP_PATH_BYTES - 1);
	assert_int_equal(strlen(request.authorization), HTTP_FIELD_BYTES - 1);
	snprintf(text, sizeof(text), "GET / HTTP/1.1\r\nHost: %.*s\r\n\r\n", HTTP_PATH_BYTES, line);
	assert_int_equal(parse(text, &request), HTTP_TOO_LONG);
	snprintf(text, sizeof(text), "GET /%.*s HTTP/1.1\r\nHost: a\r\n\r\n", HTTP_PATH_BYTES - 1, line);
	assert_int_equal(parse(text, &request), HTTP_TOO_LONG);
	snprintf(text, sizeof(text), "GET / HTTP/1.1\r\nHost: a\r\nAuthorization: %.*s\r\n\r\n", HTTP_FIELD_BYTES, line);
	assert_int_equal(parse(text, &request), HTTP_TOO_LONG);
}

/* Of what the peer says about the connection one word counts. */
static void test_words_about_the_connection(void **state)
{
	static const struct {
		const char *value;
		bool keep_alive;
	} cases[] = {
		{"close", false}, {"CLOSE", false}, {"keep-alive", true}, {"closed", true}, {"clos", true},
		{"te,close", false}, {"close ,te", false}, {"te,\tclose\t", false}, {"te close", true}, {"", true}, {",,close", false},
	};
	struct http_request request;
	char text[200];

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		snprintf(text, sizeof(text), "GET / HTTP/1.1\r\nHost: a\r\nConnection: %s\r\n\r\n", cases[i].value);
		assert_int_equal(parse(text, &request), HTTP_OK);
		if (request.keep_alive != cases[i].keep_alive)
			fail_msg("%s", cases[i].value);
	}
}

/* Each kind of byte that may stand in a name, a path, a value and a host, and each that may not. */
static void test_every_byte(void **state)
{
	struct http_request request;
	char text[100];

	(void)state;
	for (unsigned c = 1; c < 256; c++) {
		bool control = c < ' ' || c == 0x7f;
		bool token = !control && c != ' ' && c < 0x7f && !strchr("\"(),/:;<=>?@[\\]{}", (int)c);
		bool host = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
			    (c < 0x80 && strchr("-._~!$&'()*+,;=%", (int)c));

		if (c == '\n' || c == '\r')
			continue;
		snprintf(text, sizeof(text), "GE%cT / HTTP/1.1\r\nHost: a\r\n\r\n", (int)c);
		assert_int_equal(parse(text, &request), token ? HTTP_OK : HTTP_BAD);
		snprintf(text, sizeof(text), "GET / HTTP/1.1\r\nHost: a\r\nX%cY: b\r\n\r\n", (int)c);
		assert_int_equal(parse(text, &request), token || c == ':' ? HTTP_OK : HTTP_BAD);
		snprintf(text, sizeof(text), "GET /%c HTTP/1.1\r\nHost: a\r\n\r\n", (int)c);
		assert_int_equal(parse(text, &request), control || c == ' ' ? HTTP_BAD : HTTP_OK);
		snprintf(text, sizeof(text), "GET / HTTP/1.1\r\nHost: a\r\nX: b%cd\r\n\r\n", (int)c);
		assert_int_equal(parse(text, &request), control && c != '\t' ? HTTP_BAD : HTTP_OK);
		snprintf(text, sizeof(text), "GET / HTTP/1.1\r\nHost: a%cb\r\n\r\n", (int)c);
		assert_int_equal(parse(text, &request), host ? HTTP_OK : HTTP_BAD);
	}
}

static void test_gzip_is_asked_for(void **state)
{
	(void)state;
	assert_true(http_gzip_is_asked_for("br, GZIP;q=0.5"));
	assert_true(http_gzip_is_asked_for("gzip ; q=1"));
	assert_false(http_gzip_is_asked_for("gzip;q=0"));
	assert_false(http_gzip_is_asked_for("br,gzip; q=0.000 , x"));
	assert_false(http_gzip_is_asked_for("gzipped"));
	assert_false(http_gzip_is_asked_for(""));
	assert_true(http_gzip_is_asked_for("gzip"));
	assert_true(http_gzip_is_asked_for(" ,\tgzip"));
	assert_true(http_gzip_is_asked_for("gzip;q=0.001"));
	assert_true(http_gzip_is_asked_for("gzip;q=0.1, br"));
	assert_true(http_gzip_is_asked_for("gzip, br;q=0"));
	assert_true(http_gzip_is_asked_for("gzip;x"));
	assert_false(http_gzip_is_asked_for("gzip;q=0, gzip"));
	assert_false(http_gzip_is_asked_for("xgzip"));
	assert_false(http_gzip_is_asked_for("gzi"));
	assert_false(http_gzip_is_asked_for("br gzip"));
}

static void test_what_a_head_says(void **state)
{
	struct http_request request;

	(void)state;
	parse("GET /a%20b?c=/d HTTP/1.1\r\nHOST:\t me \r\naccept: x\r\nAccept:y\r\n"
	      "authorization: Bearer z\r\nX-Long: 1 2 3\r\n\r\n", &request);
	assert_int_equal(request.method, HTTP_GET);
	assert_string_equal(request.path, "/a%20b");
	assert_string_equal(request.host, "me");
	assert_string_equal(request.accept, "x, y");
	assert_string_equal(request.accept_encoding, "");
	parse("GET / HTTP/1.1\r\nHost: a\r\nAccept-Encoding: br\r\nAccept-encoding: gzip\r\n\r\n", &request);
	assert_string_equal(request.accept_encoding, "br, gzip");
	assert_string_equal(request.accept, "");
	parse("GET / HTTP/1.1\r\nHost: me\r\nauthorization: Bearer z\r\n\r\n", &request);
	assert_string_equal(request.authorization, "Bearer z");
	assert_true(request.keep_alive);
	assert_false(request.has_body);
	parse("HEAD / HTTP/1.0\r\nContent-Length: 0\r\n\r\n", &request);
	assert_int_equal(request.method, HTTP_HEAD);
	assert_false(request.keep_alive);
	assert_false(request.has_body);
	parse("PUT / HTTP/1.1\r\nHost: a\r\nConnection: te , Close\r\nContent-Length: 10\r\n\r\n", &request);
	assert_int_equal(request.method, HTTP_OTHER);
	assert_false(request.keep_alive);
	assert_true(request.has_body);
}

/* Each once, as it is written; of an Origin, that there is one. */
static void test_for_which_page_a_browser_asks(void **state)
{
	static const struct {
		const char *fields;
		enum http_parse got;
		const char *site, *mode, *dest;
		bool has_origin;
	} cases[] = {
		{"X: y\r\n", HTTP_OK, "", "", "", false},
		{"Sec-Fetch-Site: cross-site\r\nsec-fetch-mode:\tnavigate \r\nSEC-FETCH-DEST:document\r\n", HTTP_OK,
		 "cross-site", "navigate", "document", false},
		{"Sec-Fetch-Dest: empty\r\nSec-Fetch-Mode: no-cors\r\nSec-Fetch-Site: none\r\n", HTTP_OK, "none", "no-cors", "empty",
		 false},
		{"Sec-Fetch-Sites: x\r\nSec-Fetch: x\r\nX-Sec-Fetch-Mode: x\r\nOrigins: x\r\n", HTTP_OK, "", "", "", false},
		{"Origin: null\r\n", HTTP_OK, "", "", "", true},
		{"origin:\r\n", HTTP_OK, "", "", "", true},
		{"Sec-Fetch-Site: none\r\nSec-Fetch-Site: cross-site\r\n", HTTP_BAD, NULL, NULL, NULL, false},
		{"Sec-Fetch-Mode: cors\r\nSec-Fetch-Mode: navigate\r\n", HTTP_BAD, NULL, NULL, NULL, false},
		{"Sec-Fetch-Dest: image\r\nSec-Fetch-Dest: document\r\n", HTTP_BAD, NULL, NULL, NULL, false},
		{"Sec-Fetch-Site: 1234567890123456789012345678901\r\n", HTTP_OK, "1234567890123456789012345678901", "", "", false},
		{"Sec-Fetch-Site: 12345678901234567890123456789012\r\n", HTTP_TOO_LONG, NULL, NULL, NULL, false},
		{"Sec-Fetch-Mode: 12345678901234567890123456789012\r\n", HTTP_TOO_LONG, NULL, NULL, NULL, false},
		{"Sec-Fetch-Dest: 12345678901234567890123456789012\r\n", HTTP_TOO_LONG, NULL, NULL, NULL, false},
	};
	struct http_request request;
	char text[300];

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		snprintf(text, sizeof(text), "GET / HTTP/1.1\r\nHost: a\r\n%s\r\n", cases[i].fields);
		if (parse(text, &request) != cases[i].got)
			fail_msg("%s", cases[i].fields);
		if (cases[i].got != HTTP_OK)
			continue;
		assert_string_equal(request.fetch_site, cases[i].site);
		assert_string_equal(request.fetch_mode, cases[i].mode);
		assert_string_equal(request.fetch_dest, cases[i].dest);
		assert_int_equal(request.has_origin, cases[i].has_origin);
	}
}

/* RFC 9112 3.2: HTTP/1.1 has one Host, which is a host. What the target names counts instead. */
static void test_http_without_host(void **state)
{
	static const struct {
		const char *head;
		enum http_parse got;
		const char *host, *path;
	} cases[] = {
		{"GET /a HTTP/1.1\r\n", HTTP_BAD, NULL, NULL},
		{"GET /a HTTP/1.2\r\n", HTTP_BAD, NULL, NULL},
		{"GET /a HTTP/1.0\r\n", HTTP_OK, "", "/a"},
		{"GET /a HTTP/1.1\r\nHost:\r\n", HTTP_OK, "", "/a"},
		{"GET /a HTTP/1.1\r\nHost: b:80\r\n", HTTP_OK, "b:80", "/a"},
		{"GET /a HTTP/1.1\r\nHost: [::1]:80\r\n", HTTP_OK, "[::1]:80", "/a"},
		{"GET /a HTTP/1.1\r\nHost: b\r\nHost: b\r\n", HTTP_BAD, NULL, NULL},
		{"GET /a HTTP/1.1\r\nHost:\r\nHost: b\r\n", HTTP_BAD, NULL, NULL},
		{"GET /a HTTP/1.1\r\nHost: b, c\r\n", HTTP_BAD, NULL, NULL},
		{"GET /a HTTP/1.1\r\nHost: b c\r\n", HTTP_BAD, NULL, NULL},
		{"GET /a HTTP/1.1\r\nHost: b/c\r\n", HTTP_BAD, NULL, NULL},
		{"GET /a HTTP/1.1\r\nHost: me@b\r\n", HTTP_BAD, NULL, NULL},
		{"GET /a HTTP/1.1\r\nHost: b:c\r\n", HTTP_BAD, NULL, NULL},
		{"GET /a HTTP/1.1\r\nHost: b:1:2\r\n", HTTP_BAD, NULL, NULL},
		{"GET /a HTTP/1.1\r\nHost: [::1\r\n", HTTP_BAD, NULL, NULL},
		{"GET /a HTTP/1.1\r\nHost: [::1]b\r\n", HTTP_BAD, NULL, NULL},
		{"GET /a HTTP/1.1\r\nHost: [:]\r\n", HTTP_BAD, NULL, NULL},
		{"GET /a HTTP/1.1\r\nHost: [::]\r\n", HTTP_OK, "[::]", "/a"},
		{"GET /a HTTP/1.1\r\nHost: [v1.a]\r\n", HTTP_OK, "[v1.a]", "/a"},
		{"GET /a HTTP/1.1\r\nHost: [::g]\r\n", HTTP_BAD, NULL, NULL},
		{"GET /a HTTP/1.1\r\nHost: [::1]:8x\r\n", HTTP_BAD, NULL, NULL},
		{"GET /a HTTP/1.1\r\nHost: [::1]:\r\n", HTTP_OK, "[::1]:", "/a"},
		{"GET /a HTTP/1.1\r\nHost: b:\r\n", HTTP_OK, "b:", "/a"},
		{"GET /a HTTP/1.1\r\nHost: b[::1]\r\n", HTTP_BAD, NULL, NULL},
		{"GET http: HTTP/1.0\r\n", HTTP_BAD, NULL, NULL},
		{"GET http:// HTTP/1.0\r\n", HTTP_BAD, NULL, NULL},
		{"GET https:// HTTP/1.0\r\n", HTTP_BAD, NULL, NULL},
		{"GET http://b HTTP/1.0\r\n", HTTP_OK, "b", "/"},
		{"GET https://b HTTP/1.0\r\n", HTTP_OK, "b", "/"},
		{"GET httpx://b HTTP/1.0\r\n", HTTP_BAD, NULL, NULL},
		{"GET ftp://abc/d HTTP/1.0\r\n", HTTP_BAD, NULL, NULL},
		{"GET b HTTP/1.0\r\n", HTTP_BAD, NULL, NULL},
		{"GET http://[::1/a HTTP/1.0\r\n", HTTP_BAD, NULL, NULL},
		{"GET http://b:80/a?c HTTP/1.1\r\nHost: d\r\n", HTTP_OK, "b:80", "/a"},
		{"GET HTTPS://b HTTP/1.1\r\nHost: d\r\n", HTTP_OK, "b", "/"},
		{"GET http://b?c HTTP/1.1\r\nHost: d\r\n", HTTP_OK, "b", "/"},
		{"GET http://b/a HTTP/1.1\r\n", HTTP_BAD, NULL, NULL},
		{"GET http://b/a HTTP/1.0\r\n", HTTP_OK, "b", "/a"},
		{"GET http:///a HTTP/1.1\r\nHost: d\r\n", HTTP_BAD, NULL, NULL},
		{"GET http://me@b/a HTTP/1.1\r\nHost: d\r\n", HTTP_BAD, NULL, NULL},
		{"\r\nGET /a HTTP/1.1\r\nHost: b\r\n", HTTP_OK, "b", "/a"},
		{"\r\n\r\nGET /a HTTP/1.1\r\nHost: b\r\n", HTTP_BAD, NULL, NULL},
	};
	struct http_request request;
	char text[200];

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		snprintf(text, sizeof(text), "%s\r\n", cases[i].head);
		if (parse(text, &request) != cases[i].got)
			fail_msg("%s", cases[i].head);
		if (cases[i].got != HTTP_OK)
			continue;
		assert_string_equal(request.host, cases[i].host);
		assert_string_equal(request.path, cases[i].path);
	}
}

/* RFC 9112 6: what two servers could read as two different requests is none. */
static void test_smuggled(void **state)
{
	static const struct {
		const char *fields;
		enum http_parse got;
		bool has_body;
	} cases[] = {
		{"Content-Length: 0\r\n", HTTP_OK, false},
		{"Content-Length: 000\r\n", HTTP_OK, false},
		{"Content-Length: 10\r\n", HTTP_OK, true},
		{"Content-Length: 99999999999999999999999\r\n", HTTP_OK, true},
		{"Content-Length:\r\n", HTTP_BAD, false},
		{"Content-Length: +1\r\n", HTTP_BAD, false},
		{"Content-Length: 0x1\r\n", HTTP_BAD, false},
		{"Content-Length: 1, 1\r\n", HTTP_BAD, false},
		{"Content-Length: 1\r\nContent-Length: 1\r\n", HTTP_BAD, false},
		{"Content-Length: 0\r\nContent-Length: 1\r\n", HTTP_BAD, false},
		{"Content-Length : 1\r\n", HTTP_BAD, false},
		{"Content-Length: 1\r\n 2\r\n", HTTP_BAD, false},
		{"Transfer-Encoding: chunked\r\n", HTTP_OK, true},
		{"Transfer-Encoding: Chunked\r\n", HTTP_OK, true},
		{"Transfer-Encoding: gzip, chunked\r\n", HTTP_CODING, true},
		{"Transfer-Encoding: xchunked\r\n", HTTP_CODING, true},
		{"Transfer-Encoding:\r\n", HTTP_CODING, true},
		{"Transfer-Encoding: chunked\r\nTransfer-Encoding: x\r\n", HTTP_BAD, false},
		{"Transfer-Encoding: chunked\r\nContent-Length: 0\r\n", HTTP_BAD, false},
		{"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n", HTTP_BAD, false},
		{"Content-Length: 3\r\nTransfer-Encoding: x\r\n", HTTP_BAD, false},
		{"X: a\rTransfer-Encoding: chunked\r\n", HTTP_BAD, false},
		{"X: a\n\r\n", HTTP_BAD, false},
	};
	struct http_request request;
	char text[200];

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		snprintf(text, sizeof(text), "GET / HTTP/1.1\r\nHost: a\r\n%s\r\n", cases[i].fields);
		if (parse(text, &request) != cases[i].got)
			fail_msg("%s", cases[i].fields);
		if (cases[i].got != HTTP_BAD)
			assert_int_equal(request.has_body, cases[i].has_body);
	}
	assert_int_equal(parse("GET / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", &request),
			 HTTP_BAD);
}

/* ---- Connections ----------------------------------------------------------------------------- */

static unsigned count(const char *text, const char *part)
{
	unsigned n = 0;

	while ((text = strstr(text, part))) {
		n++;
		text += strlen(part);
	}
	return n;
}

static void test_one_after_another(void **state)
{
	struct bench *bench = *state;
	int fd = bench_connect(bench);
	const char *text;
	bool open;

	for (const char *c = "GET /slow HTTP/1.1\r\nHost: a\r\n\r\n"; *c; c++)
		say(bench, fd, (char[]){*c, '\0'});
	text = hear(fd, &open);
	assert_non_null(strstr(text, "HTTP/1.1 200 OK\r\n"));
	assert_non_null(strstr(text, "Content-Length: 7\r\n"));
	assert_non_null(strstr(text, "\r\n\r\n</slow>"));
	assert_true(open);
	say(bench, fd, "GET /a HTTP/1.1\r\nHost: a\r\n\r\nHEAD /b HTTP/1.1\r\nHost: a\r\n\r\nGET /c HTTP/1.1\r\nHost: a\r\n"
		       "Connection: close\r\n\r\nGET /d HTTP/1.1\r\nHost: a\r\n\r\n");
	text = hear(fd, &open);
	assert_int_equal(count(text, "HTTP/1.1 200 OK\r\n"), 3);
	assert_non_null(strstr(text, "</a>"));
	assert_null(strstr(text, "</b>"));
	assert_non_null(strstr(text, "</c>"));
	assert_null(strstr(text, "</d>"));
	assert_int_equal(count(text, "Connection: close"), 1);
	assert_false(open);
	assert_int_equal(bench->handled, 4);
	close(fd);
	bench_run(bench);
}

static void test_refusals(void **state)
{
	struct bench *bench = *state;
	char head[HTTP_HEAD_BYTES_MAX + 100];
	uint64_t requests;
	bool open;
	int fd;

	fd = bench_connect(bench);
	requests = counter_read(COUNTER_http_requests);
	say(bench, fd, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabcd");
	assert_string_equal(hear(fd, &open),
			    "HTTP/1.1 405 Method Not Allowed\r\nContent-Type: text/plain; charset=utf-8\r\n"
			    "Content-Length: 23\r\nConnection: close\r\nAllow: GET, HEAD\r\n"
			    "X-Content-Type-Options: nosniff\r\nReferrer-Policy: no-referrer\r\n"
			    "Cross-Origin-Resource-Policy: same-origin\r\n"
			    "Cross-Origin-Opener-Policy: same-origin\r\nCache-Control: no-store\r\n\r\n"
			    "405 Method Not Allowed\n");
	assert_false(open);
	assert_int_equal(counter_read(COUNTER_http_requests) - requests, 1);
	close(fd);
	fd = bench_connect(bench);
	say(bench, fd, "GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\n");
	assert_non_null(strstr(hear(fd, &open), "HTTP/1.1 501 Not Implemented\r\n"));
	assert_false(open);
	close(fd);
	fd = bench_connect(bench);
	say(bench, fd, "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc");
	assert_non_null(strstr(hear(fd, &open), "HTTP/1.1 413 "));
	assert_false(open);
	close(fd);
	fd = bench_connect(bench);
	snprintf(head, sizeof(head), "GET / HTTP/1.1\r\nHost: a\r\nX: %0*d", (int)HTTP_HEAD_BYTES_MAX, 0);
	say(bench, fd, head);
	assert_non_null(strstr(hear(fd, &open), "HTTP/1.1 431 "));
	assert_false(open);
	close(fd);
	assert_int_equal(bench->handled, 0);
	bench_run(bench);
}

static bool is_open(int fd)
{
	bool open;

	hear(fd, &open);
	return open;
}

/* Of those that have sent no whole request the oldest goes, be it silent or in the middle of one. */
static void test_too_many_strangers(void **state)
{
	struct bench *bench = *state;
	uint64_t refused = counter_read(COUNTER_http_refused);
	int fd[3 * HTTP_STRANGERS_MAX], known = bench_connect(bench);
	bool open;

	say(bench, known, "GET /a HTTP/1.1\r\nHost: a\r\n\r\n");
	assert_non_null(strstr(hear(known, &open), "</a>"));
	for (int i = 0; i < 3 * HTTP_STRANGERS_MAX; i++) {
		fd[i] = bench_connect(bench);
		if (i % 3)
			say(bench, fd[i], i % 3 == 1 ? "G" : "GET / HTTP/1.1\r\nHost: a\r\nX:");
		if (i < HTTP_STRANGERS_MAX)
			continue;
		bench_run(bench);
		assert_false(is_open(fd[i - HTTP_STRANGERS_MAX]));
		assert_true(is_open(fd[i - HTTP_STRANGERS_MAX + 1]));
	}
	assert_int_equal(counter_read(COUNTER_http_refused), refused + 2 * HTTP_STRANGERS_MAX);
	/* Who has been answered keeps its place, and who comes now is answered. */
	say(bench, known, "GET /b HTTP/1.1\r\nHost: a\r\n\r\n");
	assert_non_null(strstr(hear(known, &open), "</b>"));
	fd[0] = bench_connect(bench);
	say(bench, fd[0], "GET /new HTTP/1.1\r\nHost: a\r\n\r\n");
	assert_non_null(strstr(hear(fd[0], &open), "</new>"));
	close(known);
	for (int i = 0; i < 3 * HTTP_STRANGERS_MAX; i++)
		close(fd[i]);
	bench_run(bench);
}

/* Whoever is not let in stays a stranger, though it was answered. */
static void test_not_let_in(void **state)
{
	struct bench *bench = *state;
	int denied, fd[HTTP_STRANGERS_MAX];
	bool open;

	bench->status = 401;
	denied = bench_connect(bench);
	say(bench, denied, "GET /a HTTP/1.1\r\nHost: a\r\n\r\n");
	assert_non_null(strstr(hear(denied, &open), "HTTP/1.1 401 "));
	assert_true(open);
	for (int i = 0; i < HTTP_STRANGERS_MAX; i++) {
		assert_true(is_open(denied));
		fd[i] = bench_connect(bench);
		bench_run(bench);
	}
	assert_false(is_open(denied));
	close(denied);
	for (int i = 0; i < HTTP_STRANGERS_MAX; i++)
		close(fd[i]);
	bench_run(bench);
}

/* Nor does one take a place of those let in that was answered without being asked who it is. */
static void test_healthz_takes_no_place(void **state)
{
	struct bench *bench = *state;
	int asks, known = bench_connect(bench), fd[HTTP_STRANGERS_MAX];
	bool open;

	say(bench, known, "GET /a HTTP/1.1\r\nHost: a\r\n\r\n");
	assert_non_null(strstr(hear(known, &open), "</a>"));
	for (int i = 0; i < 2 * HTTP_CONNECTIONS_MAX; i++) {
		asks = bench_connect(bench);
		say(bench, asks, "GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n");
		assert_non_null(strstr(hear(asks, &open), "</healthz>"));
		assert_true(open);
		for (int j = 0; i == 0 && j < HTTP_STRANGERS_MAX; j++) {
			fd[j] = bench_connect(bench);
			bench_run(bench);
		}
		assert_int_equal(is_open(asks), i > 0);
		close(asks);
		bench_run(bench);
	}
	for (int i = 0; i < HTTP_STRANGERS_MAX; i++)
		close(fd[i]);
	assert_true(is_open(known));
	close(known);
	bench_run(bench);
}

/* Of those that have been answered, those between two requests make room; one at work is left alone. */
static void test_too_many_known(void **state)
{
	struct bench *bench = *state;
	int fd[HTTP_CONNECTIONS_MAX + 2];
	bool open;

	for (int i = 0; i < HTTP_CONNECTIONS_MAX; i++) {
		fd[i] = bench_connect(bench);
		say(bench, fd[i], i ? "GET /a HTTP/1.1\r\nHost: a\r\n\r\nGET /b HT" : "GET /a HTTP/1.1\r\nHost: a\r\n\r\n");
		assert_non_null(strstr(hear(fd[i], &open), "</a>"));
	}
	for (int i = 0; i < 2; i++) {
		fd[HTTP_CONNECTIONS_MAX + i] = bench_connect(bench);
		say(bench, fd[HTTP_CONNECTIONS_MAX + i], "GET /new HTTP/1.1\r\nHost: a\r\n\r\n");
		assert_non_null(strstr(hear(fd[HTTP_CONNECTIONS_MAX + i], &open), "</new>"));
	}
	assert_false(is_open(fd[0]));
	say(bench, fd[1], "TP/1.1\r\nHost: a\r\n\r\n");
	assert_non_null(strstr(hear(fd[1], &open), "</b>"));
	/* The last one found no room among them. */
	assert_true(is_open(fd[HTTP_CONNECTIONS_MAX + 1]));
	for (int i = 0; i < HTTP_CONNECTIONS_MAX + 2; i++)
		close(fd[i]);
	bench_run(bench);
}

static void test_gone_in_the_middle(void **state)
{
	struct bench *bench = *state;
	int fd = bench_connect(bench);

	say(bench, fd, "GET / HTTP/1.1\r\nHost: a\r\nX:");
	close(fd);
	bench_run(bench);
	fd = bench_connect(bench);
	assert_true(write(fd, "GET / HTTP/1.1\r\nHost: a\r\n\r\n", 27) == 27);
	close(fd);
	bench_run(bench);
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static void test_strings(void **state)
{
	static const struct {
		const char *bytes, *json;
	} cases[] = {
		{"", "\"\""},
		{"plain", "\"plain\""},
		{"a\"b\\c</script>", "\"a\\\"b\\\\c</script>\""},
		{"\n\x01\x7f", "\"\\u000a\\u0001\\u007f\""},
		{"\xc3\xa9\xe2\x82\xac\xf0\x9f\xa6\x9d", "\"\xc3\xa9\xe2\x82\xac\xf0\x9f\xa6\x9d\""},
		{"\x80", "\"\xef\xbf\xbd\""},
		{"\xc0\xaf", "\"\xef\xbf\xbd\xef\xbf\xbd\""},
		{"\xe2\x82", "\"\xef\xbf\xbd\xef\xbf\xbd\""},
		{"\xed\xa0\x80", "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\""},
		{"\xf4\x90\x80\x80", "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\""},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char text[100] = "";
		FILE *out = fmemopen(text, sizeof(text), "w");

		http_live_string(cases[i].bytes, strlen(cases[i].bytes), out);
		fclose(out);
		assert_string_equal(text, cases[i].json);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_heads),
		cmocka_unit_test(test_fields_that_just_fit),
		cmocka_unit_test(test_words_about_the_connection),
		cmocka_unit_test(test_every_byte),
		cmocka_unit_test(test_gzip_is_asked_for),
		cmocka_unit_test(test_what_a_head_says),
		cmocka_unit_test(test_for_which_page_a_browser_asks),
		cmocka_unit_test(test_http_without_host),
		cmocka_unit_test(test_smuggled),
		cmocka_unit_test_setup_teardown(test_one_after_another, bench_setup, bench_teardown),
		cmocka_unit_test_setup_teardown(test_refusals, bench_setup, bench_teardown),
		cmocka_unit_test_setup_teardown(test_too_many_strangers, bench_setup,
						bench_teardown),
		cmocka_unit_test_setup_teardown(test_not_let_in, bench_setup, bench_teardown),
		cmocka_unit_test_setup_teardown(test_healthz_takes_no_place, bench_setup,
						bench_teardown),
		cmocka_unit_test_setup_teardown(test_too_many_known, bench_setup, bench_teardown),
		cmocka_unit_test_setup_teardown(test_gone_in_the_middle, bench_setup,
						bench_teardown),
		cmocka_unit_test(test_strings),
	};

	signal(SIGPIPE, SIG_IGN);	/* as the daemon has it */
	return cmocka_run_group_tests(tests, NULL, NULL);
}
