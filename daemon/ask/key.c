#include "daemon/ask/key.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "kmod/uapi/ringtail.h"
#include "query/constant.h"
#include "query/container.h"
#include "query/utf8.h"

#define ERRNO_MAX	4095u

/* ---- Parts that every event has ----------------------------------------------------------------- */

enum part { COMM, PID, TID, UID, CPU, PROBE, FUNCTION, ERROR, EXE, CONTAINER, UNIT, PARTS };

static const struct {
	const char *name;
	uint32_t flags;
} parts[PARTS] = {
	[COMM] = {"comm", 0}, [PID] = {"pid", 0}, [TID] = {"tid", 0}, [UID] = {"uid", 0}, [CPU] = {"cpu", 0},
	[PROBE] = {"probe", 0}, [FUNCTION] = {"function", 0}, [ERROR] = {"error", 0},
	[EXE] = {"exe", RT_FLAG_CONTEXT}, [CONTAINER] = {"container", RT_FLAG_CONTEXT},
	[UNIT] = {"unit", RT_FLAG_CONTEXT},
};

static enum part part_of(const char *name)
{
	enum part part = 0;

	while (part < PARTS && strcmp(parts[part].name, name) != 0)
		part++;
	return part;
}

/* "duration" is what a call's field is called in filters, whatever the catalog calls it. */
static bool is_called(const Ringtail__V1__Field *field, const char *name)
{
	return strcmp(field->name, name) == 0 ||
	       (field->type == RINGTAIL__V1__FIELD_TYPE__FIELD_DURATION && strcmp(name, "duration") == 0) ||
	       (field->type == RINGTAIL__V1__FIELD_TYPE__FIELD_RESULT && strcmp(name, "ret") == 0);
}

static int field_of(const Ringtail__V1__Probe *probe, const char *name)
{
	for (size_t i = 0; i < probe->n_field; i++)
		if (is_called(probe->field[i], name))
			return (int)i;
	return -1;
}

/* ---- Names -------------------------------------------------------------------------------------- */

bool ask_field_name_fits(const char *name)
{
	if (strcmp(name, "ask") == 0 || strcmp(name, "le") == 0 || strncmp(name, "__", 2) == 0 ||
	    isdigit((unsigned char)*name) || !*name)
		return false;
	while (isalnum((unsigned char)*name) || *name == '_')
		name++;
	return !*name;
}

static struct ask_field field_needs(const Ringtail__V1__Field *field)
{
	bool address = strchr(field->c_type, '*');

	switch (field->type) {
	case RINGTAIL__V1__FIELD_TYPE__FIELD_STRING:
		return (struct ask_field){.flags = RT_FLAG_STRINGS};
	case RINGTAIL__V1__FIELD_TYPE__FIELD_FD:
		return (struct ask_field){.flags = RT_FLAG_FDS};
	case RINGTAIL__V1__FIELD_TYPE__FIELD_TEXT:
	case RINGTAIL__V1__FIELD_TYPE__FIELD_BYTES:
	case RINGTAIL__V1__FIELD_TYPE__FIELD_MORE:
		return (struct ask_field){0};
	default:
		return (struct ask_field){.numeric = !address};
	}
}

bool ask_field_find(const char *name, const Ringtail__V1__Catalog *catalog, const struct probe_set *probes,
		    struct ask_field *field)
{
	enum part part = part_of(name);
	bool found = part < PARTS;

	*field = (struct ask_field){.flags = found ? parts[part].flags : 0};
	for (size_t i = 0; !found && i < catalog->n_probe; i++) {
		const Ringtail__V1__Probe *probe = catalog->probe[i];
		int at = probe_set_test(probes, probe->id) ? field_of(probe, name) : -1;

		if (at < 0)
			continue;
		*field = field_needs(probe->field[at]);
		found = true;
	}
	return found;
}

