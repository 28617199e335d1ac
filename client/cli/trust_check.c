#include "client/cli/trust_check.h"

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "proto/tls.h"

static void put_error(struct host_check *check, const struct ringtail_error *error)
{
	check->verdict = CHECK_FAIL;
	snprintf(check->found, sizeof(check->found), "%.250s", error->what);
	snprintf(check->hint, sizeof(check->hint), "%.250s", error->hint);
}

/* Of a file that can be read: it would have been refused if others could, or its group. */
static void put_good(const char *path, struct host_check *check)
{
	check->verdict = CHECK_OK;
	snprintf(check->found, sizeof(check->found), "%.200s is ours alone", path);
}

static void check_token(const struct trust_view *view, struct host_check *check)
{
	char token[TRUST_TOKEN_BYTES_MAX];
	struct ringtail_error error = { 0 };

	if (!view->trust.token_file)
		return;
	if (trust_read_token(&view->trust, token, &error))
		put_error(check, &error);
	else
		put_good(view->trust.token_file, check);
	explicit_bzero(token, sizeof(token));
	if (check->verdict == CHECK_FAIL && !check->hint[0])
		snprintf(check->hint, sizeof(check->hint), "it is to be ours and of mode 0600;"
			 " `tracectl token NAME` makes a new one");
}

static void check_key(const struct trust_view *view, struct host_check *check)
{
	struct ringtail_error error = { 0 };
	int fd;

	if (!view->trust.key)
		return;
	if (trust_open_secret(view->trust.key, "key", &fd, &error)) {
		put_error(check, &error);
		if (!check->hint[0])
			snprintf(check->hint, sizeof(check->hint), "it is to be ours and of mode"
				 " 0600, and to belong to --cert");
		return;
	}
	close(fd);
	put_good(view->trust.key, check);
}

/* `whose`: the certificate, as a sentence begins with it. */
static void check_span(const struct tls_span *span, int64_t now_s, const char *whose,
		       const char *renew, struct host_check *check)
{
	bool early = now_s < span->from_s, late = now_s > span->until_s;
	int64_t days = (span->until_s - now_s) / TLS_DAY_S;
	time_t at = (time_t)(early ? span->from_s : span->until_s);
	char date[32] = "?";
	struct tm utc;

	if (gmtime_r(&at, &utc))
		strftime(date, sizeof(date), "%Y-%m-%d %H:%M UTC", &utc);
	check->verdict = early || late ? CHECK_FAIL :
			 days < TLS_EXPIRES_SOON_DAYS ? CHECK_WARN : CHECK_OK;
	if (early)
		snprintf(check->found, sizeof(check->found), "%.200s is not valid before %s", whose,
			 date);
	else if (late)
		snprintf(check->found, sizeof(check->found), "%.200s has expired on %s", whose, date);
	else if (check->verdict == CHECK_WARN)
		snprintf(check->found, sizeof(check->found), "%.190s expires in %lld day%s, on %s",
			 whose, (long long)days, days == 1 ? "" : "s", date);
	else
		snprintf(check->found, sizeof(check->found), "%.200s is valid until %s", whose, date);
	if (check->verdict != CHECK_OK)
		snprintf(check->hint, sizeof(check->hint), "%s%s",
			 early ? "wait, or check the clocks; else " : "", renew);
}

static void check_certificate(const struct trust_view *view, struct host_check *check)
{
	struct tls_span span;
	struct ringtail_error error = { 0 };

	if (!view->trust.cert)
		return;
	if (conn_tls_span_of_file(view->trust.cert, &span, &error)) {
		put_error(check, &error);
		snprintf(check->hint, sizeof(check->hint), "it is to be our certificate in PEM, then"
			 " its chain");
		return;
	}
	check_span(&span, view->now_s, view->trust.cert,
		   "get a new one from the authority of the daemon's tls-client-ca", check);
}

static void check_daemon(const struct trust_view *view, struct host_check *check)
{
	if (view->daemon)
		check_span(view->daemon, view->now_s, "it",
			   "give the daemon a new tls-cert, and systemctl reload ringtaild", check);
}

static const struct {
	const char *name;
	void (*run)(const struct trust_view *view, struct host_check *check);
} checks[] = {
	{ "token file", check_token },
	{ "key file", check_key },
	{ "certificate", check_certificate },
	{ "daemon's cert", check_daemon },
};

const char *trust_check(const struct trust_view *view, size_t i, struct host_check *check)
{
	if (i >= sizeof(checks) / sizeof(*checks))
		return NULL;
	memset(check, 0, sizeof(*check));
	checks[i].run(view, check);
	return checks[i].name;
}
