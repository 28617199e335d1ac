/*
 * cmd_record: the frames of a stream, as they come, to a file.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "client/cli/cmd.h"
#include "client/cli/output.h"
#include "client/lib/failure.h"
#include "proto/frame.h"

/* A file that is there already is kept until the daemon has agreed to the subscription. */
struct recording {
	const char *path;	/* NULL: stdout */
	bool existed;
	bool begun;
};

static struct out out;

static void take_frame(void *context, const uint8_t *frame, size_t bytes)
{
	struct recording *recording = context;
	struct frame_header header;

	if (!recording->begun &&
	    frame_parse_header(frame, bytes, UINT32_MAX, &header) == FRAME_OK &&
	    header.type == FRAME_CATALOG) {
		recording->begun = true;
		out.error = output_empty(out.fd);
	}
	out_bytes(&out, (const char *)frame, bytes);
}

/* Opens what -w names; refuses what a recording would spoil. */
static int open_file(struct recording *recording, const char *command, struct ringtail_error *error)
{
	char hint[96];

	snprintf(hint, sizeof(hint), "name a file, or pipe it: tracectl %s -w - | ...", command);
	if (recording->path)
		recording->existed = access(recording->path, F_OK) == 0;
	return output_open(recording->path, "a recording is no text",
			   hint, error);
}

/* The pump has told what went wrong before; here is what goes wrong at the very end. */
static enum exit_code close_file(const struct recording *recording, enum exit_code code)
{
	struct ringtail_error error;
	int err = 0;

	if (!recording->begun)
		out.used = 0;
	else if (!out_error(&out))
		err = -out_flush(&out);
	if (recording->path && close(out.fd))
		err = errno;
	if (recording->path && !recording->begun && !recording->existed)
		unlink(recording->path);
	if (!err || (err == EPIPE && !recording->path))
		return code;
	failure_set(&error, err, "cannot-write", "cannot write %s: %s",
		    recording->path ? recording->path : "stdout", strerror(err));
	return cmd_fail(&error, NULL);
}

enum exit_code cmd_record_as(const struct settings *settings, const char *command)
{
	enum format format = settings->output ? settings->output : FORMAT_NONE;
	struct recording recording = { 0 };
	const struct cmd_tap tap = { .frame = take_frame, .out = &out, .context = &recording };
	struct ringtail_error error;
	int fd;

	if (!settings->write) {
		failure_set(&error, EINVAL, "no-file", "-w FILE is missing: the file to write");
		return cmd_usage(&error, command);
	}
	if (strcmp(settings->write, "-")) {
		recording.path = settings->write;
	} else if (format != FORMAT_NONE) {
		failure_set(&error, EINVAL, "stdout-twice",
			    "stdout cannot take both the recording and the events");
		return cmd_usage(&error, command);
	}
	fd = open_file(&recording, command, &error);
	if (fd < 0)
		return cmd_fail(&error, NULL);
	out_init(&out, fd);
	return close_file(&recording, cmd_follow(settings, &(struct cmd_view){ .ops = cmd_sink(format) },
						 &tap, command));
}

enum exit_code cmd_record(const struct settings *settings)
{
	return cmd_record_as(settings, "record");
}
