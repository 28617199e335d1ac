#!/usr/bin/env python3
"""arrows: the rooms include each other only downhill, as docs/architecture.md draws them.

	usage: arrows.py [--objects BUILD]

A room is a folder. DAEMON is the ordered list of the daemon's: each may include the rooms before it,
never one after it. Prints each include that goes another way, and each call of what one place alone
calls, and fails.

With --objects, the same is asked of what was built: an object may use no symbol that is defined in a
room it may not include, whatever header told it of the symbol.
"""
import argparse
import fnmatch
import os
import re
import subprocess
import sys

# Downhill: what is shared first, then from the host and the ring towards whoever asks.
DAEMON = ["base", "disk", "host", "ring", "net", "config", "access", "source", "programs", "collect", "spool",
          "stream", "metrics", "export", "trigger", "ask", "http", "relay", "serve"]

# The module's files, likewise; `name.h` where a header lies below its .c, which wires what lies between.
MODULE = ["arch", "compat", "param", "plan", "filter", "syscall_table", "ring", "ring_walk", "call", "exec_text",
          "thread", "attach", "consumer.h", "snapshot", "emit", "tracepoint.h", "provider_interval",
          "provider_kprobe", "provider_module", "provider_profile", "provider_sched", "provider_syscall",
          "provider_tracepoint", "tracepoint.c", "consumer.c", "registry", "device.h", "control",
          "device_map", "device_read", "device.c", "selftest", "main"]

# What the other rooms may include of the project.
ROOMS = {
    "kmod/uapi/": ["kmod/uapi/"],
    "kmod/bpf/": ["kmod/bpf/", "kmod/uapi/", "*.bpf.h", "request.h"],
    "kmod/module/": ["kmod/uapi/", "*"],
    "proto/": ["proto/"],
    "query/": ["query/", "proto/", "kmod/uapi/"],
    "daemon/": ["daemon/", "query/", "proto/", "kmod/uapi/", "kmod/ringtail.skel.h",
                "kmod/bpf/request.h"],
    "client/lib/": ["client/lib/", "query/", "proto/"],
    "client/cli/": ["client/", "query/", "proto/"],
    "courier/": ["courier/", "client/lib/", "daemon/host/privileges.h", "daemon/host/resolver.h",
                 "daemon/host/sandbox.h", "query/", "proto/"],
}

# Libraries that one place alone knows.
LIBRARIES = {
    r"bpf/(libbpf|bpf|btf)\.h": ["daemon/source/bpf*", "tests/bench/*", "tests/bpf/*", "tests/unit/daemon/test_bpf_*"],
    r"kmod/ringtail\.skel\.h": ["daemon/source/bpf*", "tests/bench/*", "tests/bpf/*", "tests/unit/daemon/test_bpf_*"],
    r"kmod/bpf/request\.h": ["kmod/bpf/*", "daemon/source/*", "tests/unit/daemon/test_bpf_*"],
    r"kmod/uapi/ringtail_ioctl\.h": ["daemon/source/kmod*", "kmod/module/*", "tests/*"],
    r"librdkafka/.*": ["courier/*", "tests/*"],
    r"systemd/sd-journal\.h": "daemon/base/log.c",
    r"systemd/sd-daemon\.h": "daemon/host/watchdog.c",
    r"zstd\.h": ["proto/frame.c", "tests/*"],
    r"isa-l/.*|crc\.h": ["proto/frame.c", "daemon/base/gzip.c", "tests/*"],
    r"jansson\.h": ["client/*", "tests/*"],
    r"n?curses\.h": ["client/cli/cmd_top.c"],
    r"sqlite3\.h": ["client/cli/write_sqlite.c", "tests/*"],
    r"event2/.*": ["daemon/engine*", "daemon/host/watchdog*", "daemon/access/audit*",
                   "daemon/disk/thread*", "daemon/net/*", "daemon/programs/programs*",
                   "daemon/collect/*", "daemon/spool/*", "daemon/stream/*", "daemon/http/*",
                   "daemon/export/*", "daemon/trigger/*", "daemon/ask/*", "daemon/relay/*", "daemon/serve/*",
                    "tests/*"],
    r"openssl/.*": ["proto/tls.*", "daemon/net/transport*", "daemon/access/gate*", "client/lib/conn_tls*",
                    "client/cli/token*", "tests/*"],
    r"curl/.*": ["daemon/export/*", "tests/*"],
    r"snappy-c\.h": ["daemon/export/*", "tests/*"],
    r"zlib\.h": ["client/cli/print_pprof.c", "tests/*"],
    r"proto/export/(?!exposition).*": ["daemon/export/*", "tests/*"],
    r"proto/export/exposition.*": ["daemon/metrics/format.c", "tests/*"],
    r"seccomp\.h": ["daemon/host/sandbox*", "daemon/sandbox_engine*", "tests/*"],
}

# Functions that one place alone calls: what is unpacked elsewhere was not looked over first.
CALLS = {
    r"(protobuf_c_message|\w+_)_unpack": ["proto/message.c", "tests/*"],
}


