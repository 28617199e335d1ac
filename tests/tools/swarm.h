/*
 * swarm.h: what the files of swarm share. swarm.c takes the options, waits for all clients at once
 * and counts; swarm_client.c is what one client does, in each mode; swarm_stream.c what it hears;
 * swarm_strangers.c those who begin TLS.
 */
#ifndef RINGTAIL_TESTS_TOOLS_SWARM_H
#define RINGTAIL_TESTS_TOOLS_SWARM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "proto/frame.h"

#define CLIENTS_MAX	10000
#define CPUS_MAX	64
#define NS_PER_MS	1000000ull
#define RETRY_NS	10000000ull

enum mode { CONNECTED, STREAM, TRICKLE, STORM, SLOWLORIS, STALL, RESET, STRANGERS, MODES };

struct options {
	struct sockaddr_storage address;
	socklen_t address_bytes;
	enum mode mode;
	unsigned clients;
	char *probe;
	const char *filter;
	uint64_t hold_ns;
	unsigned rate;		/* strangers: of all, in a second */
	bool tls;
};

enum state {
	AWAY,			/* comes (again) at due_ns */
	CONNECTING,
	TALKING,
	SUBSCRIBED,
};

struct client {
	int fd;
	enum state state;
	uint64_t due_ns;	/* when it does something by itself; 0: never */
	size_t said, heard;	/* bytes of this connection */
	size_t break_at;	/* reset: after so many heard, or said */
	uint8_t *input;
	size_t input_bytes, input_capacity;
	uint64_t next_seq[CPUS_MAX];
	uint64_t events, lost;
	struct ssl_st *ssl;	/* strangers */
	uint64_t next_ns;	/* strangers: when it comes again */
};

struct counts {
	uint64_t came, subscribed, refused, closed, broken_off, holes, bad_frames, heard_bytes;
	char error[64];
};

/* ---- swarm.c --------------------------------------------------------------------------------- */

extern struct options options;
extern struct client clients[CLIENTS_MAX];
extern struct counts counts;
extern struct frame_codec *codec;
extern int poll_fd;

void die(const char *what);
uint64_t now_ns(void);
uint64_t random_below(uint64_t bound);

/* ---- swarm_client.c -------------------------------------------------------------------------- */

/* What each says, once the options are known. */
void client_make_requests(void);

/* Its socket is ready, for these of epoll's events. */
void client_on_ready(struct client *client, uint32_t events);

/* Its time has come. */
void client_on_due(struct client *client);

/* What it is told of from now on. */
void client_wait_for(struct client *client, bool readable, bool writable);

/* ---- swarm_strangers.c ----------------------------------------------------------------------- */

void strangers_prepare(void);

/* It has gone, or was never there: when it comes. */
uint64_t stranger_next(struct client *client);

/* Its socket is ready. False: the daemon has closed. */
bool stranger_on_ready(struct client *client);

/* ---- swarm_stream.c -------------------------------------------------------------------------- */

/* Some more bytes of input; false: there is no memory for them. */
bool stream_make_room(struct client *client);

/* The whole frames of its input; the rest stays. */
void stream_take_frames(struct client *client);

#endif
