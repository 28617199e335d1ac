#include "daemon/http/closeup.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/ask/answer.h"
#include "daemon/base/clock.h"
#include "daemon/base/limits.h"
#include "daemon/base/log.h"
#include "daemon/http/live.h"
#include "daemon/metrics/stat.h"
#include "daemon/stream/stream.h"

enum counted {
	CALLS,
	FILES,
	PEERS,
	COUNTED,
};

static const char *const counted_name[COUNTED] = {[CALLS] = "calls", [FILES] = "files", [PEERS] = "peers"};

struct closeup {
	struct closeups *closeups;
	uint32_t pid;
	enum role role;
	bool texts;			/* files and peers are known */
	struct error why_not;		/* else: who may change that */
	struct error refused;		/* code "": it is recorded, or soon will be */
	char comm[RT_COMM_BYTES];	/* of its first thread, or else of another; "": nothing has come */
	uint64_t began_ns, turned_ns;
	struct ask_answer *answer[COUNTED];
	struct ask_watch watch;
	struct event *idle;		/* nobody has asked for a while */
};

struct closeups {
	struct event_base *base;
	struct ask_watches *watches;
	struct closeup *closeup[2 * HTTP_CLOSEUPS_MAX];		/* NULL: free */
};

/* ---- Counting ---------------------------------------------------------------------------------- */

/* What a descriptor stands for: sockets are written as "TCP 10.0.0.1:40000->10.0.0.2:5432". */
static bool is_socket(const struct batch_attachment *attachment)
{
	static const char *const family[] = {"TCP ", "UDP ", "RAW ", "socket:"};

	for (size_t i = 0; i < sizeof(family) / sizeof(family[0]); i++)
		if (attachment->text_bytes > strlen(family[i]) &&
		    memcmp(attachment->text, family[i], strlen(family[i])) == 0)
			return true;
	return false;
}

/* Which of the counts the text of that field belongs to; CALLS: to none. */
static enum counted kind_of(const Ringtail__V1__Probe *probe, const struct batch_attachment *attachment)
{
	const Ringtail__V1__Field *field;

	if (attachment->kind != RINGTAIL__V1__ATTACHMENT_KIND__ATTACH_STRING || attachment->arg >= probe->n_field ||
	    !attachment->text_bytes)
		return CALLS;
	field = probe->field[attachment->arg];
	if (strcmp(field->c_type, "struct sockaddr *") == 0)
		return PEERS;
	if (field->type == RINGTAIL__V1__FIELD_TYPE__FIELD_FD)
		return is_socket(attachment) ? PEERS : FILES;
	return strcmp(field->c_type, "const char *") == 0 ? FILES : CALLS;
}

static void on_event(void *context, const Ringtail__V1__Probe *probe, uint32_t cpu, const struct batch_item *item)
{
	struct closeup *closeup = context;
	bool failed = ask_key_errno(probe, item) != 0;
	struct ask_key key = {.bytes = 0};
	uint64_t duration;
	bool timed = ask_key_number("duration", probe, item, &duration);

	if (item->thread->tid == closeup->pid || !closeup->comm[0])
		memcpy(closeup->comm, item->thread->comm, sizeof(closeup->comm));
	ask_key_add(&key, "function", probe, cpu, item);
	ask_answer_add(closeup->answer[CALLS], &key, timed ? &duration : NULL, failed);
	for (size_t i = 0; i < item->attachments; i++) {
		enum counted kind = kind_of(probe, &item->attachment[i]);

		if (kind == CALLS)
			continue;
		key.bytes = 0;
		ask_key_add(&key, probe->field[item->attachment[i].arg]->name, probe, cpu, item);
		ask_answer_add(closeup->answer[kind], &key, timed ? &duration : NULL, failed);
	}
}

static void on_refused(void *context, const struct error *error)
{
	struct closeup *closeup = context;

	closeup->refused = *error;
}

/* ---- Which are open ---------------------------------------------------------------------------- */

