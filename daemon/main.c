/*
 * ringtaild: reads its configuration, and runs the engine, or prints what was asked for.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/log.h"
#include "daemon/engine.h"
#include "daemon/host/machine.h"
#include "proto/build.h"

#define EXIT_USAGE 2
#define PRINTED_BYTES_MAX (64u << 10)	/* of --help, the largest there is, and far beyond it */

/* What is printed fits into stdout's buffer, so that all of it is written, and can fail, in one place. */
static void buffer_stdout(void)
{
	static char buffer[PRINTED_BYTES_MAX];

	setvbuf(stdout, buffer, _IOFBF, sizeof(buffer));
}

/* What was printed is there, or it is said that it is not. Returns the exit status. */
static int check_printed(void)
{
	struct error error = {0};

	errno = 0;
	if (fflush(stdout) == 0 && !ferror(stdout))
		return EXIT_SUCCESS;
	error_set(&error, errno, "cannot-write", "cannot write: %s", strerror(errno ? errno : EIO));
	log_failure(LOG_LEVEL_ERROR, &error);
	return EXIT_FAILURE;
}

static int refuse(int err, const struct error *error)
{
	log_failure(LOG_LEVEL_ERROR, error);
	return err == -EINVAL ? EXIT_USAGE : EXIT_FAILURE;
}

static int check(const struct config *config)
{
	struct error error = {0};
	int err = engine_check(config, &error);

	if (err)
		return refuse(err, &error);
	config_print(config, stdout);
	return check_printed();
}

int main(int argc, char **argv)
{
	struct config config = {0};
	struct error error = {0};
	int err, status;

	buffer_stdout();
	machine_read_users(NULL);
	err = config_parse_args(argc, argv, &config, &error);
	if (!err && !config.help && !config.version && !config.check_config)
		return engine_run(&config, argc, argv);
	if (err) {
		status = refuse(err, &error);
	} else if (config.help) {
		config_help(stdout);
		status = check_printed();
	} else if (config.version) {
		build_print(stdout, "ringtaild");
		status = check_printed();
	} else {
		status = check(&config);
	}
	config_free(&config);
	return status;
}
