/*
 * tls_place: a directory with what a daemon needs for TLS, the authority behind it, and clients of
 * OpenSSL's own.
 */
#ifndef RINGTAIL_TESTS_TLS_PLACE_H
#define RINGTAIL_TESTS_TLS_PLACE_H

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <stdlib.h>
#include <unistd.h>

#include "daemon/net/transport.h"
#include "tests/lib/certificate.h"

struct place {
	char directory[64], cert[96], key[96], ca[96];
	EVP_PKEY *authority, *mine;
	X509 *authority_cert;
};

/* The daemon's certificate is valid from and until then, in seconds from now. */
static inline void place_open(struct place *place, long from, long until)
{
	X509 *certificate;

	snprintf(place->directory, sizeof(place->directory), "/tmp/ringtail-tls-XXXXXX");
	assert_non_null(mkdtemp(place->directory));
	snprintf(place->cert, sizeof(place->cert), "%s/cert", place->directory);
	snprintf(place->key, sizeof(place->key), "%s/key", place->directory);
	snprintf(place->ca, sizeof(place->ca), "%s/ca", place->directory);
	place->authority = EVP_EC_gen("P-256");
	place->mine = EVP_EC_gen("P-256");
	place->authority_cert = certificate_sign(place->authority, "authority", place->authority,
						 NULL, -60, 3600);
	certificate = certificate_sign(place->mine, "server", place->authority,
				       place->authority_cert, from, until);
	certificate_write(place->cert, certificate);
	certificate_write(place->ca, place->authority_cert);
	certificate_write_key(place->key, place->mine);
	X509_free(certificate);
}

static inline void place_close(struct place *place)
{
	unlink(place->cert);
	unlink(place->key);
	unlink(place->ca);
	assert_int_equal(rmdir(place->directory), 0);
	EVP_PKEY_free(place->authority);
	EVP_PKEY_free(place->mine);
	X509_free(place->authority_cert);
}

static inline struct transport_tls_context *place_context(const struct place *place, bool optional)
{
	struct transport_tls_files files = {.cert = place->cert, .key = place->key, .client_ca = place->ca,
					    .cert_optional = optional};
	struct transport_tls_context *context;
	struct error error;

	if (transport_tls_context_create(&files, &context, &error) != 0)
		fail_msg("%s", error.what);
	return context;
}

/* A client with a certificate of that name, by that authority; NULL: without one. */
static inline SSL *place_client(const struct place *place, const char *name, EVP_PKEY *authority,
				int fd)
{
	SSL_CTX *context = SSL_CTX_new(TLS_client_method());
	SSL *ssl;

	if (name) {
		EVP_PKEY *key = EVP_EC_gen("P-256");
		X509 *certificate = certificate_sign(key, *name ? name : NULL, authority,
						     place->authority_cert, -60, 3600);

		assert_int_equal(SSL_CTX_use_certificate(context, certificate), 1);
		assert_int_equal(SSL_CTX_use_PrivateKey(context, key), 1);
		X509_free(certificate);
		EVP_PKEY_free(key);
	}
	ssl = SSL_new(context);
	SSL_CTX_free(context);
	SSL_set_fd(ssl, fd);
	return ssl;
}

#endif
