/* export_target: see export_target.h. */
#include "daemon/export_target.h"

#include <curl/curl.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/secret_file.h"

/* ---- URLs ------------------------------------------------------------------------------------ */

static const char kinds_hint[] =
	"write KIND:URL, where KIND is otlp-logs, otlp-traces, otlp-metrics, loki or remote-write";

static const struct export_kind *split(const char *word, const char **url)
{
	const char *colon = strchr(word, ':');
	char name[32];

	if (!colon || (size_t)(colon - word) >= sizeof(name))
		return NULL;
	memcpy(name, word, (size_t)(colon - word));
	name[colon - word] = '\0';
	*url = colon + 1;
	return export_kind_find(name);
}

static bool part_is(CURLU *url, CURLUPart part, const char *value)
{
	char *text = NULL;
	bool same = curl_url_get(url, part, &text, 0) == CURLUE_OK && strcmp(text, value) == 0;

	curl_free(text);
	return same;
}

static bool has_part(CURLU *url, CURLUPart part)
{
	char *text = NULL;
	bool has = curl_url_get(url, part, &text, 0) == CURLUE_OK;

	curl_free(text);
	return has;
}

/* Checks the URL and gives it the kind's path if it has none of its own. */
static int complete(const struct export_kind *kind, const char *text, char **out,
		    struct error *error)
{
	CURLU *url = curl_url();
	char *whole = NULL;
	int err = 0;

	if (!url)
		return error_set(error, ENOMEM, "out-of-memory", "out of memory");
	if (curl_url_set(url, CURLUPART_URL, text, 0) != CURLUE_OK ||
	    (!part_is(url, CURLUPART_SCHEME, "http") && !part_is(url, CURLUPART_SCHEME, "https"))) {
		err = error_set(error, EINVAL, "export-url", "not a URL of http or https: %.200s",
				text);
	} else if (has_part(url, CURLUPART_USER) || has_part(url, CURLUPART_FRAGMENT)) {
		err = error_set(error, EINVAL, "export-url",
				"the URL of an export holds a user or a fragment");
		error_hint(error, "secrets go into a file: export-header = Authorization: @FILE");
	} else if (part_is(url, CURLUPART_PATH, "/") &&
		   curl_url_set(url, CURLUPART_PATH, kind->path, 0) != CURLUE_OK) {
		err = error_set(error, ENOMEM, "out-of-memory", "out of memory");
	} else if (curl_url_get(url, CURLUPART_URL, &whole, 0) == CURLUE_OK) {
		*out = strdup(whole);
	}
	if (!err && !*out)
		err = error_set(error, ENOMEM, "out-of-memory", "out of memory");
	curl_free(whole);
	curl_url_cleanup(url);
	return err;
}

/* FNV-1a, 64 bits: names of consumers need to be apart, not secret. */
static uint64_t hash(const char *text)
{
	uint64_t sum = 0xcbf29ce484222325;

	for (; *text; text++)
		sum = (sum ^ (uint8_t)*text) * 0x100000001b3;
	return sum;
}

static int add_target(struct export_targets *targets, const char *word, struct error *error)
{
	struct export_target *target = &targets->target[targets->count];
	const char *url;
	int err;

	if (targets->count == EXPORTS_MAX)
		return error_set(error, EINVAL, "export-too-many", "more than %d destinations",
				 EXPORTS_MAX);
	target->kind = split(word, &url);
	if (!target->kind) {
		error_set(error, EINVAL, "export-kind", "no kind of export: %.200s", word);
		error_hint(error, "%s", kinds_hint);
		return -EINVAL;
	}
	err = complete(target->kind, url, &target->url, error);
	if (err)
		return err;
	for (unsigned i = 0; i < targets->count; i++)
		if (targets->target[i].kind == target->kind &&
		    strcmp(targets->target[i].url, target->url) == 0) {
			free(target->url);
			return error_set(error, EINVAL, "export-twice", "twice: %.200s", word);
		}
	snprintf(target->name, sizeof(target->name), "%s", word);
	snprintf(target->consumer, sizeof(target->consumer), "export-%s-%016llx",
		 target->kind->name, (unsigned long long)hash(target->url));
	targets->count++;
	return 0;
}

