# SPDX-License-Identifier: GPL-2.0-only
#
# In: a kernel's headers unistd_64.h (numbers and names), syscalls_64.h (numbers and functions), or
# syscall_numbers.i, which has both, and syscalls.h (functions and their arguments), in this order;
# clone_backwards: y where that is how the kernel is configured. Out: one initializer for each system
# call, for syscall_table.c. Nothing about a call is typed in by hand; one whose arguments
# the headers do not give gets six that are called arg0 to arg5.

/^#define[ \t]+__NR_[a-z0-9_]+[ \t]+[0-9]+[ \t]*$/ && $2 != "__NR_syscalls" {
	name[$3] = substr($2, 6)
	next
}

# The generic table has a number of its own for what is called otherwise on 32 bits.
/^#define[ \t]+__NR3264_[a-z0-9_]+[ \t]+[0-9]+[ \t]*$/ {
	number[$2] = $3
	next
}

/^#define[ \t]+__NR_[a-z0-9_]+[ \t]+__NR3264_[a-z0-9_]+[ \t]*$/ {
	name[number[$3]] = substr($2, 6)
	next
}

# __SYSCALL(0, sys_read), and since 6.11 __SYSCALL_NORETURN(60, sys_exit)
/^__SYSCALL/ {
	split($0, part, /[(,) \t]+/)
	if (part[3] ~ /^sys_/)
		function_of[part[2]] = part[3]
	next
}

/^asmlinkage long sys_/ {
	prototype = $0
	while (prototype !~ /;/ && (getline more) > 0)
		prototype = prototype " " more
	gsub(/[ \t]+/, " ", prototype)
	match(prototype, /sys_[a-z0-9_]+/)
	key = substr(prototype, RSTART, RLENGTH)
	sub(/^[^(]*\(/, "", prototype)
	sub(/\) ?;.*/, "", prototype)
	# Of sys_clone's three, the first is that of CONFIG_CLONE_BACKWARDS and the last that of x86.
	if (!(key in arguments) || clone_backwards != "y")
		arguments[key] = prototype
}

# Whether an argument called `called` that points to const char is a text, not a buffer.
function is_text(type, called) {
	return type ~ /^const char \*$/ && called !~ /buf|data|value/
}

function kind(type, called) {
	if (is_text(type, called))
		return "RT_FIELD_STRING"
	if (type ~ /\*|sighandler_t/)
		return "RT_FIELD_HEX"
	if (called ~ /fd[0-9]?$|^fildes$|^fd_(in|out)$/)
		return "RT_FIELD_FD"
	if (called ~ /flag|mode|mask|prot|addr|start|brk/)
		return "RT_FIELD_HEX"
	if (type ~ /unsigned|size_t|^u[0-9]+$|uid_t|gid_t|qid_t/ && type !~ /ssize_t/)
		return "RT_FIELD_UNSIGNED"
	return "RT_FIELD_SIGNED"
}

function bits(type) {
	if (type ~ /\*|long|size_t|off_t|u64|sighandler_t|aio_context_t/)
		return 64
	if (type ~ /umode_t|u16/)
		return 16
	return 32
}

function field(text, i,    called, type, n, word) {
	gsub(/__user|__attribute__.*/, "", text)
	gsub(/[ \t]+/, " ", text)
	sub(/^ /, "", text)
	sub(/ $/, "", text)
	sub(/\[\]$/, "", text)
	gsub(/\*/, " * ", text)
	gsub(/ +/, " ", text)
	sub(/ $/, "", text)
	n = split(text, word, " ")
	called = word[n]
	if (n == 1 || called == "*" || called ~ /^(int|long|unsigned|char|size_t|const)$/ ||
	    (n == 2 && word[1] == "struct")) {
		called = "arg" i
		type = text
	} else {
		type = substr(text, 1, length(text) - length(called) - 1)
	}
	gsub(/ \* \*/, " **", type)
	return sprintf("{%s, %d, \"%s\", \"%s\"}", kind(type, called), bits(type),
		       substr(called, 1, 23), substr(type, 1, 39))
}

END {
	for (nr = 0; nr < 1024; nr++) {
		if (!(nr in name))
			continue
		key = function_of[nr]
		count = 0
		text = ""
		if (key == "sys_rt_sigreturn") {
			count = 0
		} else if (key in arguments) {
			if (arguments[key] != "void")
				count = split(arguments[key], one, ",")
			for (i = 1; i <= count; i++)
				text = text (i > 1 ? ", " : "") field(one[i], i - 1)
		} else {
			count = 6
			for (i = 0; i < count; i++)
				text = text (i ? ", " : "") "{RT_FIELD_HEX, 64, \"arg" i "\", \"long\"}"
		}
		printf "[%d] = {\"%s\", %d, {%s}},\n", nr, name[nr], count, text
	}
}
