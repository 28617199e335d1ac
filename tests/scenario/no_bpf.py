"""A kernel, or a sandbox, without bpf(2): a seccomp filter answers it as such a kernel would."""
import ctypes
import errno
import os
import platform
import struct

import ringtail

NUMBERS = {"x86_64": (321, 0xC000003E), "aarch64": (280, 0xC00000B7)}
PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2
LOAD, EQUAL, RETURN = 0x20, 0x15, 0x06
ALLOW, ERRNO = 0x7FFF0000, 0x00050000


def refuse_bpf(error):
    """For between fork and exec: from now on bpf(2) fails with that error."""
    number, arch = NUMBERS[platform.machine()]
    code = b"".join(struct.pack("<HBBI", *one) for one in (
        (LOAD, 0, 0, 4), (EQUAL, 0, 3, arch), (LOAD, 0, 0, 0), (EQUAL, 0, 1, number),
        (RETURN, 0, 0, ERRNO | error), (RETURN, 0, 0, ALLOW)))
    program = ctypes.create_string_buffer(code)
    pointer = struct.pack("@HP", len(code) // 8, ctypes.addressof(program))
    libc = ctypes.CDLL(None, use_errno=True)

    def apply(keep=program):    # as long as something points to it
        if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or \
           libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, pointer, 0, 0):
            os._exit(111 if keep else 0)
    return apply


def main(case):
    if platform.machine() not in NUMBERS:
        raise ringtail.Skip(f"the number of bpf(2) on {platform.machine()} is not known here")
    for source in ("bpf", "auto"):
        done = case.refused(f"--source={source}", preexec_fn=refuse_bpf(errno.ENOSYS))
        if done.code == 111:
            raise ringtail.Skip("seccomp filters are not allowed here")
        case.check(done.code == 1 and "[bpf-not-in-kernel]" in done.err and
                   "CONFIG_BPF_SYSCALL" in done.err and "kmod" in done.err,
                   f"--source={source}, ENOSYS: no bpf(2), which kernel option, what instead",
                   done.code, done.err)
    done = case.refused("--source=bpf", preexec_fn=refuse_bpf(errno.EPERM))
    if os.geteuid() == 0:
        case.check(done.code == 1 and "[bpf-not-permitted]" in done.err and "seccomp" in done.err,
                   "EPERM in spite of the capabilities: a sandbox is in the way", done.code,
                   done.err)


ringtail.run(main)
