/* loader: the engine's end; see loader.h. */
#include "daemon/source/loader.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/base/clock.h"
#include "daemon/base/limits.h"
#include "daemon/source/loader_message.h"
#include "daemon/base/log.h"
#include "daemon/host/service_manager.h"
#include "proto/message.h"
#include "query/message_text.h"

/* The kernel attaches one program at a time, whoever asks, and waits between them for every CPU. The
 * service manager waits for 60 s in all (TimeoutStartSec): before that, it is said what is wrong. */
#define LOADER_OPEN_MS		50000
#define LOADER_END_MS		10000	/* it detaches its programs; then nobody waits any more */
#define CATALOG_BYTES_MAX	(16u << 20)
#define REPORTS_MAX		8	/* one configuration, one answer to each question, the end */

struct loader {
	int socket;
	pid_t pid;
	bool gone;
	bool asked;			/* for stats, and not answered yet */
	char source[16];
	Ringtail__V1__Catalog *catalog;
	unsigned rings;
	struct ring_handle ring[RINGS_MAX];
	bool adopted;
	bool keeps;			/* its source has handed something over for a next run */
	struct service_manager *manager;/* NULL: there is none */

	/* What can be made. */
	char providers[LOADER_PROVIDERS_BYTES];
	int offers;			/* a Catalog, packed; -1: none */
	uint64_t offers_bytes;
	void (*made)(void *context, const Ringtail__V1__Probe *probe);
	void *made_context;
	unsigned reports;		/* came while an answer was waited for */
	struct loader_report report[REPORTS_MAX];
};

const struct source_ops *source_by_name(const char *name)
{
	static const struct source_ops *const all[] = {&source_bpf, &source_kmod, &source_none,
							&source_replay};

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		if (strcmp(all[i]->name, name) == 0)
			return all[i];
	return NULL;
}

static int failure_to_error(const struct loader_failure *failure, struct error *error)
{
	error->column = 0;
	memcpy(error->code, failure->code, sizeof(error->code));
	memcpy(error->what, failure->what, sizeof(error->what));
	memcpy(error->hint, failure->hint, sizeof(error->hint));
	return failure->err;
}

static void close_all(const int *fds, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		close(fds[i]);
}

static int take_ring(struct loader *loader, const struct ring_handle *ring, const int *fds,
		     unsigned n, struct error *error)
{
	struct ring_handle *mine;

	if (loader->rings == RINGS_MAX) {
		close_all(fds, n);
		return error_set(error, EPROTO, "loader-protocol",
				 "the loader sent more than %u rings", loader->rings);
	}
	mine = &loader->ring[loader->rings++];
	*mine = *ring;
	mine->ring_fd = fds[0];
	mine->consumer_fd = fds[1];
	mine->bell_fd = fds[2];
	return 0;
}

int loader_add_ring(struct loader *loader, const struct ring_handle *ring, struct error *error)
{
	int fds[] = {dup(ring->ring_fd), dup(ring->consumer_fd), dup(ring->bell_fd)};

	if (fds[0] >= 0 && fds[1] >= 0 && fds[2] >= 0)
		return take_ring(loader, ring, fds, 3, error);
	for (unsigned i = 0; i < 3; i++)
		if (fds[i] >= 0)
			close(fds[i]);
	return error_set(error, EMFILE, "ring-descriptors", "cannot copy the descriptors of a ring");
}

/* A packed Catalog of a descriptor; NULL with *error. */
static Ringtail__V1__Catalog *unpack_catalog(uint64_t bytes, int fd, struct error *error)
{
	struct message_text_place place;
	Ringtail__V1__Catalog *catalog;
	void *map;

	if (bytes > CATALOG_BYTES_MAX) {
		error_set(error, EPROTO, "loader-protocol", "the loader sent a catalog of %llu bytes",
			  (unsigned long long)bytes);
		return NULL;
	}
	map = bytes ? mmap(NULL, bytes, PROT_READ, MAP_PRIVATE, fd, 0) : NULL;
	if (map == MAP_FAILED) {
		error_set(error, errno, "out-of-memory", "cannot map the catalog: %s",
			  strerror(errno));
		return NULL;
	}
	catalog = message_unpack(&ringtail__v1__catalog__descriptor, NULL, map, bytes);
	if (map)
		munmap(map, bytes);
	if (catalog && message_text_is_visible(&catalog->base, &place))
		return catalog;
	if (catalog)
		ringtail__v1__catalog__free_unpacked(catalog, NULL);
	error_set(error, EPROTO, "loader-protocol", "the loader's catalog is broken");
	return NULL;
}

