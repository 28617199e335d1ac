#include "client/cli/fleet_ask.h"

#include <errno.h>

#include "client/lib/failure.h"
#include "client/lib/limits.h"

static int ask_more(struct request *request, struct fleet *fleet, struct ringtail_error *error)
{
	Ringtail__V1__HostsRequest message = RINGTAIL__V1__HOSTS_REQUEST__INIT;
	const uint8_t *body;
	size_t bytes;
	int err;

	message.after = (char *)fleet_last_name(fleet);
	err = request_send(request, FRAME_HOSTS_REQUEST, &message.base, error);
	if (!err)
		err = request_wait(request, FRAME_HOSTS, REPLY_TIMEOUT_MS, &body, &bytes, error);
	return err ? err : fleet_take(fleet, body, bytes, error);
}

int fleet_ask(struct request *request, struct fleet *fleet, struct ringtail_error *error)
{
	int err;

	*fleet = (struct fleet){ 0 };
	if (!request_host(request)->has_hosts) {
		failure_set(error, EOPNOTSUPP, "daemon-too-old", "%s does not say which hosts a relay knows",
			    request_host(request)->software);
		failure_hint(error, "install this tracectl's release of ringtaild there");
		return -EOPNOTSUPP;
	}
	do
		err = ask_more(request, fleet, error);
	while (!err && fleet->sum->more);
	fleet_sort(fleet);
	return err;
}
