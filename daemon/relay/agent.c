#include "daemon/relay/agent.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/clock.h"
#include "daemon/base/counters.h"
#include "daemon/base/limits.h"
#include "daemon/base/log.h"
#include "daemon/net/turnstile.h"
#include "daemon/relay/host.h"
#include "daemon/spool/frame.h"
#include "daemon/stream/consumers.h"
#include "proto/message.h"
#include "query/visible.h"

#define OUT_MAX (sizeof(((struct relay_agent *)0)->out) / sizeof(((struct relay_agent *)0)->out[0]))

static void arm(struct relay_agent *agent, uint64_t ns)
{
	struct timeval delay = {.tv_sec = (time_t)(ns / NS_PER_S),
				.tv_usec = (suseconds_t)(ns % NS_PER_S / 1000)};

	event_add(agent->timeout, &delay);
}

/* ---- Output ---------------------------------------------------------------------------------- */

/* Not at once: the caller still holds it. */
static void break_off(struct relay_agent *agent)
{
	agent->broken = true;
	event_active(agent->writable, EV_WRITE, 0);
}

static void write_out(struct relay_agent *agent)
{
	while (agent->outs || transport_unsent(agent->transport)) {
		struct frame_ref *frame = agent->outs ? agent->out[0] : NULL;
		struct iovec iov = {.iov_base = frame ? frame->data + agent->out_sent : NULL,
				    .iov_len = frame ? frame->bytes - agent->out_sent : 0};
		ssize_t sent = transport_write(agent->transport, &iov, frame ? 1 : 0);

		if (sent == -EAGAIN) {
			event_add(agent->writable, NULL);
			return;
		}
		if (sent < 0) {
			agent->broken = true;
			return;
		}
		agent->out_sent += (size_t)sent;
		if (!frame || agent->out_sent < frame->bytes)
			continue;
		frame_ref_put(frame);
		agent->out_sent = 0;
		memmove(agent->out, agent->out + 1, --agent->outs * sizeof(agent->out[0]));
	}
}

/* Takes the frame over. */
static void send_frame(struct relay_agent *agent, struct frame_ref *frame)
{
	if (!frame || agent->outs == OUT_MAX) {
		frame_ref_put(frame);
		break_off(agent);
		return;
	}
	agent->out[agent->outs++] = frame;
	event_active(agent->writable, EV_WRITE, 0);
}

void relay_agent_acknowledge(struct relay_agent *agent)
{
	Ringtail__V1__Ack message = RINGTAIL__V1__ACK__INIT;
	struct cursor_message *upto;

	if (agent->state != AGENT_STREAMING || !agent->of->stored)
		return;
	/* One at a time; the next says more. */
	if (agent->outs) {
		agent->owes_ack = true;
		return;
	}
	upto = cursor_message_create(agent->of->stored);
	if (upto) {
		message.upto = &upto->cursor;
		send_frame(agent, frame_ref_pack(agent->config.desk->codec, FRAME_ACK, &message.base));
	}
	agent->owes_ack = !upto;
	free(upto);
}

/* ---- Refusing -------------------------------------------------------------------------------- */

/* It gets to read why. */
static void send_off(struct relay_agent *agent, const struct error *error)
{
	Ringtail__V1__Error message = RINGTAIL__V1__ERROR__INIT;
	struct error shown = *error;

	visible_replace(shown.what);
	visible_replace(shown.hint);
	message.code = shown.code;
	message.what = shown.what;
	message.hint = shown.hint;
	message.fatal = true;
	agent->state = AGENT_CLOSING;
	agent->full = false;
	agent->owes_ack = false;
	arm(agent, agent->config.hello_timeout_ns);
	send_frame(agent, frame_ref_pack(agent->config.desk->codec, FRAME_ERROR, &message.base));
}

void relay_agent_refuse(struct relay_agent *agent, const struct error *error)
{
	char what[sizeof(error->what)];

	if (agent->state == AGENT_CLOSING)
		return;
	visible_copy(what, sizeof(what), error->what, strlen(error->what));
	counter_add(COUNTER_agents_refused, 1);
	log_warn("agent-refused", "agent %s (%s): [%s] %s", agent->of ? agent->of->name : "of no host",
		 agent->peer, error->code, what);
	send_off(agent, error);
}

void relay_agent_replace(struct relay_agent *agent, const struct error *error)
{
	if (agent->state == AGENT_CLOSING)
		return;
	counter_add(COUNTER_agents_replaced, 1);
	send_off(agent, error);
}

