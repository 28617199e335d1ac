/*
 * control: the control plane: what changes the daemon while it runs.
 *
 * In: operators' changes of what is always on; durable consumers that clients register, and give up
 * (each its own, operators any); new configurations. Out: what fanout is to record, lines of the audit
 * log, state-dir/probes, and an answer. Main thread; the disk's part on the disk thread. One at a time,
 * in the order in which they were asked for:
 *
 *	ask -> judged -> audit.log, synced -> in force -> state-dir/probes, synced -> answered
 *
 * A change that cannot be written to the audit log is refused, and so is one that the loader or the
 * kernel refuses, and one that would not outlive the daemon: then what was in force before is again,
 * and audit.log has a second line, whose outcome is the error's code. What is denied goes to a log of
 * its own (audit_denials); beyond a few in a minute from one client it is only counted, and answered at once.
 */
#ifndef RINGTAIL_DAEMON_SERVE_CONTROL_H
#define RINGTAIL_DAEMON_SERVE_CONTROL_H

#include "daemon/config/config.h"
#include "daemon/disk/thread.h"
#include "query/error.h"
#include "daemon/stream/fanout.h"
#include "daemon/access/gate.h"
#include "daemon/serve/session.h"
#include "daemon/trigger/dumps.h"

struct audit_file;
struct control;

struct control_config {
	struct event_base *base;
	const struct gate *gate;
	struct fanout *fanout;
	struct frame_codec *codec;
	const Ringtail__V1__Catalog *catalog;
	struct disk_thread *disk_thread;	/* NULL: nothing can be kept, so nothing changed */
	struct dumps *dumps;			/* NULL: there are none */
	struct frame_ref *(*stat)(void *context);	/* what a Forget is answered with */
	/* What is always on by a configuration is in force (NULL), or why not. May be NULL. */
	void (*applied)(void *context, const struct error *error);
	/* Whether programs may bring probes of that provider, which has none yet. NULL: none may. */
	bool (*may_come)(void *context, const char *provider);
	void *context;
};

int control_create(const struct control_config *config, struct control **control,
		   struct error *error);

/* What was denied and only counted is written down. Before the disk thread ends; NULL is safe. */
void control_settle(struct control *control);

/* After the disk thread. NULL is safe. */
void control_destroy(struct control *control);

/* What operators did before, from the state directory: before control_set_config(). Blocks. */
int control_load(struct control *control, struct disk *disk, struct error *error);

/*
 * Puts in force, soon, what the configuration says with the operators' changes to it, or changes nothing: applied()
 * follows, perhaps before this returns. A probe that programs may bring, or that an operator enabled and this host's
 * catalog lacks, is left out until a program brings it, with a warning in the log; if the daemon could not start
 * because of what operators enabled, all of that is left out, with an error in the log. Another wrong probe or a wrong
 * filter of the configuration is an error here.
 */
int control_check_config(const struct control *control, const struct config *config,
			 struct error *error);
int control_set_config(struct control *control, const struct config *config, struct error *error);

/*
 * A program brought that probe, which is in the catalog now: what is always on by a spec that means it is put in force
 * again, soon, and after all changes that are asked for.
 */
void control_take_probe(struct control *control, const Ringtail__V1__Probe *probe);

/* audit.log, as the disk thread knows it: for others who have something to write there. */
struct audit_file *control_audit(struct control *control);

/*
 * Whether the client may wait for a program to bring one of these probes, as it sees them, where the others are there.
 * 1: it may, and *error, waits-for-program, says for which. 0: it may not. -EINVAL: it could, but the filter (NULL: none)
 * has a mistake that can be seen without fields, as *error says. error may be NULL.
 */
int control_awaits(const struct control *control, const struct client_identity *identity, char *const *spec,
		   size_t specs, const char *filter, struct error *error);

/* A Probes frame; NULL: out of memory. */
struct frame_ref *control_probes(const struct control *control);

/* session_answer() follows. */
void control_ask(struct control *control, struct session *session,
		 const struct change_request *request);
void control_ask_forget(struct control *control, struct session *session, const char *consumer);

/* Operators only: that dump is deleted; the answer is a list of the others. */
void control_ask_delete_dump(struct control *control, struct session *session, const char *id);

/* A request that registers a consumer, or is denied one: taken over, in one piece. */
void control_ask_register(struct control *control, struct session *session,
			  struct subscribe_request *request);

/* What goes through a relay, and changes nothing here: it is in the audit log before it happens. */
struct control_note {
	enum {
		CONTROL_NOTE_REACH,	/* a client of this relay asks for that host; operators only */
		CONTROL_NOTE_DIAL,	/* this host's relay asks it to dial for that client */
	} kind;
	char name[IDENTITY_TEXT_BYTES];	/* the host's; the client's, as the relay calls it */
	uint8_t token[16];		/* of the Dial */
	struct error refused;		/* with a code: it is only written down */

	/* It is, or cannot be: then, and if it was refused, error->code says why; else that is empty. */
	void (*noted)(void *context, struct session *session, const struct control_note *note,
		      const struct error *error);
	void *context;
};

/* noted() follows, perhaps at once, unless the session leaves before. The note is copied. */
void control_ask_note(struct control *control, struct session *session, const struct control_note *note);

/* The session goes: what it asked for is done all the same, and not answered. */
void control_leave(struct control *control, const struct session *session);

#endif
