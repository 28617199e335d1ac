/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ringtail-probe.h: tracepoints in a program, header only: C11 (as -std=gnu11, or with _GNU_SOURCE) and
 * C++17, Linux, libc.
 *
 *	#include <ringtail-probe.h>
 *	RT_PROBE(app, request_done, "id %u took %u us, %s", id, us, url);
 *	RT_SPAN(app, request, "id %u, %s", id, url);	// ends where its scope does
 *
 * In: what the program passes. Out: records in memory that ringtaild has made and reads. On the thread that
 * passes the probe; there is no other thread. A probe that nobody asked for costs two loads and a branch, and
 * its arguments are not evaluated. docs/programs.md has the rest.
 *
 * Each program, and each shared object, that holds probes connects by itself when it is loaded, to the socket
 * RT_PROGRAM_SOCKET or $RINGTAIL_PROGRAMS (an empty text: to none). Where there is no socket, nothing else
 * happens; rt_probe_attach() tries again. Where the daemon is about to listen on it, the program finds it by itself.
 */
#ifndef RINGTAIL_PROBE_H
#define RINGTAIL_PROBE_H

#include <stdint.h>

/* ---- What program and daemon agree on ----------------------------------------------------------- */

#define RT_PROGRAM_SOCKET	"/run/ringtail/programs.sock"
#define RT_PROGRAM_MAGIC	0x656d6172676f7270ULL	/* "programe", little-endian */
#define RT_PROGRAM_VERSION	1
#define RT_PROGRAM_PROBES_MAX	512	/* of one program or shared object */
#define RT_PROGRAM_ARGS_MAX	10
#define RT_PROGRAM_STRING_MAX	128	/* bytes of one text, or array; what is longer is cut */
#define RT_PROGRAM_COMM_BYTES	16
#define RT_PROGRAM_PAGE		4096

#define RT_PROGRAM_RETURNS	1	/* it looks at `leaving`, and writes nothing then */
#define RT_PROGRAM_SHOWN	2	/* its user may look into it, and so at its events */

/* A type is a kind and the bytes of a value, or of an array's element: 0x42 is int, 0x84 a text, 0x25 of uint16_t[]. */
enum rt_program_kind {
	RT_PROGRAM_UNSIGNED	= 1,
	RT_PROGRAM_SIGNED	= 2,
	RT_PROGRAM_POINTER	= 3,
	RT_PROGRAM_STRING	= 4,
	RT_PROGRAM_UNSIGNEDS	= 5,	/* an array; daemons of before refuse a program that has one */
	RT_PROGRAM_SIGNEDS	= 6,
};

#define rt_program_type(kind, bytes)	((bytes) << 4 | (kind))
#define rt_type_kind(type)		((type) & 15)
#define rt_type_bytes(type)		((type) >> 4)
#define rt_type_is_array(type)		(rt_type_kind(type) == RT_PROGRAM_UNSIGNEDS || \
					 rt_type_kind(type) == RT_PROGRAM_SIGNEDS)

/* The program's first words. `bytes` of struct rt_program_probe follow. */
struct rt_program_hello {
	uint64_t magic;
	uint32_t version, probes;
	uint32_t bytes;
	uint32_t pid;		/* as the program knows it, which another namespace may not */
	uint32_t rseq;		/* 1: it writes a record by one restartable sequence */
	uint32_t flags;		/* RT_PROGRAM_RETURNS, RT_PROGRAM_SHOWN */
	char comm[RT_PROGRAM_COMM_BYTES];
};

/* What a probe is. Of a span there are two, of one provider and name. */
enum rt_program_sort {
	RT_PROGRAM_EVENT	= 0,
	RT_PROGRAM_SPAN_BEGIN	= 1,
	RT_PROGRAM_SPAN_END	= 2,	/* has no arguments */
};

struct rt_program_probe {
	uint32_t bytes;		/* with the texts, in eights */
	uint32_t line;
	uint16_t args;
	uint16_t sort;		/* enum rt_program_sort. What the daemon does not know, it refuses */
	uint8_t type[RT_PROGRAM_ARGS_MAX];
	uint8_t zero0[2];
	/* provider, name, format, file, and each argument as it is written: they end with a zero each */
};

/* The answer; with err 0 the descriptor of a segment of `bytes` comes along. */
struct rt_program_welcome {
	uint64_t magic;
	uint32_t version;
	int32_t err;
	uint64_t bytes;
};

/*
 * What is asked of an event before it is written. A test goes on at a test of a lower number, or the event passes, or it
 * fails and is not written. The daemon asks again: a program that asks nothing, or has got nonsense, writes the event.
 */
enum rt_program_test_kind {
	RT_PROGRAM_RANGE	= 1,	/* value - low <= span, wrapping */
	RT_PROGRAM_BITS		= 2,	/* (value & span) == low */
	RT_PROGRAM_TEXT		= 3,	/* a text is `bytes` long, and these are in low and span */
	RT_PROGRAM_PREFIX	= 4,	/* or begins with these */
};

#define RT_PROGRAM_TESTS_MAX	80	/* of all probes of a program */
#define RT_PROGRAM_TEST_BYTES	16	/* of a text in a test */
#define RT_PROGRAM_PASS		0xff
#define RT_PROGRAM_FAIL		0xfe
#define RT_PROGRAM_NARROWED	2	/* in `enabled`: and the number of the test that is asked first */

struct rt_program_test {
	uint8_t kind;
	uint8_t word;		/* of a record's payload */
	uint8_t yes, no;	/* where to go on */
	uint8_t shift;		/* of a number: 64 less its width */
	uint8_t is_signed;
	uint8_t negated;
	uint8_t bytes;
	uint64_t low, span;
};

#define RT_PROGRAM_TEST_WORDS	(sizeof(struct rt_program_test) / 8)

/*
 * A segment: one page, then the rings, each with a page in front of it. The program may write all of it, and
 * can confuse itself alone. While `turn` is odd, or if it has changed since, what the tests say is worth nothing.
 */
struct rt_program_segment {
	uint64_t magic;
	uint32_t version, rings;
	uint32_t first_locked;	/* rings below are each written on the CPU of that number, by rseq */
	uint32_t probes;
	uint64_t ring_bytes;	/* a power of two */
	uint32_t counter;	/* 1: times are the processor's counter, which the daemon converts */
	uint32_t leaving;	/* 1: the daemon was stopped in order. All is enabled, so that another one is looked for */
	uint32_t turn;		/* of `test` and `enabled`, which the daemon writes */
	uint32_t zero0;
	uint64_t test[RT_PROGRAM_TESTS_MAX][RT_PROGRAM_TEST_WORDS];	/* struct rt_program_test */
	uint8_t zero1[80];
	uint32_t enabled[RT_PROGRAM_PROBES_MAX];	/* 0: no; 1: yes; RT_PROGRAM_NARROWED and more: if it passes */
};

/*
 * Positions only grow. A record lies whole below producer_pos, or not at all, and does not cross the end of the
 * ring: RT_PROGRAM_PAD fills what is left. It is a struct rt_record of the kernel's rings without a tag:
 *
 *	words << 16 | probe	time_ns, CLOCK_MONOTONIC	lost << 32 | tid	a word for each argument
 *
 * With RT_PROGRAM_COUNTER in the first word, the time is what the processor's time stamp counter said.
 *
 * and of each text and array an attachment: bytes << 32 | argument << 16 | RT_PROGRAM_ATTACHMENT, then the bytes, and
 * zeros up to the next eight. The word of a text has its bytes, the word of an array those that there were.
 *
 * The begin of a span has the words of struct rt_program_begin before its arguments, and `argument` counts these words,
 * too. The end has those of struct rt_program_end, and no arguments.
 */
struct rt_program_ring {
	uint64_t producer_pos;
	uint64_t lost;		/* events for which there was no room */
	uint32_t lock;		/* of a ring from first_locked on */
	uint32_t zero0;
	uint64_t filtered;	/* events that did not pass the tests */
	uint64_t zero1[4];
	uint64_t consumer_pos;	/* the daemon writes */
	uint64_t zero2[503];
};

#define RT_PROGRAM_PAD		0xffffu
#define RT_PROGRAM_COUNTER	(1ull << 63)
#define RT_PROGRAM_ATTACHMENT	1
#define RT_PROGRAM_HEAD_WORDS	3

/* Lower-case hex, as W3C's traceparent has them. */
struct rt_program_ids {
	char trace_id[32];
	char span_id[16];
	char parent_id[16];	/* zeros: the span has no parent */
};

struct rt_program_begin {
	struct rt_program_ids ids;
	uint64_t scope;		/* 1: it ends on this thread, inside of which all is that began on this thread since */
};

struct rt_program_end {
	uint64_t duration_ns;
	struct rt_program_ids ids;
	int64_t status;		/* 0, or what the program calls its failure: an int */
};

#define RT_PROGRAM_BEGIN_WORDS	(sizeof(struct rt_program_begin) / 8)
#define RT_PROGRAM_END_WORDS	(sizeof(struct rt_program_end) / 8)
#define RT_PROGRAM_WORDS_MAX	(RT_PROGRAM_HEAD_WORDS + RT_PROGRAM_BEGIN_WORDS + \
				 RT_PROGRAM_ARGS_MAX * (2 + RT_PROGRAM_STRING_MAX / 8))

#ifndef RT_PROBE_LAYOUT_ONLY

/* ---- The program's side -------------------------------------------------------------------------- */

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#if defined(__x86_64__) && defined(__has_include) && !defined(RT_PROBE_NO_RSEQ)
#if __has_include(<sys/rseq.h>)
#include <sys/rseq.h>
#define RT_PROBE_RSEQ 1
#endif
#endif

#define RT_PROBE_WAIT_US	200000	/* a daemon that does not answer holds a program up for so long */
#define RT_PROBE_TRIES		64
#define RT_PROBE_LOOK_EVERY	1024	/* events lost between two looks whether the daemon is there; */
#define RT_PROBE_LOOK_FILTERED	65536	/* and so many that did not pass */
#define RT_PROBE_WAIT_S		300	/* where it is not, another one is looked for so long */
#define RT_PROBE_REFUSED	(-2)	/* there is a socket, and nobody listens: a daemon starts, or was killed */
/* A record is written up to its length: to clear all of it first would cost more than the rest. */
#if defined(__has_attribute)
#if __has_attribute(uninitialized)
#define RT_PROBE_UNCLEARED	__attribute__((uninitialized))
#endif
#endif
#ifndef RT_PROBE_UNCLEARED
#define RT_PROBE_UNCLEARED
#endif
#define RT_PROBE_OWN		__attribute__((weak, visibility("hidden")))	/* one for each object */
/* What RT_ARRAY() becomes has the elements behind it. */
#ifdef __cplusplus
#define RT_PROBE_ARRAY_MARK	"rt_array_of_elements(("
#else
#define RT_PROBE_ARRAY_MARK	"struct rt_array){("
#endif

