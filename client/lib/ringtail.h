/*
 * ringtail: the client library. Connect to a daemon or open a file of frames, subscribe, and take
 * events, losses and watermarks one at a time, in time order across CPUs. There is an example in
 * docs/libringtail.md.
 *
 * A handle belongs to one thread at a time. Whatever an item points to is borrowed until the next
 * call on the same handle. Functions return 0 or -errno, and tell a person why in *error.
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
	const char *print;	/* how the kernel prints it, as tracefs says it; "": nobody said */
	const char *source;	/* "file.c:12": where a program has it; "": it is no program's */
};

struct ringtail_thread {
	uint32_t tid, pid, ppid, uid;
	bool kernel;
	char comm[16];		/* not terminated if it fills all of it */

	/*
	 * With RINGTAIL_CONTEXT, where it is known; else 0 and NULL. Paths, not terminated; one that
	 * does not begin with a slash has lost its beginning. Borrowed until the next item.
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
	const uint64_t *frame;		/* stack: return addresses, innermost first */
	size_t frames;
};

/* What ringtail_next() brings. */
enum ringtail_kind {
	RINGTAIL_EVENT,
	RINGTAIL_LOSS,		/* attempts that will not come stand here */
	RINGTAIL_GAP,		/* the same, told by the daemon apart from a batch */
	RINGTAIL_BATCH,		/* count_only: `count` events of one CPU */
	RINGTAIL_WATERMARK,	/* nothing older than time_ns will come */
	RINGTAIL_DISCONNECTED,	/* `text` says why; it goes on trying */
	RINGTAIL_RECONNECTED,
	RINGTAIL_TIMEOUT,	/* nothing came in time */
	RINGTAIL_INTERRUPTED,	/* the descriptor of ringtail_set_interrupt() became readable */
	RINGTAIL_END,		/* the daemon or the file ended; `text` says why. A file may have been cut
				 * short: totals.cut_short, and ringtail_last_error() says where */
	RINGTAIL_ERROR,		/* ringtail_last_error() says which; the handle stays there */
};

struct ringtail_item {
	enum ringtail_kind kind;
	uint32_t cpu;
	uint64_t seq;		/* event: its number; loss, gap: the first that is missing */
	uint64_t time_ns;	/* CLOCK_MONOTONIC of the traced host */
	uint64_t realtime_ns;	/* watermark: the same by its wall clock */

	const struct ringtail_probe *probe;
	const uint64_t *value;	/* one for each field of the probe, as sent: ringtail_value() */
	struct ringtail_thread thread;
	const struct ringtail_attachment *attachment;
	size_t attachments;

	uint64_t count;		/* loss, gap: attempts; batch: events */
	uint64_t events;	/* gap: of these, this client's; 0: not known */
	unsigned stage, reason;	/* ringtail_stage_name(), ringtail_reason_name() */

	const char *text;
	const void *source;	/* the library's own */
};

/* Whose events these are. */
struct ringtail_host {
	char hostname[256], kernel[256], machine[64], software[64], source[32];
	uint8_t boot_id[16];
	uint64_t epoch;
	uint64_t monotonic_ns, realtime_ns;	/* the two clocks at one moment */
	uint32_t version, cpus;
	char role[16];			/* what we may do there: "viewer", "operator" */
	bool has_context;		/* it knows RINGTAIL_CONTEXT */
	bool has_fds;			/* it knows RINGTAIL_FDS and RINGTAIL_DATA */
	bool has_stuck;			/* it tells which threads are in a system call */
	bool has_dumps;			/* it lists the dumps that its triggers wrote */
	bool has_hosts;			/* it says how the hosts of a relay stand, or that it is none */
	bool has_counts;		/* it counts: ringtail_ask() */
};

#define RINGTAIL_KSTACK		(1u << 1)
#define RINGTAIL_USTACK		(1u << 2)
#define RINGTAIL_STRINGS	(1u << 3)
#define RINGTAIL_CONTEXT	(1u << 4)	/* of each thread, exe and cgroup */
#define RINGTAIL_MAPS		(1u << 5)	/* with RINGTAIL_USTACK, events of process:map:executable come
						   along, whatever the filter says: where the code lies */

#define RINGTAIL_FDS		(1u << 6)	/* of file descriptors, what they stand for: strings */
#define RINGTAIL_DATA		(1u << 7)	/* the first bytes that are read and written: strings */

