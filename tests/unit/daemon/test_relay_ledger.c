/*
 * Agents over TLS, and a sink that stores when it is told to: who is admitted, what each frame counts as, and which
 * connection a failure of the sink is about.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/base/counters.h"
#include "daemon/base/limits.h"
#include "daemon/relay/relay.h"
#include "daemon/serve/answers.h"
#include "proto/cursor.h"
#include "tests/unit/daemon/tls_place.h"

#define TURNS_MAX	200u
#define AGENTS_MAX	2u

static struct frame_codec *codec;
static uint8_t raw[FRAME_RAW_BYTES_MAX];
static struct relay_items held;		/* the sink's */
static const struct relay_sink_ops ops;
static struct relay_sink store = {.ops = &ops};

struct fixture {
	struct event_base *base;
	struct gate *gate;
	struct relay *relay;
	struct place place;
	char tokens[96];
};

/* An agent's end, and the last that it was sent. */
struct agent {
	int fd;
	SSL *ssl;
	unsigned acks, errors, asked;
	uint64_t acked;			/* of CPU 0 */
	char code[64];
};

/* ---- The clock --------------------------------------------------------------------------------- */

static uint64_t clock_ahead_ns;

uint64_t __real_clock_monotonic(void);
uint64_t __wrap_clock_monotonic(void);
uint64_t __wrap_clock_monotonic(void)
{
	return __real_clock_monotonic() + clock_ahead_ns;
}

/* ---- The sink ---------------------------------------------------------------------------------- */

static void on_forward(struct relay_sink *sink, struct relay_item *item)
{
	(void)sink;
	STAILQ_INSERT_TAIL(&held, item, link);
}

static void confirm(int err)
{
	struct relay_item *item = STAILQ_FIRST(&held);

	assert_non_null(item);
	STAILQ_REMOVE_HEAD(&held, link);
	item->confirmed(item, err);
}

static void on_destroy(struct relay_sink *sink)
{
	(void)sink;
	while (!STAILQ_EMPTY(&held))
		confirm(-ECANCELED);
}

/* Of a host as many bytes as its name has. */
static void on_stat(struct relay_sink *of, const char *host, struct stat_sink *stat)
{
	assert_ptr_equal(of, &store);
	stat->kept_bytes = host ? strlen(host) : 1000;
}

static const struct relay_sink_ops ops = {.forward = on_forward, .destroy = on_destroy, .stat = on_stat};

/* ---- The relay --------------------------------------------------------------------------------- */

/* Of a daemon that lets clients in by a token: TLS alone then asks for no certificate. */
static void write_tokens(struct fixture *fixture)
{
	FILE *file;

	snprintf(fixture->tokens, sizeof(fixture->tokens), "%s/tokens", fixture->place.directory);
	file = fopen(fixture->tokens, "w");
	assert_non_null(file);
	fprintf(file, "ci:sha256:%064d\n", 0);
	assert_int_equal(fclose(file), 0);
	assert_int_equal(chmod(fixture->tokens, 0600), 0);
}

static void open_fixture(struct fixture *fixture)
{
	struct relay_config config = {.sink = &store, .agents_max = AGENTS_MAX, .hello_timeout_ns = 60000000000ull};
	struct config options = {.source = 0};
	struct error error;

	STAILQ_INIT(&held);
	place_open(&fixture->place, -60, 90 * 86400);
	write_tokens(fixture);
	options.tls_cert = fixture->place.cert;
	options.tls_key = fixture->place.key;
	options.tls_client_ca = fixture->place.ca;
	options.tokens = fixture->tokens;
	if (gate_create(&options, &fixture->gate, &error) != 0)
		fail_msg("%s", error.what);
	config.gate = fixture->gate;
	fixture->base = config.base = event_base_new();
	assert_int_equal(relay_create(&config, &fixture->relay, &error), 0);
}

static void close_fixture(struct fixture *fixture)
{
	relay_destroy(fixture->relay);
	gate_destroy(fixture->gate);
	event_base_free(fixture->base);
	unlink(fixture->tokens);
	place_close(&fixture->place);
}

