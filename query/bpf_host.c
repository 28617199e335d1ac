#include "query/bpf_host.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CAPABILITY_ADMIN	21	/* CAP_SYS_ADMIN stands for CAP_BPF */
#define CAPABILITY_BPF		39
#define SECCOMP_FILTER		2
#define USERS_ALL		UINT32_MAX	/* that the first user namespace has */

bool bpf_host_is_old(const char *release)
{
	unsigned major, minor;

	return sscanf(release, "%u.%u", &major, &minor) != 2 || major < BPF_HOST_MAJOR ||
	       (major == BPF_HOST_MAJOR && minor < BPF_HOST_MINOR);
}

enum bpf_host_lockdown bpf_host_lockdown(const char *text)
{
	if (strstr(text, "[confidentiality]"))
		return BPF_HOST_CONFIDENTIALITY;
	return strstr(text, "[none]") ? BPF_HOST_OPEN : BPF_HOST_INTEGRITY;
}

bool bpf_host_verifier_is_locked_down(const char *log)
{
	const char *refused = strstr(log, "unknown func bpf_probe_read");

	return refused || strstr(log, "cannot use helper bpf_probe_read");	/* as Linux 6.13 and later say it */
}

/* The number behind `name:` in /proc/PID/status; `otherwise` where it does not stand there. */
static uint64_t status_number(const char *status, const char *name, int base, uint64_t otherwise)
{
	const char *at = strstr(status, name);

	return at ? strtoull(at + strlen(name), NULL, base) : otherwise;
}

static bool is_of_user_namespace(const char *uid_map)
{
	unsigned inside, outside, count;

	return sscanf(uid_map, "%u %u %u", &inside, &outside, &count) == 3 &&
	       (inside != 0 || outside != 0 || count != USERS_ALL);
}

struct bpf_host_refusal bpf_host_refusal(const char *status, const char *uid_map, int err_no_command)
{
	uint64_t able = status_number(status, "CapEff:", 16, UINT64_MAX);

	if (!(able >> CAPABILITY_BPF & 1) && !(able >> CAPABILITY_ADMIN & 1))
		return (struct bpf_host_refusal){
			"without CAP_BPF nobody may use it here",
			"be root or have CAP_BPF; of a container: --cap-add=BPF --cap-add=PERFMON",
		};
	if (is_of_user_namespace(uid_map))
		return (struct bpf_host_refusal){
			"capabilities of a user namespace do not count",
			"start the container without a user namespace: as root, with --userns=host",
		};
	if (status_number(status, "\nSeccomp:", 10, 0) == SECCOMP_FILTER &&
	    (err_no_command == EPERM || err_no_command == EACCES))
		return (struct bpf_host_refusal){
			"a seccomp filter forbids it",
			"start the container with --security-opt=seccomp=unconfined; of a unit, look at SystemCallFilter=",
		};
	return (struct bpf_host_refusal){
		"a security module (SELinux, AppArmor) forbids it",
		"look for bpf in its log: `journalctl -k -g bpf`, and allow it there",
	};
}
