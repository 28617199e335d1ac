/*
 * write_ctf: items in, a directory of Common Trace Format 1.8 out, which babeltrace2 and Trace Compass open.
 *
 *	OUTPUT/run-1/metadata	TSDL: clock, contexts, a class of events for each shape of a probe
 *	OUTPUT/run-1/cpu-0	packets: header, context, events
 *
 * A run of the daemon is a trace, a CPU is a stream. Losses are told by CTF's own means, the counter
 * events_discarded of a packet's context: an empty packet stands where they were; and by an event
 * ringtail:loss, which says why. Times of a stream must not go back: an event that came late has the
 * time of the one before it, and in late_ns how much earlier it was.
 *
 * Written here and not by libbabeltrace2, whose writer needs a graph of components around each event and
 * would bring glib to every start of tracectl.
 */
#include "client/cli/sink.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/cli/shape_set.h"
#include "client/cli/stack_names.h"
#include "client/cli/text_value.h"
#include "client/lib/failure.h"
#include "query/visible.h"

#define PACKET_BYTES	(64u << 10)
#define EVENT_BYTES_MAX	(24u << 10)	/* a packet with less room is written before the next event */
#define HEADER_BYTES	(4 + 4)
#define CONTEXT_BYTES	(7 * 8)
#define MAGIC		0xc1fc1fc1u
#define LOSS_ID		0u		/* of shapes, the first is 1 */
#define NAME_BYTES	64u
#define RUNS_MAX	1000u

struct stream {
	uint64_t begin_ns, end_ns;	/* of the packet */
	uint64_t last_ns;		/* of the stream */
	uint64_t packets, discarded;
	bool begun, owes_packet;	/* owes: of a loss, which ends where the next event is */
	size_t used;
	uint8_t bytes[PACKET_BYTES];
};

struct sink {
	struct out *out;
	const struct ringtail_host *host;
	bool shows_maps;
	struct stack_names *names;
	struct shape_set *shapes;
	int directory, run_directory;
	unsigned run;
	uint8_t boot_id[16];
	uint64_t epoch, offset_ns;
	struct ringtail_host *of_run;	/* as it was when the run began */
	struct stream **stream;		/* [streams], by CPU */
	uint32_t streams;
	char *failed;
};

/* ---- Packets --------------------------------------------------------------------------------- */

static void put(struct stream *stream, const void *bytes, size_t n)
{
	memcpy(stream->bytes + stream->used, bytes, n);
	stream->used += n;
}

static void put_u32(struct stream *stream, uint32_t value)
{
	value = htole32(value);
	put(stream, &value, sizeof(value));
}

static void put_u64(struct stream *stream, uint64_t value)
{
	value = htole64(value);
	put(stream, &value, sizeof(value));
}

/* What is hidden as '?': so it is UTF-8, and has no NUL. */
static void put_string(struct stream *stream, const void *text, size_t n)
{
	stream->used += visible_copy((char *)stream->bytes + stream->used, n + 1, text, n) + 1;
}

static void begin_packet(struct stream *stream, uint64_t time_ns)
{
	stream->begin_ns = stream->end_ns = time_ns;
	stream->used = HEADER_BYTES + CONTEXT_BYTES;
	stream->begun = true;
}

/* Header and context, now that they are known. */
static void fill_front(struct stream *stream, uint32_t cpu)
{
	size_t bytes = stream->used;

	stream->used = 0;
	put_u32(stream, MAGIC);
	put_u32(stream, 0);
	put_u64(stream, stream->begin_ns);
	put_u64(stream, stream->end_ns);
	put_u64(stream, bytes * 8);
	put_u64(stream, bytes * 8);
	put_u64(stream, stream->packets++);
	put_u64(stream, stream->discarded);
	put_u64(stream, cpu);
	stream->used = bytes;
}

