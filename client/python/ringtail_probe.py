# SPDX-License-Identifier: BSD-2-Clause
"""ringtail_probe: probes of a Python program, as ringtail-probe.h gives them to one in C. Linux on x86-64; no library.

    import ringtail_probe

    done = ringtail_probe.probe("app", "request_done", "id %d took %d us, %s", id=int, us=int, url=str)
    ringtail_probe.attach()
    done(7, 1031, "/index")

In: values. Out: records in memory that ringtaild has made and reads. Define all probes, then attach: attach() returns
whether a daemon listens. Without a daemon, and where nobody asks for the probe, a call returns at once; `if done:` tells
that before dear arguments are made. After os.fork() the child attaches by itself.
"""
import array
import contextlib
import ctypes
import mmap
import os
import platform
import socket
import struct
import sys
import threading
import time

__all__ = ["probe", "attach", "Probe"]

# As in ringtail-probe.h.
SOCKET = "/run/ringtail/programs.sock"
MAGIC, VERSION = 0x656d6172676f7270, 1
PROBES_MAX, ARGS_MAX, STRING_MAX, PAGE = 512, 10, 128, 4096
PAD, ATTACHMENT = 0xffff, 1
TYPES = {int: 8 << 4 | 2, bool: 1 << 4 | 1, str: 8 << 4 | 4, list: 8 << 4 | 6, bytes: 1 << 4 | 5}
HELLO = struct.Struct("<QIIIIII16s")
ENTRY = struct.Struct("<III10s2x")
WELCOME = struct.Struct("<QIiQ")
SEGMENT = struct.Struct("<QIIIIQ")
ENABLED_AT = 2048
LOST_AT, CONSUMER_AT = 8, 64            # of a ring
WAIT_S = 0.2                            # a daemon that does not answer holds a program up for so long
WORD = (1 << 64) - 1
NO_TEXT = b"(no text)"
AT_SECURE = 23                          # of getauxval(3)
PR_GET_DUMPABLE = 3                     # of prctl(2)
SHOWN = 2                               # of HELLO: its user may see its events

_probes = []
_program = None
_lock = threading.Lock()                # of attaching


class Probe:
    """Call it with the values of its fields. It is true while somebody asks for it."""

    def __init__(self, provider, name, text, fields):
        caller = sys._getframe(2)
        texts = (provider, name, text, caller.f_code.co_filename, *fields)
        packed = b"".join(text.encode() + b"\0" for text in texts)
        packed += bytes(-len(packed) % 8)
        self.types = tuple(fields.values())
        self.entry = ENTRY.pack(ENTRY.size + len(packed), caller.f_lineno, len(fields),
                                bytes(TYPES[kind] for kind in self.types)) + packed
        self.number = len(_probes)

    def __bool__(self):
        program = _program
        return program is not None and program.is_wanted(self.number)

    def __call__(self, *values):
        """A wrong number of values raises TypeError, whether somebody asks for the probe or not; nothing else raises."""
        if len(values) != len(self.types):
            raise TypeError(f"the probe has {len(self.types)} fields, and is given {len(values)} values")
        program = _program
        if program is None or not program.is_wanted(self.number):
            return
        words, texts = [], b""
        for i, (kind, value) in enumerate(zip(self.types, values)):
            if kind in (str, list, bytes):
                value, text = _elements(kind, value) if kind is not str else _text(value)
                texts += struct.pack("<Q", len(text) << 32 | i << 16 | ATTACHMENT) + text + bytes(-len(text) % 8)
            words.append(_whole(value))
        program.put(self.number, struct.pack(f"<{len(words)}Q", *words) + texts)


def _whole(value):
    """What is no number is 0: that somebody far away asks for the probe breaks no program."""
    try:
        return int(value) & WORD
    except Exception:
        return 0


