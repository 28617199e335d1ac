/*
 * kernel_text: an event as the kernel's own trace would print it.
 *
 * In: an event, and the probe's print format, which is C: `"dev=%d,%d", ((unsigned int) ((REC->dev) >> 20)), ...`.
 * It comes from the daemon, and is no more trusted than the rest. Out: text, with bytes in it that may be hidden
 * ones. It is read anew for each event: text is for people, who read slower than that.
 */
#ifndef RINGTAIL_CLIENT_CLI_KERNEL_TEXT_H
#define RINGTAIL_CLIENT_CLI_KERNEL_TEXT_H

#include <stdbool.h>
#include <stddef.h>

#include "client/lib/ringtail.h"

#define KERNEL_TEXT_BYTES	2048	/* with its NUL; what is longer is cut */

/* False: there is no format, or one with something in it that only the kernel can say. */
bool kernel_text(const struct ringtail_item *event, char text[KERNEL_TEXT_BYTES]);

/*
 * What the kernel calls the value of a field, by a table of its print format: "RCU" for 9, "GFP_KERNEL|__GFP_ZERO"; or
 * the address that it is: "127.0.0.1". False: neither is of that field alone, or the value is not in the table.
 */
bool kernel_text_name(const struct ringtail_item *event, unsigned field, char text[KERNEL_TEXT_BYTES]);

#endif
