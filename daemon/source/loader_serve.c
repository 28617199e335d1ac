/*
 * loader_serve: the loader process. In: requests from the engine; out: rings, the catalog, answers.
 * Once the source is open it has no network, a user of its own, an empty file tree, no capability but
 * those that configuring takes, and no system call that is not on the list (sandbox.h): none of those
 * has a path. So whatever has to be opened, source_ops.open opens.
 */
#include "daemon/source/loader_message.h"
#include "daemon/source/probe_pack.h"

#include <errno.h>
#include <malloc.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/base/descriptor.h"
#include "daemon/base/log.h"
#include "daemon/host/privileges.h"
#include "daemon/host/sandbox.h"
#include "daemon/source/finder.h"
#include "daemon/source/bpf_places.h"

#define FINISH_POLL_MS 20
#define IDLE_MS 100	/* without a message, before what can wait is done, part by part */

static void describe(struct loader_failure *failure, int err, const struct error *error)
{
	failure->err = err;
	if (!err)
		return;
	memcpy(failure->code, error->code, sizeof(failure->code));
	memcpy(failure->what, error->what, sizeof(failure->what));
	memcpy(failure->hint, error->hint, sizeof(failure->hint));
}

static int open_auto(const struct source_config *config, const struct source_ops **ops,
		     struct source **source, struct error *error)
{
	struct error module_error;
	int err = source_bpf.open(config, source, error);

	*ops = &source_bpf;
	if (!err)
		return 0;
	if (source_kmod.open(config, source, &module_error) == 0) {
		*ops = &source_kmod;
		return 0;
	}
	/* The module is the exception: what keeps BPF from working is what a person can mend. */
	return err;
}

static int open_source(const char *name, const struct source_config *config,
		       const struct source_ops **ops, struct source **source, struct error *error)
{
	if (strcmp(name, "auto") == 0)
		return open_auto(config, ops, source, error);
	*ops = source_by_name(name);
	if (!*ops)
		return error_set(error, EINVAL, "source-unknown", "there is no source '%s'", name);
	return (*ops)->open(config, source, error);
}

/* ---- Giving up ------------------------------------------------------------------------------- */

/*
 * Nothing but its own descriptors: what is still to be done is done with them. The kernel takes the file of a
 * uprobe by its path alone, and /proc/self/fd is one to a file that somebody else has opened.
 */
static int enter_view(struct error *error)
{
	struct sandbox_view view = {0};
	int err = sandbox_view_of_unit("loader", error);

	if (err)
		return err < 0 ? err : 0;
	if (chdir("/") != 0)
		return error_set(error, errno, "sandbox-view", "chdir: %s", strerror(errno));
	/* A sanitizer looks there at the end. */
	err = sandbox_view_add(&view, SANDBOX_FILTERS ? "/proc/self/fd" : "/proc", SANDBOX_READ);
	if (err)
		return error_set(error, -err, "sandbox-view", "/proc/self/fd: %s", strerror(-err));
	err = sandbox_view_enter(&view, error);
	sandbox_view_fini(&view);
	/* Who may not mount has the tree that it was started in; it can open nothing of it. */
	return err == -EPERM || err == -ENOSYS ? 0 : err;
}

/* Attaching and detaching programs is all that is left to do. */
static int confine(const struct source_config *config, struct error *error)
{
	static const cap_value_t keep[] = {CAP_BPF, CAP_PERFMON};
	const struct account same = {.uid = geteuid(), .gid = getegid()};
	int err;

	/* An empty network namespace; without CAP_SYS_ADMIN there is nothing to leave it with. */
	if (unshare(CLONE_NEWNET) != 0 && errno != EPERM)
		fprintf(stderr, "ringtaild: loader: unshare: %s\n", strerror(errno));
	err = enter_view(error);
	if (!err)
		err = privileges_keep(config->account ? config->account : &same, keep,
				      sizeof(keep) / sizeof(keep[0]), error);
	return err ? err : sandbox_loader(error);
}

/* ---- Opening --------------------------------------------------------------------------------- */

