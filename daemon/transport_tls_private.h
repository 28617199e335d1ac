/* transport_tls_private: what connections share, known to transport_tls*.c alone. */
#ifndef RINGTAIL_DAEMON_TRANSPORT_TLS_PRIVATE_H
#define RINGTAIL_DAEMON_TRANSPORT_TLS_PRIVATE_H

#include <openssl/ssl.h>

struct transport_tls_context {
	SSL_CTX *ssl;
};

#endif
