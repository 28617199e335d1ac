/*
 * tls: what daemon and client both ask of OpenSSL: a key from a file, how long a certificate is good, and what the
 * result of a call means. Any thread, each with connections of its own.
 */
#ifndef RINGTAIL_PROTO_TLS_H
#define RINGTAIL_PROTO_TLS_H

#include <openssl/ssl.h>
#include <stdbool.h>
#include <stdint.h>

#define TLS_DAY_S		86400
#define TLS_EXPIRES_SOON_DAYS	30	/* from then on, daemon and client warn */

struct tls_span {
	int64_t from_s, until_s;	/* since 1970 */
};

/* False: its times are none. */
bool tls_span_of(const X509 *certificate, struct tls_span *span);

/* The private key in PEM in that file; closes fd. NULL: there is none, or it has a passphrase. */
EVP_PKEY *tls_read_key(int fd);

/* Why the last call failed, as a person reads it. */
const char *tls_reason(void);

/* Before an I/O call: what others left in errno and in the error queue is not this call's. */
void tls_clear(void);

/*
 * What the result of an I/O call means, which failed; tls_clear() was called before it. -EAGAIN: call
 * again when the socket can be read, or written if *wants_write; 0: the end of the stream; else -errno.
 */
int tls_judge(const SSL *ssl, int result, bool *wants_write);

#endif
