/*
 * relayed: carries the frames of all hosts of a relay to Kafka. In: a relay's stream: each frame with its host. Out:
 * records of PREFIX.frames and PREFIX.runs, each with its host as the key; for each host, how many frames Kafka has
 * confirmed, to the relay.
 *
 * Each host has a window of its own, so one that Kafka does not take is in no other's way. If the relay is gone, what
 * is not confirmed is given up: its agents have it still, and send it to the next relay. Main thread, one loop.
 */
#ifndef RINGTAIL_COURIER_RELAYED_H
#define RINGTAIL_COURIER_RELAYED_H

#include <stdio.h>

#include "courier/courier.h"

struct relayed;

/* Looks at the brokers and their topics, then connects to the relay. -errno with *error. */
int relayed_create(const struct courier_settings *settings, struct relayed **relayed, struct ringtail_error *error);

/* Until SIGTERM or SIGINT: 0. -errno with *error. SIGUSR1 prints the ledger to `ledger`, and so does the end. */
int relayed_run(struct relayed *relayed, FILE *ledger, struct ringtail_error *error);
void relayed_destroy(struct relayed *relayed);

#endif
