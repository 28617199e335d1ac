/* Recursive descent: a function for each rule of the grammar. */
#include "query/filter_parse.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "query/constant.h"
#include "query/filter.h"
#include "query/filter_token.h"
#include "query/filter_tree.h"
#include "query/glob.h"
#include "query/kernel_names.h"
#include "query/nearest.h"
#include "query/socket_text.h"
#include "query/user_names.h"

/*
 * ---- Names -------------------------------------------------------------------------------------
 *
 * Five kinds: what every event has (pid, comm), fields of the catalog (fd, filename), and names of
 * errors (ENOENT) and of constants (O_WRONLY), which are numbers. Where a field has the name of
 * something that every event has, `arg.pid` is the field. What the kernel's print format calls the
 * numbers of a field (RCU, of vec) are names beside that field alone, and come before all others.
 */

enum meaning {
	MEANS_SUBJECT,
	MEANS_ERRNO,
	MEANS_CONSTANT,		/* O_WRONLY, SIGKILL: query/constant.h */
	MEANS_NOTHING,		/* yet: perhaps a field on the other side has a number of that name */
};

#define COUNT(array)	(sizeof(array) / sizeof((array)[0]))
#define FIELD_PREFIX	"arg."
#define ERRNO_LIBC_MAX	256	/* libc names none beyond */
#define NAMES_LISTED_MAX	5	/* where no name is near */
#define NAMES_OFFERED_MAX	(16u << 10)	/* of the numbers of a field, beside one that is wrong */

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
	{ "name", SUBJECT_NAME },	{ "exe", SUBJECT_EXE },
	{ "port", SUBJECT_PORT },
	{ "cgroup", SUBJECT_CGROUP },	{ "container", SUBJECT_CONTAINER },
};

/* Fields that are known by their type, whatever the catalog calls them, and in any catalog. */
static const char *const typed[] = { "duration", "ret", "addr" };

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

static bool is_field(const Ringtail__V1__Field *field, const char *name, enum filter_field_sort sort)
{
	bool want_error = sort == FIELD_ERROR;

	if (sort == FIELD_SOCKET)
		return field->type == RINGTAIL__V1__FIELD_TYPE__FIELD_STRING &&
		       strcmp(field->c_type, "struct sockaddr *") == 0;
	if (want_error || field->type == RINGTAIL__V1__FIELD_TYPE__FIELD_RESULT)
		return field->type == RINGTAIL__V1__FIELD_TYPE__FIELD_RESULT &&
		       (want_error || strcmp(name, "ret") == 0 || strcmp(name, field->name) == 0);
	if (field->type == RINGTAIL__V1__FIELD_TYPE__FIELD_DURATION &&
	    strcmp(name, "duration") == 0)
		return true;
	return strcmp(name, field->name) == 0;
}

static bool is_text_field(const Ringtail__V1__Field *field)
{
	return field->type == RINGTAIL__V1__FIELD_TYPE__FIELD_STRING ||
	       field->type == RINGTAIL__V1__FIELD_TYPE__FIELD_TEXT;
}

/* Its word says how many bytes are attached, which no filter is about. */
static bool is_attached_array(const Ringtail__V1__Field *field)
{
	return field->type == RINGTAIL__V1__FIELD_TYPE__FIELD_BYTES && !field->bytes;
}

/* Texts in words are at most PROBE_FIELDS_MAX of them long. */
static uint8_t text_bytes_of(const Ringtail__V1__Field *field)
{
	if (field->type != RINGTAIL__V1__FIELD_TYPE__FIELD_TEXT)
		return TEXT_POINTED;
	return field->bytes && field->bytes <= PROBE_FIELDS_MAX * sizeof(uint64_t) ?
		       (uint8_t)field->bytes : TEXT_ATTACHED;
}

static struct filter_place place_of(const Ringtail__V1__Field *field, unsigned index)
{
	unsigned bits = field->bits && field->bits < 64 ? field->bits : 64;
	struct filter_place place = { .index = index, .text_bytes = text_bytes_of(field) };

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
	case RINGTAIL__V1__FIELD_TYPE__FIELD_TEXT:
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

/*
 * Fills in the field's place in every probe; whether there is any. What programs call `ret` is no reason to refuse
 * what is said of a system call's. *is_array: some probe has an array of that name.
 */
static bool find_places(struct filter_field *field, const Ringtail__V1__Catalog *catalog, bool *is_array)
{
	bool found = false, in_source = false;

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

			if (!is_field(candidate, field->name, field->sort))
				continue;
			*is_array |= is_attached_array(candidate);
			if (is_attached_array(candidate))
				break;
			field->place[probe->id] = place_of(candidate, k);
			field->place[probe->id].is_outcome = is_outcome(probe, k);
			if (probe->id < RT_PROBE_PROGRAM) {
				in_source = true;
				field->is_result &= candidate->type ==
						    RINGTAIL__V1__FIELD_TYPE__FIELD_RESULT;
			}
			if (is_text_field(candidate)) {
				probe_set_add(&field->strings, probe->id);
				field->is_string = true;
			}
			found = true;
			break;
		}
	}
	field->is_result &= in_source || !found;
	return found;
}

/* Whether any probe has a field of that name, of whatever type. */
static bool has_field(const Ringtail__V1__Catalog *catalog, const char *name)
{
	for (size_t i = 0; i < catalog->n_probe; i++)
		for (size_t k = 0; k < catalog->probe[i]->n_field && k < PROBE_FIELDS_MAX; k++)
			if (catalog->probe[i]->id < RT_PROBE_MAX &&
			    is_field(catalog->probe[i]->field[k], name, FIELD_NAMED))
				return true;
	return false;
}

/* ---- Names ----------------------------------------------------------------------------------- */

/* Before the first of the probe's names for numbers of the field. False: it cannot have any. */
static bool begin_kernel_names(struct kernel_names *names, const struct filter_field *field,
			       const Ringtail__V1__Probe *probe)
{
	if (probe->id >= RT_PROBE_PROGRAM || field->place[probe->id].index >= probe->n_field)
		return false;
	kernel_names_begin(names, kernel_names_format(probe), probe->field[field->place[probe->id].index]->name);
	return true;
}

/* Offers what print formats call the numbers of the field: so many of them that it takes little time. */
static void offer_kernel_names(struct nearest *nearest, const struct filter_field *field,
			       const Ringtail__V1__Catalog *catalog)
{
	char text[NEAREST_NAME_BYTES];
	struct kernel_names names;
	struct kernel_name name;
	unsigned left = NAMES_OFFERED_MAX;

	for (size_t i = 0; left && i < catalog->n_probe; i++) {
		if (!begin_kernel_names(&names, field, catalog->probe[i]))
			continue;
		while (left && kernel_names_next(&names, &name)) {
			left--;
			snprintf(text, sizeof(text), "%.*s", (int)name.bytes, name.text);
			if (name.bytes)
				nearest_offer(nearest, text);
		}
	}
}

