/*
 * source: the daemon's view of a producer (BPF, kernel module, replayed file).
 *
 * In: a request (what to record), specs of probes to make. Out: rings of the ABI in kmod/uapi/ringtail.h, as
 * descriptors that the engine maps; a catalog of probes; counts of losses that no ring has. The engine is the same for
 * every source. The one thread of the loader process makes all calls.
 */
#ifndef RINGTAIL_DAEMON_SOURCE_SOURCE_H
#define RINGTAIL_DAEMON_SOURCE_SOURCE_H

#include <stdbool.h>
#include <stdint.h>
#include <stddef.h>

#include "query/error.h"
#include "daemon/ring/handle.h"
#include "kmod/uapi/ringtail.h"
#include "proto/ringtail.pb-c.h"

struct activation;
struct account;
struct finder;
struct probe_pack;
struct source;

/*
 * Keeps descriptors from one run of the daemon to the next. A source stores the descriptors that it needs to continue,
 * each under a name. The next run finds them in `kept`.
 */
#define SOURCE_NAMES "source."		/* each name begins with this */

struct source_store {
	struct activation *kept;	/* the source owns each descriptor that it takes from here */

	/* Stores a copy; does nothing if the engine has closed its end of the socket. */
	void (*keep)(void *context, const char *name, int fd);

	/* Removes it; `barrier` is a pipe's write end, which is closed when it is removed. */
	void (*drop)(void *context, const char *name, int barrier);
	void *context;
};

struct source_config {
	uint64_t ring_bytes;		/* data of one CPU's ring: a power of two */
	enum rt_policy policy;
	uint32_t excluded_pids[4];	/* the daemon itself; 0: none */
	const char *path;		/* kmod: the device; replay: the file; bpf: unused */
	bool replay_fast;		/* replay: as fast as the reader allows, not at recorded pace */
	struct source_store *store;	/* NULL: nobody keeps anything */
	const struct account *account;	/* the user that the loader becomes; NULL: it stays the same */
	struct finder *finder;		/* opens files for probes; NULL: none */
};

/*
 * Record strings of those calls alone that name a file (open, exec, mount, unlink, ...); RT_FLAG_STRINGS does so of all
 * calls. A source that cannot choose ignores it.
 */
#define SOURCE_FILE_STRINGS	(1u << 31)

/* What the kernel records from now on: the union of all subscriptions. */
struct source_request {
	uint64_t generation;
	uint8_t probes[RT_PROBE_MAX / 8];	/* bit set by probe id */
	uint8_t unfiltered[RT_PROBE_MAX / 8];	/* of these, those that the clauses do not filter */
	uint8_t counted[RT_PROBE_MAX / 8];	/* and those that a source may count instead: struct rt_counted */
	uint32_t flags;				/* RT_FLAG_*, SOURCE_FILE_STRINGS */
	uint32_t clauses;			/* 0: every event passes */
	struct rt_filter_clause clause[RT_FILTER_CLAUSES_MAX];
};

/* Losses that no ring counts. */
struct source_stats {
	uint64_t recursion_lost;	/* the kernel refused to run a program; no ring reports these events yet */
	uint64_t program_runs;
	uint64_t maps_too_late;		/* processes with a stack that ended before their maps were read */
	uint64_t maps_left_out;		/* maps beyond MAPS_PER_PROCESS_MAX of one process */
	uint64_t stacks_cut;		/* user stacks with a RT_STACK_END */
};

/* Receives a probe, borrowed for the call. 0; or -errno, and it gets no more. */
typedef int source_offer(void *context, const Ringtail__V1__Probe *probe);

/* A thread that is in a system call now. */
struct source_stuck_thread {
	uint32_t tid, pid, ppid, uid;
	char comm[RT_COMM_BYTES];
	uint32_t probe;			/* RT_PROBE_SYSCALL_CALL + its number */
	char state;			/* as ps shows it */
	uint8_t zero0[3];
	uint64_t since_ns;		/* CLOCK_MONOTONIC; 0: not known, */
	uint64_t before_ns;		/* but that it began before then; 0: not even that */
	uint32_t arguments, frames;
	uint64_t argument[RT_SYSCALL_ARGS_MAX + 1];	/* what is in the catalog behind the result */
	uint64_t frame[RT_STACK_FRAMES_MAX];
};

