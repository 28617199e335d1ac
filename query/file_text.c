#include "query/file_text.h"

#include <arpa/inet.h>
#include <linux/magic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

_Static_assert(offsetof(struct rt_file, path) == RT_FILE_HEAD_BYTES, "the head ends where the path begins");

/* What none of the headers has. */
#define MAGIC_ANON_INODES	0x09041934
#define MAGIC_PIPES		0x50495045
#define MAGIC_NAMESPACES	0x6e736673

static void put_end(char *text, size_t room, const struct rt_socket *socket, const uint8_t *address,
		    uint16_t port)
{
	char host[INET6_ADDRSTRLEN] = "?";

	inet_ntop(socket->family, address, host, sizeof(host));
	snprintf(text, room, socket->family == AF_INET6 ? "[%s]:%u" : "%s:%u", host, port);
}

static size_t inet_text(char *text, const struct rt_socket *socket)
{
	char local[64], peer[64] = "";
	const char *kind = socket->type == SOCK_STREAM ? "TCP" :
			   socket->type == SOCK_DGRAM ? "UDP" : "RAW";

	put_end(local, sizeof(local), socket, socket->local, socket->local_port);
	if (socket->peer_port)
		put_end(peer, sizeof(peer), socket, socket->peer, socket->peer_port);
	return (size_t)snprintf(text, FILE_TEXT_BYTES, "%s %s%s%s", kind, local,
				*peer ? "->" : "", peer);
}

static size_t socket_text(char *text, const struct rt_file *file, size_t bytes)
{
	if (bytes < RT_FILE_HEAD_BYTES + sizeof(file->socket))
		return 0;
	if (file->socket.family == AF_INET || file->socket.family == AF_INET6)
		return inet_text(text, &file->socket);
	return (size_t)snprintf(text, FILE_TEXT_BYTES, "socket:[%llu]", (unsigned long long)file->ino);
}

/* The kernel gives what has no directory a name of its own, or none. */
static size_t nameless_text(char *text, const struct rt_file *file, const char *path, size_t bytes)
{
	if (file->magic == MAGIC_ANON_INODES && bytes > 1)
		return (size_t)snprintf(text, FILE_TEXT_BYTES, "anon_inode:%.*s", (int)bytes - 1, path + 1);
	if (file->magic == MAGIC_PIPES)
		return (size_t)snprintf(text, FILE_TEXT_BYTES, "pipe:[%llu]", (unsigned long long)file->ino);
	if (file->magic == MAGIC_NAMESPACES || (bytes <= 1 && !S_ISDIR(file->mode)))
		return (size_t)snprintf(text, FILE_TEXT_BYTES, "inode:[%llu]",
					(unsigned long long)file->ino);
	return 0;
}

size_t file_text_of(char text[FILE_TEXT_BYTES], const void *data, size_t bytes)
{
	const char *path = (const char *)data + RT_FILE_HEAD_BYTES;
	struct rt_file file = {0};
	size_t path_bytes, used;

	if (bytes < RT_FILE_HEAD_BYTES)
		return 0;
	memcpy(&file, data, bytes < sizeof(file) ? bytes : sizeof(file));
	if (S_ISSOCK(file.mode))
		return socket_text(text, &file, bytes);
	path_bytes = bytes - RT_FILE_HEAD_BYTES;
	if (path_bytes > RT_FILE_PATH_BYTES_MAX)
		path_bytes = RT_FILE_PATH_BYTES_MAX;
	used = nameless_text(text, &file, path, path_bytes);
	if (used || !path_bytes)
		return used;
	if (path[0] != '/' && (path_bytes < 4 || memcmp(path, ".../", 4))) {
		memcpy(text, ".../", 4);
		used = 4;
	}
	memcpy(text + used, path, path_bytes);
	used += path_bytes;
	if (file.deleted) {
		memcpy(text + used, " (deleted)", 10);
		used += 10;
	}
	return used;
}
