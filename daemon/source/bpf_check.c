#include "daemon/source/bpf_check.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "query/bpf_host.h"

#define BTF_PATH		"/sys/kernel/btf/vmlinux"
#define STATUS_BYTES		4096	/* of /proc/self/status */
#define SAID_BYTES		320	/* of libbpf's last words: leaves room in ERROR_TEXT_BYTES */
#define VERIFIER_LOG_MARK	"BEGIN PROG LOAD LOG"

static struct {
	char text[SAID_BYTES];		/* the end of it, on one line */
	bool verifier;			/* it is the verifier's log */
} said;

/* When the source was opened. What the kernel was locked down to since, the verifier's words say. */
static enum bpf_host_lockdown lockdown;

/* Keeps the end of a text as one line of words. */
static void said_keep(const char *text)
{
	size_t bytes = strlen(text), to = 0;
	bool space = true;

	if (bytes >= sizeof(said.text))
		text += bytes - (sizeof(said.text) - 1);
	for (; *text && to < sizeof(said.text) - 1; text++) {
		if (isspace((unsigned char)*text)) {
			if (!space)
				said.text[to++] = ' ';
			space = true;
		} else {
			said.text[to++] = *text;
			space = false;
		}
	}
	said.text[to] = '\0';
}

/* The verifier's reason is the end of its log, before its count of instructions or libbpf's closing lines. */
static void said_keep_log(char *log)
{
	char *end = strstr(log, "processed ");

	if (!end)
		end = strstr(log, "-- END PROG LOAD LOG");
	if (end)
		*end = '\0';
	said_keep(log);
	said.verifier = true;
}

static int said_print(enum libbpf_print_level level, const char *format, va_list args)
{
	char *text;

	if (level != LIBBPF_WARN || vasprintf(&text, format, args) < 0)
		return 0;
	if (strstr(text, VERIFIER_LOG_MARK))
		said_keep_log(text);
	else if (!said.verifier)
		said_keep(text);
	free(text);
	return 0;
}

void source_bpf_check_verifier(char *log)
{
	said.text[0] = '\0';
	said.verifier = false;
	if (*log)
		said_keep_log(log);
}

bool source_bpf_check_kernel(unsigned major, unsigned minor)
{
	struct utsname host;
	unsigned is_major = 0, is_minor = 0;

	return uname(&host) == 0 && sscanf(host.release, "%u.%u", &is_major, &is_minor) == 2 &&
	       (is_major > major || (is_major == major && is_minor >= minor));
}

void source_bpf_check_capture(void)
{
	said.text[0] = '\0';
	said.verifier = false;
	libbpf_set_print(said_print);
}

/* The file's first bytes; "" where it cannot be read. */
static void read_text(const char *path, char *text, size_t bytes)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, bytes - 1);

	if (fd >= 0)
		close(fd);
	text[n < 0 ? 0 : n] = '\0';
}

/* ---- before loading ------------------------------------------------------------------------- */

static bool has_capability(unsigned capability)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = {};

	if (syscall(SYS_capget, &header, data))
		return false;
	return data[CAP_TO_INDEX(capability)].effective & CAP_TO_MASK(capability);
}

static int check_capabilities(struct error *error)
{
	bool bpf = has_capability(CAP_BPF), perfmon = has_capability(CAP_PERFMON);

	if ((bpf && perfmon) || has_capability(CAP_SYS_ADMIN))
		return 0;
	error_set(error, EPERM, "bpf-no-capability", "this process lacks %s, which loading BPF "
		  "programs takes", !bpf && !perfmon ? "CAP_BPF and CAP_PERFMON" :
		  !bpf ? "CAP_BPF" : "CAP_PERFMON");
	error_hint(error, "run it as root, or `setcap cap_bpf,cap_perfmon+ep $(command -v "
		   "ringtaild)`, or in its systemd unit AmbientCapabilities=CAP_BPF CAP_PERFMON");
	return -EPERM;
}

static int refuse_syscall(struct error *error, int err)
{
	char status[STATUS_BYTES], uid_map[128];
	struct bpf_host_refusal refusal;

	read_text("/proc/self/status", status, sizeof(status));
	read_text("/proc/self/uid_map", uid_map, sizeof(uid_map));
	refusal = bpf_host_refusal(status, uid_map, syscall(SYS_bpf, BPF_HOST_NO_COMMAND, NULL, 0) ? errno : 0);
	error_set(error, err, "bpf-not-permitted", "bpf(2) is refused: %s (%s)", refusal.cause, strerror(err));
	error_hint(error, "%s", refusal.remedy);
	return -err;
}