static struct stat_relay stat_of(const struct fixture *fixture)
{
	struct stat_relay stat;

	relay_stat(fixture->relay, &stat);
	assert_int_equal(stat.all.residual, 0);
	return stat;
}

/* ---- An agent ---------------------------------------------------------------------------------- */

static void note_frame(struct agent *agent, const uint8_t *bytes, const struct frame_header *header)
{
	const uint8_t *body;

	assert_int_equal(frame_open(codec, bytes, header, raw, &body), FRAME_OK);
	if (header->type == FRAME_ERROR) {
		Ringtail__V1__Error *error = ringtail__v1__error__unpack(NULL, header->raw_bytes, body);

		snprintf(agent->code, sizeof(agent->code), "%s", error->code);
		agent->errors++;
		ringtail__v1__error__free_unpacked(error, NULL);
	} else if (header->type == FRAME_STAT_REQUEST) {
		Ringtail__V1__StatRequest *request =
			ringtail__v1__stat_request__unpack(NULL, header->raw_bytes, body);

		assert_string_equal(request->consumer, "relay");
		assert_int_equal(request->interval_ms, 0);
		agent->asked++;
		ringtail__v1__stat_request__free_unpacked(request, NULL);
	} else if (header->type == FRAME_ACK) {
		Ringtail__V1__Ack *ack = ringtail__v1__ack__unpack(NULL, header->raw_bytes, body);

		agent->acked = ack->upto->position[0]->seq;
		agent->acks++;
		ringtail__v1__ack__free_unpacked(ack, NULL);
	}
}

/* Lets the relay do what it has to, and reads what it sends: small frames, each whole. */
static void turn(struct fixture *fixture, struct agent *agent)
{
	uint8_t bytes[8192];
	size_t n = 0, at = 0;

	for (unsigned i = 0; i < 20; i++) {
		int got;

		event_base_loop(fixture->base, EVLOOP_NONBLOCK);
		got = SSL_read(agent->ssl, bytes + n, (int)(sizeof(bytes) - n));
		n += got > 0 ? (size_t)got : 0;
		ERR_clear_error();
	}
	while (at < n) {
		struct frame_header header;

		assert_int_equal(frame_parse_header(bytes + at, n - at, sizeof(raw), &header), FRAME_OK);
		note_frame(agent, bytes + at, &header);
		at += FRAME_HEADER_BYTES + header.body_bytes;
	}
}

static void send_message(struct fixture *fixture, struct agent *agent, enum frame_type type,
			 const ProtobufCMessage *message)
{
	struct frame_ref *frame = frame_ref_pack(codec, type, message);

	assert_non_null(frame);
	assert_int_equal(SSL_write(agent->ssl, frame->data, (int)frame->bytes), (int)frame->bytes);
	frame_ref_put(frame);
	turn(fixture, agent);
}

/* Of that name, with an AgentHello; NULL: without a certificate. */
static void come(struct fixture *fixture, struct agent *agent, const char *name)
{
	Ringtail__V1__AgentHello hello = RINGTAIL__V1__AGENT_HELLO__INIT;
	int fds[2], done = 0;

	*agent = (struct agent){.fd = -1};
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds), 0);
	relay_accept(fixture->relay, fds[0], NULL, "10.0.0.1:7");
	agent->fd = fds[1];
	agent->ssl = place_client(&fixture->place, name, fixture->place.authority, agent->fd);
	for (unsigned i = 0; i < TURNS_MAX && done != 1; i++) {
		done = SSL_connect(agent->ssl);
		event_base_loop(fixture->base, EVLOOP_NONBLOCK);
	}
	assert_int_equal(done, 1);
	hello.version_min = hello.version_max = FRAME_VERSION;
	hello.software = (char *)"test";
	send_message(fixture, agent, FRAME_AGENT_HELLO, &hello.base);
}

static void go(struct fixture *fixture, struct agent *agent)
{
	SSL_free(agent->ssl);
	close(agent->fd);
	for (unsigned i = 0; i < 20; i++)
		event_base_loop(fixture->base, EVLOOP_NONBLOCK);
}

