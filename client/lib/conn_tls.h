/*
 * conn_tls: our side of TLS 1.3 on a connected nonblocking socket. The daemon is always verified: its
 * chain, and the name that it is called by. One thread.
 */
#ifndef RINGTAIL_CLIENT_LIB_CONN_TLS_H
#define RINGTAIL_CLIENT_LIB_CONN_TLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "client/lib/address.h"
#include "client/lib/ringtail.h"

struct conn_tls;
struct tls_span;

/* `fd` is borrowed. Reads the files of the address' trust; *error says what is wrong with them. */
int conn_tls_create(int fd, const struct address *address, struct conn_tls **tls,
		    struct ringtail_error *error);
void conn_tls_destroy(struct conn_tls *tls);

/* 0; -EAGAIN: poll for conn_tls_wanted(); or -errno with *error: the daemon is not trusted. */
int conn_tls_shake(struct conn_tls *tls, struct ringtail_error *error);

/* As read(2) and send(2), with errno; EAGAIN: poll for conn_tls_wanted(). */
ssize_t conn_tls_read(void *tls, void *bytes, size_t n);
ssize_t conn_tls_write(struct conn_tls *tls, const void *bytes, size_t n);

/* POLLIN or POLLOUT. */
short conn_tls_wanted(const struct conn_tls *tls);

/* There is something to be read that poll(2) does not know of. */
bool conn_tls_pending(const struct conn_tls *tls);

/* How long the daemon's certificate is good, believed or not; false: none has come. */
bool conn_tls_peer_span(const struct conn_tls *tls, struct tls_span *span);

/* Where a read failed because the daemon refused us in TLS: *error says so, and true. */
bool conn_tls_refused(const struct conn_tls *tls, struct ringtail_error *error);

/* Of the first certificate in a PEM file. -errno with *error: there is none. */
int conn_tls_span_of_file(const char *path, struct tls_span *span,
			  struct ringtail_error *error);

#endif
