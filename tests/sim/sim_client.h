/* sim_client: clients as they come: quick, slow, stalling, flaky, rude. Each keeps its place. */
#ifndef RINGTAIL_TESTS_SIM_CLIENT_H
#define RINGTAIL_TESTS_SIM_CLIENT_H

#include <stdbool.h>
#include <stdint.h>

enum client_kind {
	CLIENT_HEALTHY,			/* takes everything at once, and stays */
	CLIENT_SLOW,			/* reads less than there may be */
	CLIENT_STALLS,			/* stops reading, now and then */
	CLIENT_FLAKY,			/* goes without a word, and comes back where it was */
	CLIENT_VISITOR,			/* comes for a while, and says Bye */
	CLIENT_RUDE,			/* sends what is no request, or half of one */
	CLIENT_LATE,			/* a visitor, who asks for what was before it came */
	CLIENT_DURABLE,			/* flaky, but the daemon keeps its place, and what it misses */
	CLIENT_KINDS,
};

struct client;

/* It comes after a while. */
struct client *client_create(unsigned id, enum client_kind kind);

/* From now on all clients behave: who is there stays, and reads all. */
void client_calm_all(void);

/* One that asks for stats, until *done is set by an answer in which nothing was left to do. */
void client_ask_stat(bool quiet, bool *done);

/* One that enables or disables what is always on, gives up a consumer, or looks; if none is there. */
void client_ask_change(void);

/* A healthy client that has not seen the Bye of that run of the daemon, or NULL. */
const char *client_unserved(unsigned run);
void client_summary(void);

/* The largest bound on what may wait that a client can have met. */
void client_note_queue_bytes(uint64_t bytes);

#endif