#ifdef __cplusplus
extern "C" {
#endif

struct rt_probe_site {
	const char *provider, *name, *format, *file;
	uint32_t line, arguments;
	const uint8_t *type;
	const char *const *written;	/* the arguments, as they are in the source */
	const uint32_t *word;
	uint32_t sort;			/* enum rt_program_sort */
};

/* What RT_ARRAY() points at. */
struct rt_array {
	const void *at;
	uint64_t count;
};

/* Which span: what another thread, or another program, needs to put a span under it. All zeros: none. */
struct rt_span_context {
	char trace_id[32], span_id[16];	/* lower-case hex, without a zero at the end */
	uint8_t flags;			/* W3C's: 1 is `sampled` */
};

/*
 * The innermost scope of a thread, by its values: a frame that a longjmp(3) or the end of a coroutine left behind is never
 * read. The scopes of a thread are numbered as they are entered.
 */
struct rt_span_here {
	uint64_t trace_id[2], span_id;	/* zeros: there is no span */
	uint32_t scope, outer;		/* its number, and of the scope around it. 0: none */
	uint32_t flags;
	uint32_t open;			/* how many scopes of the thread have not been left */
};

struct rt_span {
	struct rt_span_context context;	/* where it is not recorded: of the span around it */
	char parent_id[16];
	int status;			/* the program's: 0, or what it calls its failure. Told with the end */
	uint32_t listed;		/* it is a scope that has not been left */
	uint32_t life;			/* of the process that began it */
	uint32_t scope;			/* its number */
	uint64_t begin_ns;
	const struct rt_probe_site *end;	/* NULL: it is not recorded, or has ended */
	const struct rt_span_here *thread;	/* that entered it; only compared */
	struct rt_span_here before;	/* what was the innermost */
};

#define RT_TRACEPARENT_BYTES	56	/* with the zero at its end */

extern const uint32_t __start_rt_probe_words[] __attribute__((weak, visibility("hidden")));
extern const uint32_t __stop_rt_probe_words[] __attribute__((weak, visibility("hidden")));
extern const struct rt_probe_site *const __start_rt_probe_sites[] __attribute__((weak, visibility("hidden")));
extern const struct rt_probe_site *const __stop_rt_probe_sites[] __attribute__((weak, visibility("hidden")));

RT_PROBE_OWN uintptr_t rt_probe_shift;		/* from the object's words to the segment's; 0: not attached */
RT_PROBE_OWN struct rt_program_segment *rt_probe_segment;
RT_PROBE_OWN int rt_probe_socket = -1;		/* -1: none */
RT_PROBE_OWN dev_t rt_probe_device;		/* which it is: a program may close any number, and use it again */
RT_PROBE_OWN ino_t rt_probe_inode;
RT_PROBE_OWN uint32_t rt_probe_attaching;
RT_PROBE_OWN time_t rt_probe_gone_s;		/* when it was seen that the daemon had ended; 0: it has not */
RT_PROBE_OWN uint32_t rt_probe_looked_s;	/* when one was looked for last, after a stop in order */
RT_PROBE_OWN uint32_t rt_probe_started;
RT_PROBE_OWN __thread uint32_t rt_probe_tid __attribute__((tls_model("initial-exec")));
RT_PROBE_OWN __thread struct rt_span_here rt_span_innermost __attribute__((tls_model("initial-exec")));
RT_PROBE_OWN __thread uint32_t rt_span_scopes __attribute__((tls_model("initial-exec")));	/* how many were entered */
RT_PROBE_OWN __thread uint64_t rt_span_seed __attribute__((tls_model("initial-exec")));	/* 0: none yet */
RT_PROBE_OWN uint32_t rt_span_life;		/* another one in each child */

void rt_probe_emit(const struct rt_probe_site *site, const uint64_t *value);
int rt_probe_passes(const struct rt_probe_site *site, const uint64_t *fixed, uint32_t words, const uint64_t *value);
void rt_span_begin(struct rt_span *span, int scope, const struct rt_span_context *from,
		   const struct rt_probe_site *begin, const struct rt_probe_site *end, const uint64_t *value);
void rt_span_pass(struct rt_span *span, int scope, const struct rt_span_context *from);
void rt_span_end(struct rt_span *span);
void rt_span_close(struct rt_span *span);
int rt_span_current(struct rt_span_context *context);
void rt_span_forget(void);
int rt_span_parse(const char *traceparent, struct rt_span_context *context);
int rt_span_text(const struct rt_span_context *context, char text[RT_TRACEPARENT_BYTES]);
int rt_probe_attach(void);
void rt_probe_forked(void);
void rt_probe_start(void);

/* As rt_program_segment.enabled has it. */
static inline uint32_t rt_probe_enabled(const uint32_t *word)
{
	return *(const volatile uint32_t *)((uintptr_t)word + rt_probe_shift);
}

static inline int rt_probe_is_enabled(const uint32_t *word)
{
	return __builtin_expect(rt_probe_enabled(word) != 0, 0);
}

/* Never called: the compiler holds the arguments against the format. */
__attribute__((format(printf, 1, 2), unused)) static inline void rt_probe_check(const char *format, ...)
{
	(void)format;
}

/* ---- Rings --------------------------------------------------------------------------------------- */

static inline struct rt_program_ring *rt_probe_ring(struct rt_program_segment *segment, uint32_t i)
{
	return (struct rt_program_ring *)((char *)segment + RT_PROGRAM_PAGE +
					  i * (RT_PROGRAM_PAGE + segment->ring_bytes));
}

static inline uint64_t *rt_probe_place(struct rt_program_segment *segment, struct rt_program_ring *ring,
				       uint64_t pos)
{
	return (uint64_t *)((char *)ring + RT_PROGRAM_PAGE + (pos & (segment->ring_bytes - 1)));
}

#ifdef RT_PROBE_RSEQ
static inline volatile struct rseq *rt_probe_rseq(void)
{
	return (volatile struct rseq *)((char *)__builtin_thread_pointer() + __rseq_offset);
}

/*
 * While the thread stays on `cpu` and ring->producer_pos is `pos`: the words go to their place, and the last
 * store makes them valid. Whoever is interrupted before that has done nothing, and begins again.
 */
static inline int rt_probe_publish(uint32_t cpu, struct rt_program_ring *ring, uint64_t pos, uint64_t end,
				   uint64_t *to, const uint64_t *from, uint64_t words)
{
	volatile struct rseq *rseq = rt_probe_rseq();
	uint64_t at = 0, word;
	int done = 0;

	__asm__ volatile(
		".pushsection __rseq_cs, \"aw\"\n"
		".balign 32\n"
		"77: .long 0, 0\n"
		"    .quad 71f, 73f - 71f, 74f\n"
		".popsection\n"
		"	leaq	77b(%%rip), %[word]\n"
		"	movq	%[word], %c[critical](%[rseq])\n"
		"71:	cmpl	%[cpu], %c[cpu_id](%[rseq])\n"
		"	jne	75f\n"
		"	cmpq	%[pos], (%[head])\n"
		"	jne	75f\n"
		"72:	movq	(%[from],%[at],8), %[word]\n"
		"	movq	%[word], (%[to],%[at],8)\n"
		"	incq	%[at]\n"
		"	cmpq	%[words], %[at]\n"
		"	jb	72b\n"
		"	movq	%[end], (%[head])\n"
		"73:	movl	$1, %[done]\n"
		"	jmp	75f\n"
		".pushsection __rseq_failure, \"ax\"\n"
		"	.byte	0x0f, 0xb9, 0x3d\n"
		"	.long	0x53053053\n"		/* RSEQ_SIG */
		"74:	jmp	75f\n"
		".popsection\n"
		/* The object may be unloaded: nothing of it stays behind in the thread. */
		"75:	movq	$0, %c[critical](%[rseq])\n"
		: [at] "+&r"(at), [word] "=&r"(word), [done] "+&r"(done)
		: [rseq] "r"(rseq), [cpu] "r"(cpu), [head] "r"(&ring->producer_pos), [pos] "r"(pos), [end] "r"(end),
		  [to] "r"(to), [from] "r"(from), [words] "r"(words),
		  [critical] "i"(offsetof(struct rseq, rseq_cs)), [cpu_id] "i"(offsetof(struct rseq, cpu_id))
		: "memory", "cc");
	return done;
}
#endif

/* Of a ring whose lock is held. */
static inline int rt_probe_store(struct rt_program_ring *ring, uint64_t end, uint64_t *to, const uint64_t *from,
				 uint64_t words)
{
	memcpy(to, from, words * 8);
	__atomic_store_n(&ring->producer_pos, end, __ATOMIC_RELEASE);
	return 1;
}

/* Whether that number is still the socket: who becomes a daemon closes all, and opens others. */
static inline int rt_probe_is_own(int fd)
{
	struct stat now;

	return fd >= 0 && fstat(fd, &now) == 0 && now.st_dev == rt_probe_device && now.st_ino == rt_probe_inode;
}

static inline void rt_probe_close(int fd)
{
	if (rt_probe_is_own(fd))
		close(fd);
}

/* 1: the daemon's end of the socket is there; 0: the daemon has closed it; -1: the socket is not there. */
static inline int rt_probe_hears(void)
{
	int fd = __atomic_load_n(&rt_probe_socket, __ATOMIC_ACQUIRE);
	ssize_t got;
	char byte;

	if (!rt_probe_is_own(fd))
		return -1;
	got = recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
	return got > 0 || (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR));
}

/*
 * The rings of a daemon that has ended go back to the system, which makes pages of zeros of them. Their addresses stay, and
 * the first page, since other threads may be in them. What they write there, nobody reads.
 */
static inline void rt_probe_release(struct rt_program_segment *segment)
{
	madvise((char *)segment + RT_PROGRAM_PAGE, segment->rings * (RT_PROGRAM_PAGE + segment->ring_bytes), MADV_REMOVE);
}

static inline void rt_probe_detach(void)
{
	int fd = __atomic_exchange_n(&rt_probe_socket, -1, __ATOMIC_ACQ_REL);

	/* Other threads may be in the segment: it stays mapped. */
	__atomic_store_n(&rt_probe_shift, 0, __ATOMIC_RELEASE);
	rt_probe_close(fd);
}