def patterns(value):
    return [value] if isinstance(value, str) else value


def fits(name, allowed):
    return any(name.startswith(pattern) or fnmatch.fnmatch(name, pattern)
               for pattern in patterns(allowed))


def daemon_room(path):
    """The daemon's room a file lies in; None for what wires them together, and all else."""
    found = re.match(r"daemon/(\w+)/", path)
    return found.group(1) if found else None


def check_room(path, include):
    for room, allowed in ROOMS.items():
        if path.startswith(room):
            project = any(include.startswith(other) for other in ROOMS) or "/" not in include
            return not project or fits(include, allowed)
    return True


def check_library(path, include):
    return all(not re.fullmatch(library, include) or fits(path, allowed)
               for library, allowed in LIBRARIES.items())


def check_downhill(path, include):
    source, target = daemon_room(path), daemon_room(include)
    if source is None:
        return True
    if target is None:
        return not include.startswith("daemon/")    # the wiring: nobody includes it
    return DAEMON.index(target) <= DAEMON.index(source)


def check_module(path, include):
    if not path.startswith("kmod/module/") or not include.endswith(".h") or "/" in include:
        return True

    def rank(name):
        stem = name[:-2]
        return MODULE.index(stem if stem in MODULE else name)
    return rank(include) <= rank(os.path.basename(path))


def room_of(path):
    """Any room: a folder of the daemon's, or a top-level one."""
    inner = daemon_room(path)
    if inner:
        return inner
    found = re.match(r"(client/\w+|proto|query|daemon|courier)/", path)
    return found.group(1) if found else None


def may_use(source, target):
    """Whether a room's objects may use symbols of another."""
    shared = ["proto", "query"]
    if source == target or source == "daemon" or target in shared[:shared.index(source) + 1
                                                                 if source in shared else 2]:
        return True
    if source in DAEMON and target in DAEMON:
        return DAEMON.index(target) <= DAEMON.index(source)
    if source == "courier":
        return target in ("client/lib", "host")
    return source == "client/cli" and target == "client/lib"


def check_objects(build):
    """Prints each use of a symbol that goes uphill; how many there are."""
    defined, used = {}, []
    listed = subprocess.run(["find", *[f"{build}/{top}" for top in ("daemon", "client", "courier",
                                                                   "proto", "query")], "-name", "*.o"],
                            stdout=subprocess.PIPE, text=True, check=True).stdout.split()
    objects = [path for path in sorted(listed)
               if os.path.exists(os.path.relpath(path, build)[:-2] + ".c")]
    for path in objects:
        name = os.path.relpath(path, build)[:-2] + ".c"
        for line in subprocess.run(["nm", path], stdout=subprocess.PIPE, text=True,
                                   check=True).stdout.splitlines():
            words = line.split()
            if words[-2] == "U":
                used.append((name, words[-1]))
            elif words[-2] in "TDBRCG":
                defined.setdefault(words[-1], set()).add(name)
    wrong = set()
    for name, symbol in used:
        homes = defined.get(symbol, set())
        if not homes or any(may_use(room_of(name), room_of(home)) for home in homes):
            continue
        wrong.add(f"{name}: uses {symbol} of {' '.join(sorted(homes))}, uphill")
    print("\n".join(sorted(wrong) + [f"{len(objects)} objects, {len(wrong)} uses uphill"]))
    return len(wrong)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--objects", metavar="BUILD")
    options = parser.parse_args()
    if options.objects:
        sys.exit(1 if check_objects(options.objects) else 0)
    files = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "*.c", "*.h"],
                           stdout=subprocess.PIPE, text=True, check=True).stdout.split()
    wrong = 0
    for path in files:
        if not os.path.exists(path):
            continue            # removed, and not committed yet
        room = daemon_room(path)
        if room and room not in DAEMON:
            print(f"{path}: no room of that name is in the list")
            wrong += 1
            continue
        with open(path, errors="replace") as source:
            lines = source.read().splitlines()
        for number, line in enumerate(lines, 1):
            for call, allowed in CALLS.items():
                if re.search(rf"\b{call}\(", line) and not fits(path, allowed):
                    print(f"{path}:{number}: one place alone calls that: {', '.join(allowed)}")
                    wrong += 1
            found = re.match(r'\s*#\s*include\s*(<([^>]+)>|"([^"]+)")', line)
            if not found:
                continue
            include, quoted = found.group(2) or found.group(3), bool(found.group(3))
            reasons = []
            if quoted and not check_room(path, include):
                reasons.append("that room is not this one's to know")
            if not check_library(path, include):
                reasons.append("one place alone knows that library")
            if quoted and not check_downhill(path, include):
                reasons.append("that room lies uphill")
            if not check_module(path, include):
                reasons.append("that file of the module lies uphill")
            for reason in reasons:
                print(f"{path}:{number}: includes {include}: {reason}")
                wrong += 1
    print(f"{len(files)} files, {wrong} includes against the arrows")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
