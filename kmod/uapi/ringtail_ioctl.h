/* SPDX-License-Identifier: (GPL-2.0-only WITH Linux-syscall-note) OR BSD-2-Clause */
/*
 * The control of /dev/ringtail: what ioctl(2) and mmap(2) of the kernel module take and give.
 * ringtail(4) tells what each call does and which errors it has.
 *
 * Every structure has the same layout for 32- and 64-bit programs. Fields called zero must be 0.
 */
#ifndef RINGTAIL_UAPI_IOCTL_H
#define RINGTAIL_UAPI_IOCTL_H

#include <linux/ioctl.h>

#include "kmod/uapi/ringtail.h"

#define RT_DEVICE		"/dev/ringtail"

/* Probes that only the module has. */
enum rt_module_probe {
	RT_PROBE_MODULE_MIN	= 0x0200,
	RT_PROBE_IRQ_ENTRY	= 0x0200,
	RT_PROBE_IRQ_EXIT	= 0x0201,
	RT_PROBE_SOFTIRQ_ENTRY	= 0x0202,
	RT_PROBE_SOFTIRQ_EXIT	= 0x0203,
	RT_PROBE_TIMER_START	= 0x0204,
	RT_PROBE_TIMER_EXPIRE	= 0x0205,
	RT_PROBE_PAGE_ALLOC	= 0x0206,
	RT_PROBE_PAGE_FREE	= 0x0207,
	RT_PROBE_BLOCK_ISSUE	= 0x0208,
	RT_PROBE_BLOCK_COMPLETE	= 0x0209,
	RT_PROBE_NET_XMIT	= 0x020a,
	RT_PROBE_NET_RECEIVE	= 0x020b,
	RT_PROBE_NAPI_POLL	= 0x020c,
	RT_PROBE_SIGNAL_DELIVER	= 0x020d,

	RT_PROBE_PROFILE	= 0x0300,	/* rate: Hz, on every CPU */
	RT_PROBE_INTERVAL	= 0x0301,	/* rate: Hz, on one CPU */

	RT_PROBE_KPROBE		= 0x0400,	/* + the slot that RT_IOC_KPROBE gave */
	RT_PROBE_KRETPROBE	= 0x0440,
	RT_PROBE_MODULE_MAX	= 0x0480,
};

/* From RT_PROBE_MADE on: what other modules have by ringtail_probe.h. They keep their numbers. */
#define RT_MODULE_PROBES_MAX	256


#define RT_KPROBES_MAX		64
#define RT_RATE_HZ_MAX		10000
#define RT_PROFILE_HZ		99	/* where RT_IOC_SELECT enables them first */
#define RT_INTERVAL_HZ		1
#define RT_EXCLUDED_MAX		4
#define RT_WAKE_MS_MAX		60000
#define RT_CPU_ALL		(~0u)

/*
 * mmap(2) offsets. A ring is mapped read-only from RT_MAP_RING(cpu), at most
 * RT_RING_MAP_BYTES(ring_bytes) long: producer page, data, slack. The consumer page is the one page
 * at RT_MAP_CONSUMER(cpu), mapped shared.
 */
#define RT_MAP_STRIDE		(1ULL << 30)
#define RT_MAP_RING(cpu)	((__u64)(cpu) * RT_MAP_STRIDE)
#define RT_MAP_CONSUMER(cpu)	(RT_MAP_RING(cpu) + RT_MAP_STRIDE / 2)
#define RT_RING_MAP_BYTES(ring_bytes) ((ring_bytes) + 2 * (__u64)RT_PAGE_BYTES)

/* What a field of a probe is; the numbers are those of FieldType in proto/ringtail.proto. */
enum rt_field_type {
	RT_FIELD_UNSIGNED	= 0,
	RT_FIELD_SIGNED		= 1,
	RT_FIELD_HEX		= 2,
	RT_FIELD_DURATION	= 3,
	RT_FIELD_RESULT		= 4,
	RT_FIELD_FD		= 5,
	RT_FIELD_THREAD		= 6,
	RT_FIELD_STRING		= 7,
	RT_FIELD_TEXT		= 8,	/* the value is how many bytes it has; they are attached */
};

struct rt_info {
	__u32 abi_version;		/* RT_ABI_VERSION */
	__u32 cpus;			/* one past the highest CPU number there can be */
	__u32 probes;			/* entries of RT_IOC_LIST */
	__u32 zero;
	__u64 ring_bytes_max;		/* of one ring, for now: a module parameter */
};

struct rt_probe_info {
	__u32 id;
	__u32 fields;			/* entries of RT_IOC_FIELDS */
	char provider[16];		/* all three terminated */
	char function[40];
	char name[24];
};

struct rt_field_info {
	__u32 type;			/* enum rt_field_type */
	__u32 bits;			/* of the C type */
	char name[24];
	char c_type[40];
};

/*
 * A table by size query and fill: `count` is how many entries `to` has room for, and comes back as
 * how many there are. `to` = 0 asks only. ENOSPC, with nothing copied, where there is not enough.
 */
struct rt_table {
	__u32 count;
	__u32 probe;			/* RT_IOC_FIELDS: of which; RT_IOC_LIST: 0 */
	__u64 to;			/* struct rt_probe_info * or struct rt_field_info * */
};

struct rt_enable {
	__u32 probe;
	__u32 flags;			/* RT_FLAG_* */
	__u32 rate_hz;			/* profile and interval; others: 0 */
	__u32 clauses;			/* 0: every event passes */
	struct rt_filter_clause clause[RT_FILTER_CLAUSES_MAX];
};