static void destroy(struct closeup *closeup)
{
	ask_watch_end(&closeup->watch);
	for (unsigned i = 0; i < COUNTED; i++)
		ask_answer_destroy(closeup->answer[i]);
	if (closeup->idle)
		event_free(closeup->idle);
	free(closeup);
}

static void on_idle(evutil_socket_t fd, short what, void *context)
{
	struct closeup *closeup = context;
	struct closeup **place = closeup->closeups->closeup;

	(void)fd, (void)what;
	while (*place != closeup)
		place++;
	*place = NULL;
	destroy(closeup);
}

static int watch(struct closeup *closeup, bool texts, struct error *error)
{
	char filter[32];
	const char *const glob = "syscall:*:call";
	const struct subscription_request what = {
		.glob = &glob, .globs = 1, .filter = filter,
		.flags = texts ? RT_FLAG_STRINGS | RT_FLAG_FDS : 0,
	};

	snprintf(filter, sizeof(filter), "pid == %u", closeup->pid);
	closeup->watch = (struct ask_watch){
		.watches = closeup->closeups->watches, .role = closeup->role, .event = on_event,
		.refused = on_refused, .context = closeup,
	};
	snprintf(closeup->watch.name, sizeof(closeup->watch.name), "page:%s", role_name(closeup->role));
	closeup->texts = texts;
	return ask_watch_begin(&closeup->watch, &what, error);
}

/* With files and peers, or, where the role may not have them, without. */
static int begin(struct closeup *closeup, struct error *error)
{
	int err = watch(closeup, true, error);

	if (err != -EACCES || strcmp(error->code, "viewer-flags") != 0)
		return err;
	closeup->why_not = *error;
	ask_watch_end(&closeup->watch);
	return watch(closeup, false, error);
}

static int create(struct closeups *closeups, uint32_t pid, enum role role, struct closeup **out, struct error *error)
{
	struct closeup *closeup = calloc(1, sizeof(*closeup));
	bool enough = closeup;
	int err;

	if (!closeup)
		return error_set(error, ENOMEM, "out-of-memory", "out of memory");
	closeup->closeups = closeups;
	closeup->pid = pid;
	closeup->role = role;
	closeup->began_ns = closeup->turned_ns = clock_monotonic();
	closeup->idle = event_new(closeups->base, -1, 0, on_idle, closeup);
	for (unsigned i = 0; i < COUNTED; i++)
		enough = (closeup->answer[i] = ask_answer_create(HTTP_CLOSEUP_ROWS)) && enough;
	err = enough && closeup->idle ? begin(closeup, error) :
					error_set(error, ENOMEM, "out-of-memory", "out of memory");
	if (err) {
		destroy(closeup);
		return err;
	}
	*out = closeup;
	return 0;
}

/* Of each role so many: viewers keep no operator out. */
static int find(struct closeups *closeups, uint32_t pid, enum role role, struct closeup **out, struct error *error)
{
	struct closeup **place = closeups->closeup + (role >= ROLE_OPERATOR ? HTTP_CLOSEUPS_MAX : 0), **room = NULL;

	for (unsigned i = 0; i < HTTP_CLOSEUPS_MAX; i++, place++) {
		if (*place && (*place)->pid == pid) {
			*out = *place;
			return 0;
		}
		if (!*place)
			room = place;
	}
	if (room) {
		int err = create(closeups, pid, role, room, error);

		*out = *room;
		return err;
	}
	error_set(error, EBUSY, "closeups-max", "%u other processes are looked at", HTTP_CLOSEUPS_MAX);
	error_hint(error, "close one of these pages, and wait for %llu s",
		   (unsigned long long)(HTTP_CLOSEUP_IDLE_NS / NS_PER_S));
	return -EBUSY;
}

/* ---- JSON -------------------------------------------------------------------------------------- */

static void write_counts(const struct ask_counts *counts, FILE *out)
{
	fprintf(out, ",\"calls\":%" PRIu64 ",\"errors\":%" PRIu64 ",\"sum_ns\":%.0f,\"buckets\":[", counts->events,
		counts->errors, counts->sum);
	http_live_buckets(counts->bucket, out);
	fputs("]}", out);
}

