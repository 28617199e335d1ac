/*
 * The text, a subscription after the other; a word has
 * its length before it, since a filter may hold anything:
 *
 *	subscription 4 2
 *	probe 14:syscall:*:call
 *	probe 29:tracepoint:sched:sched_switch
 *	filter 9:comm = sh
 *
 * with its flags, and how many probes follow. Each version is a memfd of its own with a number in its
 * name, stored before the one before it is dropped; the highest that is found counts.
 */
#include "daemon/stream/saved_subscriptions.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/base/limits.h"
#include "daemon/base/descriptor.h"
#include "daemon/host/service_manager.h"

#define NAME		"ringtail.subscriptions."
#define NUMBER_DIGITS	10	/* of the largest: flags that are all set */

struct saved_subscriptions {
	struct service_manager *manager;
	uint64_t version;		/* of what is in the store; 0: nothing */
	char *text;			/* the same; NULL: nothing */
	size_t bytes;
};

/* ---- Printing ---------------------------------------------------------------------------------- */

static void print_word(FILE *file, const char *key, const char *word)
{
	fprintf(file, "%s %zu:%s\n", key, strlen(word), word);
}

int saved_subscriptions_print(const struct subscription_request *request, size_t requests,
			      char **text, size_t *bytes)
{
	FILE *file = open_memstream(text, bytes);
	bool failed;

	if (!file)
		return -ENOMEM;
	for (size_t i = 0; i < requests; i++) {
		fprintf(file, "%s %" PRIu32 " %zu\n", request[i].file_strings ? "export" : "subscription",
			request[i].flags, request[i].globs);
		for (size_t j = 0; j < request[i].globs; j++)
			print_word(file, "probe", request[i].glob[j]);
		print_word(file, "filter", request[i].filter ? request[i].filter : "");
	}
	failed = ferror(file);
	if (fclose(file) == 0 && !failed)
		return 0;
	free(*text);
	*text = NULL;
	return -ENOMEM;
}

/* ---- Parsing ----------------------------------------------------------------------------------- */

struct text {
	const char *at, *end;
};

static bool take_literal(struct text *text, const char *literal)
{
	size_t bytes = strlen(literal);

	if ((size_t)(text->end - text->at) < bytes || memcmp(text->at, literal, bytes) != 0)
		return false;
	text->at += bytes;
	return true;
}

static bool take_number(struct text *text, uint64_t max, uint64_t *number)
{
	unsigned digits = 0;

	for (*number = 0; text->at < text->end && *text->at >= '0' && *text->at <= '9';
	     text->at++) {
		*number = *number * 10 + (uint64_t)(*text->at - '0');
		if (++digits > NUMBER_DIGITS || *number > max)
			return false;
	}
	return digits > 0;
}

/* A copy of the word, for free(); NULL if there is none. */
static char *take_word(struct text *text, const char *key)
{
	uint64_t bytes;
	char *word;

	if (!take_literal(text, key) ||
	    !take_number(text, SAVED_SUBSCRIPTIONS_BYTES_MAX, &bytes) ||
	    !take_literal(text, ":") || (uint64_t)(text->end - text->at) <= bytes ||
	    text->at[bytes] != '\n' || memchr(text->at, '\0', bytes))
		return NULL;
	word = strndup(text->at, bytes);
	text->at += bytes + 1;
	return word;
}

static int take_subscription(struct text *text, saved_subscription *each, void *context,
			     struct error *error)
{
	char *glob[SUBSCRIBE_PROBES_MAX] = {0}, *filter = NULL;
	uint64_t flags, globs;
	bool file_strings = take_literal(text, "export ");
	bool good = (file_strings || take_literal(text, "subscription ")) &&
		    take_number(text, UINT32_MAX, &flags) && take_literal(text, " ") &&
		    take_number(text, SUBSCRIBE_PROBES_MAX, &globs) &&
		    take_literal(text, "\n");
	int err = -EBADMSG;