static void refuse(struct relay_agent *agent, const char *code, const char *what, const char *hint)
{
	struct error error;

	error_set(&error, EPROTO, code, "%s", what);
	error_hint(&error, "%s", hint);
	relay_agent_refuse(agent, &error);
}

static void refuse_frame(struct relay_agent *agent, const char *code, const char *what)
{
	counter_add(COUNTER_frames_bad, 1);
	refuse(agent, code, what, "this address speaks ringtail frames with daemons whose option `relay`"
				  " names it, docs/protocol.md");
}

static void refuse_cpu(struct relay_agent *agent, const char *where, uint32_t cpu)
{
	struct error error;

	counter_add(COUNTER_frames_bad, 1);
	error_set(&error, EPROTO, "cursor-invalid", "%s of this host names CPU %u twice, or beyond the %u that"
		  " there can be", where, cpu, CURSOR_POSITIONS_MAX);
	error_hint(&error, "the relay keeps a place for each CPU: upgrade the relay, or see what runs on that"
			   " host");
	relay_agent_refuse(agent, &error);
}

static void refuse_memory(struct relay_agent *agent)
{
	refuse(agent, "out-of-memory", "the relay is out of memory", "connect again in a moment");
}

/* ---- The beginning: who it is, and what the relay wants of it --------------------------------- */

static void send_hello(struct relay_agent *agent)
{
	Ringtail__V1__Feature feature[] = {RINGTAIL__V1__FEATURE__FEATURE_WATERMARK,
					   RINGTAIL__V1__FEATURE__FEATURE_RESUME,
					   RINGTAIL__V1__FEATURE__FEATURE_CONSUMER};
	Ringtail__V1__ClientHello hello = RINGTAIL__V1__CLIENT_HELLO__INIT;

	hello.version_min = hello.version_max = FRAME_VERSION;
	hello.feature = feature;
	hello.n_feature = sizeof(feature) / sizeof(feature[0]);
	hello.software = "ringtaild " RINGTAIL_VERSION " (relay)";
	send_frame(agent, frame_ref_pack(agent->config.desk->codec, FRAME_CLIENT_HELLO, &hello.base));
}

static void send_subscribe(struct relay_agent *agent)
{
	Ringtail__V1__Subscribe subscribe = RINGTAIL__V1__SUBSCRIBE__INIT;

	subscribe.consumer = CONSUMER_RELAY;
	send_frame(agent, frame_ref_pack(agent->config.desk->codec, FRAME_SUBSCRIBE, &subscribe.base));
}

static int identify(const struct relay_agent *agent, char name[IDENTITY_NAME_BYTES],
		    struct error *error)
{
	struct client_identity identity;
	int err = transport_tls_identity(agent->transport, &identity, error);

	if (err)
		return err;
	if (identity.proof != IDENTITY_CERT) {
		error_set(error, EACCES, "agent-no-certificate", "the agent showed no certificate");
		error_hint(error, "give it tls-cert and tls-key, with a certificate that the relay's"
				  " tls-client-ca has signed");
		return -EACCES;
	}
	snprintf(name, IDENTITY_NAME_BYTES, "%.*s", IDENTITY_NAME_BYTES - 1,
		 identity.text + strlen("cert:"));
	if (relay_host_name_is_valid(name))
		return 0;
	error_set(error, EACCES, "agent-name", "`%.64s`, the name in the agent's certificate, cannot be"
		  " that of a host", name);
	error_hint(error, "the common name (CN) has letters, digits, `.`, `_` and `-`, and begins with a"
			  " letter or digit");
	return -EACCES;
}

/* Whoever takes the connection is told when the bytes that came with the hello were looked at. */
static void begin_joining(struct relay_agent *agent, const char *name, const ProtobufCBinaryData *token)
{
	if (token->len > sizeof(agent->token)) {
		refuse_frame(agent, "dial-unknown", "the token in the agent's hello is too long");
		return;
	}
	memcpy(agent->token, token->data, token->len);
	agent->token_bytes = token->len;
	snprintf(agent->name, sizeof(agent->name), "%s", name);
	agent->state = AGENT_JOINING;
}

static bool names_dial(const Ringtail__V1__AgentHello *hello)
{
	for (size_t i = 0; i < hello->n_feature; i++)
		if (hello->feature[i] == RINGTAIL__V1__FEATURE__FEATURE_DIAL)
			return true;
	return false;
}

