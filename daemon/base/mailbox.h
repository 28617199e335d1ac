/*
 * mailbox: a queue of messages from many threads to one, without a lock.
 *
 * In: messages; mailbox_send() takes their ownership. Any thread. Out: all of them, each sender's in the order it sent
 * them. One thread, which waits for mailbox_fd(); one wakeup may deliver many messages.
 */
#ifndef RINGTAIL_DAEMON_BASE_MAILBOX_H
#define RINGTAIL_DAEMON_BASE_MAILBOX_H

#include <stdatomic.h>

/* First member of every message. */
struct mail {
	struct mail *next;
};

struct mailbox {
	_Atomic(struct mail *) newest;
	int fd;			/* eventfd */
};

/* 0 or -errno. fini does not free messages: take them first. */
int mailbox_init(struct mailbox *mailbox);
void mailbox_fini(struct mailbox *mailbox);

/* The message is the receiver's from here on. */
void mailbox_send(struct mailbox *mailbox, struct mail *mail);

/* Everything sent so far, oldest first, linked by `next`; NULL if nothing. Clears the wakeup. */
struct mail *mailbox_take(struct mailbox *mailbox);

static inline int mailbox_fd(const struct mailbox *mailbox)
{
	return mailbox->fd;
}

#endif
