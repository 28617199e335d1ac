/*
 * cmd_doctor: checks this host and its daemon, and prints a remedy for each problem.
 */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "client/cli/cmd.h"
#include "client/cli/host_check.h"
#include "client/cli/stat_print.h"
#include "client/cli/request.h"
#include "client/cli/trust_check.h"
#include "proto/tls.h"
#include "query/visible.h"
#include "client/lib/unpack.h"

#define STAT_WAIT_MS 5000

static void print_check(const char *name, const struct host_check *check, bool color)
{
	static const char *const code[] = { "\033[32m", "\033[33m", "\033[31m" };

	printf("%s%-4s%s  %-13s ", color ? code[check->verdict] : "",
	       host_check_verdict_name(check->verdict), color ? "\033[0m" : "", name);
	visible_put(stdout, check->found);
	if (check->hint[0]) {
		printf("\n      %-13s -> ", "");
		visible_put(stdout, check->hint);
	}
	putchar('\n');
}

/*
 * The daemon's certificate, where it has one to show, for a handshake that fails for it as well. False:
 * not even that could be asked, and *error is why.
 */
static bool see_certificate(const char *text, struct tls_span *span, bool *seen,
			    struct ringtail_error *error)
{
	struct address address;

	*seen = false;
	if (address_parse(text, &address, error))
		return false;
	if (address.kind != ADDRESS_TCP || address.trust.insecure)
		return true;
	*seen = conn_see_certificate(&address, span, error) == 0;
	return *seen;
}

/* What the daemon has lost since it started, and what to do about it. */
static void check_losses(struct request *request, bool color)
{
	Ringtail__V1__StatRequest message = RINGTAIL__V1__STAT_REQUEST__INIT;
	const Ringtail__V1__Stat *stat = NULL;
	struct ringtail_error error;
	struct host_check check = {.verdict = CHECK_OK};
	struct loss_advice advice;
	struct arena *arena = NULL;
	const uint8_t *body;
	unsigned reason = 0;
	size_t bytes;

	if (request_send(request, FRAME_STAT_REQUEST, &message.base, &error) == 0 &&
	    request_wait(request, FRAME_STAT, STAT_WAIT_MS, &body, &bytes, &error) == 0)
		stat = unpack(&ringtail__v1__stat__descriptor, body, bytes, &arena);
	if (!stat)
		return;
	while (loss_advice_next(stat, &reason, &advice)) {
		check.verdict = CHECK_WARN;
		snprintf(check.found, sizeof(check.found), "%s: %.200s", advice.name, advice.what);
		snprintf(check.hint, sizeof(check.hint), "%s", advice.remedy);
		print_check("losses", &check, color);
	}
	if (check.verdict == CHECK_OK) {
		snprintf(check.found, sizeof(check.found), "none since the daemon started");
		print_check("losses", &check, color);
	}
	arena_destroy(arena);
}

enum way {
	WAY_OPEN,		/* a daemon answers */
	WAY_NONE,		/* none does */
	WAY_FORBIDDEN,		/* the caller may not ask */
};

/* Whether a daemon answers at the address, and which. */
static enum way check_daemon(const char *address, struct tls_span *span, bool *seen,
			     struct host_check *check, struct request **open)
{
	struct ringtail_error error;
	struct request *request;

	*open = NULL;
	memset(check, 0, sizeof(*check));
	if (!see_certificate(address, span, seen, &error) ||
	    request_open(address, -1, &request, &error)) {
		bool is_forbidden = strcmp(error.code, "no-permission") == 0;

		check->verdict = is_forbidden ? CHECK_FAIL : CHECK_WARN;
		snprintf(check->found, sizeof(check->found), "%.250s", error.what);
		snprintf(check->hint, sizeof(check->hint), "%.250s", error.hint);
		return is_forbidden ? WAY_FORBIDDEN : WAY_NONE;
	}
	snprintf(check->found, sizeof(check->found), "%.60s on %.60s, source %.20s, %u CPUs%s%.16s",
		 request_host(request)->software, request_host(request)->hostname,
		 request_host(request)->source, request_host(request)->cpus,
		 *request_host(request)->role ? "; you may come as " : "",
		 request_host(request)->role);
	*open = request;
	return WAY_OPEN;
}

/* What is shown and looked at on the way in. False: something of it is in the way. */
static bool check_trust(const struct tls_span *daemon, bool answers, bool color)
{
	struct trust_view view = { .daemon = daemon, .now_s = time(NULL) };
	struct host_check check;
	bool good = true;
	const char *name;

	trust_get(&view.trust);
	for (size_t i = 0; (name = trust_check(&view, i, &check)); i++) {
		/* Whoever comes in without it does not need it there. */
		if (check.verdict == CHECK_FAIL && answers)
			check.verdict = CHECK_WARN;
		good &= check.verdict != CHECK_FAIL;
		if (check.found[0])
			print_check(name, &check, color);
	}
	return good;
}

/* What fails of the host. A running daemon has what it needs; that its caller has not is no matter. */
static bool check_host(enum way way, bool color)
{
	struct host_check check;
	struct host host;
	bool works = true;
	const char *name;

	host_here(&host);
	for (size_t i = 0; (name = host_check(&host, i, &check)); i++) {
		if (check.verdict == CHECK_FAIL &&
		    (way == WAY_OPEN || (way == WAY_FORBIDDEN && check.of_caller)))
			check.verdict = CHECK_WARN;
		works &= check.verdict != CHECK_FAIL;
		print_check(name, &check, color);
	}
	return works;
}

enum exit_code cmd_doctor(const struct settings *settings)
{
	bool color = cmd_color(settings, stdout), works, trusted, seen;
	struct host_check answer;
	struct tls_span span;
	struct request *request;
	enum way way;

	way = check_daemon(settings->connect.text[0], &span, &seen, &answer, &request);
	works = check_host(way, color);
	trusted = check_trust(seen ? &span : NULL, way == WAY_OPEN, color) && way != WAY_FORBIDDEN;
	print_check("daemon", &answer, color);
	if (request) {
		check_losses(request, color);
		request_close(request);
	}
	printf("%s\n", !works ? "tracing cannot work here until what fails is mended" :
	       !trusted ? "no way in to the daemon until what fails is mended" :
	       way == WAY_OPEN ? "tracing works" : "tracing can work: start the daemon");
	return cmd_printed(works && trusted ? EXIT_GOOD : EXIT_FAILED);
}
