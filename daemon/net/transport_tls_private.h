/* transport_tls_private: what connections share, known to transport_tls*.c alone. */
#ifndef RINGTAIL_DAEMON_NET_TRANSPORT_TLS_PRIVATE_H
#define RINGTAIL_DAEMON_NET_TRANSPORT_TLS_PRIVATE_H

#include <openssl/ssl.h>
#include <stdint.h>

struct transport_tls_context {
	SSL_CTX *ssl;
	int64_t expires_s;	/* our certificate, since 1970 */
};

#endif