struct ringtail_subscription {
	const char *const *probe;	/* globs */
	size_t probes;			/* 0: what the daemon always records */
	const char *filter;		/* NULL or empty: none */
	const char *since;		/* a cursor's text; NULL: from now, or where `consumer` was */
	uint64_t since_realtime_ns;	/* instead: from what happened at that time; 0: none */
	const char *consumer;		/* a durable consumer's name; NULL: none. ringtail_ack() */
	unsigned flags;			/* RINGTAIL_KSTACK, ... */
	bool count_only;		/* count and check batches, make no events of them */
	bool reconnect;			/* go on by itself when the connection breaks */
};

struct ringtail_totals {
	uint64_t events, lost;
	uint64_t gaps;			/* told apart from a batch; counted in `lost` too, */
	uint64_t unknown;		/* but for these, of which nobody knows the size */
	uint64_t filtered;		/* events from before `since_realtime_ns`, after the end of
					   the span, or not wanted by ringtail_select() */
	uint64_t undecided;		/* events that ringtail_select() let through because a text
					   that its filter asks for is cut or was not recorded */
	uint64_t late;			/* events that came after younger ones had been given out */
	uint64_t frames, wire_bytes, raw_bytes;
	uint64_t residual;		/* attempts nobody accounted for; 0: the ledger closes */
	uint64_t cut_short;		/* of a file: 1 if it ends without saying so */
	uint64_t duplicate;		/* of a spool: events that an earlier segment had, too; given out once */
};

/*
 * Whom to believe to be the daemon, and what to show it of ourselves. NULL is what the environment
 * says: RINGTAIL_CA, RINGTAIL_CERT, RINGTAIL_KEY, RINGTAIL_TOKEN_FILE, RINGTAIL_SERVER_NAME.
 */
struct ringtail_trust {
	const char *ca;			/* authorities in PEM; by default the system's */
	const char *cert, *key;		/* our certificate and its key */
	const char *token_file;		/* whose first line is our token */
	const char *server_name;	/* the daemon's, if it is not the address' host */
	bool insecure;			/* plain tcp, on loopback */
};

/* For connections made from now on, by any thread. The strings are borrowed as long as these are. */
void ringtail_set_trust(const struct ringtail_trust *trust);

/* address: "unix:PATH", "tcp:HOST:PORT"; NULL: where the daemon is by default. */
int ringtail_connect(const char *address, struct ringtail **ringtail, struct ringtail_error *error);

/* Frames from a file or a pipe; `fd` is taken. `name` is for messages. */
int ringtail_open(int fd, const char *name, bool count_only, struct ringtail **ringtail,
		  struct ringtail_error *error);

/* Once for each connection. NULL is what ringtail_subscription is when it is all zeros. */
int ringtail_subscribe(struct ringtail *ringtail, const struct ringtail_subscription *subscription,
		       struct ringtail_error *error);

/*
 * What the daemon is to count, instead of sending each event. Events of one CPU that have the same `by` come as one
 * event, which is the first of them with 0 in the fields that `by` does not need, and ringtail_counts() says what it
 * stands for. Several of them may have the same `by`: whoever adds them up gets what each event by itself would have
 * given.
 */
struct ringtail_question {
	const char *const *by;		/* fields, and what every event has: "comm", "pid", "error" */
	size_t bys;			/* 0: all events are one */
	const char *of;			/* a number of the events; NULL: none */
	uint64_t interval_ns;		/* no event stands for others of another interval; 0: there are none */
	uint64_t origin_ns;		/* where an interval begins, by the clock of events */
};

/*
 * Before ringtail_subscribe(), until which it is borrowed; without stacks, a consumer and a past. -EOPNOTSUPP: the
 * daemon does not count, see ringtail_host(). A daemon that takes over later, and is older, sends each event.
 */
int ringtail_ask(struct ringtail *ringtail, const struct ringtail_question *question,
		 struct ringtail_error *error);

/* The next thing. timeout_ms < 0: wait for it. RINGTAIL_END and RINGTAIL_ERROR are for ever. */
enum ringtail_kind ringtail_next(struct ringtail *ringtail, struct ringtail_item *item,
				 int timeout_ms);

/* Ends the stream where it is: what has come by now is given out, without waiting for a watermark or
 * for more of it; then RINGTAIL_END. Of a file, what was read by now. */
void ringtail_flush(struct ringtail *ringtail);

