/*
 * context: what is known of an event's thread beside its name: parent, user, executable file, cgroup,
 * and the container, pod or unit that the cgroup is. One thread.
 */
#ifndef RINGTAIL_CLIENT_CLI_CONTEXT_H
#define RINGTAIL_CLIENT_CLI_CONTEXT_H

#include <stdbool.h>
#include <stdint.h>

#include "client/cli/out.h"
#include "client/lib/ringtail.h"

#define CONTEXT_USERS 64	/* a power of two */

/* Of the users that were asked for last, their names; all zeros at first. */
struct context_users {
	bool asked, here;		/* whether the traced host is this one, whose users we know */
	struct {
		bool known;
		uint32_t uid;
		char name[33];		/* empty: it has none */
	} user[CONTEXT_USERS];
};

/* Whether the daemon was asked to send it. */
static inline bool context_is_there(const struct ringtail_thread *thread)
{
	return thread->exe || thread->cgroup;
}

/* Members of an object, each after a comma. */
void context_put_json(struct out *out, struct context_users *users,
		      const struct ringtail_host *host, const struct ringtail_thread *thread);

/* " [exe=/usr/bin/cat ppid=812 user=root unit=cron.service]" */
void context_put_text(struct out *out, struct context_users *users,
		      const struct ringtail_host *host, const struct ringtail_thread *thread);

#endif
