#include "daemon/export/event.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "query/digits.h"
#include "daemon/export/run.h"
#include "daemon/source/syscall_catalog.h"
#include "kmod/uapi/ringtail.h"
#include "query/visible.h"

#define ERRNO_MAX 4095

/*
 * The texts that the kernel read for it: paths, mostly. Here is where all text of an event that is
 * exported passes, and where what must not leave the host is to be made unreadable.
 */
static void copy_strings(struct export_event *event, const struct batch_item *item)
{
	/* Others are there only because a client streams them. */
	if (export_event_is_call(event) && !syscall_names_file(event->probe->function))
		return;
	for (size_t i = 0; i < item->attachments && event->strings < EXPORT_STRINGS_MAX; i++) {
		const struct batch_attachment *from = &item->attachment[i];

		if (from->kind != RINGTAIL__V1__ATTACHMENT_KIND__ATTACH_STRING ||
		    from->text_bytes > STRING_BYTES_MAX)
			continue;
		event->string_field[event->strings] = (uint8_t)from->arg;
		visible_copy(event->string[event->strings++], sizeof(event->string[0]), from->text,
			     strnlen((const char *)from->text, from->text_bytes));
	}
}

struct export_event *export_event_create(struct export_run *run, uint32_t cpu,
					 const struct batch_item *item)
{
	uint16_t id = item->event.probe;
	struct export_event *event;
	char comm[17];

	if (id >= RT_PROBE_MAX || !run->probe[id])
		return NULL;
	event = calloc(1, sizeof(*event));
	if (!event)
		return NULL;
	event->run = export_run_get(run);
	event->time_ns = item->event.time_ns;
	event->seq = item->seq;
	event->cpu = cpu;
	event->probe = run->probe[id];
	event->has_duration = item->event.has_duration;
	event->fields = item->event.fields;
	memcpy(event->field, item->event.field, event->fields * sizeof(event->field[0]));
	event->thread = *item->thread;
	event->thread.exe = event->thread.cgroup = NULL;
	event->context = export_context_of(&run->contexts, item->thread);
	visible_copy(comm, sizeof(comm), item->thread->comm,
		     strnlen((const char *)item->thread->comm, sizeof(item->thread->comm)));
	memcpy(event->thread.comm, comm, sizeof(event->thread.comm));
	copy_strings(event, item);
	return event;
}

void export_event_destroy(struct export_event *event)
{
	if (event->frames)
		export_frames_release(event->frames, event->frame);
	if (event->begin)
		export_event_destroy(event->begin);
	export_context_put(event->context);
	export_run_put(event->run);
	free(event);
}

struct trace_place export_event_place(const struct export_event *event)
{
	return (struct trace_place){event->run->boot_id, event->run->epoch, event->cpu, event->seq};
}

const char *export_class_name(enum export_class class)
{
	static const char *const name[] = {
		[EXPORT_SLOW] = "slow", [EXPORT_ERROR] = "error", [EXPORT_EXEC] = "exec",
		[EXPORT_EXIT] = "exit", [EXPORT_EVENT] = "event", [EXPORT_NOTHING] = "nothing",
	};

	return name[class];
}

void export_event_comm(const struct export_event *event, char comm[17])
{
	memcpy(comm, event->thread.comm, sizeof(event->thread.comm));
	comm[sizeof(event->thread.comm)] = '\0';
}

/* ---- The frames they came in ------------------------------------------------------------------ */

static uint32_t *slot(struct export_frames *frames, uint64_t serial)
{
	assert(serial - frames->base < EXPORT_FRAMES_UNSETTLED_MAX);
	return &frames->waiting[serial % EXPORT_FRAMES_UNSETTLED_MAX];
}

void export_frames_begin(struct export_frames *frames, uint64_t serial)
{
	if (!frames->base)
		frames->base = serial;
	export_frames_settled(frames);
	*slot(frames, serial) = 0;
	frames->newest = serial;
}

void export_frames_hold(struct export_frames *frames, uint64_t serial)
{
	++*slot(frames, serial);
}

void export_frames_release(struct export_frames *frames, uint64_t serial)
{
	--*slot(frames, serial);
}

uint64_t export_frames_settled(struct export_frames *frames)
{
	if (!frames->base)
		return 0;
	while (frames->base <= frames->newest && !*slot(frames, frames->base))
		frames->base++;
	return frames->base - 1;
}

/* ---- Values ---------------------------------------------------------------------------------- */

bool export_event_is_call(const struct export_event *event)
{
	return event->has_duration && event->fields >= 2 &&
	       event->probe->field[1]->type == RINGTAIL__V1__FIELD_TYPE__FIELD_RESULT;
}