void ringtail_close(struct ringtail *ringtail);

const struct ringtail_error *ringtail_last_error(const struct ringtail *ringtail);
const struct ringtail_host *ringtail_host(const struct ringtail *ringtail);
const struct ringtail_totals *ringtail_totals(const struct ringtail *ringtail);

/*
 * Only what happened from that time on and before that other, by the traced host's wall clock; 0: no bound.
 * Of a file that begins later than since_ns, a gap says so. What is left out counts as filtered. Before the
 * first item; a subscription's own since_realtime_ns is set by ringtail_subscribe().
 */
void ringtail_set_span(struct ringtail *ringtail, uint64_t since_ns, uint64_t until_ns);

/*
 * Of a file, before its first item: only events of these probes (globs; 0: all) which pass the filter
 * (NULL: all) are given out; the others count as filtered. Losses are told all the same: nobody knows what
 * they were. So are events of which the filter cannot decide, see totals.undecided. -EINVAL with *error, and its column, for what no catalog could make sense of; a file none of
 * whose catalogs has such probes or fields ends with RINGTAIL_ERROR.
 */
int ringtail_select(struct ringtail *ringtail, const char *const *probe, size_t probes,
		    const char *filter, struct ringtail_error *error);

/* A descriptor that ends any wait by becoming readable, for a signal handler's pipe; -1: none. */
void ringtail_set_interrupt(struct ringtail *ringtail, int fd);

/* Sees every frame, whole, before it is looked into: that is a recording. */
void ringtail_set_tap(struct ringtail *ringtail,
		      void (*tap)(void *context, const uint8_t *frame, size_t bytes),
		      void *context);

/*
 * Ends the recording: the tap sees a Bye with that reason, and nothing after it. A reader says of one
 * without that it was cut short. 0 or -ENOMEM.
 */
int ringtail_end_tap(struct ringtail *ringtail, const char *reason, struct ringtail_error *error);

/* After what was given out, as text for `since`. -ENOSPC if it does not fit. */
int ringtail_cursor(const struct ringtail *ringtail, char *text, size_t text_bytes);

/*
 * For a durable consumer: what was given out has been dealt with, and need not be kept for it any
 * more. Does not wait for an answer; nothing happens between two connections.
 */
int ringtail_ack(struct ringtail *ringtail, struct ringtail_error *error);

/* The values of one bucket: docs/protocol.md says which they are. */
struct ringtail_bucket {
	uint32_t number;
	uint64_t values;
};

/* What an event stands for. */
struct ringtail_counts {
	uint64_t events, errors;	/* itself among them; calls that failed */
	uint64_t values;		/* of the events, those that have the number `of` */
	uint64_t least, greatest;	/* of the values, */
	uint64_t sum, sum_high;		/* their sum: sum_high * 2^64 + sum, */
	uint32_t buckets;		/* and how they are spread */
	const struct ringtail_bucket *bucket;
};

/* False: the event stands for itself alone. *counts borrows as the event does. */
bool ringtail_counts(const struct ringtail_item *event, struct ringtail_counts *counts);

/* The word with the field's own width and sign. */
uint64_t ringtail_value(const struct ringtail_field *field, uint64_t word);

/*
 * What a value is called in C: "O_RDONLY|O_CLOEXEC", "SIGKILL", "AF_INET". Its length without the NUL; 0: it
 * has no name, or it does not fit.
 */
size_t ringtail_value_name(const struct ringtail_item *event, unsigned field, char *text,
			   size_t text_bytes);

/*
 * The bytes of a text or an array, little-endian; of a text, up to its first NUL. *whole, which may be NULL: how
 * many there were, where only the first RINGTAIL_BYTES_MAX came. NULL: none came.
 */
#define RINGTAIL_BYTES_MAX	128
const uint8_t *ringtail_bytes(const struct ringtail_item *event, unsigned field, size_t *bytes,
			      size_t *whole);

/* The name of a thread that an event speaks of, or NULL; at most 16 bytes, as in the thread. */
const char *ringtail_thread_comm(const struct ringtail_item *event, uint32_t tid);

const char *ringtail_stage_name(unsigned stage);	/* "ring" */
const char *ringtail_reason_name(unsigned reason);	/* "ring-full" */
const char *ringtail_reason_remedy(unsigned reason);	/* what to do about it; never NULL */

#ifdef __cplusplus
}
#endif

#endif
