#include "daemon/programs/programs.h"

#include <ctype.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/base/clock.h"
#include "daemon/base/counters.h"
#include "daemon/base/descriptor.h"
#include "daemon/base/limits.h"
#include "daemon/base/log.h"
#include "daemon/net/turnstile.h"
#include "daemon/programs/table.h"
#include "daemon/ring/writer.h"

_Static_assert(RT_PROBES_PROGRAM_MAX == PROGRAM_PROBES_MAX, "the limit says what the numbers allow");

/*
 * A probe keeps its number as long as the daemon runs, also while no program has it. It is the same one wherever in its
 * source it stands: a program that was built again has the numbers that it had. Where a program has two that differ in
 * nothing else, they have two numbers, in their order.
 */
struct known_probe {
	uint32_t uid;			/* another user's is another probe */
	bool shown;			/* and so is that of a program into which its user may not look */
	size_t bytes;
	uint8_t *packed;		/* with the id 0, and without a place */
	char *source;			/* the place, as the last program had it */
	uint32_t words;			/* fields that the program writes */
	struct probe_filter *filter;	/* NULL: each event is written */
	uint64_t turn;			/* of the last program that has it */
};

/*
 * One connection. It has sent its probes once `admitted` is there. One that has ended stands here, and counts, until
 * the inlet has read its memory and given it back.
 */
struct program {
	TAILQ_ENTRY(program) link;
	struct programs *programs;
	int fd;
	struct event *event;
	struct ucred peer;
	struct rt_program_hello hello;
	uint8_t *table;
	size_t got;			/* of hello and table */
	uint64_t until_ns;		/* so long it may take to send these */
	struct turnstile_place place;	/* until they are looked at */
	struct program_segment segment;	/* mapped by the inlet */
	struct inlet_program *admitted;	/* NULL again when it has ended */
	_Atomic bool gone;		/* the inlet has done with it */
	bool ended;
	uint32_t probes;
	uint16_t id[RT_PROGRAM_PROBES_MAX];
};

struct programs {
	struct programs_config config;
	struct event_base *base;
	struct turnstile *turnstile;
	struct ring_writer *writer;
	struct program_inlet *inlet;
	uint32_t cpus;
	struct source_request wanted;	/* what is recorded, and of which processes */
	TAILQ_HEAD(, program) list;
	unsigned count;
	bool leaving;			/* the daemon is */
	uint64_t turn;			/* one for each table */
	unsigned known;
	struct known_probe probe[PROGRAM_PROBES_MAX];
};

/* ---- Numbers ------------------------------------------------------------------------------------- */

/* One user may have so many of `all`, of which others have `others`: whoever comes next finds a part yet. */
static unsigned share(uint32_t uid, unsigned all, unsigned others)
{
	return uid ? (all - others) / PROGRAMS_SHARE : all - others;
}

static unsigned probes_of(const struct programs *programs, uint32_t uid)
{
	unsigned probes = 0;

	for (unsigned i = 0; i < programs->known; i++)
		probes += programs->probe[i].uid == uid;
	return probes;
}

/* How many numbers a user's programs may have yet. */
static unsigned numbers_left(const struct programs *programs, uint32_t uid)
{
	unsigned mine = probes_of(programs, uid), most = share(uid, PROGRAM_PROBES_MAX, programs->known - mine);

	return most > mine ? most - mine : 0;
}

/* What a probe is known by. NULL: no memory. */
static uint8_t *pack_identity(const Ringtail__V1__Probe *message, size_t *bytes)
{
	Ringtail__V1__Probe plain = *message;
	uint8_t *packed;

	plain.source = (char *)protobuf_c_empty_string;
	*bytes = ringtail__v1__probe__get_packed_size(&plain);
	packed = malloc(*bytes + 1);
	if (packed)
		ringtail__v1__probe__pack(&plain, packed);
	return packed;
}

static bool is_shown(const struct program *program)
{
	return program->hello.flags & RT_PROGRAM_SHOWN;
}

/* The number of such a probe that this program's table does not have yet; 0: there is none. */
static uint16_t find(struct programs *programs, const struct program *program, const uint8_t *packed, size_t bytes)
{
	for (unsigned i = 0; i < programs->known; i++) {
		struct known_probe *known = &programs->probe[i];

		if (known->turn == programs->turn || known->uid != program->peer.uid ||
		    known->shown != is_shown(program) || known->bytes != bytes ||
		    memcmp(known->packed, packed, bytes) != 0)
			continue;
		known->turn = programs->turn;
		return (uint16_t)(RT_PROBE_PROGRAM + i);
	}
	return 0;
}

