#include "client/lib/catalog.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "client/lib/failure.h"
#include "client/lib/limits.h"
#include "client/lib/selection.h"
#include "client/lib/unpack.h"
#include "proto/limits.h"
#include "proto/ringtail.pb-c.h"
#include "query/constant.h"

#if defined(__x86_64__)
#define BUILT_FOR "x86_64"
#elif defined(__aarch64__)
#define BUILT_FOR "aarch64"
#else
#define BUILT_FOR ""
#endif

struct catalog {
	unsigned references;
	struct arena *arena;			/* holds all below */
	struct ringtail_probe *probe;
	size_t probes;
	const struct ringtail_probe **by_id;	/* [id_end] */
	struct batch_probe *shape;		/* [id_end], for decoders */
	uint32_t id_end;
	const Ringtail__V1__Catalog *message;
	struct selection_test *wanted;		/* NULL: every event */
	bool foreign;				/* another processor's */
};

static int bad(struct ringtail_error *error, const char *what)
{
	int err = failure_set(error, EBADMSG, "bad-catalog", "the catalog of probes is wrong: %s",
			      what);

	failure_hint(error,
		     "the other side is no ringtaild, or its and this tracectl's versions differ");
	return err;
}

static int out_of_memory(struct ringtail_error *error)
{
	return failure_set(error, ENOMEM, "no-memory", "out of memory for the catalog of probes");
}

static unsigned field_bits(uint32_t bits)
{
	return bits == 8 || bits == 16 || bits == 32 ? bits : 64;
}

/* Names go to terminals as they are, so they are what a kernel's are: printable, and ASCII. */
static bool is_printable(const char *name)
{
	for (; *name; name++)
		if (*name < ' ' || *name > '~')
			return false;
	return true;
}

/* By which names a system call's argument goes, or an event's field. */
static const void *names_of(const struct catalog *catalog, const Ringtail__V1__Probe *probe,
			    const char *field)
{
	const struct constant_rule *rule =
		!strcmp(probe->provider, "syscall") ? constant_rule(probe->function, field) :
		!strcmp(probe->provider, "tracepoint") ? constant_rule(probe->name, field) : NULL;

	return rule && catalog->foreign && constant_rule_by_machine(rule) ? NULL : rule;
}

static int fill_probe(struct catalog *catalog, struct ringtail_probe *probe,
		      const Ringtail__V1__Probe *message, struct ringtail_error *error)
{
	size_t spec_bytes = strlen(message->provider) + strlen(message->function) +
			    strlen(message->name) + 3;
	struct ringtail_field *field;
	char *spec;

	if (spec_bytes > NAME_BYTES_MAX)
		return bad(error, "a probe's name is too long");
	if (message->n_field > PROBE_FIELDS_MAX)
		return bad(error, "a probe has too many fields");
	if (message->id > PROBE_ID_MAX)
		return bad(error, "a probe's id is out of range");
	spec = arena_alloc(catalog->arena, spec_bytes);
	field = arena_alloc(catalog->arena, message->n_field * sizeof(*field));
	if (!spec || !field)
		return out_of_memory(error);
	snprintf(spec, spec_bytes, "%s:%s:%s", message->provider, message->function, message->name);
	if (!is_printable(spec))
		return bad(error, "a probe's name has bytes that are no text");
	for (size_t i = 0; i < message->n_field; i++) {
		const Ringtail__V1__Field *from = message->field[i];

		if (strlen(from->name) > NAME_BYTES_MAX || strlen(from->c_type) > NAME_BYTES_MAX)
			return bad(error, "a field's name is too long");
		if (!is_printable(from->name) || !is_printable(from->c_type))
			return bad(error, "a field's name has bytes that are no text");
		field[i] = (struct ringtail_field){
			.name = from->name,
			.c_type = from->c_type,
			.type = (enum ringtail_type)from->type,
			.bits = field_bits(from->bits),
			.names = names_of(catalog, message, from->name),
			.bytes = from->bytes,
			.element_signed = from->element_signed,
		};
		/* Or its bytes would be looked for behind the last value. */
		if (from->bytes > (message->n_field - i) * sizeof(uint64_t))
			return bad(error, "an array is longer than the words it is in");
	}
	if (strlen(message->print) > PRINT_BYTES_MAX || !is_printable(message->print))
		return bad(error, "how a probe prints is too long, or no text");
	if (strlen(message->source) > PRINT_BYTES_MAX || !is_printable(message->source))
		return bad(error, "where a probe is, is too long, or no text");
	*probe = (struct ringtail_probe){
		.id = message->id,
		.kind = RINGTAIL_TRACEPOINT,
		.spec = spec,
		.provider = message->provider,
		.function = message->function,
		.name = message->name,
		.fields = (unsigned)message->n_field,
		.field = field,
		.print = message->print,
		.source = message->source,
	};
	/* What is printed as a call is decided by its fields, the name only confirms it. */
	if (!strcmp(probe->name, "call") && probe->fields >= 2 &&
	    field[0].type == RINGTAIL_DURATION && field[1].type == RINGTAIL_RESULT)
		probe->kind = RINGTAIL_CALL;
	else if (!strcmp(probe->name, "return") && probe->fields >= 1 &&
		 field[0].type == RINGTAIL_RESULT)
		probe->kind = RINGTAIL_RETURN;
	else if (!strcmp(probe->name, "entry"))
		probe->kind = RINGTAIL_ENTRY;
	return 0;
}

