/*
 * source_kmod_catalog: every probe of the kernel module, with its fields.
 *
 * In: the device's own lists, and the kernel's tracefs, which knows the names of more arguments
 * than the headers that the module was built from. Out: a catalog. Runs once, on the loader's
 * thread.
 */
#ifndef RINGTAIL_DAEMON_SOURCE_KMOD_CATALOG_H
#define RINGTAIL_DAEMON_SOURCE_KMOD_CATALOG_H

#include "proto/ringtail.pb-c.h"

/*
 * Sets *catalog, to be freed with ringtail__v1__catalog__free_unpacked(catalog, NULL). -errno of
 * the device, or -ENOMEM.
 */
int source_kmod_catalog_create(int device, Ringtail__V1__Catalog **catalog);

#endif
