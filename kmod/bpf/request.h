/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * request: what the daemon tells the BPF programs to record.
 *
 * Requests are numbered by their generation, from 1. There is room for two, even and odd: the
 * daemon fills the place that no program reads, then changes `generation`; a program reads
 * `generation` once. So an event sees one request or the other, never a mixture.
 */
#ifndef RINGTAIL_BPF_REQUEST_H
#define RINGTAIL_BPF_REQUEST_H

#include "kmod/uapi/ringtail.h"

/*
 * Goes up with every change of what the programs do or of what they share with the daemon: a daemon
 * goes on with programs that an earlier one has loaded if both have the same.
 */
#define REQUEST_PROGRAMS_VERSION 27

#define REQUEST_EXCLUDED_MAX	4
#define THREAD_KNOWN_CPUS	32	/* in one word of bpf_thread.known */

/*
 * One word for each system call has all that the programs ask about it, so that they load one.
 *
 *	  31  29 28 27    22 21    16 15 12 11  10   8 7  6    5     4     3     2     1     0
 *	+----+--+--+--------+--------+-----+---+------+--+----+-----+-----+-----+-----+-----+-----+
 *	|rich|co|fi| signed | string |addr |unk| args |un|uid |known|never|saves|ret. |entry|call |
 *	+----+--+--+--------+--------+-----+---+------+--+----+-----+-----+-----+-----+-----+-----+
 */
#define SYSCALL_WANTS_CALL	(1u << 0)
#define SYSCALL_WANTS_ENTRY	(1u << 1)
#define SYSCALL_WANTS_RETURN	(1u << 2)
#define SYSCALL_WANTS		(SYSCALL_WANTS_CALL | SYSCALL_WANTS_ENTRY | SYSCALL_WANTS_RETURN)
#define SYSCALL_SAVES_ARGS	(1u << 3)	/* exec: the arguments are gone at the return */
#define SYSCALL_NEVER_RETURNS	(1u << 4)
#define SYSCALL_IS_KNOWN	(1u << 5)	/* the catalog has it */
#define SYSCALL_SETS_UID	(1u << 6)	/* the thread must be introduced again */
#define SYSCALL_UNFILTERED	(1u << 7)	/* of every thread but the excluded ones */
#define SYSCALL_ARGS_SHIFT	8		/* how many arguments: 3 bits */
#define SYSCALL_STRINGS_SHIFT	16		/* which of them are strings: a bit each */
#define SYSCALL_SIGNED_SHIFT	22		/* which are signed and 32 bits wide: a bit each */
#define SYSCALL_IS_UNKNOWN	(1u << 11)	/* stands for every number without a name */
#define SYSCALL_ADDRESS		(1u << 12)	/* its one string is a struct sockaddr */
#define SYSCALL_ADDRESS_RESULT	(1u << 13)	/* which the call fills in */
#define SYSCALL_STRINGS		(0x3fu << SYSCALL_STRINGS_SHIFT)
#define SYSCALL_NAMES_FILE	(1u << 28)	/* the daemon's: its strings are worth more than others' */
#define SYSCALL_IS_COUNTED	(1u << 29)	/* plain calls leave no record, and add to a struct rt_counted */
#define SYSCALL_IS_RICH		(1u << 31)	/* more than a plain call record is wanted */

#define syscall_args(word)	(((word) >> SYSCALL_ARGS_SHIFT) & 7)
#define syscall_strings(word)	(((word) >> SYSCALL_STRINGS_SHIFT) & 0x3f)

/*
 * Beside the words, and the same for all requests: where else to look, if RT_FLAG_FDS or RT_FLAG_DATA asks.
 *
 *	  14 13 12   11    10  8     7      6      5      0
 *	+--------+--------+-----+------+-------+-----------+
 *	| length | filled | arg | ends | fd is | fds: a bit|
 *	|        |        |     |      | result| each arg  |
 *	+--------+--------+-----+------+-------+-----------+
 */
#define LOOK_FDS		0x3fu
#define LOOK_RESULT		(1u << 6)	/* a success is a file descriptor */
#define LOOK_ENDS		(1u << 7)	/* which argument 0 is not any more at the return */
#define LOOK_ARG_SHIFT		8		/* of the buffer */
#define LOOK_FILLED		(1u << 11)	/* by the call, with as many bytes as it returns */
#define LOOK_LENGTH_SHIFT	12		/* else which argument says how many there are */
#define LOOK_DATA		(1u << 15)	/* there is a buffer */

