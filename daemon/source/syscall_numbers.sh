#!/bin/sh
# Writes daemon/source/syscall_numbers.inc: a row for every system call that the system's headers name.
#	usage: syscall_numbers.sh COMPILER > BUILD/daemon/syscall_numbers.inc
set -eu
# shellcheck disable=SC2086 # the compiler may be several words
echo '#include <asm/unistd.h>' | $1 -E -dM - |
	sed -n 's/^#define __NR_\([a-z0-9_]*\) .*$/\1/p' |
	grep -vxE 'syscalls|arch_specific_syscall' | sort |
	sed 's/.*/{ __NR_&, "&" },/'