def _elements(kind, value):
    """The bytes of all elements, and those for which there is room. What is no list of numbers is empty."""
    size = TYPES[kind] >> 4
    try:
        kept = [_whole(one) for one in value[:STRING_MAX // size]]
        return len(value) * size, b"".join((one & ((1 << 8 * size) - 1)).to_bytes(size, "little") for one in kept)
    except Exception:
        return 0, b""


def _text(value):
    text = _cut(value)
    return len(text), text


def _cut(value):
    """Whole characters, up to the first zero, as far as there is room. What has no text has a mark."""
    try:
        text = str(value).encode(errors="replace").split(b"\0")[0]
    except Exception:
        text = NO_TEXT
    return text if len(text) <= STRING_MAX else text[:STRING_MAX].decode(errors="ignore").encode()


class _Ring:
    def __init__(self, segment, at, size):
        self.segment, self.at, self.size, self.lock = segment, at, size, threading.Lock()
        # One store each, which nobody sees half.
        self.producer = ctypes.c_uint64.from_buffer(segment, at)
        self.lost = ctypes.c_uint64.from_buffer(segment, at + LOST_AT)
        self.consumer = ctypes.c_uint64.from_buffer(segment, at + CONSUMER_AT)

    def put(self, number, payload):
        """The lock is held. On x86-64 stores come in their order: the position moves when the record is there."""
        pos, size = self.producer.value, 24 + len(payload)
        left = self.size - pos % self.size
        pad = left if size > left else 0
        if pos + pad + size - self.consumer.value > self.size:
            self.lost.value += 1
            return
        if pad:
            struct.pack_into("<Q", self.segment, self._place(pos), pad // 8 << 16 | PAD)
            pos += pad
        struct.pack_into("<QQII", self.segment, self._place(pos), size // 8 << 16 | number, time.monotonic_ns(),
                         threading.get_native_id(), self.lost.value & 0xffffffff)
        at = self._place(pos) + 24
        self.segment[at:at + len(payload)] = payload
        self.producer.value = pos + size

    def _place(self, pos):
        return self.at + PAGE + pos % self.size


class _Program:
    """A connection, and the memory that came with it. It ends with the program."""

    def __init__(self, connection, segment, probes):
        _, _, rings, _, _, size = SEGMENT.unpack_from(segment, 0)
        self.connection, self.probes = connection, probes
        self.enabled = (ctypes.c_uint32 * PROBES_MAX).from_buffer(segment, ENABLED_AT)
        self.rings = [_Ring(segment, PAGE + i * (PAGE + size), size) for i in range(rings)]

    def put(self, number, payload):
        """A ring that nobody else holds: a signal's handler may be amid one."""
        for ring in self.rings:
            if ring.lock.acquire(blocking=False):
                try:
                    ring.put(number, payload)
                finally:
                    ring.lock.release()
                return
        self.rings[0].lost.value += 1

    def is_wanted(self, number):
        return number < self.probes and self.enabled[number] != 0

    def is_heard(self):
        try:
            return self.connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) != b""
        except BlockingIOError:
            return True
        except OSError:
            return False


def probe(provider, name, text, /, **fields):
    """A probe, with a printf(3) format of its fields: int, bool, str, list (of int) or bytes, at most ten."""
    if len(fields) > ARGS_MAX or len(_probes) >= PROBES_MAX:
        raise ValueError(f"a probe has {ARGS_MAX} fields at most, a program {PROBES_MAX} probes")
    made = Probe(provider, name, text, fields)
    _probes.append(made)
    return made


def _comm():
    with contextlib.suppress(OSError), open("/proc/self/comm", "rb") as file:
        return file.read().rstrip(b"\n")[:15]
    return b"python"


def _is_secure():
    """Whether the interpreter has rights that its user has not: it believes no environment then."""
    with contextlib.suppress(AttributeError, OSError):
        getauxval = ctypes.CDLL(None).getauxval
        getauxval.restype, getauxval.argtypes = ctypes.c_ulong, [ctypes.c_ulong]
        return getauxval(AT_SECURE) != 0
    return (os.getuid(), os.getgid()) != (os.geteuid(), os.getegid())


def _is_shown():
    """Whether the user may look into this process, as for ptrace(2): then the user may see its events."""
    with contextlib.suppress(AttributeError, OSError, ValueError, IndexError):
        with open("/proc/self/status") as file:
            rights = file.read().split("\nCapPrm:", 1)[1].split()[0]
        return ctypes.CDLL(None).prctl(PR_GET_DUMPABLE, 0, 0, 0, 0) == 1 and int(rights, 16) == 0
    return False


def _wait_until(connection, until):
    """The next call on it ends by then."""
    left = until - time.monotonic()
    if left <= 0:
        raise TimeoutError
    connection.settimeout(left)


def _map(connection, until):
    """The program, or None where the daemon refuses it."""
    table = b"".join(probe.entry for probe in _probes)
    _wait_until(connection, until)
    connection.sendall(HELLO.pack(MAGIC, VERSION, len(_probes), len(table), os.getpid(), 0,
                                  SHOWN if _is_shown() else 0, _comm()) + table)
    _wait_until(connection, until)
    answer, control, _, _ = connection.recvmsg(WELCOME.size, socket.CMSG_SPACE(4), socket.MSG_CMSG_CLOEXEC)
    descriptors = array.array("i")
    for level, kind, data in control:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            descriptors.frombytes(data[:len(data) // 4 * 4])
    try:
        if len(answer) != WELCOME.size or not descriptors:
            return None
        magic, version, err, size = WELCOME.unpack(answer)
        if (magic, version, err) != (MAGIC, VERSION, 0):
            return None
        return _Program(connection, mmap.mmap(descriptors[0], size), len(_probes))
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


def _connect():
    path = SOCKET if _is_secure() else os.environ.get("RINGTAIL_PROGRAMS", SOCKET)
    until = time.monotonic() + WAIT_S
    if not path:
        return None
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    try:
        _wait_until(connection, until)
        connection.connect(path)
        made = _map(connection, until)
    except OSError:
        made = None
    if not made:
        connection.close()
    return made


def attach():
    """Connects to the daemon, unless that is done: whether it is. Probes that are defined later want another program."""
    global _program
    if platform.machine() != "x86_64" or not _probes:
        return False
    with _lock:
        if not (_program and _program.is_heard()):
            _program = _connect()
    return _program is not None


def _forked():
    """The child is a process of its own."""
    global _program, _lock
    was, _program, _lock = _program, None, threading.Lock()
    if was:
        was.connection.close()
        attach()


os.register_at_fork(after_in_child=_forked)
