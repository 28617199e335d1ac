/*
 * ringtaild: runs the daemon: its parts are made in order (main_start.c) and taken apart in reverse.
 *
 *	loader process --rings--> drain workers --frames--> fanout --> sessions --> clients
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/main_private.h"
#include "daemon/start_check.h"

#define EXIT_USAGE 2
#define PRINTED_BYTES_MAX (64u << 10)	/* of --help, the largest there is, and far beyond it */

static void free_event(struct event *event)
{
	if (event)
		event_free(event);
}

static void finish(struct daemon *daemon)
{
	watchdog_destroy(daemon->watchdog);
	export_feed_destroy(daemon->exports);
	export_targets_free(&daemon->targets);
	metering_stop(daemon->metering);
	server_destroy(daemon->server);
	control_settle(daemon->control);
	/* What the disk has still to answer is about what is there yet. */
	if (daemon->disk_thread)
		disk_thread_settle(daemon->disk_thread);
	for (unsigned i = 0; i < daemon->workers; i++)
		worker_destroy(daemon->worker[i]);
	metering_destroy(daemon->metering);
	fanout_destroy(daemon->fanout);
	consumers_destroy(daemon->consumers);
	spooler_destroy(daemon->spooler);
	disk_thread_destroy(daemon->disk_thread);
	control_destroy(daemon->control);
	free(daemon->cpu_of);
	for (unsigned i = 0; i < daemon->listeners; i++)
		listener_destroy(daemon->listener[i]);
	free_event(daemon->on_term);
	free_event(daemon->on_int);
	free_event(daemon->on_hup);
	free_event(daemon->stop_poll);
	if (daemon->base) {
		struct mail *mail, *next;

		for (mail = mailbox_take(&daemon->mailbox); mail; mail = next) {
			next = mail->next;
			frame_ref_put(((struct worker_mail *)mail)->frame);
			free(mail);
		}
		mailbox_fini(&daemon->mailbox);
		turnstile_destroy(daemon->local);
		turnstile_destroy(daemon->remote);
		event_base_free(daemon->base);
	}
	frame_codec_destroy(daemon->codec);
	if (daemon->disk.ops)
		disk_posix_close(&daemon->disk);
	gate_destroy(daemon->gate);
	loader_stop(daemon->loader);
	thread_journal_close(daemon->threads);
	saved_subscriptions_destroy(daemon->saved);
	service_manager_close(daemon->manager);
	activation_close(&daemon->activation);
	config_free(&daemon->config);
	log_close();
}

static int run(struct daemon *daemon)
{
	struct error error = {0};

	log_open(daemon->config.log_level);
	if (main_start(daemon, &error) != 0) {
		log_failure(LOG_LEVEL_ERROR, &error);
		finish(daemon);
		return EXIT_FAILURE;
	}
	daemon->started = true;
	main_tell_ready(daemon);
	event_base_dispatch(daemon->base);
	finish(daemon);
	return daemon->failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

/* What is printed fits into stdout's buffer, so that all of it is written, and can fail, in one place. */
static void buffer_stdout(void)
{
	static char buffer[PRINTED_BYTES_MAX];

	setvbuf(stdout, buffer, _IOFBF, sizeof(buffer));
}

/* What was printed is there, or it is said that it is not. Returns the exit status. */
static int check_printed(int status)
{
	struct error error = {0};

	errno = 0;
	if (fflush(stdout) == 0 && !ferror(stdout))
		return status;
	error_set(&error, errno, "cannot-write", "cannot write: %s", strerror(errno ? errno : EIO));
	log_failure(LOG_LEVEL_ERROR, &error);
	return EXIT_FAILURE;
}

static int check(const struct config *config)
{
	struct error error = {0};
	int err = start_check(config, &error);

	if (!err) {
		config_print(config, stdout);
		return check_printed(EXIT_SUCCESS);
	}
	log_failure(LOG_LEVEL_ERROR, &error);
	return err == -EINVAL ? EXIT_USAGE : EXIT_FAILURE;
}

int main(int argc, char **argv)
{
	struct daemon *daemon = calloc(1, sizeof(*daemon));
	struct error error = {0};
	int err, status = EXIT_SUCCESS;

	buffer_stdout();
	if (!daemon) {
		fputs("ringtaild: out of memory\n", stderr);
		return EXIT_FAILURE;
	}
	daemon->mailbox.fd = -1;
	daemon->argc = argc;
	daemon->argv = argv;
	err = config_parse_args(argc, argv, &daemon->config, &error);
	if (err) {
		log_failure(LOG_LEVEL_ERROR, &error);
		status = err == -EINVAL ? EXIT_USAGE : EXIT_FAILURE;
	} else if (daemon->config.help) {
		config_help(stdout);
		status = check_printed(status);
	} else if (daemon->config.version) {
		puts("ringtaild " RINGTAIL_VERSION);
		status = check_printed(status);
	} else if (daemon->config.check_config) {
		status = check(&daemon->config);
	} else {
		status = run(daemon);
		free(daemon);
		return status;
	}
	config_free(&daemon->config);
	free(daemon);
	return status;
}
