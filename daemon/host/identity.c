#include "daemon/host/identity.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "query/visible.h"

const char *role_name(enum role role)
{
	static const char *const names[] = {"none", "viewer", "operator"};

	return names[role];
}

bool identity_is_name(const void *bytes, size_t n)
{
	char text[IDENTITY_NAME_BYTES] = "";

	if (n == 0 || n >= IDENTITY_NAME_BYTES)
		return false;
	memcpy(text, bytes, n);
	return strlen(text) == n && visible_is_all(text);
}

void identity_set_name(struct client_identity *identity, enum identity_proof proof,
		       const char *name)
{
	*identity = (struct client_identity){.proof = proof};
	snprintf(identity->text, sizeof(identity->text), "%s:%s",
		 proof == IDENTITY_CERT ? "cert" : "token", name);
}

void identity_set_unproved(struct client_identity *identity)
{
	*identity = (struct client_identity){.proof = IDENTITY_UNPROVED, .text = "nobody yet"};
}

void identity_set_local(struct client_identity *identity)
{
	*identity = (struct client_identity){.proof = IDENTITY_LOCAL, .text = "local"};
}

int identity_of_unix_peer(int fd, struct client_identity *identity)
{
	struct ucred who;
	socklen_t bytes = sizeof(who);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &bytes) != 0)
		return -errno;
	*identity = (struct client_identity){.proof = IDENTITY_USER, .uid = who.uid};
	snprintf(identity->text, sizeof(identity->text), "user:%u", who.uid);
	/* Somebody in more groups than fit is judged by his first alone: never by too much. */
	identity->group[0] = who.gid;
	identity->groups = 1;
	bytes = (IDENTITY_GROUPS_MAX - 1) * sizeof(gid_t);
	if (getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, identity->group + 1, &bytes) == 0)
		identity->groups += bytes / sizeof(gid_t);
	return 0;
}
