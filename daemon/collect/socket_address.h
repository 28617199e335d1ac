/*
 * socket_address: what a call was given as struct sockaddr, as text. The bytes are user space's, and
 * may be anything. Pure; any thread.
 *
 *	127.0.0.1:5432  [::1]:443  [fe80::1%2]:443	IPv4, IPv6 (with the number of its interface)
 *	/run/x.sock  ./x.sock  @name			unix: a path (relative: with ./), abstract
 *	unix  netlink  unspec  family 77		what else there is, by its family alone
 *	inet, cut short					too short for its family
 */
#ifndef RINGTAIL_DAEMON_COLLECT_SOCKET_ADDRESS_H
#define RINGTAIL_DAEMON_COLLECT_SOCKET_ADDRESS_H

#include <stddef.h>

#include "kmod/uapi/ringtail.h"

#define SOCKET_ADDRESS_TEXT_BYTES	(RT_SOCKADDR_BYTES_MAX + 4u)

/*
 * Its length, at least 1. A name is as it came, also with characters that are not to be shown, but
 * without zeros: those inside an abstract name are '@', as ss(8) has them. Bytes beyond
 * RT_SOCKADDR_BYTES_MAX are not looked at.
 */
size_t socket_address_text(char text[SOCKET_ADDRESS_TEXT_BYTES], const void *address, size_t bytes);

#endif
