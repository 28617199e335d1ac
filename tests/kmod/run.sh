#!/bin/sh
# run: builds the module and its tests, boots Debian's kernel in a virtual machine (2 CPUs, software
# emulation), runs them there, and prints one `ok NAME`, `not ok NAME`, `late NAME` or `skip NAME` for each;
# below those that did not pass, what they said.
#
#	tests/kmod/run.sh [BUILD_DIR]		RT_RUN=GLOB,...: only these. RT_FUZZ_S=20: how long
#						to fuzz. RT_PARALLEL=, RT_DAEMON=: without that
#						boot. RT_CPUS=2. RT_KERNEL=6.1.0-56-amd64.
#
# Of another kernel (tests/kernels/run.py --module): RT_KERNEL, RT_IMAGE, RT_WORK: a directory for it, RT_MAKE: the
# command that builds the module in RT_WORK/src/kmod/module; for arm64 RT_TREE: what running takes there, and RT_CROSS:
# what the compiler's name begins with. arm64 is emulated by counting instructions, and does each thing a tenth as often.
#
# The kernel's log must be clean: a warning, oops, stall or complaint is a failure. Exit 0 passed,
# 1 failed, 75 something ran out of time and nothing else failed, 77 skipped with the reason. Needs:
# qemu-system-x86, linux-image-amd64, linux-headers-amd64, busybox-static, cpio, gcc, libc6-dev.
set -u
cd "$(dirname "$0")/../.." || exit 1
programs=$(realpath -m "${1:-build}")
build=${RT_WORK:-$programs/kmod-test}
cpus=${RT_CPUS:-2}
fuzz_s=${RT_FUZZ_S-20}
timeout_s=$((520 + ${fuzz_s:-0}))

. tests/kernels/daemon_root.sh
. tests/kernels/guest_clock.sh
. tests/kernels/console.sh

skip() { echo "skip kmod: $1"; exit 77; }
die() { echo "not ok $1"; exit 1; }