/* ---- Headers --------------------------------------------------------------------------------- */

/* The file's first line. */
static int read_secret(const char *path, char value[EXPORT_SECRET_BYTES_MAX], struct error *error)
{
	size_t used = 0;
	ssize_t got;
	int fd, err = secret_file_open(path, "export-header", &fd, error);

	if (err)
		return err;
	while (used < EXPORT_SECRET_BYTES_MAX &&
	       (got = read(fd, value + used, EXPORT_SECRET_BYTES_MAX - used)) > 0)
		used += (size_t)got;
	close(fd);
	if (!used || used == EXPORT_SECRET_BYTES_MAX)
		return error_set(error, EINVAL, "export-header", "%s: %s", path,
				 used ? "too long for a header" : "empty, or not to be read");
	value[used] = '\0';
	value[strcspn(value, "\r\n")] = '\0';
	return 0;
}

/* "Name: value", which goes to the destinations of one kind, or of all. */
static int add_header(struct export_targets *targets, const struct export_kind *kind,
		      const char *name, size_t name_bytes, const char *value, struct error *error)
{
	for (unsigned i = 0; i < targets->count; i++) {
		struct export_target *target = &targets->target[i];

		if (kind && target->kind != kind)
			continue;
		if (asprintf(&target->header[target->headers], "%.*s: %s", (int)name_bytes, name,
			     value) < 0)
			return error_set(error, ENOMEM, "out-of-memory", "out of memory");
		target->headers++;
	}
	return 0;
}

/* "[KIND ]Name: value", "[KIND ]Name: @FILE". */
static int read_header(struct export_targets *targets, const char *word, struct error *error)
{
	static const char token[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
				    "0123456789-_.";
	const struct export_kind *kind = NULL;
	char secret[EXPORT_SECRET_BYTES_MAX], kind_name[32];
	const char *name = word, *value;
	size_t bytes = strspn(name, token);

	if (name[bytes] == ' ' && bytes < sizeof(kind_name)) {
		memcpy(kind_name, name, bytes);
		kind_name[bytes] = '\0';
		kind = export_kind_find(kind_name);
		name += bytes + 1;
		bytes = strspn(name, token);
	}
	if (!bytes || name[bytes] != ':' || (name != word && !kind)) {
		error_set(error, EINVAL, "export-header", "not a header: %.200s", word);
		error_hint(error, "write `Name: value`, `Name: @FILE`, or a kind of export before"
			   " that: `loki X-Scope-OrgID: 1`");
		return -EINVAL;
	}
	value = name + bytes + 1;
	value += strspn(value, " \t");
	if (*value == '@') {
		int err = read_secret(value + 1, secret, error);

		if (err)
			return err;
		value = secret;
	}
	return add_header(targets, kind, name, bytes, value, error);
}

int export_targets_read(const struct config *config, struct export_targets *targets,
			struct error *error)
{
	int err = 0;

	*targets = (struct export_targets){0};
	for (unsigned i = 0; !err && i < config->export.count; i++)
		err = add_target(targets, config->export.word[i], error);
	for (unsigned i = 0; !err && i < config->export_header.count; i++)
		err = read_header(targets, config->export_header.word[i], error);
	if (err)
		export_targets_free(targets);
	return err;
}

void export_targets_free(struct export_targets *targets)
{
	for (unsigned i = 0; i < targets->count; i++) {
		free(targets->target[i].url);
		for (unsigned j = 0; j < targets->target[i].headers; j++) {
			explicit_bzero(targets->target[i].header[j],
				       strlen(targets->target[i].header[j]));
			free(targets->target[i].header[j]);
		}
	}
	*targets = (struct export_targets){0};
}