/* Nobody reads any more. A daemon that is started again is found, if that is soon; else it is as if there were none. */
static inline void rt_probe_look(void)
{
	struct timespec now;
	int before = errno;

	if (rt_probe_hears() != 1 && rt_probe_attach() != 0) {
		clock_gettime(CLOCK_MONOTONIC, &now);
		if (!rt_probe_gone_s)
			rt_probe_gone_s = now.tv_sec + 1;
		else if (now.tv_sec - rt_probe_gone_s > RT_PROBE_WAIT_S)
			rt_probe_detach();
	}
	errno = before;
}

/* After a stop in order, one thread looks once a second. */
static inline void rt_probe_seek(void)
{
	uint32_t before = __atomic_load_n(&rt_probe_looked_s, __ATOMIC_RELAXED), second;
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
	second = (uint32_t)now.tv_sec + 1;
	if (before != second && __atomic_compare_exchange_n(&rt_probe_looked_s, &before, second, 0, __ATOMIC_RELAXED,
							    __ATOMIC_RELAXED))
		rt_probe_look();
}

static inline void rt_probe_lose(struct rt_program_ring *ring)
{
	if (__atomic_add_fetch(&ring->lost, 1, __ATOMIC_RELEASE) % RT_PROBE_LOOK_EVERY == 0)
		rt_probe_look();
}

