#include "daemon/export/http.h"

#include <curl/curl.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/clock.h"
#include "daemon/base/limits.h"

struct export_http {
	struct event_base *base;
	const char *ca_file;
	CURLM *multi;
	struct event *timer;
};

struct export_call {
	struct export_http *http;
	struct export_post post;
	CURL *easy;
	struct curl_slist *headers;
	char error[CURL_ERROR_SIZE];
	uint8_t answer[EXPORT_ANSWER_BYTES_MAX];
	size_t answer_bytes;
};

static void call_destroy(struct export_call *call)
{
	if (call->easy)
		curl_easy_cleanup(call->easy);
	curl_slist_free_all(call->headers);
	free(call);
}

/* ---- Done ------------------------------------------------------------------------------------ */

/* The two sides do not agree on whom to trust, or whether there is TLS: time alone mends nothing. */
static bool is_about_tls(CURLcode result)
{
	switch (result) {
	case CURLE_PEER_FAILED_VERIFICATION:
	case CURLE_SSL_CONNECT_ERROR:
	case CURLE_SSL_CERTPROBLEM:
	case CURLE_SSL_CACERT_BADFILE:
	case CURLE_SSL_CIPHER:
	case CURLE_SSL_ISSUER_ERROR:
	case CURLE_SSL_INVALIDCERTSTATUS:
	case CURLE_SSL_CLIENTCERT:
		return true;
	default:
		return false;
	}
}

static void finish(struct export_call *call, CURLcode result)
{
	struct export_answer answer = {.body = call->answer, .bytes = call->answer_bytes};
	curl_off_t sent = 0, retry_after = 0;

	curl_easy_getinfo(call->easy, CURLINFO_RESPONSE_CODE, &answer.status);
	curl_easy_getinfo(call->easy, CURLINFO_SIZE_UPLOAD_T, &sent);
	/* In seconds, whichever of its two forms the header had. */
	curl_easy_getinfo(call->easy, CURLINFO_RETRY_AFTER, &retry_after);
	answer.sent = (size_t)sent == call->post.bytes;
	/* Whoever asks for more than can be counted gets the longest there is: see export_retry_ns(). */
	if (retry_after > 0)
		answer.retry_after_ns = (uint64_t)retry_after < UINT64_MAX / NS_PER_S ?
						(uint64_t)retry_after * NS_PER_S : UINT64_MAX;
	if (result != CURLE_OK)
		answer.error = call->error[0] ? call->error : curl_easy_strerror(result);
	answer.mistrusted = is_about_tls(result);
	/* 1xx promises an answer, and is none. */
	if (answer.status < 200)
		answer.status = 0;
	curl_multi_remove_handle(call->http->multi, call->easy);
	call->post.done(call->post.context, &answer);
	call_destroy(call);
}

static void check_done(struct export_http *http)
{
	CURLMsg *message;
	int left;

	while ((message = curl_multi_info_read(http->multi, &left)) != NULL) {
		struct export_call *call;

		if (message->msg != CURLMSG_DONE)
			continue;
		curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &call);
		finish(call, message->data.result);
	}
}

/* ---- libevent drives it ---------------------------------------------------------------------- */

static void on_socket(evutil_socket_t fd, short what, void *context)
{
	struct export_http *http = context;
	int running, flags = (what & EV_READ ? CURL_CSELECT_IN : 0) |
			     (what & EV_WRITE ? CURL_CSELECT_OUT : 0);

	curl_multi_socket_action(http->multi, fd, flags, &running);
	check_done(http);
}

static void on_timer(evutil_socket_t fd, short what, void *context)
{
	struct export_http *http = context;
	int running;

	(void)fd, (void)what;
	curl_multi_socket_action(http->multi, CURL_SOCKET_TIMEOUT, 0, &running);
	check_done(http);
}

static int set_socket(CURL *easy, curl_socket_t fd, int what, void *context, void *socket)
{
	struct export_http *http = context;
	struct event *event = socket;
	short wanted = (short)((what & CURL_POLL_IN ? EV_READ : 0) |
			       (what & CURL_POLL_OUT ? EV_WRITE : 0));

	(void)easy;
	if (event)
		event_free(event);
	event = NULL;
	if (what != CURL_POLL_REMOVE) {
		event = event_new(http->base, fd, wanted | EV_PERSIST, on_socket, http);
		if (!event)
			return -1;	/* the request fails, and is tried again */
		event_add(event, NULL);
	}
	curl_multi_assign(http->multi, fd, event);
	return 0;
}

static int set_timer(CURLM *multi, long ms, void *context)
{
	struct export_http *http = context;
	struct timeval after = {.tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000};

	(void)multi;
	if (ms < 0)
		event_del(http->timer);
	else
		event_add(http->timer, &after);
	return 0;
}

struct export_http *export_http_create(struct event_base *base, const char *ca_file)
{
	struct export_http *http = calloc(1, sizeof(*http));

	if (!http || curl_global_init(CURL_GLOBAL_DEFAULT) != 0) {
		free(http);
		return NULL;
	}
	http->base = base;
	http->ca_file = ca_file;
	http->timer = event_new(base, -1, 0, on_timer, http);
	http->multi = curl_multi_init();
	if (!http->timer || !http->multi) {
		export_http_destroy(http);
		return NULL;
	}
	curl_multi_setopt(http->multi, CURLMOPT_SOCKETFUNCTION, set_socket);
	curl_multi_setopt(http->multi, CURLMOPT_SOCKETDATA, http);
	curl_multi_setopt(http->multi, CURLMOPT_TIMERFUNCTION, set_timer);
	curl_multi_setopt(http->multi, CURLMOPT_TIMERDATA, http);
	return http;
}

