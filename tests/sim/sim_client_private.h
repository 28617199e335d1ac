/* sim_client_private: the inside of a client, shared by the sim_client*.c alone. */
#ifndef RINGTAIL_TESTS_SIM_CLIENT_PRIVATE_H
#define RINGTAIL_TESTS_SIM_CLIENT_PRIVATE_H

#include "proto/frame.h"
#include "proto/limits.h"
#include "tests/sim/oracle.h"
#include "tests/sim/sim.h"
#include "tests/sim/sim_client.h"

#define CLIENT_INPUT_BYTES (FRAME_HEADER_BYTES + FRAME_BODY_BYTES_MAX)

struct client {
	char name[24];
	enum client_kind kind;
	unsigned spec;
	bool strings, context;		/* it asks for them */
	struct sim_link link;
	struct sim_conn *conn;
	uint64_t connection;		/* grows: what was planned for an earlier one is void */
	struct oracle_span span;
	struct oracle_cursor cursor;	/* of the last span; kept by those who come back */
	struct oracle_cursor since;	/* asked for in this one */
	struct oracle_cursor acked;	/* a durable one's */
	const struct loader *section;	/* what comes now is of this run */
	const struct loader *loader;	/* connected to, */
	unsigned run;			/* and the run of the daemon */
	uint64_t asked_ns;		/* since when, of a late one; 0: since now */
	uint64_t read_bytes, read_pause_ns, stalled_until_ns;
	unsigned bye_run;		/* that ended before its eyes */
	bool reading, stat_only, quiet;
	bool operates, busy;		/* asks for a change; it is on its way */
	bool registered;		/* as a durable consumer, and told so */
	bool given_up;			/* somebody asked for that: it may come about any time */
	struct oracle_cursor told;	/* the last place that the daemon said it had acknowledged, */
	unsigned told_by;		/* in that run */
	bool begun, whole;		/* something came of the stream; nothing is said to miss */
	bool ending;			/* the daemon has closed; there is still something to read */
	bool *done;
	size_t input_bytes;
	uint8_t input[CLIENT_INPUT_BYTES];
};

struct frame_codec *client_codec(void);
uint64_t client_queue_bytes_max(void);

/* Later, unless the connection is another one by then. */
void client_plan(struct client *client, uint64_t ns, void (*act)(struct client *client));

void client_hang_up(struct client *client, bool reset);
void client_ask(struct client *client);
void client_acknowledge(struct client *client);

/* Takes one frame off the front of the input. False: there is none, or the client has gone. */
bool client_take_frame(struct client *client);

#endif
