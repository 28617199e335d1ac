/*
 * Who has a place on the server, who is turned away, and what it asks on behalf of whom. Sessions are names
 * here, and whoever is asked something writes that down.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/base/counters.h"
#include "daemon/base/limits.h"
#include "daemon/base/log.h"
#include "daemon/net/transport.h"
#include "daemon/serve/dump_parts.h"
#include "daemon/serve/server.h"
#include "daemon/serve/stuck.h"
#include "tests/unit/daemon/small_catalog.h"

#define CLIENTS		64

static char said[8192];

static void __attribute__((format(printf, 1, 2))) say(const char *format, ...)
{
	size_t used = strlen(said);
	va_list arguments;

	va_start(arguments, format);
	assert_true(vsnprintf(said + used, sizeof(said) - used, format, arguments) < (int)(sizeof(said) - used));
	va_end(arguments);
}

/* All that was said since it was asked before. */
static void expect_said(const char *expected)
{
	assert_string_equal(said, expected);
	said[0] = '\0';
}

/* ---- Sessions that are names --------------------------------------------------------------------- */

struct session {
	void *client;
	uint64_t id;
	struct client_identity identity;
	struct subscriber subscriber;
	bool shaking;			/* in the middle of its handshake */
	bool gone;
};

static struct session session[CLIENTS];
static unsigned sessions;
static struct session_host host;	/* as the server made it */
static bool no_session;

struct session *__wrap_session_create(const struct session_config *config, struct transport *transport,
				      uint64_t id, const char *peer);
struct session *__wrap_session_create(const struct session_config *config, struct transport *transport,
				      uint64_t id, const char *peer)
{
	struct session *mine = &session[sessions];

	assert_null(transport);
	assert_true(sessions < CLIENTS);
	host = *config->host;
	if (no_session)
		return NULL;
	sessions++;
	*mine = (struct session){.client = config->client, .id = id};
	say("%s=%llu ", peer, (unsigned long long)id);
	return mine;
}

void __wrap_session_destroy(struct session *of, bool orderly);
void __wrap_session_destroy(struct session *of, bool orderly)
{
	say("end:%llu%s ", (unsigned long long)of->id, orderly ? ":orderly" : "");
	of->gone = true;
	host.closed(host.context, of, orderly);
}

bool __wrap_session_turn_away(struct session *of, const struct error *error);
bool __wrap_session_turn_away(struct session *of, const struct error *error)
{
	say("away:%llu:%s ", (unsigned long long)of->id, error->code);
	if (of->shaking)
		return false;
	of->gone = true;
	host.closed(host.context, of, false);
	return true;
}

void __wrap_session_refuse(struct session *of, const struct error *error, bool fatal);
void __wrap_session_refuse(struct session *of, const struct error *error, bool fatal)
{
	say("refuse:%llu:%s%s ", (unsigned long long)of->id, error->code, fatal ? "" : ":lives");
}

struct client_identity *__wrap_session_identity(struct session *of);
struct client_identity *__wrap_session_identity(struct session *of)
{
	return &of->identity;
}

const struct transport *__wrap_session_transport(const struct session *of);
const struct transport *__wrap_session_transport(const struct session *of)
{
	(void)of;
	return NULL;
}

void *__wrap_session_client(const struct session *of);
void *__wrap_session_client(const struct session *of)
{
	return of->client;
}

uint64_t __wrap_session_id(const struct session *of);
uint64_t __wrap_session_id(const struct session *of)
{
	return of->id;
}

const char *__wrap_session_peer(const struct session *of);
const char *__wrap_session_peer(const struct session *of)
{
	(void)of;
	return "peer";
}

struct subscriber *__wrap_session_subscriber(struct session *of);
struct subscriber *__wrap_session_subscriber(struct session *of)
{
	return &of->subscriber;
}

/* Where a client comes from is told apart the same way in each run. */
int __wrap_random_bytes(void *bytes, size_t n);
int __wrap_random_bytes(void *bytes, size_t n)
{
	memset(bytes, 0x2a, n);
	return 0;
}

/* ---- Whom it asks ------------------------------------------------------------------------------ */

static int admit_err, subscribe_err, consume_err, allow_err, revoked_err;
static bool registers;

int __wrap_gate_admit(const struct gate *gate, struct client_identity *identity, const char *token,
		      struct error *error);
int __wrap_gate_admit(const struct gate *gate, struct client_identity *identity, const char *token,
		      struct error *error)
{
	(void)gate, (void)identity, (void)token;
	return admit_err ? error_set(error, -admit_err, "denied", "no") : 0;
}

void __wrap_gate_judge(const struct gate *gate, struct client_identity *identity);
void __wrap_gate_judge(const struct gate *gate, struct client_identity *identity)
{
	(void)gate;
	say("judge:%s ", identity->text);
}

int __wrap_gate_allow(const struct gate *gate, const struct client_identity *identity, enum role needed,
		      const char *what, struct error *error);
