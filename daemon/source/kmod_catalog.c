/* source_kmod_catalog: see source_kmod_catalog.h. The loader's thread; nothing shared. */
#include "daemon/source/kmod_catalog.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "daemon/source/syscall_args.h"
#include "kmod/uapi/ringtail_ioctl.h"
#include "proto/limits.h"

/* The module numbers field types as the wire does. */
_Static_assert((int)RT_FIELD_UNSIGNED == RINGTAIL__V1__FIELD_TYPE__FIELD_UNSIGNED, "field types");
_Static_assert((int)RT_FIELD_SIGNED == RINGTAIL__V1__FIELD_TYPE__FIELD_SIGNED, "field types");
_Static_assert((int)RT_FIELD_HEX == RINGTAIL__V1__FIELD_TYPE__FIELD_HEX, "field types");
_Static_assert((int)RT_FIELD_DURATION == RINGTAIL__V1__FIELD_TYPE__FIELD_DURATION, "field types");
_Static_assert((int)RT_FIELD_RESULT == RINGTAIL__V1__FIELD_TYPE__FIELD_RESULT, "field types");
_Static_assert((int)RT_FIELD_FD == RINGTAIL__V1__FIELD_TYPE__FIELD_FD, "field types");
_Static_assert((int)RT_FIELD_THREAD == RINGTAIL__V1__FIELD_TYPE__FIELD_THREAD, "field types");
_Static_assert((int)RT_FIELD_STRING == RINGTAIL__V1__FIELD_TYPE__FIELD_STRING, "field types");

/* A size query, then the table: *to is to be freed. */
static int read_table(int device, unsigned long command, uint32_t probe, size_t entry_bytes,
		      uint32_t max, void **to, uint32_t *count)
{
	struct rt_table table = {.probe = probe};

	if (ioctl(device, command, &table) < 0)
		return -errno;
	if (table.count > max)
		return -E2BIG;
	*to = calloc(table.count ? table.count : 1, entry_bytes);
	if (!*to)
		return -ENOMEM;
	table.to = (uintptr_t)*to;
	*count = table.count;
	if (!table.count || ioctl(device, command, &table) == 0)
		return 0;
	free(*to);
	return -errno;
}

static Ringtail__V1__Field *field_create(uint32_t type, uint32_t bits, const char *name,
					 const char *c_type)
{
	Ringtail__V1__Field *field = malloc(sizeof(*field));

	if (!field)
		return NULL;
	ringtail__v1__field__init(field);
	field->type = (Ringtail__V1__FieldType)type;
	field->bits = bits;
	field->name = strdup(name);
	field->c_type = strdup(c_type);
	if (field->name && field->c_type)
		return field;
	ringtail__v1__field__free_unpacked(field, NULL);
	return NULL;
}

static void copy_text(char *to, size_t bytes, const char *from)
{
	size_t length = strnlen(from, bytes - 1);

	memcpy(to, from, length);
	to[length] = 0;
}

/*
 * What tracefs says of a call's arguments, if it knows the call at all and counts them like the
 * module. The first argument of a call or an entry is field `first`.
 */
static void improve_args(int tracefs, const struct rt_probe_info *info, struct rt_field_info *field)
{
	struct syscall_arg arg[RT_SYSCALL_ARGS_MAX];
	uint32_t first = strcmp(info->name, "call") == 0 ? 2 : 0;
	unsigned args;

	if (strcmp(info->provider, "syscall") != 0 || strcmp(info->name, "return") == 0)
		return;
	args = syscall_args_read(tracefs, info->function, arg);
	if (!args || first + args != info->fields || strcmp(arg[0].name, "arg0") == 0)
		return;
	for (unsigned i = 0; i < args; i++) {
		struct rt_field_info *to = &field[first + i];

		to->type = (uint32_t)arg[i].type;
		to->bits = arg[i].bits;
		copy_text(to->name, sizeof(to->name), arg[i].name);
		copy_text(to->c_type, sizeof(to->c_type), arg[i].c_type);
	}
}

static int add_fields(int device, int tracefs, const struct rt_probe_info *info,
		      Ringtail__V1__Probe *probe)
{
	struct rt_field_info *field;
	uint32_t fields;
	void *table;
	int err = read_table(device, RT_IOC_FIELDS, info->id, sizeof(*field), PROBE_FIELDS_MAX,
			     &table, &fields);

	if (err)
		return err;
	field = table;
	improve_args(tracefs, info, field);
	probe->field = calloc(fields ? fields : 1, sizeof(*probe->field));
	for (uint32_t i = 0; probe->field && i < fields; i++) {
		probe->field[i] = field_create(field[i].type, field[i].bits, field[i].name,
					       field[i].c_type);
		if (!probe->field[i])
			break;
		probe->n_field++;
	}
	free(field);
	return probe->field && probe->n_field == fields ? 0 : -ENOMEM;
}

static int add_probe(int device, int tracefs, const struct rt_probe_info *info,
		     Ringtail__V1__Catalog *catalog)
{
	Ringtail__V1__Probe *probe = malloc(sizeof(*probe));

	if (!probe)
		return -ENOMEM;
	ringtail__v1__probe__init(probe);
	catalog->probe[catalog->n_probe++] = probe;
	probe->id = info->id;
	probe->provider = strdup(info->provider);
	probe->function = strdup(info->function);
	probe->name = strdup(info->name);
	if (!probe->provider || !probe->function || !probe->name)
		return -ENOMEM;
	return add_fields(device, tracefs, info, probe);
}

int source_kmod_catalog_create(int device, Ringtail__V1__Catalog **out)
{
	Ringtail__V1__Catalog *catalog;
	struct rt_probe_info *info;
	uint32_t count = 0;
	void *table;
	int tracefs;
	int err = read_table(device, RT_IOC_LIST, 0, sizeof(*info), CATALOG_PROBES_MAX, &table,
			     &count);

	if (err)
		return err;
	info = table;
	catalog = malloc(sizeof(*catalog));
	if (!catalog) {
		free(info);
		return -ENOMEM;
	}
	ringtail__v1__catalog__init(catalog);
	tracefs = syscall_args_open_tracefs();
	catalog->probe = calloc(count ? count : 1, sizeof(*catalog->probe));
	err = catalog->probe ? 0 : -ENOMEM;
	for (uint32_t i = 0; i < count && !err; i++)
		err = add_probe(device, tracefs, &info[i], catalog);
	if (tracefs >= 0)
		close(tracefs);
	free(info);
	if (err)
		ringtail__v1__catalog__free_unpacked(catalog, NULL);
	else
		*out = catalog;
	return err;
}
