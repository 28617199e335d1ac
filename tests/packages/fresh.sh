#!/bin/sh
# fresh: on a machine with Debian's smallest base and nothing else: `make deb`, `apt install ./...deb`, `tracectl doctor`,
# `tracectl top`, each with the seconds that it takes; then every package, with the module built by DKMS; the version
# after this one over it; and a purge that leaves nothing. The machine is a directory, by mmdebstrap, with this kernel.
#
#	usage: tests/packages/fresh.sh SCRATCH_DIR [SUITE]
#
# Builds the tree as it is; SCRATCH_DIR keeps the base, as SUITE.tar. Prints `ok NAME` or `not ok NAME` of each step. Exit 0 passed, 1 failed, 77
# skipped with the reason: not root, or Debian's mirror does not answer. Needs: mmdebstrap.
set -u
cd "$(dirname "$0")/../.." || exit 1
scratch=$(realpath -m "${1:?usage: fresh.sh SCRATCH_DIR [SUITE]}")
suite=${2:-bookworm}
root=$scratch/$suite
mirror=http://deb.debian.org/debian
failed=0 began=0

skip() { echo "SKIP: $1"; exit 77; }

# Once more, in mounts of its own, so that they end with it.
if [ -z "${RT_FRESH_INSIDE:-}" ]; then
	[ "$(id -u)" = 0 ] || skip "mounts and chroot take root"
	command -v mmdebstrap >/dev/null || skip "no mmdebstrap"
	RT_FRESH_INSIDE=1 exec unshare -m --propagation private sh "$0" "$scratch" "$suite"
fi

now_s() { date +%s; }

# A command, with the machine's files as all there are: a daemon that leaves its root behind wants more than a chroot.
inside() {
	# shellcheck disable=SC2016 # that shell's own words
	exec unshare -m --propagation private sh -ec 'cd "$1"; pivot_root . mnt; exec chroot . /usr/bin/env -i \
		PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 TERM=dumb \
		DEBIAN_FRONTEND=noninteractive sh -ec "umount -l /mnt; $2"' sh "$root" "$1"
}

# step NAME COMMAND: in the machine; what it said goes to a log, and its end is shown when it fails.
step() {
	began=$(now_s)
	if (inside "$2") </dev/null >"$scratch/step.log" 2>&1; then
		echo "ok $1: $(($(now_s) - began)) s"
		return 0
	fi
	echo "not ok $1: $(($(now_s) - began)) s"
	tail -n 30 "$scratch/step.log" | sed 's/^/# | /'
	failed=1
	return 1
}

# What of it is there, but for what was copied in and what apt and the kernel keep.
ours() {
	(cd "$root" && find . -xdev -iname '*ringtail*' -not -path './src/*' -not -path './packages/*' -not -path './tmp/*' \
		-not -path './var/lib/dpkg/*' -not -path './var/cache/*' | sort)
}

# The next version is this one under another number, and asks for packages of its own number.
make_next() {
	mkdir -p "$root/packages/next" && for file in "$root"/packages/*.deb; do
		tree=$scratch/next
		rm -rf "$tree" && dpkg-deb -R "$file" "$tree" || return
		version=$(sed -n 's/^Version: //p' "$tree/DEBIAN/control")
		sed -i -e 's/^Version: .*/&+next/' -e "s/(= $version)/(= $version+next)/g" "$tree/DEBIAN/control" &&
			dpkg-deb --root-owner-group -Znone -b "$tree" "$root/packages/next/" >/dev/null || return
	done
	rm -rf "$tree"
}

mkdir -p "$scratch" || exit 1
began=$(now_s)
[ -e "$root.tar" ] || mmdebstrap --quiet --variant=minbase "$suite" "$root.part.tar" "$mirror" >"$scratch/step.log" 2>&1 ||
	skip "the base of $suite cannot be had from $mirror: $(tail -n 1 "$scratch/step.log")"
[ -e "$root.tar" ] || mv "$root.part.tar" "$root.tar" || exit 1
echo "# the base of $suite: $(($(now_s) - began)) s"
# The tree as it is now, edited files included.
commit=$(git stash create)
rm -rf --one-file-system "$root" && mkdir -p "$root/src" && tar -x -C "$root" -f "$root.tar" &&
	git archive "${commit:-HEAD}" | tar -x -C "$root/src" && sh proto/revision.sh >"$root/src/.revision" || exit 1
mount --bind "$root" "$root" && mount --rbind /dev "$root/dev" && mount -t proc proc "$root/proc" && mount --rbind /sys "$root/sys" || exit 1

fresh=$(now_s)
step "make deb, with what it takes" "apt-get update -q; apt-get install -q -y --no-install-recommends make; make -C /src deb" ||
	exit 1
mkdir -p "$root/packages" && mv "$root"/src/build/deb/*.deb "$root/packages/" && rm -f "$root"/packages/*-dbgsym_*.deb &&
	make_next || exit 1
before=$(ours)
[ -z "$before" ] || { echo "not ok nothing of it is there before: $before"; failed=1; }
step "apt install ./ringtail_*.deb ./ringtail-client_*.deb" "cd /packages; apt-get install -q -y ./ringtail_*.deb ./ringtail-client_*.deb"
# A directory has no systemd that would have started it.
(inside "exec ringtaild") </dev/null >"$scratch/ringtaild.log" 2>&1 &
daemon=$!
trap 'kill "$daemon" 2>/dev/null; wait "$daemon"' EXIT
step "tracectl doctor" "for i in \$(seq 100); do tracectl stat >/dev/null 2>&1 && break; sleep 0.2; done; tracectl doctor | tee /tmp/doctor; grep -qx 'tracing works' /tmp/doctor" ||
	sed 's/^/# | /' "$scratch/ringtaild.log"
step "tracectl top" "timeout 60 tracectl top --plain --duration 2s"
grep -q . "$scratch/step.log" || { echo "not ok top shows something"; failed=1; }
echo "# from nothing to the first table: $(($(now_s) - fresh)) s"
kill "$daemon" 2>/dev/null
wait "$daemon"
trap - EXIT

step "apt installs all, DKMS builds the module" "cd /packages; apt-get install -q -y linux-headers-amd64 dkms ./*.deb
	dkms status; dkms status | grep -q '^ringtail/.*: installed'"
step "apt upgrades all, DKMS builds it anew" "cd /packages/next; apt-get install -q -y ./*.deb
	dkms status; dkms status | grep -q '^ringtail/.*: installed'
	test \"\$(dpkg-query -W '*ringtail*' | grep -c '+next\$')\" = \"\$(ls *.deb | wc -l)\""
step "apt purges all" "apt-get purge -q -y \$(dpkg-query -W -f '\${Package}\\n' '*ringtail*'); ! dpkg-query -W '*ringtail*' | grep ."
after=$(ours)
if [ -z "$after" ]; then echo "ok nothing of it is left"; else
	echo "not ok nothing of it is left"
	echo "$after" | sed 's/^/# | /'
	failed=1
fi
[ "$failed" = 1 ] || rm -rf --one-file-system "${root:?}/src" "${root:?}/packages"
exit "$failed"
