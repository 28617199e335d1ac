/*
 * sim_task: threads as coroutines, one of which runs at a time, and the agenda of what happens to
 * them. Whose turn it is, and how long that took, is the seed's to say.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <ucontext.h>

#include "tests/sim/sim.h"

#define TASKS_MAX 256u
#define STACK_BYTES (1u << 20)
#define STEP_NS_MAX 20000u

enum task_state {
	TASK_RUNNABLE,
	TASK_LOOP,		/* waits for its base */
	TASK_ASLEEP,
	TASK_COND,
	TASK_JOIN,
	TASK_POLL,		/* for one descriptor */
	TASK_DONE,
};

struct sim_task {
	char name[24];
	enum task_state state;
	struct event_base *base;
	uint64_t until_ns;
	const pthread_cond_t *cond;
	const struct sim_task *joined;
	int fd;
	void *(*run)(void *);
	void *context, *result;
	void *stack;
	ucontext_t registers;
};

struct due {
	uint64_t time_ns, order;
	sim_action *action;
	void *context;
};

static struct sim_task *task[TASKS_MAX], *current;
static unsigned tasks;
static ucontext_t outside;

static struct due *agenda;	/* a heap: the next is the first */
static size_t agenda_n, agenda_capacity;
static uint64_t agenda_order;

/* ---- The agenda ------------------------------------------------------------------------------ */

static bool is_before(const struct due *a, const struct due *b)
{
	return a->time_ns != b->time_ns ? a->time_ns < b->time_ns : a->order < b->order;
}

static void swap(size_t a, size_t b)
{
	struct due mine = agenda[a];

	agenda[a] = agenda[b];
	agenda[b] = mine;
}

void sim_after(uint64_t ns, sim_action *action, void *context)
{
	size_t i = agenda_n++;

	if (agenda_n > agenda_capacity) {
		agenda_capacity = 2 * agenda_n + 64;
		agenda = sim_realloc(agenda, agenda_capacity * sizeof(*agenda));
	}
	agenda[i] = (struct due){sim.now_ns + ns, agenda_order++, action, context};
	for (; i && is_before(&agenda[i], &agenda[(i - 1) / 2]); i = (i - 1) / 2)
		swap(i, (i - 1) / 2);
}

static struct due take_due(void)
{
	struct due first = agenda[0];
	size_t i = 0;

	agenda[0] = agenda[--agenda_n];
	for (;;) {
		size_t least = i;

		for (size_t child = 2 * i + 1; child < 2 * i + 3 && child < agenda_n; child++)
			if (is_before(&agenda[child], &agenda[least]))
				least = child;
		if (least == i)
			return first;
		swap(i, least);
		i = least;
	}
}

/* ---- Tasks ----------------------------------------------------------------------------------- */

static void enter(void)
{
	current->result = current->run(current->context);
	current->state = TASK_DONE;
	swapcontext(&current->registers, &outside);
}

struct sim_task *sim_task_start(const char *name, void *(*run)(void *), void *context)
{
	struct sim_task *mine = sim_calloc(sizeof(*mine));

	if (tasks == TASKS_MAX)
		sim_fail("too many threads for the simulation");
	snprintf(mine->name, sizeof(mine->name), "%s", name);
	mine->run = run;
	mine->context = context;
	mine->stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (mine->stack == MAP_FAILED)
		sim_fail("no stack for a thread");
	getcontext(&mine->registers);
	mine->registers.uc_stack.ss_sp = mine->stack;
	mine->registers.uc_stack.ss_size = STACK_BYTES;
	mine->registers.uc_link = &outside;
	makecontext(&mine->registers, enter, 0);
	task[tasks++] = mine;
	return mine;
}

bool sim_task_is_running(void)
{
	return current;
}

void sim_tasks_kill(void)
{
	for (unsigned i = 0; i < tasks; i++)
		task[i]->state = TASK_DONE;
	tasks = 0;
}

static void leave(enum task_state state)
{
	current->state = state;
	swapcontext(&current->registers, &outside);
}

void sim_task_wait(struct event_base *base)
{
	current->base = base;
	leave(TASK_LOOP);
}

void sim_task_yield(void)
{
	leave(TASK_RUNNABLE);
}

void sim_task_sleep(uint64_t ns)
{
	current->until_ns = sim.now_ns + ns;
	leave(TASK_ASLEEP);
}

static bool is_ready(const struct sim_task *mine)
{
	switch (mine->state) {
	case TASK_RUNNABLE:
		return true;
	case TASK_LOOP:
		return sim_base_ready(mine->base);
	case TASK_ASLEEP:
		return mine->until_ns <= sim.now_ns;
	case TASK_COND:
		return mine->until_ns <= sim.now_ns;
	case TASK_JOIN:
		return mine->joined->state == TASK_DONE;
	case TASK_POLL:
		return sim_fd_readable(mine->fd);
	case TASK_DONE:
		break;
	}
	return false;
}