/* Lists show it. Where there is no memory for it, they show the place that it had. */
static void note_source(struct known_probe *known, const char *source)
{
	char *copy = known->source && strcmp(known->source, source) == 0 ? NULL : strdup(source);

	if (!copy)
		return;
	free(known->source);
	known->source = copy;
}

static void record_awaited(struct programs *programs, uint16_t id)
{
	const uint8_t bit = (uint8_t)(1u << (id % 8));

	programs->wanted.probes[id / 8] |= bit;
	programs->wanted.unfiltered[id / 8] |= bit;
}

/* A new one, for which there is a number. Takes `message` over; `packed` where it succeeds. 0: there is no memory. */
static uint16_t join(struct programs *programs, const struct program *program, Ringtail__V1__Probe *message,
		     uint8_t *packed, size_t bytes)
{
	uint16_t id = (uint16_t)(RT_PROBE_PROGRAM + programs->known);
	uint32_t words = (uint32_t)message->n_field - 1;	/* the last one is the CPU */

	message->id = id;
	if (!programs->config.join(programs->config.context, message))
		return 0;
	if (programs->config.is_awaited && programs->config.is_awaited(programs->config.context, message))
		record_awaited(programs, id);
	programs->probe[programs->known++] = (struct known_probe){
		.uid = program->peer.uid, .shown = is_shown(program), .bytes = bytes, .packed = packed, .words = words,
		.turn = programs->turn,
	};
	return id;
}

/* 0: it is not known, and `may_join` forbids that it joins; or there is no memory. */
static uint16_t number(const struct program *program, const struct program_probe *probe, bool may_join)
{
	struct programs *programs = program->programs;
	Ringtail__V1__Probe *message = program_probe_message(probe);
	size_t bytes = 0;
	uint8_t *packed = message ? pack_identity(message, &bytes) : NULL;
	char *source = message ? strdup(message->source) : NULL;
	uint16_t id = packed && source ? find(programs, program, packed, bytes) : 0;

	if (!id && packed && source && may_join) {
		id = join(programs, program, message, packed, bytes);
		packed = id ? NULL : packed;
		message = NULL;
	}
	if (id)
		note_source(&programs->probe[id - RT_PROBE_PROGRAM], source);
	free(source);
	free(packed);
	if (message)
		ringtail__v1__probe__free_unpacked(message, NULL);
	return id;
}

/* Of all of them, before one joins the catalog. */
static int check_providers(const struct program *program, const struct program_probe *probe, struct error *error)
{
	const struct programs_config *config = &program->programs->config;

	for (uint32_t i = 0; i < program->hello.probes; i++)
		if (config->is_taken(config->context, probe[i].provider))
			return error_set(error, EPERM, "program-provider",
					 "its provider `%s` is a name of the kernel's probes; call it otherwise",
					 probe[i].provider);
	return 0;
}

/* All, or none of them joins the catalog. */
static int number_all(struct program *program, const struct program_probe *probe, struct error *error)
{
	struct programs *programs = program->programs;
	uint32_t uid = program->peer.uid, fresh = 0;

	programs->turn++;
	for (uint32_t i = 0; i < program->hello.probes; i++) {
		program->id[i] = number(program, &probe[i], false);
		fresh += !program->id[i];
	}
	if (fresh > numbers_left(programs, uid)) {
		error_set(error, ENOSPC, "too-many-probes",
			  "%u of its %u probes are new, and the programs of user %u have %u numbers left, of %u for all"
			  " users", fresh, program->hello.probes, uid, numbers_left(programs, uid), PROGRAM_PROBES_MAX);
		error_hint(error, "a probe whose name, format and arguments stay keeps its number; a restart of ringtaild"
				  " gives all numbers back");
		return -ENOSPC;
	}
	for (uint32_t i = 0; i < program->hello.probes; i++) {
		if (!program->id[i])
			program->id[i] = number(program, &probe[i], true);
		if (!program->id[i])
			return error_set(error, ENOMEM, "out-of-memory", "no memory for its probes");
		program->probes++;
	}
	return 0;
}

/* What it calls itself, as it can be shown; `comm` is all zero. */
static void copy_comm(const struct program *program, char comm[RT_PROGRAM_COMM_BYTES])
{
	for (unsigned i = 0; i < RT_PROGRAM_COMM_BYTES - 1 && program->hello.comm[i]; i++)
		comm[i] = isprint((unsigned char)program->hello.comm[i]) ? program->hello.comm[i] : '?';
}