int __wrap_gate_allow(const struct gate *gate, const struct client_identity *identity, enum role needed,
		      const char *what, struct error *error)
{
	(void)gate, (void)identity, (void)what;
	assert_int_equal(needed, ROLE_VIEWER);
	return allow_err ? error_set(error, -allow_err, "denied", "no") : 0;
}

const char *__wrap_gate_name(const struct gate *gate, const struct client_identity *identity);
const char *__wrap_gate_name(const struct gate *gate, const struct client_identity *identity)
{
	(void)gate;
	return identity->text;
}

struct transport_tls_context *__wrap_gate_tls(const struct gate *gate);
struct transport_tls_context *__wrap_gate_tls(const struct gate *gate)
{
	(void)gate;
	return NULL;
}

void __wrap_fanout_leave(struct fanout *fanout, struct subscriber *subscriber, bool orderly);
void __wrap_fanout_leave(struct fanout *fanout, struct subscriber *subscriber, bool orderly)
{
	(void)fanout;
	assert_non_null(subscriber);
	say("leaves%s ", orderly ? ":orderly" : "");
}

void __wrap_control_leave(struct control *control, const struct session *of);
void __wrap_control_leave(struct control *control, const struct session *of)
{
	(void)control;
	say("control:%llu ", (unsigned long long)of->id);
}

void __wrap_stuck_leave(struct stuck *stuck, const struct session *of);
void __wrap_stuck_leave(struct stuck *stuck, const struct session *of)
{
	(void)stuck;
	say("stuck:%llu ", (unsigned long long)of->id);
}

void __wrap_dump_parts_leave(struct dump_parts *parts, const struct session *of);
void __wrap_dump_parts_leave(struct dump_parts *parts, const struct session *of)
{
	(void)parts;
	say("dumps:%llu\n", (unsigned long long)of->id);
}

struct stuck *__wrap_stuck_create(struct fanout *fanout, struct frame_codec *codec,
				  const Ringtail__V1__Catalog *catalog);
struct stuck *__wrap_stuck_create(struct fanout *fanout, struct frame_codec *codec,
				  const Ringtail__V1__Catalog *catalog)
{
	(void)fanout, (void)codec, (void)catalog;
	return (struct stuck *)said;
}

void __wrap_stuck_destroy(struct stuck *stuck);
void __wrap_stuck_destroy(struct stuck *stuck)
{
	(void)stuck;
}

struct dump_parts *__wrap_dump_parts_create(struct fanout *fanout, struct dumps *dumps,
					    struct disk_thread *disk_thread, struct frame_codec *codec);
struct dump_parts *__wrap_dump_parts_create(struct fanout *fanout, struct dumps *dumps,
					    struct disk_thread *disk_thread, struct frame_codec *codec)
{
	(void)fanout, (void)dumps, (void)disk_thread, (void)codec;
	return (struct dump_parts *)said;
}

void __wrap_dump_parts_destroy(struct dump_parts *parts);
void __wrap_dump_parts_destroy(struct dump_parts *parts)
{
	(void)parts;
}

const Ringtail__V1__Catalog *__wrap_loader_catalog(const struct loader *loader);
const Ringtail__V1__Catalog *__wrap_loader_catalog(const struct loader *loader)
{
	(void)loader;
	return small_catalog_get();
}

static void say_request(const struct subscribe_request *request)
{
	for (size_t i = 0; i < request->what.globs; i++)
		say("%s,", request->what.glob[i]);
	say("'%s':%x", request->what.filter, request->what.flags);
	if (request->consumer)
		say(":%s", request->consumer);
	for (uint32_t i = 0; request->since && i < request->since->n; i++)
		say(":%u=%llu", request->since->position[i].cpu,
		    (unsigned long long)request->since->position[i].seq);
	if (request->since_realtime_ns)
		say(":at%llu", (unsigned long long)request->since_realtime_ns);
	say(" ");
}

int __wrap_fanout_subscribe(struct fanout *fanout, struct subscriber *subscriber,
			    const struct subscribe_request *request, struct error *error);
int __wrap_fanout_subscribe(struct fanout *fanout, struct subscriber *subscriber,
			    const struct subscribe_request *request, struct error *error)
{
	(void)fanout, (void)subscriber, (void)error;
	say("subscribe:");
	say_request(request);
	return subscribe_err;
}

int __wrap_fanout_may_consume(const struct fanout *fanout, const char *name, const struct client_identity *identity,
			      bool *its_registers, struct error *error);
int __wrap_fanout_may_consume(const struct fanout *fanout, const char *name, const struct client_identity *identity,
			      bool *its_registers, struct error *error)
{
	(void)fanout, (void)identity, (void)error;
	say("may:%s ", name);
	*its_registers = registers;
	return consume_err;
}

void __wrap_control_ask_register(struct control *control, struct session *of, struct subscribe_request *request);
void __wrap_control_ask_register(struct control *control, struct session *of, struct subscribe_request *request)
{
	(void)control, (void)of;
	say("register:");
	say_request(request);
	free(request);
}

