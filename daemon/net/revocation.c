#include "daemon/net/revocation.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509_vfy.h>
#include <stdio.h>
#include <string.h>

#include "daemon/base/limits.h"
#include "daemon/base/log.h"

/* For questions about what a store has. NULL: out of memory. */
static X509_STORE_CTX *ask(SSL_CTX *ssl)
{
	X509_STORE_CTX *asking = X509_STORE_CTX_new();

	if (asking && X509_STORE_CTX_init(asking, SSL_CTX_get_cert_store(ssl), NULL, NULL) == 1)
		return asking;
	X509_STORE_CTX_free(asking);
	return NULL;
}

/* ---- Lists ----------------------------------------------------------------------------------- */

/* By an authority that is believed. */
static bool is_signed(SSL_CTX *ssl, X509_CRL *list)
{
	X509_STORE_CTX *asking = ask(ssl);
	STACK_OF(X509) *authorities = asking ? X509_STORE_CTX_get1_certs(asking, X509_CRL_get_issuer(list)) : NULL;
	bool good = false;

	for (int i = 0; !good && i < sk_X509_num(authorities); i++)
		good = X509_CRL_verify(list, X509_get0_pubkey(sk_X509_value(authorities, i))) == 1;
	sk_X509_pop_free(authorities, X509_free);
	X509_STORE_CTX_free(asking);
	return good;
}

static void look_at_time(const X509_CRL *list, const char *path)
{
	const ASN1_TIME *next = X509_CRL_get0_nextUpdate(list);

	if (next && X509_cmp_current_time(next) < 0)
		log_warn("tls-crl-old", "a list of tls-crl %s should have been replaced by now: it counts all the same;"
			 " put a new one there, and systemctl reload ringtaild", path);
}

/* What is wrong; NULL: nothing. */
static const char *add(SSL_CTX *ssl, X509_CRL *list, const char *path)
{
	if (!is_signed(ssl, list))
		return "no authority of tls-client-ca has signed one of its lists";
	if (X509_STORE_add_crl(SSL_CTX_get_cert_store(ssl), list) != 1)
		return "out of memory";
	look_at_time(list, path);
	return NULL;
}

/* So says PEM where a file has no more. */
static bool is_at_end(void)
{
	unsigned long reason = ERR_peek_last_error();

	return ERR_GET_LIB(reason) == ERR_LIB_PEM && ERR_GET_REASON(reason) == PEM_R_NO_START_LINE;
}

static const char *add_all(SSL_CTX *ssl, FILE *file, const char *path)
{
	const char *wrong = NULL;
	unsigned lists = 0;
	X509_CRL *list;

	ERR_clear_error();
	while (!wrong && (list = PEM_read_X509_CRL(file, NULL, NULL, NULL))) {
		wrong = ++lists > REVOCATION_LISTS_MAX ? "it has too many lists" : add(ssl, list, path);
		X509_CRL_free(list);
	}
	if (!wrong && !is_at_end())
		wrong = "it is damaged";
	if (!wrong && !lists)
		wrong = "it has no list";
	ERR_clear_error();
	return wrong;
}

int revocation_load(SSL_CTX *ssl, const char *path, struct error *error)
{
	FILE *file = fopen(path, "re");
	const char *wrong = file ? add_all(ssl, file, path) : strerror(errno);

	if (file)
		fclose(file);
	if (!wrong)
		return 0;
	error_set(error, EINVAL, "tls-crl", "cannot use the lists of tls-crl %.200s: %s", path, wrong);
	error_hint(error, "it is to be one or more certificate revocation lists (CRL) in PEM, readable to the daemon's"
			  " user");
	return -EINVAL;
}

/* ---- Certificates ---------------------------------------------------------------------------- */

static bool is_named(X509_STORE_CTX *asking, X509 *certificate)
{
	STACK_OF(X509_CRL) *lists = X509_STORE_CTX_get1_crls(asking, X509_get_issuer_name(certificate));
	X509_REVOKED *entry;
	bool named = false;

	/* 2: a later list takes the revocation back. */
	for (int i = 0; !named && i < sk_X509_CRL_num(lists); i++)
		named = X509_CRL_get0_by_cert(sk_X509_CRL_value(lists, i), &entry, certificate) == 1;
	sk_X509_CRL_pop_free(lists, X509_CRL_free);
	return named;
}

int revocation_verify(int good, X509_STORE_CTX *verification)
{
	X509 *certificate = X509_STORE_CTX_get_current_cert(verification);

	if (!good || !certificate || !is_named(verification, certificate))
		return good;
	X509_STORE_CTX_set_error(verification, X509_V_ERR_CERT_REVOKED);
	return 0;
}

bool revocation_names(SSL_CTX *ssl, const SSL *peer)
{
	STACK_OF(X509) *chain = SSL_get0_verified_chain(peer);
	X509_STORE_CTX *asking = sk_X509_num(chain) > 0 ? ask(ssl) : NULL;
	bool named = false;

	for (int i = 0; asking && !named && i < sk_X509_num(chain); i++)
		named = is_named(asking, sk_X509_value(chain, i));
	X509_STORE_CTX_free(asking);
	return named;
}
