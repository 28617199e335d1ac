"""On a terminal events and the line of rates share the screen, and neither tears the other."""
import fcntl
import os
import re
import select
import signal
import struct
import subprocess
import termios
import time

import ringtail
from lib.process import PATIENCE_S

ROWS, COLUMNS = 24, 200
EVENT = re.compile(r"\d\d:\d\d:\d\d\.\d{6} \[\d{3}\] \S.* getppid\(\) = \d+ <\d\S*>")
RATES = re.compile(r"\S+ events/s  .* events  0 lost  ledger balanced")


class Screen:
    """A program on a terminal of its own, and what a person would see of it."""

    def __init__(self, case, daemon, *words):
        self.master, slave = os.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        # Plain text is enough here, and colours would only have to be taken out again.
        self.popen = subprocess.Popen(case._tracectl(daemon, list(words)), stdin=slave,
                                      stdout=slave, stderr=slave,
                                      env={**os.environ, "NO_COLOR": "1"})
        os.close(slave)
        self.rows, self.column, self.rates_seen, self.redraws = [""], 0, 0, 0

    def _put(self, text):
        for part in re.findall(r"\033\[[HJK]|\r|\n|[^\033\r\n]+|\033", text):
            row = self.rows[-1]
            if part == "\r":
                self.column = 0
            elif part == "\n":
                self.rows.append("")
                self.column = 0
            elif part == "\033[K":
                self.rows[-1] = row[:self.column]
                self.rates_seen += bool(RATES.fullmatch(self.rows[-1]))
            elif part == "\033[H":
                self.rows, self.column = [""], 0
                self.redraws += 1
            elif part != "\033[J":
                self.rows[-1] = row[:self.column] + part + row[self.column + len(part):]
                self.column += len(part)

    def look(self, until, what):
        """Takes in what it shows until that is so."""
        deadline = time.monotonic() + PATIENCE_S
        text = b""
        while not until():
            left = deadline - time.monotonic()
            if left < 0:
                raise ringtail.Late(f"{what}: not so: {self.rows[-3:]}")
            if not select.select([self.master], [], [], left)[0]:
                continue
            try:
                text += os.read(self.master, 1 << 16)
            except OSError:
                text, ended = text + b"\n", True
            else:
                ended = False
            # An escape may have come in part.
            whole = len(text) if ended else max(text.rfind(b"\n"), text.rfind(b"K")) + 1
            self._put(text[:whole].decode())
            text = text[whole:]
            if ended:
                return

    def end(self):
        self.popen.send_signal(signal.SIGINT)
        self.look(lambda: False, "it ends")
        os.close(self.master)
        return self.popen.wait(PATIENCE_S)


def streaming(case, daemon, calls, parts):
    screen = Screen(case, daemon, "stream", "-p", "syscall:getppid:call",
                    "-f", f"comm == \"{case.own_comm}\"")
    try:
        screen.look(lambda: screen.rates_seen >= 2, "with no event at all there is the line")
        case.check(len(screen.rows) == 1 and "  0 events  " in screen.rows[0],
                   "with no event at all there is the line, and nothing else", screen.rows)
        for part in range(1, parts + 1):
            load = case.load(calls // parts, comm=case.own_comm)
            load.go()
            screen.look(lambda: len(screen.rows) > part * calls // parts, "the events are there")
            load.result()
            before = screen.rates_seen
            screen.look(lambda: screen.rates_seen > before, "and the line after them")
        case.check(RATES.fullmatch(screen.rows[-1]), "it is the last row", screen.rows[-3:])
        torn = [row for row in screen.rows[:-1] if not EVENT.fullmatch(row)]
        case.check(not torn, f"every row above it is one of {calls} events", torn[:5])
        case.check_equal(screen.end(), 0, "the end is good")
        tail = screen.rows[calls:]
        case.check(not any("events/s" in row for row in tail), "and takes the line away", tail)
    finally:
        screen.popen.kill()


def watching(case, daemon):
    screen = Screen(case, daemon, "stat", "-w", "-i", "100ms")
    try:
        screen.look(lambda: screen.redraws >= 4 and "do not fit" in screen.rows[-2],
                    "stat -w is redrawn")
        rows = screen.rows
        case.check(len(rows) <= ROWS, "all of it fits", rows)
        text = "\n".join(rows)
        case.check(text.startswith("ringtaild ") and "all events" in text and "ledger\n" in text
                   and "; residual 0" in text, "with rings and the ledger", text)
        case.check(not re.search(r"^  \w+ +0  ", text, re.M), "and no counter that is 0", text)
        case.check_equal(screen.end(), 0, "the end is good")
    finally:
        screen.popen.kill()


def main(case):
    daemon = case.daemon("--ring-size=16MiB")
    streaming(case, daemon, calls=20, parts=4)
    streaming(case, daemon, calls=50000, parts=1)
    watching(case, daemon)
    case.check_balanced(daemon)


ringtail.run(main)