int __wrap_fanout_ack(struct fanout *fanout, struct subscriber *subscriber, const struct cursor *upto,
		      struct error *error);
int __wrap_fanout_ack(struct fanout *fanout, struct subscriber *subscriber, const struct cursor *upto,
		      struct error *error)
{
	(void)fanout, (void)subscriber, (void)error;
	say("ack:%u ", upto->n);
	return subscribe_err;
}

int __wrap_transport_tls_identity(const struct transport *transport, struct client_identity *identity,
				  struct error *error);
int __wrap_transport_tls_identity(const struct transport *transport, struct client_identity *identity,
				  struct error *error)
{
	(void)transport, (void)identity;
	say("certificate ");
	return error_set(error, EACCES, "certificate-name", "no");
}

int __wrap_transport_tls_check_revoked(const struct transport_tls_context *context, const struct transport *transport,
				       struct error *error);
int __wrap_transport_tls_check_revoked(const struct transport_tls_context *context, const struct transport *transport,
				       struct error *error)
{
	(void)context, (void)transport;
	say("revoked? ");
	return revoked_err ? error_set(error, -revoked_err, "certificate-revoked", "no") : 0;
}

struct transport *__wrap_transport_plain_create(int fd);
struct transport *__wrap_transport_plain_create(int fd)
{
	say("plain:%d ", fd);
	return NULL;
}

struct transport *__wrap_transport_tls_create(struct transport_tls_context *context, int fd);
struct transport *__wrap_transport_tls_create(struct transport_tls_context *context, int fd)
{
	(void)context;
	say("tls:%d ", fd);
	return NULL;
}

void __wrap_transport_tls_turn_away(int fd);
void __wrap_transport_tls_turn_away(int fd)
{
	(void)fd;
	say("alert ");
}

/* ---- The fixture ------------------------------------------------------------------------------- */

struct fixture {
	struct server *server;
	struct event_base *base;
	struct frame_codec *codec;
	struct answers answers;
};

static void on_log(enum log_level level, const char *code, const char *text)
{
	(void)level, (void)code, (void)text;
}

static uint64_t no_time(void)
{
	return 0;
}

static void open_all(struct fixture *f, const struct server_bounds *bounds)
{
	static const struct log_sink sink = {on_log, no_time};
	struct server_config config = {.bounds = *bounds};

	log_set_sink(&sink);
	config.bounds.session.silence_timeout_ns = 1000000000000;
	*f = (struct fixture){.base = event_base_new(), .codec = frame_codec_create(1)};
	said[0] = '\0';
	sessions = 0;
	no_session = registers = false;
	admit_err = subscribe_err = consume_err = allow_err = 0;
	config.base = f->base;
	config.codec = f->codec;
	config.answers = &f->answers;
	f->server = server_create(&config);
	assert_non_null(f->server);
}

static void close_all(struct fixture *f)
{
	server_destroy(f->server);
	for (unsigned i = 0; i < sessions; i++)
		assert_true(session[i].gone);
	frame_codec_destroy(f->codec);
	event_base_free(f->base);
	log_set_sink(NULL);
}

static struct session *come(struct fixture *f, enum server_door door, const char *peer)
{
	unsigned before = sessions;

	server_serve(f->server, door, NULL, peer);
	return sessions > before ? &session[before] : NULL;
}

static int admit(struct session *of, enum role role, const char *name)
{
	struct error error = {0};
	int err;

	of->identity.role = role;
	snprintf(of->identity.text, sizeof(of->identity.text), "%s", name);
	err = host.admit(host.context, of, "", &error);
	if (err)
		say("no:%s ", error.code);
	return err;
}

/* ---- Places -------------------------------------------------------------------------------------- */

struct place {
	unsigned clients_max, identity_max;
	unsigned viewers, operators;	/* that are served, each under its own name */
	unsigned same;			/* of them, so many under the name of who comes: viewers first */
	enum role role;
	const char *code;		/* "": there is a place */
};

