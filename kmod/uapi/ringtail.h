/* SPDX-License-Identifier: (GPL-2.0-only WITH Linux-syscall-note) OR BSD-2-Clause */
/*
 * The ring ABI: the one header that the kernel producers (BPF and module) and user space share.
 *
 * One ring per CPU. Producers run on that CPU only, in any context, and nest; one consumer in user
 * space. docs/ring-abi.md has the argument for its correctness.
 *
 *	 struct rt_ring_producer          data, size_bytes           slack
 *	+------------------------+------------------------------+-----------+
 *	| read-only to the user  | sub-buffer | sub-buffer | ...| one record|
 *	+------------------------+------------------------------+-----------+
 *	 RT_PAGE_BYTES             power of two                   RT_PAGE_BYTES
 *
 *	 struct rt_ring_consumer: a page of its own, the only one that user space may write.
 *
 * Positions are byte counts that only grow; a position's place in the data is its remainder by
 * size_bytes. Records are multiples of 8 bytes and never straddle two sub-buffers.
 */
#ifndef RINGTAIL_UAPI_H
#define RINGTAIL_UAPI_H

#ifndef RT_UAPI_TYPES_DEFINED	/* BPF programs bring their own integer types */
#include <linux/types.h>
#endif

#define RT_ABI_VERSION		1
#define RT_RING_MAGIC		0x6c696174676e6972ULL	/* "ringtail", little-endian */

#define RT_PAGE_BYTES		4096
#define RT_RING_BYTES_MIN	(1u << 14)
#define RT_RING_BYTES_MAX	(1u << 28)
#define RT_SUBBUF_BYTES_MIN	(1u << 12)

/*
 * A record:
 *
 *	 63                          24 23    16 15             0
 *	+------------------------------+--------+----------------+
 *	| tag                          | words  | probe          |   commit
 *	+------------------------------+--------+----------------+
 *	| time_ns, CLOCK_MONOTONIC                               |
 *	+-------------------------------+------------------------+
 *	| lost, low half of lost_total  | tid                    |
 *	+-------------------------------+------------------------+
 *	| payload, words - 3 words                               |
 *
 * The producer writes everything else first and `commit` last, as a release store; the consumer
 * reads `commit` with acquire and takes the record only if its tag is rt_record_tag() of the place
 * it stands at. So bytes of an earlier lap, whatever they are, are not taken for a record: the tag
 * depends on the position and on a key that only the producer and the consumer know.
 *
 * `lost` is what the ring had lost when the record was reserved: attempts are numbered in order,
 * the number of a record is the records before it plus the losses before it.
 */
struct rt_record {
	__u64 commit;
	__u64 time_ns;
	__u32 tid;
	__u32 lost;
	__u64 payload[];
};

#define RT_RECORD_HEADER_BYTES	24
#define RT_RECORD_WORDS_MAX	255
#define RT_RECORD_BYTES_MAX	(RT_RECORD_WORDS_MAX * 8)
#define RT_TAG_MASK		(~0ULL << 24)

#define rt_record_tag(pos, key)	(((((__u64)(pos)) << 21) ^ (key)) & RT_TAG_MASK)
#define rt_record_commit(pos, key, words, probe) \
	(rt_record_tag(pos, key) | ((__u64)(words) << 16) | (__u64)(probe))
#define rt_commit_words(commit)	((__u32)((commit) >> 16) & 0xff)
#define rt_commit_probe(commit)	((__u32)(commit) & 0xffff)

/*
 * Probe ids. Those below RT_PROBE_EVENT_MIN are the ring's own and never reach a client as events.
 */
enum rt_probe {
	RT_PROBE_PAD		= 0,	/* filler up to the end of a sub-buffer; may be one bare word */
	RT_PROBE_SUBBUF		= 1,	/* struct rt_subbuf, first in every sub-buffer */
	RT_PROBE_THREAD		= 2,	/* struct rt_thread: who `tid` is from here on */
	RT_PROBE_TEXT		= 3,	/* struct rt_text: what `id` stands for from here on */
	RT_PROBE_LOSS		= 4,	/* struct rt_loss: an event of a known probe was lost here */

