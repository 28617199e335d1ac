#!/bin/sh
# inside: runs a command in a tree of another suite's packages, where a directory of this machine is /src.
#
#	usage: unshare -m tests/kernels/inside.sh TREE DIRECTORY COMMAND...
set -eu
tree=$1 directory=$2
shift 2
mkdir -p "$tree/src" "$tree/proc" "$tree/tmp" "$tree/dev"
mount --bind "$directory" "$tree/src"
mount -t proc proc "$tree/proc"
mount --bind /dev "$tree/dev"
exec chroot "$tree" /usr/bin/env -i PATH=/usr/bin:/usr/sbin HOME=/ LC_ALL=C "$@"
