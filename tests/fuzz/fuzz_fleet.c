/*
 * fuzz_fleet: what a relay says of its hosts, whatever it is: one answer, and half of it as the next. It is refused, or
 * text has nothing hidden (query/visible.h), and JSON reads back.
 */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "client/cli/fleet.h"
#include "client/cli/print_fleet.h"
#include "query/visible.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct out out;

/* What was printed, for free(). */
static char *printed(size_t *bytes)
{
	char *text;

	if (out_flush(&out) != 0)
		abort();
	*bytes = (size_t)lseek(out.fd, 0, SEEK_CUR);
	text = malloc(*bytes + 1);
	if (!text || pread(out.fd, text, *bytes, 0) != (ssize_t)*bytes || ftruncate(out.fd, 0) != 0 ||
	    lseek(out.fd, 0, SEEK_SET) != 0)
		abort();
	text[*bytes] = '\0';
	return text;
}

static void check_text(void)
{
	size_t bytes;
	char *text = printed(&bytes);

	if (strlen(text) != bytes)
		abort();
	for (char *at = text; (at = strchr(at, '\n')); at++)
		*at = ' ';
	if (!visible_is_all(text))
		abort();
	free(text);
}

static void check_json(void)
{
	size_t bytes;
	char *text = printed(&bytes);
	json_t *told = json_loads(text, JSON_DECODE_INT_AS_REAL, NULL);	/* a count may take all of 64 bits */

	if (!told)
		abort();
	json_decref(told);
	free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct ringtail_host relay = {.hostname = "here", .software = "d 1"};
	struct fleet fleet = {0};
	struct ringtail_error error;

	if (!out.fd)
		out_init(&out, memfd_create("out", MFD_CLOEXEC));
	if (fleet_take(&fleet, data, size, &error) == 0)
		fleet_take(&fleet, data + size / 2, size - size / 2, &error);
	fleet_sort(&fleet);
	if (fleet.sum) {
		print_fleet_hosts(&out, &fleet);
		print_fleet_ledger(&out, &relay, &fleet);
		check_text();
		print_fleet_ledger_json(&out, &fleet);
		check_json();
	}
	fleet_free(&fleet);
	return 0;
}
