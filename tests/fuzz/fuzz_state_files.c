/*
 * fuzz_state_files: any bytes as what a run of the daemon finds that another left: the consumers
 * that are registered, the subscriptions to go on with, the probes that operators enabled. What is
 * accepted is written as a file that is accepted too and means the same.
 *
 * The first byte chooses which. (Tokens are in fuzz_identity, segments in fuzz_segment.)
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/serve/always_on.h"
#include "daemon/stream/consumers.h"
#include "daemon/stream/saved_subscriptions.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_told(const struct error *error)
{
	if (!error->code[0] || !error->what[0])
		abort();
}

/* ---- Consumers ------------------------------------------------------------------------------- */

/* What the text is written as, for free(); NULL: it is refused. The text is changed. */
static char *rewrite_consumers(char *text, size_t bytes, size_t *written)
{
	struct consumer_list list = TAILQ_HEAD_INITIALIZER(list);
	struct consumer *consumer;
	struct error error = {0};
	char *again = NULL;
	unsigned count = 0;

	if (consumers_parse(text, bytes, &list, &count, &error) != 0)
		check_told(&error);
	else if (consumers_print(&list, &again, written) != 0)
		abort();
	while ((consumer = TAILQ_FIRST(&list)) != NULL) {
		TAILQ_REMOVE(&list, consumer, link);
		consumer_free(consumer);
	}
	return again;
}

static void take_consumers(char *text, size_t bytes)
{
	size_t first_bytes, second_bytes;
	char *first = rewrite_consumers(text, bytes, &first_bytes), *copy, *second;

	if (!first)
		return;
	copy = strdup(first);
	second = copy ? rewrite_consumers(copy, first_bytes, &second_bytes) : NULL;
	if (!second || second_bytes != first_bytes || memcmp(first, second, first_bytes) != 0)
		abort();
	free(first);
	free(copy);
	free(second);
}

/* ---- Subscriptions --------------------------------------------------------------------------- */

struct printed {
	char *text;
	size_t bytes;
};

static int print_one(void *context, const struct subscription_request *request)
{
	struct printed *printed = context;

	if (printed->text || saved_subscriptions_print(request, 1, &printed->text,
						       &printed->bytes) != 0)
		abort();
	return 0;
}

static int take_subscription(void *context, const struct subscription_request *request)
{
	struct printed first = {0}, second = {0};
	struct error error;

	(void)context;
	print_one(&first, request);
	if (saved_subscriptions_parse(first.text, first.bytes, print_one, &second, &error) != 0 ||
	    !second.text || second.bytes != first.bytes ||
	    memcmp(first.text, second.text, first.bytes) != 0)
		abort();
	free(first.text);
	free(second.text);
	return 0;
}

static void take_subscriptions(const char *text, size_t bytes)
{
	struct error error = {0};

	if (saved_subscriptions_parse(text, bytes, take_subscription, NULL, &error) != 0)
		check_told(&error);
}

/* ---- Probes ---------------------------------------------------------------------------------- */

/* The lines that are well written; returns how many were not. */
static int rewrite_probes(const char *text, size_t bytes, char **again)
{
	struct always_on *on = always_on_create();
	int bad = on ? always_on_parse(on, text, bytes) : -ENOMEM;

	if (bad < 0)
		abort();
	*again = always_on_print(on);
	if (!*again)
		abort();
	always_on_destroy(on);
	return bad;
}

static void take_probes(const char *text, size_t bytes)
{
	char *first, *second;

	rewrite_probes(text, bytes, &first);
	if (rewrite_probes(first, strlen(first), &second) != 0 || strcmp(first, second) != 0)
		abort();
	free(first);
	free(second);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text;

	if (!size)
		return 0;
	/* Of its own size, so that a sanitizer sees the end; the consumers' has a NUL behind it. */
	text = malloc(size);
	if (!text)
		abort();
	memcpy(text, data + 1, size - 1);
	text[size - 1] = '\0';
	switch (data[0] % 3) {
	case 0:
		take_consumers(text, size - 1);
		break;
	case 1:
		take_subscriptions(text, size - 1);
		break;
	default:
		take_probes(text, size - 1);
	}
	free(text);
	return 0;
}
