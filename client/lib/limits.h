/*
 * limits: every bound of the client that is not the wire's own (those are in proto/limits.h).
 */
#ifndef RINGTAIL_CLIENT_LIB_LIMITS_H
#define RINGTAIL_CLIENT_LIB_LIMITS_H

#define MERGE_BYTES_MAX			(64u << 20)	/* of batches that wait for a watermark */
#define MERGE_DECODE_BYTES_MAX		(128u << 20)	/* of the decoders of what is being merged */
/* A message, unpacked: a byte of it can become many, so each has what an honest one takes at most. */
#define UNPACK_CATALOG_BYTES_MAX	(16u << 20)
#define UNPACK_STAT_BYTES_MAX		(8u << 20)
#define UNPACK_BYTES_MAX		(1u << 20)	/* any other */
#define READ_BUFFER_BYTES		(256u << 10)	/* what one read(2) may bring */
#define WRITE_BUFFER_BYTES		(64u << 10)

#define CONNECT_TIMEOUT_MS		5000
#define STARTING_NOTICE_MS		1000		/* of silence; then the user is told that it waits */
#define STARTING_TIMEOUT_MS		30000		/* a daemon that starts listens before it answers */
#define REPLY_TIMEOUT_MS		5000		/* hello, list, first stat */
#define REACHED_TIMEOUT_MS		15000		/* a relay waits for 10 s, until its host has dialled it once more */
#define CHANGE_TIMEOUT_MS		30000		/* the daemon waits for its disk, or attaches many probes */
#define REPLY_FRAMES_MAX		8		/* before the one that answers */
#define RECONNECT_DELAY_MS_MIN		200
#define RECONNECT_DELAY_MS_MAX		5000
#define RECONNECT_SECONDS_MAX		3600		/* then it gives up */
#define RECONNECT_PROBE_SECONDS		10		/* so long a program may take to find the daemon again */
/* Of a daemon over TCP: a live one says something each second. */
#define KEEPALIVE_IDLE_SECONDS		5		/* of silence, before it is asked */
#define KEEPALIVE_INTERVAL_SECONDS	5		/* between two questions */
#define KEEPALIVE_PROBES		3		/* without an answer, it is gone */

#define PROBE_ID_MAX			0xffffu		/* an event's probe is 16 bits */
#define CURSOR_TEXT_BYTES_MAX		(64u << 10)
#define KALLSYMS_SYMBOLS_MAX		(1u << 20)
#define OWN_FRAMES_MAX			12u		/* of a stack: the tracer's, innermost */
#define KALLSYMS_BYTES_MAX		(64u << 20)
#define ELF_ALL_BYTES_MAX		(192u << 20)	/* of those of all files; later ones go unnamed */
#define CODE_FILES_MAX			4096u		/* whose symbols are held at once */
#define CODE_FILE_TRIES_MAX		4u		/* to open one that cannot be had */
#define PROCESSES_NAMED_MAX		2048u		/* whose maps are known; then one heard of long ago goes */
#define PROCESS_MAPS_MAX		512u		/* of one process; the oldest goes */
#define JIT_MAP_BYTES_MAX		(32u << 20)	/* of a /tmp/perf-PID.map; what is behind has no names */
#define JIT_OVERLAPS_MAX		64u		/* functions that begin before an address, and may hold it */
#define JIT_PROCESSES_MAX		64u		/* whose maps are held at once */
#define JIT_TRIES_MAX			64u		/* to find the map of a process that has none */
#define DEBUGINFOD_FILES_MAX		256u		/* that servers are asked for */
#define DEBUGINFOD_TIMEOUT_S		10		/* without a byte of a file, unless DEBUGINFOD_TIMEOUT says else */
#define FUNCTION_BYTES_MAX		256u		/* of a function's name, in a folded stack */
#define FOLDED_STACKS_MAX		(1u << 17)	/* different ones; the rest is counted in one line */
#define SEGMENTS_READ_MAX		65536u		/* of one spool directory */
#define SPOOL_LISTS_MAX			16u		/* of one that is deleted as it is read */
#define ANSWER_ROWS_MAX			16384u		/* of a table: more keys are counted together */
#define ANSWER_INTERVALS_MAX		4096u		/* of the past: what is in others is counted together */
#define TOP_PROBES_MAX			4u		/* of a table of `tracectl top` */
#define TOP_ROWS_MAX			500u		/* of a table; the rest would not be looked at */
#define TOP_STREAM_BYTES		(256u << 10)	/* of the lines behind the screen */
#define TOP_ITEMS_MAX			65536u		/* between two looks at the keys */
#define TOP_REDRAW_MS			250
#define ACK_INTERVAL_MS			500		/* between two acknowledgements */
#define RATE_LINE_INTERVAL_MS		250		/* at most 4 redraws a second */
#define STAT_INTERVAL_MS		1000
#define FLEET_HOSTS_MAX			65536u		/* of one relay, or in one stream */
#define REACHED_HOSTS_MAX		256u		/* that one question asks through a relay */
#define REACHED_AT_ONCE			16u		/* so many connections to them are made at once */
#define FLEET_ROWS			20u		/* hosts that `stat --fleet`, and a stream's end, name: the worst */
#define CLOCKS_APART_NS_MAX		60000000000ull	/* of two hosts that keep time */

#endif
