/*
 * conn_connect: a socket to the address, and waiting for it. Nothing is said yet. One thread.
 */
#ifndef RINGTAIL_CLIENT_LIB_CONN_CONNECT_H
#define RINGTAIL_CLIENT_LIB_CONN_CONNECT_H

#include <stdint.h>

#include "client/lib/address.h"
#include "client/lib/ringtail.h"

/* A connected socket that does not block, within CONNECT_TIMEOUT_MS; -errno with *error. */
int conn_connect(const struct address *address, int interrupt_fd, struct ringtail_error *error);

/* 1: ready, 0: time is over, -EINTR: interrupted. deadline_ns of UINT64_MAX: wait for ever. */
int conn_wait_for(int fd, short events, int interrupt_fd, uint64_t deadline_ns);

#endif
