#!/usr/bin/env python3
"""arrows: the rooms include each other only along the arrows of docs/architecture.md.

Prints each include that goes another way, and fails. A rule is a file pattern, what it may include,
and why; the first rule that fits a file decides.
"""
import fnmatch
import os
import re
import subprocess
import sys

# What a room may include of the project. uapi is shared by all; proto by daemon and client.
ROOMS = {
    "kmod/uapi/": ["kmod/uapi/"],
    "kmod/bpf/": ["kmod/bpf/", "kmod/uapi/", "*.bpf.h", "request.h"],
    "kmod/module/": ["kmod/uapi/", "*"],
    "proto/": ["proto/"],
    "daemon/": ["daemon/", "proto/", "kmod/uapi/", "kmod/ringtail.skel.h", "kmod/bpf/request.h"],
    "client/": ["client/", "proto/"],
}

# Libraries that one place alone knows.
LIBRARIES = {
    r"bpf/(libbpf|bpf|btf)\.h": ["daemon/source_bpf*", "tests/bench/*", "tests/bpf/*"],
    r"kmod/ringtail\.skel\.h": ["daemon/source_bpf*", "tests/bench/*", "tests/bpf/*"],
    r"kmod/bpf/request\.h": ["kmod/bpf/*", "daemon/source_bpf*", "daemon/syscall_catalog*"],
    r"kmod/uapi/ringtail_ioctl\.h": ["daemon/source_kmod*", "kmod/module/*", "tests/*"],
    r"systemd/sd-journal\.h": "daemon/log.c",
    r"systemd/sd-daemon\.h": "daemon/watchdog.c",
    r"zstd\.h": ["proto/frame.c", "tests/*"],
    r"isa-l/.*|crc\.h": ["proto/frame.c", "tests/*"],
    r"jansson\.h": ["client/*", "tests/*"],
    r"event2/.*": ["daemon/worker*", "daemon/session*", "daemon/listener*", "daemon/fanout*",
                   "daemon/server*", "daemon/main*", "daemon/transport*", "daemon/http*",
                   "daemon/export*", "daemon/spool*", "daemon/disk_thread*",
                   "daemon/watchdog*", "tests/*"],
    r"openssl/.*": ["daemon/transport_tls*", "daemon/token*", "client/conn_tls*",
                     "client/token*", "tests/*"],
    r"curl/.*": ["daemon/export_*", "tests/*"],
    r"snappy-c\.h": ["daemon/export_*", "tests/*"],
    r"zlib\.h": ["daemon/export_*", "tests/*"],
    r"proto/export/.*": ["daemon/export_*", "tests/*"],
    r"seccomp\.h": ["daemon/sandbox*", "tests/*"],
}

# Stages of the pipeline, in order: a stage knows the next one and none further, and none before.
# (What it hands over, frames and errors, everybody knows.)
MAY_SEE = {
    "ring_reader": set(),
    "batcher": {"ring_reader"},
    "meter": {"ring_reader", "metric"},  # the buckets of histograms
    "metric": {"meter"},
    "http": {"meter", "metric"},
    "drain": {"ring_reader", "batcher", "meter", "source"},
    "worker": {"ring_reader", "drain", "batcher", "meter", "source"},
    "subscription": {"batcher", "stream", "frame_log", "spool"},
    "stream": {"subscription", "frame_log", "catch_up"},
    "catch_up": {"stream", "frame_log", "spool"},
    "spool": set(),
    "consumers": {"subscription"},
    "fanout": {"worker", "session", "subscription", "stream", "catch_up", "spool", "consumers",
               "loader"},
    "session": {"stream", "subscription"},
    "export": {"fanout", "stream", "loader", "metric"},
    "control": {"export", "fanout", "loader", "session", "spool", "worker"},
    "server": {"control", "session"},
    "listener": set(),
    "loader": {"source"},
    "source": {"ring_writer"},
    "ring_writer": {"source"},
}
WATCHED = {"ring_reader", "ring_writer", "drain", "export", "batcher", "worker", "fanout", "session", "server",
           "meter", "metric", "http",
           "subscription", "stream", "catch_up", "spool", "consumers", "frame_log", "control", "listener", "loader", "source"}


def patterns(value):
    return [value] if isinstance(value, str) else value


def fits(name, allowed):
    return any(name.startswith(pattern) or fnmatch.fnmatch(name, pattern)
               for pattern in patterns(allowed))


def stage_of(path):
    name = re.sub(r"\.[ch]$", "", path.split("/")[-1])
    for stage in sorted(WATCHED, key=len, reverse=True):
        if name == stage or name.startswith(stage + "_"):
            return stage
    return None


def check_room(path, include):
    for room, allowed in ROOMS.items():
        if path.startswith(room):
            project = any(include.startswith(other) for other in ROOMS) or "/" not in include
            return not project or fits(include, allowed)
    return True


def check_library(path, include):
    return all(not re.fullmatch(library, include) or fits(path, allowed)
               for library, allowed in LIBRARIES.items())


def check_stage(path, include):
    if not path.startswith("daemon/") or fnmatch.fnmatch(path, "daemon/main*"):
        return True
    source, target = stage_of(path), stage_of(include) if include.startswith("daemon/") else None
    if source is None or target is None or source == target:
        return True
    return target in MAY_SEE.get(source, set())


def main():
    files = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "*.c", "*.h"],
                           stdout=subprocess.PIPE, text=True, check=True).stdout.split()
    wrong = 0
    for path in files:
        if not os.path.exists(path):
            continue            # removed, and not committed yet
        with open(path, errors="replace") as source:
            lines = source.read().splitlines()
        for number, line in enumerate(lines, 1):
            found = re.match(r'\s*#\s*include\s*(<([^>]+)>|"([^"]+)")', line)
            if not found:
                continue
            include, quoted = found.group(2) or found.group(3), bool(found.group(3))
            reasons = []
            if quoted and not check_room(path, include):
                reasons.append("that room is not this one's to know")
            if not check_library(path, include):
                reasons.append("one place alone knows that library")
            if quoted and not check_stage(path, include):
                reasons.append("a stage knows only the next")
            for reason in reasons:
                print(f"{path}:{number}: includes {include}: {reason}")
                wrong += 1
    print(f"{len(files)} files, {wrong} includes against the arrows")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
