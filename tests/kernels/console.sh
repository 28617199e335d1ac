# console: boots a virtual machine and reports what it has said; for scripts to read in.
#
# In the machine, the first program says `@begin` before it does anything. Each case says on lines of its own
# `@run NAME`, then whatever it says, then `@ok NAME`, `@skip NAME`, `@late NAME: ...` (it only ran out of time) or
# `@not NAME: ...`; and `@end` comes after all. That is what case.sh does there.

# Words that a healthy kernel does not say.
complaints='WARNING:|BUG:|BUG |Oops|general protection|Call Trace|lockdep|possible recursive'
complaints="$complaints|INFO: rcu|self-detected stall|soft lockup|hard LOCKUP|while atomic"
complaints="$complaints|sleeping function|refcount_t|use-after-free|Kernel panic|blocked for more"
complaints="$complaints|Out of memory"

# boot_guest CONSOLE SECONDS THREAD CPUS IMAGE INITRD WORDS...: until it powers off, or for that long. The
# kernel's command line gets the words too. THREAD: with single, one thread of the host runs all of its CPUs,
# with multi each has one; with counted it is one, and the clock counts instructions, 8 ns each: a host that is busy
# does not make the machine slow, and where nothing runs in it time jumps to what comes next.
# Its processor is that of $guest_arch, amd64 or arm64. A kernel that dies before anything of ours ran is booted again,
# three times in all, and that is told: Linux 6.12 did so once, where it rewrites its own code at the start.
# With $guest_adds, an amd64 gets one CPU more when a case says `@add-cpu`; or, where the kernel takes none from this qemu,
# has one more from the beginning that does not run yet.
boot_guest() {
	console=$1 seconds=$2 thread=$3 guest_cpus=$4 guest_image=$5 initrd=$6 guest_count='' plug='' adder=''
	shift 6
	guest_version=${guest_image##*/vmlinuz-}
	[ "$thread" != counted ] || thread=single guest_count='-icount shift=3,sleep=off'
	case ${guest_arch:-amd64} in
	arm64) guest_board='qemu-system-aarch64 -M virt' guest_words=console=ttyAMA0 ;;
	*)
		python3 tests/kernels/unpack_kernel.py "$guest_image" "$console.kernel" &&
			guest_image=$console.kernel
		guest_board=qemu-system-x86_64
		guest_words="console=ttyS0 tsc=reliable $(guest_clock "$console.tsc")" ;;
	esac
	if [ "${guest_adds:-}" ]; then
		guest_words="$guest_words rt.adds=1"
		if takes_cpus "$guest_version"; then
			guest_board="$guest_board -qmp unix:$console.qmp,server=on,wait=off"
			guest_cpus="$guest_cpus,maxcpus=$((guest_cpus + 1))" plug=1
		else
			guest_words="$guest_words maxcpus=$guest_cpus"
			guest_cpus=$((guest_cpus + 1))
		fi
	fi
	for boot in 1 2 3; do
		: >"$console.raw"
		if [ "$plug" ]; then
			python3 tests/kernels/add_cpu.py "$console.raw" "$console.qmp" &
			adder=$!
		fi
		# shellcheck disable=SC2086 # words
		timeout -k 5 "$seconds" $guest_board -accel "tcg,thread=$thread" $guest_count -cpu max -m 1536 \
			-smp "$guest_cpus" -nographic -no-reboot -monitor none -serial stdio -nodefaults \
			-kernel "$guest_image" -initrd "$initrd" -append \
			"$guest_words quiet panic=-1 rcupdate.rcu_cpu_stall_timeout=120 watchdog_thresh=60 $*" \
			</dev/null >"$console.raw" 2>&1
		ended=$?
		[ -z "$adder" ] || { kill "$adder"; wait "$adder"; } 2>/dev/null
		tr -d '\r' <"$console.raw" >"$console"
		died_before_us "$console" || break
		echo "# boot $boot of $guest_image: the kernel died before its first program ran:"
		grep -aE -A 12 "$complaints" "$console" | head -40 | sed 's/^/# | /'
	done
	rm -f "$console.raw" "$console.qmp" "$console.tsc" "$console.kernel"
}

# say_made QEMU: when, of which commit and by which emulator, for table.py.
say_made() {
	echo "# made $(date +%F), $(git describe --always --dirty 2>/dev/null || echo no git)," \
		"qemu $("$1" --version | sed -n '1s/.*version \([0-9]*\.[0-9]*\).*/\1/p')"
}

# takes_cpus VERSION: before 6.9, Linux believed firmware of the age of qemu's that it can add a CPU that is not there yet.
takes_cpus() {
	printf '%s\n6.9\n' "$1" | sort -CV
}

# died_before_us CONSOLE: the kernel gave up before its first program ran.
died_before_us() {
	grep -aq 'Kernel panic' "$1" && ! grep -aq '@begin' "$1"
}

# report_guest MACHINE CONSOLE SECONDS: `ok MACHINE NAME`, `not ok ...`, `late ...` or `skip ...` of each case,
# what it said with those that did not pass, the machine's end, and its kernel's log. Returns 0, 1: something
# failed, 75: something was late and nothing failed. After boot_guest, which has set $ended.
report_guest() {
	guest_complaints=$(grep -aE "$complaints" "$2" | grep -av '^[#@]')
	# Whoever had to be ended was perhaps only slow; but not when its kernel has complained.
	slow=not
	[ "$ended" = 124 ] && [ -z "$guest_complaints" ] && slow=late
	awk -v machine="$1" -v seconds="$3" -v slow="$slow" '
	function tell(word, text, most,    i) {
		print (word == "not" ? "not ok" : word) " " machine " " text
		for (i = said > most ? said - most + 1 : 1; i <= said; i++)
			print "# | " line[i]
		failed += word == "not"; late += word == "late"
	}
	match($0, /@(run|ok|not|late|skip|note|end)( .*)?$/) {
		word = $0 = substr($0, RSTART + 1)
		sub(/ .*/, "", word); sub(/^[a-z]+ ?/, "")
		if (word == "end") ended = 1
		else if (word == "run") { said = counted = 0; at = $0 }
		else if (word == "note") print "# " $0
		else if (word == "not" || word == "late") tell(word, $0, 60)
		else print (word == "skip" || !counted ? "" : "# ") word " " machine " " $0
		next
	}
	# The cases of a program that cmocka has counted.
	/^\[  PASSED  \]|^\[  SKIPPED \]/ { print; counted = 1 }
	{ line[++said] = $0 }
	END {
		if (!ended)
			tell(slow, "guest: it did not come to its end in " seconds " s; it was at " at, 40)
		exit failed ? 1 : late ? 75 : 0
	}' "$2"
	reported=$?
	if [ "$guest_complaints" ]; then
		echo "not ok $1 kernel_log: $(echo "$guest_complaints" | head -1)"
		grep -aE -B 2 -A 30 "$complaints" "$2" | head -80 | sed 's/^/# | /'
		return 1
	fi
	echo "ok $1 kernel_log"
	return $reported
}

# worse A B: of two such results.
worse() {
	if [ "$1" = 1 ] || [ "$2" = 0 ]; then echo "$1"; else echo "$2"; fi
}
