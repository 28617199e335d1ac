#include "client/cli/symbols.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/lib/limits.h"
#include "query/visible.h"

struct symbol {
	uint64_t address;
	uint32_t name;			/* offset into names */
};

struct symbols {
	size_t symbols, symbols_max;
	size_t names_bytes, names_bytes_max;
	struct symbol *symbol;		/* by address */
	char *names;
};

static int compare(const void *a, const void *b)
{
	const struct symbol *x = a, *y = b;

	return x->address < y->address ? -1 : x->address > y->address;
}

static int grow(void **memory, size_t *max, size_t need, size_t unit)
{
	size_t larger = *max ? *max : 4096;
	void *moved;

	if (need <= *max)
		return 0;
	while (larger < need)
		larger *= 2;
	moved = reallocarray(*memory, larger, unit);
	if (!moved)
		return -1;
	*memory = moved;
	*max = larger;
	return 0;
}

/* "ffffffff81000000 T name\t[module]": only code, only with an address. */
static int add_line(struct symbols *symbols, const char *line)
{
	char *end;
	uint64_t address = strtoull(line, &end, 16);
	size_t bytes;

	if (!address || end[0] != ' ' || !end[1] || end[2] != ' ' || !strchr("tTwW", end[1]))
		return 0;
	end += 3;
	bytes = strcspn(end, " \t\n");
	if (symbols->symbols == KALLSYMS_SYMBOLS_MAX ||
	    symbols->names_bytes + bytes + 1 > KALLSYMS_BYTES_MAX)
		return -1;
	if (grow((void **)&symbols->symbol, &symbols->symbols_max, symbols->symbols + 1,
		 sizeof(*symbols->symbol)) ||
	    grow((void **)&symbols->names, &symbols->names_bytes_max,
		 symbols->names_bytes + bytes + 1, 1))
		return -1;
	symbols->symbol[symbols->symbols++] = (struct symbol){
		.address = address,
		.name = (uint32_t)symbols->names_bytes,
	};
	memcpy(symbols->names + symbols->names_bytes, end, bytes);
	symbols->names[symbols->names_bytes + bytes] = '\0';
	visible_replace(symbols->names + symbols->names_bytes);
	symbols->names_bytes += bytes + 1;
	return 0;
}

struct symbols *symbols_load(const char *path)
{
	struct symbols *symbols = calloc(1, sizeof(*symbols));
	FILE *file = fopen(path, "re");
	char line[1024];

	while (symbols && file && fgets(line, sizeof(line), file))
		if (add_line(symbols, line))
			break;
	if (file)
		fclose(file);
	if (symbols && !symbols->symbols) {
		symbols_destroy(symbols);
		return NULL;
	}
	if (symbols)
		qsort(symbols->symbol, symbols->symbols, sizeof(*symbols->symbol), compare);
	return symbols;
}

void symbols_destroy(struct symbols *symbols)
{
	if (!symbols)
		return;
	free(symbols->symbol);
	free(symbols->names);
	free(symbols);
}

const char *symbols_find(const struct symbols *symbols, uint64_t address, uint64_t *offset)
{
	size_t low = 0, high = symbols ? symbols->symbols : 0;

	while (low < high) {		/* the first one beyond the address */
		size_t middle = low + (high - low) / 2;

		if (symbols->symbol[middle].address <= address)
			low = middle + 1;
		else
			high = middle;
	}
	if (!low)
		return NULL;
	*offset = address - symbols->symbol[low - 1].address;
	return *offset < (1u << 20) ? symbols->names + symbols->symbol[low - 1].name : NULL;
}

static int is_way_to_tracer(const char *name)
{
	static const char *const way[] = { "bpf_trace_run", "__bpf_trace_", "__traceiter_" };

	for (size_t i = 0; name && i < sizeof(way) / sizeof(*way); i++)
		if (!strncmp(name, way[i], strlen(way[i])))
			return 1;
	return 0;
}

/*
 * "bpf_trampoline_6442536467_1": the way of fentry and fexit. The kernel's own bpf_trampoline_link_prog() has no number.
 */
static int is_trampoline(const char *name)
{
	static const char begin[] = "bpf_trampoline_";

	return name && !strncmp(name, begin, sizeof(begin) - 1) && isdigit((unsigned char)name[sizeof(begin) - 1]);
}

/* How many frames of programs begin a stack. They have no name if they were loaded after the names were read. */
static size_t program_frames(const struct symbols *symbols, const uint64_t *frame, size_t frames)
{
	uint64_t offset;
	size_t programs = 0;

	while (symbols && programs < frames) {
		const char *name = symbols_find(symbols, frame[programs], &offset);

		if (name && strncmp(name, "bpf_prog_", 9) != 0)
			break;
		programs++;
	}
	return programs;
}

/*
 * The tracer comes first, then the way to it; a way further out was another tracer's. Only programs may come before a
 * trampoline: that of fexit lies between a function and its caller as long as the function runs.
 */
size_t symbols_own_frames(const struct symbols *symbols, const uint64_t *frame, size_t frames)
{
	uint64_t offset;
	size_t own;

	if (frames > OWN_FRAMES_MAX)
		frames = OWN_FRAMES_MAX;
	own = program_frames(symbols, frame, frames);
	if (own && own < frames && is_trampoline(symbols_find(symbols, frame[own], &offset)))
		return own + 1;
	while (own < frames && !is_way_to_tracer(symbols_find(symbols, frame[own], &offset)))
		own++;
	if (own == frames)
		return 0;
	while (own < frames && is_way_to_tracer(symbols_find(symbols, frame[own], &offset)))
		own++;
	return own;
}

struct symbols *symbols_of_boot(const uint8_t boot_id[16])
{
	return symbols_same_boot(boot_id) ? symbols_load("/proc/kallsyms") : NULL;
}

int symbols_same_boot(const uint8_t boot_id[16])
{
	FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
	uint8_t here[16] = { 0 };
	unsigned digits = 0;
	int c;

	if (!file)
		return 0;
	while ((c = fgetc(file)) != EOF && digits < 32) {
		if (!isxdigit(c))
			continue;
		c = isdigit(c) ? c - '0' : (c | 0x20) - 'a' + 10;
		here[digits / 2] = (uint8_t)(here[digits / 2] << 4 | c);
		digits++;
	}
	fclose(file);
	return digits == 32 && !memcmp(here, boot_id, sizeof(here));
}
