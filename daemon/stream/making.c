#include "daemon/stream/making.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "daemon/base/limits.h"
#include "proto/limits.h"
#include "query/glob.h"

#define ASKED_AT_ONCE	4	/* so that the socket to the loader never fills up */

enum made_state {
	MADE_WAITS,		/* for its turn */
	MADE_ASKED,
	MADE_DONE,
	MADE_REFUSED,		/* until somebody has been told */
};

/* One spec; the one asked for last comes last. */
struct made {
	TAILQ_ENTRY(made) link;
	enum made_state state;
	int err;
	struct error *error;		/* of MADE_REFUSED */
	char spec[];
};

struct making {
	struct loader *loader;
	struct recorder *recorder;
	TAILQ_HEAD(, made) made;
	unsigned specs, asked;
	char **offered;			/* [offers], "SYSTEM:NAME"; NULL: nobody has asked yet, or no memory */
	size_t offers;
};

static struct made *find(struct making *making, const char *spec)
{
	struct made *made;

	TAILQ_FOREACH(made, &making->made, link)
		if (strcmp(made->spec, spec) == 0)
			return made;
	return NULL;
}

static void forget(struct making *making, struct made *made)
{
	making->asked -= made->state == MADE_ASKED;
	making->specs--;
	TAILQ_REMOVE(&making->made, made, link);
	free(made->error);
	free(made);
}

/* Only what nobody waits for makes room. */
static bool make_room(struct making *making)
{
	struct made *made;

	if (making->specs < MAKE_SPECS_MAX)
		return true;
	TAILQ_FOREACH(made, &making->made, link)
		if (made->state == MADE_DONE || made->state == MADE_REFUSED) {
			forget(making, made);
			return true;
		}
	return false;
}

static struct made *add(struct making *making, const char *spec)
{
	struct made *made = make_room(making) ? calloc(1, sizeof(*made) + strlen(spec) + 1) : NULL;

	if (!made)
		return NULL;
	strcpy(made->spec, spec);
	TAILQ_INSERT_TAIL(&making->made, made, link);
	making->specs++;
	return made;
}

static void refuse(struct made *made, int err, const struct error *error)
{
	made->state = MADE_REFUSED;
	made->err = err;
	free(made->error);
	made->error = malloc(sizeof(*error));
	if (made->error)
		*made->error = *error;
}

/* The next ones whose turn it is. */
static void ask(struct making *making)
{
	struct made *made;

	TAILQ_FOREACH(made, &making->made, link) {
		if (making->asked == ASKED_AT_ONCE)
			return;
		if (made->state != MADE_WAITS)
			continue;
		/* A loader that is gone is noticed where its reports are read. */
		if (loader_make(making->loader, made->spec) != 0)
			return;
		made->state = MADE_ASKED;
		making->asked++;
	}
}

static void finish(struct making *making, const char *spec, int err, const struct error *error)
{
	struct made *made = find(making, spec);

	if (!made)
		return;
	making->asked -= made->state == MADE_ASKED;
	if (err)
		refuse(made, err, error);
	else
		made->state = MADE_DONE;
}

void making_take(struct making *making, const struct loader_report *report)
{
	finish(making, report->spec, report->err, &report->error);
	ask(making);
}

void making_fail(struct making *making, const struct error *error)
{
	struct made *made;

	TAILQ_FOREACH(made, &making->made, link)
		if (made->state == MADE_WAITS || made->state == MADE_ASKED)
			refuse(made, -ECHILD, error);
	making->asked = 0;
}

static int tell(struct making *making, struct made *made, struct error *error)
{
	int err = made->err;

	if (made->error)
		*error = *made->error;
	else
		error_set(error, ENOMEM, "out-of-memory", "out of memory");
	forget(making, made);
	return err;
}

bool making_can(const struct making *making, const char *spec)
{
	return strlen(spec) <= NAME_BYTES_MAX && loader_can_make(making->loader, spec);
}

static void forget_offers(struct making *making)
{
	while (making->offers)
		free(making->offered[--making->offers]);
	free(making->offered);
	making->offered = NULL;
}

static void list_offers(struct making *making)
{
	Ringtail__V1__Catalog *catalog = loader_offers(making->loader);

	making->offered = catalog ? calloc(catalog->n_probe + 1, sizeof(*making->offered)) : NULL;
	for (size_t i = 0; making->offered && i < catalog->n_probe; i++) {
		const Ringtail__V1__Probe *probe = catalog->probe[i];

		if (strcmp(probe->provider, "tracepoint") != 0)
			continue;
		if (asprintf(&making->offered[making->offers], "%s:%s", probe->function, probe->name) < 0) {
			forget_offers(making);
			break;
		}
		making->offers++;
	}
	if (catalog)
		protobuf_c_message_free_unpacked(&catalog->base, NULL);
}

bool making_offers(struct making *making, const char *system, const char *name)
{
	if (!making->offered)
		list_offers(making);
	for (size_t i = 0; i < making->offers; i++) {
		const char *tracepoint = making->offered[i], *colon = strchr(tracepoint, ':');

		if (glob_match(system, tracepoint, (size_t)(colon - tracepoint)) &&
		    glob_match(name, colon + 1, strlen(colon + 1)))
			return true;
	}
	return false;
}

static int prepare(struct making *making, const char *spec, bool again, struct error *error)
{
	struct made *made;

	if (!making_can(making, spec))
		return 0;		/* what it is will be said where it is looked up */
	made = find(making, spec);
	if (!made) {
		made = add(making, spec);
		if (!made)
			return error_set(error, ENOMEM, "out-of-memory",
					 "too many probes are being made at this moment");
	}
	if (made->state == MADE_REFUSED)
		return tell(making, made, error);
	if (made->state == MADE_DONE && !again && strchr(spec, '/'))
		made->state = MADE_WAITS;
	TAILQ_REMOVE(&making->made, made, link);
	TAILQ_INSERT_TAIL(&making->made, made, link);
	return made->state != MADE_DONE;
}

int making_prepare(struct making *making, const char *spec, bool again, struct error *error)
{
	int err = prepare(making, spec, again, error);

	ask(making);
	return err;
}

void making_now(struct making *making, const char *spec)
{
	struct error error = {0};
	bool pending = false;
	int err;

	if (prepare(making, spec, true, &error) != 1)
		return;
	err = loader_make_now(making->loader, spec, &pending, &error);
	finish(making, spec, err, &error);
	if (pending)
		recorder_look(making->recorder);
}

struct making *making_create(struct loader *loader, struct recorder *recorder)
{
	struct making *making = calloc(1, sizeof(*making));

	if (!making)
		return NULL;
	making->loader = loader;
	making->recorder = recorder;
	TAILQ_INIT(&making->made);
	return making;
}

void making_destroy(struct making *making)
{
	if (!making)
		return;
	while (!TAILQ_EMPTY(&making->made))
		forget(making, TAILQ_FIRST(&making->made));
	forget_offers(making);
	free(making);
}
