/*
 * swarm: thousands of clients in one process, well or badly behaved.
 *
 *	swarm --connect unix:PATH|tcp:HOST:PORT [--mode MODE] [--clients N] [--probe SPEC]
 *	      [--filter EXPR] [--hold MS] [--tls] [--seed N]
 *
 *	connected	says hello, and asks for something small now and then
 *	stream		subscribes, and reads and checks all that comes
 *	trickle		the same, one byte at a time, both ways
 *	storm		subscribes, stays for up to --hold, goes, and comes back at once
 *	slowloris	dribbles a hello that never ends (--tls: a TLS handshake), a byte each --hold
 *	stall		subscribes and then reads nothing any more
 *	reset		breaks off in the middle of what it says or hears, without a FIN, and comes back
 *
 * A line `report` on stdin is answered by one JSON line of counts; the end of stdin ends it. One
 * thread, one epoll. That thousands get the same frames is made cheap by remembering what was in a
 * frame by its checksum; each client still follows the numbers of its own stream.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "proto/frame.h"
#include "proto/limits.h"
#include "proto/ringtail.pb-c.h"

#define CLIENTS_MAX	10000
#define CPUS_MAX	64
#define EVENTS_MAX	256		/* of one epoll_wait */
#define TURN_BYTES	(1 << 16)
#define INPUT_BYTES_MAX	(FRAME_HEADER_BYTES + FRAME_BODY_BYTES_MAX)
#define KNOWN_FRAMES	256
#define ASK_AGAIN_NS	10000000000ull	/* a connected client's next question */
#define RETRY_NS	10000000ull
#define NS_PER_MS	1000000ull
#define STALL_RECEIVE_BYTES 4096

enum mode { CONNECTED, STREAM, TRICKLE, STORM, SLOWLORIS, STALL, RESET, MODES };

static const char *const mode_name[MODES] = {
	"connected", "stream", "trickle", "storm", "slowloris", "stall", "reset",
};

struct options {
	struct sockaddr_storage address;
	socklen_t address_bytes;
	enum mode mode;
	unsigned clients;
	char *probe;
	const char *filter;
	uint64_t hold_ns;
	bool tls;
};

enum state {
	AWAY,			/* comes (again) at due_ns */
	CONNECTING,
	TALKING,
	SUBSCRIBED,
};

struct client {
	int fd;
	enum state state;
	uint64_t due_ns;	/* when it does something by itself; 0: never */
	size_t said, heard;	/* bytes of this connection */
	size_t break_at;	/* reset: after so many heard, or said */
	uint8_t *input;
	size_t input_bytes, input_capacity;
	uint64_t next_seq[CPUS_MAX];
	uint64_t events, lost;
};

/* What a frame says that a client has to follow. */
struct content {
	uint32_t crc32c, raw_bytes;
	uint8_t type;
	uint64_t events, lost;
	unsigned spans;			/* of numbers: one, or a watermark's */
	struct span {
		uint32_t cpu;
		uint64_t first_seq, end_seq;
	} span[CPUS_MAX];
};

static struct options options;
static struct client clients[CLIENTS_MAX];
static struct content known[KNOWN_FRAMES];
static struct frame_codec *codec;
static uint8_t request[8192];		/* what each says first */
static size_t request_bytes;
static uint8_t question[256];		/* and a connected one again and again */
static size_t question_bytes;
static int poll_fd;
static uint64_t random_state;

static struct {
	uint64_t came, subscribed, refused, closed, broken_off, holes, bad_frames, heard_bytes;
	char error[64];
} counts;

static void die(const char *what)
{
	fprintf(stderr, "swarm: %s: %s\n", what, strerror(errno));
	exit(1);
}

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* SplitMix64 (Steele, Lea, Flood, 2014). */
static uint64_t random_below(uint64_t bound)
{
	uint64_t z = random_state += 0x9e3779b97f4a7c15ull;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	return (z ^ z >> 31) % bound;
}

/* ---- What it says ------------------------------------------------------------------------------ */

