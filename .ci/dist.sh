#!/bin/sh
# dist: a release as files: the source, what it consists of, and their checksums.
#	usage: dist.sh DIRECTORY
# Makes there, of the commit that is checked out, ringtail-VERSION.tar.xz, ringtail-VERSION.spdx.json and
# SHA256SUMS. The same commit makes the same source archive, byte for byte, wherever it is made.
set -eu
directory=$(realpath -m "${1:?usage: dist.sh DIRECTORY}")
cd "$(dirname "$0")/.."
version=$(sed -n 's/^VERSION[[:space:]]*:= //p' Makefile)
name=ringtail-$version
if ! git diff --quiet HEAD; then
	echo "dist: files differ from the commit; they are not in the archive:" >&2
	git diff --stat HEAD >&2
	exit 1
fi
mkdir -p "$directory"
rm -rf "${directory:?}/$name"* "$directory/SHA256SUMS"
git archive --format=tar --prefix="$name/" HEAD | xz -9 --threads=1 >"$directory/$name.tar.xz"
tar -x -C "$directory" -f "$directory/$name.tar.xz"
python3 .ci/sbom.py "$directory/$name" ringtail "$version" "$(git log -1 --format=%ct)" \
	>"$directory/$name.spdx.json"
rm -rf "${directory:?}/$name"
cd "$directory"
sha256sum "$name.tar.xz" "$name.spdx.json" >SHA256SUMS
cat SHA256SUMS
