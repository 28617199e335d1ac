/*
 * always_on: which probes are always recorded: the configuration's without those that an operator
 * disabled, and those that an operator enabled. What operators did outlives the daemon:
 *
 *	state-dir/probes:	enable <TAB> since_realtime_ns <TAB> by <TAB> spec [<TAB> flags]
 *				disable <TAB> ...
 *
 * Flags are RT_FLAG_STRINGS and RT_FLAG_FDS: what is always on is one subscription, and comes with whatever was asked
 * for with any of it.
 *
 * In: the configuration's probes, operators' changes, the file's text. Out: the list, the text. Pure;
 * main thread.
 */
#ifndef RINGTAIL_DAEMON_SERVE_ALWAYS_ON_H
#define RINGTAIL_DAEMON_SERVE_ALWAYS_ON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/config/config.h"
#include "query/error.h"
#include "daemon/host/identity.h"
#include "proto/limits.h"

#define ALWAYS_ON_FILE "probes"

struct always_on;		/* what operators did */

struct always_on_probe {
	const char *spec, *by;	/* borrowed; by: "config", or an operator's name */
	uint64_t since_realtime_ns;
	uint32_t flags;			/* that an operator asked for with it */
	bool waits;			/* for a program that brings it; not known here */
};

#define ALWAYS_ON_FLAGS_BYTES	sizeof("strings,fds")

/* "strings,fds", as --flags and the file have it. -EINVAL: there is another word. */
int always_on_flags_parse(const char *text, uint32_t *flags);
const char *always_on_flags_text(uint32_t flags, char text[ALWAYS_ON_FLAGS_BYTES]);

struct always_on *always_on_create(void);		/* NULL: out of memory */
struct always_on *always_on_copy(const struct always_on *on);
void always_on_destroy(struct always_on *on);

/* Forgets what operators enabled, not what they disabled. Whether there was any. */
bool always_on_drop_enabled(struct always_on *on);

/* A spec that is on already stays as it is, but for flags that it has not. -EINVAL, -ENOMEM with *error. */
int always_on_enable(struct always_on *on, const struct config_words *config, const char *spec, uint32_t flags,
		     const char *by, uint64_t realtime_ns, struct error *error);

/* -ENOENT with *error: it is not on, and these are the nearest. */
int always_on_disable(struct always_on *on, const struct config_words *config, const char *spec,
		      const char *by, uint64_t realtime_ns, struct error *error);

/* What operators asked for with what is on. */
uint32_t always_on_flags(const struct always_on *on);

/* What is on, into list[]; the configuration's first, since `config_realtime_ns`. Returns how many. */
size_t always_on_list(const struct always_on *on, const struct config_words *config,
		      uint64_t config_realtime_ns,
		      struct always_on_probe list[2 * SUBSCRIBE_PROBES_MAX]);

/* The file's text, for free(); NULL: out of memory. */
char *always_on_print(const struct always_on *on);

/* Adds the lines that are well formed to an empty list; returns how many lines are not, or -ENOMEM. */
int always_on_parse(struct always_on *on, const char *text, size_t bytes);

#endif
