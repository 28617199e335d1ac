/*
 * Several threads send into one mailbox while another takes from it: every message arrives once, each
 * sender's in order, and no wakeup is missed. Bounded by MESSAGES; run under TSan by `make check`.
 */
#include <assert.h>
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "daemon/base/mailbox.h"

#define SENDERS	 4
#define MESSAGES 50000
#define WAIT_MS	 60000

struct letter {
	struct mail mail;
	unsigned sender, number;
};

static struct mailbox box;

static void *send_all(void *context)
{
	for (unsigned i = 0; i < MESSAGES; i++) {
		struct letter *letter = malloc(sizeof(*letter));

		assert(letter);
		letter->sender = (unsigned)(uintptr_t)context;
		letter->number = i;
		mailbox_send(&box, &letter->mail);
	}
	return NULL;
}

int main(void)
{
	pthread_t thread[SENDERS];
	unsigned next[SENDERS] = {0}, taken = 0;

	assert(mailbox_init(&box) == 0);
	for (uintptr_t i = 0; i < SENDERS; i++)
		assert(pthread_create(&thread[i], NULL, send_all, (void *)i) == 0);
	while (taken < SENDERS * MESSAGES) {
		struct pollfd wait = {.fd = mailbox_fd(&box), .events = POLLIN};

		if (poll(&wait, 1, WAIT_MS) != 1) {
			printf("no wakeup with %u of %u taken\n", taken, SENDERS * MESSAGES);
			return 1;
		}
		for (struct mail *mail = mailbox_take(&box), *after; mail; mail = after, taken++) {
			struct letter *letter = (struct letter *)mail;

			after = mail->next;
			if (letter->number != next[letter->sender]++) {
				printf("sender %u: %u out of order\n", letter->sender,
				       letter->number);
				return 1;
			}
			free(letter);
		}
	}
	for (unsigned i = 0; i < SENDERS; i++)
		pthread_join(thread[i], NULL);
	assert(!mailbox_take(&box));
	mailbox_fini(&box);
	printf("%u messages of %u senders, in order\n", taken, SENDERS);
	return 0;
}
