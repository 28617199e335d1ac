/*
 * fuzz_config: any bytes as a configuration file. What is accepted must print to a file that is
 * accepted too and means the same. Its rules of `on` are read, too: what is refused has its column.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/config/config.h"
#include "daemon/trigger/rule.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

static char *print(const struct config *config, size_t *n)
{
	char *text = NULL;
	FILE *out = open_memstream(&text, n);

	if (!out)
		abort();
	config_print(config, out);
	fclose(out);
	return text;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
	struct config config;
	struct error error;
	char *first, *second;
	size_t first_bytes, second_bytes;

	if (config_parse_text((const char *)bytes, n, "fuzz.conf", &config, &error)) {
		if (!error.code[0] || !error.what[0])
			abort();
		return 0;
	}
	if (trigger_rules_check(&config.on, NULL, &error) && (!error.code[0] || !error.what[0]))
		abort();
	first = print(&config, &first_bytes);
	config_free(&config);
	if (config_parse_text(first, first_bytes, "again.conf", &config, &error)) {
		fprintf(stderr, "%s\n%s", error.what, first);
		abort();
	}
	second = print(&config, &second_bytes);
	config_free(&config);
	if (strcmp(first, second))
		abort();
	free(first);
	free(second);
	return 0;
}
