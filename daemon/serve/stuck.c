#include "daemon/serve/stuck.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <unistd.h>

#include "daemon/base/limits.h"
#include "daemon/collect/redaction.h"
#include "proto/limits.h"
#include "query/filter.h"

struct question {
	TAILQ_ENTRY(question) link;
	struct session *session;	/* NULL: it has gone */
	uint64_t longer_than_ns;
	struct filter *filter;		/* NULL: every thread */
};

struct stuck {
	struct fanout *fanout;
	struct frame_codec *codec;
	const Ringtail__V1__Catalog *catalog;
	TAILQ_HEAD(, question) questions;	/* the first has been put to the loader */
	unsigned waiting;
};

struct stuck *stuck_create(struct fanout *fanout, struct frame_codec *codec,
			   const Ringtail__V1__Catalog *catalog)
{
	struct stuck *stuck = calloc(1, sizeof(*stuck));

	if (!stuck)
		return NULL;
	*stuck = (struct stuck){.fanout = fanout, .codec = codec, .catalog = catalog};
	TAILQ_INIT(&stuck->questions);
	return stuck;
}

static void remove_first(struct stuck *stuck)
{
	struct question *question = TAILQ_FIRST(&stuck->questions);

	TAILQ_REMOVE(&stuck->questions, question, link);
	stuck->waiting--;
	filter_destroy(question->filter);
	free(question);
}

void stuck_destroy(struct stuck *stuck)
{
	if (!stuck)
		return;
	while (!TAILQ_EMPTY(&stuck->questions))
		remove_first(stuck);
	fanout_forget_stuck(stuck->fanout);
	free(stuck);
}

void stuck_leave(struct stuck *stuck, const struct session *session)
{
	struct question *question;

	TAILQ_FOREACH(question, &stuck->questions, link)
		if (question->session == session)
			question->session = NULL;
}

/* ---- The loader's file ----------------------------------------------------------------------- */

/* Its threads, as many as it says; NULL: no memory, or the file does not have them. */
static struct source_stuck_thread *read_threads(int fd, uint64_t threads)
{
	struct source_stuck_thread *thread;
	size_t bytes = threads * sizeof(*thread), have = 0;

	if (threads > STUCK_THREADS_LOOKED_MAX)
		return NULL;
	thread = malloc(bytes + 1);
	while (thread && have < bytes) {
		ssize_t got = pread(fd, (char *)thread + have, bytes - have, (off_t)have);

		if (got <= 0) {
			free(thread);
			return NULL;
		}
		have += (size_t)got;
	}
	return thread;
}

static uint64_t began_ns(const struct source_stuck_thread *thread)
{
	return thread->since_ns ? thread->since_ns : thread->before_ns ? thread->before_ns : UINT64_MAX;
}

/* Those that are in their call for longest first; last those of which nobody knows. */
static int compare(const void *a, const void *b)
{
	const struct source_stuck_thread *one = a, *other = b;
	uint64_t its_ns = began_ns(one), others_ns = began_ns(other);

	if (its_ns != others_ns)
		return its_ns < others_ns ? -1 : 1;
	return one->tid < other->tid ? -1 : one->tid > other->tid;
}

static bool is_sane(const struct source_stuck_thread *thread)
{
	return thread->frames <= RT_STACK_FRAMES_MAX &&
	       thread->arguments <= RT_SYSCALL_ARGS_MAX + 1 &&
	       thread->probe >= RT_PROBE_SYSCALL_CALL && thread->probe < RT_PROBE_SYSCALL_ENTRY;
}

/* It is judged as the entry of its call would be: nobody knows how that will end. */
static bool passes(const struct filter *filter, const struct source_stuck_thread *thread)
{
	const struct batch_event event = {
		.probe = (uint16_t)(thread->probe - RT_PROBE_SYSCALL_CALL + RT_PROBE_SYSCALL_ENTRY),
		.fields = (uint8_t)thread->arguments,
		.time_ns = thread->since_ns,
		.field = thread->argument,
	};
	struct batch_thread who = {
		.tid = thread->tid, .pid = thread->pid, .ppid = thread->ppid, .uid = thread->uid,
	};

	memcpy(who.comm, thread->comm, sizeof(who.comm));
	return filter_pass(filter, 0, &event, &who, NULL);
}

/* ---- Its answer ------------------------------------------------------------------------------ */

/* One thread's message with what it points to. */
struct packed {
	Ringtail__V1__StuckThread message;
	Ringtail__V1__Thread thread;
	char state[2];
	uint64_t argument[RT_SYSCALL_ARGS_MAX + 1];
	int64_t frame[RT_STACK_FRAMES_MAX];
};

static void pack(struct packed *packed, const struct source_stuck_thread *from)
{
	Ringtail__V1__StuckThread *to = &packed->message;
	uint64_t before = 0;

	ringtail__v1__stuck_thread__init(to);
	ringtail__v1__thread__init(&packed->thread);
	packed->thread.tid = from->tid;
	packed->thread.pid = from->pid;
	packed->thread.ppid = from->ppid;
	packed->thread.uid = from->uid;
	packed->thread.comm.data = (uint8_t *)from->comm;
	packed->thread.comm.len = strnlen(from->comm, sizeof(from->comm));
	packed->state[0] = from->state > ' ' && from->state <= '~' ? from->state : '?';
	memcpy(packed->argument, from->argument, sizeof(packed->argument));
	for (uint32_t i = 0; i < from->frames; i++) {
		packed->frame[i] = (int64_t)(from->frame[i] - before);
		before = from->frame[i];
	}
	to->thread = &packed->thread;
	to->probe = from->probe;
	to->state = packed->state;
	to->since_ns = from->since_ns;
	to->before_ns = from->before_ns;
	to->argument = packed->argument;
	to->n_argument = from->arguments;
	to->frame = packed->frame;
	to->n_frame = from->frames;
}