/* ---- Recording ----------------------------------------------------------------------------------- */

static bool has(const uint8_t bits[RT_PROBE_MAX / 8], uint16_t id)
{
	return bits[id / 8] >> (id % 8) & 1;
}

static bool holds(uint8_t op, uint32_t wanted, uint32_t is)
{
	return op == RT_FILTER_ANY || (op == RT_FILTER_EQ) == (wanted == is);
}

/* Whether an event of that process may pass: what else the clauses ask, each event is asked when it is read. */
static bool is_process_wanted(const struct source_request *wanted, const struct ucred *peer)
{
	for (uint32_t i = 0; i < wanted->clauses; i++) {
		const struct rt_filter_clause *clause = &wanted->clause[i];

		if (holds(clause->pid_op, clause->pid, (uint32_t)peer->pid) &&
		    holds(clause->uid_op, clause->uid, peer->uid))
			return true;
	}
	return !wanted->clauses;
}

static bool is_recorded(const struct program *program, uint16_t id)
{
	const struct source_request *wanted = &program->programs->wanted;

	return has(wanted->probes, id) &&
	       (has(wanted->unfiltered, id) || is_process_wanted(wanted, &program->peer));
}

/* What its word says, as rt_program_segment.enabled has it; the tests of the probe go to `tests`. */
static uint32_t enabled_word(const struct program *program, uint16_t id, struct probe_filter *tests)
{
	const struct probe_filter *filter = program->programs->probe[id - RT_PROBE_PROGRAM].filter;
	uint8_t first = RT_PROGRAM_PASS;

	if (!is_recorded(program, id))
		return 0;
	if (filter)
		first = probe_filter_settle(filter, (uint32_t)program->peer.pid, program->peer.uid, tests);
	if (first == RT_PROGRAM_FAIL)
		return 0;
	return first == RT_PROGRAM_PASS ? 1 : RT_PROGRAM_NARROWED + first;
}

static bool enable(struct program *program)
{
	uint32_t word[RT_PROGRAM_PROBES_MAX];
	struct probe_filter tests;
	bool any = false;

	probe_filter_init(&tests);
	for (uint32_t i = 0; i < program->probes; i++) {
		word[i] = enabled_word(program, program->id[i], &tests);
		any |= word[i] != 0;
	}
	if (any)
		program_inlet_use(program->admitted, true);
	program_segment_narrow(&program->segment, word, tests.test, tests.tests);
	if (!any)
		program_inlet_use(program->admitted, false);
	return any;
}

/* A worker that is idle looks once a second; the bell makes it look now. */
static void wake_worker(const struct programs *programs)
{
	struct ring_handle ring;
	uint64_t one = 1;
	ssize_t n;

	ring_writer_describe(programs->writer, &ring);
	n = write(ring.bell_fd, &one, sizeof(one));
	(void)n;	/* it fails only where it has rung and was not answered */
}

static void enable_all(struct programs *programs)
{
	struct program *program;
	bool any = false;

	TAILQ_FOREACH(program, &programs->list, link)
		if (program->admitted)
			any |= enable(program);
	program_inlet_want(programs->inlet, any);
	if (any)
		wake_worker(programs);
}

/* Where there is no memory, or nothing to ask, each event is written. */
static void make_filter(struct programs *programs, unsigned i, programs_narrow *narrow, void *context)
{
	struct known_probe *known = &programs->probe[i];
	uint16_t id = (uint16_t)(RT_PROBE_PROGRAM + i);
	struct probe_filter made;

	free(known->filter);
	known->filter = NULL;
	if (!narrow || !has(programs->wanted.probes, id))
		return;
	probe_filter_init(&made);
	narrow(context, id, known->words, &made);
	if (made.first == RT_PROGRAM_PASS)
		return;
	known->filter = malloc(sizeof(made));
	if (known->filter)
		*known->filter = made;
}

void programs_configure(struct programs *programs, const struct source_request *wanted, programs_narrow *narrow,
			void *context)
{
	programs->wanted = *wanted;
	for (unsigned i = 0; i < programs->known; i++)
		make_filter(programs, i, narrow, context);
	enable_all(programs);
}