/* To the last place: of all, of those that are no operator's, and of one identity. */
static void places_to_the_last(void **state)
{
	static const struct place places[] = {
		{.clients_max = 3, .viewers = 2, .role = ROLE_VIEWER, .code = ""},
		{.clients_max = 3, .viewers = 3, .role = ROLE_VIEWER, .code = "too-many-clients"},
		{.clients_max = 3, .operators = 3, .role = ROLE_OPERATOR, .code = "too-many-clients"},
		/* One of four is kept for operators, and one of eight; two of sixteen. */
		{.clients_max = 4, .viewers = 2, .role = ROLE_VIEWER, .code = ""},
		{.clients_max = 4, .viewers = 3, .role = ROLE_VIEWER, .code = "too-many-clients"},
		{.clients_max = 4, .viewers = 3, .role = ROLE_OPERATOR, .code = ""},
		{.clients_max = 4, .viewers = 2, .operators = 1, .role = ROLE_VIEWER, .code = ""},
		{.clients_max = 4, .viewers = 3, .operators = 1, .role = ROLE_OPERATOR, .code = "too-many-clients"},
		{.clients_max = 16, .viewers = 13, .role = ROLE_VIEWER, .code = ""},
		{.clients_max = 16, .viewers = 14, .role = ROLE_VIEWER, .code = "too-many-clients"},
		{.clients_max = 16, .viewers = 14, .role = ROLE_OPERATOR, .code = ""},
		{.clients_max = 16, .identity_max = 3, .viewers = 5, .same = 2, .role = ROLE_VIEWER, .code = ""},
		{.clients_max = 16, .identity_max = 3, .viewers = 5, .same = 3, .role = ROLE_VIEWER,
		 .code = "too-many-of-identity"},
		{.clients_max = 16, .identity_max = 3, .viewers = 5, .same = 3, .role = ROLE_OPERATOR,
		 .code = "too-many-of-identity"},
		{.clients_max = 16, .viewers = 5, .same = 5, .role = ROLE_VIEWER, .code = ""},
	};
	struct fixture f;

	(void)state;
	for (unsigned i = 0; i < sizeof(places) / sizeof(*places); i++) {
		const struct place *place = &places[i];
		struct server_bounds bounds = {.clients_max = place->clients_max, .pending_max = 100};
		uint64_t refused = counter_read(COUNTER_sessions_refused);
		uint64_t of_one = counter_read(COUNTER_sessions_of_one_refused);
		char name[16], expected[40];
		struct session *of;

		bounds.identity_max = place->identity_max;
		open_all(&f, &bounds);
		/* It came before the others were let in, and is judged after them. */
		of = come(&f, SERVER_TLS, "1.2.3.4:5");
		for (unsigned j = 0; j < place->viewers + place->operators; j++) {
			snprintf(name, sizeof(name), "%s%u", j < place->same ? "it" : "other",
				 j < place->same ? 0 : j);
			assert_int_equal(admit(come(&f, SERVER_TLS, "1.2.3.4:5"),
					       j < place->viewers ? ROLE_VIEWER : ROLE_OPERATOR, name), 0);
		}
		said[0] = '\0';
		assert_int_equal(admit(of, place->role, "it0"), *place->code ? -EBUSY : 0);
		snprintf(expected, sizeof(expected), *place->code ? "no:%s " : "%s", place->code);
		expect_said(expected);
		assert_int_equal(counter_read(COUNTER_sessions_refused), refused + !!*place->code);
		assert_int_equal(counter_read(COUNTER_sessions_of_one_refused),
				 of_one + (strcmp(place->code, "too-many-of-identity") == 0));
		/* Who was let in is not asked a second time. */
		if (!*place->code)
			assert_int_equal(admit(of, place->role, "it0"), 0);
		close_all(&f);
	}
}

/* Whom the gate denies has no place, and is counted. */
static void denied_at_the_gate(void **state)
{
	const struct server_bounds bounds = {.clients_max = 3, .pending_max = 100};
	uint64_t denied = counter_read(COUNTER_sessions_denied);
	struct fixture f;

	(void)state;
	open_all(&f, &bounds);
	admit_err = -EACCES;
	for (unsigned i = 0; i < 5; i++)
		assert_int_equal(admit(come(&f, SERVER_UNIX, "unix pid 1 uid 2"), ROLE_VIEWER, "a"), -EACCES);
	assert_int_equal(counter_read(COUNTER_sessions_denied), denied + 5);
	admit_err = 0;
	said[0] = '\0';
	assert_int_equal(admit(come(&f, SERVER_UNIX, "unix pid 1 uid 2"), ROLE_VIEWER, "a"), 0);
	expect_said("unix pid 1 uid 2=6 ");
	close_all(&f);
}

/* Of those that have not said who they are, the oldest of where most come from goes, and no other. */
static void oldest_of_the_busiest_origin_goes(void **state)
{
	const struct server_bounds bounds = {.clients_max = 10, .pending_max = 5};
	uint64_t evicted = counter_read(COUNTER_sessions_pending_evicted);
	struct fixture f;

	(void)state;
	open_all(&f, &bounds);
	come(&f, SERVER_TLS, "9.9.9.9:1");
	come(&f, SERVER_TLS, "1.2.3.4:1");
	come(&f, SERVER_TLS, "1.2.3.4:22");
	come(&f, SERVER_UNIX, "unix pid 7 uid 3");
	come(&f, SERVER_UNIX, "unix pid 8 uid 3");
	assert_int_equal(admit(&session[4], ROLE_VIEWER, "a"), 0);
	come(&f, SERVER_TLS, "[::1]:5");
	said[0] = '\0';
	come(&f, SERVER_TLS, "8.8.8.8:5");
	expect_said("away:2:too-many-pending leaves control:2 stuck:2 dumps:2\n8.8.8.8:5=7 ");
	/* All are from elsewhere now: the oldest of all. */
	come(&f, SERVER_TLS, "7.7.7.7:5");
	expect_said("away:1:too-many-pending leaves control:1 stuck:1 dumps:1\n7.7.7.7:5=8 ");
	/* A user's connections are of one origin, whatever their processes are. */
	come(&f, SERVER_UNIX, "unix pid 99 uid 3");
	expect_said("away:3:too-many-pending leaves control:3 stuck:3 dumps:3\nunix pid 99 uid 3=9 ");
	come(&f, SERVER_TLS, "6.6.6.6:5");
	expect_said("away:4:too-many-pending leaves control:4 stuck:4 dumps:4\n6.6.6.6:5=10 ");
	assert_int_equal(counter_read(COUNTER_sessions_pending_evicted), evicted + 4);
	close_all(&f);
}

