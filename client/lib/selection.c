#include "client/lib/selection.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "client/lib/failure.h"
#include "query/filter.h"
#include "query/probe_set.h"

struct selection {
	char **glob;
	unsigned globs;
	char *filter;
	bool found;			/* a catalog had all of it */
	bool refused;			/* a catalog had not */
	struct ringtail_error refusal;
};

struct selection_test {
	bool none;			/* the catalog lacks what is asked for */
	bool every_probe;
	struct probe_set set;
	struct filter *filter;
};

static int check(const struct selection *selection, struct ringtail_error *error)
{
	struct filter *filter;
	struct error why = { 0 };
	int err = 0;

	for (unsigned i = 0; !err && i < selection->globs; i++)
		err = probe_set_check_glob(selection->glob[i], &why);
	if (!err) {
		err = filter_compile(selection->filter, NULL, &filter, &why);
		filter_destroy(filter);
	}
	return err ? failure_of(error, err, &why) : 0;
}

int selection_create(const char *const *glob, size_t globs, const char *filter,
		     struct selection **made, struct ringtail_error *error)
{
	struct selection *selection = calloc(1, sizeof(*selection));
	bool copied = selection;
	int err;

	if (selection) {
		selection->filter = strdup(filter ? filter : "");
		selection->glob = calloc(globs + 1, sizeof(*selection->glob));
		copied = selection->filter && selection->glob;
	}
	for (size_t i = 0; copied && i < globs; i++) {
		selection->glob[i] = strdup(glob[i]);
		copied = selection->glob[i];
		selection->globs++;
	}
	err = copied ? check(selection, error) :
		       failure_set(error, ENOMEM, "no-memory", "out of memory for the filter");
	if (err)
		selection_destroy(selection);
	else
		*made = selection;
	return err;
}

void selection_destroy(struct selection *selection)
{
	if (!selection)
		return;
	for (unsigned i = 0; i < selection->globs; i++)
		free(selection->glob[i]);
	free(selection->glob);
	free(selection->filter);
	free(selection);
}

struct selection_test *selection_test_create(struct selection *selection,
					     const Ringtail__V1__Catalog *catalog)
{
	struct selection_test *test = calloc(1, sizeof(*test));
	struct error why = { 0 };
	int err = 0;

	if (!test)
		return NULL;
	test->every_probe = !selection->globs;
	if (!test->every_probe)
		err = probe_set_from_globs(&test->set, selection->glob, selection->globs, catalog,
					   &why);
	if (!err)
		err = filter_compile(selection->filter, catalog, &test->filter, &why);
	if (err == -ENOMEM) {
		selection_test_destroy(test);
		return NULL;
	}
	if (!strcmp(why.code, "unknown-probe") && !strstr(why.hint, "did you mean"))
		error_hint(&why, "`tracectl count --by probe FILE` shows those that the recording has");
	test->none = err;
	if (!err)
		selection->found = true;
	else if (!selection->refused)
		failure_of(&selection->refusal, err, &why);
	selection->refused |= err != 0;
	return test;
}

void selection_test_destroy(struct selection_test *test)
{
	if (test)
		filter_destroy(test->filter);
	free(test);
}

bool selection_test_pass(const struct selection_test *test, uint32_t cpu,
			 const struct batch_item *item, bool *undecided)
{
	struct filter_texts texts = { item->attachment, item->attachments, false };
	bool pass;

	pass = !test->none &&
	       (test->every_probe || probe_set_test(&test->set, item->event.probe)) &&
	       filter_pass(test->filter, cpu, &item->event, item->thread, &texts);
	*undecided = pass && texts.undecided;
	return pass;
}

const struct ringtail_error *selection_refusal(const struct selection *selection)
{
	return selection && selection->refused && !selection->found ? &selection->refusal : NULL;
}