static void begin_stream(struct fixture *fixture, struct agent *agent)
{
	Ringtail__V1__ServerHello hello = RINGTAIL__V1__SERVER_HELLO__INIT;
	Ringtail__V1__Catalog catalog = RINGTAIL__V1__CATALOG__INIT;
	Ringtail__V1__Subscribed subscribed = RINGTAIL__V1__SUBSCRIBED__INIT;
	struct cursor *start = cursor_create(1);
	struct cursor_message *from;
	uint8_t boot_id[16] = {1};

	cursor_append(start, 0, 5);
	from = cursor_message_create(start);
	hello.boot_id = (ProtobufCBinaryData){sizeof(boot_id), boot_id};
	hello.epoch = 1;
	subscribed.start = &from->cursor;
	send_message(fixture, agent, FRAME_SERVER_HELLO, &hello.base);
	send_message(fixture, agent, FRAME_CATALOG, &catalog.base);
	send_message(fixture, agent, FRAME_SUBSCRIBED, &subscribed.base);
	free(from);
	free(start);
}

static void send_gap(struct fixture *fixture, struct agent *agent, uint64_t first, uint64_t end)
{
	struct frame_ref *frame = frame_ref_gap(codec, 0, first, end, LOSS_STAGE_SPOOL,
						LOSS_REASON_UNKNOWN, 0);

	assert_non_null(frame);
	assert_int_equal(SSL_write(agent->ssl, frame->data, (int)frame->bytes), (int)frame->bytes);
	frame_ref_put(frame);
	turn(fixture, agent);
}

/* ---- Tests ------------------------------------------------------------------------------------- */

/* A token is a client's: an agent is who its certificate names. */
static void without_a_certificate_no_agent_is_admitted(void **state)
{
	struct fixture fixture;
	struct agent agent;

	(void)state;
	open_fixture(&fixture);
	come(&fixture, &agent, NULL);
	assert_int_equal(agent.errors, 1);
	assert_string_equal(agent.code, "agent-no-certificate");
	assert_int_equal(stat_of(&fixture).hosts, 0);
	go(&fixture, &agent);
	close_fixture(&fixture);
}

static void as_many_are_served_as_agents_max_says(void **state)
{
	struct agent one, two, three, again;
	uint64_t refused, replaced;
	struct fixture fixture;

	(void)state;
	open_fixture(&fixture);
	come(&fixture, &one, "web-1");
	come(&fixture, &two, "web-2");
	come(&fixture, &three, "web-3");
	assert_int_equal(one.errors + two.errors, 0);
	assert_string_equal(three.code, "too-many-agents");
	assert_int_equal(stat_of(&fixture).connected, 2);
	refused = counter_read(COUNTER_agents_refused);
	replaced = counter_read(COUNTER_agents_replaced);
	/* One that is there already comes in the place of its own. */
	come(&fixture, &again, "web-1");
	turn(&fixture, &one);
	assert_int_equal(again.errors, 0);
	assert_string_equal(one.code, "agent-replaced");
	assert_int_equal(counter_read(COUNTER_agents_refused), refused);
	assert_int_equal(counter_read(COUNTER_agents_replaced), replaced + 1);
	go(&fixture, &one);
	assert_int_equal(stat_of(&fixture).connected, 2);
	go(&fixture, &three);
	come(&fixture, &three, "web-3");
	assert_string_equal(three.code, "too-many-agents");
	/* The end of the connection that counts leaves room for another host. */
	go(&fixture, &again);
	go(&fixture, &three);
	assert_int_equal(stat_of(&fixture).connected, 1);
	come(&fixture, &three, "web-3");
	assert_int_equal(three.errors, 0);
	go(&fixture, &two);
	go(&fixture, &three);
	close_fixture(&fixture);
}

