#include "client/cli/who.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/cli/chosen.h"
#include "client/cli/symbols.h"
#include "client/lib/conn.h"
#include "client/lib/failure.h"
#include "query/filter.h"
#include "query/probe_set.h"

/* A filter that does not stand alone could mean something else between parentheses. */
static int check_filter(const char *text, struct ringtail_error *error)
{
	struct filter *filter;
	struct error why = { 0 };
	int err = filter_compile(text, NULL, &filter, &why);

	if (!err) {
		filter_destroy(filter);
		return 0;
	}
	failure_set(error, -err, why.code, "%s", why.what);
	if (*why.hint)
		failure_hint(error, "%s", why.hint);
	error->column = why.column;
	return err;
}

/* Behind what is in `to` already, if anything: both must hold. */
static void write_and(FILE *to)
{
	if (ftell(to) > 0)
		fputs(" && ", to);
}

static bool has_text(const char *filter)
{
	return filter && filter[strspn(filter, " \t\n")];
}

/* (FILTER) && (QUESTION) && pid in (1, 2) && (comm == "a" || comm =~ "b*") || probe in (those of the tree) */
static int make_filter(const struct settings *settings, const struct chosen *chosen, struct who *who,
		       struct ringtail_error *error)
{
	size_t bytes = 0;
	FILE *text;
	int err = has_text(settings->filter) ? check_filter(settings->filter, error) : 0;

	text = err ? NULL : open_memstream(&who->filter_made, &bytes);
	if (!text)
		return err ? err : failure_set(error, ENOMEM, "no-memory", "out of memory");
	if (has_text(settings->filter)) {
		who->filter_bytes = strlen(settings->filter);
		fprintf(text, "(%s)", settings->filter);
	}
	if (settings->question) {
		write_and(text);
		fprintf(text, "(%s)", settings->question);
	}
	if (!chosen_all(chosen)) {
		write_and(text);
		chosen_write(chosen, text);
	}
	if (who->tree && ftell(text) > 0)
		fprintf(text, " || probe in (\"%s\", \"%s\", \"%s\")", tree_probes[0], tree_probes[1],
			tree_probes[2]);
	if (fclose(text) && !err)
		err = failure_set(error, ENOMEM, "no-memory", "out of memory");
	who->filter = who->filter_made;
	return err;
}

/* Which of the tree's probes are asked for anyway. */
static void find_shown(struct who *who)
{
	Ringtail__V1__Probe probe[TREE_PROBES], *probes[TREE_PROBES];
	Ringtail__V1__Catalog catalog = RINGTAIL__V1__CATALOG__INIT;
	static const char *const name[TREE_PROBES] = {
		"sched_process_fork", "sched_process_exec", "sched_process_exit",
	};
	struct probe_set set = { 0 };

	for (unsigned i = 0; i < TREE_PROBES; i++) {
		ringtail__v1__probe__init(&probe[i]);
		probe[i].id = i;
		probe[i].provider = (char *)"tracepoint";
		probe[i].function = (char *)"sched";
		probe[i].name = (char *)name[i];
		probes[i] = &probe[i];
	}
	catalog.probe = probes;
	catalog.n_probe = TREE_PROBES;
	for (size_t i = 0; i < who->probes; i++)
		(void)!probe_set_add_glob(&set, who->probe[i], &catalog, &(struct error){ 0 });
	for (unsigned i = 0; i < TREE_PROBES; i++)
		who->shows[i] = probe_set_test(&set, i);
}

static int make_probes(struct who *who, const char *otherwise, struct ringtail_error *error)
{
	if (!who->probes && who->of_file) {
		memset(who->shows, true, sizeof(who->shows));
		return 0;
	}
	if (!who->probes)
		who->probe[who->probes++] = otherwise;
	find_shown(who);
	for (unsigned i = 0; i < TREE_PROBES; i++) {
		if (who->shows[i])
			continue;
		if (who->probes == SUBSCRIBE_PROBES_MAX)
			return failure_set(error, EINVAL, "too-many-probes", "with --tree there may be "
					   "%u -p; use globs", SUBSCRIBE_PROBES_MAX - TREE_PROBES);
		who->probe[who->probes++] = tree_probes[i];
	}
	return 0;
}

static int plant(const struct settings *settings, const char *otherwise, struct who *who,
		 struct ringtail_error *error)
{
	uint64_t pid;
	int err = 0;

	who->tree = tree_create();
	if (!who->tree)
		return failure_set(error, ENOMEM, "no-memory", "out of memory");
	for (size_t i = 0; !err && i < settings->tree.n; i++) {
		err = chosen_parse_pid("tree", settings->tree.text[i], &pid, error);
		if (!err)
			tree_add(who->tree, pid);
	}
	return err ? err : make_probes(who, otherwise, error);
}

int who_create(const struct settings *settings, const char *otherwise, struct who *who,
	       struct ringtail_error *error)
{
	struct chosen chosen;
	int err;

	*who = (struct who){
		.probes = settings->probe.n, .filter = settings->filter, .of_file = !otherwise,
	};
	memcpy(who->probe, settings->probe.text, settings->probe.n * sizeof(who->probe[0]));
	err = chosen_init(&chosen, &settings->pid, &settings->comm, error);
	if (!err && (settings->tree.n || settings->command))
		err = plant(settings, otherwise, who, error);
	if (!err && (who->tree || settings->question || !chosen_all(&chosen)))
		err = make_filter(settings, &chosen, who, error);
	if (!err && settings->command)
		err = command_start(settings->command, &who->command, error);
	if (err)
		who_destroy(who);
	return err;
}

int who_destroy(struct who *who)
{
	int code = command_finish(who->command);

	tree_destroy(who->tree);
	free(who->filter_made);
	*who = (struct who){ 0 };
	return code;
}

void who_place(const struct who *who, struct ringtail_error *error)
{
	uint32_t column = error->column;

	if (!who->filter_made)
		return;
	filter_refusal_shift(error->what, sizeof(error->what), &error->column);
	if (error->column != column && error->column > who->filter_bytes + 1)	/* not the person's words */
		error->column = 0;
}

void who_look(struct who *who, const struct ringtail_host *host)
{
	if (who->tree && symbols_same_boot(host->boot_id))
		tree_add_descendants(who->tree);
}

void who_look_again(struct who *who)
{
	uint64_t now_ns = conn_now_ns();

	if (!who->tree || !who->here || now_ns - who->looked_ns < WHO_LOOK_NS)
		return;
	who->looked_ns = now_ns;
	tree_add_descendants(who->tree);
}

int who_begin(struct who *who, const struct ringtail_host *host, struct ringtail_error *error)
{
	who->here = !who->of_file && symbols_same_boot(host->boot_id);
	if (who->command && !who->here) {
		failure_set(error, EINVAL, "other-host", "the command would run on this host, and the daemon "
			    "traces another");
		failure_hint(error, "run tracectl there, or use --tree with the number of a process there");
		return -EINVAL;
	}
	if (who->command) {
		tree_add(who->tree, (uint64_t)command_pid(who->command));
		tree_await_exec(who->tree, command_pid(who->command));
	}
	if (!who->tree)
		return 0;
	if (who->here)
		tree_add_descendants(who->tree);
	else
		tree_believe_parents(who->tree);
	return 0;
}

bool who_takes(const struct who *who, const struct ringtail_item *event)
{
	if (!tree_takes(who->tree, event))
		return false;
	for (unsigned i = 0; i < TREE_PROBES && event->probe->kind == RINGTAIL_TRACEPOINT; i++)
		if (!strcmp(event->probe->spec, tree_probes[i]))
			return who->shows[i];
	return true;
}
