"""What is only to be counted, the kernel counts, and records nothing: exactly, by result, for several questions at
once, while others come that want the same calls as events, and go again; of tracepoints, too. A daemon that is killed
or restarted amid them leaves nothing behind, and what nobody counted is told as lost."""
import json
import subprocess

import ringtail
from lib.process import PATIENCE_S
from lib.service_manager import Service

GOOD, BAD, PROCESSES = 5000, 500, 3
EACH = (GOOD + BAD) * PROCESSES
PROGRAM = r"""
#include <arpa/inet.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static int send_to_itself(int packets)
{
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int fd = socket(AF_INET, SOCK_DGRAM, 0);
	socklen_t bytes = sizeof(address);
	char byte = 0;

	if (bind(fd, (void *)&address, bytes) || getsockname(fd, (void *)&address, &bytes))
		return 1;
	while (packets--)
		if (sendto(fd, &byte, 1, 0, (void *)&address, bytes) != 1 || recv(fd, &byte, 1, 0) != 1)
			return 1;
	return 0;
}

int main(int argc, char **argv)
{
	if (argc > 1)
		return send_to_itself(GOOD);
	for (int i = 0; i < PROCESSES; i++)
		if (!fork()) {
			for (int k = 0; k < GOOD; k++)
				syscall(SYS_getsid, 0);
			for (int k = 0; k < BAD; k++)
				syscall(SYS_getsid, -1);
			_exit(0);
		}
	while (wait(0) > 0)
		;
	return 0;
}
"""


def build(case):
    program = case.path(case.own_comm)
    subprocess.run(["gcc", "-O1", "-w", f"-DGOOD={GOOD}", f"-DBAD={BAD}", f"-DPROCESSES={PROCESSES}", "-o", program,
                    case.write("calls.c", PROGRAM)], check=True, timeout=PATIENCE_S)
    return lambda *words: case.check_equal(case.start(program, *words).wait().code, 0, "the calls are made")


def ask(case, daemon, *words, command="count"):
    return case.start_stream(daemon, *words, "-o", "json", command=command).await_subscribed()


def answer(case, done, lost=0):
    """The rows, by key; the client's ledger closes."""
    lines = [json.loads(line) for line in done.out.splitlines()]
    case.check_equal(done.summary["ledger"], "balanced", "the client's ledger is balanced")
    if lost is not None:
        case.check_equal((done.summary["lost"], done.code), (lost, 3 if lost else 0), f"{lost or 'nothing'} is lost")
    return {tuple(line["key"].values()): line for line in lines if "key" in line}


def counted(daemon):
    return daemon.stat()["counters"]["events_counted"]


def count_of(case, done, *key, **more):
    return answer(case, done, **more).get(key, {"count": 0})["count"]


def several_questions(case, daemon, run):
    first = ask(case, daemon, "-p", "getsid", "-p", "tracepoint:syscalls:sys_enter_getsid")
    before = daemon.recorded()
    run()
    ringtail.wait_until(lambda: counted(daemon) >= 2 * EACH, "both probes are counted, in the kernel")
    case.check(daemon.recorded() - before >= 2 * EACH, "as events of the rings")
    case.check(daemon.stat()["counters"]["records_read"] < EACH / 10, "which hold no record of them")
    second = ask(case, daemon, "-p", "getsid", "--by", "function,provider,cpu")
    run()
    ringtail.wait_until(lambda: counted(daemon) >= 4 * EACH, "and once for both questions")
    case.check_balanced(daemon)

    # Who wants events gets them, and all others the same answer.
    stream = case.stream(daemon, "-p", "getsid", "-f", f'comm == "{case.own_comm}"', "-o", "none")
    summary = ask(case, daemon, "-p", "getsid", command="summary")
    run()
    stream.await_all(EACH)
    summary.await_all(EACH)
    case.check(counted(daemon) < 5.5 * EACH, "then calls are recorded, and tracepoints counted as before")
    case.check_balanced(daemon)
    case.check_stream(stream.interrupt(), events=EACH)
    rows = answer(case, summary.interrupt())
    case.check_equal((rows["getsid",]["count"], rows["getsid",]["errors"]), (EACH, BAD * PROCESSES),
                     "a summary has its times")
    ringtail.wait_until(lambda: sum(bool(client["probe"]) for client in daemon.stat()["client"]) == 2, "they are gone")
    configured = daemon.stat()["counters"]["configures"]
    third = ask(case, daemon, "-p", "getsid", "--by", "host")
    case.check(daemon.stat()["counters"]["configures"] > configured, "and in force is what is left")
    run()
    for client, events in (first, 8 * EACH), (second, 3 * EACH), (third, EACH):
        client.await_all(events)
    case.check_balanced(daemon)
    case.check_equal(count_of(case, first.interrupt(), "syscall:getsid:call"), 4 * EACH, "the first has all")
    rows = answer(case, second.interrupt())
    case.check_equal(sum(row["count"] for row in rows.values()), 3 * EACH, "the second has what came after it")
    rows = answer(case, third.interrupt())
    case.check_equal([row["count"] for row in rows.values()], [EACH], "and so has the third")
    ringtail.wait_until(lambda: not daemon.recording(), "nothing is attached when all are gone")


