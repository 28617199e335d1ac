#include "daemon/serve/dump_parts.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "daemon/base/limits.h"
#include "kmod/uapi/ringtail.h"

struct asking {
	struct disk_job job;
	TAILQ_ENTRY(asking) link;
	struct dump_parts *parts;
	struct session *session;	/* NULL: it has gone */
	char id[DUMP_ID_BYTES_MAX + 1];
	char path[DUMP_PATH_BYTES];
	uint64_t offset;
	ssize_t got;			/* or -errno */
	uint8_t data[DUMP_PART_BYTES];
};

struct dump_parts {
	struct fanout *fanout;
	struct dumps *dumps;
	struct disk_thread *disk_thread;
	struct frame_codec *codec;
	TAILQ_HEAD(, asking) askings;
};

struct dump_parts *dump_parts_create(struct fanout *fanout, struct dumps *dumps,
				     struct disk_thread *disk_thread, struct frame_codec *codec)
{
	struct dump_parts *parts = calloc(1, sizeof(*parts));

	if (!parts)
		return NULL;
	*parts = (struct dump_parts){.fanout = fanout, .dumps = dumps, .disk_thread = disk_thread,
				     .codec = codec};
	TAILQ_INIT(&parts->askings);
	return parts;
}

void dump_parts_destroy(struct dump_parts *parts)
{
	if (!parts)
		return;
	if (!TAILQ_EMPTY(&parts->askings))
		disk_thread_settle(parts->disk_thread);
	free(parts);
}

void dump_parts_leave(struct dump_parts *parts, const struct session *session)
{
	struct asking *asking;

	TAILQ_FOREACH(asking, &parts->askings, link)
		if (asking->session == session)
			asking->session = NULL;
}

/* ---- A part ------------------------------------------------------------------------------------ */

static int refuse_unknown(const char *id, struct error *error)
{
	error_set(error, ENOENT, "dump-unknown", "there is no dump %.80s", id);
	error_hint(error, "`tracectl dumps` lists those there are; older ones may have been deleted for"
			  " newer ones (dump-size, dump-count)");
	return -ENOENT;
}

static int refuse_memory(struct error *error)
{
	return error_set(error, ENOMEM, "out-of-memory", "the daemon is out of memory");
}

/* Of a file that does not say what is in it, nobody knows who may see that. */
static int judge(const struct dump_parts *parts, const struct dump_entry *entry,
		 const struct client_identity *identity, struct error *error)
{
	const Ringtail__V1__Dump *dump = entry->bye ? entry->bye->dump : NULL;
	struct subscription_request what = {.filter = ""};

	if (entry->state == DUMP_WRITING) {
		error_set(error, EBUSY, "dump-writing", "the dump %s is still being written", entry->id);
		error_hint(error, "ask again in a moment");
		return -EBUSY;
	}
	if (!dump) {
		if (identity->role >= ROLE_OPERATOR)
			return 0;
		error_set(error, EACCES, "dump-not-yours", "the dump %s was cut short, and does not say which probes are"
			  " in it: only operators may fetch it", entry->id);
		return -EACCES;
	}
	what.glob = (const char *const *)dump->probe;
	what.globs = dump->n_probe;
	what.filter = dump->filter;
	for (size_t i = 0; i < dump->n_flag; i++)
		what.flags |= 1u << ((unsigned)dump->flag[i] - 1) % 32;
	return fanout_may_see(parts->fanout, identity, &what, error);
}

static void run(struct disk_job *job, struct disk *disk)
{
	struct asking *asking = (struct asking *)job;
	int file = disk->ops->open(disk, asking->path, O_RDONLY);
	size_t have = 0;

	asking->got = file < 0 ? file : 1;
	while (file >= 0 && asking->got > 0 && have < sizeof(asking->data)) {
		asking->got = disk->ops->read(disk, file, asking->data + have,
					      sizeof(asking->data) - have, asking->offset + have);
		have += asking->got > 0 ? (size_t)asking->got : 0;
	}
	if (file >= 0)
		disk->ops->close(disk, file);
	if (asking->got >= 0)
		asking->got = (ssize_t)have;
}

static struct frame_ref *make_part(const struct asking *asking, struct error *error)
{
	const struct dump_entry *entry = dumps_find(asking->parts->dumps, asking->id);
	struct frame_ref *frame = NULL;

	if (!entry || asking->got == -ENOENT)
		refuse_unknown(asking->id, error);
	else if (asking->got < 0)
		error_set(error, (int)-asking->got, "dump-unreadable", "cannot read the dump %s: %s",
			  asking->id, strerror((int)-asking->got));
	else
		frame = dumps_pack(asking->parts->dumps, asking->parts->codec, entry, asking->data,
				   (size_t)asking->got);
	if (!frame && !error->code[0])
		refuse_memory(error);
	return frame;
}

static void done(struct disk_job *job)
{
	struct asking *asking = (struct asking *)job;
	struct error error = {0};

	TAILQ_REMOVE(&asking->parts->askings, asking, link);
	if (asking->session) {
		struct frame_ref *frame = make_part(asking, &error);

		session_answer(asking->session, frame, &error);
	}
	free(asking);
}

static int ask_part(struct dump_parts *parts, struct session *session,
		    const Ringtail__V1__DumpsRequest *request, struct error *error)
{
	const struct dump_entry *entry = parts->dumps ? dumps_find(parts->dumps, request->get) : NULL;
	struct asking *asking;
	int err;

	if (!entry)
		return refuse_unknown(request->get, error);
	err = judge(parts, entry, session_identity(session), error);
	if (err)
		return err;
	asking = malloc(sizeof(*asking));
	if (!asking)
		return refuse_memory(error);
	asking->job = (struct disk_job){.run = run, .done = done};
	asking->parts = parts;
	asking->session = session;
	asking->offset = request->offset < entry->bytes ? request->offset : entry->bytes;
	memcpy(asking->id, entry->id, sizeof(asking->id));
	dumps_path(entry, asking->path);
	TAILQ_INSERT_TAIL(&parts->askings, asking, link);
	disk_thread_submit(parts->disk_thread, &asking->job);
	return 0;
}

/* ---- All --------------------------------------------------------------------------------------- */

static struct frame_ref *pack_list(const struct dump_parts *parts)
{
	Ringtail__V1__Dumps none = RINGTAIL__V1__DUMPS__INIT;

	return parts->dumps ? dumps_pack(parts->dumps, parts->codec, NULL, NULL, 0) :
			      frame_ref_pack(parts->codec, FRAME_DUMPS, &none.base);
}

void dump_parts_ask(struct dump_parts *parts, struct session *session,
		    const Ringtail__V1__DumpsRequest *request)
{
	struct frame_ref *frame = NULL;
	struct error error = {0};

	if (*request->get && ask_part(parts, session, request, &error) == 0)
		return;
	if (!*request->get)
		frame = pack_list(parts);
	if (!frame && !error.code[0])
		refuse_memory(&error);
	session_answer(session, frame, &error);
}
