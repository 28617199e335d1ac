#include "client/cli/shape_set.h"

#include <stdlib.h>
#include <string.h>

#include "client/lib/limits.h"

struct shape_set {
	struct shape *first;
	struct shape *by_id[PROBE_ID_MAX + 1];	/* of the probe that had that number last */
};

struct shape_set *shape_set_create(void)
{
	return calloc(1, sizeof(struct shape_set));
}

static void destroy_shape(struct shape *shape)
{
	for (unsigned i = 0; i < shape->fields; i++)
		free(shape->field[i]);
	free(shape->spec);
	free(shape);
}

void shape_set_destroy(struct shape_set *set)
{
	while (set && set->first) {
		struct shape *shape = set->first;

		set->first = shape->next;
		destroy_shape(shape);
	}
	free(set);
}

static bool is_of(const struct shape *shape, const struct ringtail_probe *probe)
{
	if (strcmp(shape->spec, probe->spec) || shape->fields != probe->fields)
		return false;
	for (unsigned i = 0; i < probe->fields; i++)
		if (strcmp(shape->field[i], probe->field[i].name) || shape->type[i] != probe->field[i].type)
			return false;
	return true;
}

static struct shape *add(struct shape_set *set, const struct ringtail_probe *probe)
{
	struct shape *shape = calloc(1, sizeof(*shape));
	bool whole = shape && (shape->spec = strdup(probe->spec));

	for (unsigned i = 0; whole && i < probe->fields; i++) {
		shape->type[i] = probe->field[i].type;
		shape->field[i] = strdup(probe->field[i].name);
		shape->fields = i + 1;
		whole = shape->field[i];
	}
	if (!whole) {
		if (shape)
			destroy_shape(shape);
		return NULL;
	}
	shape->id = set->first ? set->first->id + 1 : 1;
	shape->next = set->first;
	set->first = shape;
	return shape;
}

struct shape *shape_set_find(struct shape_set *set, const struct ringtail_probe *probe)
{
	struct shape *shape = set->by_id[probe->id];

	if (shape && shape->probe == probe && shape->fields == probe->fields &&
	    !strcmp(shape->spec, probe->spec))
		return shape;
	for (shape = set->first; shape && !is_of(shape, probe);)
		shape = shape->next;
	if (!shape)
		shape = add(set, probe);
	if (shape) {
		shape->probe = probe;
		set->by_id[probe->id] = shape;
	}
	return shape;
}

struct shape *shape_set_first(const struct shape_set *set)
{
	return set->first;
}