	RT_PROBE_EVENT_MIN	= 0x0100,
	RT_PROBE_SCHED_SWITCH	= 0x0100,
	RT_PROBE_SCHED_WAKEUP	= 0x0101,
	RT_PROBE_SCHED_FORK	= 0x0102,
	RT_PROBE_SCHED_EXEC	= 0x0103,
	RT_PROBE_SCHED_EXIT	= 0x0104,

	RT_PROBE_PROCESS_MAP	= 0x0180,
	RT_PROBE_TIMER		= 0x0300,	/* + slot, below RT_TIMERS_MAX: samples and ticks */

	RT_PROBE_SYSCALL_CALL	= 0x1000,	/* + system call number, below RT_SYSCALLS_MAX */
	RT_PROBE_SYSCALL_ENTRY	= 0x1400,
	RT_PROBE_SYSCALL_RETURN	= 0x1800,
	RT_PROBE_MADE		= 0x1c00,	/* + the order in which they were asked for by name */
	RT_PROBE_PROGRAM	= 0x2800,	/* + the order in which programs brought them: no kernel's */
	RT_PROBE_MAX		= 0x2c00,	/* one past the last */
};

/* What the kernel's exit code says, as waitpid(2) has it. */
#define rt_exit_status(code)	(((__u32)(code) >> 8) & 0xff)
#define rt_exit_signal(code)	((__u32)(code) & 0x7f)
#define rt_exit_core(code)	(((__u32)(code) >> 7) & 1)

#define RT_TIMERS_MAX		32
#define RT_TIMER_PROFILE_99HZ	0		/* the first slots: daemon/source/timer_probes.def */
#define RT_TIMER_INTERVAL_1S	1
#define RT_PROBES_MADE_MAX	(RT_PROBE_MAX - RT_PROBE_MADE)
#define RT_PROBES_PROGRAM_MAX	(RT_PROBE_MAX - RT_PROBE_PROGRAM)

#define RT_SYSCALLS_MAX		0x400
#define RT_SYSCALL_UNKNOWN	(RT_SYSCALLS_MAX - 1)	/* in place of all numbers without a name */
#define RT_SYSCALL_ARGS_MAX	6
#define RT_COMM_BYTES		16
#define RT_CPUS_MAX		1024

/*
 * The payload of an event is one word for each of its fields, in the order in which the catalog
 * lists them, then its attachments. Signed fields are sign-extended. The fields of
 *
 *	syscall:*:call		duration_ns, ret, arguments...	record time is that of the return
 *	syscall:*:entry		arguments...
 *	syscall:*:return	ret
 *	syscall:unknown:*	as call and entry, with nr and all six registers for the arguments
 *	sched_switch		prev_prio, prev_state, next_tid, next_prio	record tid leaves
 *	sched_wakeup		target_tid, prio, target_cpu	record tid wakes
 *	sched_process_fork	child_tid, child_pid		record tid is the parent
 *	sched_process_exec	old_tid, filename (0; the name is a string attachment)
 *	sched_process_exit	prio, group_dead, exit_code, status, signal, core
 *				group_dead 1: the last thread of its process; status of exit(2), or the
 *				signal that ended it, of which core 1 says that it dumped core
 *	profile:hz:*		kernel_ip, user_ip, periods	where the CPU was: one of the two is 0
 *	interval:*		periods				since the last; more than 1: it came late
 *	software:*, hardware:*	kernel_ip, user_ip, periods, address	what was touched, of a page fault
 *	process_map		start, bytes, offset, build_id (3 words), device, inode, path, path_more
 *				(0; the text is a string attachment each): executable memory of the
 *				record's process, told when a stack needs it
 *
 *	those from RT_PROBE_MADE on	as the catalog says; a field of several words has them in a row
 *
 * and of the ring's own records:
 */
