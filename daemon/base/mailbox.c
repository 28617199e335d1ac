/* A stack that is taken whole and turned round: no ABA, no lock. */
#include "daemon/base/mailbox.h"

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <unistd.h>

int mailbox_init(struct mailbox *mailbox)
{
	atomic_init(&mailbox->newest, NULL);
	mailbox->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	return mailbox->fd < 0 ? -errno : 0;
}

void mailbox_fini(struct mailbox *mailbox)
{
	close(mailbox->fd);
	mailbox->fd = -1;
}

void mailbox_send(struct mailbox *mailbox, struct mail *mail)
{
	struct mail *newest = atomic_load_explicit(&mailbox->newest, memory_order_relaxed);
	uint64_t one = 1;

	do {
		mail->next = newest;
		/* Release: the message's contents; acquired in mailbox_take(). */
	} while (!atomic_compare_exchange_weak_explicit(&mailbox->newest, &newest, mail,
							memory_order_release,
							memory_order_relaxed));
	/* Only the first into an empty box needs to wake; the receiver empties it whole. */
	if (!newest)
		while (write(mailbox->fd, &one, sizeof(one)) < 0 && errno == EINTR)
			;
}

struct mail *mailbox_take(struct mailbox *mailbox)
{
	struct mail *newest, *oldest = NULL;
	uint64_t ignored;

	/* Before the exchange: a message sent after it makes the descriptor readable again. */
	while (read(mailbox->fd, &ignored, sizeof(ignored)) < 0 && errno == EINTR)
		;
	newest = atomic_exchange_explicit(&mailbox->newest, NULL, memory_order_acquire);
	while (newest) {
		struct mail *next = newest->next;

		newest->next = oldest;
		oldest = newest;
		newest = next;
	}
	return oldest;
}
