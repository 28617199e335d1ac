/*
 * loader_serve: the loader process. In: requests from the engine; out: rings, the catalog, answers.
 * No network, after opening the source no capability but those that configuring takes, and no system
 * call that is not on the list (sandbox.h).
 */
#include "daemon/source/loader_message.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/capability.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/host/sandbox.h"


#define FINISH_POLL_MS 20

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

/* Attaching and detaching programs is all that is left to do. */
static void drop_capabilities(void)
{
	static const cap_value_t keep[] = {CAP_BPF, CAP_PERFMON};
	cap_t now = cap_get_proc(), next = cap_init();

	for (size_t i = 0; now && next && i < sizeof(keep) / sizeof(keep[0]); i++) {
		cap_flag_value_t has = CAP_CLEAR;

		if (cap_get_flag(now, keep[i], CAP_PERMITTED, &has) == 0 && has == CAP_SET) {
			cap_set_flag(next, CAP_PERMITTED, 1, &keep[i], CAP_SET);
			cap_set_flag(next, CAP_EFFECTIVE, 1, &keep[i], CAP_SET);
		}
	}
	if (next)
		cap_set_proc(next);
	cap_free(now);
	cap_free(next);
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
}

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

/* A catalog may be longer than a packet. */
static int catalog_memfd(const Ringtail__V1__Catalog *catalog, uint64_t *bytes)
{
	size_t size = ringtail__v1__catalog__get_packed_size(catalog);
	uint8_t *packed = malloc(size + 1);
	int fd = memfd_create("ringtail-catalog", MFD_CLOEXEC);
	ssize_t written = -1;

	if (packed && fd >= 0) {
		ringtail__v1__catalog__pack(catalog, packed);
		written = write(fd, packed, size);
	}
	free(packed);
	*bytes = size;
	if (written == (ssize_t)size)
		return fd;
	if (fd >= 0)
		close(fd);
	return -ENOMEM;
}

static int send_ready(int socket, const struct source_ops *ops, struct source *source)
{
	struct loader_message message = {.type = LOADER_MSG_READY};
	struct error why_not = {0};
	int fd = catalog_memfd(ops->catalog(source), &message.ready.catalog_bytes);
	int err;

	if (fd < 0)
		return fd;
	snprintf(message.ready.source, sizeof(message.ready.source), "%s", ops->name);
	message.ready.adopted = ops->adopted && ops->adopted(source, &why_not);
	if (!message.ready.adopted && why_not.code[0])
		describe(&message.ready.why_not, -ESTALE, &why_not);
	err = loader_message_send(socket, &message, &fd, 1);
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
		ops->stats(source, &message.stats);
		break;
	default:
		return -EPROTO;
	}
	return loader_message_send(socket, &message, NULL, 0);
}

static int serve(int socket, const struct source_ops *ops, struct source *source)
{
	bool finish_told = !ops->finished;

	for (;;) {
		struct pollfd poll_fd[] = {
			{.fd = socket, .events = POLLIN},
			{.fd = ops->unsettled ? ops->unsettled(source) : -1, .events = POLLIN},
		};
		struct loader_message message;
		int fds[LOADER_MESSAGE_FDS_MAX], err;
		unsigned n;

		err = poll(poll_fd, 2, finish_told ? -1 : FINISH_POLL_MS);
		if (err < 0 && errno != EINTR)
			return -errno;
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

int loader_serve(int socket, const char *name, struct source_config *config,
		 struct activation *kept)
{
	struct source_store store = {
		.kept = kept, .keep = keep, .drop = drop, .context = &socket,
	};
	const struct source_ops *ops = NULL;
	struct source *source = NULL;
	struct error error = {0};
	int err;

	/* The engine decides when it is over, and says so by closing the socket. */
	signal(SIGINT, SIG_IGN);
	signal(SIGTERM, SIG_IGN);
	signal(SIGHUP, SIG_IGN);
	signal(SIGPIPE, SIG_IGN);
	prctl(PR_SET_NAME, "ringtail-loader");

	config->store = kept ? &store : NULL;
	err = open_source(name, config, &ops, &source, &error);
	if (kept)
		drop_rest(&store);
	if (err) {
		struct loader_message message = {.type = LOADER_MSG_FAILED};

		describe(&message.failed, err, &error);
		loader_message_send(socket, &message, NULL, 0);
		return EXIT_FAILURE;
	}
	/* An empty network namespace; without CAP_SYS_ADMIN there is nothing to leave it with. */
	if (unshare(CLONE_NEWNET) != 0 && errno != EPERM)
		fprintf(stderr, "ringtaild: loader: unshare: %s\n", strerror(errno));
	drop_capabilities();
	err = sandbox_loader(&error);
	if (err)
		fprintf(stderr, "ringtaild: loader: %s\n", error.what);
	if (!err)
		err = send_rings(socket, ops, source);
	if (!err)
		err = send_ready(socket, ops, source);
	if (!err)
		err = serve(socket, ops, source);
	ops->close(source);
	return err == 0 || err == -EPIPE || err == -ECONNRESET ? EXIT_SUCCESS : EXIT_FAILURE;
}