/*
 * And the structures that a call is given or fills in, 16 bits for each, if RT_FLAG_STRINGS asks (vectors, which
 * have the bytes of a buffer with them: RT_FLAG_DATA).
 *
 *	 14    13    12     8 7      5    4      3  2 0
 *	+-----+-----+--------+--------+--------+---+----+
 *	|futex|child| kind   | count  | filled | . | arg|
 *	+-----+-----+--------+--------+--------+---+----+
 */
#define STRUCTURES_PER_CALL	4
#define STRUCTURE_ARG		7u
#define STRUCTURE_FILLED	(1u << 4)	/* by the call, if it succeeds */
#define STRUCTURE_COUNT_SHIFT	5		/* which argument says how many there are; or */
#define STRUCTURE_COUNT_RESULT	6u		/* the call's result, */
#define STRUCTURE_COUNT_ONE	7u		/* or there is one */
#define STRUCTURE_KIND_SHIFT	8
#define STRUCTURE_OF_CHILD	(1u << 13)	/* there is none if the result is 0 */
#define STRUCTURE_OF_FUTEX	(1u << 14)	/* it depends on the operation in argument 1 */
#define STRUCTURE_FUTEX_TIMED	(1u << 0 | 1u << 6 | 1u << 9 | 1u << 11 | 1u << 13)
#define REQUEST_STRUCTURES	(1u << 29)	/* in flags: RT_FLAG_STRINGS, and not of files alone */
#define structure_kind(word)	((word) >> STRUCTURE_KIND_SHIFT & 31)

/*
 * A timer is a perf event on each CPU (a profile) or on one (an interval), to which the program is
 * attached with a cookie: the slot, and above it the attachment's number. One that is on its way out
 * still ticks for a moment, and its number is not the timer's any more.
 */
struct request_timer {
	__u64 period_ns;
	__u32 attachment;	/* 0: nobody wants it */
	__u16 flags;		/* TIMER_* */
	__u16 probe;		/* what its events are of */
};

#define TIMER_INTERVAL		(1u << 0)	/* no sample: of nobody, and without a stack */
#define TIMER_UNFILTERED	(1u << 1)	/* of every thread but the excluded ones */
#define TIMER_COUNTS		(1u << 2)	/* events, of which period_ns says how many: no clock's */

#define timer_cookie(attachment, slot) ((__u64)(attachment) << 8 | (slot))
#define timer_cookie_slot(cookie)	((__u32)(cookie) & (RT_TIMERS_MAX - 1))
#define timer_cookie_attachment(cookie)	((__u32)((cookie) >> 8))

struct bpf_request {
	__u32 generation;
	__u32 syscalls_since;	/* entries of an older generation missed their return */
	__u32 flags;		/* RT_FLAG_*, REQUEST_STRUCTURES */
	__u32 sees_entries;	/* sys_enter is attached, so that it does the counting */
	__u32 clauses;
	__u32 sched;		/* bit i: RT_PROBE_SCHED_SWITCH + i */
	__u32 sched_unfiltered;	/* the same bits: of every thread but the excluded ones */
	__u32 excluded[REQUEST_EXCLUDED_MAX];
	struct request_timer timer[RT_TIMERS_MAX];
	struct rt_filter_clause clause[RT_FILTER_CLAUSES_MAX];
};

#define REQUEST_SCHED(probe)	(1u << ((probe) - RT_PROBE_SCHED_SWITCH))

/* Of probes that are made when they are asked for, one byte each: made_wishes, of the same two requests. */
#define MADE_WANTED		(1u << 0)
#define MADE_UNFILTERED		(1u << 1)	/* of every thread but the excluded ones */
#define MADE_COUNTED		(1u << 2)	/* events leave no record, and add to a struct rt_counted */

/*
 * What daemon/source/bpf_tracepoint.c puts into a copy of the program `any_tracepoint` in place of these
 * numbers; each is the operand of one instruction. MADE_STORES is where a subprogram begins that it
 * replaces as a whole. A copy of `any_refused` goes with it.
 */
