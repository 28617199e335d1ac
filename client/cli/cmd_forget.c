/*
 * cmd_forget: deletes a durable consumer, and what the daemon keeps for it alone.
 */
#include <errno.h>

#include "client/cli/cmd.h"
#include "client/lib/failure.h"
#include "client/lib/limits.h"
#include "client/cli/request.h"
#include "client/cli/stop.h"
#include "proto/ringtail.pb-c.h"

enum exit_code cmd_forget(const struct settings *settings)
{
	Ringtail__V1__Forget message = RINGTAIL__V1__FORGET__INIT;
	struct ringtail_error error;
	struct request *request;
	const uint8_t *body;
	size_t bytes;
	int err;

	if (!settings->operand) {
		failure_set(&error, EINVAL, "no-name", "forget which durable consumer?");
		return cmd_usage(&error, "forget");
	}
	err = request_open(settings->connect.text[0], stop_init(), &request, &error);
	if (err)
		return cmd_fail(&error, NULL);
	message.consumer = (char *)settings->operand;
	err = request_send(request, FRAME_FORGET, &message.base, &error);
	if (!err)
		err = request_wait(request, FRAME_STAT, REPLY_TIMEOUT_MS, &body, &bytes, &error);
	request_close(request);
	return err ? cmd_fail(&error, NULL) : EXIT_GOOD;
}
