/*
 * handle: one CPU's ring as a source hands it out: descriptors, and what of them to map.
 */
#ifndef RINGTAIL_DAEMON_RING_HANDLE_H
#define RINGTAIL_DAEMON_RING_HANDLE_H

#include <stdint.h>

/* The descriptors stay the source's. */
struct ring_handle {
	uint32_t cpu;
	int ring_fd;			/* producer page, data, slack: mapped read-only */
	uint64_t ring_offset;
	uint64_t ring_bytes;		/* of the whole mapping */
	int consumer_fd;		/* consumer page: mapped read-write */
	uint64_t consumer_offset;
	int bell_fd;			/* readable when the bell was rung */
	enum ring_bell {
		RING_BELL_EVENTFD,	/* read(2) answers it */
		RING_BELL_BPF_RINGBUF,	/* advancing its consumer position answers it */
		RING_BELL_POLL,		/* the poll itself answers it */
	} bell;
};

#endif
