#!/usr/bin/env python3
"""arrows: the rooms include each other only downhill, as docs/architecture.md draws them.

	usage: arrows.py [--objects BUILD | --module DIRECTORY]

A room is a folder. DAEMON is the ordered list of the daemon's, as the page's table has it: each may include the rooms
before it, never one after it. Of another room it may include the DOORS alone, which are headers that somebody outside
does include; everything else is the room's own. Prints each include that goes another way, and each call of what one
place alone calls, and fails.

With --objects, the same is asked of what was built: an object may use no symbol that is defined in a
room it may not include, whatever header told it of the symbol. With --module, of the kernel module's objects, which
lie in that directory.
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

# What each room shows the others: headers, without their .h.
DOORS = {
    "kmod/uapi": "ringtail ringtail_ioctl ringtail_probe",
    "kmod/bpf": "request",
    "kmod/module": "",
    "proto": "backoff batch_counts batch_decode batch_encode batch_layout build cursor frame limits losses message "
             "ringtail-probe ringtail.pb-c segment tls wire",
    "query": "argument bpf_host constant container digits elf_symbols error file_text filter glob kernel_names "
             "message_text nearest probe_filter probe_set quantity socket_text structure_text tally user_names "
             "utf8 visible",
    "daemon/base": "allowance clock counters counters.def descriptor frame_ref gzip json_text limits log loop mailbox random trace_id",
    "daemon/disk": "disk thread",
    "daemon/host": "identity machine privileges resolver sandbox secret_file service_manager watchdog",
    "daemon/ring": "bell handle probe_table reader thread_journal thread_table writer",
    "daemon/net": "address listener origin transport turnstile",
    "daemon/config": "config",
    "daemon/access": "audit gate",
    "daemon/source": "loader source syscall_catalog",
    "daemon/programs": "counter_clock inlet programs taken_names",
    "daemon/collect": "batcher meter meter_bucket redaction worker",
    "daemon/spool": "frame spool",
    "daemon/stream": "consumers fanout gather saved_subscriptions stream subscriber",
    "daemon/metrics": "format metric self source stat",
    "daemon/export": "choose event feed http target",
    "daemon/trigger": "dumps rule triggers",
    "daemon/ask": "answer asks question watch",
    "daemon/http": "status",
    "daemon/relay": "courier_sink disk_sink relay",
    "daemon/serve": "answers control dialler server",
    "daemon": "",
    # ringtail is what others get; the rest is for this tree's own programs, which are many hosts' and know of errors.
    "client/lib": "address catalog conn conn_tls cursor failure fed forward host lanes limits reach ringtail trust"
                  " unpack",
    "client/cli": "",
    "courier": "",
}
PAGE = "docs/architecture.md"

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

# What a file of the project begins with.
OWN = {*(room.split("/")[0] for room in DOORS), "tests", "grafana"}

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
    r"event2/.*": ["daemon/engine*", "daemon/base/loop*", "daemon/host/watchdog*", "daemon/access/audit*",
                   "daemon/disk/thread*", "daemon/net/*", "daemon/programs/programs*",
                   "daemon/collect/*", "daemon/spool/*", "daemon/stream/*", "daemon/http/*",
                   "daemon/export/*", "daemon/trigger/*", "daemon/ask/*", "daemon/relay/*", "daemon/serve/*",
                    "tests/*"],
    r"openssl/.*": ["proto/tls.*", "daemon/net/transport*", "daemon/net/revocation*", "daemon/access/gate*", "client/lib/conn_tls*",
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
            return fits(include, allowed)
    return True


def door_of(include):
    """(room, header) of a header of the project, as DOORS has them."""
    folder, _, name = include.rpartition("/")
    return folder, name.removesuffix(".h")


def check_door(path, include):
    room, name = door_of(include)
    return path.startswith("tests/") or room == os.path.dirname(path) or room not in DOORS or \
        name in DOORS[room].split()


def check_page():
    """What the page's table has otherwise than DAEMON."""
    with open(PAGE) as page:
        rooms = re.findall(r"^\| `daemon/(\w+)` \|", page.read(), re.M)
    if rooms == DAEMON:
        return 0
    print(f"{PAGE}: its table has {' '.join(rooms)}; the arrows have {' '.join(DAEMON)}")
    return 1