static int send_rings(int socket, const struct source_ops *ops, struct source *source)
{
	struct loader_message message = {.type = LOADER_MSG_RING};

	for (unsigned i = 0; ops->ring(source, i, &message.ring) == 0; i++) {
		int fds[] = {message.ring.ring_fd, message.ring.consumer_fd, message.ring.bell_fd};
		int err = loader_message_send(socket, &message, fds, 3);

		if (err)
			return err;
	}
	return 0;
}

static int catalog_memfd(const Ringtail__V1__Catalog *catalog, uint64_t *bytes)
{
	struct probe_pack pack = {0};
	int err = 0;

	for (size_t i = 0; i < catalog->n_probe && !err; i++)
		err = probe_pack_add(&pack, catalog->probe[i]);
	if (!err)
		return probe_pack_file(&pack, "ringtail-catalog", bytes);
	probe_pack_free(&pack);
	return err;
}

static int offers_memfd(const struct source_ops *ops, struct source *source, uint64_t *bytes)
{
	struct probe_pack pack = {0};
	int err = ops->offers ? ops->offers(source, &pack) : 0;

	if (!err)
		return probe_pack_file(&pack, "ringtail-offers", bytes);
	probe_pack_free(&pack);
	return err;
}

/* The message that the source is open, and the descriptors that go with it; or -errno. */
static int make_ready(struct loader_message *message, const struct source_ops *ops,
		      struct source *source, int fds[2])
{
	struct error why_not = {0};

	*message = (struct loader_message){.type = LOADER_MSG_READY};
	snprintf(message->ready.source, sizeof(message->ready.source), "%s", ops->name);
	if (ops->providers)
		snprintf(message->ready.providers, sizeof(message->ready.providers), "%s",
			 ops->providers());
	message->ready.adopted = ops->adopted && ops->adopted(source, &why_not);
	if (!message->ready.adopted && why_not.code[0])
		describe(&message->ready.why_not, -ESTALE, &why_not);
	fds[0] = catalog_memfd(ops->catalog(source), &message->ready.catalog_bytes);
	if (fds[0] < 0)
		return fds[0];
	fds[1] = offers_memfd(ops, source, &message->ready.offers_bytes);
	if (fds[1] >= 0)
		return 0;
	close(fds[0]);
	return fds[1];
}

/* ---- Answering ------------------------------------------------------------------------------- */

static int answer_make(int socket, const struct source_ops *ops, struct source *source,
		       const char *spec)
{
	struct loader_message message = {.type = LOADER_MSG_MADE};
	struct probe_pack pack = {0};
	struct error error = {0};
	int fd = -1, err;

	snprintf(message.made.spec, sizeof(message.made.spec), "%s", spec);
	err = ops->make ? ops->make(source, spec, probe_pack_add, &pack, &error) :
			  error_set(&error, ENOENT, "unknown-probe", "this source makes no probes");
	if (pack.bytes)
		fd = probe_pack_file(&pack, "ringtail-made", &message.made.bytes);
	else
		probe_pack_free(&pack);
	if (fd < 0 && pack.bytes)
		err = error_set(&error, ENOMEM, "out-of-memory", "no memory for `%.256s`", spec);
	if (fd < 0)
		message.made.bytes = 0;
	describe(&message.made.failure, err, &error);
	err = loader_message_send(socket, &message, &fd, fd >= 0);
	if (fd >= 0)
		close(fd);
	return err;
}

/* Probes that nobody has asked for. What cannot be told now is told with the next that come. */
static int tell_arrived(int socket, const struct source_ops *ops, struct source *source)
{
	struct loader_message message = {.type = LOADER_MSG_ARRIVED};
	struct probe_pack pack = {0};
	int fd, err = ops->arrived(source, probe_pack_add, &pack);

	if (err)
		log_warn("probes-not-listed", "probes that a module has brought cannot be listed: %s", strerror(-err));
	if (!pack.bytes) {
		probe_pack_free(&pack);
		return 0;
	}
	fd = probe_pack_file(&pack, "ringtail-arrived", &message.arrived_bytes);
	if (fd < 0) {
		log_warn("probes-not-listed", "probes that a module has brought cannot be listed: out of memory");
		return 0;
	}
	err = loader_message_send(socket, &message, &fd, 1);
	close(fd);
	return err;
}

