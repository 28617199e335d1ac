/*
 * conn_tls_span: how long a certificate is good.
 */
#ifndef RINGTAIL_CLIENT_LIB_CONN_TLS_SPAN_H
#define RINGTAIL_CLIENT_LIB_CONN_TLS_SPAN_H

#include <openssl/types.h>
#include <stdbool.h>
#include <stdint.h>

#include "client/lib/ringtail.h"

/* Seconds since 1970. */
struct conn_tls_span {
	int64_t from_s, until_s;
};

/* False: its times are none. */
bool conn_tls_span_of(const X509 *certificate, struct conn_tls_span *span);

/* Of the first certificate in a PEM file. -errno with *error: there is none. */
int conn_tls_span_of_file(const char *path, struct conn_tls_span *span,
			  struct ringtail_error *error);

#endif
