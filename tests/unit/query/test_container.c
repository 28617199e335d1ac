/* What paths of cgroups say, as the container managers and systemd write them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "query/container.h"

#define ID	"3f2a5cbd1e9047d6a8b1c2d3e4f5061728394a5b6c7d8e9f00112233445566aa"
#define OTHER	"0000000000000000000000000000000000000000000000000000000000000001"
#define POD	"0f4ee4f9-c1d1-4d5c-8f3b-6a1f0c2b7a11"
#define POD_	"0f4ee4f9_c1d1_4d5c_8f3b_6a1f0c2b7a11"
#define HASH	"7a1f0c2b7a110f4ee4f9c1d14d5c8f3b"

static const struct {
	const char *path, *runtime, *id, *pod, *unit;
} cases[] = {
	/* docker, by cgroupfs and by systemd; inside another */
	{ "/docker/" ID, "docker", ID, "", NULL },
	{ "/system.slice/docker-" ID ".scope", "docker", ID, "", NULL },
	{ "/docker/" OTHER "/docker/" ID, "docker", ID, "", NULL },
	{ "/docker/" ID "/system.slice/cron.service", "docker", ID, "", "cron.service" },
	/* Kubernetes, with each runtime and both drivers, and each quality of service */
	{ "/kubepods/burstable/pod" POD "/" ID, NULL, ID, POD, NULL },
	{ "/kubepods/pod" POD "/" ID, NULL, ID, POD, NULL },
	{ "/kubepods/besteffort/pod" HASH "/" ID, NULL, ID, HASH, NULL },
	{ "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" POD_ ".slice/"
	  "cri-containerd-" ID ".scope", "containerd", ID, POD, NULL },
	{ "/kubepods.slice/kubepods-pod" POD_ ".slice/crio-" ID ".scope", "cri-o", ID, POD, NULL },
	{ "/kubepods.slice/kubepods-pod" POD_ ".slice/crio-" ID ".scope/container", "cri-o", ID, POD,
	  NULL },
	{ "/kubepods.slice/kubepods-pod" POD_ ".slice/docker-" ID ".scope", "docker", ID, POD, NULL },
	{ "/system.slice/containerd.service/kubepods-burstable-pod" POD_ ".slice:cri-containerd:" ID,
	  "containerd", ID, "", NULL },
	{ "/kubepods.slice/kubepods-pod" POD_ ".slice", NULL, NULL, POD, NULL },
	/* podman, as root and not; their monitors are no containers */
	{ "/machine.slice/libpod-" ID ".scope", "podman", ID, "", NULL },
	{ "/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-" ID ".scope/container",
	  "podman", ID, "", NULL },
	{ "/libpod_parent/libpod-" ID, "podman", ID, "", NULL },
	{ "/machine.slice/libpod-conmon-" ID ".scope", NULL, NULL, "", "libpod-conmon-" ID ".scope" },
	{ "/system.slice/crio-conmon-" ID ".scope", NULL, NULL, "", "crio-conmon-" ID ".scope" },
	{ "/default/" ID, "containerd", ID, "", NULL },
	/* systemd */
	{ "/system.slice/nginx.service", NULL, NULL, "", "nginx.service" },
	{ "/system.slice/system-getty.slice/getty@tty1.service", NULL, NULL, "", "getty@tty1.service" },
	{ "/user.slice/user-0.slice/session-1.scope", NULL, NULL, "", "session-1.scope" },
	{ "/user.slice/user-1.slice/user@1.service/app.slice/a.service/x", NULL, NULL, "", "a.service" },
	/* none of it */
	{ "/", NULL, NULL, "", NULL },
	{ "", NULL, NULL, "", NULL },
	{ "////", NULL, NULL, "", NULL },
	{ "/podcasts", NULL, NULL, "", NULL },
	{ "/.service", NULL, NULL, "", NULL },
	{ "/docker/3F2A", NULL, NULL, "", NULL },
	{ "/" ID "0", NULL, NULL, "", NULL },
	{ ID, NULL, NULL, "", NULL },
	{ "/docker-" ID "x.scope", NULL, NULL, "", "docker-" ID "x.scope" },
	{ "/my-docker-" ID ".scope", NULL, NULL, "", "my-docker-" ID ".scope" },
};

static void expect_slice(const char *got, size_t bytes, const char *wanted, const char *path)
{
	if (!wanted != !got || (wanted && (bytes != strlen(wanted) || memcmp(got, wanted, bytes))))
		fail_msg("%s: \"%.*s\" is not \"%s\"", path, got ? (int)bytes : 0, got ? got : "",
			 wanted ? wanted : "");
}

static void test_paths(void **state)
{
	struct container container;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		size_t bytes = strlen(cases[i].path);
		char *path = malloc(bytes + 1);		/* one byte too far is seen by a sanitizer */

		memcpy(path, cases[i].path, bytes);
		container_parse(path, bytes, &container);
		expect_slice(container.runtime, container.runtime ? strlen(container.runtime) : 0,
			     cases[i].runtime, cases[i].path);
		expect_slice(container.id, CONTAINER_ID_BYTES, cases[i].id, cases[i].path);
		expect_slice(container.pod, strlen(container.pod), cases[i].pod, cases[i].path);
		expect_slice(container.unit, container.unit_bytes, cases[i].unit, cases[i].path);
		assert_int_equal(container_is_in(path, bytes), !!cases[i].id);
		free(path);
	}
}

/* Every beginning and end of every path is parsed without a step outside it. */
static void test_parts_of_paths(void **state)
{
	struct container container;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		size_t bytes = strlen(cases[i].path);

		for (size_t n = 0; n <= bytes; n++) {
			char *part = malloc(n ? n : 1);

			memcpy(part, cases[i].path, n);
			container_parse(part, n, &container);
			assert_true(!container.id || (container.id >= part &&
						      container.id + CONTAINER_ID_BYTES <= part + n));
			memcpy(part, cases[i].path + bytes - n, n);
			container_parse(part, n, &container);
			free(part);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_paths),
		cmocka_unit_test(test_parts_of_paths),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
