#!/bin/sh
# run: boots Debian's kernel with this host's own systemd in a virtual machine (2 CPUs, software
# emulation), installs ringtail there as `make install` does, and drives it through systemctl. Prints
# one `ok NAME`, `not ok NAME` or `late NAME` for each thing that is to hold (guest.py says what).
#
#	tests/systemd/run.sh [BUILD_DIR [PACKAGES_DIR]]	RT_RUN=GLOB,...: only these. RT_TIMEOUT_S=840.
#							RT_KERNEL=6.1.0-56-amd64.
#
# With PACKAGES_DIR, nothing is installed beforehand: the guest has dpkg and the Debian packages of that
# directory, and packages.py installs, upgrades and purges them.
# The root file system is made of the host's installed packages: systemd, Python and what ldd says
# that they need. The kernel's log must be clean. Exit 0 passed, 1 failed, 75 something ran out of time
# and nothing else failed, 77 skipped with the reason.
# Needs: qemu-system-x86, linux-image-amd64, cpio, busybox-static, systemd, python3.
set -u
cd "$(dirname "$0")/../.." || exit 1
programs=$(realpath -m "${1:-build}")
packages=${2:-}
build=$programs/${packages:+packages-}systemd-test
root=$build/root
timeout_s=${RT_TIMEOUT_S:-840}

. tests/kernels/guest_clock.sh
. tests/kernels/console.sh

skip() { echo "skip systemd: $1"; exit 77; }
die() { echo "not ok $1"; exit 1; }

kernel=${RT_KERNEL:-$(ls -v /boot/vmlinuz-* 2>/dev/null | tail -1 | sed 's/.*vmlinuz-//')}
[ "$kernel" ] || skip "no kernel in /boot (linux-image-amd64)"
command -v qemu-system-x86_64 >/dev/null || skip "no qemu-system-x86_64 (qemu-system-x86)"
command -v cpio >/dev/null || skip "no cpio"
[ -x /lib/systemd/systemd ] || skip "no systemd"
command -v busybox >/dev/null || skip "no busybox (busybox-static)"

units='basic.target sysinit.target multi-user.target local-fs.target local-fs-pre.target sockets.target
	timers.target paths.target slices.target shutdown.target umount.target final.target
	network.target network-pre.target systemd-journald.service
	systemd-journald.socket systemd-journald-dev-log.socket sys-kernel-tracing.mount'

# copy FILE...: with the libraries that it needs; where a link points is what counts.
copy() {
	for file in "$@"; do
		for part in "$file" $(ldd "$file" 2>/dev/null | grep -o '/[^ ]*'); do
			place=$root$(realpath "$(dirname "$part")")
			mkdir -p "$place" && cp -uL "$part" "$place/" || return 1
		done
	done
}

copy_python() {
	copy /usr/bin/python3 || return
	for module in /usr/lib/python3*/lib-dynload/*.so; do
		case $module in
		*_sqlite* | *_tkinter* | *_curses* | *readline* | *_test* | *_codecs_* | *_dbm*) ;;
		*) copy "$module" || return ;;
		esac
	done
	(cd / && tar c --exclude=test --exclude=tests --exclude=idlelib --exclude=tkinter \
		--exclude=ensurepip --exclude=lib2to3 --exclude=pydoc_data --exclude='config-*' \
		--exclude=dist-packages --exclude=lib-dynload --exclude='*.opt-?.pyc' \
		usr/lib/python3.*) | tar x -C "$root"
}

copy_systemd() {
	copy /lib/systemd/systemd /lib/systemd/systemd-journald /lib/systemd/systemd-shutdown \
		/bin/systemctl /bin/journalctl /bin/systemd-sysusers /bin/systemd-tmpfiles \
		/bin/systemd-socket-activate /bin/mount /bin/kill /bin/dmesg /bin/sh || return
	for unit in $units; do
		cp -L "/lib/systemd/system/$unit" "$root/lib/systemd/system/" || return
	done
	mkdir -p "$root/lib/systemd/system/sysinit.target.wants" &&
	ln -s ../systemd-journald.service ../sys-kernel-tracing.mount \
		"$root/lib/systemd/system/sysinit.target.wants/"
}

# dpkg, and what the packages' scripts call.
copy_dpkg() {
	copy /usr/bin/dpkg /usr/bin/dpkg-deb /usr/bin/dpkg-split /usr/bin/dpkg-query /usr/bin/dpkg-trigger \
		/usr/bin/tar /usr/bin/rm /usr/bin/diff /usr/bin/perl /usr/bin/getent /usr/bin/deb-systemd-helper \
		/usr/bin/deb-systemd-invoke /usr/sbin/start-stop-daemon /usr/sbin/ldconfig /usr/sbin/useradd \
		/usr/sbin/userdel /usr/sbin/groupdel || return
	copy /lib/"$(gcc -print-multiarch)"/libnss_files.so.2 2>/dev/null
	tar -c -C / usr/lib/"$(gcc -print-multiarch)"/perl-base | tar -x -C "$root"
}

# What the packages need counts as installed: dpkg there knows of it what dpkg knows here.
know_dependencies() {
	mkdir -p "$root/var/lib/dpkg/info" "$root/var/lib/dpkg/updates" || return
	: >"$root/var/lib/dpkg/available"
	for package in $(for file in "$packages"/*.deb; do dpkg-deb -f "$file" Depends Recommends; done |
			sed 's/^[A-Z][a-z]*: //' | tr ',' '\n' | sed 's/[(|:].*//' | sort -u); do
		dpkg-query -s "$package" 2>/dev/null || continue
		echo
		: >"$root/var/lib/dpkg/info/$package.list"
	done >"$root/var/lib/dpkg/status"
}

