/*
 * RFC 9112, strictly: lines end in CRLF, fields are not folded, a
 * name is followed by its colon at once, HTTP/1.1 has one Host. A request that two servers could read in
 * two ways is refused: with a length and a transfer coding, or with two lengths.
 */
#include "daemon/http/request.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

struct text {
	const char *at;
	size_t bytes;
};

static bool is_token(struct text text)
{
	for (size_t i = 0; i < text.bytes; i++) {
		unsigned char c = (unsigned char)text.at[i];

		if (c <= ' ' || c >= 0x7f || strchr("\"(),/:;<=>?@[\\]{}", c))
			return false;
	}
	return text.bytes > 0;
}

static bool is_text(struct text text, bool spaces)
{
	for (size_t i = 0; i < text.bytes; i++) {
		unsigned char c = (unsigned char)text.at[i];

		if (c == 0x7f || (c < ' ' && !(spaces && c == '\t')) || (c == ' ' && !spaces))
			return false;
	}
	return true;
}

/* The next line without its CRLF; false: there is none, or its end is not one. */
static bool next_line(struct text *rest, struct text *line)
{
	const char *end = memchr(rest->at, '\n', rest->bytes);

	if (!end || end == rest->at || end[-1] != '\r')
		return false;
	*line = (struct text){rest->at, (size_t)(end - 1 - rest->at)};
	rest->bytes -= (size_t)(end + 1 - rest->at);
	rest->at = end + 1;
	return true;
}

/* Up to the separator, which is passed; false: it is not there. */
static bool cut(struct text *rest, char separator, struct text *part)
{
	const char *end = memchr(rest->at, separator, rest->bytes);

	if (!end)
		return false;
	*part = (struct text){rest->at, (size_t)(end - rest->at)};
	rest->bytes -= part->bytes + 1;
	rest->at = end + 1;
	return true;
}

static bool text_is(struct text text, const char *name)
{
	return text.bytes == strlen(name) && strncasecmp(text.at, name, text.bytes) == 0;
}

static enum http_parse copy(struct text text, char *to, size_t bytes)
{
	if (text.bytes >= bytes)
		return HTTP_TOO_LONG;
	memcpy(to, text.at, text.bytes);
	to[text.bytes] = '\0';
	return HTTP_OK;
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* uri-host [ ":" port ], RFC 3986: a name, an IPv4 address, or an IPv6 address in brackets. */
static bool is_host(struct text host)
{
	size_t name = 0;

	if (host.bytes && *host.at == '[') {
		while (name < host.bytes && host.at[name] != ']')
			name++;
		if (name < 3 || name++ == host.bytes ||
		    (name < host.bytes && host.at[name] != ':'))
			return false;
	}
	for (size_t i = 0; i < host.bytes; i++) {
		unsigned char c = (unsigned char)host.at[i];

		if (i < name ? !isxdigit(c) && !strchr("[:.]", c) && c != 'v'
			     : !isalnum(c) && !strchr("-._~!$&'()*+,;=%:", c))
			return false;
	}
	for (const char *colon = memchr(host.at + name, ':', host.bytes - name), *c = colon;
	     colon && ++c < host.at + host.bytes;)
		if (!is_digit(*c))
			return false;
	return true;
}

/* http://host/path: what stands there counts, and not Host. The path is left. */
static enum http_parse parse_authority(struct text *target, struct http_request *request)
{
	size_t scheme = target->bytes > 8 && strncasecmp(target->at, "https://", 8) == 0 ? 8 : 7;
	struct text host;

	if (target->bytes <= scheme || (scheme == 7 && strncasecmp(target->at, "http://", 7) != 0))
		return HTTP_BAD;
	host = (struct text){target->at + scheme, 0};
	while (host.bytes < target->bytes - scheme && !strchr("/?", host.at[host.bytes]))
		host.bytes++;
	*target = (struct text){host.at + host.bytes, target->bytes - scheme - host.bytes};
	/* An empty path is that of the root. */
	if (!target->bytes || *target->at != '/')
		*target = (struct text){"/", 1};
	if (!host.bytes || !is_host(host))
		return HTTP_BAD;
	return copy(host, request->host, sizeof(request->host));
}

static enum http_parse parse_line(struct text line, struct http_request *request)
{
	struct text method, target, path;

	if (!cut(&line, ' ', &method) || !is_token(method) || !cut(&line, ' ', &target) ||
	    !is_text(target, false) || !target.bytes)
		return HTTP_BAD;
	if (line.bytes != strlen("HTTP/1.1") || memcmp(line.at, "HTTP/", 5) != 0 ||
	    !is_digit(line.at[5]) || line.at[6] != '.' || !is_digit(line.at[7]))
		return HTTP_BAD;
	if (line.at[5] != '1')
		return HTTP_VERSION;
	/* A later 1.x means at least what 1.1 does. */
	request->keep_alive = line.at[7] != '0';
	request->method = HTTP_OTHER;
	if (method.bytes == 3 && memcmp(method.at, "GET", 3) == 0)
		request->method = HTTP_GET;
	else if (method.bytes == 4 && memcmp(method.at, "HEAD", 4) == 0)
		request->method = HTTP_HEAD;
	if (*target.at != '/' && request->method == HTTP_OTHER)
		return HTTP_OK;
	if (*target.at != '/') {
		enum http_parse got = parse_authority(&target, request);

		if (got != HTTP_OK)
			return got;
	}
	return cut(&target, '?', &path) ? copy(path, request->path, sizeof(request->path))
					: copy(target, request->path, sizeof(request->path));
}

/* Several fields of one name are one list. */
static enum http_parse append(struct text value, char *to, size_t bytes)
{
	size_t have = strlen(to);

