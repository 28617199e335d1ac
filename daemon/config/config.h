/*
 * config: the options of the daemon, from its command line and its file.
 *
 * In: argv, and a file of `name = value` lines. Out: one struct of plain members, all of them
 * valid. daemon/config/options.def has the options. A flag wins over the file; a list given by flags
 * replaces the file's. Whatever is not understood is an error that says where, what, and what it
 * might have been meant to be. Main thread, before anything else runs.
 */
#ifndef RINGTAIL_DAEMON_CONFIG_CONFIG_H
#define RINGTAIL_DAEMON_CONFIG_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "daemon/net/address.h"
#include "proto/limits.h"
#include "proto/ringtail.pb-c.h"
#include "query/error.h"

#define CONFIG_FILE_DEFAULT	"/etc/ringtail/ringtaild.conf"
#define CONFIG_FILE_BYTES_MAX	(256u << 10)
#define CONFIG_LINE_BYTES_MAX	(FILTER_BYTES_MAX + 256u)
#define CONFIG_PATH_BYTES_MAX	4095u
#define CONFIG_USER_BYTES_MAX	32u
#define CONFIG_LISTEN_MAX	16u
#define CONFIG_WORDS_MAX	SUBSCRIBE_PROBES_MAX
#define CONFIG_WORD_BYTES_MAX	1024u
#define CONFIG_FLAGS_MAX	256u		/* words on the command line */

/* Choices of durability and spool-policy are enum spool_durability and spool_policy. */
enum config_overflow {
	CONFIG_OVERFLOW_DROP,
	CONFIG_OVERFLOW_DISCONNECT,
};

enum config_pace {
	CONFIG_PACE_RECORDED,
	CONFIG_PACE_FAST,
};

/* What a relay may do: enum role is one more. */
enum config_relay_role {
	CONFIG_RELAY_VIEWER,
	CONFIG_RELAY_OPERATOR,
};

/* What clients of a relay may do. */
enum config_relay_clients {
	CONFIG_RELAY_CLIENTS_NONE,
	CONFIG_RELAY_CLIENTS_VIEWER,
};

/* What a relay waits for before it acknowledges. */
enum config_relay_ack {
	CONFIG_RELAY_ACK_DISK,
	CONFIG_RELAY_ACK_KAFKA,
};

struct config_source {
	char *name;		/* "auto", or of a source_ops */
	char *path;		/* of replay:FILE, else NULL */
};

struct config_listen {
	struct address address[CONFIG_LISTEN_MAX];
	unsigned count;
};

/* An option that may be repeated, each time with one text. */
struct config_words {
	char *word[CONFIG_WORDS_MAX];
	unsigned count;
};

/* The kinds of options, and what each is in struct config. */
#define CONFIG_TYPE_FLAG	bool
#define CONFIG_TYPE_COUNT	uint64_t
#define CONFIG_TYPE_BYTES	uint64_t
#define CONFIG_TYPE_POWER2	uint64_t	/* bytes */
#define CONFIG_TYPE_DURATION	uint64_t	/* ns */
#define CONFIG_TYPE_RATE	uint64_t	/* bytes in a second */
#define CONFIG_TYPE_CHOICE	unsigned	/* enum config_pace, ... */
#define CONFIG_TYPE_TEXT	char *		/* NULL: none */
#define CONFIG_TYPE_SOURCE	struct config_source
#define CONFIG_TYPE_LISTEN	struct config_listen
#define CONFIG_TYPE_LISTEN_TLS	struct config_listen
#define CONFIG_TYPE_HTTP	struct address	/* no socket_bytes: none */
#define CONFIG_TYPE_WORDS	struct config_words

struct config {
#define OPTION(member, name, kind, place, def, min, max, argument, help) CONFIG_TYPE_##kind member;
#include "daemon/config/options.def"
#undef OPTION
};

/*
 * Fills *config from the flags, the file they name, and the defaults. On failure *config is empty
 * (config_free() is harmless) and *error tells: -EINVAL where what was written is wrong (exit 2),
 * any other error where it could not be read (exit 1). With --help or --version, nothing but the
 * flags is looked at.
 */
int config_parse_args(int argc, char *const *argv, struct config *config, struct error *error);

/*
 * The same from the text of a file alone, which errors call `name`, without asking the system for
 * defaults: `listen` and `user` may be empty.
 */
int config_parse_text(const char *text, size_t bytes, const char *name, struct config *config,
		      struct error *error);

void config_free(struct config *config);

/* As a file that config_parse_text() reads to the same configuration. */
void config_print(const struct config *config, FILE *out);

void config_help(FILE *out);

/* The names of the options that differ, and that only a restart changes: "a, b"; "" if there are none. */
void config_reload_ignored(const struct config *old, const struct config *new, char *names,
			   size_t bytes);

/*
 * Checks the probes and the filter of one option each: "export-probe", "export-filter". With a catalog,
 * every name must be in it. filter: NULL for none.
 */
int config_check_choice(const struct config_words *globs, const char *globs_option,
			const char *filter, const char *filter_option,
			const Ringtail__V1__Catalog *catalog, struct error *error);

#endif