# The next version is this one under another number, and asks for packages of its own number.
copy_next() {
	next=$build/next
	rm -rf "$next" && dpkg-deb -R "$1" "$next" && number=$(dpkg-deb -f "$1" Version) &&
	sed -i -e 's/^Version: .*/&+next/' -e "s/(= $number)/(= $number+next)/g" "$next/DEBIAN/control" &&
	dpkg-deb --root-owner-group -Znone -b "$next" "$root/packages/next/" && rm -rf "$next"
}

copy_packages() {
	copy_dpkg && know_dependencies && mkdir -p "$root/packages/next" || return
	for package in "$packages"/*.deb; do
		case $package in
		# DKMS takes a compiler: tests/packages/fresh.sh has one.
		*dbgsym* | *-dkms_*) continue ;;
		esac
		cp "$package" "$root/packages/" || return
		for program in usr/sbin/ringtaild usr/bin/tracectl; do
			dpkg-deb --fsys-tarfile "$package" | tar -x -C "$build" "./$program" 2>/dev/null &&
				copy "$build/$program"		# its libraries; itself goes again
		done
		copy_next "$package" || return
	done
	rm -rf "${build:?}/usr"
	cp tests/systemd/packages.py "$root/test/" && sed -i 's/guest\.py/packages.py/' \
		"$root/etc/systemd/system/check.service"
}

install_built() {
	make --no-print-directory -o all install BUILD="${programs#"$PWD"/}" DESTDIR="$root" &&
	copy "$programs/ringtaild" "$programs/tracectl"
}

build_root() {
	rm -rf "$root" && mkdir -p "$root/usr/bin" "$root/usr/sbin" "$root/usr/lib" "$root/usr/lib64" \
		"$root/etc/systemd/system/multi-user.target.wants" "$root/proc" "$root/sys" \
		"$root/dev" "$root/run" "$root/tmp" "$root/root" "$root/var/lib" "$root/var/log" "$root/var/tmp" \
		"$root/usr/lib/systemd/system" "$root/test" || return
	ln -s usr/bin "$root/bin" && ln -s usr/sbin "$root/sbin" && ln -s usr/lib "$root/lib" &&
	ln -s usr/lib64 "$root/lib64" && cp tests/systemd/init.sh "$root/init" && chmod +x "$root/init" &&
	cp "$(command -v busybox)" "$root/usr/bin/busybox" &&
	ln -s ../run "$root/var/run" && copy_systemd && copy_python &&
	copy "$programs/tools/load" &&
	cp "$programs/tools/load" "$root/usr/bin/load" &&
	cp tests/systemd/guest.py "$root/test/" && cp tests/systemd/check.service "$root/etc/systemd/system/" &&
	ln -s ../check.service "$root/etc/systemd/system/multi-user.target.wants/" &&
	printf 'root:x:0:0::/root:/bin/sh\nnobody:x:65534:65534::/:/bin/false\n' >"$root/etc/passwd" &&
	printf 'root:x:0:\nnogroup:x:65534:\n' >"$root/etc/group" &&
	echo 'passwd: files' >"$root/etc/nsswitch.conf" && echo ringtail-guest >"$root/etc/hostname" &&
	echo 0123456789abcdef0123456789abcdef >"$root/etc/machine-id" && : >"$root/etc/os-release" &&
	: >"$root/etc/shadow" && : >"$root/etc/gshadow" &&
	mkdir -p "$root/etc/systemd/system.conf.d" &&
	if [ "$packages" ]; then copy_packages; else install_built; fi >"$build/install.log" 2>&1 &&
	rm -rf "${root:?}/${programs#/}" &&		# where copy has put what was built
	ldconfig -r "$root" && (cd "$root" && find . | cpio -o -H newc -R +0:+0 --quiet) >"$build/root.cpio" &&
	rm -rf "$root"
}

mkdir -p "$build" && build_root || die "build of the root file system (see $build/install.log)"
boot_guest "$build/console.log" "$timeout_s" single 2 "/boot/vmlinuz-$kernel" "$build/root.cpio" \
	systemd.log_color=0 systemd.show_status=0 systemd.crash_reboot=1 systemd.unit=multi-user.target \
	"rt.run=${RT_RUN:-*}"
report_guest systemd "$build/console.log" "$timeout_s"
