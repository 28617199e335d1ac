"""The questions of docs/recipes.md, each command as it stands there, all at once beside one program whose doings are
known: each answer has what the program did. A question without an answer here fails, so the page cannot rot."""
import os
import re
import shlex
import socket
import subprocess

import ringtail
from lib.process import PATIENCE_S

PROGRAM = r"""
#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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

/* A server of one answer, which takes 20 ms, and who asks it. */
static void ask_names(void)
{
	struct sockaddr_in server = { .sin_family = AF_INET, .sin_port = htons(53) };
	int fd = socket(AF_INET, SOCK_DGRAM, 0);
	socklen_t bytes = sizeof(server);
	char text[64] = "who?";

	inet_pton(AF_INET, "127.0.0.77", &server.sin_addr);
	bind(fd, (void *)&server, sizeof(server));
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
		ask_names();
		for (int i = 0; i < 4; i++)
			nap(60);
		syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, &(struct timespec){ .tv_nsec = 80000000 }, NULL, 0);
		burn();
	}
	return 0;
}
"""


def cell(text):
    return text.replace("\\|", "|").strip()


def questions():
    """Question and command of each row of the section."""
    with open(os.path.join(ringtail.ROOT, "docs/recipes.md")) as file:
        section = file.read().split("## Twenty-five questions")[1].split("\n## ")[0]
    rows = re.findall(r"^\| (.+?) \| `(tracectl .+)` \|$", section, re.M)
    return [(cell(question), cell(command)) for question, command in rows]


def wanted(app, pid, port):
    """What each answer has: expressions, all of them; `app` is the program's name, `pid` its process."""
    return {
        "Who opens `/etc/passwd`?": [rf" {app} +{pid}/\d+ .*openat\(.*filename=\"/etc/passwd\""],
        "Which files does it not find?": [r"^ +3  .*missing$"],
        "Which of its calls are slow?": [r"clock_nanosleep\(", r"futex\("],
        "Where does its time go?": [r" 5 +0  (\S+  )?fsync$", r" 5 +0  (\S+  )?clock_nanosleep$"],
        "Which of its calls fail, and how?": [r"^ +3  openat  ENOENT$", r"^ +1  connect  ECONNREFUSED$",
                                              r"^ +1  futex  ETIMEDOUT$"],
        "What does a command do, with all that it starts?": [r"execve\(.*\) = 0 ", r"\"/etc/passwd\"",
                                                             r" true +\d+/\d+ "],
        "Where does the time of a command go?": [r" 5 +0  fsync$", r" 11 +0  getppid$"],
        "Which files does a command write?": [r"^ +1  written$", r"^ +1  app.conf.old$"],
        "What do process 1234 and its children do?": [rf"^ +11  {app}  getppid$", rf"^ +5  {app}  fsync$"],
        "Who changes or deletes this file?": [r"chmod(at)?\(", r"unlink(at)?\("],
        "How long do its syncs take?": [r"^  5 values, p50 "],
        "Who writes how much?": [rf"^ +5 +50 +10 +10 +10  {app}$"],
        "Who sends SIGKILL, and to whom?": [rf" {app} +{pid}/{pid} +kill\(pid=\d+, sig=SIGKILL\)"],
        "What was killed, also for want of memory?": [rf" {app} .*sched_process_exit"],
        "Which processes end with an error?": [rf" {app} .*sched_process_exit.*status 3$"],
        "Which programs start?": [r"sched_process_exec.*\"/bin/true\""],
        "Who starts processes?": [rf"^ +5  {app}$"],
        "What does this user do?": [rf"^ +11  {app}  getppid$"],
        "Who connects where?": [rf"^ +1  {app}  127.0.0.1:{port}$", rf"^ +1  {app}  127.0.0.9:1$"],
        "Which connections are refused?": [rf" {app} .*connect\(.*\"127.0.0.9:1\".* ECONNREFUSED"],
        "How long does a DNS server take?": [r"^  1 values, p50 (2|3|4|5|6|7|8|9)\d(\.\d+)?ms"],
        "Why is it off the CPU, and for how long?": [rf"  {app}  .*nanosleep", rf"  {app}  .*futex"],
        "How long do woken threads wait for a CPU?": [rf"^{app}/{pid}$"],
        "Where is the CPU?": [rf"^{app};.*burn \d+$"],
        "Which container, unit or program burns it?": [rf"  {app}$"],
        "What waits for a lock?": [rf" {app} .*futex\(.*ETIMEDOUT"],
        "Which processes started and ended before the alert?": [r"sched_process_exec.*\"/bin/true\"",
                                                                rf" {app} .*sched_process_exit.*status 3$"],
    }


def words_of(command, app, pid, itself):
    """The command as it stands, of this program and this process; --duration becomes an interrupt, and all rows
    are shown: others may be busier than the program."""
    words = shlex.split(command.replace('"app"', f'"{app}"').replace("1234", str(pid)))[1:]
    for option in {"--duration", "--top"} & set(words):
        at = words.index(option)
        del words[at:at + 2]
    if words[-2:] == ["--", "make"]:
        words[-1:] = itself
    return words


def check(case, question, command, out, expressions):
    for expression in expressions:
        case.check(re.search(expression, out, re.M), f"{question} {expression}", command, out[-3000:])


def main(case):
    app = case.own_comm
    program, where = case.path(app), case.path("directory")
    os.mkdir(where)
    subprocess.run(["gcc", "-O1", "-fno-omit-frame-pointer", "-w", "-o", program,
                    case.write("app.c", PROGRAM)], check=True, timeout=PATIENCE_S)
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    daemon = case.daemon("--ring-size=8MiB", "--queue-size=64MiB", "--probe=tracepoint:sched:sched_process_*")
    process = case.start(program, where, str(port), stdin=-1)
    pid = process.popen.pid
    answers = wanted(app, pid, port)
    asked = questions()
    case.check_equal([question for question, _ in asked], list(answers), "each question has its answer here")
    live, later = [], []
    for question, command in asked:
        words = words_of(command, app, pid, [program, where])
        if "--" in words or "--since" in words:
            later.append((question, command, words))
        else:
            live.append((question, command, case.start_stream(daemon, *words[1:], command=words[0])))
    for _, _, stream in live:
        stream.await_subscribed()
    process.popen.stdin.write(b"!")
    process.popen.stdin.close()
    process.wait()
    case.check_equal(process.popen.returncode, 0, "the program does what it does")
    for question, command, stream in live:
        stream.await_all()
        done = stream.interrupt()
        case.check(done.code in (0, 3), f"{command} ends well", done.err)
        check(case, question, command, done.out, answers[question])
    for question, command, words in later:
        done = case.tracectl(daemon, *words)
        case.check(done.code in (0, 3), f"{command} ends well", done.err)
        check(case, question, command, done.out, answers[question])
    case.check_balanced(daemon)


ringtail.run(main)
