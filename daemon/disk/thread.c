/* Jobs go in under a lock that is held for no longer than that. */
#include "daemon/disk/thread.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>

struct disk_thread {
	struct disk disk;
	bool threaded;
	struct event *wakeup;		/* main: jobs are run (not threaded: jobs are there) */
	unsigned pending;		/* main: submitted, not done */

	struct mailbox ran;		/* thread to main */
	pthread_t thread;

	/* Under the lock. */
	pthread_mutex_t lock;
	pthread_cond_t more;
	struct mail *first, **last;
	bool ending;
};

static struct disk_job *job_of(struct mail *mail)
{
	return (struct disk_job *)mail;
}

static struct mail *take_first(struct disk_thread *thread)
{
	struct mail *mail = thread->first;

	if (mail) {
		thread->first = mail->next;
		if (!thread->first)
			thread->last = &thread->first;
	}
	return mail;
}

static void *serve(void *context)
{
	struct disk_thread *thread = context;
	struct mail *mail;

	pthread_setname_np(pthread_self(), "ringtail-disk");
	pthread_mutex_lock(&thread->lock);
	for (;;) {
		mail = take_first(thread);
		if (!mail && thread->ending)
			break;
		if (!mail) {
			pthread_cond_wait(&thread->more, &thread->lock);
			continue;
		}
		pthread_mutex_unlock(&thread->lock);
		job_of(mail)->run(job_of(mail), &thread->disk);
		mailbox_send(&thread->ran, mail);
		pthread_mutex_lock(&thread->lock);
	}
	pthread_mutex_unlock(&thread->lock);
	return NULL;
}

static void finish_ran(struct disk_thread *thread)
{
	struct mail *mail = mailbox_take(&thread->ran), *next;

	for (; mail; mail = next) {
		next = mail->next;
		thread->pending--;
		job_of(mail)->done(job_of(mail));
	}
}

/* Without a thread: what is there now, not what it gives rise to. */
static void run_here(struct disk_thread *thread)
{
	unsigned n = thread->pending;

	while (n--) {
		struct disk_job *job = job_of(take_first(thread));

		job->run(job, &thread->disk);
		thread->pending--;
		job->done(job);
	}
}

static void on_wakeup(evutil_socket_t fd, short what, void *context)
{
	struct disk_thread *thread = context;

	(void)fd, (void)what;
	if (thread->threaded)
		finish_ran(thread);
	else
		run_here(thread);
}

/* Signals are the main thread's. */
static int start_thread(struct disk_thread *thread)
{
	sigset_t all, before;
	int err;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	err = pthread_create(&thread->thread, NULL, serve, thread);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return -err;
}

int disk_thread_create(struct event_base *base, const struct disk *disk, bool threaded,
		       struct disk_thread **out, struct error *error)
{
	struct disk_thread *thread = calloc(1, sizeof(*thread));
	int err;

	if (!thread)
		return error_set(error, ENOMEM, "out-of-memory", "out of memory");
	thread->disk = *disk;
	thread->threaded = threaded;
	thread->last = &thread->first;
	pthread_mutex_init(&thread->lock, NULL);
	pthread_cond_init(&thread->more, NULL);
	err = mailbox_init(&thread->ran);
	if (err)
		goto free_thread;
	thread->wakeup = event_new(base, threaded ? mailbox_fd(&thread->ran) : -1,
				   threaded ? EV_READ | EV_PERSIST : EV_PERSIST, on_wakeup, thread);
	err = -ENOMEM;
	if (!thread->wakeup || (threaded && event_add(thread->wakeup, NULL) != 0))
		goto free_wakeup;
	err = threaded ? start_thread(thread) : 0;
	if (err)
		goto free_wakeup;
	*out = thread;
	return 0;

free_wakeup:
	if (thread->wakeup)
		event_free(thread->wakeup);
	mailbox_fini(&thread->ran);
free_thread:
	pthread_cond_destroy(&thread->more);
	pthread_mutex_destroy(&thread->lock);
	free(thread);
	return error_set(error, -err, "disk-thread", "cannot start the thread that writes to disk");
}

struct disk *disk_thread_disk(struct disk_thread *thread)
{
	return &thread->disk;
}

void disk_thread_submit(struct disk_thread *thread, struct disk_job *job)
{
	job->mail.next = NULL;
	thread->pending++;
	pthread_mutex_lock(&thread->lock);
	*thread->last = &job->mail;
	thread->last = &job->mail.next;
	pthread_cond_signal(&thread->more);
	pthread_mutex_unlock(&thread->lock);
	if (!thread->threaded)
		event_active(thread->wakeup, EV_TIMEOUT, 0);
}

static void wait_for_thread(struct disk_thread *thread)
{
	struct pollfd ran = {.fd = mailbox_fd(&thread->ran), .events = POLLIN};

	while (thread->pending) {
		poll(&ran, 1, -1);
		finish_ran(thread);
	}
}

void disk_thread_settle(struct disk_thread *thread)
{
	if (thread->threaded)
		wait_for_thread(thread);
	else
		while (thread->pending)
			run_here(thread);
}

void disk_thread_destroy(struct disk_thread *thread)
{
	if (!thread)
		return;
	disk_thread_settle(thread);
	if (thread->threaded) {
		pthread_mutex_lock(&thread->lock);
		thread->ending = true;
		pthread_cond_signal(&thread->more);
		pthread_mutex_unlock(&thread->lock);
		pthread_join(thread->thread, NULL);
	}
	event_free(thread->wakeup);
	mailbox_fini(&thread->ran);
	pthread_cond_destroy(&thread->more);
	pthread_mutex_destroy(&thread->lock);
	free(thread);
}
