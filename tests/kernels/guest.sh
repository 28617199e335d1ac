#!/bin/sh
# guest: runs the BPF source under another kernel, in a virtual machine (software emulation, 2 CPUs): the
# tests of tests/bpf, then scenarios with the real daemon, which count each event and close its ledgers.
#
#	usage: tests/kernels/guest.sh BUILD [KERNEL-IMAGE [TREE]]	RT_RUN=GLOB,...: only these.
#
# With TREE, which has the libraries, Python and busybox of arm64, BUILD's programs are arm64's, too.
# This machine's processor boots once more, with lockdown=confidentiality: the start and doctor must name it.
# Prints how many cases of each test passed, `ok NAME`, `not ok NAME` or `late NAME` of each scenario, and of the
# kernel's log, which must be clean. Exit 0 passed, 1 failed, 75 something ran out of time and nothing else
# failed, 77 skipped with the reason. Needs qemu-system-x86 or
# qemu-system-arm, busybox-static, cpio.
set -u
cd "$(dirname "$0")/../.." || exit 1
build=${1:?directory of ringtaild and the test programs}
image=${2:-$(ls -v /boot/vmlinuz-* 2>/dev/null | tail -1)}
tree=${3:-}
timeout_s=1200
fewer=1
scenarios='exact_one_process exact_four_processes entry_and_return sched_events filters_in_kernel
	strings_and_stacks stuck software_events no_self_trace overload shutdown_delivers_all reload
	tracepoints_inside_programs preempted_in_programs cpu_added uprobes_beside_ftrace usdt_marks library_replaced
	functions_beside_ftrace tracepoints_beside_ftrace exits_tell_why thread_context profile_names_functions'

# Of a processor that is emulated on another, what is not the same as on this one: programs that are translated, loaded
# and attached; calls, threads, stacks and losses, counted. A tenth as often: it is as exact.
if [ "$tree" ]; then
	fewer=10 timeout_s=2400
	scenarios='exact_one_process entry_and_return sched_events strings_and_stacks overload tracepoints_inside_programs
		filters_in_kernel exits_tell_why tracepoints_beside_ftrace'
fi

. tests/kernels/daemon_root.sh
. tests/kernels/guest_clock.sh
. tests/kernels/console.sh

# shellcheck disable=SC2034 # boot_guest reads it
guest_arch=amd64 qemu=qemu-system-x86_64 guest_adds=1
# shellcheck disable=SC2034
thread=single
# shellcheck disable=SC2034
[ -z "$tree" ] || guest_arch=arm64 qemu=qemu-system-aarch64 thread=counted guest_adds=
for tool in $qemu busybox cpio zstd; do
	command -v "$tool" >/dev/null || { echo "SKIP: no $tool"; exit 77; }
done
[ -r "$image" ] || { echo "SKIP: no kernel image"; exit 77; }

say_made $qemu
root=$(mktemp -d)
trap 'rm -rf "$root" "$root.cpio" "$root".log*' EXIT

build_daemon_root "$root" "$build" bpf "$tree" || { echo "not ok the guest's tree"; exit 1; }
mkdir -p "$root/bin" "$root/bpf"
[ "$tree" ] || cp "$(command -v busybox)" "$root/bin/busybox"
cp tests/kernels/case.sh "$root/"
cp tests/kernels/locked_down.py "$root/ringtail/tests/scenario/"
# One of its own, where it can be had: busybox runs under no other name.
if [ "$tree" ]; then ln -sf busybox "$root/bin/true"; else copy_program "$root" /bin/true || exit 1; fi
for test in "$build"/bpf/test_* ${tree:+"$build"/stress/ring_stress}; do
	[ -f "$test" ] && [ -x "$test" ] || continue
	cp "$test" "$root/bpf/"
	[ "$tree" ] || ldd "$test" | grep -oE '/[^ ]+' | while read -r library; do
		mkdir -p "$root$(dirname "$library")"
		cp -L "$library" "$root$library"
	done
done
# The program that uprobes are tried on, and as it is when it is replaced: there is no compiler in there.
if [ ! "$tree" ]; then
	mkdir -p "$root/probed"
	python3 -B - "$root/probed" <<'BUILD' || { echo "not ok build the probed program"; exit 1; }
import sys
sys.path[:0] = ["tests/scenario"]
from lib import probed
for flags in ((), ("-O1",)):
    done = probed.compile_program(f"{sys.argv[1]}/probed" + "".join(flags), *flags)
    sys.stderr.write(done.stderr)
    done.check_returncode()
BUILD
fi
# shellcheck disable=SC2086,SC2116 # the scenarios, on one line
cat >"$root/init" <<INIT
#!/bin/busybox sh
/bin/busybox echo @begin
/bin/busybox mkdir -p /proc /sys /dev /tmp /run /sbin /usr/bin
/bin/busybox --install -s /bin
export PATH=/bin:/sbin:/usr/bin RINGTAIL_SLOW=8 RINGTAIL_FEWER=$fewer PYTHONDONTWRITEBYTECODE=1 LC_ALL=C.UTF-8
export RINGTAIL_PROBED=/probed
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs dev /dev
mount -t tmpfs tmp /tmp
mount -t tmpfs run /run
mount -t tracefs trace /sys/kernel/tracing
# A hierarchy of version 1, as hosts have that keep some: the programs look in both.
mkdir /run/pids && mount -t cgroup -o pids none /run/pids
mount -t securityfs security /sys/kernel/security
ip link set lo up
chmod 755 / /ringtail /tmp
# Debian's kernels come with 3, and CAP_PERFMON opens no perf event then.
echo 2 >/proc/sys/kernel/perf_event_paranoid
echo "# kernel \$(uname -r)"
. /case.sh
if grep -q lockdown=confidentiality /proc/cmdline; then
	run locked_down 180 python3 /ringtail/tests/scenario/locked_down.py
	echo @end
	poweroff -f
fi
for test in /bpf/test_*; do
	run "\${test#/bpf/}" 180 "\$test"
done
[ ! -x /bpf/ring_stress ] || run ring_stress 300 /bpf/ring_stress 10
for scenario in $(echo $scenarios); do
	run "\$scenario" 300 python3 /ringtail/tests/scenario/\$scenario.py
done
echo @end
poweroff -f
INIT
chmod +x "$root/init"
(cd "$root" && find . | cpio -o -H newc --quiet) >"$root.cpio"
boot_guest "$root.log" $timeout_s $thread 2 "$image" "$root.cpio" "rt.run=${RT_RUN:-*}" "rt.among=${tree:+[!r]*}"
grep -ao '# kernel [0-9][^ ]*' "$root.log"		# x86-64's begins behind what the BIOS has said
report_guest kernel "$root.log" $timeout_s
all=$?
# A machine that lets no program read its kernel.
if [ ! "$tree" ]; then
	boot_guest "$root.log" $timeout_s "$thread" 2 "$image" "$root.cpio" "rt.run=${RT_RUN:-*}" lockdown=confidentiality
	report_guest locked "$root.log" $timeout_s
	all=$(worse "$all" $?)
fi
# Two CPUs that truly run at once, on one ring.
if [ "$tree" ]; then
	boot_guest "$root.log" $timeout_s multi 2 "$image" "$root.cpio" "rt.run=${RT_RUN:-*}" rt.among='ring_*'
	report_guest multi "$root.log" $timeout_s
	all=$(worse "$all" $?)
fi
exit "$all"
