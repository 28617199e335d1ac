#include "client/lib/cursor.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/lib/failure.h"

static int bad(struct ringtail_error *error, const char *text, const char *at, const char *why)
{
	int err = failure_set(error, EINVAL, "bad-cursor", "not a cursor: %s", why);

	failure_hint(error,
		     "a cursor is BOOTID/EPOCH/CPU:SEQ,CPU:SEQ,... as tracectl prints it after "
		     "`resume with:`");
	if (error)
		error->column = at - text + 1;
	return err;
}

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

/* 32 hexadecimal digits, with dashes wherever they please. Returns where it ended, or NULL. */
static const char *parse_boot_id(const char *at, uint8_t boot_id[16])
{
	unsigned digits = 0;

	for (; *at && *at != '/'; at++) {
		int digit = hex_digit(*at);

		if (*at == '-')
			continue;
		if (digit < 0 || digits == 32)
			return NULL;
		boot_id[digits / 2] = (uint8_t)(boot_id[digits / 2] << 4 | digit);
		digits++;
	}
	return digits == 32 ? at : NULL;
}

static const char *parse_u64(const char *at, uint64_t *value)
{
	char *end;

	if (!isdigit((unsigned char)*at))
		return NULL;
	errno = 0;
	*value = strtoull(at, &end, 10);
	return errno ? NULL : end;
}

static int parse(const char *text, struct cursor *cursor, struct ringtail_error *error)
{
	const char *at = text, *end;

	end = parse_boot_id(at, cursor->run.boot_id);
	if (!end)
		return bad(error, text, at, "a boot id has 32 hexadecimal digits");
	if (*end != '/')
		return bad(error, text, end, "'/' and the epoch are missing");
	at = end + 1;
	end = parse_u64(at, &cursor->run.epoch);
	if (!end)
		return bad(error, text, at, "the epoch is a number");
	if (*end != '/')
		return bad(error, text, end, "'/' and the positions are missing");
	at = end + 1;
	while (*at) {
		uint64_t cpu, seq;

		if (cursor->n == cursor->capacity)
			return bad(error, text, at, "too many positions");
		end = parse_u64(at, &cpu);
		if (!end || cpu > UINT32_MAX)
			return bad(error, text, at, "the CPU is a number");
		if (*end != ':')
			return bad(error, text, end, "':' and the sequence number are missing");
		at = end + 1;
		end = parse_u64(at, &seq);
		if (!end)
			return bad(error, text, at, "the sequence number is a number");
		cursor_append(cursor, (uint32_t)cpu, seq);
		at = end;
		if (*at && *at != ',')
			return bad(error, text, at, "',' and the next CPU, or the end, is missing");
		if (*at == ',' && !*++at)
			return bad(error, text, at, "a position is missing after ','");
	}
	return 0;
}

int cursor_parse(const char *text, struct cursor **cursor, struct ringtail_error *error)
{
	int err;

	*cursor = cursor_create(CURSOR_POSITIONS_MAX);
	if (!*cursor)
		return failure_set(error, ENOMEM, "no-memory", "out of memory");
	err = parse(text, *cursor, error);
	if (err) {
		free(*cursor);
		*cursor = NULL;
	}
	return err;
}

int cursor_print(const struct cursor *cursor, char *text, size_t text_bytes)
{
	char boot_id[BOOT_ID_TEXT_BYTES];
	size_t used;
	int n;

	boot_id_print(cursor->run.boot_id, boot_id);
	n = snprintf(text, text_bytes, "%s/%llu/", boot_id, (unsigned long long)cursor->run.epoch);
	used = (size_t)n;
	for (unsigned i = 0; used < text_bytes && i < cursor->n; i++) {
		n = snprintf(text + used, text_bytes - used, "%s%u:%llu", i ? "," : "",
			     cursor->position[i].cpu, (unsigned long long)cursor->position[i].seq);
		used += (size_t)n;
	}
	return used < text_bytes ? 0 : -ENOSPC;
}
