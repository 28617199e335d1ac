/*
 * file_text: a path, deleted and too long; what has no path; both ends of a socket; and bytes that are too few.
 */
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "query/file_text.h"

/* From a copy of just that many bytes, so that a sanitizer sees who reads more. */
static void expect_bytes(const void *file, size_t bytes, const char *wanted)
{
	char text[FILE_TEXT_BYTES];
	void *copy = malloc(bytes ? bytes : 1);

	assert_non_null(copy);
	memcpy(copy, file, bytes);
	assert_int_equal(file_text_of(text, copy, bytes), strlen(wanted));
	assert_memory_equal(text, wanted, strlen(wanted));
	free(copy);
}

static void expect_path(struct rt_file file, const char *path, const char *wanted)
{
	uint8_t bytes[RT_FILE_HEAD_BYTES + RT_FILE_PATH_BYTES_MAX + 1];

	memcpy(bytes, &file, RT_FILE_HEAD_BYTES);
	memcpy(bytes + RT_FILE_HEAD_BYTES, path, strlen(path));
	expect_bytes(bytes, RT_FILE_HEAD_BYTES + strlen(path), wanted);
}

static void paths(void **state)
{
	char longest[RT_FILE_PATH_BYTES_MAX + 1] = "", wanted[RT_FILE_PATH_BYTES_MAX + 16] = ".../";

	(void)state;
	expect_path((struct rt_file){.mode = S_IFREG}, "/etc/passwd", "/etc/passwd");
	expect_path((struct rt_file){.mode = S_IFDIR}, "/", "/");
	expect_path((struct rt_file){.mode = S_IFREG, .deleted = 1}, "/tmp/a", "/tmp/a (deleted)");
	expect_path((struct rt_file){.mode = S_IFREG}, ".../a/b", ".../a/b");
	expect_path((struct rt_file){.mode = S_IFREG}, "...", ".../...");
	memset(longest, 'x', RT_FILE_PATH_BYTES_MAX);
	strcat(wanted, longest);
	strcat(wanted, " (deleted)");
	expect_path((struct rt_file){.mode = S_IFREG, .deleted = 1}, longest, wanted);
	expect_path((struct rt_file){.mode = S_IFDIR}, "", "");
}

static void what_has_no_path(void **state)
{
	(void)state;
	expect_path((struct rt_file){.mode = S_IFIFO, .magic = 0x50495045, .ino = 7}, "/", "pipe:[7]");
	expect_path((struct rt_file){.magic = 0x09041934}, "/[eventpoll]", "anon_inode:[eventpoll]");
	expect_path((struct rt_file){.mode = S_IFREG, .magic = 0x6e736673, .ino = 8}, "/", "inode:[8]");
	expect_path((struct rt_file){.mode = S_IFREG, .ino = 9}, "/", "inode:[9]");
}

static void sockets(void **state)
{
	struct rt_file file = {.mode = S_IFSOCK, .ino = 7, .socket = {
		.family = AF_INET, .type = SOCK_STREAM, .local_port = 5432, .local = {127, 0, 0, 1}}};

	(void)state;
	expect_bytes(&file, sizeof(file), "TCP 127.0.0.1:5432");
	file.socket.peer_port = 65535;
	memset(file.socket.peer, 255, 4);
	expect_bytes(&file, sizeof(file), "TCP 127.0.0.1:5432->255.255.255.255:65535");
	file.socket.type = SOCK_DGRAM;
	file.socket.family = AF_INET6;
	memset(file.socket.peer, 255, 16);
	memset(file.socket.local, 255, 16);
	expect_bytes(&file, sizeof(file), "UDP [ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff]:5432->"
					  "[ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff]:65535");
	file.socket.family = AF_UNIX;
	expect_bytes(&file, sizeof(file), "socket:[7]");
}

static void too_few_bytes(void **state)
{
	struct rt_file file = {.mode = S_IFSOCK, .socket = {.family = AF_INET}};

	(void)state;
	for (size_t bytes = 0; bytes < RT_FILE_HEAD_BYTES + sizeof(file.socket); bytes++)
		expect_bytes(&file, bytes, "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(paths),
		cmocka_unit_test(what_has_no_path),
		cmocka_unit_test(sockets),
		cmocka_unit_test(too_few_bytes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
