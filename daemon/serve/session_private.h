/* session_private: a session's inside, for session*.c alone. */
#ifndef RINGTAIL_DAEMON_SERVE_SESSION_PRIVATE_H
#define RINGTAIL_DAEMON_SERVE_SESSION_PRIVATE_H

#include <sys/queue.h>

#include "daemon/net/turnstile.h"
#include "daemon/serve/session.h"

#define INPUT_BYTES_FIRST 1024u	/* of a session's input; larger requests make it grow */

struct answer {
	STAILQ_ENTRY(answer) link;
	struct frame_ref *frame;
	bool reply;			/* to a request; else the stream tells of a gap */
};

enum session_state {
	SESSION_SHAKING,		/* hands, in TLS: nothing can be said yet */
	SESSION_NEW,			/* no hello yet */
	SESSION_READY,
	SESSION_CLOSING,		/* refused, or said Bye: answers are still sent, input is not heeded */
};

struct session {
	struct session_config config;
	struct transport *transport;
	struct client_identity identity;
	uint64_t id;
	enum session_state state;
	bool subscribing;		/* asked for a stream, whether it is there yet or not */
	bool changing;			/* asked for a change; requests wait until it is answered */
	bool orderly;			/* said Bye */
	bool turned_away;		/* refused while shaking hands: told so once they are shaken */
	bool broken;			/* the socket is, or memory ran out: to be closed */
	bool write_waits_for_read;	/* TLS has to hear something before it can go on */
	uint64_t active_ns;		/* when it last asked, or took, or had nothing to take */
	uint64_t deadline_ns;		/* of `timeout` */
	bool excused;			/* it passed while the daemon was held up, and was moved */
	char peer[128];
	char software[64];
	struct event *readable, *writable, *timeout, *stat_timer;
	struct turnstile_place turn;	/* to shake hands */

	uint8_t *input;
	size_t input_bytes, input_capacity, input_wanted;
	uint64_t requests;

	/* Out, in this order: a frame sent in part, answers, the stream's frames. */
	size_t part_sent;		/* of the first answer, or of stream->begun */
	bool part_is_stream;
	STAILQ_HEAD(, answer) answers;
	unsigned replies;		/* of these */
	struct stream *stream;
	uint64_t wire_bytes, frames;
};

struct timeval session_timeval(uint64_t ns);
void session_arm(struct session *session, uint64_t ns);
void session_shake_hands(struct session *session);
void session_take_turn(void *session);
void session_close_soon(struct session *session);
void session_refuse_fatal(struct session *session, const char *code, const char *what,
			  const char *hint);
void session_on_stat(evutil_socket_t fd, short what, void *context);
void session_on_writable(evutil_socket_t fd, short what, void *context);
void session_on_readable(evutil_socket_t fd, short what, void *context);
void session_take_requests(struct session *session);
void session_break(struct session *session);
void session_write_out(struct session *session);
void session_hear_last(struct session *session);
void session_free(struct session *session);

#endif