/* After the position is read and before it moves: the order in the ring is that of the times. */
static inline void rt_probe_stamp(const struct rt_program_segment *segment, uint64_t *record)
{
	struct timespec now;

#ifdef __x86_64__
	if (__atomic_load_n(&segment->counter, __ATOMIC_RELAXED)) {
		record[0] |= RT_PROGRAM_COUNTER;
		record[1] = __builtin_ia32_rdtsc();
		return;
	}
#endif
	record[0] &= ~RT_PROGRAM_COUNTER;
	clock_gettime(CLOCK_MONOTONIC, &now);
	record[1] = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* 1: it is in the ring; 0: try again; -1: there is no room. cpu < 0: the ring's lock is held. */
static inline int rt_probe_put_at(struct rt_program_segment *segment, struct rt_program_ring *ring, int cpu,
				  uint64_t *record, uint64_t words)
{
	uint64_t pos = __atomic_load_n(&ring->producer_pos, __ATOMIC_RELAXED), size = segment->ring_bytes;
	uint64_t left = size - (pos & (size - 1)), bytes = words * 8, pad = bytes > left ? left : 0;
	uint64_t filler = left / 8 << 16 | RT_PROGRAM_PAD, end = pos + (pad ? pad : bytes);
	const uint64_t *from = pad ? &filler : record;
	uint64_t *to = rt_probe_place(segment, ring, pos);
	int done;

	if (pos + pad + bytes - __atomic_load_n(&ring->consumer_pos, __ATOMIC_ACQUIRE) > size)
		return -1;
	rt_probe_stamp(segment, record);
	record[2] = __atomic_load_n(&ring->lost, __ATOMIC_RELAXED) << 32 | rt_probe_tid;
#ifdef RT_PROBE_RSEQ
	if (cpu >= 0)
		done = rt_probe_publish((uint32_t)cpu, ring, pos, end, to, from, pad ? 1 : words);
	else
#endif
		done = rt_probe_store(ring, end, to, from, pad ? 1 : words);
	(void)cpu;
	return done && !pad;
}

/* Without rseq: a ring that nobody else holds. Who finds none, as in a signal handler, loses the event. */
static inline void rt_probe_put_locked(struct rt_program_segment *segment, uint64_t *record, uint64_t words)
{
	uint32_t rings = segment->rings - segment->first_locked, i = 0;
	struct rt_program_ring *ring = rt_probe_ring(segment, segment->first_locked);
	int put = 0;

	syscall(SYS_getcpu, &i, NULL, NULL);
	for (unsigned tries = 0; tries < RT_PROBE_TRIES; tries++, i++) {
		ring = rt_probe_ring(segment, segment->first_locked + i % rings);
		if (__atomic_exchange_n(&ring->lock, 1, __ATOMIC_ACQUIRE))
			continue;
		for (unsigned turn = 0; !put && turn < 2; turn++)
			put = rt_probe_put_at(segment, ring, -1, record, words);
		__atomic_store_n(&ring->lock, 0, __ATOMIC_RELEASE);
		break;
	}
	if (put != 1)
		rt_probe_lose(ring);
}

static inline void rt_probe_put(uint64_t *record, uint64_t words)
{
	struct rt_program_segment *segment = __atomic_load_n(&rt_probe_segment, __ATOMIC_ACQUIRE);

	if (__builtin_expect(__atomic_load_n(&segment->leaving, __ATOMIC_RELAXED) != 0, 0)) {
		rt_probe_seek();
		return;
	}
	if (!rt_probe_tid)
		rt_probe_tid = (uint32_t)syscall(SYS_gettid);
#ifdef RT_PROBE_RSEQ
	for (unsigned tries = 0; __rseq_size && tries < RT_PROBE_TRIES; tries++) {
		int32_t cpu = (int32_t)rt_probe_rseq()->cpu_id, put;
		struct rt_program_ring *ring;

		if (cpu < 0 || (uint32_t)cpu >= segment->first_locked)
			break;
		ring = rt_probe_ring(segment, (uint32_t)cpu);
		put = rt_probe_put_at(segment, ring, cpu, record, words);
		if (put < 0)
			rt_probe_lose(ring);
		if (put)
			return;
	}
#endif
	rt_probe_put_locked(segment, record, words);
}

/* The bytes of an array: all elements, of which *kept fit. */
static inline uint64_t rt_probe_measure_array(const struct rt_array *array, uint64_t element, size_t *kept)
{
	uint64_t count = array->at && array->count <= INT64_MAX ? array->count : 0;	/* which may have been negative */
	uint64_t bytes = (count < UINT32_MAX ? count : UINT32_MAX) * element;

	*kept = bytes < RT_PROGRAM_STRING_MAX ? (size_t)bytes : RT_PROGRAM_STRING_MAX;
	return bytes;
}

/* The words of the arguments from that one on, then their texts and arrays. The words that the record has then. */
static inline uint64_t rt_probe_add_arguments(const struct rt_probe_site *site, const uint64_t *value,
					      uint64_t *record, uint64_t first)
{
	uint64_t words = first + site->arguments;

	for (uint32_t i = 0; i < site->arguments; i++) {
		const void *text = (const void *)(uintptr_t)value[i];
		size_t bytes;

		record[first + i] = value[i];
		if (rt_type_kind(site->type[i]) == RT_PROGRAM_STRING) {
			text = text ? text : "(null)";
			bytes = strnlen((const char *)text, RT_PROGRAM_STRING_MAX);
			record[first + i] = bytes;
		} else if (rt_type_is_array(site->type[i])) {
			record[first + i] = rt_probe_measure_array((const struct rt_array *)text,
								   rt_type_bytes(site->type[i]), &bytes);
			text = ((const struct rt_array *)text)->at;
		} else {
			continue;
		}
		record[words++] = (uint64_t)bytes << 32 | (first + i - RT_PROGRAM_HEAD_WORDS) << 16 |
				  RT_PROGRAM_ATTACHMENT;
		if (bytes) {
			record[words + (bytes - 1) / 8] = 0;
			memcpy(&record[words], text, bytes);
		}
		words += (bytes + 7) / 8;
	}
	return words;
}

static inline void rt_probe_put_as(const struct rt_probe_site *site, uint64_t *record, uint64_t words)
{
	record[0] = words << 16 | (uint64_t)(site->word - __start_rt_probe_words);
	rt_probe_put(record, words);
}

/* ---- Tests --------------------------------------------------------------------------------------- */

/* An event as tests see it: the words before its arguments, then these. */
struct rt_probe_event {
	const struct rt_probe_site *site;
	const uint64_t *fixed, *value;
	uint32_t words;			/* of `fixed` */
};

static inline int rt_probe_in_range(const struct rt_program_test *test, uint64_t value)
{
	unsigned shift = test->shift & 63;

	value <<= shift;
	value = test->is_signed ? (uint64_t)((int64_t)value >> shift) : value >> shift;
	return test->kind == RT_PROGRAM_BITS ? (value & test->span) == test->low : value - test->low <= test->span;
}

static inline int rt_probe_has_text(const struct rt_program_test *test, const char *text)
{
	char wanted[RT_PROGRAM_TEST_BYTES];
	size_t bytes = test->bytes;

	text = text ? text : "(null)";
	memcpy(wanted, &test->low, sizeof(test->low));
	memcpy(wanted + sizeof(test->low), &test->span, sizeof(test->span));
	return strnlen(text, bytes + (test->kind == RT_PROGRAM_TEXT)) == bytes && memcmp(text, wanted, bytes) == 0;
}

/* 1: yes; 0: no; -1: that is no test of this event. */
static inline int rt_probe_ask(const struct rt_program_test *test, const struct rt_probe_event *event)
{
	uint32_t i = (uint32_t)test->word - event->words;
	int is_argument = test->word >= event->words && i < event->site->arguments;
	int is_text = is_argument && rt_type_kind(event->site->type[i]) == RT_PROGRAM_STRING, yes;

	if (test->word >= event->words && (!is_argument || rt_type_is_array(event->site->type[i])))
		return -1;
	if (!is_text && (test->kind == RT_PROGRAM_RANGE || test->kind == RT_PROGRAM_BITS))
		yes = rt_probe_in_range(test, is_argument ? event->value[i] : event->fixed[test->word]);
	else if (is_text && (test->kind == RT_PROGRAM_TEXT || test->kind == RT_PROGRAM_PREFIX) &&
		 test->bytes <= RT_PROGRAM_TEST_BYTES)
		yes = rt_probe_has_text(test, (const char *)(uintptr_t)event->value[i]);
	else
		return -1;
	return yes != (test->negated & 1);
}

/* Each word's acquire keeps the next look at `turn` behind it. */
static inline void rt_probe_copy_test(const struct rt_program_segment *segment, uint32_t i,
				      struct rt_program_test *test)
{
	uint64_t word[RT_PROGRAM_TEST_WORDS];

	for (unsigned k = 0; k < RT_PROGRAM_TEST_WORDS; k++)
		word[k] = __atomic_load_n(&segment->test[i][k], __ATOMIC_ACQUIRE);
	memcpy(test, word, sizeof(*test));
}

/* From that test on. Each goes on at a lower one, so there are as many steps as tests at most. */
static inline int rt_probe_run(const struct rt_program_segment *segment, uint32_t at,
			       const struct rt_probe_event *event)
{
	while (at < RT_PROGRAM_TESTS_MAX) {
		struct rt_program_test test;
		uint32_t next;
		int yes;

		rt_probe_copy_test(segment, at, &test);
		yes = rt_probe_ask(&test, event);
		next = yes ? test.yes : test.no;
		if (next == RT_PROGRAM_FAIL && yes >= 0)
			return 0;
		if (yes < 0 || next >= at)
			return 1;
		at = next;
	}
	return 1;
}

/* Where it is counted: on the CPU's ring, or one without rseq. */
static inline void rt_probe_count_filtered(struct rt_program_segment *segment)
{
	uint32_t i = segment->first_locked;
#ifdef RT_PROBE_RSEQ
	int32_t cpu = __rseq_size ? (int32_t)rt_probe_rseq()->cpu_id : -1;

	if (cpu >= 0 && (uint32_t)cpu < i)
		i = (uint32_t)cpu;
#endif
	if (__atomic_add_fetch(&rt_probe_ring(segment, i)->filtered, 1, __ATOMIC_RELAXED) % RT_PROBE_LOOK_FILTERED == 0)
		rt_probe_look();
}

/* Whether the event is to be written. The daemon may change the tests meanwhile. */
RT_PROBE_OWN int rt_probe_passes(const struct rt_probe_site *site, const uint64_t *fixed, uint32_t words,
				 const uint64_t *value)
{
	const struct rt_probe_event event = {site, fixed, value, words};
	struct rt_program_segment *segment = __atomic_load_n(&rt_probe_segment, __ATOMIC_ACQUIRE);
	uint32_t turn = __atomic_load_n(&segment->turn, __ATOMIC_ACQUIRE);
	uint32_t first = __atomic_load_n(&segment->enabled[site->word - __start_rt_probe_words], __ATOMIC_ACQUIRE);

	if (turn % 2 || first < RT_PROGRAM_NARROWED || rt_probe_run(segment, first - RT_PROGRAM_NARROWED, &event) ||
	    __atomic_load_n(&segment->turn, __ATOMIC_RELAXED) != turn)
		return 1;
	rt_probe_count_filtered(segment);
	return 0;
}

/* One event: the words of its arguments, then its texts. */
RT_PROBE_OWN void rt_probe_emit(const struct rt_probe_site *site, const uint64_t *value)
{
	uint64_t record[RT_PROGRAM_WORDS_MAX] RT_PROBE_UNCLEARED;

	rt_probe_put_as(site, record, rt_probe_add_arguments(site, value, record, RT_PROGRAM_HEAD_WORDS));
}

/* ---- Spans --------------------------------------------------------------------------------------- */

static inline uint64_t rt_span_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Never 0. The time goes in, so that a child that nobody told of its birth draws other numbers than its parent. */
static inline uint64_t rt_span_draw(uint64_t now_ns)
{
	uint64_t drawn;

	if (!rt_span_seed && syscall(SYS_getrandom, &rt_span_seed, sizeof(rt_span_seed), 1) !=
				     (long)sizeof(rt_span_seed))
		rt_span_seed = now_ns ^ (uint64_t)(uintptr_t)&rt_span_seed << 20;
	rt_span_seed += 0x9e3779b97f4a7c15u;
	drawn = rt_span_seed ^ now_ns * 0xff51afd7ed558ccdu;
	drawn = (drawn ^ drawn >> 30) * 0xbf58476d1ce4e5b9u;
	drawn = (drawn ^ drawn >> 27) * 0x94d049bb133111ebu;
	drawn ^= drawn >> 31;
	return drawn ? drawn : 1;
}

/* The first byte in memory becomes the highest. */
static inline uint64_t rt_span_in_order(uint64_t bytes)
{
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
	return bytes;
#else
	return __builtin_bswap64(bytes);
#endif
}

/* Eight digits at once: a loop over digits costs more than all the rest of a span. */
static inline void rt_span_put_digits(uint32_t value, char text[8])
{
	uint64_t digit = value, letter;

	digit = (digit << 16 | digit) & 0x0000ffff0000ffffu;
	digit = (digit << 8 | digit) & 0x00ff00ff00ff00ffu;
	digit = (digit << 4 | digit) & 0x0f0f0f0f0f0f0f0fu;
	letter = (digit + 0x0606060606060606u) >> 4 & 0x0101010101010101u;
	digit = rt_span_in_order(digit + 0x3030303030303030u + letter * ('a' - '0' - 10));
	memcpy(text, &digit, sizeof(digit));
}

static inline uint32_t rt_span_take_digits(const char text[8])
{
	uint64_t digit;

	memcpy(&digit, text, sizeof(digit));
	digit = rt_span_in_order(digit);
	digit = (digit & 0x0f0f0f0f0f0f0f0fu) + (digit >> 6 & 0x0101010101010101u) * 9;
	digit = (digit | digit >> 4) & 0x00ff00ff00ff00ffu;
	digit = (digit | digit >> 8) & 0x0000ffff0000ffffu;
	return (uint32_t)(digit | digit >> 16);
}

static inline void rt_span_put_hex(uint64_t value, char text[16])
{
	rt_span_put_digits((uint32_t)(value >> 32), text);
	rt_span_put_digits((uint32_t)value, text + 8);
}

static inline uint64_t rt_span_take_hex(const char text[16])
{
	return (uint64_t)rt_span_take_digits(text) << 32 | rt_span_take_digits(text + 8);
}

static inline int rt_span_is_hex(const char *text, unsigned digits)
{
	for (unsigned i = 0; i < digits; i++)
		if (!((text[i] >= '0' && text[i] <= '9') || (text[i] >= 'a' && text[i] <= 'f')))
			return 0;
	return 1;
}

static inline int rt_span_is_zero(const char *text, unsigned digits)
{
	while (digits && text[digits - 1] == '0')
		digits--;
	return !digits;
}

static inline unsigned rt_span_digit(char digit)
{
	return digit <= '9' ? (unsigned)(digit - '0') : (unsigned)(digit - 'a' + 10);
}

/* Whether there is such a span. */
static inline int rt_span_is_there(const struct rt_span_context *context)
{
	return context && context->trace_id[0];
}

/* `from`; or else the innermost scope of the thread. */
static inline void rt_span_find_parent(const struct rt_span_context *from, struct rt_span_context *parent)
{
	const struct rt_span_here *here = &rt_span_innermost;

	memset(parent, 0, sizeof(*parent));
	if (from) {
		*parent = *from;
	} else if (here->span_id) {
		rt_span_put_hex(here->trace_id[0], parent->trace_id);
		rt_span_put_hex(here->trace_id[1], parent->trace_id + 16);
		rt_span_put_hex(here->span_id, parent->span_id);
		parent->flags = (uint8_t)here->flags;
	}
}

/* Whether the scope was entered before the other one. The numbers begin again after 4 billion. */
static inline int rt_span_is_older(uint32_t scope, uint32_t other)
{
	return other && (!scope || (int32_t)(scope - other) < 0);
}

/* Whoever is amid the scope is inside it. */
static inline void rt_span_enter(struct rt_span *span)
{
	struct rt_span_here *here = &rt_span_innermost;

	span->before = *here;
	span->thread = here;
	span->listed = 1;
	rt_span_scopes += rt_span_scopes == UINT32_MAX ? 2 : 1;
	span->scope = rt_span_scopes;
	here->open++;
	here->outer = here->scope;
	here->scope = span->scope;
	here->trace_id[0] = here->trace_id[1] = here->span_id = here->flags = 0;
	if (rt_span_is_there(&span->context)) {
		here->trace_id[0] = rt_span_take_hex(span->context.trace_id);
		here->trace_id[1] = rt_span_take_hex(span->context.trace_id + 16);
		here->span_id = rt_span_take_hex(span->context.span_id);
		here->flags = span->context.flags;
	}
}

/*
 * Coroutines leave their scopes in any order, and longjmp(3) leaves some out. The innermost scope stays what it is where
 * the one that is left is not around it; else it becomes what it was before that, but never a younger one. With
 * the last scope of the thread all is forgotten.
 */
static inline void rt_span_uncover(const struct rt_span *span)
{
	struct rt_span_here *here = &rt_span_innermost;
	uint32_t open = here->open ? here->open - 1 : 0;
	int is_apart = rt_span_is_older(here->outer, span->scope) && rt_span_is_older(span->scope, here->scope);

	if (!open)
		memset(here, 0, sizeof(*here));
	else if (here->scope == span->scope || (!is_apart && rt_span_is_older(span->before.scope, here->scope)))
		*here = span->before;
	here->open = open;
}

/* As struct rt_program_ids has them. */
static inline void rt_span_put_ids(const struct rt_span *span, uint64_t *words)
{
	struct rt_program_ids ids;

	memcpy(ids.trace_id, span->context.trace_id, sizeof(ids.trace_id));
	memcpy(ids.span_id, span->context.span_id, sizeof(ids.span_id));
	memcpy(ids.parent_id, span->parent_id, sizeof(ids.parent_id));
	memcpy(words, &ids, sizeof(ids));
}

RT_PROBE_OWN void rt_span_begin(struct rt_span *span, int scope, const struct rt_span_context *from,
				const struct rt_probe_site *begin, const struct rt_probe_site *end,
				const uint64_t *value)
{
	uint64_t record[RT_PROGRAM_WORDS_MAX] RT_PROBE_UNCLEARED;
	struct rt_span made;

	memset(&made, 0, sizeof(made));
	rt_span_find_parent(from, &made.context);
	made.begin_ns = rt_span_now();
	made.end = end;
	made.life = rt_span_life;
	if (rt_span_is_there(&made.context)) {
		memcpy(made.parent_id, made.context.span_id, sizeof(made.parent_id));
	} else {
		rt_span_put_hex(rt_span_draw(made.begin_ns), made.context.trace_id);
		rt_span_put_hex(rt_span_draw(made.begin_ns), made.context.trace_id + 16);
		made.context.flags = 1;
	}
	rt_span_put_hex(rt_span_draw(made.begin_ns), made.context.span_id);
	*span = made;
	if (scope)
		rt_span_enter(span);
	if (!rt_probe_is_enabled(begin->word))
		return;
	rt_span_put_ids(span, record + RT_PROGRAM_HEAD_WORDS);
	record[RT_PROGRAM_HEAD_WORDS + RT_PROGRAM_BEGIN_WORDS - 1] = scope != 0;
	if (rt_probe_enabled(begin->word) >= RT_PROGRAM_NARROWED &&
	    !rt_probe_passes(begin, record + RT_PROGRAM_HEAD_WORDS, RT_PROGRAM_BEGIN_WORDS, value))
		return;
	rt_probe_put_as(begin, record, rt_probe_add_arguments(begin, value, record,
							      RT_PROGRAM_HEAD_WORDS + RT_PROGRAM_BEGIN_WORDS));
}

/* One that is not recorded: what is inside it is under the span around it. */
RT_PROBE_OWN void rt_span_pass(struct rt_span *span, int scope, const struct rt_span_context *from)
{
	struct rt_span made;

	memset(&made, 0, sizeof(made));
	rt_span_find_parent(from, &made.context);
	*span = made;
	if (scope)
		rt_span_enter(span);
}

/*
 * The end of what RT_SPAN_BEGIN() began, on any thread. It ends once; where it is not recorded, or was begun before a
 * fork(2) by the parent, nothing happens.
 */
RT_PROBE_OWN void rt_span_end(struct rt_span *span)
{
	const struct rt_probe_site *site = __atomic_exchange_n(&span->end, (const struct rt_probe_site *)NULL,
							       __ATOMIC_ACQ_REL);
	uint64_t record[RT_PROGRAM_HEAD_WORDS + RT_PROGRAM_END_WORDS];

	if (!site || span->life != rt_span_life || !rt_probe_is_enabled(site->word))
		return;
	record[RT_PROGRAM_HEAD_WORDS] = rt_span_now() - span->begin_ns;
	rt_span_put_ids(span, record + RT_PROGRAM_HEAD_WORDS + 1);
	record[RT_PROGRAM_HEAD_WORDS + RT_PROGRAM_END_WORDS - 1] = (uint64_t)(int64_t)span->status;
	if (rt_probe_enabled(site->word) >= RT_PROGRAM_NARROWED &&
	    !rt_probe_passes(site, record + RT_PROGRAM_HEAD_WORDS, RT_PROGRAM_END_WORDS, NULL))
		return;
	rt_probe_put_as(site, record, RT_PROGRAM_HEAD_WORDS + RT_PROGRAM_END_WORDS);
}

/* Of a scope. A coroutine may have moved to another thread, which is not inside it. */
RT_PROBE_OWN void rt_span_close(struct rt_span *span)
{
	span->listed = 0;
	if (span->thread == &rt_span_innermost)
		rt_span_uncover(span);
	rt_span_end(span);
}

static inline void rt_span_leave(struct rt_span *span)
{
	if (__builtin_expect(span->listed != 0, 0))
		rt_span_close(span);
}

/* The innermost scope of this thread: 0, or -1 if there is none. */
RT_PROBE_OWN int rt_span_current(struct rt_span_context *context)
{
	rt_span_find_parent(NULL, context);
	return rt_span_is_there(context) ? 0 : -1;
}

/* The thread is in no scope: for a program that has left all of them by longjmp(3), or by the end of a coroutine. */
RT_PROBE_OWN void rt_span_forget(void)
{
	memset(&rt_span_innermost, 0, sizeof(rt_span_innermost));
}

/*
 * From W3C's header `traceparent`, "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01": 0, or -1 if it is none,
 * or NULL; then a span under it is the first of a trace.
 */
RT_PROBE_OWN int rt_span_parse(const char *traceparent, struct rt_span_context *context)
{
	const char *at = traceparent ? traceparent : "";
	size_t bytes = strnlen(at, RT_TRACEPARENT_BYTES);

	memset(context, 0, sizeof(*context));
	if (bytes < RT_TRACEPARENT_BYTES - 1 || !rt_span_is_hex(at, 2) || memcmp(at, "ff", 2) == 0 ||
	    at[2] != '-' || !rt_span_is_hex(at + 3, 32) || rt_span_is_zero(at + 3, 32) || at[35] != '-' ||
	    !rt_span_is_hex(at + 36, 16) || rt_span_is_zero(at + 36, 16) || at[52] != '-' ||
	    !rt_span_is_hex(at + 53, 2))
		return -1;
	/* What a later version has more stands behind another mark. */
	if (at[55] && (memcmp(at, "00", 2) == 0 || at[55] != '-'))
		return -1;
	memcpy(context->trace_id, at + 3, sizeof(context->trace_id));
	memcpy(context->span_id, at + 36, sizeof(context->span_id));
	context->flags = (uint8_t)(rt_span_digit(at[53]) << 4 | rt_span_digit(at[54]));
	return 0;
}

/* The header for another program: 0, or -1 and an empty text if there is no such span. */
RT_PROBE_OWN int rt_span_text(const struct rt_span_context *context, char text[RT_TRACEPARENT_BYTES])
{
	static const char digit[] = "0123456789abcdef";

	text[0] = 0;
	if (!rt_span_is_there(context))
		return -1;
	memcpy(text, "00-", 3);
	memcpy(text + 3, context->trace_id, sizeof(context->trace_id));
	text[35] = '-';
	memcpy(text + 36, context->span_id, sizeof(context->span_id));
	text[52] = '-';
	text[53] = digit[context->flags >> 4];
	text[54] = digit[context->flags & 15];
	text[55] = 0;
	return 0;
}

/* ---- Attaching ----------------------------------------------------------------------------------- */

/* After what a call on the socket said: 0: try again; -1: it is broken, or the daemon has had its time. */
static inline int rt_probe_await(int fd, short events, uint64_t until_ns)
{
	int before = errno, left_ms;
	struct pollfd wanted;
	uint64_t now = rt_span_now();

	if ((before != EAGAIN && before != EWOULDBLOCK && before != EINTR) || now >= until_ns)
		return -1;
	left_ms = (int)((until_ns - now + 999999) / 1000000);
	wanted.fd = fd;
	wanted.events = events;
	wanted.revents = 0;
	return poll(&wanted, 1, left_ms) < 0 && errno != EINTR ? -1 : 0;
}

static inline int rt_probe_send(int fd, const void *data, size_t bytes, uint64_t until_ns)
{
	const char *at = (const char *)data;

	while (bytes) {
		ssize_t sent = send(fd, at, bytes, MSG_NOSIGNAL | MSG_DONTWAIT);

		if (sent < 0 && rt_probe_await(fd, POLLOUT, until_ns) == 0)
			continue;
		if (sent <= 0)
			return -1;
		at += sent;
		bytes -= (size_t)sent;
	}
	return 0;
}

static inline size_t rt_probe_add_part(char *to, size_t used, size_t room, const char *text, size_t bytes)
{
	if (used + bytes + 1 > room)
		return room + 1;
	memcpy(to + used, text, bytes);
	to[used + bytes] = 0;
	return used + bytes + 1;
}

static inline size_t rt_probe_add(char *to, size_t used, size_t room, const char *text)
{
	return rt_probe_add_part(to, used, room, text, strlen(text));
}

/* As an argument is written, without what RT_ARRAY() has put around it: `sizes` of RT_ARRAY(request->sizes, n). */
static inline size_t rt_probe_add_written(char *to, size_t used, size_t room, const char *written, uint8_t type)
{
	const char *begin = rt_type_is_array(type) ? strstr(written, RT_PROBE_ARRAY_MARK) : NULL;
	size_t depth = 1, bytes = 0;

	if (!begin)
		return rt_probe_add(to, used, room, written);
	begin += strlen(RT_PROBE_ARRAY_MARK);
	for (; begin[bytes]; bytes++) {
		depth += begin[bytes] == '(';
		depth -= begin[bytes] == ')';
		if (!depth)
			break;
	}
	return rt_probe_add_part(to, used, room, begin, bytes);
}

/* A probe as it is sent; 0: it has too much text. */
static inline uint32_t rt_probe_describe(const struct rt_probe_site *site, char *to, size_t room)
{
	const char *const text[] = {site->provider, site->name, site->format, site->file};
	struct rt_program_probe probe;
	size_t used = sizeof(probe);

	memset(&probe, 0, sizeof(probe));
	memset(to, 0, room);
	for (unsigned i = 0; i < sizeof(text) / sizeof(text[0]) && used <= room; i++)
		used = rt_probe_add(to, used, room, text[i]);
	for (unsigned i = 0; i < site->arguments && used <= room; i++)
		used = rt_probe_add_written(to, used, room, site->written[i], site->type[i]);
	used = (used + 7) / 8 * 8;
	if (used > room)
		return 0;
	probe.bytes = (uint32_t)used;
	probe.line = site->line;
	probe.args = (uint16_t)site->arguments;
	probe.sort = (uint16_t)site->sort;
	memcpy(probe.type, site->type, site->arguments);
	memcpy(to, &probe, sizeof(probe));
	return probe.bytes;
}

static inline size_t rt_probe_count(void)
{
	const uint32_t *begin = __start_rt_probe_words, *end = __stop_rt_probe_words;

	return (size_t)(end - begin);
}

/* In the order of the words: that is a probe's number. */
static inline const struct rt_probe_site *rt_probe_site_of(const uint32_t *word)
{
	for (const struct rt_probe_site *const *site = __start_rt_probe_sites; site < __stop_rt_probe_sites; site++)
		if ((*site)->word == word)
			return *site;
	return NULL;
}

/*
 * As for ptrace(2): a program that has, or had, rights which its user has not shows that user nothing. It gets others
 * by an exec alone, so the kernel is asked for them once: a sandbox may forbid that later.
 */
static inline int rt_probe_is_shown(void)
{
	static int rights = -1;
	uint32_t header[2] = {0x20080522, 0}, capability[6];	/* struct __user_cap_header_struct; _data_struct, two */

	if (prctl(PR_GET_DUMPABLE) != 1)
		return 0;
	if (rights < 0)
		rights = syscall(SYS_capget, header, capability) != 0 || capability[1] || capability[4];
	return !rights;
}

static inline int rt_probe_send_table(int fd, uint64_t until_ns)
{
	struct rt_program_hello hello;
	char text[2048];
	uint32_t bytes;

	memset(&hello, 0, sizeof(hello));
	hello.magic = RT_PROGRAM_MAGIC;
	hello.version = RT_PROGRAM_VERSION;
	hello.pid = (uint32_t)getpid();
	hello.flags = RT_PROGRAM_RETURNS | (rt_probe_is_shown() ? RT_PROGRAM_SHOWN : 0);
	prctl(PR_GET_NAME, hello.comm);
#ifdef RT_PROBE_RSEQ
	hello.rseq = __rseq_size != 0;
#endif
	for (const uint32_t *word = __start_rt_probe_words; word < __stop_rt_probe_words; word++, hello.probes++) {
		const struct rt_probe_site *site = rt_probe_site_of(word);

		bytes = site ? rt_probe_describe(site, text, sizeof(text)) : 0;
		if (!bytes)
			return -1;
		hello.bytes += bytes;
	}
	if (rt_probe_send(fd, &hello, sizeof(hello), until_ns) != 0)
		return -1;
	for (const uint32_t *word = __start_rt_probe_words; word < __stop_rt_probe_words; word++) {
		bytes = rt_probe_describe(rt_probe_site_of(word), text, sizeof(text));
		if (rt_probe_send(fd, text, bytes, until_ns) != 0)
			return -1;
	}
	return 0;
}

static inline ssize_t rt_probe_receive(int fd, struct msghdr *message, uint64_t until_ns)
{
	ssize_t got;

	do
		got = recvmsg(fd, message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
	while (got < 0 && rt_probe_await(fd, POLLIN, until_ns) == 0);
	return got;
}

/* The first descriptor that came along, or -1; others are closed. */
static inline int rt_probe_take_descriptor(struct msghdr *message)
{
	struct cmsghdr *header = CMSG_FIRSTHDR(message);
	int first = -1, fd;

	if (!header || header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS)
		return -1;
	for (size_t at = CMSG_LEN(0); at + sizeof(fd) <= header->cmsg_len; at += sizeof(fd)) {
		memcpy(&fd, (const char *)header + at, sizeof(fd));
		if (first < 0)
			first = fd;
		else
			close(fd);
	}
	return first;
}

/* The segment's descriptor, or -1. */
static inline int rt_probe_take_welcome(int fd, uint64_t until_ns, uint64_t *bytes)
{
	union {
		struct cmsghdr header;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control;
	struct rt_program_welcome welcome;
	struct iovec iov;
	struct msghdr message;
	ssize_t got;
	int segment;

	memset(&message, 0, sizeof(message));
	memset(&welcome, 0, sizeof(welcome));
	iov.iov_base = &welcome;
	iov.iov_len = sizeof(welcome);
	message.msg_iov = &iov;
	message.msg_iovlen = 1;
	message.msg_control = control.bytes;
	message.msg_controllen = sizeof(control.bytes);
	got = rt_probe_receive(fd, &message, until_ns);
	segment = got < 0 ? -1 : rt_probe_take_descriptor(&message);
	if (segment >= 0 && (got != (ssize_t)sizeof(welcome) || welcome.magic != RT_PROGRAM_MAGIC ||
			     welcome.version != RT_PROGRAM_VERSION || welcome.err)) {
		close(segment);
		return -1;
	}
	*bytes = welcome.bytes;
	return segment;
}

/* A program that closed 0, 1 or 2 means to open them itself. */
static inline int rt_probe_open_socket(void)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), higher;

	if (fd < 0 || fd > 2)
		return fd;
	higher = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	close(fd);
	return higher;
}

/* A descriptor; RT_PROBE_REFUSED; or -1. */
static inline int rt_probe_connect(void)
{
	const char *path = getauxval(AT_SECURE) ? NULL : getenv("RINGTAIL_PROGRAMS");
	struct timeval wait;
	struct sockaddr_un address;
	int fd, failure;

	path = path ? path : RT_PROGRAM_SOCKET;
	memset(&address, 0, sizeof(address));
	address.sun_family = AF_UNIX;
	if (!*path || strlen(path) >= sizeof(address.sun_path))
		return -1;
	memcpy(address.sun_path, path, strlen(path));
	fd = rt_probe_open_socket();
	if (fd < 0)
		return -1;
	wait.tv_sec = 0;
	wait.tv_usec = RT_PROBE_WAIT_US;
	/* It may not even accept. */
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof(wait));
	if (connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0)
		return fd;
	failure = errno == ECONNREFUSED ? RT_PROBE_REFUSED : -1;
	close(fd);
	return failure;
}

