"""Arguments as text: -1 is -1, modes are octal, addresses hexadecimal, flags have their names; in JSON
numbers stay numbers."""
import ctypes
import mmap
import os
import re

import ringtail

PROBES = ["-p", "syscall:mmap:call", "-p", "syscall:mprotect:call", "-p", "syscall:fchmodat:call",
          "-p", "syscall:chmod:call"]


def calls(path):
    """Maps, protects and unmaps a page that nobody else has, and sets a mode; the page's address."""
    page = mmap.mmap(-1, 1 << 20)
    start = ctypes.addressof(ctypes.c_char.from_buffer(page))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mprotect(ctypes.c_void_p(start), ctypes.c_size_t(1 << 20), 3):
        raise OSError(ctypes.get_errno(), "mprotect")
    os.chmod(path, 0o640)
    return start


def main(case):
    daemon = case.daemon()
    path = case.write("file", "")
    mine = ["-f", f"pid == {os.getpid()}"]
    text = case.stream(daemon, *PROBES, *mine)
    objects = case.stream(daemon, *PROBES, *mine, "-o", "json")
    start = calls(path)
    for stream in (text, objects):      # the last of them: this process maps more than that page
        ringtail.wait_until(lambda: "chmod" in stream.read("out"), "the mode is told")
    done = text.interrupt()
    case.check_equal(done.code, 0, "the text ends well", done.err)
    case.check(re.search(r" mmap\(addr=NULL, len=1048576, prot=PROT_READ\|PROT_WRITE, flags=MAP_SHARED\|MAP_ANONYMOUS, fd=-1, off=0\) ",
                         done.out), "mmap() of no file has fd=-1", done.out)
    case.check(re.search(rf" mprotect\(start={start:#x}, len=1048576, prot=PROT_READ\|PROT_WRITE\) = 0 ", done.out),
               "an address is hexadecimal", hex(start), done.out)
    case.check(re.search(r"chmod(at)?\(.*mode=0640[,)]", done.out), "a mode is octal", done.out)
    done = objects.interrupt()
    case.check_stream(done)
    arguments = {line["probe"].split(":")[1]: line["args"] for line in done.lines
                 if line["args"].get("len", 1 << 20) == 1 << 20}
    case.check_equal((arguments["mmap"]["fd"], arguments["mprotect"]["start"]), (-1, start),
                     "both are numbers in JSON")
    case.check_balanced(daemon)


ringtail.run(main)