static void take_agent_hello(struct relay_agent *agent, const Ringtail__V1__AgentHello *hello)
{
	char name[IDENTITY_NAME_BYTES];
	struct error error = {0};

	if (hello->version_min > FRAME_VERSION || hello->version_max < FRAME_VERSION) {
		refuse(agent, "version-unsupported", "the relay and this agent have no version of the"
		       " protocol in common", "upgrade the relay first, then the agents");
		return;
	}
	visible_copy(agent->software, sizeof(agent->software), hello->software,
		     strlen(hello->software));
	if (identify(agent, name, &error) != 0) {
		relay_agent_refuse(agent, &error);
		return;
	}
	if (hello->token.len) {
		begin_joining(agent, name, &hello->token);
		return;
	}
	agent->of = agent->config.host->admit(agent->config.host->context, agent, name, &error);
	if (!agent->of) {
		relay_agent_refuse(agent, &error);
		return;
	}
	agent->dials = names_dial(hello);
	agent->state = AGENT_GREETED;
	send_hello(agent);
}

/* ---- Places in the numbers of CPUs -------------------------------------------------------------- */

struct places {
	struct cursor *cursor;
	uint64_t had[CURSOR_POSITIONS_MAX / 64];	/* a bit for each CPU */
	uint32_t cpu;					/* the last one */
	bool bad;					/* that is none, or was named before */
};

static bool name_cpu(struct places *places, uint32_t cpu)
{
	uint64_t bit = 1ull << cpu % 64;

	places->cpu = cpu;
	places->bad = cpu >= CURSOR_POSITIONS_MAX || places->had[cpu / 64] & bit;
	if (!places->bad)
		places->had[cpu / 64] |= bit;
	return !places->bad;
}

/* NULL: it is refused. */
static struct cursor *take_cursor(struct relay_agent *agent, const Ringtail__V1__Cursor *message)
{
	struct places places = {0};

	for (size_t i = 0; i < message->n_position; i++)
		if (!name_cpu(&places, message->position[i]->cpu)) {
			refuse_cpu(agent, "the beginning of a stream", places.cpu);
			return NULL;
		}
	places.cursor = cursor_of_message(message);
	if (!places.cursor)
		refuse_memory(agent);
	return places.cursor;
}

/* ---- How a stream begins ---------------------------------------------------------------------- */

static struct relay_opening *create_opening(const struct relay_opening *like)
{
	struct relay_opening *opening = calloc(1, sizeof(*opening));

	if (!opening)
		return NULL;
	opening->refs = 1;
	if (!like)
		return opening;
	opening->run = like->run;
	opening->hello = frame_ref_get(like->hello);
	opening->catalog = like->catalog ? frame_ref_get(like->catalog) : NULL;
	opening->subscribed = like->subscribed ? frame_ref_get(like->subscribed) : NULL;
	opening->start = like->start ? cursor_copy(like->start) : NULL;
	return opening;
}

static void take_server_hello(struct relay_agent *agent, struct frame_ref *frame,
			      const Ringtail__V1__ServerHello *hello)
{
	struct relay_opening *next = create_opening(NULL);

	if (!next) {
		refuse_memory(agent);
		return;
	}
	next->run = run_of_message(hello->boot_id, hello->epoch);
	next->hello = frame_ref_get(frame);
	relay_opening_put(agent->next);
	agent->next = next;
	free(agent->since);
	agent->since = NULL;
	if (!run_is_named(&next->run)) {
		refuse_frame(agent, "bad-hello", "the agent's hello names no run");
	} else if (agent->state == AGENT_GREETED) {
		agent->state = AGENT_STREAMING;
		send_subscribe(agent);
	}
}

static bool same_catalog(const struct frame_ref *a, const struct frame_ref *b)
{
	return a == b || (a->bytes == b->bytes && memcmp(a->data, b->data, a->bytes) == 0);
}

/* Where a stream goes on in another segment of the agent's spool, it comes again, mostly the same. */
static void take_catalog(struct relay_agent *agent, struct frame_ref *frame)
{
	const struct relay_opening *now = agent->opening;

	if (!agent->next && now && same_catalog(now->catalog, frame))
		return;
	if (!agent->next && now)
		agent->next = create_opening(now);
	if (!agent->next) {
		refuse_memory(agent);
		return;
	}
	frame_ref_put(agent->next->catalog);
	agent->next->catalog = frame_ref_get(frame);
}