static size_t put_frame(uint8_t *to, size_t room, enum frame_type type,
			const ProtobufCMessage *message)
{
	uint8_t raw[8192], sealed[sizeof(raw) + 1024];
	size_t bytes = protobuf_c_message_get_packed_size(message);

	if (bytes > sizeof(raw) || frame_bound((uint32_t)bytes) > sizeof(sealed)) {
		errno = E2BIG;
		die("request");
	}
	protobuf_c_message_pack(message, raw);
	bytes = frame_seal(codec, type, raw, (uint32_t)bytes, sealed);
	if (bytes > room) {
		errno = E2BIG;
		die("request");
	}
	memcpy(to, sealed, bytes);
	return bytes;
}

static void make_requests(void)
{
	Ringtail__V1__ClientHello hello = RINGTAIL__V1__CLIENT_HELLO__INIT;
	Ringtail__V1__Subscribe subscribe = RINGTAIL__V1__SUBSCRIBE__INIT;
	Ringtail__V1__ListRequest list = RINGTAIL__V1__LIST_REQUEST__INIT;
	static const uint8_t tls[] = {0x16, 0x03, 0x01, 0x02, 0x00, 0x01, 0x00, 0x01, 0xfc, 0x03, 0x03};
	char software[] = "swarm";

	if (options.tls) {
		memcpy(request, tls, sizeof(tls));
		request_bytes = sizeof(tls) + 0x1fc;
		return;
	}
	hello.version_min = hello.version_max = FRAME_VERSION;
	hello.software = software;
	request_bytes = put_frame(request, sizeof(request), FRAME_CLIENT_HELLO, &hello.base);
	list.glob = options.probe;
	question_bytes = put_frame(question, sizeof(question), FRAME_LIST, &list.base);
	subscribe.n_probe = 1;
	subscribe.probe = &options.probe;
	subscribe.filter = (char *)options.filter;
	if (options.mode == CONNECTED) {
		memcpy(request + request_bytes, question, question_bytes);
		request_bytes += question_bytes;
	} else if (options.mode != SLOWLORIS) {
		request_bytes += put_frame(request + request_bytes, sizeof(request) - request_bytes,
					   FRAME_SUBSCRIBE, &subscribe.base);
	}
}

static void wait_for(struct client *client, bool readable, bool writable)
{
	struct epoll_event event = {.events = (readable ? EPOLLIN : 0u) | (writable ? EPOLLOUT : 0u),
				    .data.u64 = (uint64_t)(client - clients)};

	if (epoll_ctl(poll_fd, EPOLL_CTL_MOD, client->fd, &event))
		die("epoll_ctl");
}

/* Gone; back after a moment. */
static void leave(struct client *client, uint64_t after_ns)
{
	struct linger abrupt = {.l_onoff = 1};

	if (options.mode == RESET)
		setsockopt(client->fd, SOL_SOCKET, SO_LINGER, &abrupt, sizeof(abrupt));
	close(client->fd);
	client->fd = -1;
	client->state = AWAY;
	client->due_ns = now_ns() + after_ns;
}

static void say(struct client *client)
{
	size_t bytes = request_bytes - client->said;
	ssize_t n;

	if (options.mode == TRICKLE || options.mode == SLOWLORIS)
		bytes = 1;
	if (options.mode == RESET && client->break_at < request_bytes)
		bytes = client->break_at - client->said;
	n = bytes ? send(client->fd, request + client->said, bytes, MSG_NOSIGNAL) : 0;
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n < 0) {
		counts.closed++;
		leave(client, RETRY_NS);
		return;
	}
	client->said += (size_t)n;
	if (options.mode == RESET && client->said == client->break_at) {
		counts.broken_off++;
		leave(client, 0);
	} else if (options.mode == SLOWLORIS) {
		/* The last byte never comes. */
		client->due_ns = client->said + 1 < request_bytes ? now_ns() + options.hold_ns : 0;
		wait_for(client, true, false);
	} else if (client->said == request_bytes) {
		wait_for(client, true, false);
	}
}

/* ---- What it hears ----------------------------------------------------------------------------- */

static void read_batch(const uint8_t *body, size_t bytes, struct content *content)
{
	Ringtail__V1__Batch *batch = ringtail__v1__batch__unpack(NULL, bytes, body);

	if (!batch) {
		counts.bad_frames++;
		return;
	}
	content->spans = 1;
	content->span[0] = (struct span){batch->cpu, batch->first_seq, batch->end_seq};
	content->events = batch->events;
	for (size_t i = 0; i < batch->n_loss; i++)
		content->lost += batch->loss[i]->count;
	ringtail__v1__batch__free_unpacked(batch, NULL);
}

