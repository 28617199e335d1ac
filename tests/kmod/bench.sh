#!/bin/sh
# bench: the module's producer beside ftrace's and LTTng's, in one virtual machine whose clock counts
# instructions (qemu -icount shift=0: 1 ns is one instruction), so that a noisy host changes nothing.
# What a real processor makes of them is another matter; `make bench` measures that for BPF.
#
#	tests/kmod/bench.sh [BUILD_DIR] [LTTNG_MODULES_DIR]
#
# Prints one JSON object for each row, as build/bench.jsonl has them. Exit 0, 1, or 77: cannot run.
# LTTng takes lttng-tools, and lttng-modules built for the same kernel: a tree that is given, or Debian's
# lttng-modules-dkms, unpacked and built here. Its timer probe is left out, which does not compile
# against this kernel and has nothing to do with what is measured.
set -u
cd "$(dirname "$0")/../.." || exit 1
programs=$(realpath -m "${1:-build}")
build=$programs/kmod-bench
lttng_modules=${2:-$build/lttng}
kernel=${RT_KERNEL:-$(ls -v /boot | sed -n 's/^vmlinuz-//p' | tail -1)}
headers=/usr/src/linux-headers-$kernel
timeout_s=500

skip() { echo "skip kmod bench: $1" >&2; exit 77; }
[ -d "$headers" ] && [ -r "/boot/vmlinuz-$kernel" ] || skip "no kernel with its headers"
command -v qemu-system-x86_64 >/dev/null || skip "no qemu-system-x86_64"

mkdir -p "$build/src/kmod" && cp -ru kmod/module kmod/uapi "$build/src/kmod/" &&
make -C "$build/src/kmod/module" KDIR="$headers" CONFIG_DEBUG_INFO_BTF_MODULES= \
	>"$build/module.log" 2>&1 || { tail "$build/module.log" >&2; exit 1; }
gcc -std=gnu17 -D_GNU_SOURCE -I. "-I$programs" -O2 -Wall -Wextra -Werror -static -o "$build/kmod_bench" \
	tests/kmod/kmod_bench.c tests/kmod/guest.c daemon/ring/reader.c \
	query/error.c || exit 1

root=$build/root
rm -rf "$root" && mkdir -p "$root/bin" && cp "$(command -v busybox)" "$root/bin/busybox" &&
	cp tests/kmod/bench_init.sh "$root/init" && chmod +x "$root/init" &&
	cp "$build/src/kmod/module/ringtail.ko" "$build/kmod_bench" "$root/" || exit 1

build_lttng() {
	[ -d "$lttng_modules" ] && return
	mkdir -p "$build/lttng-package" && (cd "$build/lttng-package" &&
		apt-get download -q lttng-modules-dkms && dpkg -x ./*.deb .) >"$build/lttng.log" 2>&1 ||
		return
	source=$(echo "$build"/lttng-package/usr/src/lttng-modules-*/src)
	sed -i '/lttng-probe-timer/d' "$source/probes/Kbuild"
	make -C "$headers" M="$source" CONFIG_LTTNG=m CONFIG_LTTNG_CLOCK_PLUGIN_TEST=m modules \
		>>"$build/lttng.log" 2>&1 && mv "$source" "$lttng_modules"
}

# The session daemon loads its modules itself, through their index.
add_lttng() {
	command -v lttng-sessiond >/dev/null || return
	[ "$(find "$lttng_modules" -name 'lttng-tracer.ko' 2>/dev/null)" ] || return
	mkdir -p "$root/lib/modules/$kernel/updates" "$root/etc"
	find "$lttng_modules" -name '*.ko' ! -name '*test*' \
		-exec cp {} "$root/lib/modules/$kernel/updates/" \;
	cp /lib/modules/"$kernel"/modules.builtin /lib/modules/"$kernel"/modules.builtin.modinfo \
		/lib/modules/"$kernel"/modules.order "$root/lib/modules/$kernel/"
	PATH=$PATH:/sbin:/usr/sbin depmod -b "$root" "$kernel"
	for file in "$(command -v lttng)" "$(command -v lttng-sessiond)" \
			/usr/lib/x86_64-linux-gnu/lttng/libexec/lttng-consumerd; do
		# shellcheck disable=SC2046 # a word for each library
		[ -e "$file" ] && cp --parents -L "$file" $(ldd "$file" | grep -o '/[^ ]*') "$root/"
	done
	cp --parents -r /usr/share/xml/lttng "$root/"
	printf 'root:x:0:0::/tmp:/bin/sh\n' >"$root/etc/passwd"
	printf 'root:x:0:\ntracing:x:99:\n' >"$root/etc/group"
}
build_lttng
add_lttng
(cd "$root" && find . | cpio -o -H newc --quiet | gzip -1) >"$build/root.gz"
timeout -k 5 $timeout_s qemu-system-x86_64 -accel tcg,thread=single -icount shift=0,sleep=off \
	-cpu max -m 1024 -smp 1 -nographic -no-reboot -monitor none -serial stdio -nodefaults \
	-kernel "/boot/vmlinuz-$kernel" -initrd "$build/root.gz" \
	-append "console=ttyS0 quiet panic=-1 nowatchdog" </dev/null 2>&1 |
	tr -d '\r' >"$build/console.log"
grep -q '^@end' "$build/console.log" || { tail -20 "$build/console.log" >&2; exit 1; }

python3 - "$build/console.log" "$kernel" <<'PY'
import collections
import json
import statistics
import sys

samples, why = collections.defaultdict(list), {}
for line in open(sys.argv[1], errors="replace"):
    words = line.split()
    if words[:1] == ["@bench"] and len(words) == 4:
        samples[words[2]].append(float(words[3]))
    elif words[:1] == ["@why"]:
        why[words[1]] = " ".join(words[2:])


def cost(name):
    if not samples[name]:
        return None
    return round(statistics.median(samples[name]) - statistics.median(samples["plain"]), 1)


def row(name, ours, peer, peer_name, budget):
    value, peer_value = cost(ours), cost(peer) if peer else None
    out = {"name": f"kmod.{name}", "value": value, "unit": "instructions per call", "peer": peer_name,
           "peer_value": peer_value, "ratio": round(value / peer_value, 3) if peer_value else None,
           "budget": budget, "rounds": len(samples[ours])}
    if peer and peer_value is None:
        out["why"] = why.get(peer, "it did not run in the virtual machine")
    print(json.dumps(out))


row("call.vs_ftrace", "call", "ftrace", "ftrace raw_syscalls pair", "<= 1 x peer")
row("pair.vs_ftrace", "pair", "ftrace", "ftrace raw_syscalls pair", "<= 1 x peer")
row("call.vs_lttng", "call", "lttng", "lttng-modules, syscall pair", "< 1 x peer")
row("pair.vs_lttng", "pair", "lttng", "lttng-modules, syscall pair", "< 1 x peer")
row("refused", "refused", None, None, None)
PY
