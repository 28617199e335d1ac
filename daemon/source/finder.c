#include "daemon/source/finder.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/base/clock.h"
#include "daemon/base/limits.h"
#include "daemon/base/descriptor.h"
#include "daemon/host/privileges.h"
#include "daemon/host/sandbox.h"
#include "daemon/source/unwind_table.h"

/* How long the loader waits for the answer. */
static uint64_t answer_ns_max(const struct finder_question *question)
{
	return question->unwinds ? UNWIND_FILE_NS_MAX : FIND_NS_MAX;
}

/* A reader has less, so that the finder can say so in time. */
static int reader_ms_max(const struct finder_question *question)
{
	return (int)(answer_ns_max(question) / 4 * 3 / 1000000);
}

/* ---- The socket ------------------------------------------------------------------------------- */

/* fd -1: none goes with it. */
static int send_message(int socket, const void *message, size_t bytes, int fd)
{
	return descriptor_send(socket, message, bytes, &fd, fd >= 0);
}

/* As descriptor_receive(); *fd, or -1. */
static int receive_message(int socket, void *message, size_t bytes, int *fd)
{
	unsigned n;
	int got = descriptor_receive(socket, message, bytes, fd, 1, &n, 0);

	if (got != 1 || !n)
		*fd = -1;
	return got;
}

/* ---- A reader: opening ------------------------------------------------------------------------ */

static int open_how(int directory, const char *path, uint64_t flags, uint64_t resolve)
{
	struct open_how how = {.flags = flags | O_CLOEXEC, .resolve = resolve};
	long fd = syscall(SYS_openat2, directory, path, &how, sizeof(how));

	return fd < 0 ? -errno : (int)fd;
}

/* "/proc/PID/root/path": where the part within that process's file tree begins; 0: it is no such path. */
static size_t root_bytes(const char *path)
{
	int bytes = 0;

	return sscanf(path, "/proc/%*[0-9]/root%n", &bytes) == 0 && bytes > 0 && path[bytes] == '/' ?
		       (size_t)bytes : 0;
}

static bool is_program_of_process(const char *path)
{
	int bytes = 0;

	return sscanf(path, "/proc/%*[0-9]/exe%n", &bytes) == 0 && bytes > 0 && !path[bytes];
}

/*
 * Links within another process's file tree mean places in that tree: one that says /lib/x must not lead
 * into ours. Of the links that the kernel makes up itself, only the two that were named are followed.
 */
static int find_file(const char *path)
{
	size_t bytes = root_bytes(path);
	char root[NAME_BYTES_MAX + 1];
	int tree, fd;

	if (is_program_of_process(path))
		return open_how(AT_FDCWD, path, O_PATH, 0);
	if (!bytes)
		return open_how(AT_FDCWD, path, O_PATH, RESOLVE_NO_MAGICLINKS);
	snprintf(root, sizeof(root), "%.*s", (int)bytes, path);
	tree = open_how(AT_FDCWD, root, O_PATH | O_DIRECTORY, 0);
	if (tree < 0)
		return tree;
	fd = open_how(tree, path + bytes, O_PATH, RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS);
	close(tree);
	return fd;
}

