#!/usr/bin/env python3
"""No BPF program takes more of the stack than the oldest kernel gives it: the sum of its own frame and of those of the
functions below it, along each chain of calls. This kernel may be newer, and load what 6.1 refuses.

What a frame takes is what the verifier counts: down to the lowest byte that a function reaches from r10. Each frame is
rounded up to 32 bytes, as check_max_stack_depth() of the kernel's verifier.c did at first. The verifier leaves out
branches that cannot be taken in its kernel, so it may find less than this.
"""
import collections
import os
import struct
import subprocess
import sys
import tempfile

BUILD = os.environ.get("RINGTAIL_BUILD", "build")
STACK_BYTES, FRAME_ROUND, FRAMES = 512, 32, 8
SHT_SYMTAB, SHT_REL, STT_FUNC, EM_BPF = 2, 9, 2, 247
R_BPF_64_64, R_BPF_64_32 = 1, 10
LOAD_IMM64, CALL, MOVE, ADD = 0x18, 0x85, 0xbf, 0x07
LOADS, STORES, FRAME_POINTER, PSEUDO_CALL, PSEUDO_FUNC = (0x01,), (0x02, 0x03), 10, 1, 4

failed = 0


def check(name, good, *facts):
    global failed
    print(f"{'ok' if good else 'not ok'} {name}")
    for fact in facts if not good else ():
        print(f"    {fact}")
    failed += not good


Function = collections.namedtuple("Function", "name bytes calls is_program")


class Object:
    """What is needed of a relocatable ELF file for BPF, little-endian as each machine that it is built for."""

    def __init__(self, path):
        with open(path, "rb") as file:
            self.data = file.read()
        assert self.data[:5] == b"\x7fELF\2" and struct.unpack_from("<H", self.data, 18) == (EM_BPF,), path
        at, size, number, self.names = struct.unpack_from("<Q10xHHH", self.data, 40)
        self.section = [struct.unpack_from("<IIQQQQIIQQ", self.data, at + i * size) for i in range(number)]
        table = next(section for section in self.section if section[1] == SHT_SYMTAB)
        self.symbol = [(self.text(self.section[table[6]], name), info & 15, section, value, size)
                       for name, info, _, section, value, size in struct.iter_unpack("<IBBHQQ", self.bytes_of(table))]
        self.targets = {}       # (section, offset) of an instruction: the symbol that it is to have
        for section in self.section:
            if section[1] == SHT_REL:
                for offset, info in struct.iter_unpack("<QQ", self.bytes_of(section)):
                    self.targets[section[7], offset] = info & 0xffffffff, self.symbol[info >> 32]

    def bytes_of(self, section):
        return self.data[section[4]:section[4] + section[5]]

    def text(self, strings, at):
        return self.data[strings[4] + at:self.data.index(b"\0", strings[4] + at)].decode()

    def functions(self):
        """By (section, offset)."""
        return {(section, value): self.function(name, section, value, size)
                for name, kind, section, value, size in self.symbol if kind == STT_FUNC}

    def function(self, name, section, value, size):
        code, lowest, calls, copies = self.bytes_of(self.section[section]), 0, set(), set()
        for at in range(value, value + size, 8):
            operation, registers, offset, number = struct.unpack_from("<BBhi", code, at)
            to, of, kind = registers & 15, registers >> 4, operation & 7
            if (kind in LOADS and of == FRAME_POINTER) or (kind in STORES and to == FRAME_POINTER):
                lowest = min(lowest, offset)
            if kind in STORES:
                continue
            if operation == MOVE and of == FRAME_POINTER:
                copies.add(to)
            elif operation == ADD and to in copies:
                lowest = min(lowest, number)
                copies.discard(to)
            elif operation == CALL and of == PSEUDO_CALL or operation == LOAD_IMM64 and (section, at) in self.targets:
                calls |= self.called(section, at, operation, number)
            elif kind != 5 and kind != 6:
                copies.discard(to)
        return Function(name, -lowest, calls, self.text(self.section[self.names], self.section[section][0]) != ".text")

    def called(self, section, at, operation, number):
        """As libbpf places it: a call is of the words between, a function's address of bytes."""
        kind, (_, symbol_kind, place, value, _) = self.targets.get((section, at), (0, (0, 0, 0, 0, 0)))
        if operation == LOAD_IMM64:
            code = self.section[place][2] & 4 if place < len(self.section) else 0
            return {(place, value + number)} if code else set()
        if not kind:
            return {(section, at + 8 * (number + 1))}
        return {(place, value + 8 * (number + 1))}


def deepest(functions, at, above=()):
    """(bytes, names) of the chain of calls from this function that takes the most, and of how many frames the longest
    one is."""
    assert at not in above, f"{functions[at].name} calls itself"
    function = functions[at]
    mine = -(-max(function.bytes, 1) // FRAME_ROUND) * FRAME_ROUND
    below = [deepest(functions, called, (*above, at)) for called in function.calls]
    most, names, _ = max(below, default=(0, (), 0))
    return mine + most, (f"{function.name} {mine}", *names), 1 + max((frames for _, _, frames in below), default=0)


def programs(path):
    functions = Object(path).functions()
    return {function.name: deepest(functions, at) for at, function in functions.items() if function.is_program}


MADE = r"""
#define SEC(name) __attribute__((section(name), used))
static long (*const read_kernel)(void *to, unsigned bytes, const void *from) = (void *)113;
static long (*const loop)(unsigned times, void *each, void *context, unsigned long flags) = (void *)181;

static __attribute__((noinline)) int small(void *from)
{
	char here[24];

	read_kernel(here, sizeof(here), from);
	return here[3];
}
__attribute__((noinline)) int large(void *from)
{
	char here[200];

	read_kernel(here, sizeof(here), from);
	return here[5] + small(here + here[6]);
}
static int each(unsigned i, void *context)
{
	char here[100];

	read_kernel(here, sizeof(here), context);
	return here[1];
}
SEC("tp") int bare(void *context) { return 0; }
SEC("tp") int calls(void *context) { return small(context) + large(context) + 1; }
SEC("tp") int loops(void *context) { loop(3, each, context, 0); return small(context); }
"""


def check_made():
    """Frames of known sizes are found: one's own, through a call, a call's call, and a function that is passed on."""
    with tempfile.TemporaryDirectory() as directory:
        with open(f"{directory}/made.c", "w") as file:
            file.write(MADE)
        subprocess.run([os.environ.get("CLANG", "clang"), "-target", "bpf", "-mcpu=v3", "-O2", "-g", "-c", "-o",
                        f"{directory}/made.o", f"{directory}/made.c"], check=True)
        found = programs(f"{directory}/made.o")
    want = {"bare": (32, ("bare 32",), 1), "loops": (160, ("loops 32", "each 128"), 2),
            "calls": (32 + 224 + 32, ("calls 32", "large 224", "small 32"), 3)}
    check("a made program's stack is measured", found == want, found)


check_made()
found = programs(os.path.join(BUILD, "kmod/ringtail.bpf.o"))
check("the programs are found", {"sys_enter", "sys_exit", "sched_switch", "any_tracepoint"} <= set(found), sorted(found))
for name, (taken, chain, frames) in sorted(found.items()):
    check(f"{name} takes {taken} bytes of stack, and {STACK_BYTES} are allowed", taken <= STACK_BYTES,
          " calls ".join(chain))
    check(f"{name} is {frames} functions deep, and {FRAMES} are allowed", frames <= FRAMES)
sys.exit(failed > 0)
