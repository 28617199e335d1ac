#include "daemon/serve/always_on.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kmod/uapi/ringtail.h"
#include "query/nearest.h"
#include "query/quantity.h"
#include "query/visible.h"

#define MARKS_MAX (2 * SUBSCRIBE_PROBES_MAX)

struct mark {
	bool enabled;		/* else disabled, of the configuration's */
	uint32_t flags;		/* of what is enabled; also of the configuration's */
	uint64_t since_realtime_ns;
	char by[IDENTITY_TEXT_BYTES];
	char *spec;
};

struct always_on {
	unsigned count;
	struct mark mark[MARKS_MAX];
};

static const struct {
	const char *name;
	uint32_t flag;
} flag_names[] = {{"strings", RT_FLAG_STRINGS}, {"fds", RT_FLAG_FDS}};

int always_on_flags_parse(const char *text, uint32_t *flags)
{
	*flags = 0;
	for (;; text++) {
		size_t bytes = strcspn(text, ","), i = 0;

		while (i < sizeof(flag_names) / sizeof(*flag_names) &&
		       (strlen(flag_names[i].name) != bytes || strncmp(text, flag_names[i].name, bytes) != 0))
			i++;
		if (i == sizeof(flag_names) / sizeof(*flag_names))
			return -EINVAL;
		*flags |= flag_names[i].flag;
		text += bytes;
		if (!*text)
			return 0;
	}
}

const char *always_on_flags_text(uint32_t flags, char text[ALWAYS_ON_FLAGS_BYTES])
{
	text[0] = '\0';
	for (size_t i = 0; i < sizeof(flag_names) / sizeof(*flag_names); i++)
		if (flags & flag_names[i].flag) {
			strcat(text, text[0] ? "," : "");
			strcat(text, flag_names[i].name);
		}
	return text;
}

struct always_on *always_on_create(void)
{
	return calloc(1, sizeof(struct always_on));
}

void always_on_destroy(struct always_on *on)
{
	if (!on)
		return;
	for (unsigned i = 0; i < on->count; i++)
		free(on->mark[i].spec);
	free(on);
}

static int add(struct always_on *on, bool enabled, const char *spec, uint32_t flags, const char *by,
	       uint64_t realtime_ns, struct error *error)
{
	struct mark *mark = &on->mark[on->count];

	if (on->count == MARKS_MAX)
		return error_set(error, EINVAL, "too-many-probes",
				 "operators have enabled and disabled %u specs, and no more can be"
				 " kept", MARKS_MAX);
	*mark = (struct mark){.enabled = enabled, .flags = flags, .since_realtime_ns = realtime_ns};
	snprintf(mark->by, sizeof(mark->by), "%s", by);
	mark->spec = strdup(spec);
	if (!mark->spec)
		return error_set(error, ENOMEM, "out-of-memory", "the daemon is out of memory");
	on->count++;
	return 0;
}

struct always_on *always_on_copy(const struct always_on *on)
{
	struct always_on *copy = always_on_create();

	for (unsigned i = 0; copy && i < on->count; i++) {
		const struct mark *mark = &on->mark[i];

		if (add(copy, mark->enabled, mark->spec, mark->flags, mark->by, mark->since_realtime_ns,
			NULL) != 0) {
			always_on_destroy(copy);
			return NULL;
		}
	}
	return copy;
}

static void drop(struct always_on *on, unsigned i)
{
	free(on->mark[i].spec);
	on->count--;
	memmove(&on->mark[i], &on->mark[i + 1], (on->count - i) * sizeof(on->mark[0]));
}

bool always_on_drop_enabled(struct always_on *on)
{
	unsigned before = on->count;

	for (unsigned i = on->count; i--;)
		if (on->mark[i].enabled)
			drop(on, i);
	return on->count != before;
}

/* The mark's place, or on->count. */
static unsigned find(const struct always_on *on, const char *spec, bool enabled)
{
	unsigned i = 0;

	while (i < on->count &&
	       (on->mark[i].enabled != enabled || strcmp(on->mark[i].spec, spec) != 0))
		i++;
	return i;
}

static bool in_config(const struct config_words *config, const char *spec)
{
	for (unsigned i = 0; i < config->count; i++)
		if (strcmp(config->word[i], spec) == 0)
			return true;
	return false;
}

/* It has to fit into a line of the file. */
static int check_spec(const char *spec, struct error *error)
{
	size_t bytes = strlen(spec);

	for (const char *c = spec; *c; c++)
		if (*c == ' ')
			bytes = 0;
	if (bytes && bytes <= CONFIG_WORD_BYTES_MAX && visible_is_all(spec))
		return 0;
	return error_set(error, EINVAL, "bad-probe", "`%.60s` is no probe: 1 to %u bytes of text,"
			 " without blanks", spec, CONFIG_WORD_BYTES_MAX);
}

int always_on_enable(struct always_on *on, const struct config_words *config, const char *spec, uint32_t flags,
		     const char *by, uint64_t realtime_ns, struct error *error)
{
	struct always_on_probe list[2 * SUBSCRIBE_PROBES_MAX];
	unsigned disabled = find(on, spec, false), enabled;
	int err = check_spec(spec, error);

	if (err)
		return err;
	if (disabled < on->count)
		drop(on, disabled);
	enabled = find(on, spec, true);
	if (enabled < on->count)
		on->mark[enabled].flags |= flags;
	if (enabled < on->count || (in_config(config, spec) && !flags))
		return 0;
	err = add(on, true, spec, flags, by, realtime_ns, error);
	if (err)
		return err;
	if (always_on_list(on, config, 0, list) <= SUBSCRIBE_PROBES_MAX)
		return 0;
	error_set(error, EINVAL, "too-many-probes", "at most %u specs may be always on",
		  SUBSCRIBE_PROBES_MAX);
	error_hint(error, "use globs, or disable some: tracectl probes lists them");
	return -EINVAL;
}

