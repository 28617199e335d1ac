/* consumers_file: see consumers_file.h; the format is drawn in consumers.h. */
#include "daemon/stream/consumers_file.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/limits.h"

#define FIRST_LINE "ringtail consumers 1"

/* ---- Printing -------------------------------------------------------------------------------- */

static void print_text(FILE *to, const char *key, const char *text)
{
	fprintf(to, "%s ", key);
	for (; *text; text++)
		if ((unsigned char)*text <= ' ' || *text == '%' || *text == 0x7f)
			fprintf(to, "%%%02x", (unsigned char)*text);
		else
			fputc(*text, to);
	fputc('\n', to);
}

static void print_place(FILE *to, const struct cursor *place)
{
	if (!place)
		return;
	fputs("at ", to);
	for (unsigned i = 0; i < sizeof(place->run.boot_id); i++)
		fprintf(to, "%02x", place->run.boot_id[i]);
	fprintf(to, " %llu", (unsigned long long)place->run.epoch);
	for (uint32_t i = 0; i < place->n; i++)
		fprintf(to, " %u:%llu", place->position[i].cpu,
			(unsigned long long)place->position[i].seq);
	fputc('\n', to);
}

int consumers_file_print(const struct consumer_list *list, char **text, size_t *bytes)
{
	FILE *to = open_memstream(text, bytes);
	const struct consumer *consumer;
	bool failed;

	if (!to)
		return -ENOMEM;
	fputs(FIRST_LINE "\n", to);
	TAILQ_FOREACH(consumer, list, link) {
		fprintf(to, "consumer %s\n", consumer->name);
		if (consumer->owner[0])
			print_text(to, "owner", consumer->owner);
		fprintf(to, "flags %u\n", consumer->flags);
		if (consumer->spool[0])
			fprintf(to, "spool %s\n", consumer->spool);
		fprintf(to, "acked %llu\n", (unsigned long long)consumer->acked_realtime_ns);
		print_text(to, "filter", consumer->filter);
		for (size_t i = 0; i < consumer->globs; i++)
			print_text(to, "probe", consumer->glob[i]);
		print_place(to, consumer->place);
		fputs("end\n", to);
	}
	failed = ferror(to);
	if (fclose(to) != 0 || failed) {
		free(*text);
		return -ENOMEM;
	}
	return 0;
}

/* ---- Parsing --------------------------------------------------------------------------------- */