void ask_key_offer(struct nearest *nearest, const Ringtail__V1__Catalog *catalog, const struct probe_set *probes)
{
	for (unsigned i = 0; i < PARTS; i++)
		nearest_offer(nearest, parts[i].name);
	for (size_t i = 0; i < catalog->n_probe; i++)
		for (size_t k = 0; probe_set_test(probes, catalog->probe[i]->id) && k < catalog->probe[i]->n_field; k++)
			nearest_offer(nearest, catalog->probe[i]->field[k]->name);
}

/* ---- Texts -------------------------------------------------------------------------------------- */

/* What is no character of a label is a question mark; what is cut says so. */
static void put(struct ask_key *key, const char *text, size_t bytes)
{
	size_t end = key->bytes + ASK_LABEL_BYTES_MAX - 3;
	const uint8_t *at = (const uint8_t *)text;

	while (bytes) {
		uint32_t code = 0;
		size_t step = utf8_decode(at, bytes, &code);
		bool shown = step && code >= ' ' && code != 0x7f && (code < 0x80 || code >= 0xa0);

		if (key->bytes + (shown ? step : 1) > end) {
			memcpy(key->text + key->bytes, "...", 3);
			key->bytes += 3;
			break;
		}
		memcpy(key->text + key->bytes, shown ? (const char *)at : "?", shown ? step : 1);
		key->bytes += shown ? step : 1;
		at += step ? step : 1;
		bytes -= step ? step : 1;
	}
	key->text[key->bytes++] = '\0';
}

__attribute__((format(printf, 2, 3)))
static void putf(struct ask_key *key, const char *format, ...)
{
	char text[ASK_LABEL_BYTES_MAX];
	va_list args;
	int n;

	va_start(args, format);
	n = vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	put(key, text, n < 0 ? 0 : (size_t)n < sizeof(text) ? (size_t)n : sizeof(text) - 1);
}

static uint64_t widened(const Ringtail__V1__Field *field, uint64_t word)
{
	unsigned unused = field->bits && field->bits < 64 ? 64 - field->bits : 0;
	bool is_signed = field->type == RINGTAIL__V1__FIELD_TYPE__FIELD_SIGNED ||
			 field->type == RINGTAIL__V1__FIELD_TYPE__FIELD_FD;

	return is_signed ? (uint64_t)((int64_t)(word << unused) >> unused) : word << unused >> unused;
}

/* False: no name, by this value and those of the other fields. */
static bool put_constant(struct ask_key *key, const Ringtail__V1__Probe *probe, const struct batch_item *item,
			 unsigned at)
{
	const struct constant_rule *rule = constant_rule(probe->function, probe->field[at]->name);
	char name[CONSTANT_TEXT_BYTES];
	uint32_t value;

	for (; rule; rule = constant_rule_next(rule)) {
		const char *other = constant_rule_other(rule, &value);
		int place = other ? field_of(probe, other) : -1;

		if (other && (place < 0 || (uint32_t)item->event.field[place] != value))
			continue;
		if (!constant_print(rule, widened(probe->field[at], item->event.field[at]), name))
			return false;
		put(key, name, strlen(name));
		return true;
	}
	return false;
}

static void put_value(struct ask_key *key, const Ringtail__V1__Probe *probe, const struct batch_item *item, unsigned at)
{
	const Ringtail__V1__Field *field = probe->field[at];
	uint64_t value = widened(field, item->event.field[at]);

	if (put_constant(key, probe, item, at))
		return;
	switch (field->type) {
	case RINGTAIL__V1__FIELD_TYPE__FIELD_SIGNED:
	case RINGTAIL__V1__FIELD_TYPE__FIELD_FD:
	case RINGTAIL__V1__FIELD_TYPE__FIELD_RESULT:
		putf(key, "%" PRId64, (int64_t)value);
		return;
	case RINGTAIL__V1__FIELD_TYPE__FIELD_HEX:
	case RINGTAIL__V1__FIELD_TYPE__FIELD_STRING:
		putf(key, "%#" PRIx64, value);
		return;
	default:
		putf(key, "%" PRIu64, value);
	}
}

