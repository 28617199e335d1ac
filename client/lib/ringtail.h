/*
 * ringtail: the client library. Connect to a daemon or open a file of frames, subscribe, and take
 * events, losses and watermarks one at a time, in time order across CPUs. There is an example in
 * docs/libringtail.md.
 *
 * A handle belongs to one thread at a time. Whatever an item points to is borrowed until the next
 * call on the same handle. Functions return 0 or -errno, and explain a failure in *error.
 */
#ifndef RINGTAIL_H
#define RINGTAIL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct ringtail;

struct ringtail_error {
	char code[40];		/* stable: "no-daemon", "bad-checksum", or the daemon's own */
	char what[512];		/* what happened, and where */
	char hint[512];		/* what to do about it; may be empty */
	uint32_t column;	/* 1-based place in the filter or probe text; 0: none */
};

/* The values are those of the wire. */
enum ringtail_type {
	RINGTAIL_UNSIGNED	= 0,
	RINGTAIL_SIGNED		= 1,
	RINGTAIL_HEX		= 2,	/* an address or a bit mask */
	RINGTAIL_DURATION	= 3,	/* ns; RINGTAIL_NEVER: the call does not return */
	RINGTAIL_RESULT		= 4,	/* of a system call: -4095..-1 is an errno */
	RINGTAIL_FD		= 5,
	RINGTAIL_THREAD		= 6,	/* a tid; ringtail_thread_comm() may name it */
	RINGTAIL_STRING		= 7,	/* an address; its text may be attached */
	RINGTAIL_TEXT		= 8,	/* text: ringtail_bytes() */
	RINGTAIL_BYTES		= 9,	/* an array: ringtail_bytes() */
	RINGTAIL_MORE		= 10,	/* part of the field before; has no name */
};

#define RINGTAIL_NEVER		UINT64_MAX

struct ringtail_field {
	const char *name;
	const char *c_type;
	enum ringtail_type type;
	unsigned bits;		/* 8, 16, 32 or 64; of an array, an element's */
	unsigned bytes;		/* of a text or an array: in the values from its own on; 0: attached */
	bool element_signed;	/* of an array */
	const void *names;	/* the library's own: ringtail_value_name() */
};

enum ringtail_probe_kind {
	RINGTAIL_CALL,		/* first fields: duration, result */
	RINGTAIL_ENTRY,
	RINGTAIL_RETURN,	/* first field: result */
	RINGTAIL_TRACEPOINT,	/* and anything else */
};

struct ringtail_probe {
	uint32_t id;
	enum ringtail_probe_kind kind;
	const char *spec;	/* "syscall:openat:call" */
	const char *provider, *function, *name;
	unsigned fields;
	const struct ringtail_field *field;
	const char *print;	/* the print format that tracefs has; "": none is known */
	const char *source;	/* "file.c:12": place in the program; "": not a probe of a program */
};

struct ringtail_thread {
	uint32_t tid, pid, ppid, uid;
	bool kernel;
	char comm[16];		/* not terminated if it fills all of it */

	/*
	 * Set with RINGTAIL_CONTEXT if they are known, otherwise 0 and NULL. Paths are not terminated; a path
	 * that does not begin with a slash has lost its beginning. Borrowed until the next item.
	 */
	uint64_t cgroup_id;	/* in the unified hierarchy */
	const char *exe, *cgroup;
	size_t exe_bytes, cgroup_bytes;
};

enum ringtail_attachment_kind {
	RINGTAIL_ATTACHED_STRING = 1,
	RINGTAIL_ATTACHED_KSTACK = 2,
	RINGTAIL_ATTACHED_USTACK = 3,
};

struct ringtail_attachment {
	enum ringtail_attachment_kind kind;
	unsigned field;			/* string: which field it belongs to */
	const uint8_t *text;		/* string */
	size_t text_bytes;
	const uint64_t *frame;		/* stack: return addresses, innermost first; see RINGTAIL_STACK_END */
	size_t frames;
};

/*
 * The last frame of a user stack that was followed by .eh_frame, and ends before the thread's first function. It is no
 * address: RINGTAIL_STACK_END, and the reason in its low bits. Stacks that follow frame pointers have none.
 */
#define RINGTAIL_STACK_END	0x8000000000000000ull

enum ringtail_stack_end {
	RINGTAIL_STACK_END_TABLE = 1,	/* nothing tells where this code was called from, or that is no code */
	RINGTAIL_STACK_END_RULE = 2,	/* what tells it, for this place in the code, cannot be followed */
	RINGTAIL_STACK_END_MEMORY = 3,	/* the stack could not be read there, or does not grow on */
};

