/*
 * Rules that name accounts of the host, as its lists of users and groups have them: a name is looked up in
 * the list of its kind, and a number is one that an account can have. Whom the kernel reports behind a unix
 * socket, with all groups. What a reload changes of TLS.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/access/gate.h"
#include "daemon/host/identity.h"
#include "tests/unit/daemon/tls_place.h"

/* ---- The host ---------------------------------------------------------------------------------- */

#define ALICE 1001		/* her group has another number */
#define ALICES 2002
#define VIEWERS 990

static struct {
	uid_t starter;
	bool viewers, nameless;
} host;

struct passwd *__wrap_getpwnam(const char *name);
struct passwd *__wrap_getpwuid(uid_t uid);
struct group *__wrap_getgrnam(const char *name);
unsigned long __wrap_getauxval(unsigned long type);
unsigned long __real_getauxval(unsigned long type);

struct passwd *__wrap_getpwnam(const char *name)
{
	static struct passwd alice = {.pw_name = (char *)"alice", .pw_uid = ALICE, .pw_gid = ALICES};

	return strcmp(name, "alice") == 0 ? &alice : NULL;
}

struct passwd *__wrap_getpwuid(uid_t uid)
{
	return uid == ALICE && !host.nameless ? __wrap_getpwnam("alice") : NULL;
}

struct group *__wrap_getgrnam(const char *name)
{
	static struct group alices = {.gr_name = (char *)"alice", .gr_gid = ALICES},
			    staff = {.gr_name = (char *)"staff", .gr_gid = 50},
			    viewers = {.gr_name = (char *)"ringtail", .gr_gid = VIEWERS};

	return strcmp(name, "alice") == 0 ? &alices : strcmp(name, "staff") == 0 ? &staff :
	       strcmp(name, "ringtail") == 0 && host.viewers ? &viewers : NULL;
}

unsigned long __wrap_getauxval(unsigned long type)
{
	return type == AT_EUID ? host.starter : __real_getauxval(type);
}

static int setup(void **state)
{
	(void)state;
	memset(&host, 0, sizeof(host));
	return 0;
}

/* ---- Rules ------------------------------------------------------------------------------------- */

static const struct config_words none;

static struct config_words word(const char *text)
{
	return (struct config_words){.count = 1, .word = {(char *)text}};
}

static struct roles *roles_of(const char *viewer, const char *operator)
{
	struct config_words viewers = viewer ? word(viewer) : none,
			    operators = operator ? word(operator) : none;
	struct roles *roles;
	struct error error;

	if (roles_create(&viewers, &operators, &roles, &error) != 0)
		fail_msg("%s", error.what);
	return roles;
}

/* Of a user who is in one group, and was in another. */
static struct client_identity user(uid_t uid, gid_t group, gid_t was)
{
	return (struct client_identity){.proof = IDENTITY_USER, .uid = uid, .groups = 1,
					.group = {group, was}, .text = "user:?"};
}

static enum role judge(const struct roles *roles, uid_t uid, gid_t group)
{
	struct client_identity identity = user(uid, group, 1);

	return roles_judge(roles, &identity);
}

static void test_a_user_and_a_group_of_one_name(void **state)
{
	struct roles *roles = roles_of("group:alice", "user:alice");

	(void)state;
	assert_int_equal(judge(roles, ALICE, 1), ROLE_OPERATOR);
	assert_int_equal(judge(roles, ALICES, 1), ROLE_NONE);
	assert_int_equal(judge(roles, 5, ALICES), ROLE_VIEWER);
	assert_int_equal(judge(roles, 5, ALICE), ROLE_NONE);
	assert_int_equal(judge(roles, 5, 2), ROLE_NONE);
	roles_destroy(roles);
}

static void test_a_group_that_was_left(void **state)
{
	struct client_identity identity = user(5, 1, ALICES);
	struct roles *roles = roles_of("group:alice", NULL);

	(void)state;
	assert_int_equal(roles_judge(roles, &identity), ROLE_NONE);
	identity.groups = 2;
	assert_int_equal(roles_judge(roles, &identity), ROLE_VIEWER);
	roles_destroy(roles);
}