newest_kernel() {
	for image in $(ls -v /boot/vmlinuz-* 2>/dev/null | tac); do
		version=${image#/boot/vmlinuz-}
		[ -d "/usr/src/linux-headers-$version" ] && echo "$version" && return
	done
}

kernel=${RT_KERNEL:-$(newest_kernel)}
image=${RT_IMAGE:-/boot/vmlinuz-$kernel}
tree=${RT_TREE:-}
make_module=${RT_MAKE:-make KDIR=/usr/src/linux-headers-$kernel}
make_probed=$(echo "$make_module" | sed s,/src/kmod/module,/src/kmod/probed,)
cross=${RT_CROSS:-}
# shellcheck disable=SC2034 # boot_guest reads it
guest_arch=amd64 qemu=qemu-system-x86_64 single=single fewer=1 scenarios='*'
# shellcheck disable=SC2034
[ -z "$tree" ] || guest_arch=arm64 qemu=qemu-system-aarch64 single=counted fewer=10 timeout_s=$((3 * timeout_s)) \
	scenarios=scenario_exact_one_process,scenario_entry_and_return,scenario_sched_events,scenario_overload
[ "$kernel" ] || skip "no kernel in /boot with its headers in /usr/src (linux-image-amd64, linux-headers-amd64)"
command -v $qemu >/dev/null || skip "no $qemu (qemu-system-x86, qemu-system-arm)"
command -v cpio >/dev/null || skip "no cpio"
[ -x /bin/busybox ] || [ -x /usr/bin/busybox ] || skip "no busybox (busybox-static)"
busybox=$tree$(command -v busybox)

build_module() {
	mkdir -p "$build/src/kmod" &&
	cp -ru kmod/module kmod/uapi "$build/src/kmod/" &&
	(cd "$build/src/kmod/module" &&
	 $make_module RINGTAIL_SELFTEST=y CONFIG_DEBUG_INFO_BTF_MODULES=) >"$build/module.log" 2>&1
}

# A module that has probes by ringtail_probe.h. Of one whose format does not fit, the compiler has to say so.
build_probed() {
	cp -ru tests/kmod/probed "$build/src/kmod/" && cd "$build/src/kmod/probed" &&
	$make_probed PROBED_WRONG=y CONFIG_DEBUG_INFO_BTF_MODULES= >"$build/wrong.log" 2>&1
	grep -q "main.c:.* warning: format .*%u.* expects" "$build/wrong.log" ||
		{ echo "# the compiler has not held a probe's arguments against its format"; return 1; }
	$make_probed CONFIG_DEBUG_INFO_BTF_MODULES= >"$build/probed.log" 2>&1 || { tail -20 "$build/probed.log"; return 1; }
	! grep -E 'warning:' "$build/probed.log"
}

build_tests() {
	flags="-std=gnu17 -D_GNU_SOURCE -I. -I$programs -O1 -g -Wall -Wextra -Werror -static -pthread"
	flags="$flags -fno-omit-frame-pointer -mno-omit-leaf-frame-pointer"
	# shellcheck disable=SC2086 # words
	"${cross}gcc" $flags -o "$build/kmod_test" tests/kmod/kmod_test.c tests/kmod/guest.c \
		tests/kmod/test_*.c daemon/ring/reader.c query/error.c || return
	# shellcheck disable=SC2086
	"${cross}gcc" $flags -o "$build/kmod_fuzz" tests/kmod/kmod_fuzz.c
}

# pack NAME: the tree $build/NAME, with busybox, init and the module, becomes $build/NAME.cpio. Without what only
# debuggers read, as DKMS installs it, the module loads in two thirds of the time.
pack() {
	root=$build/$1
	mkdir -p "$root/bin" && cp "$busybox" "$root/bin/busybox" && ln -sf busybox "$root/bin/true" &&
	cp tests/kmod/init.sh "$root/init" && chmod +x "$root/init" && cp tests/kernels/case.sh "$root/" &&
	"${cross}strip" --strip-debug -o "$root/ringtail.ko" "$build/src/kmod/module/ringtail.ko" &&
	"${cross}strip" --strip-debug -o "$root/probed.ko" "$build/src/kmod/probed/probed.ko" &&
	(cd "$root" && find . | cpio -o -H newc --quiet) >"$build/$1.cpio"
}

# boot ROOT THREAD WORDS...: one boot, and what came of it. With THREAD multi each CPU is a thread of the
# host, so that they truly run at once; but then this qemu may go on running what a CPU had cached of an
# instruction that another one patches, so there the tracepoints must be held.
all=0
boot() {
	machine=$1-$2 root=$1 thread=$2
	shift 2
	boot_guest "$build/console-$machine.log" "$timeout_s" "$thread" "$cpus" "$image" "$build/$root.cpio" \
		"rt.run=${RT_RUN:-*}" "rt.fewer=$fewer" "$@"
	report_guest "$machine" "$build/console-$machine.log" "$timeout_s"
	all=$(worse "$all" $?)
}

mkdir -p "$build" || exit 1
say_made $qemu
build_module || { tail -20 "$build/module.log"; die "build of ringtail.ko for $kernel"; }
if grep -E 'warning:' "$build/module.log"; then die "build of ringtail.ko without a warning"; fi
echo "ok build of ringtail.ko for $kernel"
if [ -z "$cross" ]; then
	python3 .ci/arrows.py --module "$build/src/kmod/module" || die "the arrows between the module's objects"
	echo "ok arrows between the module's objects"
fi
(build_probed) || die "build of a module with probes"
echo "ok build of a module with probes"
build_tests || die "build of the tests"
mkdir -p "$build/module" && cp "$build/kmod_test" "$build/kmod_fuzz" "$build/module/" &&
	pack module || die "build of the initramfs"
boot module "$single" "rt.fuzz=$fuzz_s"
if [ "${RT_PARALLEL-1}" ]; then
	boot module multi 'rt.among=syscall_exact*,overflow_*,hostile_[gr]*' rt.hold=1
fi
if [ ! -x "$programs/ringtaild" ] || [ ! -x "$programs/tracectl" ]; then
	echo "skip daemon: no ringtaild and tracectl in $programs"
elif [ "${RT_DAEMON-1}" ]; then
	build_daemon_root "$build/daemon" "$programs" kmod "$tree" &&
		cp tests/kmod/probes_of_modules.py "$build/daemon/ringtail/tests/scenario/" && pack daemon || die "build of the daemon's initramfs"
	[ "$tree" ] || guest_adds=1		# qemu's arm64 cannot
	boot daemon "$single" "rt.among=$scenarios,unload"
fi
exit "$all"
