/*
 * who: the processes that are asked for by --pid, --comm, --tree and a command, as a filter, as probes, and as what
 * is chosen here of the events that come.
 */
#ifndef RINGTAIL_CLIENT_CLI_WHO_H
#define RINGTAIL_CLIENT_CLI_WHO_H

#include "client/cli/command.h"
#include "client/cli/options.h"
#include "client/cli/tree.h"
#include "proto/limits.h"

struct who {
	const char *probe[SUBSCRIBE_PROBES_MAX];	/* what to ask for instead of the settings' */
	size_t probes;
	const char *filter;
	char *filter_made;		/* the same; NULL: it is the settings' own */
	size_t filter_bytes;		/* of filter_made: those of the settings' own, behind its first */
	struct tree *tree;		/* NULL: every event is wanted */
	bool of_file;			/* and not of what is there now */
	bool shows[TREE_PROBES];	/* asked for by -p: the others come only for the tree */
	struct command *command;	/* NULL: none */
	bool here;			/* the traced host is this one, and /proc is its */
	uint64_t looked_ns;
};

/*
 * A slip of a person is -EINVAL. The command waits. `otherwise`: what to ask for where --tree stands without
 * -p; NULL: of a file, everything.
 */
int who_create(const struct settings *settings, const char *otherwise, struct who *who,
	       struct ringtail_error *error);

/* Ends the command; its status. */
int who_destroy(struct who *who);

/* The column of a refusal, in the filter as it was written. */
void who_place(const struct who *who, struct ringtail_error *error);

/*
 * Connected, and not subscribed yet: who is there already. A process that ends before who_begin() looks again
 * has events all the same.
 */
void who_look(struct who *who, const struct ringtail_host *host);

/* Forks may be among what was lost: who is there now. At most once in WHO_LOOK_NS. */
#define WHO_LOOK_NS	1000000000u
void who_look_again(struct who *who);

/*
 * Connected and subscribed: who is there already. -EINVAL if there is a command, and `host` is another host:
 * it would run here.
 */
int who_begin(struct who *who, const struct ringtail_host *host, struct ringtail_error *error);

/* Whether an event is to be shown. */
bool who_takes(const struct who *who, const struct ringtail_item *event);

#endif