static void test_numbers_that_no_account_has(void **state)
{
	/* The second is 5, and the third root's, if their upper half is cut off. */
	static const char *const bad[] = {"user:4294967295", "user:4294967301", "user:4294967296",
					  "group:4294967295", "group:4294967346"};
	struct roles *roles;
	struct error error;

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		struct config_words words = word(bad[i]);

		assert_int_equal(roles_create(&words, &none, &roles, &error), -EINVAL);
		assert_string_equal(error.code, "rule-nobody");
		assert_non_null(strstr(error.what, *bad[i] == 'u' ? "no such user" : "no such group"));
	}
	roles = roles_of("user:4294967294", NULL);
	assert_int_equal(judge(roles, 4294967294, 1), ROLE_VIEWER);
	assert_int_equal(judge(roles, 0, 1), ROLE_OPERATOR);
	roles_destroy(roles);
}

/* A name of the other list is nobody; and one bad rule refuses them all, wherever it stands. */
static void test_a_rule_that_means_nobody(void **state)
{
	struct config_words good = word("local"), bad[] = {word("user:staff"), word("group:bob"), word("bob")};
	struct roles *roles;
	struct error error;

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		struct config_words last = {.count = 2, .word = {(char *)"user:7", bad[i].word[0]}},
				    first = {.count = 2, .word = {bad[i].word[0], (char *)"user:7"}};

		assert_int_equal(roles_create(&bad[i], &none, &roles, &error), -EINVAL);
		assert_int_equal(roles_create(&good, &bad[i], &roles, &error), -EINVAL);
		assert_int_equal(roles_create(&last, &none, &roles, &error), -EINVAL);
		assert_int_equal(roles_create(&first, &none, &roles, &error), -EINVAL);
		assert_string_equal(error.code, i < 2 ? "rule-nobody" : "rule-unknown");
	}
}

static void test_names_of_users(void **state)
{
	struct client_identity alice = user(ALICE, 1, 1), member = user(5, ALICES, 1);
	struct roles *roles = roles_of("group:alice", "user:alice");

	(void)state;
	assert_string_equal(roles_name(roles, &alice), "user:alice");
	/* A group's rule lets its members in, and is nobody's name. */
	assert_int_equal(roles_judge(roles, &member), ROLE_VIEWER);
	assert_string_equal(roles_name(roles, &member), "user:?");
	roles_destroy(roles);
}

static void test_who_started_the_daemon(void **state)
{
	struct client_identity alice = user(ALICE, 1, 1);
	struct roles *roles;

	(void)state;
	host.starter = ALICE;
	roles = roles_of("cert:a", NULL);
	assert_int_equal(judge(roles, ALICE, 1), ROLE_OPERATOR);
	assert_int_equal(judge(roles, 0, 1), ROLE_OPERATOR);
	assert_int_equal(judge(roles, ALICE + 1, 1), ROLE_NONE);
	assert_string_equal(roles_name(roles, &alice), "user:alice");
	roles_destroy(roles);
	host.nameless = true;
	roles = roles_of("cert:a", NULL);
	assert_int_equal(judge(roles, ALICE, 1), ROLE_OPERATOR);
	assert_string_equal(roles_name(roles, &alice), "user:1001");
	roles_destroy(roles);
	host.starter = 0;
	roles = roles_of("cert:a", NULL);
	assert_int_equal(judge(roles, ALICE, 1), ROLE_NONE);
	roles_destroy(roles);
}