void programs_each(const struct programs *programs, programs_each_probe *each, void *context)
{
	const struct program *program;

	TAILQ_FOREACH(program, &programs->list, link) {
		struct programs_process process = {.pid = (uint32_t)program->peer.pid, .uid = program->peer.uid};
		struct probe_filter tests;

		if (!program->admitted)
			continue;
		copy_comm(program, process.comm);
		for (uint32_t i = 0; i < program->probes; i++) {
			probe_filter_init(&tests);
			process.enabled = enabled_word(program, program->id[i], &tests);
			each(context, program->id[i], &process);
		}
	}
}

bool programs_is_own(const struct programs *programs, uint32_t uid, uint32_t id)
{
	uint32_t i = id - RT_PROBE_PROGRAM;

	return i < programs->known && programs->probe[i].shown && programs->probe[i].uid == uid;
}

const char *programs_source(const struct programs *programs, uint32_t id)
{
	uint32_t i = id - RT_PROBE_PROGRAM;

	return i < programs->known ? programs->probe[i].source : NULL;
}

/* ---- Connections --------------------------------------------------------------------------------- */

static void forget(struct program *program)
{
	TAILQ_REMOVE(&program->programs->list, program, link);
	program->programs->count--;
	free(program);
}

/* Those that have ended, and of which nothing is left. */
static void forget_gone(struct programs *programs)
{
	struct program *program, *next;

	for (program = TAILQ_FIRST(&programs->list); program; program = next) {
		next = TAILQ_NEXT(program, link);
		if (program->ended && atomic_load(&program->gone))
			forget(program);
	}
}

/* Nobody will read what it writes from now on, whether it is there or not. */
static void end_admitted(struct program *program)
{
	for (uint32_t i = 0; i < program->probes; i++)
		program_segment_enable(&program->segment, i, false);
	if (program->programs->leaving && program->hello.flags & RT_PROGRAM_RETURNS)
		program_segment_leave(&program->segment);
	program_inlet_end(program->programs->inlet, program->admitted);
	program->admitted = NULL;
	wake_worker(program->programs);
}

static void end(struct program *program)
{
	bool was_admitted = program->admitted;

	turnstile_leave(program->programs->turnstile, &program->place);
	if (program->event)
		event_free(program->event);
	close(program->fd);
	free(program->table);
	program->table = NULL;
	program->ended = true;
	if (was_admitted)
		end_admitted(program);
	else
		forget(program);
}

static void refuse(struct program *program, const struct error *error)
{
	const struct rt_program_welcome welcome = {
		.magic = RT_PROGRAM_MAGIC, .version = RT_PROGRAM_VERSION, .err = -EPERM,
	};

	counter_add(COUNTER_programs_refused, 1);
	log_warn("program-refused", "process %d of user %u cannot be traced by its probes: %s%s%s", program->peer.pid,
		 program->peer.uid, error->what, error->hint[0] ? "; " : "", error->hint);
	descriptor_send(program->fd, &welcome, sizeof(welcome), NULL, 0);
	end(program);
}

static struct inlet_config *describe(struct program *program, const struct program_probe *probe)
{
	struct inlet_config *config = calloc(1, sizeof(*config) + program->probes * sizeof(config->probe[0]));

	if (!config)
		return NULL;
	config->pid = (uint32_t)program->peer.pid;
	config->uid = program->peer.uid;
	config->same_pids = program->hello.pid == config->pid;
	copy_comm(program, config->comm);
	config->segment = program->segment;
	config->segment.fd = -1;	/* that one stays here */
	config->gone = &program->gone;
	config->probes = program->probes;
	for (uint32_t i = 0; i < program->probes; i++) {
		config->probe[i].id = program->id[i];
		config->probe[i].words = (uint8_t)program_probe_words(&probe[i]);
		if (probe[i].sort == RT_PROGRAM_SPAN_BEGIN)
			config->probe[i].scope = RT_PROGRAM_BEGIN_WORDS - 1;
		for (uint32_t arg = 0; arg < probe[i].args; arg++)
			config->probe[i].unit[program_probe_words_before(probe[i].sort) + arg] =
				(uint8_t)program_probe_attached(&probe[i], arg);
	}
	return config;
}

static void send_segment(struct program *program)
{
	const struct rt_program_welcome welcome = {
		.magic = RT_PROGRAM_MAGIC, .version = RT_PROGRAM_VERSION, .bytes = program->segment.bytes,
	};

	descriptor_send(program->fd, &welcome, sizeof(welcome), &program->segment.fd, 1);
}

