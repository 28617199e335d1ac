/*
 * cmd_doctor: what this host can do, and what to do about what it cannot.
 */
#include <stdio.h>
#include <string.h>

#include "client/cmd.h"
#include "client/failure.h"
#include "client/host_check.h"
#include "client/request.h"

static void print_check(const char *name, const struct host_check *check, bool colour)
{
	static const char *const code[] = { "\033[32m", "\033[33m", "\033[31m" };

	printf("%s%-4s%s  %-13s %s\n", colour ? code[check->verdict] : "",
	       host_check_verdict_name(check->verdict), colour ? "\033[0m" : "", name,
	       check->found);
	if (check->hint[0])
		printf("      %-13s -> %s\n", "", check->hint);
}

/* Whether a daemon answers at the address, and which. */
static void check_daemon(const char *address, struct host_check *check)
{
	struct ringtail_error error;
	struct request *request;

	memset(check, 0, sizeof(*check));
	if (request_open(address, -1, &request, &error)) {
		check->verdict = CHECK_WARN;
		snprintf(check->found, sizeof(check->found), "%.250s", error.what);
		snprintf(check->hint, sizeof(check->hint), "%.250s", error.hint);
		return;
	}
	snprintf(check->found, sizeof(check->found), "%.60s on %.60s, source %.20s, %u CPUs%s%.16s",
		 request_host(request)->software, request_host(request)->hostname,
		 request_host(request)->source, request_host(request)->cpus,
		 *request_host(request)->role ? "; you may come as " : "",
		 request_host(request)->role);
	request_close(request);
}

enum exit_code cmd_doctor(const struct settings *settings)
{
	struct host_check check, answer;
	bool colour = cmd_colour(stdout), works = true, answers;
	struct host host;
	const char *name;

	check_daemon(settings->connect, &answer);
	answers = answer.verdict == CHECK_OK;
	host_here(&host);
	for (size_t i = 0; (name = host_check(&host, i, &check)); i++) {
		/* A running daemon has what it needs; that its caller has not is no matter. */
		if (check.verdict == CHECK_FAIL && answers)
			check.verdict = CHECK_WARN;
		if (check.verdict == CHECK_FAIL)
			works = false;
		print_check(name, &check, colour);
	}
	print_check("daemon", &answer, colour);
	printf("%s\n", !works ? "tracing cannot work here until what fails is mended" :
	       answers ? "tracing works" : "tracing can work: start the daemon");
	return works ? EXIT_GOOD : EXIT_FAILED;
}
