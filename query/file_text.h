/*
 * file_text: what a file descriptor stood for, as text, as strace -y has it. The bytes are a producer's, the path
 * in them is whatever somebody called the file. Pure; any thread.
 *
 *	/etc/passwd  /tmp/a (deleted)			a path, from the root of the mount namespace
 *	.../name					where the path is too long or too deep: its end
 *	pipe:[4711]  anon_inode:[eventpoll]		what has no path
 *	TCP 127.0.0.1:5432				a socket that has no peer: it listens, or is not connected
 *	TCP 10.0.0.1:40000->10.0.0.2:5432		one that has
 *	UDP ...  socket:[4711]				of other families
 */
#ifndef RINGTAIL_QUERY_FILE_TEXT_H
#define RINGTAIL_QUERY_FILE_TEXT_H

#include <stddef.h>

#include "kmod/uapi/ringtail.h"

#define FILE_TEXT_BYTES		(RT_FILE_PATH_BYTES_MAX + 32u)

/* Its length; 0: the bytes are no struct rt_file. */
size_t file_text_of(char text[FILE_TEXT_BYTES], const void *file, size_t bytes);

#endif