def check_line(path, number, line, used):
    """Prints what is wrong with a line of a file; how many things. `used`: the doors that were gone through."""
    wrong = [f"one place alone calls that: {', '.join(allowed)}" for call, allowed in CALLS.items()
             if re.search(rf"\b{call}\(", line) and not fits(path, allowed)]
    found = re.match(r'\s*#\s*include\s*(<([^>]+)>|"([^"]+)")', line)
    if found:
        include = found.group(2) or found.group(3)
        wrong += [f"includes {include}: {reason}" for reason in check_include(path, include, bool(found.group(3)), used)]
    for reason in wrong:
        print(f"{path}:{number}: {reason}")
    return len(wrong)


def check_include(path, include, quoted, used):
    """What is wrong with it."""
    if not check_library(path, include):
        yield "one place alone knows that library"
    if not check_module(path, include):
        yield "that file of the module lies uphill"
    if not quoted:
        if "/" in include and include.split("/")[0] in OWN:
            yield "a file of the project stands in quotes"
        return
    if not path.startswith("tests/") and door_of(include)[0] != os.path.dirname(path):
        used.add(door_of(include))
    if not check_room(path, include):
        yield "that room is not this one's to know"
    if not check_door(path, include):
        yield "that header is its room's own, no door (DOORS of .ci/arrows.py)"
    if not check_downhill(path, include):
        yield "that room lies uphill"


def check_unused(used):
    """Doors through which nobody goes."""
    unused = [f"{room}/{name}.h" for room, names in DOORS.items() for name in names.split() if (room, name) not in used]
    for name in unused:
        print(f"{name}: a door that no other room uses")
    return len(unused)


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


def symbols_of(objects):
    """nm's lines, each with its object's path in front."""
    return subprocess.run(["nm", "-A", *objects], stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()


def check_objects(build):
    """Prints each use of a symbol that goes uphill; how many there are."""
    defined, used = {}, []
    listed = subprocess.run(["find", *[f"{build}/{top}" for top in ("daemon", "client", "courier",
                                                                   "proto", "query")], "-name", "*.o"],
                            stdout=subprocess.PIPE, text=True, check=True).stdout.split()
    objects = [path for path in sorted(listed)
               if os.path.exists(os.path.relpath(path, build)[:-2] + ".c")]
    for line in symbols_of(objects):
        path, _, words = line.partition(".o:")
        name, words = os.path.relpath(path, build) + ".c", words.split()
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


def check_module_objects(directory):
    """Prints each use of a symbol of the module's that goes uphill; how many there are. The files are those of
    MODULE: where a header lies below its .c, what the .c defines lies there too."""
    defined, used, names = {}, [], {name.partition(".")[0] for name in MODULE}
    objects = [os.path.join(directory, name + ".o") for name in sorted(names)
               if os.path.exists(os.path.join(directory, name + ".o"))]
    if not objects:
        print(f"{directory} has no objects of the module")
        return 1
    for line in symbols_of(objects):
        path, _, words = line.partition(".o:")
        name, words = os.path.basename(path), words.split()
        if words[-2] == "U":
            used.append((name, words[-1]))
        elif words[-2] in "TDBRCG":
            defined[words[-1]] = name

    def rank(name, ending):
        return MODULE.index(name if name in MODULE else name + ending)
    wrong = [f"{name}.o: uses {symbol} of {defined[symbol]}.o, uphill" for name, symbol in sorted(set(used))
             if symbol in defined and rank(defined[symbol], ".h") > rank(name, ".c")]
    print("\n".join(wrong + [f"{len(objects)} objects of the module, {len(wrong)} uses uphill"]))
    return len(wrong)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--objects", metavar="BUILD")
    parser.add_argument("--module", metavar="DIRECTORY")
    options = parser.parse_args()
    if options.objects:
        sys.exit(1 if check_objects(options.objects) else 0)
    if options.module:
        sys.exit(1 if check_module_objects(options.module) else 0)
    files = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "*.c", "*.h"],
                           stdout=subprocess.PIPE, text=True, check=True).stdout.split()
    wrong, used = check_page(), set()
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
        wrong += sum(check_line(path, number, line, used) for number, line in enumerate(lines, 1))
    wrong += check_unused(used)
    print(f"{len(files)} files, {wrong} includes against the arrows")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
