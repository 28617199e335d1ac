#include "client/lib/host.h"

#include <errno.h>
#include <string.h>

#include "client/lib/failure.h"
#include "proto/frame.h"
#include "query/visible.h"

static void copy_text(char *to, size_t bytes, const char *from)
{
	visible_copy(to, bytes, from, strlen(from));
}

int host_from_hello(const Ringtail__V1__ServerHello *hello, struct ringtail_host *host,
		    struct ringtail_error *error)
{
	if (hello->version != FRAME_VERSION) {
		failure_set(error, EBADMSG, "version-mismatch",
			    "the daemon (%.64s) speaks version %u of "
			    "the protocol, this tracectl speaks %u",
			    hello->software, hello->version, FRAME_VERSION);
		failure_hint(error, "install the same release of ringtail on both sides");
		return -EBADMSG;
	}
	if (hello->boot_id.len != sizeof(host->boot_id))
		return failure_set(error, EBADMSG, "bad-message",
				   "the hello has a boot id of %zu bytes, not 16",
				   hello->boot_id.len);
	copy_text(host->hostname, sizeof(host->hostname), hello->hostname);
	copy_text(host->kernel, sizeof(host->kernel), hello->kernel);
	copy_text(host->machine, sizeof(host->machine), hello->machine);
	copy_text(host->software, sizeof(host->software), hello->software);
	copy_text(host->source, sizeof(host->source), hello->source);
	copy_text(host->role, sizeof(host->role), hello->role);
	memcpy(host->boot_id, hello->boot_id.data, sizeof(host->boot_id));
	host->epoch = hello->epoch;
	host->monotonic_ns = hello->monotonic_ns;
	host->realtime_ns = hello->realtime_ns;
	host->version = hello->version;
	host->cpus = hello->cpus;
	host->has_context = false;
	host->has_stuck = host->has_dumps = host->has_fds = host->has_hosts = host->has_counts = false;
	for (size_t i = 0; i < hello->n_feature; i++) {
		host->has_context |= hello->feature[i] == RINGTAIL__V1__FEATURE__FEATURE_CONTEXT;
		host->has_fds |= hello->feature[i] == RINGTAIL__V1__FEATURE__FEATURE_FDS;
		host->has_counts |= hello->feature[i] == RINGTAIL__V1__FEATURE__FEATURE_COUNTS;
		host->has_stuck |= hello->feature[i] == RINGTAIL__V1__FEATURE__FEATURE_STUCK;
		host->has_hosts |= hello->feature[i] == RINGTAIL__V1__FEATURE__FEATURE_HOSTS;
		host->has_dumps |= hello->feature[i] == RINGTAIL__V1__FEATURE__FEATURE_DUMPS;
	}
	return 0;
}

int host_error(const Ringtail__V1__Error *told, struct ringtail_error *error)
{
	failure_set(error, EPROTO, *told->code ? told->code : "unnamed", "%s",
		    *told->what ? told->what : "the daemon refused the request and sent no reason");
	failure_hint(error, "%s", told->hint);
	if (error)
		error->column = told->column;
	return -EPROTO;
}
