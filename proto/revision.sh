#!/bin/sh
# revision: which source this is: 12 digits of the commit, with +changes where files differ from it.
#	usage: proto/revision.sh
# In a tree of git's, git says it. In one of `git archive` .revision does, for .gitattributes has it filled in.
set -u
cd "$(dirname "$0")/.." || exit 1
revision=unknown changes=
read -r archived <.revision
case $archived in
*Format*)
	# Of this tree itself, not of one that it happens to lie in.
	if [ -e .git ] && commit=$(git rev-parse HEAD 2>/dev/null); then
		revision=$commit
		git diff --quiet HEAD 2>/dev/null || changes=+changes
	fi ;;
?*)
	revision=${archived%%+*}
	changes=${archived#"$revision"} ;;
esac
printf '%.12s%s\n' "$revision" "$changes"
