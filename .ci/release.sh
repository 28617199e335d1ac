#!/bin/sh
# release: what must be so before a version is published, each looked at, and then the files made.
#	usage: release.sh DIRECTORY
# Says `ok` or `not ok` of each, and at the end the commands that publish, which it leaves to you. The tests
# themselves are .ci/run's: it must have passed on this commit, and leaves build/passed, which is looked for.
set -u
directory=${1:?usage: release.sh DIRECTORY}
cd "$(dirname "$0")/.." || exit 1
version=$(sed -n 's/^VERSION[[:space:]]*:= //p' Makefile)
commit=$(git rev-parse HEAD)
failed=0

must() { # must WHAT COMMAND...
	what=$1
	shift
	if said=$("$@" 2>&1); then
		echo "ok $what"
	else
		echo "not ok $what"
		printf '%s\n' "$said" | tail -5 | sed 's/^/    /'
		failed=1
	fi
}

same_twice() {
	sh .ci/dist.sh "$directory" && cp "$directory/SHA256SUMS" "$directory/.first" &&
		sh .ci/dist.sh "$directory" && cmp "$directory/SHA256SUMS" "$directory/.first" &&
		rm "$directory/.first"
}

builds_from_archive() {
	scratch=$(mktemp -d) || return
	tar -x -C "$scratch" -f "$directory/ringtail-$version.tar.xz" &&
		make -s -C "$scratch/ringtail-$version" -j"$(nproc)" all &&
		"$scratch/ringtail-$version/build/tracectl" --version | grep "^revision $(echo "$commit" | cut -c 1-12)$" &&
		"$scratch/ringtail-$version/build/tracectl" read "$scratch/ringtail-$version/tests/data/capture.rt" -o none
	status=$?
	rm -rf "$scratch"
	return $status
}

must "no file differs from the commit" git diff --quiet HEAD
must "everybody says version $version" python3 tests/unit/check/version_test.py
must "CHANGELOG.md has a section for $version" grep -qx "## $version" CHANGELOG.md
must "debian/changelog is no draft" sh -c '! head -1 debian/changelog | grep UNRELEASED'
must "tests/data/$version has files of this version, for those to come to read" test -d "tests/data/$version"
must "v$version is not published yet" sh -c '! git rev-parse -q --verify "refs/tags/v$0"' "$version"
must ".ci/run has passed on this commit" grep -qx "$commit" build/passed
must "two archives of the commit are the same" same_twice
must "what is in the archive builds, knows its commit, and reads" builds_from_archive
must "the checksums are right" sh -c 'cd "$0" && sha256sum --check --quiet SHA256SUMS' "$directory"
[ $failed = 0 ] || exit 1
cat <<SAY
Now:
    git tag -s v$version -m 'ringtail $version'
    gpg --detach-sign --armor $directory/SHA256SUMS
    git push origin v$version
and publish $directory/ringtail-$version.tar.xz, ringtail-$version.spdx.json, SHA256SUMS, SHA256SUMS.asc.
SAY
