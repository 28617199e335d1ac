"""Another's BPF program of the type TRACEPOINT, and slow: whatever interrupts it finds the CPU's guard taken."""
import ctypes
import os
import struct

BPF, PERF_EVENT_OPEN = (321, 298) if os.uname().machine == "x86_64" else (280, 241)
PROG_LOAD, TYPE_TRACEPOINT = 5, 5
IOC_ENABLE, IOC_SET_BPF = 0x2400, 0x40042408
ROUNDS = 20_000


def insn(code, dst=0, src=0, offset=0, number=0):
    return struct.pack("<BBhi", code, dst | src << 4, offset, number)


def program(pid):
    return b"".join([
        insn(0x85, number=14),                      # call bpf_get_current_pid_tgid
        insn(0x77, dst=0, number=32),               # r0 >>= 32
        insn(0x55, dst=0, offset=4, number=pid),    # if r0 != pid goto the end
        insn(0xb7, dst=7, number=ROUNDS),           # r7 = ROUNDS
        insn(0x85, number=5),                       # call bpf_ktime_get_ns
        insn(0x07, dst=7, number=-1),               # r7 -= 1
        insn(0x55, dst=7, offset=-3),               # if r7 goto the call
        insn(0xb7, dst=0, number=0),
        insn(0x95)])


def check(result, what):
    if result < 0:
        raise OSError(ctypes.get_errno(), f"{what}: {os.strerror(ctypes.get_errno())}")
    return result


def attach(identity, pid):
    """Runs at that tracepoint in that process, until the descriptor is closed."""
    libc = ctypes.CDLL(None, use_errno=True)
    code, licence = program(pid), b"GPL"
    code_at, licence_at = ctypes.create_string_buffer(code, len(code)), ctypes.create_string_buffer(licence)
    load = ctypes.create_string_buffer(struct.pack(
        "<IIQQ", TYPE_TRACEPOINT, len(code) // 8, ctypes.addressof(code_at),
        ctypes.addressof(licence_at)).ljust(128, b"\0"), 128)
    loaded = check(libc.syscall(BPF, PROG_LOAD, load, 128), "BPF_PROG_LOAD")
    event = ctypes.create_string_buffer(struct.pack("<IIQ", 2, 128, identity).ljust(128, b"\0"), 128)
    fd = check(libc.syscall(PERF_EVENT_OPEN, event, -1, 0, -1, 8), "perf_event_open")
    check(libc.ioctl(fd, IOC_SET_BPF, loaded), "PERF_EVENT_IOC_SET_BPF")
    check(libc.ioctl(fd, IOC_ENABLE, 0), "PERF_EVENT_IOC_ENABLE")
    os.close(loaded)
    return fd