/* Who is in the middle of its handshake ends later: so many wait so at most, and the oldest makes room. */
static void turned_away_in_the_middle(void **state)
{
	const struct server_bounds bounds = {.clients_max = 10, .pending_max = 1};
	struct fixture f;
	char expected[64];

	(void)state;
	open_all(&f, &bounds);
	for (unsigned i = 0; i < TURNED_AWAY_MAX + 3; i++) {
		said[0] = '\0';
		come(&f, SERVER_TLS, "1.2.3.4:1")->shaking = true;
		snprintf(expected, sizeof(expected), "end:%u leaves ", i - TURNED_AWAY_MAX);
		assert_int_equal(strstr(said, "end:") != NULL, i > TURNED_AWAY_MAX);
		if (i > TURNED_AWAY_MAX)
			assert_non_null(strstr(said, expected));
	}
	close_all(&f);
}

/* In TLS it hears so once it has said who it is; else at once, so many at a time, and then nothing. */
static void who_comes_when_all_is_full(void **state)
{
	const struct server_bounds bounds = {.clients_max = 1, .pending_max = 100};
	uint64_t refused = counter_read(COUNTER_sessions_refused);
	uint64_t accepted = counter_read(COUNTER_sessions_accepted);
	uint64_t no_memory = counter_read(COUNTER_sessions_out_of_memory);
	struct fixture f;

	(void)state;
	open_all(&f, &bounds);
	assert_int_equal(admit(come(&f, SERVER_PLAIN, "127.0.0.1:1"), ROLE_OPERATOR, "a"), 0);
	said[0] = '\0';
	come(&f, SERVER_TLS, "1.2.3.4:1");
	expect_said("1.2.3.4:1=2 ");
	for (unsigned i = 0; i < REFUSED_MAX; i++) {
		come(&f, i % 2 ? SERVER_UNIX : SERVER_PLAIN, "p");
		assert_non_null(strstr(said, ":too-many-clients "));
		said[0] = '\0';
	}
	assert_int_equal(counter_read(COUNTER_sessions_refused), refused + REFUSED_MAX);
	/* What it says meanwhile lets it in nowhere. */
	assert_int_equal(admit(&session[3], ROLE_OPERATOR, "b"), 0);
	come(&f, SERVER_UNIX, "p");
	expect_said("");
	assert_int_equal(counter_read(COUNTER_sessions_refused), refused + REFUSED_MAX + 1);
	come(&f, SERVER_TLS, "1.2.3.4:2");
	assert_int_equal(sessions, 3 + REFUSED_MAX);
	/* Without memory nobody's place is taken. */
	no_session = true;
	come(&f, SERVER_TLS, "1.2.3.4:2");
	said[0] = '\0';
	no_session = false;
	assert_int_equal(counter_read(COUNTER_sessions_accepted), accepted + 3 + REFUSED_MAX);
	assert_int_equal(counter_read(COUNTER_sessions_out_of_memory), no_memory + 1);
	assert_int_equal(admit(&session[1], ROLE_OPERATOR, "b"), -EBUSY);
	expect_said("no:too-many-clients ");
	close_all(&f);
}

/* Only who was let in loses its role, and then its connection; the door stays as it was. */
static void judged_anew(void **state)
{
	struct server_bounds bounds = {.clients_max = 9, .pending_max = 100};
	uint64_t denied = counter_read(COUNTER_sessions_denied);
	struct fixture f;

	(void)state;
	open_all(&f, &bounds);
	for (unsigned i = 0; i < 3; i++)
		come(&f, SERVER_UNIX, "p");
	admit(&session[0], ROLE_VIEWER, "a");
	admit(&session[2], ROLE_OPERATOR, "b");
	said[0] = '\0';
	server_set_bounds(f.server, &bounds);
	expect_said("judge:a judge:b ");
	allow_err = -EACCES;
	server_set_bounds(f.server, &bounds);
	expect_said("judge:a refuse:1:denied judge:b refuse:3:denied ");
	assert_int_equal(counter_read(COUNTER_sessions_denied), denied + 2);
	/* Fewer places than are taken: those that have one keep it, and nobody else comes in. */
	bounds.clients_max = 1;
	server_set_bounds(f.server, &bounds);
	said[0] = '\0';
	assert_int_equal(admit(&session[1], ROLE_OPERATOR, "c"), -EBUSY);
	come(&f, SERVER_UNIX, "p");
	expect_said("no:too-many-clients p=4 refuse:4:too-many-clients ");
	bounds.clients_max = 9;
	bounds.identity_max = 1;
	for (unsigned i = 0; i < 2; i++)
		strcpy(session[2 * i].identity.text, "c");
	server_set_bounds(f.server, &bounds);
	said[0] = '\0';
	assert_int_equal(admit(&session[1], ROLE_OPERATOR, "c"), -EBUSY);
	expect_said("no:too-many-of-identity ");
	close_all(&f);
}