static void take_subscribed(struct relay_agent *agent, struct frame_ref *frame,
			    const Ringtail__V1__Subscribed *message)
{
	struct relay_opening *next = agent->next;

	if (!next || !message->start) {
		refuse_frame(agent, "unexpected-frame", "the agent says where a stream begins, and not of"
			     " which run");
		return;
	}
	frame_ref_put(next->subscribed);
	next->subscribed = frame_ref_get(frame);
	free(next->start);
	next->start = take_cursor(agent, message->start);
	free(agent->since);
	agent->since = next->start && message->since ? take_cursor(agent, message->since) : NULL;
}

static bool same_start(const struct cursor *a, const struct cursor *b)
{
	for (uint32_t i = 0; i < a->n; i++) {
		const struct position *at = cursor_find(b, a->position[i].cpu);

		if (!at || at->seq != a->position[i].seq)
			return false;
	}
	return a->n == b->n;
}

/* What begins anew as it did before goes on: no segment begins with it. */
static void begin_stream(struct relay_agent *agent)
{
	const struct relay_opening *now = agent->opening, *next = agent->next;

	if (now && run_equal(&now->run, &next->run) && same_start(now->start, next->start) &&
	    same_catalog(now->catalog, next->catalog)) {
		relay_opening_put(agent->next);
	} else {
		relay_opening_put(agent->opening);
		agent->opening = agent->next;
	}
	agent->next = NULL;
}

/* ---- How its spool stands ---------------------------------------------------------------------- */

/* A host has a frame to send at least once a minute. */
static void ask_spool(struct relay_agent *agent)
{
	Ringtail__V1__StatRequest request = RINGTAIL__V1__STAT_REQUEST__INIT;
	uint64_t now_ns = clock_monotonic();

	if (agent->state != AGENT_STREAMING || agent->owes_stat || agent->outs ||
	    (agent->asked_ns && now_ns - agent->asked_ns < RELAY_ASK_NS))
		return;
	agent->asked_ns = now_ns;
	agent->owes_stat = true;
	request.consumer = CONSUMER_RELAY;
	send_frame(agent, frame_ref_pack(agent->config.desk->codec, FRAME_STAT_REQUEST, &request.base));
}

static void take_stat(struct relay_agent *agent, const Ringtail__V1__Stat *message)
{
	if (!agent->owes_stat) {
		refuse_frame(agent, "unexpected-frame", "the agent answers what it was not asked");
		return;
	}
	agent->owes_stat = false;
	relay_host_tell(agent->of, message, clock_read(CLOCK_REALTIME));
}

/* ---- What it is asked to dial for --------------------------------------------------------------- */

bool relay_agent_dial(struct relay_agent *agent, const uint8_t *token, size_t bytes, const char *client)
{
	Ringtail__V1__Dial message = RINGTAIL__V1__DIAL__INIT;
	struct frame_ref *frame;

	/* One place is left for an acknowledgement, and one for an Error. */
	if (agent->state != AGENT_STREAMING || agent->outs + 2 >= OUT_MAX)
		return false;
	message.token = (ProtobufCBinaryData){bytes, (uint8_t *)token};
	message.client = (char *)client;
	frame = frame_ref_pack(agent->config.desk->codec, FRAME_DIAL, &message.base);
	if (frame)
		send_frame(agent, frame);
	return frame;
}

static void take_dial_refused(struct relay_agent *agent, const Ringtail__V1__DialRefused *message)
{
	const Ringtail__V1__Error *told = message->error;
	char code[64], what[256], hint[256];
	struct error error;

	visible_copy(code, sizeof(code), told ? told->code : "", told ? strlen(told->code) : 0);
	visible_copy(what, sizeof(what), told ? told->what : "", told ? strlen(told->what) : 0);
	visible_copy(hint, sizeof(hint), told ? told->hint : "", told ? strlen(told->hint) : 0);
	error_set(&error, EACCES, *code ? code : "dial-refused", "the host %s answers: %s", agent->of->name, what);
	error_hint(&error, "%s", hint);
	/* It may come late: the client has left meanwhile. */
	agent->config.host->refused_dial(agent->config.host->context, agent->of->name, message->token.data,
					 message->token.len, &error);
}

/* Before a frame of events: what is known of its run is complete. False: it is refused. */
static bool open_stream(struct relay_agent *agent)
{
	struct relay_opening *next = agent->next;
	int err;

	if (!next && agent->opening)
		return true;
	/* A Gap may come before the catalog of an earlier run. */
	if (next && !next->catalog && agent->opening)
		next->catalog = frame_ref_get(agent->opening->catalog);
	if (!next || !next->catalog || !next->start) {
		refuse_frame(agent, "unexpected-frame", "the agent sends events of a stream that has not"
			     " begun");
		return false;
	}
	begin_stream(agent);
	err = relay_host_open(agent->of, agent->opening, agent->since);
	if (err)
		refuse_memory(agent);
	return !err;
}

