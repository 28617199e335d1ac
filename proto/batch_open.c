/*
 * batch_open: see batch_open.h. Fields that ringtail.proto does not name are passed over, so that
 * an older program reads what a newer one wrote; all that it does name is held to its bounds.
 */
#include "proto/batch_open.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int batch_open_error(struct open_batch *batch, const char *format, ...)
{
	int at = snprintf(batch->error, sizeof(batch->error), "batch of cpu %" PRIu32 ": ",
			  batch->cpu);
	va_list args;

	va_start(args, format);
	vsnprintf(batch->error + at, sizeof(batch->error) - (size_t)at, format, args);
	va_end(args);
	return -EBADMSG;
}

static int bad_field(struct open_batch *batch, const char *message, uint32_t number)
{
	return batch_open_error(batch, "field %" PRIu32 " of message %s is malformed or over its "
				"bound", number, message);
}

/* Field of a wire type; a number of at most `max`. */
static bool is_number(const struct wire_field *field, uint64_t max)
{
	return field->type == WIRE_VARINT && field->value <= max;
}

static bool is_bytes(const struct wire_field *field, size_t max)
{
	return field->type == WIRE_BYTES && (size_t)(field->body.end - field->body.at) <= max;
}

static bool take_u32(const struct wire_field *field, uint32_t *value)
{
	if (!is_number(field, UINT32_MAX))
		return false;
	*value = (uint32_t)field->value;
	return true;
}

static bool take_u64(const struct wire_field *field, uint64_t *value)
{
	if (!is_number(field, UINT64_MAX))
		return false;
	*value = field->value;
	return true;
}

static bool take_comm(const struct wire_field *field, struct batch_thread *thread)
{
	if (!is_bytes(field, sizeof(thread->comm)))
		return false;
	memset(thread->comm, 0, sizeof(thread->comm));
	memcpy(thread->comm, field->body.at, (size_t)(field->body.end - field->body.at));
	return true;
}

static bool take_thread(const struct wire_field *field, struct batch_thread *thread, uint32_t *exe,
			uint32_t *cgroup)
{
	switch (field->number) {
	case THREAD_TID:
		return take_u32(field, &thread->tid);
	case THREAD_PID:
		return take_u32(field, &thread->pid);
	case THREAD_COMM:
		return take_comm(field, thread);
	case THREAD_UID:
		return take_u32(field, &thread->uid);
	case THREAD_PPID:
		return take_u32(field, &thread->ppid);
	case THREAD_KERNEL:
		thread->kernel = field->value;
		return is_number(field, 1);
	case THREAD_EXE:
		return take_u32(field, exe);
	case THREAD_CGROUP:
		return take_u32(field, cgroup);
	case THREAD_CGROUP_ID:
		return take_u64(field, &thread->cgroup_id);
	}
	return true;
}

static int open_thread(struct open_batch *batch, struct wire_reader body)
{
	uint32_t exe = 0, cgroup = 0;
	struct batch_thread *thread;

	if (batch->threads == BATCH_THREADS_MAX)
		return batch_open_error(batch, "over %u threads", BATCH_THREADS_MAX);
	thread = &batch->thread[batch->threads++];
	*thread = (struct batch_thread){ 0 };
	while (body.at < body.end) {
		struct wire_field field = { 0 };

		if (!wire_get_field(&body, &field) || !take_thread(&field, thread, &exe, &cgroup))
			return bad_field(batch, "Thread", field.number);
	}
	batch->thread_text[batch->threads - 1].exe = exe;
	batch->thread_text[batch->threads - 1].cgroup = cgroup;
	return 0;
}

static int open_text(struct open_batch *batch, const struct wire_field *field)
{
	if (!is_bytes(field, TEXT_BYTES_MAX))
		return bad_field(batch, "Batch", BATCH_TEXT);
	if (batch->texts == BATCH_TEXTS_MAX)
		return batch_open_error(batch, "over %u texts", BATCH_TEXTS_MAX);
	batch->text[batch->texts++] = (struct batch_text){
		.serial = ++batch->serial,
		.data = (const char *)field->body.at,
		.bytes = (uint32_t)(field->body.end - field->body.at),
	};
	return 0;
}

