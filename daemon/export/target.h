/*
 * export_target: where to export to, as the options say: `export = loki:http://host:3100`, and the
 * headers that go along, some of them secrets out of files. Read at the start, before the daemon
 * gives up what it may do. Main thread.
 */
#ifndef RINGTAIL_DAEMON_EXPORT_TARGET_H
#define RINGTAIL_DAEMON_EXPORT_TARGET_H

#include "daemon/config/config.h"
#include "daemon/export/kind.h"
#include "daemon/base/limits.h"
#include "daemon/host/privileges.h"

#define EXPORT_NAME_BYTES 256

struct export_target {
	const struct export_kind *kind;
	char *url;			/* whole, with a path */
	char name[EXPORT_NAME_BYTES];	/* for people: kind and URL as given */
	char consumer[64];		/* of the durable consumer: kind and hash of the URL */
	char *header[CONFIG_WORDS_MAX];
	unsigned headers;
};

struct export_targets {
	struct export_target target[EXPORTS_MAX];
	unsigned count;
};

/*
 * For a daemon that is to be that user. -EINVAL: an option is wrong; -EACCES, ...: a file that one
 * names cannot be read. Nothing is left then.
 */
int export_targets_read(const struct config *config, const struct account *account,
			struct export_targets *targets, struct error *error);
/* Whether any of them is sent metrics. */
bool export_targets_take_metrics(const struct export_targets *targets);

void export_targets_free(struct export_targets *targets);

#endif
