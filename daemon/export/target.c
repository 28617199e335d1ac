#include "daemon/export/target.h"

#include <assert.h>
#include <curl/curl.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/export/http.h"
#include "daemon/host/secret_file.h"

/* ---- URLs ------------------------------------------------------------------------------------ */

static int refuse_kind(struct error *error, const char *word)
{
	char names[ERROR_TEXT_BYTES / 2] = "";
	size_t used = 0;

	for (unsigned i = 0; export_kinds[i] && used < sizeof(names); i++)
		used += (size_t)snprintf(names + used, sizeof(names) - used, "%s%s",
					 !i ? "" : export_kinds[i + 1] ? ", " : " or ",
					 export_kinds[i]->name);
	error_set(error, EINVAL, "export-kind", "export: `%.*s`: there is no such kind",
		  (int)strcspn(word, ":"), word);
	error_hint(error, "write KIND:URL, where KIND is %s", names);
	return -EINVAL;
}

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

/* A word of `export` is quoted but for what may be a secret in it. */
static int refuse_url(struct error *error, const char *word, const char *what)
{
	int shown = (int)(strchr(word, '@') ? strcspn(word, ":") + 1 : strlen(word));

	error_set(error, EINVAL, "export-url", "export: `%.*s%s`: %s", shown < 200 ? shown : 200,
		  word, word[shown] ? "..." : "", what);
	error_hint(error, "write %.*s:http://HOST:PORT, or https; and a path, if it is not the usual"
			  " one", (int)strcspn(word, ":"), word);
	return -EINVAL;
}

static int check_url(const char *word, const char *text, struct error *error)
{
	const char *why = export_http_refuses_url(text);
	int err = why ? refuse_url(error, word, why) : 0;

	if (why && strcmp(why, EXPORT_URL_HOLDS_USER) == 0)
		error_hint(error, "secrets go into a file: export-header = Authorization: @FILE");
	return err;
}

/* Checks the URL of `word` and gives it the kind's path if it has none of its own. */
static int complete(const struct export_kind *kind, const char *word, const char *text, char **out,
		    struct error *error)
{
	char *path = NULL, *whole = NULL;
	int err = check_url(word, text, error);
	CURLU *url = err ? NULL : curl_url();

	if (url && curl_url_set(url, CURLUPART_URL, text, 0) == CURLUE_OK &&
	    curl_url_get(url, CURLUPART_PATH, &path, 0) == CURLUE_OK &&
	    (strcmp(path, "/") != 0 || curl_url_set(url, CURLUPART_PATH, kind->path, 0) == CURLUE_OK) &&
	    curl_url_get(url, CURLUPART_URL, &whole, 0) == CURLUE_OK)
		*out = strdup(whole);
	if (!err && !*out)
		err = error_set(error, ENOMEM, "out-of-memory", "out of memory");
	curl_free(path);
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

	assert(targets->count < EXPORTS_MAX);		/* the option's own bound */
	target->kind = split(word, &url);
	if (!target->kind)
		return refuse_kind(error, word);
	err = complete(target->kind, word, url, &target->url, error);
	if (err)
		return err;
	for (unsigned i = 0; i < targets->count; i++)
		if (targets->target[i].kind == target->kind &&
		    strcmp(targets->target[i].url, target->url) == 0) {
			free(target->url);
			error_set(error, EINVAL, "export-twice", "export: `%.200s` is there twice",
				  word);
			error_hint(error, "keep one of them: two would get the same");
			return -EINVAL;
		}
	snprintf(target->name, sizeof(target->name), "%s", word);
	snprintf(target->consumer, sizeof(target->consumer), "export-%s-%016llx",
		 target->kind->name, (unsigned long long)hash(target->url));
	targets->count++;
	return 0;
}

/* ---- Headers --------------------------------------------------------------------------------- */

__attribute__((format(printf, 3, 4)))
static int refuse_header(struct error *error, const char *hint, const char *what, ...)
{
	char text[ERROR_TEXT_BYTES / 2];
	va_list arguments;

	va_start(arguments, what);
	vsnprintf(text, sizeof(text), what, arguments);
	va_end(arguments);
	error_set(error, EINVAL, "export-header", "export-header: %s", text);
	error_hint(error, "%s", hint);
	return -EINVAL;
}

/* The file's first line. */
static int read_secret(const char *path, const struct account *account,
		       char value[EXPORT_SECRET_BYTES_MAX], struct error *error)
{
	size_t used = 0;
	ssize_t got;
	int fd, err = secret_file_open_for(account->uid, path, "export-header", &fd, error);

	if (err)
		return err;
	while (used < EXPORT_SECRET_BYTES_MAX &&
	       (got = read(fd, value + used, EXPORT_SECRET_BYTES_MAX - used)) > 0)
		used += (size_t)got;
	close(fd);
	if (used == EXPORT_SECRET_BYTES_MAX)
		return refuse_header(error, "the value is its first line: leave no more in it",
				     "%.200s has %u bytes or more", path,
				     EXPORT_SECRET_BYTES_MAX);
	value[used] = '\0';
	if (strlen(value) < used)	/* else the value would end there */
		return refuse_header(error, "the value is its first line, and text", "%.200s has a NUL in"
				     " it", path);
	value[strcspn(value, "\r\n")] = '\0';
	return 0;
}

