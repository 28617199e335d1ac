/*
 * conn_tls_span: how long a certificate is good.
 */
#include "client/lib/conn_tls_span.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "client/lib/failure.h"

#define DAY_S 86400

static bool seconds_of(const ASN1_TIME *time_of, int64_t *seconds)
{
	time_t epoch = 0;
	ASN1_TIME *from = ASN1_TIME_set(NULL, epoch);
	int days, rest;
	bool good = from && ASN1_TIME_diff(&days, &rest, from, time_of) == 1;

	if (good)
		*seconds = (int64_t)days * DAY_S + rest;
	ASN1_TIME_free(from);
	return good;
}

bool conn_tls_span_of(const X509 *certificate, struct conn_tls_span *span)
{
	bool good = seconds_of(X509_get0_notBefore(certificate), &span->from_s) &&
		    seconds_of(X509_get0_notAfter(certificate), &span->until_s);

	ERR_clear_error();
	return good;
}

int conn_tls_span_of_file(const char *path, struct conn_tls_span *span,
			  struct ringtail_error *error)
{
	FILE *file = fopen(path, "re");
	X509 *certificate;
	int err = 0;

	if (!file)
		return failure_set(error, errno, "no-certificate", "cannot open %s: %s", path,
				   strerror(errno));
	certificate = PEM_read_X509(file, NULL, NULL, NULL);
	fclose(file);
	if (!certificate || !conn_tls_span_of(certificate, span))
		err = failure_set(error, EINVAL, "bad-certificate", "%s holds no certificate in PEM",
				  path);
	X509_free(certificate);
	ERR_clear_error();
	return err;
}