struct rt_subbuf {		/* payload of RT_PROBE_SUBBUF: a reader may land here knowing nothing */
	__u64 pos;		/* of this record */
	__u64 records;		/* committed before this sub-buffer; kept in RT_POLICY_OVERWRITE */
	__u64 lost_total;
};

/*
 * Payload of RT_PROBE_THREAD. A thread is introduced on every ring before its first event there,
 * and again after its name or uid changes, so that one ring's records never need another's.
 */
struct rt_thread {
	__u32 pid;		/* thread group, as user space says it */
	__u32 ppid;
	__u32 uid;
	__u32 flags;		/* RT_THREAD_* */
	__u64 start_ns;		/* CLOCK_MONOTONIC; tells a thread from a later one with its tid */
	char comm[RT_COMM_BYTES];
	/* Earlier producers' records end here: then the rest counts as 0. */
	__u64 cgroup_id;	/* in the unified hierarchy; 0: not known */
	__u64 cgroup;		/* texts: where it is, and what file it executes; 0: not known, or */
	__u64 exe;		/* none */
};

#define RT_THREAD_BYTES_MIN	40	/* up to and with comm */

/*
 * Payload of RT_PROBE_TEXT: a text that threads of this ring name by its id, in a record that comes
 * before theirs. The RT_TEXTS_MAX texts that a ring was told last are known there; who names one that
 * is older tells it again. Bytes after `bytes` up to the alignment are zero.
 *
 *	exe		the path of the file, from the root of its mount namespace
 *	cgroup		the path in its hierarchy, or "/". On a host with version 1 hierarchies there are
 *			up to RT_TEXT_CGROUPS_MAX paths, those that are not "/", each ended by a newline:
 *			the unified hierarchy's first
 *
 * A path that does not begin with a slash has lost its beginning: RT_TEXT_CUT stands for it. Of one that
 * is longer than RT_TEXT_BYTES_MAX the last component is left, of one with more than RT_TEXT_NAMES_MAX
 * components the last ones. (Programs of version 14 and before left the last component without
 * RT_TEXT_CUT, or said nothing.)
 */
struct rt_text {
	__u64 id;		/* never 0 */
	__u32 bytes;		/* at most RT_TEXT_BYTES_MAX; 0: it was not to be had */
	__u32 zero0;
	__u8 data[];
};

#define RT_TEXT_EXE		(1ULL << 63)	/* in the id of an exe, and of no cgroup */
#define RT_TEXT_BYTES_MAX	1016
#define RT_TEXT_NAMES_MAX	32	/* components of a path */
#define RT_TEXT_CUT		"..."	/* and a slash */
#define RT_TEXT_CUT_BYTES	3
#define RT_TEXTS_MAX		2048
#define RT_TEXT_CGROUPS_MAX	4

#define RT_THREAD_KERNEL	(1u << 0)
#define RT_THREAD_EXITED	(1u << 1)	/* its last record on this ring */
#define RT_THREAD_BARE		(1u << 2)	/* cgroup or exe is missing that should be here */

#define RT_DURATION_NEVER	(~0ULL)		/* the call does not return (exit, exit_group) */

/*
 * Attachments follow the payload's fixed part inside the same record, each 8-byte aligned, where a
 * subscription asked for them. Bytes after `bytes` up to the alignment are zero.
 */
struct rt_attachment {
	__u16 kind;		/* enum rt_attachment_kind */
	__u16 arg;		/* which argument a string or an address belongs to */
	__u32 bytes;
	__u8 data[];
};