/* Threads come before texts. */
static int name_texts(struct open_batch *batch)
{
	for (uint32_t i = 0; i < batch->threads; i++) {
		uint32_t exe = batch->thread_text[i].exe, cgroup = batch->thread_text[i].cgroup;

		if (exe > batch->texts || cgroup > batch->texts)
			return batch_open_error(batch, "a thread names a text that is not there");
		batch->thread[i].exe = exe ? &batch->text[exe - 1] : NULL;
		batch->thread[i].cgroup = cgroup ? &batch->text[cgroup - 1] : NULL;
	}
	return 0;
}

static int open_probes(struct open_batch *batch, struct wire_reader body, uint32_t probe_max)
{
	while (body.at < body.end) {
		uint64_t id;

		if (!wire_get(&body, &id))
			return bad_field(batch, "Batch", BATCH_PROBE);
		if (id >= probe_max || id > UINT16_MAX)
			return batch_open_error(batch, "probe %" PRIu64 " is not in the catalog",
						id);
		if (batch->probes == BATCH_PROBES_MAX)
			return batch_open_error(batch, "over %u probes", BATCH_PROBES_MAX);
		batch->probe[batch->probes++] = (uint16_t)id;
	}
	return 0;
}

static bool take_loss(const struct wire_field *field, struct open_loss *loss)
{
	switch (field->number) {
	case LOSS_BEFORE:
		return take_u32(field, &loss->before);
	case LOSS_COUNT:
		return take_u64(field, &loss->count);
	case LOSS_STAGE:
		return take_u32(field, &loss->stage);
	case LOSS_REASON:
		return take_u32(field, &loss->reason);
	case LOSS_SKIPPED:
		return take_u64(field, &loss->skipped);
	}
	return true;
}

static int open_loss(struct open_batch *batch, struct wire_reader body)
{
	struct open_loss *loss;

	if (batch->losses == BATCH_LOSSES_MAX)
		return batch_open_error(batch, "over %u losses", BATCH_LOSSES_MAX);
	loss = &batch->loss[batch->losses++];
	*loss = (struct open_loss){ 0 };
	while (body.at < body.end) {
		struct wire_field field = { 0 };

		if (!wire_get_field(&body, &field) || !take_loss(&field, loss))
			return bad_field(batch, "Loss", field.number);
	}
	if (!loss->count)
		return batch_open_error(batch, "a loss of nothing");
	if (batch->losses > 1 && loss->before < loss[-1].before)
		return batch_open_error(batch, "losses are not in order");
	return 0;
}

static bool take_attachment(const struct wire_field *field, struct open_attachment *attachment,
			    struct wire_reader *text, struct wire_reader *frame)
{
	switch (field->number) {
	case ATTACHMENT_EVENT:
		return take_u32(field, &attachment->event);
	case ATTACHMENT_KIND:
		return take_u32(field, &attachment->kind);
	case ATTACHMENT_ARG:
		return take_u32(field, &attachment->arg);
	case ATTACHMENT_TEXT:
		*text = field->body;
		return is_bytes(field, STRING_BYTES_MAX);
	case ATTACHMENT_FRAME:
		*frame = field->body;
		return is_bytes(field, STACK_FRAMES_MAX * WIRE_VARINT_BYTES_MAX);
	case ATTACHMENT_STACK:
		return take_u32(field, &attachment->stack);
	}
	return true;
}

static bool make_room(struct open_batch *batch)
{
	uint32_t room = batch->attachments_room ? 2 * batch->attachments_room : 64;
	struct open_attachment *larger;

	if (batch->attachments < batch->attachments_room)
		return true;
	larger = realloc(batch->attachment, room * sizeof(*larger));
	if (!larger)
		return false;
	batch->attachment = larger;
	batch->attachments_room = room;
	return true;
}

