/*
 * file_kind: what a file that is not ours looks like, from its first bytes.
 */
#include "client/lib/file_kind.h"

#include <string.h>

#define LOOKED_AT_BYTES 256

#define KIND(signature, name) { signature, sizeof(signature) - 1, name }

static const struct {
	const char *signature;
	size_t bytes;
	const char *name;
} kinds[] = {
	KIND("\x1f\x8b", "gzip data: decompress it first"),
	KIND("\x28\xb5\x2f\xfd", "zstd data: decompress it first"),
	KIND("\xfd""7zXZ", "xz data: decompress it first"),
	KIND("BZh", "bzip2 data: decompress it first"),
	KIND("PK\x03\x04", "a zip archive"),
	KIND("\x7f""ELF", "an ELF program or library"),
	KIND("PERFILE2", "perf.data of perf record: `perf script` reads it"),
	KIND("\x17\x08\x44tracing", "trace.dat of trace-cmd: `trace-cmd report` reads it"),
	KIND("\xc1\x1f\xfc\xc1", "a CTF trace (LTTng): `babeltrace2` reads it"),
	KIND("\xc1\xfc\x1f\xc1", "a CTF trace (LTTng): `babeltrace2` reads it"),
	KIND("\x75\xd1\x1d\x57", "metadata of a CTF trace (LTTng): `babeltrace2` reads it"),
	KIND("\x57\x1d\xd1\x75", "metadata of a CTF trace (LTTng): `babeltrace2` reads it"),
	KIND("\xd4\xc3\xb2\xa1", "a packet capture: `tcpdump -r` reads it"),
	KIND("\xa1\xb2\xc3\xd4", "a packet capture: `tcpdump -r` reads it"),
	KIND("\x0a\x0d\x0d\x0a", "a packet capture: `tcpdump -r` reads it"),
	KIND("HTTP/", "an HTTP server's answer"),
	KIND("SSH-", "an SSH server's greeting"),
	KIND("\x15\x03", "a TLS server's answer"),
	KIND("{\"", "JSON"),
};

const char *file_kind_name(const uint8_t *bytes, size_t n)
{
	size_t zeros = 0, text = 0;

	if (!n)
		return "an empty file";
	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++)
		if (n >= kinds[i].bytes && !memcmp(bytes, kinds[i].signature, kinds[i].bytes))
			return kinds[i].name;
	if (n > LOOKED_AT_BYTES)
		n = LOOKED_AT_BYTES;
	for (size_t i = 0; i < n; i++) {
		zeros += bytes[i] == 0;
		text += (bytes[i] >= 0x20 && bytes[i] != 0x7f) || bytes[i] == '\n' ||
			bytes[i] == '\t' || bytes[i] == '\r';
	}
	if (zeros == n)
		return "nothing but zeros";
	return text == n ? "text" : "binary data of a kind unknown here";
}