#define MADE_PLACEHOLDER	0x7e57ab1e00000000
#define MADE_INDEX		0x7e57ab1e00000001	/* of the probe, from RT_PROBE_MADE on */
#define MADE_WORDS		0x7e57ab1e00000002	/* of payload before the attachments */
#define MADE_TEXTS_0		0x7e57ab1e00000003	/* two made_text in each */
#define MADE_TEXTS_1		0x7e57ab1e00000004
#define MADE_TEXTS_2		0x7e57ab1e00000005
#define MADE_TEXTS_3		0x7e57ab1e00000006
#define MADE_STORES		0x7e57ab1e00000007
#define MADE_OF_KERNEL		0x7e57ab1e00000008	/* any_uprobe: 1: a function of the kernel; 0: of a program */

#define MADE_RAW_WORDS_MAX	8	/* any_raw_tracepoint: of a payload with a text */

/*
 * Bytes of the kernel's record that go along as an attachment. What has a place within the record as its
 * value (bytes << 16 | offset) is `located`, from the record's start or from behind itself.
 *
 *	 31   30      24 23     16 15      0
 *	+---+----------+---------+---------+
 *	|use| how, arg | bytes   | offset  |
 *	+---+----------+---------+---------+
 */
#define MADE_TEXTS_MAX		8
#define MADE_TEXT_USED		(1u << 31)
#define MADE_TEXT_LOCATED	(1u << 30)
#define MADE_TEXT_RELATIVE	(1u << 29)
#define made_text_arg(text)	((text) >> 24 & 0x1f)
#define made_text_bytes(text)	((text) >> 16 & 0xff)
#define made_text_offset(text)	((text) & 0xffff)
#define made_text_make(how, arg, bytes, offset) \
	(MADE_TEXT_USED | (how) | (__u32)(arg) << 24 | (__u32)(bytes) << 16 | (offset))

/*
 * What is remembered of a thread while something is recorded.
 *
 * `known` says on which rings the thread has been introduced: each word has a bit for 32 CPUs, and
 * above them a version, which is changed whenever the thread must be introduced again and whenever
 * the slot changes hands. A bit is set by comparing and swapping the word that was there before the
 * introduction was written, so one that came too late sets nothing.
 */
struct bpf_thread {
	__u64 owner;		/* its task_struct; 0: free. Taken by cmpxchg, freed at its exit */

	/* Written by the thread's own system calls. */
	__u64 entry_ns;
	__u64 entry_word;	/* the system call's word; its number above that. If it is counted, entry_ns is another's */
	__u32 entry_generation;	/* 0: not in a recorded call */

	/* The filter's last word on it, as generations. Written by the thread's own events. */
	__u32 passed;
	__u32 refused;

	__u32 renamed;		/* comm is newer than the task_struct's. By the thread itself */
	char comm[RT_COMM_BYTES];

	__u64 known[RT_CPUS_MAX / THREAD_KNOWN_CPUS];	/* any CPU, atomic */
	__u32 epoch;		/* task storage: the recording it belongs to, */
	__u32 reader;		/* and the run of the daemon that `known` is of */

	/*
	 * What context_find() found last. Of a thread, it holds while the version of known[0] is
	 * `found`; of one past its exit, where only the slot is left, if it is this very one's.
	 */
	__u64 found;		/* the version, plus 1; 0: nothing was found */
	__u64 found_task, found_start_ns;
	__u64 exe;		/* texts */
	__u64 cgroup;
};

#define THREAD_SLOTS		8192	/* a power of two */

#define REFUSED_TELL_MAX	256	/* losses told in one run of refused_tell */

/* Whose they are: a program's that is always there, by its number; from REFUSED_MADE on a made probe's. */
#define REFUSED_MADE		64
#define REFUSED_SLOTS		4096	/* a power of two */

/* From the programs to the daemon: a stack was taken of a process whose maps nobody knows. */
struct maps_wanted {
	__u32 tid;
	__u32 zero0;
};

#define MAPS_PROCESSES		16384	/* whose maps are known to be told */
#define MAPS_WANTED_BYTES	16384	/* of the ring buffer in which maps_wanted wait */
#define MAPS_PER_PROCESS_MAX	512	/* executable ones */
#define MAPS_AGAIN_NS		100000000ull	/* between two looks at one process that changes */
#define MAPS_STALE_NS		10000000000ull	/* ... and at one that does not */
#define MAPS_PATH_BYTES		(2 * RT_STRING_BYTES_MAX)
#define MAPS_PIECE_BYTES	1024		/* of a file's notes, read at once */
#define MAPS_BUILD_ID_WORDS	3

struct maps_one {
	__u64 start, bytes, offset, base;	/* base: where the file's first byte lies; 0: nowhere */
	__u64 device, inode;
	__u64 generation;	/* of the inode: another file that has its number has another */
	__u64 build_id[MAPS_BUILD_ID_WORDS];	/* zeros: none was found */
	char path[MAPS_PATH_BYTES];
};