/* Whatever its role: one whose certificate was revoked. */
static void judged_by_its_certificate(void **state)
{
	struct server_bounds bounds = {.clients_max = 9, .pending_max = 100};
	uint64_t denied = counter_read(COUNTER_sessions_denied);
	struct fixture f;

	(void)state;
	allow_err = 0;
	open_all(&f, &bounds);
	come(&f, SERVER_TLS, "p");
	come(&f, SERVER_UNIX, "p");
	admit(&session[0], ROLE_VIEWER, "a");
	admit(&session[1], ROLE_VIEWER, "b");
	said[0] = '\0';
	server_set_bounds(f.server, &bounds);
	expect_said("judge:a revoked? judge:b ");
	revoked_err = -EACCES;
	server_set_bounds(f.server, &bounds);
	expect_said("judge:a revoked? refuse:1:certificate-revoked judge:b ");
	assert_int_equal(counter_read(COUNTER_sessions_denied), denied + 1);
	revoked_err = 0;
	close_all(&f);
}

/* ---- Doors --------------------------------------------------------------------------------------- */

static void accept_at(struct fixture *f, sa_family_t family, bool loopback, int fd)
{
	struct address address = {.loopback = loopback};

	address.socket.ss_family = family;
	server_accept(f->server, fd, &address, "p");
}

/* Plain is the unix socket, and loopback where that is insecure; all else is TLS, also after a reload. */
static void door_of_each_address(void **state)
{
	struct server_bounds bounds = {.clients_max = 9, .pending_max = 100}, other;
	struct fixture f;

	(void)state;
	for (unsigned insecure = 0; insecure < 2; insecure++) {
		bounds.insecure = insecure;
		open_all(&f, &bounds);
		for (unsigned reloaded = 0; reloaded < 2; reloaded++) {
			accept_at(&f, AF_UNIX, false, 5);
			accept_at(&f, AF_INET, true, 5);
			accept_at(&f, AF_INET, false, 5);
			accept_at(&f, AF_INET6, true, 5);
			expect_said(insecure ? "plain:5 plain:5 tls:5 plain:5 " : "plain:5 tls:5 tls:5 tls:5 ");
			other = bounds;
			other.insecure = !insecure;
			server_set_bounds(f.server, &other);
		}
		close_all(&f);
	}
}

/* The last descriptors are for files: who would take one is told so, as far as that is said in plain. */
static void last_descriptors_are_for_files(void **state)
{
	const struct server_bounds bounds = {.clients_max = 9, .pending_max = 100, .insecure = true};
	uint64_t refused = counter_read(COUNTER_sessions_refused);
	struct rlimit limit, lower;
	struct fixture f;
	int pair[2], last;
	char byte[512];

	(void)state;
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	lower = limit;
	lower.rlim_cur = DESCRIPTORS_RESERVED + 100;	/* 0 .. 99 are for clients */
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &lower), 0);
	open_all(&f, &bounds);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
	accept_at(&f, AF_UNIX, false, 99);
	expect_said("plain:99 ");
	/* The limit is that of descriptors, less those. */
	last = 100;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	assert_int_equal(dup2(pair[1], last), last);
	close(pair[1]);
	accept_at(&f, AF_UNIX, false, last);
	expect_said("");
	assert_true(read(pair[0], byte, sizeof(byte)) > 0);
	assert_int_equal(read(pair[0], byte, sizeof(byte)), 0);		/* it is closed */
	close(pair[0]);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	last++;
	assert_int_equal(dup2(pair[1], last), last);
	close(pair[1]);
	accept_at(&f, AF_INET, false, last);
	expect_said("alert ");
	assert_int_equal(read(pair[0], byte, sizeof(byte)), 0);
	close(pair[0]);
	assert_int_equal(counter_read(COUNTER_sessions_refused), refused + 2);
	close_all(&f);
}

/* A peer that acknowledges nothing is gone after silence-timeout; a unix socket has no such peer. */
static void peers_acknowledge_in_time(void **state)
{
	const struct server_bounds bounds = {.clients_max = 9, .pending_max = 100};
	socklen_t bytes = sizeof(unsigned);
	unsigned timeout_ms;
	struct fixture f;
	int fd;

	(void)state;
	open_all(&f, &bounds);
	for (unsigned tcp = 0; tcp < 2; tcp++) {
		fd = socket(AF_INET, SOCK_STREAM, 0);
		assert_true(fd >= 0);
		accept_at(&f, tcp ? AF_INET : AF_UNIX, false, fd);
		assert_int_equal(getsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout_ms, &bytes), 0);
		assert_int_equal(timeout_ms, tcp ? 1000000 : 0);
		close(fd);
	}
	close_all(&f);
}

