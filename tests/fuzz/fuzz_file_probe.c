/* fuzz_file_probe: bytes from outside as a program's file: what is found in it may be used as it is. */
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "daemon/source/file_probe.h"
#include "daemon/source/registers.h"

#define ARGS_BYTES_MAX	256
#define NAMES_MAX	16

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void find(int file, enum file_probe_kind kind, const char *name)
{
	static struct file_sites sites;
	struct error error;

	if (file_probe_find(file, kind, name, &sites, &error) == 0 && !file_sites_fit(&sites))
		abort();
}

/* The same bytes as the arguments of a note. */
static void parse(const uint8_t *data, size_t size)
{
	struct file_sites sites = {.count = 1};
	char text[ARGS_BYTES_MAX + 1] = {0};

	for (size_t i = 0; i < size && i < ARGS_BYTES_MAX; i++)
		text[i] = (char)data[i];
	sites.site[0].args = registers_parse_usdt(text, sites.site[0].arg);
	if (!file_sites_fit(&sites))
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static int file = -1, names = -1;
	struct error error;

	if (file < 0) {
		file = memfd_create("file", MFD_CLOEXEC);
		names = memfd_create("names", MFD_CLOEXEC);
	}
	if (ftruncate(file, 0) || ftruncate(names, 0) || pwrite(file, data, size, 0) != (ssize_t)size)
		return 0;
	find(file, FILE_FUNCTION, "main");
	find(file, FILE_FUNCTION, "f+1");
	find(file, FILE_MARK, "test:plain");
	if (file_probe_list(file, FILE_FUNCTION, "*", NAMES_MAX, names, &error) > NAMES_MAX ||
	    file_probe_list(file, FILE_MARK, "*", NAMES_MAX, names, &error) > NAMES_MAX)
		abort();
	parse(data, size);
	return 0;
}
