/*
 * pager: what is long and goes to a person's terminal goes there through a pager.
 *
 * $PAGER, as a shell takes it; else less -FRX, which ends by itself where all fits the screen, and of sudo starts no
 * programs (LESSSECURE). One at a time.
 */
#ifndef RINGTAIL_CLIENT_CLI_PAGER_H
#define RINGTAIL_CLIENT_CLI_PAGER_H

#include <stdbool.h>

/*
 * From here on stdout is the pager's. Does nothing if stdout is no terminal, if `wanted` is false, if PAGER is empty
 * or `cat`, or if there is no less and no PAGER.
 */
void pager_begin(bool wanted);

/* Flushes stdout, and returns once the person has left. Does nothing without pager_begin(). */
void pager_end(void);

#endif
