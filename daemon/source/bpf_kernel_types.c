#include "daemon/source/bpf_kernel_types.h"

#include <bpf/btf.h>
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/base/limits.h"
#include "proto/limits.h"

#define BTF_DIRECTORY		"/sys/kernel/btf"
#define KERNEL_TYPES		BTF_DIRECTORY "/vmlinux"
#define KERNEL_TYPES_BYTES_MAX	(64 << 20)

void kernel_types_open(struct kernel_types *types)
{
	struct stat status;

	*types = (struct kernel_types){.fd = open(KERNEL_TYPES, O_RDONLY | O_CLOEXEC)};
	if (types->fd >= 0 && fstat(types->fd, &status) == 0 && status.st_size > 0 &&
	    status.st_size <= KERNEL_TYPES_BYTES_MAX)
		types->bytes = (size_t)status.st_size;
}

void kernel_types_close(struct kernel_types *types)
{
	if (types->fd >= 0)
		close(types->fd);
	types->fd = -1;
}

struct btf *kernel_types_read(const struct kernel_types *types)
{
	size_t bytes = 0;
	uint8_t *content = types->bytes ? malloc(types->bytes) : NULL;
	struct btf *btf = NULL;
	ssize_t got = 1;

	while (content && bytes < types->bytes && got > 0) {
		got = pread(types->fd, content + bytes, types->bytes - bytes, (off_t)bytes);
		if (got > 0)
			bytes += (size_t)got;
	}
	if (content && bytes == types->bytes)
		btf = btf__new(content, (uint32_t)bytes);
	free(content);
	return btf;
}

/* ---- Names of numbers ---------------------------------------------------------------------- */

#define BUCKETS		(2u * ENUMERATOR_NAMES_MAX)

_Static_assert((BUCKETS & (BUCKETS - 1)) == 0, "a hash is cut by a mask");

enum known { UNKNOWN, ONE_NUMBER, SEVERAL_NUMBERS };

struct name {
	enum known known;
	uint64_t number;		/* extended to 64 bits by its sign */
	bool is_signed;
	uint16_t bytes;
	char text[];
};

struct bpf_enumerators {
	unsigned names;
	struct name *name[BUCKETS];	/* open addressing; NULL: the bucket is empty */
};

struct bpf_enumerators *bpf_enumerators_create(void)
{
	return calloc(1, sizeof(struct bpf_enumerators));
}

void bpf_enumerators_destroy(struct bpf_enumerators *enumerators)
{
	if (!enumerators)
		return;
	for (unsigned i = 0; i < BUCKETS; i++)
		free(enumerators->name[i]);
	free(enumerators);
}

/* The bucket of a name, or the empty one where it belongs. At most half are taken. */
static unsigned find(const struct bpf_enumerators *enumerators, const char *at, size_t bytes)
{
	uint32_t hash = 2166136261u;

	for (size_t i = 0; i < bytes; i++)
		hash = (hash ^ (unsigned char)at[i]) * 16777619u;
	for (;; hash++) {
		const struct name *name = enumerators->name[hash & (BUCKETS - 1)];

		if (!name || (name->bytes == bytes && !memcmp(name->text, at, bytes)))
			return hash & (BUCKETS - 1);
	}
}

/* ---- A print format ---------------------------------------------------------------------------- */

static bool is_word_byte(char c)
{
	return isalnum((unsigned char)c) || c == '_';
}

/* Behind the quote that ends what begins at `at` with one. */
static const char *behind_quotes(const char *at, const char *end)
{
	const char quote = *at++;

	while (at < end && *at != quote)
		at += *at == '\\' && end - at > 1 ? 2 : 1;
	return at < end ? at + 1 : end;
}

struct scan {
	const char *begin, *at, *end;
	bool is_member;			/* what is next is behind "->", ".", or "struct" */
};

/* The tags of types are other names than those of numbers. */
static bool is_tag_of(const char *word, size_t bytes)
{
	static const char *const keywords[] = { "struct", "union", "enum" };

	for (size_t i = 0; i < sizeof(keywords) / sizeof(keywords[0]); i++)
		if (strlen(keywords[i]) == bytes && !memcmp(word, keywords[i], bytes))
			return true;
	return false;
}

/* What is called is a function or a macro; what has members is a record. */
static bool is_no_number(const char *at, const char *end)
{
	while (at < end && isspace((unsigned char)*at))
		at++;
	return at < end && (*at == '(' || *at == '.' || (*at == '-' && end - at > 1 && at[1] == '>'));
}

/* The next word that may be an enumerator: its length, at *word; 0: there is none any more. */
static size_t next_word(struct scan *scan, const char **word)
{
	while (scan->at < scan->end) {
		bool is_member = scan->is_member;
		char c = *scan->at;
		size_t bytes;

		if (c == '"' || c == '\'') {
			scan->at = behind_quotes(scan->at, scan->end);
		} else if (!is_word_byte(c)) {
			scan->is_member = c == '.' || (c == '>' && scan->at > scan->begin && scan->at[-1] == '-') ||
					  (isspace((unsigned char)c) && is_member);
			scan->at++;
		} else {
			*word = scan->at;
			while (scan->at < scan->end && is_word_byte(*scan->at))
				scan->at++;
			bytes = (size_t)(scan->at - *word);
			scan->is_member = is_tag_of(*word, bytes);
			if (!is_member && !scan->is_member && !isdigit((unsigned char)c) &&
			    bytes <= NAME_BYTES_MAX && !is_no_number(scan->at, scan->end))
				return bytes;
		}
	}
	return 0;
}

