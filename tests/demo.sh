#!/bin/sh
# demo: the whole of ringtail on this kernel: daemon, live events, rates, an answer, the closed ledger.
#	usage: tests/demo.sh [BUILD]
# Where the kernel does not let BPF programs in, it says why and replays the capture in tests/data.
set -u
build=${1:-build}
capture=tests/data/capture.rt
work=$(mktemp -d)
sudo=
[ "$(id -u)" = 0 ] || sudo=sudo
run=$($sudo mktemp -d)
address=unix:$run/ringtail.sock
tracectl="$build/tracectl --connect $address"
daemon=

stop() {
	[ -n "$daemon" ] && $sudo kill "$daemon" 2>/dev/null && wait "$daemon" 2>/dev/null
	daemon=
}
trap 'stop; rm -rf "$work"; $sudo rm -rf "$run"' EXIT
trap 'exit 130' INT TERM

title() {
	printf '\n== %s\n' "$*"
}

# The user that the daemon runs as, once it has bound its socket and loaded its programs.
make_user() {
	getent passwd ringtail >/dev/null && return
	echo 'There is no user ringtail yet, for the daemon to run as. This makes it, as `make install` and'
	echo 'systemd-sysusers would:'
	set -x
	$sudo useradd --system --user-group --no-create-home --home-dir /var/lib/ringtail \
		--shell /usr/sbin/nologin ringtail
	{ set +x; } 2>/dev/null
}

# start SOURCE: 0 once the daemon is ready; what it says is in $work/log.
start() {
	$sudo "$build/ringtaild" --config /dev/null --listen "$address" "$@" >"$work/log" 2>&1 &
	daemon=$!
	for _ in $(seq 300); do
		grep -q '\[ready\]' "$work/log" && break
		kill -0 "$daemon" 2>/dev/null || { wait "$daemon"; daemon=; return 1; }
		sleep 0.1
	done
	$sudo chmod 0666 "$run/ringtail.sock"
	$sudo chmod 0755 "$run"
}

# await_client PROBE: until a client is subscribed to it.
await_client() {
	for _ in $(seq 100); do
		$tracectl stat | grep -q "$1" && break
		sleep 0.1
	done
}

# A little of what a system does all day.
workload() {
	export LC_ALL=C
	for file in /etc/hostname /etc/os-release /no/such/file; do
		cat "$file" >/dev/null 2>&1
	done
	ls / >/dev/null
	sh -c 'echo hello | tr a-z A-Z >/dev/null; exit 3'
}

show_live() {
	title 'live: what a shell, cat and ls are doing (open, exec and exit, with their strings)'
	$tracectl stream -p syscall:openat:call -p syscall:execve:call -p syscall:exit_group:call \
		-f 'comm in ("cat", "ls", "sh", "tr", "demo.sh")' --flags strings --duration 3s \
		>"$work/events" &
	client=$!
	await_client openat
	workload
	wait $client
	head -n 24 "$work/events"
	printf '   ... %s lines in all\n' "$(wc -l <"$work/events")"
}

show_rates() {
	title 'rates: 1,000,000 system calls, every one streamed to a client and checked'
	$tracectl --summary json stream -p syscall:getppid:call -f 'comm == "load"' -o none \
		-n 1000000 --duration 60s 2>"$work/summary" &
	client=$!
	await_client getppid
	"$build/tools/load" -n 1000000 | tail -n 1 | cut -d, -f1-5 | sed 's/$/}/'
	wait $client
	status=$?
	cat "$work/summary"
}

show_answer() {
	title 'an answer: in which calls does find spend its time? (tracectl summary)'
	$tracectl --summary text summary -f 'comm == "find"' --duration 3s >"$work/answer" 2>"$work/summary" &
	client=$!
	await_client 'syscall:'
	find /usr/include /usr/share/doc -name '*.h' -newer /etc/hostname >/dev/null 2>&1
	wait $client
	head -n 8 "$work/answer"
	tail -n 1 "$work/summary"
}

show_ledger() {
	title 'the ledger: produced = events + meta + lost + in flight, for every CPU'
	$tracectl stat | sed -n '/^ledger/,$p'
}

show_replay() {
	title "an answer from the capture $capture: in which calls is time spent? (tracectl summary)"
	"$build/tracectl" summary "$capture" | head -n 8
	title "replay: the capture $capture, read by the same daemon"
	start --source "replay:$capture" --replay-pace fast || { cat "$work/log"; exit 1; }
	$tracectl --summary json stream -p '*:*:*' >"$work/events" 2>"$work/summary"
	status=$?
	head -n 24 "$work/events"
	printf '   ... %s lines in all\n' "$(wc -l <"$work/events")"
	cat "$work/summary"
	show_ledger
}

title "ringtaild on $(uname -sr)"
make_user
# A ring for a million calls in a fifth of a second, whatever else the machine is doing.
if start --ring-size 16MiB; then
	cat "$work/log"
	show_live
	show_rates
	show_answer
	show_ledger
	stop
else
	cat "$work/log"
	echo 'This kernel cannot be traced from here; here is a recording of one that can:'
	show_replay
fi
title 'that was it; to look around yourself:'
cat <<EOF
   sudo $build/ringtaild --http 127.0.0.1:7118 &
                                         the daemon, on /run/ringtail/ringtail.sock, with a status
                                         page at http://127.0.0.1:7118/ and metrics at /metrics
   sudo $build/tracectl stream -p 'syscall:open*:call' --flags strings
   sudo $build/tracectl stat -w
EOF
exit $status
