"""A stripped program's functions have the names that a debuginfod server has for its build-id: only with --debuginfod,
also later from a recording, and not those of a file with another build-id."""
import http.server
import os
import re
import shutil
import subprocess
import threading

import ringtail
from lib.process import PATIENCE_S, Skip

PROGRAM = r"""
#include <time.h>
#include <unistd.h>
__attribute__((noinline)) static void burn_here(void)
{
	volatile unsigned long n = 0;
	for (int i = 0; i < 1000000; i++)
		n += i;
}
int main(void)
{
	struct timespec now;
	do {
		burn_here();
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	} while (!now.tv_sec && now.tv_nsec < 400000000);
	return read(0, &now, 1) != 0;		/* its end: somebody has read where its code lies */
}
"""


class Server(http.server.ThreadingHTTPServer):
    """A debuginfod of one file."""

    def __init__(self, build_id, path):
        super().__init__(("127.0.0.1", 0), Handler)
        self.place, self.path, self.asked = f"/buildid/{build_id}/debuginfo", path, []
        threading.Thread(target=self.serve_forever, daemon=True).start()


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.server.asked.append(self.path)
        found = self.path == self.server.place
        with open(self.server.path, "rb") as file:
            body = file.read() if found else b"not found"
        self.send_response(200 if found else 404)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def build(case, name):
    """A stripped program, its symbols apart, and its build-id."""
    program, debug = case.path(name), case.path(name + ".debug")
    for words in (["gcc", "-g", "-O1", "-fno-omit-frame-pointer", "-o", program, case.write("app.c", PROGRAM),
                   "-Wl,--build-id"], ["objcopy", "--only-keep-debug", program, debug],
                  ["strip", "--strip-all", program]):
        subprocess.run(words, check=True, timeout=PATIENCE_S)
    notes = subprocess.run(["readelf", "-n", program], capture_output=True, text=True, check=True).stdout
    return program, debug, re.search(r"Build ID: ([0-9a-f]{40})", notes)[1]


def read(case, path, *words, urls="", cache="cache", output="folded"):
    environment = {**os.environ, "DEBUGINFOD_URLS": urls, "DEBUGINFOD_CACHE_PATH": case.path(cache)}
    return case.tracectl(None, "read", path, "-o", output, *words, env=environment)


def main(case):
    if not shutil.which("objcopy"):
        raise Skip("no objcopy (binutils)")
    program, debug, build_id = build(case, f"app{os.getpid()}")
    server = Server(build_id, debug)
    url, comm, path = f"http://127.0.0.1:{server.server_port}", os.path.basename(program)[:15], case.path("app.rt")
    daemon = case.daemon()
    record = case.stream(daemon, "-p", "profile:hz:499", "--flags", "ustack", "-f", f'comm == "{comm}"', "-w", path,
                         command="record")
    process = case.start(program, stdin=-1)
    ringtail.wait_until(lambda: program in read(case, path, "-p", "process:map:executable", output="json").out,
                        "it is recorded where its code lies")
    process.popen.stdin.close()
    case.check_equal(process.wait().code, 0, "the program ends well")
    case.await_rings_empty(daemon)
    record.await_all(1)
    record.interrupt()
    case.check_balanced(daemon)

    plain = read(case, path, urls=url)
    case.check(plain.code == 0 and "burn_here" not in plain.out and f"{comm};" in plain.out and not server.asked,
               "without the option nobody is asked, and the functions have no names", plain.out, server.asked)
    none = read(case, path, "--debuginfod")
    case.check(none.code == 1 and "[no-debuginfod]" in none.err, "it wants servers to ask", none.err)
    named = read(case, path, "--debuginfod", urls=url)
    if "cannot use" in named.err:
        raise Skip("no libdebuginfod.so.1 (libdebuginfod1)")
    count = sum(int(line.rsplit(" ", 1)[1]) for line in named.out.splitlines() if "burn_here" in line)
    total = sum(int(line.rsplit(" ", 1)[1]) for line in named.out.splitlines())
    case.check(count > total * 0.8 and count > 50, f"with it, {count} of {total} samples are in burn_here()", named.out)
    witness = subprocess.run(["addr2line", "-f", "-e", debug, "0x" + symbol(debug)], capture_output=True, text=True,
                             check=True, timeout=PATIENCE_S).stdout
    case.check("burn_here" in witness, "as addr2line says of the same file", witness)

    other = case.write("other.c", PROGRAM.replace("burn_here", "burn_elsewhere"))
    subprocess.run(["gcc", "-g", "-o", case.path("other"), other, "-Wl,--build-id"], check=True, timeout=PATIENCE_S)
    server.path = case.path("other")
    wrong = read(case, path, "--debuginfod", urls=url, cache="cache2")
    case.check("burn_" not in wrong.out, "a file with another build-id is not believed", wrong.out)


def symbol(debug):
    names = subprocess.run(["nm", debug], capture_output=True, text=True, check=True, timeout=PATIENCE_S).stdout
    return re.search(r"^([0-9a-f]+) t burn_here$", names, re.M)[1]


ringtail.run(main)
