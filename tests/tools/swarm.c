/*
 * swarm: thousands of clients in one process, well or badly behaved.
 *
 *	swarm --connect unix:PATH|tcp:HOST:PORT [--mode MODE] [--clients N] [--probe SPEC]
 *	      [--filter EXPR] [--hold MS] [--rate N] [--tls] [--seed N]
 *
 *	connected	says hello, and asks for something small now and then
 *	stream		subscribes, and reads and checks all that comes
 *	trickle		the same, one byte at a time, both ways
 *	storm		subscribes, stays for up to --hold, goes, and comes back at once
 *	slowloris	dribbles a hello that never ends (--tls: a TLS handshake), a byte each --hold
 *	stall		subscribes and then reads nothing any more
 *	reset		breaks off in the middle of what it says or hears, without a FIN, and comes back
 *	strangers	--rate of them in a second, whatever the daemon does: each begins a TLS handshake
 *			(see swarm_strangers.c); --clients are there at once, and `subscriptions`
 *			counts the handshakes that were ended
 *
 * A line `report` on stdin is answered by one JSON line of counts; the end of stdin ends it. One
 * thread, one epoll. That thousands get the same frames is made cheap by remembering what was in a
 * frame by its checksum; each client still follows the numbers of its own stream.
 */
#include "tests/tools/swarm.h"

#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define EVENTS_MAX	256		/* of one epoll_wait */

static const char *const mode_name[MODES] = {
	"connected", "stream", "trickle", "storm", "slowloris", "stall", "reset",
	"strangers",
};

struct options options;
struct client clients[CLIENTS_MAX];
struct counts counts;
struct frame_codec *codec;
int poll_fd;
static uint64_t random_state;

void die(const char *what)
{
	fprintf(stderr, "swarm: %s: %s\n", what, strerror(errno));
	exit(1);
}

uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* SplitMix64 (Steele, Lea, Flood, 2014). */
uint64_t random_below(uint64_t bound)
{
	uint64_t z = random_state += 0x9e3779b97f4a7c15ull;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	return (z ^ z >> 31) % bound;
}

/* ---- All of them at once --------------------------------------------------------------------- */

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
				client_on_ready(&clients[event[i].data.u64], event[i].events);
			else if (!take_commands())
				return;
		}
		if (now - looked_ns < RETRY_NS / 2)
			continue;
		looked_ns = now;
		for (unsigned i = 0; i < options.clients; i++)
			if (clients[i].due_ns && clients[i].due_ns <= now)
				client_on_due(&clients[i]);
	}
}

/* ---- Options --------------------------------------------------------------------------------- */

static void usage(void)
{
	fprintf(stderr, "usage: swarm --connect unix:PATH|tcp:HOST:PORT [--mode MODE] "
			"[--clients N] [--probe SPEC] [--filter EXPR] [--hold MS] [--rate N] [--tls] "
			"[--seed N]\n");
	exit(2);
}

static void parse_address(char *text)
{
	struct sockaddr_un *un = (void *)&options.address;
	struct sockaddr_in *in = (void *)&options.address;
	char *port = strrchr(text, ':');
	size_t bytes = strlen(text);

	if (strncmp(text, "unix:", 5) == 0 && bytes - 5 < sizeof(un->sun_path)) {
		un->sun_family = AF_UNIX;
		memcpy(un->sun_path, text + 5, bytes - 5 + 1);
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
		{"rate", required_argument, NULL, 'r'},
		{NULL, 0, NULL, 0},
	};
	int name;

	options = (struct options){.mode = STREAM, .clients = 1, .probe = default_probe,
				   .filter = "", .hold_ns = 100 * NS_PER_MS};
	while ((name = getopt_long(argc, argv, "", names, NULL)) != -1) {
		switch (name) {
		case 'c': parse_address(optarg); break;
		case 'm': options.mode = parse_mode(optarg); break;
		case 'n': options.clients = (unsigned)strtoul(optarg, NULL, 10); break;
		case 'p': options.probe = optarg; break;
		case 'f': options.filter = optarg; break;
		case 'h': options.hold_ns = strtoull(optarg, NULL, 10) * NS_PER_MS; break;
		case 't': options.tls = true; break;
		case 'r': options.rate = (unsigned)strtoul(optarg, NULL, 10); break;
		case 's': random_state = strtoull(optarg, NULL, 10); break;
		default: usage();
		}
	}
	if (optind < argc || !options.address_bytes || !options.clients ||
	    options.clients > CLIENTS_MAX || (options.tls && options.mode != SLOWLORIS) ||
	    !options.rate != (options.mode != STRANGERS))
		usage();
}

int main(int argc, char **argv)
{
	struct rlimit limit;

	parse_options(argc, argv);
	/* OpenSSL writes to who has gone without MSG_NOSIGNAL. */
	signal(SIGPIPE, SIG_IGN);
	codec = frame_codec_create(1);
	poll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (!codec || poll_fd < 0)
		die("start");
	if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
		limit.rlim_cur = limit.rlim_max;
		setrlimit(RLIMIT_NOFILE, &limit);
	}
	client_make_requests();
	if (options.mode == STRANGERS)
		strangers_prepare();
	for (unsigned i = 0; i < options.clients; i++) {
		clients[i].fd = -1;
		clients[i].due_ns = options.mode == STRANGERS ? stranger_next(&clients[i]) : 1;
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
