"""The disk of the spool dies under load, on a real file system: it shuts down and forgets what was not
synced (each call fails: EIO), or finds an error and turns read-only (EROFS). No client notices, what is
not stored is counted; mounted again, it has all that was stored before, each event once."""
import fcntl
import os
import shutil
import struct
import subprocess

import ringtail

PROBE = "syscall:getppid:call"
CALLS = 10_000
RATE = 20_000
DISK_BYTES = 64 << 20
EXT4_IOC_SHUTDOWN, NO_LOG_FLUSH = 0x8004587D, 2     # linux/fs.h, fs/ext4/ext4.h
ROUNDS = 10 if ringtail.LONG else 1


class Disk:
    """ext4 in a file, on a loop device."""

    def __init__(self, case, name):
        self.image, self.path = case.path(f"{name}.image"), case.path(name)
        os.mkdir(self.path)
        with open(self.image, "wb") as file:
            file.truncate(DISK_BYTES)
        self._run("mkfs.ext4", "-q", self.image)
        done = subprocess.run(["losetup", "--find", "--show", self.image], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True)
        if done.returncode:
            raise ringtail.Skip(f"no loop device here: {done.stderr.strip()}")
        self.device = done.stdout.strip()
        self.mounted = False
        self.mount()

    @staticmethod
    def _run(*words):
        done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode:
            raise ringtail.Failure(f"{' '.join(words)}: {done.stdout}")

    def mount(self):
        self._run("mount", "-t", "ext4", "-o", "errors=remount-ro", self.device, self.path)
        self.mounted = True

    def unmount(self):
        """Until the kernel has let go of it, too: whoever made a mount namespace meanwhile has it for as long, and what
        is mounted again before is the same file system, which is dead."""
        self._run("umount", self.path)
        self.mounted = False
        ringtail.wait_until(lambda: not os.path.exists(f"/sys/fs/ext4/{os.path.basename(self.device)}"),
                            "nobody has the file system mounted")

    def shut_down(self):
        fd = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
        fcntl.ioctl(fd, EXT4_IOC_SHUTDOWN, struct.pack("I", NO_LOG_FLUSH))
        os.close(fd)

    def turn_read_only(self):
        with open(f"/sys/fs/ext4/{os.path.basename(self.device)}/trigger_fs_error", "w") as file:
            file.write("made for a test")

    def close(self):
        if self.mounted:
            subprocess.run(["umount", "--lazy", self.path])
        subprocess.run(["losetup", "--detach", self.device])


def lost(spool):
    return sum(one["count"] for one in spool["lost"])


def on_disk(case, state):
    """Each event that a reader is given."""
    directory, = (os.path.join(state, "spool", entry)
                  for entry in os.listdir(os.path.join(state, "spool")))
    done = case.tracectl(None, "--summary", "json", "read", directory, "-o", "json")
    came = [(line["cpu"], line["seq"], line["pid"]) for line in done.lines if "lost" not in line]
    case.check_equal(len(came), len(set(came)), "on disk each event is there once")
    return came


def one(case, name, die):
    disk = Disk(case, name)
    try:
        state = os.path.join(disk.path, "state")
        load, dead, later = (case.load(CALLS, rate=RATE) for _ in range(3))
        pids = ", ".join(str(one.pids[0]) for one in (load, dead, later))
        options = ["--ring-size=16MiB", "--durability=fsync", "--spool-sync-interval=20ms",
                   "--spool-segment-size=64KiB", "--user=root", f"--state-dir={state}",
                   f"--probe={PROBE}", f"--filter=pid in ({pids})"]
        daemon = case.daemon(*options)
        stream = case.stream(daemon, "-o", "none")
        load.go()
        ringtail.wait_until(lambda: daemon.stat()["spool"][0]["stored"] > CALLS // 4,
                            "some of it is stored")
        stored = daemon.stat()["spool"][0]["stored"]
        die(disk)
        load.result()
        dead.run()              # all of it when there is no disk any more
        stream.await_all(2 * CALLS)

        def failed():
            spool, = daemon.stat()["spool"]
            return spool["state"] == "failed" and not spool["in_flight"] and spool
        spool = ringtail.wait_until(failed, f"{name}: the spool fails")
        case.check(lost(spool) > 0 and spool["residual"] == 0, f"{name}: of {spool['produced']} "
                   f"attempts {spool['stored']} are stored, {lost(spool)} lost, and none else", spool)
        case.check_equal({one["reason"] for one in spool["lost"]},
                         {ringtail.protobuf.enum_value("LossReason", "REASON_DISK")},
                         f"{name}: because of the disk")
        case.check_balanced(daemon)
        case.check_stream(stream.interrupt(), events=2 * CALLS)
        daemon.stop()
        disk.unmount()
        disk.mount()

        had = sum(pid == load.pids[0] for _, _, pid in on_disk(case, state))
        # Attempts are events, and the few records that introduce threads.
        case.check(had >= spool["stored"] - 16, f"{name}: {stored} were stored before, {spool['stored']} "
                   f"in all, and {had} events are there", spool)
        daemon = case.daemon(*options)
        stream = case.stream(daemon, "-o", "none")
        later.run()
        stream.await_all(CALLS)
        ringtail.wait_until(lambda: not daemon.stat()["spool"][0]["in_flight"], "all is stored")
        case.check_balanced(daemon)
        case.check_stream(stream.interrupt(), events=CALLS)
        daemon.stop()
        came = [pid for _, _, pid in on_disk(case, state)]
        case.check_equal((came.count(load.pids[0]), came.count(later.pids[0])), (had, CALLS),
                         f"{name}: the next run keeps it, and adds its own")
    finally:
        disk.close()


def main(case):
    if os.geteuid() or not shutil.which("mkfs.ext4") or not shutil.which("losetup"):
        raise ringtail.Skip("this takes root, mkfs.ext4 and losetup")
    for i in range(ROUNDS):
        one(case, f"gone-{i}", Disk.shut_down)
        one(case, f"read-only-{i}", Disk.turn_read_only)


ringtail.run(main)