/* A thread may have been forbidden to read it: prctl(2), PR_SET_TSC. */
static inline int rt_probe_has_counter(void)
{
#if defined(__x86_64__) && defined(PR_GET_TSC)
	int allowed = 0;

	return prctl(PR_GET_TSC, &allowed) == 0 && allowed == PR_TSC_ENABLE;
#else
	return 0;
#endif
}

/* 0, or -1: nothing has changed. */
static inline int rt_probe_map(int fd, uint64_t until_ns)
{
	uint64_t bytes = 0;
	int segment_fd = rt_probe_send_table(fd, until_ns) == 0 ? rt_probe_take_welcome(fd, until_ns, &bytes) : -1;
	struct rt_program_segment *segment;
	struct stat self;
	int before;

	if (segment_fd < 0)
		return -1;
	if (fstat(fd, &self) != 0) {
		close(segment_fd);
		return -1;
	}
	segment = (struct rt_program_segment *)mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, segment_fd, 0);
	close(segment_fd);
	if (segment == MAP_FAILED)
		return -1;
	if (!rt_probe_has_counter())
		segment->counter = 0;
	/* Other threads may be in the one before: it stays mapped. */
	__atomic_store_n(&rt_probe_segment, segment, __ATOMIC_RELEASE);
	before = __atomic_exchange_n(&rt_probe_socket, -1, __ATOMIC_ACQ_REL);
	rt_probe_close(before);
	rt_probe_device = self.st_dev;
	rt_probe_inode = self.st_ino;
	__atomic_store_n(&rt_probe_socket, fd, __ATOMIC_RELEASE);
	rt_probe_gone_s = 0;
	/* From here on it can be enabled. */
	__atomic_store_n(&rt_probe_shift, (uintptr_t)segment->enabled - (uintptr_t)__start_rt_probe_words,
			 __ATOMIC_RELEASE);
	return 0;
}