	for (size_t i = 0; good && i < globs; i++)
		good = (glob[i] = take_word(text, "probe ")) != NULL;
	if (good)
		good = (filter = take_word(text, "filter ")) != NULL;
	if (good)
		err = each(context, &(struct subscription_request){
			.glob = (const char *const *)glob,
			.globs = globs,
			.filter = filter,
			.flags = (uint32_t)flags,
			.file_strings = file_strings,
		});
	else
		error_set(error, EBADMSG, "saved-subscriptions",
			  "the subscriptions that the run before has left make no sense");
	for (size_t i = 0; i < SUBSCRIBE_PROBES_MAX; i++)
		free(glob[i]);
	free(filter);
	return err;
}

int saved_subscriptions_parse(const char *text, size_t bytes, saved_subscription *each,
			      void *context, struct error *error)
{
	struct text at = {text, text + bytes};
	int err = 0;

	for (unsigned i = 0; i < SUBSCRIPTIONS_MAX && at.at < at.end && !err; i++)
		err = take_subscription(&at, each, context, error);
	return err;
}

/* ---- The store --------------------------------------------------------------------------------- */

static char *read_all(int fd, size_t *bytes)
{
	struct stat stat;
	char *text;

	if (fstat(fd, &stat) != 0 || stat.st_size <= 0 ||
	    stat.st_size > SAVED_SUBSCRIPTIONS_BYTES_MAX)
		return NULL;
	text = malloc((size_t)stat.st_size);
	*bytes = (size_t)stat.st_size;
	if (text && pread(fd, text, *bytes, 0) == (ssize_t)*bytes)
		return text;
	free(text);
	return NULL;
}

static uint64_t version_of(const char *name)
{
	return strtoull(name + strlen(NAME), NULL, 10);
}

struct saved_subscriptions *saved_subscriptions_create(struct service_manager *manager,
						       struct activation *activation)
{
	struct saved_subscriptions *saved = calloc(1, sizeof(*saved));
	const char *name;
	int fd;

	if (!saved)
		return NULL;
	saved->manager = manager;
	while ((fd = activation_next(activation, NAME "*", &name)) >= 0) {
		uint64_t version = version_of(name);
		size_t bytes = 0;
		char *text = version > saved->version ? read_all(fd, &bytes) : NULL;

		close(fd);
		if (version > saved->version)
			saved->version = version;
		if (!text)
			continue;
		free(saved->text);
		saved->text = text;
		saved->bytes = bytes;
	}
	return saved;
}

void saved_subscriptions_destroy(struct saved_subscriptions *saved)
{
	if (!saved)
		return;
	free(saved->text);
	free(saved);
}

int saved_subscriptions_restore(struct saved_subscriptions *saved, saved_subscription *each,
				void *context, struct error *error)
{
	return saved->text ? saved_subscriptions_parse(saved->text, saved->bytes, each, context,
						       error) : 0;
}

static int store_version(struct saved_subscriptions *saved, uint64_t version, const char *text,
			 size_t bytes)
{
	int fd = descriptor_memory_file("ringtail-subscriptions", false), err = 0;
	char name[ACTIVATION_NAME_BYTES];

	if (fd < 0)
		return fd;
	if (pwrite(fd, text, bytes, 0) != (ssize_t)bytes)
		err = -ENOMEM;
	snprintf(name, sizeof(name), NAME "%" PRIu64, version);
	if (!err)
		err = service_manager_store(saved->manager, name, fd);
	close(fd);
	return err;
}

int saved_subscriptions_save(struct saved_subscriptions *saved,
			     const struct subscription_request *request, size_t requests)
{
	char *text, name[ACTIVATION_NAME_BYTES];
	size_t bytes;
	int err;

	if (!saved->manager)
		return 0;
	err = saved_subscriptions_print(request, requests, &text, &bytes);
	if (err)
		return err;
	if (saved->text && saved->bytes == bytes && memcmp(saved->text, text, bytes) == 0) {
		free(text);
		return 0;
	}
	err = store_version(saved, saved->version + 1, text, bytes);
	if (err) {
		free(text);
		return err;
	}
	snprintf(name, sizeof(name), NAME "%" PRIu64, saved->version++);
	if (saved->version > 1)
		service_manager_drop(saved->manager, name, -1);
	free(saved->text);
	saved->text = text;
	saved->bytes = bytes;
	return 0;
}