/* ---- Frames of events ------------------------------------------------------------------------- */

static bool add_position(void *context, uint32_t cpu, uint64_t seq, uint64_t skipped)
{
	struct places *places = context;

	(void)skipped;
	return name_cpu(places, cpu) && cursor_add(&places->cursor, cpu, seq) == 0;
}

/* How far it tells of which CPUs; NULL: it is refused. */
static struct cursor *upto_of(struct relay_agent *agent, const struct frame_ref *frame,
			      const uint8_t *raw, size_t bytes)
{
	struct places places = {.cursor = cursor_create(1)};
	bool good = places.cursor;

	if (good && frame_ref_is_range(frame))
		good = add_position(&places, frame->cpu, frame->end_seq, 0);
	else if (good && frame->type == FRAME_WATERMARK)
		good = spool_frame_positions(raw, bytes, add_position, &places);
	if (good)
		return places.cursor;
	free(places.cursor);
	if (places.bad)
		refuse_cpu(agent, frame->type == FRAME_WATERMARK ? "a watermark" : "a batch or gap",
			   places.cpu);
	else	/* its message was read before */
		refuse_memory(agent);
	return NULL;
}

/* An end is stored as well, and acknowledges nothing. */
static void take_events(struct relay_agent *agent, struct frame_ref *frame, const uint8_t *raw,
			size_t bytes)
{
	struct cursor *upto;

	if (!spool_frame_describe(frame, raw, bytes)) {
		refuse_frame(agent, "bad-message", "the numbers of a frame do not add up");
		return;
	}
	if (frame->type == FRAME_BYE && !agent->opening)
		return;
	if (!open_stream(agent))
		return;
	upto = upto_of(agent, frame, raw, bytes);
	if (upto && !agent->config.host->forward(agent->config.host->context, agent, agent->opening,
					 frame_ref_get(frame), upto))
		refuse_memory(agent);
	ask_spool(agent);
}

static void take_error(struct relay_agent *agent, const Ringtail__V1__Error *error)
{
	char code[64], what[256];

	visible_copy(code, sizeof(code), error->code, strlen(error->code));
	visible_copy(what, sizeof(what), error->what, strlen(error->what));
	log_warn("agent-refuses", "the host %s answers: [%s] %s", agent->of->name, code, what);
}

/* ---- Input ----------------------------------------------------------------------------------- */

static const ProtobufCMessageDescriptor *message_of(const struct relay_agent *agent,
						    enum frame_type type)
{
	if (agent->state == AGENT_NEW)
		return type == FRAME_AGENT_HELLO ? &ringtail__v1__agent_hello__descriptor : NULL;
	switch (type) {
	case FRAME_SERVER_HELLO:
		return &ringtail__v1__server_hello__descriptor;
	case FRAME_ERROR:
		return &ringtail__v1__error__descriptor;
	case FRAME_CATALOG:
		return &ringtail__v1__catalog__descriptor;
	case FRAME_SUBSCRIBED:
		return &ringtail__v1__subscribed__descriptor;
	case FRAME_BATCH:
		return &ringtail__v1__batch__descriptor;
	case FRAME_WATERMARK:
		return &ringtail__v1__watermark__descriptor;
	case FRAME_GAP:
		return &ringtail__v1__gap__descriptor;
	case FRAME_BYE:
		return &ringtail__v1__bye__descriptor;
	case FRAME_STAT:
		return &ringtail__v1__stat__descriptor;
	case FRAME_DIAL_REFUSED:
		return &ringtail__v1__dial_refused__descriptor;
	default:
		return NULL;
	}
}

/* Of those that are read, and not only passed on. */
static void take_message(struct relay_agent *agent, struct frame_ref *frame, const void *message)
{
	switch (frame->type) {
	case FRAME_AGENT_HELLO:
		take_agent_hello(agent, message);
		break;
	case FRAME_SERVER_HELLO:
		take_server_hello(agent, frame, message);
		break;
	case FRAME_SUBSCRIBED:
		take_subscribed(agent, frame, message);
		break;
	case FRAME_STAT:
		take_stat(agent, message);
		break;
	case FRAME_DIAL_REFUSED:
		take_dial_refused(agent, message);
		break;
	default:
		take_error(agent, message);
		break;
	}
}

