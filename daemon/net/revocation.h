/*
 * revocation: certificates that their authorities have taken back. In: a file of lists (CRLs); certificates, while hands
 * are shaken and later. Out: whether one is on a list. Main thread.
 *
 * A list that is older than it should be still counts, and the log says so: a fleet must not go dark because a file was
 * not renewed. An authority without a list has taken nothing back.
 */
#ifndef RINGTAIL_DAEMON_NET_REVOCATION_H
#define RINGTAIL_DAEMON_NET_REVOCATION_H

#include <openssl/ssl.h>
#include <stdbool.h>

#include "query/error.h"

/*
 * Adds the file's lists, in PEM, to the authorities that `ssl` believes; each is to be signed by one of them. 0, or
 * -EINVAL with *error.
 */
int revocation_load(SSL_CTX *ssl, const char *path, struct error *error);

/* An SSL_verify_cb, for handshakes of a context with lists: the other side is told that its certificate is revoked. */
int revocation_verify(int good, X509_STORE_CTX *verification);

/* Whether the lists of `ssl` name a certificate of the chain by which the other side of `peer` was believed. */
bool revocation_names(SSL_CTX *ssl, const SSL *peer);

#endif
