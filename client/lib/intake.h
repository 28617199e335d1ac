/*
 * intake: frames of a daemon or a file in; host, catalog, ledger and items out.
 *
 * It is the same for a connection and for a recording. One thread.
 */
#ifndef RINGTAIL_CLIENT_LIB_INTAKE_H
#define RINGTAIL_CLIENT_LIB_INTAKE_H

#include "client/lib/cursor.h"
#include "client/lib/forward.h"
#include "client/lib/frame_reader.h"
#include "client/lib/ringtail.h"
#include "proto/limits.h"

struct intake;
struct selection;

enum intake_phase {
	INTAKE_GREETED,		/* ServerHello has come */
	INTAKE_SUBSCRIBED,	/* Subscribed has come */
	INTAKE_ENDED,		/* Bye has come */
};

/* What a frame is opened on; several intakes of one thread may share it. NULL when out of memory. */
struct intake_desk {
	struct frame_codec *codec;
	uint8_t raw[FRAME_RAW_BYTES_MAX];	/* of the frame at hand, unless it is a batch */
};
struct intake_desk *intake_desk_create(void);
void intake_desk_destroy(struct intake_desk *desk);

/* NULL when out of memory. */
struct intake *intake_create(bool count_only);
void intake_destroy(struct intake *intake);

/* The same of one that shares a desk, borrowed; its batches become events. */
struct intake *intake_create_at(struct intake_desk *desk);

/* Before the first batch: whether batches are counted and checked, or turned into events. */
void intake_set_count_only(struct intake *intake, bool count_only);

/*
 * After the hello: the stream goes on at this cursor, or NULL. The daemon may begin with a batch that
 * has events from before it; they are not given out again. A cursor of another run says nothing.
 */
void intake_set_since(struct intake *intake, const struct cursor *since);

/* Events from before that time of the traced host's wall clock are not given out; 0: all are. */
void intake_set_since_time(struct intake *intake, uint64_t realtime_ns);

/* Nor is what happened at that time or later; 0: all is. */
void intake_set_until_time(struct intake *intake, uint64_t realtime_ns);

/* Of a file, before its first frame: only events that it wants are given out. It is borrowed. */
void intake_set_selection(struct intake *intake, struct selection *selection);

/* Of a file: one that begins later than the time above begins with a gap of no size. */
void intake_check_begin(struct intake *intake);

/*
 * Takes one frame; after it, intake_next() until it brings RINGTAIL_TIMEOUT. -EBADMSG or -ENOMEM
 * with *error: the frame is damaged or has no business here. -EPROTO: it is an Error, told
 * in *error.
 */
int intake_frame(struct intake *intake, const struct frame *frame, struct ringtail_error *error);

/* What the last frame was about; it holds until the next one. */
const struct forward_span *intake_span(const struct intake *intake);

/* The next item, RINGTAIL_TIMEOUT if there is none, RINGTAIL_ERROR with *error. */
enum ringtail_kind intake_next(struct intake *intake, struct ringtail_item *item,
			       struct ringtail_error *error);

/* What waits for a watermark goes out without one. */
void intake_flush(struct intake *intake);

bool intake_reached(const struct intake *intake, enum intake_phase phase);

/* Whether the last frame was one that ends a recording, or a segment. */
bool intake_is_whole(const struct intake *intake);

/* It is not, and there will be no more: the totals say so. */
void intake_set_cut_short(struct intake *intake);

/* A new connection begins: hello, catalog and subscription come again. */
void intake_restart(struct intake *intake);

/* Why Bye was said, and whether for good: else the daemon may be back in a moment. */
const char *intake_bye(const struct intake *intake);
bool intake_bye_is_final(const struct intake *intake);
const struct ringtail_host *intake_host(const struct intake *intake);
const struct ringtail_totals *intake_totals(struct intake *intake);

/* Where to go on: after what has come, or after what intake_next() has given out. */
void intake_cursor_come(const struct intake *intake, struct cursor *cursor);
void intake_cursor_given(const struct intake *intake, struct cursor *cursor);

#endif