/* What ringtail_next() returns. */
enum ringtail_kind {
	RINGTAIL_EVENT,
	RINGTAIL_LOSS,		/* attempts that were lost inside a batch, at their place */
	RINGTAIL_GAP,		/* attempts that were lost between batches: a Gap frame */
	RINGTAIL_BATCH,		/* count_only: `count` events of one CPU */
	RINGTAIL_WATERMARK,	/* every event before time_ns has been returned */
	RINGTAIL_DISCONNECTED,	/* `text` has the reason; the handle tries to reconnect */
	RINGTAIL_RECONNECTED,
	RINGTAIL_TIMEOUT,	/* timeout_ms passed */
	RINGTAIL_INTERRUPTED,	/* the descriptor of ringtail_set_interrupt() became readable */
	RINGTAIL_END,		/* the daemon or the file ended; `text` has the reason. If a file was cut
				 * short, totals.cut_short is 1, and ringtail_last_error() has the place */
	RINGTAIL_ERROR,		/* ringtail_last_error() has the error; later calls return the same */
};

struct ringtail_item {
	enum ringtail_kind kind;
	uint32_t cpu;
	uint64_t seq;		/* event: its number; loss, gap: the first missing number */
	uint64_t time_ns;	/* CLOCK_MONOTONIC of the traced host */
	uint64_t realtime_ns;	/* watermark: the same by its wall clock */

	const struct ringtail_probe *probe;
	const uint64_t *value;	/* one for each field of the probe, as sent: ringtail_value() */
	struct ringtail_thread thread;
	const struct ringtail_attachment *attachment;
	size_t attachments;

	uint64_t count;		/* loss, gap: attempts; batch: events */
	uint64_t events;	/* gap: how many of these this client had asked for; 0: not known */
	unsigned stage, reason;	/* ringtail_stage_name(), ringtail_reason_name() */

	const char *text;
	const void *source;	/* the library's own */
};

/* The host that the events are from. */
struct ringtail_host {
	char hostname[256], kernel[256], machine[64], software[64], source[32];
	uint8_t boot_id[16];
	uint64_t epoch;
	uint64_t monotonic_ns, realtime_ns;	/* the two clocks at one moment */
	uint32_t version, cpus;
	char role[16];			/* of this client there: "viewer", "operator" */
	/* What its daemon can do. */
	bool has_context;		/* RINGTAIL_CONTEXT */
	bool has_fds;			/* RINGTAIL_FDS and RINGTAIL_DATA */
	bool has_stuck;			/* list the threads that are in a system call */
	bool has_dumps;			/* list the dumps that its triggers wrote */
	bool has_hosts;			/* list the hosts of a relay, or report that it is not a relay */
	bool has_counts;		/* count events: ringtail_ask() */
};

#define RINGTAIL_KSTACK		(1u << 1)
#define RINGTAIL_USTACK		(1u << 2)
#define RINGTAIL_STRINGS	(1u << 3)
#define RINGTAIL_CONTEXT	(1u << 4)	/* of each thread, exe and cgroup */
#define RINGTAIL_MAPS		(1u << 5)	/* with RINGTAIL_USTACK: add events of process:map:executable
						   (where the code lies), even if the filter rejects them */

#define RINGTAIL_FDS		(1u << 6)	/* what file descriptors stand for, as strings */
#define RINGTAIL_DATA		(1u << 7)	/* the first bytes that are read and written, as strings */

struct ringtail_subscription {
	const char *const *probe;	/* globs */
	size_t probes;			/* 0: what the daemon always records */
	const char *filter;		/* NULL or empty: none */
	const char *since;		/* a cursor's text; NULL: from now, or from the place of `consumer` */
	uint64_t since_realtime_ns;	/* instead of `since`: from this time on; 0: none */
	const char *consumer;		/* a durable consumer's name; NULL: none. ringtail_ack() */
	unsigned flags;			/* RINGTAIL_KSTACK, ... */
	bool count_only;		/* count and check batches, and return no events */
	bool reconnect;			/* reconnect and resume if the connection breaks */
};

