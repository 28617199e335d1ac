#include "query/filter_name.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "query/constant.h"
#include "query/nearest.h"

#define COUNT(array)	(sizeof(array) / sizeof((array)[0]))
#define FIELD_PREFIX	"arg."
#define ERRNO_LIBC_MAX	256	/* libc names none beyond */

static const struct {
	const char *name;
	enum filter_subject_kind kind;
} subjects[] = {
	{ "pid", SUBJECT_PID },		{ "tid", SUBJECT_TID },
	{ "uid", SUBJECT_UID },		{ "ppid", SUBJECT_PPID },
	{ "cpu", SUBJECT_CPU },		{ "time", SUBJECT_TIME },
	{ "kernel", SUBJECT_KERNEL },	{ "error", SUBJECT_ERROR },
	{ "comm", SUBJECT_COMM },	{ "probe", SUBJECT_PROBE },
	{ "provider", SUBJECT_PROVIDER }, { "function", SUBJECT_FUNCTION },
	{ "name", SUBJECT_NAME },
};

/* Fields that are known by their type, whatever the catalog calls them, and in any catalog. */
static const char *const typed[] = { "duration", "ret" };

/* Errors that libc has no name for (seen where a signal cut a call short), or a second one. */
static const struct {
	const char *name;
	int number;
} errnos[] = {
	{ "EWOULDBLOCK", EWOULDBLOCK },	{ "ENOTSUP", ENOTSUP },
	{ "EDEADLOCK", EDEADLOCK },	{ "ERESTARTSYS", 512 },
	{ "ERESTARTNOINTR", 513 },	{ "ERESTARTNOHAND", 514 },
	{ "ENOIOCTLCMD", 515 },		{ "ERESTART_RESTARTBLOCK", 516 },
};

static const struct {
	const char *word, *sign;
} operators[] = { { "and", "&&" }, { "or", "||" }, { "not", "!" } };

/* The number of an error's name, or 0. */
static int errno_of(const char *name)
{
	for (size_t i = 0; i < COUNT(errnos); i++) {
		if (strcmp(errnos[i].name, name) == 0)
			return errnos[i].number;
	}
	for (int i = 1; i < ERRNO_LIBC_MAX; i++) {
		const char *known = strerrorname_np(i);

		if (known && strcmp(known, name) == 0)
			return i;
	}
	return 0;
}

/* ---- Fields ---------------------------------------------------------------------------------- */

static bool is_field(const Ringtail__V1__Field *field, const char *name, bool want_error)
{
	if (want_error || field->type == RINGTAIL__V1__FIELD_TYPE__FIELD_RESULT)
		return field->type == RINGTAIL__V1__FIELD_TYPE__FIELD_RESULT &&
		       (want_error || strcmp(name, "ret") == 0 || strcmp(name, field->name) == 0);
	if (field->type == RINGTAIL__V1__FIELD_TYPE__FIELD_DURATION &&
	    strcmp(name, "duration") == 0)
		return true;
	return strcmp(name, field->name) == 0;
}

static struct filter_place place_of(const Ringtail__V1__Field *field, unsigned index)
{
	unsigned bits = field->bits && field->bits < 64 ? field->bits : 64;
	struct filter_place place = { .index = index };

	switch (field->type) {
	case RINGTAIL__V1__FIELD_TYPE__FIELD_FD:
		bits = 32;	/* often declared unsigned, but it is -1 that is passed */
		place.is_signed = true;
		break;
	case RINGTAIL__V1__FIELD_TYPE__FIELD_SIGNED:
	case RINGTAIL__V1__FIELD_TYPE__FIELD_RESULT:
		place.is_signed = true;
		break;
	case RINGTAIL__V1__FIELD_TYPE__FIELD_DURATION:
		bits = 64;
		break;
	default:
		break;
	}
	place.shift = 64 - bits;
	return place;
}

/* A call's duration and its result, which field 0 says are not there if the call never returns. */
static bool is_outcome(const Ringtail__V1__Probe *probe, size_t k)
{
	if (probe->field[0]->type != RINGTAIL__V1__FIELD_TYPE__FIELD_DURATION)
		return false;
	return k == 0 ||
	       (k == 1 && probe->field[1]->type == RINGTAIL__V1__FIELD_TYPE__FIELD_RESULT);
}

/* Fills in the field's place in every probe; whether there is any. */
static bool find_places(struct filter_field *field, const Ringtail__V1__Catalog *catalog)
{
	bool found = false;

	field->is_result = true;
	memset(field->place, FIELD_ABSENT, sizeof(field->place));
	if (!catalog)
		return true;
	for (size_t i = 0; i < catalog->n_probe; i++) {
		const Ringtail__V1__Probe *probe = catalog->probe[i];

		if (probe->id >= RT_PROBE_MAX)
			continue;
		for (size_t k = 0; k < probe->n_field && k < PROBE_FIELDS_MAX; k++) {
			const Ringtail__V1__Field *candidate = probe->field[k];

			if (!is_field(candidate, field->name, field->is_error))
				continue;
			field->place[probe->id] = place_of(candidate, k);
			field->place[probe->id].is_outcome = is_outcome(probe, k);
			field->is_result &= candidate->type ==
					    RINGTAIL__V1__FIELD_TYPE__FIELD_RESULT;
			field->is_string |= candidate->type ==
					    RINGTAIL__V1__FIELD_TYPE__FIELD_STRING;
			found = true;
			break;
		}
	}
	return found;
}