/* "`HI`, `TIMER`": what the first print format that has some calls the numbers of the field. False: none has. */
static bool list_kernel_names(char *text, const struct filter_field *field, const Ringtail__V1__Catalog *catalog)
{
	struct kernel_names names;
	struct kernel_name name;
	size_t bytes = 0;

	for (size_t i = 0; !bytes && i < catalog->n_probe; i++) {
		if (!begin_kernel_names(&names, field, catalog->probe[i]))
			continue;
		for (unsigned n = 0; n < NAMES_LISTED_MAX && kernel_names_next(&names, &name); n++)
			bytes += (size_t)sprintf(text + bytes, "%s`%.*s`", n ? ", " : "",
						 (int)(name.bytes < NEAREST_NAME_BYTES ? name.bytes : NEAREST_NAME_BYTES),
						 name.text);
	}
	return bytes;
}

/* `of`: the field that it is compared with, if there is one. */
static int refuse_name(const char *name, const struct filter_field *of, unsigned column,
		       const Ringtail__V1__Catalog *catalog, struct error *error)
{
	char text[NAMES_LISTED_MAX * (NEAREST_NAME_BYTES + 8)];
	struct nearest nearest;

	_Static_assert(sizeof(text) >= NEAREST_TEXT_BYTES, "the nearest names fit, too");
	filter_refuse(error, column, "filter-unknown-name", "no name is called `%.60s`", name);
	for (size_t i = 0; i < COUNT(operators); i++) {
		if (strcmp(name, operators[i].word) == 0) {
			error_hint(error, "%s is written %s", name, operators[i].sign);
			return -EINVAL;
		}
	}
	nearest_init(&nearest, name);
	if (of)
		offer_kernel_names(&nearest, of, catalog);
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
	else if (of && list_kernel_names(text, of, catalog))
		error_hint(error, "numbers of `%.60s` have names such as %s", of->name, text);
	else
		error_hint(error, "text stands in quotes; `tracectl list` shows the arguments");
	return -EINVAL;
}