/* Which threads are in a call now, in a file in memory that the engine reads. */
static int answer_stuck(int socket, const struct source_ops *ops, struct source *source,
			uint64_t longer_than_ns)
{
	struct loader_message message = {.type = LOADER_MSG_STUCK};
	struct error error = {0};
	int fd = ops->stuck ? descriptor_memory_file("ringtail-stuck", false) : -EOPNOTSUPP;
	int err = fd < 0 ? fd : ops->stuck(source, longer_than_ns, fd, &message.stuck.answer, &error);

	if (fd == -EOPNOTSUPP) {
		error_set(&error, EOPNOTSUPP, "stuck-not-here", "the source %s cannot tell which"
			  " threads are in a system call now", ops->name);
		error_hint(&error, "ask a daemon with --source bpf, or look into"
			   " /proc/PID/task/TID/syscall and stack");
	} else if (fd < 0) {
		error_set(&error, -fd, "out-of-memory", "no memory for the answer: %s", strerror(-fd));
	}
	describe(&message.stuck.failure, err, &error);
	err = loader_message_send(socket, &message, &fd, err ? 0 : 1);
	if (fd >= 0)
		close(fd);
	return err;
}

static int answer(int socket, const struct source_ops *ops, struct source *source,
		  const struct loader_message *request)
{
	struct loader_message message = {0};
	struct error error = {0};
	int err;

	switch (request->type) {
	case LOADER_MSG_CONFIGURE:
		message.type = LOADER_MSG_CONFIGURED;
		message.configured.generation = request->configure.generation;
		err = ops->configure(source, &request->configure, &error);
		describe(&message.configured.failure, err, &error);
		break;
	case LOADER_MSG_ASK_STATS:
		message.type = LOADER_MSG_STATS;
		message.stats.err = ops->stats(source, &message.stats.figures);
		break;
	case LOADER_MSG_MAKE:
		return answer_make(socket, ops, source, request->make);
	case LOADER_MSG_JOINED:
		if (ops->joined)
			ops->joined(source);
		return 0;
	case LOADER_MSG_ASK_STUCK:
		return answer_stuck(socket, ops, source, request->stuck_longer_than_ns);
	default:
		return -EPROTO;
	}
	return loader_message_send(socket, &message, NULL, 0);
}

/* ---- Serving --------------------------------------------------------------------------------- */

static int serve(int socket, const struct source_ops *ops, struct source *source)
{
	bool finish_told = !ops->finished, idle = false;

	for (;;) {
		int timeout_ms = -1, asks = ops->attention ? ops->attention(source, &timeout_ms) : -1;
		struct pollfd poll_fd[] = {
			{.fd = socket, .events = POLLIN},
			{.fd = ops->unsettled ? ops->unsettled(source) : -1, .events = POLLIN},
			{.fd = asks, .events = POLLIN},
		};
		struct loader_message message;
		int fds[LOADER_MESSAGE_FDS_MAX], err, told;
		unsigned n;

		if (idle && (timeout_ms < 0 || timeout_ms > IDLE_MS))
			timeout_ms = IDLE_MS;
		err = poll(poll_fd, 3, finish_told ? timeout_ms : FINISH_POLL_MS);
		if (err < 0 && errno != EINTR)
			return -errno;
		if (ops->attend && (err == 0 || poll_fd[2].revents))
			ops->attend(source);
		if (ops->arrived && poll_fd[2].revents && (told = tell_arrived(socket, ops, source)) != 0)
			return told;
		if (err == 0 && idle)
			idle = ops->idle(source);
		if (!finish_told && ops->finished(source)) {
			message = (struct loader_message){.type = LOADER_MSG_FINISHED};
			err = loader_message_send(socket, &message, NULL, 0);
			if (err)
				return err;
			finish_told = true;
		}
		if (poll_fd[1].revents)
			ops->settle(source);
		if (!(poll_fd[0].revents & (POLLIN | POLLHUP)))
			continue;
		/* No message of the engine's has descriptors. */
		err = loader_message_receive(socket, LOADER_END_ENGINE, &message, fds, &n,
					     MSG_DONTWAIT);
		if (err == -EAGAIN)
			continue;
		if (err <= 0)
			return err;
		err = answer(socket, ops, source, &message);
		if (err)
			return err;
		/* A question for statistics leaves nothing to do later; it comes once a second while events do. */
		if (message.type != LOADER_MSG_ASK_STATS)
			idle = ops->idle;
	}
}