/* Replaces everything that was enabled; kprobes, profile and interval keep their rate. */
struct rt_select {
	__u8 probes[RT_PROBE_MAX / 8];	/* bit set by probe id */
	__u8 unfiltered[RT_PROBE_MAX / 8];	/* of these, which the clauses are not asked of */
	__u32 flags;
	__u32 clauses;
	struct rt_filter_clause clause[RT_FILTER_CLAUSES_MAX];
};

#define RT_CONFIG_CUT		(1u << 0)	/* bring the request to what is allowed */
#define RT_CONFIG_SELF		(1u << 1)	/* trace the process that opened it, too */

struct rt_config {
	__u64 ring_bytes;		/* a power of two */
	__u64 watermark_bytes;		/* poll and read wake at so many unread */
	__u32 policy;			/* enum rt_policy */
	__u32 wake_ms;			/* ... or after so long, if there are any; 0: never */
	__u32 flags;			/* RT_CONFIG_* */
	__u32 excluded_pids[RT_EXCLUDED_MAX];	/* 0: none */
	__u32 zero;
};

/* A bell for one CPU's ring, or RT_CPU_ALL: an eventfd; -1 takes it away. */
struct rt_bell {
	__u32 cpu;
	__s32 eventfd;
};

struct rt_stats {
	__u64 attempts;			/* = records + lost_total, of all rings */
	__u64 records;			/* threads among them; fillers are none */
	__u64 lost_total;
	__u64 lost[RT_LOST_REASONS];
	__u64 bytes;			/* reserved, fillers among them */
	__u64 bells;
	__u64 consumer_bad;
	__u64 unpaired;
	__u64 foreign;
	__u64 faults;
	__u64 homeless;			/* events on a CPU for whose ring there was no memory */
	__u64 crowded;			/* calls not timed: the table of threads was full */
	__u64 kprobe_missed;		/* function returns the kernel had no room to catch */
	__u32 rings;
	__u32 rings_stopped;		/* RT_POLICY_STOP */
};

/*
 * One record of a ring that does not move: recording is stopped, or RT_IOC_SNAPSHOT took a copy.
 * `index` counts from the newest (0) back, or from the oldest on with RT_READ_OLDEST. `bytes` is
 * the room at `to`, and comes back as the record's length; ENOSPC where that is more. ENOENT past
 * the last. The record is a struct rt_record; fillers are passed over.
 */
struct rt_read {
	__u32 cpu;
	__u32 flags;
	__u64 index;
	__u64 to;
	__u32 bytes;
	__u32 zero;
};

#define RT_READ_OLDEST		(1u << 0)

struct rt_kprobe {
	char function[64];		/* terminated */
	__u32 on_return;		/* 0: entry, 1: return */
	__u32 probe;			/* out: the id to enable */
};

/* Of a probe that another module has: where, and how printf(3) would print it. Texts are terminated. */
struct rt_probe_source {
	__u32 probe;
	__u32 line;
	__u32 loaded;			/* 1: the module is, now */
	__u32 zero;
	char module[64];
	char file[128];
	char format[256];
};

/* What read(2) gives: runs of whole records, each behind one of these. */
struct rt_run {
	__u32 cpu;
	__u32 bytes;			/* of records that follow */
};

#define RT_IOC_MAGIC		0xb7

#define RT_IOC_INFO		_IOR(RT_IOC_MAGIC, 0x00, struct rt_info)
#define RT_IOC_LIST		_IOWR(RT_IOC_MAGIC, 0x01, struct rt_table)
#define RT_IOC_FIELDS		_IOWR(RT_IOC_MAGIC, 0x02, struct rt_table)
#define RT_IOC_ENABLE		_IOW(RT_IOC_MAGIC, 0x03, struct rt_enable)
#define RT_IOC_DISABLE		_IOW(RT_IOC_MAGIC, 0x04, __u32)
#define RT_IOC_SELECT		_IOW(RT_IOC_MAGIC, 0x05, struct rt_select)
#define RT_IOC_START		_IO(RT_IOC_MAGIC, 0x06)
#define RT_IOC_STOP		_IO(RT_IOC_MAGIC, 0x07)
#define RT_IOC_STATS		_IOR(RT_IOC_MAGIC, 0x08, struct rt_stats)
#define RT_IOC_SET_CONFIG	_IOWR(RT_IOC_MAGIC, 0x09, struct rt_config)
#define RT_IOC_GET_CONFIG	_IOR(RT_IOC_MAGIC, 0x0a, struct rt_config)
#define RT_IOC_BELL		_IOW(RT_IOC_MAGIC, 0x0b, struct rt_bell)
#define RT_IOC_CLEAR		_IO(RT_IOC_MAGIC, 0x0c)
#define RT_IOC_SNAPSHOT		_IO(RT_IOC_MAGIC, 0x0d)
#define RT_IOC_READ		_IOWR(RT_IOC_MAGIC, 0x0e, struct rt_read)
#define RT_IOC_KPROBE		_IOWR(RT_IOC_MAGIC, 0x0f, struct rt_kprobe)
#define RT_IOC_SOURCE		_IOWR(RT_IOC_MAGIC, 0x10, struct rt_probe_source)
#define RT_IOC_WATCH		_IOW(RT_IOC_MAGIC, 0x11, __s32)

#endif