/* All of them, at one moment. */
struct source_stuck {
	uint64_t now_ns;
	uint64_t threads;		/* as many source_stuck_thread follow each other in the file */
	uint64_t left_out;		/* further ones, beyond STUCK_THREADS_LOOKED_MAX */
	uint64_t undated;		/* left out, because nobody knows for how long they are in their call */
	uint64_t foreign;		/* left out, in a call through another ABI (32-bit) */
};

struct source_ops {
	const char *name;

	/* Loads and attaches, recording nothing yet. On failure *error says what, why, what to do. */
	int (*open)(const struct source_config *config, struct source **source, struct error *error);

	/* Every probe that can be enabled, with its fields. Borrowed until close. */
	const Ringtail__V1__Catalog *(*catalog)(struct source *source);

	/*
	 * Probes that are not in the catalog, and are made when somebody asks for them by name. All three
	 * are NULL where there are none.
	 *
	 * providers: the first parts of their names, with spaces between.
	 * offers: packs every one that can be listed, with the id 0. Called once, after open().
	 * make: passes those that the spec names and that are new, with their ids, which they keep; a part
	 * of the spec may be a glob. -errno with *error: it names none, or the reason why it cannot be.
	 * They are enabled by configure(), as others are.
	 */
	const char *(*providers)(void);
	int (*offers)(struct source *source, struct probe_pack *pack);
	int (*make)(struct source *source, const char *spec, source_offer *offer, void *context,
		    struct error *error);

	/* Fills *ring with the i-th ring; -ENOENT past the last. */
	int (*ring)(struct source *source, unsigned i, struct ring_handle *ring);

	/* Takes effect for every event that starts after it returns. */
	int (*configure)(struct source *source, const struct source_request *request,
			 struct error *error);

	/*
	 * The engine now reads everything that the last configure() asked for. A file waits for this before it plays
	 * its first record, so the first client gets all of them. May be NULL.
	 */
	void (*joined)(struct source *source);

	/* If a part cannot be read, the rest is still added up and what it lost is reported; then -errno of the first. */
	int (*stats)(struct source *source, struct source_stats *stats);

	/*
	 * Writes the threads that are in a system call now into `fd`; with longer_than_ns, only threads that are
	 * known to be in it for so long. NULL: the source cannot do that.
	 */
	int (*stuck)(struct source *source, uint64_t longer_than_ns, int fd,
		     struct source_stuck *answer, struct error *error);

	/* Whether a source that ends (a file) has written its last record. May be NULL: never. */
	bool (*finished)(struct source *source);

	/*
	 * Whether the source adopted the rings of an earlier run from the store. They then record what that run had
	 * asked for, without the processes of this run. If the store had rings that cannot be adopted, *why_not has
	 * the reason. May be NULL: never.
	 */
	bool (*adopted)(struct source *source, struct error *why_not);

	/*
	 * A descriptor to wait for, or -1. The loader calls settle() when it is readable or closed. May be NULL:
	 * none.
	 */
	int (*unsettled)(struct source *source);
	void (*settle)(struct source *source);

	/*
	 * A descriptor that is readable when the kernel's side asks for something (-1: none), and the longest time
	 * until the next look (-1: no limit). Then the loader calls attend(). May be NULL: none.
	 */
	int (*attention)(struct source *source, int *timeout_ms);
	void (*attend)(struct source *source);

	/*
	 * Called after attend(): passes new probes that no client asked for (a module brought them), each once, with
	 * its number from RT_PROBE_MADE on. May be NULL: there are none.
	 */
	int (*arrived)(struct source *source, source_offer *offer, void *context);

	/*
	 * Called now and then while the loader is idle: does a part of slow work that can wait, such as detaching a
	 * probe. False: no work is left. May be NULL.
	 */
	bool (*idle)(struct source *source);

	/* Detaches (unless a store keeps it) and frees; NULL is safe. Mapped rings stay readable. */
	void (*close)(struct source *source);
};

extern const struct source_ops source_bpf, source_kmod, source_none, source_replay;

/* The source of that name, or NULL. */
const struct source_ops *source_by_name(const char *name);

#endif