static uint64_t wakes_at(const struct sim_task *mine)
{
	if (mine->state == TASK_LOOP)
		return sim_base_deadline(mine->base);
	return mine->state == TASK_ASLEEP || mine->state == TASK_COND ? mine->until_ns
								      : UINT64_MAX;
}

static bool run_one(void)
{
	struct sim_task *ready[TASKS_MAX];
	unsigned n = 0;

	for (unsigned i = 0; i < tasks; i++)
		if (is_ready(task[i]))
			ready[n++] = task[i];
	if (!n)
		return false;
	current = ready[n == 1 ? 0 : sim_below(n)];
	sim.step++;
	if (sim.steps)
		sim_log("step %llu: %s", (unsigned long long)sim.step, current->name);
	swapcontext(&outside, &current->registers);
	current = NULL;
	sim.now_ns += sim_below(STEP_NS_MAX);
	return true;
}

/* On to the next thing that will happen by itself. */
static bool skip_time(uint64_t until_ns)
{
	uint64_t next = agenda_n ? agenda[0].time_ns : UINT64_MAX;

	for (unsigned i = 0; i < tasks; i++)
		if (wakes_at(task[i]) < next)
			next = wakes_at(task[i]);
	if (next >= until_ns) {
		sim.now_ns = until_ns;
		return false;
	}
	if (next > sim.now_ns)
		sim.now_ns = next;
	return true;
}

void sim_run(uint64_t until_ns, const bool *done)
{
	while (sim.now_ns < until_ns && !(done && *done)) {
		if (agenda_n && agenda[0].time_ns <= sim.now_ns) {
			struct due due = take_due();

			due.action(due.context);
		} else if (!run_one() && !skip_time(until_ns)) {
			return;
		}
	}
}

/* ---- In the place of threads ----------------------------------------------------------------- */

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
			  void *(*run)(void *), void *context);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
			  void *(*run)(void *), void *context)
{
	char name[24];

	(void)attributes;
	snprintf(name, sizeof(name), "thread-%u", tasks);
	*thread = (pthread_t)sim_task_start(name, run, context);
	return 0;
}

int __wrap_pthread_join(pthread_t thread, void **result);
int __wrap_pthread_join(pthread_t thread, void **result)
{
	struct sim_task *other = (struct sim_task *)thread;

	current->joined = other;
	leave(TASK_JOIN);
	if (result)
		*result = other->result;
	for (unsigned i = 0; i < tasks; i++)
		if (task[i] == other)
			task[i] = task[--tasks];
	munmap(other->stack, STACK_BYTES);
	free(other);
	return 0;
}

int __wrap_pthread_setname_np(pthread_t thread, const char *name);
int __wrap_pthread_setname_np(pthread_t thread, const char *name)
{
	(void)thread;
	snprintf(current->name, sizeof(current->name), "%s", name);
	return 0;
}

int __wrap_nanosleep(const struct timespec *time, struct timespec *left);
int __wrap_nanosleep(const struct timespec *time, struct timespec *left)
{
	(void)left;
	sim_task_sleep((uint64_t)time->tv_sec * SIM_S + (uint64_t)time->tv_nsec);
	return 0;
}

/* One descriptor, for reading, for as long as it takes. */
int __wrap_poll(struct pollfd *fds, nfds_t n, int timeout_ms);
int __wrap_poll(struct pollfd *fds, nfds_t n, int timeout_ms)
{
	if (n != 1 || fds->events != POLLIN || timeout_ms >= 0)
		sim_fail("a poll that the simulation does not know");
	current->fd = fds->fd;
	leave(TASK_POLL);
	fds->revents = POLLIN;
	return 1;
}

/* A lock is never held when a turn ends, but for the one that is given to a wait. */
int __wrap_pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *lock);
int __wrap_pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *lock)
{
	pthread_mutex_unlock(lock);
	current->cond = cond;
	current->until_ns = UINT64_MAX;
	leave(TASK_COND);
	return pthread_mutex_lock(lock);
}

int __wrap_pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *lock,
				  const struct timespec *until);
int __wrap_pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *lock,
				  const struct timespec *until)
{
	pthread_mutex_unlock(lock);
	current->cond = cond;
	current->until_ns = (uint64_t)until->tv_sec * SIM_S + (uint64_t)until->tv_nsec;
	leave(TASK_COND);
	pthread_mutex_lock(lock);
	return current->cond ? ETIMEDOUT : 0;
}

static int wake(const pthread_cond_t *cond)
{
	for (unsigned i = 0; i < tasks; i++)
		if (task[i]->state == TASK_COND && task[i]->cond == cond) {
			task[i]->cond = NULL;
			task[i]->state = TASK_RUNNABLE;
		}
	return 0;
}

int __wrap_pthread_cond_signal(pthread_cond_t *cond);
int __wrap_pthread_cond_signal(pthread_cond_t *cond)
{
	return wake(cond);
}

int __wrap_pthread_cond_broadcast(pthread_cond_t *cond);
int __wrap_pthread_cond_broadcast(pthread_cond_t *cond)
{
	return wake(cond);
}
