#include "client/cli/reached.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "client/cli/fleet_ask.h"
#include "client/lib/failure.h"
#include "client/lib/limits.h"
#include "client/lib/reach.h"
#include "query/glob.h"
#include "query/visible.h"

/* ---- Which hosts ------------------------------------------------------------------------------ */

static bool is_chosen(const struct texts *glob, const char *name)
{
	for (size_t i = 0; i < glob->n; i++)
		if (glob_match(glob->text[i], name, strlen(name)))
			return true;
	return false;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static int check_names(const struct fleet *fleet, const struct reached_names *names, struct ringtail_error *error)
{
	int err = 0;

	if (names->names > REACHED_HOSTS_MAX)
		err = failure_set(error, E2BIG, "too-many-hosts", "%zu hosts of this relay match, and %u can be asked at once",
				  names->names, REACHED_HOSTS_MAX);
	else if (!names->names && names->aways)
		err = failure_set(error, EHOSTUNREACH, "host-away", "of the hosts that match, %zu, none is connected to this"
				  " relay", names->aways);
	else if (!names->names)
		err = failure_set(error, ENOENT, "host-unknown", "none of the %zu hosts of this relay matches", fleet->hosts);
	if (err)
		failure_hint(error, "`tracectl --connect RELAY list hosts` shows them");
	return err;
}

int reached_choose(const struct fleet *fleet, const struct texts *glob, struct reached_names *names,
		   struct ringtail_error *error)
{
	*names = (struct reached_names){
		.name = calloc(fleet->hosts + 1, sizeof(*names->name)),
		.away = calloc(fleet->hosts + 1, sizeof(*names->away)),
	};
	if (!names->name || !names->away)
		return failure_set(error, ENOMEM, "no-memory", "out of memory");
	for (size_t i = 0; i < fleet->hosts; i++) {
		const char *name = fleet->host[i]->name;

		if (!visible_is_all(name) || !is_chosen(glob, name))
			continue;
		if (fleet->host[i]->connected)
			names->name[names->names++] = name;
		else
			names->away[names->aways++] = name;
	}
	qsort(names->name, names->names, sizeof(*names->name), by_name);
	qsort(names->away, names->aways, sizeof(*names->away), by_name);
	return check_names(fleet, names, error);
}

void reached_free(struct reached_names *names)
{
	free(names->name);
	free(names->away);
	*names = (struct reached_names){ 0 };
}

/* ---- Connections ------------------------------------------------------------------------------ */

/* What those that connect share: each takes the next name. */
struct errand {
	const char *relay;
	const struct reached_names *names;
	struct ringtail **made;			/* one for each name; NULL: */
	struct ringtail_error *error;		/* why not */
	atomic_size_t next;
};

static void *run_errand(void *context)
{
	struct errand *errand = context;
	size_t i;

	while ((i = atomic_fetch_add(&errand->next, 1)) < errand->names->names)
		if (reach_connect(errand->relay, errand->names->name[i], &errand->made[i], &errand->error[i]))
			errand->made[i] = NULL;
	return NULL;
}

/* This thread goes, too: others that cannot be started are not needed. */
static void run_errands(struct errand *errand)
{
	pthread_t thread[REACHED_AT_ONCE - 1];
	size_t n = 0;

	while (n < sizeof(thread) / sizeof(*thread) && n + 1 < errand->names->names &&
	       !pthread_create(&thread[n], NULL, run_errand, errand))
		n++;
	run_errand(errand);
	while (n)
		pthread_join(thread[--n], NULL);
}

static void say_away(const struct pump *pump, const struct reached_names *names)
{
	FILE *to = pump->messages;

	if (!names->aways)
		return;
	fprintf(to, "tracectl: %zu of %zu hosts are not connected to the relay, and not asked: ", names->aways,
		names->names + names->aways);
	for (size_t i = 0; i < names->aways && i < FLEET_ROWS; i++)
		fprintf(to, "%s%s", i ? ", " : "", names->away[i]);
	fprintf(to, "%s\n", names->aways > FLEET_ROWS ? ", ..." : "");
}

static void say_unasked(struct pump *pump, const char *name, const struct ringtail_error *error)
{
	if (pump->unasked++ >= FLEET_ROWS)
		return;
	failure_say(pump->messages, "%s is not asked:", name);
	failure_print(pump->messages, error, NULL);
}

/* Those that are there; the others are named. */
static int take_made(struct errand *errand, struct pump *pump, struct ringtail_error *error)
{
	const struct reached_names *names = errand->names;
	size_t failed = names->names;
	int err = 0;

	for (size_t i = 0; i < names->names; i++) {
		struct pump_host *host = &pump->host[pump->hosts];

		if (!errand->made[i]) {
			failed = i;
			continue;
		}
		*host = (struct pump_host){ .ringtail = errand->made[i], .label = strdup(names->name[i]) };
		pump->hosts++;
		if (!host->label)
			err = failure_set(error, ENOMEM, "no-memory", "out of memory");
	}
	if (!err && !pump->hosts) {
		*error = errand->error[failed];
		return -EHOSTUNREACH;
	}
	for (size_t i = 0; !err && i < names->names; i++)
		if (!errand->made[i])
			say_unasked(pump, names->name[i], &errand->error[i]);
	return err;
}

static int connect_all(const char *relay, const struct reached_names *names, struct pump *pump,
		       struct ringtail_error *error)
{
	struct errand errand = {
		.relay = relay,
		.names = names,
		.made = calloc(names->names, sizeof(*errand.made)),
		.error = calloc(names->names, sizeof(*errand.error)),
	};
	int err;

	pump->host = calloc(names->names, sizeof(*pump->host));
	if (errand.made && errand.error && pump->host) {
		run_errands(&errand);
		err = take_made(&errand, pump, error);
	} else {
		err = failure_set(error, ENOMEM, "no-memory", "out of memory");
	}
	free(errand.made);
	free(errand.error);
	return err;
}

int reached_connect(const char *relay, const struct texts *glob, struct pump *pump, struct ringtail_error *error)
{
	struct reached_names names = { 0 };
	struct fleet fleet = { 0 };
	struct request *request;
	int err = request_open(relay, -1, &request, error);

	if (err)
		return err;
	err = fleet_ask(request, &fleet, error);
	request_close(request);
	if (!err)
		err = reached_choose(&fleet, glob, &names, error);
	if (!err) {
		say_away(pump, &names);
		err = connect_all(relay, &names, pump, error);
	}
	reached_free(&names);
	fleet_free(&fleet);
	return err;
}

void reached_drop(struct pump *pump, size_t i, const struct ringtail_error *error)
{
	struct pump_host *host = &pump->host[i];

	say_unasked(pump, host->label, error);
	ringtail_close(host->ringtail);
	free(host->label);
	pump->hosts--;
	memmove(host, host + 1, (pump->hosts - i) * sizeof(*host));
}
