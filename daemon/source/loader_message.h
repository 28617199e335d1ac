/*
 * loader_message: what loader and engine send to each other, one SOCK_SEQPACKET packet each. Both are
 * the same binary, forked: the structs need no encoding. Neither end believes the other: an engine that
 * was taken over must not get further than the loader's few messages. So the receiver checks size,
 * kind, sender, number of descriptors and the end of each text before anybody looks at a message.
 */
#ifndef RINGTAIL_DAEMON_SOURCE_LOADER_MESSAGE_H
#define RINGTAIL_DAEMON_SOURCE_LOADER_MESSAGE_H

#include <stdint.h>

#include "daemon/base/descriptor.h"
#include "daemon/host/service_manager.h"
#include "query/error.h"
#include "daemon/source/source.h"
#include "proto/limits.h"

/* Which end sends it, and with how many descriptors, is a row in loader_message.c. */
enum loader_message_type {
	LOADER_MSG_RING,	/* loader: with 3 descriptors: ring, consumer, bell */
	LOADER_MSG_READY,	/* loader: with memfds: of the catalog, of what it offers to make */
	LOADER_MSG_FAILED,	/* loader: the source did not open */
	LOADER_MSG_CONFIGURE,	/* engine */
	LOADER_MSG_CONFIGURED,	/* loader */
	LOADER_MSG_ASK_STATS,	/* engine */
	LOADER_MSG_STATS,	/* loader */
	LOADER_MSG_FINISHED,	/* loader */
	LOADER_MSG_KEEP,	/* loader: with a descriptor for the service manager's store */
	LOADER_MSG_DROP,	/* loader: out of the store; with a barrier, or without */
	LOADER_MSG_MAKE,	/* engine: probes by name */
	LOADER_MSG_MADE,	/* loader: with a memfd of the new ones, or why not */
	LOADER_MSG_ARRIVED,	/* loader: with a memfd of probes that nobody has asked for */
	LOADER_MSG_ASK_STUCK,	/* engine */
	LOADER_MSG_STUCK,	/* loader: with the threads' memfd, or why there is none */
	LOADER_MSG_JOINED,	/* engine: all that was configured is read; no answer */
	LOADER_MSG_TYPES
};

enum loader_end {
	LOADER_END_ENGINE,
	LOADER_END_LOADER,
};

#define LOADER_MESSAGE_FDS_MAX DESCRIPTORS_MAX

#define LOADER_PROVIDERS_BYTES 128	/* the first parts of what can be made, with spaces between */

struct loader_failure {
	int32_t err;
	char code[48];
	char what[ERROR_TEXT_BYTES];
	char hint[ERROR_TEXT_BYTES];
};

struct loader_message {
	uint32_t type;
	union {
		struct ring_handle ring;
		struct {
			uint64_t catalog_bytes, offers_bytes;
			char source[16];
			char providers[LOADER_PROVIDERS_BYTES];
			uint32_t adopted;
			struct loader_failure why_not;	/* err 0: there was nothing to adopt */
		} ready;
		char name[ACTIVATION_NAME_BYTES];
		struct source_request configure;
		struct {
			uint64_t generation;
			struct loader_failure failure;	/* err 0: done */
		} configured;
		char make[NAME_BYTES_MAX + 1];
		struct {
			char spec[NAME_BYTES_MAX + 1];
			uint64_t bytes;			/* of a Catalog; 0: none is new, nothing comes along */
			struct loader_failure failure;	/* err 0: done */
		} made;
		uint64_t arrived_bytes;			/* of a Catalog */
		struct loader_failure failed;
		struct {
			struct source_stats figures;
			int32_t err;			/* below 0: some of them are missing */
		} stats;
		uint64_t stuck_longer_than_ns;
		struct {
			struct source_stuck answer;
			struct loader_failure failure;	/* err 0: done */
		} stuck;
	};
};

/* 0 or -errno; a message is sent whole or not at all. fds may be NULL with n 0. */
int loader_message_send(int socket, const struct loader_message *message, const int *fds,
			unsigned n);

/*
 * 1 with a message of that sender, 0 at the other end's end, -EAGAIN, or -errno. Descriptors that came
 * along are the caller's: *n of them, as many as the kind of message has, at most
 * LOADER_MESSAGE_FDS_MAX. A packet that is not such a message is -EPROTO: every descriptor that came
 * with it is closed, *n is 0, and the caller ends the conversation.
 */
int loader_message_receive(int socket, enum loader_end sender, struct loader_message *message,
			   int *fds, unsigned *n, int flags);

/*
 * The loader process: serves the socket until its other end closes. `kept`: what an earlier run left
 * in a store; NULL: there is no store. Returns the exit status.
 */
int loader_serve(int socket, const char *name, struct source_config *config,
		 struct activation *kept);

#endif
