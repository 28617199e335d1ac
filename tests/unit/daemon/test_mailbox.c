/* Messages come out in the order they went in, and one wakeup is enough for all of them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <poll.h>
#include <stdbool.h>

#include "daemon/base/mailbox.h"

#define LETTERS 5

static bool is_awake(const struct mailbox *mailbox)
{
	struct pollfd wait = {.fd = mailbox_fd(mailbox), .events = POLLIN};

	return poll(&wait, 1, 0) == 1;
}

static void test_order(void **state)
{
	struct mail letter[LETTERS];
	struct mailbox mailbox;

	(void)state;
	assert_int_equal(mailbox_init(&mailbox), 0);
	for (unsigned round = 0; round < 3; round++) {
		struct mail *mail;

		assert_false(is_awake(&mailbox));
		for (unsigned i = 0; i < LETTERS; i++) {
			mailbox_send(&mailbox, &letter[i]);
			assert_true(is_awake(&mailbox));
		}
		mail = mailbox_take(&mailbox);
		for (unsigned i = 0; i < LETTERS; i++, mail = mail->next)
			assert_ptr_equal(mail, &letter[i]);
		assert_null(mail);
		assert_false(is_awake(&mailbox));
	}
	mailbox_fini(&mailbox);
}

static void test_nothing_to_take(void **state)
{
	struct mailbox mailbox, never = {.fd = -1};

	(void)state;
	assert_int_equal(mailbox_init(&mailbox), 0);
	assert_null(mailbox_take(&mailbox));	/* does not wait */
	mailbox_fini(&mailbox);
	assert_int_equal(mailbox_fd(&mailbox), -1);
	/* One that was never set up, as at the end of a start that failed. */
	assert_null(mailbox_take(&never));
	mailbox_fini(&never);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_order),
		cmocka_unit_test(test_nothing_to_take),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
