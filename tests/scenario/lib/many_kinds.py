"""A load of many kinds: files, sockets, memory, signals, threads, processes."""
import subprocess
import sys

LOAD = r"""
import mmap, os, signal, socket, subprocess, sys, tempfile, threading, time
print("ready", flush=True)
input()
signal.signal(signal.SIGUSR1, lambda *_: None)
for _ in range(3):
    os.kill(os.getpid(), signal.SIGUSR1)
    with tempfile.NamedTemporaryFile(dir="/var/tmp" if os.path.isdir("/var/tmp") else "/tmp") as file:
        file.write(os.urandom(100_000))
        file.flush()
        os.fsync(file.fileno())
        os.truncate(file.name, 100)
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        file.seek(0)
        file.read()
    with socket.create_server(("127.0.0.1", 0)) as server:
        client = socket.create_connection(server.getsockname())
        peer, _ = server.accept()
        client.sendall(b"x" * 10_000)
        peer.recv(10_000)
        client.close()
        peer.close()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
        udp.bind(("127.0.0.1", 0))
        udp.sendto(b"x", udp.getsockname())
        udp.recv(1)
    memory = mmap.mmap(-1, 1 << 20)
    memory.write(b"x" * (1 << 20))
    memory.close()
    thread = threading.Thread(target=time.sleep, args=(0.01,))
    thread.start()
    thread.join()
    subprocess.run(["/bin/true"], check=True)
    r, w = os.pipe()
    os.close(r), os.close(w)
    end = time.monotonic() + 0.1
    while time.monotonic() < end:
        os.stat("/proc/self/status")
        os.sched_yield()
"""


def start():
    load = subprocess.Popen([sys.executable, "-c", LOAD], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    load.stdout.readline()
    return load


def run(case, load):
    load.communicate(b"\n")
    case.check_equal(load.returncode, 0, "the load ran")