/* NULL: no memory, or it does not fit. */
static struct frame_ref *pack_all(const struct stuck *stuck, const struct question *question,
				  const struct source_stuck *answer,
				  const struct source_stuck_thread *thread)
{
	struct packed *packed = calloc(STUCK_THREADS_MAX, sizeof(*packed));
	Ringtail__V1__StuckThread **list = calloc(STUCK_THREADS_MAX, sizeof(*list));
	Ringtail__V1__Stuck message = RINGTAIL__V1__STUCK__INIT;
	struct frame_ref *frame = NULL;

	message.monotonic_ns = answer->now_ns;
	message.left_out = answer->left_out;
	message.undated = answer->undated;
	message.foreign = answer->foreign;
	message.thread = list;
	for (uint64_t i = 0; packed && list && i < answer->threads; i++) {
		if (!is_sane(&thread[i]) || !passes(question->filter, &thread[i]))
			continue;
		if (message.n_thread == STUCK_THREADS_MAX) {
			message.left_out++;
			continue;
		}
		pack(&packed[message.n_thread], &thread[i]);
		list[message.n_thread] = &packed[message.n_thread].message;
		message.n_thread++;
	}
	if (packed && list)
		frame = frame_ref_pack(stuck->codec, FRAME_STUCK, &message.base);
	free(packed);
	free(list);
	return frame;
}

static struct frame_ref *make_answer(const struct stuck *stuck, const struct question *question,
				     const struct loader_report *report, struct error *error)
{
	struct source_stuck_thread *thread = read_threads(report->fd, report->stuck.threads);
	struct frame_ref *frame = NULL;

	if (thread) {
		for (uint64_t i = 0; i < report->stuck.threads; i++)
			redaction_comm(fanout_redaction(stuck->fanout), thread[i].comm);
		qsort(thread, report->stuck.threads, sizeof(*thread), compare);
		frame = pack_all(stuck, question, &report->stuck, thread);
	}
	free(thread);
	if (!frame) {
		error_set(error, ENOMEM, "stuck-too-large",
			  "the answer does not fit into a frame, or into memory");
		error_hint(error, "ask for less of them: tracectl stuck --longer-than 10s -f"
				  " 'comm == \"nginx\"'");
	}
	return frame;
}

/* ---- Questions ------------------------------------------------------------------------------- */

static void ask_first(struct stuck *stuck);

static void on_done(void *context, const struct loader_report *report, const struct error *failed)
{
	struct stuck *stuck = context;
	struct question *question = TAILQ_FIRST(&stuck->questions);
	struct frame_ref *frame = NULL;
	struct error error = {0};

	if (failed || report->err)
		error = failed ? *failed : report->error;
	else if (question->session)
		frame = make_answer(stuck, question, report, &error);
	if (report && report->fd >= 0)
		close(report->fd);
	if (question->session)
		session_answer(question->session, frame, &error);
	remove_first(stuck);
	ask_first(stuck);
}

static void ask_first(struct stuck *stuck)
{
	struct question *question;
	struct error error;

	while ((question = TAILQ_FIRST(&stuck->questions))) {
		if (fanout_ask_stuck(stuck->fanout, question->longer_than_ns, on_done, stuck) == 0)
			return;
		error_set(&error, EPIPE, "loader-gone", "the loader process ended: nobody can look");
		error_hint(&error, "ask again once ringtaild has restarted; its log says what happened");
		if (question->session)
			session_answer(question->session, NULL, &error);
		remove_first(stuck);
	}
}

static int make_question(struct stuck *stuck, struct session *session,
			 const Ringtail__V1__StuckRequest *request, struct question **made,
			 struct error *error)
{
	struct question *question;
	int err = fanout_may_ask_stuck(stuck->fanout, session_identity(session), error);

	if (err)
		return err;
	if (stuck->waiting == STUCK_WAITING_MAX) {
		error_set(error, EBUSY, "too-many-questions",
			  "%u clients wait to be told which threads are in a call", stuck->waiting);
		error_hint(error, "ask again in a moment");
		return -EBUSY;
	}
	question = calloc(1, sizeof(*question));
	if (!question)
		return error_set(error, ENOMEM, "out-of-memory", "the daemon is out of memory");
	question->session = session;
	question->longer_than_ns = request->longer_than_ns;
	err = filter_compile(request->filter, stuck->catalog, &question->filter, error);
	if (err)
		free(question);
	else
		*made = question;
	return err;
}

void stuck_ask(struct stuck *stuck, struct session *session,
	       const Ringtail__V1__StuckRequest *request)
{
	struct question *question;
	struct error error = {0};

	if (make_question(stuck, session, request, &question, &error)) {
		session_answer(session, NULL, &error);
		return;
	}
	TAILQ_INSERT_TAIL(&stuck->questions, question, link);
	if (stuck->waiting++ == 0)
		ask_first(stuck);
}