int always_on_disable(struct always_on *on, const struct config_words *config, const char *spec,
		      const char *by, uint64_t realtime_ns, struct error *error)
{
	struct always_on_probe list[2 * SUBSCRIBE_PROBES_MAX];
	unsigned enabled = find(on, spec, true);
	char text[NEAREST_TEXT_BYTES];
	struct nearest nearest;
	size_t n;

	if (enabled < on->count) {
		drop(on, enabled);
		if (!in_config(config, spec))
			return 0;
	}
	if (in_config(config, spec) && find(on, spec, false) == on->count)
		return add(on, false, spec, 0, by, realtime_ns, error);
	error_set(error, ENOENT, "not-enabled", "`%.60s` is not always on", spec);
	nearest_init(&nearest, spec);
	n = always_on_list(on, config, 0, list);
	for (size_t i = 0; i < n; i++)
		nearest_offer(&nearest, list[i].spec);
	if (nearest_text(&nearest, text))
		error_hint(error, "did you mean %s?", text);
	else
		error_hint(error, "`tracectl probes` lists what is always recorded");
	return -ENOENT;
}

uint32_t always_on_flags(const struct always_on *on)
{
	uint32_t flags = 0;

	for (unsigned i = 0; i < on->count; i++)
		flags |= on->mark[i].enabled ? on->mark[i].flags : 0;
	return flags;
}

size_t always_on_list(const struct always_on *on, const struct config_words *config,
		      uint64_t config_realtime_ns,
		      struct always_on_probe list[2 * SUBSCRIBE_PROBES_MAX])
{
	size_t n = 0;

	for (unsigned i = 0; i < config->count; i++)
		if (find(on, config->word[i], false) == on->count) {
			unsigned with = find(on, config->word[i], true);

			list[n++] = (struct always_on_probe){config->word[i], "config", config_realtime_ns,
							     with < on->count ? on->mark[with].flags : 0, false};
		}
	for (unsigned i = 0; i < on->count && n < 2 * SUBSCRIBE_PROBES_MAX; i++)
		if (on->mark[i].enabled && !in_config(config, on->mark[i].spec))
			list[n++] = (struct always_on_probe){on->mark[i].spec, on->mark[i].by,
							     on->mark[i].since_realtime_ns, on->mark[i].flags, false};
	return n;
}

/* ---- The file ------------------------------------------------------------------------------------ */

char *always_on_print(const struct always_on *on)
{
	char *text = NULL;
	size_t bytes;
	FILE *out = open_memstream(&text, &bytes);

	if (!out)
		return NULL;
	fputs("# ringtaild: what operators enabled and disabled\n", out);
	for (unsigned i = 0; i < on->count; i++) {
		const struct mark *mark = &on->mark[i];
		char flags[ALWAYS_ON_FLAGS_BYTES];

		fprintf(out, "%s\t%llu\t%s\t%s%s%s\n", mark->enabled ? "enable" : "disable",
			(unsigned long long)mark->since_realtime_ns, mark->by, mark->spec,
			mark->flags ? "\t" : "", always_on_flags_text(mark->flags, flags));
	}
	if (ferror(out) | (fclose(out) != 0)) {
		free(text);
		return NULL;
	}
	return text;
}

/* 0; -EINVAL: it is not one; -ENOMEM. */
static int parse_line(struct always_on *on, char *line)
{
	char *verb = strsep(&line, "\t"), *since = line ? strsep(&line, "\t") : NULL;
	char *by = line ? strsep(&line, "\t") : NULL, *spec = line ? strsep(&line, "\t") : NULL;
	uint32_t flags = 0;
	uint64_t since_ns;
	bool enabled;

	if (!spec || (line && always_on_flags_parse(line, &flags) != 0))
		return -EINVAL;
	enabled = strcmp(verb, "enable") == 0;
	if ((!enabled && strcmp(verb, "disable") != 0) || strlen(by) >= IDENTITY_TEXT_BYTES ||
	    !visible_is_all(by) || quantity_parse(since, QUANTITY_COUNT, &since_ns, NULL) != 0 ||
	    check_spec(spec, NULL) != 0)
		return -EINVAL;
	if (find(on, spec, true) < on->count || find(on, spec, false) < on->count)
		return -EINVAL;
	return add(on, enabled, spec, enabled ? flags : 0, by, since_ns, NULL);
}

int always_on_parse(struct always_on *on, const char *text, size_t bytes)
{
	char line[CONFIG_WORD_BYTES_MAX + IDENTITY_TEXT_BYTES + ALWAYS_ON_FLAGS_BYTES + 64];
	int bad = 0, err;

	for (size_t begin = 0; begin < bytes;) {
		const char *newline = memchr(text + begin, '\n', bytes - begin);
		size_t end = newline ? (size_t)(newline - text) : bytes;

		if (end > begin && text[begin] != '#') {
			snprintf(line, sizeof(line), "%.*s", (int)(end - begin), text + begin);
			err = end - begin < sizeof(line) && strlen(line) == end - begin ?
				      parse_line(on, line) : -EINVAL;
			if (err == -ENOMEM)
				return err;
			bad += err != 0;
		}
		begin = end + 1;
	}
	return bad;
}
