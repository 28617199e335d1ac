"""top in a terminal (tmux), over TLS: the tables, their order, a row opened as a stream, a filter that is refused
and one that is not, a pause, another size; a process' name acts on no terminal; and --plain is text alone."""
import os
import re
import subprocess
import time

import ringtail
from lib import tls
from lib.process import PATIENCE_S

INTERVAL_S = 0.2
HOSTILE = b"\x1b[2J\x9bH\xc3\xa4"
LOAD = """
import os, time
open("/proc/self/comm", "wb").write(%r)
while True:
    os.getppid()
    try:
        os.close(os.open("/nowhere/%%d" %% (os.getpid() %% 2), 0))
    except OSError:
        pass
    time.sleep(0.002)
"""


class Terminal:
    """A program in a tmux of its own."""

    def __init__(self, case, words):
        self.case, self.socket = case, case.path("tmux")
        command = " ".join(f"'{word}'" for word in words)
        self._tmux("-f", "/dev/null", "new-session", "-d", "-x", "110", "-y", "24", f"{command}; echo over $?; sleep 1000",
                   environment={**os.environ, "LC_ALL": "C.UTF-8", "TERM": "xterm"})

    def _tmux(self, *words, environment=None):
        return subprocess.run(["tmux", "-S", self.socket, *words], check=True, capture_output=True,
                              timeout=PATIENCE_S, env=environment).stdout

    def shown(self):
        return self._tmux("capture-pane", "-p").decode()

    def keys(self, *keys):
        self._tmux("send-keys", *keys)

    def look(self, pattern, what, until=()):
        """What it shows when that is on it; these keys are pressed until it is."""
        seen = [""]

        def there():
            seen[0] = self.shown()
            found = re.search(pattern, seen[0])
            if until and not found:
                self.keys(*until)
                time.sleep(INTERVAL_S)
            return found
        try:
            ringtail.wait_until(there, what)
        except ringtail.Late as late:
            raise ringtail.Late(f"{late}; it shows:\n{seen[0]}") from None
        self.case.say(f"ok: {what}")
        return seen[0]

    def stands(self):
        """Whether it is the same after some intervals."""
        before = self.shown().splitlines()[2:]        # above are the rates of all
        time.sleep(3 * INTERVAL_S)
        return self.shown().splitlines()[2:] == before

    def size(self, columns, rows):
        self._tmux("resize-window", "-x", str(columns), "-y", str(rows))

    def close(self):
        self._tmux("kill-server")


def screen(case, words, pid):
    terminal = Terminal(case, words)
    try:
        text = terminal.look(rf"{pid}  \S*\[2J", "the process is a row")
        case.check(re.search(r"^\[1 processes\]", text) and "\x1b" not in text and "?[2J" in text,
                   "its name is text", text)
        terminal.keys("2")
        terminal.look(r"\[2 calls\][\s\S]*getppid", "another table")
        terminal.keys("s")
        text = terminal.look(r"by count", "another order")
        # A table of an interval in which the process did not run has no row.
        text = terminal.look(r"\d+/\d+ +\w+\([\s\S]*Esc table", "a row opens as a stream", until=("Enter",))
        calls = set(re.findall(r"\d+/\d+ +(\w+)\(", text))
        case.check_equal(len(calls), 1, "of that call alone")
        terminal.keys(" ")
        terminal.look("PAUSED", "it pauses")
        ringtail.wait_until(terminal.stands, "and stands")      # once all rows are drawn
        terminal.keys("Escape")
        terminal.look(r"\[2 calls\][\s\S]*%TIME", "back to the table")
        terminal.keys("/")
        terminal.look(r"(?m)^filter:", "a filter is asked for")
        terminal.keys("comm ==", "Enter")
        terminal.look(r"(?m)^[^\n]*(wanted|missing|value|expected|ends)[^\n]*$", "a wrong one is refused")
        terminal.keys("/")
        terminal.look(r"(?m)^filter:", "a filter is asked for again")
        terminal.keys(f"pid == {pid} && ret < 0", "Enter")
        terminal.look(r"\A(?![\s\S]*getppid)[\s\S]*ret < 0[\s\S]* openat\b",
                      "a right one chooses, and leaves out what fails it")
        terminal.keys("3")
        terminal.look(r"/nowhere/\d", "files have their names")
        terminal.size(50, 10)
        terminal.look(r"\A(?:[^\n]{0,50}\n){1,10}\Z", "a smaller terminal is drawn anew")
        terminal.keys("7")
        terminal.look(r"all events +lost|ringtaild", "losses are a table")
        terminal.keys("q")
        terminal.look("over 0", "it ends")
    finally:
        terminal.close()


def main(case):
    server = tls.Server(case)
    daemon = case.daemon(*server.options(), "--operator=cert:oscar", listen=["tcp:127.0.0.1:0"])
    daemon.trust = server.client("oscar")
    load = subprocess.Popen(["python3", "-c", LOAD % HOSTILE[:15]], stdin=subprocess.DEVNULL)
    try:
        words = case._tracectl(daemon, ["top", "-i", f"{INTERVAL_S * 1000:.0f}ms", "-f", f"pid == {load.pid}"])
        screen(case, words, load.pid)
        plain = case.start(*case._tracectl(daemon, ["top", "--plain", "calls", "-i", "100ms", "-f", f"pid == {load.pid}"]))
        plain.wait_for(r"(?s)(%TIME.*getppid.*){3}", "out")
        done = plain.interrupt()
        case.check(done.code == 0 and "\x1b" not in done.out, "without a screen, table follows table", done.code, done.out)
        done = case.tracectl(daemon, "top")
        case.check(done.code == 2 and "--plain" in done.err, "without a terminal, that is said", done.err)
        done = case.tracectl(daemon, "top", "zebras")
        case.check(done.code == 2 and "scheduler" in done.err, "and which tables there are", done.err)
    finally:
        load.kill()
        load.wait()
    case.check_balanced(daemon)


ringtail.run(main)