/* What stands where no rule does, and goes with the first of any kind. */
static void test_defaults(void **state)
{
	struct client_identity local;
	struct roles *roles;

	(void)state;
	identity_set_local(&local);
	roles = roles_of(NULL, NULL);
	assert_int_equal(judge(roles, 5, VIEWERS), ROLE_NONE);
	assert_int_equal(judge(roles, 5, 0), ROLE_NONE);
	roles_destroy(roles);
	host.viewers = true;
	roles = roles_of(NULL, NULL);
	assert_int_equal(judge(roles, 5, VIEWERS), ROLE_VIEWER);
	assert_int_equal(roles_judge(roles, &local), ROLE_VIEWER);
	roles_destroy(roles);
	for (unsigned i = 0; i < 2; i++) {
		roles = i ? roles_of("user:7", NULL) : roles_of(NULL, "user:7");
		assert_int_equal(judge(roles, 5, VIEWERS), ROLE_NONE);
		assert_int_equal(roles_judge(roles, &local), ROLE_NONE);
		roles_destroy(roles);
	}
}

/* ---- Who is there ------------------------------------------------------------------------------ */

static struct client_identity peer(void)
{
	struct client_identity identity;
	int fds[2];

	memset(&identity, 0xaa, sizeof(identity));
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
	assert_int_equal(identity_of_unix_peer(fds[0], &identity), 0);
	close(fds[0]);
	close(fds[1]);
	return identity;
}

/* The first group, and then all others; of somebody in more than fit, the first alone. */
static void test_groups_of_a_unix_peer(void **state)
{
	gid_t had[256], some[IDENTITY_GROUPS_MAX];
	int n = getgroups(256, had);
	struct client_identity identity;

	(void)state;
	assert_true(n >= 0);
	for (unsigned i = 0; i < IDENTITY_GROUPS_MAX; i++)
		some[i] = 7000 + i;
	if (geteuid() != 0 || setgroups(IDENTITY_GROUPS_MAX - 1, some) != 0)
		skip();
	assert_int_equal(setegid(4321), 0);
	identity = peer();
	assert_int_equal(setegid(0), 0);
	assert_int_equal(identity.groups, IDENTITY_GROUPS_MAX);
	assert_int_equal(identity.group[0], 4321);
	assert_memory_equal(identity.group + 1, some, sizeof(some) - sizeof(*some));
	assert_int_equal(setgroups(IDENTITY_GROUPS_MAX, some), 0);
	identity = peer();
	assert_int_equal(identity.groups, 1);
	assert_int_equal(identity.group[0], getegid());
	assert_int_equal(setgroups(0, NULL), 0);
	identity = peer();
	assert_int_equal(identity.groups, 1);
	assert_int_equal(setgroups((size_t)n, had), 0);
}

/* ---- A gate with TLS --------------------------------------------------------------------------- */

static void expect_hint(enum role needed, const char *text, const char *hint)
{
	struct client_identity local;
	struct config config = {.viewer = word("user:7")};
	struct gate *gate;
	struct error error;

	assert_int_equal(gate_create(&config, &gate, &error), 0);
	identity_set_local(&local);
	assert_int_equal(gate_allow(gate, &local, needed, "do it", &error), -EACCES);
	assert_string_equal(error.what, text);
	assert_non_null(strstr(error.hint, hint));
	assert_string_equal(gate_name(gate, &local), "local");
	/* Nobody's token is good where there are none. */
	identity_set_unproved(&local);
	assert_int_equal(gate_admit(gate, &local, "rt_one", &error), -EACCES);
	assert_string_equal(error.code, "bad-token");
	identity_set_name(&local, IDENTITY_TOKEN, "alice");
	gate_judge(gate, &local);
	assert_int_equal(local.role, ROLE_NONE);
	gate_destroy(gate);
}

/* Plain tcp cannot operate, whatever rule is written: the remedy is another way in. */
static void test_remedies(void **state)
{
	(void)state;
	expect_hint(ROLE_VIEWER, "you are local, who may not do it", "`viewer = local`");
	expect_hint(ROLE_OPERATOR, "you are local, who may not do it", "`operator = user:NAME`");
}