/* By the door that it came in: plain on loopback is somebody of this host, TLS is whom its certificate says. */
static void identified_by_its_door(void **state)
{
	const struct server_bounds bounds = {.clients_max = 9, .pending_max = 100};
	struct client_identity identity = {0};
	struct error error;
	struct fixture f;

	(void)state;
	open_all(&f, &bounds);
	come(&f, SERVER_PLAIN, "127.0.0.1:1");
	come(&f, SERVER_TLS, "127.0.0.1:1");
	said[0] = '\0';
	assert_int_equal(host.identify(host.context, session[0].client, NULL, &identity, &error), 0);
	assert_int_equal(identity.proof, IDENTITY_LOCAL);
	expect_said("");
	assert_int_equal(host.identify(host.context, session[1].client, NULL, &identity, &error), -EACCES);
	expect_said("certificate ");
	close_all(&f);
}

/* ---- Requests ------------------------------------------------------------------------------------ */

static int subscribe(struct session *of, const Ringtail__V1__Subscribe *message)
{
	struct error error = {0};
	int err = host.subscribe(host.context, of, message, &error);

	if (error.code[0])
		say("no:%s ", error.code);
	return err;
}

/* Each flag is what it says, with every other; a table of stacks is for who asks for stacks. */
static void flags_one_and_all(void **state)
{
	static const struct {
		Ringtail__V1__Flag flag;
		uint32_t bit;
	} flags[] = {
		{RINGTAIL__V1__FLAG__FLAG_KSTACK, RT_FLAG_KSTACK}, {RINGTAIL__V1__FLAG__FLAG_USTACK, RT_FLAG_USTACK},
		{RINGTAIL__V1__FLAG__FLAG_STRINGS, RT_FLAG_STRINGS}, {RINGTAIL__V1__FLAG__FLAG_CONTEXT, RT_FLAG_CONTEXT},
		{RINGTAIL__V1__FLAG__FLAG_FDS, RT_FLAG_FDS}, {RINGTAIL__V1__FLAG__FLAG_DATA, RT_FLAG_DATA},
		{RINGTAIL__V1__FLAG__FLAG_STACK_TABLE, SPEC_STACK_TABLE},
	};
	const unsigned n = sizeof(flags) / sizeof(*flags);
	const struct server_bounds bounds = {.clients_max = 9, .pending_max = 100};
	struct session *of;
	struct fixture f;

	(void)state;
	open_all(&f, &bounds);
	of = come(&f, SERVER_UNIX, "p");
	for (unsigned i = 0; i < 1u << n; i++) {
		Ringtail__V1__Subscribe message = RINGTAIL__V1__SUBSCRIBE__INIT;
		Ringtail__V1__Flag asked[8];
		uint32_t expected = 0;
		char text[48];

		message.flag = asked;
		for (unsigned j = 0; j < n; j++)
			if (i >> j & 1) {
				asked[message.n_flag++] = flags[j].flag;
				expected |= flags[j].bit;
			}
		if (!(expected & (RT_FLAG_KSTACK | RT_FLAG_USTACK)))
			expected &= ~SPEC_STACK_TABLE;
		said[0] = '\0';
		assert_int_equal(subscribe(of, &message), 0);
		snprintf(text, sizeof(text), "subscribe:'':%x ", expected);
		expect_said(text);
		/* In the other order; and one of a later release says nothing here. */
		for (unsigned j = 0; j < message.n_flag / 2; j++) {
			Ringtail__V1__Flag first = asked[j];

			asked[j] = asked[message.n_flag - 1 - j];
			asked[message.n_flag - 1 - j] = first;
		}
		asked[message.n_flag++] = (Ringtail__V1__Flag)99;
		assert_int_equal(subscribe(of, &message), 0);
		expect_said(text);
	}
	close_all(&f);
}