static void write_file(struct sink *sink, const char *name, const void *bytes, size_t n)
{
	int fd = openat(sink->run_directory, name,
			O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
	const char *at = bytes;

	if (fd < 0 && !sink->out->error)
		sink->out->error = errno;
	while (n && fd >= 0 && !sink->out->error) {
		ssize_t done = write(fd, at, n);

		if (done < 0 && errno != EINTR)
			sink->out->error = errno;
		if (done > 0) {
			at += done;
			n -= (size_t)done;
		}
	}
	if (fd >= 0 && close(fd) && !sink->out->error)
		sink->out->error = errno;
}

static void end_packet(struct sink *sink, struct stream *stream, uint32_t cpu)
{
	char name[32];

	if (!stream->begun)
		return;
	fill_front(stream, cpu);
	snprintf(name, sizeof(name), "cpu-%u", cpu);
	write_file(sink, name, stream->bytes, stream->used);
	stream->begun = false;
}

/* What was lost before this time: the counter rises from one empty packet to the next. */
static void put_discarded(struct sink *sink, struct stream *stream, uint32_t cpu, uint64_t time_ns)
{
	if (!stream->owes_packet)
		return;
	stream->owes_packet = false;
	begin_packet(stream, time_ns);
	end_packet(sink, stream, cpu);
}

static struct stream *stream_of(struct sink *sink, uint32_t cpu)
{
	struct stream **more;

	if (cpu >= sink->streams) {
		more = realloc(sink->stream, (cpu + (size_t)1) * sizeof(*more));
		if (!more)
			return NULL;
		memset(more + sink->streams, 0, (cpu + (size_t)1 - sink->streams) * sizeof(*more));
		sink->stream = more;
		sink->streams = cpu + 1;
	}
	if (!sink->stream[cpu])
		sink->stream[cpu] = calloc(1, sizeof(struct stream));
	return sink->stream[cpu];
}

/* Room for one event at that time, in a packet of the stream. The time that it may have. */
static uint64_t make_room(struct sink *sink, struct stream *stream, uint32_t cpu, uint64_t time_ns)
{
	if (time_ns < stream->last_ns)
		time_ns = stream->last_ns;
	/* The first is empty: readers count what is discarded between two packets. */
	if (!stream->packets && !stream->begun) {
		begin_packet(stream, time_ns);
		end_packet(sink, stream, cpu);
	}
	if (stream->owes_packet || stream->used > PACKET_BYTES - EVENT_BYTES_MAX)
		end_packet(sink, stream, cpu);
	put_discarded(sink, stream, cpu, time_ns);
	if (!stream->begun)
		begin_packet(stream, time_ns);
	stream->last_ns = stream->end_ns = time_ns;
	return time_ns;
}

/* ---- Events ---------------------------------------------------------------------------------- */

static void put_stack(struct sink *sink, struct stream *stream, const struct ringtail_item *event,
		      enum ringtail_attachment_kind kind)
{
	size_t count = stream->used;
	uint32_t frames = 0;

	put_u32(stream, 0);
	for (size_t a = 0; a < event->attachments && !frames; a++) {
		const struct ringtail_attachment *stack = &event->attachment[a];

		if (stack->kind != kind)
			continue;
		for (size_t i = stack_names_own(sink->names, event, stack);
		     i < stack->frames && frames < STACK_FRAMES_MAX; i++, frames++)
			put_u64(stream, stack->frame[i]);
	}
	frames = htole32(frames);
	memcpy(stream->bytes + count, &frames, sizeof(frames));
}

static void put_head(struct sink *sink, struct stream *stream, const struct ringtail_item *item, uint32_t id)
{
	uint64_t time_ns = make_room(sink, stream, item->cpu, item->time_ns);

	put_u32(stream, id);
	put_u64(stream, time_ns);
	put_u64(stream, item->seq);
	put_u64(stream, item->time_ns ? time_ns - item->time_ns : 0);
}

/* The text that is attached to a field; NULL: there is none. */
static const struct ringtail_attachment *text_of(const struct ringtail_item *event, unsigned field)
{
	for (size_t i = 0; i < event->attachments; i++)
		if (event->attachment[i].kind == RINGTAIL_ATTACHED_STRING &&
		    event->attachment[i].field == field)
			return &event->attachment[i];
	return NULL;
}

static void put_field(struct stream *stream, const struct ringtail_item *event, unsigned i)
{
	const struct ringtail_field *field = &event->probe->field[i];
	const struct ringtail_attachment *text;
	static struct out shown;
	const uint8_t *bytes;
	size_t n;

	switch (field->type) {
	case RINGTAIL_MORE:
		return;
	case RINGTAIL_TEXT:
		bytes = ringtail_bytes(event, i, &n, NULL);
		put_string(stream, bytes ? bytes : (const uint8_t *)"", bytes ? n : 0);
		return;
	case RINGTAIL_BYTES:
		out_init(&shown, -1);
		text_value(&shown, event, i);
		put_string(stream, shown.buffer, shown.used < 768 ? shown.used : 768);
		return;
	case RINGTAIL_STRING:
		text = text_of(event, i);
		put_u64(stream, ringtail_value(field, event->value[i]));
		put_string(stream, text ? text->text : (const uint8_t *)"", text ? text->text_bytes : 0);
		return;
	default:
		put_u64(stream, ringtail_value(field, event->value[i]));
	}
}

static void put_event(struct sink *sink, struct stream *stream, const struct ringtail_item *event)
{
	const struct shape *shape = shape_set_find(sink->shapes, event->probe);

	if (!shape) {
		sink->out->error = ENOMEM;
		return;
	}
	put_head(sink, stream, event, shape->id);
	put_u32(stream, event->thread.pid);
	put_u32(stream, event->thread.tid);
	put_string(stream, event->thread.comm, out_comm_bytes(event->thread.comm));
	put_stack(sink, stream, event, RINGTAIL_ATTACHED_KSTACK);
	put_stack(sink, stream, event, RINGTAIL_ATTACHED_USTACK);
	for (unsigned i = 0; i < shape->fields; i++)
		put_field(stream, event, i);
}

static void put_loss(struct sink *sink, struct stream *stream, const struct ringtail_item *item)
{
	uint64_t lost = item->kind == RINGTAIL_GAP && item->events ? item->events : item->count;
	const char *stage = ringtail_stage_name(item->stage), *reason = ringtail_reason_name(item->reason);

	put_head(sink, stream, item, LOSS_ID);
	put_u32(stream, 0);
	put_u32(stream, 0);
	put_string(stream, "", 0);
	put_u32(stream, 0);
	put_u32(stream, 0);
	put_u64(stream, item->count);
	put_u64(stream, lost);
	put_string(stream, stage, strlen(stage));
	put_string(stream, reason, strlen(reason));
	end_packet(sink, stream, item->cpu);
	stream->discarded += lost;
	stream->owes_packet = true;
}

/* ---- Metadata -------------------------------------------------------------------------------- */

static const char types[] =
	"/* CTF 1.8 */\n"
	"typealias integer { size = 32; align = 8; signed = false; } := u32;\n"
	"typealias integer { size = 64; align = 8; signed = false; } := u64;\n"
	"typealias integer { size = 64; align = 8; signed = true; } := s64;\n"
	"typealias integer { size = 64; align = 8; signed = false; base = 16; } := x64;\n"
	"typealias integer { size = 64; align = 8; signed = false; map = clock.monotonic.value; } := t64;\n"
	"trace {\n\tmajor = 1;\n\tminor = 8;\n\tbyte_order = le;\n"
	"\tpacket.header := struct { u32 magic; u32 stream_id; };\n};\n";

static const char stream_class[] =
	"stream {\n\tid = 0;\n"
	"\tpacket.context := struct {\n\t\tt64 timestamp_begin; t64 timestamp_end; u64 content_size;\n"
	"\t\tu64 packet_size; u64 packet_seq_num; u64 events_discarded; u64 cpu_id;\n\t};\n"
	"\tevent.header := struct { u32 id; t64 timestamp; };\n"
	"\tevent.context := struct {\n\t\tu64 _seq; u64 _late_ns; u32 _pid; u32 _tid; string _procname;\n"
	"\t\tu32 _callstack_kernel_length; x64 _callstack_kernel[_callstack_kernel_length];\n"
	"\t\tu32 _callstack_user_length; x64 _callstack_user[_callstack_user_length];\n\t};\n};\n"
	"event {\n\tid = 0;\n\tname = \"ringtail:loss\";\n\tstream_id = 0;\n"
	"\tfields := struct { u64 _attempts; u64 _lost; string _stage; string _reason; };\n};\n";

/* In quotes: from elsewhere, so what is hidden is shown as '?', and quotes are escaped. */
static void put_quoted(FILE *to, const char *text)
{
	char shown[512];

	visible_copy(shown, sizeof(shown), text, strlen(text));
	fputc('"', to);
	for (const char *at = shown; *at; at++) {
		if (*at == '"' || *at == '\\')
			fputc('\\', to);
		fputc(*at, to);
	}
	fputc('"', to);
}

static void put_variable(FILE *to, const char *name, const char *text)
{
	fprintf(to, "\t%s = ", name);
	put_quoted(to, text);
	fprintf(to, ";\n");
}

static void put_environment(FILE *to, const struct sink *sink)
{
	const struct ringtail_host *host = sink->of_run;

	fprintf(to, "env {\n");
	put_variable(to, "hostname", host->hostname);
	put_variable(to, "sysname", "Linux");
	put_variable(to, "kernel_release", host->kernel);
	put_variable(to, "machine", host->machine);
	put_variable(to, "tracer_name", "ringtail");
	put_variable(to, "software", host->software);
	if (sink->failed)
		put_variable(to, "recording_damaged", sink->failed);
	fprintf(to, "};\nclock {\n\tname = monotonic;\n\tfreq = 1000000000;\n\toffset_s = %llu;\n"
		"\toffset = %llu;\n\tabsolute = TRUE;\n};\n",
		(unsigned long long)(sink->offset_ns / 1000000000u),
		(unsigned long long)(sink->offset_ns % 1000000000u));
}

/* After an underscore, which keeps it apart from the words of TSDL; what is no letter or digit is one too. */
static void make_name(char name[][NAME_BYTES], unsigned names, const char *from, const char *suffix)
{
	char *to = name[names];
	unsigned n = 0;

	to[n++] = '_';
	for (; *from && n < NAME_BYTES - 16; from++) {
		bool plain = (*from >= 'a' && *from <= 'z') || (*from >= 'A' && *from <= 'Z') ||
			     (*from >= '0' && *from <= '9');

		to[n++] = plain ? *from : '_';
	}
	n += (unsigned)snprintf(to + n, NAME_BYTES - n, "%s", suffix);
	for (unsigned i = 0, k = 2; i < names; i++)
		if (!strcmp(name[i], to)) {
			snprintf(to + n, NAME_BYTES - n, "_%u", k++);
			i = UINT32_MAX;		/* from the first again */
		}
}

static const char *type_of(enum ringtail_type type)
{
	switch (type) {
	case RINGTAIL_SIGNED:
	case RINGTAIL_RESULT:
	case RINGTAIL_FD:
		return "s64";
	case RINGTAIL_HEX:
	case RINGTAIL_STRING:
		return "x64";
	case RINGTAIL_TEXT:
	case RINGTAIL_BYTES:
		return "string";
	default:
		return "u64";
	}
}

static void put_class(FILE *to, const struct shape *shape)
{
	char name[2 * PROBE_FIELDS_MAX][NAME_BYTES];
	unsigned names = 0;

	fprintf(to, "event {\n\tid = %u;\n\tname = ", shape->id);
	put_quoted(to, shape->spec);
	fprintf(to, ";\n\tstream_id = 0;\n\tfields := struct {\n");
	for (unsigned i = 0; i < shape->fields; i++) {
		if (shape->type[i] == RINGTAIL_MORE)
			continue;
		make_name(name, names++, shape->type[i] == RINGTAIL_DURATION && !i ? "duration" :
			  shape->type[i] == RINGTAIL_RESULT && i < 2 ? "ret" : shape->field[i], "");
		fprintf(to, "\t\t%s %s;\n", type_of(shape->type[i]), name[names - 1]);
		if (shape->type[i] != RINGTAIL_STRING)
			continue;
		make_name(name, names++, shape->field[i], "_text");
		fprintf(to, "\t\tstring %s;\n", name[names - 1]);
	}
	fprintf(to, "\t};\n};\n");
}

static void write_metadata(struct sink *sink)
{
	char *text = NULL;
	size_t bytes = 0;
	FILE *to = open_memstream(&text, &bytes);

	if (!to) {
		sink->out->error = ENOMEM;
		return;
	}
	fputs(types, to);
	put_environment(to, sink);
	fputs(stream_class, to);
	for (const struct shape *shape = shape_set_first(sink->shapes); shape; shape = shape->next)
		put_class(to, shape);
	if (fclose(to))
		sink->out->error = ENOMEM;
	else
		write_file(sink, "metadata", text, bytes);
	free(text);
}

/* ---- Runs ------------------------------------------------------------------------------------ */

static void end_run(struct sink *sink)
{
	for (uint32_t cpu = 0; cpu < sink->streams; cpu++) {
		struct stream *stream = sink->stream[cpu];

		if (stream) {
			end_packet(sink, stream, cpu);
			put_discarded(sink, stream, cpu, stream->last_ns);
		}
		free(stream);
		sink->stream[cpu] = NULL;
	}
	if (sink->run_directory < 0)
		return;
	write_metadata(sink);
	close(sink->run_directory);
	sink->run_directory = -1;
}

static void begin_run(struct sink *sink)
{
	const struct ringtail_host *host = sink->host;
	char name[32];

	if (sink->run && !memcmp(sink->boot_id, host->boot_id, sizeof(sink->boot_id)) &&
	    sink->epoch == host->epoch)
		return;
	end_run(sink);
	shape_set_destroy(sink->shapes);
	sink->shapes = shape_set_create();
	memcpy(sink->boot_id, host->boot_id, sizeof(sink->boot_id));
	sink->epoch = host->epoch;
	sink->offset_ns = host->realtime_ns - host->monotonic_ns;
	*sink->of_run = *host;
	snprintf(name, sizeof(name), "run-%u", ++sink->run);
	if (!sink->shapes || sink->run > RUNS_MAX)
		sink->out->error = sink->shapes ? EMFILE : ENOMEM;
	else if (mkdirat(sink->directory, name, 0700))
		sink->out->error = errno;
	else
		sink->run_directory = openat(sink->directory, name,
					     O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (sink->run_directory < 0 && !sink->out->error)
		sink->out->error = errno;
}

static void take(struct sink *sink, const struct ringtail_item *item)
{
	struct stream *stream;

	if (sink->out->error || (item->kind != RINGTAIL_EVENT && item->kind != RINGTAIL_LOSS &&
				 item->kind != RINGTAIL_GAP))
		return;
	if (item->kind == RINGTAIL_EVENT && stack_names_learn(sink->names, item) && !sink->shows_maps)
		return;
	begin_run(sink);
	stream = sink->out->error ? NULL : stream_of(sink, item->cpu);
	if (!stream && !sink->out->error)
		sink->out->error = ENOMEM;
	if (!stream)
		return;
	if (item->kind == RINGTAIL_EVENT)
		put_event(sink, stream, item);
	else
		put_loss(sink, stream, item);
}

/* ---- Beginning and end ----------------------------------------------------------------------- */

static void destroy(struct sink *sink)
{
	if (!sink)
		return;
	for (uint32_t cpu = 0; cpu < sink->streams; cpu++)
		free(sink->stream[cpu]);
	free(sink->stream);
	if (sink->run_directory >= 0)
		close(sink->run_directory);
	if (sink->directory >= 0)
		close(sink->directory);
	stack_names_destroy(sink->names);
	shape_set_destroy(sink->shapes);
	free(sink->of_run);
	free(sink->failed);
	free(sink);
}

static bool is_empty(int directory)
{
	int fd = dup(directory);
	DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
	struct dirent *entry;
	bool empty = dir;

	while (dir && (entry = readdir(dir)))
		if (strcmp(entry->d_name, ".") && strcmp(entry->d_name, ".."))
			empty = false;
	if (dir)
		closedir(dir);
	else if (fd >= 0)
		close(fd);
	return empty;
}

/* A new directory, its owner's alone; or one that is there, is no link, and holds nothing. */
static int open_directory(const char *path, struct ringtail_error *error)
{
	int fd;

	if (mkdir(path, 0700) && errno != EEXIST)
		return failure_set(error, errno, "cannot-write", "cannot make the directory %s: %s", path,
				   strerror(errno));
	fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return failure_set(error, errno, "cannot-write", "cannot write to the directory %s: %s", path,
				   strerror(errno));
	if (is_empty(fd))
		return fd;
	close(fd);
	failure_set(error, EEXIST, "not-empty", "the directory %s is not empty", path);
	failure_hint(error, "name another, or remove it");
	return -EEXIST;
}

static struct sink *open_sink(const struct sink_place *place, struct ringtail_error *error)
{
	struct sink *sink = calloc(1, sizeof(*sink));

	if (sink) {
		sink->out = place->out;
		sink->host = place->host;
		sink->shows_maps = place->flags & SINK_MAPS;
		sink->directory = sink->run_directory = -1;
		sink->names = stack_names_create(place->host);
		sink->of_run = calloc(1, sizeof(*sink->of_run));
	}
	if (!sink || !sink->names || !sink->of_run)
		failure_set(error, ENOMEM, "no-memory", "out of memory");
	else if ((sink->directory = open_directory(place->path, error)) >= 0)
		return sink;
	destroy(sink);
	return NULL;
}

static void fail(struct sink *sink, const char *what)
{
	free(sink->failed);
	sink->failed = strdup(what);
}

const struct sink_ops write_ctf = {
	.open = open_sink,
	.item = take,
	.fail = fail,
	.end = end_run,
	.destroy = destroy,
};