/* What the iterators that look at a process share: the daemon runs one of them at a time. */
struct maps_found {
	__u32 count;
	__u32 told;		/* of the process that was looked at last: so many are in `one`, with build-ids */
	__u64 memory;		/* its mm_struct, */
	__u32 pid;
	__u32 zero0;
	__u64 base, base_inode, base_device;	/* of the file that was seen last */
	__u64 build_id[MAPS_BUILD_ID_WORDS];
	__u8 piece[MAPS_PIECE_BYTES + 64];
	struct maps_one one[MAPS_PER_PROCESS_MAX];
};

/*
 * How the frames of code without frame pointers are found: what .eh_frame says of each place in a file's code,
 * compiled to rows that lie in the order of their places (daemon/source/unwind_table.c). A row holds up to the next.
 * It says where the caller's stack began (the CFA), below which lies the return address, and where rbp was saved.
 * Behind a table's rows lies its index: for each block of 2^shift bytes of the file, where its rows are.
 */
struct unwind_row {
	__u32 at;		/* offset in the file */
	__s16 cfa;		/* 8 bytes each */
	__s8 rbp;		/* 8 bytes each */
	__u8 rule;		/* enum unwind_rule, UNWIND_* */
};

enum unwind_rule {
	UNWIND_NONE,		/* no rule for this code */
	UNWIND_RSP,		/* the CFA is rsp + cfa */
	UNWIND_RBP,		/* rbp + cfa */
	UNWIND_AT_RSP,		/* what lies at rsp + cfa */
	UNWIND_AT_RBP,
	UNWIND_PLT,		/* rsp + 8, and 8 more from byte `cfa` of each 16 on */
	UNWIND_SIGNAL,		/* a handler returns here: the kernel has put the registers on the stack */
	UNWIND_END,		/* nobody has called this */
	UNWIND_UNKNOWN,		/* a rule that no row can express */
};

/* In the place of a row. */
struct unwind_block {
	__u32 low;		/* index of the first row that begins at the block's start or behind it */
	__u32 high;		/* of the first that begins at the block's end or behind it */
};

#define UNWIND_SHIFT_MIN	8	/* so that a block has a few rows */
#define UNWIND_SHIFT_MAX	31

#define UNWIND_RULE		0x0f
#define UNWIND_AND_8		0x20	/* the CFA is 8 more than what lies there */
#define UNWIND_RBP_AT_RBP	0x40	/* the caller's rbp lies at rbp + `rbp`, */
#define UNWIND_RBP_AT_CFA	0x80	/* or at the CFA + `rbp`; neither: rbp is still the caller's */

/* A mapping of code in a process, in the order of their places. Before the first is one that says how many there are. */
struct unwind_map {
	__u64 start;		/* of the first: the mm_struct */
	__u64 bytes;		/* of the first: mappings */
	__u64 offset;		/* in the file */
	__u32 table;		/* its number; UNWIND_NO_TABLE */
	__u32 rows;		/* behind which the index lies, */
	__u32 first_block;	/* which begins with that one */
	__u32 blocks;
	__u32 shift;
	__u32 zero0;
};

#define UNWIND_NO_TABLE		(~0u)
#define UNWIND_TABLES		1024	/* UNWIND_TABLES_MAX of the daemon's limits */
#define UNWIND_PROCESSES	512	/* UNWIND_PROCESSES_MAX */

/* From the program that looks for threads in system calls: what it writes of each. */
struct stuck_thread {
	__u32 tid, pid, ppid, uid;
	char comm[RT_COMM_BYTES];
	__u64 entry_ns;		/* of the last call that was recorded from its beginning; 0: of none */
	__u64 arg[RT_SYSCALL_ARGS_MAX];
	__u32 nr;
	__u32 flags;		/* STUCK_* */
	__u32 state, on_cpu;	/* as in the task_struct */
	__u32 frames;
	__u32 zero0;
	__u64 frame[RT_STACK_FRAMES_MAX];
};

#define STUCK_SINCE_ENTRY	(1u << 0)	/* entry_ns is of the call that it is in */
#define STUCK_IS_RECORDED	(1u << 1)	/* such calls of it are recorded now */
#define STUCK_IS_FOREIGN	(1u << 2)	/* a call through another ABI (32-bit) */

#endif
