#include "proto/tls.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static bool seconds_of(const ASN1_TIME *time_of, int64_t *seconds)
{
	ASN1_TIME *from = ASN1_TIME_set(NULL, 0);
	int days, rest;
	bool good = from && ASN1_TIME_diff(&days, &rest, from, time_of) == 1;

	if (good)
		*seconds = (int64_t)days * TLS_DAY_S + rest;
	ASN1_TIME_free(from);
	return good;
}

bool tls_span_of(const X509 *certificate, struct tls_span *span)
{
	bool good = seconds_of(X509_get0_notBefore(certificate), &span->from_s) &&
		    seconds_of(X509_get0_notAfter(certificate), &span->until_s);

	ERR_clear_error();
	return good;
}

/* Nobody is there to be asked for it. */
static int no_passphrase(char *text, int bytes, int writing, void *context)
{
	(void)text, (void)bytes, (void)writing, (void)context;
	return -1;
}

EVP_PKEY *tls_read_key(int fd)
{
	FILE *file = fdopen(fd, "r");
	EVP_PKEY *key;

	if (!file) {
		close(fd);
		return NULL;
	}
	key = PEM_read_PrivateKey(file, NULL, no_passphrase, NULL);
	fclose(file);
	return key;
}

const char *tls_reason(void)
{
	unsigned long first = ERR_peek_error();
	const char *reason = ERR_SYSTEM_ERROR(first) ? strerror(ERR_GET_REASON(first)) :
						       ERR_reason_error_string(ERR_peek_last_error());

	return reason ? reason : "it cannot be read";
}

void tls_clear(void)
{
	ERR_clear_error();
	errno = 0;
}

int tls_judge(const SSL *ssl, int result, bool *wants_write)
{
	int err = errno;

	switch (SSL_get_error(ssl, result)) {
	case SSL_ERROR_WANT_READ:
		*wants_write = false;
		return -EAGAIN;
	case SSL_ERROR_WANT_WRITE:
		*wants_write = true;
		return -EAGAIN;
	case SSL_ERROR_ZERO_RETURN:
		return 0;
	case SSL_ERROR_SYSCALL:
		return err ? -err : -ECONNRESET;
	default:
		return -EPROTO;
	}
}