static void read_gap(const uint8_t *body, size_t bytes, struct content *content)
{
	Ringtail__V1__Gap *gap = ringtail__v1__gap__unpack(NULL, bytes, body);

	if (!gap) {
		counts.bad_frames++;
		return;
	}
	content->spans = 1;
	content->span[0] = (struct span){gap->cpu, gap->first_seq, gap->end_seq};
	content->lost = gap->events;
	ringtail__v1__gap__free_unpacked(gap, NULL);
}

/* What was skipped, since what was told last. */
static void read_watermark(const uint8_t *body, size_t bytes, struct content *content)
{
	Ringtail__V1__Watermark *mark = ringtail__v1__watermark__unpack(NULL, bytes, body);

	if (!mark || mark->n_position > CPUS_MAX) {
		counts.bad_frames++;
		ringtail__v1__watermark__free_unpacked(mark, NULL);
		return;
	}
	content->spans = (unsigned)mark->n_position;
	for (size_t i = 0; i < mark->n_position; i++) {
		const Ringtail__V1__Position *position = mark->position[i];

		content->span[i] = (struct span){position->cpu, position->seq - position->skipped,
						 position->seq};
	}
	ringtail__v1__watermark__free_unpacked(mark, NULL);
}

static void read_error(const uint8_t *body, size_t bytes)
{
	Ringtail__V1__Error *error = ringtail__v1__error__unpack(NULL, bytes, body);

	if (error)
		snprintf(counts.error, sizeof(counts.error), "%s", error->code);
	counts.refused++;
	ringtail__v1__error__free_unpacked(error, NULL);
}

/* Where this client's stream begins on each CPU. */
static void begin_stream(struct client *client, const uint8_t *body, size_t bytes)
{
	Ringtail__V1__Subscribed *subscribed = ringtail__v1__subscribed__unpack(NULL, bytes, body);

	if (!subscribed || !subscribed->start) {
		counts.bad_frames++;
		ringtail__v1__subscribed__free_unpacked(subscribed, NULL);
		return;
	}
	for (size_t i = 0; i < subscribed->start->n_position; i++) {
		const Ringtail__V1__Position *position = subscribed->start->position[i];

		if (position->cpu < CPUS_MAX)
			client->next_seq[position->cpu] = position->seq;
	}
	ringtail__v1__subscribed__free_unpacked(subscribed, NULL);
	counts.subscribed++;
	client->state = SUBSCRIBED;
	if (options.mode == STALL)
		wait_for(client, false, false);
	if (options.mode == STORM)
		client->due_ns = now_ns() + 1 + random_below(options.hold_ns + 1);
}

static const struct content *look_into(const uint8_t *frame, const struct frame_header *header)
{
	static uint8_t raw[FRAME_RAW_BYTES_MAX];
	struct content *content = &known[header->crc32c % KNOWN_FRAMES];
	const uint8_t *body;

	if (content->crc32c == header->crc32c && content->raw_bytes == header->raw_bytes &&
	    content->type == header->type)
		return content;
	if (frame_open(codec, frame, header, raw, &body) != FRAME_OK) {
		counts.bad_frames++;
		return NULL;
	}
	*content = (struct content){.crc32c = header->crc32c, .raw_bytes = header->raw_bytes,
				    .type = (uint8_t)header->type};
	if (header->type == FRAME_BATCH)
		read_batch(body, header->raw_bytes, content);
	else if (header->type == FRAME_WATERMARK)
		read_watermark(body, header->raw_bytes, content);
	else
		read_gap(body, header->raw_bytes, content);
	return content;
}

/* Each number once, in order; a watermark may also repeat what came before it. */
static void follow(struct client *client, const struct span *span, bool mark)
{
	uint64_t *next;

	if (span->cpu >= CPUS_MAX)
		return;
	next = &client->next_seq[span->cpu];
	if (mark && span->end_seq <= *next)
		return;
	counts.holes += mark ? span->first_seq > *next : span->first_seq != *next;
	*next = span->end_seq;
}

