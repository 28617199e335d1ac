/*
 * certificate: certificates and keys of the test's making, signed by whom and valid as long as it says.
 */
#ifndef RINGTAIL_TESTS_CERTIFICATE_H
#define RINGTAIL_TESTS_CERTIFICATE_H

#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <sys/stat.h>

/*
 * The certificate of key `of`, for that name (NULL: for none), signed by key `by`, whose certificate is
 * `issuer`; NULL: it is an authority's own. Valid from `from` to `until`, seconds from now.
 */
static inline X509 *certificate_sign(EVP_PKEY *of, const char *name, EVP_PKEY *by, X509 *issuer,
				     long from, long until)
{
	X509 *certificate = X509_new();
	X509_NAME *subject = X509_get_subject_name(certificate);

	X509_set_version(certificate, 2);
	ASN1_INTEGER_set(X509_get_serialNumber(certificate), 7);
	X509_gmtime_adj(X509_getm_notBefore(certificate), from);
	X509_gmtime_adj(X509_getm_notAfter(certificate), until);
	X509_set_pubkey(certificate, of);
	if (name)
		X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_UTF8, (const uint8_t *)name, -1,
					   -1, 0);
	X509_set_issuer_name(certificate, issuer ? X509_get_subject_name(issuer) : subject);
	if (!issuer) {
		X509_EXTENSION *authority = X509V3_EXT_conf_nid(NULL, NULL, NID_basic_constraints,
								"CA:TRUE");

		X509_add_ext(certificate, authority, -1);
		X509_EXTENSION_free(authority);
	}
	assert_true(X509_sign(certificate, by, EVP_sha256()) > 0);
	return certificate;
}

/* Adds an extension, as `openssl x509v3_config` writes it, and signs it again. */
static inline void certificate_extend(X509 *certificate, EVP_PKEY *by, int nid, const char *value)
{
	X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, NULL, nid, value);

	assert_non_null(extension);
	assert_int_equal(X509_add_ext(certificate, extension, -1), 1);
	X509_EXTENSION_free(extension);
	assert_true(X509_sign(certificate, by, EVP_sha256()) > 0);
}

static inline void certificate_write(const char *path, X509 *certificate)
{
	FILE *file = fopen(path, "w");

	assert_int_equal(PEM_write_X509(file, certificate), 1);
	fclose(file);
}

static inline void certificate_write_key(const char *path, EVP_PKEY *key)
{
	FILE *file = fopen(path, "w");

	assert_int_equal(PEM_write_PrivateKey(file, key, NULL, NULL, 0, NULL, NULL), 1);
	fclose(file);
	assert_int_equal(chmod(path, 0600), 0);
}

#endif