/* ---- Names ----------------------------------------------------------------------------------- */

static int refuse_name(const char *name, unsigned column, const Ringtail__V1__Catalog *catalog,
		       struct error *error)
{
	char text[NEAREST_TEXT_BYTES];
	struct nearest nearest;

	filter_refuse(error, column, "filter-unknown-name", "no name is called `%.60s`", name);
	for (size_t i = 0; i < COUNT(operators); i++) {
		if (strcmp(name, operators[i].word) == 0) {
			error_hint(error, "%s is written %s", name, operators[i].sign);
			return -EINVAL;
		}
	}
	nearest_init(&nearest, name);
	for (size_t i = 0; i < COUNT(subjects); i++)
		nearest_offer(&nearest, subjects[i].name);
	for (size_t i = 0; i < COUNT(typed); i++)
		nearest_offer(&nearest, typed[i]);
	for (size_t i = 0; i < COUNT(errnos); i++)
		nearest_offer(&nearest, errnos[i].name);
	for (size_t i = 0; constant_name(i); i++)
		nearest_offer(&nearest, constant_name(i));
	for (int i = 1; i < ERRNO_LIBC_MAX; i++) {
		if (strerrorname_np(i))
			nearest_offer(&nearest, strerrorname_np(i));
	}
	for (size_t i = 0; i < catalog->n_probe; i++) {
		for (size_t k = 0; k < catalog->probe[i]->n_field; k++)
			nearest_offer(&nearest, catalog->probe[i]->field[k]->name);
	}
	if (nearest_text(&nearest, text))
		error_hint(error, "did you mean %s?", text);
	else
		error_hint(error, "text stands in quotes; `tracectl list` shows the arguments");
	return -EINVAL;
}

static bool is_typed(const char *name)
{
	for (size_t i = 0; i < COUNT(typed); i++) {
		if (strcmp(name, typed[i]) == 0)
			return true;
	}
	return false;
}

/* The tree's field of that name, made if it is new. */
static int use_field(const char *name, bool is_error, unsigned column,
		     const Ringtail__V1__Catalog *catalog, struct filter_tree *tree,
		     const struct filter_field **used, struct error *error)
{
	struct filter_field *field;
	int err;

	for (unsigned i = 0; i < tree->fields; i++) {
		field = tree->field[i];
		if (field->is_error == is_error && strcmp(field->name, name) == 0) {
			*used = field;
			return 0;
		}
	}
	err = filter_tree_field(tree, column, &field, error);
	if (err)
		return err;
	strcpy(field->name, name);
	field->is_error = is_error;
	if (!find_places(field, catalog) && !is_error && !is_typed(name))
		return refuse_name(name, column, catalog, error);
	*used = field;
	return 0;
}

int filter_name_resolve(const struct filter_token *token, const Ringtail__V1__Catalog *catalog,
			struct filter_tree *tree, enum filter_meaning *meaning,
			struct filter_subject *subject, int64_t *number, struct error *error)
{
	char name[NAME_BYTES_MAX + 1];
	const char *field = name;

	if (token->bytes > (int)NAME_BYTES_MAX)
		return filter_refuse(error, token->column, "filter-unknown-name",
				     "no name has more than %u bytes", NAME_BYTES_MAX);
	snprintf(name, sizeof(name), "%.*s", token->bytes, token->at);
	*meaning = MEANS_SUBJECT;
	*subject = (struct filter_subject){ .kind = SUBJECT_FIELD };
	for (size_t i = 0; i < COUNT(subjects); i++) {
		if (strcmp(name, subjects[i].name))
			continue;
		subject->kind = subjects[i].kind;
		if (subject->kind == SUBJECT_ERROR)
			return use_field(name, true, token->column, catalog, tree, &subject->field,
					 error);
		return 0;
	}
	*number = errno_of(name);
	if (*number) {
		*meaning = MEANS_ERRNO;
		return 0;
	}
	if (constant_find(name, number)) {
		*meaning = MEANS_CONSTANT;
		return 0;
	}
	if (strncmp(name, FIELD_PREFIX, strlen(FIELD_PREFIX)) == 0)
		field += strlen(FIELD_PREFIX);
	return use_field(field, false, token->column, catalog, tree, &subject->field, error);
}

const char *filter_subject_name(const struct filter_subject *subject)
{
	if (subject->kind == SUBJECT_FIELD)
		return subject->field->name;
	for (size_t i = 0; i < COUNT(subjects); i++) {
		if (subjects[i].kind == subject->kind)
			return subjects[i].name;
	}
	return "?";
}