static int take_catalog(struct loader *loader, uint64_t bytes, int fd, struct error *error)
{
	Ringtail__V1__Probe **probe;

	/* One source has no probe at all. */
	if (bytes == 0 && strcmp(loader->source, source_none.name) != 0)
		return error_set(error, EPROTO, "loader-protocol", "the loader sent no catalog");
	loader->catalog = unpack_catalog(bytes, fd, error);
	if (!loader->catalog)
		return -EPROTO;
	/* Those that will be made join it without moving it. */
	probe = realloc(loader->catalog->probe,
			(loader->catalog->n_probe + PROBES_MADE_MAX + PROGRAM_PROBES_MAX) *
				sizeof(struct Ringtail__V1__Probe *));
	if (!probe)
		return error_set(error, ENOMEM, "out-of-memory", "no memory for the catalog");
	loader->catalog->probe = probe;
	return 0;
}

/* ---- Probes that are made ------------------------------------------------------------------------ */

static bool is_new(const struct loader *loader, const Ringtail__V1__Probe *probe)
{
	const Ringtail__V1__Catalog *catalog = loader->catalog;

	if (probe->id < RT_PROBE_MADE || probe->id >= RT_PROBE_PROGRAM ||
	    probe->n_field > PROBE_FIELDS_MAX)
		return false;
	for (size_t i = catalog->n_probe; i-- && catalog->probe[i]->id >= RT_PROBE_MADE;)
		if (catalog->probe[i]->id == probe->id)
			return false;
	return true;
}

static void join(struct loader *loader, Ringtail__V1__Probe *probe)
{
	loader->catalog->probe[loader->catalog->n_probe++] = probe;
	if (loader->made)
		loader->made(loader->made_context, probe);
}

int loader_join(struct loader *loader, Ringtail__V1__Probe *probe)
{
	if (probe->id < RT_PROBE_PROGRAM || probe->id >= RT_PROBE_MAX || probe->n_field > PROBE_FIELDS_MAX) {
		ringtail__v1__probe__free_unpacked(probe, NULL);
		return -ENOSPC;
	}
	join(loader, probe);
	return 0;
}

/* A loader that was taken over must not be able to make two probes of one number. */
static int add_made(struct loader *loader, uint64_t bytes, int fd, struct error *error)
{
	Ringtail__V1__Catalog *fresh = unpack_catalog(bytes, fd, error);
	int err = fresh ? 0 : -EPROTO;

	for (size_t i = 0; fresh && i < fresh->n_probe; i++) {
		Ringtail__V1__Probe *probe = fresh->probe[i];

		if (!is_new(loader, probe)) {
			err = error_set(error, EPROTO, "loader-protocol",
					"the loader made a probe with the number %u", probe->id);
			continue;
		}
		fresh->probe[i] = NULL;
		join(loader, probe);
	}
	for (size_t i = 0; fresh && i < fresh->n_probe; i++)
		if (fresh->probe[i])
			ringtail__v1__probe__free_unpacked(fresh->probe[i], NULL);
	if (fresh) {
		fresh->n_probe = 0;
		ringtail__v1__catalog__free_unpacked(fresh, NULL);
	}
	return err;
}

static void take_made(struct loader *loader, const struct loader_message *message, const int *fds,
		      unsigned n, struct loader_report *report)
{
	report->event = LOADER_MADE;
	memcpy(report->spec, message->made.spec, sizeof(report->spec));
	report->err = failure_to_error(&message->made.failure, &report->error);
	if (n && !report->err)
		report->err = add_made(loader, message->made.bytes, fds[0], &report->error);
	else if (n)
		add_made(loader, message->made.bytes, fds[0], &(struct error){0});
}

