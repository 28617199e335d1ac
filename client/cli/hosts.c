#include "client/cli/hosts.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "client/cli/reached.h"
#include "client/cli/since.h"
#include "client/lib/failure.h"
#include "client/lib/reach.h"

const char *hosts_single(const struct settings *settings, const struct cmd_view *view)
{
	const struct {
		bool is_asked;
		const char *what;
	} single[] = {
		{ settings->consumer, "--consumer" },
		{ settings->cursor, "--cursor" },
		{ settings->since && since_is_cursor(settings->since), "a cursor" },
		{ settings->tree.n, "--tree" },
		{ settings->command, "a command" },
		{ view->ops && !view->ops->set_label && !view->ops->join, "this output format" },
		{ settings->by && strstr(settings->by, "stack"), "--by stack" },
	};

	for (size_t i = 0; i < sizeof(single) / sizeof(*single); i++)
		if (single[i].is_asked)
			return single[i].what;
	return NULL;
}

int hosts_check(const struct settings *settings, const struct cmd_view *view, struct ringtail_error *error)
{
	const char *single = settings->connect.n < 2 && !settings->host.n ? NULL : hosts_single(settings, view);

	if (settings->connect.n > 1 && settings->host.n) {
		failure_set(error, EINVAL, "one-relay", "--host chooses hosts of one relay, and --connect names %zu daemons",
			    settings->connect.n);
		failure_hint(error, "give --connect once, with the relay's address; or leave --host out");
		return -EINVAL;
	}
	if (!single)
		return 0;
	if (settings->host.n)
		failure_set(error, EINVAL, "several-hosts", "%s is for one daemon, and --host asks those of a relay", single);
	else
		failure_set(error, EINVAL, "several-hosts", "%s is for one daemon, and --connect names %zu", single,
			    settings->connect.n);
	failure_hint(error, "ask them one at a time; of several there are text, json and tables");
	return -EINVAL;
}

int hosts_connect(const struct settings *settings, struct pump *pump, struct ringtail_error *error)
{
	const size_t hosts = settings->connect.n ? settings->connect.n : 1;
	int err;

	if (settings->host.n) {
		pump->through = true;
		return reached_connect(settings->connect.text[0], &settings->host, pump, error);
	}
	pump->host = calloc(hosts, sizeof(*pump->host));
	if (!pump->host)
		return failure_set(error, ENOMEM, "no-memory", "out of memory");
	for (; pump->hosts < hosts; pump->hosts++) {
		err = ringtail_connect(settings->connect.text[pump->hosts], &pump->host[pump->hosts].ringtail, error);
		if (err)
			return err;
	}
	return 0;
}

int hosts_connect_again(const struct settings *settings, const struct pump *pump, size_t i, struct ringtail **made,
			struct ringtail_error *error)
{
	return pump->through ? reach_connect(settings->connect.text[0], pump->host[i].label, made, error) :
			       ringtail_connect(settings->connect.text[i], made, error);
}

const char *hosts_name(const struct settings *settings, const struct pump *pump, size_t i)
{
	return pump->through ? pump->host[i].label : settings->connect.text[i];
}

static const char *hostname(const struct pump *pump, size_t i)
{
	return ringtail_host(pump->host[i].ringtail)->hostname;
}

static bool is_unique(const struct pump *pump, size_t i)
{
	for (size_t k = 0; k < pump->hosts; k++)
		if (k != i && !strcmp(hostname(pump, k), hostname(pump, i)))
			return false;
	return hostname(pump, i)[0];
}

int hosts_label(const struct settings *settings, struct pump *pump, struct ringtail_error *error)
{
	for (size_t i = 0; !pump->through && pump->hosts > 1 && i < pump->hosts; i++) {
		free(pump->host[i].label);
		pump->host[i].label = strdup(is_unique(pump, i) ? hostname(pump, i) : settings->connect.text[i]);
		if (!pump->host[i].label)
			return failure_set(error, ENOMEM, "no-memory", "out of memory");
	}
	return 0;
}

void hosts_close(struct pump *pump)
{
	for (size_t i = 0; i < pump->hosts; i++) {
		ringtail_close(pump->host[i].ringtail);
		free(pump->host[i].label);
	}
	free(pump->host);
	pump->host = NULL;
	pump->hosts = 0;
}
