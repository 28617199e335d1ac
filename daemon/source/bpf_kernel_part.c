#include "daemon/source/bpf_kernel_part.h"

#include <bpf/btf.h>
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NAMES	1024u		/* places of a hash table: the programs name some hundred types */

struct part {
	const struct btf *kernel;
	struct name {
		const char *text;	/* NULL: the place is empty */
		size_t bytes;
	} name[NAMES];
	unsigned names;
	uint32_t *number;		/* [of the kernel]: in the part; 0: not in it, as void is */
	struct open {
		uint32_t id;
		bool deep;		/* what it points to is in the part, too */
	} *open;			/* those whose own types are still to be looked at, */
	uint32_t opens;			/* each twice at most */
};

/* As a number, until all that are in the part are known. */
#define SHALLOW	1u
#define DEEP	2u

/* ---- Names ----------------------------------------------------------------------------------- */

/* What is before "___", by which libbpf tells versions of a type: as its bpf_core_essential_name_len(). */
static size_t essential_bytes(const char *name)
{
	size_t bytes = strlen(name);

	for (size_t i = bytes >= 5 ? bytes - 4 : 0; i--;)
		if (name[i] != '_' && !memcmp(name + i + 1, "___", 3) && name[i + 4] != '_')
			return i + 1;
	return bytes;
}

/* The place of a name, or the empty one where it belongs. */
static struct name *find_name(struct part *part, const char *text, size_t bytes)
{
	uint32_t hash = 2166136261u;

	for (size_t i = 0; i < bytes; i++)
		hash = (hash ^ (unsigned char)text[i]) * 16777619u;
	for (;; hash++) {
		struct name *name = &part->name[hash & (NAMES - 1)];

		if (!name->text || (name->bytes == bytes && !memcmp(name->text, text, bytes)))
			return name;
	}
}

static int take_names(struct part *part, const struct btf *programs)
{
	for (uint32_t id = 1; id < btf__type_cnt(programs); id++) {
		const struct btf_type *type = btf__type_by_id(programs, id);
		const char *text = btf__name_by_offset(programs, type->name_off);
		size_t bytes = text ? essential_bytes(text) : 0;
		struct name *name;

		if (!bytes || btf_is_func(type) || btf_is_var(type) || btf_is_datasec(type))
			continue;
		name = find_name(part, text, bytes);
		if (name->text)
			continue;
		if (part->names == NAMES / 2)
			return -E2BIG;
		*name = (struct name){text, bytes};
		part->names++;
	}
	return 0;
}

/* ---- Which types ----------------------------------------------------------------------------- */

static void want(struct part *part, uint32_t id, bool deep)
{
	uint32_t wanted = deep ? DEEP : SHALLOW;

	if (!id || part->number[id] >= wanted)
		return;
	part->number[id] = wanted;
	part->open[part->opens++] = (struct open){id, deep};
}

static bool has_name(const struct btf_type *type)
{
	return btf_is_composite(type) || btf_is_any_enum(type) || btf_is_typedef(type) || btf_is_int(type) ||
	       btf_is_fwd(type) || btf_is_float(type);
}

static void want_named(struct part *part)
{
	for (uint32_t id = 1; id < btf__type_cnt(part->kernel); id++) {
		const struct btf_type *type = btf__type_by_id(part->kernel, id);
		const char *text = has_name(type) ? btf__name_by_offset(part->kernel, type->name_off) : NULL;

		if (text && *text && find_name(part, text, essential_bytes(text))->text)
			want(part, id, btf_is_typedef(type));
	}
}

/* Calls back for each place in a type where it names another. */
static void each_inner(struct part *part, struct btf_type *type, bool deep,
		       void (*look)(struct part *part, uint32_t *id, bool deep))
{
	if (btf_is_composite(type)) {
		for (unsigned i = 0; i < btf_vlen(type); i++)
			look(part, &btf_members(type)[i].type, false);
	} else if (btf_is_array(type)) {
		look(part, &btf_array(type)->type, deep);
		look(part, &btf_array(type)->index_type, false);
	} else if (btf_is_typedef(type) || btf_is_mod(type) || btf_is_type_tag(type) ||
		   (deep && (btf_is_ptr(type) || btf_is_func_proto(type)))) {
		look(part, &type->type, deep);
	}
	for (unsigned i = 0; deep && btf_is_func_proto(type) && i < btf_vlen(type); i++)
		look(part, &btf_params(type)[i].type, true);
}

static void want_inner(struct part *part, uint32_t *id, bool deep)
{
	want(part, *id, deep);
}

static void want_all(struct part *part)
{
	want_named(part);
	while (part->opens) {
		const struct open open = part->open[--part->opens];

		/* They are looked at, and left as they are. */
		each_inner(part, (struct btf_type *)btf__type_by_id(part->kernel, open.id), open.deep, want_inner);
	}
}

/* ---- Writing --------------------------------------------------------------------------------- */

static void renumber(struct part *part, uint32_t *id, bool deep)
{
	(void)deep;
	*id = part->number[*id];
}

static int add(struct part *part, struct btf *to, uint32_t id)
{
	int number = btf__add_type(to, part->kernel, btf__type_by_id(part->kernel, id));
	struct btf_type *type;

	if (number < 0)
		return number;
	type = (struct btf_type *)btf__type_by_id(to, (uint32_t)number);
	each_inner(part, type, true, renumber);
	return 0;
}

static int add_all(struct part *part, struct btf *to)
{
	uint32_t types = btf__type_cnt(part->kernel), next = 1;
	int err = 0;

	for (uint32_t id = 1; id < types; id++)
		if (part->number[id])
			part->number[id] = next++;
	for (uint32_t id = 1; id < types && !err; id++)
		if (part->number[id])
			err = add(part, to, id);
	return err;
}

static int write_types(const struct btf *types, int fd)
{
	uint32_t bytes = 0;
	const void *data = btf__raw_data(types, &bytes);
	ssize_t written = data ? write(fd, data, bytes) : -1;

	return !data ? -ENOMEM : written < 0 ? -errno : written == (ssize_t)bytes ? 0 : -ENOSPC;
}

int bpf_kernel_part_write(const struct btf *kernel, const struct btf *programs, int fd)
{
	uint32_t types = btf__type_cnt(kernel);
	struct part *part = calloc(1, sizeof(*part));
	struct btf *to = btf__new_empty();
	int err = -ENOMEM;

	if (part && to) {
		part->kernel = kernel;
		part->number = calloc(types, sizeof(*part->number));
		part->open = calloc(2 * (size_t)types, sizeof(*part->open));
		err = part->number && part->open ? take_names(part, programs) : -ENOMEM;
	}
	if (!err) {
		want_all(part);
		err = add_all(part, to);
	}
	if (!err)
		err = write_types(to, fd);
	if (part) {
		free(part->number);
		free(part->open);
	}
	free(part);
	btf__free(to);
	return err;
}
