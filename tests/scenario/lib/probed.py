"""A program whose functions and marks are probed: built from C by the test, with marks of sys/sdt.h."""
import os
import shutil
import subprocess

import ringtail

# Each turn calls work() once, and passes each mark as often as main() says. A turn is taken for each line of stdin.
SOURCE = r"""
#define _SDT_HAS_SEMAPHORES 1
#include <sys/sdt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

unsigned short test_guarded_semaphore __attribute__((section(".probes"), used));

__attribute__((noinline)) long work(long a, long b, int c)
{
	__asm__ volatile("" : "+r"(a), "+r"(b), "+r"(c));
	return a * 3 - c;
}

__attribute__((noinline)) long deeper(long left)
{
	long below = left ? deeper(left - 1) : 0;

	__asm__ volatile("" : "+r"(below));
	return below + 1;
}

void mark(long i);
void mark_twice(long i);

__attribute__((noinline)) void mark_guarded(long i)
{
	if (__builtin_expect(*(volatile unsigned short *)&test_guarded_semaphore, 0))
		STAP_PROBE2(test, guarded, i, 7);
}

int main(int argc, char **argv)
{
	char line[64];
	long turns, done = 0;

	setvbuf(stdout, NULL, _IOLBF, 0);
	printf("%p\n", (void *)&test_guarded_semaphore);
	(void)argc;
	while (fgets(line, sizeof(line), stdin)) {
		turns = atol(line);
		for (long i = 0; i < turns; i++, done++) {
			work(done, 5, -2);
			mark(done);
			mark_guarded(done);
			mark_twice(done);
		}
		if (argv[1])
			deeper(atol(argv[1]));
		printf("%ld\n", done);
	}
	return 0;
}
"""


# Marks without a semaphore.
MARKS = r"""
#include <sys/sdt.h>
#include <stdint.h>

/* Operands in registers, in memory, and constants; of each size, with a sign and without. */
__attribute__((noinline)) void mark(long i)
{
	volatile int8_t small = (int8_t)-i;
	volatile uint16_t medium = (uint16_t)(i * 7);
	volatile int32_t large = (int32_t)-i;
	uint64_t many[4] = {1, 2, 3, (uint64_t)i << 32};

	__asm__ volatile("" : : "r"(many) : "memory");
	STAP_PROBE5(test, plain, small, medium, large, many[i % 2 + 2], -5);
}

/* One mark in two places. */
__attribute__((noinline)) void mark_twice(long i)
{
	STAP_PROBE1(test, twice, i);
	__asm__ volatile("" ::: "memory");
	STAP_PROBE1(test, twice, -i);
}
"""


def compile_program(path, *flags):
    """Builds it; its sources lie beside it."""
    sources = [f"{path}.c", f"{path}-marks.c"]
    for source, text in zip(sources, (SOURCE, MARKS)):
        with open(source, "w") as file:
            file.write(text)
    return subprocess.run(["gcc", "-O2", "-o", path, *sources, *flags], capture_output=True, text=True)


def build(case, name="probed", *flags):
    """The path of the program, made anew. A machine without a compiler has those that RINGTAIL_PROBED leads to."""
    path, ready = case.path(name), os.environ.get("RINGTAIL_PROBED")
    if ready:
        shutil.copy(os.path.join(ready, "probed" + "".join(flags)), path)
        return os.path.realpath(path)
    done = compile_program(path, *flags)
    if "sys/sdt.h" in done.stderr:
        raise ringtail.Skip("systemtap-sdt-dev is not installed")
    case.check_equal((done.returncode, done.stderr), (0, ""), f"{name} is built")
    return os.path.realpath(path)


class Probed:
    """One that runs, and takes turns."""

    def __init__(self, *words, **options):
        self.process = subprocess.Popen(list(words), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True, **options)
        self.semaphore_at = int(self.process.stdout.readline(), 16)

    @property
    def pid(self):
        return self.process.pid

    def turn(self, turns):
        """Takes so many; they are over then."""
        self.process.stdin.write(f"{turns}\n")
        self.process.stdin.flush()
        self.process.stdout.readline()

    def semaphore(self):
        with open(f"/proc/{self.pid}/mem", "rb") as file:
            file.seek(self.semaphore_at)
            return int.from_bytes(file.read(2), "little")

    def end(self):
        self.process.stdin.close()
        return self.process.wait()