static int index_probes(struct catalog *catalog, struct ringtail_error *error)
{
	for (size_t i = 0; i < catalog->probes; i++)
		if (catalog->probe[i].id >= catalog->id_end)
			catalog->id_end = catalog->probe[i].id + 1;
	catalog->by_id = arena_alloc(catalog->arena, catalog->id_end * sizeof(*catalog->by_id));
	catalog->shape = arena_alloc(catalog->arena, catalog->id_end * sizeof(*catalog->shape));
	if (!catalog->by_id || !catalog->shape)
		return out_of_memory(error);
	for (size_t i = 0; i < catalog->probes; i++) {
		const struct ringtail_probe *probe = &catalog->probe[i];

		/* In a list: those that are made when they are asked for have no id yet. */
		if (!probe->id)
			continue;
		if (catalog->by_id[probe->id])
			return bad(error, "two probes have one id");
		catalog->by_id[probe->id] = probe;
		catalog->shape[probe->id] = (struct batch_probe){
			.fields = (uint8_t)probe->fields,
			.has_duration = probe->fields && probe->field[0].type == RINGTAIL_DURATION,
			.known = true,
		};
	}
	return 0;
}

int catalog_create(const uint8_t *body, size_t bytes, const char *machine, struct catalog **made,
		   struct ringtail_error *error)
{
	const Ringtail__V1__Catalog *message;
	struct catalog *catalog;
	struct arena *arena;
	int err;

	message = unpack(&ringtail__v1__catalog__descriptor, body, bytes, &arena);
	if (!message)
		return bad(error, "it does not unpack");
	if (message->n_probe > CATALOG_PROBES_MAX) {
		arena_destroy(arena);
		return bad(error, "it has too many probes");
	}
	catalog = arena_alloc(arena, sizeof(*catalog));
	if (!catalog) {
		arena_destroy(arena);
		return out_of_memory(error);
	}
	catalog->references = 1;
	catalog->arena = arena;
	catalog->probes = message->n_probe;
	catalog->message = message;
	catalog->foreign = machine && strcmp(machine, BUILT_FOR);
	catalog->probe = arena_alloc(arena, message->n_probe * sizeof(*catalog->probe));
	err = catalog->probe ? 0 : out_of_memory(error);
	for (size_t i = 0; !err && i < message->n_probe; i++)
		err = fill_probe(catalog, &catalog->probe[i], message->probe[i], error);
	if (!err)
		err = index_probes(catalog, error);
	if (err) {
		arena_destroy(arena);
		return err;
	}
	*made = catalog;
	return 0;
}

struct catalog *catalog_ref(struct catalog *catalog)
{
	catalog->references++;
	return catalog;
}

void catalog_unref(struct catalog *catalog)
{
	if (!catalog || --catalog->references)
		return;
	selection_test_destroy(catalog->wanted);
	arena_destroy(catalog->arena);
}

int catalog_select(struct catalog *catalog, struct selection *selection)
{
	if (!selection)
		return 0;
	catalog->wanted = selection_test_create(selection, catalog->message);
	return catalog->wanted ? 0 : -ENOMEM;
}

bool catalog_selects(const struct catalog *catalog, uint32_t cpu, const struct batch_item *item,
		     bool *undecided)
{
	*undecided = false;
	return !catalog->wanted || selection_test_pass(catalog->wanted, cpu, item, undecided);
}

const struct ringtail_probe *catalog_probe(const struct catalog *catalog, uint32_t id)
{
	return id < catalog->id_end ? catalog->by_id[id] : NULL;
}

const struct ringtail_probe *catalog_probes(const struct catalog *catalog, size_t *probes)
{
	*probes = catalog->probes;
	return catalog->probe;
}

const struct Ringtail__V1__ProgramUse *catalog_use(const struct catalog *catalog, size_t i)
{
	return catalog->message->probe[i]->use;
}

struct batch_decoder *catalog_decoder_create(const struct catalog *catalog)
{
	return batch_decoder_create(catalog->shape, catalog->id_end);
}
