/* Agents that wait to shake hands: who is next, who has left, and who goes when too many wait. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/base/limits.h"
#include "daemon/relay/waiting_room.h"

static struct waiting_room room;
static const unsigned nobody[ORIGINS];

/* The end of an agent; the room has the other. */
static int enter(uint8_t origin, const char *peer, uint64_t now_ns)
{
	int fds[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
	assert_true(waiting_room_enter(&room, fds[0], origin, peer, now_ns));
	return fds[1];
}

static void assert_next(const unsigned shaking[ORIGINS], uint8_t origin, const char *peer)
{
	char from[WAITING_ROOM_PEER_BYTES];
	uint8_t where = 0;
	int fd = waiting_room_next(&room, shaking, &where, from);

	assert_true(fd >= 0);
	assert_int_equal(where, origin);
	assert_string_equal(from, peer);
	close(fd);
}

static void assert_empty(void)
{
	char from[WAITING_ROOM_PEER_BYTES];
	uint8_t where;

	assert_int_equal(waiting_room_next(&room, nobody, &where, from), -1);
	assert_int_equal(room.count, 0);
}

static bool is_open(int fd)
{
	char byte;

	return recv(fd, &byte, 1, MSG_DONTWAIT) == -1;
}

static void first_come_first_served(void **state)
{
	int a = enter(7, "a", 1), b = enter(7, "b", 2);

	(void)state;
	assert_next(nobody, 7, "a");
	assert_next(nobody, 7, "b");
	assert_empty();
	close(a);
	close(b);
}

static void the_origin_of_the_fewest_is_next(void **state)
{
	unsigned shaking[ORIGINS] = {[7] = 200, [8] = 50, [9] = 51};
	int a = enter(7, "a", 1), b = enter(9, "b", 2), c = enter(8, "c", 3);

	(void)state;
	assert_next(shaking, 8, "c");
	assert_next(shaking, 9, "b");
	assert_next(shaking, 7, "a");
	assert_empty();
	close(a);
	close(b);
	close(c);
}

/* Also if what it said before it left has not been read. */
static void who_has_left_is_passed_over(void **state)
{
	int a = enter(7, "a", 1), b = enter(7, "b", 2), c = enter(7, "c", 3);

	(void)state;
	assert_int_equal(send(a, "hello", 5, 0), 5);
	close(a);
	assert_next(nobody, 7, "b");
	close(c);
	assert_int_equal(waiting_room_sweep(&room, 4), 1);
	assert_empty();
	close(b);
}

static void who_has_waited_for_too_long_goes(void **state)
{
	int a = enter(7, "a", 1), b = enter(9, "b", 2), c = enter(9, "c", RELAY_GREET_NS);

	(void)state;
	assert_int_equal(waiting_room_sweep(&room, RELAY_GREET_NS + 1), 0);
	assert_int_equal(waiting_room_sweep(&room, RELAY_GREET_NS + 3), 2);
	assert_false(is_open(a));
	assert_false(is_open(b));
	assert_true(is_open(c));
	assert_next(nobody, 9, "c");
	assert_empty();
	close(a);
	close(b);
	close(c);
}

static void of_too_many_the_last_of_the_busiest_goes(void **state)
{
	int first = enter(7, "first", 1), last, mine, fds[2];

	(void)state;
	for (unsigned i = 2; i < RELAY_WAITING_MAX; i++)
		assert_true(waiting_room_enter(&room, -1, 7, "x", i));
	last = enter(7, "last", 2);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
	assert_false(waiting_room_enter(&room, fds[0], 7, "one more", 3));
	assert_false(is_open(fds[1]));
	assert_true(is_open(last));
	close(fds[1]);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
	mine = fds[1];
	assert_false(waiting_room_enter(&room, fds[0], 8, "mine", 3));
	assert_int_equal(room.count, RELAY_WAITING_MAX);
	assert_true(is_open(mine));
	assert_true(is_open(first));
	assert_false(is_open(last));
	waiting_room_fini(&room);
	assert_false(is_open(mine));
	assert_int_equal(room.count, 0);
	close(first);
	close(last);
	close(mine);
}

static int begin(void **state)
{
	(void)state;
	waiting_room_init(&room);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(first_come_first_served, begin),
		cmocka_unit_test_setup(the_origin_of_the_fewest_is_next, begin),
		cmocka_unit_test_setup(who_has_left_is_passed_over, begin),
		cmocka_unit_test_setup(who_has_waited_for_too_long_goes, begin),
		cmocka_unit_test_setup(of_too_many_the_last_of_the_busiest_goes, begin),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