def filtered(case, daemon, run):
    """By a filter that the kernel knows whole."""
    before = counted(daemon)
    mine = ask(case, daemon, "-p", "getsid", "-f", f'comm == "{case.own_comm}"')
    run()
    ringtail.wait_until(lambda: counted(daemon) - before == EACH, "the kernel counts what passes")
    nobodys = ask(case, daemon, "-p", "getsid", "-f", 'comm == "somebody-else"')
    run()
    mine.await_all(2 * EACH)
    case.check_equal(counted(daemon) - before, EACH, "which it cannot for two filters")
    case.check_balanced(daemon)
    case.check_equal(answer(case, nobodys.interrupt()), {}, "nothing passes the other's")
    case.check_equal(count_of(case, mine.interrupt(), "syscall:getsid:call"), 2 * EACH, "all passes its own")


def frequent(case, daemon, run):
    """Of tracepoints that have a shorter program. A packet of another process may go out while this one is
    interrupted."""
    before, records = counted(daemon), daemon.stat()["counters"]["records_read"]
    packets = ask(case, daemon, "-p", "tracepoint:net:net_dev_queue", "-f", f'comm == "{case.own_comm}"')
    run("send")
    packets.await_all(GOOD)
    case.check(counted(daemon) - before >= GOOD, "the kernel counts packets")
    case.check(daemon.stat()["counters"]["records_read"] - records < GOOD / 10, "and records none of them")
    case.check(count_of(case, packets.interrupt(), "tracepoint:net:net_dev_queue") >= GOOD, "as the answer says")
    case.check_balanced(daemon)


def restarted(case, run):
    """The kernel counts on while no daemon is there, and nobody can say of what that was: the client is told how much
    is missing. Who has events beside it misses none."""
    service = Service(case)
    address = service.address
    load = case.load(1000)
    events = case.stream(service.daemon, "-p", "syscall:getppid:call", "-f", load.filter, "-o", "none")
    client = ask(case, service.daemon, "-p", "getsid")
    for kill in (False, True):
        run()
        ringtail.wait_until(lambda: counted(service.daemon) >= EACH, "it is counted")
        client.await_all(EACH)
        if kill:
            service.daemon.crash()
        else:
            service.daemon.stop()
        run()
        service.daemon = client.daemon = events.daemon = service.manager.daemon(listen=[address])
        case.check("[restart-adopted]" in service.daemon.log, "the rings are gone on with", service.daemon.log)
        client.await_subscribed()
        events.await_subscribed()
        case.check_balanced(service.daemon)
    load.run()
    events.await_all(1000)
    run()
    client.await_all(EACH)
    case.check_balanced(service.daemon)
    done = client.interrupt()
    row = answer(case, done, lost=None)["syscall:getsid:call",]
    case.check_equal(row["count"], 3 * EACH, "what was read is in the answer")
    case.check(5 * EACH <= row["count_max"] < 5.1 * EACH, "what was not is how far it may be off", row)
    case.check_stream(events.interrupt(), events=1000)
    service.daemon.stop()
    service.manager.forget()


def main(case):
    case.await_alone()
    run = build(case)
    daemon = case.daemon("--history-age=0s")
    several_questions(case, daemon, run)
    filtered(case, daemon, run)
    frequent(case, daemon, run)
    daemon.stop()
    restarted(case, run)


ringtail.run(main)