static void each_frame_counts_as_what_became_of_it(void **state)
{
	struct fixture fixture;
	struct stat_relay stat;
	struct agent agent;

	(void)state;
	open_fixture(&fixture);
	come(&fixture, &agent, "web-1");
	begin_stream(&fixture, &agent);
	send_gap(&fixture, &agent, 5, 10);
	send_gap(&fixture, &agent, 5, 10);
	send_gap(&fixture, &agent, 10, 20);
	stat = stat_of(&fixture);
	assert_int_equal(stat.all.received, 3);
	assert_int_equal(stat.all.duplicate, 1);
	assert_int_equal(stat.all.held, 2);
	confirm(0);
	turn(&fixture, &agent);
	assert_int_equal(agent.acked, 10);
	confirm(-EIO);
	turn(&fixture, &agent);
	assert_int_equal(agent.acked, 10);
	assert_string_equal(agent.code, "relay-cannot-store");
	stat = stat_of(&fixture);
	assert_int_equal(stat.all.forwarded, 1);
	assert_int_equal(stat.all.refused, 1);
	assert_int_equal(stat.all.held, 0);
	assert_int_equal(stat.all.held_bytes, 0);
	go(&fixture, &agent);
	close_fixture(&fixture);
}

/* What the sink says of frames of before a failure is no news to the connection that came since. */
static void a_failure_ends_one_connection_alone(void **state)
{
	struct agent agent, again;
	struct fixture fixture;

	(void)state;
	open_fixture(&fixture);
	come(&fixture, &agent, "web-1");
	begin_stream(&fixture, &agent);
	send_gap(&fixture, &agent, 5, 10);
	send_gap(&fixture, &agent, 10, 20);
	confirm(-EIO);
	turn(&fixture, &agent);
	assert_string_equal(agent.code, "relay-cannot-store");
	go(&fixture, &agent);
	come(&fixture, &again, "web-1");
	begin_stream(&fixture, &again);
	confirm(-EIO);
	turn(&fixture, &again);
	assert_int_equal(again.errors, 0);
	/* All of it is news again, and what is acknowledged is what was stored since. */
	send_gap(&fixture, &again, 5, 10);
	send_gap(&fixture, &again, 10, 20);
	assert_int_equal(stat_of(&fixture).all.duplicate, 0);
	confirm(0);
	confirm(0);
	turn(&fixture, &again);
	assert_int_equal(again.acked, 20);
	assert_int_equal(again.errors, 0);
	go(&fixture, &again);
	close_fixture(&fixture);
}

/* What a client gets; ringtail__v1__hosts__free_unpacked() frees it. */
static Ringtail__V1__Hosts *ask(const struct fixture *fixture, const char *after)
{
	struct answers answers = {.codec = codec, .relay = fixture->relay};
	Ringtail__V1__Hosts *hosts;
	struct error error = {0};
	struct frame_ref *frame = answers_hosts(&answers, after, &error);
	struct frame_header header;
	const uint8_t *body;

	assert_non_null(frame);
	assert_int_equal(frame_parse_header(frame->data, frame->bytes, sizeof(raw), &header), FRAME_OK);
	assert_int_equal(header.type, FRAME_HOSTS);
	assert_true(header.raw_bytes < RELAY_HOSTS_LISTED_BYTES + 4096);
	assert_int_equal(frame_open(codec, frame->data, &header, raw, &body), FRAME_OK);
	hosts = ringtail__v1__hosts__unpack(NULL, header.raw_bytes, body);
	assert_non_null(hosts);
	frame_ref_put(frame);
	return hosts;
}

static void free_hosts(Ringtail__V1__Hosts *hosts)
{
	ringtail__v1__hosts__free_unpacked(hosts, NULL);
}

static const Ringtail__V1__HostStat *named(const Ringtail__V1__Hosts *hosts, const char *name)
{
	for (size_t i = 0; i < hosts->n_host; i++)
		if (strcmp(hosts->host[i]->name, name) == 0)
			return hosts->host[i];
	fail_msg("%s is not listed", name);
	return NULL;
}

