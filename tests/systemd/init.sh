#!/usr/bin/busybox sh
# init: the first process. The kernel's first root cannot be pivoted away from, as units want to: the
# same tree, mounted once more on top of it, can. Then systemd begins.
busybox echo @begin
busybox mount --bind / /tmp
cd /tmp || exit 1
busybox mount --move . /
exec busybox chroot . /lib/systemd/systemd