/* Whether the object looks for a daemon once a second, as all of its probes seem to be asked for. */
static inline int rt_probe_is_seeking(void)
{
	struct rt_program_segment *segment = rt_probe_segment;

	return rt_probe_shift && segment && __atomic_load_n(&segment->leaving, __ATOMIC_RELAXED);
}

/* A daemon is about to listen: until then it is as if it had left. The page is the program's own, and stays. */
static inline void rt_probe_expect(void)
{
	struct rt_program_segment *segment = rt_probe_segment;

	if (rt_probe_shift)
		return;
	if (!segment || segment->rings)
		segment = (struct rt_program_segment *)mmap(NULL, RT_PROGRAM_PAGE, PROT_READ | PROT_WRITE,
							    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (segment == MAP_FAILED)
		return;
	for (size_t i = 0; i < rt_probe_count(); i++)
		segment->enabled[i] = 1;
	segment->leaving = 1;
	rt_probe_gone_s = 0;
	__atomic_store_n(&rt_probe_segment, segment, __ATOMIC_RELEASE);
	__atomic_store_n(&rt_probe_shift, (uintptr_t)segment->enabled - (uintptr_t)__start_rt_probe_words,
			 __ATOMIC_RELEASE);
}

/*
 * Connects to the daemon, unless the object is connected: 0, or -1 if there is none. The header does that when the
 * object is loaded, and in the child of a fork(2); a program may do it again at any time, to find a daemon that
 * was started later.
 */
RT_PROBE_OWN int rt_probe_attach(void)
{
	uint64_t until_ns = rt_span_now() + RT_PROBE_WAIT_US * 1000ull;
	struct rt_program_segment *segment;
	size_t probes = rt_probe_count();
	int before = errno, hears, fd, err = -1;

	if (!probes || probes > RT_PROGRAM_PROBES_MAX ||
	    __atomic_exchange_n(&rt_probe_attaching, 1, __ATOMIC_ACQUIRE))
		return -1;
	hears = rt_probe_hears();
	if (hears == 1) {
		err = 0;
	} else {
		segment = rt_probe_segment;
		fd = rt_probe_connect();
		if (fd >= 0)
			err = rt_probe_map(fd, until_ns);
		if (fd == RT_PROBE_REFUSED)
			rt_probe_expect();
		else if (fd >= 0 && err)
			close(fd);
		else if (fd >= 0 && hears == 0)
			rt_probe_release(segment);
	}
	__atomic_store_n(&rt_probe_attaching, 0, __ATOMIC_RELEASE);
	errno = before;
	return err;
}

/* The child of a fork(2) is a process of its own. */
RT_PROBE_OWN void rt_probe_forked(void)
{
	int was_attached = rt_probe_socket >= 0, was_seeking = rt_probe_is_seeking(), before = errno;
	uintptr_t shift = rt_probe_shift;

	rt_probe_tid = 0;
	rt_span_seed = 0;
	rt_span_life++;
	rt_probe_attaching = 0;
	rt_probe_detach();
	/* It looks for the next daemon as its parent does. */
	if ((was_attached || was_seeking) && rt_probe_attach() != 0 && was_seeking && !rt_probe_shift)
		rt_probe_shift = shift;
	errno = before;
}

RT_PROBE_OWN void rt_probe_start(void)
{
	if (rt_probe_started++)
		return;
	if (!rt_probe_count())
		return;
	pthread_atfork(NULL, NULL, rt_probe_forked);
	rt_probe_attach();
}

__attribute__((constructor, unused)) static void rt_probe_at_load(void)
{
	rt_probe_start();
}

__attribute__((destructor, unused)) static void rt_probe_at_end(void)
{
	rt_probe_detach();
}

/* Whoever asks for it has said `on`. */
static inline void rt_probe_pass(const struct rt_probe_site *site, uint32_t on, const uint64_t *value)
{
	if (on < RT_PROGRAM_NARROWED || rt_probe_passes(site, NULL, 0, value))
		rt_probe_emit(site, value);
}

#ifdef __cplusplus
}
#endif

/* ---- Types and values of arguments ---------------------------------------------------------------- */

static inline uint64_t rt_value_unsigned(unsigned long long value) { return value; }
static inline uint64_t rt_value_signed(long long value) { return (uint64_t)value; }
static inline uint64_t rt_value_pointer(const volatile void *value) { return (uint64_t)(uintptr_t)value; }

#ifdef __cplusplus
/* sizeof what one of them returns is the type; a floating point number is ambiguous, and does not compile. */
#define RT_CXX_TYPE(type, kind, value) \
	char (&rt_type_of(type))[rt_program_type(kind, sizeof(type))]; \
	static inline uint64_t rt_value_of(type argument) { return value(argument); }
