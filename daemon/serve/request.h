/*
 * request: what clients ask for and are told of their streams: the messages, and the plain structs that
 * the rest of the daemon knows. Main thread.
 */
#ifndef RINGTAIL_DAEMON_SERVE_REQUEST_H
#define RINGTAIL_DAEMON_SERVE_REQUEST_H

#include "daemon/stream/subscriber.h"
#include "proto/frame.h"

/* All that the message says, in one piece: free() it. NULL: a cursor that makes no sense, or no memory. */
struct subscribe_request *request_of_subscribe(const Ringtail__V1__Subscribe *message,
					       struct error *error);

/* What an Ack says is dealt with; free() it. NULL: as above. */
struct cursor *request_of_ack(const Ringtail__V1__Ack *message, struct error *error);

/* Where a stream of so many probes begins, and what its client has of it. NULL: out of memory. */
struct frame_ref *request_pack_subscribed(struct frame_codec *codec, const struct run *run,
					  const struct stream *stream, const struct beginning *from,
					  uint32_t probes);

#endif
