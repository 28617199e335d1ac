/*
 * source_none: a daemon that records nothing of its own host, such as a relay. No ring, and an empty
 * catalog: whoever asks for a probe is told that there is none.
 */
#include <errno.h>
#include <stdlib.h>

#include "daemon/source/source.h"

struct source {
	Ringtail__V1__Catalog catalog;
};

static int none_open(const struct source_config *config, struct source **source, struct error *error)
{
	(void)config;
	*source = calloc(1, sizeof(**source));
	if (!*source)
		return error_set(error, ENOMEM, "out-of-memory", "out of memory");
	ringtail__v1__catalog__init(&(*source)->catalog);
	return 0;
}

static const Ringtail__V1__Catalog *none_catalog(struct source *source)
{
	return &source->catalog;
}

static int none_ring(struct source *source, unsigned i, struct ring_handle *ring)
{
	(void)source, (void)i, (void)ring;
	return -ENOENT;
}

static int none_configure(struct source *source, const struct source_request *request,
			  struct error *error)
{
	(void)source, (void)request, (void)error;
	return 0;
}

static int none_stats(struct source *source, struct source_stats *stats)
{
	(void)source;
	*stats = (struct source_stats){0};
	return 0;
}

static void none_close(struct source *source)
{
	free(source);
}

const struct source_ops source_none = {
	.name = "none",
	.open = none_open,
	.catalog = none_catalog,
	.ring = none_ring,
	.configure = none_configure,
	.stats = none_stats,
	.close = none_close,
};