static void write_answer(const char *name, const struct ask_answer *answer, FILE *out)
{
	const struct ask_row *row;
	const char *before = "";

	fprintf(out, ",\"%s\":[", name);
	for (unsigned at = 0; (row = ask_answer_next(answer, &at)); before = ",") {
		fprintf(out, "%s{\"name\":", before);
		http_live_string(row->key.text, strlen(row->key.text), out);
		write_counts(&row->counts, out);
	}
	fprintf(out, "],\"other_%s\":{\"name\":\"\"", name);
	write_counts(ask_answer_others(answer), out);
}

static void write_ledger(const struct closeup *closeup, FILE *out)
{
	const struct stream *stream = closeup->watch.stream;
	struct stream_stat stat = {0};
	struct stat_losses losses = {.stages = 0};

	if (stream) {
		stream_stat(stream, &stat);
		losses = (struct stat_losses){stream->lost, 0, LOSS_STAGES};
	}
	fprintf(out, ",\"produced\":%" PRIu64 ",\"delivered\":%" PRIu64 ",\"filtered\":%" PRIu64 ",\"in_flight\":%"
		PRIu64 ",\"residual\":%" PRId64, stat.produced, stream ? stream->delivered : 0,
		stream ? stream->filtered : 0, stat.in_flight, ask_watch_residual(&closeup->watch));
	http_live_losses(&losses, out);
}

static void write_error(const struct error *error, FILE *out)
{
	fputs("[", out);
	if (error->code[0]) {
		http_live_string(error->what, strlen(error->what), out);
		putc(',', out);
		http_live_string(error->hint, strlen(error->hint), out);
	}
	fputs("]", out);
}

static void write_closeup(struct closeup *closeup, FILE *out)
{
	uint64_t now_ns = clock_monotonic();

	/* Not for each of many who ask: a turn lets what is idle go. */
	if (now_ns - closeup->turned_ns >= NS_PER_S) {
		for (unsigned i = 0; i < COUNTED; i++)
			ask_answer_turn(closeup->answer[i]);
		closeup->turned_ns = now_ns;
	}
	fprintf(out, "{\"pid\":%u,\"comm\":", closeup->pid);
	http_live_string(closeup->comm, strnlen(closeup->comm, sizeof(closeup->comm)), out);
	fprintf(out, ",\"monotonic_ns\":%" PRIu64 ",\"began_ns\":%" PRIu64 ",\"live\":%s,\"texts\":%s,\"why_not\":", now_ns,
		closeup->began_ns, closeup->watch.stream ? "true" : "false", closeup->texts ? "true" : "false");
	write_error(&closeup->why_not, out);
	fputs(",\"refused\":", out);
	write_error(&closeup->refused, out);
	write_ledger(closeup, out);
	for (unsigned i = 0; i < COUNTED; i++)
		write_answer(counted_name[i], closeup->answer[i], out);
	fputs("}\n", out);
}

int closeups_write(struct closeups *closeups, uint32_t pid, enum role role, FILE *out, struct error *error)
{
	const struct timeval idle = {.tv_sec = HTTP_CLOSEUP_IDLE_NS / NS_PER_S};
	struct closeup *closeup;
	int err = find(closeups, pid, role, &closeup, error);

	if (err)
		return err;
	event_add(closeup->idle, &idle);
	write_closeup(closeup, out);
	return 0;
}

/* ---- Life -------------------------------------------------------------------------------------- */

struct closeups *closeups_create(const struct ask_watches_config *config)
{
	struct closeups *closeups = calloc(1, sizeof(*closeups));

	if (!closeups)
		return NULL;
	closeups->base = config->base;
	closeups->watches = ask_watches_create(config);
	if (closeups->watches)
		return closeups;
	free(closeups);
	return NULL;
}

void closeups_destroy(struct closeups *closeups)
{
	if (!closeups)
		return;
	for (unsigned i = 0; i < 2 * HTTP_CLOSEUPS_MAX; i++)
		if (closeups->closeup[i])
			destroy(closeups->closeup[i]);
	ask_watches_destroy(closeups->watches);
	free(closeups);
}
