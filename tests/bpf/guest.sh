#!/bin/sh
# guest: runs the BPF tests under another kernel, in a virtual machine (software emulation, 2 CPUs).
#	usage: guest.sh DIRECTORY-OF-TEST-PROGRAMS [KERNEL-IMAGE]
# Exit 0 passed, 1 failed, 77 skipped with the reason. Needs qemu-system-x86, busybox-static, cpio.
set -u
tests=${1:?directory of test programs}
image=${2:-$(ls /boot/vmlinuz-* 2>/dev/null | tail -1)}
timeout_s=400

for tool in qemu-system-x86_64 busybox cpio; do
	command -v $tool >/dev/null || { echo "SKIP: no $tool"; exit 77; }
done
[ -r "$image" ] || { echo "SKIP: no kernel image"; exit 77; }

root=$(mktemp -d)
trap 'rm -rf "$root" "$root.gz" "$root.log"' EXIT
mkdir -p "$root/bin" "$root/proc" "$root/sys" "$root/dev" "$root/tmp"
cp "$(command -v busybox)" "$root/bin/busybox"
ln -s busybox "$root/bin/true"
for test in "$tests"/test_*; do
	[ -x "$test" ] || continue
	cp "$test" "$root/"
	ldd "$test" | grep -oE '/[^ ]+' | while read -r library; do
		mkdir -p "$root$(dirname "$library")"
		cp -L "$library" "$root$library"
	done
done
cat >"$root/init" <<'INIT'
#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs dev /dev
mount -t tmpfs tmp /tmp
uname -r
for test in /test_*; do
	timeout 120 "$test"
	echo "@exit $? $test"
done
echo @end
poweroff -f
INIT
chmod +x "$root/init"
(cd "$root" && find . | cpio -o -H newc --quiet | gzip -1) >"$root.gz"
timeout -k 5 $timeout_s qemu-system-x86_64 -accel tcg,thread=single -cpu max -m 1024 -smp 2 \
	-nographic -no-reboot -monitor none -serial stdio -nodefaults -kernel "$image" \
	-initrd "$root.gz" -append 'console=ttyS0 quiet panic=-1 tsc=reliable' \
	</dev/null 2>&1 | tr -d '\r' >"$root.log"
grep -av 'RUN  ' "$root.log"
grep -aq '^@end' "$root.log" && ! grep -a '^@exit' "$root.log" | grep -qv '^@exit 0 '