static void each_host_says_what_came_of_it(void **state)
{
	const Ringtail__V1__HostStat *host;
	Ringtail__V1__Hosts *hosts;
	struct agent one, other;
	struct fixture fixture;
	uint64_t before_ns;

	(void)state;
	open_fixture(&fixture);
	come(&fixture, &other, "web-2");
	come(&fixture, &one, "web-1");
	begin_stream(&fixture, &one);
	send_gap(&fixture, &one, 5, 10);
	send_gap(&fixture, &one, 10, 10);
	send_gap(&fixture, &one, 5, 10);
	send_gap(&fixture, &one, 10, 30);
	confirm(0);
	confirm(0);
	hosts = ask(&fixture, "");
	assert_int_equal(hosts->n_host, 2);
	assert_false(hosts->more);
	assert_int_equal(hosts->hosts, 2);
	assert_int_equal(hosts->connected, 2);
	assert_string_equal(hosts->ack, "fsync");
	host = named(hosts, "web-1");
	assert_string_equal(host->software, "test");
	assert_string_equal(host->peer, "10.0.0.1:7");
	assert_true(host->connected);
	assert_int_equal(host->boot_id.data[0], 1);
	assert_int_equal(host->epoch, 1);
	assert_int_equal(host->received, 4);
	assert_int_equal(host->forwarded, 2);
	assert_int_equal(host->duplicate, 1);
	assert_int_equal(host->held, 1);
	assert_int_equal(host->residual, 0);
	assert_true(host->held_bytes > RELAY_ITEM_BYTES && host->forwarded_bytes > FRAME_HEADER_BYTES);
	assert_int_equal(host->kept_bytes, strlen("web-1"));
	/* Losses of what is forwarded alone: what is sent again would count twice. */
	assert_int_equal(host->gaps, 1);
	assert_int_equal(host->n_lost, 1);
	assert_int_equal(host->lost[0]->stage, LOSS_STAGE_SPOOL);
	assert_int_equal(host->lost[0]->count, 5);
	assert_int_equal(hosts->all->received, 4);
	assert_int_equal(hosts->all->lost[0]->count, 5);
	assert_int_equal(hosts->all->kept_bytes, 1000);
	assert_true(hosts->all->heard_realtime_ns == host->heard_realtime_ns && host->heard_realtime_ns);
	before_ns = host->since_realtime_ns;
	assert_true(before_ns && before_ns <= hosts->realtime_ns);
	host = named(hosts, "web-2");
	assert_int_equal(host->boot_id.len, 0);
	assert_int_equal(host->heard_realtime_ns, 0);
	assert_int_equal(host->received + host->n_lost, 0);
	free_hosts(hosts);
	go(&fixture, &one);
	hosts = ask(&fixture, "");
	host = named(hosts, "web-1");
	assert_false(host->connected);
	assert_string_equal(host->peer, "");
	assert_string_equal(host->software, "test");
	assert_true(host->since_realtime_ns > before_ns);
	assert_int_equal(hosts->connected, 1);
	free_hosts(hosts);
	confirm(-EIO);
	hosts = ask(&fixture, "");
	assert_int_equal(hosts->all->lost[0]->count, 5);
	assert_int_equal(named(hosts, "web-1")->lost[0]->count, 5);
	assert_int_equal(named(hosts, "web-1")->refused, 1);
	free_hosts(hosts);
	go(&fixture, &other);
	close_fixture(&fixture);
}

/* `produced` = 70 stored + 20 lost + `in_flight`, in the second of two spools; `kept` stored for the relay. */
static void tell_sums(struct fixture *fixture, struct agent *agent, const char *consumer, uint64_t produced,
		      uint64_t kept, uint64_t in_flight)
{
	Ringtail__V1__Stat stat = RINGTAIL__V1__STAT__INIT;
	Ringtail__V1__ConsumerStat other = RINGTAIL__V1__CONSUMER_STAT__INIT, mine = other;
	Ringtail__V1__ConsumerStat *consumers[] = {&other, &mine};
	Ringtail__V1__SpoolStat first = RINGTAIL__V1__SPOOL_STAT__INIT, second = first, *spools[] = {&first, &second};
	Ringtail__V1__LossCount lost[2] = {RINGTAIL__V1__LOSS_COUNT__INIT, RINGTAIL__V1__LOSS_COUNT__INIT};
	Ringtail__V1__LossCount *losses[] = {&lost[0], &lost[1]};

	other.name = (char *)"night";
	mine.name = (char *)consumer;
	mine.spool = (char *)"b";
	mine.behind_bytes = 4096;
	mine.stored = kept;
	mine.acked = 40;
	mine.lost = 15;
	mine.in_flight = in_flight;
	mine.residual = 98;
	first.name = (char *)"a";
	first.produced = first.stored = 7;
	second.name = (char *)"b";
	second.produced = produced;
	second.stored = 70;
	lost[0].count = 15;
	lost[1].count = 5;
	second.lost = losses;
	second.n_lost = 2;
	second.in_flight = in_flight;
	second.residual = 99;		/* which the host does not decide */
	stat.consumer = consumers;
	stat.n_consumer = 2;
	stat.spool = spools;
	stat.n_spool = 2;
	send_message(fixture, agent, FRAME_STAT, &stat.base);
}