/* Opened only once it is known to be a regular file: to open a device may do something. */
static int open_file(const struct finder_question *question, struct finder_answer *answer)
{
	int place = find_file(question->path), fd;
	struct stat status;
	char self[64];

	if (place < 0)
		return place;
	if (fstat(place, &status) != 0 || !S_ISREG(status.st_mode)) {
		close(place);
		return -EINVAL;
	}
	answer->device = status.st_dev;
	answer->inode = status.st_ino;
	snprintf(self, sizeof(self), "/proc/self/fd/%d", place);
	fd = open(self, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	fd = fd < 0 ? -errno : fd;
	close(place);
	return fd;
}

static void refuse_file(const struct finder_question *question, int err, struct error *error)
{
	bool of_process = strncmp(question->path, "/proc/", 6) == 0;

	if (question->path[0] != '/') {
		error_set(error, EINVAL, "probe-bad-path", "`%.256s` is no absolute path", question->path);
		error_hint(error, "as in uprobe:/usr/bin/python3:main, or uprobe:/proc/PID/root/usr/bin/python3:main"
				  " for the file of a container");
		return;
	}
	error_set(error, err, "probe-no-file", "ringtaild cannot open %.256s: %s", question->path,
		  err == EINVAL ? "it is no file" : err == ELOOP ? "a link on the way is none that may be followed" :
		  strerror(err));
	error_hint(error, of_process && (err == EACCES || err == EPERM) ?
		   "to look into another process's file tree takes CAP_SYS_PTRACE: start ringtaild as root, or"
		   " see PROBES OF PROGRAMS in ringtaild(8)" :
		   err == ENOENT ? "the path is that of the host where ringtaild runs, as ringtaild sees it; of a"
		   " container: /proc/PID/root/PATH" :
		   "its user must be allowed to read the file, or have CAP_DAC_READ_SEARCH");
}

/* ---- A reader: reading ------------------------------------------------------------------------ */

static int list_names(const struct finder_question *question, int file, struct finder_answer *answer)
{
	int names = descriptor_memory_file("ringtail-names", false), count;
	off_t bytes;

	if (names < 0)
		return error_set(&answer->error, ENOMEM, "out-of-memory", "no memory for the names");
	count = file_probe_list(file, question->kind, question->name, FIND_NAMES_MAX, names, &answer->error);
	bytes = lseek(names, 0, SEEK_END);
	if (count >= 0 && bytes >= 0) {
		answer->names = (uint32_t)count;
		answer->names_bytes = (uint64_t)bytes;
		return names;
	}
	close(names);
	return count < 0 ? count : -EIO;
}

static bool write_all(int fd, const void *from, size_t bytes)
{
	const uint8_t *at = from;

	while (bytes) {
		ssize_t put = write(fd, at, bytes);

		if (put <= 0)
			return false;
		at += put;
		bytes -= (size_t)put;
	}
	return true;
}

static int compile_rows(int file, struct finder_answer *answer)
{
	struct unwind_table table;
	int err = unwind_table_compile(file, &table), rows = -1;

	if (err)
		return error_set(&answer->error, -err, "no-unwind-table", "no table can be made of the file");
	memcpy(answer->build_id, table.build_id, sizeof(answer->build_id));
	answer->names = (uint32_t)table.rows;
	answer->names_bytes = table.rows * sizeof(*table.row);
	rows = descriptor_memory_file("ringtail-rows", false);
	if (rows >= 0 && !write_all(rows, table.row, answer->names_bytes)) {
		close(rows);
		rows = -1;
	}
	unwind_table_free(&table);
	return rows >= 0 ? rows : error_set(&answer->error, ENOMEM, "out-of-memory", "no memory for the table");
}

/* The kernel takes the file by a path: that of the descriptor which came with the question. */
static int open_event(const struct finder_question *question, int file)
{
	char path[64];
	struct probe_place place = {
		.of = path, .offset = question->offset, .semaphore = question->semaphore,
		.is_return = question->is_return,
	};

	snprintf(path, sizeof(path), "/proc/self/fd/%d", file);
	return probe_unit_open(&question->unit, &place);
}

/* The descriptor that goes with the answer; or -errno with answer->error. */
static int look(const struct finder_question *question, struct finder_answer *answer)
{
	int file = question->path[0] == '/' ? open_file(question, answer) : -EINVAL, fd, err;

	if (file < 0) {
		refuse_file(question, -file, &answer->error);
		return file;
	}
	/* From here on what the file says may do to this process what it likes. */
	err = privileges_give_up(&answer->error);
	if (!err)
		err = sandbox_reader(&answer->error);
	if (err) {
		close(file);
		return err;
	}
	if (question->lists) {
		fd = list_names(question, file, answer);
		close(file);
		return fd;
	}
	if (question->unwinds) {
		fd = compile_rows(file, answer);
		close(file);
		return fd;
	}
	err = file_probe_find(file, question->kind, question->name, &answer->sites, &answer->error);
	return err ? err : file;
}

static void read_and_answer(int socket, const struct finder_question *question, int file)
{
	static struct finder_answer answer;
	int fd = question->attaches ? open_event(question, file) : look(question, &answer);

	answer.number = question->number;
	answer.err = fd < 0 ? fd : 0;
	send_message(socket, &answer, sizeof(answer), fd);
}

/* ---- The finder ------------------------------------------------------------------------------- */

static void answer_failure(int socket, const struct finder_question *question, int err, const char *why)
{
	static struct finder_answer answer;

	answer = (struct finder_answer){.number = question->number, .err = -err};
	error_set(&answer.error, err, "probe-no-file", "%.256s could not be read: %s", question->path, why);
	error_hint(&answer.error, "look whether its file system answers, and whether the file is damaged");
	send_message(socket, &answer, sizeof(answer), -1);
}

/* Waits for a reader, which has the other end of `alive`; one that takes too long is killed. */
static void await_reader(int socket, pid_t reader, int alive, const struct finder_question *question)
{
	struct pollfd end = {.fd = alive};
	bool late = poll(&end, 1, reader_ms_max(question)) == 0;
	int status = 0;

	if (late)
		kill(reader, SIGKILL);
	/* In an uninterruptible wait it outlives that, and is waited for at the next question. */
	if (late && waitpid(reader, &status, WNOHANG) != reader) {
		answer_failure(socket, question, ETIMEDOUT, "its file system does not answer");
		return;
	}
	if (!late)
		waitpid(reader, &status, 0);
	if (late || !WIFEXITED(status) || WEXITSTATUS(status) != 0)
		answer_failure(socket, question, late ? ETIMEDOUT : EIO,
			       late ? "that took too long" : "the process that read it ended");
}

static void answer_question(int socket, const struct finder_question *question, int file)
{
	int alive[2] = {-1, -1};
	pid_t reader = pipe2(alive, O_CLOEXEC) == 0 ? fork() : -1;

	if (reader == 0) {
		close(alive[0]);
		read_and_answer(socket, question, file);
		_exit(EXIT_SUCCESS);
	}
	if (alive[1] >= 0)
		close(alive[1]);
	if (reader < 0)
		answer_failure(socket, question, EAGAIN, "no process could be made for it");
	else
		await_reader(socket, reader, alive[0], question);
	if (alive[0] >= 0)
		close(alive[0]);
}

static bool question_fits(const struct finder_question *question, int file)
{
	return (file >= 0) == (question->attaches != 0) && question->kind < FILE_PROBE_KINDS &&
	       memchr(question->path, '\0', sizeof(question->path)) &&
	       memchr(question->name, '\0', sizeof(question->name));
}

static void serve(int socket)
{
	struct finder_question question;
	int fd;

	while (receive_message(socket, &question, sizeof(question), &fd) == 1) {
		/* Readers that were killed and could not end at once. */
		while (waitpid(-1, NULL, WNOHANG) > 0)
			;
		if (question_fits(&question, fd))
			answer_question(socket, &question, fd);
		if (fd >= 0)
			close(fd);
	}
}

/* Opening files is all that is left to do; and events of places in them. */
static int confine(const struct account *account, bool attaches, struct error *error)
{
	static const cap_value_t keep[] = {CAP_DAC_READ_SEARCH, CAP_SYS_PTRACE, CAP_SYS_ADMIN};
	const size_t count = sizeof(keep) / sizeof(keep[0]);
	const struct account same = {.uid = geteuid(), .gid = getegid()};
	int err;

	if (unshare(CLONE_NEWNET) != 0 && errno != EPERM)
		fprintf(stderr, "ringtaild: finder: unshare: %s\n", strerror(errno));
	err = privileges_keep(account ? account : &same, keep, attaches ? count : count - 1, error);
	return err ? err : sandbox_finder(attaches, error);
}

/* In the child: nothing of the loader's stays open. */
static void run(int socket, const struct account *account, bool attaches)
{
	struct error error = {0};

	if (socket > STDERR_FILENO + 1)
		close_range(STDERR_FILENO + 1, (unsigned)socket - 1, 0);
	close_range((unsigned)socket + 1, UINT_MAX, 0);
	prctl(PR_SET_NAME, "ringtail-finder");
	signal(SIGPIPE, SIG_IGN);
	if (chdir("/") == 0 && confine(account, attaches, &error) == 0)
		serve(socket);
	else
		fprintf(stderr, "ringtaild: finder: %s\n", error.what);
}

int finder_start(struct finder *finder, const struct account *account, bool attaches, struct error *error)
{
	int sockets[2];

	*finder = (struct finder){.socket = -1};
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) != 0)
		return error_set(error, errno, "finder-socket", "socketpair: %s", strerror(errno));
	finder->pid = fork();
	if (finder->pid == 0) {
		run(sockets[1], account, attaches);
		_exit(EXIT_SUCCESS);
	}
	close(sockets[1]);
	if (finder->pid < 0) {
		close(sockets[0]);
		return error_set(error, errno, "finder-fork", "cannot fork the finder: %s", strerror(errno));
	}
	finder->socket = sockets[0];
	return 0;
}

