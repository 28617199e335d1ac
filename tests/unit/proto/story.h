/*
 * story: what a test puts into a batch, remembered, so that it can be compared with what comes out.
 *
 * story_tell() encodes it, story_check() decodes bytes and compares them with it, item by item.
 */
#ifndef RINGTAIL_TESTS_STORY_H
#define RINGTAIL_TESTS_STORY_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "proto/batch_decode.h"
#include "proto/batch_encode.h"
#include "proto/limits.h"

#define STORY_STEPS_MAX		16384
#define STORY_THREADS_MAX	64
#define STORY_PROBE_IDS		0x1c00

struct story_step {
	enum story_kind { STORY_EVENT, STORY_LOSS, STORY_SKIP, STORY_STRING, STORY_STACK } kind;
	uint64_t seq;			/* event: its number; loss: of its first */
	uint64_t count;			/* loss, skip */
	uint32_t stage, reason;		/* loss */
	uint16_t probe;			/* event ... */
	uint32_t thread;		/* index in story.thread */
	uint64_t time_ns;
	uint64_t field[PROBE_FIELDS_MAX];
	uint32_t arg;			/* string */
	bool kernel;			/* stack */
	size_t bytes;			/* string: bytes; stack: frames */
	uint8_t text[STRING_BYTES_MAX];
	uint64_t frame[STACK_FRAMES_MAX];
};

struct story {
	uint32_t cpu;
	uint64_t first_seq, time_ns, next_seq;
	struct batch_probe probe[STORY_PROBE_IDS];
	struct batch_thread thread[STORY_THREADS_MAX];
	uint64_t slot[STORY_THREADS_MAX];
	size_t steps;
	struct story_step step[STORY_STEPS_MAX];
};

static inline struct story *story_create(uint64_t first_seq, uint64_t time_ns)
{
	struct story *story = calloc(1, sizeof(*story));

	assert_non_null(story);
	story->cpu = 3;
	story->first_seq = story->next_seq = first_seq;
	story->time_ns = time_ns;
	for (uint32_t i = 0; i < STORY_THREADS_MAX; i++) {
		story->thread[i] = (struct batch_thread){
			.tid = 1000 + i, .pid = 1000, .ppid = i % 3, .uid = i % 5 ? 0 : UINT32_MAX,
			.kernel = i % 7 == 6,
		};
		memset(story->thread[i].comm, 'a' + (int)(i % 26), i % 17);
	}
	return story;
}

static inline void story_probe(struct story *story, uint16_t id, uint8_t fields, bool has_duration)
{
	story->probe[id] = (struct batch_probe){
		.fields = fields, .has_duration = has_duration, .known = true,
	};
}

static inline struct story_step *story_step(struct story *story, enum story_kind kind)
{
	struct story_step *step = &story->step[story->steps++];

	assert_in_range(story->steps, 1, STORY_STEPS_MAX);
	step->kind = kind;
	step->seq = story->next_seq;
	return step;
}

/* An event whose fields the caller fills in. */
static inline uint64_t *story_event(struct story *story, uint16_t probe, uint32_t thread,
				    uint64_t time_ns)
{
	struct story_step *step = story_step(story, STORY_EVENT);

	assert_true(story->probe[probe].known);
	step->probe = probe;
	step->thread = thread;
	step->time_ns = time_ns;
	story->next_seq++;
	return step->field;
}

static inline void story_loss(struct story *story, uint64_t count, uint32_t stage, uint32_t reason)
{
	struct story_step *step = story_step(story, STORY_LOSS);

	step->count = count;
	step->stage = stage;
	step->reason = reason;
	story->next_seq += count;
}

static inline void story_skip(struct story *story, uint64_t count)
{
	story_step(story, STORY_SKIP)->count = count;
	story->next_seq += count;
}

static inline void story_string(struct story *story, uint32_t arg, const void *text, size_t bytes)
{
	struct story_step *step = story_step(story, STORY_STRING);

	step->arg = arg;
	step->bytes = bytes;
	memcpy(step->text, text, bytes);
}

static inline void story_stack(struct story *story, bool kernel, size_t frames, uint64_t first)
{
	struct story_step *step = story_step(story, STORY_STACK);

	step->kernel = kernel;
	step->bytes = frames;
	for (size_t i = 0; i < frames; i++)
		step->frame[i] = first + i * 0x123456789abULL;
}

/* Encodes it all into one batch; the bytes are the encoder's. */
static inline const uint8_t *story_tell(struct story *story, struct batch_encoder *encoder,
					size_t *bytes)
{
	batch_encode_begin(encoder, story->cpu, story->first_seq, story->time_ns);
	for (size_t i = 0; i < story->steps; i++) {
		const struct story_step *step = &story->step[i];
		struct batch_event event = {
			.probe = step->probe,
			.fields = story->probe[step->probe].fields,
			.has_duration = story->probe[step->probe].has_duration,
			.time_ns = step->time_ns,
			.field = step->field,
		};

		switch (step->kind) {
		case STORY_EVENT:
			event.thread = batch_encode_thread(encoder, &story->thread[step->thread],
							   &story->slot[step->thread]);
			assert_int_not_equal(event.thread, UINT32_MAX);
			assert_true(batch_encode_event(encoder, &event));
			break;
		case STORY_LOSS:
			assert_true(batch_encode_loss(encoder, step->count, step->stage,
						      step->reason));
			break;
		case STORY_SKIP:
			batch_encode_skip(encoder, step->count);
			break;
		case STORY_STRING:
			assert_true(batch_encode_string(encoder, step->arg, step->text,
							step->bytes));
			break;
		case STORY_STACK:
			assert_true(batch_encode_stack(encoder, step->kernel, step->frame,
						       step->bytes));
			break;
		}
	}
	assert_int_equal(batch_encode_end_seq(encoder), story->next_seq);
	return batch_encode_finish(encoder, bytes);
}

