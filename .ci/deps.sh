#!/bin/sh
# Installs what is missing of the Debian packages that ringtail takes.
#	usage: deps.sh build | deb | check | more | kernels | bench
# build: to build it and show it; deb: to make packages of it; check: to test it; more: what make check-more
# takes besides; kernels: other processors, too; bench: also the peers it is measured against.
set -eu
build='gcc make pkg-config python3 clang llvm bpftool libbpf-dev libelf-dev zlib1g-dev libevent-dev
	protobuf-c-compiler libprotobuf-c-dev protobuf-compiler libzstd-dev libisal-dev
	libjansson-dev libsystemd-dev libcap-dev libseccomp-dev libssl-dev
	libcurl4-openssl-dev libsnappy-dev libc6-dev libsqlite3-dev libncurses-dev librdkafka-dev'
check='libcmocka-dev libclang-rt-14-dev clang-tidy spin strace valgrind tmux zstd iproute2 mandoc
	qemu-system-x86 linux-image-amd64 linux-headers-amd64 cpio busybox-static systemd dbench procps
	openssl prometheus chromium fonts-dejavu-core mount e2fsprogs util-linux
	sqlite3 babeltrace2 systemtap-sdt-dev libdebuginfod1 python3-yaml
	python3-protobuf python3-zstandard'
bench='trace-cmd linux-perf bpftrace lttng-tools liblttng-ust-dev kmod dpkg-dev systemtap-sdt-dev'
deb='build-essential dpkg-dev debhelper dh-dkms fakeroot'
habits='shellcheck g++ bash-completion zsh fish file'
more='lintian faketime mmdebstrap podman runc python3-venv tshark default-jre-headless postgresql maven golang-go rustc
	gcc-aarch64-linux-gnu libc6-dev-arm64-cross'
kernels='qemu-system-arm'
case ${1:-} in
build) packages=$build ;;
deb) packages="$build $deb" ;;
check) packages="$build $check $habits" ;;
more) packages="$build $deb $check $habits $more" ;;
kernels) packages="$build $deb $check $habits $more $kernels" ;;
bench) packages="$build $check $habits $bench" ;;
*) echo "usage: $0 build | deb | check | more | kernels | bench" >&2; exit 2 ;;
esac
missing=
for package in $packages; do
	dpkg-query -W -f '${db:Status-Status}\n' "$package" 2>/dev/null | grep -qx installed ||
		missing="$missing $package"
done
[ -n "$missing" ] || exit 0
echo "installing:$missing"
if [ "$(id -u)" = 0 ]; then as_root=; else as_root=sudo; fi
$as_root apt-get update -q >/dev/null
# shellcheck disable=SC2086 # a word for each package
DEBIAN_FRONTEND=noninteractive $as_root apt-get install -q -y --no-install-recommends $missing \
	>/dev/null || { echo "these packages could not be installed:$missing" >&2; exit 1; }
