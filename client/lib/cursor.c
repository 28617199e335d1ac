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

int cursor_parse(const char *text, struct cursor *cursor, struct ringtail_error *error)
{
	const char *at = text, *end;

	memset(cursor, 0, sizeof(*cursor));
	end = parse_boot_id(at, cursor->boot_id);
	if (!end)
		return bad(error, text, at, "a boot id has 32 hexadecimal digits");
	if (*end != '/')
		return bad(error, text, end, "'/' and the epoch are missing");
	at = end + 1;
	end = parse_u64(at, &cursor->epoch);
	if (!end)
		return bad(error, text, at, "the epoch is a number");
	if (*end != '/')
		return bad(error, text, end, "'/' and the positions are missing");
	at = end + 1;
	while (*at) {
		struct cursor_position *position = &cursor->position[cursor->positions];
		uint64_t cpu;

		if (cursor->positions == CURSOR_POSITIONS_MAX)
			return bad(error, text, at, "too many positions");
		end = parse_u64(at, &cpu);
		if (!end || cpu > UINT32_MAX)
			return bad(error, text, at, "the CPU is a number");
		if (*end != ':')
			return bad(error, text, end, "':' and the sequence number are missing");
		at = end + 1;
		end = parse_u64(at, &position->seq);
		if (!end)
			return bad(error, text, at, "the sequence number is a number");
		position->cpu = (uint32_t)cpu;
		cursor->positions++;
		at = end;
		if (*at && *at != ',')
			return bad(error, text, at, "',' and the next CPU, or the end, is missing");
		if (*at == ',' && !*++at)
			return bad(error, text, at, "a position is missing after ','");
	}
	return 0;
}

int cursor_print(const struct cursor *cursor, char *text, size_t text_bytes)
{
	const uint8_t *id = cursor->boot_id;
	size_t used;
	int n;

	n = snprintf(text, text_bytes,
		     "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x/%llu/",
		     id[0], id[1], id[2], id[3], id[4], id[5], id[6], id[7], id[8], id[9], id[10],
		     id[11], id[12], id[13], id[14], id[15], (unsigned long long)cursor->epoch);
	used = (size_t)n;
	for (unsigned i = 0; used < text_bytes && i < cursor->positions; i++) {
		n = snprintf(text + used, text_bytes - used, "%s%u:%llu", i ? "," : "",
			     cursor->position[i].cpu, (unsigned long long)cursor->position[i].seq);
		used += (size_t)n;
	}
	return used < text_bytes ? 0 : -ENOSPC;
}

int cursor_message_init(struct cursor_message *to, const struct cursor *from,
			struct ringtail_error *error)
{
	to->position = calloc(from->positions + 1, sizeof(*to->position));
	to->list = calloc(from->positions + 1, sizeof(*to->list));
	if (!to->position || !to->list) {
		cursor_message_fini(to);
		return failure_set(error, ENOMEM, "no-memory", "out of memory");
	}
	ringtail__v1__cursor__init(&to->message);
	to->message.boot_id.data = (uint8_t *)from->boot_id;
	to->message.boot_id.len = sizeof(from->boot_id);
	to->message.epoch = from->epoch;
	to->message.n_position = from->positions;
	to->message.position = to->list;
	for (unsigned i = 0; i < from->positions; i++) {
		ringtail__v1__position__init(&to->position[i]);
		to->position[i].cpu = from->position[i].cpu;
		to->position[i].seq = from->position[i].seq;
		to->list[i] = &to->position[i];
	}
	return 0;
}

void cursor_message_fini(struct cursor_message *message)
{
	free(message->position);
	free(message->list);
	message->position = NULL;
	message->list = NULL;
}
