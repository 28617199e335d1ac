/*
 * ringtail-courier: reads its options, gives up what it does not need, and carries frames to Kafka.
 */
#include <grp.h>
#include <pwd.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "courier/courier.h"
#include "courier/notice.h"
#include "courier/relayed.h"
#include "courier/courier_options.h"
#include "daemon/host/privileges.h"
#include "daemon/host/resolver.h"
#include "daemon/host/sandbox.h"
#include "proto/build.h"

#define EXIT_USAGE 2

/* For librdkafka's threads, too: they are made later. A pipe that broke is an error of a write(2). */
static void block_signals(void)
{
	sigset_t signals;

	sigemptyset(&signals);
	sigaddset(&signals, SIGTERM);
	sigaddset(&signals, SIGINT);
	sigaddset(&signals, SIGUSR1);
	sigprocmask(SIG_BLOCK, &signals, NULL);
	signal(SIGPIPE, SIG_IGN);
}

/* Its own user, no capabilities, and the system calls of its work: before it speaks with anybody. */
static int enclose(const struct courier_options *options, struct error *error)
{
	const struct rlimit no_core = { 0 };
	const struct group *group = getgrnam("ringtail");
	struct account account;
	int err = privileges_find(options->user ? options->user : "ringtail-courier", &account, error);

	if (err)
		return err;
	/* Its members may connect to the daemon's socket. */
	if (geteuid() == 0 && !options->user && group)
		account.gid = group->gr_gid;
	setrlimit(RLIMIT_CORE, &no_core);	/* it has passwords in its memory */
	getpwnam(" ");
	resolver_load();
	err = privileges_drop(&account, error);
	if (!err && !SANDBOX_FILTERS)
		notice_warn("sandbox-off", "built with sanitizers: system calls are not filtered");
	return err ? err : sandbox_courier(error);
}

static void trust(const struct courier_options *options)
{
	static struct ringtail_trust given;

	given = (struct ringtail_trust){
		.ca = options->ca,
		.cert = options->cert,
		.key = options->key,
		.token_file = options->token_file,
		.server_name = options->server_name,
		.insecure = options->insecure,
	};
	ringtail_set_trust(&given);
}

static void tell_ready(const struct courier_settings *settings)
{
	notice_info("ready", "carrying frames to %s.frames of %s", settings->kafka.prefix, settings->kafka.brokers);
}

static int carry_relayed(const struct courier_options *options)
{
	struct ringtail_error error = { 0 };
	struct relayed *relayed = NULL;
	int err = relayed_create(&options->settings, &relayed, &error);

	if (!err) {
		tell_ready(&options->settings);
		err = relayed_run(relayed, stdout, &error);
	}
	if (err)
		notice_failure(&error);
	relayed_destroy(relayed);
	return err ? EXIT_FAILURE : EXIT_SUCCESS;
}

static int carry(const struct courier_options *options)
{
	struct ringtail_error error = { 0 };
	struct courier *courier = NULL;
	int err = courier_create(&options->settings, &courier, &error);

	if (!err) {
		tell_ready(&options->settings);
		err = courier_run(courier, stdout, &error);
	}
	if (err)
		notice_failure(&error);
	courier_destroy(courier);
	return err ? EXIT_FAILURE : EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
	static struct courier_options options;
	struct ringtail_error error = { 0 };
	struct error why = { 0 };

	notice_open("ringtail-courier");
	if (courier_options_parse(argc, argv, &options, &error)) {
		notice_failure(&error);
		return EXIT_USAGE;
	}
	if (options.help || options.version) {
		if (options.help)
			courier_options_help(stdout);
		else
			build_print(stdout, "ringtail-courier");
		return fflush(stdout) ? EXIT_FAILURE : EXIT_SUCCESS;
	}
	block_signals();
	if (enclose(&options, &why)) {
		notice_error(&why);
		return EXIT_FAILURE;
	}
	trust(&options);
	return options.settings.relay ? carry_relayed(&options) : carry(&options);
}
