/*
 * host: what a ServerHello says of the traced host.
 */
#ifndef RINGTAIL_CLIENT_LIB_HOST_H
#define RINGTAIL_CLIENT_LIB_HOST_H

#include "client/lib/ringtail.h"
#include "proto/ringtail.pb-c.h"

/* -EBADMSG with *error: another version of the protocol, or not a hello that makes sense. */
int host_from_hello(const Ringtail__V1__ServerHello *hello, struct ringtail_host *host,
		    struct ringtail_error *error);

/* Tells an Error of the daemon; returns -EPROTO. */
int host_error(const Ringtail__V1__Error *told, struct ringtail_error *error);

#endif