/* ---- Halves of a program's span --------------------------------------------------------------- */

#define ID_WORDS	((TRACE_ID_BYTES + 2 * SPAN_ID_BYTES) * 2 / 8)	/* of the three, in hex */

/* What the daemon called them, which no program can: see daemon/programs/table.c. */
static const struct {
	const char *name, *first;
	unsigned ids, fields_min;
} halves[] = {
	[EXPORT_BEGIN] = {"begin", "trace_id", 0, ID_WORDS + 2},
	[EXPORT_END] = {"end", "duration_ns", 1, ID_WORDS + 3},
};

static bool is_half(const struct export_event *event, enum export_span_half half)
{
	const Ringtail__V1__Probe *probe = event->probe;

	return event->fields >= halves[half].fields_min && strcmp(probe->name, halves[half].name) == 0 &&
	       strcmp(probe->field[0]->name, halves[half].first) == 0;
}

enum export_span_half export_event_half(const struct export_event *event)
{
	if (event->probe->id < RT_PROBE_PROGRAM)
		return EXPORT_NO_HALF;
	for (enum export_span_half half = EXPORT_BEGIN; half <= EXPORT_END; half++)
		if (is_half(event, half))
			return half;
	return EXPORT_NO_HALF;
}

unsigned export_event_ids(const struct export_event *event)
{
	return halves[export_event_half(event)].ids;
}

bool export_event_is_scope(const struct export_event *event)
{
	return event->field[ID_WORDS];
}

unsigned export_event_first_argument(const struct export_event *event)
{
	(void)event;
	return ID_WORDS + 1;
}

int64_t export_event_span_status(const struct export_event *event)
{
	return (int64_t)export_event_value(event, 1 + ID_WORDS);
}

bool export_event_is_exit(const struct export_event *event)
{
	return strcmp(event->probe->name, "sched_process_exit") == 0 && event->fields > 1 &&
	       strcmp(event->probe->provider, "tracepoint") == 0;
}

uint64_t export_event_start_ns(const struct export_event *event)
{
	if (!event->has_duration || event->field[0] == RT_DURATION_NEVER ||
	    event->field[0] > event->time_ns)
		return event->time_ns;
	return event->time_ns - event->field[0];
}

int export_event_errno(const struct export_event *event)
{
	if (!export_event_is_call(event) || event->field[0] == RT_DURATION_NEVER ||
	    event->field[1] < (uint64_t)-ERRNO_MAX)
		return 0;
	return (int)-(int64_t)event->field[1];
}

uint64_t export_event_value(const struct export_event *event, unsigned field)
{
	const Ringtail__V1__Field *as = event->probe->field[field];
	unsigned bits = as->type == RINGTAIL__V1__FIELD_TYPE__FIELD_FD ? 32 : as->bits;
	unsigned shift = bits && bits < 64 ? 64 - bits : 0;
	uint64_t word = event->field[field] << shift;

	switch (as->type) {
	case RINGTAIL__V1__FIELD_TYPE__FIELD_SIGNED:
	case RINGTAIL__V1__FIELD_TYPE__FIELD_FD:
	case RINGTAIL__V1__FIELD_TYPE__FIELD_RESULT:
		return (uint64_t)((int64_t)word >> shift);
	default:
		return word >> shift;
	}
}

const char *export_event_string(const struct export_event *event, unsigned field)
{
	for (unsigned i = 0; i < event->strings; i++)
		if (event->string_field[i] == field)
			return event->string[i];
	return NULL;
}

const char *export_event_address(const struct export_event *event)
{
	for (unsigned i = 0; i < event->fields; i++)
		if (!strcmp(event->probe->field[i]->c_type, "struct sockaddr *"))
			return export_event_string(event, i);
	return NULL;
}

/* The text that its own word and those behind it hold, as of tracepoints; false: they hold none. */
static bool text_in_words(const struct export_event *event, unsigned field, char *text, size_t bytes)
{
	const Ringtail__V1__Field *as = event->probe->field[field];
	size_t held = as->bytes, have = (event->fields - field) * sizeof(event->field[0]);
	char shown[STRING_BYTES_MAX + 1];

	if (as->type != RINGTAIL__V1__FIELD_TYPE__FIELD_TEXT || !held)
		return false;
	held = held < have ? held : have;
	visible_copy(shown, sizeof(shown), (const char *)&event->field[field],
		     strnlen((const char *)&event->field[field],
			     held < STRING_BYTES_MAX ? held : STRING_BYTES_MAX));
	snprintf(text, bytes, "\"%s\"", shown);
	return true;
}

