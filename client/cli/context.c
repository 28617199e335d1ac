#include "client/cli/context.h"

#include <pwd.h>
#include <string.h>

#include "client/cli/symbols.h"
#include "proto/limits.h"
#include "query/container.h"

/* NULL: nobody here knows. Another host's users are not ours. */
static const char *user_name(struct context_users *users, const struct ringtail_host *host,
			     uint32_t uid)
{
	const uint32_t slot = uid & (CONTEXT_USERS - 1);
	const struct passwd *entry;

	if (!users->asked) {
		users->asked = true;
		users->here = symbols_same_boot(host->boot_id);
	}
	if (!users->here)
		return NULL;
	if (!users->user[slot].known || users->user[slot].uid != uid) {
		entry = getpwuid(uid);
		memset(&users->user[slot], 0, sizeof(users->user[slot]));
		users->user[slot].known = true;
		users->user[slot].uid = uid;
		if (entry)
			strncat(users->user[slot].name, entry->pw_name,
				sizeof(users->user[slot].name) - 1);
	}
	return users->user[slot].name[0] ? users->user[slot].name : NULL;
}

/* Where the path's last component begins. */
static size_t base_of(const char *path, size_t bytes)
{
	while (bytes && path[bytes - 1] != '/')
		bytes--;
	return bytes;
}

static void put_exe_json(struct out *out, const struct ringtail_thread *thread)
{
	size_t base = base_of(thread->exe, thread->exe_bytes);

	out_literal(out, ",\"exe\":");
	json_quote(out, thread->exe + base, thread->exe_bytes - base);
	if (base) {
		out_literal(out, ",\"exe_path\":");
		json_quote(out, thread->exe, thread->exe_bytes);
	}
}

static void put_cgroup_json(struct out *out, const struct ringtail_thread *thread)
{
	struct container container;

	container_parse(thread->cgroup, thread->cgroup_bytes, &container);
	out_literal(out, ",\"cgroup\":");
	json_quote(out, thread->cgroup, thread->cgroup_bytes);
	if (container.id) {
		out_literal(out, ",\"container\":");
		json_quote(out, container.id, CONTAINER_ID_BYTES);
	}
	if (container.runtime) {
		out_literal(out, ",\"container_runtime\":");
		json_quote_text(out, container.runtime);
	}
	if (container.pod[0]) {
		out_literal(out, ",\"pod\":");
		json_quote_text(out, container.pod);
	}
	if (container.unit) {
		out_literal(out, ",\"unit\":");
		json_quote(out, container.unit, container.unit_bytes);
	}
}

void context_put_json(struct out *out, struct context_users *users,
		      const struct ringtail_host *host, const struct ringtail_thread *thread)
{
	const char *name = user_name(users, host, thread->uid);

	out_literal(out, ",\"ppid\":");
	out_u64(out, thread->ppid);
	out_literal(out, ",\"uid\":");
	out_u64(out, thread->uid);
	if (name) {
		out_literal(out, ",\"uid_name\":");
		json_quote_text(out, name);
	}
	if (thread->exe)
		put_exe_json(out, thread);
	if (thread->cgroup_id) {
		out_literal(out, ",\"cgroup_id\":");
		out_u64(out, thread->cgroup_id);
	}
	if (thread->cgroup)
		put_cgroup_json(out, thread);
}

static void put_visible(struct out *out, const char *name, const char *text, size_t bytes)
{
	char copy[TEXT_BYTES_MAX + 1];

	if (bytes > TEXT_BYTES_MAX)
		bytes = TEXT_BYTES_MAX;
	memcpy(copy, text, bytes);
	copy[bytes] = '\0';
	out_text(out, name);
	out_visible(out, copy);
}

static void put_cgroup_text(struct out *out, const struct ringtail_thread *thread)
{
	struct container container;

	container_parse(thread->cgroup, thread->cgroup_bytes, &container);
	if (container.pod[0])
		put_visible(out, " pod=", container.pod, strlen(container.pod));
	if (container.id)
		put_visible(out, " container=", container.id, CONTAINER_SHORT_BYTES);
	if (container.unit)
		put_visible(out, " unit=", container.unit, container.unit_bytes);
	if (!container.pod[0] && !container.id && !container.unit)
		put_visible(out, " cgroup=", thread->cgroup, thread->cgroup_bytes);
}

void context_put_text(struct out *out, struct context_users *users,
		      const struct ringtail_host *host, const struct ringtail_thread *thread)
{
	const char *name = user_name(users, host, thread->uid);

	out_literal(out, " [");
	if (thread->exe)
		put_visible(out, "exe=", thread->exe, thread->exe_bytes);
	out_text(out, thread->exe ? " ppid=" : "ppid=");
	out_u64(out, thread->ppid);
	if (name) {
		put_visible(out, " user=", name, strlen(name));
	} else {
		out_literal(out, " uid=");
		out_u64(out, thread->uid);
	}
	if (thread->cgroup)
		put_cgroup_text(out, thread);
	out_char(out, ']');
}
