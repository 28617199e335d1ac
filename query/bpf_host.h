/*
 * bpf_host: what a host must have so that ringtail's BPF programs load there, and what it says when they may not. The
 * daemon asks before it starts, `tracectl doctor` at any time. Pure; any thread.
 */
#ifndef RINGTAIL_QUERY_BPF_HOST_H
#define RINGTAIL_QUERY_BPF_HOST_H

#include <stdbool.h>

/*
 * The oldest Linux that the programs were tried on (docs/kernels.md). They cannot load before 5.17, which has
 * bpf_loop(). README.md, debian/control and docs/comparison.md have the same number.
 */
#define BPF_HOST_MAJOR	6
#define BPF_HOST_MINOR	1

/* A list of the kernel's security modules; it is there wherever securityfs is mounted. */
#define BPF_HOST_SECURITYFS	"/sys/kernel/security/lsm"
#define BPF_HOST_LOCKDOWN	"/sys/kernel/security/lockdown"
#define BPF_HOST_LOCKDOWN_REMEDY \
	"boot with lockdown=integrity in the place of lockdown=confidentiality (/proc/cmdline shows it); the kernel " \
	"module is no way around it, for such a kernel loads only signed modules"

enum bpf_host_lockdown {
	BPF_HOST_OPEN,			/* not locked down */
	BPF_HOST_INTEGRITY,		/* locked down, and BPF programs may read */
	BPF_HOST_CONFIDENTIALITY,	/* no BPF program may read the kernel's memory */
};

#define BPF_HOST_NO_COMMAND	-1	/* that bpf(2) does not have */

/* Why bpf(2) was refused: one clause, and what to do about it. */
struct bpf_host_refusal {
	const char *cause, *remedy;
};

/* Of `uname -r`. What is no number is old. */
bool bpf_host_is_old(const char *release);

/* Of BPF_HOST_LOCKDOWN's text. */
enum bpf_host_lockdown bpf_host_lockdown(const char *text);

/*
 * Whether the verifier's words are those of a kernel that is locked down for confidentiality: it then has no helper that
 * reads the kernel's memory. For where BPF_HOST_LOCKDOWN cannot be read.
 */
bool bpf_host_verifier_is_locked_down(const char *log);

/*
 * Of who was refused: the texts of /proc/self/status and /proc/self/uid_map, each "" where it cannot be read; and the
 * errno that bpf(2) has for BPF_HOST_NO_COMMAND, which is EPERM where a filter refuses it whole. A unit has a filter, too,
 * that lets bpf(2) pass.
 */
struct bpf_host_refusal bpf_host_refusal(const char *status, const char *uid_map, int err_no_command);

#endif
