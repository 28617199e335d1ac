/*
 * catalog: the probes that may come, from a Catalog frame: by id, with what the decoder must know.
 *
 * Immutable and reference-counted (one thread): batches that wait keep the catalog they came under.
 */
#ifndef RINGTAIL_CLIENT_LIB_CATALOG_H
#define RINGTAIL_CLIENT_LIB_CATALOG_H

#include "client/lib/ringtail.h"
#include "proto/batch_decode.h"

struct catalog;
struct Ringtail__V1__ProgramUse;
struct selection;

/*
 * From the body of a Catalog frame. `machine`: the traced host's, as uname(2) has it, by which numbers have
 * names; NULL: this one's. -EBADMSG or -ENOMEM with *error; *catalog is the caller's.
 */
int catalog_create(const uint8_t *body, size_t bytes, const char *machine, struct catalog **catalog,
		   struct ringtail_error *error);
struct catalog *catalog_ref(struct catalog *catalog);
void catalog_unref(struct catalog *catalog);

/* NULL if there is none of that id. */
const struct ringtail_probe *catalog_probe(const struct catalog *catalog, uint32_t id);

/* In the order of the frame. */
const struct ringtail_probe *catalog_probes(const struct catalog *catalog, size_t *probes);

/* Before the first event: what is wanted of these probes' events; NULL: all. -ENOMEM. */
int catalog_select(struct catalog *catalog, struct selection *selection);
bool catalog_selects(const struct catalog *catalog, uint32_t cpu, const struct batch_item *item,
		     bool *undecided);

/* Of a list's i-th probe: which processes have it. NULL: it is no program's, or the daemon is older. */
const struct Ringtail__V1__ProgramUse *catalog_use(const struct catalog *catalog, size_t i);

struct batch_decoder *catalog_decoder_create(const struct catalog *catalog);

#endif