enum rt_attachment_kind {
	RT_ATTACH_STRING	= 1,	/* not terminated; cut at RT_STRING_BYTES_MAX */
	RT_ATTACH_KSTACK	= 2,	/* u64 return addresses, innermost first */
	RT_ATTACH_USTACK	= 3,
	RT_ATTACH_SOCKADDR	= 4,	/* as user space gave it; cut at RT_SOCKADDR_BYTES_MAX */
	RT_ATTACH_FILE		= 5,	/* struct rt_file: what the descriptor in that argument is */
	RT_ATTACH_DATA		= 6,	/* what a buffer holds; cut at RT_DATA_BYTES_MAX */
	RT_ATTACH_STRUCTURE	= 8,	/* struct rt_structure */
};

#define RT_ATTACH_RESULT	0xffff	/* in place of an argument: what the call returned */

/* What a file descriptor stood for in the kernel's own table when the record was written. */
struct rt_file {
	__u32 mode;		/* as stat(2) has it */
	__u32 magic;		/* of its file system: statfs(2) */
	__u64 ino;
	__u32 deleted;		/* 1: no directory has it any more */
	__u32 zero0;
	union {
		__u8 path[1];	/* to the end; from the root of the mount namespace, or after RT_TEXT_CUT */
		struct rt_socket {
			__u16 family, type;
			__u16 local_port, peer_port;
			__u8 local[16], peer[16];	/* of IPv4 the first four */
		} socket;	/* if mode says that it is one */
	};
};

#define RT_FILE_HEAD_BYTES	24
#define RT_FILE_PATH_BYTES_MAX	192

/* Structures as user space has them, one or several in a row; the last one may be cut. */
struct rt_structure {
	__u32 kind;		/* enum rt_structure_kind */
	__u32 count;		/* how many there are; those beyond RT_STRUCTURE_BYTES_MAX are not here */
	__u8 data[];
};

enum rt_structure_kind {
	RT_STRUCTURE_TIMESPEC	= 1,
	RT_STRUCTURE_TIMEVAL	= 2,
	RT_STRUCTURE_ITIMERSPEC	= 3,
	RT_STRUCTURE_ITIMERVAL	= 4,
	RT_STRUCTURE_STAT	= 5,
	RT_STRUCTURE_STATX	= 6,
	RT_STRUCTURE_INTS	= 7,	/* both ends of a pipe */
	RT_STRUCTURE_SIGSET	= 8,
	RT_STRUCTURE_SIGACTION	= 9,
	RT_STRUCTURE_ALTSTACK	= 10,
	RT_STRUCTURE_POLLFD	= 11,
	RT_STRUCTURE_EPOLL	= 12,
	RT_STRUCTURE_FDSET	= 13,	/* count: of descriptors */
	RT_STRUCTURE_RLIMIT	= 14,
	RT_STRUCTURE_RUSAGE	= 15,
	RT_STRUCTURE_STATUS	= 16,	/* as wait(2) has it */
	RT_STRUCTURE_SIGINFO	= 17,
	RT_STRUCTURE_UTSNAME	= 18,
	RT_STRUCTURE_CLONE	= 19,
	RT_STRUCTURE_IOVEC	= 20,	/* RT_STRUCTURE_VECTORS, unused ones zero; the first one's bytes */
	RT_STRUCTURE_MSGHDR	= 21,	/* itself, RT_STRUCTURE_VECTORS, and the first one's bytes */
	RT_STRUCTURE_ARGV	= 22,	/* strings, each ended by a zero; the last one may be cut */
	RT_STRUCTURE_TIMES	= 23,	/* two of TIMESPEC */
	RT_STRUCTURE_EPOLL_ONE	= 24,	/* EPOLL, and never more than one */
	RT_STRUCTURE_TIMESPEC_LEFT = 25, /* what a call has left of it */
	RT_STRUCTURE_TIMEVAL_LEFT = 26,
	RT_STRUCTURE_KINDS	= 27,
};