static void tell(struct fixture *fixture, struct agent *agent, const char *consumer, uint64_t in_flight)
{
	tell_sums(fixture, agent, consumer, 100, 60, in_flight);
}

static void a_host_tells_how_its_spool_stands(void **state)
{
	const Ringtail__V1__HostStat *host;
	struct agent agent, older;
	Ringtail__V1__Hosts *hosts;
	struct fixture fixture;

	(void)state;
	open_fixture(&fixture);
	come(&fixture, &agent, "web-1");
	come(&fixture, &older, "web-2");
	begin_stream(&fixture, &agent);
	begin_stream(&fixture, &older);
	assert_int_equal(agent.asked, 0);
	send_gap(&fixture, &agent, 5, 10);
	send_gap(&fixture, &older, 5, 10);
	turn(&fixture, &agent);
	turn(&fixture, &older);
	assert_int_equal(agent.asked, 1);
	tell(&fixture, &agent, "relay", 7);
	hosts = ask(&fixture, "");
	host = named(hosts, "web-1");
	assert_true(host->told_realtime_ns && host->told_realtime_ns <= hosts->realtime_ns);
	assert_int_equal(host->spool_produced, 100);
	assert_int_equal(host->spool_stored, 70);
	assert_int_equal(host->spool_lost, 20);
	assert_int_equal(host->spool_in_flight, 7);
	assert_int_equal(host->spool_residual, 3);
	assert_int_equal(host->behind_bytes, 4096);
	assert_int_equal(host->relay_stored, 60);
	assert_int_equal(host->relay_acked, 40);
	assert_int_equal(host->relay_lost, 15);
	assert_int_equal(host->relay_in_flight, 7);
	assert_int_equal(host->relay_residual, -2);
	assert_int_equal(host->received, 1);	/* it is no frame of events */
	/* One that does not answer is served as before, and is not asked again. */
	clock_ahead_ns += RELAY_ASK_NS;
	send_gap(&fixture, &older, 10, 20);
	turn(&fixture, &older);
	assert_int_equal(older.asked, 1);
	assert_int_equal(named(hosts, "web-2")->told_realtime_ns, 0);
	assert_int_equal(hosts->told, 1);
	assert_int_equal(hosts->all->spool_produced, 100);
	assert_int_equal(hosts->all->behind_bytes, 4096);
	assert_int_equal(hosts->all->relay_stored, 60);
	assert_int_equal(hosts->all->relay_acked, 40);
	assert_int_equal(hosts->all->relay_lost, 15);
	assert_int_equal(hosts->all->relay_in_flight, 7);
	assert_int_equal(hosts->all->relay_residual, 2);
	free_hosts(hosts);
	/* A minute later it is asked again; residuals are summed without their signs. */
	send_gap(&fixture, &agent, 10, 20);
	turn(&fixture, &agent);
	assert_int_equal(agent.asked, 2);
	tell(&fixture, &agent, "relay", 12);
	send_gap(&fixture, &agent, 20, 30);
	turn(&fixture, &agent);
	assert_int_equal(agent.asked, 2);
	hosts = ask(&fixture, "");
	assert_int_equal(named(hosts, "web-1")->spool_residual, -2);
	assert_int_equal(hosts->all->spool_residual, 2);
	free_hosts(hosts);
	/* What it says nothing of is not known. */
	clock_ahead_ns += RELAY_ASK_NS;
	send_gap(&fixture, &agent, 30, 40);
	turn(&fixture, &agent);
	tell(&fixture, &agent, "another", 10);
	hosts = ask(&fixture, "");
	assert_int_equal(hosts->told, 0);
	assert_int_equal(hosts->all->spool_produced, 0);
	free_hosts(hosts);
	assert_int_equal(agent.errors + older.errors, 0);
	tell(&fixture, &agent, "relay", 10);
	assert_string_equal(agent.code, "unexpected-frame");
	while (!STAILQ_EMPTY(&held))
		confirm(0);
	go(&fixture, &agent);
	go(&fixture, &older);
	assert_int_equal(stat_of(&fixture).all.residual, 0);
	close_fixture(&fixture);
}