void export_http_destroy(struct export_http *http)
{
	if (!http)
		return;
	if (http->multi)
		curl_multi_cleanup(http->multi);
	if (http->timer)
		event_free(http->timer);
	free(http);
	curl_global_cleanup();
}

/* ---- URLs ------------------------------------------------------------------------------------ */

static bool has_part(CURLU *url, CURLUPart part)
{
	char *text = NULL;
	bool has = curl_url_get(url, part, &text, 0) == CURLUE_OK;

	curl_free(text);
	return has;
}

static bool part_is(CURLU *url, CURLUPart part, const char *value)
{
	char *text = NULL;
	bool same = curl_url_get(url, part, &text, 0) == CURLUE_OK && strcmp(text, value) == 0;

	curl_free(text);
	return same;
}

static const char *refuse_parts(CURLU *url)
{
	if (!part_is(url, CURLUPART_SCHEME, "http") && !part_is(url, CURLUPART_SCHEME, "https"))
		return "it is neither http nor https";
	if (part_is(url, CURLUPART_PORT, "0"))
		return "there is no port 0";
	if (has_part(url, CURLUPART_FRAGMENT))
		return "a fragment (#) is for browsers";
	if (has_part(url, CURLUPART_USER) || has_part(url, CURLUPART_PASSWORD))
		return EXPORT_URL_HOLDS_USER;
	return NULL;
}

const char *export_http_refuses_url(const char *text)
{
	CURLU *url = curl_url();
	CURLUcode code = url ? curl_url_set(url, CURLUPART_URL, text, 0) : CURLUE_OUT_OF_MEMORY;
	const char *why = NULL;

	if (code == CURLUE_UNSUPPORTED_SCHEME)
		why = "it is neither http nor https";
	else if (code == CURLUE_OK)
		why = refuse_parts(url);
	else if (code != CURLUE_OUT_OF_MEMORY)
		why = curl_url_strerror(code);
	curl_url_cleanup(url);
	return why;
}

/* ---- A request ------------------------------------------------------------------------------- */

/* An answer ends where there is no more room for it: whoever sends without end is left at that. */
static size_t on_answer(char *data, size_t size, size_t n, void *context)
{
	struct export_call *call = context;
	size_t bytes = size * n, room = sizeof(call->answer) - call->answer_bytes;

	if (room > bytes)
		room = bytes;
	memcpy(call->answer + call->answer_bytes, data, room);
	call->answer_bytes += room;
	return room;
}

static bool add_header(struct export_call *call, const char *header)
{
	struct curl_slist *longer = curl_slist_append(call->headers, header);

	if (longer)
		call->headers = longer;
	return longer;
}

static bool set_up(struct export_call *call)
{
	const struct export_post *post = &call->post;
	CURL *easy = call->easy;
	bool ok = add_header(call, "Expect:");	/* no round trip before the body */

	for (unsigned i = 0; i < post->headers_count; i++)
		ok = ok && add_header(call, post->headers[i]);
	ok = ok && curl_easy_setopt(easy, CURLOPT_URL, post->url) == CURLE_OK &&
	     curl_easy_setopt(easy, CURLOPT_HTTPHEADER, call->headers) == CURLE_OK &&
	     curl_easy_setopt(easy, CURLOPT_USERAGENT, "ringtail/" RINGTAIL_VERSION) == CURLE_OK &&
	     curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https") == CURLE_OK &&
	     curl_easy_setopt(easy, CURLOPT_PROXY, "") == CURLE_OK &&
	     (!call->http->ca_file ||
	      curl_easy_setopt(easy, CURLOPT_CAINFO, call->http->ca_file) == CURLE_OK);
	/* Each on a connection of its own: where an old one turns out to be dead, libcurl would send
	 * the request again by itself, and nobody would count it. */
	curl_easy_setopt(easy, CURLOPT_FRESH_CONNECT, 1L);
	curl_easy_setopt(easy, CURLOPT_FORBID_REUSE, 1L);
	curl_easy_setopt(easy, CURLOPT_POST, 1L);
	curl_easy_setopt(easy, CURLOPT_POSTFIELDS, post->body);
	curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)post->bytes);
	curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, (long)(post->timeout_ns / 1000000));
	curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, call->error);
	curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_answer);
	curl_easy_setopt(easy, CURLOPT_WRITEDATA, call);
	curl_easy_setopt(easy, CURLOPT_PRIVATE, call);
	return ok;
}

struct export_call *export_http_post(struct export_http *http, const struct export_post *post)
{
	struct export_call *call = calloc(1, sizeof(*call));

	if (!call)
		return NULL;
	call->http = http;
	call->post = *post;
	call->easy = curl_easy_init();
	if (!call->easy || !set_up(call) ||
	    curl_multi_add_handle(http->multi, call->easy) != CURLM_OK) {
		call_destroy(call);
		return NULL;
	}
	return call;
}

void export_http_cancel(struct export_call *call)
{
	curl_multi_remove_handle(call->http->multi, call->easy);
	call_destroy(call);
}
