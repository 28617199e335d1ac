/*
 * container: what the path of a cgroup says of the container, pod or service that is in it.
 *
 * Container managers name cgroups after what they put there: docker, containerd (cri-containerd,
 * nerdctl), CRI-O, podman (libpod), Kubernetes' pods under kubepods, and systemd its units. Names are
 * all there is to go by: a path that looks like a container's is taken for one. No memory is kept.
 */
#ifndef RINGTAIL_QUERY_CONTAINER_H
#define RINGTAIL_QUERY_CONTAINER_H

#include <stdbool.h>
#include <stddef.h>

#define CONTAINER_ID_BYTES	64
#define CONTAINER_SHORT_BYTES	12	/* of an id, as people are mostly shown it */
#define CONTAINER_POD_BYTES	36

struct container {
	const char *runtime;		/* "docker", "containerd", "cri-o", "podman"; NULL: not known */
	const char *id;			/* CONTAINER_ID_BYTES of them, in the path; NULL: none */
	char pod[CONTAINER_POD_BYTES + 1];	/* its uid; empty: none */
	const char *unit;		/* in the path, not terminated; NULL: none */
	size_t unit_bytes;
};

/* Of one path. Of containers inside each other, the innermost. */
void container_parse(const char *path, size_t bytes, struct container *container);

/* Whether the path is one of a container. */
bool container_is_in(const char *path, size_t bytes);

#endif