RT_CXX_TYPE(bool, RT_PROGRAM_UNSIGNED, rt_value_unsigned)
RT_CXX_TYPE(char, RT_PROGRAM_SIGNED, rt_value_signed)
RT_CXX_TYPE(signed char, RT_PROGRAM_SIGNED, rt_value_signed)
RT_CXX_TYPE(unsigned char, RT_PROGRAM_UNSIGNED, rt_value_unsigned)
RT_CXX_TYPE(short, RT_PROGRAM_SIGNED, rt_value_signed)
RT_CXX_TYPE(unsigned short, RT_PROGRAM_UNSIGNED, rt_value_unsigned)
RT_CXX_TYPE(int, RT_PROGRAM_SIGNED, rt_value_signed)
RT_CXX_TYPE(unsigned, RT_PROGRAM_UNSIGNED, rt_value_unsigned)
RT_CXX_TYPE(long, RT_PROGRAM_SIGNED, rt_value_signed)
RT_CXX_TYPE(unsigned long, RT_PROGRAM_UNSIGNED, rt_value_unsigned)
RT_CXX_TYPE(long long, RT_PROGRAM_SIGNED, rt_value_signed)
RT_CXX_TYPE(unsigned long long, RT_PROGRAM_UNSIGNED, rt_value_unsigned)
RT_CXX_TYPE(const char *, RT_PROGRAM_STRING, rt_value_pointer)
RT_CXX_TYPE(const volatile void *, RT_PROGRAM_POINTER, rt_value_pointer)
#define RT_TYPE_OF(x)	sizeof(rt_type_of(x))
#define RT_VALUE_OF(x)	rt_value_of(x)

#define RT_CXX_ARRAY_OF(type, array) \
	static inline array rt_array_of_elements(const type *at, uint64_t count) { array made = {{at, count}}; return made; }
#define RT_CXX_ARRAY(name, bytes, kind) \
	struct name { rt_array array; }; \
	char (&rt_type_of(const name *))[rt_program_type(kind, bytes)]; \
	static inline const void *rt_checked(const name *argument) { return argument; } \
	static inline uint64_t rt_value_of(const name *argument) { return rt_value_pointer(argument); }
RT_CXX_ARRAY(rt_array_u8, 1, RT_PROGRAM_UNSIGNEDS)
RT_CXX_ARRAY(rt_array_u16, 2, RT_PROGRAM_UNSIGNEDS)
RT_CXX_ARRAY(rt_array_u32, 4, RT_PROGRAM_UNSIGNEDS)
RT_CXX_ARRAY(rt_array_u64, 8, RT_PROGRAM_UNSIGNEDS)
RT_CXX_ARRAY(rt_array_ulong, sizeof(long), RT_PROGRAM_UNSIGNEDS)
RT_CXX_ARRAY(rt_array_i8, 1, RT_PROGRAM_SIGNEDS)
RT_CXX_ARRAY(rt_array_i16, 2, RT_PROGRAM_SIGNEDS)
RT_CXX_ARRAY(rt_array_i32, 4, RT_PROGRAM_SIGNEDS)
RT_CXX_ARRAY(rt_array_i64, 8, RT_PROGRAM_SIGNEDS)
RT_CXX_ARRAY(rt_array_long, sizeof(long), RT_PROGRAM_SIGNEDS)
RT_CXX_ARRAY_OF(bool, rt_array_u8)
RT_CXX_ARRAY_OF(char, rt_array_i8)
RT_CXX_ARRAY_OF(signed char, rt_array_i8)
RT_CXX_ARRAY_OF(unsigned char, rt_array_u8)
RT_CXX_ARRAY_OF(short, rt_array_i16)
RT_CXX_ARRAY_OF(unsigned short, rt_array_u16)
RT_CXX_ARRAY_OF(int, rt_array_i32)
RT_CXX_ARRAY_OF(unsigned, rt_array_u32)
RT_CXX_ARRAY_OF(long, rt_array_long)
RT_CXX_ARRAY_OF(unsigned long, rt_array_ulong)
RT_CXX_ARRAY_OF(long long, rt_array_i64)
RT_CXX_ARRAY_OF(unsigned long long, rt_array_u64)
template <class array> static inline const array *rt_array_at(const array &made) { return &made; }
#define RT_ARRAY(elements, count)	rt_array_at(rt_array_of_elements((elements), static_cast<uint64_t>(count)))
/* For a format's check, an array is an address. */
template <class type> static inline type rt_checked(type argument) { return argument; }
#define RT_CHECKED(x)	rt_checked(x)

/* The values of a probe, and what they point at, until it is passed. */
template <size_t values> struct rt_values_of { uint64_t value[values]; };
#define RT_VALUES(...)	(rt_values_of<sizeof(rt_types)>{{__VA_ARGS__}}.value)
#else
/* Never defined: they tell the types of arrays apart. */
struct rt_array_u8; struct rt_array_u16; struct rt_array_u32; struct rt_array_u64; struct rt_array_ulong;
struct rt_array_i8; struct rt_array_i16; struct rt_array_i32; struct rt_array_i64; struct rt_array_long;
#define RT_C_ARRAY(name) \
	static inline const struct name *name##_at(const struct rt_array *array) { return (const struct name *)array; }
RT_C_ARRAY(rt_array_u8)
RT_C_ARRAY(rt_array_u16)
RT_C_ARRAY(rt_array_u32)
RT_C_ARRAY(rt_array_u64)
RT_C_ARRAY(rt_array_ulong)
RT_C_ARRAY(rt_array_i8)
RT_C_ARRAY(rt_array_i16)
RT_C_ARRAY(rt_array_i32)
RT_C_ARRAY(rt_array_i64)
RT_C_ARRAY(rt_array_long)
#define RT_C_ARRAY_AS(type, name)	type *: name##_at, const type *: name##_at
#define RT_ARRAY(elements, count)	_Generic((elements), \
	RT_C_ARRAY_AS(_Bool, rt_array_u8), \
	RT_C_ARRAY_AS(char, rt_array_i8), \
	RT_C_ARRAY_AS(signed char, rt_array_i8), \
	RT_C_ARRAY_AS(unsigned char, rt_array_u8), \
	RT_C_ARRAY_AS(short, rt_array_i16), \
	RT_C_ARRAY_AS(unsigned short, rt_array_u16), \
	RT_C_ARRAY_AS(int, rt_array_i32), \
	RT_C_ARRAY_AS(unsigned, rt_array_u32), \
	RT_C_ARRAY_AS(long, rt_array_long), \
	RT_C_ARRAY_AS(unsigned long, rt_array_ulong), \
	RT_C_ARRAY_AS(long long, rt_array_i64), \
	RT_C_ARRAY_AS(unsigned long long, rt_array_u64))(&(const struct rt_array){(elements), (uint64_t)(count)})
/* For a format's check, an array is an address. */
#define RT_CHECKED(x)	_Generic((x), \
	const struct rt_array_u8 *: (const void *)0, const struct rt_array_u16 *: (const void *)0, \
	const struct rt_array_u32 *: (const void *)0, const struct rt_array_u64 *: (const void *)0, \
	const struct rt_array_ulong *: (const void *)0, const struct rt_array_i8 *: (const void *)0, \
	const struct rt_array_i16 *: (const void *)0, const struct rt_array_i32 *: (const void *)0, \
	const struct rt_array_i64 *: (const void *)0, const struct rt_array_long *: (const void *)0, default: (x))
#define RT_VALUES(...)	((const uint64_t[]){__VA_ARGS__})
#define RT_TYPE_OF(x)	_Generic((x), \
	_Bool: rt_program_type(RT_PROGRAM_UNSIGNED, 1), \
	char: rt_program_type(RT_PROGRAM_SIGNED, 1), \
	signed char: rt_program_type(RT_PROGRAM_SIGNED, 1), \
	unsigned char: rt_program_type(RT_PROGRAM_UNSIGNED, 1), \
	short: rt_program_type(RT_PROGRAM_SIGNED, 2), \
	unsigned short: rt_program_type(RT_PROGRAM_UNSIGNED, 2), \
	int: rt_program_type(RT_PROGRAM_SIGNED, 4), \
	unsigned: rt_program_type(RT_PROGRAM_UNSIGNED, 4), \
	long: rt_program_type(RT_PROGRAM_SIGNED, sizeof(long)), \
	unsigned long: rt_program_type(RT_PROGRAM_UNSIGNED, sizeof(long)), \
	long long: rt_program_type(RT_PROGRAM_SIGNED, 8), \
	unsigned long long: rt_program_type(RT_PROGRAM_UNSIGNED, 8), \
	char *: rt_program_type(RT_PROGRAM_STRING, sizeof(char *)), \
	const char *: rt_program_type(RT_PROGRAM_STRING, sizeof(char *)), \
	const struct rt_array_u8 *: rt_program_type(RT_PROGRAM_UNSIGNEDS, 1), \
	const struct rt_array_u16 *: rt_program_type(RT_PROGRAM_UNSIGNEDS, 2), \
	const struct rt_array_u32 *: rt_program_type(RT_PROGRAM_UNSIGNEDS, 4), \
	const struct rt_array_u64 *: rt_program_type(RT_PROGRAM_UNSIGNEDS, 8), \
	const struct rt_array_ulong *: rt_program_type(RT_PROGRAM_UNSIGNEDS, sizeof(long)), \
	const struct rt_array_i8 *: rt_program_type(RT_PROGRAM_SIGNEDS, 1), \
	const struct rt_array_i16 *: rt_program_type(RT_PROGRAM_SIGNEDS, 2), \
	const struct rt_array_i32 *: rt_program_type(RT_PROGRAM_SIGNEDS, 4), \
	const struct rt_array_i64 *: rt_program_type(RT_PROGRAM_SIGNEDS, 8), \
	const struct rt_array_long *: rt_program_type(RT_PROGRAM_SIGNEDS, sizeof(long)), \
	default: rt_program_type(RT_PROGRAM_POINTER, sizeof(void *)))
#define RT_VALUE_OF(x)	_Generic((x), \
	_Bool: rt_value_unsigned, unsigned char: rt_value_unsigned, unsigned short: rt_value_unsigned, \
	unsigned: rt_value_unsigned, unsigned long: rt_value_unsigned, unsigned long long: rt_value_unsigned, \
	char: rt_value_signed, signed char: rt_value_signed, short: rt_value_signed, int: rt_value_signed, \
	long: rt_value_signed, long long: rt_value_signed, default: rt_value_pointer)(x)
#endif

#define RT_TEXT_OF(x)	#x

