#!/bin/sh
# Checks ring.pml exhaustively, then that the model bites: each mutation must have a counterexample.
# Needs 1 GiB and about 20 s. Exit 0 good, 1 not, 77 no spin.
# `tests/model/run.sh FLAG...` checks one other size: -DPOLL -DWRITERS=3 -DATTEMPTS=2 -DCELLS=4
set -eu

here=$(cd "$(dirname "$0")" && pwd)
command -v spin >/dev/null || { echo "SKIP: spin is not installed (apt-get install spin)"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
cp "$here/ring.pml" .

# verify NAME FLAG...: every interleaving; leaves what spin found in $errors.
verify() {
	name=$1
	shift
	spin "$@" -a ring.pml >spin.log 2>&1 || { cat spin.log; exit 1; }
	# shellcheck disable=SC2086 # it may be two words: ccache gcc
	${CC:-cc} -O2 -w -DSAFETY -DCOLLAPSE -o pan pan.c
	timeout "${MODEL_SECONDS:-180}" ./pan -m100000 >pan.log 2>&1 || { tail pan.log; exit 1; }
	errors=$(sed -n 's/.*errors: \([0-9]*\).*/\1/p' pan.log)
	states=$(sed -n 's/^ *\([0-9.e+]*\) states, stored.*/\1/p' pan.log)
	echo "$name: $states states, $errors errors"
}

check() {
	verify "$@"
	if [ "$errors" != 0 ] || grep -q "max search depth too small" pan.log; then
		cat pan.log
		exit 1
	fi
}

# mutate NAME FLAG...: the same with one thing wrong.
mutate() {
	mutation=$1
	shift
	verify "  with $mutation" "-DMUTATE_$mutation" "$@"
	[ "$errors" != 0 ] || { echo "FAILED: the model does not notice $mutation"; exit 1; }
	sed -n 's/^pan:[0-9]*: /    /p' pan.log | head -1
}

if [ $# -gt 0 ]; then
	check "ring $*" "$@"
	exit 0
fi
check "two writers, three laps" -DPOLL -DWRITERS=2 -DATTEMPTS=3
check "three writers, each in each" -DPOLL -DWRITERS=3 -DATTEMPTS=1
check "a reader that sleeps on the bell" -DWRITERS=2 -DATTEMPTS=2
for mutation in TAG_WITHOUT_POSITION COMMIT_FIRST RESERVE_WITHOUT_COMPARE RELEASE_FIRST TRAILING_ORDER
do
	mutate $mutation -DPOLL -DWRITERS=2 -DATTEMPTS=2
done
mutate ARM_WITHOUT_LOOK -DWRITERS=2 -DATTEMPTS=2
echo ok
