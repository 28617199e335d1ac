#include "daemon/source/bpf_stuck.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "daemon/base/clock.h"
#include "daemon/base/limits.h"
#include "daemon/source/bpf_check.h"
#include "kmod/ringtail.skel.h"

#define READ_AT_ONCE	32	/* threads */

/* The bits of a thread's state, as in the kernel's sched.h; those of one that sleeps are exclusive. */
#define STATE_D		0x0002
#define STATE_T		0x0004
#define STATE_TRACED	0x0008
#define STATE_PARKED	0x0040
#define STATE_NOLOAD	0x0400
#define STATE_RTLOCK	0x1000
#define STATE_FROZEN	0x8000

void source_bpf_stuck_note(struct source_bpf_stuck *stuck, const struct bpf_request *request,
			   const uint32_t words[RT_SYSCALLS_MAX])
{
	uint64_t now_ns = clock_monotonic();

	for (uint32_t nr = 0; nr < RT_SYSCALLS_MAX; nr++) {
		bool wanted = (words[nr] & (SYSCALL_WANTS_CALL | SYSCALL_IS_COUNTED)) == SYSCALL_WANTS_CALL;
		bool everybody = wanted && (!request->clauses || words[nr] & SYSCALL_UNFILTERED);

		if (!wanted)
			stuck->since_ns[nr] = 0;
		else if (!everybody || !stuck->of_everybody[nr])
			stuck->since_ns[nr] = now_ns;
		stuck->of_everybody[nr] = everybody;
	}
}

/* ---- One thread ------------------------------------------------------------------------------ */

/* As ps shows it. */
static char state_letter(const struct stuck_thread *thread)
{
	if (thread->on_cpu || !thread->state)
		return 'R';
	if (thread->state & STATE_TRACED)
		return 't';
	if (thread->state & STATE_T)
		return 'T';
	if (thread->state & STATE_D && thread->state & STATE_NOLOAD)
		return 'I';
	if (thread->state & (STATE_D | STATE_RTLOCK | STATE_FROZEN))
		return 'D';
	return thread->state & STATE_PARKED ? 'P' : 'S';
}

static void take_arguments(const struct source_bpf_stuck *stuck, const struct stuck_thread *from,
			   uint32_t place, struct source_stuck_thread *to)
{
	uint32_t word = stuck->word[place], first = 0, n = syscall_args(word);

	if (place == RT_SYSCALL_UNKNOWN) {
		to->argument[0] = from->nr;
		first = 1;
		n = RT_SYSCALL_ARGS_MAX;
	}
	for (uint32_t i = 0; i < n; i++)
		to->argument[first + i] = word & 1u << (SYSCALL_SIGNED_SHIFT + i) ?
			(uint64_t)(int64_t)(int32_t)from->arg[i] : from->arg[i];
	to->arguments = first + n;
}

/* A call that was not noticed began before such calls were; unless a later one of the thread was. */
static void take_beginning(const struct source_bpf_stuck *stuck, const struct stuck_thread *from,
			   uint32_t place, struct source_stuck_thread *to)
{
	if (from->flags & STUCK_SINCE_ENTRY)
		to->since_ns = from->entry_ns;
	else if (from->flags & STUCK_IS_RECORDED && from->entry_ns < stuck->since_ns[place])
		to->before_ns = stuck->since_ns[place];
}

static void take_thread(const struct source_bpf_stuck *stuck, const struct stuck_thread *from,
			struct source_stuck_thread *to)
{
	bool known = from->nr < RT_SYSCALLS_MAX && stuck->word[from->nr] & SYSCALL_IS_KNOWN;
	uint32_t place = known ? from->nr : RT_SYSCALL_UNKNOWN;

	*to = (struct source_stuck_thread){
		.tid = from->tid, .pid = from->pid, .ppid = from->ppid, .uid = from->uid,
		.probe = RT_PROBE_SYSCALL_CALL + place,
		.state = state_letter(from),
		.frames = from->frames < RT_STACK_FRAMES_MAX ? from->frames : RT_STACK_FRAMES_MAX,
	};
	memcpy(to->comm, from->comm, sizeof(to->comm));
	memcpy(to->frame, from->frame, to->frames * sizeof(to->frame[0]));
	take_arguments(stuck, from, place, to);
	take_beginning(stuck, from, place, to);
}

/* ---- All of them ----------------------------------------------------------------------------- */

struct look {
	const struct source_bpf_stuck *stuck;
	uint64_t longer_than_ns;
	int fd;
	struct source_stuck *answer;
};

/* 0 or -errno: it could not be written. */
static int take(struct look *look, const struct stuck_thread *from)
{
	struct source_stuck *answer = look->answer;
	struct source_stuck_thread to;
	uint64_t began_ns;

	if (from->flags & STUCK_IS_FOREIGN) {
		answer->foreign++;
		return 0;
	}
	take_thread(look->stuck, from, &to);
	began_ns = to.since_ns ? to.since_ns : to.before_ns;
	if (look->longer_than_ns && !began_ns) {
		answer->undated++;
		return 0;
	}
	if (began_ns + look->longer_than_ns > answer->now_ns && look->longer_than_ns)
		return 0;
	if (answer->threads == STUCK_THREADS_LOOKED_MAX) {
		answer->left_out++;
		return 0;
	}
	if (write(look->fd, &to, sizeof(to)) != (ssize_t)sizeof(to))
		return -ENOSPC;
	answer->threads++;
	return 0;
}

/* The kernel writes whole threads, and may hand them over in parts. */
static int take_all(struct look *look, int iterator)
{
	struct stuck_thread thread[READ_AT_ONCE];
	size_t held = 0;
	int err = 0;

	while (!err) {
		ssize_t got = read(iterator, (char *)thread + held, sizeof(thread) - held);
		size_t whole;

		if (got < 0 && (errno == EINTR || errno == EAGAIN))
			continue;
		if (got <= 0)
			return got < 0 ? -errno : 0;
		held += (size_t)got;
		whole = held / sizeof(thread[0]);
		for (size_t i = 0; i < whole && !err; i++)
			err = take(look, &thread[i]);
		held -= whole * sizeof(thread[0]);
		memmove(thread, &thread[whole], held);
	}
	return err;
}

int source_bpf_stuck_look(const struct source_bpf_stuck *stuck, uint64_t longer_than_ns, int fd,
			  struct source_stuck *answer, struct error *error)
{
	struct look look = {.stuck = stuck, .longer_than_ns = longer_than_ns, .fd = fd, .answer = answer};
	int program = source_bpf_objects_program(stuck->objects, PROGRAM_STUCK, stuck->store, error);
	int link = program < 0 ? -1 : bpf_link_create(program, 0, BPF_TRACE_ITER, NULL);
	int iterator = -1, err = link < 0 ? -errno : 0;

	if (program < 0)
		return program;
	stuck->objects->shared->stuck_longer_than_ns = longer_than_ns;
	*answer = (struct source_stuck){.now_ns = clock_monotonic()};
	if (!err)
		iterator = bpf_iter_create(link);
	if (!err && iterator < 0)
		err = -errno;
	if (!err)
		err = take_all(&look, iterator);
	answer->now_ns = clock_monotonic();
	if (iterator >= 0)
		close(iterator);
	if (link >= 0)
		close(link);
	return err ? source_bpf_check_failure(error, -err, "look at the threads") : 0;
}
