#!/bin/busybox sh
# bench_init: the first process of the virtual machine that measures. Says `@bench ROUND NAME NS` on
# the console for each tracer in each round, or `@why NAME REASON`, and powers off.
export PATH=/bin:/sbin:/usr/bin:/usr/sbin HOME=/tmp
/bin/busybox mkdir -p /proc /sys /dev /tmp /run /var/run /sbin /usr/bin
/bin/busybox --install -s /bin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs dev /dev
mkdir -p /dev/shm && mount -t tmpfs shm /dev/shm
mount -t tracefs trace /sys/kernel/tracing
mount -t tmpfs tmp /tmp
echo 3 >/proc/sys/kernel/printk
ip link set lo up
cd /sys/kernel/tracing
CALLS=100000
ROUNDS=3

ftrace() {
	echo 32768 >buffer_size_kb
	echo >trace
	echo 1 >events/raw_syscalls/enable
	/kmod_bench plain $CALLS
	echo 0 >events/raw_syscalls/enable
}

# The kernel's own ring in the session's memory, overwritten, with no reader, as ftrace above.
lttng_up() {
	[ -x /usr/bin/lttng-sessiond ] || { echo "@why lttng no lttng-modules for this kernel"; return 1; }
	lttng-sessiond -d 2>>/tmp/lttng.log
}

lttng_round() {
	{
		lttng create bench --snapshot &&
		lttng enable-channel -k chan --overwrite --subbuf-size=4M --num-subbuf=4 &&
		lttng enable-event -k -c chan --syscall getppid &&
		lttng start
	} >>/tmp/lttng.log 2>&1 && /kmod_bench plain $CALLS
	lttng destroy >/dev/null 2>&1
}

insmod /ringtail.ko
has_lttng=$(lttng_up >/tmp/why && echo yes)
cat /tmp/why
for round in $(seq $ROUNDS); do
	echo "@bench $round plain $(/kmod_bench plain $CALLS)"
	echo "@bench $round call $(/kmod_bench call $CALLS)"
	echo "@bench $round ftrace $(ftrace)"
	echo "@bench $round pair $(/kmod_bench pair $CALLS)"
	echo "@bench $round refused $(/kmod_bench refused $CALLS)"
	[ "$has_lttng" ] && echo "@bench $round lttng $(lttng_round)"
done
[ -s /tmp/lttng.log ] && grep -i error /tmp/lttng.log | head -3 | sed 's/^/@why lttng /'
echo "@end"
poweroff -f