const char *export_event_value_text(const struct export_event *event, unsigned field, char *text,
				    size_t bytes)
{
	uint64_t value = export_event_value(event, field);
	const char *string = export_event_string(event, field);
	char digits[DIGITS_BYTES_MAX], *end = digits + sizeof(digits), *begin;

	if (string) {
		snprintf(text, bytes, "\"%s\"", string);
		return text;
	}
	if (text_in_words(event, field, text, bytes))
		return text;
	switch (event->probe->field[field]->type) {
	case RINGTAIL__V1__FIELD_TYPE__FIELD_SIGNED:
	case RINGTAIL__V1__FIELD_TYPE__FIELD_FD:
	case RINGTAIL__V1__FIELD_TYPE__FIELD_RESULT:
		begin = digits_signed_before(end, (int64_t)value);
		break;
	case RINGTAIL__V1__FIELD_TYPE__FIELD_HEX:
	case RINGTAIL__V1__FIELD_TYPE__FIELD_STRING:
		begin = digits;
		end = digits_put_hex(digits, value);
		break;
	default:
		begin = digits_before(end, value);
	}
	bytes = (size_t)(end - begin) < bytes ? (size_t)(end - begin) : bytes - 1;
	memcpy(text, begin, bytes);
	text[bytes] = '\0';
	return text;
}

/* ---- One line -------------------------------------------------------------------------------- */

struct line {
	char *text;
	size_t used;
};

/* What finds no room is left out. */
static void put_bytes(struct line *line, const char *text, size_t n)
{
	size_t room = EXPORT_BODY_BYTES - 1 - line->used;

	n = n < room ? n : room;
	memcpy(line->text + line->used, text, n);
	line->used += n;
}

static void put(struct line *line, const char *text)
{
	put_bytes(line, text, strlen(text));
}

static void put_number(struct line *line, uint64_t value)
{
	char text[DIGITS_BYTES_MAX], *end = text + sizeof(text), *begin = digits_before(end, value);

	put_bytes(line, begin, (size_t)(end - begin));
}

static void put_signed(struct line *line, int64_t value)
{
	char text[DIGITS_BYTES_MAX], *end = text + sizeof(text), *begin = digits_signed_before(end, value);

	put_bytes(line, begin, (size_t)(end - begin));
}

static void put_hex(struct line *line, uint64_t value)
{
	char text[DIGITS_HEX_BYTES_MAX];

	put_bytes(line, text, (size_t)(digits_put_hex(text, value) - text));
}

/* To three decimals, cut and not rounded, so that 999999999 ns are 999.999ms: the unit is that of the number. */
static void put_duration(struct line *line, uint64_t ns)
{
	static const struct {
		uint64_t ns;
		const char *end;
	} unit[] = {{1000000000u, "s>"}, {1000000u, "ms>"}, {1000u, "us>"}};
	size_t i = ns >= unit[0].ns ? 0 : ns >= unit[1].ns ? 1 : 2;
	char decimals[4], *end = decimals + sizeof(decimals);

	put(line, " <");
	put_number(line, ns / unit[i].ns);
	/* The number before the point takes the place of a 1 that keeps the zeros. */
	digits_before(end, 1000 + ns % unit[i].ns / (unit[i].ns / 1000));
	decimals[0] = '.';
	put_bytes(line, decimals, sizeof(decimals));
	put(line, unit[i].end);
}

static void put_arguments(struct line *line, const struct export_event *event, unsigned first)
{
	char text[STRING_BYTES_MAX + 3];

	put(line, "(");
	for (unsigned i = first; i < event->fields; i++) {
		if (event->probe->field[i]->type == RINGTAIL__V1__FIELD_TYPE__FIELD_MORE)
			continue;
		put(line, i > first ? ", " : "");
		put(line, event->probe->field[i]->name);
		put(line, "=");
		put(line, export_event_value_text(event, i, text, sizeof(text)));
	}
	put(line, ")");
}

static void put_call(struct line *line, const struct export_event *event)
{
	int number = export_event_errno(event);
	const char *name = number ? strerrorname_np(number) : NULL;

	put(line, event->probe->function);
	put_arguments(line, event, 2);
	if (event->field[0] == RT_DURATION_NEVER) {
		put(line, " = ?");
		return;
	}
	put(line, name ? " = -1 " : " = ");
	if (name) {
		put(line, name);
		put(line, " (");
		put(line, strerrordesc_np(number));
		put(line, ")");
	} else if (event->field[1] > UINT32_MAX && !number) {
		put_hex(line, event->field[1]);
	} else {
		put_signed(line, (int64_t)event->field[1]);
	}
	put_duration(line, event->field[0]);
}

