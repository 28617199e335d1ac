#include "query/container.h"

#include <string.h>

struct part {
	const char *at;
	size_t bytes;
};

/* What stands before an id, and who writes that. Their monitors' cgroups are no containers. */
static const struct {
	const char *prefix, *runtime;
} scopes[] = {
	{ "docker-", "docker" },	{ "docker:", "docker" },
	{ "cri-containerd-", "containerd" }, { "cri-containerd:", "containerd" },
	{ "nerdctl-", "containerd" },	{ "containerd-", "containerd" },
	{ "crio-", "cri-o" },		{ "crio:", "cri-o" },
	{ "libpod-", "podman" },
};

/* The directory above a bare id, and who makes it. */
static const struct {
	const char *name, *runtime;
} parents[] = {
	{ "docker", "docker" },		{ "k8s.io", "containerd" },
	{ "libpod_parent", "podman" },	{ "default", "containerd" },
};

static bool is_hex(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
}

static bool is_id(const char *text, size_t bytes)
{
	if (bytes != CONTAINER_ID_BYTES)
		return false;
	for (size_t i = 0; i < bytes; i++)
		if (!is_hex(text[i]))
			return false;
	return true;
}

static bool ends_with(const struct part *part, const char *suffix)
{
	size_t bytes = strlen(suffix);

	return part->bytes > bytes && !memcmp(part->at + part->bytes - bytes, suffix, bytes);
}

static bool is_called(const struct part *part, const char *name)
{
	return part->bytes == strlen(name) && !memcmp(part->at, name, part->bytes);
}

/* The component before `end`; false: there is none. */
static bool last_part(const char *path, size_t end, struct part *part)
{
	size_t begin;

	while (end && path[end - 1] == '/')
		end--;
	for (begin = end; begin && path[begin - 1] != '/';)
		begin--;
	*part = (struct part){ path + begin, end - begin };
	return end > begin;
}

/* As "docker-ID.scope", with or without the end; nested in colons: "...slice:cri-containerd:ID". */
static bool take_scope(const struct part *part, struct container *container)
{
	size_t bytes = part->bytes - (ends_with(part, ".scope") ? strlen(".scope") : 0);
	const char *id = part->at + bytes - CONTAINER_ID_BYTES;

	if (bytes <= CONTAINER_ID_BYTES || !is_id(id, CONTAINER_ID_BYTES))
		return false;
	for (size_t i = 0; i < sizeof(scopes) / sizeof(scopes[0]); i++) {
		size_t prefix = strlen(scopes[i].prefix);
		const char *begin = id - prefix;

		if (begin < part->at || memcmp(begin, scopes[i].prefix, prefix) ||
		    (begin > part->at && begin[-1] != ':'))
			continue;
		container->runtime = scopes[i].runtime;
		container->id = id;
		return true;
	}
	return false;
}

/* An id alone, below a directory that says whose it is. */
static bool take_bare(const char *path, const struct part *part, struct container *container)
{
	struct part parent;

	if (!is_id(part->at, part->bytes) || !last_part(path, (size_t)(part->at - path), &parent))
		return false;
	container->id = part->at;
	for (size_t i = 0; i < sizeof(parents) / sizeof(parents[0]); i++)
		if (is_called(&parent, parents[i].name))
			container->runtime = parents[i].runtime;
	return true;
}

/* "podUID" in cgroupfs' words, "kubepods-burstable-podUID.slice" in systemd's: '_' for '-' there. */
static void take_pod(const struct part *part, struct container *container)
{
	size_t bytes = part->bytes - (ends_with(part, ".slice") ? strlen(".slice") : 0);
	const char *uid = NULL;

	for (size_t i = 0; i + 3 <= bytes; i++)
		if (!memcmp(part->at + i, "pod", 3) && (!i || part->at[i - 1] == '-'))
			uid = part->at + i + 3;
	if (!uid)
		return;
	bytes -= (size_t)(uid - part->at);
	if (bytes != CONTAINER_POD_BYTES && bytes != 32)	/* a static pod's is a hash */
		return;
	for (size_t i = 0; i < bytes; i++) {
		if (!is_hex(uid[i]) && uid[i] != '-' && uid[i] != '_')
			return;
	}
	for (size_t i = 0; i < bytes; i++)
		container->pod[i] = uid[i] == '_' ? '-' : uid[i];
	container->pod[bytes] = '\0';
}

void container_parse(const char *path, size_t bytes, struct container *container)
{
	size_t end = bytes;
	struct part part;

	*container = (struct container){ .id = NULL };
	while (last_part(path, end, &part)) {
		bool is_container = !container->id && (take_scope(&part, container) ||
						       take_bare(path, &part, container));

		if (!is_container && !container->unit && !container->id &&
		    (ends_with(&part, ".service") || ends_with(&part, ".scope"))) {
			container->unit = part.at;
			container->unit_bytes = part.bytes;
		}
		if (!container->pod[0])
			take_pod(&part, container);
		end = (size_t)(part.at - path);
	}
}

bool container_is_in(const char *path, size_t bytes)
{
	struct container container;

	container_parse(path, bytes, &container);
	return container.id;
}
