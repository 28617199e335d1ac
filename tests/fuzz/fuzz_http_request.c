/*
 * fuzz_http_request: any bytes as the head of a request. What is taken for one ends where it says, and
 * what it holds is text; a head that is whole is the same whatever follows it.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/http/request.h"
#include "daemon/metrics/format.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

static void check_text(const char *text, size_t bytes_max)
{
	if (strlen(text) >= bytes_max || strpbrk(text, "\r\n"))
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
	struct http_request request, again;
	size_t used, used_again;

	if (http_request_parse((const char *)bytes, n, &request, &used) != HTTP_OK)
		return 0;
	if (used < 4 || used > n || memcmp(bytes + used - 4, "\r\n\r\n", 4) != 0)
		abort();
	check_text(request.path, sizeof(request.path));
	check_text(request.accept, sizeof(request.accept));
	check_text(request.accept_encoding, sizeof(request.accept_encoding));
	http_gzip_is_asked_for(request.accept_encoding);
	check_text(request.authorization, sizeof(request.authorization));
	check_text(request.host, sizeof(request.host));
	check_text(request.fetch_site, sizeof(request.fetch_site));
	check_text(request.fetch_mode, sizeof(request.fetch_mode));
	check_text(request.fetch_dest, sizeof(request.fetch_dest));
	if (request.method != HTTP_OTHER && *request.path != '/')
		abort();
	if (http_request_parse((const char *)bytes, used, &again, &used_again) != HTTP_OK ||
	    used_again != used || memcmp(&request, &again, sizeof(request)) != 0)
		abort();
	metric_format_negotiate(request.accept);
	return 0;
}