int export_event_signal(const struct export_event *event)
{
	/* As wait(2) has it: the low bits are the signal, the one above them says that it left a core. */
	return event->fields > 2 ? (int)(event->field[2] & 0x7f) : -1;
}

const char *export_event_signal_name(int signal, char text[24])
{
	const char *name = sigabbrev_np(signal);

	if (name)
		snprintf(text, 24, "SIG%s", name);
	else
		snprintf(text, 24, "signal %d", signal);
	return text;
}

size_t export_event_body(const struct export_event *event, char body[EXPORT_BODY_BYTES])
{
	struct line line = {.text = body};
	char comm[17], name[24];

	export_event_comm(event, comm);
	put(&line, comm);
	put(&line, "[");
	put_number(&line, event->thread.pid);
	put(&line, "]: ");
	if (export_event_is_call(event)) {
		put_call(&line, event);
	} else if (event->class == EXPORT_EXEC && event->strings) {
		put(&line, "runs ");
		put(&line, event->string[0]);
	} else if (event->class == EXPORT_EXIT) {
		put(&line, "killed by ");
		put(&line, export_event_signal(event) > 0 ?
		    export_event_signal_name(export_event_signal(event), name) : "a signal");
	} else {
		put(&line, event->probe->name);
		put_arguments(&line, event, 0);
	}
	body[line.used] = '\0';
	return line.used;
}

/* ---- A frame, once ---------------------------------------------------------------------------- */

/* Of one frame: what reads it. */
struct once {
	struct export_host *host;
	struct batch_decoder *decoder;
	uint8_t *raw;
	struct batch_summary summary;
};

static void close_once(struct once *once)
{
	free(once->raw);
	batch_decoder_destroy(once->decoder);
	export_host_destroy(once->host);
}

/* 0, -EBADMSG or -ENOMEM; to be closed in any case. */
static int open_once(struct once *once, const struct frame_ref *frame, struct frame_codec *codec,
		     const Ringtail__V1__Catalog *catalog)
{
	static const struct config nothing_chosen;
	static const uint8_t boot_id[16];	/* nobody asks for the event's id */
	struct frame_header header;
	const uint8_t *message;

	*once = (struct once){.host = export_host_create(catalog, boot_id, 0, &nothing_chosen)};
	if (once->host)
		once->decoder = batch_decoder_create(once->host->run->shape, RT_PROBE_MAX);
	if (!once->decoder)
		return -ENOMEM;
	if (frame_parse_header(frame->data, frame->bytes, FRAME_RAW_BYTES_MAX, &header) != FRAME_OK)
		return -EBADMSG;
	once->raw = malloc(header.raw_bytes + 1);
	if (!once->raw)
		return -ENOMEM;
	if (frame_open(codec, frame->data, &header, once->raw, &message) != FRAME_OK)
		return -EBADMSG;
	return batch_decode_open(once->decoder, message, header.raw_bytes, &once->summary);
}

void export_event_first_text(const struct frame_ref *frame, struct frame_codec *codec,
			     const Ringtail__V1__Catalog *catalog, char *text, size_t bytes)
{
	struct export_event *event = NULL;
	enum batch_item_kind kind = BATCH_ERROR;
	char body[EXPORT_BODY_BYTES];
	struct batch_item item;
	struct once once;

	snprintf(text, bytes, "an event that cannot be shown");
	if (open_once(&once, frame, codec, catalog) == 0)
		do
			kind = batch_decode_next(once.decoder, &item);
		while (kind == BATCH_LOSS);
	if (kind == BATCH_EVENT)
		event = export_event_create(once.host->run, once.summary.cpu, &item);
	if (event) {
		export_event_body(event, body);
		export_event_destroy(event);
		snprintf(text, bytes, "%s", body);
	}
	close_once(&once);
}

int export_event_times(const struct frame_ref *frame, struct frame_codec *codec,
		       const Ringtail__V1__Catalog *catalog, export_event_time *tell, void *context)
{
	enum batch_item_kind kind = BATCH_ERROR;
	struct batch_item item;
	struct once once;
	int err = open_once(&once, frame, codec, catalog);

	while (!err && ((kind = batch_decode_next(once.decoder, &item)) == BATCH_EVENT || kind == BATCH_LOSS))
		if (kind == BATCH_EVENT)
			tell(context, item.event.time_ns);
	if (!err && kind == BATCH_ERROR)
		err = -EBADMSG;
	close_once(&once);
	return err;
}