#define RT_STRUCTURE_BYTES_MAX	152
#define RT_STRUCTURE_VECTORS	2
#define RT_STRUCTURE_VECTOR_BYTES_MAX 64	/* of the first one's bytes */
#define RT_STRUCTURE_ARGV_MAX	16	/* strings that are looked at */
#define RT_STRUCTURE_ARGV_BYTES	128

#define RT_STRING_BYTES_MAX	128
#define RT_SOCKADDR_BYTES_MAX	110	/* struct sockaddr_un, the longest that has a text */
#define RT_DATA_BYTES_MAX	128
#define RT_STACK_FRAMES_MAX	32

/* In the place of a user stack's outermost frame: how it ended short of its beginning. No address is like this. */
#define RT_STACK_END		0x8000000000000000ull

enum rt_stack_end {
	RT_STACK_END_TABLE	= 1,	/* no table and no frame pointer leads on from this code */
	RT_STACK_END_RULE	= 2,	/* the table has no rule for it that can be followed */
	RT_STACK_END_MEMORY	= 3,	/* the stack could not be read, or does not grow on */
	RT_STACK_ENDS		= 4,
};

#define RT_FLAG_KSTACK		(1u << 0)
#define RT_FLAG_USTACK		(1u << 1)
#define RT_FLAG_STRINGS		(1u << 2)
#define RT_FLAG_FDS		(1u << 4)
#define RT_FLAG_DATA		(1u << 5)
#define RT_FLAG_CONTEXT		(1u << 30)	/* of threads: nothing that a producer is asked for */

/* Why an attempt left no record. One counter each; lost_total is their sum. */
enum rt_lost {
	RT_LOST_FULL		= 0,	/* the consumer was too slow */
	RT_LOST_NEST		= 1,	/* gave up after RT_RESERVE_TRIES interruptions */
	RT_LOST_STOPPED		= 2,	/* RT_POLICY_STOP had stopped the ring */
	RT_LOST_BUSY		= 3,	/* RT_POLICY_OVERWRITE met an unfinished record */
	RT_LOST_REFUSED		= 4,	/* the kernel ran another program, and would not run this one in it */
	RT_LOST_REASONS		= 8,
};

/*
 * Payload of RT_PROBE_LOSS. What `lost` of a record says may have been an event of any probe. Where the producer
 * knows of which probe it was, and has room, it writes this record in the event's place: one attempt, and one loss
 * to whoever asked for one of these probes. No lost[] counts it.
 */
struct rt_loss {
	__u16 first, last;	/* it was one of these probes */
	__u32 reason;		/* enum rt_lost */
};

#define RT_LOSS_WORDS		1
#define RT_RESERVE_TRIES	8

enum rt_policy {
	RT_POLICY_DROP		= 0,	/* refuse the newest */
	RT_POLICY_OVERWRITE	= 1,	/* flight recorder: the oldest go */
	RT_POLICY_STOP		= 2,	/* stop when full, and ring the bell */
};

enum rt_ring_state {
	RT_RING_RUNNING		= 0,
	RT_RING_STOPPED		= 1,
};

/* Written by the producer, read-only to user space. */
struct rt_ring_producer {
	__u64 magic;
	__u32 version;
	__u32 cpu;
	__u64 size_bytes;	/* of the data: a power of two */
	__u64 subbuf_bytes;	/* a power of two, at most size_bytes / 4 */
	__u64 key;		/* random; only bits of RT_TAG_MASK count */
	__u32 policy;		/* enum rt_policy */
	__u32 state;		/* enum rt_ring_state */
	__u64 zero0[2];

	/* The hot line. */
	__u64 producer_pos;	/* end of what is reserved: a bound, never a publication */
	__u64 lost_total;
	__u64 consumer_pos_seen;/* the last believable consumer_pos */
	__u64 bell_answered;	/* the bell_at the producer last rang for */
	__u64 zero1[4];