static void put_field(struct ask_key *key, const char *name, const Ringtail__V1__Probe *probe,
		      const struct batch_item *item)
{
	int at = field_of(probe, name);

	for (size_t i = 0; at >= 0 && i < item->attachments; i++)
		if (item->attachment[i].kind == RINGTAIL__V1__ATTACHMENT_KIND__ATTACH_STRING &&
		    item->attachment[i].arg == (uint32_t)at) {
			put(key, (const char *)item->attachment[i].text, item->attachment[i].text_bytes);
			return;
		}
	if (at < 0 || at >= item->event.fields)
		put(key, "", 0);
	else
		put_value(key, probe, item, (unsigned)at);
}

static void put_cgroup(struct ask_key *key, enum part part, const struct batch_text *cgroup)
{
	struct container container = {0};

	if (cgroup)
		container_parse(cgroup->data, cgroup->bytes, &container);
	if (part == UNIT)
		put(key, container.unit, container.unit ? container.unit_bytes : 0);
	else
		put(key, container.id, container.id ? CONTAINER_SHORT_BYTES : 0);
}

int ask_key_errno(const Ringtail__V1__Probe *probe, const struct batch_item *item)
{
	unsigned at = item->event.has_duration;

	if (at >= probe->n_field || at >= item->event.fields ||
	    probe->field[at]->type != RINGTAIL__V1__FIELD_TYPE__FIELD_RESULT ||
	    (at && item->event.field[0] == UINT64_MAX))
		return 0;
	return -item->event.field[at] - 1 < ERRNO_MAX ? (int)-item->event.field[at] : 0;
}

static void put_error(struct ask_key *key, const Ringtail__V1__Probe *probe, const struct batch_item *item)
{
	int number = ask_key_errno(probe, item);
	const char *name = number ? strerrorname_np(number) : "";

	if (name)
		put(key, name, strlen(name));
	else
		putf(key, "%d", number);
}

void ask_key_add(struct ask_key *key, const char *name, const Ringtail__V1__Probe *probe, uint32_t cpu,
		 const struct batch_item *item)
{
	const struct batch_thread *thread = item->thread;
	enum part part = part_of(name);

	switch (part) {
	case COMM:
		put(key, thread->comm, strnlen(thread->comm, sizeof(thread->comm)));
		return;
	case PID:
		putf(key, "%u", thread->pid);
		return;
	case TID:
		putf(key, "%u", thread->tid);
		return;
	case UID:
		putf(key, "%u", thread->uid);
		return;
	case CPU:
		putf(key, "%u", cpu);
		return;
	case PROBE:
		putf(key, "%s:%s:%s", probe->provider, probe->function, probe->name);
		return;
	case FUNCTION:
		name = strcmp(probe->provider, "tracepoint") == 0 ? probe->name : probe->function;
		put(key, name, strlen(name));
		return;
	case ERROR:
		put_error(key, probe, item);
		return;
	case EXE:
		put(key, thread->exe ? thread->exe->data : "", thread->exe ? thread->exe->bytes : 0);
		return;
	case CONTAINER:
	case UNIT:
		put_cgroup(key, part, thread->cgroup);
		return;
	case PARTS:
		put_field(key, name, probe, item);
		return;
	}
}

bool ask_key_number(const char *name, const Ringtail__V1__Probe *probe, const struct batch_item *item,
		    uint64_t *number)
{
	int at = field_of(probe, name);

	if (at < 0 || at >= item->event.fields)
		return false;
	*number = widened(probe->field[at], item->event.field[at]);
	if (probe->field[at]->type == RINGTAIL__V1__FIELD_TYPE__FIELD_DURATION)
		return *number != UINT64_MAX;		/* a call that never returned */
	return (int64_t)*number >= 0;
}
