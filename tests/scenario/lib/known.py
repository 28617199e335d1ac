"""known: a page of docs/ whose commands are run, and a program whose doings are known for them to see."""
import os
import re
import shlex
import subprocess

from lib.process import Late, PATIENCE_S

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

# With a port behind the directory it waits for a byte, then connects, asks, sleeps and burns, too, and waits for the end of
# its input: where its code lies is read while it is there.
PROGRAM = r"""
#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

__attribute__((noinline)) static void burn(void)
{
	struct timespec now, end;
	volatile unsigned long n = 0;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &end);
	do {
		for (int i = 0; i < 100000; i++)
			n += i;
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	} while ((now.tv_sec - end.tv_sec) * 1000 + (now.tv_nsec - end.tv_nsec) / 1000000 < 300);
}

static void nap(long ms)
{
	nanosleep(&(struct timespec){ .tv_nsec = ms * 1000000 }, NULL);
}

static void connect_to(const char *host, int port)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(port) };
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	inet_pton(AF_INET, host, &to.sin_addr);
	connect(fd, (void *)&to, sizeof(to));
	close(fd);
}

/* A server whose first byte goes out 60 ms after it has accepted. */
static int serve(void)
{
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int server = socket(AF_INET, SOCK_STREAM, 0), client = socket(AF_INET, SOCK_STREAM, 0), fd;
	socklen_t bytes = sizeof(at);

	if (bind(server, (void *)&at, bytes) || listen(server, 1) || getsockname(server, (void *)&at, &bytes) ||
	    connect(client, (void *)&at, bytes))
		return -1;
	fd = accept4(server, NULL, NULL, SOCK_CLOEXEC);
	nap(60);
	send(fd, "first", 5, 0);
	send(fd, "second", 6, 0);
	return close(fd) | close(client) | close(server);
}

/* Each of 300 pages for the first time. */
static void touch(void)
{
	size_t page = sysconf(_SC_PAGESIZE);
	volatile char *pages = mmap(NULL, 300 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	madvise((void *)pages, 300 * page, MADV_NOHUGEPAGE);
	for (size_t i = 0; i < 300; i++)
		pages[i * page] = 1;
}

/* A server of one answer, which takes 20 ms, and who asks it. Its address is this process' own: others do the same. */
static int ask_names(void)
{
	struct sockaddr_in server = { .sin_family = AF_INET, .sin_port = htons(53) };
	int fd = socket(AF_INET, SOCK_DGRAM, 0);
	socklen_t bytes = sizeof(server);
	char text[64] = "who?";

	server.sin_addr.s_addr = htonl(127u << 24 | 77 << 16 | (getpid() & 0xffff));
	if (bind(fd, (void *)&server, sizeof(server)))
		return -1;
	if (!fork()) {
		struct sockaddr_in client;
		socklen_t client_bytes = sizeof(client);

		recvfrom(fd, text, sizeof(text), 0, (void *)&client, &client_bytes);
		nap(20);
		sendto(fd, text, 4, 0, (void *)&client, client_bytes);
		_exit(0);
	}
	close(fd);
	fd = socket(AF_INET, SOCK_DGRAM, 0);
	sendto(fd, text, 4, 0, (void *)&server, bytes);
	recvfrom(fd, text, sizeof(text), 0, (void *)&server, &bytes);
	wait(NULL);
	return 0;
}

static void files(void)
{
	int fd;

	for (int i = 0; i < 3; i++)
		open("missing", O_RDONLY);
	close(open("/etc/passwd", O_RDONLY));
	fd = open("written", O_WRONLY | O_CREAT, 0600);
	for (int i = 0; i < 5; i++) {
		write(fd, "0123456789", 10);
		fsync(fd);
	}
	close(fd);
	close(open("both", O_RDWR | O_CREAT, 0600));
	close(open("app.conf.old", O_WRONLY | O_CREAT, 0600));
	rename("app.conf.old", "./app.conf");
	chmod("./app.conf", 0644);
	unlink("./app.conf");
}

static void processes(void)
{
	pid_t child = fork();

	if (!child)
		for (;;)
			pause();
	kill(child, SIGKILL);
	wait(NULL);
	if (!fork())
		_exit(3);
	wait(NULL);
	if (!fork()) {
		setuid(65534);
		for (int i = 0; i < 11; i++)
			syscall(SYS_getppid);
		_exit(0);
	}
	wait(NULL);
	if (!fork()) {
		execl("/bin/true", "true", NULL);
		_exit(1);
	}
	wait(NULL);
}

int main(int argc, char **argv)
{
	int word = 0;
	char byte;

	if (chdir(argv[1]))
		return 1;
	if (argc > 2)
		read(0, &byte, 1);
	files();
	processes();
	if (argc > 2) {
		connect_to("127.0.0.1", atoi(argv[2]));
		connect_to("127.0.0.9", 1);
		if (ask_names() || serve())
			return 2;
		touch();
		for (int i = 0; i < 3; i++)
			nap(60);
		for (int i = 0; i < 5; i++)
			syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, &(struct timespec){ .tv_nsec = 60000000 },
				NULL, 0);
		burn();
		read(0, &byte, 1);
	}
	return 0;
}
"""


def build(case, program):
    subprocess.run(["gcc", "-O1", "-fno-omit-frame-pointer", "-w", "-o", program,
                    case.write("app.c", PROGRAM)], check=True, timeout=PATIENCE_S)


def section(page, title):
    """What stands below that title of docs/PAGE, up to the next."""
    with open(os.path.join(ROOT, "docs", page)) as file:
        return re.split(rf"^## {re.escape(title)}$", file.read(), flags=re.M)[1].split("\n## ")[0]


def rows(text):
    """The cells of each row of the tables in it, but for those of the heads."""
    found = []
    for line in text.splitlines():
        if not line.startswith("| ") or set(line) <= set("|- "):
            continue
        cells = re.split(r"(?<!\\)\|", line)[1:-1]
        found.append([each.replace("\\|", "|").strip() for each in cells])
    return [cells for cells in found if cells[-1] != "command"]


def late_if_lost(done, expression, command):
    """What a machine that is too busy has lost, as the answer says, it is asked for once more when it is less so."""
    if done.code == 3 and not re.search(expression, done.out + done.err, re.M):
        raise Late(f"{command}: no {expression}, and events were lost: {done.out[-1000:]}")


def words_of(command, app, pid, itself):
    """The command as it stands, of this program and this process; -d becomes an interrupt, and all rows
    are shown: others may be busier than the program."""
    words = shlex.split(command.replace('"app"', f'"{app}"').replace("-c app", f"-c {app}").replace("1234", str(pid)))[1:]
    for option in {"--duration", "-d", "--top"} & set(words):
        at = words.index(option)
        del words[at:at + 2]
    if words[-2:] == ["--", "make"]:
        words[-1:] = itself
    return words