bool loader_can_make(const struct loader *loader, const char *spec)
{
	size_t bytes = strcspn(spec, ":");

	for (const char *at = loader->providers; *at; at += strspn(at, " ")) {
		size_t length = strcspn(at, " ");

		if (length == bytes && memcmp(at, spec, bytes) == 0)
			return true;
		at += length;
	}
	return false;
}

Ringtail__V1__Catalog *loader_offers(const struct loader *loader)
{
	struct error ignored;

	return unpack_catalog(loader->offers_bytes, loader->offers, &ignored);
}

void loader_on_made(struct loader *loader, void (*made)(void *context, const Ringtail__V1__Probe *probe),
		    void *context)
{
	loader->made = made;
	loader->made_context = context;
}

/* Of the two messages that are for the service manager. Not to be kept is no failure yet. */
static void take_store(struct loader *loader, struct loader_message *message, const int *fds,
		       unsigned n)
{
	int err;

	if (message->type == LOADER_MSG_KEEP) {
		err = service_manager_store(loader->manager, message->name, fds[0]);
		loader->keeps = true;
	} else {
		err = service_manager_drop(loader->manager, message->name, n ? fds[0] : -1);
	}
	if (err)
		log_warn("store-failed",
			 "the service manager does not take '%s': %s; a restart may lose events",
			 message->name, strerror(-err));
	close_all(fds, n);
}

static void tell_adopted(struct loader *loader, const struct loader_message *message)
{
	struct error why_not = {0};

	loader->adopted = message->ready.adopted;
	if (loader->adopted)
		log_info("restart-adopted",
			 "continuing with the %u rings of the previous run, which the kernel went on filling",
			 loader->rings);
	else if (failure_to_error(&message->ready.why_not, &why_not))
		log_warn(why_not.code,
			 "beginning with fresh rings, so clients cannot resume: %s", why_not.what);
}

/* One message of the opening; 1 when it was the last, 0 when more come. */
static int take_opening(struct loader *loader, struct error *error)
{
	struct pollfd poll_fd = {.fd = loader->socket, .events = POLLIN};
	struct loader_message message;
	int fds[LOADER_MESSAGE_FDS_MAX], err;
	unsigned n = 0;

	if (poll(&poll_fd, 1, LOADER_OPEN_MS) == 0)
		return error_set(error, ETIMEDOUT, "loader-timeout",
				 "the source did not open within %d s", LOADER_OPEN_MS / 1000);
	err = loader_message_receive(loader->socket, LOADER_END_LOADER, &message, fds, &n, 0);
	if (err == 0)
		return error_set(error, ECHILD, "loader-died",
				 "the loader process ended while it opened the source");
	if (err < 0)
		return error_set(error, -err, "loader-protocol", "cannot hear the loader: %s",
				 strerror(-err));
	switch (message.type) {
	case LOADER_MSG_KEEP:
	case LOADER_MSG_DROP:
		take_store(loader, &message, fds, n);
		return 0;
	case LOADER_MSG_RING:
		return take_ring(loader, &message.ring, fds, n, error);
	case LOADER_MSG_FAILED:
		return failure_to_error(&message.failed, error);
	case LOADER_MSG_READY:
		snprintf(loader->source, sizeof(loader->source), "%s", message.ready.source);
		memcpy(loader->providers, message.ready.providers, sizeof(loader->providers));
		loader->offers_bytes = message.ready.offers_bytes;
		loader->offers = fds[1];
		err = take_catalog(loader, message.ready.catalog_bytes, fds[0], error);
		close(fds[0]);
		if (!err)
			tell_adopted(loader, &message);
		return err ? err : 1;
	default:
		return error_set(error, EPROTO, "loader-protocol",
				 "the loader sent message %u while it opened the source", message.type);
	}
}