	/* Cold: added to when something goes wrong. */
	__u64 lost[RT_LOST_REASONS];
	__u64 bells;		/* times the bell was rung */
	__u64 consumer_bad;	/* consumer positions refused */
	__u64 unpaired;		/* returns without a seen entry: the call began before we looked */
	__u64 foreign;		/* calls through another ABI (32-bit), which are not recorded */
	__u64 faults;		/* strings that could not be read */
	__u64 counted_places;	/* struct rt_counted behind the slack: RT_COUNTED_PLACES; 0: nothing is counted */
	__u64 zero2[2];
};

/*
 * If nobody wants more of a probe than how many events it had, a producer may count an event instead of recording it:
 * each is either the one or the other. There is one place for each probe that may be counted, behind the slack page of
 * the ring. What is there only grows. An event that is counted names no thread and no time.
 */
struct rt_counted {
	__u64 good;
	__u64 bad;		/* calls that returned an errno: -RT_ERRNO_MAX to -1 */
};

#define RT_ERRNO_MAX		4095

#define RT_COUNTED_PLACES	0x1000u		/* a power of two */
#define RT_COUNTED_BYTES	(RT_COUNTED_PLACES * 16u)
#define RT_COUNTED_NONE		RT_COUNTED_PLACES	/* the place of a probe that is never counted */

/* Calls, then what is made on request. */
#define rt_counted_place(probe) \
	((__u32)(probe) - RT_PROBE_SYSCALL_CALL < RT_SYSCALLS_MAX ? (__u32)(probe) - RT_PROBE_SYSCALL_CALL : \
	 (__u32)(probe) - RT_PROBE_MADE < RT_PROBE_PROGRAM - RT_PROBE_MADE ? \
		(__u32)(probe) - RT_PROBE_MADE + RT_SYSCALLS_MAX : RT_COUNTED_NONE)

/*
 * Written by user space; the kernel trusts nothing in it. `bell_at` asks for one bell when
 * producer_pos reaches it: consumer_pos + 1 for "the next record", consumer_pos + n for a
 * watermark, RT_BELL_NEVER for none.
 */
struct rt_ring_consumer {
	__u64 consumer_pos;
	__u64 bell_at;
	__u64 zero0[6];

	/*
	 * The reader's notes to the one that comes after it; no producer looks at them. Attempts are
	 * numbered within an epoch; 0: nobody has numbered them yet. The notes are written in turn,
	 * each before the consumer_pos that it belongs to, so that one always fits, wherever a
	 * reader ends.
	 */
	__u64 epoch;
	__u64 zero1[7];
	struct rt_ring_note {
		__u64 pos;		/* a consumer_pos; RT_NOTE_UNFINISHED while it is written */
		__u64 seq;		/* of the next attempt */
		__u64 lost_seen;	/* lost_total as far as it was located */
		__u64 owed;		/* located, and not reported yet */
		__u64 missed;		/* overwritten unread, and not reported yet */
		__u64 counted;		/* of all struct rt_counted, what was numbered */
		__u64 zero0[2];
		__u64 charged[RT_LOST_REASONS];	/* of the ring's lost[], what was reported */
	} note[2];
};

#define RT_BELL_NEVER		(~0ULL)
#define RT_NOTE_UNFINISHED	(~0ULL)

/*
 * What the kernel filters: a probe is recorded if it is enabled and any clause passes, and every
 * event passes where there is no clause. A superset of what is wanted is always right: the daemon
 * filters again.
 */
enum rt_filter_op {
	RT_FILTER_ANY		= 0,
	RT_FILTER_EQ		= 1,
	RT_FILTER_NE		= 2,
};

struct rt_filter_clause {	/* all of it must hold */
	__u8 pid_op, tid_op, uid_op, comm_op;	/* enum rt_filter_op */
	__u32 pid;
	__u32 tid;
	__u32 uid;
	char comm[RT_COMM_BYTES];	/* padded with zeros */
};

#define RT_FILTER_CLAUSES_MAX	8

#endif