int bpf_enumerators_want(struct bpf_enumerators *enumerators, const char *print, size_t bytes)
{
	struct scan scan = {.begin = print, .at = print, .end = print + bytes};
	const char *word;
	size_t length;

	while ((length = next_word(&scan, &word))) {
		unsigned bucket = find(enumerators, word, length);
		struct name *name;

		if (enumerators->name[bucket] || enumerators->names == ENUMERATOR_NAMES_MAX)
			continue;
		name = calloc(1, sizeof(*name) + length);
		if (!name)
			return -ENOMEM;
		name->bytes = (uint16_t)length;
		memcpy(name->text, word, length);
		enumerators->name[bucket] = name;
		enumerators->names++;
	}
	return 0;
}

/* ---- Types ------------------------------------------------------------------------------------- */

static void learn_one(struct bpf_enumerators *enumerators, const char *text, uint64_t number,
		      bool is_signed)
{
	struct name *name = text ? enumerators->name[find(enumerators, text, strlen(text))] : NULL;

	if (!name)
		return;
	if (name->known == UNKNOWN)
		name->known = ONE_NUMBER;
	else if (name->number != number)
		name->known = SEVERAL_NUMBERS;
	name->number = number;
	name->is_signed = is_signed;
}

static void learn_enum(struct bpf_enumerators *enumerators, const struct btf *types,
		       const struct btf_type *type)
{
	bool is_signed = btf_kflag(type);

	for (unsigned i = 0; i < btf_vlen(type); i++) {
		if (btf_is_enum(type)) {
			const struct btf_enum *one = &btf_enum(type)[i];

			learn_one(enumerators, btf__name_by_offset(types, one->name_off),
				  is_signed ? (uint64_t)(int64_t)one->val : (uint32_t)one->val, is_signed);
		} else {
			const struct btf_enum64 *one = &btf_enum64(type)[i];

			learn_one(enumerators, btf__name_by_offset(types, one->name_off),
				  btf_enum64_value(one), is_signed);
		}
	}
}

void bpf_enumerators_learn(struct bpf_enumerators *enumerators, const struct btf *types, uint32_t from)
{
	for (uint32_t id = from; id < btf__type_cnt(types); id++) {
		const struct btf_type *type = btf__type_by_id(types, id);

		if (btf_is_any_enum(type))
			learn_enum(enumerators, types, type);
	}
}

unsigned bpf_enumerators_missing(const struct bpf_enumerators *enumerators)
{
	unsigned missing = 0;

	for (unsigned i = 0; i < BUCKETS; i++) {
		const struct name *name = enumerators->name[i];
		unsigned capitals = 0, small = 0;

		if (!name || name->known != UNKNOWN)
			continue;
		for (unsigned at = 0; at < name->bytes; at++) {
			capitals += isupper((unsigned char)name->text[at]) != 0;
			small += islower((unsigned char)name->text[at]) != 0;
		}
		missing += capitals > 1 && !small;
	}
	return missing;
}

static void learn_module(struct bpf_enumerators *enumerators, const char *module, const struct btf *kernel)
{
	struct btf *types = btf__load_module_btf(module, (struct btf *)kernel);

	if (!types)
		return;
	bpf_enumerators_learn(enumerators, types, btf__type_cnt(kernel));
	btf__free(types);
}

void bpf_enumerators_learn_kernel(struct bpf_enumerators *enumerators, const struct btf *kernel)
{
	DIR *directory = kernel && enumerators->names ? opendir(BTF_DIRECTORY) : NULL;
	struct dirent *entry;

	if (kernel && enumerators->names)
		bpf_enumerators_learn(enumerators, kernel, 1);
	for (unsigned i = 0; directory && i < ENUMERATOR_MODULES_MAX; i++) {
		if (!bpf_enumerators_missing(enumerators) || !(entry = readdir(directory)))
			break;
		if (entry->d_name[0] != '.' && strcmp(entry->d_name, "vmlinux") != 0)
			learn_module(enumerators, entry->d_name, kernel);
	}
	if (directory)
		closedir(directory);
}

/* ---- Numbers in a format ------------------------------------------------------------------------ */

/* As C has it: a negative number in parentheses, so that no operator before it changes what it is. */
static int put_number(FILE *to, const struct name *name)
{
	if (name->is_signed && (int64_t)name->number < 0)
		return fprintf(to, "(%" PRId64 ")", (int64_t)name->number);
	return fprintf(to, name->number > INT64_MAX ? "0x%" PRIx64 "UL" : "%" PRIu64, name->number);
}

char *bpf_enumerators_put(const struct bpf_enumerators *enumerators, const char *print)
{
	struct scan scan = {.begin = print, .at = print, .end = print + strlen(print)};
	const char *word, *kept = print;
	char *text = NULL;
	size_t bytes, length;
	FILE *to = open_memstream(&text, &length);

	if (!to)
		return NULL;
	while ((bytes = next_word(&scan, &word))) {
		const struct name *name = enumerators->name[find(enumerators, word, bytes)];

		if (!name || name->known != ONE_NUMBER)
			continue;
		fwrite(kept, 1, (size_t)(word - kept), to);
		put_number(to, name);
		kept = word + bytes;
	}
	fputs(kept, to);
	if (fclose(to) == 0)
		return text;
	free(text);
	return NULL;
}
