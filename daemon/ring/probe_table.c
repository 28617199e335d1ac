#include "daemon/ring/probe_table.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>

/* What points to bytes: a buffer, or a vector of them. */
static bool is_buffer(const char *c_type)
{
	const char *star = strchr(c_type, '*');

	return star && !strchr(star + 1, '*') &&
	       (strstr(c_type, "char") || strstr(c_type, "void") || strstr(c_type, "struct iovec") ||
		strstr(c_type, "msghdr") || strstr(c_type, "linux_dirent"));
}

int probe_table_add(struct probe_table *table, const Ringtail__V1__Probe *probe,
		    struct error *error)
{
	struct probe_info *info;

	if (probe->id < RT_PROBE_EVENT_MIN || probe->id >= RT_PROBE_MAX ||
	    probe->n_field > PROBE_FIELDS_MAX)
		return error_set(error, EPROTO, "catalog-invalid",
				 "the source's catalog is invalid: probe %s:%s:%s has id %u and %zu fields",
				 probe->provider, probe->function, probe->name, probe->id,
				 probe->n_field);
	info = &table->probe[probe->id];
	info->fields = (uint8_t)probe->n_field;
	for (size_t i = 0; i < probe->n_field; i++) {
		Ringtail__V1__FieldType type = probe->field[i]->type;

		if (type == RINGTAIL__V1__FIELD_TYPE__FIELD_DURATION && i == 0)
			info->has_duration = true;
		if (type == RINGTAIL__V1__FIELD_TYPE__FIELD_FD || type == RINGTAIL__V1__FIELD_TYPE__FIELD_RESULT)
			info->file_fields |= 1u << i;
		if (type == RINGTAIL__V1__FIELD_TYPE__FIELD_HEX && is_buffer(probe->field[i]->c_type))
			info->data_fields |= 1u << i;
		else if (type == RINGTAIL__V1__FIELD_TYPE__FIELD_HEX && strchr(probe->field[i]->c_type, '*'))
			info->structure_fields |= 1u << i;
		if (strstr(probe->field[i]->c_type, "struct linux_dirent"))
			info->dirent_fields |= 1u << i;
		if (strstr(probe->field[i]->c_type, "struct linux_dirent *"))
			info->old_dirent_fields |= 1u << i;
		if (type == RINGTAIL__V1__FIELD_TYPE__FIELD_STRING)
			info->string_fields |= 1u << i;
		if (type == RINGTAIL__V1__FIELD_TYPE__FIELD_THREAD &&
		    info->thread_fields < PROBE_THREAD_FIELDS_MAX)
			info->thread_field[info->thread_fields++] = (uint8_t)i;
	}
	/* Partner: take_record() of drain. */
	atomic_store_explicit(&info->known, true, memory_order_release);
	return 0;
}

int probe_table_init(struct probe_table *table, const Ringtail__V1__Catalog *catalog,
		     struct error *error)
{
	memset(table, 0, sizeof(*table));
	for (size_t i = 0; i < catalog->n_probe; i++) {
		int err = probe_table_add(table, catalog->probe[i], error);

		if (err)
			return err;
	}
	return 0;
}
