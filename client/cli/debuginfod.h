/*
 * debuginfod: files of debug symbols by build-id, from the servers that DEBUGINFOD_URLS names; only once
 * debuginfod_enable() was called, because it tells those servers what runs on the traced host, and waits for them.
 *
 * libdebuginfod is loaded when it is wanted: who does not ask for it does not need it. One thread.
 */
#ifndef RINGTAIL_CLIENT_CLI_DEBUGINFOD_H
#define RINGTAIL_CLIENT_CLI_DEBUGINFOD_H

#include <stdint.h>

#include "client/lib/ringtail.h"

/* 0, or -errno with *error: no servers are named, or the library is not there. */
int debuginfod_enable(struct ringtail_error *error);

/* A descriptor of the file; -1: nobody has it, or nobody was to be asked. It is not yet known to be the right one. */
int debuginfod_find(const uint8_t *build_id, unsigned bytes);

#endif