static void take_frame(struct client *client, const uint8_t *frame,
		       const struct frame_header *header)
{
	static uint8_t raw[FRAME_RAW_BYTES_MAX];
	const struct content *content;
	const uint8_t *body;

	if (header->type == FRAME_BATCH || header->type == FRAME_GAP ||
	    header->type == FRAME_WATERMARK) {
		content = look_into(frame, header);
		if (!content)
			return;
		for (unsigned i = 0; i < content->spans; i++)
			follow(client, &content->span[i], header->type == FRAME_WATERMARK);
		client->events += content->events;
		client->lost += content->lost;
	} else if (header->type == FRAME_ERROR || header->type == FRAME_SUBSCRIBED) {
		if (frame_open(codec, frame, header, raw, &body) != FRAME_OK)
			counts.bad_frames++;
		else if (header->type == FRAME_ERROR)
			read_error(body, header->raw_bytes);
		else
			begin_stream(client, body, header->raw_bytes);
	}
}

/* The whole frames of its input; the rest stays. */
static void take_frames(struct client *client)
{
	size_t at = 0;

	while (client->input_bytes - at >= FRAME_HEADER_BYTES) {
		struct frame_header header;

		if (frame_parse_header(client->input + at, client->input_bytes - at,
				       FRAME_RAW_BYTES_MAX, &header) != FRAME_OK) {
			counts.bad_frames++;
			at = client->input_bytes;
			break;
		}
		if (client->input_bytes - at < FRAME_HEADER_BYTES + header.body_bytes)
			break;
		take_frame(client, client->input + at, &header);
		at += FRAME_HEADER_BYTES + header.body_bytes;
	}
	client->input_bytes -= at;
	memmove(client->input, client->input + at, client->input_bytes);
}

static bool make_room(struct client *client)
{
	size_t capacity = client->input_capacity ? 2 * client->input_capacity : 4096;
	uint8_t *input;

	if (client->input_bytes < client->input_capacity)
		return true;
	input = capacity <= 2 * INPUT_BYTES_MAX ? realloc(client->input, capacity) : NULL;
	if (!input)
		return false;
	client->input = input;
	client->input_capacity = capacity;
	return true;
}

static void hear(struct client *client)
{
	size_t turn = 0, bytes;
	ssize_t n;

	while (turn < TURN_BYTES && client->fd >= 0) {
		if (!make_room(client))
			die("memory");
		bytes = client->input_capacity - client->input_bytes;
		if (options.mode == TRICKLE)
			bytes = 1;
		if (options.mode == RESET && client->break_at > request_bytes &&
		    bytes > client->break_at - request_bytes - client->heard)
			bytes = client->break_at - request_bytes - client->heard;
		n = recv(client->fd, client->input + client->input_bytes, bytes, 0);
		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			return;
		if (n <= 0) {
			counts.closed++;
			leave(client, RETRY_NS);
			return;
		}
		client->input_bytes += (size_t)n;
		client->heard += (size_t)n;
		counts.heard_bytes += (uint64_t)n;
		turn += options.mode == TRICKLE ? TURN_BYTES / 64 : (size_t)n;
		take_frames(client);
		if (options.mode == RESET && request_bytes + client->heard == client->break_at &&
		    client->fd >= 0) {
			counts.broken_off++;
			leave(client, 0);
		}
		if (options.mode == STALL && client->state == SUBSCRIBED)
			return;
	}
}

/* ---- Coming and going -------------------------------------------------------------------------- */