/*
 * The word and the description of a probe. Each program and each shared object has its own, in two sections.
 *
 * g++ puts the static variables of an inline function into a group, of which the linker keeps one copy, and refuses a
 * section with two groups. So g++ gets another section name for each probe: the name, and a number in a comment. The
 * assembler skips the comment, and makes one section of all. The variables are members of a hidden class: so are their
 * symbols, and no object uses the word of another one. In a template, g++ ignores the section: RT_NO_TEMPLATE refuses
 * that.
 */
#if defined(__cplusplus) && !defined(__clang__)
#define RT_SECTION__(name, number)	name "/*" #number "*/"
#define RT_SECTION_(name, number)	RT_SECTION__(name, number)
#define RT_SECTION(name)		RT_SECTION_(name, __COUNTER__)
#define RT_SITE(here, provider, name, format, arguments, sort) \
	struct __attribute__((visibility("hidden"))) here { \
		__attribute__((always_inline)) static inline const rt_probe_site *at() \
		{ \
			static uint32_t rt_word __attribute__((section(RT_SECTION("rt_probe_words")), used)) = 0; \
			static const rt_probe_site rt_site = { \
				provider, name, format, __FILE__, __LINE__, arguments, rt_types, rt_written, &rt_word, sort}; \
			static const rt_probe_site *const rt_listed \
				__attribute__((section(RT_SECTION("rt_probe_sites")), used)) = &rt_site; \
			return &rt_site; \
		} \
	}
#define RT_SITE_OF(here)	(here::at())
#define RT_WORD_OF(here)	(here::at()->word)
/* Where g++ names the arguments of a template, as in "void f(T) [with T = int]". */
static constexpr bool rt_is_template(const char *function)
{
	for (; *function; function++)
		if (function[0] == '[' && function[1] == 'w' && function[2] == 'i' && function[3] == 't' && function[4] == 'h')
			return true;
	return false;
}
#define RT_NO_TEMPLATE	static_assert(!rt_is_template(__PRETTY_FUNCTION__), \
	"g++ takes no RT_PROBE() and no RT_SPAN() in a template: call a function from there that is none")
#else
#define RT_SITE(here, provider, name, format, arguments, sort) \
	static uint32_t here##_word __attribute__((section("rt_probe_words"), used)) = 0; \
	static const struct rt_probe_site here##_site = { \
		provider, name, format, __FILE__, __LINE__, arguments, rt_types, rt_written, &here##_word, sort}; \
	static const struct rt_probe_site *const here##_listed \
		__attribute__((section("rt_probe_sites"), used)) = &here##_site
#define RT_SITE_OF(here)	(&here##_site)
#define RT_WORD_OF(here)	(&here##_word)
#define RT_NO_TEMPLATE		(void)0
#endif

/* ---- The macro ------------------------------------------------------------------------------------ */

#define RT_COUNT_(f, a, b, c, d, e, g, h, i, j, k, n, ...)	n
#define RT_COUNT(...)	RT_COUNT_(__VA_ARGS__, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0, 0)
#define RT_EACH_0(m, f)
#define RT_EACH_1(m, f, a)	m(a),
#define RT_EACH_2(m, f, a, ...)	m(a), RT_EACH_1(m, f, __VA_ARGS__)
#define RT_EACH_3(m, f, a, ...)	m(a), RT_EACH_2(m, f, __VA_ARGS__)
#define RT_EACH_4(m, f, a, ...)	m(a), RT_EACH_3(m, f, __VA_ARGS__)
#define RT_EACH_5(m, f, a, ...)	m(a), RT_EACH_4(m, f, __VA_ARGS__)
#define RT_EACH_6(m, f, a, ...)	m(a), RT_EACH_5(m, f, __VA_ARGS__)
#define RT_EACH_7(m, f, a, ...)	m(a), RT_EACH_6(m, f, __VA_ARGS__)
#define RT_EACH_8(m, f, a, ...)	m(a), RT_EACH_7(m, f, __VA_ARGS__)
#define RT_EACH_9(m, f, a, ...)	m(a), RT_EACH_8(m, f, __VA_ARGS__)
#define RT_EACH_10(m, f, a, ...) m(a), RT_EACH_9(m, f, __VA_ARGS__)
#define RT_EACH__(n)	RT_EACH_##n
#define RT_EACH_(n)	RT_EACH__(n)
#define RT_EACH(m, ...)	RT_EACH_(RT_COUNT(__VA_ARGS__))(m, __VA_ARGS__)
/* The same with the comma before. */
#define RT_TELL_0(m, f)
#define RT_TELL_1(m, f, a)	, m(a)
#define RT_TELL_2(m, f, a, ...)	, m(a) RT_TELL_1(m, f, __VA_ARGS__)
#define RT_TELL_3(m, f, a, ...)	, m(a) RT_TELL_2(m, f, __VA_ARGS__)
#define RT_TELL_4(m, f, a, ...)	, m(a) RT_TELL_3(m, f, __VA_ARGS__)
#define RT_TELL_5(m, f, a, ...)	, m(a) RT_TELL_4(m, f, __VA_ARGS__)
#define RT_TELL_6(m, f, a, ...)	, m(a) RT_TELL_5(m, f, __VA_ARGS__)
#define RT_TELL_7(m, f, a, ...)	, m(a) RT_TELL_6(m, f, __VA_ARGS__)
#define RT_TELL_8(m, f, a, ...)	, m(a) RT_TELL_7(m, f, __VA_ARGS__)
#define RT_TELL_9(m, f, a, ...)	, m(a) RT_TELL_8(m, f, __VA_ARGS__)
#define RT_TELL_10(m, f, a, ...)	, m(a) RT_TELL_9(m, f, __VA_ARGS__)
#define RT_TELL__(n)	RT_TELL_##n
#define RT_TELL_(n)	RT_TELL__(n)
#define RT_TELL(m, ...)	RT_TELL_(RT_COUNT(__VA_ARGS__))(m, __VA_ARGS__)
#define RT_FIRST_(f, ...)	f
#define RT_FIRST(...)	RT_FIRST_(__VA_ARGS__, 0)

/*
 * RT_PROBE(provider, name, format, arguments...): an event, if somebody asks for it. At most ten arguments: whole
 * numbers, pointers, texts, arrays. A text is read up to its zero, or RT_PROGRAM_STRING_MAX bytes. An array is
 * RT_ARRAY(elements, count), of whole numbers, and %p in the format: of more than RT_PROGRAM_STRING_MAX bytes, the first
 * ones are recorded.
 */
#define RT_PROBE(provider, name, ...) do { \
	static const uint8_t rt_types[] = {RT_EACH(RT_TYPE_OF, __VA_ARGS__) 0}; \
	static const char *const rt_written[] = {RT_EACH(RT_TEXT_OF, __VA_ARGS__) 0}; \
	RT_SITE(rt_here, #provider, #name, RT_FIRST(__VA_ARGS__), sizeof(rt_types) - 1, RT_PROGRAM_EVENT); \
	RT_NO_TEMPLATE; \
	const uint32_t rt_on = rt_probe_enabled(RT_WORD_OF(rt_here)); \
	if (__builtin_expect(rt_on != 0, 0)) { \
		rt_probe_pass(RT_SITE_OF(rt_here), rt_on, RT_VALUES(RT_EACH(RT_VALUE_OF, __VA_ARGS__) 0)); \
	} \
	if (0) \
		rt_probe_check(RT_FIRST(__VA_ARGS__) RT_TELL(RT_CHECKED, __VA_ARGS__)); \
} while (0)

/*
 * Spans: something that lasts, of which the begin and the end are events, app:request:begin and app:request:end. A span
 * is under the innermost one of its thread, or under `from`, a const struct rt_span_context *, unless that is NULL.
 * Format and arguments are as of RT_PROBE(), and told with the begin.
 *
 *	RT_SPAN(provider, name, format, arguments...);			ends where its scope does
 *	RT_SPAN_AS(span, from, provider, name, format, arguments...);	the same; declares a struct rt_span of that name
 *	RT_SPAN_BEGIN(&span, from, provider, name, format, arguments...);
 *	rt_span_end(&span);						the same, or another thread ends it
 *
 * `span` of the last two stays where it is until it has ended. It is no scope: nothing is inside it unless it says so,
 * with &span.context as its `from`.
 */
/* Names are texts here. */
#define RT_SPAN_OPEN(span, scope, from, provider, name, ...) do { \
	static const uint8_t rt_types[] = {RT_EACH(RT_TYPE_OF, __VA_ARGS__) 0}; \
	static const char *const rt_written[] = {RT_EACH(RT_TEXT_OF, __VA_ARGS__) 0}; \
	RT_SITE(rt_here, provider, name, RT_FIRST(__VA_ARGS__), sizeof(rt_types) - 1, RT_PROGRAM_SPAN_BEGIN); \
	RT_SITE(rt_there, provider, name, "", 0, RT_PROGRAM_SPAN_END); \
	RT_NO_TEMPLATE; \
	const struct rt_span_context *rt_from = (from); \
	if (rt_probe_is_enabled(RT_WORD_OF(rt_here)) || rt_probe_is_enabled(RT_WORD_OF(rt_there))) { \
		rt_span_begin((span), (scope), rt_from, RT_SITE_OF(rt_here), RT_SITE_OF(rt_there), \
			      RT_VALUES(RT_EACH(RT_VALUE_OF, __VA_ARGS__) 0)); \
	} else if (!(scope) || rt_from) { \
		rt_span_pass((span), (scope), rt_from); \
	} \
	if (0) \
		rt_probe_check(RT_FIRST(__VA_ARGS__) RT_TELL(RT_CHECKED, __VA_ARGS__)); \
} while (0)

#define RT_SPAN_SCOPE(span, from, ...) \
	struct rt_span span __attribute__((cleanup(rt_span_leave), unused)) RT_PROBE_UNCLEARED; \
	span.listed = 0; \
	RT_SPAN_OPEN(&span, 1, from, __VA_ARGS__)
#define RT_SPAN_OF_(line)	rt_span_of_line_##line
#define RT_SPAN_OF(line)	RT_SPAN_OF_(line)
#define RT_SPAN(provider, name, ...) \
	RT_SPAN_SCOPE(RT_SPAN_OF(__LINE__), NULL, #provider, #name, __VA_ARGS__)
#define RT_SPAN_AS(span, from, provider, name, ...) \
	RT_SPAN_SCOPE(span, from, #provider, #name, __VA_ARGS__)
#define RT_SPAN_BEGIN(span, from, provider, name, ...) \
	RT_SPAN_OPEN(span, 0, from, #provider, #name, __VA_ARGS__)

#endif
#endif
