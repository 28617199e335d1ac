/*
 * service_manager: what is said to the manager that started this process (sd_notify(3)), and the
 * descriptors that it keeps while one run of the daemon follows another.
 *
 * The socket is connected once, so that later neither the path nor the right to it is needed. Its
 * calls are the main thread's. Without NOTIFY_SOCKET each of them does nothing.
 */
#ifndef RINGTAIL_DAEMON_HOST_SERVICE_MANAGER_H
#define RINGTAIL_DAEMON_HOST_SERVICE_MANAGER_H

#include <stdbool.h>

struct service_manager;

/* Connects, as $NOTIFY_SOCKET says. NULL: there is no manager; every call takes that. */
struct service_manager *service_manager_connect(void);
void service_manager_close(struct service_manager *manager);

/* "READY=1" and the like, one assignment a line. 0, or -errno where a manager is there. */
int service_manager_notify(struct service_manager *manager, const char *text);

/*
 * Has the manager keep a copy of the descriptor and hand it to the next run under that name; it does
 * not if it was not told to (FileDescriptorStoreMax=), which service_manager_stores() tells.
 */
int service_manager_store(struct service_manager *manager, const char *name, int fd);

/*
 * Has it let go of all that has that name. `barrier` (-1: none): a pipe's write end, of which it
 * closes its copy once it has done that and everything asked before.
 */
int service_manager_drop(struct service_manager *manager, const char *name, int barrier);

/* Begins to keep a witness in its store: from now on service_manager_stores() knows. */
int service_manager_begin_store(struct service_manager *manager);

/* Whether everything that was to be stored is kept there, as far as can be known. */
bool service_manager_stores(const struct service_manager *manager);

#endif
