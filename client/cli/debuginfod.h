/*
 * debuginfod: files of debug symbols by build-id, from the servers that DEBUGINFOD_URLS names; only once
 * debuginfod_enable() was called, because it tells those servers what runs on the traced host, and waits for them.
 *
 * libdebuginfod is loaded by debuginfod_enable(): a host without that library can use everything else. One thread.
 */
#ifndef RINGTAIL_CLIENT_CLI_DEBUGINFOD_H
#define RINGTAIL_CLIENT_CLI_DEBUGINFOD_H

#include <stdint.h>

#include "client/lib/ringtail.h"

/* 0, or -errno with *error: no servers are named, or the library is not there. */
int debuginfod_enable(struct ringtail_error *error);

/*
 * A descriptor of the file, whose contents the caller has to check; -1: no server has it, or debuginfod_enable() was
 * not called.
 */
int debuginfod_find(const uint8_t *build_id, unsigned bytes);

#endif