	if (have) {
		if (have + 2 >= bytes)
			return HTTP_TOO_LONG;
		strcpy(to + have, ", ");
		have += 2;
	}
	return copy(value, to + have, bytes - have);
}

/* What comes once, or is an error. */
static enum http_parse once(struct text value, char *to, size_t bytes)
{
	return *to ? HTTP_BAD : copy(value, to, bytes);
}

static bool has_word(struct text list, const char *word)
{
	struct text part;

	while (list.bytes) {
		if (!cut(&list, ',', &part)) {
			part = list;
			list.bytes = 0;
		}
		while (part.bytes && (*part.at == ' ' || *part.at == '\t'))
			part.at++, part.bytes--;
		while (part.bytes && strchr(" \t", part.at[part.bytes - 1]))
			part.bytes--;
		if (text_is(part, word))
			return true;
	}
	return false;
}

/* One of them, be it empty; where the target has named a host, that counts. */
static enum http_parse parse_host(struct text value, struct http_request *request)
{
	if (request->has_host || !is_host(value))
		return HTTP_BAD;
	request->has_host = true;
	return *request->host ? HTTP_OK : copy(value, request->host, sizeof(request->host));
}

static enum http_parse parse_length(struct text value, struct http_request *request)
{
	if (request->has_length || !value.bytes)
		return HTTP_BAD;
	request->has_length = true;
	for (size_t i = 0; i < value.bytes; i++) {
		if (!is_digit(value.at[i]))
			return HTTP_BAD;
		request->has_body |= value.at[i] != '0';
	}
	return HTTP_OK;
}

static enum http_parse parse_coding(struct text value, struct http_request *request)
{
	if (request->has_coding)
		return HTTP_BAD;
	request->has_coding = request->has_body = true;
	return text_is(value, "chunked") ? HTTP_OK : HTTP_CODING;
}

/* All of the head together. */
static enum http_parse judge(const struct http_request *request, bool is_old)
{
	if (request->has_coding && (request->has_length || is_old))
		return HTTP_BAD;
	return request->has_host || is_old ? HTTP_OK : HTTP_BAD;
}

static enum http_parse parse_field(struct text line, struct http_request *request)
{
	struct text name;

	if (!cut(&line, ':', &name) || !is_token(name) || !is_text(line, true))
		return HTTP_BAD;
	while (line.bytes && (*line.at == ' ' || *line.at == '\t'))
		line.at++, line.bytes--;
	while (line.bytes && strchr(" \t", line.at[line.bytes - 1]))
		line.bytes--;
	if (text_is(name, "accept"))
		return append(line, request->accept, sizeof(request->accept));
	if (text_is(name, "accept-encoding"))
		return append(line, request->accept_encoding, sizeof(request->accept_encoding));
	if (text_is(name, "authorization"))
		return once(line, request->authorization, sizeof(request->authorization));
	if (text_is(name, "host"))
		return parse_host(line, request);
	if (text_is(name, "sec-fetch-site"))
		return once(line, request->fetch_site, sizeof(request->fetch_site));
	if (text_is(name, "sec-fetch-mode"))
		return once(line, request->fetch_mode, sizeof(request->fetch_mode));
	if (text_is(name, "sec-fetch-dest"))
		return once(line, request->fetch_dest, sizeof(request->fetch_dest));
	if (text_is(name, "connection")) {
		if (has_word(line, "close"))
			request->keep_alive = false;
	} else if (text_is(name, "transfer-encoding")) {
		return parse_coding(line, request);
	} else if (text_is(name, "content-length")) {
		return parse_length(line, request);
	} else if (text_is(name, "origin")) {
		request->has_origin = true;
	}
	return HTTP_OK;
}

enum http_parse http_request_parse(const char *bytes, size_t n, struct http_request *request,
				   size_t *used)
{
	struct text rest = {bytes, n}, line;
	enum http_parse got;
	bool is_old;

	memset(request, 0, sizeof(*request));
	if (!memmem(bytes, n, "\r\n\r\n", 4)) {
		/* Nothing that is bad already is waited for. */
		return memchr(bytes, '\0', n) ? HTTP_BAD : HTTP_MORE;
	}
	/* An empty line may be left from what came before. */
	if (memcmp(rest.at, "\r\n", 2) == 0 && !next_line(&rest, &line))
		return HTTP_BAD;
	got = next_line(&rest, &line) ? parse_line(line, request) : HTTP_BAD;
	is_old = !request->keep_alive;
	while (got == HTTP_OK || got == HTTP_CODING) {
		enum http_parse field;

		if (!next_line(&rest, &line))
			return HTTP_BAD;
		if (!line.bytes) {
			*used = n - rest.bytes;
			return judge(request, is_old) == HTTP_OK ? got : HTTP_BAD;
		}
		field = parse_field(line, request);
		got = field == HTTP_OK ? got : field;
	}
	return got;
}

/* ";q=0", ";q=0.000": not at any price. */
static bool is_refused(const char *parameters, size_t bytes)
{
	const char *q = memchr(parameters, '=', bytes);
	const char *end = parameters + bytes;

	if (!q)
		return false;
	for (q++; q < end && strchr("0. \t", *q); q++)
		;
	return q == end;
}

bool http_gzip_is_asked_for(const char *accept_encoding)
{
	const char *at = accept_encoding;

	while (*at) {
		size_t bytes, name;

		at += strspn(at, " \t,");
		bytes = strcspn(at, ",");
		name = strcspn(at, " \t;,");
		if (name == 4 && strncasecmp(at, "gzip", 4) == 0)
			return !is_refused(at + name, bytes - name);
		at += bytes;
	}
	return false;
}
