/*
 * export_choose: which events are worth a back end's while, when nobody said: slow calls, errors
 * that matter, execs, and exits by a signal or with a status other than 0.
 *
 * The drain workers' filter does the coarse work, so that hardly anything is encoded for nothing;
 * what it cannot say is decided here. docs/exporters.md has the lists. The export thread.
 */
#ifndef RINGTAIL_DAEMON_EXPORT_CHOOSE_H
#define RINGTAIL_DAEMON_EXPORT_CHOOSE_H

#include <stdint.h>

#include "daemon/config/config.h"
#include "query/error.h"
#include "daemon/export/event.h"
#include "daemon/export/run.h"

/* The globs of a subscription that brings what may be chosen. */
extern const char *const export_choose_globs[];
extern const unsigned export_choose_globs_count;

/* The filter of what is exported: what may be chosen, unless export-probe says, and export-filter. */
int export_choose_request(const struct config *config, char filter[FILTER_BYTES_MAX + 1],
			  struct error *error);

/*
 * Whether export-span can be: each names a provider, or a provider and a span, there are programs, and what is not sent
 * is not kept on disk, where no later run could read it. -EINVAL with *error.
 */
int export_choose_check_spans(const struct config *config, struct error *error);

/* The specs of what export-span may mean; their number. free() each. -ENOMEM: there is none. */
#define EXPORT_SPAN_SPECS_MAX	(2 * CONFIG_WORDS_MAX)
int export_choose_spans(const struct config *config, char *spec[EXPORT_SPAN_SPECS_MAX]);

struct export_chooser;

/* events_per_s: what it lets through at most, by the time of events; 0: no bound. NULL: memory. */
struct export_chooser *export_chooser_create(const struct export_host *host,
					     uint64_t events_per_s);
void export_chooser_destroy(struct export_chooser *chooser);

/*
 * Sets the class of an event; they come in the order of time, one run of the rings after another.
 * EXPORT_NOTHING: not to be sent.
 */
void export_choose(struct export_chooser *chooser, struct export_event *event);

/* Whether an event of that time, the one chosen last, may still go out; if so, it is one less. */
bool export_choose_within_rate(struct export_chooser *chooser, uint64_t time_ns);

#endif