void finder_stop(struct finder *finder)
{
	if (finder->socket >= 0)
		close(finder->socket);
	finder->socket = -1;
}

/* ---- Asking ----------------------------------------------------------------------------------- */

static bool ends(const char *text, size_t bytes)
{
	return memchr(text, '\0', bytes) != NULL;
}

bool finder_answer_fits(const struct finder_answer *answer, const struct finder_question *question, bool has_fd)
{
	if (!ends(answer->error.code, sizeof(answer->error.code)) ||
	    !ends(answer->error.what, sizeof(answer->error.what)) ||
	    !ends(answer->error.hint, sizeof(answer->error.hint)))
		return false;
	if (answer->err)
		return answer->err < 0 && !has_fd;
	if (question->attaches)
		return has_fd;
	if (question->lists)
		return has_fd && answer->names <= FIND_NAMES_MAX &&
		       answer->names_bytes <= (uint64_t)FIND_NAMES_MAX * (NAME_BYTES_MAX + 1);
	if (question->unwinds)
		return has_fd && answer->names && answer->names <= UNWIND_FILE_ROWS_MAX &&
		       answer->names_bytes == answer->names * sizeof(struct unwind_row);
	return has_fd && file_sites_fit(&answer->sites);
}

static int fail(struct finder *finder, int err, const char *what, struct error *error)
{
	if (err != ETIMEDOUT)
		finder_stop(finder);
	error_set(error, err, "finder-gone", "the process that opens files for probes %s", what);
	error_hint(error, err == ETIMEDOUT ? "try again; look whether the file's file system answers" :
					     "restart ringtaild, and see its log");
	return -err;
}