static int refuse_array(const char *name, unsigned column, struct error *error)
{
	filter_refuse(error, column, "filter-array", "`%.60s` is an array, and a filter compares numbers and texts", name);
	error_hint(error, "leave it out of the filter, and choose by its elements in what reads the output (-o json); or the"
		   " program passes the element as an argument of its own");
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
static int use_field(const char *name, enum filter_field_sort sort, unsigned column,
		     const Ringtail__V1__Catalog *catalog, struct filter_tree *tree,
		     const struct filter_field **used, struct error *error)
{
	struct filter_field *field;
	bool is_array = false;
	int err;

	for (unsigned i = 0; i < tree->fields; i++) {
		field = tree->field[i];
		if (field->sort == sort && strcmp(field->name, name) == 0) {
			*used = field;
			return 0;
		}
	}
	err = filter_tree_field(tree, column, &field, error);
	if (err)
		return err;
	strcpy(field->name, name);
	field->sort = sort;
	field->is_string = !catalog && sort == FIELD_NAMED && !is_typed(name);
	if (!find_places(field, catalog, &is_array) && sort == FIELD_NAMED && !is_typed(name))
		return is_array ? refuse_array(name, column, error) : refuse_name(name, NULL, column, catalog, error);
	*used = field;
	return 0;
}

const char *filter_field_name(const char *name)
{
	return strncmp(name, FIELD_PREFIX, strlen(FIELD_PREFIX)) ? name : name + strlen(FIELD_PREFIX);
}

/*
 * What the token, a TOKEN_NAME, stands for: *subject, or *number. 0 and *meaning, or -EINVAL.
 * Fields go to the tree.
 */
static int resolve_name(const struct filter_token *token, const Ringtail__V1__Catalog *catalog,
			struct filter_tree *tree, enum meaning *meaning,
			struct filter_subject *subject, int64_t *number, struct error *error)
{
	char name[NAME_BYTES_MAX + 1];

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
			return use_field(name, FIELD_ERROR, token->column, catalog, tree,
					 &subject->field, error);
		if (subject->kind == SUBJECT_PORT)
			return use_field(name, FIELD_SOCKET, token->column, catalog, tree,
					 &subject->field, error);
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
	if (catalog && !is_typed(filter_field_name(name)) && !has_field(catalog, filter_field_name(name))) {
		*meaning = MEANS_NOTHING;
		return 0;
	}
	return use_field(filter_field_name(name), FIELD_NAMED, token->column, catalog, tree, &subject->field, error);
}

/* As it is written: "comm", "arg.fd". */
static const char *name_of_subject(const struct filter_subject *subject)
{
	if (subject->kind == SUBJECT_FIELD)
		return subject->field->name;
	for (size_t i = 0; i < COUNT(subjects); i++) {
		if (subjects[i].kind == subject->kind)
			return subjects[i].name;
	}
	return "?";
}

static bool is_text(const struct filter_subject *subject)
{
	return subject->kind >= SUBJECT_COMM;
}

/*
 * ---- Comparisons -------------------------------------------------------------------------------
 *
 * From two operands to a typed node of the tree. Here is decided what may be compared with what, and
 * every refusal says what would have done.
 */

/* One side of a comparison. */
struct operand {
	enum {
		OPERAND_SUBJECT,
		OPERAND_NUMBER,
		OPERAND_BITS,		/* of a number: subject & mask */
		OPERAND_ERRNO,		/* ENOENT or -ENOENT: a number for few subjects */
		OPERAND_TEXT,
		OPERAND_NAME,		/* which means nothing but perhaps a number of a field */
	} kind;
	unsigned column;
	const char *name;		/* as it is written, not terminated; NULL: it is no name */
	size_t name_bytes;
	const char *mask_name;		/* of BITS: what is behind &, likewise */
	size_t mask_name_bytes;
	struct filter_subject subject;
	filter_number number;
	uint64_t mask;
	const char *text;
};

#define COMM_TEXT_BYTES_MAX	(RT_COMM_BYTES - 1)	/* the kernel cuts names to this */
#define PROBE_NAME_BYTES	(3 * NAME_BYTES_MAX + 3)

/* What `a op b` is as `b op a`. */
static enum filter_op mirrored(enum filter_op op)
{
	switch (op) {
	case FILTER_LT:
		return FILTER_GT;
	case FILTER_LE:
		return FILTER_GE;
	case FILTER_GT:
		return FILTER_LT;
	case FILTER_GE:
		return FILTER_LE;
	default:
		return op;
	}
}

static int negate(struct filter_tree *tree, unsigned column, struct filter_node **node,
		  struct error *error)
{
	struct filter_node *not;
	int err = filter_tree_node(tree, NODE_NOT, column, &not, error);

	if (err)
		return err;
	filter_node_add(not, *node);
	*node = not;
	return 0;
}

/* ---- Probe names ----------------------------------------------------------------------------- */

/* The part of a probe's name that the subject is. */
static const char *probe_text(const Ringtail__V1__Probe *probe, enum filter_subject_kind kind,
			      char *buffer)
{
	switch (kind) {
	case SUBJECT_PROVIDER:
		return probe->provider;
	case SUBJECT_FUNCTION:
		return probe->function;
	case SUBJECT_NAME:
		return probe->name;
	default:
		snprintf(buffer, PROBE_NAME_BYTES, "%s:%s:%s", probe->provider, probe->function,
			 probe->name);
		return buffer;
	}
}

static int refuse_probe(const struct operand *left, const struct operand *right,
			const Ringtail__V1__Catalog *catalog, struct error *error)
{
	char buffer[PROBE_NAME_BYTES], text[NEAREST_TEXT_BYTES];
	struct nearest nearest;

	filter_refuse(error, right->column, "filter-unknown-probe", "no probe has the %s \"%.60s\"",
		      name_of_subject(&left->subject), right->text);
	nearest_init(&nearest, right->text);
	for (size_t i = 0; i < catalog->n_probe; i++)
		nearest_offer(&nearest, probe_text(catalog->probe[i], left->subject.kind, buffer));
	if (nearest_text(&nearest, text))
		error_hint(error, "did you mean %s?", text);
	else
		error_hint(error, "`tracectl list` shows every probe");
	return -EINVAL;
}

/* A name is looked up now, so that an event's probe id is all there is to test. */
static int compare_probe(struct filter_tree *tree, const Ringtail__V1__Catalog *catalog,
			 const struct operand *left, enum filter_op op,
			 const struct operand *right, struct filter_node **node,
			 struct error *error)
{
	char buffer[PROBE_NAME_BYTES];
	struct probe_set *set;
	int err = filter_tree_set(tree, left->column, &set, error);

	if (!err)
		err = filter_tree_node(tree, NODE_PROBES, left->column, node, error);
	if (err)
		return err;
	(*node)->probes = set;
	for (size_t i = 0; catalog && i < catalog->n_probe; i++) {
		const Ringtail__V1__Probe *probe = catalog->probe[i];
		const char *text = probe_text(probe, left->subject.kind, buffer);

		if (probe->id < RT_PROBE_MAX &&
		    (op == FILTER_MATCH ? glob_match(right->text, text, strlen(text)) :
					  strcmp(right->text, text) == 0))
			probe_set_add(set, probe->id);
	}
	if (catalog && probe_set_count(set) == 0)
		return refuse_probe(left, right, catalog, error);
	return op == FILTER_NE ? negate(tree, left->column, node, error) : 0;
}

/* ---- Text ------------------------------------------------------------------------------------ */

static int compare_comm(struct filter_tree *tree, const struct operand *left,
			enum filter_op op, const struct operand *right,
			struct filter_node **node, struct error *error)
{
	int err;

	if (op == FILTER_MATCH && !glob_is_pattern(right->text))
		op = FILTER_EQ;		/* the kernel can test that */
	if (op != FILTER_MATCH && strlen(right->text) > COMM_TEXT_BYTES_MAX) {
		filter_refuse(error, right->column, "filter-comm-too-long",
			      "no comm has more than %u bytes", COMM_TEXT_BYTES_MAX);
		error_hint(error, "the kernel cuts it: write \"%.*s\"", COMM_TEXT_BYTES_MAX,
			   right->text);
		return -EINVAL;
	}
	err = filter_tree_node(tree, NODE_COMM, left->column, node, error);
	if (err)
		return err;
	(*node)->op = op;
	(*node)->left = left->subject;
	(*node)->text = right->text;
	return 0;
}

/* Of a thread, and in a batch only where it was asked for. */
static bool is_context(const struct filter_subject *subject)
{
	return subject->kind >= SUBJECT_EXE && subject->kind <= SUBJECT_CONTAINER;
}

/* Each step of each pattern is asked of each character of a text: so these are bounded together. */
static int count_glob(struct filter_tree *tree, const struct operand *right, struct error *error)
{
	tree->glob_bytes += strlen(right->text);
	if (tree->glob_bytes <= FILTER_GLOB_BYTES_MAX)
		return 0;
	filter_refuse(error, right->column, "filter-globs-too-long",
		      "the patterns up to this one have %u bytes, of at most %u", tree->glob_bytes,
		      FILTER_GLOB_BYTES_MAX);
	error_hint(error, "shorten them; == and in have no such bound");
	return -EINVAL;
}

/* exe, cgroup or container, or the text of a field: not cut to a few bytes. */
static int compare_long_text(struct filter_tree *tree, enum filter_node_kind kind,
			     const struct operand *left, enum filter_op op,
			     const struct operand *right, struct filter_node **node,
			     struct error *error)
{
	int err = op == FILTER_MATCH ? count_glob(tree, right, error) : 0;

	if (!err)
		err = filter_tree_node(tree, kind, left->column, node, error);
	if (err)
		return err;
	(*node)->op = op;
	(*node)->left = left->subject;
	(*node)->text = right->text;
	return 0;
}

static int compare_text(struct filter_tree *tree, const Ringtail__V1__Catalog *catalog,
			const struct operand *left, enum filter_op op,
			const struct operand *right, struct filter_node **node,
			struct error *error)
{
	const char *name = name_of_subject(&left->subject);

	if (right->kind != OPERAND_TEXT) {
		filter_refuse(error, right->column, "filter-wants-text",
			      "%s is text, and this is not", name);
		error_hint(error, "write text in double quotes, as in %s == \"...\"", name);
		return -EINVAL;
	}
	if (op != FILTER_EQ && op != FILTER_NE && op != FILTER_MATCH) {
		filter_refuse(error, right->column, "filter-no-order",
			      "%s is text, which has no order here", name);
		error_hint(error, "text is compared with ==, !=, =~ and in");
		return -EINVAL;
	}
	if (left->subject.kind == SUBJECT_COMM)
		return compare_comm(tree, left, op, right, node, error);
	if (is_context(&left->subject))
		return compare_long_text(tree, NODE_TEXT, left, op, right, node, error);
	if (left->subject.kind == SUBJECT_FIELD)
		return compare_long_text(tree, NODE_STRING, left, op, right, node, error);
	return compare_probe(tree, catalog, left, op, right, node, error);
}

/* ---- Addresses and users --------------------------------------------------------------------- */

static bool is_address(const struct operand *left, const struct operand *right)
{
	return left->subject.kind == SUBJECT_FIELD && right->kind == OPERAND_TEXT &&
	       strcmp(left->subject.field->name, "addr") == 0;
}

/* addr == 10.0.0.0/8: of the argument that is a socket's address, whatever its name. */
static int compare_address(struct filter_tree *tree, const Ringtail__V1__Catalog *catalog,
			   const struct operand *left, enum filter_op op,
			   const struct operand *right, struct filter_node **node,
			   struct error *error)
{
	struct socket_network network;
	int err;

	if ((op != FILTER_EQ && op != FILTER_NE) || !socket_network_parse(right->text, &network)) {
		filter_refuse(error, right->column, "filter-address",
			      "addr is compared with an address or a network, by ==, != or in");
		error_hint(error, "as in addr == 10.0.0.0/8, or addr == \"fe80::/10\"; a path or a glob"
			   " is compared with the argument, as in uservaddr =~ \"/run/*\"");
		return -EINVAL;
	}
	err = filter_tree_node(tree, NODE_ADDRESS, left->column, node, error);
	if (err)
		return err;
	(*node)->op = op;
	(*node)->left.kind = SUBJECT_FIELD;
	(*node)->network = network;
	return use_field("addr", FIELD_SOCKET, left->column, catalog, tree, &(*node)->left.field, error);
}

/* A user's name becomes its number. Without a catalog any may be one. */
static int name_user(const Ringtail__V1__Catalog *catalog, struct operand *right, struct error *error)
{
	uint32_t uid = 0;

	if (!user_names_find(right->text, &uid) && catalog) {
		filter_refuse(error, right->column, "filter-unknown-user",
			      "no user is known here as \"%.60s\"", right->text);
		error_hint(error, "names are those of the daemon's host when the daemon started, and of a"
			   " recording none but root: write the number that `id -u` prints");
		return -EINVAL;
	}
	right->kind = OPERAND_NUMBER;
	right->number = uid;
	return 0;
}

/* ---- Numbers --------------------------------------------------------------------------------- */

static int refuse_text(const struct operand *left, const struct operand *right,
		       struct error *error)
{
	const char *name = name_of_subject(&left->subject);
	bool text_subject = right->kind == OPERAND_SUBJECT;

	filter_refuse(error, right->column, "filter-wants-number", "%s is a number, and %s is text",
		      name, text_subject ? name_of_subject(&right->subject) : "this");
	if (left->subject.kind == SUBJECT_ERROR)
		error_hint(error, "an error's name stands without quotes");
	return -EINVAL;
}

/* ENOENT goes with `error`, and -ENOENT with what a system call returns; nothing else. */
static int check_errno(const struct operand *left, const struct operand *right,
		       struct error *error)
{
	const struct filter_subject *subject = &left->subject;
	bool negative = right->number < 0;

	if (subject->kind == SUBJECT_ERROR && !negative)
		return 0;
	if (subject->kind == SUBJECT_FIELD && subject->field->is_result && negative)
		return 0;
	filter_refuse(error, right->column, "filter-errno-misplaced",
		      "%s is never %san error's name", name_of_subject(subject),
		      negative ? "minus " : "");
	error_hint(error, "write error == ENOENT or ret == -ENOENT");
	return -EINVAL;
}

static int compare_number(struct filter_tree *tree, const struct operand *left,
			  enum filter_op op, const struct operand *right,
			  struct filter_node **node, struct error *error)
{
	enum filter_node_kind kind = right->kind == OPERAND_SUBJECT ? NODE_PAIR : NODE_NUMBER;
	int err = 0;

	if (right->kind == OPERAND_TEXT ||
	    (right->kind == OPERAND_SUBJECT && is_text(&right->subject)))
		return refuse_text(left, right, error);
	if (right->kind == OPERAND_SUBJECT &&
	    (left->subject.kind == SUBJECT_PORT || right->subject.kind == SUBJECT_PORT))
		return filter_refuse(error, right->column, "filter-wants-number",
				     "port is compared with numbers alone");
	if (op == FILTER_MATCH) {
		filter_refuse(error, right->column, "filter-wants-text",
			      "=~ compares text, and %s is a number",
			      name_of_subject(&left->subject));
		return -EINVAL;
	}
	if (right->kind == OPERAND_ERRNO)
		err = check_errno(left, right, error);
	if (!err)
		err = filter_tree_node(tree, kind, left->column, node, error);
	if (err)
		return err;
	(*node)->op = op;
	(*node)->left = left->subject;
	(*node)->right = right->subject;
	(*node)->number = right->number;
	return 0;
}

/* ---- Names of a field's numbers -------------------------------------------------------------- */

#define CHOICES_MAX	8u	/* numbers that a name has in the fields of that name */

/* Of some of the probes that have the field: which of its bits are compared with which number. */
struct choice {
	uint64_t mask;			/* UINT64_MAX: the whole field, with its sign */
	filter_number number;
	struct probe_set probes;
};

static bool is_number_field(const struct operand *operand)
{
	return (operand->kind == OPERAND_SUBJECT || operand->kind == OPERAND_BITS) &&
	       operand->subject.kind == SUBJECT_FIELD && operand->subject.field->sort == FIELD_NAMED;
}

/* How often a format is read for it: once as it is, and once for each of its flags. */
static size_t readings_of(const char *name, size_t bytes)
{
	size_t readings = 1;

	for (size_t i = 0; i < bytes && readings <= KERNEL_FLAGS_MAX; i++)
		readings += name[i] == '|';
	return readings;
}

/* What the probe's print format says of a name beside the field. What programs bring is no format of the kernel's. */
static bool find_number(struct filter_tree *tree, const Ringtail__V1__Probe *probe, const struct filter_field *field,
			const char *name, size_t bytes, uint64_t *mask, uint64_t *value)
{
	const char *format = kernel_names_format(probe);
	struct filter_place place;

	if (!name || !*format || probe->id >= RT_PROBE_PROGRAM)
		return false;
	place = field->place[probe->id];
	if (place.index >= probe->n_field || place.text_bytes != TEXT_POINTED ||
	    probe_set_test(&field->strings, probe->id) || tree->print_bytes > FILTER_PRINT_BYTES_MAX)
		return false;
	tree->print_bytes += strlen(format) * readings_of(name, bytes);
	return kernel_names_find(format, probe->field[place.index]->name, name, bytes, mask, value);
}

/* Whether the name is a number of the field, by the print format of any probe. */
static bool has_number(struct filter_tree *tree, const Ringtail__V1__Catalog *catalog, const struct operand *operand,
		       const char *name, size_t bytes)
{
	uint64_t mask, value;

	for (size_t i = 0; catalog && is_number_field(operand) && i < catalog->n_probe; i++)
		if (find_number(tree, catalog->probe[i], operand->subject.field, name, bytes, &mask, &value))
			return true;
	return false;
}

/* As the field's own width and sign have it. */
static filter_number number_in(struct filter_place place, uint64_t value)
{
	value <<= place.shift;
	return place.is_signed ? (filter_number)((int64_t)value >> place.shift) : (filter_number)(value >> place.shift);
}

/*
 * What is compared with what, of one probe. A print format computes in 64 bits: of its numbers, those are compared that
 * the field has. False: one of the names is no number of its field.
 */
static bool choose(struct filter_tree *tree, const Ringtail__V1__Probe *probe, const struct operand *left,
		   const struct operand *right, struct choice *choice)
{
	const struct filter_field *field = left->subject.field;
	struct filter_place place = field->place[probe->id];
	uint64_t width = UINT64_MAX >> place.shift, mask, value;

	choice->mask = left->kind == OPERAND_BITS ? left->mask : UINT64_MAX;
	if (left->kind == OPERAND_BITS &&
	    find_number(tree, probe, field, left->mask_name, left->mask_name_bytes, &mask, &value))
		choice->mask = value & width;
	choice->number = right->number;
	if (!find_number(tree, probe, field, right->name, right->name_bytes, &mask, &value))
		return choice->mask && right->kind == OPERAND_NUMBER;
	if (left->kind != OPERAND_BITS)
		choice->mask = (mask & width) == width ? UINT64_MAX : mask & width;
	choice->number = choice->mask == UINT64_MAX ? number_in(place, value) : (filter_number)(value & width);
	return choice->mask;
}

/* Adds the probe to those with the same choice. */
static int add_choice(unsigned column, struct choice *choices, unsigned *count, const struct choice *choice,
		      uint32_t id, struct error *error)
{
	unsigned i = 0;

	while (i < *count && (choices[i].mask != choice->mask || choices[i].number != choice->number))
		i++;
	if (i == CHOICES_MAX) {
		filter_refuse(error, column, "filter-many-numbers",
			      "this name has more than %u numbers, in the fields of that name", CHOICES_MAX);
		error_hint(error, "write the number that is meant");
		return -EINVAL;
	}
	if (i == *count) {
		choices[i] = (struct choice){ .mask = choice->mask, .number = choice->number };
		++*count;
	}
	probe_set_add(&choices[i].probes, id);
	return 0;
}

/* The tree's set of just these probes, made if there is none: a list of names has one for all of them. */
static int use_set(struct filter_tree *tree, unsigned column, const struct probe_set *probes,
		   const struct probe_set **used, struct error *error)
{
	struct probe_set *set;
	int err;

	for (unsigned i = 0; i < tree->sets; i++) {
		if (probe_set_equal(tree->set[i], probes)) {
			*used = tree->set[i];
			return 0;
		}
	}
	err = filter_tree_set(tree, column, &set, error);
	if (err)
		return err;
	*set = *probes;
	*used = set;
	return 0;
}

static int compare_choice(struct filter_tree *tree, const struct operand *left, enum filter_op op,
			  const struct choice *choice, struct filter_node **node, struct error *error)
{
	bool is_whole = choice->mask == UINT64_MAX;
	int err = filter_tree_node(tree, is_whole ? NODE_NUMBER : NODE_BITS, left->column, node, error);

	if (err)
		return err;
	(*node)->op = op;
	(*node)->left = left->subject;
	(*node)->mask = is_whole ? 0 : choice->mask;
	(*node)->number = choice->number;
	return 0;
}

/* The comparison, of the choice's probes alone, as one more child of *any. */
static int compare_choice_of_probes(struct filter_tree *tree, const struct operand *left, enum filter_op op,
				    const struct choice *choice, struct filter_node *any, struct error *error)
{
	struct filter_node *both, *probes, *compare;
	int err = filter_tree_node(tree, NODE_AND, left->column, &both, error);

	if (!err)
		err = filter_tree_node(tree, NODE_PROBES, left->column, &probes, error);
	if (!err)
		err = use_set(tree, left->column, &choice->probes, &probes->probes, error);
	if (!err)
		err = compare_choice(tree, left, op, choice, &compare, error);
	if (err)
		return err;
	filter_node_add(both, probes);
	filter_node_add(both, compare);
	filter_node_add(any, both);
	return 0;
}

static int refuse_order(const struct operand *right, struct error *error)
{
	filter_refuse(error, right->column, "filter-bits", "bits are compared with a number, by ==, != or in");
	error_hint(error, "as in flags & O_ACCMODE == O_RDONLY");
	return -EINVAL;
}

static int refuse_no_choice(const struct operand *left, struct error *error)
{
	filter_refuse(error, left->column, "filter-bits",
		      "no bit is set in what stands behind &, or no probe's field has both names");
	error_hint(error, "write a number for one of the names");
	return -EINVAL;
}

/*
 * A field, or bits of it, with a number, of which at least one is a name of the kernel's print format. The same name
 * may be another number in another probe; of a probe whose format lacks it, it is the constant, or nothing.
 */
static int compare_names(struct filter_tree *tree, const Ringtail__V1__Catalog *catalog, const struct operand *left,
			 enum filter_op op, const struct operand *right, struct filter_node **node,
			 struct error *error)
{
	struct choice choices[CHOICES_MAX], choice;
	unsigned count = 0;
	bool is_everywhere = true;
	int err = 0;

	for (size_t i = 0; !err && i < catalog->n_probe; i++) {
		const Ringtail__V1__Probe *probe = catalog->probe[i];

		if (probe->id >= RT_PROBE_MAX || left->subject.field->place[probe->id].index == FIELD_ABSENT)
			continue;
		if (choose(tree, probe, left, right, &choice))
			err = add_choice(right->column, choices, &count, &choice, probe->id, error);
		else
			is_everywhere = false;
	}
	for (unsigned i = 0; !err && i < count; i++)
		if (choices[i].mask != UINT64_MAX && op != FILTER_EQ && op != FILTER_NE)
			err = refuse_order(right, error);
	if (!err && !count)
		err = refuse_no_choice(left, error);
	if (err)
		return err;
	if (count == 1 && is_everywhere)
		return compare_choice(tree, left, op, &choices[0], node, error);
	err = filter_tree_node(tree, NODE_OR, left->column, node, error);
	for (unsigned i = 0; !err && i < count; i++)
		err = compare_choice_of_probes(tree, left, op, &choices[i], *node, error);
	return err;
}

/* A name that is nothing else, and no number of the field that it stands beside. */
static int refuse_operand(const struct operand *operand, const struct operand *beside,
			  const Ringtail__V1__Catalog *catalog, struct error *error)
{
	char name[NAME_BYTES_MAX + 1];

	snprintf(name, sizeof(name), "%.*s", (int)operand->name_bytes, operand->name);
	return refuse_name(filter_field_name(name), beside && is_number_field(beside) ? beside->subject.field : NULL,
			   operand->column, catalog, error);
}

/* ---- Bits ------------------------------------------------------------------------------------ */

/* subject & mask, into *operand. -EINVAL with *error if it is text, or no bit could be set. */
static int mask_operand(struct filter_tree *tree, const Ringtail__V1__Catalog *catalog, struct operand *operand,
			const struct operand *mask, struct error *error)
{
	bool has_mask = mask->kind == OPERAND_NUMBER && mask->number > 0 && mask->number <= UINT64_MAX;

	if (operand->kind == OPERAND_NAME)
		return refuse_operand(operand, mask, catalog, error);
	if (operand->kind != OPERAND_SUBJECT || is_text(&operand->subject) ||
	    operand->subject.kind == SUBJECT_PORT) {
		filter_refuse(error, operand->column, "filter-bits",
			      "before & stands the name of a number of the event");
		error_hint(error, "as in flags & O_WRONLY; and is written &&");
		return -EINVAL;
	}
	if (has_number(tree, catalog, operand, mask->name, mask->name_bytes)) {
		operand->mask_name = mask->name;
		operand->mask_name_bytes = mask->name_bytes;
	} else if (mask->kind == OPERAND_NAME) {
		return refuse_operand(mask, operand, catalog, error);
	} else if (!has_mask) {
		filter_refuse(error, mask->column, "filter-bits",
			      mask->kind == OPERAND_NUMBER && !mask->number ?
			      "no bit is set in this, so it never holds" :
			      "behind & stands a number with a bit that may be set");
		error_hint(error, "as in flags & O_WRONLY, or flags & O_ACCMODE == O_RDONLY; and is written &&");
		return -EINVAL;
	}
	operand->kind = OPERAND_BITS;
	operand->mask = has_mask ? (uint64_t)mask->number : 0;
	return 0;
}

static int compare_bits(struct filter_tree *tree, const Ringtail__V1__Catalog *catalog, const struct operand *left,
			enum filter_op op, const struct operand *right, struct filter_node **node,
			struct error *error)
{
	int err;

	if (left->mask_name || has_number(tree, catalog, left, right->name, right->name_bytes))
		return compare_names(tree, catalog, left, op, right, node, error);
	err = filter_tree_node(tree, NODE_BITS, left->column, node, error);
	if (err)
		return err;
	(*node)->op = op;
	(*node)->left = left->subject;
	(*node)->mask = left->mask;
	(*node)->number = right->number;
	return 0;
}

static int compare_bits_with(struct filter_tree *tree, const Ringtail__V1__Catalog *catalog,
			     const struct operand *left, enum filter_op op, const struct operand *right,
			     struct filter_node **node, struct error *error)
{
	bool is_number = right->kind == OPERAND_NUMBER ||
			 has_number(tree, catalog, left, right->name, right->name_bytes) ||
			 (!catalog && (right->kind == OPERAND_SUBJECT || right->kind == OPERAND_TEXT));

	if (right->kind == OPERAND_NAME && !is_number)
		return refuse_operand(right, left, catalog, error);
	if (!is_number || (op != FILTER_EQ && op != FILTER_NE))
		return refuse_order(right, error);
	return compare_bits(tree, catalog, left, op, right, node, error);
}

/* ---- All ------------------------------------------------------------------------------------- */

/* With a text, what the field points to is compared; with a number, the address. */
static bool compares_text_of_field(const struct operand *left, const struct operand *right)
{
	return left->subject.kind == SUBJECT_FIELD && left->subject.field->is_string &&
	       right->kind == OPERAND_TEXT;
}

/* Where some probe has a text in a field of that name, what stands in quotes is such a text. */
static bool compares_name_of_number(struct filter_tree *tree, const Ringtail__V1__Catalog *catalog,
				    const struct operand *field, enum filter_op op, const struct operand *name)
{
	return field->kind == OPERAND_SUBJECT && op != FILTER_MATCH && !compares_text_of_field(field, name) &&
	       has_number(tree, catalog, field, name->name, name->name_bytes);
}

/* left op right. 0 and *node, or -EINVAL (-ENOMEM) with *error. */
static int make_comparison(struct filter_tree *tree, const Ringtail__V1__Catalog *catalog,
			   const struct operand *left, enum filter_op op,
			   const struct operand *right, struct filter_node **node,
			   struct error *error)
{
	if (left->kind == OPERAND_BITS)
		return compare_bits_with(tree, catalog, left, op, right, node, error);
	if (right->kind == OPERAND_BITS)
		return compare_bits_with(tree, catalog, right, op, left, node, error);
	if (compares_name_of_number(tree, catalog, left, op, right))
		return compare_names(tree, catalog, left, op, right, node, error);
	if (compares_name_of_number(tree, catalog, right, op, left))
		return compare_names(tree, catalog, right, mirrored(op), left, node, error);
	if (left->kind == OPERAND_NAME)
		return refuse_operand(left, right, catalog, error);
	if (right->kind == OPERAND_NAME)
		return refuse_operand(right, left, catalog, error);
	if (left->kind != OPERAND_SUBJECT && right->kind != OPERAND_SUBJECT)
		return filter_refuse(error, left->column, "filter-constant",
				     "neither side of this comparison is of the event");
	if (left->kind != OPERAND_SUBJECT) {
		const struct operand *swap = left;

		if (op == FILTER_MATCH)
			return filter_refuse(error, left->column, "filter-glob-left",
					     "the glob stands on the right of =~");
		left = right;
		right = swap;
		op = mirrored(op);
	}
	if (is_address(left, right))
		return compare_address(tree, catalog, left, op, right, node, error);
	if (left->subject.kind == SUBJECT_UID && right->kind == OPERAND_TEXT && op != FILTER_MATCH) {
		struct operand user = *right;
		int err = name_user(catalog, &user, error);

		return err ? err : compare_number(tree, left, op, &user, node, error);
	}
	if (is_text(&left->subject) || compares_text_of_field(left, right))
		return compare_text(tree, catalog, left, op, right, node, error);
	return compare_number(tree, left, op, right, node, error);
}

/* The operand alone, where it is something that is or is not: error, kernel, flags & O_WRONLY. */
static int make_test(struct filter_tree *tree, const Ringtail__V1__Catalog *catalog, const struct operand *operand,
		     struct filter_node **node, struct error *error)
{
	const struct operand zero = { .kind = OPERAND_NUMBER, .column = operand->column };
	const char *name;
	int err;

	if (operand->kind == OPERAND_BITS)
		return compare_bits(tree, catalog, operand, FILTER_NE, &zero, node, error);
	if (operand->kind == OPERAND_NAME)
		return refuse_operand(operand, NULL, catalog, error);
	if (operand->kind != OPERAND_SUBJECT)
		return filter_refuse(error, operand->column, "filter-constant",
				     "this is not compared with anything");
	if (operand->subject.kind != SUBJECT_ERROR && operand->subject.kind != SUBJECT_KERNEL) {
		name = name_of_subject(&operand->subject);
		filter_refuse(error, operand->column, "filter-no-comparison",
			      "%s is not compared with anything", name);
		error_hint(error, "write %s == ..., or another comparison", name);
		return -EINVAL;
	}
	err = filter_tree_node(tree, NODE_NUMBER, operand->column, node, error);
	if (err)
		return err;
	(*node)->op = FILTER_NE;
	(*node)->left = operand->subject;
	return 0;
}

/* ---- The grammar ----------------------------------------------------------------------------- */

struct parser {
	struct filter_lexer lexer;
	struct filter_token token;	/* the next one, not yet taken */
	struct filter_tree *tree;
	const Ringtail__V1__Catalog *catalog;
	unsigned depth;
	struct error *error;
};

static int parse_or(struct parser *parser, struct filter_node **node);

static int advance(struct parser *parser)
{
	return filter_token_next(&parser->lexer, &parser->token, parser->error);
}

static bool token_is_word(const struct filter_token *token, const char *word)
{
	return token->kind == TOKEN_NAME && token->bytes == (int)strlen(word) &&
	       memcmp(token->at, word, token->bytes) == 0;
}

/* The token at hand is not what the grammar wants. */
static int refuse_token(struct parser *parser, const char *wanted)
{
	const struct filter_token *token = &parser->token;

	if (token->kind == TOKEN_END)
		filter_refuse(parser->error, token->column, "filter-incomplete",
			      "the filter ends where %s is expected", wanted);
	else
		filter_refuse(parser->error, token->column, "filter-unexpected",
			      "`%.*s` stands where %s is expected",
			      token->bytes < 60 ? token->bytes : 60, token->at, wanted);
	if (token_is_word(token, "and"))
		error_hint(parser->error, "and is written &&");
	else if (token_is_word(token, "or"))
		error_hint(parser->error, "or is written ||");
	return -EINVAL;
}

static int take(struct parser *parser, enum token_kind kind, const char *wanted)
{
	return parser->token.kind == kind ? advance(parser) : refuse_token(parser, wanted);
}

/* ---- Operands -------------------------------------------------------------------------------- */

static int parse_name(struct parser *parser, struct operand *operand)
{
	enum meaning meaning;
	int64_t number;
	int err = resolve_name(&parser->token, parser->catalog, parser->tree, &meaning,
			       &operand->subject, &number, parser->error);

	if (err)
		return err;
	operand->kind = OPERAND_SUBJECT;
	if (meaning == MEANS_NOTHING) {
		operand->kind = OPERAND_NAME;
	} else if (meaning != MEANS_SUBJECT) {
		operand->kind = meaning == MEANS_ERRNO ? OPERAND_ERRNO : OPERAND_NUMBER;
		operand->number = number;
	}
	operand->name = parser->token.at;
	operand->name_bytes = (size_t)parser->token.bytes;
	return advance(parser);
}

static int parse_plain(struct parser *parser, struct operand *operand)
{
	bool negative = parser->token.kind == TOKEN_MINUS;
	unsigned column;
	int err = 0;

	*operand = (struct operand){ .column = parser->token.column };
	if (negative)
		err = advance(parser);
	if (err)
		return err;
	column = parser->token.column;
	switch (parser->token.kind) {
	case TOKEN_NAME:
		err = parse_name(parser, operand);
		break;
	case TOKEN_NUMBER:
		operand->kind = OPERAND_NUMBER;
		operand->number = parser->token.number;
		err = advance(parser);
		break;
	case TOKEN_STRING:
		operand->kind = OPERAND_TEXT;
		operand->text = parser->token.text;
		operand->name = operand->text;
		operand->name_bytes = strlen(operand->text);
		err = advance(parser);
		break;
	default:
		return refuse_token(parser, "a name, a number or \"text\"");
	}
	if (err || !negative)
		return err;
	if (operand->kind == OPERAND_NAME) {
		operand->column = column;
		return refuse_operand(operand, NULL, parser->catalog, parser->error);
	}
	if (operand->kind != OPERAND_NUMBER && operand->kind != OPERAND_ERRNO)
		return filter_refuse(parser->error, operand->column, "filter-minus",
				     "a minus may stand only before a number or an error's name");
	operand->number = -operand->number;
	operand->name = NULL;
	return 0;
}

/* `&` binds closer than a comparison does: flags & O_ACCMODE == O_RDWR. */
static int parse_operand(struct parser *parser, struct operand *operand)
{
	struct operand mask;
	int err = parse_plain(parser, operand);

	if (err || parser->token.kind != TOKEN_BITS)
		return err;
	err = advance(parser);
	if (!err)
		err = parse_plain(parser, &mask);
	/* Without a catalog any name may be a field's: one that has it will say. */
	if (!err && !parser->catalog && (mask.kind == OPERAND_SUBJECT || mask.kind == OPERAND_TEXT))
		mask = (struct operand){ .kind = OPERAND_NUMBER, .number = 1 };
	return err ? err : mask_operand(parser->tree, parser->catalog, operand, &mask, parser->error);
}

/* ---- Comparisons ----------------------------------------------------------------------------- */

static bool comparison_op(enum token_kind kind, enum filter_op *op)
{
	switch (kind) {
	case TOKEN_EQ:
		*op = FILTER_EQ;
		return true;
	case TOKEN_NE:
		*op = FILTER_NE;
		return true;
	case TOKEN_LT:
		*op = FILTER_LT;
		return true;
	case TOKEN_LE:
		*op = FILTER_LE;
		return true;
	case TOKEN_GT:
		*op = FILTER_GT;
		return true;
	case TOKEN_GE:
		*op = FILTER_GE;
		return true;
	case TOKEN_MATCH:
		*op = FILTER_MATCH;
		return true;
	default:
		return false;
	}
}

/* Whether the value may stand in a list. Without a catalog a name may be a number of the field. */
static bool is_listed(const struct parser *parser, const struct operand *name, const struct operand *value)
{
	if (value->kind == OPERAND_SUBJECT)
		return !parser->catalog ||
		       has_number(parser->tree, parser->catalog, name, value->name, value->name_bytes);
	return value->kind != OPERAND_BITS;
}

/*
 * name in (a, b) is name == a || name == b, and name !in (a, b) is name != a && name != b: so both
 * are false of a field that the event's probe lacks.
 */
static int parse_list(struct parser *parser, const struct operand *name, bool negated,
		      struct filter_node **node)
{
	int err = take(parser, TOKEN_OPEN, "( after in");

	if (!err)
		err = filter_tree_node(parser->tree, negated ? NODE_AND : NODE_OR, name->column,
				       node, parser->error);
	while (!err) {
		struct operand value;
		struct filter_node *compare;

		err = parse_operand(parser, &value);
		if (!err && !is_listed(parser, name, &value))
			err = filter_refuse(parser->error, value.column, "filter-list-name",
					    "a list holds numbers or text, not names");
		if (!err)
			err = make_comparison(parser->tree, parser->catalog, name,
					      negated ? FILTER_NE : FILTER_EQ, &value, &compare,
					      parser->error);
		if (err)
			break;
		filter_node_add(*node, compare);
		if (parser->token.kind == TOKEN_CLOSE)
			return advance(parser);
		err = take(parser, TOKEN_COMMA, ", or )");
	}
	return err;
}

static int parse_compare(struct parser *parser, struct filter_node **node)
{
	struct operand left, right;
	bool negated;
	enum filter_op op;
	int err = parse_operand(parser, &left);

	if (err)
		return err;
	if (comparison_op(parser->token.kind, &op)) {
		err = advance(parser);
		if (!err)
			err = parse_operand(parser, &right);
		if (!err)
			err = make_comparison(parser->tree, parser->catalog, &left, op, &right, node,
					      parser->error);
		return err;
	}
	negated = parser->token.kind == TOKEN_NOT;
	if (negated)
		err = advance(parser);
	if (err)
		return err;
	if (token_is_word(&parser->token, "in")) {
		if (left.kind == OPERAND_NAME)
			return refuse_operand(&left, NULL, parser->catalog, parser->error);
		if (left.kind != OPERAND_SUBJECT && left.kind != OPERAND_BITS)
			return filter_refuse(parser->error, left.column, "filter-constant",
					     "a name stands before in");
		err = advance(parser);
		return err ? err : parse_list(parser, &left, negated, node);
	}
	if (negated)
		return refuse_token(parser, "in");
	return make_test(parser->tree, parser->catalog, &left, node, parser->error);
}

/* ---- Not, and, or ---------------------------------------------------------------------------- */

static int parse_not(struct parser *parser, struct filter_node **node)
{
	unsigned column = parser->token.column;
	struct filter_node *child;
	int err;

	if (parser->token.kind != TOKEN_NOT && parser->token.kind != TOKEN_OPEN)
		return parse_compare(parser, node);
	if (parser->depth == FILTER_DEPTH_MAX)
		return filter_refuse(parser->error, column, "filter-too-deep",
				     "parentheses and ! are nested deeper than %u",
				     FILTER_DEPTH_MAX);
	parser->depth++;
	if (parser->token.kind == TOKEN_OPEN) {
		err = advance(parser);
		if (!err)
			err = parse_or(parser, node);
		if (!err)
			err = take(parser, TOKEN_CLOSE, "&&, || or )");
	} else {
		err = advance(parser);
		if (!err)
			err = parse_not(parser, &child);
		if (!err)
			err = filter_tree_node(parser->tree, NODE_NOT, column, node, parser->error);
		if (!err)
			filter_node_add(*node, child);
	}
	parser->depth--;
	return err;
}

/* One or more of `operand`, with `sign` between them, under a node of `kind` if there are more. */
static int parse_chain(struct parser *parser, enum filter_node_kind kind,
		       enum token_kind sign,
		       int (*operand)(struct parser *, struct filter_node **),
		       struct filter_node **node)
{
	unsigned column = parser->token.column;
	struct filter_node *child;
	int err = operand(parser, &child);

	*node = child;
	if (err || parser->token.kind != sign)
		return err;
	err = filter_tree_node(parser->tree, kind, column, node, parser->error);
	if (err)
		return err;
	filter_node_add(*node, child);
	while (!err && parser->token.kind == sign) {
		err = advance(parser);
		if (!err)
			err = operand(parser, &child);
		if (!err)
			filter_node_add(*node, child);
	}
	return err;
}

static int parse_and(struct parser *parser, struct filter_node **node)
{
	return parse_chain(parser, NODE_AND, TOKEN_AND, parse_not, node);
}

static int parse_or(struct parser *parser, struct filter_node **node)
{
	return parse_chain(parser, NODE_OR, TOKEN_OR, parse_and, node);
}

/* What was not looked for any more would seem not to be there. */
static int refuse_search(unsigned column, struct error *error)
{
	filter_refuse(error, column, "filter-too-long",
		      "up to here, more names are looked for in print formats than the time for it allows");
	error_hint(error, "write numbers for some of the names");
	return -EINVAL;
}

int filter_parse(const char *text, const Ringtail__V1__Catalog *catalog, struct filter_tree *tree,
		 struct filter_node **root, struct error *error)
{
	struct parser parser = { .tree = tree, .catalog = catalog, .error = error };
	int err;

	filter_lexer_init(&parser.lexer, text, tree->text);
	err = advance(&parser);
	if (!err)
		err = parse_or(&parser, root);
	if (!err && parser.token.kind != TOKEN_END)
		err = refuse_token(&parser, "&& or ||");
	if (err != -ENOMEM && tree->print_bytes > FILTER_PRINT_BYTES_MAX)
		err = refuse_search(parser.token.column, error);
	return err;
}
