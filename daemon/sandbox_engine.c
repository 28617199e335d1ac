#include "daemon/sandbox_engine.h"

#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <string.h>
#include <unistd.h>

#include "daemon/base/log.h"
#include "daemon/host/resolver.h"
#include "daemon/host/sandbox.h"
#include "daemon/trigger/rule.h"

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

/* Rules name users and groups; the journal and the manager are told things. */
static const char *const always[] = {
	"/etc/passwd", "/etc/group", "/etc/nsswitch.conf", "/etc/localtime",
	"/proc/self/statm", "/run/systemd/journal", "/run/systemd/notify",
};

static int make_state_directory(const char *path, const struct account *account,
				struct error *error)
{
	int err = privileges_make_directory(account, path, 0700);

	if (!err)
		return 0;
	error_set(error, -err, "state-dir", "cannot make %s for its user (uid %u): %s", path,
		  account->uid, strerror(-err));
	error_hint(error, "make it, mode 0700, and give it to that user; or give another with"
		   " --state-dir");
	return err;
}

/* Back ends are looked up by name, and their certificates verified. */
static const char *const exports[] = {
	"/etc/hosts", "/etc/resolv.conf", "/etc/gai.conf", "/etc/ssl", "/etc/ca-certificates",
	"/usr/share/ca-certificates", "/usr/local/share/ca-certificates", "/run/systemd/resolve",
};

static int add_all(struct sandbox_view *view, const char *const *path, size_t paths,
		   enum sandbox_access access)
{
	int err = 0;

	for (size_t i = 0; !err && i < paths; i++)
		err = sandbox_view_add(view, path[i], access);
	return err;
}

/* Files that are read again at a reload. */
static int add_files(struct sandbox_view *view, const struct config *config)
{
	const char *const file[] = {
		config->config, config->tls_cert, config->tls_key, config->tls_client_ca,
		config->tls_crl, config->tokens, config->relay_ca,
	};
	int err = 0;

	for (size_t i = 0; !err && i < LENGTH(file); i++)
		if (file[i])
			err = sandbox_view_add_file(view, file[i], SANDBOX_READ);
	return err;
}

/* A unix socket's file is removed at the end. */
static int add_sockets(struct sandbox_view *view, const struct config *config)
{
	int err = config->programs ? sandbox_view_add_file(view, config->programs, SANDBOX_WRITE) : 0;

	for (unsigned i = 0; !err && i < config->listen.count; i++)
		if (address_is_unix(&config->listen.address[i]))
			err = sandbox_view_add_file(
				view, address_path(&config->listen.address[i]), SANDBOX_WRITE);
	return err;
}

bool sandbox_engine_connects(const struct config *config)
{
	return config->export.count || config->relay.count || trigger_rules_call(&config->on);
}

/* Whatever looks names up is loaded for it now. */
static void load_names(const struct config *config)
{
	getpwnam(" ");
	getgrnam(" ");
	if (config->export.count || trigger_rules_call(&config->on))
		resolver_load();
}

int sandbox_engine_view(const struct config *config, const struct account *account,
			struct error *error)
{
	struct sandbox_view view = {0};
	int err;

	load_names(config);
	if (geteuid() != 0) {
		err = sandbox_view_of_unit("engine", error);
		return err < 0 ? err : 0;
	}
	err = make_state_directory(config->state_dir, account, error);
	if (err)
		return err;
	err = sandbox_view_add(&view, config->state_dir, SANDBOX_WRITE);
	if (!err)
		err = add_files(&view, config);
	if (!err)
		err = add_sockets(&view, config);
	if (!err)
		err = add_all(&view, always, LENGTH(always), SANDBOX_READ);
	if (!err && sandbox_engine_connects(config))
		err = add_all(&view, exports, LENGTH(exports), SANDBOX_READ);
	if (!err && config->export_ca)
		err = sandbox_view_add_file(&view, config->export_ca, SANDBOX_READ);
	/* A sanitizer looks there at the end. */
	if (!err && !SANDBOX_FILTERS)
		err = sandbox_view_add(&view, "/proc", SANDBOX_READ);
	err = err ? error_set(error, -err, "sandbox-view", "too many places to see: %s",
			      strerror(-err))
		  : sandbox_view_enter(&view, error);
	sandbox_view_fini(&view);
	/* A container may not mount, and has a view of its own. */
	if (err != -EPERM && err != -ENOSYS)
		return err;
	error_hint(error, "the engine sees all that its user may see");
	log_failure(LOG_LEVEL_WARNING, error);
	*error = (struct error){0};
	return 0;
}

int sandbox_engine_calls(const struct config *config, pid_t loader, struct error *error)
{
	const struct sandbox_engine engine = {
		.loader = loader,
		.resolves = sandbox_engine_connects(config),
	};

	if (!SANDBOX_FILTERS)
		log_warn("sandbox-off", "built with sanitizers: system calls are not filtered");
	return sandbox_engine(&engine, error);
}
