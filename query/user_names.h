/*
 * user_names: the numbers of users by their names, as the lines of passwd(5) have them.
 *
 * Set once, before any thread; the text is borrowed for good. Without it, root alone is known.
 */
#ifndef RINGTAIL_QUERY_USER_NAMES_H
#define RINGTAIL_QUERY_USER_NAMES_H

#include <stdbool.h>
#include <stdint.h>

void user_names_set(const char *passwd);
bool user_names_find(const char *name, uint32_t *uid);

#endif
