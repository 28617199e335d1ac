#!/bin/sh
# Installs the Debian packages that building, showing and testing ringtail takes, if any is missing;
# with `bench`, those of the peers it is measured against too.
set -eu
build='gcc make pkg-config clang llvm bpftool libbpf-dev libelf-dev zlib1g-dev libevent-dev
	protobuf-c-compiler libprotobuf-c-dev protobuf-compiler libzstd-dev libisal-dev
	libjansson-dev libsystemd-dev libcap-dev libseccomp-dev libssl-dev
	libcurl4-openssl-dev libsnappy-dev libc6-dev'
test='libcmocka-dev libclang-rt-14-dev python3 spin strace valgrind tmux zstd iproute2 mandoc
	qemu-system-x86 linux-image-amd64 linux-headers-amd64 cpio busybox-static systemd dbench procps
	openssl prometheus chromium fonts-dejavu-core mount e2fsprogs util-linux'
bench='trace-cmd linux-perf lttng-tools liblttng-ust-dev kmod dpkg-dev'
[ "${1:-}" = bench ] || bench=
missing=
for package in $build $test $bench; do
	dpkg-query -W -f '${db:Status-Status}\n' "$package" 2>/dev/null | grep -qx installed ||
		missing="$missing $package"
done
[ -n "$missing" ] || exit 0
echo "installing:$missing"
if [ "$(id -u)" = 0 ]; then as_root=; else as_root=sudo; fi
$as_root apt-get update -q >/dev/null
DEBIAN_FRONTEND=noninteractive $as_root apt-get install -q -y --no-install-recommends $missing \
	>/dev/null || { echo "these packages could not be installed:$missing" >&2; exit 1; }
