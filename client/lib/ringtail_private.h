/* ringtail_private: a handle's inside, for ringtail*.c alone. */
#ifndef RINGTAIL_CLIENT_LIB_RINGTAIL_PRIVATE_H
#define RINGTAIL_CLIENT_LIB_RINGTAIL_PRIVATE_H

#include "client/lib/address.h"
#include "client/lib/backoff.h"
#include "client/lib/conn.h"
#include "client/lib/cursor.h"
#include "client/lib/intake.h"
#include "client/lib/ringtail.h"
#include "client/lib/selection.h"
#include "client/lib/subscription.h"

struct ringtail {
	enum state {
		CONNECTED,		/* frames may come */
		LEAVING,		/* only those that have come already, up to arrived_end */
		DRAINING,		/* no more frames; items still wait; then `last` */
		WAITING,		/* between two tries to connect */
		OVER,			/* `last` for ever */
	} state;
	enum ringtail_kind last;
	bool is_file;
	bool lost_told;			/* RINGTAIL_DISCONNECTED was given out */
	struct address address;
	struct conn *conn;		/* NULL while waiting */
	struct intake *intake;
	struct subscription *subscription;
	struct selection *selection;	/* of a file; NULL: every event */
	struct backoff backoff;
	uint64_t retry_ns, give_up_ns;
	uint64_t arrived_end;		/* byte of the connection's stream */
	int interrupt_fd;
	void (*tap)(void *context, const uint8_t *frame, size_t bytes);
	void *tap_context;
	struct ringtail_error error;
	uint8_t hello[4096];		/* the first frame, for a tap that is set later */
	size_t hello_bytes;
	struct cursor cursor;
};

/* ringtail.c */

/* Connects, and takes frames up to the daemon's hello. */
int ringtail_greet(struct ringtail *ringtail, struct ringtail_error *error);

/* Takes frames until the intake has reached the phase; whatever else comes first is an error. */
int ringtail_await(struct ringtail *ringtail, enum intake_phase phase, const char *what,
		   struct ringtail_error *error);

/* No more frames: what waits is given out, and then `last` for ever. */
void ringtail_end_with(struct ringtail *ringtail, enum ringtail_kind last);

/* How long poll(2) and conn_wait() may wait; -1: for ever. */
int ringtail_left_ms(uint64_t deadline_ns);

/* ringtail_reconnect.c */

/* It is closed, and tried again from now on. */
void ringtail_lose_connection(struct ringtail *ringtail);

/* Waits for the next try and makes it; any kind but RINGTAIL_EVENT is to be given out. */
enum ringtail_kind ringtail_wait_and_retry(struct ringtail *ringtail, uint64_t deadline_ns);

/* The daemon said goodbye: for good, or as one that is being restarted. */
void ringtail_take_leave(struct ringtail *ringtail, bool retries);

#endif
