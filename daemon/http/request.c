/*
 * http_request: see http_request.h. RFC 9112, strictly: lines end in CRLF, fields are not folded, a
 * name is followed by its colon at once. A request that two servers could read in two ways is refused.
 */
#include "daemon/http/request.h"

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

static enum http_parse parse_line(struct text line, struct http_request *request)
{
	struct text method, target, path;

	if (!cut(&line, ' ', &method) || !is_token(method) || !cut(&line, ' ', &target) ||
	    !is_text(target, false) || !target.bytes)
		return HTTP_BAD;
	if (line.bytes != strlen("HTTP/1.1") || memcmp(line.at, "HTTP/", 5) != 0)
		return HTTP_BAD;
	if (memcmp(line.at, "HTTP/1.1", 8) == 0)
		request->keep_alive = true;
	else if (memcmp(line.at, "HTTP/1.0", 8) != 0)
		return HTTP_VERSION;
	request->method = HTTP_OTHER;
	if (method.bytes == 3 && memcmp(method.at, "GET", 3) == 0)
		request->method = HTTP_GET;
	else if (method.bytes == 4 && memcmp(method.at, "HEAD", 4) == 0)
		request->method = HTTP_HEAD;
	if (*target.at != '/')
		return request->method == HTTP_OTHER ? HTTP_OK : HTTP_BAD;
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
	if (text_is(name, "authorization"))
		return once(line, request->authorization, sizeof(request->authorization));
	if (text_is(name, "host"))
		return once(line, request->host, sizeof(request->host));
	if (text_is(name, "connection")) {
		if (has_word(line, "close"))
			request->keep_alive = false;
	} else if (text_is(name, "transfer-encoding")) {
		request->has_body = true;
	} else if (text_is(name, "content-length")) {
		request->has_body |= !text_is(line, "0");
	}
	return HTTP_OK;
}

enum http_parse http_request_parse(const char *bytes, size_t n, struct http_request *request,
				   size_t *used)
{
	struct text rest = {bytes, n}, line;
	enum http_parse got;

	memset(request, 0, sizeof(*request));
	if (!memmem(bytes, n, "\r\n\r\n", 4)) {
		/* Nothing that is bad already is waited for. */
		return memchr(bytes, '\0', n) ? HTTP_BAD : HTTP_MORE;
	}
	got = next_line(&rest, &line) ? parse_line(line, request) : HTTP_BAD;
	while (got == HTTP_OK) {
		if (!next_line(&rest, &line))
			return HTTP_BAD;
		if (!line.bytes) {
			*used = n - rest.bytes;
			return HTTP_OK;
		}
		got = parse_field(line, request);
	}
	return got;
}