/* Answers to questions that were given up come late: they are passed over. */
static int await_answer(struct finder *finder, const struct finder_question *question,
			struct finder_answer *answer, int *fd, struct error *error)
{
	uint64_t until_ns = clock_monotonic() + answer_ns_max(question);

	for (;;) {
		struct pollfd poll_fd = {.fd = finder->socket, .events = POLLIN};
		uint64_t now_ns = clock_monotonic();
		int err;

		if (now_ns >= until_ns)
			return fail(finder, ETIMEDOUT, "does not answer", error);
		if (poll(&poll_fd, 1, (int)((until_ns - now_ns) / 1000000 + 1)) <= 0)
			continue;
		err = receive_message(finder->socket, answer, sizeof(*answer), fd);
		if (err != 1)
			return fail(finder, err ? EPROTO : EPIPE, err ? "sends what is no answer" : "has ended",
				    error);
		if (answer->number == question->number)
			break;
		if (*fd >= 0)
			close(*fd);
	}
	if (finder_answer_fits(answer, question, *fd >= 0))
		return 0;
	if (*fd >= 0)
		close(*fd);
	return fail(finder, EPROTO, "sends what is no answer", error);
}

/* `file` goes with the question; -1: none. */
static int ask(struct finder *finder, struct finder_question *question, int file, struct finder_answer *answer,
	       int *fd, struct error *error)
{
	int err;

	if (finder->socket < 0)
		return fail(finder, EPIPE, "is not there", error);
	question->number = ++finder->questions;
	err = send_message(finder->socket, question, sizeof(*question), file);
	if (err)
		return fail(finder, -err, "has ended", error);
	err = await_answer(finder, question, answer, fd, error);
	if (!err && answer->err) {
		*error = answer->error;
		return answer->err;
	}
	return err;
}

int finder_ask(struct finder *finder, struct finder_question *question, struct finder_answer *answer,
	       int *fd, struct error *error)
{
	return ask(finder, question, -1, answer, fd, error);
}

int finder_attach(struct finder *finder, const struct probe_unit *unit, const struct probe_place *place, int file)
{
	static struct finder_answer answer;
	struct finder_question question = {
		.attaches = true, .is_return = place->is_return, .semaphore = place->semaphore, .unit = *unit,
		.offset = place->offset,
	};
	struct error error = {0};
	int fd = -1, err = ask(finder, &question, file, &answer, &fd, &error);

	return err ? err : fd;
}
