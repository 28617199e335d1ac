/*
 * sim_manager: the service manager, which keeps descriptors while one run of the daemon follows another. What it
 * was given it has, whoever is killed then; and whoever gives may be killed before, or after, each of them.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/host/service_manager.h"
#include "tests/sim/sim.h"

#define KEPT_MAX 64u
#define SUBSCRIPTIONS "ringtail.subscriptions."

struct service_manager {
	unsigned n;
	struct activation_fd kept[KEPT_MAX];
};

static struct service_manager the_manager;
static bool refused;

struct service_manager *sim_manager(void)
{
	return sim.manager ? &the_manager : NULL;
}

bool sim_manager_refused(void)
{
	return refused;
}

static void pause_here(void)
{
	if (sim_task_is_running() && sim_chance(50))
		sim_task_yield();
}

void sim_manager_hand_over(struct activation *activation)
{
	*activation = (struct activation){0};
	if (!sim.manager)
		return;
	activation->entry = sim_calloc((the_manager.n + 1) * sizeof(*activation->entry));
	for (unsigned i = 0; i < the_manager.n; i++) {
		struct activation_fd *entry = &activation->entry[activation->count++];

		*entry = the_manager.kept[i];
		entry->fd = fcntl(entry->fd, F_DUPFD_CLOEXEC, 0);
		if (entry->fd < 0)
			sim_fail("the service manager cannot hand %s over", entry->name);
	}
}

/* ---- In the place of daemon/host/service_manager.c --------------------------------------------- */

int __wrap_service_manager_store(struct service_manager *manager, const char *name, int fd);
int __wrap_service_manager_store(struct service_manager *manager, const char *name, int fd)
{
	struct activation_fd *entry = &manager->kept[manager->n];
	bool subscriptions = strncmp(name, SUBSCRIPTIONS, strlen(SUBSCRIPTIONS)) == 0;

	pause_here();
	if (manager->n == KEPT_MAX)
		sim_fail("the service manager keeps %u descriptors, and is asked for another", KEPT_MAX);
	if (subscriptions) {
		refused = sim_chance(3);
		if (refused)
			return -ENOBUFS;
	}
	entry->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	if (entry->fd < 0)
		sim_fail("the service manager cannot keep %s", name);
	snprintf(entry->name, sizeof(entry->name), "%s", name);
	manager->n++;
	pause_here();
	return 0;
}

int __wrap_service_manager_drop(struct service_manager *manager, const char *name, int barrier);
int __wrap_service_manager_drop(struct service_manager *manager, const char *name, int barrier)
{
	(void)barrier;
	pause_here();
	for (unsigned i = manager->n; i-- > 0;)
		if (strcmp(manager->kept[i].name, name) == 0) {
			close(manager->kept[i].fd);
			manager->kept[i] = manager->kept[--manager->n];
		}
	pause_here();
	return 0;
}
