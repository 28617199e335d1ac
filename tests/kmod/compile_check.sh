#!/bin/sh
# compile_check: builds the module against every kernel header package that Debian offers for this
# machine: amd64, cloud and rt flavours, of all versions. Needs the network and root; not part of
# `make check`. The packages are unpacked below BUILD_DIR and seen as /usr/src by the build alone.
#
#	tests/kmod/compile_check.sh [BUILD_DIR] [REGEX of header packages]
#
# Prints `ok VERSION` or `not ok VERSION` for each; exit 0 or 1, 77 without apt.
set -u
cd "$(dirname "$0")/../.." || exit 1
build=$(realpath -m "${1:-build}")/kmod-headers
wanted=${2:-'^linux-headers-6[0-9.]*[-+0-9a-z]*-(cloud-|rt-)?amd64$'}
command -v apt-get >/dev/null || { echo "skip: no apt-get"; exit 77; }
mkdir -p "$build/debs" "$build/tree/usr/src" "$build/tree/usr/lib" || exit 1

# fetch PACKAGE: it and what it depends on for building, unpacked.
fetch() {
	for package in $1 $(apt-cache depends --no-recommends --no-suggests "$1" |
			    sed -n 's/.*Depends: \(linux-[a-z0-9].*\)/\1/p'); do
		case $package in
		linux-headers-* | linux-kbuild-*) ;;
		*) continue ;;
		esac
		[ -e "$build/debs/$package" ] && continue
		(cd "$build/debs" && rm -f ./*.deb && apt-get -qq download "$package" &&
		 dpkg-deb -x ./*.deb "$build/tree" && rm -f ./*.deb && touch "$package") \
			2>"$build/fetch.log" || return 1
	done
}

# compile VERSION: in a mount namespace of its own, since the headers name each other by path.
compile() {
	rm -rf "$build/src" && mkdir -p "$build/src/kmod" "$build/upper" "$build/work" &&
	cp -r kmod/module kmod/uapi "$build/src/kmod/" &&
	unshare -m sh -c '
		mount --bind "$1/tree/usr/src" /usr/src &&
		mkdir -p "$1/upper" "$1/work" &&
		mount -t tmpfs tmp "$1/work" && mkdir "$1/work/u" "$1/work/w" &&
		mount -t overlay overlay -o \
			"lowerdir=$1/tree/usr/lib:/usr/lib,upperdir=$1/work/u,workdir=$1/work/w" \
			/usr/lib &&
		make -C "$1/src/kmod/module" KDIR="/usr/src/linux-headers-$2" RINGTAIL_SELFTEST=y \
			CONFIG_DEBUG_INFO_BTF_MODULES=
	' sh "$build" "$1" >"$build/$1.log" 2>&1 && ! grep -q 'warning:' "$build/$1.log"
}

failed=0
for package in $(apt-cache pkgnames linux-headers-6 | grep -E "$wanted" | sort -V); do
	version=${package#linux-headers-}
	case $version in
	6.[0-9] | 6.[0-9][0-9] | 6.[0-9]-* | 6.[0-9][0-9]-*) continue ;;	# names only
	esac
	if ! fetch "$package"; then
		echo "not ok $version: cannot be fetched: $(tail -1 "$build/fetch.log")"
		failed=1
	elif compile "$version"; then
		echo "ok $version"
	else
		echo "not ok $version:"
		grep -E 'error|warning|\*\*\*' "$build/$version.log" | head -5 | sed 's/^/# /'
		failed=1
	fi
done
exit $failed
