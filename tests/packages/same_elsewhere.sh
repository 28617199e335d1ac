#!/bin/sh
# same_elsewhere: the packages come out the same, byte for byte, from `git archive` in another place and at
# another time.
#	usage: same_elsewhere.sh PACKAGES_DIR SCRATCH_DIR
# PACKAGES_DIR has what .ci/deb.sh made of this tree, without ccache, which would hide what is in no cache.
set -eu
packages=$(realpath "$1")
scratch=$(realpath -m "$2")
cd "$(dirname "$0")/../.."
rm -rf "$scratch"
mkdir -p "$scratch/tree"
# The tree as it is now, edited files included.
commit=$(git stash create)
git archive "${commit:-HEAD}" | tar -x -C "$scratch/tree"
sh proto/revision.sh >"$scratch/tree/.revision"
CCACHE_DISABLE=1 TZ=Pacific/Auckland LC_ALL=C.UTF-8 faketime -f +400d \
	sh "$scratch/tree/.ci/deb.sh" "$scratch/packages" "$scratch/another/place/of/another/length" >/dev/null
different=0
for package in "$packages"/*.deb; do
	if cmp "$package" "$scratch/packages/${package##*/}"; then
		echo "ok ${package##*/} is the same elsewhere"
	else
		echo "not ok ${package##*/} is the same elsewhere"
		different=1
	fi
done
[ "$(find "$packages" -maxdepth 1 -name '*.deb' | wc -l)" = "$(find "$scratch/packages" -maxdepth 1 -name '*.deb' | wc -l)" ] || {
	echo "not ok the same number of packages"
	different=1
}
[ "$different" = 1 ] || rm -rf "$scratch"
exit "$different"