static void take_raw(struct relay_agent *agent, struct frame_ref *frame,
		     const ProtobufCMessageDescriptor *descriptor, const uint8_t *raw, size_t bytes)
{
	ProtobufCMessage *message;

	if (message_check(descriptor, raw, bytes, MESSAGE_ELEMENTS_MAX, NULL) != MESSAGE_GOOD) {
		refuse_frame(agent, "bad-message", "a frame of the agent holds no good message");
		return;
	}
	if (frame->type == FRAME_CATALOG) {
		take_catalog(agent, frame);
		return;
	}
	if (frame_ref_is_range(frame) || frame->type == FRAME_WATERMARK || frame->type == FRAME_BYE) {
		take_events(agent, frame, raw, bytes);
		return;
	}
	message = message_unpack_checked(descriptor, NULL, raw, bytes);
	if (message)
		take_message(agent, frame, message);
	else
		refuse_memory(agent);
	if (message)
		protobuf_c_message_free_unpacked(message, NULL);
}

static void take_frame(struct relay_agent *agent, const uint8_t *bytes,
		       const struct frame_header *header)
{
	const ProtobufCMessageDescriptor *descriptor = message_of(agent, header->type);
	const uint8_t *raw;
	struct frame_ref *frame;
	enum frame_status status;

	status = frame_open(agent->config.desk->codec, bytes, header, agent->config.desk->raw, &raw);
	if (status != FRAME_OK) {
		refuse_frame(agent, frame_status_name(status), frame_status_text(status));
		return;
	}
	if (!descriptor) {
		refuse_frame(agent, "unexpected-frame", agent->state == AGENT_NEW ?
			     "the first frame is not an AgentHello: this address is for agents, not for"
			     " clients" : "an agent does not send this here");
		return;
	}
	frame = frame_ref_create(header->type, FRAME_HEADER_BYTES + header->body_bytes);
	if (!frame) {
		refuse_memory(agent);
		return;
	}
	memcpy(frame->data, bytes, frame->bytes);
	frame->raw_bytes = header->raw_bytes;
	take_raw(agent, frame, descriptor, raw, header->raw_bytes);
	frame_ref_put(frame);
}

static bool must_wait(const struct relay_agent *agent)
{
	return agent->of && agent->state != AGENT_CLOSING &&
	       agent->config.host->is_full(agent->config.host->context, agent);
}

/* Whole frames off the front of so many bytes; how many were taken. */
static size_t take_frames(struct relay_agent *agent, const uint8_t *bytes, size_t n)
{
	uint32_t max = agent->of ? FRAME_RAW_BYTES_MAX : REQUEST_RAW_BYTES_MAX;
	size_t at = 0;

	/* What others have sent meanwhile counts: else each brings a frame more than there is room for. */
	agent->full = must_wait(agent);
	while (agent->state != AGENT_CLOSING && agent->state != AGENT_JOINING && !agent->full) {
		struct frame_header header;
		enum frame_status status = frame_parse_header(bytes + at, n - at, max, &header);

		if (status == FRAME_SHORT || (status == FRAME_OK &&
					      n - at < FRAME_HEADER_BYTES + (size_t)header.body_bytes))
			return at;
		if (status != FRAME_OK) {
			refuse_frame(agent, frame_status_name(status), frame_status_text(status));
			break;
		}
		take_frame(agent, bytes + at, &header);
		at += FRAME_HEADER_BYTES + header.body_bytes;
		max = agent->of ? FRAME_RAW_BYTES_MAX : REQUEST_RAW_BYTES_MAX;
		agent->full = must_wait(agent);
	}
	return agent->state == AGENT_CLOSING ? n : at;
}

static void count_room(struct relay_agent *agent, size_t capacity)
{
	*agent->config.desk->rest_bytes += capacity - agent->input_capacity;
	agent->input_capacity = capacity;
}

/* Room for so many bytes behind what waits. However little comes at a time, each byte is moved a few times at
 * most: the room doubles, and what was taken leaves it when half of it is that. False: out of memory. */
static bool make_room(struct relay_agent *agent, size_t n)
{
	size_t capacity = agent->input_capacity ? agent->input_capacity : 4096;
	uint8_t *larger;

	if (agent->input_at >= agent->input_bytes) {
		if (agent->input_bytes)
			memmove(agent->input, agent->input + agent->input_at, agent->input_bytes);
		agent->input_at = 0;
	}
	while (capacity < agent->input_at + agent->input_bytes + n)
		capacity *= 2;
	if (capacity == agent->input_capacity)
		return true;
	if (*agent->config.desk->rest_bytes + capacity > RELAY_REST_BYTES &&
	    !agent->config.host->make_way(agent->config.host->context, agent))
		return false;
	larger = realloc(agent->input, capacity);
	if (!larger)
		return false;
	agent->input = larger;
	count_room(agent, capacity);
	return true;
}

