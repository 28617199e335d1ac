#!/bin/busybox sh
# init: the first process of the virtual machine. Loads the module, runs the tests that the kernel
# command line names, says on the console how each went (case.sh), and powers off. Called again as
# `/init FUNCTION` it runs that function alone.
export PATH=/bin:/sbin:/usr/bin

# ---- Tests that are no programs ------------------------------------------------------------------

self_test() {
	dmesg | grep -q "ringtail: self-test passed"
}

not_allowed() {
	echo N >/sys/module/ringtail/parameters/allow
	if (exec 9</dev/ringtail) 2>/tmp/open; then return 1; fi
	grep -q "not permitted" /tmp/open || return 1
	echo Y >/sys/module/ringtail/parameters/allow
	(exec 9</dev/ringtail)
}

# While somebody has the device open, the module stays.
busy_while_open() {
	exec 9</dev/ringtail || return 1
	if rmmod ringtail 2>/tmp/rmmod; then return 1; fi
	exec 9<&-
	rmmod ringtail && insmod /ringtail.ko
}

load_and_unload() {
	i=0
	while [ $i -lt $((100 / ${fewer:-1})) ]; do
		rmmod ringtail && insmod /ringtail.ko || return 1
		i=$((i + 1))
	done
}

# A module that was there first is found; it goes on when ringtail is removed, and is found again.
probes_of_loaded_module() {
	rmmod ringtail && insmod /probed.ko && insmod /ringtail.ko && /kmod_test probed_are_exact || return 1
	rmmod ringtail && echo 10 >/sys/module/probed/parameters/turns && insmod /ringtail.ko &&
		/kmod_test probed_are_exact && rmmod probed
}

# While the fuzzer runs.
come_and_go() {
	while :; do
		insmod /probed.ko && echo 50 >/sys/module/probed/parameters/turns && rmmod probed
	done
}

if [ $$ != 1 ]; then
	. /case.sh
	fewer=$(option fewer)
	"$1"
	exit
fi

# ---- Start ---------------------------------------------------------------------------------------

/bin/busybox echo @begin
/bin/busybox mkdir -p /proc /sys /dev /tmp /run /sbin /usr/bin
/bin/busybox --install -s /bin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs dev /dev
mount -t tracefs trace /sys/kernel/tracing
mount -t tmpfs tmp /tmp
ip link set lo up
echo 6 >/proc/sys/kernel/printk
echo 0 >/proc/sys/kernel/kptr_restrict

# With two functions on each tracepoint already, ours come and go without a change to the code.
hold_tracepoints() {
	for instance in one two; do
		mkdir /sys/kernel/tracing/instances/$instance
		cd /sys/kernel/tracing/instances/$instance
		echo 0 >tracing_on
		echo 8 >buffer_size_kb
		echo 1 >events/raw_syscalls/enable
		for event in switch wakeup wakeup_new process_exit process_exec process_fork; do
			echo 1 >events/sched/sched_$event/enable
		done
		cd /
	done
}

run_module_tests() {
	run self_test 5 /init self_test
	for test in $(/kmod_test); do
		run "$test" 60 /kmod_test "$test"
	done
	for test in not_allowed busy_while_open load_and_unload probes_of_loaded_module; do
		run $test 120 /init $test
	done
	[ "$fuzz" ] || return
	/init come_and_go &
	run fuzz $((fuzz + 60)) /kmod_fuzz "$fuzz"
	kill $!
	wait
	if [ -d /sys/module/probed ]; then rmmod probed; fi
}

# What the daemon promises with the BPF source it promises with the module.
run_scenarios() {
	export RINGTAIL_SLOW=8 RINGTAIL_FEWER="${fewer:-1}" PYTHONDONTWRITEBYTECODE=1 LC_ALL=C.UTF-8
	chmod 755 / /ringtail /tmp
	for scenario in exact_one_process exact_four_processes entry_and_return sched_events \
			filters_in_kernel strings_and_stacks no_self_trace overload \
			shutdown_delivers_all reload cpu_added probes_of_modules; do
		run "scenario_$scenario" 150 python3 "/ringtail/tests/scenario/$scenario.py"
	done
}

. /case.sh
fuzz=$(option fuzz) fewer=$(option fewer)
[ "$(option hold)" ] && hold_tracepoints
if ! insmod /ringtail.ko; then
	say not load
	poweroff -f
fi
say ok load
if [ -d /ringtail ]; then
	echo 67108864 >/sys/module/ringtail/parameters/ring_bytes_max
	run_scenarios
else
	run_module_tests
fi
run unload 20 rmmod ringtail
say end
poweroff -f
