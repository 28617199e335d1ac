#!/usr/bin/env python3
"""client/python: what a program passes breaks it the same way whether somebody asks for the probe or not; and a daemon holds
it up for 200 ms at most, in all steps together. The daemon is the test's own."""
import array
import os
import shutil
import socket
import struct
import sys
import tempfile
import threading

TOP = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..")
sys.path.insert(0, os.path.join(TOP, "client", "python"))

import ringtail_probe  # noqa: E402

PAGE, RING_BYTES, ENABLED_AT = 4096, 1 << 14, 2048
SEGMENT_BYTES = PAGE + PAGE + RING_BYTES
NO_TEXT = b"(no text)"
failed = 0


def said(what, right, seen=""):
    global failed
    print(f"{'ok' if right else 'not ok'} {what}")
    if not right:
        print(f"    {seen}")
        failed += 1


class Nameless:
    def __str__(self):
        raise RuntimeError("it has no name")


class Daemon:
    """It answers one program, whose memory it shows then."""

    def __init__(self, path):
        self.memory = os.memfd_create("segment")
        os.ftruncate(self.memory, SEGMENT_BYTES)
        os.pwrite(self.memory, struct.pack("<QIIIIQ", ringtail_probe.MAGIC, 1, 1, 0, 3, RING_BYTES), 0)
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(path)
        self.listener.listen()
        self.thread = threading.Thread(target=self.answer, daemon=True)
        self.thread.start()

    def answer(self):
        self.connection, _ = self.listener.accept()
        hello = self.connection.recv(48, socket.MSG_WAITALL)
        self.connection.recv(struct.unpack_from("<I", hello, 16)[0], socket.MSG_WAITALL)
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [self.memory]))]
        self.connection.sendmsg([ringtail_probe.WELCOME.pack(ringtail_probe.MAGIC, 1, 0, SEGMENT_BYTES)], rights)

    def enable(self, number, wanted):
        os.pwrite(self.memory, struct.pack("<I", wanted), ENABLED_AT + 4 * number)

    def record(self):
        """The words of the first field on, and where the next record will be."""
        end = struct.unpack("<Q", os.pread(self.memory, 8, PAGE))[0]
        return end, os.pread(self.memory, end, PAGE + PAGE)


def raises(call, *values):
    try:
        call(*values)
    except TypeError:
        return True
    return False


def check_counts(when, number, text):
    said(f"a wrong number of values is told {when}", raises(number) and raises(number, 1, 2) and raises(text, "a", "b"))


def check_values(daemon, number, text):
    position = 0
    for value, word in ((None, 0), ("no number", 0), (float("nan"), 0), (float("inf"), 0), (Nameless(), 0),
                        (2.75, 2), ("17", 17), (-1, (1 << 64) - 1), (1 << 70, 0), (True, 1)):
        number(value)
        end, record = daemon.record()
        got = struct.unpack_from("<Q", record, position + 24)[0]
        said(f"{type(value).__name__} for a number is {word}", end == position + 32 and got == word, (end, got))
        position = end
    for value, expected in ((Nameless(), NO_TEXT), (None, b"None"), (7, b"7"), ("\ud800", b"?")):
        text(value)
        end, record = daemon.record()
        bytes_there = struct.unpack_from("<Q", record, position + 24)[0]
        said(f"{type(value).__name__} for a text is {expected}", record[position + 40:position + 40 + bytes_there] == expected,
             record[position:end])
        position = end


class Slow(socket.socket):
    """Of its time: each step takes 150 ms, as far as it may."""
    now, bounds = 0.0, []

    def settimeout(self, seconds):
        Slow.bounds.append(seconds)

    def step(self, *_):
        Slow.now += min(0.15, Slow.bounds[-1])

    connect = sendall = step

    def recvmsg(self, *_):
        self.step()
        raise TimeoutError


def check_time():
    real_socket, real_time = ringtail_probe.socket.socket, ringtail_probe.time.monotonic
    ringtail_probe.socket.socket, ringtail_probe.time.monotonic = Slow, lambda: Slow.now
    try:
        ringtail_probe._program = None
        said("a daemon that does not answer is none", not ringtail_probe.attach())
        said("and holds the program up for 200 ms in all", Slow.now <= 0.2001 and len(Slow.bounds) > 1, Slow.bounds)
    finally:
        ringtail_probe.socket.socket, ringtail_probe.time.monotonic = real_socket, real_time


def main():
    if os.uname().machine != "x86_64":
        return 77
    scratch = tempfile.mkdtemp(prefix="ringtail-python-")
    try:
        path = os.path.join(scratch, "socket")
        number = ringtail_probe.probe("app", "number", "%d", n=int)
        text = ringtail_probe.probe("app", "text", "%s", t=str)
        check_counts("without a daemon", number, text)
        daemon = Daemon(path)
        os.environ["RINGTAIL_PROGRAMS"] = path
        wait_s, ringtail_probe.WAIT_S = ringtail_probe.WAIT_S, 60       # the host may be busy
        said("the program is attached", ringtail_probe.attach())
        ringtail_probe.WAIT_S = wait_s
        check_counts("while nobody asks", number, text)
        for wanted in range(2):
            daemon.enable(wanted, 1)
        said("it is asked for", bool(number) and bool(text))
        check_counts("while somebody asks", number, text)
        check_values(daemon, number, text)
        check_time()
    finally:
        shutil.rmtree(scratch)
    return failed != 0


sys.exit(main())