/* What did not come whole waits for the rest. False: out of memory. */
static bool keep_rest(struct relay_agent *agent, const uint8_t *bytes, size_t n)
{
	if (!n)
		return true;
	if (!make_room(agent, n))
		return false;
	memcpy(agent->input + agent->input_at + agent->input_bytes, bytes, n);
	agent->input_bytes += n;
	return true;
}

static void drop_input(struct relay_agent *agent, size_t n)
{
	agent->input_at += n;
	agent->input_bytes -= n;
	if (agent->input_bytes)
		return;
	free(agent->input);
	agent->input = NULL;
	agent->input_at = 0;
	count_room(agent, 0);
}

/* As transport_read(), of as much as is looked at together; what came stands in the desk. */
static ssize_t receive(struct relay_agent *agent, size_t *n)
{
	size_t max = RELAY_INPUT_BYTES - agent->input_bytes;
	ssize_t got = 0;

	*n = 0;
	while (!agent->full && *n < RELAY_READ_BYTES && *n < max) {
		got = transport_read(agent->transport, agent->config.desk->input + *n, max - *n);
		if (got <= 0)
			return got ? got : -ECONNRESET;
		*n += (size_t)got;
	}
	return got;
}

/* Whole frames of what waited and of what has come now. False: out of memory. */
static bool take_input(struct relay_agent *agent, const uint8_t *bytes, size_t n)
{
	size_t taken;

	if (!agent->input_bytes) {
		taken = take_frames(agent, bytes, n);
		return keep_rest(agent, bytes + taken, n - taken);
	}
	if (!keep_rest(agent, bytes, n))
		return false;
	drop_input(agent, take_frames(agent, agent->input + agent->input_at, agent->input_bytes));
	return true;
}

static void wait_for_more(struct relay_agent *agent, ssize_t got)
{
	if (agent->full) {
		event_del(agent->readable);
		return;
	}
	event_add(agent->readable, NULL);
	if (got == -EAGAIN && agent->transport->wanted == EV_WRITE)
		event_add(agent->writable, NULL);
	/* No event will tell of what the transport has taken off the socket already. */
	else if (got > 0 || transport_pending(agent->transport))
		event_active(agent->readable, EV_READ, 0);
}

/* The rest is its client's, which has not spoken yet: so its host has nothing to say. May free it. */
static void join(struct relay_agent *agent)
{
	const struct relay_agent_host *host = agent->config.host;
	struct error error;
	int err;

	if (agent->input_bytes) {
		refuse_frame(agent, "unexpected-frame", "the agent speaks before the client that it has dialled for");
		return;
	}
	/* Whoever takes the transport over waits for the socket in its own way, or closes it. */
	event_del(agent->readable);
	event_del(agent->writable);
	err = host->join(host->context, agent->name, agent->token, agent->token_bytes, agent->transport, &error);
	if (err) {
		event_add(agent->readable, NULL);
		relay_agent_refuse(agent, &error);
		return;
	}
	agent->transport = NULL;
	relay_agent_destroy(agent);
}

/* Frames are looked at after each part of a turn: one that has to wait leaves the rest to the socket. */
static void hear(struct relay_agent *agent)
{
	size_t n = 0, turn = 0;
	bool kept = true;
	ssize_t got = 0;

	if (agent->input_bytes)
		kept = take_input(agent, NULL, 0);
	do {
		got = kept ? receive(agent, &n) : -ENOMEM;
		if (kept)
			kept = take_input(agent, agent->config.desk->input, n);
		turn += n;
	} while (kept && got > 0 && !agent->full && agent->state != AGENT_JOINING && turn < RELAY_READ_TURN_BYTES);
	if (kept && agent->state == AGENT_JOINING) {
		join(agent);
		return;
	}
	if ((got < 0 && got != -EAGAIN) || !kept) {
		relay_agent_destroy(agent);
		return;
	}
	wait_for_more(agent, got);
}

/* What has come is looked at again, and then what comes. */
void relay_agent_go_on(struct relay_agent *agent)
{
	if (!agent->full || agent->config.host->is_full(agent->config.host->context, agent))
		return;
	agent->full = false;
	event_add(agent->readable, NULL);
	event_active(agent->readable, EV_READ, 0);
}