/* A name that looks like a certificate's or a token's proves nothing. */
static void test_a_name_alone_is_no_proof(void **state)
{
	struct client_identity identity = {.proof = IDENTITY_LOCAL, .text = "cert:web-1"};
	struct roles *roles = roles_of("token:*", "cert:*");

	(void)state;
	assert_int_equal(roles_judge(roles, &identity), ROLE_NONE);
	identity.proof = IDENTITY_TOKEN;
	assert_int_equal(roles_judge(roles, &identity), ROLE_NONE);
	identity.proof = IDENTITY_CERT;
	assert_int_equal(roles_judge(roles, &identity), ROLE_OPERATOR);
	strcpy(identity.text, "token:ci");
	assert_int_equal(roles_judge(roles, &identity), ROLE_NONE);
	identity.proof = IDENTITY_TOKEN;
	assert_int_equal(roles_judge(roles, &identity), ROLE_VIEWER);
	roles_destroy(roles);
}

/* Without the list of those that are revoked all of them would be let in. */
static void test_a_list_that_is_not_there_is_no_gate(void **state)
{
	struct config config = {0};
	struct place place;
	struct error error;
	struct gate *gate;

	(void)state;
	place_open(&place, -60, 3600);
	config.tls_cert = place.cert;
	config.tls_key = place.key;
	config.tls_client_ca = place.ca;
	config.tls_crl = (char *)"/nowhere/revoked.pem";
	assert_int_not_equal(gate_create(&config, &gate, &error), 0);
	config.tls_crl = NULL;
	assert_int_equal(gate_create(&config, &gate, &error), 0);
	gate_destroy(gate);
	place_close(&place);
}

/* A reload changes what is in the context that sockets have, and leaves the context. */
static void test_reload_keeps_the_context(void **state)
{
	struct gate *gate, *next;
	struct config config = {0}, plain = {0};
	struct place place, later;
	struct error error;
	struct transport_tls_context *context;
	int64_t expires;

	(void)state;
	place_open(&place, -60, 40 * 86400);
	place_open(&later, -60, 50 * 86400);
	config.tls_cert = place.cert;
	config.tls_key = place.key;
	config.tls_client_ca = place.ca;
	assert_int_equal(gate_create(&config, &gate, &error), 0);
	context = gate_tls(gate);
	assert_non_null(context);
	expires = transport_tls_context_expires(context);
	config.tls_cert = later.cert;
	config.tls_key = later.key;
	assert_int_equal(gate_create(&config, &next, &error), 0);
	assert_ptr_not_equal(gate_tls(next), context);
	gate_replace(gate, next);
	assert_ptr_equal(gate_tls(gate), context);
	assert_true(transport_tls_context_expires(context) > expires + 5 * 86400);
	/* One without TLS leaves it, too; and one that cannot be read is none. */
	assert_int_equal(gate_create(&plain, &next, &error), 0);
	gate_replace(gate, next);
	assert_ptr_equal(gate_tls(gate), context);
	gate_destroy(gate);
	/* Nor does TLS come to sockets that were made without. */
	assert_int_equal(gate_create(&plain, &gate, &error), 0);
	assert_int_equal(gate_create(&config, &next, &error), 0);
	gate_replace(gate, next);
	assert_null(gate_tls(gate));
	gate_destroy(gate);
	config.tls_key = later.ca;
	assert_true(gate_create(&config, &gate, &error) < 0);
	place_close(&place);
	place_close(&later);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_a_user_and_a_group_of_one_name, setup),
		cmocka_unit_test_setup(test_a_group_that_was_left, setup),
		cmocka_unit_test_setup(test_numbers_that_no_account_has, setup),
		cmocka_unit_test_setup(test_a_rule_that_means_nobody, setup),
		cmocka_unit_test_setup(test_names_of_users, setup),
		cmocka_unit_test_setup(test_who_started_the_daemon, setup),
		cmocka_unit_test_setup(test_defaults, setup),
		cmocka_unit_test_setup(test_groups_of_a_unix_peer, setup),
		cmocka_unit_test_setup(test_remedies, setup),
		cmocka_unit_test_setup(test_a_name_alone_is_no_proof, setup),
		cmocka_unit_test_setup(test_a_list_that_is_not_there_is_no_gate, setup),
		cmocka_unit_test_setup(test_reload_keeps_the_context, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
