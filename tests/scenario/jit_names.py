"""Code that a program made itself has the names that the program wrote to /tmp/perf-PID.map: live, in a tree and a pid
namespace of its own, and after it has ended; not those of a file that another user wrote. perf(1) sees the same."""
import os
import re
import shutil
import subprocess

import ringtail
from lib.process import PATIENCE_S

# The function that it makes counts down, in a frame of its own, for so many milliseconds and until its input ends. argv:
# those milliseconds, and the user whom its file is to belong to; it removes such a one.
PROGRAM = r"""
#define _GNU_SOURCE
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

static const unsigned char code[] = {
	0x55, 0x48, 0x89, 0xe5,			/* push %rbp; mov %rsp, %rbp */
	0xb9, 0x40, 0x42, 0x0f, 0x00,		/* mov $1000000, %ecx */
	0xff, 0xc9, 0x75, 0xfc,			/* 1: dec %ecx; jnz 1b */
	0x5d, 0xc3,				/* pop %rbp; ret */
};

int main(int argc, char **argv)
{
	char *page = mmap(NULL, 8192, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct pollfd input = { .fd = 0, .events = POLLIN };
	struct timespec now, begun;
	char path[64], unfinished[64];
	FILE *map;

	memcpy(page + 256, code, sizeof(code));
	snprintf(path, sizeof(path), "/tmp/perf-%d.map", getpid());
	snprintf(unfinished, sizeof(unfinished), "%s.new", path);
	map = fopen(unfinished, "w");
	fprintf(map, "%lx %zx before it\n%lx %zx made by itself\n", (long)page, (size_t)256, (long)page + 256,
		sizeof(code));
	fclose(map);
	/* Whoever looks for the file finds it as it stays. */
	if ((argc > 2 && chown(unfinished, atoi(argv[2]), -1)) || rename(unfinished, path))
		return 1;
	printf("ready\n");
	fflush(stdout);
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begun);
	do {
		((void (*)(void))(page + 256))();
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	} while (!poll(&input, 1, 0) ||
		 (now.tv_sec - begun.tv_sec) * 1000 + (now.tv_nsec - begun.tv_nsec) / 1000000 < atol(argv[1]));
	if (argc > 2)
		unlink(path);
	return 0;
}
"""
ENOUGH = 200            # samples, and a few maps


def part(text, comm):
    """Of the samples of that program, how many have the name, and how many there are."""
    stacks = [line.rsplit(" ", 1) for line in text.splitlines() if line.startswith(comm + ";")]
    return sum(int(count) for stack, count in stacks if stack.endswith(";made by itself")), \
        sum(int(count) for _, count in stacks)


def has_map(stream):
    """Whether tracectl has opened such a file of names: what it has read, it knows when the program has ended, too."""
    links = subprocess.run(["ls", "-l", f"/proc/{stream.pid}/fd"], capture_output=True, timeout=PATIENCE_S, text=True)
    return "/perf-" in links.stdout


def sampled(case, daemon, program, *words, unshared=False, named=True):
    """(samples with the name, samples) of a run of the program, which goes on until there are enough and, where tracectl
    is to have names, until it has read them."""
    comm = os.path.basename(program)[:15]
    stream = case.stream(daemon, "-o", "folded", "-p", "profile:hz:499", "--flags", "ustack", "-f", f'comm == "{comm}"')
    before = ["unshare", "-m", "-p", "-f", "sh", "-c",
              'mount --bind "$0" /mnt && mount -t tmpfs none /tmp && exec /mnt/app* "$@"'] if unshared else []
    if unshared:
        subprocess.run(["mkdir", "-p", case.path("bin")], check=True)
        shutil.copy(program, case.path("bin"))
        before.append(case.path("bin"))
    process = case.start(*(before or [program]), *words, stdin=subprocess.PIPE)
    ringtail.wait_until(lambda: daemon.client(stream.pid)["delivered"] >= ENOUGH and (has_map(stream) or not named),
                        f"{ENOUGH} samples are there")
    process.popen.stdin.close()
    done = process.wait()
    case.check_equal(done.code, 0, "the program ends well", done.err)
    case.await_rings_empty(daemon)
    stream.await_all(1)
    return part(stream.interrupt().out, comm)


def perf_sees(case, program):
    """Whether perf finds the same name; None where there is no perf."""
    data = case.path("perf.data")
    try:
        done = subprocess.run(["perf", "record", "-q", "-e", "cpu-clock", "-F", "499", "-o", data, program, "600"],
                              stdin=subprocess.DEVNULL, capture_output=True, timeout=PATIENCE_S)
        shown = subprocess.run(["perf", "script", "-i", data, "-F", "ip,sym"], capture_output=True,
                               timeout=PATIENCE_S, text=True)
    except FileNotFoundError:
        return None
    return None if done.returncode or shown.returncode else len(re.findall(r"made by itself", shown.stdout))


def main(case):
    program = case.path(f"app{os.getpid()}")
    subprocess.run(["gcc", "-O1", "-fno-omit-frame-pointer", "-w", "-o", program, case.write("app.c", PROGRAM)],
                   check=True, timeout=PATIENCE_S)
    daemon = case.daemon("--ring-size=4MiB")
    named, samples = sampled(case, daemon, program, "0")
    case.check(named >= samples * 0.8 and named > 50, f"{named} of {samples} samples have the name that it wrote")
    named, samples = sampled(case, daemon, program, "0", unshared=True)
    case.check(named >= samples * 0.7 and named > 50,
               f"in a tree and a pid namespace of its own, {named} of {samples} do")
    if os.geteuid() == 0:
        named, samples = sampled(case, daemon, program, "0", "65533", named=False)
        case.check(named == 0 and samples > 50, f"of a file of another user, {named} of {samples} do")
    seen = perf_sees(case, program)
    case.check(seen is None or seen > 50, "perf sees the same name", seen)
    case.check_balanced(daemon)


ringtail.run(main)