static void come(struct client *client)
{
	struct epoll_event event = {.events = EPOLLOUT, .data.u64 = (uint64_t)(client - clients)};
	int one = 1, small = STALL_RECEIVE_BYTES;

	client->fd = socket(options.address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (client->fd < 0)
		die("socket");
	if (options.mode == STALL)
		setsockopt(client->fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small));
	if (options.address.ss_family == AF_INET)
		setsockopt(client->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	if (connect(client->fd, (struct sockaddr *)&options.address, options.address_bytes) != 0 &&
	    errno != EINPROGRESS) {
		leave(client, RETRY_NS);
		return;
	}
	client->state = CONNECTING;
	client->due_ns = 0;
	client->said = client->heard = client->input_bytes = 0;
	/* Half of them while they speak, half while they listen. */
	client->break_at = 1 + random_below(random_below(2) ? request_bytes - 1 : request_bytes + 4096);
	if (client->break_at == request_bytes)
		client->break_at++;
	if (epoll_ctl(poll_fd, EPOLL_CTL_ADD, client->fd, &event))
		die("epoll_ctl");
}

static void on_connected(struct client *client)
{
	socklen_t bytes = sizeof(int);
	int err = 0;

	getsockopt(client->fd, SOL_SOCKET, SO_ERROR, &err, &bytes);
	if (err) {
		leave(client, RETRY_NS);
		return;
	}
	counts.came++;
	client->state = TALKING;
	if (options.mode == CONNECTED)
		client->due_ns = now_ns() + ASK_AGAIN_NS;
	wait_for(client, true, true);
}

static void on_due(struct client *client)
{
	client->due_ns = 0;
	if (client->state == AWAY) {
		come(client);
	} else if (options.mode == SLOWLORIS) {
		say(client);
	} else if (options.mode == STORM) {
		counts.broken_off++;
		leave(client, 0);
	} else if (options.mode == CONNECTED) {
		if (send(client->fd, question, question_bytes, MSG_NOSIGNAL) < 0 && errno != EAGAIN) {
			counts.closed++;
			leave(client, RETRY_NS);
			return;
		}
		client->due_ns = now_ns() + ASK_AGAIN_NS;
	}
}

static void on_ready(struct client *client, uint32_t events)
{
	if (client->state == CONNECTING)
		on_connected(client);
	if (client->fd >= 0 && events & EPOLLOUT && client->said < request_bytes)
		say(client);
	if (client->fd >= 0 && events & (EPOLLIN | EPOLLHUP | EPOLLERR))
		hear(client);
}

static void report(void)
{
	uint64_t events_min = UINT64_MAX, events_max = 0, events = 0, lost = 0;
	unsigned state[SUBSCRIBED + 1] = {0};

	for (unsigned i = 0; i < options.clients; i++) {
		const struct client *client = &clients[i];

		state[client->state]++;
		events += client->events;
		lost += client->lost;
		events_min = client->events < events_min ? client->events : events_min;
		events_max = client->events > events_max ? client->events : events_max;
	}
	printf("{\"away\":%u,\"talking\":%u,\"subscribed\":%u,\"came\":%" PRIu64
	       ",\"subscriptions\":%" PRIu64 ",\"refused\":%" PRIu64 ",\"closed\":%" PRIu64
	       ",\"broken_off\":%" PRIu64 ",\"holes\":%" PRIu64 ",\"bad_frames\":%" PRIu64
	       ",\"events\":%" PRIu64 ",\"events_min\":%" PRIu64 ",\"events_max\":%" PRIu64
	       ",\"lost\":%" PRIu64 ",\"bytes\":%" PRIu64 ",\"ns\":%" PRIu64 ",\"error\":\"%s\"}\n",
	       state[AWAY] + state[CONNECTING], state[TALKING], state[SUBSCRIBED], counts.came,
	       counts.subscribed, counts.refused, counts.closed, counts.broken_off, counts.holes,
	       counts.bad_frames, events, events_min, events_max, lost, counts.heard_bytes,
	       now_ns(), counts.error);
	fflush(stdout);
}

/* False at the end of stdin. */
static bool take_commands(void)
{
	char text[256];
	ssize_t n = read(STDIN_FILENO, text, sizeof(text));

	if (n <= 0)
		return n < 0 && (errno == EAGAIN || errno == EINTR);
	for (ssize_t i = 0; i < n; i++)
		if (text[i] == '\n')
			report();
	return true;
}

static void run(void)
{
	struct epoll_event stdin_event = {.events = EPOLLIN, .data.u64 = CLIENTS_MAX};
	struct epoll_event event[EVENTS_MAX];
	uint64_t looked_ns = 0;

	if (epoll_ctl(poll_fd, EPOLL_CTL_ADD, STDIN_FILENO, &stdin_event))
		die("epoll_ctl");
	for (;;) {
		int n = epoll_wait(poll_fd, event, EVENTS_MAX, 10);
		uint64_t now = now_ns();

		for (int i = 0; i < n; i++) {
			if (event[i].data.u64 < CLIENTS_MAX)
				on_ready(&clients[event[i].data.u64], event[i].events);
			else if (!take_commands())
				return;
		}
		if (now - looked_ns < RETRY_NS / 2)
			continue;
		looked_ns = now;
		for (unsigned i = 0; i < options.clients; i++)
			if (clients[i].due_ns && clients[i].due_ns <= now)
				on_due(&clients[i]);
	}
}

/* ---- Options ----------------------------------------------------------------------------------- */

static void usage(void)
{
	fprintf(stderr, "usage: swarm --connect unix:PATH|tcp:HOST:PORT [--mode MODE] [--clients N] "
			"[--probe SPEC] [--filter EXPR] [--hold MS] [--tls] [--seed N]\n");
	exit(2);
}

static void parse_address(char *text)
{
	struct sockaddr_un *un = (void *)&options.address;
	struct sockaddr_in *in = (void *)&options.address;
	char *port = strrchr(text, ':');

	if (strncmp(text, "unix:", 5) == 0 && strlen(text + 5) < sizeof(un->sun_path)) {
		un->sun_family = AF_UNIX;
		memcpy(un->sun_path, text + 5, strlen(text + 5) + 1);
		options.address_bytes = sizeof(*un);
		return;
	}
	if (strncmp(text, "tcp:", 4) != 0 || port == text + 3)
		usage();
	*port = '\0';
	in->sin_family = AF_INET;
	in->sin_port = htons((uint16_t)atoi(port + 1));
	options.address_bytes = sizeof(*in);
	if (inet_pton(AF_INET, text + 4, &in->sin_addr) != 1)
		usage();
}

static enum mode parse_mode(const char *text)
{
	for (unsigned i = 0; i < MODES; i++)
		if (strcmp(text, mode_name[i]) == 0)
			return i;
	usage();
	return MODES;
}

static void parse_options(int argc, char **argv)
{
	static char default_probe[] = "syscall:getppid:call";
	static const struct option names[] = {
		{"connect", required_argument, NULL, 'c'}, {"mode", required_argument, NULL, 'm'},
		{"clients", required_argument, NULL, 'n'}, {"probe", required_argument, NULL, 'p'},
		{"filter", required_argument, NULL, 'f'},  {"hold", required_argument, NULL, 'h'},
		{"tls", no_argument, NULL, 't'},           {"seed", required_argument, NULL, 's'},
		{NULL, 0, NULL, 0},
	};
	int name;

	options = (struct options){.mode = STREAM, .clients = 1, .probe = default_probe, .filter = "",
				   .hold_ns = 100 * NS_PER_MS};
	while ((name = getopt_long(argc, argv, "", names, NULL)) != -1) {
		switch (name) {
		case 'c': parse_address(optarg); break;
		case 'm': options.mode = parse_mode(optarg); break;
		case 'n': options.clients = (unsigned)strtoul(optarg, NULL, 10); break;
		case 'p': options.probe = optarg; break;
		case 'f': options.filter = optarg; break;
		case 'h': options.hold_ns = strtoull(optarg, NULL, 10) * NS_PER_MS; break;
		case 't': options.tls = true; break;
		case 's': random_state = strtoull(optarg, NULL, 10); break;
		default: usage();
		}
	}
	if (optind < argc || !options.address_bytes || !options.clients ||
	    options.clients > CLIENTS_MAX || (options.tls && options.mode != SLOWLORIS))
		usage();
}

int main(int argc, char **argv)
{
	struct rlimit limit;

	parse_options(argc, argv);
	codec = frame_codec_create(1);
	poll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (!codec || poll_fd < 0)
		die("start");
	if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
		limit.rlim_cur = limit.rlim_max;
		setrlimit(RLIMIT_NOFILE, &limit);
	}
	make_requests();
	for (unsigned i = 0; i < options.clients; i++) {
		clients[i].fd = -1;
		clients[i].due_ns = 1;
	}
	run();
	for (unsigned i = 0; i < options.clients; i++) {
		if (clients[i].fd >= 0)
			close(clients[i].fd);
		free(clients[i].input);
	}
	close(poll_fd);
	frame_codec_destroy(codec);
	return 0;
}
