/*
 * export_event: an event as exporters keep it: whole in itself, with its class, and readable.
 *
 * Made by the export thread from a decoded batch; destroyed when the back end has it.
 */
#ifndef RINGTAIL_DAEMON_EXPORT_EVENT_H
#define RINGTAIL_DAEMON_EXPORT_EVENT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "daemon/base/frame_ref.h"
#include "daemon/base/limits.h"
#include "daemon/base/trace_id.h"
#include "daemon/export/run.h"
#include "proto/batch_decode.h"
#include "proto/limits.h"
#include "proto/ringtail.pb-c.h"

#define EXPORT_BODY_BYTES 1024		/* of an event as one line */
#define EXPORT_STRINGS_MAX 3u		/* of one call: mount's */

/* Why it is sent: the label `class` of back ends that have few labels. */
enum export_class {
	EXPORT_SLOW,		/* a call that took long, and does not wait by nature */
	EXPORT_ERROR,		/* a call that failed in a way that matters */
	EXPORT_EXEC,		/* a process became another program */
	EXPORT_EXIT,		/* a process ended by a signal, or with a status other than 0 */
	EXPORT_EVENT,		/* because export-probe asked for it */
	EXPORT_NOTHING,		/* not sent; it may describe later events */
};

/* An event's place in a trace; only where the kind makes traces. */
struct export_span {
	uint8_t trace_id[TRACE_ID_BYTES];	/* of the tree it is in */
	uint8_t span_id[SPAN_ID_BYTES];
	uint8_t parent_id[SPAN_ID_BYTES];
	uint64_t start_ns;		/* of a process; its end is the event's time */
	uint64_t end_ns;		/* of a program's that it did not end: when it was over, and why; */
	const char *failure;		/* else NULL */
	bool in_tree, has_parent, is_process, is_program, has_exit_code;
	uint8_t exit_code;
	char name[17];			/* of a process: what it ran as */
};

/* Which half of a program's span an event is. */
enum export_span_half {
	EXPORT_NO_HALF,
	EXPORT_BEGIN,
	EXPORT_END,
};

/*
 * How many events of each frame are still to be dealt with, and so up to which frame
 * all is: a value that is kept as events come and go, for looking at all that wait costs more the
 * longer a back end is away.
 *
 *	settled         base                   newest
 *	────────────────┼──────────────────────┼─────────
 *	nothing waits   waiting[] of each frame   not begun
 */
struct export_frames {
	uint64_t base;		/* the oldest frame of which something may wait */
	uint64_t newest;
	uint32_t waiting[EXPORT_FRAMES_UNSETTLED_MAX];	/* by serial modulo the size */
};

/* A frame's events follow. Serials grow; the newest is less than the size of waiting[] ahead. */
void export_frames_begin(struct export_frames *frames, uint64_t serial);

/* One of its events waits; does so no more. */
void export_frames_hold(struct export_frames *frames, uint64_t serial);
void export_frames_release(struct export_frames *frames, uint64_t serial);

/* Nothing waits of this frame and of all before; 0: of none that can be said. */
uint64_t export_frames_settled(struct export_frames *frames);

struct export_event {
	TAILQ_ENTRY(export_event) link;
	struct export_run *run;		/* a reference */
	struct export_frames *frames;	/* which wait for it, with the one it came in; or NULL */
	uint64_t frame;			/* that one's serial */
	uint64_t time_ns;		/* CLOCK_MONOTONIC, its end */
	uint64_t seq;
	uint32_t cpu;
	enum export_class class;
	struct batch_thread thread;	/* comm is UTF-8, see comm(); its texts are in `context` */
	struct export_context *context;	/* a reference; NULL: nothing is known */
	const Ringtail__V1__Probe *probe;	/* its run's */
	bool has_duration;
	uint8_t fields, strings;
	uint8_t string_field[EXPORT_STRINGS_MAX];	/* whose text `string` is */
	uint64_t field[PROBE_FIELDS_MAX];
	char string[EXPORT_STRINGS_MAX][STRING_BYTES_MAX + 1];	/* UTF-8: other bytes are '?' */
	struct export_span span;
	struct export_event *begin;	/* of the end of a program's span: its begin, or NULL; owned */
};

TAILQ_HEAD(export_list, export_event);

/* NULL: out of memory, or the probe is not in that run's catalog. */
struct export_event *export_event_create(struct export_run *run, uint32_t cpu,
					 const struct batch_item *item);
void export_event_destroy(struct export_event *event);

/* Where its record was: what its ids are made of. Borrows the event. */
struct trace_place export_event_place(const struct export_event *event);

/* "slow": stable. */
const char *export_class_name(enum export_class class);

/* Its thread's name, terminated. */
void export_event_comm(const struct export_event *event, char comm[17]);

bool export_event_is_call(const struct export_event *event);

/* As ringtail-probe.h has them: struct rt_program_begin and rt_program_end. */
enum export_span_half export_event_half(const struct export_event *event);

/* Of either half: the field that is the trace's id, with those of the span and its parent behind it. */
unsigned export_event_ids(const struct export_event *event);

/* Of a begin: whether what its thread does until the end is inside it; and its first argument. */
bool export_event_is_scope(const struct export_event *event);
unsigned export_event_first_argument(const struct export_event *event);

/* Of an end: what the program calls its failure; 0: none. */
int64_t export_event_span_status(const struct export_event *event);

/* The end of a thread: field[1] says whether its process ends, too. */
bool export_event_is_exit(const struct export_event *event);

/* Of a call: when it began; of anything else, its time. */
uint64_t export_event_start_ns(const struct export_event *event);

/* The errno of a call that failed; 0: it did not. */
int export_event_errno(const struct export_event *event);

/* Of the end of a process: the signal that ended it, 0: none; -1: its run did not record that. */
int export_event_signal(const struct export_event *event);

/* "SIGKILL"; "signal 40". Returns text. */
const char *export_event_signal_name(int signal, char text[24]);

/* The text of a field; NULL: it has none. */
const char *export_event_string(const struct export_event *event, unsigned field);

/* The text of a call's struct sockaddr; NULL: it has none. */
const char *export_event_address(const struct export_event *event);

/* A field's word, widened as its type says. */
uint64_t export_event_value(const struct export_event *event, unsigned field);

/* One value for people: 0x7f00, -1, "/etc/passwd". Returns text. */
const char *export_event_value_text(const struct export_event *event, unsigned field, char *text,
				    size_t bytes);

/* `openat(dfd=3, ...) = -1 ENOSPC <120.5ms>`. Returns its bytes, less than EXPORT_BODY_BYTES. */
size_t export_event_body(const struct export_event *event, char body[EXPORT_BODY_BYTES]);

/*
 * The first event of a batch, a frame of a subscription, as one line for people: "postgres[812]: fsync(fd=7) = 0 <67.2ms>".
 * The text is never empty. For what is rare: it makes all that it takes anew. Main thread.
 */
void export_event_first_text(const struct frame_ref *frame, struct frame_codec *codec,
			     const Ringtail__V1__Catalog *catalog, char *text, size_t bytes);

/*
 * Tells when each event of a batch happened, by CLOCK_MONOTONIC, in the batch's order. 0; -EBADMSG, -ENOMEM: after none
 * or some of them. Makes all that it takes anew, too.
 */
typedef void export_event_time(void *context, uint64_t time_ns);
int export_event_times(const struct frame_ref *frame, struct frame_codec *codec,
		       const Ringtail__V1__Catalog *catalog, export_event_time *tell, void *context);

#endif
