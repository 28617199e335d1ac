#!/bin/sh
# Builds the Debian packages in a copy of the tree, so that the tree stays as it is.
#	usage: deb.sh DIRECTORY [BUILD_PLACE]
# They go to DIRECTORY. In a git tree the copy has the files that git knows, as they are now; else (out of
# `git archive`) all but build/. The copy lies in BUILD_PLACE, by default DIRECTORY/src.
set -eu
directory=$(realpath -m "${1:?usage: deb.sh DIRECTORY [BUILD_PLACE]}")
place=$(realpath -m "${2:-$directory/src}")
cd "$(dirname "$0")/.."
rm -rf "$place"
mkdir -p "$directory" "$place/ringtail"
rm -f "$directory"/*.deb "$directory"/*.buildinfo "$directory"/*.changes "$directory"/build.log
if [ -e .git ]; then
	git ls-files -z --deduplicate | xargs -0 sh -c \
		'for file; do [ -e "$file" ] && printf "%s\0" "$file"; done' sh |
		tar -c --null -T - | tar -x -C "$place/ringtail"
	sh proto/revision.sh >"$place/ringtail/.revision"
else
	tar -c --exclude=./build . | tar -x -C "$place/ringtail"
fi
if [ -d /usr/lib/ccache ]; then
	PATH=/usr/lib/ccache:$PATH
	CCACHE_DIR=${CCACHE_DIR:-${HOME:-/root}/.cache/ccache}
	CCACHE_BASEDIR=$place CCACHE_NOHASHDIR=1
	export PATH CCACHE_DIR CCACHE_BASEDIR CCACHE_NOHASHDIR
fi
# A make that called this one has flags of its own: they are not the packages'.
unset MAKEFLAGS MAKELEVEL MFLAGS
cd "$place/ringtail"
if ! dpkg-buildpackage -us -uc -b -rfakeroot >"$directory/build.log" 2>&1; then
	tail -n 30 "$directory/build.log" >&2
	echo "the packages could not be built; all that was said: $directory/build.log" >&2
	exit 1
fi
mv "$place"/*.deb "$place"/*.buildinfo "$place"/*.changes "$directory/"
rm -rf "$place"
ls "$directory"/*.deb
