/*
 * asks: the questions of the configuration (`ask`) at work: each has a watch of its own (watch.h), whose
 * events are counted by their keys (answer.h) and dropped; the answers are metrics.
 *
 *	frame ─► event ─► key ─► answer ─► ringtail_ask_events_total{ask="...", comm="..."}
 *
 * What of a question's stream was lost, and why, is a metric beside them. Main thread.
 */
#ifndef RINGTAIL_DAEMON_ASK_ASKS_H
#define RINGTAIL_DAEMON_ASK_ASKS_H

#include "daemon/ask/watch.h"
#include "daemon/config/config.h"
#include "daemon/metrics/metric.h"

struct asks;

struct asks_config {
	struct ask_watches_config watch;
	bool told;			/* metrics are served or exported */
};

/* NULL: out of memory. What it is given is borrowed for its life. */
struct asks *asks_create(const struct asks_config *config);

/* Before the fanout. NULL is safe. */
void asks_destroy(struct asks *asks);

/*
 * asks_check() says whether these questions can be put in force, and has their probes made as far as that is possible.
 * asks_set() puts them in force; a question that has not changed goes on counting.
 */
int asks_check(const struct asks *asks, const struct config *config, struct error *error);
int asks_set(struct asks *asks, const struct config *config, struct error *error);

/* Adds all answers to the metrics, after it has decided which keys are shown. NULL is safe. */
void asks_tell(struct asks *asks, struct metric_builder *builder);

#endif
