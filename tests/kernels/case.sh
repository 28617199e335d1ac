# case: runs one case in a virtual machine and says on its console how that went, in the words of console.sh;
# for an init of busybox to read in. Of the kernel's command line, rt.run and rt.among are globs, apart by
# commas: a case runs that both of them have; one that is not given has all.

option() {
	sed -n "s/.*\brt\.$1=\([^ ]*\).*/\1/p" /proc/cmdline
}

# In a shell of its own, so that nothing else is split so.
in_list() (
	set -f
	IFS=,
	# shellcheck disable=SC2254 # a glob is what it is
	for pattern in $2; do
		case $1 in
		$pattern) exit 0 ;;
		esac
	done
	exit 1
)

only=$(option run)
among=$(option among)

say() {
	echo "@$1 $2"
}

# run NAME SECONDS COMMAND...: passed with 0, skipped with 77, late with 75 or when it had to be killed.
run() {
	name=$1 seconds=$2
	shift 2
	in_list "$name" "${only:-*}" && in_list "$name" "${among:-*}" || return
	say run "$name"
	echo "# $name" >/dev/kmsg
	timeout -s KILL "$seconds" "$@"
	case $? in
	0) say ok "$name" ;;
	77) say skip "$name" ;;
	75) say late "$name" ;;
	137) say late "$name: it was killed after $seconds s of the machine's time" ;;
	*) say not "$name" ;;
	esac
}
