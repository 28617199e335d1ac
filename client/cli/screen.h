/*
 * screen: a block of lines, redrawn in place on a terminal: of it, what fits.
 *
 * In: the lines, written to an out of its own. Out: the first of them, wrapped as the terminal does,
 * and how many were left out. One thread.
 */
#ifndef RINGTAIL_CLIENT_CLI_SCREEN_H
#define RINGTAIL_CLIENT_CLI_SCREEN_H

#include "client/cli/out.h"

struct screen;

/* -ENOMEM or another -errno: there is none. */
__attribute__((warn_unused_result))
int screen_create(struct screen **made);
void screen_destroy(struct screen *screen);

/* Where the next block is written to. */
struct out *screen_begin(struct screen *screen);

/*
 * Draws it on `to`, a terminal of that size; 0: as large as anything. 0 or -errno, of what was written
 * to screen_begin(); that `to` fails, it remembers itself.
 */
__attribute__((warn_unused_result))
int screen_draw(struct screen *screen, struct out *to, unsigned rows, unsigned columns);

/* The block's text, to be freed, instead. 0 or -errno. */
__attribute__((warn_unused_result))
int screen_take(struct screen *screen, char **text, size_t *bytes);

/* The size of the terminal at standard output; zeros if it is not known. */
void screen_size(unsigned *rows, unsigned *columns);

#endif