static bool is_source(const struct activation_fd *entry)
{
	return entry->fd >= 0 && strncmp(entry->name, SOURCE_NAMES, strlen(SOURCE_NAMES)) == 0;
}

/* The lowest descriptor from `low` on that is the loader's: its socket, or of a source; -1: none. */
static int next_kept(int low, int socket, const struct activation *kept)
{
	int next = socket >= low ? socket : -1;

	for (unsigned i = 0; kept && i < kept->count; i++) {
		int fd = is_source(&kept->entry[i]) ? kept->entry[i].fd : -1;

		if (fd >= low && (next < 0 || fd < next))
			next = fd;
	}
	return next;
}

/* The loader shall have nothing of the engine's: no listening socket, not the other end. */
static void keep_only(int socket, struct activation *kept)
{
	int low = STDERR_FILENO + 1, next;

	while ((next = next_kept(low, socket, kept)) >= 0) {
		if (next > low)
			close_range((unsigned)low, (unsigned)next - 1, 0);
		low = next + 1;
	}
	close_range((unsigned)low, UINT_MAX, 0);
	for (unsigned i = 0; kept && i < kept->count; i++)
		if (!is_source(&kept->entry[i]))
			kept->entry[i].fd = -1;
}

/* And the engine nothing of a source's: what it needs comes with the rings. */
static void forget_sources(struct activation *kept)
{
	int fd;

	while ((fd = activation_next(kept, SOURCE_NAMES "*", NULL)) >= 0)
		close(fd);
}

static void exclude_self(struct source_config *config, pid_t loader, pid_t engine)
{
	config->excluded_pids[0] = (uint32_t)engine;
	config->excluded_pids[1] = (uint32_t)loader;
}

/* In the child. */
static int serve(int socket, const char *name, struct source_config *config,
		 const struct loader_keeper *keeper)
{
	struct activation *kept = keeper ? keeper->activation : NULL;

	keep_only(socket, kept);
	return loader_serve(socket, name, config, keeper && keeper->manager ? kept : NULL);
}

/* PROC_PID_INIT_INO of the kernel: no other namespace of pids has this name. */
#define HOST_PID_NAMESPACE "pid:[4026531836]"

/*
 * The kernel knows processes by the host's pids. In a namespace of its own the daemon does not know its pid
 * there, so it cannot leave its own calls out. Where nobody can tell (no /proc), it is the host's.
 */
static int check_pid_namespace(struct error *error)
{
	char own[sizeof(HOST_PID_NAMESPACE) + 16];
	ssize_t bytes = readlink("/proc/self/ns/pid", own, sizeof(own));

	if (bytes < 0 || ((size_t)bytes == strlen(HOST_PID_NAMESPACE) &&
			  !memcmp(own, HOST_PID_NAMESPACE, (size_t)bytes)))
		return 0;
	error_set(error, EPERM, "pid-namespace", "this process has a PID namespace of its own, as in a container: "
		  "it would record its own calls, and clients' filters by pid would choose other processes");
	error_hint(error, "start the container with --pid=host (Kubernetes: hostPID: true); to start all the same, "
		   "set trace-self = yes");
	return -EPERM;
}

int loader_start(const char *name, struct source_config *config, bool trace_self,
		 const struct loader_keeper *keeper, struct loader **loader_out,
		 struct error *error)
{
	int sockets[2], err = trace_self ? 0 : check_pid_namespace(error);
	struct loader *loader;
	pid_t engine = getpid();

	if (err)
		return err;
	loader = calloc(1, sizeof(*loader));
	if (!loader)
		return error_set(error, ENOMEM, "out-of-memory", "out of memory");
	loader->offers = -1;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) != 0) {
		err = error_set(error, errno, "loader-socket", "socketpair: %s", strerror(errno));
		goto free_loader;
	}
	loader->pid = fork();
	if (loader->pid < 0) {
		err = error_set(error, errno, "loader-fork", "cannot fork the loader: %s",
				strerror(errno));
		close(sockets[0]);
		close(sockets[1]);
		goto free_loader;
	}
	if (loader->pid == 0) {
		if (!trace_self)
			exclude_self(config, getpid(), engine);
		_exit(serve(sockets[1], name, config, keeper));
	}
	if (keeper) {
		loader->manager = keeper->manager;
		forget_sources(keeper->activation);
	}
	close(sockets[1]);
	loader->socket = sockets[0];
	do {
		err = take_opening(loader, error);
	} while (err == 0);
	if (err < 0) {
		loader_stop(loader);
		return err;
	}
	*loader_out = loader;
	return 0;

