"""On a terminal events and the line of rates share the screen, and neither tears the other. Of a file that is read
the line says how much, and so does the answer to SIGUSR1."""
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

RECORDED = 60000                # calls, some 15 MiB of JSON: 240 pipes full
READ_S = 0.02                   # for each
PROGRESS = re.compile(r"\d+ % of \S+ KiB, \S+ left  \S+ events/s")
ANSWER = re.compile(r"tracectl: \S+ \w+ in \S+ s, \S+ \w+/s; \d+ % of \S+ KiB, \S+ left; \d+ events, 0 lost")


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


def recorded(case, daemon):
    """A file that takes many of the pipe's lengths to be read."""
    path = case.path("calls.rt")
    load = case.load(RECORDED, comm=case.own_comm)
    stream = case.stream(daemon, "-w", path, "-p", "syscall:getppid:call", "-f", load.filter, command="record")
    load.run()
    stream.await_all(RECORDED)
    case.check_stream(stream.interrupt(), events=RECORDED)
    return path


def reading(case, path):
    """Events go into a pipe; the terminal has how much of the file is read, and how long the rest takes."""
    master, slave = os.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    popen = subprocess.Popen(case._tracectl(None, ["read", path, "-o", "json"]), stdin=subprocess.DEVNULL,
                             stdout=subprocess.PIPE, stderr=slave)
    said, asked, deadline = "", False, time.monotonic() + PATIENCE_S
    try:
        while not ANSWER.search(said) and time.monotonic() < deadline:
            if not os.read(popen.stdout.fileno(), 1 << 16):
                break
            # So slowly that a line of rates is due before the end, even on a machine that is quick.
            if select.select([master], [], [], READ_S)[0]:
                said += os.read(master, 1 << 16).decode()
            if PROGRESS.search(said) and not asked:
                popen.send_signal(signal.SIGUSR1)
                asked = True
        case.check(PROGRESS.search(said), "the line says how much of the file is read", said[-300:])
        case.check(ANSWER.search(said), "SIGUSR1 has an answer of a line", said[-300:])
        while os.read(popen.stdout.fileno(), 1 << 20):
            pass
        case.check_equal(popen.wait(PATIENCE_S), 0, "and the reading ends well")
    finally:
        popen.kill()
        popen.stdout.close()
        os.close(slave)
        os.close(master)


def main(case):
    daemon = case.daemon("--ring-size=16MiB")
    reading(case, recorded(case, daemon))
    streaming(case, daemon, calls=20, parts=4)
    streaming(case, daemon, calls=50000, parts=1)
    watching(case, daemon)
    case.check_balanced(daemon)


ringtail.run(main)