void batch_open_fini(struct open_batch *batch)
{
	free(batch->attachment);
	free(batch->stack);
	counts_reader_fini(&batch->counts);
	batch->attachment = NULL;
	batch->stack = NULL;
	batch->attachments_room = 0;
}

static int open_attachment(struct open_batch *batch, struct wire_reader body)
{
	/* Of an empty string there is nothing in the message: it points to some byte all the same. */
	struct wire_reader text = { body.at, body.at }, frame = text;
	struct open_attachment *attachment;
	bool is_string;

	if (batch->attachments == BATCH_ATTACHMENTS_MAX)
		return batch_open_error(batch, "over %u attachments", BATCH_ATTACHMENTS_MAX);
	if (!make_room(batch))
		return batch_open_error(batch, "no memory for its attachments");
	attachment = &batch->attachment[batch->attachments++];
	*attachment = (struct open_attachment){ 0 };
	while (body.at < body.end) {
		struct wire_field field = { 0 };

		if (!wire_get_field(&body, &field) ||
		    !take_attachment(&field, attachment, &text, &frame))
			return bad_field(batch, "Attachment", field.number);
	}
	if (attachment->kind < ATTACHMENT_KIND_STRING || attachment->kind > ATTACHMENT_KIND_USTACK)
		return batch_open_error(batch, "attachment of unknown kind %" PRIu32,
					attachment->kind);
	is_string = attachment->kind == ATTACHMENT_KIND_STRING;
	if (is_string ? frame.at != frame.end || attachment->stack :
			text.at != text.end || (attachment->stack && frame.at != frame.end))
		return batch_open_error(batch, "attachment with what is not of its kind");
	attachment->data = is_string ? text : frame;
	if (batch->attachments > 1 && attachment->event < attachment[-1].event)
		return batch_open_error(batch, "attachments are not in the order of their events");
	return 0;
}

static int open_stack(struct open_batch *batch, struct wire_reader body)
{
	struct wire_reader frame = { body.at, body.at };

	if (batch->stacks == BATCH_STACKS_MAX)
		return batch_open_error(batch, "over %u stacks", BATCH_STACKS_MAX);
	if (!batch->stack)
		batch->stack = malloc(BATCH_STACKS_MAX * sizeof(*batch->stack));
	if (!batch->stack)
		return batch_open_error(batch, "no memory for its stacks");
	while (body.at < body.end) {
		struct wire_field field = { 0 };

		if (!wire_get_field(&body, &field))
			return bad_field(batch, "Stack", field.number);
		if (field.number != STACK_FRAME)
			continue;
		if (!is_bytes(&field, STACK_FRAMES_MAX * WIRE_VARINT_BYTES_MAX))
			return bad_field(batch, "Stack", field.number);
		frame = field.body;
	}
	batch->stack[batch->stacks++] = frame;
	return 0;
}

/* A column is packed and in one piece: ringtail writes no other, and so each is one cursor. */
static int open_column(struct open_batch *batch, const struct wire_field *field)
{
	enum batch_column column = field->number - BATCH_COLUMN_FIRST;
	const char *name = batch_columns[column].name;

	if (field->type != WIRE_BYTES)
		return batch_open_error(batch, "column %s is not packed", name);
	if (batch->column[column].at)
		return batch_open_error(batch, "column %s comes twice", name);
	batch->column[column] = field->body;
	return 0;
}