/* Two hosts whose residuals have no absolute value, or would add up to 0. */
static void largest_residuals_do_not_cancel_out(void **state)
{
	static const char *const name[] = {"web-1", "web-2"};
	const uint64_t least = (uint64_t)INT64_MIN;
	Ringtail__V1__Hosts *hosts;
	struct fixture fixture;
	struct agent agent[2];

	(void)state;
	open_fixture(&fixture);
	for (unsigned i = 0; i < 2; i++) {
		come(&fixture, &agent[i], name[i]);
		begin_stream(&fixture, &agent[i]);
		send_gap(&fixture, &agent[i], 5, 10);
		turn(&fixture, &agent[i]);
		assert_int_equal(agent[i].asked, 1);
		tell_sums(&fixture, &agent[i], "relay", 90 + least, 55 + least, 0);
		hosts = ask(&fixture, "");
		assert_true(named(hosts, name[i])->spool_residual == INT64_MIN);
		assert_true(named(hosts, name[i])->relay_residual == INT64_MIN);
		assert_true(hosts->all->spool_residual == INT64_MAX);
		assert_true(hosts->all->relay_residual == INT64_MAX);
		free_hosts(hosts);
	}
	while (!STAILQ_EMPTY(&held))
		confirm(0);
	for (unsigned i = 0; i < 2; i++)
		go(&fixture, &agent[i]);
	assert_int_equal(stat_of(&fixture).all.residual, 0);
	close_fixture(&fixture);
}

/* So that those that come never again are not forgotten with the relay's memory. */
static void a_host_that_the_sink_has_is_known(void **state)
{
	Ringtail__V1__Hosts *hosts;
	struct fixture fixture;

	(void)state;
	open_fixture(&fixture);
	store.found(store.context, "web-9");
	store.found(store.context, "web-9");
	hosts = ask(&fixture, "");
	assert_int_equal(hosts->n_host, 1);
	assert_int_equal(hosts->host[0]->since_realtime_ns + hosts->host[0]->heard_realtime_ns, 0);
	assert_string_equal(hosts->host[0]->software, "");
	free_hosts(hosts);
	close_fixture(&fixture);
}

static int by_bytes(const void *a, const void *b)
{
	return strcmp(a, b);
}

/* By all answers together, each once; an answer fits into a frame however many there are. */
static unsigned count_listed(const struct fixture *fixture)
{
	static char name[RELAY_HOSTS_MAX][64];
	unsigned n = 0;
	bool more = true;

	while (more) {
		Ringtail__V1__Hosts *hosts = ask(fixture, n ? name[n - 1] : "");

		assert_true(hosts->n_host && hosts->n_host <= RELAY_HOSTS_LISTED);
		assert_true(n + hosts->n_host <= RELAY_HOSTS_MAX);
		for (size_t i = 0; i < hosts->n_host; i++, n++)
			snprintf(name[n], sizeof(name[n]), "%s", hosts->host[i]->name);
		more = hosts->more;
		free_hosts(hosts);
	}
	qsort(name, n, sizeof(name[0]), by_bytes);
	for (unsigned i = 1; i < n; i++)
		assert_string_not_equal(name[i - 1], name[i]);
	return n;
}