struct ringtail_totals {
	uint64_t events, lost;
	uint64_t gaps;			/* Gap frames; their attempts are in `lost`, too */
	uint64_t unknown;		/* of the gaps, those of unknown size, which `lost` leaves out */
	uint64_t filtered;		/* events from before `since_realtime_ns`, after the end of
					   the span, or not wanted by ringtail_select() */
	uint64_t undecided;		/* events that ringtail_select() returned because a text
					   that its filter compares is cut or was not recorded */
	uint64_t late;			/* events that arrived after younger ones had been returned */
	uint64_t frames, wire_bytes, raw_bytes;
	uint64_t residual;		/* attempts without an account; 0: the ledger is balanced */
	uint64_t cut_short;		/* of a file: 1 if it ends without a Bye */
	uint64_t duplicate;		/* of a spool: events that two segments have; returned once */
};

/*
 * How the client authenticates the daemon, and itself. For each member that is NULL, the environment decides:
 * RINGTAIL_CA, RINGTAIL_CERT, RINGTAIL_KEY, RINGTAIL_TOKEN_FILE, RINGTAIL_SERVER_NAME.
 */
struct ringtail_trust {
	const char *ca;			/* file of trusted authorities, in PEM; by default the system's */
	const char *cert, *key;		/* files of the client's certificate and its key */
	const char *token_file;		/* file whose first line is the client's token */
	const char *server_name;	/* name in the daemon's certificate, if it is not the address' host */
	bool insecure;			/* allow plain tcp, on loopback */
};

/* Applies to later connections of every thread. The strings are borrowed until these connections end. */
void ringtail_set_trust(const struct ringtail_trust *trust);

/* address: "unix:PATH", "tcp:HOST:PORT"; NULL: the default address of the daemon. */
int ringtail_connect(const char *address, struct ringtail **ringtail, struct ringtail_error *error);

/* Reads frames from a file or a pipe. The handle owns `fd`. Messages show `name`. */
int ringtail_open(int fd, const char *name, bool count_only, struct ringtail **ringtail,
		  struct ringtail_error *error);

/* Call it once for each connection. NULL means a ringtail_subscription of zeros. */
int ringtail_subscribe(struct ringtail *ringtail, const struct ringtail_subscription *subscription,
		       struct ringtail_error *error);

/*
 * Asks the daemon to count events instead of sending each. Events of one CPU with the same values of `by` become one
 * event: the first of them, with 0 in the fields that `by` does not need. ringtail_counts() returns what it stands for.
 * Several such events may have the same values of `by`; add them up.
 * Example: by = {"comm"}, and `cat` makes 5 calls: one event of `cat`, with ringtail_counts().events 5.
 */
struct ringtail_question {
	const char *const *by;		/* fields, and what every event has: "comm", "pid", "error" */
	size_t bys;			/* 0: all events are one */
	const char *of;			/* a number of the events; NULL: none */
	uint64_t interval_ns;		/* each event counts those of one such interval; 0: no intervals */
	uint64_t origin_ns;		/* a time at which an interval begins, by the clock of events */
};

/*
 * Call it before ringtail_subscribe(), until which the question is borrowed. A question cannot be combined with stacks,
 * a consumer or the past. -EOPNOTSUPP: the daemon cannot count (ringtail_host()). If the client reconnects to an older
 * daemon that cannot count, that daemon sends each event.
 */
int ringtail_ask(struct ringtail *ringtail, const struct ringtail_question *question,
		 struct ringtail_error *error);

/*
 * Call it before ringtail_subscribe(), which then waits for a program if no program has brought a probe yet that is asked
 * for. It calls waits() once, with the daemon's words: for which probe, and whose probes there are. It waits for timeout_ms
 * (-1: no limit): -ETIMEDOUT, or -EINTR after ringtail_set_interrupt(), which waits() may call. The connection is of no
 * use then. A daemon that is too old refuses such a probe. After a reconnect nothing waits.
 */
void ringtail_set_waits(struct ringtail *ringtail, int timeout_ms,
			void (*waits)(void *context, const struct ringtail_error *error), void *context);

/* Returns the next item. timeout_ms < 0: no limit. After RINGTAIL_END or RINGTAIL_ERROR, each call returns the same. */
enum ringtail_kind ringtail_next(struct ringtail *ringtail, struct ringtail_item *item,
				 int timeout_ms);

/*
 * Ends the stream: ringtail_next() returns what has been received (of a file: read) so far, without waiting for a
 * watermark, and then RINGTAIL_END.
 */
void ringtail_flush(struct ringtail *ringtail);

void ringtail_close(struct ringtail *ringtail);

const struct ringtail_error *ringtail_last_error(const struct ringtail *ringtail);
const struct ringtail_host *ringtail_host(const struct ringtail *ringtail);
const struct ringtail_totals *ringtail_totals(const struct ringtail *ringtail);