static void keep(void *context, const char *name, int fd)
{
	struct loader_message message = {.type = LOADER_MSG_KEEP};
	const int *socket = context;

	snprintf(message.name, sizeof(message.name), "%s", name);
	loader_message_send(*socket, &message, &fd, 1);
}

static void drop(void *context, const char *name, int barrier)
{
	struct loader_message message = {.type = LOADER_MSG_DROP};
	const int *socket = context;

	snprintf(message.name, sizeof(message.name), "%s", name);
	loader_message_send(*socket, &message, &barrier, barrier >= 0);
}

/* What another kind of source has left is nobody's any more. */
static void drop_rest(struct source_store *store)
{
	const char *name;
	int fd;

	while ((fd = activation_next(store->kept, SOURCE_NAMES "*", &name)) >= 0) {
		store->drop(store->context, name, -1);
		close(fd);
	}
}

static int fail(int socket, int err, const struct error *error)
{
	struct loader_message message = {.type = LOADER_MSG_FAILED};

	describe(&message.failed, err, error);
	loader_message_send(socket, &message, NULL, 0);
	return err;
}

/* With an open source: gives up everything else, hands over the rings, and answers until the end. */
static int run(int socket, const struct source_config *config, const struct source_ops *ops,
	       struct source *source)
{
	struct loader_message ready;
	struct error error = {0};
	int fds[2] = {-1, -1}, err = make_ready(&ready, ops, source, fds);

	if (err) {
		error_set(&error, -err, "out-of-memory", "cannot hand over the catalog: %s",
			  strerror(-err));
		return fail(socket, err, &error);
	}
	/* What opening read, and what was packed, leaves megabytes between what stays. */
	malloc_trim(0);
	err = confine(config, &error);
	if (err)
		fail(socket, err, &error);
	if (!err)
		err = send_rings(socket, ops, source);
	if (!err)
		err = loader_message_send(socket, &ready, fds, 2);
	close(fds[0]);
	close(fds[1]);
	return err ? err : serve(socket, ops, source);
}

/* Without it there are no probes of files, which is said to whoever asks for one. */
static void start_finder(struct finder *finder, const char *name, struct source_config *config)
{
	struct error error = {0};

	if (strcmp(name, "bpf") != 0 && strcmp(name, "auto") != 0)
		return;
	if (finder_start(finder, config->account, !uprobe_multi_is_here(), &error) != 0) {
		fprintf(stderr, "ringtaild: loader: %s\n", error.what);
		return;
	}
	config->finder = finder;
	if (config->excluded_pids[0])
		config->excluded_pids[2] = (uint32_t)finder->pid;
}

int loader_serve(int socket, const char *name, struct source_config *config,
		 struct activation *kept)
{
	struct source_store store = {
		.kept = kept, .keep = keep, .drop = drop, .context = &socket,
	};
	const struct source_ops *ops = NULL;
	struct source *source = NULL;
	struct finder finder = {.socket = -1};
	struct error error = {0};
	int err;

	/* The engine decides when it is over, and says so by closing the socket. */
	signal(SIGINT, SIG_IGN);
	signal(SIGTERM, SIG_IGN);
	signal(SIGHUP, SIG_IGN);
	signal(SIGPIPE, SIG_IGN);
	prctl(PR_SET_NAME, "ringtail-loader");

	config->store = kept ? &store : NULL;
	start_finder(&finder, name, config);
	if (config->account)
		privileges_open_as_root(true);
	err = open_source(name, config, &ops, &source, &error);
	if (config->account)
		privileges_open_as_root(false);
	if (kept)
		drop_rest(&store);
	if (err) {
		finder_stop(&finder);
		fail(socket, err, &error);
		return EXIT_FAILURE;
	}
	err = run(socket, config, ops, source);
	ops->close(source);
	finder_stop(&finder);
	return err == 0 || err == -EPIPE || err == -ECONNRESET ? EXIT_SUCCESS : EXIT_FAILURE;
}
