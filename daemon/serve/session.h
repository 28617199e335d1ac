/*
 * session: one connected client.
 *
 * In: its requests, as bytes of a transport; answers from its host; its stream's frames. Out: the same,
 * as plain structs and as bytes. Main thread.
 *
 * It reads at most one request at a time into a bounded buffer, answers from its host (struct
 * session_host), and writes its stream's frames as fast as the socket takes them. Whatever a client
 * does wrong ends that client's session, with an Error frame that says why, and nobody else's.
 */
#ifndef RINGTAIL_DAEMON_SERVE_SESSION_H
#define RINGTAIL_DAEMON_SERVE_SESSION_H

#include <event2/event.h>
#include <stdbool.h>
#include <stdint.h>

#include "query/error.h"
#include "daemon/base/frame_ref.h"
#include "daemon/host/identity.h"
#include "daemon/stream/subscriber.h"
#include "daemon/net/transport.h"
#include "proto/ringtail.pb-c.h"

struct allowance;
struct session;
struct turnstile;

/* What is always on is to change so. */
struct change_request {
	char *const *enable, *const *disable;
	size_t enables, disables;
	const Ringtail__V1__Flag *flag;		/* with what is enabled */
	size_t flags;
};

/* What sessions need of the rest of the daemon. Answers are frames the session takes over. */
struct session_host {
	void *context;

	/* The transport is ready: sets the client's identity. -errno with *error refuses the client. `client` is the
	 * config's. */
	int (*identify)(void *context, void *client, const struct transport *transport,
			struct client_identity *identity, struct error *error);

	/* It said hello, with a token or an empty one: may it come in? -errno with *error refuses. */
	int (*admit)(void *context, struct session *session, const char *token,
		     struct error *error);

	struct frame_ref *(*hello)(void *context, struct session *session);
	struct frame_ref *(*list)(void *context, struct session *session,
				  const Ringtail__V1__ListRequest *request, struct error *error);
	struct frame_ref *(*stat)(void *context, const char *consumer);
	struct frame_ref *(*probes)(void *context);

	/*
	 * Before a request that names these probes: 0, or 1 if they are being made, and session_go_on()
	 * follows; or -errno with *error.
	 */
	int (*prepare)(void *context, struct session *session, char *const *probe, size_t probes,
		       bool again, struct error *error);

	/* Its stream begins there. -ENOMEM: it does not; else session_subscribed() was called. */
	int (*live)(void *context, struct session *session, struct stream *stream,
		    const struct beginning *from);

	/*
	 * 0: live() or session_refuse() follows, perhaps at once; or -errno with
	 * *error. The message is borrowed for the call.
	 */
	int (*subscribe)(void *context, struct session *session,
			 const Ringtail__V1__Subscribe *subscribe, struct error *error);
	int (*ack)(void *context, struct session *session, const Ringtail__V1__Ack *ack,
		   struct error *error);

	/* session_answer() follows, later or at once; the request is borrowed. */
	void (*change)(void *context, struct session *session,
		       const struct change_request *request);
	void (*forget)(void *context, struct session *session, const char *consumer);
	void (*stuck)(void *context, struct session *session,
		      const Ringtail__V1__StuckRequest *request);

	void (*dumps)(void *context, struct session *session,
		      const Ringtail__V1__DumpsRequest *request);

	/* Hosts of a relay, behind that one; "": from the first on. NULL with *error. */
	struct frame_ref *(*hosts)(void *context, const char *after, struct error *error);

	/* The session is about to be freed. orderly: the client will not come back for its stream. */
	void (*closed)(void *context, struct session *session, bool orderly);

	/*
	 * Whether a program may yet bring a probe of it. 1: *error, unless that is NULL, says which, and session_go_on()
	 * follows. 0: none may. -errno with *error: the request is refused. NULL: none ever may.
	 */
	int (*awaits)(void *context, struct session *session, const Ringtail__V1__Subscribe *subscribe,
		      struct error *error);

	/* session_answer() or session_hand_over() follows, later or at once. */
	void (*reach)(void *context, struct session *session, const char *host);

	/* Its relay asks this host to dial, for a client; the request is borrowed. */
	void (*dial)(void *context, struct session *session, const Ringtail__V1__Dial *request);
};

/* What a reload may change under a session's feet. */
struct session_bounds {
	uint64_t tls_timeout_ns, hello_timeout_ns, silence_timeout_ns;
	bool disconnect;		/* a client that lags more than its queue, instead of dropping */
};

struct session_config {
	struct event_base *base;
	const struct session_host *host;
	const struct session_bounds *bounds;	/* borrowed */
	struct frame_codec *codec;
	void *client;				/* whatever the host knows it by */
	struct turnstile *turnstile;		/* where it waits to shake hands; NULL: it does not */
	struct allowance *allowance;		/* of what it may write; borrowed; NULL: any number of bytes */
};

/*
 * Owns the transport, and begins its handshake. `peer` is its name in messages; copied. NULL: out of memory; then the
 * transport is destroyed, and the host is not called.
 */
struct session *session_create(const struct session_config *config, struct transport *transport,
			       uint64_t id, const char *peer);

/* Ends it at once, and calls the host. */
void session_destroy(struct session *session, bool orderly);

/*
 * Ends a session that has not received a hello, and sends the error if the socket takes it at once. False: its
 * handshake has not ended; it sends the error after that, and then ends by itself.
 */
bool session_turn_away(struct session *session, const struct error *error);

/* Sends a frame, taking it over, before what the stream has next. */
void session_send(struct session *session, struct frame_ref *frame);

/* The subscription stands: frames catalog and subscribed go first, then the stream's. */
void session_subscribed(struct session *session, struct stream *stream, struct frame_ref *catalog,
			struct frame_ref *subscribed);

/* Sends an Error frame; a fatal one closes the session once it is sent. */
void session_refuse(struct session *session, const struct error *error, bool fatal);

/* What it asked for may have been made: it tries again. */
void session_go_on(struct session *session);

/* Ends the wait of a change: the answer, taken over, or NULL and why not. */
void session_answer(struct session *session, struct frame_ref *answer, const struct error *error);

/*
 * Ends the wait of a client that asked for a host: its transport, with nothing under way on it, is the caller's, and
 * the session is freed. NULL: it was refused, for it has spoken before its answer, and goes on until it is told so.
 */
struct transport *session_hand_over(struct session *session);

/* The stream has something new. May free the session. */
void session_wake(struct session *session);

/* For `ns` the daemon was held up: its deadlines move on by as much. */
void session_excuse(struct session *session, uint64_t ns, uint64_t now_ns);

/* Refuses one that has been silent for longer than it may. */
void session_check_silence(struct session *session, uint64_t now_ns);

/* Whether everything is written that is at hand. */
bool session_idle(const struct session *session);

/* And nothing is still to come off the disk, or out of another's record: its client has all that it can have. */
bool session_flushed(const struct session *session);

/* As which the session gets its stream. */
struct subscriber *session_subscriber(struct session *session);
struct stream *session_stream(const struct session *session);

/* Something waits to be written, and its allowance is used up. */
bool session_held_back(const struct session *session);
struct client_identity *session_identity(struct session *session);
void *session_client(const struct session *session);
const struct transport *session_transport(const struct session *session);
uint64_t session_id(const struct session *session);
const char *session_peer(const struct session *session);
const char *session_name(const struct session *session);	/* its identity's, as "cert:alice" */
const char *session_software(const struct session *session);
uint64_t session_wire_bytes(const struct session *session);
uint64_t session_frames(const struct session *session);

#endif