static int open_field(struct open_batch *batch, const struct wire_field *field, uint32_t probe_max)
{
	bool good;

	if (field->number >= BATCH_COLUMN_FIRST &&
	    field->number < BATCH_COLUMN_FIRST + BATCH_COLUMNS)
		return open_column(batch, field);
	if (field->number == BATCH_TEXT)
		return open_text(batch, field);
	if (field->number == BATCH_COUNTS)
		return field->type == WIRE_BYTES && counts_reader_open(&batch->counts, field->body) ?
			       0 : bad_field(batch, "Batch", BATCH_COUNTS);
	if (field->number > BATCH_STACK)
		return 0;
	if (field->type != (field->number < BATCH_THREAD ? WIRE_VARINT : WIRE_BYTES))
		return bad_field(batch, "Batch", field->number);
	switch (field->number) {
	case BATCH_CPU:
		good = take_u32(field, &batch->cpu);
		break;
	case BATCH_FIRST_SEQ:
		good = take_u64(field, &batch->first_seq);
		break;
	case BATCH_END_SEQ:
		good = take_u64(field, &batch->end_seq);
		break;
	case BATCH_TIME_NS:
		good = take_u64(field, &batch->time_ns);
		break;
	case BATCH_EVENTS:
		good = take_u32(field, &batch->events);
		break;
	case BATCH_THREAD:
		return open_thread(batch, field->body);
	case BATCH_PROBE:
		return open_probes(batch, field->body, probe_max);
	case BATCH_LOSS_FIELD:
		return open_loss(batch, field->body);
	case BATCH_STACK:
		return open_stack(batch, field->body);
	default:
		return open_attachment(batch, field->body);
	}
	return good ? 0 : bad_field(batch, "Batch", field->number);
}

static int check_counts(struct open_batch *batch)
{
	static const enum batch_column every[] = {
		COLUMN_EVENT_PROBE, COLUMN_EVENT_THREAD, COLUMN_CHANGED, COLUMN_TIME_HIGH,
		COLUMN_SPAN_LOW,
	};

	if (batch->events > BATCH_EVENTS_MAX)
		return batch_open_error(batch, "%" PRIu32 " events, %u are allowed", batch->events,
					BATCH_EVENTS_MAX);
	for (unsigned i = 0; i < sizeof(every) / sizeof(every[0]); i++) {
		const struct wire_reader *column = &batch->column[every[i]];

		if ((size_t)(column->end - column->at) < batch->events)
			return batch_open_error(batch, "column %s is shorter than %" PRIu32
						" events", batch_columns[every[i]].name,
						batch->events);
	}
	if (batch->losses && batch->loss[batch->losses - 1].before > batch->events)
		return batch_open_error(batch, "a loss stands after the last event's place");
	if (batch->attachments &&
	    batch->attachment[batch->attachments - 1].event >= batch->events)
		return batch_open_error(batch, "an attachment belongs to no event");
	for (uint32_t i = 0; i < batch->attachments; i++)
		if (batch->attachment[i].stack > batch->stacks)
			return batch_open_error(batch, "an attachment names a stack that is not there");
	return 0;
}

int batch_open(struct open_batch *batch, const uint8_t *message, size_t bytes, uint32_t probe_max)
{
	struct wire_reader reader = { message, message + bytes };

	batch->cpu = batch->events = 0;
	batch->first_seq = batch->end_seq = batch->time_ns = 0;
	batch->threads = batch->probes = batch->losses = 0;
	batch->attachments = batch->texts = batch->stacks = 0;
	memset(batch->column, 0, sizeof(batch->column));
	counts_reader_clear(&batch->counts);
	batch->error[0] = '\0';
	if (bytes > FRAME_RAW_BYTES_MAX)
		return batch_open_error(batch, "%zu bytes, %u are allowed", bytes,
					FRAME_RAW_BYTES_MAX);
	while (reader.at < reader.end) {
		struct wire_field field = { 0 };
		int err;

		if (!wire_get_field(&reader, &field))
			return batch_open_error(batch, "not a protobuf message at byte %zu",
						(size_t)(reader.at - message));
		err = open_field(batch, &field, probe_max);
		if (err)
			return err;
	}
	return check_counts(batch) ? -EBADMSG : name_texts(batch);
}