free_loader:
	free(loader);
	return err;
}

/* Its end of the socket closes as it exits. One that hangs we may no longer be allowed to kill. */
static void await_end(struct loader *loader)
{
	struct pollfd end = {.fd = loader->socket};	/* POLLHUP comes unasked */

	shutdown(loader->socket, SHUT_WR);
	if (poll(&end, 1, LOADER_END_MS) <= 0 && kill(loader->pid, SIGKILL) != 0) {
		log_warn("loader-stuck", "the loader, process %d, does not exit", loader->pid);
		return;
	}
	while (waitpid(loader->pid, NULL, 0) < 0 && errno == EINTR)
		;
}

void loader_stop(struct loader *loader)
{
	if (!loader)
		return;
	await_end(loader);
	close(loader->socket);
	for (unsigned i = 0; i < loader->rings; i++) {
		close(loader->ring[i].ring_fd);
		close(loader->ring[i].consumer_fd);
		close(loader->ring[i].bell_fd);
	}
	if (loader->offers >= 0)
		close(loader->offers);
	if (loader->catalog)
		ringtail__v1__catalog__free_unpacked(loader->catalog, NULL);
	free(loader);
}

int loader_configure(struct loader *loader, const struct source_request *request)
{
	struct loader_message message = {.type = LOADER_MSG_CONFIGURE, .configure = *request};

	return loader->gone ? -EPIPE : loader_message_send(loader->socket, &message, NULL, 0);
}

int loader_joined(struct loader *loader)
{
	struct loader_message message = {.type = LOADER_MSG_JOINED};

	return loader->gone ? -EPIPE : loader_message_send(loader->socket, &message, NULL, 0);
}

int loader_ask_stats(struct loader *loader)
{
	struct loader_message message = {.type = LOADER_MSG_ASK_STATS};
	int err;

	/* One question at a time: the socket can never fill up, so that both ends would wait. */
	if (loader->asked)
		return 0;
	err = loader->gone ? -EPIPE : loader_message_send(loader->socket, &message, NULL, 0);
	loader->asked = !err;
	return err;
}

int loader_make(struct loader *loader, const char *spec)
{
	struct loader_message message = {.type = LOADER_MSG_MAKE};

	if (strlen(spec) >= sizeof(message.make))
		return -EINVAL;
	strcpy(message.make, spec);
	return loader->gone ? -EPIPE : loader_message_send(loader->socket, &message, NULL, 0);
}

int loader_ask_stuck(struct loader *loader, uint64_t longer_than_ns)
{
	struct loader_message message = {.type = LOADER_MSG_ASK_STUCK,
					 .stuck_longer_than_ns = longer_than_ns};

	return loader->gone ? -EPIPE : loader_message_send(loader->socket, &message, NULL, 0);
}

/* A failure comes without a file, everything else with one. False: it is neither. */
static bool take_stuck(const struct loader_message *message, int fd, struct loader_report *report)
{
	if ((fd < 0) != (message->stuck.failure.err < 0))
		return false;
	report->event = LOADER_STUCK;
	report->err = failure_to_error(&message->stuck.failure, &report->error);
	report->stuck = message->stuck.answer;
	report->fd = fd;
	return true;
}

/* What comes without a question, and is no report. */
static bool take_unasked(struct loader *loader, struct loader_message *message, const int *fds, unsigned n)
{
	struct error error;

	switch (message->type) {
	case LOADER_MSG_KEEP:
	case LOADER_MSG_DROP:
		take_store(loader, message, fds, n);
		return true;
	case LOADER_MSG_ARRIVED:
		if (add_made(loader, message->arrived_bytes, fds[0], &error) != 0)
			log_failure(LOG_LEVEL_ERROR, &error);
		close_all(fds, n);
		return true;
	default:
		return false;
	}
}

