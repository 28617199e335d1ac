"""As arrays.c, in Python: a list of numbers and bytes, too many, none, and what is no list."""
import sys

import ringtail_probe

listed = ringtail_probe.probe("arrays", "listed", "%d: deltas %p bytes %p", turn=int, deltas=list, raw=bytes)
print("attached" if ringtail_probe.attach() else "alone", flush=True)
sys.stdin.readline()
listed(0, [-1, 1 << 40, True], b"\x00\xff")
listed(1, tuple(range(17)), bytes(129))
listed(2, [], b"")
listed(3, 7, None)
listed(4, ["no number"], bytearray(b"a"))