/* All of it arrives as it was sent; who registers, or is denied a consumer, is in the audit log first. */
static void request_arrives_as_it_was_sent(void **state)
{
	static char *probe[] = {(char *)"a:b:c", (char *)"d"};
	const struct server_bounds bounds = {.clients_max = 9, .pending_max = 100};
	Ringtail__V1__Subscribe message = RINGTAIL__V1__SUBSCRIBE__INIT;
	Ringtail__V1__Position position[CURSOR_POSITIONS_MAX + 1], *list[CURSOR_POSITIONS_MAX + 1];
	Ringtail__V1__Cursor since = RINGTAIL__V1__CURSOR__INIT;
	uint8_t boot[16] = {1};
	struct session *of;
	struct fixture f;

	(void)state;
	open_all(&f, &bounds);
	of = come(&f, SERVER_UNIX, "p");
	said[0] = '\0';
	for (unsigned i = 0; i <= CURSOR_POSITIONS_MAX; i++) {
		ringtail__v1__position__init(&position[i]);
		position[i].cpu = i;
		position[i].seq = 10 + i;
		list[i] = &position[i];
	}
	message.probe = probe;
	message.n_probe = 2;
	message.filter = (char *)"pid == 1";
	message.since_realtime_ns = 77;
	assert_int_equal(subscribe(of, &message), 0);
	expect_said("subscribe:a:b:c,d,'pid == 1':0:at77 ");
	since.boot_id = (ProtobufCBinaryData){sizeof(boot), boot};
	since.position = list;
	since.n_position = 2;
	message.since = &since;
	message.since_realtime_ns = 0;
	message.consumer = (char *)"mine";
	assert_int_equal(subscribe(of, &message), 0);
	expect_said("may:mine subscribe:a:b:c,d,'pid == 1':0:mine:0=10:1=11 ");
	registers = true;
	assert_int_equal(subscribe(of, &message), 0);
	expect_said("may:mine register:a:b:c,d,'pid == 1':0:mine:0=10:1=11 ");
	registers = false;
	consume_err = -EPERM;
	assert_int_equal(subscribe(of, &message), 0);
	expect_said("may:mine register:a:b:c,d,'pid == 1':0:mine:0=10:1=11 ");
	consume_err = -EBUSY;
	assert_int_equal(subscribe(of, &message), -EBUSY);
	expect_said("may:mine ");
	consume_err = 0;
	subscribe_err = -ENOSPC;
	assert_int_equal(subscribe(of, &message), -ENOSPC);
	said[0] = '\0';
	since.n_position = CURSOR_POSITIONS_MAX + 1;
	assert_int_equal(subscribe(of, &message), -EINVAL);
	assert_string_equal(said, "no:cursor-invalid ");
	message.consumer = (char *)"";
	message.n_probe = 0;
	since.n_position = 400;
	subscribe_err = 0;
	said[0] = '\0';
	assert_int_equal(subscribe(of, &message), 0);
	assert_non_null(strstr(said, ":399=409 "));
	said[0] = '\0';
	since.n_position = CURSOR_POSITIONS_MAX + 1;
	assert_int_equal(subscribe(of, &message), -EINVAL);
	expect_said("no:cursor-invalid ");
	close_all(&f);
}

/* A cursor is needed, of as many positions as make sense. */
static void acknowledgement_needs_a_cursor(void **state)
{
	static Ringtail__V1__Position position, *list[CURSOR_POSITIONS_MAX + 1];
	const struct server_bounds bounds = {.clients_max = 9, .pending_max = 100};
	Ringtail__V1__Ack message = RINGTAIL__V1__ACK__INIT;
	Ringtail__V1__Cursor upto = RINGTAIL__V1__CURSOR__INIT;
	uint8_t boot[16] = {1};
	struct error error = {0};
	struct session *of;
	struct fixture f;

	(void)state;
	open_all(&f, &bounds);
	of = come(&f, SERVER_UNIX, "p");
	said[0] = '\0';
	ringtail__v1__position__init(&position);
	for (unsigned i = 0; i <= CURSOR_POSITIONS_MAX; i++)
		list[i] = &position;
	assert_int_equal(host.ack(host.context, of, &message, &error), -EINVAL);
	assert_string_equal(error.code, "cursor-invalid");
	upto.boot_id = (ProtobufCBinaryData){sizeof(boot), boot};
	upto.position = list;
	upto.n_position = CURSOR_POSITIONS_MAX + 1;
	message.upto = &upto;
	assert_int_equal(host.ack(host.context, of, &message, &error), -EINVAL);
	expect_said("");
	upto.n_position = CURSOR_POSITIONS_MAX;
	assert_int_equal(host.ack(host.context, of, &message, &error), 0);
	assert_memory_equal(said, "ack:", 4);
	subscribe_err = -EINVAL;
	assert_int_equal(host.ack(host.context, of, &message, &error), -EINVAL);
	close_all(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(places_to_the_last),
		cmocka_unit_test(denied_at_the_gate),
		cmocka_unit_test(oldest_of_the_busiest_origin_goes),
		cmocka_unit_test(turned_away_in_the_middle),
		cmocka_unit_test(who_comes_when_all_is_full),
		cmocka_unit_test(judged_anew),
		cmocka_unit_test(judged_by_its_certificate),
		cmocka_unit_test(door_of_each_address),
		cmocka_unit_test(last_descriptors_are_for_files),
		cmocka_unit_test(peers_acknowledge_in_time),
		cmocka_unit_test(identified_by_its_door),
		cmocka_unit_test(flags_one_and_all),
		cmocka_unit_test(request_arrives_as_it_was_sent),
		cmocka_unit_test(acknowledgement_needs_a_cursor),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