/* One report off the socket. */
static int receive(struct loader *loader, struct loader_report *report)
{
	struct loader_message message;
	int fds[LOADER_MESSAGE_FDS_MAX], err;
	unsigned n;

	*report = (struct loader_report){.event = LOADER_GONE, .fd = -1};
	if (loader->gone)
		return -EAGAIN;
	do {
		err = loader_message_receive(loader->socket, LOADER_END_LOADER, &message, fds, &n, MSG_DONTWAIT);
	} while (err == 1 && take_unasked(loader, &message, fds, n));
	if (err == -EAGAIN)
		return err;
	if (err == 1 && message.type == LOADER_MSG_MADE)
		take_made(loader, &message, fds, n, report);
	if (err == 1 && message.type == LOADER_MSG_STUCK &&
	    take_stuck(&message, n ? fds[0] : -1, report))
		return 0;
	close_all(fds, n);
	if (err == 1 && message.type == LOADER_MSG_CONFIGURED) {
		report->event = LOADER_CONFIGURED;
		report->generation = message.configured.generation;
		report->err = failure_to_error(&message.configured.failure, &report->error);
	} else if (err == 1 && message.type == LOADER_MSG_STATS) {
		report->event = LOADER_STATS;
		loader->asked = false;
		report->stats = message.stats.figures;
		report->err = message.stats.err;
	} else if (err == 1 && message.type == LOADER_MSG_FINISHED) {
		report->event = LOADER_FINISHED;
	} else if (report->event == LOADER_GONE) {
		loader->gone = true;
	}
	return 0;
}

int loader_receive(struct loader *loader, struct loader_report *report)
{
	if (!loader->reports)
		return receive(loader, report);
	*report = loader->report[0];
	memmove(loader->report, loader->report + 1, --loader->reports * sizeof(*report));
	return 0;
}

int loader_make_now(struct loader *loader, const char *spec, bool *pending, struct error *error)
{
	uint64_t until_ns = clock_monotonic() + MAKE_NS_MAX;
	int err = loader_make(loader, spec);
	struct loader_report report;

	while (!err && loader->reports < REPORTS_MAX) {
		struct pollfd poll_fd = {.fd = loader->socket, .events = POLLIN};
		uint64_t now_ns = clock_monotonic();

		err = receive(loader, &report);
		if (err == -EAGAIN) {
			if (now_ns >= until_ns || loader->gone)
				break;
			err = 0;
			poll(&poll_fd, 1, (int)((until_ns - now_ns) / 1000000 + 1));
			continue;
		}
		if (report.event == LOADER_MADE && strcmp(report.spec, spec) == 0) {
			*error = report.error;
			return report.err;
		}
		loader->report[loader->reports++] = report;
		*pending = true;
		if (report.event == LOADER_GONE)
			break;
	}
	error_set(error, ETIMEDOUT, "probe-not-made", "the loader process does not answer about `%.256s`",
		  spec);
	error_hint(error, "see the log of ringtaild");
	return -ETIMEDOUT;
}

bool loader_adopted(const struct loader *loader)
{
	return loader->adopted;
}

bool loader_keeps(const struct loader *loader)
{
	return loader->adopted || loader->keeps;
}

int loader_fd(const struct loader *loader)
{
	return loader->socket;
}

pid_t loader_pid(const struct loader *loader)
{
	return loader->pid;
}

const char *loader_source_name(const struct loader *loader)
{
	return loader->source;
}

const Ringtail__V1__Catalog *loader_catalog(const struct loader *loader)
{
	return loader->catalog;
}

unsigned loader_rings(const struct loader *loader)
{
	return loader->rings;
}

const struct ring_handle *loader_ring(const struct loader *loader, unsigned i)
{
	return &loader->ring[i];
}