static inline void story_check_event(const struct story *story, const struct story_step *step,
				     const struct batch_item *item)
{
	const struct batch_probe *probe = &story->probe[step->probe];

	assert_int_equal(item->kind, BATCH_EVENT);
	assert_int_equal(item->seq, step->seq);
	assert_int_equal(item->event.probe, step->probe);
	assert_int_equal(item->event.fields, probe->fields);
	assert_int_equal(item->event.has_duration, probe->has_duration);
	assert_int_equal(item->event.time_ns, step->time_ns);
	if (probe->fields)
		assert_memory_equal(item->event.field, step->field,
				    probe->fields * sizeof(*step->field));
	assert_int_equal(item->thread->tid, story->thread[step->thread].tid);
	assert_int_equal(item->thread->pid, story->thread[step->thread].pid);
	assert_int_equal(item->thread->ppid, story->thread[step->thread].ppid);
	assert_int_equal(item->thread->uid, story->thread[step->thread].uid);
	assert_int_equal(item->thread->kernel, story->thread[step->thread].kernel);
	assert_memory_equal(item->thread->comm, story->thread[step->thread].comm, 16);
}

static inline void story_check_attachment(const struct story_step *step,
					  const struct batch_attachment *attachment)
{
	if (step->kind == STORY_STRING) {
		assert_int_equal(attachment->kind, 1);
		assert_int_equal(attachment->arg, step->arg);
		assert_int_equal(attachment->text_bytes, step->bytes);
		if (step->bytes)
			assert_memory_equal(attachment->text, step->text, step->bytes);
		return;
	}
	assert_int_equal(attachment->kind, step->kernel ? 2 : 3);
	assert_int_equal(attachment->frames, step->bytes);
	if (step->bytes)
		assert_memory_equal(attachment->frame, step->frame, step->bytes * 8);
}

/* Losses of one reason that touch are one when they come out: `from` is moved past them. */
static inline uint64_t story_joined_losses(const struct story *story, size_t *from)
{
	const struct story_step *first = &story->step[*from];
	uint64_t count = first->count;

	while (*from + 1 < story->steps && story->step[*from + 1].kind == STORY_LOSS &&
	       story->step[*from + 1].stage == first->stage &&
	       story->step[*from + 1].reason == first->reason)
		count += story->step[++*from].count;
	return count;
}

static inline void story_check(const struct story *story, struct batch_decoder *decoder,
			       const uint8_t *message, size_t bytes)
{
	struct batch_summary summary;
	struct batch_item item = { 0 };
	uint64_t events = 0, lost = 0;

	if (batch_decode_open(decoder, message, bytes, &summary))
		fail_msg("%s", batch_decode_error(decoder));
	for (size_t i = 0; i < story->steps; i++) {
		const struct story_step *step = &story->step[i];
		size_t attachments = 0;

		if (step->kind == STORY_SKIP)
			continue;
		if (batch_decode_next(decoder, &item) == BATCH_ERROR)
			fail_msg("%s", batch_decode_error(decoder));
		if (step->kind == STORY_LOSS) {
			assert_int_equal(item.kind, BATCH_LOSS);
			assert_int_equal(item.loss.first_seq, step->seq);
			assert_int_equal(item.loss.stage, step->stage);
			assert_int_equal(item.loss.reason, step->reason);
			assert_int_equal(item.loss.count, story_joined_losses(story, &i));
			lost += item.loss.count;
			continue;
		}
		story_check_event(story, step, &item);
		events++;
		for (; i + 1 < story->steps && story->step[i + 1].kind >= STORY_STRING; i++) {
			assert_in_range(attachments + 1, 1, item.attachments);
			story_check_attachment(&story->step[i + 1],
					       &item.attachment[attachments++]);
		}
		assert_int_equal(attachments, item.attachments);
	}
	if (batch_decode_next(decoder, &item) == BATCH_ERROR)
		fail_msg("%s", batch_decode_error(decoder));
	assert_int_equal(item.kind, BATCH_END);
	assert_int_equal(batch_decode_next(decoder, &item), BATCH_END);
	assert_int_equal(summary.cpu, story->cpu);
	assert_int_equal(summary.events, events);
	assert_int_equal(summary.lost, lost);
	assert_int_equal(summary.first_seq, story->first_seq);
	assert_int_equal(summary.end_seq, story->next_seq);
	assert_int_equal(summary.skipped, story->next_seq - story->first_seq - events - lost);
	assert_int_equal(summary.time_ns, story->time_ns);
}

#endif