/* With the capabilities there, the smallest map tells whether bpf(2) is. */
static int check_syscall(struct error *error)
{
	int fd = bpf_map_create(BPF_MAP_TYPE_ARRAY, NULL, sizeof(uint32_t), sizeof(uint32_t), 1,
				NULL);
	int err = errno;

	if (fd >= 0) {
		close(fd);
		return 0;
	}
	if (err == ENOSYS) {
		error_set(error, err, "bpf-not-in-kernel", "this kernel has no bpf(2): it was built "
			  "without CONFIG_BPF_SYSCALL, or a sandbox hides it");
		error_hint(error, "use the kernel module (--source kmod), or a kernel with BPF");
		return -err;
	}
	if (err == EPERM || err == EACCES)
		return refuse_syscall(error, err);
	return source_bpf_check_failure(error, err, "make a BPF map");
}

static void note_lockdown(void)
{
	char text[128];

	read_text(BPF_HOST_LOCKDOWN, text, sizeof(text));
	lockdown = bpf_host_lockdown(text);
}

int source_bpf_check_host(struct error *error)
{
	int err;

	note_lockdown();
	if (syscall(SYS_bpf, BPF_HOST_NO_COMMAND, NULL, 0) && errno == ENOSYS)
		return check_syscall(error);
	err = check_capabilities(error);
	if (!err)
		err = check_syscall(error);
	if (err)
		return err;
	if (access(BTF_PATH, R_OK)) {
		err = errno;
		error_set(error, err, "bpf-no-btf", "cannot read " BTF_PATH ": %s", strerror(err));
		error_hint(error, "the programs need the running kernel's types: use a kernel built "
			   "with CONFIG_DEBUG_INFO_BTF, or the kernel module (--source kmod)");
		return -err;
	}
	return 0;
}

/* ---- after ---------------------------------------------------------------------------------- */

static bool is_locked_down(int err)
{
	if (said.verifier && bpf_host_verifier_is_locked_down(said.text))
		return true;
	return (said.verifier || err == EPERM) && lockdown == BPF_HOST_CONFIDENTIALITY;
}

int source_bpf_check_failure(struct error *error, int err, const char *doing)
{
	const char *what = said.text[0] ? said.text : strerror(err);

	if (err == ENOMEM) {
		error_set(error, err, "bpf-no-memory", "no memory to %s: %s", doing, what);
		error_hint(error, "make the rings smaller (ring-size is for each possible CPU), or "
			   "raise the memory limit of this unit or container");
		return -err;
	}
	if (err == EMFILE || err == ENFILE) {
		error_set(error, err, "bpf-no-descriptors", "cannot %s: %s", doing, strerror(err));
		error_hint(error, err == EMFILE ?
			   "raise the daemon's limit of open files: LimitNOFILE= of its unit, or ulimit -n" :
			   "raise the system's limit of open files: sysctl fs.file-max");
		return -err;
	}
	if (err == EAGAIN) {
		error_set(error, err, "bpf-interrupted", "cannot %s: a signal came each time that the kernel checked it", doing);
		error_hint(error, "does a debugger, a profiler or a freezer stop ringtaild again and again? Start it once more");
		return -err;
	}
	if (is_locked_down(err)) {
		error_set(error, err, "bpf-locked-down", "the kernel is locked down for confidentiality, and lets no "
			  "BPF program read its memory: cannot %s: %s", doing, what);
		error_hint(error, BPF_HOST_LOCKDOWN_REMEDY);
		return -err;
	}
	if (said.verifier) {
		error_set(error, err, "bpf-refused", "the kernel's verifier refused to %s: ... %s",
			  doing, what);
		error_hint(error, "this kernel (uname -r) is one that ringtail was not tried on: "
			   "report the text, or use the kernel module (--source kmod)");
		return -err;
	}
	error_set(error, err, "bpf-failed", "cannot %s: %s (%s)", doing, what, strerror(err));
	if (err == EPERM)
		error_hint(error, "a security module may forbid tracing; see `tracectl doctor`");
	else
		error_hint(error, "ringtail needs Linux %d.%d or newer with BTF; see `tracectl doctor`",
			   BPF_HOST_MAJOR, BPF_HOST_MINOR);
	return -err;
}