/* ---- Turns ----------------------------------------------------------------------------------- */

static void shake_hands(struct relay_agent *agent)
{
	struct error error = {0};
	int err = transport_handshake(agent->transport, &error);

	if (!err) {
		agent->state = AGENT_NEW;
		agent->shaken = true;
		arm(agent, agent->config.hello_timeout_ns);
		event_add(agent->readable, NULL);
		event_active(agent->readable, EV_READ, 0);
	} else if (err == -EAGAIN) {
		event_add(agent->transport->wanted == EV_WRITE ? agent->writable : agent->readable, NULL);
	} else {
		/* The transport has said why; the agent gets to read it. */
		counter_add(COUNTER_tls_failed, 1);
		log_warn("agent-tls", "agent (%s): %s; %s", agent->peer, error.what, error.hint);
		agent->state = AGENT_CLOSING;
		arm(agent, agent->config.hello_timeout_ns);
		event_add(agent->readable, NULL);
	}
}

static void take_turn(void *context)
{
	shake_hands(context);
}

static void on_readable(evutil_socket_t fd, short what, void *context)
{
	struct relay_agent *agent = context;

	(void)fd;
	agent->heard = agent->heard || what & EV_READ;
	if (agent->state != AGENT_SHAKING) {
		hear(agent);
		return;
	}
	event_del(agent->readable);
	turnstile_join(agent->config.turnstile, agent->turn);
}

static void on_writable(evutil_socket_t fd, short what, void *context)
{
	struct relay_agent *agent = context;

	if (agent->state == AGENT_SHAKING) {
		on_readable(fd, what, agent);
		return;
	}
	if (!agent->broken)
		write_out(agent);
	if (agent->broken) {
		relay_agent_destroy(agent);
		return;
	}
	if (agent->state == AGENT_CLOSING && !agent->outs)
		transport_shutdown(agent->transport);	/* the agent's own end of file ends it */
	if (agent->owes_ack)
		relay_agent_acknowledge(agent);
	if (agent->state == AGENT_STREAMING)
		event_del(agent->timeout);
}

static void on_timeout(evutil_socket_t fd, short what, void *context)
{
	struct relay_agent *agent = context;

	(void)fd, (void)what;
	if (agent->state == AGENT_SHAKING || agent->state == AGENT_CLOSING)
		relay_agent_destroy(agent);
	else if (agent->state != AGENT_STREAMING)
		refuse(agent, "hello-timeout", "the agent did not say hello in time",
		       "this address is for daemons whose option `relay` names it");
}

/* ---- Life ------------------------------------------------------------------------------------ */

static void free_agent(struct relay_agent *agent)
{
	if (agent->turn)
		turnstile_leave(agent->config.turnstile, agent->turn);
	free(agent->turn);
	if (agent->readable)
		event_free(agent->readable);
	if (agent->writable)
		event_free(agent->writable);
	if (agent->timeout)
		event_free(agent->timeout);
	while (agent->outs)
		frame_ref_put(agent->out[--agent->outs]);
	relay_opening_put(agent->opening);
	relay_opening_put(agent->next);
	free(agent->since);
	free(agent->input);
	count_room(agent, 0);
	transport_destroy(agent->transport);
	free(agent);
}

struct relay_agent *relay_agent_create(const struct relay_agent_config *config,
				       struct transport *transport, const char *peer)
{
	struct relay_agent *agent = calloc(1, sizeof(*agent));

	if (!agent) {
		transport_destroy(transport);
		return NULL;
	}
	agent->config = *config;
	agent->transport = transport;
	snprintf(agent->peer, sizeof(agent->peer), "%s", peer);
	agent->turn = calloc(1, sizeof(*agent->turn));
	agent->readable = event_new(config->base, transport->fd, EV_READ | EV_PERSIST, on_readable,
				    agent);
	agent->writable = event_new(config->base, transport->fd, EV_WRITE, on_writable, agent);
	agent->timeout = evtimer_new(config->base, on_timeout, agent);
	if (!agent->turn || !agent->readable || !agent->writable || !agent->timeout ||
	    event_add(agent->readable, NULL) != 0) {
		free_agent(agent);
		return NULL;
	}
	*agent->turn = (struct turnstile_place){.go = take_turn, .context = agent};
	arm(agent, config->hello_timeout_ns);
	return agent;
}

void relay_agent_destroy(struct relay_agent *agent)
{
	agent->config.host->closed(agent->config.host->context, agent);
	free_agent(agent);
}