static int hex_digit(char c)
{
	return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* In place. False: a '%' that is none of ours. */
static bool unescape(char *text)
{
	char *to = text;

	for (; *text; text++) {
		if (*text == '%') {
			int high = hex_digit(text[1]), low = high < 0 ? -1 : hex_digit(text[2]);

			if (low < 0 || !(high | low))
				return false;
			*to++ = (char)(high << 4 | low);
			text += 2;
		} else {
			*to++ = *text;
		}
	}
	*to = '\0';
	return true;
}

static bool parse_u64(char **at, uint64_t *value)
{
	char *end;

	if (!isdigit((unsigned char)**at))
		return false;
	errno = 0;
	*value = strtoull(*at, &end, 10);
	*at = end;
	return errno == 0;
}

static bool parse_place(char *at, struct cursor **place)
{
	struct run run = {0};
	uint64_t cpu, seq;

	for (unsigned i = 0; i < 2 * sizeof(run.boot_id); i++, at++) {
		int digit = hex_digit(*at);

		if (digit < 0)
			return false;
		run.boot_id[i / 2] = (uint8_t)(run.boot_id[i / 2] << 4 | digit);
	}
	if (*at++ != ' ' || !parse_u64(&at, &run.epoch))
		return false;
	*place = cursor_create(CURSOR_POSITIONS_MAX);
	if (!*place)
		return false;
	(*place)->run = run;
	while (*at)
		if (*at++ != ' ' || !parse_u64(&at, &cpu) || cpu > UINT32_MAX || *at++ != ':' ||
		    !parse_u64(&at, &seq) || !cursor_put(*place, (uint32_t)cpu, seq))
			return false;
	return true;
}

static bool parse_glob(struct consumer *consumer, char *value)
{
	char **larger;

	if (consumer->globs == SUBSCRIBE_PROBES_MAX || !unescape(value))
		return false;
	larger = reallocarray(consumer->glob, consumer->globs + 1, sizeof(*larger));
	if (!larger)
		return false;
	consumer->glob = larger;
	larger[consumer->globs] = strdup(value);
	return larger[consumer->globs] && ++consumer->globs;
}

static bool parse_spool(struct consumer *consumer, const char *value)
{
	if (consumer->spool[0] || !spool_name_is_valid(value))
		return false;
	memcpy(consumer->spool, value, SPOOL_NAME_BYTES);
	return true;
}

static bool parse_owner(struct consumer *consumer, char *value)
{
	if (consumer->owner[0] || !unescape(value) || !*value ||
	    strlen(value) >= sizeof(consumer->owner))
		return false;
	strcpy(consumer->owner, value);
	return true;
}

/* A line of a consumer's block. */
static bool parse_field(struct consumer *consumer, const char *key, char *value)
{
	uint64_t number;

	if (strcmp(key, "filter") == 0) {
		if (consumer->filter || strlen(value) > 3 * FILTER_BYTES_MAX || !unescape(value))
			return false;
		consumer->filter = strdup(value);
		return consumer->filter;
	}
	if (strcmp(key, "probe") == 0)
		return parse_glob(consumer, value);
	if (strcmp(key, "owner") == 0)
		return parse_owner(consumer, value);
	if (strcmp(key, "spool") == 0)
		return parse_spool(consumer, value);
	if (strcmp(key, "at") == 0)
		return !consumer->place && parse_place(value, &consumer->place);
	if (!parse_u64(&value, &number) || *value)
		return false;
	if (strcmp(key, "acked") == 0)
		consumer->acked_realtime_ns = number;
	else if (strcmp(key, "flags") == 0 && number <= UINT32_MAX)
		consumer->flags = (uint32_t)number;
	else
		return false;
	return true;
}

static struct consumer *parse_name(const char *name)
{
	size_t bytes = strlen(name);
	struct consumer *consumer = bytes && bytes <= CONSUMER_NAME_BYTES_MAX ?
				    calloc(1, sizeof(*consumer)) : NULL;

	if (consumer)
		memcpy(consumer->name, name, bytes);
	return consumer;
}

/* One line; *open is the consumer whose block it is in. */
static bool parse_line(char *line, struct consumer **open, struct consumer_list *list,
		       unsigned *count)
{
	char *value = strchr(line, ' ');

	if (*open && strcmp(line, "end") == 0) {
		if (!(*open)->filter || *count == CONSUMERS_MAX)
			return false;
		(*open)->earlier = true;
		(*open)->kept = (*open)->place;
		TAILQ_INSERT_TAIL(list, *open, link);
		(*count)++;
		*open = NULL;
		return true;
	}
	if (!value)
		return false;
	*value++ = '\0';
	if (*open)
		return parse_field(*open, line, value);
	*open = strcmp(line, "consumer") == 0 ? parse_name(value) : NULL;
	return *open;
}

int consumers_file_parse(char *text, size_t bytes, struct consumer_list *list, unsigned *count,
			 struct error *error)
{
	struct consumer *open = NULL;
	unsigned number = 0;
	bool good = memchr(text, '\0', bytes) == NULL;

	for (char *line = text, *end; good && *line; line = end + 1) {
		end = strchr(line, '\n');
		good = end;
		if (!end)
			break;
		*end = '\0';
		good = number++ ? parse_line(line, &open, list, count) :
				  strcmp(line, FIRST_LINE) == 0;
	}
	good = good && number && !open;
	consumer_free(open);
	if (good)
		return 0;
	error_set(error, EBADMSG, "consumers-unreadable",
		  "line %u of state-dir/consumers is not what was written there", number);
	error_hint(error, "move it away: durable consumers then begin anew");
	return -EBADMSG;
}
