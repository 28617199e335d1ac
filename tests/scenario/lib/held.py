"""held: one thread of another process, stopped while the rest of it goes on.

    held = Held(thread)         # a tid; whoever calls is its tracer, and alone may let it go
    held.let_go()
"""
import ctypes
import os

from lib.process import Skip

PTRACE_DETACH, PTRACE_SEIZE, PTRACE_INTERRUPT = 17, 0x4206, 0x4207


class Held:
    def __init__(self, thread):
        self.thread, self.libc = thread, ctypes.CDLL(None, use_errno=True)
        self.call(PTRACE_SEIZE)
        self.call(PTRACE_INTERRUPT)
        os.waitpid(thread, 0x40000000)      # __WALL: it has stopped

    def call(self, request):
        if self.libc.ptrace(ctypes.c_long(request), ctypes.c_long(self.thread), None, None) != 0:
            raise Skip(f"no ptrace here: {os.strerror(ctypes.get_errno())}")

    def let_go(self):
        self.call(PTRACE_DETACH)