/*
 * Returns only events from since_ns on and before until_ns, by the traced host's wall clock; 0: no bound. Other events
 * count as filtered. If a file begins later than since_ns, a gap reports that. Call it before the first item.
 * ringtail_subscribe() sets since_ns from the subscription's since_realtime_ns.
 */
void ringtail_set_span(struct ringtail *ringtail, uint64_t since_ns, uint64_t until_ns);

/*
 * For a file, before its first item: returns only events of these probes (globs; 0: all) that pass the filter (NULL:
 * all). Other events count as filtered. Losses are always returned, because the lost events may be among those asked
 * for. Events that the filter cannot decide are returned, too (totals.undecided). -EINVAL with *error and its column:
 * the probes or the filter are not valid with any catalog. If no catalog of the file has such probes or fields, the
 * file ends with RINGTAIL_ERROR.
 */
int ringtail_select(struct ringtail *ringtail, const char *const *probe, size_t probes,
		    const char *filter, struct ringtail_error *error);

/* A descriptor that interrupts ringtail_next() when it is readable, such as a signal handler's pipe; -1: none. */
void ringtail_set_interrupt(struct ringtail *ringtail, int fd);

/* Passes each frame, whole and unchecked, to `tap`. All of them in a file are a recording. */
void ringtail_set_tap(struct ringtail *ringtail,
		      void (*tap)(void *context, const uint8_t *frame, size_t bytes),
		      void *context);

/*
 * Ends the recording: passes a Bye with that reason to the tap, and no frame after it. Readers report a recording
 * without a Bye as cut short. 0 or -ENOMEM.
 */
int ringtail_end_tap(struct ringtail *ringtail, const char *reason, struct ringtail_error *error);

/* Writes the place behind the last returned item, as text for `since`. -ENOSPC: it does not fit. */
int ringtail_cursor(const struct ringtail *ringtail, char *text, size_t text_bytes);

/*
 * Acknowledges, for a durable consumer, all items that were returned: the daemon may discard them. Does not wait for an
 * answer. Without a connection it does nothing.
 */
int ringtail_ack(struct ringtail *ringtail, struct ringtail_error *error);

/* How many values are in a bucket; docs/protocol.md has the bounds of each number. */
struct ringtail_bucket {
	uint32_t number;
	uint64_t values;
};

/* The events that one counting event stands for. */
struct ringtail_counts {
	uint64_t events, errors;	/* including this one; of these, calls that failed */
	uint64_t values;		/* of the events, those with a value of `of` */
	uint64_t least, greatest;	/* of the values, */
	uint64_t sum, sum_high;		/* their sum: sum_high * 2^64 + sum, */
	uint32_t buckets;		/* and their distribution */
	const struct ringtail_bucket *bucket;
};

/* False: the event stands for itself alone. *counts is borrowed as long as the event. */
bool ringtail_counts(const struct ringtail_item *event, struct ringtail_counts *counts);

/* Extends the word by the field's width and sign. */
uint64_t ringtail_value(const struct ringtail_field *field, uint64_t word);

/*
 * Writes the name of a value in C: "O_RDONLY|O_CLOEXEC", "SIGKILL", "AF_INET". Returns its length without the NUL; 0:
 * the value has no name, or the name does not fit.
 */
size_t ringtail_value_name(const struct ringtail_item *event, unsigned field, char *text,
			   size_t text_bytes);

/*
 * Returns the bytes of a text (up to its first NUL) or an array (little-endian); NULL: none were recorded. At most
 * RINGTAIL_BYTES_MAX are recorded; *whole, which may be NULL, is how many there were.
 */
#define RINGTAIL_BYTES_MAX	128
const uint8_t *ringtail_bytes(const struct ringtail_item *event, unsigned field, size_t *bytes,
			      size_t *whole);

/* The name of a thread that is named by a field of the event, or NULL; at most 16 bytes, not terminated. */
const char *ringtail_thread_comm(const struct ringtail_item *event, uint32_t tid);

/* The process of such a thread; 0: not known. */
uint32_t ringtail_thread_pid(const struct ringtail_item *event, uint32_t tid);

const char *ringtail_stage_name(unsigned stage);	/* "ring" */
const char *ringtail_reason_name(unsigned reason);	/* "ring-full" */
const char *ringtail_reason_remedy(unsigned reason);	/* the remedy; never NULL */

#ifdef __cplusplus
}
#endif

#endif