/* What would end the header, or is no text; nothing at all would take a header away. */
static int check_value(const char *name, size_t name_bytes, const char *value, struct error *error)
{
	const uint8_t *at = (const uint8_t *)value;

	if (!*value)
		return refuse_header(error, "write `Name: value`, or `Name: @FILE` with the value in"
				     " the file's first line", "`%.*s` has no value",
				     (int)name_bytes, name);
	for (; *at; at++)
		if ((*at < 0x20 && *at != '\t') || *at == 0x7f)
			return refuse_header(error, "a value is one line of text",
					     "the value of `%.*s` holds the control character"
					     " 0x%02x", (int)name_bytes, name, *at);
	return 0;
}

/* These say what is sent, which is not a matter of configuration. */
static bool is_ours(const char *name, size_t bytes)
{
	static const char *const ours[] = {"Content-Type", "Content-Encoding", "Content-Length",
					   "Transfer-Encoding", "Connection"};

	for (size_t i = 0; i < sizeof(ours) / sizeof(ours[0]); i++)
		if (strlen(ours[i]) == bytes && strncasecmp(ours[i], name, bytes) == 0)
			return true;
	return false;
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
static int read_header(struct export_targets *targets, const struct account *account,
		       const char *word, struct error *error)
{
	static const char token[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
				    "0123456789-_.";
	const struct export_kind *kind = NULL;
	char secret[EXPORT_SECRET_BYTES_MAX], kind_name[32];
	const char *name = word, *value;
	size_t bytes = strspn(name, token);
	int err = 0;

	if (name[bytes] == ' ' && bytes < sizeof(kind_name)) {
		memcpy(kind_name, name, bytes);
		kind_name[bytes] = '\0';
		kind = export_kind_find(kind_name);
		name += bytes + 1;
		bytes = strspn(name, token);
	}
	if (!bytes || name[bytes] != ':' || (name != word && !kind))
		return refuse_header(error, "write `Name: value`, `Name: @FILE`, or a kind of export"
				     " before that: `loki X-Scope-OrgID: 1`",
				     "`%.*s` does not begin a header",
				     (int)strcspn(word, ":"), word);
	if (is_ours(name, bytes))
		return refuse_header(error, "take it out: the exporter says itself what it sends",
				     "`%.*s` cannot be given", (int)bytes, name);
	value = name + bytes + 1;
	value += strspn(value, " \t");
	if (*value == '@') {
		err = read_secret(value + 1, account, secret, error);
		value = secret;
	}
	if (!err)
		err = check_value(name, bytes, value, error);
	return err ? err : add_header(targets, kind, name, bytes, value, error);
}

/* ---- The authority --------------------------------------------------------------------------- */

/* Each connection reads it anew, as the daemon's user. */
static bool may_read(const struct stat *stat, const struct account *account)
{
	if (stat->st_uid == account->uid)
		return stat->st_mode & S_IRUSR;
	if (stat->st_gid == account->gid)
		return stat->st_mode & S_IRGRP;
	return stat->st_mode & S_IROTH;
}

static bool holds_certificate(FILE *file)
{
	static const char begin[] = "-----BEGIN ";
	char line[256];

	while (fgets(line, sizeof(line), file))
		if (strncmp(line, begin, strlen(begin)) == 0)
			return true;
	return false;
}

static int check_ca(const char *path, const struct account *account, struct error *error)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK), err = fd < 0 ? errno : 0;
	FILE *file = fd < 0 ? NULL : fdopen(fd, "r");
	struct stat stat;
	const char *what = NULL;

	if (!err && (!file || fstat(fd, &stat) != 0))
		err = errno;
	if (!err && !S_ISREG(stat.st_mode))
		what = "is not a file";
	else if (!err && !may_read(&stat, account))
		what = "is closed to the daemon's user";
	else if (!err && !holds_certificate(file))
		what = "holds no certificate";
	if (file)
		fclose(file);
	else if (fd >= 0)
		close(fd);
	if (!err && !what)
		return 0;
	error_set(error, EINVAL, "export-ca", "export-ca: %.200s: %s", path,
		  what ? what : strerror(err));
	error_hint(error, "name a file of certificates in PEM form that the daemon's user (uid %u)"
			  " can read", account->uid);
	return err ? -err : -EINVAL;
}

int export_targets_read(const struct config *config, const struct account *account,
			struct export_targets *targets, struct error *error)
{
	int err = 0;

	*targets = (struct export_targets){0};
	for (unsigned i = 0; !err && i < config->export.count; i++)
		err = add_target(targets, config->export.word[i], error);
	for (unsigned i = 0; !err && i < config->export_header.count; i++)
		err = read_header(targets, account, config->export_header.word[i], error);
	if (!err && config->export_ca)
		err = check_ca(config->export_ca, account, error);
	if (err)
		export_targets_free(targets);
	return err;
}

bool export_targets_take_metrics(const struct export_targets *targets)
{
	for (unsigned i = 0; i < targets->count; i++)
		if (targets->target[i].kind->build_metrics)
			return true;
	return false;
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
