/*
 * swarm's strangers: they come at a rate, whatever the daemon does, begin a TLS handshake, and prove
 * nothing. Of three, one sends bytes that are no TLS, one stops in the middle of its handshake, and one
 * ends it without a certificate. Each stays until its next time, or until the daemon has closed.
 */
#include "tests/tools/swarm.h"

#include <errno.h>
#include <openssl/ssl.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

enum kind { GARBAGE, STOPS, ENDS, KINDS };

static SSL_CTX *context;
static uint8_t hello[1024];	/* what one that stops says: as good as any other's */
static size_t hello_bytes;

static enum kind kind_of(const struct client *client)
{
	return (enum kind)((client - clients) % KINDS);
}

void strangers_prepare(void)
{
	SSL *ssl;
	int n;

	context = SSL_CTX_new(TLS_client_method());
	ssl = context ? SSL_new(context) : NULL;
	if (!ssl)
		die("TLS");
	SSL_set0_rbio(ssl, BIO_new(BIO_s_mem()));
	SSL_set0_wbio(ssl, BIO_new(BIO_s_mem()));
	SSL_connect(ssl);
	n = BIO_read(SSL_get_wbio(ssl), hello, sizeof(hello));
	if (n <= 0)
		die("ClientHello");
	hello_bytes = (size_t)n;
	SSL_free(ssl);
}

uint64_t stranger_next(struct client *client)
{
	uint64_t period_ns = 1000000000ull * options.clients / options.rate, now = now_ns();

	SSL_free(client->ssl);
	client->ssl = NULL;
	/* The first time they are spread over one period. */
	if (!client->next_ns)
		client->next_ns = now + period_ns * (uint64_t)(client - clients) / options.clients;
	else
		client->next_ns += period_ns;
	if (client->next_ns < now)
		client->next_ns = now;		/* this machine does not come after */
	return client->next_ns;
}

static void say_once(struct client *client)
{
	uint8_t noise[64];
	ssize_t n;

	if (client->said)
		return;
	for (size_t i = 0; i < sizeof(noise); i++)
		noise[i] = (uint8_t)random_below(256);
	n = kind_of(client) == GARBAGE ? send(client->fd, noise, sizeof(noise), MSG_NOSIGNAL)
				       : send(client->fd, hello, hello_bytes, MSG_NOSIGNAL);
	client->said = n > 0 ? (size_t)n : 1;
	client_wait_for(client, true, false);
}

/* False: the handshake goes on, or has failed. */
static bool shake(struct client *client)
{
	int result;

	if (!client->ssl) {
		client->ssl = SSL_new(context);
		if (!client->ssl || SSL_set_fd(client->ssl, client->fd) != 1)
			die("TLS");
		SSL_set_connect_state(client->ssl);
	}
	if (SSL_is_init_finished(client->ssl))
		return true;
	result = SSL_do_handshake(client->ssl);
	client_wait_for(client, true, result <= 0 && SSL_get_error(client->ssl, result) ==
							     SSL_ERROR_WANT_WRITE);
	counts.subscribed += result == 1;
	return result == 1;
}

bool stranger_on_ready(struct client *client)
{
	uint8_t heard[4096];
	ssize_t n;

	if (kind_of(client) != ENDS)
		say_once(client);
	else if (!shake(client) && SSL_want(client->ssl) != SSL_NOTHING)
		return true;
	n = recv(client->fd, heard, sizeof(heard), MSG_DONTWAIT);
	if (n > 0)
		counts.heard_bytes += (uint64_t)n;
	return n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR));
}
