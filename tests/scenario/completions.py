"""TAB, in bash, zsh and fish as people run them: commands, options and values; probes and fields of the daemon
that the line names."""
import os
import pty
import re
import select
import shutil
import time

import ringtail
from lib.process import PATIENCE_S

CAPTURE = "tests/data/capture.rt"
HELPER = "client/completions/complete.sh"
# How each begins, and what stands for tracectl: it prints what it is called with. What completes asks the
# program itself, by PATH.
SHELLS = {
    "bash": (["bash", "--norc", "--noprofile", "-i"],
             "source /usr/share/bash-completion/bash_completion; source {file}; "
             "tracectl() {{ echo \"<$*>\"; }}; echo be''gin"),
    "zsh": (["zsh", "-f", "-i"],
            "autoload -U compinit; compinit -u -D; fpath=(); _tracectl() {{ source {file}; }}; "
            "compdef _tracectl tracectl; tracectl() {{ print -r -- \"<$*>\"; }}; echo be''gin"),
    "fish": (["fish", "--no-config", "-i"],
             "source {file}; function tracectl; echo \"<$argv>\"; end; echo be''gin"),
}


class Shell:
    def __init__(self, case, name, directory, build):
        with open(f"client/completions/tracectl.{name}") as file:
            text = file.read().replace("@COMPLETE@", os.path.abspath(HELPER))
        script = f"{directory}/tracectl.{name}"
        with open(script, "w") as file:
            file.write(text)
        words, begin = SHELLS[name]
        self.case, self.name, self.said = case, name, ""
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            environment = {**os.environ, "PATH": f"{os.path.abspath(build)}:{os.environ['PATH']}",
                           "HOME": directory, "TERM": "dumb", "PS1": "$ ", "XDG_DATA_HOME": directory,
                           "XDG_CONFIG_HOME": directory, "LC_ALL": "C.UTF-8"}
            os.execvpe(words[0], words, environment)
        self.type(begin.format(file=script) + "\n", "begin")

    def type(self, text, wanted):
        """Until it has said that."""
        os.write(self.fd, text.encode())
        mark, deadline = len(self.said), time.monotonic() + PATIENCE_S
        while not (found := re.search(wanted, self.said[mark:])):
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self.fd], [], [], left)[0]:
                raise ringtail.Late(f"{self.name}: {text!r} brings {wanted}: {self.said[mark:]!r}")
            try:
                self.said += os.read(self.fd, 65536).decode(errors="replace")
            except OSError:
                self.case.check(False, f"{self.name} goes on: {self.said[mark:]!r}")
                return None
        return found

    def completes(self, line, wanted):
        found = self.type(line + "\t\r", r"<[^>\r\n]*>")
        if found:
            self.case.check_equal(found[0][1:-1].strip(), wanted, f"{self.name}: {line}TAB")

    def end(self):
        os.close(self.fd)
        os.waitpid(self.pid, 0)


def main(case):
    daemon = case.daemon(source=f"replay:{CAPTURE}")
    at = f"--connect {daemon.address}"
    recording = case.path("a_recording.rt")
    shutil.copy(CAPTURE, recording)
    for name in SHELLS:
        shell = Shell(case, name, case.path("."), ringtail.BUILD)
        for line, wanted in (("str", "stream"),
                             ("stream --dur", "stream --duration"),
                             ("--summary js", "--summary json"),
                             ("stream --flags kstack,us", "stream --flags kstack,ustack"),
                             (f"{at} stream -p syscall:openat:c", f"{at} stream -p syscall:openat:call"),
                             (f"{at} count -p syscall:openat:call --by comm,filen",
                              f"{at} count -p syscall:openat:call --by comm,filename"),
                             (f"read {recording[:-5]}", f"read {recording}"),
                             (f"exits {recording[:-5]}", f"exits {recording}")):
            shell.completes(f"tracectl {line}", wanted)
        shell.end()


ringtail.run(main)