/* A host that is first to be forgotten: the relay looks from its first bucket on. */
static void name_in_first_bucket(char name[16])
{
	for (unsigned i = 0;; i++) {
		uint32_t hash = 0x811c9dc5;

		snprintf(name, 16, "a%u", i);
		for (const char *at = name; *at; at++)
			hash = (hash ^ (uint8_t)*at) * 0x01000193;
		if (hash % 1024 == 0)
			return;
	}
}

static void a_host_that_is_forgotten_stays_in_the_sums(void **state)
{
	static struct stat_host metered[RELAY_HOSTS_METERED];
	struct fixture fixture;
	struct agent agent, next;
	char name[64];

	(void)state;
	open_fixture(&fixture);
	for (unsigned i = 1; i < RELAY_HOSTS_MAX; i++) {
		snprintf(name, sizeof(name), "h%u", i);
		store.found(store.context, name);
	}
	name_in_first_bucket(name);
	come(&fixture, &agent, name);
	begin_stream(&fixture, &agent);
	send_gap(&fixture, &agent, 5, 10);
	confirm(0);
	go(&fixture, &agent);
	assert_int_equal(stat_of(&fixture).hosts, RELAY_HOSTS_MAX);
	assert_int_equal(stat_of(&fixture).forgotten, 0);
	store.found(store.context, "one-too-many");
	assert_int_equal(stat_of(&fixture).hosts, RELAY_HOSTS_MAX);
	assert_int_equal(count_listed(&fixture), RELAY_HOSTS_MAX);
	assert_int_equal(relay_list_metered(fixture.relay, metered), RELAY_HOSTS_METERED);
	come(&fixture, &next, "web-1");
	assert_int_equal(stat_of(&fixture).forgotten, 1);
	assert_int_equal(stat_of(&fixture).hosts, RELAY_HOSTS_MAX);
	assert_int_equal(stat_of(&fixture).all.received, 1);
	assert_int_equal(stat_of(&fixture).all.forwarded, 1);
	assert_int_equal(stat_of(&fixture).all.heard_realtime_ns, 0);
	go(&fixture, &next);
	close_fixture(&fixture);
}

/* Of short names, an answer has as many as it may, as before; of long ones, as many as fit. */
static void long_names_take_more_answers(void **state)
{
	static const unsigned hosts[] = { RELAY_HOSTS_LISTED, RELAY_HOSTS_MAX };	/* the first: as many as short ones fit */
	struct fixture fixture;
	char name[64];

	(void)state;
	for (size_t k = 0; k < sizeof(hosts) / sizeof(*hosts); k++) {
		open_fixture(&fixture);
		for (unsigned i = 0; i < hosts[k]; i++) {
			snprintf(name, sizeof(name), "%062u", i);
			store.found(store.context, name);
		}
		assert_int_equal(count_listed(&fixture), hosts[k]);
		close_fixture(&fixture);
	}
}

static void a_daemon_that_is_no_relay_says_so(void **state)
{
	struct answers answers = {.codec = codec};
	struct error error = {0};

	(void)state;
	assert_null(answers_hosts(&answers, "", &error));
	assert_string_equal(error.code, "not-a-relay");
	assert_non_null(strstr(error.hint, "listen-agents"));
}

static int make_codec(void **state)
{
	(void)state;
	codec = frame_codec_create(1);
	return codec ? 0 : -1;
}

static int free_codec(void **state)
{
	(void)state;
	frame_codec_destroy(codec);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(without_a_certificate_no_agent_is_admitted),
		cmocka_unit_test(as_many_are_served_as_agents_max_says),
		cmocka_unit_test(each_frame_counts_as_what_became_of_it),
		cmocka_unit_test(a_failure_ends_one_connection_alone),
		cmocka_unit_test(each_host_says_what_came_of_it),
		cmocka_unit_test(a_host_tells_how_its_spool_stands),
		cmocka_unit_test(largest_residuals_do_not_cancel_out),
		cmocka_unit_test(a_host_that_the_sink_has_is_known),
		cmocka_unit_test(a_host_that_is_forgotten_stays_in_the_sums),
		cmocka_unit_test(long_names_take_more_answers),
		cmocka_unit_test(a_daemon_that_is_no_relay_says_so),
	};

	return cmocka_run_group_tests(tests, make_codec, free_codec);
}