/* Its memory, which is enabled before the program has it. */
static int welcome(struct program *program, const struct program_probe *probe, struct error *error)
{
	struct programs *programs = program->programs;
	struct inlet_config *config;
	int err = program_segment_create(&program->segment, programs->cpus, programs->config.ring_bytes, program->hello.rseq,
					 program->probes);

	if (err)
		return error_set(error, -err, "program-memory", "no memory for its rings: %s", strerror(-err));
	program_segment_count(&program->segment, programs->config.counter);
	config = describe(program, probe);
	program->admitted = config ? program_inlet_add(programs->inlet, config) : NULL;
	if (!program->admitted) {
		free(config);
		program_segment_destroy(&program->segment);
		return error_set(error, ENOMEM, "out-of-memory", "out of memory");
	}
	if (enable(program)) {
		program_inlet_want(programs->inlet, true);
		wake_worker(programs);
	}
	counter_add(COUNTER_programs_attached, 1);
	/* Where that fails, the program has ended, or ends the connection when it has waited: it is no other end. */
	send_segment(program);
	program_segment_close_fd(&program->segment);
	return 0;
}

/* Its turn has come: tables of many programs are work that the loop does not do in one go. */
static void take_table(void *context)
{
	struct program *program = context;
	struct program_probe *probe = calloc(program->hello.probes, sizeof(*probe));
	struct error error = {0};
	int err = probe ? 0 : error_set(&error, ENOMEM, "out-of-memory", "out of memory");

	if (!err)
		err = program_table_parse(&program->hello, program->table, probe, &error);
	if (!err)
		err = check_providers(program, probe, &error);
	if (!err)
		err = number_all(program, probe, &error);
	if (!err)
		err = welcome(program, probe, &error);
	free(probe);
	free(program->table);
	program->table = NULL;
	if (err)
		refuse(program, &error);
	else
		event_add(program->event, NULL);
}

/* Of tables that are on their way: one user's leave memory for those of others. */
static bool has_table_room(const struct programs *programs, const struct program *mine)
{
	uint64_t all = mine->hello.bytes, same = mine->hello.bytes;
	const struct program *program;

	TAILQ_FOREACH(program, &programs->list, link) {
		all += program->table ? program->hello.bytes : 0;
		same += program->table && program->peer.uid == mine->peer.uid ? program->hello.bytes : 0;
	}
	return all <= PROGRAM_TABLES_BYTES_MAX &&
	       (!mine->peer.uid || same <= PROGRAM_TABLES_BYTES_MAX / PROGRAM_TABLES_SHARE);
}

enum read_more {
	READ_SOME,
	READ_NOTHING,			/* is there yet */
	READ_END,			/* `program` is gone */
};

/* The hello, then the table. */
static enum read_more read_more(struct program *program)
{
	bool in_hello = program->got < sizeof(program->hello);
	size_t at = in_hello ? program->got : program->got - sizeof(program->hello);
	uint8_t *to = in_hello ? (uint8_t *)&program->hello : program->table;
	size_t bytes = in_hello ? sizeof(program->hello) : program->hello.bytes;
	ssize_t got = recv(program->fd, to + at, bytes - at, MSG_DONTWAIT);
	struct error error;

	if (got < 0 && (errno == EAGAIN || errno == EINTR))
		return READ_NOTHING;
	if (got <= 0) {
		end(program);
		return READ_END;
	}
	program->got += (size_t)got;
	if (program->got != sizeof(program->hello))
		return READ_SOME;
	if (program_hello_check(&program->hello, &error) == 0) {
		if (has_table_room(program->programs, program))
			program->table = malloc(program->hello.bytes + 1);
		if (program->table)
			return READ_SOME;
		error_set(&error, ENOMEM, "out-of-memory", "out of memory");
	}
	refuse(program, &error);
	return READ_END;
}

/* What is left of one deadline: a byte now and then does not move it. */
static void wait_for_more(struct program *program)
{
	uint64_t now = clock_monotonic(), left = program->until_ns > now ? program->until_ns - now : 1000;
	struct timeval patience = {.tv_sec = (time_t)(left / NS_PER_S),
				   .tv_usec = (suseconds_t)(left % NS_PER_S / 1000)};

	if (event_add(program->event, &patience) != 0)
		end(program);
}

/* One that is attached says nothing more: its end of the connection is the end of the program. */
static void on_readable(evutil_socket_t fd, short what, void *context)
{
	struct program *program = context;

	(void)fd;
	if (program->admitted || what & EV_TIMEOUT) {
		end(program);
		return;
	}
	while (program->got < sizeof(program->hello) || program->got < sizeof(program->hello) + program->hello.bytes)
		switch (read_more(program)) {
		case READ_SOME:
			break;
		case READ_NOTHING:
			wait_for_more(program);
			return;
		case READ_END:
			return;
		}
	event_del(program->event);
	turnstile_join(program->programs->turnstile, &program->place);
}

