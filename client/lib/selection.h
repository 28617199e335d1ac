/*
 * selection: which of a file's events are wanted: globs of probes and a filter, as a subscription has.
 *
 * In: their texts, and each catalog that the file holds. Out: of one event, whether it is wanted. The
 * daemon does this for a connection, with the same code (query/). One thread.
 */
#ifndef RINGTAIL_CLIENT_LIB_SELECTION_H
#define RINGTAIL_CLIENT_LIB_SELECTION_H

#include "client/lib/ringtail.h"
#include "proto/batch_decode.h"
#include "proto/ringtail.pb-c.h"

struct selection;	/* the texts */
struct selection_test;	/* what they mean by one catalog */

/* -EINVAL with *error if they are no globs or no filter in any catalog; -ENOMEM. */
int selection_create(const char *const *glob, size_t globs, const char *filter,
		     struct selection **selection, struct ringtail_error *error);
void selection_destroy(struct selection *selection);

/*
 * NULL when out of memory. A catalog which lacks a probe or a field of the texts has no event that is
 * wanted; the first such refusal is kept.
 */
struct selection_test *selection_test_create(struct selection *selection,
					     const Ringtail__V1__Catalog *catalog);
void selection_test_destroy(struct selection_test *test);

/* *undecided: it passes because a text that the filter asks for is cut or missing. */
bool selection_test_pass(const struct selection_test *test, uint32_t cpu,
			 const struct batch_item *item, bool *undecided);

/* Why no catalog had what the texts speak of; NULL if one had, or there was none. */
const struct ringtail_error *selection_refusal(const struct selection *selection);

#endif