/* ---- Accepting ----------------------------------------------------------------------------------- */

static unsigned programs_of(const struct programs *programs, uid_t uid)
{
	const struct program *program;
	unsigned count = 0;

	TAILQ_FOREACH(program, &programs->list, link)
		count += program->peer.uid == uid;
	return count;
}

/* One user's programs leave room for those of others. */
static bool has_room(const struct programs *programs, uid_t uid)
{
	unsigned mine = programs_of(programs, uid);

	return mine < share(uid, PROGRAMS_MAX, programs->count - mine);
}

void programs_accept(void *context, int fd, const struct address *address, const char *peer)
{
	struct programs *programs = context;
	struct ucred credentials = {0};
	socklen_t bytes = sizeof(credentials);
	struct program *program;

	(void)address, (void)peer;
	forget_gone(programs);
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &bytes) != 0 ||
	    !has_room(programs, credentials.uid)) {
		counter_add(COUNTER_programs_refused, 1);
		log_warn("too-many-programs", "process %d of user %u is not connected: that user has %u programs with"
			 " probes, and all users have %u of at most %u", credentials.pid, credentials.uid,
			 programs_of(programs, credentials.uid), programs->count, PROGRAMS_MAX);
		close(fd);
		return;
	}
	program = calloc(1, sizeof(*program));
	if (!program) {
		close(fd);
		return;
	}
	program->programs = programs;
	program->fd = fd;
	program->peer = credentials;
	program->place = (struct turnstile_place){.go = take_table, .context = program};
	TAILQ_INSERT_TAIL(&programs->list, program, link);
	programs->count++;
	program->event = event_new(programs->base, fd, EV_READ | EV_PERSIST, on_readable, program);
	program->until_ns = clock_monotonic() + PROGRAM_HELLO_S_MAX * NS_PER_S;
	if (program->event)
		wait_for_more(program);
	else
		end(program);
}

/* ---- Life ---------------------------------------------------------------------------------------- */

int programs_create(const struct programs_config *config, struct programs **out, struct error *error)
{
	struct ring_writer_config writer = {
		.cpu = config->cpu, .ring_bytes = PROGRAM_ALL_RING_BYTES, .policy = RT_POLICY_DROP,
	};
	struct programs *programs = calloc(1, sizeof(*programs));
	int err;

	if (!programs)
		return error_set(error, ENOMEM, "out-of-memory", "out of memory");
	programs->config = *config;
	programs->cpus = config->cpu;
	TAILQ_INIT(&programs->list);
	err = ring_writer_create(&writer, &programs->writer, error);
	if (!err) {
		programs->inlet = program_inlet_create(programs->writer);
		err = programs->inlet ? 0 : error_set(error, ENOMEM, "out-of-memory", "out of memory");
	}
	if (err) {
		programs_destroy(programs);
		return err;
	}
	*out = programs;
	return 0;
}

void programs_destroy(struct programs *programs)
{
	struct program *program, *next;

	if (!programs)
		return;
	programs->leaving = true;
	for (program = TAILQ_FIRST(&programs->list); program; program = next) {
		next = TAILQ_NEXT(program, link);
		if (!program->ended)
			end(program);
	}
	program_inlet_destroy(programs->inlet);
	while (!TAILQ_EMPTY(&programs->list))
		forget(TAILQ_FIRST(&programs->list));
	ring_writer_destroy(programs->writer);
	for (unsigned i = 0; i < programs->known; i++)
		free(programs->probe[i].packed);
	for (unsigned i = 0; i < programs->known; i++)
		free(programs->probe[i].filter);
	for (unsigned i = 0; i < programs->known; i++)
		free(programs->probe[i].source);
	free(programs);
}

void programs_start(struct programs *programs, struct event_base *base, struct turnstile *turnstile)
{
	programs->base = base;
	programs->turnstile = turnstile;
}

void programs_describe(const struct programs *programs, struct ring_handle *ring)
{
	ring_writer_describe(programs->writer, ring);
}

void programs_pull(void *context, uint64_t until_ns, struct inlet_pulled *pulled)
{
	struct programs *programs = context;

	program_inlet_pull(programs->inlet, until_ns, pulled);
}
